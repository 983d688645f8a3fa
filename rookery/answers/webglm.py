"""WebGLM: answers with numbered citations of five references, and bootstrapped training answers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from rookery.answers.batch import JsonLineAnswerer, answer_all
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
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.quotes.citation_syntax import order_quotes_by_use, parse_numbered, render_numbered
from rookery.quotes.repair import (
    NUMBER_OR_ESCAPED_MARK,
    CorrectionSettings,
    correct_citations,
    parse_and_correct,
)
from rookery.quotes.word_overlap import compute_rouge_n, split_words
from rookery.records import (
    Answer,
    Claim,
    Completion,
    Episode,
    Failure,
    Library,
    Page,
    Policy,
    Question,
    Quote,
    Step,
    prepare_type,
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


EpisodeAnswerer = Callable[[Question], Episode]
"""answers a question: `answer_with_webglm` with its library and policy"""
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


def bootstrap_episodes(
    questions: Iterable[Question],
    answer: EpisodeAnswerer,
    settings: BootstrapSettings = BootstrapSettings(),
) -> Iterator[Episode]:
    """Yield a corrected and filtered training episode for each question, rejected ones included.

    `answer` answers a question; each of its episodes goes through `filter_bootstrapped_episode`.
    Raises what `answer` raises.
    """
    return (filter_bootstrapped_episode(answer(question), settings) for question in questions)


def bootstrap_to_file(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], EpisodeAnswerer],
    settings: BootstrapSettings = BootstrapSettings(),
    workers: int = 1,
    progress: Callable[[int], None] = lambda done: None,
    threads: bool = False,
) -> dict[str, int]:
    """Append a corrected and filtered episode per question to `out`; count its episodes by stop.

    Episodes with the stop "end" are accepted for training; the stops of the others are the reasons
    of rejection. Questions that `out` answers already, from a run that was broken off, are not
    asked again and are counted. `make` returns the function that answers, in each of `workers`
    processes or once for all `threads`; `progress` gets the number of lines done. Raises ValueError
    where `out` has the answers to other questions, and OSError where it cannot be written or a
    worker died.
    """
    answer_all(
        questions, out, partial(_make_line_answerer, make, settings), workers, progress, threads
    )
    with out.open("rb") as lines:
        stops = Counter(
            msgspec.json.decode(line, type=prepare_type(_EpisodeStop)).stop for line in lines
        )
    return dict(stops.most_common())


class _EpisodeStop(msgspec.Struct):
    stop: str = "end"


def _make_line_answerer(
    make: Callable[[], EpisodeAnswerer], settings: BootstrapSettings
) -> JsonLineAnswerer:
    answer = make()
    return lambda question: filter_bootstrapped_episode(answer(question), settings).to_json()


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
        return Failure("answer", Outcome.HALLUCINATION, detail)
    cited = {number for claim in answer.claims for number in claim.quotes}
    least = min(settings.citations, len(references))
    if len(cited) < least:
        detail = f"it cites {len(cited)} of {len(references)} references, fewer than {least}"
        return Failure("answer", Outcome.FEW_CITATIONS, detail)
    accuracy = _measure_citation_accuracy(step.said.text, references, settings.correct)
    if accuracy < settings.accuracy:
        detail = f"{accuracy:.0%} of its citations fit what they cite, less than the least share"
        return Failure("answer", Outcome.LOW_CITATION_ACCURACY, detail)
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
