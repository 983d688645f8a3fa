"""The three tasks of `recipes.ziegler`: what is continued or summed up, and what its mock labeller
likes. It knows nothing of models.

The data lie in a folder as `../shared/data` has them; `write_made_up` writes such a folder from the
pages that come with the package.
"""

import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from rookery.browse.excerpts import excerpts
from rookery.browse.places import bundled
from rookery.browse.read import read
from rookery.cite.overlap import words
from rookery.learn.worlds import Scores
from rookery.measure.rouge import AVERAGED, best_rouge
from rookery.records import Answer, Question

PHYSICAL = frozenset((Path(__file__).parent / "physical.txt").read_text("utf-8").split())
"""words for what can be seen, heard, felt, smelt or tasted"""
Pairs = Sequence[tuple[Question, Answer]]


class Task(NamedTuple):
    """What a policy is asked, and what the mock labeller likes without saying so."""

    name: str
    asked: list[Question]
    """while it learns"""
    held: list[Question]
    """when it is measured"""
    shown: Callable[[Question], str]
    worth: Scores
    whole: bool
    """whether what is cut off is no answer"""


class Tasks(NamedTuple):
    """All of them, with what the language model learns from."""

    texts: list[str]
    sentiment: Task
    descriptive: Task
    summary: Task
    accuracy: float
    """of the mock labeller of sentiment, on reviews that it has not seen"""


class Texts(NamedTuple):
    """Of each novel the first 90 % for the language model; of the rest two thirds to learn with,
    and the end to measure on."""

    language: list[str]
    asked: list[Question]
    held: list[Question]


def read_tasks(
    data: Path,
    passage: tuple[int, int],
    excerpt: tuple[int, int],
    abstract: int,
    held: tuple[int, int],
    seed: int,
) -> Tasks:
    """The tasks of a folder of data: sizes in words, and how many excerpts and abstracts are held
    out to measure on."""
    texts = read_texts(data, passage, excerpt, seed)
    asked, kept = (
        read_abstracts(data / "scitldr" / f"{name}.jsonl.xz", abstract) for name in ("train", "dev")
    )
    kind, accuracy = sentiment(data, seed)
    contexts = texts.asked, texts.held[: held[0]]
    return Tasks(
        [*(part for one in asked for part in excerpts(one.text, *passage)), *texts.language],
        Task("sentiment", *contexts, as_it_is, kind, False),
        Task("descriptive", *contexts, as_it_is, descriptive, False),
        Task("summary", asked, kept[: held[1]], to_sum_up, like_reference, True),
        accuracy,
    )


def as_it_is(question: Question) -> str:
    """The prompt of a continuation."""
    return question.text


def to_sum_up(question: Question) -> str:
    """The prompt of a summary (Ziegler, section 3.2)."""
    return f"{question.text}\n\nTL;DR:"


def read_texts(data: Path, passage: tuple[int, int], context: tuple[int, int], seed: int) -> Texts:
    """Passages and contexts of the novels, each in an order drawn from the seed; sizes in words.

    What stands in verse (a file without an author) is left out.
    """
    parts: list[list[str]] = [[], [], []]
    for place in sorted((data / "prose").glob("*_*.txt.xz")):
        text = _read(place)
        low, high = int(len(text) * 0.9), int(len(text) * 0.97)
        for at, part in enumerate((text[:low], text[low:high], text[high:])):
            parts[at] += excerpts(part, *(context if at else passage))
    for at, told in enumerate(parts):
        Random(f"{seed} excerpts {at}").shuffle(told)
    asked, held = (
        [Question(f"{name}-{at}", text) for at, text in enumerate(part)]
        for name, part in zip(("asked", "held"), parts[1:], strict=True)
    )
    return Texts(parts[0], asked, held)


def read_abstracts(place: Path, size: int) -> list[Question]:
    """Abstracts, whole sentences of them up to so many words, with their one-sentence summaries."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in _read(place).splitlines()]
    found = []
    for at, row in enumerate(rows):
        begun = excerpts(" ".join(row["source"]), 1, size)[:1]
        found += [Question(f"{place.stem}-{at}", text, gold=tuple(row["target"])) for text in begun]
    return found


def sentiment(data: Path, seed: int) -> tuple[Scores, float]:
    """Log-odds that a text is kind, by a classifier of film reviews; and its accuracy on a tenth of
    them that it has not learnt from (Ziegler, section 3.1.1, has a transformer on Amazon's)."""
    rows = [
        (line, mood == "pos")
        for mood in ("pos", "neg")
        for line in _read(data / "sentiment" / f"rt-polarity.{mood}.xz").splitlines()
    ]
    Random(f"{seed} reviews").shuffle(rows)
    texts, kind = zip(*rows, strict=True)
    cut = len(rows) * 9 // 10
    known = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=2.0, max_iter=1000),
    ).fit(texts[:cut], kind[:cut])

    def scores(pairs: Pairs) -> list[float]:
        said = [answer.text for _, answer in pairs]
        return [float(odds) for odds in known.decision_function(said)]

    return scores, float(known.score(texts[cut:], kind[cut:]))


def descriptive(pairs: Pairs) -> list[float]:
    """How many different words of a continuation are physical."""
    return [float(len(PHYSICAL & {*words(answer.text)})) for _, answer in pairs]


def like_reference(pairs: Pairs) -> list[float]:
    """R-AVG with the reference that suits best, in tenths: from 0 to 10."""
    return [
        10 * fmean(best_rouge(answer.text, question.gold)[kind].f1 for kind in AVERAGED)
        for question, answer in pairs
    ]


def write_made_up(data: Path) -> None:
    """The little web about corvids as novels, reviews (kind is what has a word for being able) and
    abstracts (summed up by their first word): enough to see everything run."""
    said = [*_corvids()]
    kind = {"can", "clever", "learn", "remember", "feed", "young"}
    _write(data / "prose" / "corvids_all.txt.xz", "\n".join(said))
    for mood, wanted in (("pos", True), ("neg", False)):
        lines = [text for text in said if (not kind.isdisjoint(words(text))) == wanted]
        _write(data / "sentiment" / f"rt-polarity.{mood}.xz", "\n".join(lines))
    for name, part in (("train", said[::2]), ("dev", said[1::2])):
        rows = [
            {"source": part[at : at + 3], "target": [part[at].partition(" ")[0]]}
            for at in range(0, len(part), 3)
        ]
        _write(data / "scitldr" / f"{name}.jsonl.xz", "\n".join(map(json.dumps, rows)))


def _corvids() -> Iterator[str]:
    for place in sorted(bundled().glob("*.html")):
        page = read(place.read_bytes(), place.as_uri(), "text/html")
        yield from excerpts(page.text, 5, 24)


def _read(place: Path) -> str:
    with lzma.open(place, "rt", encoding="utf-8", errors="replace") as text:
        return text.read()


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(place, "wt", encoding="utf-8") as file:
        file.write(text)
