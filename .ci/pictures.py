"""Retake the pictures of docs/pictures: `.venv/bin/python .ci/pictures.py`, after `make docs`.

It needs the development environment, Chromium and tmux, and works in a folder of its own.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Page, ViewportSize, sync_playwright
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 96
PORT = 8599
VIEWPORT: ViewportSize = {"width": 960, "height": 640}
QUESTION = "How many seeds does a nutcracker hide each autumn?"
OTHER_QUESTION = "Why do crows bring gifts to people?"


def run_rookery(home: Path, *arguments: str) -> str:
    """Run a command of Rookery in a folder and return what it prints."""
    command = [sys.executable, "-m", "rookery", *arguments]
    environment = make_environment(home)
    return subprocess.run(
        command, cwd=home, env=environment, check=True, capture_output=True, text=True
    ).stdout


def make_environment(home: Path) -> dict[str, str]:
    """Environment in which nothing of the user's own is read or written."""
    places = {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}
    return {**os.environ, **places, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def capture_terminal(home: Path, command: str, rows: int) -> str:
    """Run a command in a terminal and return its screen with colours."""
    tmux = ["tmux", "-L", f"pictures{os.getpid()}", "-f", "/dev/null"]
    program = f"{command.replace('rookery ', f'{sys.executable} -m rookery ', 1)}; sleep 60"
    start = [*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(rows), program]
    subprocess.run(start, cwd=home, env=make_environment(home), check=True)
    wait_until_still(tmux)
    screen = read_screen(tmux)
    subprocess.run([*tmux, "kill-server"], check=True)
    return screen


def read_screen(tmux: list[str]) -> str:
    """Return what a terminal shows, with colours."""
    shown = [*tmux, "capture-pane", "-p", "-e"]
    return subprocess.run(shown, check=True, capture_output=True, text=True).stdout


def wait_until_still(tmux: list[str]) -> None:
    """Wait until a screen has not changed for three seconds."""
    before, since = "", time.monotonic()
    while time.monotonic() - since < 3:
        time.sleep(0.3)
        if (now := read_screen(tmux)) != before or not now.strip():
            before, since = now, time.monotonic()


def draw_terminal(page: Page, screen: str) -> None:
    """Draw a terminal's screen as a picture."""
    lines = screen.rstrip().splitlines()
    # Whole addresses would show whose machine this is.
    text = re.sub(r"file://\S*?/(?=rookery/browse)", "file:///…/", "\n".join(lines))
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(text))
    html = console.export_html(inline_styles=True)
    page.set_content(
        "<style>pre{display:inline-block;padding:14px;font-size:13px!important;line-height:1.35}"
        f"</style>{html}"
    )
    page.locator("pre").screenshot(path=PICTURES / "terminal.png")


@contextmanager
def serve_pages(home: Path, *command: str) -> Iterator[str]:
    """Start a server of Rookery, and yield a link by which an admin enters."""
    arguments = [sys.executable, "-m", "rookery", "serve", *command, "--port", str(PORT)]
    run_rookery(home, "judge", "init")
    invite = ("judge", "invite", "Ada", "--role", "admin", "--address", f"http://127.0.0.1:{PORT}")
    link = run_rookery(home, *invite).split()[0]
    server = subprocess.Popen(
        arguments, cwd=home, env=make_environment(home), stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while not is_ready() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        yield link
    finally:
        server.terminate()
        server.wait()


def is_ready() -> bool:
    """Return True if the server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz"):
            return True
    except OSError:
        return False


def make_clip(width: int, height: int) -> FloatRect:
    """Return the upper part of a page, of this size in pixels."""
    return {"x": 0, "y": 0, "width": width, "height": height}


def photograph_terminal(page: Page, home: Path) -> None:
    """Take the picture of a question asked in a terminal."""
    ask = f"rookery ask {shlex.quote(QUESTION)} --in rookery:corvids"
    draw_terminal(page, f"$ {ask}\n\n" + capture_terminal(home, ask, 30))


def photograph_answer(page: Page, home: Path) -> None:
    """Take the pictures of an answer and of a quote in its page."""
    with serve_pages(home, "--in", "rookery:corvids") as link:
        page.goto(link)
        page.get_by_role("button").first.click()
        page.goto(f"http://127.0.0.1:{PORT}/")
        page.get_by_label("Your question").fill(QUESTION)
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator(".answer-text .cite").first.wait_for()
        page.reload(wait_until="networkidle")
        page.screenshot(path=PICTURES / "answer.png")
        page.locator(".answer-text .cite").first.click()
        page.locator("#q1").get_by_role("link", name="Show in page").click()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=PICTURES / "page.png")


def photograph_desk(page: Page, home: Path) -> None:
    """Take the pictures of the labelling application."""
    questions = f'{{"id": "1", "text": "{OTHER_QUESTION}"}}\n{{"id": "2", "text": "{QUESTION}"}}\n'
    (home / "questions.jsonl").write_text(questions)
    common = ("ask", "--batch", "questions.jsonl", "--in", "rookery:corvids")
    run_rookery(home, *common, "--out", "long.jsonl")
    run_rookery(home, *common, "--out", "short.jsonl", "-q", "1")
    given = ("long.jsonl", "short.jsonl", "--form", "compare_short", "--batch", "first")
    run_rookery(home, "judge", "import", *given)
    with serve_pages(home, "desk", "--in", "rookery:corvids") as link:
        page.goto(link)
        page.get_by_role("button").first.click()
        page.goto(f"http://127.0.0.1:{PORT}/desk")
        page.screenshot(path=PICTURES / "tasks.png", clip=make_clip(960, 360))
        page.locator("form:has(input[value=compare_short]) button").click()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=PICTURES / "compare.png")


def photograph_figures(page: Page, home: Path) -> None:
    """Take the pictures of a training run and of a report."""
    run_rookery(home, "learn", "example", "first")
    run_rookery(home, "learn", "prefer", "--config", "first/prefer.toml")
    page.goto((home / "first" / "runs" / "prefer" / "run.html").as_uri())
    page.locator(".charts").screenshot(path=PICTURES / "curves.png")
    run_rookery(home, "measure", "citations", "long.jsonl", "short.jsonl", "--out", "figures")
    run_rookery(home, "measure", "report", "figures")
    page.goto((home / "figures" / "report.html").as_uri())
    page.screenshot(path=PICTURES / "report.png", clip=make_clip(960, 860), full_page=True)


def main() -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
        page = browser.new_page(viewport=VIEWPORT, reduced_motion="reduce")
        photograph_terminal(page, home)
        photograph_answer(page, home)
        photograph_desk(page, home)
        photograph_figures(page, home)
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto((ROOT / "site" / "index.html").as_uri())
        page.screenshot(path=PICTURES / "site.png")
        browser.close()
    for picture in PICTURES.glob("*.png"):
        with Image.open(picture) as whole:
            whole.convert("RGB").quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    main()
