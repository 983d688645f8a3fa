"""Effects of the GopherCite recipe: pointing, imitation, reranking, reinforcement, declining."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from recipes.baselines import choose_lexical_quote, find_majority
from recipes.findings import Effect, ScoreTable
from recipes.gold_answers import holds_gold_answer
from recipes.gophercite_data import QuestionWithPage
from recipes.measures import make_training_figure
from recipes.pointed_claims import (
    ClaimSample,
    QuotedQuestion,
    list_sentence_quotes,
    make_claim_answer,
)
from recipes.rewards import score_with_both_outputs
from rookery.library.question_files import is_correct_answer
from rookery.measure import reward_frontiers
from rookery.measure.coverage import ScoredAnswers, make_coverage_figure
from rookery.measure.figures import Figure
from rookery.measure.ranking import count_corpus_terms, score_tf_idf
from rookery.records import Question, Record

LOT, LONGEST, TF_IDF, TOLD = "by lot", "longest", "TF-IDF", "told which is right"
LIKELIEST, MAJORITY, GREEDY = "likeliest", "majority", "likeliest tokens"
SCRIPT = "the whole quote claimed"
NO_ANSWER_SCORE = -10.0
"""Score of a sample that is no answer."""
CHOSEN = "the title in the pointer's prompt, on other questions; nothing else (docs/LOG.md)"


class JudgedClaim(Record, frozen=True):
    """One sampled claim, judged."""

    claim: str
    good: float
    """1 if its claim and its quote contain the same accepted answer, else 0; always 0 where the
    article is in no library."""
    reward: float
    """By the reward model."""
    head: float
    """Log-odds, by the auxiliary head, that it is supported and plausible."""
    likelihood: float
    """Log-probability of the claim."""


Samples = list[list[JudgedClaim]]
"""Samples by question: first the questions that the library can answer, then the others."""


def judge_samples(
    reward: Path,
    quoted: Sequence[QuotedQuestion],
    answerable: int,
    samples: Sequence[Sequence[ClaimSample]],
) -> Samples:
    """Judge samples by the known answers and by both outputs of the reward model; the articles of
    the first `answerable` questions are in the library."""
    numbered = list(enumerate(zip(quoted, samples, strict=True)))
    each = ((q, one.answer) for _, ((q, _), row) in numbered for one in row)
    pairs = list(dict.fromkeys((q, answer) for q, answer in each if answer))
    outputs = dict(zip(pairs, score_with_both_outputs(reward, pairs, 0), strict=True))

    def judge_claim(number: int, question: Question, one: ClaimSample) -> JudgedClaim:
        if one.answer is None:
            return JudgedClaim("", 0.0, NO_ANSWER_SCORE, NO_ANSWER_SCORE, one.logprob)
        good = number < answerable and is_correct_answer(question, one.answer)
        scores = outputs[question, one.answer]
        return JudgedClaim(one.answer.text, float(good), *scores, one.logprob)

    return [[judge_claim(number, q, one) for one in row] for number, ((q, _), row) in numbered]


CHOICES: dict[str, Callable[[JudgedClaim], float]] = {
    "by reward": lambda one: one.reward,
    LIKELIEST: lambda one: one.likelihood,
    LONGEST: lambda one: len(one.claim),
    TOLD: lambda one: one.good,
}
"""Ways to choose one sample of several, by the highest of these numbers, the first of equals."""


def choose_samples(samples: Samples, way: str) -> list[JudgedClaim]:
    """Return the sample of each question that is chosen in a way of CHOICES, or by majority."""
    if way == MAJORITY:
        return [row[find_majority([one.claim for one in row])] for row in samples]
    return [max(row, key=CHOICES[way]) for row in samples]


def make_pointer_table(
    pages: Sequence[QuestionWithPage], scores: Mapping[str, Sequence[Sequence[float]]]
) -> ScoreTable:
    """Return the table of quotes that hold an accepted answer, of the pages that were found."""
    good = [
        [float(holds_gold_answer(question, quote)) for quote in list_sentence_quotes(page)]
        for question, page in pages
    ]
    chosen = {
        name: tuple(g[s.index(max(s))] for g, s in zip(good, each, strict=False))
        for name, each in {**scores, TOLD: good}.items()
    }
    chosen[LOT] = tuple(map(fmean, good))
    chosen[TF_IDF] = tuple(
        float(holds_gold_answer(question, choose_lexical_quote(question, page)))
        for question, page in pages
    )
    says = "share of quotes, of the page that a search found, that hold an accepted answer"
    names = tuple(question.id for question, _ in pages)
    return ScoreTable("quotes", says, names, chosen)


def make_answer_tables(
    samples_by_system: Mapping[str, Samples], quoted: Sequence[QuotedQuestion], answerable: int
) -> Iterator[ScoreTable]:
    """Yield the tables of answers: right ones, their rewards, and what is right of all that `SFT`
    answers, by the score that declines."""
    names = tuple(question.id for question, _ in quoted)
    systems: dict[str, list[list[JudgedClaim]]] = {}
    for name, samples in samples_by_system.items():
        systems[name] = samples[:answerable]
        if len(samples[0]) > 1:
            for way in (*CHOICES, MAJORITY):
                chosen = choose_samples(samples[:answerable], way)
                systems[f"{name}, {way}"] = [[one] for one in chosen]
    rows = {name: _average(each, "good") for name, each in systems.items()}
    rows[SCRIPT] = tuple(
        float(is_correct_answer(question, make_claim_answer(quote.text, quote)))
        for question, quote in quoted[:answerable]
    )
    says = "share of answers whose claim and quote hold the accepted answer"
    yield ScoreTable("good", says, names[:answerable], rows)
    rewards = {name: _average(each, "reward") for name, each in systems.items()}
    yield ScoreTable("reward", "reward by the reward model", names[:answerable], rewards)
    lines = score_chosen_answers(samples_by_system["SFT"])
    texts = [quote.text for _, quote in quoted]
    among = count_corpus_terms(texts)
    shared = [
        score_tf_idf(q.text, [text], among)[0] for (q, _), text in zip(quoted, texts, strict=True)
    ]
    good = tuple(lines["reward"].good)
    by = {name: tuple(line.scores) for name, line in lines.items()}
    says = "mean quality over all shares answered, with questions that nothing answers"
    more = {LOT: (0.0,) * len(good), TF_IDF: tuple(shared), TOLD: good}
    yield ScoreTable("declining", says, names, by | more, good)


def _average(samples: Samples, field: str) -> tuple[float, ...]:
    return tuple(fmean(getattr(one, field) for one in row) for row in samples)


def score_chosen_answers(samples: Samples) -> dict[str, ScoredAnswers]:
    """Return the scores of the answers that the reward chose, by each way to decline them."""
    chosen = choose_samples(samples, "by reward")
    scores = {
        "reward": [one.reward for one in chosen],
        "supported and plausible": [one.head for one in chosen],
        LIKELIEST: [one.likelihood for one in chosen],
    }
    good = [one.good for one in chosen]
    return {name: ScoredAnswers(each, good) for name, each in scores.items()}


def list_effects(n: int) -> list[Effect]:
    """Return the effects that are looked for; `n` samples are chosen from."""
    table_1 = "50.4 % to {} % on NQ, 36.4 % to {} % on ELI5 (table 1)"
    pointing = partial(Effect, chosen=CHOSEN, table="quotes", facts=(TOLD,))
    answering = partial(Effect, chosen=CHOSEN, table="good", facts=(f"SFT, {TOLD}", SCRIPT))
    learning = partial(answering, paper=table_1.format(60.9, 46.3), floors=(f"SFT, {GREEDY}",))
    declining = partial(Effect, chosen=CHOSEN, table="declining", paper="figure 4", facts=(TOLD,))
    return [
        pointing(
            effect="a pointer that has learnt finds the right quote more often",
            paper="not in the paper, whose policy copies its quote",
            learnt="learnt pointer",
            reference="untrained pointer",
            floors=(LOT, TF_IDF),
            expected=0.03,
        ),
        answering(
            effect=f"imitation beats few-shot prompting, with the {GREEDY} of each",
            paper="not in the paper, which begins with samples of a prompted model (section 2.7)",
            learnt=f"SFT, {GREEDY}",
            reference=f"few-shot, {GREEDY}",
            lacking="few-shot prompting is what has learnt nothing",
            expected=0.25,
        ),
        answering(
            effect=f"of imitation, the best of {n} by reward beats one sample",
            paper=table_1.format("80.0", "57.9"),
            learnt="SFT, by reward",
            reference="SFT",
            floors=tuple(f"SFT, {way}" for way in (LIKELIEST, MAJORITY, LONGEST)),
            aimed="reward",
            expected=0.1,
        ),
        learning(
            effect="one sample of RL on the learnt reward beats one of imitation",
            learnt="RL",
            reference="SFT",
            aimed="reward",
            expected=0.07,
        ),
        learning(
            effect=f"the {GREEDY} of RL on the learnt reward beat those of imitation",
            learnt=f"RL, {GREEDY}",
            reference=f"SFT, {GREEDY}",
            floors=(f"SFT, {MAJORITY}",),
            aimed="reward",
            expected=0.05,
        ),
        learning(
            effect="one sample of RL on the known reward beats one of imitation",
            learnt="RL on the known reward",
            reference="SFT",
            expected=0.07,
        ),
        declining(
            effect="declining by reward has more area than declining by lot",
            learnt="reward",
            reference=LOT,
            floors=(LIKELIEST, TF_IDF),
            expected=0.1,
        ),
    ]


def make_figures(
    samples_by_system: Mapping[str, Samples], answerable: int, runs: Mapping[str, Path], seed: int
) -> Iterator[Figure]:
    """Yield the best of n, declining, and the reward by batch of each run of reinforcement."""
    says = f"{answerable} questions about articles that were not learnt from. Seed {seed}."
    curves = {
        name: reward_frontiers.estimate_best_of_n_curve(
            [[one.reward for one in row] for row in each[:answerable]],
            [[one.good for one in row] for row in each[:answerable]],
        )
        for name, each in samples_by_system.items()
        if len(each[0]) > 1
    }
    yield reward_frontiers.make_best_of_n_figure(curves, says, worth="right answers")
    absent = len(samples_by_system["SFT"]) - answerable
    yield make_coverage_figure(
        score_chosen_answers(samples_by_system["SFT"]),
        f"With {absent} questions whose articles are in no library. {says}",
    )
    yield make_training_figure(
        runs, f"Mean reward of a batch, on questions that are learnt from. Seed {seed}."
    )
