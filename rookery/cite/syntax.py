r"""The two ways to write an Answer as one text, and to read it back.

numbered    The sky is blue [1][2].                          WebGPT, WebGLM
inline      %<The sky is blue>%(Sky)%[Rayleigh scatters]%    GopherCite

`parse(render(answer)) == answer` for both, but for `score` and `declined`, which no text carries;
what cannot be written so that it comes back is refused with a worded BadSyntax. Beyond the papers:

- A numbered claim begins at the sentence that its numbers end or stand in, and not before the
  claim before. Where it begins elsewhere, `%<` marks the place: `As is known, %<birds fly [1].`
- An inline claim on several quotes repeats the evidence: `%<claim>%(A)%[a]%%(B)%[b]%`.
- A backslash takes the meaning from a mark that follows it at once: `\[1]`, `\%<`. Before a mark,
  and only there, a backslash of the text is written twice, so that `\alpha` stays as it is.

Knows nothing of who wrote the text, nor of whether a quote supports its claim.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from rookery.browse.fold import fold
from rookery.browse.locate import locate
from rookery.records import Answer, Claim, Page, Quote

NUMBER = r"\[[0-9]+\]"
NUMBERED_MARK = rf"{NUMBER}|%<"
NUMBERED = re.compile(
    rf"(?<!\\)(?P<slashes>\\+)(?=(?P<escaped>{NUMBERED_MARK}))|%<| ?{NUMBER}(?: ?{NUMBER})*"
)
SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+(?![a-z])|[。！？][”」』）]*|\n\s*")
# What ends each part of an inline citation: as a pattern, and as it is written.
CLAIM, CLAIM_ENDS = r"%<", "%<"
EVIDENCE, EVIDENCE_ENDS = r">%\(", ">%("
TITLE, TITLE_ENDS = r"\)%\[", ")%["
WORDS, WORDS_END = r"\]%", "]%"
Find = Callable[[Page, str], Quote | None]


class BadSyntax(ValueError):
    """The text cites what is not there, or the answer cannot be written so that it comes back."""


def render_numbered(answer: Answer) -> str:
    """The answer with `[1][2]` after each claim, for `parse_numbered` to read back.

    Raises BadSyntax where a claim cites nothing, or where claims overlap or are out of order.
    """
    _require_claims_apart(answer)
    out: list[str] = []
    done = 0
    for claim in answer.claims:
        if (claim.end == done and out) or claim.start != _begins(answer.text, done, claim.end):
            out += (_escaped(answer.text[done : claim.start], NUMBERED_MARK, "%<"), "%<")
            done = claim.start
        out.append(_escaped(answer.text[done : claim.end], NUMBERED_MARK, " ["))
        out.append(" " + "".join(f"[{number + 1}]" for number in claim.quotes))
        done = claim.end
    return "".join([*out, _escaped(answer.text[done:], NUMBERED_MARK, "")])


def parse_numbered(text: str, quotes: Sequence[Quote]) -> Answer:
    """The answer that cites these quotes by `[1]`, `[2]`, ...: plain text, claims, quotes.

    Raises BadSyntax where a number has no quote, or where an opened claim is not cited.
    """
    plain, done, opened = "", 0, -1
    claims: list[Claim] = []
    while found := NUMBERED.search(text, done):
        plain += text[done : found.start()]
        done = found.end()
        if slashes := found["slashes"]:
            plain += slashes[: len(slashes) // 2]
            if len(slashes) % 2:
                plain += found["escaped"]
                done += len(found["escaped"])
        elif found[0] == "%<":
            _require(opened < 0, f"a claim opens inside another one: {_context(text, done)}")
            opened = len(plain)
        else:
            last = claims[-1].end if claims else 0
            start = opened if opened >= 0 else _begins(plain, last, len(plain))
            claims.append(Claim(start, len(plain), _cited(found[0], len(quotes))))
            opened = -1
    _require(opened < 0, f"a claim is opened and not cited: {_context(text, len(text))}")
    return Answer(plain + text[done:], tuple(quotes), tuple(claims))


def with_marks(answer: Answer, mark: Callable[[Claim], str]) -> str:
    """The answer for a reader: its text as it is, and after each claim what `mark` says of it.

    Not meant to be read back. Claims may overlap; they are marked in the order of their ends.
    """
    out, done = "", 0
    for claim in sorted(answer.claims, key=lambda claim: claim.end):
        out += answer.text[done : claim.end] + mark(claim)
        done = claim.end
    return out + answer.text[done:]


def _cited(numbers: str, size: int) -> tuple[int, ...]:
    # Nine digits are beyond any quote; int() refuses what is thousands of digits long.
    cited = tuple(int(number[:9]) - 1 for number in re.findall(r"[0-9]+", numbers))
    for number in cited:
        _require(0 <= number < size, f"cites [{number + 1}], but there are {size} quotes")
    return cited


def _begins(text: str, floor: int, end: int) -> int:
    """Where a claim that ends at `end` begins unless it says otherwise: at its sentence."""
    stop = floor + len(text[floor:end].rstrip())
    start = floor
    for found in SENTENCE_END.finditer(text, floor, stop):
        if found.end() < stop:
            start = found.end()
    return min(start + len(text[start:end]) - len(text[start:end].lstrip()), end)


def render_inline(answer: Answer, pages: Sequence[Page]) -> str:
    """The answer with each claim in `%<claim>%(title)%[quote]%`, for `parse_inline` to read back.

    Raises BadSyntax where a claim cites nothing, claims overlap or are out of order, quotes are
    not in the order of their use (`in_order_of_use` makes them so), or where title and words of a
    quote would be found in another place of these pages first.
    """
    _require_claims_apart(answer)
    _require(
        answer.quotes == in_order_of_use(answer).quotes,
        "inline citations write quotes where they are used: call in_order_of_use first",
    )
    for quote in answer.quotes:
        _require_found_again(quote, pages)
    out, done = "", 0
    for claim in answer.claims:
        out += _between(answer.text[done : claim.start], CLAIM_ENDS, evidence_before=bool(out))
        said = answer.text[claim.start : claim.end]
        out += f"%<{_escaped(said, EVIDENCE, EVIDENCE_ENDS)}>"
        out += "".join(_evidence(answer.quotes[number]) for number in claim.quotes)
        done = claim.end
    out += _between(answer.text[done:], "", evidence_before=bool(out))
    again = parse_inline(out, pages)
    same = msgspec.structs.replace(answer, declined=again.declined, score=again.score)
    _require(again == same, "the answer's quotes read as marks of the inline syntax")
    return out


def parse_inline(text: str, pages: Sequence[Page], find: Find = locate) -> Answer:
    """The answer whose claims carry title and words of their quotes, looked up in these pages.

    `find` looks for words that do not stand on the page exactly as they are written. Raises
    BadSyntax where a title is none of the pages', or the words are not on that page.
    """
    claims: list[Claim] = []
    quotes: dict[Quote, int] = {}
    plain, done, opened = _until(CLAIM, text, 0)
    while opened:
        claim, end, closed = _until(EVIDENCE, text, done)
        _require(closed, f"a claim is opened and has no evidence: {_context(text, done)}")
        done, cited = _read_evidence(text, end - 2, pages, find)
        numbers = tuple(quotes.setdefault(quote, len(quotes)) for quote in cited)
        claims.append(Claim(len(plain), len(plain) + len(claim), numbers))
        lead = re.compile(r"(\\*)\\(%\()").match(text, done)
        if lead:
            claim, done = claim + lead[1][: len(lead[1]) // 2] + lead[2], lead.end()
        following, done, opened = _until(CLAIM, text, done)
        plain += claim + following
    return Answer(plain, tuple(quotes), tuple(claims))


def _read_evidence(
    text: str, start: int, pages: Sequence[Page], find: Find
) -> tuple[int, list[Quote]]:
    """Each `%(title)%[quote]%` from `start` on, one after another, and where they end."""
    cited = []
    while text.startswith("%(", start):
        title, middle, titled = _until(TITLE, text, start + 2)
        words, end, quoted = _until(WORDS, text, middle)
        _require(titled and quoted, f"evidence is not closed: {_context(text, start)}")
        cited.append(_quoted(title, (words, text[middle : end - 2]), pages, find))
        start = end
    return start, cited


def in_order_of_use(answer: Answer) -> Answer:
    """The same answer with its quotes in the order in which claims first cite them, each once,
    and those that no claim cites left out."""
    numbers: dict[Quote, int] = {}
    claims = [
        Claim(
            claim.start,
            claim.end,
            tuple(numbers.setdefault(answer.quotes[n], len(numbers)) for n in claim.quotes),
        )
        for claim in answer.claims
    ]
    return msgspec.structs.replace(answer, quotes=tuple(numbers), claims=tuple(claims))


def _evidence(quote: Quote) -> str:
    title = _escaped(quote.title, TITLE, TITLE_ENDS)
    return f"%({title})%[{_escaped(quote.text, WORDS, WORDS_END)}]%"


def _between(text: str, following: str, evidence_before: bool) -> str:
    """Text outside of claims; straight after evidence, `%(` would be read as more of it."""
    escaped = _escaped(text, CLAIM, following)
    lead = re.match(r"(\\*)(?=%\()", text) if evidence_before else None
    return lead[1] * 2 + "\\" + escaped[lead.end() :] if lead else escaped


def _until(mark: str, text: str, start: int) -> tuple[str, int, bool]:
    """The text from `start` to the next mark, where that ends, and whether there is one."""
    plain = ""
    for found in re.compile(rf"(?<!\\)(\\*)({mark})").finditer(text, start):
        slashes = found[1]
        plain += text[start : found.start()] + slashes[: len(slashes) // 2]
        start = found.end()
        if len(slashes) % 2 == 0:
            return plain, start, True
        plain += found[2]
    return plain + text[start:], len(text), False


def _quoted(title: str, spellings: tuple[str, str], pages: Sequence[Page], find: Find) -> Quote:
    """The quote with these words: escapes undone, else as a writer who knows no escapes left it."""
    titled = [page for page in pages if page.title == title]
    titled = titled or [page for page in pages if fold(page.title).text == fold(title).text]
    _require(titled, f"cites “{title}”, which is none of the {len(pages)} pages")
    for page in titled:
        for words in spellings:
            if quote := _on(page, words, find):
                return quote
    raise BadSyntax(f"quotes words that are not on “{title}”: {spellings[0][:80]!r}")


def _on(page: Page, words: str, find: Find) -> Quote | None:
    # White space round the words is part of them where the page has it so.
    start = page.text.find(words) if words else -1
    return page.quote(start, start + len(words)) if start >= 0 else find(page, words)


def _require_found_again(quote: Quote, pages: Sequence[Page]) -> None:
    found = _quoted(quote.title, (quote.text, quote.text), pages, locate)
    _require(
        found == quote,
        f"“{quote.text[:80]}” of {quote.url} [{quote.start}:{quote.end}] would be read as "
        f"[{found.start}:{found.end}] of {found.url}: quote more words, until they stand once",
    )


def _require_claims_apart(answer: Answer) -> None:
    done = 0
    for number, claim in enumerate(answer.claims, 1):
        _require(claim.quotes, f"claim {number} cites no quote")
        _require(claim.start >= done, f"claim {number} overlaps the one before or precedes it")
        done = claim.end


def _escaped(text: str, mark: str, following: str) -> str:
    """The text with every mark in it escaped, fit to stand before `following`."""
    out = re.sub(rf"(?<!\\)(\\*)({mark})", lambda found: f"{found[1] * 2}\\{found[2]}", text)
    if following and re.match(mark, following):
        out = re.sub(r"(?<!\\)\\+\Z", lambda found: found[0] * 2, out)
    return out


def _require(holds: object, sentence: str) -> None:
    if not holds:
        raise BadSyntax(sentence)


def _context(text: str, at: int) -> str:
    return repr(text[max(0, at - 40) : at + 20])
