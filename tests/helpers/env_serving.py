"""An environment server over two small pages, and what is said to it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from listening import listening
from websockets.sync.client import ClientConnection, connect

from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.episode_source import EpisodeSource, reward_accepted_answer
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.desk.store import Store, initialize_store
from rookery.library.call_recording import CallRecording
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Episode, Library, Question, Reward
from rookery.server.environment import EnvDescription, EnvLimits, build_env_app

GIFTS = b"<title>Gifts</title><p>Crows bring gifts to people, says <a href='/r'>a friend</a>.</p>"
FOOD = b"<title>Ravens</title><p>Ravens cache their food.</p>"
PAGES = [
    read_page(GIFTS, "https://a.org/gifts", "text/html"),
    read_page(FOOD, "https://a.org/r", "text/html"),
]
RULES = BrowserRules(actions=12)
TRAIN = [
    Question("a", "What do crows bring?", gold=("gifts",)),
    Question("b", "What do ravens cache?", gold=("their food",)),
    Question("c", "What do crows bring to people?", gold=("gifts",)),
]
TEST = [Question("t", "What do ravens hide?", gold=("their food",))]
SPLITS = {"train": TRAIN, "test": TEST}
RIGHT = (
    "Search crows",
    "Clicked on link 0",
    "dance",
    "Quote: Crows bring gifts to people",
    "End: Answer",
    "Crows bring gifts [1].",
)
SCRIPTS: dict[str, tuple[Sequence[str], float, str]] = {
    "right": (RIGHT, 1.0, "end"),
    "cites the second quote alone": (
        (*RIGHT[:3], "Quote: says a friend", *RIGHT[3:5], "Crows bring gifts [2]."),
        1.0,
        "end",
    ),
    "wrong": ((*RIGHT[:-1], "Crows bring food [1]."), 0.0, "end"),
    "not cited": ((*RIGHT[:-1], "Crows bring gifts."), 0.0, "end"),
    "cites what is not quoted": ((*RIGHT[:-1], "Crows bring gifts [2]."), 0.0, "bad_syntax"),
    "nothing quoted": (("Search crows", "End: Answer"), 0.0, "no_quotes"),
    "nonsense": (("End: Nonsense",), 0.0, "nonsense"),
    "out of actions": (("Top",) * 12, 0.0, "max_actions"),
    "surrogate": (("Search \ud800", "End: Controversial"), 0.0, "controversial"),
}
"""commands for a task of `train`, the reward, and the stop"""


def make_source(library: Library | None = None, reward: Reward = reward_accepted_answer) -> Any:
    return EpisodeSource(SPLITS, library or InMemoryLibrary(PAGES), reward, RULES)


@contextmanager
def serving(
    folder: Path, source: EpisodeSource | None = None, limits: EnvLimits = EnvLimits()
) -> Iterator[tuple[str, Store]]:
    """The address of a server, and its store."""
    place = str(folder / "store.sqlite")
    initialize_store(place)
    about = EnvDescription("rookery", "A text browser.", "0", "", "accepted", RULES.actions)
    with (
        Store(place) as store,
        listening(build_env_app(source or make_source(), store, about, limits)) as address,
    ):
        yield address, store


@contextmanager
def session(address: str, **more: Any) -> Iterator[ClientConnection]:
    # of several workers, one may still begin when the first is listening
    with connect(f"{address.replace('http', 'ws', 1)}/ws", open_timeout=300, **more) as socket:
        yield socket


def ask(socket: ClientConnection, kind: str, **data: Any) -> Any:
    """The data of the reply to a message; those of an error, too."""
    socket.send(
        json.dumps({"type": kind, "data": data} if data or kind == "reset" else {"type": kind})
    )
    return json.loads(socket.recv())["data"]


def play(socket: ClientConnection, commands: Sequence[str], **task: Any) -> tuple[list[str], Any]:
    """The prompts before each command, and the last reply."""
    reply = ask(socket, "reset", **task)
    prompts = []
    for command in commands:
        assert not reply["done"]
        prompts.append(reply["observation"]["prompt"])
        reply = ask(socket, "step", command=command)
    return prompts, reply


def roll_out(
    commands: Sequence[str],
    question: Question = TRAIN[0],
    library: Library | None = None,
    recording: CallRecording | None = None,
) -> Episode:
    """The same commands in a rollout of our own."""
    words = iter(commands)
    act = make_scripted_policy([lambda _: next(words)])
    task = BrowserTask(question, RULES)
    library = library or InMemoryLibrary(PAGES)
    return next(run_rollouts([task], library, act, "environment", recording=recording))
