"""The official OpenAI client against a real server: answers, streams, declines, annotations."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import (
    Response,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseStreamEvent,
)
from programs import Served, served

from rookery.library.page_archive import PageArchive
from rookery.quotes.verification import Verdict
from rookery.records import Answer, Claim, Page
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.server.api.chat_protocols import SearchFilters, WebSearchTool, apply_tools
from rookery.server.api.questions import insert_citation_marks, list_cited_sources
from rookery.settings import ARCHIVE, Settings, get_data_folder

QUESTIONS = (
    "What do ravens eat?",
    "Do crows use tools?",
    "How long do crows live? 🐦‍⬛",
    "What did Betty 👩🏽‍🔬 bend into a hook?",
    "How much does the 🐦 emoji crow weigh? 𝕽",
)
PICTURES = "<h1>The 🐦‍⬛ emoji crow</h1><p>𝕽🪶 The emoji crow weighs 512 grams ⚖️ in the 🌧 rain.</p>"
NOTHING = "zxqv wvut qqqq?"


@pytest.fixture(scope="module")
def service(
    indexed_home: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = shutil.copytree(indexed_home, tmp_path_factory.mktemp("openai") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        place = folder / "desk.sqlite"
        place.write_bytes(empty_store.read_bytes())
        (folder / "pictures.html").write_text(f"<title>Emoji 🐦</title>{PICTURES}", "utf-8")
        places = ("rookery:corvids", str(folder / "pictures.html"))
        with served(place, Settings(places)) as server:
            yield server


@pytest.fixture(scope="module")
def client(service: Served) -> OpenAI:
    """What most tests ask was asked before: the passages of a question are judged once."""
    client = service.openai()
    for question in (QUESTIONS[0], QUESTIONS[2], NOTHING):
        client.responses.create(model="rookery-extract", input=question)
    return client


def text_of(response: Response) -> ResponseOutputText:
    message = response.output[-1]
    assert isinstance(message, ResponseOutputMessage)
    (part,) = message.content
    assert isinstance(part, ResponseOutputText)
    return part


def stands_in_its_page(url: str, quote: str) -> bool:
    """Whether the span that an address names is the quote, in the archive's own copy."""
    digest, _, span = url.partition("/pages/")[2].partition("?")
    start, end = (int(part.partition("=")[2]) for part in span.partition("#")[0].split("&"))
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        page = archive.find_page(digest)
    return page is not None and page.text[start:end] == quote


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("links", [False, True])
def test_every_annotation_is_a_mark_and_its_quote_stands_in_its_page(
    client: OpenAI, question: str, links: bool
) -> None:
    more = {"rookery": {"links": links}}
    response = client.responses.create(model="rookery-extract", input=question, extra_body=more)
    part = text_of(response)
    assert response.status == "completed"
    assert part.annotations
    sources = response.rookery["sources"]  # type: ignore[attr-defined]
    for mark in part.annotations:
        assert mark.type == "url_citation"
        marked = part.text[mark.start_index : mark.end_index]
        number = int(marked.strip("[").partition("]")[0])
        assert marked == (f"[[{number}]]({mark.url})" if links else f"[{number}]")
        assert sources[number - 1]["url"] == mark.url
        assert sources[number - 1]["verified"]
        assert stands_in_its_page(mark.url, mark.cited_text)  # type: ignore[attr-defined]


def test_searches_and_pages_are_items_of_their_own(client: OpenAI) -> None:
    response = client.responses.create(model="rookery-extract", input=QUESTIONS[0])
    calls = [item for item in response.output if isinstance(item, ResponseFunctionWebSearch)]
    searched, *opened = [call.action for call in calls]
    assert searched.type == "search"
    assert searched.query == QUESTIONS[0]
    assert {page.type for page in opened} == {"open_page"}
    assert {page.url for page in opened if page.type == "open_page"} == {
        source.url for source in searched.sources or []
    }
    assert {call.status for call in calls} == {"completed"}
    assert len({item.id for item in response.output}) == len(response.output)


def streamed(client: OpenAI, question: str) -> list[ResponseStreamEvent]:
    with client.responses.create(model="rookery-extract", input=question, stream=True) as events:
        return list(events)


@pytest.mark.slow
def test_the_events_of_a_stream_come_in_the_documented_order(client: OpenAI) -> None:
    events = streamed(client, QUESTIONS[2])
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[2:5] == [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
    ]
    last = [kind for kind in kinds if not kind.startswith("response.web_search_call")]
    begins = len(last) - 1 - last[::-1].index("response.output_item.added")
    written = list(dict.fromkeys(last[begins:]))
    assert written == [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.annotation.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_stream_tells_what_the_response_then_holds(client: OpenAI, question: str) -> None:
    events = streamed(client, question)
    last = events[-1]
    assert last.type == "response.completed"
    part, said, marks = text_of(last.response), "", list[Any]()
    for event in events:
        if event.type == "response.output_text.delta":
            said += event.delta
        elif event.type == "response.output_text.annotation.added":
            mark = event.annotation
            assert mark is not None
            assert mark.type == "url_citation"
            assert said[mark.start_index : mark.end_index].startswith("[")
            assert event.annotation_index == len(marks)
            marks.append(mark)
    assert said == part.text
    assert [mark.model_dump() for mark in marks] == [m.model_dump() for m in part.annotations]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert {item.id for item in done} == {item.id for item in last.response.output}


def test_a_decline_is_a_refusal(client: OpenAI) -> None:
    response = client.responses.create(model="rookery-extract", input=NOTHING)
    message = response.output[-1]
    assert isinstance(message, ResponseOutputMessage)
    (part,) = message.content
    assert isinstance(part, ResponseOutputRefusal)
    assert part.refusal
    assert response.output_text == ""
    events = streamed(client, NOTHING)
    told = "".join(event.delta for event in events if event.type == "response.refusal.delta")
    assert told == part.refusal
    chat = client.chat.completions.create(
        model="rookery-extract", messages=[{"role": "user", "content": NOTHING}]
    )
    said = chat.choices[0].message
    assert (said.content, said.refusal, said.annotations) == (None, part.refusal, [])
    assert chat.citations == []  # type: ignore[attr-defined]


def test_how_sure_an_answer_must_be_can_be_said(client: OpenAI) -> None:
    strict = {"rookery": {"decline": 1.0}}
    response = client.responses.create(
        model="rookery-extract", input=QUESTIONS[0], extra_body=strict
    )
    about = response.rookery  # type: ignore[attr-defined]
    assert about["declined"]
    assert about["sources"]  # the nearest that was found


def chat(client: OpenAI, **more: object) -> ChatCompletionMessage:
    made = client.chat.completions.create(
        model="rookery-extract",
        messages=[{"role": "user", "content": QUESTIONS[2]}],
        extra_body={"rookery": more},
    )
    return made.choices[0].message


@pytest.mark.parametrize("links", [False, True])
def test_the_annotations_of_a_chat_are_its_marks(client: OpenAI, links: bool) -> None:
    message = chat(client, links=links)
    assert message.content
    assert message.annotations
    for annotation in message.annotations:
        mark = annotation.url_citation
        marked = message.content[mark.start_index : mark.end_index]
        assert marked.endswith(f"]({mark.url})" if links else "]")
        assert stands_in_its_page(mark.url, mark.cited_text)  # type: ignore[attr-defined]


def test_a_chat_lists_what_perplexity_lists(client: OpenAI) -> None:
    made = client.chat.completions.create(
        model="rookery-extract", messages=[{"role": "user", "content": "What do crows eat?"}]
    )
    content, citations = made.choices[0].message.content or "", made.citations  # type: ignore[attr-defined]
    results = made.search_results  # type: ignore[attr-defined]
    assert len(citations) == len(results) > 1
    for number, (url, result) in enumerate(zip(citations, results, strict=True), 1):
        assert f"[[{number}]]({url})" in content
        assert set(result) == {"title", "url", "snippet", "date", "last_updated", "source"}
        assert result["url"] == url
        assert result["title"]
        assert stands_in_its_page(url, result["snippet"])


def test_a_streamed_chat_says_the_same(service: Served, client: OpenAI) -> None:
    whole = chat(client)
    messages = [{"role": "user", "content": QUESTIONS[2]}]
    asked = {"model": "rookery-extract", "messages": messages, "stream": True}
    raw = service.send("/v1/chat/completions", asked)
    assert raw.body.endswith(b"data: [DONE]\n\n")
    assert raw.headers["content-type"].startswith("text/event-stream")
    with client.chat.completions.create(
        model="rookery-extract", messages=[{"role": "user", "content": QUESTIONS[2]}], stream=True
    ) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.content
    last = chunks[-1]
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert last.choices[0].finish_reason == "stop"
    assert whole.annotations
    marks = last.choices[0].delta.annotations  # type: ignore[attr-defined]
    assert marks == [mark.model_dump() for mark in whole.annotations]
    assert last.citations  # type: ignore[attr-defined]


def test_the_last_message_of_a_user_is_the_question_and_the_rest_is_told(client: OpenAI) -> None:
    response = client.responses.create(
        model="rookery-extract",
        instructions="Speak like a pirate.",
        input=[
            {"role": "user", "content": "Do crows use tools?"},
            {"role": "assistant", "content": "They do."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": QUESTIONS[0]},
                    {"type": "input_image", "image_url": "data:,x", "detail": "low"},
                ],
            },
        ],
        temperature=0.3,
        tools=[{"type": "function", "name": "f", "parameters": {}, "strict": True}],
    )
    assert "Ravens eat nearly everything" in response.output_text
    assert sorted(response.rookery["ignored"]) == [  # type: ignore[attr-defined]
        "input[1]",
        "input[2].content[1]",
        "instructions",
        "temperature",
        "tools[0]",
    ]


@pytest.mark.slow
def test_a_response_is_kept_only_where_it_is_wanted(client: OpenAI) -> None:
    passing = client.responses.create(model="rookery-extract", input=QUESTIONS[0])
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(passing.id)
    kept = client.responses.create(
        model="rookery-extract", input=QUESTIONS[0], store=True, metadata={"a": "🐦"}
    )
    again = client.responses.retrieve(kept.id)
    assert again.model_dump() == kept.model_dump()
    assert again.metadata == {"a": "🐦"}


def test_only_the_hosts_that_are_allowed_are_looked_at(client: OpenAI) -> None:
    response = client.responses.create(
        model="rookery-extract",
        input=QUESTIONS[0],
        tools=[
            {
                "type": "web_search",
                "filters": {"allowed_domains": ["birds.example"]},
                "external_web_access": False,
            }
        ],
    )
    searched = response.output[0]
    assert isinstance(searched, ResponseFunctionWebSearch)
    assert searched.action.type == "search"
    assert searched.action.sources == []  # the little web has no host at all
    assert response.output_text == ""
    assert len(response.tools) == 1


@pytest.mark.parametrize(
    ("some", "domains"),
    [
        ([["a.example"], ["b.example"]], ("a.example", "b.example")),
        (
            [["a.example", "b.example"], ["-c.b.example", "b.example"]],
            ("a.example", "b.example", "-c.b.example"),
        ),
        ([["a.example"], []], ("a.example",)),
        ([["a.example"], None], ("a.example",)),
        ([None, []], ()),
    ],
)
def test_no_tool_lifts_the_restrictions_of_another(
    some: list[list[str] | None], domains: tuple[str, ...]
) -> None:
    tools = [WebSearchTool("web_search", SearchFilters(each)) for each in some]
    wanted = apply_tools(QuestionRequest("Why?"), [*tools, WebSearchTool("web_search")])
    assert wanted.domains == domains


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "content",
    [
        [{"type": "input_image", "image_url": "https://birds.example/a.png"}],
        [{"type": "text", "text": " "}, {"type": "image_url"}],
        [{"type": "text"}],
    ],
)
def test_pictures_alone_are_no_question(service: Served, path: str, content: Any) -> None:
    field = "input" if path == "/v1/responses" else "messages"
    turns = [{"role": "user", "content": "Why?"}, {"role": "user", "content": content}]
    answer = service.send(path, {"model": "rookery-extract", field: turns})
    assert (answer.status, answer.error["code"]) == (400, "no_question")
    assert answer.error["param"] == field
    assert "no text" in answer.error["message"]


def test_the_models_are_the_methods_that_are_offered(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names == ["rookery-extract"]
    assert client.models.retrieve("rookery-extract").id == "rookery-extract"
    for name in ("gpt-6", "rookery-webgpt", "rookery-webgpt/gpt-6"):
        with pytest.raises(openai.NotFoundError) as told:
            client.responses.create(model=name, input="Do crows use tools?")
        assert (told.value.code, told.value.param) == ("model_not_found", "model")


words = st.text(st.sampled_from("ab 🐦é𝕽[]()\\ñ\n"), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(words, min_size=1, max_size=6), st.data())
def test_a_mark_is_where_it_is_said_to_be_in_any_answer(
    texts: list[str], data: st.DataObject
) -> None:
    text = "".join(texts)
    page = Page("https://birds.example/a_(b)?x=[1] y", "Ravens [1] *and* crows", text)
    quotes = tuple(
        dict.fromkeys(page.quote_whole_words(0, size) for size in range(1, min(4, len(text)) + 1))
    )
    ends = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(ends, ends).map(sorted), max_size=4))
    numbers = st.lists(st.integers(0, len(quotes) - 1), max_size=3).map(tuple)
    claims = tuple(Claim(start, end, data.draw(numbers)) for start, end in spans)
    answer = Answer(text, quotes, claims)
    found = list_cited_sources(
        [Verdict(quote, "verified") for quote in quotes], lambda quote: quote.url
    )
    links = data.draw(st.booleans())
    shown = insert_citation_marks(answer, found, links)
    plain, done = "", 0
    for mark in shown.marks:
        said = shown.text[mark.start : mark.end]
        number = f"[{mark.source.number}]"
        url = "https://birds.example/a_%28b%29?x=%5B1%5D%20y"
        assert said == (f"[{number}]({url})" if links else number)
        plain += shown.text[done : mark.start]
        done = mark.end
    assert plain + shown.text[done:] == text
    assert {mark.source.number - 1 for mark in shown.marks} == {
        number for claim in claims for number in claim.quotes
    }
