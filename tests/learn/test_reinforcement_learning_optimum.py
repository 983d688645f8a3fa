"""Training against what is best in truth, which is known where everything can be listed.

All seeds of all recipes in both worlds are run by `python -m bench.optimum`; here are five seeds of
PPO in one, and two of the others.
"""

from pathlib import Path
from statistics import fmean

import pytest
import torch
from enumerable import (
    END,
    Browsing,
    Listing,
    Reached,
    Recipe,
    Rule,
    a2c_like_ppo,
    trial,
    write_listed,
)
from hypothesis import given
from hypothesis import strategies as st
from plain import plain_logprobs
from transformers import AutoModelForCausalLM

from rookery.learn.action_batches import ActionRow, collate_rows
from rookery.learn.policy_gradient import make_ppo_settings, make_rloo_settings


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_listed(tmp_path_factory.mktemp("listed") / "model", 3)


def test_what_is_listed_has_the_log_probabilities_of_training(model: str) -> None:
    policy = AutoModelForCausalLM.from_pretrained(model)
    rule = Rule(3)
    found_PN = rule.listing(policy).reference_PN
    assert found_PN.shape == (8, 7381)
    some = [0, 1, 9, 10, 90, 91, 819, 820, 7380]
    rows = [ActionRow(prompt, rule.said[at]) for prompt in rule.prompts for at in some]
    batch = collate_rows(rows, END)
    with torch.no_grad():
        said = torch.split(
            plain_logprobs(policy, batch).double(), [len(row.action) for row in rows]
        )
    read_P = torch.stack([each.sum() for each in said])
    torch.testing.assert_close(found_PN[:, some].flatten(), read_P, atol=1e-5, rtol=0)


def test_what_is_listed_of_two_steps_has_the_log_probabilities_of_training(model: str) -> None:
    """With the mask that the row brings along."""
    policy, world = AutoModelForCausalLM.from_pretrained(model), Browsing(3)
    found_PN = world.listing(policy).reference_PN
    assert found_PN.shape == (8, 4 * (3 + 6 + 6))
    for question, at in ((0, 0), (5, 20), (7, 59)):
        page, chosen = world.said[at]
        quotes = world.quotes(question, page)
        said = [*(world.shown[question, page][one] for one in chosen), END]
        allowed = [torch.tensor(quotes(said[:n])).int().numpy() for n in range(len(said))]
        opens = [torch.tensor(world.opens([0] * n)).int().numpy() for n in range(2)]
        rows = [
            ActionRow(world.first(question), [page, END], opens),
            ActionRow(world.second(question, page), said, allowed),
        ]
        batch = collate_rows(rows, END)
        with torch.no_grad():
            read = plain_logprobs(policy, batch).sum().item()
        assert found_PN[question, at].item() == pytest.approx(read, abs=1e-5)


def two_ways(rewards: list[float]) -> Listing:
    """One context, and two things to say that the reference says alike often."""
    half = torch.full((1, 2), 0.5).log()
    return Listing(torch.tensor([rewards]), lambda model: model.chances, _Says(half))


class _Says:
    def __init__(self, chances: torch.Tensor) -> None:
        self.chances = chances

    def eval(self) -> "_Says":
        return self


def test_the_best_by_hand() -> None:
    """0.2 log (½ e^0 + ½ e^5) = 0.2 · 4.3136 = 0.8627, by saying the better one with 0.9933."""
    listing = two_ways([0.0, 1.0])
    assert listing.best() == pytest.approx(0.8627, abs=1e-4)
    best = _Says(torch.tensor([[0.0, 5.0]]).log_softmax(-1))
    assert listing.gap(best) == pytest.approx(0, abs=1e-6)
    reached = listing.reached(best)
    assert reached.reward == pytest.approx(0.9933, abs=1e-4)
    assert reached.kl == pytest.approx(0.6931 - 0.0402, abs=1e-4)
    assert listing.below_the_frontier(reached)
    assert not listing.below_the_frontier(Reached(reached.reward + 0.01, reached.kl))


@given(st.floats(-6, 6), st.floats(-2, 2), st.floats(-2, 2))
def test_nothing_lies_above_the_frontier(leaning: float, first: float, second: float) -> None:
    listing = two_ways([first, second])
    policy = _Says(torch.tensor([[0.0, leaning]], dtype=torch.float64).log_softmax(-1))
    assert listing.below_the_frontier(listing.reached(policy))
    assert listing.gap(policy) >= -1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "world", "seeds", "most"),
    [
        (make_ppo_settings, Rule, 5, 0.12),
        (a2c_like_ppo, Rule, 2, 0.20),
        (make_rloo_settings, Rule, 2, 0.20),
        (make_ppo_settings, Browsing, 2, 0.12),
    ],
)
def test_training_comes_near_the_best_and_never_above(
    tmp_path: Path, recipe: Recipe, world: type[Rule] | type[Browsing], seeds: int, most: float
) -> None:
    trials = [trial(recipe, world(seed), seed, tmp_path / f"{seed}") for seed in range(seeds)]
    assert fmean(each.start for each in trials) > 1
    assert fmean(each.gap for each in trials) <= most
    assert all(each.gap > 0 and each.below for each in trials)
    assert [each.faults for each in trials] == [()] * seeds
