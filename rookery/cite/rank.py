"""Passages and their sentences, ranked by how well they answer a question.

A passage comes with the score of the search that found it; a better judge of likeness, where there
is one, is passed in as a function.
"""

import bisect
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from rookery.browse.passages import headings_above, sentences
from rookery.browse.words import QUESTION_WORDS, pairs, question_terms, terms
from rookery.cite.cues import expected, held, is_yes_or_no
from rookery.records import Hit, Page

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""(question, texts) -> one likeness in -1 to 1 a text"""


class RankWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each sign of a good sentence is worth; chosen on half of bench/search.py's questions."""

    rarity: float = 0.5
    """share of the question's words it holds, counted by rarity"""
    above: float = 0.7
    """of a word that only its title or headings hold, against one that it holds itself"""
    share: float = 0.5
    """share of the question's words, each counted the same"""
    pairs: float = 0.2
    """neighbouring words of the question that are neighbours in it too"""
    near: float = 0.3
    """words of the question in the sentence before or after it"""
    expected: float = 0.2
    """a date where the question asks when, a number where it asks how many, ..."""
    fragment: float = -0.2
    """fewer than `fragment_words` words"""
    fragment_words: int = 6
    silent: float = 0.7
    """times the score, where it holds no word of the question itself"""
    passage: float = 1.0
    """the score of its passage"""
    similarity: float = 1.0
    """the likeness that a model sees, where there is a model"""
    compared: int = 40
    """the best sentences by their words, for which the model is asked; for all, it finds no more"""
    best: float = 0.6
    """for a passage: the score of its best sentence, beside its own"""


class Sentence(msgspec.Struct, frozen=True):
    """page.text[start:end] and how well it answers, higher is better (0 to about 2)."""

    page: Page
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


class Passage(msgspec.Struct, frozen=True):
    """A passage that was found, its score, and its sentences in the order of the text."""

    page: Page
    hit: Hit
    score: float
    sentences: tuple[Sentence, ...]


Observer = Callable[[Sequence[Passage]], None]
"""is told the ranked passages, best first, before an answer is made of them"""


def rank(
    question: str,
    found: Sequence[tuple[Page, Hit]],
    similarity: Similarity | None = None,
    weights: RankWeights = RankWeights(),
) -> list[Passage]:
    """The passages, best first, near-duplicates shown once, each with its sentences scored."""
    asked = _Asked(question, found)
    scored = [asked.passage(n, page, hit, weights) for n, (page, hit) in enumerate(found)]
    if similarity is not None:
        scored = _with_similarity(question, scored, similarity, weights)
    totals = [_total(passage, weights) for passage in scored]
    ordered = sorted(zip(totals, scored, strict=True), key=lambda pair: -pair[0])
    return _distinct([msgspec.structs.replace(p, score=total) for total, p in ordered])


def best_sentences(ranked: Sequence[Passage]) -> list[Sentence]:
    """All sentences of these passages, best first."""
    every = [sentence for passage in ranked for sentence in passage.sentences]
    return sorted(every, key=lambda sentence: -sentence.score)


class _Asked:
    """A question's words and how rare each is among the passages found."""

    def __init__(self, question: str, found: Sequence[tuple[Page, Hit]]) -> None:
        self.question = question
        self.kind = expected(question)
        self.pairs = set(pairs(terms(question)))
        words = question_terms(question)
        # A yes-or-no question is answered by saying again what it asks.
        repeated = set() if is_yes_or_no(question) else {*terms(question), *QUESTION_WORDS}
        self.words = [
            [
                (span, terms(page.text[slice(*span)]))
                for span in sentences(page, hit.start, hit.end)
                if not _is_link(page, *span) and _adds(page.text[slice(*span)], repeated)
            ]
            for page, hit in found
        ]
        everywhere = Counter(
            word for passage in self.words for word in {w for _, ws in passage for w in ws}
        )
        self.rarity = {word: _rarity(everywhere[word], len(found)) for word in words}
        self.most = sum(self.rarity.values()) or 1.0

    def passage(self, number: int, page: Page, hit: Hit, weights: RankWeights) -> Passage:
        """The passage of this number among those found, with its sentences scored."""
        sentences_here = self.words[number]
        above = terms(f"{page.title} {headings_above(page, hit.start)}")
        asked_above = self.rarity.keys() & above
        asked_in = [self.rarity.keys() & words for _, words in sentences_here]
        scored = []
        for at, ((start, end), words) in enumerate(sentences_here):
            inside = asked_in[at]
            over = asked_above - inside
            around = set().union(*asked_in[max(0, at - 1) : at + 2]) - inside - over
            held_words = len(inside) + weights.above * len(over)
            score = (
                weights.rarity * (self._weight(inside) + weights.above * self._weight(over))
                + weights.share * held_words / max(1, len(self.rarity))
                + weights.pairs * self._pair_weight(words)
                + weights.near * self._weight(around)
                + weights.expected * bool(held(page.text[start:end], self.kind, self.question))
                + weights.passage * hit.score
                + weights.fragment * (len(words) < weights.fragment_words)
            )
            scored.append(Sentence(page, start, end, score * (1.0 if inside else weights.silent)))
        return Passage(page, hit, hit.score, tuple(scored))

    # Sets are added up exactly, so that their order, which differs from process to process, does
    # not show in the last digit of a score.
    def _weight(self, words: set[str]) -> float:
        return math.fsum(self.rarity[word] for word in words) / self.most

    def _pair_weight(self, words: list[str]) -> float:
        if not self.pairs:
            return 0.0
        shared = self.pairs & set(pairs(words))
        halves = (half for pair in shared for half in pair.split("_", 1))
        return math.fsum(self.rarity.get(half, 0.0) for half in halves) / (2 * self.most)


def _is_link(page: Page, start: int, end: int) -> bool:
    """Whether all of page.text[start:end] is one link: it leads to an answer and is none."""
    at = bisect.bisect(page.links, start, key=lambda link: link.start) - 1
    return at >= 0 and page.links[at].start <= start and end <= page.links[at].end + 1


def _adds(sentence: str, repeated: set[str]) -> bool:
    """Whether the sentence says more than these words, or announces what says more."""
    return sentence.endswith(":") or not repeated.issuperset(terms(sentence))


def _rarity(having: int, count: int) -> float:
    """At least 1, so that a word that is in every passage found still counts."""
    return 1 + math.log(1 + (count - having + 0.5) / (having + 0.5))


def _total(passage: Passage, weights: RankWeights) -> float:
    best = max((sentence.score for sentence in passage.sentences), default=0.0)
    return passage.hit.score + weights.best * best


def _with_similarity(
    question: str, scored: list[Passage], similarity: Similarity, weights: RankWeights
) -> list[Passage]:
    """The likeness of the best sentences added; all others count as the least alike of these."""
    compared = best_sentences(scored)[: weights.compared]
    values = similarity(question, [sentence.text for sentence in compared])
    likeness = dict(zip(map(_place, compared), values, strict=True))
    least = min(likeness.values(), default=0.0)

    def with_likeness(sentence: Sentence) -> Sentence:
        added = weights.similarity * likeness.get(_place(sentence), least)
        return msgspec.structs.replace(sentence, score=sentence.score + added)

    return [
        msgspec.structs.replace(passage, sentences=tuple(map(with_likeness, passage.sentences)))
        for passage in scored
    ]


def _place(sentence: Sentence) -> tuple[str, str, int]:
    return sentence.page.url, sentence.page.digest, sentence.start


SAME = 0.8
"""share of a passage's three-word runs that a better passage has too where it says nothing new"""
_WORDS = re.compile(r"\w+")


def _distinct(ranked: list[Passage]) -> list[Passage]:
    """Leave out each passage that repeats a better one.

    It repeats one that has SAME of its three-word runs or, where it is shorter than three words,
    all of its words next to one another. A longer passage does not repeat the short one it holds.
    """
    kept: list[Passage] = []
    seen: list[tuple[str, set[str]]] = []
    for passage in ranked:
        words = _WORDS.findall(passage.page.text[passage.hit.start : passage.hit.end].lower())
        text, runs = f" {' '.join(words)} ", _runs(words)
        if not any(
            len(runs & others) >= SAME * len(runs) if runs else text in other
            for other, others in seen
        ):
            kept.append(passage)
            seen.append((text, runs))
    return kept


def _runs(words: list[str]) -> set[str]:
    return {" ".join(words[at : at + 3]) for at in range(len(words) - 2)}
