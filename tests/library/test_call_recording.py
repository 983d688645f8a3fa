"""The recording: exact answers without a library, threads, kills, full disks, damaged files."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_calls import list_calls
from stores import Server, postgres

from rookery.errors import Failed
from rookery.library.call_recording import (
    POLICY_CALLS,
    CallRecording,
    CallReplay,
    RecordedAnswer,
    RecordingLibrary,
    ReplayLibrary,
)
from rookery.library.page_archive import PageArchive
from rookery.records import Block, Completion, Failure, Hit, Library, Link, Mark, Page

__all__ = ["postgres"]
Given = list[Hit] | Page | Failure
URL = "https://e.org/a"


class Script(Library):
    """A library that gives these answers, one a call, whatever it is asked."""

    def __init__(self, answers: Sequence[Given | BaseException]) -> None:
        self.answers = list(answers)

    def search(self, query: str, k: int) -> list[Hit]:
        hits = self._next()
        assert isinstance(hits, list)
        return hits

    def fetch(self, url: str) -> Page:
        page = self._next()
        assert isinstance(page, Page)
        return page

    def _next(self) -> Given:
        answer = self.answers.pop(0)
        if isinstance(answer, Failure):
            raise Failed(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def asked(library: Library, kind: str, what: str, k: int) -> Given:
    try:
        return list(library.search(what, k)) if kind == "search" else library.fetch(what)
    except Failed as failed:
        return failed.failure


def page(text: str, fetched: str = "2024-01-01T00:00:00Z", url: str = URL) -> Page:
    return Page(url, "A", text, (Block(0, len(text), "paragraph"),), fetched=fetched)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[CallRecording]:
    with CallRecording(tmp_path / "deep" / "r.sqlite") as recording:
        yield recording


# Any string at all, among them what is no Unicode and what ends a string in C.
words = st.text(st.characters(), max_size=4) | st.sampled_from(["\x00", "a\x00b", "\ud83d\ude00"])
spots = st.tuples(st.integers(0, 9), st.integers(0, 9))
pages = st.builds(
    Page,
    st.sampled_from([URL, "https://e.org/b"]) | words,
    words,
    st.sampled_from(["one text", "another"]) | words,
    st.lists(spots.map(lambda spot: Block(*spot, "item", 2, False, True)), max_size=2).map(tuple),
    st.lists(st.builds(Link, st.just(0), st.just(1), words), max_size=2).map(tuple),
    st.lists(st.builds(Mark, st.just(0), st.just(1), words, words), max_size=2).map(tuple),
    fetched=words,
)
hits = st.lists(
    st.builds(Hit, words, words, words, words, score=st.floats(allow_nan=False)), max_size=3
)
failures = st.builds(Failure, words, words, words)
names = st.sampled_from(["s", "t"]) | words
whats = st.sampled_from(["crow", "rook"]) | words
calls = st.tuples(names, st.just("search"), whats, st.integers(1, 2), hits | failures) | st.tuples(
    names, st.just("fetch"), whats, st.just(0), pages | failures
)


@pytest.mark.slow
@settings(max_examples=120)
@given(st.lists(calls, max_size=12), st.lists(whats, max_size=2))
def test_every_answer_comes_back_as_it_was_given(
    made: list[tuple[str, str, str, int, Given]], others: list[str]
) -> None:
    given: dict[str, dict[tuple[str, str, int], list[Given]]] = defaultdict(dict)
    first: dict[tuple[str, str, int], Given] = {}
    library = Script([answer for *_, answer in made])
    sessions = list(dict.fromkeys(name for name, *_ in made))
    with TemporaryDirectory() as folder:
        with CallRecording(Path(folder) / "r.sqlite") as recording:
            for name in sessions:
                recording.begin_session(name, name.encode("utf-8", "surrogatepass"))
            recorded = {name: RecordingLibrary(recording, library, name) for name in sessions}
            for name, kind, what, k, answer in made:
                assert asked(recorded[name], kind, what, k) == answer
                given[name].setdefault((kind, what, k), []).append(answer)
                first.setdefault((kind, what, k), answer)
        with CallRecording(Path(folder) / "r.sqlite") as recording:
            assert recording.list_sessions() == sessions
            for name in sessions:
                assert recording.load_metadata(name) == name.encode("utf-8", "surrogatepass")
                mine = [call for call in made if call[0] == name]
                replay = ReplayLibrary(recording, name)
                for _, kind, what, k, answer in mine:
                    assert asked(replay, kind, what, k) == answer
                replay = ReplayLibrary(recording, name)
                for key, answers in given[name].items():
                    for answer in (*answers, answers[-1], answers[-1]):
                        assert asked(replay, *key) == answer
                for key in [*first, *(("fetch", what, 0) for what in others)]:
                    if key not in given[name]:
                        again = [asked(replay, *key), asked(replay, *key)]
                        if key in first:
                            assert again == [first[key]] * 2
                        else:
                            assert isinstance(again[0], Failure)
                            assert again[0].outcome == "not_recorded"
            versions = [answer for *_, answer in made if isinstance(answer, Page)]
            kept = dict.fromkeys(msgspec.structs.replace(page, fetched="") for page in versions)
            back = [
                msgspec.structs.replace(page, fetched="") for page in recording.archive.iter_pages()
            ]
            assert back == list(kept)


def test_a_page_that_changes_between_two_visits_is_replayed_as_it_was_at_each(
    recording: CallRecording,
) -> None:
    was = page("Ravens play.", "2024-01-01T00:00:00Z")
    later = msgspec.structs.replace(was, fetched="2024-01-02T00:00:00Z")
    linked = msgspec.structs.replace(was, links=(Link(0, 6, "https://e.org/raven"),))
    titled = msgspec.structs.replace(was, title="B")
    changed = page("Ravens play in snow.", "2024-01-03T00:00:00Z")
    visits = [was, later, linked, titled, changed, was]
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script(visits), "s")
    assert [recorded.fetch(URL) for _ in visits] == visits
    replay = ReplayLibrary(recording, "s")
    assert [replay.fetch(URL) for _ in visits] == visits
    assert list(recording.archive.iter_pages()) == [was, linked, titled, changed]


def test_two_sessions_that_saw_different_versions_each_see_their_own(
    recording: CallRecording,
) -> None:
    old, new, newer = page("old"), page("new"), page("newer")
    script = Script([old, new, newer])
    for name in "abc":
        recording.begin_session(name, b"{}")
    for name in "bac":
        RecordingLibrary(recording, script, name).fetch(URL)
    assert [ReplayLibrary(recording, name).fetch(URL) for name in "abc"] == [new, old, newer]
    recording.begin_session("elsewhere", b"{}")
    assert ReplayLibrary(recording, "elsewhere").fetch(URL) == old


def test_another_policy_browses_what_any_session_saw(recording: CallRecording) -> None:
    refused = Failure("https://e.org/b", "timed_out", "the time was up")
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script([[Hit(URL, "A")], refused]), "s")
    asked(recorded, "search", "crows", 3)
    asked(recorded, "fetch", "https://e.org/b", 0)
    recording.begin_session("t", b"{}")
    replay = ReplayLibrary(recording, "t")
    assert asked(replay, "search", "crows", 3) == [Hit(URL, "A")]
    assert asked(replay, "fetch", "https://e.org/b", 0) == refused
    for kind, what, k in [("search", "crows", 4), ("search", "Crows", 3), ("fetch", "crows", 0)]:
        missing = asked(replay, kind, what, k)
        assert isinstance(missing, Failure)
        assert (missing.what, missing.outcome) == (what, "not_recorded")
        assert "with the network" in missing.detail


def test_sessions_that_run_at_once_do_not_mix(recording: CallRecording) -> None:
    serial = count()

    class Counting(Library):
        def search(self, query: str, k: int) -> list[Hit]:
            return [Hit(f"https://e.org/{next(serial)}", query)] * k

        def fetch(self, url: str) -> Page:
            number = next(serial)
            return page(f"text {number % 5}", f"at {number}", url)

    ways = [("search", "crows", 2), ("fetch", URL, 0), ("fetch", "https://e.org/b", 0)] * 4

    def run(name: str, library: Library) -> list[Given]:
        return [asked(library, *way) for way in ways]

    def live(name: str) -> list[Given]:
        recording.begin_session(name, name.encode())
        return run(name, RecordingLibrary(recording, Counting(), name))

    names = [f"session {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(live, names))
        replayed = list(pool.map(lambda name: run(name, ReplayLibrary(recording, name)), names))
    assert replayed == given
    assert sorted(recording.list_sessions()) == sorted(names)
    texts = {(page.url, page.text) for page in recording.archive.iter_pages()}
    assert len(list(recording.archive.iter_pages())) == len(texts) == 10


@pytest.mark.slow
def test_threads_may_share_one_replay(recording: CallRecording) -> None:
    answers = [[Hit(URL, str(number))] for number in range(2_000)]
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script(answers), "s")
    for _ in answers:
        recorded.search("crows", 1)
    replay = ReplayLibrary(recording, "s")
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: replay.search("crows", 1)[0].title, answers))
    finally:
        sys.setswitchinterval(usual)
    assert sorted(given, key=int) == [hits[0].title for hits in answers]


def test_what_a_library_raises_is_a_failure_live_and_replayed(recording: CallRecording) -> None:
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script([ValueError("no \ud800"), KeyError("url")]), "s")
    wrong = Failure("crows", "library_failed", "ValueError: no \ud800")
    assert asked(recorded, "search", "crows", 3) == wrong
    also_wrong = Failure(URL, "library_failed", "KeyError: 'url'")
    assert asked(recorded, "fetch", URL, 0) == also_wrong
    replay = ReplayLibrary(recording, "s")
    assert asked(replay, "search", "crows", 3) == wrong
    assert asked(replay, "fetch", URL, 0) == also_wrong


def test_an_interrupt_passes_and_is_no_answer(recording: CallRecording) -> None:
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script([KeyboardInterrupt(), page("text")]), "s")
    with pytest.raises(KeyboardInterrupt):
        recorded.fetch(URL)
    assert list_calls(recording, "s") == []
    assert recorded.fetch(URL) == ReplayLibrary(recording, "s").fetch(URL) == page("text")


def test_the_calls_tell_when_each_was_made_and_how_long_it_took(
    recording: CallRecording,
) -> None:
    class Slow(Script):
        def fetch(self, url: str) -> Page:
            time.sleep(0.05)
            return super().fetch(url)

    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Slow([[], Failure(URL, "http_404"), page("text")]), "s")
    before = datetime.now(UTC).isoformat(timespec="milliseconds")
    asked(recorded, "search", "crows", 7)
    asked(recorded, "fetch", URL, 0)
    asked(recorded, "fetch", URL, 0)
    after = datetime.now(UTC).isoformat(timespec="milliseconds")
    found, missing, opened = list_calls(recording, "s")
    assert (found.arguments, found.answer.failure) == (("search", "crows", 7), None)
    assert missing.arguments == opened.arguments == ("fetch", URL, 0)
    assert (missing.answer.failure, opened.answer.failure) == (Failure(URL, "http_404"), None)
    assert before <= found.started <= missing.started <= opened.started <= after
    assert 0 <= found.seconds < 60
    assert all(0.05 <= call.seconds < 60 for call in (missing, opened))


def test_a_session_that_begins_again_takes_the_place_of_the_former(
    recording: CallRecording,
) -> None:
    for name, about in (("a", b"first"), ("b", b"second")):
        recording.begin_session(name, about)
        RecordingLibrary(recording, Script([page(f"of {name}")]), name).fetch(URL)
    recording.begin_session("a", b"third")
    assert recording.list_sessions() == ["b", "a"]
    assert recording.load_metadata("a") == b"third"
    assert list_calls(recording, "a") == []
    assert ReplayLibrary(recording, "a").fetch(URL) == page("of b")
    RecordingLibrary(recording, Script([page("again")]), "a").fetch(URL)
    assert ReplayLibrary(recording, "a").fetch(URL) == page("again")
    assert ReplayLibrary(recording, "b").fetch(URL) == page("of b")


def test_a_session_takes_the_name_and_the_place_of_another(recording: CallRecording) -> None:
    for name in ("old", "new"):
        recording.begin_session(name, name.encode())
        RecordingLibrary(recording, Script([page(f"of {name}")]), name).fetch(URL)
    recording.rename_session("new", "old")
    assert (recording.list_sessions(), recording.load_metadata("old")) == (["old"], b"new")
    assert ReplayLibrary(recording, "old").fetch(URL) == page("of new")
    recording.rename_session("old", "old")
    assert (recording.list_sessions(), recording.load_metadata("old")) == (["old"], b"new")
    for name in ("old", "new"):
        with pytest.raises(Failed, match="not_recorded"):
            recording.rename_session("new", name)
    assert list_calls(recording, "old")


def test_a_session_that_never_began_is_named(recording: CallRecording) -> None:
    ways: list[Callable[[], object]] = [
        lambda: recording.load_metadata("x"),
        lambda: list_calls(recording, "x"),
        lambda: ReplayLibrary(recording, "x"),
        lambda: RecordingLibrary(recording, Script([]), "x"),
    ]
    for way in ways:
        with pytest.raises(Failed) as caught:
            way()
        assert (caught.value.failure.what, caught.value.failure.outcome) == ("x", "not_recorded")
        assert "begin it" in caught.value.failure.detail


def test_the_file_is_an_archive_of_its_pages_and_a_page_lies_in_it_once(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    kept = page("The crow remembers faces. " * 500)
    with PageArchive(path) as archive, CallRecording(path) as recording:
        archive.store_page(kept)
        for name in "st":
            recording.begin_session(name, b"{}")
            later = msgspec.structs.replace(kept, fetched=f"visit of {name}")
            assert (
                RecordingLibrary(recording, Script([later]), name).fetch("http://e.org/old")
                == later
            )
        assert archive.find_latest("http://e.org/old") == later
        assert archive.find_page(kept.digest, URL) == later
        archive.store_page(msgspec.structs.replace(kept, title="B", blocks=()))
        assert ReplayLibrary(recording, "t").fetch("http://e.org/old") == later
    with closing(sqlite3.connect(path)) as file:
        for table, size in (("texts", 1), ("versions", 2), ("layouts", 2)):
            assert file.execute(f"select count(*) from {table}").fetchone() == (size,)
    assert [each.name for each in tmp_path.iterdir()] == ["r.sqlite"]


_WRITER = """
import sys
from pathlib import Path
from rookery.library.call_recording import (
    POLICY_CALLS,
    CallRecording,
    CallReplay,
    RecordedAnswer,
    RecordingLibrary,
    ReplayLibrary,
)
from rookery.records import Hit, Page

class Numbers:
    number = 0
    def search(self, query, k):
        return [Hit(f"https://e.org/{self.fetch(query).text}", query)]
    def fetch(self, url):
        self.number += 1
        return Page(url, "T", f"{sys.argv[2]} {self.number} " + "crow " * 200)

with CallRecording(Path(sys.argv[1])) as recording:
    recording.begin_session(sys.argv[2], b"{}")
    library = RecordingLibrary(recording, Numbers(), sys.argv[2])
    for number in range(1, int(sys.argv[3]) + 1):
        library.search("crows", 1) if number % 3 == 0 else library.fetch("https://e.org/a")
        print(number, flush=True)
"""


def started(path: Path, name: str, calls: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(path), name, str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def replayed(recording: CallRecording, name: str) -> int:
    """How many calls of a writer are there, after checking each."""
    calls = list_calls(recording, name)
    replay = ReplayLibrary(recording, name)
    for number, call in enumerate(calls, 1):
        text = f"{name} {number} " + "crow " * 200
        if number % 3 == 0:
            assert call.arguments[0] == "search"
            assert replay.search("crows", 1) == [Hit(f"https://e.org/{text}", "crows")]
        else:
            assert call.arguments[0] == "fetch"
            assert replay.fetch(URL) == Page(URL, "T", text)
    return len(calls)


def test_a_killed_process_loses_at_most_the_call_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    for name, least in (("x", 1), ("y", 40), ("z", 170)):
        with started(path, name, 1_000_000) as writer:
            assert writer.stdout is not None
            while int(writer.stdout.readline()) < least:
                pass
            writer.send_signal(signal.SIGKILL)
            told = [int(line) for line in writer.stdout if line.endswith("\n")]
        with CallRecording(path) as recording:
            assert 0 <= replayed(recording, name) - max([least, *told]) <= 1
    with CallRecording(path) as recording:
        assert recording.list_sessions() == ["x", "y", "z"]
        assert replayed(recording, "y") >= 40


def test_two_processes_record_into_the_same_new_file(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with started(path, "x", 300) as one, started(path, "y", 300) as other:
        one.communicate(timeout=120)
        other.communicate(timeout=120)
    assert (one.returncode, other.returncode) == (0, 0)
    with CallRecording(path) as recording:
        assert replayed(recording, "x") == replayed(recording, "y") == 300


_FILL = """
import random, resource, signal, sys
from pathlib import Path
from rookery.library.call_recording import (
    POLICY_CALLS,
    CallRecording,
    CallReplay,
    RecordedAnswer,
    RecordingLibrary,
    ReplayLibrary,
)
from rookery.errors import Failed
from rookery.records import Page
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
chance = random.Random(1)

class Noise:
    def fetch(self, url):
        return Page(url, "T", "".join(chr(chance.randrange(32, 50_000)) for _ in range(20_000)))

with CallRecording(Path(sys.argv[1])) as recording:
    recording.begin_session("s", b"{}")
    library = RecordingLibrary(recording, Noise(), "s")
    try:
        while True:
            print(library.fetch("https://e.org/a").digest, flush=True)
    except Failed as failed:
        print(failed.failure.outcome, flush=True)
"""


def test_a_full_disk_is_said_and_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    path = tmp_path / "r.sqlite"
    command = [sys.executable, "-c", _FILL, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    *given, outcome = run.stdout.split()
    assert outcome == "disk_full"
    assert len(given) >= 3
    with CallRecording(path) as recording:
        replay = ReplayLibrary(recording, "s")
        assert [replay.fetch(URL).digest for _ in given] == given
        assert len(list_calls(recording, "s")) == len(given)
        assert RecordingLibrary(recording, Script([page("room again")]), "s").fetch(URL) == page(
            "room again"
        )
        assert replay.fetch(URL).digest == given[-1]
        assert list(recording.archive.iter_pages())[-1] == page("room again")


def test_a_call_is_stored_with_its_page_or_not_at_all(recording: CallRecording) -> None:
    recording.begin_session("s", b"{}")
    recorded = RecordingLibrary(recording, Script([page("text")] * 2), "s")
    with recording.archive.lock_connection() as file:
        file.execute(
            "create trigger broken before insert on calls begin select raise(abort, 'no');end"
        )
    with pytest.raises(Failed):
        recorded.fetch(URL)
    assert list(recording.archive.iter_pages()) == []
    with recording.archive.lock_connection() as file:
        file.execute("drop trigger broken")
    recorded.fetch(URL)
    assert list(recording.archive.iter_pages()) == [page("text")]


@pytest.mark.parametrize(
    "damage",
    [
        "update calls set answer = x'00'",
        "update calls set answer = (select body from texts)",
        "update texts set body = (select body from layouts)",
        "delete from versions",
    ],
)
def test_a_damaged_answer_is_refused_not_given(recording: CallRecording, damage: str) -> None:
    recording.begin_session("s", b"{}")
    RecordingLibrary(recording, Script([page("The crow remembers faces.")]), "s").fetch(URL)
    with recording.archive.lock_connection() as file:
        file.execute(damage)
    with pytest.raises(Failed) as caught:
        ReplayLibrary(recording, "s").fetch(URL)
    assert caught.value.failure.outcome == "unreadable_archive"
    assert "move it away" in caught.value.failure.detail


def test_a_file_whose_middle_is_overwritten_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with CallRecording(path) as recording:
        recording.begin_session("s", b"{}")
        recorded = RecordingLibrary(recording, Script([[Hit(URL, "A")]] * 400), "s")
        for number in range(400):
            recorded.search(f"query {number}", 1)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(b"\xff" * (size // 2))

    def read() -> None:
        with CallRecording(path) as recording:
            for number in range(400):
                assert ReplayLibrary(recording, "s").search(f"query {number}", 1) == [Hit(URL, "A")]

    with pytest.raises(Failed) as caught:
        read()
    assert caught.value.failure.outcome == "unreadable_archive"


def test_a_file_of_another_format_is_left_alone(tmp_path: Path) -> None:
    letter = tmp_path / "letter.sqlite"
    letter.write_bytes(b"This is a letter, not a database. " * 100)
    before = letter.read_bytes()
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as file:
        file.execute("create table sessions (shoe text)")
        file.execute("pragma user_version = 2")
    for path, advice in ((letter, "move it away"), (other, "another program"), (tmp_path, "name")):
        with pytest.raises(Failed) as caught:
            CallRecording(path)
        assert caught.value.failure.outcome == "unreadable_archive"
        assert advice in caught.value.failure.detail
    assert letter.read_bytes() == before
    with closing(sqlite3.connect(other)) as file:
        assert file.execute("select name from sqlite_master").fetchall() == [("sessions",)]


def test_a_recording_in_postgresql_replays_what_it_was_given(postgres: Server) -> None:
    odd = ["crow", "a\x00b", "\ud800", "é" * 9000]
    found = [Hit(URL, "A", one, score=0.5) for one in odd]
    gone, kept = Failure(URL, "http_error", "it is gone"), page("text")
    calls = [("s", RecordedAnswer(completions=(Completion(one),))) for one in odd]
    with PageArchive(postgres.archive()) as archive:
        for _ in range(2):  # again in place of the first
            recording, said = CallRecording(archive), CallRecording(archive, POLICY_CALLS)
            recording.begin_session("under way", b"{}")
            said.begin_session("s")
            recorded = RecordingLibrary(recording, Script([found, kept, gone]), "under way")
            given = [
                recorded.search(odd[3], 3),
                recorded.fetch(URL),
                asked(recorded, "fetch", URL, 0),
            ]
            for number, (session, answer) in enumerate(calls):
                seed = None if number % 2 else 2**62
                with said.record_call(session, "model", odd[number], 1, seed, "") as answers:
                    answers.append(answer)
            recording.rename_session("under way", "s")
        recording.close()
        assert recording.list_sessions() == said.list_sessions() == ["s"]
        assert recording.load_metadata("s") == b"{}"
        replay = ReplayLibrary(recording, "s")
        again = [replay.search(odd[3], 3), replay.fetch(URL), asked(replay, "fetch", URL, 0)]
        assert again == given == [found, kept, gone]
        assert isinstance(asked(replay, "search", "other", 3), Failure)
        listed = list_calls(said, "s")
        assert [call.arguments[1] for call in listed] == odd
        assert [call.answer for call in listed] == [answer for _, answer in calls]
        repeated = CallReplay(said, "s")
        for number, (_, answer) in enumerate(calls):
            seed = None if number % 2 else 2**62
            arguments = ("model", odd[number], 1, seed, "")
            assert repeated.replay_call(*arguments, find_other=lambda _: b"") == answer
        assert list(archive.iter_pages()) == [kept]
