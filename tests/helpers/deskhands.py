"""People at a desk who compare while a model learns, made up: each likes vowels."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labelling import vowels

from rookery.desk import labelling_queue
from rookery.desk.forms import Judgement
from rookery.desk.labelling_queue import ItemLease
from rookery.desk.store import Store


def judgement(lease: ItemLease, best: int) -> Judgement:
    """What somebody makes of an item who finds this answer the best."""
    four = lease.item.form == "best_of_four"
    filled = {"best": best} if four else {"overall": (-2, 1)[best]}
    now = time.time()
    return Judgement(
        "", lease.item_id, lease.person, "done", filled, "", 1, (), False, lease.began, now
    )


def likes_vowels(lease: ItemLease) -> int:
    rewards = [vowels(lease.item.question, answer) for answer in lease.item.answers]
    return rewards.index(max(rewards))


def judge(store: Store, name: str, choose: Callable[[ItemLease], int] = likes_vowels) -> bool:
    """Whether there was something to do."""
    lease = labelling_queue.claim_item(store, name)
    if lease is not None:
        labelling_queue.submit_judgement(store, lease.token, name, judgement(lease, choose(lease)))
    return lease is not None


@contextmanager
def at_work(store: Store, *names: str) -> Iterator[None]:
    """People who work at the desk in the meantime, each at a screen of their own."""
    over = threading.Event()

    def work(name: str) -> None:
        with Store(store.place) as mine:
            while not over.is_set():
                if not judge(mine, name):
                    over.wait(0.01)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
