"""How the time of some work grows with its size, whatever the machine and its load."""

import time
from collections.abc import Callable

TIMES = 8
"""that a text is longer: linear work takes 8 times as long, quadratic work 64 times"""
AT_MOST = 24.0
"""times as long: between the two, three times off from either"""
SHORTEST = 0.002
"""seconds of CPU of the smaller work, below which what does not grow with it would count"""


def growth_of(work: Callable[[int], object], size: int) -> float:
    """The CPU time of work(8 * n) over that of work(n), for an n from `size` on that takes some
    time. Each is the least of three."""
    while (small := cpu_time(work, size)) < SHORTEST:
        size *= 2
    return cpu_time(work, TIMES * size) / small


def cpu_time(work: Callable[[int], object], size: int) -> float:
    """Seconds of CPU, the least of three."""
    taken = []
    for _ in range(3):
        begun = time.process_time()
        work(size)
        taken.append(time.process_time() - begun)
    return min(taken)
