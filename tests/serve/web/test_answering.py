"""Questions answered beside the pages: heard, cancelled, taken over from workers that died."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from askers import CROWS, LONG, SECONDS, Held, home
from visits import Clock, Opened

from rookery.judge import people
from rookery.judge.store import Store
from rookery.records import Failed
from rookery.serve.models import ModelSettings
from rookery.serve.session import Settings
from rookery.serve.web import asked
from rookery.serve.web.answering import Answering, Pace
from rookery.serve.web.libraries import Gone, Turns
from rookery.serve.web.wanted import ENDS, Event, Kind, Wanted, offers, settings_for

pytestmark = pytest.mark.usefixtures("home")
__all__ = ["home"]
T = TypeVar("T")


@pytest.fixture
def store(opened: Opened) -> Store:
    people.add_person(opened.store, "ada", "reader")
    return opened.store


@pytest.fixture
def answering(store: Store) -> Iterator[Answering]:
    made = Answering(store, CROWS, Pace(workers=2))
    yield made
    made.close()


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: where a browser is driven, this one has a loop that runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def heard(answering: Answering, answer: str) -> list[Event]:
    """All that happens until the end, each as it comes."""
    found: list[Event] = []
    until = time.monotonic() + SECONDS
    while not asked.ended(found):
        assert time.monotonic() < until, found
        found += answering.wait(answer, len(found) - 1, 1.0)
    return found


def kinds(found: list[Event]) -> list[Kind]:
    return [event.kind for event in found]


def outcome(failed: "pytest.ExceptionInfo[Failed]") -> str:
    assert len(failed.value.failure.detail) > 10
    return failed.value.failure.outcome


def test_what_happens_is_heard_and_kept_in_the_same_order(
    answering: Answering, store: Store
) -> None:
    answer = answering.ask(Wanted(LONG), "ada")
    found = heard(answering, answer)
    assert [event.number for event in found] == list(range(len(found)))
    assert kinds(found)[:4] == ["asked", "begun", "searching", "found"]
    opened = [event.data["url"] for event in found if event.kind == "opened"]
    assert set(opened) <= {event.data["url"] for event in found if event.kind == "opening"}
    assert asked.told(store, answer) == found
    assert asked.told(store, answer, 4) == found[5:] == answering.events(answer, 4)
    kept = answering.find(answer)
    assert kept.answered is not None
    assert kept.answered.episode.answer is not None
    quotes = [event.data["quote"]["text"] for event in found if event.kind == "quote"]
    assert quotes == [quote.text for quote in kept.answered.episode.answer.quotes]
    assert all(verdict.verified for verdict in kept.answered.verdicts)
    assert (kept.state, kinds(found)[-1]) == ("done", "answered")


def test_many_at_once_each_hear_their_own_answer(answering: Answering) -> None:
    words = ["ravens", "jays", "magpies", "rooks", "nutcrackers", "jackdaws"]
    questions = [f"How clever are {word} ({n})?" for n, word in enumerate(words)]
    ids = [answering.ask(Wanted(question), "ada") for question in questions]
    for answer, question in zip(ids, questions, strict=True):
        found = heard(answering, answer)
        searched = [event.data["query"] for event in found if event.kind == "searching"]
        assert searched == [question]
        kept = answering.find(answer).answered
        assert kept is not None
        assert kept.episode.question.text == question


def test_listeners_hold_no_thread_and_all_hear_all(answering: Answering) -> None:
    held = Held(answering)
    answer = answering.ask(Wanted(LONG), "ada")
    before = threading.active_count()

    heard_by: list[list[Event]] = [[] for _ in range(50)]

    async def listen(found: list[Event]) -> list[Event]:
        while not asked.ended(found):
            found += await answering.awaited(answer, len(found) - 1, SECONDS)
        return found

    async def all_of_them() -> tuple[int, list[list[Event]]]:
        tasks = [asyncio.create_task(listen(found)) for found in heard_by]
        while not all(heard_by):  # each has heard that it was asked, and waits for more
            await asyncio.sleep(0.01)
        threads = threading.active_count()
        await asyncio.to_thread(held.let_go)
        return threads, await asyncio.gather(*tasks)

    threads, found = awaited(all_of_them())
    assert threads - before < 45
    assert all(each == found[0] for each in found)
    assert kinds(found[0])[-1] == "answered"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Wanted("  "), "bad_question"),
        (Wanted("why? " * 10_000), "bad_question"),
        (Wanted(LONG, method="oracle"), "unknown_method"),
        (Wanted(LONG, method="webgpt"), "unknown_method"),
        (Wanted(LONG, model="gpt-9"), "unknown_model"),
        (Wanted(LONG, places=("elsewhere",)), "unknown_place"),
        (Wanted(LONG, decline=-0.1), "bad_decline"),
        (Wanted(LONG, samples=0), "bad_samples"),
    ],
)
def test_what_is_not_offered_is_refused_and_not_kept(
    answering: Answering, store: Store, wanted: Wanted, why: str
) -> None:
    for attempt in (lambda: answering.ask(wanted, "ada"), lambda: answering.now(wanted)):
        with pytest.raises(Failed) as failed:
            attempt()
        assert outcome(failed) == why
    assert asked.of_person(store, "ada") == []


def test_offers_name_folders_and_models_without_their_paths(tmp_path: Path) -> None:
    models = ModelSettings(f"script:{tmp_path}/said.jsonl")
    settings = Settings((str(tmp_path / "birds"), "https://crows.example/"), models=models)
    offered = offers(settings)
    assert list(offered.places) == ["birds", "https://crows.example/"]
    assert list(offered.models) == ["said"]
    one = settings_for(settings, offered, Wanted(LONG, "webglm", places=("birds",), decline=0.333))
    assert (one.places, one.decline) == ((str(tmp_path / "birds"),), 0.33)
    assert (one.models, one.method) == (models, "webglm")
    assert not settings_for(settings, offered, Wanted(LONG)).models


def test_a_question_that_waits_is_cancelled_and_never_begun(store: Store) -> None:
    answering = Answering(store, CROWS, Pace(workers=1))
    held = Held(answering)
    answer = answering.ask(Wanted(LONG), "ada")
    assert answering.cancel(answer)
    assert not answering.cancel(answer)
    held.let_go()
    answering.close()
    assert kinds(asked.told(store, answer)) == ["asked", "stopped"]
    assert answering.find(answer).state == "failed"


def test_whoever_does_not_wait_frees_the_worker(answering: Answering) -> None:
    seen: list[Kind] = []
    with pytest.raises(Gone):
        answering.now(Wanted(LONG), lambda kind, data: seen.append(kind), lambda: len(seen) > 2)
    assert seen == ["searching", "found", "opening"]
    held = [Held(answering), Held(answering)]
    with pytest.raises(Gone):
        answering.now(Wanted(LONG), gone=lambda: True)
    for each in held:
        each.let_go()
    assert answering.now(Wanted(LONG)).episode.stop == "end"


def test_too_many_are_told_to_come_again(store: Store) -> None:
    answering = Answering(store, CROWS, Pace(workers=1, waiting=2))
    held = Held(answering)
    ids: list[str] = []
    with pytest.raises(Failed) as failed:
        ids += (answering.ask(Wanted(LONG), "ada") for _ in range(4))
    assert outcome(failed) == "busy"
    assert len(ids) in (2, 3)  # a third one, where the worker has the first in its hands already
    held.let_go()
    assert all(kinds(heard(answering, answer))[-1] == "answered" for answer in ids)
    answering.close()


def test_what_was_not_begun_at_the_end_is_answered_by_the_next(store: Store) -> None:
    first = Answering(store, CROWS, Pace(workers=1))
    held = Held(first)
    ids = [first.ask(Wanted(LONG), "ada") for _ in range(3)]
    closing = threading.Thread(target=first.close, args=(0.2,))
    closing.start()
    assert first._closing.wait(SECONDS)
    held.let_go()
    closing.join(SECONDS)
    assert {first.find(answer).state for answer in ids} <= {"asked", "done"}
    second = Answering(store, CROWS)
    second.start()
    for answer in ids:
        assert kinds(heard(second, answer))[-1] == "answered"
    second.close()


KILLED = """
import os, sys
from rookery.judge.store import Store
from rookery.serve.session import Settings
from rookery.serve.web import live
from rookery.serve.web.answering import Answering, Pace
from rookery.serve.web.wanted import Wanted
hear = live.Live.hear
def hear_and_die(self, kind, data):
    hear(self, kind, data)
    if kind == "found":
        self.flush()
        os.kill(os.getpid(), 9)
live.Live.hear = hear_and_die
answering = Answering(Store(sys.argv[1]), Settings(("rookery:corvids",)), Pace(lease=0.3))
print(answering.ask(Wanted("How long do crows live?"), "ada"), flush=True)
answering.wait("nothing", -1, 60)
"""


def test_what_a_killed_worker_left_is_answered_by_another(store: Store) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, store.place], stdout=subprocess.PIPE, text=True
    )
    assert killed.returncode == -9
    answer = killed.stdout.strip()
    with Store(store.place) as there:  # whose clock goes on
        before = asked.told(there, answer)
        assert kinds(before) == ["asked", "begun", "searching", "found"]
        second = Answering(there, CROWS, Pace(look=0.1))
        second.start()
        found = heard(second, answer)
        second.close()
    assert found[:4] == before
    assert [event.number for event in found] == list(range(len(found)))
    assert (found[4].kind, found[4].data) == ("begun", {"again": True})
    assert found[-1].kind == "answered"
    assert asked.told(store, answer) == found


def test_a_worker_that_lost_its_lease_writes_nothing_more(store: Store, opened: Opened) -> None:
    answer = asked.ask(store, Wanted(LONG), LONG, "ada")
    first = asked.take(store, answer, 10)
    assert first is not None
    assert asked.take(store, answer, 10) is None
    opened.clock.now += 11
    second = asked.take(store, answer, 10)
    assert second is not None
    assert not asked.tell(store, first, [("begun", {})], 10)
    assert not asked.finish(store, first, None, [("stopped", {})])
    assert asked.tell(store, second, [("begun", {})], 10)
    assert kinds(asked.told(store, answer)) == ["asked", "begun"]


def test_a_question_that_kills_its_workers_is_given_up(store: Store, opened: Opened) -> None:
    answer = asked.ask(store, Wanted(LONG), LONG, "ada")
    for _ in range(asked.TRIES):
        assert asked.take(store, answer, 10) is not None
        opened.clock.now += 11
    assert asked.take(store, answer, 10) is None
    assert asked.find(store, answer).state == "failed"
    assert asked.told(store, answer)[-1].data["outcome"] == "given_up"
    assert asked.waiting(store) == []


def test_another_process_hears_what_it_does_not_do_itself(
    answering: Answering, store: Store
) -> None:
    other = Answering(store, CROWS)
    answer = answering.ask(Wanted(LONG), "ada")
    mine, theirs = heard(answering, answer), heard(other, answer)
    assert mine == theirs
    assert awaited(other.awaited(answer, 2, 1)) == mine[3:]


def test_history_is_found_by_words_whatever_they_hold(store: Store, opened: Opened) -> None:
    for question in ("100% of crows?", "1000 crows?", "Jays_and crows?", "Jays and rooks?"):
        asked.ask(store, Wanted(question), question, "ada")
        opened.clock.now += 1

    def found(words: str) -> list[str]:
        return [each.question for each in asked.of_person(store, "ada", words)]

    assert found("") == ["Jays and rooks?", "Jays_and crows?", "1000 crows?", "100% of crows?"]
    assert found("100%") == ["100% of crows?"]
    assert found("jays_and") == ["Jays_and crows?"]
    assert found("rooks JAYS") == ["Jays and rooks?"]
    assert asked.of_person(store, "eva") == []


def test_a_model_is_heard_while_it_writes_and_its_end_is_told(store: Store, tmp_path: Path) -> None:
    said = tmp_path / "said.jsonl"
    text = "Crows bring gifts to people who feed them [1].\nThey may bring them again [2]."
    said.write_text(msgspec.json.encode(text).decode() + "\n")
    settings = msgspec.structs.replace(CROWS, models=ModelSettings(f"script:{said}"))
    answering = Answering(store, settings)
    wanted = Wanted("Why do crows bring gifts to people?", "webglm", samples=1)
    found = heard(answering, answering.ask(wanted, "ada"))
    writing = [event.data["text"] for event in found if event.kind == "writing"]
    assert writing
    assert all(text.startswith(each) for each in writing)
    assert found[-1].kind == "answered"
    again = heard(answering, answering.ask(msgspec.structs.replace(wanted, decline=0.9), "ada"))
    assert (again[-1].kind, again[-1].data["outcome"]) == ("stopped", "no_calibration")
    assert again[-1].data["detail"].startswith("this server is not set up for that")
    assert kinds(again)[-1] in ENDS
    answering.close()


def test_a_place_that_is_added_is_read_by_the_next_question(
    answering: Answering, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.txt").write_text("The old heron of Ware sleeps under the mill bridge.")
    answering.offer("own", str(folder))
    wanted = Wanted("Where does the old heron of Ware sleep?", places=("own",))

    def told() -> str:
        answer = answering.now(wanted).episode.answer
        assert answer is not None
        return answer.text

    assert "mill bridge" in told()
    (folder / "a.txt").write_text("The old heron of Ware sleeps in the tall poplar.")
    answering.offer("own", str(folder))
    assert "poplar" in told()


def test_of_those_with_one_name_one_at_a_time_goes_on() -> None:
    turns, order = Turns(), list[str]()
    with turns.alone("a"):
        thread = threading.Thread(target=lambda: _go(turns, order))
        thread.start()
        with turns.alone("b"):
            order.append("first")
    thread.join(SECONDS)
    assert order == ["first", "second"]


def _go(turns: Turns, order: list[str]) -> None:
    with turns.alone("a"):
        order.append("second")


def test_leases_are_measured_by_the_clock_of_the_store(store: Store, opened: Opened) -> None:
    assert isinstance(opened.clock, Clock)
    answer = asked.ask(store, Wanted(LONG), LONG, "ada")
    assert asked.waiting(store, later=5) == []
    opened.clock.now += 5
    assert asked.waiting(store, later=5) == [answer]
    taken = asked.take(store, answer, 10)
    assert taken is not None
    assert asked.waiting(store) == []
    asked.give_back(store, taken)
    assert asked.waiting(store) == [answer]
