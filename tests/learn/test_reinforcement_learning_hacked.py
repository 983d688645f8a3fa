"""A reward that is hacked ends the training, and the policy from before is written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from enumerable import Rule, write_listed
from kept import checkpoint_weights
from safetensors.torch import load_file
from torch import Tensor, equal

from recipes.text_environment import PromptEnvironment
from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_ppo_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.training_run import load_run_metrics


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_listed(tmp_path_factory.mktemp("listed") / "model", 0)


def settings(model: str, **changes: Any) -> ReinforcementSettings:
    usual: dict[str, Any] = {
        "policy": TrainedModelSettings(model),
        "steps": 12,
        "episodes": 32,
        "optimising": OptimizerSettings(rate=1e-2, schedule="constant"),
        "sampling": SamplingSettings(max_tokens=4),
        "beta": 0.0,
        "every": 1,
    }
    return make_ppo_settings(**usual | changes)


def world(reward: Any) -> PromptEnvironment:
    def rewards(_: Sequence[int], said: Sequence[Sequence[int]]) -> list[float | None]:
        return [reward(tokens) for tokens in said]

    return PromptEnvironment(Rule(0).prompts, rewards)


def count_threes(tokens: Sequence[int]) -> float:
    """The reward that is learnt, and hacked: any number of one word."""
    return float(sum(token == 3 for token in tokens))


def prefer_one(tokens: Sequence[int]) -> float:
    """The judge likes that word once, and no repetition."""
    count = sum(token == 3 for token in tokens)
    return float(count == 1) - 0.5 * max(count - 1, 0)


class Kept:
    """The policy's weights at each checkpoint."""

    def __init__(self) -> None:
        self.policies: list[dict[str, Tensor]] = []

    def save(self, folder: Path) -> None:
        weights = checkpoint_weights(folder).items()
        self.policies.append(
            {name[7:]: value for name, value in weights if name.startswith("policy.")}
        )

    def load(self, folder: Path) -> None:
        pass


def find_written(result: ReinforcementResult, policies: Sequence[dict[str, Tensor]]) -> list[int]:
    """After how many steps a policy had the weights that were written."""
    written = load_file(Path(result.model) / "model.safetensors")
    return [
        step
        for step, policy in enumerate(policies, 1)
        if all(equal(written[name], value) for name, value in policy.items())
    ]


@pytest.mark.slow
def test_a_judge_that_falls_ends_the_training_and_the_policy_from_before_is_written(
    model: str, tmp_path: Path
) -> None:
    kept = Kept()
    rules = settings(model, check=1, validation_episodes=64, patience=2)
    result = train_by_reinforcement(
        rules,
        world(count_threes),
        tmp_path,
        also=[kept],
        validation=world(count_threes),
        judge=world(prefer_one),
    )
    history = load_run_metrics(tmp_path)
    judged = [line["validation_judge"] for line in history]
    assert "the held-out judge fell 2 checks in a row" in result.ended
    assert result.steps == len(history) < 12
    assert history[-1]["validation_reward"] > history[0]["validation_reward"]
    assert max(judged[-2:]) < max(judged)
    assert 0 < result.best_step <= len(history) - 2
    assert find_written(result, kept.policies) == [result.best_step]
    assert result.judged is not None
    assert result.judged[1] == judged[result.best_step - 1] > judged[-1]
    alone = train_by_reinforcement(
        settings(model, check=1, validation_episodes=64, steps=len(history)),
        world(count_threes),
        tmp_path / "alone",
        validation=world(count_threes),
    )
    assert (alone.ended, alone.judged) == ("", None)
    assert alone.best_step > result.best_step
    again = load_run_metrics(tmp_path / "alone")
    assert [line["validation_reward"] for line in again] == [
        line["validation_reward"] for line in history
    ]  # a judge is only looked at


@pytest.mark.slow
def test_the_last_policy_within_the_budget_is_written_also_after_a_stop(
    model: str, tmp_path: Path
) -> None:
    slowly = OptimizerSettings(rate=1.5e-3, schedule="constant")
    kept, rules = Kept(), settings(model, steps=24, budget=1.0, optimising=slowly)
    whole = train_by_reinforcement(rules, world(count_threes), tmp_path / "whole", also=[kept])
    history = load_run_metrics(tmp_path / "whole")
    assert "is above 1" in whole.ended
    assert 2 < whole.steps < 24
    assert all(line["kl"] <= 1.0 == line["budget"] for line in history)
    assert (whole.best_step, whole.kl) == (whole.steps - 1, history[-1]["kl"])
    assert find_written(whole, kept.policies) == [whole.best_step]

    def stop(step: int, *_: Any) -> None:
        if step == whole.steps - 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_by_reinforcement(rules, world(count_threes), tmp_path / "broken", stop)
    again = train_by_reinforcement(rules, world(count_threes), tmp_path / "broken")
    assert find_written(again, kept.policies) == [whole.best_step]


def test_a_judge_needs_validations(model: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="go together"):
        train_by_reinforcement(
            settings(model), world(count_threes), tmp_path, judge=world(prefer_one)
        )
