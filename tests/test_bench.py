"""Every bench runs, in a small round on made data, and leaves the figures as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import reading
from bench.mutated_files import make_mutant, make_seeds
from bench.pages import average_pages, compare_strings, compute_overlap, divide_sums

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
