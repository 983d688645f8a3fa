"""The work of each command of `rookery measure`: from files to a figure, or to lines.

`run_measure_NAME` belongs to the command NAME of measure_command and takes what that one declares.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice, product
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from rookery.answers.best_of_n import load_reward
from rookery.cli.calibrate_command import AnswerJudge, judge_by_gold, make_rating_judge
from rookery.errors import Failed, Outcome
from rookery.evidence.evidence_model import load_dense_ranker
from rookery.library.worker_processes import map_in_workers
from rookery.measure import pairwise, reward_frontiers
from rookery.measure.citations import (
    AnswerCitationScores,
    EntailmentFunction,
    average_citation_scores,
    entails_by_words,
    make_citations_figure,
    make_support_entailment,
    score_answer_citations,
)
from rookery.measure.coverage import ScoredAnswers, make_coverage_figure
from rookery.measure.figures import Figure, make_bars_figure
from rookery.measure.intervals import estimate_mean
from rookery.measure.ranking import make_ranking_figure, measure_rankings, score_bm25, score_tf_idf
from rookery.measure.ratings import (
    average_criteria,
    compute_rated_shares,
    decide_grades,
    make_criteria_figure,
    make_supported_figure,
    make_truthful_figure,
    measure_truthfulness,
)
from rookery.measure.text_metrics import measure_exactness
from rookery.records import Answer, Comparison, Failure, Question, Rating
from rookery.settings import WORDS
from rookery.shell.answer_verification import make_claim_judge
from rookery.typed_files import read_json_lines
from rookery.written_values import format_count

T = TypeVar("T")
R = TypeVar("R")
SystemFiles = Sequence[str]
SimilarityFunction = Callable[[str, Sequence[str]], Sequence[float]]
RUN_PARTS = 10
"""of a run, each of which is a point of the frontier"""
BUDGET_PRICES = np.geomspace(50, 0.02, 40)
"""of a nat, in spreads of the rewards, for which the optimum is computed"""
_Names = defaultdict[tuple[str, str], dict[str, None]]
"""of systems, in their order, by the texts of question and answer"""
MOST_SHOWN_CHARACTERS = 60
"""characters of a text that is told"""


# Files


class AnswerAttempt(msgspec.Struct, frozen=True):
    """The fields that are read of an Episode, or of a line of `rookery ask --batch`."""

    question: Question
    answer: Answer | None
    by: str = ""

    @property
    def said(self) -> str:
        """The answer's text; empty where there is none or it was declined."""
        return "" if self.answer is None or self.answer.declined else self.answer.text


class RewardLine(msgspec.Struct, frozen=True):
    """Rewards of several answers to one question: a line of what `best-of` and `frontier` read."""

    rewards: tuple[float, ...]
    validations: tuple[float, ...] = ()
    by: str = ""

    def __post_init__(self) -> None:
        if not self.rewards or len(self.validations) not in (0, len(self.rewards)):
            raise ValueError(f"{len(self.rewards)} rewards, {len(self.validations)} validations")


Owned = TypeVar("Owned", AnswerAttempt, RewardLine)


def read_measured_records(path: Path, kind: type[T]) -> list[T]:
    """Return the records of a file. Raises Failed: not_found, bad_line, empty."""
    found = list(read_json_lines(path, kind))
    if not found:
        raise Failed(Failure(str(path), Outcome.EMPTY, "there is no line in it: name another file"))
    return found


def group_by_system(files: Sequence[str], kind: type[Owned]) -> dict[str, list[Owned]]:
    """Return the records of each system, by name, in the order of the files.

    The name is that before the file's (NAME=FILE), or what the records say (`by`), or the file's
    own. Raises Failed as `read_measured_records` does, and same_name for two files that would be
    one system.
    """
    by_system: dict[str, list[Owned]] = {}
    unnamed = Counter(path.stem for name, path in map(split_system_name, files) if not name)
    for name, path in map(split_system_name, files):
        for record in read_measured_records(path, kind):
            system = name or record.by or path.stem
            if system == path.stem and unnamed[system] > 1:
                detail = f"two files are called {system}: say which is which, as in NAME={path}"
                raise Failed(Failure(str(path), Outcome.SAME_NAME, detail))
            by_system.setdefault(system, []).append(record)
    return by_system


def split_system_name(argument: str) -> tuple[str, Path]:
    """Split NAME=FILE into both; the name is empty if there is none.

    The name of a file that exists is not split, whatever it holds.
    """
    name, equal, rest = argument.partition("=")
    return (name, Path(rest)) if equal and not Path(argument).exists() else ("", Path(argument))


class AnswerWriters:
    """Finds the systems that wrote an answer, by the texts of question and answer.

    What is no answer may be a quote of one: people rate it as if it were an answer.
    """

    def __init__(self, systems: Mapping[str, Sequence[AnswerAttempt]]) -> None:
        self._answers: _Names = defaultdict(dict)
        self._quotes: _Names = defaultdict(dict)
        for name, attempts in systems.items():
            for asked, answer in ((each.question.text, each.answer) for each in attempts):
                if answer is not None:
                    self._answers[asked, answer.text][name] = None
                    for quote in answer.quotes:
                        self._quotes[asked, quote.text][name] = None

    def get_writers(self, question: Question, answer: Answer) -> tuple[str, ...]:
        """Return all systems that gave this answer. Raises Failed (unknown_system) if none did."""
        key = (question.text, answer.text)
        names = self._answers.get(key) or self._quotes.get(key)
        if not names:
            asked, said = (f'"{text[:MOST_SHOWN_CHARACTERS]}"' for text in key)
            detail = f"no file of --systems has the answer {said} to {asked}: add the one it is in"
            raise Failed(Failure("--systems", Outcome.UNKNOWN_SYSTEM, detail))
        return tuple(names)

    def name_systems(self, comparison: Comparison) -> Comparison:
        """Replace the answers by the names of their systems; equal answers get different ones."""
        options = [self.get_writers(comparison.question, answer) for answer in comparison.answers]
        apart = (names for names in product(*options) if len(set(names)) == len(names))
        names = next(apart, tuple(names[0] for names in options))
        return msgspec.structs.replace(comparison, answers=tuple(map(Answer, names)))


def group_ratings_by_system(
    files: Sequence[str], systems: Sequence[str]
) -> dict[str, list[Rating]]:
    """Return the ratings of each system's answers; without `systems` a file is of one system.

    Raises Failed as `group_by_system` and `AnswerWriters.get_writers` do.
    """
    writers = AnswerWriters(group_by_system(systems, AnswerAttempt)) if systems else None
    by_system: defaultdict[str, list[Rating]] = defaultdict(list)
    for name, path in map(split_system_name, files):
        for each in read_measured_records(path, Rating):
            own = (name or path.stem,)
            for whose in writers.get_writers(each.question, each.answer) if writers else own:
                by_system[whose].append(each)
    return dict(by_system)


class MetricsLine(msgspec.Struct, frozen=True):
    """A line of metrics.jsonl, as `rookery learn reinforce` writes it."""

    reward: float | None
    kl: float | None


def _require_found(value: T | None, what: object, outcome: str, detail: str) -> T:
    """Return what was found. Raises Failed if it is empty or false."""
    if not value:
        raise Failed(Failure(str(what), outcome, detail))
    return value


# Preferences and rewards


def run_measure_battle(files: SystemFiles, systems: SystemFiles, of: str, majority: bool) -> Figure:
    """Return win rates: every system against every other, or one against each.

    Raises Failed: no_systems, nothing_met, unknown_system.
    """
    matches = _find_matches(files, systems, majority)
    counted = format_count(len({match.group for match in matches}), "question")
    says = f"{len(matches)} matches on {counted}."
    if not of:
        return pairwise.make_win_matrix_figure(matches, says)
    names = pairwise.list_systems(matches)
    detail = f"there is no such system: use one of {', '.join(names)}"
    _require_found(of in names, of, "unknown_system", detail)
    return pairwise.make_win_rate_figure(matches, of, says)


def _find_matches(
    files: SystemFiles, systems: SystemFiles, by_majority: bool
) -> list[pairwise.PairwiseMatch]:
    """Return the matches in files of comparisons. Raises Failed: no_systems, nothing_met."""
    detail = "name the files of the answers that were compared: they tell who wrote them"
    _require_found(systems, "--systems", "no_systems", detail)
    writers = AnswerWriters(group_by_system(systems, AnswerAttempt))
    compared = [each for file in files for each in read_measured_records(Path(file), Comparison)]
    matches = pairwise.list_matches(map(writers.name_systems, compared), lambda answer: answer.text)
    detail = "no comparison is of two systems: name more files with --systems"
    _require_found(matches, ", ".join(files), "nothing_met", detail)
    return pairwise.take_majority(matches) if by_majority else matches


def run_measure_best_of(
    files: SystemFiles, reward: Path | None, validation: Path | None, workers: int = 1
) -> Figure:
    """Return the reward of the best of n answers of each system, by n.

    n is 1, 2, 4, ... and the fewest answers that a question of the system has. Raises as
    `read_best_of_n_curves` does.
    """
    curves = read_best_of_n_curves(files, reward, validation, workers)
    says = "Foretold for every n at once; intervals over questions."
    return reward_frontiers.make_best_of_n_figure(curves, says)


def read_best_of_n_curves(
    files: SystemFiles, reward: Path | None, validation: Path | None, workers: int
) -> dict[str, reward_frontiers.BestOfNCurve]:
    """Return the worth of the best of n answers of each system.

    The files hold rewards or, with two rewards, answers that these score in the workers:
    `reward` chooses, and `validation` says what the choice is worth. Raises ValueError where one is
    named without the other, and Failed: no_answers, no_validations, few_answers.
    """
    if (reward is None) != (validation is None):
        raise ValueError("name both: --reward chooses, and --validation says what that is worth")
    if reward is None or validation is None:
        rewards = group_by_system(files, RewardLine)
    else:
        make = partial(_make_line_scorer, reward, validation)
        rewards = _judge_in_workers(_group_by_question(files), make, workers)
    for name, lines in rewards.items():
        detail = "a line of it has no validations, which say what the chosen answer is worth"
        _require_found(all(line.validations for line in lines), name, "no_validations", detail)
        detail = "it has one answer to some question: the best of n is of two or more"
        _require_found(min(len(line.rewards) for line in lines) > 1, name, "few_answers", detail)
    return {
        name: reward_frontiers.estimate_best_of_n_curve(
            [each.rewards for each in lines], [each.validations for each in lines]
        )
        for name, lines in rewards.items()
    }


def _group_by_question(files: SystemFiles) -> dict[str, list[list[tuple[Question, Answer]]]]:
    """Return each system's answers to the same question together, in whatever lines they stand.

    Raises Failed (no_answers) for a system without any.
    """
    every: dict[str, list[list[tuple[Question, Answer]]]] = {}
    for name, attempts in group_by_system(files, AnswerAttempt).items():
        by_question: defaultdict[str, list[tuple[Question, Answer]]] = defaultdict(list)
        for each in attempts:
            if each.answer is not None:
                by_question[each.question.text].append((each.question, each.answer))
        detail = "it answers no question: name a file with answers"
        every[name] = _require_found(list(by_question.values()), name, "no_answers", detail)
    return every


def _make_line_scorer(
    reward: Path, validation: Path
) -> Callable[[list[tuple[Question, Answer]]], RewardLine]:
    chooses, tells = (load_reward(str(each)).score_answers for each in (reward, validation))
    return lambda pairs: RewardLine(tuple(chooses(pairs)), tuple(tells(pairs)))


def _judge_in_workers(
    systems: Mapping[str, Sequence[T]], make: Callable[[], Callable[[T], R]], workers: int
) -> dict[str, list[R]]:
    """Judge each thing of each system, by one process or several."""
    each = [one for some in systems.values() for one in some]
    with closing(map_in_workers(each, make, workers)) as judged:
        return {name: list(islice(judged, len(some))) for name, some in systems.items()}


def run_measure_frontier(runs: SystemFiles, samples: Sequence[Path]) -> Figure:
    """Return the reward of runs against KL and, with samples, the best possible.

    `samples` are files of rewarded answers by the policy that the runs began with.
    """
    points = {name or path.name: _read_moments(path) for name, path in map(split_system_name, runs)}
    says = "Each point is a tenth of a run; intervals over its batches, if five or more."
    rewards = [each.rewards for path in samples for each in read_measured_records(path, RewardLine)]
    if not rewards:
        return reward_frontiers.make_frontier_figure(points, (), says)
    spread = float(np.std(np.concatenate(rewards))) or 1.0
    says += f" Optimum and best of n from samples of {len(rewards)} questions."
    prices = [float(price) * spread for price in BUDGET_PRICES]
    most = reward_frontiers.find_optimal_policies(rewards, prices)
    best_of = reward_frontiers.estimate_best_of_n_curve(rewards, rewards)
    return reward_frontiers.make_frontier_figure(points, most, says, best_of)


def _read_moments(run: Path) -> list[reward_frontiers.ReachedPoint]:
    """Return the mean reward and KL of each tenth of a run. Raises Failed."""
    steps = read_measured_records(run / "metrics.jsonl" if run.is_dir() else run, MetricsLine)
    known = [(each.kl, each.reward) for each in steps if None not in (each.kl, each.reward)]
    return [
        reward_frontiers.ReachedPoint(float(part[:, 0].mean()), estimate_mean(part[:, 1].tolist()))
        for part in np.array_split(np.asarray(known, float), RUN_PARTS)
        if len(part)
    ]


# Answers


def run_measure_coverage(files: SystemFiles, ratings: Path | None) -> Figure:
    """Return quality by the share that is answered, by the scores of each system's answers.

    An answer is good where people rate it so or, without ratings, where it holds a gold answer.
    Raises Failed (no_labels) for a system without a score that is labelled.
    """
    good = make_rating_judge(ratings) if ratings else judge_by_gold
    scored, left_out = {}, 0
    for name, attempts in group_by_system(files, AnswerAttempt).items():
        labelled = [label for each in attempts if (label := _label_attempt(each, good)) is not None]
        left_out += len(attempts) - len(labelled)
        detail = "no answer of it has a score and a label: add --ratings FILE, or `gold` answers"
        _require_found(labelled, name, "no_labels", detail)
        scored[name] = ScoredAnswers(*zip(*labelled, strict=True))
    by = "people rate them so" if ratings else "they hold a gold answer"
    says = f"Answers are good where {by}. Left out: {left_out} without score or label, or declined."
    return make_coverage_figure(scored, says)


def _label_attempt(attempt: AnswerAttempt, good: AnswerJudge) -> tuple[float, float] | None:
    answer = attempt.answer
    if answer is None or answer.declined or answer.score is None:
        return None
    label = good(attempt.question, answer)
    return None if label is None else (answer.score, float(label))


def run_measure_exact(files: SystemFiles) -> Figure:
    """Return the share of each system's answers that equal a gold answer.

    Questions without a gold answer are left out. Raises Failed (no_gold) for a system that has no
    other.
    """
    systems = {}
    for name, attempts in group_by_system(files, AnswerAttempt).items():
        answerable = [each for each in attempts if each.question.gold]
        detail = "no question of it has a `gold` answer: ask questions that have one"
        _require_found(answerable, name, "no_gold", detail)
        systems[name] = measure_exactness(
            [each.said for each in answerable], [each.question.gold for each in answerable]
        )
    says = "No answer and a declined one count as an empty one. Answers are compared as SQuAD does."
    title, y = "Answers that are the accepted ones", "share of the answers; F1"
    return make_bars_figure("exact", title, says, systems, y)


def run_measure_citations(files: SystemFiles, ranker: str, workers: int = 1) -> Figure:
    """Return the citation recall and precision of each system's answers.

    The evidence model judges: that of the folder `ranker`, the bundled one for an empty name, or
    none for "words". Raises Failed: no_model, bad_model.
    """
    if ranker == WORDS:
        says = "A claim is supported where the quotes hold 57 % of its words: no model reads them."
    else:
        says = (
            "A claim is supported where the evidence model gives it one half or more, by its "
            "quotes together or by one of them; a claim that is one of its quotes always is."
        )
    answers = {
        name: [each.answer for each in attempts if each.answer is not None]
        for name, attempts in group_by_system(files, AnswerAttempt).items()
    }
    scores = _judge_in_workers(answers, partial(_make_citation_scorer, ranker), workers)
    systems = {name: average_citation_scores(some) for name, some in scores.items()}
    return make_citations_figure(systems, says)


def _make_citation_scorer(ranker: str) -> Callable[[Answer], AnswerCitationScores | None]:
    entails: EntailmentFunction = entails_by_words
    if ranker != WORDS:
        entails = make_support_entailment(make_claim_judge(ranker))
    return lambda answer: score_answer_citations(answer, entails)


def run_measure_ranking(
    triples: SystemFiles, episodes: SystemFiles, squad: SystemFiles, ranker: SystemFiles
) -> Figure:
    """Return how well BM25, TF-IDF and these encoders rank references that hold the answer.

    Raises Failed as `load_scored_references` and `load_dense_ranker` do, and no_sources.
    """
    from rookery.learn.retrieval_data import RetrievalSources, load_scored_references  # loads torch

    detail = "name what is ranked: a file with --triples, --episodes or --squad"
    _require_found(episodes or triples or squad, "ranking", "no_sources", detail)
    sources = RetrievalSources(tuple(episodes), tuple(triples), tuple(squad))
    read, left_out = load_scored_references(sources)
    methods: dict[str, SimilarityFunction] = {"BM25": score_bm25, "TF-IDF": score_tf_idf}
    for name, folder in map(split_system_name, ranker):
        methods[name or folder.name] = load_dense_ranker(folder).compute_similarities
    worths = [each.worths for each in read]
    results = {
        name: measure_rankings(worths, [score(each.question, each.references) for each in read])
        for name, score in methods.items()
    }
    counted = format_count(len(read), "question")
    says = f"{counted}; a reference is worth the share of the answer's words it holds."
    return make_ranking_figure(results, f"{says} Left out: {left_out}." if left_out else says)


# Ratings


def run_measure_truthful(files: SystemFiles, systems: SystemFiles) -> Figure:
    """Return the truthful and informative answers of each system.

    Raises Failed (not_rated), and ValueError for an answer that is rated on one scale alone.
    """
    scales = "truthful and informative"
    found, says = _summarize_ratings(files, systems, lambda rated, _: decide_grades(rated), scales)
    shares = {name: measure_truthfulness(grades) for name, grades in found.items()}
    says += " Of several raters, what most say."
    return make_truthful_figure(shares, says)


def run_measure_supported(files: SystemFiles, systems: SystemFiles) -> Figure:
    """Return the supported and plausible answers of each system.

    Raises Failed (not_rated) for a system that nobody rated so.
    """
    scales = "supported, plausible or good"
    found, says = _summarize_ratings(files, systems, compute_rated_shares, scales)
    return make_supported_figure(list(chain.from_iterable(found.values())), says)


def run_measure_criteria(files: SystemFiles, systems: SystemFiles) -> Figure:
    """Return people's ratings of each system by WebGLM's criteria.

    Raises Failed (not_rated) for a system that nobody rated so.
    """
    found, says = _summarize_ratings(files, systems, average_criteria, "such as fluency")
    return make_criteria_figure(list(chain.from_iterable(found.values())), says)


def _summarize_ratings(
    files: SystemFiles,
    systems: SystemFiles,
    summarize: Callable[[Sequence[Rating], Callable[[Answer], str]], list[T]],
    scales: str,
) -> tuple[dict[str, list[T]], str]:
    """Return a summary of each system's ratings, and who rated. Raises Failed (not_rated)."""
    rated = group_ratings_by_system(files, systems)
    summaries = {name: summarize(each, _attribute_to(name)) for name, each in rated.items()}
    for name, summary in summaries.items():
        detail = f"nobody rated it on the scales that are wanted here: {scales}"
        _require_found(summary, name, "not_rated", detail)
    people = len({rating.by for each in rated.values() for rating in each})
    return summaries, f"Rated by {people} {'person' if people == 1 else 'people'}."


def _attribute_to(name: str) -> Callable[[Answer], str]:
    return lambda _: name
