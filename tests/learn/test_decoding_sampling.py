"""Tokens drawn by given chances."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rookery.errors import Failed
from rookery.learn.decoding import SamplingSettings, draw_tokens, sample_actions

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


class Fixed(torch.nn.Module):
    """Always the same logits."""

    def __init__(self, logits_V: torch.Tensor = SHARES.log()[0]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(logits_V)

    def forward(self, input_ids: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.weight.expand(len(input_ids), 1, -1).clone())


@pytest.mark.parametrize(
    ("logits", "allowed"), [([math.nan, 1.0], [0, 1]), ([-math.inf, 1.0], [0]), ([0.0, 1.0], [])]
)
@pytest.mark.parametrize("top_p", [None, 0.5])
def test_a_policy_without_a_distribution_is_refused_with_a_sentence(
    logits: list[float], allowed: list[int], top_p: float | None
) -> None:
    policy, how = Fixed(torch.tensor(logits)), SamplingSettings(max_tokens=2, top_p=top_p)
    with pytest.raises(Failed, match=r"not_a_number: .* go on from an earlier checkpoint"):
        sample_actions(policy, [[1]], [0], frozenset(), how, [lambda _: allowed])


def test_a_policy_is_sampled_by_top_p_and_the_tokens_left_are_recorded() -> None:
    how = SamplingSettings(max_tokens=2, top_p=0.51)
    found = sample_actions(Fixed(), [[1]] * 40, range(40), frozenset(), how)
    drawn = {token for one in found for token in one.row.action}
    assert drawn == {0, 2}
    for one in found:
        assert one.row.allowed is not None
        assert [ids.tolist() for ids in one.row.allowed] == [[0, 2]] * 2
        shares = [{0: 5 / 8, 2: 3 / 8}[token] for token in one.row.action]
        assert one.logprobs == pytest.approx([math.log(share) for share in shares])
    likeliest = sample_actions(
        Fixed(),
        [[1]],
        [0],
        frozenset(),
        SamplingSettings(max_tokens=2, top_p=0.51, temperature=0),
    )
    assert (likeliest[0].row.action, likeliest[0].row.allowed) == ([0, 0], None)


@pytest.mark.parametrize(
    "row", [[math.nan, 1.0], [1.0, math.nan], [1.0, math.inf], [-math.inf] * 2]
)
def test_what_is_no_distribution_is_refused(row: list[float]) -> None:
    with pytest.raises(FloatingPointError):
        draw_tokens(torch.tensor([row]), [0.5])


def test_equal_contexts_are_read_once_and_each_says_what_it_says_alone() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config).train(False)
    contexts = [[5, 6, 7], [9], [5, 6, 7], [5, 6, 8], [5, 6, 7]]
    how = SamplingSettings(max_tokens=6)
    ends = frozenset({1, 2, 3})
    alone = [
        sample_actions(model, [context], [number], ends, how)[0]
        for number, context in enumerate(contexts)
    ]
    rows_read = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: rows_read.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    together = sample_actions(model, contexts, range(5), ends, how)
    assert rows_read[0] == 3
    assert [list(each.row.action) for each in together] == [list(each.row.action) for each in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
