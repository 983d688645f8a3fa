"""Answers to learn from, written by a policy that is shown one example (WebGLM, section 3.2).

Citations are corrected, and answers that do not keep to their references are set aside: kept with
the reason, and without an answer. It knows nothing of how anything is learnt.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from rookery.browse.view import neutral
from rookery.browse.words import QUESTION_WORDS
from rookery.cite.correct import NUMBER_OR_ESCAPED, CorrectSettings, correct
from rookery.cite.overlap import rouge_n, words
from rookery.cite.syntax import parse_numbered, render_numbered
from rookery.draft.batch import Answering, answer_all
from rookery.records import Answer, Claim, Completion, Episode, Failure, Page, Question, Quote, Step

Answered = Callable[[Question], Episode]
"""`webglm` with its library and policy: what it writes is corrected and filtered here"""
_REFERENCE = re.compile(r"Reference \[[0-9]+\]: ?")


class BootstrapSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an answer must be to be learnt from. The paper prints the first threshold only."""

    overlap: float = 0.57
    """least share of the answer's words that the references together hold, "the" and the like left
    out (WebGLM, section 3.2.3); with less it was written from memory (hallucination)"""
    citations: int = 2
    """least number of references that are cited, or all where there are fewer (few_citations)"""
    accuracy: float = 0.5
    """least share of the citations as they were written that correction keeps
    (low_citation_accuracy)"""
    correct: CorrectSettings = CorrectSettings()


def bootstrapped(episode: Episode, settings: BootstrapSettings = BootstrapSettings()) -> Episode:
    """What `webglm` answered, as it is to be learnt from: said with its citations corrected.

    One that must not be learnt from has no answer, a reason as its stop, and the figure last among
    its failures; what was said stays as it was. One without an answer is given back as it is.
    """
    if episode.answer is None or not episode.steps:
        return episode
    step, answer = episode.steps[-1], episode.answer
    shown = _shown(step.prompt, episode.question)
    if reason := _fault(step, answer, shown, settings):
        failures = (*episode.failures, reason)
        return msgspec.structs.replace(episode, answer=None, stop=reason.outcome, failures=failures)
    said = Step(step.prompt, Completion(_as_shown(answer, shown)))
    return msgspec.structs.replace(episode, steps=(*episode.steps[:-1], said))


def bootstrap(
    questions: Iterable[Question],
    answer: Answered,
    settings: BootstrapSettings = BootstrapSettings(),
) -> Iterator[Episode]:
    """An episode for each question. Raises what `answer` raises."""
    return (bootstrapped(answer(question), settings) for question in questions)


def bootstrap_all(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], Answered],
    settings: BootstrapSettings = BootstrapSettings(),
    workers: int = 1,
    progress: Callable[[int], None] = lambda done: None,
    threads: bool = False,
) -> dict[str, int]:
    """Writes an episode for each question to `out`, as `answer_all` does; goes on where it stopped.

    Gives how often each stop is in the file: "end" are those to be learnt from, which imitation
    chooses. `make` is called in every process, or once for all threads. Raises what `answer_all`
    raises.
    """
    answer_all(questions, out, partial(_lines, make, settings), workers, progress, threads)
    with out.open("rb") as lines:
        stops = Counter(msgspec.json.decode(line, type=_Stopped).stop for line in lines)
    return dict(stops.most_common())


class _Stopped(msgspec.Struct):
    stop: str = "end"


def _lines(make: Callable[[], Answered], settings: BootstrapSettings) -> Answering:
    answer = make()
    return lambda question: bootstrapped(answer(question), settings).to_json()


def _shown(prompt: str, question: Question) -> list[str]:
    """The references that a prompt of `webglm` shows, a line each, behind its example."""
    before = prompt.removesuffix(f"\nQuestion: {question.text}\nAnswer:")
    lines = before.rpartition("\n\n")[2].split("\n")
    return [_REFERENCE.sub("", line, count=1) for line in lines if _REFERENCE.match(line)]


def _fault(
    step: Step, answer: Answer, shown: Sequence[str], settings: BootstrapSettings
) -> Failure | None:
    """Why an answer must not be learnt from."""
    content = _content(answer.text)
    overlap = rouge_n(content, _content(" ".join(shown))).precision
    if overlap < settings.overlap:
        detail = f"{overlap:.0%} of its words are in the references, less than the least share"
        return Failure("answer", "hallucination", detail)
    cited = {number for claim in answer.claims for number in claim.quotes}
    least = min(settings.citations, len(shown))
    if len(cited) < least:
        detail = f"it cites {len(cited)} of {len(shown)} references, fewer than {least}"
        return Failure("answer", "few_citations", detail)
    kept = _kept(step.said.text, shown, settings.correct)
    if kept < settings.accuracy:
        detail = f"{kept:.0%} of its citations fit what they cite, less than the least share"
        return Failure("answer", "low_citation_accuracy", detail)
    return None


def _kept(said: str, shown: Sequence[str], settings: CorrectSettings) -> float:
    """The share of citations as they were written that correction leaves in their places.

    A number that no reference has is a citation too, and a wrong one.
    """
    quotes = [_quote(line) for line in (*shown, "none")]
    none = f"[{len(quotes)}]"

    def known(mark: re.Match[str]) -> str:
        is_none = mark[0][0] == "[" and not 0 < int(mark[0][1:10].rstrip("]")) < len(quotes)
        return none if is_none else mark[0]

    written = parse_numbered(NUMBER_OR_ESCAPED.sub(known, said.strip()), quotes)
    bare = tuple(Claim(claim.start, claim.end, ()) for claim in written.claims)
    corrected = correct(Answer(written.text, tuple(quotes[:-1]), bare), settings)
    fitting = {(claim.start, claim.end): claim.quotes for claim in corrected.claims}
    kept = [
        number in fitting.get((claim.start, claim.end), ())
        for claim in written.claims
        for number in claim.quotes
    ]
    return sum(kept) / max(len(kept), 1)


def _quote(line: str) -> Quote:
    text = line or " "
    return Page("", "", text).quote(0, len(text))


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in QUESTION_WORDS]


def _as_shown(answer: Answer, shown: Sequence[str]) -> str:
    """The answer in words, each citation with the number that its reference has in the prompt."""
    own = [" ".join(neutral(quote.text).split()) for quote in answer.quotes]
    numbers = [shown.index(line) for line in own]
    claims = tuple(
        msgspec.structs.replace(claim, quotes=tuple(numbers[number] for number in claim.quotes))
        for claim in answer.claims
    )
    # Only the numbers are written: which quotes stand behind them does not matter.
    quotes = tuple(_quote(line) for line in shown)
    return render_numbered(Answer(answer.text, quotes, claims))
