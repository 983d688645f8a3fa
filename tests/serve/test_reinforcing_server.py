"""`rookery learn reinforce` with a server that samples, as the command line reads it."""

from pathlib import Path
from typing import Any

import pytest

from rookery.draft.config import parse_settings
from rookery.records import Failed
from rookery.serve.cli.reinforce_command import ReinforceFile


def table(kind: str) -> dict[str, Any]:
    settings = {"policy": {"model": "m"}, "steps": 1, "server": "http://127.0.0.1:8000"}
    return {"world": {"kind": kind, "questions": "q", "reward": "r"}, "settings": settings}


def test_a_server_cannot_be_held_to_a_page() -> None:
    """Before anything is loaded or played."""
    found = parse_settings(table("references"), ReinforceFile, Path("here.toml"))
    assert found.settings.server == "http://127.0.0.1:8000"
    with pytest.raises(Failed, match=r"here.toml: bad_config: .*leave settings.server empty"):
        parse_settings(table("quotes"), ReinforceFile, Path("here.toml"))
