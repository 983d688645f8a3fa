"""What of a test was seen in training: the question itself, its answer, its page; and how well the
rest is answered (Lewis and others 2020; WebGPT, table 9; WebGLM, table 4).

It knows nothing of how a model was trained. A question that asks the same in other words is not
found: those are told apart by people alone.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from rookery.cite.overlap import words
from rookery.measure.exact import Form, squad_form
from rookery.measure.figure import Figure, Measured, bars_figure
from rookery.measure.interval import Estimate, mean
from rookery.records import Question, Record

ARTICLES = frozenset(("a", "an", "the"))


class Leak(Record, frozen=True):
    """What training has seen of one question of the test."""

    question: str = ""
    """the id of the question of training that asks the same; empty: none does"""
    answer: bool = False
    """one of its accepted answers is accepted to a question of training"""
    page: bool = False
    """its page (`source`) is that of a question of training"""


SUBSETS: Mapping[str, Callable[[Leak], bool]] = {
    "total": lambda leak: True,
    "question overlap": lambda leak: bool(leak.question),
    "no question overlap": lambda leak: not leak.question,
    "answer overlap": lambda leak: leak.answer,
    "answer overlap only": lambda leak: leak.answer and not leak.question,
    "no overlap": lambda leak: not leak.answer and not leak.question,
}
"""the columns of WebGPT's table 9"""


def split(
    train: Sequence[Question],
    test: Sequence[Question],
    likeness: float = 0.5,
    form: Form = squad_form,
) -> list[Leak]:
    """What training has seen of each question of the test, in the test's order.

    Two questions are the same where their words are, articles and English endings aside; or where
    they share `likeness` of their words and pairs of neighbouring words (those of both divided by
    those of either) and an accepted answer, unless one of them has none. Answers are the same
    where their `form` is. Raises ValueError for a likeness outside 0 to 1, 0 excluded.
    """
    if not 0 < likeness <= 1:
        raise ValueError(f"a likeness is above 0 and at most 1, not {likeness}")
    seen = _Seen(train, form)
    return [
        Leak(
            seen.same(question, likeness),
            not seen.answers.isdisjoint(_answers(question, form)),
            question.source in seen.pages,
        )
        for question in test
    ]


def held_out(train: Sequence[Question], test: Sequence[Question]) -> list[Question]:
    """The questions of the test of which training has seen neither question, answer nor page
    (GopherCite's NaturalQuestionsFiltered)."""
    leaks = split(train, test)
    return [question for question, leak in zip(test, leaks, strict=True) if leak == Leak()]


def by_overlap(
    scores: Sequence[float], leaks: Sequence[Leak], seed: int = 0
) -> dict[str, Estimate]:
    """The mean score in each of the SUBSETS; one that is empty is left out. Intervals by the
    bootstrap over questions."""
    pairs = list(zip(scores, leaks, strict=True))
    subsets = {
        name: [score for score, leak in pairs if within(leak)] for name, within in SUBSETS.items()
    }
    return {name: mean(subset, seed=seed) for name, subset in subsets.items() if subset}


def leakage_figure(systems: Mapping[str, Measured], says: str, name: str = "leakage") -> Figure:
    """The scores of each system by what training has seen, from `by_overlap` (WebGPT, table 9)."""
    title = "Scores by what was seen in training"
    return bars_figure(name, title, says, systems, "score", "WebGPT, table 9")


class _Seen:
    """Questions of training, found by what they hold."""

    def __init__(self, train: Sequence[Question], form: Form) -> None:
        self._form, self._train = form, train
        self._answers = [_answers(question, form) for question in train]
        texts = [_text(question.text) for question in train]
        self._runs = [_runs(text) for text in texts]
        self.answers = frozenset[str]().union(*self._answers)
        self.pages = frozenset(question.source for question in train if question.source)
        self._texts: dict[tuple[str, ...], int] = {}
        self._holding: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            if text:
                self._texts.setdefault(text, number)
            for run in self._runs[number]:
                self._holding[run].append(number)

    def same(self, question: Question, likeness: float) -> str:
        """The id of the question that asks the same, the likest of several; else nothing."""
        text, answers = _text(question.text), _answers(question, self._form)
        if text in self._texts:
            return self._train[self._texts[text]].id
        runs = _runs(text)
        alike = {
            number: _likeness(runs, self._runs[number])
            for number in self._candidates(runs, likeness)
            if self._may_answer(number, answers)
        }
        best = max(alike, key=lambda number: (alike[number], -number), default=None)
        return "" if best is None or alike[best] < likeness else self._train[best].id

    def _candidates(self, runs: frozenset[tuple[str, ...]], likeness: float) -> set[int]:
        """Those that can be alike enough: they hold one at least of the rarest runs, for what holds
        none of these lacks too many."""
        holding = sorted((self._holding.get(run, []) for run in runs), key=len)
        size = len(runs)
        may_lack = sum((size - lacking) / size >= likeness for lacking in range(1, size))
        return {number for numbers in holding[: may_lack + 1] for number in numbers}

    def _may_answer(self, number: int, answers: frozenset[str]) -> bool:
        theirs = self._answers[number]
        return not answers or not theirs or not answers.isdisjoint(theirs)


def _answers(question: Question, form: Form) -> frozenset[str]:
    return frozenset(filter(None, map(form, question.gold)))


def _text(question: str) -> tuple[str, ...]:
    return tuple(word for word in words(question, stem=True) if word not in ARTICLES)


def _runs(text: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """The words of a question, and its pairs of neighbouring words."""
    return frozenset(text[at : at + size] for size in (1, 2) for at in range(len(text) - size + 1))


def _likeness(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other)
