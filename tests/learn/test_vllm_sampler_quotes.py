"""Answers with quotes, and commands of the browser, that a server samples: held by a grammar to the
tokens that this process would allow."""

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from scoring import score_one_by_one
from small import CROWS, MAGPIES, TEXTS, logprobs
from speaking import StandIn, change_json, speaking, standing_in, vllm
from transformers import AutoModelForCausalLM

from rookery.answers.gophercite import GopherCiteSettings
from rookery.browser.browser_commands import BrowserRules, parse_command
from rookery.cli.learn_command import ReinforceFile, _build_environments
from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow, TokenIds
from rookery.learn.action_constraints import ConstrainedEnvironment, constrain_commands_on_server
from rookery.learn.decoding import SampledAction, SamplingSettings
from rookery.learn.episodes import ServerConstraint, Trajectory
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_rloo_settings
from rookery.learn.pretrained_models import (
    PolicyTokenizer,
    TrainedModelSettings,
    load_policy_tokenizer,
)
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.rollout_environments import (
    BrowserEnvironment,
    BrowserEnvironmentSettings,
    SingleStepEnvironment,
    make_quote_environment,
)
from rookery.learn.training_run import StopCheck
from rookery.learn.vllm_sampler import VllmSampler
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Question
from rookery.typed_files import parse_settings

pytestmark = [pytest.mark.xdist_group("vllm"), pytest.mark.slow]
WARM = SamplingSettings(max_tokens=60, temperature=0.7, rows=16)
LIBRARY = InMemoryLibrary(
    [
        read_page(
            f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{title}", "text/html"
        )
        for title, words in (("Crow", CROWS), ("Magpie", MAGPIES))
    ]
)
QUESTIONS = [
    Question("crows", "Do crows remember a face?"),
    Question("mirrors", "Which know themselves in a mirror, crows or magpies?"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that vLLM computes without a GPU, with heads 32 wide, and that ends claims soon."""
    model_folder = tmp_path_factory.mktemp("tiny") / "model"
    write_tiny_model(model_folder, [*TEXTS, ">%( " * 50], vocabulary=400, context=2048)
    change_json(
        model_folder / "config.json", num_attention_heads=2, num_key_value_heads=1, head_dim=32
    )
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    [ending] = load_policy_tokenizer(model_folder, 1).tokenizer(">%(", add_special_tokens=False)[
        "input_ids"
    ]
    with torch.no_grad():
        model.lm_head.weight[ending] *= 10
    model.save_pretrained(model_folder)
    return model_folder


@pytest.fixture(scope="module")
def speech(folder: Path) -> PolicyTokenizer:
    return load_policy_tokenizer(folder, WARM.max_tokens)


@pytest.fixture
def stand_in(folder: Path) -> Iterator[tuple[str, StandIn]]:
    with standing_in(str(folder)) as found:
        yield found


def count_words(question: Question, answer: Answer) -> float:
    return len(answer.text.split()) + sum(len(quote.text.split()) for quote in answer.quotes)


def make_world(speech: PolicyTokenizer, answers: list[Answer]) -> SingleStepEnvironment:
    def score(question: Question, answer: Answer) -> float:
        answers.append(answer)
        return count_words(question, answer)

    quoting = GopherCiteSettings(pages=1)
    scores = score_one_by_one(score)
    return make_quote_environment(QUESTIONS, LIBRARY, scores, speech, quoting, group=2, served=True)


def make_browser(speech: PolicyTokenizer) -> ConstrainedEnvironment:
    """Three commands for each question, held as a server holds them."""
    browsing = BrowserEnvironmentSettings(rules=BrowserRules(actions=3, overlap=0), extra_answers=0)
    scores = score_one_by_one(count_words)
    world = BrowserEnvironment(QUESTIONS, LIBRARY, scores, speech, browsing)
    return ConstrainedEnvironment(world, speech, constrain_commands_on_server(speech))


def check_rows(policy: Any, played: Sequence[Trajectory], narrowest: int) -> None:
    """Every token was drawn from what the row has, with the probability that the policy gives; each
    row has a token with fewer choices than `narrowest`."""
    for sampled in (row for episode in played for row in episode.rows):
        allowed = sampled.row.allowed
        assert allowed is not None
        assert min(map(len, allowed)) < narrowest

        def list_allowed(tokens: Sequence[int], allowed: Sequence[TokenIds] = allowed) -> TokenIds:
            return allowed[len(tokens)]

        row = sampled.row
        expected = logprobs(policy, row.context, row.action, WARM.temperature, list_allowed)
        assert sampled.logprobs == pytest.approx(expected, abs=1e-4)


def test_vllm_says_quotes_and_commands_with_the_probabilities_of_the_policy(
    folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    python = vllm()
    if python is None and "CI" not in os.environ:
        pytest.skip("vLLM is neither in .venv/vllm nor on the PATH: make .venv/vllm/ready")
    assert python is not None
    policy = AutoModelForCausalLM.from_pretrained(folder)
    answers: list[Answer] = []
    world = make_world(speech, answers)
    with speaking(python, str(folder), tmp_path / "log") as (address, _):
        served = tmp_path / "served"
        server = VllmSampler([address], served, speech.tokenizer, speech.ends, WARM)
        server.update_weights(policy, 0)
        played = world.play_episodes(partial(server.sample, 0), range(24), seed=0)
        browsed = make_browser(speech).play_episodes(partial(server.sample, 0), range(8), seed=0)
    check_rows(policy, played, 20)
    check_rows(policy, browsed, 30)  # commands begin with more letters
    for one in (row for episode in browsed for row in episode.rows):
        assert not one.ended or parse_command(speech.decode_action(one.row.action))
    ended = [one.rows[0].ended for one in played]
    assert 0 < sum(ended) < len(ended)
    assert not any(one.malformed for one, whole in zip(played, ended, strict=True) if whole)
    assert any(one.malformed for one in played)  # its tokens were spent before it had quoted
    quoting = [answer for answer in answers if answer.quotes]
    assert len(quoting) == sum(not one.malformed for one in played)
    for answer in quoting:
        [verdict] = verify_quotes(answer, lambda quote: LIBRARY.fetch(quote.url))
        assert verdict.verbatim


def rloo(folder: Path, address: str) -> ReinforcementSettings:
    return make_rloo_settings(
        policy=TrainedModelSettings(str(folder)),
        steps=3,
        episodes=4,
        optimising=OptimizerSettings(rate=2e-3),
        sampling=WARM,
        server=address,
        every=1,
    )


def read_metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_policy_learns_to_quote_from_what_a_server_says(
    stand_in: tuple[str, StandIn], folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    """And what was drawn is learnt from again after a stop, with the tokens that were allowed."""
    settings, out = rloo(folder, stand_in[0]), tmp_path / "whole"
    train_by_reinforcement(settings, make_world(speech, []), out)
    assert max(line["mismatch"] for line in read_metrics(out)) < 1e-4
    broken = tmp_path / "broken"
    with pytest.raises(Failed, match="stopped"):
        train_by_reinforcement(
            settings,
            make_world(speech, []),
            broken,
            cord=lambda: "enough" if list((broken / "drawn").glob("00000001 *")) else "",
        )
    train_by_reinforcement(settings, make_world(speech, []), broken)
    assert read_metrics(out) == read_metrics(broken)
    asked = [(folder / "model.safetensors").read_bytes()]
    asked += [(run / "model" / "model.safetensors").read_bytes() for run in (out, broken)]
    assert asked[0] != asked[1] == asked[2]


def test_commands_of_the_browser_are_learnt_from_what_a_server_says(
    stand_in: tuple[str, StandIn], folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(rloo(folder, stand_in[0]), steps=2, no_answer=-1.0)
    scored = msgspec.structs.replace(settings, advantage="gae", gamma=0.9)
    train_by_reinforcement(scored, make_browser(speech), tmp_path / "run")
    assert max(line["mismatch"] for line in read_metrics(tmp_path / "run")) < 1e-4
    kept = [*(tmp_path / "run" / "drawn").glob("*.jsonl")]
    said = [json.loads(line) for place in kept for line in place.read_text().splitlines()]
    assert said
    for one in said:
        assert not one["ended"] or parse_command(speech.decode_action(one["action"]))


def test_validations_are_sampled_by_the_server_too_and_not_again_after_a_stop(
    stand_in: tuple[str, StandIn], folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    address, one = stand_in
    more = {"check": 1, "validation_episodes": 2, "every": 3}
    settings = msgspec.structs.replace(rloo(folder, address), **more)
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    def train(out: Path, cord: StopCheck = str) -> int:
        before = one.asked.count("/v1/completions")
        worlds = make_world(speech, []), make_world(speech, [])
        train_by_reinforcement(settings, worlds[0], out, cord=cord, validation=worlds[1])
        return one.asked.count("/v1/completions") - before

    # Each of 3 batches and 4 validations begins with a probe of the weights.
    assert train(whole) == 3 * (1 + 4) + 4 * (1 + 2)
    with pytest.raises(Failed, match="stopped"):
        train(broken, lambda: "enough" if list((broken / "validated").glob("00000002 *")) else "")
    # What was drawn before is kept, and the weights are probed again.
    assert train(broken) == 7 + 4 + 2
    assert read_metrics(whole) == read_metrics(broken)


def test_a_server_that_does_not_keep_to_grammars_is_found_out(
    stand_in: tuple[str, StandIn], folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    address, one = stand_in
    one.otherwise["/v1/completions"] = lambda fields: (
        200,
        one.say({key: value for key, value in fields.items() if key != "structured_outputs"}),
    )
    with pytest.raises(Failed, match=f"{address}: model_bad_answer: .*keep to a grammar"):
        train_by_reinforcement(rloo(folder, address), make_world(speech, []), tmp_path / "run")


def test_a_page_that_is_too_long_for_a_grammar_says_what_to_do(
    stand_in: tuple[str, StandIn], folder: Path, speech: PolicyTokenizer, tmp_path: Path
) -> None:
    page = read_page(
        f"<title>Long</title><p>{CROWS * 60}</p>".encode(), "https://a.org/", "text/html"
    )
    quoting = GopherCiteSettings(pages=1, budget=12_000)
    world = make_quote_environment(
        QUESTIONS,
        InMemoryLibrary([page]),
        score_one_by_one(count_words),
        speech._replace(max_prompt_tokens=100_000),
        quoting,
        served=True,
    )
    with pytest.raises(Failed, match=r"Long: too_long: .*leave `server` empty"):
        world.play_episodes(lambda *_: [], range(2), seed=0)


@pytest.mark.parametrize("world", [{"kind": "quotes"}, {"kind": "browser", "constrained": True}])
def test_the_command_has_the_server_held_and_its_trials_sampled_here(
    world: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(question.to_json() + "\n" for question in QUESTIONS))
    table = {
        "world": world | {"questions": str(questions), "reward": "r", "held_out": 0.5},
        "settings": {
            "policy": {"model": str(folder)},
            "steps": 1,
            "server": "http://127.0.0.1:8000",
            "sampling": {"max_tokens": 60},
        },
    }
    config = parse_settings(table, ReinforceFile, tmp_path / "here.toml")
    worlds = _build_environments(config, LIBRARY)
    held: list[bool] = []

    def say(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        held.extend(isinstance(each, ServerConstraint) for each in allow)
        return [SampledAction(ActionRow(each, [0]), [0.0], True) for each in contexts]

    for make in (worlds.kept, worlds.trial):
        make(score_one_by_one(count_words), 1).play_episodes(say, range(1), 0)
    assert sorted(held, reverse=True) == held
    assert {*held} == {True, False}  # first the server's, then the trials here
