"""Documents added by their address: fetched, kept, versioned; what cannot be had is said why."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from playwright.sync_api import expect
from shelves import REPORT, come_in, own_home
from test_document_pages import at_home, drop, names, search_files, until_read
from visits import Opened, Visit
from windows import Site, flaws, serving

from rookery.errors import Failed
from rookery.network.fetcher import FetchResponse
from rookery.server import documents
from rookery.server.app import build_web_app
from rookery.server.documents import (
    DocumentReader,
    UploadLimits,
    list_uploads,
    load_document_records,
    name_fetched_file,
    normalize_address,
    write_encoding,
)
from rookery.settings import Settings

ROOKS = "<title>Rooks</title><p>Rooks nest in colonies of a hundred pairs.</p>"
JAYS = "<title>Jays</title><p>Jays carry acorns in the throat.</p>"
ReplyParts = tuple[int, str, bytes]
HTML = "text/html; charset=utf-8"


class Guides(BaseHTTPRequestHandler):
    """A site whose pages a test writes."""

    pages: ClassVar[dict[str, ReplyParts]] = {}

    def do_GET(self) -> None:
        status, kind, body = self.pages.get(self.path, (404, HTML, b"no"))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", body.decode())
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache of the test's own."""
    yield from own_home(tmp_path, monkeypatch)


@pytest.fixture
def guides() -> Iterator[str]:
    """The address of that site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guides)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
    Guides.pages.clear()


def at_desk(opened: Opened, settings: Settings, name: str = "rita") -> Visit:
    """A reader of a desk with these settings, which takes documents."""
    visit = come_in(opened, name)
    visit.client.app = app = build_web_app(opened.store, settings, opened.limits)
    visit.client._transport.app = app  # type: ignore[attr-defined]
    app.state.uploads = True
    return visit


@pytest.fixture
def reader(opened: Opened) -> Visit:
    """A reader of a desk that may fetch from this machine, as the test's site is on it."""
    return at_desk(opened, Settings(private=True))


def add(visit: Visit, address: str) -> Visit:
    """Adds an address, and waits until it is fetched and read."""
    return until_read(visit.post("/documents/address", address=address))


def say(path: str, body: str | bytes, kind: str = HTML, status: int = 200) -> None:
    Guides.pages[path] = (status, kind, body.encode() if isinstance(body, str) else body)


@pytest.mark.slow
def test_a_page_is_added_by_its_address_and_asked(reader: Visit, guides: str) -> None:
    say("/guide", ROOKS)
    seen = add(reader, f"  {guides}/guide#colonies ")
    assert seen.status == 200
    assert "1 document" in seen.text
    assert f"{guides}/guide" in seen.text
    assert "fetched just now by rita" in seen.text
    [(name, record)] = load_document_records().items()
    assert name.startswith("127.0.0.1")
    assert name.endswith(" guide.html")
    assert record.versions[0].address == f"{guides}/guide"
    assert search_files("colonies of rooks") == [name.replace(" ", "%20")]
    # The stored page says where it is from, and leads there.
    page = reader.get(str(reader.first(".document a").attributes["href"]))
    assert page.first(".shown-ways a").attributes["href"] == f"{guides}/guide"
    assert "127.0.0.1" in page.first(".eyebrow").text()


@pytest.mark.slow
def test_what_is_fetched_again_becomes_a_version_if_that_is_confirmed(
    reader: Visit, guides: str
) -> None:
    say("/guide", ROOKS)
    add(reader, f"{guides}/guide")
    [name] = names()
    say("/guide", ROOKS + "<!-- another visitor -->")
    until_read(reader.post("/documents/fetch", name=name))
    assert "it is here already, unchanged" in reader.text
    say("/guide", JAYS)
    until_read(reader.post("/documents/fetch", name=name))
    assert "it has changed since version 1, fetched just now by rita" in reader.text
    assert search_files("colonies") == [name.replace(" ", "%20")]
    upload = str(reader.first("[action='/documents/confirm'] button").attributes["value"])
    until_read(reader.post("/documents/confirm", id=upload))
    assert "version 2" in reader.first(".document").text()
    assert "1 other version" in reader.text
    assert search_files("colonies") == []
    assert search_files("acorns throat") == [name.replace(" ", "%20")]


@pytest.mark.slow
def test_nobody_fetches_what_is_another_readers_again(opened: Opened, guides: str) -> None:
    say("/guide", ROOKS)
    rita, ben = (at_desk(opened, Settings(private=True), name) for name in ("rita", "ben"))
    add(rita, f"{guides}/guide")
    [name] = names()
    assert ben.get("/documents").page.css_first("[action='/documents/fetch']") is None
    assert ben.post("/documents/fetch", name=name).status == 403
    say("/guide", JAYS)
    assert "it is here already as a document of somebody else" in add(ben, f"{guides}/guide").text
    assert search_files("colonies") != []


@pytest.mark.slow
def test_other_addresses_and_uploads_of_the_same_name_are_other_documents(
    reader: Visit, guides: str
) -> None:
    for path, body in (("/guide?part=1", ROOKS), ("/guide?part=2", JAYS)):
        say(path, body)
        add(reader, guides + path)
    [second, first] = names()
    assert search_files("colonies") == [first.replace(" ", "%20")]
    assert search_files("acorns throat") == [second.replace(" ", "%20")]
    drop(reader, (first, b"# Ravens"))
    assert "there is a document of this name, version 1, fetched just now" in reader.text
    assert names() == [second, first]


@pytest.mark.slow
def test_what_cannot_be_had_is_said_in_sentences(reader: Visit, guides: str) -> None:
    say("/picture", b"\x89PNG\r\n\x1a\n" + bytes(99), "image/png")
    say("/circle", "/circle", status=302)
    say("/broken", b"", status=503)
    say("/login", b"", status=401)
    say("/teapot", b"", status=418)
    say("/inward", "http://169.254.169.254/latest/meta-data", status=302)
    say("/app", "<html><body><div id=root></div><script src=a.js></script></body></html>")
    say("/none", b"")
    refused = {
        f"{guides}/nothing": "there is no such page on the site: check the address",
        f"{guides}/picture": "what stands there holds no text",
        f"{guides}/circle": "sends on without an end",
        f"{guides}/broken": "the site has a failure of its own",
        f"{guides}/login": "the site wants a login",
        f"{guides}/teapot": "the site does not give this page out",
        f"{guides}/inward": "it leads to a private network",
        f"{guides}/app": "script",
        f"{guides}/none": "the page shows no text",
        "https://no-such-site.invalid/": "there is no site of this name",
        "ftp://example.org/a": "only addresses that begin with https",
        "https://ada:secret@example.org/": "this is no address",
        "https://": "this is no address",
        "what is a rook": "this is no address",
        "": "this is no address",
    }
    for address, sentence in refused.items():
        assert sentence in add(reader, address).text, address
    assert names() == []
    reader.client.cookies.set("language", "de")
    assert "eine solche Seite gibt es dort nicht" in add(reader, f"{guides}/nothing").text


def test_robots_are_obeyed(reader: Visit, guides: str) -> None:
    say("/robots.txt", "User-agent: *\nDisallow: /closed", "text/plain")
    say("/closed", ROOKS)
    assert "does not let programs read this page" in add(reader, f"{guides}/closed").text
    assert names() == []


def test_no_address_of_this_machine_is_fetched_unless_allowed(opened: Opened, guides: str) -> None:
    """Nor is one that a name leads to."""
    say("/guide", ROOKS)
    visit = at_desk(opened, Settings())
    for host in ("127.0.0.1", "localhost", "0", "[::ffff:127.0.0.1]"):
        address = f"{guides.replace('127.0.0.1', host)}/guide"
        assert "it leads to a private network" in add(visit, address).text
    assert names() == []


def test_what_is_too_large_is_not_kept(opened: Opened, guides: str) -> None:
    visit = at_desk(opened, Settings(private=True))
    state = visit.client.app.state  # type: ignore[attr-defined]
    limits = UploadLimits(file=len(ROOKS) - 1)
    state.documents = DocumentReader(Settings(private=True), state.answering, limits)
    say("/guide", ROOKS)
    assert "it is larger than what is fetched" in add(visit, f"{guides}/guide").text
    assert names() == []


def test_a_server_that_is_offline_fetches_nothing(opened: Opened, guides: str) -> None:
    say("/guide", ROOKS)
    visit = at_desk(opened, Settings(offline=True, private=True))
    page = visit.get("/documents").page
    assert page.css_first("input[type=file]") is not None
    assert page.css_first("[name=address]") is None
    for post, value in (("address", f"{guides}/guide"), ("fetch", "a.html")):
        refused = visit.post(f"/documents/{post}", address=value, name=value)
        assert refused.status == 403
        assert "this server does not fetch them" in refused.text
    assert list_uploads() == []


def test_who_may_not_upload_may_not_add_addresses(opened: Opened, guides: str) -> None:
    closed = at_home(opened, uploads=False)
    assert closed.post("/documents/address", address=f"{guides}/guide").status == 403
    assert Visit(opened.client(), "x").post("/documents/address", address=guides).status == 401
    assert list_uploads() == []


@pytest.mark.slow
def test_files_are_read_before_pages_of_slow_sites(
    reader: Visit, guides: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def fetch_later(address: str, settings: Settings) -> FetchResponse:
        assert go_on.wait(60)
        return documents.fetch_address(address, settings)

    monkeypatch.setattr("rookery.server.documents.fetch_address", fetch_later)
    say("/guide", ROOKS)
    for number in range(2):
        reader.post("/documents/address", address=f"{guides}/guide?{number}")
    assert "being fetched" in reader.get("/documents").text or "waiting" in reader.text
    reader.client.post("/documents", files=[("files", ("notes.md", b"# Ravens\n\nThey play."))])
    order = [upload.name or upload.address for upload in list_uploads() if upload.going]
    assert order[-1] == "notes.md"
    go_on.set()
    until_read(reader.get("/documents"))
    assert names() == ["notes.md"]  # no page has a query


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("example.org/guide", "https://example.org/guide"),
        ("example.org:8080", "https://example.org:8080/"),
        ("HTTP://Example.org/a b", "http://example.org/a%20b"),
        ("https://bücher.example/ä#teil", "https://xn--bcher-kva.example/%C3%A4"),
    ],
)
def test_addresses_are_taken_as_people_type_them(typed: str, address: str) -> None:
    assert normalize_address(typed) == address


def test_other_schemes_are_refused() -> None:
    for address in ("file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "mailto:a@b"):
        with pytest.raises(Failed, match="only addresses that begin with https"):
            normalize_address(address)


@pytest.mark.parametrize(
    ("address", "kind", "data", "name"),
    [
        ("https://example.org/", "text/html", b"<p>a</p>", "example.org.html"),
        ("https://example.org/a/b.htm", "text/html", b"<p>a</p>", "example.org a b.htm"),
        ("https://example.org/a.php", "text/html", b"<p>a</p>", "example.org a.php.html"),
        ("https://example.org/a/x", "application/pdf", b"%PDF-1.7", "example.org a x.pdf"),
        ("https://example.org/a.md", "text/plain", b"# A", "example.org a.md"),
        ("https://example.org/a", "text/plain", b"A b", "example.org a.txt"),
    ],
)
def test_a_fetched_file_has_the_ending_of_its_kind(
    address: str, kind: str, data: bytes, name: str
) -> None:
    got = FetchResponse(address, 200, kind, data, "")
    assert name_fetched_file(address, got, distinct=False) == name
    other = name_fetched_file(address + "?2", got, distinct=True)
    assert other != name_fetched_file(address, got, distinct=True)
    assert other.rpartition(".")[2] == name.rpartition(".")[2]


def test_the_encoding_that_only_the_header_says_is_kept() -> None:
    page = "<p>Вороны прячут жёлуди.</p>"
    legacy = FetchResponse("u", 200, "text/html; charset=koi8-r", page.encode("koi8-r"), "")
    assert write_encoding(legacy).decode("utf-8-sig") == page
    pdf = FetchResponse("u", 200, "application/pdf; charset=x", REPORT.read_bytes(), "")
    assert write_encoding(pdf) == REPORT.read_bytes()


@pytest.mark.slow
def test_an_address_is_added_in_a_browser(site: Site, home: Path, guides: str) -> None:
    say("/guide", ROOKS)
    app = build_web_app(site.opened.store, Settings(("rookery:corvids",), private=True))
    with (
        serving(site.opened, app) as address,
        site._replace(address=address).window("rita", "reader") as (window, said),
    ):
        window.goto("/documents")
        for width in (360, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            assert flaws(window) == []
            wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert window.evaluate(wide)
        window.get_by_label("Add a page of the web by its address").fill(f"{guides}/guide")
        window.keyboard.press("Enter")
        expect(window.get_by_role("link", name="Rooks")).to_be_visible()
        window.get_by_label("Ask these documents").fill("Where do rooks nest?")
        window.get_by_role("button", name="Ask", exact=True).click()
        expect(window.locator("main")).to_contain_text("in colonies of a hundred pairs")
        assert said == []
