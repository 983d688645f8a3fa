"""Models compute in float32 in these tests, whatever is fastest on this processor."""

import sys

import pytest


@pytest.fixture(autouse=True)
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared with other computations to the last digits is not rounded to bfloat16."""
    if module := sys.modules.get("rookery.learn.local_model"):
        monkeypatch.setattr(module, "choose_precision", lambda device: "float32")
