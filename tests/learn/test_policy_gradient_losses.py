"""Worked by hand, against plain loops, and for whatever hypothesis thinks of."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rookery.learn.policy_gradient import (
    compute_full_kl,
    compute_gae,
    compute_policy_loss,
    compute_rloo_advantages,
    compute_token_rewards,
    compute_value_loss,
    make_length_mask,
    scatter_by_mask,
    whiten_values,
)

numbers = st.floats(-5, 5, width=32)


def test_tokens_stand_in_line_episode_by_episode() -> None:
    there_EL = make_length_mask([2, 0, 3])
    assert there_EL.tolist() == [[True, True, False], [False] * 3, [True] * 3]
    put_EL = scatter_by_mask(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), there_EL)
    assert put_EL.tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]


def test_the_score_comes_with_the_last_token_and_the_kl_with_each() -> None:
    """-0.1 (-1 + 1.5) = -0.05; -0.1 (-2 + 1) = 0.1, and the score 3; -0.1 (-0.5 + 0.25) = 0.025
    with the score -1. An episode that says nothing has nowhere to put its score."""
    rewards_EL = compute_token_rewards(
        torch.tensor([[-1.0, -2.0], [-0.5, 9.0], [9.0, 9.0]], requires_grad=True),
        torch.tensor([[-1.5, -1.0], [-0.25, 0.0], [0.0, 0.0]]),
        make_length_mask([2, 1, 0]),
        torch.tensor([3.0, -1.0, 7.0]),
        beta=0.1,
    )
    expected = torch.tensor([[-0.05, 3.1], [-0.975, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(rewards_EL, expected)
    assert not rewards_EL.requires_grad


def test_advantages_by_hand() -> None:
    """γ 0.9, λ 0.5. Rewards 1, 0, 2 and values 0.5, 1, 1.5.

    Last: 2 - 1.5 = 0.5. Middle: 0 + 0.9 · 1.5 - 1 = 0.35, and 0.45 · 0.5 = 0.225 more: 0.575.
    First: 1 + 0.9 · 1 - 0.5 = 1.4, and 0.45 · 0.575 = 0.25875 more: 1.65875.
    The second episode has one token: 3 - 2 = 1; its padding holds rubbish.
    """
    found_EL = compute_gae(
        torch.tensor([[1.0, 0.0, 2.0], [3.0, 50.0, 60.0]]),
        torch.tensor([[0.5, 1.0, 1.5], [2.0, 70.0, 80.0]]),
        make_length_mask([3, 1]),
        gamma=0.9,
        trace=0.5,
    )
    assert found_EL[0].tolist() == pytest.approx([1.65875, 0.575, 0.5])
    assert found_EL[1, 0].item() == 1.0


def test_advantages_that_count_actions_by_hand() -> None:
    """γ 0.9, λ 0.5 between actions of tokens 1, 2 and 3; within one, both are 1.

    Third: 2 - 1.5 = 0.5. Second, the same action: 0 + 1.5 - 1 = 0.5, and 0.5 more: 1. First, at the
    end of an action: 1 + 0.9 · 1 - 0.5 = 1.4, and 0.45 · 1 more: 1.85.
    """
    found_EL = compute_gae(
        torch.tensor([[1.0, 0.0, 2.0]]),
        torch.tensor([[0.5, 1.0, 1.5]]),
        make_length_mask([3]),
        gamma=0.9,
        trace=0.5,
        last_EL=torch.tensor([[True, False, True]]),
    )
    assert found_EL[0].tolist() == pytest.approx([1.85, 1.0, 0.5])


def slow_gae(
    rewards: Sequence[float],
    values: Sequence[float],
    lasts: Sequence[bool] | None,
    gamma: float,
    trace: float,
) -> list[float]:
    """Straight from the definition: discounted sums of the temporal differences ahead."""
    size = len(rewards)
    factors = [(gamma, trace) if lasts is None or lasts[at] else (1.0, 1.0) for at in range(size)]
    after = [*values[1:], 0.0]
    steps = [rewards[at] + factors[at][0] * after[at] - values[at] for at in range(size)]
    return [
        sum(
            steps[later] * math.prod(g * t for g, t in factors[at:later])
            for later in range(at, size)
        )
        for at in range(size)
    ]


@given(
    st.lists(
        st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
)
def test_advantages_are_those_of_a_plain_loop(
    episodes: list[list[tuple[float, float, bool]]], gamma: float, trace: float, actions: bool
) -> None:
    there_EL = make_length_mask([len(episode) for episode in episodes])
    every = [token for episode in episodes for token in episode]
    rewards_EL, values_EL = (
        scatter_by_mask(torch.tensor([token[at] for token in every], dtype=torch.float64), there_EL)
        for at in (0, 1)
    )
    last_EL = scatter_by_mask(torch.tensor([token[2] for token in every]), there_EL)
    found_EL = compute_gae(
        rewards_EL, values_EL, there_EL, gamma, trace, last_EL if actions else None
    )
    for number, episode in enumerate(episodes):
        rewards, values, lasts = zip(*episode, strict=True)
        expected = slow_gae(rewards, values, lasts if actions else None, gamma, trace)
        assert found_EL[number, : len(episode)].tolist() == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_without_discount_an_advantage_is_what_came_less_what_was_expected(
    tokens: list[tuple[float, float]],
) -> None:
    rewards, values = zip(*tokens, strict=True)
    found_EL = compute_gae(
        torch.tensor([rewards], dtype=torch.float64),
        torch.tensor([values], dtype=torch.float64),
        make_length_mask([len(tokens)]),
        trace=1.0,
    )
    expected = [sum(rewards[at:]) - values[at] for at in range(len(tokens))]
    assert found_EL[0].tolist() == pytest.approx(expected, abs=1e-9)


def test_whitening_by_hand() -> None:
    """Of 1, 2, 3, 6 (a fifth is padding): mean 3, biased variance (4 + 1 + 0 + 9) / 4 = 3.5."""
    values = torch.tensor([[1.0, 2.0, 99.0], [3.0, 6.0, 99.0]])
    there = torch.tensor([[True, True, False], [True, True, False]])
    white = whiten_values(values, there)
    expected = [[-2 / 3.5**0.5, -1 / 3.5**0.5, 0.0], [0.0, 3 / 3.5**0.5, 0.0]]
    torch.testing.assert_close(white, torch.tensor(expected))
    torch.testing.assert_close(whiten_values(values, there, shift=False)[there], white[there] + 3)


def test_whitening_takes_the_sums_of_all_processes() -> None:
    """Two processes with 1, 2 and 3, 6: `total` adds what the other one has."""
    everything = torch.tensor([1.0, 2.0, 3.0, 6.0])
    sums = iter([torch.tensor([4.0, 12.0]).double(), torch.tensor(14.0).double()])
    white = whiten_values(
        everything[:2], torch.ones(2, dtype=torch.bool), total=lambda _: next(sums)
    )
    torch.testing.assert_close(
        white, whiten_values(everything, torch.ones(4, dtype=torch.bool))[:2]
    )


@given(st.lists(numbers, min_size=2, max_size=20).filter(lambda found: max(found) - min(found) > 1))
def test_white_values_have_mean_0_and_variance_1(found: list[float]) -> None:
    white = whiten_values(torch.tensor(found).double(), torch.ones(len(found), dtype=torch.bool))
    assert white.mean().item() == pytest.approx(0, abs=1e-6)
    assert white.var(unbiased=False).item() == pytest.approx(1, abs=1e-4)


def test_leave_one_out_by_hand() -> None:
    """Of 1, 2, 6: 1 - 4, 2 - 3.5, 6 - 1.5. Of 5, 7: -2, 2. One alone has nothing beside it."""
    found = compute_rloo_advantages([1, 5, 2, 6, 7, 9], ["a", "b", "a", "a", "b", "c"])
    assert found == [-3.0, -2.0, -1.5, 4.5, 2.0, 0.0]


@given(st.lists(st.tuples(numbers, st.integers(0, 3)), max_size=12))
def test_what_is_left_out_sums_to_nothing_in_each_group(pairs: list[tuple[float, int]]) -> None:
    found = compute_rloo_advantages([score for score, _ in pairs], [group for _, group in pairs])
    for number in range(4):
        ours = [each for each, (_, group) in zip(found, pairs, strict=True) if group == number]
        assert sum(ours) == pytest.approx(0, abs=1e-5)


def test_the_policy_loss_by_hand() -> None:
    """Ratios 1.5 and 0.5, clipped to 1.2 and 0.8. Advantage 2: -3 becomes -2.4; -1 stays, since
    there is no gain to be held back. Advantage -2: 3 stays; 1 becomes 1.6."""
    new_BA = torch.tensor([[1.5, 0.5], [1.5, 0.5]]).log()
    advantages_BA = torch.tensor([[2.0, 2.0], [-2.0, -2.0]])
    losses_BA, clipped_BA = compute_policy_loss(new_BA, torch.zeros(2, 2), advantages_BA, 0.2)
    torch.testing.assert_close(losses_BA, torch.tensor([[-2.4, -1.0], [3.0, 1.6]]))
    assert clipped_BA.tolist() == [[True, False], [False, True]]
    free_BA, none_BA = compute_policy_loss(new_BA, torch.zeros(2, 2), advantages_BA, None)
    torch.testing.assert_close(free_BA, torch.tensor([[-3.0, -1.0], [3.0, 1.0]]))
    assert not none_BA.any()


def test_at_a_ratio_of_1_the_gradient_is_that_of_the_policy_gradient() -> None:
    new = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantages = torch.tensor([0.3, -1.2, 2.0])
    losses, _ = compute_policy_loss(new, new.detach(), advantages, 0.2)
    (gradient,) = torch.autograd.grad(losses.sum(), new)
    assert torch.equal(gradient, -advantages)


def test_the_value_loss_by_hand() -> None:
    """From 1 to 2 with the return 3: held back to 1.2, (1.2 - 3)² / 2 = 1.62 > 0.5. From 1 to 1.1:
    not held, (1.1 - 3)² / 2 = 1.805. From 1 to 5 with the return 1: 8, and held would be less."""
    values = torch.tensor([2.0, 1.1, 5.0])
    returns = torch.tensor([3.0, 3.0, 1.0])
    losses, held = compute_value_loss(values, torch.ones(3), returns, 0.2)
    torch.testing.assert_close(losses, torch.tensor([1.62, 1.805, 8.0]))
    assert held.tolist() == [True, False, False]
    torch.testing.assert_close(
        compute_value_loss(values, torch.ones(3), returns, None)[0], torch.tensor([0.5, 1.805, 8.0])
    )


def test_the_whole_kl_by_hand_and_with_ids_that_are_not_allowed() -> None:
    """¾ log (¾ / ½) + ¼ log (¼ / ½) = 0.1308, with a third id that neither may say."""
    chances = torch.tensor([[[0.75, 0.25, 0.0]]], requires_grad=True)
    kl_BA = compute_full_kl(chances.log(), torch.tensor([[[0.5, 0.5, 0.0]]]).log())
    assert kl_BA.item() == pytest.approx(0.1308, abs=1e-4)
    logits = torch.tensor([[[1.0, 2.0, -torch.inf]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(compute_full_kl(logits, logits.detach() * 2).sum(), logits)
    assert gradient.isfinite().all()
