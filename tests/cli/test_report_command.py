"""`rookery cite report`: saved answers as one report, its quotes checked again."""

import json
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run

import rookery
from rookery.pages.page_reader import read_page

TRAM = "What does a tram ticket cost in Oslo?"


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    """An answer, and a question that was declined."""
    asked, out = tmp_path / "asked.jsonl", tmp_path / "answers.jsonl"
    asked.write_text(f'{{"id": "1", "text": "{GIFTS}"}}\n{{"id": "2", "text": "{TRAM}"}}\n')
    assert run("ask", "--batch", asked, "--out", out, *CORVIDS, "--decline", "0.85").code == 0
    return out


@pytest.mark.slow
def test_saved_answers_become_one_report(run: Run, saved: Path, tmp_path: Path) -> None:
    for name in ("report.md", "report.html", "report.docx"):
        made = tmp_path / name
        code, out, err = run("cite", "report", saved, "--out", made, "--title", "All about crows")
        assert (code, out) == (0, "")
        assert "2 questions: 1 answered, 1 declined. " in err
        file = made.read_bytes()
        text = read_page(file, made.as_uri()).text if name[-1] == "x" else file.decode()
        for said in ("All about crows", GIFTS, TRAM, "Declined", "verified", "Sources"):
            assert said in text
        assert "NOT VERIFIED" not in text
    again = run("cite", "report", saved, "--out", made)
    assert again.code == 2
    assert "there is such a file already" in again.err
    # A quote that was altered since is said not to stand on its page.
    altered = tmp_path / "altered.jsonl"
    line = saved.read_text("utf-8").splitlines()[0]
    start = line.index('"text":', line.index('"quotes"')) + 9
    altered.write_text(f"{line[:start]}Nobody said: {line[start:]}\n", "utf-8")
    assert run("cite", "report", altered, "--out", tmp_path / "altered.md").code == 5
    assert "NOT VERIFIED" in (tmp_path / "altered.md").read_text("utf-8")


def test_a_report_of_files_can_be_checked_like_any_answer(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "notes" / "birds" / "rooks.md"
    file.parent.mkdir(parents=True)
    file.write_text("# Rooks\n\nRooks nest in tall elms near open farm land.\n")
    pages, saved, report = tmp_path / "notes", tmp_path / "a.jsonl", tmp_path / "report.md"
    saved.write_text(run("ask", "Where do rooks nest?", "--in", pages, "--json").out)
    assert run("cite", "report", saved, "--out", report, "--pages", pages).code == 0
    assert run("cite", "verify", report, "--pages", pages).code == 0
    written = report.read_text("utf-8")
    report.write_text(written.replace("> Rooks nest", "> Rooks never nest"), "utf-8")
    assert run("cite", "verify", report, "--pages", pages).code == 5


def test_a_report_in_which_nothing_could_be_checked_says_so(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "answers.jsonl"
    asked = json.loads(run("ask", TRAM, *CORVIDS, "--json").out)
    saved.write_text(json.dumps({**asked, "answer": None}))
    assert run("cite", "report", saved, "--out", tmp_path / "report.md").code == 4
    assert run("cite", "verify", saved).code == 4


@pytest.mark.parametrize(
    ("typed", "outcome", "code"),
    [
        ("“Crows have never brought anybody a gift”", "not_found", 5),
        ("`“Crows have never brought a gift”`", "not_checked", 0),
        ("“{}”", "verified", 0),
    ],
)
def test_quotations_that_a_model_typed_are_checked_in_a_report_too(
    run: Run, tmp_path: Path, typed: str, outcome: str, code: int
) -> None:
    saved = json.loads(run("ask", GIFTS, *CORVIDS, "--json").out)
    quote = saved["answer"]["quotes"][0]
    text = f"The page says {typed.format(' '.join(quote['text'].split()[:8]))}, so it is."
    claim = {"start": 0, "end": len(text), "quotes": [0]}
    answer = {"text": text, "quotes": [quote], "claims": [claim]}
    (tmp_path / "answer.jsonl").write_text(
        json.dumps({**saved, "method": "webglm", "answer": answer})
    )
    verified = run("cite", "verify", tmp_path / "answer.jsonl", "--json")
    assert [json.loads(line)["outcome"] for line in verified.out.splitlines()][-1] == outcome
    report = run("cite", "report", tmp_path / "answer.jsonl", "--out", tmp_path / "report.md")
    assert (report.code, verified.code) == (code, code)
    assert ("NOT VERIFIED: “Crows have" in (tmp_path / "report.md").read_text("utf-8")) == (
        code == 5
    )
    assert (f"{outcome} " in report.err.replace("1 quote verified", "")) == (outcome != "verified")
    assert "typed in the answers: " in report.err
    checked = rookery.verify(rookery.Answer.from_json(json.dumps(answer)))
    assert all(checked) == (code == 0)
    assert [each.outcome for each in checked] == ["verified", outcome]


@pytest.mark.parametrize(
    ("text", "out", "why"),
    [('{"no": "answer"}', "report.md", "line 1: not an answer of rookery ask --json"),
     ("\n", "report.md", "there is no answer in it"),
     ("", "report.pdf", "ends with .html, .md or .docx")],
)  # fmt: skip
def test_bad_use_is_one_sentence(run: Run, tmp_path: Path, text: str, out: str, why: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(text)
    failed = run("cite", "report", file, "--out", tmp_path / out)
    assert failed.code == 2
    assert why in failed.err
    assert failed.err.count("\n") == 1
    assert not (tmp_path / out).exists()
