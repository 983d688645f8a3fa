"""What the papers compare with: evidence, summaries, answers and rankings that took no learning.

A ranking is a `Similarity` of `cite.rank`: (question, texts) -> one score a text. The dense one is
there already: `cite.dense.load().similarities`, untrained.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random

import msgspec

from rookery.browse.passages import sentences
from rookery.browse.words import terms
from rookery.judge.thumbs import Thread
from rookery.records import Answer, Claim, Failed, Failure, Page, Question, Quote

K1, B = 1.2, 0.75
"""of BM25, as in `browse.index`"""


class Corpus(msgspec.Struct, frozen=True):
    """How many texts hold each term, from which its rarity follows."""

    texts: int
    having: Mapping[str, int]
    terms: int
    """of all texts together"""


def corpus(texts: Sequence[str]) -> Corpus:
    """Counts the terms of texts (lower case, endings removed: `browse.words`)."""
    found = [terms(text) for text in texts]
    having = Counter(term for each in found for term in set(each))
    return Corpus(len(found), having, sum(map(len, found)))


def tf_idf(query: str, texts: Sequence[str], among: Corpus | None = None) -> list[float]:
    """The cosine, 0 to 1, of each text to the query, terms weighed by count and rarity.

    A term's rarity is 1 + ln((1 + texts) / (1 + texts that hold it)), among these texts where no
    corpus is given.
    """
    known = among or corpus(texts)
    asked = _weighed(query, known)
    return [
        math.fsum(weight * asked.get(term, 0.0) for term, weight in _weighed(text, known).items())
        for text in texts
    ]


def bm25(query: str, texts: Sequence[str], among: Corpus | None = None) -> list[float]:
    """Okapi BM25 of each text, 0 where it shares no term with the query.

    The formula of the search in `browse.index`, which ranks all that a library holds and counts
    titles and neighbouring words too; this ranks the texts that are given. Rarity and mean length
    are of these texts where no corpus is given.
    """
    known = among or corpus(texts)
    usual = known.terms / max(known.texts, 1) or 1.0
    asked = {term: count * _rarity(term, known) for term, count in Counter(terms(query)).items()}
    found = []
    for text in texts:
        held = Counter(terms(text))
        norm = K1 * (1 - B + B * held.total() / usual)
        found.append(
            math.fsum(
                weight * held[term] * (K1 + 1) / (held[term] + norm)
                for term, weight in asked.items()
            )
        )
    return found


def first_sentence(page: Page) -> Quote:
    """The first sentence of a page (GopherCite, section 3.2). Raises Failed: no_sentence."""
    return page.quote(*_sentences(page)[0])


def random_sentence(page: Page, seed: int | str) -> Quote:
    """Any sentence of a page, the same for the same seed. Raises Failed: no_sentence."""
    return page.quote(*Random(f"{seed} sentence").choice(_sentences(page)))


def closest_sentence(page: Page, question: str, gold: str) -> Quote:
    """The sentence closest to question and gold answer together by TF-IDF, rarity being that in
    this page alone (GopherCite, section 3.2); of equals the first. Raises Failed: no_sentence."""
    spans = _sentences(page)
    alike = tf_idf(f"{question} {gold}", [page.text[start:end] for start, end in spans])
    return page.quote(*spans[alike.index(max(alike))])


def gold_answer(question: Question, quote: Quote) -> Answer:
    """The question's first gold answer, resting on this quote. Raises Failed: no_gold."""
    if not question.gold:
        detail = "the baselines give the gold answer: leave out questions without one"
        raise Failed(Failure(question.id or question.text, "no_gold", detail))
    gold = question.gold[0]
    return Answer(gold, (quote,), (Claim(0, len(gold), (0,)),))


def lead(page: Page, count: int = 3) -> Answer:
    """The first sentences of a page, quoted, as its summary: lead-3 (Ziegler, section 3.2).

    Ziegler cuts it, as all summaries, at a period between two token counts: that is left to what
    cuts the others. Raises Failed: no_sentence.
    """
    spans = _sentences(page)[:count]
    quote = page.quote(spans[0][0], spans[-1][1])
    return Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))


def first(thread: Thread) -> list[float]:
    """A score for each answer on a forum, higher for those that stand before others."""
    return [float(-number) for number, _ in enumerate(thread.answers)]


def longest(thread: Thread) -> list[float]:
    """A score for each answer on a forum: its characters."""
    return [float(len(post.text)) for post in thread.answers]


def earliest(thread: Thread) -> list[float]:
    """A score for each answer on a forum, higher for those posted before others.

    One of unknown time counts as later than all. A time without a zone is UTC's.
    """
    return [-_moment(post.posted) if post.posted else -math.inf for post in thread.answers]


def _moment(said: str) -> float:
    found = datetime.fromisoformat(said)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _sentences(page: Page) -> list[tuple[int, int]]:
    found = sentences(page, 0, len(page.text))
    if not found:
        detail = "there is no sentence on the page: leave it out"
        raise Failed(Failure(page.url, "no_sentence", detail))
    return found


def _weighed(text: str, known: Corpus) -> dict[str, float]:
    """The terms of a text with their weights, as a vector of length 1."""
    weights = {
        term: count * (1 + math.log((1 + known.texts) / (1 + known.having.get(term, 0))))
        for term, count in Counter(terms(text)).items()
    }
    length = math.hypot(*weights.values())
    return {term: weight / length for term, weight in weights.items()}


def _rarity(term: str, known: Corpus) -> float:
    having = known.having.get(term, 0)
    return math.log(1 + (known.texts - having + 0.5) / (having + 0.5))
