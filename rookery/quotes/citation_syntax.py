r"""The two citation syntaxes: rendering an Answer as text, and parsing it back.

numbered    The sky is blue [1][2].                          WebGPT, WebGLM
inline      %<The sky is blue>%(Sky)%[Rayleigh scatters]%    GopherCite

`parse(render(answer)) == answer` for both, apart from `score` and `declined`, which no text
carries. An answer that could not be parsed back is refused with a CitationSyntaxError. Beyond the
papers:

- A numbered claim begins at the sentence that its numbers end or stand in, and not before the
  claim before. Where it begins elsewhere, `%<` marks the place: `As is known, %<birds fly [1].`
- An inline claim on several quotes repeats the evidence: `%<claim>%(A)%[a]%%(B)%[b]%`.
- A backslash takes the meaning from a mark that follows it at once: `\[1]`, `\%<`. Before a mark,
  and only there, a backslash of the text is written twice, so that `\alpha` stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec

from rookery.pages.text_folding import fold_text, is_quotable, locate_quote
from rookery.records import Answer, Claim, Page, Quote

NUMBER_PATTERN = r"\[[0-9]+\]"
NUMBERED_MARK_PATTERN = rf"{NUMBER_PATTERN}|%<"
NUMBERED = re.compile(
    rf"(?<!\\)(?P<slashes>\\+)(?=(?P<escaped>{NUMBERED_MARK_PATTERN}))|%<| "
    rf"?{NUMBER_PATTERN}(?: ?{NUMBER_PATTERN})*"
)
SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+(?![a-z])|[。！？][”」』）]*|\n\s*")
# Mark that ends each part of an inline citation: as a pattern, and as text.
CLAIM_PATTERN, CLAIM_ENDS = r"%<", "%<"
EVIDENCE_PATTERN, EVIDENCE_ENDS = r">%\(", ">%("
TITLE_PATTERN, TITLE_ENDS = r"\)%\[", ")%["
WORDS_PATTERN, WORDS_END = r"\]%", "]%"
QuoteFinder = Callable[[Page, str], Quote | None]


class CitationSyntaxError(ValueError):
    """Raised for text that cites missing quotes, and for answers that could not be parsed back."""


class UnsupportedAnswerError(CitationSyntaxError):
    """Raised for an answer that can be read, and whose quotes do not support it or answer."""


def render_numbered(answer: Answer) -> str:
    """Render the answer with `[1][2]` after each claim.

    Raises CitationSyntaxError if a claim cites nothing, or if claims overlap or are out of order.
    """
    _require_claims_apart(answer)
    out: list[str] = []
    position = 0
    for claim in answer.claims:
        usual = find_claim_start(answer.text, position, claim.end)
        if (claim.end == position and out) or claim.start != usual:
            before = answer.text[position : claim.start]
            out += (_escape_marks(before, NUMBERED_MARK_PATTERN, "%<"), "%<")
            position = claim.start
        out.append(_escape_marks(answer.text[position : claim.end], NUMBERED_MARK_PATTERN, " ["))
        out.append(" " + "".join(f"[{number + 1}]" for number in claim.quotes))
        position = claim.end
    return "".join([*out, _escape_marks(answer.text[position:], NUMBERED_MARK_PATTERN, "")])


def parse_numbered(text: str, quotes: Sequence[Quote]) -> Answer:
    """Parse text that cites `quotes` by `[1]`, `[2]`, ... into an answer.

    Raises CitationSyntaxError if a number has no quote, or if a claim opened by `%<` is not cited.
    """
    plain, position, opened = "", 0, -1
    claims: list[Claim] = []
    while match := NUMBERED.search(text, position):
        plain += text[position : match.start()]
        position = match.end()
        if slashes := match["slashes"]:
            plain += slashes[: len(slashes) // 2]
            if len(slashes) % 2:
                plain += match["escaped"]
                position += len(match["escaped"])
        elif match[0] == "%<":
            context = _show_context(text, position)
            _require_syntax(opened < 0, f"a claim opens inside another one: {context}")
            opened = len(plain)
        else:
            last = claims[-1].end if claims else 0
            start = opened if opened >= 0 else find_claim_start(plain, last, len(plain))
            claims.append(Claim(start, len(plain), _parse_numbers(match[0], len(quotes))))
            opened = -1
    context = _show_context(text, len(text))
    _require_syntax(opened < 0, f"a claim is opened and not cited: {context}")
    return Answer(plain + text[position:], tuple(quotes), tuple(claims))


def insert_marks(answer: Answer, mark: Callable[[Claim], str]) -> str:
    """Return the answer's text with `mark(claim)` inserted after each claim, for display only.

    Claims may overlap; they are marked in the order of their ends.
    """
    out, done = "", 0
    for claim in sorted(answer.claims, key=lambda claim: claim.end):
        out += answer.text[done : claim.end] + mark(claim)
        done = claim.end
    return out + answer.text[done:]


def _parse_numbers(numbers: str, size: int) -> tuple[int, ...]:
    # Nine digits exceed any number of quotes, and int() raises for thousands of digits.
    cited = tuple(int(number[:9]) - 1 for number in re.findall(r"[0-9]+", numbers))
    for number in cited:
        _require_syntax(0 <= number < size, f"cites [{number + 1}], but there are {size} quotes")
    return cited


def find_claim_start(text: str, floor: int, end: int) -> int:
    """Return where a claim that ends at `end` begins by default: at its sentence, not before
    `floor`."""
    stop = floor + len(text[floor:end].rstrip())
    start = floor
    for found in SENTENCE_END.finditer(text, floor, stop):
        if found.end() < stop:
            start = found.end()
    return min(start + len(text[start:end]) - len(text[start:end].lstrip()), end)


def render_inline(answer: Answer, pages: Sequence[Page]) -> str:
    """Render the answer with each claim as `%<claim>%(title)%[quote]%`.

    Raises CitationSyntaxError if a claim cites nothing, if claims overlap or are out of order, if
    quotes are not in the order of their use (see `order_quotes_by_use`), or if a quote's title and
    words would be found in another place of these pages first.
    """
    _require_claims_apart(answer)
    _require_syntax(
        answer.quotes == order_quotes_by_use(answer).quotes,
        "inline citations write quotes where they are used: call order_quotes_by_use first",
    )
    for quote in answer.quotes:
        _require_found_again(quote, pages)
    out, position = "", 0
    for claim in answer.claims:
        between = answer.text[position : claim.start]
        out += _escape_between(between, CLAIM_ENDS, evidence_before=bool(out))
        claim_text = answer.text[claim.start : claim.end]
        out += f"%<{_escape_marks(claim_text, EVIDENCE_PATTERN, EVIDENCE_ENDS)}>"
        quotes = (answer.quotes[number] for number in claim.quotes)
        out += "".join(_render_evidence(quote.title, quote.text) for quote in quotes)
        position = claim.end
    out += _escape_between(answer.text[position:], "", evidence_before=bool(out))
    again = parse_inline(out, pages)
    same = msgspec.structs.replace(answer, declined=again.declined, score=again.score)
    _require_syntax(again == same, "the answer's quotes read as marks of the inline syntax")
    return out


def parse_inline(text: str, pages: Sequence[Page], find: QuoteFinder = locate_quote) -> Answer:
    """Parse an answer whose claims carry titles and words of quotes, found in these pages.

    `find` looks for words that do not stand on the page exactly as written. Raises
    CitationSyntaxError if a title belongs to none of the pages, or if the words are not on that
    page.
    """
    claims: list[Claim] = []
    quotes: dict[Quote, int] = {}
    plain, position, opened = _read_until(CLAIM_PATTERN, text, 0)
    while opened:
        claim, end, closed = _read_until(EVIDENCE_PATTERN, text, position)
        context = _show_context(text, position)
        _require_syntax(closed, f"a claim is opened and has no evidence: {context}")
        position, cited = _read_evidence(text, end - 2, pages, find)
        numbers = tuple(quotes.setdefault(quote, len(quotes)) for quote in cited)
        claims.append(Claim(len(plain), len(plain) + len(claim), numbers))
        lead = re.compile(r"(\\*)\\(%\()").match(text, position)
        if lead:
            claim, position = claim + lead[1][: len(lead[1]) // 2] + lead[2], lead.end()
        following, position, opened = _read_until(CLAIM_PATTERN, text, position)
        plain += claim + following
    return Answer(plain, tuple(quotes), tuple(claims))


def _read_evidence(
    text: str, start: int, pages: Sequence[Page], find: QuoteFinder
) -> tuple[int, list[Quote]]:
    """Parse consecutive `%(title)%[quote]%` from `start` on; return where they end, and the
    quotes."""
    cited = []
    while text.startswith("%(", start):
        title, middle, titled = _read_until(TITLE_PATTERN, text, start + 2)
        words, end, quoted = _read_until(WORDS_PATTERN, text, middle)
        _require_syntax(titled and quoted, f"evidence is not closed: {_show_context(text, start)}")
        cited.append(_find_quote(title, (words, text[middle : end - 2]), pages, find))
        start = end
    return start, cited


def order_quotes_by_use(answer: Answer) -> Answer:
    """Return the answer with its quotes in the order of first citation, each once.

    Quotes that no claim cites are dropped.
    """
    numbers: dict[Quote, int] = {}
    claims = []
    for claim in answer.claims:
        cited = (answer.quotes[number] for number in claim.quotes)
        used = tuple(numbers.setdefault(quote, len(numbers)) for quote in cited)
        claims.append(Claim(claim.start, claim.end, used))
    return msgspec.structs.replace(answer, quotes=tuple(numbers), claims=tuple(claims))


def write_inline_claim(claim: str, title: str, words: str) -> str:
    """Write `%<claim>%(title)%[words]%`, from which `parse_inline` reads the same three."""
    text = _escape_marks(claim, EVIDENCE_PATTERN, EVIDENCE_ENDS)
    return f"%<{text}>{_render_evidence(title, words)}"


def _render_evidence(title: str, words: str) -> str:
    title = _escape_marks(title, TITLE_PATTERN, TITLE_ENDS)
    return f"%({title})%[{_escape_marks(words, WORDS_PATTERN, WORDS_END)}]%"


def _escape_between(text: str, following: str, evidence_before: bool) -> str:
    """Escape text between claims; straight after evidence, `%(` would be read as more of it."""
    escaped = _escape_marks(text, CLAIM_PATTERN, following)
    lead = re.match(r"(\\*)(?=%\()", text) if evidence_before else None
    return lead[1] * 2 + "\\" + escaped[lead.end() :] if lead else escaped


def _read_until(mark: str, text: str, start: int) -> tuple[str, int, bool]:
    """Return the text from `start` to the next mark, where the mark ends, and False if there is
    none."""
    plain = ""
    for match in re.compile(rf"(?<!\\)(\\*)({mark})").finditer(text, start):
        slashes = match[1]
        plain += text[start : match.start()] + slashes[: len(slashes) // 2]
        start = match.end()
        if len(slashes) % 2 == 0:
            return plain, start, True
        plain += match[2]
    return plain + text[start:], len(text), False


def _find_quote(
    title: str, spellings: tuple[str, str], pages: Sequence[Page], find: QuoteFinder
) -> Quote:
    """Find the quote with these words: escapes undone, else as a writer that knows no escapes left
    it.

    Raises CitationSyntaxError if no page has the title, or no such page the words.
    """
    folded = fold_text(title).text
    titled = [page for page in pages if page.title == title]
    titled = titled or [page for page in pages if fold_text(page.title).text == folded]
    _require_syntax(titled, f"cites “{title}”, which is none of the {len(pages)} pages")
    for page in titled:
        for words in spellings:
            if quote := _find_on_page(page, words, find):
                return quote
    raise CitationSyntaxError(f"quotes words that are not on “{title}”: {spellings[0][:80]!r}")


def _find_on_page(page: Page, words: str, find: QuoteFinder) -> Quote | None:
    # `find` would strip white space around the words; on the page it may belong to them.
    if not words:
        return None
    places = [match.start() for match in re.finditer(f"(?={re.escape(words)})", page.text)]
    for start in places:
        if is_quotable(page, start, start + len(words)):
            return page.quote(start, start + len(words))
    if quote := find(page, words):
        return quote
    # What a constraint has let a model write may end inside a word.
    return page.quote_whole_words(places[0], places[0] + len(words)) if places else None


def _require_found_again(quote: Quote, pages: Sequence[Page]) -> None:
    found = _find_quote(quote.title, (quote.text, quote.text), pages, locate_quote)
    _require_syntax(
        found == quote,
        f"“{quote.text[:80]}” of {quote.url} [{quote.start}:{quote.end}] would be read as "
        f"[{found.start}:{found.end}] of {found.url}: quote more words, until they stand once",
    )


def _require_claims_apart(answer: Answer) -> None:
    done = 0
    for number, claim in enumerate(answer.claims, 1):
        _require_syntax(claim.quotes, f"claim {number} cites no quote")
        _require_syntax(
            claim.start >= done, f"claim {number} overlaps the one before or precedes it"
        )
        done = claim.end


def _escape_marks(text: str, mark: str, following: str) -> str:
    """Return the text with every mark in it escaped, safe to stand before `following`."""
    out = re.sub(rf"(?<!\\)(\\*)({mark})", lambda found: f"{found[1] * 2}\\{found[2]}", text)
    if following and re.match(mark, following):
        out = re.sub(r"(?<!\\)\\+\Z", lambda found: found[0] * 2, out)
    return out


def _require_syntax(holds: object, sentence: str) -> None:
    if not holds:
        raise CitationSyntaxError(sentence)


def _show_context(text: str, at: int) -> str:
    return repr(text[max(0, at - 40) : at + 20])


AnswerForm = Literal["claim", "answer", "quote"]
FragmentJoin = Literal["[...]", "━"]


class AnswerShape(msgspec.Struct, frozen=True):
    """Shape of an answer under the verbatim constraint."""

    form: AnswerForm = "claim"
    """claim: `%<claim>%(title)%[quote]%` once (GopherCite). answer: text with one or more claims,
    each on one or more quotes. quote: words of a document without marks (the text after `Quote: `
    in WebGPT)"""
    shortest: int = 5
    """fewest characters of a quote, and of each fragment of one (GopherCite, appendix F)"""
    longest: int = 2000
    """most characters of a quote, all its fragments together"""
    fragments: int = 1
    """most fragments of a quote; all are of one document and in its order"""
    join: FragmentJoin = "[...]"
    """mark between two fragments; with ━ and two of them, `start━end` (WebGPT)"""
    free: int = 128
    """most tokens between two quotes, or before the first, their marks included"""

    def __post_init__(self) -> None:
        for name, least in {"shortest": 1, "fragments": 1, "free": 16}.items():
            if getattr(self, name) < least:
                raise ValueError(f"AnswerShape.{name} must be at least {least}")
        if self.longest < self.shortest:
            raise ValueError("AnswerShape.longest must be at least AnswerShape.shortest")
        if self.form not in get_args(AnswerForm) or self.join not in get_args(FragmentJoin):
            named = f"form {self.form!r} and join {self.join!r}"
            raise ValueError(f"there is no AnswerShape of {named}")

    @property
    def reserved(self) -> tuple[str, ...]:
        """Marks that no quote may contain."""
        ends = () if self.form == "quote" else (WORDS_END,)
        return ends if self.fragments == 1 else (*ends, self.join)
