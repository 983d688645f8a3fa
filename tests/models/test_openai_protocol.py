"""What models' servers send, read as Completions; thoughts left out however they are cut."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from models import DONE, chat, event

from rookery.models.openai_protocol import (
    CompletionRequest,
    ModelEndpoint,
    ModelRequestError,
    ResponseReader,
    build_request_body,
    extract_error_message,
    make_status_error,
    strip_reasoning,
)
from rookery.records import Completion

HERE = ModelEndpoint("crow-1", "http://localhost:8000")


def whole(*choices: dict[str, Any], **more: Any) -> list[Completion]:
    listener = ResponseReader(HERE)
    listener.feed_data(json.dumps({"choices": choices, **more}).encode())
    return listener.finish().completions


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("eos", "end"),
        ("stop_sequence", "end"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("gone fishing", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_reasons_to_stop_are_a_closed_list(reason: str | None, stop: str) -> None:
    assert whole(chat("x", reason)) == [Completion("x", stop=stop)]


@pytest.mark.parametrize("reason", ["abort", "error", "cancelled"])
def test_an_answer_that_the_server_gave_up_is_none(reason: str) -> None:
    with pytest.raises(ModelRequestError) as trouble:
        whole(chat("Be", reason))
    assert (trouble.value.outcome, trouble.value.retryable) == ("model_broke_off", True)


@pytest.mark.parametrize(
    ("choice", "completion"),
    [
        (chat(None, "length"), Completion("", stop="length")),
        (chat(None, "content_filter"), Completion("", stop="content_filter")),
        (chat(None, "length", reasoning_content="Hm"), Completion("", stop="length")),
        (chat(None, refusal="I will not."), Completion("I will not.", stop="refusal")),
        (chat("", "stop"), Completion("")),
        (chat("x", reasoning_content="Hm"), Completion("x")),
        ({**chat("x", reasoning="Hm"), "token_ids": [1, 2, 3]}, Completion("x")),
        ({**chat("x"), "token_ids": [1]}, Completion("x", (1,))),
        (
            chat([{"type": "thinking", "thinking": []}, {"type": "text", "text": "x"}]),
            Completion("x"),
        ),
    ],
)
def test_what_a_choice_says(choice: dict[str, Any], completion: Completion) -> None:
    assert whole(choice) == [completion]


@pytest.mark.parametrize(
    "choice",
    [
        chat(None),
        chat(None, None),
        chat("", reasoning_content="Hm"),
        chat("<think>Hm</think>"),
        chat("<think>Hm"),
        chat(None, tool_calls=[{}]),
    ],
)
def test_a_choice_that_says_nothing_is_no_answer(choice: dict[str, Any]) -> None:
    with pytest.raises(ModelRequestError) as trouble:
        whole(choice)
    assert trouble.value.outcome == "model_bad_answer"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>Hm.</think>\n\nCrows.", "Crows."),
        ("\n<think>\nHm. <b>1 < 2</b>\n</think>Crows.", "Crows."),
        ("Hm, so\n</think>\n\nCrows.", "Crows."),
        ("<think>Hm.", ""),
        ("Hm.</think>", ""),
        (" Crows.\n", " Crows.\n"),
        ("The tag </think> ends a thought.", "The tag </think> ends a thought."),
        ("Write <think>so</think>\nand go on.", "Write <think>so</think>\nand go on."),
        ("<thinker>", "<thinker>"),
        ("<thi", "<thi"),
        ("", ""),
    ],
)
def test_thoughts_are_left_out_and_talk_about_thoughts_is_not(text: str, left: str) -> None:
    assert strip_reasoning(text) == left


PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<", "think", ">", "/", " ", "\n", "a", "é", "</", "🐦"]
    ),
    max_size=8,
)


@given(PIECES, st.lists(st.integers(1, 400), max_size=6), st.sampled_from(["stop", "length"]))
@example(["\n", "<think>", "a", "</think>", "\n", "a"], [1], "stop")
@example(["<", "think", ">"], [], "stop")
@example(["a", "</think>", "\n"], [], "stop")
@example(["a", "</think>", "\n", "a"], [], "length")
@example([" ", " "], [], "stop")
def test_a_stream_says_what_the_whole_says_however_it_is_cut(
    pieces: list[str], cuts: list[int], finish: str
) -> None:
    """Or it fails: where thoughts turn out to be such only after they were said."""
    events = b"".join(map(event, pieces)) + event("", finish) + DONE
    text, heard, outcome = "".join(pieces), [""], ""
    listener = ResponseReader(HERE, heard.append)
    try:
        for size in [*cuts, len(events)]:
            listener.feed_data(events[:size])
            events = events[size:]
        completions = listener.finish().completions
    except ModelRequestError as trouble:
        outcome = trouble.outcome
    if not outcome:
        assert "".join(heard) == completions[0].text
        assert completions == whole(chat(text, finish))
    elif strip_reasoning(text):
        assert outcome == "model_bad_answer"
        assert not strip_reasoning(text).startswith("".join(heard))
    else:
        assert outcome == "model_bad_answer"
        assert finish == "stop" or "".join(heard)


def test_thoughts_are_not_streamed() -> None:
    heard: list[str] = []
    listener = ResponseReader(HERE, heard.append)
    for piece in ("\n<thi", "nk>Hm.", "</thi", "nk>", "\n\n", "Cro", "ws"):
        listener.feed_data(event(piece))
    assert heard == ["Cro", "ws"]


def test_the_tokens_of_a_stream_are_those_of_all_its_events() -> None:
    listener = ResponseReader(HERE, lambda _: None)
    for content, ids, logprob, finish in (("Be", [4], -0.5, None), ("cause", [9], -1.0, "stop")):
        scores = {"content": [{"token": content, "logprob": logprob}]}
        choice = {"delta": {"content": content}, "finish_reason": finish}
        data = {"choices": [{**choice, "token_ids": ids, "logprobs": scores}]}
        listener.feed_data(b"data:" + json.dumps(data).encode() + b"\r\n\r\n")
    assert listener.finish().completions == [Completion("Because", (4, 9), (-0.5, -1.0))]


def test_a_plain_completion_streams_as_well() -> None:
    listener = ResponseReader(HERE, lambda _: None)
    for text, finish in (("Be", None), ("cause", None), ("", "length")):
        data = {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}
        listener.feed_data(b"data: " + json.dumps(data).encode() + b"\n\n")
    assert listener.finish().completions == [Completion("Because", stop="length")]


def test_an_event_may_stand_on_several_lines() -> None:
    listener = ResponseReader(HERE, lambda _: None)
    for line in json.dumps({"choices": [chat("x")]}, indent=1).splitlines():
        listener.feed_data(f"data: {line}\n".encode())
    assert not listener.feed_data(b"event: x\nid: 3\n\n")
    assert listener.feed_data(b"data: [DONE]\n\n")
    assert listener.finish().completions == [Completion("x")]


@given(st.integers(-(2**70), 2**70))
def test_every_seed_is_one_that_servers_take(seed: int) -> None:
    sent = build_request_body(HERE, CompletionRequest("Why?", seed=seed), frozenset())["seed"]
    assert 0 <= sent < 2**31
    assert (sent - seed) % 2**31 == 0


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("", 0),
        ("soon", 0),
        ("-3", 0),
        ("Fri, 31 Feb 2999 10:00:00 GMT", 0),
    ],
)
def test_retry_after_is_seconds(asked: str, seconds: float) -> None:
    assert make_status_error(HERE, 429, "", {"retry-after": asked}).retry_after == seconds


@pytest.mark.parametrize(("away", "least", "most"), [(90, 60, 90), (-86400, 0, 0)])
def test_retry_after_is_a_date(away: int, least: float, most: float) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=away), usegmt=True)
    assert least <= make_status_error(HERE, 429, "", {"retry-after": date}).retry_after <= most


@given(st.integers(300, 599), st.text(max_size=30))
def test_every_refusal_has_an_outcome_of_the_list_and_says_what_to_do(
    status: int, said: str
) -> None:
    trouble = make_status_error(HERE, status, said, {})
    assert trouble.outcome.startswith("model_")
    assert len(trouble.advice.split()) > 5
    assert not trouble.retryable or status in (408, 429) or status >= 500


@given(st.binary(max_size=200))
@example(b"<" * 200)
@example(b'{"error": {"message": {"message": 5}}}')
@example(b'{"error": "no"}')
def test_the_words_of_any_body_are_a_text(data: bytes) -> None:
    assert isinstance(extract_error_message(data), str)


def test_the_words_of_a_body_are_its_message() -> None:
    assert extract_error_message(b'{"error": {"message": "too long", "code": 5}}') == "too long"
    assert extract_error_message(b'{"object": "error", "message": "too long"}') == "too long"
    assert extract_error_message(b'{"detail": [{"msg": "too long"}]}') == '[{"msg":"too long"}]'
    assert extract_error_message(b"<h1>Bad\n gateway</h1>") == "Bad gateway"
