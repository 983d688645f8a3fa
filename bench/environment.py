"""The environment server: the same episodes through each client, and steps a second.

Reads ../shared/data/squad. Scripted demonstrators answer questions over the squad folder in our own
rollouts; then the same commands are said through `rookery serve env` in two processes, by plain
sockets and by openenv's client, and through the adapter for TRL, and every prompt and reward is
compared. openenv's client plays where `make .venv/engines/ready` has installed it. The sockets run
beside the server on the same cores: the CPU time of the server's processes says how many steps two
cores serve, and the wall clock how many there were. Prints tables and writes
bench/results/environment.json.
"""

import asyncio
import itertools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import (
    ROOT,
    SCRATCH,
    choose_size,
    measure_cpu,
    print_table,
    require_data,
    write_results,
)
from bench.squad import DATA, Squad
from recipes.oracle_policies import generate_demonstrations
from rookery.browser.browser_commands import BrowserTask
from rookery.browser.episode_source import (
    EpisodeSource,
    TrlBrowserEnvironment,
    reward_accepted_answer,
)
from rookery.desk.store import initialize_store
from rookery.records import Episode, Library, Question

EPISODES = choose_size(1000, 4)
SESSIONS = choose_size(64, 2)
ROUNDS = choose_size(4, 1)
"""Times that the episodes are played while the clock runs, after one round that is compared."""
WORKERS = 2
STEPS_PER_SECOND = 5000
ENGINES = ROOT / ".venv" / "engines" / "bin" / "python"
LONGEST_START = 120.0
QUIET_CHECKS = 30
"""Tenths of a second for which all workers must wait."""


class Played(NamedTuple):
    """What a client saw of one episode."""

    prompts: list[str]
    reward: float


def play_rollouts(squad: Squad, library: Library) -> list[Episode]:
    """Let demonstrators answer questions that the folder answers, by our own rollouts."""
    numbered = enumerate(squad.sample(0, min(2 * EPISODES, len(squad.questions))))
    tasks = (
        BrowserTask(
            Question(
                str(number),
                asked.text,
                gold=asked.answers,
                source=squad.articles[asked.article].name,
            )
        )
        for number, asked in numbered
    )
    return list(islice(generate_demonstrations(tasks, library), EPISODES))


def play_adapter(source: EpisodeSource, episodes: Sequence[Episode]) -> Iterator[Played]:
    """Play the episodes through the adapter for TRL."""
    environment = TrlBrowserEnvironment(source)
    for index, episode in enumerate(episodes):
        prompts = [environment.reset(index=index)]
        prompts += [environment.type_command(step.said.text) for step in episode.steps]
        yield Played(prompts[:-1], environment.get_reward())


class SocketClient:
    """A WebSocket client that does little, so that the server has the cores."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> "SocketClient":
        """Return a client with an open session."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        heads = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        writer.write(heads.encode())
        await reader.readuntil(b"\r\n\r\n")
        return cls(reader, writer)

    async def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the payload of the next message."""
        self._writer.write(frame)
        while True:
            first, second = await self._reader.readexactly(2)
            size = second & 127
            if size > 125:
                form, width = (">H", 2) if size == 126 else (">Q", 8)
                (size,) = struct.unpack(form, await self._reader.readexactly(width))
            payload = await self._reader.readexactly(size)
            if first & 15 == 1:  # a text, and no ping
                return payload

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def build_frame(kind: str, **data: Any) -> bytes:
    """Build the frame of a message, with a mask of zeros."""
    payload = json.dumps({"type": kind, "data": data}).encode()
    size = len(payload)
    head = bytes([0x81, 0x80 | size]) if size < 126 else struct.pack(">BBH", 0x81, 0xFE, size)
    return head + bytes(4) + payload


def build_episode_frames(episodes: Sequence[Episode]) -> list[list[bytes]]:
    """Build the frames of each episode: the reset, and its commands."""
    return [
        [
            build_frame("reset", index=index),
            *(build_frame("step", command=step.said.text) for step in episode.steps),
        ]
        for index, episode in enumerate(episodes)
    ]


async def play_socket_episode(client: SocketClient, frames: Sequence[bytes]) -> list[bytes]:
    """Play one episode and return the replies."""
    return [await client.exchange(frame) for frame in frames]


async def play_sockets(
    port: int, frames: Sequence[Sequence[bytes]], rounds: int, keep: bool
) -> dict[int, list[bytes]]:
    """Play all episodes some rounds in many sessions; return the replies where they are kept."""
    waiting = iter(list(range(len(frames))) * rounds)
    replies: dict[int, list[bytes]] = {}

    async def play_session() -> None:
        client = await SocketClient.connect(port)
        for index in waiting:
            got = await play_socket_episode(client, frames[index])
            if keep:
                replies[index] = got
        client.close()

    await asyncio.gather(*(play_session() for _ in range(SESSIONS)))
    return replies


def parse_replies(replies: Sequence[bytes]) -> Played:
    """Return what the replies to one episode's messages say."""
    said = [json.loads(reply)["data"] for reply in replies]
    return Played([each["observation"]["prompt"] for each in said[:-1]], said[-1]["reward"])


def play_openenv(port: int, episodes: Sequence[Episode]) -> list[Played]:
    """Play the episodes through openenv's client, in its own environment; none where it is not
    installed."""
    if not ENGINES.exists():
        return []
    wanted = [
        {"split": "", "index": index, "commands": [step.said.text for step in episode.steps]}
        for index, episode in enumerate(episodes)
    ]
    script = ROOT / "tests" / "helpers" / "engine_clients.py"
    made = subprocess.run(
        [ENGINES, script, "openenv", f"http://127.0.0.1:{port}"],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        check=True,
    )
    return [Played(**each) for each in json.loads(made.stdout.splitlines()[-1])]


def compare_episodes(name: str, seen: Sequence[Played], own: Sequence[Played]) -> dict[str, float]:
    """Count the episodes, and the prompts and rewards that differ from our own."""
    pairs = list(zip(seen, own, strict=True)) if seen else []
    differing = sum(
        one != other
        for got, wanted in pairs
        for one, other in itertools.zip_longest(got.prompts, wanted.prompts)
    )
    rewards = sum(got.reward != wanted.reward for got, wanted in pairs)
    row = {"episodes": len(pairs), "prompts differing": differing, "rewards differing": rewards}
    print_table(list(row), {name: row})
    return dict(row)


@contextmanager
def serving(questions: Path, folder: Path) -> Iterator[tuple[int, list[int]]]:
    """Run `rookery serve env` in two processes; yield its port and the processes' ids."""
    surroundings = {
        "XDG_DATA_HOME": str(SCRATCH / "data"),
        "XDG_CACHE_HOME": str(SCRATCH / "cache"),
    }
    store = SCRATCH / "data" / "rookery" / "desk.sqlite"
    store.parent.mkdir(parents=True, exist_ok=True)
    initialize_store(str(store))  # one of an earlier version is brought up to date
    command = [sys.executable, "-m", "rookery", "serve", "env", str(questions)]
    command += ["--in", str(folder), "--port", "0", "--workers", str(WORKERS)]
    process = subprocess.Popen(
        command, env=os.environ | surroundings, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        said = next(found for line in process.stdout if (found := re.search(r":(\d+)\. ", line)))
        port = int(said[1])
        yield port, wait_for_workers(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def wait_for_workers(parent: int) -> list[int]:
    """Return the ids of the processes that serve, once all wait for connections.

    The port is open before they have loaded the questions, and the first would get every session.
    """
    end = time.monotonic() + LONGEST_START
    quiet = 0
    while time.monotonic() < end:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        found = [int(pid) for pid in children if b"spawn_main" in read_process(pid, "cmdline")]
        asleep = [read_process(pid, "stat").rpartition(b")")[2].split()[0] == b"S" for pid in found]
        quiet = quiet + 1 if len(found) == WORKERS and all(asleep) else max(quiet - 1, 0)
        if quiet == QUIET_CHECKS:
            return found
        time.sleep(0.1)
    raise TimeoutError("the workers of the server do not begin")


def read_process(pid: int | str, name: str) -> bytes:
    """Read a file of /proc about a process."""
    return Path(f"/proc/{pid}/{name}").read_bytes()


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    squad = Squad()
    library = squad.open_library()
    episodes = play_rollouts(squad, library)
    own = [
        Played(
            [step.prompt for step in episode.steps],
            reward_accepted_answer(episode.question, episode.answer) if episode.answer else 0.0,
        )
        for episode in episodes
    ]
    steps = sum(len(episode.steps) for episode in episodes)
    folder = SCRATCH / "environment"
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "train.jsonl"
    asked = [episode.question for episode in episodes]
    questions.write_text("".join(f"{each.to_json()}\n" for each in asked), encoding="utf-8")
    source = EpisodeSource({"train": asked}, library, reward_accepted_answer)
    compared = {
        "TRL's environment_factory": compare_episodes(
            "TRL", list(play_adapter(source, episodes)), own
        )
    }
    begun = time.process_time()
    for _ in play_adapter(source, episodes):
        pass
    alone = (time.process_time() - begun) / steps
    frames = build_episode_frames(episodes)
    with serving(questions, squad.folder) as (port, pids):
        kept = asyncio.run(play_sockets(port, frames, 1, keep=True))
        seen = [parse_replies(kept[index]) for index in range(len(episodes))]
        compared["WebSocket"] = compare_episodes("WebSocket", seen, own)
        if played := play_openenv(port, episodes):
            compared["openenv's client"] = compare_episodes("openenv", played, own)
        asyncio.run(play_sockets(port, frames, 1, keep=False))  # pages are read in each process
        spent, clock = sum(map(measure_cpu, pids)), time.perf_counter()
        asyncio.run(play_sockets(port, frames, ROUNDS, keep=False))
        spent, clock = sum(map(measure_cpu, pids)) - spent, time.perf_counter() - clock
    served = spent / (steps * ROUNDS)
    speeds = {
        "steps": steps,
        "served_on_two_cores": WORKERS / served,
        "seen_beside_the_clients": steps * ROUNDS / clock,
        "served_us": 1e6 * served,
        "in_process_us": 1e6 * alone,
    }
    print_table(list(speeds), {"steps": speeds})
    write_results(
        "environment",
        {
            "compared": compared,
            "speeds": speeds,
            "target_steps_per_second": STEPS_PER_SECOND,
            "sessions": SESSIONS,
            "right": sum(each.reward for each in own),
        },
    )


if __name__ == "__main__":
    main()
