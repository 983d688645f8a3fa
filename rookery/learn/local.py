"""A model of this machine as a policy. It knows nothing of questions, pages and rewards."""

import math
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import torch

from rookery.draft.remote import Allow, Seed
from rookery.learn.loading import load
from rookery.learn.prompt import prompt_tokens
from rookery.learn.sampling import draw
from rookery.learn.shared import Branches, Prefix, read, reusable, share
from rookery.learn.utterance import Utterance
from rookery.records import Completion, Failed, Failure


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is asked, and where it is computed."""

    max_tokens: int = 1024
    """of one completion; fewer where the model's context leaves no room for them"""
    temperature: float = 1.0
    """0: always the likeliest token. WebGPT writes at 0.8 (appendix E)"""
    top_p: float = 1.0
    """below 1, only the likeliest tokens are drawn, as few as have this probability"""
    stop: tuple[str, ...] = ()
    """strings before which a completion ends"""
    chat: bool | None = None
    """whether the prompt is a user's message in the chat template; None: where there is one"""
    device: str = ""
    """as torch names it; empty: cuda where there is one, else cpu"""
    dtype: Literal["", "float32", "bfloat16", "float16"] = ""
    """of the weights while they are used; empty: as they are stored"""

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError("LocalSettings.max_tokens must be at least 1")
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1:
            raise ValueError("LocalSettings: temperature must be from 0 on, top_p from 0 to 1")
        if "" in self.stop:
            raise ValueError("LocalSettings.stop must not hold an empty string")


class _Speaker(NamedTuple):
    saying: Utterance
    chance: Random


class Local:
    """The model of a folder that `save_pretrained` wrote. Threads may share one; they take turns.

    What a prompt has in common with the one before, in whole pieces of 256 tokens, is not read
    again. Raises Failed: no_model where the folder lacks something, bad_model, no_device.
    """

    def __init__(self, folder: Path, settings: LocalSettings = LocalSettings()) -> None:
        self.name = folder.resolve().name
        self._folder = folder
        self._settings = settings
        loaded = load(folder, settings.device, settings.dtype)
        self._model, self._tokenizer, self.vocabulary, self._ends, self._context = loaded
        if settings.chat and self._tokenizer.chat_template is None:
            raise self._failed("bad_model", "it has no chat template: leave chat unset")
        share(self._model)
        self._known: Prefix | None = None
        self._turn = threading.RLock()  # a stream may be cleared away in the middle of a call

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> list[Completion]:
        """n completions of one prompt, which is read once for all of them.

        Tokens are all that was drawn, the end token and stop strings included; log-probabilities
        are those of the distribution drawn from, after temperature, `top_p` and `allow` (with a
        temperature of 0: those of 1). The same prompt, n and seed give the same completions, and
        number i of n is the one that the seed + i gives alone, but for the rounding of batches of
        another size. Raises ValueError for a `grammar`, and Failed: prompt_too_long, bad_model.
        """
        if grammar:
            raise ValueError("a model of this machine reads no grammar: use allow instead")
        if n < 1:
            raise ValueError("n must be at least 1")
        tokens = self.prompt_tokens(prompt)
        speakers = self._speakers(len(tokens), n, seed)
        with self._turn:
            for _ in self._say(tokens, speakers, allow):
                pass
        return [speaker.saying.completion() for speaker in speakers]

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """The pieces of one completion as they come; it is returned too, when it is whole.

        A piece never holds part of a character or of a stop string. Closing the iterator ends it.
        Raises what `complete` raises.
        """
        tokens = self.prompt_tokens(prompt)
        [speaker] = speakers = self._speakers(len(tokens), 1, seed)
        steps = self._say(tokens, speakers, None)
        try:
            while not speaker.saying.stop:
                with self._turn:
                    next(steps)
                if piece := speaker.saying.piece():
                    yield piece
            return speaker.saying.completion()
        finally:
            with self._turn:
                steps.close()

    def prompt_tokens(self, prompt: str) -> list[int]:
        """What the model is given for a prompt. Raises Failed (prompt_too_long)."""
        with self._turn:
            tokens = prompt_tokens(self._tokenizer, prompt, self._settings.chat)
        if len(tokens) >= self._context:
            detail = (
                f"the prompt has {len(tokens)} tokens, and the model takes {self._context}, its "
                "answer included: show it less, or use a model with a longer context"
            )
            raise self._failed("prompt_too_long", detail)
        return tokens

    def _speakers(self, size: int, n: int, seed: Seed) -> list[_Speaker]:
        limit = min(self._settings.max_tokens, self._context - size)
        chances = [Random(None if seed is None else str(seed + number)) for number in range(n)]
        stops = self._settings.stop
        return [
            _Speaker(Utterance(self.vocabulary, self._ends, stops, limit), chance)
            for chance in chances
        ]

    def _say(
        self, tokens: Sequence[int], speakers: Sequence[_Speaker], allow: Allow
    ) -> Generator[None, None, None]:
        """Lets all speak to their end, and comes up after each token. Those who end leave."""
        known, self._known = self._known, None
        prefix = read(self._model, tokens, known)
        try:
            logits, branches = prefix.logits.expand(len(speakers), -1), None
            while True:
                self._draw(logits, speakers, allow)
                yield
                left = [row for row, one in enumerate(speakers) if not one.saying.stop]
                if not left:
                    return
                if branches is None:
                    branches = Branches(self._model, prefix, len(left))
                elif len(left) < len(speakers):
                    branches.keep(left)
                speakers = [speakers[row] for row in left]
                logits = branches.step([one.saying.tokens[-1] for one in speakers])
        finally:
            self._known = reusable(self._model, prefix)

    def _draw(self, logits: torch.Tensor, speakers: Sequence[_Speaker], allow: Allow) -> None:
        """One token for each, of those that the vocabulary knows and `allow` allows."""
        chances = [one.chance.random() for one in speakers]
        temperature, top_p = self._settings.temperature, self._settings.top_p
        try:
            if allow is None:
                known = logits[:, : len(self.vocabulary.tokens)]
                drawn = zip(*draw(known, chances, temperature, top_p), strict=True)
                for one, (token, logprob) in zip(speakers, drawn, strict=True):
                    one.saying.add(token, logprob)
                return
            for row, one, chance in zip(logits.cpu(), speakers, chances, strict=True):
                ids = _ids(allow, one.saying.tokens)
                [at], [logprob] = draw(row[None, ids], [chance], temperature, top_p)
                one.saying.add(int(ids[at]), logprob)
        except FloatingPointError as error:
            detail = f"{error}: train it again, or set dtype to float32"
            raise self._failed("bad_model", detail) from error

    def _failed(self, outcome: str, detail: str) -> Failed:
        return Failed(Failure(str(self._folder), outcome, detail))


def _ids(allow: Allow, tokens: Sequence[int]) -> torch.Tensor:
    """What may follow. Raises ValueError where that is nothing."""
    assert allow is not None
    found = allow(tokens)
    ids = found if isinstance(found, np.ndarray) else list(found)
    if not len(ids):
        raise ValueError(f"allow has no token that may follow {list(tokens)}")
    return torch.as_tensor(ids, dtype=torch.long)
