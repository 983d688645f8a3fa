"""Settings of `rookery serve env`: questions, places, recordings, rewards, and what is refused."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from commands import CORVIDS, Run, started, surroundings
from env_serving import FOOD, GIFTS, RIGHT, TRAIN, ask, play, session

from rookery.browser.episode_source import SourceEpisode
from rookery.errors import Failed
from rookery.evidence.claim_support import make_evidence_reward
from rookery.evidence.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.library.call_recording import CallRecording, FrozenWeb
from rookery.server.environment import EnvSettings, open_environment
from rookery.settings import Settings

FURTHER = (*RIGHT[:-2], "Clicked on link 0", "Quote: Ravens cache", *RIGHT[-2:])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two pages that link to each other."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "gifts.html").write_bytes(GIFTS.replace(b"/r", b"ravens.html"))
    (tmp_path / "web" / "ravens.html").write_bytes(FOOD)
    return tmp_path / "web"


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return write_questions(tmp_path / "train.jsonl")


@pytest.fixture(autouse=True)
def own_places(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in surroundings(home).items():
        monkeypatch.setenv(name, value)


def write_questions(path: Path, gold: bool = True) -> str:
    asked = TRAIN if gold else [msgspec.structs.replace(each, gold=()) for each in TRAIN]
    path.write_text("".join(f"{each.to_json()}\n" for each in asked))
    return str(path)


def play_alone(how: EnvSettings, commands: Sequence[str]) -> tuple[SourceEpisode, float]:
    """The first task of an environment, played to its end, and the reward."""
    opened = open_environment(how)
    try:
        episode = opened.source.begin_episode(opened.source.select_task(index=0))
        for command in commands:
            episode.browser.answer_from(episode.library, episode.browser.accept_text(command))
        assert episode.browser.result is not None
        return episode, opened.source.compute_reward(episode.browser.result)
    finally:
        opened.close()


def list_prompts(episode: SourceEpisode) -> list[str]:
    return [step.prompt for step in episode.browser.steps]


def test_a_recording_is_a_web_that_stays(folder: Path, questions: str, tmp_path: Path) -> None:
    live = EnvSettings((questions,), Settings((str(folder),)), record=str(tmp_path / "recording"))
    episode, reward = play_alone(live, FURTHER)
    assert reward == 1.0
    shutil.rmtree(folder)
    frozen = EnvSettings((questions,), frozen=str(tmp_path / "recording"))
    again, reward_again = play_alone(frozen, FURTHER)
    assert list_prompts(again) == list_prompts(episode)
    assert reward_again == 1.0
    other = ("Search ravens", "Clicked on link 0", "Quote: cache their food", "End: Answer", "[1]")
    searched, _ = play_alone(frozen, other)
    assert "Ravens cache their food." in list_prompts(searched)[2]
    assert len(searched.browser.browsed.quotes) == 1


def test_what_no_session_opened_is_not_recorded(
    folder: Path, questions: str, tmp_path: Path
) -> None:
    record = tmp_path / "recording"
    play_alone(EnvSettings((questions,), Settings((str(folder),)), record=str(record)), RIGHT)
    with CallRecording(record) as recording:
        sessions = recording.list_sessions()
    assert [name.rpartition("/")[0] for name in sessions] == ["env/train/0"]
    web = FrozenWeb(record)
    try:
        digest = web.contents_digest()
        with pytest.raises(Failed) as failed:
            web.fetch((folder / "ravens.html").as_uri())
        assert failed.value.failure.outcome == "not_recorded"
    finally:
        web.close()
    with CallRecording(record) as recording:
        assert recording.list_sessions() == sessions
    play_alone(EnvSettings((questions,), Settings((str(folder),)), record=str(record)), FURTHER)
    web = FrozenWeb(record)
    assert web.contents_digest() != digest
    web.close()


@pytest.mark.slow
def test_the_evidence_model_judges_the_answer(folder: Path, questions: str) -> None:
    how = EnvSettings((questions,), Settings((str(folder),)), reward="evidence")
    episode, reward = play_alone(how, RIGHT)
    answer = episode.browser.result and episode.browser.result.answer
    assert answer
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    assert reward == pytest.approx(make_evidence_reward(judge)(TRAIN[0], answer), rel=1e-6)
    assert 0 < reward < 1
    assert play_alone(how, (*RIGHT[:-1], "Crows bring gifts."))[1] == 0.0


@pytest.mark.slow
def test_without_a_file_there_are_the_bundled_questions(home: Path) -> None:
    opened = open_environment(EnvSettings())
    try:
        assert {name: len(tasks) for name, tasks in opened.source.splits.items()} == {"corvids": 25}
        assert opened.left_out == 5
        assert opened.about.contents
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], r"nowhere\.jsonl"),
        (["plain.jsonl"], r"no question has an accepted answer \(gold\).*--reward evidence"),
        (["empty.jsonl"], r"the split 'empty' has no questions"),
        (["train.jsonl", "again/train.jsonl"], r"two files are named train"),
        (["train.jsonl", "--reward", "best"], r"best: there is no .*: name accepted, evidence"),
        (["train.jsonl", "--reward", "evidence", "--ranker", "words"], r"needs an evidence model"),
        (["train.jsonl", "--frozen", "web"], r"web: it is a folder and no recording: .*--in"),
        (["train.jsonl", "--frozen", "nowhere"], r"nowhere: there is no such file"),
        (["train.jsonl", "--frozen", "train.jsonl"], r"train\.jsonl: it is no recording"),
        (["train.jsonl", "--frozen", "bare"], r"bare: it has no pages"),
        (["train.jsonl", "--frozen", "bare", "--in", "web"], r"leave one of them out"),
        (["train.jsonl", "--in", "no-such-place"], r"no-such-place"),
        (["train.jsonl", "--in", "web", "--record", "train.jsonl"], r"train\.jsonl"),
        (["train.jsonl", "--in", "web", "--actions", "0"], r"--actions"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_sentence(
    folder: Path,
    questions: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(folder.parent)
    write_questions(Path("plain.jsonl"), gold=False)
    Path("empty.jsonl").touch()
    Path("again").mkdir()
    write_questions(Path("again/train.jsonl"))
    CallRecording(Path("bare")).close()
    told = run("serve", "env", *arguments)
    assert (told.code, told.out) == (4 if "--record" in arguments else 2, "")
    assert re.search(sentence, told.err), told.err
    assert "Traceback" not in told.err


@contextmanager
def serving_process(home: Path, *arguments: str) -> Iterator[str]:
    """The address of a `rookery serve env` of its own."""
    process = started(home, "serve", "env", "--port", "0", *arguments)
    try:
        assert process.stdout
        output = ""
        while not (match := re.search(r"is open: (\S+)\. Ctrl-C", output)):
            line = process.stdout.readline().decode()
            assert line, process.communicate()[1].decode()
            output += line
        yield match[1]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert b"Traceback" not in err, err.decode()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_serves_until_it_is_stopped(
    home: Path, questions: str, folder: Path, workers: str
) -> None:
    expected, _ = play_alone(EnvSettings((questions,), Settings((str(folder),))), RIGHT)

    def play_task(address: str) -> bool:
        with session(address) as socket:
            prompts, reply = play(socket, RIGHT, index=0)
        return (prompts, reply["reward"]) == (list_prompts(expected), 1.0)

    arguments = (questions, "--in", str(folder), "--workers", workers)
    with serving_process(home, *arguments) as address, ThreadPoolExecutor(4) as pool:
        assert all(pool.map(play_task, [address] * 12))


@pytest.mark.slow
def test_a_message_of_many_megabytes_ends_the_session_alone(home: Path) -> None:
    with serving_process(home, *CORVIDS) as address, session(address) as socket:
        said = ask(socket, "step", command="x" * 2_000_000)
        assert said["message"].startswith("a message has at most 1,000,000 characters")
        assert not ask(socket, "reset")["done"]
