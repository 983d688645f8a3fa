"""A web of short pages for models that read little: each page is a few sentences that hold the
answer to a question.

It knows nothing of how pages are served and read, nor of who will answer.
"""

from collections.abc import Callable

import msgspec

from rookery.ask.squad import Article, Squad
from rookery.browse.excerpts import excerpts
from rookery.draft.target import holds
from rookery.records import Question


def small_web(
    squad: Squad, wanted: Callable[[Question], bool], least: int, most: int
) -> tuple[list[Article], list[Question]]:
    """Pages of `least` to `most` words for the wanted questions, and these with their page as
    `source`.

    A page is the first excerpt of a question's paragraph that holds an accepted answer, under the
    article's title; questions may share it. A question that no excerpt answers is left out.
    """
    pages: dict[tuple[int, str], Article] = {}
    kept: list[Question] = []
    for question in filter(wanted, squad.questions):
        number, _ = squad.places[question.id]
        text = _answering(squad.paragraph(question), question.gold, least, most)
        if text:
            article = squad.articles[number]
            name = f"{article.name.removesuffix('.html')}_{len(pages)}.html"
            page = pages.setdefault((number, text), Article(name, article.title, (text,)))
            kept.append(msgspec.structs.replace(question, source=page.name))
    return list(pages.values()), kept


def _answering(paragraph: str, gold: tuple[str, ...], least: int, most: int) -> str:
    """The first excerpt that holds an accepted answer; empty where none does."""
    found = excerpts(paragraph, least, most)
    return next((text for text in found if any(holds(text, each) for each in gold)), "")
