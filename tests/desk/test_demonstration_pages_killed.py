"""A server that is killed with `kill -9` in the middle of demonstrations loses nothing."""

from pathlib import Path

import msgspec
import pytest
from commands import surroundings
from demonstrating import desk
from killing import SCRIPT, killed

KILLS = 15


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_any_kill(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)
    with desk(empty_store, tmp_path) as here:
        count = killed(here, tmp_path, KILLS)
    assert count.kills >= KILLS
    assert count.acknowledged > 10 * len(count.episodes)
    assert (count.lost, count.other) == (0, 0)
    first = count.episodes[0]
    assert [step.said.text for step in first.steps] == [
        "Search crows gifts", "Clicked on link 0", "Quote: A gift needs a giver",
        "Scrolled down 1", "Scrolled up 1", "Search jays", "Clicked on link 0",
        "Quote: Jays bury acorns in September.", "Back", "End: Answer", SCRIPT[-1]["answer"],
    ]  # fmt: skip
    same = [
        msgspec.structs.replace(each, question=first.question).answer for each in count.episodes
    ]
    assert set(same) == {first.answer}
    assert {tuple(step.said.text for step in each.steps) for each in count.episodes} == {
        tuple(step.said.text for step in first.steps)
    }
