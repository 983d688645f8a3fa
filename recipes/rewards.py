"""Rewards: encoders to begin reward models as, scores of both outputs, kept scores, and a labeller
with a hidden reward."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from transformers import AutoModel, AutoTokenizer

from rookery.learn.online_labelling import ComparisonQuestion
from rookery.learn.pretrained_models import (
    convert_load_errors,
    load_model_with_head,
    load_tokenizer,
    save_pretrained_model,
    silence_transformers,
)
from rookery.learn.retrieval_training import MINILM_MODEL, find_encoder_folder
from rookery.learn.reward_model import make_input_encoder, score_rows
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.records import Answer, Comparison, Question, Reward

QuestionAnswer = tuple[Question, Answer]


def write_pretrained_encoder(folder: Path, model: str = MINILM_MODEL) -> None:
    """Write the encoder, all-MiniLM-L6-v2 or another folder's, so that `prefer` can begin as it:
    with the tokens that its texts begin and end with named as such.

    Its rewards are read at the first token, which sees all others. Raises Failed: no_model,
    bad_model.
    """
    source = find_encoder_folder(model)
    options: dict[str, Any] = {"local_files_only": True}
    with convert_load_errors(source), silence_transformers():
        plain = AutoTokenizer.from_pretrained(source, **options)
        marks = {"bos_token": plain.cls_token, "eos_token": plain.sep_token}
        tokenizer = AutoTokenizer.from_pretrained(source, **marks, **options)
        encoder: Any = AutoModel.from_pretrained(source, use_safetensors=True, **options)
    save_pretrained_model(encoder, tokenizer, folder)


def cache_scores(scores: BatchRewardFunction) -> BatchRewardFunction:
    """Return a reward function that calls `scores` only once for each question and answer."""
    known: dict[QuestionAnswer, float] = {}

    def score_uncached(pairs: Sequence[QuestionAnswer]) -> list[float]:
        fresh = list(dict.fromkeys(pair for pair in pairs if pair not in known))
        known.update(zip(fresh, scores(fresh) if fresh else (), strict=True))
        return [known[pair] for pair in pairs]

    return score_uncached


def score_with_both_outputs(
    folder: Path, pairs: Sequence[QuestionAnswer], context: int
) -> list[tuple[float, float]]:
    """Return both outputs of a reward model trained with ratings too, for each answer.

    They are the reward, without its bias, and the log-odds that the answer is good: supported and
    plausible (GopherCite, section 2.8). Read are `context` tokens at most, or with 0 as many as the
    model can. Raises Failed: no_model, bad_model, too_long.
    """
    tokenizer, ends, _ = load_tokenizer(folder)
    model, _ = load_model_with_head(folder, "row", "float32")
    showing = make_input_encoder(model, tokenizer, ends, context, False)
    rows = [np.asarray(showing.encode_answer(*pair).tokens, np.int32) for pair in pairs]
    model.eval()  # type: ignore[no-untyped-call]
    outputs = score_rows(model, rows, showing.pad, model.device, 16)
    return [(float(reward), float(good)) for reward, good in outputs.tolist()]


SAMPLE_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
"""Answers of one question that are compared, disjoint pairs first."""


def list_answer_pairs(
    questions: Sequence[Question], texts: Sequence[Sequence[str]]
) -> list[ComparisonQuestion]:
    """List pairs of each question's four answers to compare, one pair of every question before a
    second one; equal and empty answers are not compared."""
    pairs = [
        (question, (Answer(answers[one]), Answer(answers[other])))
        for one, other in SAMPLE_PAIRS
        for question, answers in zip(questions, texts, strict=True)
        if answers[one] and answers[other] and answers[one] != answers[other]
    ]
    return [ComparisonQuestion(number, *pair) for number, pair in enumerate(pairs)]


class MockLabeller:
    """A labeller that prefers the answers a hidden reward finds best. With probability `noise` it
    picks any answer."""

    def __init__(self, reward: Reward, noise: float = 0.0, seed: int = 0) -> None:
        self._reward = reward
        self._noise = noise
        self._seed = seed

    def compare_answers(self, questions: Sequence[ComparisonQuestion]) -> Iterable[Comparison]:
        """Yield one Comparison for each question, in their order, as soon as it is there.

        The answer with the highest hidden reward gets all the weight, or, with probability `noise`,
        any answer. Equal numbers and answers give equal comparisons.
        """
        for one in questions:
            chance = Random(f"{self._seed} label {one.number}")
            rewards = [self._reward(one.question, answer) for answer in one.answers]
            best = rewards.index(max(rewards))
            if chance.random() < self._noise:
                best = chance.randrange(len(rewards))
            weights = tuple(float(at == best) for at in range(len(rewards)))
            yield Comparison(one.question, one.answers, weights, "mock")
