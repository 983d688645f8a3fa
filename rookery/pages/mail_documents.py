"""Read mail: one message (EML) or a mailbox of them (MBOX)."""

import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_to_datetime
from html import escape
from itertools import pairwise
from urllib.parse import unquote

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
from rookery.pages.text_encoding import decode_text
from rookery.records import Page

_POSTMARK = re.compile(rb"^From (?=[^\n]*\d{4}\r?\n[!-9;-~]+:)", re.MULTILINE)
"""the line before each message of a mailbox: a sender and a date, followed by a header"""
_ESCAPED_POSTMARK = re.compile(rb"^>(>*From )", re.MULTILINE)
_MOST_MESSAGES = 20_000
_MOST_PARTS = 200
_QUOTED = re.compile(r"((?:> ?)*)(.*)")
_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
_SIGNATURE = "-- "
_MOST_QUOTING = 20
_LABELS = ("From", "To", "Cc", "Date")
_MAIL_ERRORS = (MessageError, ValueError, LookupError, TypeError, AttributeError)


def read_mail(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a message as a Page titled by its subject.

    Sender, date and names of attachments are shown and not searched; lines that begin with `>` are
    quotations. Raises Failed: malformed, too_large, empty_after_extraction.
    """
    message = _parse_message(data)
    title = _decode_header(message, "Subject")
    return join_parts(_read_message(message, limits), url, fetched, title, limits)


def read_mailbox(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return the messages of a mailbox in their order as a Page, with a mark `message` over each.

    Its title is the file's name. Raises Failed as `read_mail` does.
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


def _read_message(message: Message, limits: ReadLimits) -> Iterator[PagePart]:
    subject = _decode_header(message, "Subject")
    yield PagePart(read_part(f"<h1>{escape(subject)}</h1>", NOWHERE, limits))
    labels = [f"{name}: {text}" for name in _LABELS if (text := _decode_header(message, name))]
    yield PagePart(read_labels(labels))
    bodies, attachments = _split_message(message)
    for body in bodies:
        yield PagePart(read_part(_write_body(body), NOWHERE, limits))
    yield PagePart(read_labels(f"Attachment: {name}" for name in attachments))


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
        if kind == "message/rfc822":
            subject = _decode_header(parts[0], "Subject") if parts else ""
            attachments.append(subject or name or kind)
        elif kind == "multipart/alternative":
            # The last is the fullest (RFC 2046, 5.1.4), but for kinds that few programs show.
            waiting[:0] = [one for one in parts if _is_shown(one.get_content_type())][-1:]
        elif parts:
            waiting[:0] = parts
        elif _is_shown(kind) and not name:
            bodies.append(part)
        elif name:
            attachments.append(name)
    return bodies, attachments


def _is_shown(kind: str) -> bool:
    return kind in ("text/plain", "text/html") or kind.startswith("multipart/")


def _get_file_name(part: Message) -> str:
    try:
        name = part.get_filename("")
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        return "a file"
    attached = str(part.get("Content-Disposition", "")).lower().startswith("attachment")
    return _decode_words(name) or ("a file" if attached else "")


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
    try:
        return word.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # no such encoding, or a NUL in its name
        return word.decode("utf-8", "replace")


def _write_body(part: Message) -> str:
    """Return the text of a part as HTML."""
    try:
        data = part.get_payload(decode=True)
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        data = b""
    content = data if isinstance(data, bytes) else b""
    content_type = str(part.get("Content-Type", ""))
    if part.get_content_type() == "text/html":
        return decode_text(content, content_type)
    flowed = part.get_param("format") == "flowed"
    return write_plain_mail(decode_text(content, content_type, False), flowed)


def write_plain_mail(text: str, flowed: bool = False) -> str:
    """Return plain text of a mail as HTML: paragraphs joined where a program has broken their
    lines, lines marked by `>` as quotations, the signature at the end left as lines."""
    html, depth = list[str](), 0
    paragraph = list[str]()
    signed = False
    for line in (*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""):
        match = _QUOTED.match(line)
        marks, body = (match[1], match[2]) if match else ("", line)
        quoting = min(marks.count(">"), _MOST_QUOTING)
        signed = signed or (not quoting and line == _SIGNATURE)
        if quoting != depth or not body.strip():
            html.append(_write_lines(paragraph, flowed, signed))
            paragraph = []
        if quoting != depth and body.strip():
            html.append("<blockquote>" * (quoting - depth) + "</blockquote>" * (depth - quoting))
            depth = quoting
        if body.strip():
            paragraph.append(body)
    return "".join((*html, _write_lines(paragraph, flowed, signed)))


def _write_lines(lines: list[str], flowed: bool, signed: bool) -> str:
    if not lines:
        return ""
    widest = max(map(len, lines))
    html = [escape(lines[0].strip())]
    for before, line in pairwise(lines):
        room = widest - len(before) - 1
        full = before.endswith(" ") if flowed else room < len(line.split(None, 1)[0])
        joined = full and not signed and not _ITEM.match(line)
        html += (" " if joined else "<br>", escape(line.strip()))
    return f"<p>{''.join(html)}</p>"
