"""The page of results says what the recipes found, failures too, and which were not run."""

import csv
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from recipes import results, stages
from recipes.findings import Effect, ScoreTable, list_findings
from recipes.stages import Result
from recipes.ziegler import reproduce_paper
from recipes.ziegler_stages import Settings
from rookery.measure.figures import Figure, FigureLine, FigurePicture

COUNT = 30
QUESTIONS = tuple(map(str, range(COUNT)))


def make_result(seed: int, learnt: float) -> Result:
    make_effect = partial(
        Effect,
        paper="68 %",
        table="right",
        reference="one",
        floors=("lot",),
        facts=("first",),
        chosen="n on other questions",
    )
    effects = (
        make_effect(effect="best of 4 | beats one", learnt="best", hacks=("PPO",)),
        make_effect(effect="PPO beats one", learnt="PPO", why="too few steps", expected=0.1),
        make_effect(effect="PPO is as good", learnt="PPO", claim="same"),
    )
    scores = {"best": learnt, "one": 0.25, "PPO": 0.25, "lot": 0.0, "first": 0.125}
    table = ScoreTable(
        "right",
        "right answers",
        QUESTIONS,
        {
            name: tuple(2 + each + (at % 5 - 2) / 64 * (name == "best") for at in range(COUNT))
            for name, each in scores.items()
        },
    )
    findings = tuple(list_findings(effects, [[table]]))
    return Result("webgpt", "small", 12.4, (seed,), findings, effects, (table,), ("Smaller.",))


@pytest.fixture
def write_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    monkeypatch.setattr(results, "PAGE", tmp_path / "docs" / "results.md")
    monkeypatch.setattr(results, "PICTURES", tmp_path / "docs" / "results")
    (tmp_path / "docs" / "results").mkdir(parents=True)

    def write_and_read() -> str:
        folders = [each.parent for each in (tmp_path / "runs").glob("*/result.json")]
        monkeypatch.setattr("sys.argv", ["results", *map(str, folders)])
        results.main()
        return (tmp_path / "docs" / "results.md").read_text()

    return write_and_read


def test_the_page_judges_over_all_seeds_that_there_are(
    tmp_path: Path, write_page: Callable[[], str]
) -> None:
    picture = FigurePicture("curves", (FigureLine("one", ((1.0, 0.5), (2.0, 0.75))),), "n", "worth")
    figure = Figure(
        "best-of-n", "Best of n", "As seen.", ("n",), ((1,), (2,)), picture, "WebGPT, fig. 8"
    )
    many = tuple((number, f"a, b | {number}") for number in range(results.LONG + 1))
    long = Figure("long", "All", "Said.", ("n", "name"), many, picture)
    for seed, learnt in enumerate((0.75, 0.5)):
        folder = tmp_path / "runs" / f"webgpt-small-{seed}"
        folder.mkdir(parents=True)
        made = replace(make_result(seed, learnt), figures=(figure, long) if seed == 0 else ())
        (folder / "result.json").write_text(made.to_json())
    (tmp_path / "docs" / "results" / "webgpt-small-of-old.svg").write_text("old")
    page = write_page()
    assert "\n| 1 | best of 4 \\| beats one | **yes** | **yes** |\n" in page
    assert (
        "- **1. best of 4 | beats one.** In the paper: 68 %\n"
        "    - (a) **yes**: 0.375 (0.367 to 0.383); best 2.625, one 2.250. "
        "Of each seed: 0.500, 0.250. Could see 0.012; none was expected\n"
        "    - (b) **yes**: lot 0.625 (0.617 to 0.633)\n"
        "    - (c) first 2.125\n"
    ) in page
    assert (
        "(a) **undecided**: 0.000; PPO 2.250, one 2.250. Of each seed: 0.000, 0.000. "
        "Could see nothing: no interval\n"
    ) in page
    assert "- Effect 1, reward hacking: PPO 2.250, where one 2.250: " in page
    assert "- Effects 1, 2, 3, the reward that was optimised: there is none, or" in page
    curves = page.split("## ziegler, small")[0]
    assert "## Gain by n\n\nwebgpt, small: As seen.\n\n![webgpt, small: Gain by n]" in curves
    assert "## Reward by batch\n\nNo result that is kept has this curve." in curves
    assert "- Effect 2, the presumed reason: too few steps\n" in page
    assert "- Effects 1, 2, 3: right answers; 30 questions\n" in page
    assert "- Effects 1, 2, 3, chosen: n on other questions\n" in page
    assert "2 seeds (0, 1) · 25 min in all" in page
    assert "The figures below are of seed 0 alone." in page
    assert "### Best of n (WebGPT, fig. 8)" in page
    assert "![Best of n](results/webgpt-small-best-of-n.svg)\n\n| n |" in page
    assert (
        (tmp_path / "docs" / "results" / "webgpt-small-best-of-n.svg")
        .read_text()
        .startswith("<?xml")
    )
    assert not (tmp_path / "docs" / "results" / "webgpt-small-of-old.svg").exists()
    assert "a, b" not in page
    assert (
        "![All](results/webgpt-small-long.svg)\n\n[Its 13 rows](results/webgpt-small-long.csv)"
        in page
    )
    with (tmp_path / "docs" / "results" / "webgpt-small-long.csv").open(
        encoding="utf-8"
    ) as rows_file:
        assert list(csv.reader(rows_file))[:2] == [["n", "name"], ["0", "a, b | 0"]]
    for name in ("ziegler", "gophercite", "webglm"):
        assert f"No result is kept: run `python -m recipes.{name} small`." in page
    assert "## webgpt, medium\n\nNo result is kept: run `python -m recipes.webgpt medium`." in page


@pytest.mark.parametrize(
    ("argument", "code", "words"),
    [
        ("--help", 0, "[RUN ...]"),
        ("none", 2, "none/result.json is not there: name the folder"),
    ],
)
def test_a_folder_without_a_result_is_told(
    argument: str,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["results", argument])
    with pytest.raises(SystemExit) as ended:
        results.main()
    assert ended.value.code == code
    assert words in "".join(capsys.readouterr())


def test_seeds_that_were_run_elsewhere_before_count(
    tmp_path: Path, write_page: Callable[[], str]
) -> None:
    for seed in (1, 0):
        folder = tmp_path / "runs" / f"webgpt-small-{seed}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(make_result(seed, 0.5).to_json())
        page = write_page()
        (folder / "result.json").unlink()
        assert write_page() == page
    assert "2 seeds (0, 1)" in page
    assert len(results.read_kept_results("webgpt-small")) == 2
    assert results.read_kept_results("webgpt-medium") == []


def test_seeds_that_look_for_different_effects_are_refused(
    tmp_path: Path, write_page: Callable[[], str]
) -> None:
    for seed in (0, 1):
        folder = tmp_path / "runs" / f"webgpt-small-{seed}"
        folder.mkdir(parents=True)
        made = make_result(seed, 0.5)
        made = replace(made, effects=made.effects[seed:], findings=made.findings[seed:])
        (folder / "result.json").write_text(made.to_json())
    with pytest.raises(
        ValueError, match=r"delete .*webgpt-small-\d.json.gz, which is of another version"
    ):
        write_page()


def test_where_the_data_are_not_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere, out = tmp_path / "nowhere", tmp_path / "out"
    said = ["ziegler", "small", "--data", str(nowhere), "--out", str(out)]
    monkeypatch.setattr("sys.argv", said)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match=f"{nowhere}/.* is not there: name the folder"):
            stages.main("ziegler", Settings, reproduce_paper)
    finally:
        signal.signal(signal.SIGTERM, before)
