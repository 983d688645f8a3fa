"""Texts that differ only in typography, made equal, with the way back to the original offsets.

Knows nothing of pages and quotes. What folding means, exactly:

1. Invisible characters (soft hyphens, zero-width characters, direction marks, variation
   selectors) are left out.
2. The rest is cut into clusters: a character that is not white space, with the marks that follow
   it. A mark is a character whose decomposition begins with a combining mark, or with a vowel or
   final consonant of Hangul. A cluster takes 30 marks at most (the bound of Unicode's stream-safe
   form, without which sorting a million marks would take hours); the next mark begins another.
3. Each cluster is spelt plainly: typographic quotes and dashes in ASCII, NFKC, case folding, NFKC,
   quotes and dashes again. Where NFKC would bring in a space (the spacing accent ¨), NFC stands
   for it, so that a space in the result always was white space.
4. A run of white space becomes one space.
"""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MARKS_IN_A_CLUSTER = 30

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0001\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)
TYPOGRAPHY = str.maketrans(
    dict.fromkeys("‘’‚‛′‵‹›´ʹʻʼʽˈ❛❜＇", "'")
    | dict.fromkeys("“”„‟″‶«»〝〞〟❝❞＂", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－⸺⸻﹉", "-")
)
ASCII_FOLD = str.maketrans(
    {code: chr(code).lower() for code in range(65, 91)}
    | {code: " " for code in range(33) if chr(code).isspace()}
)


@dataclass(frozen=True, slots=True)
class Folded:
    """A folded text that knows where each of its characters came from."""

    text: str
    size: int
    """of the original text"""
    changes: "tuple[array[int], array[int], array[int], array[int]]"
    """the stretches whose length folding changed: where each starts and ends in the folded text,
    where each starts and ends in the original; everywhere else one character stands for one"""

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original text that folded to text[start:end].

        A cluster that is covered in part is given whole; what was left out at either edge stays
        out. An empty span gives an empty one. Raises ValueError outside the folded text.
        """
        if not 0 <= start <= end <= len(self.text):
            raise ValueError(f"[{start}:{end}] is outside the folded text ({len(self.text)} chars)")
        first = self._character(start)[0] if start < len(self.text) else self.size
        return (first, self._character(end - 1)[1]) if start < end else (first, first)

    def whole(self, start: int, end: int) -> bool:
        """Whether text[start:end] cuts no cluster: what `source` gives for it folds to it."""
        return not self._cuts(start) and not self._cuts(end)

    def position(self, offset: int) -> int:
        """Where the folded text continues for a reader who stands at `offset` of the original:
        the first folded character that came from there or later."""
        _, ends, source_starts, source_ends = self.changes
        last = bisect_left(source_starts, offset) - 1
        if last < 0:
            return offset
        if offset < source_ends[last]:
            return ends[last]
        return ends[last] + offset - source_ends[last]

    def _character(self, index: int) -> tuple[int, int]:
        starts, ends, source_starts, source_ends = self.changes
        last = bisect_right(starts, index) - 1
        if last < 0:
            return index, index + 1
        if index < ends[last]:
            return source_starts[last], source_ends[last]
        moved = source_ends[last] + index - ends[last]
        return moved, moved + 1

    def _cuts(self, index: int) -> bool:
        starts, ends, _, _ = self.changes
        last = bisect_left(starts, index) - 1
        return last >= 0 and starts[last] < index < ends[last]


def fold(text: str) -> Folded:
    """The text folded, as the head of this module defines it, with the map back.

    Time and memory grow with the text and with what folding changes in it: 1 MB takes tens of
    milliseconds.
    """
    letters = _letters(text)
    changes = (array("q"), array("q"), array("q"), array("q"))
    starts, ends, source_starts, source_ends = changes
    translated = text.translate(letters.table)
    pieces: list[str] = []
    spelt: dict[str, str] = {}
    done = length = 0
    for found in letters.changing(text):
        start, end = found.span()
        stretch = found[0]
        if (plain := spelt.get(stretch)) is None:
            plain = spelt[stretch] = _spell_stretch(stretch)
        pieces += (translated[done:start], plain)
        length += start - done
        starts.append(length)
        length += len(plain)
        ends.append(length)
        source_starts.append(start)
        source_ends.append(end)
        done = end
    pieces.append(translated[done:])
    return Folded("".join(pieces), len(text), changes)


@dataclass(frozen=True, slots=True)
class _Letters:
    """How the characters of one text behave: those that fold one to one, and the others."""

    table: dict[int, str]
    pattern: re.Pattern[str] | None

    def changing(self, text: str) -> Iterator[re.Match[str]]:
        """The stretches whose length or place folding may change, in order."""
        return self.pattern.finditer(text) if self.pattern else iter(())


ASCII_LETTERS = _Letters(ASCII_FOLD, re.compile(r"[\t-\r\x1c-\x20]{2,}"))


def _letters(text: str) -> _Letters:
    if text.isascii():
        return ASCII_LETTERS
    table: dict[int, str] = dict(ASCII_FOLD)
    invisible, marks, growing, white = [], [], [], list("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f ")
    for letter in sorted(set(text)):
        if letter < "\x80":
            continue
        if letter.isspace():
            white.append(letter)
            table[ord(letter)] = " "
        elif INVISIBLE.match(letter):
            invisible.append(letter)
        else:
            if _is_mark(letter):
                marks.append(letter)
            if len(plain := spell(letter)) == 1:
                table[ord(letter)] = plain
            else:
                growing.append(letter)
    return _Letters(table, _changing(white, invisible, marks, growing))


def _changing(
    white: Iterable[str], invisible: list[str], marks: list[str], growing: list[str]
) -> re.Pattern[str]:
    """Finds clusters with marks, runs of white space, what is left out and what grows."""
    between = f"{_one_of(invisible)}*" if invisible else ""
    space = _one_of(white)
    cases = []
    if marks:
        base = _one_of([*white, *invisible], but=True)
        cases.append(f"{base}(?:{between}{_one_of(marks)}){{1,{MARKS_IN_A_CLUSTER}}}")
    cases.append(f"{space}(?:{between}{space})+")
    if invisible:
        cases.append(f"{_one_of(invisible)}+")
    if growing:
        cases.append(_one_of(growing))
    return re.compile("|".join(cases))


def _one_of(letters: Iterable[str], but: bool = False) -> str:
    return f"[{'^' if but else ''}{re.escape(''.join(letters))}]"


def _spell_stretch(stretch: str) -> str:
    """A stretch is a cluster, or white space, or invisible; in all three, with invisible parts."""
    visible = INVISIBLE.sub("", stretch)
    return " " if visible.isspace() else spell(visible)


def spell(cluster: str) -> str:
    """One cluster in plain spelling: step 3 of folding."""
    plain = _normal(cluster.translate(TYPOGRAPHY)).casefold()
    return _normal(plain).translate(TYPOGRAPHY)


def _normal(cluster: str) -> str:
    compatible = unicodedata.normalize("NFKC", cluster)
    return unicodedata.normalize("NFC", cluster) if " " in compatible else compatible


def _is_mark(letter: str) -> bool:
    first = unicodedata.normalize("NFKD", letter)[0]
    return unicodedata.category(first)[0] == "M" or _is_hangul_vowel_or_final(first)


def _is_hangul_vowel_or_final(letter: str) -> bool:
    return "\u1160" <= letter <= "\u11ff" or "\ud7b0" <= letter <= "\ud7ff"
