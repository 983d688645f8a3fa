"""Dropout: only in steps of training, drawn from the seed and the step, the same after a stop."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from comparing import pair, write_lines, write_small
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.policy_gradient import make_ppo_settings
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    load_trainable_model,
    save_pretrained_model,
)
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.learn.training_data import EpisodeFilter
from rookery.records import Completion, Episode, Question, Step


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small GPT-2: unlike Llama it drops out in layers too, and not in attention alone."""
    place = tmp_path_factory.mktemp("gpt")
    write_small(place / "words")
    words = AutoTokenizer.from_pretrained(place / "words")
    ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    config = GPT2Config(
        vocab_size=len(words), n_positions=128, n_embd=16, n_layer=2, n_head=2, **ends
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_pretrained_model(GPT2LMHeadModel(config), words, place / "gpt")
    return place / "gpt"


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 1))


def outputs(seed: int | None, steps: int = 3, draws: int = 0) -> list[Tensor]:
    """What a model gave in each step, at a rate that changes next to nothing."""
    settings = OptimizerSettings(1e-12, "constant")
    learner = ModelOptimizer(network(), settings, 9, Accelerator(cpu=True), dropout_seed=seed)
    logits: list[Tensor] = []

    def compute_loss(piece: Tensor) -> Tensor:
        logits.append(learner.model(piece).detach())
        return learner.model(piece).sum()  # type: ignore[no-any-return]

    for step in range(steps):
        torch.rand(draws)
        learner.step(step, [torch.ones(1, 4)], compute_loss)
        assert learner.model.training == (seed is None)
    return logits


def test_what_is_dropped_depends_on_the_seed_and_the_step_alone() -> None:
    one, again, other = outputs(0), outputs(0, draws=5), outputs(1)
    assert all(map(torch.equal, one, again))
    assert len({float(each) for each in [*one, *other]}) == 6


def test_the_random_numbers_of_others_are_left_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    outputs(0)
    assert torch.equal(torch.rand(3), wanted)


def test_a_share_of_ones_is_dropped_and_the_rest_made_larger() -> None:
    ones = nn.Linear(10_000, 1, bias=False)
    nn.init.ones_(ones.weight)
    model = nn.Sequential(nn.Dropout(0.25), ones)
    learner = ModelOptimizer(model, OptimizerSettings(), 1, Accelerator(cpu=True), dropout_seed=0)
    seen: list[float] = []

    def compute_loss(piece: Tensor) -> Tensor:
        found: Tensor = learner.model(piece).sum()
        seen.append(found.item() * 0.75)
        return found

    learner.step(0, [torch.ones(1, 10_000)], compute_loss)
    assert seen[0] == pytest.approx(7_500, abs=4 * (10_000 * 0.25 * 0.75) ** 0.5)
    assert seen[0] == pytest.approx(round(seen[0]), abs=0.01)


def test_a_share_is_set_in_every_place_and_0_in_all_places_without_one(gpt: Path) -> None:
    for share in (0.0, 0.1):
        model = load_trainable_model(TrainedModelSettings(str(gpt), dropout=share))
        places = [each.p for each in model.modules() if isinstance(each, nn.Dropout)]
        assert places == [share] * len(places)
        assert len(places) >= 7  # embeddings, and in each layer attention twice and the block once


def test_attention_of_a_llama_drops_what_is_said(tmp_path: Path) -> None:
    model = load_trainable_model(
        TrainedModelSettings(str(write_small(tmp_path / "lm")), dropout=0.3)
    )
    said = {
        each.attention_dropout for each in model.modules() if hasattr(each, "attention_dropout")
    }
    assert said == {0.3}


def episodes(place: Path) -> Path:
    said = [
        Episode(
            Question(str(n), f"What {n}?"), "a", (Step(f"What {n}?", Completion(f" nest {n}")),)
        )
        for n in range(12)
    ]
    return write_lines(place, said)


def imitate(gpt: Path, file: Path, **more: Any) -> ImitationSettings:
    return ImitationSettings(
        TrainedModelSettings(str(gpt), **more),
        (str(file),),
        chosen=EpisodeFilter(answered=False),
        chat=False,
        optimising=OptimizerSettings(1e-3),
        epochs=2,
        rows=5,
        validation=0.2,
        asked=0,
        every=1,
    )


def weights(out: Path) -> dict[str, Tensor]:
    return load_file(out / "model" / "model.safetensors")


def apart(one: Path, other: Path) -> float:
    pairs = zip(weights(one).values(), weights(other).values(), strict=True)
    return max(float((first - second).abs().max()) for first, second in pairs)


class Breaks(Exception):
    pass


@pytest.mark.slow
def test_an_imitation_with_it_goes_on_to_the_last_bit_and_validates_without(
    gpt: Path, tmp_path: Path
) -> None:
    file = episodes(tmp_path / "episodes.jsonl")

    def stop(step: int, _: int, __: dict[str, float]) -> None:
        torch.rand(7)  # whatever else draws in between
        if step == 2:
            raise Breaks

    how = imitate(gpt, file, dropout=0.2)
    whole = train_by_imitation(how, tmp_path / "whole")
    with pytest.raises(Breaks):
        train_by_imitation(how, tmp_path / "broken", stop)
    train_by_imitation(how, tmp_path / "broken")
    assert apart(tmp_path / "whole", tmp_path / "broken") == 0
    plain = train_by_imitation(imitate(gpt, file), tmp_path / "plain")
    assert apart(tmp_path / "whole", tmp_path / "plain") > 1e-4
    assert whole.before == plain.before
    train_by_imitation(imitate(gpt, file, dropout=0.2, recompute=True), tmp_path / "recomputed")
    assert apart(tmp_path / "whole", tmp_path / "recomputed") < 1e-6


@pytest.mark.slow
def test_a_scorer_is_validated_and_used_without_it(gpt: Path, tmp_path: Path) -> None:
    compared = write_lines(tmp_path / "pairs.jsonl", map(pair, range(24)))

    def train(name: str, share: float) -> RewardTrainingResult:
        settings = RewardTrainingSettings(
            TrainedModelSettings(str(gpt), dropout=share, recompute=True),
            str(compared),
            OptimizerSettings(1e-3),
            batch=8,
            validation=0.3,
        )
        return train_reward_model(settings, tmp_path / name)

    one, again, plain = train("one", 0.3), train("again", 0.3), train("plain", 0.0)
    assert one.after == again.after
    assert one.before == plain.before
    assert one.after != plain.after
    scorer = RewardModel(tmp_path / "one" / "model")
    told = pair(3)
    assert len({scorer(told.question, told.answers[0]) for _ in range(3)}) == 1


def test_a_policy_learns_without_it() -> None:
    with pytest.raises(ValueError, match=r"policy\.dropout must be 0"):
        make_ppo_settings(policy=TrainedModelSettings("model", dropout=0.1), steps=1)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_drops_all_or_less_than_nothing_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="dropout must be a share"):
        TrainedModelSettings("model", dropout=share)
