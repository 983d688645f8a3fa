"""What is wrong with a run, in a sentence."""

import pytest

from rookery.learn.training_run import diagnose_training

GOOD = {
    "reward": 1.0,
    "reward_spread": 1.0,
    "answered": 1.0,
    "kl": 2.0,
    "mismatch": 1e-6,
    "entropy": 1.5,
    "clipped": 0.02,
    "explained": 0.6,
}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kl": -0.8}, "negative (-0.80 nats an episode)"),
        ({"mismatch": 0.4}, "the ratio is not 1 in the first epoch"),
        ({"entropy": 0.01}, "the entropy fell from 1.50 to 0.010"),
        ({"clipped": 0.5}, "50% of the tokens are clipped"),
        ({"explained": -0.3}, "the values explain nothing"),
        ({"answered": 0.0, "reward_spread": 0.0}, "no episode of the last 5 batches has an answer"),
        ({"reward_spread": 0.0}, "the same reward"),
        ({"target": 0.5}, "far above its target (0.5)"),
    ],
)
def test_each_fault_has_its_sentence(fault: dict[str, float], words: str) -> None:
    assert diagnose_training([GOOD] * 30) == []
    (said,) = diagnose_training([GOOD] * 10 + [{**GOOD, **fault}] * 20)
    assert words in said


def test_nothing_is_said_of_nothing() -> None:
    assert diagnose_training([]) == []
