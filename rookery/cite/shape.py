"""What is written with quotes in it, and how long it may be. It knows nothing of vocabularies."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from rookery.cite.syntax import WORDS_END

Form = Literal["claim", "answer", "quote"]
Join = Literal["[...]", "━"]


class Shape(msgspec.Struct, frozen=True):
    """What is written, and how long it may be."""

    form: Form = "claim"
    """claim: `%<claim>%(title)%[quote]%` once, as GopherCite answers. answer: text with any number
    of claims, at least one, each on any number of quotes. quote: words of a document, and no mark
    (what follows `Quote: ` in WebGPT)"""
    shortest: int = 5
    """characters of a quote, and of each fragment of one (GopherCite, appendix F)"""
    longest: int = 2000
    """characters of a quote, all its fragments together"""
    fragments: int = 1
    """how many a quote may have, of one document and in its order"""
    join: Join = "[...]"
    """what stands between two fragments; with ━ and two of them, `start━end` (WebGPT)"""
    free: int = 128
    """tokens between two quotes, or before the first, their marks included"""

    def __post_init__(self) -> None:
        for name, least in {"shortest": 1, "fragments": 1, "free": 16}.items():
            if getattr(self, name) < least:
                raise ValueError(f"Shape.{name} must be at least {least}")
        if self.longest < self.shortest:
            raise ValueError("Shape.longest must be at least Shape.shortest")
        if self.form not in get_args(Form) or self.join not in get_args(Join):
            raise ValueError(f"there is no Shape of form {self.form!r} and join {self.join!r}")

    @property
    def reserved(self) -> tuple[str, ...]:
        """The marks that no quote may contain."""
        ends = () if self.form == "quote" else (WORDS_END,)
        return ends if self.fragments == 1 else (*ends, self.join)
