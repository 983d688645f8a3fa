"""Inline evidence (GopherCite): one page a prompt, claims with quotes of it, the best of N samples.

It knows neither models nor networks.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from typing import NamedTuple

import msgspec

from rookery.browse.locate import locate
from rookery.browse.passages import sentences
from rookery.browse.view import neutral
from rookery.cite.elision import is_too_short
from rookery.cite.rank import Observer, RankWeights, Similarity, rank
from rookery.cite.repair import RepairSettings, repair
from rookery.cite.syntax import BadSyntax, parse_inline
from rookery.draft.gather import Gathered, GatherLimits, gather
from rookery.draft.held import Hold
from rookery.draft.write import Choosing, Draft, Read, answered, drafts, prompt
from rookery.records import (
    Answer,
    Episode,
    Failure,
    Library,
    Page,
    Policy,
    Question,
    Quote,
)

BY = "gophercite"


class GopherCiteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many pages, and how much of a page a prompt holds."""

    pages: int = 4
    """K: each is shown in prompts of its own (GopherCite, section 2.3)"""
    budget: int = 6000
    """characters of a page in a prompt"""
    before: int = 500
    """characters before what the search found, at most (GopherCite, appendix A)"""
    repair: RepairSettings | None = RepairSettings()
    """for quotes that are nearly the page's; None: they are bad syntax"""
    quotes: int = 0
    """of an answer, at most; a sample with more is none. 0: any number"""
    limits: GatherLimits = GatherLimits()
    weights: RankWeights = RankWeights()


def gophercite(
    question: Question,
    library: Library,
    policy: Policy,
    similarity: Similarity | None = None,
    choosing: Choosing = Choosing(samples=8),
    settings: GopherCiteSettings = GopherCiteSettings(),
    hold: Hold | None = None,
    observe: Observer = lambda ranked: None,
) -> Episode:
    """The best of N answers, each with a quote of the one page that its prompt shows.

    The pages take turns, so that N should exceed their number. `hold` keeps the policy to words of
    the page while it writes. Without a page the policy is not asked. A sample whose syntax is bad,
    whose title is another page's or whose quote is not on the page, or too short, is no answer
    (GopherCite, appendix F.1); a quote that is nearly the page's becomes the page's own words where
    nothing that matters differs. `observe` is told the ranked passages.
    """
    gathered = gather(question.text, library, settings.limits)
    places = best_pages(question, gathered, similarity, settings, observe)
    if not places:
        return Episode(question, BY, stop="no_evidence", failures=gathered.failures)
    repairs: dict[Quote, float] = {}
    shown = [
        _refusing_short_quotes(showing(question, page, found, settings, repairs), page)
        for page, found in places
    ]
    turns = cycle(shown)

    def sample(n: int) -> Iterator[Draft]:
        drawn = Counter(islice(turns, n))
        for one in shown:
            if drawn[one]:
                held = hold([one.document]) if hold else policy
                yield from drafts(held, one.prompt, drawn[one], one.read)

    episode = answered(question, BY, sample, choosing, gathered.failures)
    quotes = episode.answer.quotes if episode.answer else ()
    marked = tuple(_marked(quote, repairs[quote]) for quote in quotes if quote in repairs)
    return msgspec.structs.replace(episode, failures=(*episode.failures, *marked))


def _refusing_short_quotes(shown: "Shown", page: Page) -> "Shown":
    """The same, but that an answer whose quote is too short to mean anything is read as none."""

    def read(text: str) -> Answer:
        answer = shown.read(text)
        for quote in answer.quotes:
            if is_too_short(page.text, quote.start, quote.end):
                raise BadSyntax(f"its quote “{quote.text}” is too short to mean anything")
        return answer

    return shown._replace(read=read)


def _marked(quote: Quote, score: float) -> Failure:
    detail = f"quoted with {score:.0f} % of the page's own words, which are shown instead"
    return Failure(quote.url, "repaired", detail)


def best_pages(
    question: Question,
    gathered: Gathered,
    similarity: Similarity | None,
    settings: GopherCiteSettings,
    observe: Observer = lambda ranked: None,
) -> list[tuple[Page, int]]:
    """The pages with the best passages, and where on each the best one begins."""
    ranked = rank(question.text, gathered.found, similarity, settings.weights)
    observe(ranked)
    places: dict[str, tuple[Page, int]] = {}
    for one in ranked:
        places.setdefault(one.page.url, (one.page, one.hit.start))
    return list(places.values())[: settings.pages]


class Shown(NamedTuple):
    """What the prompt of one page shows, and how what is said to it is read."""

    prompt: str
    read: Read
    document: tuple[str, str]
    """title and text, for who holds a policy to it"""


def showing(
    question: Question,
    page: Page,
    found: int,
    settings: GopherCiteSettings,
    repairs: dict[Quote, float],
) -> Shown:
    """The prompt of one page, where something was found at this place; its quotes that had to be
    repaired go into `repairs`, with their scores."""

    def find(page: Page, words: str) -> Quote | None:
        if settings.repair is None:
            return locate(page, words)
        mended = repair(page, words, settings.repair)
        if mended.quote and mended.outcome == "repaired":
            repairs[mended.quote] = mended.score
        return mended.quote

    def read(text: str) -> Answer:
        answer = parse_inline(text, [page], find)
        if settings.quotes and len(answer.quotes) > settings.quotes:
            raise BadSyntax(f"it has {len(answer.quotes)} quotes, more than {settings.quotes}")
        return answer

    start, end = truncated(page, found, settings)
    title = " ".join(neutral(page.title).split())
    source = f"Page: {title}\n{neutral(page.text[start:end])}\n"
    asked = prompt("gophercite", pages=source, question=question.text)
    return Shown(asked, read, (page.title, page.text[start:end]))


def truncated(page: Page, found: int, settings: GopherCiteSettings) -> tuple[int, int]:
    """The span of a page that a prompt shows: from a sentence's start, a little before what was
    found, to a sentence's end (GopherCite, appendices A and D). A short page is shown whole."""
    text = page.text[: max((block.end for block in page.full()), default=len(page.text))]
    if len(text) <= settings.budget:
        return 0, len(text)
    low = max(0, found - settings.before)
    starts = (begun for begun, _ in sentences(page, low, found) if begun > low or not low)
    start = next(starts, found)
    stop = min(start + settings.budget, len(text))
    return start, max(_ends(page, start, stop), default=stop)


def _ends(page: Page, start: int, stop: int) -> Iterator[int]:
    """Where sentences end that lie within; the last may be cut, and is left out."""
    spans = sentences(page, start, min(stop + 1, len(page.text)))
    return (end for _, end in spans if end <= stop)
