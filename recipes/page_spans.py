"""Parts of other people's pages, named by a number of words and a digest, and found again.

The texts stay in the packages that they are part of. A word is a run of letters and digits; the
digest is of the letters and digits alone, in lower case, so that a page that is read with other
markup, punctuation or white space still has its parts.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_DIGEST_LENGTH = 16
"""hexadecimal digits of SHA-256: 64 bits, for the thousands of windows of a page"""


class SpanName(NamedTuple):
    """Name of a part of a page."""

    words: int
    digest: str


def name_span(text: str) -> SpanName:
    """Return the name of a text, which must hold a word."""
    words = [_fold_word(word) for word in _WORD.findall(text)]
    if not words:
        raise ValueError(f"{text!r} holds no word: name a text with letters or digits")
    return SpanName(len(words), _digest_letters(b"".join(words)))


def find_spans(text: str, names: Sequence[SpanName]) -> list[tuple[int, int] | None]:
    """Return where each named part first stands in a text; None where it does not.

    Each word is folded once, and windows are hashed only of the lengths that are named. A part
    reaches from its first word to its last, with what stands at them without white space, such as
    brackets and full stops.
    """
    spans: dict[SpanName, tuple[int, int]] = {}
    words = list(_WORD.finditer(text))
    folded = [_fold_word(word[0]) for word in words]
    letters, ends = b"".join(folded), [0, *accumulate(map(len, folded))]
    for count in {name.words for name in names}:
        digests = {name.digest for name in names if name.words == count}
        for first in range(len(words) - count + 1):
            digest = _digest_letters(letters[ends[first] : ends[first + count]])
            if digest in digests:
                digests.remove(digest)
                start, end = words[first].start(), words[first + count - 1].end()
                spans[SpanName(count, digest)] = _widen_to_spaces(text, start, end)
                if not digests:
                    break
    return [spans.get(name) for name in names]


def _fold_word(word: str) -> bytes:
    plain = unicodedata.normalize("NFKC", word).casefold()
    return "".join(filter(str.isalnum, plain)).encode()


def _digest_letters(letters: bytes) -> str:
    return hashlib.sha256(letters).hexdigest()[:_DIGEST_LENGTH]


def _widen_to_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    while start and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return start, end
