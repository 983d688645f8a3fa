"""The three tasks of `recipes.ziegler`: texts to continue or summarise, the mock labeller's hidden
reward, and another judge of the results.

Data lie in a folder with the layout of `../shared/data`; `write_tiny_data` writes such a folder
from the pages that come with the package.
"""

import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from recipes.gold_answers import cut_excerpts
from recipes.random_models import write_tiny_encoder
from rookery.learn.retrieval_training import SentenceEncoder, load_sentence_encoder
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.library.libraries import get_bundled_folder
from rookery.measure.text_metrics import AVERAGED_KINDS, compute_best_rouge
from rookery.pages.page_reader import read_page
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Question

PHYSICAL_WORDS = frozenset((Path(__file__).parent / "physical.txt").read_text("utf-8").split())
"""Words for what can be seen, heard, felt, smelt or tasted."""
CANNED_WORDS = 12
"""Words of a canned continuation, about as many as fit into 24 tokens."""
JUDGED_TEXTS = 2000
"""Texts at most that a judge learns from: to embed them takes nearly all of its time."""
CANNED_TEXTS = 5000
"""Texts, of those that the language model learns from, among which a canned one is chosen."""
Pairs = Sequence[tuple[Question, Answer]]


class Task(NamedTuple):
    """Prompts of one task, the mock labeller's hidden reward, and the judge of the results."""

    name: str
    asked: list[Question]
    """Questions for training."""
    held: list[Question]
    """Questions for measuring."""
    shown: Callable[[Question], str]
    worth: BatchRewardFunction
    """The labeller's."""
    judged: BatchRewardFunction
    """That of another judge, who has learnt from other data, by whom the results are measured."""
    whole: bool
    """True: a text that was cut off counts as no answer."""
    full_stop: int = 0
    """Token, counted from 1, from which on a text ends at a full stop; 0: at any end."""


class Judges(NamedTuple):
    """Two classifiers that have learnt the same from different texts, and how good they are."""

    labeller: BatchRewardFunction
    """TF-IDF and logistic regression: log-odds."""
    judge: BatchRewardFunction
    """Sentence embeddings and logistic regression: log-odds."""
    accuracies: tuple[float, float]
    """Of labeller and judge, on texts that neither has learnt from."""
    agreement: float
    """Share of these texts that both call the same."""


class Tasks(NamedTuple):
    """The three tasks, with the texts of the language model."""

    texts: list[str]
    """Texts that the language model learns from."""
    sentiment: Task
    descriptive: Task
    summary: Task
    judges: tuple[Judges, Judges]
    """Of sentiment and of description."""


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
    held_range: tuple[int, int],
    seed: int,
    encoder: str,
    full_stop: int = 0,
) -> Tasks:
    """Read the tasks from a data folder; `passage`, `excerpt` and `abstract` are sizes in words,
    `held_range` the numbers of excerpts and abstracts held out, `encoder` the judge's.
    Continuations end with a full stop from the token `full_stop` on; 0: in any way."""
    texts = read_texts(data, passage, excerpt, seed)
    train_questions, held_questions = (
        read_abstracts(data / "scitldr" / f"{name}.jsonl.xz", abstract) for name in ("train", "dev")
    )
    embed = load_sentence_encoder(encoder)
    kind = train_judges(read_reviews(data), embed, seed)
    vivid = train_judges(select_descriptions(texts.language), embed, seed)
    contexts = texts.asked, texts.held[: held_range[0]], format_continuation_prompt
    ends = full_stop > 0, full_stop
    return Tasks(
        [
            *(part for one in train_questions for part in cut_excerpts(one.text, *passage)),
            *texts.language,
        ],
        Task("sentiment", *contexts, kind.labeller, kind.judge, *ends),
        Task("descriptive", *contexts, vivid.labeller, vivid.judge, *ends),
        Task(
            "summary",
            train_questions,
            held_questions[: held_range[1]],
            format_summary_prompt,
            score_against_reference,
            partial(score_likeness, embed),
            True,
        ),
        (kind, vivid),
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
    for at, part_texts in enumerate(parts):
        Random(f"{seed} excerpts {at}").shuffle(part_texts)
    train_texts, held_texts = (
        [Question(f"{name}-{at}", text) for at, text in enumerate(part)]
        for name, part in zip(("asked", "held"), parts[1:], strict=True)
    )
    return Texts(parts[0], train_texts, held_texts)


def read_abstracts(place: Path, size: int) -> list[Question]:
    """Read abstracts, cut to whole sentences within `size` words, with their one-sentence summaries
    as gold."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in _read_xz(place).splitlines()]
    found = []
    for at, row in enumerate(rows):
        begun = cut_excerpts(" ".join(row["source"]), 1, size)[:1]
        found += [Question(f"{place.stem}-{at}", text, gold=tuple(row["target"])) for text in begun]
    return found


def read_reviews(data: Path) -> list[tuple[str, bool]]:
    """Read sentences of film reviews, and whether each is positive."""
    return [
        (line, mood == "pos")
        for mood in ("pos", "neg")
        for line in _read_xz(data / "sentiment" / f"rt-polarity.{mood}.xz").splitlines()
    ]


def select_descriptions(passages: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the passages that hold a physical word, and as many others."""
    by: dict[bool, list[str]] = {True: [], False: []}
    for text in passages:
        by[not PHYSICAL_WORDS.isdisjoint(split_words(text))].append(text)
    count = min(map(len, by.values()))
    return [(text, vivid) for vivid, texts in by.items() for text in texts[:count]]


def train_judges(rows: Sequence[tuple[str, bool]], embed: SentenceEncoder, seed: int) -> Judges:
    """Train two classifiers, each on its 45 % of the texts; the last tenth is for measuring.
    Ziegler (section 3.1.1) used a transformer on Amazon reviews."""
    texts, kind = zip(*Random(f"{seed} judges").sample(rows, len(rows)), strict=True)
    half, cut = len(rows) * 9 // 20, len(rows) * 9 // 10
    some, tests = slice(half, min(half + JUDGED_TEXTS, cut)), slice(cut, cut + JUDGED_TEXTS // 2)
    labeller = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=2.0, max_iter=1000),
    ).fit(texts[:half], kind[:half])

    @torch.inference_mode()
    def embed_texts(passages: Sequence[str]) -> Any:
        return embed(passages).numpy()

    # Embeddings have length 1, so that C is larger than for TF-IDF.
    judge = make_pipeline(
        FunctionTransformer(embed_texts), LogisticRegression(C=10.0, max_iter=1000)
    ).fit(texts[some], kind[some])
    predictions = [model.predict(texts[tests]) for model in (labeller, judge)]
    right = [float((predicted == kind[tests]).mean()) for predicted in predictions]
    return Judges(
        partial(_compute_log_odds, labeller),
        partial(_compute_log_odds, judge),
        (right[0], right[1]),
        float((predictions[0] == predictions[1]).mean()),
    )


def _compute_log_odds(classifier: Any, pairs: Pairs) -> list[float]:
    """Return a classifier's log-odds of each answer."""
    return [
        float(odds) for odds in classifier.decision_function([answer.text for _, answer in pairs])
    ]


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


@torch.inference_mode()
def score_likeness(embed: SentenceEncoder, pairs: Pairs) -> list[float]:
    """Score each summary by the cosine of its sentence embedding with that of the most alike of the
    question's references."""
    return [
        float((embed([answer.text]) @ embed(question.gold).T).max()) for question, answer in pairs
    ]


def write_tiny_data(data: Path) -> str:
    """Write the packaged pages about corvids as novels, reviews (positive if they contain a word of
    ability or care) and abstracts (their summary is the first word), and an encoder, whose folder
    is returned: enough to run every stage."""
    texts = [*_read_bundled_pages()]
    encoder = data / "encoder"
    write_tiny_encoder(encoder, texts)
    kind = {"can", "clever", "learn", "remember", "feed", "young"}
    _write_xz(data / "prose" / "corvids_all.txt.xz", "\n".join(texts))
    for mood, is_positive in (("pos", True), ("neg", False)):
        lines = [text for text in texts if (not kind.isdisjoint(split_words(text))) == is_positive]
        _write_xz(data / "sentiment" / f"rt-polarity.{mood}.xz", "\n".join(lines))
    for name, part in (("train", texts[::2]), ("dev", texts[1::2])):
        rows = [
            {"source": part[at : at + 3], "target": [part[at].partition(" ")[0]]}
            for at in range(0, len(part), 3)
        ]
        _write_xz(data / "scitldr" / f"{name}.jsonl.xz", "\n".join(map(json.dumps, rows)))
    return str(encoder)


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
