"""What `recipes.ziegler` finds, in words and in figures.

It knows nothing of how any of it was made.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from recipes.stages import Finding, told
from recipes.ziegler_data import Task
from recipes.ziegler_stages import REFERENCE, Seen
from rookery.measure.baselines import lead
from rookery.measure.battle import win_rate, win_rate_figure
from rookery.measure.bestofn import curve
from rookery.measure.copying import (
    in_one_piece,
    novel,
    novel_figure,
    places_figure,
    repeated,
    repeated_figure,
)
from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.frontier import Optimum, frontier_figure, optimum, reward_at
from rookery.measure.interval import Estimate, mean
from rookery.measure.rouge import corpus_rouge, rouge_figure
from rookery.records import Answer, Page

Part = tuple[list[Finding], list[Figure]]
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
RIGHT = "How often reward models find the one of four that was chosen, by lot 25 %:"
CLOSE = 0.2
"""how far from its target a KL may be, as a share of it"""
NEAR = 0.5
"""of the gain in reward that the best policy at this KL has"""


def continued(
    seen: Mapping[str, Seen],
    kls: Mapping[str, Sequence[float]],
    aims: Mapping[str, float],
    drawn: Sequence[Sequence[float]],
    betas: Sequence[float],
) -> Part:
    """Of sentiment: what is seen of policies that learnt offline and online, that imitate, and that
    know the hidden reward, whose KL had these aims. `drawn` are rewards of the reference."""
    best, start = optimum(drawn, betas), fmean(chain(*drawn))
    says = f"{len(drawn)} excerpts held out; intervals by excerpt, one seed."
    runs = {name: [each.reached] for name, each in seen.items()}
    matches = [match for each in seen.values() for match in each.matches]
    findings = [
        better("Learning from labels, offline,", seen["offline"], "88 % (table 1)"),
        better("Learning from labels, online,", seen["online"], "as offline (table 1)"),
        more(
            "Learning from labels beats imitating the answers that were chosen",
            apart(seen["offline"], seen["cloned"]),
            "not in the paper",
            "the best of four is far from what the reference says most: imitating it alone goes as "
            "far as learning from which it was",
        ),
        alike(apart(seen["online"], seen["offline"])),
        *(held_to(aims[name], values) for name, values in kls.items()),
        near({name: seen[name] for name in kls}, best, start),
    ]
    return findings, [
        frontier_figure(runs, best, says, curve(drawn, drawn)),
        win_rate_figure(matches, REFERENCE, says),
        kl_figure(kls, aims),
    ]


def summed_up(task: Task, said: Mapping[str, Sequence[str]]) -> Part:
    """Of summaries, by who said them; those of `labels` were learnt after the `supervised`."""
    sources, golds = [one.text for one in task.held], [one.gold for one in task.held]
    firsts = {
        f"lead-{count}": [lead(Page("", "", text), count).text for text in sources]
        for count in (1, 3)
    }
    written = {"people": [gold[0] for gold in golds]}
    every = {**said, **firsts, **written}
    says = f"{len(sources)} abstracts held out; intervals by abstract."
    rouges = {name: corpus_rouge(texts, golds) for name, texts in {**said, **firsts}.items()}
    pieces = {name: in_one_piece(texts, sources) for name, texts in every.items()}
    taught = _raised("Imitating summaries of people", task, said, "zero-shot", "supervised")
    learnt = _raised("Learning from labels after that", task, said, "supervised", "labels")
    return [taught, learnt, copies(pieces)], [
        rouge_figure(rouges, says),
        novel_figure({name: novel(texts, sources) for name, texts in every.items()}, says),
        repeated_figure({name: repeated(texts) for name, texts in every.items()}, says),
        places_figure(said["labels"], sources, f"What was learnt from labels; {says}"),
    ]


def _raised(
    how: str, task: Task, said: Mapping[str, Sequence[str]], before: str, after: str
) -> Finding:
    """Whether one kind of summaries has more ROUGE than another."""
    first, then = (
        [
            score / 10
            for score in task.worth(list(zip(task.held, map(Answer, said[name]), strict=True)))
        ]
        for name in (before, after)
    )
    gain = mean([later - sooner for sooner, later in zip(first, then, strict=True)])
    ours = f"from {fmean(first):.3f} to {fmean(then):.3f}, {told(gain)} more"
    effect, paper = f"{how} raises ROUGE (R-AVG)", PAPER_ROUGE[after]
    return Finding(effect, paper, ours, gain.low > 0)


def better(what: str, seen: Seen, paper: str) -> Finding:
    """Whether a policy has more of the hidden reward than the reference, and wins against it."""
    rate = win_rate(seen.matches, seen.matches[0].one, REFERENCE)
    ours = f"{told(seen.gain)} more reward, preferred {told(rate)}, at {seen.reached.kl:.2f} nats"
    holds = seen.gain.low > 0 and rate.low > 0.5
    return Finding(f"{what} beats the reference", paper, ours, holds)


def apart(one: Seen, other: Seen) -> Estimate:
    """How much more reward one policy has than another, in answers to the same questions."""
    gains = [ours - theirs for ours, theirs in zip(one.rewards, other.rewards, strict=True)]
    return mean(gains, one.groups)


def more(effect: str, gain: Estimate, paper: str, why_not: str = "") -> Finding:
    """Whether a gain is beyond its interval."""
    return Finding(effect, paper, f"{told(gain)} more", gain.low > 0, why_not * (gain.low <= 0))


def alike(apart: Estimate) -> Finding:
    """Whether online and offline labels come to the same, as far as can be seen."""
    return Finding(
        "No difference is seen between online and offline labels",
        "50 % preferred (table 1)",
        f"online has {told(apart)} more reward",
        apart.low <= 0 <= apart.high,
    )


def held_to(target: float, kls: Sequence[float]) -> Finding:
    """Whether the controller holds its target in the last third of a run."""
    last = mean(kls[len(kls) * 2 // 3 :])
    return Finding(
        f"The adaptive controller holds a KL of {target:g} nats",
        "runs are made comparable by it (section 2.2)",
        f"{told(last, '.2f')} in the last third",
        abs(last.value - target) <= CLOSE * target,
    )


def near(runs: Mapping[str, Seen], best: Sequence[Optimum], start: float) -> Finding:
    """Whether runs end below the optimum, and have half of its gain at least."""
    shares: dict[str, float] = {}
    beyond = []
    for name, seen in runs.items():
        try:
            most = reward_at(best, seen.reached.kl) - start
            shares[name] = (seen.reached.reward.value - start) / most
        except ValueError:
            beyond.append(name)
    ours = ", ".join(f"{name}: {share:.0%} of the optimum's gain" for name, share in shares.items())
    unknown = f"; the optimum is not known at the KL of {', '.join(beyond)}" if beyond else ""
    holds = bool(shares) and all(NEAR <= share <= 1 for share in shares.values())
    effect = "Policies end below the analytic optimum and near it"
    return Finding(
        effect,
        "a significant gap, mostly closed with more training (figure 3)",
        ours + unknown,
        holds,
    )


def copies(pieces: Mapping[str, Estimate]) -> Finding:
    """Whether what was learnt from labels copies more than what it was learnt from."""
    ours = ", ".join(f"{name} {told(each)}" for name, each in pieces.items())
    return Finding(
        "Learning from labels makes summaries copy more",
        "the share of sentences copied whole is 71 % (section 3.2.1, TL;DR)",
        f"share of a summary that its longest copied stretch makes up: {ours}",
        pieces["labels"].low > pieces["supervised"].high,
    )


def kl_figure(kls: Mapping[str, Sequence[float]], targets: Mapping[str, float]) -> Figure:
    """The KL of each batch, beside what it was to be."""
    lines = [Line(name, tuple(enumerate(values))) for name, values in kls.items()]
    lines += [
        Line(f"target {target:g}", ((0, target), (len(kls[name]) - 1, target)), style="dashed")
        for name, target in targets.items()
    ]
    rows = [
        (name, targets[name], mean(values[len(values) * 2 // 3 :]).value, values[-1])
        for name, values in kls.items()
    ]
    return Figure(
        "kl-control",
        "The KL follows its target",
        "KL of each batch of episodes, in nats an episode, while beta is adapted.",
        ("run", "target", "mean of the last third", "last batch"),
        tuple(rows),
        Picture("curves", tuple(lines), "batch", "KL, nats"),
        "Ziegler, section 2.2",
    )
