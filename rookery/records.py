"""The records that every package reads and writes, one JSON line each.

A record is frozen, compares by value, and refuses fields that it does not know.
"""

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, Self, TypeVar

import msgspec

from rookery.text_escaping import escape_markdown, percent_encode_url, sanitize_text

T = TypeVar("T")


def prepare_type(kind: T) -> T:
    """Return the type, after one thread has made what msgspec reads values of this type with.

    msgspec 0.22 makes it when the type is first read, and keeps it with the class before it is
    complete: a second thread that reads such a value meanwhile ends the process by a segmentation
    fault.
    """
    if kind not in _prepared_types:
        with _preparation:
            msgspec.msgpack.Decoder(kind)
            _prepared_types.add(kind)
    return kind


_prepared_types: set[Any] = set()
_preparation = threading.RLock()


_JSON_KINDS = {"object": "an object {...}", "array": "a list [...]", "str": "text"}
_JSON_KINDS |= {"int": "a whole number", "float": "a number", "bool": "true or false"}
_EXPECTED = re.compile(r"Expected `(.+?)`(.*?)(?:, got (?:`(.+)`|\d+))?")
_JSON_SENTENCES = (
    ("Object missing required field (.*)", r"the field \1 is missing"),
    ("Object contains unknown field (.*)", r"the field \1 is unknown"),
    ("Input data was truncated", "the JSON ends too early"),
    ("JSON is malformed: (.*)", r"it is not JSON: \1"),
    ("Invalid (?:enum )?value (.*)", r"the value cannot be \1"),
    ("Number out of range", "the number is too large or too small"),
)


def describe_json_error(error: Exception) -> str:
    """Say in one sentence what is wrong with JSON or TOML that msgspec refused, and in which field.

    An error of another kind is left in its own words.
    """
    if isinstance(error, UnicodeError):
        return "it is not UTF-8: save it as UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    sentence, _, path = str(error).partition(" - at `")
    field = path.rpartition("$")[2].strip("`.")
    if mismatch := _EXPECTED.fullmatch(sentence):
        expected, actual = (
            " or ".join(_JSON_KINDS.get(kind, kind) for kind in (kinds or "").split(" | "))
            for kinds in mismatch.group(1, 3)
        )
        it = f"`{field}`" if field else "it"
        return f"{it} must be {expected}{mismatch[2]}" + (f", and is {actual}" if actual else "")
    for pattern, replacement in _JSON_SENTENCES:
        sentence = re.sub(f"^{pattern}$", replacement, sentence)
    return f"{sentence} (in `{field}`)" if field else sentence


def decode_json(data: bytes | bytearray | str, kind: type[T]) -> T:
    """Return the value of this type that JSON holds. Raises ValueError, which names the field."""
    try:
        return msgspec.json.decode(data, type=prepare_type(kind))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(describe_json_error(error)) from error


def convert_value(value: object, kind: type[T]) -> T:
    """Return what JSON or TOML held as a value of this type. Raises ValueError as `decode_json`."""
    try:
        return msgspec.convert(value, prepare_type(kind))
    except msgspec.ValidationError as error:
        raise ValueError(describe_json_error(error)) from error


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that survives a round trip through one line of JSON."""

    def to_json(self) -> str:
        """Return this record as one line of JSON, without a line break.

        Numbers that are not finite are written as null, which `from_json` refuses where there must
        be a number. Raises UnicodeEncodeError for text that holds half a surrogate pair.
        """
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the record of this class that one line of JSON holds.

        Raises ValueError, naming the field, for JSON that is no such record and for what is not
        JSON, and TypeError for what is no text.
        """
        if not isinstance(line, str | bytes):
            raise TypeError(f"line must be str or bytes, not {type(line).__name__}")
        try:
            return decode_json(line, cls)
        except ValueError as error:
            raise ValueError(f"it is no {cls.__name__} in JSON: {error}") from error


class Block(Record, frozen=True, array_like=True):
    """text[start:end] of a page: one paragraph, heading, list item, table cell, line of code."""

    start: int
    end: int
    kind: str
    """paragraph, heading, item, cell, caption, quotation or code"""
    level: int = 0
    """1 to 6 for a heading, the depth of nesting for an item, 0 otherwise"""
    article: bool = True
    """part of the article view; navigation, adverts and footers are not"""
    hidden: bool = False
    """hidden by markup: kept in the text, shown in no view"""
    furniture: bool = False
    """navigation, advert, cookie banner or footer by its markup: shown in views, never searched"""


class Link(Record, frozen=True, array_like=True):
    """text[start:end] of a page leads to `url` (absolute, http, https or file)."""

    start: int
    end: int
    url: str


class Mark(Record, frozen=True, array_like=True):
    """Something that a view shows at text[start:end] and that is not in the text itself."""

    start: int
    end: int
    kind: str
    """ruby (value: the reading), image (empty span; value: its alt text), anchor (value: its id),
    header (a row of header cells), page, slide or message (value: its number), sheet (value: its
    name), chapter (value: its heading), key (a further part of a value in JSON; value: its key),
    sender (the letter of a mail; value: who sent it and when), quoted (what a letter has of others;
    value: what it says of who wrote it), time (value: when it is said), date (value: that of the
    document, as YYYY-MM-DD), ocr (text that a program has read in a picture); in pages that version
    0.1 read also sup and sub"""
    value: str = ""


class Page(Record, frozen=True):
    """One version of one page. `text` is canonical: every offset points into it."""

    url: str
    title: str
    text: str
    blocks: tuple[Block, ...] = ()
    """in the order of the text, never overlapping; what lies between two blocks is white space"""
    links: tuple[Link, ...] = ()
    marks: tuple[Mark, ...] = ()
    digest: str = ""
    """of the text; computed where it is not given, checked where it is"""
    fetched: str = ""
    """when the page was read: UTC, ISO 8601"""

    def __post_init__(self) -> None:
        digest = digest_of(self.text)
        if self.digest not in ("", digest):
            raise ValueError(f"the text of {self.url} does not have the digest {self.digest}")
        msgspec.structs.force_setattr(self, "digest", digest)

    def quote(self, start: int, end: int) -> "Quote":
        """Return text[start:end] of the page as a Quote.

        Rookery makes its own quotes in no other way, so that each is verbatim. Raises ValueError
        for an empty span, for one outside the text, and for one that cuts a word or a number, as
        `is_word_edge` says.
        """
        if not 0 <= start < end <= len(self.text):
            size = len(self.text)
            raise ValueError(f"quote [{start}:{end}] is outside {self.url} ({size} chars)")
        if not (is_word_edge(self.text, start) and is_word_edge(self.text, end)):
            raise ValueError(f"quote [{start}:{end}] cuts a word or a number of {self.url}")
        quote = Quote(self.url, self.title, self.digest, start, end, self.text[start:end])
        quote.__dict__["from_page"] = True
        return quote

    def quote_whole_words(self, start: int, end: int) -> "Quote":
        """Return the quote of the least span that holds text[start:end] and cuts no word.

        Raises ValueError for an empty span and for one outside the text.
        """
        if 0 <= start < end <= len(self.text):
            start, end = widen_to_words(self.text, start, end)
        return self.quote(start, end)

    def iter_article(self) -> Iterator[Block]:
        """Yield the blocks of the article view: boilerplate and hidden text left out."""
        return (block for block in self.blocks if block.article and not block.hidden)

    def iter_shown(self) -> Iterator[Block]:
        """Yield the blocks of the full view: everything that a reader of the page would see."""
        return (block for block in self.blocks if not block.hidden)


INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0001\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
"""a character that leaves no trace where it stands in a text"""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
"""a character of a script that sets no spaces between words: Thai, Lao, Burmese, Khmer, Chinese,
Japanese"""


_PHRASED = (
    "\u0e01-\u0e3e\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0eff\u1000-\u103f\u1050-\u108f\u109a-\u109d"
    "\u1780-\u17d3\u17d7\u17dc\u17dd"
)
"""letters of Thai, Lao, Burmese and Khmer, which set spaces between phrases, and their marks"""
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HAN = "\u3005\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_DENYING = "不未非无無没沒勿莫毋负負"
"""signs that turn the one behind them round, as un- does"""
_UNSPACED_KINDS = [
    (re.compile(f"[{letters}]"), kind)
    for letters, kind in ((_PHRASED, "t"), (_KATAKANA, "k"), (_DENYING, "z"), (_HAN, "h"))
]


class _CharacterKinds(dict[int, str]):
    """The kind of each character, as one character of `_INSIDE_WORD`'s alphabet; "" if invisible.

    A superscript digit is 2, ½ and the like 3, any other number but the digit 0 is 1, a letter a or
    A, a mark on one m, a currency sign $. Of unspaced scripts: Thai and the like t, a Katakana
    sign k, a Chinese sign h, one that denies z, a number n, another letter u, a mark on any of them
    v.
    """

    def __missing__(self, code: int) -> str:
        kind = self[code] = self._classify_character(chr(code))
        return kind

    @staticmethod
    def _classify_character(character: str) -> str:
        category = unicodedata.category(character)
        if INVISIBLE.match(character):
            return ""
        if category == "Sc":
            return "$"
        if UNSPACED.match(character) and category[0] not in "PS":
            scripts = (kind for letters, kind in _UNSPACED_KINDS if letters.match(character))
            return {"Nd": "1", "Mn": "v", "Mc": "v"}.get(category) or next(scripts, "u")
        if character.isspace():
            return "\n"
        kinds = {"L": "A" if character.isupper() else "a", "M": "m", "N": "1"}
        return kinds.get(category[0], "_" if category == "Pc" else "|")


_CHARACTER_KINDS = _CharacterKinds(
    (ord(character), kind)
    for characters, kind in (
        ("0", "0"), ("eE", "e"), ("xX", "x"), ("⁺⁻", "_"), ("^", "^"), ("'’ʼ＇‘‛`´", "'"),
        ("-‐‑﹣－", "-"), ("–−‒", "–"), ("+＋", "+"), ("±∓", "±"), ("=＝", "="),
        ("<>≤≥≦≧≈~∼＜＞≃≅≲≳⩽⩾≠", "<"), (".．", "."),
        (",，٫٬:：⁄∕", ","), ("·∙⋅", "·"), ("/／", "/"), ("&＆@＠", "&"), ("×*∗✕", "×"),
        ("%‰‱٪؉％﹪", "%"), ("#＃♯♭", "#"), ("°˚℃℉", "°"), ("′″‴", "′"), (" ", " "),
        ("\u00a0\u2007\u2009\u202f", "~"), ("\t", "|"), ("⁰¹²³⁴⁵⁶⁷⁸⁹", "2"),
        ("¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞", "3"), ("〇一二三四五六七八九十百千万億兆两零萬亿", "n"),
    )
    for character in characters
)  # fmt: skip
_LETTER, _DIGIT, _SPACE = "[aAmex0123_]", "[0123]", "[ ~]"
_POWER = r"10[\^2_]"
_INSIDE_WORD = re.compile(
    "|".join(
        f"(?<={before})(?={after})"
        for before, after in (
            (_LETTER, f"{_LETTER}"), (r"\S", "[mv]"), ("[n0123]", "n"), ("n", _DIGIT),
            # inside a word: hyphen, apostrophe, slash, and a full stop where no sentence begins
            (_LETTER, f"['/&·-]{_LETTER}"), (f"{_LETTER}['/&·-]", _LETTER),
            (_LETTER, r"\.[aexm_0123]"), (rf"{_LETTER}\.", "[aexm_0123]"),
            ("A", r"\.A"), (r"A\.", "A"),
            # a word that a hyphen divides at the end of a line
            (_LETTER, f"-\n{_LETTER}"), (f"{_LETTER}-", f"\n{_LETTER}"), (f"{_LETTER}-\n", _LETTER),
            # unspaced scripts: phrases of Thai, words in Katakana, signs of a Japanese word
            ("[tv]", "t"), ("k", "k"), ("z", "[hnz]"), ("h", "[hz].{0,6}[uk]"),
            *(("[uk]" + "." * size + "h", "[hz]") for size in range(7)),
            # inside a number: separators, groups of three digits after a space, ranges
            (_DIGIT, f"[,–+~]{_DIGIT}"), (f"{_DIGIT}[,–+~]", _DIGIT),
            *(
                (f"(?<!{_DIGIT}){_DIGIT}{{{size}}}{space}", f"{left}{_DIGIT}{{3}}(?!{_DIGIT})")
                for size in (1, 2, 3)
                for space, left in (("", " "), (" ", ""))
            ),
            (_DIGIT, f"{_SPACE}?±"), (f"{_DIGIT}{_SPACE}", "±"), ("<", "="),
            ("<=", f"{_SPACE}?[$]?{_DIGIT}"), (f"<={_SPACE}", f"[$]?{_DIGIT}"),
            (_DIGIT, f"{_SPACE}–{_SPACE}{_DIGIT}"), (f"{_DIGIT}{_SPACE}", f"–{_SPACE}{_DIGIT}"),
            (f"{_DIGIT}{_SPACE}–", f"{_SPACE}{_DIGIT}"), (f"{_DIGIT}{_SPACE}–{_SPACE}", _DIGIT),
            (_DIGIT, f"{_SPACE}(?:3|1/1(?!{_DIGIT}))"), (f"{_DIGIT}{_SPACE}", f"3|1/1(?!{_DIGIT})"),
            # exponents
            (r"\S", r"\^[–+-]?[\w|]"), (r"\S\^", r"[–+-]?[\w|]"), (r"\^[–+-]", r"\w"),
            (f"{_DIGIT}e", f"[–+-]{_DIGIT}"),
            (_DIGIT, f"{_SPACE}?[×·]{_SPACE}?{_POWER}"), (f"[×·]{_SPACE}", _POWER),
            (f"{_DIGIT}{_SPACE}", f"[×·]{_SPACE}?{_POWER}"), ("[×·]", f"{_SPACE}?{_POWER}"),
            (_DIGIT, f"{_SPACE}x{_SPACE}{_POWER}"), (f"{_DIGIT}{_SPACE}", f"x{_SPACE}{_POWER}"),
            (f"{_DIGIT}{_SPACE}x", f"{_SPACE}{_POWER}"), (f"{_DIGIT}{_SPACE}x{_SPACE}", _POWER),
            # signs, comparisons, decimals without a zero
            ("[–+<±-]", rf"(?:[$]{_SPACE}?|\.)?{_DIGIT}"), ("[<±]", f"{_SPACE}[$]?{_DIGIT}"),
            (f"[<±]{_SPACE}", f"[$]?{_DIGIT}"), (r"(?<![^\s(|$<=±–+-])\.", _DIGIT),
            # percent, degrees, feet, currency, "18+"
            (_DIGIT, f"{_SPACE}?[%°$′]"), (f"{_DIGIT}{_SPACE}", "[%°$]"), ("[°′]", "[aAe0123]"),
            (r"\$", f"{_SPACE}?[–+-]?{_DIGIT}"), (rf"\${_SPACE}", _DIGIT),
            ("[aAex]", rf"\${_SPACE}?{_DIGIT}"),
            ("%", _DIGIT), (_DIGIT, r"\+"),
            (f"(?<!{_LETTER})A", f"[–-](?!{_LETTER})"),
            # dimensions (3×4), signs of a name or note ("C++", "F♯")
            (_DIGIT, f"×{_DIGIT}"), (f"{_DIGIT}×", _DIGIT),
            (_LETTER, rf"[+#]{{1,2}}(?!{_LETTER})"), (rf"{_LETTER}[+#]", rf"[+#](?!{_LETTER})"),
        )
    )
)  # fmt: skip
_CONTEXT = 16
"""characters to either side by which a position is judged; more where some are invisible"""
_LETTERS = re.compile(rf"[^\W\d_{UNSPACED.pattern[1:-1]}]+|[{_PHRASED}]+|[{_KATAKANA}]+|")
"""letters of one word, whatever stands around them"""


def is_word_edge(text: str, position: int) -> bool:
    """Return False where text[:position] ends and text[position:] begins in the same word.

    Words are those of Unicode, held together by hyphens, slashes and apostrophes between letters. A
    number is one word with its sign, separators, decimals, exponent, and %, ‰, ° or currency sign,
    and so are 2 ½, 5 ± 2 and 5 – 7; a unit such as `mg` behind a space is a word of its own. A word
    that a hyphen divides at the end of a line is one. Of scripts that set no spaces between words,
    Thai, Lao, Burmese and Khmer are cut at spaces, zero-width spaces and signs alone; a run of
    Katakana is one word, and so is one of Chinese signs that has Kana near it; elsewhere any two
    characters are words apart, but that 不, 未 and the like stay with what they deny. Raises
    ValueError for a position outside the text.
    """
    if not 0 <= position <= len(text):
        raise ValueError(f"position {position} is outside a text of {len(text)} characters")
    before, after, size = "", "", _CONTEXT
    while len(before) < _CONTEXT // 2 and size < 4 * (position + _CONTEXT):
        before = text[max(0, position - size) : position].translate(_CHARACTER_KINDS)
        size *= 4
    size = _CONTEXT
    while len(after) < _CONTEXT // 2 and size < 4 * (len(text) - position + _CONTEXT):
        after = text[position : position + size].translate(_CHARACTER_KINDS)
        size *= 4
    divided = after[:1] == "t" and "\u200b" in text[max(0, position - 1) : position + 1]
    return divided or _INSIDE_WORD.match(before + after, len(before)) is None


def find_last_edge(text: str, start: int, limit: int) -> int:
    """Return the last edge of a word behind `start`, at `limit` or before, and behind no space.

    Where there is none, as in one long word, the first edge from `limit` on is returned. `limit` is
    at most the length of the text.
    """
    end = limit
    while end > start and (text[end - 1].isspace() or not is_word_edge(text, end)):
        end -= 1
    return end if end > start else _find_edge(text, limit, 1)


def widen_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the least span of a text that holds text[start:end] and cuts no word.

    An empty span inside a word becomes that word. Raises ValueError for offsets outside the text.
    """
    return _find_edge(text, start, -1), _find_edge(text, end, 1)


def _find_edge(text: str, position: int, step: int) -> int:
    """Return the nearest edge of a word at a position, or behind it (step 1) or before it (-1)."""
    while not is_word_edge(text, position):
        position += step
        if step > 0:
            position = max(position, _LETTERS.match(text, position - 1).end())  # type: ignore[union-attr]
        else:
            run = _LETTERS.match(text[max(0, position - 4095) : position + 1][::-1])
            position -= max(0, run.end() - 1) if run else 0
    return position


def digest_of(text: str) -> str:
    """Return the digest that names a text: 128 bits of SHA-256, as 32 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Quote(Record, frozen=True, dict=True):
    """A verbatim span of one version of one page, as `Page.quote` makes it.

    One that was made by hand, copied, or read from a file only claims to be that, and says so where
    it is printed: `rookery.verify` compares it with the page.
    """

    url: str
    """address of the page"""
    title: str
    """title of the page"""
    digest: str
    """digest of the page's text, into which the offsets point"""
    start: int
    """offset of the quote in that text, in code points"""
    end: int
    """offset of its end; exclusive"""
    text: str
    """the words, exactly as they stand there"""

    def __str__(self) -> str:
        """Return the words with title, place and address, and whether they are only claimed."""
        return self._format_source(sanitize_text, sanitize_text)

    def _format_source(self, escape: Callable[[str], str], link: Callable[[str], str]) -> str:
        words = f"“{escape(' '.join(self.text.split()))}”"
        place = escape(self.__dict__.get("place", ""))
        checked = "" if "from_page" in self.__dict__ else "not checked: rookery.verify does it"
        return " · ".join(filter(None, (words, escape(self.title), place, link(self.url), checked)))


class Hit(Record, frozen=True):
    """A search result. Its snippet is for choosing what to open and can never be quoted."""

    url: str
    title: str
    snippet: str = ""
    digest: str = ""
    """of the page, where the library has read it already; start and end then name a passage"""
    start: int = 0
    end: int = 0
    score: float = 0.0
    """by words; comparable across queries of one library"""
    word_rank: int = 0
    """rank among the passages by words, from 1 on; 0: not among the best, or not known"""
    vector_rank: int = 0
    """rank among the passages by static vectors, likewise"""
    similarity: float = 0.0
    """cosine of the passage's vector and the query's"""


class Failure(Record, frozen=True):
    """Something that could not be read or done, with its outcome from a closed list and one
    sentence."""

    what: str
    """the URL, path or query"""
    outcome: str
    """an Outcome of `rookery.errors`, http_404 and the like, or what another version wrote"""
    detail: str = ""
    """one sentence"""


class Question(Record, frozen=True):
    """A question. `pages` is what is given with it: an article, search results, or nothing."""

    id: str
    text: str
    pages: tuple[Page, ...] = ()
    gold: tuple[str, ...] = ()
    source: str = ""


class Claim(Record, frozen=True, omit_defaults=True):
    """text[start:end] of an answer, resting on these quotes of it (counted from 0)."""

    start: int
    """offset of the claim in the answer's text, in code points"""
    end: int
    """offset of its end; exclusive"""
    quotes: tuple[int, ...]
    """numbers of the answer's quotes, from 0"""
    doubtful: tuple[int, ...] = ()
    """those of them that a chat model cites and that do not seem to support the claim"""


class Answer(Record, frozen=True):
    """An answer and its evidence. A declined answer keeps its best rejected quotes."""

    text: str
    """the answer, without citation marks"""
    quotes: tuple[Quote, ...] = ()
    """the quotes that it rests on"""
    claims: tuple[Claim, ...] = ()
    """the parts of the text that rest on quotes"""
    declined: bool = False
    """True if nothing that was found is good enough for an answer"""
    score: float | None = None
    """probability or reward of the answer; null: nothing says how good it is"""
    calibrated: bool = False
    """the score is a probability that was calibrated on the documents that were asked"""
    citations: Literal["unchecked"] | msgspec.UnsetType = msgspec.UNSET
    """"unchecked": a model wrote the text and cites nothing that it was shown, also when asked once
    more; the quotes are what it was shown"""
    stored_certain: Literal[False] | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="certain"
    )
    """False: a possible answer, whose quotes are likely enough to be looked at and no more"""

    def __post_init__(self) -> None:
        for claim in self.claims:
            if not 0 <= claim.start <= claim.end <= len(self.text):
                raise ValueError(f"claim [{claim.start}:{claim.end}] is outside the answer")
            if any(not 0 <= number < len(self.quotes) for number in claim.quotes):
                size = len(self.quotes)
                raise ValueError(f"a claim cites quotes {claim.quotes}; there are {size}")

    @property
    def certain(self) -> bool:
        """True for an answer that is neither declined nor a possible one, and cites what it was
        shown."""
        unsure = self.stored_certain is False or self.citations == "unchecked"
        return not (self.declined or unsure)

    def __str__(self) -> str:
        """Return the text with [n] behind each claim, then each quote with its title, its place (in
        an answer of `rookery.ask`) and its address.

        Quotes that were made by hand or read from a file are called not checked.
        """
        return "\n\n".join(self._list_paragraphs(sanitize_text, sanitize_text))

    def to_markdown(self) -> str:
        """Return the same as Markdown, with links to pages on the web."""
        return "\n\n".join(self._list_paragraphs(_clean_markdown, _link_markdown)) + "\n"

    def _list_paragraphs(
        self, escape: Callable[[str], str], link: Callable[[str], str]
    ) -> Iterator[str]:
        if self.stored_certain is False:
            yield "A possible answer, to be checked:"
        if self.citations == "unchecked":
            yield "Unchecked: the model cites nothing that it was shown, which is below."
        yield "".join(
            escape(text) + "".join(f"[{number}{mark}]" for number, mark in numbers)
            for text, numbers in self.split_at_claims()
        )
        for number, quote in enumerate(self.quotes, 1):
            yield f"[{number}] {quote._format_source(escape, link)}"

    def split_at_claims(self, before: int = 0) -> Iterator[tuple[str, tuple[tuple[int, str], ...]]]:
        """Yield the whole text, cut where claims end, with the numbers that are cited there.

        They are counted from `before` + 1, each with "?" where it is doubtful, else "".
        """
        last = 0
        for claim in sorted(self.claims, key=lambda claim: claim.end):
            yield (
                self.text[last : claim.end],
                tuple((before + n + 1, "?" * (n in claim.doubtful)) for n in claim.quotes),
            )
            last = claim.end
        yield self.text[last:], ()


def _clean_markdown(text: str) -> str:
    return escape_markdown(sanitize_text(text))


def _link_markdown(url: str) -> str:
    on_web = url.startswith(("http://", "https://"))
    return f"<{percent_encode_url(url)}>" if on_web else _clean_markdown(url)


class Completion(Record, frozen=True):
    """The text that a policy generated, token by token."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    stop: str = "end"


class Step(Record, frozen=True):
    """One prompt shown and one thing said. Imitation trains on it; reinforcement weighs it."""

    prompt: str
    said: Completion


class Episode(Record, frozen=True):
    """One attempt at one question, by a person (demonstration) or a policy (rollout)."""

    question: Question
    by: str
    steps: tuple[Step, ...] = ()
    answer: Answer | None = None
    """None: it ended without one, and `stop` says why"""
    stop: str = "end"
    failures: tuple[Failure, ...] = ()
    """what could not be searched or opened on the way"""
    session: str = ""
    """of a recording, from which every prompt can be built again"""

    def count_failures(self) -> dict[str, int]:
        """Return the number of failures of each outcome, sorted by outcome."""
        return dict(sorted(Counter(failure.outcome for failure in self.failures).items()))


class Comparison(Record, frozen=True):
    """Somebody's preference among k answers. A tie of two is weights (0.5, 0.5)."""

    question: Question
    answers: tuple[Answer, ...]
    weights: tuple[float, ...]
    by: str

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.answers) or abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"{len(self.answers)} answers need as many weights, summing to 1")


class Rating(Record, frozen=True):
    """Somebody's yes-or-no, or score, for one answer on one named scale."""

    question: Question
    answer: Answer
    scale: str
    """plausible, supported, fluency, ..."""
    value: float
    by: str


class Library(Protocol):
    """A searchable collection of pages: the web, a site, a folder of documents, a recording.

    A class that derives from it needs `search` and `fetch` only.
    """

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best results, best first; fewer, or none, where no more match.

        Raises Failed if the search cannot be made.
        """
        ...

    def fetch(self, url: str) -> Page:
        """Return the page at this address. Raises Failed if it cannot be read."""
        ...

    @property
    def failures(self) -> Sequence[Failure]:
        """Documents, pages and searches that could not be read so far, with the reasons."""
        return ()

    def close(self) -> None:
        """Release files and connections; the library is not used afterwards."""
        return None  # noqa: RET501  (without it the method would count as abstract)


class Policy(Protocol):
    """Anything that can be prompted: a model, a remote model, a person, a script."""

    name: str

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[[Sequence[int]], Iterable[int]] | None = None
    ) -> Sequence[Completion]:
        """Return n completions of one prompt.

        `allow` maps the tokens written so far to the ids that may follow; without it any may.
        Raises Failed where the completions cannot be had.
        """


Reward = Callable[[Question, Answer], float]
BatchReward = Callable[[list[tuple[Question, Answer]]], Sequence[float]]
"""a reward that scores many answers with one call"""
