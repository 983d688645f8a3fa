"""What each token of an episode was worth beyond what was expected: plain functions of tensors.

The tokens of all actions of an episode stand in one line, whatever contexts lay between them: E
episodes, L tokens of the longest, padded behind. It knows nothing of models and losses.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

Total = Callable[[Tensor], Tensor]
"""the sum of a tensor over all processes"""


def spread(values_N: Tensor, there: Tensor) -> Tensor:
    """Values one behind the other put where there is a token, row by row; 0 elsewhere."""
    put = values_N.new_zeros(there.shape)
    put[there] = values_N
    return put


def lines(sizes: Sequence[int]) -> Tensor:
    """Where there is a token, E × L, in episodes of so many tokens."""
    sizes_E = torch.tensor(sizes, dtype=torch.long)
    return torch.arange(max(sizes, default=0))[None] < sizes_E[:, None]


def token_rewards(
    logprobs_EL: Tensor, reference_EL: Tensor, said_EL: Tensor, scores_E: Tensor, beta: float
) -> Tensor:
    """The reward of each token: -β (log π - log ρ), and at the last one the score as well.

    The log-probabilities are those at which it was drawn; nothing is differentiated (Ziegler,
    equation 2, token by token).
    """
    rewards_EL = (-beta * (logprobs_EL - reference_EL)).masked_fill(~said_EL, 0.0)
    sizes_E = said_EL.sum(-1)
    some_E = sizes_E > 0
    rewards_EL[some_E, sizes_E[some_E] - 1] += scores_E[some_E]
    return rewards_EL.detach()


def gae(
    rewards_EL: Tensor,
    values_EL: Tensor,
    said_EL: Tensor,
    gamma: float = 1.0,
    trace: float = 0.95,
    last_EL: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimates, from an episode's end to its beginning, across its rows.

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


def whitened(
    values: Tensor, there: Tensor, shift: bool = True, total: Total = Tensor.clone
) -> Tensor:
    """The values with variance 1 (the biased one) over all that are there, in all processes.

    Their mean becomes 0, or stays as it was without `shift`, as rewards are whitened in the code of
    Ziegler and others (2019). 0 where there is none.
    """
    found = values[there].double()
    count, summed = total(torch.stack([found.new_tensor(found.numel()), found.sum()]))
    mean = summed / count.clamp(min=1)
    variance = total(((found - mean) ** 2).sum()) / count.clamp(min=1)
    white: Tensor = (values - mean) * (variance + 1e-8).rsqrt()
    white = white if shift else white + mean
    return white.to(values.dtype).masked_fill(~there, 0.0)


def leave_one_out(scores: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """Each score less the mean of the others of its group (RLOO); 0 for one that has no others."""
    sums: dict[Hashable, float] = {}
    counts: dict[Hashable, int] = {}
    for score, group in zip(scores, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + score
        counts[group] = counts.get(group, 0) + 1
    return [
        score - (sums[group] - score) / (counts[group] - 1) if counts[group] > 1 else 0.0
        for score, group in zip(scores, groups, strict=True)
    ]


def kl_estimates(
    logprobs: Tensor, reference: Tensor, kind: Literal["k1", "k2", "k3"] = "k1"
) -> Tensor:
    """The KL from the reference by each token that was drawn from the policy.

    k1, log π/ρ, has the right mean and any sign; k2, half its square, is never negative and
    somewhat wrong; k3, ρ/π - 1 - log ρ/π, has the right mean and is never negative.
    """
    ratio = logprobs - reference
    if kind == "k1":
        return ratio
    if kind == "k2":
        return ratio**2 / 2
    return (torch.expm1(-ratio) + ratio).clamp(min=0.0)  # rounding may go below
