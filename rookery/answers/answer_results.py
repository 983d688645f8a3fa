"""Saved answers: the records that `rookery ask --json` and `--batch` write."""

from collections.abc import Sequence

import msgspec

from rookery.errors import Outcome
from rookery.pages.file_selection import SkippedGroup
from rookery.quotes.verification import Verdict
from rookery.records import Answer, Episode, Failure, Question, Record
from rookery.settings import Settings


class SearchMade(Record, frozen=True):
    """One query that a library was sent."""

    query: str
    found: int
    """results"""
    failure: str = ""
    """why the search could not be made; empty where it could"""


class PassageFound(Record, frozen=True):
    """One passage, as it was ranked; or a search result, where a model chose by itself."""

    rank: int
    """1 is the best"""
    score: float
    sentence: float | None
    """score of its best sentence; None where sentences were not scored"""
    url: str
    title: str
    digest: str
    start: int
    end: int
    heading: str
    """the headings that it stands under"""
    text: str
    """its first characters"""
    quotes: tuple[int, ...]
    """numbers of the answer's quotes that stand in it, counted from 1"""


class PassageReport(Record, frozen=True):
    """The part of an answer that `--passages` adds."""

    libraries: tuple[str, ...]
    searches: tuple[SearchMade, ...]
    found: tuple[PassageFound, ...]
    """best first; near-duplicates are shown once"""
    score: float | None
    """of the answer"""
    threshold: float | None
    """below which it is declined; None: none is"""
    reason: str
    """why the answer was chosen, or why there is none"""


class AnswerProvenance(Record, frozen=True, omit_defaults=True):
    """The settings, models and documents that an answer was made with, kept in files of answers."""

    version: str
    """of Rookery"""
    settings: Settings
    """with whole paths, and without what does not change an answer: caps on spending"""
    documents: str = ""
    """digest of the documents; empty for the web, of which that cannot be known"""
    model: str = ""
    """digest of the sizes and times of the files of a model on this machine"""
    ranker: str = ""
    """the same of the encoder that ranks; "installed" for the one that is found by itself"""


class AskResult(Record, frozen=True, omit_defaults=True):
    """The output of `rookery ask --json`, and each line of `--batch`."""

    question: Question
    answer: Answer | None
    stop: str
    method: str
    counts: dict[str, int]
    """quotes and how many of them are verified, and how often each failure happened"""
    made_with: AnswerProvenance | None = None
    """None in files that version 0.1 wrote"""
    passages: PassageReport | None = None
    """what was searched and found, with --passages"""
    skipped: tuple[SkippedGroup, ...] = ()
    """files of the folders that were left out, by reason"""
    failures: tuple[Failure, ...] = ()
    """what could not be searched or opened, and why, where no answer could be given"""


def make_ask_result(
    episode: Episode, verdicts: Sequence[Verdict], made_with: AnswerProvenance | None = None
) -> AskResult:
    """Return an episode as a line of saved answers, with its quotes checked."""
    good = sum(verdict.verified for verdict in verdicts)
    counts = {"quotes": len(verdicts), "verified": good, **episode.count_failures()}
    answered = AskResult(
        episode.question, episode.answer, episode.stop, episode.by, counts, made_with
    )
    return msgspec.structs.replace(answered, failures=select_told_failures(episode))


def select_told_failures(episode: Episode) -> tuple[Failure, ...]:
    """Return the failures that are told in full: all where there is no answer, else that a part of
    the library was not searched, since the answer may stand there."""
    if episode.stop != "end":
        return episode.failures
    return tuple(failure for failure in episode.failures if failure.outcome == Outcome.SHARD_FAILED)
