"""`rookery ask` by a model: three methods over a real server, and one that misbehaves."""

import json
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run
from models import chat, refused, said, serving

WORDS = "because they have learned that a particular person feeds them"
QUOTE = f"Crows most likely bring gifts to people {WORDS}"
TITLE = "Why crows bring gifts | Tidings"


def says(*texts: str) -> list[bytes]:
    return [said(chat(text)) for text in texts]


def asked(run: Run, method: str, base_url: str, *more: str) -> tuple[int, dict[str, object]]:
    """The exit code and the object that --json prints."""
    by_model = ("--method", method, "--model", "tiny", "--base-url", base_url)
    result = run("ask", GIFTS, *CORVIDS, "--json", *by_model, *more)
    return result.code, json.loads(result.out)


METHODS = {
    "webglm": [f"They do it {WORDS} [1][2]."],
    "gophercite": [f"%<They know who feeds them.>%({TITLE})%[{QUOTE}]%"],
    "webgpt": [
        "Search why crows bring gifts",
        f"I open it.\n\nClicked on link 0\n\n({TITLE})",
        f"Quote: {QUOTE}",
        "End: Answer",
        "They know who feeds them [1].",
    ],
}


@pytest.mark.parametrize("method", METHODS)
def test_each_method_answers_with_verified_quotes(run: Run, method: str) -> None:
    with serving(*says(*METHODS[method])) as server:
        code, found = asked(run, method, server.base_url)
    assert (code, found["stop"], found["method"]) == (0, "end", method)
    assert found["counts"]["verified"] == found["counts"]["quotes"] >= 1  # type: ignore[index]
    assert any(WORDS in quote["text"] for quote in found["answer"]["quotes"])  # type: ignore[index]
    assert all(GIFTS in prompt for prompt in server.prompts())


def test_n_answers_are_written_to_choose_among(run: Run) -> None:
    with serving(*says("They bring them.", f"They do it {WORDS} [1].")) as server:
        assert asked(run, "webglm", server.base_url, "-n", "2")[0] == 0
    assert sum(int(asking.fields.get("n") or 1) for asking in server.asked) >= 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["I like trains.", "[1][2][3]", "%<a>%(b)%[c]%", "Top"])
def test_nonsense_gives_no_answer_and_a_reason(run: Run, method: str, text: str) -> None:
    by_model = ("--method", method, "--model", "tiny")
    with serving(*says(text)) as server:
        result = run("ask", GIFTS, *CORVIDS, *by_model, "--base-url", server.base_url)
    assert result.code == 6
    assert result.out.strip() == ""
    assert "no answer" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_refuses_the_key_is_told(run: Run, method: str) -> None:
    with serving(refused("401 Unauthorized", "bad key")) as server:
        code, found = asked(run, method, server.base_url)
    assert (code, found["stop"], found["answer"]) == (6, "policy_failed", None)
    assert found["counts"]["model_refused_key"] == 1  # type: ignore[index]


def test_a_batch_by_a_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "text": GIFTS}) + "\n")
    files = ("--batch", tmp_path / "q.jsonl", "--out", tmp_path / "a.jsonl")
    with serving(*says(*METHODS["webglm"])) as server:
        by_model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        result = run("ask", *files, *CORVIDS, *by_model)
    assert (result.code, json.loads((tmp_path / "a.jsonl").read_text())["stop"]) == (0, "end")
