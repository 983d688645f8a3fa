"""Questions with their references, and what each reference is worth: how much of the answer it has.

The worth is WebGLM's label (sections 3.1.2 and 5.4.2). It knows nothing of models.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import msgspec

from rookery.ask.squad import read_squad
from rookery.browse.passages import sentences
from rookery.browse.view import neutral
from rookery.browse.words import QUESTION_WORDS
from rookery.cite.overlap import rouge_n, words
from rookery.judge.lines import read_lines
from rookery.learn.examples import worded
from rookery.records import Episode, Failed, Failure, Page

ALIKE = 3
"""times as many of the references most alike to a question are those from which some are drawn"""
_REFERENCE = re.compile(r"Reference \[\d+\]: (.*)")


class Triple(msgspec.Struct, frozen=True):
    """A question, what was read to answer it, and the answer; other fields are not looked at."""

    question: str
    references: tuple[str, ...]
    answer: str
    cited: tuple[int, ...] | None = None
    """the numbers of the references that the answer cites, counted from 0; None: nobody knows"""

    def __post_init__(self) -> None:
        if any(not 0 <= number < len(self.references) for number in self.cited or ()):
            raise ValueError(f"it cites {self.cited} of {len(self.references)} references")


class Sources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where questions, references and answers are read, and what a reference is worth."""

    episodes: tuple[str, ...] = ()
    """files of Episodes: an answer's quotes are its references, and all that a WebGLM prompt shows,
    cited or not"""
    triples: tuple[str, ...] = ()
    """files with a Triple a line"""
    squad: tuple[str, ...] = ()
    """SQuAD files: all paragraphs of its article are a question's references, and the one it was
    written about counts as cited"""
    questions: int | None = None
    """so many, drawn from all; None: all"""
    worth: Literal["precision", "cited"] = "precision"
    """of a reference: the share of the answer's words that it holds, which is the answer's ROUGE-1
    precision against it; or 1 where the answer cites it and 0 where it does not"""
    cut: Literal["whole", "sentences"] = "whole"
    """what is weighed: references as they are, or each of their sentences, as `cite.rank` compares
    them"""

    def __post_init__(self) -> None:
        if self.questions is not None and self.questions < 2:
            raise ValueError("questions must be 2 or more, or left out for all")
        if (self.worth, self.cut) == ("cited", "sentences"):
            raise ValueError('what is cited is a whole reference: let cut be "whole"')


class Weighed(NamedTuple):
    """A question, its references, and what each is worth, from 0 to 1."""

    question: str
    answers: tuple[str, ...]
    """any of which is accepted: other references are weighed by them; none where what is not cited
    is worth nothing"""
    references: tuple[str, ...]
    worths: tuple[float, ...]


class Weighing:
    """Says what references are worth. What it finds out about a text it keeps."""

    def __init__(self) -> None:
        self._words: dict[str, list[str]] = {}
        self._sentences: dict[str, list[str]] = {}

    def precision(self, answers: Iterable[str], reference: str) -> float:
        """The share of an answer's words that the reference holds, of the answer that it holds
        most of.

        The answer is what is said, and the reference what it is compared with: "the Rouge-1
        precision score p of corresponding answer a and each of the reference r" (WebGLM, section
        5.4.2). Words such as "the" do not count, as in `cite.correct`, but in an answer that has
        no other.
        """
        held = self._held(reference)
        return max((rouge_n(_content(each), held).precision for each in answers), default=0.0)

    def cut(self, reference: str) -> list[str]:
        """Its sentences."""
        if reference not in self._sentences:
            page = Page("", "", reference)
            spans = sentences(page, 0, len(reference))
            found = [reference[start:end] for start, end in spans]
            self._sentences[reference] = found or [reference]
        return self._sentences[reference]

    def _held(self, reference: str) -> list[str]:
        if reference not in self._words:
            self._words[reference] = words(reference)
        return self._words[reference]


def _content(answer: str) -> list[str]:
    said = words(answer)
    return [word for word in said if word not in QUESTION_WORDS] or said


def read_weighed(sources: Sources, seed: int = 0) -> tuple[list[Weighed], str]:
    """All questions with their references, and in words what was left out and why.

    What is asked, answered and referred to in the same words is read once. Raises Failed:
    not_found, bad_line, bad_squad, nothing_chosen, nothing_to_learn.
    """
    left_out: Counter[str] = Counter()
    read = list(dict.fromkeys(_wanted(_all(sources), sources, left_out)))
    if sources.questions is not None and sources.questions < len(read):
        read = Random(f"{seed} questions").sample(read, sources.questions)
    weighing = Weighing()
    found = [_weighed(each, sources, weighing) for each in read]
    _check(found, sources, left_out)
    return found, worded(left_out)


class _Read(NamedTuple):
    question: str
    answers: tuple[str, ...]
    references: tuple[str, ...]
    cited: tuple[int, ...] | None


def _all(sources: Sources) -> Iterator[_Read]:
    for path in sources.episodes:
        yield from map(_of_episode, read_lines(Path(path), Episode))
    for path in sources.triples:
        for each in read_lines(Path(path), Triple):
            yield _Read(each.question, (each.answer,), each.references, each.cited)
    for path in sources.squad:
        yield from _of_squad(Path(path))


def _of_episode(episode: Episode) -> _Read:
    answer = episode.answer
    if answer is None or answer.declined:
        return _Read(episode.question.text, (), (), None)
    quoted = [" ".join(neutral(quote.text).split()) for quote in answer.quotes]
    shown = (text for step in episode.steps for text in _shown(step.prompt))
    references = tuple(dict.fromkeys([*shown, *quoted]))
    cited = {quoted[number] for claim in answer.claims for number in claim.quotes}
    numbers = tuple(number for number, text in enumerate(references) if text in cited)
    return _Read(episode.question.text, (answer.text,), references, numbers)


def _shown(prompt: str) -> list[str]:
    """The references of a WebGLM prompt, in its last lines; its example stands before them."""
    lines = prompt.rstrip().splitlines()[-3::-1]
    found = [match[1] for match in takewhile(bool, map(_REFERENCE.fullmatch, lines)) if match]
    return found[::-1]


def _of_squad(path: Path) -> Iterator[_Read]:
    try:
        squad = read_squad(path)
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), "not_found", detail)) from error
    except ValueError as error:
        detail = f"{error}: name a file as SQuAD publishes them"
        raise Failed(Failure(str(path), "bad_squad", detail)) from error
    for question in squad.questions:
        article, paragraph = squad.places[question.id]
        references = squad.articles[article].paragraphs
        yield _Read(question.text, question.gold, references, (paragraph,))


def _wanted(read: Iterable[_Read], sources: Sources, left_out: Counter[str]) -> Iterator[_Read]:
    for each in read:
        if not any(words(answer) for answer in each.answers):
            left_out["questions without an answer"] += 1
        elif not any(words(reference) for reference in each.references):
            left_out["questions without a reference"] += 1
        elif sources.worth == "cited" and each.cited is None:
            left_out["questions of which nobody knows what their answer cites"] += 1
        else:
            yield each


def _weighed(read: _Read, sources: Sources, weighing: Weighing) -> Weighed:
    references = read.references
    if sources.cut == "sentences":
        references = tuple(dict.fromkeys(s for text in references for s in weighing.cut(text)))
    if sources.worth == "cited":
        worths = tuple(float(number in (read.cited or ())) for number in range(len(references)))
        return Weighed(read.question, (), references, worths)
    worths = tuple(weighing.precision(read.answers, text) for text in references)
    return Weighed(read.question, read.answers, references, worths)


def _check(found: Sequence[Weighed], sources: Sources, left_out: Counter[str]) -> None:
    files = ", ".join((*sources.episodes, *sources.triples, *sources.squad))
    if not found:
        why = worded(left_out) or "the files hold none"
        detail = f"no question is left to learn from ({why}): name other files"
        raise Failed(Failure(files or "no files", "nothing_chosen", detail))
    if len({worth for each in found for worth in each.worths}) == 1:
        detail = "all references are worth the same: add some that hold less of the answer"
        raise Failed(Failure(files, "nothing_to_learn", detail))


class Drawing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one step learns from."""

    questions: int = 16
    """that make one step of the optimiser"""
    references: int = 8
    """of each question: one of those worth most, and others, drawn anew in every epoch"""
    negatives: Literal["any", "alike"] = "any"
    """those others: any, or from those that have most words in common with the question"""
    others: int = 0
    """references of the step's other questions with which each is compared besides"""

    def __post_init__(self) -> None:
        if min(self.questions, self.references) < 1 or self.others < 0:
            raise ValueError("questions and references must be 1 or more, others 0 or more")


class Lesson(NamedTuple):
    """A question, and references with what they are worth to it."""

    question: str
    references: Sequence[str]
    worths: Sequence[float]


class Dealt:
    """Questions, and which of them, with which references, each step learns from."""

    def __init__(self, questions: Sequence[Weighed], drawing: Drawing, seed: int) -> None:
        self._questions = questions
        self._drawing = drawing
        self._seed = seed
        self._weighing = Weighing()
        self.steps_an_epoch = -(-len(questions) // drawing.questions)

    def lessons(self, step: int) -> list[Lesson]:
        """In every epoch each question once, in an order and with references of its own."""
        epoch, at = divmod(step, self.steps_an_epoch)
        order = list(range(len(self._questions)))
        Random(f"{self._seed} order {epoch}").shuffle(order)
        size, how = self._drawing.references, self._drawing.negatives
        some = [self._questions[n] for n in order[at * self._drawing.questions :]]
        some = some[: self._drawing.questions]
        lessons = [drawn(each, size, how, f"{self._seed} epoch {epoch}") for each in some]
        if not self._drawing.others:
            return lessons
        return [self._with_others(each, lessons, n, step) for n, each in enumerate(some)]

    def _with_others(
        self, own: Weighed, lessons: Sequence[Lesson], number: int, step: int
    ) -> Lesson:
        theirs = {text for each in lessons for text in each.references}.difference(own.references)
        count = min(self._drawing.others, len(theirs))
        more = Random(f"{self._seed} others {step} {number}").sample(sorted(theirs), count)
        worths = [self._weighing.precision(own.answers, text) for text in more]
        lesson = lessons[number]
        return Lesson(lesson.question, [*lesson.references, *more], [*lesson.worths, *worths])


def drawn(each: Weighed, count: int, negatives: Literal["any", "alike"], seed: str) -> Lesson:
    """So many of a question's references, one of those worth most first."""
    random = Random(f"{seed} {each.question}")
    numbers, most = range(len(each.references)), max(each.worths)
    best = random.choice([number for number in numbers if each.worths[number] == most])
    rest = [number for number in numbers if number != best]
    if negatives == "alike":
        asked = words(each.question)
        shared = [rouge_n(asked, words(text)).precision for text in each.references]
        rest = sorted(rest, key=lambda number: -shared[number])[: ALIKE * (count - 1)]
    chosen = [best, *random.sample(rest, min(count - 1, len(rest)))]
    worths = [each.worths[number] for number in chosen]
    return Lesson(each.question, [each.references[number] for number in chosen], worths)


def held_out(found: Sequence[Weighed], share: float, seed: int) -> set[str]:
    """This share of the questions; what is asked in the same words is one question.

    Raises Failed: one_question where there is but one.
    """
    if not share:
        return set()
    questions = sorted({each.question for each in found})
    if len(questions) < 2:
        detail = "one question cannot be shared out: add others, or let validation be 0"
        raise Failed(Failure(questions[0][:80], "one_question", detail))
    size = min(max(round(share * len(questions)), 1), len(questions) - 1)
    return set(Random(f"{seed} validation").sample(questions, size))
