"""The page of results says what the recipes found, failures too, and which were not run."""

import csv
import signal
from pathlib import Path

import pytest

from recipes import results, stages
from recipes.stages import Finding, Result, format_estimate
from recipes.ziegler import reproduce_paper
from recipes.ziegler_stages import Settings
from rookery.measure.figures import Figure, FigureLine, FigurePicture, write_figure
from rookery.measure.intervals import estimate_share

SEEN = format_estimate(estimate_share(3, 4))


def test_the_page_is_written_from_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = (
        Finding("best of 4 | beats one", "68 %", SEEN, True),
        Finding("PPO beats cloning", "58 %", SEEN, False, "too few steps"),
        Finding("PPO adds to the best of 4", "no", SEEN, False, "too few steps"),
    )
    result = Result("webgpt", "small", 12.4, (3,), findings, ("Smaller.",))
    folder = tmp_path / "runs" / "webgpt-small"
    picture = FigurePicture("curves", (FigureLine("one", ((1.0, 0.5), (2.0, 0.75))),), "n", "worth")
    figure = Figure(
        "best", "Best of n", "As seen.", ("n",), ((1,), (2,)), picture, "WebGPT, fig. 8"
    )
    write_figure(figure, folder / "figures")
    many = tuple((number, f"a, b | {number}") for number in range(results.LONG + 1))
    write_figure(Figure("long", "All", "Said.", ("n", "name"), many, picture), folder / "figures")
    (folder / "result.json").write_text(result.to_json())
    monkeypatch.setattr(results, "PAGE", tmp_path / "docs" / "results.md")
    monkeypatch.setattr(results, "PICTURES", tmp_path / "docs" / "results")
    monkeypatch.setattr("sys.argv", ["results", str(tmp_path / "runs")])
    (tmp_path / "docs").mkdir()
    results.main()
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "| 1 | best of 4 \\| beats one | 68 % | 0.750 (0.301 to 0.954, n=4) | yes |" in page
    assert "| 2 | PPO beats cloning | 58 % | 0.750 (0.301 to 0.954, n=4) | **no** |" in page
    assert "- 2, 3: too few steps\n- Smaller.\n" in page
    assert "12 min · seed 3" in page
    assert "### Best of n (WebGPT, fig. 8)" in page
    assert "![Best of n](results/webgpt-best.svg)\n\n| n |" in page
    assert "](best.svg)" not in page  # the table alone, of the figure's own file
    assert (tmp_path / "docs" / "results" / "webgpt-best.svg").read_text().startswith("<?xml")
    assert "[Its 2 rows](results/webgpt-best.csv)" in page
    assert "a, b" not in page
    assert "![All](results/webgpt-long.svg)\n\n[Its 13 rows](results/webgpt-long.csv)" in page
    with (tmp_path / "docs" / "results" / "webgpt-long.csv").open(encoding="utf-8") as rows:
        assert list(csv.reader(rows))[:2] == [["n", "name"], ["0", "a, b | 0"]]
    for name in ("ziegler", "gophercite", "webglm"):
        assert f"Not run: `python -m recipes.{name} small`." in page


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
