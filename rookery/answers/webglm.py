"""WebGLM: answers with numbered citations of five references."""

import msgspec

from rookery.answers.best_of_n import (
    AnswerDraft,
    BestOfNSettings,
    answer_with_best_draft,
    render_prompt,
    sample_drafts,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Outcome
from rookery.evidence.passage_ranking import PassageRanker, RankingObserver, rank_passages
from rookery.pages.page_text import neutralize_line
from rookery.quotes.citation_syntax import order_quotes_by_use
from rookery.quotes.repair import CorrectionSettings, parse_and_correct
from rookery.records import Answer, Episode, Library, Page, Policy, Question, Quote

WEBGLM_METHOD = "webglm"


class WebglmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of WebGLM: references in a prompt, and correction of citations."""

    references: int = 5
    """maximum number of references in a prompt (WebGLM, section 3.1 and appendix C)"""
    longest: int = 1200
    """maximum characters of a reference"""
    correct: CorrectionSettings = CorrectionSettings()
    """correction of citations"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval"""


def answer_with_webglm(
    question: Question,
    library: Library,
    policy: Policy,
    rank: PassageRanker = rank_passages,
    choosing: BestOfNSettings = BestOfNSettings(),
    settings: WebglmSettings = WebglmSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Episode:
    """Answer a question from the best passages as numbered references, with corrected citations.

    Without a passage the policy is not called. Citations are corrected as in WebGLM, section 3.2.2;
    those that no reference matches are removed, and an answer without any is bad syntax. `rank`
    orders the passages that were found, and `observe` gets them.
    """
    gathered = gather_passages(question.text, library, settings.limits)
    ranked = rank(question.text, gathered.found)
    observe(ranked)
    quotes = tuple(
        quote_passage(passage.page, passage.hit.start, passage.hit.end, settings.longest)
        for passage in ranked[: settings.references]
    )
    if not quotes:
        return Episode(
            question, WEBGLM_METHOD, stop=Outcome.NO_EVIDENCE, failures=gathered.failures
        )

    def read(text: str) -> Answer:
        return order_quotes_by_use(parse_and_correct(text, quotes, settings.correct))

    prompt = render_prompt("webglm", references=render_references(quotes), question=question.text)

    def sample(n: int) -> list[AnswerDraft]:
        return sample_drafts(policy, prompt, n, read)

    return answer_with_best_draft(question, WEBGLM_METHOD, sample, choosing, gathered.failures)


def render_references(quotes: tuple[Quote, ...]) -> str:
    """Render quotes as the numbered references of a prompt, one line each (WebGLM, figure 5)."""
    lines = (neutralize_line(quote.text) for quote in quotes)
    return "\n".join(f"Reference [{number}]: {line}" for number, line in enumerate(lines, 1))


def quote_passage(page: Page, start: int, end: int, longest: int) -> Quote:
    """Quote page.text[start:end], cut after a word where it has more than `longest` characters."""
    if end - start > longest:
        cut = page.text.rfind(" ", start + 1, start + longest)
        end = cut if cut > 0 else start + longest
    return page.quote(start, end)
