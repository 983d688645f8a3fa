"""What policies said, said again byte for byte without them."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import DONE, Asking, chat, cut, event, refused, serving, streamed, write_choices
from recorded_calls import list_calls

from rookery.errors import Failed
from rookery.library.call_recording import (
    POLICY_CALLS,
    CallRecording,
    RecordingLibrary,
    ReplayLibrary,
)
from rookery.library.page_archive import pack_records
from rookery.library.search_index import InMemoryLibrary
from rookery.models.openai_protocol import ModelEndpoint
from rookery.models.recorded_policies import RecordingPolicy, ReplayPolicy
from rookery.models.remote_model import AllowedTokens, LanguageModel, RemoteLimits, RemoteModel
from rookery.records import Completion, Failure, Hit, Page, digest_of

KEY = "sk-very-secret-0123456789"
ONCE = RemoteLimits(tries=1)


class Numbering:
    """A policy that never says the same twice."""

    def __init__(self, name: str = "numbering") -> None:
        self.name = name
        self._numbers = count()

    def complete(
        self, prompt: str, n: int = 1, allow: object = None, **options: Any
    ) -> list[Completion]:
        """A number for each, with the prompt and what else was given."""
        if prompt == "fail":
            raise Failed(
                Failure(self.name, "model_failed", f"for the {next(self._numbers)}th time")
            )
        return [Completion(f"{next(self._numbers)} {prompt} {options}") for _ in range(n)]


def all_said(
    model: LanguageModel, calls: Sequence[tuple[str, int, int | None, str]]
) -> list[object]:
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
def test_the_nth_time_something_is_asked_it_is_answered_as_the_nth_time(
    calls: list[tuple[str, int, int | None, str]],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "said.sqlite"
        with CallRecording(path, POLICY_CALLS) as transcript:
            transcript.begin_session("one")
            first = all_said(RecordingPolicy(transcript, Numbering(), "one"), calls)
        with CallRecording(path, POLICY_CALLS) as transcript:
            listed = list_calls(transcript, "one")
            assert [each.arguments[1:] for each in listed] == calls
            assert [
                each.answer.failure or list(each.answer.completions) for each in listed
            ] == first
            if not calls:
                return
            assert all_said(ReplayPolicy(transcript, "one"), calls) == first
            # Each question has its own order, whatever is asked in between.
            order = sorted(range(len(calls)), key=lambda at: str(calls[at]))
            again = all_said(ReplayPolicy(transcript, "one"), [calls[at] for at in order])
            assert again == [first[at] for at in order]


def test_a_remote_model_is_replayed_byte_for_byte_and_the_key_is_not_in_the_file(
    tmp_path: Path,
) -> None:
    def answer(asking: Asking) -> bytes:
        if asking.fields["messages"][0]["content"] == "fail":
            return refused("401 Unauthorized", f"{KEY} is wrong")
        choice = chat(f"é\U0001f426 {len(asking.server.asked)}")
        scores = {"content": [{"logprob": -0.1}, {"logprob": -1e-300}]}
        return write_choices(
            *({**choice, "logprobs": scores} for _ in range(asking.fields.get("n", 1)))
        )

    path = tmp_path / "said.sqlite"
    with serving(answer) as server, CallRecording(path, POLICY_CALLS) as transcript:
        transcript.begin_session("one")
        endpoint = ModelEndpoint("crow-1", server.base_url, logprobs=True)
        with RemoteModel(endpoint, KEY, ONCE) as model:
            recorded = RecordingPolicy(transcript, model, "one")
            first = [recorded.complete("Why?", 2), recorded.complete("Why?", 2)]
            with pytest.raises(Failed) as failed:
                recorded.complete("fail")
    with CallRecording(path, POLICY_CALLS) as transcript:
        replayed = ReplayPolicy(transcript, "one")
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
        assert KEY not in str(list_calls(transcript, "one"))


def listened(stream: Generator[str, None, Completion]) -> tuple[str, Completion]:
    whole: list[Completion] = []

    def listen() -> Generator[str, None, None]:
        whole.append((yield from stream))

    return "".join(listen()), whole[0]


def test_streams_are_replayed_and_so_are_their_failures(tmp_path: Path) -> None:
    def heard(model: LanguageModel) -> None:
        assert listened(model.stream("Why?")) == ("Because", Completion("Because"))
        with pytest.raises(Failed, match="model_broke_off"):
            listened(model.stream("Why?"))
        assert model.complete("Why?") == [Completion("Because.")]

    good, bad = streamed(event("Be"), event("cause", "stop"), DONE), cut(event("Be"))
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        transcript.begin_session("one")
        with (
            serving(good, bad, write_choices(chat("Because."))) as server,
            RemoteModel(ModelEndpoint("crow-1", server.base_url), limits=ONCE) as model,
        ):
            heard(RecordingPolicy(transcript, model, "one"))
        heard(ReplayPolicy(transcript, "one"))


def test_a_stream_that_is_closed_before_its_end_is_not_written_down(tmp_path: Path) -> None:
    with (
        serving(streamed(event("Be"), event("cause", "stop"), DONE)) as server,
        RemoteModel(ModelEndpoint("crow-1", server.base_url), limits=ONCE) as model,
        CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript,
    ):
        transcript.begin_session("one")
        stream = RecordingPolicy(transcript, model, "one").stream("Why?")
        assert next(stream) == "Be"
        stream.close()
        assert list_calls(transcript, "one") == []


def test_a_session_begins_anew_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        for session in ("two", "one", "one"):
            transcript.begin_session(session)
            RecordingPolicy(transcript, Numbering(), session).complete(f"{session}?")
        assert transcript.list_sessions() == ["two", "one"]
        assert [each.arguments[1] for each in list_calls(transcript, "one")] == ["one?"]
        assert [each.arguments[1] for each in list_calls(transcript, "two")] == ["two?"]


def test_a_session_takes_the_name_and_the_place_of_another(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        for session, name in (("old", "first"), ("new", "second")):
            transcript.begin_session(session)
            RecordingPolicy(transcript, Numbering(name), session).complete("Why?")
        transcript.rename_session("new", "old")
        assert transcript.list_sessions() == ["old"]
        assert [said.arguments[0] for said in list_calls(transcript, "old")] == ["second"]


def test_several_policies_of_a_session_are_told_apart_by_their_names(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        transcript.begin_session("one")
        for name in ("write", "judge"):
            RecordingPolicy(transcript, Numbering(name), "one").complete("Why?", seed=len(name))
        assert ReplayPolicy(transcript, "one", "judge").complete("Why?", seed=5)
        with pytest.raises(Failed, match=r"name one of the policies .*: judge, write"):
            ReplayPolicy(transcript, "one")
        with pytest.raises(Failed, match="not_recorded"):
            ReplayPolicy(transcript, "one", "browse").complete("Why?")


class Plain:
    """A policy that knows nothing of seeds and grammars."""

    name = "plain"

    def complete(self, prompt: str, n: int = 1, allow: AllowedTokens = None) -> list[Completion]:
        """The prompt, and what is allowed to follow."""
        return [Completion(f"{prompt} {list(allow([])) if allow else ''}")] * n


def test_any_policy_can_be_recorded(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        transcript.begin_session("one")
        with pytest.raises(Failed, match="record it again"):
            ReplayPolicy(transcript, "one")
        recorded = RecordingPolicy(transcript, Plain(), "one")
        assert recorded.complete("Why?", 2, lambda _: [7]) == [Completion("Why? [7]")] * 2
        assert ReplayPolicy(transcript, "one").complete("Why?", 2) == [Completion("Why? [7]")] * 2


def test_a_session_that_was_not_begun_is_a_failure(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "said.sqlite", POLICY_CALLS) as transcript:
        for use in (
            lambda session: list_calls(transcript, session),
            lambda session: ReplayPolicy(transcript, session),
            lambda session: RecordingPolicy(transcript, Numbering(), session),
        ):
            with pytest.raises(Failed, match="one: not_recorded"):
                use("one")


def test_it_shares_the_file_of_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "both.sqlite"
    page = Page("https://a.org/", "A", "Crows.")
    with CallRecording(path) as recording, CallRecording(path, POLICY_CALLS) as transcript:
        recording.begin_session("one", b"about")
        transcript.begin_session("one")
        said_first = RecordingPolicy(transcript, Numbering(), "one").complete("Why?")
        RecordingLibrary(recording, InMemoryLibrary([page]), "one").fetch("https://a.org/")
    with CallRecording(path) as recording, CallRecording(path, POLICY_CALLS) as transcript:
        assert ReplayLibrary(recording, "one").fetch("https://a.org/").text == "Crows."
        assert ReplayPolicy(transcript, "one").complete("Why?") == said_first
        recording.begin_session("one", b"again")
        assert len(list_calls(transcript, "one")) == 1


def test_an_answer_that_is_damaged_in_the_file_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "said.sqlite"
    with CallRecording(path, POLICY_CALLS) as transcript:
        transcript.begin_session("one")
        RecordingPolicy(transcript, Numbering(), "one").complete("Why?")
    with closing(sqlite3.connect(path)) as file:
        file.execute("update said set answer = x'0102'")
        file.commit()
    with CallRecording(path, POLICY_CALLS) as transcript:
        with pytest.raises(Failed, match="unreadable_archive"):
            ReplayPolicy(transcript, "one").complete("Why?")
        with pytest.raises(Failed, match="unreadable_archive"):
            list_calls(transcript, "one")


def test_the_file_has_the_tables_of_earlier_versions(tmp_path: Path) -> None:
    """A file that version 0.1 wrote is replayed, and what is added to it reads the same."""
    path = tmp_path / "both.sqlite"
    found = [Hit("https://a.org/", "A")]
    prompt, grammar = digest_of("Why?"), digest_of("")
    with (
        CallRecording(path),
        CallRecording(path, POLICY_CALLS),
        closing(sqlite3.connect(path)) as file,
    ):
        file.execute("insert into sessions values (7, 'one', x'7b7d')")
        row = ("search", "crows", 3, "", "2024-01-01T00:00:00.000+00:00", 0.5)
        file.execute(
            "insert into calls values (null, 7, ?, ?, ?, ?, ?, ?, ?)",
            (*row, pack_records({"hits": found})),
        )
        file.execute("insert into transcripts values (9, 'one')")
        for text, digest in (("Why?", prompt), ("", grammar)):
            file.execute("insert into asked values (?, ?)", (digest, pack_records(text)))
        file.execute(
            "insert into said values (null, 9, 'crow-1', ?, 1, 5, ?, '2024', 0.5, ?)",
            (prompt, grammar, pack_records({"completions": [Completion("Because.")]})),
        )
        file.commit()
    with CallRecording(path) as recording, CallRecording(path, POLICY_CALLS) as transcript:
        library, model = ReplayLibrary(recording, "one"), ReplayPolicy(transcript, "one")
        assert library.search("crows", 3) == found
        assert model.complete("Why?", seed=5) == [Completion("Because.")]
        RecordingLibrary(recording, library, "one").search("crows", 3)
        again = ReplayPolicy(transcript, "one")
        RecordingPolicy(transcript, again, "one").complete("Why?", seed=5)
    with closing(sqlite3.connect(path)) as file:
        for columns in (
            "session, kind, what, k, outcome, answer from calls",
            'transcript, "by", prompt, n, seed, grammar, answer from said',
        ):
            first, second = file.execute(f"select {columns} order by number")
            assert first == second
