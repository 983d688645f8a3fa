"""Read mail: one message (EML), a mailbox of them (MBOX), or a web page saved as one (MHTML)."""

import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from html import escape, unescape
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urljoin

from rookery.errors import Failed, Outcome
from rookery.pages.page_parts import (
    NOWHERE,
    PagePart,
    ReadLimits,
    build_read_error,
    join_parts,
    read_labels,
    read_part,
)
from rookery.pages.quoted_replies import ATTRIBUTION, FIELD_LINE, read_letter
from rookery.pages.text_encoding import decode_mail_text
from rookery.records import Page

_POSTMARK = re.compile(rb"^From (?=[^\n]*\d{4}\r?\n[!-9;-~]+:)", re.MULTILINE)
"""the line before each message of a mailbox: a sender and a date, followed by a header"""
_ESCAPED_POSTMARK = re.compile(rb"^>(>*From )", re.MULTILINE)
_MOST_MESSAGES = 20_000
_MOST_PARTS = 200
_MOST_DEPTH = 10
"""of messages in messages"""
_TOLD = frozenset(("delivery-status", "partial", "external-body"))
"""kinds of messages in messages that hold no letter"""
_SAVED = re.compile(r"\.mht(?:ml)?$", re.IGNORECASE)
_SHEET_LINK = re.compile(
    r"""<link\b(?=[^>]*\bstylesheet)[^>]*?\bhref\s*=\s*["']?([^"'\s>]+)[^>]*>""", re.I
)
_QUOTED = re.compile(r"((?:> ?)*)(.*)")
_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
_SIGNATURE = "-- "
_MOST_QUOTING = 20
_LABELS = ("From", "To", "Cc", "Date")
_MAIL_ERRORS = (MessageError, ValueError, LookupError, TypeError, AttributeError)


def read_mail(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a message as a Page titled by its subject.

    A letter has the mark `sender`, by whose value it is found, and what it quotes of others, or
    forwards, the mark `quoted`; recipients and names of attachments
    are shown and not searched; lines that begin with `>` are quotations; messages in the message
    follow it. Of a page that a browser saved as a message, the page is read. Raises Failed:
    malformed, too_large, empty_after_extraction.
    """
    message = _parse_message(data)
    if page := _read_saved_page(message, url, fetched, limits):
        return page
    title = _decode_header(message, "Subject")
    return join_parts(_read_message(message, limits), url, fetched, title, limits)


def read_mailbox(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return the messages of a mailbox in their order as a Page, with a mark `message` over each.

    Its title is the file's name. Messages without text are left out, but counted. Without a line
    that begins a message, the whole is read as one mail. Raises Failed as `read_mail` does.
    """
    title = unquote(url.rpartition("/")[2])
    starts = [match.start() for match in _POSTMARK.finditer(data)]
    if not starts:
        return read_mail(data, url, fetched, limits)
    if len(starts) > _MOST_MESSAGES:
        raise build_read_error(Outcome.TOO_LARGE, f"a mailbox of {len(starts):,} messages")
    pieces = (data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True))
    return join_parts(_read_messages(pieces, url, limits), url, fetched, title, limits)


def _read_messages(pieces: Iterable[bytes], url: str, limits: ReadLimits) -> Iterator[PagePart]:
    for number, piece in enumerate(pieces, 1):
        body = _ESCAPED_POSTMARK.sub(rb"\1", piece.partition(b"\n")[2])
        parts = _read_message(_parse_message(body), limits)
        try:
            page = join_parts(parts, url, "", "", limits)
        except Failed as failed:
            if failed.failure.outcome != Outcome.EMPTY_AFTER_EXTRACTION:
                raise
            continue
        yield PagePart(page, "message", str(number))


def _parse_message(data: bytes) -> Message:
    try:
        return message_from_bytes(data, policy=policy.compat32)
    # The parser has no exception of its own for headers and parts that make no sense.
    except (*_MAIL_ERRORS, RecursionError) as error:
        raise build_read_error(Outcome.MALFORMED, f"the mail cannot be read ({error!r})") from error


def _read_saved_page(message: Message, url: str, fetched: str, limits: ReadLimits) -> Page | None:
    """Return the page that a browser saved with its pictures; None where it is a letter."""
    saved = "Snapshot-Content-Location" in message or _SAVED.search(url.partition("#")[0])
    by = str(message.get("From", "")).lstrip('"< ').lower().startswith("saved by ")
    unsent = "From" not in message and message.get_content_subtype() == "related"
    parts = list(message.walk())
    pages = [part for part in parts if part.get_content_type() in _PAGES]
    if not pages or not (saved or by or unsent):
        return None
    page = min(pages, key=lambda one: one.get("Content-ID", "") != message.get_param("start"))
    base = str(page.get("Content-Location", NOWHERE))
    # Chrome writes a page's own style sheets as parts beside it.
    sheets = {
        str(part.get("Content-Location") or f"cid:{str(part.get('Content-ID')).strip('<>')}"): part
        for part in parts
        if part.get_content_type() == "text/css"
    }

    def put_sheet(link: re.Match[str]) -> str:
        part = sheets.get(urljoin(base, unescape(link[1])))
        return "" if part is None else f"<style>{_decode_body(part, False)}</style>"

    html = _SHEET_LINK.sub(put_sheet, _decode_body(page, True))
    read = read_part(html, base, limits, whole=False)
    return join_parts([PagePart(read)], url, fetched, read.title, limits)


def _read_message(message: Message, limits: ReadLimits, depth: int = 1) -> Iterator[PagePart]:
    subject = _decode_header(message, "Subject")
    tag = f"h{min(depth, 6)}"
    yield PagePart(read_part(f"<{tag}>{escape(subject)}</{tag}>", NOWHERE, limits))
    labels = [f"{name}: {text}" for name in _LABELS if (text := _decode_header(message, name))]
    yield PagePart(read_labels(labels))
    sender = _describe_sender(message)
    bodies, attachments = _split_message(message)
    inside = [body for body in bodies if body.get_content_maintype() == "message"]
    for body in bodies:
        if body not in inside:
            yield PagePart(read_letter(_write_body(body), NOWHERE, limits, sender))
    if depth == _MOST_DEPTH:
        attachments += (body.get_content_type() for body in inside)
    yield PagePart(read_labels(f"Attachment: {name}" for name in attachments))
    for body in inside if depth < _MOST_DEPTH else ():
        yield from _read_message(_open_message(body), limits, depth + 1)


def _describe_sender(message: Message) -> str:
    """Return who wrote a message and when, such as "Ada Byron, 3 May 2026", as far as it says."""
    name, address = parseaddr(_decode_header(message, "From"))
    try:
        sent = parsedate_to_datetime(str(message.get("Date", "")))
        day = f"{sent.day} {sent:%B %Y}"
    except _MAIL_ERRORS:
        day = ""
    return ", ".join(filter(None, (name or address, day)))


def _open_message(part: Message) -> Message:
    """Return the message in a part; some programs encode it, which the standard forbids."""
    inner: Any = part.get_payload(0)
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if inner.is_multipart() or inner.items() or encoding not in ("base64", "quoted-printable"):
        return inner  # type: ignore[no-any-return]
    inner["Content-Transfer-Encoding"] = encoding
    return _parse_message(inner.get_payload(decode=True))


def _split_message(message: Message) -> tuple[list[Message], list[str]]:
    """Return the parts to read, of alternatives the one with markup, and names of the others."""
    bodies, attachments = list[Message](), list[str]()
    waiting, count = [message], 0
    while waiting and count < _MOST_PARTS:
        part = waiting.pop(0)
        count += 1
        kind = part.get_content_type()
        payload = part.get_payload()
        inside = payload if isinstance(payload, list) else []
        parts = [one for one in inside if isinstance(one, Message)]
        name = _get_file_name(part)
        attached = _get_disposition(part) == "attachment"
        if kind.startswith("message/"):
            read = parts and part.get_content_subtype() not in _TOLD
            (bodies if read else attachments).append(part if read else name or kind)  # type: ignore[arg-type]
        elif kind == "multipart/alternative":
            # The last is the fullest (RFC 2046, 5.1.4), but for kinds that few programs show.
            waiting[:0] = sorted(parts, key=lambda one: _is_shown(one.get_content_type()))[-1:]
        elif parts:
            waiting[:0] = parts
        elif part.get_content_maintype() == "text" and kind not in _NOT_SHOWN and not attached:
            bodies.append(part)
        elif not part.is_multipart():
            attachments.append(name or kind)
    return bodies, attachments


_PAGES = ("text/html", "application/xhtml+xml")
_NOT_SHOWN = frozenset("text/calendar text/vcard text/x-vcard text/directory text/css".split())
"""text that mail programs show as something else, if at all"""


def _is_shown(kind: str) -> bool:
    return kind in ("text/plain", "text/html") or kind.startswith("multipart/")


def _get_file_name(part: Message) -> str:
    try:
        name = part.get_filename("")
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        return "a file"
    return _decode_words(name) or ("a file" if _get_disposition(part) == "attachment" else "")


def _get_disposition(part: Message) -> str:
    return str(part.get("Content-Disposition", "")).partition(";")[0].strip().lower()


def _decode_header(message: Message, name: str) -> str:
    text = " ".join(_decode_words(str(message.get(name, ""))).split())
    if name != "Date":
        return text
    try:
        return parsedate_to_datetime(text).strftime("%Y-%m-%d %H:%M")
    except (ValueError, TypeError, IndexError, OverflowError):
        return text


def _decode_words(written: str) -> str:
    """Return a header with its encoded words decoded; as it is written where they are damaged."""
    raw = written.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        words = decode_header(raw)
    except (MessageError, ValueError):
        return raw
    return "".join(_decode_word(word, charset) for word, charset in words)


def _decode_word(word: bytes | str, charset: str | None) -> str:
    if isinstance(word, str):
        return word
    return decode_mail_text(word, f"charset={charset or 'utf-8'}", False)


def _decode_body(part: Message, markup: bool) -> str:
    """Return the text of a part; with `markup`, it may name its encoding."""
    try:
        data = part.get_payload(decode=True)
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        data = b""
    content = data if isinstance(data, bytes) else b""
    return decode_mail_text(content, str(part.get("Content-Type", "")), markup)


def _write_body(part: Message) -> str:
    """Return the text of a part as HTML."""
    if part.get_content_type() in _PAGES:
        return _decode_body(part, True)
    flowed = str(part.get_param("format")).lower() == "flowed"
    joined = str(part.get_param("delsp")).lower() == "yes"
    return write_plain_mail(_decode_body(part, False), flowed, joined)


def write_plain_mail(text: str, flowed: bool = False, joined: bool = False) -> str:
    """Return plain text of a mail as HTML, with the paragraphs that a program has broken joined.

    Lines marked by `>` become quotations, and the signature at the end stays as lines. Of `flowed`
    text that is `joined` (RFC 3676: DelSp), the space at a broken line's end goes.
    """
    html, depth = list[str](), 0
    paragraph = list[str]()
    signed = False
    for line in (*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""):
        match = _QUOTED.match(line)
        marks, body = (match[1], match[2]) if match else ("", line)
        quoting = min(marks.count(">"), _MOST_QUOTING)
        signed = signed or (not quoting and line == _SIGNATURE)
        if quoting != depth or not body.strip():
            html.append(_write_lines(paragraph, flowed, signed, joined))
            paragraph = []
        if quoting != depth and body.strip():
            html.append("<blockquote>" * (quoting - depth) + "</blockquote>" * (depth - quoting))
            depth = quoting
        if body.strip():
            paragraph.append(body)
    return "".join((*html, _write_lines(paragraph, flowed, signed, joined)))


def _write_lines(lines: list[str], flowed: bool, signed: bool, joined: bool) -> str:
    if not lines:
        return ""
    widest = max(map(len, lines))
    html = [escape(lines[0].strip())]
    for before, line in pairwise(lines):
        room = widest - len(before) - 1
        full = before.endswith(" ") if flowed else room < len(line.split(None, 1)[0])
        goes_on = full and not (signed or FIELD_LINE.match(line) or ATTRIBUTION.match(before))
        goes_on = goes_on and (flowed or not _ITEM.match(line))
        space = "" if joined and not before.endswith("  ") else " "
        html += (space if goes_on else "<br>", escape(line.strip()))
    return f"<p>{''.join(html)}</p>"
