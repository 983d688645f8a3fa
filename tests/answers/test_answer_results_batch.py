"""A batch: in order, on several processes, and the same file however often it was killed."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from rookery.answers.answer_results import JsonLineAnswerer, answer_all, resume_output
from rookery.library.worker_processes import map_in_workers
from rookery.records import Question

QUESTIONS = [Question(str(n), f"Question {n}?") for n in range(40)]


def slow_line(question: Question) -> str:
    time.sleep(0.02 if int(question.id) % 7 else 0.06)
    return '{"question":' + question.to_json() + "}"


def make_slow() -> JsonLineAnswerer:
    return slow_line


def slower_line(question: Question) -> str:
    time.sleep(0.3)
    return slow_line(question)


def make_slower() -> JsonLineAnswerer:
    return slower_line


def failing_line(question: Question) -> str:
    if question.id == "5":
        raise ValueError("question 5 cannot be answered")
    return slow_line(question)


def make_failing() -> JsonLineAnswerer:
    return failing_line


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("whole") / "out.jsonl"
    assert answer_all(QUESTIONS, out, make_slow, 1) == 0
    return out.read_bytes()


@pytest.mark.slow
def test_two_processes_write_what_one_writes_in_order(tmp_path: Path, whole: bytes) -> None:
    seen: list[int] = []
    answer_all(QUESTIONS, tmp_path / "out.jsonl", make_slow, 2, seen.append)
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    assert seen == list(range(41))


@pytest.mark.parametrize("zeros", [0, 700])
@pytest.mark.parametrize("cut", [0, 1, 30, 500, -1])
def test_a_file_cut_anywhere_is_completed_to_the_same_bytes(
    tmp_path: Path, whole: bytes, cut: int, zeros: int
) -> None:
    """Where the power was lost, zeros may stand in place of what was written last."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(whole[:cut] + bytes(zeros))
    done = answer_all(QUESTIONS, out, make_slow, 1)
    assert done == whole[:cut].count(b"\n")
    assert out.read_bytes() == whole


def test_a_file_of_other_questions_is_left_alone(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "out.jsonl"
    out.write_bytes(whole)
    with pytest.raises(ValueError, match="line 1 does not answer the question of that line"):
        resume_output(out, QUESTIONS[1:])
    with pytest.raises(ValueError, match="line 31 does not answer"):
        resume_output(out, QUESTIONS[:30])
    out.write_text("not an answer\n")
    with pytest.raises(ValueError, match="name another --out"):
        resume_output(out, QUESTIONS)
    assert out.read_text() == "not an answer\n"


def test_an_error_keeps_what_was_written_before_it(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(ValueError, match="question 5 cannot be answered"):
        answer_all(QUESTIONS, out, make_failing, 2)
    assert out.read_bytes() == b"".join(whole.splitlines(keepends=True)[:5])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_failed_batch_ends_its_own_processes_and_no_others() -> None:
    with pytest.raises(OSError, match="/dev/full") as failed:
        answer_all(QUESTIONS, Path("/dev/full"), make_slow, 2)
    until = time.monotonic() + 60
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)  # whoever else waits for them may not have said yet that they ended
    assert multiprocessing.active_children() == []
    abandoned = map_in_workers(QUESTIONS, make_slow, 2)
    next(abandoned)
    own = set(multiprocessing.active_children())
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        process = other.submit(os.getpid).result()
        del failed, abandoned
        gc.collect()
        assert other.submit(os.getpid).result() == process
    for worker in own:
        worker.join()


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_answer_results_batch import QUESTIONS, make_slower
from rookery.answers.answer_results import answer_all
if __name__ == "__main__":
    answer_all(QUESTIONS, Path(sys.argv[1]), make_slower, 2)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX process groups")
def test_a_killed_batch_leaves_no_workers_and_resumes(tmp_path: Path, whole: bytes) -> None:
    out, script = tmp_path / "out.jsonl", tmp_path / "killed.py"
    script.write_text(KILLED)
    here = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, str(script), str(out), here], process_group=0) as batch:
        while not out.exists() or out.stat().st_size < 200:
            assert batch.poll() is None
            time.sleep(0.01)
        batch.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while _group_lives(batch.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _group_lives(batch.pid)
    assert 0 < len(out.read_bytes()) < len(whole)
    assert answer_all(QUESTIONS, out, make_slow, 1) > 0
    assert out.read_bytes() == whole


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def make_nothing() -> JsonLineAnswerer:
    raise ValueError("name another model")


@pytest.mark.slow
def test_what_is_raised_before_the_first_question_is_raised() -> None:
    with pytest.raises(ValueError, match="name another model"):
        list(map_in_workers(QUESTIONS, make_nothing, 2))
