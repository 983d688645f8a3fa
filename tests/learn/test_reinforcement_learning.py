"""The loop of PPO, A2C and RLOO: it learns from what was drawn, and can be gone on with."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from accelerate import Accelerator
from double import double_precision, write_double
from enumerable import ENDS, Browsing, Recipe, Rule, write_listed
from plain import plain_logprobs
from reinforce_run import RECIPES
from reinforce_run import settings as two_steps
from safetensors.torch import load_file
from several import run_by_torchrun
from transformers import AutoModelForCausalLM

from recipes.stages import convert_to_toml_keys
from recipes.text_environment import PromptEnvironment
from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow, collate_rows
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.episodes import PolicySampler, Trajectory, make_policy_sampler
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.policy_gradient import (
    A2C_DEFAULTS,
    PPO_DEFAULTS,
    RLOO_DEFAULTS,
    WEBGPT_PPO_DEFAULTS,
    PolicyGradientTrainer,
    ReinforcementSettings,
    build_policy_networks,
    make_a2c_settings,
    make_ppo_settings,
    make_rloo_settings,
    make_webgpt_settings,
)
from rookery.learn.pretrained_models import LoraSettings, TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.typed_files import merge_tables

HELPERS = Path(__file__).parent.parent / "helpers"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_listed(tmp_path_factory.mktemp("listed") / "model", 0)


TWICE = partial(ReinforcementSettings, epochs=2)


def settings(model: str, recipe: Recipe = TWICE, **changes: Any) -> ReinforcementSettings:
    usual = {
        "policy": TrainedModelSettings(model),
        "steps": 3,
        "episodes": 16,
        "optimising": OptimizerSettings(rate=1e-3),
        "sampling": SamplingSettings(max_tokens=4),
        "value_width": 16,
    }
    return recipe(**usual | changes)


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


def apart(one: Path, other: Path) -> float:
    """The largest difference between the weights of two runs."""
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    return max((first - second).abs().max().item() for first, second in pairs)


# What was drawn


@pytest.mark.parametrize(("warmth", "top_p"), [(1.0, None), (0.7, None), (0.7, 0.6)])
def test_log_probabilities_are_the_same_when_drawn_and_when_read(
    model: str, warmth: float, top_p: float | None
) -> None:
    """With a cache, padding on both sides, rows that end early, a constraint on some, and top_p."""
    policy = AutoModelForCausalLM.from_pretrained(model)
    contexts = [[1 + (at * step) % 9 for at in range(1 + step % 7)] for step in range(40)]
    free = np.arange(10, dtype=np.int32)

    def odd(tokens: Sequence[int]) -> Any:
        return free if len(tokens) == 1 else [1, 3, 5, 0]

    allow = [odd if number % 3 == 0 else None for number in range(40)]
    how = SamplingSettings(max_tokens=6, temperature=warmth, rows=16, top_p=top_p)
    said = sample_actions(policy, contexts, range(40), ENDS, how, allow)
    batch = collate_rows([one.row for one in said], 0)
    with torch.no_grad():
        read_N = plain_logprobs(policy, batch, warmth)
    drawn = torch.tensor([value for one in said for value in one.logprobs])
    assert (read_N - drawn).abs().max() < 1e-5
    assert {len(one.row.action) for one in said} >= {1, 2, 6}
    assert all(token in (1, 3, 5, 0) for one in said[::3] for token in one.row.action[:1])


def test_a_set_of_ids_that_many_tokens_have_is_kept_once() -> None:
    free, few = np.arange(10, dtype=np.int32), np.array([3], np.int32)
    batch = collate_rows([ActionRow([1], [2, 3, 4], [free, few, free]), ActionRow([1, 2], [5])], 0)
    assert batch.allowed is not None
    assert batch.allowed.sets_N.tolist() == [1, 2, 1, 0]
    assert batch.allowed.members_M.tolist() == [1] * 10 + [2]


@pytest.mark.parametrize(
    "recipe", [make_ppo_settings, make_webgpt_settings, make_a2c_settings, make_rloo_settings]
)
def test_in_the_first_epoch_the_ratio_is_1(model: str, tmp_path: Path, recipe: Recipe) -> None:
    warm, minibatches = (
        SamplingSettings(max_tokens=4, temperature=0.8),
        3 if recipe is make_webgpt_settings else 1,
    )
    rules = settings(model, recipe, sampling=warm, minibatches=minibatches, piece=7)
    train_by_reinforcement(rules, Browsing(0), tmp_path)
    found = metrics(tmp_path)
    assert max(line["mismatch"] for line in found) < 1e-5
    assert found[0]["kl"] == pytest.approx(0, abs=1e-5)
    if rules.epochs == rules.minibatches == 1:
        assert max(line["approxkl"] for line in found) == 0


def test_a_sampler_at_another_temperature_is_found_out(model: str, tmp_path: Path) -> None:
    class Warmer:
        def play_episodes(
            self, sample: PolicySampler, episodes: Sequence[int], seed: int
        ) -> list[Trajectory]:
            policy = AutoModelForCausalLM.from_pretrained(model)
            warm = SamplingSettings(max_tokens=4, temperature=2.0)
            prompts = [Rule(0).prompts[episode % 8] for episode in episodes]
            completions = sample_with(policy, prompts, episodes, ENDS, warm)
            return [
                Trajectory(episode, [one], 1.0 * episode, 0)
                for episode, one in zip(episodes, completions, strict=True)
            ]

    sample_with = sample_actions
    reached = train_by_reinforcement(settings(model), Warmer(), tmp_path)
    assert any("the ratio is not 1 in the first epoch" in fault for fault in reached.faults)


@pytest.mark.parametrize(
    ("changes", "reads"),
    [
        ({"minibatches": 2}, 0),
        ({"minibatches": 1}, 0),
        ({"minibatches": 2, "value": "shared"}, 1),
        ({"minibatches": 2, "server": "http://127.0.0.1:1"}, 1),
        ({"minibatches": 1, "server": "http://127.0.0.1:1"}, 0),
    ],
)
def test_the_policy_is_read_before_the_update_only_where_it_must(
    model: str, changes: dict[str, Any], reads: int
) -> None:
    """Each row once for each epoch, and what it is compared with is what reading it again says."""
    rules = settings(model, sampling=SamplingSettings(max_tokens=4, temperature=0.8), **changes)
    actor = build_policy_networks(rules)
    sample = make_policy_sampler(actor.policy, ENDS, rules.sampling)
    played = Browsing(0).play_episodes(sample, range(16), 0)
    batch = collate_rows([said.row for one in played for said in one.rows], 0)
    with torch.no_grad():
        expected_N = plain_logprobs(actor.policy, batch, 0.8)
    rows = list[int]()

    def count_rows(_: Any, _args: Any, given: dict[str, Any], _output: Any) -> None:
        """Of passes through the layers: with states in their place there is no mask."""
        rows.extend([] if given["attention_mask"] is None else [len(given["input_ids"])])

    actor.policy.get_decoder().register_forward_hook(count_rows, with_kwargs=True)
    learner = ModelOptimizer(actor, rules.optimising, 4, Accelerator(cpu=True))
    teacher = PolicyGradientTrainer(rules, actor, learner, 0)
    lesson = teacher.prepare_batch(played, 0)
    assert sum(rows) == reads * len(batch.tokens_BT)
    assert (lesson.tokens.old_N - expected_N).abs().max() < 1e-5
    found = teacher.train_on_batch(lesson, 0, 0.1)
    assert sum(rows) == (reads + rules.epochs) * len(batch.tokens_BT)
    assert found["mismatch"] < 1e-5
    assert found["entropy"] == pytest.approx(-expected_N.mean().item(), abs=1e-5)


# What is done with it


@pytest.mark.slow
def test_rloo_has_the_advantages_and_the_gradient_of_trl(model: str, tmp_path: Path) -> None:
    """On a batch that TRL drew, with a policy that has left its reference."""
    place = tmp_path / "trl.pt"
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HELPERS / "rloo_trl.py"), model, str(place)]
    ran = subprocess.run(
        command, env={**os.environ, **offline}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    theirs = torch.load(place, weights_only=True)
    actor = build_policy_networks(settings(model, make_rloo_settings))
    actor.policy.load_state_dict(theirs["policy"])
    rows = [ActionRow(*pair) for pair in zip(theirs["contexts"], theirs["actions"], strict=True)]
    batch = collate_rows(rows, 0)
    with torch.no_grad():
        said_N = plain_logprobs(actor.policy, batch)
    said = torch.split(said_N, [len(row.action) for row in rows])
    rule = Rule(0)
    played = [
        Trajectory(
            number,
            [SampledAction(row, said[number].tolist(), True)],
            rule.reward(row.context, row.action),
            number // 4,
        )
        for number, row in enumerate(rows)
    ]
    gradients = {}
    for name, weight in actor.policy.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda found, name=name: gradients.update({name: found.grad.clone()})
        )
    rules = settings(model, make_rloo_settings, beta=0.2)
    learner = ModelOptimizer(actor, OptimizerSettings(clip=None), 1, Accelerator(cpu=True))
    teacher = PolicyGradientTrainer(rules, actor, learner, 0)
    lesson = teacher.prepare_batch(played, 0)
    teacher.train_on_batch(lesson, 0, rules.beta)
    starts = torch.tensor([len(row.action) for row in rows]).cumsum(0) - 1
    advantages = lesson.tokens.advantages_N[starts]
    assert abs(lesson.kl) > 0.01
    torch.testing.assert_close(advantages, theirs["advantages"], atol=1e-6, rtol=0)
    for name, gradient in theirs["gradients"].items():
        torch.testing.assert_close(gradients[name], gradient, atol=1e-6, rtol=1e-5)


def assert_alike(one: dict[str, float], other: dict[str, float]) -> None:
    """But for rounding in float64: one token at the very edge may be clipped in one run alone."""
    token = 1 / (one["episodes"] * one["length"])
    for name, value in one.items():
        edge = token if name in ("clipped", "value_clipped") else 0.0
        assert value == pytest.approx(other[name], rel=1e-10, abs=1e-10 + edge), name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [make_ppo_settings, make_a2c_settings, make_rloo_settings])
def test_pieces_of_any_size_learn_the_same(model: str, tmp_path: Path, recipe: Recipe) -> None:
    doubled = write_double(model, tmp_path / "model")
    with double_precision():
        for piece in (64, 3):
            changed = settings(doubled, recipe, minibatches=2, piece=piece)
            train_by_reinforcement(changed, Browsing(0), tmp_path / str(piece))
    assert apart(tmp_path / "64", tmp_path / "3") < 1e-10
    first, second = metrics(tmp_path / "64"), metrics(tmp_path / "3")
    for one, other in zip(first, second, strict=True):
        assert_alike(one, other)


@pytest.mark.slow
def test_an_action_in_parts_is_the_same_to_tokens_and_not_to_actions(
    model: str, tmp_path: Path
) -> None:
    """Where discount and trace count tokens, it does not matter where an action is cut."""
    doubled = write_double(model, tmp_path / "model")
    with double_precision():
        for count in ("token", "action"):
            for chunk in (None, 2):
                rules = settings(doubled, chunk=chunk, count=count, trace=0.5, minibatches=1)
                train_by_reinforcement(rules, Rule(0).world(), tmp_path / f"{count} {chunk}")
    assert apart(tmp_path / "token None", tmp_path / "token 2") < 1e-10
    assert apart(tmp_path / "action None", tmp_path / "action 2") > 1e-4


@pytest.mark.slow
def test_the_kl_in_the_loss_holds_the_policy_back(model: str, tmp_path: Path) -> None:
    listing = Rule(0).listing(AutoModelForCausalLM.from_pretrained(model))
    kls = []
    for alpha in (0.0, 0.9, 0.9999):
        rules = settings(model, make_a2c_settings, steps=12, episodes=32, alpha=alpha)
        reached = train_by_reinforcement(rules, Rule(0).world(), tmp_path / str(alpha))
        kls.append(listing.reached(AutoModelForCausalLM.from_pretrained(reached.model)).kl)
    assert kls[0] > 2 * kls[1] > 0
    assert kls[2] < 0.01  # Adam takes what rounding leaves of a gradient for one


def test_beta_follows_the_kl_of_the_run(model: str, tmp_path: Path) -> None:
    train_by_reinforcement(
        settings(model, target=1.0, horizon=160, beta=0.3, steps=4), Rule(0).world(), tmp_path
    )
    beta = 0.3
    for line in metrics(tmp_path):
        assert line["beta"] == pytest.approx(beta, rel=1e-12)
        beta *= 1 + 0.1 * min(max(line["kl"] - 1, -0.2), 0.2)
        assert line["target"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "holds"), [(64, True), (640, False)])
def test_a_kl_is_reached_and_held_within_tens_of_batches(
    model: str, tmp_path: Path, horizon: int, holds: bool
) -> None:
    """Of 2 nats, from a beta that is a fifth of the right one, by the defaults; at the paper's pace
    the policy stays where its reward takes it, and the metrics say so."""
    way = OptimizerSettings(rate=3e-3, schedule="constant")
    rules = make_ppo_settings(
        policy=TrainedModelSettings(model),
        steps=45,
        beta=0.1,
        target=2.0,
        optimising=way,
        sampling=SamplingSettings(max_tokens=4),
        horizon=horizon,
    )
    train_by_reinforcement(rules, Rule(0).world(), tmp_path)
    reached = [line["kl"] for line in metrics(tmp_path)]
    assert max(reached) > 3.5
    assert (abs(np.mean(reached[-15:]) - 2) < 0.5) == holds
    assert ReinforcementSettings(policy=rules.policy, steps=1).horizon == 64


def test_training_ends_within_one_step_of_its_budget(model: str, tmp_path: Path) -> None:
    rules = settings(model, steps=40, beta=0.0, budget=0.5, optimising=OptimizerSettings(rate=3e-3))
    reached = train_by_reinforcement(rules, Rule(0).world(), tmp_path)
    assert 0 < reached.steps < 40
    assert "is above 0.5" in reached.ended
    assert all(line["kl"] <= 0.5 for line in metrics(tmp_path))
    listing = Rule(0).listing(AutoModelForCausalLM.from_pretrained(model))
    assert listing.reached(AutoModelForCausalLM.from_pretrained(reached.model)).kl > 0.3


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)])
def test_the_reference_is_not_changed(
    model: str, tmp_path: Path, lora: LoraSettings | None
) -> None:
    """A model of its own, or the policy without its LoRA: to the last bit."""
    before = (Path(model) / "model.safetensors").read_bytes()
    policy = TrainedModelSettings(model, lora=lora)
    actor = build_policy_networks(ReinforcementSettings(policy=policy, steps=1))
    frozen = actor.policy if actor.reference is None else actor.reference
    kept = {
        name: value.clone() for name, value in frozen.state_dict().items() if "lora" not in name
    }
    rules = settings(model, policy=policy)
    teacher = PolicyGradientTrainer(rules, actor, ModelOptimizer(actor, rules.optimising, 99), 0)
    for step in range(3):
        said = sample_actions(actor.policy, Rule(0).prompts, range(8), ENDS, rules.sampling)
        played = [Trajectory(n, [one], float(n), n) for n, one in enumerate(said)]
        teacher.train_on_batch(teacher.prepare_batch(played, step), step, 0.1)
    assert all(torch.equal(frozen.state_dict()[name], value) for name, value in kept.items())
    assert (actor.reference is None) == (lora is not None)
    train_by_reinforcement(rules, Rule(0).world(), tmp_path)
    assert (Path(model) / "model.safetensors").read_bytes() == before
    assert metrics(tmp_path)[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert metrics(tmp_path)[-1]["kl"] != pytest.approx(0, abs=1e-5)


def test_no_answer_has_the_reward_of_the_settings(model: str, tmp_path: Path) -> None:
    def ended(_: Sequence[int], completions: Sequence[Sequence[int]]) -> list[float | None]:
        return [2.0 if tokens[-1] == 0 else None for tokens in completions]

    world = PromptEnvironment(Rule(0).prompts, ended)
    train_by_reinforcement(settings(model, no_answer=-3.0), world, tmp_path)
    line = metrics(tmp_path)[0]
    assert 0 < line["answered"] < 1
    assert line["reward"] == pytest.approx(5 * line["answered"] - 3)


def test_bad_syntax_is_worth_its_reward_less_the_penalty(model: str, tmp_path: Path) -> None:
    class Malformed:
        """Every text is worth 3; those without an end are malformed."""

        def play_episodes(
            self, sample: PolicySampler, episodes: Sequence[int], seed: int
        ) -> list[Trajectory]:
            def score(_: Sequence[int], completions: Sequence[Sequence[int]]) -> list[float | None]:
                return [3.0] * len(completions)

            played = PromptEnvironment(Rule(0).prompts, score).play_episodes(sample, episodes, seed)
            return [one._replace(malformed=one.rows[0].row.action[-1] != 0) for one in played]

    train_by_reinforcement(
        settings(model, make_a2c_settings, no_answer=-9.0), Malformed(), tmp_path
    )
    line = metrics(tmp_path)[0]
    assert 0 < line["answered"] < 1
    assert line["reward"] == pytest.approx(1 + 2 * line["answered"])


class WithExtras:
    """Each episode twice more, as WebGPT's answers from the same quotes."""

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        found = []
        for one in Browsing(0).play_episodes(sample, episodes, seed):
            again = sample([one.rows[1].row.context] * 2, [f"{one.episode} {n}" for n in (1, 2)])
            found.append(one)
            found += [Trajectory(one.episode, [each], 9.0, "same", extra=True) for each in again]
        return found


def test_extra_answers_are_learnt_from_and_not_counted(model: str, tmp_path: Path) -> None:
    train_by_reinforcement(settings(model), WithExtras(), tmp_path / "extras")
    train_by_reinforcement(settings(model), Browsing(0), tmp_path / "plain")
    with_them, without = metrics(tmp_path / "extras")[0], metrics(tmp_path / "plain")[0]
    assert (with_them["episodes"], without["episodes"]) == (48, 16)
    assert all(with_them[name] == without[name] for name in ("reward", "kl", "length"))
    assert apart(tmp_path / "extras", tmp_path / "plain") > 1e-4


# What is done again


class Breaks(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [make_ppo_settings, make_a2c_settings, make_rloo_settings])
def test_a_run_that_broke_off_goes_on_to_the_last_bit(
    model: str, tmp_path: Path, recipe: Recipe
) -> None:
    rules = settings(model, recipe, steps=6, every=2, target=1.0, minibatches=2, shown=1)

    def stop(step: int, _: int, __: dict[str, float]) -> None:
        if step == 3:
            raise Breaks

    train_by_reinforcement(rules, Browsing(0), tmp_path / "whole")
    with pytest.raises(Breaks):
        train_by_reinforcement(rules, Browsing(0), tmp_path / "broken", stop)
    assert len(metrics(tmp_path / "broken")) == 3
    reached = train_by_reinforcement(rules, Browsing(0), tmp_path / "broken")
    assert apart(tmp_path / "whole", tmp_path / "broken") == 0
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()
    assert reached == train_by_reinforcement(rules, Browsing(0), tmp_path / "broken")


class Pulls(WithExtras):
    """Someone pulls the cord while the third batch is played."""

    def __init__(self, cord: Path) -> None:
        self.cord, self.batches = cord, 0

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        self.batches += 1
        if self.batches == 3:
            self.cord.write_text("it flatters")
        return super().play_episodes(sample, episodes, seed)


def test_the_cord_stops_a_run_before_the_next_step_of_the_optimiser(
    model: str, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="it flatters"):
        train_by_reinforcement(settings(model, every=1), Pulls(tmp_path / "cord"), tmp_path)
    assert len(metrics(tmp_path)) == 2
    (tmp_path / "cord").unlink()
    assert train_by_reinforcement(settings(model, every=1), WithExtras(), tmp_path).steps == 3


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(model: str, tmp_path: Path) -> None:
    doubled = write_double(model, tmp_path / "model")
    run_by_torchrun(HELPERS / "reinforce_run.py", doubled, str(tmp_path / "two"))
    for name in RECIPES:
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        with double_precision():
            train_by_reinforcement(two_steps(name, doubled), Browsing(0), one)
        assert apart(one, two) < 1e-10
        for ours, theirs in zip(metrics(one), metrics(two), strict=True):
            assert_alike(ours, theirs)


# What is wrong


def test_a_reward_that_is_no_number_is_refused(model: str, tmp_path: Path) -> None:
    world = PromptEnvironment(Rule(0).prompts, lambda numbers, _: [float("nan")] * len(numbers))
    with pytest.raises(Failed, match="give a number, or None") as caught:
        train_by_reinforcement(settings(model), world, tmp_path)
    assert caught.value.failure.outcome == "not_a_number"


def test_a_world_in_which_nothing_is_said_is_refused(model: str, tmp_path: Path) -> None:
    class Silent:
        def play_episodes(
            self, sample: PolicySampler, episodes: Sequence[int], seed: int
        ) -> list[Trajectory]:
            return [Trajectory(episode, [], None, 0) for episode in episodes]

    with pytest.raises(Failed, match="no episode of the batch has an action"):
        train_by_reinforcement(settings(model), Silent(), tmp_path)


def test_silent_episodes_stand_beside_others(model: str, tmp_path: Path) -> None:
    class Shy:
        def play_episodes(
            self, sample: PolicySampler, episodes: Sequence[int], seed: int
        ) -> list[Trajectory]:
            found = Browsing(0).play_episodes(sample, episodes, seed)
            return [
                Trajectory(one.episode, [], None, one.group) if one.episode % 3 else one
                for one in found
            ]

    for advantage in ("gae", "rloo"):
        rules = settings(model, advantage=advantage)
        reached = train_by_reinforcement(rules, Shy(), tmp_path / advantage)
        assert reached.steps == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"episodes": 0}, "1 or more"),
        ({"steps": 0}, "1 or more"),
        ({"chunk": 0}, "1 or more"),
        ({"every": 0}, "1 or more"),
        ({"value_width": 0}, "1 or more"),
        ({"shown": -1}, "shown and check 0 or more"),
        ({"episodes": 8, "minibatches": 9}, r"minibatches \(9\) .* more than episodes \(8\)"),
        ({"sampling": {"temperature": 0.0}}, "nothing is tried out"),
        ({"sampling": {"dtype": "bfloat16"}}, "set policy.dtype"),
        ({"sampling": {"stop": ["x"]}}, "leave stop out"),
        ({"sampling": {"top_p": 0.5}, "server": "http://127.0.0.1:8000"}, "top_p"),
        ({"sampling": {"max_tokens": 0}}, "max_tokens must be at least 1"),
        ({"optimising": {"rate": 0.0}}, "rate must be more than 0"),
        ({"optimising": {"clip": 0.0}}, "or nothing is learnt"),
        ({"optimising": {"betas": [0.9, 1.0]}}, "betas must be from 0 to below 1"),
        ({"policy": {"model": "folder", "frozen": 1.5}}, "frozen must be a share"),
        ({"policy": {"model": "folder", "lora": {"alpha": 0}}}, "nothing is learnt"),
        ({"gamma": 1.1}, "gamma and lambda must be from 0 to 1"),
        ({"lambda": -0.1}, "gamma and lambda must be from 0 to 1"),
        ({"clip": 0.0}, "clip must be more than 0"),
        ({"value_clip": -1.0}, "value_clip must be more than 0"),
        ({"budget": 0.0}, "budget must be more than 0"),
        ({"beta": -0.1}, "numbers from 0 on"),
        ({"no_answer": math.nan}, "no_answer a number"),
        ({"target": 0.0}, "more than 0 nats"),
        ({"target": 1.0, "beta": 0.0}, "beta must be more than 0"),
        ({"target": 1.0, "horizon": 12.8}, "horizon more than a fifth of episodes"),
        ({"horizon": 0}, "horizon must be more than 0"),
        ({"alpha": 1.5}, "a share"),
        ({"alpha": 1.0, "kl": "loss"}, "no reward counts"),
        ({"value_weight": 0.0}, "the value network learns nothing"),
        ({"value": "shared", "value_model": "reward"}, "is a head on the policy"),
        ({"advantage": "rloo", "value_model": "reward"}, "has no value network"),
        ({"advantage": "rloo", "episodes": 1, "minibatches": 1}, "set episodes to 2 or more"),
        ({"epoch": 1}, "unknown field `epoch`"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], words: str) -> None:
    given = {"policy": {"model": "folder"}, "steps": 1, **changes}
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(given, ReinforcementSettings)


def test_lambda_is_called_by_its_name() -> None:
    given = {"policy": {"model": "folder"}, "steps": 1, "lambda": 0.5}
    assert msgspec.convert(given, ReinforcementSettings).trace == 0.5


PAPERS: dict[Recipe, Mapping[str, Any]] = {
    make_ppo_settings: PPO_DEFAULTS,
    make_webgpt_settings: WEBGPT_PPO_DEFAULTS,
    make_a2c_settings: A2C_DEFAULTS,
    make_rloo_settings: RLOO_DEFAULTS,
}
OTHER = {
    "episodes": 900,
    "epochs": 7,
    "minibatches": 5,
    "clip": 0.3,
    "value": "shared",
    "value_clip": 0.4,
    "value_weight": 0.6,
    "gamma": 0.5,
    "trace": 0.25,
    "count": "action",
    "whiten_rewards": True,
    "whiten_advantages": True,
    "kl": "loss",
    "alpha": 0.5,
    "beta": 0.7,
    "target": 3.0,
    "chunk": 9,
    "no_answer": -5.0,
    "bad_syntax": 3.0,
    "advantage": "rloo",
}
"""of each setting that a paper has, a value that no paper has, or not all of them"""


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (
            make_ppo_settings,
            {
                "episodes": 64,
                "epochs": 3,
                "minibatches": 2,
                "clip": 0.2,
                "trace": 0.95,
                "whiten_rewards": True,
            },
        ),
        (
            make_webgpt_settings,
            {
                "episodes": 512,
                "epochs": 1,
                "minibatches": 128,
                "chunk": 64,
                "count": "action",
                "beta": 0.02,
            },
        ),
        (
            make_a2c_settings,
            {"clip": None, "value": "shared", "trace": 1.0, "kl": "loss", "bad_syntax": 2.0},
        ),
        (
            make_rloo_settings,
            {"advantage": "rloo", "whiten_advantages": False, "kl": "reward", "clip": None},
        ),
    ],
)
def test_a_paper_s_settings_are_those_that_it_prints(recipe: Recipe, said: dict[str, Any]) -> None:
    found = recipe(policy=TrainedModelSettings("folder"), steps=1)
    assert {name: getattr(found, name) for name in said} == said


@pytest.mark.parametrize("recipe", PAPERS)
def test_what_is_set_counts_before_what_a_paper_says(recipe: Recipe) -> None:
    paper, needed = PAPERS[recipe], {"policy": TrainedModelSettings("folder"), "steps": 1}
    plain = recipe(**needed)
    assert {name: getattr(plain, name) for name in paper} == paper
    for name in paper:
        given = recipe(**needed, **{name: OTHER[name]})
        assert getattr(given, name) == OTHER[name]
        rest = paper.keys() - {name}
        assert {other: getattr(given, other) for other in rest} == {
            other: paper[other] for other in rest
        }


def test_a_paper_lies_under_the_table_of_a_file() -> None:
    said = {"policy": {"model": "folder"}, "steps": 1, "episodes": 8, "minibatches": 2}
    table = merge_tables(convert_to_toml_keys(WEBGPT_PPO_DEFAULTS), said | {"lambda": 0.5})
    assert msgspec.convert(table, ReinforcementSettings) == make_webgpt_settings(
        policy=TrainedModelSettings("folder"), steps=1, episodes=8, minibatches=2, trace=0.5
    )


def test_episodes_that_are_alone_in_their_groups_are_refused(model: str, tmp_path: Path) -> None:
    """Their leave-one-out advantages are all 0, so that nothing would be learnt."""
    with pytest.raises(Failed, match="each episode is alone in its group") as caught:
        train_by_reinforcement(settings(model, make_rloo_settings), Rule(0).world(1), tmp_path)
    assert caught.value.failure.outcome == "nothing_to_learn"
    assert (
        train_by_reinforcement(
            settings(model, make_rloo_settings), Rule(0).world(2), tmp_path
        ).steps
        == 3
    )
