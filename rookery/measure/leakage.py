"""Train-test overlap: test questions, answers and pages that training has seen, and scores by it.

After Lewis and others (2020); WebGPT, table 9; WebGLM, table 4. A question that asks the same in
other words is not found; only people can tell those.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from rookery.measure.figures import Figure, MeasuredEstimates, make_bars_figure
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.text_metrics import normalize_squad
from rookery.quotes.word_overlap import split_words
from rookery.records import Question, Record

ARTICLES = frozenset(("a", "an", "the"))


class QuestionLeak(Record, frozen=True):
    """Overlap of one test question with training."""

    question: str = ""
    """id of the training question that asks the same; empty if none does"""
    answer: bool = False
    """True if one of its accepted answers is accepted to a training question"""
    page: bool = False
    """True if its page (`source`) is that of a training question"""


SUBSETS: Mapping[str, Callable[[QuestionLeak], bool]] = {
    "total": lambda leak: True,
    "question overlap": lambda leak: bool(leak.question),
    "no question overlap": lambda leak: not leak.question,
    "answer overlap": lambda leak: leak.answer,
    "answer overlap only": lambda leak: leak.answer and not leak.question,
    "no overlap": lambda leak: not leak.answer and not leak.question,
}
"""columns of WebGPT's table 9"""


def find_leaks(
    train: Sequence[Question], test: Sequence[Question], likeness: float = 0.5
) -> list[QuestionLeak]:
    """Return the overlap of each test question with training, in the test's order.

    Two questions are the same if their words are, ignoring articles and English endings; or if they
    share `likeness` (Jaccard) of their words and word pairs, and an accepted answer, unless one of
    them has none. Answers are the same once normalised as SQuAD does. Raises ValueError for a
    likeness outside (0, 1].
    """
    if not 0 < likeness <= 1:
        raise ValueError(f"a likeness is above 0 and at most 1, not {likeness}")
    training_index = _TrainingIndex(train)
    return [
        QuestionLeak(
            training_index.find_same_question(question, likeness),
            not training_index.answers.isdisjoint(_normalize_answers(question)),
            question.source in training_index.pages,
        )
        for question in test
    ]


def average_by_overlap(
    scores: Sequence[float], leaks: Sequence[QuestionLeak], seed: int = 0
) -> dict[str, Estimate]:
    """Return the mean score in each of the SUBSETS, empty ones left out.

    Intervals are by the bootstrap over questions.
    """
    pairs = list(zip(scores, leaks, strict=True))
    subsets = {
        name: [score for score, leak in pairs if within(leak)] for name, within in SUBSETS.items()
    }
    return {name: estimate_mean(subset, seed=seed) for name, subset in subsets.items() if subset}


def make_leakage_figure(
    systems: Mapping[str, MeasuredEstimates], says: str, name: str = "leakage"
) -> Figure:
    """Make the figure of each system's scores by overlap with training (WebGPT, table 9)."""
    title = "Scores by what was seen in training"
    return make_bars_figure(name, title, says, systems, "score", "WebGPT, table 9")


class _TrainingIndex:
    """Index of training questions by words, answers and pages."""

    def __init__(self, train: Sequence[Question]) -> None:
        self._train = train
        self._answers = [_normalize_answers(question) for question in train]
        texts = [_normalize_question(question.text) for question in train]
        self._runs = [_list_ngrams(text) for text in texts]
        self.answers = frozenset[str]().union(*self._answers)
        self.pages = frozenset(question.source for question in train if question.source)
        self._texts: dict[tuple[str, ...], int] = {}
        self._holding: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            if text:
                self._texts.setdefault(text, number)
            for run in self._runs[number]:
                self._holding[run].append(number)

    def find_same_question(self, question: Question, likeness: float) -> str:
        """Return the id of the most similar question that asks the same; empty if none does."""
        text, answers = _normalize_question(question.text), _normalize_answers(question)
        if text in self._texts:
            return self._train[self._texts[text]].id
        runs = _list_ngrams(text)
        alike = {
            number: _compute_jaccard(runs, self._runs[number])
            for number in self._list_candidates(runs, likeness)
            if self._may_answer(number, answers)
        }
        best = max(alike, key=lambda number: (alike[number], -number), default=None)
        return "" if best is None or alike[best] < likeness else self._train[best].id

    def _list_candidates(self, runs: frozenset[tuple[str, ...]], likeness: float) -> set[int]:
        """Return the questions that can be similar enough.

        They hold at least one of the rarest runs, since a question that holds none of these lacks
        too many.
        """
        holding = sorted((self._holding.get(run, []) for run in runs), key=len)
        size = len(runs)
        may_lack = sum((size - lacking) / size >= likeness for lacking in range(1, size))
        return {number for numbers in holding[: may_lack + 1] for number in numbers}

    def _may_answer(self, number: int, answers: frozenset[str]) -> bool:
        theirs = self._answers[number]
        return not answers or not theirs or not answers.isdisjoint(theirs)


def _normalize_answers(question: Question) -> frozenset[str]:
    return frozenset(filter(None, map(normalize_squad, question.gold)))


def _normalize_question(question: str) -> tuple[str, ...]:
    return tuple(word for word in split_words(question, stem=True) if word not in ARTICLES)


def _list_ngrams(text: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """Return the words of a question, and its pairs of neighbouring words."""
    return frozenset(text[at : at + size] for size in (1, 2) for at in range(len(text) - size + 1))


def _compute_jaccard(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other)
