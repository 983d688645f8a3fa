"""`rookery doctor`: store, index, answers, search, model and ranker checked one by one."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher, Limits
from rookery.browse.folder import Folder
from rookery.browse.places import bundled, engine_named
from rookery.cite import dense
from rookery.cite.verify import verify
from rookery.draft.endpoint import Endpoint
from rookery.draft.extract import extract
from rookery.draft.remote import probe_grammar
from rookery.records import Failed, Failure, Question, Record
from rookery.serve.exits import ANSWERED, NO_EVIDENCE
from rookery.serve.models import Models, ModelSettings
from rookery.serve.session import cache_home, data_home
from rookery.serve.terminal import StreamConsole, as_json

LOW_DISK = 500_000_000
"""bytes free below which an index may not fit"""
UNNAMED = "wikipedia"
"""the engine that is tried where none is named"""
SAMPLE = "Why do crows bring gifts?"
"""a question that the bundled pages answer"""
WITHOUT_WEB = (
    "; without the web, ask your own documents: rookery ask ... --in DIR; or try another engine: "
    "rookery doctor --engine searxng:URL"
)
WITHOUT_MODEL = (
    "none named, and none needed to quote documents; for --method webglm, gophercite or webgpt try "
    "one: rookery doctor --model NAME --base-url URL"
)
OBEDIENCE = {
    "obeyed": "keeps to grammars",
    "ignored": "takes grammars and does not keep to them",
    "refused": "refuses grammars",
}
GOOD, WARNING, BAD = "ok", "warning", "failed"


class Finding(Record, frozen=True):
    """One thing that was looked at."""

    what: str
    state: str
    """ok, failed, or warning: not there, and not needed to answer from own documents"""
    detail: str


def examine(engine: str, models: ModelSettings, json: bool, private: bool, proxy: bool) -> int:
    """Print a finding for each part; gives 4 where one that is needed failed.

    Store, index and answers are needed: own documents are answered from with them alone. An
    `engine` or a model counts where it is named; with "" Wikipedia is tried, and only warned of.
    """
    out = StreamConsole()
    bad = False
    for finding in _findings(engine, models, private, proxy):
        bad = bad or finding.state == BAD
        if json:
            sys.stdout.write(as_json(finding) + "\n")
        else:
            style = {GOOD: "green", WARNING: "yellow", BAD: "red"}[finding.state]
            state = (f"{finding.state:10}", style)
            out.print(Text.assemble(f"{finding.what:8}", state, finding.detail), soft_wrap=True)
    return NO_EVIDENCE if bad else ANSWERED


def _findings(engine: str, models: ModelSettings, private: bool, proxy: bool) -> Iterator[Finding]:
    yield _tried("store", _store)
    yield _tried("index", _index)
    yield _tried("extract", _answer)
    searched = _tried("search", lambda: _search(engine or UNNAMED, private, proxy))
    if searched.state == BAD:
        state = BAD if engine else WARNING
        searched = Finding("search", state, searched.detail + WITHOUT_WEB)
    yield searched
    if models:
        yield _tried("model", lambda: _model(models))
    else:
        yield Finding("model", WARNING, WITHOUT_MODEL)
    ranker = dense.load()
    if ranker is None:
        yield Finding("ranker", WARNING, f"words alone decide; {dense.missing()}")
    else:
        yield Finding("ranker", GOOD, "the dense ranker is installed and re-scores sentences")


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, GOOD, look())
    except Failed as failed:
        return Finding(what, BAD, f"{failed.failure.outcome}: {failed.failure.detail}")
    except OSError as error:
        return Finding(what, BAD, f"{error.filename}: {error.strerror}: make room or allow it")


def _store() -> str:
    place = data_home() / "archive.sqlite"
    with Archive(place):
        free = shutil.disk_usage(place.parent).free
    room = f"{free / 1e9:.1f} GB free"
    return f"{place} opens; {room}" + ("; make room soon" if free < LOW_DISK else "")


@contextmanager
def _bundled_library() -> Iterator[tuple[Folder, Archive]]:
    """The bundled little web, read into a folder of its own."""
    cache_home().mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=cache_home()) as place,
        Archive(Path(place) / "a.sqlite") as archive,
        Folder(bundled(), archive, Path(place)) as folder,
    ):
        yield folder, archive


def _index() -> str:
    with _bundled_library() as (folder, _):
        found = folder.search(SAMPLE, 1)
    if not found:
        raise Failed(Failure("index", "nothing_found", "the bundled pages are not found by words"))
    return f"reads and finds the bundled pages (best: {found[0].title!r})"


def _answer() -> str:
    """Answers from the bundled pages without a network, and verifies the quotes."""
    with _bundled_library() as (folder, archive):
        answer = extract(Question("1", SAMPLE), folder).answer
        verdicts = verify(answer, archive.find_quoted) if answer else []
    if answer is None or answer.declined or not all(verdict.verified for verdict in verdicts):
        detail = "a question that the bundled pages answer is not answered with verified quotes"
        raise Failed(Failure("extract", "no_answer", f"{detail}: install Rookery again"))
    return f"answers from the bundled pages offline; {len(verdicts)} quotes verified"


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
