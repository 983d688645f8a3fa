"""What a reader copies from a window, marks included, is the slice of the page under it."""

from functools import cache
from random import Random

import pytest

from rookery.browser.browser import browse_library, find_quote
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.page_view import OpenedPage, WindowPart, WindowText
from rookery.library.libraries import get_bundled_folder
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.pages.text_folding import TextFinder, fold_text
from rookery.records import Block, Page, Question, is_word_edge

LINKED = """<title>Crows</title><p>Before <a href="http://c.org/">the first crow</a> came,
H<sub>2</sub>O
<img alt="a drop"> fell on <a href="/here">the stone</a> — and it — was wet. The crow sat.</p>"""


@cache
def pages() -> list[Page]:
    """The bundled pages."""
    return [
        read_page(path.read_bytes(), f"https://corvids.example/{path.name}", "text/html")
        for path in sorted(get_bundled_folder().rglob("*.html"))
    ]


def quoted(page: Page, text: str) -> tuple[str | None, str]:
    """The text of what this command quotes on the page; or nothing, and the note."""
    task = BrowserTask(Question("1", "Why?"), BrowserRules(overlap=0), page.url)
    session = browse_library(task, InMemoryLibrary([page]))
    next(session)
    shown = session.send(f"Quote: {text}")
    return (shown.quotes[0].text if shown.quotes else None), shown.note


def under(page: Page, parts: list[WindowPart]) -> list[int | None]:
    """Of each character of a window, where it stands on the page; None: it is a mark."""
    return [
        part.start + number if part.start < part.end else None
        for part in parts
        for number in range(len(part.text))
    ]


def tight(text: str) -> str:
    return fold_text(text).text.replace(" ", "")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_copied_from_a_window_is_quoted(seed: int) -> None:
    """From windows of any size of the bundled pages, from any character to any other."""
    random, copied, marked = Random(seed), 0, 0
    while copied < 25:
        page = random.choice(pages())
        opened = OpenedPage(page, BrowserRules(window=random.randint(100, 3000)))
        view = random.choice([opened.article, opened.full])
        top = view.window_at(random.randrange(len(page.text))).start
        parts = list(view.iter_parts(top))
        shown, places = "".join(part.text for part in parts), under(page, parts)
        if not shown.strip():
            continue
        assert shown.rstrip() == view.window_at(top).text
        low = random.randrange(len(shown))
        high = random.randint(low, min(low + random.choice([20, 200, 2000]), len(shown)))
        inside = [at for at in places[low:high] if at is not None and not page.text[at].isspace()]
        if not inside:
            continue
        start, end = inside[0], inside[-1] + 1
        between = sum(not letter.isspace() for letter in page.text[start:end])
        span = find_quote(opened.finder, shown[low:high], top, WindowText(page, parts))
        if between > len(inside):  # something of the page is left out of the window here
            assert span is None or tight(page.text[slice(*span)]) == tight(shown[low:high])
            continue
        if not (is_word_edge(page.text, start) and is_word_edge(page.text, end)):
            assert span is not None, shown[low:high]
            assert all(is_word_edge(page.text, at) for at in span)
            assert tight(page.text[start:end]).lower() in tight(page.text[slice(*span)]).lower()
            continue
        copied += 1
        marked += None in places[low:high]
        assert span is not None, shown[low:high]
        assert tight(page.text[slice(*span)]) == tight(page.text[start:end])
        if tight(shown).count(tight(shown[low:high])) == 1:
            assert span == (start, end)
    assert marked > 5


LINKS = read_page(LINKED.encode(), "https://a.org/x", "text/html")
WINDOW = (
    "Before 【0†the first crow†c.org】 came, H_2O [Image: a drop] fell on 【1†the stone】 — and it "
    "— was wet. The crow sat."
)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (WINDOW, LINKS.text),
        ("Before 【0†the first crow†c.org】 came", "Before the first crow came"),
        ("【0†the first crow†c.org】 came", "the first crow came"),
        ("†the first crow†c.o", "the first crow"),
        ("crow†c.org】 came, H_2O", "crow came, H_2O"),
        ("rg】 came", "came"),
        ("H_2O [Image: a drop] fell on 【1†the", "H_2O fell on the"),
        ("a drop] fell", "fell"),
        ("first crow†c.org】━on 【1†the stone", "first crow came, H_2O fell on the stone"),
        ("【0†the first━stone】 — and", "the first crow came, H_2O fell on the stone — and"),
        ("it━was wet", "it — was wet"),
        ("— and it —", "— and it —"),
        ("【7†the first crow†other.org】 came", "the first crow came"),
    ],
)
def test_a_mark_that_was_copied_is_taken_out(said: str, words: str) -> None:
    found, note = quoted(LINKS, said)
    assert (found and found.split(), note) == (words.split(), "")


@pytest.mark.parametrize("said", ["【0†", "†c.org】", "[Image: a drop]", "0", "the first stone"])
def test_marks_alone_and_words_that_are_not_there_are_refused(said: str) -> None:
    found, note = quoted(LINKS, said)
    assert found is None
    assert note.startswith("this text is not on the page: copy it as it stands")


@pytest.mark.parametrize("dash", ["—", "–", "-", "―", "⸺", "─", "--", "...", "…"])
def test_no_dash_abbreviates(dash: str) -> None:
    """WebGPT, appendix A, names one mark; a page may hold 2,000 characters between two dashes."""
    text = f"It begins here. {'So it goes on. ' * 150}And so end."
    assert find_quote(TextFinder(text), "It begins━so end", 0) == (0, len(text) - 1)
    assert find_quote(TextFinder(text), f"It begins{dash}so end", 0) is None
    assert find_quote(TextFinder(text), f"It begins {dash} so end", 0) is None


def test_what_a_window_leaves_out_is_not_quoted_with_what_stands_around_it() -> None:
    """Of a page whose article view shows the first and the third block."""
    page = Page("https://a.org/x", "A", "One here.\n\nShare this.\n\nTwo here.")
    blocks = [Block(0, 9, "paragraph"), Block(11, 22, "paragraph"), Block(24, 33, "paragraph")]
    parts = [
        WindowPart("One here.", 0, 9, blocks[0]),
        WindowPart("\n\n", 24, 24, blocks[2]),
        WindowPart("Two here.", 24, 33, blocks[2]),
    ]
    window, finder = WindowText(page, parts), TextFinder(page.text)
    assert find_quote(finder, "One here. Two here.", 0, window) is None
    assert find_quote(finder, "Two here.", 0, window) == (24, 33)
    assert find_quote(finder, "One━Two", 0, window) == (0, 27)
