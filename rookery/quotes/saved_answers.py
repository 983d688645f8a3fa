"""Reading saved answers: Rookery's own, and what other tools' answers claim to quote.

Reads OpenAI responses and chat completions, Perplexity's superset of these, Anthropic messages,
Gemini responses with grounding metadata, other JSON with one text, Markdown and HTML.
`quotes.answer_text` finds the quotations in a text.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from rookery.quotes.answer_text import CitationSpan, ClaimedQuote, SourcesByName, extract_claims
from rookery.records import Answer, Page, Quote, Record, convert_value

Json = Any
"""decoded JSON of unknown structure"""
T = TypeVar("T")

UNKNOWN_FORM = (
    "no answer of a known form; known are OpenAI responses and chat completions, Perplexity, "
    "Anthropic messages, Gemini, Markdown, HTML, what rookery ask --json prints, and JSON with one "
    "string named answer, response, output, text, content, result or message"
)
TEXT_FIELDS = ("answer", "response", "output", "text", "content", "result", "message")
"""fields of which any JSON object that is an answer has exactly one string"""
ADDRESS_FIELDS = ("url", "uri", "link", "href", "source", "path", "file", "filename")
HTML_START = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html)[\s>]", re.I | re.S)


class SavedAnswer(Record, frozen=True):
    """One saved answer of Rookery."""

    answer: Answer | None
    """None if the question got no answer"""
    method: str = ""
    """method that wrote the answer's text; empty if the file does not say"""


def extract_claimed_quotes(data: bytes, name: str) -> list[ClaimedQuote]:
    """Return the strings that the file `name` with these contents claims to quote, in its order.

    The ending of `name` tells JSON, HTML and Markdown apart, else the first characters do; any
    other text is Markdown. Raises ValueError, with the line where there is one, for JSON of no
    known form and for text that is not UTF-8.
    """
    text = _decode_text(data, name)
    if not _is_json(text, name):
        lines = [0, *(match.end() for match in re.finditer("\n", text))]

        def name_place(at: int) -> str:
            line = bisect_right(lines, at)
            return f"line {line}, column {at - lines[line - 1] + 1}"

        is_html = name.lower().endswith((".html", ".htm", ".xhtml")) or HTML_START.match(text)
        return list(extract_claims(text, [], {}, name_place, html=bool(is_html)))
    quotes: list[ClaimedQuote] = []
    for where, value in _parse_values(text, name):
        texts = list(filter(None, (_get_field(value, str, each) for each in TEXT_FIELDS)))
        claimed = _read_message(value, where)
        if claimed is None and len(texts) == 1:
            claimed = _read_text_parts([(where, {"text": texts[0]})], _read_sources(value))
        if claimed is None or len(texts) > 1:
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
        return convert_value(value, Answer)
    except ValueError as error:
        raise ValueError(f"{where}: not a whole answer: {error}") from error


def _read_message(
    value: Json, where: str, sources: SourcesByName | None = None
) -> list[ClaimedQuote] | None:
    """Return the quotes that a JSON value of any known form claims; None for a value of no known
    form."""
    if not isinstance(value, dict) or value.get("type") == "reasoning":  # which no reader sees
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
        return _read_text_parts([(where, {**value, "text": content})], sources)
    if not isinstance(content, list):
        return None
    if any(_get_field(part, str, "text") and "citations" in part for part in content):
        return list(_read_anthropic(content, where))
    placed = [(f"{where}.content[{n}]", part) for n, part in enumerate(content)]
    return _read_text_parts(placed, sources)


def _read_text_parts(parts: list[tuple[str, Json]], sources: SourcesByName) -> list[ClaimedQuote]:
    """Read the texts of parts, which are shown as one, with OpenAI's annotations, nested as in chat
    completions or flat as in responses."""
    text, cited, starts = "", list[CitationSpan](), list[tuple[int, str]]()
    for place, part in parts:
        own = _get_field(part, str, "text")
        cited += [
            _read_annotation(_get_field(each, dict, "url_citation") or each, len(own), len(text))
            for each in _get_field(part, list, "annotations")
            if own and _get_field(each, str, "type") in ("url_citation", "file_citation")
        ]
        starts += [(len(text), place)] * bool(own)
        text += own

    def name_place(at: int) -> str:
        begun, place = starts[bisect_right(starts, at, key=lambda each: each[0]) - 1]
        return f"{place}, character {at - begun}"

    return list(extract_claims(text, cited, sources, name_place))


def _read_annotation(citation: dict[str, Json], size: int, begun: int) -> CitationSpan:
    """Return the citation of a part of `size` characters that begins at `begun` in its text."""
    start = citation.get("start_index", citation.get("index"))
    end = citation.get("end_index", start)
    url, title = _get_field(citation, str, "url"), _get_field(citation, str, "title", "filename")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= size:
        return CitationSpan(begun + start, begun + end, url, title)
    problem = f"the citation points at [{start}:{end}] of a text of {size} characters"
    return CitationSpan(begun + size, begun + size, url, title, problem)


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
    typed = extract_claims(text, cited, {}, lambda at: f"{where}.content, character {at}")
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
        "".join(texts), _read_grounding(grounding, texts), {}, lambda at: f"{where}, character {at}"
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
    """Return the sources of lists of them, which a text cites by number: by their `id`, else by
    their place. Two lists that disagree on a number name no source for it."""
    sources: dict[str, tuple[str, str]] = {}
    for key in ("citations", "search_results", "sources", "references"):
        for place, each in enumerate(_get_field(value, list, key), 1):
            url = each if isinstance(each, str) else _get_field(each, str, *ADDRESS_FIELDS)
            title = _get_field(each, str, "title")
            number = each.get("id") if isinstance(each, dict) else place
            name = str(number if str(number).isdecimal() else place)
            if url or title:
                differs = sources.get(name, (url,))[0] != url
                sources[name] = ("", "") if differs else (url, title)
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
