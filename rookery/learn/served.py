"""Actions drawn by a vLLM server, which is told the weights of the policy whenever they change.

Tokens go in and tokens come out, as in `sample`: neither side cuts a text into tokens. It knows
nothing of worlds and losses.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar

import httpcore
import msgspec
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from rookery.draft.remote import Allow
from rookery.draft.trouble import words
from rookery.learn.models import write_model
from rookery.learn.rows import Row, action_logits, collate, logprobs
from rookery.learn.sample import Sampled, Sampling
from rookery.records import Failed, Failure

T = TypeVar("T")
_PATIENCE = {"connect": 10.0, "read": 900.0, "write": 60.0, "pool": None}
"""seconds; weights and long actions take their time"""
_AS_IT_IS = {
    "return_token_ids": True,
    "logprobs": 0,
    "ignore_eos": True,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""asked each time, so that what the server has been told of sampling and of ends does not count"""
_SOME_WORDS = "Crows remember faces; “krähe”, 1,234\n日本"
_SOME_TOKENS = 16
_FAR, _NEAR = 0.1, 0.01
"""nats a token between what it and the policy say, in the mean; bfloat16 makes some hundredths"""


class _Words(msgspec.Struct, frozen=True):
    tokens: list[int]


class _Done(msgspec.Struct, frozen=True):
    success: bool


class _Weights(msgspec.Struct, frozen=True):
    weight_version: str


class _Logprobs(msgspec.Struct, frozen=True):
    token_logprobs: list[float]


class _Choice(msgspec.Struct, frozen=True):
    prompt_token_ids: list[int]
    token_ids: Annotated[list[int], msgspec.Meta(min_length=1)]
    logprobs: _Logprobs


class _Reply(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


class Served:
    """A vLLM (0.32 or later) that speaks for a policy in training, and for nobody else meanwhile.

    It reads the weights in `folder`, by the path that this process knows. A request that fails is
    not made again, since a server that comes back speaks with the weights that it was started with:
    the run goes on from its last checkpoint, and tells them. What it draws then is not the same to
    the last bit, since it computes whatever comes at a time together. Raises Failed:
    model_unreachable, model_refused, model_failed, model_bad_answer, other_model where its
    tokenizer is not the policy's.
    """

    def __init__(
        self,
        address: str,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        ends: frozenset[int],
        settings: Sampling,
    ) -> None:
        self._address = address.rstrip("/").removesuffix("/v1")
        self._folder = folder.resolve()
        self._tokenizer = tokenizer
        self._ends = ends
        self._settings = settings
        self._some: list[int] = tokenizer(_SOME_WORDS, add_special_tokens=False)["input_ids"]
        asked = {"prompt": _SOME_WORDS, "add_special_tokens": False}
        if self._ask("/tokenize", asked, _Words).tokens != self._some:
            detail = "its tokens are not the policy's: start it with the folder of the policy"
            raise self._failed("other_model", detail)

    def tell(self, policy: nn.Module, step: int) -> None:
        """Makes it speak with these weights, and looks whether it does. Nobody samples meanwhile.

        Raises Failed as above, and other_weights where what it says has other log-probabilities
        than the policy finds.
        """
        write_model(policy, self._tokenizer, self._folder)
        load = {"method": "reload_weights", "kwargs": {"weights_path": str(self._folder)}}
        self._ask("/collective_rpc", load, dict[str, Any])
        # What it keeps of prompts was computed with other weights.
        if not self._ask("/reset_prefix_cache?reset_running_requests=true", {}, _Done).success:
            raise self._failed("model_failed", "it keeps old prompts: see its log; start it again")
        self._ask("/update_weight_version", {"new_version": self._version(step)}, _Done)
        self._compare(policy)

    def sample(
        self,
        step: int,
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[int | str],
        allow: Sequence[Allow] | None = None,
    ) -> list[Sampled]:
        """As `learn.sample.sample`, with the weights that were told in this step.

        Raises Failed as above: not_served where `allow` holds an action, other_weights where it
        was told others or was started again in between.
        """
        if any(one is not None for one in allow or ()):
            detail = "it cannot hold an action token by token: leave `server` empty for this world"
            raise self._failed("not_served", detail)
        places = [Random(f"{seed}").getrandbits(31) for seed in seeds]
        rows = self._settings.rows
        with httpcore.ConnectionPool(max_connections=rows, retries=2) as pool:
            say = partial(self._say, tokens=self._settings.tokens, request=pool.request)
            with ThreadPoolExecutor(rows) as threads:
                said = list(threads.map(say, contexts, places))
        if self._ask("/weight_info", None, _Weights).weight_version != self._version(step):
            detail = (
                "it was told other weights while it sampled, or was started again: let one run "
                "alone use it, and run the same command again"
            )
            raise self._failed("other_weights", detail)
        return said

    def _version(self, step: int) -> str:
        return f"{self._folder} {step}"

    def _say(
        self,
        context: Sequence[int],
        seed: int,
        tokens: int,
        request: Callable[..., httpcore.Response] = httpcore.request,
    ) -> Sampled:
        asked = {
            "prompt": list(context),
            "max_tokens": tokens,
            "seed": seed,
            "temperature": self._settings.temperature,
            "stop_token_ids": sorted(self._ends),
            **_AS_IT_IS,
        }
        said = self._ask("/v1/completions", asked, _Reply, request).choices[0]
        found = said.logprobs.token_logprobs
        if said.prompt_token_ids != asked["prompt"] or len(found) != len(said.token_ids):
            detail = "it answers another prompt, or with tokens that have no log-probabilities"
            raise self._failed("model_bad_answer", f"{detail}: use vLLM 0.32 or later")
        ended = said.token_ids[-1] in self._ends
        if not ended and len(said.token_ids) < tokens:
            detail = (
                f"it cut an action of {tokens} tokens after {len(said.token_ids)}: start it with a "
                "longer --max-model-len and with --generation-config vllm"
            )
            raise self._failed("model_broke_off", detail)
        return Sampled(Row(context, said.token_ids), found, ended)

    @torch.no_grad()
    def _compare(self, policy: nn.Module) -> None:
        """Lets it say something, and has the policy read it."""
        said = self._say(self._some, 0, min(_SOME_TOKENS, self._settings.tokens))
        batch = collate([said.row], 0, next(policy.parameters()).device)

        def apart(temperature: float) -> float:
            found_BA = logprobs(action_logits(policy, batch, temperature), batch)
            return float((found_BA[0].cpu() - torch.tensor(said.logprobs)).abs().mean())

        warm = apart(self._settings.temperature)
        if warm <= _NEAR or (warm <= _FAR and warm <= 2 * apart(1.0)):
            return
        detail = (
            f"log-probabilities of what it says lie {warm:.2g} nats from the policy's: start it "
            "with --logprobs-mode processed_logprobs and with the folder of the policy, and let no "
            "other run use it (without a GPU, vLLM 0.32 keeps the old head of a model with tied "
            "embeddings)"
        )
        raise self._failed("other_weights", detail)

    def _ask(
        self,
        route: str,
        fields: dict[str, Any] | None,
        kind: type[T],
        request: Callable[..., httpcore.Response] = httpcore.request,
    ) -> T:
        """What it answers. Raises Failed."""
        try:
            answer = request(
                "GET" if fields is None else "POST",
                self._address + route,
                headers={"Content-Type": "application/json"},
                content=None if fields is None else msgspec.json.encode(fields),
                extensions={"timeout": _PATIENCE},
            )
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            detail = (
                f"it does not answer ({type(error).__name__}: {error}): see whether vLLM runs "
                "there, and run the same command again"
            )
            raise self._failed("model_unreachable", detail) from error
        if answer.status != 200:
            raise self._refused(route, answer)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            detail = f"its answer makes no sense ({error}): use vLLM 0.32 or later"
            raise self._failed("model_bad_answer", detail) from error

    def _refused(self, route: str, answer: httpcore.Response) -> Failed:
        said = f"HTTP {answer.status}: {words(answer.content)[:300]}"
        if answer.status in (404, 405):
            advice = "use vLLM 0.32 or later, with VLLM_SERVER_DEV_MODE=1 in its environment"
            return self._failed("model_not_found", f"it has no {route.split('?')[0]}: {advice}")
        if answer.status < 500:
            advice = "start it without a key, and with a --max-model-len for a prompt and an action"
            return self._failed("model_refused", f"{advice} ({said})")
        advice = "look into its log, start it again and run the same command again"
        if route == "/collective_rpc":
            advice = (
                f"it cannot load {self._folder}: it must find that path, and be started with the "
                f"folder of the policy; {advice}"
            )
        return self._failed("model_failed", f"{advice} ({said})")

    def _failed(self, outcome: str, detail: str) -> Failed:
        return Failed(Failure(self._address, outcome, detail))
