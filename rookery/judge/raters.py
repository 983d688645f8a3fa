"""How each person works at the desk: how much, how fast, how rightly, how much like researchers.

It knows nothing of stores, and excludes nobody.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from rookery.judge.agreement import Measured, Side, Undefined, Value, measured, same, side_bias
from rookery.judge.counted import Placed, Work
from rookery.judge.forms import FORMS
from rookery.judge.meaning import right
from rookery.judge.valued import TIE, preference, said
from rookery.judge.work import Judgement, Role
from rookery.records import Record

PASSED = 0.75
"""of a prelude, the share to be right (GopherCite, appendix C.1)"""
SUPER = 0.85
"""agreement of super raters with researchers, on each of three judgements (GopherCite, appendix
C.1)"""
FEWEST = 10
"""judgements on each of the three before anybody is called a super rater, or not; the paper had
20 comparisons"""
FAST = 0.1
"""of the time that a form takes: who took less may only have clicked"""
HASTY = 0.2
"""of somebody's judgements, the share of fast ones to look into"""
LOPSIDED = 0.01
"""the chance below which one side is preferred too often"""
_THREE = ("supported", "plausible", "preferred")


class Prelude(Record, frozen=True):
    """How somebody did in the attention check of a batch (GopherCite, appendix C.1)."""

    batch: str
    right: int
    judged: int
    """with what was skipped or flagged, which is not right"""
    of: int
    passed: bool | None
    """None: it is not over, and can still end either way"""


class Trusted(Record, frozen=True):
    """How far somebody agrees with researchers; ties and doubts on either side do not count."""

    supported: Measured
    plausible: Measured
    preferred: Measured
    passed: bool | None
    """a super rater; None: too few judgements in common"""


class Labelling(Record, frozen=True):
    """One person's work, also what was excluded of it."""

    name: str
    role: Role
    done: int
    """of a judgement and its correction, one"""
    late: int
    """of what was done, after another had taken the place"""
    skipped: int
    flagged: int
    excluded: int
    """of what was done"""
    seconds: float | None
    """the median of one item; None: nothing was done"""
    fast: int
    """done in less than a tenth of the time that the form takes"""
    hasty: bool
    """more than a fifth of what was done: look into it"""
    gold: int
    """items with a known answer that were done, preludes apart"""
    gold_right: int
    preludes: tuple[Prelude, ...]
    side: Side | None
    """how often the first of two answers was preferred; None: nothing was preferred"""
    lopsided: bool
    """hardly by chance: look into it"""
    trusted: Trusted | None
    """None: a researcher, or somebody who has no item in common with one"""


def labellings(work: Work) -> tuple[Labelling, ...]:
    """Everybody who handed something in, by name."""
    by: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in work.judgements:
        by[judgement.by].append(judgement)
    researched = _researched(work)
    return tuple(_labelling(work, name, by[name], researched) for name in sorted(by))


def preludes_of(work: Work, made: Sequence[Judgement]) -> tuple[Prelude, ...]:
    """One person's, of each batch that has one and that the person began."""
    first: dict[str, Judgement] = {}
    for judgement in made:
        if work.items[judgement.item].prelude:
            # What was corrected later was corrected with the right answer before one's eyes.
            first.setdefault(judgement.item, judgement)
    size = Counter(placed.batch for placed in work.items.values() if placed.prelude)
    batches = sorted({work.items[item].batch for item in first})
    return tuple(_prelude(work, batch, size[batch], list(first.values())) for batch in batches)


def _prelude(work: Work, batch: str, size: int, made: Sequence[Judgement]) -> Prelude:
    here = [each for each in made if work.items[each.item].batch == batch]
    good = sum(_right(work.items[each.item], each) for each in here)
    passed = None
    if good >= PASSED * size:
        passed = True
    elif good + size - len(here) < PASSED * size:
        passed = False
    return Prelude(batch, good, len(here), size, passed)


def _right(placed: Placed, judgement: Judgement) -> bool:
    return judgement.kind in ("done", "extra") and right(placed.item, judgement.filled)


def _labelling(work: Work, name: str, made: Sequence[Judgement], researched: "_Said") -> Labelling:
    kinds = Counter(each.kind for each in made)
    done = [each for each in made if each.kind in ("done", "extra") and not _corrected(work, each)]
    fast = sum(_is_fast(work.items[each.item], each) for each in done)
    gold = [
        _right(placed, each)
        for each in done
        if (placed := work.items[each.item]).item.gold is not None and not placed.prelude
    ]
    side = _side(work, done)
    return Labelling(
        name,
        work.roles[name],
        done=len(done),
        late=sum(each.kind == "extra" for each in done),
        skipped=kinds["skipped"],
        flagged=kinds["flagged"],
        excluded=sum(each.id in work.left for each in done),
        seconds=median(each.ended - each.began for each in done) if done else None,
        fast=fast,
        hasty=fast > HASTY * len(done),
        gold=len(gold),
        gold_right=sum(gold),
        preludes=preludes_of(work, made),
        side=side,
        lopsided=side is not None and side.chance < LOPSIDED,
        trusted=None if work.is_researcher(name) else _trusted(work, done, researched),
    )


def _corrected(work: Work, judgement: Judgement) -> bool:
    left = work.left.get(judgement.id)
    return left is not None and left.why == "corrected"


def _is_fast(placed: Placed, judgement: Judgement) -> bool:
    form = FORMS.get(placed.item.form)
    return form is not None and judgement.ended - judgement.began < FAST * 60 * form.minutes


def _side(work: Work, done: Sequence[Judgement]) -> Side | None:
    first = judged = 0
    for each in done:
        item = work.items[each.item].item
        if len(item.answers) == 2 and (chosen := preference(item, each)) not in (None, TIE):
            judged += 1
            first += each.order[0] == chosen
    return side_bias(first, judged)


_Said = dict[str, list[dict[tuple[str, tuple[int, ...]], Value]]]
"""of each item, what each researcher said without a doubt"""


def _researched(work: Work) -> _Said:
    found: _Said = defaultdict(list)
    for placed, judgement in work.counting():
        if work.is_researcher(judgement.by) and not placed.prelude:
            found[placed.id].append(_doubtless(placed, judgement))
    return found


def _doubtless(placed: Placed, judgement: Judgement) -> dict[tuple[str, tuple[int, ...]], Value]:
    """Whether each answer is supported and plausible, yes or no, and which is preferred."""
    found: dict[tuple[str, tuple[int, ...]], Value] = {}
    form = FORMS.get(placed.item.form)
    for field, place, value in said(form, judgement.filled) if form else ():
        if field.scale in _THREE and value in ("yes", "no"):
            found[field.scale, place] = value
    chosen = preference(placed.item, judgement)
    if chosen not in (None, TIE):
        found["preferred", ()] = str(chosen)
    return found


def _trusted(work: Work, done: Sequence[Judgement], researched: _Said) -> Trusted | None:
    pairs: dict[str, list[tuple[Value, Value]]] = defaultdict(list)
    for each in done:
        for theirs in researched.get(each.item, ()):
            for where, value in _doubtless(work.items[each.item], each).items():
                if where in theirs:
                    pairs[where[0]].append((value, theirs[where]))
    if not pairs:
        return None
    three = {name: measured(pairs[name], same) for name in _THREE}
    enough = all(each.items >= FEWEST for each in three.values())
    passed = all(
        not isinstance(each.value, Undefined) and each.value >= SUPER for each in three.values()
    )
    return Trusted(**three, passed=passed if enough else None)
