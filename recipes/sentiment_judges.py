"""Judges of sentiment that learnt from film reviews: a labeller's hidden reward, and two judges who
have learnt from other reviews."""

import lzma
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from rookery.learn.retrieval_training import SentenceEncoder, load_sentence_encoder
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.records import Answer, Question

LABELLER, SECOND, MINILM = "labeller", "second TF-IDF judge", "MiniLM judge"
CANNED_WORDS = 12
"""Words of a canned continuation, about as many as fit into 24 tokens."""
JUDGED_TEXTS = 2000
"""Texts at most that the MiniLM judge learns from: to embed them takes nearly all of its time."""


class Judges(NamedTuple):
    """Classifiers of sentiment, by name, and the share of the last tenth of the reviews that each
    is right for; the labeller has learnt from other reviews than the two that judge."""

    scores: dict[str, BatchRewardFunction]
    """Log-odds that an answer is positive."""
    accuracies: dict[str, float]


def read_reviews(data: Path) -> list[tuple[str, bool]]:
    """Read sentences of film reviews, and whether each is positive."""
    return [
        (line, mood == "pos")
        for mood in ("pos", "neg")
        for line in read_packed_text(data / "sentiment" / f"rt-polarity.{mood}.xz").splitlines()
    ]


def train_judges(rows: Sequence[tuple[str, bool]], encoder: str, split: int) -> Judges:
    """Train the labeller on 45 % of the reviews and both judges on other 45 %. Ziegler (section
    3.1.1) used a transformer on Amazon reviews."""
    texts, kinds = zip(*Random(f"{split} judges").sample(rows, len(rows)), strict=True)
    half, cut = len(rows) * 9 // 20, len(rows) * 9 // 10
    few = min(half + JUDGED_TEXTS, cut)
    embed = partial(_embed_texts, load_sentence_encoder(encoder))
    tfidf = partial(TfidfVectorizer, ngram_range=(1, 2), sublinear_tf=True)
    # Embeddings have length 1, so that C is larger than for TF-IDF.
    models = {
        name: make_pipeline(first, LogisticRegression(C=c, max_iter=1000)).fit(
            texts[start:end], kinds[start:end]
        )
        for name, first, c, start, end in (
            (LABELLER, tfidf(), 2.0, 0, half),
            (SECOND, tfidf(), 2.0, half, cut),
            (MINILM, FunctionTransformer(embed), 10.0, half, few),
        )
    }
    tests = slice(cut, cut + JUDGED_TEXTS // 2)
    return Judges(
        {name: partial(_score_pairs, model) for name, model in models.items()},
        {name: float(model.score(texts[tests], kinds[tests])) for name, model in models.items()},
    )


@torch.inference_mode()
def _embed_texts(embed: SentenceEncoder, texts: Sequence[str]) -> Any:
    return embed(texts).numpy()


def _score_pairs(classifier: Any, pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
    """Return a classifier's log-odds of each answer."""
    return [float(odds) for odds in classifier.decision_function([each.text for _, each in pairs])]


def make_pairs(texts: Sequence[str]) -> list[tuple[Question, Answer]]:
    """Return texts as answers to no question, for judges of the answer alone."""
    return [(Question("", ""), Answer(text)) for text in texts]


def choose_canned_sentence(labeller: BatchRewardFunction, passages: Sequence[str]) -> str:
    """Return the CANNED_WORDS first words of a passage that the labeller likes best."""
    begun = [" ".join(text.split()[:CANNED_WORDS]) for text in passages]
    scores = labeller(make_pairs(begun))
    return begun[scores.index(max(scores))]


def read_packed_text(place: Path) -> str:
    """Read a text that was packed with xz; what is not UTF-8 is replaced."""
    return lzma.decompress(place.read_bytes()).decode("utf-8", errors="replace")
