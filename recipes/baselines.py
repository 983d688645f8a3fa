"""Baselines that need no training: quotes, summaries and rankings chosen without a model."""

import math
from random import Random

from recipes.vote_comparisons import ForumThread
from rookery.errors import Failed
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Claim, Failure, Page, Quote


def quote_random_sentence(page: Page, seed: int | str) -> Quote:
    """Return a random sentence of a page as a quote, the same for the same seed.

    Raises Failed (no_sentence) if the page has none.
    """
    return page.quote_whole_words(*Random(f"{seed} sentence").choice(_list_sentences(page)))


def make_lead_answer(page: Page, count: int = 3) -> Answer:
    """Return the first `count` sentences of a page, quoted, as its summary: lead-3.

    Ziegler (section 3.2) cuts it, as all summaries, at a period between two token counts; the
    caller does that. Raises Failed (no_sentence) if the page has none.
    """
    spans = _list_sentences(page)[:count]
    quote = page.quote_whole_words(spans[0][0], spans[-1][1])
    return Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))


def score_by_length(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum: its number of characters."""
    return [float(len(post.text)) for post in thread.answers]


def score_by_time(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum, higher for those posted earlier.

    Answers of unknown time come last. A time without a zone is UTC.
    """
    times = (post.timestamp for post in thread.answers)
    return [-math.inf if time is None else -time for time in times]


def _list_sentences(page: Page) -> list[tuple[int, int]]:
    found = find_sentences(page, 0, len(page.text))
    if not found:
        detail = "there is no sentence on the page: leave it out"
        raise Failed(Failure(page.url, "no_sentence", detail))
    return found
