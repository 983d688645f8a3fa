"""Answers questions with quotes that anyone can check.

    import rookery

    answer = rookery.ask("Why do crows bring gifts to people?", "rookery:corvids")
    print(answer)
    assert all(rookery.verify(answer))

`ask` and `browse` are functions here although packages have these names too: import from the
packages by their whole path (`from rookery.library.web_library import WebLibrary`).
"""

import signal
import sys
from contextlib import contextmanager, suppress

if "rookery" in (*(each.rpartition("/")[2] for each in sys.argv[:1]), *sys.orig_argv[1:3]):
    # The command loads for a second: Ctrl-C then ends it without a traceback, as early as it can.
    with suppress(ValueError):  # in a thread
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rookery.errors import Failed
from rookery.records import (
    Answer,
    BatchReward,
    Block,
    Claim,
    Comparison,
    Completion,
    Episode,
    Failure,
    Hit,
    Library,
    Link,
    Mark,
    Page,
    Policy,
    Question,
    Quote,
    Rating,
    Reward,
    Step,
)
from rookery.version import __version__ as __version__

if TYPE_CHECKING:
    from rookery.answers.answer_session import AnswerSession
    from rookery.browser.browser import BrowseResult
    from rookery.browser.browser_commands import Observation
    from rookery.library.call_recording import WrappedLibrary
    from rookery.quotes.verification import ClaimedVerdict, Verdict
    from rookery.settings import ModelSettings, Settings


__all__ = [
    "Answer", "BatchReward", "Block", "Claim", "ClaimedVerdict", "Comparison", "Completion",
    "Episode", "Failed", "Failure", "Hit", "Library", "Link", "Mark", "ModelSettings", "Page",
    "Policy", "Question", "Quote", "Rating", "Reward", "Settings", "Step", "Verdict", "ask",
    "ask_many", "browse", "open_library", "verify",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


Progress = Callable[[int, int, str], None]
"""receives how many documents are read, of how many, and the name of the one being read"""


def __getattr__(name: str) -> object:
    """Import settings and verdicts at their first use, so that `import rookery` stays fast."""
    if name in ("Settings", "ModelSettings"):
        from rookery import settings

        return getattr(settings, name)
    if name in ("Verdict", "ClaimedVerdict"):
        from rookery.quotes import verification

        return getattr(verification, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def ask(
    question: "str | Question",
    *places: str | Path | Library,
    method: str = "",
    settings: "Settings | None" = None,
    progress: Progress | None = None,
    policy: Policy | None = None,
    reward: Reward | BatchReward | None = None,
) -> Answer:
    """Answer a question from folders, files, WARC files or sites, or from the web if none is named.

    A place may also be a Library: any object with `search` and `fetch`, which is left open.
    `method` is extract, webgpt, gophercite, webglm or sides; it and `places` take the place of
    those in `settings`. Without one it is that of `settings`, and webglm where they have a model on
    a server and the usual method. A declined answer has `declined` set and brings the closest
    quotes; `certain` is False for a possible one. `progress` is called while documents are
    read. `policy` is your own model, any object with `complete`, and `reward` your own function,
    which chooses among `settings.models.samples` answers of a model; a mistake in either is raised
    as a ValueError with its file and line. Raises Failed where no answer could be made (no source
    could be searched, a model gave none, a setting is wrong), ValueError for a question that is
    empty or too long, and TypeError, which names the argument, for one of a wrong type.
    """
    with _speak_python():
        with _open_session(places, method, settings, progress, policy, reward) as session:
            episode = _answer_with_places(session, question)
        if episode.answer is not None:
            return episode.answer
        detail = "; ".join(f"{f.what}: {f.detail or f.outcome}" for f in episode.failures)
        raise Failed(Failure(episode.question.text, episode.stop, detail))


def ask_many(
    questions: "Iterable[str | Question]",
    *places: str | Path | Library,
    method: str = "",
    settings: "Settings | None" = None,
    progress: Progress | None = None,
    policy: Policy | None = None,
    reward: Reward | BatchReward | None = None,
) -> Iterator[Episode]:
    """Answer questions one after the other as `ask` does, and yield an Episode for each, in order.

    The library is opened once, when the first episode is asked for, and closed after the last. An
    episode without an answer names the reasons in `stop` and `failures`. Raises Failed only where a
    setting is wrong, ValueError at a question that is empty or too long, and TypeError for wrong
    types, all when the first episode is asked for.
    """
    from rookery.settings import describe_in_python

    if isinstance(questions, str):
        raise TypeError("questions must be a list of questions, not str")
    _require_type("questions", questions, Iterable)
    with _speak_python(), _open_session(places, method, settings, progress, policy, reward) as it:
        for number, question in enumerate(questions, 1):
            episode = _answer_with_places(it, question, str(number))
            failures = tuple(map(describe_in_python, episode.failures))
            yield msgspec.structs.replace(episode, failures=failures)


def open_library(
    *places: str | Path | Library,
    settings: "Settings | None" = None,
    progress: Progress | None = None,
) -> "WrappedLibrary":
    """Open folders, files, WARC files and sites as one library, or the web if none is named.

    Documents are indexed at the first use and again where they change. Close the library, or use
    it in a `with` statement. Raises Failed where a place cannot be opened.
    """
    from rookery.answers.answer_session import open_library_alone
    from rookery.library.call_recording import WrappedLibrary
    from rookery.settings import describe_in_python

    _require_type("progress", progress, Callable | None)
    names, libraries = _split_places(places)
    with _speak_python():
        opened = open_library_alone(_combine_settings(names, "", settings), progress, libraries)
    search, fetch = _speak_python()(opened.search), _speak_python()(opened.fetch)
    return WrappedLibrary(opened, search, fetch, None, describe_in_python)


def browse(
    question: "str | Question", library: Library, *, max_actions: int = 100
) -> "Generator[Observation, str, BrowseResult]":
    """Browse a library as WebGPT does (section 2), yielding what is seen and receiving commands.

    A generator: `next` gives the first Observation, `send(command)` the next one, until the episode
    ends or `max_actions` commands were sent. Where something was quoted, and the end was not
    Nonsense or Controversial, a last Observation (`answering`) asks for the answer's text. The
    generator's return value, a BrowseResult, holds the quotes and that text. Commands are those of
    WebGPT's table 1, as `docs/manual.md` lists them. The library stays open. Raises ValueError for
    a question that is empty or too long.
    """
    from rookery.browser.browser import browse_library
    from rookery.browser.browser_commands import BrowserRules, BrowserTask

    _require_type("library", library, "fetch")
    _require_type("max_actions", max_actions, int)
    task = BrowserTask(_make_question(question), BrowserRules(actions=max_actions))
    return browse_library(task, library)


def verify(
    answer: Answer, find_page: Callable[[Quote], Page | None] | None = None
) -> "list[Verdict | ClaimedVerdict]":
    """Check each quote of an answer, in order, and then the quotations typed in its text.

    A verdict is true if the quote is exactly the slice of the stored page that it names, under the
    page's address and title, and is not too short to say anything; otherwise its `outcome` and
    `detail` say what is wrong. A ClaimedVerdict is on a quotation in the text that is no quote: it
    is false if the words do not stand in the pages that are cited. `find_page` returns the page of
    a quote; left out, pages come from the archive on this machine.
    """
    from rookery.quotes.verification import check_typed_quotes, verify_quotes

    _require_type("answer", answer, Answer)
    _require_type("find_page", find_page, Callable | None)
    if find_page is not None:
        return [*verify_quotes(answer, find_page), *check_typed_quotes(answer, find_page)]
    from rookery.library.page_archive import PageArchive
    from rookery.settings import ARCHIVE, get_data_folder

    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        return verify(answer, archive.find_quoted)


def _require_type(name: str, value: object, kind: Any) -> None:
    """Raise TypeError where an argument is not of a type, or has no method of the name `kind`."""
    if not (hasattr(value, kind) if isinstance(kind, str) else isinstance(value, kind)):
        expected = kind.__name__ if isinstance(kind, type) else kind
        expected = f"an object with {kind}" if isinstance(kind, str) else expected
        raise TypeError(f"{name} must be {expected}, not {type(value).__name__}")


@contextmanager
def _speak_python() -> Iterator[None]:
    """Name settings where a failure names options of the command line."""
    try:
        yield
    except Failed as failed:
        from rookery.settings import describe_in_python

        said = Failed(describe_in_python(failed.failure))
        failed.failure, failed.args = said.failure, said.args
        raise


def _make_question(question: "str | Question", number: str = "1") -> Question:
    from rookery.library.question_files import parse_question

    _require_type("question", question, str | Question)
    return parse_question(question, number) if isinstance(question, str) else question


def _answer_with_places(
    session: "AnswerSession", question: "str | Question", number: str = "1"
) -> Episode:
    """Answer a question; each quote is told where it stands, to be printed with it."""
    from rookery.quotes.quote_links import describe_location

    episode = session.answer(_make_question(question, number))
    for quote in episode.answer.quotes if episode.answer else ():
        page = session.sources.archive.find_quoted(quote)
        if page and page.digest == quote.digest:
            quote.__dict__["place"] = describe_location(page, quote.start)
    return episode


def _open_session(
    places: Iterable[str | Path | Library],
    method: str,
    settings: "Settings | None",
    progress: Progress | None,
    policy: Policy | None,
    reward: Reward | BatchReward | None,
) -> "AnswerSession":
    from rookery.answers.answer_session import AnswerSession

    _require_type("method", method, str)
    _require_type("progress", progress, Callable | None)
    if policy is not None:
        _require_type("policy", policy, "complete")
    _require_type("reward", getattr(reward, "score_answers", reward), Callable | None)
    names, libraries = _split_places(places)
    combined = _combine_settings(names, method, settings, policy)
    return AnswerSession(combined, progress, None, None, libraries, policy, reward)


def _split_places(places: Iterable[str | Path | Library]) -> tuple[list[str | Path], list[Library]]:
    """Return the places that are named, and those that are libraries. Raises TypeError."""
    from rookery.library.own_library import is_library

    names, libraries = list[str | Path](), list[Library]()
    for place in places:
        if isinstance(place, str | Path):
            names.append(place)
        elif is_library(place):
            libraries.append(place)
        else:
            raise TypeError(f"places must be paths or objects with search and fetch, not {place!r}")
    return names, libraries


def _combine_settings(
    places: Sequence[str | Path],
    method: str,
    settings: "Settings | None",
    policy: Policy | None = None,
) -> "Settings":
    from rookery.settings import Settings

    _require_type("settings", settings, Settings | None)
    settings = settings or Settings()
    if policy is not None:
        model = f"python:{type(policy).__module__}.{type(policy).__qualname__}"
        models = msgspec.structs.replace(settings.models, model=model)
        settings = msgspec.structs.replace(settings, models=models)
    if places:
        settings = msgspec.structs.replace(settings, places=tuple(map(str, places)))
    if not method and settings.method == Settings().method:
        from rookery.answers.methods import choose_default_method

        method = choose_default_method(settings.models)
    return msgspec.structs.replace(settings, method=method or settings.method)
