"""Shards on the machines of a Ray cluster: built by tasks, searched by actors.

The machines must see the documents and the folder of the shards under the same paths. Needs
`pip install 'rookery[ray]'`.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from itertools import cycle
from pathlib import Path
from typing import Any

from rookery.errors import Failed, Outcome
from rookery.library.ray_cluster import connect_to_ray
from rookery.library.shards import Shard, ShardContents, ShardProgress, ShardTask, build_shard
from rookery.records import Failure

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
                raise Failed(Failure(f"shard {number + 1}", Outcome.WORKER_DIED, detail)) from error
            progress(number, built[number].pages, built[number].pages)
    return [built[task.number] for task in tasks]
