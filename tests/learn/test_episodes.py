"""Episodes of one step, and long actions in parts."""

import numpy as np

from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction
from rookery.learn.episodes import split_long_actions


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
