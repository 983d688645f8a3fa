"""A world in which one word makes an answer the better one, for reward models to learn."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

from rookery.learn.random_models import write_tiny_model
from rookery.records import Answer, Comparison, Question, Rating, Record

WORDS = "crow magpie raven nest seed mirror tree egg wing sky".split()
GOOD, BAD = "clever", "stupid"


def question(number: int) -> Question:
    return Question(str(number), f"What about the {WORDS[number % len(WORDS)]}, {number}?")


def answer(good: bool, chance: Random) -> Answer:
    words = [*chance.choices(WORDS, k=chance.randint(2, 5)), GOOD if good else BAD]
    chance.shuffle(words)
    return Answer(" ".join(words))


def pair(number: int, noise: float = 0.0) -> Comparison:
    """Every fourth (1, 5, ...) is a tie; of the others, this share is preferred wrongly."""
    chance = Random(number)
    first = chance.random() < 0.5
    tied = number % 4 == 1
    kinds = (True, True) if tied else (first, not first)
    answers = tuple(answer(good, chance) for good in kinds)
    if chance.random() < noise:
        first = not first
    weights = (0.5, 0.5) if tied else (float(first), float(not first))
    return Comparison(question(number), answers, weights, "ada" if number % 3 else "bob")


def four(number: int) -> Comparison:
    """The best of four."""
    chance = Random(number)
    best = chance.randrange(4)
    answers = tuple(answer(place == best, chance) for place in range(4))
    return Comparison(question(number), answers, tuple(float(p == best) for p in range(4)), "eve")


def rating(number: int, good: bool, scale: str) -> Rating:
    return Rating(question(number), answer(good, Random(number)), scale, float(good), "ada")


def write_lines(place: Path, records: Iterable[Record]) -> Path:
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    return place


def write_small(folder: Path, context: int = 128) -> Path:
    texts = [" ".join([*WORDS, GOOD, BAD, "What about the Question: Answer: [1]"])] * 3
    write_tiny_model(folder, texts, vocabulary=330, context=context)
    return folder
