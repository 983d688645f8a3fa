"""`rookery ask --model path:DIR`: a model on this machine, held to quotes or as it is."""

import json
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run

from rookery.browse.libraries import get_bundled_folder
from rookery.learn.random_models import write_tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose tokens are those of the bundled pages."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    pages = [page.read_text("utf-8") for page in sorted(get_bundled_folder().glob("*.html"))[:3]]
    write_tiny_model(folder, pages, 600)
    return folder


def asked(run: Run, method: str, folder: Path, *more: str) -> tuple[int, dict[str, object]]:
    by_model = ("--json", "--method", method, "--model", f"path:{folder}")
    result = run("ask", GIFTS, *CORVIDS, *by_model, *more)
    assert "Traceback" not in result.err
    return result.code, json.loads(result.out)


@pytest.mark.slow
def test_even_a_random_model_quotes_word_for_word_and_is_repeated(run: Run, tiny: Path) -> None:
    live = asked(run, "gophercite", tiny, "-n", "4")
    code, found = live
    assert (code, found["stop"]) == (0, "end")
    assert found["counts"]["verified"] == found["counts"]["quotes"] == 1  # type: ignore[index]
    assert asked(run, "gophercite", tiny, "-n", "4", "--offline") == live


@pytest.mark.slow
def test_what_a_random_model_says_is_no_answer_and_says_why(run: Run, tiny: Path) -> None:
    code, found = asked(run, "webglm", tiny)
    assert (code, found["answer"], found["stop"]) == (6, None, "bad_syntax")


@pytest.mark.slow
def test_a_folder_that_is_no_model_is_a_sentence(run: Run, tiny: Path, tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "no", "there is no such folder"), (tmp_path, "lacks")):
        result = run("ask", GIFTS, *CORVIDS, "--method", "webglm", "--model", f"path:{folder}")
        assert (result.code, said in result.err) == (2, True)
