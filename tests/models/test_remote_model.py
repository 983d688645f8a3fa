"""Remote models on real loopback servers that answer, dawdle, break off and lie."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from models import (
    DONE,
    SSE,
    Answer,
    Asking,
    Server,
    chat,
    chunk,
    cut,
    event,
    refused,
    reply,
    serving,
    streamed,
    usage,
    write_choices,
)
from ports import find_free_port

from rookery.errors import Failed
from rookery.models.openai_protocol import ModelEndpoint, SpendingBudget, SpendingCap, SpendingTotal
from rookery.models.remote_model import PROBE_GRAMMAR, RemoteLimits, RemoteModel, probe_grammar
from rookery.records import Completion, Failure

KEY = "sk-very-secret-0123456789"
HURRY = RemoteLimits(seconds=60, deadline=120, tries=3, wait=0.01, longest_wait=1)


@contextmanager
def asking(
    *answers: Answer,
    limits: RemoteLimits = HURRY,
    spending: SpendingBudget | None = None,
    key: str = KEY,
    **settings: Any,
) -> Iterator[tuple[RemoteModel, Server]]:
    """A model on a server that gives these answers."""
    with serving(*answers) as server:
        endpoint = ModelEndpoint("crow-1", server.base_url, **settings)
        with RemoteModel(endpoint, key, limits, spending) as model:
            yield model, server


def failure(model: RemoteModel, prompt: str = "Why?") -> Failure:
    """Why it could not be completed."""
    with pytest.raises(Failed) as failed:
        model.complete(prompt)
    assert KEY not in str(failed.value)
    return failed.value.failure


def read_stream(model: RemoteModel, prompt: str = "Why?") -> tuple[list[str], Completion]:
    """The pieces of a stream, and the whole."""
    whole: list[Completion] = []

    def listen() -> Iterator[str]:
        whole.append((yield from model.stream(prompt)))

    pieces = list(listen())
    assert "".join(pieces) == whole[0].text
    return pieces, whole[0]


FINE = write_choices(chat("Because."), usage=usage(3, 2))


def test_a_chat_is_asked_with_its_settings_and_answers() -> None:
    with asking(FINE, temperature=0.5, max_tokens=7, stop=("\n",), seed=5, extra={"k": 1}) as (
        model,
        server,
    ):
        assert model.complete("Why?") == [Completion("Because.")]
        assert server.asked[0].path == "/v1/chat/completions"
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.asked[0].fields == {
            "model": "crow-1",
            "messages": [{"role": "user", "content": "Why?"}],
            "temperature": 0.5,
            "max_tokens": 7,
            "stop": ["\n"],
            "seed": 5,
            "k": 1,
        }


def test_a_prompt_is_continued_without_chat() -> None:
    answer = write_choices({"text": " because", "finish_reason": "length"})
    with asking(answer, chat=False) as (model, server):
        assert model.complete("Why?") == [Completion(" because", stop="length")]
        assert server.asked[0].path == "/v1/completions"
        assert server.prompts() == ["Why?"]


def test_nothing_but_the_key_goes_out_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: 1\nAuthorization: Bearer other")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    for key in (KEY, ""):
        with asking(FINE, key=key) as (model, server):
            model.complete("Why?")
            headers = server.asked[0].headers
            assert headers.get("authorization", "") == (f"Bearer {KEY}" if key else "")
            assert not any("secret" in f"{each}".lower() for each in headers.items() if not key)
            assert not any(name.startswith(("openai", "x-secret")) for name in headers)


def test_n_completions_come_from_one_request_where_the_server_can() -> None:
    with asking(write_choices(chat("a"), chat("b"), chat("c"), chat("d"))) as (model, server):
        assert [each.text for each in model.complete("Why?", 3)] == ["a", "b", "c"]
        assert [asked.fields["n"] for asked in server.asked] == [3]


@pytest.mark.parametrize(
    "first", [write_choices(chat("x")), refused("400 Bad Request", "n must be 1")]
)
def test_a_server_that_does_not_know_n_is_asked_n_times_and_that_is_remembered(
    first: bytes,
) -> None:
    with asking(first, write_choices(chat("x")), seed=7) as (model, server):
        for _ in range(2):
            assert [each.text for each in model.complete("Why?", 3)] == ["x"] * 3
        several = [asked.fields for asked in server.asked if "n" in asked.fields]
        assert len(several) == 1
        assert len(server.asked) == 6 + (b"400" in first)
        assert {asked.fields["seed"] for asked in server.asked[-3:]} == {7, 8, 9}


def test_a_choice_that_says_nothing_is_asked_for_again() -> None:
    with asking(write_choices(chat(None), chat("b")), write_choices(chat("c"))) as (model, server):
        assert [each.text for each in model.complete("Why?", 2)] == ["b", "c"]
        model.complete("Why?", 2)
        assert [asked.fields.get("n") for asked in server.asked] == [2, None, 2, None]


def test_when_one_of_n_requests_fails_the_others_are_ended() -> None:
    def dawdle(asking: Asking) -> None:
        asking.server.closing.wait(20)

    with asking(write_choices(chat("x")), refused("401 Unauthorized"), dawdle) as (model, _):
        began = time.monotonic()
        with pytest.raises(Failed, match="model_refused_key"):
            model.complete("Why?", 3)
        assert time.monotonic() - began < 20  # the others' time


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("chat", {**chat("ab"), "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1}]}}),
        (
            "completions",
            {"text": "ab", "finish_reason": "stop", "logprobs": {"token_logprobs": [-0.5, -1]}},
        ),
    ],
)
def test_log_probabilities_are_kept_and_token_ids_where_there_are_any(
    kind: str, choice: dict[str, Any]
) -> None:
    answers = [
        write_choices(choice),
        write_choices({**choice, "token_ids": [4, 9]}),
        write_choices({**choice, "token_ids": [1]}),
    ]
    with asking(*answers, chat=kind == "chat", logprobs=True) as (model, server):
        assert model.complete("Why?") == [Completion("ab", (), (-0.5, -1.0))]
        assert model.complete("Why?") == [Completion("ab", (4, 9), (-0.5, -1.0))]
        assert model.complete("Why?") == [Completion("ab", (), (-0.5, -1.0))]
        assert server.asked[0].fields["logprobs"] == (True if kind == "chat" else 1)


@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": None}, {"token_logprobs": [None, -1]}, {"content": [{}]}, 3]
)
def test_log_probabilities_that_are_missing_or_wrong_are_none(logprobs: Any) -> None:
    with asking(write_choices({**chat("ab"), "logprobs": logprobs}), logprobs=True) as (model, _):
        assert model.complete("Why?") == [Completion("ab")]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("429 Too Many Requests", "model_quota"),
        ("500 Internal Server Error", "model_failed"),
        ("502 Bad Gateway", "model_failed"),
        ("503 Service Unavailable", "model_failed"),
        ("504 Gateway Timeout", "model_timed_out"),
    ],
)
def test_what_passes_is_tried_again_and_not_for_ever(status: str, outcome: str) -> None:
    with asking(refused(status), FINE, refused(status)) as (model, server):
        assert model.complete("Why?") == [Completion("Because.")]
        assert len(server.asked) == 2
        failed = failure(model)
        assert len(server.asked) == 2 + HURRY.tries
        assert failed.outcome == outcome
        assert "3 tries" in failed.detail


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("400 Bad Request", "model_refused"),
        ("401 Unauthorized", "model_refused_key"),
        ("402 Payment Required", "model_quota"),
        ("403 Forbidden", "model_refused_key"),
        ("404 Not Found", "model_not_found"),
        ("422 Unprocessable Entity", "model_refused"),
        ("501 Not Implemented", "model_failed"),
    ],
)
def test_what_does_not_pass_is_asked_once(status: str, outcome: str) -> None:
    with asking(refused(status, f"{KEY} is wrong: prompt too long")) as (model, server):
        failed = failure(model)
        assert len(server.asked) == 1
        assert failed.outcome == outcome
        assert failed.what == f"crow-1 at {server.base_url}"
        assert "*** is wrong: prompt too long" in failed.detail


def test_a_quota_that_is_used_up_is_not_tried_again() -> None:
    body = b'{"error": {"message": "insufficient_quota: pay"}}'
    with asking(reply(body, "429 Too Many Requests")) as (model, server):
        assert failure(model).outcome == "model_quota"
        assert len(server.asked) == 1


def test_a_server_is_left_alone_for_as_long_as_it_asks() -> None:
    with asking(refused("429 Too Many Requests", Retry_After="0.4"), FINE) as (model, server):
        model.complete("Why?")
        first, second = server.asked
        assert second.at - first.at >= 0.4


def test_a_server_that_asks_for_too_long_a_wait_is_not_asked_again() -> None:
    with asking(refused("503 Service Unavailable", Retry_After="2")) as (model, server):
        assert "asks to wait 2 seconds" in failure(model).detail
        assert len(server.asked) == 1


def test_the_wait_doubles_from_try_to_try() -> None:
    limits = msgspec.structs.replace(HURRY, tries=4, wait=0.1)
    with asking(refused("500 Internal Server Error"), limits=limits) as (model, server):
        failure(model)
        times = [asked.at for asked in server.asked]
        for number, (before, after) in enumerate(pairwise(times)):
            assert after - before >= 0.05 * 2**number


HTML = (
    b"<html><head><title>502 Bad Gateway</title></head><body><h1>nginx &amp; co</h1></body></html>"
)


def test_the_page_of_a_proxy_is_read_out() -> None:
    with asking(reply(HTML, "502 Bad Gateway", "text/html")) as (model, _):
        assert "it says: HTTP 502: 502 Bad Gateway nginx & co" in failure(model).detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"choices": [{"message": {"content": "Bec',
        HTML,
        b"data: nonsense\n\n",
        b'{"choices": []}',
        b'{"object": "x"}',
        b'{"choices": null}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": {"message": {"content": "x"}}}',
        b'{"choices": [{"message": {"content": "caf\xe9"}}]}',
        b'{"choices": [{"message": {"content": "\\ud800"}}]}',
        b'{"choices": [{"message": {"content": null, "tool_calls": [{}]}}]}',
        b"[]",
        b"[" * 5000,
    ],
)
def test_what_is_no_answer_is_a_failure_and_is_not_asked_again(body: bytes) -> None:
    with asking(reply(body)) as (model, server):
        assert failure(model).outcome == "model_bad_answer"
        assert len(server.asked) == 1


def test_an_answer_counts_whatever_its_content_type_says() -> None:
    body = json.dumps({"choices": [chat("Because.")]}).encode()
    with asking(reply(body, kind="text/html")) as (model, _):
        assert model.complete("Why?") == [Completion("Because.")]


def test_an_error_with_status_200_is_an_error() -> None:
    bad = reply(b'{"error": {"code": 429, "message": "slow down"}, "choices": []}')
    with asking(bad, FINE, bad) as (model, server):
        assert model.complete("Why?") == [Completion("Because.")]
        assert failure(model).outcome == "model_quota"
        assert len(server.asked) == 2 + HURRY.tries


def test_a_server_with_only_the_other_route_is_told_from_a_missing_model() -> None:
    no_chat = refused("400 Bad Request", "the tokenizer has no chat template")
    not_here = reply(b'{"detail": "Not Found"}', "404 Not Found")
    with asking(no_chat, not_here) as (model, _):
        assert "set chat = false" in failure(model).detail
        assert "set chat = false" in failure(model).detail
    only_chat = refused("404 Not Found", "use v1/chat/completions for this model")
    with asking(only_chat, chat=False) as (model, _):
        assert "set chat = true" in failure(model).detail


def test_a_redirect_is_not_followed() -> None:
    with serving(FINE) as elsewhere:
        moved = reply(b"", "307 Temporary Redirect", Location=f"{elsewhere.base_url}/x")
        with asking(moved) as (model, server):
            failed = failure(model)
            assert failed.outcome == "model_unreachable"
            assert f"{elsewhere.base_url}/x" in failed.detail
            assert (len(server.asked), len(elsewhere.asked)) == (1, 0)


def test_nobody_there_is_said_after_some_tries() -> None:
    port = find_free_port()
    spending = SpendingBudget()
    with RemoteModel(
        ModelEndpoint("m", f"http://127.0.0.1:{port}"), limits=HURRY, spending=spending
    ) as model:
        failed = failure(model)
    assert failed.outcome == "model_unreachable"
    assert "see whether it runs" in failed.detail
    assert "3 tries" in failed.detail
    assert spending.spent == SpendingTotal()


def test_a_connection_that_is_dropped_is_tried_again() -> None:
    def reset(asking: Asking) -> None:
        asking.reset()

    def half(asking: Asking) -> None:
        asking.send(FINE[:-5])

    with asking(reset, half, FINE, half) as (model, server):
        assert model.complete("Why?") == [Completion("Because.")]
        assert len(server.asked) == 3
        assert failure(model).outcome == "model_broke_off"


def slow_first_byte(asking: Asking) -> None:
    asking.server.closing.wait(20)


def slow_head(asking: Asking) -> None:
    asking.send(b"HTTP/1.1 200 OK\r\n")
    asking.drip(b"X: y\r\n", 0.05)


def slow_body(asking: Asking) -> None:
    asking.send(b"HTTP/1.1 200 OK\r\n\r\n{")
    asking.drip(b" ", 0.05)


def slow_refusal(asking: Asking) -> None:
    asking.send(b"HTTP/1.1 400 Bad Request\r\n\r\n{")
    asking.drip(b" ", 0.05)


@pytest.mark.parametrize("slow", [slow_first_byte, slow_head, slow_body, slow_refusal])
def test_however_slow_a_server_is_there_is_an_end(slow: Callable[[Asking], None]) -> None:
    for seconds, tries in ((0.15, 2), (30.0, 1)):
        limits = RemoteLimits(seconds=seconds, deadline=0.25, wait=0.01)
        with asking(slow, limits=limits) as (model, server):
            began = time.monotonic()
            assert failure(model).outcome == "model_timed_out"
            assert 0.1 < time.monotonic() - began < 30
            assert len(server.asked) <= tries


def endless(data: bytes) -> Callable[[Asking], None]:
    def answer(asking: Asking) -> None:
        asking.send(data)
        while not asking.server.closing.is_set():
            asking.send(chunk(event("and ") * 1000) if data == SSE else b" " * 65536)

    return answer


def test_a_refusal_whose_words_break_off_is_one() -> None:
    def answer(asking: Asking) -> None:
        asking.send(refused("401 Unauthorized")[:-5])

    with asking(answer) as (model, server):
        assert failure(model).outcome == "model_refused_key"
        assert len(server.asked) == 1


def test_an_answer_without_end_is_cut() -> None:
    limits = msgspec.structs.replace(HURRY, bytes=1_000_000)
    with asking(endless(b"HTTP/1.1 200 OK\r\n\r\n"), endless(SSE), limits=limits) as (
        model,
        server,
    ):
        assert "more than 1000000 bytes" in failure(model).detail
        pieces: list[str] = []
        with pytest.raises(Failed, match="more than 1000000 bytes"):
            pieces.extend(model.stream("Why?"))
        assert len(server.asked) == 2


def test_a_refusal_without_end_is_cut() -> None:
    limits = msgspec.structs.replace(HURRY, tries=1)
    with asking(endless(b"HTTP/1.1 500 Oh\r\n\r\n"), limits=limits) as (model, _):
        assert failure(model).outcome == "model_failed"


def test_a_stream_gives_its_pieces_and_the_whole() -> None:
    events = [
        event(""),
        event("Be"),
        b": still here\n\n",
        event("cause"),
        event("", "length"),
        DONE,
    ]
    counted = [*events[:-1], b'data: {"choices": [], "usage": ' + json.dumps(usage(3, 9)).encode()]
    spending = SpendingBudget()
    with asking(streamed(*events), streamed(*counted, b"}\n\n"), spending=spending) as (
        model,
        server,
    ):
        assert read_stream(model) == (["Be", "cause"], Completion("Because", stop="length"))
        assert read_stream(model)[0] == ["Be", "cause"]
        assert server.asked[0].fields["stream"] is True
        assert spending.spent.said == 1024 + 9


def test_pieces_are_given_as_they_come() -> None:
    go_on = threading.Event()

    def answer(asking: Asking) -> bytes:
        asking.send(SSE + chunk(event("Be")))
        assert go_on.wait(60)
        return chunk(event("cause", "stop")) + chunk(DONE) + b"0\r\n\r\n"

    with asking(answer) as (model, _):
        stream = model.stream("Why?")
        assert next(stream) == "Be"
        go_on.set()
        assert list(stream) == ["cause"]


def test_a_stream_is_over_when_it_says_so_even_if_the_connection_stays_open() -> None:
    def answer(asking: Asking) -> None:
        asking.send(SSE + chunk(event("Because", "stop")) + chunk(DONE))
        asking.server.closing.wait(20)

    with asking(answer) as (model, _):
        began = time.monotonic()
        assert read_stream(model) == (["Because"], Completion("Because"))
        assert time.monotonic() - began < 20  # the time for which it stays open


BROKEN: dict[str, tuple[Answer, str]] = {
    "cut": (cut(event("Be"), event("cause")), "model_broke_off"),
    "closed as if it had ended": (streamed(event("Be"), event("cause")), "model_broke_off"),
    "half an event": (streamed(event("Be"), b'data: {"choices": [{"del'), "model_broke_off"),
    "aborted": (streamed(event("Be"), event("cause", "abort"), DONE), "model_broke_off"),
    "error": (
        streamed(event("Be"), b'data: {"error": {"message": "out of memory"}}\n\n', DONE),
        "model_failed",
    ),
    "no UTF-8": (streamed(event("Be"), event("x").replace(b"x", b"\xe9")), "model_bad_answer"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_stream_that_breaks_off_is_a_failure_and_never_a_short_answer(broken: str) -> None:
    answer, outcome = BROKEN[broken]
    with asking(answer) as (model, server):
        pieces: list[str] = []
        with pytest.raises(Failed) as failed:
            pieces.extend(model.stream("Why?"))
        assert failed.value.failure.outcome == outcome
        assert len(server.asked) == 1  # what was said cannot be taken back


def test_a_stream_that_breaks_off_before_it_says_anything_is_tried_again() -> None:
    good = streamed(event("Because", "stop"), DONE)
    with asking(cut(event("")), cut(), refused("503 Service Unavailable"), good) as (model, server):
        with pytest.raises(Failed):
            read_stream(model)
        assert read_stream(model)[0] == ["Because"]
        assert len(server.asked) == 4


def test_a_server_that_does_not_stream_is_heard_all_the_same() -> None:
    with asking(FINE) as (model, _):
        assert read_stream(model) == (["Because."], Completion("Because."))


def test_closing_a_stream_ends_the_request() -> None:
    left = threading.Event()

    def answer(asking: Asking) -> None:
        asking.send(SSE)
        try:
            asking.drip(chunk(event("and ")), 0.005)
        except OSError:
            left.set()

    with asking(answer) as (model, _):
        stream = model.stream("Why?")
        assert next(stream) == "and "
        stream.close()
        assert left.wait(60)


def test_closing_the_model_ends_what_is_under_way() -> None:
    failures = []
    with asking(slow_first_byte) as (model, server):
        thread = threading.Thread(target=lambda: failures.append(failure(model)))
        thread.start()
        while not server.asked:
            time.sleep(0.01)
        model.close()
        thread.join(60)
        assert [each.outcome for each in failures] == ["model_broke_off"]
        with pytest.raises(RuntimeError, match="closed"):
            model.complete("Why?")


@pytest.mark.slow
def test_a_model_that_nobody_holds_leaves_no_thread_behind() -> None:
    with serving(FINE) as server:
        RemoteModel(ModelEndpoint("dropped", server.base_url)).complete("Why?")
        gc.collect()
        left = [each for each in threading.enumerate() if each.name == "model: dropped"]
        for thread in left:
            thread.join(60)
        assert not any(thread.is_alive() for thread in left)


def test_it_can_be_asked_where_an_event_loop_is_running() -> None:
    async def ask(model: RemoteModel) -> list[Completion]:
        return model.complete("Why?")

    with asking(FINE) as (model, _):
        # In a thread of its own: where a browser is driven, this one has a loop that runs.
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(asyncio.run, ask(model)).result()
        assert found == [Completion("Because.")]


def test_a_field_that_newer_models_want_is_found_out_once() -> None:
    advice = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    with asking(refused("400 Bad Request", advice), FINE, max_tokens=9) as (model, server):
        for _ in range(2):
            model.complete("Why?")
        fields = [asked.fields for asked in server.asked]
        assert [each.get("max_tokens") for each in fields] == [9, None, None]
        assert [each.get("max_completion_tokens") for each in fields] == [None, 9, 9]


def test_a_server_that_does_not_know_stream_options_is_asked_without() -> None:
    good = streamed(event("Because", "stop"), DONE)
    with asking(refused("422 No", "extra field: stream_options"), good) as (model, server):
        assert read_stream(model)[0] == ["Because"]
        assert ["stream_options" in asked.fields for asked in server.asked] == [True, False]


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("stop", [" particular", "particular person", "ticular", "never"])
def test_a_stop_string_that_a_server_leaves_in_is_cut(stop: str, size: int) -> None:
    text = "They know a part, and a particular person feeds them."
    *first, last = [text[at : at + size] for at in range(0, len(text), size)]
    stream = streamed(*map(event, first), event(last, "stop"), DONE)
    with asking(write_choices(chat(text)), stream, stop=(stop,)) as (model, _):
        assert model.complete("Why?")[0].text == text.partition(stop)[0]
        assert read_stream(model)[1].text == text.partition(stop)[0]


def test_a_server_that_does_not_know_logprobs_is_asked_without() -> None:
    refusal = refused("400 Bad Request", "logprobs is not supported")
    with asking(refusal, FINE, logprobs=True) as (model, server):
        assert not model.complete("Why?")[0].logprobs
        assert ["logprobs" in asked.fields for asked in server.asked] == [True, False]


def test_wrong_use_is_an_error_at_once() -> None:
    with asking(FINE) as (model, server):
        with pytest.raises(ValueError, match="grammar"):
            model.complete("Why?", allow=lambda _: [1])
        with pytest.raises(ValueError, match="n must"):
            model.complete("Why?", 0)
        with pytest.raises(ValueError, match="grammars"):
            model.complete("Why?", grammar='start: "x"')
        assert server.asked == []


def test_a_prompt_with_what_is_no_unicode_is_sent_without_it() -> None:
    with asking(FINE) as (model, server):
        model.complete("Why\ud800?")
        assert server.prompts() == ["Why\ufffd?"]


def test_without_the_client_library_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(Failed, match=r'no_openai.*pip install "rookery\[models\]"'):
        RemoteModel(ModelEndpoint("m", "http://127.0.0.1:9"))


def test_the_client_library_is_loaded_by_use_only() -> None:
    code = "import sys, rookery.models.recorded_policies; print('openai' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_key_that_no_header_can_carry_is_refused_and_not_shown() -> None:
    with pytest.raises(Failed, match="no_key") as failed:
        RemoteModel(ModelEndpoint("m", "http://127.0.0.1:9"), "sk-\nsecret")
    assert "secret" not in str(failed.value)


# Spending


def test_a_request_that_might_pass_the_cap_is_not_sent() -> None:
    spending = SpendingBudget(SpendingCap(tokens=2000))
    with asking(write_choices(chat("x"), usage=usage(300, 500)), spending=spending) as (
        model,
        server,
    ):
        model.complete("Why?")  # may take 4 + 256 + 1024
        assert spending.spent == SpendingTotal(1, 300, 500, 0.0)
        failed = failure(model)
        assert failed.outcome == "spending_cap"
        assert "800 of 2000 tokens are spent, and this may take 1284 more" in failed.detail
        assert len(server.asked) == 1


def test_what_a_server_does_not_say_is_counted_in_full() -> None:
    for more in ({}, {"usage": None}, {"usage": {"prompt_tokens": -5, "completion_tokens": 1}}):
        spending = SpendingBudget()
        with asking(write_choices(chat("x"), **more), spending=spending, max_tokens=10) as (
            model,
            _,
        ):
            model.complete("Wy?")
            assert spending.spent == SpendingTotal(1, 3 + 256, 10)


def test_a_try_that_may_have_been_billed_counts_and_a_refusal_does_not() -> None:
    spending = SpendingBudget()
    with asking(cut(), refused("500 Oh"), FINE, spending=spending, max_tokens=10) as (model, _):
        model.complete("Why?")
        assert spending.spent == SpendingTotal(2, 4 + 256 + 3, 10 + 2)


def test_money_is_counted_by_the_endpoint_s_prices() -> None:
    spending = SpendingBudget(SpendingCap(money=0.01))
    answer = write_choices(chat("x"), usage=usage(1000, 500))
    with asking(answer, spending=spending, price_in=2.0, price_out=8.0) as (model, _):
        model.complete("Why?")
        assert spending.spent.money == pytest.approx((1000 * 2 + 500 * 8) / 1e6)
        assert failure(model).outcome == "spending_cap"
    with pytest.raises(Failed, match="price_in and price_out"), asking(FINE, spending=spending):
        pass


def test_a_cap_holds_for_models_and_threads_that_share_it() -> None:
    """Every request takes 100 tokens and may take 360: no more than 27 fit into 3000."""
    spending = SpendingBudget(SpendingCap(tokens=3000))
    outcomes: list[str] = []

    def ask(model: RemoteModel) -> None:
        for _ in range(10):
            try:
                model.complete("Why?")
                outcomes.append("good")
            except Failed as failed:
                outcomes.append(failed.failure.outcome)

    answer = write_choices(chat("x"), usage=usage(60, 40))
    both = partial(asking, answer, spending=spending, max_tokens=100)
    with both() as (one, first), both() as (two, second):
        threads = [threading.Thread(target=ask, args=(model,)) for model in (one, two) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = len(first.asked) + len(second.asked)
    assert asked == 27
    assert Counter(outcomes) == {"good": 27, "spending_cap": 60 - 27}
    assert spending.spent == SpendingTotal(27, 27 * 60, 27 * 40)


# Grammars


@pytest.mark.parametrize(
    ("grammars", "fields"),
    [
        ("vllm", {"structured_outputs": {"grammar": PROBE_GRAMMAR}}),
        ("sglang", {"ebnf": PROBE_GRAMMAR}),
        ("llama.cpp", {"grammar": "%llguidance {}\n" + PROBE_GRAMMAR}),
    ],
)
def test_a_grammar_goes_into_the_field_that_the_server_reads(
    grammars: str, fields: dict[str, Any]
) -> None:
    answers = [
        write_choices(chat("rookery-probe-7")),
        write_choices(chat("It is raining: rookery-probe-7")),
        refused("400 Bad Request", "no such grammar"),
        refused("401 Unauthorized"),
    ]
    with asking(*answers, grammars=grammars) as (model, server):
        assert [probe_grammar(model) for _ in range(3)] == ["obeyed", "ignored", "refused"]
        assert {name: server.asked[0].fields[name] for name in fields} == fields
        with pytest.raises(Failed, match="model_refused_key"):
            probe_grammar(model)
