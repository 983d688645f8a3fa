"""Calibration of extractive answers on the library that they are drawn from, without labels.

The library's own headings and sentences are asked as questions: with their section among the
candidates, without it, and beside them questions of other fields. A logistic of the answer's score,
as log-odds, then makes it the probability of the first quote being right (Platt 1999). It keeps the
order of scores, so that a limit on either decides alike.

Headings are easier than people's questions, and a heading is printed above its section. The fit is
therefore conservative in three ways: half of the weight lies on questions whose answer is not among
the candidates; the logistic is drawn to the identity by normal priors; and it may lower a
probability, but never raise it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import file_digest
from importlib.resources import files
from math import exp, log, log1p
from pathlib import Path
from random import Random
from typing import NamedTuple

from rookery.answers.evidence_answers import (
    SECTION_SIZES,
    EvidenceSettings,
    JudgedSection,
    compose_evidence_answer,
    judge_sections,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.evidence.calibration import replace_file
from rookery.evidence.evidence_model import (
    CALIBRATION_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.pages.passages import cut_passages, find_sentences
from rookery.records import Library, Page, Record, digest_of

LIBRARY_CALIBRATION_FILE = "calibration.json"
"""name of the file in the folder of a library's index"""
FEWEST_PASSAGES = 100
"""sections of a library below which it is not calibrated"""
MOST_JUDGEMENTS = 400
"""judgements of sections, each 60 to 130 ms of a processor"""
MOST_PAGES = 200
"""pages that questions are drawn from"""
FEWEST_QUESTIONS = 12
"""questions of the library's own below which nothing is fitted"""
_PASSAGES_PER_QUESTION = 6  # the first of twenty are rarely found lower
_OWN_PER_FOREIGN = 2
_WEIGHT_WITHOUT_OWN = 0.5  # with the foreign questions as much as those with their section
_SHORTEST_SECTION = 150  # characters
_PRIOR_SLOPE, _PRIOR_BIAS = 0.5, 1.0
"""standard deviations of the normal priors around slope 1 and bias 0"""
_SMALLEST_SLOPE = 0.1  # so that scores keep their order
_COPIED_SHARE = 0.8
"""share of a text's words that the question's section has, from which it counts as a copy"""
_LARGEST_LOG_ODDS = 8.0
_NO_SUBJECT = re.compile("(?i)see also|release|version|new in|author|example|note|option|synopsis")
_PROCEDURE = "3"
"""raised when questions, fit or answers change, so that libraries are calibrated anew"""


class LibraryCalibration(Record, frozen=True):
    """Logistic from the log-odds of an answer's score to those of its first quote being right."""

    contents: str
    """digest of the library's contents"""
    model: str
    """digest of the evidence model"""
    slope: float
    bias: float
    questions: int
    """questions that were asked"""
    judgements: int
    """sections that were judged for them"""

    def calibrate_log_odds(self, log_odds: float) -> float:
        """Return calibrated log-odds: never higher than they were, and in the same order."""
        return min(log_odds, self.slope * log_odds + self.bias)

    def calibrate_probability(self, probability: float) -> float:
        """Return the calibrated probability of a score from 0 to 1."""
        return convert_to_probability(self.calibrate_log_odds(_convert_to_log_odds(probability)))

    def find_score(self, probability: float) -> float:
        """Return the score from 0 to 1 whose calibrated probability this is."""
        if not 0 < probability < 1:
            return probability
        log_odds = _convert_to_log_odds(probability)
        return convert_to_probability(max(log_odds, (log_odds - self.bias) / self.slope))


class LibraryQuestion(NamedTuple):
    """A question made from a section of a page, which therefore answers it."""

    text: str
    digest: str
    """digest of the page's text"""
    start: int
    end: int
    section: str = ""
    """text of the section"""


class CalibrationTrial(NamedTuple):
    """One question asked, with the outcome."""

    log_odds: float
    """of the answer's score"""
    right: bool
    """the first quote is from the question's own section, or from a copy of it"""
    weight: float = 1.0


class _CalibrationStopped(Exception):
    """The budget of judgements is spent."""


def calibrate_library(
    library: Library,
    pages: Iterable[Page],
    judge: EvidenceJudge,
    contents: str = "",
    model: str = "",
    observe: Callable[[int, int], None] = lambda count, total: None,
) -> LibraryCalibration | None:
    """Ask a library questions made from its pages, and fit a calibration of its scores.

    `pages` are some or all pages of the library, in an order drawn by chance; at most MOST_PAGES
    are read. `contents` and `model` are digests that the result is stored under. `observe` hears
    how many of how many sections were judged; what it raises stops the calibration. Returns None
    where the pages have fewer than FEWEST_PASSAGES sections, or too few make questions. Equal
    arguments give equal results.
    """
    own, sections = draw_library_questions(pages)
    if sections < FEWEST_PASSAGES or len(own) < FEWEST_QUESTIONS:
        return None
    budget = min(MOST_JUDGEMENTS, 2 * sections)
    questions = judged = 0
    trials: list[CalibrationTrial] = []

    def judge_within_budget(
        question: str, passages: Sequence[EvidencePassage]
    ) -> Sequence[EvidenceJudgement]:
        nonlocal judged
        if judged + len(passages) > budget:
            raise _CalibrationStopped
        judgements = judge(question, passages)
        judged += len(passages)
        observe(judged, budget)
        return judgements

    limits = RetrievalLimits(passages=_PASSAGES_PER_QUESTION)
    observe(0, budget)
    try:
        for question in _mix_questions(own, load_foreign_questions()):
            gathered = gather_passages(question.text, library, limits)
            judged_sections = judge_sections(question.text, gathered, judge_within_budget)
            trials += _list_trials(question, judged_sections)
            questions += 1
    except _CalibrationStopped:
        pass
    observe(budget, budget)
    slope, bias = fit_conservative_logistic(trials)
    return LibraryCalibration(contents, model, slope, bias, questions, judged)


def _mix_questions(
    own: Sequence[LibraryQuestion], foreign: Sequence[str]
) -> Iterator[LibraryQuestion]:
    """Yield a foreign question after every few of the library's own."""
    others = iter(foreign)
    for number, question in enumerate(own, 1):
        yield question
        if number % _OWN_PER_FOREIGN == 0 and (other := next(others, None)):
            yield LibraryQuestion(other, "", 0, 0)


def _list_trials(
    question: LibraryQuestion, judged: Sequence[JudgedSection]
) -> Iterator[CalibrationTrial]:
    """Yield the outcome with all sections and, if the own one is there, without it and its copies.

    Many folders hold one document in several formats: a copy answers as well as the section itself.
    """
    words = _list_words(question.section)

    def is_own(digest: str, start: int, end: int, text: str) -> bool:
        if digest == question.digest:
            return start < question.end and question.start < end
        said = _list_words(text)
        return len(said & words) >= _COPIED_SHARE * len(said) > 0

    def is_other(each: JudgedSection) -> bool:
        text = each.page.text[each.start : each.end]
        return not is_own(each.page.digest, each.start, each.end, text)

    others = [each for each in judged if is_other(each)]
    trials = [(judged, 1.0)]
    if len(others) < len(judged):
        trials.append((others, _WEIGHT_WITHOUT_OWN))
    for sections, weight in trials:
        answer = compose_evidence_answer(sections, EvidenceSettings(quotes=1))
        if answer.quotes and answer.score is not None:
            first = answer.quotes[0]
            right = is_own(first.digest, first.start, first.end, first.text)
            yield CalibrationTrial(_convert_to_log_odds(answer.score), right, weight)


def _list_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _convert_to_log_odds(probability: float) -> float:
    least = 1 / (1 + exp(_LARGEST_LOG_ODDS))
    clipped = min(max(probability, least), 1 - least)
    return log(clipped) - log1p(-clipped)


def fit_conservative_logistic(trials: Sequence[CalibrationTrial]) -> tuple[float, float]:
    """Fit slope and bias from log-odds to outcomes, by damped Gauss-Newton steps (Platt 1999).

    Normal priors draw the fit to the identity, slope 1 and bias 0, the more the fewer trials there
    are. The slope is positive.
    """

    def compute_loss(slope: float, bias: float) -> float:
        loss = (slope - 1) ** 2 / (2 * _PRIOR_SLOPE**2) + bias**2 / (2 * _PRIOR_BIAS**2)
        for trial in trials:
            against = (slope * trial.log_odds + bias) * (-1 if trial.right else 1)
            loss += trial.weight * (max(against, 0.0) + log1p(exp(-abs(against))))
        return loss

    slope, bias = 1.0, 0.0
    loss = compute_loss(slope, bias)
    for _ in range(50):
        by_slope, by_bias = (slope - 1) / _PRIOR_SLOPE**2, bias / _PRIOR_BIAS**2
        twice_slope, twice_bias, mixed = _PRIOR_SLOPE**-2, _PRIOR_BIAS**-2, 0.0
        for trial in trials:
            likely = 1 / (1 + exp(-max(-500.0, slope * trial.log_odds + bias)))
            error = trial.weight * (likely - trial.right)
            curve = trial.weight * likely * (1 - likely)
            by_slope += error * trial.log_odds
            by_bias += error
            twice_slope += curve * trial.log_odds**2
            twice_bias += curve
            mixed += curve * trial.log_odds
        whole = twice_slope * twice_bias - mixed**2  # positive, by the priors
        step_slope = (twice_bias * by_slope - mixed * by_bias) / whole
        step_bias = (twice_slope * by_bias - mixed * by_slope) / whole
        part = 1.0
        while part > 1e-6:
            nearer = compute_loss(slope - part * step_slope, bias - part * step_bias)
            if nearer <= loss:
                break
            part /= 2
        else:
            break
        slope, bias = slope - part * step_slope, bias - part * step_bias
        if loss - nearer < 1e-9:
            break
        loss = nearer
    return max(slope, _SMALLEST_SLOPE), bias


def load_foreign_questions() -> list[str]:
    """Load the bundled questions of many fields, which are about no documentation."""
    text = files("rookery.answers").joinpath("foreign_questions.txt").read_text(encoding="utf-8")
    return text.splitlines()


def draw_library_questions(pages: Iterable[Page]) -> tuple[list[LibraryQuestion], int]:
    """Make questions from the sections of pages, in an order drawn by chance, and count sections.

    A section is asked for by its heading; what stands on a page without headings, by words of a
    sentence. Headings that stand above several sections are left out.
    """
    random, candidates, sections = Random(0), list[tuple[Page, str, int, int]](), 0
    words: set[str] = set()
    for number, page in enumerate(pages):
        if number == MOST_PAGES:
            break
        sections += len(cut_passages(page, SECTION_SIZES))
        words.update(re.findall(r"[a-z]+", page.text.lower()))
        candidates += _list_sections(page)
    often = Counter(heading.lower() for _, heading, _, _ in candidates)
    questions = []
    for page, heading, start, end in candidates:
        if heading and often[heading.lower()] == 1:
            question_text = phrase_question(heading, words, random)
            if question_text and len(heading.split()) == 1:
                question_text = f"{page.title} {heading}"
        else:
            question_text = "" if heading else _choose_search_words(page, start, end, random)
        if question_text:
            where = (page.digest, start, end, page.text[start:end])
            questions.append(LibraryQuestion(question_text, *where))
    random.shuffle(questions)
    return questions, sections


def _list_sections(page: Page) -> Iterator[tuple[Page, str, int, int]]:
    """Yield what stands under each heading of a page, or its passages where it has none."""
    headings = [each for each in page.blocks if each.kind == "heading" and each.article]
    ends = [*(each.start for each in headings), len(page.text)][1:]
    if not headings:
        for passage in cut_passages(page, SECTION_SIZES):
            if passage.end - passage.start >= _SHORTEST_SECTION:
                yield page, "", passage.start, passage.end
    for block, end in zip(headings, ends, strict=bool(headings)):
        heading = re.sub(r"^[\d.]+\s+|[¶#]", "", page.text[block.start : block.end]).strip()
        if end - block.end >= _SHORTEST_SECTION and 1 <= len(heading.split()) <= 16:
            yield page, heading, block.end, end


def _choose_search_words(page: Page, start: int, end: int, random: Random) -> str:
    """Return longer words of a sentence, as a search; empty where none has enough of them."""
    texts = [page.text[low:high] for low, high in find_sentences(page, start, end)]
    words = [list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", text))) for text in texts]
    rich = [each for each in words if len(each) >= 5]
    return " ".join(random.choice(rich)[:8]) if rich else ""


def phrase_question(heading: str, words: set[str], random: Random) -> str | None:
    """Return a question about the section with this heading; None for headings such as "See also".

    A question stays as it is. "Adding users" becomes "How do I add users?" where "add" is among
    `words`, the words of the pages. Other headings of one or two words become "What is ...?";
    longer ones stay as they are.
    """
    if heading.endswith("?"):
        return heading
    first, _, rest = heading.partition(" ")
    if _NO_SUBJECT.match(heading):
        return None
    if first.lower().endswith("ing") and rest and len(first) > 5:
        stem = first.lower()[:-3]
        # "create" before "creat", "add" before "ad", "map" where "mapp" is no word.
        verbs = [verb for verb in (f"{stem}e", stem, stem[:-1]) if verb in words]
        if verbs:
            opening = random.choice(["How do I", "How can I", "What is the way to", "How to"])
            return f"{opening} {verbs[0]} {rest[0].lower() + rest[1:]}?"
    return heading if len(heading.split()) >= 3 else f"What is {heading}?"


def digest_evidence_model(folder: Path) -> str:
    """Return a digest of an evidence model's files and of the way libraries are calibrated."""
    parts = [_PROCEDURE]
    for name in (MODEL_FILE, TOKENIZER_FILE, CALIBRATION_FILE):
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                parts.append(file_digest(file, "blake2b").hexdigest())
    return digest_of(" ".join(parts))


def store_library_calibration(calibration: LibraryCalibration, index: Path) -> None:
    """Store a calibration in the folder of its library's index. Raises Failed: unwritable."""
    replace_file(index / LIBRARY_CALIBRATION_FILE, calibration.to_json() + "\n")


def load_library_calibration(index: Path) -> LibraryCalibration | None:
    """Load the calibration in a folder of an index; None where there is none that can be read.

    It may be of other contents or another model: compare its digests.
    """
    try:
        return LibraryCalibration.from_json((index / LIBRARY_CALIBRATION_FILE).read_bytes())
    except (OSError, ValueError):
        return None
