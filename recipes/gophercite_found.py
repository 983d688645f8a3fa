"""Effects of the GopherCite recipe: reranking, learning from preferences, declining. Counts are by
question."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from recipes.findings import Effect, ScoreTable, format_estimate
from recipes.gophercite_data import QuestionWithPage
from recipes.gophercite_floors import (
    BY_LOT,
    EVIDENCE,
    FIRST,
    TF_IDF,
    TOLD,
    FloorScores,
    QuoteScores,
)
from recipes.policy_samples import QuotedSample
from recipes.rewards import score_with_both_outputs
from rookery.library.question_files import is_correct_answer
from rookery.measure import reward_frontiers
from rookery.measure.coverage import ScoredAnswers, make_coverage_figure
from rookery.measure.figures import Figure
from rookery.measure.intervals import estimate_mean
from rookery.measure.ratings import GOOD_SCALE, RatedShare, make_supported_figure
from rookery.records import Quote, Record

ANY_GOOD = "one of the samples is good"
LOT, WORDS, EVIDENCE_SCORE, TOLD_GOOD = (
    "by lot",
    "words shared with the question",
    "evidence model",
    "told which are good",
)
NO_ANSWER_SCORE = -999.0
"""Score of a sample that is no answer."""


class Sample(Record, frozen=True):
    """One sampled answer, judged."""

    good: float
    """1 if its claim and its quote contain the same accepted answer, else 0; always 0 where the
    article is in no library."""
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
    questions: Sequence[QuestionWithPage],
    answerable: int,
    draws: Sequence[Sequence[QuotedSample]],
    context: int,
) -> Samples:
    """Judge samples by the known answers and by both outputs of the reward model; the articles of
    the first `answerable` questions are in the library.

    A sample that is no answer, and a question for which no page was found, get NO_ANSWER_SCORE.
    `context`: tokens that the reward model reads.
    """
    each = [(q, one.answer) for (q, _), some in zip(questions, draws, strict=True) for one in some]
    pairs = list(dict.fromkeys((q, answer) for q, answer in each if answer))
    scores_by_pair = dict(zip(pairs, score_with_both_outputs(reward, pairs, context), strict=True))
    nothing = [QuotedSample(None, NO_ANSWER_SCORE)] * max(map(len, draws))
    scored: Samples = []
    for number, ((question, _), some) in enumerate(zip(questions, draws, strict=True)):
        scored.append([])
        for one in some or nothing:
            first, second, good, size = NO_ANSWER_SCORE, NO_ANSWER_SCORE, False, 0
            if one.answer:
                [quote] = one.answer.quotes
                first, second = scores_by_pair[question, one.answer]
                good = number < answerable and is_correct_answer(question, one.answer)
                size = len(quote.text)
            scored[-1].append(Sample(float(good), first, second, one.logprob, size))
    return scored


def make_tables(
    samples_by_system: Mapping[str, Samples],
    asked_pages: Sequence[QuestionWithPage],
    answerable: int,
    floors: FloorScores,
    quoted: QuoteScores,
) -> Iterator[ScoreTable]:
    """Yield the scores of every system: good quotes, and ways to decline what SFT gives."""
    questions = tuple(question.id for question, _ in asked_pages)
    systems = {name: tuple(each) for name, each in floors.by.items()}
    n = len(samples_by_system["SFT"][0])
    for name, samples in samples_by_system.items():
        systems[f"{name}, one sample"] = tuple(map(_rate_average, samples[:answerable]))
        systems[f"{name}, best of {n}"] = tuple(
            one.good for one in choose_by_reward(samples[:answerable])
        )
    systems[ANY_GOOD] = tuple(
        max(one.good for one in row) for row in samples_by_system["SFT"][:answerable]
    )
    yield ScoreTable(
        "good",
        "share of answers whose claim and quote hold the answer",
        questions[:answerable],
        systems,
    )
    lines = score_chosen_answers(samples_by_system["SFT"])
    good = tuple(lines["reward"].good)
    yield ScoreTable(
        "declining",
        "mean quality over all shares answered, with questions that nothing answers",
        questions,
        {name: tuple(line.scores) for name, line in lines.items()}
        | {
            LOT: (0.0,) * len(good),
            WORDS: tuple(quoted.words),
            EVIDENCE_SCORE: tuple(quoted.evidence),
            TOLD_GOOD: good,
        },
        good,
    )


def list_effects(n: int) -> list[Effect]:
    """Return the paper's effects; `n` samples are chosen from."""
    chosen = (
        "settings on other draws of articles (docs/LOG.md); the reward model's step on a part of "
        "its comparisons; nothing on these questions"
    )
    make_quote_effect = partial(
        Effect,
        table="good",
        lacking=f"likeliest and majority of {n} were not measured",
        facts=(*BY_LOT, FIRST, TF_IDF, EVIDENCE, TOLD, ANY_GOOD),
        chosen=chosen,
    )
    make_declining_effect = partial(
        Effect,
        table="declining",
        learnt="reward",
        floors=(LOT, "likelihood", WORDS),
        facts=(EVIDENCE_SCORE, TOLD_GOOD),
        chosen=chosen,
    )
    return [
        make_quote_effect(
            effect=f"of imitation, the best of {n} by reward beats one sample",
            paper="50.4 % to 80.0 % with top@64 on NQ, 36.4 % to 57.9 % on ELI5 (table 1)",
            learnt=f"SFT, best of {n}",
            reference="SFT, one sample",
            expected=0.1,
        ),
        make_quote_effect(
            effect="one sample of A2C beats one of imitation",
            paper="50.4 % to 60.9 % on NQ, 36.4 % to 46.3 % on ELI5 (table 1)",
            learnt="RL, one sample",
            reference="SFT, one sample",
            expected=0.07,
            why="few episodes, and a value head that explains nothing of the returns: whether "
            "there is a gain changes with the seed (docs/LOG.md)",
        ),
        make_quote_effect(
            effect=f"A2C adds nothing to the best of {n}",
            paper="74.8 % against 80.0 % on NQ; on ELI5 A2C is better (table 1, section 3.5)",
            learnt=f"RL, best of {n}",
            reference=f"SFT, best of {n}",
            claim="same",
        ),
        make_declining_effect(
            effect="declining by reward has more area than declining by lot",
            paper="figure 4",
            reference=LOT,
            expected=0.08,
        ),
        make_declining_effect(
            effect="the reward declines better than the likelihood",
            paper="figure 4",
            reference="likelihood",
        ),
        make_declining_effect(
            effect="the reward declines as well as its head for supported and plausible",
            paper="figures 4 and 11",
            reference="supported and plausible",
            claim="same",
        ),
    ]


def choose_by_reward(samples: Samples) -> list[Sample]:
    """Return the sample with the highest reward of each question; the first of equals."""
    return [max(row, key=lambda one: one.reward) for row in samples]


def _rate_average(row: Sequence[Sample]) -> float:
    return fmean(one.good for one in row)


def list_chosen_quotes(
    samples: Samples, draws: Sequence[Sequence[QuotedSample]]
) -> list[Quote | None]:
    """Return the quote of each question's sample with the highest reward; None: no answer."""
    found: list[Quote | None] = []
    for row, some in zip(samples, draws, strict=True):
        rewards = [one.reward for one in row]
        answer = some[rewards.index(max(rewards))].answer if some else None
        found.append(answer.quotes[0] if answer else None)
    return found


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
    samples_by_system: Mapping[str, Samples], answerable: int, floors: FloorScores, seed: int
) -> list[Figure]:
    """Return the figures: shares beside floors, best of n, and declining."""
    says = (
        f"{answerable} questions about articles that were not learnt from; a quote is good where it"
    )
    says += f" holds an accepted answer. Seed {seed}; intervals are of 95 %, by question."
    rows = {name: estimate_mean(each) for name, each in floors.by.items()}
    curves = {}
    for name, samples in samples_by_system.items():
        good = _tabulate_field(samples[:answerable], "good")
        curves[name] = reward_frontiers.estimate_best_of_n_curve(
            _tabulate_field(samples[:answerable], "reward"), good
        )
        rows[f"{name}, one sample"] = curves[name][1]
        rows[f"{name}, best of {len(good[0])}"] = curves[name][len(good[0])]
    lines = {
        f"{name}, {score}": line
        for name, samples in samples_by_system.items()
        for score, line in score_chosen_answers(samples).items()
    }
    absent = len(samples_by_system["SFT"]) - answerable
    return [
        make_supported_figure(
            [RatedShare(name, GOOD_SCALE, each, 1.0) for name, each in rows.items()], says
        ),
        reward_frontiers.make_best_of_n_figure(curves, says, worth="supported and plausible"),
        make_coverage_figure(
            lines, f"With {absent} questions whose articles are in no library. {says}"
        ),
    ]


def list_notes(samples_by_system: Mapping[str, Samples], answerable: int) -> list[str]:
    """Return notes on differences from the paper."""
    lengths = {
        name: estimate_mean([float(one.characters) for row in each for one in row])
        for name, each in samples_by_system.items()
    }
    rows = [
        f"{name} quotes {format_estimate(length, '.0f')} characters"
        for name, length in lengths.items()
    ]
    best = [any(one.good for one in row) for row in samples_by_system["SFT"][:answerable]]
    rows.append(f"of {answerable} questions {sum(best)} have a good quote among the samples of SFT")
    return [
        *rows,
        "Known answers rate in place of people: an answer is good where its claim and its quote "
        "both hold an accepted answer.",
        "In place of samples of a prompted model, whose answers are rated, an accepted answer with "
        "each sentence of its page is. Imitation learns under the same constraint that samples. "
        "Pages are paragraphs.",
        "Floors quote from the page that the policies read, and claim what they quote, which is "
        "longer than the claims that are learnt and so holds an answer more easily. The evidence "
        "model that ships has learnt from articles of SQuAD, perhaps from these; “told the answer” "
        "looks for the accepted answer's words, as the rule for a good answer does.",
        "Claims about the climate stand for FEVER, whose pages are not here.",
    ]


def _tabulate_field(samples: Samples, name: str) -> list[list[float]]:
    return [[getattr(one, name) for one in row] for row in samples]
