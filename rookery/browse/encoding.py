"""Bytes to text: which encoding a page is in. Knows nothing of HTML beyond its declarations."""

import codecs
import re

import webencodings

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
HEAD = 1024
SAMPLE = 65_536
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


def decode(data: bytes, content_type: str = "", markup: bool = True) -> str:
    """The text of `data`: byte order mark, then header, then declaration, then a guess.

    `markup` says whether `<meta>` and XML declarations count. Bytes that do not belong to the
    encoding become U+FFFD; nothing raises.
    """
    for mark, name in BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    codec = _from_header(content_type) or (_from_markup(data[:HEAD]) if markup else None)
    if codec is not None:
        return codec.decode(data, "replace")[0]
    return _guess(data)


def _from_header(content_type: str) -> codecs.CodecInfo | None:
    found = _HEADER.search(content_type)
    return _codec(found.group(1)) if found else None


def _from_markup(head: bytes) -> codecs.CodecInfo | None:
    found = _XML.search(head) or _META.search(head)
    if found is None:
        return None
    codec = _codec(found.group(1).decode("ascii"))
    # A declaration that could be read as ASCII cannot be in UTF-16: the standard says UTF-8.
    return _codec("utf-8") if codec is not None and codec.name.startswith("utf-16") else codec


def _codec(label: str) -> codecs.CodecInfo | None:
    encoding = webencodings.lookup(label)
    # "replacement" stands for encodings that browsers refuse; it would lose the whole page.
    if encoding is None or encoding.name in ("replacement", "x-user-defined"):
        return None
    info: codecs.CodecInfo = encoding.codec_info
    return info


def _guess(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # One damaged byte in a long UTF-8 page is likelier than another encoding.
        text = data.decode("utf-8", "replace")
        broken = text.count("\ufffd")
        if error.start > 0 and broken * 20 < _beyond_ascii(text):
            return text
    return _by_statistics(data)


def _beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _by_statistics(data: bytes) -> str:
    import charset_normalizer

    western = data.decode("windows-1252", "replace")
    sample = _around_high_bytes(data)
    if _reads_as_western(sample.decode("windows-1252", "replace")):
        return western
    best = charset_normalizer.from_bytes(sample).best()
    if best is None or best.encoding.startswith("utf"):
        return western
    if best.encoding in _LATIN and best.language not in _CENTRAL_EUROPEAN:
        # Their letters are the same few bytes apart; the commonest of them is the likeliest.
        return western
    return data.decode(best.encoding, "replace")


def _reads_as_western(text: str) -> bool:
    """Whether words hold only letters, most of them plain: any other encoding read as
    windows-1252 has signs such as ³ and ¹ inside words, or words all of accented letters."""
    words = [word for word in _WORD_BEYOND_ASCII.findall(text) if not word.isascii()]
    plain = sum(letter.isascii() for word in words for letter in word)
    signs = len(_SIGN_IN_WORD.findall(text))
    return "\ufffd" not in text and signs == 0 and 2 * plain >= sum(map(len, words))


def _around_high_bytes(data: bytes) -> bytes:
    """A bounded sample that starts shortly before the first byte beyond ASCII."""
    first = re.search(rb"[\x80-\xff]", data)
    start = max(0, first.start() - 1024) if first else 0
    return data[start : start + SAMPLE]
