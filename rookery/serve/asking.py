"""`rookery ask`: one question to the terminal or as JSON, or a file of questions to a file."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
from rich.console import Console

from rookery import __version__
from rookery.ask.load import asked, questions
from rookery.browse.places import BUNDLED, is_url, path_of
from rookery.browse.selection import SkippedFiles
from rookery.browse.together import contents_digest
from rookery.cite.dense import missing
from rookery.cite.verify import Verdict, verify
from rookery.draft.batch import Answering, answer_all, answer_each, cores
from rookery.draft.sides import BY as SIDES
from rookery.records import Answer, Episode, Failed, Failure, Question, Record, digest_of
from rookery.serve.exits import ANSWERED, DECLINED, NO_ANSWER, NO_EVIDENCE, UNVERIFIED
from rookery.serve.live import Live
from rookery.serve.models import LOCAL, SCRIPT
from rookery.serve.passages import PassageReport, SearchLog, show_passages
from rookery.serve.session import Meter, Session, Settings
from rookery.serve.terminal import (
    StreamConsole,
    as_json,
    clean,
    show_answer,
    show_failures,
    skipped_line,
    summary,
)


class MadeWith(Record, frozen=True, omit_defaults=True):
    """What an answer was made with, so that a file of answers still says it when it is moved."""

    version: str
    """of Rookery"""
    settings: Settings
    """with whole paths, and without what does not change an answer: caps on spending"""
    documents: str = ""
    """digest of the documents; empty for the web, of which that cannot be known"""
    model: str = ""
    """digest of the sizes and times of the files of a model on this machine"""
    ranker: str = ""
    """the same of the encoder that ranks; "installed" for the one that is found by itself"""


class Answered(Record, frozen=True, omit_defaults=True):
    """What `rookery ask --json` prints, and each line of `--batch`."""

    question: Question
    answer: Answer | None
    stop: str
    method: str
    counts: dict[str, int]
    """quotes and how many of them are verified, and how often each failure happened"""
    made_with: MadeWith | None = None
    """None in files that version 0.1 wrote"""
    passages: PassageReport | None = None
    """what was searched and found, with --passages"""
    skipped: tuple[SkippedFiles, ...] = ()
    """files of the folders that were left out, by reason"""
    failures: tuple[Failure, ...] = ()
    """what could not be searched or opened, and why, where no answer could be given"""


def ask(
    settings: Settings, text: str, json: bool, trace: Path | None, passages: bool = False
) -> int:
    """Answer one question on standard output, with `passages` also what was searched and found;
    gives the exit code."""
    question = asked(text)
    out, err = StreamConsole(), StreamConsole(stderr=True)
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        _warn(session, err)
        log = SearchLog(session) if passages else None
        with _waiting(err, session):
            episode = session.answer(question)
        quotes = episode.answer.quotes if episode.answer else ()
        pages = [session.page(quote) for quote in quotes]
        verdicts = _verified(session, episode)
        made_with = _of_one(session) if json else None
        report = log.report(episode) if log else None
        skipped = session.count_skipped()
    if json:
        answered = _answered(episode, verdicts, made_with)
        answered = msgspec.structs.replace(answered, passages=report, skipped=skipped)
        sys.stdout.write(as_json(answered) + "\n")
    else:
        show_answer(out, episode, pages, verdicts)
        if report:
            show_passages(out, report)
        err.print("\n" + summary(episode, verdicts), style="dim", markup=False)
        _tell_skipped(skipped, err)
        if episode.stop != "end":
            show_failures(err, episode.failures)
    if trace is not None:
        with trace.open("a", encoding="utf-8") as lines:
            lines.write(episode.to_json() + "\n")
    return _exit(episode, verdicts)


def _of_one(session: Session) -> MadeWith:
    """What one answer was made with; --offline repeats an answer and is no part of it."""
    made_with = _made_with(msgspec.structs.replace(session.settings, offline=False))
    try:
        documents = contents_digest(session.open_library())
    except Failed:  # which the answer tells
        documents = ""
    return msgspec.structs.replace(made_with, documents=documents)


def _tell_skipped(skipped: Sequence[SkippedFiles], err: Console) -> None:
    if line := skipped_line(skipped):
        err.print(clean(line), style="dim", markup=False, soft_wrap=True)


def _warn(session: Session, err: Console) -> None:
    """Where --decline cannot keep its promise by any threshold. Raises Failed without labels."""
    found = session.calibration()
    if found is not None and found.threshold is None:
        err.print(f"every answer will be declined: {found.reason}", markup=False, soft_wrap=True)


def _waiting(err: Console, session: Session) -> AbstractContextManager[object]:
    """Something that moves while the web is searched or a model writes; folders and sites have a
    bar of their own."""
    settings = session.settings
    near, by_model = settings.places or settings.offline, bool(settings.models)
    if not err.is_interactive or (near and not by_model):
        return nullcontext()
    live = Live(err, "thinking" if near else "searching the web")
    if by_model:
        session.heard, session.tell = live.heard, live.written
    return live


def batch(settings: Settings, questions_file: Path, out: Path, force: bool = False) -> int:
    """Answer every question of a file, on all cores, and go on where an earlier run stopped.

    Each line says what it was made with. Where `out` holds answers that were made with other
    settings, or to other questions, nothing is changed and ValueError is raised; with `force` the
    file is begun anew. Standard output (`-`) is written to and never read. Gives the exit code:
    whether there was evidence for any question, and every quote verified.
    """
    err = StreamConsole(stderr=True)
    wanted = list(questions(questions_file))
    streamed = _is_standard_output(out)
    saved = [] if streamed else _saved(out)
    now = _made_with(settings)
    if not force:
        _require_same(out, saved, now)
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        _warn(session, err)
        # Indexed once, here, before any worker opens it.
        documents = contents_digest(session.open_library())
        now = msgspec.structs.replace(now, documents=documents)
        skipped = session.count_skipped()
        if settings.models:
            session.models().endpoint("write")  # what is misnamed is told before anything is lost
        if force and saved:
            out.write_bytes(b"")
        elif saved:
            _note_changes(saved, now, err)
        try:
            done, tally = _answer_all(session, now, wanted, None if streamed else out, err)
        except BaseException:
            if force:
                err.print("rookery: to go on where this stopped, leave --force out", markup=False)
            raise
    said = ", ".join(f"{n} {WORDED.get(stop, stop)}" for stop, n in sorted(tally.stops.items()))
    _tell_skipped(skipped, err)
    kept = f"; {done} were there already" if done else ""
    err.print(
        f"{len(wanted)} questions: {said or 'nothing to do'}{kept}", style="dim", markup=False
    )
    if tally.unverified:
        err.print(f"rookery: {tally.unverified} quotes NOT VERIFIED", markup=False)
        return UNVERIFIED
    return NO_EVIDENCE if wanted and tally.stops["no_evidence"] == len(wanted) else ANSWERED


def _answer_all(
    session: Session,
    made_with: MadeWith,
    wanted: Sequence[Question],
    out: Path | None,
    err: Console,
) -> "tuple[int, _Tally]":
    """By processes of their own, or, where models are waited for, by threads of one session.

    Gives how many answers were there already, and the tally of all.
    """
    settings, tally = session.settings, _Tally()
    make: Callable[[], Answering] = partial(_answering, settings, made_with)
    at_once, threads = cores(), bool(settings.models)
    if threads:
        make, at_once = (lambda: partial(_line, session, made_with)), session.models().at_once
    with Meter(err, "answering") as meter:
        if out is None:
            with closing(answer_each(wanted, make, at_once, threads)) as lines:
                for number, line in enumerate(lines, 1):
                    sys.stdout.write(line + "\n")
                    sys.stdout.flush()
                    tally.add(line)
                    meter(number, len(wanted))
            return 0, tally

        def progress(done: int) -> None:
            meter(done, len(wanted))

        done = answer_all(wanted, out, make, at_once, progress, threads)
    if out.is_file():  # of a device or a pipe, what went there is gone
        with out.open("rb") as whole:
            for saved in whole:
                tally.add(saved)
    return done, tally


def _is_standard_output(out: Path) -> bool:
    """Tell whether `out` is `-` or another name of standard output, such as /dev/stdout."""
    if str(out) == "-":
        return True
    try:
        return os.path.samestat(out.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file yet, or no file behind standard output
        return False


_SECRET = re.compile(r"//[^/@]*@")
"""a name and a password in an address: answers are shown to others"""


def _made_with(settings: Settings) -> MadeWith:
    """What an answer depends on, but for the documents. Raises OSError for unreadable files."""
    models = settings.models
    endpoints = f"{_whole(models.endpoints)}{_mark(models.endpoints)}" if models.endpoints else ""
    model, folder = models.model, ""
    if model.startswith(SCRIPT):
        script = model.removeprefix(SCRIPT)
        model = f"{SCRIPT}{_whole(script)}{_mark(script)}"
    elif model.startswith(LOCAL):
        folder = model.removeprefix(LOCAL)
        model = f"{LOCAL}{_whole(folder)}"
    named = msgspec.structs.replace(
        models,
        model=model,
        base_url=_SECRET.sub("//", models.base_url),
        endpoints=endpoints,
        tokens=None,
        money=None,
    )
    kept = msgspec.structs.replace(
        settings,
        places=tuple(map(_whole, settings.places)),
        engine=Settings().engine if settings.places else settings.engine,
        models=named or Settings().models,
        ranker=_whole(settings.ranker) if settings.ranker else "",
    )
    ranker = _files_digest(settings.ranker) if settings.ranker else "installed"
    if not settings.ranker and missing():
        ranker = ""
    return MadeWith(__version__, kept, model=_files_digest(folder) if folder else "", ranker=ranker)


def _whole(place: str) -> str:
    """A place that means the same wherever the command is given."""
    return place if place == BUNDLED or is_url(place) else str(path_of(place).resolve())


def _mark(file: str) -> str:
    """The digest of a file's content, to stand behind its name."""
    return f" ({sha256(path_of(file).read_bytes()).hexdigest()[:12]})"


def _files_digest(folder: str) -> str:
    """Digest of the names, sizes and times of the files of a folder: weights are too large to
    read for this."""
    place = path_of(folder)
    files = ((file.relative_to(place), file.stat()) for file in sorted(place.rglob("*")))
    return digest_of("\n".join(f"{name} {at.st_size} {at.st_mtime_ns}" for name, at in files))


class _Saved(msgspec.Struct):
    """What is read of a line that was saved before."""

    method: str
    made_with: MadeWith | None = None


def _saved(out: Path) -> list[_Saved]:
    """What the whole lines of a file of answers were made with; nothing where there is no file.

    Raises ValueError where it is another file than one of answers: it is not to be overwritten.
    """
    if not out.is_file():
        return []
    with out.open("rb") as lines:
        whole = [line for line in lines if line.endswith(b"\n")]
    found = []
    for number, line in enumerate(whole, 1):
        try:
            found.append(msgspec.json.decode(line, type=_Saved))
        except (msgspec.MsgspecError, ValueError) as error:
            sentence = f"{out}, line {number} is not an answer of rookery ask: name another --out"
            raise ValueError(sentence) from error
    return found


def _require_same(out: Path, saved: Sequence[_Saved], now: MadeWith) -> None:
    """Raises ValueError where an answer was made with other settings than these."""
    for number, line in enumerate(saved, 1):
        if line.made_with:
            differing = _differences(line.made_with.settings, now.settings)
        else:
            methods = line.method, now.settings.method
            said = f"--method {_worded(methods[0])}, now {_worded(methods[1])}"
            differing = [] if methods[0] == methods[1] else [said]
        if differing:
            raise ValueError(
                f"{out}, line {number} was made with other settings ({'; '.join(differing)}): "
                "name another --out, or answer all again with --force"
            )


OPTIONS = {"places": "--in", "private": "--allow-private", "samples": "-n"}
"""options that are not called as their setting is"""


def _differences(before: Settings, now: Settings) -> list[str]:
    """The options whose values differ, with both."""
    old, new = _flat(before), _flat(now)
    names = [name for name in new if old[name] != new[name]]
    options = [OPTIONS.get(name, f"--{name.replace('_', '-')}") for name in names]
    return [
        f"{option} {_worded(old[name])}, now {_worded(new[name])}"
        for name, option in zip(names, options, strict=True)
    ]


def _flat(settings: Settings) -> dict[str, object]:
    """Every setting by its name, those of the models and of the files' selection among them."""
    every = msgspec.structs.asdict(settings)
    parts = every.pop("models"), every.pop("selection")
    return {**every, **msgspec.structs.asdict(parts[0]), **msgspec.structs.asdict(parts[1])}


def _worded(value: object) -> str:
    if value == SIDES:
        return "--both-sides"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "not given"
    return "not given" if value in (None, "") else str(value)


def _note_changes(saved: Sequence[_Saved], now: MadeWith, err: Console) -> None:
    """Tell how many answers are older than the documents, the model, the ranker or Rookery."""
    counted: Counter[str] = Counter()
    for line in saved:
        made = line.made_with
        if made is None:
            counted["do not say what they were made with, as version 0.1 wrote them"] += 1
            continue
        if made.version != now.version:
            counted[f"were made by Rookery {made.version}"] += 1
        for what, name in (("documents", "documents"), ("model", "model"), ("ranker", "ranker")):
            if getattr(made, name) != getattr(now, name):
                counted[f"were made before the {what} changed"] += 1
    for why, count in counted.items():
        err.print(
            f"rookery: {count:,} of the answers that are there already {why}; they are kept: "
            "--force answers all again",
            markup=False,
        )


WORDED = {"end": "answered", "no_evidence": "without evidence"}


class _Line(msgspec.Struct):
    stop: str
    counts: dict[str, int]


class _Tally:
    """How the answers of a file ended, and how many of their quotes did not verify."""

    def __init__(self) -> None:
        self.stops: Counter[str] = Counter()
        self.unverified = 0

    def add(self, line: str | bytes) -> None:
        """Count one line."""
        answered = msgspec.json.decode(line, type=_Line)
        self.stops[answered.stop] += 1
        self.unverified += answered.counts["quotes"] - answered.counts["verified"]


def _answering(settings: Settings, made_with: MadeWith) -> Answering:
    """In a worker process: a session of its own, for as long as the process lives."""
    return partial(_line, Session(settings), made_with)


def _line(session: Session, made_with: MadeWith, question: Question) -> str:
    episode = session.answer(question)
    answered = _answered(episode, _verified(session, episode), made_with)
    return msgspec.structs.replace(answered, skipped=session.count_skipped()).to_json()


def _verified(session: Session, episode: Episode) -> list[Verdict]:
    """Each quote against the archive's own copy of its page, not against what answered."""
    if episode.answer is None:
        return []
    return verify(episode.answer, session.archive.find_quoted)


def _answered(
    episode: Episode, verdicts: Sequence[Verdict], made_with: MadeWith | None
) -> Answered:
    good = sum(verdict.verified for verdict in verdicts)
    counts = {"quotes": len(verdicts), "verified": good, **episode.counts()}
    answered = Answered(
        episode.question, episode.answer, episode.stop, episode.by, counts, made_with
    )
    if episode.stop == "end":
        return answered
    return msgspec.structs.replace(answered, failures=episode.failures)


def _exit(episode: Episode, verdicts: Sequence[Verdict]) -> int:
    if any(not verdict.verified for verdict in verdicts):
        return UNVERIFIED
    if episode.stop == "no_evidence":
        return NO_EVIDENCE
    if episode.answer is None:
        return NO_ANSWER
    return DECLINED if episode.answer.declined else ANSWERED
