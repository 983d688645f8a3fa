"""Episodes together: the same as one by one, whatever is slow, fails, hangs or says nonsense."""

import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_calls import strip_prompts

from rookery.browser.browser import browse_library, build_episode, replace_surrogates
from rookery.browser.browser_commands import BrowserRules, BrowserTask, Observation
from rookery.browser.rollout import (
    BatchPolicy,
    RolloutLimits,
    RolloutTurn,
    derive_turn_seed,
    make_scripted_policy,
    replay_episode,
    run_rollouts,
)
from rookery.errors import Failed
from rookery.library.call_recording import CallRecording, ReplayLibrary
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.python_objects import OwnCodeError
from rookery.records import Claim, Completion, Episode, Failure, Hit, Library, Page, Question, Step


def html(url: str, body: str, title: str) -> Page:
    markup = f"<!doctype html><title>{title}</title><body><main>{body}</main>"
    return read_page(markup.encode(), url, "text/html; charset=utf-8")


GIFTS = html(
    "https://a.org/gifts",
    "<p>Crows bring gifts to people they know, says <a href='https://b.net/ravens'>a friend of"
    " ravens</a>.</p><p>Nobody has <a href='/gone'>counted</a> them.</p>",
    "Gifts",
)
RAVENS = html("https://b.net/ravens", "<p>Ravens cache their food.</p>" * 60, "Ravens")
LIBRARY = InMemoryLibrary([GIFTS, RAVENS])
RULES = BrowserRules(actions=12)
WELL = (
    "Search crows",
    "Clicked on link 0",
    "Quote: Crows bring gifts",
    "Clicked on link 0",
    "Scrolled down 2",
    "Quote: Ravens cache their food.",
    "End: Answer",
    "Crows bring gifts [1], ravens do not [2].",
)
SCRIPTS = (
    WELL,
    ("Search nothing of the kind", "End: Answer"),
    ("End: Nonsense",),
    ("Search gifts", "Clicked on link 0", "Clicked on link 1", "Back", "End: Controversial"),
    ("Search gifts", "Clicked on link 0", "Quote: Crows", "End: Answer", "Not quoted [2]."),
    ("dance",) * 40,
    ("Search gifts", "Clicked on link 0", "Quote: Crows", *("Top",) * 9, "Out of actions [1]."),
)
SAID = st.sampled_from([*WELL, "Back", "Top", "Scrolled up 3", "Clicked on link 1", "[1] %<"])


def task(number: int = 0, rules: BrowserRules = RULES, start: str = "") -> BrowserTask:
    return BrowserTask(Question(str(number), "Why do crows bring gifts?"), rules, start)


def tasks(size: int) -> list[BrowserTask]:
    return [task(number) for number in range(size)]


def actor(script: Sequence[str]) -> Callable[[Observation], str]:
    """Says these words in order, and then that there is no more to say."""
    words = iter(script)
    return lambda shown: next(words, "End: Answer")


def actors(scripts: Sequence[Sequence[str]] = SCRIPTS) -> BatchPolicy:
    return make_scripted_policy([actor(script) for script in scripts])


def one_by_one(library: Library, scripts: Sequence[Sequence[str]] = SCRIPTS) -> list[Episode]:
    """The oracle: every session through `browse`, none beside another."""
    return [one(library, task(number), script) for number, script in enumerate(scripts)]


def one(library: Library, task: BrowserTask, script: Sequence[str]) -> Episode:
    say, flow, steps = actor(script), browse_library(task, library), []
    try:
        shown = next(flow)
        while True:
            steps.append(Step(shown.prompt, Completion(say(shown))))
            shown = flow.send(steps[-1].said.text)
    except StopIteration as ended:
        return build_episode(task, "tester", steps, ended.value)


def together(
    act: BatchPolicy,
    library: Library | Callable[[int], Library] = LIBRARY,
    size: int = len(SCRIPTS),
    limits: RolloutLimits = RolloutLimits(),
    recording: CallRecording | None = None,
    seed: int = 0,
) -> list[Episode]:
    return list(run_rollouts(tasks(size), library, act, "tester", seed, limits, recording))


class Asking(Library):
    """A library whose every request is a call of `first` before the answer."""

    def __init__(self, first: Callable[[str], object], library: Library = LIBRARY) -> None:
        self.first = first
        self.holdings = library

    def search(self, query: str, k: int) -> Sequence[Hit]:
        self.first(query)
        return self.holdings.search(query, k)

    def fetch(self, url: str) -> Page:
        self.first(url)
        return self.holdings.fetch(url)


def sampling(turns: Sequence[RolloutTurn]) -> list[Completion]:
    """A sampled policy that honours the seed of a turn."""
    return [Completion(Random(turn.seed).choice(WELL)) for turn in turns]


def list_rollout_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rollouts")]


def soon(holds: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert soon(lambda: not list_rollout_threads()), list_rollout_threads()


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[CallRecording]:
    with CallRecording(tmp_path / "recording.sqlite") as recording:
        yield recording


@pytest.mark.parametrize("at_once", [1, 3, 256])
def test_sessions_together_give_the_episodes_of_sessions_one_by_one(at_once: int) -> None:
    found = together(actors(), limits=RolloutLimits(at_once))
    assert found == one_by_one(LIBRARY)
    assert [episode.stop for episode in found] == [
        "end",
        "no_quotes",
        "nonsense",
        "controversial",
        "bad_syntax",
        "max_actions",
        "max_actions",
    ]


def test_an_answer_is_read_from_its_citations() -> None:
    answer = together(actors(), size=1)[0].answer
    assert answer is not None
    assert answer.text == "Crows bring gifts, ravens do not."
    assert [quote.url for quote in answer.quotes] == [GIFTS.url, RAVENS.url]
    assert answer.claims == (Claim(0, 17, (0,)), Claim(17, 32, (1,)))


def test_an_answer_that_cites_what_was_not_quoted_is_none_and_says_why() -> None:
    episode = one(LIBRARY, task(), SCRIPTS[4])
    assert (episode.answer, episode.stop) == (None, "bad_syntax")
    assert episode.failures == (
        Failure("tester", "bad_syntax", "cites [2], but there are 1 quotes"),
    )


def test_what_could_not_be_opened_is_carried_over() -> None:
    failures = together(actors())[3].failures
    assert [(failure.what, failure.outcome) for failure in failures] == [
        ("https://a.org/gone", "url_not_shown")
    ]


@given(st.lists(st.lists(SAID | st.text(max_size=20), max_size=14), max_size=6), st.integers(1, 4))
def test_any_commands_give_the_same_together_and_one_by_one(
    scripts: list[list[str]], at_once: int
) -> None:
    found = together(actors(scripts), size=len(scripts), limits=RolloutLimits(at_once))
    assert found == one_by_one(LIBRARY, scripts)
    assert [Episode.from_json(episode.to_json()) for episode in found] == found


def test_a_run_is_the_same_to_the_byte_whatever_the_timing(recording: CallRecording) -> None:
    def run(latencies: Random, at_once: int) -> tuple[str, list[list[int]]]:
        batches: list[list[int]] = []

        def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
            batches.append([turn.session for turn in turns])
            return sampling(turns)

        def library(number: int) -> Library:
            again = ReplayLibrary(recording, f"tester/7/{number}")
            return Asking(lambda _: time.sleep(latencies.random() / 50), again)

        answer = together(act, library, 24, RolloutLimits(at_once), seed=7)
        return "\n".join(episode.to_json() for episode in answer), batches

    together(sampling, size=24, recording=recording, seed=7)
    first, batches = run(Random(1), 24)
    second, others = run(Random(2), 5)
    assert first == second
    assert batches != others


def test_seeds_differ_by_run_session_and_step_and_fit_a_signed_integer() -> None:
    places = [(run, session, step) for run in (0, 1) for session in range(12) for step in range(12)]
    seeds = [derive_turn_seed(*place) for place in places]
    assert len(set(seeds)) == len(places)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_turn_seed(0, 1, 11) == derive_turn_seed(0, 1, 11) != derive_turn_seed(0, 11, 1)


def test_all_requests_of_a_batch_are_under_way_at_once() -> None:
    meeting = threading.Barrier(8)
    scripts = [("Search crows", "End: Answer")] * 8
    library = Asking(lambda _: meeting.wait(50))
    assert together(actors(scripts), library, 8) == one_by_one(LIBRARY, scripts)


def test_a_thread_that_is_free_again_takes_one_request_and_no_more() -> None:
    meeting = threading.Barrier(8)
    scripts = [("Search crows", "Search gifts"), *[(*("Top",) * 8, "Search gifts")] * 7]
    library = Asking(lambda what: what == "gifts" and meeting.wait(50))
    assert together(actors(scripts), library, 8) == one_by_one(LIBRARY, scripts)


def test_a_batch_is_all_that_waits_and_waits_for_no_straggler() -> None:
    batches: list[set[tuple[int, int]]] = []
    others_went_on = threading.Event()

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        batches.append({(turn.session, turn.number) for turn in turns})
        if (1, 5) in batches[-1]:
            others_went_on.set()
        said = ("Search crows", *("Top",) * 5, "End: Answer")
        return [Completion(said[turn.number]) for turn in turns]

    def library(number: int) -> Library:
        return Asking(lambda _: number == 0 and others_went_on.wait(50))

    assert [episode.stop for episode in together(act, library, 3)] == ["no_quotes"] * 3
    assert batches[0] == {(0, 0), (1, 0), (2, 0)}
    assert not any((0, 1) in batch for batch in batches if (1, 5) in batch)


def test_requests_go_on_while_the_policy_works() -> None:
    fetched = threading.Event()

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        if any(turn.number for turn in turns if turn.session == 0):
            assert fetched.wait(60)
        said = {0: ("Top", "Top", "End: Answer"), 1: ("Search crows", "End: Answer")}
        return [Completion(said[turn.session][turn.number]) for turn in turns]

    def fetch(_: str) -> None:
        time.sleep(0.05)
        fetched.set()

    assert [episode.stop for episode in together(act, Asking(fetch), 2)] == ["no_quotes"] * 2


def test_episodes_come_in_order_as_soon_as_those_before_are_done() -> None:
    go = threading.Event()

    def library(number: int) -> Library:
        return Asking(lambda _: number == 2 and go.wait(50))

    found = run_rollouts(tasks(5), library, actors([("Search crows",)] * 5), "tester")
    assert [next(found).question.id, next(found).question.id] == ["0", "1"]
    assert not go.is_set()
    go.set()
    assert [episode.question.id for episode in found] == ["2", "3", "4"]


def test_tasks_are_taken_as_they_are_needed_and_may_be_endless() -> None:
    taken = 0

    def endless() -> Iterator[BrowserTask]:
        nonlocal taken
        for number in count():
            taken += 1
            yield task(number)

    limits = RolloutLimits(at_once=4)
    found = run_rollouts(endless(), LIBRARY, say_always("End: Nonsense"), "tester", 0, limits)
    for done, episode in enumerate(islice(found, 50)):
        assert episode.question.id == str(done)
        assert taken <= done + 8
    found.close()


def test_no_more_sessions_are_under_way_than_the_limit_says() -> None:
    batches: list[int] = []

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        batches.append(len(turns))
        return [Completion("End: Nonsense")] * len(turns)

    together(act, size=10, limits=RolloutLimits(at_once=3))
    assert (sum(batches), max(batches)) == (10, 3)


def test_finished_episodes_that_wait_for_a_slow_one_are_bounded() -> None:
    go, begun = threading.Event(), []

    def library(number: int) -> Library:
        begun.append(number)
        if number == 40:  # only to be reached after the first has been given
            assert go.is_set()
        return Asking(lambda _: number == 0 and go.wait(50))

    limits = RolloutLimits(at_once=4)
    found = run_rollouts(tasks(50), library, actors([("Search crows",)] * 50), "tester", 0, limits)
    first = threading.Thread(target=lambda: next(found), name="taker")
    first.start()
    assert soon(lambda: len(begun) == 8)
    assert not soon(lambda: len(begun) > 8, 0.05)
    go.set()
    first.join()
    assert len(list(found)) == 49


def say_always(text: str) -> BatchPolicy:
    return lambda turns: [Completion(text) for _ in turns]


def test_a_policy_that_never_ends_is_bounded_by_its_actions() -> None:
    episode = next(run_rollouts([task()], LIBRARY, say_always("Top"), "steady"))
    assert (len(episode.steps), episode.stop) == (RULES.actions, "max_actions")


def test_a_library_that_raises_in_one_session_harms_no_other() -> None:
    def library(number: int) -> Library:
        def fail(what: str) -> None:
            raise ValueError(f"{what} is broken \udcff")

        return Asking(fail) if number == 1 else LIBRARY

    scripts = [WELL] * 3
    found = together(actors(scripts), library, 3)
    oracle = one_by_one(LIBRARY, scripts)
    assert [found[0], found[2]] == [oracle[0], oracle[2]]
    assert found[1].stop == "no_quotes"
    assert found[1].failures[0].outcome == "library_failed"
    assert found[1].failures[0].detail == "ValueError: crows is broken \ufffd"
    assert Episode.from_json(found[1].to_json()) == found[1]


def test_a_library_that_gives_what_is_no_page_ends_its_own_session_only() -> None:
    class Rubbish(Asking):
        def fetch(self, url: str) -> Page:
            return None  # type: ignore[return-value]

    scripts = [WELL] * 2
    found = together(actors(scripts), lambda n: Rubbish(len) if n else LIBRARY, 2)
    assert found[0] == one_by_one(LIBRARY, scripts)[0]
    assert (found[1].stop, found[1].answer, len(found[1].steps)) == ("browser_failed", None, 2)
    assert "TypeError" in found[1].failures[0].detail


@pytest.mark.slow
def test_a_library_that_hangs_is_given_up_and_the_others_do_not_wait() -> None:
    released = threading.Event()
    shown: list[tuple[int, int]] = []

    def library(number: int) -> Library:
        return Asking(lambda _: number == 1 and released.wait(20))

    scripts: list[Sequence[str]] = [("Search crows", "End: Answer")] * 6
    scripts[1] = ("Search crows", "Search ravens", "End: Answer")
    say = actors(scripts)

    def act(turns: Sequence[RolloutTurn]) -> Sequence[Completion]:
        shown.extend((turn.session, turn.number) for turn in turns)
        return say(turns)

    found = list(run_rollouts(tasks(6), library, act, "tester", 0, RolloutLimits(6, seconds=1.5)))
    assert not released.is_set()
    released.set()
    assert shown[-2:] == [(1, 1), (1, 2)]  # all others had come to their ends by then
    assert [failure.outcome for failure in found[1].failures] == ["timed_out"] * 2
    assert "1.5 seconds" in found[1].failures[0].detail
    assert "timed_out" in found[1].steps[1].prompt
    oracle = one_by_one(LIBRARY, scripts)
    assert [found[n] for n in (0, 2, 3, 4, 5)] == [oracle[n] for n in (0, 2, 3, 4, 5)]


@pytest.mark.slow
def test_threads_that_hang_for_ever_are_bounded() -> None:
    released, most = threading.Event(), 0

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        nonlocal most
        most = max(most, len(list_rollout_threads()))
        return [Completion("Search crows")] * len(turns)

    found = together(act, Asking(lambda _: released.wait(20)), 30, RolloutLimits(25, seconds=0.02))
    assert 256 <= most <= 1 + 25 + 256
    assert {failure.outcome for episode in found for failure in episode.failures} == {"timed_out"}
    assert "have come to no end" in found[-1].failures[-1].detail
    released.set()


def test_threads_that_end_late_are_not_counted_for_ever() -> None:
    slow = Asking(lambda _: time.sleep(0.2))
    act = say_always("Search crows")
    found = together(act, slow, 30, RolloutLimits(25, seconds=0.05))
    failures = [failure for episode in found for failure in episode.failures]
    assert len(failures) > 256
    assert not any("have come to no end" in failure.detail for failure in failures)


def test_an_act_that_raises_for_a_batch_ends_only_the_episode_it_raises_for() -> None:
    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        if any(turn.session == 1 and turn.number == 3 for turn in turns):
            raise Failed(Failure("tester", "prompt_too_long", "these words are too many for me"))
        return [Completion(WELL[turn.number]) for turn in turns]

    found = together(act, size=3)
    oracle = one_by_one(LIBRARY, [WELL] * 3)
    assert [found[0], found[2]] == [oracle[0], oracle[2]]
    assert found[1].steps == oracle[1].steps[:3]
    assert (found[1].answer, found[1].stop) == (None, "policy_failed")
    detail = "Failed: tester: prompt_too_long: these words are too many for me"
    assert found[1].failures == (Failure("tester", "policy_failed", detail),)


def make_failing(script: Sequence[str]) -> BatchPolicy:
    """Make a policy that fails once the script has ended."""

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        if any(turn.number >= len(script) for turn in turns):
            raise Failed(Failure("tester", "model_timed_out"))
        return [Completion(script[turn.number]) for turn in turns]

    return act


def test_a_policy_that_fails_leaves_what_the_library_failed_to_give() -> None:
    episode = together(make_failing(SCRIPTS[3][:3]), size=1)[0]
    assert [failure.outcome for failure in episode.failures] == ["url_not_shown", "policy_failed"]


def test_a_policy_may_fail_at_the_answer() -> None:
    episode = together(make_failing(WELL[:-1]), size=1)[0]
    assert (episode.answer, episode.stop, len(episode.steps)) == (None, "policy_failed", 7)


def test_a_mistake_in_a_policy_ends_the_run_and_names_its_line() -> None:
    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        return [Completion(turn.observation.prompts) for turn in turns]  # type: ignore[attr-defined]

    line = act.__code__.co_firstlineno + 1
    where = f"has no attribute 'prompts' ({__file__}, line {line})"
    with pytest.raises(OwnCodeError, match=re.escape(where)):
        together(act, size=100)


@pytest.mark.parametrize("completions", [[], [None], ["Top"], None, [Completion("Top")] * 2])
def test_what_is_no_completion_for_each_turn_ends_the_run(completions: Any) -> None:
    with pytest.raises(OwnCodeError, match=r"tester: TypeError: .*test_rollout.py, line \d+"):
        together(lambda turns: completions, size=1)


@pytest.mark.parametrize(
    "said",
    [Completion(None), Completion("Top", (1,), (math.nan,)), Completion("\ud800", 3)],  # type: ignore[arg-type]
)
def test_a_completion_that_cannot_be_stored_ends_its_episode(said: Completion) -> None:
    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        return [said if turn.session == 1 else Completion(WELL[turn.number]) for turn in turns]

    found = together(act, size=3)
    oracle = one_by_one(LIBRARY, [WELL] * 3)
    assert [found[0], found[2]] == [oracle[0], oracle[2]]
    assert (found[1].stop, found[1].steps) == ("policy_failed", ())
    assert Episode.from_json(found[1].to_json()) == found[1]


class Scripted:
    """A policy that says a script, by the number of commands that a prompt shows."""

    name = "scripted"

    def __init__(self) -> None:
        self.script = iter(WELL)

    def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
        return [Completion(next(self.script))]


def test_an_object_with_complete_rolls_out() -> None:
    [episode] = run_rollouts([task()], LIBRARY, Scripted())
    [oracle] = one_by_one(LIBRARY, [WELL])
    assert episode == msgspec.structs.replace(oracle, by="scripted")


WILD = ("\x00", "Search \x00", "Search \ud800crows\udfff", "x" * 10**6, "Search " + "🐦" * 10**5)


@pytest.mark.slow
def test_wild_words_make_episodes_that_can_be_stored_and_replayed(
    recording: CallRecording,
) -> None:
    answer = "a\ud83d [1]\x00" + "😀 [1] " * 20_000
    script = (*WILD, "Search crows", "Clicked on link 0", "Quote: Crows", "End: Answer", answer)
    found = together(actors([script]), size=1, recording=recording)[0]
    assert found.stop == "end"
    assert found.steps[2].said.text == "Search \ufffdcrows\ufffd"
    assert found.answer is not None
    assert found.answer.text.startswith("a\ufffd\x00😀")
    line = strip_prompts(found).to_json()
    assert replay_episode(Episode.from_json(line), recording).to_json() == found.to_json()


@given(st.text(st.characters()))
def test_a_text_is_made_writable_without_changing_what_can_be_written(text: str) -> None:
    written = replace_surrogates(text)
    assert len(written) == len(text)
    for was, is_now in zip(text, written, strict=True):
        assert is_now == ("\ufffd" if "\ud800" <= was <= "\udfff" else was)
    written.encode()


def test_a_recorded_run_is_stored_without_prompts_and_comes_back_whole(
    recording: CallRecording,
) -> None:
    found = together(actors(), recording=recording, seed=3)
    assert [episode.session for episode in found] == [f"tester/3/{n}" for n in range(len(SCRIPTS))]
    for episode in found:
        line = strip_prompts(episode).to_json()
        assert "Past actions" not in line
        assert replay_episode(Episode.from_json(line), recording).to_json() == episode.to_json()


@given(st.lists(st.lists(SAID | st.text(st.characters(), max_size=9), max_size=9), max_size=3))
def test_any_episode_comes_back_whole_from_its_recording(scripts: list[list[str]]) -> None:
    with TemporaryDirectory() as folder, CallRecording(Path(folder) / "r.sqlite") as recording:
        for episode in together(actors(scripts), size=len(scripts), recording=recording):
            line = strip_prompts(episode).to_json()
            assert replay_episode(Episode.from_json(line), recording).to_json() == episode.to_json()


def test_what_came_too_late_is_too_late_in_the_recording_as_well(
    recording: CallRecording,
) -> None:
    """An answer that arrives after all, and one that never does."""
    released = threading.Event()
    slow = Asking(lambda what: what == "crows" and released.wait(20))
    script = ("Search crows", "Search ravens", "Search crows", *WELL[1:])

    def act(turns: Sequence[RolloutTurn]) -> list[Completion]:
        if turns[0].number == 2:
            released.set()  # the first search ends now, while the session goes on
            time.sleep(0.05)
        return [Completion(script[turn.number]) for turn in turns]

    found = together(act, slow, 1, RolloutLimits(1, seconds=2), recording)[0]
    assert [failure.outcome for failure in found.failures] == ["timed_out"]
    assert found.stop == "end"
    assert replay_episode(strip_prompts(found), recording).to_json() == found.to_json()

    released.clear()
    found = together(actors([script[:2]]), slow, 1, RolloutLimits(1, seconds=2), recording)[0]
    assert replay_episode(strip_prompts(found), recording).to_json() == found.to_json()
    released.set()


def test_an_episode_that_the_policy_broke_off_comes_back_too(recording: CallRecording) -> None:
    found = together(make_failing(WELL[:3]), size=1, recording=recording)[0]
    assert found.stop == "policy_failed"
    assert replay_episode(strip_prompts(found), recording).to_json() == found.to_json()


def test_an_episode_that_was_left_comes_back_as_far_as_it_went(recording: CallRecording) -> None:
    whole = together(actors([WELL]), size=1, recording=recording)[0]
    cut = msgspec.structs.replace(whole, steps=whole.steps[:3], answer=None, stop="left")
    assert replay_episode(strip_prompts(cut), recording) == cut
    with pytest.raises(Failed, match="not recorded with this episode"):
        replay_episode(msgspec.structs.replace(cut, stop="end"), recording)
    with pytest.raises(Failed, match="not recorded with this episode"):
        replay_episode(
            msgspec.structs.replace(whole, steps=(*whole.steps, whole.steps[0])), recording
        )


def test_a_replay_from_another_recording_is_refused(
    recording: CallRecording, tmp_path: Path
) -> None:
    found = together(actors([WELL]), size=1, recording=recording)[0]
    with CallRecording(tmp_path / "other.sqlite") as other:
        with pytest.raises(Failed, match="not_recorded"):
            replay_episode(found, other)
        other.begin_session(found.session, b"about something else")
        with pytest.raises(Failed, match="not begun with a BrowserTask"):
            replay_episode(found, other)
        together(actors([WELL]), InMemoryLibrary([RAVENS]), 1, recording=other)
        with pytest.raises(Failed, match="not recorded with this episode"):
            replay_episode(found, other)


def test_a_start_page_is_asked_for_like_any_other() -> None:
    beginning = [task(0, start=GIFTS.url), task(1, start="https://a.org/none")]
    script = ("Quote: Crows bring gifts", "End: Answer", "They do [1].")
    found = list(run_rollouts(beginning, LIBRARY, actors([script, script]), "tester"))
    assert found == [one(LIBRARY, each, script) for each in beginning]
    assert [episode.stop for episode in found] == ["end", "no_quotes"]


def test_an_actor_is_asked_once_for_a_turn_though_another_one_fails() -> None:
    def failing(observation: Observation) -> str:
        raise Failed(Failure("tester", "model_refused", "nothing to say"))

    found = together(make_scripted_policy([actor(WELL), failing, actor(WELL)]), size=3)
    oracle = one_by_one(LIBRARY, [WELL] * 3)
    assert [found[0], found[2]] == [oracle[0], oracle[2]]
    assert found[1].failures[-1].detail == "Failed: tester: model_refused: nothing to say"


@pytest.mark.parametrize("where", ["act", "library"])
def test_a_wish_to_leave_the_program_is_heard_by_the_one_who_takes_the_episodes(where: str) -> None:
    def leave(_: object) -> list[Completion]:
        raise SystemExit(3)

    act = leave if where == "act" else actors([WELL])
    with pytest.raises(SystemExit):
        together(act, Asking(leave), 1)


def test_what_tasks_and_libraries_by_number_raise_is_raised() -> None:
    def library(number: int) -> Library:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        together(actors([WELL]), library, 1)

    def broken() -> Iterator[BrowserTask]:
        yield task()
        raise ValueError("line 2 is no task")

    with pytest.raises(ValueError, match="line 2"):
        list(run_rollouts(broken(), LIBRARY, actors([WELL]), "tester"))


def test_limits_of_nothing_are_refused() -> None:
    for limits in ({"at_once": 0}, {"seconds": 0.0}):
        with pytest.raises(ValueError, match="more than 0"):
            RolloutLimits(**limits)


def test_closing_early_ends_all_threads_and_asks_for_nothing_more() -> None:
    asked: list[str] = []
    library = Asking(asked.append)
    found = run_rollouts(
        tasks(60),
        library,
        say_always("Search crows"),
        "steady",
        0,
        RolloutLimits(8),
    )
    next(found)
    assert list_rollout_threads()
    found.close()
    assert soon(lambda: not list_rollout_threads())
    before = len(asked)
    assert not soon(lambda: len(asked) > before, 0.05)
    assert before < 60 * RULES.actions


INTERRUPTED = """
import sys, threading, time
sys.path[:0] = sys.argv[2:]
from test_rollout import *
hang = threading.Event().wait
def act(turns):
    print("acting", flush=True)
    if "policy" == sys.argv[1]:
        hang()
    return [Completion("Search crows")] * len(turns)
together(act, Asking(lambda _: hang()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("hanging", ["policy", "library"])
def test_an_interrupt_ends_a_run_in_which_everything_hangs(hanging: str) -> None:
    folder = Path(__file__).parent
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, hanging, folder, folder.parent / "helpers"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith(b"KeyboardInterrupt")
