"""Calibration on a library: what is asked, what the fit does, and that it helps where a judge is
too sure of itself. The judge compares words, so that no weights are needed."""

import re
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.evidence_answers import EvidenceSettings, answer_by_evidence
from rookery.answers.library_calibration import (
    LIBRARY_CALIBRATION_FILE,
    MOST_JUDGEMENTS,
    CalibrationTrial,
    LibraryCalibration,
    calibrate_library,
    digest_evidence_model,
    draw_library_questions,
    fit_conservative_logistic,
    load_foreign_questions,
    load_library_calibration,
    phrase_question,
    store_library_calibration,
)
from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Page, Question

WORDS = [
    a + b for a in "ba ko mi ru te so na lu pe".split() for b in "lin dor wick man sel".split()
]


def make_pages(count: int, seed: int = 0, sections: int = 3) -> list[Page]:
    random, pages = Random(seed), []
    for number in range(count):
        parts = [f"<title>Guide {number}</title>"]
        for _ in range(sections):
            heading = random.sample(WORDS, 3)
            text = " ".join(random.sample(WORDS, 14) + heading)
            parts.append(f"<h2>{' '.join(heading)}</h2><p>It is said that {text} and so on, ")
            parts.append(f"while the {text} stays where it was put before the winter.</p>")
        pages.append(
            read_page(
                "".join(parts).encode(), f"https://guide.example/{seed}/{number}", "text/html"
            )
        )
    return pages


def make_judge(odds: Callable[[float], float]) -> EvidenceJudge:
    """A judge by the share of the question's words that a passage says under its heading."""

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        asked = set(re.findall(r"\w+", question.lower()))
        shares = [
            len(asked & set(passage.text.lower().split())) / len(asked) for passage in passages
        ]
        return [EvidenceJudgement(odds(s), (0, 20), 0.0, 0.0, 0.0, 1.0) for s in shares]

    return judge


OVERCONFIDENT = make_judge(lambda share: 3 + 2 * share)


def measure_error(
    judge: EvidenceJudge, pages: Sequence[Page], calibrate: Callable[[float], float] = float
) -> float:
    """Mean square error of the score, over held-out headings and questions of other fields."""
    settings = EvidenceSettings(decline=0.0, calibrate=calibrate)
    own, _ = draw_library_questions(pages)
    library, errors = InMemoryLibrary(pages), []
    absent, _ = draw_library_questions(make_pages(20, seed=9))
    for number, question in enumerate([*own[:20], *absent[:20]]):
        answer = answer_by_evidence(
            Question(f"{number}", question.text), library, judge, settings
        ).answer
        assert answer is not None
        assert answer.score is not None
        first = answer.quotes[0]
        right = (
            first.digest == question.digest
            and first.start < question.end
            and question.start < first.end
        )
        errors.append((answer.score - right) ** 2)
    return sum(errors) / len(errors)


def test_a_judge_too_sure_of_itself_is_better_calibrated_on_questions_held_out() -> None:
    pages = make_pages(60)
    made = calibrate_library(InMemoryLibrary(pages), pages, OVERCONFIDENT)
    assert made is not None
    held_out = make_pages(40, seed=5)
    before = measure_error(OVERCONFIDENT, held_out)
    after = measure_error(OVERCONFIDENT, held_out, made.calibrate_probability)
    assert before > 0.4
    assert after < 0.7 * before


def test_a_copy_in_another_format_answers_as_well() -> None:
    """Else every second answer counts as wrong, and nothing is likely any more."""
    pages = make_pages(60)
    copies = [
        read_page(f"{page.text}\n\nsaved".encode(), f"{page.url}.txt", "text/plain")
        for page in pages
    ]
    alone = calibrate_library(InMemoryLibrary(pages), pages, OVERCONFIDENT)
    both = calibrate_library(InMemoryLibrary([*pages, *copies]), pages, OVERCONFIDENT)
    assert alone is not None
    assert both is not None
    for score in (0.3, 0.6, 0.9):
        known = alone.calibrate_probability(score)
        assert both.calibrate_probability(score) == pytest.approx(known, abs=0.15)


@given(st.floats(0.1, 2), st.floats(-3, 3), st.floats(0, 1), st.floats(0.01, 0.99))
def test_a_limit_decides_alike_on_scores_and_on_probabilities(
    slope: float, bias: float, score: float, limit: float
) -> None:
    made = LibraryCalibration("", "", slope, bias, 0, 0)
    if abs(made.calibrate_probability(score) - limit) > 1e-3:
        decided = made.calibrate_probability(score) < limit
        assert decided == (score < made.find_score(limit))
    assert (made.find_score(0), made.find_score(1)) == (0, 1)


def test_equal_arguments_give_equal_results_within_the_budget() -> None:
    pages, heard = make_pages(60), list[tuple[int, int]]()
    library = InMemoryLibrary(pages)

    def observe(step: int, total: int) -> None:
        heard.append((step, total))

    made = calibrate_library(library, pages, OVERCONFIDENT, "documents", "model", observe)
    assert made == calibrate_library(library, pages, OVERCONFIDENT, "documents", "model")
    assert made is not None
    assert (made.contents, made.model) == ("documents", "model")
    assert 0 < made.judgements <= 2 * 180 <= MOST_JUDGEMENTS
    assert made.questions > 30
    assert heard[0][0] == 0
    assert heard == sorted(heard)
    assert heard[-1] == (360, 360)


def test_a_small_library_is_not_calibrated() -> None:
    pages = make_pages(30)

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        raise AssertionError("nothing is to be judged")

    assert calibrate_library(InMemoryLibrary(pages), pages, judge) is None


def test_it_can_be_interrupted() -> None:
    pages = make_pages(60)

    def observe(step: int, total: int) -> None:
        if step > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate_library(InMemoryLibrary(pages), pages, OVERCONFIDENT, observe=observe)


def test_questions_are_headings_that_stand_once_and_words_of_pages_without() -> None:
    long = "Every nest is looked after by two birds who return to it in each of the years. " * 4
    headings = "Building a new nest", "Same for all", "Same for all", "Overview", "See also"
    html = "".join(
        f"<h2>{heading}</h2><p>They build {number}. {long}</p>"
        for number, heading in enumerate(headings)
    )
    html = f"<title>Nests</title>{html}"
    pages = [
        read_page(html.encode(), "https://nests.example/a", "text/html"),
        read_page(long.encode(), "https://nests.example/b", "text/plain"),
    ]
    made, sections = draw_library_questions(pages)
    assert sections >= 6
    texts = {each.text for each in made}
    [activity] = [text for text in texts if text.endswith(" build a new nest?")]
    searched = "Every nest looked after birds return each years"
    assert texts == {activity, "Nests Overview", searched}
    for each in made:
        page = next(page for page in pages if page.digest == each.digest)
        assert "Every nest is looked after" in page.text[each.start : each.end]


def draw_trials(
    seed: int, count: int, true_slope: float, true_bias: float
) -> list[CalibrationTrial]:
    random = Random(seed)
    odds = [random.uniform(-4, 6) for _ in range(count)]
    return [
        CalibrationTrial(x, random.random() < convert_to_probability(true_slope * x + true_bias))
        for x in odds
    ]


def test_headings_become_questions() -> None:
    words = {"create", "creat", "map", "add", "ad"}
    first = {phrase_question("Creating a Nest", words, Random(n)) for n in range(20)}
    assert "How do I create a Nest?" in first
    assert all("create a Nest" in str(each) for each in first)
    assert "add nests" in str(phrase_question("Adding nests", words, Random(0)))
    assert "map nests" in str(phrase_question("Mapping nests", words, Random(0)))
    assert phrase_question("Who nests here?", words, Random(0)) == "Who nests here?"
    assert phrase_question("See also", words, Random(0)) is None


def test_the_fit_finds_the_logistic_and_few_trials_leave_the_identity() -> None:
    slope, bias = fit_conservative_logistic(draw_trials(1, 4000, 0.6, -0.8))
    assert slope == pytest.approx(0.6, abs=0.1)
    assert bias == pytest.approx(-0.8, abs=0.2)
    assert fit_conservative_logistic([]) == (1.0, 0.0)
    slope, bias = fit_conservative_logistic([CalibrationTrial(2.0, False)])
    assert 0.6 < slope < 1
    assert -1 < bias < 0


@given(
    st.lists(
        st.builds(CalibrationTrial, st.floats(-8, 8), st.booleans(), st.just(1.0)),
        max_size=30,
    )
)
def test_the_fit_is_a_minimum_and_never_raises_or_reorders(trials: list[CalibrationTrial]) -> None:
    slope, bias = fit_conservative_logistic(trials)

    def compute_loss(slope: float, bias: float) -> float:
        loss = 2 * (slope - 1) ** 2 + bias**2 / 2
        for each in trials:
            z = slope * each.log_odds + bias
            loss += log(1 + exp(-z if each.right else z))
        return loss

    if slope > 0.1:
        for a, b in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
            assert compute_loss(slope, bias) <= compute_loss(slope + a, bias + b) + 1e-6
    fitted = LibraryCalibration("", "", slope, bias, 0, 0)
    values = [fitted.calibrate_log_odds(x / 2) for x in range(-16, 17)]
    assert values == sorted(set(values))
    assert all(value <= x / 2 for value, x in zip(values, range(-16, 17), strict=True))


def test_what_is_stored_is_loaded_and_damage_counts_as_none(tmp_path: Path) -> None:
    made = LibraryCalibration("documents", "model", 0.7, -0.2, 60, 400)
    assert load_library_calibration(tmp_path) is None
    store_library_calibration(made, tmp_path)
    assert load_library_calibration(tmp_path) == made
    (tmp_path / LIBRARY_CALIBRATION_FILE).write_text("{")
    assert load_library_calibration(tmp_path) is None


def test_another_model_has_another_digest(tmp_path: Path) -> None:
    none = digest_evidence_model(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"weights")
    first = digest_evidence_model(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"weightS")
    assert len({none, first, digest_evidence_model(tmp_path)}) == 3


def test_foreign_questions_are_distinct_questions() -> None:
    found = load_foreign_questions()
    assert len(set(found)) == len(found) == 60
    assert all(each.endswith("?") for each in found)
