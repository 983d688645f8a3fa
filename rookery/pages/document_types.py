"""Detect documents by their bytes: Office documents, e-books, mail, feeds, man pages, pictures."""

import io
import re
import zipfile
import zlib

_HEAD = 4096
_OFFICE = {"word/document": "docx", "ppt/presentation": "pptx", "xl/workbook": "xlsx"}
_MIMETYPES = {
    "application/epub+zip": "epub",
    **dict.fromkeys(
        (
            f"application/vnd.oasis.opendocument.{what}"
            for what in ("text", "presentation", "spreadsheet")
        ),
        "open_document",
    ),
}
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
    told = re.match(rb"mimetype([\w./+-]+?)(?:PK|\s|$)", data[30:200])
    return _MIMETYPES.get(told[1].decode(), "") if told else ""


def is_picture(data: bytes) -> bool:
    """Tell whether these bytes are a picture in which text can be recognized: PNG, JPEG, TIFF."""
    return data.startswith(_PICTURES)


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
