"""The losses of a reward model's outputs. They know nothing of models and of data."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def preference_loss(rewards_BK: Tensor, weights_BK: Tensor) -> Tensor:
    """Cross-entropy of the weights over the softmax of the rewards, summed over comparisons, nats.

    Best of four is Ziegler's loss (section 2); of two it is Bradley and Terry's, and (0.5, 0.5) a
    tie as WebGPT has it (section 3.2). Where there are fewer answers, the reward is -inf.
    """
    logprobs_BK = rewards_BK.log_softmax(-1).masked_fill(rewards_BK.isneginf(), 0.0)
    return -(weights_BK * logprobs_BK).sum()


def rating_loss(logits_N: Tensor, good_N: Tensor) -> Tensor:
    """Binary cross-entropy of what is 1 for good answers and 0 for others, summed, in nats; what
    is not a number does not count (GopherCite, section 2.8)."""
    losses_N = binary_cross_entropy_with_logits(logits_N, good_N.nan_to_num(), reduction="none")
    return losses_N.masked_fill(good_N.isnan(), 0.0).sum()


def spread(values_N: Tensor, counts: Sequence[int], nothing: float) -> Tensor:
    """The values of all answers as comparisons × answers, `counts` of them in each; `nothing`
    where a comparison has fewer than others."""
    most = max(counts)
    places = [row * most + at for row, count in enumerate(counts) for at in range(count)]
    empty = torch.full((len(counts) * most,), nothing, device=values_N.device)
    index = torch.tensor(places, device=values_N.device)
    return empty.index_copy(0, index, values_N).view(len(counts), most)
