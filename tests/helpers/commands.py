"""Rookery's command as tests run it: in this process, or as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rookery.library.question_files import bundled_questions

ROOT = str(Path(__file__).parents[2])
QUESTIONS = bundled_questions()
GIFTS = "Why do crows bring gifts to people?"
CORVIDS = ("--in", "rookery:corvids")
NOWHERE = "searxng:http://127.0.0.1:9"
ESCAPE = "\x1b"
NOTHING: Mapping[str, str] = {}


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


def surroundings(home: Path) -> dict[str, str]:
    """What a terminal with nothing set would give, and places of their own for what is stored."""
    return {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}


def started(
    home: Path,
    *arguments: str | Path,
    out: int = subprocess.PIPE,
    more: Mapping[str, str] = NOTHING,
) -> subprocess.Popen[bytes]:
    """`rookery ARGUMENTS` as a process, at the head of a group as a terminal would have it."""
    return subprocess.Popen(
        [sys.executable, "-m", "rookery", *map(str, arguments)],
        env={**os.environ, **surroundings(home), "PYTHONPATH": ROOT, **more},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def article(title: str, sentence: str, more: str = "") -> str:
    """A web page about one thing."""
    filler = "The wind was in the trees all day, and the rain came down on the roof. " * 3
    body = f"<article><h1>{title}</h1><p>{sentence} {filler}</p><p>{filler}{more}</p></article>"
    return f"<!doctype html><title>{title}</title>{body}"


def batch_file(place: Path, size: int) -> Path:
    """So many questions to the bundled pages, in a new file there."""
    lines = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()[:size]]
    short = [json.dumps({"id": line["id"], "text": line["text"]}) for line in lines]
    (place / "questions.jsonl").write_text("\n".join(short) + "\n")
    return place / "questions.jsonl"
