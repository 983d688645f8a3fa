"""Tokens drawn by numbers between 0 and 1, so that a seed means the same on every machine.

It knows nothing of models and of texts.
"""

from collections.abc import Sequence

import torch


def draw(
    logits_NV: torch.Tensor, chances: Sequence[float], temperature: float = 1.0, top_p: float = 1.0
) -> tuple[list[int], list[float]]:
    """A token for each row, and its log-probability in the distribution that it is drawn from.

    Tokens share the line from 0 to 1 by their probability, in the order of their ids; a row's
    chance is a place on it. A temperature of 0 takes the likeliest token; its log-probability is
    that of temperature 1. With `top_p` only the likeliest tokens remain, as few as together have
    that probability. Raises FloatingPointError where a row is no distribution.
    """
    logprobs_NV = (logits_NV.float() / (temperature or 1.0)).log_softmax(-1)
    if logprobs_NV[:, 0].isnan().any():  # one that is no number makes all of its row so
        raise FloatingPointError("its logits are no numbers")
    if temperature == 0:
        chosen_N1 = logprobs_NV.argmax(-1, keepdim=True)
    else:
        if top_p < 1:
            logprobs_NV = _nucleus(logprobs_NV, top_p)
        line_NV = logprobs_NV.double().exp().cumsum(-1)
        places = torch.tensor(chances, dtype=line_NV.dtype, device=line_NV.device)
        places_N1 = places[:, None] * line_NV[:, -1:]
        chosen_N1 = torch.searchsorted(line_NV, places_N1, right=True)
    return chosen_N1[:, 0].tolist(), logprobs_NV.gather(1, chosen_N1)[:, 0].tolist()


def _nucleus(logprobs_NV: torch.Tensor, top_p: float) -> torch.Tensor:
    ordered_NV, order_NV = logprobs_NV.sort(descending=True, stable=True)
    shares_NV = ordered_NV.double().exp()
    beyond_NV = shares_NV.cumsum(-1) - shares_NV >= top_p
    kept_NV = ordered_NV.masked_fill(beyond_NV, -torch.inf)
    return torch.empty_like(logprobs_NV).scatter(1, order_NV, kept_NV).log_softmax(-1)
