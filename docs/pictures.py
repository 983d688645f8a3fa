"""The pictures of the documentation, from the present version: `make pictures`.

Commands, servers and a training run in a temporary folder, and Chromium takes pictures of their
pages. It takes about two minutes. The site's picture is that of the site that `make docs` built.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
ROOKERY = (sys.executable, "-P", "-m", "rookery")
QUESTION = "How many seeds does a nutcracker hide each autumn?"
ASK = ("ask", QUESTION, "--in", "rookery:corvids")
QUESTIONS = """{"id": "1", "text": "Why do crows bring gifts to people?", "gold": ["feeds them"]}
{"id": "2", "text": "Can ravens plan for the future?", "gold": ["plan"]}
{"id": "3", "text": "How long do crows live?", "gold": ["seven or eight years"]}
{"id": "4", "text": "How many seeds does a nutcracker hide each autumn?", "gold": ["22,000"]}
{"id": "5", "text": "Can crows recognise human faces?", "gold": ["recognise"]}
"""


def main() -> None:
    """Take all pictures and write them to docs/pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(reduced_motion="reduce")
        take_terminal_picture(page, home)
        take_answer_pictures(page, home)
        take_desk_pictures(page, home)
        take_figure_pictures(page, home)
        site = ROOT / "site"
        shutil.copy(PICTURES / "answer.png", site / "pictures")
        page.goto((site / "index.html").as_uri())
        save_picture(page, "site", 1280, 800)
        browser.close()


def make_environment(home: Path) -> dict[str, str]:
    """Return environment variables with which nothing of this user's is read or written."""
    kinds = ("DATA", "CACHE", "CONFIG", "STATE")
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in kinds}
    return os.environ | folders | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run_rookery(home: Path, *words: str) -> str:
    """Run a command in the folder; return what it prints."""
    return subprocess.run(
        (*ROOKERY, *words),
        env=make_environment(home),
        cwd=home,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout


def save_picture(page: Page, name: str, width: int = 960, height: int = 640) -> None:
    """Write the window of the page to docs/pictures, in 128 colours."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("document.fonts.ready")
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128).save(path, optimize=True)


def take_terminal_picture(page: Page, home: Path) -> None:
    """Ask in a terminal of 92 columns, of pages that are indexed."""
    run_rookery(home, *ASK)
    ours, theirs = pty.openpty()
    environment = make_environment(home) | {"COLUMNS": "92", "TERM": "xterm-256color"}
    with subprocess.Popen(
        (*ROOKERY, *ASK), env=environment, cwd=home, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        printed = b""
        while part := _read_terminal(ours):
            printed += part
    answer = printed.decode().replace("\r\n", "\n").replace(str(ROOT), "/home/ada/rookery")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        console = Console(width=92, record=True, file=nowhere)
        console.print(Text(f'$ rookery ask "{QUESTION}" --in rookery:corvids', style="bold"))
        console.print(Text.from_ansi(answer.strip()))
    page.set_content(console.export_html(theme=DEFAULT_TERMINAL_THEME, inline_styles=True))
    page.add_style_tag(content="body { margin: 0; width: max-content; padding: 4px 16px }")
    size = page.locator("body").bounding_box() or {"width": 960, "height": 640}
    save_picture(page, "terminal", int(size["width"]), int(size["height"]))


def _read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the command has ended
        return b""


@contextmanager
def serve(home: Path, *words: str) -> Iterator[str]:
    """Run a server within the block; yield the address that it prints."""
    server = subprocess.Popen(
        (*ROOKERY, "serve", *words, "--in", "rookery:corvids", "--port", "8599"),
        env=make_environment(home),
        cwd=home,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert server.stdout is not None
        links = (re.search(r"https?://\S+", line) for line in server.stdout)
        yield next(link.group() for link in links if link)
    finally:
        server.terminate()
        server.wait()


def take_answer_pictures(page: Page, home: Path) -> None:
    """Ask on a page, and open the quote in its page."""
    with serve(home) as address:
        page.goto(address)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("textbox").first.fill(QUESTION)
        page.keyboard.press("Enter")
        page.get_by_text("Is this a good answer?").wait_for()
        save_picture(page, "answer", height=610)
        link = page.get_by_role("link", name="Show in page").get_attribute("href")
        page.goto(urljoin(address, link or ""))
        page.locator("mark").first.wait_for()
        save_picture(page, "page", height=610)


def take_desk_pictures(page: Page, home: Path) -> None:
    """Compare two answers at the desk."""
    (home / "questions.jsonl").write_text(QUESTIONS, "utf-8")
    batch = ("ask", "--batch", "questions.jsonl", "--in", "rookery:corvids", "--out")
    run_rookery(home, *batch, "model.jsonl")
    run_rookery(home, *batch, "words.jsonl", "--ranker", "words")
    run_rookery(home, "judge", "init")
    pairs = ("model.jsonl", "words.jsonl", "--form", "compare_short", "--batch", "first")
    run_rookery(home, "judge", "import", *pairs)
    link = run_rookery(home, "judge", "invite", "Ada", "--role", "admin").split()[0]
    with serve(home, "desk") as address:
        page.goto(urljoin(address, urlsplit(link).path))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Begin").wait_for()
        save_picture(page, "tasks", height=450)
        page.get_by_role("button", name="Begin").click()
        page.wait_for_load_state("networkidle")
        save_picture(page, "compare")


def take_figure_pictures(page: Page, home: Path) -> None:
    """Train a tiny reward model, and measure the answers."""
    run_rookery(home, "learn", "example", "first")
    run_rookery(home, "learn", "prefer", "--config", "first/prefer.toml")
    page.goto((home / "first" / "runs" / "prefer" / "run.html").as_uri())
    save_picture(page, "curves", height=630)
    run_rookery(home, "measure", "exact", "model.jsonl", "words.jsonl", "--out", "figures")
    run_rookery(home, "measure", "report", "figures")
    page.goto((home / "figures" / "report.html").as_uri())
    save_picture(page, "report", height=830)


if __name__ == "__main__":
    main()
