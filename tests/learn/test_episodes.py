"""Episodes of one step, and long actions in parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction
from rookery.learn.episodes import PromptEnvironment, split_long_actions


def test_long_actions_become_rows_with_longer_contexts() -> None:
    sets = [np.array([number], np.int32) for number in range(5)]
    said = SampledAction(
        ActionRow([7, 8], [0, 1, 2, 3, 4], sets), [-0.1, -0.2, -0.3, -0.4, -0.5], True
    )
    first, second, third = split_long_actions([said], 2)
    assert first == SampledAction(ActionRow([7, 8], [0, 1], sets[:2]), [-0.1, -0.2], False)
    assert second == SampledAction(ActionRow([7, 8, 0, 1], [2, 3], sets[2:4]), [-0.3, -0.4], False)
    assert third == SampledAction(ActionRow([7, 8, 0, 1, 2, 3], [4], sets[4:]), [-0.5], True)
    assert split_long_actions([said], None) == [said]
    assert [one.row.action for one in split_long_actions([said], 5)] == [said.row.action]


def test_prompts_come_equally_often_in_an_order_of_the_seed() -> None:
    world = PromptEnvironment(
        [[n] for n in range(1, 6)], lambda numbers, _: [1.0] * len(numbers), group=2
    )

    def echo(
        contexts: Sequence[Sequence[int]], seeds: Sequence[str], allow: Any = None
    ) -> list[SampledAction]:
        return [SampledAction(ActionRow(context, [0]), [0.0], True) for context in contexts]

    def list_prompts(episodes: Sequence[int], seed: int) -> list[int]:
        return [one.rows[0].row.context[0] for one in world.play_episodes(echo, episodes, seed)]

    first = list_prompts(range(10), 1)
    assert sorted(first) == sorted([1, 2, 3, 4, 5] * 2)
    assert first[::2] == first[1::2]
    assert first != list_prompts(range(10, 20), 1)
    assert first != list_prompts(range(10), 2)
    assert list_prompts(range(1, 20, 2), 1) == list_prompts(range(20), 1)[1::2]


def test_a_world_without_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="there must be a context"):
        PromptEnvironment([], lambda numbers, _: [1.0] * len(numbers))
