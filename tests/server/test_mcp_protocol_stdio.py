"""MCP over a real process's standard input and output, message by message."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import CORVIDS, Run
from mcpline import Line, called, greeting, make_request, stateless

from rookery.errors import Failed
from rookery.records import Answer, Claim, Failure, Quote
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    McpProtocol,
    StdioConnection,
    StdioLimits,
)
from rookery.server.mcp.tools import McpLibrary, McpTools
from rookery.settings import Settings

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture(scope="module")
def line(home: Path) -> Iterator[Line]:
    """One server for the tests of this file, after a handshake."""
    with Line(home) as line:
        line.ask(greeting())
        line.send(make_request("notifications/initialized", None))
        yield line


def test_the_revision_of_the_client_is_spoken_or_else_the_last_that_is_known(line: Line) -> None:
    for version in REVISIONS:
        assert line.ask(greeting(version))["result"]["protocolVersion"] == version
    assert line.ask(greeting("1999-01-01"))["result"]["protocolVersion"] == REVISIONS[-1]
    assert HANDSHAKE_VERSIONS == REVISIONS


def test_a_ping_is_answered_with_nothing(line: Line) -> None:
    assert line.ask(make_request("ping", "p"))["result"] == {}


def test_every_tool_says_what_it_takes_and_gives_and_that_it_changes_nothing(line: Line) -> None:
    tools = line.ask(make_request("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert names == ["search", "open", "find", "quote", "fetch", "answer", "verify"]
    for tool in tools:
        assert tool["title"]
        assert tool["description"]
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["readOnlyHint"]
        assert not tool["annotations"]["openWorldHint"]  # a folder is no open world


def test_a_quote_made_over_mcp_verifies_with_the_command(
    line: Line, run: Run, tmp_path: Path
) -> None:
    session = line.call("search", query="why do crows bring gifts")["session"]
    line.call("open", session=session, link=0)
    made = line.call("quote", session=session, text="a gift needs A GIVER")
    quote = Quote(**made["quote"])
    assert quote.text == "A gift needs a giver"
    answer = Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))
    ours, theirs = tmp_path / "answer.json", tmp_path / "answer.md"
    ours.write_text(answer.to_json())
    theirs.write_text(made["markdown"])
    assert run("cite", "verify", ours).code == 0
    assert "1 of 1 quote verified" in run("cite", "verify", theirs).err
    assert line.call("verify", answer=answer.to_json())["verified"] == 1
    other = {**json.loads(answer.to_json()), "quotes": [{**made["quote"], "text": "A gift!"}]}
    assert line.call("verify", answer=other)["checked"][0]["outcome"] == "text_differs"


def test_a_whole_answer_is_verified_and_can_be_verified_again(line: Line) -> None:
    out = line.call("answer", question="Why do crows bring gifts to people?")
    assert out["quotes"] == out["verified"] > 0
    again = line.call("verify", answer=json.dumps(out["answer"]))
    assert again["verified"] == again["total"] == out["quotes"]


def test_two_sessions_side_by_side_do_not_mix(line: Line) -> None:
    gifts = line.call("search", query="why do crows bring gifts")["session"]
    jays = line.call("search", query="jays bury acorns")["session"]
    first = line.call("open", session=gifts, link=0)
    second = line.call("open", session=jays, link=0)
    assert first["url"] != second["url"]
    assert line.call("open", session=gifts)["url"] == first["url"]
    assert line.call("quote", session=jays, start=0, end=7)["quote"]["url"] == second["url"]
    assert "not on the page" in line.read_error("find", session=jays, text="A gift needs a giver")
    line.call("find", session=gifts, text="A gift needs a giver")


def test_what_is_no_message_is_answered_and_the_next_is_served(line: Line) -> None:
    for sent, code in (
        (b"{bad", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b'"a string"', -32600),
        (b"[]", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', -32602),
        (b" " * 4_100_000 + b"{}", -32600),
    ):
        line.send(sent)
        assert line.read()["error"]["code"] == code, sent[:40]
    line.send(b"", b"  ", {"jsonrpc": "2.0", "id": 9, "result": {}})  # nobody asked that
    assert line.ask(make_request("ping", "still"))["result"] == {}


def test_a_tool_that_is_none_is_an_error_and_wrong_arguments_are_a_result(line: Line) -> None:
    unknown = line.ask(called("browse"))["error"]
    assert unknown["code"] == -32602
    assert "search" in unknown["message"]
    assert "query" in line.read_error("search")
    assert "`k` must be" in line.read_error("search", query="jays", k=500)
    assert "nonsense" in line.read_error("search", query="jays", nonsense=1)
    assert "not both" in line.read_error("open", session="x", link=1, url="https://a.example/")
    assert "new one" in line.read_error("find", session="0" * 16, text="jays")
    assert "5000" in line.read_error("answer", question="why " * 1500)
    assert "empty" in line.read_error("answer", question=" ")
    assert "names a source" in line.read_error("verify", answer="no quote")


def test_an_address_that_nothing_showed_is_not_opened(line: Line) -> None:
    for url in ("file:///etc/passwd", "https://example.com/", "http://127.0.0.1:9/"):
        assert "url_not_shown" in line.read_error("open", url=url)


def test_a_huge_text_is_cut_and_the_rest_is_told(line: Line) -> None:
    sentence = "nothing " * 250
    session = line.call("search", query=sentence)["session"]
    assert line.read_error("quote", session=session, text="x" * 19_000).count("x") < 200
    many = "".join(
        f"> “a quote that is nowhere at all {n}” [x](https://x.example/)\n\n" for n in range(120)
    )
    page = line.call("verify", answer=many)
    assert (page["total"], len(page["checked"]), page["next_offset"]) == (120, 50, 50)
    last = line.call("verify", answer=many, offset=100)
    assert (len(last["checked"]), last["next_offset"]) == (20, None)


@pytest.mark.slow
def test_lists_of_messages_are_refused(home: Path) -> None:
    batch = [make_request("ping", 1), called("search", 2, query="jays")]
    with Line(home) as line:
        line.ask(greeting("2025-03-26"))
        line.send(batch)
        assert line.read()["error"]["code"] == -32600
        assert line.ask(make_request("ping", 3))["result"] == {}


@pytest.mark.slow
def test_a_stateless_request_needs_no_handshake_and_names_its_revision(home: Path) -> None:
    with Line(home) as line:
        found = line.ask(stateless(make_request("server/discover")))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        result = line.ask(stateless(called("search", query="jays")))["result"]
        assert result["resultType"] == "complete"
        problem = line.ask(stateless(make_request("tools/list"), "2031-01-01"))["error"]
        assert problem["code"] == -32022
        assert problem["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
        assert line.ask(stateless(make_request("ping")))["error"]["code"] == -32601


@pytest.mark.slow
def test_a_call_that_was_called_off_is_not_answered(line: Line) -> None:
    ids = [f"a{number}" for number in range(30)]
    off = ids[-10:]  # still waiting: no more than a few are worked on at once
    calls = [called("answer", id, question=f"Why do jays bury {id}?") for id in ids]
    line.send(*calls, *(make_request("notifications/cancelled", None, requestId=id) for id in off))
    answered = {line.read()["id"] for _ in range(20)}
    assert answered == set(ids) - set(off)
    assert line.ask(make_request("ping", "after"))["id"] == "after"


def test_more_calls_than_may_wait_are_refused_and_the_others_answered() -> None:
    began, go_on = threading.Event(), threading.Event()
    replies: list[bytes] = []

    def answer(cancelled: Callable[[], bool], request: QuestionRequest) -> AnswerOutcome:
        began.set()
        go_on.wait(60)
        raise Failed(Failure("the question", "model_failed", "the model failed: ask again"))

    def messages() -> Iterator[bytes]:
        for id in range(3):
            yield json.dumps(called("answer", id, question="Why?")).encode()
            began.wait(60)  # from here on the only worker is busy
        assert [json.loads(each)["id"] for each in replies] == [2]
        go_on.set()

    protocol = McpProtocol(McpTools(McpLibrary(Settings(("rookery:corvids",)))))
    limits = StdioLimits(at_once=1, waiting=1)
    StdioConnection(protocol, answer, replies.append, limits).run(messages())
    refused, *answered = map(json.loads, replies)
    assert "too much" in refused["error"]["message"]
    assert [each["id"] for each in answered] == [0, 1]
    assert all("ask again" in each["result"]["content"][0]["text"] for each in answered)


@pytest.mark.slow
def test_the_end_of_the_input_ends_it_after_the_last_answer(home: Path) -> None:
    with Line(home) as line:
        line.send(greeting(), called("answer", 2, question="Why do crows bring gifts?"))
        code, out, err = line.end()
    assert (code, err) == (0, "")
    assert {json.loads(each)["id"] for each in out.splitlines()} == {"hello", 2}
    assert all("result" in json.loads(each) for each in out.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_at_once_with_a_sentence(
    home: Path, number: signal.Signals, code: int
) -> None:
    with Line(home) as line:
        line.ask(greeting())
        line.send(called("answer", 2, question="Why do crows bring gifts?"))
        line.process.send_signal(number)
        ended, _, err = line.end()
    assert ended == code
    assert err.startswith("rookery: stopped")
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_client_that_goes_away_leaves_nothing_behind(home: Path) -> None:
    with Line(home) as line:
        line.ask(greeting())
        line.send(*(called("search", id, query="jays") for id in range(50)))
        assert line.process.stdout is not None
        line.process.stdout.close()  # it reads no more, then closes its side
        assert line.process.stdin is not None
        line.process.stdin.close()
        assert line.process.wait(120) == 0
        assert line.process.stderr is not None
        assert line.process.stderr.read() == b""


@pytest.mark.slow
def test_a_place_that_is_none_is_told_with_every_call(home: Path) -> None:
    with Line(home, "--in", "/nowhere/at/all") as line:
        line.ask(greeting())
        assert "no such" in line.read_error("search", query="jays")


@pytest.mark.slow
def test_what_does_not_go_together_is_told_before_anything_is_served(run: Run) -> None:
    assert "goes with --model" in run("serve", "mcp", *CORVIDS, "--method", "webgpt").err
    assert "no method 'magic'" in run("serve", "mcp", *CORVIDS, "--method", "magic").err
