"""Settings of an environment server, what they open, and the processes that serve it."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors import Multiprocess

from rookery.answers.answer_session import EvidenceSources
from rookery.browser.browser_commands import BrowserRules
from rookery.browser.episode_source import EpisodeSource, reward_accepted_answer
from rookery.desk.store import Store
from rookery.evidence.claim_support import make_evidence_reward
from rookery.library.call_recording import CallRecording, FrozenWeb
from rookery.library.libraries import BUNDLED_PLACE, get_contents_digest
from rookery.library.question_files import bundled_questions, read_questions
from rookery.library.web_library import WebLibrary
from rookery.library.worker_processes import end_with_parent
from rookery.records import Library, Question, Reward
from rookery.server.env.app import ENVIRONMENT_NAME, EnvDescription, EnvLimits, build_env_app
from rookery.settings import Settings
from rookery.version import __version__

ACCEPTED_REWARD = "accepted"
EVIDENCE_REWARD = "evidence"
ENVIRONMENT_REWARDS = (ACCEPTED_REWARD, EVIDENCE_REWARD)
"""names of the rewards"""
ENVIRONMENT_DESCRIPTION = (
    "Answer a question from what you quote in a text browser (WebGPT). An action is one command."
)
MAX_SOCKET_BYTES = 16_000_000
"""bytes of a WebSocket message above which the connection is cut without a sentence"""
SHUTDOWN_SECONDS = 5
"""seconds that a request under way may take once the server is stopped"""


class EnvSettings(msgspec.Struct, frozen=True):
    """Everything that decides what an environment server shows and rewards."""

    questions: tuple[str, ...] = ()
    """files of questions, each a split with the name of the file; none: the bundled ones"""
    settings: Settings = Settings()
    """the places to browse, and the network"""
    frozen: str = ""
    """file of a recording that is browsed in place of the places"""
    record: str = ""
    """file that what the library answered is recorded in"""
    reward: str = ACCEPTED_REWARD
    """accepted: 1 for an answer that, with a quote it cites, contains an accepted answer; evidence:
    the evidence model's judgement of the answer by its quotes"""
    rules: BrowserRules = BrowserRules()
    limits: EnvLimits = EnvLimits()


class OpenedEnvironment(NamedTuple):
    """The episodes of an environment server, and what there is to say about them."""

    source: EpisodeSource
    about: EnvDescription
    left_out: int
    """questions without an accepted answer, which the reward would never be given for"""
    close: Callable[[], None]


def open_environment(how: EnvSettings) -> OpenedEnvironment:
    """Open the questions, the library and the reward of these settings.

    Raises ValueError for questions and settings that cannot be used, OSError for a file that cannot
    be read, and Failed where the library, the recording or the evidence model cannot be opened.
    """
    splits, left_out = _read_splits(how)
    with ExitStack() as stack:
        library, contents = _open_library(how, stack)
        recording = stack.enter_context(CallRecording(Path(how.record))) if how.record else None
        reward = _make_reward(how, stack)
        slow = how.reward == EVIDENCE_REWARD
        source = EpisodeSource(splits, library, reward, how.rules, "env", recording, slow)
        about = EnvDescription(
            ENVIRONMENT_NAME,
            ENVIRONMENT_DESCRIPTION,
            __version__,
            contents,
            how.reward,
            how.rules.actions,
        )
        return OpenedEnvironment(source, about, left_out, stack.pop_all().close)


def _read_splits(how: EnvSettings) -> tuple[dict[str, list[Question]], int]:
    """Return the questions of each split, and the number of those left out."""
    splits: dict[str, list[Question]] = {}
    left_out = 0
    for place in how.questions or (BUNDLED_PLACE,):
        path = bundled_questions() if place == BUNDLED_PLACE else Path(place)
        name = path.name.partition(".")[0]
        if name in splits:
            raise ValueError(f"two files are named {name}, and each names a split: rename one")
        questions = list(read_questions(path))
        rewardable = [each for each in questions if each.gold or how.reward != ACCEPTED_REWARD]
        if questions and not rewardable:
            raise ValueError(
                f"{place}: no question has an accepted answer (gold): "
                f"reward by the evidence model, with --reward {EVIDENCE_REWARD}"
            )
        splits[name] = rewardable
        left_out += len(questions) - len(rewardable)
    return splits, left_out


def _open_library(
    how: EnvSettings, stack: ExitStack
) -> tuple[Library | Callable[[], Library], str]:
    """Return the library, or what makes one for each episode, and the digest of its contents."""
    if how.frozen:
        if how.settings.places:
            raise ValueError("the web is --frozen or --in: leave one of them out")
        web = FrozenWeb(Path(how.frozen))
        stack.callback(web.close)
        return web, web.contents_digest()
    sources = stack.enter_context(EvidenceSources(_choose_places(how)))
    library = sources.open_library()
    if isinstance(library, WebLibrary):
        return sources.open_library_for_question, ""
    return library, get_contents_digest(library)


def _choose_places(how: EnvSettings) -> Settings:
    """Return the settings with the bundled pages as the place where the questions are bundled."""
    if how.settings.places or (how.questions and set(how.questions) != {BUNDLED_PLACE}):
        return how.settings
    return msgspec.structs.replace(how.settings, places=(BUNDLED_PLACE,))


def _make_reward(how: EnvSettings, stack: ExitStack) -> Reward:
    if how.reward == ACCEPTED_REWARD:
        return reward_accepted_answer
    if how.reward != EVIDENCE_REWARD:
        names = ", ".join(ENVIRONMENT_REWARDS)
        raise ValueError(f"there is no reward {how.reward!r}: use one of {names}")
    judge = stack.enter_context(EvidenceSources(how.settings)).load_evidence_judge()
    if judge is None:
        raise ValueError(
            f"--reward {EVIDENCE_REWARD} needs an evidence model, which --ranker "
            f"{how.settings.ranker} is not: name a folder with one"
        )
    return make_evidence_reward(judge)


def run_env_server(
    place: str, how: EnvSettings, opened: OpenedEnvironment, listener: socket.socket, workers: int
) -> None:
    """Serve an environment until somebody stops it, with the keys of the store at `place`.

    Several worker processes share the port, and each opens the environment for itself.
    """
    if workers == 1:
        store = Store(place)
        app = _build_app(opened, store, how.limits)
        uvicorn.Server(_make_config(lambda: app, 1)).run([listener])
        return
    opened.close()
    Multiprocess(_make_config(partial(_build_worker_app, place, how), workers), [listener]).run()


def _build_worker_app(place: str, how: EnvSettings) -> Starlette:
    end_with_parent()
    return _build_app(open_environment(how), Store(place), how.limits)


def _build_app(opened: OpenedEnvironment, store: Store, limits: EnvLimits) -> Starlette:
    def close() -> None:
        opened.close()
        store.close()

    return build_env_app(opened.source, store, opened.about, limits, close)


def _make_config(make_app: Callable[[], Starlette], workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        make_app,
        factory=True,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=60,  # one that still loads modules does not answer
        ws="websockets-sansio",
        ws_max_size=MAX_SOCKET_BYTES,
        ws_per_message_deflate=False,  # compressing a prompt takes longer than making it
    )
