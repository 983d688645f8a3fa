"""`rookery cite verify --support` and `rookery measure citations`, by a judge that looks for words:
what each claim gets, what is shown, and what the exit code says."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import Run

from rookery.answers.answer_session import EvidenceSources
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.pages.page_reader import read_page
from rookery.records import Answer, Claim
from rookery.settings import Settings
from rookery.shell import answer_verification
from rookery.shell.answer_verification import (
    CheckedSources,
    DocumentLookup,
    check_saved_answers,
    judge_saved_claims,
    make_claim_judge,
    summarize_claims,
)

ROOKS = "Rooks nest in tall elms near open farm land. They do not leave in winter."
SAID = ("Rooks like elms.", "They leave in winter.", "They eat worms.", "Everybody knows rooks.")
JUDGED = {"elms": (0.9, 0.04), "leave": (0.1, 0.8), "worms": (0.2, 0.1)}


def judge_words(claim: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
    supports, refutes = next(pair for word, pair in JUDGED.items() if word in claim)
    said = 0.0, (0, 1), 0.0, supports, refutes, 1 - supports - refutes
    return [EvidenceJudgement(*said) for _ in passages]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model that is the judge above."""

    def load(folder: Path) -> SimpleNamespace:
        assert folder == tmp_path / "model"
        return SimpleNamespace(judge_passages=judge_words)

    monkeypatch.setattr(answer_verification, "load_evidence_model", load)
    return tmp_path / "model"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "rooks.txt").write_text(ROOKS)
    return folder


@pytest.fixture
def saved(tmp_path: Path, pages: Path) -> Path:
    """An answer that a model wrote: its claims are supported, refuted, neither, and uncited."""
    page = read_page(ROOKS.encode(), (pages / "rooks.txt").as_uri(), "text/plain")
    elms, winter = page.quote(0, 44), page.quote(45, len(ROOKS))
    starts = [sum(len(each) + 1 for each in SAID[:n]) for n in range(4)]
    claims = [Claim(start, start + len(SAID[n]), (n % 2,)) for n, start in enumerate(starts[:3])]
    answer = Answer(" ".join(SAID), (elms, winter), tuple(claims))
    file = tmp_path / "answer.json"
    question = {"id": "1", "text": "Where do rooks nest?"}
    whole = {"question": question, "answer": json.loads(answer.to_json()), "stop": "end"}
    file.write_text(json.dumps({**whole, "method": "webglm"}) + "\n")
    return file


def test_each_claim_is_said_to_be_supported_or_not(
    run: Run, saved: Path, pages: Path, model: Path
) -> None:
    verify = "cite", "verify", saved, "--pages", pages, "--support", "--ranker", model
    code, out, err = run(*verify)
    assert code == 0
    assert out.splitlines()[2:] == [
        "refutes         “They leave in winter.”",
        "                supports 0.10, refutes 0.80, neither 0.10",
        "neither         “They eat worms.”",
        "                supports 0.20, refutes 0.10, neither 0.70",
        "uncited         “Everybody knows rooks.”",
        "                it cites nothing",
    ]
    assert err.splitlines() == [
        "2 of 2 quotes verified",
        "1 of 4 claims supported; 1 refuted; 1 neither supported nor refuted; 1 without a citation",
    ]
    lines = [json.loads(line) for line in run(*verify, "--json").out.splitlines()]
    assert [line["outcome"] for line in lines[2:]] == ["supports", "refutes", "neither", "uncited"]
    assert lines[2]["support"] == {
        "supports": pytest.approx(0.9),
        "refutes": pytest.approx(0.04),
        "neither": pytest.approx(0.06),
    }
    assert "support" not in lines[5] or lines[5]["support"] is None


def test_a_quote_that_fails_still_ends_with_5_and_supports_nothing(
    run: Run, saved: Path, pages: Path, model: Path
) -> None:
    whole = json.loads(saved.read_text())
    whole["answer"]["quotes"][0]["start"] += 1
    saved.write_text(json.dumps(whole))
    code, out, err = run(
        "cite", "verify", saved, "--pages", pages, "--support", "--ranker", model, "--json"
    )
    assert code == 5
    outcomes = [json.loads(line)["outcome"] for line in out.splitlines()]
    assert outcomes == [
        "text_differs",
        "verified",
        "unverified",
        "refutes",
        "unverified",
        "uncited",
    ]
    assert "0 of 4 claims supported" in err


@pytest.mark.slow
def test_without_a_model_written_claims_are_a_failure_and_quotes_are_not(
    run: Run, saved: Path, pages: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(answer_verification, "BUNDLED_MODEL", tmp_path / "none")
    verify = "cite", "verify", saved, "--pages", pages, "--support"
    for options, said in (
        ((), "no evidence model comes with this installation"),
        (("--ranker", "words"), "shared words do not tell support from refutation"),
        (("--ranker", pages), "it holds no evidence model"),
    ):
        code, out, err = run(*verify, *options)
        assert (code, out) == (2, "")
        assert said in err
        assert "name" in err
    asked = run("ask", "Where do rooks nest?", "--in", pages, "--ranker", "words", "--json")
    saved.write_text(asked.out)
    code, out, err = run(*verify, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["outcome"] == "quoted"
    assert "1 of 1 claims supported; 1 quoted word for word, which needs no model" in err
    assert run("measure", "citations", saved).code == 0


def test_citations_are_measured_by_the_model_or_by_words(
    run: Run, saved: Path, model: Path
) -> None:
    def recall(ranker: str | Path) -> tuple[float, str]:
        out = run("measure", "citations", saved, "--ranker", ranker, "--json").out
        figure = json.loads(out)
        return figure["rows"][0][2], figure["says"]

    share, caption = recall(model)
    assert share == 0.25
    assert "the evidence model" in caption
    share, caption = recall("words")
    assert share == 0.5  # "They leave in winter" has the words of what denies it
    assert "57 %" in caption


def test_a_sentence_of_another_tool_is_judged_by_the_source_that_it_cites(
    pages: Path, tmp_path: Path, run: Run, model: Path
) -> None:
    text = (
        "“Rooks nest in tall elms near open farm land.” [1] They leave in winter [1]. They eat "
        "worms [2].\n\n[1]: pages/rooks.txt\n[2]: pages/gone.txt\n"
    )
    file = tmp_path / "answer.md"
    file.write_text(text)
    with EvidenceSources(Settings()) as sources:
        checked = CheckedSources(DocumentLookup(pages), sources, False, tmp_path)
        data = file.read_bytes()
        verdicts = check_saved_answers(data, file.name, checked)
        found = judge_saved_claims(data, file.name, verdicts, checked, make_claim_judge(str(model)))
    assert [each.outcome for each in found] == ["quoted", "refutes", "unverified"]
    assert "not stored" in found[2].detail
    assert summarize_claims([]) == "no claim to judge"
    file.write_text("They leave in winter [1].\n\n[1]: pages/rooks.txt\n")
    code, out, err = run("cite", "verify", file, "--pages", pages, "--support", "--ranker", model)
    assert (code, err) == (0, "0 of 1 claims supported; 1 refuted\n")
    assert out.startswith("refutes         “They leave in winter")
