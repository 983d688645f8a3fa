"""Whether the quotes of a saved answer are what they claim to be: slices of stored pages.

Needs no model and no network. Knows nothing of where pages are stored: it is given a function
that looks them up. That a quote is verbatim does not say that it supports what cites it.
"""

from collections.abc import Callable
from typing import Literal

from rookery.browse.locate import locate
from rookery.records import Answer, Page, Quote, Record

Outcome = Literal["verified", "page_missing", "digest_differs", "text_differs", "out_of_range"]

SHOWN = 60
"""characters of a text that a sentence shows"""


class Verdict(Record, frozen=True):
    """What checking one quote found."""

    quote: Quote
    outcome: Outcome
    detail: str = ""
    """one sentence for the reader; empty where the quote is verified without reservation"""

    @property
    def verified(self) -> bool:
        """Whether the quote is the slice of the page that it names."""
        return self.outcome == "verified"


def verify(answer: Answer, pages: Callable[[str, str], Page | None]) -> list[Verdict]:
    """A verdict on each quote of the answer, in order.

    `pages(digest, url)` gives the version of the page with this digest, else another version of
    the page at this URL, else None.
    """
    return [check(quote, pages(quote.digest, quote.url)) for quote in answer.quotes]


def check(quote: Quote, page: Page | None) -> Verdict:
    """Whether `quote` is the slice of `page` that it names."""
    if page is None:
        return Verdict(quote, "page_missing", f"no copy of {quote.url} is stored")
    if page.digest != quote.digest:
        return Verdict(quote, "digest_differs", _in_another_version(quote, page))
    if not 0 <= quote.start < quote.end <= len(page.text):
        size = len(page.text)
        detail = f"[{quote.start}:{quote.end}] is outside the page, which has {size} characters"
        return Verdict(quote, "out_of_range", detail)
    if page.text[quote.start : quote.end] != quote.text:
        return Verdict(quote, "text_differs", _other_text(quote, page))
    return Verdict(quote, "verified", _other_address(quote, page))


def _in_another_version(quote: Quote, page: Page) -> str:
    changed = f"the stored copy of {page.url} is another version"
    if page.fetched:
        changed += f" (fetched {page.fetched})"
    return f"{changed}; {_where_it_stands(quote, page)}"


def _other_text(quote: Quote, page: Page) -> str:
    there = _short(page.text[quote.start : quote.end])
    return f"the page has “{there}” at [{quote.start}:{quote.end}]; {_where_it_stands(quote, page)}"


def _where_it_stands(quote: Quote, page: Page) -> str:
    found = locate(page, quote.text, after=quote.start)
    if found is None:
        return f"“{_short(quote.text)}” does not stand in it"
    how = "" if found.text == quote.text else ", but for case, white space or typography,"
    return f"the quoted text stands in it{how} at [{found.start}:{found.end}]"


def _other_address(quote: Quote, page: Page) -> str:
    return "" if page.url == quote.url else f"the same text is stored under {page.url}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1].rstrip() + "…"
