"""The pages that no library has: the results of a search, and what could not be had.

They are for finding one's way and are never quoted.
"""

from collections.abc import Iterable, Sequence

from rookery.browse.rules import Rules
from rookery.browse.views import grams
from rookery.browse.window import domain_of, is_below
from rookery.records import Block, Failure, Hit, Link, Page

SNIPPET = 400
"""characters of a result that are shown"""


def results_page(query: str, hits: Sequence[Hit], rules: Rules, secret: frozenset[str]) -> Page:
    """The simplified page of results: each address once, as a link, with a snippet below it.

    Results of blocked domains, and those that give the question away, are left out (WebGPT,
    appendix A).
    """
    chosen: dict[str, Hit] = {}
    for hit in hits:
        given_away = secret and not secret.isdisjoint(
            grams(f"{hit.title}\n{hit.snippet}", rules.overlap)
        )
        if not given_away and not is_below(domain_of(hit.url), rules.blocked):
            chosen.setdefault(hit.url, hit)
    return _laid_out(query, list(chosen.values())[: rules.results], rules.title)


def error_page(failure: Failure) -> Page:
    """The page that is shown in place of one that could not be had."""
    detail = failure.detail or failure.outcome
    text = f"This could not be opened: {cut(detail, SNIPPET)} ({failure.outcome})"
    return Page(failure.what, "Error", text, (Block(0, len(text), "paragraph"),))


def cut(text: str, longest: int) -> str:
    """`text` on one line of at most `longest` characters."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _laid_out(query: str, hits: Iterable[Hit], longest: int) -> Page:
    text = ""
    blocks: list[Block] = []
    links: list[Link] = []
    for hit in hits:
        lines = [cut(hit.title, longest) or hit.url, cut(hit.snippet, SNIPPET)]
        for number, line in enumerate(filter(None, lines)):
            text += "" if not text else "\n" if number else "\n\n"
            blocks.append(Block(len(text), len(text) + len(line), "paragraph"))
            if not number:
                links.append(Link(len(text), len(text) + len(line), hit.url))
            text += line
    if not text:
        text = "No results."
        blocks.append(Block(0, len(text), "paragraph"))
    return Page("", f"Search results for: {cut(query, longest)}", text, tuple(blocks), tuple(links))
