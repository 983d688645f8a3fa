"""Reader of saved answers: Rookery's own, and what other tools' answers claim to quote.

Of other tools it reads OpenAI responses and chat completions, Perplexity's superset of these,
Anthropic messages, Gemini responses with grounding metadata, and Markdown. It gives strings and the
sources that they name; `cite.verify` checks them.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import msgspec

from rookery.cite.quotations import Cited, Claimed, Sources, claims
from rookery.records import Answer, Record

__all__ = ["Claimed", "SavedAnswer", "quoted_strings", "saved_answers"]

Json = Any
"""what a JSON file holds, before anything is known of it"""

UNKNOWN = (
    "no answer of a known form; known are OpenAI responses and chat completions, Perplexity, "
    "Anthropic messages, Gemini, Markdown, and what rookery ask --json prints"
)


class SavedAnswer(Record, frozen=True):
    """One answer of Rookery's as it was saved."""

    answer: Answer | None
    """None: the question had none"""
    method: str = ""
    """what wrote its text; empty where the file does not say"""


def quoted_strings(data: bytes, name: str) -> list[Claimed]:
    """What the file `name` with these contents claims to quote, in its order.

    Raises ValueError, with the line where there is one, for a file of none of the known forms.
    """
    text = _decoded(data, name)
    if not _is_json(text, name):
        ends = [found.start() for found in re.finditer("\n", text)]
        return list(claims(text, [], {}, lambda at: f"line {bisect_left(ends, at) + 1}"))
    found: list[Claimed] = []
    for where, value in _values(text, name):
        claimed = _message(value, where)
        if claimed is None:
            raise ValueError(f"{name}, {where}: {UNKNOWN}")
        found += claimed
    return found


def saved_answers(data: bytes, name: str = "the file") -> list[SavedAnswer] | None:
    """The answers that Rookery itself wrote: one, a list, or one a line, bare or from `ask --json`.

    None where the file holds something else. Raises ValueError, with the line, where it begins
    as ours and is broken.
    """
    text = _decoded(data, name)
    if not _is_json(text, name):
        return None
    found: list[SavedAnswer] = []
    for number, (where, value) in enumerate(_values(text, name)):
        if not _is_ours(value):
            _require(not number, f"{name}, {where}: not an answer of Rookery, unlike the others")
            return None
        answer = value.get("answer", value)
        whole = None if answer is None else _converted(answer, f"{name}, {where}")
        found.append(SavedAnswer(whole, _string(value, "method") or _string(value, "by")))
    return found or None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}, line {line}: not UTF-8; save the file as UTF-8") from error


def _is_json(text: str, name: str) -> bool:
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("json", "jsonl", "ndjson"):
        return True
    return (
        suffix not in ("md", "markdown", "txt")
        and re.match(r"\s*(\{|\[\s*[{\[\"])", text) is not None
    )


def _values(text: str, name: str) -> Iterator[tuple[str, Json]]:
    """The objects of a JSON file or of JSON lines, each with where it is."""
    first, _, rest = text.lstrip().partition("\n")
    if rest.strip() and _is_complete(first):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _loaded(line, name, number)
        return
    value = _loaded(text, name, 1)
    if isinstance(value, list):
        yield from ((f"[{number}]", each) for number, each in enumerate(value))
    else:
        yield "the answer", value


def _is_complete(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _loaded(text: str, name: str, line: int) -> Json:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f"{name}, line {line + error.lineno - 1}, column {error.colno}"
        raise ValueError(f"{at}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}, line {line}: JSON that cannot be read: {error}") from error


def _is_ours(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    return {"question", "answer", "stop"} <= value.keys() or {"text", "quotes"} <= value.keys()


def _converted(value: Json, where: str) -> Answer:
    try:
        return msgspec.convert(value, Answer)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: not a whole answer: {error}") from error


def _message(value: Json, where: str, sources: Sources | None = None) -> list[Claimed] | None:
    """What a JSON value of any known form claims; None for a value of no known form."""
    if not isinstance(value, dict):
        return None
    sources = _json_sources(value) or sources or {}
    if isinstance(value.get("parts"), list) or isinstance(value.get("candidates"), list):
        return list(_gemini(value, where))
    for key in ("choices", "output", "messages"):
        if isinstance(items := value.get(key), list):
            read = [_message(item, f"{where}.{key}[{n}]", sources) for n, item in enumerate(items)]
            return [claimed for part in read for claimed in part or ()]
    for key in ("message", "response", "result", "body"):
        if isinstance(inner := value.get(key), dict):
            return _message(inner, f"{where}.{key}", sources)
    content = value.get("content")
    if value.get("role") not in (None, "assistant") or (content is None and "role" in value):
        return []
    if isinstance(content, str):
        return _text_part({**value, "text": content}, where, sources)
    if not isinstance(content, list):
        return None
    if any(_string(part, "text") and "citations" in part for part in content):
        return list(_anthropic(content, where))
    texts = [
        _text_part(part, f"{where}.content[{number}]", sources)
        for number, part in enumerate(content)
        if _string(part, "text")
    ]
    return [claimed for part in texts for claimed in part]


def _text_part(part: dict[str, Json], where: str, sources: Sources) -> list[Claimed]:
    """A text with OpenAI's annotations, nested as in chat completions or flat as in responses."""
    text = part["text"]
    annotations = part.get("annotations")
    cited = []
    for each in annotations if isinstance(annotations, list) else []:
        if isinstance(each, dict) and each.get("type") in ("url_citation", "file_citation"):
            inner = each.get("url_citation")
            cited.append(_annotated(inner if isinstance(inner, dict) else each, len(text)))
    return list(claims(text, cited, sources, lambda at: where))


def _annotated(citation: dict[str, Json], size: int) -> Cited:
    start = citation.get("start_index", citation.get("index"))
    end = citation.get("end_index", start)
    url = _string(citation, "url")
    title = _string(citation, "title") or _string(citation, "filename")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= size:
        return Cited(start, end, url, title)
    problem = f"the citation points at [{start}:{end}] of a text of {size} characters"
    return Cited(size, size, url, title, problem)


def _anthropic(blocks: list[Json], where: str) -> Iterator[Claimed]:
    """The `cited_text` of every citation, and what the cited blocks have in quotation marks."""
    text, cited = "", []
    for number, block in enumerate(blocks):
        said = _string(block, "text")
        citations = block.get("citations") if said else None
        for index, citation in enumerate(citations if isinstance(citations, list) else []):
            url = _string(citation, "url") or _string(citation, "source")
            title = _string(citation, "title") or _string(citation, "document_title")
            quoted = _string(citation, "cited_text")
            problem = "" if quoted else "the citation has no cited_text"
            at = f"{where}.content[{number}].citations[{index}]"
            yield Claimed(quoted, url, title, at, problem=problem)
            cited.append(Cited(len(text), len(text) + len(said), url, title))
        text += said
    typed = claims(text, cited, {}, lambda at: f"{where}.content")
    yield from (claimed for claimed in typed if claimed.quoted or claimed.problem)


def _gemini(response: dict[str, Json], where: str) -> Iterator[Claimed]:
    """The texts of a Gemini response, or of one content of it, and what its grounding cites."""
    if not isinstance(candidates := response.get("candidates"), list):
        yield from _gemini_candidate({"content": response}, where)
        return
    for number, candidate in enumerate(candidates):
        yield from _gemini_candidate(candidate, f"{where}.candidates[{number}]")


def _gemini_candidate(candidate: Json, where: str) -> Iterator[Claimed]:
    content = _either(candidate, "content", "content")
    parts = _either(content, "parts", "parts")
    if not isinstance(parts, list) or _string(content, "role") == "user":
        return
    texts = ["" if _is_thought(part) else _string(part, "text") for part in parts]
    cited = _grounded(_either(candidate, "groundingMetadata", "grounding_metadata"), texts)
    yield from claims("".join(texts), cited, {}, lambda at: where)


def _is_thought(part: Json) -> bool:
    return isinstance(part, dict) and part.get("thought") is True


def _grounded(metadata: Json, texts: list[str]) -> list[Cited]:
    """The citations of grounding metadata, by their places in the joined texts.

    A segment names bytes of one part's UTF-8. Where its text is not there, the place is where that
    text stands; where it stands nowhere, the citation is broken.
    """
    chunks = _either(metadata, "groundingChunks", "grounding_chunks")
    sources = [_chunk_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
    supports = _either(metadata, "groundingSupports", "grounding_supports")
    whole = "".join(texts)
    cited = []
    for support in supports if isinstance(supports, list) else []:
        segment = _either(support, "segment", "segment")
        span = _segment_span(segment, texts)
        problem = "" if span else "the grounding points at no place of the text"
        start, end = span or (len(whole), len(whole))
        numbers = _either(support, "groundingChunkIndices", "grounding_chunk_indices")
        for number in numbers if isinstance(numbers, list) else []:
            if isinstance(number, int) and 0 <= number < len(sources):
                cited.append(Cited(start, end, *sources[number], problem))
            else:
                missing = f"cites grounding chunk {number}, and there are {len(sources)}"
                cited.append(Cited(start, end, problem=missing))
    return cited


def _segment_span(segment: Json, texts: list[str]) -> tuple[int, int] | None:
    part = _either(segment, "partIndex", "part_index") or 0
    start = _either(segment, "startIndex", "start_index") or 0
    end = _either(segment, "endIndex", "end_index")
    said = _string(segment, "text")
    if all(isinstance(each, int) for each in (part, start, end)) and 0 <= part < len(texts):
        data = texts[part].encode("utf-8", "surrogatepass")
        before, inside = (
            data[slice(*each)].decode("utf-8", "replace") for each in ((0, start), (start, end))
        )
        if 0 <= start < end <= len(data) and inside == (said or inside):
            low = len("".join(texts[:part])) + len(before)
            return low, low + len(inside)
    at = "".join(texts).find(said) if said else -1
    return (at, at + len(said)) if at >= 0 else None


def _chunk_source(chunk: Json) -> tuple[str, str]:
    for kind in ("web", "retrievedContext", "retrieved_context", "maps"):
        if isinstance(chunk, dict) and isinstance(named := chunk.get(kind), dict):
            return _string(named, "uri"), _string(named, "title")
    return "", ""


def _either(value: Json, name: str, other: str) -> Json:
    """A field by its name in JSON or by that of Google's Python client."""
    return value.get(name, value.get(other)) if isinstance(value, dict) else None


def _json_sources(value: dict[str, Json]) -> Sources:
    """Perplexity's lists of results, which a text cites by number."""
    found: dict[str, tuple[str, str]] = {}
    for key in ("citations", "search_results"):
        listed = value.get(key)
        for number, each in enumerate(listed if isinstance(listed, list) else [], 1):
            url = each if isinstance(each, str) else _string(each, "url")
            if url:
                found[str(number)] = (url, _string(each, "title"))
    return found


def _string(value: Json, key: str) -> str:
    held = value.get(key) if isinstance(value, dict) else None
    return held if isinstance(held, str) else ""


def _require(holds: object, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)
