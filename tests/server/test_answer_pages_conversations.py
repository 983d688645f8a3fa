"""Follow-up questions on the pages and over the API: what is searched, whose it is, its cost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from askers import CROWS, ask, enter, home
from models import refused, serving, write_choices
from programs import Served, by_model, served
from starlette.testclient import TestClient
from visits import Visit

from rookery.answers.answer_session import AnswerSession
from rookery.desk import accounts
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.settings import ModelSettings, Settings

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")
FACES, LONGER = "Do crows recognise human faces?", "For how long do they remember?"
STANDING = f"{LONGER} (crows recognise human faces)"
REWRITTEN = "How many years do crows remember a face?"
MODEL = "rookery-extract"


@pytest.fixture(scope="module")
def service(home: Path, empty_store: Path) -> Iterator[Served]:
    place = home / "desk.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place, CROWS) as server:
        yield server


def fields_of(visit: Visit, form: str) -> dict[str, str]:
    inputs = visit.first(form).css("input[type=hidden]")
    return {str(each.attributes["name"]): str(each.attributes["value"] or "") for each in inputs}


def list_talk(visit: Visit) -> list[str]:
    return [link.text() for link in visit.page.css(".conversation li a")]


@pytest.mark.slow
def test_a_follow_up_is_searched_with_its_context_which_can_be_edited(service: Served) -> None:
    visit = ask(enter(service, "rita"), question=FACES)
    first = visit.at
    assert visit.page.css_first(".conversation, .searched-as") is None
    preview = visit.first("form.follow-up").attributes["data-preview"]
    assert visit.client.get(f"{preview}?question={LONGER}").text == STANDING
    assert visit.client.get(f"{preview}?question=What do ravens eat?").text == "What do ravens eat?"
    ask(visit, question=LONGER, **fields_of(visit, "form.follow-up"))
    assert visit.first(".searched-as q").text() == STANDING
    assert visit.first("h1").text() == LONGER
    assert "for years" in visit.first(".answer-text").text()
    assert visit.page.css(".quotes .evidence")
    assert list_talk(visit) == [FACES, LONGER]
    assert f"Understood as “{STANDING}”" in visit.text
    again = fields_of(visit, ".searched-as form")
    ask(visit, question="For how long do they remember a mask?", **again)
    assert visit.page.css_first(".searched-as") is None  # searched to the letter
    assert len(list_talk(visit.get(first))) == 3


@pytest.mark.slow
def test_what_stands_alone_is_searched_as_it_is(service: Served) -> None:
    visit = ask(enter(service, "sam"), question=FACES)
    ask(visit, question="What do ravens eat?", **fields_of(visit, "form.follow-up"))
    assert visit.page.css_first(".searched-as") is None
    assert list_talk(visit) == [FACES, "What do ravens eat?"]


@pytest.mark.slow
def test_a_conversation_is_its_askers_and_each_answer_is_shared_and_deleted_by_itself(
    service: Served,
) -> None:
    tess, uma = enter(service, "tess"), enter(service, "uma")
    first = ask(tess, question=FACES).at
    context = fields_of(tess, "form.follow-up")
    second = ask(tess, question=LONGER, **context).at
    # Another person's answer gives no context, shared or not.
    stolen = ask(uma, question=LONGER, **context)
    assert list_talk(stolen) == []
    assert stolen.page.css_first(".searched-as") is None
    tess.post(f"{second}/share", team="yes", link="yes")
    link = str(tess.first("#link").attributes["value"])
    assert uma.get(second).status == 200
    assert list_talk(uma) == []  # the other answer is not shared
    assert uma.page.css_first("form.follow-up") is None
    stranger = Visit(TestClient(service.app, base_url="http://desk.test"), "nobody")
    assert STANDING in stranger.get(link).text
    assert first not in stranger.text  # its answer
    tess.post(f"{first}/delete")
    assert list_talk(tess.get(second)) == []
    assert tess.first(".searched-as q").text() == STANDING
    # What was said before is gone: there is no context any more.
    ask(tess, question=LONGER, **context)
    assert tess.page.css_first(".searched-as") is None


def chat(served: Served, *turns: tuple[str, str], **more: Any) -> Any:
    messages: Any = [{"role": role, "content": content} for role, content in turns]
    return served.openai().chat.completions.create(model=MODEL, messages=messages, **more)


@pytest.mark.slow
def test_earlier_messages_of_a_chat_give_the_last_one_its_context(service: Served) -> None:
    talk = [("user", FACES), ("assistant", "They do. Ask about cars."), ("user", LONGER)]
    made = chat(service, *talk)
    assert made.rookery["searched"] == STANDING
    assert made.rookery["ignored"] == ["messages[1]"]
    assert "human faces" in made.choices[0].message.content
    alone = chat(service, talk[-1])
    assert alone.rookery["searched"] == LONGER
    other = chat(service, *talk[:2], ("user", "What do ravens eat?"))
    assert other.rookery["searched"] == "What do ravens eat?"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_a_chat_model_is_shown_what_assistants_said(
    home: Path, empty_store: Path, path: str
) -> None:
    place = home / f"{path.rpartition('/')[2]}.sqlite"
    place.write_bytes(empty_store.read_bytes())
    said = ["What do jays eat?", "jays food", "NOT FOUND: nothing says so."]
    with (
        serving(*(write_choices({"message": {"content": each}}) for each in said)) as model,
        served(place, by_model(model.base_url.removesuffix("/v1"))) as here,
    ):
        messages = [
            {"role": "user", "content": "Which birds hide food?"},
            {"role": "assistant", "content": "1. Ravens\n"},
            {"role": "assistant", "content": [{"type": "text", "text": "2. Jays"}]},
            {"role": "tool", "content": "3. Storks"},
            {"role": "user", "content": "What does the second one eat?"},
        ]
        name = "input" if path.endswith("responses") else "messages"
        body = {"model": "rookery-webglm/small", name: messages, "max_tokens": 9}
        about = here.send(path, body).json["rookery"]
        prompt = model.asked[0].fields["messages"][1]["content"]
    assert "Which birds hide food?\nAnswer: 1. Ravens\n\n2. Jays\n\nLast question:" in prompt
    assert (about["searched"], set(about["ignored"]) - {"max_tokens"}) == (
        "What do jays eat?",
        {f"{name}[3]"},
    )


def test_a_response_is_asked_with_the_answer_that_it_names(home: Path, empty_store: Path) -> None:
    place = home / "named.sqlite"
    place.write_bytes(empty_store.read_bytes())
    answer = "Ravens first, jays second [1]."
    said = ["birds hiding food", answer, "What do jays eat?", "jays food", "NOT FOUND"]
    with (
        serving(*(write_choices({"message": {"content": each}}) for each in said)) as model,
        served(place, by_model(model.base_url.removesuffix("/v1"))) as here,
    ):
        body = {"model": "rookery-webglm/small", "input": "Which birds hide food?", "store": True}
        first = here.send("/v1/responses", body).json
        more = {"input": "And the second?", "previous_response_id": first["id"]}
        here.send("/v1/responses", body | more)
        prompt = model.asked[2].fields["messages"][1]["content"]
    assert "Which birds hide food?\nAnswer: Ravens first, jays second" in prompt


def test_usage_counts_what_was_read_and_written(service: Served) -> None:
    talk = [("user", FACES), ("user", LONGER)]
    made = chat(service, *talk)
    count = service.answering.count_tokens
    assert made.usage.prompt_tokens == count([FACES, LONGER])
    assert made.usage.completion_tokens > 10
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens
    chunks = list(chat(service, *talk, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage == made.usage
    assert all(chunk.usage is None for chunk in chat(service, *talk, stream=True))
    response = service.openai().responses.create(model=MODEL, input=FACES)
    assert response.usage is not None
    assert response.usage.input_tokens == count([FACES])
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_a_response_leans_on_the_one_that_it_names(service: Served) -> None:
    client = service.openai()
    first = client.responses.create(model=MODEL, input=FACES, store=True)
    second = client.responses.create(
        model=MODEL, input=LONGER, previous_response_id=first.id, store=True
    )
    assert second.previous_response_id == first.id
    assert second.rookery["searched"] == STANDING  # type: ignore[attr-defined]
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input=LONGER, previous_response_id="resp_none")


def test_a_stored_answer_follows_one_of_the_same_key_alone(service: Served) -> None:
    first = service.send("/v1/answers", {"question": FACES}).json
    second = service.send("/v1/answers", {"question": LONGER, "follows": first["id"]}).json
    assert (second["question"], second["searched"]) == (LONGER, STANDING)
    accounts.add_person(service.store, "ada", "reader")
    of_another = service.answering.enqueue_question(QuestionRequest(FACES), "ada")
    refused = service.send("/v1/answers", {"question": LONGER, "follows": of_another})
    assert (refused.status, refused.error["param"]) == (404, "follows")


@pytest.mark.parametrize(
    ("reply", "standing"),
    [
        (write_choices({"message": {"content": REWRITTEN}}), REWRITTEN),
        (refused("400 Bad Request"), STANDING),
    ],
)
def test_a_model_rewrites_where_one_is_used_and_the_question_before_stands_in_front_where_it_fails(
    reply: bytes, standing: str
) -> None:
    with serving(reply) as server:
        models = ModelSettings("m", server.base_url)
        settings = Settings(("rookery:corvids",), method="webglm", models=models)
        with AnswerSession(settings) as session:
            assert session.rewrite_question(LONGER, [FACES]) == standing
            assert session.rewrite_question(LONGER, []) == LONGER
