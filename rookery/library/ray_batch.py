"""Do the same for many items, such as questions, by workers on the machines of a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rookery.errors import Failed
from rookery.library.ray_cluster import connect_to_ray
from rookery.library.worker_processes import MAX_RESTARTS, WORKER_DIED, make_function

T = TypeVar("T")
R = TypeVar("R")
_QUEUED_PER_WORKER = 4
"""items that a worker has before it, so that it never waits for the next"""


class _Worker:
    """Runs in an actor: makes the function once, and calls it."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._function = make_function(make)

    def call_function(self, item: Any) -> Any:
        return self._function(item)


def map_with_ray(
    items: Sequence[T], make: Callable[[], Callable[[T], R]], workers: int, address: str
) -> Iterator[R]:
    """Yield what a function returns for each item, in the order of the items.

    `make` returns the function, and is called once in each worker, on whatever machine that is. A
    worker that dies is started again, elsewhere where its machine is gone, and is given again what
    it had not done: no other result is lost. Raises what `connect_to_ray`, `make` and the function
    raise, and ChildProcessError where workers die again and again.
    """
    ray = connect_to_ray(address)
    worker = ray.remote(_Worker).options(
        max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS, scheduling_strategy="SPREAD"
    )
    idle: list[Any] = []
    actors = [worker.remote(make) for _ in range(max(1, min(workers, len(items))))]
    idle += actors * _QUEUED_PER_WORKER
    under_way: dict[Any, tuple[int, Any]] = {}
    results: dict[int, R] = {}
    asked = given = 0
    try:
        while given < len(items):
            # What waits to be given out in order is kept within bounds, too.
            while idle and asked < min(len(items), given + 16 * len(actors)):
                actor = idle.pop(0)
                under_way[actor.call_function.remote(items[asked])] = asked, actor
                asked += 1
            done, _ = ray.wait([*under_way], timeout=None)
            for reference in done:
                number, actor = under_way.pop(reference)
                results[number] = _get_result(ray, reference)
                idle.append(actor)
            while given in results:
                yield results.pop(given)
                given += 1
    finally:
        for actor in actors:
            ray.kill(actor)


def _get_result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Failed):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        why = str(error).strip().rpartition("\n")[2]
        raise ChildProcessError(f"{WORKER_DIED} ({why})") from error


def count_ray_processors(address: str) -> int:
    """Return the number of processors of a cluster. Raises what `connect_to_ray` raises."""
    return int(connect_to_ray(address).cluster_resources().get("CPU", 1))
