"""Verification of quotes in saved answers, and of quotations with words left out.

A quote of Rookery's own must be the slice of the stored page that it names, read from the address
and under the title that it names (`check_quote`, `verify_quotes`). A string that another tool
quotes must stand in the source that it names (`check_claimed_quote`). Neither needs a model or a
network. A verbatim quote need not support what cites it.

An ellipsis can turn a sentence into its opposite: "The drug does ... cure" may stand on a page that
says "does not cure". So a quotation with a gap never counts as verbatim: `find_quote_pieces` says
where its pieces stand, and `find_gaps` what is left out between them.
"""

import html
import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import groupby, pairwise, product
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import QUESTION_WORDS
from rookery.pages.text_folding import (
    FoldedText,
    find_folded_spans,
    find_places,
    fold_text,
    is_hidden_span,
    is_quotable,
    locate_quote,
)
from rookery.quotes.answer_text import (
    BIDI_CONTROL,
    CitationSpan,
    ClaimedQuote,
    extract_claims,
    list_controls,
)
from rookery.quotes.quote_links import shorten_line
from rookery.records import Answer, Claim, Page, Quote, Record, is_word_edge

_NO_CHANGES = array("q"), array("q"), array("q"), array("q")

LEAST_WORDS = 3
"""fewest whole words of a quote that says something"""
LEAST_LETTERS = 6
"""the same in letters, for scripts that set no spaces between words"""
MAX_FIRST_PLACES = 1000
"""most places of a first piece that are tried, which bounds the time for any text"""
LEAST_CAPITALS = 10
"""fewest characters of a text in capitals that is the same in small letters: fewer may be signs"""
MAX_GAPS = 50
"""most gaps in one quotation, which bounds the time for any text"""

_DOTS = r"(?>(?:[…⋯‥]|\.(?:[ \u00a0]?\.){2,})+)"  # atomic, so that no text is slow
ELLIPSIS = re.compile(
    rf"([\[(<{{]\s*+(?:{_DOTS}|\.\.|snip|omitted)\s*+[\])>}}]|{_DOTS})", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:['.,·-][^\W_]+)*")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_SENTENCE_START = re.compile(r"(?:\A|[.!?:…\n\t])[\s\"'“‘„«(\[*_-]*\Z")

NUMBER_WORDS = frozenset(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred hundreds thousand thousands million millions billion billions trillion trillions dozen
    dozens half halves third thirds quarter quarters fifth sixth seventh eighth ninth tenth single
    double triple twice thrice once first second pair both percent percentage""".split()
)


def find_quote_pieces(page: Page, text: str) -> tuple[Quote, ...]:
    """Return the quotes of the page that a quotation consists of; empty if it does not stand there.

    One quote if the whole stands there (an ellipsis may be the page's own) or if the ellipsis is at
    an edge. Otherwise one for each piece between ellipses, in the order of the page; of several
    places the one that leaves out least. Where the whole does not stand there, more than MAX_GAPS
    ellipses give none, and only the first MAX_FIRST_PLACES places of the first piece are tried.
    """
    folded = fold_text(page.text)
    if whole := locate_quote(page, text, folded=folded):
        return (whole,)
    if len(ELLIPSIS.findall(text)) > MAX_GAPS:
        return ()
    pieces = _split_at_ellipses(folded, text)
    places = {
        piece: [
            span
            for span in find_folded_spans(folded, piece, 0)
            if is_quotable(page, *folded.to_source_span(*span))
        ]
        for piece in set(pieces)
    }
    piece_places = [places[piece] for piece in pieces]
    if not piece_places or not all(piece_places):
        return ()
    firsts = piece_places[0][:MAX_FIRST_PLACES]
    chains = filter(None, (_chain_spans(start, piece_places[1:]) for start in firsts))
    best = min(chains, key=lambda chain: chain[-1][1] - chain[0][0], default=[])
    return tuple(page.quote(*folded.to_source_span(*span)) for span in best)


def find_gaps(page: Page, quotes: Sequence[Quote]) -> tuple[str, ...]:
    """Return the page's text between the pieces of a quotation, in order, white space stripped."""
    gaps = [page.text[before.end : after.start] for before, after in pairwise(quotes)]
    return tuple(gap.strip() for gap in gaps)


def find_whole_words(text: str, start: int, end: int) -> list[str]:
    """Return the words in text[start:end] of which no part lies outside of it."""
    low, high = max(0, start - 3), end + 3
    return [
        text[low + found.start() : low + found.end()]
        for found in _WORD.finditer(_normalize_spelling(text[low:high]))
        if low + found.start() >= start and low + found.end() <= end
    ]


def is_quote_too_short(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] says too little to be a quote.

    It has fewer than LEAST_WORDS whole words (fewer than LEAST_LETTERS letters in scripts without
    spaces), no number and no name.
    """
    words = find_whole_words(text, start, end)
    if len(words) >= LEAST_WORDS or len(_UNSPACED.findall(text[start:end])) >= LEAST_LETTERS:
        return False
    if any(_is_number(word) for word in words):
        return False
    at = start
    for word in words:
        at = text.index(word, at)
        if _is_name(word) and (not _begins_a_sentence(text, at) or _is_named_elsewhere(text, word)):
            return False
        at += len(word)
    return True


_TYPED_ALIKE = re.compile(
    r"(?P<note>(?:(?<=[.,;:!?”\"’»)\]])|(?<=[^\W\d_]{3})|(?<=\b1\d{3})|(?<=\b20\d{2}))"
    r"\[(?:note )?(?:\d{1,3}|[a-z])\](?!\w|[.(]\w|\s?=)|\[citation needed\])"
    r"|(?P<mark>(?<!\d)[\"“”„«»‹›‘’‚「」『』])|(?P<range>(?<=\d)\s[–-]\s(?=\d))"
    r"|(?P<dash>\s{0,2}(?:[—―]|-{2,3})\s{0,2}(?!\d)|\s{1,2}[–-]\s{1,2}(?!\d))"
    r"|(?P<bar>\s?\|\s?|\t+)|(?P<divided>(?<=[^\W\d_])-\n[ \t]*(?=[^\W\d_]))"
)
_DASH = "\ufdd1"
"""stands for a dash between words, which is no hyphen"""
_SPELLINGS = {"note": "", "mark": "'", "range": "-", "dash": _DASH, "bar": " | "}
_DASHES = str.maketrans(dict.fromkeys("—―", _DASH))
_ITEM_NUMBER = re.compile(r"(?:\d{1,4}|[a-zA-Z]|[ivx]{2,6}|[IVX]{2,6})\. ")
_NUMBERED = re.compile(rf"(?m)^{_ITEM_NUMBER.pattern}")
_LINKED_NOTE = re.compile(r"\[(?:\d{1,3}|[a-z*†‡])\]")
_NAMED_NOTE = re.compile(r"(\[\^[\w-]{1,30}\])(:?)")
_EDGE_ELLIPSES = re.compile(rf"\A\s*{ELLIPSIS.pattern}|{ELLIPSIS.pattern}\s*\Z", re.IGNORECASE)
_ENDED = re.compile(r"(?:[.!?…:;。！？：；]|(,|、|，))[\"'”’»)\]」』]*(?:\[[^\]\n]{1,20}\])*\Z")
_LABEL = re.compile(r"[(\[]?\w{1,5}[.)\]]\s|[•‣▪◦·*–—-]\s")
_EDITED = re.compile(r"\A(\W*)\[(\w)\](?=\w)|\s?\[sic\]")
_BREAK = re.compile(r"\s*[\n\t]\s*")
_FIRST_WORD = re.compile(r"\W*([^\W\d_])([^\W\d_]*)")


class _PageReading(NamedTuple):
    """A page's text as a person might type it, folded."""

    page: Page
    typed: FoldedText
    folded: FoldedText
    seams: list[int]
    """places in the folded text at which a block ends and no sign says so"""

    def to_source_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the page that was folded to this span."""
        return self.typed.to_source_span(*self.folded.to_source_span(start, end))


def _find_as_read(page: Page, text: str) -> Quote | None:
    """Return the quote of the page that reads `text`, as people quote; None if there is none.

    Case counts, but for the first letter, which may begin a sentence here and none there, and for
    words of the page in capitals throughout. The last comma or full stop, and an ellipsis at an
    edge, may be the writer's. Where a block of the page ends and no sign says so, a line or a cell
    ends in `text`. The page's numbers of notes and of list items may be left out; entities may be
    written as in HTML, quotation marks and dashes between words in another way, words without the
    hyphen that divides them at the end of a line, bars between cells; a first letter may stand in
    brackets, and [sic] behind a word.
    """
    trimmed = _EDGE_ELLIPSES.sub("", text).strip()
    wordings = dict.fromkeys((text.strip(), trimmed, re.sub(r"[.,。，]\Z", "", trimmed)))
    joints = ("", "-") if "-\n" in page.text else ("",)
    numbered = (True, False) if _NUMBERED.search(text) else (False,)
    for joint, keep_numbers in [(None, True), *product(joints, numbered)]:
        reading = _read_page(page, joint, keep_numbers)
        for wording in wordings:
            if joint is not None:
                wording = _EDITED.sub(r"\1\2", html.unescape(wording))
                wording = _type_alike(wording, [], joint).text
            wording = wording.translate(_DASHES)
            for start, end in _find_wording(reading, wording):
                if joint is not None or not is_hidden_span(page, start, end):
                    return page.quote(start, end)
    return None


def _read_page(page: Page, joint: str | None, keep_numbers: bool) -> _PageReading:
    """Return a page as a person might type it; exactly as it stands if `joint` is None.

    `joint` stands for the hyphen that divides a word at the end of a line, and numbers of items are
    left out unless `keep_numbers` is set.
    """
    text, unlabelled = page.text.translate(_DASHES), set[int]()
    typed = FoldedText(text, len(text), _NO_CHANGES)
    if joint is not None:
        blocks = () if keep_numbers else page.blocks
        items = (block.start for block in blocks if block.kind == "item")
        numbers = [match.span() for at in items if (match := _ITEM_NUMBER.match(page.text, at))]
        hidden = [(block.start, block.end) for block in page.blocks if block.hidden]
        own = page.url.partition("#")[0] + "#"
        links = [(link.start - 1, link.end + 1) for link in page.links if link.url.startswith(own)]
        notes = [each for each in links if _LINKED_NOTE.fullmatch(page.text, *each)]
        named = [*_NAMED_NOTE.finditer(page.text)]
        defined = {each[1] for each in named if each[2]}
        notes += [each.span() for each in named if not each[2] and each[1] in defined]
        typed = _type_alike(page.text, [*numbers, *hidden, *notes], joint)
        unlabelled = {start for start, _ in numbers}
    folded = fold_text(typed.text, keep_case=True)
    ends = map(typed.from_source_offset, _find_seams(page, unlabelled, joint is not None))
    return _PageReading(page, typed, folded, sorted(map(folded.from_source_offset, ends)))


def _find_seams(page: Page, unlabelled: set[int], barred: bool) -> Iterator[int]:
    """Yield the ends of the blocks behind which the next one reads as if it went on.

    There are none behind the end of a sentence or clause, before the label of an item, and between
    paragraphs that go on in small letters. `unlabelled` are starts of items without their labels;
    if `barred`, bars stand between the cells of a row.
    """
    for block in () if barred else page.blocks:  # of CSV, a block is a row
        if block.kind in ("cell", "heading"):
            row = page.text[block.start : block.end]
            yield from (block.start + at.start() for at in re.finditer("\t", row))
    for one, other in pairwise(block for block in page.blocks if not block.hidden):
        kinds = {one.kind, other.kind}
        ended = _ENDED.search(page.text[max(one.start, one.end - 60) : one.end])
        labelled = other.start not in unlabelled and _LABEL.match(page.text, other.start)
        goes_on = page.text[one.end - 1].islower() and page.text[other.start].islower()
        if not (
            kinds == {"code"}
            or (ended and not ("cell" in kinds and ended[1]))
            or (labelled and "cell" not in kinds)
            or (goes_on and kinds <= {"paragraph", "quotation"})
            or (barred and page.text[one.end] == "\t")
        ):
            yield one.end


def _find_wording(reading: _PageReading, wording: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the page that read a wording and cut no word."""
    text, wording = reading.page.text, wording.strip()
    sought = fold_text(wording, keep_case=True)
    breaks = {sought.from_source_offset(at.start()) for at in _BREAK.finditer(wording)}
    plain, capital, turned = sought.text, sought.text.upper(), ""
    if (first := _FIRST_WORD.match(plain)) and first[2] == first[2].lower():
        at, letter = first.start(1), first[1].swapcase()
        turned = plain[:at] + letter + plain[at + 1 :] if letter != first[1] else ""
    if len(plain) < LEAST_CAPITALS or any(map(str.isdigit, plain)):
        capital = ""
    for needle in dict.fromkeys((plain, turned, capital)):
        for low, high in find_folded_spans(reading.folded, needle, 0):
            start, end = reading.to_source_span(low, high)
            first_seam, last_seam = (bisect_left(reading.seams, at) for at in (low, high))
            parted = all(at - low in breaks for at in reading.seams[first_seam:last_seam])
            whole = is_word_edge(text, start) and is_word_edge(text, end)
            if whole and parted and (needle != turned or _may_begin(text, start)):
                yield start, end


def _may_begin(text: str, start: int) -> bool:
    """Return True if the first letter from `start` on may be written large or small.

    It is not behind a number, where it may be a unit, and is no capital inside a sentence, which
    may tell one word from another.
    """
    first = _FIRST_WORD.match(text, start)
    if first is None or (len(first[2]) < 3 and re.search(r"\d\s?\Z", text[:start][-2:])):
        return False
    return first[1].islower() or _begins_a_sentence(text, first.start(1))


def _type_alike(text: str, left_out: list[tuple[int, int]], joint: str) -> FoldedText:
    """Return the text as a person might type it, without the spans `left_out`."""
    changed = [(*span, "") for span in left_out]
    for match in _TYPED_ALIKE.finditer(text):
        changed.append((*match.span(), _SPELLINGS.get(match.lastgroup or "", joint)))
    changes = array("q"), array("q"), array("q"), array("q")
    pieces, position, length = [], 0, 0
    for start, end, plain in sorted(changed):
        if start >= position:
            pieces += [text[position:start], plain]
            length += start - position + len(plain)
            for column, at in zip(changes, (length - len(plain), length, start, end), strict=True):
                column.append(at)
            position = end
    return FoldedText("".join([*pieces, text[position:]]), len(text), changes)


def _split_at_ellipses(folded: FoldedText, text: str) -> list[str]:
    """Return the folded pieces between ellipses; an ellipsis that the page has too divides
    nothing."""
    raw: list[str] = []
    parts = ELLIPSIS.split(text)
    for mark, part in zip(["", *parts[1::2]], parts[::2], strict=True):
        if not fold_text(part).text.strip():
            continue
        joined = f"{raw[-1]}{mark}{part}" if raw else ""
        if joined and fold_text(joined).text.strip() in folded.text:
            raw[-1] = joined
        else:
            raw.append(part)
    return [fold_text(piece).text.strip() for piece in raw]


def _chain_spans(
    start: tuple[int, int], later: Sequence[list[tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Return a span of each piece, each the first after the one before; empty if one is missing."""
    chain = [start]
    for spans in later:
        at = bisect_left(spans, (chain[-1][1], 0))
        if at == len(spans):
            return []
        chain.append(spans[at])
    return chain


def _begins_a_sentence(text: str, at: int) -> bool:
    return _SENTENCE_START.search(text[max(0, at - 20) : at]) is not None


def _is_number(word: str) -> bool:
    plain = word.casefold().split("-")
    return any(map(str.isnumeric, word)) or not NUMBER_WORDS.isdisjoint(plain)


def _is_name(word: str) -> bool:
    return any(map(str.isupper, word)) and word.casefold() not in QUESTION_WORDS


def _is_named_elsewhere(text: str, word: str) -> bool:
    """Return True if the word has its capital inside a sentence too."""
    return re.search(rf"(?<=[a-z,] ){re.escape(word)}\b", text) is not None


def _normalize_spelling(text: str) -> str:
    """Return the text with combining marks as letters and one apostrophe and dash, of the same
    length."""
    if text.isascii():
        return text
    text = text.translate(_ONE_SPELLING)
    return "".join("m" if unicodedata.category(c)[0] == "M" else c for c in text)


_ONE_SPELLING = str.maketrans(
    dict.fromkeys("‘’‛ʼ＇", "'") | dict.fromkeys("‐‑‒–—−", "-") | dict.fromkeys("\u00ad\u200b", "-")
)


QuoteOutcome = Literal[
    "verified", "read_otherwise", "page_missing", "digest_differs", "wrong_source", "text_differs",
    "out_of_range", "cut_word", "hidden_text", "too_short",
]  # fmt: skip
ClaimedOutcome = Literal[
    "verified", "read_otherwise", "elided", "not_found", "cut_word", "hidden_text", "bidi_controls",
    "page_missing", "too_short", "broken_citation", "not_quoted", "not_checked",
]  # fmt: skip

UNCHECKED_OUTCOMES = ("not_quoted", "not_judged", "not_checked")
"""outcomes of what holds no quote, or none that can be checked"""
MAX_EDGE_CHARACTERS = 300
"""most characters at either end of a gap that a message shows"""
REORDERED = "it holds control characters that show its letters in another order"
_OTHERWISE = "capitals count, and so do the ends of paragraphs, items and cells"
TOO_SHORT = "it has fewer than three words, and no number or name"


class Verdict(Record, frozen=True):
    """Result of checking one quote."""

    quote: Quote
    outcome: QuoteOutcome
    detail: str = ""
    """one sentence for the reader; empty where the quote is verified without reservation"""

    def __bool__(self) -> bool:
        """Return True if the quote is verified."""
        return self.verified

    @property
    def verified(self) -> bool:
        """True if the quote is the slice of the page that it names, and is not too short."""
        return self.outcome == "verified"

    @property
    def verbatim(self) -> bool:
        """True if the quote is the slice of the page that it names, even if too short."""
        return self.outcome in ("verified", "too_short", "read_otherwise")


class ClaimedVerdict(Record, frozen=True):
    """Result of checking one string that another tool quoted."""

    claimed: ClaimedQuote
    outcome: ClaimedOutcome
    """elided: it stands in the source with words left out; not_quoted: a sentence in the tool's own
    words; not_checked: a quotation that is no citation, such as one in code"""
    detail: str = ""
    quotes: tuple[Quote, ...] = ()
    """pieces of the page that the string consists of"""
    left_out: tuple[str, ...] = ()
    """the page's text between these pieces"""

    def __bool__(self) -> bool:
        """Return True unless the string was checked and failed."""
        return self.verified or self.outcome in UNCHECKED_OUTCOMES

    @property
    def text(self) -> str:
        """The string as it is quoted."""
        return self.claimed.text

    @property
    def verified(self) -> bool:
        """True if the string stands in its source without gaps, and nothing speaks against it.

        False, too, for one that is too short, cuts a word, stands in hidden text or shows its
        letters in another order: `outcome` says which.
        """
        return self.outcome == "verified"


class TextVerdict(Record, frozen=True):
    """Result of checking a part of an answer's own text against its quotes."""

    text: str
    outcome: Literal["claim_differs", "not_judged"]
    """claim_differs: a method that only quotes cannot have written this; not_judged: a model may
    have"""
    detail: str = ""


AnyVerdict = Verdict | ClaimedVerdict | TextVerdict


def verify_quotes(
    answer: Answer,
    pages: Callable[[Quote], Page | None],
    latest: Callable[[str], Page | None] = lambda url: None,
) -> list[Verdict]:
    """Return a verdict on each quote of the answer, in order.

    `pages(quote)` returns the stored version that comes nearest to what the quote names, as
    `PageArchive.find_quoted` does, or another version at its address, or None; `latest(url)`
    returns the newest version.
    """
    return [check_quote(quote, pages(quote), latest(quote.url)) for quote in answer.quotes]


def check_quote(quote: Quote, page: Page | None, latest: Page | None = None) -> Verdict:
    """Return a verdict on `quote` as the slice of `page` that it names.

    `page` is the stored version, None if there is none. `latest` is the newest version of the page:
    if it differs, the detail of a verified quote says so. Where it is another reading of the same
    bytes, without the quote's words, the outcome is read_otherwise.
    """
    if page is None:
        return Verdict(quote, "page_missing", f"no copy of {quote.url} is stored")
    if page.digest != quote.digest:
        return Verdict(quote, "digest_differs", _describe_other_version(quote, page))
    if page.url != quote.url:
        detail = f"this text was read from {page.url} and never from {quote.url}"
        return Verdict(quote, "wrong_source", detail)
    if page.title != quote.title:
        stored, named = shorten_line(page.title), shorten_line(quote.title)
        detail = f"the title of {page.url} is “{stored}”, not “{named}”"
        return Verdict(quote, "wrong_source", detail)
    if not 0 <= quote.start < quote.end <= len(page.text):
        size = len(page.text)
        detail = f"[{quote.start}:{quote.end}] is outside the page, which has {size} characters"
        return Verdict(quote, "out_of_range", detail)
    if page.text[quote.start : quote.end] != quote.text:
        return Verdict(quote, "text_differs", _describe_other_text(quote, page))
    if fault := find_fault(page, quote.start, quote.end):
        return Verdict(quote, *fault)
    if is_quote_too_short(page.text, quote.start, quote.end):
        return Verdict(quote, "too_short", TOO_SHORT)
    return Verdict(quote, *_judge_change(quote.text, page, latest))


def find_fault(
    page: Page, start: int, end: int
) -> tuple[Literal["hidden_text", "cut_word"], str] | None:
    """Return why page.text[start:end] is no quote although it stands there; None if it is one.

    The reason is an outcome and a sentence. Raises ValueError for an empty span and for one outside
    the text.
    """
    if is_hidden_span(page, start, end):
        return "hidden_text", "a reader of the page does not see these words"
    whole = page.quote_whole_words(start, end)
    if (whole.start, whole.end) != (start, end):
        return "cut_word", f"it cuts a word or a number: the page has “{_cut_middle(whole.text)}”"
    return None


def find_unjudged_sentences(answer: Answer) -> list[TextVerdict]:
    """Return a verdict "not_judged" for each sentence of the answer that copies no quote.

    Only quotes are checked, so it stays open whether they support these sentences. A claim that
    repeats one of its own quotes, white space evened out, needs no judgement.
    """
    rest, position = "", 0
    for claim in filter(partial(_is_copied, answer), answer.claims):
        rest += answer.text[position : max(position, claim.start)] + "\n"
        position = max(position, claim.end)
    page = Page("", "", rest + answer.text[position:])
    spans = find_sentences(page, 0, len(page.text)) if page.text.strip() else []
    sentences = [page.text[start:end] for start, end in spans]
    detail = "only the quotes of what a model may have written are checked"
    worded = (each for each in sentences if any(map(str.isalnum, each)))
    return [TextVerdict(each, "not_judged", detail) for each in worded]


def _is_copied(answer: Answer, claim: Claim) -> bool:
    """Return whether a claim repeats one of its own quotes, white space evened out."""
    copied = {" ".join(answer.quotes[number].text.split()) for number in claim.quotes}
    return " ".join(answer.text[claim.start : claim.end].split()) in copied


def check_typed_quotes(
    answer: Answer, pages: Callable[[Quote], Page | None], name: str = "the answer"
) -> list[ClaimedVerdict]:
    """Return a verdict on each quotation that is typed in the answer's own text, by its pages.

    It must stand in a page that its claim cites, elsewhere in one that the answer quotes; what is
    not checked is told. Quotations from three words on count, and not those of the quotes that
    claims repeat. `pages(quote)` returns a stored page as for `verify_quotes`.
    """
    cited = [
        CitationSpan(claim.start, claim.end, answer.quotes[number].url)
        for claim in answer.claims
        for number in claim.quotes
    ]
    numbered = {str(n): (each.url, each.title) for n, each in enumerate(answer.quotes, 1)}
    copied = [(each.start, each.end) for each in answer.claims if _is_copied(answer, each)]
    typed = extract_claims(
        answer.text, cited, numbered, lambda at: f"{name}, character {at}", copied
    )
    verdicts = []
    for _, same in groupby((each for each in typed if each.quoted), attrgetter("where")):
        claimed, *others = same
        urls = {claimed.url, *(each.url for each in others)}
        named = [each for each in answer.quotes if each.url in urls or "" in urls]
        claimed = msgspec.structs.replace(claimed, title=claimed.title or "the answer's pages")
        verdicts.append(check_claimed_quote(claimed, filter(None, map(pages, named))))
    return verdicts


def check_claimed_quote(claimed: ClaimedQuote, versions: Iterable[Page]) -> ClaimedVerdict:
    """Return a verdict on a quoted string by the stored versions of its source, newest first.

    The first version that holds the whole string decides, else the first that holds it with gaps.
    Such an elided quotation is never verified.
    """
    if claimed.problem:
        return ClaimedVerdict(claimed, "broken_citation", claimed.problem)
    if claimed.unchecked:
        return ClaimedVerdict(claimed, "not_checked", claimed.unchecked)
    if not claimed.quoted:
        detail = "a citation without quoted words: nothing to check"
        return ClaimedVerdict(claimed, "not_quoted", detail)
    if BIDI_CONTROL.search(claimed.text):
        return ClaimedVerdict(claimed, "bidi_controls", REORDERED)
    if not claimed.url and not claimed.title:
        return ClaimedVerdict(claimed, "page_missing", "no source is named beside it")
    latest: dict[str, Page] = {}
    faulty: ClaimedVerdict | None = None
    elided: ClaimedVerdict | None = None
    for page in versions:
        latest.setdefault(page.url, page)
        if quote := _find_as_read(page, claimed.text):
            return _judge_whole(claimed, quote, page, latest[page.url])
        quotes = find_quote_pieces(page, claimed.text)
        if len(quotes) > 1 and elided is None:
            elided = _judge_elided(claimed, quotes, page)
        if len(quotes) == 1 and faulty is None:
            detail = f"the source has “{_cut_middle(quotes[0].text)}”: {_OTHERWISE}"
            faulty = ClaimedVerdict(claimed, "not_found", detail)
        if not quotes and faulty is None and (span := next(find_places(page, claimed.text), None)):
            fault = find_fault(page, *span)
            faulty = fault and ClaimedVerdict(claimed, *fault)
    if not latest:
        return ClaimedVerdict(claimed, "page_missing", "its source is not stored")
    missing = ClaimedVerdict(claimed, "not_found", "these words do not stand in the source")
    return next(each for each in (elided, faulty, missing) if each is not None)


def _judge_whole(claimed: ClaimedQuote, quote: Quote, page: Page, latest: Page) -> ClaimedVerdict:
    begun = max((block.start for block in page.blocks if block.start <= quote.start), default=0)
    opened = [control for _, control in list_controls(page.text[begun : quote.start])][-1:]
    if BIDI_CONTROL.search(quote.text) or opened in (["\u202d"], ["\u202e"]):
        return ClaimedVerdict(claimed, "bidi_controls", REORDERED, (quote,))
    if is_quote_too_short(page.text, quote.start, quote.end):
        return ClaimedVerdict(claimed, "too_short", TOO_SHORT, (quote,))
    return ClaimedVerdict(claimed, *_judge_change(quote.text, page, latest), (quote,))


def _judge_elided(claimed: ClaimedQuote, quotes: tuple[Quote, ...], page: Page) -> ClaimedVerdict:
    gaps = find_gaps(page, quotes)
    detail = "left out: " + ", ".join(f"“{_cut_middle(gap)}”" for gap in gaps)
    return ClaimedVerdict(claimed, "elided", detail, quotes, gaps)


def _judge_change(
    text: str, page: Page, latest: Page | None
) -> tuple[Literal["verified", "read_otherwise"], str]:
    """Return the outcome of a quote that stands in `page`, and a remark if the newest version of
    the page is another one."""
    if latest is None or latest.digest == page.digest:
        return "verified", ""
    version = f"the version of {page.fetched[:10]}" if page.fetched else "an earlier version"
    still = "still" if locate_quote(latest, text) else "no longer"
    detail = f"verified against {version}; the page now differs and {still} has these words"
    if not _has_same_bytes(page, latest):
        return "verified", detail
    if still == "still":
        detail = f"verified against {version}; this page is now read otherwise, with these words"
        return "verified", detail
    return "read_otherwise", "this page is now read otherwise: ask again to quote it anew"


def _has_same_bytes(page: Page, latest: Page) -> bool:
    """Tell whether a page is known to have had, when it was fetched, the bytes of its newest
    version: both came from one answer, or its file has not changed since."""
    if page.url.startswith("file:///"):
        with suppress(OSError, ValueError):
            file = Path(url2pathname(urlsplit(page.url).path)).stat()
            fetched = datetime.fromisoformat(page.fetched).timestamp()
            return max(file.st_mtime, file.st_ctime) < fetched
    return page.fetched == latest.fetched != ""


def _describe_other_version(quote: Quote, page: Page) -> str:
    fetched = f" (fetched {page.fetched})" * bool(page.fetched)
    changed = f"the stored copy of {page.url} is another version{fetched}, or is now read otherwise"
    return f"{changed}: ask again to quote it anew; {_describe_place(quote, page)}"


def _describe_other_text(quote: Quote, page: Page) -> str:
    texts = page.text[quote.start : quote.end], quote.text
    same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), 0)
    cut = max(0, same - 30)  # what differs must be seen
    there, here = ("…" * (cut > 0) + shorten_line(text[cut:]) for text in texts)
    return f"the page has “{there}”, and the quote “{here}”; {_describe_place(quote, page)}"


def _describe_place(quote: Quote, page: Page) -> str:
    found = locate_quote(page, quote.text, after=quote.start)
    if found is None:
        return "the quoted text does not stand in it"
    how = "" if found.text == quote.text else ", but for case, white space or typography,"
    return f"the quoted text stands in it{how} at [{found.start}:{found.end}]"


def _cut_middle(text: str) -> str:
    """Return the text on one line; of a long text, its ends and the number of characters
    between."""
    line = " ".join(text.split())
    if len(line) <= 2 * MAX_EDGE_CHARACTERS:
        return line
    ends = line[:MAX_EDGE_CHARACTERS], line[-MAX_EDGE_CHARACTERS:]
    return f"{ends[0]} ({len(line) - 2 * MAX_EDGE_CHARACTERS:,} characters) {ends[1]}"
