"""Every bench runs, in a small round on made data, and leaves the figures as they are."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import msgspec
import pytest

from bench import documentation, reading
from bench.answers import draw_coverage_curves
from bench.documentation import (
    EXTRACT,
    UNDECLINED,
    AskedQuestion,
    GradedAnswer,
    SiteQuestion,
    count_endings,
    count_grades,
    draw_lot,
    judge_answer,
    summarize,
    summarize_folders,
)
from bench.figures import render_documentation
from bench.mutated_files import make_mutant, make_seeds
from bench.pages import average_pages, compare_strings, compute_overlap, divide_sums
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage

ROOT = Path(__file__).parent.parent
BENCHES = sorted(path.stem for path in (ROOT / "bench" / "results").glob("*.json"))


def published() -> dict[Path, bytes]:
    """The results, and the page and picture that are made of them."""
    page, picture = ROOT / "docs" / "figures.md", ROOT / "docs" / "decline.svg"
    results = (ROOT / "bench" / "results").rglob("*.json*")
    return {path: path.read_bytes() for path in (page, picture, *results)}


def small_round(*names: str) -> tuple[int, str]:
    """The exit code, and all that was printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--small", *names],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # One Ray cluster at a time.
    [
        pytest.param(name, marks=pytest.mark.xdist_group("ray")) if name == "shards" else name
        for name in BENCHES
    ],
)
def test_a_small_round_of_the_bench(name: str) -> None:
    before = published()
    code, said = small_round(name)
    if (skipped := re.search(r"^skipped: (.*)", said, re.M)) and "CI" not in os.environ:
        pytest.skip(skipped[1])
    assert (code, skipped) == (0, None), said
    assert "\n## " in said, said  # its part of the page of figures
    assert "nan" not in re.findall(r"\w+", said), said
    assert published() == before


def test_an_unknown_bench_is_refused_with_the_names_of_those_with_published_figures() -> None:
    code, said = small_round("asks")
    assert code == 2
    found = re.search(r"there is no bench asks; there are ([a-z_, \n]+)", said)
    assert found is not None
    assert sorted(found[1].strip().split(", ")) == BENCHES


def test_published_benchmarks_of_pages_are_computed_as_their_own_programs_do() -> None:
    assert compute_overlap("a b c d e", "a b c d f", 4) == (1 / 3, 1 / 3, 1 / 3)
    assert compute_overlap("a b c d", "", 4) == (0, 0, 1)
    # A page without text has a recall, and no precision.
    assert average_pages([(0.5, 0.5, 0), (0, 0, 1)]) == (0.5, 0.5)
    strings = {"with": ["a  b", "c", "B"], "without": ["d", "e"]}
    assert compare_strings(strings, " a\nb d") == (1, 1, 2)
    assert divide_sums([(1, 1, 2), (2, 0, 0)]) == (3 / 4, 3 / 5)


def test_a_stopped_run_over_mutated_files_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is there is not read again, unless it holds fewer files than are asked for."""
    read = list[range]()

    def read_mutants(kind: str, seeds: object, numbers: range) -> dict[str, object]:
        read.append(numbers)
        found = {"files": len(numbers), "outcomes": {"read": len(numbers)}, "crashes": {}}
        return found | {"overruns": [], "slowest_s": 1.0 * numbers.start, "megabytes": 9.0}

    monkeypatch.setattr(reading, "read_mutants", read_mutants)
    monkeypatch.setattr(reading, "BLOCK", 10)
    seeds = {"csv": make_seeds()["csv"]}
    reading.fuzz_kinds(seeds, 15, tmp_path)
    reading.fuzz_kinds(seeds, 25, tmp_path)
    assert read == [range(10), range(10, 15), range(10, 20), range(20, 25)]
    merged = reading.merge_blocks(tmp_path, ["csv", "md"])
    assert list(merged) == ["csv"]
    assert (merged["csv"]["files"], merged["csv"]["slowest_s"]) == (25, 20.0)


def test_mutants_are_the_same_each_time_and_differ_from_their_seeds() -> None:
    for kind, seeds in make_seeds().items():
        mutants = [make_mutant(kind, number, seeds) for number in range(8)]
        assert mutants == [make_mutant(kind, number, seeds) for number in range(8)]
        assert len({mutant.data for mutant in mutants}) > 5, kind
        assert {mutant.url for mutant in mutants} <= {seed.url for seed in seeds}


@pytest.mark.slow
def test_an_overrun_and_the_outcome_of_each_mutant_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = make_seeds()["csv"]
    found = reading.read_mutants("csv", seeds, range(4))
    assert sum(found["outcomes"].values()) == found["files"] == 4
    assert found["overruns"] == []
    monkeypatch.setattr(reading, "SECONDS", 0.0001)  # the planted overrun
    assert reading.read_mutants("csv", seeds, range(2))["overruns"]


def make_outcome(
    number: int, outcome: str, score: float, *, right: bool = False, kind: str = "fact"
) -> AskedQuestion:
    """An outcome whose first quote has as many words as its number."""
    quotes = (("a.odt", "word " * number),) if outcome else ()
    return AskedQuestion(
        "mill",
        str(number),
        outcome == "answered",
        outcome == "possible",
        score,
        quotes,
        milliseconds=10.0 * (number - 1),
        kind=kind,
        question="Who?",
        first=right,
        three=right or number == 3,
        outdated=number == 4,
        ending=".odt" if number % 2 else ".csv",
        system=EXTRACT,
    )


OUTCOMES = (
    make_outcome(1, "answered", 0.9, right=True),
    make_outcome(2, "answered", 0.6, right=True),
    make_outcome(3, "answered", 0.7),
    make_outcome(4, "possible", 0.3),
    make_outcome(5, "possible", 0.4, right=True),
    make_outcome(6, "", 0.1),
    make_outcome(7, "possible", 0.2, kind="near miss"),
    make_outcome(8, "answered", 0.5, kind="near miss"),
    make_outcome(9, "", 0.0, kind="foreign"),
)


def test_certain_and_possible_answers_are_counted() -> None:
    found = summarize(OUTCOMES)
    assert found["right first"] == 3 / 6
    assert found["right in three"] == 4 / 6
    assert found["answered"] == 3 / 6
    assert found["possible"] == 2 / 6
    assert found["wrong of answered"] == 1 / 3
    assert (found["near miss answered"], found["near miss possible"]) == (1 / 2, 1 / 2)
    assert (found["foreign answered"], found["foreign possible"]) == (0, 0)
    # Of the certain ones, .9 is above the wrong .7 and .6 below it.
    assert found["AUROC"] == 0.5
    # Bins: .9 right, .6 right, .7 wrong, .3 wrong, .4 right.
    assert found["calibration error"] == pytest.approx((0.1 + 0.4 + 0.7 + 0.3 + 0.6) / 5)
    # Quotes of 1, 2, 3, 4, 5, 7 and 8 words; the first question took no time that counts.
    assert (found["words"], found["CPU ms"]) == (4, 45)


def test_answers_about_folders_are_counted() -> None:
    found = summarize_folders(OUTCOMES)
    assert found == {
        "right first": 3,
        "right in three": 4,
        "answered": 3,
        "possible": 2,
        "wrong": 2,
        "wrong and certain": 1,
        "replaced or contradicted": 1,
        "unanswerable answered": 1,
        "unanswerable possible": 1,
        "words": 4,
        "CPU ms": 45,
    }
    assert count_endings(OUTCOMES) == {".csv, of 3": 1, ".odt, of 3": 2}


def test_what_a_newer_document_replaces_is_no_right_quote() -> None:
    question = SiteQuestion("1", "fact", "When?", "mill", ("b c.odt",), ("6\\s?pm",), "5 pm")

    def judge(*quotes: tuple[str, str]) -> tuple[bool, bool, bool]:
        found = judge_answer(question, AskedQuestion("mill", "1", True, quotes=quotes))
        return found.first, found.three, found.outdated

    assert judge(("b c.odt", "At 6\nPM.")) == (True, True, False)
    assert judge(("a.odt", "At 6 pm.")) == (False, False, False)
    assert judge(("a.odt", "At 5 pm."), ("b c.odt", "At 6pm.")) == (False, True, True)
    assert judge(("b c.odt", "5 pm until now, then 6 pm")) == (True, True, False)
    assert judge() == (False, False, False)


def test_grades_of_answers_by_lot_are_counted() -> None:
    lot = draw_lot([*OUTCOMES, msgspec.structs.replace(OUTCOMES[0], system="other")], 60)
    assert sorted(each.id for each in lot) == ["1", "2", "3", "4", "5", "7", "8"]
    assert lot == draw_lot(OUTCOMES, 7)
    with pytest.raises(ValueError, match="lacks a grade"):
        count_grades(lot, OUTCOMES)
    two = (("a.odt", "one"), ("b.odt", "two"))
    graded = [
        GradedAnswer("mill", "1", "Who?", two, "right", (True,)),
        GradedAnswer("mill", "2", "Who?", two[:1], "partly"),
        GradedAnswer("mill", "3", "Who?", two, "right", (False,)),
    ]
    assert count_grades(graded, OUTCOMES) == {
        "right": {"answers": 2, "right by pattern": 1},
        "partly": {"answers": 1, "right by pattern": 1},
        "wrong": {"answers": 0, "right by pattern": 0},
        "further quotes": {"answers": 2, "that help": 1},
    }


def test_the_test_asks_sites_and_folders_and_counts_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files have names that URLs encode; what was asked is counted and drawn, and shown."""

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        odds = [4.0 if "miller" in each.text else -1.0 for each in passages]
        return [
            EvidenceJudgement(each, (0, len(passage.text)), each, 0, 0, 1)
            for each, passage in zip(odds, passages, strict=True)
        ]

    site, folder = tmp_path / "site", tmp_path / "folders" / "mill"
    for place in (site / "sub", folder / "At the dam"):
        place.mkdir(parents=True)
    page = "<title>Mill</title><p>Nobody but the old miller has the key of the mill.</p>"
    (site / "sub" / "a.html").write_text(page)
    (folder / "At the dam" / "näch #2.txt").write_text("The new miller has the key of the mill.")
    asked = {"kind": "fact", "text": "Who has the key of the mill?", "site": "site"}
    for file, lines in (
        ("test_site.jsonl", [{"id": "1", **asked, "accepted": ["sub/a.html"], "facts": ["old"]}]),
        ("test_foreign.jsonl", [{"id": "2", "kind": "foreign", "text": "What is a quokka?"}]),
        (
            "folders/questions_mill.jsonl",
            [
                {"id": "1", **asked, "accepted": ["At the dam/näch #2.txt"], "facts": ["new"]},
                {"id": "2", **asked, "kind": "near miss", "note": "no one"},
            ],
        ),
    ):
        (tmp_path / file).write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in lines))
    monkeypatch.setattr(documentation, "QUESTIONS", tmp_path)
    monkeypatch.setattr(documentation, "SCRATCH", tmp_path / "scratch")
    monkeypatch.setattr(documentation, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("bench.report.RESULTS", tmp_path / "results")
    monkeypatch.setattr(documentation, "TEST_SITES", {"site": (site, "*.html")})
    monkeypatch.setattr(documentation, "TEST_FOLDERS", {"mill": (folder, "")})
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(
        documentation, "load_evidence_model", lambda path: SimpleNamespace(judge_passages=judge)
    )
    other = [
        AskedQuestion("site", "1", True, quotes=(("sub/a.html", "The old miller"),)),
        AskedQuestion("site", "2", True, quotes=(("sub/a.html", "The old miller"),)),
        AskedQuestion("mill", "1", False),
        AskedQuestion("mill", "2", False),
    ]
    beside, answers = tmp_path / "beside.jsonl", tmp_path / "answers.jsonl"
    beside.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in other))
    options = ["--test", f"--answers={answers}", f"--beside=version 0.2={beside}"]
    monkeypatch.setattr(sys, "argv", ["documentation", *options])
    documentation.main()
    found = msgspec.json.decode((tmp_path / "results" / "test" / "documentation.json").read_bytes())
    rows, folders = found["systems"], found["folders"]["systems"]
    for name in (EXTRACT, UNDECLINED, "version 0.2"):
        assert rows[name]["right first"] == 1, name
    assert "foreign answered" not in rows[UNDECLINED]
    assert rows["version 0.2"]["foreign answered"] == 1
    assert rows[EXTRACT]["foreign answered"] == 0
    assert folders[EXTRACT]["right first"] == folders[EXTRACT]["unanswerable answered"] == 1
    assert folders["version 0.2"]["right first"] == 0
    assert found["folders"]["endings"][EXTRACT] == {".txt, of 1": 1}
    public = (tmp_path / "results" / "test" / "documentation.jsonl").read_text()
    assert (public.count("\n"), "old miller" in public) == (2, False)
    assert "new miller" in answers.read_text()
    monkeypatch.setattr("bench.figures.read_results", lambda name: found)
    assert "| version 0.2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |  |" in [
        *render_documentation(found)
    ]


SVG = "{http://www.w3.org/2000/svg}"


def test_a_point_of_a_line_is_where_its_shares_say() -> None:
    """460 by 260 units, from (50, 310) for nothing answered and half of it good."""
    root = ElementTree.fromstring(
        draw_coverage_curves({"a<b>&": [(0.5, 0.75), (1.0, 0.5), (0.01, 0.0)]}, "good")
    )
    [line] = root.iter(f"{SVG}polyline")
    assert line.get("points") == "280.0,180.0 510.0,310.0"
    assert "a<b>&" in [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(("share", "lowest"), [(0.6, "0.5"), (0.37, "0.3"), (0.2, "0.2")])
def test_the_axis_reaches_down_to_what_is_drawn(share: float, lowest: str) -> None:
    root = ElementTree.fromstring(draw_coverage_curves({"": [(1.0, share)]}, "good"))
    ticks = [text.text for text in root.iter(f"{SVG}text") if text.get("x") == "44"]
    assert (ticks[0], ticks[-1]) == (lowest, "1")
