"""What version 0.2 stored is read as it was: shards, a recording, the archive and a desk's store.

`stored/version_0_2.tar.xz` was written by version 0.2.0 from two documents in /tmp/s/docs, one
about the wells of a parish and one about its ferry.
"""

import json
import os
import subprocess
import sys
import tarfile
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
