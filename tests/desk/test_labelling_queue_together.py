"""Twelve people in two tabs each and four processes: the desk as one of many sees it."""

from collections.abc import Callable

import pytest
from crowd import by_counting, by_slots, run

RUNS = 3
"""of each database; `python -m bench desk` makes twenty"""


@pytest.mark.slow
def test_together_they_fill_every_place_once(kind: str, fresh: Callable[[str], str]) -> None:
    seen = [run(fresh(kind), by_slots, seed) for seed in range(RUNS)]
    assert [(one.over, one.doubled, one.unfilled) for one in seen] == [(0, 0, 0)] * RUNS
    assert sum(one.abandoned for one in seen) > 0  # or this would show little


@pytest.mark.program
def test_to_look_and_then_write_goes_wrong(fresh: Callable[[str], str]) -> None:
    seen = run(fresh("postgresql"), by_counting, 0)
    assert seen.over > 0
    assert seen.doubled > 0
