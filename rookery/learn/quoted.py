"""Answers that rest on one quote of one page, drawn for many questions at once; and what both
outputs of a reward model make of them.

The prompt is the one for models that were taught (GopherCite, table 12), without examples. It knows
nothing of how models are trained.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.browse.view import neutral
from rookery.cite.grammar import Grammar
from rookery.cite.shape import Shape
from rookery.cite.syntax import parse_inline
from rookery.learn.loading import load
from rookery.learn.models import model_of, tokenizer_of
from rookery.learn.sample import Sampled, Sampling, sample
from rookery.learn.scorer import score_rows, showing_of
from rookery.learn.worlds import Scores, in_turn
from rookery.learn.worlds_pages import OneStep, Show, Shown
from rookery.learn.worlds_speech import Speech
from rookery.records import Answer, Library, Page, Question, Record

Pair = tuple[Question, Answer]


class Drawn(Record, frozen=True):
    """One sample."""

    answer: Answer | None
    """None: what was said is none"""
    logprob: float
    """of all that was said, in nats, under the constraint"""


def shown(question: Question, page: Page) -> Shown:
    """The prompt of one page, shown whole (GopherCite, table 12)."""
    title = " ".join(neutral(page.title).split())
    asked = f"Page: {title}\n{neutral(page.text)}\nQuestion: {question.text}\nAnswer: "
    return Shown(asked, lambda text: parse_inline(text, [page]), (page.title, page.text))


def best_found(library: Library, pages: int) -> Show:
    """Shows the pages that a search finds first, so many of them, one a prompt."""

    def show(question: Question) -> list[Shown]:
        hits = library.search(question.text, 10 * pages)
        urls = list(dict.fromkeys(hit.url for hit in hits))[:pages]
        return [shown(question, library.fetch(url)) for url in urls]

    return show


def drawn(
    policy: Path,
    questions: Sequence[Question],
    show: Show,
    n: int,
    sampling: Sampling,
    shape: Shape,
    seed: int,
) -> list[list[Drawn]]:
    """n samples for each question, its pages taking turns; fewer where a question has no page.

    Raises Failed: no_model, bad_model, prompt_too_long.
    """
    loaded = load(policy)
    room = loaded.context - sampling.tokens
    speech = Speech(
        loaded.tokenizer, loaded.vocabulary, loaded.ends, sampling.tokens, room, chat=False
    )
    answers: list[Answer] = []

    def noted(pairs: Sequence[Pair]) -> list[float]:
        answers.extend(answer for _, answer in pairs)
        return [0.0] * len(pairs)

    def said(contexts: Any, seeds: Any, allow: Any = None) -> list[Sampled]:
        return sample(loaded.model, contexts, seeds, loaded.ends, sampling, allow)

    world = OneStep(questions, show, noted, speech, Grammar(loaded.vocabulary, shape))
    episodes = range(n * len(questions))
    found: list[list[Drawn]] = [[] for _ in questions]
    played, each = world.play(said, episodes, seed), iter(answers)
    for one, (number, _) in zip(played, in_turn(len(questions), 1, episodes, seed), strict=True):
        for row in one.rows:
            answer = None if one.reward is None else next(each)
            found[number].append(Drawn(answer, math.fsum(row.logprobs)))
    return found


def once(scores: Scores) -> Scores:
    """Scores that are computed once for answers that come again: a page has few sentences."""
    known: dict[Pair, float] = {}

    def found(pairs: Sequence[Pair]) -> list[float]:
        fresh = list(dict.fromkeys(pair for pair in pairs if pair not in known))
        known.update(zip(fresh, scores(fresh) if fresh else (), strict=True))
        return [known[pair] for pair in pairs]

    return found


def both(folder: Path, pairs: Sequence[Pair], context: int) -> list[tuple[float, float]]:
    """The reward of each answer, and the log-odds that it is supported and plausible: what a reward
    model that learnt from ratings too gives (GopherCite, section 2.8)."""
    tokenizer, ends, _ = tokenizer_of(folder)
    model, _ = model_of(folder, "row", "float32")
    showing = showing_of(model, tokenizer, ends, context, False)
    rows = [np.asarray(showing.shown(*pair).tokens, np.int32) for pair in pairs]
    model.eval()  # type: ignore[no-untyped-call]
    found = score_rows(model, rows, showing.pad, model.device, 16)
    return [(float(reward), float(good)) for reward, good in found.tolist()]
