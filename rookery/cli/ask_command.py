"""The command `rookery ask`: one question, or a batch of them, and `--passages`."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from rookery.answers.answer_results import (
    AnswerProvenance,
    JsonLineAnswerer,
    PassageFound,
    PassageReport,
    SearchMade,
    answer_all,
    lock_output,
    make_ask_result,
    select_told_failures,
    split_remarks,
)
from rookery.answers.answer_session import AnswerSession
from rookery.answers.both_sides import SIDES_METHOD as SIDES
from rookery.answers.evidence_answers import EvidenceSettings
from rookery.answers.extract import ExtractSettings
from rookery.answers.methods import AnswerCallbacks
from rookery.errors import Failed, Outcome
from rookery.evidence.calibration import get_minimum_score
from rookery.evidence.passage_ranking import RankedPassage
from rookery.library.call_recording import WrappedLibrary
from rookery.library.libraries import BUNDLED_PLACE, get_contents_digest, is_url, resolve_place_path
from rookery.library.question_files import parse_question, read_questions
from rookery.library.worker_processes import choose_worker_count, map_in_workers
from rookery.models.installed_models import locate_local_model
from rookery.pages.file_selection import SkippedGroup
from rookery.pages.passages import get_headings_above
from rookery.python_objects import PYTHON_PREFIX
from rookery.quotes.verification import Verdict, verify_quotes
from rookery.records import Answer, Episode, Hit, Library, Question, digest_of, prepare_type
from rookery.settings import LOCAL, SCRIPT, WORDS, Settings, is_local_model
from rookery.shell.command_line import (
    EXIT_ANSWERED,
    EXIT_DECLINED,
    EXIT_NO_ANSWER,
    EXIT_NO_EVIDENCE,
    EXIT_UNVERIFIED,
)
from rookery.shell.command_options import get_option_name
from rookery.shell.terminal_output import (
    LiveDisplay,
    ProgressBar,
    StreamConsole,
    describe_missing_answer,
    format_skipped_files,
    format_spending,
    print_indented,
    print_wrapped,
    show_answer,
    show_failures,
    summarize_answer,
    to_terminal_json,
    warn_of_recipients,
)
from rookery.text_escaping import sanitize_text
from rookery.typed_files import require_regular_file
from rookery.version import __version__
from rookery.written_values import format_count

MAX_PASSAGE_CHARACTERS = 200
"""characters of a passage that are shown"""


class _Search(NamedTuple):
    made: SearchMade
    hits: Sequence[Hit]


class SearchLog:
    """Notes what a session searches for and how it ranks what it finds, for one question."""

    def __init__(self, session: AnswerSession) -> None:
        self._settings = session.settings
        self._session = session
        self._searches: list[_Search] = []
        self._ranked: list[RankedPassage] = []

    def wrap_library(self, library: Library) -> Library:
        """Return the library with its searches noted here."""
        return WrappedLibrary(library, partial(self._log_search, library))

    def _log_search(self, library: Library, query: str, k: int) -> Sequence[Hit]:
        try:
            hits = library.search(query, k)
        except Failed as failed:
            why = f"{failed.failure.outcome}: {failed.failure.detail}"
            self._searches.append(_Search(SearchMade(query, 0, why), ()))
            raise
        self._searches.append(_Search(SearchMade(query, len(hits)), hits))
        return hits

    def observe_ranking(self, ranked: Sequence[RankedPassage]) -> None:
        """Add ranked passages to those of the report."""
        self._ranked.extend(ranked)

    def make_report(self, episode: Episode) -> PassageReport:
        """Return the report: searches, ranked passages with the quotes in them, score and reason.

        Where no passages were ranked, the search results take their place.
        """
        answer = episode.answer
        rows = list(self._list_passages(answer)) or list(self._list_results(answer))
        threshold, by_extract = self._find_threshold(), self._session.declines_by_extract()
        return PassageReport(
            libraries=self._settings.places or (f"the web, by {self._settings.engine}",),
            searches=tuple(search.made for search in self._searches),
            found=tuple(rows),
            score=None if answer is None else answer.score,
            threshold=threshold,
            reason=_explain_outcome(episode, self._settings, threshold, by_extract),
        )

    def _list_passages(self, answer: Answer | None) -> Iterator[PassageFound]:
        for number, passage in enumerate(self._ranked, 1):
            page, start, end = passage.page, passage.hit.start, passage.hit.end
            best = max((sentence.score for sentence in passage.sentences), default=None)
            place = page.url, page.title, page.digest, start, end, get_headings_above(page, start)
            text = page.text[start:end][:MAX_PASSAGE_CHARACTERS]
            cited = _find_quotes_in(answer, page.digest, start, end)
            yield PassageFound(number, passage.score, best, *place, text, cited)

    def _list_results(self, answer: Answer | None) -> Iterator[PassageFound]:
        """Return the results that a model's own searches showed it."""
        hits = dict.fromkeys(hit for search in self._searches for hit in search.hits)
        for number, hit in enumerate(hits, 1):
            quotes = answer.quotes if answer else ()
            cited = tuple(at for at, quote in enumerate(quotes, 1) if quote.url == hit.url)
            place = hit.url, hit.title, hit.digest, hit.start, hit.end, ""
            text = hit.snippet[:MAX_PASSAGE_CHARACTERS]
            yield PassageFound(number, hit.score, None, *place, text, cited)

    def _find_threshold(self) -> float | None:
        if self._session.declines_by_extract():
            if self._settings.decline is not None:
                return self._settings.decline
            by_evidence = self._session.sources.load_evidence_judge() is not None
            return EvidenceSettings().certain if by_evidence else ExtractSettings().decline
        calibration = self._session.read_calibration()
        return None if calibration is None else get_minimum_score(calibration)


def _find_quotes_in(answer: Answer | None, digest: str, start: int, end: int) -> tuple[int, ...]:
    quotes = enumerate(answer.quotes if answer else (), 1)
    return tuple(
        number
        for number, quote in quotes
        if quote.digest == digest and quote.start < end and start < quote.end
    )


def _explain_outcome(
    episode: Episode, settings: Settings, threshold: float | None, by_extract: bool
) -> str:
    answer = episode.answer
    if answer is None:
        return describe_missing_answer(episode)
    outcome = "declined" if answer.declined else "answered"
    outcome = "possible" if answer.stored_certain is False else outcome
    if settings.method == SIDES:
        answered = "answered: the best sentences that take each side are shown"
        return "declined: no sentence found takes a side" if answer.declined else answered
    if not answer.quotes:
        return "declined: no passage was found that can be quoted"
    score = "none" if answer.score is None else f"{answer.score:.4g}"
    if threshold is None:
        return f"{outcome}: the model's best sample, score {score}; no --decline was given"
    against = "reaches" if outcome == "answered" else "is below"
    what = "how good the model's best sample is"
    if by_extract:
        probability = "the calibrated probability" if answer.calibrated else "a score, from 0 to 1,"
        what = f"{probability} that the first quote answers"
    return f"{outcome}: score {score} {against} {threshold:.4g} (--decline); it is {what}"


def show_passages(console: Console, report: PassageReport) -> None:
    """Print the report of passages behind the answer."""

    def print_line(mark: str, text: str) -> None:
        print_indented(console, Text(mark), Text(sanitize_text(" ".join(text.split()))))

    console.print()
    print_line("", f"Searched {', '.join(report.libraries)}:")
    for one in report.searches:
        print_line("  ", f"“{one.query}”: {one.failure or format_count(one.found, 'result')}")
    if not report.searches:
        print_line("  ", "nothing")
    if report.found:
        console.print()
        print_line("", "Found, best first (rank, score, score of the best sentence):")
    for each in report.found:
        best = "" if each.sentence is None else f"{each.sentence:6.2f}"
        where = " · ".join(filter(None, (each.title or each.url, each.heading)))
        cited = "".join(f"[{number}]" for number in each.quotes)
        print_line(f"{each.rank:>4}{each.score:6.2f}{best}  ", f"{where} {cited}")
        print_line("      ", each.text)
    console.print()
    print_line("", f"{report.reason[:1].upper()}{report.reason[1:]}")


def run_ask_command(
    settings: Settings, text: str, json: bool, trace: Path | None, passages: bool = False
) -> int:
    """Answer one question, print the answer and return the exit code.

    `json` prints one line of JSON; `passages` adds what was searched and found; the whole episode
    is appended to the file `trace` as a line of JSON. Raises ValueError for a text that is no
    question, and Failed for settings that cannot be used.
    """
    question = parse_question(text)
    out, err = StreamConsole(), StreamConsole(stderr=True)
    with ProgressBar(err, "reading") as meter, AnswerSession(settings, meter) as session:
        _warn_all_declined(session, err)
        warn_of_recipients(err, session.list_recipients())
        log = SearchLog(session) if passages else None
        callbacks = AnswerCallbacks()
        if log:
            callbacks = AnswerCallbacks(
                observe_ranking=log.observe_ranking, wrap_library=log.wrap_library
            )
        with _open_live_display(err, session.settings) as live:
            if live and settings.models:
                callbacks = callbacks._replace(
                    observe_command=live.show_command, observe_text=live.show_text
                )
            episode = session.answer(question, callbacks)
        quotes = episode.answer.quotes if episode.answer else ()
        pages = [session.sources.find_page(quote) for quote in quotes]
        verdicts = _verify_quotes(session, episode)
        made_with = _find_answer_provenance(session) if json else None
        report = log.make_report(episode) if log else None
        skipped = session.sources.count_skipped()
        spent = format_spending(session.open_models().spending.spent) if settings.models else ""
    if json:
        answered = make_ask_result(episode, verdicts, made_with)
        answered = msgspec.structs.replace(answered, passages=report, skipped=skipped)
        sys.stdout.write(to_terminal_json(answered) + "\n")
    else:
        show_answer(out, episode, pages, verdicts)
        if report:
            show_passages(out, report)
        err.print_note("\n" + summarize_answer(episode, verdicts) + spent)
        _show_skipped(skipped, err)
        unsaid = split_remarks(episode)[0] if episode.answer else episode
        files = (each for each in unsaid.failures if each.what.startswith("/"))
        show_failures(err, list(dict.fromkeys([*select_told_failures(unsaid), *files])))
        if episode.stop == "no_evidence" and not settings.places:
            err.print_note("To ask your own documents: rookery ask ... --in DIR")
    if trace is not None:
        with trace.open("a", encoding="utf-8") as lines:
            lines.write(episode.to_json() + "\n")
    return _choose_exit_code(episode, verdicts)


def _find_answer_provenance(session: AnswerSession) -> AnswerProvenance:
    """Return the provenance of one answer, without --offline, which only repeats an answer."""
    made_with = _find_provenance(msgspec.structs.replace(session.settings, offline=False))
    try:
        documents = get_contents_digest(session.sources.open_library())
    except Failed:  # which the answer tells
        documents = ""
    return msgspec.structs.replace(made_with, documents=documents)


def _show_skipped(skipped: Sequence[SkippedGroup], err: StreamConsole) -> None:
    if line := format_skipped_files(skipped):
        err.print_note(sanitize_text(line))


def _warn_all_declined(session: AnswerSession, err: Console) -> None:
    """Warn if no threshold of --decline keeps its promise. Raises Failed without labels."""
    found = session.read_calibration()
    if found is not None and found.threshold is None:
        print_wrapped(err, f"every answer will be declined: {found.reason}")


def _open_live_display(
    err: Console, settings: Settings
) -> AbstractContextManager[LiveDisplay | None]:
    """Something that moves while the web is searched or a model writes; folders and sites have a
    bar of their own."""
    near, by_model = settings.places or settings.offline, bool(settings.models)
    if not err.is_interactive or (near and not by_model):
        return nullcontext()
    writes = f"{settings.models.model} writes (smollm2 takes some ten seconds on one core)"
    thinks = writes if is_local_model(settings.models) else "thinking"
    return LiveDisplay(err, thinks if near else "searching the web")


def run_batch_command(
    settings: Settings,
    questions_file: Path,
    out: Path,
    force: bool = False,
    workers: int = 0,
    ray: str = "",
) -> int:
    """Answer every question of a file, on all cores, and go on where an earlier run stopped.

    `workers` is the number of processes; 0: one for each processor. With `ray` they are on the
    machines of the cluster at that address; models are asked from one process, and not from there.

    Each line says what it was made with. Where `out` holds answers that were made with other
    settings, or to other questions, nothing is changed and ValueError is raised; with `force` the
    file is begun anew. Standard output (`-`) is written to and never read. Gives the exit code:
    whether there was evidence for any question, and every quote verified.
    """
    err = StreamConsole(stderr=True)
    if settings.models and (workers or ray):
        raise ValueError(
            "--workers and --ray are for answers without a model: how many requests a model is "
            "sent at once, its settings say"
        )
    questions = list(read_questions(questions_file))
    now, place = _find_provenance(settings), None if _is_standard_output(out) else out
    meter = ProgressBar(err, "reading")
    with lock_output(place), meter, AnswerSession(settings, meter) as session:
        saved = [] if place is None else _read_saved_lines(out)
        if not force:
            _require_same_settings(out, saved, now)
        _warn_all_declined(session, err)
        # Indexed once, here, before any worker opens it.
        documents = get_contents_digest(session.sources.open_library())
        now = msgspec.structs.replace(now, documents=documents)
        skipped = session.sources.count_skipped()
        if settings.models:  # what is misnamed is told before anything is lost
            session.open_models().get_endpoint("write")
            warn_of_recipients(err, session.list_recipients())
        if force and saved:
            out.write_bytes(b"")
        elif saved:
            _show_changes(saved, now, err)
        try:
            already, tally = _answer_all(session, now, questions, place, err, workers, ray)
        except BaseException:
            if force:
                print_wrapped(err, "rookery: to go on where this stopped, leave --force out")
            raise
        spent = format_spending(session.open_models().spending.spent) if settings.models else ""
    summary = ", ".join(
        f"{n} {STOP_DESCRIPTIONS.get(stop, stop)}" for stop, n in sorted(tally.stops.items())
    )
    _show_skipped(skipped, err)
    existing = f"; {already} were there already" if already else ""
    answered = f"{format_count(len(questions), 'question')}: {summary or 'nothing to do'}"
    err.print_note(answered + existing + spent)
    if tally.unverified:
        err.print(f"rookery: {format_count(tally.unverified, 'quote')} NOT VERIFIED", markup=False)
        return EXIT_UNVERIFIED
    nothing = questions and tally.stops["no_evidence"] == len(questions)
    return EXIT_NO_EVIDENCE if nothing else EXIT_ANSWERED


def _answer_all(
    session: AnswerSession,
    made_with: AnswerProvenance,
    questions: Sequence[Question],
    out: Path | None,
    err: Console,
    workers: int,
    ray: str,
) -> "tuple[int, _BatchTally]":
    """By processes of their own, or, where models are waited for, by threads of one session.

    Gives how many answers were there already, and the tally of all.
    """
    settings, tally = session.settings, _BatchTally()
    threads = bool(settings.models)
    at_once = session.open_models().max_concurrent if threads else choose_worker_count(workers, ray)
    make: Callable[[], JsonLineAnswerer] = partial(_make_worker_answerer, settings, made_with)
    if threads:
        make = partial(partial, _answer_as_line, session, made_with)
    with ProgressBar(err, "answering") as meter:
        if out is None:
            with closing(map_in_workers(questions, make, at_once, threads, ray)) as lines:
                for number, line in enumerate(lines, 1):
                    sys.stdout.write(line + "\n")
                    sys.stdout.flush()
                    tally.add(line)
                    meter(number, len(questions))
            return 0, tally

        def report_progress(count: int) -> None:
            meter(count, len(questions))

        count = answer_all(questions, out, make, at_once, report_progress, threads, ray)
    if out.is_file():  # of a device or a pipe, what went there is gone
        with out.open("rb") as whole:
            for saved in whole:
                tally.add(saved)
    return count, tally


def _is_standard_output(out: Path) -> bool:
    """Tell whether `out` is `-` or another name of standard output, such as /dev/stdout."""
    if str(out) == "-":
        return True
    try:
        return os.path.samestat(out.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file yet, or no file behind standard output
        return False


_URL_CREDENTIALS = re.compile(r"//[^/@]*@")
"""a name and a password in an address: answers are shown to others"""


def _find_provenance(settings: Settings) -> AnswerProvenance:
    """Return the provenance that all answers share, without the documents. Raises OSError for
    unreadable files."""
    models = settings.models
    endpoints = models.endpoints
    if endpoints:
        endpoints = f"{_make_absolute(endpoints)}{_format_digest(endpoints)}"
    model, folder = models.model, ""
    if model.startswith(SCRIPT):
        script = model.removeprefix(SCRIPT)
        model = f"{SCRIPT}{_make_absolute(script)}{_format_digest(script)}"
    elif model.startswith(LOCAL):
        folder = model.removeprefix(LOCAL)
        model = f"{LOCAL}{_make_absolute(folder)}"
    elif is_local_model(models):
        folder = str(locate_local_model(model))
    named = msgspec.structs.replace(
        models,
        model=model,
        base_url=_URL_CREDENTIALS.sub("//", models.base_url),
        endpoints=endpoints,
        tokens=None,
        money=None,
    )
    has_folder = settings.ranker not in ("", WORDS)
    recorded = msgspec.structs.replace(
        settings,
        places=tuple(map(_make_absolute, settings.places)),
        engine=Settings().engine if settings.places else settings.engine,
        models=named or Settings().models,
        ranker=_make_absolute(settings.ranker) if has_folder else settings.ranker,
        contact="",  # answers are shown to others
    )
    ranker = _digest_files(settings.ranker) if has_folder else settings.ranker or "bundled"
    return AnswerProvenance(
        __version__, recorded, model=_digest_files(folder) if folder else "", ranker=ranker
    )


def _make_absolute(place: str) -> str:
    """Return a place that means the same wherever the command is given."""
    named = place == BUNDLED_PLACE or is_url(place) or place.startswith(PYTHON_PREFIX)
    return place if named else str(resolve_place_path(place).resolve())


def _format_digest(file: str) -> str:
    """Return the digest of a file's content, to stand behind its name."""
    content = require_regular_file(resolve_place_path(file)).read_bytes()
    return f" ({sha256(content).hexdigest()[:12]})"


def _digest_files(folder: str) -> str:
    """Digest of the names, sizes and times of the files of a folder: weights are too large to
    read for this."""
    place = resolve_place_path(folder)
    files = ((file.relative_to(place), file.stat()) for file in sorted(place.rglob("*")))
    return digest_of("\n".join(f"{name} {at.st_size} {at.st_mtime_ns}" for name, at in files))


class _SavedLine(msgspec.Struct):
    """The fields that are read of a saved line."""

    method: str
    made_with: AnswerProvenance | None = None


def _read_saved_lines(out: Path) -> list[_SavedLine]:
    """Return the provenance of the complete lines of a file of answers; empty if there is no file.

    Raises ValueError where it is another file than one of answers: it is not to be overwritten.
    """
    if not out.is_file():
        return []
    with out.open("rb") as lines:
        whole = [line for line in lines if line.endswith(b"\n")]
    saved = []
    for number, line in enumerate(whole, 1):
        try:
            saved.append(msgspec.json.decode(line, type=prepare_type(_SavedLine)))
        except (msgspec.MsgspecError, ValueError) as error:
            sentence = f"{out}, line {number} is not an answer of rookery ask: name another --out"
            raise ValueError(sentence) from error
    return saved


def _require_same_settings(out: Path, saved: Sequence[_SavedLine], now: AnswerProvenance) -> None:
    """Raise ValueError where an answer was made with other settings than these."""
    for number, line in enumerate(saved, 1):
        if line.made_with:
            differing = _list_differences(line.made_with.settings, now.settings)
        else:
            methods = line.method, now.settings.method
            difference = f"--method {_format_value(methods[0])}, now {_format_value(methods[1])}"
            differing = [] if methods[0] == methods[1] else [difference]
        if differing:
            raise ValueError(
                f"{out}, line {number} was made with other settings ({'; '.join(differing)}): "
                "name another --out, or answer all again with --force"
            )


def _list_differences(before: Settings, now: Settings) -> list[str]:
    """Return the options whose values differ, with both."""
    old, new = _flatten_settings(before), _flatten_settings(now)
    names = [name for name in new if old[name] != new[name]]
    return [
        f"{get_option_name(name)} {_format_value(old[name])}, now {_format_value(new[name])}"
        for name in names
    ]


def _flatten_settings(settings: Settings) -> dict[str, object]:
    """Return all settings by name, with those of the models and of file selection."""
    every = msgspec.structs.asdict(settings)
    parts = every.pop("models"), every.pop("selection")
    return {**every, **msgspec.structs.asdict(parts[0]), **msgspec.structs.asdict(parts[1])}


def _format_value(value: object) -> str:
    if value == SIDES:
        return "--both-sides"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "not given"
    return "not given" if value in (None, "") else str(value)


def _show_changes(saved: Sequence[_SavedLine], now: AnswerProvenance, err: Console) -> None:
    """Tell how many answers are older than the documents, the model, the ranker or Rookery."""
    counted: Counter[str] = Counter()
    for line in saved:
        provenance = line.made_with
        if provenance is None:
            counted["do not say what they were made with, as version 0.1 wrote them"] += 1
            continue
        if provenance.version != now.version:
            counted[f"were made by Rookery {provenance.version}"] += 1
        for what in ("documents", "model", "ranker"):
            if getattr(provenance, what) != getattr(now, what):
                counted[f"were made before the {what} changed"] += 1
    for why, count in counted.items():
        reason = f"{why}; they are kept: --force answers all again"
        print_wrapped(err, f"rookery: {count:,} of the answers that are there already {reason}")


STOP_DESCRIPTIONS = {"end": "answered", Outcome.NO_EVIDENCE: "without evidence"}


class _CountedLine(msgspec.Struct):
    stop: str
    counts: dict[str, int]


class _BatchTally:
    """Counts of how the answers of a file ended, and of quotes that did not verify."""

    def __init__(self) -> None:
        self.stops: Counter[str] = Counter()
        self.unverified = 0

    def add(self, line: str | bytes) -> None:
        """Count one line."""
        answered = msgspec.json.decode(line, type=prepare_type(_CountedLine))
        self.stops[answered.stop] += 1
        self.unverified += answered.counts["quotes"] - answered.counts["verified"]


def _make_worker_answerer(settings: Settings, made_with: AnswerProvenance) -> JsonLineAnswerer:
    """Return the function that answers in a worker process, with a session of its own."""
    return partial(_answer_as_line, AnswerSession(settings), made_with)


def _answer_as_line(session: AnswerSession, made_with: AnswerProvenance, question: Question) -> str:
    episode = session.answer(question)
    answered = make_ask_result(episode, _verify_quotes(session, episode), made_with)
    return msgspec.structs.replace(answered, skipped=session.sources.count_skipped()).to_json()


def _verify_quotes(session: AnswerSession, episode: Episode) -> list[Verdict]:
    """Return each quote against the archive's own copy of its page, not against what answered."""
    if episode.answer is None:
        return []
    return verify_quotes(episode.answer, session.sources.archive.find_quoted)


def _choose_exit_code(episode: Episode, verdicts: Sequence[Verdict]) -> int:
    if any(not verdict.verified for verdict in verdicts):
        return EXIT_UNVERIFIED
    if episode.stop == Outcome.NO_EVIDENCE:
        return EXIT_NO_EVIDENCE
    if episode.answer is None:
        return EXIT_NO_ANSWER
    return EXIT_DECLINED if episode.answer.declined else EXIT_ANSWERED
