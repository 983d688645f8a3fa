"""Calibration of the evidence model on questions about documentation.

The questions of bench/questions for building, with near misses and foreign ones, are answered as
`extract` answers them. The logistic is fitted to tell where the first quote is right.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sklearn.linear_model import LogisticRegression

from bench.documentation import BUILD_SITES, SiteQuestion, read_site_questions
from recipes.stages import print_progress
from rookery.browse.file_selection import FileSelection
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.page_archive import PageArchive
from rookery.cite.evidence_model import AnswerCalibration, EvidenceModel
from rookery.draft.evidence_answers import (
    EvidenceSettings,
    choose_quote,
    narrow_section,
    search_sections,
)
from rookery.records import Failed, Failure, Library

MIN_QUESTIONS = 30
"""questions of each outcome below which nothing is fitted"""


class JudgedQuestion(NamedTuple):
    """Outputs for the best section of a question, and whether its quote is right."""

    answers: float
    margin: float
    right: bool


def calibrate_model(model: EvidenceModel, names: Sequence[str], scratch: Path) -> AnswerCalibration:
    """Fit the calibration of a model that has none on the questions about these sites.

    `scratch` holds their indexes. Raises Failed (no_data) if a site is not installed, or its
    questions have too few outcomes of a kind.
    """
    sites = {name: BUILD_SITES[name] for name in names}
    if missing := [name for name, (folder, _) in sites.items() if not folder.is_dir()]:
        detail = f"not installed: run apt install {' '.join(missing)}"
        raise Failed(Failure("calibration", "no_data", detail))
    questions = read_site_questions("build", names)
    judged: list[JudgedQuestion] = []
    for name, (folder, glob) in sites.items():
        archive, selection = PageArchive(scratch / "pages.sqlite"), FileSelection(glob=(glob,))
        library = FolderLibrary(folder, archive, scratch / "index", selection=selection)
        here = [question for question in questions if question.site == name]
        judged += _judge_questions(model, here, folder, library)
        library.close()
        print_progress(f"{len(judged)} of {len(questions)} questions judged")
    return fit_calibration(judged)


def _judge_questions(
    model: EvidenceModel, questions: list[SiteQuestion], folder: Path, library: Library
) -> Iterator[JudgedQuestion]:
    for question in questions:
        judge, limits = model.judge_passages, EvidenceSettings().limits
        sections, _ = search_sections(question.text, library, judge, limits)
        if sections:
            judgement = sections[0].judgement
            right = False
            if question.facts:  # no quote answers a near miss
                longest = EvidenceSettings().longest
                best = narrow_section(question.text, sections[0], judge, longest)
                quote = choose_quote(best, longest)
                right = quote is not None and question.is_right(quote, folder)
            yield JudgedQuestion(judgement.answers, judgement.margin, right)


def fit_calibration(judged: Sequence[JudgedQuestion]) -> AnswerCalibration:
    """Fit a logistic regression (Platt 1999) to judged questions. Raises Failed (no_data)."""
    right = [each.right for each in judged]
    if min(sum(right), len(right) - sum(right)) < MIN_QUESTIONS:
        detail = f"{sum(right)} of {len(right)} are right: {MIN_QUESTIONS} of each are needed"
        raise Failed(Failure("calibration", "no_data", detail))
    fitted = LogisticRegression().fit([[each.answers, each.margin] for each in judged], right)
    [answers, margin], [bias] = fitted.coef_[0].tolist(), fitted.intercept_.tolist()
    return AnswerCalibration(answers, margin, bias)
