"""Training answers bootstrapped with WebGLM: citations corrected, bad answers rejected.

The paper's section 3.2.3: a larger model answers, and what is good of it teaches a smaller one.
"""

import re
from collections.abc import Sequence

import msgspec

from rookery.pages.page_text import neutralize_line
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.quotes.citation_syntax import parse_numbered, render_numbered
from rookery.quotes.repair import NUMBER_OR_ESCAPED_MARK, CorrectionSettings, correct_citations
from rookery.quotes.word_overlap import compute_rouge_n, split_words
from rookery.records import Answer, Claim, Completion, Episode, Failure, Page, Question, Quote, Step

_REFERENCE = re.compile(r"Reference \[[0-9]+\]: ?")


class BootstrapSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of bootstrapped answers. The paper gives only the first threshold."""

    overlap: float = 0.57
    """minimum share of the answer's words that occur in the references, stop words left out
    (WebGLM, section 3.2.3); with less it is rejected as hallucination"""
    citations: int = 2
    """minimum number of references cited, or all where there are fewer (else few_citations)"""
    accuracy: float = 0.5
    """minimum share of the original citations that correction keeps (else low_citation_accuracy)"""
    correct: CorrectionSettings = CorrectionSettings()
    """correction of citations"""


def filter_bootstrapped_episode(
    episode: Episode, settings: BootstrapSettings = BootstrapSettings()
) -> Episode:
    """Turn an episode of `answer_with_webglm` into a training example, or reject its answer.

    An accepted episode has the completion rewritten with corrected citations. A rejected one has no
    answer, the reason as its stop and last among its failures, and the original completion. An
    episode without an answer is returned unchanged.
    """
    if episode.answer is None or not episode.steps:
        return episode
    step, answer = episode.steps[-1], episode.answer
    references = _parse_prompt_references(step.prompt, episode.question)
    if reason := _find_rejection(step, answer, references, settings):
        failures = (*episode.failures, reason)
        return msgspec.structs.replace(episode, answer=None, stop=reason.outcome, failures=failures)
    corrected_step = Step(step.prompt, Completion(_render_prompt_numbers(answer, references)))
    return msgspec.structs.replace(episode, steps=(*episode.steps[:-1], corrected_step))


def _parse_prompt_references(prompt: str, question: Question) -> list[str]:
    """Return the references of a WebGLM prompt, one line each, those of its example left out."""
    before = prompt.removesuffix(f"\nQuestion: {question.text}\nAnswer:")
    lines = before.rpartition("\n\n")[2].split("\n")
    return [_REFERENCE.sub("", line, count=1) for line in lines if _REFERENCE.match(line)]


def _find_rejection(
    step: Step, answer: Answer, references: Sequence[str], settings: BootstrapSettings
) -> Failure | None:
    """Return the reason to reject an answer; None where it is accepted."""
    content = _content_words(answer.text)
    overlap = compute_rouge_n(content, _content_words(" ".join(references))).precision
    if overlap < settings.overlap:
        detail = f"{overlap:.0%} of its words are in the references, less than the least share"
        return Failure("answer", "hallucination", detail)
    cited = {number for claim in answer.claims for number in claim.quotes}
    least = min(settings.citations, len(references))
    if len(cited) < least:
        detail = f"it cites {len(cited)} of {len(references)} references, fewer than {least}"
        return Failure("answer", "few_citations", detail)
    accuracy = _measure_citation_accuracy(step.said.text, references, settings.correct)
    if accuracy < settings.accuracy:
        detail = f"{accuracy:.0%} of its citations fit what they cite, less than the least share"
        return Failure("answer", "low_citation_accuracy", detail)
    return None


def _measure_citation_accuracy(
    text: str, references: Sequence[str], settings: CorrectionSettings
) -> float:
    """Return the share of the original citations that correction leaves in place.

    A number that no reference has counts as a wrong citation.
    """
    quotes = [_quote_line(line) for line in (*references, "none")]
    none = f"[{len(quotes)}]"

    def replace_unknown(mark: re.Match[str]) -> str:
        is_none = mark[0][0] == "[" and not 0 < int(mark[0][1:10].rstrip("]")) < len(quotes)
        return none if is_none else mark[0]

    written = parse_numbered(NUMBER_OR_ESCAPED_MARK.sub(replace_unknown, text.strip()), quotes)
    bare = tuple(Claim(claim.start, claim.end, ()) for claim in written.claims)
    corrected = correct_citations(Answer(written.text, tuple(quotes[:-1]), bare), settings)
    fitting = {(claim.start, claim.end): claim.quotes for claim in corrected.claims}
    correct = [
        number in fitting.get((claim.start, claim.end), ())
        for claim in written.claims
        for number in claim.quotes
    ]
    return sum(correct) / max(len(correct), 1)


def _quote_line(line: str) -> Quote:
    text = line or " "
    return Page("", "", text).quote(0, len(text))


def _content_words(text: str) -> list[str]:
    return [word for word in split_words(text) if word not in QUESTION_WORDS]


def _render_prompt_numbers(answer: Answer, references: Sequence[str]) -> str:
    """Render an answer with each citation as the number that its reference has in the prompt."""
    own = [neutralize_line(quote.text) for quote in answer.quotes]
    numbers = [references.index(line) for line in own]
    claims = tuple(
        msgspec.structs.replace(claim, quotes=tuple(numbers[number] for number in claim.quotes))
        for claim in answer.claims
    )
    # Only the numbers are rendered, so the quotes can be made of the shown lines.
    quotes = tuple(_quote_line(line) for line in references)
    return render_numbered(Answer(answer.text, quotes, claims))
