"""Novels to continue, for `recipes.ziegler`, and a made-up data folder of the same layout."""

import lzma
from pathlib import Path
from random import Random
from typing import NamedTuple

from recipes.gold_answers import cut_excerpts
from recipes.random_models import write_tiny_encoder
from recipes.sentiment_judges import read_packed_text
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.quotes.word_overlap import split_words
from rookery.records import Question


class Novels(NamedTuple):
    """Passages that the language model is tuned to, and beginnings to continue while a policy
    learns and where it is measured: 87 %, 10 % and 3 % of each novel."""

    passages: list[str]
    training: list[Question]
    measured: list[Question]


def read_novels(
    data: Path, passage: tuple[int, int], excerpt: tuple[int, int], split: int
) -> Novels:
    """Read passages and beginnings of the novels, shuffled by `split`; sizes in words.

    Files without an author in their name hold verse and are left out.
    """
    parts: list[list[str]] = [[], [], []]
    for place in sorted((data / "prose").glob("*_*.txt.xz")):
        text = read_packed_text(place)
        low, high = int(len(text) * 0.87), int(len(text) * 0.97)
        for at, part in enumerate((text[:low], text[low:high], text[high:])):
            parts[at] += cut_excerpts(part, *(excerpt if at else passage))
    for at, part_texts in enumerate(parts):
        Random(f"{split} excerpts {at}").shuffle(part_texts)
    training, measured = (
        [Question(f"{name}-{at}", text) for at, text in enumerate(part)]
        for name, part in zip(("training", "measured"), parts[1:], strict=True)
    )
    return Novels(parts[0], training, measured)


def write_tiny_data(data: Path) -> str:
    """Write the packaged pages about corvids as novels and reviews (positive if they contain a word
    of ability or care), and an encoder, whose folder is returned: enough to run every stage."""
    pages = (
        read_page(place.read_bytes(), place.as_uri(), "text/html")
        for place in sorted(get_bundled_folder().glob("*.html"))
    )
    texts = [text for page in pages for text in cut_excerpts(page.text, 5, 24)]
    good = {"can", "clever", "learn", "remember", "feed", "young"}
    by: dict[bool, list[str]] = {True: [], False: []}
    for text in texts:
        by[not good.isdisjoint(split_words(text))].append(text)
    for name, lines in (
        ("prose/corvids_all.txt.xz", texts),
        ("sentiment/rt-polarity.pos.xz", by[True]),
        ("sentiment/rt-polarity.neg.xz", by[False]),
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(lzma.compress("\n".join(lines).encode()))
    write_tiny_encoder(data / "encoder", [*texts, "Question: Answer:"])
    return str(data / "encoder")
