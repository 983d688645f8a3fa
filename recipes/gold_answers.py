"""Find gold answers on pages, rate answers by them, and build short pages with them."""

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.errors import Failed
from rookery.library.question_files import SquadArticle, SquadData, contains_gold_answer
from rookery.measure.ratings import PLAUSIBLE_SCALE, SUPPORTED_SCALE
from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import find_language, get_question_terms, split_terms
from rookery.pages.text_folding import find_folded_spans, fold_text, locate_quote
from rookery.records import Answer, Library, Page, Question, Quote, Rating

MAX_SEARCH_HITS = 20
"""results of a search among which the page must be"""


class AnswerLocation(NamedTuple):
    """The sentences page.text[start:end], which contain a gold answer."""

    page: Page
    start: int
    end: int
    answer: str
    """the gold answer"""


def look_up_answer(
    question: Question, library: Library, paragraph: str = ""
) -> AnswerLocation | None:
    """Search for the page that a question's `source` names, and locate a gold answer on it.

    `source` is the page's address or the end of it, such as a file name. `paragraph` is as in
    `locate_answer`. None where the question has no gold answer or source, where no search finds the
    page, where it cannot be opened, and where it does not contain the answer. Raises Failed where a
    search fails.
    """
    if not question.gold or not question.source:
        return None
    name = unquote(question.source).rpartition("/")[2]
    title = re.sub(r"[_-]", " ", name.rpartition(".")[0] or name)
    for query in (f"{title} {question.text}", title, question.text, question.gold[0]):
        for hit in library.search(query, MAX_SEARCH_HITS):
            if question.source == hit.url or _url_path(hit.url).endswith(f"/{question.source}"):
                return _open_and_locate(question, library, hit.url, paragraph)
    return None


def _open_and_locate(
    question: Question, library: Library, url: str, paragraph: str
) -> AnswerLocation | None:
    try:
        return locate_answer(question, library.fetch(url), paragraph)
    except Failed:
        return None  # the caller has many questions and can do without this one


def _url_path(url: str) -> str:
    return unquote(urlsplit(url).path)


def locate_answer(question: Question, page: Page, paragraph: str = "") -> AnswerLocation | None:
    """Locate a gold answer on a page and return the sentences around it.

    Of several places, it is the one whose sentences share most words with the question, and the
    first of equals; only those within `paragraph`, where the page contains that text. None where
    there is no gold answer.
    """
    around = locate_quote(page, paragraph)
    low, high = (around.start, around.end) if around else (0, len(page.text))
    language = find_language(page.text)
    question_terms = set(get_question_terms(question.text, language))
    best, most = None, -1
    for gold in question.gold:
        for start, end in find_occurrences(page, gold):
            if (
                low <= start
                and end <= high
                and contains_gold_answer(page.text[max(0, start - 1) : end + 1], gold)
            ):
                first, last = _expand_to_sentences(page, start, end)
                shared = len(question_terms & set(split_terms(page.text[first:last], language)))
                if shared > most:
                    best, most = AnswerLocation(page, first, last, gold), shared
    return best


def _expand_to_sentences(page: Page, start: int, end: int) -> tuple[int, int]:
    """Extend text[start:end] to the whole sentences that it overlaps."""
    low, high = start, end
    for block in page.blocks:
        if block.start < end and start < block.end:
            for first, last in find_sentences(page, block.start, block.end):
                if first < end and start < last:
                    low, high = min(low, first), max(high, last)
    return low, high


def build_small_web(
    squad: SquadData, is_wanted: Callable[[Question], bool], least: int, most: int
) -> tuple[list[SquadArticle], list[Question]]:
    """Build pages of `least` to `most` words that answer the wanted questions.

    Returns the pages, and the questions with their page's name as `source`. A page is the first
    excerpt of a question's paragraph that contains a gold answer, under the article's title;
    questions may share one. Questions that no excerpt answers are left out.
    """
    pages: dict[tuple[int, str], SquadArticle] = {}
    kept_questions: list[Question] = []
    for question in filter(is_wanted, squad.questions):
        number, _ = squad.places[question.id]
        text = _find_answering_excerpt(squad.get_paragraph(question), question.gold, least, most)
        if text:
            article = squad.articles[number]
            name = f"{article.name.removesuffix('.html')}_{len(pages)}.html"
            page = pages.setdefault((number, text), SquadArticle(name, article.title, (text,)))
            kept_questions.append(msgspec.structs.replace(question, source=page.name))
    return list(pages.values()), kept_questions


def _find_answering_excerpt(paragraph: str, gold: tuple[str, ...], least: int, most: int) -> str:
    """Return the first excerpt that contains a gold answer; empty where none does."""
    found = cut_excerpts(paragraph, least, most)
    return next(
        (text for text in found if any(contains_gold_answer(text, each) for each in gold)), ""
    )


def cut_excerpts(text: str, least: int, most: int) -> list[str]:
    """Cut a text into neighbouring excerpts of whole sentences, of `least` to `most` words each.

    Each excerpt is as long as it can be. A sentence of more than `most` words is left out, and so
    is a run of sentences that ends before it has `least` words. Raises ValueError where `least` is
    more than `most`, or less than 1.
    """
    if not 1 <= least <= most:
        raise ValueError(f"an excerpt cannot have from {least} to {most} words")
    excerpts: list[str] = []
    start, end, words = 0, 0, 0
    for low, high in [*find_sentences(Page("", "", text), 0, len(text)), (len(text), len(text))]:
        count = len(text[low:high].split()) or most + 1  # what is no sentence ends the last run
        if words + count > most:
            if words >= least:
                excerpts.append(text[start:end])
            words = 0
        if count <= most:
            start = start if words else low
            end, words = high, words + count
    return excerpts


def find_occurrences(page: Page, quote_text: str) -> list[tuple[int, int]]:
    """Return the spans of the page's text where `quote_text` stands, in order, not overlapping.

    Those that are exact where there is one, else those that are equal once folded.
    """
    plain = fold_text(quote_text).text.strip()
    if not plain:
        return []
    if exact := [match.span() for match in re.finditer(re.escape(quote_text.strip()), page.text)]:
        return exact
    folded = fold_text(page.text)
    spans: list[tuple[int, int]] = []
    for start, end in find_folded_spans(folded, plain, 0):
        if not spans or start >= spans[-1][1]:
            spans.append((start, end))
    return [folded.to_source_span(*span) for span in spans]


def holds_gold_answer(question: Question, quote: Quote) -> bool:
    """Return True if the quote contains an accepted answer."""
    return any(contains_gold_answer(quote.text, gold) for gold in question.gold)


def rate_by_gold(question: Question, answer: Answer) -> list[Rating]:
    """Rate an answer by the known answers: it is plausible if its claim contains one, and supported
    if its quote does."""
    values = {
        SUPPORTED_SCALE: any(holds_gold_answer(question, quote) for quote in answer.quotes),
        PLAUSIBLE_SCALE: any(contains_gold_answer(answer.text, gold) for gold in question.gold),
    }
    return [
        Rating(question, answer, scale, float(value), "known answers")
        for scale, value in values.items()
    ]
