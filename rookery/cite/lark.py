r"""The verbatim constraint as a grammar, for servers that keep to one while their model writes.

In llguidance's dialect of Lark, which vLLM, SGLang and llama.cpp hand on to it. Knows nothing of
servers, nor of how a grammar gets there.

No terminal but the last may go on where it may end, since a terminal takes all that it can:
with `]%` as a terminal of its own, a text that has `foo]` would not let `foo` be closed. Titles
and quotes are terminals of their own all the same: llguidance works out how a large one begins
when it reads the grammar, and has too little fuel for that in a single step. And nothing is
excluded by `~`, which costs more than all the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from rookery.cite.shape import Shape
from rookery.cite.syntax import render_inline
from rookery.records import Answer, Claim, Page

MOST = 8_000
"""characters of titles and texts, with EACH for each title counted in.

Servers leave llguidance's limits as they are, and these are on work, of which many tokens make
more. With 128,000 tokens, 67,000 characters of English pass in one text, and 18,000 of letters by
chance; in four texts, 3,600 and 2,700 each. With each sequence of six bytes in it a token as well,
16,000 of English, and 1,400 in each of four. This stays below all of these, for a server that is
beyond its limits may end each answer before its first word."""
EACH = 600
LETTERS = 4
"""characters for which a token of free text is taken, since a server's own are not known"""

# A claim is written in units, so that none of them, nor two, hold the mark that ends it: as in
# `rookery.cite.frame`, a backslash escapes what follows it.
_ARROWS = r"(?:>|%>)*"
_AFTER_ARROWS = r"(?:[^\\>%]|\\.|%(?:[^\\>(]|\\.))"
_UNIT = rf"(?:[^\\>]|\\.|>{_ARROWS}{_AFTER_ARROWS})"
_ENDS = rf"{_ARROWS}%\("


def lark(documents: Sequence[tuple[str, str]], shape: Shape = Shape()) -> str:
    """What may be written from these documents, (title, text) each, in this shape.

    It is what `Constraint(Grammar(vocabulary, shape), documents)` allows, but that a claim has
    LETTERS times `shape.free` characters at most (a run of `>` counts as one, an escape too) and
    that no budget is kept: what the server's max_tokens cut off is bad syntax, and never a wrong
    quote. Raises ValueError where nothing can be quoted, where the documents are too long (MOST),
    and for shapes of several claims or fragments.
    """
    if shape.form == "answer" or shape.fragments > 1:
        raise ValueError(
            "a grammar holds one claim or one quote, in one fragment: use Shape(form='claim') or "
            "Shape(form='quote'), with fragments=1"
        )
    found = _found(documents, shape)
    if not found:
        raise ValueError(
            f"none of the {len(documents)} documents has {shape.shortest} characters in a row that "
            "can be quoted under its title: give others, or lower Shape.shortest"
        )
    size = sum(EACH + len(title) + sum(map(len, texts)) for title, texts in found.items())
    if size > MOST:
        raise ValueError(
            f"a grammar of {size:,} characters ({EACH} for each title counted in) is more than "
            f"the {MOST:,} that servers surely take: give fewer pages, or shorter parts of them"
        )
    return "\n".join(_rules(found, shape))


def _found(documents: Sequence[tuple[str, str]], shape: Shape) -> dict[str, list[str]]:
    """What can be quoted under each title: texts, cut where no quote may go on."""
    cut = r"[\ud800-\udfff]" if shape.form == "quote" else r"[\ud800-\udfff]|(?<=\])(?=%)"
    found: dict[str, list[str]] = {}
    for title, text in dict.fromkeys(documents):
        if shape.form == "quote":
            title = ""
        pieces = [piece for piece in re.split(cut, text) if _quotable(piece, shape)]
        if pieces and not re.search("[\ud800-\udfff]", title):
            found.setdefault(title, []).extend(pieces)
    return found


def _quotable(text: str, shape: Shape) -> bool:
    """Whether a quote may end in it; a backslash would escape the end of the quote."""
    ends = text[shape.shortest - 1 :]
    return bool(ends if shape.form == "quote" else ends.strip("\\"))


def _rules(found: Mapping[str, Sequence[str]], shape: Shape) -> Iterator[str]:
    if shape.form == "quote":
        yield "start: WORDS0"
    else:
        yield f"start: CLAIM ({' | '.join(f'TITLE{n} QUOTE{n}' for n in range(len(found)))})"
        longest = LETTERS * shape.free - len("%<>%(")
        yield rf"CLAIM: /(?s:%<(?:{_UNIT}{{1,{longest}}}>{_ENDS}|>(?:>|%>){_ENDS}))/"
    for n, (title, texts) in enumerate(found.items()):
        if shape.form != "quote":
            yield f"TITLE{n}: {_written(_escaped(title))}"
            yield f'QUOTE{n}: WORDS{n} "]%"'
        any_of = " | ".join(f"TEXT{n}_{m}" for m in range(len(texts)))
        yield f"WORDS{n}: ({any_of}) & {_length(shape)}"
        for m, text in enumerate(texts):
            yield f'TEXT{n}_{m}: %regex {{"substring_chars": {_written(text)}}}'


def _length(shape: Shape) -> str:
    """Any words that are long enough and not too long, as a pattern."""
    if shape.form == "quote":
        return f"/(?s:.{{{shape.shortest},{shape.longest}}})/"
    return rf"/(?s:.{{{shape.shortest - 1},{shape.longest - 1}}}[^\\])/"


def _escaped(title: str) -> str:
    """The title as it is written from `%(` to the quote."""
    page = Page("", title, "x")
    answer = Answer("x", (page.quote(0, 1),), (Claim(0, 1, (0,)),))
    return render_inline(answer, [page]).removeprefix("%<x>%(").removesuffix("x]%")


def _written(text: str) -> str:
    """The text as a literal. vLLM takes whatever has `::=` in it for another dialect."""
    return json.dumps(text).replace("::=", r":\u003a=")
