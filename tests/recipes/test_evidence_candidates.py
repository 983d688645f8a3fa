"""Candidates that are drawn to be judged by people, and the lines that their labels become."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest
from test_evidence_calibration import WordModel

from bench.documentation import BUILD_SITES, read_site_questions
from recipes.evidence_candidates import (
    STRATA,
    Candidate,
    CandidateLabel,
    JudgedCandidate,
    draw_candidates,
    judge_candidates,
    write_judged_files,
)
from recipes.evidence_questions import read_written_questions
from recipes.page_spans import SpanName, find_spans
from rookery.errors import Failed
from rookery.evidence.evidence_model import EvidenceModel
from rookery.pages.page_reader import read_page

NOTE = "<p>Owls hunt at night, and wrens do not, as every keeper of this garden has seen.</p>"
PAGE = f"""<title>Owls</title><h1>Owls</h1><h2>Old notes</h2>{NOTE}<h2>Now</h2>
<p>Owls sleep in the barn. Owls hunt at night, but only from May on, when beetles fly.</p>"""


@pytest.fixture
def barn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "owls.html").write_text(PAGE)
    monkeypatch.setitem(BUILD_SITES, "barn", (tmp_path, "*.html"))
    return tmp_path / "owls.html"


def list_candidates(barn: Path, *kinds: str) -> Iterator[Candidate]:
    page = read_page(barn.read_bytes(), barn.as_uri(), "text/html")
    text = page.text[page.text.index("Owls sleep") :]
    for number, kind in enumerate(kinds):
        yield Candidate(f"q{number}", "barn", f"question {number}", kind, barn.name, "Now", text)


def test_labels_become_lines_whose_quote_stands_in_the_candidate(barn: Path) -> None:
    kinds = ("how-to", "yes/no", "near miss", "several pages", "fact")
    labels = [
        CandidateLabel("q0", "answers", "sleep in\nthe barn"),
        CandidateLabel("q1", "partly", "only from May on,"),
        CandidateLabel("q2", "no"),
        CandidateLabel("q3", "answers", "Owls hunt at night"),
    ]
    judged = barn.parent / "judged"
    write_judged_files(list_candidates(barn, *kinds), labels, judged)
    assert [path.name for path in judged.iterdir()] == ["barn.jsonl"]
    lines = read_written_questions(judged / "barn.jsonl")
    assert [(each.kind, each.text, each.page) for each in lines] == [
        ("how-to", "question 0", "owls.html"),
        ("partly", "question 1", "owls.html"),
        ("rejected", "question 2", "owls.html"),
        ("fact", "question 3", "owls.html"),
    ]
    text = read_page(barn.read_bytes(), barn.as_uri(), "text/html").text
    places = find_spans(text, [SpanName(each.words, each.digest) for each in lines])
    assert [text[slice(*place)] for place in places if place] == [
        "sleep in the barn.",
        "only from May on,",
        "Owls sleep in the barn. Owls hunt at night, but only from May on,",
        "barn. Owls hunt at night, but",  # the same words stand in the notes above
    ]


def test_every_label_that_cannot_be_used_is_named_and_nothing_is_written(barn: Path) -> None:
    candidates = [*list_candidates(barn, "fact", "fact", "fact")]
    candidates[1] = Candidate("q1", "barn", "?", "fact", barn.name, "Now", "Owls eat.")
    candidates[2] = Candidate("q2", "barn", "?", "fact", "gone.html", "Now", "Owls eat.")
    labels = [
        CandidateLabel("q0", "answers", "owls sleep in the nest"),
        CandidateLabel("q0", "partly"),
        CandidateLabel("q1", "no"),
        CandidateLabel("q2", "no"),
        CandidateLabel("q3", "no"),
    ]
    with pytest.raises(Failed) as refused:
        write_judged_files(candidates, labels, barn.parent / "judged")
    first, empty, changed, gone, unknown = refused.value.failure.detail.split("; ")
    assert first == "q0: 'owls sleep in the nest' is not in its text: copy words from there"
    assert empty.startswith("q0: '' holds no word")
    assert "not on the installed page" in changed
    assert "gone.html" in gone
    assert "q3" in unknown
    assert not (barn.parent / "judged").exists()


def test_candidates_are_drawn_from_every_stratum() -> None:
    random = Random(0)
    judged = [
        JudgedCandidate(
            stratum,
            random.gauss(0, 2),
            Candidate(f"{stratum} {number}", "barn", "?", stratum, "owls.html", "", "Owls."),
        )
        for stratum in (*STRATA, "")
        for number in range(25 if stratum == "foreign" else 2 * STRATA.get(stratum, 10))
    ]
    drawn = draw_candidates(judged, 0)
    assert drawn == draw_candidates(judged, 0)
    assert Counter(each.kind for each in drawn) == STRATA | {"foreign": 25}
    near = {each.candidate.id: each.log_odds for each in judged if each.stratum == "near miss"}
    chosen = {each.id for each in drawn if each.kind == "near miss"}
    assert min(near[each] for each in chosen) > max(near[each] for each in near.keys() - chosen)


@pytest.mark.slow
def test_what_a_search_finds_is_judged_and_sorted_into_strata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = read_site_questions("build", ["corvids"])[::5]
    monkeypatch.setattr("recipes.evidence_calibration.read_site_questions", lambda *_: fewer)
    judged = [*judge_candidates(cast(EvidenceModel, WordModel()), ["corvids"], tmp_path)]
    counts = Counter(each.stratum for each in judged)
    assert set(counts) == {*STRATA, ""}
    assert counts["best"] == len({e.candidate.question for e in judged if e.stratum == "best"})
    by_id = {each.candidate.id: each for each in judged}
    assert len(by_id) == len(judged)
    assert all(
        (each.stratum == each.candidate.kind) == each.candidate.id.endswith(".0")
        for each in judged
        if each.candidate.kind in ("near miss", "foreign")
    )
    labels = [
        CandidateLabel(each.candidate.id, "no") for each in judged if each.stratum == "matching"
    ]
    write_judged_files((each.candidate for each in judged), labels, tmp_path / "judged")
    lines = read_written_questions(tmp_path / "judged" / "corvids.jsonl")
    assert {each.text for each in lines} == {by_id[each.id].candidate.question for each in labels}
