"""The command `rookery cite report`: saved answers as one report with its sources."""

import time
from collections.abc import Iterator
from pathlib import Path

from rookery.answers.answer_results import AskResult
from rookery.answers.answer_session import EvidenceSources
from rookery.quotes.saved_answers import SavedAnswer
from rookery.quotes.verification import Verdict
from rookery.records import Episode, Failure
from rookery.settings import Settings
from rookery.shell.answer_export import (
    REPORT_TYPES,
    ExportedAnswer,
    ExportedReport,
    render_report,
    summarize_report,
)
from rookery.shell.answer_verification import (
    CheckedSources,
    DocumentLookup,
    check_own,
    choose_exit_code,
    read_saved_file,
    summarize_verdicts,
)
from rookery.shell.terminal_output import StreamConsole, show_failures, show_verdict


def run_report_command(file: Path, out: Path, title: str, pages: Path | None) -> int:
    """Write the saved answers of `file` as the report `out` and return the exit code.

    Each quote is checked again, against the archive and the folder `pages`, and so are the
    quotations typed in the text; those that fail or are not checked are named. Raises ValueError
    for a file that holds no answers of `rookery ask --json`, and for `out` of no known kind or that
    is there already.
    """
    kind = out.suffix.lower().removeprefix(".")
    if kind not in REPORT_TYPES:
        raise ValueError(f"--out {out}: name a file that ends with .html, .md or .docx")
    if out.exists():
        raise ValueError(f"--out {out}: there is such a file already; name another")
    results = list(_parse_results(read_saved_file(file), file.name))
    documents, err = DocumentLookup(pages), StreamConsole(stderr=True)
    show_failures(err, documents.unread)
    with EvidenceSources(Settings()) as opened:
        sources = CheckedSources(documents, opened, False, file.absolute().parent)
        answers = [_check_result(result, sources, n) for n, result in enumerate(results, 1)]
    title = title or f"{len(answers)} question{'s' * (len(answers) != 1)}"
    report = ExportedReport(title, answers, time.strftime("%Y-%m-%d"))
    with out.open("xb") as written:
        written.write(render_report(report, kind))
    err.print_note(summarize_report(report))
    notes = [n for each in answers for n in each.notes if n.outcome != "not_judged"]
    for note in notes:
        if note.outcome != "verified":
            show_verdict(err, note)
    if notes:
        err.print_note(f"typed in the answers: {summarize_verdicts(notes)}")
    return choose_exit_code([n for each in answers for n in (*each.verdicts, *each.notes)])


def _parse_results(data: bytes, name: str) -> Iterator[AskResult]:
    lines = [(n, line) for n, line in enumerate(data.splitlines(), 1) if line.strip()]
    if not lines:
        raise ValueError(f"{name}: there is no answer in it")
    for number, line in lines:
        try:
            yield AskResult.from_json(line)
        except ValueError as error:
            raise ValueError(
                f"{name}, line {number}: not an answer of rookery ask --json or --batch ({error})"
            ) from error


def _check_result(result: AskResult, sources: CheckedSources, number: int) -> ExportedAnswer:
    stored = [sources.find_version(each) for each in result.answer.quotes] if result.answer else []
    checked = list(check_own(SavedAnswer(result.answer, result.method), sources, number))
    verdicts = [each for each in checked if isinstance(each, Verdict)]
    notes = [each for each in checked if not isinstance(each, Verdict)]
    counted = {k: n for k, n in result.counts.items() if k not in ("quotes", "verified")}
    failures = tuple(Failure("", outcome) for outcome, n in counted.items() for _ in range(n))
    episode = Episode(result.question, result.method, (), result.answer, result.stop, failures)
    return ExportedAnswer(episode, verdicts, stored, "", notes=notes)
