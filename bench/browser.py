"""The text browser: steps a second, what grows with a page, and what find and quote miss.

Reads ../shared/data/readability; needs the `bench` extra. Prints tables and writes
bench/results/browser.json. Time is the process's own CPU time, one thread. Phrases are taken from
another program's reading of the same pages, where they cross a link or an emphasis, and are looked
for in three ways: here, in display lines of 80 columns, and in Markdown.
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
from bench.pages import DATA, archived
from rookery.browse.browser import Views, browse
from rookery.browse.find import Finder
from rookery.browse.fold import fold
from rookery.browse.read import read
from rookery.browse.rules import Rules, Task
from rookery.records import Failed, Hit, Page, Question, Quote

EPISODES = report.sized(3, 1)
"""of 99 actions on each page, after one that is not counted"""
SIZES = report.sized((10_000, 100_000, 1_000_000), (1_000, 10_000))
"""characters of pages that are made alike, to see what grows with a page"""
SESSIONS = report.sized(10, 1)
"""on each of these, for every episode"""
STEPS_PER_SECOND = 20_000
BOUNDLESS = Rules(quoted=10**9)
BLOCKS = "p, li, h1, h2, h3, h4, h5, h6, td, blockquote, figcaption"
INLINE = frozenset(
    "-text a b strong i em code span sub sup u s cite q abbr small time mark".split()
)


class Held(NamedTuple):
    """One page as a library: a search finds it and every link leads to it."""

    page: Page

    def search(self, query: str, k: int) -> Sequence[Hit]:
        return [Hit(self.page.url, self.page.title)]

    def fetch(self, url: str) -> Page:
        return self.page


class Case(NamedTuple):
    """A page, its source, and what Readability.js keeps of it."""

    page: Page
    source: str
    article: bytes


def cases() -> Iterator[Case]:
    """The pages that can be read at all."""
    for name, source, article in archived():
        with suppress(Failed):
            page = read(source, f"https://{name}.example/page", "text/html; charset=utf-8")
            yield Case(page, source.decode("utf-8", "replace"), article)


def made(chosen: Sequence[Page], size: int) -> Page:
    """A page of so many characters: the paragraphs of these pages, each with a link."""
    paragraphs: list[str] = []
    for number in range(size):
        for page in chosen:
            for block in page.article():
                words = page.text[block.start : block.end]
                paragraphs.append(f"<p><a href='/{number}'>{number}</a> {html.escape(words)}</p>")
                size -= len(words)
                if size <= 0:
                    source = f"<main>{''.join(paragraphs)}</main>".encode()
                    return read(source, "https://made.example/", "text/html; charset=utf-8")
    raise ValueError("there are too few pages")


def commands(page: Page, random: Random) -> Iterator[str]:
    """99 commands: scrolling, finding, quoting, clicking and going back, in equal parts."""
    blocks = list(page.article()) or list(page.full())
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


def episode(page: Page, views: Views, random: Random, times: dict[str, list[float]]) -> None:
    """One session on a page; the seconds of each step after the first find, by command."""
    flow = browse(Task(Question("1", "What is it?"), BOUNDLESS), Held(page), views)
    next(flow)
    said = list(commands(page, random))
    for command in said[:2]:
        flow.send(command)
    flow.send("Find in page: the first find")
    for command in said[2:]:
        begun = time.process_time()
        flow.send(command)
        times[command.split(" ", 1)[0].rstrip(":")].append(time.process_time() - begun)
    flow.close()


def speed(chosen: Sequence[Page], warm: bool) -> dict[str, float]:
    """Steps a second, and the mean microseconds of each command: on pages that were opened in
    sessions before, or else that this session opens first."""
    views, random = Views(), Random(1)
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(EPISODES + 1):
        for page in chosen:
            episode(page, views if warm else Views(), random, times)
        if number == 0:
            times.clear()
    every = [seconds for some in times.values() for seconds in some]
    means = {name: 1e6 * sum(some) / len(some) for name, some in sorted(times.items())}
    return {"steps/s": len(every) / sum(every), **means}


def first_find(page: Page) -> float:
    """Seconds of CPU that the first find on a page takes, for each million characters."""
    begun = time.process_time()
    Finder(page.text)
    return (time.process_time() - begun) * 1e6 / len(page.text)


def phrases(article: bytes, random: Random) -> Iterator[str]:
    """Three or six words in a row that cross the edge of a link, an emphasis or the like."""
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


def by_line(source: str) -> Callable[[str], bool]:
    """Whether one display line of 80 columns has the phrase, case aside."""
    writer = _markdown(80)
    writer.ignore_links = writer.ignore_emphasis = writer.ignore_images = True
    text = writer.handle(source)
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, 80)]
    folded = [" ".join(line.casefold().split()) for line in lines]
    return lambda phrase: any(phrase.casefold() in line for line in folded)


def by_markdown(source: str) -> Callable[[str], bool]:
    """Whether the page as Markdown has the phrase, case and white space aside."""
    text = " ".join(_markdown(0).handle(source).casefold().split())
    return lambda phrase: phrase.casefold() in text


def by_text(source: str) -> Callable[[str], bool]:
    """Whether the phrase is on the page at all, as a third program reads it."""
    body = LexborHTMLParser(source).body
    text = " ".join(body.text().split()) if body else ""
    return lambda phrase: phrase in text


def _markdown(width: int) -> Any:
    import html2text

    writer = html2text.HTML2Text()
    writer.body_width = 0 if width == 80 else width  # lines are wrapped by textwrap
    writer.unicode_snob = True
    return writer


def found(chosen: Sequence[Case]) -> dict[str, Any]:
    """The share of phrases that each way finds, and what of our quotes is not on the page."""
    random, missed = Random(2), []
    counts = dict.fromkeys(("quote", "find", "display lines of 80 columns", "Markdown"), 0)
    total = hidden = characters = strange = 0
    for page, source, article in chosen:
        lines, markdown, whole = by_line(source), by_markdown(source), by_text(source)
        for phrase in filter(whole, phrases(article, random)):
            span, note = in_browser(page, phrase)
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
                strange += differing(span, page, phrase)
    return {
        "phrases": total,
        "hidden": hidden,
        "found": {name: count / total for name, count in counts.items()},
        "missed": missed,
        "characters": characters,
        "differing": strange,
    }


def in_browser(page: Page, phrase: str) -> tuple[Quote | None, str]:
    """What quoting the phrase gives, and what finding it notes."""
    flow = browse(Task(Question("1", "?"), BOUNDLESS, page.url), Held(page))
    next(flow)
    quotes = flow.send(f"Quote: {phrase}").quotes
    return next(iter(quotes), None), flow.send(f"Find in page: {phrase}").note


def is_hidden(page: Page, phrase: str) -> bool:
    """Whether the phrase stands in text that the page itself hides, and so nobody reads."""
    unseen = (page.text[block.start : block.end] for block in page.blocks if block.hidden)
    return any(phrase in " ".join(text.split()) for text in unseen)


def differing(quote: Quote, page: Page, phrase: str) -> int:
    """Characters of a quote that are not the page's, or not the phrase's but for typography."""
    slip = sum(a != b for a, b in zip(quote.text, page.text[quote.start : quote.end], strict=True))
    ours, theirs = (fold(text).text.replace(" ", "") for text in (quote.text, phrase))
    return slip + (0 if ours == theirs else len(quote.text))


def main() -> None:
    report.require(DATA)
    report.require_peers("html2text")
    chosen = list(cases())
    ordinary = [case.page for case in chosen]
    sizes = {size: made(ordinary, size) for size in SIZES}
    rows = {
        "pages opened before": speed(ordinary, warm=True),
        "pages opened anew": speed(ordinary, warm=False),
    }
    growth = {
        f"{size:,} characters": speed([page] * SESSIONS, warm=False) for size, page in sizes.items()
    }
    columns = list(rows["pages opened before"])
    print("steps a second, and microseconds of each command (CPU time of one thread)")
    report.show(columns, rows | growth)
    first = first_find(sizes[SIZES[-1]])
    print(f"the first find on a page: {first:.2f} s for each million characters")
    phrasing = found(chosen)
    print(f"{phrasing['phrases']} phrases across links, emphasis and the like, found by:")
    print(f"({phrasing['hidden']} more stand in text that the page hides, and are not to be found)")
    report.show(["found"], {name: {"found": s} for name, s in phrasing["found"].items()})
    print(f"characters of quotes that differ from the page: {phrasing['differing']}")
    for miss in phrasing["missed"][:20]:
        print("missed:", miss)
    lengths = sorted(len(page.text) for page in ordinary)
    report.write(
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
