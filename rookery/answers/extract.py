"""Extractive answers without an evidence model: the best passages of the search, as they stand.

BM25's best passage answers more often than the best of its sentences by words does.
"""

import re
from collections.abc import Sequence

import msgspec

from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Outcome
from rookery.evidence.passage_ranking import (
    RankedPassage,
    RankingObserver,
    Similarity,
    drop_repeated_passages,
    rank_passages,
)
from rookery.quotes.verification import TextVerdict, is_quote_too_short
from rookery.records import Answer, Claim, Episode, Library, Question, Quote

NOTHING_FOUND = "No passage was found."
NOTHING_ANSWERS = "Nothing that was found answers this; the closest is below."
NOTHING_REACHED = "No passage reached {:g}; the closest are below."
_DECLINED = re.compile(
    r"No passage was found\."
    r"|(No passage reached|The newer passage did not reach) [\d.e-]+; the closest are below\."
    r"|Nothing that was found answers this; the closest is below\."
    r"|Nothing that was read answers this\."  # written before version 0.2
)


class ExtractSettings(msgspec.Struct, frozen=True):
    """Settings of the extractive answer without an evidence model."""

    quotes: int = 3
    """maximum number of quotes in an answer"""
    decline: float = 0.2
    """score of the best passage by its words, of 1 for all words of the question, below which an
    answer is declined: it tells foreign questions, not near misses"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval"""


def answer_by_extraction(
    question: Question,
    library: Library,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Episode:
    """Answer a question with the best passages of a library; `observe` gets the ranked passages.

    They are in the order of their words, or of their similarity where there is one. The episode's
    stop is "end", "declined" (the answer has the best rejected quotes) or "no_evidence" (no answer:
    searching or opening failed, and the failures give the reasons).
    """
    gathered = gather_passages(question.text, library, settings.limits)
    if not gathered.found and gathered.failures:
        return Episode(question, "extract", stop=Outcome.NO_EVIDENCE, failures=gathered.failures)
    if similarity is None:
        passages = [RankedPassage(page, hit, hit.score, ()) for page, hit in gathered.found]
        ranked = drop_repeated_passages(sorted(passages, key=lambda each: -each.score))
    else:
        ranked = rank_passages(question.text, gathered.found, similarity)
    observe(ranked)
    answer = _quote_passages(ranked, settings)
    stop = "declined" if answer.declined else "end"
    return Episode(question, "extract", answer=answer, stop=stop, failures=gathered.failures)


def _quote_passages(ranked: Sequence[RankedPassage], settings: ExtractSettings) -> Answer:
    quotable = [
        passage
        for passage in ranked
        if not is_quote_too_short(passage.page.text, passage.hit.start, passage.hit.end)
    ][: settings.quotes]
    if not quotable:
        return Answer(NOTHING_FOUND, declined=True)
    quotes = [each.page.quote_whole_words(each.hit.start, each.hit.end) for each in quotable]
    score = max(passage.hit.score for passage in ranked)
    if score < settings.decline:
        text = NOTHING_REACHED.format(settings.decline)
        return Answer(text, tuple(quotes), declined=True, score=score)
    return render_quotes(quotes, score)


def render_quotes(quotes: Sequence[Quote], score: float) -> Answer:
    """Render each quote as a paragraph of its own, with its lines, as a claim citing it."""
    text, claims = "", []
    for number, quote in enumerate(quotes):
        start = len(text) + 2 * bool(text)
        text += "\n\n" * bool(text) + quote.text
        claims.append(Claim(start, len(text), (number,)))
    return Answer(text, tuple(quotes), tuple(claims), score=score)


def find_altered_extract(answer: Answer) -> list[TextVerdict]:
    """List the parts of a saved answer's text that `render_quotes` did not write.

    An answer is the first quote of each claim, with an empty line between them, and one sentence
    where it is declined: anything else was changed afterwards. Answers by words before version 0.3
    had quotes with white space normalized, and spaces between them.
    """
    if answer.declined:
        if _DECLINED.fullmatch(answer.text) and not answer.claims:
            return []
        detail = "a declined answer says that no passage reached the threshold, and claims nothing"
        return [TextVerdict(answer.text, "claim_differs", detail)]
    altered, position = [], 0
    for number, claim in enumerate(answer.claims, 1):
        claim_text = answer.text[claim.start : claim.end]
        first = answer.quotes[claim.quotes[0]].text if claim.quotes else ""
        if claim_text not in (first, " ".join(first.split())) or not claim_text:
            why = f"claim {number} says this, and its quote “{first}”"
            altered.append(TextVerdict(claim_text, "claim_differs", why))
        between = answer.text[position : max(position, claim.start)]
        if between not in ((" ", "\n\n") if number > 1 else ("",)):
            why = f"claim {number} does not follow the one before it after a space"
            altered.append(TextVerdict(between, "claim_differs", why))
        position = max(position, claim.end)
    rest = answer.text[position:]
    # Signs alone are what a longer claim before them pushed out, and say no more than that.
    if not answer.claims or (rest and not (altered and not any(map(str.isalnum, rest)))):
        why = "no claim of the answer holds this" if rest else "it claims nothing"
        altered.append(TextVerdict(rest, "claim_differs", why))
    return altered
