"""A thousand scripted episodes over the bundled web, recorded, stored without prompts, replayed."""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from rookery.ask.load import bundled_questions
from rookery.browse.archive import Archive
from rookery.browse.browser import Views
from rookery.browse.folder import Folder
from rookery.browse.places import bundled
from rookery.browse.recording import Recording
from rookery.browse.rules import Rules, Task
from rookery.draft.demonstrate import demonstrations
from rookery.draft.rollout import replayed, without_prompts
from rookery.records import Episode, Question

EPISODES = 1000
ASKED = bundled_questions()


def tasks() -> Iterator[Task]:
    """The questions about the bundled web, again and again; each time in another way."""
    lines = map(json.loads, ASKED.read_text(encoding="utf-8").splitlines())
    known = [
        Question(line["id"], line["text"], (), tuple(line["gold"]), line["source"])
        for line in lines
        if line.get("source")
    ]
    return (Task(question, Rules(overlap=0)) for question in islice(cycle(known), EPISODES))


def test_a_replay_of_1000_scripted_episodes_is_byte_identical(tmp_path: Path) -> None:
    """All that a session saw is in the recording: neither the library nor the prompts are kept."""
    seen, stored = [], []
    with Recording(tmp_path / "recording.sqlite") as recording:
        with Archive(tmp_path / "archive.sqlite") as archive:
            library = Folder(bundled(), archive, tmp_path / "cache")
            for episode in demonstrations(tasks(), library, seed=7, recording=recording):
                seen.append(episode.to_json())
                stored.append(without_prompts(episode).to_json())
            library.close()
        assert len(seen) == EPISODES
        assert sum(map(len, stored)) < sum(map(len, seen)) / 5

    with Recording(tmp_path / "recording.sqlite") as recording:
        views = Views()
        again = [replayed(Episode.from_json(line), recording, views).to_json() for line in stored]
    assert again == seen
