"""Comparisons and ratings as rows of tokens for a reward model, read from JSONL files.

It knows nothing of models and losses.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from rookery.judge.lines import read_lines
from rookery.learn.examples import GOOD
from rookery.learn.rows import Ids
from rookery.learn.shown import Showing
from rookery.records import Answer, Comparison, Episode, Failed, Failure, Question, Rating

Pair = tuple[Question, Answer]


class Item(NamedTuple):
    """Answers to one question that are judged together."""

    question: str
    rows: tuple[Ids, ...]
    """what is shown of each answer; only one where it was rated and never compared"""
    weights: tuple[float, ...]
    """of each in the comparison; sum to 1, or all 0: it does not count"""
    good: tuple[float, ...]
    """of each, whether raters found it good, 1 or 0; not a number where nobody rated it"""
    by: str = ""

    @property
    def compared(self) -> bool:
        """Whether it says which answer is better."""
        return len(self.rows) > 1 and any(self.weights)

    @property
    def rated(self) -> int:
        """How many of its answers somebody rated."""
        return sum(not math.isnan(good) for good in self.good)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(map(len, self.rows))


class Items(NamedTuple):
    """What is learnt from, what it is measured on, and what became of the rest."""

    training: list[Item]
    validation: list[Item]
    too_long: int
    """comparisons and ratings left out, since a question and an answer of theirs alone have more
    tokens than the model reads"""
    cut: int
    """answers that were shown without some tokens of their quotes or pages"""


def comparisons(path: Path) -> list[Comparison]:
    """The comparisons of a file. Raises Failed: not_found, bad_line, no_data, one_sided."""
    found = list(read_lines(path, Comparison))
    if not found:
        detail = "there are no comparisons in it: write one Comparison as JSON a line"
        raise Failed(Failure(str(path), "no_data", detail))
    for number, each in enumerate(found, 1):
        if len(each.answers) < 2 or not all(0 <= weight <= 1 for weight in each.weights):
            detail = (
                f"comparison {number} is to have two answers at least, and weights from 0 to 1: "
                "mend it or take it out"
            )
            raise Failed(Failure(str(path), "bad_line", detail))
    if all(max(each.weights) == min(each.weights) for each in found):
        detail = "every comparison is a tie of all its answers, which teaches nothing: add others"
        raise Failed(Failure(str(path), "one_sided", detail))
    return found


def pairs(path: Path) -> list[Pair]:
    """Questions and answers of a file of Episodes or of Comparisons, such as a policy's samples.

    Episodes without an answer are left out. Raises Failed: not_found, bad_line, no_data.
    """
    try:
        episodes = list(read_lines(path, Episode))
        found = [(each.question, each.answer) for each in episodes if each.answer is not None]
    except Failed as failed:
        if failed.failure.outcome != "bad_line":
            raise
        several = read_lines(path, Comparison)
        found = [(each.question, answer) for each in several for answer in each.answers]
    if not found:
        detail = "there are no answers in it: write one Episode or Comparison as JSON a line"
        raise Failed(Failure(str(path), "no_data", detail))
    return found


def goodness(path: Path, scales: Sequence[str]) -> dict[Pair, float]:
    """1 for each answer that raters found good on all of these scales, 0.5 or more on average, and
    0 for each that they did not (GopherCite, section 2.7: both supported and plausible).

    What was not rated on all of them does not count. Raises Failed: not_found, bad_line, no_data,
    and one_sided where all are good or none is.
    """
    values: dict[Pair, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rating in read_lines(path, Rating):
        if not 0 <= rating.value <= 1:
            detail = f"a rating has the value {rating.value:g}: write 0 for no and 1 for yes"
            raise Failed(Failure(str(path), "bad_line", detail))
        values[key(rating.question, rating.answer)][rating.scale].append(rating.value)
    found = {
        pair: float(all(sum(by[scale]) >= GOOD * len(by[scale]) for scale in scales))
        for pair, by in values.items()
        if all(scale in by for scale in scales)
    }
    named = " and ".join(scales)
    if not found:
        detail = f"nobody rated an answer on {named}: name other scales, or leave ratings empty"
        raise Failed(Failure(str(path), "no_data", detail))
    if len(set(found.values())) == 1:
        detail = f"all answers are rated alike ({named}), which teaches nothing: add others"
        raise Failed(Failure(str(path), "one_sided", detail))
    return found


def key(question: Question, answer: Answer) -> Pair:
    """The same for an answer whoever scored it, and to a question whatever it is called."""
    plain = Question("", question.text, question.pages)
    return plain, msgspec.structs.replace(answer, score=None)


def items(
    compared: Sequence[Comparison],
    good: Mapping[Pair, float],
    showing: Showing,
    validation: float,
    seed: int,
) -> Items:
    """What is shown, cut to the context, and a share of the questions held out.

    Raises Failed: too_long where nothing is left, few_questions where none can be held out.
    """
    groups = [
        (tuple((each.question, answer) for answer in each.answers), each.weights, each.by)
        for each in compared
    ]
    seen = {key(*pair) for shown, *_ in groups for pair in shown}
    groups += [((pair,), (0.0,), "") for pair in good if pair not in seen]
    found, left, cut = [], 0, 0
    for shown, weights, by in groups:
        try:
            rows = [showing.shown(*pair) for pair in shown]
        except Failed:
            left += 1
            continue
        cut += sum(row.cut > 0 for row in rows)
        tokens = tuple(np.asarray(row.tokens, np.int32) for row in rows)
        rated = tuple(good.get(key(*pair), math.nan) for pair in shown)
        found.append(Item(shown[0][0].text, tokens, weights, rated, by))
    if not any(item.compared for item in found):
        detail = f"no comparison fits into {showing.context} tokens: use a longer context"
        raise Failed(Failure("comparisons", "too_long", detail))
    return Items(*_split(found, validation, seed), left, cut)


def _split(found: Sequence[Item], share: float, seed: int) -> tuple[list[Item], list[Item]]:
    """No question is on both sides, so that nothing is measured on what was learnt."""
    questions = sorted({item.question for item in found if item.compared})
    Random(f"{seed} validation").shuffle(questions)
    count = math.ceil(share * len(questions))
    if count == len(questions):
        detail = f"there are {count} questions: add more, or let validation be 0"
        raise Failed(Failure("comparisons", "few_questions", detail))
    held = set(questions[:count])
    trained = [item for item in found if item.question not in held]
    return trained, [item for item in found if item.question in held]


def batches(number: int, size: int, epochs: int, seed: int) -> list[list[int]]:
    """Numbers of items for each step: every epoch in an order of its own."""
    found = []
    for epoch in range(epochs):
        order = list(range(number))
        Random(f"{seed} order {epoch}").shuffle(order)
        found += [order[at : at + size] for at in range(0, number, size)]
    return found
