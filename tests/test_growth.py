"""The measure of growth tells linear work from quadratic work."""

import pytest
from growth import AT_MOST, growth_of


@pytest.mark.slow
def test_linear_work_is_below_and_quadratic_work_above() -> None:
    assert growth_of(lambda size: sum(range(size)), 1_000) < AT_MOST
    assert growth_of(lambda size: sum(sum(range(size)) for _ in range(size)), 50) > AT_MOST
