"""Questions answered beside the pages: heard, cancelled, taken over from workers that died."""

import asyncio
import sqlite3
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

from rookery.answers.answer_session import EvidenceSources
from rookery.answers.model_pool import NameLocks
from rookery.desk import accounts
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.library.libraries import BUNDLED_PLACE
from rookery.records import Question
from rookery.server.api import answer_queue
from rookery.server.api.answer_queue import AnswerService, WorkerSettings
from rookery.server.api.answer_sessions import (
    FINAL_EVENTS,
    MAX_IDLE_SESSIONS,
    AnswerCancelledError,
    AnswerEvent,
    EventKind,
    QuestionRequest,
    SharedSessionPool,
    list_capabilities,
    resolve_settings,
)
from rookery.settings import ModelSettings, Settings

pytestmark = pytest.mark.usefixtures("home")
__all__ = ["home"]
T = TypeVar("T")


@pytest.fixture
def store(opened: Opened) -> Store:
    accounts.add_person(opened.store, "ada", "reader")
    return opened.store


@pytest.fixture
def answering(store: Store) -> Iterator[AnswerService]:
    made = AnswerService(store, CROWS, WorkerSettings(workers=2))
    yield made
    made.close()


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: where a browser is driven, this one has a loop that runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def read_events(answering: AnswerService, answer: str) -> list[AnswerEvent]:
    """All that happens until the end, each as it comes."""
    found: list[AnswerEvent] = []
    until = time.monotonic() + SECONDS
    while not has_ended(found):
        assert time.monotonic() < until, found
        found += awaited(answering.wait_for_events(answer, len(found) - 1, 1.0))
    return found


def has_ended(events: list[AnswerEvent]) -> bool:
    return bool(events) and events[-1].kind in FINAL_EVENTS


def kinds(events: list[AnswerEvent]) -> list[EventKind]:
    return [event.kind for event in events]


def outcome(failed: "pytest.ExceptionInfo[Failed]") -> str:
    assert len(failed.value.failure.detail) > 10
    return failed.value.failure.outcome


@pytest.mark.slow
def test_what_happens_is_heard_and_kept_in_the_same_order(
    answering: AnswerService, store: Store
) -> None:
    answer = answering.enqueue_question(QuestionRequest(LONG), "ada")
    found = read_events(answering, answer)
    assert [event.number for event in found] == list(range(len(found)))
    assert kinds(found)[:4] == ["asked", "begun", "searching", "found"]
    opened = [event.data["url"] for event in found if event.kind == "opened"]
    assert set(opened) <= {event.data["url"] for event in found if event.kind == "opening"}
    assert answer_queue.read_answer_events(store, answer) == found
    assert (
        answer_queue.read_answer_events(store, answer, 4)
        == found[5:]
        == answering.read_events(answer, 4)
    )
    kept = answer_queue.find_answer(answering.store, answer)
    assert kept.answered is not None
    assert kept.answered.episode.answer is not None
    quotes = [event.data["quote"]["text"] for event in found if event.kind == "quote"]
    assert quotes == [quote.text for quote in kept.answered.episode.answer.quotes]
    assert all(verdict.verified for verdict in kept.answered.verdicts)
    assert (kept.state, kinds(found)[-1]) == ("done", "answered")


@pytest.mark.slow
def test_many_at_once_each_hear_their_own_answer(answering: AnswerService) -> None:
    words = ["ravens", "jays", "magpies", "rooks", "nutcrackers", "jackdaws"]
    questions = [f"How clever are {word} ({n})?" for n, word in enumerate(words)]
    ids = [answering.enqueue_question(QuestionRequest(question), "ada") for question in questions]
    for answer, question in zip(ids, questions, strict=True):
        found = read_events(answering, answer)
        searched = [event.data["query"] for event in found if event.kind == "searching"]
        assert searched == [question]
        kept = answer_queue.find_answer(answering.store, answer).answered
        assert kept is not None
        assert kept.episode.question.text == question


@pytest.mark.slow
def test_listeners_hold_no_thread_and_all_hear_all(answering: AnswerService) -> None:
    held = Held(answering)
    answer = answering.enqueue_question(QuestionRequest(LONG), "ada")
    before = threading.active_count()

    heard_by: list[list[AnswerEvent]] = [[] for _ in range(200)]

    async def listen(events: list[AnswerEvent]) -> list[AnswerEvent]:
        while not has_ended(events):
            events += await answering.wait_for_events(answer, len(events) - 1, SECONDS)
        return events

    async def all_of_them() -> tuple[int, list[list[AnswerEvent]]]:
        tasks = [asyncio.create_task(listen(found)) for found in heard_by]
        while not all(heard_by):  # each has heard that it was asked, and waits for more
            await asyncio.sleep(0.01)
        threads = threading.active_count()
        await asyncio.to_thread(held.let_go)
        return threads, await asyncio.gather(*tasks)

    threads, found = awaited(all_of_them())
    assert threads - before < 100  # those of the pool for reading the store, not one for each
    assert all(each == found[0] for each in found)
    assert kinds(found[0])[-1] == "answered"


@pytest.mark.slow
def test_who_waits_for_a_worker_hears_at_once_that_it_begins(store: Store) -> None:
    """Without asking the store again, which would be later than the test waits."""
    answering = AnswerService(store, CROWS, WorkerSettings(workers=1, flush=10 * SECONDS))
    held = Held(answering)
    answer = answering.enqueue_question(QuestionRequest(LONG), "ada")

    async def listen() -> list[AnswerEvent]:
        async with asyncio.timeout(SECONDS):
            asked = await answering.wait_for_events(answer, -1, SECONDS)
            waiting = asyncio.create_task(
                answering.wait_for_events(answer, len(asked) - 1, 10 * SECONDS)
            )
            while answer not in answering._listeners:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(held.let_go)
            return asked + await waiting

    assert kinds(awaited(listen()))[:2] == ["asked", "begun"]
    assert not answering._listeners
    answering.close()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (QuestionRequest("  "), "bad_question"),
        (QuestionRequest("why? " * 10_000), "bad_question"),
        (QuestionRequest(LONG, method="oracle"), "unknown_method"),
        (QuestionRequest(LONG, method="webgpt"), "unknown_method"),
        (QuestionRequest(LONG, model="gpt-9"), "unknown_model"),
        (QuestionRequest(LONG, places=("elsewhere",)), "unknown_place"),
        (QuestionRequest(LONG, decline=-0.1), "bad_decline"),
        (QuestionRequest(LONG, samples=0), "bad_samples"),
    ],
)
def test_what_is_not_offered_is_refused_and_not_kept(
    answering: AnswerService, store: Store, wanted: QuestionRequest, why: str
) -> None:
    for attempt in (
        lambda: answering.enqueue_question(wanted, "ada"),
        lambda: answering.answer_now(wanted),
    ):
        with pytest.raises(Failed) as failed:
            attempt()
        assert outcome(failed) == why
    assert answer_queue.list_person_answers(store, "ada") == []


def test_offers_name_folders_and_models_without_their_paths(tmp_path: Path) -> None:
    models = ModelSettings(f"script:{tmp_path}/said.jsonl")
    settings = Settings((str(tmp_path / "birds"), "https://crows.example/"), models=models)
    offered = list_capabilities(settings)
    assert list(offered.places) == ["birds", "https://crows.example/"]
    assert list(offered.models) == ["said"]
    one = resolve_settings(
        settings, offered, QuestionRequest(LONG, "webglm", places=("birds",), decline=0.333)
    )
    assert (one.places, one.decline) == ((str(tmp_path / "birds"),), 0.33)
    assert (one.models, one.method) == (models, "webglm")
    assert not resolve_settings(settings, offered, QuestionRequest(LONG)).models


def test_places_of_one_name_are_all_offered_and_none_is_called_as_the_uploads(
    tmp_path: Path,
) -> None:
    folders = [str(tmp_path / name) for name in ("a/docs", "b/docs", "c", "documents")]
    settings = Settings((*folders, BUNDLED_PLACE, f"{folders[0]}/."))
    offered = list_capabilities(settings)
    here = tmp_path.name
    assert dict(sorted(offered.places.items())) == {
        "a/docs": f"{folders[0]}/.",
        "b/docs": folders[1],
        "c": folders[2],
        f"{here}/documents": folders[3],
        BUNDLED_PLACE: BUNDLED_PLACE,
    }
    assert set(offered.default_places) == set(offered.places)


def test_no_place_is_the_default_and_never_the_web_of_a_server_with_documents(
    tmp_path: Path,
) -> None:
    settings = Settings((str(tmp_path),))
    offered = list_capabilities(settings)
    for places in (None, ()):
        found = resolve_settings(settings, offered, QuestionRequest(LONG, places=places))
        assert found.places == (str(tmp_path),)
    empty = msgspec.structs.replace(offered, places={}, default_places=())
    with pytest.raises(Failed) as failed:
        resolve_settings(settings, empty, QuestionRequest(LONG))
    assert outcome(failed) == "unknown_place"
    web = list_capabilities(Settings())
    assert resolve_settings(Settings(), web, QuestionRequest(LONG)).places == ()


@pytest.mark.slow
def test_a_place_that_is_reopened_leaves_the_questions_under_way_alone() -> None:
    pool, asked = SharedSessionPool(), Question("", LONG)
    others = [msgspec.structs.replace(CROWS, decline=0.3), CROWS]
    for settings in others:
        with pool.use_session(settings):
            pass
    with pool.use_session(CROWS) as reading:
        pool.reopen_place(BUNDLED_PLACE)
        assert reading.answer_question(asked, lambda kind, data: None).episode.stop == "end"
        with pool.use_session(CROWS) as anew:
            assert anew.sources is not reading.sources
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        reading.answer_question(asked, lambda kind, data: None)
    with pool.use_session(others[0]) as another:
        assert another.sources is anew.sources
    pool.close()


def test_a_session_for_each_choice_of_places_is_closed_again(tmp_path: Path) -> None:
    pool, sources = SharedSessionPool(), []
    for number in range(MAX_IDLE_SESSIONS + 3):
        with pool.use_session(Settings((str(tmp_path / str(number)),))) as reading:
            sources.append(reading.sources)
    open_ones = [is_open(each) for each in sources]
    assert open_ones == [False] * 3 + [True] * MAX_IDLE_SESSIONS
    pool.close()
    assert not any(map(is_open, sources))


def is_open(sources: EvidenceSources) -> bool:
    try:
        sources.archive.find_page("0" * 32)
    except sqlite3.ProgrammingError:
        return False
    return True


@pytest.mark.slow
def test_a_question_that_waits_is_cancelled_and_never_begun(store: Store) -> None:
    answering = AnswerService(store, CROWS, WorkerSettings(workers=1))
    held = Held(answering)
    answer = answering.enqueue_question(QuestionRequest(LONG), "ada")
    assert answering.cancel_answer(answer)
    assert not answering.cancel_answer(answer)
    held.let_go()
    answering.close()
    assert kinds(answer_queue.read_answer_events(store, answer)) == ["asked", "stopped"]
    assert answer_queue.find_answer(answering.store, answer).state == "failed"


@pytest.mark.slow
def test_whoever_does_not_wait_frees_the_worker(answering: AnswerService) -> None:
    seen: list[EventKind] = []
    with pytest.raises(AnswerCancelledError):
        answering.answer_now(
            QuestionRequest(LONG), lambda kind, data: seen.append(kind), lambda: len(seen) > 2
        )
    assert seen[:3] == ["searching", "found", "opening"]
    held = [Held(answering), Held(answering)]
    with pytest.raises(AnswerCancelledError):
        answering.answer_now(QuestionRequest(LONG), disconnected=lambda: True)
    for each in held:
        each.let_go()
    assert answering.answer_now(QuestionRequest(LONG)).episode.stop == "end"


def test_too_many_are_told_to_come_again(store: Store) -> None:
    answering = AnswerService(store, CROWS, WorkerSettings(workers=1, waiting=2))
    held = Held(answering)
    ids: list[str] = []
    with pytest.raises(Failed) as failed:
        ids += (answering.enqueue_question(QuestionRequest(LONG), "ada") for _ in range(4))
    assert outcome(failed) == "busy"
    assert len(ids) in (2, 3)  # a third one, where the worker has the first in its hands already
    held.let_go()
    assert all(kinds(read_events(answering, answer))[-1] == "answered" for answer in ids)
    answering.close()


def test_what_was_not_begun_at_the_end_is_answered_by_the_next(store: Store) -> None:
    first = AnswerService(store, CROWS, WorkerSettings(workers=1))
    held = Held(first)
    ids = [first.enqueue_question(QuestionRequest(LONG), "ada") for _ in range(3)]
    closing = threading.Thread(target=first.close, args=(0.2,))
    closing.start()
    assert first._closing.wait(SECONDS)
    held.let_go()
    closing.join(SECONDS)
    assert {answer_queue.find_answer(first.store, answer).state for answer in ids} <= {
        "asked",
        "done",
    }
    second = AnswerService(store, CROWS)
    second.start()
    for answer in ids:
        assert kinds(read_events(second, answer))[-1] == "answered"
    second.close()


KILLED = """
import asyncio, os, sys
from rookery.desk.store import Store
from rookery.settings import Settings
from rookery.server.api.answer_queue import AnswerService, LiveAnswer, WorkerSettings
from rookery.server.api.answer_sessions import QuestionRequest
hear = LiveAnswer.publish_event
def hear_and_die(self, kind, data):
    hear(self, kind, data)
    if kind == "found":
        self.flush()
        os.kill(os.getpid(), 9)
LiveAnswer.publish_event = hear_and_die
workers = WorkerSettings(lease=0.3)
answering = AnswerService(Store(sys.argv[1]), Settings(("rookery:corvids",)), workers)
print(answering.enqueue_question(QuestionRequest("How long do crows live?"), "ada"), flush=True)
asyncio.run(answering.wait_for_events("nothing", -1, 60))
"""


@pytest.mark.slow
def test_what_a_killed_worker_left_is_answered_by_another(store: Store) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, store.place], stdout=subprocess.PIPE, text=True
    )
    assert killed.returncode == -9
    answer = killed.stdout.strip()
    with Store(store.place) as there:  # whose clock goes on
        before = answer_queue.read_answer_events(there, answer)
        assert kinds(before) == ["asked", "begun", "searching", "found"]
        second = AnswerService(there, CROWS, WorkerSettings(look=0.1))
        second.start()
        found = read_events(second, answer)
        second.close()
    assert found[:4] == before
    assert [event.number for event in found] == list(range(len(found)))
    assert (found[4].kind, found[4].data) == ("begun", {"again": True})
    assert found[-1].kind == "answered"
    assert answer_queue.read_answer_events(store, answer) == found


def test_a_worker_that_lost_its_lease_writes_nothing_more(store: Store, opened: Opened) -> None:
    answer = answer_queue.enqueue_answers(store, [(QuestionRequest(LONG), LONG)], "ada")[0]
    first = answer_queue.lease_answer(store, answer, 10)
    assert first is not None
    assert answer_queue.lease_answer(store, answer, 10) is None
    opened.clock.now += 11
    second = answer_queue.lease_answer(store, answer, 10)
    assert second is not None
    assert not answer_queue.append_answer_events(store, first, [("begun", {})], 10)
    assert not answer_queue.complete_answer(store, first, None, [("stopped", {})])
    assert answer_queue.append_answer_events(store, second, [("begun", {})], 10)
    assert kinds(answer_queue.read_answer_events(store, answer)) == ["asked", "begun"]


def test_a_question_that_kills_its_workers_is_given_up(store: Store, opened: Opened) -> None:
    answer = answer_queue.enqueue_answers(store, [(QuestionRequest(LONG), LONG)], "ada")[0]
    for _ in range(answer_queue.MAX_ATTEMPTS):
        assert answer_queue.lease_answer(store, answer, 10) is not None
        opened.clock.now += 11
    assert answer_queue.lease_answer(store, answer, 10) is None
    assert answer_queue.find_answer(store, answer).state == "failed"
    assert answer_queue.read_answer_events(store, answer)[-1].data["outcome"] == "given_up"
    assert answer_queue.list_waiting_answers(store) == []


def test_another_process_hears_what_it_does_not_do_itself(
    answering: AnswerService, store: Store
) -> None:
    other = AnswerService(store, CROWS)
    answer = answering.enqueue_question(QuestionRequest(LONG), "ada")
    mine, theirs = read_events(answering, answer), read_events(other, answer)
    assert mine == theirs
    assert awaited(other.wait_for_events(answer, 2, 1)) == mine[3:]


def test_history_is_found_by_words_whatever_they_hold(store: Store, opened: Opened) -> None:
    for question in ("100% of crows?", "1000 crows?", "Jays_and crows?", "Jays and rooks?"):
        answer_queue.enqueue_answers(store, [(QuestionRequest(question), question)], "ada")[0]
        opened.clock.now += 1

    def list_questions(words: str) -> list[str]:
        return [each.question for each in answer_queue.list_person_answers(store, "ada", words)]

    assert list_questions("") == [
        "Jays and rooks?",
        "Jays_and crows?",
        "1000 crows?",
        "100% of crows?",
    ]
    assert list_questions("100%") == ["100% of crows?"]
    assert list_questions("jays_and") == ["Jays_and crows?"]
    assert list_questions("rooks JAYS") == ["Jays and rooks?"]
    assert answer_queue.list_person_answers(store, "eva") == []


@pytest.mark.slow
def test_a_model_is_heard_while_it_writes_and_its_end_is_told(store: Store, tmp_path: Path) -> None:
    said = tmp_path / "said.jsonl"
    text = "Crows bring gifts to people who feed them [1].\nThey may bring them again [2]."
    said.write_text(msgspec.json.encode(text).decode() + "\n")
    settings = msgspec.structs.replace(CROWS, models=ModelSettings(f"script:{said}"))
    answering = AnswerService(store, settings)
    wanted = QuestionRequest("Why do crows bring gifts to people?", "webglm", samples=1)
    found = read_events(answering, answering.enqueue_question(wanted, "ada"))
    writing = [event.data["text"] for event in found if event.kind == "writing"]
    assert writing
    assert all(text.startswith(each) for each in writing)
    assert found[-1].kind == "answered"
    again = read_events(
        answering, answering.enqueue_question(msgspec.structs.replace(wanted, decline=0.9), "ada")
    )
    assert (again[-1].kind, again[-1].data["outcome"]) == ("stopped", "no_calibration")
    assert again[-1].data["detail"].startswith("this server is not set up for that")
    assert kinds(again)[-1] in FINAL_EVENTS
    answering.close()


def test_a_place_that_is_added_is_read_by_the_next_question(
    answering: AnswerService, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.txt").write_text("The old heron of Ware sleeps under the mill bridge.")
    answering.add_place("own", str(folder))
    wanted = QuestionRequest("Where does the old heron of Ware sleep?", places=("own",))

    def answer_text() -> str:
        answer = answering.answer_now(wanted).episode.answer
        assert answer is not None
        return answer.text

    assert "mill bridge" in answer_text()
    (folder / "a.txt").write_text("The old heron of Ware sleeps in the tall poplar.")
    answering.add_place("own", str(folder))
    assert "poplar" in answer_text()


def test_of_those_with_one_name_one_at_a_time_goes_on() -> None:
    turns, order = NameLocks(), list[str]()
    with turns.hold_name("a"):
        thread = threading.Thread(target=lambda: _go(turns, order))
        thread.start()
        with turns.hold_name("b"):
            order.append("first")
    thread.join(SECONDS)
    assert order == ["first", "second"]


def _go(turns: NameLocks, order: list[str]) -> None:
    with turns.hold_name("a"):
        order.append("second")


def test_leases_are_measured_by_the_clock_of_the_store(store: Store, opened: Opened) -> None:
    assert isinstance(opened.clock, Clock)
    answer = answer_queue.enqueue_answers(store, [(QuestionRequest(LONG), LONG)], "ada")[0]
    assert answer_queue.list_waiting_answers(store, later=5) == []
    opened.clock.now += 5
    assert answer_queue.list_waiting_answers(store, later=5) == [answer]
    taken = answer_queue.lease_answer(store, answer, 10)
    assert taken is not None
    assert answer_queue.list_waiting_answers(store) == []
    answer_queue.release_answer(store, taken)
    assert answer_queue.list_waiting_answers(store) == [answer]
