"""What a text in Markdown claims to quote: strings in quotation marks, and block quotes.

Attributes each to the source that the text cites nearest to it. Reads characters only: it does not
know which tool wrote the text, and it never opens a source.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from rookery.records import Record

QUOTED_WORDS = 4
"""fewer words between quotation marks are a term or a title, and stand on a page by chance"""
QUOTED_LETTERS = 8
"""the same in Chinese, Japanese and Korean, which set no spaces between words"""
NEAR = 20
"""citations on either side of a quotation that are looked at"""
SENTENCE = 500
"""characters to either side of a mark beyond which its sentence is cut"""

Sources = Mapping[str, tuple[str, str]]
"""URL and title by the number or name that stands for them"""

QUOTATION = re.compile(
    r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」|『([^『』]+)』"
    r"|(?<![\w\"])\"(?=\S)([^\"\n]+(?:\n(?!\s*\n)[^\"\n]+)*)(?<=\S)\"(?!\w)"
)
WORD = re.compile(r"\w[\w'’-]*")
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
PARAGRAPH_END = re.compile(r"\n[ \t]*(?=\n|[-*+#>|]|\d+[.)])")
SENTENCE_END = re.compile(r"[.!?…][\"'”’»)]*\s+(?=\W{0,20}\w)|[。！？][”」』]*")
BLOCK_QUOTE = re.compile(r"(?m)^[ \t]*>(?!\s*\[!).*(?:\n[ \t]*>.*)*")
ATTRIBUTION = re.compile(r"\s*(?:[—–―~-]|\(?\[|【|<?(?:https?|file)://|source\b)", re.IGNORECASE)
FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")

TARGET = r"<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+\"([^\"\n]*)\")?"
LINK = re.compile(rf"\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\](\({TARGET}\))")
REFERENCE = re.compile(
    r"(?:\[(?!\^?\d{1,3}\])([^\[\]\n]+)\])?\[(\^?\w{1,20}(?:[,;] ?\^?\w{1,20})*)\]"
)
CURSOR = re.compile(r"【(\d{1,3})[^】\n]{0,40}】()")
URL = re.compile(r"(?:https?|file)://[^\s<>\"'\[\]()】]*[^\s<>\"'\[\]()】.,;:!?*_]")
FILE_NAME = re.compile(
    r"[^/]\.(?:pdf|docx?|odt|rtf|te?xt|md|markdown|rst|x?html?|csv|tsv|jsonl?|log|xml|epub|tex|pptx?"
    r"|xlsx?|ipynb)\Z",
    re.IGNORECASE,
)
APART = re.compile(r"\s[—–-]+\s|[:,;|(]\s|\s[(]")
"""between a source's title and its address in a list of sources"""
DEFINITION = re.compile(r"(?m)^[ \t]*(?:[-*+][ \t]+)?\[\^?(\w{1,20})\](:?)[ \t]+(\S.*)$")
LISTED = re.compile(r"(?m)^[ \t]*(?:(\d{1,3})[.)]|[-*+])[ \t]+(\S.*)$")
SOURCE_NAME = re.compile(r"\[?\^?\d{1,3}\]?|(?:[\w-]+\.)+\w{2,}")
SOURCES = re.compile(r"(?im)^[#*_ \t]*(?:sources|references|citations|links|footnotes)\b.{0,20}$")
HEADING = re.compile(r"(?m)^#")
EMPHASIS = re.compile(r"(?<!\w)([*_]{1,3}|`{1,3})(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)", re.DOTALL)


class Claimed(Record, frozen=True):
    """A string that an answer gives as a source's, and the source that it names."""

    text: str
    url: str = ""
    """empty where none is named by address"""
    title: str = ""
    where: str = ""
    """in the file: a line, or the path of a JSON value. A string with several sources is given
    once for each, with the same `where`, and stands if it stands in one of them"""
    quoted: bool = True
    """False for a sentence that cites a source in its own words and so need not stand in it"""
    problem: str = ""
    """one sentence, where the citation itself is broken"""


class Cited(Record, frozen=True):
    """text[start:end] of an answer names a source, or rests on one."""

    start: int
    end: int
    url: str = ""
    title: str = ""
    problem: str = ""


class _Reading(msgspec.Struct, frozen=True):
    """A text prepared for questions of nearness. All parts count the same characters."""

    prose: str
    """the text with its marks of citation blanked out"""
    cited: list[Cited]
    """by their start"""
    sentences: list[int]
    """where sentences end; a paragraph ends its sentence"""
    paragraphs: list[int]


def claims(
    text: str, given: Iterable[Cited], sources: Sources, where: Callable[[int], str]
) -> Iterator[Claimed]:
    """What a text in Markdown claims: its quotations, then sentences that cite without quoting.

    `given` are citations and `sources` numbered sources known from elsewhere than the text;
    `where` words an offset.
    """
    visible = _masked(text)
    given = list(given)
    rest = _blank(visible, [(each.start, each.end) for each in given])
    cited = sorted([*given, *_citations(rest, text, sources)], key=lambda each: each.start)
    reading = _read(visible, cited)
    used: set[Cited] = set()
    for start, end, quoted in _quotations(visible, reading.prose):
        named = _named(reading, start, end, visible[start:end].lstrip().startswith(">"))
        used.update(named)
        for source in named or [Cited(start, end)]:
            yield _claimed(quoted, source, where(start))
    for source in dict.fromkeys(cited):
        if source not in used:
            yield _claimed(_sentence(reading, source), source, where(source.start), False)


def _read(visible: str, cited: list[Cited]) -> _Reading:
    marks = [_bracketed(visible, each) for each in cited if _is_mark(visible, each)]
    prose = _blank(visible, marks)
    paragraphs = [found.end() for found in PARAGRAPH_END.finditer(prose)]
    sentences = {found.end() for found in SENTENCE_END.finditer(prose)}
    return _Reading(prose, cited, sorted(sentences.union(paragraphs)), paragraphs)


def _claimed(text: str, source: Cited, where: str, quoted: bool = True) -> Claimed:
    return Claimed(_plain(text), source.url, source.title, where, quoted, source.problem)


def _masked(text: str) -> str:
    """The text with code and lists of sources blanked out, every other character in its place."""
    spans = [found.span() for found in FENCE.finditer(text)]
    return _blank(text, [*spans, *(span for span, _ in _definitions(text))])


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    out, done = [], 0
    for start, end in sorted(spans):
        if end > done:
            start = max(start, done)
            out += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
            done = end
    return "".join([*out, text[done:]])


def _definitions(text: str) -> Iterator[tuple[tuple[int, int], tuple[str, str, str]]]:
    """Lines such as `[1]: https://…`, `[^1]: Title, https://…`, `[1] Title — docs/report.pdf`, and
    numbered lists of sources."""
    lines = [(found, found[3], found[2]) for found in DEFINITION.finditer(text)]
    done = 0
    while heading := SOURCES.search(text, done):
        after = HEADING.search(text, heading.end())
        done = after.start() if after else len(text)
        lines += [(found, found[2], "") for found in LISTED.finditer(text, heading.end(), done)]
    for found, rest, colon in lines:
        link, bare = LINK.search(rest), URL.search(rest)
        if link or bare:
            url = link[3] if link else bare[0] if bare else ""
            title = link[1] if link else rest.replace(url, "").strip(' \t-–—:,.<>()"“”')
            yield found.span(), (found[1] or "", url, title)
        elif colon and len(rest.split()) == 1:
            yield found.span(), (found[1], rest.strip("<>"), "")
        elif named := _named_file(rest):
            yield found.span(), (found[1] or "", *named)


def _named_file(entry: str) -> tuple[str, str] | None:
    """The file that an entry of a list of sources names and its title; None where it names none."""
    parts = [part.strip(' \t<>()*`"“”.,') for part in APART.split(entry)]
    for number in (-1, 0):
        name = parts[number].partition("#")[0]
        if FILE_NAME.search(name):
            path = re.search(r"\S*/.*", name)
            title = parts[:-1] if number else parts[1:]
            before = name[: path.start()].strip() if path else ""
            return (path[0] if path else name), " ".join(filter(None, [*title, before]))
    return None


def _citations(visible: str, text: str, sources: Sources) -> Iterator[Cited]:
    """Links, numbers, footnotes and bare addresses in the text, in this order of preference."""
    sources = {**sources, **{name: (url, title) for _, (name, url, title) in _definitions(text)}}
    links = [found for found in LINK.finditer(visible) if not found[3].startswith(("#", "mailto:"))]
    for found in links:
        yield Cited(found.start(), found.end(), found[3], found[4] or _plain(found[1]))
    rest = _blank(visible, [found.span() for found in links])
    for found in sorted([*REFERENCE.finditer(rest), *CURSOR.finditer(rest)], key=re.Match.start):
        for name in re.findall(r"\w+", found[2] or found[1]):
            if name in sources:
                yield Cited(*found.span(), *sources[name])
            elif name.isdecimal() and len(name) < 4:
                problem = f"cites [{name}], for which the file names no source"
                yield Cited(*found.span(), problem=problem)
    for found in URL.finditer(rest):
        yield Cited(*found.span(), found[0])


def _is_mark(text: str, cited: Cited) -> bool:
    """Whether the citation is a mark such as `[1]`, and not words of the sentence."""
    span = text[cited.start : cited.end].strip()
    link = LINK.fullmatch(span)
    if link and text[max(cited.start - 1, 0) : cited.start] not in ("(", "["):
        return SOURCE_NAME.fullmatch(link[1]) is not None
    return not span or span.startswith(("(", "[", "【", "http", "\ue200"))


def _bracketed(text: str, cited: Cited) -> tuple[int, int]:
    start, end = cited.start, cited.end
    if start < end:
        start -= text[max(start - 1, 0) : start] in ("(", "[", "<")
        end += text[end : end + 1] in (")", "]", ">")
    return start, end


def _quotations(visible: str, prose: str) -> Iterator[tuple[int, int, str]]:
    """Block quotes, and strings in quotation marks outside of them, where they are long enough."""
    blocks = [found.span() for found in BLOCK_QUOTE.finditer(visible)]
    found = [(start, end, _block_text(prose[start:end])) for start, end in blocks]
    targets = [link.span(2) for link in LINK.finditer(visible)]
    for quote in QUOTATION.finditer(_blank(visible, [*blocks, *targets])):
        inside = slice(*quote.span(quote.lastindex or 0))
        found.append((*quote.span(), visible[inside]))
    return (each for each in sorted(found) if _is_long(_plain(each[2])))


def _block_text(block: str) -> str:
    lines = [re.sub(r"^[ \t]*>[ \t>]?", "", line) for line in block.split("\n")]
    while lines and (not lines[-1].strip() or (len(lines) > 1 and ATTRIBUTION.match(lines[-1]))):
        lines.pop()
    said = "\n".join(lines).strip()
    whole = QUOTATION.fullmatch(said)
    return whole[whole.lastindex or 0] if whole else said


def _is_long(quoted: str) -> bool:
    words, letters = WORD.findall(quoted), UNSPACED.findall(quoted)
    return len(words) >= QUOTED_WORDS or len(letters) >= QUOTED_LETTERS


def _plain(text: str) -> str:
    """Markdown's marks taken off: links, emphasis, escapes, numbers, signs of a block quote."""
    text = LINK.sub(lambda found: "" if REFERENCE.fullmatch(found[1]) else found[1], text)
    text = re.sub(r"(?m)^[ \t]*>[ \t]?", "", text)
    text = EMPHASIS.sub(r"\2", EMPHASIS.sub(r"\2", text))
    return " ".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).split())


def _named(reading: _Reading, start: int, end: int, block: bool) -> list[Cited]:
    """The sources of the quotation at [start:end]: those that hold it or stand in it, else the
    nearest after it and then before it, in its sentence and then in its paragraph, else none.

    A block quote looks one paragraph further: to `As X says:` before it, or to a source below.
    """
    at = bisect_left(reading.cited, start, key=lambda each: each.start)
    near = reading.cited[max(at - NEAR, 0) : at + NEAR]
    if holding := [each for each in near if each.start < end and each.end > start]:
        return holding
    after = [each for each in near if each.start >= end]
    before = [each for each in near if each.end <= start][::-1]
    if block:
        announced = reading.prose[max(start - NEAR, 0) : start].rstrip().endswith(":")
        tries = [(before, reading.paragraphs, 2), (after, reading.paragraphs, 1)]
        tries = tries if announced else tries[::-1]
    else:
        both = (reading.sentences, reading.paragraphs)
        tries = [(side, breaks, 0) for breaks in both for side in (after, before)]
    for side, breaks, reach in tries:
        if side and _between(breaks, (start, end), side[0]) <= reach:
            return _together(side)
    return []


def _between(breaks: list[int], quotation: tuple[int, int], cited: Cited) -> int:
    start, end = quotation
    low, high = (end, cited.start) if cited.start >= end else (cited.end, start)
    return bisect_right(breaks, high) - bisect_right(breaks, low)


def _together(cited: list[Cited]) -> list[Cited]:
    """The first, which is the nearest, and those that stand right beside it, as in `[1][2]`."""
    group = cited[:1]
    for each in cited[1:]:
        last = group[-1]
        if max(each.start, last.start) - min(each.end, last.end) > 2:
            break
        group.append(each)
    return sorted(group, key=lambda each: each.start)


def _sentence(reading: _Reading, cited: Cited) -> str:
    """The sentence that a mark stands in or follows; the words themselves where it is on words."""
    prose, sentences = reading.prose, reading.sentences
    held = prose[cited.start : cited.end].strip()
    if held and not LINK.fullmatch(held):
        return held
    before = bisect_right(reading.paragraphs, cited.start)
    low = max(reading.paragraphs[before - 1] if before else 0, cited.start - SENTENCE)
    inside = cited.start if held else low + max(len(prose[low : cited.start].rstrip()) - 1, 0)
    at = bisect_right(sentences, inside)
    start = max(sentences[at - 1] if at else 0, inside - SENTENCE)
    end = min(sentences[at] if at < len(sentences) else len(prose), inside + SENTENCE)
    return re.sub(r"(?<=\S)[ \t]+(?=[.,;:!?](?:\s|\Z))", "", prose[start:end].strip())
