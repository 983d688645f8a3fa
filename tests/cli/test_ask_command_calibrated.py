"""`--decline` for a model's answers: refused without labels, kept as a promise with them."""

import json
from pathlib import Path

import pytest
from commands import Run
from models import serving
from test_calibrate_command import FEEDS, says, written

from rookery.records import Question

WHO = "Who do crows bring gifts to?"
GOLD = ("people who feed them",)


@pytest.mark.slow
def test_labels_make_a_promise_of_decline(run: Run, tmp_path: Path) -> None:
    """29 labels that are all good show 90 %, and no more."""
    asked = [Question(f"{n}", f"{WHO[:-1]}, {n}?", gold=GOLD) for n in range(29)]
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "crows.txt").write_text(FEEDS)
    pages = ("--in", tmp_path / "pages")
    with serving(says) as server:
        by = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        before = run("ask", WHO, *pages, *by, "--decline", "0.9")
        assert (before.code, "rookery calibrate ANSWERS.jsonl" in before.err) == (2, True)
        files = ("--batch", written(tmp_path / "q", asked), "--out", tmp_path / "a")
        assert run("ask", *files, *pages, *by).code == 0
        assert run("calibrate", tmp_path / "a", *by).code == 0
        assert run("calibrate", tmp_path / "a", *by, "--decline", "0.95").code == 3
        assert run("ask", WHO, *pages, *by, "--decline", "0.9").code == 0
        declined = run("ask", WHO, *pages, *by, "--decline", "0.95", "--json")
    assert (declined.code, json.loads(declined.out)["answer"]["declined"]) == (3, True)
    assert "every answer will be declined" in declined.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no.jsonl",), "no.jsonl: No such file"),
        (("no.jsonl", "--method", "extract"), "name the answers' --method"),
        (("q.jsonl",), "line 1: this is not an answer"),
    ],
)
def test_wrong_use_is_a_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text("{}\n")
    by = ("--method", "webglm", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    result = run("calibrate", *by, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
