"""Tokens drawn by given chances."""

import math

import pytest
import torch

from rookery.learn.decoding import draw_tokens

SHARES = torch.tensor([[0.5, 0.0, 0.3, 0.2]])


def test_each_token_has_its_share_of_the_line_from_0_to_1() -> None:
    chances = [0.0, 0.49, 0.51, 0.79, 0.81, 1 - 2**-53]
    tokens, logprobs = draw_tokens(SHARES.log().expand(6, -1), chances)
    assert tokens == [0, 0, 2, 2, 3, 3]
    assert logprobs == pytest.approx([math.log(p) for p in (0.5, 0.5, 0.3, 0.3, 0.2, 0.2)])


def test_a_temperature_sharpens_and_0_takes_the_likeliest() -> None:
    tokens, logprobs = draw_tokens(SHARES.log().expand(2, -1), [0.64, 0.67], temperature=0.5)
    assert tokens == [0, 2]  # 25, 9 and 4 parts of 38
    assert logprobs == pytest.approx([math.log(25 / 38), math.log(9 / 38)])
    tokens, logprobs = draw_tokens(SHARES.log(), [0.99], temperature=0)
    assert tokens == [0]
    assert logprobs == pytest.approx([math.log(0.5)])


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.01, [0.5]), (0.49, [0.5]), (0.51, [0.5, 0.3]), (0.81, [0.5, 0.3, 0.2])]
)
def test_top_p_keeps_the_fewest_tokens_that_have_it(top_p: float, kept: list[float]) -> None:
    tokens, logprobs = draw_tokens(
        SHARES.log().expand(100, -1), [n / 100 for n in range(100)], 1.0, top_p
    )
    whole = sum(kept)
    assert {round(math.exp(each) * whole, 4) for each in logprobs} == set(kept)
    assert len(set(tokens)) == len(kept)


@pytest.mark.parametrize(
    "row", [[math.nan, 1.0], [1.0, math.nan], [1.0, math.inf], [-math.inf] * 2]
)
def test_what_is_no_distribution_is_refused(row: list[float]) -> None:
    with pytest.raises(FloatingPointError):
        draw_tokens(torch.tensor([row]), [0.5])
