"""Findings of the GopherCite recipe: reranking, learning from preferences, declining. Counts are by
question."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recipes.gophercite_data import QuestionWithPage, holds_gold_answer
from recipes.stages import Finding, format_estimate
from rookery.judge.judgement_conversion import GOOD_SCALE
from rookery.learn.single_step_environments import QuotedSample, score_with_both_outputs
from rookery.measure import ranking, reward_frontiers
from rookery.measure.coverage import (
    ScoredAnswers,
    estimate_area_gain,
    estimate_coverage_area,
    estimate_selection_gain,
    make_coverage_figure,
)
from rookery.measure.figures import Figure
from rookery.measure.intervals import Estimate, estimate_difference, estimate_mean, estimate_share
from rookery.measure.ratings import RatedShare, make_supported_figure
from rookery.records import Quote, Record

COVERAGES = (0.9, 0.7, 0.5, 0.3)
NO_ANSWER_SCORE = -999.0
"""Score of a sample that is no answer."""


class Sample(Record, frozen=True):
    """One sampled answer, judged."""

    good: float
    """1 if its quote contains an accepted answer, else 0; always 0 where the article is in no
    library."""
    reward: float
    """Reward by the reward model."""
    head: float
    """Log-odds, by the auxiliary head, that it is supported and plausible."""
    likelihood: float
    """Log-probability of the sampled text."""
    characters: int
    """Length of its quote."""


Samples = list[list[Sample]]
"""Samples by question: first the questions that the library can answer, then the others."""


def score_samples(
    reward: Path,
    asked: Sequence[QuestionWithPage],
    there: int,
    drawn: Sequence[Sequence[QuotedSample]],
    context: int,
) -> Samples:
    """Judge samples by the known answers and by both outputs of the reward model; the articles of
    the first `there` questions are in the library.

    A sample that is no answer, and a question for which no page was found, get NO_ANSWER_SCORE.
    `context`: tokens that the reward model reads.
    """
    each = [(q, one.answer) for (q, _), some in zip(asked, drawn, strict=True) for one in some]
    pairs = list(dict.fromkeys((q, answer) for q, answer in each if answer))
    known = dict(zip(pairs, score_with_both_outputs(reward, pairs, context), strict=True))
    nothing = [QuotedSample(None, NO_ANSWER_SCORE)] * max(map(len, drawn))
    found: Samples = []
    for number, ((question, _), some) in enumerate(zip(asked, drawn, strict=True)):
        found.append([])
        for one in some or nothing:
            first, second, good, size = NO_ANSWER_SCORE, NO_ANSWER_SCORE, False, 0
            if one.answer:
                [quote] = one.answer.quotes
                first, second = known[question, one.answer]
                good, size = number < there and holds_gold_answer(question, quote), len(quote.text)
            found[-1].append(Sample(float(good), first, second, one.logprob, size))
    return found


def list_findings(found: Mapping[str, Samples], there: int) -> list[Finding]:
    """Return the paper's effects, and whether they are seen here; `there` questions can be
    answered."""
    sft, rl = found["SFT"][:there], found["RL"][:there]
    n = len(sft[0])
    reranked = reward_frontiers.estimate_best_of_n_gain(
        _tabulate_field(sft, "reward"), _tabulate_field(sft, "good"), [n]
    )[n]
    learnt = estimate_difference(_rate_average(rl), _rate_average(sft))
    chosen = estimate_difference(_rate_chosen(rl), _rate_chosen(sft))
    lines = score_chosen_answers(found["SFT"])
    reward = lines["reward"]
    blind = estimate_area_gain(reward.scores, [0.0] * len(reward.good), reward.good)
    gains = {at: estimate_selection_gain(reward, at) for at in COVERAGES}
    over = {
        name: estimate_area_gain(reward.scores, line.scores, reward.good)
        for name, line in lines.items()
        if name != "reward"
    }
    areas = ", ".join(
        f"{name} {format_estimate(estimate_coverage_area(line))}" for name, line in lines.items()
    )
    less = "; ".join(f"less {name} {format_estimate(each)}" for name, each in over.items())
    return [
        _make_gain_finding(
            f"of imitation, the best of {n} by reward beats one sample",
            "50.4 % to 80.0 % with top@64 on NQ, 36.4 % to 57.9 % on ELI5 (table 1)",
            reranked,
        ),
        _make_gain_finding(
            "one sample of A2C beats one of imitation",
            "50.4 % to 60.9 % on NQ, 36.4 % to 46.3 % on ELI5 (table 1)",
            learnt,
            "few episodes, and a value head that explains nothing of the returns: whether there is "
            "a gain changes with the seed (docs/LOG.md)",
        ),
        Finding(
            f"chosen of {n}, imitation is as good as A2C or better",
            "80.0 % and 74.8 % on NQ; on ELI5 A2C is better (table 1, section 3.5)",
            f"A2C more by {format_estimate(chosen)}",
            chosen.low <= 0,
        ),
        Finding(
            "declining by reward raises quality at every coverage",
            "figure 4",
            "more by "
            + "; ".join(f"{format_estimate(each)} at {at:.0%}" for at, each in gains.items()),
            all(each.low > 0 for each in gains.values()),
        ),
        _make_gain_finding(
            "declining by reward has more area than declining by lot", "figure 4", blind
        ),
        _make_gain_finding(
            "the reward declines better than the likelihood", "figure 4", over["likelihood"]
        ),
        Finding(
            "no score is seen to decline better than the reward",
            "figures 4 and 11",
            f"areas: {areas}; the reward {less}",
            all(each.high >= 0 for each in over.values()),
        ),
    ]


def _make_gain_finding(effect: str, paper: str, more: Estimate, why_not: str = "") -> Finding:
    return Finding(
        effect, paper, f"more by {format_estimate(more)}", more.low > 0, why_not * (more.low <= 0)
    )


def choose_by_reward(samples: Samples) -> list[Sample]:
    """Return the sample with the highest reward of each question; the first of equals."""
    return [max(row, key=lambda one: one.reward) for row in samples]


def _rate_chosen(samples: Samples) -> list[float]:
    return [one.good for one in choose_by_reward(samples)]


def _rate_average(samples: Samples) -> list[float]:
    return [fmean(one.good for one in row) for row in samples]


def score_chosen_answers(samples: Samples) -> dict[str, ScoredAnswers]:
    """Return the chosen answers' scores by each way to decline them."""
    chosen = choose_by_reward(samples)
    good = [one.good for one in chosen]
    return {
        "reward": ScoredAnswers([one.reward for one in chosen], good),
        "supported and plausible": ScoredAnswers([one.head for one in chosen], good),
        "likelihood": ScoredAnswers([one.likelihood for one in chosen], good),
    }


def make_figures(
    found: Mapping[str, Samples], asked: Sequence[QuestionWithPage], seed: int
) -> list[Figure]:
    """Return the figures: shares beside baselines, best of n, and declining."""
    there = len(asked)
    says = f"{there} questions about articles that were not learnt from; a quote is good where it"
    says += f" holds an accepted answer. Seed {seed}; intervals are of 95 %, by question."
    rows = {
        f"Gold + {name} sentence": _estimate_baseline(asked, how)
        for name, how in _list_baselines(seed)
    }
    curves = {}
    for name, samples in found.items():
        good = _tabulate_field(samples[:there], "good")
        curves[name] = reward_frontiers.estimate_best_of_n_curve(
            _tabulate_field(samples[:there], "reward"), good
        )
        rows[f"{name}, one sample"] = curves[name][1]
        rows[f"{name}, best of {len(good[0])}"] = curves[name][len(good[0])]
    lines = {
        f"{name}, {score}": line
        for name, samples in found.items()
        for score, line in score_chosen_answers(samples).items()
    }
    absent = len(found["SFT"]) - there
    return [
        make_supported_figure(
            [RatedShare(name, GOOD_SCALE, each, 1.0) for name, each in rows.items()], says
        ),
        reward_frontiers.make_best_of_n_figure(curves, says, worth="supported and plausible"),
        make_coverage_figure(
            lines, f"With {absent} questions whose articles are in no library. {says}"
        ),
    ]


def _list_baselines(seed: int) -> list[tuple[str, Callable[[QuestionWithPage], Quote]]]:
    return [
        ("random", lambda one: ranking.quote_random_sentence(one[1], f"{seed} {one[0].id}")),
        ("first", lambda one: ranking.quote_first_sentence(one[1])),
        (
            "TF-IDF",
            lambda one: ranking.quote_closest_sentence(one[1], one[0].text, one[0].gold[0]),
        ),
    ]


def _estimate_baseline(
    asked: Sequence[QuestionWithPage], how: Callable[[QuestionWithPage], Quote]
) -> Estimate:
    return estimate_share(sum(holds_gold_answer(one[0], how(one)) for one in asked), len(asked))


def list_notes(found: Mapping[str, Samples], there: int) -> list[str]:
    """Return notes on differences from the paper."""
    lengths = {
        name: estimate_mean([float(one.characters) for row in each for one in row])
        for name, each in found.items()
    }
    rows = [
        f"{name} quotes {format_estimate(length, '.0f')} characters"
        for name, length in lengths.items()
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


def _tabulate_field(samples: Samples, name: str) -> list[list[float]]:
    return [[getattr(one, name) for one in row] for row in samples]
