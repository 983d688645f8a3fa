"""The command `rookery doctor`: check store, index, answers, search, model and ranker one by
one."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from rich.text import Text

from rookery.answers.best_of_n import render_prompt
from rookery.answers.chat_answers import (
    Reference,
    read_draft,
    render_reference_blocks,
    show_question,
)
from rookery.answers.extract import answer_by_extraction
from rookery.answers.model_pool import ModelPool
from rookery.errors import Failed, Outcome
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import make_web_search
from rookery.models.chat_prompts import render_chat_prompt
from rookery.models.installed_models import require_added_weights
from rookery.models.openai_protocol import ModelEndpoint
from rookery.models.remote_model import RemoteModel, probe_chat_fields, probe_grammar
from rookery.network.fetcher import Fetcher, FetchLimits, FetchResponse, build_user_agent
from rookery.network.page_rendering import ChromiumRenderer, find_chromium
from rookery.quotes.verification import verify_quotes
from rookery.records import Failure, Page, Question, Record
from rookery.settings import (
    LOCAL,
    ModelSettings,
    Settings,
    get_cache_folder,
    get_data_folder,
    is_local_model,
)
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_NO_EVIDENCE
from rookery.shell.terminal_output import StreamConsole, print_indented, to_terminal_json
from rookery.text_escaping import sanitize_text

LOW_DISK = 500_000_000
"""bytes free below which an index may not fit"""
DEFAULT_ENGINE = "auto"
"""the engine that is tried where none is named"""
SAMPLE_QUESTION = "Why do crows bring gifts?"
"""a question that the bundled pages answer"""
NO_WEB_ADVICE = (
    "; without the web, ask your own documents: rookery ask ... --in DIR; or try another engine: "
    "rookery doctor --engine searxng:URL"
)
NO_CONTACT_ADVICE = "; requests carry no contact address: give one with --contact"
NO_RENDER_ADVICE = "; only --render needs it, for pages that show no text without scripts"
NO_MODEL_ADVICE = (
    "none named, and none needed to quote documents; for --method webglm, gophercite or webgpt try "
    "one: rookery doctor --model NAME --base-url URL"
)
NO_RANKER_ADVICE = "words alone decide: the evidence model is missing; install Rookery again"
GRAMMAR_SUPPORT = {
    "obeyed": "keeps to grammars",
    "ignored": "takes grammars and does not keep to them",
    "refused": "refuses grammars",
}
GOOD, OPTIONAL, WARNING, BAD = "ok", "optional", "warning", "failed"
SERVE_READY = GOOD, "what rookery serve and judge need is installed"
SERVE_MISSING = OPTIONAL, "only rookery serve and judge need it: pip install 'rookery[serve]'"


class DiagnosticResult(Record, frozen=True):
    """One thing that was looked at."""

    what: str
    state: str
    """ok, failed, warning: answers from own documents do without it, or are worse for it; or
    optional: not there, and needed only by who wants it"""
    detail: str


def run_doctor_command(settings: Settings, engine: str, json: bool) -> int:
    """Check each part and print the findings; return 4 where a part that is needed failed, else 0.

    Store, index and answers are needed: own documents are answered from with them alone. An
    `engine` or a model counts where it is named; with "" auto is tried, and only warned of.
    """
    out = StreamConsole()
    bad = False
    for finding in _run_checks(settings, engine):
        bad = bad or finding.state == BAD
        if json:
            sys.stdout.write(to_terminal_json(finding) + "\n")
        else:
            style = {OPTIONAL: "dim", GOOD: "green", WARNING: "yellow", BAD: "red"}[finding.state]
            state = (f"{finding.state:10}", style)
            mark = Text.assemble(f"{finding.what:8}", state)
            print_indented(out, mark, Text(finding.detail, overflow="ignore"))
    return EXIT_NO_EVIDENCE if bad else EXIT_ANSWERED


def _run_checks(settings: Settings, engine: str) -> Iterator[DiagnosticResult]:
    models, private, proxy = settings.models, settings.private, settings.proxy
    yield _run_check("store", _check_store)
    yield _run_check("index", _check_index)
    yield _run_check("extract", _check_answer)
    named, agent = engine or DEFAULT_ENGINE, build_user_agent(settings.contact)
    search = partial(_check_search, named, private, proxy, agent)
    searched = _run_check("search", search, BAD if engine else WARNING, NO_WEB_ADVICE)
    about_contact = "" if settings.contact else NO_CONTACT_ADVICE
    yield msgspec.structs.replace(searched, detail=searched.detail + about_contact)
    yield _run_check("render", lambda: _check_render(agent), OPTIONAL, NO_RENDER_ADVICE)
    served = all(map(find_spec, ("jinja2", "multipart", "sqlalchemy", "uvicorn")))
    yield DiagnosticResult("serve", *(SERVE_READY if served else SERVE_MISSING))
    if models:
        checked = _run_check("model", lambda: _check_model(models))
        yield checked
        if checked.state == GOOD:
            yield from _check_chat(models)
    else:
        yield DiagnosticResult("model", OPTIONAL, NO_MODEL_ADVICE)
    if is_evidence_model(BUNDLED_MODEL):
        yield _run_check("ranker", _check_ranker)
    else:
        yield DiagnosticResult("ranker", WARNING, NO_RANKER_ADVICE)


def _run_check(
    what: str, look: Callable[[], str], failed_state: str = BAD, advice: str = ""
) -> DiagnosticResult:
    """Return the result of a check: where it fails, the state of that, and advice at the end."""
    try:
        return DiagnosticResult(what, GOOD, look())
    except Failed as failed:
        detail = f"{failed.failure.outcome}: {failed.failure.detail}"
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}: make room or allow it"
    return DiagnosticResult(what, failed_state, detail + advice)


def _check_store() -> str:
    place = get_data_folder() / "archive.sqlite"
    with PageArchive(place):
        free = shutil.disk_usage(place.parent).free
    room = f"{free / 1e9:.1f} GB free"
    return f"{place} opens; {room}" + ("; make room soon" if free < LOW_DISK else "")


@contextmanager
def _open_bundled_library() -> Iterator[tuple[FolderLibrary, PageArchive]]:
    """Open the bundled little web with an index in a folder of its own."""
    get_cache_folder().mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=get_cache_folder()) as place,
        PageArchive(Path(place) / "a.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, Path(place)) as folder,
    ):
        yield folder, archive


def _check_index() -> str:
    with _open_bundled_library() as (folder, _):
        found = folder.search(SAMPLE_QUESTION, 1)
    if not found:
        detail = "the bundled pages are not found by words"
        raise Failed(Failure("index", Outcome.NOTHING_FOUND, detail))
    return f"reads and finds the bundled pages (best: {found[0].title!r})"


def _check_answer() -> str:
    """Answers from the bundled pages without a network, and verifies the quotes."""
    with _open_bundled_library() as (folder, archive):
        answer = answer_by_extraction(Question("1", SAMPLE_QUESTION), folder).answer
        verdicts = verify_quotes(answer, archive.find_quoted) if answer else []
    if answer is None or answer.declined or not all(verdict.verified for verdict in verdicts):
        detail = "a question that the bundled pages answer is not answered with verified quotes"
        raise Failed(Failure("extract", Outcome.NO_ANSWER, f"{detail}: install Rookery again"))
    return f"answers from the bundled pages offline; {len(verdicts)} quotes verified"


def _check_ranker() -> str:
    passage = EvidencePassage("Crows bring gifts to those who feed them.")
    load_evidence_model(BUNDLED_MODEL).judge_passages(SAMPLE_QUESTION, [passage])
    return "the evidence model that comes with Rookery loads and judges passages"


def _check_model(settings: ModelSettings) -> str:
    """Ask it for a word, and whether it keeps to a grammar where it says that it takes one.

    An added model must have the weights that were added. Raises Failed.
    """
    if is_local_model(settings) and not settings.model.startswith(LOCAL):
        require_added_weights(settings.model, get_data_folder())
    with TemporaryDirectory() as place, ModelPool(settings, Path(place) / "a.sqlite") as models:
        model, endpoint = models.open_model("write"), models.get_endpoint("write")
        completion = model.complete("Reply with the word: ready")[0]
        parts = [f"{model.name} answers"]
        parts += ["with" if completion.logprobs else "without", "log-probabilities"]
        if isinstance(endpoint, ModelEndpoint) and endpoint.grammars != "none":
            parts.append(f"; it {GRAMMAR_SUPPORT[probe_grammar(model)]}")
    return " ".join(parts).replace(" ;", ";")


CHAT_PAGES = (
    Page("https://rooks.invalid/", "Rooks", "Rooks build their nests of sticks in March."),
    Page("https://jackdaws.invalid/", "Jackdaws", "Jackdaws nest in holes of trees."),
)
CHAT_QUESTION = Question("doctor", "In which month do rooks build their nests?")
CHAT_FIELDS = {"tools": "native tools", "response_format": "structured output"}


def _check_chat(settings: ModelSettings) -> Iterator[DiagnosticResult]:
    """Have a chat model answer from two passages, and ask for a tool call and a form of a reply."""
    with TemporaryDirectory() as place, ModelPool(settings, Path(place) / "a.sqlite") as models:
        model = models.open_model("write")
        if isinstance(model, RemoteModel) and models.uses_chat("write"):
            yield _run_check("answer", lambda: _answer_by_chat(model), WARNING)
            yield _run_check("chat", lambda: _probe_chat(model), WARNING)


def _answer_by_chat(model: RemoteModel) -> str:
    """Return what a model answers from two passages. Raises Failed: bad_syntax."""
    references = [Reference(p, p.quote(0, len(p.text)), p.title) for p in CHAT_PAGES]
    turns = [f"{render_reference_blocks(references)}\n\n{show_question(CHAT_QUESTION)}"]
    [completion] = model.complete(render_chat_prompt(render_prompt("chat_answer"), turns))
    answer, fault = read_draft(completion.text, [each.quote for each in references])
    reply = sanitize_text(" ".join(completion.text.split()))
    if answer is None or answer.quotes != (references[0].quote,):
        fault = fault or "it does not cite the passage that says it, and that alone"
        detail = f"{fault}: “{reply}” to “{CHAT_QUESTION.text}”; answers will be shown as unchecked"
        raise Failed(Failure(model.name, Outcome.BAD_SYNTAX, detail))
    return f"answers from two passages and cites the right one: “{reply}”"


def _probe_chat(model: RemoteModel) -> str:
    results = probe_chat_fields(model)
    return ", ".join(f"{words} {results[name]}" for name, words in CHAT_FIELDS.items())


def _check_search(engine: str, private: bool, proxy: bool, agent: str) -> str:
    with Fetcher(
        FetchLimits(seconds=10), allow_private=private, use_proxy=proxy, user_agent=agent
    ) as fetcher:
        found = make_web_search(engine).search_web(fetcher, "crow", 3)
    said = f"{engine} answers with {len(found.hits)} results"
    return "; ".join([said, *(failure.detail for failure in found.failures)])


def _check_render(agent: str) -> str:
    """Render a page that asks for nothing from the network."""
    html = b"<script>document.write('<p>' + 6 * 7)</script>"
    page = FetchResponse("http://render.invalid/", 200, "text/html", html, "")
    with Fetcher() as fetcher:
        rendered = ChromiumRenderer(fetcher, agent).render_page(fetcher, page)
    if b"<p>42" not in rendered.data:
        detail = "Chromium does not run the scripts of pages"
        raise Failed(Failure("render", Outcome.CRASHED, detail))
    return f"{find_chromium() or 'the Chromium of Playwright'} runs the scripts of pages"
