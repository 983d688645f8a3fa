"""Worked by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.learn.policy_gradient import KlController


def test_beta_follows_the_kl_as_worked_by_hand() -> None:
    """Target 6. A KL of 6.6 is 10 % above: β grows by 0.1 · 0.1 to 0.2 · 1.01. One of 12 is 100 %
    above, and counts as 20 %: · 1.02. One of 0 counts as 20 % below: · 0.98."""
    controller = KlController(0.2, target=6.0)
    seen = []
    for kl in (6.6, 12.0, 0.0, 6.0):
        controller.update_beta(kl)
        seen.append(controller.beta)
    expected = [0.202, 0.202 * 1.02, 0.202 * 1.02 * 0.98, 0.202 * 1.02 * 0.98]
    assert seen == pytest.approx(expected, abs=1e-12)


def test_the_gain_of_the_code_is_half_that_of_the_paper() -> None:
    """512 episodes, horizon 10,000: · (1 + 0.2 · 512 / 10,000)."""
    controller = KlController(0.15, target=6.0, gain=512 / 10_000)
    controller.update_beta(60.0)
    assert controller.beta == pytest.approx(0.15 * 1.01024)


def test_without_a_target_beta_stays() -> None:
    controller = KlController(0.02)
    controller.update_beta(100.0)
    assert controller.beta == 0.02


@given(st.floats(0.001, 1), st.lists(st.floats(-10, 100), max_size=20))
def test_beta_is_positive_moves_the_right_way_and_never_far(beta: float, kls: list[float]) -> None:
    controller = KlController(beta, target=5.0)
    for kl in kls:
        before = controller.beta
        controller.update_beta(kl)
        assert 0.98 * before <= controller.beta * (1 + 1e-12)
        assert controller.beta <= 1.02 * before * (1 + 1e-12)
        assert (controller.beta > before) == (kl > 5.0) or controller.beta == before


def test_it_is_kept_to_the_last_bit(tmp_path: Path) -> None:
    controller = KlController(0.1, target=6.0)
    for kl in (1.0, 7.3, 6.1, 5.7):
        controller.update_beta(kl)
    controller.save(tmp_path)
    again = KlController(0.1, target=6.0)
    again.load(tmp_path)
    assert again.beta == controller.beta
