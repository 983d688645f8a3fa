"""Records of a question to the server, of the progress of its answer, and of its result."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

import msgspec

from rookery.answers.answer_session import AnswerSession, EvidenceSources
from rookery.answers.methods import (
    METHODS,
    AnswerCallbacks,
    choose_default_method,
    names_evidence_model,
)
from rookery.browser.page_view import is_subdomain
from rookery.errors import Failed, Outcome
from rookery.library.libraries import is_url, is_warc_file, resolve_place_path
from rookery.library.question_files import parse_question
from rookery.library.sharded_library import NOTE_FILE
from rookery.models.remote_model import SlotTable
from rookery.python_objects import PYTHON_PREFIX
from rookery.quotes.verification import Verdict, verify_quotes
from rookery.records import Episode, Failure, Hit, Library, Page, Question, Record, digest_of
from rookery.settings import ModelSettings, Settings
from rookery.shell.file_reading import list_document_files

EXTRACT_METHOD = "extract"
WEB_PLACE = "web"
"""name of the place that stands for web search"""
DOCUMENTS_PLACE = "documents"
"""name of the place of uploaded documents, and of their folder"""
DOCUMENT_GONE = "a document that was chosen is not there any more: choose others, and ask again"
MAX_SAMPLES = 64
"""maximum number of answers that a model may sample for one question"""
LibraryEventKind = Literal["searching", "found", "opening", "opened", "failed"]
ModelEventKind = Literal["rewritten", "saying", "writing"]
FinalEventKind = Literal["answered", "declined", "stopped"]
EventKind = Literal["asked", "begun", "quote"] | LibraryEventKind | ModelEventKind | FinalEventKind
"""kinds of progress events"""
FINAL_EVENTS = get_args(FinalEventKind)
"""event kinds that end an answer; no event follows them"""


class QuestionRequest(Record, frozen=True):
    """A question and the options with which it is to be answered."""

    question: str
    method: str = ""
    """empty: the server's default"""
    model: str = ""
    """name of a model that the server offers; empty: the first one"""
    places: tuple[str, ...] | None = None
    """names of places that the server offers, or of single files of one, as PLACE/FILE; without
    any, its default places"""
    decline: float | None = None
    """probability below which to decline, as --decline; rounded to two digits"""
    offline: bool = False
    samples: int | None = None
    domains: tuple[str, ...] = ()
    """hosts to search, or, with a leading -, hosts to leave out; empty: no restriction"""
    conversation: str = ""
    """id of the first answer of the conversation; empty: the question begins one"""
    follows: str = ""
    """id of the stored answer that the question follows up; empty: it is searched as it stands"""
    earlier: tuple[str, ...] = ()
    """questions of the conversation so far, oldest first; never stored"""
    replies: tuple[str, ...] = ()
    """answers to the last of them; never stored"""


class AnswerEvent(Record, frozen=True):
    """A progress event of one answer."""

    number: int
    """position among the answer's events, from 0 without gaps"""
    kind: EventKind
    data: dict[str, Any]


class AnswerOutcome(Record, frozen=True):
    """The finished episode of a question and the verdict on each of its quotes."""

    episode: Episode
    verdicts: tuple[Verdict, ...]


class ServerCapabilities(Record, frozen=True):
    """The methods, models and places that a server lets clients choose."""

    methods: tuple[str, ...]
    models: dict[str, ModelSettings]
    places: dict[str, str]
    """locations of the places by their displayed names; empty for the web"""
    default_places: tuple[str, ...]
    """names of the places searched by default"""
    default_method: str = EXTRACT_METHOD
    """method of requests that name none"""

    def name_method(self, inquiry: QuestionRequest) -> QuestionRequest:
        """Return the request with the method that answers it."""
        method = inquiry.method or self.default_method
        return msgspec.structs.replace(inquiry, method=method)


def list_capabilities(settings: Settings) -> ServerCapabilities:
    """List the methods, models and places available with these settings."""
    by, models = settings.models, dict[str, ModelSettings]()
    if by:
        models[_name_model(by)] = by
    judged = {"unused": True, "optional": names_evidence_model(settings), "required": False}
    methods = tuple(method.name for method in METHODS.values() if models or judged[method.model])
    names = _name_places(settings.places) or {WEB_PLACE: ""}
    default = choose_default_method(by)
    return ServerCapabilities(methods, models, names, tuple(names), default_method=default)


def parse_requested_question(inquiry: QuestionRequest) -> Question:
    """Return the question of a request, with its digest as its id. Raises Failed (bad_question)."""
    try:
        text = parse_question(inquiry.question).text
        return Question(digest_of(text), text)
    except ValueError as error:
        detail = str(error).partition(":")[0] + ": ask in one sentence"
        raise Failed(Failure("question", Outcome.BAD_QUESTION, detail)) from error


def resolve_settings(
    base: Settings, offered: ServerCapabilities, inquiry: QuestionRequest
) -> Settings:
    """Return the session settings for a request: the server's with the request's choices applied.

    Raises Failed: unknown_method, unknown_model, unknown_place, bad_decline, bad_samples.
    """
    inquiry = offered.name_method(inquiry)
    if inquiry.method not in offered.methods:
        raise _build_unknown_failure("method", inquiry.method, offered.methods)
    if inquiry.model and inquiry.model not in offered.models:
        raise _build_unknown_failure("model", inquiry.model, offered.models)
    if inquiry.decline is not None and not 0 <= inquiry.decline <= 1:
        raise Failed(Failure("decline", Outcome.BAD_DECLINE, "give a number from 0 to 1"))
    if inquiry.samples is not None and not 1 <= inquiry.samples <= MAX_SAMPLES:
        raise Failed(
            Failure("samples", Outcome.BAD_SAMPLES, f"give a number from 1 to {MAX_SAMPLES}")
        )
    decline = base.decline if inquiry.decline is None else round(inquiry.decline, 2)
    return msgspec.structs.replace(
        base,
        places=_resolve_places(offered, inquiry),
        offline=base.offline or inquiry.offline,
        decline=decline,
        method=inquiry.method,
        models=_resolve_model(base, offered, inquiry),
    )


def _resolve_model(
    base: Settings, offered: ServerCapabilities, inquiry: QuestionRequest
) -> ModelSettings:
    """Return the model's settings; none where no language model answers."""
    use = METHODS[inquiry.method].model
    without = use == "optional" and not inquiry.model and names_evidence_model(base)
    if use == "unused" or without:
        return ModelSettings()
    choice = offered.models[inquiry.model or next(iter(offered.models))]
    samples = choice.samples if inquiry.samples is None else inquiry.samples
    return msgspec.structs.replace(choice, samples=samples)


def _resolve_places(offered: ServerCapabilities, inquiry: QuestionRequest) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(inquiry.places or offered.default_places))
    files = {name: find_place_file(offered, name) for name in names if name not in offered.places}
    for name, file in files.items():
        if not file and any(name.startswith(f"{place}/") for place in offered.places):
            raise Failed(Failure(name[:80], Outcome.UNKNOWN_PLACE, DOCUMENT_GONE))
        if not file:
            raise _build_unknown_failure("place", name, offered.places)
    if WEB_PLACE in names and len(names) > 1 and not offered.places[WEB_PLACE]:
        detail = "the web is searched by itself: name either the web or other places"
        raise Failed(Failure("the places", Outcome.UNKNOWN_PLACE, detail))
    resolved = tuple(filter(None, ({**offered.places, **files}[name] for name in names)))
    if not resolved and WEB_PLACE not in names:  # settings without places are the web
        raise Failed(
            Failure("the places", Outcome.UNKNOWN_PLACE, "this server has no place to search")
        )
    return resolved


class PlaceFile(NamedTuple):
    """A file of a place that is searched."""

    name: str
    """its path below the place"""
    path: Path
    changed: float
    """time of its last change, seconds since 1970"""
    title: str = ""
    """title of its page, where that is known"""


def list_place_files(place: str) -> tuple[PlaceFile, ...]:
    """Return the files of a folder, or the one file; none for other places, as for the web."""
    if not place or is_url(place) or place.startswith(PYTHON_PREFIX):
        return ()
    root = resolve_place_path(place).resolve()
    if (root / NOTE_FILE).is_file() or is_warc_file(root):
        return ()
    folder = root if root.is_dir() else root.parent
    with suppress(Failed, OSError):  # asking says what is wrong with it
        return tuple(
            PlaceFile(str(each.relative_to(folder)), each, each.stat().st_mtime)
            for each in list_document_files(root)
        )
    return ()


def find_place_file(offered: ServerCapabilities, name: str) -> str:
    """Return the path of a single file, PLACE/FILE; empty if it is not among those of the place."""
    # Looked up among what is there, so that no path comes from outside.
    paths = (
        file.path
        for place, location in offered.places.items()
        if name.startswith(f"{place}/")
        for file in list_place_files(location)
        if name == f"{place}/{file.name}"
    )
    return next(map(str, paths), "")


def _build_unknown_failure(what: str, name: str, choices: Any) -> Failed:
    detail = f"there is no {what} of this name here: use one of {', '.join(choices) or 'none'}"
    return Failed(Failure(name[:80], f"unknown_{what}", detail))


def _name_model(models: ModelSettings) -> str:
    """Return a model's display name, which hides local paths."""
    name = models.model or Path(models.endpoints).stem
    return Path(name.rpartition(":")[2]).stem if name.startswith(("path:", "script:")) else name


def _name_places(places: Sequence[str]) -> dict[str, str]:
    """Return the places by their display names: of a local folder the last path component.

    More components are shown where another place, or that of uploaded documents, has that name.
    """
    paths = {place: str(Path(place).resolve()) for place in places if not _has_own_name(place)}
    named = {}
    for place in places:
        name = place
        if path := paths.get(place, ""):
            ends = (_list_path_ends(other) for other in {*paths.values()} - {path})
            others = {DOCUMENTS_PLACE, *chain.from_iterable(ends)}
            name = next(name for name in _list_path_ends(path) if name not in others)
        named[name] = place
    return named


def _has_own_name(place: str) -> bool:
    return "://" in place or place.startswith(("rookery:", PYTHON_PREFIX))


def _list_path_ends(path: str) -> list[str]:
    """Return the last component of a path, the last two, and so on up to the whole."""
    parts = Path(path).parts
    return ["/".join(parts[-count:]) for count in range(1, len(parts))] + [path]


SEARCH_FACTOR = 5
"""factor by which a search is widened once if too few hits pass the filter"""


class DomainFilteredLibrary(Library):
    """A library that finds and opens only pages of permitted hosts.

    A domain covers the host and its subdomains; a leading - excludes them.
    """

    def __init__(self, library: Library, domains: Sequence[str]) -> None:
        self._library = library
        self._domains = tuple(domains)

    @property
    def failures(self) -> Sequence[Failure]:
        """Documents, pages and searches that could not be read so far, with the reasons."""
        return self._library.failures

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return up to k hits on permitted hosts, best first.

        Raises Failed if the search cannot be made. If too few of the first k hits pass,
        SEARCH_FACTOR * k hits are searched once.
        """
        allowed: list[Hit] = []
        for size in (k, SEARCH_FACTOR * k):
            hits = self._library.search(query, size)
            allowed = [hit for hit in hits if is_allowed_url(hit.url, self._domains)]
            if len(allowed) >= k or len(hits) < size:
                break
        return allowed[:k]

    def fetch(self, url: str) -> Page:
        """Fetch a page if its URL and the URL it redirects to are permitted.

        Raises Failed (not_allowed), and as the library does.
        """
        page = self._library.fetch(self._require_allowed(url))
        self._require_allowed(page.url)
        return page

    def _require_allowed(self, url: str) -> str:
        if not is_allowed_url(url, self._domains):
            detail = "this host is not among those that were asked for"
            raise Failed(Failure(url, Outcome.NOT_ALLOWED, detail))
        return url


def is_allowed_url(url: str, domains: Sequence[str]) -> bool:
    """Return True if a URL's host passes a list of domains, where a leading - excludes.

    A domain covers its subdomains. Exclusion wins; if no domain is included, all others pass. Names
    that are empty are passed over.
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    names = [name.strip().lower() for name in domains]
    excluded = tuple(name[1:] for name in names if name.startswith("-"))
    allowed = tuple(filter(None, (n.strip(".") for n in names if not n.startswith("-"))))
    return not is_subdomain(host, excluded) and (not allowed or is_subdomain(host, allowed))


EventListener = Callable[[EventKind, dict[str, Any]], None]
"""receives the kind and data of each progress event; may raise AnswerCancelledError"""


class AnswerCancelledError(Exception):
    """The client has left, or another worker has taken over the answer."""


class ReportingLibrary(Library):
    """A library that reports its searches and fetches to an event listener."""

    def __init__(self, library: Library, hear: EventListener) -> None:
        self._library = library
        self._listener = hear

    @property
    def failures(self) -> Sequence[Failure]:
        """Documents, pages and searches that could not be read so far, with the reasons."""
        return self._library.failures

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Search the library; report "searching" before and "found" or "failed" after.

        Raises Failed as the library does.
        """
        self._listener("searching", {"query": query})
        try:
            hits = self._library.search(query, k)
        except Failed as failed:
            self._listener("failed", msgspec.to_builtins(failed.failure))
            raise
        titles = {hit.url: hit.title for hit in hits}
        results = [{"url": url, "title": title} for url, title in titles.items()]
        self._listener("found", {"query": query, "hits": results})
        return hits

    def fetch(self, url: str) -> Page:
        """Fetch a page; report "opening" before and "opened" or "failed" after.

        Raises Failed as the library does.
        """
        self._listener("opening", {"url": url})
        try:
            page = self._library.fetch(url)
        except Failed as failed:
            self._listener("failed", msgspec.to_builtins(failed.failure))
            raise
        self._listener("opened", {"url": url, "title": page.title, "chars": len(page.text)})
        return page


class SharedAnswerSession:
    """An answering session that is shared by threads and reports progress to listeners."""

    def __init__(self, settings: Settings, sources: EvidenceSources, slots: SlotTable) -> None:
        self.sources = sources
        self.session = AnswerSession(settings, sources=sources, slots=slots)
        self.users = 0

    def answer_question(
        self,
        question: Question,
        hear: EventListener,
        domains: Sequence[str] = (),
        earlier: Sequence[str] = (),
        replies: Sequence[str] = (),
    ) -> AnswerOutcome:
        """Answer a question from pages of `domains`, check its quotes, report progress to `hear`.

        One that leans on the `earlier` questions of its conversation, or for a chat model on the
        `replies` to the last of them, is rewritten first; the episode has the question that was
        searched. Each quote is checked against the archive. Raises Failed as the session does, and
        AnswerCancelledError where `hear` raises it.
        """

        def wrap_library(library: Library) -> Library:
            return ReportingLibrary(
                DomainFilteredLibrary(library, domains) if domains else library, hear
            )

        callbacks = AnswerCallbacks(
            observe_command=lambda command: hear("saying", {"command": command}),
            observe_text=lambda text: hear("writing", {"text": text}),
            wrap_library=wrap_library,
        )
        standing = self.session.rewrite_question(question.text, earlier, replies)
        if standing != question.text:
            hear("rewritten", {"question": standing})
            question = Question(digest_of(standing), standing)
        episode = self.session.answer(question, callbacks)
        if episode.answer is None:
            return AnswerOutcome(episode, ())
        # Each quote against the archive's own copy of its page, not against what answered.
        verdicts = verify_quotes(episode.answer, self.sources.archive.find_quoted)
        return AnswerOutcome(episode, tuple(verdicts))


def _uses_place(settings: Settings, place: str) -> bool:
    """Return whether settings search a place, or single files of it."""
    return any(one == place or one.startswith(f"{place}/") for one in settings.places)


MAX_IDLE_SESSIONS = 8
"""sessions that are kept open for the next question. Each may hold open files and an index"""


class SharedSessionPool:
    """Open answer sessions, one for each distinct group of settings. Thread-safe.

    At most MAX_IDLE_SESSIONS without users stay open: those that were used last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[Settings, SharedAnswerSession] = {}
        """The sessions that are handed out, the one used last at the end."""
        self._replaced: list[SharedAnswerSession] = []
        """Sessions that are handed out no more, and are closed once nobody uses them."""
        self._slots = SlotTable()

    @contextmanager
    def use_session(self, settings: Settings) -> Iterator[SharedAnswerSession]:
        """Yield the session for these settings and keep it open while the block runs."""
        with self._lock:
            reading = self._sessions.pop(settings, None) or self._open_session(settings)
            self._sessions[settings] = reading
            reading.users += 1
        try:
            yield reading
        finally:
            with self._lock:
                reading.users -= 1
                self._close_unused()

    def answer_question(
        self,
        settings: Settings,
        inquiry: QuestionRequest,
        hear: EventListener,
        turn: AbstractContextManager[object] = nullcontext(),
    ) -> AnswerOutcome:
        """Answer a request with the session for these settings, and hold `turn` meanwhile.

        `turn` is a context manager such as a semaphore, for which it waits. Raises Failed:
        bad_question, and as `SharedAnswerSession.answer_question`.
        """
        question = parse_requested_question(inquiry)
        with self.use_session(settings) as reading, turn:
            context = inquiry.earlier, inquiry.replies
            return reading.answer_question(question, hear, inquiry.domains, *context)

    def reopen_place(self, place: str) -> None:
        """Drop sessions that use a place, so that the next question opens it anew."""
        with self._lock:
            for settings in [each for each in self._sessions if _uses_place(each, place)]:
                self._replaced.append(self._sessions.pop(settings))
            self._close_unused()

    def close(self) -> None:
        """Close all sessions; those in use are closed when they are released."""
        with self._lock:
            self._replaced += self._sessions.values()
            self._sessions.clear()
            self._close_unused()

    def _open_session(self, settings: Settings) -> SharedAnswerSession:
        """Return a new session, with the sources of another one that searches the same."""
        plain = msgspec.structs.replace(
            settings, decline=None, method="extract", models=ModelSettings()
        )
        known = (each.sources for each in self._sessions.values())
        sources = next((each for each in known if each.settings == plain), None)
        return SharedAnswerSession(settings, sources or EvidenceSources(plain), self._slots)

    def _close_unused(self) -> None:
        """Close the sessions that are not needed, and their sources with the last such session."""
        idle = [settings for settings, each in self._sessions.items() if not each.users]
        for settings in idle[: max(0, len(idle) - MAX_IDLE_SESSIONS)]:
            self._replaced.append(self._sessions.pop(settings))
        unused = [each for each in self._replaced if not each.users]
        self._replaced = [each for each in self._replaced if each.users]
        needed = {id(each.sources) for each in (*self._sessions.values(), *self._replaced)}
        for each in unused:
            each.session.close()
        for sources in {id(each.sources): each.sources for each in unused}.values():
            if id(sources) not in needed:
                sources.close()
