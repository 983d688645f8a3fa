"""Which files of a folder are read: patterns, ignore files as git has them, and named reasons."""

import os
import subprocess
from pathlib import Path

import pytest

from rookery.errors import Failed
from rookery.pages.file_selection import count_skipped, list_folders, name_unread_type
from rookery.records import Failure
from rookery.settings import FileSelection
from rookery.shell.terminal_output import format_skipped_files


def write(root: Path, *names: str, text: str = "text") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listed(
    root: Path, selection: FileSelection = FileSelection()
) -> tuple[set[str], dict[str, tuple[str, str]]]:
    """The files below a folder that are read, and what is left out."""
    unreadable: list[Failure] = []
    read, skipped = set[str](), dict[str, tuple[str, str]]()
    for folder, files, left_out in list_folders([os.fsencode(root)], selection, unreadable):
        below = Path(os.fsdecode(folder)).relative_to(root)
        read.update(str(below / os.fsdecode(name)) for name in files)
        skipped.update((str(below / os.fsdecode(name)), why) for name, why in left_out.items())
    assert unreadable == []
    return read, skipped


IGNORED = {
    ".gitignore": "# a comment\n\n*.log\n!keep.log\nbuild/\n/top.txt\ndoc/*.txt\n**/deep/*.tmp\n"
    "trailing   \nspaced\\ \n\\#hash\n\\!bang\n[ab].c\nname?\n!\n",
    "sub/.gitignore": "!again.log\n*.md\n!README.md\n/build\n",
    "sub/inner/.gitignore": "*\n!kept.txt\n!*/\n",
}
FILES = (
    "a.log keep.log top.txt x/top.txt build/out.txt src/build/out.txt doc/a.txt doc/in/a.txt "
    "x/deep/a.tmp x/deep/y/a.tmp trailing a.c c.c name1 name12 sub/again.log sub/other.log "
    "sub/README.md sub/notes.md sub/build sub/x/build sub/inner/kept.txt sub/inner/lost.txt "
    "sub/inner/z/kept.txt sub/inner/z/lost.txt plain.txt sub/inner/a.log"
).split()


def test_ignore_files_mean_what_git_says(tmp_path: Path) -> None:
    write(tmp_path, *FILES, "spaced ", "#hash", "!bang")
    for name, text in IGNORED.items():
        write(tmp_path, name, text=text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files = [*FILES, "spaced ", "#hash", "!bang"]
    command = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "check-ignore", "-z"]
    told = subprocess.run(
        [*command, "--stdin"], input="\0".join(files), capture_output=True, text=True
    )
    ignored = set(filter(None, told.stdout.split("\0")))
    assert 10 < len(ignored) < len(files) - 5, "git itself leaves out some and keeps some"
    read, skipped = listed(tmp_path)
    assert read == set(files) - ignored
    assert skipped["build"] == ("ignored", f"by {tmp_path / '.gitignore'}")
    assert "build/out.txt" not in skipped, "a folder that is left out is not entered"


def test_rookeryignore_has_the_last_word(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "b.txt", "c.txt")
    write(tmp_path, ".gitignore", text="a.txt\nb.txt\n")
    write(tmp_path, ".rookeryignore", text="!b.txt\nc.txt\n")
    read, skipped = listed(tmp_path)
    assert read == {"b.txt"}
    assert skipped["c.txt"] == ("ignored", f"by {tmp_path / '.rookeryignore'}")


def test_ignore_files_above_the_folder_hold_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", text="*.md\n")
    repository = tmp_path / "repository"
    write(repository, "docs/a.txt", "docs/b.log", "docs/c.md", "build/d.log", "build/e.txt")
    write(repository, ".gitignore", text="*.log\nbuild/\n")
    assert listed(repository / "docs")[0] == {"a.txt", "b.log", "c.md"}, "no repository: no top"
    (repository / ".git").mkdir()
    assert listed(repository / "docs")[0] == {"a.txt", "c.md"}
    assert listed(repository / "build")[0] == {"d.log", "e.txt"}, "who names a folder wants it"


def test_globs_choose_files_and_excludes_leave_out_folders_too(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/old/d.md", "node/e.md", "docs/f.rst")
    write(tmp_path, ".gitignore", text="a.md\n")
    chosen = FileSelection(glob=("*.md", "*.rst"), exclude=("old/", "/node"))
    read, skipped = listed(tmp_path, chosen)
    assert read == {"docs/c.md", "docs/f.rst"}
    assert skipped["b.txt"] == ("excluded", "no --glob matches it")
    assert skipped["docs/old"] == skipped["node"] == ("excluded", "by --exclude")
    assert skipped["a.md"][0] == "ignored", "a pattern of the user brings nothing back"
    assert listed(tmp_path, FileSelection(glob=("docs/*.md",)))[0] == {"docs/c.md"}


def test_a_pattern_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="write it as in") as caught:
        listed(tmp_path, FileSelection(glob=("!",)))
    assert caught.value.failure.outcome == "bad_pattern"


def test_what_is_left_out_unopened_is_named_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, "a.PNG", "b.tar.gz", ".hidden.txt", ".git/config", "png", "c.xls", ".png")
    write(tmp_path, "empty.txt", text="")
    read, skipped = listed(tmp_path)
    assert read == {"png"}
    assert skipped == {
        "a.PNG": ("unsupported_type", "a picture"),
        "b.tar.gz": ("unsupported_type", "an archive"),
        "c.xls": ("unsupported_type", "a document of a type that is not read"),
        ".hidden.txt": ("hidden", "its name begins with a dot"),
        ".git": ("hidden", "its name begins with a dot"),
        ".png": ("hidden", "its name begins with a dot"),
        "empty.txt": ("empty", "there is nothing in it"),
    }
    counted = count_skipped((Failure(name, *why) for name, why in sorted(skipped.items())), 2)
    assert [(one.reason, one.count, one.examples) for one in counted] == [
        ("unsupported_type", 3, ("a.PNG", "b.tar.gz")),
        ("empty", 1, ("empty.txt",)),
        ("hidden", 3, (".git", ".hidden.txt")),
    ]
    assert name_unread_type("png") == ""


def test_files_left_out_for_a_reason_of_another_library_are_counted_too() -> None:
    skipped = [Failure("a.txt", "embargoed"), Failure("b.txt", "hidden"), Failure("c.txt", "torn")]
    counted = count_skipped(skipped)
    assert [(one.reason, one.count, one.examples) for one in counted] == [
        ("hidden", 1, ("b.txt",)),
        ("other", 2, ("a.txt", "c.txt")),
    ]
    said = format_skipped_files(counted)
    assert said == "left out: 1 hidden (b.txt); 2 for other reasons (a.txt, c.txt)"


def test_links_are_followed_within_the_folder_and_out_of_it_when_asked(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(outside, "secret.txt", "more/other.txt")
    write(inside, "own.txt", "sub/deep.txt")
    links = {
        "passwd.txt": outside / "secret.txt",
        "sub/up.txt": Path("../../outside/secret.txt"),
        "beside": outside,
        "chain.txt": inside / "passwd.txt",
        "again.txt": Path("own.txt"),
        "loop": inside,
        "sub/loop": Path(".."),
        "self.txt": Path("self.txt"),
        "own-folder": inside / "sub",
        "inside-too": tmp_path / "inside-too",
    }
    write(tmp_path / "inside-too", "near.txt")  # its path begins as the folder's
    for name, target in links.items():
        (inside / name).symlink_to(target)
    read, skipped = listed(inside)
    assert read == {"own.txt", "again.txt", "sub/deep.txt"}
    assert {name for name, (outcome, _) in skipped.items() if outcome == "leads_out"} == {
        *("passwd.txt", "sub/up.txt", "beside", "chain.txt", "inside-too")
    }
    read, skipped = listed(inside, FileSelection(follow_links=True))
    assert skipped == {}
    assert {Path(name).name for name in read} == {
        *("own.txt", "again.txt", "deep.txt", "passwd.txt", "up.txt", "chain.txt"),
        *("secret.txt", "other.txt", "near.txt"),
    }
    beside = list_folders([os.fsencode(inside), os.fsencode(outside)], FileSelection(), [])
    assert b"passwd.txt" in next(beside).files  # it leads to what is named itself
