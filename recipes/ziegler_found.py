"""Effects, scores and figures of `recipes.ziegler`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from recipes.findings import Effect, ScoreTable
from recipes.ziegler_data import Task
from recipes.ziegler_stages import REFERENCE, PolicyComparison
from rookery.browse.passages import find_sentences
from rookery.cite.word_overlap import split_words
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import estimate_mean
from rookery.measure.pairwise import make_win_rate_figure
from rookery.measure.ranking import make_lead_answer, quote_random_sentence
from rookery.measure.reward_frontiers import (
    estimate_best_of_n_curve,
    find_optimal_policies,
    make_frontier_figure,
)
from rookery.measure.text_metrics import (
    estimate_corpus_rouge,
    find_longest_stretch,
    make_copy_map_figure,
    make_text_figure,
    measure_novelty,
    measure_repetition,
)
from rookery.records import Answer, Page


class TaskReport(NamedTuple):
    """Effects, scores and figures of one task."""

    effects: list[Effect]
    tables: list[ScoreTable]
    figures: list[Figure]


CANNED, LISTED, PEOPLE = "canned sentence", "twelve physical words", "people"
BY_LOT, TOLD_SENTENCE = "sentence by lot", "best sentence, told the summary"
CANNED_REASON = (
    "the labeller is a formula, and a text that was made for it pleases it more than a "
    "continuation that stays near the reference"
)
NOTES = (
    "A reward is the log-odds of a continuation by TF-IDF and logistic regression, and not of the "
    "whole text by a transformer; on reviews that it has not seen the mock labeller is right for",
    "The language model has 0.65 million weights, learnt from novels and abstracts in one epoch; "
    "the paper's has 774 million. A policy sees some thousand episodes, the paper's 2 million, in "
    "half as many epochs; its value network is a head, and no reward asks for a full stop.",
    "Descriptive is the number of different words of a list of physical ones; nobody was asked.",
    "The labeller of summaries prefers the highest R-AVG with what people wrote.",
)
PAPER_ROUGE = {
    "supervised": "10.6 to 11.9 % (table 4, TL;DR)",
    "labels": "11.9 to 12.5 % (table 4, TL;DR)",
}
ACCURACY_NOTE = "How often reward models find the one of four that was chosen, by lot 25 %:"
KL_TOLERANCE = 0.2
"""Allowed deviation of the KL from its target, as a share of it."""


CHOSEN = (
    "settings on another draw of texts (docs/LOG.md); the canned sentence on texts that the "
    "language model learnt from; nothing on these"
)


def report_sentiment(
    seen: Mapping[str, PolicyComparison],
    kls: Mapping[str, Sequence[float]],
    aims: Mapping[str, float],
    drawn: Sequence[Sequence[float]],
    betas: Sequence[float],
    canned: float,
) -> TaskReport:
    """Report on the sentiment task: policies that learnt offline and online, that imitate, and that
    know the hidden reward.

    `aims` holds the KL targets by run, `drawn` rewards of the reference's samples by question,
    `canned` the reward of the canned sentence.
    """
    best = find_optimal_policies(drawn, betas)
    says = f"{len(drawn)} excerpts held out; intervals by excerpt, one seed."
    runs = {name: [each.reached] for name, each in seen.items()}
    matches = [match for each in seen.values() for match in each.matches]
    first = seen["offline"]
    each = len(first.groups) // len(drawn)
    name = f"best of {len(drawn[0])} by the labeller"
    most = tuple(max(row) for row in drawn for _ in range(each))
    scores = {one: tuple(its.rewards) for one, its in seen.items()} | {
        REFERENCE: tuple(first.reference),
        CANNED: (canned,) * len(first.groups),
        name: most,
    }
    make_effect = partial(
        Effect,
        table="sentiment",
        reference=REFERENCE,
        chance=(REFERENCE,),
        script=(CANNED,),
        best=(name,),
        chosen=CHOSEN,
        why=CANNED_REASON,
    )
    effects = [
        make_effect(
            effect="learning from labels, offline, gives more reward than the reference",
            paper="preferred 88 % (table 1)",
            learnt="offline",
        ),
        make_effect(
            effect="learning from labels, online, gives more reward than the reference",
            paper="as offline (table 1)",
            learnt="online",
        ),
        make_effect(
            effect="learning from labels gives more reward than imitating the chosen answers",
            paper="not in the paper",
            learnt="offline",
            reference="cloned",
            why="the best of four is far from what the reference says most: imitating it alone "
            "goes as far as learning from which it was",
        ),
        make_effect(
            effect="online and offline labels lead to the same reward",
            paper="50 % preferred (table 1)",
            learnt="online",
            reference="offline",
            claim="same",
        ),
        *(
            make_effect(
                effect=f"learning from the hidden reward itself at {aims[one]:g} nats gives more "
                "reward than the reference",
                paper="below the optimum, and nearer with more training (figure 3)",
                learnt=one,
            )
            for one in kls
        ),
        *(find_kl_control(one, aims[one]) for one in kls),
    ]
    tables = [
        ScoreTable("sentiment", "hidden reward, in log-odds", tuple(first.groups), scores),
        *(make_kl_table(one, aims[one], values) for one, values in kls.items()),
    ]
    return TaskReport(
        effects,
        tables,
        [
            make_frontier_figure(runs, best, says, estimate_best_of_n_curve(drawn, drawn)),
            make_win_rate_figure(matches, REFERENCE, says),
            make_kl_figure(kls, aims),
        ],
    )


def find_kl_control(run: str, target: float) -> Effect:
    """Return the effect that the KL controller held its target in the last third of a run, within
    KL_TOLERANCE."""
    none = "a KL is held or not: no policy by lot or script has a target"
    return Effect(
        effect=f"the adaptive controller holds a KL of {target:g} nats within {KL_TOLERANCE:.0%}",
        paper="runs are made comparable by it (section 2.2)",
        table=f"KL of {run}",
        learnt="KL",
        reference="target",
        absent={"chance": none, "script": none, "best": "the target itself"},
        claim="same",
        margin=KL_TOLERANCE * target,
        chosen="the controller's gain on other runs (docs/LOG.md), the tolerance before them",
    )


def make_kl_table(run: str, target: float, kls: Sequence[float]) -> ScoreTable:
    """Return the KL of each batch in the last third of a run, beside its target."""
    start = len(kls) * 2 // 3
    last = tuple(kls[start:])
    return ScoreTable(
        f"KL of {run}",
        "nats an episode, batches of the last third, which follow one another",
        tuple(f"batch {at}" for at in range(start, len(kls))),
        {"KL": last, "target": (target,) * len(last)},
    )


def report_descriptive(seen: PolicyComparison, listed: float) -> TaskReport:
    """Report on the descriptive task; `listed` is the reward of the list of physical words."""
    rewards: dict[str, list[float]] = {}
    for group, reward in zip(seen.groups, seen.reference, strict=True):
        rewards.setdefault(group, []).append(reward)
    best = f"best of {len(next(iter(rewards.values())))} by the labeller"
    scores = {
        "described": tuple(seen.rewards),
        REFERENCE: tuple(seen.reference),
        LISTED: (listed,) * len(seen.groups),
        best: tuple(max(rewards[group]) for group in seen.groups),
    }
    effect = Effect(
        effect="learning to describe gives more reward than the reference",
        paper="preferred 86 % (table 1)",
        table="descriptive",
        learnt="described",
        reference=REFERENCE,
        chance=(REFERENCE,),
        script=(LISTED,),
        best=(best,),
        chosen=CHOSEN,
        why=CANNED_REASON,
    )
    says = "different physical words in a continuation"
    return TaskReport([effect], [ScoreTable("descriptive", says, tuple(seen.groups), scores)], [])


def report_summaries(task: Task, said: Mapping[str, Sequence[str]]) -> TaskReport:
    """Report on the summary task; `said` holds summaries by system, and those of `labels` were
    trained after `supervised`."""
    sources, golds = [one.text for one in task.held], [one.gold for one in task.held]
    pages = [Page("", "", text) for text in sources]
    firsts = {
        f"lead-{count}": [make_lead_answer(page, count).text for page in pages] for count in (1, 3)
    }
    by_lot = [quote_random_sentence(page, at).text for at, page in enumerate(pages)]
    written = {PEOPLE: [gold[0] for gold in golds]}
    every = {**said, **firsts, **written}
    says = f"{len(sources)} abstracts held out; intervals by abstract."
    rouges = {
        name: estimate_corpus_rouge(texts, golds) for name, texts in {**said, **firsts}.items()
    }
    questions = tuple(one.id for one in task.held)
    summaries = {**said, **firsts, BY_LOT: by_lot}
    overlap = {name: _score_summaries(task, texts) for name, texts in summaries.items()}
    sentences = [
        _score_summaries(task._replace(held=[one] * len(texts)), texts)
        for one, texts in zip(task.held, map(_list_sentences, pages), strict=True)
    ]
    overlap[TOLD_SENTENCE] = tuple(map(max, sentences))
    copied = {
        name: tuple(map(_measure_copied_share, texts, sources)) for name, texts in every.items()
    }
    make_effect = partial(
        Effect,
        table="summaries",
        chance=(BY_LOT,),
        script=("lead-1", "lead-3"),
        best=(TOLD_SENTENCE,),
        chosen=CHOSEN,
    )
    effects = [
        make_effect(
            effect="imitating summaries of people raises ROUGE (R-AVG)",
            paper=PAPER_ROUGE["supervised"],
            learnt="supervised",
            reference="zero-shot",
        ),
        make_effect(
            effect="learning from labels after that raises ROUGE (R-AVG)",
            paper=PAPER_ROUGE["labels"],
            learnt="labels",
            reference="supervised",
        ),
        Effect(
            effect="summaries that were learnt from labels copy more than people's",
            paper="71 % of sentences are copied whole (section 3.2.1, TL;DR)",
            table="copied",
            learnt="labels",
            reference=PEOPLE,
            chance=("supervised",),
            absent={
                "script": "lead-1 copies everything: the most there is, and no floor",
                "best": "copying is no aim",
            },
            chosen=CHOSEN,
        ),
    ]
    return TaskReport(
        effects,
        [
            ScoreTable("summaries", "R-AVG with the best of people's", questions, overlap),
            ScoreTable("copied", "share that its longest copied stretch is", questions, copied),
        ],
        [
            make_text_figure("rouge", rouges, says),
            make_text_figure(
                "novel",
                {name: measure_novelty(texts, sources) for name, texts in every.items()},
                says,
            ),
            make_text_figure(
                "repeated", {name: measure_repetition(texts) for name, texts in every.items()}, says
            ),
            make_copy_map_figure(said["labels"], sources, f"What was learnt from labels; {says}"),
        ],
    )


def _score_summaries(task: Task, texts: Sequence[str]) -> tuple[float, ...]:
    """Return R-AVG of each text with the best summary that people wrote, 0 to 1."""
    pairs = list(zip(task.held, map(Answer, texts), strict=True))
    return tuple(score / 10 for score in task.worth(pairs))


def _list_sentences(page: Page) -> list[str]:
    return [page.text[start:end] for start, end in find_sentences(page, 0, len(page.text))]


def _measure_copied_share(said: str, source: str) -> float:
    return find_longest_stretch(said, source).length / max(1, len(split_words(said)))


def make_kl_figure(kls: Mapping[str, Sequence[float]], targets: Mapping[str, float]) -> Figure:
    """Return the figure of each batch's KL beside its target."""
    lines = [FigureLine(name, tuple(enumerate(values))) for name, values in kls.items()]
    lines += [
        FigureLine(
            f"target {target:g}", ((0, target), (len(kls[name]) - 1, target)), style="dashed"
        )
        for name, target in targets.items()
    ]
    rows = [
        (name, targets[name], estimate_mean(values[len(values) * 2 // 3 :]).value, values[-1])
        for name, values in kls.items()
    ]
    return Figure(
        "kl-control",
        "The KL follows its target",
        "KL of each batch of episodes, in nats an episode, while beta is adapted.",
        ("run", "target", "mean of the last third", "last batch"),
        tuple(rows),
        FigurePicture("curves", tuple(lines), "batch", "KL, nats"),
        "Ziegler, section 2.2",
    )
