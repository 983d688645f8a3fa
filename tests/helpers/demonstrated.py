"""Demonstrations of the bundled little web, in windows small enough for a tiny model."""

import json
from collections.abc import Iterator
from pathlib import Path

from recipes.oracle_policies import generate_demonstrations, is_correct_demonstration
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.learn.random_models import write_tiny_model
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import bundled_questions
from rookery.records import Episode, Question

ASKED = bundled_questions()
RULES = BrowserRules(actions=12, window=150, results=2, overlap=0)


def demonstrated(place: Path, seeds: int = 1) -> Iterator[Episode]:
    """Correct episodes of the bundled web's questions."""
    rows = [json.loads(line) for line in ASKED.read_text(encoding="utf-8").splitlines()]
    tasks = [
        BrowserTask(
            Question(row["id"], row["text"], gold=tuple(row["gold"]), source=row["source"]), RULES
        )
        for row in rows
        if row["gold"]
    ]
    with (
        PageArchive(place / "archive.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, place) as folder,
    ):
        for seed in range(seeds):
            yield from filter(
                is_correct_demonstration, generate_demonstrations(tasks, folder, seed)
            )


def write_episodes(path: Path, episodes: list[Episode]) -> Path:
    """A file of these episodes."""
    path.write_text("".join(episode.to_json() + "\n" for episode in episodes), encoding="utf-8")
    return path


def write_reader(folder: Path, episodes: list[Episode]) -> Path:
    """A tiny model whose tokens suit these episodes."""
    texts = [step.prompt + step.said.text for episode in episodes for step in episode.steps]
    write_tiny_model(folder, texts, vocabulary=900, context=2048)
    return folder
