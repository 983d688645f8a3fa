"""Answer many questions by workers on the machines of a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rookery.browse.ray_cluster import connect_to_ray
from rookery.draft.batch import WORKER_DIED, JsonLineAnswerer
from rookery.records import Failed, Question

_QUEUED_PER_WORKER = 4
"""questions that a worker has before it, so that it never waits for the next"""
_RESTARTS = 3


class _Worker:
    """Runs in an actor: makes the function that answers once, and calls it."""

    def __init__(self, make: Callable[[], JsonLineAnswerer]) -> None:
        self._answer = make()

    def answer(self, question: Question) -> str:
        return self._answer(question)


def answer_with_ray(
    questions: Sequence[Question],
    make: Callable[[], JsonLineAnswerer],
    workers: int,
    address: str,
) -> Iterator[str]:
    """Yield the line of JSON that answers each question, in the order of the questions.

    `make` is called once in each worker, on whatever machine that is. A worker that dies is started
    again, elsewhere where its machine is gone, and is asked again what it had not answered: no
    other answer is lost. Raises what `connect_to_ray` and `make` raise, and ChildProcessError where
    workers die again and again.
    """
    ray = connect_to_ray(address)
    worker = ray.remote(_Worker).options(
        max_restarts=_RESTARTS, max_task_retries=_RESTARTS, scheduling_strategy="SPREAD"
    )
    idle: list[Any] = []
    actors = [worker.remote(make) for _ in range(max(1, min(workers, len(questions))))]
    idle += actors * _QUEUED_PER_WORKER
    under_way: dict[Any, tuple[int, Any]] = {}
    lines: dict[int, str] = {}
    asked = given = 0
    try:
        while given < len(questions):
            # What waits to be given out in order is kept within bounds, too.
            while idle and asked < min(len(questions), given + 16 * len(actors)):
                actor = idle.pop(0)
                under_way[actor.answer.remote(questions[asked])] = asked, actor
                asked += 1
            done, _ = ray.wait([*under_way], timeout=None)
            for reference in done:
                number, actor = under_way.pop(reference)
                lines[number] = _get_line(ray, reference)
                idle.append(actor)
            while given in lines:
                yield lines.pop(given)
                given += 1
    finally:
        for actor in actors:
            ray.kill(actor)


def _get_line(ray: Any, reference: Any) -> str:
    try:
        return str(ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Failed):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise ChildProcessError(WORKER_DIED) from error


def count_ray_processors(address: str) -> int:
    """Return the number of processors of a cluster. Raises what `connect_to_ray` raises."""
    return int(connect_to_ray(address).cluster_resources().get("CPU", 1))
