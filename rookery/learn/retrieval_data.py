"""Questions with their references, each scored by how much of the answer it holds.

The score is WebGLM's label (sections 3.1.2 and 5.4.2).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.learn.training_data import describe_left_out
from rookery.library.question_files import read_squad
from rookery.pages.page_text import neutralize_line
from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.quotes.word_overlap import compute_rouge_n, split_words
from rookery.records import Episode, Failure, Page
from rookery.typed_files import read_json_lines

HARD_NEGATIVE_FACTOR = 3
"""times as many of the references most alike to a question are those from which some are drawn"""
_REFERENCE_LINE = re.compile(r"Reference \[\d+\]: (.*)")


class RetrievalTriple(msgspec.Struct, frozen=True):
    """A question, what was read to answer it, and the answer; other fields are not looked at."""

    question: str
    references: tuple[str, ...]
    answer: str
    cited: tuple[int, ...] | None = None
    """the numbers of the references that the answer cites, counted from 0; None: nobody knows"""

    def __post_init__(self) -> None:
        if any(not 0 <= number < len(self.references) for number in self.cited or ()):
            raise ValueError(f"it cites {self.cited} of {len(self.references)} references")


class RetrievalSources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of questions, references and answers, and how a reference is scored."""

    episodes: tuple[str, ...] = ()
    """files of Episodes: an answer's quotes are its references, and all that a WebGLM prompt shows,
    cited or not"""
    triples: tuple[str, ...] = ()
    """files with a RetrievalTriple a line"""
    squad: tuple[str, ...] = ()
    """SQuAD files: all paragraphs of its article are a question's references, and the one it was
    written about counts as cited"""
    questions: int | None = None
    """number of questions, drawn from all; None: all"""
    worth: Literal["precision", "cited"] = "precision"
    """worth of a reference: the share of the answer's words that it holds, which is the answer's
    ROUGE-1 precision against it; or 1 where the answer cites it and 0 where it does not"""
    cut: Literal["whole", "sentences"] = "whole"
    """what is weighed: references as they are, or each of their sentences, as
    `evidence.passage_ranking` compares them"""

    def __post_init__(self) -> None:
        if self.questions is not None and self.questions < 2:
            raise ValueError("questions must be 2 or more, or left out for all")
        if (self.worth, self.cut) == ("cited", "sentences"):
            raise ValueError('what is cited is a whole reference: let cut be "whole"')


class ScoredReferences(NamedTuple):
    """A question and its references, each with a score from 0 to 1."""

    question: str
    answers: tuple[str, ...]
    """any of which is accepted: other references are weighed by them; none where what is not cited
    is worth nothing"""
    references: tuple[str, ...]
    worths: tuple[float, ...]


class ReferenceScorer:
    """Scores references by their words in common with answers.

    Keeps the words and sentences of each reference that it was given.
    """

    def __init__(self) -> None:
        self._words_by_text: dict[str, list[str]] = {}
        self._sentences_by_text: dict[str, list[str]] = {}

    def compute_precision(self, answers: Iterable[str], reference: str) -> float:
        """Return the share of an answer's words that the reference holds; the best of the answers.

        That is the ROUGE-1 precision of the answer against the reference: "the Rouge-1 precision
        score p of corresponding answer a and each of the reference r" (WebGLM, section 5.4.2).
        Words such as "the" do not count, as in `quotes.repair`, but in an answer that has no other.
        0 without answers.
        """
        reference_words = self._get_words(reference)
        return max(
            (
                compute_rouge_n(_list_content_words(each), reference_words).precision
                for each in answers
            ),
            default=0.0,
        )

    def split_sentences(self, reference: str) -> list[str]:
        """Return the sentences of a reference; the whole text if none is found."""
        if reference not in self._sentences_by_text:
            page = Page("", "", reference)
            spans = find_sentences(page, 0, len(reference))
            found = [reference[start:end] for start, end in spans]
            self._sentences_by_text[reference] = found or [reference]
        return self._sentences_by_text[reference]

    def _get_words(self, reference: str) -> list[str]:
        if reference not in self._words_by_text:
            self._words_by_text[reference] = split_words(reference)
        return self._words_by_text[reference]


def _list_content_words(answer: str) -> list[str]:
    said = split_words(answer)
    return [word for word in said if word not in QUESTION_WORDS] or said


def load_scored_references(
    sources: RetrievalSources, seed: int = 0
) -> tuple[list[ScoredReferences], str]:
    """Return all questions with scored references, and counts of what was left out, with reasons.

    Duplicates are read once; with `sources.questions`, so many questions are drawn by the seed.
    Raises Failed: not_found, bad_line, bad_squad, nothing_chosen (no question is left),
    nothing_to_learn (all references score the same).
    """
    left_out: Counter[str] = Counter()
    read = list(dict.fromkeys(_filter_usable(_read_sources(sources), sources, left_out)))
    if sources.questions is not None and sources.questions < len(read):
        read = Random(f"{seed} questions").sample(read, sources.questions)
    weighing = ReferenceScorer()
    scored = [_score_references(each, sources, weighing) for each in read]
    _check_scored(scored, sources, left_out)
    return scored, describe_left_out(left_out)


class _UnscoredReferences(NamedTuple):
    question: str
    answers: tuple[str, ...]
    references: tuple[str, ...]
    cited: tuple[int, ...] | None


def _read_sources(sources: RetrievalSources) -> Iterator[_UnscoredReferences]:
    for path in sources.episodes:
        yield from map(_convert_episode, read_json_lines(Path(path), Episode))
    for path in sources.triples:
        for each in read_json_lines(Path(path), RetrievalTriple):
            yield _UnscoredReferences(each.question, (each.answer,), each.references, each.cited)
    for path in sources.squad:
        yield from _read_squad_file(Path(path))


def _convert_episode(episode: Episode) -> _UnscoredReferences:
    answer = episode.answer
    if answer is None or answer.declined:
        return _UnscoredReferences(episode.question.text, (), (), None)
    quoted = [neutralize_line(quote.text) for quote in answer.quotes]
    shown = (text for step in episode.steps for text in _parse_prompt_references(step.prompt))
    references = tuple(dict.fromkeys([*shown, *quoted]))
    cited = {quoted[number] for claim in answer.claims for number in claim.quotes}
    numbers = tuple(number for number, text in enumerate(references) if text in cited)
    return _UnscoredReferences(episode.question.text, (answer.text,), references, numbers)


def _parse_prompt_references(prompt: str) -> list[str]:
    """Return the references of a WebGLM prompt, in its last lines; its example stands before
    them."""
    lines = prompt.rstrip().splitlines()[-3::-1]
    found = [match[1] for match in takewhile(bool, map(_REFERENCE_LINE.fullmatch, lines)) if match]
    return found[::-1]


def _read_squad_file(path: Path) -> Iterator[_UnscoredReferences]:
    try:
        squad = read_squad(path)
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error
    except ValueError as error:
        detail = f"{error}: name a file as SQuAD publishes them"
        raise Failed(Failure(str(path), Outcome.BAD_SQUAD, detail)) from error
    for question in squad.questions:
        article, paragraph = squad.places[question.id]
        references = squad.articles[article].paragraphs
        yield _UnscoredReferences(question.text, question.gold, references, (paragraph,))


def _filter_usable(
    read: Iterable[_UnscoredReferences], sources: RetrievalSources, left_out: Counter[str]
) -> Iterator[_UnscoredReferences]:
    for each in read:
        if not any(split_words(answer) for answer in each.answers):
            left_out["questions without an answer"] += 1
        elif not any(split_words(reference) for reference in each.references):
            left_out["questions without a reference"] += 1
        elif sources.worth == "cited" and each.cited is None:
            left_out["questions of which nobody knows what their answer cites"] += 1
        else:
            yield each


def _score_references(
    read: _UnscoredReferences, sources: RetrievalSources, weighing: ReferenceScorer
) -> ScoredReferences:
    references = read.references
    if sources.cut == "sentences":
        references = tuple(
            dict.fromkeys(s for text in references for s in weighing.split_sentences(text))
        )
    if sources.worth == "cited":
        worths = tuple(float(number in (read.cited or ())) for number in range(len(references)))
        return ScoredReferences(read.question, (), references, worths)
    worths = tuple(weighing.compute_precision(read.answers, text) for text in references)
    return ScoredReferences(read.question, read.answers, references, worths)


def _check_scored(
    scored: Sequence[ScoredReferences], sources: RetrievalSources, left_out: Counter[str]
) -> None:
    files = ", ".join((*sources.episodes, *sources.triples, *sources.squad))
    if not scored:
        why = describe_left_out(left_out) or "the files hold none"
        detail = f"no question is left to learn from ({why}): name other files"
        raise Failed(Failure(files or "no files", Outcome.NOTHING_CHOSEN, detail))
    if len({worth for each in scored for worth in each.worths}) == 1:
        detail = "all references are worth the same: add some that hold less of the answer"
        raise Failed(Failure(files, Outcome.NOTHING_TO_LEARN, detail))


class ReferenceSamplingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of questions, references and negatives of one training step."""

    questions: int = 16
    """questions that make one step of the optimiser"""
    references: int = 8
    """references of each question: one of those worth most, and others, drawn anew in every
    epoch"""
    negatives: Literal["any", "alike"] = "any"
    """which others: any, or from those that have most words in common with the question"""
    others: int = 0
    """references of the step's other questions with which each is compared besides"""

    def __post_init__(self) -> None:
        if min(self.questions, self.references) < 1 or self.others < 0:
            raise ValueError("questions and references must be 1 or more, others 0 or more")


class RetrievalExample(NamedTuple):
    """A question, and references with their scores."""

    question: str
    references: Sequence[str]
    worths: Sequence[float]


class RetrievalBatches:
    """The questions and references of each training step."""

    def __init__(
        self, questions: Sequence[ScoredReferences], drawing: ReferenceSamplingSettings, seed: int
    ) -> None:
        self._questions = questions
        self._sampling_settings = drawing
        self._seed = seed
        self._reference_scorer = ReferenceScorer()
        self.steps_an_epoch = -(-len(questions) // drawing.questions)

    def sample_batch(self, step: int) -> list[RetrievalExample]:
        """Return the examples of one step, with newly drawn references in every epoch.

        An epoch has each question once, in a new order. With `others`, each example also has so
        many references of the step's other questions, with their scores.
        """
        epoch, at = divmod(step, self.steps_an_epoch)
        order = list(range(len(self._questions)))
        Random(f"{self._seed} order {epoch}").shuffle(order)
        size, how = self._sampling_settings.references, self._sampling_settings.negatives
        some = [self._questions[n] for n in order[at * self._sampling_settings.questions :]]
        some = some[: self._sampling_settings.questions]
        seed = f"{self._seed} epoch {epoch}"
        lessons = [sample_references(each, size, how, seed) for each in some]
        if not self._sampling_settings.others:
            return lessons
        add = self._add_in_batch_references
        return [add(each, lessons, n, step) for n, each in enumerate(some)]

    def _add_in_batch_references(
        self, own: ScoredReferences, lessons: Sequence[RetrievalExample], number: int, step: int
    ) -> RetrievalExample:
        other_references = {text for each in lessons for text in each.references}.difference(
            own.references
        )
        count = min(self._sampling_settings.others, len(other_references))
        more = Random(f"{self._seed} others {step} {number}").sample(
            sorted(other_references), count
        )
        worths = [self._reference_scorer.compute_precision(own.answers, text) for text in more]
        lesson = lessons[number]
        return RetrievalExample(
            lesson.question, [*lesson.references, *more], [*lesson.worths, *worths]
        )


def sample_references(
    each: ScoredReferences, count: int, negatives: Literal["any", "alike"], seed: str
) -> RetrievalExample:
    """Draw at most `count` references of a question, the first one with the highest score.

    Of several with that score one is drawn. The rest are any of the others; with `negatives`
    "alike", from those that share most words with the question, three times as many as are drawn.
    There must be a reference. The seed and the question alone decide what is drawn.
    """
    random = Random(f"{seed} {each.question}")
    numbers, most = range(len(each.references)), max(each.worths)
    best = random.choice([number for number in numbers if each.worths[number] == most])
    rest = [number for number in numbers if number != best]
    if negatives == "alike":
        question_words = split_words(each.question)
        shared = [
            compute_rouge_n(question_words, split_words(text)).precision for text in each.references
        ]
        rest = sorted(rest, key=lambda number: -shared[number])[
            : HARD_NEGATIVE_FACTOR * (count - 1)
        ]
    chosen = [best, *random.sample(rest, min(count - 1, len(rest)))]
    worths = [each.worths[number] for number in chosen]
    return RetrievalExample(each.question, [each.references[number] for number in chosen], worths)
