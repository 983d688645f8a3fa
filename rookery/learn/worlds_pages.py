"""Worlds of one step over pages that were found once: inline quotes (GopherCite), and numbered
references (WebGLM).

It knows nothing of models and losses.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rookery.cite.constraint import Constraint
from rookery.cite.correct import parse_correcting
from rookery.cite.grammar import Grammar
from rookery.cite.rank import Similarity, rank
from rookery.cite.shape import Shape
from rookery.cite.syntax import in_order_of_use
from rookery.draft.gather import gather
from rookery.draft.gophercite import GopherCiteSettings, best_pages, showing
from rookery.draft.remote import Allow
from rookery.draft.webglm import WebglmSettings, reference, references
from rookery.draft.write import Read, prompt, reading
from rookery.learn.played import Played, Sampler
from rookery.learn.sample import Sampled
from rookery.learn.worlds import AT_ONCE, Scores, in_turn, worths
from rookery.learn.worlds_speech import Speech
from rookery.records import Answer, Library, Question


class Shown(NamedTuple):
    """What one prompt shows, and how what is said to it is read."""

    prompt: str
    read: Read
    held: tuple[str, str] | None = None
    """title and text of the document that all quotes are kept to; None: nothing is kept to"""


Show = Callable[[Question], Sequence[Shown]]
"""from a question to its prompts, in the order in which they take turns; none: there is nothing to
answer from"""


class OneStep:
    """Questions that are answered to one prompt each. What is shown is found once in a run.

    A question with several prompts is asked by each in turn. An answer that cannot be read, or not
    be scored, has no reward; a question without a prompt has no action either. With a `grammar`,
    what is said is held to the prompt's document, and the rows know it. Raises ValueError without a
    question.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        show: Show,
        scores: Scores,
        speech: Speech,
        grammar: Grammar | None = None,
        group: int = 1,
    ) -> None:
        if not questions or group < 1:
            raise ValueError("there must be a question, and a group of one at least")
        self._questions = questions
        self._show = show
        self._scores = scores
        self._speech = speech
        self._grammar = grammar
        self._group = group
        self._found: dict[int, Sequence[Shown]] = {}

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """One row each. Raises Failed (prompt_too_long)."""
        turns = in_turn(len(self._questions), self._group, episodes, seed)
        self._find({number for number, _ in turns})
        shown = [
            self._found[number][turn % len(self._found[number])] if self._found[number] else None
            for number, turn in turns
        ]
        rows = self._said(sample, episodes, shown, seed)
        answers = [
            (self._questions[number], self._answer(one, row))
            for (number, _), one, row in zip(turns, shown, rows, strict=True)
        ]
        rewards = worths(self._scores, answers)
        return [
            Played(episode, [] if row is None else [row], reward, episode // self._group)
            for episode, row, reward in zip(episodes, rows, rewards, strict=True)
        ]

    def _find(self, numbers: set[int]) -> None:
        """What is to be shown for questions that nothing was found for yet."""
        fresh = sorted(number for number in numbers if not self._found.get(number))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._show, [self._questions[number] for number in fresh])
            self._found.update(zip(fresh, found, strict=True))

    def _said(
        self, sample: Sampler, episodes: Sequence[int], shown: Sequence[Shown | None], seed: int
    ) -> list[Sampled | None]:
        asked = [(f"{seed} {n}", one) for n, one in zip(episodes, shown, strict=True) if one]
        contexts = {one.prompt: self._speech.context(one.prompt) for _, one in asked}
        allow = {one.prompt: self._allow(one) for _, one in asked}
        said = iter(
            sample(
                [contexts[one.prompt] for _, one in asked],
                [name for name, _ in asked],
                [allow[one.prompt] for _, one in asked] if self._grammar else None,
            )
        )
        return [next(said) if one else None for one in shown]

    def _allow(self, shown: Shown) -> Allow:
        """The tokens that may be said; all, where the document has nothing that can be quoted."""
        if self._grammar is None or shown.held is None:
            return None
        try:
            constraint = Constraint(self._grammar, [shown.held])
            constraint.begin(budget=self._speech.tokens)
        except ValueError:
            return None
        return constraint.allow(budget=self._speech.tokens)

    def _answer(self, shown: Shown | None, row: Sampled | None) -> Answer | None:
        if shown is None or row is None:
            return None
        return reading(self._speech.text(row.row.action), shown.read)[0]


def quote_world(
    questions: Sequence[Question],
    library: Library,
    scores: Scores,
    speech: Speech,
    quoting: GopherCiteSettings = GopherCiteSettings(),
    shape: Shape = Shape(),
    similarity: Similarity | None = None,
    group: int = 1,
) -> OneStep:
    """One page a prompt, and what is said held to words of that page (GopherCite, section 2.8).

    The pages of a question take turns. Quotes are read as `gophercite` reads them; what it would
    not take for an answer has no reward (appendix F.1).
    """

    def show(question: Question) -> list[Shown]:
        gathered = gather(question.text, library, quoting.limits)
        places = best_pages(question, gathered, similarity, quoting)
        shown = (showing(question, page, found, quoting, {}) for page, found in places)
        return [Shown(*one) for one in shown]

    grammar = Grammar(speech.vocabulary, shape)
    return OneStep(questions, show, scores, speech, grammar, group)


def reference_world(
    questions: Sequence[Question],
    library: Library,
    scores: Scores,
    speech: Speech,
    settings: WebglmSettings = WebglmSettings(),
    similarity: Similarity | None = None,
    group: int = 1,
) -> OneStep:
    """One prompt with the best passages as numbered references, and citations set right (WebGLM,
    section 3.2)."""

    def show(question: Question) -> list[Shown]:
        found = gather(question.text, library, settings.limits).found
        ranked = rank(question.text, found, similarity, settings.weights)
        quotes = tuple(
            reference(one.page, one.hit.start, one.hit.end, settings.longest)
            for one in ranked[: settings.references]
        )

        def read(text: str) -> Answer:
            return in_order_of_use(parse_correcting(text, quotes, settings.correct))

        asked = prompt("webglm", references=references(quotes), question=question.text)
        return [Shown(asked, read)] if quotes else []

    return OneStep(questions, show, scores, speech, group=group)
