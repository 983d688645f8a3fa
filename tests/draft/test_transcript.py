"""What policies said, said again byte for byte without them."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import DONE, Asking, chat, cut, event, refused, said, serving, streamed

from rookery.browse.observation import Observation
from rookery.browse.recording import Recording
from rookery.browse.shelf import Shelf
from rookery.draft.endpoint import Endpoint
from rookery.draft.remote import Allow, Model, Remote, RemoteLimits, together
from rookery.draft.rollout import Turn
from rookery.draft.transcript import Transcript
from rookery.records import Completion, Failed, Failure, Page

KEY = "sk-very-secret-0123456789"
ONCE = RemoteLimits(tries=1)


class Numbering:
    """A policy that never says the same twice."""

    def __init__(self, name: str = "numbering") -> None:
        self.name = name
        self._numbers = count()

    def complete(
        self, prompt: str, n: int = 1, allow: object = None, **given: Any
    ) -> list[Completion]:
        """A number for each, with the prompt and what else was given."""
        if prompt == "fail":
            raise Failed(
                Failure(self.name, "model_failed", f"for the {next(self._numbers)}th time")
            )
        return [Completion(f"{next(self._numbers)} {prompt} {given}") for _ in range(n)]


def all_said(model: Model, calls: Sequence[tuple[str, int, int | None, str]]) -> list[object]:
    """What came of these calls."""
    results: list[object] = []
    for prompt, n, seed, grammar in calls:
        try:
            results.append(model.complete(prompt, n, seed=seed, grammar=grammar))
        except Failed as failed:
            results.append(failed.failure)
    return results


CALL = st.tuples(
    st.sampled_from(["a", "b", "fail", "", "\ud800", "é\0"]),
    st.integers(1, 3),
    st.sampled_from([None, 0, 1, 2**62]),
    st.sampled_from(["", "start: A"]),
)


@given(st.lists(CALL, max_size=12))
@settings(max_examples=40, deadline=None)
def test_the_nth_time_something_is_asked_it_is_answered_as_the_nth_time(
    calls: list[tuple[str, int, int | None, str]],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "said.sqlite"
        with Transcript(path) as transcript:
            transcript.begin("one")
            first = all_said(transcript.record(Numbering(), "one"), calls)
        with Transcript(path) as transcript:
            listed = transcript.said("one")
            assert [(each.prompt, each.n, each.seed, each.grammar) for each in listed] == calls
            assert [each.failure or list(each.completions) for each in listed] == first
            if not calls:
                return
            assert all_said(transcript.replay("one"), calls) == first
            # Each question has its own order, whatever is asked in between.
            order = sorted(range(len(calls)), key=lambda at: str(calls[at]))
            again = all_said(transcript.replay("one"), [calls[at] for at in order])
            assert again == [first[at] for at in order]


def test_a_remote_model_is_replayed_byte_for_byte_and_the_key_is_not_in_the_file(
    tmp_path: Path,
) -> None:
    def answer(asking: Asking) -> bytes:
        if asking.fields["messages"][0]["content"] == "fail":
            return refused("401 Unauthorized", f"{KEY} is wrong")
        choice = chat(f"é\U0001f426 {len(asking.server.asked)}")
        scores = {"content": [{"logprob": -0.1}, {"logprob": -1e-300}]}
        return said(*({**choice, "logprobs": scores} for _ in range(asking.fields.get("n", 1))))

    path = tmp_path / "said.sqlite"
    with serving(answer) as server, Transcript(path) as transcript:
        transcript.begin("one")
        endpoint = Endpoint("crow-1", server.base_url, logprobs=True)
        with Remote(endpoint, KEY, ONCE) as model:
            recorded = transcript.record(model, "one")
            first = [recorded.complete("Why?", 2), recorded.complete("Why?", 2)]
            with pytest.raises(Failed) as failed:
                recorded.complete("fail")
    with Transcript(path) as transcript:
        replayed = transcript.replay("one")
        assert replayed.name == "crow-1"
        again = [replayed.complete("Why?", 2), replayed.complete("Why?", 2)]
        assert [each.to_json() for both in again for each in both] == [
            each.to_json() for both in first for each in both
        ]
        with pytest.raises(Failed) as failed_again:
            replayed.complete("fail")
        assert failed_again.value.failure == failed.value.failure
        with pytest.raises(Failed, match="not_recorded: this was asked 2 times"):
            replayed.complete("Why?", 2)
        with pytest.raises(Failed, match="not_recorded: this was asked 0 times"):
            replayed.complete("Why?")
        whole = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert KEY.encode() not in whole
        assert KEY not in str(transcript.said("one"))


def listened(stream: Generator[str, None, Completion]) -> tuple[str, Completion]:
    whole: list[Completion] = []

    def listen() -> Generator[str, None, None]:
        whole.append((yield from stream))

    return "".join(listen()), whole[0]


def test_streams_are_replayed_and_so_are_their_failures(tmp_path: Path) -> None:
    def heard(model: Model) -> None:
        assert listened(model.stream("Why?")) == ("Because", Completion("Because"))
        with pytest.raises(Failed, match="model_broke_off"):
            listened(model.stream("Why?"))
        assert model.complete("Why?") == [Completion("Because.")]

    good, bad = streamed(event("Be"), event("cause", "stop"), DONE), cut(event("Be"))
    with Transcript(tmp_path / "said.sqlite") as transcript:
        transcript.begin("one")
        with (
            serving(good, bad, said(chat("Because."))) as server,
            Remote(Endpoint("crow-1", server.base_url), limits=ONCE) as model,
        ):
            heard(transcript.record(model, "one"))
        heard(transcript.replay("one"))


def test_a_stream_that_is_closed_before_its_end_is_not_written_down(tmp_path: Path) -> None:
    with (
        serving(streamed(event("Be"), event("cause", "stop"), DONE)) as server,
        Remote(Endpoint("crow-1", server.base_url), limits=ONCE) as model,
        Transcript(tmp_path / "said.sqlite") as transcript,
    ):
        transcript.begin("one")
        stream = transcript.record(model, "one").stream("Why?")
        assert next(stream) == "Be"
        stream.close()
        assert transcript.said("one") == []


def test_turns_that_were_said_at_once_are_replayed_in_any_batches(tmp_path: Path) -> None:
    """Many sessions begin with the same prompt; their seeds tell them apart."""
    shown = Observation("the same", "?", (), (), "", (0, 0), "", 9)
    turns = [Turn(number, 0, 2**62 + number, shown) for number in range(40)]
    with Transcript(tmp_path / "said.sqlite") as transcript:
        transcript.begin("one")
        model = transcript.record(Numbering(), "one")
        first = together(model, at_once=8)(turns)
        assert len({each.text for each in first}) == len(turns)
        again = together(transcript.replay("one"), at_once=3)
        backwards = [again([turn])[0] for turn in reversed(turns)]
        assert backwards == first[::-1]


def test_a_session_begins_anew_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with Transcript(tmp_path / "said.sqlite") as transcript:
        for session in ("two", "one", "one"):
            transcript.begin(session)
            transcript.record(Numbering(), session).complete(f"{session}?")
        assert transcript.sessions() == ["two", "one"]
        assert [each.prompt for each in transcript.said("one")] == ["one?"]
        assert [each.prompt for each in transcript.said("two")] == ["two?"]


def test_a_session_takes_the_name_and_the_place_of_another(tmp_path: Path) -> None:
    with Transcript(tmp_path / "said.sqlite") as transcript:
        for session, name in (("old", "first"), ("new", "second")):
            transcript.begin(session)
            transcript.record(Numbering(name), session).complete("Why?")
        transcript.rename("new", "old")
        assert transcript.sessions() == ["old"]
        assert [said.by for said in transcript.said("old")] == ["second"]


def test_several_policies_of_a_session_are_told_apart_by_their_names(tmp_path: Path) -> None:
    with Transcript(tmp_path / "said.sqlite") as transcript:
        transcript.begin("one")
        for name in ("write", "judge"):
            transcript.record(Numbering(name), "one").complete("Why?", seed=len(name))
        assert transcript.replay("one", "judge").complete("Why?", seed=5)
        with pytest.raises(Failed, match=r"name one of the policies .*: judge, write"):
            transcript.replay("one")
        with pytest.raises(Failed, match="not_recorded"):
            transcript.replay("one", "browse").complete("Why?")


class Plain:
    """A policy that knows nothing of seeds and grammars."""

    name = "plain"

    def complete(self, prompt: str, n: int = 1, allow: Allow = None) -> list[Completion]:
        """The prompt, and what is allowed to follow."""
        return [Completion(f"{prompt} {list(allow([])) if allow else ''}")] * n


def test_any_policy_can_be_recorded(tmp_path: Path) -> None:
    with Transcript(tmp_path / "said.sqlite") as transcript:
        transcript.begin("one")
        with pytest.raises(Failed, match="record it again"):
            transcript.replay("one")
        recorded = transcript.record(Plain(), "one")
        assert recorded.complete("Why?", 2, lambda _: [7]) == [Completion("Why? [7]")] * 2
        assert transcript.replay("one").complete("Why?", 2) == [Completion("Why? [7]")] * 2


def test_a_session_that_was_not_begun_is_a_failure(tmp_path: Path) -> None:
    with Transcript(tmp_path / "said.sqlite") as transcript:
        for use in (
            transcript.said,
            transcript.replay,
            lambda session: transcript.record(Numbering(), session),
        ):
            with pytest.raises(Failed, match="one: not_recorded"):
                use("one")


def test_it_shares_the_file_of_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "both.sqlite"
    page = Page("https://a.org/", "A", "Crows.")
    with Recording(path) as recording, Transcript(path) as transcript:
        recording.begin("one", b"about")
        transcript.begin("one")
        said_first = transcript.record(Numbering(), "one").complete("Why?")
        recording.record(Shelf([page]), "one").fetch("https://a.org/")
    with Recording(path) as recording, Transcript(path) as transcript:
        assert recording.replay("one").fetch("https://a.org/").text == "Crows."
        assert transcript.replay("one").complete("Why?") == said_first
        recording.begin("one", b"again")
        assert len(transcript.said("one")) == 1


def test_an_answer_that_is_damaged_in_the_file_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "said.sqlite"
    with Transcript(path) as transcript:
        transcript.begin("one")
        transcript.record(Numbering(), "one").complete("Why?")
    with closing(sqlite3.connect(path)) as file:
        file.execute("update said set answer = x'0102'")
        file.commit()
    with Transcript(path) as transcript:
        with pytest.raises(Failed, match="unreadable_archive"):
            transcript.replay("one").complete("Why?")
        with pytest.raises(Failed, match="unreadable_archive"):
            transcript.said("one")
