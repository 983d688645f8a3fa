"""Shards on the machines of a Ray cluster: built by tasks, searched by actors.

The machines must see the documents and the folder of the shards under the same paths. Needs
`pip install 'rookery[ray]'`.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rookery.browse.shards import Shard, ShardContents, ShardProgress, ShardTask, build_shard
from rookery.records import Failed, Failure


def connect_to_ray(address: str) -> Any:
    """Connect this process to a cluster, once, and return the module ray.

    `address` is "auto", HOST:PORT, ray://HOST:PORT, or "local" for a cluster that ends with this
    process. Raises Failed: not_installed, no_cluster.
    """
    try:
        import ray
    except ImportError as error:
        detail = "ray is not installed: pip install 'rookery[ray]'"
        raise Failed(Failure(address, "not_installed", detail)) from error
    if not ray.is_initialized():
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            words = " ".join(str(error).split())[:200]
            detail = f"no Ray cluster answers there: ray start --head begins one ({words})"
            raise Failed(Failure(address, "no_cluster", detail)) from error
    return ray


class RayShard:
    """A shard that an actor holds. Its future raises RayActorError once the actor is dead."""

    def __init__(self, ray: Any, folder: Path) -> None:
        self._ray = ray
        # Several calls at once, as threads share a shard on this machine.
        actor = ray.remote(Shard).options(max_concurrency=4, scheduling_strategy="SPREAD")
        self._actor = actor.remote(folder)

    def submit(self, method: str, *arguments: Any) -> "Future[Any]":
        """Call a method of the actor."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self._actor)


def open_ray_shards(address: str, folders: Sequence[Path]) -> list[RayShard]:
    """Start an actor for each folder of a shard, spread over the machines of the cluster.

    Raises what `connect_to_ray` raises.
    """
    ray = connect_to_ray(address)
    return [RayShard(ray, folder) for folder in folders]


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
        done, _ = ray.wait([*waiting])
        for reference in done:
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
                raise Failed(Failure(f"shard {number + 1}", "worker_died", detail)) from error
            progress(number, built[number].pages, built[number].pages)
    return [built[task.number] for task in tasks]
