"""What the samples of both policies show: reranking, learning from preferences, declining.

It knows nothing of how models learn; everything is counted by question.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recipes.gophercite_data import Asked, is_good
from recipes.stages import Finding, told
from rookery.judge.meaning import GOOD
from rookery.learn.quoted import Drawn, both
from rookery.measure import baselines, bestofn
from rookery.measure.coverage import Scored, area, area_gain, coverage_figure, gain
from rookery.measure.figure import Figure
from rookery.measure.interval import Estimate, difference, mean, share
from rookery.measure.supported import Rated, supported_figure
from rookery.records import Quote, Record

COVERAGES = (0.9, 0.7, 0.5, 0.3)
NEVER = -999.0
"""the score of what is no answer"""


class Sample(Record, frozen=True):
    """One answer."""

    good: float
    """whether its quote holds an accepted answer: never, where the article is in no library"""
    reward: float
    head: float
    """log-odds that it is supported and plausible"""
    likelihood: float
    """log-probability of all that was said"""
    characters: int
    """of its quote"""


Samples = list[list[Sample]]
"""of each question that the library can answer, then of each that it cannot"""


def judged(
    reward: Path, asked: Sequence[Asked], there: int, drawn: Sequence[Sequence[Drawn]], context: int
) -> Samples:
    """What the known answers and both outputs of the reward model say of samples; the articles of
    the first questions are `there`. What is no answer is worth nothing to anyone, and so is what is
    said of no page."""
    each = [(q, one.answer) for (q, _), some in zip(asked, drawn, strict=True) for one in some]
    pairs = list(dict.fromkeys((q, answer) for q, answer in each if answer))
    known = dict(zip(pairs, both(reward, pairs, context), strict=True))
    nothing = [Drawn(None, NEVER)] * max(map(len, drawn))
    found: Samples = []
    for number, ((question, _), some) in enumerate(zip(asked, drawn, strict=True)):
        found.append([])
        for one in some or nothing:
            first, second, good, size = NEVER, NEVER, False, 0
            if one.answer:
                [quote] = one.answer.quotes
                first, second = known[question, one.answer]
                good, size = number < there and is_good(question, quote), len(quote.text)
            found[-1].append(Sample(float(good), first, second, one.logprob, size))
    return found


def findings(found: Mapping[str, Samples], there: int) -> list[Finding]:
    """The paper's effects, and whether they are seen."""
    sft, rl = found["SFT"][:there], found["RL"][:there]
    n = len(sft[0])
    reranked = bestofn.gain(_table(sft, "reward"), _table(sft, "good"), [n])[n]
    learnt = difference(_usual(rl), _usual(sft))
    chosen = difference(_best(rl), _best(sft))
    lines = scored(found["SFT"])
    reward = lines["reward"]
    blind = area_gain(reward.scores, [0.0] * len(reward.good), reward.good)
    gains = {at: gain(reward, at) for at in COVERAGES}
    over = {
        name: area_gain(reward.scores, line.scores, reward.good)
        for name, line in lines.items()
        if name != "reward"
    }
    areas = ", ".join(f"{name} {told(area(line))}" for name, line in lines.items())
    less = "; ".join(f"less {name} {told(each)}" for name, each in over.items())
    return [
        _more(
            f"of imitation, the best of {n} by reward beats one sample",
            "50.4 % to 80.0 % with top@64 on NQ, 36.4 % to 57.9 % on ELI5 (table 1)",
            reranked,
        ),
        _more(
            "one sample of A2C beats one of imitation",
            "50.4 % to 60.9 % on NQ, 36.4 % to 46.3 % on ELI5 (table 1)",
            learnt,
            "few episodes, and a value head that explains nothing of the returns: whether there is "
            "a gain changes with the seed (docs/LOG.md)",
        ),
        Finding(
            f"chosen of {n}, imitation is as good as A2C or better",
            "80.0 % and 74.8 % on NQ; on ELI5 A2C is better (table 1, section 3.5)",
            f"A2C more by {told(chosen)}",
            chosen.low <= 0,
        ),
        Finding(
            "declining by reward raises quality at every coverage",
            "figure 4",
            "more by " + "; ".join(f"{told(each)} at {at:.0%}" for at, each in gains.items()),
            all(each.low > 0 for each in gains.values()),
        ),
        _more("declining by reward has more area than declining by lot", "figure 4", blind),
        _more("the reward declines better than the likelihood", "figure 4", over["likelihood"]),
        Finding(
            "no score is seen to decline better than the reward",
            "figures 4 and 11",
            f"areas: {areas}; the reward {less}",
            all(each.high >= 0 for each in over.values()),
        ),
    ]


def _more(effect: str, paper: str, more: Estimate, why_not: str = "") -> Finding:
    return Finding(effect, paper, f"more by {told(more)}", more.low > 0, why_not * (more.low <= 0))


def tops(samples: Samples) -> list[Sample]:
    """Of each question the sample with the highest reward; of equals the first."""
    return [max(row, key=lambda one: one.reward) for row in samples]


def _best(samples: Samples) -> list[float]:
    return [one.good for one in tops(samples)]


def _usual(samples: Samples) -> list[float]:
    return [fmean(one.good for one in row) for row in samples]


def scored(samples: Samples) -> dict[str, Scored]:
    """The chosen answers to all questions, by each score that could decline them."""
    chosen = tops(samples)
    good = [one.good for one in chosen]
    return {
        "reward": Scored([one.reward for one in chosen], good),
        "supported and plausible": Scored([one.head for one in chosen], good),
        "likelihood": Scored([one.likelihood for one in chosen], good),
    }


def figures(found: Mapping[str, Samples], asked: Sequence[Asked], seed: int) -> list[Figure]:
    """Shares beside the baselines, the best of n, and declining."""
    there = len(asked)
    says = f"{there} questions about articles that were not learnt from; a quote is good where it"
    says += f" holds an accepted answer. Seed {seed}; intervals are of 95 %, by question."
    rows = {f"Gold + {name} sentence": _quoted(asked, how) for name, how in _baselines(seed)}
    curves = {}
    for name, samples in found.items():
        good = _table(samples[:there], "good")
        curves[name] = bestofn.curve(_table(samples[:there], "reward"), good)
        rows[f"{name}, one sample"] = curves[name][1]
        rows[f"{name}, best of {len(good[0])}"] = curves[name][len(good[0])]
    lines = {
        f"{name}, {score}": line
        for name, samples in found.items()
        for score, line in scored(samples).items()
    }
    absent = len(found["SFT"]) - there
    return [
        supported_figure([Rated(name, GOOD, each, 1.0) for name, each in rows.items()], says),
        bestofn.best_of_figure(curves, says, worth="supported and plausible"),
        coverage_figure(lines, f"With {absent} questions whose articles are in no library. {says}"),
    ]


def _baselines(seed: int) -> list[tuple[str, Callable[[Asked], Quote]]]:
    return [
        ("random", lambda one: baselines.random_sentence(one[1], f"{seed} {one[0].id}")),
        ("first", lambda one: baselines.first_sentence(one[1])),
        ("TF-IDF", lambda one: baselines.closest_sentence(one[1], one[0].text, one[0].gold[0])),
    ]


def _quoted(asked: Sequence[Asked], how: Callable[[Asked], Quote]) -> Estimate:
    return share(sum(is_good(one[0], how(one)) for one in asked), len(asked))


def notes(found: Mapping[str, Samples], there: int) -> list[str]:
    """What is other than in the paper."""
    rows = [
        f"{name} quotes {told(mean([float(one.characters) for row in each for one in row]), '.0f')}"
        " characters"
        for name, each in found.items()
    ]
    best = [any(one.good for one in row) for row in found["SFT"][:there]]
    rows.append(f"of {there} questions {sum(best)} have a good quote among the samples of SFT")
    return [
        *rows,
        "Known answers rate in place of people. The claim is one sentence that says nothing of its "
        "own, so that it is plausible just where its quote supports.",
        "The first policy is tiny and knows no language, and in place of a prompted model, whose "
        "answers are rated, every sentence of a page is. Pages are paragraphs.",
        "A quote of the small size has 40 characters at least, where the paper's has 5: a policy "
        "as small as this does not know when a sentence is over.",
        "Claims about the climate stand for FEVER, whose pages are not here.",
    ]


def _table(samples: Samples, name: str) -> list[list[float]]:
    return [[getattr(one, name) for one in row] for row in samples]
