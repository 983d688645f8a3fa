"""Fold texts that differ only in typography to one text, with offsets back, and find text so.

Folding, exactly:

1. Invisible characters (soft hyphens, zero-width characters, direction marks, variation
   selectors) are left out.
2. The rest is cut into clusters: a character that is not white space, with the marks that follow
   it. A mark is a character whose decomposition begins with a combining mark, or with a vowel or
   final consonant of Hangul. A cluster takes 30 marks at most (the bound of Unicode's stream-safe
   form, without which sorting a million marks would take hours); the next mark begins another.
3. Each cluster is spelt plainly: typographic quotes and dashes in ASCII, NFKC, case folding, NFKC,
   quotes and dashes again. Where NFKC would bring in a space (the spacing accent ¨), NFC stands
   for it, so that a space in the result always was white space; where it would bring in a digit
   (½, ①), too, so that no number becomes another.
4. A run of raised digits and signs, or one raised letter, is spelt as pages write it, 10⁻⁵ as
   10^-5, and lowered ones likewise, x₂ as x_2. Several raised letters are a word: 1ˢᵗ is 1st.
5. A run of white space becomes one space.
6. The low line of a lowered number is left out where one stands behind the sign of an element, so
   that H2O is found where a page has H_2O or H₂O.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rookery.records import INVISIBLE, Page, Quote, is_word_edge, widen_to_words

MARKS_IN_A_CLUSTER = 30

TYPOGRAPHY = str.maketrans(
    dict.fromkeys("‘’‚‛′‵‹›´ʹʻʼʽˈ❛❜＇", "'")
    | dict.fromkeys("“”„‟″‶«»〝〞〟❝❞＂", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－⸺⸻﹉", "-")
)
ASCII_SPACES = {code: " " for code in range(33) if chr(code).isspace()}
ASCII_FOLD = {code: chr(code).lower() for code in range(65, 91)} | ASCII_SPACES


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text that knows where each of its characters came from."""

    text: str
    size: int
    """of the original text"""
    changes: "tuple[array[int], array[int], array[int], array[int]]"
    """the stretches whose length folding changed: where each starts and ends in the folded text,
    where each starts and ends in the original; everywhere else one character stands for one"""

    def to_source_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original text that folded to text[start:end].

        A cluster that is covered in part is given whole; what was left out at either edge stays
        out. An empty span gives an empty one. Raises ValueError outside the folded text.
        """
        if not 0 <= start <= end <= len(self.text):
            raise ValueError(f"[{start}:{end}] is outside the folded text ({len(self.text)} chars)")
        first = self._source_of_character(start)[0] if start < len(self.text) else self.size
        return (first, self._source_of_character(end - 1)[1]) if start < end else (first, first)

    def is_whole(self, start: int, end: int) -> bool:
        """Return whether text[start:end] cuts no cluster, so that its source span folds to it."""
        return not self._cuts_cluster(start) and not self._cuts_cluster(end)

    def from_source_offset(self, offset: int) -> int:
        """Return the index in the folded text of the first character from this source offset on."""
        _, ends, source_starts, source_ends = self.changes
        last = bisect_left(source_starts, offset) - 1
        if last < 0:
            return offset
        if offset < source_ends[last]:
            return ends[last]
        return ends[last] + offset - source_ends[last]

    def _source_of_character(self, index: int) -> tuple[int, int]:
        starts, ends, source_starts, source_ends = self.changes
        last = bisect_right(starts, index) - 1
        if last < 0:
            return index, index + 1
        if index < ends[last]:
            return source_starts[last], source_ends[last]
        moved = source_ends[last] + index - ends[last]
        return moved, moved + 1

    def _cuts_cluster(self, index: int) -> bool:
        starts, ends, _, _ = self.changes
        last = bisect_left(starts, index) - 1
        return last >= 0 and starts[last] < index < ends[last]


def fold_text(text: str, keep_case: bool = False) -> FoldedText:
    """Return the text folded, with a map of offsets back to the original.

    Case, typographic quotes and dashes, compatibility characters, invisible characters and runs of
    white space are evened out, as the head of this module defines; with `keep_case`, case stays,
    and ß is not ss. Time and memory grow with the text and with what folding changes in it: 1 MB
    takes tens of milliseconds.
    """
    letters = _get_letter_folding(text, keep_case)
    changes = (array("q"), array("q"), array("q"), array("q"))
    starts, ends, source_starts, source_ends = changes
    translated = text.translate(letters.table)
    pieces: list[str] = []
    spelt: dict[tuple[str, str], str] = {}
    position = length = 0
    for match in letters.find_changing(text):
        start, end = match.span()
        stretch = match.lastgroup or "", match[0]
        if (plain := spelt.get(stretch)) is None:
            plain = spelt[stretch] = _spell_stretch(*stretch, keep_case)
        pieces += (translated[position:start], plain)
        length += start - position
        starts.append(length)
        length += len(plain)
        ends.append(length)
        source_starts.append(start)
        source_ends.append(end)
        position = end
    pieces.append(translated[position:])
    return FoldedText("".join(pieces), len(text), changes)


@dataclass(frozen=True, slots=True)
class _LetterFolding:
    """The characters of one text by how they fold: one to one by a table, the others by a
    pattern."""

    table: dict[int, str]
    pattern: re.Pattern[str] | None

    def find_changing(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the stretches whose length or place folding may change, in order."""
        return self.pattern.finditer(text) if self.pattern else iter(())


RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
LOWERED = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"
_BEHIND_ELEMENT = (
    r"(?P<behind_element>_(?=\d)(?:(?<=[A-Z]_)|(?<=[A-Z][a-z]_))"
    r"|(?:(?<=[A-Z])|(?<=[A-Z][a-z]))[₀-₉]+)"
)
_SCRIPTS = f"(?P<raised>[{RAISED}]+)|(?P<lowered>[{LOWERED}]+)"
_RAISED_UNITS = str.maketrans(
    {
        unit: f"{unicodedata.normalize('NFKC', unit)[:-1]}^{power}"
        for power, units in (("2", "㍸㎟㎠㎡㎢㎨㎯"), ("3", "㍹㎣㎤㎥㎦"))
        for unit in units
    }
)
_ASCII_CHANGING = re.compile(rf"[\t-\r\x1c-\x20]{{2,}}|{_BEHIND_ELEMENT}")


def _get_letter_folding(text: str, keep_case: bool) -> _LetterFolding:
    table: dict[int, str] = dict(ASCII_SPACES if keep_case else ASCII_FOLD)
    if text.isascii():
        return _LetterFolding(table, _ASCII_CHANGING)
    invisible, marks, growing, scripts, white = (
        [],
        [],
        [],
        [],
        list("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "),
    )
    for letter in sorted(set(text)):
        if letter < "\x80":
            continue
        if letter.isspace():
            white.append(letter)
            table[ord(letter)] = " "
        elif INVISIBLE.match(letter):
            invisible.append(letter)
        elif letter in RAISED or letter in LOWERED:
            scripts.append(letter)
        else:
            if _is_mark(letter):
                marks.append(letter)
            if len(plain := spell_plainly(letter, keep_case)) == 1:
                table[ord(letter)] = plain
            else:
                growing.append(letter)
    return _LetterFolding(table, _compile_changing(white, invisible, marks, growing, scripts))


def _compile_changing(
    white: Iterable[str],
    invisible: list[str],
    marks: list[str],
    growing: list[str],
    scripts: list[str],
) -> re.Pattern[str]:
    """Find clusters with marks, runs of white space and of raised or lowered signs, what is left
    out and what grows."""
    between = f"{_compile_class(invisible)}*" if invisible else ""
    space = _compile_class(white)
    cases = []
    if scripts:
        cases += [_BEHIND_ELEMENT, _SCRIPTS]
    if marks:
        base = _compile_class([*white, *invisible], but=True)
        cases.append(f"{base}(?:{between}{_compile_class(marks)}){{1,{MARKS_IN_A_CLUSTER}}}")
    cases += [f"{space}(?:{between}{space})+"]
    if not scripts:
        cases.append(_BEHIND_ELEMENT)
    if invisible:
        cases.append(f"{_compile_class(invisible)}+")
    if growing:
        cases.append(_compile_class(growing))
    return re.compile("|".join(cases))


def _compile_class(letters: Iterable[str], but: bool = False) -> str:
    return f"[{'^' if but else ''}{re.escape(''.join(letters))}]"


def _spell_stretch(kind: str, stretch: str, keep_case: bool) -> str:
    """Return the folded form of a stretch: of one cluster, of a run of white space, of invisible
    characters, or of signs of a kind: raised, lowered, or lowered behind an element. Clusters and
    runs may have invisible characters among them."""
    if kind:
        word = len(stretch) > 1 and stretch.isalpha()  # as in 1ˢᵗ
        sign = "" if word else {"raised": "^", "lowered": "_"}.get(kind, "")
        return sign + unicodedata.normalize("NFKC", stretch.lstrip("_")).replace("\u2212", "-")
    visible = INVISIBLE.sub("", stretch)
    return " " if visible.isspace() else spell_plainly(visible, keep_case)


def spell_plainly(cluster: str, keep_case: bool = False) -> str:
    """Return one character, with the marks that follow it, in plain spelling and lower case.

    That is step 3 of folding: quotes and dashes in ASCII, NFKC and, unless the case is to stay,
    case folding.
    """
    plain = _normalize_cluster(cluster.translate(TYPOGRAPHY))
    return _normalize_cluster(plain if keep_case else plain.casefold()).translate(TYPOGRAPHY)


def _normalize_cluster(cluster: str) -> str:
    compatible = unicodedata.normalize("NFKC", cluster.translate(_RAISED_UNITS))
    new_digits = any(map(str.isdecimal, compatible)) and not any(
        map(str.isdecimal, cluster.translate(_RAISED_UNITS))
    )
    return unicodedata.normalize("NFC", cluster) if " " in compatible or new_digits else compatible


def _is_mark(letter: str) -> bool:
    first = unicodedata.normalize("NFKD", letter)[0]
    return unicodedata.category(first)[0] == "M" or _is_hangul_vowel_or_final(first)


def _is_hangul_vowel_or_final(letter: str) -> bool:
    return "\u1160" <= letter <= "\u11ff" or "\ud7b0" <= letter <= "\ud7ff"


def locate_quote(
    page: Page, quote_text: str, after: int = 0, folded: FoldedText | None = None
) -> Quote | None:
    """Return the quote of the page that `quote_text` names, in the page's own characters, or None.

    An exact occurrence goes before one that is equal only once folded. Of several, the first that
    starts at `after` (an offset in the page's text) or later is taken, else the first. What cuts a
    word of the page, and what its reader does not see, is passed over. White space round
    `quote_text` does not count; what is white or invisible throughout names nothing. Pass `folded`,
    the fold of the page's text, to look for many strings on one page.
    """
    spans = find_places(page, quote_text, after, folded)
    span = next((span for span in spans if is_quotable(page, *span)), None)
    return page.quote(*span) if span else None


def find_places(
    page: Page, text: str, after: int = 0, folded: FoldedText | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the page that read `text`, from `after` on and then from the start.

    Exact occurrences come before those that are equal only once folded. Also those are yielded that
    cut a word or are hidden, and one span may be yielded several times. White space round `text`
    does not count; text that is white or invisible throughout stands nowhere.
    """
    folded_text = fold_text(text).text.strip()
    if not folded_text:
        return
    for start in dict.fromkeys((max(after, 0), 0)):
        yield from _find_exact(page.text, text.strip(), start)
    folded = folded or fold_text(page.text)
    for start in dict.fromkeys((folded.from_source_offset(max(after, 0)), 0)):
        for span in find_folded_spans(folded, folded_text, start):
            yield folded.to_source_span(*span)


def _find_exact(text: str, sought: str, start: int) -> Iterator[tuple[int, int]]:
    start = text.find(sought, start)
    while start >= 0:
        yield start, start + len(sought)
        start = text.find(sought, start + 1)


def is_quotable(page: Page, start: int, end: int) -> bool:
    """Return whether page.text[start:end] cuts no word and overlaps no hidden block.

    Raises ValueError for offsets outside the text.
    """
    edges = is_word_edge(page.text, start) and is_word_edge(page.text, end)
    return edges and not is_hidden_span(page, start, end)


def is_hidden_span(page: Page, start: int, end: int) -> bool:
    """Return whether a reader of the page does not see some of page.text[start:end]."""
    return any(block.hidden and block.start < end and start < block.end for block in page.blocks)


def find_folded_spans(folded: FoldedText, quote_text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the folded text that read `quote_text`, itself folded, from `start` on.

    They may overlap, as "aa" does in "aaa". An occurrence that would cut a character is left out:
    "about 1" is not on a page that says "about ½", although ½ folds to 1⁄2.
    """
    start = folded.text.find(quote_text, start) if quote_text else -1
    while start >= 0:
        end = start + len(quote_text)
        if folded.is_whole(start, end):
            yield start, end
        start = folded.text.find(quote_text, start + 1)


CHUNK_LENGTH = 1 << 16
"""characters; a text of one chunk is searched as it is"""
GRAM_LENGTH = 4
"""characters; the chunks that hold all of a text's first grams are searched, and no others"""
GRAMS_PER_QUERY = 48

Span = tuple[int, int]


class TextFinder:
    """Finds spans of `text` that overlap none of the spans `out` (what no reader sees).

    Case, typography and, for quotes, white space do not count (WebGPT, appendix A); nothing is
    found that is only nearly the same.

    Making one costs about 0.1 to 0.2 s per MB; what it then takes to find something does not grow
    with the text, unless most of the text looks like it.
    """

    def __init__(self, text: str, out: Sequence[Span] = ()) -> None:
        self._text = text
        self._folded = fold_text(text)
        self._spaceless = self._folded.text.replace(" ", "")
        words = self._folded.text.split(" ")
        # of each of the spaces, the characters before it that are none
        self._spaces_before = array("q", list(accumulate(map(len, words)))[:-1])
        self._chunks = _index_chunks(self._spaceless)
        self._out = out

    def find(self, needle: str, after: int) -> Span | None:
        """Return the first span that reads `needle`, from `after` on, else from the start.

        White space must stand where it does in `needle`. None if there is no such span.
        """
        later = self.find_all(needle, after, spaced=True)
        return next(later, None) or next(self.find_all(needle, 0, spaced=True), None)

    def widen_to_words(self, span: Span) -> Span:
        """Return the least span of the text that holds this one and cuts no word."""
        return widen_to_words(self._text, *span)

    def find_all(self, needle: str, after: int, spaced: bool) -> Iterator[Span]:
        """Yield the spans that read `needle`, from the offset `after` on; they may overlap.

        With `spaced`, white space must stand where it does in `needle`; otherwise it is ignored.
        """
        return self._find_spans(fold_text(needle).text.strip(), after, spaced)

    def _find_spans(self, plain: str, after: int, spaced: bool) -> Iterator[Span]:
        tight = plain.replace(" ", "")
        folded = self._folded
        start_at = self._drop_spaces(folded.from_source_offset(max(after, 0)))
        at = self._find_next(tight, start_at) if tight else -1
        while at >= 0:
            start, end = self._restore_spaces(at), self._restore_spaces(at + len(tight) - 1) + 1
            if folded.is_whole(start, end) and (not spaced or folded.text[start:end] == plain):
                span = folded.to_source_span(start, end)
                if not any(low < span[1] and span[0] < high for low, high in self._out):
                    yield span
            at = self._find_next(tight, at + 1)

    def _find_next(self, tight: str, start: int) -> int:
        if not self._chunks or len(tight) < GRAM_LENGTH:
            return self._spaceless.find(tight, start)
        first = start // CHUNK_LENGTH
        chunks = self._find_chunks(tight) >> first
        while chunks:
            lowest = chunks & -chunks
            number = first + lowest.bit_length() - 1
            stop = (number + 1) * CHUNK_LENGTH + len(tight) - 1
            at = self._spaceless.find(tight, max(start, number * CHUNK_LENGTH), stop)
            if at >= 0:
                return at
            chunks ^= lowest
        return -1

    def _find_chunks(self, tight: str) -> int:
        """Return the chunks in which `tight` may begin, as bits; its grams may reach into the
        next."""
        chunks = -1
        for at in range(min(len(tight) - GRAM_LENGTH + 1, GRAMS_PER_QUERY)):
            having = self._chunks.get(tight[at : at + GRAM_LENGTH], 0)
            chunks &= having | having >> 1
            if not chunks:
                break
        return chunks

    def _drop_spaces(self, index: int) -> int:
        """From an index into the folded text to the one without its spaces."""
        before = self._spaces_before
        return index - bisect_left(range(len(before)), index, key=lambda n: before[n] + n)

    def _restore_spaces(self, index: int) -> int:
        """Return the way back."""
        return index + bisect_right(self._spaces_before, index)


def _index_chunks(tight: str) -> dict[str, int]:
    """Return the chunks in which each gram begins, as bits; empty for a short text."""
    having: dict[str, int] = {}
    if len(tight) <= CHUNK_LENGTH:
        return having
    for number, start in enumerate(range(0, len(tight), CHUNK_LENGTH)):
        bit = 1 << number
        for gram in {tight[at : at + GRAM_LENGTH] for at in range(start, start + CHUNK_LENGTH)}:
            having[gram] = having.get(gram, 0) | bit
    return having
