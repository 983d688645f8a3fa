"""A little run with labels: questions answered in a few tokens, and people who like vowels."""

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rookery.learn.labels import Labelled, LabelSettings, Make, Mock, learn_with_labels
from rookery.learn.labels_kept import Asked
from rookery.learn.models import Trained
from rookery.learn.optimise import Optimising
from rookery.learn.played import Prompts, World
from rookery.learn.prefer import PreferSettings
from rookery.learn.rules import ReinforceSettings
from rookery.learn.run import Told
from rookery.learn.sample import Sampling
from rookery.learn.worlds import Scores, worths
from rookery.learn.worlds_speech import speech_of
from rookery.records import Answer, Comparison, Question

QUESTIONS = [Question(str(n), f"What about the {bird}?") for n, bird in enumerate(("crow", "jay"))]
TOKENS = 5


def settings_of(folder: Path, **more: Any) -> LabelSettings:
    """Four batches of eight episodes, 4 labels at first and 12 in the end, three reward models, and
    checkpoints that are often older than the last label."""
    given: dict[str, Any] = {
        "reinforce": ReinforceSettings(
            policy=Trained(str(folder)),
            steps=4,
            episodes=8,
            epochs=1,
            sampling=Sampling(TOKENS),
            optimising=Optimising(rate=1e-3),
            every=3,
            seed=3,
        ),
        "prefer": PreferSettings(
            trained=Trained(str(folder)),
            comparisons="",
            optimising=Optimising(rate=1e-3),
            validation=0.0,
            batch=4,
        ),
        "initial": 4,
        "labels": 12,
        "trainings": 3,
        "validation": 0.5,
        "samples": 10,
    }
    return LabelSettings(**(given | more))


def world_of(folder: Path) -> Make:
    """The questions as prompts. Where nothing is said, there is no answer."""
    speech = speech_of(folder, TOKENS)
    contexts = [speech.context(question.text) for question in QUESTIONS]

    def made(scores: Scores, group: int) -> World:
        def rewards(numbers: Sequence[int], actions: Sequence[Sequence[int]]) -> list[float | None]:
            said = [speech.text(action) for action in actions]
            asked = [QUESTIONS[number] for number in numbers]
            answers = [Answer(text) if text else None for text in said]
            return worths(scores, list(zip(asked, answers, strict=True)))

        return Prompts(contexts, rewards, group)

    return made


def vowels(question: Question, answer: Answer) -> float:
    """What people like."""
    return sum(letter in "aeiou" for letter in answer.text.lower()) / max(len(answer.text), 1)


Then = Callable[[int], None]


def nothing(number: int) -> None: ...


class Person:
    """A mock labeller who writes down every number that was asked, does something before saying
    which is best, and something else once that was heard."""

    def __init__(self, log: Path, before: Then = nothing, then: Then = nothing) -> None:
        self._log = log
        self._before = before
        self._then = then
        self._mock = Mock(vowels)

    def compare(self, asked: Sequence[Asked]) -> Iterable[Comparison]:
        for one in asked:
            with self._log.open("a") as log:
                log.write(f"{one.number}\n")
            self._before(one.number)
            yield from self._mock.compare([one])
            self._then(one.number)


def numbers(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def run(
    folder: Path,
    out: Path,
    before: Then = nothing,
    then: Then = nothing,
    told: Told | None = None,
    **more: Any,
) -> Labelled:
    person = Person(out.with_suffix(".asked"), before, then)
    return learn_with_labels(settings_of(folder, **more), world_of(folder), person, out, told)


def kill_at(number: int) -> Then:
    """What ends this process as nothing else does."""

    def at(asked: int) -> None:
        if asked == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
