"""What a quote typed from memory was meant to be: the page's own words, or a reason why not.

For models whose sampling cannot be held to the page. A likeness only proposes: a sentence and its
negation are 99 % alike, so a repair also asks which words differ. Knows nothing of who typed.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Literal, NamedTuple

import msgspec
from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from rookery.browse.fold import INVISIBLE, TYPOGRAPHY, Folded, fold
from rookery.browse.locate import locate
from rookery.browse.words import reads_as_english
from rookery.cite.cues import denies
from rookery.records import Page, Quote, Record

Span = tuple[int, int]
Outcome = Literal["exact", "folded", "repaired", "rejected"]

WORD = re.compile(r"(?:(?<!\w)[-+<>≤≥±]?[$€£¥]?(?=\d))?\w+(?:[^\w\s]+\w+)*[%‰]?|[<>=≤≥≠±×÷%‰]")
BEFORE = re.compile(r"\S*\w[^\S\n]+\Z")
AFTER = re.compile(r"\A[^\S\n]+\w\S*")
"""the word beside a span, where nothing ends between them"""
NEGATIVE = frozenset(
    "nowhere without hardly scarcely barely seldom rarely unable lack lacks lacked lacking "
    "fail fails failed failing dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt "
    "shouldnt hasnt havent hadnt".split()
)
NEGATING = ("un", "in", "im", "il", "ir", "dis", "non", "non-")
COUNTING = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion dozen half halves third quarter fifth once twice "
    "thrice single double triple first second fourth sixth seventh eighth ninth tenth".split()
)
ORDINARY = frozenset(
    "The This That These Those There They He She We It Its But And Or If When While As At By For "
    "From In Of On To With".split()
)
"""words whose capital only says that a sentence begins"""
MISTYPED = 80.0
"""percent above which two words are likely one word and its misspelling"""
NEAR = 2000
"""characters to either side of a span that tell which language it is in"""
EDGE = 30
"""characters beside a span that are looked at for the next word"""
SLACK = 15.0
"""percent by which a window of the quote's own length may be less alike than the span found"""


class RepairSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a likeness is near enough to propose a span."""

    cutoff: float = 90.0
    """percent of characters, of both texts together, that stand in both in the same order"""
    shortest: int = 20
    """characters of a quote below which words are alike by chance"""
    longest: int = 5000
    """characters of a quote above which looking for the nearest text takes too long"""


class Repair(Record, frozen=True):
    """What became of one typed quote."""

    quote: Quote | None
    """the page's own span; None where the typed quote is rejected"""
    outcome: Outcome
    score: float = 100.0
    """how alike the page's span is to what was typed, in percent; 0 where none is proposed"""
    detail: str = ""
    """why it was rejected, in one sentence for the reader"""


def repair(
    page: Page,
    typed: str,
    settings: RepairSettings = RepairSettings(),
    folded: Folded | None = None,
) -> Repair:
    """The quote of the page that was typed: exactly, once folded, or nearly; or a rejection.

    Only the page's own span is ever shown, so a repair can mislead in one way: the claim was
    written by what was typed, and the page says something else. Therefore a span that is near
    enough is refused all the same unless both have, in the same order and with the same words
    before and after them (other words may be dropped, added or mistyped there),

    - the same negations: "not", "never", "without", "-n't" and the like; nor may a word differ
      by un-, in-, dis- or non- before it or by -less behind it;
    - the same numbers, in digits (with sign, currency and per cent), in words, or a sign like <;
    - the same capitalised words, which may be names ("The" and the like are none).

    A typing error in any of these is refused with them, and so is a span that stops short of a
    negation, or that begins or ends with another word than the quote. What turns the meaning in
    another way ("more" for "less") is not seen. The negations are English, and so a page that
    does not read as English gives no repairs. Pass `folded`, the fold of the page's text, to
    repair many quotes on one page. Repaired quotes are not fit to train on.
    """
    folded = folded or fold(page.text)
    if found := locate(page, typed, folded=folded):
        return Repair(found, "exact" if found.text == typed.strip() else "folded")
    plain = fold(typed).text.strip()
    if not settings.shortest <= len(plain) <= settings.longest:
        bounds = f"{settings.shortest} to {settings.longest:,} characters"
        return _rejected(f"it is not on the page, and only quotes of {bounds} are repaired")
    span, score = _nearest(folded.text, plain, settings.cutoff)
    if score < settings.cutoff:
        return _rejected(f"nothing on the page is {settings.cutoff:g} % alike", score)
    proposed = page.quote(*folded.source(*span))
    if not reads_as_english(page.text[max(0, proposed.start - NEAR) : proposed.end + NEAR]):
        return _rejected(
            "the page does not read as English, and no other negations are known", score
        )
    if objection := _objection(typed, proposed.text) or _cut_off(page.text, proposed):
        return _rejected(objection, score)
    return Repair(proposed, "repaired", score)


def _rejected(detail: str, score: float = 0.0) -> Repair:
    return Repair(None, "rejected", score, detail)


def _nearest(text: str, wanted: str, cutoff: float) -> tuple[Span, float]:
    """The span of whole words that is most like `wanted`, and how alike, in percent."""
    # The window is as long as what was typed: too short where words of the page were dropped.
    window = fuzz.partial_ratio_alignment(wanted, text, score_cutoff=cutoff - SLACK)
    if window is None:
        return (0, 0), 0.0
    start, end = window.dest_start, window.dest_end
    starts, ends = _edges(text, start, end, margin=len(wanted) // 4)
    start = max(starts, key=lambda at: fuzz.ratio(wanted, text[at:end]))
    end = max(ends, key=lambda at: fuzz.ratio(wanted, text[start:at]))
    start = max(starts, key=lambda at: fuzz.ratio(wanted, text[at:end]))
    return (start, end), fuzz.ratio(wanted, text[start:end])


def _edges(text: str, start: int, end: int, margin: int) -> tuple[list[int], list[int]]:
    """Where words begin near `start`, and where they end near `end`, with and without the marks
    that they touch."""
    low = text.rfind(" ", 0, max(0, start - margin)) + 1
    high = end + margin + len(text[end + margin :].partition(" ")[0])
    found = [
        span
        for pattern in (WORD, re.compile(r"\S+"))
        for span in (word.span() for word in pattern.finditer(text, low, high))
    ]
    starts = sorted({at for at, _ in found if at <= start + margin})
    return starts, sorted({at for _, at in found if at >= end - margin})


class _Said(NamedTuple):
    """A text as the words that must not differ, and the lists of words before, between, after."""

    marks: list[str]
    between: list[list[str]]


def _objection(typed: str, proposed: str) -> str:
    """Why the one cannot stand for the other; empty where it can."""
    page, quote = _words(proposed), _words(typed)
    for there, here in ((page[:1], quote[:1]), (page[-1:], quote[-1:])):
        if fuzz.ratio("".join(there).casefold(), "".join(here).casefold()) < MISTYPED:
            return f"the page has {_shown(there)} at an edge, the quote has {_shown(here)}"
    capitals, others = _capitals(page), _capitals(quote)
    names = set((capitals - others) | (others - capitals))
    ours, theirs = _said(page, names), _said(quote, names)
    difference = next(_differences(ours.marks, theirs.marks), None)
    if difference is None:
        return _turned_or_moved(ours.between, theirs.between)
    there, here = difference
    kind = next(filter(None, map(_kind, (*there, *here))), "a name")
    return f"the page has {_shown(there)} where the quote has {_shown(here)}: {kind} may differ"


def _cut_off(text: str, quote: Quote) -> str:
    """Whether a word beside the span turns it: "not" after "only ravens do", "million" after 5."""
    before = BEFORE.search(text[max(0, quote.start - EDGE) : quote.start])
    after = AFTER.search(text[quote.end : quote.end + EDGE])
    inside = _words(quote.text)
    sides = [(_words(before[0])[-1:], inside[:1])] if before and quote.text[0].isalnum() else []
    if after and quote.text[-1].isalnum():
        sides.append((_words(after[0])[:1], inside[-1:]))
    for beside, edge in sides:
        kinds = [_kind(word) for word in (*beside, *edge)]
        if kinds[:1] == ["a negation"] or kinds == ["a number", "a number"]:
            return f"the quote leaves out {_shown(beside)}, which stands beside it: {kinds[0]}"
    return ""


def _words(text: str) -> list[str]:
    visible = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return WORD.findall(visible.translate(TYPOGRAPHY))


def _shown(words: list[str]) -> str:
    return f"“{' '.join(words)}”" if words else "nothing"


def _capitals(words: list[str]) -> Counter[str]:
    return _folded([word for word in words if _kind(word) == "a name"])


def _said(words: list[str], names: set[str]) -> _Said:
    said = _Said([], [[]])
    for word in words:
        if _kind(word) or word.casefold() in names:
            said.marks.append(word)
            said.between.append([])
        else:
            said.between[-1].append(word)
    return said


def _differences(one: list[str], other: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The stretches in which two lists of words differ, their case aside."""
    steps = Indel.opcodes([word.casefold() for word in one], [word.casefold() for word in other])
    alike = [step for step in steps if step.tag == "equal"]
    ends = [(0, 0), *((step.src_end, step.dest_end) for step in alike)]
    starts = [*((step.src_start, step.dest_start) for step in alike), (len(one), len(other))]
    for (left, above), (right, below) in zip(ends, starts, strict=True):
        if left < right or above < below:
            yield one[left:right], other[above:below]


def _turned_or_moved(ours: list[list[str]], theirs: list[list[str]]) -> str:
    """Whether a word is turned round where it stands, or stands beyond a word that must not differ:
    there, "are not known to" and "are known not to" are alike."""
    pairs = [(_folded(a), _folded(b)) for a, b in zip(ours, theirs, strict=True)]
    missing = [(at, word) for at, (a, b) in enumerate(pairs) for word in a - b]
    added = [(at, word) for at, (a, b) in enumerate(pairs) for word in b - a]
    for (at, word), (place, other) in product(missing, added):
        if at == place and (_turns(word, other) or _turns(other, word)):
            return f"the page has “{word}” where the quote has “{other}”: a negation may differ"
        if at != place and fuzz.ratio(word, other) >= MISTYPED:
            return f"“{word}” stands on the other side of a negation, number or name"
    return ""


def _folded(words: list[str]) -> Counter[str]:
    return Counter(word.casefold() for word in words)


def _kind(word: str) -> str:
    """What the word may say that no likeness guards; empty where it is an ordinary word."""
    parts = [part for part in re.split(r"[^\w']+", word.casefold()) if part]
    if denies(word) or not NEGATIVE.isdisjoint(parts):
        return "a negation"
    if not parts or any(letter.isnumeric() for letter in word):
        return "a number"
    if any(part in COUNTING or part.removesuffix("s") in COUNTING for part in parts):
        return "a number"
    return "" if word == word.lower() or word in ORDINARY else "a name"


def _turns(one: str, other: str) -> bool:
    """Whether the one is the other turned round: unable and able, careless and careful."""
    if one.endswith("less"):
        return other.removesuffix("ful") == one.removesuffix("less")
    return any(
        one.startswith(prefix)
        and not other.startswith(prefix)
        and fuzz.ratio(one.removeprefix(prefix), other) >= MISTYPED
        for prefix in NEGATING
    )
