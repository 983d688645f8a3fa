"""Answers in a model's words: the evidence model finds and judges, a small model puts into words.

A language model of a hundred million weights makes a sentence of what it is shown; it neither
chooses facts nor writes citation numbers reliably. So its references are the quotes of `extract`,
its prompt is short, and each of its sentences is cited afterwards by the quotes that support it, or
taken out.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from rookery.browse.page_text import neutralize_text
from rookery.browse.passages import find_sentences
from rookery.cite.evidence_model import EvidenceJudge, EvidencePassage
from rookery.cite.sentence_support import SupportedText, SupportSettings, cite_sentences
from rookery.cite.syntax import CitationSyntaxError, order_quotes_by_use
from rookery.draft.best_of_n import (
    AnswerDraft,
    BestOfNSettings,
    answer_with_best_draft,
    parse_draft,
    render_prompt,
)
from rookery.draft.webglm import WEBGLM_METHOD
from rookery.records import Answer, Episode, Failure, Page, Policy, Quote, Step

UNSUPPORTED = "unsupported"
"""outcome of a sentence that was taken out, among an episode's failures"""
NOT_WRITTEN = "not_written"
"""outcome where nothing of what the model wrote is supported, and the quotes are given instead"""


class WritingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of answers in a small model's words."""

    references: int = 3
    """maximum number of quotes in the prompt"""
    support: SupportSettings = SupportSettings()
    """what a sentence needs in order to stay"""


class WritingReference(NamedTuple):
    """The part of a quote that a small model is shown."""

    text: str
    """the sentences in which the answer stands"""
    answer: str
    """the words that answer best"""


def find_references(
    question: str, quotes: Sequence[Quote], judge: EvidenceJudge | None = None
) -> list[WritingReference]:
    """Return the sentences of each quote in which the evidence model finds the answer.

    Of a span of several sentences, the answer is the one that answers best. Without a judge both
    are the whole quote.
    """
    if judge is None:
        return [WritingReference(quote.text, quote.text) for quote in quotes]
    judged = judge(question, [EvidencePassage(quote.text, quote.title) for quote in quotes])
    return [
        _cut_reference(question, quote, *each.span, judge)
        for quote, each in zip(quotes, judged, strict=True)
    ]


def _cut_reference(
    question: str, quote: Quote, first: int, last: int, judge: EvidenceJudge
) -> WritingReference:
    text = quote.text
    sentences = find_sentences(Page("", "", text), 0, len(text))
    around = [span for span in sentences if span[0] < last and first < span[1]]
    if not around:
        return WritingReference(text, text)
    shown = text[around[0][0] : around[-1][1]]
    if len(around) == 1:
        return WritingReference(shown, text[first:last])
    each = [text[low:high] for low, high in around]
    judged = judge(question, [EvidencePassage(sentence, quote.title) for sentence in each])
    best = max(range(len(each)), key=lambda number: judged[number].answers)
    return WritingReference(shown, each[best])


def render_writing_prompt(question: str, references: Sequence[WritingReference]) -> str:
    """Render the prompt that shows references, best first, and asks for the answer in words.

    The model continues it as it is, to the end of the line (WRITING_SETTINGS).
    """
    return render_prompt(
        "webglm_short",
        references=" ".join(_to_one_line(each.text) for each in references),
        question=_to_one_line(question),
        answer=_to_one_line(references[0].answer),
    )


def _to_one_line(text: str) -> str:
    return " ".join(neutralize_text(text).split())


def put_into_words(
    found: Episode,
    policy: Policy,
    judge: EvidenceJudge | None = None,
    choosing: BestOfNSettings = BestOfNSettings(),
    settings: WritingSettings = WritingSettings(),
) -> Episode:
    """Have a model put an extractive answer into words, each sentence resting on its quotes.

    `found` is an episode of `answer_by_evidence` or `answer_by_extraction`. One that declines or
    has no answer is returned as it is, and the model is not asked. The model is shown the quotes,
    best first; a sentence that none of them supports is taken out, and the failures say which
    (unsupported). Where no sentence is left, `found` is returned with the steps and the failure
    not_written: it is still by "extract". The score is that of `found`. Where the model cannot be
    asked the stop is policy_failed.
    """
    if found.answer is None or found.answer.declined or not found.answer.quotes:
        return found
    quotes = found.answer.quotes[: settings.references]
    references = find_references(found.question.text, quotes, judge)
    asked = render_writing_prompt(found.question.text, references)

    @cache
    def cite(text: str, finished: bool) -> SupportedText:
        question = found.question.text
        return cite_sentences(text, quotes, question, judge, finished, settings.support)

    def sample(n: int) -> list[AnswerDraft]:
        drafts = []
        for said in policy.complete(asked, n):

            def read(text: str, finished: bool = said.stop != "length") -> Answer:
                answer = cite(text, finished).answer
                if not answer.text:
                    raise CitationSyntaxError("no sentence of it is supported by what was quoted")
                return order_quotes_by_use(answer)

            drafts.append(AnswerDraft(Step(asked, said), *parse_draft(said.text, read)))
        return drafts

    # What is declined was decided before, and the score says how well the quotes answer.
    choosing = msgspec.structs.replace(choosing, decline=None)
    written = answer_with_best_draft(
        found.question, WEBGLM_METHOD, sample, choosing, found.failures
    )
    if written.stop == "policy_failed":
        return written
    said = written.steps[-1].said
    taken_out = cite(said.text.strip(), said.stop != "length").removed
    removed = tuple(Failure(WEBGLM_METHOD, UNSUPPORTED, sentence) for sentence in taken_out)
    if written.answer is None:
        detail = "no sentence that the model wrote is supported: the quotes stand as they are"
        failures = (*found.failures, *removed, Failure(WEBGLM_METHOD, NOT_WRITTEN, detail))
        return msgspec.structs.replace(found, steps=written.steps, failures=failures)
    answer = msgspec.structs.replace(
        written.answer, score=found.answer.score, calibrated=found.answer.calibrated
    )
    return msgspec.structs.replace(written, answer=answer, failures=(*written.failures, *removed))
