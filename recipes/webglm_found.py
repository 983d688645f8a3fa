"""Findings of the WebGLM recipe: rankings, scores, citations, filters."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from msgspec.structs import replace

from recipes.stages import Finding, format_estimate
from recipes.webglm_data import Bootstrapper, Data
from recipes.webglm_stages import BootstrappedPart, Settings
from rookery.cite.ranking_metrics import compute_expected_hit, compute_pair_accuracy
from rookery.draft.oracle_policies import contains_any_answer
from rookery.judge.vote_comparisons import ForumThread, PairBias, make_vote_comparisons
from rookery.learn.retrieval_data import ScoredReferences
from rookery.learn.retrieval_training import RetrievalTrainingResult, load_sentence_encoder
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingResult
from rookery.measure.citations import make_citations_figure, score_system_citations
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import estimate_mean
from rookery.measure.ranking import (
    count_corpus_terms,
    make_ranking_figure,
    measure_rankings,
    score_bm25,
    score_by_length,
    score_by_time,
    score_tf_idf,
)
from rookery.measure.reward_frontiers import (
    estimate_best_of_n_curve,
    estimate_best_of_n_gain,
    make_best_of_n_figure,
)
from rookery.records import Answer, Episode, Question, Record

FEW_PAIRS_REASON = (
    "two small forums, on which votes tell who came first more than who wrote better: what is left "
    "takes more than a thousand pairs to learn, and more than this to show"
)
"""Reason given where too few pairs are left to show an effect."""
CORRECTION_REASON = (
    "correction numbers by shared words: what it leaves wrong, filters by words leave too"
)
"""Reason given where filters add nothing after correction."""
ScoreRows = list[list[float]]
"""A number for each reference of each question, or each answer of each thread."""


class MethodScores(Record, frozen=True):
    """Scores of references or of answers, by method."""

    by: dict[str, ScoreRows]


def score_references(asked: Sequence[ScoredReferences], models: Mapping[str, str]) -> MethodScores:
    """Score references by TF-IDF and BM25 (term rarity over all references) and by the encoders
    named in `models`."""
    among = count_corpus_terms(
        list(dict.fromkeys(text for each in asked for text in each.references))
    )
    by = {
        "TF-IDF": [score_tf_idf(each.question, each.references, among) for each in asked],
        "BM25": [score_bm25(each.question, each.references, among) for each in asked],
    }
    return MethodScores(by | {name: _score_cosines(asked, model) for name, model in models.items()})


def _score_cosines(asked: Sequence[ScoredReferences], model: str) -> ScoreRows:
    encoder, found = load_sentence_encoder(model), []
    with torch.inference_mode():
        for each in asked:
            vectors = encoder([each.question, *each.references])
            found.append((vectors[1:] @ vectors[0]).tolist())
    return found


def score_threads(scorer: RewardModel, held: Sequence[ForumThread], most: int) -> MethodScores:
    """Score the answers of each thread by the scorer and by length and time; `most`: characters of
    an answer that are read."""
    pairs = [
        (Question(thread.id, thread.text), Answer(post.text[:most]))
        for thread in held
        for post in thread.answers
    ]
    each = iter(scorer.score_answers(pairs))
    mine = [[next(each) for _ in thread.answers] for thread in held]
    return MethodScores(
        {
            "scorer": mine,
            "longest": [score_by_length(thread) for thread in held],
            "earliest": [score_by_time(thread) for thread in held],
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


def list_findings(seen: RecipeData) -> Iterator[Finding]:
    """Yield the effects, each with its interval."""
    yield from _find_ranking_effects(seen)
    yield from _find_scorer_effects(seen)
    yield _find_best_of_n_effect(seen)
    yield from _find_filter_effects(seen)


def _find_ranking_effects(seen: RecipeData) -> Iterator[Finding]:
    """Yield findings on the retriever.

    Table 7's accuracy can only be the share of questions whose best reference is ranked first:
    Contriever has less than a fifth at five references, with a Spearman correlation of about 0.
    """
    paper = {"start": "18.54", "BM25": "40.33", "TF-IDF": "46.85"}
    worths = [each.worths for each in seen.weighed]
    for name, said in paper.items():
        yield _make_paired_finding(
            f"the distilled retriever finds what an answer was written from more often than {name}",
            f"accuracy 69.36 against {said} % (table 7; Contriever is the start)",
            _list_top_hits(worths, seen.ranked.by["distilled"]),
            _list_top_hits(worths, seen.ranked.by[name]),
        )
    gold = {question.text: question.gold for question in seen.world.asked}
    holding = [
        [float(contains_any_answer(text, gold[each.question])) for text in each.references]
        for each in seen.weighed
    ]
    yield _make_paired_finding(
        "what it ranks first holds an accepted answer more often than what its start does",
        "not measured: table 7 weighs by the words of written answers",
        _list_top_hits(holding, seen.ranked.by["distilled"]),
        _list_top_hits(holding, seen.ranked.by["start"]),
    )


def _make_paired_finding(
    effect: str,
    paper: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    groups: Sequence[str] | None = None,
    why: str = "",
) -> Finding:
    """Make a finding from paired values, with the interval of their mean difference; `why` is kept
    only if the difference is not beyond it."""
    more = estimate_mean([one - other for one, other in zip(ours, theirs, strict=True)], groups)
    both = " against ".join(format_estimate(estimate_mean(each, groups)) for each in (ours, theirs))
    beyond = more.low > 0
    return Finding(
        effect, paper, f"{both}: {format_estimate(more)} more", beyond, "" if beyond else why
    )


def _list_top_hits(worths: Sequence[Sequence[float]], rows: ScoreRows) -> list[float]:
    """Return 1 or 0 for each question: a best reference is ranked first; questions whose references
    are all worth the same are left out."""
    found = [compute_expected_hit(worth, row, 1) for worth, row in zip(worths, rows, strict=True)]
    return [one for one in found if one is not None]


def _find_scorer_effects(seen: RecipeData) -> Iterator[Finding]:
    """Yield findings on the scorer, on pairs balanced by time and length and on all pairs."""
    paper = "accuracy 59.6 % on ELI5 (table 9); its pairs are not balanced by time"
    for balanced, which in ((True, "where neither tells anything"), (False, "on all pairs")):
        right, groups = score_pairs(seen, balanced)
        for name in ("longest", "earliest"):
            effect = f"the scorer finds the answer with more votes more often than {name}, {which}"
            yield _make_paired_finding(
                effect, paper, right["scorer"], right[name], groups, FEW_PAIRS_REASON
            )


def score_pairs(seen: RecipeData, balanced: bool) -> tuple[dict[str, list[float]], list[str]]:
    """Return, for each method, 1 for each pair whose better answer it scores higher, 1/2 for ties,
    0 otherwise; and each pair's thread."""
    rules = replace(seen.settings.thumbs, balanced=balanced)
    places = {thread.id: at for at, thread in enumerate(seen.world.held)}
    right: dict[str, list[float]] = {name: [] for name in seen.scored.by}
    groups = []
    for each in make_vote_comparisons(seen.world.held, rules).comparisons:
        at = places[each.question.id]
        posts = [_find_post(seen.world.held[at], answer.text) for answer in each.answers]
        better, worse = posts if each.weights[0] else posts[::-1]
        groups.append(each.question.id)
        for name, rows in seen.scored.by.items():
            right[name].append(
                compute_pair_accuracy((1.0, 0.0), (rows[at][better], rows[at][worse])) or 0.0
            )
    return right, groups


def _find_post(thread: ForumThread, text: str) -> int:
    """Return the number of the post that this text is, or is the beginning of."""
    return next(at for at, post in enumerate(thread.answers) if post.text.startswith(text))


def _select_long_threads(seen: RecipeData) -> tuple[dict[str, ScoreRows], ScoreRows]:
    """Return each method's scores, and log2(1 + votes), of threads with at least n answers."""
    some = [
        at for at, thread in enumerate(seen.world.held) if len(thread.answers) >= seen.settings.n
    ]
    votes = [_log_votes(seen.world.held[at]) for at in some]
    return {name: [rows[at] for at in some] for name, rows in seen.scored.by.items()}, votes


def _log_votes(thread: ForumThread) -> list[float]:
    return [math.log2(1 + max(post.votes, 0)) for post in thread.answers]


def _find_best_of_n_effect(seen: RecipeData) -> Finding:
    given, votes = _select_long_threads(seen)
    more = {
        name: estimate_best_of_n_gain(rows, votes, [seen.settings.n])[seen.settings.n]
        for name, rows in given.items()
    }
    return Finding(
        f"the best of {seen.settings.n} by the scorer has more votes than one at random",
        "people prefer answers chosen by the scorer (table 8)",
        f"log2(1 + votes) {format_estimate(more['scorer'])} more; the longest "
        f"{format_estimate(more['longest'])}, the "
        f"earliest {format_estimate(more['earliest'])}",
        more["scorer"].low > 0,
        "" if more["scorer"].low > 0 else FEW_PAIRS_REASON,
    )


def list_citation_variants(seen: RecipeData) -> dict[str, Sequence[Answer]]:
    """Return answers before and after correction and filters, by stage."""
    written = [each for each in seen.written if each.steps]
    left = {each.question.id for each in seen.filtered if each.answer is not None}
    return {
        "as written": [seen.policy.rebuild_written_answer(each) for each in written],
        "as written, of those that survive": [
            seen.policy.rebuild_written_answer(each) for each in written if each.question.id in left
        ],
        "corrected": [each.answer or Answer("") for each in written],
        "corrected and filtered": [
            each.answer for each in written if each.question.id in left and each.answer
        ],
    }


def _find_filter_effects(seen: RecipeData) -> Iterator[Finding]:
    entails = seen.policy.make_entailment(seen.written)
    by = {
        name: score_system_citations(answers, entails)
        for name, answers in list_citation_variants(seen).items()
    }
    paper = "citation accuracy 2.37 unfiltered, 2.57 by ROUGE-L, 2.69 by ROUGE-1 (table 5)"
    for ours, theirs, effect in (
        ("corrected", "as written", "correction raises citation precision"),
        ("as written, of those that survive", "as written", "filters raise it, as it was written"),
        ("corrected and filtered", "corrected", "filters raise it after correction too"),
    ):
        one, other = by[ours], by[theirs]
        beyond = one.precision.low > other.precision.high
        said = (
            f"{format_estimate(one.precision)} against {format_estimate(other.precision)}; "
            f"recall {format_estimate(one.recall)} against {format_estimate(other.recall)}"
        )
        yield Finding(effect, paper, said, beyond, "" if beyond else CORRECTION_REASON)


def make_figures(seen: RecipeData) -> Iterator[Figure]:
    """Yield table 7, table 9, the survival of filters, citation precision and recall, and best of
    n."""
    worths = [each.worths for each in seen.weighed]
    count = f"{len(seen.weighed)} questions of articles that nothing was learnt from"
    yield make_ranking_figure(
        {name: measure_rankings(worths, rows, (1,)) for name, rows in seen.ranked.by.items()},
        f"References of {count}, weighed by ROUGE-1 precision of the answer. Intervals: bootstrap "
        "over questions.",
        title="Retrievers",
    )
    yield _make_filter_figure(seen)
    entails = seen.policy.make_entailment(seen.written)
    yield make_citations_figure(
        {
            name: score_system_citations(answers, entails)
            for name, answers in list_citation_variants(seen).items()
        },
        "A statement is entailed by the reference that it was made from, which the stand-in knows.",
    )
    n, (given, votes) = seen.settings.n, _select_long_threads(seen)
    yield make_ranking_figure(
        {name: measure_rankings(votes, rows, (1,)) for name, rows in given.items()},
        f"Answers of {len(votes)} threads that nothing was learnt from, with {n} answers or "
        "more, weighed by log2(1 + votes). Intervals: bootstrap over threads.",
        name="scorer",
        title="Scorers",
    )
    yield make_best_of_n_figure(
        {
            name: estimate_best_of_n_curve(rows, votes, range(1, n + 1))
            for name, rows in given.items()
        },
        f"The same {len(votes)} threads.",
        worth="log2(1 + votes)",
    )


def _make_filter_figure(seen: RecipeData) -> Figure:
    stops = Counter(each.stop for each in seen.filtered)
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
        f"The retriever learnt from {learnt.questions} questions (WebGLM: 20,000), the step chosen "
        f"on {learnt.validation_questions} others being {learnt.best_step} of {learnt.steps}."
    )
    yield (
        f"The scorer learnt from {preferred.comparisons} pairs (WebGLM: 230,000), of which the "
        f"earlier wins {before.earlier or 0:.0%} and the longer {before.longer or 0:.0%}; step "
        f"{preferred.best_step} of {preferred.steps}."
    )
