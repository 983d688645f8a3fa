"""The text browser: steps per second, cost by page length, and phrases that find and quote miss.

Reads ../shared/data/readability; needs the `bench` extra. Prints tables and writes
bench/results/browser.json. Time is CPU time of the process, one thread. Phrases are taken from
Readability.js's reading of the same pages, where they cross a link or an emphasis, and are searched
in three ways: here, in display lines of 80 columns, and in Markdown.
"""

import html
import re
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from bench import report
from bench.pages import DATA, read_archive
from rookery.browser.browser import browse_library
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.pages.text_folding import TextFinder, fold_text
from rookery.records import Failure, Hit, Page, Question, Quote

EPISODES = report.choose_size(3, 1)
"""Counted episodes of 99 actions on each page, after one warm-up."""
SIZES = report.choose_size((10_000, 100_000, 1_000_000), (1_000, 10_000))
"""Characters of synthetic pages, to measure growth with page length."""
SESSIONS = report.choose_size(10, 1)
"""Sessions on each of these for every episode."""
STEPS_PER_SECOND = 20_000
BOUNDLESS = BrowserRules(quoted=10**9)
BLOCKS = "p, li, h1, h2, h3, h4, h5, h6, td, blockquote, figcaption"
INLINE = frozenset(
    "-text a b strong i em code span sub sup u s cite q abbr small time mark".split()
)


class SinglePageLibrary(NamedTuple):
    """A library of one page: every search and every link leads to it."""

    page: Page

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the page as the only hit."""
        return [Hit(self.page.url, self.page.title)]

    def fetch(self, url: str) -> Page:
        """Return the page."""
        return self.page

    @property
    def failures(self) -> Sequence[Failure]:
        return ()

    def close(self) -> None:
        pass


class Case(NamedTuple):
    """A page, its source, and the article that Readability.js extracts."""

    page: Page
    source: str
    article: bytes


def read_cases() -> Iterator[Case]:
    """Yield the pages that can be read at all."""
    for name, source, article in read_archive():
        with suppress(Failed):
            page = read_page(source, f"https://{name}.example/page", "text/html; charset=utf-8")
            yield Case(page, source.decode("utf-8", "replace"), article)


def make_page(chosen: Sequence[Page], size: int) -> Page:
    """Build a page of `size` characters from the paragraphs of these pages, each with a link.
    Raises ValueError if there are too few."""
    paragraphs: list[str] = []
    for number in range(size):
        for page in chosen:
            for block in page.iter_article():
                words = page.text[block.start : block.end]
                paragraphs.append(f"<p><a href='/{number}'>{number}</a> {html.escape(words)}</p>")
                size -= len(words)
                if size <= 0:
                    source = f"<main>{''.join(paragraphs)}</main>".encode()
                    return read_page(source, "https://made.example/", "text/html; charset=utf-8")
    raise ValueError("there are too few pages")


def make_commands(page: Page, random: Random) -> Iterator[str]:
    """Yield 99 commands: scroll, find, quote, click and go back, in equal parts."""
    blocks = list(page.iter_article()) or list(page.iter_shown())
    shown = [words for block in blocks if (words := page.text[block.start : block.end].split())]
    yield "Search it"
    yield "Clicked on link 0"
    for _ in range(16):
        words = random.choice(shown)
        start = random.randrange(len(words))
        phrase = " ".join(words[start : start + 6])
        yield f"Scrolled down {random.randint(1, 3)}"
        yield f"Find in page: {phrase}"
        yield f"Scrolled up {random.randint(1, 3)}"
        yield f"Quote: {phrase}"
        yield "Back"
        yield "Clicked on link 0"


def time_episode(
    page: Page, views: PageViewCache, random: Random, times: dict[str, list[float]]
) -> None:
    """Run one session on a page and append the seconds of each step after the first find to
    `times`, by command."""
    flow = browse_library(
        BrowserTask(Question("1", "What is it?"), BOUNDLESS), SinglePageLibrary(page), views
    )
    next(flow)
    said = list(make_commands(page, random))
    for command in said[:2]:
        flow.send(command)
    flow.send("Find in page: the first find")
    for command in said[2:]:
        begun = time.process_time()
        flow.send(command)
        times[command.split(" ", 1)[0].rstrip(":")].append(time.process_time() - begun)
    flow.close()


def measure_speed(chosen: Sequence[Page], warm: bool) -> dict[str, float]:
    """Measure steps per second, and mean microseconds of each command; `warm`: pages were opened in
    earlier sessions."""
    views, random = PageViewCache(), Random(1)
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(EPISODES + 1):
        for page in chosen:
            time_episode(page, views if warm else PageViewCache(), random, times)
        if number == 0:
            times.clear()
    every = [seconds for some in times.values() for seconds in some]
    means = {name: 1e6 * sum(some) / len(some) for name, some in sorted(times.items())}
    return {"steps/s": len(every) / sum(every), **means}


def time_first_find(page: Page) -> float:
    """Measure CPU seconds of the first find on a page, per million characters."""
    begun = time.process_time()
    TextFinder(page.text)
    return (time.process_time() - begun) * 1e6 / len(page.text)


def draw_phrases(article: bytes, random: Random) -> Iterator[str]:
    """Yield phrases of two to six words that cross the edge of a link, an emphasis or the like."""
    for block in LexborHTMLParser(article).css(BLOCKS):
        inner = list(block.traverse(include_text=True))[1:]
        if any(node.tag not in INLINE for node in inner):
            continue
        parts = [node.text(deep=False) or "" for node in inner if node.tag == "-text"]
        text = "".join(parts)
        edges = list(accumulate(map(len, parts)))[:-1]
        spans = [found.span() for found in re.finditer(r"\S+", text)]
        for edge in random.sample(edges, min(len(edges), 3)):
            before = [start for start, end in spans if start < edge][-random.choice((2, 3)) :]
            after = [end for start, end in spans if end > edge][: random.choice((1, 3))]
            if before and after:
                yield " ".join(text[before[0] : after[-1]].split())


def make_line_matcher(source: str) -> Callable[[str], bool]:
    """Return a test for a phrase within one display line of 80 columns, ignoring case."""
    writer = _make_markdown_writer(80)
    writer.ignore_links = writer.ignore_emphasis = writer.ignore_images = True
    text = writer.handle(source)
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, 80)]
    folded = [" ".join(line.casefold().split()) for line in lines]
    return lambda phrase: any(phrase.casefold() in line for line in folded)


def make_markdown_matcher(source: str) -> Callable[[str], bool]:
    """Return a test for a phrase in the page as Markdown, ignoring case and white space."""
    text = " ".join(_make_markdown_writer(0).handle(source).casefold().split())
    return lambda phrase: phrase.casefold() in text


def make_text_matcher(source: str) -> Callable[[str], bool]:
    """Return a test for a phrase anywhere in the page's text, as a third program reads it."""
    body = LexborHTMLParser(source).body
    text = " ".join(body.text().split()) if body else ""
    return lambda phrase: phrase in text


def _make_markdown_writer(width: int) -> Any:
    import html2text

    writer = html2text.HTML2Text()
    writer.body_width = 0 if width == 80 else width  # lines are wrapped by textwrap
    writer.unicode_snob = True
    return writer


def measure_phrase_recall(chosen: Sequence[Case]) -> dict[str, Any]:
    """Measure the share of phrases that each way finds, and the characters of our quotes that are
    not on the page."""
    random, missed = Random(2), []
    counts = dict.fromkeys(("quote", "find", "display lines of 80 columns", "Markdown"), 0)
    total = hidden = characters = strange = 0
    for page, source, article in chosen:
        lines, markdown, whole = (
            make_line_matcher(source),
            make_markdown_matcher(source),
            make_text_matcher(source),
        )
        for phrase in filter(whole, draw_phrases(article, random)):
            span, note = search_in_browser(page, phrase)
            if span is None and is_hidden(page, phrase):
                hidden += 1
                continue
            total += 1
            counts["quote"] += span is not None
            counts["find"] += not note
            counts["display lines of 80 columns"] += lines(phrase)
            counts["Markdown"] += markdown(phrase)
            if span is None or note:
                missed.append(f"{page.url}: {phrase}")
            if span is not None:
                characters += len(span.text)
                strange += count_differences(span, page, phrase)
    return {
        "phrases": total,
        "hidden": hidden,
        "found": {name: count / total for name, count in counts.items()},
        "missed": missed,
        "characters": characters,
        "differing": strange,
    }


def search_in_browser(page: Page, phrase: str) -> tuple[Quote | None, str]:
    """Return the quote made of a phrase, if any, and the note of finding it."""
    flow = browse_library(
        BrowserTask(Question("1", "?"), BOUNDLESS, page.url), SinglePageLibrary(page)
    )
    next(flow)
    quotes = flow.send(f"Quote: {phrase}").quotes
    return next(iter(quotes), None), flow.send(f"Find in page: {phrase}").note


def is_hidden(page: Page, phrase: str) -> bool:
    """Return True if the phrase stands in text that the page hides."""
    unseen = (page.text[block.start : block.end] for block in page.blocks if block.hidden)
    return any(phrase in " ".join(text.split()) for text in unseen)


def count_differences(quote: Quote, page: Page, phrase: str) -> int:
    """Count characters of a quote that differ from the page, or from the phrase beyond
    typography."""
    slip = sum(a != b for a, b in zip(quote.text, page.text[quote.start : quote.end], strict=True))
    ours, theirs = (fold_text(text).text.replace(" ", "") for text in (quote.text, phrase))
    return slip + (0 if ours == theirs else len(quote.text))


def main() -> None:
    """Run the benchmark."""
    report.require_data(DATA)
    report.require_peers("html2text")
    chosen = list(read_cases())
    ordinary = [case.page for case in chosen]
    sizes = {size: make_page(ordinary, size) for size in SIZES}
    rows = {
        "pages opened before": measure_speed(ordinary, warm=True),
        "pages opened anew": measure_speed(ordinary, warm=False),
    }
    growth = {
        f"{size:,} characters": measure_speed([page] * SESSIONS, warm=False)
        for size, page in sizes.items()
    }
    columns = list(rows["pages opened before"])
    print("steps a second, and microseconds of each command (CPU time of one thread)")
    report.print_table(columns, rows | growth)
    first = time_first_find(sizes[SIZES[-1]])
    print(f"the first find on a page: {first:.2f} s for each million characters")
    phrasing = measure_phrase_recall(chosen)
    print(f"{phrasing['phrases']} phrases across links, emphasis and the like, found by:")
    print(f"({phrasing['hidden']} more stand in text that the page hides, and are not to be found)")
    report.print_table(["found"], {name: {"found": s} for name, s in phrasing["found"].items()})
    print(f"characters of quotes that differ from the page: {phrasing['differing']}")
    for miss in phrasing["missed"][:20]:
        print("missed:", miss)
    lengths = sorted(len(page.text) for page in ordinary)
    report.write_results(
        "browser",
        {
            "pages": len(ordinary),
            "median_characters": lengths[len(lengths) // 2],
            "rows": rows,
            "growth": growth,
            "target_steps_per_second": STEPS_PER_SECOND,
            "first_find_s_per_mb": first,
            **phrasing,
            "missed": len(phrasing["missed"]),
        },
    )


if __name__ == "__main__":
    main()
