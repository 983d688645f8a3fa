"""The environment server's episodes with tools: replies of a chat model in every form."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from env_serving import PAGES, RULES, TRAIN, ask, serving, session
from test_environment import http

from rookery.answers.webgpt import answer_with_webgpt
from rookery.browser.browser_commands import make_chat_rules
from rookery.browser.episode_source import EpisodeSource, reward_accepted_answer
from rookery.browser.rollout import replay_episode
from rookery.library.call_recording import CallRecording
from rookery.library.search_index import InMemoryLibrary
from rookery.models.chat_prompts import build_message_fields
from rookery.records import Completion, Episode, Step

SEARCH = 'I search first.\nsearch {"query": "crows"}\nopen {"link": 0}'
QUOTE = 'quote {"text": "Crows bring gifts to people"}\nfinish {}'
ANSWER = "Sure!\n\nCrows bring gifts (Reference 1), as `$[3]` does not say."
SEARCH_CALLS = [
    {"name": "search", "arguments": {"query": "crows"}},
    {"id": "1", "type": "function", "function": {"name": "open", "arguments": '{"link": 0}'}},
]
QUOTE_CALL = {"name": "quote", "arguments": {"text": "Crows bring gifts to people"}}
COMMANDS = ["Search crows", "Clicked on link 0"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("env")) as (address, _):
        yield address


@pytest.mark.parametrize(
    "actions",
    [
        [{"command": SEARCH}, {"command": QUOTE}],
        [{"command": "", "tool_calls": SEARCH_CALLS}, {"command": QUOTE}],
        [{"command": SEARCH_CALLS}, {"tool_calls": [QUOTE_CALL, {"name": "finish"}]}],
        [
            {"type": "call_tool", "tool_name": "search", "arguments": {"query": "crows"}},
            {"type": "call_tool", "tool_name": "open", "arguments": {"link": 0}},
            QUOTE_CALL,
            {"name": "finish"},
        ],
    ],
    ids=["text", "calls", "json", "one by one"],
)
def test_calls_in_every_form_are_the_commands_in_their_order(
    address: str, actions: list[dict[str, Any]]
) -> None:
    with session(address) as socket:
        ask(socket, "reset", task="a", tools=True)
        replies = [ask(socket, "step", **each) for each in actions]
        done = [command for each in replies for command in each["metadata"]["commands"]]
        assert done == [*COMMANDS, "Quote: Crows bring gifts to people", "End: Answer"]
        about = replies[-1]["metadata"]
        assert (about["answering"], about["step"], about["actions_left"]) == (True, 4, 8)
        assert "♦Reference [1]: Gifts" in replies[-1]["observation"]["prompt"]
        ended = ask(socket, "step", command=ANSWER)
    assert (ended["done"], ended["reward"], ended["metadata"]["stop"]) == (True, 1.0, "end")
    assert ended["metadata"]["answer"]["text"] == "Crows bring gifts, as `$[3]` does not say."


def test_a_step_tells_what_each_call_did_and_why_one_failed(address: str) -> None:
    with session(address) as socket:
        first = ask(socket, "reset", task="a", tools=True)
        assert "♦Last reply" not in first["observation"]["prompt"]
        reply = ask(
            socket, "step", command='open {"link": 7}\nsearch {"query": "crows"}\nfinish {}'
        )
        prompt = reply["observation"]["prompt"]
        assert "- Clicked on link 7 → there is no link 7 on this page\n" in prompt
        assert "- Search crows → 1 results: Gifts\n" in prompt
        assert "- not finished, as a command before it failed" in prompt
        assert reply["metadata"]["commands"] == ["Clicked on link 7", "Search crows"]
        reply = ask(socket, "step", command="Let me think.")
        assert "→ this is no command of the text browser" in reply["observation"]["prompt"]
        reply = ask(socket, "step", command='find {"text": "people"}')
        assert "→ 1 on the page" in reply["observation"]["prompt"]


def test_the_prompt_is_also_the_request_of_a_chat_model(address: str) -> None:
    with session(address) as socket:
        reply = ask(socket, "reset", task="a", tools=True)
        assert "request" not in ask(socket, "reset", task="a")["metadata"]
    request, prompt = reply["metadata"]["request"], reply["observation"]["prompt"]
    assert request == build_message_fields(prompt)
    assert [each["role"] for each in request["messages"]] == ["system", "user"]
    assert {each["function"]["name"] for each in request["tools"]} >= {"search", "quote", "finish"}


def test_the_tools_are_listed_by_the_protocol(address: str) -> None:
    with session(address) as socket:
        listed = ask(socket, "step", type="list_tools")
        assert not listed["done"]
        tools = listed["observation"]["tools"]
    body = {"jsonrpc": "2.0", "method": "tools/list", "id": 3}
    reply = http(f"{address}/mcp", body)[1]
    assert (reply["jsonrpc"], reply["id"]) == ("2.0", 3)
    for ours, theirs in zip(tools, reply["result"]["tools"], strict=True):
        assert (ours["name"], ours["parameters"]) == (theirs["name"], theirs["inputSchema"])
    refused = http(f"{address}/mcp", body | {"method": "tools/call"})[1]["error"]
    assert "tools are called by steps" in refused["message"]
    action = http(f"{address}/schema")[1]["action"]
    assert action["required"] == ["command"]
    assert {"tool_calls", "tool_name", "arguments"} <= action["properties"].keys()


def test_without_tools_a_call_is_refused_with_a_sentence(address: str) -> None:
    with session(address) as socket:
        ask(socket, "reset", task="a")
        said = ask(socket, "step", **QUOTE_CALL)
        assert said["message"] == 'this episode has no tools: send a reset with "tools": true'
        ask(socket, "reset", task="a", tools=True)
        said = ask(socket, "step", arguments={"link": 0})
        assert "the field `command` is missing" in said["message"]
        said = ask(socket, "step", tool_calls=[{"function": 3}])
        assert "the message does not fit" in said["message"]
        odd: dict[str, Any]
        for odd in ({"name": "open", "arguments": "[["}, {"name": "dance"}, {"arguments": {}}):
            reply = ask(socket, "step", tool_calls=[odd])
            assert "→ this is no command" in reply["observation"]["prompt"], odd


class Scripted:
    """A chat model that says these replies, and keeps its prompts."""

    name = "scripted"

    def __init__(self, replies: list[str]) -> None:
        self.replies, self.prompts = list(replies), list[str]()

    def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
        self.prompts.append(prompt)
        return [Completion(self.replies.pop(0))] * n


def test_a_session_of_calls_is_that_of_ask_and_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    replies = [SEARCH, 'find {"text": "friend"}\nscroll {"direction": "down"}', QUOTE, ANSWER]
    with CallRecording(tmp_path / "recording") as recording:
        library = InMemoryLibrary(PAGES)
        splits = {"train": TRAIN}
        source = EpisodeSource(splits, library, reward_accepted_answer, RULES, "env", recording)
        prompts, done = [], list[str]()
        with serving(tmp_path, source) as (address, _), session(address) as socket:
            reply = ask(socket, "reset", task="a", tools=True)
            for said in replies:
                prompts.append(reply["observation"]["prompt"])
                reply = ask(socket, "step", command=said)
                done += reply["metadata"]["commands"] if prompts[-1] and not reply["done"] else []
        about = reply["metadata"]
        words = [*done, "Crows bring gifts [1], as `$\\[3]` does not say."]
        steps = tuple(Step("", Completion(each)) for each in words)
        stored = Episode(TRAIN[0], "env", steps, session=about["session"])
        about = {"answer": about["answer"], "stop": about["stop"]}
        stored = msgspec.convert(msgspec.to_builtins(stored) | about, Episode)
        replayed = replay_episode(stored, recording)
    rules = make_chat_rules(RULES, 8000)
    rules = msgspec.structs.replace(rules, actions=RULES.actions, overlap=RULES.overlap)
    model = Scripted(replies)
    episode = answer_with_webgpt(TRAIN[0], library, model, rules=rules, chat=True)
    assert model.prompts == prompts
    assert episode.steps[:-1] == replayed.steps[:-1]
    assert episode.answer == replayed.answer
