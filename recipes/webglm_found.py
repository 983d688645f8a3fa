"""Effects of the WebGLM recipe: rankings, scores, citations, filters."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

import torch
from msgspec.structs import replace

from recipes.baselines import score_by_length, score_by_time
from recipes.findings import Effect, ScoreTable
from recipes.measures import score_system_citations
from recipes.oracle_policies import contains_any_answer
from recipes.vote_comparisons import ForumThread, PairBias, make_vote_comparisons
from recipes.webglm_data import Bootstrapper, Data
from recipes.webglm_stages import BootstrappedPart, Settings
from rookery.evidence.ranking_metrics import compute_expected_hit, compute_pair_accuracy
from rookery.learn.retrieval_data import ScoredReferences
from rookery.learn.retrieval_training import RetrievalTrainingResult, load_sentence_encoder
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingResult
from rookery.measure.citations import make_citations_figure
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.ranking import (
    count_corpus_terms,
    make_ranking_figure,
    measure_rankings,
    score_bm25,
    score_tf_idf,
)
from rookery.measure.reward_frontiers import (
    estimate_best_of_n,
    estimate_best_of_n_curve,
    make_best_of_n_figure,
)
from rookery.records import Answer, Episode, Question, Record

FEW_PAIRS_REASON = (
    "two small forums, on which votes tell who came first more than who wrote better: what is left "
    "takes more than a thousand pairs to learn, and more than this to show"
)
"""Reason given where too few pairs are left to show an effect."""
ScoreRows = list[list[float]]
"""A number for each reference of each question, or each answer of each thread."""


class MethodScores(Record, frozen=True):
    """Scores of references or of answers, by method."""

    by: dict[str, ScoreRows]


def score_references(
    questions: Sequence[ScoredReferences], models: Mapping[str, str]
) -> MethodScores:
    """Score references by TF-IDF and BM25 (term rarity over all references) and by the encoders
    named in `models`."""
    among = count_corpus_terms(
        list(dict.fromkeys(text for each in questions for text in each.references))
    )
    by = {
        "TF-IDF": [score_tf_idf(each.question, each.references, among) for each in questions],
        "BM25": [score_bm25(each.question, each.references, among) for each in questions],
    }
    return MethodScores(
        by | {name: _score_cosines(questions, model) for name, model in models.items()}
    )


def _score_cosines(questions: Sequence[ScoredReferences], model: str) -> ScoreRows:
    encoder, found = load_sentence_encoder(model), []
    with torch.inference_mode():
        for each in questions:
            vectors = encoder([each.question, *each.references])
            found.append((vectors[1:] @ vectors[0]).tolist())
    return found


def score_threads(scorer: RewardModel, threads: Sequence[ForumThread], most: int) -> MethodScores:
    """Score the answers of each thread by the scorer and by length and time; `most`: characters of
    an answer that are read."""
    pairs = [
        (Question(thread.id, thread.text), Answer(post.text[:most]))
        for thread in threads
        for post in thread.answers
    ]
    each = iter(scorer.score_answers(pairs))
    mine = [[next(each) for _ in thread.answers] for thread in threads]
    return MethodScores(
        {
            "scorer": mine,
            "longest": [score_by_length(thread) for thread in threads],
            "earliest": [score_by_time(thread) for thread in threads],
        }
    )


class RecipeData(NamedTuple):
    """Inputs and outputs of every stage, to be measured."""

    world: Data
    policy: Bootstrapper
    parts: tuple[BootstrappedPart, BootstrappedPart]
    """Answers to the questions learnt from, and to those measured on."""
    weighed: Sequence[ScoredReferences]
    """References of the questions measured on."""
    ranked: MethodScores
    scored: MethodScores
    settings: Settings

    @property
    def written(self) -> list[Episode]:
        """Every answer, citations corrected."""
        return [each for part in self.parts for each in part.written]

    @property
    def filtered(self) -> list[Episode]:
        """The same, without an answer where a filter rejected it."""
        return [each for part in self.parts for each in part.filtered]


RANDOM_ORDER, BEST_REFERENCE = "order by lot", "order told"
COIN, MOST_VOTES = "one at random", "order told"


def make_tables(recipe_data: RecipeData) -> Iterator[ScoreTable]:
    """Yield the scores of every method: references ranked first, pairs of answers, best of n."""
    gold = {question.text: question.gold for question in recipe_data.world.asked}
    worths = [each.worths for each in recipe_data.weighed]
    holding = [
        [float(contains_any_answer(text, gold[each.question])) for text in each.references]
        for each in recipe_data.weighed
    ]
    methods = recipe_data.ranked.by | {RANDOM_ORDER: [[0.0] * len(row) for row in worths]}
    for name, says, metric in (
        (
            "origin",
            "share of questions whose answer was made from what it ranks first",
            worths,
        ),
        ("holding", "share of questions for which it ranks first what holds the answer", holding),
    ):
        rows = {
            method: _list_top_hits(metric, scores)
            for method, scores in {**methods, BEST_REFERENCE: metric}.items()
        }
        kept_rows = tuple(
            each.question
            for each, row in zip(recipe_data.weighed, metric, strict=True)
            if len({*row}) > 1
        )
        yield ScoreTable(
            name, says, kept_rows, {method: tuple(each) for method, each in rows.items()}
        )
    for balanced, name in ((True, "balanced pairs"), (False, "all pairs")):
        right, groups = score_pairs(recipe_data, balanced)
        each = {method: tuple(row) for method, row in right.items()}
        each |= {COIN: (0.5,) * len(groups), MOST_VOTES: (1.0,) * len(groups)}
        yield ScoreTable(name, "share of pairs in the order of their votes", tuple(groups), each)
    thread_scores, votes = _select_long_threads(recipe_data)
    n = recipe_data.settings.n
    best = {
        method: tuple(
            float(estimate_best_of_n(*each)[n - 1]) for each in zip(rows, votes, strict=True)
        )
        for method, rows in {**thread_scores, MOST_VOTES: votes}.items()
    }
    long = [thread.id for thread in recipe_data.world.held if len(thread.answers) >= n]
    yield ScoreTable(
        "votes",
        f"log2(1 + votes) of the best of {n}",
        tuple(long),
        {**best, COIN: tuple(fmean(row) for row in votes)},
    )


def list_effects(n: int) -> list[Effect]:
    """Return the paper's effects.

    That correction and filters raise citation precision is none: the faults are planted at known
    rates, and found by what planted them.
    """
    make_ranking_effect = partial(
        Effect,
        learnt="distilled",
        reference="start",
        floors=(RANDOM_ORDER, "BM25", "TF-IDF"),
        facts=(BEST_REFERENCE,),
        chosen="the step on questions kept from training; settings on another draw of "
        "articles (docs/LOG.md)",
    )
    make_scorer_effect = partial(
        Effect,
        learnt="scorer",
        reference=COIN,
        floors=("longest",),
        facts=("earliest", MOST_VOTES),
        chosen="the step on pairs kept from training; settings on another draw of threads "
        "(docs/LOG.md)",
        why=FEW_PAIRS_REASON,
    )
    table_9 = "accuracy 59.6 % on ELI5 (table 9); its pairs are not balanced by time"
    return [
        make_ranking_effect(
            effect="the distilled retriever finds what an answer was made from more often than its "
            "start, BM25 and TF-IDF",
            paper="accuracy 69.36 against 18.54, 40.33 and 46.85 % (table 7; from Contriever)",
            table="origin",
        ),
        make_ranking_effect(
            effect="what it ranks first holds an accepted answer more often",
            paper="not measured: table 7 weighs by the words of written answers",
            table="holding",
        ),
        make_scorer_effect(
            effect="the scorer finds the answer with more votes where neither time nor length tell "
            "anything",
            paper=table_9,
            table="balanced pairs",
        ),
        make_scorer_effect(
            effect="the scorer finds the answer with more votes, on all pairs",
            paper=table_9,
            table="all pairs",
        ),
        make_scorer_effect(
            effect=f"the best of {n} by the scorer has more votes than one at random",
            paper="people prefer answers chosen by the scorer (table 8)",
            table="votes",
        ),
    ]


def _list_top_hits(
    worths: Sequence[Sequence[float]], rows: Sequence[Sequence[float]]
) -> list[float]:
    """Return 1 or 0 for each question: a best reference is ranked first; questions whose references
    are all worth the same are left out."""
    found = [compute_expected_hit(worth, row, 1) for worth, row in zip(worths, rows, strict=True)]
    return [one for one in found if one is not None]


def score_pairs(
    recipe_data: RecipeData, balanced: bool
) -> tuple[dict[str, list[float]], list[str]]:
    """Return, for each method, 1 for each pair whose better answer it scores higher, 1/2 for ties,
    0 otherwise; and each pair's thread."""
    rules = replace(recipe_data.settings.thumbs, balanced=balanced)
    places = {thread.id: at for at, thread in enumerate(recipe_data.world.held)}
    right: dict[str, list[float]] = {name: [] for name in recipe_data.scored.by}
    groups = []
    for each in make_vote_comparisons(recipe_data.world.held, rules).comparisons:
        at = places[each.question.id]
        posts = [_find_post(recipe_data.world.held[at], answer.text) for answer in each.answers]
        better, worse = posts if each.weights[0] else posts[::-1]
        groups.append(each.question.id)
        for name, rows in recipe_data.scored.by.items():
            right[name].append(
                compute_pair_accuracy((1.0, 0.0), (rows[at][better], rows[at][worse])) or 0.0
            )
    return right, groups


def _find_post(thread: ForumThread, text: str) -> int:
    """Return the number of the post that this text is, or is the beginning of."""
    return next(at for at, post in enumerate(thread.answers) if post.text.startswith(text))


def _select_long_threads(recipe_data: RecipeData) -> tuple[dict[str, ScoreRows], ScoreRows]:
    """Return each method's scores, and log2(1 + votes), of threads with at least n answers."""
    some = [
        at
        for at, thread in enumerate(recipe_data.world.held)
        if len(thread.answers) >= recipe_data.settings.n
    ]
    votes = [_log_votes(recipe_data.world.held[at]) for at in some]
    return {name: [rows[at] for at in some] for name, rows in recipe_data.scored.by.items()}, votes


def _log_votes(thread: ForumThread) -> list[float]:
    return [math.log2(1 + max(post.votes, 0)) for post in thread.answers]


def list_citation_variants(recipe_data: RecipeData) -> dict[str, Sequence[Answer]]:
    """Return answers before and after correction and filters, by stage."""
    written = [each for each in recipe_data.written if each.steps]
    filtered_ids = {each.question.id for each in recipe_data.filtered if each.answer is not None}
    return {
        "as written": [recipe_data.policy.rebuild_written_answer(each) for each in written],
        "as written, of those that survive": [
            recipe_data.policy.rebuild_written_answer(each)
            for each in written
            if each.question.id in filtered_ids
        ],
        "corrected": [each.answer or Answer("") for each in written],
        "corrected and filtered": [
            each.answer for each in written if each.question.id in filtered_ids and each.answer
        ],
    }


def make_figures(recipe_data: RecipeData) -> Iterator[Figure]:
    """Yield table 7, table 9, the survival of filters, citation precision and recall, and best of
    n."""
    worths = [each.worths for each in recipe_data.weighed]
    count = f"{len(recipe_data.weighed)} questions of articles that nothing was learnt from"
    yield make_ranking_figure(
        {
            name: measure_rankings(worths, rows, (1,))
            for name, rows in recipe_data.ranked.by.items()
        },
        f"References of {count}, weighed by ROUGE-1 precision of the answer. Intervals are over "
        "questions.",
        title="Retrievers",
    )
    yield _make_filter_figure(recipe_data)
    entails = recipe_data.policy.make_entailment(recipe_data.written)
    yield make_citations_figure(
        {
            name: score_system_citations(answers, entails)
            for name, answers in list_citation_variants(recipe_data).items()
        },
        "Faults are planted at known rates and found by what planted them: a check of the code, "
        "and nothing about a model. A statement is entailed by the reference it was made from.",
    )
    n, (thread_scores, votes) = recipe_data.settings.n, _select_long_threads(recipe_data)
    yield make_ranking_figure(
        {name: measure_rankings(votes, rows, (1,)) for name, rows in thread_scores.items()},
        f"Answers of {len(votes)} threads that nothing was learnt from, with {n} answers or "
        "more, weighed by log2(1 + votes). Intervals are over threads.",
        name="scorer",
        title="Scorers",
    )
    yield make_best_of_n_figure(
        {
            name: estimate_best_of_n_curve(rows, votes, range(1, n + 1))
            for name, rows in thread_scores.items()
        },
        f"The same {len(votes)} threads.",
        worth="log2(1 + votes)",
    )


def _make_filter_figure(recipe_data: RecipeData) -> Figure:
    stops = Counter(each.stop for each in recipe_data.filtered)
    names = {"end": "survives", "bad_syntax": "nothing cited matches"}
    rows = [(names.get(stop, stop.replace("_", " ")), n) for stop, n in stops.most_common()]
    places = tuple(name for name, _ in rows)
    line = FigureLine("answers", tuple((float(at), float(n)) for at, (_, n) in enumerate(rows)))
    return Figure(
        "filters",
        "What becomes of bootstrapped answers",
        "Each answer is counted at the first filter that sets it aside.",
        ("", "answers"),
        tuple(rows),
        FigurePicture("bars", (line,), y="answers", places=places),
        "WebGLM, section 3.2.3",
    )


def list_notes(
    learnt: RetrievalTrainingResult, preferred: RewardTrainingResult, before: PairBias
) -> Iterator[str]:
    """Yield notes on differences from the paper."""
    yield (
        "The model that bootstraps is a stand-in that knows the accepted answers and makes "
        "mistakes at set rates; references are sentences of one article."
    )
    yield (
        "What correction and filters do to citations is no finding: the faults are planted at "
        "known rates and found by what planted them."
    )
    yield (
        "The start is MiniLM, which has learnt from SQuAD among other data; which reference an "
        "answer was made from is known from the accepted answer."
    )
    yield (
        f"The retriever learnt from {learnt.questions} questions (WebGLM: 20,000), the step chosen "
        f"on {learnt.validation_questions} others being {learnt.best_step} of {learnt.steps}."
    )
    yield (
        f"The scorer learnt from {preferred.comparisons} pairs (WebGLM: 230,000), of which the "
        f"earlier wins {before.earlier or 0:.0%} and the longer {before.longer or 0:.0%}; step "
        f"{preferred.best_step} of {preferred.steps}."
    )
