"""Bytes to a Page, whatever they are: the type is found out here, not believed.

Knows nothing of where bytes come from, nor of how a page is searched or shown.
"""

import re
from urllib.parse import unquote, urlsplit

from rookery.browse.assemble import page_of
from rookery.browse.documents import (
    TEXT_READERS,
    read_docx,
    read_markdown,
    read_pdf,
    read_text,
)
from rookery.browse.encoding import decode, is_text
from rookery.browse.guard import HARMLESS, tags_in, tame
from rookery.browse.html import read_html
from rookery.browse.limits import ReadLimits, failed
from rookery.browse.selection import READERS
from rookery.browse.tree import Tree
from rookery.browse.view import neutral, plain
from rookery.records import Page

__all__ = ["ReadLimits", "neutral", "plain", "read", "sniff"]

_LIMITS = ReadLimits()
_TYPES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "application/json": "json",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
_HTML_START = re.compile(
    rb"\s*(?:<\?xml\b[^>]*\?>\s*)?(?:<!--.{0,4000}?-->\s*)*"
    rb"<(?:!doctype\s+html|(?:html|head|body|title|script|style|meta|h1|div|p|table|article|main)"
    rb"[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = {"markdown", *TEXT_READERS}
_XML_START = re.compile(rb"\s*<\?xml\b")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_SELF_CLOSED = re.compile(
    r"<(script|style|title|textarea|iframe|a|div|span|p|td|th|i|b|em|strong|ul|li)"
    r"((?:\s[^<>]*)?)/>",
    re.IGNORECASE,
)
_BINARY = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"BZh", b"7z\xbc\xaf", b"RIFF", b"OggS",
    b"ID3", b"\x7fELF", b"MZ\x90", b"wOF", b"\xca\xfe\xba\xbe", b"Rar!", b"SQLite",
)  # fmt: skip
_RTF = b"{\\rtf"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WANTS_JAVASCRIPT = re.compile(
    r"(?:enable|turn on|activate|requires?|needs?|without)\s+(?:\w+\s+){0,3}javascript"
    r"|javascript\s+(?:\w+\s+){0,3}(?:enabled|required|disabled|turned off|to run)",
    re.IGNORECASE,
)
_WAITING = re.compile(r"\W*(?:loading|please wait|one moment|redirecting)\b", re.IGNORECASE)


def read(
    data: bytes,
    url: str,
    content_type: str = "",
    fetched: str = "",
    limits: ReadLimits = _LIMITS,
) -> Page:
    """The Page that these bytes are: HTML, XHTML, PDF, DOCX, Markdown or text of any kind.

    Raises `Failed` with the outcome unsupported_type, binary, minified, malformed, encrypted,
    too_large, empty_after_extraction or needs_javascript.
    """
    if len(data) > limits.bytes:
        raise failed(url, "too_large", f"{len(data):,} bytes; at most {limits.bytes:,} are read")
    if not data.strip():
        raise failed(url, "empty_after_extraction", "there is nothing in it")
    page = _dispatch(sniff(data, url, content_type), data, url, content_type, fetched, limits)
    if len(page.text) > limits.characters:
        raise failed(url, "too_large", f"more than {limits.characters:,} characters of text")
    return page


def _dispatch(
    kind: str, data: bytes, url: str, content_type: str, fetched: str, limits: ReadLimits
) -> Page:
    if kind == "html":
        return _read_html(data, url, content_type, fetched, limits)
    if kind == "pdf":
        return read_pdf(data, url, fetched, limits)
    if kind == "docx":
        return read_docx(data, url, fetched, limits)
    if kind == "markdown":
        return read_markdown(decode(data, content_type, False), url, fetched, limits)
    if kind in TEXT_READERS:
        return read_text(decode(data, content_type, False), url, fetched, kind)
    if kind == "encrypted":
        raise failed(url, "encrypted", "the document needs a password")
    if content_type and not content_type.startswith("text/"):
        raise failed(url, "unsupported_type", content_type)
    if _by_magic(data) is not None:
        what = "a picture, an archive or a document of a type that is not read"
        raise failed(url, "unsupported_type", what)
    raise failed(url, "binary", "its bytes are not text")


def sniff(data: bytes, url: str, content_type: str = "") -> str:
    """What the bytes are: html, pdf, docx, markdown, a kind of text (text, rst, csv, json, log,
    code), encrypted, or "" for none of these.

    Bytes that say what they are come first, then the server's word, then the address's suffix.
    """
    told = content_type.split(";")[0].strip().lower()
    suffix = _suffix(url)
    found = _by_magic(data)
    if found is not None:
        return found
    looks_html = _HTML_START.match(data[:8192].removeprefix(b"\xef\xbb\xbf")) is not None
    if told in _TYPES:
        # A server that names the encoding has looked at the text; one that does not may guess.
        believed = looks_html or "charset" in content_type or is_text(data)
        return _TYPES[told] if believed or _TYPES[told] in ("pdf", "docx") else ""
    if told.startswith("text/plain") and suffix in _PLAIN and is_text(data):
        return "text" if looks_html else suffix
    if looks_html and suffix not in _PLAIN:
        return "html"
    return _by_name(data, told, suffix)


def _by_name(data: bytes, told: str, suffix: str) -> str:
    if suffix == "html" and _XML_START.match(data):
        return "html"
    if told.endswith(("/xml", "+xml")):
        return "html" if suffix == "html" else ""
    if told.startswith(("image/", "audio/", "video/", "font/")):
        return ""
    if not is_text(data):
        return suffix if suffix in ("pdf", "docx") else ""
    return suffix or "text"


def _suffix(url: str) -> str:
    try:
        name = unquote(urlsplit(url).path).rsplit("/", 1)[-1].lower()
    except ValueError:
        return ""
    return READERS.get(name.rsplit(".", 1)[-1], "") if "." in name else ""


def _by_magic(data: bytes) -> str | None:
    head = data[:1024]
    if b"%PDF-" in head and not _HTML_START.match(head):
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "docx" if b"word/document" in data else ""
    if head.startswith(_OLE):
        return "encrypted" if "EncryptedPackage".encode("utf-16-le") in data else ""
    if head.startswith(_RTF):
        return ""
    # A text may begin with the word SQLite, or RIFF.
    return "" if head.startswith(_BINARY) and not is_text(data) else None


def _read_html(data: bytes, url: str, content_type: str, fetched: str, limits: ReadLimits) -> Page:
    html = decode(data, content_type)
    if "xhtml" in content_type or _XML_START.match(data[:100]):
        html = _as_html(html)
    # In every encoding of the web a `<` holds this byte, and bytes are counted sooner.
    starts = data.count(b"<")
    if starts > limits.tags // 2 and tags_in(html) > limits.tags:
        raise failed(url, "too_large", f"more than {limits.tags:,} tags")
    if starts > HARMLESS:
        html = tame(html)
    tree = read_html(html)
    _refuse_shell(tree, url)
    return page_of(tree, url, fetched)


def _as_html(xhtml: str) -> str:
    """What XML allows and HTML would misread: `<script/>` would swallow the rest of the page."""
    xhtml = _SELF_CLOSED.sub(r"<\1\2></\1>", xhtml)
    return _CDATA.sub(lambda section: section[1].replace("&", "&amp;").replace("<", "&lt;"), xhtml)


def _refuse_shell(tree: Tree, url: str) -> None:
    """Raises for a page without text, and for one whose text only scripts would bring."""
    shown = tree.text.strip()
    if tree.scripts and (
        not shown
        or (len(shown) < 60 and _WAITING.match(shown))
        or (len(shown) < 400 and _WANTS_JAVASCRIPT.search(shown))
        or (len(shown) < 60 and _WANTS_JAVASCRIPT.search(tree.hidden))
    ):
        raise failed(url, "needs_javascript", "the page is a shell that scripts fill")
    if not shown:
        raise failed(url, "empty_after_extraction", "the page shows no text")
