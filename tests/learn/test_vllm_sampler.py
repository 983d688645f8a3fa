"""A vLLM that samples for a policy in training: tokens in and out, always with the weights of now.

Those that need vLLM itself start it as a process, once; the others ask a stand-in that goes wrong.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from enumerable import END, IDS, Browsing, Rule
from msgspec.structs import replace
from served_run import settings
from several import in_two_processes
from small import logprobs
from speaking import LENGTH, Answer, StandIn, kill, speaking, standing_in, vllm, write_policy
from transformers import AutoModelForCausalLM, AutoTokenizer

from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction, SamplingSettings
from rookery.learn.episodes import PolicySampler
from rookery.learn.pretrained_models import (
    LoraSettings,
    TrainedModelSettings,
    load_trainable_model,
    merge_lora,
)
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.vllm_sampler import DrawnActions, VllmSampler

pytestmark = pytest.mark.xdist_group("vllm")  # one server, however many workers
HELPERS = Path(__file__).parent.parent / "helpers"
WARM = SamplingSettings(max_tokens=6, temperature=0.7, rows=16)
CONTEXTS = [[1 + (at * step) % 9 for at in range(1 + step % 7)] for step in range(24)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_policy(tmp_path_factory.mktemp("policy") / "model", 0)


@pytest.fixture(scope="module")
def real(
    model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of vLLM, and its process."""
    with speaking(_python(), model, tmp_path_factory.mktemp("vllm") / "log") as found:
        yield found


def _python() -> Path:
    python = vllm()
    if python is None and "CI" not in os.environ:
        pytest.skip("vLLM is neither in .venv/vllm nor on the PATH: make .venv/vllm/ready")
    assert python is not None
    return python


@pytest.fixture
def stand_in(model: str) -> Iterator[tuple[str, StandIn]]:
    with standing_in(model) as found:
        yield found


def served(
    address: str,
    model: str,
    out: Path,
    settings: SamplingSettings = WARM,
    end: int = END,
) -> VllmSampler:
    tokenizer, ends = AutoTokenizer.from_pretrained(model), frozenset({end})
    return VllmSampler([address], out / "served", tokenizer, ends, settings)


def plain(model: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(model)


def farthest(
    policy: Any, samples: Sequence[SampledAction], temperature: float = WARM.temperature
) -> float:
    """How far a log-probability lies from what a plain pass over the same tokens gives."""
    return max(
        abs(one - other)
        for each in samples
        for one, other in zip(
            each.logprobs,
            logprobs(policy, each.row.context, each.row.action, temperature),
            strict=True,
        )
    )


# vLLM itself


@pytest.mark.slow
@pytest.mark.parametrize("end", [END, 3])
def test_what_vllm_draws_has_the_log_probabilities_of_the_policy(
    real: tuple[str, Any], model: str, tmp_path: Path, end: int
) -> None:
    """No tokenizer would give these contexts back: they have an end in their middle. What ends an
    action is not the server's business either."""
    server, policy = served(real[0], model, tmp_path, end=end), plain(model)
    server.update_weights(policy, 0)
    contexts = [[*context, END, *context] for context in CONTEXTS]
    said = server.sample(0, contexts, [f"seed {number}" for number in range(len(contexts))])
    assert [one.row.context for one in said] == contexts
    assert farthest(policy, said) < 1e-4
    for one in said:
        assert one.ended == (one.row.action[-1] == end)
        assert end not in one.row.action[:-1]
        assert one.ended or len(one.row.action) == WARM.max_tokens
    assert 0 < sum(one.ended for one in said) < len(said)
    again = server.sample(0, contexts[:9], [f"seed {number}" for number in range(9)])
    assert [one.row.action for one in again] == [one.row.action for one in said[:9]]


@pytest.mark.slow
def test_vllm_draws_from_the_distribution_of_the_policy(
    real: tuple[str, Any], model: str, tmp_path: Path
) -> None:
    """Though the model's folder says that only the two likeliest tokens count, and nearly one."""
    server, policy = served(real[0], model, tmp_path, SamplingSettings(max_tokens=1)), plain(model)
    server.update_weights(policy, 0)
    said = server.sample(0, [[1, 2, 3]] * 400, range(400))
    counts = Counter(one.row.action[0] for one in said)
    apart = [
        abs(counts[token] / 400 - torch.tensor(logprobs(policy, [1, 2, 3], [token])).exp().item())
        for token in range(IDS)
    ]
    assert max(apart) < 0.07  # three standard deviations of the likeliest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lora", "rate"),
    [(None, 0.003), (LoraSettings(4, 8), 0.05)],
)
def test_vllm_speaks_with_the_weights_of_now(
    real: tuple[str, Any],
    model: str,
    tmp_path: Path,
    lora: LoraSettings | None,
    rate: float,
) -> None:
    """Of a prompt too that it has kept from when the weights were others."""
    policy: Any = load_trainable_model(TrainedModelSettings(model, lora=lora))
    server = served(real[0], model, tmp_path)
    long = [1 + at % 9 for at in range(LENGTH - 10)]
    server.update_weights(policy, 0)
    before = server.sample(0, [long, *CONTEXTS], range(1 + len(CONTEXTS)))
    assert farthest(merge_lora(policy), before) < 1e-4
    optimiser = torch.optim.AdamW([one for one in policy.parameters() if one.requires_grad], rate)
    for _ in range(3):
        said = policy(input_ids=torch.tensor([long[:50]]), labels=torch.tensor([[5] * 50]))
        said.loss.backward()
        optimiser.step()
    server.update_weights(policy, 1)
    after = server.sample(1, [long, *CONTEXTS], range(1 + len(CONTEXTS)))
    assert farthest(merge_lora(policy), after) < 1e-4
    assert farthest(merge_lora(policy), before) > 0.3


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_policy_learns_from_what_vllm_draws(
    real: tuple[str, Any], model: str, tmp_path: Path
) -> None:
    world = Rule(0)
    listing = world.listing(plain(model))
    twelve = replace(settings(model, real[0]), steps=12, episodes=64)
    reached = train_by_reinforcement(twelve, world.world(8), tmp_path / "run")
    assert reached.faults == ()
    assert max(line["mismatch"] for line in metrics(tmp_path / "run")) < 1e-4
    gap = listing.gap(plain(reached.model))
    assert gap < listing.gap(plain(model)) / 2


@pytest.mark.slow
def test_a_run_goes_on_when_vllm_is_back(
    real: tuple[str, subprocess.Popen[bytes]], model: str, tmp_path: Path
) -> None:
    """It was killed in the middle of a batch, and comes back elsewhere, with its first weights."""
    address, process = real
    world, out = Killing(process, step=5), tmp_path / "run"
    eight = replace(settings(model, address), steps=8)
    with pytest.raises(Failed, match=f"{address}: model_unreachable: .*run the same command again"):
        train_by_reinforcement(eight, world, out)
    assert len(metrics(out)) == 5
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["00000002", "00000004"]
    with speaking(_python(), model, tmp_path / "log") as (elsewhere, _):
        reached = train_by_reinforcement(replace(eight, server=elsewhere), world, out)
    assert (reached.steps, reached.faults) == (8, ())
    assert max(line["mismatch"] for line in metrics(out)) < 1e-4


class Killing:
    """The world of `Rule`, in which the server is killed while a batch is played."""

    def __init__(self, process: subprocess.Popen[bytes], step: int) -> None:
        self._world = Rule(0).world(8)
        self._process = process
        self._step = step

    def play_episodes(self, sample: PolicySampler, episodes: Sequence[int], seed: int) -> Any:
        played = self._world.play_episodes(sample, episodes[:8], seed)
        if episodes[0] == self._step * 16:
            kill(self._process)
        return played + self._world.play_episodes(sample, episodes[8:], seed)


# What goes wrong


@pytest.mark.slow
def test_a_server_has_the_weights_of_each_step_and_may_be_gone_when_a_run_goes_on(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    address, one = stand_in
    world, out = Rule(0).world(8), tmp_path / "run"
    reached = train_by_reinforcement(settings(model, address + "/v1/"), world, out)
    assert one.asked.count("/collective_rpc") == 4
    assert max(line["mismatch"] for line in metrics(out)) < 1e-5
    assert reached.kl > 0.1
    assert train_by_reinforcement(settings(model, ""), world, out) == reached
    with pytest.raises(Failed, match="other_run"):
        train_by_reinforcement(replace(settings(model, address), seed=1), world, out)


@pytest.mark.slow
def test_two_processes_draw_from_one_server_what_one_does(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    """One of them tells it the weights, and the other waits."""
    address, one = stand_in
    in_two_processes(HELPERS / "served_run.py", model, address, str(tmp_path / "two"))
    assert one.asked.count("/collective_rpc") == 4
    train_by_reinforcement(settings(model, address), Rule(0).world(8), tmp_path / "one")
    for ours, theirs in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_several_servers_share_the_work_of_one(model: str, tmp_path: Path) -> None:
    """Each gets the weights of each step, and the next context when it has said the last."""
    with standing_in(model) as (first, one), standing_in(model) as (second, other):
        train_by_reinforcement(settings(model, (first, second)), Rule(0).world(8), tmp_path / "two")
        shares = [each.asked.count("/v1/completions") for each in (one, other)]
        assert min(shares) > 4  # more than the 16 tokens that are said to try each
        assert sum(shares) == 4 * (16 + 2)
        assert [each.asked.count("/collective_rpc") for each in (one, other)] == [4, 4]
        train_by_reinforcement(settings(model, first), Rule(0).world(8), tmp_path / "one")
        for ours, theirs in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)
        other.otherwise["/weight_info"] = lambda fields: (200, {"weight_version": "default"})
        with pytest.raises(Failed, match=f"{second}: other_weights: .*started again"):
            train_by_reinforcement(
                settings(model, (first, second)), Rule(0).world(8), tmp_path / "three"
            )


def fickle(one: StandIn) -> Answer:
    """Says something else when it is asked a second time, as servers do that compute whatever comes
    at a time together."""
    asked: Counter[str] = Counter()

    def answer(fields: dict[str, Any]) -> tuple[int, Any]:
        asked[key := f"{fields['prompt']} {fields['seed']}"] += 1
        return 200, one.say(fields | {"seed": fields["seed"] + asked[key] - 1})

    return answer


class Breaking:
    """The world of `Rule`, in which the run breaks once, when half of a batch has been said."""

    def __init__(self, step: int) -> None:
        self._world = Rule(0).world(8)
        self._step = step

    def play_episodes(self, sample: PolicySampler, episodes: Sequence[int], seed: int) -> Any:
        played = self._world.play_episodes(sample, episodes[:8], seed)
        if episodes[0] == self._step * 16:
            raise KeyboardInterrupt
        return played + self._world.play_episodes(sample, episodes[8:], seed)


@pytest.mark.slow
def test_a_run_that_goes_on_is_the_same_run_whatever_a_server_says_again(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    """It broke off in the middle of a batch, one batch after its last checkpoint."""
    address, one = stand_in
    rules = settings(model, address)
    one.otherwise["/v1/completions"] = fickle(one)
    train_by_reinforcement(rules, Breaking(-1), tmp_path / "whole")
    one.otherwise["/v1/completions"] = fickle(one)
    with pytest.raises(KeyboardInterrupt):
        train_by_reinforcement(rules, Breaking(3), tmp_path / "broken")
    drawn = tmp_path / "broken" / "drawn"
    [last] = drawn.glob("00000003 *")
    with last.open("ab") as file:
        file.write(b'{"context": [1, 2')  # what a kill leaves
    said = one.asked.count("/v1/completions")
    train_by_reinforcement(rules, Breaking(-1), tmp_path / "broken")
    assert one.asked.count("/v1/completions") == said + 8 + 2
    for name in ("metrics.jsonl", "samples.jsonl", "model/model.safetensors"):
        whole, broken = (tmp_path / run / name for run in ("whole", "broken"))
        assert whole.read_bytes() == broken.read_bytes()
    # Those before the oldest checkpoint are needed no more.
    assert sorted({place.name[:8] for place in drawn.iterdir()}) == ["00000002", "00000003"]


def test_a_damaged_line_of_what_was_drawn_is_named(tmp_path: Path) -> None:
    (tmp_path / "00000000 run 0.jsonl").write_bytes(b'{"context": [1,\0 2]}\n')
    with pytest.raises(Failed, match=r"00000000 run 0\.jsonl, line 1: bad_line"):
        DrawnActions(tmp_path, "run", 0).remember_actions(lambda *_: [], 0)


def test_what_was_drawn_after_another_draw_is_not_given_again(tmp_path: Path) -> None:
    """Both checkpoints were damaged, say: the policy of step 1 is another after a new step 0."""
    drawn = DrawnActions(tmp_path, "run", 0)
    said = count()

    def draw(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        return [SampledAction(ActionRow(each, [next(said)]), [-0.1], True) for each in contexts]

    def play(step: int) -> list[list[int]]:
        return [list(one.row.action) for one in drawn.remember_actions(draw, step)([[1]], ["a"])]

    assert [play(0), play(1), play(0), play(1)] == [[[0]], [[1]], [[0]], [[1]]]
    drawn.forget_actions(range(1))
    assert [play(1), play(0), play(1)] == [[[1]], [[2]], [[3]]]


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_told_of(model: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"model_unreachable: .*see whether vLLM runs"):
        served("http://127.0.0.1:9", model, tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "http://", "http://krähe", "http://a:0"])
def test_an_address_is_one(address: str) -> None:
    for given in (address, ("http://127.0.0.1:8000", address)):
        with pytest.raises(ValueError, match="server must be an address such as http"):
            settings("a model", given)
    with pytest.raises(ValueError, match="names an address twice"):
        settings("a model", ("http://127.0.0.1:8000", "http://127.0.0.1:8000"))


def test_a_server_with_another_tokenizer_is_refused(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    address, one = stand_in
    one.otherwise["/tokenize"] = lambda fields: (200, {"tokens": [3, 1, 4]})
    with pytest.raises(Failed, match=r"other_model: .*start it with the folder of the policy"):
        served(address, model, tmp_path)


Fault = Callable[[StandIn], Answer]


def change_fields(**fields: Callable[[Any], Any]) -> Fault:
    """What is said, but for some fields, each made of what was there."""

    def fault(one: StandIn) -> Answer:
        def answer(request: dict[str, Any]) -> tuple[int, Any]:
            (choice,) = one.say(request)["choices"]
            new = {name: make(choice[name]) for name, make in fields.items()}
            return 200, {"choices": [choice | new]}

        return answer

    return fault


def always(status: int, body: Any) -> Fault:
    return lambda one: lambda fields: (status, body)


def cold(one: StandIn) -> Answer:
    """Log-probabilities of temperature 1, whatever the tokens were drawn at."""

    def answer(request: dict[str, Any]) -> tuple[int, Any]:
        said = one.say(request)
        (choice,) = said["choices"]
        choice["logprobs"]["token_logprobs"] = one.score_action(
            request["prompt"], choice["token_ids"]
        )
        return 200, said

    return answer


FAULTS = {
    "/collective_rpc": [
        (always(404, {"detail": "Not Found"}), "model_not_found: .*VLLM_SERVER_DEV_MODE=1"),
        (always(200, {"results": [None]}), "other_weights: .*no other run"),
        (
            always(500, {"error": {"message": "Worker failed"}}),
            "model_failed: it cannot load .*/served: .*Worker failed",
        ),
    ],
    "/reset_prefix_cache": [
        (always(200, {"success": False}), "model_failed: it keeps old prompts"),
    ],
    "/weight_info": [
        (always(200, {"weight_version": "default"}), "other_weights: .*started again"),
    ],
    "/v1/completions": [
        (change_fields(token_ids=lambda was: None), "model_bad_answer: .*token_ids.*vLLM 0.32"),
        (change_fields(logprobs=lambda was: None), "model_bad_answer: .*logprobs.*vLLM 0.32"),
        (cold, "other_weights: .*--logprobs-mode processed_logprobs"),
        (
            change_fields(prompt_token_ids=lambda was: [1, *was]),
            "model_bad_answer: it answers another prompt",
        ),
        (
            change_fields(
                token_ids=lambda was: [1],
                logprobs=lambda was: {"token_logprobs": was["token_logprobs"][:1]},
            ),
            "model_broke_off: it cut an action of 6 tokens after 1: .*--max-model-len",
        ),
        (always(200, {"choices": []}), "model_bad_answer: its answer makes no sense"),
        (always(200, b"<html>It works!</html>"), "model_bad_answer: its answer makes no sense"),
        (always(200, b"\xff{"), "model_bad_answer: its answer makes no sense"),
        (
            always(400, {"error": {"message": "prompt too long"}}),
            "model_refused: .*--max-model-len.*prompt too long",
        ),
        (always(401, {"error": "Unauthorized"}), "model_refused: start it without a key"),
        (always(503, b""), "model_failed: look into its log"),
    ],
}


@pytest.mark.parametrize(
    ("route", "fault", "sentence"),
    [(route, *one) for route, faults in FAULTS.items() for one in faults],
)
def test_a_server_that_goes_wrong_is_told_of_with_what_to_do(
    stand_in: tuple[str, StandIn],
    model: str,
    tmp_path: Path,
    route: str,
    fault: Fault,
    sentence: str,
) -> None:
    """Before anything is learnt from it. The policy is not the model that the server has."""
    address, one = stand_in
    server, policy = served(address, model, tmp_path), plain(model)
    with torch.no_grad():
        policy.lm_head.weight.normal_(std=0.3)

    def go_on() -> list[SampledAction]:
        server.update_weights(policy, 1)
        return server.sample(1, CONTEXTS[:6], range(6))

    assert farthest(policy, go_on()) < 1e-4
    with torch.no_grad():
        policy.lm_head.weight.normal_(std=0.3)

    one.otherwise[route] = fault(one)
    with pytest.raises(Failed, match=f"{address}: {sentence}"):
        go_on()


@pytest.mark.slow
def test_a_server_that_was_started_again_in_between_is_found_out(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    address, _ = stand_in
    server, policy = served(address, model, tmp_path), plain(model)
    server.update_weights(policy, 3)
    server.sample(3, CONTEXTS, range(len(CONTEXTS)))
    served(address, model, tmp_path / "another").update_weights(policy, 3)
    with pytest.raises(Failed, match=r"other_weights: .*let one run alone use it"):
        server.sample(3, CONTEXTS, range(len(CONTEXTS)))


@pytest.mark.slow
def test_a_world_that_holds_the_policy_token_by_token_has_no_server(
    stand_in: tuple[str, StandIn], model: str, tmp_path: Path
) -> None:
    address, _ = stand_in
    with pytest.raises(Failed, match=r"not_served: .*leave `server` empty"):
        train_by_reinforcement(settings(model, address), Browsing(0).world(), tmp_path / "run")
