"""Arithmetic of policy gradients (PPO, A2C, RLOO): losses, advantages, and the control of the KL.

Losses and advantages have one value for each token of the actions, row by row.
"""

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor


def compute_policy_loss(
    new_N: Tensor, old_N: Tensor, advantages_N: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Return PPO's loss of each token from log-probabilities, and whether the token was clipped.

    The loss is minus the ratio new / old times the advantage, with no gain from a ratio that lies
    farther than `clip` from 1; None: never clipped. At a ratio of 1 its gradient is that of A2C.
    """
    ratio_N = (new_N - old_N).exp()
    plain_N = -advantages_N * ratio_N
    if clip is None:
        return plain_N, torch.zeros_like(plain_N, dtype=torch.bool)
    clipped_N = -advantages_N * ratio_N.clamp(1 - clip, 1 + clip)
    return torch.maximum(plain_N, clipped_N), clipped_N > plain_N


def compute_value_loss(
    values_N: Tensor, old_N: Tensor, returns_N: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Return half the squared error of each value against its return, and whether it was clipped.

    With `clip`, what brings a value farther than that from what it was is no gain, as in the code
    of Ziegler and others (2019).
    """
    plain_N = (values_N - returns_N) ** 2 / 2
    if clip is None:
        return plain_N, torch.zeros_like(plain_N, dtype=torch.bool)
    near_N = old_N + (values_N - old_N).clamp(-clip, clip)
    clipped_N = (near_N - returns_N) ** 2 / 2
    return torch.maximum(plain_N, clipped_N), clipped_N > plain_N


def compute_full_kl(logits_NV: Tensor, reference_NV: Tensor) -> Tensor:
    """Return for each token the KL of its whole distribution from the reference's, over all ids.

    It is differentiated for the tokens themselves, and not for where they lead (GopherCite, section
    2.8). Ids that are not allowed are allowed in neither.
    """
    ours_NV = logits_NV.log_softmax(-1)
    theirs_NV = reference_NV.log_softmax(-1)
    # -inf less -inf is no number, and its gradient neither.
    apart_NV = (ours_NV - theirs_NV).masked_fill(ours_NV.isneginf(), 0.0)
    return (ours_NV.exp() * apart_NV).sum(-1)


CrossProcessSum = Callable[[Tensor], Tensor]
"""the sum of a tensor over all processes"""


def scatter_by_mask(values_N: Tensor, mask: Tensor) -> Tensor:
    """Return a tensor of the mask's shape with the values where it is set, row by row, else 0."""
    put = values_N.new_zeros(mask.shape)
    put[mask] = values_N
    return put


def make_length_mask(sizes: Sequence[int]) -> Tensor:
    """Return a mask of the tokens of episodes with these lengths, E × L."""
    sizes_E = torch.tensor(sizes, dtype=torch.long)
    return torch.arange(max(sizes, default=0))[None] < sizes_E[:, None]


def compute_token_rewards(
    logprobs_EL: Tensor, reference_EL: Tensor, said_EL: Tensor, scores_E: Tensor, beta: float
) -> Tensor:
    """Return the reward of each token: -β (log π - log ρ), plus the score at the last token.

    The log-probabilities are those at which it was drawn; nothing is differentiated (Ziegler,
    equation 2, token by token).
    """
    rewards_EL = (-beta * (logprobs_EL - reference_EL)).masked_fill(~said_EL, 0.0)
    sizes_E = said_EL.sum(-1)
    some_E = sizes_E > 0
    rewards_EL[some_E, sizes_E[some_E] - 1] += scores_E[some_E]
    return rewards_EL.detach()


def compute_gae(
    rewards_EL: Tensor,
    values_EL: Tensor,
    said_EL: Tensor,
    gamma: float = 1.0,
    trace: float = 0.95,
    last_EL: Tensor | None = None,
) -> Tensor:
    """Return the generalised advantage estimate of each token, across all rows of an episode.

    `gamma` discounts and `trace` is λ. They count tokens; or, where `last_EL` says which tokens are
    the last of an action, they count actions: within one nothing is discounted or bootstrapped
    (WebGPT, appendix E). Added to the values they are the returns that values are fitted to.
    """
    values_EL = values_EL.masked_fill(~said_EL, 0.0)
    counted_EL = torch.ones_like(said_EL) if last_EL is None else last_EL
    gammas_EL = torch.ones_like(rewards_EL).masked_fill(counted_EL, gamma)
    traces_EL = torch.ones_like(rewards_EL).masked_fill(counted_EL, trace)
    after_EL = torch.nn.functional.pad(values_EL[:, 1:], (0, 1))
    steps_EL = rewards_EL.masked_fill(~said_EL, 0.0) + gammas_EL * after_EL - values_EL
    found_EL = torch.zeros_like(rewards_EL)
    ahead_E = rewards_EL.new_zeros(len(rewards_EL))
    for at in reversed(range(rewards_EL.shape[1])):
        ahead_E = steps_EL[:, at] + gammas_EL[:, at] * traces_EL[:, at] * ahead_E
        found_EL[:, at] = ahead_E
    return found_EL


def whiten_values(
    values: Tensor, mask: Tensor, shift: bool = True, total: CrossProcessSum = Tensor.clone
) -> Tensor:
    """Return the values with variance 1 (the biased one) where `mask` is true, over all processes.

    Their mean becomes 0, or stays as it was without `shift`, as rewards are whitened in the code of
    Ziegler and others (2019). 0 where the mask is not set.
    """
    masked = values[mask].double()
    count, summed = total(torch.stack([masked.new_tensor(masked.numel()), masked.sum()]))
    mean = summed / count.clamp(min=1)
    variance = total(((masked - mean) ** 2).sum()) / count.clamp(min=1)
    white: Tensor = (values - mean) * (variance + 1e-8).rsqrt()
    white = white if shift else white + mean
    return white.to(values.dtype).masked_fill(~mask, 0.0)


def compute_rloo_advantages(scores: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """Return each score less the mean of the others of its group (RLOO); 0 if it has no others."""
    sums: dict[Hashable, float] = {}
    counts: dict[Hashable, int] = {}
    for score, group in zip(scores, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + score
        counts[group] = counts.get(group, 0) + 1
    return [
        score - (sums[group] - score) / (counts[group] - 1) if counts[group] > 1 else 0.0
        for score, group in zip(scores, groups, strict=True)
    ]


def estimate_kl(
    logprobs: Tensor, reference: Tensor, kind: Literal["k1", "k2", "k3"] = "k1"
) -> Tensor:
    """Return the KL from the reference by each token that was drawn from the policy.

    k1, log π/ρ, has the right mean and any sign; k2, half its square, is never negative and
    somewhat wrong; k3, ρ/π - 1 - log ρ/π, has the right mean and is never negative.
    """
    ratio = logprobs - reference
    if kind == "k1":
        return ratio
    if kind == "k2":
        return ratio**2 / 2
    return (torch.expm1(-ratio) + ratio).clamp(min=0.0)  # rounding may go below


_MAX_RELATIVE_ERROR = 0.2
_CONTROLLER_FILE = "controller.json"


class KlController:
    """The coefficient β of the KL, and how it follows what was measured.

    With a target it is the log-space proportional controller of Ziegler (section 2.2): after each
    batch β grows by the share `gain` · e, where e is how far the KL of an episode lies above the
    target, as a share of it, and never more than 0.2 either way. The paper says that the gain K_β
    is 0.1; the code that came with it comes to 512 / 10,000 = 0.051.
    """

    def __init__(self, beta: float, target: float | None = None, gain: float = 0.1) -> None:
        self.beta = beta
        self._target = target
        self._gain = gain

    def update_beta(self, kl: float) -> None:
        """Raise β after a batch whose KL is above the target, lower it after one below.

        `kl` is the mean of an episode, in nats. Without a target β stays.
        """
        if self._target is not None:
            off = min(
                max((kl - self._target) / self._target, -_MAX_RELATIVE_ERROR), _MAX_RELATIVE_ERROR
            )
            self.beta *= 1 + self._gain * off

    def save(self, folder: Path) -> None:
        """Write the state to a folder: β without rounding."""
        (folder / _CONTROLLER_FILE).write_text(json.dumps({"beta": self.beta}), "utf-8")

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote to a folder."""
        self.beta = float(json.loads((folder / _CONTROLLER_FILE).read_text("utf-8"))["beta"])
