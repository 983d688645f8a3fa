"""Effects, scores and figures of `recipes.ziegler`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from recipes.baselines import make_lead_answer, quote_random_sentence
from recipes.findings import Effect, ScoreTable
from recipes.measures import find_longest_stretch, make_copy_map_figure
from recipes.ziegler_data import Judges, Task
from recipes.ziegler_stages import REFERENCE, PolicyComparison, Settings
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import estimate_mean
from rookery.measure.pairwise import make_win_rate_figure
from rookery.measure.reward_frontiers import (
    estimate_best_of_n_curve,
    find_optimal_policies,
    make_frontier_figure,
)
from rookery.measure.text_metrics import (
    estimate_corpus_rouge,
    make_text_figure,
    measure_novelty,
    measure_repetition,
)
from rookery.pages.passages import find_sentences
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Page


class TaskReport(NamedTuple):
    """Effects, scores and figures of one task."""

    effects: list[Effect]
    tables: list[ScoreTable]
    figures: list[Figure]


CANNED, LISTED, PEOPLE = "canned sentence", "twelve physical words", "people"
BEST = "best of the reference's, by the labeller"
BY_LOT, TOLD_SENTENCE = "sentence by lot", "best sentence, told the summary"
AIMED = "sentiment, by the labeller"
NO_EQUAL_KL = "best of n at equal KL was not measured"
PAPER_ROUGE = {
    "supervised": "10.6 to 11.9 % (table 4, TL;DR)",
    "labels": "11.9 to 12.5 % (table 4, TL;DR)",
}
SAME_REWARD = 0.25
"""Largest difference of the judge's log-odds that counts as the same."""
KL_TOLERANCE = 0.2
"""Allowed deviation of the KL from its target, as a share of it."""


CHOSEN = (
    "settings on another draw of texts (docs/LOG.md); the canned sentence on passages that nothing "
    "is measured on; nothing on these"
)


def list_notes(
    settings: Settings,
    judges: tuple[Judges, Judges],
    right: Mapping[str, tuple[float, float]],
    canned: str,
) -> list[str]:
    """Return what differs from the paper, and how good labellers, judges and reward models are.

    `right` holds the accuracy of each run's reward model, and that by lot.
    """
    kind, vivid = map(_describe_judges, judges)
    credits = ", ".join(f"{name} {each:.0%} ({lot:.0%})" for name, (each, lot) in right.items())
    begun = (
        f"The language model is {settings.model}, as it is; what it was trained on may hold the "
        "novels."
        if settings.model
        else "The language model is random weights that have learnt novels and abstracts once."
    )
    return [
        "Labels come from TF-IDF and logistic regression on 45 % of the texts; results are judged "
        "by logistic regression on MiniLM's sentence embeddings of others. Sentiment was learnt "
        f"from film reviews: on those that neither has learnt from, {kind}. Description was learnt "
        "from passages of the novels with a word of a list of physical ones, and as many without "
        f"one: {vivid}. The judge reads also continuations without a full stop, which get no "
        "reward.",
        "The list of physical words and the canned sentence, which the labeller likes best, are "
        f"read by the judge as well. The sentence is “{canned}”.",
        "The labeller of summaries prefers the highest R-AVG with what people wrote; the judge is "
        "the cosine of MiniLM's sentence embeddings with it.",
        f"{begun} The paper's has 774 million weights and learns in 2 million episodes from 5,000 "
        f"labels; here {settings.labels.episodes} episodes from {settings.labels.labels} labels, "
        f"and {settings.summaries.episodes} from {settings.summaries.labels} for summaries. The "
        "value network is a head on the policy.",
        "A label compares those of four answers that have their full stop or end, and not four "
        "that were drawn until they had. How often reward models find the chosen one, on the tenth "
        f"of the labels that was held out, and by lot: {credits}.",
    ]


def _describe_judges(judges: Judges) -> str:
    labeller, judge = judges.accuracies
    return (
        f"labeller and judge are right for {labeller:.1%} and {judge:.1%}, and call "
        f"{judges.agreement:.1%} the same"
    )


def report_sentiment(
    comparisons: Mapping[str, PolicyComparison],
    kls: Mapping[str, Sequence[float]],
    aims: Mapping[str, float],
    draws: Sequence[Sequence[float]],
    judged: Sequence[Sequence[float]],
    betas: Sequence[float],
    canned: float,
) -> TaskReport:
    """Report on the sentiment task: policies that learnt offline and online, and that know the
    hidden reward.

    `aims` holds the KL targets by run, `draws` and `judged` the labeller's and the judge's rewards
    of the reference's samples by question, `canned` the judge's reward of the canned sentence.
    """
    first = comparisons["offline"]
    count = len({*first.groups})
    says = f"{count} excerpts held out; intervals by excerpt, one seed."
    sample_note = (
        f"Best of n and optimum are of {len(draws)} of them, {len(draws[0])} samples each."
    )
    matches = [match for each in comparisons.values() for match in each.matches]
    scores = {one: tuple(comparison.rewards) for one, comparison in comparisons.items()} | {
        REFERENCE: tuple(first.reference),
        CANNED: (canned,) * len(first.groups),
        BEST: choose_by_labeller(first),
    }
    make_effect = partial(
        Effect,
        table="sentiment",
        aimed=AIMED,
        reference=REFERENCE,
        lacking=NO_EQUAL_KL,
        facts=(BEST,),
        hacks=(CANNED,),
        chosen=CHOSEN,
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
            effect="online and offline labels lead to the same reward",
            paper="50 % preferred (table 1)",
            learnt="online",
            reference="offline",
            claim="same",
            margin=SAME_REWARD,
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
        Effect(
            effect="learning from labels, offline, gives more continuations with the full stop "
            "that is asked for",
            paper="others have a fixed reward of -1 (section 3.1.2)",
            table="full stops",
            learnt="offline",
            reference=REFERENCE,
            lacking="a script puts the full stop always",
            chosen=CHOSEN,
        ),
        *(find_kl_control(one, aims[one]) for one in kls),
    ]
    hidden = {one: tuple(comparison.hidden) for one, comparison in comparisons.items()}
    hidden[REFERENCE] = tuple(first.reference_hidden)
    stops = {one: tuple(comparison.whole) for one, comparison in comparisons.items()}
    stops[REFERENCE] = tuple(first.reference_whole)
    tables = [
        ScoreTable("sentiment", "the judge's log-odds", tuple(first.groups), scores),
        ScoreTable(AIMED, "the labeller's log-odds", tuple(first.groups), hidden),
        ScoreTable("full stops", "share of continuations", tuple(first.groups), stops),
        *(make_kl_table(one, aims[one], values) for one, values in kls.items()),
    ]
    return TaskReport(
        effects,
        tables,
        [
            make_frontier_figure(
                {name: [each.reached] for name, each in comparisons.items()},
                find_optimal_policies(draws, betas),
                f"{says} {sample_note} Rewards are the labeller's.",
                estimate_best_of_n_curve(draws, draws),
            ),
            make_frontier_figure(
                {name: [each.judged] for name, each in comparisons.items()},
                (),
                f"{says} {sample_note} Rewards are the judge's, who did not label.",
                estimate_best_of_n_curve(draws, judged),
                "frontier-judged",
                "Reward by another judge against distance from the first policy",
            ),
            make_win_rate_figure(matches, REFERENCE, says),
            make_kl_figure(kls, aims),
        ],
    )


def choose_by_labeller(comparison: PolicyComparison) -> tuple[float, ...]:
    """Return for each row the judge's reward of that one of the reference's completions of its
    question which the labeller likes best."""
    best: dict[str, tuple[float, float]] = {}
    for group, hidden, reward in zip(
        comparison.groups, comparison.reference_hidden, comparison.reference, strict=True
    ):
        best[group] = max(best.get(group, (hidden, reward)), (hidden, reward))
    return tuple(best[group][1] for group in comparison.groups)


def find_kl_control(run: str, target: float) -> Effect:
    """Return the effect that the KL controller held its target in the last third of a run, within
    KL_TOLERANCE."""
    return Effect(
        effect=f"the adaptive controller holds a KL of {target:g} nats within {KL_TOLERANCE:.0%}",
        paper="runs are made comparable by it (section 2.2)",
        table=f"KL of {run}",
        learnt="KL",
        reference="target",
        lacking="a KL is held or not",
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


def report_descriptive(comparison: PolicyComparison, listed: float) -> TaskReport:
    """Report on the descriptive task; `listed` is the reward of the list of physical words."""
    scores = {
        "described": tuple(comparison.rewards),
        REFERENCE: tuple(comparison.reference),
        LISTED: (listed,) * len(comparison.groups),
        BEST: choose_by_labeller(comparison),
    }
    effect = Effect(
        effect="learning to describe gives more reward than the reference",
        paper="preferred 86 % (table 1)",
        table="descriptive",
        learnt="described",
        reference=REFERENCE,
        lacking=NO_EQUAL_KL,
        facts=(BEST,),
        hacks=(LISTED,),
        chosen=CHOSEN,
    )
    table = ScoreTable("descriptive", "the judge's log-odds", tuple(comparison.groups), scores)
    return TaskReport([effect], [table], [])


def report_summaries(task: Task, completions: Mapping[str, Sequence[str]]) -> TaskReport:
    """Report on the summary task; `completions` holds summaries by system, and those of `labels`
    were trained after `supervised`."""
    sources, golds = [one.text for one in task.held], [one.gold for one in task.held]
    pages = [Page("", "", text) for text in sources]
    firsts = {
        f"lead-{count}": [make_lead_answer(page, count).text for page in pages] for count in (1, 3)
    }
    by_lot = [quote_random_sentence(page, at).text for at, page in enumerate(pages)]
    written = {PEOPLE: [gold[0] for gold in golds]}
    every = {**completions, **firsts, **written}
    says = f"{len(sources)} abstracts held out; intervals by abstract."
    rouges = {
        name: estimate_corpus_rouge(texts, golds)
        for name, texts in {**completions, **firsts}.items()
    }
    questions = tuple(one.id for one in task.held)
    summaries = {**completions, **firsts, BY_LOT: by_lot}
    overlap = {name: _score_summaries(task, texts) for name, texts in summaries.items()}
    sentences = [
        _score_summaries(task._replace(held=[one] * len(texts)), texts)
        for one, texts in zip(task.held, map(_list_sentences, pages), strict=True)
    ]
    overlap[TOLD_SENTENCE] = tuple(map(max, sentences))
    copied = {
        name: tuple(map(_measure_copied_share, texts, sources)) for name, texts in every.items()
    }
    likeness = {
        name: tuple(task.judged(list(zip(task.held, map(Answer, texts), strict=True))))
        for name, texts in summaries.items()
    }
    likeness[TOLD_SENTENCE] = tuple(
        max(task.judged([(one, Answer(text)) for text in texts]))
        for one, texts in zip(task.held, map(_list_sentences, pages), strict=True)
    )
    make_effect = partial(
        Effect,
        table="summaries",
        floors=(BY_LOT,),
        facts=("lead-1", "lead-3", TOLD_SENTENCE),
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
        make_effect(
            effect="learning from labels after that brings summaries nearer to people's in meaning",
            paper="not in the paper, where people judge",
            table="likeness",
            learnt="labels",
            reference="supervised",
        ),
        Effect(
            effect="summaries that were learnt from labels copy more than people's",
            paper="71 % of sentences are copied whole (section 3.2.1, TL;DR)",
            table="copied",
            learnt="labels",
            reference=PEOPLE,
            floors=("supervised",),
            facts=("lead-1",),
            chosen=CHOSEN,
        ),
    ]
    return TaskReport(
        effects,
        [
            ScoreTable("summaries", "R-AVG with the best of people's", questions, overlap),
            ScoreTable("likeness", "cosine with the most alike of people's", questions, likeness),
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
            make_copy_map_figure(
                completions["labels"], sources, f"What was learnt from labels; {says}"
            ),
        ],
    )


def _score_summaries(task: Task, texts: Sequence[str]) -> tuple[float, ...]:
    """Return R-AVG of each text with the best summary that people wrote, 0 to 1."""
    pairs = list(zip(task.held, map(Answer, texts), strict=True))
    return tuple(score / 10 for score in task.worth(pairs))


def _list_sentences(page: Page) -> list[str]:
    return [page.text[start:end] for start, end in find_sentences(page, 0, len(page.text))]


def _measure_copied_share(text: str, source: str) -> float:
    return find_longest_stretch(text, source).length / max(1, len(split_words(text)))


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
