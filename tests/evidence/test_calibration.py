"""Labels kept with a model: what comes back, what is added, what is refused, and the picture."""

import math
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.best_of_n import AnswerDraft, BestOfNSettings, answer_with_best_draft
from rookery.errors import Failed
from rookery.evidence.calibration import (
    AnswerLabel,
    CalibrationLabels,
    ScoreSource,
    find_decline_threshold,
    get_minimum_score,
    identify_score_source,
    label_answer,
    load_calibration_labels,
    locate_calibration_labels,
    store_calibration_labels,
)
from rookery.models.openai_protocol import ModelEndpoint
from rookery.records import Answer, Completion, Question, Step

SERVED = ScoreSource("gophercite", "tiny 7B", "http://localhost:8000/v1", samples=8)
FORTY_GOOD = [AnswerLabel(f"{n:032x}", -float(n), n < 40) for n in range(100)]
"""the forty that score highest are good: they are what 0.9 can be promised of"""


def failure(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Failed) as caught:
        act()
    return caught.value.failure.outcome, caught.value.failure.detail


# What is kept

LABELS = st.lists(
    st.builds(
        AnswerLabel,
        st.integers(0, 9).map(lambda n: f"{n:032x}"),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
    )
)


@given(st.lists(LABELS, max_size=4))
def test_labels_come_back_and_later_ones_replace_earlier_ones(
    parts: list[list[AnswerLabel]],
) -> None:
    """Whether they are added at once or in parts."""
    newest = {each.question: each for part in parts for each in part}
    with TemporaryDirectory() as folder:
        home = Path(folder)
        for part in parts:
            store_calibration_labels(SERVED, part, home)
        found = load_calibration_labels(SERVED, home)
        at_once = store_calibration_labels(SERVED, [each for part in parts for each in part], home)
    assert (found is None) == (not parts)
    if found is not None:
        assert found == at_once == CalibrationLabels.from_json(found.to_json())
        assert {each.question: each for each in found.labels} == newest
        assert len(found.labels) == len(newest)


def test_a_question_is_known_by_its_text(tmp_path: Path) -> None:
    """Two files of questions may number theirs alike."""
    first, second = Question("1", "Can jays plan?"), Question("1", "Do crows play?")
    again = Question("7", first.text)
    store_calibration_labels(
        SERVED, [label_answer(first, -1.0, True), label_answer(second, -2.0, True)], tmp_path
    )
    kept = store_calibration_labels(SERVED, [label_answer(again, -3.0, False)], tmp_path)
    assert sorted((each.score, each.good) for each in kept.labels) == [(-3.0, False), (-2.0, True)]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_label_has_a_finite_score(score: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        label_answer(Question("1", "Can jays plan?"), score, True)


# Whose labels they are

OTHERS = [
    {"method": "webglm"},
    {"model": "tiny-7b"},
    {"base_url": "http://localhost:8001/v1"},
    {"browser": "large at http://localhost:8000/v1"},
    {"samples": 4},
    {"worth": 0.1},
    {"score": "reward:helpful"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_threshold_is_for_nobody_elses_scores(other: dict[str, object], tmp_path: Path) -> None:
    store_calibration_labels(SERVED, FORTY_GOOD, tmp_path)
    theirs = msgspec.structs.replace(SERVED, **other)
    assert failure(lambda: find_decline_threshold(theirs, 0.9, tmp_path))[0] == "no_calibration"
    locate_calibration_labels(SERVED, tmp_path).rename(locate_calibration_labels(theirs, tmp_path))
    outcome, detail = failure(lambda: find_decline_threshold(theirs, 0.9, tmp_path))
    assert (outcome, "labels of other answers" in detail) == ("bad_calibration", True)


@pytest.mark.parametrize("other", [{"method": "webglm"}, {"samples": 4}, {"score": "reward:x"}])
def test_labels_lie_in_the_folder_of_a_model_and_move_with_it(
    other: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    here = ScoreSource("gophercite", f"path:{tmp_path / 'model'}", samples=8)
    kept = store_calibration_labels(here, FORTY_GOOD, tmp_path / "home")
    [file] = (tmp_path / "model").iterdir()
    assert file.name.startswith("rookery-calibration-gophercite-")
    assert not (tmp_path / "home").exists()
    (tmp_path / "model").rename(tmp_path / "moved")
    there = msgspec.structs.replace(here, model=f"path:{tmp_path / 'moved'}")
    assert load_calibration_labels(there, tmp_path) == kept
    assert str(tmp_path) not in locate_calibration_labels(there, tmp_path).read_text()
    assert load_calibration_labels(msgspec.structs.replace(there, **other), tmp_path) is None


def test_who_writes_and_who_browses_are_told_apart(tmp_path: Path) -> None:
    small, large = (ModelEndpoint(name, "http://localhost:8000/") for name in ("small", "large"))
    roles = {"write": small, "browse": large}
    assert identify_score_source("webgpt", roles.__getitem__, 4, "self") == ScoreSource(
        *("webgpt", "small", "http://localhost:8000/v1", "large at http://localhost:8000/v1", 4),
        score="self",
    )
    assert identify_score_source("webgpt", lambda role: small).browser == ""
    assert identify_score_source("webglm", {"write": small}.__getitem__).browser == ""
    local = identify_score_source("webgpt", lambda role: f"path:{tmp_path}")
    assert (local.model, local.browser) == (f"path:{tmp_path}", "")
    missing = failure(lambda: identify_score_source("webglm", lambda role: f"path:{tmp_path}/none"))
    assert missing[0] == "not_found"


# What follows from them


def test_the_threshold_of_forty_good_ones(tmp_path: Path) -> None:
    """40 of 40 show nine tenths with confidence 0.95; 40 of 41 do not (see test_decline.py)."""
    store_calibration_labels(SERVED, FORTY_GOOD, tmp_path)
    found = find_decline_threshold(SERVED, 0.9, tmp_path)
    assert (found.threshold, found.coverage, found.labels) == (-39.0, 0.4, 100)
    assert get_minimum_score(found) == -39.0
    assert find_decline_threshold(SERVED, 0.9, tmp_path, 0.99).threshold is None  # takes 44
    assert failure(lambda: find_decline_threshold(SERVED, 1.0, tmp_path))[0] == "not_usable"


def test_where_nothing_can_be_promised_every_answer_is_declined(tmp_path: Path) -> None:
    store_calibration_labels(SERVED, FORTY_GOOD[:28], tmp_path)
    found = find_decline_threshold(SERVED, 0.9, tmp_path)
    assert "takes 29 labelled answers at least; there are 28" in found.reason
    certain = AnswerDraft(Step("", Completion("Yes.", logprobs=(0.0,))), Answer("Yes."))
    choosing = BestOfNSettings(decline=get_minimum_score(found))
    episode = answer_with_best_draft(
        Question("1", "Can jays plan?"), "x", lambda n: [certain], choosing
    )
    assert episode.stop == "declined"


def test_without_labels_the_commands_are_told(tmp_path: Path) -> None:
    outcome, detail = failure(lambda: find_decline_threshold(SERVED, 0.9, tmp_path))
    by = "--method gophercite --model 'tiny 7B' --base-url http://localhost:8000/v1 -n 8"
    assert outcome == "no_calibration"
    assert f"rookery ask --batch QUESTIONS.jsonl --out ANSWERS.jsonl {by} " in detail
    assert detail.endswith(f"rookery calibrate ANSWERS.jsonl {by}")
    two = ScoreSource("webgpt", "a", "http://a/v1", "b at http://b/v1")
    assert two.options == "--method webgpt --endpoints FILE"
    assert ScoreSource("webglm", "path:~/a b").options == "--method webglm --model 'path:~/a b'"


# What goes wrong


@given(st.data())
def test_a_damaged_file_is_told_and_left_alone(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        store_calibration_labels(SERVED, FORTY_GOOD[:3], home)
        whole = locate_calibration_labels(SERVED, home).read_bytes().rstrip()
        cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
        faults = [
            cut,
            b"[" * 9999,
            b"\xff" + whole,
            whole.replace(b'"labels"', b'"label"'),
            whole.replace(b"-1.0", b"null"),
            whole.replace(b"-1.0", b"1e999"),
        ]
        bad = data.draw(st.sampled_from(faults))
        locate_calibration_labels(SERVED, home).write_bytes(bad)
        outcome, detail = failure(lambda: find_decline_threshold(SERVED, 0.9, home))
        assert (outcome, "move it away" in detail) == ("bad_calibration", True)
        assert (
            failure(lambda: store_calibration_labels(SERVED, FORTY_GOOD, home))[0]
            == "bad_calibration"
        )
        assert locate_calibration_labels(SERVED, home).read_bytes() == bad


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The system takes no more of any file than this, as when a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    before = store_calibration_labels(SERVED, FORTY_GOOD[:3], tmp_path)
    with no_file_above(1000):
        outcome, detail = failure(lambda: store_calibration_labels(SERVED, FORTY_GOOD, tmp_path))
    assert (outcome, "is unchanged: make room" in detail) == ("unwritable", True)
    assert load_calibration_labels(SERVED, tmp_path) == before
    assert list((tmp_path / "calibrations").iterdir()) == [
        locate_calibration_labels(SERVED, tmp_path)
    ]


def test_a_place_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "calibrations").write_text("in the way")
    assert (
        failure(lambda: store_calibration_labels(SERVED, FORTY_GOOD, tmp_path))[0]
        == "bad_calibration"
    )
