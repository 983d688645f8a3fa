"""`rookery calibrate`: which answers are labelled, which are left out, and what is promised."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from commands import Run
from models import Asking, chat, serving, write_choices

from rookery.answers.answer_results import AnswerProvenance, AskResult
from rookery.cli.calibrate_command import CalibrationReport, calibrate_answers, judge_by_gold
from rookery.errors import Failed
from rookery.evidence.calibration import (
    CalibrationLabels,
    compute_binomial_tail,
    find_decline_threshold,
    load_calibration_labels,
)
from rookery.pages.page_reader import read_page
from rookery.records import Answer, Claim, Question, Rating, Record
from rookery.settings import ModelSettings, Settings, get_data_folder

TINY = ModelSettings("tiny", "http://localhost:8000/v1")
BY_TINY = Settings(method="gophercite", models=TINY)
RIGHT, WRONG = Answer("It was the blue bird."), Answer("It was the black bird.")


def answer(number: int, good: bool = True, score: float | None = None, **more: object) -> AskResult:
    """To the question of this number, whose answer is blue; the higher the number, the worse."""
    question = Question(str(number), f"Which of the birds was number {number}?", gold=("Blue",))
    given = msgspec.structs.replace(
        RIGHT if good else WRONG, score=-number if score is None else score
    )
    return msgspec.structs.replace(AskResult(question, given, "end", "gophercite", {}), **more)


FORTY_GOOD = [answer(n, good=n <= 40) for n in range(1, 101)]
"""of 100 answers the 40 that score highest are right"""


class Calibrated(NamedTuple):
    """What a calibration left behind."""

    code: int
    report: CalibrationReport
    err: str


Calibrate = Callable[..., Calibrated]


def written(path: Path, records: Iterable[Record]) -> Path:
    path.write_text("".join(f"{record.to_json()}\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def calibrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Calibrate:
    """The command on these answers, and ratings, in files."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def calibrates(
        answers: Sequence[AskResult], ratings: Sequence[Rating] = (), settings: Settings = BY_TINY
    ) -> Calibrated:
        rated = written(tmp_path / "ratings.jsonl", ratings) if ratings else None
        saved = written(tmp_path / "answers.jsonl", answers)
        code = calibrate_answers(settings, saved, rated, json=True)
        out, err = capsys.readouterr()
        return Calibrated(code, CalibrationReport.from_json(out), err)

    return calibrates


# Gold answers


def test_forty_right_answers_are_what_can_be_promised(calibrate: Calibrate) -> None:
    """0.9 as worked out in tests/evidence/test_calibration_limits.py."""
    code, report, err = calibrate(FORTY_GOOD)
    assert (code, err) == (0, "")
    assert (report.labels, report.added, report.good, report.left_out) == (100, 100, 0.4, {})
    assert (report.calibration.threshold, report.calibration.coverage) == (-40.0, 0.4)
    offers = {offer.wanted: offer.threshold for offer in report.offers}
    assert compute_binomial_tail(40, 44, 0.8) <= 0.05 < compute_binomial_tail(40, 45, 0.8)
    assert offers == {0.8: -44.0, 0.9: -40.0, 0.95: None, 0.99: None}
    assert Path(report.stored).parent == get_data_folder() / "calibrations"
    assert find_decline_threshold(report.scored, 0.9, get_data_folder()) == report.calibration


def test_what_cannot_be_promised_is_told_and_kept(calibrate: Calibrate) -> None:
    code, report, _ = calibrate(FORTY_GOOD[:28])
    assert code == 3
    assert report.calibration.reason.endswith("takes 29 labelled answers at least; there are 28")
    assert load_calibration_labels(report.scored, get_data_folder()) is not None
    code, report, _ = calibrate(FORTY_GOOD[28:29])
    assert (code, report.labels, report.added) == (0, 29, 1)


def test_a_share_can_be_wanted_that_no_table_shows(calibrate: Calibrate) -> None:
    settings = msgspec.structs.replace(BY_TINY, decline=0.92)
    _, report, _ = calibrate(FORTY_GOOD, settings=settings)
    assert report.calibration.wanted == 0.92
    assert [offer.wanted for offer in report.offers] == [0.8, 0.9, 0.92, 0.95, 0.99]


@pytest.mark.parametrize(
    ("text", "gold", "good"),
    [
        ("Crows don’t  forget.", ("don't forget",), True),
        ("In the ﬁrst year", ("In the FIRST year.",), True),
        ("They ate 12 nuts.", ("2 nuts",), False),
        ("It is black.", ("blue", "black"), True),
        ("It is black.", (), None),
        ("It is black.", ("",), False),
    ],
)
def test_a_gold_answer_stands_in_what_is_said(
    text: str, gold: tuple[str, ...], good: bool | None
) -> None:
    assert judge_by_gold(Question("1", "?", gold=gold), Answer(text)) == good


def test_a_gold_answer_that_only_a_quote_holds_does_not_count() -> None:
    """An answer may quote what is right and say what is wrong."""
    quote = read_page(b"<title>Jays</title><p>Jays are blue.", "https://a.org/", "text/html").quote(
        0, 14
    )
    wrong = Answer("Jays are red.", (quote,), (Claim(0, 13, (0,)),))
    assert judge_by_gold(Question("1", "?", gold=("blue",)), wrong) is False


def test_what_is_left_out_is_counted(calibrate: Calibrate) -> None:
    unknown = Question("9", "Which one was it?")
    odd = [
        answer(101, method="webglm"),
        answer(102, answer=None, stop="no_evidence"),
        answer(103, answer=msgspec.structs.replace(RIGHT, score=-0.1, declined=True)),
        answer(104, score=0.0),
        answer(105, score=0.0),
        answer(106, question=unknown),
    ]
    _, report, _ = calibrate([*FORTY_GOOD, *odd])
    assert report.labels == 100
    counts = {"other_method": 1, "no_answer": 1, "declined": 1, "no_score": 2, "no_gold": 1}
    assert report.left_out == counts
    with pytest.raises(Failed, match=r"2 have no score: the model's server gave no log-prob") as no:
        calibrate(odd)
    assert no.value.failure.outcome == "no_labels"
    assert "are to questions without a `gold` answer: give --ratings" in no.value.failure.detail


def test_a_score_of_0_is_a_score(calibrate: Calibrate) -> None:
    made_with = AnswerProvenance("0.2.0", BY_TINY)
    unscored = answer(102, answer=RIGHT, made_with=made_with)
    _, report, _ = calibrate([answer(101, score=0.0, made_with=made_with), unscored])
    assert (report.labels, report.left_out) == (1, {"no_score": 1})


def test_answers_of_another_day_replace_those_to_the_same_questions(calibrate: Calibrate) -> None:
    calibrate(FORTY_GOOD)
    _, report, _ = calibrate([answer(1, good=False), answer(101), answer(101, good=False)])
    assert (report.labels, report.added, report.good) == (101, 2, 39 / 101)


# Ratings


def rating(of: AskResult, value: float, by: str = "ann", scale: str = "good") -> Rating:
    assert of.answer is not None
    return Rating(of.question, of.answer, scale, value, by)


def test_ratings_go_before_gold_answers(calibrate: Calibrate) -> None:
    said_so = [rating(each, float(n < 30)) for n, each in enumerate(reversed(FORTY_GOOD))]
    _, report, _ = calibrate(FORTY_GOOD, said_so)
    assert (report.labels, report.good) == (100, 0.3)


def test_a_rating_is_of_one_answer_to_one_question_on_one_scale(calibrate: Calibrate) -> None:
    one, other = answer(1), answer(1, good=False)
    elsewhere = answer(1, question=Question("1", "Another first question?"))
    renamed = answer(1, question=msgspec.structs.replace(one.question, id="one"))
    astray = [rating(each, 0.0, f"{n}") for n, each in enumerate([other, elsewhere, renamed])]
    helpful = [rating(one, 0.0, f"b{n}", "helpful") for n in range(3)]
    _, report, _ = calibrate([one, answer(2)], [*astray, *helpful, rating(one, 0.5)])
    assert (report.labels, report.good, report.left_out) == (1, 1.0, {"not_rated": 1})
    with pytest.raises(Failed, match='no line of it is a rating on the scale "good"'):
        calibrate([one], helpful)


def test_raters_vote_and_may_change_their_minds(calibrate: Calibrate) -> None:
    asked = [answer(n) for n in range(1, 4)]
    votes = [
        [("ann", 1.0), ("bob", 0.0), ("cid", 0.49)],
        [("ann", 0.0), ("ann", 1.0)],
        [("ann", 1.0), ("bob", 0.0)],
    ]
    said_so = [
        rating(a, value, by) for a, cast in zip(asked, votes, strict=True) for by, value in cast
    ]
    _, report, _ = calibrate(asked, said_so)
    kept = load_calibration_labels(report.scored, get_data_folder())
    assert kept is not None
    assert {each.score: each.good for each in kept.labels} == {-1.0: False, -2.0: True}
    assert report.left_out == {"not_rated": 1}


# Files


def test_a_line_that_is_no_answer_is_named_and_nothing_stored(
    calibrate: Calibrate, tmp_path: Path
) -> None:
    saved = written(tmp_path / "a.jsonl", FORTY_GOOD[:2])
    for line in ('{"id": "1"}', RIGHT.to_json(), "", saved.read_text()[:99]):
        saved.write_text(FORTY_GOOD[0].to_json() + "\n" + line + "\n")
        with pytest.raises(Failed, match="line 2: unreadable: this is not an answer as rook"):
            calibrate_answers(BY_TINY, saved, None, True)
    with pytest.raises(Failed, match="line 1: unreadable: this is not a rating"):
        calibrate_answers(BY_TINY, saved, saved, True)
    with pytest.raises(FileNotFoundError):
        calibrate_answers(BY_TINY, tmp_path / "none", None, True)
    with pytest.raises(Failed, match="it is empty"):
        calibrate([])
    assert not (get_data_folder() / "calibrations").exists()


def test_labels_of_a_folder_lie_in_it(calibrate: Calibrate, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    local = Settings(method="gophercite", models=ModelSettings(f"path:{tmp_path / 'model'}"))
    _, report, _ = calibrate(FORTY_GOOD, settings=local)
    assert {Path(report.stored)} == set((tmp_path / "model").iterdir())


def test_no_model_is_a_sentence(calibrate: Calibrate) -> None:
    with pytest.raises(Failed, match="say which model"):
        calibrate(FORTY_GOOD, settings=Settings(method="gophercite"))


# What a person reads


def test_a_person_reads_the_promise_and_a_table(
    calibrate: Calibrate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = written(tmp_path / "a.jsonl", [*FORTY_GOOD, answer(101, score=0.0)])
    assert calibrate_answers(BY_TINY, saved, None, False) == 0
    out, err = capsys.readouterr()
    head, promise, _, *table = out.splitlines()
    assert head == (
        "gophercite by tiny at http://localhost:8000/v1: 100 labels (100 of this run), 40.0% good"
    )
    assert promise.startswith("--decline 0.9 answers 40.0%, those with a score of -40 or more;")
    assert [line.split() for line in table[1:3]] == [
        ["0.8", "44.0%", "-44"],
        ["0.9", "40.0%", "-40"],
    ]
    assert table[3].split() == ["0.95", "none"]
    assert err.startswith("1 left out: they have no score")
    assert "━" not in out
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    calibrate_answers(BY_TINY, saved, None, False)
    bars = [line for line in capsys.readouterr().out.splitlines() if "━" in line]
    assert len(bars) == 10
    assert [bars[3].split()[:2], bars[9].split()[:2]] == [["40%", "100%"], ["100%", "40%"]]
    assert bars[9].count("━") == 8


# From questions to a threshold


FEEDS = "Crows bring gifts to people who feed them."
TOKENS = [{"token": "Crows", "logprob": -0.25}, {"token": " bring", "logprob": -0.75}]


def says(asking: Asking) -> bytes:
    """How likely each token was, where that is asked for."""
    given = {"content": TOKENS} if asking.fields.get("logprobs") else None
    return write_choices(
        {**chat("They bring them to people who feed them [1]."), "logprobs": given}
    )


@pytest.mark.slow
def test_a_batch_by_a_model_becomes_a_threshold(run: Run, tmp_path: Path) -> None:
    """29 answers, all right and as likely as each other: the fewest that promise nine tenths."""
    gold = ("People who feed them",)
    asked = [Question(f"{n}", f"Who do crows bring gifts to, {n}?", gold=gold) for n in range(29)]
    files = ("--batch", written(tmp_path / "q", asked), "--out", tmp_path / "a")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "crows.txt").write_text(FEEDS)
    endpoints = tmp_path / "endpoints.toml"
    with serving(says) as server:
        table = f'[default]\nmodel = "tiny"\nbase_url = "{server.base_url}"\nlogprobs = true\n'
        endpoints.write_text(table)
        by = ("--method", "webglm", "--endpoints", endpoints)
        assert run("ask", *files, "--in", tmp_path / "pages", *by).code == 0
    settings = Settings(method="webglm", models=ModelSettings(endpoints=str(endpoints)))
    assert calibrate_answers(settings, tmp_path / "a", None, True) == 0
    [file] = (get_data_folder() / "calibrations").glob("*.json")
    found = CalibrationLabels.from_json(file.read_bytes()).compute_calibration(0.9)
    assert (found.labels, found.threshold, found.coverage) == (29, -0.5, 1.0)
