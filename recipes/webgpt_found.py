"""What the WebGPT recipe found: answers chosen among samples, effects, tables and figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recipes.findings import Effect, ScoreTable
from recipes.measures import make_curves_figure, make_training_figure
from recipes.webgpt_actors import RANDOM, SCRIPT
from recipes.webgpt_data import AnswerSample, Samples, Settings, is_right
from rookery.learn.reinforcement_learning import ReinforcementResult
from rookery.learn.reward_training import RewardTrainingResult
from rookery.learn.rollout_environments import BatchRewardFunction, compute_answer_rewards
from rookery.measure.figures import Figure
from rookery.measure.intervals import estimate_mean
from rookery.measure.reward_frontiers import (
    estimate_best_of_n,
    estimate_best_of_n_curve,
    make_best_of_n_figure,
)
from rookery.records import Question

Scores = Sequence[Sequence[float]]  # of each sample, by question
KNOWN, FRESH, REINFORCED, GREEDY = "known", "imitation", "reinforced", "imitation, greedy"
GIVEN, GIVEN_REINFORCED = "quote given", "quote given, reinforced"
"""Systems that are sampled; the best of n is foretold from known and chosen of fresh samples."""
GIVEN_LIKELIEST, ANY_RIGHT = "quote given, likeliest", "one of the samples is right"
name_clone, name_best = "after {} demonstrations".format, "best of {}".format
LIKELIEST, LONGEST, MAJORITY = "likeliest", "longest", "majority"
EXPECTED = {"doubling": 0.08, "best": 0.10, "reinforced": 0.05, "given": 0.07}
"""Differences that were expected before any run, from other experiments (docs/LOG.md)."""
NO_ANSWER_REWARD = -1e9
"""Reward of a sample that is no answer, so that it is never chosen."""


def rate_samples(questions: Sequence[Question], samples: Samples) -> list[list[float]]:
    """Return 1 for each right sample, 0 for each other."""
    return [
        [float(is_right(question, each.answer)) for each in some]
        for question, some in zip(questions, samples, strict=True)
    ]


def reward_samples(
    questions: Sequence[Question], samples: Samples, scores: BatchRewardFunction
) -> list[list[float]]:
    """Return the learnt reward of each sample; NO_ANSWER_REWARD of what is no answer."""
    pairs = zip(questions, samples, strict=True)
    answers = [(question, one.answer) for question, some in pairs for one in some]
    rewards = iter(compute_answer_rewards(scores, answers))
    return [
        [NO_ANSWER_REWARD if (reward := next(rewards)) is None else reward for _ in some]
        for some in samples
    ]


def rate_best(scores: Scores, right: Scores) -> list[float]:
    """Return the share of right answers to each question among the samples of the best score."""
    return [float(estimate_best_of_n(*each)[-1]) for each in zip(scores, right, strict=True)]


def count_votes(some: Sequence[AnswerSample]) -> list[float]:
    """Return for each sample how many say the same in any case; -1 for what is no answer."""
    said = [one.answer and one.answer.text.casefold() for one in some]
    return [-1.0 if each is None else float(said.count(each)) for each in said]


def make_table(
    questions: Sequence[Question], pools: Mapping[str, Samples], rewards: Scores
) -> ScoreTable:
    """Return the shares of right answers of every system; `rewards` are of the fresh samples."""
    fresh = pools[FRESH]
    right = {name: rate_samples(questions, each) for name, each in pools.items()}
    chosen: dict[str, Scores] = {
        name_best(len(fresh[0])): rewards,
        LIKELIEST: [[one.logprob for one in some] for some in fresh],
        LONGEST: [[len(one.answer.text) if one.answer else -1 for one in some] for some in fresh],
        MAJORITY: list(map(count_votes, fresh)),
        ANY_RIGHT: right[FRESH],
    }
    likely = [[one.logprob for one in some] for some in pools[GIVEN]]
    systems = {
        **{name: list(map(fmean, each)) for name, each in right.items()},
        **{name: rate_best(scores, right[FRESH]) for name, scores in chosen.items()},
        GIVEN_LIKELIEST: rate_best(likely, right[GIVEN]),
    }
    return ScoreTable(
        "right",
        "share of answers that name a gold answer in a few words, with a quote that holds it",
        tuple(each.id for each in questions),
        {name: tuple(each) for name, each in systems.items()},
    )


def list_effects(settings: Settings) -> list[Effect]:
    """Return the paper's effects, each with the difference that was expected before the runs."""
    first, last, n = settings.demonstrations[0], settings.demonstrations[-1], settings.samples
    best = f"the best of {n} by the learnt reward is right more often than one sample"
    whole = "reinforced answering makes whole episodes right more often than imitation"
    paper = {
        "doubling": "more demonstrations help (section 5.2, figure 6)",
        "best": "best of 64 preferred 68 % to one sample (section 5.1, figure 5)",
        "reinforced": "preferred 58 % of the time (section 5.1, figure 4)",
        "given": "15 more answers from the same quotes in each episode (section 3.2)",
    }
    compared = {
        "doubling": (f"{last} demonstrations teach more than {first}", FRESH, name_clone(first)),
        "best": (best, name_best(n), FRESH),
        "reinforced": (whole, REINFORCED, FRESH),
        "given": ("the same, where the right quote is given", GIVEN_REINFORCED, GIVEN),
    }
    floors = {
        "doubling": (RANDOM,),
        "best": (LIKELIEST, LONGEST, MAJORITY),
        "reinforced": (GREEDY,),
        "given": (GIVEN_LIKELIEST,),
    }
    return [
        Effect(
            effect=effect,
            paper=paper[key],
            table="right",
            learnt=learnt,
            reference=reference,
            floors=floors[key],
            facts=(SCRIPT, ANY_RIGHT) if reference == FRESH else (SCRIPT, GIVEN),
            expected=EXPECTED[key] * (math.log2(last / first) if key == "doubling" else 1),
            chosen="rates by earlier experiments, sizes by time; tried on other questions",
        )
        for key, (effect, learnt, reference) in compared.items()
    ]


def make_figures(
    settings: Settings,
    table: ScoreTable,
    known_scores: tuple[Scores, Scores],
    fresh_scores: tuple[Scores, Scores],
    run: Path,
) -> Iterator[Figure]:
    """Yield the curves: right answers by demonstrations; best of n by rewards and right answers of
    known and of fresh samples; and right answers by batch of `run`."""
    share, scores = "share of right answers", table.scores
    says = f"{len(table.questions)} questions that nothing was learnt from."
    facts = ", ".join(f"{name} {fmean(scores[name]):.3f}" for name in (GIVEN, SCRIPT, RANDOM))
    names = [*map(name_clone, settings.demonstrations[:-1]), FRESH]
    rates = [estimate_mean(scores[name], least=0.0) for name in names]
    clones = list(zip(settings.demonstrations, rates, strict=True))
    yield make_curves_figure(
        "demonstrations",
        "Right by demonstrations",
        f"{says} Each policy goes on from the one before, with others. {facts}.",
        {FRESH: clones},
        ("demonstrations", share),
        log_x=True,
    )
    ns = [2**power for power in range(settings.samples.bit_length())]
    yield make_best_of_n_figure(
        {FRESH: estimate_best_of_n_curve(*known_scores, ns)},
        f"{says} Estimated from {ns[-1]} samples each, realised with {ns[-1]} others.",
        {FRESH: estimate_best_of_n_curve(*fresh_scores, ns)},
        worth=share,
    )
    yield make_training_figure(
        {"RLOO": run}, "Share of right answers from quotes that are given, as they are learnt from."
    )


def list_notes(
    settings: Settings, count: int, reward: RewardTrainingResult, learnt: ReinforcementResult
) -> list[str]:
    """Return notes on differences from the paper; `count` is of demonstrations."""
    agreed = reward.after.credit if reward.after else 0.5
    return [
        f"{count} of {settings.demonstrations[-1]} questions could be demonstrated "
        "by a script that knows the answer: search for the keywords, open the right one of "
        f"{settings.browsing.rules.results} results, quote the sentence by its first and last "
        "words, answer in a few words. Policies say any command of the browser.",
        "Questions of SQuAD have answers of up to three words, pages are a few sentences each, and "
        "who is right is known; nobody was asked. An answer of more than five words is wrong.",
        "Those who learnt nothing choose among commands and answers that are offered: by lot; or "
        "the first result, the sentence with the most words of the question, and its first name or "
        "number that this has not (the script).",
        f"The reward model tells {agreed:.1%} of held-out right answers from wrong ones.",
        "Reinforcement is RLOO with the known answers as reward, for PPO with a reward model; "
        f"answers alone are reinforced. It ended {learnt.kl:.2f} nats from imitation. "
        f"{learnt.ended} {' '.join(learnt.faults)}".rstrip(),
    ]
