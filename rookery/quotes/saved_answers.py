"""Reading saved answers: Rookery's own, and what other tools' answers claim to quote.

Reads OpenAI responses and chat completions, Perplexity's superset of these, Anthropic messages,
Gemini responses with grounding metadata, and Markdown. In text it finds strings in quotation marks
and block quotes, and attributes each to the nearest source that the text cites. It never opens a
source: `quotes.verification` checks the strings.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from rookery.records import Answer, Page, Quote, Record, prepare_type

QUOTED_WORDS = 4
"""fewest words between quotation marks; fewer are a term or a title, and stand on a page by
chance"""
QUOTED_LETTERS = 8
"""the same in letters of Chinese, Japanese and Korean, which set no spaces between words"""
NEARBY_CITATIONS = 20
"""citations to either side of a quotation that are looked at"""
MAX_SENTENCE_REACH = 500
"""characters to either side of a mark at which its sentence is cut"""

SourcesByName = Mapping[str, tuple[str, str]]
"""URL and title of each source, by the number or name that stands for it"""

QUOTATION = re.compile(
    r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」|『([^『』]+)』"
    r"|(?<![\w\"])\"(?=\S)([^\"\n]+(?:\n(?!\s*\n)[^\"\n]+)*)(?<=\S)\"(?!\w)"
)
WORD = re.compile(r"\w[\w'’-]*")
UNSPACED_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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
"""separators between a source's title and its address in a list of sources"""
DEFINITION = re.compile(r"(?m)^[ \t]*(?:[-*+][ \t]+)?\[\^?(\w{1,20})\](:?)[ \t]+(\S.*)$")
LISTED = re.compile(r"(?m)^[ \t]*(?:(\d{1,3})[.)]|[-*+])[ \t]+(\S.*)$")
SOURCE_NAME = re.compile(r"\[?\^?\d{1,3}\]?|(?:[\w-]+\.)+\w{2,}")
SOURCES = re.compile(r"(?im)^[#*_ \t]*(?:sources|references|citations|links|footnotes)\b.{0,20}$")
HEADING = re.compile(r"(?m)^#")
EMPHASIS = re.compile(r"(?<!\w)([*_]{1,3}|`{1,3})(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)", re.DOTALL)


class ClaimedQuote(Record, frozen=True):
    """String that an answer gives as a source's words, and the source that it names."""

    text: str
    url: str = ""
    """empty if no source is named by address"""
    title: str = ""
    where: str = ""
    """place in the file: a line, or the path of a JSON value. A string with several sources is
    given once for each, with the same `where`, and stands if it stands in one of them"""
    quoted: bool = True
    """False for a sentence in the answer's own words that cites a source and need not stand in
    it"""
    problem: str = ""
    """one sentence, if the citation itself is broken"""


class CitationSpan(Record, frozen=True):
    """Span [start, end) of an answer that names a source or rests on one."""

    start: int
    end: int
    url: str = ""
    title: str = ""
    problem: str = ""


class _ParsedText(msgspec.Struct, frozen=True):
    """Text prepared for attributing quotations. Offsets in all parts are the same."""

    prose: str
    """the text with its citation marks blanked out"""
    cited: list[CitationSpan]
    """citations by their start"""
    sentences: list[int]
    """offsets at which sentences end; a paragraph ends its sentence"""
    paragraphs: list[int]


def extract_claims(
    text: str,
    citations: Iterable[CitationSpan],
    sources: SourcesByName,
    where: Callable[[int], str],
) -> Iterator[ClaimedQuote]:
    """Yield the quotations of a Markdown text, then its sentences that cite without quoting.

    `citations` are citations and `sources` numbered sources known from elsewhere than the text;
    `where` words an offset as a place in the file.
    """
    visible = _mask_code(text)
    citations = list(citations)
    rest = _blank_spans(visible, [(each.start, each.end) for each in citations])
    cited = sorted([*citations, *_find_citations(rest, text, sources)], key=lambda each: each.start)
    reading = _parse_text(visible, cited)
    used: set[CitationSpan] = set()
    for start, end, quoted in _find_quotations(visible, reading.prose):
        named = _find_sources(reading, start, end, visible[start:end].lstrip().startswith(">"))
        used.update(named)
        for source in named or [CitationSpan(start, end)]:
            yield _make_claimed(quoted, source, where(start))
    for source in dict.fromkeys(cited):
        if source not in used:
            sentence = _extract_sentence(reading, source)
            yield _make_claimed(sentence, source, where(source.start), False)


def _parse_text(visible: str, cited: list[CitationSpan]) -> _ParsedText:
    marks = [_include_brackets(visible, each) for each in cited if _is_mark(visible, each)]
    prose = _blank_spans(visible, marks)
    paragraphs = [found.end() for found in PARAGRAPH_END.finditer(prose)]
    sentences = {found.end() for found in SENTENCE_END.finditer(prose)}
    return _ParsedText(prose, cited, sorted(sentences.union(paragraphs)), paragraphs)


def _make_claimed(text: str, source: CitationSpan, where: str, quoted: bool = True) -> ClaimedQuote:
    stripped = _strip_markdown(text)
    return ClaimedQuote(stripped, source.url, source.title, where, quoted, source.problem)


def _mask_code(text: str) -> str:
    """Return the text with code and lists of sources blanked out; offsets stay."""
    spans = [found.span() for found in FENCE.finditer(text)]
    return _blank_spans(text, [*spans, *(span for span, _ in _find_definitions(text))])


def _blank_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    out, done = [], 0
    for start, end in sorted(spans):
        if end > done:
            start = max(start, done)
            out += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
            done = end
    return "".join([*out, text[done:]])


def _find_definitions(text: str) -> Iterator[tuple[tuple[int, int], tuple[str, str, str]]]:
    """Yield the span of each line that defines a source, and the source's (name, URL, title).

    Such lines are `[1]: https://…`, `[^1]: Title, https://…`, `[1] Title — docs/report.pdf`, and
    entries of numbered lists of sources.
    """
    lines = [(match, match[3], match[2]) for match in DEFINITION.finditer(text)]
    position = 0
    while heading := SOURCES.search(text, position):
        after = HEADING.search(text, heading.end())
        position = after.start() if after else len(text)
        lines += [(match, match[2], "") for match in LISTED.finditer(text, heading.end(), position)]
    for match, rest, colon in lines:
        link, bare = LINK.search(rest), URL.search(rest)
        if link or bare:
            url = link[3] if link else bare[0] if bare else ""
            title = link[1] if link else rest.replace(url, "").strip(' \t-–—:,.<>()"“”')
            yield match.span(), (match[1] or "", url, title)
        elif colon and len(rest.split()) == 1:
            yield match.span(), (match[1], rest.strip("<>"), "")
        elif named := _parse_file_entry(rest):
            yield match.span(), (match[1] or "", *named)


def _parse_file_entry(entry: str) -> tuple[str, str] | None:
    """Return the file and title that an entry of a list of sources names; None if it names none."""
    parts = [part.strip(' \t<>()*`"“”.,') for part in APART.split(entry)]
    for number in (-1, 0):
        name = parts[number].partition("#")[0]
        if FILE_NAME.search(name):
            path = re.search(r"\S*/.*", name)
            title = parts[:-1] if number else parts[1:]
            before = name[: path.start()].strip() if path else ""
            return (path[0] if path else name), " ".join(filter(None, [*title, before]))
    return None


def _find_citations(visible: str, text: str, sources: SourcesByName) -> Iterator[CitationSpan]:
    """Yield links, numbers, footnotes and bare addresses in the text, in this order of
    preference."""
    defined = {name: (url, title) for _, (name, url, title) in _find_definitions(text)}
    sources = {**sources, **defined}
    links = [link for link in LINK.finditer(visible) if not link[3].startswith(("#", "mailto:"))]
    for link in links:
        yield CitationSpan(link.start(), link.end(), link[3], link[4] or _strip_markdown(link[1]))
    rest = _blank_spans(visible, [link.span() for link in links])
    for link in sorted([*REFERENCE.finditer(rest), *CURSOR.finditer(rest)], key=re.Match.start):
        for name in re.findall(r"\w+", link[2] or link[1]):
            if name in sources:
                yield CitationSpan(*link.span(), *sources[name])
            elif name.isdecimal() and len(name) < 4:
                problem = f"cites [{name}], for which the file names no source"
                yield CitationSpan(*link.span(), problem=problem)
    for link in URL.finditer(rest):
        yield CitationSpan(*link.span(), link[0])


def _is_mark(text: str, cited: CitationSpan) -> bool:
    """Return True if the citation is a mark such as `[1]`, and not words of the sentence."""
    span = text[cited.start : cited.end].strip()
    link = LINK.fullmatch(span)
    if link and text[max(cited.start - 1, 0) : cited.start] not in ("(", "["):
        return SOURCE_NAME.fullmatch(link[1]) is not None
    return not span or span.startswith(("(", "[", "【", "http", "\ue200"))


def _include_brackets(text: str, cited: CitationSpan) -> tuple[int, int]:
    start, end = cited.start, cited.end
    if start < end:
        start -= text[max(start - 1, 0) : start] in ("(", "[", "<")
        end += text[end : end + 1] in (")", "]", ">")
    return start, end


def _find_quotations(visible: str, prose: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, text) of block quotes and of strings in quotation marks that are long
    enough."""
    blocks = [found.span() for found in BLOCK_QUOTE.finditer(visible)]
    found = [(start, end, _extract_block_text(prose[start:end])) for start, end in blocks]
    targets = [link.span(2) for link in LINK.finditer(visible)]
    for quote in QUOTATION.finditer(_blank_spans(visible, [*blocks, *targets])):
        inside = slice(*quote.span(quote.lastindex or 0))
        found.append((*quote.span(), visible[inside]))
    return (each for each in sorted(found) if _is_long(_strip_markdown(each[2])))


def _extract_block_text(block: str) -> str:
    lines = [re.sub(r"^[ \t]*>[ \t>]?", "", line) for line in block.split("\n")]
    while lines and (not lines[-1].strip() or (len(lines) > 1 and ATTRIBUTION.match(lines[-1]))):
        lines.pop()
    said = "\n".join(lines).strip()
    whole = QUOTATION.fullmatch(said)
    return whole[whole.lastindex or 0] if whole else said


def _is_long(quoted: str) -> bool:
    words, letters = WORD.findall(quoted), UNSPACED_LETTER.findall(quoted)
    return len(words) >= QUOTED_WORDS or len(letters) >= QUOTED_LETTERS


def _strip_markdown(text: str) -> str:
    """Return the text without Markdown: links, emphasis, escapes, numbers, marks of a block
    quote."""
    text = LINK.sub(lambda found: "" if REFERENCE.fullmatch(found[1]) else found[1], text)
    text = re.sub(r"(?m)^[ \t]*>[ \t]?", "", text)
    text = EMPHASIS.sub(r"\2", EMPHASIS.sub(r"\2", text))
    return " ".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).split())


def _find_sources(reading: _ParsedText, start: int, end: int, block: bool) -> list[CitationSpan]:
    """Return the sources of the quotation at [start:end].

    Those that hold it or stand in it, else the nearest after it and then before it, in its sentence
    and then in its paragraph, else none. A block quote looks one paragraph further: to `As X says:`
    before it, or to a source below.
    """
    at = bisect_left(reading.cited, start, key=lambda each: each.start)
    near = reading.cited[max(at - NEARBY_CITATIONS, 0) : at + NEARBY_CITATIONS]
    if holding := [each for each in near if each.start < end and each.end > start]:
        return holding
    after = [each for each in near if each.start >= end]
    before = [each for each in near if each.end <= start][::-1]
    if block:
        announced = reading.prose[max(start - NEARBY_CITATIONS, 0) : start].rstrip().endswith(":")
        tries = [(before, reading.paragraphs, 2), (after, reading.paragraphs, 1)]
        tries = tries if announced else tries[::-1]
    else:
        readings = (reading.sentences, reading.paragraphs)
        tries = [(side, breaks, 0) for breaks in readings for side in (after, before)]
    for side, breaks, reach in tries:
        if side and _count_breaks(breaks, (start, end), side[0]) <= reach:
            return _group_adjacent(side)
    return []


def _count_breaks(breaks: list[int], quotation: tuple[int, int], cited: CitationSpan) -> int:
    start, end = quotation
    low, high = (end, cited.start) if cited.start >= end else (cited.end, start)
    return bisect_right(breaks, high) - bisect_right(breaks, low)


def _group_adjacent(cited: list[CitationSpan]) -> list[CitationSpan]:
    """Return the first citation, which is the nearest, and those right beside it, as in
    `[1][2]`."""
    group = cited[:1]
    for each in cited[1:]:
        last = group[-1]
        if max(each.start, last.start) - min(each.end, last.end) > 2:
            break
        group.append(each)
    return sorted(group, key=lambda each: each.start)


def _extract_sentence(reading: _ParsedText, cited: CitationSpan) -> str:
    """Return the sentence that a mark stands in or follows; for a citation on words, those
    words."""
    prose, sentences = reading.prose, reading.sentences
    sentence = prose[cited.start : cited.end].strip()
    if sentence and not LINK.fullmatch(sentence):
        return sentence
    before = bisect_right(reading.paragraphs, cited.start)
    low = max(reading.paragraphs[before - 1] if before else 0, cited.start - MAX_SENTENCE_REACH)
    inside = cited.start if sentence else low + max(len(prose[low : cited.start].rstrip()) - 1, 0)
    at = bisect_right(sentences, inside)
    start = max(sentences[at - 1] if at else 0, inside - MAX_SENTENCE_REACH)
    end = min(sentences[at] if at < len(sentences) else len(prose), inside + MAX_SENTENCE_REACH)
    return re.sub(r"(?<=\S)[ \t]+(?=[.,;:!?](?:\s|\Z))", "", prose[start:end].strip())


Json = Any
"""decoded JSON of unknown structure"""
T = TypeVar("T")

UNKNOWN_FORM = (
    "no answer of a known form; known are OpenAI responses and chat completions, Perplexity, "
    "Anthropic messages, Gemini, Markdown, and what rookery ask --json prints"
)


class SavedAnswer(Record, frozen=True):
    """One saved answer of Rookery."""

    answer: Answer | None
    """None if the question got no answer"""
    method: str = ""
    """method that wrote the answer's text; empty if the file does not say"""


def extract_claimed_quotes(data: bytes, name: str) -> list[ClaimedQuote]:
    """Return the strings that the file `name` with these contents claims to quote, in its order.

    Raises ValueError, with the line where there is one, for a file of no known form.
    """
    text = _decode_text(data, name)
    if not _is_json(text, name):
        ends = [quotes.start() for quotes in re.finditer("\n", text)]
        return list(extract_claims(text, [], {}, lambda at: f"line {bisect_left(ends, at) + 1}"))
    quotes: list[ClaimedQuote] = []
    for where, value in _parse_values(text, name):
        claimed = _read_message(value, where)
        if claimed is None:
            raise ValueError(f"{name}, {where}: {UNKNOWN_FORM}")
        quotes += claimed
    return quotes


def parse_saved_answers(data: bytes, name: str = "the file") -> list[SavedAnswer] | None:
    """Return the answers that Rookery wrote to a file; None if the file holds something else.

    One answer, a list, or one a line, bare or from `ask --json`. Raises ValueError, with the line,
    if the file begins as ours and is broken.
    """
    text = _decode_text(data, name)
    if not _is_json(text, name):
        return None
    answers: list[SavedAnswer] = []
    for number, (where, value) in enumerate(_parse_values(text, name)):
        if not _is_own_answer(value):
            if number:
                raise ValueError(f"{name}, {where}: not an answer of Rookery, unlike the others")
            return None
        answer = value.get("answer", value)
        whole = None if answer is None else _convert_answer(answer, f"{name}, {where}")
        answers.append(SavedAnswer(whole, _get_field(value, str, "method", "by")))
    return answers or None


def _decode_text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}, line {line}: not UTF-8; save the file as UTF-8") from error


def _is_json(text: str, name: str) -> bool:
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("json", "jsonl", "ndjson", "md", "markdown", "txt"):
        return suffix in ("json", "jsonl", "ndjson")
    return re.match(r"\s*(\{|\[\s*[{\[\"])", text) is not None


def _parse_values(text: str, name: str) -> Iterator[tuple[str, Json]]:
    """Yield the objects of a JSON file or of JSON lines, each with its place."""
    first, _, rest = text.lstrip().partition("\n")
    if rest.strip() and _is_complete_json(first):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _load_json(line, name, number)
        return
    value = _load_json(text, name, 1)
    if isinstance(value, list):
        yield from ((f"[{number}]", each) for number, each in enumerate(value))
    else:
        yield "the answer", value


def _is_complete_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _load_json(text: str, name: str, line: int) -> Json:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"{name}, line {line + error.lineno - 1}, column {error.colno}"
        raise ValueError(f"{at}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}, line {line}: JSON that cannot be read: {error}") from error


def _is_own_answer(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    return {"question", "answer", "stop"} <= value.keys() or {"text", "quotes"} <= value.keys()


def _convert_answer(value: Json, where: str) -> Answer:
    try:
        return msgspec.convert(value, prepare_type(Answer))
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: not a whole answer: {error}") from error


def _read_message(
    value: Json, where: str, sources: SourcesByName | None = None
) -> list[ClaimedQuote] | None:
    """Return the quotes that a JSON value of any known form claims; None for a value of no known
    form."""
    if not isinstance(value, dict):
        return None
    sources = _read_sources(value) or sources or {}
    if isinstance(value.get("parts"), list) or isinstance(value.get("candidates"), list):
        return list(_read_gemini(value, where))
    for key in ("choices", "output", "messages"):
        if isinstance(items := value.get(key), list):
            places = ((item, f"{where}.{key}[{n}]") for n, item in enumerate(items))
            read = [_read_message(item, place, sources) for item, place in places]
            return [claimed for part in read for claimed in part or ()]
    for key in ("message", "response", "result", "body"):
        if isinstance(inner := value.get(key), dict):
            return _read_message(inner, f"{where}.{key}", sources)
    content = value.get("content")
    if value.get("role") not in (None, "assistant") or (content is None and "role" in value):
        return []
    if isinstance(content, str):
        return _read_text_part({**value, "text": content}, where, sources)
    if not isinstance(content, list):
        return None
    if any(_get_field(part, str, "text") and "citations" in part for part in content):
        return list(_read_anthropic(content, where))
    parts = ((part, n) for n, part in enumerate(content) if _get_field(part, str, "text"))
    texts = [_read_text_part(part, f"{where}.content[{n}]", sources) for part, n in parts]
    return [claimed for text in texts for claimed in text]


def _read_text_part(
    part: dict[str, Json], where: str, sources: SourcesByName
) -> list[ClaimedQuote]:
    """Read a text with OpenAI's annotations, nested as in chat completions or flat as in
    responses."""
    text = part["text"]
    cited = [
        _read_annotation(_get_field(each, dict, "url_citation") or each, len(text))
        for each in _get_field(part, list, "annotations")
        if _get_field(each, str, "type") in ("url_citation", "file_citation")
    ]
    return list(extract_claims(text, cited, sources, lambda at: where))


def _read_annotation(citation: dict[str, Json], size: int) -> CitationSpan:
    start = citation.get("start_index", citation.get("index"))
    end = citation.get("end_index", start)
    url, title = _get_field(citation, str, "url"), _get_field(citation, str, "title", "filename")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= size:
        return CitationSpan(start, end, url, title)
    problem = f"the citation points at [{start}:{end}] of a text of {size} characters"
    return CitationSpan(size, size, url, title, problem)


def _read_anthropic(blocks: list[Json], where: str) -> Iterator[ClaimedQuote]:
    """Yield the `cited_text` of every citation, and the quotation marks in the cited blocks."""
    text, cited = "", []
    for number, block in enumerate(blocks):
        block_text = _get_field(block, str, "text")
        for index, citation in enumerate(
            _get_field(block, list, "citations") if block_text else []
        ):
            url = _get_field(citation, str, "url", "source")
            title = _get_field(citation, str, "title", "document_title")
            quoted = _get_field(citation, str, "cited_text")
            problem = "" if quoted else "the citation has no cited_text"
            at = f"{where}.content[{number}].citations[{index}]"
            yield ClaimedQuote(quoted, url, title, at, problem=problem)
            cited.append(CitationSpan(len(text), len(text) + len(block_text), url, title))
        text += block_text
    typed = extract_claims(text, cited, {}, lambda at: f"{where}.content")
    yield from (claimed for claimed in typed if claimed.quoted or claimed.problem)


def _read_gemini(response: dict[str, Json], where: str) -> Iterator[ClaimedQuote]:
    """Yield the quotes of a Gemini response, or of one content of it, with its grounding's
    citations."""
    if not isinstance(candidates := response.get("candidates"), list):
        yield from _read_gemini_candidate({"content": response}, where)
        return
    for number, candidate in enumerate(candidates):
        yield from _read_gemini_candidate(candidate, f"{where}.candidates[{number}]")


def _read_gemini_candidate(candidate: Json, where: str) -> Iterator[ClaimedQuote]:
    content = _get_field(candidate, dict, "content")
    if not isinstance(parts := content.get("parts"), list) or content.get("role") == "user":
        return
    texts = [
        "" if _get_field(part, bool, "thought") else _get_field(part, str, "text") for part in parts
    ]
    grounding = _get_field(candidate, dict, "groundingMetadata", "grounding_metadata")
    yield from extract_claims(
        "".join(texts), _read_grounding(grounding, texts), {}, lambda at: where
    )


def _read_grounding(metadata: Json, texts: list[str]) -> list[CitationSpan]:
    """Return the citations of grounding metadata, by their places in the joined texts.

    A segment names bytes of one part's UTF-8. If its text is not there, its first occurrence is
    taken; if it occurs nowhere, the citation is broken.
    """
    chunks = _get_field(metadata, list, "groundingChunks", "grounding_chunks")
    named = [
        _get_field(one, dict, "web", "retrievedContext", "retrieved_context", "maps")
        for one in chunks
    ]
    sources = [(_get_field(one, str, "uri"), _get_field(one, str, "title")) for one in named]
    size = len("".join(texts))
    cited = []
    for support in _get_field(metadata, list, "groundingSupports", "grounding_supports"):
        span = _find_segment_span(_get_field(support, dict, "segment"), texts)
        problem = "" if span else "the grounding points at no place of the text"
        start, end = span or (size, size)
        for number in _get_field(support, list, "groundingChunkIndices", "grounding_chunk_indices"):
            if isinstance(number, int) and 0 <= number < len(sources):
                cited.append(CitationSpan(start, end, *sources[number], problem))
            else:
                missing = f"cites grounding chunk {number}, and there are {len(sources)}"
                cited.append(CitationSpan(start, end, problem=missing))
    return cited


def _find_segment_span(segment: dict[str, Json], texts: list[str]) -> tuple[int, int] | None:
    names = ("part", "start", "end")
    part, start, end = (segment.get(f"{n}Index", segment.get(f"{n}_index")) or 0 for n in names)
    segment_text = _get_field(segment, str, "text")
    if all(isinstance(each, int) for each in (part, start, end)) and 0 <= part < len(texts):
        data = texts[part].encode("utf-8", "surrogatepass")
        pieces = (data[:start], data[start:end])
        before, inside = (piece.decode("utf-8", "replace") for piece in pieces)
        if 0 <= start < end <= len(data) and inside == (segment_text or inside):
            low = len("".join(texts[:part])) + len(before)
            return low, low + len(inside)
    at = "".join(texts).find(segment_text) if segment_text else -1
    return (at, at + len(segment_text)) if at >= 0 else None


def _read_sources(value: dict[str, Json]) -> SourcesByName:
    """Return Perplexity's lists of results, which a text cites by number."""
    sources: dict[str, tuple[str, str]] = {}
    for key in ("citations", "search_results"):
        for number, each in enumerate(_get_field(value, list, key), 1):
            url = each if isinstance(each, str) else _get_field(each, str, "url")
            if url:
                sources[str(number)] = (url, _get_field(each, str, "title"))
    return sources


def _get_field(value: Json, kind: type[T], *names: str) -> T:
    """Return the first of these fields that is of this kind and not empty, else an empty value."""
    fields = (value.get(name) for name in names) if isinstance(value, dict) else ()
    return next((field for field in fields if field and isinstance(field, kind)), kind())


class SourcePages(Protocol):
    """The stored pages that saved answers are checked against."""

    def find_version(self, quote: Quote) -> Page | None:
        """Return the version nearest to what a quote names, else another at its address.

        None if there is neither. `PageArchive.find_quoted` says which version is nearest.
        """

    def find_latest(self, url: str) -> Page | None:
        """Return the newest version at an address; None if there is none."""

    def find_named(self, claimed: ClaimedQuote) -> Iterable[Page]:
        """Yield the versions of the source that another tool names, newest first."""

    def explain_missing(self, claimed: ClaimedQuote) -> str:
        """Return a sentence on why there is no version of the source, and what to do."""
