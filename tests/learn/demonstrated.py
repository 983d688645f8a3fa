"""Demonstrations of the bundled little web, in windows small enough for a tiny model."""

import json
from collections.abc import Iterator
from pathlib import Path

from rookery.ask.load import bundled_questions
from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.browse.places import bundled
from rookery.browse.rules import Rules, Task
from rookery.draft.demonstrate import demonstrations, is_correct
from rookery.learn.tiny import write_tiny
from rookery.records import Episode, Question

ASKED = bundled_questions()
RULES = Rules(actions=12, window=150, results=2, overlap=0)


def demonstrated(place: Path, seeds: int = 1) -> Iterator[Episode]:
    """Correct episodes of the bundled web's questions."""
    rows = [json.loads(line) for line in ASKED.read_text(encoding="utf-8").splitlines()]
    tasks = [
        Task(Question(row["id"], row["text"], gold=tuple(row["gold"]), source=row["source"]), RULES)
        for row in rows
        if row["gold"]
    ]
    with Archive(place / "archive.sqlite") as archive, Folder(bundled(), archive, place) as folder:
        for seed in range(seeds):
            yield from filter(is_correct, demonstrations(tasks, folder, seed))


def write_episodes(path: Path, episodes: list[Episode]) -> Path:
    """A file of these episodes."""
    path.write_text("".join(episode.to_json() + "\n" for episode in episodes), encoding="utf-8")
    return path


def write_reader(folder: Path, episodes: list[Episode]) -> Path:
    """A tiny model whose tokens suit these episodes."""
    texts = [step.prompt + step.said.text for episode in episodes for step in episode.steps]
    write_tiny(folder, texts, vocabulary=900, context=2048)
    return folder
