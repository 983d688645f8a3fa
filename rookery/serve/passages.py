"""`rookery ask --passages`: what was searched and found for an answer, and why it was given."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from rookery.browse.passages import headings_above
from rookery.cite.rank import Passage
from rookery.draft.calibrated import least_score
from rookery.draft.extract import ExtractSettings
from rookery.records import Answer, Episode, Failed, Hit, Library, Page, Record
from rookery.serve.session import Session, Settings
from rookery.serve.terminal import WITHOUT_ANSWER, clean, print_indented

BEGINNING = 200
"""characters of a passage that are shown"""


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
    """What `--passages` adds to an answer."""

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


class _Search(NamedTuple):
    made: SearchMade
    hits: Sequence[Hit]


class SearchLog:
    """Notes what a session searches for and how it ranks what it finds, for one question."""

    def __init__(self, session: Session) -> None:
        self._settings = session.settings
        self._session = session
        self._searches: list[_Search] = []
        self._ranked: list[Passage] = []
        session.watch = lambda library: _WatchedLibrary(library, self._searches)
        session.observe = self._ranked.extend

    def report(self, episode: Episode) -> PassageReport:
        """What was noted until the answer was there."""
        answer = episode.answer
        found = list(self._passages(answer)) or list(self._results(answer))
        return PassageReport(
            libraries=self._settings.places or (f"the web, by {self._settings.engine}",),
            searches=tuple(search.made for search in self._searches),
            found=tuple(found),
            score=None if answer is None else answer.score,
            threshold=(threshold := self._threshold()),
            reason=_reason(episode, self._settings, threshold),
        )

    def _passages(self, answer: Answer | None) -> Iterator[PassageFound]:
        for number, passage in enumerate(self._ranked, 1):
            page, start, end = passage.page, passage.hit.start, passage.hit.end
            yield PassageFound(
                number,
                passage.score,
                max((sentence.score for sentence in passage.sentences), default=None),
                page.url,
                page.title,
                page.digest,
                start,
                end,
                headings_above(page, start),
                page.text[start:end][:BEGINNING],
                _quotes_in(answer, page.digest, start, end),
            )

    def _results(self, answer: Answer | None) -> Iterator[PassageFound]:
        """Of a model that searches and opens pages itself: what its searches showed it."""
        hits = dict.fromkeys(hit for search in self._searches for hit in search.hits)
        for number, hit in enumerate(hits, 1):
            quotes = answer.quotes if answer else ()
            cited = tuple(at for at, quote in enumerate(quotes, 1) if quote.url == hit.url)
            yield PassageFound(
                number,
                hit.score,
                None,
                hit.url,
                hit.title,
                hit.digest,
                hit.start,
                hit.end,
                "",
                hit.snippet[:BEGINNING],
                cited,
            )

    def _threshold(self) -> float | None:
        if self._settings.method == "extract":
            decline = self._settings.decline
            return ExtractSettings().decline if decline is None else decline
        calibration = self._session.calibration()
        return None if calibration is None else least_score(calibration)


class _WatchedLibrary:
    """A library whose searches are noted."""

    def __init__(self, library: Library, searches: list[_Search]) -> None:
        self._library = library
        self._searches = searches

    def search(self, query: str, k: int) -> Sequence[Hit]:
        try:
            hits = self._library.search(query, k)
        except Failed as failed:
            why = f"{failed.failure.outcome}: {failed.failure.detail}"
            self._searches.append(_Search(SearchMade(query, 0, why), ()))
            raise
        self._searches.append(_Search(SearchMade(query, len(hits)), hits))
        return hits

    def fetch(self, url: str) -> Page:
        return self._library.fetch(url)


def _quotes_in(answer: Answer | None, digest: str, start: int, end: int) -> tuple[int, ...]:
    quotes = enumerate(answer.quotes if answer else (), 1)
    return tuple(
        number
        for number, quote in quotes
        if quote.digest == digest and quote.start < end and start < quote.end
    )


def _reason(episode: Episode, settings: Settings, threshold: float | None) -> str:
    answer = episode.answer
    if answer is None:
        return WITHOUT_ANSWER.get(episode.stop, f"no answer: {episode.stop}")
    outcome = "declined" if answer.declined else "answered"
    if settings.method == "sides":
        return (
            "declined: no sentence found takes a side"
            if answer.declined
            else ("answered: the best sentences that take each side are shown")
        )
    if not answer.quotes:
        return "declined: no sentence was found that shares a word with the question"
    score = "none" if answer.score is None else f"{answer.score:.4g}"
    if threshold is None:
        return f"{outcome}: the model's best sample, score {score}; no --decline was given"
    against = "is below" if answer.declined else "reaches"
    what = "how good the model's best sample is"
    if settings.method == "extract":
        what = (
            "the probability that the best sentence answers, by the score of its passage and by "
            "how far it stands above the next sentences"
        )
    return f"{outcome}: score {score} {against} {threshold:.4g} (--decline); it is {what}"


def show_passages(console: Console, report: PassageReport) -> None:
    """The report for a person, behind the answer."""

    def show(mark: str, text: str) -> None:
        print_indented(console, Text(mark), Text(clean(_line(text))))

    console.print()
    show("", f"Searched {', '.join(report.libraries)}:")
    for search in report.searches:
        show("  ", f"“{search.query}”: {search.failure or f'{search.found} results'}")
    if not report.searches:
        show("  ", "nothing")
    if report.found:
        console.print()
        show("", "Found, best first (rank, score, score of the best sentence):")
    for each in report.found:
        best = "" if each.sentence is None else f"{each.sentence:6.2f}"
        where = " · ".join(filter(None, (each.title or each.url, each.heading)))
        cited = "".join(f"[{number}]" for number in each.quotes)
        show(f"{each.rank:>4}{each.score:6.2f}{best}  ", f"{where} {cited}")
        show("      ", each.text)
    console.print()
    show("", f"{report.reason[:1].upper()}{report.reason[1:]}")


def _line(text: str) -> str:
    return " ".join(text.split())
