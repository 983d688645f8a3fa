"""Sample actions from vLLM servers, which get the policy's weights whenever they change.

Tokens go in and tokens come out, as in `learn.decoding`: neither side tokenizes a text.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from queue import Queue
from random import Random
from typing import Annotated, Any, TypeVar

import httpcore
import msgspec
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionRow,
    collate_rows,
    compute_action_logprobs,
    list_allowed_ids,
)
from rookery.learn.decoding import SampledAction, SamplingSettings
from rookery.learn.episodes import PolicySampler, ServerConstraint
from rookery.learn.pretrained_models import save_pretrained_model
from rookery.learn.training_run import cut_partial_line, read_run_lines
from rookery.models.openai_protocol import extract_error_message
from rookery.models.remote_model import AllowedTokens
from rookery.records import Failure, decode_json, prepare_type

T = TypeVar("T")
_TIMEOUTS = {"connect": 10.0, "read": 900.0, "write": 60.0, "pool": None}
"""seconds; weights and long actions take their time"""
_UNCHANGED_SAMPLING = {
    "return_token_ids": True, "logprobs": 0, "ignore_eos": True, "top_p": 1.0, "top_k": 0,
    "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
"""asked each time, so that what the server has been told of sampling and of ends does not count"""
_PROBE_TEXT = "Crows remember faces; “krähe”, 1,234\n日本"
_PROBE_TOKENS = 16
_MAX_DIFFERENCE, _SMALL_DIFFERENCE = 0.1, 0.01
"""nats a token between what it and the policy say, in the mean; bfloat16 makes some hundredths"""


class _TokenizeResponse(msgspec.Struct, frozen=True):
    tokens: list[int]


class _SuccessResponse(msgspec.Struct, frozen=True):
    success: bool


class _WeightInfo(msgspec.Struct, frozen=True):
    weight_version: str


class _CompletionLogprobs(msgspec.Struct, frozen=True):
    token_logprobs: list[float]


class _CompletionChoice(msgspec.Struct, frozen=True):
    prompt_token_ids: list[int]
    token_ids: Annotated[list[int], msgspec.Meta(min_length=1)]
    logprobs: _CompletionLogprobs


class _CompletionResponse(msgspec.Struct, frozen=True):
    choices: Annotated[list[_CompletionChoice], msgspec.Meta(min_length=1)]


class VllmSampler:
    """vLLM servers (0.32 or later) that sample from a policy in training and serve nobody else
    meanwhile.

    They read the weights in `folder`, by the path that this process knows. A request that fails is
    not made again, since a server that comes back speaks with the weights that it was started with:
    the run goes on from its last checkpoint, and tells them. What they draw then is not the same to
    the last bit, since they compute whatever comes at a time together (`DrawnActions` keeps it).
    Raises Failed: model_unreachable, model_not_found, model_refused, model_failed,
    model_bad_answer, other_model where the tokenizer of one is not the policy's.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        ends: frozenset[int],
        settings: SamplingSettings,
    ) -> None:
        self._folder = folder.resolve()
        self._tokenizer = tokenizer
        self._settings = settings
        self._servers = [
            _VllmServer(address, self._folder, tokenizer, ends, settings) for address in addresses
        ]

    def update_weights(self, policy: nn.Module, step: int) -> None:
        """Save a policy's weights, load them into the servers, and check that they use them.

        Raises Failed as the class says, and other_weights where what one says has other
        log-probabilities than the policy finds.
        """
        save_pretrained_model(policy, self._tokenizer, self._folder)
        with ThreadPoolExecutor(len(self._servers)) as threads:
            list(threads.map(lambda server: server.load_weights(step), self._servers))
        for server in self._servers:
            server.check_logprobs(policy)

    def sample(
        self,
        step: int,
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[int | str],
        allow: Sequence[AllowedTokens] | None = None,
    ) -> list[SampledAction]:
        """Sample one action for each context, with the weights of this step; each server has at
        most as many rows at once as the settings say, and takes the next when one is done.

        Each has its own random seed, and ends with an end token or at the limit of tokens. Raises
        Failed as the class says: not_served where `allow` restricts an action by anything but a
        `ServerConstraint`, model_bad_answer where a server does not keep to its grammar,
        model_broke_off where an action was cut before the limit, other_weights where a server was
        told others or was started again in between.
        """
        constraints = list(allow or [None] * len(contexts))
        if not all(one is None or isinstance(one, ServerConstraint) for one in constraints):
            detail = "it cannot hold an action token by token: leave `server` empty for this world"
            raise self._servers[0].make_error(Outcome.NOT_SERVED, detail)
        places = [Random(f"{seed}").getrandbits(31) for seed in seeds]
        rows = self._settings.rows
        free: Queue[_VllmServer] = Queue()
        for server in self._servers * rows:
            free.put(server)

        def request_action(
            context: Sequence[int], place: int, constraint: AllowedTokens
        ) -> SampledAction:
            grammar = constraint.grammar if isinstance(constraint, ServerConstraint) else ""
            server = free.get()
            try:
                said = server.request_action(context, place, tokens, pool.request, grammar)
                return server.require_constraint(said, constraint)
            finally:
                free.put(server)

        tokens, most = self._settings.max_tokens, rows * len(self._servers)
        with (
            httpcore.ConnectionPool(max_connections=most, retries=2) as pool,
            ThreadPoolExecutor(most) as threads,
        ):
            actions = list(threads.map(request_action, contexts, places, constraints))
        for server in self._servers:
            server.require_weights(step)
        return actions


class DrawnActions:
    """The actions that servers have drawn for the batches of a run, in a folder.

    A run that goes on from a checkpoint plays the batches after it again: it gets the same actions,
    and is the same run, although servers would not draw them a second time. `run` tells runs of
    different settings in one folder apart.
    """

    def __init__(self, folder: Path, run: str, process: int) -> None:
        self._folder = folder
        self._run = run
        self._process = process

    def remember_actions(self, sampler: PolicySampler, step: int) -> PolicySampler:
        """Return a sampler that gives what was drawn at this step for a context and a seed, and
        lets `sampler` draw, and keeps, the rest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / f"{step:08} {self._run} {self._process}.jsonl"
        stored = self._read_actions(step)

        def sample(
            contexts: Sequence[Sequence[int]],
            seeds: Sequence[str],
            allow: Sequence[AllowedTokens] | None = None,
        ) -> list[SampledAction]:
            keys = [_make_key(*pair) for pair in zip(contexts, seeds, strict=True)]
            new = [at for at, key in enumerate(keys) if key not in stored]
            if new:
                sampled = sampler(
                    [contexts[at] for at in new],
                    [seeds[at] for at in new],
                    None if allow is None else [allow[at] for at in new],
                )
                lines = [
                    _DrawnAction(
                        list(contexts[at]), seeds[at], list(one.row.action), one.logprobs, one.ended
                    )
                    for at, one in zip(new, sampled, strict=True)
                ]
                # Later batches were drawn from a policy that learnt something else at this step.
                self.forget_actions(range(step + 1, sys.maxsize))
                with place.open("ab") as file:
                    file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
                stored.update({_make_key(line.context, line.seed): line for line in lines})
            actions = []
            for context, key, constraint in zip(
                contexts, keys, allow or repeat(None), strict=False
            ):
                one = stored[key]
                row = _restrict_row(context, one.action, constraint)
                assert row is not None  # the sampler, or what was kept of it, keeps to it
                actions.append(SampledAction(row, one.logprobs, one.ended))
            return actions

        return sample

    def _read_actions(self, step: int) -> dict[tuple[str, tuple[int, ...]], "_DrawnAction"]:
        """Return what any process has drawn at this step; half a line, as a kill leaves it, ends a
        file, and is cut off."""
        stored = {}
        for place in self._folder.glob(f"{step:08} {self._run} *.jsonl"):
            if place.stem.endswith(f" {self._process}"):
                cut_partial_line(place)
            for line in read_run_lines(place):
                one = msgspec.convert(line, prepare_type(_DrawnAction))
                stored[_make_key(one.context, one.seed)] = one
        return stored

    def forget_actions(self, steps: range) -> None:
        """Delete what was drawn in these steps."""
        for place in self._folder.glob("*.jsonl"):
            if int(place.name[:8]) in steps:
                place.unlink(missing_ok=True)


def _restrict_row(
    context: Sequence[int], action: Sequence[int], allow: AllowedTokens
) -> ActionRow | None:
    """Return a row with the ids that each token of the action was drawn from; None where one was
    not among them."""
    if allow is None:
        return ActionRow(context, action)
    allowed = list_allowed_ids(action, allow)
    return None if allowed is None else ActionRow(context, action, allowed)


class _DrawnAction(msgspec.Struct, frozen=True):
    context: list[int]
    seed: str
    action: list[int]
    logprobs: Sequence[float]
    ended: bool


def _make_key(context: Sequence[int], seed: str) -> tuple[str, tuple[int, ...]]:
    return seed, tuple(context)


class _VllmServer:
    """One vLLM."""

    def __init__(
        self,
        address: str,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        ends: frozenset[int],
        settings: SamplingSettings,
    ) -> None:
        self._address = address.rstrip("/").removesuffix("/v1")
        self._folder = folder
        self._ends = ends
        self._settings = settings
        self._probe_prompt: list[int] = tokenizer(_PROBE_TEXT, add_special_tokens=False)[
            "input_ids"
        ]
        probe = {"prompt": _PROBE_TEXT, "add_special_tokens": False}
        if self._send_request("/tokenize", probe, _TokenizeResponse).tokens != self._probe_prompt:
            detail = "its tokens are not the policy's: start it with the folder of the policy"
            raise self.make_error(Outcome.OTHER_MODEL, detail)

    def load_weights(self, step: int) -> None:
        """Let it load the weights in the folder as those of this step, by the folder's path."""
        load = {"method": "reload_weights", "kwargs": {"weights_path": str(self._folder)}}
        self._send_request("/collective_rpc", load, dict[str, Any])
        # What it keeps of prompts was computed with other weights.
        if not self._send_request(
            "/reset_prefix_cache?reset_running_requests=true", {}, _SuccessResponse
        ).success:
            raise self.make_error(
                Outcome.MODEL_FAILED, "it keeps old prompts: see its log; start it again"
            )
        self._send_request(
            "/update_weight_version",
            {"new_version": self._make_weight_version(step)},
            _SuccessResponse,
        )

    def require_weights(self, step: int) -> None:
        """Raise Failed (other_weights) unless it has the weights of this step."""
        if self._send_request(
            "/weight_info", None, _WeightInfo
        ).weight_version != self._make_weight_version(step):
            detail = (
                "it was told other weights while it sampled, or was started again: let one run "
                "alone use it, and run the same command again"
            )
            raise self.make_error(Outcome.OTHER_WEIGHTS, detail)

    def _make_weight_version(self, step: int) -> str:
        return f"{self._folder} {step}"

    def request_action(
        self,
        context: Sequence[int],
        seed: int,
        tokens: int,
        request: Callable[..., httpcore.Response] = httpcore.request,
        grammar: str = "",
    ) -> SampledAction:
        """Return one action, held to the grammar if there is one. Raises Failed."""
        request_body = {
            "prompt": list(context), "max_tokens": tokens, "seed": seed,
            "temperature": self._settings.temperature, "stop_token_ids": sorted(self._ends),
            **_UNCHANGED_SAMPLING,
        }  # fmt: skip
        if grammar:
            request_body["structured_outputs"] = {"grammar": grammar}
        choice = self._send_request(
            "/v1/completions", request_body, _CompletionResponse, request
        ).choices[0]
        logprobs = choice.logprobs.token_logprobs
        if choice.prompt_token_ids != request_body["prompt"] or len(logprobs) != len(
            choice.token_ids
        ):
            detail = "it answers another prompt, or with tokens that have no log-probabilities"
            raise self.make_error(Outcome.MODEL_BAD_ANSWER, f"{detail}: use vLLM 0.32 or later")
        ended = choice.token_ids[-1] in self._ends
        if not ended and len(choice.token_ids) < tokens:
            detail = (
                f"it cut an action of {tokens} tokens after {len(choice.token_ids)}: start it with "
                "a longer --max-model-len and with --generation-config vllm"
            )
            raise self.make_error(Outcome.MODEL_BROKE_OFF, detail)
        return SampledAction(ActionRow(context, choice.token_ids), logprobs, ended)

    def require_constraint(self, sampled: SampledAction, allow: AllowedTokens) -> SampledAction:
        """Return the action with the ids that its tokens were drawn from. Raises Failed."""
        row = _restrict_row(sampled.row.context, sampled.row.action, allow)
        if row is None:
            detail = (
                "it does not keep to a grammar in llguidance's dialect: start it with "
                """--structured-outputs-config '{"backend": "guidance"}'"""
            )
            raise self.make_error(Outcome.MODEL_BAD_ANSWER, detail)
        return sampled._replace(row=row)

    @torch.no_grad()
    def check_logprobs(self, policy: nn.Module) -> None:
        """Let it say something, and has the policy read it."""
        sampled = self.request_action(
            self._probe_prompt, 0, min(_PROBE_TOKENS, self._settings.max_tokens)
        )
        batch = collate_rows([sampled.row], 0, next(policy.parameters()).device)

        def measure_difference(temperature: float) -> float:
            found_N = compute_action_logprobs(policy, batch, temperature)
            return float((found_N.cpu() - torch.tensor(sampled.logprobs)).abs().mean())

        warm = measure_difference(self._settings.temperature)
        if warm <= _SMALL_DIFFERENCE or (
            warm <= _MAX_DIFFERENCE and warm <= 2 * measure_difference(1.0)
        ):
            return
        detail = (
            f"log-probabilities of what it says lie {warm:.2g} nats from the policy's: start it "
            "with --logprobs-mode processed_logprobs and with the folder of the policy, and let no "
            "other run use it (without a GPU, vLLM 0.32 keeps the old head of a model with tied "
            "embeddings)"
        )
        raise self.make_error(Outcome.OTHER_WEIGHTS, detail)

    def _send_request(
        self,
        route: str,
        fields: dict[str, Any] | None,
        kind: type[T],
        request: Callable[..., httpcore.Response] = httpcore.request,
    ) -> T:
        """Send a request and return the decoded reply. Raises Failed."""
        try:
            answer = request(
                "GET" if fields is None else "POST",
                self._address + route,
                headers={"Content-Type": "application/json"},
                content=None if fields is None else msgspec.json.encode(fields),
                extensions={"timeout": _TIMEOUTS},
            )
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            detail = (
                f"it does not answer ({type(error).__name__}: {error}): see whether vLLM runs "
                "there, and run the same command again"
            )
            raise self.make_error(Outcome.MODEL_UNREACHABLE, detail) from error
        if answer.status != 200:
            raise self._make_refusal_error(route, answer)
        try:
            return decode_json(answer.content, kind)
        except ValueError as error:
            detail = f"its answer makes no sense ({error}): use vLLM 0.32 or later"
            raise self.make_error(Outcome.MODEL_BAD_ANSWER, detail) from error

    def _make_refusal_error(self, route: str, answer: httpcore.Response) -> Failed:
        message = f"HTTP {answer.status}: {extract_error_message(answer.content)[:300]}"
        if answer.status in (404, 405):
            advice = "use vLLM 0.32 or later, with VLLM_SERVER_DEV_MODE=1 in its environment"
            return self.make_error(
                Outcome.MODEL_NOT_FOUND, f"it has no {route.split('?')[0]}: {advice}"
            )
        if answer.status < 500:
            advice = "start it without a key, and with a --max-model-len for a prompt and an action"
            return self.make_error(Outcome.MODEL_REFUSED, f"{advice} ({message})")
        advice = "look into its log, start it again and run the same command again"
        if route == "/collective_rpc":
            advice = (
                f"it cannot load {self._folder}: it must be started with the folder of the policy, "
                f"and find that path, as on a disk that both machines have; {advice}"
            )
        return self.make_error(Outcome.MODEL_FAILED, f"{advice} ({message})")

    def make_error(self, outcome: str, detail: str) -> Failed:
        return Failed(Failure(self._address, outcome, detail))
