"""What programs may do: keys, rates, budgets; bodies that are wrong; work that nobody waits for."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcpline import called
from models import DONE, SSE, Asking, chunk, event, refused, serving, streamed
from programs import BODY_LIMIT, Served, by_model, served
from sqlalchemy import event as database
from sqlalchemy import insert

from rookery.browser.browser_commands import BrowserRules
from rookery.desk import accounts
from rookery.desk.store import Store
from rookery.desk.tables import answers
from rookery.errors import Failed
from rookery.records import Failure
from rookery.server.api import answer_queue, endpoints
from rookery.server.api.endpoints import ApiError, ApiLimits, convert_failure
from rookery.server.mcp.protocol import build_mcp_routes
from rookery.settings import Settings
from rookery.shell.security import TokenBuckets

ASK: dict[str, Any] = {"model": "rookery-extract", "input": "Do crows use tools?"}
CHAT: dict[str, Any] = {
    "model": "rookery-extract",
    "messages": [{"role": "user", "content": "Do crows bend wire?"}],
}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("limits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def api_server(empty_store: Path, home: Path) -> Iterator[Served]:
    """A server without any key."""
    place = home / "open.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place) as server:
        yield server


@pytest.fixture(scope="module")
def closed(empty_store: Path, home: Path) -> Iterator[Served]:
    """A server that wants keys."""
    place = home / "closed.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place) as server:
        endpoints.create_api_key(server.store, "the first")
        yield server


def place_of(empty_store: Path, folder: Path) -> Path:
    place = folder / "desk.sqlite"
    place.write_bytes(empty_store.read_bytes())
    return place


# Keys


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
    ],
)
def test_without_a_key_only_this_machine_is_let_in(
    api_server: Served, headers: dict[str, str]
) -> None:
    assert api_server.send("/v1/models").status == 200
    assert api_server.send("/v1/models", key="made-up").status == 200
    answer = api_server.send("/v1/models", headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.error["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_of_another_site_may_not_ask(api_server: Served, headers: dict[str, str]) -> None:
    assert api_server.send("/v1/responses", ASK, headers=headers).status == 403


def test_what_a_browser_sends_without_asking_first_is_not_taken(api_server: Served) -> None:
    body = json.dumps(ASK).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert api_server.send("/v1/responses", body, headers={"Content-Type": kind}).status == 415


def test_a_key_lets_in_until_it_is_revoked(closed: Served) -> None:
    key = endpoints.create_api_key(closed.store, "bot")
    assert closed.send("/v1/models").status == 401
    assert closed.send("/v1/models", key=key[:-1]).status == 401
    assert closed.send("/v1/models", headers={"Authorization": f"Basic {key}"}).status == 401
    assert closed.openai(key).models.list().data
    newer = endpoints.create_api_key(closed.store, "bot")
    assert [closed.send("/v1/models", key=each).status for each in (key, newer)] == [401, 200]
    endpoints.revoke_api_key(closed.store, "bot")
    with pytest.raises(openai.AuthenticationError):
        closed.openai(newer).models.list()
    other = endpoints.create_api_key(closed.store, "gone")
    accounts.shut_out_person(closed.store, "gone", "ada")
    assert closed.send("/v1/models", key=other).status == 401


def test_of_a_key_the_store_holds_nothing_that_lets_in(closed: Served) -> None:
    key = endpoints.create_api_key(closed.store, "secret")
    folder = Path(closed.store.place).parent
    kept = b"".join(each.read_bytes() for each in folder.glob("closed.sqlite*"))
    assert b"secret" in kept
    assert key.removeprefix(endpoints.KEY_PREFIX).encode() not in kept


def test_a_key_that_asks_too_often_is_told_when_to_come_again(closed: Served) -> None:
    quick = endpoints.create_api_key(closed.store, "quick", per_minute=3)
    answers = [closed.send("/v1/models", key=quick) for _ in range(5)]
    assert [answer.status for answer in answers] == [200] * 3 + [429] * 2
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
    assert answers[-1].error["type"] == "rate_limit_error"
    other = endpoints.create_api_key(closed.store, "other")
    assert closed.send("/v1/models", key=other).status == 200


def test_a_rate_fills_up_again() -> None:
    now = [0.0]
    rates, key = TokenBuckets(lambda: now[0]), endpoints.ApiKey("a", "a", "a", 6)
    for _ in range(6):
        endpoints.require_rate(rates, key)
    with pytest.raises(ApiError) as told:
        endpoints.require_rate(rates, key)
    assert told.value.retry_after == 10
    now[0] += 10
    endpoints.require_rate(rates, key)


@pytest.mark.slow
def test_a_budget_counts_answers_and_not_what_came_to_nothing(closed: Served) -> None:
    key = endpoints.create_api_key(closed.store, "thrifty", budget=2)
    assert closed.send("/v1/responses", {**ASK, "input": " "}, key=key).status == 400
    assert closed.send("/v1/chat/completions", {**CHAT, "model": "none"}, key=key).status == 404
    assert closed.send("/v1/responses", ASK, key=key).status == 200
    assert closed.send("/v1/answers", {"question": "Do crows bend wire?"}, key=key).status == 200
    answer = closed.send("/v1/chat/completions", CHAT, key=key)
    assert (answer.status, answer.error["code"]) == (429, "insufficient_quota")
    assert answer.headers["x-should-retry"] == "false"
    for path, body in WAYS:
        by_words = {"method": "extract"} if path == "/v1/answers" else {"model": ASK["model"]}
        assert closed.send(path, body | by_words, key=key).status == 429, (path, body)
    with pytest.raises(openai.RateLimitError):
        closed.openai(key).responses.create(**ASK)
    assert closed.send("/search", {"query": "crows"}, key=key).status == 200


def spent(served: Served, key: str) -> float:
    """How much of its budget a key has spent."""
    return endpoints.authenticate_key(served.store, f"Bearer {key}", open_here=False).spent


OWN = {"question": "Do crows use tools?", "method": "webgpt"}
BY_MODEL = {"model": "rookery-webgpt/small"}
ACCEPTS = {"Accept": "application/json"}
WAYS: list[tuple[str, dict[str, Any]]] = [
    (path, {**body, "stream": stream})
    for path, body in (
        ("/v1/answers", OWN),
        ("/v1/responses", ASK | BY_MODEL),
        ("/v1/chat/completions", CHAT | BY_MODEL),
        ("/v1/messages", CHAT | BY_MODEL | {"max_tokens": 100}),
    )
    for stream in (False, True)
]


@pytest.mark.slow
def test_an_answer_whose_model_cannot_be_called_costs_nothing(
    empty_store: Path, tmp_path: Path
) -> None:
    with serving(refused("401 No")) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            here.app.router.routes[:0] = build_mcp_routes()
            key = endpoints.create_api_key(here.store, "thrifty", budget=1)
            for path, body in [*WAYS, ("/v1/answers", {**OWN, "wait": False})]:
                assert here.send(path, body, key=key).status in (200, 202, 502)
                assert until(lambda: spent(here, key) == 0), (path, body)
            told = here.send("/mcp", called("answer", **OWN), key=key, headers=ACCEPTS)
            assert told.json["result"]["structuredContent"]["stop"] == "policy_failed"
            assert spent(here, key) == 0


def test_an_answer_that_the_server_cannot_make_costs_nothing(
    empty_store: Path, tmp_path: Path
) -> None:
    with served(place_of(empty_store, tmp_path), Settings((str(tmp_path / "gone"),))) as here:
        here.app.router.routes[:0] = build_mcp_routes()
        key = endpoints.create_api_key(here.store, "thrifty", budget=1)
        for path, body in [*WAYS, ("/v1/answers", {**OWN, "wait": False})]:
            by_words = {"method": "extract"} if path == "/v1/answers" else {"model": ASK["model"]}
            answer = here.send(path, body | by_words, key=key)
            assert answer.status in (200, 202, 500)
            assert b"insufficient_quota" not in answer.body
            assert until(lambda: spent(here, key) == 0), (path, body)
        told = here.send("/mcp", called("answer", question="Why?"), key=key, headers=ACCEPTS)
        assert told.json["result"]["isError"]
        assert spent(here, key) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), WAYS)
def test_an_answer_cancelled_before_any_text_was_sent_costs_nothing(
    empty_store: Path, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    go_on = threading.Event()

    def wait(asking: Asking) -> bytes:
        go_on.wait(120)
        return streamed(event("Search crows"), event(None, "stop"), DONE)

    with serving(wait) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            key = endpoints.create_api_key(here.store, "hasty", budget=1)
            with left_open(here, path, body, key):
                assert until(lambda: bool(model.asked))
                assert spent(here, key) == 1
            # Whoever comes after them is answered once the server has seen that they left.
            assert here.send("/v1/models", method="GET", key=key).status == 200
            if path == "/v1/answers":
                assert until(lambda: spent(here, key) == 0)
            go_on.set()
            assert until(lambda: idle(here))
            assert until(lambda: spent(here, key) == 0)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_cancelled_after_its_text_was_sent_is_charged(
    empty_store: Path, tmp_path: Path, stream: bool
) -> None:
    def write(asking: Asking) -> None:
        asking.send(SSE + chunk(event("Crows bend")))
        asking.drip(chunk(event(" wire")), 0.05)

    with serving(write) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            key = endpoints.create_api_key(here.store, "reader", budget=1)
            with left_open(here, "/v1/answers", {**OWN, "stream": stream}, key) as connection:
                assert until(lambda: bool(model.asked))
                while stream and b"Crows bend" not in connection.recv(100_000):
                    pass
            assert until(lambda: idle(here))
            [row] = answer_queue.list_person_answers(here.store, "reader")
            assert (row.outcome, spent(here, key)) == ("stopped", int(stream))


@contextmanager
def left_open(served: Served, path: str, body: dict[str, Any], key: str) -> Iterator[socket.socket]:
    """A request whose client goes away at the end of the block, without reading the rest."""
    host, port = served.address.removeprefix("http://").split(":")
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + content)
        yield connection
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while connection.recv(1 << 16):  # until the server has seen that the client is gone
                pass


@pytest.mark.slow
def test_of_many_at_once_no_more_are_answered_than_the_budget_has(closed: Served) -> None:
    key = endpoints.create_api_key(closed.store, "crowd", budget=3)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(closed.send("/v1/responses", ASK, key=key).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 3 + [429] * 5


@pytest.mark.slow
def test_what_one_key_asked_is_not_for_another(closed: Served) -> None:
    mine, theirs = (
        endpoints.create_api_key(closed.store, "mine"),
        endpoints.create_api_key(closed.store, "theirs"),
    )
    record = closed.send("/v1/answers", {"question": "Do crows use tools?"}, key=mine).json
    kept = closed.send("/v1/responses", {**ASK, "store": True}, key=mine).json
    for path in (f"/v1/answers/{record['id']}", f"/v1/responses/{kept['id']}"):
        assert closed.send(path, key=mine).status == 200
        assert closed.send(path, key=theirs).status == 404
    assert closed.send(f"/v1/answers/{record['id']}/events", key=theirs).status == 404


# Bodies

WRONG: list[tuple[str, Any, int, str | None]] = [
    ("/v1/responses", b"{", 400, None),
    ("/v1/responses", b"", 400, None),
    ("/v1/responses", b"\xff\xfe", 400, None),
    ("/v1/responses", b"[" * 40_000, 400, None),
    ("/v1/responses", b'{"a":' * 9_000, 400, None),
    ("/v1/responses", b'{"model": NaN}', 400, None),
    ("/v1/responses", b'{"model": "\\ud800"}', 400, None),
    ("/v1/responses", [], 400, None),
    ("/v1/responses", {"input": "Why?"}, 400, "model"),
    ("/v1/responses", {**ASK, "input": 3}, 400, "input"),
    ("/v1/responses", {**ASK, "input": []}, 400, "input"),
    ("/v1/responses", {**ASK, "input": [{"role": "user", "content": 3}]}, 400, "input[0].content"),
    ("/v1/responses", {**ASK, "stream": "yes"}, 400, "stream"),
    ("/v1/responses", {**ASK, "tools": [{}]}, 400, "tools[0].type"),
    ("/v1/responses", {**ASK, "rookery": {"places": ["/etc"]}}, 404, "places"),
    ("/v1/responses", {**ASK, "rookery": {"decline": 2}}, 400, "rookery.decline"),
    ("/v1/responses", {**ASK, "rookery": {"nothing": 1}}, 400, "rookery"),
    ("/v1/chat/completions", {**CHAT, "messages": []}, 400, "messages"),
    (
        "/v1/chat/completions",
        {**CHAT, "messages": [{"role": "system", "content": "x"}]},
        400,
        "messages",
    ),
    ("/v1/chat/completions", {**CHAT, "model": "gpt-6"}, 404, "model"),
    ("/v1/answers", {"question": "\n"}, 400, "question"),
    ("/v1/answers", {"question": "x" * 2_001}, 400, "question"),
    ("/v1/answers", {"question": "Why?", "method": "none"}, 404, "method"),
    ("/search", {"query": "crows", "max_results": 21}, 400, "max_results"),
    ("/search", {"query": "crows", "max_results": True}, 400, "max_results"),
]


@pytest.mark.parametrize(("path", "body", "status", "param"), WRONG)
def test_a_wrong_body_is_told_by_its_field(
    api_server: Served, path: str, body: Any, status: int, param: str | None
) -> None:
    answer = api_server.send(path, body)
    assert (answer.status, answer.error["param"]) == (status, param)
    assert answer.error["message"].endswith(".")


def test_the_errors_of_retrieve_are_those_of_its_convention(api_server: Served) -> None:
    answer = api_server.send("/retrieve", {"queries": "crows"})
    assert answer.status == 422
    assert answer.json == {"detail": "`queries` must be a list [...], and is text."}
    assert api_server.send("/retrieve", b"{").status == 400


PATHS = ("/v1/responses", "/v1/chat/completions", "/v1/messages", "/search", "/retrieve")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(
    path=st.sampled_from(PATHS),
    data=st.data(),
)
def test_no_body_breaks_the_server(api_server: Served, path: str, data: st.DataObject) -> None:
    fields = st.sampled_from(["model", "input", "messages", "queries", "query", "tools", "rookery"])
    body = data.draw(st.dictionaries(fields, json_values) | json_values)
    answer = api_server.send(path, msgspec.json.encode(body))
    assert answer.status in (200, 400, 404, 422)
    assert set(answer.json) & {"error", "detail", "results", "result"}


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused_before_it_is_read(api_server: Served, chunked: bool) -> None:
    host, port = api_server.address.removeprefix("http://").split(":")
    length = "Transfer-Encoding: chunked" if chunked else "Content-Length: 99999999"
    head = f"POST /v1/responses HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"{head}{length}\r\n\r\n".encode())
        if chunked:
            connection.sendall(b"%x\r\n%s\r\n" % (BODY_LIMIT + 1, b" " * (BODY_LIMIT + 1)))
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_that_never_comes_is_not_waited_for(empty_store: Path, tmp_path: Path) -> None:
    limits = ApiLimits(reading=0.2)
    with served(place_of(empty_store, tmp_path), limits=limits) as here:
        host, port = here.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            head = f"POST /search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: 40\r\n\r\n{{".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_addresses_and_methods_that_are_nothing_are_told_in_json(api_server: Served) -> None:
    nowhere = api_server.send("/v1/nothing/at/all")
    assert (nowhere.status, nowhere.error["code"]) == (404, "no_such_address")
    wrong = api_server.send("/v1/responses", ASK, method="DELETE")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert wrong.error["code"] == "method_not_allowed"


# What breaks, and who goes away


def command(words: str, seconds: float = 0.0) -> Callable[[Asking], bytes]:
    """A model that says this each time, after a while."""

    def answer(asking: Asking) -> bytes:
        asking.server.closing.wait(seconds)
        return streamed(event(words), event(None, "stop"), DONE)

    return answer


REFUSES = "The model's server refuses this server's key."


@pytest.mark.slow
def test_a_dead_model_server_is_a_bad_gateway_and_not_named(
    empty_store: Path, tmp_path: Path
) -> None:
    with serving(refused("401 No", "/secret/weights are gone")) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            client = here.openai()
            for path, asked in (("/v1/responses", ASK), ("/v1/chat/completions", CHAT)):
                answer = here.send(path, asked | BY_MODEL)
                assert (answer.status, answer.error["code"]) == (502, "model_refused_key")
                assert not any(secret in answer.body.decode() for secret in (base[7:], "/secret"))
            own = {"question": "Do crows use tools?", "method": "webgpt"}
            assert here.send("/v1/answers", own).status == 502
            events = list(client.responses.create(**ASK | BY_MODEL, stream=True))
            assert events[-1].type == "response.failed"
            assert events[-1].response.error.message == REFUSES
            with pytest.raises(openai.APIError, match=REFUSES):
                list(client.chat.completions.create(**CHAT | BY_MODEL, stream=True))


@pytest.mark.parametrize(
    ("outcome", "status", "retried"),
    [
        ("model_unreachable", 502, True),
        ("model_timed_out", 504, False),
        ("model_quota", 503, True),
        ("spending_cap", 503, False),
        ("store_busy", 503, True),
        ("unreadable_archive", 503, True),
        ("disk_full", 507, False),
        ("never_heard_of", 500, False),
    ],
)
def test_a_failure_has_a_status_and_a_sentence_of_its_own(
    outcome: str, status: int, retried: bool
) -> None:
    trouble = convert_failure(
        Failure("/secret/place", outcome, "at http://10.0.0.1 with sk-secret")
    )
    body = trouble.to_response()
    assert body.status_code == status
    assert ("retry-after" in body.headers) == retried
    assert b"secret" not in bytes(body.body)
    assert b"10.0.0.1" not in bytes(body.body)


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/answers"])
def test_who_goes_away_ends_the_work(
    empty_store: Path, tmp_path: Path, path: str, stream: bool
) -> None:
    own: dict[str, Any] = {"question": "Do crows use tools?", "method": "webgpt"}
    asked = {"/v1/responses": {**ASK, **BY_MODEL}, "/v1/chat/completions": {**CHAT, **BY_MODEL}}
    body = json.dumps({**asked.get(path, own), "stream": stream}).encode()
    with serving(command("Search crows", 0.1)) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            host, port = here.address.removeprefix("http://").split(":")
            head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                assert until(lambda: len(model.asked) >= 2)
            assert until(lambda: idle(here))
            asked_by_then = len(model.asked)
        # Also when the server has ended, nothing more was asked of it.
        assert len(model.asked) == asked_by_then < BrowserRules().actions


def idle(served: Served) -> bool:
    """Whether no question is worked on."""
    service = served.answering
    free = service._worker_slots._value == service.worker_settings.workers
    return free and not service._live


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_given_up(empty_store: Path, tmp_path: Path) -> None:
    with serving(command("Search crows", 0.2)) as model:
        base = model.base_url.removesuffix("/v1")
        limits = ApiLimits(answering=0.5)
        with served(place_of(empty_store, tmp_path), by_model(base), limits) as here:
            answer = here.send("/v1/responses", ASK | BY_MODEL)
            assert (answer.status, answer.error["code"]) == (504, "timed_out")
            assert until(lambda: idle(here))


def fill_up(store: Store) -> None:
    """Adds answers until there is no room for another."""
    endpoints.ensure_reader(store, endpoints.LOCAL_NAME)
    row = {"person": endpoints.LOCAL_NAME, "question": "x " * 900, "wanted": "", "state": "failed"}
    for number in count():
        with store.begin_write() as connection:
            connection.execute(insert(answers).values(id=str(number), tries=0, made=0.0, **row))


@pytest.mark.slow
def test_a_full_disk_is_told_and_names_no_path(empty_store: Path, tmp_path: Path) -> None:
    with served(place_of(empty_store, tmp_path)) as here:
        here.send("/v1/models")

        def fill(connection: Any, record: object) -> None:
            connection.execute("pragma max_page_count = 1")

        database.listen(here.store._engine, "connect", fill)
        here.store._engine.dispose()
        with pytest.raises(Failed, match="disk_full"):
            fill_up(here.store)
        asked = {**ASK, "store": True, "metadata": {"much": "x" * 20_000}}
        for path, body in (("/v1/responses", asked), ("/v1/answers", {"question": "x " * 900})):
            answer = here.send(path, body)
            assert (answer.status, answer.error["code"]) == (507, "disk_full")
            assert str(tmp_path) not in answer.body.decode()
        assert here.send("/v1/responses", ASK).status == 200


def test_a_mistake_of_ours_gives_nothing_away(empty_store: Path, tmp_path: Path) -> None:
    with served(place_of(empty_store, tmp_path)) as here:
        with here.store.begin_write() as connection:
            connection.exec_driver_sql("drop table answers")
        answer = here.send("/v1/answers", {"question": "Why?"})
        assert answer.status == 503
        said = answer.body.decode()
        assert not any(word in said for word in ("Traceback", "answers (", "sqlite", str(tmp_path)))


@pytest.mark.slow
def test_readers_who_do_not_read_keep_nobody_waiting(api_server: Served) -> None:
    host, port = api_server.address.removeprefix("http://").split(":")
    body = json.dumps({**ASK, "stream": True}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    asking = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    slow = [socket.create_connection((host, int(port))) for _ in range(30)]
    try:
        for connection in slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.sendall(asking)
        assert api_server.send("/v1/models").status == 200
        assert api_server.send("/v1/responses", ASK).status == 200
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.slow
def test_what_a_model_does_in_the_browser_are_items(empty_store: Path, tmp_path: Path) -> None:
    said = ("Search crow tools", "Clicked on link 0", "Find in page: tool", "End: Nonsense")
    with serving(*(command(words) for words in said)) as model:
        base = model.base_url.removesuffix("/v1")
        with served(place_of(empty_store, tmp_path), by_model(base)) as here:
            output = here.send("/v1/responses", {**ASK, **BY_MODEL}).json["output"]
    searched, opened, found, message = (item for item in output)
    assert searched["action"]["query"] == "crow tools"
    assert opened["action"]["type"] == "open_page"
    assert found["action"] == {
        "type": "find_in_page",
        "pattern": "tool",
        "url": opened["action"]["url"],
    }
    (part,) = message["content"]
    assert part["type"] == "refusal"
    assert "nonsense" in part["refusal"]
