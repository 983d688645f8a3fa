"""Comparisons of forum answers made from their votes (WebGLM, section 3.3), without labellers.

Votes also favour early and long answers, so pairs can be balanced such that neither time nor length
predicts the preferred answer.
"""

import lzma
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.measure.intervals import get_sign
from rookery.pages.html.html_parser import read_html
from rookery.pages.html.page_assembly import build_page
from rookery.records import Answer, Comparison, Failure, Question, Record, digest_of, prepare_type

VOTES_RATER = "thumbs-up"
"""Rater that is stored in these comparisons."""


class ForumPost(Record, frozen=True):
    """An answer on a forum."""

    text: str
    votes: int
    posted: str = ""
    """ISO 8601, in UTC without a zone; empty: unknown."""

    def __post_init__(self) -> None:
        _ = self.timestamp  # raises ValueError for what is no time

    @property
    def timestamp(self) -> float | None:
        """Seconds since 1970 at which it was posted; None: unknown."""
        if not self.posted:
            return None
        found = datetime.fromisoformat(self.posted)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


class ForumThread(Record, frozen=True):
    """A question on a forum with its answers in any order; a line of a file for `read_json_lines`:

    {"id": "1", "text": "Why?", "answers": [{"text": "So.", "votes": 4, "posted": "2014-01-21"}]}
    """

    id: str
    text: str
    answers: tuple[ForumPost, ...]
    source: str = ""


class ThumbsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for pairing answers; the defaults are WebGLM's, and balanced."""

    votes: int = 3
    """An answer needs more votes than this."""
    answers: int = 8
    """A question needs at least so many such answers."""
    gap: int = 5
    """Two answers are compared if their ranks by votes differ by more than this."""
    days: float | None = None
    """Maximum days between two compared answers; None: any."""
    most: int = 16
    """Maximum pairs of one question; more are sampled down."""
    balanced: bool = True
    """True: keep as many pairs whose earlier answer is preferred as whose later one is, for longer
    and for shorter preferred answers alike, and as many with the longer as with the shorter
    preferred; surplus pairs are dropped at random."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.answers < 2 or self.gap < 0 or self.most < 1 or (self.days or 0) < 0:
            raise ValueError("answers must be 2 or more, most 1 or more, gap and days 0 or more")


class PairBias(Record, frozen=True):
    """Shares of pairs whose preferred answer is predicted by time or length, not by quality."""

    pairs: int
    earlier: float | None
    """Share of pairs posted at different times whose earlier answer is preferred; None: no such
    pair."""
    longer: float | None
    """Share of pairs of different original length whose longer answer is preferred; None: no such
    pair."""


class VoteComparisons(NamedTuple):
    """Comparisons made from votes, with their bias."""

    comparisons: list[Comparison]
    before: PairBias
    """Bias of every pair that the rules allow."""
    after: PairBias
    """Bias of the comparisons; a reward model must predict better than both to have learnt
    anything."""
    left_out: Counter[str]


class _Candidate(NamedTuple):
    """An answer that counts, cut to the length of the others."""

    text: str
    votes: int
    posted: float | None
    """Seconds since 1970; None: unknown."""
    length: int
    """Characters before it was cut."""


class _CandidatePair(NamedTuple):
    question: Question
    better: _Candidate
    worse: _Candidate

    @property
    def sides(self) -> tuple[int, int]:
        """Two signs: 1 if the better answer is the earlier, -1 the later, 0 unknown or equal;
        likewise for longer and shorter."""
        first, second = self.better.posted, self.worse.posted
        sooner = 0 if first is None or second is None else get_sign(second - first)
        return sooner, get_sign(self.better.length - self.worse.length)


def make_vote_comparisons(
    threads: Iterable[ForumThread], settings: ThumbsSettings = ThumbsSettings()
) -> VoteComparisons:
    """Make comparisons of two answers each, the one with more votes preferred.

    `settings` decide which answers are compared, and if pairs are dropped for balance. An answer is
    cut to the median length (characters) of its question's answers, and left out if it is shorter
    than half of that. The order of answers in a comparison is independent of the preference.
    """
    left_out: Counter[str] = Counter()
    pairs: list[_CandidatePair] = []
    for thread in threads:
        candidates = _select_candidates(thread, settings, left_out)
        thread_pairs = _pair_candidates(thread, candidates, settings, left_out)
        if len(thread_pairs) > settings.most:
            left_out["pairs beyond the most of a question"] += len(thread_pairs) - settings.most
            thread_pairs = Random(f"{settings.seed} {thread.id}").sample(
                thread_pairs, settings.most
            )
        pairs += thread_pairs
    chosen = _balance_pairs(pairs, settings.seed) if settings.balanced else pairs
    if len(chosen) < len(pairs):
        left_out["pairs out of balance"] += len(pairs) - len(chosen)
    return VoteComparisons(
        [_make_comparison(pair) for pair in chosen],
        _measure_bias(pairs),
        _measure_bias(chosen),
        left_out,
    )


def _select_candidates(
    thread: ForumThread, settings: ThumbsSettings, left_out: Counter[str]
) -> list[_Candidate]:
    """Return the answers that count, most votes first."""
    valid = [post for post in thread.answers if post.votes > settings.votes]
    if len(valid) < settings.answers:
        left_out["questions with too few answers that count"] += 1
        return []
    usual = int(median(len(post.text) for post in thread.answers))
    long_posts = [post for post in valid if len(post.text) >= usual / 2 and post.text.strip()]
    if len(long_posts) < len(valid):
        left_out["answers of less than half the usual length"] += len(valid) - len(long_posts)
    candidates = [
        _Candidate(_cut_text(post.text, usual), post.votes, post.timestamp, len(post.text))
        for post in long_posts
    ]
    return sorted(candidates, key=lambda candidate: -candidate.votes)


def _cut_text(text: str, size: int) -> str:
    """Cut a text to `size` characters, at a word boundary where possible."""
    if len(text) <= size:
        return text
    cut = text[:size]
    if not (cut[-1].isspace() or text[size].isspace()):
        whole = cut.rsplit(maxsplit=1)[0]
        cut = whole if size / 2 <= len(whole) else cut
    return cut.rstrip()


def _pair_candidates(
    thread: ForumThread,
    candidates: Sequence[_Candidate],
    settings: ThumbsSettings,
    left_out: Counter[str],
) -> list[_CandidatePair]:
    question = Question(thread.id, thread.text, source=thread.source)
    pairs = []
    for (better, one), (worse, other) in combinations(enumerate(candidates), 2):
        if worse - better <= settings.gap or one.votes == other.votes:
            left_out["pairs too near in rank"] += 1
        elif not _posted_together(one, other, settings.days):
            left_out["pairs too far apart in time"] += 1
        else:
            pairs.append(_CandidatePair(question, one, other))
    return pairs


def _posted_together(one: _Candidate, other: _Candidate, days: float | None) -> bool:
    if days is None:
        return True
    if one.posted is None or other.posted is None:
        return False
    return abs(one.posted - other.posted) <= days * 86_400


def _balance_pairs(pairs: Sequence[_CandidatePair], seed: int) -> list[_CandidatePair]:
    """Keep as many pairs of each kind as of the opposite kind, in order."""
    kinds: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        kinds[pair.sides].append(number)
    kept: list[int] = []
    for (earlier, longer), numbers in sorted(kinds.items()):
        size = min(len(numbers), len(kinds.get((-earlier, -longer), [])))
        kept += Random(f"{seed} {earlier} {longer}").sample(numbers, size)
    return [pairs[number] for number in sorted(kept)]


def _measure_bias(pairs: Sequence[_CandidatePair]) -> PairBias:
    earlier, longer = ([pair.sides[at] for pair in pairs] for at in range(2))
    return PairBias(len(pairs), _compute_share(earlier), _compute_share(longer))


def _compute_share(sides: Sequence[int]) -> float | None:
    counts = Counter(sides)
    known = counts[1] + counts[-1]
    return counts[1] / known if known else None


def _make_comparison(pair: _CandidatePair) -> Comparison:
    """Make a comparison whose order of answers is a hash, independent of the preference."""
    better, worse = Answer(pair.better.text), Answer(pair.worse.text)
    turned = int(digest_of(f"{pair.question.id}\n{better.text}\n{worse.text}")[0], 16) % 2
    if turned:
        return Comparison(pair.question, (worse, better), (0.0, 1.0), VOTES_RATER)
    return Comparison(pair.question, (better, worse), (1.0, 0.0), VOTES_RATER)


class _PostedAnswer(msgspec.Struct):
    body_html: str
    score: int
    created: str


class _AskedQuestion(msgspec.Struct):
    site: str
    id: str
    title: str
    answers: list[_PostedAnswer]


def read_forum_threads(path: Path) -> Iterator[ForumThread]:
    """Yield the threads of a file with one question and all its answers as JSON a line.

    A file that ends in `.xz` is decompressed. The title is taken as the question, and posts are
    converted from HTML to text. Raises Failed: not_found, bad_line.
    """
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                yield _parse_thread(line, f"{path}, line {number}")
    except (OSError, EOFError, lzma.LZMAError) as error:
        detail = f"the forum cannot be read ({error}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error


def _parse_thread(line: bytes, place: str) -> ForumThread:
    try:
        question = msgspec.json.decode(line, type=prepare_type(_AskedQuestion))
        answers = tuple(
            ForumPost(_extract_post_text(each.body_html), each.score, each.created)
            for each in question.answers
        )
    except ValueError as error:
        detail = f"it is no question with id, title and answers ({error}): take the line out"
        raise Failed(Failure(place, Outcome.BAD_LINE, detail)) from error
    return ForumThread(f"{question.site}/{question.id}", question.title, answers, question.site)


def _extract_post_text(html: str) -> str:
    """Return the whole text of a post: it has no navigation to leave out."""
    return build_page(read_html(f"<body>{html}</body>"), "", whole=True).text.strip()
