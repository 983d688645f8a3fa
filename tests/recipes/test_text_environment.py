"""Texts as a world, what a policy says there, and a model from nothing to say it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small import TEXTS, logprobs
from transformers import AutoModelForCausalLM

from recipes.policy_samples import sample_completions
from recipes.random_models import write_random_model
from recipes.text_environment import (
    PromptEnvironment,
    make_text_environment,
)
from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import TrainedModelSettings, load_model, load_policy_tokenizer
from rookery.learn.training_data import EpisodeFilter
from rookery.records import Answer, Completion, Episode, Question, Step

ASKED = [Question("1", "Crows are"), Question("2", "Magpies know")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("blank")
    write_random_model(made, TEXTS, 300, 64, 16, 1)
    return made


@pytest.fixture(scope="module")
def other(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but for having seen a few words."""
    out = tmp_path_factory.mktemp("other")
    episodes = [
        Episode(Question(str(at), str(at)), "", (Step("Crows", Completion(" are clever.")),))
        for at in range(4)
    ]
    (out / "episodes.jsonl").write_text("\n".join(one.to_json() for one in episodes) + "\n")
    settings = ImitationSettings(
        TrainedModelSettings(str(folder)),
        (str(out / "episodes.jsonl"),),
        chosen=EpisodeFilter(answered=False),
        chat=False,
        optimising=OptimizerSettings(rate=1e-2),
        epochs=20,
        rows=4,
        validation=0.0,
    )
    return Path(train_by_imitation(settings, out / "run").model)


def test_a_model_from_nothing_has_the_wanted_size_and_learns(folder: Path, other: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.model.embed_tokens.weight.shape == (300, 16)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert len(model.model.layers) == 1
    prompt = load_policy_tokenizer(folder, 8, chat=False).encode_prompt("Crows")
    tokens = load_model(folder, "cpu").tokenizer(" are", add_special_tokens=False)["input_ids"]
    before, after = (
        sum(logprobs(AutoModelForCausalLM.from_pretrained(where), prompt, tokens))
        for where in (folder, other)
    )
    assert after > before + 1


def test_a_model_from_nothing_depends_on_its_seed_alone(folder: Path, tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    write_random_model(tmp_path / "same", TEXTS, 300, 64, 16, 1)
    write_random_model(tmp_path / "else", TEXTS, 300, 64, 16, 1, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    first, same, another = (
        (place / "model.safetensors").read_bytes()
        for place in (folder, tmp_path / "same", tmp_path / "else")
    )
    assert first == same != another


@pytest.mark.parametrize("width", [0, 12])
def test_a_width_that_four_heads_cannot_share_is_refused(width: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        write_random_model(tmp_path, TEXTS, 300, 64, width, 1)


def test_what_is_said_is_the_answer_and_it_is_scored_with_its_own_question(folder: Path) -> None:
    speech = load_policy_tokenizer(folder, 6, chat=False)
    asked: list[tuple[Question, Answer]] = []

    def scores(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        asked.extend(pairs)
        return [float(len(answer.text)) for _, answer in pairs]

    world = make_text_environment(ASKED, speech)(scores, 1)
    loaded = load_model(folder, "cpu")
    sampling = SamplingSettings(6)
    played = world.play_episodes(
        lambda contexts, seeds, allow=None: sample_actions(
            loaded.model, contexts, seeds, loaded.ends, sampling
        ),
        range(4),
        0,
    )
    for one, (question, answer) in zip(played, asked, strict=True):
        [said] = one.rows
        assert said.row.context == speech.encode_prompt(question.text)
        assert speech.decode_action(said.row.action).strip() == answer.text
        assert one.reward == len(answer.text)
    assert {question.id for question, _ in asked} == {"1", "2"}


def test_an_empty_completion_is_no_answer(folder: Path) -> None:
    speech = load_policy_tokenizer(folder, 6, chat=False)
    end, bird = min(speech.ends), speech.encode_prompt(" a")[-1]
    world = make_text_environment(ASKED, speech)(lambda pairs: [1.0] * len(pairs), 1)
    actions = [ActionRow([bird], [end]), ActionRow([bird], [bird, end])]
    drawn = [SampledAction(row, [0.0] * len(row.action), True) for row in actions]
    played = world.play_episodes(lambda *_: drawn, range(2), 0)
    assert [one.reward for one in played] == [None, 1.0]


@pytest.mark.slow
def test_the_kl_is_the_difference_of_log_probabilities_at_the_temperature(
    folder: Path, other: Path
) -> None:
    """Its mean is not below 0 but by chance, and each is that of one plain pass."""
    sampling = SamplingSettings(5, temperature=0.7, rows=3)
    prompts = ["Crows", "Magpies are", "The face of a person", "It"] * 10
    found = sample_completions(other, prompts, sampling, str(folder), seed=3)
    assert found == sample_completions(other, prompts, sampling, str(folder), seed=3)
    assert found != sample_completions(other, prompts, sampling, str(folder), seed=4)
    loaded = load_model(other, "cpu")
    speech = load_policy_tokenizer(other, 5, chat=False)
    said = sample_actions(
        loaded.model,
        [speech.encode_prompt(prompt) for prompt in prompts],
        [f"3 {at}" for at in range(len(prompts))],
        loaded.ends,
        sampling,
    )
    models = [AutoModelForCausalLM.from_pretrained(place) for place in (other, folder)]
    for one, each in zip(found, said, strict=True):
        ours, theirs = (
            math.fsum(logprobs(model, each.row.context, each.row.action, 0.7)) for model in models
        )
        assert one.kl == pytest.approx(ours - theirs, abs=1e-4)
        assert one.text == speech.decode_action(each.row.action).strip()
    assert sum(one.kl for one in found) > 0
    assert {one.kl for one in sample_completions(other, prompts[:4], sampling)} == {0.0}


def test_prompts_come_equally_often_in_an_order_of_the_seed() -> None:
    world = PromptEnvironment(
        [[n] for n in range(1, 6)], lambda numbers, _: [1.0] * len(numbers), group=2
    )

    def echo(
        contexts: Sequence[Sequence[int]], seeds: Sequence[str], allow: Any = None
    ) -> list[SampledAction]:
        return [SampledAction(ActionRow(context, [0]), [0.0], True) for context in contexts]

    def list_prompts(episodes: Sequence[int], seed: int) -> list[int]:
        return [one.rows[0].row.context[0] for one in world.play_episodes(echo, episodes, seed)]

    first = list_prompts(range(10), 1)
    assert sorted(first) == sorted([1, 2, 3, 4, 5] * 2)
    assert first[::2] == first[1::2]
    assert first != list_prompts(range(10, 20), 1)
    assert first != list_prompts(range(10), 2)
    assert list_prompts(range(1, 20, 2), 1) == list_prompts(range(20), 1)[1::2]


def test_a_world_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="there must be a context"):
        PromptEnvironment([], lambda numbers, _: [1.0] * len(numbers))
