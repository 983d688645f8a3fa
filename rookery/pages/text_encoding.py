"""Decode bytes as text: its encoding by declaration, marks and statistics."""

import codecs
import re
import unicodedata
from collections import Counter

import webencodings

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
    sample = data[:SAMPLE_BYTES]
    if len(data) < 4 or len(data) % 2 or (b"\0" not in sample and _is_utf_8(sample)):
        return ""
    for name in ("utf-16-le", "utf-16-be"):
        try:
            text = sample.decode(name)
        except UnicodeDecodeError as error:
            if error.end < len(sample) or not error.start:
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
    declared = _HEADER.search(content_type)
    codec = _find_codec(declared[1]) if declared else None
    if codec is None and markup:
        codec = _codec_of_markup(data[:HEAD_BYTES])
    if codec is not None:
        return codec.decode(data, "replace")[0]
    return _guess_encoding(data)


_CODE_PAGE = re.compile(r"(?:x|win|windows|ibm|ms|dos|cp)*0*(\d{3,5})")
_NO_CHARSETS = frozenset("ascii usascii ansix341968 punycode idna unicodeescape".split())
_JIS = re.compile(rb"\x1b(\$[@B]|\([BJI])([^\x1b]*)")


def decode_mail_text(data: bytes, content_type: str, markup: bool) -> str:
    """Decode `data` as `decode_text` does, by all names of encodings that mail programs know."""
    declared = _HEADER.search(content_type)
    label = re.sub(r"[^a-z0-9]", "", declared[1].lower()) if declared else ""
    if ("2022jp" in label or label.startswith("cp5022") or not label) and _JIS.search(data):
        return _decode_jis(data)
    if declared is None or _find_codec(declared[1]) or label in _NO_CHARSETS:
        return decode_text(data, content_type, markup)
    name = {"eucjpms": "euc_jp", "cp51932": "euc_jp", "eucjpwin": "euc_jp"}.get(label, label)
    for codec_name in (declared[1], name, _CODE_PAGE.sub(r"cp\1", name), name.removeprefix("x")):
        try:
            return str(data.decode(codec_name, "replace"))
        except (LookupError, ValueError):  # no such encoding of text, or a NUL in its name
            continue
    return decode_text(data, "", markup)


def _decode_jis(data: bytes) -> str:
    """Decode ISO-2022-JP with the characters of Windows, which mail programs write in it."""
    if b"\x1b$(" in data or b"\x1b$A" in data:  # Korean, Chinese, or rare characters
        return data.decode("iso2022_jp_2", "replace")

    def shift_pairs(part: re.Match[bytes]) -> bytes:
        if part[1] == b"(I":
            return bytes(byte | 0x80 for byte in part[2])
        if part[1] in (b"(B", b"(J"):
            return part[2]
        shifted = bytearray()
        for row, cell in zip(part[2][::2], part[2][1::2], strict=False):
            lead = (row - 0x21) // 2 + (0x81 if row < 0x5F else 0xC1)
            shifted += bytes((lead & 255, cell + (0x1F + (cell > 0x5F) if row % 2 else 0x7E) & 255))
        return bytes(shifted)

    return _JIS.sub(shift_pairs, data).decode("cp932", "replace")


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
