"""A language model of this machine as a policy, and its completions while they are generated."""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch

from rookery.errors import Failed, Outcome
from rookery.learn.decoding import (
    PrefixBranches,
    PromptPrefix,
    draw_tokens,
    enable_prefix_sharing,
    get_reusable_prefix,
    prefill_prompt,
    set_threads,
)
from rookery.learn.pretrained_models import choose_precision, load_model, tokenize_prompt
from rookery.models.openai_protocol import (
    SpendingBudget,
    TokenUsage,
    compute_cost,
    count_settled_characters,
)
from rookery.models.remote_model import AllowedTokens, Seed
from rookery.quotes.vocabulary import Vocabulary
from rookery.records import Completion, Failure
from rookery.settings import LocalModelSettings


class StreamedCompletion:
    """A completion in progress, token by token, until `stop` is "end", "stop" or "length".

    The text ends before the first stop string. Bytes that are no UTF-8 become U+FFFD; a character
    that is incomplete at the end is left out.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        ends: Collection[int],
        stops: Sequence[str],
        limit: int,
        generator: Random | None = None,
    ) -> None:
        self.generator = generator or Random()
        self.tokens: list[int] = []
        self.stop = ""
        self._logprobs: list[float] = []
        self._text = ""
        self._emitted = 0
        self._vocabulary = vocabulary
        self._ends = ends
        self._stops = stops
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int, logprob: float) -> None:
        """Append one token with its log-probability, and set `stop` if the completion ends with it.

        It ends at an end token, at a stop string, which is cut off the text, or at the limit of
        tokens.
        """
        self.tokens.append(token)
        self._logprobs.append(logprob)
        if token in self._ends:
            self.stop = "end"
            return
        before = len(self._text)
        self._text += self._decoder.decode(self._vocabulary.tokens[token] or b"")
        ends = [self._text.find(stop, max(0, before - len(stop) + 1)) for stop in self._stops]
        if ends := [at for at in ends if at >= 0]:
            self._text = self._text[: min(ends)]
            self.stop = "stop"
        elif len(self.tokens) == self._limit:
            self.stop = "length"

    def take_new_text(self) -> str:
        """Return the text since the last call, less a tail that may begin a stop string."""
        start, self._emitted = self._emitted, len(self._text)
        if not self.stop:
            self._emitted = count_settled_characters(self._text, self._stops)
        return self._text[start : self._emitted]

    def to_completion(self) -> Completion:
        """Return the completion so far; its tokens include end tokens and stop strings."""
        return Completion(self._text, tuple(self.tokens), tuple(self._logprobs), self.stop)


class LocalModel:
    """The model of a folder that `save_pretrained` wrote. Threads may share one; they take turns.

    What a prompt has in common with the one before, in whole pieces of 256 tokens, is not read
    again. Prompts and completions count into `spending`, which may cap them. Raises Failed:
    no_model where the folder lacks something, bad_model, no_device.
    """

    def __init__(
        self,
        folder: Path,
        settings: LocalModelSettings = LocalModelSettings(),
        spending: SpendingBudget | None = None,
    ) -> None:
        self.name = folder.resolve().name
        self._folder = folder
        self._settings = settings
        self._spending = spending or SpendingBudget()
        set_threads(settings)
        dtype = settings.dtype or choose_precision(settings.device)
        loaded = load_model(folder, settings.device, dtype)
        self._model, self._tokenizer, self.vocabulary, self._ends, self._context, _ = loaded
        if settings.chat and self._tokenizer.chat_template is None:
            raise self._make_error(Outcome.BAD_MODEL, "it has no chat template: leave chat unset")
        enable_prefix_sharing(self._model)
        self._cached_prefix: PromptPrefix | None = None
        self._turn_lock = threading.RLock()  # a stream may be cleared away in the middle of a call

    def complete(
        self,
        prompt: str,
        n: int = 1,
        allow: AllowedTokens = None,
        seed: Seed = None,
        grammar: str = "",
    ) -> list[Completion]:
        """Return n completions of one prompt, which is read once for all of them.

        Tokens are all that was drawn, the end token and stop strings included; log-probabilities
        are those of the distribution drawn from, after temperature, `top_p` and `allow` (with a
        temperature of 0: those of 1). The same prompt, n and seed give the same completions, and
        number i of n is the one that the seed + i gives alone, but for the rounding of batches of
        another size. Waits for other threads' calls, and for spending that they have reserved.
        Raises ValueError for a `grammar`, for n below 1 and where `allow` has no token, and Failed:
        prompt_too_long, bad_model, spending_cap.
        """
        if grammar:
            raise ValueError("a model of this machine reads no grammar: use allow instead")
        if n < 1:
            raise ValueError("n must be at least 1")
        tokens = self.prompt_tokens(prompt)
        speakers = self._start_completions(len(tokens), n, seed)
        with self._turn_lock:
            for _ in self._generate_tokens(tokens, speakers, allow):
                pass
        return [speaker.to_completion() for speaker in speakers]

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the text of one completion piece by piece; the generator returns the completion.

        A piece never holds part of a character or of a stop string. Closing the generator ends the
        completion; other threads take turns with it token by token. Raises Failed, with the first
        piece or later: prompt_too_long, bad_model, spending_cap.
        """
        tokens = self.prompt_tokens(prompt)
        [speaker] = speakers = self._start_completions(len(tokens), 1, seed)
        steps = self._generate_tokens(tokens, speakers, None)
        try:
            while not speaker.stop:
                with self._turn_lock:
                    next(steps)
                if piece := speaker.take_new_text():
                    yield piece
            return speaker.to_completion()
        finally:
            with self._turn_lock:
                steps.close()

    def prompt_tokens(self, prompt: str) -> list[int]:
        """Return the token ids that the model is given for a prompt, chat template included.

        It is included as the setting `chat` says. Raises Failed (prompt_too_long) where no token of
        an answer would fit behind the prompt, and ValueError for a prompt without tokens.
        """
        with self._turn_lock:
            tokens = tokenize_prompt(self._tokenizer, prompt, self._settings.chat)
        if len(tokens) >= self._context:
            detail = (
                f"the prompt has {len(tokens)} tokens, and the model takes {self._context}, its "
                "answer included: show it less, or use a model with a longer context"
            )
            raise self._make_error(Outcome.PROMPT_TOO_LONG, detail)
        return tokens

    def _start_completions(self, size: int, n: int, seed: Seed) -> list[StreamedCompletion]:
        limit = min(self._settings.token_limit, self._context - size)
        generators = [Random(None if seed is None else str(seed + number)) for number in range(n)]
        stops = self._settings.stop
        return [
            StreamedCompletion(self.vocabulary, self._ends, stops, limit, generator)
            for generator in generators
        ]

    def _generate_tokens(
        self, tokens: Sequence[int], speakers: Sequence[StreamedCompletion], allow: AllowedTokens
    ) -> Generator[None, None, None]:
        """Complete within the budget of tokens and money; come up after each token."""
        limit = min(self._settings.token_limit, self._context - len(tokens))
        most = compute_cost(TokenUsage(len(tokens), limit * len(speakers)), self._settings)
        while not self._spending.reserve_spending(most, self.name):
            time.sleep(0.02)  # requests to other models are under way
        try:
            yield from self._decode_prompt(tokens, speakers, allow)
        finally:
            written = sum(len(one.tokens) for one in speakers)
            cost = compute_cost(TokenUsage(len(tokens), written), self._settings)
            self._spending.settle_reservation(most, cost)

    def _decode_prompt(
        self, tokens: Sequence[int], speakers: Sequence[StreamedCompletion], allow: AllowedTokens
    ) -> Generator[None, None, None]:
        """Let all speak to their end, and come up after each token. Those who end leave."""
        cached, self._cached_prefix = self._cached_prefix, None
        prefix = prefill_prompt(self._model, tokens, cached)
        try:
            logits, branches = prefix.logits.expand(len(speakers), -1), None
            while True:
                self._draw_tokens(logits, speakers, allow)
                yield
                unfinished = [row for row, one in enumerate(speakers) if not one.stop]
                if not unfinished:
                    return
                if branches is None:
                    branches = PrefixBranches(self._model, prefix, len(unfinished))
                elif len(unfinished) < len(speakers):
                    branches.select_rows(unfinished)
                speakers = [speakers[row] for row in unfinished]
                logits = branches.step([one.tokens[-1] for one in speakers])
        finally:
            self._cached_prefix = get_reusable_prefix(self._model, prefix)

    def _draw_tokens(
        self, logits: torch.Tensor, speakers: Sequence[StreamedCompletion], allow: AllowedTokens
    ) -> None:
        """Draw one token for each branch, of those that the vocabulary knows and `allow` allows."""
        chances = [one.generator.random() for one in speakers]
        settings = self._settings
        temperature = 1.0 if settings.temperature is None else settings.temperature
        top_p = 1.0 if settings.top_p is None else settings.top_p
        try:
            if allow is None:
                known_logits = logits[:, : len(self.vocabulary.tokens)]
                sampled = zip(*draw_tokens(known_logits, chances, temperature, top_p), strict=True)
                for one, (token, logprob) in zip(speakers, sampled, strict=True):
                    one.add(token, logprob)
                return
            for row, one, chance in zip(logits.cpu(), speakers, chances, strict=True):
                ids = _list_allowed_ids(allow, one.tokens)
                [at], [logprob] = draw_tokens(row[None, ids], [chance], temperature, top_p)
                one.add(int(ids[at]), logprob)
        except FloatingPointError as error:
            detail = f"{error}: train it again, or set dtype to float32"
            raise self._make_error(Outcome.BAD_MODEL, detail) from error

    def _make_error(self, outcome: str, detail: str) -> Failed:
        return Failed(Failure(str(self._folder), outcome, detail))


def _list_allowed_ids(allow: AllowedTokens, tokens: Sequence[int]) -> torch.Tensor:
    """Return the ids that may follow. Raises ValueError if there is none."""
    assert allow is not None
    found = allow(tokens)
    ids = found if isinstance(found, np.ndarray) else list(found)
    if not len(ids):
        raise ValueError(f"allow has no token that may follow {list(tokens)}")
    return torch.as_tensor(ids, dtype=torch.long)
