"""Symbolic links that lead out of a folder: told, and followed only where that is asked for."""

import json
from pathlib import Path

import pytest
from commands import Run, batch_file

QUESTION = "What does the magpie keep?"
SECRET = "The magpie keeps a silver spoon under the third stone."
SAID = "behind links that lead out of the folder (secret.txt)"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with a file, and with a link to a file elsewhere."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "jays.txt").write_text("Jays bury acorns in the moss.")
    (tmp_path / "elsewhere.txt").write_text(SECRET)
    (folder / "secret.txt").symlink_to(tmp_path / "elsewhere.txt")
    return folder


def test_asking_quotes_nothing_behind_a_link_and_tells_so(run: Run, docs: Path) -> None:
    passed = run("ask", QUESTION, "--in", docs)
    assert passed.code == 3
    assert "spoon" not in passed.out
    assert f"left out: 1 {SAID}" in passed.err
    told = json.loads(run("ask", QUESTION, "--in", docs, "--json").out)["skipped"]
    assert told == [{"reason": "leads_out", "count": 1, "examples": [str(docs / "secret.txt")]}]
    followed = run("ask", QUESTION, "--in", docs, "--follow-links")
    assert followed.code == 0
    assert SECRET in followed.out
    assert run("ask", QUESTION, "--in", docs / "secret.txt").code == 0, "a link that is named"


@pytest.mark.slow
def test_batches_and_what_is_printed_of_an_index_tell_so_too(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    batch = ("ask", "--batch", batch_file(tmp_path, 1), "--out", tmp_path / "o.jsonl", "--in", docs)
    assert SAID in run(*batch).err
    assert f"1 left out, 1 {SAID}" in run("index", "refresh", docs).out
    [report] = json.loads(run("index", "refresh", docs, "--json").out)["refreshed"]
    assert [group["reason"] for group in report["skipped"]] == ["leads_out"]
    assert f"left out: 1 {SAID}" in run("index", "list").out
    assert "secret.txt: leads_out, it leads out" in run("index", "list", "--skipped").out


@pytest.mark.slow
def test_an_index_that_follows_links_goes_on_doing_so(run: Run, docs: Path, tmp_path: Path) -> None:
    run("ask", QUESTION, "--in", docs, "--follow-links")
    (tmp_path / "elsewhere.txt").write_text("The magpie keeps a brass button.")
    assert "2 pages" in run("index", "refresh", docs).out
    listed = json.loads(run("index", "list", "--json").out)["indexes"]
    own = [index for index in listed if index["places"] == [str(docs)]]
    assert [(index["follow_links"], index["pages"]) for index in own] == [(True, 2)]
    assert f"folder  {docs} --follow-links" in run("index", "list").out
    assert "brass button" in run("ask", QUESTION, "--in", docs, "--follow-links").out


@pytest.mark.slow
@pytest.mark.parametrize("follow", [(), ("--follow-links",)])
def test_shards_are_built_of_what_is_followed(
    run: Run, docs: Path, tmp_path: Path, follow: tuple[str, ...]
) -> None:
    build = ("index", "build", docs, "--out", tmp_path / "shards", "--shards", "2", *follow)
    built = run(*build)
    assert built.code == 0
    assert (SAID in built.out) is (not follow)
    assert run("ask", QUESTION, "--in", tmp_path / "shards").code == (0 if follow else 3)
    assert run(*build).code == 0
    listed = json.loads(run("index", "list", "--json").out)["shards"]
    assert [each["follow_links"] for each in listed] == [bool(follow)]


def test_links_are_followed_by_servers_where_that_is_said(run: Run) -> None:
    for command in ((), ("mcp",), ("desk",), ("env",)):
        assert "--follow-links" in run("serve", *command, "-h").out
    assert "name one with --in" in run("ask", QUESTION, "--follow-links").err
