"""What WebGLM's recipe finds: rankings, scores, and what they and the filters are worth.

It knows nothing of how models learn.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from msgspec.structs import replace

from recipes.stages import Finding, told
from recipes.webglm_data import Bootstrapper, Data
from recipes.webglm_stages import Bootstrapped, Settings
from rookery.cite.ordered import accuracy
from rookery.draft.adopt import holds
from rookery.judge.thumbs import Bias, Thread, thumbs_up
from rookery.learn.encoder import read_encoder
from rookery.learn.prefer import Preferred
from rookery.learn.referred import Weighed
from rookery.learn.retrieve import Retrieved
from rookery.learn.scorer import Scorer
from rookery.measure.baselines import bm25, corpus, earliest, longest, tf_idf
from rookery.measure.bestofn import best_of_figure, curve, gain
from rookery.measure.citations import citations_figure, cited
from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.interval import mean
from rookery.measure.ranking import hit, ranked, ranking_figure
from rookery.records import Answer, Episode, Question, Record

FEW = (
    "two small forums, on which votes tell who came first more than who wrote better: what is left "
    "takes more than a thousand pairs to learn, and more than this to show"
)
CORRECTED = "correction numbers by shared words: what it leaves wrong, filters by words leave too"
Rows = list[list[float]]
"""a number for each reference of each question, or each answer of each thread"""


class Given(Record, frozen=True):
    """What each method gives references, or answers of threads."""

    by: dict[str, Rows]


def rankings(asked: Sequence[Weighed], models: Mapping[str, str]) -> Given:
    """By words alone, and by encoders; rarity of words is that in all references."""
    among = corpus(list(dict.fromkeys(text for each in asked for text in each.references)))
    by = {
        "TF-IDF": [tf_idf(each.question, each.references, among) for each in asked],
        "BM25": [bm25(each.question, each.references, among) for each in asked],
    }
    return Given(by | {name: _cosines(asked, model) for name, model in models.items()})


def _cosines(asked: Sequence[Weighed], model: str) -> Rows:
    encoder, found = read_encoder(model), []
    with torch.inference_mode():
        for each in asked:
            vectors = encoder([each.question, *each.references])
            found.append((vectors[1:] @ vectors[0]).tolist())
    return found


def scores(scorer: Scorer, held: Sequence[Thread], most: int) -> Given:
    """Of all answers of each thread, by the scorer and by what has nothing to do with it."""
    pairs = [
        (Question(thread.id, thread.text), Answer(post.text[:most]))
        for thread in held
        for post in thread.answers
    ]
    each = iter(scorer.scores(pairs))
    mine = [[next(each) for _ in thread.answers] for thread in held]
    return Given(
        {
            "scorer": mine,
            "longest": [longest(thread) for thread in held],
            "earliest": [earliest(thread) for thread in held],
        }
    )


class Seen(NamedTuple):
    """All that was done, to be measured."""

    world: Data
    policy: Bootstrapper
    parts: tuple[Bootstrapped, Bootstrapped]
    """answers to the questions learnt from, and to those measured on"""
    weighed: Sequence[Weighed]
    """the latter's references"""
    ranked: Given
    scored: Given
    settings: Settings

    @property
    def written(self) -> list[Episode]:
        """All answers, their citations corrected."""
        return [each for part in self.parts for each in part.written]

    @property
    def filtered(self) -> list[Episode]:
        """The same, without an answer where a filter set it aside."""
        return [each for part in self.parts for each in part.filtered]


def findings(seen: Seen) -> Iterator[Finding]:
    """The effects, each with its interval."""
    yield from _of_ranking(seen)
    yield from _of_scorer(seen)
    yield _of_best(seen)
    yield from _of_filters(seen)


def _of_ranking(seen: Seen) -> Iterator[Finding]:
    """Table 7's accuracy can only be how often the best is first: Contriever has less than a fifth
    of five, beside a Spearman of about 0."""
    paper = {"start": "18.54", "BM25": "40.33", "TF-IDF": "46.85"}
    worths = [each.worths for each in seen.weighed]
    for name, said in paper.items():
        yield _compared(
            f"the distilled retriever finds what an answer was written from more often than {name}",
            f"accuracy 69.36 against {said} % (table 7; Contriever is the start)",
            _first(worths, seen.ranked.by["distilled"]),
            _first(worths, seen.ranked.by[name]),
        )
    gold = {question.text: question.gold for question in seen.world.asked}
    holding = [
        [float(holds(text, gold[each.question])) for text in each.references]
        for each in seen.weighed
    ]
    yield _compared(
        "what it ranks first holds an accepted answer more often than what its start does",
        "not measured: table 7 weighs by the words of written answers",
        _first(holding, seen.ranked.by["distilled"]),
        _first(holding, seen.ranked.by["start"]),
    )


def _compared(
    effect: str,
    paper: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    groups: Sequence[str] | None = None,
    why: str = "",
) -> Finding:
    """Pair by pair, with the interval of the difference; and why, where there is none."""
    more = mean([one - other for one, other in zip(ours, theirs, strict=True)], groups)
    both = " against ".join(told(mean(each, groups)) for each in (ours, theirs))
    beyond = more.low > 0
    return Finding(effect, paper, f"{both}: {told(more)} more", beyond, "" if beyond else why)


def _first(worths: Sequence[Sequence[float]], rows: Rows) -> list[float]:
    """How often one of those worth most is first, where not all are worth the same."""
    found = [hit(worth, row, 1) for worth, row in zip(worths, rows, strict=True)]
    return [one for one in found if one is not None]


def _of_scorer(seen: Seen) -> Iterator[Finding]:
    """On pairs of which neither time nor length tells anything, and on pairs as they are."""
    paper = "accuracy 59.6 % on ELI5 (table 9); its pairs are not balanced by time"
    for balanced, which in ((True, "where neither tells anything"), (False, "on all pairs")):
        right, groups = pairs_right(seen, balanced)
        for name in ("longest", "earliest"):
            effect = f"the scorer finds the answer with more votes more often than {name}, {which}"
            yield _compared(effect, paper, right["scorer"], right[name], groups, FEW)


def pairs_right(seen: Seen, balanced: bool) -> tuple[dict[str, list[float]], list[str]]:
    """Of each pair whether each method finds the better answer, ties half; and its thread."""
    rules = replace(seen.settings.thumbs, balanced=balanced)
    places = {thread.id: at for at, thread in enumerate(seen.world.held)}
    right: dict[str, list[float]] = {name: [] for name in seen.scored.by}
    groups = []
    for each in thumbs_up(seen.world.held, rules).comparisons:
        at = places[each.question.id]
        posts = [_post(seen.world.held[at], answer.text) for answer in each.answers]
        better, worse = posts if each.weights[0] else posts[::-1]
        groups.append(each.question.id)
        for name, rows in seen.scored.by.items():
            right[name].append(accuracy((1.0, 0.0), (rows[at][better], rows[at][worse])) or 0.0)
    return right, groups


def _post(thread: Thread, text: str) -> int:
    """The answer that this is, or is the beginning of."""
    return next(at for at, post in enumerate(thread.answers) if post.text.startswith(text))


def _best(seen: Seen) -> tuple[dict[str, Rows], Rows]:
    """What each method gives, and how many people liked it: of threads with n answers or more."""
    some = [
        at for at, thread in enumerate(seen.world.held) if len(thread.answers) >= seen.settings.n
    ]
    votes = [_votes(seen.world.held[at]) for at in some]
    return {name: [rows[at] for at in some] for name, rows in seen.scored.by.items()}, votes


def _votes(thread: Thread) -> list[float]:
    return [math.log2(1 + max(post.votes, 0)) for post in thread.answers]


def _of_best(seen: Seen) -> Finding:
    given, votes = _best(seen)
    more = {
        name: gain(rows, votes, [seen.settings.n])[seen.settings.n] for name, rows in given.items()
    }
    return Finding(
        f"the best of {seen.settings.n} by the scorer has more votes than one at random",
        "people prefer answers chosen by the scorer (table 8)",
        f"log2(1 + votes) {told(more['scorer'])} more; the longest {told(more['longest'])}, the "
        f"earliest {told(more['earliest'])}",
        more["scorer"].low > 0,
        "" if more["scorer"].low > 0 else FEW,
    )


def citations(seen: Seen) -> dict[str, Sequence[Answer]]:
    """Answers before and after correction and filters, of all questions."""
    written = [each for each in seen.written if each.steps]
    left = {each.question.id for each in seen.filtered if each.answer is not None}
    return {
        "as written": [seen.policy.as_written(each) for each in written],
        "as written, of those that survive": [
            seen.policy.as_written(each) for each in written if each.question.id in left
        ],
        "corrected": [each.answer or Answer("") for each in written],
        "corrected and filtered": [
            each.answer for each in written if each.question.id in left and each.answer
        ],
    }


def _of_filters(seen: Seen) -> Iterator[Finding]:
    entails = seen.policy.entails(seen.written)
    by = {name: cited(answers, entails) for name, answers in citations(seen).items()}
    paper = "citation accuracy 2.37 unfiltered, 2.57 by ROUGE-L, 2.69 by ROUGE-1 (table 5)"
    for ours, theirs, effect in (
        ("corrected", "as written", "correction raises citation precision"),
        ("as written, of those that survive", "as written", "filters raise it, as it was written"),
        ("corrected and filtered", "corrected", "filters raise it after correction too"),
    ):
        one, other = by[ours], by[theirs]
        beyond = one.precision.low > other.precision.high
        said = (
            f"{told(one.precision)} against {told(other.precision)}; "
            f"recall {told(one.recall)} against {told(other.recall)}"
        )
        yield Finding(effect, paper, said, beyond, "" if beyond else CORRECTED)


def figures(seen: Seen) -> Iterator[Figure]:
    """Table 7, table 9, what is left by filters, citations, and the best of n."""
    worths = [each.worths for each in seen.weighed]
    count = f"{len(seen.weighed)} questions of articles that nothing was learnt from"
    yield ranking_figure(
        {name: ranked(worths, rows, (1,)) for name, rows in seen.ranked.by.items()},
        f"References of {count}, weighed by ROUGE-1 precision of the answer. Intervals: bootstrap "
        "over questions.",
        title="Retrievers",
    )
    yield _survival(seen)
    entails = seen.policy.entails(seen.written)
    yield citations_figure(
        {name: cited(answers, entails) for name, answers in citations(seen).items()},
        "A statement is entailed by the reference that it was made from, which the stand-in knows.",
    )
    n, (given, votes) = seen.settings.n, _best(seen)
    yield ranking_figure(
        {name: ranked(votes, rows, (1,)) for name, rows in given.items()},
        f"Answers of {len(votes)} threads that nothing was learnt from, with {n} answers or "
        "more, weighed by log2(1 + votes). Intervals: bootstrap over threads.",
        name="scorer",
        title="Scorers",
    )
    yield best_of_figure(
        {name: curve(rows, votes, range(1, n + 1)) for name, rows in given.items()},
        f"The same {len(votes)} threads.",
        worth="log2(1 + votes)",
    )


def _survival(seen: Seen) -> Figure:
    stops = Counter(each.stop for each in seen.filtered)
    names = {"end": "survives", "bad_syntax": "nothing cited matches"}
    rows = [(names.get(stop, stop.replace("_", " ")), n) for stop, n in stops.most_common()]
    places = tuple(name for name, _ in rows)
    line = Line("answers", tuple((float(at), float(n)) for at, (_, n) in enumerate(rows)))
    return Figure(
        "filters",
        "What becomes of bootstrapped answers",
        "Each answer is counted at the first filter that sets it aside.",
        ("", "answers"),
        tuple(rows),
        Picture("bars", (line,), y="answers", places=places),
        "WebGLM, section 3.2.3",
    )


def notes(learnt: Retrieved, preferred: Preferred, before: Bias) -> Iterator[str]:
    """What is smaller or other than in the paper."""
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
