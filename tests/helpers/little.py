"""A little web in memory, and a session in it that is driven by a list of commands."""

from collections.abc import Iterable, Sequence

from rookery.browser.browser import BrowseResult, browse_library
from rookery.browser.browser_commands import BrowserRules, BrowserTask, Observation
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.records import Failure, Hit, Library, Page, Question


class Little(Library):
    """Pages by address. A search finds those whose text or title has the query in it."""

    def __init__(self, *pages: Page) -> None:
        self.pages = {page.url: page for page in pages}
        self.asked: list[str] = []

    def search(self, query: str, k: int) -> Sequence[Hit]:
        self.asked.append(query)
        found = (p for p in self.pages.values() if query.lower() in f"{p.title} {p.text}".lower())
        return [Hit(page.url, page.title, page.text[:80]) for page in found][:k]

    def fetch(self, url: str) -> Page:
        self.asked.append(url)
        if url not in self.pages:
            raise Failed(Failure(url, "http_404", "the server answered 404: there is no such page"))
        return self.pages[url]


def html(url: str, body: str, title: str = "A page") -> Page:
    """The page that a reader makes of this markup."""
    text = f"<!doctype html><title>{title}</title><body><main>{body}</main>"
    return read_page(text.encode(), url, "text/html; charset=utf-8")


def opened(
    body: str,
    commands: Iterable[str] = (),
    rules: BrowserRules = BrowserRules(),
    url: str = "https://a.org/x",
) -> Observation:
    """What is shown after these commands on a page that was opened at the start."""
    page = html(url, body)
    return drive(Little(page), commands, rules, start=url)[-1]


def drive(
    library: Little,
    commands: Iterable[str],
    rules: BrowserRules = BrowserRules(),
    start: str = "",
    question: Question = Question("1", "What is it?"),
) -> list[Observation]:
    """All that is shown, up to the end of the commands or of the session."""
    return run(library, commands, rules, start, question)[0]


def run(
    library: Little,
    commands: Iterable[str],
    rules: BrowserRules = BrowserRules(),
    start: str = "",
    question: Question = Question("1", "What is it?"),
) -> tuple[list[Observation], BrowseResult | None]:
    """The same, and what came of the session where it ended."""
    flow = browse_library(BrowserTask(question, rules, start), library, PageViewCache())
    pages = [next(flow)]
    for command in commands:
        try:
            pages.append(flow.send(command))
        except StopIteration as ended:
            return pages, ended.value
    return pages, None
