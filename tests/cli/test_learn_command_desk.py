"""`rookery learn reinforce --desk`: people compare while it learns, and anyone stops it."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run
from deskhands import at_work

from rookery.cli.learn_example import write_example
from rookery.desk import stop_switch
from rookery.desk.accounts import add_person
from rookery.desk.store import Store, initialize_store
from rookery.shell.command_line import EXIT_STOPPED

FILE = """
paper = "rloo"
[world]
kind = "quotes"
questions = "HERE/questions.jsonl"
in = ["rookery:corvids"]
held_out = 0.5
tried = 4
group = 2
[world.quotes]
pages = 1
budget = 150
before = 0
[settings]
steps = 2
episodes = 6
every = 1
[settings.policy]
model = "HERE/tiny"
[settings.optimising]
rate = 1e-2
[settings.sampling]
max_tokens = 48
[labels]
initial = 4
labels = 6
trainings = 2
answers = 2
validation = 0.5
samples = 4
[labels.prefer]
validation = 0.0
context = 200
[labels.prefer.trained]
model = "HERE/tiny"
[desk]
name = "crows"
rest = 0
every = 0.02
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, and a few questions."""
    place = tmp_path_factory.mktemp("shelf")
    write_example(place / "example")
    shutil.copytree(place / "example" / "tiny", place / "tiny")
    lines = (place / "example" / "questions.jsonl").read_bytes().splitlines(keepends=True)
    (place / "questions.jsonl").write_bytes(b"".join(lines[:4]))
    return place


@pytest.fixture
def file(shelf: Path, tmp_path: Path) -> Path:
    place = tmp_path / "reinforce.toml"
    place.write_text(FILE.replace("HERE", str(shelf)), encoding="utf-8")
    return place


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    initialize_store(str(tmp_path / "desk.sqlite"))
    with Store(str(tmp_path / "desk.sqlite")) as opened:
        add_person(opened, "ada", "labeller")
        add_person(opened, "rex", "reviewer")
        yield opened


def learnt(out: Path) -> dict[str, bytes]:
    """The files of a run that tell of its steps."""
    return {path.name: path.read_bytes() for path in out.glob("*.jsonl")}


@pytest.mark.slow
def test_people_at_a_desk_teach_a_policy_by_one_command_that_any_of_them_may_stop(
    run: Run, file: Path, store: Store, tmp_path: Path
) -> None:
    command = ("learn", "reinforce", "--config", file, "--out", tmp_path / "run")
    over = threading.Event()

    def pull() -> None:
        with Store(store.place) as mine:
            while not over.wait(0.01):
                if any(one.name == "crows" for one in stop_switch.list_training_runs(mine)):
                    stop_switch.stop_run(mine, "crows", "ada", "it swears")
                    return

    thread = threading.Thread(target=pull)
    thread.start()
    code, out, err = run(*command, "--desk", store.place)
    over.set()
    thread.join()
    assert (code, out) == (EXIT_STOPPED, "")
    assert err.startswith("rookery: stopped: ada stopped it at the desk: it swears; ")
    assert "second person" in err
    made = learnt(tmp_path / "run")
    assert run(*command, "--desk", store.place)[:2] == (
        EXIT_STOPPED,
        "",
    )  # and does not begin again
    assert learnt(tmp_path / "run") == made
    [(pulled, _)] = stop_switch.list_run_stops(store, "crows")
    stop_switch.release_run(store, pulled.number, "rex", "it read a page that does")
    with at_work(store, "ada"):
        code, out, err = run(*command, "--desk", store.place)
    assert (code, err) == (0, "")
    assert "people compared 6 times; reward model: " in out
    assert "questions that were held out, before -> after:" in out
    assert stop_switch.load_training_run(store, "crows").ended == "finished"
    assert len(stop_switch.list_newest_samples(store, "crows", 9)) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "name its store, --desk STORE"),
        ("initial = 4", "initial = 9", "there must be an initial label"),
        ("answers = 2", "answers = 6", "2, 3 or 4 answers"),
        ("[world]\n", '[world]\nreward = "HERE"\n', "give either world.reward"),
        ("rest = 0", "rest = -1", "rest and grace"),
        ("rest = 0", "rests = 0", "rests"),
    ],
)
def test_a_file_that_says_too_much_or_too_little_is_told(
    run: Run, file: Path, store: Store, tmp_path: Path, old: str, new: str, said: str
) -> None:
    file.write_text(file.read_text().replace(old, new, 1))
    at = ("--desk", store.place) if new else ()
    code, _, err = run("learn", "reinforce", "--config", file, "--out", tmp_path / "run", *at)
    assert (code, err.count("\n")) == (2, 1)
    assert said in err


def test_a_store_that_is_none_is_told(run: Run, file: Path, tmp_path: Path) -> None:
    at = ("--out", tmp_path / "run", "--desk", tmp_path / "none.sqlite")
    code, _, err = run("learn", "reinforce", "--config", file, *at)
    assert (code, "rookery judge init" in err) == (2, True)
