"""The environment server played by openenv's own client and by verifiers' stock taskset, and the
agent loop played by verl's worker: the prompts and rewards of our own rollouts."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT
from env_serving import SCRIPTS, TRAIN, roll_out, serving

pytestmark = [pytest.mark.slow, pytest.mark.program]
HELPERS = Path(__file__).parent.parent / "helpers"
PLAYED = (("right", 0), ("cites what is not quoted", 2), ("nothing quoted", 1))
"""scripts, and the tasks that they are said to"""


def run_python(script: Path, *arguments: str, payload: Any = None) -> str:
    """What a script prints in the engines' environment, beside its own folder."""
    python = Path(ROOT) / ".venv" / "engines" / "bin" / "python"
    if not python.exists() and "CI" not in os.environ:
        pytest.skip("needs .venv/engines: make .venv/engines/ready")
    process = subprocess.run(
        [python, script, *arguments],
        env={**os.environ, "PYTHONPATH": ROOT},
        cwd=script.parent,
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


def run_engine(script: str, *arguments: str, payload: Any = None) -> Any:
    """The last line that a script of this folder prints in the engines' environment, as JSON."""
    return json.loads(run_python(HELPERS / script, *arguments, payload=payload).splitlines()[-1])


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
        played = run_engine("engine_clients.py", engine, address, payload=list_episodes())
    assert played == roll_out_same()


def read_manual(page: str, title: str) -> str:
    """A file that a page of the manual shows."""
    text = (Path(ROOT) / "docs" / "howto" / page).read_text("utf-8")
    return str(re.findall(rf'title="{title}"\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)[0])


def test_verl_gets_a_row_a_turn(tmp_path: Path) -> None:
    (tmp_path / "loops.yaml").write_text(read_manual("verl.md", "loops.yaml"))
    played = run_engine("engine_verl.py", str(tmp_path / "loops.yaml"), payload=list_episodes())
    for each, expected, episode in zip(played, roll_out_same(), list_episodes(), strict=True):
        assert each["prompts"] == expected["prompts"]
        assert each["said"] == list(episode["commands"])
        assert each["rewards"] == [expected["reward"]] * len(episode["commands"])


def test_the_script_of_the_manual_plays_openenv(tmp_path: Path) -> None:
    script = read_manual("openenv.md", "play.py").replace("corvids", "train")
    with serving(tmp_path) as (address, _):
        (tmp_path / "play.py").write_text(script.replace("http://127.0.0.1:8500", address))
        printed = run_python(tmp_path / "play.py")
    assert printed.endswith("0.0 True nonsense\n")


def test_openenv_calls_tools(tmp_path: Path) -> None:
    script = read_manual("openenv.md", "tools.py").replace("corvids", "train")
    with serving(tmp_path) as (address, _):
        (tmp_path / "tools.py").write_text(script.replace("http://127.0.0.1:8500", address))
        printed = run_python(tmp_path / "tools.py")
    assert printed.startswith("['Search crows gifts', 'Clicked on link 0']\n")
    assert "not finished, as nothing is quoted yet" in printed


def test_verifiers_reads_the_configuration_of_the_manual(tmp_path: Path) -> None:
    (tmp_path / "rookery.toml").write_text(read_manual("verifiers.md", "rookery.toml"))
    code = "import sys; from verifiers.v1.cli.eval.main import main; main(sys.argv[1:])"
    (tmp_path / "read.py").write_text(code)
    run_python(tmp_path / "read.py", "@", "rookery.toml", "--dry-run")


def test_openenv_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _):
        (report,) = run_engine("engine_clients.py", "validate", address, payload=[])
    assert report["passed"], report
    assert report["summary"]["failed_criteria"] == []
