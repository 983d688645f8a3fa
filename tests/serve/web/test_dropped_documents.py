"""Documents dropped in: read, searched, removed; what cannot be kept is refused with its reason."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from shelves import come_in, own_home
from starlette.testclient import TestClient
from visits import Opened, Visit
from windows import Site, flaws

from rookery.browse.file_selection import READER_OF_ENDING
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.libraries import BUNDLED_PLACE, get_bundled_folder
from rookery.browse.page_archive import PageArchive
from rookery.records import Failed
from rookery.serve.api.answer_workers import AnswerService
from rookery.serve.settings import ARCHIVE, get_cache_folder, get_data_folder
from rookery.serve.web import documents
from rookery.serve.web.documents import UploadLimits, make_safe_file_name
from rookery.serve.web.security import VisitorLimits

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


def drop(visit: Visit, *files: tuple[str, bytes], replace: bool = False) -> Visit:
    """Sends files, and looks at what came of it."""
    got = visit.client.post(
        "/documents",
        data={"replace": "yes"} if replace else {},
        files=[("files", file) for file in files],
    )
    return visit._seen(got)


def names() -> list[str]:
    place = documents.get_documents_folder()
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


def found(query: str) -> list[str]:
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
    assert found("colonies of rooks") == ["notes.md"]
    places = _places(reader)
    assert places["documents"] == str(documents.get_documents_folder())
    link = next(a for a in seen.page.css(".document a") if a.text() == "Rooks")
    assert "colonies of a hundred pairs" in reader.get(link.attributes["href"] or "").text


JAYS = b"# Jays\n\nJays carry acorns in the throat.\n"


@pytest.mark.slow
def test_a_file_of_the_same_name_replaces_the_former_if_that_is_asked_for(reader: Visit) -> None:
    drop(reader, ("notes.md", NOTE))
    seen = drop(reader, ("notes.md", JAYS))
    assert "a document of this name is here already, the reader's" in seen.text
    assert found("colonies") == ["notes.md"]
    assert "Not kept" not in drop(reader, ("notes.md", NOTE)).text  # the same once more
    drop(reader, ("notes.md", JAYS), replace=True)
    assert names() == ["notes.md"]
    assert found("acorns throat") == ["notes.md"]
    assert found("colonies") == []
    reader.post("/documents/restore", name="notes.md")
    assert found("colonies") == ["notes.md"]
    reader.post("/documents/restore", name="notes.md")  # the other way round
    assert found("acorns throat") == ["notes.md"]
    reader.post("/documents/delete", name="notes.md")
    assert reader.post("/documents/restore", name="notes.md").status == 404
    assert found("acorns throat") == ["notes.md"]


@pytest.mark.slow
def test_nobody_replaces_or_removes_what_another_reader_dropped(opened: Opened) -> None:
    opened = opened._replace(limits=LARGE)
    ada, ben = come_in(opened, "ada", "reader"), come_in(opened, "ben", "reader")
    eve = come_in(opened, "eve", "reviewer")
    for visit in (ada, ben, eve):
        visit.client.app.state.uploads = True  # type: ignore[attr-defined]
    drop(ada, ("notes.md", NOTE))
    assert "added by ada" in ada.get("/documents").text
    assert "here already, ada's" in drop(ben, ("notes.md", JAYS), replace=True).text
    assert "Remove" not in ben.get("/documents").text
    refused = ben.post("/documents/remove", name="notes.md")
    assert refused.status == 403
    assert "ada's: only they or a reviewer" in refused.text
    assert found("colonies") == ["notes.md"]
    assert "notes.md is removed" in " ".join(
        ada.post("/documents/remove", name="notes.md").text.split()
    )
    assert ben.post("/documents/restore", name="notes.md").status == 403
    assert ben.post("/documents/delete", name="notes.md").status == 403
    drop(ben, ("notes.md", JAYS))  # the name is free, and what ada removed is still hers
    assert ben.post("/documents/restore", name="notes.md").status == 403
    assert ben.post("/documents/delete", name="notes.md").status == 403
    ada.post("/documents/restore", name="notes.md")
    assert found("colonies") == ["notes.md"]
    assert "added by ada" in ada.get("/documents").text
    eve.post("/documents/remove", name="notes.md")
    assert names() == []


def test_plain_questions_search_what_was_dropped_in(reader: Visit) -> None:
    """Beside what the server was started on, which the page names."""
    answering: AnswerService = reader.client.app.state.answering  # type: ignore[attr-defined]
    answering.capabilities = msgspec.structs.replace(
        answering.capabilities, places={"corvids": BUNDLED_PLACE}, default_places=("corvids",)
    )
    drop(reader, ("notes.md", NOTE))
    assert answering.capabilities.default_places == ("corvids", "documents")
    assert "The server was also started on corvids" in reader.get("/documents").text
    boxes = reader.get("/").page.css("[name=place][checked]")
    assert [box.attributes["value"] for box in boxes] == ["corvids", "documents"]


BAD = (
    (
        "a.exe",
        b"MZ\x90\0",
        "a program: HTML, PDF, Office documents, e-books, mail, Markdown and any text are read",
    ),
    ("a", bytes(range(256)), "its bytes are not text: HTML, PDF"),
    ("a.pdf", b"%PDF-1.7 broken", "cannot be opened"),
    ("a.docx", b"PK\x03\x04 broken", "of a type that is not read: HTML, PDF"),
    ("b.txt", b"", "nothing in it"),
    ("b.html", b"\x89PNG\r\n\x1a\n" + bytes(200), "a picture; text is read in"),
)


@pytest.mark.slow
def test_what_cannot_be_read_is_not_kept_and_why_is_said(reader: Visit) -> None:
    drop(reader, *((name, data) for name, data, _ in BAD), ("notes.md", NOTE))
    assert names() == ["notes.md"]
    said = [item.text() for item in reader.page.css("#failed li")]
    assert [line.partition(":")[0] for line in said] == [name for name, _, _ in BAD]
    for line, (_, _, reason) in zip(said, BAD, strict=True):
        assert reason in line
    assert "1 document" in reader.text
    assert reader.get("/documents").page.css_first("#failed") is not None
    assert drop(reader, (".md", NOTE)).page.css_first("#failed") is None
    assert names() == ["document.md", "notes.md"]


def test_a_worse_file_does_not_take_the_place_of_a_good_one(reader: Visit) -> None:
    drop(reader, ("report.pdf", REPORT))
    drop(reader, ("report.pdf", b"%PDF-1.7 broken"), replace=True)
    assert (documents.get_documents_folder() / "report.pdf").read_bytes() == REPORT


@pytest.mark.parametrize(
    "name",
    ["../../evil.md", "/etc/evil.md", "..\\..\\evil.md", "a/../../evil.md", "evil.md\x00.md"],
)
def test_no_file_goes_anywhere_else(reader: Visit, home: Path, name: str) -> None:
    drop(reader, (name, NOTE))
    inside = [path for path in home.rglob("*.md") if path.is_file()]
    assert [path.parent for path in inside] == [documents.get_documents_folder()]


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


def test_where_there_is_no_more_room_nothing_is_added(home: Path) -> None:
    small = documents.DocumentPages(UploadLimits(files=2))
    documents.get_documents_folder().mkdir(parents=True)
    for name in ("a.md", "b.md"):
        small._store_file(documents.UploadedFile(name, NOTE, len(NOTE)), "ada", False)
    with pytest.raises(Failed) as caught:
        small._store_file(documents.UploadedFile("c.md", NOTE, len(NOTE)), "ada", False)
    assert caught.value.failure.outcome == "too_many"
    assert names() == ["a.md", "b.md"]
    twice = documents.UploadedFile("b.md", NOTE * 2, 2 * len(NOTE))
    small._store_file(twice, "ada", True)  # in its place
    assert (documents.get_documents_folder() / "b.md").read_bytes() == NOTE * 2


def test_documents_take_no_more_room_than_there_is(home: Path) -> None:
    small = documents.DocumentPages(UploadLimits(bytes=2 * len(NOTE)))
    documents.get_documents_folder().mkdir(parents=True)

    def keep(name: str, data: bytes) -> None:
        small._store_file(documents.UploadedFile(name, data, len(data)), "ada", True)

    keep("a.md", NOTE)
    keep("b.md", NOTE)  # just as much as may be
    for name, data in (("c.md", b"Rooks"), ("b.md", NOTE + b"more")):
        with pytest.raises(Failed) as caught:
            keep(name, data)
        assert caught.value.failure.outcome == "too_many"
    keep("b.md", NOTE[:-1])
    assert names() == ["a.md", "b.md"]


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
    assert found("colonies of rooks") == []
    assert "Nothing is here yet" in visit.post("/documents/remove", name="report.pdf").text
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
        expect(window.get_by_role("link", name="Rooks")).to_be_visible()
        for width in (360, 768, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            assert flaws(window) == []
            wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert window.evaluate(wide)
        window.get_by_label("Ask these documents").fill("Where do rooks nest?")
        window.get_by_role("button", name="Ask", exact=True).click()
        expect(window.locator("main")).to_contain_text("in colonies of a hundred pairs")
        assert said == []
