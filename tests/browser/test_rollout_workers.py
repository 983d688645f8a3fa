"""Rollouts by several processes, on one machine or on a cluster: the episodes of one process."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rookery.browser.browser_commands import BrowserTask
from rookery.browser.rollout import (
    RolloutLimits,
    RolloutResources,
    RolloutTurn,
    replay_episode,
    run_rollouts,
    run_rollouts_in_workers,
)
from rookery.library.call_recording import CallRecording
from rookery.library.libraries import get_bundled_folder
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Completion, Question

TASKS = [BrowserTask(Question(f"q{number}", f"Do crows play {number}?")) for number in range(24)]
SAID = ["Search crows play", "Clicked on link 0", "Scrolled down 1", "Quote: crows", "Back"]
SHARE, KILLED = 3, 16


def make_resources(folder: Path, killed: bool = False) -> RolloutResources:
    """Pages, a policy that draws by the turn's seed, and a recording for all processes.

    Each task that a process begins is noted; with `killed`, the first that begins task 16 dies.
    """
    files = sorted(get_bundled_folder().glob("*.html"))[:4]
    pages = [read_page(file.read_bytes(), f"https://crows.example/{file.name}") for file in files]

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        for turn in turns:
            if turn.number == 0:
                (folder / f"{turn.session}-{os.getpid()}").touch()
            if killed and turn.session == KILLED and not (folder / "killed").exists():
                (folder / "killed").write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
        return [
            Completion("End: Answer" if turn.number > 5 else Random(turn.seed).choice(SAID))
            for turn in turns
        ]

    return RolloutResources(InMemoryLibrary(pages), act, CallRecording(folder / "recording"))


def run_alone(folder: Path) -> list[str]:
    """What one process gives."""
    folder.mkdir()
    library, act, recording = make_resources(folder)
    assert recording is not None
    with recording:
        return [
            each.to_json()
            for each in run_rollouts(TASKS, library, act, "p", 3, recording=recording)
        ]


def check_workers(
    folder: Path, expected: Sequence[str], killed: bool, ray: str = ""
) -> list[tuple[int, str]]:
    """Runs the tasks by two workers, and returns which tasks were begun by which process."""
    outcomes = run_rollouts_in_workers(
        TASKS, partial(make_resources, folder, killed), "p", 3, RolloutLimits(), 2, ray, SHARE
    )
    episodes = list(outcomes)
    assert [each.to_json() for each in episodes] == expected
    with CallRecording(folder / "recording") as recording:
        assert sorted(recording.list_sessions()) == sorted(f"p/3/{n}" for n in range(len(TASKS)))
        assert replay_episode(episodes[-1], recording) == episodes[-1]
    noted = [path.name.partition("-") for path in folder.iterdir() if path.name[0].isdigit()]
    return [(int(task), process) for task, _, process in noted]


def check_done_once(folder: Path, begun: Sequence[tuple[int, str]]) -> None:
    """Of what the killed process began, only its last share was begun again by another."""
    process, lost = (folder / "killed").read_text(), range(KILLED // SHARE * SHARE, len(TASKS))
    done = [task for task, by in begun if by == process and task not in lost[:SHARE]]
    assert [task for task, by in begun if by != process and task in done] == []
    assert {task for task, by in begun if by != process} >= set(lost[:SHARE])


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_processes_give_the_episodes_of_one(tmp_path: Path, killed: bool) -> None:
    expected = run_alone(tmp_path / "alone")
    (tmp_path / "together").mkdir()
    begun = check_workers(tmp_path / "together", expected, killed)
    assert str(os.getpid()) not in {process for _, process in begun}
    if killed:
        check_done_once(tmp_path / "together", begun)
    else:
        assert sorted(task for task, _ in begun) == list(range(len(TASKS)))


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_machines_of_a_cluster_give_the_episodes_of_one(tmp_path: Path, cluster: Any) -> None:
    ray = pytest.importorskip("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests
    expected = run_alone(tmp_path / "alone")
    (tmp_path / "together").mkdir()
    begun = check_workers(tmp_path / "together", expected, True, cluster.address)
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    check_done_once(tmp_path / "together", begun)
