"""Read bytes of any type as a Page; type and text encoding are detected from the bytes."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.file_selection import DOCUMENT_READERS, READER_OF_ENDING
from rookery.pages.html.html_parser import (
    HARMLESS_TAG_COUNT,
    count_tags,
    read_html,
    simplify_markup,
)
from rookery.pages.html.html_tree import HtmlTree
from rookery.pages.html.page_assembly import build_page
from rookery.pages.page_parts import ReadLimits, build_read_error, check_size
from rookery.pages.pdf_documents import read_pdf
from rookery.pages.text_documents import TEXT_READERS, read_markdown, read_notebook, read_text
from rookery.pages.text_encoding import decode_text, is_text
from rookery.pages.xml_documents import read_feed, rewrite_xhtml
from rookery.records import Mark, Page
from rookery.typed_files import read_text_table

_HEAD = 4096
_OFFICE = {"word/document": "docx", "ppt/presentation": "pptx", "xl/workbook": "xlsx"}
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
_FEED = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)\s*)*+"
    rb"<(?:rss[\s/>]|feed\s[^>]*www\.w3\.org/2005/Atom|rdf:RDF\s[^>]*purl\.org/rss/1\.0/"
    rb"|(?:urlset|sitemapindex)\s[^>]*sitemaps\.org/schemas)",
    re.DOTALL,
)
_MANUAL = re.compile(rb"(?:(?!\.(?:TH|Dd)\b)(?:[.'][^\n]*|[ \t]*)\n)*+\.(?:TH[ \t]+\S|Dd\b)")
_MAILBOX = re.compile(rb"From \S[^\n]*\d{4}\r?\n[!-9;-~]+:")
_HEADERS = re.compile(rb"(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*+)++")
_SENDER = re.compile(rb"^From:", re.MULTILINE | re.IGNORECASE)
_SENT = re.compile(rb"^(?:Date|Message-ID|Received|MIME-Version):", re.MULTILINE | re.IGNORECASE)


def detect_archive(data: bytes) -> str:
    """Return the kind of document that a zip archive is; empty for another archive.

    An e-book and a document of LibreOffice name their type first, an Office document has a part of
    a known name. Of a damaged archive, the names are looked for in its bytes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, IndexError):
        names = [part for part in _OFFICE if part.encode() in data]
    for start, kind in _OFFICE.items():
        if any(name.startswith(start) for name in names):
            return kind
    declared = re.match(rb"mimetype([\w./+-]+?)(?:PK|\s|$)", data[30:200])
    kind = _TYPES.get(declared[1].decode(), "") if declared else ""
    return kind if kind in ("epub", "open_document") else ""


def is_packed_manual(data: bytes) -> bool:
    """Tell whether these bytes are a man page compressed by gzip."""
    try:
        head = zlib.decompressobj(31).decompress(data[: 16 * _HEAD], _HEAD)
    except zlib.error:
        return False
    return _MANUAL.match(head) is not None


def detect_text_document(data: bytes) -> str:
    """Return feed, man, mailbox or mail if text begins as one does, else nothing."""
    head = data[:_HEAD]
    if _FEED.match(head):
        return "feed"
    if _MANUAL.match(head):
        return "man"
    if _MAILBOX.match(head):
        return "mailbox"
    headers = _HEADERS.match(data[: 16 * _HEAD])
    if headers and _SENDER.search(headers[0]) and _SENT.search(headers[0]):
        return "mail"
    return ""


_TYPES = {
    declared: kind
    for kind, types in read_text_table(Path(__file__).with_name("content_types.txt")).items()
    for declared in types.split()
}
_HTML_START = re.compile(
    rb"\s*(?:<\?xml\b[^>]*\?>\s*)?(?:<!--.{0,4000}?-->\s*)*"
    rb"<(?:!doctype\s+html|(?:html|head|body|title|script|style|meta|h1|div|p|table|article|main)"
    rb"[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = {"markdown", *TEXT_READERS}
_WRITTEN = {"mail", "mailbox", "notebook", "feed"}
"""documents that are text, which servers send as such"""
_XML_START = re.compile(rb"\s*<\?xml\b")
_BINARY = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"BZh", b"7z\xbc\xaf", b"RIFF", b"OggS",
    b"ID3", b"\x7fELF", b"MZ\x90", b"wOF", b"\xca\xfe\xba\xbe", b"Rar!", b"SQLite",
)  # fmt: skip
_GZIP = b"\x1f\x8b"
_RTF = b"{\\rtf"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WANTS_JAVASCRIPT = re.compile(
    r"(?:enable|turn on|activate|requires?|needs?|without)\s+(?:\w+\s+){0,3}javascript"
    r"|javascript\s+(?:\w+\s+){0,3}(?:enabled|required|disabled|turned off|to run)",
    re.IGNORECASE,
)
_SHELL = 200
"""characters; a page with fewer may hold its article as data only"""
_JSON_LD = re.compile(
    r"<script\b[^>]*application/ld\+json[^>]*>(.*?)</script", re.IGNORECASE | re.DOTALL
)
_WAITING = re.compile(r"\W*(?:loading|please wait|one moment|redirecting)\b", re.IGNORECASE)


_DAY = r"((?:19|20)\d\d-[01]\d-[0-3]\d)"
_DATES = [
    re.compile(
        rf"""(?i)<meta\b(?=[^<>]*\s[\w-]+=["']?(?:{names})["'\s>])[^<>]*?\scontent=["']?{_DAY}"""
        rf"""|"(?=date[mp])(?:{names})"\s*:\s*"{_DAY}|<(?:{names})(?=[\s>])[^<>]*>\s*{_DAY}"""
    )
    for names in (
        "article:modified_time|og:updated_time|datemodified|last-modified|dcterms:modified|dc:date",
        r"article:published_time|datepublished|date|dc(?:terms)?[.:](?:date|created|issued)[a-z.]*",
    )
]
"""by meta elements, JSON-LD, and the properties of documents in archives: changed, else written"""
_TIME = re.compile(rf"""(?i)<time\b[^<>]*\sdatetime=["']?{_DAY}""")
_PROPERTIES = re.compile(r"^(?:docProps/core\.xml|meta\.xml|.*\.opf)$")
_TEMPLATED = re.compile(r"(?s)generated (?:by|using) python-.*:modified\b[^<>]*>2013-")
"""the properties of the template from which libraries make documents"""


def read_page(
    data: bytes,
    url: str,
    content_type: str = "",
    fetched: str = "",
    limits: ReadLimits = ReadLimits(),
) -> Page:
    """Return the Page that these bytes are: HTML, a document of a known kind, or text.

    `url` is stored, its ending may tell the type, and only for a file of this machine (`file:`) are
    installed programs run. `content_type` is the server's header, empty where there is none;
    `fetched` is stored as it is. Raises `Failed` with the outcome unsupported_type, binary,
    minified, malformed, encrypted, too_large, timed_out, empty_after_extraction or
    needs_javascript. A damaged file may make a parser raise other errors, for which `ReaderPool`
    raises Failed (crashed).
    """
    try:
        page = _read_by_kind(data, url, content_type, fetched, limits)
        check_size(len(page.text), limits.characters, "characters of text")
        return page
    except Failed as failed:
        raise Failed(msgspec.structs.replace(failed.failure, what=url)) from failed


def _read_by_kind(
    data: bytes, url: str, content_type: str, fetched: str, limits: ReadLimits
) -> Page:
    if len(data) > limits.bytes:
        detail = f"{len(data):,} bytes; at most {limits.bytes:,} are read"
        raise build_read_error(Outcome.TOO_LARGE, detail)
    if not data.strip():
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, "there is nothing in it")
    kind = detect_type(data, url, content_type)
    if kind == "html":
        return _read_html(data, url, content_type, fetched, limits)
    if kind == "pdf":
        return _read_pdf_and_scans(data, url, fetched, limits)
    if kind == "markdown":
        return read_markdown(decode_text(data, content_type, False), url, fetched, limits)
    if kind in TEXT_READERS:
        return read_text(decode_text(data, content_type, False), url, fetched, kind)
    if kind in DOCUMENT_READERS or kind in ("man", "picture"):
        page = _load_document_readers()[kind](data, url, fetched, limits)
        return _mark_date(page, _read_properties(data)) if data.startswith(b"PK") else page
    if kind == "encrypted":
        raise build_read_error(Outcome.ENCRYPTED, "the document needs a password")
    if content_type and not content_type.startswith("text/"):
        raise build_read_error(Outcome.UNSUPPORTED_TYPE, content_type)
    if _detect_by_magic(data) is not None:
        what = "a picture, an archive or a document of a type that is not read"
        raise build_read_error(Outcome.UNSUPPORTED_TYPE, what)
    raise build_read_error(Outcome.BINARY, "its bytes are not text")


@cache
def _load_document_readers() -> dict[str, Callable[[bytes, str, str, ReadLimits], Page]]:
    """Import the readers of documents by kind when the first one is read: they cost time."""
    from rookery.pages import external_programs, mail_documents, word_documents, zip_documents

    return {
        "docx": partial(word_documents.read_docx, reader=read_page),
        "pptx": partial(zip_documents.read_pptx, reader=read_page),
        "xlsx": zip_documents.read_xlsx,
        "open_document": zip_documents.read_open_document,
        "epub": zip_documents.read_epub,
        "mail": mail_documents.read_mail,
        "mailbox": mail_documents.read_mailbox,
        "notebook": read_notebook,
        "feed": read_feed,
        "man": external_programs.read_manual,
        "picture": external_programs.read_picture,
    }


def _read_pdf_and_scans(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    def recognize_text(numbers: Iterable[int]) -> Iterator[tuple[int, list[str]]]:
        from rookery.pages.external_programs import recognize_pages

        return recognize_pages(data, numbers, url, limits)

    return read_pdf(data, url, fetched, limits, recognize_text)


def detect_type(data: bytes, url: str, content_type: str = "") -> str:
    """Return the type of the bytes: html, markdown, a kind of text, pdf, docx, pptx, xlsx,
    open_document, epub, mail, mailbox, notebook, feed, man, picture, encrypted, or "".

    Kinds of text are text, rst, csv, json, log, subtitles and code; "" is none of these. Bytes that
    say what they are come first, then the server's word, then the address's suffix.
    """
    declared = content_type.split(";")[0].strip().lower()
    suffix = _get_suffix(url)
    magic_type = _detect_by_magic(data)
    if magic_type is not None:
        return magic_type
    written = detect_text_document(data)
    # A patch begins as a mail does, and is read as what its name says; a feed is often named .xml.
    if written and (suffix in ("", written) or (written == "feed" and suffix == "code")):
        return written
    looks_html = _HTML_START.match(data[:8192].removeprefix(b"\xef\xbb\xbf")) is not None
    if declared in _TYPES:
        # A server that names the encoding has looked at the text; one that does not may guess.
        believed = looks_html or "charset" in content_type or is_text(data)
        return _TYPES[declared] if believed or _TYPES[declared] in DOCUMENT_READERS else ""
    if declared.startswith("text/plain") and suffix in _PLAIN | _WRITTEN and is_text(data):
        return "text" if looks_html else suffix
    if looks_html and suffix not in _PLAIN:
        return "html"
    return _detect_by_name(data, declared, suffix)


def _detect_by_name(data: bytes, declared: str, suffix: str) -> str:
    if suffix == "html" and _XML_START.match(data):
        return "html"
    if declared.endswith(("/xml", "+xml")):
        return "html" if suffix == "html" else ""
    if declared.startswith(("image/", "audio/", "video/", "font/")):
        return ""
    if not is_text(data):
        return suffix if suffix in DOCUMENT_READERS else ""
    return suffix or "text"


def _get_suffix(url: str) -> str:
    try:
        name = unquote(urlsplit(url).path).rsplit("/", 1)[-1].lower()
    except ValueError:
        return ""
    return READER_OF_ENDING.get(name.rsplit(".", 1)[-1], "") if "." in name else ""


def _detect_by_magic(data: bytes) -> str | None:
    head = data[:1024]
    if b"%PDF-" in head and not _HTML_START.match(head):
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return detect_archive(data)
    if head.startswith(_OLE):
        return "encrypted" if "EncryptedPackage".encode("utf-16-le") in data else ""
    if head.startswith(_RTF):
        return ""
    if head.startswith(_PICTURES):
        return "picture"
    if head.startswith(_GZIP) and is_packed_manual(data):
        return "man"
    # A text may begin with the word SQLite, or RIFF.
    return "" if head.startswith(_BINARY) and not is_text(data) else None


def _read_html(data: bytes, url: str, content_type: str, fetched: str, limits: ReadLimits) -> Page:
    html = decode_text(data, content_type)
    if "xhtml" in content_type or html[:100].lstrip("\ufeff \t\r\n").startswith("<?xml"):
        html = rewrite_xhtml(html)
    # In every encoding of the web a `<` holds this byte, and bytes are counted sooner.
    starts = data.count(b"<")
    if starts > limits.tags // 2:
        check_size(count_tags(html), limits.tags, "tags")
    if starts > HARMLESS_TAG_COUNT:
        html = simplify_markup(html)
    tree = read_html(html)
    if len(tree.text) < _SHELL and (body := _find_article_body(html)):
        tree = read_html(body)
    _refuse_shell(tree)
    return _mark_date(build_page(tree, url, fetched), html)


def _mark_date(page: Page, markup: str) -> Page:
    """Return the page with a mark of the date that its markup gives it, the last change first."""
    days = [match[match.lastindex or 0] for each in _DATES for match in each.finditer(markup)]
    times = {*_TIME.findall(markup)}
    days += times if len(times) == 1 else ()
    marks = [Mark(0, len(page.text), "date", day) for day in days[:1]]
    return msgspec.structs.replace(page, marks=(*marks, *page.marks))


def _read_properties(data: bytes) -> str:
    """Return the XML in which an Office document, one of LibreOffice or an e-book has its dates."""
    about, damage = "", (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError)
    with suppress(*damage), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in filter(_PROPERTIES.search, archive.namelist()):
            about = archive.open(name).read(100_000).decode("utf-8", "replace")
    return "" if _TEMPLATED.search(about) else about


def _find_article_body(html: str) -> str:
    """Return the article that the page's JSON-LD holds, as HTML; "" where it holds none."""
    if '"articleBody"' not in html:
        return ""
    for script in _JSON_LD.findall(html):
        try:
            data = msgspec.json.decode(script)
        except (msgspec.DecodeError, RecursionError):
            continue
        stack = [data]
        while stack:
            node = stack.pop()
            if isinstance(node, list):
                stack += node
            elif isinstance(node, dict):
                body, headline = node.get("articleBody"), node.get("headline")
                if isinstance(body, str) and len(body) > _SHELL:
                    title = escape(headline) if isinstance(headline, str) else ""
                    lines = filter(str.strip, body.splitlines())
                    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
                    return f"<title>{title}</title><article><h1>{title}</h1>{paragraphs}</article>"
                stack += [part for part in node.values() if isinstance(part, list | dict)]
    return ""


def _refuse_shell(tree: HtmlTree) -> None:
    """Raise for a page without text, and for one whose text only scripts would bring."""
    text = tree.text.strip()
    if tree.scripts and (
        not text
        or (len(text) < 60 and _WAITING.match(text))
        or (len(text) < 400 and _WANTS_JAVASCRIPT.search(text))
        or (len(text) < 60 and _WANTS_JAVASCRIPT.search(tree.hidden))
    ):
        raise build_read_error(Outcome.NEEDS_JAVASCRIPT, "scripts fill it: --render runs them")
    if not text:
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, "the page shows no text")
