"""Ranking of passages, and of their sentences, by how well they answer a question.

A passage brings the score of the search that found it. A model's similarity, where there is one, is
passed in as a function.
"""

import bisect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest

import msgspec

from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage, convert_to_probability
from rookery.library.search_index import compute_fused_score
from rookery.pages.passages import find_sentences, get_headings_above
from rookery.pages.search_terms import (
    QUESTION_WORDS,
    find_language,
    get_question_terms,
    join_pairs,
    split_terms,
)
from rookery.quotes.answer_types import (
    detect_answer_type,
    extract_answer_terms,
    is_yes_no_question,
    mark_question,
)
from rookery.records import Hit, Page

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""(question, texts) -> the similarity of each text, -1 to 1"""


class RankWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the features of a good sentence, chosen on half of the questions of
    bench/search.py."""

    rarity: float = 0.5
    """of the share of the question's words that it holds, weighted by rarity"""
    above: float = 0.7
    """factor for a word that only its title or headings hold"""
    share: float = 0.5
    """of the share of the question's words that it holds, each counted the same"""
    pairs: float = 0.2
    """of neighbouring words of the question that are neighbours in it too"""
    near: float = 0.3
    """of words of the question in the sentence before or after it"""
    expected: float = 0.2
    """of a term of the expected answer type: a date where the question asks when, and so on"""
    fragment: float = -0.2
    """of having fewer than `fragment_words` words"""
    fragment_words: int = 6
    """number of words below which a sentence is a fragment"""
    silent: float = 0.7
    """factor of the score if it holds no word of the question itself"""
    passage: float = 1.0
    """of the score of its passage"""
    similarity: float = 1.0
    """of the similarity that a model computes, if there is a model"""
    compared: int = 40
    """number of best sentences by words that the model compares; comparing all finds no more"""
    best: float = 0.6
    """for a passage: of the score of its best sentence, added to its own"""


class ScoredSentence(msgspec.Struct, frozen=True):
    """Span page.text[start:end] and its score, higher is better (0 to about 2)."""

    page: Page
    start: int
    end: int
    score: float

    @property
    def text(self) -> str:
        """The sentence, as the page has it."""
        return self.page.text[self.start : self.end]


class RankedPassage(msgspec.Struct, frozen=True):
    """Passage that a search found, its score, and its sentences in the order of the text."""

    page: Page
    hit: Hit
    score: float
    sentences: tuple[ScoredSentence, ...]


RankingObserver = Callable[[Sequence[RankedPassage]], None]
"""function that is given the ranked passages, best first, before an answer is made of them"""
PassageRanker = Callable[[str, Sequence[tuple[Page, Hit]]], list[RankedPassage]]
"""(question, passages that a search found) -> the passages best first, without repetitions: such as
`rank_passages`, also with a similarity: `partial(rank_passages, similarity=...)`"""


def rank_passages(
    question: str,
    hits: Sequence[tuple[Page, Hit]],
    similarity: Similarity | None = None,
    weights: RankWeights = RankWeights(),
) -> list[RankedPassage]:
    """Rank the passages found, best first, each with its sentences scored.

    A passage's score is that of its search and a part of its best sentence's. Passages that repeat
    a better one are dropped.
    """
    terms = _QuestionTerms(question, hits)
    scored = [terms.score_passage(n, *found_in, weights) for n, found_in in enumerate(hits)]
    if similarity is not None:
        scored = _add_similarity(question, scored, similarity, weights)
    totals = [_sum_scores(passage, weights) for passage in scored]
    ordered = sorted(zip(totals, scored, strict=True), key=lambda pair: -pair[0])
    return drop_repeated_passages([msgspec.structs.replace(p, score=total) for total, p in ordered])


def sort_sentences(ranked: Sequence[RankedPassage]) -> list[ScoredSentence]:
    """Return the sentences of all these passages, best first."""
    every = [sentence for passage in ranked for sentence in passage.sentences]
    return sorted(every, key=lambda sentence: -sentence.score)


class _LanguageTerms(msgspec.Struct, frozen=True):
    """Words of a question as the pages in one language have them."""

    rarity: dict[str, float]
    """of each word among the passages found"""
    pairs: set[str]
    """neighbouring words"""

    @property
    def most(self) -> float:
        """Sum of all rarities."""
        return sum(self.rarity.values()) or 1.0


class _QuestionTerms:
    """Words of a question in each language of the pages found, and their rarity among these."""

    def __init__(self, question: str, hits: Sequence[tuple[Page, Hit]]) -> None:
        self.question = question
        self.kind = detect_answer_type(question)
        self.languages = [find_language(page.text) for page, _ in hits]
        # The answer to a yes-or-no question may repeat the question's words and add none.
        repeats = is_yes_no_question(question)
        repeated = {
            language: set() if repeats else {*split_terms(question, language), *QUESTION_WORDS}
            for language in set(self.languages)
        }
        self.words = [
            list(_split_sentences(page, hit, language, repeated[language]))
            for (page, hit), language in zip(hits, self.languages, strict=True)
        ]
        everywhere = Counter(
            word for passage in self.words for word in {w for _, ws in passage for w in ws}
        )
        self.asked: dict[str, _LanguageTerms] = {}
        for language in set(self.languages):
            terms = get_question_terms(question, language)
            rarity = {word: _compute_rarity(everywhere[word], len(hits)) for word in terms}
            pairs = set(join_pairs(split_terms(question, language)))
            self.asked[language] = _LanguageTerms(rarity, pairs)

    def score_passage(
        self, number: int, page: Page, hit: Hit, weights: RankWeights
    ) -> RankedPassage:
        """Return the passage of this number among those found, with its sentences scored."""
        language, scored = self.languages[number], []
        terms, spans = self.asked[language], self.words[number]
        above = split_terms(f"{page.title} {get_headings_above(page, hit.start)}", language)
        asked_above = terms.rarity.keys() & above
        asked_in = [terms.rarity.keys() & words for _, words in spans]
        for at, ((start, end), words) in enumerate(spans):
            inside = asked_in[at]
            over = asked_above - inside
            around = set().union(*asked_in[max(0, at - 1) : at + 2]) - inside - over
            rare = _weigh_words(terms, inside) + weights.above * _weigh_words(terms, over)
            share = (len(inside) + weights.above * len(over)) / max(1, len(terms.rarity))
            expected = extract_answer_terms(page.text[start:end], self.kind, self.question)
            score = weights.rarity * rare + weights.share * share
            score += weights.pairs * _weigh_pairs(terms, words)
            score += weights.near * _weigh_words(terms, around)
            score += weights.expected * bool(expected) + weights.passage * hit.score
            score += weights.fragment * (len(words) < weights.fragment_words)
            score *= 1.0 if inside else weights.silent
            scored.append(ScoredSentence(page, start, end, score))
        return RankedPassage(page, hit, hit.score, tuple(scored))


def _split_sentences(
    page: Page, hit: Hit, language: str, repeated: set[str]
) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Yield the span and the words of each sentence of a passage that is no link and has other
    words than `repeated`, or ends in a colon before an answer."""
    for start, end in find_sentences(page, hit.start, hit.end):
        words = split_terms(page.text[start:end], language)
        adds = page.text[start:end].endswith(":") or not repeated.issuperset(words)
        if adds and not _is_link(page, start, end):
            yield (start, end), words


# math.fsum, since the order of a set differs between processes and would otherwise change the last
# digit of a score.
def _weigh_words(language_terms: _LanguageTerms, words: set[str]) -> float:
    return math.fsum(language_terms.rarity[word] for word in words) / language_terms.most


def _weigh_pairs(language_terms: _LanguageTerms, words: list[str]) -> float:
    if not language_terms.pairs:
        return 0.0
    shared = language_terms.pairs & set(join_pairs(words))
    halves = (half for pair in shared for half in pair.split("_", 1))
    rare = math.fsum(language_terms.rarity.get(half, 0.0) for half in halves)
    return rare / (2 * language_terms.most)


def _is_link(page: Page, start: int, end: int) -> bool:
    """Return True if page.text[start:end] is one link: it leads to an answer and is none."""
    at = bisect.bisect(page.links, start, key=lambda link: link.start) - 1
    return at >= 0 and page.links[at].start <= start and end <= page.links[at].end + 1


def _compute_rarity(having: int, count: int) -> float:
    """Return the rarity of a word, at least 1, so that a word in every passage found still
    counts."""
    return 1 + math.log(1 + (count - having + 0.5) / (having + 0.5))


def _sum_scores(passage: RankedPassage, weights: RankWeights) -> float:
    best = max((sentence.score for sentence in passage.sentences), default=0.0)
    return passage.hit.score + weights.best * best


def _add_similarity(
    question: str, scored: list[RankedPassage], similarity: Similarity, weights: RankWeights
) -> list[RankedPassage]:
    """Add the model's similarity to the best sentences; others count as the least similar of
    these."""
    compared = sort_sentences(scored)[: weights.compared]
    values = similarity(question, [sentence.text for sentence in compared])
    likeness = dict(zip(map(_make_key, compared), values, strict=True))
    least = min(likeness.values(), default=0.0)

    def add_likeness(sentence: ScoredSentence) -> ScoredSentence:
        added = weights.similarity * likeness.get(_make_key(sentence), least)
        return msgspec.structs.replace(sentence, score=sentence.score + added)

    return [
        msgspec.structs.replace(passage, sentences=tuple(map(add_likeness, passage.sentences)))
        for passage in scored
    ]


def _make_key(sentence: ScoredSentence) -> tuple[str, str, int]:
    return sentence.page.url, sentence.page.digest, sentence.start


DUPLICATE_SHARE = 0.8
"""share of a passage's three-word runs in a better passage from which it counts as a repetition"""
_WORDS = re.compile(r"\w+")


def drop_repeated_passages(ranked: Sequence[RankedPassage]) -> list[RankedPassage]:
    """Return the passages, best first as they are given, without those that repeat a better one.

    A passage repeats one that has DUPLICATE_SHARE of its three-word runs or, if it is shorter than
    three words, all of its words next to one another. A longer passage does not repeat the short
    one it holds.
    """
    distinct: list[RankedPassage] = []
    compared: list[tuple[str, set[str]]] = []
    for passage in ranked:
        words = _WORDS.findall(passage.page.text[passage.hit.start : passage.hit.end].lower())
        text, runs = f" {' '.join(words)} ", _list_trigrams(words)
        if not any(
            len(runs & others) >= DUPLICATE_SHARE * len(runs) if runs else text in other
            for other, others in compared
        ):
            distinct.append(passage)
            compared.append((text, runs))
    return distinct


def _list_trigrams(words: list[str]) -> set[str]:
    return {" ".join(words[at : at + 3]) for at in range(len(words) - 2)}


MAX_JUDGED_PASSAGES = 20
"""maximum number of passages that are judged, the best of the search; deeper pools find no more"""
LONG_QUERY_WORDS = 25
"""words beyond which a query is no question as the model has learnt them but a search query or a
post, for which the judge's order alone is worse than the search's"""

FUSION_OFFSET = 60
"""what is added to a rank before its reciprocal is taken (Cormack and others 2009)"""


def rank_by_evidence(
    question: str, hits: Sequence[tuple[Page, Hit]], judge: EvidenceJudge
) -> list[RankedPassage]:
    """Rank the passages found, best first, by how well the judge says that they answer.

    The MAX_JUDGED_PASSAGES best of the search are judged; the others are dropped, and so are
    passages that repeat a better one. For a query of more than LONG_QUERY_WORDS words the ranks of
    the search and of the judge are fused (reciprocal rank fusion). A passage's score is the
    probability that it answers. Sentences are not scored.
    """
    pool = nlargest(MAX_JUDGED_PASSAGES, hits, key=lambda each: compute_fused_score(each[1]))
    passages = [_make_evidence_passage(page, hit) for page, hit in pool]
    judged = judge(mark_question(question), passages)
    by_judge = sorted(range(len(pool)), key=lambda number: -judged[number].answers)
    order = by_judge
    if len(question.split()) > LONG_QUERY_WORDS:
        # The pool is in the order of the search, so that a number is a rank.
        fused = {
            number: 1 / (FUSION_OFFSET + 1 + number) + 1 / (FUSION_OFFSET + rank)
            for rank, number in enumerate(by_judge, 1)
        }
        order = sorted(by_judge, key=lambda number: -fused[number])
    probabilities = [convert_to_probability(each.answers) for each in judged]
    ranked = [RankedPassage(*pool[number], probabilities[number], ()) for number in order]
    return drop_repeated_passages(ranked)


def _make_evidence_passage(page: Page, hit: Hit) -> EvidencePassage:
    heading = f"{page.title} {get_headings_above(page, hit.start)}".strip()
    return EvidencePassage(page.text[hit.start : hit.end], heading)
