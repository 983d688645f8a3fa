"""What the pages of a demonstration show of it, as plain values for templates.

Whatever comes from the web is neutral here: nothing in it turns a line or hides. It knows nothing
of requests.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rookery.browse.browser import Searching
from rookery.browse.find import Span
from rookery.browse.observation import Observation
from rookery.browse.pages import cut
from rookery.browse.view import neutral
from rookery.browse.window import domain_of
from rookery.records import Quote
from rookery.serve.web import acts
from rookery.serve.web.sittings import Work
from rookery.serve.web.window_html import Group, Highlight, Result, groups, results

BAR = 1000
"""the width of a bar in its own units"""
TITLE = 200


class Cited(NamedTuple):
    """A quote as it stands beside the page."""

    number: int
    title: str
    host: str
    text: str


class Scene(NamedTuple):
    """The window, and what stands round it."""

    title: str
    host: str
    fetched: str
    bar: tuple[int, int]
    """percent"""
    groups: list[Group]
    """of a page; none, where results or an error are shown"""
    results: list[Result]
    error: str


class Budget(NamedTuple):
    """How much of something is used."""

    used: int
    most: int

    @property
    def width(self) -> int:
        """Of the bar that shows it."""
        return BAR * min(self.used, self.most) // max(self.most, 1)


def scene(work: Work, shown: Observation, highlights: Sequence[Highlight]) -> Scene:
    """What an observation shows."""
    view = work.view(shown)
    title = neutral(cut(view.page.title, TITLE)) if view else shown.title
    failed = view is None and shown.title.startswith("Error")
    return Scene(
        title=title,
        host=neutral(view.domain) if view else "",
        fetched=view.page.fetched[:10] if view else "",
        bar=shown.scrollbar,
        groups=groups(view.parts(shown.start), highlights) if view else [],
        results=results(shown.text) if view is None and not failed else [],
        error=shown.text if failed else "",
    )


def cited(quotes: Sequence[Quote]) -> list[Cited]:
    """Quotes, numbered as an answer cites them."""
    return [
        Cited(
            number,
            neutral(cut(quote.title, TITLE)),
            neutral(domain_of(quote.url)),
            neutral(quote.text),
        )
        for number, quote in enumerate(quotes, 1)
    ]


def budgets(work: Work) -> dict[str, Budget]:
    """What is used of the actions and of the characters of quotes."""
    shown, rules = work.sitting.shown, work.sitting.task.rules
    quoted = sum(len(quote.text) for quote in shown.quotes)
    return {
        "actions": Budget(rules.actions - shown.left, rules.actions),
        "quoted": Budget(quoted, rules.quoted),
    }


def wanted(work: Work) -> dict[str, str]:
    """What is waited for, in words."""
    request = work.sitting.wanted
    if request is None:
        return {}
    if isinstance(request, Searching):
        return {"doing": "Searching for", "what": neutral(cut(request.query, TITLE))}
    return {"doing": "Opening", "what": neutral(cut(request.url, TITLE))}


def sentences(work: Work) -> list[tuple[Span, str]]:
    """The sentences of the window, each shortened."""
    view = work.view()
    if view is None:
        return []
    return [
        (span, neutral(cut(view.page.text[span[0] : span[1]], 70))) for span in acts.choosable(work)
    ]


def paragraph_of_last_quote(work: Work) -> int:
    """Where the paragraph begins, as this window shows it, that was quoted from last."""
    view, shown = work.view(), work.sitting.shown
    if view is None or not shown.quotes:
        return shown.start
    place = shown.quotes[-1].start
    begun = {part.block: part.start for part in reversed(list(view.parts(shown.start)))}
    return max((start for start in begun.values() if start <= place), default=shown.start)
