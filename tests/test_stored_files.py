"""What versions 0.1 and 0.2 stored is read as it was: answers, an index, shards, a recording, the
archive and desks' stores.

`stored/version_0_2.tar.xz` was written by version 0.2.0 from two documents in /tmp/s/docs, one
about the wells of a parish and one about its ferry; `version_0_1.tar.xz` by version 0.1 (commit
19a6cb7) from two notes, one about rooks and one about jackdaws.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

import rookery
from rookery.library.page_archive import PageArchive

STORED = Path(__file__).parent / "stored" / "version_0_2.tar.xz"
FOLDER = "/tmp/s"
"""where version 0.2 wrote the files"""

pytestmark = pytest.mark.slow


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    with tarfile.open(STORED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def run_rookery(stored: Path, *arguments: str, code: int = 0) -> str:
    """Run a command in the unpacked folder, whose data it finds there, and return its output."""
    places = {"XDG_DATA_HOME": str(stored / "data"), "XDG_CACHE_HOME": str(stored / "cache")}
    ran = subprocess.run(
        [sys.executable, "-m", "rookery", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **places, "OMP_NUM_THREADS": "1"},
        cwd=stored,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran.stdout


def load_answer(saved: Path) -> rookery.Answer:
    return rookery.Answer.from_json(json.dumps(json.loads(saved.read_bytes())["answer"]))


def restore_origin(stored: Path, output: str) -> str:
    """Name the folder and the version of the stored files in place of today's."""
    version = f'"version":"{rookery.__version__}"'
    assert version in output
    later = '"choose_by":"","reward":"","context_tokens":null,'
    output = output.replace(later, "")
    return output.replace(str(stored), FOLDER).replace(version, '"version":"0.2.0"')


def test_stored_shards_are_to_be_built_anew_for_their_vectors(stored: Path) -> None:
    asked = ("ask", "How deep is the well at Church Row?", "--in", "shards", "--json")
    output = run_rookery(stored, *asked, code=4)
    assert "another version made it: build it anew, shards with `rookery index build`" in output


def test_a_stored_recording_replays_with_the_same_bytes(stored: Path) -> None:
    output = run_rookery(
        stored,
        *("ask", "When does the ferry not run?", "--in", "shards", "--method", "webglm"),
        *("--model", "script:script.jsonl", "--offline", "--json"),
    )
    written = (stored / "written.json").read_text(encoding="utf-8")
    assert restore_origin(stored, output) == written.replace('"worth":0.0,', "")  # is gone since


def test_what_was_not_recorded_is_not_made_up(stored: Path) -> None:
    with pytest.raises(AssertionError, match="offline"):
        run_rookery(
            stored,
            *("ask", "Who steers the ferry?", "--in", "shards", "--method", "webglm"),
            *("--model", "script:script.jsonl", "--offline", "--json"),
        )


@pytest.mark.parametrize("name", ["answer.json", "written.json"])
def test_quotes_of_stored_answers_verify_against_the_stored_archive(
    stored: Path, name: str
) -> None:
    answer = load_answer(stored / name)
    with PageArchive(stored / "data" / "rookery" / "archive.sqlite") as archive:
        verdicts = rookery.verify(answer, archive.find_quoted)
    assert [verdict.outcome for verdict in verdicts] == ["verified"]


def test_a_stored_desk_opens_and_exports_its_comparison(stored: Path) -> None:
    run_rookery(stored, "judge", "init")
    run_rookery(stored, "judge", "export", "judged")
    (line,) = (stored / "judged" / "comparisons.jsonl").read_text(encoding="utf-8").splitlines()
    comparison = rookery.Comparison.from_json(line)
    assert comparison.question.text == "How deep is the well at Church Row?"
    assert comparison.answers[0] == load_answer(stored / "answer.json")
    assert comparison.answers[1].text == "It was dug in 1871."
    assert (comparison.weights, comparison.by) == ((0.0, 1.0), "Ada")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    with tarfile.open(STORED.with_name("version_0_1.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("name", ["answer.json", "trace.jsonl", "batch.jsonl"])
def test_answers_of_version_0_1_verify(first: Path, name: str) -> None:
    assert "verified  " in run_rookery(first, "cite", "verify", name)


def test_a_folder_that_version_0_1_indexed_is_asked(first: Path) -> None:
    asked = ("ask", "What do jackdaws eat?", "--in", "notes", "--json")
    answer = rookery.Answer.from_json(json.dumps(json.loads(run_rookery(first, *asked))["answer"]))
    assert "beetles" in answer.quotes[0].text
    assert "made by an older version" in run_rookery(first, "index", "list")


def test_a_desk_of_version_0_1_says_what_upgrades_it_and_keeps_its_rows(first: Path) -> None:
    place = first / "data" / "rookery" / "desk.sqlite"

    def count_rows() -> dict[str, int]:
        with closing(sqlite3.connect(place)) as connection:
            return {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("people", "items", "judgements")
            }

    before = count_rows()
    assert min(before.values()) > 0
    run_rookery(first, "judge", "stats", code=2)
    run_rookery(first, "serve", "--in", "notes", code=4)
    run_rookery(first, "judge", "init")
    assert count_rows() == before
    run_rookery(first, "judge", "invite", "ben", "--role", "labeller")
