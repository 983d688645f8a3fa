"""Demonstrations in a real browser: what is selected is what is quoted; keys; nothing executes."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from commands import surroundings
from demonstrating import Desk, desk, did, fetched, served, write_pages
from little import Little, html
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog
from playwright.sync_api import Page as Tab
from windows import PATIENCE, flaws

from rookery.desk import labelling_queue
from rookery.desk.demonstration_sessions import DemonstrationStore
from rookery.pages.page_text import neutralize_text
from rookery.records import Block, Link, Page, Question
from rookery.settings import Settings
from rookery.shell import demonstration_commands
from rookery.shell.demonstration_commands import NO_WORDS, SAME_WORDS, UNWRITABLE

SELECTIONS = 250
"""on each of four pages"""
WORDS = [
    *"crow “jay” rook’s 🐦‍⬛ 👩🏽‍🚀 cafe\u0301 naïve — x² a\u0300\u0301".split(),
    *"鴉は鳥 שלום 한글 \u1112\u1161\u11ab b\u00adc f\u200bg".split(),
]


def prose(seed: int, links: bool = True) -> str:
    random = Random(seed)
    out = []
    for number in range(14):
        words = [
            random.choice(WORDS) + random.choice(["", str(random.randrange(99))]) for _ in range(12)
        ]
        if links:
            at = random.randrange(10)
            words[at : at + 2] = [f'<a href="/p{number}">{" ".join(words[at : at + 2])}</a>']
            words[-1] = f"<sup>{words[-1]}</sup> <img alt='a rook' src='r.png'>"
        out.append(f"<p>{' '.join(words)}.</p>")
    return "".join(out)


def table(seed: int) -> str:
    random = Random(seed)
    rows = ("".join(f"<td>{random.choice(WORDS)} {n}{m}</td>" for n in range(4)) for m in range(9))
    cells = "".join(f"<tr>{row}</tr>" for row in rows)
    code = "\n".join(f"    if  {n}:\t\treturn  '{random.choice(WORDS)}'   " for n in range(9))
    return f"<h2>Birds</h2><table>{cells}</table><ul><li>one<li>two 🐦</ul><pre>{code}</pre>"


def blanks() -> Page:
    """What no reader makes: white space of every kind within a block, NUL and CR."""
    text, blocks = "", []
    for number in range(12):
        nul = "\x00" * (number == 3)
        words = f"  crow{number}  \t 🐦\u00a0\u2003rook \r\n jay{nul} \u3000 e\u0301nd{number}  "
        blocks.append(
            Block(len(text), len(text) + len(words), "paragraph" if number % 2 else "code")
        )
        text += words + "\n\n"
    return Page("https://blank.example/", "Blanks", text, tuple(blocks))


PAGES = (
    html("https://a.org/prose", prose(1), "Prose"),
    html("https://a.org/table", table(2) + prose(3, links=False), "Table"),
    html("https://a.org/mixed", prose(4) + table(5), "Mixed"),
    blanks(),
)

SELECT = """count => {
  let seed = 7;
  const random = (n) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor(seed / 65536) % n;
  };
  const area = document.querySelector("[data-window]");
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.push(walker.currentNode);
  const low = (s, i) => i > 0 && i < s.length && (s.charCodeAt(i) & 0xfc00) === 0xdc00;
  const out = [];
  for (let n = 0; n < count; n++) {
    const i = random(texts.length), j = Math.min(texts.length - 1, i + random(random(3) ? 4 : 30));
    let a = [texts[i], random(texts[i].data.length + 1)];
    let b = [texts[j], random(texts[j].data.length + 1)];
    if (i === j && a[1] > b[1]) [a, b] = [b, a];
    const back = random(2);
    const [from, to] = back ? [b, a] : [a, b];
    document.getSelection().setBaseAndExtent(from[0], from[1], to[0], to[1]);
    document.dispatchEvent(new Event("selectionchange"));
    const form = document.querySelector("#quote-form");
    // What is meant: the letters that are painted as selected, of the page and in whole characters.
    let meant = "";
    for (let k = i; k <= j; k++) {
      const text = texts[k].data;
      let s = k === i ? a[1] : 0, e = k === j ? b[1] : text.length;
      if (s < e && low(text, s)) s--;
      if (s < e && low(text, e)) e++;
      if (texts[k].parentElement.dataset.start !== undefined) meant += text.slice(s, e);
    }
    out.push([form.hidden ? "" : form.elements.span.value, meant]);
  }
  document.getSelection().removeAllRanges();
  return out;
}"""


@pytest.fixture(scope="module")
def desk_and_address(
    empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Desk, str]]:
    folder = tmp_path_factory.mktemp("demonstrations")
    settings = Settings(places=(str(write_pages(folder / "pages")),))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(folder).items():
            patch.setenv(name, value)
        with desk(empty_store, folder) as there, served(there, settings) as address:
            yield there, address


@pytest.fixture
def context(desk_and_address: tuple[Desk, str], browser: Browser) -> Iterator[BrowserContext]:
    there, address = desk_and_address
    context = browser.new_context(base_url=address, reduced_motion="reduce")
    context.add_cookies([{"name": "rookery", "value": there.sessions["Ada"], "url": address}])
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Tab]:
    """A window; whatever the browser complains of fails the test."""
    page = context.new_page()
    messages: list[str] = []

    def ask(dialog: Dialog) -> None:
        messages.append(dialog.message)
        dialog.dismiss()

    def note_dialog(line: ConsoleMessage) -> None:
        if line.type == "error" and "422" not in line.text:
            messages.append(line.text)

    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", ask)
    page.on("console", note_dialog)
    yield page
    assert messages == []


def opened(desk: Desk, page: Page, name: str) -> str:
    """A demonstration that has this page open; its item's id."""
    item = desk.item(Question(name, f"What of {name}?"), start=page.url)
    fetched(DemonstrationStore(desk.store), desk.place(item), Little(page))
    return item


def bare(words: str) -> str:
    return "".join(words.split())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[page.title for page in PAGES])
def test_what_is_selected_is_what_is_quoted(
    desk_and_address: tuple[Desk, str], tab: Tab, page: Page
) -> None:
    there, _ = desk_and_address
    item = opened(there, page, page.title)
    tab.goto(f"/demonstrate/{item}")
    shown = neutralize_text(page.text)
    done = 0
    notes: list[str] = []
    with DemonstrationStore(there.store).open_session(there.place(item)) as work:
        for span, meant in tab.evaluate(SELECT, SELECTIONS):
            meant = meant.replace("\ufffd", "\x00") if "\x00" in page.text else meant
            if not span:
                assert not bare(meant)
                continue
            start, end = map(int, span.split("-"))
            assert bare(shown[start:end]) == bare(meant)
            note = demonstration_commands.quote_window_span(work.browser_session, start, end)
            if note:
                notes.append(note)
                continue
            done += 1
            quote = work.browser_session.observation.quotes[-1]
            assert quote == page.quote(quote.start, quote.end)
            assert quote.start - 4 <= max(quote.start, start) < min(quote.end, end) <= quote.end
            same = page.text[min(start, quote.start) : max(end, quote.end)]
            assert bare(quote.text) in bare(same)
            assert len(visible(quote.text)) >= len(visible(page.text[start:end]))
            work.browser_session.undo()
    assert set(notes) <= {NO_WORDS, SAME_WORDS, UNWRITABLE}
    assert done > SELECTIONS * (0.3 if "\x00" in page.text else 0.6)


def visible(words: str) -> str:
    return "".join(letter for letter in words if letter.isalnum())


def test_a_selection_made_with_the_mouse_is_quoted_by_the_button_that_follows_it(
    desk_and_address: tuple[Desk, str], tab: Tab
) -> None:
    there, _ = desk_and_address
    item = opened(
        there,
        html(
            "https://a.org/mouse",
            "".join(
                f"<p>Crow {n} has 🐦 <a href='/x{n}'>many friends</a> here.</p>" for n in range(40)
            ),
            "Mouse",
        ),
        "mouse",
    )
    place = there.place(item)
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.goto(f"/demonstrate/{item}")
    line = tab.locator("[data-window] p").nth(20)
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    link = line.locator("label").bounding_box()
    assert link is not None
    tab.mouse.move(link["x"] + link["width"] - 1, link["y"] + link["height"] / 2, steps=5)
    tab.mouse.up()
    before = tab.evaluate("scrollY")
    tab.locator("#quote-form button").click()
    tab.locator(".collected blockquote").wait_for()
    tab.wait_for_load_state()
    assert tab.evaluate("scrollY") == before
    with DemonstrationStore(there.store).open_session(place) as work:
        (quote,) = work.browser_session.observation.quotes
        assert quote.text == "Crow 20 has 🐦 many friends"
    assert tab.locator("mark.quoted").first.inner_text() == "Crow 20 has 🐦 "
    line.locator("label").click()
    tab.wait_for_load_state()
    with DemonstrationStore(there.store).open_session(place) as work:
        assert work.browser_session.commands[-1] == "Clicked on link 20"


@pytest.mark.slow
def test_a_whole_demonstration_needs_no_mouse(desk_and_address: tuple[Desk, str], tab: Tab) -> None:
    there, _ = desk_and_address
    item = there.item(Question("keys", "Do crows bring gifts by key?"))
    place = there.place(item)
    tab.goto(f"/demonstrate/{item}")
    tab.keyboard.press("/")  # the field has the focus already: the key is no part of the query
    tab.keyboard.type("crows gifts")
    tab.keyboard.press("Enter")
    tab.locator("button.result").first.wait_for()
    tab.wait_for_load_state()
    with DemonstrationStore(there.store).open_session(place) as work:
        assert work.browser_session.last_command == "Search crows gifts"
    tab.locator("button.result").first.press("Enter")
    tab.locator("[data-window]").wait_for()
    tab.wait_for_load_state()
    tab.keyboard.press("f")
    tab.keyboard.type("a giver")
    tab.keyboard.press("Enter")
    tab.locator("mark.found").wait_for()
    tab.wait_for_load_state()
    tab.locator("main").press("q")
    first = "Crows bring gifts to people who feed them."
    assert tab.evaluate("getSelection().toString()") == first
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Shift+ArrowDown")
    chosen = tab.evaluate("getSelection().toString()")
    assert chosen.startswith("A gift needs a giver")
    tab.keyboard.press("Enter")
    tab.locator(".collected blockquote").wait_for()
    tab.wait_for_load_state()
    for key, said in (("j", "Scrolled down 1"), ("k", "Scrolled up 1"), ("u", ""), ("t", "Top")):
        with tab.expect_navigation():
            tab.keyboard.press(key)
        with DemonstrationStore(there.store).open_session(place) as work:
            assert not said or work.browser_session.last_command == said
    tab.keyboard.press("e")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    tab.locator("#answer").focus()
    tab.keyboard.type("They do")
    tab.locator("[data-cite='1']").press("Enter")
    tab.keyboard.type(".")
    tab.get_by_text("Kept", exact=True).wait_for()
    tab.reload()
    assert tab.locator("#answer").input_value() == "They do [1]."
    tab.get_by_role("button", name="Hand it in").press("Enter")
    tab.wait_for_url("**/desk?said=done")
    episode = labelling_queue.list_judgements(there.store, "Ada", 1)[0].filled["episode"]
    assert episode["answer"]["text"] == "They do."
    assert "They also play." in episode["answer"]["quotes"][0]["text"]


def test_keys_can_be_switched_off(
    desk_and_address: tuple[Desk, str], tab: Tab, context: BrowserContext
) -> None:
    there, address = desk_and_address
    item = opened(there, PAGES[0], "off")
    context.add_cookies([{"name": "keys", "value": "off", "url": address}])
    tab.goto(f"/demonstrate/{item}")
    for key in "fqjkt/e":
        tab.locator("main").press(key)
    assert tab.evaluate("getSelection().isCollapsed && !document.querySelector(':popover-open')")
    with DemonstrationStore(there.store).open_session(there.place(item)) as work:
        assert work.browser_session.commands == []


def test_a_tab_that_is_behind_and_the_back_button_lose_nothing(
    desk_and_address: tuple[Desk, str], context: BrowserContext, tab: Tab
) -> None:
    there, _ = desk_and_address
    item = there.item(Question("tabs", "Do tabs agree?"))
    other = context.new_page()
    for each in (tab, other):
        each.goto(f"/demonstrate/{item}")
    tab.fill("#search", "crows")
    tab.keyboard.press("Enter")
    tab.locator("button.result").first.click()
    tab.locator("[data-window]").wait_for()
    other.fill("#search", "jays")
    other.keyboard.press("Enter")
    other.get_by_text("This tab was behind").wait_for()
    other.go_back()  # never to what was kept in the browser
    other.locator("[data-window]").wait_for()
    tab.go_back()
    tab.locator("[data-window]").wait_for()
    with DemonstrationStore(there.store).open_session(there.place(item)) as work:
        assert work.browser_session.commands == ["Search crows", "Clicked on link 0"]


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe"
HOSTILE = Page(
    'https://evil.example/"><script>alert(2)</script>',
    f"{EVIL}</title><script>alert(3)</script>",
    f"{EVIL}\n\nA link data-poll=/leave",
    (Block(0, len(EVIL), "heading", 1), Block(len(EVIL) + 2, len(EVIL) + 23, "paragraph")),
    (Link(len(EVIL) + 2, len(EVIL) + 8, "javascript:alert(4)"),),
)


@pytest.mark.slow
def test_nothing_of_a_hostile_page_runs(desk_and_address: tuple[Desk, str], tab: Tab) -> None:
    there, _ = desk_and_address
    item = opened(there, HOSTILE, "<script>alert(5)</script>")
    place, ours = there.place(item), DemonstrationStore(there.store)
    did(
        ours,
        place,
        Little(HOSTILE),
        lambda work: demonstration_commands.run_typed_command(work, "Search link"),
    )
    tab.goto(f"/demonstrate/{item}")
    did(
        ours,
        place,
        Little(HOSTILE),
        lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
    )
    tab.goto(f"/demonstrate/{item}")
    tab.evaluate("getSelection().selectAllChildren(document.querySelector('[data-window]'))")
    tab.locator("#quote-form button").click()
    tab.locator(".collected blockquote").wait_for()
    tab.locator("button.leads-to").first.click()
    tab.locator(".window .notice").wait_for()
    with ours.open_session(place) as work:
        assert (
            work.browser_session.observation.quotes[0].text
            == HOSTILE.text[: len(work.browser_session.observation.quotes[0].text)]
        )
    did(
        ours,
        place,
        Little(HOSTILE),
        lambda work: demonstration_commands.run_typed_command(work, "End: Answer"),
    )
    tab.goto(f"/demonstrate/{item}")
    tab.fill("#answer", f"{EVIL} [1] [9]")
    tab.locator(".lint.bars").wait_for()
    tab.fill("#answer", f"{EVIL} [1]")
    tab.fill("#comment", EVIL)
    tab.get_by_role("button", name="Hand it in").click()
    tab.wait_for_url("**/desk?said=done")
    judgement = labelling_queue.list_judgements(there.store, "Ada", 1)[0]
    for step in ("", "/1", "/2", "/3"):
        tab.goto(f"/trace/{judgement.id}{step}")
        tab.locator("h1").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page_at_any_width(
    desk_and_address: tuple[Desk, str], tab: Tab, scheme: Literal["light", "dark"]
) -> None:
    there, _ = desk_and_address
    tab.emulate_media(color_scheme=scheme)
    item = there.item(Question(f"axe {scheme}", f"What does axe say of {scheme}?"))
    place, ours, web = there.place(item), DemonstrationStore(there.store), Little(*PAGES)
    found: dict[str, list[str]] = {}

    def look(name: str, address: str = f"/demonstrate/{item}", opens: str = "") -> None:
        tab.goto(address)
        for width in (360, 768, 1280):
            tab.set_viewport_size({"width": width, "height": 800})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
            if width < 1280 and (scheme == "dark" or (width == 768 and name != "quoted")):
                continue  # colours are the same at any width
            if opens:
                tab.evaluate(f"document.querySelector('#{opens}').showPopover()")
            found[f"{name} {opens} {width}"] = flaws(tab)

    look("ask", "/demonstrate")
    look("empty")
    for line in ("Search rook", "Clicked on link 0", "Find in page: crow"):
        did(ours, place, web, lambda work: demonstration_commands.run_typed_command(work, line))  # noqa: B023
    with ours.open_session(place) as work:
        start = work.browser_session.observation.start
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.quote_window_span(work, start, start + 120),
    )
    look("quoted")
    look("quoted", opens="by-hand")
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 1"),
    )
    look("error")
    did(
        ours, place, web, lambda work: demonstration_commands.run_typed_command(work, "End: Answer")
    )
    look("answer")
    tab.fill("#answer", "Rooks [1]. ")
    tab.get_by_role("button", name="Hand it in").click()
    tab.wait_for_url("**/desk?said=done")
    judgement = labelling_queue.list_judgements(there.store, "Ada", 1)[0]
    for step in ("", "/2", "/4"):
        look(f"trace{step}", f"/trace/{judgement.id}{step}")
    assert {name: flaw for name, flaw in found.items() if flaw} == {}
