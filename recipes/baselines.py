"""Baselines that need no training: quotes and majorities."""

from collections import Counter
from collections.abc import Sequence

from rookery.measure.ranking import score_tf_idf
from rookery.pages.passages import find_sentences
from rookery.records import Page, Question, Quote


def choose_lexical_quote(question: Question, page: Page) -> Quote:
    """Return the page's sentence that shares most with the question by TF-IDF."""
    spans = find_sentences(page, 0, len(page.text))
    scores = list(score_tf_idf(question.text, [page.text[start:end] for start, end in spans]))
    return page.quote_whole_words(*spans[scores.index(max(scores))])


def find_majority(texts: Sequence[str]) -> int:
    """Return the number of the first text that is among the most frequent, capitals apart."""
    folded = [text.lower() for text in texts]
    [(most, _)] = Counter(folded).most_common(1)
    return folded.index(most)
