"""A little run with labels: questions answered in a few tokens, and people who like vowels."""

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from recipes.rewards import MockLabeller
from recipes.text_environment import PromptEnvironment
from rookery.learn.decoding import SamplingSettings
from rookery.learn.episodes import RolloutEnvironment
from rookery.learn.online_labelling import (
    ComparisonQuestion,
    EnvironmentFactory,
    OnlineLabellingResult,
    OnlineLabellingSettings,
    train_with_online_labels,
)
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import TrainedModelSettings, load_policy_tokenizer
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.learn.rollout_environments import BatchRewardFunction, compute_answer_rewards
from rookery.learn.training_run import StepCallback
from rookery.records import Answer, Comparison, Question

QUESTIONS = [Question(str(n), f"What about the {bird}?") for n, bird in enumerate(("crow", "jay"))]
TOKENS = 5


def settings_of(folder: Path, **more: Any) -> OnlineLabellingSettings:
    """Four batches of eight episodes, 4 labels at first and 12 in the end, three reward models, and
    checkpoints that are often older than the last label."""
    values: dict[str, Any] = {
        "reinforce": ReinforcementSettings(
            policy=TrainedModelSettings(str(folder)),
            steps=4,
            episodes=8,
            epochs=1,
            sampling=SamplingSettings(TOKENS),
            optimising=OptimizerSettings(rate=1e-3),
            every=3,
            seed=3,
        ),
        "prefer": RewardTrainingSettings(
            trained=TrainedModelSettings(str(folder)),
            comparisons="",
            optimising=OptimizerSettings(rate=1e-3),
            validation=0.0,
            batch=4,
        ),
        "initial": 4,
        "labels": 12,
        "trainings": 3,
        "validation": 0.5,
        "samples": 10,
    }
    return OnlineLabellingSettings(**(values | more))


def world_of(folder: Path) -> EnvironmentFactory:
    """The questions as prompts. Where nothing is said, there is no answer."""
    speech = load_policy_tokenizer(folder, TOKENS)
    contexts = [speech.encode_prompt(question.text) for question in QUESTIONS]

    def make_world(scores: BatchRewardFunction, group: int) -> RolloutEnvironment:
        def rewards(numbers: Sequence[int], actions: Sequence[Sequence[int]]) -> list[float | None]:
            said = [speech.decode_action(action) for action in actions]
            asked = [QUESTIONS[number] for number in numbers]
            answers = [Answer(text) if text else None for text in said]
            return compute_answer_rewards(scores, list(zip(asked, answers, strict=True)))

        return PromptEnvironment(contexts, rewards, group)

    return make_world


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
        self._mock = MockLabeller(vowels)

    def compare_answers(self, questions: Sequence[ComparisonQuestion]) -> Iterable[Comparison]:
        for one in questions:
            with self._log.open("a") as log:
                log.write(f"{one.number}\n")
            self._before(one.number)
            yield from self._mock.compare_answers([one])
            self._then(one.number)


def numbers(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def run(
    folder: Path,
    out: Path,
    before: Then = nothing,
    then: Then = nothing,
    on_step: StepCallback | None = None,
    **more: Any,
) -> OnlineLabellingResult:
    person = Person(out.with_suffix(".asked"), before, then)
    return train_with_online_labels(
        settings_of(folder, **more), world_of(folder), person, out, on_step
    )


def kill_at(number: int) -> Then:
    """What ends this process as nothing else does."""

    def at(count: int) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return at
