"""Calibration of the evidence model on questions about documentation.

The questions of bench/questions for building, with near misses and foreign ones, are answered as
`extract` answers them. The logistic is fitted so that the probability of the best section, as
`estimate_probabilities` has it, tells where the first quote is right.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from bench.documentation import (
    BUILD_FOLDERS,
    BUILD_SITES,
    SiteQuestion,
    locate_page,
    read_folder_questions,
    read_site_questions,
)
from recipes.stages import print_progress
from rookery.answers.evidence_answers import (
    RANK_PRIOR,
    EvidenceSettings,
    choose_quote,
    judge_sections,
    narrow_section,
)
from rookery.answers.retrieval import gather_passages
from rookery.errors import Failed
from rookery.evidence.evidence_model import AnswerCalibration, EvidenceModel
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.records import Failure, Library
from rookery.settings import FileSelection

MIN_QUESTIONS = 30
"""questions of each outcome below which nothing is fitted"""


class JudgedQuestion(NamedTuple):
    """Outputs for a question's sections, best first, and whether the first's quote is right."""

    answers: tuple[float, ...]
    margins: tuple[float, ...]
    right: bool
    ranks: tuple[int, ...]
    """in the search, from 0 on"""


def calibrate_model(model: EvidenceModel, names: Sequence[str], scratch: Path) -> AnswerCalibration:
    """Fit the calibration of a model that has none on the questions about these sites.

    `scratch` holds their indexes. Raises Failed (no_data) if a site is not installed, or its
    questions have too few outcomes of a kind.
    """
    judged: list[JudgedQuestion] = []
    for folder, library, questions in open_sites(names, scratch):
        judged += _judge_questions(model, questions, folder, library)
        print_progress(f"{len(judged)} questions judged")
    return fit_calibration(judged)


def open_sites(
    names: Sequence[str], scratch: Path
) -> Iterator[tuple[Path, Library, list[SiteQuestion]]]:
    """Yield the folder of each of these sites and folders, its library and its questions.

    `scratch` holds their indexes. Raises Failed (no_data) if a site is not installed.
    """
    sites = {name: (BUILD_SITES | BUILD_FOLDERS)[name] for name in names}
    if missing := [name for name, (folder, _) in sites.items() if not folder.is_dir()]:
        detail = f"not installed: run apt install {' '.join(missing)}"
        raise Failed(Failure("sites", "no_data", detail))
    folders = {name: place for name, place in sites.items() if name in BUILD_FOLDERS}
    questions = read_site_questions("build", [name for name in names if name not in folders])
    questions += read_folder_questions(folders)
    for name, (folder, glob) in sites.items():
        archive = PageArchive(scratch / "pages.sqlite")
        selection = FileSelection(glob=(glob,) if glob else ())
        library = FolderLibrary(folder, archive, scratch / "index", selection=selection)
        yield folder, library, [question for question in questions if question.site == name]
        library.close()


def _judge_questions(
    model: EvidenceModel, questions: list[SiteQuestion], folder: Path, library: Library
) -> Iterator[JudgedQuestion]:
    for question in questions:
        judge, limits = model.judge_passages, EvidenceSettings().limits
        gathered = gather_passages(question.text, library, limits)
        sections = judge_sections(question.text, gathered, judge)
        if sections:
            right = False
            if question.facts:  # no quote answers a near miss
                longest = EvidenceSettings().longest
                best = narrow_section(question.text, sections[0], judge, longest)
                quote = choose_quote(best, longest)
                if quote is not None:
                    right = question.is_right(locate_page(quote.url, folder), quote.text)
            judged = [section.judgement for section in sections]
            yield JudgedQuestion(
                tuple(each.answers for each in judged),
                tuple(each.margin for each in judged),
                right,
                tuple(section.rank for section in sections),
            )


def fit_calibration(judged: Sequence[JudgedQuestion]) -> AnswerCalibration:
    """Fit a logistic (Platt 1999) to judged questions by likelihood. Raises Failed (no_data).

    The weights of the outputs have normal priors of variance 1.
    """
    right = np.array([each.right for each in judged])
    if min(right.sum(), (~right).sum()) < MIN_QUESTIONS:
        detail = f"{right.sum()} of {len(judged)} are right: {MIN_QUESTIONS} of each are needed"
        raise Failed(Failure("calibration", "no_data", detail))
    most = max(len(each.answers) for each in judged)
    mask = np.array([np.arange(most) < len(each.answers) for each in judged])
    answers_of, margins_of, ranks_of = np.zeros((3, *mask.shape))
    answers_of[mask] = [value for each in judged for value in each.answers]
    margins_of[mask] = [value for each in judged for value in each.margins]
    ranks_of[mask] = [value for each in judged for value in each.ranks]
    prior = RANK_PRIOR * np.log1p(ranks_of)

    def compute_loss(weights: "np.ndarray[Any, Any]") -> float:
        answers, margin, bias = weights
        weighted = answers * answers_of + margin * margins_of + bias - prior
        log_odds = np.where(mask, weighted, -np.inf)
        best = 2 * log_odds[:, 0] - logsumexp(log_odds, axis=1)
        against = np.where(right, -best, best)
        return float(np.logaddexp(0, against).sum() + (answers**2 + margin**2) / 2)

    answers, margin, bias = minimize(compute_loss, (1.0, 0.0, 0.0)).x.tolist()
    return AnswerCalibration(answers, margin, bias)
