"""WebGLM: answers with numbered citations of five references, or in a small model's words.

A language model of a hundred million weights makes a sentence of what it is shown; it neither
chooses facts nor writes citation numbers reliably. So its references are the quotes of `extract`,
its prompt is short, and each of its sentences is cited afterwards by the quotes that support it, or
taken out.
"""

from collections.abc import Sequence
from functools import cache, partial

import msgspec

from rookery.answers.best_of_n import (
    AnswerDraft,
    BestOfNSettings,
    answer_with_best_draft,
    parse_draft,
    render_prompt,
    sample_drafts,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Outcome
from rookery.evidence.claim_support import (
    SHARED_WORDS,
    AnswerSource,
    SupportFilter,
    has_new_words,
    locate_answers,
)
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage, convert_to_probability
from rookery.evidence.passage_ranking import PassageRanker, RankingObserver, rank_passages
from rookery.pages.page_text import neutralize_line, neutralize_text
from rookery.quotes.answer_types import is_yes_no_question, mark_question
from rookery.quotes.citation_syntax import UnsupportedAnswerError, order_quotes_by_use
from rookery.quotes.repair import CorrectionSettings, measure_shared_words, parse_and_correct
from rookery.records import (
    Answer,
    Episode,
    Failure,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Step,
    find_last_edge,
)

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
        return Episode(question, WEBGLM_METHOD, (), None, Outcome.NO_EVIDENCE, gathered.failures)

    def read(text: str) -> Answer:
        return order_quotes_by_use(parse_and_correct(text, quotes, settings.correct))

    prompt = render_prompt("webglm", references=render_references(quotes), question=question.text)

    sample = partial(sample_drafts, policy, prompt, read=read)
    return answer_with_best_draft(question, WEBGLM_METHOD, sample, choosing, gathered.failures)


def render_references(quotes: tuple[Quote, ...]) -> str:
    """Render quotes as the numbered references of a prompt, one line each (WebGLM, figure 5)."""
    lines = (neutralize_line(quote.text) for quote in quotes)
    return "\n".join(f"Reference [{number}]: {line}" for number, line in enumerate(lines, 1))


def quote_passage(page: Page, start: int, end: int, longest: int) -> Quote:
    """Quote page.text[start:end], cut after a word where it has more than `longest` characters."""
    if end - start > longest:
        end = find_last_edge(page.text, start, start + longest)
    return page.quote_whole_words(start, end)


WRITING_REFERENCES = 1
"""maximum number of quotes in a small model's prompt; a sentence may be cited by the others too.
With more than one, SmolLM2 mixes their facts (docs/LOG.md)"""
LEAST_ANSWER = 0.3
"""least probability that what a small model wrote answers the question, by the evidence model;
`extract` asks as much of its further quotes"""


def render_writing_prompt(question: str, sources: Sequence[AnswerSource]) -> str:
    """Render the prompt that shows sources, one or more, and asks for the answer in words.

    They are given best first, and the first one's answer is put into words. The model continues the
    prompt as it is, to the end of the line (WRITING_SETTINGS).
    """
    return render_prompt(
        "webglm_short",
        references=" ".join(_to_one_line(each.text) for each in sources),
        question=_to_one_line(question),
        answer=_to_one_line(sources[0].answer),
    )


def _to_one_line(text: str) -> str:
    return " ".join(neutralize_text(text).split())


def put_into_words(
    episode: Episode,
    policy: Policy,
    judge: EvidenceJudge | None = None,
    choosing: BestOfNSettings = BestOfNSettings(),
) -> Episode:
    """Have a model put an extractive answer into words, each sentence resting on its quotes.

    `episode` is an episode of `answer_by_evidence` or `answer_by_extraction`. One that declines,
    has no answer or a possible one is returned as it is, and the model is not asked. A sentence
    that no quote supports is taken out, and the failures say which (unsupported). Where no sentence
    is left, or what is left does not answer by the evidence model, lacks the words of the answer
    that was found or only repeats the question, `episode` is returned with the failure not_written:
    it is still by "extract". Without a judge, shared words decide what a quote supports. The score
    is that of `episode`, and `choosing.decline` does not count. Where the model cannot be asked the
    stop is policy_failed, and there is no answer: the extractive one is in `episode` alone.
    """
    extracted = episode.answer
    if (
        extracted is None
        or extracted.declined
        or extracted.stored_certain is False
        or not extracted.quotes
    ):
        return episode
    quotes = extracted.quotes
    question = episode.question.text
    sources = locate_answers(question, quotes, judge)
    shown_sources = sources[:WRITING_REFERENCES]
    prompt = render_writing_prompt(question, shown_sources)
    support = SupportFilter(question, sources, judge)

    @cache
    def answers_question(text: str) -> bool:
        if not has_new_words(text, question):
            return is_yes_no_question(question)
        if judge is None:
            return True
        shared_words = max(measure_shared_words(each.answer, text) for each in shown_sources)
        if shared_words < SHARED_WORDS:
            return False
        [judged] = judge(mark_question(question), [EvidencePassage(text, quotes[0].title)])
        return convert_to_probability(judged.answers) >= LEAST_ANSWER

    def sample(n: int) -> list[AnswerDraft]:
        drafts = []
        for completion in policy.complete(prompt, n):

            def read(text: str, finished: bool = completion.stop != "length") -> Answer:
                answer = support.parse_supported(text, finished)
                if not answers_question(answer.text):
                    raise UnsupportedAnswerError("what it says does not answer the question")
                return answer

            parsed = parse_draft(completion.text, read)
            drafts.append(AnswerDraft(Step(prompt, completion), *parsed))
        return drafts

    # What is declined was decided before, and the score says how well the quotes answer.
    choosing = msgspec.structs.replace(choosing, decline=None)
    about = (episode.question, WEBGLM_METHOD)
    written = answer_with_best_draft(*about, sample, choosing, episode.failures)
    if written.stop == Outcome.POLICY_FAILED:
        return written
    completion = written.steps[-1].said
    finished = completion.stop != "length"
    removed = support.list_removed(WEBGLM_METHOD, completion.text, finished)
    if written.answer is None:
        detail = "nothing that the model wrote is a supported answer: the quotes stand as they are"
        removed.append(Failure(WEBGLM_METHOD, Outcome.NOT_WRITTEN, detail))
        failures = (*episode.failures, *removed)
        return msgspec.structs.replace(episode, steps=written.steps, failures=failures)
    scored = {"score": extracted.score, "calibrated": extracted.calibrated}
    answer = msgspec.structs.replace(written.answer, **scored)
    return msgspec.structs.replace(written, answer=answer, failures=(*written.failures, *removed))
