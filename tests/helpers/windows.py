"""A real desk on a free port, and a real Chromium before it, for the tests of the pages."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import axe_playwright_python
from listening import listening
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect, sync_playwright
from starlette.applications import Starlette
from visits import Opened

from rookery.desk import accounts
from rookery.desk.accounts import PersonRole
from rookery.server.app import build_web_app
from rookery.settings import Settings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PATIENCE = 60_000
"""milliseconds that an element may take to come"""
IN_VIEW = """() => {
  const beside = document.querySelector(".beside-page");
  const mark = beside.querySelector(".quoted") || beside.querySelector("mark");
  const at = beside.getBoundingClientRect(), top = mark.getBoundingClientRect().top;
  return top >= at.top && top < at.bottom;
}"""
"""whether the words that are marked beside the answer can be seen"""
expect.set_options(timeout=PATIENCE)


class Seen(NamedTuple):
    """Somebody who is in, before a window."""

    page: Page
    said: list[str]
    """what the browser complained of: errors, refused scripts, questions that a script asked"""


class Site(NamedTuple):
    """A desk that answers at an address."""

    opened: Opened
    address: str
    browser: Browser

    @contextmanager
    def window(
        self, name: str = "lena", role: PersonRole = "labeller", **kind: Any
    ) -> Iterator[Seen]:
        """A new window in which somebody has just come in."""
        context = self.browser.new_context(base_url=self.address, reduced_motion="reduce", **kind)
        try:
            yield self._seen(context, name, role)
        finally:
            context.close()

    def _seen(self, context: BrowserContext, name: str, role: PersonRole) -> Seen:
        context.set_default_timeout(PATIENCE)
        page, said = context.new_page(), list[str]()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: _dismissed(dialog, said))
        page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
        page.goto(f"/enter/{accounts.create_invite(self.opened.store, name, role, 'ada')}")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(re.compile("said=in"))
        return Seen(page, said)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine, for as many windows as are wanted."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def serving(opened: Opened, app: Starlette | None = None) -> Iterator[str]:
    """The desk, or another application on its store, on a free port; its address."""
    with listening(
        app or build_web_app(opened.store, Settings(("rookery:corvids",)), opened.limits)
    ) as address:
        yield address


def flaws(page: Page) -> list[str]:
    """What axe finds wrong on a page (WCAG A to 2.2 AA, and good practice)."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE)
    options = {"runOnly": LEVELS, "resultTypes": ["violations"]}
    report = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{flaw['id']}: {node['html'][:120]}"
        for flaw in report["violations"]
        for node in flaw["nodes"]
    ]


def words_of(text: str) -> str:
    return "".join(text.split())


def quote_is_marked(page: Page, number: int) -> None:
    """Waits until the quote is marked beside the answer, and is in view."""
    quote = words_of(page.locator(f"#c{number} blockquote").inner_text())
    shown = ".beside-page:not([aria-busy]) mark"
    page.wait_for_function(
        "([shown, quote]) => [...document.querySelectorAll(shown)].map(e => e.textContent).join('')"
        ".replace(/\\s/g, '') === quote",
        arg=[shown, quote],
    )
    page.wait_for_function(IN_VIEW)  # a sheet that opens, or a new width, scrolls to it afterwards


def _dismissed(dialog: Dialog, messages: list[str]) -> None:
    messages.append(dialog.message)
    dialog.dismiss()
