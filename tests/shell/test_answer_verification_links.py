"""`rookery cite verify` reads no file outside of the folders that it is given."""

from pathlib import Path

import pytest
from commands import Run

SECRET = "The magpie keeps a silver spoon under the third stone."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an answer, with a page, and with links to a page elsewhere and to this one."""
    folder = tmp_path / "answers"
    folder.mkdir()
    (tmp_path / "elsewhere.txt").write_text(SECRET)
    (folder / "own.txt").write_text("Rooks nest in elms, and a magpie keeps nothing at all.")
    (folder / "secret.txt").symlink_to(tmp_path / "elsewhere.txt")
    (folder / "again.txt").symlink_to("own.txt")
    return folder


def verify(run: Run, folder: Path, quote: str, source: str, *options: str) -> tuple[int, str]:
    (folder / "answer.md").write_text(f"“{quote}” [1]\n\n[1]: {source}\n")
    code, out, err = run("cite", "verify", folder / "answer.md", *options)
    return code, " ".join((out + err).split())


@pytest.mark.parametrize("fetch", [("--fetch",), ()])
def test_a_source_is_not_read_through_a_link_that_leads_out(
    run: Run, folder: Path, fetch: tuple[str, ...]
) -> None:
    given = ("--pages", str(folder), *fetch)
    code, told = verify(run, folder, SECRET, "secret.txt", *given)
    assert code == 5
    assert "0 of 1 quote verified" in told
    assert "a link there leads out of the folder and is not followed" in told
    assert verify(run, folder, "Rooks nest in elms", "again.txt", *given)[0] == 0
    assert verify(run, folder, "Rooks nest in elms", "own.txt", *given)[0] == 0


@pytest.mark.parametrize("place", ["../elsewhere.txt", "answers/../../elsewhere.txt", ""])
def test_an_answer_names_no_file_above_its_folder(run: Run, folder: Path, place: str) -> None:
    named = place or (folder.parent / "elsewhere.txt").as_uri()
    code, told = verify(run, folder, SECRET, named, "--fetch")
    assert (code, SECRET in told.partition("line 1")[2]) == (5, False)
    assert "it is not below the answer or --pages: name its folder with --pages" in told
    assert verify(run, folder, SECRET, named, "--fetch", "--pages", str(folder.parent))[0] == 0


def test_a_folder_may_itself_be_a_link(run: Run, folder: Path) -> None:
    linked = folder.parent / "linked"
    linked.symlink_to(folder)
    assert verify(run, linked, "Rooks nest in elms", "own.txt", "--fetch")[0] == 0
    assert verify(run, linked, SECRET, "secret.txt", "--fetch")[0] == 5


def test_of_a_document_that_is_not_read_it_is_said_what_to_do(run: Run, folder: Path) -> None:
    (folder / "own.rtf").write_text(r"{\rtf1 Rooks nest in elms.}")
    code, told = verify(run, folder, "Rooks nest in elms", "own.rtf", "--pages", str(folder))
    assert code == 5
    assert "a document of a type that is not read: save it as DOCX, XLSX, PPTX or PDF" in told
