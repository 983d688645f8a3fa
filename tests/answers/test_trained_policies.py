"""Policies that `rookery learn` trained answer with their prompts, constraint and method."""

import re
from pathlib import Path

import msgspec
import pytest

from rookery.answers.answer_session import AnswerSession
from rookery.answers.best_of_n import parse_draft, render_prompt
from rookery.answers.methods import choose_default_method
from rookery.answers.trained_policies import (
    POLICY_FILE,
    TrainedPolicy,
    find_prompt_kind,
    read_trained_policy,
)
from rookery.browser.browser_commands import BrowserRules
from rookery.errors import Failed
from rookery.learn.random_models import write_tiny_model
from rookery.quotes.citation_syntax import CitationSyntaxError, UnsupportedAnswerError
from rookery.records import Answer, Question
from rookery.settings import LocalModelSettings, ModelSettings, Settings

QUOTES = TrainedPolicy("quotes", LocalModelSettings(max_tokens=40))


def store(folder: Path, trained: TrainedPolicy) -> ModelSettings:
    folder.mkdir(exist_ok=True)
    (folder / POLICY_FILE).write_bytes(msgspec.json.encode(trained))
    return ModelSettings(model=f"path:{folder}")


def test_what_was_stored_is_read_back(tmp_path: Path) -> None:
    assert read_trained_policy(tmp_path) is None
    trained = TrainedPolicy(
        "browser", LocalModelSettings(chat=False), True, BrowserRules(window=150)
    )
    store(tmp_path, trained)
    assert read_trained_policy(tmp_path) == trained
    (tmp_path / POLICY_FILE).write_text('{"kind": "songs"}')
    with pytest.raises(Failed, match=r"bad_model: .*train it again, or delete the file"):
        read_trained_policy(tmp_path)


@pytest.mark.parametrize(
    ("kind", "method"), [("browser", "webgpt"), ("quotes", "gophercite"), ("references", "webglm")]
)
def test_the_method_is_that_of_the_training(tmp_path: Path, kind: str, method: str) -> None:
    models = store(tmp_path, msgspec.structs.replace(QUOTES, kind=kind))
    assert choose_default_method(models) == method
    assert choose_default_method(ModelSettings(model=f"path:{tmp_path / 'none'}")) == "extract"
    for named in ("webgpt", "gophercite", "webglm"):
        with AnswerSession(Settings(method=named, models=models)) as session:
            assert (session.find_trained_policy() is not None) == (named == method)


def test_prompts_tell_their_kind() -> None:
    shown = {"question": "Why?"}
    assert find_prompt_kind(render_prompt("gophercite", pages="Page: A\nB\n", **shown)) == "quotes"
    references = render_prompt("webglm", references="Reference [1]: B", **shown)
    assert find_prompt_kind(references) == "references"
    assert find_prompt_kind("Why?") is None
    assert find_prompt_kind("") == "browser"


def test_what_is_not_supported_is_not_called_bad_syntax() -> None:
    def read(text: str) -> Answer:
        raise (UnsupportedAnswerError if text == "alone" else CitationSyntaxError)("why")

    assert parse_draft("alone", read) == (None, "why", "unsupported")
    assert parse_draft("broken", read) == (None, "why", "bad_syntax")


@pytest.mark.slow
def test_a_trained_policy_answers_with_its_own_prompt_and_quotes(
    tmp_path: Path, home: Path
) -> None:
    """A model of random weights is held to a page, and its quotes stay as it wrote them."""
    write_tiny_model(tmp_path / "tiny", ["Crows bring gifts to people who feed them."] * 9)
    models = msgspec.structs.replace(store(tmp_path / "tiny", QUOTES), samples=2)
    settings = Settings(("rookery:corvids",), method="gophercite", models=models)
    with AnswerSession(settings) as session:
        episode = session.answer(Question("1", "Why do crows bring gifts?"))
    [step] = episode.steps
    assert "Question: Why do crows bring gifts?" in step.prompt
    assert episode.answer is not None
    [quote] = episode.answer.quotes
    written = re.findall(r"%\[(.*)\]%", step.said.text)[0].strip()
    assert written in quote.text
    assert len(quote.text) < len(written) + 30  # whole words, not the whole sentence
    assert len(step.said.tokens) <= 40
