"""Reading the text of an answer: what it quotes, and from which source.

Found are the strings in quotation marks and the block quotes that a reader of the rendered Markdown
sees, each attributed to the nearest source that the text cites. No source is opened:
`quotes.verification` checks the strings.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from rookery.pages.file_selection import DOCUMENT_READERS, READER_OF_ENDING
from rookery.pages.markdown_text import MarkdownView, view_markdown
from rookery.quotes.answer_types import contains_negation
from rookery.records import Record

CHECKED_WORDS = 4
"""fewest words between quotation marks that need a source; fewer may be a term or a title"""
QUOTED_WORDS = 3
"""fewest words that are checked beside a source, and named where they are not checked"""
QUOTED_LETTERS = 6
"""the same in letters of Chinese, Japanese and Korean, which set no spaces between words"""
NEARBY_CITATIONS = 20
"""citations to either side of a quotation that are looked at"""
MAX_SENTENCE_REACH = 500
"""characters to either side of a mark at which its sentence is cut"""
MAX_SINGLE_QUOTED = 1000
"""characters behind a single mark in which an apostrophe is told from the mark that closes"""
MAX_ATTRIBUTION = 300
"""characters at the end of a block quote that may name its source"""

SourcesByName = Mapping[str, tuple[str, str]]
"""URL and title of each source, by the number or name that stands for it"""
Span = tuple[int, int]
NamedSpan = tuple[int, int, str]

OPENING = re.compile(
    r"[“„«「『]|(?<!\w)[\"”»‘‚‹›](?=\S)"
    r"|(?<!\w)['’](?=\S)(?!\d|(?i:tis|twas|em|n|til|cause|round)\b)"
)
PAIRED = {marks[0]: re.compile(f"[{marks}]") for marks in "“” „“” «» 「」 『』".split()}
"""marks that only open, and these with what closes them"""
CLOSING = {
    marks[0]: re.compile(rf"(?<=\S)[{marks[1:]}](?!\w)")
    for marks in '"" ”” »«» ‘’ \'\' ’’ ‚‘’ ‹› ›‹› ““"'.split()
}
"""what closes a quotation, at the end of a word, by the mark that opened it at a word's start"""
WRONG_CLOSING = {'"': re.compile(r"(?<=\S)[”“„»«](?!\w)"), "'": re.compile(r"(?<=\S)[’‘‚](?!\w)")}
"""the same where the paragraph does not close it so"""
OTHER_MARKS = str.maketrans("＂״″＇❝❞🙶🙷❛`❜´‟‛〝〞〟｢｣﹁﹂﹃﹄", '"""\'“”“”‘‘’’“‘“””「」「」『』')
"""quotation marks that are written more often in another way, which is read in their place"""
DOUBLED = re.compile(r"(?<!\w)(?P<open>''|‘‘|’’|,,|<<)(?=\S)|(?<=\S)(?:''|’’|>>)(?!\w)")
"""two marks that are typed for one"""
SPACED = re.compile(r"""(?<![^\s(])(["'])([ \n])((?:(?!\1)[^“”]){1,1000}?)([ \n]?)\1(?!\w)""")
"""words between marks that spaces set apart from them"""
MARK_IN_CODE = str.maketrans(dict.fromkeys("\"'“”„«»‹›‘’‚「」『』", "x"))
POSSESSIVE = re.compile(r"(?<=s)['’] (?=\w)")
WORD = re.compile(r"\w[\w'’-]*")
NAME_WORD = re.compile(r"\w(?=\w)(?![\w-]+\.\w)[\w'’-]*")
"""word of a name, and no single letter, domain or file"""
UNSPACED_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
SENTENCE_END = re.compile(r"[.!?…][\"'”’»)]*\s+(?=\W{0,20}\w)|[。！？][”」』]*")
BESIDE = " \t([<"
"""what may stand between a quotation and the source that belongs to it and to no other"""
NAMELESS = re.compile(r"\W*(?:sources?\W*)?", re.IGNORECASE)
"""what may stand beside a source in a last line that no dash or bracket sets apart"""
CALLOUT = re.compile(r"\[!(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]")
LEAD = re.compile(
    r"(?:\n|\s[—–―~-]{1,2}\s|\s?[(\[【<]|\s(?=\^|https?://)|(?<=[.!?…”\"»)])\s?(?=\d))[\s—–―~-]*"
)
"""what may stand before the name of a source at the end of a block quote"""
SMALL_WORDS = frozenset(
    "a al and at by de der et for from in of on p page pp source sources the und van via von vol "
    "see link here accessed retrieved".split()
)

_JOINT = "(?:[,;–-]|\\] ?[–-] ?\\[|,? and| &) ?"
RANGE = re.compile(r"\b(\d{1,3})\]? ?[–-] ?\[?\^?(\d{1,3})\b")
LINKED_RANGE = re.compile(r"\[?([0-9]{1,3})\]{0,2} ?[–-] ?\[{0,2}([0-9]{1,3})\]?")
MARK = re.compile(
    rf"[\[［〔]\^?\d{{1,3}}(?:{_JOINT}\^?\d{{1,3}})*[\]］〕]|\^\w{{1,20}}|【[^】\n]*】"
    r"|[(\[](?:[\w-]+\.)+[a-z]{2,}(?:/\S*)?[)\]]"
)
"""citations that a reader tells from the words beside them, even inside quotation marks"""
BIDI_CONTROL = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""an embedding, override or isolate of text direction, which can show words in another order"""
SOURCES_END = re.compile(r"[^\S\n]*(?:[.;)\n]|\Z)")
JOINED = re.compile(
    r"[\s,;&/]*(?:and|und|et|y|e|en|also|see also|as well as)?[\s,;&/]*|[^\w()]{0,2}", re.IGNORECASE
)
"""what stands between sources that are given together"""
URL = re.compile(r"(?i:https?|file)://[^\s<>\"'\[\]()】]*[^\s<>\"'\[\]()】.,;:!?*_]")
SOURCE_ADDRESS = re.compile(r"(?:https?|file)://\S|(?![a-z][\w+.-]*:|#|//)\S", re.IGNORECASE)
FILE_ENDINGS = (
    *(
        ending
        for ending, reader in READER_OF_ENDING.items()
        if reader in DOCUMENT_READERS | {"html"}
    ),
    *"doc rtf txt text tex md markdown rst csv tsv json jsonl log xml srt vtt yaml yml".split(),
)
FILE_NAME = re.compile(rf"(?i)[^/]\.(?:{'|'.join(FILE_ENDINGS)})\Z")
"""a name of a document in a list of sources"""
REFERENCE = re.compile(
    rf"[\[［〔](\^?\w{{1,20}}(?:{_JOINT}\^?\w{{1,20}})*)[\]］〕]|【(\d{{1,3}})[^】\n]{{0,40}}】"
    r"|(?<![\w\]])[(\[](?i:sources?: ?)?([^][()\s,;:#]{1,200}\."
    rf"(?i:{'|'.join(FILE_ENDINGS)}))(?:[,;:#][^][()\n]{{0,40}})?[)\]]"
)
"""numbers or names of sources, or the name of a file, in brackets"""
CODED_NAME = re.compile(r"[\w./%-]+")
"""what may be such a name, written as code"""
APART = re.compile(r"\s[—–-]+\s|[:,;|(]\s|(?<=\w{4})\.\s(?=\S+\Z)|\s[(]")
"""separators between a source's title and its address in a list of sources"""
DEFINITION = re.compile(r"(?m)^[ \t]*\[\^?(\w{1,20})\](:?)[ \t]+(\S.*)$")
LISTED = re.compile(r"(?m)^[ \t]*(\d{1,3})[.)]()[ \t]+(\S.*)$")
SOURCE_NAME = re.compile(r"\[?\^?\d{1,3}\]?|\^\w{1,20}|(?:[\w-]+\.)+\w{2,}")
SOURCES = re.compile(r"(?im)^[ \t]*(?:sources|references|citations|links|footnotes)\b.{0,20}$")


class ClaimedQuote(Record, frozen=True):
    """String that an answer gives as a source's words, and the source that it names."""

    text: str
    """as the reader of the rendered answer sees it, white space evened out: a line break where a
    block, a cell or a line ends, else a space"""
    url: str = ""
    """empty if no source is named by address"""
    title: str = ""
    where: str = ""
    """place in the file: line and column, or the path of a JSON value and an offset in it. A string
    with several sources is given once for each, with the same `where`, and stands if it stands in
    each of them"""
    quoted: bool = True
    """False for a sentence in the answer's own words that cites a source and need not stand in
    it"""
    problem: str = ""
    """one sentence, if the citation itself is broken"""
    unchecked: str = ""
    """one sentence, if this is a quotation that cannot be checked"""


class CitationSpan(Record, frozen=True):
    """Span [start, end) of an answer that names a source or rests on one."""

    start: int
    end: int
    url: str = ""
    title: str = ""
    problem: str = ""


def extract_claims(
    text: str,
    citations: Iterable[CitationSpan],
    sources: SourcesByName,
    where: Callable[[int], str],
    settled: Sequence[Span] = (),
    html: bool = False,
) -> Iterator[ClaimedQuote]:
    """Yield the quotations of a Markdown text, or with `html` of one in HTML, then its sentences
    that cite without quoting.

    `citations` are citations, with offsets into `text`, and `sources` numbered sources known from
    elsewhere than the text; `where` words an offset as a place in the file. Quotations of fewer
    than QUOTED_WORDS words are left out, and those in `settled` spans of the text; one with several
    sources is yielded once for each.
    """
    citations = list(citations)
    places = [at for each in citations for at in (each.start, each.end)]
    view = view_markdown(text, [*places, *(at for span in settled for at in span)], html)
    spans = ((view.from_source(start), view.from_source(end)) for start, end in settled)
    unsettled = _blank_spans(view.text, spans)
    known_spans = [
        CitationSpan(view.from_source(start), view.from_source(end), *source)
        for start, end, *source in map(msgspec.structs.astuple, citations)
    ]
    reading = _parse_text(view, known_spans, sources)
    used: set[CitationSpan] = set()
    for quotation in _find_quotations(reading):
        start, end = quotation.start, quotation.end
        place, words = where(view.to_source(start)), _read_words(reading, *quotation.words)
        if not _is_long(words, QUOTED_WORDS) or not unsettled[start:end].strip():
            continue
        used.update(each for each in _list_cited(reading.cited, start, end) if each.problem)
        named = [] if quotation.unchecked else _find_sources(reading, quotation)
        if not named and not quotation.unchecked and not _is_long(words, CHECKED_WORDS):
            quotation.unchecked = "it has three words, and no source is named beside it"
        used.update(named)
        for source in named or [CitationSpan(start, end)]:
            yield ClaimedQuote(
                words, source.url, source.title, place, True, source.problem, quotation.unchecked
            )
    for source in dict.fromkeys(reading.cited):
        if source not in used:
            words = _even_spaces(_extract_sentence(reading, source, source in known_spans))
            place = where(view.to_source(source.start))
            yield ClaimedQuote(words, source.url, source.title, place, False, source.problem)


class _ParsedText(msgspec.Struct, frozen=True):
    """Shown text prepared for attributing quotations. Offsets in all parts are the same."""

    shown: MarkdownView
    marks: str
    """the text with its quotation marks evened out"""
    prose: str
    """the text with its citation marks blanked out"""
    cited: list[CitationSpan]
    """citations by their start"""
    given: set[CitationSpan]
    """those that are known from elsewhere than the text"""
    sentences: list[int]
    """offsets at which sentences end; a paragraph ends its sentence"""
    definitions: list[Span]
    """lines that define sources"""
    controls: list[tuple[int, str]]
    """places of controls of text direction, and which is open behind each"""
    sources: SourcesByName


class _Quotation(msgspec.Struct):
    """A block quote or a string in quotation marks."""

    start: int
    end: int
    words: Span
    """what it quotes, without marks and the name of its source"""
    block: bool = False
    unchecked: str = ""


def _parse_text(
    view: MarkdownView, known_spans: list[CitationSpan], sources: SourcesByName
) -> _ParsedText:
    entries = list(_find_definitions(view))
    named = {name: (url, title) for _, name, url, title in reversed(entries)}
    named |= {name: (url, "") for name, url in view.definitions.items()}
    code = (span for span in view.elements["code"] if not CODED_NAME.fullmatch(view.text, *span))
    apart = [*(span for span, *_ in entries), *code]
    rest = _blank_spans(view.text, [*apart, *((each.start, each.end) for each in known_spans)])
    named = {**sources, **named}
    cited = [*known_spans, *_find_citations(rest, view.links, named)]
    cited.sort(key=lambda each: each.start)
    marks = [_include_brackets(view.text, each) for each in cited if _is_mark(view.text, each)]
    prose = _blank_spans(view.text, marks)
    sentences = {match.end() for match in SENTENCE_END.finditer(prose)}
    ends, lines = sorted(sentences.union(view.paragraphs)), sorted(span for span, *_ in entries)
    evened = view.text.translate(OTHER_MARKS)
    evened = DOUBLED.sub(lambda two: '\u200b"' if two["open"] else '"\u200b', evened)
    evened = SPACED.sub(r"\2\1\3\1\4", evened)
    controls = list_controls(view.text)
    return _ParsedText(view, evened, prose, cited, set(known_spans), ends, lines, controls, named)


def _even_spaces(text: str) -> str:
    return " ".join(text.split())


def _blank_spans(text: str, spans: Iterable[Span]) -> str:
    out, done = [], 0
    for start, end in sorted(spans):
        if end > done:
            start = max(start, done)
            out += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
            done = end
    return "".join([*out, text[done:]])


def _find_definitions(view: MarkdownView) -> Iterator[tuple[Span, str, str, str]]:
    """Yield the span of each shown line that defines a source, and the source's name, URL and
    title.

    Such lines are `[^1]: Title, https://…`, `[1] Title — docs/report.pdf`, and entries of numbered
    lists of sources.
    """
    text = _blank_spans(view.text, view.elements["code"] + view.elements["blockquote"])
    headings = [start for start, _ in view.elements["heading"]]
    items, starts = view.elements["item"], [start for start, _, _ in view.links]
    defined, position = list(DEFINITION.finditer(text)), 0
    entries: list[tuple[Span, str, str, int]] = []
    while heading := SOURCES.search(text, position):
        after = bisect_left(headings, heading.end())
        position = headings[after] if after < len(headings) else len(text)
        defined += LISTED.finditer(text, heading.end(), position)
        low, high = (bisect_left(items, (at, 0)) for at in (heading.end(), position))
        entries += [(item, "", "", item[0]) for item in items[low:high]]
    entries += [(match.span(), match[1], match[2], match.start(3)) for match in defined]
    for (start, end), name, colon, begun in entries:
        rest, at = view.text[begun:end], bisect_left(starts, begun)
        links = [each for each in view.links[at : at + 1] if each[0] < end]
        if links and SOURCE_ADDRESS.match(links[0][2]):
            yield (start, end), name, links[0][2], _even_spaces(text[slice(*links[0][:2])])
        elif bare := URL.search(rest):
            title = rest.replace(bare[0], "").strip(' \t-–—:,.<>()"“”')
            yield (start, end), name, bare[0], title
        elif colon and len(rest.split()) == 1:
            yield (start, end), name, rest.strip("<>"), ""
        elif entry := _parse_file_entry(rest):
            yield (start, end), name, *entry


def _parse_file_entry(entry: str) -> tuple[str, str] | None:
    """Return the file and title that an entry of a list of sources names; None if it names none."""
    if name := next(filter(FILE_NAME.search, entry.split(" · ")[1:]), ""):
        return "", name  # as reports of Rookery name a file, without its folder
    parts = [part.strip(' \t<>()*`"“”.,') for part in APART.split(entry)]
    for number in (-1, 0):
        name = parts[number].partition("#")[0]
        if FILE_NAME.search(name):
            path = re.search(r"\S*/.*", name)
            title = parts[:-1] if number else parts[1:]
            before = name[: path.start()].strip() if path else ""
            return (path[0] if path else name), " ".join(filter(None, [*title, before]))
    return None


def _find_citations(
    text: str, links: list[NamedSpan], sources: SourcesByName
) -> Iterator[CitationSpan]:
    """Yield links, numbers, footnotes and bare addresses in the text, in this order of preference.

    What is blank in the text cites nothing.
    """
    for start, end, url in links:
        if (words := _even_spaces(text[start:end])) and SOURCE_ADDRESS.match(url):
            yield CitationSpan(start, end, url, words.strip("[]^0123456789"))
    rest = _blank_spans(text, [(start, end) for start, end, _ in links])
    marks = [(*mark.span(), mark.group(mark.lastindex or 0)) for mark in REFERENCE.finditer(rest)]
    for start, end, written in [*marks, *_find_linked_ranges(text, links)]:
        is_file = "." in written
        names = [written] if is_file else re.findall(r"\w+", RANGE.sub(_list_range, written))
        for name in dict.fromkeys(names):
            if source := (name, "") if is_file else sources.get(name) or sources.get(name.upper()):
                yield CitationSpan(start, end, *source)
            elif name.isdecimal() and len(name) < 4:
                problem = f"cites [{name}], for which the file names no source"
                yield CitationSpan(start, end, problem=problem)
    yield from (CitationSpan(*match.span(), match[0]) for match in URL.finditer(rest))


def _find_linked_ranges(text: str, links: Iterable[NamedSpan]) -> Iterator[NamedSpan]:
    """Yield the spans of ranges whose ends are links, [1]–[3], and what is between, as a range."""
    for (first, *_), (start, last, _) in pairwise(links):
        ends = LINKED_RANGE.fullmatch(text, first, last)
        if ends and (low := int(ends[1]) + 1) <= (high := int(ends[2]) - 1):
            yield start, last, f"{low}-{high}"


def _list_range(ends: re.Match[str]) -> str:
    """Return the numbers of a range of sources, its ends first: `1-3` as `1,3,2`."""
    low, high = int(ends[1]), min(int(ends[2]), int(ends[1]) + 50)  # which bounds the time
    return ",".join([*ends.groups(), *map(str, range(low + 1, high))])


def _is_mark(text: str, cited: CitationSpan) -> bool:
    """Return True if the citation is a mark such as `[1]`, and not words of the sentence."""
    span = text[cited.start : cited.end].strip()
    if not span or SOURCE_NAME.fullmatch(span) or text[cited.start - 1 : cited.start] in ("(", "["):
        return True
    return span.startswith(("(", "[", "［", "〔", "【", "http", "\ue200"))


def _include_brackets(text: str, cited: CitationSpan) -> Span:
    start, end = cited.start, cited.end
    opened = start < end and text[max(start - 1, 0) : start] in ("(", "[", "<")
    return start - opened, end + (start < end and text[end : end + 1] in (")", "]", ">"))


def _find_marks(reading: _ParsedText, start: int, end: int) -> Iterator[tuple[CitationSpan, Span]]:
    """Yield the citations in a quotation that its reader tells from its words, and their spans.

    A number behind a number is none: raised, it may be an exponent.
    """
    text = reading.shown.text
    for each in _list_cited(reading.cited, start, end):
        low, high = _include_brackets(text, each)
        is_mark = not each.problem and start <= low and high <= end
        if is_mark and MARK.fullmatch(text, low, high) and not text[low - 1 : low].isdigit():
            yield each, (low, high)


def _list_cited(cited: list[CitationSpan], start: int, end: int) -> list[CitationSpan]:
    """Return the citations that begin in [start, end)."""
    first, last = (bisect_left(cited, at, key=lambda each: each.start) for at in (start, end))
    return cited[first:last]


def _read_words(reading: _ParsedText, start: int, end: int) -> str:
    """Return the words of a quotation without the marks of citations among them."""
    spans = [(low - start, high - start) for _, (low, high) in _find_marks(reading, start, end)]
    words, breaks = _blank_spans(reading.shown.text[start:end], spans), reading.shown.breaks
    inside = (at - start for at in breaks[bisect_left(breaks, start) : bisect_left(breaks, end)])
    parts = (_even_spaces(words[a:b]) for a, b in pairwise([0, *inside, end - start]))
    lines = _find_open_control(reading, start) + "\n".join(filter(None, parts))
    return re.sub(r" (?=[.,;:!?…])", "", lines) if spans else lines


def list_controls(text: str) -> list[tuple[int, str]]:
    """Return the place of each control of text direction, and the innermost one that is open
    behind it; empty where none is."""
    opened, controls = list[str](), list[tuple[int, str]]()
    for control in BIDI_CONTROL.finditer(text):
        if control[0] not in "\u202c\u2069":
            opened.append(control[0])
        elif opened:
            opened.pop()
        controls.append((control.start(), "".join(opened[-1:])))
    return controls


def _find_open_control(reading: _ParsedText, at: int) -> str:
    """Return the control of text direction that is open at a place; its paragraph closes it."""
    paragraphs, number = reading.shown.paragraphs, bisect_left(reading.controls, (at, "")) - 1
    begun = paragraphs[bisect_right(paragraphs, at) - 1] if paragraphs else 0
    place, control = reading.controls[number] if number >= 0 else (-1, "")
    return control if place >= begun else ""


def _is_long(quoted: str, words: int) -> bool:
    letters = UNSPACED_LETTER.findall(quoted)
    return len(WORD.findall(quoted)) >= words or len(letters) >= QUOTED_LETTERS


def _find_quotations(reading: _ParsedText) -> list[_Quotation]:
    """Return block quotes and strings in quotation marks, in order."""
    text, elements = reading.marks, reading.shown.elements
    outer = _drop_inner(elements["blockquote"])
    blocks = [each for each in outer if not CALLOUT.match(text, each[0])]
    quotations = [_Quotation(*each, _trim_block(reading, *each), True) for each in blocks]
    code, prose = _drop_inner(elements["code"]), _blank_spans(text, blocks)
    parts = [
        prose[a:b] for a, b in pairwise([0, *(at for span in code for at in span), len(prose)])
    ]
    parts[1::2] = [part.translate(MARK_IN_CODE) for part in parts[1::2]]
    for start, end in _pair_marks("".join(parts), reading.shown.paragraphs):
        quotation = _Quotation(start, end, (start + 1, end - CLOSES.count(text[end - 1])))
        at = bisect_right(reading.definitions, (start, len(text))) - 1
        if at >= 0 and start < reading.definitions[at][1]:
            quotation.unchecked = "it stands in a list of sources"
        quotations.append(quotation)
    for low, high in code:
        for start, end in _pair_marks(prose[low:high], []):
            words = low + start + 1, low + end - 1
            quotations.append(_Quotation(low + start, low + end, words, False, "it stands in code"))
    return sorted(quotations, key=lambda each: each.start)


def _drop_inner(spans: Iterable[Span]) -> list[Span]:
    """Return the spans that lie in no other."""
    outer: list[Span] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not outer or end > outer[-1][1]:
            outer.append((start, end))
    return outer


def _pair_marks(text: str, paragraphs: list[int]) -> Iterator[Span]:
    """Yield the outermost strings in quotation marks, with their marks.

    What opens and is never closed reaches to the end of its paragraph.
    """
    at, bounds = 0, [*paragraphs, len(text)]
    hopeless: set[tuple[str, int]] = set()
    while opening := OPENING.search(text, at):
        mark, at = opening[0], opening.end()
        end = bounds[bisect_right(bounds, opening.start())]
        if (mark, end) not in hopeless and (close := _find_closing(text, mark, at, end)):
            yield opening.start(), close
            at = close
        else:
            hopeless.add((mark, end))


def _find_closing(text: str, mark: str, at: int, end: int) -> int:
    """Return the offset behind what closes a quotation opened before `at`; 0 if nothing does."""
    if mark in "'‘’":
        far = min(end, at + MAX_SINGLE_QUOTED)
        again = re.compile(rf"(?<!\w){mark}(?=\w)").search(text, at, far)
        closing = CLOSING[mark].finditer(text, at, again.start() if again else far)
        ends = [each.end() for each in closing]
        if whole := [each for each in ends if not POSSESSIVE.match(text, each - 1)] or ends[-1:]:
            return whole[0]
    if mark not in PAIRED:
        wrong = WRONG_CLOSING.get(mark, CLOSING[mark])
        late = CLOSING[mark].search(text, at, end) or wrong.search(text, at, end)
        return late.end() if late else end * (mark == '"' and text[at].isalpha())
    depth, last = 1, 0
    for match in PAIRED[mark].finditer(text, at, end):
        depth += 1 if match[0] == mark else -1
        last = match.end() if match[0] != mark else last
        if not depth:
            break
    if last or mark == "«":  # which alone is a sign between the parts of a title
        return last
    late = CLOSING[mark].search(text, at, end) if mark == "“" else None
    following = late or PAIRED[mark].search(text, end)
    return following.end() if following and (late or following[0] != mark) else end


CLOSES = "”“»«」』\"'’‘‹›"


def _trim_block(reading: _ParsedText, start: int, end: int) -> Span:
    """Return the span of a block quote's words: without its source's name at the end, and without
    quotation marks round the whole."""
    text = reading.marks
    low = max(start, end - MAX_ATTRIBUTION)
    cited = _list_cited(reading.cited, start, end)
    if cited and not text[cited[-1].end : end].strip(" \n.)]"):
        quoted = text[start : cited[-1].start].rstrip(" \n—–~-([")
        end = start + len(quoted) if _is_in_marks(quoted) else end
    for lead in LEAD.finditer(text, low, end):
        if _names_source(reading, lead.start(), lead.end(), end):
            end = lead.start()
            break
    end = start + len(text[start:end].rstrip())
    whole = _is_in_marks(text[start:end])
    return start + whole, end - whole


def _is_in_marks(text: str) -> bool:
    """Return whether one pair of quotation marks stands round the whole text."""
    return [*_pair_marks(text, [])] == [(0, len(text))] and text[-1] in CLOSES


def _names_source(reading: _ParsedText, lead: int, start: int, end: int) -> bool:
    """Return True if text[start:end] behind a lead cites, and reads like the name of a source."""
    cited = _list_cited(reading.cited, start, end)
    name, before = reading.shown.text[start:end], reading.shown.text[max(lead - 1, 0) : start]
    rest = _blank_spans(name, [(each.start - start, each.end - start) for each in cited])
    if not cited or not any(map(str.isalpha, name)):
        marked = re.search(r"[\[^\n]|\A[.!?…”\"»)]", before + name)
        return bool(cited and marked) and not any(map(str.isdigit, rest))
    breaks = reading.shown.breaks
    is_same_line = bisect_left(breaks, lead) == bisect_left(breaks, start)
    if is_same_line and before[1:].isspace() and not NAMELESS.fullmatch(rest):
        return False
    titles = [reading.shown.text[each.start : each.end] for each in cited]
    words = NAME_WORD.findall(" ".join([rest, *(" ".join(each.split()[:1]) for each in titles)]))
    short = [rest, *(each for each in titles if each.count(" ") < CHECKED_WORDS)]
    named = all(not word[0].islower() or word.lower() in SMALL_WORDS for word in words)
    return named and not any(map(contains_negation, short))


def _find_sources(reading: _ParsedText, quotation: _Quotation) -> list[CitationSpan]:
    """Return the sources of a quotation.

    Those that hold it, follow its words in its block or are marked in it, else that of the footnote
    below whose first line it stands, else the nearest after it and then before it, in its sentence,
    else a link on some of its words, else the nearest in its paragraph, else none. A block quote
    looks one paragraph further: to a source below, or to `As X says:` before it.
    """
    start, end, (low, high) = quotation.start, quotation.end, quotation.words
    at = bisect_left(reading.cited, start, key=lambda each: each.start)
    near = reading.cited[max(at - NEARBY_CITATIONS, 0) : at + NEARBY_CITATIONS]
    inside = [each for each in near if each.start < end and each.end > start]
    marks = {each for each, _ in _find_marks(reading, low, high)}
    marks |= {each for each in inside if each.start <= low and each.end >= high}
    marks |= {each for each in inside if quotation.block and each.start >= high}
    if holding := [each for each in inside if each in marks or each in reading.given]:
        return holding
    at = bisect_right(reading.shown.notes, (start, len(reading.marks) + 1, ""))
    for _, stop, name in reading.shown.notes[max(at - 1, 0) : at]:
        if start < stop and name in reading.sources:
            return [CitationSpan(start, start, *reading.sources[name])]
    inside = [each for each in inside if not each.problem]
    after = [each for each in near if each.start >= end]
    before = [each for each in near if each.end <= start][::-1]
    paragraphs = reading.shown.paragraphs
    if quotation.block:
        announced = reading.prose[max(start - NEARBY_CITATIONS, 0) : start].rstrip().endswith(":")
        tries = [(after, paragraphs, 1), (before, paragraphs, 1)][:: -1 if announced else 1]
        tries = [*tries, (inside, [], 0)]
    else:
        touches = after and not reading.shown.text[end : after[0].start].strip(BESIDE)
        tries = [(side, reading.sentences, 0) for side in (after, before)]
        tries += [(inside, [], 0), (after, paragraphs, 0), (before, paragraphs, 0)]
        tries = [(after, [], 0)] if touches else tries
    for side, breaks, reach in tries:
        low, high = (min(end, side[0].end), max(start, side[0].start)) if side else (0, 0)
        if side and bisect_right(breaks, high) - bisect_right(breaks, low) <= reach:
            return _group_adjacent(reading.shown.text, side)
    return []


def _group_adjacent(text: str, cited: list[CitationSpan]) -> list[CitationSpan]:
    """Return the first citation, which is the nearest, and those given with it.

    As in `[1][2]`, `[1] and [2]`, `(Smith; Lee)`, two links that end a line or a sentence: not a
    link on words of the next sentence.
    """
    group = cited[:1]
    for each in cited[1:]:
        one, other = sorted((group[-1], each), key=lambda each: each.start)
        marks = _is_mark(text, one) and _is_mark(text, other)
        before = text[max(0, one.start - MAX_ATTRIBUTION) : one.start]
        inside = before.rfind("(") > before.rfind(")")
        gap = text[one.end : other.start]
        alone = not gap.strip(BESIDE) and (not gap or SOURCES_END.match(text, other.end))
        if not (marks or inside or alone) or not JOINED.fullmatch(gap):
            break
        group.append(each)
    return sorted(group, key=lambda each: each.start)


def _extract_sentence(reading: _ParsedText, cited: CitationSpan, is_known: bool) -> str:
    """Return the sentence that a mark stands in or follows; for a citation on words that is known
    from elsewhere than the text, those words."""
    prose, sentences, paragraphs = reading.prose, reading.sentences, reading.shown.paragraphs
    sentence = prose[cited.start : cited.end].strip()
    if sentence and is_known:
        return sentence
    before = bisect_right(paragraphs, cited.start)
    low = max(paragraphs[before - 1] if before else 0, cited.start - MAX_SENTENCE_REACH)
    inside = cited.start if sentence else low + max(len(prose[low : cited.start].rstrip()) - 1, 0)
    at = bisect_right(sentences, inside)
    start = max(sentences[at - 1] if at else 0, inside - MAX_SENTENCE_REACH)
    end = min(sentences[at] if at < len(sentences) else len(prose), inside + MAX_SENTENCE_REACH)
    return re.sub(r"(?<=\S)[ \t]+(?=[.,;:!?](?:\s|\Z))", "", prose[start:end].strip())
