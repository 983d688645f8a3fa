"""`rookery doctor`: search, store, index and ranker looked at one by one, and what to do."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher, Limits
from rookery.browse.folder import Folder
from rookery.browse.places import bundled, engine_named
from rookery.cite import dense
from rookery.draft.endpoint import Endpoint
from rookery.draft.remote import probe_grammar
from rookery.records import Failed, Record
from rookery.serve.exits import ANSWERED, NO_EVIDENCE
from rookery.serve.models import Models, ModelSettings
from rookery.serve.session import cache_home, data_home
from rookery.serve.terminal import as_json

LOW_DISK = 500_000_000
"""bytes free below which an index may not fit"""
WITHOUT = {"search": "; without the web, name your own documents: rookery ask ... --in DIR"}
OBEDIENCE = {
    "obeyed": "keeps to grammars",
    "ignored": "takes grammars and does not keep to them",
    "refused": "refuses grammars",
}
GOOD, ABSENT, BAD = "ok", "optional", "failed"


class Finding(Record, frozen=True):
    """One thing that was looked at."""

    what: str
    state: str
    """ok, optional (not there, and not needed) or failed"""
    detail: str


def examine(engine: str, models: ModelSettings, json: bool, private: bool, proxy: bool) -> int:
    """Print a finding for each part; gives 4 where one that is needed failed."""
    out = Console(highlight=False)
    bad = False
    for finding in _findings(engine, models, private, proxy):
        bad = bad or finding.state == BAD
        if json:
            sys.stdout.write(as_json(finding) + "\n")
        else:
            style = {GOOD: "green", ABSENT: "yellow", BAD: "red"}[finding.state]
            state = (f"{finding.state:10}", style)
            out.print(Text.assemble(f"{finding.what:8}", state, finding.detail), soft_wrap=True)
    return NO_EVIDENCE if bad else ANSWERED


def _findings(engine: str, models: ModelSettings, private: bool, proxy: bool) -> Iterator[Finding]:
    yield _tried("store", _store)
    yield _tried("index", _index)
    yield _tried("search", lambda: _search(engine, private, proxy))
    if models:
        yield _tried("model", lambda: _model(models))
    else:
        yield Finding("model", GOOD, "none needed: the method extract answers without one")
    ranker = dense.load()
    if ranker is None:
        yield Finding("ranker", ABSENT, f"words alone decide; {dense.missing()}")
    else:
        yield Finding("ranker", GOOD, "the dense ranker is installed and re-scores sentences")


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, GOOD, look())
    except Failed as failed:
        advice = WITHOUT.get(what, "")
        return Finding(what, BAD, f"{failed.failure.outcome}: {failed.failure.detail}{advice}")


def _store() -> str:
    place = data_home() / "archive.sqlite"
    with Archive(place):
        free = shutil.disk_usage(place.parent).free
    room = f"{free / 1e9:.1f} GB free"
    return f"{place} opens; {room}" + ("; make room soon" if free < LOW_DISK else "")


def _index() -> str:
    """Reads and searches the bundled little web, in a folder of its own."""
    cache_home().mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=cache_home()) as place,
        Archive(Path(place) / "a.sqlite") as archive,
        Folder(bundled(), archive, Path(place)) as folder,
    ):
        found = folder.search("Why do crows bring gifts?", 1)
    return f"reads and finds the bundled pages (best: {found[0].title!r})"


def _model(settings: ModelSettings) -> str:
    """Asks it for a word, and whether it keeps to a grammar where it says that it takes one."""
    with TemporaryDirectory() as place, Models(settings, Path(place) / "a.sqlite") as models:
        model, endpoint = models.model("write"), models.endpoint("write")
        said = model.complete("Reply with the word: ready")[0]
        parts = [f"{model.name} answers"]
        parts += ["with" if said.logprobs else "without", "log-probabilities"]
        if isinstance(endpoint, Endpoint) and endpoint.grammars != "none":
            parts.append(f"; it {OBEDIENCE[probe_grammar(model)]}")
    return " ".join(parts).replace(" ;", ";")


def _search(engine: str, private: bool, proxy: bool) -> str:
    with Fetcher(Limits(seconds=10), allow_private=private, use_proxy=proxy) as fetcher:
        hits = engine_named(engine).search(fetcher, "crow", 3)
    return f"{engine} answers with {len(hits)} results"
