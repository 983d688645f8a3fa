"""Machines of a Ray cluster: workers that do the same for many items, and shards of an index.

The machines must see the documents and the folder of the shards under the same paths. Needs
`pip install 'rookery[ray]'`.
"""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

from rookery.errors import Failed, Outcome
from rookery.library.sharded_library import (
    Shard,
    ShardContents,
    ShardProgress,
    ShardTask,
    build_shard,
)
from rookery.library.worker_processes import MAX_RESTARTS, WORKER_DIED, make_function
from rookery.records import Failure

CONNECTION_SECONDS = 10.0


def connect_to_ray(address: str) -> Any:
    """Connect this process to a cluster, once, and return the module ray.

    `address` is "auto", HOST:PORT, ray://HOST:PORT, or "local" for a cluster that ends with this
    process. Raises Failed: not_installed, no_cluster.
    """
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        detail = "ray is not installed: pip install 'rookery[ray]'"
        raise Failed(Failure(address, Outcome.NOT_INSTALLED, detail)) from error
    if not ray.is_initialized():
        try:
            host, _, port = address.removeprefix("ray://").rpartition(":")
            if port.isdigit():  # where nothing listens, ray tries for minutes
                socket.create_connection((host, int(port)), CONNECTION_SECONDS).close()
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            words = " ".join(str(error).split())[:200]
            detail = (
                "no Ray cluster answers there: ray start --head begins one; where one asks for a "
                f"token (~/.ray/auth_token), set RAY_AUTH_MODE=token ({words})"
            )
            raise Failed(Failure(address, Outcome.NO_CLUSTER, detail)) from error
    return ray


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
    submitted = yielded = 0
    try:
        while yielded < len(items):
            # What waits to be given out in order is kept within bounds, too.
            while idle and submitted < min(len(items), yielded + 16 * len(actors)):
                actor = idle.pop(0)
                under_way[actor.call_function.remote(items[submitted])] = submitted, actor
                submitted += 1
            finished, _ = ray.wait([*under_way], timeout=None)
            for reference in finished:
                number, actor = under_way.pop(reference)
                results[number] = _get_result(ray, reference)
                idle.append(actor)
            while yielded in results:
                yield results.pop(yielded)
                yielded += 1
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


OPENING_SECONDS = 60.0
"""for which actors are waited for when a library is opened"""


class RayShard:
    """A shard that an actor holds. Its future raises RayActorError once the actor is dead."""

    def __init__(self, ray: Any, folder: Path, node: str) -> None:
        self._ray = ray
        # soft=True would let a busy cluster put every shard on one machine.
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        # Several calls at once, as threads share a shard on this machine.
        actor = ray.remote(Shard).options(num_cpus=0, max_concurrency=4, scheduling_strategy=place)
        self._actor = actor.remote(folder)

    def submit_call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Call a method of the actor."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def check_ready(self) -> Any:
        """Return the reference of what is done once the actor has opened its shard."""
        return self._actor.__ray_ready__.remote()

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self._actor)


def open_ray_shards(address: str, folders: Sequence[Path]) -> list[RayShard]:
    """Start an actor for each folder of a shard, spread over the machines of the cluster.

    Raises what `connect_to_ray` raises.
    """
    ray = connect_to_ray(address)
    nodes = cycle(sorted(node["NodeID"] for node in ray.nodes() if node["Alive"]))
    shards = [RayShard(ray, folder, node) for folder, node in zip(folders, nodes, strict=False)]
    # The first question must not miss a shard whose process has only begun.
    ready = [shard.check_ready() for shard in shards]
    ray.wait(ready, num_returns=len(ready), timeout=OPENING_SECONDS)
    return shards


def build_shards_with_ray(
    address: str, tasks: Sequence[ShardTask], progress: ShardProgress
) -> list[ShardContents]:
    """Build shards on the machines of a cluster; progress hears of whole shards.

    A task whose machine dies is begun again elsewhere, and goes on where it stopped. Raises what
    `connect_to_ray` and `build_shard` raise, and Failed: worker_died.
    """
    ray = connect_to_ray(address)
    build = ray.remote(build_shard).options(max_retries=3, scheduling_strategy="SPREAD")
    waiting = {build.remote(task): task.number for task in tasks}
    built: dict[int, ShardContents] = {}
    while waiting:
        finished, _ = ray.wait([*waiting])
        for reference in finished:
            number = waiting.pop(reference)
            try:
                built[number] = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, Failed):
                    raise error.cause from None
                raise
            except ray.exceptions.RayError as error:
                words = " ".join(str(error).split())[:200]
                detail = f"run it again, and it goes on where it stopped ({words})"
                raise Failed(Failure(f"shard {number + 1}", Outcome.WORKER_DIED, detail)) from error
            progress(number, built[number].pages, built[number].pages)
    return [built[task.number] for task in tasks]
