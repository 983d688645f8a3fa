"""`rookery ask --model path:DIR`: a model on this machine, held to quotes or as it is."""

import json
import shutil
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run

from rookery.learn.random_models import write_tiny_model
from rookery.library.libraries import get_bundled_folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose tokens are those of the bundled pages."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    pages = [page.read_text("utf-8") for page in sorted(get_bundled_folder().glob("*.html"))[:3]]
    write_tiny_model(folder, pages, 600)
    return folder


def ask_model(run: Run, method: str, folder: Path, *more: str) -> tuple[int, dict[str, object]]:
    by_model = ("--json", "--method", method, "--model", f"path:{folder}")
    result = run("ask", GIFTS, *CORVIDS, *by_model, *more)
    assert "Traceback" not in result.err
    return result.code, json.loads(result.out)


@pytest.mark.slow
def test_even_a_random_model_quotes_word_for_word_and_is_repeated(run: Run, tiny: Path) -> None:
    by_words = ("-n", "4", "--ranker", "words")  # the evidence model would refuse what it says
    live = ask_model(run, "gophercite", tiny, *by_words)
    code, found = live
    assert (code, found["stop"]) == (0, "end")
    assert found["counts"]["verified"] == found["counts"]["quotes"] == 1  # type: ignore[index]
    assert ask_model(run, "gophercite", tiny, *by_words, "--offline") == live


@pytest.mark.slow
def test_what_a_random_model_says_is_taken_out_and_the_quotes_are_given(
    run: Run, tiny: Path
) -> None:
    code, found = ask_model(run, "webglm", tiny)
    assert (code, found["method"], found["stop"]) == (0, "extract", "end")
    assert found["counts"]["not_written"] == 1  # type: ignore[index]
    assert ask_model(run, "webglm", tiny, "--offline") == (code, found)
    plain = run("ask", GIFTS, *CORVIDS, "--json")
    assert found["answer"] == json.loads(plain.out)["answer"]


@pytest.mark.slow
def test_write_asks_a_model_that_was_added_and_declines_as_extract_does(
    run: Run, tiny: Path
) -> None:
    none = run("ask", GIFTS, *CORVIDS, "--write")
    assert (none.code, "rookery models add smollm2" in none.err) == (2, True)
    assert run("models", "add", tiny, "--as", "other").code == 0
    assert run("models", "add", tiny, "--as", "smollm2").code == 0
    made = json.loads(run("ask", GIFTS, *CORVIDS, "--write", "--json").out)
    assert made["made_with"]["settings"]["models"]["model"] == "smollm2"
    assert made["made_with"]["settings"]["method"] == "webglm"
    named = run("ask", GIFTS, *CORVIDS, "--write", "--json", "--model", "other")
    assert json.loads(named.out)["made_with"]["settings"]["models"]["model"] == "other"
    shown = run("ask", GIFTS, *CORVIDS, "--write")
    assert "answer quoted, as the model wrote none that is supported" in shown.err
    foreign = "Which minister of finance signed the treaty of Tordesillas?"
    ways = [run("ask", foreign, *CORVIDS, *how) for how in ((), ("--write",))]
    assert [each.code for each in ways] == [3, 3]
    assert ways[0].out == ways[1].out
    by_model = ("--method", "webglm", "--model", "other")
    refused = run("calibrate", "answers.jsonl", *by_model)
    assert (refused.code, "with --in PATH_OR_URL" in refused.err) == (2, True)
    strict = run("ask", GIFTS, *CORVIDS, "--write", "--decline", "0.999")
    assert (strict.code, "No passage reached 0.999" in strict.out) == (3, True)
    for wrong in (("--method", "gophercite"), ("--base-url", "http://a/v1"), ("--both-sides",)):
        result = run("ask", GIFTS, *CORVIDS, "--write", *wrong)
        assert (result.code, "leave out --method" in result.err) == (2, True)
    assert [run("models", "remove", name).code for name in ("other", "smollm2")] == [0, 0]


@pytest.mark.slow
def test_a_folder_that_is_no_model_is_a_sentence(run: Run, tiny: Path, tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "no", "there is no such folder"), (tmp_path, "lacks")):
        result = run("ask", GIFTS, *CORVIDS, "--method", "webglm", "--model", f"path:{folder}")
        assert (result.code, said in result.err) == (2, True)


@pytest.mark.slow
def test_a_model_is_added_listed_asked_by_name_and_removed(
    run: Run, tiny: Path, tmp_path: Path
) -> None:
    assert run("models", "list").out == "no models: rookery models add smollm2\n"
    added = run("models", "add", tiny, "--as", "small")
    assert (added.code, "try it: rookery doctor --model small" in added.out) == (0, True)
    [listed] = json.loads(run("models", "list", "--json").out)["models"]
    assert (listed["name"], listed["origin"]) == ("small", f"folder {tiny}")
    shown = run("models", "list").out
    assert all(listed[field] in shown for field in ("name", "origin", "licence", "digest"))
    assert run("models", "add", tiny, "--as", "small").code == 2
    broken = shutil.copytree(tiny, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    refused = run("models", "add", broken)
    assert (refused.code, refused.err.startswith(f"rookery: {broken}: it cannot be")) == (2, True)
    by_name = ("--write", "--model", "small")
    live = run("ask", GIFTS, *CORVIDS, "--json", *by_name)
    found = json.loads(live.out)
    assert (live.code, found["counts"]["verified"]) == (0, found["counts"]["quotes"])
    settings = found["made_with"]["settings"]["models"]
    assert (settings["model"], bool(found["made_with"]["model"])) == ("small", True)
    assert run("ask", GIFTS, *CORVIDS, "--json", *by_name, "--offline").out == live.out
    assert "small answers with log-probabilities" in run("doctor", "--model", "small").out
    removed = run("models", "remove", "small")
    assert (removed.code, removed.out.startswith("removed small\nfreed ")) == (0, True)
    gone = run("ask", GIFTS, *CORVIDS, *by_name)
    assert (gone.code, "rookery models list" in gone.err) == (2, True)
    assert run("models", "remove", "small").code == 2
    assert "no model of this name was added" in run("doctor", "--model", "small").out


@pytest.mark.slow
def test_weights_that_changed_since_they_were_added_are_noticed(
    run: Run, home: Path, tiny: Path
) -> None:
    assert run("models", "add", tiny).code == 0
    weights = home / "data" / "rookery" / "models" / tiny.name / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    result = run("doctor", "--model", tiny.name)
    assert (result.code, "not those that were added" in result.out) == (4, True)
    weights.write_bytes((tiny / "model.safetensors").read_bytes())
    (weights.parent / "config.json").write_text("{")
    result = run("doctor", "--model", tiny.name)
    assert (result.code, "failed    bad_model: " in result.out) == (4, True)
    assert run("models", "remove", tiny.name).code == 0


def prompted(run: Run, folder: Path, *more: str | Path) -> list[dict[str, object]]:
    """The completions of an answer by webglm, which stand in the trace."""
    trace = folder / "trace.jsonl"
    trace.unlink(missing_ok=True)
    result = run("ask", GIFTS, *CORVIDS, "--method", "webglm", "--trace", trace, *more)
    assert "Traceback" not in result.err
    return [step["said"] for step in json.loads(trace.read_text())["steps"]]


@pytest.mark.slow
def test_sampling_is_set_by_options_and_by_a_table(run: Run, tiny: Path, tmp_path: Path) -> None:
    by_model = ("--model", f"path:{tiny}")
    [short] = prompted(run, tmp_path, *by_model, "--max-tokens", "7", "--temperature", "0")
    assert (len(short["tokens"]), short["stop"]) == (7, "length")  # type: ignore[arg-type]
    again = prompted(run, tmp_path, *by_model, "--max-tokens", "7", "--temperature", "0")
    assert [short] == again
    by_message = ("--max-tokens", "7", "--temperature", "0", "--chat")
    assert prompted(run, tmp_path, *by_model, *by_message)[0]["tokens"] != short["tokens"]
    (tmp_path / "e.toml").write_text(
        f'[write]\nmodel = "path:{tiny}"\nmax_tokens = 7\ntemperature = 0\nchat = false\n'
    )
    by_table = ("--endpoints", tmp_path / "e.toml")
    assert prompted(run, tmp_path, *by_table) == [short]
    assert len(prompted(run, tmp_path, *by_table, "--max-tokens", "3")[0]["tokens"]) == 3  # type: ignore[arg-type]
    text = str(short["text"])
    cut = prompted(run, tmp_path, *by_table, "--stop", text[2])[0]
    assert cut["text"] == text[: text.find(text[2])]
    for wrong, said in (
        (("--dtype", "int3"), "dtype"),
        (("--top-p", "0"), "--top-p must be"),
    ):
        result = run("ask", GIFTS, *CORVIDS, "--method", "webglm", *by_model, *wrong)
        assert (result.code, said in result.err) == (2, True)


@pytest.mark.slow
def test_caps_hold_for_a_model_on_this_machine(run: Run, tiny: Path, tmp_path: Path) -> None:
    code, found = ask_model(run, "webglm", tiny, "--cap-tokens", "100")
    assert (code, found["stop"], found["counts"]["spending_cap"]) == (6, "policy_failed", 1)  # type: ignore[index]
    (tmp_path / "e.toml").write_text(
        f'[write]\nmodel = "path:{tiny}"\nmax_tokens = 50\nprice_out = 1000.0\n'
    )
    by_table = ("--json", "--method", "webglm", "--endpoints", tmp_path / "e.toml")
    result = run("ask", GIFTS, *CORVIDS, *by_table, "--cap-money", "0.04")
    assert (result.code, json.loads(result.out)["counts"]["spending_cap"]) == (6, 1)
    enough = run("ask", GIFTS, *CORVIDS, *by_table, "--cap-money", "0.06")
    assert "spending_cap" not in json.loads(enough.out)["counts"]
