"""A batch that is answered by workers on a Ray cluster of two nodes, one of which dies."""

import os
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rookery.answers.answer_results import answer_all
from rookery.errors import Failed
from rookery.library.worker_processes import count_ray_processors, map_in_workers
from rookery.records import Failure, Question

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),  # one cluster at a time
    pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed"),
]
QUESTIONS = [Question(f"q{number}", f"What is {number}?") for number in range(40)]


def make_answerer(folder: Path) -> Callable[[], Callable[[Question], str]]:
    """Return a function that makes one that answers, and notes each process that does."""

    def make() -> Callable[[Question], str]:
        def answer(question: Question) -> str:
            (folder / f"{os.getpid()}").touch()
            time.sleep(0.02)  # so that no worker has done all before another has begun
            encoded = question.to_json()
            return f'{{"question":{encoded},"answer":"{question.text.split()[-1]}"}}'

        return answer

    return make


def test_workers_of_a_cluster_write_what_one_process_writes(tmp_path: Path, cluster: Any) -> None:
    make = make_answerer(tmp_path)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    answer_all(QUESTIONS, whole, make, 1)
    assert count_ray_processors(cluster.address) == 4
    before = {path.name for path in tmp_path.iterdir()}
    answer_all(QUESTIONS[:7], out, make, 1)
    answer_all(QUESTIONS, out, make, 3, ray=cluster.address)
    assert out.read_bytes() == whole.read_bytes()
    workers = {path.name for path in tmp_path.iterdir()} - before - {"out.jsonl"}
    assert len(workers) == 3


def test_a_killed_worker_costs_what_it_had_begun(tmp_path: Path, cluster: Any) -> None:
    make = make_answerer(tmp_path)
    expected = list(map_in_workers(QUESTIONS, make, 1))
    (tmp_path / f"{os.getpid()}").unlink()
    lines = []
    for line in map_in_workers(QUESTIONS, make, 2, ray=cluster.address):
        lines.append(line)
        if len(lines) == 5:
            os.kill(min(int(path.name) for path in tmp_path.iterdir()), signal.SIGKILL)
    assert lines == expected
    assert len(list(tmp_path.iterdir())) == 3  # two workers, and one in place of the killed


def test_what_a_worker_raises_is_raised(tmp_path: Path, cluster: Any) -> None:
    def make() -> Callable[[Question], str]:
        def answer(question: Question) -> str:
            raise Failed(Failure(question.id, "no_model", "name another"))

        return answer

    with pytest.raises(Failed, match="name another"):
        list(map_in_workers(QUESTIONS, make, 2, ray=cluster.address))
