"""The page of a run: curves by hand-worked places, escaped words, reloading, and resuming."""

import re
from pathlib import Path

import msgspec
import pytest

from rookery.errors import Failed
from rookery.learn.run_page import PAGE_SECONDS, render_run_page
from rookery.learn.training_run import CheckpointParts, ResumableRun

RELOAD = f'<meta http-equiv="refresh" content="{PAGE_SECONDS}">'


class Settings(msgspec.Struct, frozen=True):
    """Of the runs here."""


def test_a_curve_goes_through_its_places() -> None:
    """Three rewards, 0 to 2: with a twentieth above and below, 8 to 158 are 2.1 to -0.1."""
    history = [{"step": step, "reward": float(step), "kl": None} for step in range(3)]
    page = render_run_page("run", "running", False, history, [])
    [drawn] = re.findall(r'<polyline class="line0" points="([^"]*)"/>', page)
    assert drawn == "56.0,151.2 244.0,83.0 432.0,14.8 "
    assert "reward <b>2</b>" in page
    assert "KL of an episode" not in page


def test_limits_are_dashed_and_what_was_not_measured_is_left_out() -> None:
    history = [{"step": step, "kl": [1.0, None][step % 2], "target": 2.0} for step in range(9)]
    page = render_run_page("run", "", False, history, [])
    curve, target = re.findall(r'<polyline class="([^"]*)" points="([^"]*)"/>', page)
    assert (curve[0], target[0]) == ("line0", "line1 limit")
    assert (len(curve[1].split()), len(target[1].split())) == (5, 9)


def test_metrics_that_only_experts_know_are_explained() -> None:
    history = [{"step": 0, "approxkl": 0.1, "mismatch": 0.2, "unheard": 1.0, "loss": 1.0}]
    page = render_run_page("run", "", False, history, [])
    told = re.findall(r'<figcaption>(.*?)</figcaption>|<p class="meaning">(.*?)</p>', page)
    assert [title or words.split(":")[0][:24] for title, words in told] == [
        "Loss", "Approxkl", "How far the policy moves", "Mismatch", "Largest difference betwe",
        "Unheard",
    ]  # fmt: skip


def test_words_of_models_and_people_are_text() -> None:
    bad = "<script>alert('$name')</script>&amp;"
    row = {"context": bad, "action": bad}
    samples = [
        {"step": 0, "rows": [{"context": "old", "action": "old"}], "reward": 1.0},
        {"step": 1, "rows": [{"context": "first", "action": "b"}, row], "reward": 1.25},
        {"step": 1, "question": bad, "said": bad, "wanted": bad, "reward": None},
    ]
    page = render_run_page(bad, bad, True, [], samples, [bad])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#39;$name&#39;)&lt;/script&gt;&amp;amp;") == 10
    assert "old" not in page
    assert '<dd dir="auto">1.25</dd>' in page
    assert "no answer" in page
    assert RELOAD in page
    assert render_run_page("", "", False, [], []).count("refresh") == 0


def play(folder: Path, last: int, error: Exception | None = None) -> str:
    """Make steps of a run of four; return what its page was while it ran."""
    seen = ""
    with ResumableRun(folder, Settings()) as run:
        for step in run.iterate_steps(4, CheckpointParts(), every=2):
            seen = (folder / "run.html").read_text("utf-8")
            if step == last and error:
                raise error
            run.record_metrics(reward=float(step))
            run.record_sample(step=step, said=f"words {step}")
    return seen


def test_the_page_reloads_while_the_run_lasts_and_survives_a_stop(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        play(tmp_path, 3, ZeroDivisionError())
    stopped = (tmp_path / "run.html").read_text("utf-8")
    assert "stopped: ZeroDivisionError, 3 of 4 steps" in stopped
    assert RELOAD not in stopped
    assert "words 2" in stopped
    while_running = play(tmp_path, 4)
    assert "running, 2 of 4 steps" in while_running
    assert RELOAD in while_running
    assert "words 1" in while_running
    finished = (tmp_path / "run.html").read_text("utf-8")
    assert "finished, 4 of 4 steps" in finished
    assert RELOAD not in finished
    assert "words 3" in finished
    [curve] = re.findall(r'<polyline class="line0" points="([^"]*)"/>', finished)
    assert len(curve.split()) == len((tmp_path / "metrics.jsonl").read_bytes().splitlines()) == 4


def test_a_stop_switch_is_told_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "cord").write_text("too <odd>")
    with pytest.raises(Failed):
        play(tmp_path, 4)
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "stopped: too &lt;odd&gt;, 0 of 4 steps" in page
