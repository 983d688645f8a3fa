"""A run at the desk: people there compare while it learns, see what it says, and stop it."""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from comparing import write_small
from deskhands import at_work, judge, judgement
from forked import PROCESSES
from kept import checkpoint_weights
from labelling import QUESTIONS, run, settings_of, vowels, world_of
from safetensors.torch import load_file
from scoring import score_one_by_one
from sqlalchemy import func, select

from rookery.desk import labelling_queue, rater_quality, stop_switch, tables
from rookery.desk.accounts import add_person
from rookery.desk.human_feedback import NO_RATER, HumanFeedback, HumanFeedbackSettings
from rookery.desk.store import Store, initialize_store
from rookery.errors import Failed
from rookery.learn.online_labelling import (
    ComparisonQuestion,
    OnlineLabellingResult,
    train_with_online_labels,
)
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.training_run import StepCallback, StopCheck
from rookery.records import Answer, Comparison, Question
from rookery.typed_files import read_json_lines

QUICK = HumanFeedbackSettings(rest=0.0, every=0.01, repeated=0.0, grace=0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    place = str(tmp_path / "desk.sqlite")
    initialize_store(place)
    with Store(place) as opened:
        for name in ("ada", "bob"):
            add_person(opened, name, "labeller")
        add_person(opened, "rex", "reviewer")
        yield opened


def labelled(
    folder: Path, out: Path, desk: HumanFeedback, on_step: StepCallback = lambda *_: None
) -> OnlineLabellingResult:
    tell = desk.report_steps(on_step)
    return train_with_online_labels(
        settings_of(folder), world_of(folder), desk, out, tell, desk.find_stop_reason
    )


def weights(out: Path) -> Any:
    return load_file(out / "model" / "model.safetensors")


def assert_same(out: Path, whole: Path) -> None:
    ours, theirs = weights(out), weights(whole)
    assert all((ours[name] == theirs[name]).all() for name in theirs)
    assert (out / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def labels(out: Path) -> list[Comparison]:
    return list(read_json_lines(out / "labels" / "labels.jsonl", Comparison))


@pytest.mark.slow
def test_people_at_the_desk_teach_what_a_mock_of_the_same_taste_does(
    folder: Path, tmp_path: Path, store: Store
) -> None:
    """Also after a stop in the middle, and nobody is asked twice."""
    run(folder, tmp_path / "whole")
    out = tmp_path / "crows"

    def interrupt(step: int, count: int, measured: dict[str, float]) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with at_work(store, "ada", "bob"):
        with pytest.raises(KeyboardInterrupt), HumanFeedback(store, out, QUICK) as desk:
            labelled(folder, out, desk, interrupt)
        assert stop_switch.load_training_run(store, "crows").ended == "broken off"
        with HumanFeedback(store, out, QUICK) as desk:
            reached = labelled(folder, out, desk)
    assert_same(out, tmp_path / "whole")
    theirs = [(one.answers, one.weights) for one in labels(tmp_path / "whole")]
    assert [(one.answers, one.weights) for one in labels(out)] == theirs
    assert {one.by for one in labels(out)} <= {"ada", "bob"}
    assert reached.labels == 12
    with store.begin_read() as connection:
        items = connection.execute(select(tables.items)).all()
        assert connection.scalar(select(func.count()).select_from(tables.judgements)) == 12
    assert len(items) == 12
    assert {(one.batch, one.priority) for one in items} == {("crows", 10)}
    assert [one.policy for one in items] == sorted(one.policy for one in items)
    assert {one.policy for one in items} == {0, 1, 2, 3}
    known = stop_switch.load_training_run(store, "crows")
    assert (known.ended, known.step) == ("finished", 4)
    kept = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert [
        (one.step, one.said, one.reward)
        for one in stop_switch.list_newest_samples(store, "crows", len(kept))
    ] == [(one["step"], one["rows"][0]["action"], one["reward"]) for one in reversed(kept)]


def make_question(*texts: str, number: int = 0) -> ComparisonQuestion:
    return ComparisonQuestion(number, QUESTIONS[0], tuple(Answer(text) for text in texts))


def test_comparisons_come_in_their_order_whatever_the_order_of_judging(
    tmp_path: Path, store: Store
) -> None:
    waits: list[int] = []
    everything = [make_question("a", str(number), number=number) for number in range(5)]
    with HumanFeedback(store, tmp_path / "jays", QUICK, report_waiting=waits.append) as desk:
        found = iter(desk.compare_answers(everything))
        heard: list[Comparison] = []
        thread = threading.Thread(target=lambda: heard.append(next(found)))
        thread.start()
        while sum(labelling_queue.count_waiting_items(store, "ada").values()) < len(everything):
            time.sleep(0.01)
        first, second = (labelling_queue.claim_item(store, name) for name in ("ada", "bob"))
        assert first is not None
        assert second is not None
        labelling_queue.submit_judgement(store, second.token, "bob", judgement(second, 1))
        thread.join(0.1)
        assert not heard
        labelling_queue.submit_judgement(store, first.token, "ada", judgement(first, 0))
        thread.join()
        with at_work(store, "ada"):
            heard += found
    assert [one.answers for one in heard] == [one.answers for one in everything]
    assert [one.by for one in heard] == ["ada", "bob", "ada", "ada", "ada"]
    assert heard[1].weights == (0.0, 1.0)
    assert waits == [5, 4, 3, 2, 1, 0]


def only(desk: HumanFeedback, one: ComparisonQuestion) -> Comparison:
    [found] = desk.compare_answers([one])
    return found


def test_what_the_desk_knows_is_not_asked_again_and_what_is_asked_no_more_is_taken_back(
    tmp_path: Path, store: Store
) -> None:
    out, several = tmp_path / "jays", msgspec.structs.replace(QUICK, repeated=1.0, people=2)
    with HumanFeedback(store, out, several) as desk:
        found = iter(
            desk.compare_answers([make_question("a", "bcd"), make_question("x", "y", number=1)])
        )
        with at_work(store, "ada"):
            heard = next(found)
    with HumanFeedback(store, out, several) as desk:
        assert only(desk, make_question("a", "bcd")) == heard
    with store.begin_read() as connection:
        rows = connection.execute(select(tables.items).order_by(tables.items.c.number)).all()
    known = [(one.wanted, one.why) for one in rows]
    assert known[0] == (2, None)  # somebody else may still say what they think of it
    assert known[1] in ((2, "the run asks this no more"), (2, None))
    assert len(rows) == 2
    assert judge(store, "bob")


def test_a_judgement_that_is_taken_back_before_it_rested_was_not_heard(
    tmp_path: Path, store: Store
) -> None:
    began = time.time()
    store.clock = lambda: began  # it rests for as long as the test says
    patient = msgspec.structs.replace(QUICK, rest=60.0)
    with HumanFeedback(store, tmp_path / "jays", patient) as desk:
        found = iter(desk.compare_answers([make_question("a", "b")]))
        heard: list[Comparison] = []
        thread = threading.Thread(target=lambda: heard.append(next(found)))
        thread.start()
        while (lease := labelling_queue.claim_item(store, "ada")) is None:
            time.sleep(0.01)
        first = judgement(lease, 0)
        labelling_queue.submit_judgement(store, lease.token, "ada", first)
        [kept] = labelling_queue.list_judgements(store, "ada", 1)
        second = msgspec.structs.replace(judgement(lease, 1), supersedes=kept.id)
        labelling_queue.correct_judgement(store, second)
        assert not heard
        store.clock = lambda: began + 120
        thread.join()
    assert [one.weights for one in heard] == [(0.0, 1.0)]


def test_nothing_is_preferred_where_a_lead_took_it_back_or_excluded_who_judged(
    tmp_path: Path, store: Store
) -> None:
    with HumanFeedback(store, tmp_path / "jays", QUICK) as desk:
        one, other = make_question("a", "b"), make_question("a", "b", "c", "d", number=1)
        found = iter(desk.compare_answers([one, other]))

        def retire() -> None:
            """Retire both items, as soon as they wait."""
            while sum(labelling_queue.count_waiting_items(store, "ada").values()) < 2:
                time.sleep(0.01)
            labelling_queue.retire_items(store, "it insults", batch="jays")

        threading.Thread(target=retire).start()
        assert next(found) == Comparison(one.question, one.answers, (0.5, 0.5), NO_RATER)
        assert next(found) == Comparison(other.question, other.answers, (0.25,) * 4, NO_RATER)
        heard: list[Comparison] = []
        thread = threading.Thread(
            target=lambda: heard.append(only(desk, make_question("q", "e", number=2)))
        )
        thread.start()
        while (lease := labelling_queue.claim_item(store, "bob")) is None:
            time.sleep(0.01)
        # What is in hand may be ended, but counts no more.
        rater_quality.exclude_judgements(store, "person", "bob", "guesses", "rex")
        labelling_queue.submit_judgement(store, lease.token, "bob", judgement(lease, 1))
        thread.join()
        assert [each.weights for each in heard] == [(0.5, 0.5)]
    several = msgspec.structs.replace(QUICK, repeated=1.0, people=2)
    with HumanFeedback(store, tmp_path / "owls", several) as desk:
        found = iter(desk.compare_answers([make_question("q", "a", number=3)]))
        with at_work(store, "bob", "ada"):  # bob is given nothing
            assert next(found).by == "ada"
        assert only(desk, make_question("q", "a", number=3)) == Comparison(
            QUESTIONS[0], (Answer("q"), Answer("a")), (0.0, 1.0), "ada"
        )
        [hers] = labelling_queue.list_judgements(store, "ada", 1)
        rater_quality.exclude_judgements(store, "judgement", hers.id, "a slip", "rex")
        mended = msgspec.structs.replace(hers, supersedes=hers.id, filled={"overall": -1})
        labelling_queue.correct_judgement(store, mended)
        assert only(desk, make_question("q", "a", number=3)).weights == (0.5, 0.5)


# Those who stop it


def test_a_run_that_was_stopped_does_not_begin_again_until_it_is_released(
    tmp_path: Path, store: Store
) -> None:
    out = tmp_path / "crows"
    with HumanFeedback(store, out, QUICK) as desk:
        assert desk.find_stop_reason() == ""
        pull = stop_switch.stop_run(store, "crows", "ada", "it swears")
        assert desk.find_stop_reason() == "ada stopped it at the desk: it swears"
        with pytest.raises(Failed, match="ada stopped it at the desk: it swears"):
            only(desk, make_question("a", "b"))
    with pytest.raises(Failed, match="it swears"), HumanFeedback(store, out, QUICK):
        pass
    with (
        pytest.raises(Failed, match="it swears"),
        HumanFeedback(store, out, QUICK, is_main_process=False),
    ):
        pass
    stop_switch.release_run(store, pull.number, "rex", "it read a page that does")
    with HumanFeedback(store, out, QUICK) as desk:
        assert desk.find_stop_reason() == ""


def test_a_pull_while_the_reward_is_learnt_stops_that(
    folder: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, steps = tmp_path / "crows", list[int]()
    follow = ModelOptimizer.step

    def pulling(self: ModelOptimizer, *args: Any) -> float:
        steps.append(1)
        if len(steps) == 2:
            stop_switch.stop_run(store, "crows", "ada", "it swears")
        return follow(self, *args)

    monkeypatch.setattr(ModelOptimizer, "step", pulling)
    prefer = msgspec.structs.replace(settings_of(folder).prefer, batch=1)
    settings = settings_of(folder, prefer=prefer)
    with (
        at_work(store, "bob"),
        HumanFeedback(store, out, QUICK) as desk,
        pytest.raises(Failed, match="it swears"),
    ):
        train_with_online_labels(settings, world_of(folder), desk, out, cord=desk.find_stop_reason)
    assert len(steps) == 2  # of four, and none of the policy's
    assert not (out / "labels/rewards/00/model").exists()


def small(folder: Path, **more: Any) -> ReinforcementSettings:
    """Whose steps are the same however many there will be."""
    given: dict[str, Any] = {
        "steps": 10**6,
        "every": 1,
        "episodes": 2,
        "optimising": OptimizerSettings(rate=1e-3, schedule="constant"),
    }
    return msgspec.structs.replace(settings_of(folder).reinforce, **(given | more))


def learn(
    settings: ReinforcementSettings, out: Path, sign: int, on_step: StepCallback, cord: StopCheck
) -> None:
    def reward(question: Question, answer: Answer) -> float:
        return sign * vowels(question, answer)

    world = world_of(Path(settings.policy.model))(score_one_by_one(reward), 1)
    train_by_reinforcement(settings, world, out, on_step, cord=cord)


def pull_at_random_times(place: str, sender: Connection) -> None:
    """Another process: each time that it is told, pulls the cord some time later."""
    chance = random.Random(11)
    with Store(place) as store:
        while sender.recv():
            time.sleep(chance.uniform(0, 0.12))
            number = stop_switch.stop_run(store, "crows", "ada", "stop").number
            sender.send((time.monotonic_ns(), number))


@contextmanager
def puller(store: Store) -> Iterator[Connection]:
    receiver, sender = PROCESSES.Pipe()
    process = PROCESSES.Process(
        target=pull_at_random_times, args=(store.place, sender), daemon=True
    )
    process.start()
    try:
        yield receiver
    finally:
        receiver.send(False)
        process.join()


def learn_until_stopped(
    store: Store, folder: Path, out: Path, other: Connection, wait: bool
) -> None:
    """The other process is told at the beginning, or once a step was made."""

    def on_step(step: int, count: int, measured: dict[str, float]) -> None:
        if waiting and wait:
            other.send(waiting.pop())

    waiting = [True]
    with HumanFeedback(store, out, QUICK) as desk:
        if not wait:
            other.send(True)
        learn(small(folder), out, 1, desk.report_steps(on_step), desk.find_stop_reason)


@pytest.mark.slow
def test_no_step_begins_after_one_of_forty_pulls_and_each_time_it_goes_on_to_the_same_bits(
    folder: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull at a random time, from another process, through the store: acceptance of the cord."""
    out, made = tmp_path / "crows", list[int]()
    follow = ModelOptimizer.step

    def timed(self: ModelOptimizer, *args: Any) -> float:
        begun = time.monotonic_ns()
        length = follow(self, *args)
        made.append(begun)
        return length

    monkeypatch.setattr(ModelOptimizer, "step", timed)
    late = 0
    with puller(store) as other:
        for tried in range(40):
            made.clear()
            with pytest.raises(Failed) as stopped:
                learn_until_stopped(store, folder, out, other, tried % 2 == 0)
            assert stopped.value.failure.outcome == "stopped"
            assert stopped.value.failure.detail == "ada stopped it at the desk: stop"
            pulled, number = other.recv()
            late += sum(begun > pulled for begun in made)
            stop_switch.release_run(store, number, "rex", "go on")
    assert late == 0
    done = max(int(place.name) for place in (out / "checkpoints").glob("[0-9]*"))
    assert done >= 20
    whole = tmp_path / "whole"
    learn(small(folder, steps=done), whole, 1, lambda *_: None, str)
    lines = (out / "metrics.jsonl").read_bytes().splitlines()[:done]
    assert lines == (whole / "metrics.jsonl").read_bytes().splitlines()
    ours, theirs = (checkpoint_weights(each / f"checkpoints/{done:08}") for each in (out, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


@contextmanager
def watching(store: Store, run: str) -> Iterator[None]:
    """Somebody at the desk, who stops the run where it is pushed towards what has fewer vowels than
    what it is pushed away from."""
    over = threading.Event()

    def watch() -> None:
        with Store(store.place) as mine:
            while not over.wait(0.02):
                said = stop_switch.list_newest_samples(mine, run, 20)
                liked = _mean(said, stop_switch.compute_push_directions(said), 1)
                if len(said) == 20 and liked < _mean(
                    said, stop_switch.compute_push_directions(said), -1
                ):
                    stop_switch.stop_run(mine, run, "ada", "it is taught to say what is bad")
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _mean(samples: Sequence[stop_switch.PolicySample], pushes: Sequence[int], way: int) -> float:
    found = [
        vowels(QUESTIONS[0], Answer(one.said))
        for one, push in zip(samples, pushes, strict=True)
        if push == way
    ]
    return sum(found) / max(len(found), 1)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_somebody_who_looks_at_the_samples_stops_a_run_whose_sign_is_wrong(
    folder: Path, tmp_path: Path, store: Store, sign: int
) -> None:
    """Ziegler, section 4.4; and a run whose sign is right is left alone."""
    out, settings = tmp_path / "crows", small(folder, steps=40, episodes=4, shown=4)
    stopped = ""
    with watching(store, "crows"):
        try:
            with HumanFeedback(store, out, QUICK) as desk:
                learn(
                    settings, out, sign, desk.report_steps(lambda *_: None), desk.find_stop_reason
                )
        except Failed as failed:
            stopped = failed.failure.detail
    steps = len((out / "metrics.jsonl").read_bytes().splitlines())
    if sign == 1:
        assert (stopped, steps) == ("", 40)
    else:
        assert stopped == "ada stopped it at the desk: it is taught to say what is bad"
        assert 5 <= steps < 40
        assert not (out / "model").exists()


def test_a_lost_store_stops_the_run_after_a_while_and_one_that_comes_back_does_not(
    tmp_path: Path, store: Store
) -> None:
    place, away = Path(store.place), tmp_path / "away.sqlite"
    with HumanFeedback(
        store, tmp_path / "crows", msgspec.structs.replace(QUICK, grace=60.0)
    ) as desk:
        place.rename(away)
        threading.Timer(0.1, lambda: away.rename(place)).start()
        assert desk.find_stop_reason() == ""
    with HumanFeedback(store, tmp_path / "crows", QUICK) as desk:
        place.rename(away)
        begun = time.monotonic()
        why = desk.find_stop_reason()
        assert time.monotonic() - begun > 0.3
        assert "did not answer for 0.3 seconds" in why
        initialize_store(store.place)  # another desk is not this one
        assert "did not answer" in desk.find_stop_reason()
        with pytest.raises(Failed, match="did not answer"):
            only(desk, make_question("a", "b"))


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"repeated": 2.0},
        {"people": 0},
        {"every": 0.0},
        {"rest": -1.0},
        {"grace": -1.0},
    ):
        with pytest.raises(ValueError, match=r"repeated is|rest and grace"):
            HumanFeedbackSettings(**wrong)
