"""Figures: what they hold together, and that nothing is lost on the way through a file."""

import pytest
from figures import BARS, figures, line
from hypothesis import given
from msgspec.structs import replace

from rookery.measure.figures import Figure, FigureLine


@given(figures())
def test_a_figure_survives_its_json(figure: Figure) -> None:
    assert Figure.from_json(figure.to_json()) == figure


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="a-figure: every row needs 2 cells"):
        replace(BARS, rows=(("ours", 0.5), ("theirs",)))


def test_a_line_has_no_interval_or_one_for_each_point() -> None:
    with pytest.raises(ValueError, match="ours: 2 points, 1 intervals"):
        FigureLine("ours", ((0.0, 1.0), (1.0, 2.0)), (0.5,), (1.5, 2.5))
    assert line("ours", 1.0, 2.0).low == ()
