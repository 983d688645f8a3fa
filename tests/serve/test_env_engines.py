"""The environment server played by openenv's own client and by verifiers' stock taskset, and the
agent loop played by verl's worker: the prompts and rewards of our own rollouts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT

sys.path.insert(0, str(Path(__file__).parent / "web"))
from env_serving import SCRIPTS, TRAIN, roll_out, serving

pytestmark = [pytest.mark.slow, pytest.mark.program]
HERE = Path(__file__).parent
PLAYED = (("right", 0), ("cites what is not quoted", 2), ("nothing quoted", 1))
"""scripts, and the tasks that they are said to"""


def run_engine(script: str, *arguments: str, said: Any = None) -> Any:
    """The last line that a script of tests/serve prints in the engines' environment, as JSON."""
    python = Path(ROOT) / ".venv" / "engines" / "bin" / "python"
    if not python.exists() and "CI" not in os.environ:
        pytest.skip("needs .venv/engines: make .venv/engines/ready")
    made = subprocess.run(
        [python, HERE / script, *arguments],
        env={**os.environ, "PYTHONPATH": ROOT},
        input=json.dumps(said),
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    return json.loads(made.stdout.splitlines()[-1])


def list_episodes() -> list[dict[str, Any]]:
    return [
        {
            "split": "train",
            "index": index,
            "question": TRAIN[index].text,
            "commands": SCRIPTS[name][0],
        }
        for name, index in PLAYED
    ]


def roll_out_same() -> list[dict[str, Any]]:
    """The prompts of our own rollouts, and the rewards that they are worth."""
    found = []
    for name, index in PLAYED:
        commands, reward, _ = SCRIPTS[name]
        rolled = roll_out(commands, TRAIN[index])
        found.append({"prompts": [step.prompt for step in rolled.steps], "reward": reward})
    return found


@pytest.mark.parametrize("engine", ["openenv", "verifiers"])
def test_an_engine_plays_the_episodes_of_rollouts(tmp_path: Path, engine: str) -> None:
    with serving(tmp_path) as (address, _):
        played = run_engine("engine_clients.py", engine, address, said=list_episodes())
    assert played == roll_out_same()


def test_openenv_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _):
        (report,) = run_engine("engine_clients.py", "validate", address, said=[])
    assert report["passed"], report
    assert report["summary"]["failed_criteria"] == []
