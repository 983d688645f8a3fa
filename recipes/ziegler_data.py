"""The three tasks of `recipes.ziegler`: texts to continue or summarise, and the mock labeller's
hidden reward.

Data lie in a folder with the layout of `../shared/data`; `write_tiny_data` writes such a folder
from the pages that come with the package.
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

from rookery.browse.libraries import get_bundled_folder
from rookery.browse.page_reader import read_page
from rookery.cite.word_overlap import split_words
from rookery.draft.gold_answers import cut_excerpts
from rookery.learn.browser_environment import BatchRewardFunction
from rookery.measure.text_metrics import AVERAGED_KINDS, compute_best_rouge
from rookery.records import Answer, Question

PHYSICAL_WORDS = frozenset((Path(__file__).parent / "physical.txt").read_text("utf-8").split())
"""Words for what can be seen, heard, felt, smelt or tasted."""
CANNED_WORDS = 12
"""Words of a canned continuation, about as many as fit into 24 tokens."""
CANNED_TEXTS = 5000
"""Texts, of those that the language model learns from, among which a canned one is chosen."""
Pairs = Sequence[tuple[Question, Answer]]


class Task(NamedTuple):
    """Prompts of one task, and the mock labeller's hidden reward."""

    name: str
    asked: list[Question]
    """Questions for training."""
    held: list[Question]
    """Questions for measuring."""
    shown: Callable[[Question], str]
    worth: BatchRewardFunction
    whole: bool
    """True: a text that was cut off counts as no answer."""


class Tasks(NamedTuple):
    """The three tasks, with the texts of the language model."""

    texts: list[str]
    """Texts that the language model learns from."""
    sentiment: Task
    descriptive: Task
    summary: Task
    accuracy: float
    """Accuracy of the sentiment labeller on held-out reviews."""


class Texts(NamedTuple):
    """Novels in parts: the first 90 % of each for the language model, the next 7 % for training,
    the last 3 % for measuring."""

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
    """Read the tasks from a data folder; `passage`, `excerpt` and `abstract` are sizes in words,
    `held` the numbers of excerpts and abstracts held out."""
    texts = read_texts(data, passage, excerpt, seed)
    asked, kept = (
        read_abstracts(data / "scitldr" / f"{name}.jsonl.xz", abstract) for name in ("train", "dev")
    )
    kind, accuracy = train_sentiment_classifier(data, seed)
    contexts = texts.asked, texts.held[: held[0]]
    return Tasks(
        [*(part for one in asked for part in cut_excerpts(one.text, *passage)), *texts.language],
        Task("sentiment", *contexts, format_continuation_prompt, kind, False),
        Task("descriptive", *contexts, format_continuation_prompt, count_physical_words, False),
        Task(
            "summary", asked, kept[: held[1]], format_summary_prompt, score_against_reference, True
        ),
        accuracy,
    )


def format_continuation_prompt(question: Question) -> str:
    """Return the question's text: the prompt of a continuation."""
    return question.text


def format_summary_prompt(question: Question) -> str:
    """Return the prompt of a summary, the text and "TL;DR:" (Ziegler, section 3.2)."""
    return f"{question.text}\n\nTL;DR:"


def read_texts(data: Path, passage: tuple[int, int], context: tuple[int, int], seed: int) -> Texts:
    """Read passages and contexts of the novels, each shuffled by the seed; sizes in words.

    Files without an author in their name hold verse and are left out.
    """
    parts: list[list[str]] = [[], [], []]
    for place in sorted((data / "prose").glob("*_*.txt.xz")):
        text = _read_xz(place)
        low, high = int(len(text) * 0.9), int(len(text) * 0.97)
        for at, part in enumerate((text[:low], text[low:high], text[high:])):
            parts[at] += cut_excerpts(part, *(context if at else passage))
    for at, told in enumerate(parts):
        Random(f"{seed} excerpts {at}").shuffle(told)
    asked, held = (
        [Question(f"{name}-{at}", text) for at, text in enumerate(part)]
        for name, part in zip(("asked", "held"), parts[1:], strict=True)
    )
    return Texts(parts[0], asked, held)


def read_abstracts(place: Path, size: int) -> list[Question]:
    """Read abstracts, cut to whole sentences within `size` words, with their one-sentence summaries
    as gold."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in _read_xz(place).splitlines()]
    found = []
    for at, row in enumerate(rows):
        begun = cut_excerpts(" ".join(row["source"]), 1, size)[:1]
        found += [Question(f"{place.stem}-{at}", text, gold=tuple(row["target"])) for text in begun]
    return found


def train_sentiment_classifier(data: Path, seed: int) -> tuple[BatchRewardFunction, float]:
    """Train a classifier of film reviews and return its scorer (log-odds that a text is positive)
    and its accuracy on a held-out tenth. Ziegler (section 3.1.1) used a transformer on Amazon
    reviews."""
    rows = [
        (line, mood == "pos")
        for mood in ("pos", "neg")
        for line in _read_xz(data / "sentiment" / f"rt-polarity.{mood}.xz").splitlines()
    ]
    Random(f"{seed} reviews").shuffle(rows)
    texts, kind = zip(*rows, strict=True)
    cut = len(rows) * 9 // 10
    known = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=2.0, max_iter=1000),
    ).fit(texts[:cut], kind[:cut])

    def score_sentiment(pairs: Pairs) -> list[float]:
        said = [answer.text for _, answer in pairs]
        return [float(odds) for odds in known.decision_function(said)]

    return score_sentiment, float(known.score(texts[cut:], kind[cut:]))


def count_physical_words(pairs: Pairs) -> list[float]:
    """Score each continuation by its number of different physical words."""
    return [float(len(PHYSICAL_WORDS & {*split_words(answer.text)})) for _, answer in pairs]


def choose_canned_sentence(task: Task, texts: Sequence[str]) -> str:
    """Return the CANNED_WORDS first words of a text that the task's labeller likes best."""
    begun = [" ".join(text.split()[:CANNED_WORDS]) for text in texts[:CANNED_TEXTS]]
    nothing = Question("", "")
    scores = task.worth([(nothing, Answer(text)) for text in begun])
    return begun[scores.index(max(scores))]


def list_physical_words() -> str:
    """Return CANNED_WORDS different physical words, the first of the alphabet."""
    return " ".join(sorted(PHYSICAL_WORDS)[:CANNED_WORDS])


def score_against_reference(pairs: Pairs) -> list[float]:
    """Score each summary by R-AVG with its best reference, times ten: 0 to 10."""
    return [
        10
        * fmean(compute_best_rouge(answer.text, question.gold)[kind].f1 for kind in AVERAGED_KINDS)
        for question, answer in pairs
    ]


def write_tiny_data(data: Path) -> None:
    """Write the packaged pages about corvids as novels, reviews (positive if they contain a word of
    ability or care) and abstracts (their summary is the first word): enough to run every stage."""
    said = [*_read_bundled_pages()]
    kind = {"can", "clever", "learn", "remember", "feed", "young"}
    _write_xz(data / "prose" / "corvids_all.txt.xz", "\n".join(said))
    for mood, wanted in (("pos", True), ("neg", False)):
        lines = [text for text in said if (not kind.isdisjoint(split_words(text))) == wanted]
        _write_xz(data / "sentiment" / f"rt-polarity.{mood}.xz", "\n".join(lines))
    for name, part in (("train", said[::2]), ("dev", said[1::2])):
        rows = [
            {"source": part[at : at + 3], "target": [part[at].partition(" ")[0]]}
            for at in range(0, len(part), 3)
        ]
        _write_xz(data / "scitldr" / f"{name}.jsonl.xz", "\n".join(map(json.dumps, rows)))


def _read_bundled_pages() -> Iterator[str]:
    for place in sorted(get_bundled_folder().glob("*.html")):
        page = read_page(place.read_bytes(), place.as_uri(), "text/html")
        yield from cut_excerpts(page.text, 5, 24)


def _read_xz(place: Path) -> str:
    with lzma.open(place, "rt", encoding="utf-8", errors="replace") as text:
        return text.read()


def _write_xz(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(place, "wt", encoding="utf-8") as file:
        file.write(text)
