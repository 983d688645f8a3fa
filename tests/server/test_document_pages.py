"""Documents dropped in: read, searched, removed; what cannot be kept is refused with its reason."""

import asyncio
import io
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from askers import SECONDS, hold_workers
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from shelves import come_in, own_home
from starlette.testclient import TestClient
from test_answer_pages_notebooks import until_done
from visits import Opened, Visit
from windows import Site, flaws

from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import BUNDLED_PLACE, get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.worker_processes import count_cores
from rookery.pages.file_selection import READER_OF_ENDING
from rookery.records import Failure, Page
from rookery.server import document_pages, documents
from rookery.server.api import endpoints
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.answer_sessions import FINAL_EVENTS
from rookery.server.documents import (
    DocumentReader,
    DocumentText,
    UploadLimits,
    list_uploads,
    load_document_records,
    make_safe_file_name,
)
from rookery.settings import ARCHIVE, Settings, get_cache_folder, get_data_folder
from rookery.shell.file_reading import read_document_files
from rookery.shell.security import VisitorLimits

NOTE = b"# Rooks\n\nRooks nest in colonies of a hundred pairs.\n"
REPORT = (get_bundled_folder() / "field-report.pdf").read_bytes()
LARGE = VisitorLimits(body=50_000_000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache of the test's own."""
    yield from own_home(tmp_path, monkeypatch)


@pytest.fixture
def reader(opened: Opened) -> Visit:
    """A reader of a desk that takes documents."""
    return at_home(opened._replace(limits=LARGE))


def at_home(opened: Opened, role: str = "reader", uploads: bool | None = True) -> Visit:
    visit = come_in(opened, f"the {role}", role)  # type: ignore[arg-type]
    visit.client.app.state.uploads = uploads  # type: ignore[attr-defined]
    return visit


def send(visit: Visit, *files: tuple[str, bytes]) -> Visit:
    """Sends files, and does not wait until they are read."""
    return visit._seen(visit.client.post("/documents", files=[("files", file) for file in files]))


def drop(visit: Visit, *files: tuple[str, bytes], replace: bool = False) -> Visit:
    """Sends files, waits until they are read, and looks at what came of it."""
    until_read(send(visit, *files))
    if replace and visit.page.css_first("[action='/documents/confirm']"):
        upload = visit.first("[action='/documents/confirm'] button").attributes["value"]
        until_read(visit.post("/documents/confirm", id=str(upload)))
    return visit


def until_read(visit: Visit) -> Visit:
    """Looks at the documents again, as the page does, until nothing is being read."""
    until = time.monotonic() + SECONDS
    while visit.page.css_first("#documents[data-poll]"):
        assert time.monotonic() < until, visit.text
        time.sleep(0.02)
        visit.get("/documents")
    return visit


def names() -> list[str]:
    place = documents.get_documents_folder()
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


def search_files(query: str) -> list[str]:
    """The files in which a search finds something."""
    with (
        PageArchive(get_data_folder() / ARCHIVE) as archive,
        FolderLibrary(documents.get_documents_folder(), archive, get_cache_folder()) as library,
    ):
        return [hit.url.rpartition("/")[2] for hit in library.search(query, 5)]


def _places(visit: Visit) -> dict[str, str]:
    """Return the places that the server offers."""
    answering: AnswerService = visit.client.app.state.answering  # type: ignore[attr-defined]
    return answering.capabilities.places


@pytest.mark.slow
def test_what_is_dropped_in_is_read_and_searched(reader: Visit) -> None:
    seen = drop(reader, ("notes.md", NOTE), ("report.pdf", REPORT))
    assert seen.status == 200
    assert "2 documents" in seen.text
    assert "Acorns at Hollin Wood" in seen.text
    assert search_files("colonies of rooks") == ["notes.md"]
    places = _places(reader)
    assert places["documents"] == str(documents.get_documents_folder())
    link = next(a for a in seen.page.css(".document a") if a.text() == "Rooks")
    assert "colonies of a hundred pairs" in reader.get(link.attributes["href"] or "").text


JAYS = b"# Jays\n\nJays carry acorns in the throat.\n"


@pytest.mark.slow
def test_a_file_of_the_same_name_becomes_a_version_if_that_is_confirmed(reader: Visit) -> None:
    drop(reader, ("notes.md", NOTE))
    assert "version 1" in reader.text
    first = str(reader.first(".document a").attributes["href"])
    seen = drop(reader, ("notes.md", JAYS))
    assert "there is a document of this name, version 1, added just now by the reader" in seen.text
    assert search_files("colonies") == ["notes.md"]
    upload = str(seen.first("[action='/documents/dismiss'] button").attributes["value"])
    assert "is this a new version" not in reader.post("/documents/dismiss", id=upload).text.lower()
    assert reader.post("/documents/confirm", id=upload).status == 404
    same = drop(reader, ("notes.md", NOTE)).first("#uploads").text()  # once more
    assert "Nothing new" in same
    assert "it is here already, unchanged" in same
    drop(reader, ("notes.md", JAYS), replace=True)
    assert names() == ["notes.md"]
    assert "version 2" in reader.first(".document").text()
    assert "1 other version" in reader.text
    assert search_files("acorns throat") == ["notes.md"]
    assert search_files("colonies") == []
    # What was quoted from the first version stands where it stood.
    assert reader.first(".versions a").attributes["href"] == first
    assert "colonies of a hundred pairs" in reader.get(first).text
    reader.post("/documents/restore", name="notes.md", version="1")
    assert search_files("colonies") == ["notes.md"]
    assert reader.post("/documents/delete", name="notes.md", version="1").status == 404
    reader.post("/documents/restore", name="notes.md", version="2")  # the other way round
    assert search_files("acorns throat") == ["notes.md"]
    reader.post("/documents/delete", name="notes.md", version="1")
    assert reader.post("/documents/restore", name="notes.md", version="1").status == 404
    assert search_files("acorns throat") == ["notes.md"]
    assert reader.get(first).status == 404
    # Removing is undone by the version that was removed.
    drop(reader, ("notes.md", NOTE), replace=True)
    reader.post("/documents/restore", name="notes.md", version="2")
    reader.post("/documents/remove", name="notes.md")
    assert "notes.md is removed" in reader.text
    undo = reader.first("form.notice input").attributes["value"]
    assert undo == "2"
    reader.post("/documents/restore", name="notes.md", version=undo)
    assert search_files("acorns throat") == ["notes.md"]


@pytest.mark.slow
def test_damaged_records_are_said_and_nothing_is_written_over_them(reader: Visit) -> None:
    drop(reader, ("notes.md", NOTE))
    drop(reader, ("notes.md", JAYS), replace=True)
    page = str(reader.first(".document a").attributes["href"])
    place = get_data_folder() / documents._RECORDS_FILE
    whole = place.read_bytes()
    place.write_bytes(whole[:-9])
    damaged = reader.get("/documents")
    assert (damaged.status, "put their file back from a copy" in damaged.text) == (500, True)
    assert reader.post("/documents/remove", name="notes.md").status == 500
    assert place.read_bytes() == whole[:-9]
    assert reader.get("/").status == 200
    assert reader.get(page).status == 200
    place.write_bytes(whole)
    assert "1 other version" in reader.get("/documents").text
    # Without records, what is kept is still not written over.
    place.unlink()
    drop(reader, ("notes.md", NOTE * 2), replace=True)
    versions = get_data_folder() / documents._VERSIONS_FOLDER
    assert (versions / "1" / "notes.md").read_bytes() == NOTE


@pytest.mark.slow
def test_nobody_replaces_or_removes_what_another_reader_dropped(opened: Opened) -> None:
    opened = opened._replace(limits=LARGE)
    ada, ben = come_in(opened, "ada", "reader"), come_in(opened, "ben", "reader")
    eve = come_in(opened, "eve", "reviewer")
    for visit in (ada, ben, eve):
        visit.client.app.state.uploads = True  # type: ignore[attr-defined]
    drop(ada, ("notes.md", NOTE))
    assert "by ada" in ada.get("/documents").text
    assert "here already, ada's" in drop(ben, ("notes.md", JAYS), replace=True).text
    assert "Remove" not in ben.get("/documents").text
    refused = ben.post("/documents/remove", name="notes.md")
    assert refused.status == 403
    assert "ada's: only they or a reviewer" in refused.text
    assert search_files("colonies") == ["notes.md"]
    assert "notes.md is removed" in " ".join(
        ada.post("/documents/remove", name="notes.md").text.split()
    )
    first = {"name": "notes.md", "version": "1"}
    assert ben.post("/documents/restore", **first).status == 403
    assert ben.post("/documents/delete", **first).status == 403
    assert (
        ben.get("/documents").page.css_first(".documents") is None
    )  # what is removed is ada's alone
    drop(ben, ("notes.md", JAYS))  # the name is free, and what ada removed is still hers
    assert "added just now by ben" in ben.text
    assert ben.post("/documents/restore", **first).status == 403
    assert ben.post("/documents/delete", **first).status == 403
    # Nor does she take the place of what he has added since.
    refused = ada.post("/documents/restore", **first)
    assert refused.status == 403
    assert "ben's: only they or a reviewer" in refused.text
    assert search_files("acorns throat") == ["notes.md"]
    ben.post("/documents/remove", name="notes.md")
    ada.post("/documents/restore", **first)
    assert search_files("colonies") == ["notes.md"]
    assert "by ada" in ada.get("/documents").text
    eve.post("/documents/remove", name="notes.md")
    assert names() == []


@pytest.mark.slow
def test_plain_questions_search_what_was_dropped_in(reader: Visit) -> None:
    """Beside what the server was started on, which the page names."""
    answering: AnswerService = reader.client.app.state.answering  # type: ignore[attr-defined]
    answering.capabilities = msgspec.structs.replace(
        answering.capabilities, places={"corvids": BUNDLED_PLACE}, default_places=("corvids",)
    )
    drop(reader, ("notes.md", NOTE))
    assert answering.capabilities.default_places == ("corvids", "documents")
    listed = reader.get("/documents").page.css("[aria-labelledby^=started] .document a")
    assert "poem.html" in [each.text() for each in listed]
    boxes = reader.get("/").page.css("[name=place][checked]")
    assert [box.attributes["value"] for box in boxes] == ["corvids", "documents"]
    assert reader.get("/documents/open?name=corvids/poem.html").at.startswith("/pages/")
    for name in ("corvids/../__init__.py", "corvids/none.html", "/etc/passwd", "corvids"):
        assert reader.get(f"/documents/open?name={name}").status == 404
    unread = reader.get("/documents/unread")
    assert "spacer.png a picture" in unread.text
    assert "style.css by .rookeryignore" in unread.text


STRUCK = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    "<w:p><w:r><w:t>The tank costs 389 euros.</w:t></w:r></w:p>"
    "<w:p><w:r><w:rPr><w:strike/></w:rPr><w:t>It costs 5 euros.</w:t></w:r></w:p>"
    "</w:body></w:document>"
)
SUM = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    '<office:body><office:spreadsheet><table:table table:name="Costs"><table:table-row>'
    "<table:table-cell><text:p>Total</text:p></table:table-cell>"
    '<table:table-cell table:formula="of:=2*3"/>'
    "</table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"
)


SHEET = "application/vnd.oasis.opendocument.spreadsheet"


def pack(**parts: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.slow
def test_what_of_a_document_is_not_searched_stands_beside_it(reader: Visit, tmp_path: Path) -> None:
    """Beside uploaded ones and those that the server was started on, and on a page of its own."""
    started = tmp_path / "club"
    started.mkdir()
    (started / "costs.ods").write_bytes(pack(mimetype=SHEET, **{"content.xml": SUM}))
    (started / "plain.md").write_bytes(NOTE)
    answering: AnswerService = reader.client.app.state.answering  # type: ignore[attr-defined]
    answering.capabilities = msgspec.structs.replace(
        answering.capabilities, places={"club": str(started)}, default_places=("club",)
    )
    reader.get("/documents/open?name=club/costs.ods")  # which reads it
    drop(reader, ("minutes.docx", pack(**{"word/document.xml": STRUCK})), ("notes.md", NOTE))
    rows = {each.css("a")[0].text(): each.text() for each in reader.page.css(".documents > li")}
    told = {name: text.partition("Not all of it is searched")[2] for name, text in rows.items()}
    assert "formulas without a stored value" in told.pop("costs.ods")
    assert "hidden or struck-out text" in told.pop("The tank costs 389 euros.")
    assert set(told) == {"plain.md", "Rooks"}
    assert not any(told.values())
    unread = reader.get("/documents/unread").page.css("[aria-labelledby=parts] li")
    assert [each.css("a")[0].text() for each in unread] == [
        "The tank costs 389 euros.",
        "costs.ods",
    ]


NESTS = "Where do rooks nest?"


@pytest.mark.slow
def test_a_notebook_searches_the_documents_that_were_chosen(reader: Visit) -> None:
    with reader.client:  # its lifespan begins, and with it the answers
        drop(reader, ("jays.md", JAYS), ("notes.md", NOTE), ("more.md", NOTE * 2))
        boxes = reader.get("/notebook").page.css(".some-documents [name=place]")
        assert [box.attributes["value"] for box in boxes] == [
            "documents/jays.md",
            "documents/more.md",
            "documents/notes.md",
        ]
        assert "Jays jays.md" in reader.text
        asked = f"{NESTS}\nWhat do jays carry?"
        both = ["documents", "documents/jays.md"]  # the whole place is ticked beside
        until_done(reader.post("/notebook", questions=asked, place=both, decline="0.3"))
        first, second = (row.text() for row in reader.page.css(".notebook-row"))
        assert "colonies" not in first
        assert "acorns in the throat" in second
        assert reader.first("#title").attributes["value"] == f"{NESTS} and 1 other question"
        again = [box.attributes["value"] for box in reader.page.css("[name=place]")]
        assert again == ["documents/jays.md"]
        # A new version is what is searched from then on.
        drop(reader, ("jays.md", NOTE), replace=True)
        until_done(reader.post("/notebook", questions=NESTS, place=["documents/jays.md"]))
        assert "colonies of a hundred pairs" in reader.text
        reader.post("/documents/remove", name="jays.md")
        gone = reader.post("/notebook", questions=NESTS, place=["documents/jays.md"])
        assert gone.status == 400
        assert "A document that was chosen is not there any more" in gone.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["documents/..", "documents/../keep.md", "documents/.hidden", "other/notes.md"]
)
def test_only_documents_can_be_chosen_one_by_one(reader: Visit, name: str) -> None:
    drop(reader, ("notes.md", NOTE))
    folder = documents.get_documents_folder()
    (folder.parent / "keep.md").write_bytes(NOTE)
    (folder / ".hidden").write_bytes(NOTE)
    assert reader.post("/notebook", questions=NESTS, place=[name]).status == 400
    assert reader.get("/notebook").page.css_first(".some-documents") is None  # there is one alone


BAD = (
    (
        "a.exe",
        b"MZ\x90\0",
        "a program: HTML, PDF, Office documents, e-books, mail, Markdown and any text are read",
    ),
    ("a", bytes(range(256)), "its bytes are not text: HTML, PDF"),
    ("a.pdf", b"%PDF-1.7 broken", "it is damaged or no PDF"),
    ("a.docx", b"PK\x03\x04 broken", "of a type that is not read: HTML, PDF"),
    ("b.txt", b"", "nothing in it"),
    ("b.html", b"\x89PNG\r\n\x1a\n" + bytes(200), "a picture; text is read in"),
)


@pytest.mark.slow
def test_what_cannot_be_read_is_not_kept_and_why_is_said(
    reader: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(reader, *((name, data) for name, data, _ in BAD), ("notes.md", NOTE))
    assert names() == ["notes.md"]
    said = [item.text() for item in reader.page.css("#uploads li.failed > span")]
    assert [line.partition(":")[0] for line in said] == [name for name, _, _ in BAD]
    for line, (_, _, reason) in zip(said, BAD, strict=True):
        assert reason in line
    assert reader.first("#kept").text() == "Documents that were added (1 document)"
    assert reader.get("/documents").page.css_first("#uploads") is not None
    upload = list_uploads()[0].id
    assert reader.post("/documents/dismiss", id=upload).text.count("not kept") == len(BAD) - 1
    page = drop(reader, (".md", NOTE)).html
    assert page.index('id="uploads"') < page.index('name="files"')  # where the form is
    assert [" ".join(one.text().split()) for one in reader.page.css("#uploads li")] == [".md: read"]
    monkeypatch.setattr(document_pages, "NEWS_SECONDS", 0.0)
    assert reader.get("/documents").page.css_first("#uploads") is None
    assert names() == ["document.md", "notes.md"]


@pytest.mark.slow
def test_a_quote_keeps_the_picture_of_its_page_until_the_document_is_deleted(reader: Visit) -> None:
    drop(reader, ("report.pdf", REPORT))
    quoted = str(reader.first(".document a").attributes["href"])
    reader.post("/documents/remove", name="report.pdf")
    seen = reader.get(f"{quoted}?start=0&end=20")
    assert seen.page.css("svg rect.quoted")
    reader.post("/documents/delete", name="report.pdf", version="1")
    assert reader.get(f"{quoted}?start=0&end=20").status == 404


def test_what_lies_in_the_folder_without_a_record_is_a_first_version(reader: Visit) -> None:
    """As version 0.1 left it."""
    folder = documents.get_documents_folder()
    folder.mkdir(parents=True)
    (folder / "old.md").write_bytes(NOTE)
    assert "old.md · version 1 · 52 Bytes · 49 characters" in reader.get("/documents").text
    assert reader.first(".document a").text() == "Rooks"
    assert reader.post("/documents/remove", name="old.md").status == 403  # nobody knows whose


@pytest.mark.slow
def test_a_worse_file_does_not_take_the_place_of_a_good_one(reader: Visit) -> None:
    drop(reader, ("report.pdf", REPORT))
    drop(reader, ("report.pdf", b"%PDF-1.7 broken"), replace=True)
    assert (documents.get_documents_folder() / "report.pdf").read_bytes() == REPORT


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["../../evil.md", "/etc/evil.md", "..\\..\\evil.md", "a/../../evil.md", "evil.md\x00.md"],
)
def test_no_file_goes_anywhere_else(reader: Visit, home: Path, name: str) -> None:
    drop(reader, (name, NOTE))
    inside = [path for path in home.rglob("*.md") if path.is_file()]
    assert [path.parent for path in inside] == [documents.get_documents_folder()]


@pytest.mark.slow
@given(st.text(max_size=300))
def test_any_name_becomes_a_safe_one(name: str) -> None:
    safe = make_safe_file_name(name)
    assert safe not in ("", ".", "..")
    assert not safe.startswith((".", " "))
    assert "/" not in safe
    assert "\\" not in safe
    assert safe.isprintable()
    assert len(safe.encode()) <= 120
    assert make_safe_file_name(safe) == safe


@given(st.text(max_size=400), st.sampled_from(sorted(READER_OF_ENDING)))
def test_a_name_keeps_what_it_says_of_the_kind(stem: str, kind: str) -> None:
    safe = make_safe_file_name(f"{stem}.{kind}")
    assert safe.endswith(f".{kind}")
    assert len(safe.encode()) <= 120


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a" * 300 + ".txt", "a" * 116 + ".txt"),
        ("a" * 110 + ". " + "b" * 400, "a" * 8 + ". " + "b" * 110),
        ("." + "é" * 300, "document." + "é" * 55),
        ("a" * 300 + "." + "é" * 20, "a" * 79 + "." + "é" * 20),
        ("é" * 300, "é" * 60),
    ],
)
def test_a_name_is_shortened_to_what_file_systems_take(name: str, safe: str) -> None:
    assert make_safe_file_name(name) == safe


@pytest.mark.slow
def test_a_file_that_is_too_large_is_refused_alone(opened: Opened, home: Path) -> None:
    visit = at_home(opened._replace(limits=LARGE))
    drop(visit, ("large.txt", b"x" * (UploadLimits().file + 1)), ("notes.md", NOTE))
    assert names() == ["notes.md"]
    assert "more than 20 MB" in visit.text


def test_more_than_may_be_sent_at_once_is_refused(opened: Opened) -> None:
    visit = at_home(opened)
    assert drop(visit, ("large.txt", b"x" * 50_000_001)).status == 413
    many = [(f"{n}.md", NOTE) for n in range(UploadLimits().at_once + 1)]
    assert drop(visit, *many).status == 400
    assert "at most 20 files" in visit.text
    assert names() == []


@pytest.mark.slow
def test_where_there_is_no_more_room_nothing_is_added(reader: Visit) -> None:
    set_limits(reader, UploadLimits(files=2))
    drop(reader, ("a.md", NOTE), ("b.md", NOTE))
    assert "no more room" in drop(reader, ("c.md", NOTE)).text
    assert names() == ["a.md", "b.md"]
    drop(reader, ("b.md", NOTE * 2), replace=True)  # in its place
    assert (documents.get_documents_folder() / "b.md").read_bytes() == NOTE * 2


@pytest.mark.slow
def test_documents_take_no_more_room_than_there_is(reader: Visit) -> None:
    set_limits(reader, UploadLimits(bytes=2 * len(NOTE)))
    drop(reader, ("a.md", NOTE), ("b.md", NOTE))  # just as much as may be
    for name, data in (("c.md", b"Rooks"), ("b.md", NOTE + b"more")):
        assert "no more room" in drop(reader, (name, data), replace=True).text
    assert "no more room" not in drop(reader, ("b.md", NOTE[:-1]), replace=True).text
    assert names() == ["a.md", "b.md"]


def set_limits(visit: Visit, limits: UploadLimits) -> None:
    state = visit.client.app.state  # type: ignore[attr-defined]
    state.documents = DocumentReader(Settings(), state.answering, limits)


# Where a form ends in the middle, the parser leaves its temporary file to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("content", ["text/plain", "multipart/form-data; boundary=x", "a;b"])
def test_a_broken_form_breaks_nothing(reader: Visit, content: str) -> None:
    body = b"--x\r\nContent-Disposition: form-data; name=files; filename=a.md\r\n\r\nhalf of it"
    got = reader.client.post("/documents", content=body, headers={"Content-Type": content})
    assert got.status_code in (200, 400)
    assert names() == []


def test_only_who_is_in_and_may_drops_files(opened: Opened) -> None:
    stranger = Visit(opened.client(), "nobody")
    assert drop(stranger, ("notes.md", NOTE)).status == 403
    assert stranger.get("/documents").status == 401
    closed = at_home(opened, uploads=False)
    assert drop(closed, ("notes.md", NOTE)).status == 403
    assert closed.get("/documents").page.css_first("input[type=file]") is None
    assert names() == []


@pytest.mark.parametrize(
    ("site", "client", "may"),
    [
        ("http://127.0.0.1:8500", "127.0.0.1", True),
        ("http://localhost:8500", "::1", True),
        ("http://[::1]:8500", "::1", True),
        ("http://desk.example", "127.0.0.1", False),
        ("http://127.0.0.1:8500", "192.0.2.7", False),
        ("http://localhost.evil.example", "127.0.0.1", False),
    ],
)
def test_documents_are_taken_on_this_machine_alone_unless_allowed(
    opened: Opened, site: str, client: str, may: bool
) -> None:
    visit = at_home(opened, uploads=None)
    there = TestClient(visit.client.app, base_url=site, client=(client, 50000))
    there.cookies = visit.client.cookies
    cookie = "; ".join(f"{c.name}={c.value}" for c in visit.client.cookies.jar)
    seen = there.get("/documents", headers={"Cookie": cookie})
    assert ('type="file"' in seen.text) == may


@pytest.mark.slow
def test_a_document_is_removed_by_its_name_and_nothing_else_is(opened: Opened, home: Path) -> None:
    visit = at_home(opened._replace(limits=LARGE), "reviewer")
    drop(visit, ("notes.md", NOTE), ("report.pdf", REPORT))
    other = get_data_folder() / "keep.md"
    other.write_bytes(NOTE)
    for name in ("../keep.md", str(other), "", "nothing.md"):
        assert visit.post("/documents/remove", name=name).status == 404
    assert other.exists()
    assert "1 document" in visit.post("/documents/remove", name="notes.md").text
    assert search_files("colonies of rooks") == []
    visit.post("/documents/remove", name="report.pdf")
    assert visit.page.css_first("#kept") is None
    assert "documents" not in _places(visit)


@pytest.mark.slow
def test_many_who_drop_at_once_lose_nothing(reader: Visit) -> None:
    def one(number: int) -> None:
        drop(Visit(reader.client, "x"), (f"{number}.md", NOTE + str(number).encode()))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names() == [f"{n}.md" for n in range(4)]
    assert "4 documents" in reader.get("/documents").text


@pytest.mark.slow
def test_an_upload_returns_at_once_and_is_listed_as_being_read(
    reader: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are read while nobody waits, and each is asked as soon as it is read."""
    began, go_on = threading.Event(), threading.Event()

    def read_later(paths: Sequence[Path]) -> Iterator[Page | Failure]:
        if paths[0].name == "slow.md":
            began.set()
            assert go_on.wait(SECONDS)
        return read_document_files(paths)

    monkeypatch.setattr(documents, "read_document_files", read_later)
    send(reader, ("notes.md", NOTE), ("slow.md", JAYS))
    assert began.wait(SECONDS)
    assert "1 of 2 files" in reader.get("/documents").text
    said = [" ".join(item.text().split()) for item in reader.page.css("#uploads li")]
    assert said == ["notes.md: read", "slow.md: being read"]
    assert reader.first("progress").attributes["value"] == "1"
    assert search_files("colonies") == ["notes.md"]
    assert "documents" in _places(reader)
    go_on.set()
    until_read(reader)
    assert [" ".join(one.text().split()) for one in reader.page.css("#uploads :is(h2, li)")] == [
        "Added",
        "notes.md: read",
        "slow.md: read",
    ]
    assert "2 documents" in reader.text


@pytest.mark.slow
def test_an_upload_survives_the_end_of_the_server(opened: Opened, reader: Visit) -> None:
    """A server that begins goes on with it; one that was read too often is given up."""
    state = reader.client.app.state  # type: ignore[attr-defined]
    state.documents.close()  # nothing is begun any more, as in a server that ends
    send(reader, ("notes.md", NOTE), ("evil.md", JAYS), ("lost.md", JAYS))
    assert "waiting" in reader.text
    first, evil, lost = list_uploads()
    for upload, tries in ((first, 1), (evil, documents.MAX_TRIES), (lost, 0)):
        left = msgspec.structs.replace(upload, state="reading", tries=tries)
        documents._save_upload(left)
    (documents._get_upload_folder(lost) / "lost.md").unlink()
    after = come_in(opened._replace(limits=LARGE), "the reader", "reader")
    with after.client:  # its lifespan begins
        until_read(after.get("/documents"))
    assert names() == ["notes.md"]
    assert [item.text() for item in after.page.css("#uploads li > span")] == [
        "notes.md: read",
        "evil.md: not kept: reading it was broken off again and again: try it in another format",
        "lost.md: not kept: its upload was broken off: upload it again",
    ]


@pytest.mark.slow
def test_another_process_searches_what_was_dropped_in_here(opened: Opened, reader: Visit) -> None:
    other = at_home(opened, "reviewer")  # an application of its own on the same folders
    other.get("/")
    assert "documents" not in _places(other)
    drop(reader, ("notes.md", NOTE))
    other.get("/")
    assert "documents" in _places(other)


async def wait_for_end(answering: AnswerService, question: str) -> None:
    number, kind = -1, ""
    while kind not in FINAL_EVENTS:
        *_, last = await answering.wait_for_events(question, number, SECONDS)
        number, kind = last.number, last.kind


@pytest.mark.slow
def test_a_document_that_was_removed_meanwhile_is_told(
    opened: Opened, reader: Visit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = {"Authorization": f"Bearer {endpoints.create_api_key(opened.store, 'a program')}"}
    answering: AnswerService = reader.client.app.state.answering  # type: ignore[attr-defined]
    drop(reader, ("notes.md", NOTE))
    body = {"question": "Where do rooks nest?", "places": ["documents/notes.md"], "wait": False}
    with hold_workers(answering, count_cores()):
        asked = reader.client.post("/v1/answers", json=body, headers=key).json()["id"]
        reader.post("/documents/remove", name="notes.md")
    (tmp_path / "notes.md").write_bytes(NOTE)
    monkeypatch.chdir(tmp_path)  # a file of this name where the server runs is nobody's document
    with ThreadPoolExecutor(1) as threads:  # in this one the browser of other tests has its loop
        threads.submit(asyncio.run, wait_for_end(answering, asked)).result()
    record = reader.client.get(f"/v1/answers/{asked}", headers=key).json()
    assert record["state"] == "failed"
    assert "a document that was chosen is not there any more" in record["text"]
    now = reader.client.post("/v1/answers", json={**body, "wait": True}, headers=key)
    answering.close()
    assert (now.status_code, now.json()["error"]["code"]) == (404, "unknown_place")


@pytest.mark.slow
def test_a_program_asks_another_process_about_what_was_dropped_in_here(
    opened: Opened, reader: Visit
) -> None:
    program = opened.client()
    key = endpoints.create_api_key(opened.store, "a program")
    drop(reader, ("notes.md", NOTE))
    said = program.post(
        "/v1/answers",
        json={"question": "In colonies of how many pairs do rooks nest?", "places": ["documents"]},
        headers={"Authorization": f"Bearer {key}"},
    )
    program.app.state.answering.close()  # type: ignore[attr-defined]
    assert said.status_code == 200, said.text
    assert "a hundred pairs" in said.text


@pytest.mark.parametrize("moved", [0, 1])
def test_a_change_that_was_broken_off_is_finished(home: Path, moved: int) -> None:
    """Killed after the record was written, or between the moves of two files."""
    folder = documents.get_documents_folder()
    folder.mkdir(parents=True)
    with documents.lock_documents():
        for number, data in enumerate((NOTE, JAYS), 1):
            (folder.parent / "new").write_bytes(data)
            text = DocumentText("", "", 1)
            documents.add_document_version("a.md", folder.parent / "new", "", number, text)
        record = msgspec.structs.replace(load_document_records()["a.md"], current=1)
        place = get_data_folder() / documents._RECORDS_FILE
        place.write_bytes(msgspec.json.encode({"a.md": record}))
        if moved:
            (folder / "a.md").replace(documents._get_version_path("a.md", 2))
    documents.recover_documents()
    assert (folder / "a.md").read_bytes() == NOTE
    assert documents._get_version_path("a.md", 2).read_bytes() == JAYS
    documents.recover_documents()
    assert (folder / "a.md").read_bytes() == NOTE


@pytest.mark.slow
def test_a_hostile_document_is_only_text(reader: Visit) -> None:
    evil = "# <script>alert(1)</script>\u202e\n\n" + "<img onerror=alert(1) src=x> words."
    drop(reader, ("<b>x</b>\u202e.md", evil.encode()))
    assert all("nonce" in script.attributes for script in reader.page.css("script"))
    assert "\u202e" not in reader.html
    assert not reader.page.css("main img, main b")


@pytest.mark.slow
def test_documents_are_dropped_in_and_asked_in_a_browser(site: Site, home: Path) -> None:
    notes = home / "notes.md"
    notes.write_bytes(NOTE)
    with site.window("rita", "reader") as (window, said):
        window.goto("/documents")
        window.set_input_files("input[type=file]", notes)
        window.get_by_role("button", name="Upload").click()
        # The first document brings the form to ask it, without anybody loading the page again.
        expect(window.get_by_role("link", name="Rooks")).to_be_visible()
        for width in (360, 768, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            assert flaws(window) == []
            wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert window.evaluate(wide)
        window.get_by_label("Search notes.md").check()
        window.get_by_label("Ask these documents").fill("Where do rooks nest?")
        window.get_by_role("button", name="Ask", exact=True).click()
        expect(window.locator("main")).to_contain_text("in colonies of a hundred pairs")
        assert said == []


def find_bytes(word: bytes) -> list[str]:
    """Return the files of the data folder and the cache that hold a word, compressed or not."""
    found = list[str]()
    for root in (get_data_folder(), get_cache_folder()):
        for file in root.rglob("*"):
            if file.is_file() and word in file.read_bytes():
                found.append(file.name)
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        found += [page.url for page in archive.iter_pages() if word.decode() in page.text]
    return found


@pytest.mark.slow
def test_a_version_that_is_deleted_for_good_leaves_no_byte_behind(reader: Visit) -> None:
    drop(reader, ("rare.md", b"# Rare\n\nQuibblesnorts hatch in the belfry.\n"), ("notes.md", NOTE))
    assert find_bytes(b"uibblesnort")
    reader.post("/documents/remove", name="rare.md")
    assert search_files("Quibblesnorts belfry") == []
    reader.post("/documents/delete", name="rare.md", version="1")
    assert find_bytes(b"uibblesnort") == []
    assert search_files("colonies") == ["notes.md"]
