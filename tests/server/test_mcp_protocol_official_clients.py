"""The official clients of MCP, an old and a new version, in the full conversation with ours."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import CORVIDS, ROOT, Run, surroundings
from mcp_serving import at_work

from rookery.desk.store import Store, initialize_store
from rookery.records import Answer, Claim, Quote

CLIENT = Path(__file__).parent.parent / "helpers" / "mcp_client.py"
VERSIONS = {
    ("mcp1", "1"): "2025-11-25",
    ("mcp2", "legacy"): "2025-11-25",
    ("mcp2", "auto"): "2026-07-28",
}
"""the revision that each client comes to speak with us"""


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    """Where /mcp is served."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(home).items():
            patch.setenv(name, value)
        place = str(home / "store.sqlite")
        initialize_store(place)
        with Store(place) as store, at_work(store) as base:
            yield f"{base}/mcp"


@pytest.mark.slow
@pytest.mark.program
@pytest.mark.parametrize("carried", ["stdio", "http"])
@pytest.mark.parametrize(("folder", "mode"), VERSIONS)
def test_the_official_client_holds_the_full_conversation(
    home: Path, address: str, folder: str, mode: str, carried: str, run: Run, tmp_path: Path
) -> None:
    python = Path(ROOT) / ".venv" / folder / "bin" / "python"
    if not python.exists() and "CI" not in os.environ:
        pytest.skip(f"needs .venv/{folder} with the package mcp, as in CI")
    ours = (sys.executable, "-m", "rookery", "serve", "mcp", *CORVIDS)
    where = (address,) if carried == "http" else ours
    made = subprocess.run(
        [python, CLIENT, mode, *where],
        env={**os.environ, **surroundings(home), "PYTHONPATH": ROOT * (carried == "stdio")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    said: dict[str, Any] = json.loads(made.stdout)
    assert said["version"] == VERSIONS[folder, mode]
    check(said, run, tmp_path)


def check(reply: dict[str, Any], run: Run, folder: Path) -> None:
    """What every conversation must have come to."""
    assert [tool["name"] for tool in reply["tools"]][:4] == ["search", "open", "find", "quote"]
    assert reply["wrong"]["isError"]
    calls = {name: each for name, each in reply.items() if isinstance(each, dict)}
    assert [name for name, each in calls.items() if each["isError"]] == ["wrong"]
    gave: dict[str, Any] = {name: each.get("structuredContent") for name, each in calls.items()}
    results = gave["search"]["results"]
    for name in ("search", "fetch"):  # as ChatGPT's connectors read them
        assert json.loads(calls[name]["content"][0]["text"]) == gave[name]
    assert gave["fetch"]["id"] == results[0]["id"]
    assert "A gift needs a giver" in gave["fetch"]["text"]
    assert gave["open"]["url"] != gave["open again"]["url"]
    assert gave["quote"]["quote"]["url"] == gave["find"]["url"] == gave["open"]["url"]
    assert gave["quote again"]["quote"]["digest"] == gave["open again"]["digest"]
    for name in ("verify", "verify markdown"):
        assert gave[name]["verified"] == gave[name]["total"] > 0
    assert gave["answer"]["verified"] == gave["answer"]["quotes"] > 0
    quotes = tuple(Quote(**gave[name]["quote"]) for name in ("quote", "quote again"))
    answer = Answer("Gifts.", quotes, (Claim(0, 6, (0, 1)),))
    (folder / "answer.json").write_text(answer.to_json())
    assert run("cite", "verify", folder / "answer.json").code == 0
