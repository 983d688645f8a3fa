"""Read bytes of any type as a Page; type and text encoding are detected from the bytes."""

import codecs
import io
import re
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from urllib.parse import unquote, urlsplit

import msgspec
import webencodings

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
from rookery.pages.page_text import join_visible_text, neutralize_text
from rookery.pages.pdf_documents import read_pdf
from rookery.pages.text_documents import (
    TEXT_READERS,
    ReadLimits,
    build_read_error,
    read_markdown,
    read_text,
)
from rookery.records import Page

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
    declared = re.match(rb"mimetype([\w./+-]+?)(?:PK|\s|$)", data[30:200])
    return _MIMETYPES.get(declared[1].decode(), "") if declared else ""


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


__all__ = ["ReadLimits", "detect_type", "join_visible_text", "neutralize_text", "read_page"]

_LIMITS = ReadLimits()
_TYPES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "application/json": "json",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.text": "open_document",
    "application/vnd.oasis.opendocument.presentation": "open_document",
    "application/vnd.oasis.opendocument.spreadsheet": "open_document",
    "application/epub+zip": "epub",
    "message/rfc822": "mail",
    "application/mbox": "mailbox",
    "application/x-ipynb+json": "notebook",
    "application/rss+xml": "feed",
    "application/atom+xml": "feed",
}
_HTML_START = re.compile(
    rb"\s*(?:<\?xml\b[^>]*\?>\s*)?(?:<!--.{0,4000}?-->\s*)*"
    rb"<(?:!doctype\s+html|(?:html|head|body|title|script|style|meta|h1|div|p|table|article|main)"
    rb"[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = {"markdown", *TEXT_READERS}
_DTD = re.compile(
    r"<!DOCTYPE\b[^\[<>]*\[(?P<subset>[^\]]*(?:\](?!\s*>)[^\]]*)*)\]\s*>", re.IGNORECASE
)
_ENTITY = re.compile(r"""<!ENTITY\s+([\w.:-]+)\s+(?:"([^"&<%]{0,100})"|'([^'&<%]{0,100})')\s*>""")
_WRITTEN = {"mail", "mailbox", "notebook", "feed"}
"""documents that are text, which servers send as such"""
_XML_START = re.compile(rb"\s*<\?xml\b")
_LONGEST_DTD = 100_000
_REFERENCE = re.compile(r"&([\w.:-]+);")
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


def read_page(
    data: bytes,
    url: str,
    content_type: str = "",
    fetched: str = "",
    limits: ReadLimits = _LIMITS,
) -> Page:
    """Return the Page that these bytes are: HTML, a document of a known kind, or text.

    Raises `Failed` with the outcome unsupported_type, binary, minified, malformed, encrypted,
    too_large, timed_out, empty_after_extraction or needs_javascript.
    """
    if len(data) > limits.bytes:
        raise build_read_error(
            url, Outcome.TOO_LARGE, f"{len(data):,} bytes; at most {limits.bytes:,} are read"
        )
    if not data.strip():
        raise build_read_error(url, Outcome.EMPTY_AFTER_EXTRACTION, "there is nothing in it")
    page = _read_by_kind(
        detect_type(data, url, content_type), data, url, content_type, fetched, limits
    )
    if len(page.text) > limits.characters:
        raise build_read_error(
            url, Outcome.TOO_LARGE, f"more than {limits.characters:,} characters of text"
        )
    return page


def _read_by_kind(
    kind: str, data: bytes, url: str, content_type: str, fetched: str, limits: ReadLimits
) -> Page:
    if kind == "html":
        return _read_html(data, url, content_type, fetched, limits)
    if kind == "pdf":
        return _read_pdf_and_scans(data, url, fetched, limits)
    if kind == "markdown":
        return read_markdown(decode_text(data, content_type, False), url, fetched, limits)
    if kind in TEXT_READERS:
        return read_text(decode_text(data, content_type, False), url, fetched, kind)
    if kind in DOCUMENT_READERS or kind in ("man", "picture"):
        try:
            return _load_document_readers()[kind](data, url, fetched, limits)
        except Failed as failed:  # a part may have an address of its own
            raise Failed(msgspec.structs.replace(failed.failure, what=url)) from failed
    if kind == "encrypted":
        raise build_read_error(url, Outcome.ENCRYPTED, "the document needs a password")
    if content_type and not content_type.startswith("text/"):
        raise build_read_error(url, Outcome.UNSUPPORTED_TYPE, content_type)
    if _detect_by_magic(data) is not None:
        what = "a picture, an archive or a document of a type that is not read"
        raise build_read_error(url, Outcome.UNSUPPORTED_TYPE, what)
    raise build_read_error(url, Outcome.BINARY, "its bytes are not text")


@cache
def _load_document_readers() -> dict[str, Callable[[bytes, str, str, ReadLimits], Page]]:
    """Import the readers of documents by kind when the first one is read: they cost time."""
    from rookery.pages.external_programs import read_manual, read_picture
    from rookery.pages.feeds import read_feed
    from rookery.pages.mail_documents import read_mail, read_mailbox
    from rookery.pages.notebooks import read_notebook
    from rookery.pages.zip_documents import (
        read_docx,
        read_epub,
        read_open_document,
        read_pptx,
        read_xlsx,
    )

    return {
        "docx": read_docx,
        "pptx": read_pptx,
        "xlsx": read_xlsx,
        "open_document": read_open_document,
        "epub": read_epub,
        "mail": read_mail,
        "mailbox": read_mailbox,
        "notebook": read_notebook,
        "feed": read_feed,
        "man": read_manual,
        "picture": read_picture,
    }


def _read_pdf_and_scans(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    def recognize_text(numbers: Iterable[int]) -> Iterator[tuple[int, list[str]]]:
        from rookery.pages.external_programs import recognize_pages

        return recognize_pages(data, numbers, url, limits)

    return read_pdf(data, url, fetched, limits, recognize_text)


def detect_type(data: bytes, url: str, content_type: str = "") -> str:
    """Return the type of the bytes: html, markdown, a kind of text, pdf, docx, pptx, xlsx,
    open_document, epub, mail, mailbox, notebook, feed, man, picture, encrypted, or "".

    Kinds of text are text, rst, csv, json, log and code; "" is none of these. Bytes that say what
    they are come first, then the server's word, then the address's suffix.
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
    if is_picture(head):
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
    if starts > limits.tags // 2 and count_tags(html) > limits.tags:
        raise build_read_error(url, Outcome.TOO_LARGE, f"more than {limits.tags:,} tags")
    if starts > HARMLESS_TAG_COUNT:
        html = simplify_markup(html)
    tree = read_html(html)
    if len(tree.text) < _SHELL and (body := _find_article_body(html)):
        tree = read_html(body)
    _refuse_shell(tree, url)
    return build_page(tree, url, fetched)


def rewrite_xhtml(xhtml: str) -> str:
    """Rewrite XML that HTML would misread: `<script/>` would swallow the rest of the page.

    The document type goes, since HTML ends it at its first entity; short entities that it defines
    are put in.
    """
    if declared := _DTD.search(xhtml[:_LONGEST_DTD]):
        named = {name: one or other for name, one, other in _ENTITY.findall(declared["subset"])}
        xhtml = xhtml[: declared.start()] + xhtml[declared.end() :]
        if named:
            xhtml = _REFERENCE.sub(lambda match: named.get(match[1], match[0]), xhtml)
    xhtml = _SELF_CLOSED.sub(r"<\1\2></\1>", xhtml)
    return _CDATA.sub(lambda section: section[1].replace("&", "&amp;").replace("<", "&lt;"), xhtml)


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
                    title = _escape_markup(headline) if isinstance(headline, str) else ""
                    lines = filter(str.strip, body.splitlines())
                    paragraphs = "".join(f"<p>{_escape_markup(line)}</p>" for line in lines)
                    return f"<title>{title}</title><article><h1>{title}</h1>{paragraphs}</article>"
                stack += [part for part in node.values() if isinstance(part, list | dict)]
    return ""


def _escape_markup(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _refuse_shell(tree: HtmlTree, url: str) -> None:
    """Raise for a page without text, and for one whose text only scripts would bring."""
    text = tree.text.strip()
    if tree.scripts and (
        not text
        or (len(text) < 60 and _WAITING.match(text))
        or (len(text) < 400 and _WANTS_JAVASCRIPT.search(text))
        or (len(text) < 60 and _WANTS_JAVASCRIPT.search(tree.hidden))
    ):
        raise build_read_error(url, Outcome.NEEDS_JAVASCRIPT, "scripts fill it: --render runs them")
    if not text:
        raise build_read_error(url, Outcome.EMPTY_AFTER_EXTRACTION, "the page shows no text")


BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
HEAD_BYTES = 1024
SAMPLE_BYTES = 65_536
_ASCII_LABELS = ("ascii", "us-ascii", "ansi_x3.4-1968")
_LATIN = frozenset(
    "cp1250 cp1252 cp1254 cp1257 cp1258 cp437 cp850 cp852 cp858 latin_1 iso8859_2 iso8859_3"
    " iso8859_4 iso8859_9 iso8859_10 iso8859_13 iso8859_14 iso8859_15 iso8859_16 mac_roman"
    " mac_latin2 mac_iceland mac_turkish hp_roman8".split()
)
_CENTRAL_EUROPEAN = frozenset(
    "Polish Czech Slovak Slovene Hungarian Croatian Romanian Turkish Lithuanian Latvian Estonian"
    " Vietnamese".split()
)
_META = re.compile(rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([a-zA-Z0-9_:.+-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([a-zA-Z0-9_:.+-]+)["']""")
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_WORD_BEYOND_ASCII = re.compile(r"[^\W\d_]+")
_SIGN_IN_WORD = re.compile(r"[^\W\d_][\xa1-\xbf\x80-\x9f](?=[^\W\d_])(?<![\xaa\xb5\xb7\xba\xad])")


# What text files hold besides printable characters: white space, BEL and BS of terminals, ESC of
# colours, and the SUB that ends files of DOS.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\a\b\x1b\x1a"})
_MOST_CONTROLS = 50
"""characters for each control character that is forgiven"""
_MOST_ACCENTS = 0.3
"""share of characters beyond ASCII in a language of the Latin alphabet"""
_SHORT = 64
"""bytes; fewer may be mostly ASCII by chance"""
_ONE_SCRIPT = 0.9
_SHORT_UTF_16 = 8
"""code units; fewer of East Asian text may be chance"""
_SCRIPT_SAMPLE = 4096
_CORES = (("gb2312", b"\xd7"), ("shift_jis", b"\x98"), ("euc_kr", b"\xc8"), ("big5", b"\xc6"))
"""East Asian character sets, and the first byte of the last character in common use"""
_QUOTES = "“”‘’„‚«»‹›–—…€£§°"
_WORD = re.compile(r"[^\W_]+")


def is_text(data: bytes) -> bool:
    """Tell whether `data` is text, in any encoding that `decode_text` detects. Empty data are.

    Random bytes pass by chance where they are very few, because nothing tells a few printable
    characters from text: 4 in 10 single bytes, 1 in 12 of four, 1 in 400 of eight, 1 in 1,000 of
    sixteen, and less than 1 in 10,000 of 32 or more.
    """
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(name, "replace")
            return "\0" not in text and _is_clean(text)
    if _find_utf_32(data) or _find_utf_16(data):
        return True
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if b"\0" in data or controls * _MOST_CONTROLS > len(data):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return _is_damaged_utf_8(data) or (not controls and _is_legacy_text(data))
    return True


def _is_clean(text: str) -> bool:
    """Tell whether hardly any character is unassigned, private, a control or not decoded."""
    sample = text[:SAMPLE_BYTES]
    kinds = Counter(map(unicodedata.category, sample))
    bad = kinds["Cn"] + kinds["Co"] + kinds["Cs"] + sample.count("\ufffd")
    bad += sum(character < " " and ord(character) in _CONTROLS for character in sample)
    return bad * _MOST_CONTROLS <= len(sample)


def _find_utf_32(data: bytes) -> str:
    """Return the codec of UTF-32 without a mark; empty where it is none.

    Three of four bytes of Latin text are 0, and hardly any other bytes are characters of UTF-32.
    """
    sample = data[: SAMPLE_BYTES & ~3]
    if len(data) < 8 or len(data) % 4 or b"\0" not in sample:
        return ""
    for name in ("utf-32-le", "utf-32-be"):
        text = sample.decode(name, "replace")
        if "\0" not in text and "\ufffd" not in text and _is_clean(text):
            return name
    return ""


def _find_utf_16(data: bytes) -> str:
    """Return the codec of UTF-16 without a mark; empty where it is none."""
    if (
        len(data) < 4
        or len(data) % 2
        or (b"\0" not in data[:SAMPLE_BYTES] and _is_utf_8(data[:SAMPLE_BYTES]))
    ):
        return ""
    for name in ("utf-16-le", "utf-16-be"):
        try:
            text = data[:SAMPLE_BYTES].decode(name)
        except UnicodeDecodeError as error:
            if error.end < len(data[:SAMPLE_BYTES]) or not error.start:
                continue
            text = data[: error.start].decode(name)  # a pair of surrogates that the sample cuts
        if _is_clean(text) and _reads_as_utf_16(text):
            return name
    return ""


def _is_utf_8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _reads_as_utf_16(text: str) -> bool:
    """Tell whether nearly all characters are of one alphabet, or of one East Asian character set.

    Any two bytes are a character of UTF-16, but of the 65,536 an alphabet has one part in 256 and
    the characters in common use of a language one in five to nine.
    """
    if "\0" in text:
        return False
    rows = Counter(ord(character) >> 8 for character in text)
    alphabets = [count for row, count in rows.items() if 0 < row < 0x20]
    if rows[0] + rows[0x20] + max(alphabets, default=0) >= _ONE_SCRIPT * len(text):
        return bool(rows[0]) or len(text) >= _SHORT_UTF_16
    return len(text) >= _SHORT_UTF_16 and _share_in_use(text) >= _ONE_SCRIPT


def _share_in_use(text: str) -> float:
    """Largest share of the characters that the commoner half of an East Asian set has."""
    sample = text[:_SCRIPT_SAMPLE]
    return max(
        sum(
            encoded[:1] <= last
            for character in sample
            if (encoded := character.encode(core, "ignore"))
        )
        for core, last in _CORES
    ) / len(sample)


def _is_damaged_utf_8(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    return text.count("\ufffd") * 20 < _count_beyond_ascii(text)


def _is_legacy_text(data: bytes) -> bool:
    """Tell whether these bytes, which are no UTF-8, read as text in an older encoding."""
    sample = _sample_high_bytes(data)
    high = len(sample) - len(sample.decode("ascii", "ignore"))
    if high <= _MOST_ACCENTS * len(sample) and len(sample) >= _SHORT:
        return True
    western = sample.decode("windows-1252", "replace")
    if 2 * high <= len(sample) and _reads_as_western(western):
        beyond = (mark for mark in western if not mark.isascii())
        return _is_wordy(western) and all(mark.isalpha() or mark in _QUOTES for mark in beyond)
    codec = _guess_codec_of(sample)
    if codec is None or high < _SHORT_UTF_16:
        return False
    text = sample.decode(codec, "ignore")
    return _is_clean(text) and _is_of_one_script(text)


def _is_of_one_script(text: str) -> bool:
    """Tell whether nearly all that is beyond ASCII are letters of one script, in common use."""
    beyond = [character for character in text if not character.isascii()]
    if any("\u2e80" <= character <= "\uffef" for character in beyond):
        return _share_in_use("".join(beyond)) >= _ONE_SCRIPT
    marks = sum(not unicodedata.category(character).startswith(("L", "M")) for character in beyond)
    scripts = Counter(_get_script(character) for character in beyond if character.isalpha())
    top = max(scripts.values(), default=0)
    return marks <= 0.1 * len(beyond) and top >= 0.75 * len(beyond) and _is_wordy(text)


def _get_script(letter: str) -> int:
    """Return the row of 256 characters that stands for the alphabet; one for all Latin letters."""
    return 0 if letter < "\u0250" else ord(letter) >> 8


def _is_wordy(text: str) -> bool:
    """Tell whether the text is mostly letters, in words of one script and of a regular case."""
    words = _WORD.findall(text)
    odd = sum(len(word) for word in words if not _is_regular(word))
    letters = sum(map(len, words))
    spaces = sum(character.isspace() for character in text)
    return letters + spaces >= 0.7 * len(text) and odd <= 0.1 * letters


def _is_regular(word: str) -> bool:
    if not word.isalpha():
        return word.isdecimal()
    same = len({_get_script(letter) for letter in word}) == 1
    return same and (word.islower() or word.isupper() or word[1:] == word[1:].lower())


def decode_text(data: bytes, content_type: str = "", markup: bool = True) -> str:
    """Decode `data` to text, in the encoding that it or the server names, else in a guessed one.

    First comes a byte order mark, then the header `content_type`, then, with `markup`, a `<meta>`
    or XML declaration. Bytes that do not belong to the encoding become U+FFFD; nothing raises.
    """
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    codec = _codec_of_header(content_type) or (
        _codec_of_markup(data[:HEAD_BYTES]) if markup else None
    )
    if codec is not None:
        return codec.decode(data, "replace")[0]
    return _guess_encoding(data)


def _codec_of_header(content_type: str) -> codecs.CodecInfo | None:
    found = _HEADER.search(content_type)
    return _find_codec(found.group(1)) if found else None


def _codec_of_markup(head: bytes) -> codecs.CodecInfo | None:
    found = _XML.search(head) or _META.search(head)
    if found is None:
        return None
    codec = _find_codec(found.group(1).decode("ascii"))
    # A declaration that could be read as ASCII cannot be in UTF-16: the standard says UTF-8.
    return _find_codec("utf-8") if codec is not None and codec.name.startswith("utf-16") else codec


def _find_codec(label: str) -> codecs.CodecInfo | None:
    if label.strip().lower() in _ASCII_LABELS:
        # groff writes it over UTF-8. Browsers take windows-1252; it says nothing of other bytes.
        return None
    encoding = webencodings.lookup(label)
    # "replacement" stands for encodings that browsers refuse; it would lose the whole page.
    if encoding is None or encoding.name in ("replacement", "x-user-defined"):
        return None
    info: codecs.CodecInfo = encoding.codec_info
    return info


def _guess_encoding(data: bytes) -> str:
    if name := _find_utf_32(data) or _find_utf_16(data):
        return data.decode(name, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # One damaged byte in a long UTF-8 page is likelier than another encoding.
        text = data.decode("utf-8", "replace")
        broken = text.count("\ufffd")
        if error.start > 0 and broken * 20 < _count_beyond_ascii(text):
            return text
    return _guess_by_statistics(data)


def _count_beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _guess_by_statistics(data: bytes) -> str:
    western = data.decode("windows-1252", "replace")
    sample = _sample_high_bytes(data)
    if _reads_as_western(sample.decode("windows-1252", "replace")):
        return western
    return data.decode(_guess_codec_of(sample) or "windows-1252", "replace")


def _guess_codec_of(sample: bytes) -> str | None:
    """Return the codec that suits best; None where none does."""
    import charset_normalizer

    best = charset_normalizer.from_bytes(sample).best()
    if best is None or best.encoding.startswith("utf"):
        return None
    if best.encoding in _LATIN and best.language not in _CENTRAL_EUROPEAN:
        # Their letters are the same few bytes apart; the commonest of them is the likeliest.
        return "windows-1252"
    return best.encoding


def _reads_as_western(text: str) -> bool:
    """Return whether words hold only letters, most of them plain: any other encoding read as
    windows-1252 has signs such as ³ and ¹ inside words, or words all of accented letters."""
    words = [word for word in _WORD_BEYOND_ASCII.findall(text) if not word.isascii()]
    plain = sum(letter.isascii() for word in words for letter in word)
    signs = len(_SIGN_IN_WORD.findall(text))
    return "\ufffd" not in text and signs == 0 and 2 * plain >= sum(map(len, words))


def _sample_high_bytes(data: bytes) -> bytes:
    """Return a bounded sample that starts shortly before the first byte beyond ASCII."""
    first = re.search(rb"[\x80-\xff]", data)
    start = max(0, first.start() - 1024) if first else 0
    return data[start : start + SAMPLE_BYTES]
