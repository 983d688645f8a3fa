"""A reward model of this machine as a Reward, and what both learning and scoring do with its rows.

It knows nothing of how it was learnt.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from rookery.learn.loading import _device
from rookery.learn.models import head_of, merged, model_of, tokenizer_of, write_model
from rookery.learn.rows import Ids
from rookery.learn.shown import Showing, padding
from rookery.records import Answer, Failed, Failure, Question

REWARD = "rookery_reward"
"""the name of its Scale in a model's config.json, where it survives whatever loads the model and
writes it again: an extra file would be lost, and so would a buffer of the model"""


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a reward model's first output means.

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


class Scorer:
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
        self._rows = rows
        self._device = _device(device)
        tokenizer, ends, _ = tokenizer_of(folder)
        model, missing = model_of(folder, "row", dtype or "auto")
        if missing:
            raise self._failed("it is no reward model: make one of it with rookery learn prefer")
        self.scale = self._scale_of(model)
        self._showing = showing_of(model, tokenizer, ends, self.scale.context, self.scale.given)
        self._model = model.to(self._device).eval()  # type: ignore[arg-type]

    def __call__(self, question: Question, answer: Answer) -> float:
        """The reward of one answer; see `scores`."""
        return self.scores([(question, answer)])[0]

    def scores(self, pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        """The reward of each answer, with mean 0 and variance 1 on the reference policy's samples.

        Not a number where question and answer alone are longer than the context: choosing takes
        that for no score. Raises Failed (bad_model) where the model gives no finite number.
        """
        shown = [self._shown(*pair) for pair in pairs]
        rows = [row for row in shown if row is not None]
        found = score_rows(self._model, rows, self._showing.pad, self._device, self._rows)
        if not bool(found.isfinite().all()):
            raise self._failed("its rewards are no numbers: train it again")
        rewards = iter((found[:, 0] + self.scale.bias).tolist())
        return [math.nan if row is None else next(rewards) for row in shown]

    def odds(self, question: Question, first: Answer, second: Answer) -> float:
        """The log-odds that people would prefer the first answer to the second."""
        one, other = self.scores([(question, first), (question, second)])
        return self.scale.odds * (one - other)

    def _shown(self, question: Question, answer: Answer) -> Ids | None:
        try:
            return np.asarray(self._showing.shown(question, answer).tokens, np.int32)
        except Failed:
            return None

    def _scale_of(self, model: nn.Module) -> Scale:
        config: Any = model.config
        if not hasattr(config, REWARD) and config.num_labels != 1:
            raise self._failed(f"it has {config.num_labels} outputs: a reward model has one")
        try:
            return msgspec.convert(getattr(config, REWARD, {}), Scale)
        except msgspec.ValidationError as error:
            detail = f"{REWARD} in its config.json cannot be read ({error}): train it again"
            raise self._failed(detail) from error

    def _failed(self, detail: str) -> Failed:
        return Failed(Failure(str(self._folder), "bad_model", detail))


def showing_of(
    model: Any, tokenizer: Any, ends: frozenset[int], context: int, given: bool
) -> Showing:
    """How a model is shown answers; from then on it knows which token pads."""
    config = model.config.get_text_config()
    end = min(ends) if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)
    pad = padding(tokenizer, end, model.get_input_embeddings().weight.shape[0])
    config.pad_token_id = pad
    most = getattr(config, "max_position_embeddings", tokenizer.model_max_length)
    return Showing(tokenizer, end, pad, min(context or most, most), given)


def outputs(model: nn.Module, rows: Sequence[Ids], pad: int, device: torch.device) -> Tensor:
    """What the model's head gives at the last token of each row, rows × outputs, as float32."""
    tokens_NT = torch.full((len(rows), max(map(len, rows))), pad)
    seen_NT = torch.zeros(tokens_NT.shape, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens_NT[number, : len(row)] = torch.from_numpy(row)
        seen_NT[number, : len(row)] = 1
    found: Tensor = model(
        input_ids=tokens_NT.to(device), attention_mask=seen_NT.to(device), use_cache=False
    ).logits
    return found.float()


@torch.inference_mode()
def score_rows(
    model: nn.Module, rows: Sequence[Ids], pad: int, device: torch.device, size: int
) -> Tensor:
    """The outputs of rows, as many at once as `size`, those of like length together."""
    if not rows:
        return torch.zeros(0, 1)
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    pieces = [order[at : at + size] for at in range(0, len(order), size)]
    found = [outputs(model, [rows[number] for number in piece], pad, device) for piece in pieces]
    places = torch.tensor(order).argsort()
    return torch.cat(found).cpu()[places]


def write_scorer(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    scale: Scale,
    deviation: float,
    blend: float,
    folder: Path,
) -> None:
    """Writes a reward model as Scorer and `from_pretrained` read it; changes its head.

    Its first output becomes the reward: this share of the second blended in, and all divided by
    the standard deviation. Raises ValueError where its head is no linear layer.
    """
    plain: Any = merged(model)
    head = head_of(plain)
    with torch.no_grad():
        for values in (head.weight, head.bias):
            if values is not None:
                second = blend * values[1] if blend else 0.0
                values[0] = ((1 - blend) * values[0] + second) / deviation
    setattr(plain.config, REWARD, msgspec.to_builtins(scale))
    write_model(plain, tokenizer, folder)
