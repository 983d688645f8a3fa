"""E-books, Office documents, mail, notebooks, feeds, man pages and scans, as programs write them.

The files in `files/` were written by pandoc 2.17 (year.*, talk.*), LibreOffice 7.4 (office.epub,
counts.*, talk.odp), Mutt 2.2 (mail.eml), Python's mailbox (list.mbox) and groff (the text of
scan.*); feeds, the sitemap and rook.1 are written by hand.
"""

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from rookery.errors import Failed
from rookery.pages.file_selection import list_folders
from rookery.pages.page_parts import ReadLimits
from rookery.pages.page_reader import detect_type, read_page
from rookery.pages.page_text import join_visible_text
from rookery.quotes.quote_links import describe_location, make_deep_link
from rookery.records import Page
from rookery.settings import FileSelection

FILES = Path(__file__).parent / "files"
needs_mandoc = pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
needs_ocr = pytest.mark.skipif(not shutil.which("tesseract"), reason="Tesseract is not installed")


def read(name: str) -> Page:
    return read_page((FILES / name).read_bytes(), f"file:///x/{name}")


def outcome(data: bytes, name: str, limits: ReadLimits | None = None) -> str:
    with pytest.raises(Failed) as caught:
        read_page(data, f"file:///x/{name}", limits=limits or ReadLimits())
    assert caught.value.failure.detail
    assert caught.value.failure.what == f"file:///x/{name}"
    return caught.value.failure.outcome


def find_place(page: Page, words: str) -> str:
    return describe_location(page, page.text.index(words))


def list_headings(page: Page) -> list[tuple[int, str]]:
    return [
        (block.level, page.text[block.start : block.end])
        for block in page.blocks
        if block.kind == "heading"
    ]


def list_blocks(page: Page, kind: str) -> list[str]:
    return [page.text[one.start : one.end] for one in page.blocks if one.kind == kind]


def find_links(page: Page) -> dict[str, str]:
    return {page.text[link.start : link.end]: link.url for link in page.links}


def change_part(name: str, part: str, change: bytes | Callable[[bytes], bytes]) -> bytes:
    """The archive `name` with one part changed or added."""
    packed = io.BytesIO()
    with zipfile.ZipFile(FILES / name) as old, zipfile.ZipFile(packed, "w") as new:
        for member in dict.fromkeys((*old.namelist(), part)):
            content = old.read(member) if member in old.namelist() else b""
            if member == part:
                content = change if isinstance(change, bytes) else change(content)
            new.writestr(member, content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("year.epub", "epub"), ("office.epub", "epub"), ("year.odt", "open_document"),
        ("year.docx", "docx"), ("talk.pptx", "pptx"), ("talk.odp", "open_document"),
        ("counts.xlsx", "xlsx"), ("counts.ods", "open_document"), ("mail.eml", "mail"),
        ("list.mbox", "mailbox"), ("feed.rss", "feed"), ("feed.atom", "feed"),
        ("sitemap.xml", "feed"), ("rook.1", "man"), ("rook.1.gz", "man"), ("scan.png", "picture"),
        ("scan.tif", "picture"), ("scan.pdf", "pdf"),
    ],
)  # fmt: skip
def test_kinds_are_told_by_bytes(name: str, kind: str) -> None:
    data = (FILES / name).read_bytes()
    assert detect_type(data, f"file:///x/{name}") == kind
    assert detect_type(data, "https://a.example/download") == kind


@pytest.mark.parametrize(
    ("data", "url", "content_type", "kind"),
    [
        (b'{"cells": []}', "file:///a.ipynb", "", "notebook"),
        (b'{"cells": []}', "https://a.example/a.ipynb", "text/plain", "notebook"),
        (b"From: a\nSubject: b\n\nc", "file:///a.txt", "", "text"),
        (b"From: a\nDate: b\n\nc", "file:///a", "", "mail"),
        (b"From: a\n\nDate: b", "file:///a", "", "text"),
        (
            b"From 1f2e Mon Sep 17 00:00:00 2001\nFrom: a\nDate: b\n\nc",
            "file:///a.patch",
            "",
            "code",
        ),
        (b"From here to 1999\nall was well", "file:///a", "", "text"),
        (b"<feed><b/></feed>", "file:///a.xml", "", "code"),
        (b".TH\n", "file:///a.txt", "", "text"),
        (b'.\\" x\n.Dd today\n', "file:///a.8", "", "man"),
        (b"plain", "file:///a.epub", "", "epub"),
    ],
)
def test_what_resembles_a_document(data: bytes, url: str, content_type: str, kind: str) -> None:
    assert detect_type(data, url, content_type) == kind


def test_epub() -> None:
    page = read("year.epub")
    assert page.title == "The rook year"
    assert list_headings(page) == [(1, "The rook year"), (1, "Spring"), (2, "Eggs"), (1, "Autumn")]
    assert "Rooks repair last year’s nests in the first week of March." in page.text
    assert list_blocks(page, "item")[-2:] == [
        "Acorns are carried up to four kilometres.",
        "Walnuts are dropped on roads.",
    ]
    assert "jay\tacorns\tSeptember" in page.text
    assert find_place(page, "A clutch") == "chapter “Spring”"
    assert find_place(page, "Acorns") == "chapter “Autumn”"
    links = find_links(page)
    assert links["the roost"] == "https://birds.example/roost"
    chapter = links["Autumn"].partition("#")
    assert chapter[0] == "file:///x/year.epub"
    anchor = next(mark for mark in page.marks if (mark.kind, mark.value) == ("anchor", chapter[2]))
    assert page.text[anchor.start :].startswith("Autumn\n\nAcorns")


def test_a_book_that_another_program_wrote() -> None:
    page = read("office.epub")
    assert page.title == "The rook year"
    assert "Rooks repair last year’s nests in the first week of March." in page.text


@pytest.mark.parametrize("name", ["year.odt", "year.docx"])
def test_text_documents(name: str) -> None:
    page = read(name)
    assert page.title == "The rook year"
    assert list_headings(page) == [(1, "The rook year"), (1, "Spring"), (2, "Eggs"), (1, "Autumn")]
    assert list_blocks(page, "item")[:2] == [
        "Acorns are carried up to four kilometres.",
        "Walnuts are dropped on roads.",
    ]
    assert list_blocks(page, "cell")[-3:] == ["nutcracker", "pine seeds", "August"]
    assert find_links(page)["the roost"] == "https://birds.example/roost"
    assert page.text.index("See Autumn") < page.text.index("The male feeds her on the nest.")


@pytest.mark.parametrize("name", ["talk.pptx", "talk.odp"])
def test_slides(name: str) -> None:
    page = read(name)
    assert list_headings(page) == [
        (2, "Ravens at work"),
        (2, "How ravens count"),
        (2, "Results"),
        (2, "Thanks"),
    ]
    assert list_blocks(page, "item") == [
        "Ravens tell groups of up to six sticks apart.",
        "They need about forty trials to learn it.",
    ]
    assert find_place(page, "Ravens tell") == find_place(page, "Say here") == "slide 2"
    assert find_place(page, "Munin").startswith("slide 3")
    assert "Munin\t40\t31\nHugin\t38\t35" in page.text
    assert find_links(page) == {"lent the birds": "https://aviary.example/lund"}


def test_a_link_to_a_document_has_no_text_fragment() -> None:
    page = read("talk.pptx")
    quote = page.quote(page.text.index("Ravens tell"), page.text.index(" apart"))
    web = msgspec.structs.replace(quote, url="https://a.example/talk.pptx")
    assert make_deep_link(web, page) == web.url
    bare = msgspec.structs.replace(quote, url="https://a.example/talk")
    assert "#:~:text=" in make_deep_link(bare, page)


@pytest.mark.parametrize("name", ["counts.xlsx", "counts.ods"])
def test_spreadsheets(name: str) -> None:
    page = read(name)
    assert page.title == "Roost counts"
    assert list_headings(page) == [(2, "Winter 2024"), (2, "Observers")]
    assert (
        "roost\tbirds\tday\tdusk\tjackdaws\nHolm Wood\t1240\t2024-01-17\t16:32\t12.5%" in page.text
    )
    assert {"Mill Lane & Quarry", "310.5", "40.0%", "1550.5"} <= set(list_blocks(page, "cell"))
    columns = "columns: roost | birds | day | dusk | jackdaws"
    assert find_place(page, "Holm Wood\t1240") == f"sheet “Winter 2024”, {columns}"
    assert find_place(page, "Inga Holt") == "sheet “Observers”, columns: name | roost"


def test_numbers_of_a_spreadsheet() -> None:
    """Hand-worked: day 1 is 1900-01-01, day 59 the last of February, day 61 the first of March."""
    cells = [
        ("14", "1", "1900-01-01"), ("14", "59", "1900-02-28"), ("14", "61", "1900-03-01"),
        ("22", "45292.75", "2024-01-01 18:00"), ("21", "0.5", "12:00:00"),
        ("46", "1.5", "36:00:00"),
        ("9", "0.125", "13%"), ("10", "0.125", "12.50%"), ("0", "0.1", "0.1"), ("0", "1e3", "1000"),
        ("0", "0.30000000000000004", "0.3"), ("0", "-7", "-7"), ("0", "1e400", "1e400"),
        ("14", "1e9", "1000000000"), ("170", "3", "3.00 days"), ("171", "0.5", "50.0%"),
        ("172", "45292", "2024-01-01"),
    ]  # fmt: skip
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    own = {"170": '0.00" days"', "171": "0.0%;[Red]-0.0%", "172": "[$-407]d. mmmm yyyy"}
    formats = "".join(
        f'<numFmt numFmtId="{number}" formatCode="{code}"/>'.replace('" days"', "&quot; days&quot;")
        for number, code in own.items()
    )
    styles = "".join(f'<xf numFmtId="{number}"/>' for number, _, _ in cells)
    row = "".join(f'<c s="{style}"><v>{value}</v></c>' for style, (_, value, _) in enumerate(cells))
    data = change_part(
        "counts.xlsx",
        "xl/styles.xml",
        (
            f'<styleSheet xmlns="{space}"><numFmts>{formats}</numFmts>'
            f"<cellXfs>{styles}</cellXfs></styleSheet>"
        ).encode(),
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            sheet = (
                f'<worksheet xmlns="{space}"><sheetData><row>{row}</row></sheetData></worksheet>'
            )
            new.writestr(name, sheet.encode() if name.endswith("sheet1.xml") else old.read(name))
    page = read_page(packed.getvalue(), "file:///a.xlsx")
    assert list_blocks(page, "cell")[: len(cells)] == [shown for _, _, shown in cells]


def test_mail() -> None:
    page = read("mail.eml")
    assert page.title == "Ringing at Holm Wood – Größe der Netze"
    assert (
        "the ringing at Holm Wood went well: we caught forty-two jackdaws before noon, and none of"
        " them was hurt. The oldest had been ringed in 2011 by your father."
    ) in list_blocks(page, "paragraph")
    assert list_blocks(page, "quotation") == [
        "Could you tell me how many birds you caught, and whether the nets held in the wind?",
        "We borrowed them from the museum.",
    ]
    assert "The nets held. I counted:" in list_blocks(page, "paragraph")
    assert "- 30 adults\n- 12 first-year birds" in page.text
    assert "Inga Holt\nHolm Wood Ringing Group" in page.text
    labels = "\n".join(page.text[one.start : one.end] for one in page.blocks if one.furniture)
    assert labels.split("\n")[:3] == [
        "From: Inga Holt <inga@holm.example>",
        "To: Tomás Ruiz <tomas@birds.example>",
        "Date: 2026-11-24 12:46",
    ]
    assert "Attachment: rings.csv" in labels
    assert "A12" not in page.text


def test_mailbox() -> None:
    page = read("list.mbox")
    assert page.title == "list.mbox"
    assert [mark.value for mark in page.marks if mark.kind == "message"] == ["1", "2", "3", "4"]
    assert find_place(page, "forty-two jackdaws") == "message 1"
    assert find_place(page, "until June") == "message 2"
    assert "From the museum we may keep the nets until June.\n\nThe nets held." in page.text
    assert "See the page." not in page.text  # the other alternative
    assert "tracking" not in join_visible_text(page)
    assert find_place(page, "every second Thursday") == "message 4"


def test_mail_that_other_programs_write() -> None:
    flowed = (
        b"From: a@b.example\r\nDate: x\r\nSubject: =?utf-8?q?caf=C3=A9?= =?nonsense?q?x?=\r\n"
        b"Content-Type: text/plain; charset=iso-8859-15; format=flowed\r\n\r\n"
        b"A line of a paragraph \r\nthat goes on for 5 \xa4.\r\nA verse\r\nof two lines\r\n"
    )
    page = read_page(flowed, "file:///a.eml")
    assert page.title.startswith("café")
    assert "A line of a paragraph that goes on for 5 €.\nA verse\nof two lines" in page.text


def make_notebook(*cells: dict[str, object], **more: object) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, **more}).encode()


def test_notebook() -> None:
    page = read("talk.ipynb")
    assert list_headings(page) == [(1, "How ravens count"), (1, "Results"), (1, "Thanks")]
    assert page.title == "How ravens count"
    assert "Munin\t40\t31" in page.text

    table = {"text/html": ["<table><tr><td>a</td><td>1</td></tr></table>"], "text/plain": "a 1"}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["two\n", "lines\n"]},
        {"output_type": "execute_result", "data": table},
        {"output_type": "display_data", "data": {"image/png": "QUJD", "text/plain": "<Figure>"}},
        {
            "output_type": "error",
            "ename": "KeyError",
            "evalue": "'x'",
            "traceback": ["\x1b[31m..."],
        },
    ]
    data = make_notebook(
        {"cell_type": "markdown", "source": ["# Head\n", "Prose *here*."]},
        {"cell_type": "code", "source": "if a < b:\n    print(1)", "outputs": outputs},
        {"cell_type": "raw", "source": "raw <b>text</b>"},
        {"cell_type": "code", "source": None, "outputs": None},
    )
    page = read_page(data, "file:///a.ipynb")
    assert page.text == (
        "Head\n\nProse here.\n\nif a < b:\n    print(1)\n\ntwo\nlines\n\na\t1\n\n"
        "KeyError: 'x'\n\nraw <b>text</b>"
    )
    assert list_blocks(page, "code")[:2] == ["if a < b:", "    print(1)"]


def test_a_notebook_shows_what_is_not_folded_or_written_over() -> None:
    def make_output(**data: str) -> dict[str, object]:
        return {"output_type": "display_data", "data": {f"text/{k}": v for k, v in data.items()}}

    code = {"cell_type": "code", "source": "print(1)"}
    data = make_notebook(
        code | {"outputs": [make_output(plain="one"), make_output(html="<b>two</b>", plain="2")]},
        code | {"outputs": [make_output(plain="0%\r50%\r100%\nready\r\n")]},
        code | {"source": "x = 3", "metadata": {"jupyter": {"source_hidden": True}}},
        code
        | {
            "outputs": [make_output(plain="four")],
            "metadata": {"jupyter": {"outputs_hidden": True}},
        },
    )
    page = read_page(data, "file:///a.ipynb")
    seen = [page.text[one.start : one.end] for one in page.iter_shown()]
    assert seen == ["print(1)", "one", "two", "print(1)", "100%", "ready", "print(1)"]


def test_feeds() -> None:
    page = read("feed.rss")
    assert page.title == "Holm Wood diary"
    assert list_headings(page) == [
        (1, "Holm Wood diary"),
        (2, "Jackdaws & rooks share a roost"),
        (2, "Nets mended"),
    ]
    assert find_links(page) == {
        "Jackdaws & rooks share a roost": "https://holm.example/2025/roost",
        "the map": "https://holm.example/map",
        "Nets mended": "https://holm.example/2025/nets",
    }
    assert "At dusk the jackdaws come first, and the rooks eleven minutes later." in page.text
    assert list_blocks(page, "paragraph")[-1] == "The nets were mended with hemp thread."
    assert "Short." not in page.text

    page = read("feed.atom")
    assert list_headings(page) == [(1, "Notes <of> the mill"), (2, "The barn owl")]
    assert find_links(page) == {
        "The barn owl": "https://holm.example/notes/owl",
        "Weights": "https://holm.example/weights",
    }
    assert "The owl took nine voles in one night & slept." in page.text

    assert list(find_links(read("sitemap.xml")).values()) == [
        "https://holm.example/a",
        "https://holm.example/b?x=1&y=2",
    ]


def test_a_feed_of_the_web_leads_to_no_file() -> None:
    feed = (
        b'<rss version="2.0"><channel><item><title>a</title><link>file:///etc/passwd</link>'
        b"<description>&lt;a href='shadow'&gt;b&lt;/a&gt;</description></item></channel></rss>"
    )
    page = read_page(feed, "https://a.example/feed")
    assert find_links(page) == {"b": "https://a.example/shadow"}


@needs_mandoc
@pytest.mark.parametrize("name", ["rook.1", "rook.1.gz"])
def test_man_pages(name: str) -> None:
    page = read(name)
    assert page.title == "ROOK(1)"
    assert [text for _, text in list_headings(page)] == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO",
    ]  # fmt: skip
    assert (
        "rook reads a list of sightings and prints how many birds came to each roost. It stops"
        " after the first hour unless told otherwise."
    ) in page.text
    assert list_blocks(page, "item")[:2] == [
        "-n NUMBER",
        "Count at most NUMBER birds at one roost. The default is 500.",
    ]
    assert list_blocks(page, "code") == ["rook -n 20 roosts.csv"]
    assert not page.links


@needs_mandoc
def test_a_man_page_includes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("The code is 4711.\n")
    monkeypatch.chdir(tmp_path)
    source = f".TH A 1\n.SH NAME\na\n.so secret\n.so {tmp_path}/secret\n.so ../secret\n"
    assert "4711" not in read_page(source.encode(), "file:///a.1").text


def test_a_man_page_without_mandoc_is_read_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "The default is 500." in read("rook.1").text
    data = (FILES / "rook.1.gz").read_bytes()
    assert "The default is 500." in read_page(data, "https://a.example/rook.1.gz").text


@needs_ocr
@pytest.mark.slow
@pytest.mark.parametrize("name", ["scan.png", "scan.tif", "scan.pdf"])
def test_scans_are_read_and_marked(name: str) -> None:
    page = read(name)
    sentence = "After that it moved to the mill, where the miller counted nine young ones."
    assert sentence in page.text
    place = find_place(page, sentence)
    assert place.endswith(", read by OCR")
    if name != "scan.png":
        assert place == "p. 1, read by OCR"
        assert find_place(page, "sold to a baker from Lund") == "p. 2, read by OCR"


def join_pdfs(*chosen: tuple[str, list[int]]) -> bytes:
    """A PDF of these pages of files, as a person puts a scan into a document."""
    pdfium = pytest.importorskip("pypdfium2")
    joined, packed = pdfium.PdfDocument.new(), io.BytesIO()
    for name, numbers in chosen:
        joined.import_pages(pdfium.PdfDocument(FILES / name), numbers)
    joined.save(packed)
    return packed.getvalue()


MIXED = (("survey.pdf", [0]), ("scan.pdf", [0, 1]), ("survey.pdf", [1]))


@needs_ocr
@pytest.mark.slow
def test_pages_that_are_pictures_are_read_among_pages_with_text() -> None:
    page = read_page(join_pdfs(*MIXED), "file:///x/mixed.pdf")
    scanned = "After that it moved to the mill, where the miller counted nine young ones."
    texts = [page.text[mark.start : mark.end] for mark in page.marks if mark.kind == "page"]
    assert len(texts) == 4
    assert scanned in texts[1]
    assert find_place(page, scanned) == "p. 2, read by OCR"
    assert find_place(page, "sold to a baker from Lund") == "p. 3, read by OCR"
    whole = read("survey.pdf")
    for number, mark in ((0, 0), (3, 1)):
        (own,) = [one for one in whole.marks if one.kind == "page" and one.value == str(mark + 1)]
        first = whole.text[own.start : own.end].split("\n")[0]
        assert first in texts[number]
        assert not describe_location(page, page.text.index(first)).endswith("OCR")


def test_a_page_that_is_a_picture_is_empty_where_it_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sentences around it stay apart: what it says is between them."""
    monkeypatch.setenv("PATH", "")
    mixed = read_page(join_pdfs(*MIXED), "file:///x/mixed.pdf")
    assert [mark.start == mark.end for mark in mixed.marks if mark.kind == "page"] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not [mark for mark in mixed.marks if mark.kind == "ocr"]
    ends = [mark for mark in mixed.marks if mark.kind == "page"]
    assert not [
        block for block in mixed.blocks if block.start < ends[0].end and block.end > ends[3].start
    ]


@needs_ocr
@pytest.mark.slow
def test_without_time_for_ocr_the_other_pages_are_read() -> None:
    limits = ReadLimits(ocr_seconds=0)
    mixed = read_page(join_pdfs(*MIXED), "file:///x/mixed.pdf", limits=limits)
    assert not [mark for mark in mixed.marks if mark.kind == "ocr"]
    assert mixed.text


def test_scans_that_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of the web, and any where Tesseract is missing."""
    picture, scan = (FILES / "scan.png").read_bytes(), (FILES / "scan.pdf").read_bytes()
    with pytest.raises(Failed, match="unsupported_type: a picture"):
        read_page(picture, "https://a.example/scan.png", "image/png")
    with pytest.raises(Failed, match="its pages are pictures"):
        read_page(scan, "https://a.example/scan.pdf")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failed, match=r"unsupported_type: .*where tesseract is installed"):
        read_page(picture, "file:///scan.png")
    with pytest.raises(Failed, match=r"empty_after_extraction: .*where tesseract is installed"):
        read_page(scan, "file:///scan.pdf")


@needs_ocr
@pytest.mark.slow
def test_a_scan_has_its_time() -> None:
    scan = (FILES / "scan.pdf").read_bytes()
    assert outcome(scan, "a.pdf", ReadLimits(ocr_seconds=0)) == "timed_out"
    assert outcome((FILES / "scan.png").read_bytes()[:2000], "a.png") in (
        "malformed",
        "empty_after_extraction",
    )


def test_pictures_of_a_folder_are_read_where_a_pattern_asks(tmp_path: Path) -> None:
    for name in ("scan.png", "photo.heic", "rook.1.gz", "notes.tar.gz", "a.txt"):
        (tmp_path / name).write_bytes(b"x")

    def list_read(*glob: str) -> set[bytes]:
        (listing,) = list_folders([bytes(tmp_path)], FileSelection(glob), [])
        return set(listing.files)

    assert list_read() == {b"rook.1.gz", b"a.txt"}
    assert list_read("*.png", "*.heic") == {b"scan.png"}


@pytest.mark.slow
def test_hostile_archives() -> None:
    bomb = b"<a>" + b" " * 3_000_000
    small = ReadLimits(unpacked_bytes=1_000_000)
    for name, part in [
        ("year.epub", "EPUB/content.opf"),
        ("year.odt", "content.xml"),
        ("talk.pptx", "ppt/slides/slide2.xml"),
        ("counts.xlsx", "xl/worksheets/sheet1.xml"),
        ("year.docx", "word/document.xml"),
    ]:
        assert outcome(change_part(name, part, bomb), name, small) == "too_large"
        entity = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
        assert outcome(change_part(name, part, entity), name) == "malformed"
        # In an encoding in which no search for ASCII finds the declaration.
        wide = '<?xml version="1.0" encoding="utf-16"?>' + entity.decode()
        if name != "year.docx":
            data = change_part(name, part, wide.encode("utf-16"))
            assert outcome(data, name) == "malformed"
        deep = b"<a>" * 100_000 + b"</a>" * 100_000
        assert outcome(change_part(name, part, deep), name) in (
            "malformed",
            "empty_after_extraction",
        )
        data = (FILES / name).read_bytes()
        assert outcome(data[: len(data) // 2], name) == "malformed"


def test_two_cells_far_apart() -> None:
    def spread(sheet: bytes) -> bytes:
        return sheet.replace(b'r="B2"', b'r="XFC1048576"').replace(b'r="B3"', b'r="XFD1048576"')

    data = change_part("counts.xlsx", "xl/worksheets/sheet1.xml", spread)
    assert "1240" in read_page(data, "file:///a.xlsx").text

    def repeat(content: bytes) -> bytes:
        often = b'office:value="1240" table:number-columns-repeated="99999999"'
        return content.replace(b'office:value="1240"', often)

    data = change_part("counts.ods", "content.xml", repeat)
    assert read_page(data, "file:///a.ods").text.count("1240") == 1000
    wide = ReadLimits(tags=10)
    assert outcome((FILES / "counts.ods").read_bytes(), "a.ods", wide) == "too_large"


@pytest.mark.slow
def test_a_long_text_that_many_cells_share() -> None:
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    shared = f'<sst xmlns="{space}"><si><t>{"long " * 20_000}</t></si></sst>'.encode()
    cells = '<row><c t="s"><v>0</v></c></row>' * 100_000
    sheet = f'<worksheet xmlns="{space}"><sheetData>{cells}</sheetData></worksheet>'.encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(FILES / "counts.xlsx") as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            content = sheet if name.endswith("sheet1.xml") else old.read(name)
            new.writestr(name, shared if name.endswith("sharedStrings.xml") else content)
    assert outcome(packed.getvalue(), "a.xlsx") == "too_large"


def test_locked_documents() -> None:
    locked = (
        b'<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
        b'<enc:CipherReference URI="EPUB/text/ch001.xhtml"/></enc:EncryptedData></encryption>'
    )
    data = change_part("year.epub", "META-INF/encryption.xml", locked)
    assert outcome(data, "a.epub") == "encrypted"
    fonts = locked.replace(b"EPUB/text/ch001.xhtml", b"EPUB/fonts/a.otf")
    data = change_part("year.epub", "META-INF/encryption.xml", fonts)
    assert read_page(data, "file:///a.epub").title == "The rook year"
    manifest = b'<manifest:manifest><manifest:encryption-data manifest:checksum="x"/>'
    data = change_part("year.odt", "META-INF/manifest.xml", manifest)
    assert outcome(data, "a.odt") == "encrypted"


def test_what_is_no_document_of_its_name() -> None:
    assert outcome(b"plain", "a.epub") == "malformed"
    assert outcome(b"[1, 2]", "a.ipynb") == "malformed"
    assert outcome(b"{", "a.ipynb") == "malformed"
    assert outcome(b"[" * 100_000, "a.ipynb") == "malformed"
    assert outcome(make_notebook(), "a.ipynb") == "empty_after_extraction"
    assert outcome(make_notebook({"cell_type": "markdown", "source": "x" * 50}), "a.ipynb",
                   ReadLimits(markdown=40)) == "too_large"  # fmt: skip
    assert outcome(b"<rss", "a.rss") == "malformed"
    assert outcome(b"<rss><channel/></rss>", "a.rss") == "empty_after_extraction"
    bomb = b'<!DOCTYPE rss [<!ENTITY a "aaaa">]><rss><channel><title>&a;</title></channel></rss>'
    assert outcome(bomb, "a.rss") == "malformed"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [path.name for path in sorted(FILES.iterdir()) if not path.name.startswith(("scan.", "rook."))],
)
def test_damaged_files_end_in_a_worded_failure(name: str) -> None:
    """Bytes changed, cut and copied at random, in the file or in a part of its archive."""
    chance = random.Random(name)
    data = (FILES / name).read_bytes()

    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        for _ in range(chance.choice((1, 2, 8, 40))):
            at, kind = chance.randrange(len(changed) + 1), chance.randrange(4)
            if kind == 0:
                del changed[at : at + chance.randrange(60)]
            elif kind == 1:
                changed[at:at] = changed[: chance.randrange(80)]
            else:
                changed[at : at + 1] = bytes([chance.randrange(256)])
        return bytes(changed)

    parts = [""]
    if data.startswith(b"PK"):
        with zipfile.ZipFile(FILES / name) as archive:
            parts += [part for part in archive.namelist() if part.endswith(("xml", "rels", "html"))]
    for number in range(60):
        part = parts[number % len(parts)]
        broken = change_part(name, part, damage) if part else damage(data)
        with suppress(Failed):
            page = read_page(broken, f"file:///x/{name}")
            page.to_json()
            assert all(page.text[one.start : one.end].strip() for one in page.blocks)


@pytest.mark.parametrize(
    "mail",
    [
        b"Subject: =?a\0b?q?News?=\n\nHello there.\n",
        b'Subject: News\nContent-Type: text/plain; charset="a\0b"\n\nHello there.\n',
    ],
)
def test_a_mail_whose_encoding_has_a_damaged_name_is_read(mail: bytes) -> None:
    assert read_page(mail, "https://a.example/a.eml").text == "News\n\nHello there."
