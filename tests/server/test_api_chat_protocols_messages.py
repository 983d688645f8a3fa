"""Anthropic's Messages: blocks with citations, streams, declines, refusals, the official client."""

import json
import os
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from askers import home
from hypothesis import given
from hypothesis import strategies as st
from models import refused, serving
from programs import Served, by_model, served

from rookery.library.page_archive import PageArchive
from rookery.quotes.saved_answers import extract_claimed_quotes
from rookery.quotes.verification import Verdict
from rookery.records import Answer, Claim, Page
from rookery.server.api import endpoints
from rookery.server.api.chat_protocols import split_into_cited_blocks
from rookery.server.api.questions import list_cited_sources
from rookery.settings import ARCHIVE, Settings, get_data_folder

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")
ROOT = Path(__file__).parents[2]
PATH = "/v1/messages"
FACES, LONGER = "Do crows recognise human faces?", "For how long do they remember?"
NOTHING = "zxqv wvut qqqq?"


@pytest.fixture(scope="module")
def service(home: Path, empty_store: Path) -> Iterator[Served]:
    place = home / "messages.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place, Settings(("rookery:corvids",))) as server:
        yield server


def asking(*contents: Any, **more: Any) -> dict[str, Any]:
    """A request with these messages of a user."""
    messages = [{"role": "user", "content": content} for content in contents]
    return {"model": "rookery-extract", "max_tokens": 1024, "messages": messages, **more}


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, without pings."""
    events = [each.split("\n") for each in body.decode().strip().split("\n\n")]
    found = [(name.removeprefix("event: "), json.loads(data[6:])) for name, data in events]
    assert all(name == data["type"] for name, data in found)
    return [data for name, data in found if name != "ping"]


def check_citations(message: dict[str, Any]) -> None:
    """Every citation is a slice of the stored page that its index and its address name."""
    cited = [each for block in message["content"] for each in block["citations"] or ()]
    assert cited
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        for citation in cited:
            digest, _, span = citation["encrypted_index"].partition(":")
            start, end = map(int, span.split("-"))
            page = archive.find_page(digest)
            assert page is not None
            assert page.text[start:end] == citation["cited_text"]
            assert citation["url"].endswith(f"/pages/{digest}?start={start}&end={end}#quote")
            assert citation["title"]


@pytest.mark.slow
def test_an_answer_is_blocks_whose_quotes_stand_in_their_pages(service: Served) -> None:
    sent = service.send(PATH, asking(FACES))
    message = sent.json
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    check_citations(message)
    answer = service.send("/v1/answers", {"question": FACES}).json
    assert "".join(block["text"] for block in message["content"]) == answer["text"]
    assert message["usage"]["input_tokens"] == service.answering.count_tokens([FACES])
    assert message["usage"]["output_tokens"] == service.answering.count_tokens([answer["text"]])
    claimed = extract_claimed_quotes(sent.body, "message.json")
    assert {quote.text for quote in claimed} == {
        source["quote"] for source in message["rookery"]["sources"]
    }


@pytest.mark.slow
def test_a_stream_tells_what_the_message_then_holds(service: Served) -> None:
    whole = service.send(PATH, asking(FACES)).json
    raw = service.send(PATH, asking(FACES, stream=True))
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert b"event: ping\n" in raw.body
    start, *middle, delta, stop = read_events(raw.body)
    assert (start["type"], stop["type"]) == ("message_start", "message_stop")
    assert (start["message"]["content"], start["message"]["stop_reason"]) == ([], None)
    blocks: list[dict[str, Any]] = []
    for event in middle:
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
        assert event["index"] == len(blocks) - 1
        if event["type"] == "content_block_delta":
            part = event["delta"]
            if part["type"] == "text_delta":
                blocks[-1]["text"] += part["text"]
            else:
                blocks[-1]["citations"].append(part["citation"])
    assert blocks == whole["content"]
    assert delta["delta"] == {
        key: whole[key] for key in ("stop_reason", "stop_sequence", "stop_details")
    }
    assert (delta["usage"], delta["rookery"]) == (whole["usage"], whole["rookery"])


@pytest.mark.parametrize("stream", [False, True])
def test_a_decline_is_a_refusal_with_its_reason(service: Served, stream: bool) -> None:
    answer = service.send(PATH, asking(NOTHING, stream=stream))
    events = read_events(answer.body) if stream else []
    ending = events[-2]["delta"] if stream else answer.json
    text = events[2]["delta"]["text"] if stream else answer.json["content"][0]["text"]
    assert ending["stop_reason"] == "refusal"
    assert ending["stop_details"]["explanation"].startswith(text)
    assert text


@pytest.mark.slow
def test_earlier_messages_give_the_last_one_its_context(service: Served) -> None:
    asked = asking(FACES, [{"type": "text", "text": LONGER}, {"type": "image", "source": {}}])
    asked["messages"].insert(1, {"role": "assistant", "content": "They do. Ask about cars."})
    unused = {
        "system": "Be brief.",
        "stop_sequences": ["x"],
        "metadata": {"user_id": "1"},
        "top_k": 5,
    }
    about = service.send(PATH, {**asked, **unused, "rookery": {"links": True}}).json["rookery"]
    assert about["searched"] == f"{LONGER} (crows recognise human faces)"
    ignored = {"messages[1]", "messages[2].content[1]", "max_tokens", "rookery.links", *unused}
    assert set(about["ignored"]) == ignored


@pytest.mark.slow
def test_a_web_search_tool_says_which_hosts_are_searched(service: Served) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    for hosts, reason in (
        ({"allowed_domains": ["birds.example"]}, "refusal"),  # the little web has no host at all
        ({"blocked_domains": ["birds.example"], "max_uses": 3}, "end_turn"),
    ):
        message = service.send(PATH, asking(FACES, tools=[tool | hosts])).json
        assert message["stop_reason"] == reason


WRONG: list[tuple[dict[str, Any], int, str, str]] = [
    (asking(FACES, model="claude"), 404, "not_found_error", "There is no model 'claude'"),
    (asking(FACES, max_tokens=0), 400, "invalid_request_error", "`max_tokens` must"),
    (asking(" "), 400, "invalid_request_error", "messages"),
    (asking(FACES, tools=[{"name": "add"}]), 400, "invalid_request_error", "tools[0]: "),
    (
        asking([{"type": "text", "text": FACES}, {"type": "document", "source": {}}]),
        400,
        "invalid_request_error",
        "messages[0].content[1]: documents",
    ),
    (asking("x" * 60_000), 413, "request_too_large", "Send at most"),
]


@pytest.mark.parametrize(("body", "status", "kind", "begins"), WRONG)
def test_an_error_has_the_shape_of_the_protocol(
    service: Served, body: dict[str, Any], status: int, kind: str, begins: str
) -> None:
    answer = service.send(PATH, body)
    assert answer.status == status
    error = answer.json["error"]
    assert answer.json == {"type": "error", "error": {"type": kind, "message": error["message"]}}
    assert error["message"].startswith(begins)
    assert error["message"].endswith(".")


def test_a_key_is_taken_from_either_header(home: Path, empty_store: Path) -> None:
    place = home / "keys.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place) as closed:
        key = endpoints.create_api_key(closed.store, "bot")
        headers = {"anthropic-version": "2023-06-01", "x-api-key": key}
        assert closed.send(PATH, asking(FACES), headers=headers).status == 200
        assert closed.send("/v1/models", headers=headers).status == 200
        assert closed.send("/v1/models", key=key).status == 200
        for wrong in ({"x-api-key": "rk-wrong"}, headers | {"Authorization": "Bearer rk-wrong"}):
            answer = closed.send(PATH, asking(FACES), headers=wrong)
            assert (answer.status, answer.json["error"]["type"]) == (401, "authentication_error")


def test_a_stream_whose_model_fails_ends_with_the_error(home: Path, empty_store: Path) -> None:
    place = home / "failing.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with (
        serving(refused("401 No")) as model,
        served(place, by_model(model.base_url.removesuffix("/v1"))) as here,
    ):
        asked = asking(FACES, model="rookery-webgpt/small", stream=True)
        events = read_events(here.send(PATH, asked).body)
    assert [event["type"] for event in events] == ["message_start", "error"]
    assert events[-1]["error"]["type"] == "api_error"
    assert "refuses this server's key" in events[-1]["error"]["message"]


@given(st.text(st.sampled_from("ab 🐦\n"), min_size=1, max_size=12), st.data())
def test_blocks_concatenate_to_any_answer_and_cite_all_its_claims(
    text: str, data: st.DataObject
) -> None:
    page = Page("https://birds.example/a", "Crows", text)
    quotes = tuple(
        dict.fromkeys(page.quote_whole_words(0, size) for size in range(1, min(4, len(text)) + 1))
    )
    spans = data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    numbers = st.lists(st.integers(0, len(quotes) - 1), max_size=3).map(tuple)
    claims = tuple(Claim(min(span), max(span), data.draw(numbers)) for span in spans)
    verdicts = [Verdict(quote, "verified") for quote in quotes]
    sources = list_cited_sources(verdicts, lambda quote: quote.url)
    blocks = split_into_cited_blocks(Answer(text, quotes, claims), sources)
    assert "".join(block.text for block in blocks) == text
    cited = [[each.cited_text for each in block.citations or ()] for block in blocks]
    ends = [0]
    for block in blocks:
        ends.append(ends[-1] + len(block.text))
    for (start, end), found in zip(pairwise(ends), cited, strict=True):
        assert end > start
        within = [c for c in claims if c.start <= start < c.end]
        assert set(found) == {quotes[n].text for claim in within for n in claim.quotes}
        assert len(found) == len(set(found))


def test_the_tokens_of_a_conversation_are_counted(service: Served) -> None:
    counted = service.send(f"{PATH}/count_tokens", {**asking(FACES, LONGER), "system": "Be brief."})
    assert counted.json == {"input_tokens": service.answering.count_tokens([FACES, LONGER])}
    wrong = service.send(f"{PATH}/count_tokens", asking(FACES, model="claude"))
    assert (wrong.status, wrong.json["error"]["type"]) == (404, "not_found_error")
    wrong = service.send(f"{PATH}/count_tokens", {"model": "rookery-extract"})
    assert (wrong.status, wrong.json["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("path", ["/batches", "/batches/msgbatch_1/results", "/", "/count"])
def test_errors_below_the_address_of_messages_have_their_shape(service: Served, path: str) -> None:
    nowhere = service.send(f"{PATH}{path}", method="GET")
    assert nowhere.status == 404
    assert (nowhere.json["type"], nowhere.json["error"]["type"]) == ("error", "not_found_error")
    wrong = service.send(f"{PATH}{path}", method="QUERY")
    assert (wrong.status, wrong.json["type"]) == (405, "error")
    assert service.send(f"{PATH}/count_tokens", method="GET").json["type"] == "error"
    assert service.send("/v1/messaging").json["error"]["code"] == "no_such_address"


@pytest.mark.slow
@pytest.mark.program
def test_the_official_client_reads_answers_streams_and_errors(service: Served) -> None:
    python = ROOT / ".venv" / "anthropic" / "bin" / "python"
    if not python.exists() and "CI" not in os.environ:
        pytest.skip("needs .venv/anthropic with the package anthropic, as in CI")
    talk = [FACES, LONGER]
    calls = [{"messages": asking(*talk[: n + 1])["messages"]} for n in range(2)]
    calls += [asking(NOTHING), asking(FACES, model="claude")]
    made = subprocess.run(
        [
            python,
            Path(__file__).parent.parent / "helpers" / "anthropic_client.py",
            service.address,
            "none",
        ],
        input="\n".join(map(json.dumps, calls)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    first, second, declined, wrong = map(json.loads, made.stdout.splitlines())
    for said in (first, second):
        check_citations(said["whole"])
        assert said["count"]["input_tokens"] == said["whole"]["usage"]["input_tokens"] > 5
        assert said["streamed"]["content"] == said["whole"]["content"]
        assert said["streamed"]["usage"] == said["whole"]["usage"]
        assert said["streamed"]["stop_reason"] == said["whole"]["stop_reason"] == "end_turn"
        kinds = {event["type"] for event in said["events"]}
        assert {"text", "citation", "content_block_stop", "message_stop"} <= kinds
    assert "face" in second["whole"]["content"][0]["text"]
    assert declined["whole"]["stop_reason"] == declined["streamed"]["stop_reason"] == "refusal"
    assert declined["whole"]["stop_details"] == declined["streamed"]["stop_details"]
    assert wrong["error"]["kind"] == "NotFoundError"
    assert wrong["models"] == ["rookery-extract"]
