"""A thousand scripted episodes over the bundled web, recorded, stored without prompts, replayed."""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from recorded_calls import strip_prompts

from recipes.oracle_policies import generate_demonstrations
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.page_view import PageViewCache
from rookery.browser.rollout import replay_episode
from rookery.library.call_recording import CallRecording
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import bundled_questions
from rookery.records import Episode, Question

EPISODES = 1000
ASKED = bundled_questions()


def tasks() -> Iterator[BrowserTask]:
    """The questions about the bundled web, again and again; each time in another way."""
    lines = map(json.loads, ASKED.read_text(encoding="utf-8").splitlines())
    questions = [
        Question(line["id"], line["text"], (), tuple(line["gold"]), line["source"])
        for line in lines
        if line.get("source")
    ]
    return (
        BrowserTask(question, BrowserRules(overlap=0))
        for question in islice(cycle(questions), EPISODES)
    )


@pytest.mark.slow
def test_a_replay_of_1000_scripted_episodes_is_byte_identical(tmp_path: Path) -> None:
    """All that a session saw is in the recording: neither the library nor the prompts are kept."""
    seen, stored = [], []
    with CallRecording(tmp_path / "recording.sqlite") as recording:
        with PageArchive(tmp_path / "archive.sqlite") as archive:
            library = FolderLibrary(get_bundled_folder(), archive, tmp_path / "cache")
            for episode in generate_demonstrations(tasks(), library, seed=7, recording=recording):
                seen.append(episode.to_json())
                stored.append(strip_prompts(episode).to_json())
            library.close()
        assert len(seen) == EPISODES
        assert sum(map(len, stored)) < sum(map(len, seen)) / 5

    with CallRecording(tmp_path / "recording.sqlite") as recording:
        views = PageViewCache()
        again = [
            replay_episode(Episode.from_json(line), recording, views).to_json() for line in stored
        ]
    assert again == seen
