"""The environment server: the episodes of rollouts, by the OpenEnv protocol, and its limits."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from env_serving import (
    PAGES,
    RIGHT,
    RULES,
    SCRIPTS,
    TRAIN,
    ask,
    make_source,
    play,
    roll_out,
    serving,
    session,
)
from websockets.exceptions import ConnectionClosed

from rookery.browser.browser_commands import BrowserTask
from rookery.browser.episode_source import EpisodeSource, reward_accepted_answer
from rookery.browser.rollout import replay_episode
from rookery.desk.store import Store, initialize_store
from rookery.errors import Failed
from rookery.library.call_recording import CallRecording
from rookery.library.search_index import InMemoryLibrary
from rookery.records import Answer, Failure, Hit
from rookery.server.api.endpoints import create_api_key
from rookery.server.environment import EnvError, EnvLimits, EnvSessions

NESTED = '{"type": "step", "data": {"command": "Top", "metadata": ' + '{"a":' * 700


def http(address: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and body of a GET, or of a POST with this body."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | headers
    try:
        with urlopen(Request(address, data, headers)) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("env")) as (address, _):
        yield address


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_episode_is_that_of_a_rollout(address: str, name: str) -> None:
    commands, reward, stop = SCRIPTS[name]
    rolled = roll_out(commands)
    with session(address) as socket:
        prompts, reply = play(socket, commands, split="train", index=0)
    assert prompts == [step.prompt for step in rolled.steps]
    assert (reply["observation"], reply["done"]) == ({"prompt": ""}, True)
    about = reply["metadata"]
    assert (reply["reward"], about["stop"], rolled.stop) == (reward, stop, stop)
    assert msgspec.convert(about.get("answer"), Answer | None) == rolled.answer
    assert msgspec.convert(about.get("failures", []), tuple[Failure, ...]) == tuple(rolled.failures)


@pytest.mark.parametrize("name", ["right", "nonsense"])
def test_over_http_an_episode_goes_on_by_its_id(address: str, name: str) -> None:
    commands, reward, _ = SCRIPTS[name]
    status, reply = http(f"{address}/reset", {"task": "a", "episode_id": "mine"})
    assert (status, reply["reward"], reply["done"]) == (200, None, False)
    assert reply["metadata"]["episode_id"] == "mine"
    prompts = []
    for number, command in enumerate(commands):
        state = http(f"{address}/state?episode_id=mine")[1]
        assert state == {
            "episode_id": "mine",
            "step_count": number,
            "split": "train",
            "index": 0,
            "task": "a",
        }
        prompts.append(reply["observation"]["prompt"])
        body = {"action": {"command": command}, "episode_id": "mine"}
        status, reply = http(f"{address}/step", body)
    assert prompts == [step.prompt for step in roll_out(commands).steps]
    assert (reply["reward"], reply["done"]) == (reward, True)
    status, reply = http(f"{address}/step", body)
    assert status == 404
    assert "it has ended: POST /reset" in reply["error"]["message"]


def test_numbers_are_what_clients_make_of_a_text_that_is_one(address: str) -> None:
    commands = (*RIGHT[:-1], "1987")
    with session(address) as socket:
        _, reply = play(socket, RIGHT[:-1], task="a")
        assert reply["metadata"]["answering"]
        reply = ask(socket, "step", command=1987)
    assert reply["metadata"]["answer"]["text"] == roll_out(commands).answer.text == "1987"  # type: ignore[union-attr]


def test_the_model_is_given_the_prompt_alone_and_the_trainer_the_rest(address: str) -> None:
    with session(address) as socket:
        ask(socket, "reset", task="b", split="train")
        reply = ask(socket, "step", command="dance")
        assert reply["observation"].keys() == {"prompt"}
        about = reply["metadata"]
        assert about["note"] == "this is no command of the text browser"
        assert (about["split"], about["index"], about["task"]) == ("train", 1, "b")
        assert (about["step"], about["actions_left"]) == (1, 11)
        assert ask(socket, "state") == {
            "episode_id": about["episode_id"],
            "step_count": 1,
            "split": "train",
            "index": 1,
            "task": "b",
        }


def test_a_seed_determines_the_task(address: str) -> None:
    with session(address) as socket:
        drawn = [ask(socket, "reset", seed=n)["metadata"]["task"] for n in range(20)]
        assert set(drawn) == {"a", "b", "c"}
        assert drawn == [ask(socket, "reset", seed=n)["metadata"]["task"] for n in range(20)]


@pytest.mark.parametrize(
    ("message", "code", "sentence"),
    [
        ("Top", "INVALID_JSON", "the message is not JSON"),
        ("[1]", "VALIDATION_ERROR", "it must be an object"),
        ("{}", "UNKNOWN_TYPE", 'give the message one "type" of reset, step, state or close'),
        ('{"type": "dance"}', "UNKNOWN_TYPE", "cannot be 'dance'"),
        ('{"type": "step"}', "VALIDATION_ERROR", "the field `data` is missing"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", "the field `command` is missing"),
        ('{"type": "step", "data": {"command": null}}', "VALIDATION_ERROR", "`data.command`"),
        (
            '{"type": "step", "data": {"move": "Top"}}',
            "VALIDATION_ERROR",
            "the field `move` is unknown",
        ),
        ('{"type": "reset", "data": {"idx": 1}}', "VALIDATION_ERROR", "the field `idx` is unknown"),
        ('{"type": "reset", "data": {"split": "x"}}', "VALIDATION_ERROR", "use one of train, test"),
        ('{"type": "reset", "data": {"index": 3}}', "VALIDATION_ERROR", "give one from 0 to 2"),
        ('{"type": "reset", "data": {"index": -1}}', "VALIDATION_ERROR", "give one from 0 to 2"),
        ('{"type": "reset", "data": {"task": "z"}}', "VALIDATION_ERROR", "has the id 'z'"),
        (
            '{"type": "reset", "data": {"task": "a", "index": 0}}',
            "VALIDATION_ERROR",
            "by its index or by its id, not by both",
        ),
        ('{"type": "reset", "data": {"episode_id": ""}}', "VALIDATION_ERROR", "1 to 255"),
        ('{"type": "step", "data": {"command": "Top"}}', "EXECUTION_ERROR", "send a reset first"),
        ("x" * 5000, "VALIDATION_ERROR", "at most 4,000 characters, and this one has 5,000"),
        (b"\xff", "INVALID_JSON", "the message is not JSON"),
        (NESTED, "INVALID_JSON", "the message is not JSON"),
    ],
)
def test_bad_input_gets_a_sentence_and_the_session_goes_on(
    narrow: str, message: Any, code: str, sentence: str
) -> None:
    with session(narrow) as socket:
        socket.send(message)
        reply = json.loads(socket.recv())
        assert (reply["type"], reply["data"]["code"]) == ("error", code)
        assert sentence in reply["data"]["message"]
        assert play(socket, SCRIPTS["nonsense"][0])[1]["done"]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("narrow"), limits=EnvLimits(message=4000)) as (address, _):
        yield address


def test_nothing_is_stepped_after_the_end(address: str) -> None:
    with session(address) as socket:
        play(socket, SCRIPTS["nonsense"][0], task="a")
        assert ask(socket, "state")["done"]
        said = ask(socket, "step", command="Top")
        assert said["message"] == "the episode has ended: send a reset to begin another"
        assert play(socket, RIGHT, task="a")[1]["reward"] == 1.0


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("reset", {"idx": 1}, 400, "the field `idx` is unknown"),
        ("reset", {"split": "x"}, 422, "use one of train, test"),
        ("step", {"action": {"command": "Top"}}, 404, "no episode '' is open here"),
        ("step", {"action": {}, "episode_id": "x"}, 400, "the field `command` is missing"),
        ("state?episode_id=x", None, 404, "no episode 'x' is open here"),
        ("rookery/task", {"split": "train", "index": 3}, 400, "give one from 0 to 2"),
        ("rookery/tasks", {"split": "x"}, 404, "use one of train, test"),
        ("echo/splits", None, 404, "it is called rookery"),
        ("reset", "x" * 5000, 413, "at most 4,000 bytes"),
    ],
)
def test_bad_requests_get_a_sentence(
    narrow: str, path: str, body: Any, status: int, sentence: str
) -> None:
    got, said = http(f"{narrow}/{path}", body)
    assert (got, sentence in said["error"]["message"]) == (status, True), said


def test_the_tasks_are_listed_as_by_a_task_provider(address: str) -> None:
    assert http(f"{address}/list_environments")[1] == ["rookery"]
    assert http(f"{address}/Rookery/splits")[1] == [
        {"name": "train", "type": "train"},
        {"name": "test", "type": "test"},
    ]
    tasks = [
        {"id": each.id, "index": number, "question": each.text} for number, each in enumerate(TRAIN)
    ]
    listed = http(f"{address}/rookery/tasks", {"split": "train"})[1]
    assert listed == {"tasks": tasks, "env_name": "rookery"}
    assert http(f"{address}/rookery/num_tasks", {"split": "train"})[1] == {"num_tasks": 3}
    one = {"split": "train", "index": 1}
    assert http(f"{address}/rookery/task", one)[1] == {"task": tasks[1]}
    for start, stop in [(None, None), (1, None), (None, 2), (0, 1), (2, 9), (-1, None)]:
        body = {"split": "train", "start": start, "stop": stop}
        ranged = http(f"{address}/rookery/task_range", body)[1]
        assert ranged == {"tasks": tasks[start:stop]}
    assert "gifts" not in json.dumps(listed)  # the accepted answers are not given away


def test_the_server_describes_itself(address: str) -> None:
    assert http(f"{address}/health") == (200, {"status": "healthy"})
    assert http(f"{address}/metadata")[1]["name"] == "rookery"
    assert http(f"{address}/state")[1] == {"episode_id": None, "step_count": 0}
    schemas = http(f"{address}/schema")[1]
    assert schemas["action"]["required"] == ["command"]
    assert schemas["observation"]["required"] == ["prompt"]
    paths = http(f"{address}/openapi.json")[1]["paths"]
    assert {"/reset", "/step", "/state", "/{env_name}/task_range"} <= paths.keys()
    assert "only tools/list" in http(f"{address}/mcp", {})[1]["error"]["message"]


@pytest.mark.slow
def test_sessions_at_once_do_not_mix(address: str) -> None:
    def play_task(number: int) -> bool:
        commands, reward, _ = SCRIPTS[list(SCRIPTS)[number % len(SCRIPTS)]]
        with session(address) as socket:
            prompts, reply = play(socket, commands, split="train", index=number % 3)
        rolled = roll_out(commands, TRAIN[number % 3])
        worth = reward if number % 3 != 1 else 0.0
        same = prompts == [step.prompt for step in rolled.steps]
        return same and (reply["reward"], reply["metadata"]["stop"]) == (worth, rolled.stop)

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(play_task, range(48)))


def test_too_many_sessions_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with (
        serving(tmp_path, limits=EnvLimits(sessions=2)) as (address, _),
        session(address) as first,
    ):
        assert ask(first, "state")["step_count"] == 0
        assert http(f"{address}/reset", {"episode_id": "x"})[0] == 200
        with session(address) as third:
            assert json.loads(third.recv())["data"] == {
                "message": "all 2 sessions are taken: close one, or try again later",
                "code": "CAPACITY_REACHED",
            }
            with pytest.raises(ConnectionClosed):
                third.recv()
        assert http(f"{address}/reset", {})[0] == 503
        body = {"action": {"command": "End: Nonsense"}, "episode_id": "x"}
        assert http(f"{address}/step", body)[1]["done"]
        assert http(f"{address}/reset", {})[0] == 200


def test_an_idle_session_is_closed_with_a_sentence(tmp_path: Path) -> None:
    with (
        serving(tmp_path, limits=EnvLimits(idle=0.2)) as (address, _),
        session(address) as socket,
    ):
        replies = []
        with suppress(ConnectionClosed):
            while True:
                replies.append(json.loads(socket.recv()))
        said = replies[-1]["data"]["message"]
        assert said == "the session was idle for 0.2 seconds and is closed"


def test_an_idle_episode_of_http_is_forgotten_and_leaves_room(tmp_path: Path) -> None:
    place = str(tmp_path / "store.sqlite")
    initialize_store(place)
    now = [0.0]
    with Store(place) as store:
        limits = EnvLimits(sessions=2, idle=10)
        sessions = EnvSessions(make_source(), store, limits, lambda: now[0])
        for name in ("old", "new"):
            session = sessions.open_session()
            session.episode_id = name
            sessions.episodes.add_session("me", session.episode_id or "", session)
            now[0] += 4
        with pytest.raises(EnvError, match="all 2 sessions are taken"):
            sessions.open_session()
        now[0] += 3
        assert sessions.find_http_session("me", "new").episode_id == "new"
        with pytest.raises(EnvError, match="no episode 'old' is open here"):
            sessions.find_http_session("me", "old")
        sessions.open_session()


def test_keys_are_those_of_the_api(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, store):
        with session(address) as socket:  # on this machine, before there is a key
            assert ask(socket, "state")
        key = create_api_key(store, "trainer")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic ???"}):
            with session(address, additional_headers=headers) as socket:
                said = json.loads(socket.recv())["data"]["message"]
                assert "Send a key of this server in a header" in said
            assert http(f"{address}/schema", **headers)[0] == 401
        bearer = {"Authorization": f"Bearer {key}"}
        with session(address, additional_headers=bearer) as socket:
            assert play(socket, RIGHT, task="a")[1]["reward"] == 1.0
        with session(address.replace("//", f"//any:{key}@")) as socket:
            assert ask(socket, "state")
        assert http(f"{address}/reset", {"episode_id": "x"}, **bearer)[0] == 200
        other = {"Authorization": f"Bearer {create_api_key(store, 'other')}"}
        assert http(f"{address}/state?episode_id=x", **other)[0] == 404
        assert http(f"{address}/state?episode_id=x", **bearer)[0] == 200
        assert http(f"{address}/health")[0] == 200


def test_a_page_of_another_site_may_not_ask(address: str) -> None:
    with session(address, origin="https://elsewhere.org") as socket:
        said = json.loads(socket.recv())["data"]["message"]
        assert said == "A page of another site may not ask here."


class Broken(InMemoryLibrary):
    """A library that fails in a way of its own for each query."""

    def search(self, query: str, k: int) -> list[Hit]:
        if query == "full":
            raise Failed(Failure("archive", "disk_full", "make room on the disk"))
        raise ValueError("it has gone")


class Stuck(InMemoryLibrary):
    """A library whose searches wait until the test ends."""

    def __init__(self) -> None:
        super().__init__(PAGES)
        self.ended = threading.Event()

    def search(self, query: str, k: int) -> list[Hit]:
        self.ended.wait()
        raise Failed(Failure(query, "ended"))


@pytest.mark.parametrize("recorded", [False, True])
def test_a_search_that_takes_too_long_is_an_error_page_or_ends_a_recorded_episode(
    tmp_path: Path, recorded: bool
) -> None:
    library = Stuck()
    with CallRecording(tmp_path / "recording") as recording:
        source = EpisodeSource(
            *({"train": TRAIN}, library, reward_accepted_answer, RULES, "env"),
            recording if recorded else None,
        )
        with (
            serving(tmp_path, source, EnvLimits(seconds=0.1)) as (address, _),
            session(address) as socket,
        ):
            ask(socket, "reset")
            reply = ask(socket, "step", command="Search crows")
            library.ended.set()
        assert reply["done"] is recorded
        if recorded:
            assert (reply["metadata"]["stop"], reply["reward"]) == ("timed_out", 0.0)
        else:
            assert "not here after 0.1 seconds" in reply["observation"]["prompt"]


def test_what_a_library_raises_ends_no_other_session(tmp_path: Path) -> None:
    with (
        serving(tmp_path, make_source(Broken(PAGES))) as (address, _),
        session(address) as socket,
    ):
        ask(socket, "reset")
        shown = ask(socket, "step", command="Search crows")
        assert "ValueError: it has gone" in shown["observation"]["prompt"]
        said = ask(socket, "step", command="Search full")
        assert said["message"] == "the server cannot go on: disk_full: make room on the disk"
        assert ask(socket, "step", command="Top")["message"].startswith("no episode is running")
        assert play(socket, SCRIPTS["nonsense"][0])[1]["done"]


def test_a_reward_that_raises_is_a_sentence(tmp_path: Path) -> None:
    def fail(*_: object) -> float:
        raise ZeroDivisionError

    with (
        serving(tmp_path, make_source(reward=fail)) as (address, _),
        session(address) as socket,
    ):
        ask(socket, "reset", task="a")
        said = [ask(socket, "step", command=command) for command in RIGHT][-1]
        assert said["message"].startswith("fail: ZeroDivisionError:  (")
        assert "test_environment.py, line " in said["message"]


def test_a_recorded_episode_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "recording") as recording:
        library = InMemoryLibrary(PAGES)
        source = EpisodeSource(
            {"train": TRAIN}, library, reward_accepted_answer, RULES, "env", recording
        )
        with serving(tmp_path, source) as (address, _), session(address) as socket:
            prompts, reply = play(socket, RIGHT, task="a")
        about = reply["metadata"]
        rolled = roll_out(RIGHT)
        unprompted = msgspec.structs.replace(
            rolled,
            by="env",
            session=about["session"],
            steps=tuple(msgspec.structs.replace(step, prompt="") for step in rolled.steps),
        )
        replayed = replay_episode(unprompted, recording)
    assert [step.prompt for step in replayed.steps] == prompts
    assert BrowserTask(TRAIN[0], RULES) == source.select_task(task="a").task
