"""MCP at /mcp: what a client sends over HTTP, and what it gets back."""

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from commands import surroundings
from mcp_serving import at_work
from mcpline import Json, called, greeting, make_request, stateless
from visits import Opened, open_store

from rookery.errors import Failed
from rookery.records import Failure
from rookery.server import documents
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.api.endpoints import create_api_key, revoke_api_key
from rookery.server.documents import DocumentText

BOTH = {"Accept": "application/json, text/event-stream"}
NEW = {"mcp-protocol-version": "2026-07-28"}
PATIENCE = 120.0
"""seconds after which something hangs"""


@pytest.fixture(scope="module")
def shared_site(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A store for the tests of this file."""
    folder = tmp_path_factory.mktemp("mcp")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(folder).items():
            patch.setenv(name, value)
        opened = open_store(empty_store, folder)
        yield opened
        opened.store.close()


@pytest.fixture(scope="module")
def address(shared_site: Opened) -> Iterator[str]:
    """Where it is served."""
    with at_work(shared_site.store) as base:
        yield f"{base}/mcp"


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    """A client that posts to it."""
    base = address.removesuffix("/mcp")
    with httpx.Client(base_url=base, headers=BOTH, timeout=PATIENCE) as client:
        yield client


def post(client: httpx.Client, message: Any, **headers: str) -> httpx.Response:
    """One message sent."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/mcp", json=message, headers=named)


def call(client: httpx.Client, name: str, **arguments: Any) -> Json:
    """What a tool gives for programs."""
    result = post(client, called(name, **arguments)).json()["result"]
    assert not result["isError"], result["content"]
    found: Json = result["structuredContent"]
    return found


def test_a_session_begins_with_a_handshake_and_has_nothing_to_end(client: httpx.Client) -> None:
    begun = post(client, greeting("2025-06-18"))
    assert begun.json()["result"]["protocolVersion"] == "2025-06-18"
    session = {"mcp-session-id": begun.headers["mcp-session-id"]}
    noted = client.post(
        "/mcp", json=make_request("notifications/initialized", None), headers=session
    )
    assert (noted.status_code, noted.content) == (202, b"")
    assert client.post("/mcp", json=make_request("ping"), headers=session).json()["result"] == {}
    assert client.delete("/mcp", headers=session).status_code == 405
    session["mcp-session-id"] += "x"
    assert client.post("/mcp", json=make_request("ping"), headers=session).status_code == 404


def test_there_is_no_stream_to_listen_to(client: httpx.Client) -> None:
    response = client.get("/mcp", headers={"Accept": "text/event-stream"})
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@pytest.mark.slow
def test_the_answer_is_json_or_events_as_the_client_accepts(client: httpx.Client) -> None:
    message = called("search", 7, query="jays")
    plain = post(client, message, accept="application/json")
    assert plain.headers["content-type"] == "application/json"
    events = post(client, message, accept="text/event-stream")
    assert events.headers["content-type"] == "text/event-stream"
    data = [line[6:] for line in events.text.splitlines() if line.startswith("data: ")]
    assert [json.loads(each)["id"] for each in data] == [7]
    assert post(client, greeting(), accept="text/event-stream").text.startswith("event: message")
    assert post(client, message, accept="text/html").status_code == 406


@pytest.mark.slow
def test_headers_and_message_of_a_stateless_request_must_agree(client: httpx.Client) -> None:
    message = stateless(called("search", query="jays"))
    right = {**NEW, "mcp-method": "tools/call", "mcp-name": "search"}
    assert client.post("/mcp", json=message, headers=right).json()["result"]["resultType"]
    for header, value in (
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
        ("mcp-name", "answer"),
    ):
        response = client.post("/mcp", json=message, headers={**right, header: value})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == -32020
    other = stateless(make_request("tools/list"), "2031-01-01")
    headers = {"mcp-protocol-version": "2031-01-01", "mcp-method": "tools/list"}
    response = client.post("/mcp", json=other, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32022)
    ping = client.post(
        "/mcp", json=stateless(make_request("ping")), headers={**NEW, "mcp-method": "ping"}
    )
    assert (ping.status_code, ping.json()["error"]["code"]) == (404, -32601)


def test_bad_messages_get_an_error_and_a_status(client: httpx.Client) -> None:
    def sent(body: bytes, kind: str = "application/json") -> httpx.Response:
        return client.post("/mcp", content=body, headers={"content-type": kind})

    assert sent(b"{bad").json()["error"]["code"] == -32700
    assert sent(b"[" * 100_000).json()["error"]["code"] == -32700
    assert sent(b"3").json()["error"]["code"] == -32600
    assert sent(b"{}", "text/plain").status_code == 415
    assert post(client, called("browse")).json()["error"]["code"] == -32602
    assert post(client, make_request("ping"), mcp_protocol_version="1999").status_code == 400
    assert post(client, make_request("ping"), mcp_session_id="unknown").status_code == 404
    assert sent(b'"' + b"x" * 4_500_000 + b'"').status_code == 413
    assert post(client, make_request("ping")).json()["result"] == {}


@pytest.mark.slow
def test_lists_of_messages_are_refused(client: httpx.Client) -> None:
    batch = [make_request("ping", 1), called("search", 2, query="jays")]
    for version in ("2025-03-26", "2025-06-18", NEW["mcp-protocol-version"]):
        response = post(client, batch, mcp_protocol_version=version)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)
        assert "one message at a time" in response.json()["error"]["message"]


def test_a_page_of_another_site_and_another_name_of_this_machine_get_nothing(
    client: httpx.Client,
) -> None:
    message = make_request("ping")
    assert post(client, message, origin="https://evil.example").status_code == 403
    assert post(client, message, sec_fetch_site="cross-site").status_code == 403
    assert post(client, message, host="rebound.example").status_code == 401


def test_two_browsers_side_by_side_do_not_mix(client: httpx.Client) -> None:
    gifts = call(client, "search", query="why do crows bring gifts")["session"]
    jays = call(client, "search", query="jays bury acorns")["session"]
    first = call(client, "open", session=gifts, link=0)
    second = call(client, "open", session=jays, link=0)
    assert call(client, "quote", session=gifts, start=0, end=7)["quote"]["url"] == first["url"]
    assert call(client, "quote", session=jays, start=0, end=7)["quote"]["url"] == second["url"]


@pytest.mark.slow
def test_uploaded_documents_are_found_and_opened(client: httpx.Client, tmp_path: Path) -> None:
    session = call(client, "search", query="kakapo")["session"]  # before there is any
    file = tmp_path / "parrots.md"
    file.write_text("# Parrots\n\nThe kakapo booms at night.\n", encoding="utf-8")
    text = DocumentText("", "Parrots", 40)
    with documents.lock_documents():
        documents.add_document_version(file.name, file, "ada", 1.0, text)
    for known in ({}, {"session": session}):
        found = call(client, "search", query="kakapo at night", **known)
        assert found["results"][0]["title"] == "Parrots"
        opened = call(client, "open", link=0, session=found["session"])
        assert "booms at night" in opened["text"]
    with documents.lock_documents():
        documents.switch_document_version(file.name, 0)
    assert "Parrots" not in str(call(client, "search", query="kakapo at night"))


def test_nothing_tells_where_files_are_on_this_machine(client: httpx.Client) -> None:
    found = post(client, called("search", query="why do crows bring gifts"))
    session = found.json()["result"]["structuredContent"]["session"]
    opened = post(client, called("open", session=session, link=0))
    window = opened.json()["result"]["structuredContent"]
    quoted = post(client, called("quote", session=session, start=0, end=35))
    made = quoted.json()["result"]["structuredContent"]
    answered = post(client, called("answer", question="Why do crows bring gifts to people?"))
    answer = answered.json()["result"]["structuredContent"]
    checks = [
        post(client, called("verify", answer=made["markdown"])),
        post(client, called("verify", answer=answer["answer"])),
    ]
    again = post(client, called("open", session=session, url=window["url"]))
    for response in (found, opened, quoted, answered, again, *checks):
        assert "rookery/browse" not in response.text
        assert "file:///" not in response.text
    for response in checks:
        verified = response.json()["result"]["structuredContent"]
        assert verified["verified"] == verified["total"] > 0
    assert again.json()["result"]["structuredContent"]["digest"] == window["digest"]


@pytest.mark.slow
def test_a_key_is_needed_once_there_is_one_and_its_budget_counts_answers(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)
    opened = open_store(empty_store, tmp_path)
    key, other = create_api_key(opened.store, "one", budget=1), create_api_key(opened.store, "two")
    with at_work(opened.store) as base, httpx.Client(headers=BOTH, timeout=PATIENCE) as client:

        def sent(message: Json, token: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return client.post(f"{base}/mcp", json=message, headers=headers)

        refused = sent(make_request("ping"), "")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert sent(make_request("ping"), "rk-wrong").status_code == 401
        found = sent(called("search", query="jays"), key).json()["result"]["structuredContent"]
        theirs = called("open", session=found["session"], link=0)
        assert sent(theirs, other).json()["result"]["isError"]
        assert not sent(theirs, key).json()["result"]["isError"]
        question = called("answer", question="Why do crows bring gifts to people?")
        assert not sent(question, key).json()["result"]["isError"]
        spent = sent(question, key).json()["result"]
        assert spent["isError"]
        assert "budget" in spent["content"][0]["text"]
        revoke_api_key(opened.store, "one")
        assert sent(make_request("ping"), key).status_code == 401
    opened.store.close()


def test_a_session_is_for_its_key_alone(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
    go_on = threading.Event()

    def slow(
        answering: AnswerService, inquiry: QuestionRequest, disconnected: Callable[[], bool]
    ) -> AnswerOutcome:
        began.put(disconnected)
        assert go_on.wait(PATIENCE)
        raise Failed(Failure("the question", "model_failed", "the model failed: ask again"))

    monkeypatch.setattr(AnswerService, AnswerService.answer_now.__name__, slow)
    opened = open_store(empty_store, tmp_path)
    own, other = (
        {"Authorization": f"Bearer {create_api_key(opened.store, name)}"} for name in ("one", "two")
    )
    with at_work(opened.store) as base, httpx.Client(base_url=base, timeout=PATIENCE) as client:
        client.headers.update(BOTH)
        begun = client.post("/mcp", json=greeting(), headers=own)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        question = called("answer", "slow", question="Why?")
        sending = {"json": question, "headers": own | session}
        thread = threading.Thread(target=client.post, args=("/mcp",), kwargs=sending, daemon=True)
        thread.start()
        cancelled = began.get(timeout=PATIENCE)
        calling_off = make_request("notifications/cancelled", None, requestId="slow")
        stateless_one = {"mcp-protocol-version": NEW["mcp-protocol-version"]}
        unknown = {"mcp-session-id": "s" * len(session["mcp-session-id"])}
        answers = []
        for named in (session, unknown):
            for message in (make_request("ping"), calling_off):
                answers.append(client.post("/mcp", json=message, headers=other | named))
        assert {(each.status_code, each.text) for each in answers} == {(404, answers[0].text)}
        client.post("/mcp", json=calling_off, headers=other | session | stateless_one)
        assert not cancelled()
        ping = client.post("/mcp", json=make_request("ping"), headers=own | session)
        assert ping.json()["result"] == {}
        client.post("/mcp", json=calling_off, headers=own | session)
        assert cancelled()
        go_on.set()
        thread.join(PATIENCE)
    opened.store.close()


def test_clients_that_go_away_leave_a_server_that_answers(address: str) -> None:
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    body = json.dumps(called("answer", question="Why do crows bring gifts?")).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for sent in (head, head + body[:20], head + body) * 10:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
    base = address.removesuffix("/mcp")
    with httpx.Client(base_url=base, headers=BOTH, timeout=PATIENCE) as client:
        assert call(client, "search", query="jays")["total"] > 0


def test_a_call_that_takes_long_is_answered_as_events_and_can_be_called_off(
    shared_site: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    stopped: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def slow(
        answering: AnswerService, inquiry: QuestionRequest, disconnected: Callable[[], bool]
    ) -> AnswerOutcome:
        began.set()
        while not (go_on.wait(0.01) or disconnected()):
            pass
        stopped.put(disconnected())
        raise Failed(Failure("the question", "model_failed", "the model failed: ask again"))

    monkeypatch.setattr(AnswerService, AnswerService.answer_now.__name__, slow)
    at_once = {"Accept": "text/event-stream"}
    question = called("answer", "slow", question="Why?")
    with (
        at_work(shared_site.store, patience=0.01) as base,
        httpx.Client(base_url=base, headers=BOTH, timeout=PATIENCE) as client,
    ):
        client.headers["mcp-session-id"] = post(client, greeting()).headers["mcp-session-id"]
        with client.stream("POST", "/mcp", json=question) as response:
            assert response.headers["content-type"] == "text/event-stream"
            go_on.set()
            data = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
        assert "ask again" in json.loads(data[0])["result"]["content"][0]["text"]
        assert stopped.get(timeout=PATIENCE) is False
        go_on.clear()
        began.clear()
        with client.stream("POST", "/mcp", json=question, headers=at_once):
            assert began.wait(PATIENCE)
        # The client has closed the connection before there is an answer.
        assert stopped.get(timeout=PATIENCE) is True
        began.clear()
        thread = threading.Thread(target=post, args=(client, question), daemon=True)
        thread.start()
        assert began.wait(PATIENCE)
        post(client, make_request("notifications/cancelled", None, requestId="slow"))
        assert stopped.get(timeout=PATIENCE) is True
        thread.join(PATIENCE)
