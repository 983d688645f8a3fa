"""Worker processes: how they start and end, and a map over many items by several of them."""

import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread, current_thread, main_thread
from typing import Any, NoReturn, TypeVar

from rookery.errors import Failed, Outcome
from rookery.records import Failure

T = TypeVar("T")
R = TypeVar("R")
_HANDLED_BY_PARENT = (signal.SIGINT, signal.SIGTERM)
_QUEUED_PER_WORKER = 16
"""questions per worker that are submitted ahead of the next line to be written"""
MAX_RESTARTS = 3
"""times in a row that workers which died are replaced"""
WORKER_DIED = (
    "worker processes died again and again, perhaps for lack of memory; what was answered is kept: "
    "run the same command again, with fewer --workers"
)
CONNECTION_SECONDS = 10.0
_worker_function: list[Callable[[Any], Any]] = []
"""the function of a worker process, set once when it starts"""


@contextmanager
def hold_signals() -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM when this ends: half a started process could not be ended.

    Processes that are started meanwhile get neither before `prepare_worker`. Use it for what makes
    queues, and again for what starts processes: the first starts multiprocessing's resource
    tracker, which lets the signals through afterwards.
    """
    came: list[int] = []
    alone = current_thread() is main_thread()  # which handles the signals of all threads
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (_HANDLED_BY_PARENT if alone else ())
    }
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_BY_PARENT) if masks else ()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came:
            signal.raise_signal(came[0])


def prepare_worker() -> None:
    """Ignore Ctrl-C and SIGTERM in this worker, and exit when its parent has ended.

    Ctrl-C reaches every process of a terminal; the parent handles it and kills its workers. A
    parent that was killed cannot.
    """
    for number in _HANDLED_BY_PARENT:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_BY_PARENT)
    Thread(target=_follow_parent, args=(os._exit, 1), daemon=True).start()


def end_with_parent() -> None:
    """End this worker as SIGTERM does when its parent has ended: one that was killed cannot.

    For servers that several processes run, which would go on and keep their port.
    """
    arguments = (os.kill, os.getpid(), signal.SIGTERM)
    Thread(target=_follow_parent, args=arguments, daemon=True).start()


def _follow_parent(end: Callable[..., object], *arguments: int) -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        end(*arguments)


def map_in_workers(
    items: Sequence[T],
    make: Callable[[], Callable[[T], R]],
    workers: int,
    threads: bool = False,
    ray: str = "",
) -> Generator[R, None, None]:
    """Yield what a function returns for each item, such as a question, in the order of the items.

    `make` returns the function. It must be picklable and is called once in each of
    `workers` processes; with `threads` it is called once and its function shared by threads. With
    fewer than two workers or items, everything runs in the calling thread. With `ray` the
    workers are on the machines of the cluster at that address. Where a process dies, all are
    started anew, and what was under way is done again; nothing that was done is. Closing the
    generator kills the processes. Raises ChildProcessError where processes die again and again, and
    what `make` and the function raise.
    """
    if ray:
        yield from map_with_ray(items, make, workers, ray)
        return
    if workers < 2 or len(items) < 2:
        function = make()
        yield from (function(item) for item in items)
        return
    started, most = _TrackedContext(), workers * _QUEUED_PER_WORKER

    def start_pool() -> Executor:
        if threads:
            return ThreadPoolExecutor(workers)
        with hold_signals():
            return ProcessPoolExecutor(workers, started, _start_worker, (make,))

    function = make() if threads else _call_in_worker
    pool, waiting, restarts = start_pool(), iter(items), 0
    under_way: list[tuple[T, Future[R] | None]] = []
    try:
        while True:
            under_way += [(item, None) for item in islice(waiting, most - len(under_way))]
            if not under_way:
                break
            try:
                with nullcontext() if threads else hold_signals():
                    submitted = [
                        (each, at or pool.submit(function, each)) for each, at in under_way
                    ]
                under_way = [*submitted]
                result = submitted[0][1].result()
            except BrokenProcessPool as error:
                if (restarts := restarts + 1) > MAX_RESTARTS:
                    raise ChildProcessError(WORKER_DIED) from error
                started.kill_processes()  # what the others are doing is done again, too
                pool = start_pool()
                under_way = [(each, at if _is_finished(at) else None) for each, at in under_way]
            else:
                restarts = 0
                del under_way[0]
                yield result
        pool.shutdown()
    except BaseException:
        started.kill_processes()  # they may wait long for a slow server: it is not wanted
        # The thread that feeds processes is waited for, or it may close a pipe which Python 3.11
        # writes to when it exits; threads may wait for a slow server themselves.
        pool.shutdown(wait=not threads, cancel_futures=True)
        raise


def _is_finished(future: Future[Any] | None) -> bool:
    """Return whether there is a result, or an error that is not the death of a process."""
    if future is None or not future.done():
        return False
    return not isinstance(future.exception(), BrokenProcessPool)


def choose_worker_count(workers: int, ray: str) -> int:
    """Return the number of workers; 0: one for each processor of this machine, or of the cluster.

    Raises what `connect_to_ray` raises.
    """
    if workers or not ray:
        return workers or count_cores()
    return count_ray_processors(ray)


class _TrackedContext(SpawnContext):
    """A spawn context that keeps its processes, so that a pool's own ones can be killed."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[SpawnProcess] = []

    # SpawnContext has a class of this name, which a pool calls as it will call this method.
    def Process(self, *arguments: Any, **named: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Create a process and keep it."""
        self.processes.append(SpawnProcess(*arguments, **named))
        return self.processes[-1]

    def kill_processes(self) -> None:
        """Kill those that were started, and wait until they have ended."""
        begun = [process for process in self.processes if process.pid is not None]
        for process in begun:
            process.kill()
        for process in begun:
            process.join()


def _start_worker(make: Callable[[], Callable[[Any], Any]]) -> None:
    prepare_worker()
    _worker_function[:] = [make_function(make)]


def make_function(make: Callable[[], Callable[[T], R]]) -> Callable[[T], R]:
    """Return what `make` returns or, where it raises, a function that raises the same.

    A worker that raises as it starts is only known to have died.
    """
    try:
        return make()
    except Exception as error:
        return partial(_raise_error, error)


def _raise_error(error: Exception, item: object) -> NoReturn:
    raise error


def _call_in_worker(item: Any) -> Any:
    return _worker_function[0](item)


def count_cores() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


class _RayWorker:
    """Runs in an actor: makes the function once, and calls it."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._function = make_function(make)

    def call_function(self, number: int, item: Any) -> tuple[int, Any]:
        return number, self._function(item)


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
    worker = ray.remote(_RayWorker).options(
        max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS, scheduling_strategy="SPREAD"
    )
    actors = [worker.remote(make) for _ in range(max(1, min(workers, len(items))))]
    results, yielded = dict[int, R](), 0
    try:
        for number, result in ray.util.ActorPool(actors).map_unordered(
            lambda actor, numbered: actor.call_function.remote(*numbered), enumerate(items)
        ):
            results[number] = result
            while yielded in results:
                yield results.pop(yielded)
                yielded += 1
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Failed):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        why = str(error).strip().rpartition("\n")[2]
        raise ChildProcessError(f"{WORKER_DIED} ({why})") from error
    finally:
        for actor in actors:
            ray.kill(actor)


def count_ray_processors(address: str) -> int:
    """Return the number of processors of a cluster. Raises what `connect_to_ray` raises."""
    return int(connect_to_ray(address).cluster_resources().get("CPU", 1))
