"""A folder as a library: what is found, what changes, what breaks, and what a kill leaves."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from pathlib import Path

import pytest
from damaging import damage_columns

from rookery.errors import Failed
from rookery.library.folder_library import (
    FOLDER_FORMAT,
    DocumentShard,
    FolderLibrary,
    FolderLimits,
    FolderManifest,
    ManifestRow,
)
from rookery.library.libraries import CombinedLibrary, get_contents_digest
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import INDEX_FORMAT, SearchIndex
from rookery.library.stored_indexes import list_stored_indexes
from rookery.pages.file_selection import FileStamp
from rookery.pages.passages import build_index_entries
from rookery.pages.reader_processes import FileLimits, ReadJob, ReadResult, read_jobs
from rookery.settings import FileSelection

INDEXED = f"{FOLDER_FORMAT}.{INDEX_FORMAT}"
SLOW_MARKDOWN = b"[a](" * 450_000
"""which takes minutes to read"""
posix = pytest.mark.skipif(os.name != "posix", reason="reading processes are POSIX only")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[PageArchive]:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        yield archive


class Place:
    """A folder of documents, and a way to open it as a new process would."""

    def __init__(self, root: Path, archive: PageArchive) -> None:
        self.documents = root / "documents"
        self.documents.mkdir()
        self.cache = root / "cache"
        self.archive = archive
        self.opened: list[FolderLibrary] = []
        self.read: list[str] = []
        self.sentences: list[str] = []

    def write(self, name: str, text: str) -> Path:
        path = self.documents / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # Old enough that its time can be trusted at once.
        os.utime(path, ns=(time.time_ns() - 10**10, time.time_ns() - 10**10))
        return path

    def open(
        self, where: Path | None = None, limits: FolderLimits = FolderLimits()
    ) -> FolderLibrary:
        self.read.clear()
        folder = FolderLibrary(where or self.documents, self.archive, self.cache, self.note, limits)
        self.opened.append(folder)
        return folder

    def note(self, count: int, total: int, what: str) -> None:
        if total:
            self.read.append(Path(what).name)
        else:
            self.sentences.append(what)


@pytest.fixture
def place(tmp_path: Path, archive: PageArchive) -> Iterator[Place]:
    place = Place(tmp_path, archive)
    yield place
    for folder in place.opened:
        folder.close()


def names(folder: FolderLibrary, query: str) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in folder.search(query, 50)]


def test_a_hit_leads_to_the_page_and_to_the_words(place: Place) -> None:
    path = place.write(
        "birds/the crow & I.md", "# Crows\n\nA crow hid seven walnuts in the moss.\n"
    )
    place.write("jay.html", "<title>Jay</title><p>The jay plants oaks wherever it forgets.</p>")
    folder = place.open()
    (hit,) = folder.search("who hid walnuts", 5)
    assert hit.url == path.as_uri()
    page = folder.fetch(hit.url)
    assert page.digest == hit.digest
    assert "seven walnuts" in page.text[hit.start : hit.end]
    assert folder.fetch(hit.url + "#top") == page
    assert place.archive.find_page(hit.digest, hit.url) == page
    assert folder.failures == ()


def test_the_second_opening_reads_nothing(place: Place) -> None:
    for number in range(5):
        place.write(f"{number}.txt", f"Bird number {number} is a magpie.")
    place.open()
    assert len(place.read) == 5
    folder = place.open()
    assert place.read == []
    assert len(names(folder, "magpie")) == 5


@pytest.mark.slow
def test_changes_renames_and_deletions_are_noticed(place: Place) -> None:
    changed = place.write("changed.txt", "The raven croaks.")
    renamed = place.write("renamed.txt", "The rook caws.")
    deleted = place.write("deleted.txt", "The jay screams.")
    moved = place.write("sub/moved.txt", "The chough whistles.")
    place.open()
    place.write("changed.txt", "The nutcracker rattles.")
    renamed.rename(place.documents / "new name.txt")
    deleted.unlink()
    shutil.rmtree(moved.parent)
    folder = place.open()
    assert sorted(place.read) == ["changed.txt", "new name.txt"]
    assert names(folder, "raven") == names(folder, "jay") == names(folder, "chough") == []
    assert names(folder, "nutcracker") == ["changed.txt"]
    assert names(folder, "rook") == ["new%20name.txt"]
    with pytest.raises(Failed, match="url_not_shown"):
        folder.fetch(deleted.as_uri())
    assert "nutcracker" in folder.fetch(changed.as_uri()).text


@pytest.mark.slow
def test_a_touched_file_is_compared_but_not_indexed_again(place: Place) -> None:
    path = place.write("a.txt", "The raven croaks.")
    digest = place.open().fetch(path.as_uri()).digest
    path.touch()
    folder = place.open()
    assert folder.fetch(path.as_uri()).digest == digest
    assert names(folder, "raven") == ["a.txt"]


@pytest.mark.slow
def test_a_change_too_soon_to_alter_the_time_is_noticed(place: Place) -> None:
    path = place.documents / "a.txt"
    path.write_text("The raven croaks.")
    soon = time.time_ns() + 10**10
    os.utime(path, ns=(soon, soon))
    place.open()
    path.write_text("The magpie sings.")
    os.utime(path, ns=(soon, soon))
    assert names(place.open(), "magpie") == ["a.txt"]


def test_one_text_in_several_files_is_found_once_and_the_others_are_named(place: Place) -> None:
    paths = [place.write(name, "The raven croaks.") for name in ("b/c.txt", "z.txt", "y.txt")]
    place.write("other.txt", "The magpie sings, the raven does not.")
    folder = place.open()
    assert sorted(names(folder, "raven")) == ["other.txt", "y.txt"], "the one nearest to the top"
    assert {folder.fetch(path.as_uri()).url for path in paths} == {p.as_uri() for p in paths}
    copies = {Path(one.what).name: one for one in folder.skipped}
    assert {name: one.outcome for name, one in copies.items()} == {"c.txt": "copy", "z.txt": "copy"}
    assert copies["c.txt"].detail == f"the same text as {paths[2]}"


@pytest.mark.slow
def test_when_the_copy_that_is_found_goes_another_takes_its_place(place: Place) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        place.write(name, "The raven croaks.")
    assert names(place.open(), "raven") == ["a.txt"]
    (place.documents / "a.txt").unlink()
    assert names(place.open(), "raven") == ["b.txt"]
    place.write("b.txt", "The magpie sings.")
    folder = place.open()
    assert names(folder, "raven") == ["c.txt"]
    assert folder.skipped == ()
    place.write("a.txt", "The raven croaks.")
    folder = place.open()
    assert names(folder, "raven") == ["a.txt"], "nearer to the top than the one before"
    assert [Path(one.what).name for one in folder.skipped] == ["c.txt"]
    place.write("b.txt", "The raven croaks.")
    assert names(place.open(), "raven") == ["a.txt"]
    assert names(place.open(), "magpie") == []


@pytest.mark.slow
def test_a_bad_file_is_recorded_and_the_others_are_read(place: Place) -> None:
    place.write("good.txt", "The raven croaks.")
    place.write("bad.pdf", "%PDF-1.7 this is not a PDF at all")
    place.write("bad.docx", "PK this is not a document either")
    place.write("blank.html", " ")
    os.truncate(huge := place.write("huge.txt", ""), 2 * 2**30)
    os.utime(huge, ns=(0, 0))
    folder = place.open()
    failed = {Path(failure.what).name: failure for failure in folder.failures}
    assert set(failed) == {"bad.pdf", "bad.docx", "blank.html", "huge.txt"}
    assert failed["huge.txt"].outcome == "too_large"
    assert names(folder, "raven") == ["good.txt"]
    with pytest.raises(Failed, match="too_large"):
        folder.fetch((place.documents / "huge.txt").as_uri())
    folder = place.open()
    assert place.read == []
    assert {Path(failure.what).name for failure in folder.failures} == set(failed)
    place.write("bad.pdf", "still none")
    place.write("blank.html", "<p>No longer blank, says the magpie.</p>")
    assert names(place.open(), "magpie") == ["blank.html"]
    assert "blank.html" not in {Path(failure.what).name for failure in place.opened[-1].failures}


def test_a_file_that_went_bad_is_no_longer_found(place: Place) -> None:
    place.write("a.txt", "The raven croaks.")
    place.write("b.html", "<p>The magpie sings.</p>")
    place.open()
    place.write("b.html", " ")
    folder = place.open()
    assert names(folder, "magpie") == []
    assert [Path(failure.what).name for failure in folder.failures] == ["b.html"]
    place.write("b.html", "")
    folder = place.open()
    assert folder.failures == ()
    assert [(Path(one.what).name, one.outcome) for one in folder.skipped] == [("b.html", "empty")]


@pytest.mark.program
@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to root")
def test_what_may_not_be_read_is_recorded_and_tried_again(place: Place) -> None:
    place.write("good.txt", "The raven croaks.")
    closed = place.write("closed.txt", "The magpie sings.")
    closed.chmod(0)
    (place.documents / "locked").mkdir(mode=0)
    folder = place.open()
    assert {Path(failure.what).name for failure in folder.failures} == {"closed.txt", "locked"}
    closed.chmod(0o600)
    assert names(place.open(), "magpie") == ["closed.txt"]
    (place.documents / "locked").chmod(0o700)


@posix
def test_loops_of_links_hidden_folders_and_odd_names(place: Place) -> None:
    place.write("a/one.txt", "The raven croaks.")
    place.write(".git/two.txt", "The raven hides.")
    (place.documents / "a" / "up").symlink_to(place.documents)
    (place.documents / "self.txt").symlink_to("self.txt")
    (place.documents / "nowhere.txt").symlink_to("missing.txt")
    os.mkfifo(place.documents / "pipe.txt")
    with open(os.fsencode(place.documents) + b"/na\xefve?.txt", "w") as odd:  # noqa: PTH123
        odd.write("The raven returns.")
    folder = place.open()
    assert sorted(names(folder, "raven")) == ["na%EFve%3F.txt", "one.txt"]
    for hit in folder.search("raven", 5):
        assert "raven" in folder.fetch(hit.url).text


@posix
def test_what_links_lead_to_elsewhere_is_neither_read_nor_kept(place: Place) -> None:
    place.write("one.txt", "The raven croaks.")
    elsewhere = place.documents.parent / "elsewhere.txt"
    elsewhere.write_text("The raven keeps a secret.")
    (place.documents / "secret.txt").symlink_to(elsewhere)
    folder = place.open()
    assert names(folder, "raven") == ["one.txt"]
    assert [(one.what, one.outcome) for one in folder.skipped] == [
        (str(place.documents / "secret.txt"), "leads_out")
    ]
    for path in (elsewhere, place.documents / "secret.txt"):
        with pytest.raises(Failed, match="url_not_shown"):
            folder.fetch(path.as_uri())
    followed = FileSelection(follow_links=True)
    with FolderLibrary(place.documents, place.archive, place.cache, selection=followed) as both:
        assert sorted(names(both, "raven")) == ["one.txt", "secret.txt"]
    assert names(place.open(), "raven") == ["one.txt"]


@posix
def test_a_file_that_became_a_link_out_is_not_read_for_a_lost_page(place: Place) -> None:
    file = place.write("one.txt", "The raven croaks.")
    folder = place.open()
    elsewhere = place.documents.parent / "elsewhere.txt"
    elsewhere.write_text("The raven keeps a secret.")
    file.unlink()
    file.symlink_to(elsewhere)
    with PageArchive(place.documents.parent / "other.sqlite") as empty:
        folder._archive = empty
        with pytest.raises(Failed, match="leads_out"):
            folder.fetch(file.as_uri())


def test_a_single_file_and_several_places(place: Place) -> None:
    one = place.write("one.txt", "The raven croaks.")
    place.write("two.txt", "The raven hides.")
    assert names(place.open(one), "raven") == ["one.txt"]
    sub = place.write("sub/three.txt", "The raven flies.").parent
    folder = FolderLibrary([one, sub, sub / "three.txt"], place.archive, place.cache)
    place.opened.append(folder)
    assert sorted(names(folder, "raven")) == ["one.txt", "three.txt"]
    with pytest.raises(Failed, match="url_not_shown"):
        folder.fetch((place.documents / "two.txt").as_uri())


def test_two_ways_to_one_folder_share_one_index(place: Place) -> None:
    place.write("one.txt", "The raven croaks.")
    place.open()
    link = place.documents.parent / "link"
    link.symlink_to(place.documents)
    place.open(link)
    assert place.read == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://e.org/", "notes", "file:///["])
def test_other_addresses_are_not_opened(place: Place, url: str) -> None:
    place.write("one.txt", "The raven croaks.")
    with pytest.raises(Failed, match="url_not_shown"):
        place.open().fetch(url)


def test_a_folder_without_readable_files_says_what_is_read(place: Place) -> None:
    with pytest.raises(Failed) as caught:
        place.open()
    assert caught.value.failure.outcome == "empty_library"
    assert (
        "HTML, PDF, Office documents, e-books, mail, Markdown and text are read"
        in caught.value.failure.detail
    )
    place.write("program.exe", "MZ")
    place.write("blank.html", " ")
    with pytest.raises(Failed, match=r"1 failed, 1 left out, such as .*blank.html: there is noth"):
        place.open()
    place.write("late.txt", "The raven croaks.")
    assert names(place.open(), "raven") == ["late.txt"]


def test_a_place_that_does_not_exist(place: Place) -> None:
    with pytest.raises(Failed, match="not_found"):
        place.open(place.documents / "nowhere")


def test_a_place_that_is_gone_for_a_while_keeps_its_index(place: Place) -> None:
    place.write("one.txt", "The raven croaks.")
    folder = place.open()
    place.documents.rename(place.documents.with_name("away"))
    with pytest.raises(Failed, match="unreadable"):
        folder.refresh()
    place.documents.with_name("away").rename(place.documents)
    place.read.clear()
    folder.refresh()
    assert place.read == []
    assert names(folder, "raven") == ["one.txt"]


def test_a_page_that_the_archive_lost_is_read_again(place: Place, tmp_path: Path) -> None:
    path = place.write("one.txt", "The raven croaks.")
    page = place.open().fetch(path.as_uri())
    with PageArchive(tmp_path / "new archive.sqlite") as archive:
        place.archive = archive
        folder = place.open()
        assert place.read == []
        assert folder.fetch(path.as_uri()).text == page.text
        assert archive.find_page(page.digest, page.url) is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm", ["format", "manifest", "no manifest", "index", "columns", "no index"]
)
def test_a_damaged_or_older_index_is_built_anew(place: Place, harm: str) -> None:
    place.write("one.txt", "The raven croaks.")
    place.write("two.txt", "The magpie sings.")
    folder = place.open()
    (inner,) = (place.cache / "folders").iterdir()
    if harm == "format":
        folder._open_manifest()._connection.execute("update about set format = '0.0'")
    folder.close()
    if harm == "manifest":
        (inner / "manifest.sqlite").write_bytes(b"no database" * 1000)
    elif harm == "no manifest":
        (inner / "manifest.sqlite").unlink()
    elif harm == "index":
        (inner / "index" / "meta.json").write_text("{}")
    elif harm == "columns":
        damage_columns(inner / "index")
        assert [index.passages for index in list_stored_indexes(place.cache)] == [None]
    elif harm == "no index":
        shutil.rmtree(inner / "index")
    folder = place.open()
    assert sorted(place.read) == ["one.txt", "two.txt"]
    assert names(folder, "raven") == ["one.txt"]


STORED = Path(__file__).parent.parent / "stored" / "version_0_2.tar.xz"


def test_what_version_0_2_indexed_is_read_again_although_no_file_changed(
    place: Place, tmp_path: Path
) -> None:
    with tarfile.open(STORED) as stored:
        stored.extractall(tmp_path, filter="data")
    shard = tmp_path / "shards" / "shard-0000"
    place.write("wells.md", "# Wells\n\nThe deepest well is at Church Row.\n")
    place.write("ferry.html", "<title>The ferry</title><p>The ferry crosses twice a day.</p>")
    with closing(sqlite3.connect(shard / "manifest.sqlite")) as manifest:
        for path in place.documents.iterdir():
            stat = path.stat()
            row = (os.fsencode(place.documents), stat.st_size, stat.st_mtime_ns, path.name.encode())
            change = "update files set folder = ?, size = ?, mtime_ns = ? where name = ?"
            assert manifest.execute(change, row).rowcount == 1
        manifest.commit()
    parts = place.documents, place.archive, shard, place.note
    part = DocumentShard(0, 1, shard)
    for read in (["ferry.html", "wells.md"], []):
        place.read.clear()
        with FolderLibrary(*parts, shard=part) as folder:
            assert place.sentences == ["another version made this index: all files are read again"]
            assert sorted(place.read) == read
            address = (place.documents / "wells.md").as_uri()
            assert address in {hit.url for hit in folder.search("deepest well", 9)}
            assert folder.fetch(address).title == "Wells"


@pytest.mark.parametrize("written", [INDEXED, f"{INDEXED}.0"])
def test_files_read_by_another_reader_are_found_until_each_is_read_again(
    place: Place, written: str
) -> None:
    for number in range(3):
        place.write(f"{number}.txt", f"Raven {number} croaks.")
    folder = place.open()
    folder._open_manifest()._connection.execute("update about set format = ?", (written,))
    folder.close()

    def give_up(count: int, total: int, what: str) -> None:
        if count == 2:
            raise KeyboardInterrupt

    limits = FolderLimits(commit_bytes=1)
    with pytest.raises(KeyboardInterrupt):
        FolderLibrary(place.documents, place.archive, place.cache, give_up, limits)
    assert len(SearchIndex(folder.index_folder / "index").search("raven", 9)) == 3
    assert len(names(place.open(limits=limits), "raven")) == 3
    assert len(place.read) == 1


def _many(place: Place, count: int) -> None:
    for number in range(count):
        place.write(f"{number % 7}/{number}.txt", f"Raven number{number} croaks.\n" * 5)


def _all_there(folder: FolderLibrary, count: int) -> bool:
    found = all(names(folder, f"number{number}") == [f"{number}.txt"] for number in range(count))
    return found and len(folder.search("raven", 10 * count)) == count


@posix
@pytest.mark.parametrize("processes", [0, 2])
def test_who_reads_a_file_prepares_its_passages(place: Place, processes: int) -> None:
    paths = [place.write("jay.html", "<p>The jay plants oaks.</p>"), place.write("bad.docx", "no")]
    jobs = [ReadJob(os.fsencode(path), path.as_uri()) for path in paths]
    found = {each.job.url: each for each in read_jobs(jobs, FileLimits(), processes)}
    page = found[paths[0].as_uri()].page
    assert page is not None
    assert found[paths[0].as_uri()].entries == build_index_entries(page)
    assert found[paths[1].as_uri()].entries == []


@pytest.mark.slow
@posix
def test_many_files_are_read_by_other_processes(place: Place) -> None:
    _many(place, 60)
    place.write("bad.docx", "no document")
    folder = place.open()
    assert len(place.read) == 61
    assert _all_there(folder, 60)
    assert [Path(failure.what).name for failure in folder.failures] == ["bad.docx"]


_INDEX = """
import sys, time
from pathlib import Path
from rookery.library.page_archive import PageArchive
from rookery.library.folder_library import FolderLibrary, FolderLimits
from rookery.library.libraries import CombinedLibrary, get_contents_digest
from rookery.errors import Failed

documents, archive, cache, pause, most = sys.argv[1:]
if int(most):
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))

def tell(done, total, what):
    print(done, total, what, flush=True)
    time.sleep(float(pause) * (100 if done == 1 else 1))  # so long that others come meanwhile

try:
    with PageArchive(Path(archive)) as pages:
        limits = FolderLimits(commit_bytes=40_000)
        FolderLibrary(Path(documents), pages, Path(cache), tell, limits).close()
    print("finished", flush=True)
except Failed as failed:
    print("failed", failed.failure.outcome, flush=True)
"""


def _indexer(place: Place, pause: float = 0.0, most: int = 0) -> "subprocess.Popen[str]":
    places = [place.documents, place.documents.parent / "archive.sqlite", place.cache]
    arguments = [*map(str, places), str(pause), str(most)]
    return subprocess.Popen(
        [sys.executable, "-c", _INDEX, *arguments], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@posix
@pytest.mark.parametrize("after", [1, 20, 39])
def test_a_killed_indexer_is_made_good_by_the_next(place: Place, after: int) -> None:
    _many(place, 40)
    with _indexer(place, pause=0.01) as killed:
        assert killed.stdout is not None
        for _ in range(after):
            assert killed.stdout.readline()
        killed.send_signal(signal.SIGKILL)
    folder = place.open()
    assert _all_there(folder, 40)
    if after > 20:
        assert len(place.read) < 40, "what was committed before the kill is not done again"


def test_work_is_made_lasting_after_so_many_bytes_of_files(place: Place) -> None:
    """Twenty files of 904 bytes, each of which counts as 5,000: after each fourth, another reader
    of the index sees them."""
    for number in range(20):
        place.write(f"{number:02}.txt", f"Raven number{number:02} croaks.".ljust(904, "."))
    seen: list[int] = []

    def look(count: int, total: int, what: str) -> None:
        (inner,) = (place.cache / "folders").iterdir()
        seen.append(len(SearchIndex(inner / "index")))

    limits = FolderLimits(commit_bytes=20_000)
    FolderLibrary(place.documents, place.archive, place.cache, look, limits).close()
    assert seen == [done - done % 4 for done in range(1, 21)]


@pytest.mark.slow
@posix
def test_the_second_indexer_waits_and_finds_everything_done(place: Place) -> None:
    _many(place, 30)
    with _indexer(place, pause=0.01) as first:
        assert first.stdout is not None
        first.stdout.readline()
        folder = place.open()
        assert place.read == []
        assert "waiting" in place.sentences[0]
        assert first.stdout.read().endswith("finished\n")
    assert _all_there(folder, 30)


@pytest.mark.slow
@posix
def test_two_indexers_at_once(place: Place) -> None:
    _many(place, 30)
    with _indexer(place) as one, _indexer(place) as two:
        assert one.stdout is not None
        assert two.stdout is not None
        assert one.stdout.read().endswith("finished\n")
        assert two.stdout.read().endswith("finished\n")
    folder = place.open()
    assert place.read == []
    assert _all_there(folder, 30)


@pytest.mark.slow
@posix
def test_a_library_answers_while_another_process_indexes(place: Place) -> None:
    place.write("old.txt", "The magpie sings.")
    folder = place.open()
    _many(place, 30)
    with _indexer(place, pause=0.02) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert names(folder, "magpie") == ["old.txt"]
        assert "magpie" in folder.fetch((place.documents / "old.txt").as_uri()).text
        assert other.poll() is None, "the other was still indexing"
        other.stdout.read()
    folder.refresh()
    assert _all_there(folder, 30)


@pytest.mark.slow
@posix
def test_a_full_disk_is_said_and_loses_nothing(place: Place) -> None:
    _many(place, 10)
    with place.open() as folder:
        assert _all_there(folder, 10)
    words = (f"w{number * 7919 % 999_983:x}" for number in range(200_000))
    place.write("large.txt", "Magpie " + " ".join(words))
    with _indexer(place, most=400_000) as full:
        assert full.stdout is not None
        assert full.stdout.read().splitlines()[-1] == "failed disk_full"
    folder = place.open()
    assert "large.txt" in place.read
    assert names(folder, "magpie")
    assert _all_there(folder, 10)


@posix
def test_a_file_that_hangs_costs_its_time_and_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "slow.md").write_bytes(SLOW_MARKDOWN)
    jobs = [_job(tmp_path / "slow.md"), *_good_jobs(tmp_path, 3)]
    limits = FileLimits(seconds=5.0)
    readings = {reading.job: reading for reading in read_jobs(jobs, limits, 1)}
    failure = readings[jobs[0]].failure
    assert failure is not None
    assert failure.outcome == "timed_out"
    assert all(readings[job].page is not None for job in jobs[1:])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of children")
def test_a_file_that_kills_its_reader_costs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "slow.md").write_bytes(SLOW_MARKDOWN)
    hostile, good = _job(tmp_path / "slow.md"), _good_jobs(tmp_path, 4)

    def jobs() -> Iterator[ReadJob]:
        before = _children()
        yield hostile
        (reader,) = _children() - before
        yield good[0]
        os.kill(reader, signal.SIGKILL)
        yield from good[1:]

    readings = {reading.job: reading for reading in read_jobs(jobs(), FileLimits(), 2)}
    failure = readings[hostile].failure
    assert failure is not None
    assert failure.outcome == "crashed"
    assert all(readings[job].page is not None for job in good)


@posix
def test_a_reader_that_cannot_start_is_no_failure_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(Failed) as caught:
        list(read_jobs(_good_jobs(tmp_path, 3), FileLimits(), 2))
    assert caught.value.failure.outcome == "no_reader"


@posix
def test_a_file_that_needs_too_much_memory_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_text("The raven croaks.\n" * 3_000_000)
    limits = FileLimits(memory=100 * 2**20)
    (reading,) = read_jobs([_job(path)], limits, 1)
    assert reading.failure is not None
    assert reading.failure.outcome in ("too_large", "crashed")


def test_known_content_is_not_parsed_again(tmp_path: Path) -> None:
    (job,) = _good_jobs(tmp_path, 1)
    (first,) = read_jobs([job], FileLimits(), 0)
    again = ReadJob(job.path, job.url, first.sha256)
    assert list(read_jobs([again], FileLimits(), 0)) == [ReadResult(again, first.sha256)]


def _job(path: Path) -> ReadJob:
    return ReadJob(os.fsencode(path), path.as_uri())


def _good_jobs(root: Path, count: int) -> list[ReadJob]:
    for number in range(count):
        (root / f"{number}.txt").write_text(f"Raven {number} croaks.")
    return [_job(root / f"{number}.txt") for number in range(count)]


def _children() -> set[int]:
    children = set[int]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that ends meanwhile
            children.update(map(int, (task / "children").read_text().split()))
    return children


@pytest.mark.slow
def test_the_digest_of_the_contents_changes_with_any_text_and_not_with_the_place(
    tmp_path: Path,
) -> None:
    def digest(*folders: Path) -> str:
        with (
            PageArchive(tmp_path / "a.sqlite") as archive,
            FolderLibrary(list(folders), archive, tmp_path / "cache") as folder,
        ):
            assert (
                get_contents_digest(CombinedLibrary([folder])) != get_contents_digest(folder) != ""
            )
            return get_contents_digest(folder)

    first, moved = tmp_path / "first", tmp_path / "moved"
    first.mkdir()
    (first / "a.md").write_text("Jays bury acorns.")
    (first / "b.md").write_text("Rooks dig.")
    whole = digest(first)
    assert digest(first) == whole
    first.rename(moved)
    assert digest(moved) == whole
    (moved / "b.md").write_text("Rooks sing.")
    changed = digest(moved)
    (moved / "b.md").unlink()
    assert len({whole, changed, digest(moved)}) == 3


def test_threads_get_their_own_pages_from_one_folder(place: Place) -> None:
    paths = [place.write(f"{n}.txt", f"Note {n} is about a crow.") for n in range(8)]
    folder = place.open()
    urls = [path.as_uri() for path in paths] * 200
    with ThreadPoolExecutor(8) as threads:
        assert [page.url for page in threads.map(folder.fetch, urls)] == urls


@pytest.mark.slow
def test_threads_may_read_again_what_the_archive_has_lost(place: Place, tmp_path: Path) -> None:
    paths = [place.write(f"{n}.txt", f"Note {n} is about a crow.") for n in range(2)]
    place.open().close()
    urls = [path.as_uri() for path in paths] * 20
    with PageArchive(tmp_path / "other.sqlite") as place.archive:
        folder = place.open()
        with ThreadPoolExecutor(8) as threads:
            assert [page.url for page in threads.map(folder.fetch, urls)] == urls
        assert sorted(place.read) == [path.name for path in paths]  # each once
        folder.close()


def test_a_thread_sees_nothing_of_a_transaction_that_fails(tmp_path: Path) -> None:
    manifest = FolderManifest(tmp_path / "manifest.sqlite")
    row = ManifestRow(b"/notes", b"crow.txt", FileStamp(1, 1))
    found: list[Future[ManifestRow | None]] = []

    def yield_rows_until_failure() -> Iterator[ManifestRow]:
        yield row
        found.append(threads.submit(manifest.find_row, row.path))
        wait(found, timeout=0.2)  # a thread that did not wait its turn would be done
        raise InterruptedError

    with ThreadPoolExecutor(1) as threads, pytest.raises(Failed):
        manifest.record_files(yield_rows_until_failure(), ())
    assert found[0].result() is None
    manifest.close()
