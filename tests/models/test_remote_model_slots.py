"""Requests at once: as many as a server of llama.cpp shows slots, and the limit elsewhere."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from models import Asking, chat, reply, serving, write_choices

from rookery.errors import Failed
from rookery.models.openai_protocol import ModelEndpoint, get_slots_address, read_slots
from rookery.models.remote_model import RemoteLimits, RemoteModel, SlotTable

PATIENCE = 120.0


def slots(number: object) -> dict[str, bytes]:
    """What a server of llama.cpp shows that has so many."""
    return {"/props": reply(json.dumps({"total_slots": number, "model_path": "m"}).encode())}


def test_a_server_with_one_slot_is_asked_one_thing_at_a_time() -> None:
    all_started, met = threading.Barrier(3, timeout=PATIENCE), threading.Event()
    busy = threading.Lock()
    requests = 0

    def one_slot(asking: Asking) -> bytes:
        nonlocal requests
        if not busy.acquire(blocking=False):
            met.set()
            return write_choices(chat("too many"))
        requests += 1
        if requests == 1:
            all_started.wait()
            met.wait(0.2)  # what came beside it would be here by now, and would set it
        busy.release()
        return write_choices(chat("one"))

    with (
        serving(one_slot, files=slots(1)) as server,
        RemoteModel(ModelEndpoint("m", server.base_url)) as model,
        ThreadPoolExecutor(3) as pool,
    ):
        first = pool.submit(model.complete, "0")
        others = [pool.submit(lambda: (all_started.wait(), model.complete("1"))) for _ in "12"]
        done = [first.result(PATIENCE), *(each.result(PATIENCE)[1] for each in others)]
        assert model.count_slots() == 1
    assert [said[0].text for said in done] == ["one"] * 3
    assert not met.is_set()


def test_two_models_on_one_server_share_its_slots() -> None:
    """Six requests of two models: two are open at once, and never a third."""
    lock, third = threading.Lock(), threading.Event()
    both = threading.Barrier(2, timeout=PATIENCE)
    open_now, most = 0, 0

    def count_open(asking: Asking) -> bytes:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
            if open_now > 2:
                third.set()
        both.wait()
        third.wait(0.1)  # what came beside the two would be here by now, and would set it
        with lock:
            open_now -= 1
        return write_choices(chat("two"))

    table = SlotTable()
    with (
        serving(count_open, files=slots(2)) as server,
        RemoteModel(ModelEndpoint("a", server.base_url), slots=table) as writer,
        RemoteModel(ModelEndpoint("b", server.base_url), slots=table) as browser,
        ThreadPoolExecutor(6) as pool,
    ):
        asked = [pool.submit(model.complete, "x") for model in (writer, browser) * 3]
        assert [each.result(PATIENCE)[0].text for each in asked] == ["two"] * 6
        assert writer.count_slots() == browser.count_slots() == 2
    assert most == 2


def test_a_request_that_is_given_up_leaves_its_slot_to_the_next() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def answer_later(asking: Asking) -> bytes:
        begun.set()
        go_on.wait(PATIENCE)
        return write_choices(chat("one"))

    table = SlotTable()
    with serving(answer_later, files=slots(1)) as server, ThreadPoolExecutor(2) as pool:
        first, waiting, last = (
            RemoteModel(ModelEndpoint(name, server.base_url), slots=table) for name in "abc"
        )
        with first, last:
            open_request = pool.submit(first.complete, "x")
            begun.wait(PATIENCE)
            given_up = pool.submit(waiting.complete, "x")
            assert waiting.count_slots() == 1
            waiting.close()
            with pytest.raises((Failed, RuntimeError)):
                given_up.result(PATIENCE)
            go_on.set()
            assert open_request.result(PATIENCE)[0].text == "one"
            assert last.complete("x")[0].text == "one"


def test_several_samples_take_turns_too() -> None:
    with (
        serving(write_choices(chat("one")), files=slots(1)) as server,
        RemoteModel(ModelEndpoint("m", server.base_url)) as model,
    ):
        assert [one.text for one in model.complete("x", n=4)] == ["one"] * 4
        assert model.count_slots() == 1


def test_two_slots_are_used_together() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def together(asking: Asking) -> bytes:
        both.wait()
        return write_choices(chat("two"))

    with (
        serving(together, files=slots(2)) as server,
        RemoteModel(ModelEndpoint("m", server.base_url)) as model,
        ThreadPoolExecutor(4) as pool,
    ):
        assert [one[0].text for one in pool.map(model.complete, "1234")] == ["two"] * 4
        assert model.count_slots() == 2


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({}, 5),
        (slots(3), 3),
        (slots(64), 5),
        (slots(0), 5),
        (slots(-1), 5),
        (slots(True), 5),
        (slots("1"), 5),
        ({"/props": reply(b'{"error": "no such route"}')}, 5),
        ({"/props": reply(b"<p>hello</p>", kind="text/html")}, 5),
        ({"/props": reply(b"[1]")}, 5),
    ],
)
def test_what_a_server_shows_is_the_number(shown: dict[str, bytes], expected: int) -> None:
    with serving(write_choices(chat("x")), files=shown) as server:
        endpoint = ModelEndpoint("m", server.base_url)
        with RemoteModel(endpoint, limits=RemoteLimits(at_once=5)) as model:
            assert model.count_slots() == expected
            assert model.complete("x")[0].text == "x"


def test_only_servers_that_may_be_llama_cpp_s_are_asked() -> None:
    local = ModelEndpoint("m", "http://localhost:8080")
    assert get_slots_address(local) == "http://localhost:8080/props"
    assert get_slots_address(ModelEndpoint("m", "https://api.example.com/v1")) == ""
    assert get_slots_address(ModelEndpoint("m", "http://a/v1", grammars="vllm")) == ""
    named = ModelEndpoint("m", "https://a.example/llm/v1/", grammars="llama.cpp")
    assert get_slots_address(named) == "https://a.example/llm/props"
    assert read_slots({"total_slots": 7}) == 7
