"""`rookery browse`, `cite verify` and `doctor` as a stranger meets them."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from commands import CORVIDS, ESCAPE, GIFTS, NOWHERE, Run
from stage import Stage

from rookery.cli.doctor_command import DiagnosticResult
from rookery.library.libraries import get_bundled_folder
from rookery.quotes.verification import ClaimedVerdict
from rookery.records import Page, Quote

# Pages


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["faces.html", "lifespan.htm", "glossary.xhtml", "field-report.pdf", "crow-checklist.txt",
     "howto-observe.md", "visitor-guide.docx"],
)  # fmt: skip
def test_browse_prints_every_type_of_file(run: Run, name: str) -> None:
    file = get_bundled_folder() / name
    code, plain, err = run("browse", file)
    full = run("browse", file, "--full").out
    page = Page.from_json(run("browse", file, "--json").out)
    assert (code, err) == (0, "")
    assert page.url == file.resolve().as_uri()
    for block in page.iter_article():
        assert page.text[block.start : block.end] in plain
    for block in page.iter_shown():
        assert page.text[block.start : block.end] in full


@pytest.mark.slow
def test_browse_reads_standard_input_and_the_links_that_answers_show(run: Run) -> None:
    file = get_bundled_folder() / "faces.html"
    said = run("browse", file).out
    assert run("browse", f"{file.as_uri()}#:~:text=a%20crow").out == said
    assert run("browse", "-", typed=file.read_text("utf-8")).out == said


def test_browse_opens_an_address(run: Run, web: Stage) -> None:
    url = f"{web.base}/birds/crows.html"
    assert "--allow-private" in run("browse", url).err
    code, out, _ = run("browse", url, "--allow-private")
    assert code == 0
    assert out.startswith("Crows play with sticks. The wind")
    gone = run("browse", f"{web.base}/gone.html", "--allow-private")
    assert gone.code == 4
    assert "404" in gone.err


@pytest.mark.slow
def test_no_escape_sequence_of_a_page_reaches_the_terminal(run: Run, tmp_path: Path) -> None:
    evil = f"{ESCAPE}]0;owned\x07{ESCAPE}[31m\x9b2J\u202e"
    (tmp_path / "evil.txt").write_text(f"Title {evil}\n\nJays bury {evil} acorns in September.\n")
    shown = [
        run("browse", tmp_path / "evil.txt"),
        run("browse", tmp_path / "evil.txt", "--json"),
        run("ask", "What do jays bury in September?", "--in", tmp_path, "--decline", "0"),
        run("ask", "What do jays bury in September?", "--in", tmp_path, "--decline", "0", "--json"),
        run("ask", f"What {evil} is buried?", "--in", tmp_path, "--decline", "1"),
        run("ask", "What?", "--in", f"no {evil} folder"),
    ]
    (tmp_path / "answer.json").write_text(shown[3].out.replace("September.", "Septembre."))
    shown.append(run("cite", "verify", tmp_path / "answer.json"))
    assert [result.code for result in shown] == [0, 0, 0, 0, 3, 2, 5]
    for result in shown:
        assert not {ESCAPE, "\x07", "\x9b"} & set(result.out + result.err)
    assert "\u202e" not in shown[2].out


# Checking


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    file = tmp_path / "answer.json"
    file.write_text(run("ask", GIFTS, *CORVIDS, "--json", "--ranker", "words").out, "utf-8")
    return file


def changed(file: Path, number: int, **fields: object) -> Quote:
    """Writes the saved answer again with these fields of one quote changed."""
    whole = json.loads(file.read_text("utf-8"))
    whole["answer"]["quotes"][number] |= fields
    file.write_text(json.dumps(whole), "utf-8")
    return msgspec.convert(whole["answer"]["quotes"][number], Quote)


@pytest.mark.slow
def test_a_saved_answer_verifies(run: Run, saved: Path) -> None:
    code, out, err = run("cite", "verify", saved)
    assert (code, out.count("\n")) == (0, 3)
    assert all(line.startswith("verified ") for line in out.splitlines())
    assert "3 of 3 quotes verified" in err
    assert run("cite", "verify", "-", typed=saved.read_text("utf-8")).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"start": 0}, "text_differs"),
        ({"url": "https://example.org/gone"}, "wrong_source"),
        ({"title": "The Times"}, "wrong_source"),
        ({"end": 10_000_000}, "out_of_range"),
        ({"digest": "0" * 32}, "digest_differs"),
        ({"digest": "0" * 32, "url": "https://example.org/gone"}, "page_missing"),
    ],
)
def test_a_changed_quote_is_named_with_exit_5(
    run: Run, saved: Path, change: dict[str, object], outcome: str
) -> None:
    quote = changed(saved, 1, **change)
    code, out, err = run("cite", "verify", saved)
    assert code == 5
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["verified", outcome]
    assert quote.text[:40] in lines[1]
    assert quote.url in lines[2]
    assert "2 of 3 quotes verified" in err
    verdicts = [
        json.loads(line) for line in run("cite", "verify", saved, "--json").out.splitlines()
    ]
    assert [verdict["outcome"] for verdict in verdicts] == ["verified", outcome, "verified"]


@pytest.mark.slow
def test_an_answer_is_checked_against_given_documents(
    run: Run, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    assert run("cite", "verify", saved).code == 5
    assert run("cite", "verify", saved, "--pages", get_bundled_folder()).code == 0


TRUE = "Crows most likely bring gifts to people because they have learned"
FALSE = "Crows never bring gifts to people because they have learned"
SOURCE = (get_bundled_folder() / "gifts-from-crows.html").as_uri()


def openai(quoted: str) -> str:
    text = f"It is said that “{quoted}”. (example.org)"
    place = {"start_index": text.index("(ex"), "end_index": len(text), "title": "Gifts"}
    cited = {"type": "url_citation", "url": SOURCE, **place}
    part = {"type": "output_text", "text": text, "annotations": [cited]}
    return json.dumps({"output": [{"type": "message", "role": "assistant", "content": [part]}]})


def anthropic(quoted: str) -> str:
    kind = "web_search_result_location"
    cited = {"type": kind, "url": SOURCE, "title": "Gifts", "cited_text": quoted}
    part = {"type": "text", "text": "They have learned it.", "citations": [cited]}
    return json.dumps({"role": "assistant", "content": [part]})


def markdown(quoted: str) -> str:
    return f"# Gifts\n\nOne page says: “{quoted}” [1].\n\n[1]: {SOURCE}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "name"),
    [(openai, "openai.json"), (anthropic, "anthropic.json"), (markdown, "answer.md")],
)
def test_answers_of_other_tools_are_checked(
    run: Run, tmp_path: Path, write: Callable[[str], str], name: str
) -> None:
    file = tmp_path / name
    file.write_text(write(TRUE), "utf-8")
    good = run("cite", "verify", file, "--pages", get_bundled_folder())
    assert (good.code, good.out.split()[0]) == (0, "verified")
    file.write_text(write(FALSE), "utf-8")
    code, out, err = run("cite", "verify", file, "--pages", get_bundled_folder())
    assert (code, out.split()[0]) == (5, "not_found")
    assert FALSE[:30] in out
    assert SOURCE in out
    assert "0 of 1 quote verified" in err
    line = run("cite", "verify", file, "--pages", get_bundled_folder(), "--json").out
    assert ClaimedVerdict.from_json(line).claimed.text == FALSE
    file.write_text(write(FALSE).replace(SOURCE, "https://example.org/gifts.html"), "utf-8")
    unknown = run("cite", "verify", file)
    assert (unknown.code, unknown.out.split()[0]) == (5, "page_missing")


NOTHING_TO_CHECK = {
    "notes.md": "Nothing is quoted here.",
    "cited.md": "They use tools ([a](https://a.example/crows)).",
    "none.json": '{"question": {"id": "1", "text": "Who?"}, "answer": null, "stop": "no_evidence"}',
    "bare.json": '{"text": "The moon is made of cheese.", "quotes": []}',
    "gemini.json": '{"candidates": [{"content": {"parts": [{"text": "The moon is cheese."}]}}]}',
}


@pytest.mark.parametrize("name", NOTHING_TO_CHECK)
def test_where_nothing_was_checked_the_exit_code_says_so(
    run: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(NOTHING_TO_CHECK[name])
    code, _, err = run("cite", "verify", tmp_path / name)
    assert code == 4
    assert "nothing was checked" in err


# The doctor


@pytest.mark.slow
def test_the_doctor_finds_all_well(run: Run, web: Stage) -> None:
    engine = ("--engine", f"searxng:{web.base}", "--allow-private")
    code, out, _ = run("doctor", *engine)
    assert code == 0
    assert [
        line.split()[0] for line in out.splitlines()
    ] == "store index extract search render serve model ranker".split()
    assert "answers with 2 results" in out
    lines = run("doctor", *engine, "--json").out.splitlines()
    found = {each.what: each.state for each in map(DiagnosticResult.from_json, lines)}
    assert [found[name] for name in "store index extract search".split()] == ["ok"] * 4
    assert found["model"] == "optional"


@pytest.mark.slow
def test_the_doctor_names_what_failed(run: Run) -> None:
    code, out, _ = run("doctor", "--engine", NOWHERE, "--allow-private")
    assert code == 4
    [search] = [line for line in out.splitlines() if line.startswith("search")]
    assert search.split()[1] == "failed"
    assert "--in" in search
