"""Comparisons made without asking anybody: of answers on a forum, by the votes that they collected.

WebGLM's preparation (section 3.3), and one step more. Votes also tell who came first and who wrote
most, so pairs may be chosen such that neither says anything about which answer is preferred. It
knows nothing of models.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import combinations
from random import Random
from statistics import median
from typing import NamedTuple

import msgspec

from rookery.records import Answer, Comparison, Question, Record, digest_of

BY = "thumbs-up"
"""who is said to have preferred"""


class Post(Record, frozen=True):
    """An answer on a forum."""

    text: str
    votes: int
    posted: str = ""
    """ISO 8601; empty: nobody knows"""

    def __post_init__(self) -> None:
        if self.posted:
            _moment(self.posted)


class Thread(Record, frozen=True):
    """A question on a forum, and its answers in any order; a line of a file for `read_lines`:
    `{"id": "1", "text": "Why?", "answers": [{"text": "So.", "votes": 4, "posted": "2014-01-21"}]}`
    """

    id: str
    text: str
    answers: tuple[Post, ...]
    source: str = ""


class ThumbsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which answers are compared. As it begins, WebGLM's rules and the balance."""

    votes: int = 3
    """an answer counts that has more"""
    answers: int = 8
    """a question counts that has as many of these, or more"""
    gap: int = 5
    """two answers are compared that are further apart when they are ranked by votes"""
    days: float | None = None
    """only answers that were posted at most so long after one another; None: any"""
    most: int = 16
    """pairs of one question; where there are more, they are drawn"""
    balanced: bool = True
    """as many pairs in which the earlier answer is preferred as the later, among longer ones and
    among shorter ones, and as many with the longer as with the shorter; what is too much is left
    out, by chance"""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.answers < 2 or self.gap < 0 or self.most < 1 or (self.days or 0) < 0:
            raise ValueError("answers must be 2 or more, most 1 or more, gap and days 0 or more")


class Bias(Record, frozen=True):
    """How often what has nothing to do with an answer's worth foretells the one preferred."""

    pairs: int
    earlier: float | None
    """of the pairs posted at different times, how often the earlier one; None: there are none"""
    longer: float | None
    """of the pairs of different length as they were posted, how often the longer one"""


class Made(NamedTuple):
    """What came of it."""

    comparisons: list[Comparison]
    before: Bias
    """of all pairs that the rules allow"""
    after: Bias
    """of these comparisons; a reward model must do better than both to have learnt anything"""
    left_out: Counter[str]


class _Candidate(NamedTuple):
    """An answer that counts, no longer than others."""

    text: str
    votes: int
    posted: float | None
    """seconds of some clock"""
    length: int
    """before it was cut"""


class _Pair(NamedTuple):
    question: Question
    better: _Candidate
    worse: _Candidate

    @property
    def sides(self) -> tuple[int, int]:
        """Whether the better one is the earlier (1), the later (-1) or neither is known (0); and
        the longer, the shorter or neither."""
        first, second = self.better.posted, self.worse.posted
        known = first is not None and second is not None
        return _sign(second - first) if known else 0, _sign(self.better.length - self.worse.length)  # type: ignore[operator]


def thumbs_up(threads: Iterable[Thread], settings: ThumbsSettings = ThumbsSettings()) -> Made:
    """Comparisons of two answers each, the one with more votes preferred.

    An answer is cut to the median length of its question's answers, and left out where it has not
    half of that. Which answer comes first in a comparison says nothing. Lengths are in characters.
    """
    left_out: Counter[str] = Counter()
    pairs: list[_Pair] = []
    for thread in threads:
        candidates = _candidates(thread, settings, left_out)
        found = _pairs(thread, candidates, settings, left_out)
        if len(found) > settings.most:
            left_out["pairs beyond the most of a question"] += len(found) - settings.most
            found = Random(f"{settings.seed} {thread.id}").sample(found, settings.most)
        pairs += found
    chosen = _balanced(pairs, settings.seed) if settings.balanced else pairs
    if len(chosen) < len(pairs):
        left_out["pairs out of balance"] += len(pairs) - len(chosen)
    return Made([_comparison(pair) for pair in chosen], _bias(pairs), _bias(chosen), left_out)


def _candidates(
    thread: Thread, settings: ThumbsSettings, left_out: Counter[str]
) -> list[_Candidate]:
    """The answers that count, the most votes first."""
    valid = [post for post in thread.answers if post.votes > settings.votes]
    if len(valid) < settings.answers:
        left_out["questions with too few answers that count"] += 1
        return []
    usual = int(median(len(post.text) for post in thread.answers))
    kept = [post for post in valid if len(post.text) >= usual / 2 and post.text.strip()]
    if len(kept) < len(valid):
        left_out["answers of less than half the usual length"] += len(valid) - len(kept)
    candidates = [
        _Candidate(
            _cut(post.text, usual),
            post.votes,
            _moment(post.posted) if post.posted else None,
            len(post.text),
        )
        for post in kept
    ]
    return sorted(candidates, key=lambda candidate: -candidate.votes)


def _cut(text: str, size: int) -> str:
    """Not within a word, where words are set apart."""
    if len(text) <= size:
        return text
    cut = text[:size]
    if not (cut[-1].isspace() or text[size].isspace()):
        whole = cut.rsplit(maxsplit=1)[0]
        cut = whole if size / 2 <= len(whole) else cut
    return cut.rstrip()


def _pairs(
    thread: Thread,
    candidates: Sequence[_Candidate],
    settings: ThumbsSettings,
    left_out: Counter[str],
) -> list[_Pair]:
    question = Question(thread.id, thread.text, source=thread.source)
    found = []
    for (better, one), (worse, other) in combinations(enumerate(candidates), 2):
        if worse - better <= settings.gap or one.votes == other.votes:
            left_out["pairs too near in rank"] += 1
        elif not _together(one, other, settings.days):
            left_out["pairs too far apart in time"] += 1
        else:
            found.append(_Pair(question, one, other))
    return found


def _together(one: _Candidate, other: _Candidate, days: float | None) -> bool:
    if days is None:
        return True
    if one.posted is None or other.posted is None:
        return False
    return abs(one.posted - other.posted) <= days * 86_400


def _balanced(pairs: Sequence[_Pair], seed: int) -> list[_Pair]:
    """As many pairs of each kind as of the opposite kind, in their order."""
    kinds: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        kinds[pair.sides].append(number)
    kept: list[int] = []
    for (earlier, longer), numbers in sorted(kinds.items()):
        size = min(len(numbers), len(kinds.get((-earlier, -longer), [])))
        kept += Random(f"{seed} {earlier} {longer}").sample(numbers, size)
    return [pairs[number] for number in sorted(kept)]


def _bias(pairs: Sequence[_Pair]) -> Bias:
    earlier, longer = ([pair.sides[at] for pair in pairs] for at in range(2))
    return Bias(len(pairs), _share(earlier), _share(longer))


def _share(sides: Sequence[int]) -> float | None:
    counts = Counter(sides)
    known = counts[1] + counts[-1]
    return counts[1] / known if known else None


def _comparison(pair: _Pair) -> Comparison:
    """The answers in an order that has nothing to do with which is better."""
    better, worse = Answer(pair.better.text), Answer(pair.worse.text)
    turned = int(digest_of(f"{pair.question.id}\n{better.text}\n{worse.text}")[0], 16) % 2
    if turned:
        return Comparison(pair.question, (worse, better), (0.0, 1.0), BY)
    return Comparison(pair.question, (better, worse), (1.0, 0.0), BY)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _moment(said: str) -> float:
    """Seconds. A time without a zone is taken as UTC. Raises ValueError where it is no time."""
    found = datetime.fromisoformat(said)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
