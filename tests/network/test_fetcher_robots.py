"""robots.txt as RFC 9309 has it, and turns at a host."""

import threading
import time
import tracemalloc

import pytest

from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import (
    HostRateLimiter,
    RobotsCache,
    merge_other_agents,
    parse_product_token,
    permits_all_robots,
)

SOON = 60.0


class Sites:
    """robots.txt by origin; a FetchError is raised instead of given."""

    def __init__(self, answers: dict[str, str | FetchError]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def read(self, url: str, until: float) -> str:
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, FetchError):
            raise answer
        return answer


def permitted(text: str | FetchError, path: str, agent: str = "rookery/0.1 (test)") -> str:
    """The outcome of a check, "" where it is permitted."""
    robots = RobotsCache(Sites({"http://h/robots.txt": text}).read, agent)
    try:
        robots.check_permission(normalize_url(f"http://h{path}"), time.monotonic() + SOON)
    except FetchError as error:
        return error.outcome
    return ""


RULES = """
User-agent: *
Disallow: /private/
Allow: /private/open.html
Disallow: /*.pdf$

User-agent: Rookery
User-agent: other
Disallow: /ours/
Crawl-delay: 3
"""


def test_rules_for_this_robot_replace_those_for_all() -> None:
    assert permitted(RULES, "/ours/a") == "robots"
    assert permitted(RULES, "/private/a") == ""
    assert permitted(RULES, "/ours/a", "somebody/1") == ""
    assert permitted(RULES, "/private/a", "somebody/1") == "robots"
    assert permitted(RULES, "/private/open.html", "somebody/1") == ""
    assert permitted(RULES, "/a/b.pdf", "somebody/1") == "robots"
    assert permitted(RULES, "/a/b.pdf?x", "somebody/1") == ""


def test_the_delay_is_told() -> None:
    robots = RobotsCache(Sites({"http://h/robots.txt": RULES}).read, "rookery/1")
    assert robots.check_permission(normalize_url("http://h/a"), time.monotonic() + SOON) == 3.0


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ("http_404", ""),
        ("http_401", ""),
        ("http_403", ""),
        ("too_many_redirects", ""),
        ("http_429", "robots"),
        ("http_500", "robots"),
        ("http_503", "robots"),
        ("malformed", "robots"),
        ("truncated", "robots"),
        ("timed_out", "timed_out"),
        ("refused", "refused"),
        ("blocked_address", "blocked_address"),
    ],
)
def test_a_robots_txt_that_cannot_be_had(outcome: str, found: str) -> None:
    assert permitted(FetchError(outcome, ""), "/page") == found
    assert permits_all_robots(outcome) == (found == "")


def test_each_site_is_asked_once_and_each_port_is_a_site() -> None:
    answers: dict[str, str | FetchError] = {
        "http://h/robots.txt": "User-agent: *\nDisallow: /",
        "https://h:444/robots.txt": "",
    }
    sites = Sites(answers)
    robots = RobotsCache(sites.read, "rookery")
    for _ in range(3):
        robots.check_permission(normalize_url("https://h:444/a"), time.monotonic() + SOON)
        with pytest.raises(FetchError, match="robots"):
            robots.check_permission(normalize_url("http://h/a"), time.monotonic() + SOON)
    assert sorted(sites.asked) == sorted(answers)


def test_many_threads_wait_for_one_reading() -> None:
    asked: list[str] = []
    reading, go_on = threading.Event(), threading.Event()

    def slow(url: str, until: float) -> str:
        asked.append(url)
        reading.set()
        go_on.wait(60)
        return ""

    robots = RobotsCache(slow, "rookery")
    until = time.monotonic() + SOON
    threads = [
        threading.Thread(target=robots.check_permission, args=(normalize_url("http://h/a"), until))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    assert reading.wait(60)
    with pytest.raises(FetchError, match="timed_out"):
        robots.check_permission(normalize_url("http://h/b"), time.monotonic() + 0.02)
    go_on.set()
    for thread in threads:
        thread.join()
    assert asked == ["http://h/robots.txt"]


def test_odd_files_say_nothing_and_break_nothing() -> None:
    for text in ("", "\ufeff", "<html><p>not found", "Disallow: /", "\0\0\0", "User-agent:\n:" * 9):
        assert permitted(text, "/page") == ""


def test_names_of_robots() -> None:
    assert parse_product_token("Rookery/0.1 (reads)") == "rookery"
    assert parse_product_token("my-bot") == "my-bot"
    assert parse_product_token("") == "*"


@pytest.mark.slow
def test_a_file_that_names_thousands_of_robots_stays_small() -> None:
    names = "".join(f"User-agent: robot{number}\n" for number in range(12_000))
    text = names + "".join(f"Disallow: /{number}/\n" for number in range(12_000))
    text += "User-agent: *\nDisallow: /secret"
    tracemalloc.start()
    assert permitted(text, "/secret") == "robots"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000
    assert "robot7\n" not in merge_other_agents(text, "rookery")


def test_so_many_at_a_time() -> None:
    turns, together, most = HostRateLimiter(2), 0, 0
    lock, pair = threading.Lock(), threading.Barrier(2)

    def work(host: str) -> None:
        nonlocal together, most
        with turns.hold_slot(host, 0.0, time.monotonic() + SOON):
            with lock:
                together += 1
                most = max(most, together)
            pair.wait(60)  # nobody goes on alone
            with lock:
                together -= 1

    threads = [threading.Thread(target=work, args=("h",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_no_closer_together_than_asked_and_never_after_the_end() -> None:
    turns = HostRateLimiter(5)
    starts = []
    began = time.monotonic()
    for _ in range(3):
        with turns.hold_slot("h", 0.05, time.monotonic() + SOON):
            starts.append(time.monotonic())
    assert starts[1] - began >= 0.05
    assert starts[2] - began >= 0.1
    began = time.monotonic()
    with turns.hold_slot("h", 30.0, time.monotonic() + SOON):
        pass
    with (
        pytest.raises(FetchError, match="wants 30 seconds between"),
        turns.hold_slot("h", 30.0, time.monotonic() + 25),
    ):
        pass
    with turns.hold_slot("another", 30.0, time.monotonic() + SOON):
        pass
    assert time.monotonic() - began < 25  # nobody has waited for what could not be in time


def test_a_place_that_stays_taken_times_out() -> None:
    turns = HostRateLimiter(1)
    with (
        turns.hold_slot("h", 0.0, time.monotonic() + SOON),
        pytest.raises(FetchError, match="timed_out"),
        turns.hold_slot("h", 0.0, time.monotonic() + 0.02),
    ):
        pass
