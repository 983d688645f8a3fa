"""What is copied from a source, how much and from where, and what is said twice (Ziegler, 3.2.1).

It knows nothing of whether copying is good. Words are those of `cite.overlap`: punctuation and
capitals do not count.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from rapidfuzz.distance import LCSseq

from rookery.browse.passages import sentences
from rookery.cite.overlap import words
from rookery.measure.figure import Figure, Line, Measured, Picture, bars_figure
from rookery.measure.interval import Estimate, mean, share
from rookery.records import Page, Record

SIZES = (1, 2, 3, 4)
"""words of a run (Ziegler, figures 5 and 6)"""
GREETINGS = frozenset("hi hello hey ok okay so".split())
"""with one of which a post's preamble begins (Ziegler, table 7)"""
_LINE = re.compile(r"[^\n]+")


class Stretch(Record, frozen=True):
    """Words of a text that stand in its source in a row."""

    said: int
    """the first of them in the text, counted in words"""
    source: int
    """the first of them in the source"""
    length: int


def sentences_of(text: str) -> list[tuple[int, int]]:
    """The spans of the sentences of a plain text; the end of a line ends a sentence."""
    page = Page("", "", text)
    return [span for line in _LINE.finditer(text) for span in sentences(page, *line.span())]


def novel(
    said: Sequence[str], sources: Sequence[str], sizes: Sequence[int] = SIZES, seed: int = 0
) -> dict[str, Estimate]:
    """The share of the runs of 1, 2, ... words, and of the sentences, of what is said that do not
    stand in the source word for word (Ziegler, figure 5).

    A run lies within one sentence of what is said; in the source it may cross their ends. Every
    occurrence counts; all texts are counted together, with intervals by the bootstrap over texts.
    A size that no text reaches is left out. Raises ValueError for a run of no words.
    """
    new: list[dict[str, list[bool]]] = []
    for text, source in zip(said, sources, strict=True):
        whole = _in_a_row(words(source))
        each = _runs(text, sizes)
        new.append({name: [run not in whole for run in runs] for name, runs in each.items()})
    return _shares(new, seed)


def repeated(
    said: Sequence[str], sizes: Sequence[int] = SIZES, seed: int = 0
) -> dict[str, Estimate]:
    """The share of the runs of 1, 2, ... words, and of the sentences, that stand in the text more
    than once (Ziegler, figure 6). Counted as in `novel`: a run that is said twice counts twice."""
    twice: list[dict[str, list[bool]]] = []
    for text in said:
        times = {name: (Counter(runs), runs) for name, runs in _runs(text, sizes).items()}
        twice.append(
            {name: [count[run] > 1 for run in runs] for name, (count, runs) in times.items()}
        )
    return _shares(twice, seed)


def copied(said: str, source: str) -> list[tuple[int, int]]:
    """Of the longest common subsequence of pairs of neighbouring words, where each pair begins:
    in what is said and in the source, counted in words (Ziegler, figure 7). Of several such
    subsequences, one."""
    ours, theirs = (list(pairwise(words(text))) for text in (said, source))
    same = [step for step in LCSseq.opcodes(ours, theirs) if step.tag == "equal"]
    return [
        (step.src_start + at, step.dest_start + at)
        for step in same
        for at in range(step.src_end - step.src_start)
    ]


def copied_from(
    said: Sequence[str], sources: Sequence[str], parts: int = 10, seed: int = 0
) -> dict[str, Estimate]:
    """From which part of the source it is copied: of the pairs that `copied` finds, the share that
    begins in the first tenth of the source, in the second, ...; the names are percent of it.

    Intervals by the bootstrap over texts. Empty where nothing is copied.
    """
    names = [f"{100 * at // parts}–{100 * (at + 1) // parts}%" for at in range(parts)]
    found: list[dict[str, list[bool]]] = []
    for text, source in zip(said, sources, strict=True):
        pairs = max(1, len(words(source)) - 1)
        places = [parts * place // pairs for _, place in copied(text, source)]
        found.append({name: [place == at for place in places] for at, name in enumerate(names)})
    return _shares(found, seed)


def longest_stretch(said: str, source: str) -> Stretch:
    """The most words in a row that stand in the source in a row; of several the first in what is
    said, and there the first in the source. Of length 0 where they share no word."""
    ours, theirs = words(said), words(source)
    found = SequenceMatcher(None, ours, theirs, autojunk=False).find_longest_match()
    return Stretch(found.a, found.b, found.size)


def in_one_piece(said: Sequence[str], sources: Sequence[str], seed: int = 0) -> Estimate:
    """The mean share of a text that its longest copied stretch makes up; 0 of a text without
    words. Raises ValueError without a text."""
    pairs = zip(said, sources, strict=True)
    shares = [longest_stretch(*pair).length / max(1, len(words(pair[0]))) for pair in pairs]
    return mean(shares, seed=seed)


def begins_alike(said: str, source: str, k: int = 3) -> bool:
    """Whether the first k words of the source are the first k words said (Ziegler, table 7)."""
    first = words(source)[:k]
    return len(first) == k and words(said)[:k] == first


def greets(source: str) -> bool:
    """Whether a post begins as preambles do: with "hi", "hello", "hey", "ok", "okay" or "so"."""
    return not GREETINGS.isdisjoint(words(source)[:1])


def labelled(source: str) -> bool:
    """Whether a colon stands within the first three words, as in "Fully charged: The new ..."."""
    return any(":" in word for word in source.split()[:3])


def openings(
    said: Sequence[str],
    sources: Sequence[str],
    is_preamble: Callable[[str], bool] = greets,
    k: int = 3,
) -> dict[str, Estimate]:
    """How often the first k words are copied: of `all` texts, and of those whose source begins
    with a `preamble`, left out where none does (Ziegler, table 7). Raises ValueError without a
    text."""
    pairs = list(zip(said, sources, strict=True))
    subsets = {"all": pairs, "preamble": [pair for pair in pairs if is_preamble(pair[1])]}
    return {
        name: share(sum(begins_alike(*pair, k) for pair in subset), len(subset))
        for name, subset in subsets.items()
        if subset or name == "all"
    }


def novel_figure(systems: Mapping[str, Measured], says: str, name: str = "novel") -> Figure:
    """What each system says that its source does not, from `novel` (Ziegler, figure 5)."""
    title = "Runs of words and sentences that are not in the source"
    return bars_figure(name, title, says, systems, "share that is novel", "Ziegler, figure 5")


def repeated_figure(systems: Mapping[str, Measured], says: str, name: str = "repeated") -> Figure:
    """What each system says more than once in a text, from `repeated` (Ziegler, figure 6)."""
    title = "Runs of words and sentences that are said more than once"
    return bars_figure(name, title, says, systems, "share that is repeated", "Ziegler, figure 6")


def openings_figure(systems: Mapping[str, Measured], says: str, name: str = "openings") -> Figure:
    """How often each system begins as its source does, from `openings` (Ziegler, table 7)."""
    title = "Texts that begin with the first words of their source"
    return bars_figure(name, title, says, systems, "share of the texts", "Ziegler, table 7")


def copied_from_figure(
    systems: Mapping[str, Measured], says: str, name: str = "copied-from"
) -> Figure:
    """From which part of the source each system copies, from `copied_from`."""
    title = "Where in the source the copied words stand"
    return bars_figure(name, title, says, systems, "share of what is copied", "Ziegler, figure 7")


def places_figure(
    said: Sequence[str], sources: Sequence[str], says: str, name: str = "places"
) -> Figure:
    """Each text of one system as one row: where in its source the stretches begin and end that
    `copied` finds, and where the source ends. Shorter sources first (Ziegler, figure 7)."""
    pairs = sorted(zip(said, sources, strict=True), key=lambda pair: len(words(pair[1])))
    ends = [len(words(source)) for _, source in pairs]
    found = [_stretches(copied(*pair)) for pair in pairs]
    every = [(stretch, float(row)) for row, each in enumerate(found) for stretch in each]
    lines = (
        Line("first word", tuple((first, row) for (first, _), row in every), style="points"),
        Line("last word", tuple((last, row) for (_, last), row in every), style="points"),
        Line("end of the source", tuple((end, y) for y, end in enumerate(ends)), style="dashed"),
    )
    rows = [
        (row, end, len(words(text)), sum(last - first for first, last in each), len(each))
        for row, ((text, _), end, each) in enumerate(zip(pairs, ends, found, strict=True))
    ]
    head = ("text", "words of the source", "words said", "pairs copied", "stretches")
    picture = Picture("curves", lines, x="word of the source", y="text")
    title = "Where in each source the copied words stand"
    return Figure(name, title, says, head, tuple(rows), picture, "Ziegler, figure 7")


def _stretches(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first and the last word in the source of pairs that follow each other in both texts."""
    found: list[tuple[int, int]] = []
    before = (-2, -2)
    for said, source in pairs:
        follows = before == (said - 1, source - 1)
        found.append((found.pop()[0] if follows else source, source + 1))
        before = (said, source)
    return found


def _runs(text: str, sizes: Sequence[int]) -> dict[str, list[str]]:
    """The runs of words within the sentences of a text, by their sizes, and the sentences."""
    if min(sizes, default=1) < 1:
        raise ValueError("a run has one word at least")
    each = [found for span in sentences_of(text) if (found := words(text[slice(*span)]))]
    runs = {
        f"{size} word{'s' * (size > 1)}": [
            _in_a_row(found[at : at + size])
            for found in each
            for at in range(len(found) - size + 1)
        ]
        for size in sizes
    }
    return {**runs, "sentence": [_in_a_row(found) for found in each]}


def _in_a_row(found: Sequence[str]) -> str:
    """Words so that one row of them is part of another only where no word is cut."""
    return f" {' '.join(found)} "


def _shares(texts: Sequence[Mapping[str, Sequence[bool]]], seed: int) -> dict[str, Estimate]:
    """Of each measure, the share that is true among those of all texts together."""
    names = dict.fromkeys(name for each in texts for name in each)
    told = {
        name: [(number, value) for number, each in enumerate(texts) for value in each[name]]
        for name in names
    }
    return {
        name: mean([value for _, value in pairs], [number for number, _ in pairs], seed)
        for name, pairs in told.items()
        if pairs
    }
