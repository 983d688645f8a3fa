"""Types found out by content, and PDF, DOCX, Markdown and plain text."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pdf_files import write_pdf

import rookery
from rookery.errors import Failed
from rookery.pages.page_parts import ReadLimits
from rookery.pages.page_reader import detect_type, read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.passages import PassageSizes, cut_passages
from rookery.pages.text_documents import read_text

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def outcome(data: bytes, url: str, content_type: str = "", limits: ReadLimits | None = None) -> str:
    with pytest.raises(Failed) as caught:
        read_page(data, url, content_type, limits=limits or ReadLimits())
    return caught.value.failure.outcome


def docx(body: str, title: str = "", extra: dict[str, bytes] | None = None) -> bytes:
    types = f"{PACKAGE}/content-types"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{types}"><Default Extension="xml" '
        f'ContentType="application/xml"/><Override PartName="/word/document.xml" '
        f'ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        "docProps/core.xml": f'<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></c>',
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        for name, raw in (extra or {}).items():
            archive.writestr(name, raw)
    return packed.getvalue()


def paragraph(*runs: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    texts = "".join(f'<w:r><w:t xml:space="preserve">{run}</w:t></w:r>' for run in runs)
    return f"<w:p>{properties}{texts}</w:p>"


@pytest.mark.parametrize(
    ("data", "url", "content_type", "kind"),
    [
        (b"%PDF-1.4 x", "http://x.org/a.html", "text/html", "pdf"),
        (b"\n%PDF-1.4 x", "http://x.org/a", "", "pdf"),
        (b"<p>a %PDF-1.4 x", "http://x.org/a", "text/html", "html"),
        (b"<!doctype html><p>x", "http://x.org/a.md", "text/plain", "text"),
        (b"<html><p>x", "http://x.org/a.txt", "text/plain; charset=utf-8", "text"),
        (b"<html><p>x", "http://x.org/a", "text/plain", "html"),
        (b"<html><p>x", "http://x.org/a.png", "image/png", "html"),
        (b"# T", "http://x.org/a.md", "text/plain", "markdown"),
        (b"# T", "http://x.org/a", "text/markdown", "markdown"),
        (b"# T", "file:///a/README.md", "", "markdown"),
        (b"plain", "http://x.org/", "", "text"),
        (b"plain", "http://x.org/a.pdf", "", "pdf"),
        (b"just words", "http://x.org/a", "text/html", "html"),
        (b"\x89PNG\r\n", "http://x.org/a", "text/html", ""),
        (b"PK\x03\x04 xl/workbook.xml", "http://x.org/a.docx", "", "xlsx"),
        (b"PK\x03\x04 notes/a.txt", "http://x.org/a.docx", "", ""),
        (b"\x00\x01\x02\x03" * 50, "http://x.org/a.txt", "", ""),
        (b"<?xml version='1.0'?><rss/>", "http://x.org/feed", "application/rss+xml", "feed"),
        (b"<?xml version='1.0'?><html><p>x</p></html>", "http://x.org/a", "", "html"),
    ],
)
def test_types(data: bytes, url: str, content_type: str, kind: str) -> None:
    assert detect_type(data, url, content_type) == kind


def test_pdf_pages_are_marked() -> None:
    data = write_pdf([["Crow memory", "They remember."], [], ["Third page text."]], "A title")
    found = read_page(data, "http://x.org/a", "text/html")
    assert found.title == "A title"
    assert "They remember." in found.text
    spans = [(m.value, found.text[m.start : m.end]) for m in found.marks if m.kind == "page"]
    assert [value for value, _ in spans] == ["1", "2", "3"]
    assert spans[0][1].startswith("Crow memory")
    assert [text for _, text in spans[1:]] == ["", "Third page text."]


THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from rookery.pages.page_reader import read_page
data = sys.stdin.buffer.read()
with ThreadPoolExecutor(8) as pool:
    pages = pool.map(lambda _: read_page(data, "https://x/"), range(200))
    print(len({page.digest for page in pages}))
"""


@pytest.mark.slow
def test_threads_read_pdfs_without_harm() -> None:
    """In a process of its own: what goes wrong in PDFium ends it."""
    data = (Path(rookery.__file__).parent / "library/corvids/field-report.pdf").read_bytes()
    done = subprocess.run([sys.executable, "-c", THREADS], input=data, capture_output=True)
    assert (done.returncode, done.stdout.strip()) == (0, b"1")


def test_pdf_title_falls_back_to_the_first_line() -> None:
    assert (
        read_page(write_pdf([["First line", "then more"]]), "http://x.org/a").title == "First line"
    )


def test_pdf_failures() -> None:
    url = "http://x.org/a.pdf"
    assert outcome(b"%PDF-1.4\nnothing", url) == "malformed"
    assert outcome(b"not a pdf", url) == "malformed"
    assert outcome(write_pdf([[]]), url) == "empty_after_extraction"
    assert outcome(write_pdf([["x"]], encrypt=True), url) == "encrypted"
    assert outcome(write_pdf([["x"]] * 4), url, limits=ReadLimits(pdf_pages=3)) == "too_large"
    assert outcome(write_pdf([["long line"]]), url, limits=ReadLimits(characters=5)) == "too_large"


def test_markdown() -> None:
    text = (
        "---\ntitle: From the front\n---\n# Head *ing*\n\nA [link](b.md) and `x_y` & <b>raw</b>.\n"
        "\n- one\n  - two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n  code\n    more\n```\n"
    )
    found = read_page(text.encode(), "https://x.org/d/a.md")
    assert found.title == "From the front"
    assert join_visible_text(found) == (
        "Head ing\n\nA link and x_y & raw.\n\none\ntwo\n\na | b\n1 | 2\n\n  code\n    more"
    )
    assert [link.url for link in found.links] == ["https://x.org/d/b.md"]
    assert [found.text[b.start : b.end] for b in found.blocks if b.hidden] == [
        "title: From the front"
    ]


def test_markdown_nav_is_still_article() -> None:
    found = read_page(b"# T\n\n[a](b)\n\n[c](d)\n", "file:///x/a.md")
    assert found.title == "T"
    assert all(block.article for block in found.blocks)


def test_underlined_lines_of_plain_text_are_headings() -> None:
    text = "git-crow(1)\n===========\n\nNAME\n----\ngit-crow - caw\n\n-- no\n\nEND\n----\n"
    found = read_page(text.encode(), "file:///x/a.txt")
    assert (found.text, found.title) == (text, "git-crow(1)")
    assert [(b.kind, b.level, found.text[b.start : b.end]) for b in found.iter_article()] == [
        ("heading", 1, "git-crow(1)"),
        ("heading", 2, "NAME"),
        ("paragraph", 0, "git-crow - caw"),
        ("paragraph", 0, "-- no"),
        ("heading", 2, "END"),
    ]
    assert [found.text[b.start : b.end] for b in found.iter_shown()].count("----") == 2


def test_text_is_kept_as_it_is() -> None:
    text = "Title line\nsecond line\n\n\n  indented *para* & <b>\n\n \n\tlast\n"
    found = read_page(text.replace("\n", "\r\n").encode(), "file:///x/a.txt")
    assert found.text == text
    assert found.title == "Title line"
    assert [found.text[b.start : b.end] for b in found.blocks] == [
        "Title line\nsecond line",
        "indented *para* & <b>",
        "last",
    ]


def test_docx() -> None:
    body = paragraph("Crow Handbook", style="Heading1") + paragraph("They re", "member fa", "ces.")
    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("Crow", "17"))
    found = read_page(
        docx(f"{body}<w:tbl><w:tr>{cells}</w:tr></w:tbl>", "The title"), "http://x.org/a"
    )
    assert found.title == "The title"
    assert "They remember faces." in found.text
    assert join_visible_text(found).endswith("Crow | 17")


def test_docx_failures() -> None:
    url = "http://x.org/a.docx"
    whole = docx(paragraph("text"))
    bomb = docx(paragraph("x" * 3_000_000))
    assert outcome(bomb, url, limits=ReadLimits(unpacked_bytes=1_000_000)) == "too_large"
    assert outcome(_understated(bomb), url, limits=ReadLimits(unpacked_bytes=1_000_000)) in (
        "too_large",
        "malformed",
    )
    assert outcome(whole[: len(whole) // 2], url) == "malformed"
    assert outcome(docx("<w:p"), url) == "malformed"
    entity = '<!DOCTYPE x [<!ENTITY a "b">]>'
    assert outcome(docx("", extra={"word/e.xml": entity.encode()}), url) == "malformed"
    assert outcome(docx(""), url) == "empty_after_extraction"
    assert outcome(docx("<w:p>" * 30_000 + "</w:p>" * 30_000), url) in (
        "malformed",
        "empty_after_extraction",
    )


def _understated(archive: bytes) -> bytes:
    """The same archive, declaring one byte for each of its members."""
    changed = bytearray(archive)
    at = changed.find(b"PK\x01\x02")
    while at >= 0:
        changed[at + 24 : at + 28] = (1).to_bytes(4, "little")
        at = changed.find(b"PK\x01\x02", at + 4)
    return bytes(changed)


def test_ole_files() -> None:
    start = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    url = "http://x.org/a.docx"
    assert outcome(start + "EncryptedPackage".encode("utf-16-le"), url) == "encrypted"
    assert outcome(start, "http://x.org/a.doc") == "unsupported_type"


def test_size_limits() -> None:
    url = "http://x.org/a.txt"
    assert outcome(b"x" * 11, url, limits=ReadLimits(bytes=10)) == "too_large"
    assert outcome(b"x" * 11, url, limits=ReadLimits(characters=10)) == "too_large"
    assert outcome(b"x" * 11, "a.md", limits=ReadLimits(markdown=10)) == "too_large"
    assert outcome(b" \n ", url) == "empty_after_extraction"


def test_a_word_file_with_a_damaged_directory_is_malformed() -> None:
    whole = docx(paragraph("Crows use tools."))
    at = whole.rindex(b"PK\x05\x06")  # the directory's offset, which now lies behind the file
    damaged = whole[: at + 16] + (len(whole) + 100).to_bytes(4, "little") + whole[at + 20 :]
    assert outcome(damaged, "https://x.org/a.docx") == "malformed"


@pytest.mark.parametrize(
    ("text", "contexts"),
    [
        (
            "News\n====\n\n1.6.0 (2026-06-11)\n  * Faster.\n\n"
            "1.5 - 22 March 2026\n  * Smaller,\n    too.\n",
            ["News > 1.6.0 (2026-06-11)", "News > 1.5 - 22 March 2026"],
        ),
        (
            "== 4.3.2026 ==\nBisque.\n\n== 11.3.2026 ==\nGlaze.\n",
            ["== 4.3.2026 ==", "== 11.3.2026 =="],
        ),
        (
            "logger (1.6-2) unstable; urgency=low\n\n  * Depend on serial.\n\n -- T <t@a>\n",
            ["logger (1.6-2) unstable; urgency=low"],
        ),
        (
            "LEASE\n\n1. Premises\n\nTwo rooms.\n\n2. Rent\n\nIt is low.\n",
            ["", "1. Premises", "2. Rent"],
        ),
        ("1. Take the pot.\n\n2. Fill it.\n", [""]),
        ("1983.60 euros are due\nuntil May.\n", [""]),
        ("12 March 2026\nWe met.\n", [""]),
    ],
)
def test_first_lines_of_plain_text_head_what_is_below(text: str, contexts: list[str]) -> None:
    page = read_text(text, "file:///notes.txt")
    sizes = PassageSizes(short=0)
    assert list(dict.fromkeys(each.context for each in cut_passages(page, sizes))) == contexts


def test_items_of_plain_text_stand_apart() -> None:
    page = read_text("Bring:\n * a pot,\n   not too small\n * clay\n", "file:///list.txt")
    assert [(block.kind, page.text[block.start : block.end]) for block in page.blocks] == [
        ("paragraph", "Bring:"),
        ("item", "* a pot,\n   not too small"),
        ("item", "* clay"),
    ]


def test_a_text_of_equal_headings_is_titled_by_its_name() -> None:
    text = "== 4.3.2026 ==\nBisque.\n\n== 11.3.2026 ==\nGlaze.\n"
    assert read_text(text, "file:///kiln%20diary.txt").title == "kiln diary.txt"
