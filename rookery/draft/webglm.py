"""Retrieve and cite (WebGLM): one search, five references, one prompt, numbered citations.

It knows neither models nor networks.
"""

import msgspec

from rookery.browse.view import neutral
from rookery.cite.correct import CorrectSettings, parse_correcting
from rookery.cite.rank import Observer, RankWeights, Similarity, rank
from rookery.cite.syntax import in_order_of_use
from rookery.draft.gather import GatherLimits, gather
from rookery.draft.write import Choosing, Draft, answered, drafts, prompt
from rookery.records import Answer, Episode, Library, Page, Policy, Question, Quote

BY = "webglm"


class WebglmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a policy is given to read, and how its citations are set right."""

    references: int = 5
    """in a prompt (WebGLM, section 3.1 and appendix C)"""
    longest: int = 1200
    """characters of a reference"""
    correct: CorrectSettings = CorrectSettings()
    limits: GatherLimits = GatherLimits()
    weights: RankWeights = RankWeights()


def webglm(
    question: Question,
    library: Library,
    policy: Policy,
    similarity: Similarity | None = None,
    choosing: Choosing = Choosing(),
    settings: WebglmSettings = WebglmSettings(),
    observe: Observer = lambda ranked: None,
) -> Episode:
    """The policy's answer from the best passages, each citation matched to what it says.

    Without a passage the policy is not asked. Numbers that the policy gives are set right as in
    WebGLM's section 3.2.2; what nothing matches is cited no more, and an answer without a citation
    is none. `observe` is told the ranked passages.
    """
    gathered = gather(question.text, library, settings.limits)
    ranked = rank(question.text, gathered.found, similarity, settings.weights)
    observe(ranked)
    quotes = tuple(
        reference(passage.page, passage.hit.start, passage.hit.end, settings.longest)
        for passage in ranked[: settings.references]
    )
    if not quotes:
        return Episode(question, BY, stop="no_evidence", failures=gathered.failures)

    def read(text: str) -> Answer:
        return in_order_of_use(parse_correcting(text, quotes, settings.correct))

    asked = prompt("webglm", references=references(quotes), question=question.text)

    def sample(n: int) -> list[Draft]:
        return drafts(policy, asked, n, read)

    return answered(question, BY, sample, choosing, gathered.failures)


def references(quotes: tuple[Quote, ...]) -> str:
    """The quotes as a prompt names them (WebGLM, figure 5)."""
    lines = (" ".join(neutral(quote.text).split()) for quote in quotes)
    return "\n".join(f"Reference [{number}]: {line}" for number, line in enumerate(lines, 1))


def reference(page: Page, start: int, end: int, longest: int) -> Quote:
    """A passage of at most so many characters, cut after a word."""
    if end - start > longest:
        cut = page.text.rfind(" ", start + 1, start + longest)
        end = cut if cut > 0 else start + longest
    return page.quote(start, end)
