"""A reward model: the tokens it reads for a question and an answer, its outputs, and their
scale."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from rookery.browser.browser import replace_surrogates
from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import TokenIds
from rookery.learn.pretrained_models import (
    choose_device,
    choose_end_token,
    count_context,
    find_head,
    load_model_with_head,
    load_tokenizer,
    merge_lora,
    save_pretrained_model,
)
from rookery.quotes.citation_syntax import insert_marks
from rookery.records import Answer, Claim, Failure, Question, convert_value


class RewardModelInput(NamedTuple):
    """The tokens that a reward model reads; the reward is at the last one."""

    tokens: list[int]
    cut_tokens: int
    """tokens of quotes and given pages that found no room"""


class RewardInputEncoder(NamedTuple):
    """Encodes a question and an answer as the tokens that a reward model reads.

    A question, an answer with its numbers, and between them each quote with its number and title
    (WebGPT, section 3.2: "a question and an answer with references"; GopherCite, section 2.8: the
    evidence, not the whole page). An end token stands after each of these and nowhere else, since
    text that spells one out is text: no page can pass for an answer.
    """

    tokenizer: PreTrainedTokenizerBase
    end: int
    """the token that ends each part"""
    pad: int
    """another token, so that the last token that does not pad is the last token that was shown,
    which is where transformers read a reward"""
    context: int
    """the most tokens"""
    given: bool = False
    """whether the pages that are given with a question are shown: the text to be summarised or
    continued (Ziegler)"""

    def encode_answer(self, question: Question, answer: Answer) -> RewardModelInput:
        """Encode question, evidence and answer as tokens, an end token after each.

        Evidence is the question's pages, with `given`, and the answer's quotes. Where there is no
        room, it is cut, the longest first, and never the question or the answer. Raises Failed
        (too_long) where these two alone have more tokens than `context`.
        """
        question_tokens = self._encode_part(f"Question: {question.text}")
        answer_tokens = self._encode_part(f"Answer: {insert_marks(answer, _format_quote_numbers)}")
        begun = self._get_begin_token()
        room = self.context - len(begun) - len(question_tokens) - len(answer_tokens)
        if room < 0:
            detail = (
                f"question and answer have {self.context - room} tokens, and the reward model "
                f"reads {self.context}: shorten the answer, or use a model with a longer context"
            )
            raise Failed(Failure(f"an answer to {question.id}", Outcome.TOO_LONG, detail))
        whole = [self._encode_part(text) for text in self._list_evidence(question, answer)]
        fitted = _fit_parts(whole, room)
        cut = sum(map(len, whole)) - sum(map(len, fitted))
        tokens = [
            *begun,
            *question_tokens,
            *(token for part in fitted for token in part),
            *answer_tokens,
        ]
        return RewardModelInput(tokens, cut)

    def _list_evidence(self, question: Question, answer: Answer) -> list[str]:
        given = [f"{page.title}\n{page.text}" for page in question.pages if self.given]
        quotes = enumerate(answer.quotes, 1)
        return [*given, *(f"[{number}] {quote.title}\n{quote.text}" for number, quote in quotes)]

    def _get_begin_token(self) -> list[int]:
        """Return the token that begins all texts, where the tokenizer has one that it uses."""
        first = self.tokenizer("")["input_ids"][:1]
        return list(first) if first == [self.tokenizer.bos_token_id] else []

    def _encode_part(self, text: str) -> list[int]:
        encoded = self.tokenizer(
            replace_surrogates(text),
            add_special_tokens=False,
            split_special_tokens=True,
            verbose=False,
            return_attention_mask=False,
        )
        return [*(token for token in encoded["input_ids"] if token != self.end), self.end]


def choose_pad_token(tokenizer: PreTrainedTokenizerBase, end: int, width: int) -> int:
    """Return a token to pad with that is not the end token and is below `width`.

    The tokenizer's own, where it will do; else any special token; else token 0 or 1.
    """
    usual = [tokenizer.pad_token_id, *sorted(tokenizer.all_special_ids), 0, 1]
    return next(int(pad) for pad in usual if pad not in (None, end) and pad < width)


def _format_quote_numbers(claim: Claim) -> str:
    return " " * bool(claim.quotes) + "".join(f"[{number + 1}]" for number in claim.quotes)


def _fit_parts(parts: Sequence[list[int]], room: int) -> list[list[int]]:
    """Return the parts, each cut at one length so that all have room together; each keeps its
    end."""
    longest = room
    for shorter, size in enumerate(sorted(map(len, parts))):
        longest = room // (len(parts) - shorter)
        if size > longest:
            break
        room -= size
    else:
        return list(parts)
    fitted = [part if len(part) <= longest else [*part[: longest - 1], part[-1]] for part in parts]
    return fitted if longest > 1 else [part for part in parts if len(part) <= longest]


REWARD_CONFIG_KEY = "rookery_reward"
"""the name of its RewardScale in a model's config.json, where it survives whatever loads the model
and writes it again: an extra file would be lost, and so would a buffer of the model"""


class RewardScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bias, scale and context that give a reward model's first output its meaning.

    Its head is written so that the output has variance 1 on the reference policy's samples,
    whoever reads the model; with `bias` added it has mean 0 there too.
    """

    bias: float = 0.0
    odds: float = 1.0
    """differences of rewards times this are log-odds of being preferred"""
    context: int = 0
    """the most tokens that it was shown; 0: as many as the model takes"""
    given: bool = False
    """whether pages given with questions were shown"""


class RewardModel:
    """The reward model of a folder: `scorer(question, answer)` is a Reward.

    Any model for sequence classification with one output does; those that were learnt elsewhere
    have rewards as they come. `rows` are how many answers go through it at once. Raises Failed:
    no_model, bad_model, no_device.
    """

    def __init__(
        self,
        folder: Path,
        device: str = "",
        dtype: Literal["", "float32", "bfloat16", "float16"] = "",
        rows: int = 16,
    ) -> None:
        self.name = folder.resolve().name
        self._folder = folder
        self._batch_size = rows
        self._device = choose_device(device)
        tokenizer, ends, _ = load_tokenizer(folder)
        model, missing = load_model_with_head(folder, "row", dtype or "auto")
        if missing:
            raise self._make_error("it is no reward model: make one with rookery learn prefer")
        self.scale = self._load_scale(model)
        self._input_encoder = make_input_encoder(
            model, tokenizer, ends, self.scale.context, self.scale.given
        )
        self._model = model.to(self._device).eval()  # type: ignore[arg-type]

    def __call__(self, question: Question, answer: Answer) -> float:
        """Return the reward of one answer; see `score_answers`."""
        return self.score_answers([(question, answer)])[0]

    def score_answers(self, pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        """Return the reward of each answer; NaN where question and answer alone exceed the context.

        Rewards of a model trained here have mean 0 and variance 1 on the reference policy's
        samples; choosing takes NaN for no score. Raises Failed (bad_model) where the model gives no
        finite number.
        """
        encoded = [self._encode_answer(*pair) for pair in pairs]
        rows = [row for row in encoded if row is not None]
        outputs = score_rows(
            self._model, rows, self._input_encoder.pad, self._device, self._batch_size
        )
        if not bool(outputs.isfinite().all()):
            raise self._make_error("its rewards are no numbers: train it again")
        rewards = iter((outputs[:, 0] + self.scale.bias).tolist())
        return [math.nan if row is None else next(rewards) for row in encoded]

    def _encode_answer(self, question: Question, answer: Answer) -> TokenIds | None:
        try:
            return np.asarray(self._input_encoder.encode_answer(question, answer).tokens, np.int32)
        except Failed:
            return None

    def _load_scale(self, model: nn.Module) -> RewardScale:
        config: Any = model.config
        if not hasattr(config, REWARD_CONFIG_KEY) and config.num_labels != 1:
            raise self._make_error(f"it has {config.num_labels} outputs: a reward model has one")
        try:
            return convert_value(getattr(config, REWARD_CONFIG_KEY, {}), RewardScale)
        except ValueError as error:
            detail = (
                f"{REWARD_CONFIG_KEY} in its config.json cannot be read ({error}): train it again"
            )
            raise self._make_error(detail) from error

    def _make_error(self, detail: str) -> Failed:
        return Failed(Failure(str(self._folder), Outcome.BAD_MODEL, detail))


def make_input_encoder(
    model: Any, tokenizer: Any, ends: frozenset[int], context: int, show_given: bool
) -> RewardInputEncoder:
    """Return the encoder of a model's inputs, and set the pad token in the model's configuration.

    Inputs have at most `context` tokens, or as many as the model takes if that is fewer or
    `context` is 0. `show_given` says whether pages given with a question are shown.
    """
    end = choose_end_token(tokenizer, ends)
    pad = choose_pad_token(tokenizer, end, model.get_input_embeddings().weight.shape[0])
    model.config.get_text_config().pad_token_id = pad
    most = count_context(model.config, tokenizer)
    return RewardInputEncoder(tokenizer, end, pad, min(context or most, most), show_given)


def compute_reward_outputs(
    model: nn.Module, rows: Sequence[TokenIds], pad: int, device: torch.device
) -> Tensor:
    """Return the outputs of a model's head at each row's last token, rows × outputs, float32.

    There must be a row. The model's configuration must have this pad token, as `make_input_encoder`
    sets it: by it transformers find the last token.
    """
    tokens_NT = torch.full((len(rows), max(map(len, rows))), pad)
    seen_NT = torch.zeros(tokens_NT.shape, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens_NT[number, : len(row)] = torch.from_numpy(row)
        seen_NT[number, : len(row)] = 1
    outputs: Tensor = model(
        input_ids=tokens_NT.to(device), attention_mask=seen_NT.to(device), use_cache=False
    ).logits
    return outputs.float()


@torch.inference_mode()
def score_rows(
    model: nn.Module, rows: Sequence[TokenIds], pad: int, device: torch.device, size: int
) -> Tensor:
    """Return the head's outputs at each row's last token, in the order of the rows, on the CPU.

    They are computed without gradients, in batches of `size` rows of similar length. Without rows
    they are 0 × 1.
    """
    if not rows:
        return torch.zeros(0, 1)
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    pieces = [order[at : at + size] for at in range(0, len(order), size)]
    outputs = [
        compute_reward_outputs(model, [rows[number] for number in piece], pad, device)
        for piece in pieces
    ]
    places = torch.tensor(order).argsort()
    return torch.cat(outputs).cpu()[places]


def save_reward_model(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    scale: RewardScale,
    deviation: float,
    blend: float,
    folder: Path,
) -> None:
    """Write a reward model that `RewardModel` and `from_pretrained` read; changes its head.

    Its first output becomes the reward: the share `blend` of the second blended in, and all divided
    by the standard deviation. LoRA is merged into the weights. Raises ValueError where its head is
    no linear layer.
    """
    plain: Any = merge_lora(model)
    head = find_head(plain)
    with torch.no_grad():
        for values in (head.weight, head.bias):
            if values is not None:
                second = blend * values[1] if blend else 0.0
                values[0] = ((1 - blend) * values[0] + second) / deviation
    setattr(plain.config, REWARD_CONFIG_KEY, msgspec.to_builtins(scale))
    save_pretrained_model(plain, tokenizer, folder)
