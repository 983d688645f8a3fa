"""The scripts of examples/ run as written, and stay short."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import rookery

EXAMPLES = Path(__file__).parent.parent / "examples"
CORVIDS = Path(rookery.__file__).parent / "library" / "corvids"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def run_example(home: Path, name: str, *arguments: object) -> str:
    """Run a script in an environment of its own and return what it printed."""
    places = {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **places, "OMP_NUM_THREADS": "1"},
        cwd=home,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and comparisons, as `rookery learn example` writes them."""
    folder = tmp_path_factory.mktemp("lessons") / "first"
    subprocess.run(
        [sys.executable, "-m", "rookery", "learn", "example", str(folder)],
        capture_output=True,
        check=True,
    )
    return folder


@pytest.fixture
def site() -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=CORVIDS))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    server.shutdown()
    server.server_close()


def test_there_are_eight_of_25_lines_at_most() -> None:
    assert len(NAMES) == 8
    lengths = {name: len((EXAMPLES / f"{name}.py").read_text().splitlines()) for name in NAMES}
    assert max(lengths.values()) <= 25, lengths


@pytest.mark.slow
def test_ask_folder(tmp_path: Path) -> None:
    printed = run_example(tmp_path, "ask_folder")
    assert "left behind" in printed or "bring gifts" in printed
    assert printed.count("verified") >= 1


@pytest.mark.slow
def test_ask_site(tmp_path: Path, site: str) -> None:
    printed = run_example(tmp_path, "ask_site", site, "How many seeds does a nutcracker hide?")
    assert "seeds" in printed
    assert "http://127.0.0.1" in printed


@pytest.mark.slow
def test_answer_batch(tmp_path: Path) -> None:
    questions, out = tmp_path / "questions.txt", tmp_path / "answers.jsonl"
    questions.write_text("Why do crows bring gifts?\n\nHow high does Mount Everest rise?\n")
    printed = run_example(tmp_path, "answer_batch", questions, CORVIDS, out)
    episodes = [rookery.Episode.from_json(line) for line in out.read_bytes().splitlines()]
    assert [episode.question.id for episode in episodes] == ["1", "2"]
    assert "0 failed" in printed


@pytest.mark.slow
def test_browse_and_quote(tmp_path: Path) -> None:
    printed = run_example(tmp_path, "browse_and_quote")
    assert printed.rstrip().endswith("faces.html")
    assert "“Crows can recognise individual human faces”" in printed


@pytest.mark.slow
def test_verify_answer(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    rooks = tmp_path / "pages" / "rooks.md"
    rooks.write_text("# Rooks\n\nRooks nest in tall elms near open farm land.\n")
    answer = tmp_path / "answer.md"
    answer.write_text(
        "They say: “Rooks nest in tall elms near open farm land” [1]. They also say “Rooks never "
        "nest in tall elms near open farm land” [1].\n\n[1]: pages/rooks.md\n"
    )
    printed = run_example(tmp_path, "verify_answer", answer, tmp_path / "pages")
    outcomes = [line.split()[0] for line in printed.splitlines()]
    assert outcomes == ["verified", "not_found", "quoted"]


@pytest.mark.slow
def test_local_model(tmp_path: Path, lessons: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "rooks.md").write_text("Rooks nest in tall elms near open farm land.\n")
    printed = run_example(tmp_path, "local_model", lessons / "tiny", tmp_path / "pages")
    assert printed.startswith("ended as ")
    assert "prompt_too_long" not in printed


@pytest.mark.slow
def test_best_of_n(tmp_path: Path) -> None:
    printed = run_example(tmp_path, "best_of_n")
    rewards = [float(word) for word in printed.splitlines()[0].split()[1:]]
    assert len(rewards) == 4
    assert "seeds" in printed


@pytest.mark.slow
def test_train_on_judgements(tmp_path: Path, lessons: Path) -> None:
    few = tmp_path / "few.jsonl"
    lines = (lessons / "comparisons.jsonl").read_text(encoding="utf-8").splitlines()[:80]
    few.write_text("\n".join(lines) + "\n", encoding="utf-8")
    printed = run_example(
        tmp_path, "train_on_judgements", few, lessons / "tiny", tmp_path / "reward"
    )
    assert (tmp_path / "reward" / "model" / "model.safetensors").exists()
    assert "accuracy on held-out pairs" in printed
