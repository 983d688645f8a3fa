"""The policy that is written is the one with the best reward on questions that were held out."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import WORDS, write_small
from enumerable import Browsing, Rule, write_listed
from kept import checkpoint_weights
from safetensors.torch import load_file
from torch import Tensor

from recipes.text_environment import PromptEnvironment
from rookery.errors import Failed
from rookery.learn.decoding import SamplingSettings
from rookery.learn.episodes import PolicySampler, Trajectory
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_ppo_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.training_data import EpisodeFilter
from rookery.records import Completion, Episode, Question, Step


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_listed(tmp_path_factory.mktemp("listed") / "model", 0)


def settings(model: str, **changes: Any) -> ReinforcementSettings:
    usual: dict[str, Any] = {
        "policy": TrainedModelSettings(model),
        "steps": 4,
        "episodes": 16,
        "optimising": OptimizerSettings(rate=3e-3),
        "sampling": SamplingSettings(max_tokens=4),
        "check": 1,
        "validation_episodes": 8,
        "every": 1,
    }
    return make_ppo_settings(**usual | changes)


class Told:
    """A validation that gives each of its plays the next of these rewards."""

    def __init__(self, *rewards: float) -> None:
        self.left = list(rewards)

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        worth = self.left.pop(0)

        def reward(_: Sequence[int], completions: Sequence[Sequence[int]]) -> list[float | None]:
            return [worth] * len(completions)

        return PromptEnvironment(Rule(0).prompts, reward).play_episodes(sample, episodes, seed)


class Kept:
    """The policy's weights at each checkpoint."""

    def __init__(self) -> None:
        self.policies: list[dict[str, Tensor]] = []

    def save(self, folder: Path) -> None:
        found = checkpoint_weights(folder).items()
        self.policies.append(
            {name[7:]: value for name, value in found if name.startswith("policy.")}
        )

    def load(self, folder: Path) -> None:
        raise NotImplementedError("no run here goes on")


def weights(folder: Path | str) -> dict[str, Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(other[name], value) for name, value in one.items())


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rewards", "best"),
    [((0, 1, 5, 2, 5), 2), ((0, 1, 2, 3, 4), 4), ((9, 1, 2, 3, 4), 0), ((-9, -5, -8, -7, -6), 1)],
)
def test_the_best_policy_is_written_and_the_first_of_equals(
    model: str, tmp_path: Path, rewards: tuple[float, ...], best: int
) -> None:
    kept = Kept()
    reached = train_by_reinforcement(
        settings(model), Rule(0).world(), tmp_path, also=[kept], validation=Told(*rewards)
    )
    assert (reached.best_step, reached.validated) == (best, rewards[best])
    assert [line["validation_reward"] for line in metrics(tmp_path)] == list(rewards[1:])
    begun = weights(model)
    assert alike(weights(reached.model), [begun, *kept.policies][best])
    assert not alike(kept.policies[0], begun)


def test_training_ends_where_no_validation_gets_better(model: str, tmp_path: Path) -> None:
    told = Told(0, 3, 1, 2, 4)
    reached = train_by_reinforcement(
        settings(model, patience=2), Rule(0).world(), tmp_path, validation=told
    )
    assert (reached.steps, reached.best_step, told.left) == (3, 1, [4])
    assert reached.ended == "no better reward in 2 validations"


@pytest.mark.slow
def test_a_policy_beyond_the_budget_is_not_chosen_whatever_its_reward(
    model: str, tmp_path: Path
) -> None:
    slowly = OptimizerSettings(rate=5e-4)
    rules = settings(model, steps=30, beta=0.0, budget=0.3, optimising=slowly)
    told = Told(*range(31))
    reached = train_by_reinforcement(rules, Rule(0).world(), tmp_path, validation=told)
    found = metrics(tmp_path)
    within = [number for number, line in enumerate(found, 1) if line["validation_kl"] <= 0.3]
    assert reached.best_step == max(within) < 30
    assert "is above 0.3" in reached.ended


@pytest.mark.slow
def test_between_validations_nothing_is_chosen(model: str, tmp_path: Path) -> None:
    reached = train_by_reinforcement(
        settings(model, steps=5, check=3), Rule(0).world(), tmp_path, validation=Told(0, 1, 2)
    )
    assert ["validation_reward" in line for line in metrics(tmp_path)] == [
        False, False, True, False, True
    ]  # fmt: skip
    assert reached.best_step == 5


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that reads words, as imitation needs one."""
    return str(write_small(tmp_path_factory.mktemp("reader") / "model"))


def imitation(model: str, folder: Path, **changes: Any) -> ImitationSettings:
    """Prompts of one word, each to be followed by the next."""
    place = folder / "episodes.jsonl"
    pairs = [(word, Completion(after)) for word, after in pairwise(WORDS)]
    place.write_text(
        "".join(
            Episode(Question(text, text), "ada", (Step(text, words),)).to_json() + "\n"
            for text, words in pairs
        )
    )
    usual: dict[str, Any] = {
        "chosen": EpisodeFilter(answered=False),
        "optimising": OptimizerSettings(rate=3e-3),
        "epochs": 4,
        "validation": 0.2,
        "best": "reward",
        "asked": 0,
        "validation_episodes": 8,
        "sampling": SamplingSettings(max_tokens=4),
    }
    return ImitationSettings(TrainedModelSettings(model), (str(place),), **usual | changes)


@pytest.mark.slow
@pytest.mark.parametrize(("rewards", "best"), [((9, 1, 5, 2, 5), 2), ((0, 1, 2, 3, 4), 4)])
def test_imitation_writes_the_model_with_the_best_reward(
    reader: str, tmp_path: Path, rewards: tuple[float, ...], best: int
) -> None:
    """WebGPT's cloning: stopped by the reward, which goes on rising where the loss does not. Before
    the first step it is measured too, and never chosen."""
    found = train_by_imitation(
        imitation(reader, tmp_path), tmp_path / "run", environment=Told(*rewards)
    )
    assert (found.best_step, found.measured["reward"]) == (best, rewards[best])
    assert found.before["reward"] == rewards[0]
    epochs = train_by_imitation(
        imitation(reader, tmp_path, best="loss", validation=0.2), tmp_path / "loss"
    )
    assert epochs.steps == found.steps == 4


def test_imitation_by_reward_needs_an_environment(reader: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no_environment"):
        train_by_imitation(imitation(reader, tmp_path), tmp_path / "run")
    with pytest.raises(Failed, match="no_environment"):
        train_by_imitation(imitation(reader, tmp_path, best="loss"), tmp_path / "a", None, Told())
    with pytest.raises(ValueError, match="is measured at validations"):
        imitation(reader, tmp_path, validation=0.0)


class Breaks(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("average", [0.0, 0.5])
def test_a_run_that_broke_off_chooses_the_same_to_the_last_bit(
    model: str, tmp_path: Path, average: float
) -> None:
    """Broken off after a policy was chosen that the last checkpoint does not know of."""
    rate = OptimizerSettings(rate=3e-3, average=average)
    rules = settings(model, steps=6, every=2, patience=4, optimising=rate)

    def stop(step: int, _: int, __: dict[str, float]) -> None:
        if step == 3:
            raise Breaks

    def train(name: str, on_step: Any = None) -> ReinforcementResult:
        return train_by_reinforcement(
            rules, Browsing(0), tmp_path / name, on_step, validation=Browsing(1)
        )

    whole = train("whole")
    with pytest.raises(Breaks):
        train("broken", stop)
    again = train("broken")
    assert (again.best_step, again.validated) == (whole.best_step, whole.validated)
    assert alike(weights(again.model), weights(whole.model))
    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")


@pytest.mark.slow
def test_validations_do_not_change_what_is_learnt(model: str, tmp_path: Path) -> None:
    plain, checked = Kept(), Kept()
    train_by_reinforcement(settings(model, check=0), Rule(0).world(), tmp_path / "a", also=[plain])
    train_by_reinforcement(
        settings(model), Rule(0).world(), tmp_path / "b", also=[checked], validation=Told(*range(5))
    )
    assert all(map(alike, plain.policies, checked.policies))


def test_a_check_without_questions_or_questions_without_a_check_is_refused(
    model: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="go together"):
        train_by_reinforcement(settings(model), Rule(0).world(), tmp_path)
    with pytest.raises(ValueError, match="go together"):
        train_by_reinforcement(
            settings(model, check=0), Rule(0).world(), tmp_path, validation=Told()
        )
    with pytest.raises(ValueError, match="patience counts validations"):
        settings(model, check=0, patience=1)
