"""Worker processes: signals while they start, and the end of their parent."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from threading import Thread, current_thread, main_thread

_HANDLED_BY_PARENT = (signal.SIGINT, signal.SIGTERM)


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
    Thread(target=_exit_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this worker as SIGTERM does when its parent has ended: one that was killed cannot.

    For servers that several processes run, which would go on and keep their port.
    """
    Thread(target=_terminate_with_parent, daemon=True).start()


def _terminate_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _exit_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
