"""What a policy and its value network follow: the losses of PPO and A2C, token by token.

Each gives a number for each token of the actions, B × A. It knows nothing of models.
"""

import torch
from torch import Tensor


def policy_loss(
    new_BA: Tensor, old_BA: Tensor, advantages_BA: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """The loss of log-probabilities that were others when the actions were drawn, and whether a
    token was clipped.

    The ratio new / old times the advantage, with no gain from a ratio that lies farther than `clip`
    from 1 (PPO). At a ratio of 1 its gradient is that of A2C.
    """
    ratio_BA = (new_BA - old_BA).exp()
    plain_BA = -advantages_BA * ratio_BA
    if clip is None:
        return plain_BA, torch.zeros_like(plain_BA, dtype=torch.bool)
    clipped_BA = -advantages_BA * ratio_BA.clamp(1 - clip, 1 + clip)
    return torch.maximum(plain_BA, clipped_BA), clipped_BA > plain_BA


def value_loss(
    values_BA: Tensor, old_BA: Tensor, returns_BA: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Half the square of how far the values are from the returns, and whether it was clipped.

    With `clip`, what brings a value farther than that from what it was is no gain, as in the code
    of Ziegler and others (2019).
    """
    plain_BA = (values_BA - returns_BA) ** 2 / 2
    if clip is None:
        return plain_BA, torch.zeros_like(plain_BA, dtype=torch.bool)
    near_BA = old_BA + (values_BA - old_BA).clamp(-clip, clip)
    clipped_BA = (near_BA - returns_BA) ** 2 / 2
    return torch.maximum(plain_BA, clipped_BA), clipped_BA > plain_BA


def whole_kl(logits_BAV: Tensor, reference_BAV: Tensor) -> Tensor:
    """The KL of the next token's distribution from the reference's, over all ids.

    It is differentiated for the tokens themselves, and not for where they lead (GopherCite, section
    2.8). Ids that are not allowed are allowed in neither.
    """
    ours_BAV = logits_BAV.log_softmax(-1)
    theirs_BAV = reference_BAV.log_softmax(-1)
    # -inf less -inf is no number, and its gradient neither.
    apart_BAV = (ours_BAV - theirs_BAV).masked_fill(ours_BAV.isneginf(), 0.0)
    return (ours_BAV.exp() * apart_BAV).sum(-1)
