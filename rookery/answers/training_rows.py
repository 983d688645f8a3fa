"""Comparisons and episodes as rows of TRL and similar libraries, to them and from them.

Preferences are {prompt, chosen, rejected}; supervised fine-tuning is {prompt, completion} or
{messages}. Rows are read from JSON lines, Parquet, and the folders of Hugging Face datasets.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import write_whole_file
from rookery.quotes.citation_syntax import insert_marks
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Completion,
    Episode,
    Failure,
    Question,
    Record,
    Step,
    convert_value,
)
from rookery.typed_files import read_json_lines

T = TypeVar("T")


class PreferenceRow(msgspec.Struct, frozen=True):
    """A row in which one of two completions is preferred."""

    prompt: str
    chosen: str
    rejected: str
    record: str = ""
    """JSON of the Comparison, from which quotes and ids come back; trainers do not look at it"""


class DemonstrationRow(msgspec.Struct, frozen=True):
    """A row with the completion of a prompt."""

    prompt: str
    completion: str
    record: str = ""
    """in the row of an episode's last step, JSON of the Episode without its steps"""
    part: bool = False
    """whether it is a step whose episode ends in a later row"""


TrainingRow = PreferenceRow | DemonstrationRow


class ExportedRows(NamedTuple):
    """Rows, and counts of what these formats cannot hold, by reason."""

    rows: list[TrainingRow]
    left_out: Counter[str]


def format_answer_with_quotes(answer: Answer) -> str:
    """Format an answer with citation numbers behind its claims, and the cited quotes below it.

    Cited quotes are numbered from 1 in the order of the answer's quotes; others are left out.
    """
    cited = sorted({number for claim in answer.claims for number in claim.quotes})
    numbers = {number: place for place, number in enumerate(cited, 1)}

    def format_marks(claim: Claim) -> str:
        """Return the citation numbers of a claim, with a space before them."""
        return " " + "".join(f"[{numbers[each]}]" for each in claim.quotes) if claim.quotes else ""

    quotes = [answer.quotes[number] for number in cited]
    below = [f"[{at}] {quote.title}: {quote.text}" for at, quote in enumerate(quotes, 1)]
    return "\n\n".join([insert_marks(answer, format_marks), *(["\n".join(below)] if below else [])])


def make_preference_rows(comparisons: Iterable[Comparison]) -> ExportedRows:
    """Make a row of every pair of answers with unequal weights, the better one as chosen.

    The prompt is the question's text, and answers are written with their quotes. A comparison of k
    answers gives up to k(k-1)/2 rows, which all count alike. Pairs of equal weight are left out,
    since these formats have neither ties nor degrees, and so are pairs with the same text.
    """
    rows: list[TrainingRow] = []
    left_out: Counter[str] = Counter()
    for comparison in comparisons:
        weighed = list(zip(comparison.answers, comparison.weights, strict=True))
        for (one, score), (other, other_score) in combinations(weighed, 2):
            better, worse = (one, other) if score > other_score else (other, one)
            chosen, rejected = map(format_answer_with_quotes, (better, worse))
            pair = Comparison(comparison.question, (better, worse), (1.0, 0.0), comparison.by)
            row = PreferenceRow(comparison.question.text, chosen, rejected, pair.to_json())
            if score == other_score:
                left_out["pairs of equal weight"] += 1
            elif row.chosen == row.rejected:
                left_out["pairs of answers that read the same"] += 1
            else:
                rows.append(row)
                left_out["weights other than 0 and 1"] += {score, other_score} != {0, 1}
    return ExportedRows(rows, +left_out)


def make_demonstration_rows(episodes: Iterable[Episode]) -> ExportedRows:
    """Make a row of every step of the episodes, with its prompt and completion.

    Steps without a stored prompt are left out and counted.
    """
    rows: list[TrainingRow] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        steps = [step for step in episode.steps if step.prompt]
        left_out["steps whose prompt is not stored"] += len(episode.steps) - len(steps)
        left_out["tokens and log-probabilities of steps"] += sum(
            bool(step.said.tokens) for step in steps
        )
        bare = msgspec.structs.replace(episode, steps=()).to_json()
        for number, step in enumerate(steps, 1):
            last = number == len(steps)
            row = (step.prompt, step.said.text, bare if last else "", not last)
            rows.append(DemonstrationRow(*row))
    return ExportedRows(rows, +left_out)


def write_training_rows(rows: Iterable[TrainingRow | Record], path: Path) -> None:
    """Write rows or records as JSON lines, in place of the file; on failure it stays as it was.

    Raises Failed (not_written).
    """
    try:
        write_whole_file(path, (msgspec.json.encode(row) + b"\n" for row in rows))
    except OSError as error:
        detail = f"make room, or allow writing there, and run again ({error.strerror})"
        raise Failed(Failure(str(path), Outcome.NOT_WRITTEN, detail)) from error


def convert_training_file(source: Path, out: Path, by: str) -> tuple[int, Counter[str]]:
    """Convert a file of comparisons or episodes to training rows, or back, and write it to `out`.

    The fields of the first line tell which of the four kinds it has. `by` becomes the `by` of
    comparisons and episodes that are made of rows. Returns the number of lines written, and counts
    of what the rows cannot hold, by reason. Raises Failed: not_found, bad_line, many_messages,
    not_written, unknown_format.
    """
    first = next(read_rows(source, dict[str, Any]), {})
    left_out: Counter[str] = Counter()
    rows: Sequence[TrainingRow | Record]
    if "weights" in first:
        rows, left_out = make_preference_rows(read_json_lines(source, Comparison))
    elif "steps" in first:
        rows, left_out = make_demonstration_rows(read_json_lines(source, Episode))
    elif "chosen" in first:
        rows = list(read_preference_rows(source, by))
    elif first.keys() & {"completion", "messages"}:
        rows = list(read_demonstration_rows(source, by))
    else:
        detail = (
            "its first line is no comparison, no episode, and no row with `chosen`, `completion` "
            "or `messages`"
        )
        raise Failed(Failure(str(source), Outcome.UNKNOWN_FORMAT, detail))
    write_training_rows(rows, out)
    return len(rows), left_out


_DATASET_FILES = (".arrow", ".parquet")


def list_dataset_files(path: Path) -> list[Path]:
    """Return the data files of a dataset, of its split `train` where it has splits; of any other
    file, the path itself.

    Raises Failed (not_found) for a folder without any.
    """
    if not path.is_dir():
        return [path]
    split = path / "train" if (path / "train").is_dir() else path
    state = split / "state.json"
    if state.is_file():  # beside them may lie what `datasets` has computed
        named = msgspec.json.decode(state.read_bytes())["_data_files"]
        return [split / each["filename"] for each in named]
    kinds = (*_DATASET_FILES, ".jsonl")
    data_files = sorted(file for file in split.rglob("*") if file.suffix in kinds)
    trained = [file for file in data_files if file.name.startswith("train")]
    if data_files:
        return trained or data_files
    detail = "no Arrow, Parquet or JSON lines file is in it: name a folder that save_to_disk wrote"
    raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail))


def read_rows(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the rows of JSON lines, an Arrow or Parquet file, or the folder of a dataset.

    Raises Failed: not_found, bad_line, no_package where pyarrow is missing.
    """
    for file in list_dataset_files(path):
        if file.suffix not in _DATASET_FILES:
            yield from read_json_lines(file, kind)
            continue
        for number, row in enumerate(_read_arrow_rows(file), 1):
            try:
                yield convert_value(row, kind)
            except ValueError as error:
                detail = f"it cannot be read ({error}): take the row out"
                raise Failed(Failure(f"{file}, row {number}", Outcome.BAD_LINE, detail)) from error


def _read_arrow_rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import (  # type: ignore[import-untyped]
            ArrowException,
            ipc,
            parquet,
        )
    except ImportError as error:
        detail = "pyarrow reads such files: pip install pyarrow, or write the rows as JSON lines"
        raise Failed(Failure(str(file), Outcome.NO_PACKAGE, detail)) from error
    try:
        with file.open("rb") as data:
            if file.suffix == ".parquet":
                batches: Any = parquet.ParquetFile(data).iter_batches()
            else:
                batches = ipc.open_stream(data)
            for batch in batches:
                for row in batch.to_pylist():
                    yield {name: value for name, value in row.items() if value is not None}
    except (OSError, ArrowException) as error:
        detail = f"it cannot be read ({error}): write the dataset again"
        raise Failed(Failure(str(file), Outcome.NOT_FOUND, detail)) from error


def describe_rows(path: Path) -> str:
    """Return a clause on what a file has in place of our records; empty for records."""
    first = next(read_rows(path, dict[str, Any]), {})
    if not first.keys() & {"chosen", "completion", "messages"}:
        return ""
    names = ("prompt", "chosen", "rejected", "completion", "messages")
    columns = ", ".join(name for name in names if name in first)
    others = ", ".join(sorted(first.keys() - set(names) - {"record", "part"}))
    ignored = f"; not read: {others}" if others else ""
    quoteless = "" if first.get("record") else "; they are texts, without quotes"
    return f"rows ({columns}) of {path}{quoteless}{ignored}"


class _Message(msgspec.Struct):
    content: str
    role: str = ""


_Text = str | list[_Message]
_TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):")
"""where a turn of a conversation begins that is written as one text (Bai and others 2022)"""


class _PreferenceLine(msgspec.Struct):
    chosen: _Text
    rejected: _Text
    prompt: _Text | None = None
    record: str = ""


class _DemonstrationLine(msgspec.Struct):
    prompt: _Text = ""
    completion: _Text = ""
    messages: list[_Message] = []
    record: str = ""
    part: bool = False

    def __post_init__(self) -> None:
        if not self.messages and not (self.prompt and self.completion):
            raise ValueError("it needs `prompt` and `completion`, or `messages`")


def read_preference_rows(path: Path, by: str) -> Iterator[Comparison]:
    """Yield each {prompt, chosen, rejected} as a comparison that prefers the first of two answers.

    The answers have no quotes, unless the row has a record whose texts it still has. A value is a
    text or a conversation. Messages that `chosen` and
    `rejected` both begin with are the prompt, and one follows in each; so it is with texts whose
    turns begin with "Human:" and "Assistant:", where there is no `prompt`. Other columns are
    ignored. Raises Failed: not_found, bad_line (also for a row without a prompt), many_messages.
    """
    for number, row in enumerate(read_rows(path, _PreferenceLine), 1):
        if row.record:
            recorded = Comparison.from_json(row.record)
            texts = [format_answer_with_quotes(each) for each in recorded.answers]
            if [recorded.question.text, *texts] == [row.prompt, row.chosen, row.rejected]:
                yield recorded
                continue
        pair = [_list_messages(each, not row.prompt) for each in (row.chosen, row.rejected)]
        turns = zip(pair[0][:-1], pair[1][:-1], strict=False)
        shared = sum(1 for _ in takewhile(lambda turn: turn[0] == turn[1], turns))
        prompt = _join_messages(pair[0][:shared] or row.prompt or "")
        if not prompt:
            detail = (
                f"row {number} has no prompt: add `prompt`, or write `chosen` and `rejected` as "
                "conversations that begin with it"
            )
            raise Failed(Failure(str(path), Outcome.BAD_LINE, detail))
        chosen, rejected = (_extract_text(each[shared:], path, number) for each in pair)
        question = Question(str(number), prompt, source=path.name)
        yield Comparison(question, (Answer(chosen), Answer(rejected)), (1.0, 0.0), by)


def read_demonstration_rows(path: Path, by: str) -> Iterator[Episode]:
    """Yield each {prompt, completion} as an episode of one step whose answer is the completion.

    A value is a text or a conversation, which is one message in `completion`. Of `messages`, each
    of the assistant's is a step, whose prompt is all before it. Rows that were made of an episode
    become that one again. Other columns are ignored. Raises Failed: not_found, bad_line,
    many_messages.
    """
    before: list[Step] = []
    for number, row in enumerate(read_rows(path, _DemonstrationLine), 1):
        pairs: list[tuple[_Text, str]] = [
            (row.messages[:at], each.content)
            for at, each in enumerate(row.messages)
            if at and each.role == "assistant"
        ]
        if not row.messages:
            pairs = [(row.prompt, _extract_text(row.completion, path, number))]
        steps = [Step(_join_messages(prompt), Completion(text)) for prompt, text in pairs]
        if row.part:
            before += steps
        elif row.record:
            yield msgspec.structs.replace(Episode.from_json(row.record), steps=(*before, *steps))
            before = []
        elif steps:
            question = Question(str(number), steps[0].prompt, source=path.name)
            yield Episode(question, by, tuple(steps), Answer(steps[-1].said.text))


def _list_messages(value: _Text, as_turns: bool) -> list[_Message]:
    """Return a conversation; a text is one message or, `as_turns`, the turns that are written in
    it."""
    if not isinstance(value, str):
        return value
    before, *parts = _TURN.split(value) if as_turns else [value]
    if before.strip() or not parts:
        return [_Message(value)]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [_Message(text.strip(), role) for role, text in pairs]


def _join_messages(value: _Text) -> str:
    """Return the text of a prompt; several messages have their roles before them."""
    if isinstance(value, str):
        return value
    if len(value) == 1:
        return value[0].content
    return "\n\n".join(": ".join(filter(None, (each.role, each.content))) for each in value)


def _extract_text(value: _Text, path: Path, number: int) -> str:
    if isinstance(value, str):
        return value
    if len(value) != 1:
        detail = (
            f"row {number} has a conversation of {len(value)} messages where one is read: write "
            "those before the last one as its prompt"
        )
        raise Failed(Failure(str(path), Outcome.MANY_MESSAGES, detail))
    return value[0].content
