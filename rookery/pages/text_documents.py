"""Read Markdown, Jupyter notebooks, and plain text, tables, data, logs and programs."""

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape, unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from rookery.errors import Outcome
from rookery.pages.page_parts import PagePart, ReadLimits, build_read_error, join_parts, read_part
from rookery.pages.passages import LONGEST_LABEL, names_columns
from rookery.pages.quoted_replies import mark_writers, read_letter
from rookery.records import Block, Mark, Page, decode_json

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

_FRONT = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n(?=(?:[ \t]*(?:#[^\n]*)?\n)*[\w\"'\[.-]+[ \t]*[]:=])"
    r"(.*?\n)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)",
    re.DOTALL,
)
"""a block of values between lines of marks; other text between two lines is text"""
_FRONT_TITLE = re.compile(r"""^title[ \t]*[:=][ \t]*["']?(.+?)["']?[ \t]*$""", re.MULTILINE)
_FRONT_DAY = re.compile(r"""(?m)^(?:date|lastmod|updated)[ \t]*[:=][ \t]*["']?(20\d\d-\d\d-\d\d)""")
_SENTENCE_END = re.compile(r"""[.!?:;]["'”’)\]]*$""")
_UNDERLINED = re.compile(
    r"\s*(?P<heading>[^\s](?:[^\n]*[^\s])?)[ \t]*\n(?P<line>(?P<mark>[=~^+\"-])(?P=mark){2,})"
    r"[ \t]*(?:\n|\Z|$)"
)
_VERSION_LINE = (
    r"\[?(?:(?:[\w.+-]+ )?(?:version|release|v)? ?\d+(?:\.\d+){2,}[\w.+~-]*"
    r"|(?:(?:version|release) )?v?\d+\.\d+[\w.+~-]*(?=\W+(?:\d{4}\b|\w+ \d|\d+ \w+ \d{4})))\]?"
    r"(?:\W+[\w ,./-]*\d{4}[\w ,./-]*\)?)?:?"
)
_HEAD_LINE = re.compile(
    r"\s*(?P<heading>(?P<ruled>([=*#~-])\3+ .*\w.* \3{2,})"
    rf"|(?P<version>[a-z0-9][\w.+-]+ \([^()\s]+\) [^;\n]+; urgency=.*|{_VERSION_LINE})"
    r"|(?P<clause>\d{1,2}(?:\.\d{1,2})*\.? [^\W\d_][^.!?;\n]{1,60}(?<![.,:;!?]))(?=[ \t]*\Z))"
    r"[ \t]*(?:\n|\Z)",
    re.IGNORECASE,
)
"""a first line that heads what is below: a title between marks, a version, or a numbered clause,
which stands alone"""
_BULLET = re.compile(r"^[ \t]*[*+•-][ \t]+(?=\S)", re.MULTILINE)
_GAP = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+|\Z")
_RST_HEADING = re.compile(
    r"\s*?(?:(?P<over>([!-/:-@\[-`{-~])\2{2,})[ \t]*\n)?"
    r"[ \t]*(?P<heading>[^\s](?:[^\n]*[^\s])?)[ \t]*\n"
    r"(?P<line>(?P<mark>[!-/:-@\[-`{-~])(?P=mark){2,})[ \t]*(?:\n|\Z|$)"
)
_RST_MARKUP = re.compile(
    r"[ \t]*\.\.(?:[ \t]+(?:\|[^|\n]+\|[ \t]+)?(?P<directive>[\w:+.-]+::)[^\n]*"
    r"(?:\n[ \t]+:[\w-]+:[^\n]*)*|[ \t][^\n]*|$|(?=\n))"
)
_RST_LITERAL = re.compile(
    r"\.\. +(?:code|code-block|sourcecode|parsed-literal|highlight|literalinclude|"
    r"testcode|testoutput|doctest|prompt|productionlist|graphviz|math)::"
)
_GUESSED_BY = 60
"""lines of a file whose name does not tell what it is"""
_JSON_LINE = re.compile(r"""^\s*(?:[\[{\]}"]|-?\d|true|false|null)""")
_LOG_LINE = re.compile(
    r"^\W{0,2}(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]?|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d )\d\d:\d\d"
    r"|^\S+ \S+ \S+ \[\d\d/[A-Z]"
)
_CODE_LINE = re.compile(
    r"[;{}]\s*$|^\s*(?:def|class|if|for|while|import|from|return|#include)\b.*[:;)\w]$|^\w+\s*[:?+]?="
)
_PROSE_LINE = re.compile(
    r"""\s*(?:(?:\#|//|--|;|\*|/\*|%|<!--|REM\b)[^\n]*\w"""
    r"""|(?!(?:def|class|if|for|while|with|elif|else|except|return|raise|from|import|assert|yield|"""
    r"""const|let|var|function|public|private|static|package|using|echo|select|insert)\b)"""
    r"""[\"'(`]*[A-Za-z][\w'’-]*[,.;:)]?(?:\ [\"'(`]*[\w'’`.*/-]+[\"'`)]*[,.;:?!)\"']*){3,}\s*$)"""
)
_OUTER = re.compile(r" {0,4}[{\[\"]|\t[{\[\"]")
_MINIFIABLE = (".js", ".mjs", ".cjs", ".css")
_MINIFIED_LINE = 1000
"""characters of a line, on average, in a minified program"""
_TITLED_BY_NAME = frozenset(("csv", "json", "log", "code", "subtitles"))
_MOST_LINES = 100
"""of one record of a table; more come from a quotation mark that is never closed"""
_QUOTED_CELL = re.compile('"[^"\n]*"')
_ONE_LINE = {ord("\t"): " ", ord("\n"): " "}
_SHORT_GROUP, _LONGEST_GROUP = 200, 1000
"""characters of a group of lines that is one block"""
_LONGEST_LINE, _LONGEST_PIECE = 1000, 400
"""characters of a line that is one block, and of the pieces of a longer one"""
_CUTTING_MARKS = ("},", "],", ";", ", ", ",", " ")
_TITLE_LENGTH = 200


def read_text(text: str, url: str, fetched: str = "", kind: str = "text") -> Page:
    """Return text as a Page, cut into blocks by its kind; strings of JSON and cells of tables as
    they are shown, all else as it is but for its line breaks.

    `kind` is one of `TEXT_READERS`; a `text` that looks like JSON, a log or a program is read as
    that. Prose is titled by its first line; a table, data, a log and a program by the name of the
    file. Raises Failed: minified, empty_after_extraction.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kind = _guess_kind(text) if kind == "text" else kind
    text = _NOT_PRINTED.sub("", text) if kind == "log" else text
    text = _JSON_STRING.sub(_unescape_string, text) if kind == "json" and "\\" in text else text
    text = _write_rows(text) if kind == "csv" else text
    if kind == "code" and url.endswith(_MINIFIABLE) and _is_minified(text):
        detail = "minified: it was written to be run and not to be read"
        raise build_read_error(Outcome.MINIFIED, detail)
    blocks, marks = tuple(TEXT_READERS[kind](text)), tuple[Mark, ...]()
    if kind == "subtitles":
        text, blocks, marks = _read_subtitles(text)
    if kind == "json":
        marks = tuple(_find_keys(text, blocks))
    if not blocks:
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, "the file holds only white space")
    first = next((block for block in blocks if block.article), blocks[0])
    title = text[first.start : first.end].split("\n", 1)[0][:_TITLE_LENGTH].strip()
    heads = [block for block in blocks if (block.kind, block.level) == ("heading", 1)]
    is_list = kind == "text" and len(heads) > 1 and _HEAD_LINE.match(text, first.start)
    if kind in _TITLED_BY_NAME or (is_list and heads[0] == first):
        title = unquote(url.partition("#")[0]).rstrip("/").rpartition("/")[2] or title
    page = Page(url=url, title=title, text=text, blocks=blocks, marks=marks, fetched=fetched)
    return mark_writers(page, None) if kind == "text" else page


_JSON_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_CONTROL = re.compile(r"[\0-\b\v-\x1f\x7f\ud800-\udfff]")


def _unescape_string(string: re.Match[str]) -> str:
    """Return a string of JSON as its reader sees it: characters and line breaks for escapes."""
    try:
        return '"' + _CONTROL.sub("\ufffd", json.loads(string[0], strict=False)) + '"'
    except ValueError:
        return string[0]


_TIMING = re.compile(
    r"^[ \t]*((?P<at>(?:\d+:)?\d\d:\d\d)[.,]\d{1,3})[ \t]*-->(?![ \t]*\1(?!\d))[^\n]*\n?", re.M
)
_CUE_TAG = re.compile(r"</?[a-zA-Z0-9][^<>\n]*>|\{\\[^{}\n]*\}")
_CUE_BREAK = re.compile(r"""[.!?…。！？♪)\]]["'”’)\]]*$""")
_UNSPACED = re.compile(r"[\u2e80-\ua4cf\uff00-\uffef]\Z")


def _read_subtitles(text: str) -> tuple[str, tuple[Block, ...], tuple[Mark, ...]]:
    """Return subtitles (SRT, WebVTT) as text, blocks and marks: cues joined into sentences.

    Remarks and style sheets among them are hidden text.
    """
    rolling, last, sentence = re.search(r"<\d\d:\d\d", text) is not None, "", ""
    sentences, hidden, marks = list[str](), list[str](), list[Mark]()
    at = 0
    for group in re.split(r"\n(?:[ \t]*\n)+", text.strip("\ufeff\n")):
        timing = _TIMING.search(group)
        if timing is None:
            hidden.append(group.strip())
            continue
        plain_lines = (
            unescape(_CUE_TAG.sub("", line)) for line in group[timing.end() :].split("\n")
        )
        lines = [" ".join(line.split()) for line in plain_lines if line.strip()]
        # Captions that roll show each line again above the next.
        for line in lines[rolling and lines[:1] == [last] :]:
            ended = _CUE_BREAK.search(sentence) or len(sentence) > _LONGEST_GROUP
            if sentence and (ended or line.startswith(("-", "–"))):
                sentences.append(sentence)
                at, sentence = at + len(sentence) + len("\n\n"), ""
            close = _UNSPACED.search(sentence) and _UNSPACED.match(line[:1])
            sentence += " " if sentence and not close else ""
            marks.append(Mark(at + len(sentence), at + len(sentence + line), "time", timing["at"]))
            sentence, last = sentence + line, line
    sentences.append(sentence)
    blocks, start = list[Block](), 0
    for body in (texts := [*sentences, *filter(None, hidden)] if marks else []):
        blocks.append(Block(start, start + len(body), "paragraph", 0, start <= at, start > at))
        start += len(body) + len("\n\n")
    return "\n\n".join(texts), tuple(blocks), tuple(marks)


def _guess_kind(text: str) -> str:
    """Return the kind of text whose name does not tell: json, log, code or text."""
    if text.startswith("#!"):
        return "code"
    head = text[: _GUESSED_BY * 200].split("\n")[:_GUESSED_BY]
    lines = [line for line in head if line.strip()]
    braced = text.lstrip()[:1] in ("{", "[")
    for kind, line in (("json", _JSON_LINE), ("log", _LOG_LINE), ("code", _CODE_LINE)):
        possible = braced if kind == "json" else len(lines) >= 3
        if possible and sum(map(bool, map(line.search, lines))) * 2 > len(lines):
            return kind
    return "text"


def _is_minified(text: str) -> bool:
    return len(text) > _MINIFIED_LINE * (text.count("\n") + 1)


def _read_paragraphs(text: str) -> Iterator[Block]:
    """Paragraphs between blank lines, and items behind bullets; underlined lines, titles between
    marks, versions and numbered clauses are headings."""
    start = 0
    levels: dict[str, int] = {}
    for gap in _GAP.finditer(text):
        if underlined := _UNDERLINED.match(text, start, gap.start()):
            # Which mark underlines which level is the file's choice: the first seen is the highest.
            level = levels.setdefault(underlined["mark"], min(6, len(levels) + 1))
            yield Block(*underlined.span("heading"), "heading", level)
            yield Block(*underlined.span("line"), "paragraph", article=False)
            start = underlined.end()
        elif headed := _HEAD_LINE.match(text[: gap.start()], start):
            kind = next(name for name in ("ruled", "version", "clause") if headed[name])
            level = levels.setdefault(kind, min(6, len(levels) + 1))
            yield Block(*headed.span("heading"), "heading", level)
            start = headed.end()
        kind = "paragraph"
        for bullet in _BULLET.finditer(text, start, gap.start()):
            yield from _trim_block(text, start, bullet.start(), kind)
            start, kind = bullet.start(), "item"
        yield from _trim_block(text, start, gap.start(), kind)
        start = gap.end()


def _trim_block(
    text: str, start: int, end: int, kind: str, article: bool = True, level: int = 0
) -> Iterator[Block]:
    """text[start:end] without the white space around it, as a block unless nothing is left."""
    kept = text[start:end].strip()
    if kept:
        begin = text.index(kept[0], start)
        yield Block(begin, begin + len(kept), kind, level, article)


def _read_rst(text: str) -> Iterator[Block]:
    """reStructuredText as it is written: headings, literal blocks as code, and paragraphs.

    Names of directives with their options, comments and targets are no article.
    """
    start = 0
    levels: dict[str, int] = {}
    literal = False
    for gap in _GAP.finditer(text):
        end = gap.start()
        indented = text[start - 1 : start] in (" ", "\t")  # a gap ends behind the indentation
        literal = literal and indented
        if heading := None if indented else _RST_HEADING.match(text, start, end):
            style = heading["mark"] + "over" * bool(heading["over"])
            level = levels.setdefault(style, min(6, len(levels) + 1))
            if heading["over"]:
                yield Block(*heading.span("over"), "paragraph", article=False)
            yield Block(*heading.span("heading"), "heading", level)
            yield Block(*heading.span("line"), "paragraph", article=False)
            start = heading.end()
        elif markup := _RST_MARKUP.match(text, start, end):
            literal = bool(_RST_LITERAL.search(markup[0]))
            yield from _trim_block(text, start, markup.end(), "paragraph", article=False)
            start = markup.end()
            if not markup["directive"]:
                start = end  # a comment, target or footnote goes to the next blank line
        yield from _trim_block(text, start, end, "code" if literal else "paragraph")
        literal = literal or text[start:end].rstrip().endswith("::")
        start = gap.end()


def _write_rows(text: str) -> str:
    """Return CSV or TSV as a table shows it: each row on its line, and tabs between its cells."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    lines = lines if "\n" in text else text.splitlines(keepends=True)
    head = [_QUOTED_CELL.sub("", line) for line in lines[:20]]

    def count_alike(mark: str) -> int:
        return max(Counter(n for line in head if (n := line.count(mark))).values(), default=0)

    delimiter, lines_read = max("\t;|,", key=count_alike), 0
    rows, reader = list[list[str]](), csv.reader(iter(lines), delimiter=delimiter)
    try:
        for cells in reader:
            if reader.line_num - lines_read > _MOST_LINES:
                raise csv.Error("a quotation mark that is never closed")
            rows.append(cells)
            lines_read = reader.line_num
    except csv.Error:
        rows = [line.removesuffix("\n").split(delimiter) for line in lines]
    written = ("\t".join(cell.translate(_ONE_LINE) for cell in cells) for cells in rows)
    return "\n".join((*written, *[""] * text.endswith("\n")))


def _read_records(text: str) -> Iterator[Block]:
    """Yield the rows of a table, each a block; a row of names, the first but for lines of one cell
    such as a title, is a heading."""
    rows = [(*line.span(), line[0].split("\t")) for line in re.finditer(r"[^\n]+", text)]
    cell_counts = (sum(map(bool, map(str.strip, cells))) for *_, cells in rows)
    top = sum(1 for _ in itertools.takewhile(lambda count: count < 2, cell_counts))
    for number, (start, end, cells) in enumerate(rows):
        names = (
            number == top < len(rows) - 1 and names_columns(cells) and end - start <= LONGEST_LABEL
        )
        yield from _trim_block(text, start, end, "heading" if names else "cell", level=int(names))


def _read_lines(text: str) -> Iterator[Block]:
    """Yield the lines of a log, each a block."""
    for line in re.finditer(r"[^\n]+", text):
        yield from _cut_line(text, *line.span())


def _read_code(text: str) -> Iterator[Block]:
    """Groups of lines of a program: what is written in sentences, such as comments, apart."""
    kind, start, end = "code", 0, 0
    for line in re.finditer(r"[^\n]*(?:\n|\Z)", text):
        now = "paragraph" if _PROSE_LINE.match(line[0]) else "code"
        blank = not line[0].strip()
        full = now == "code" and end - start + len(line[0]) > _LONGEST_GROUP
        if blank or now != kind or full:
            yield from _cut_line(text, start, end, kind)
            start = line.start()
        kind, end = now, line.end()
    yield from _cut_line(text, start, end, kind)


def _read_json(text: str) -> Iterator[Block]:
    """JSON as it is written: an element of the outermost levels, or a line of JSONL, a block."""
    start = end = 0
    for line in re.finditer(r"[^\n]*(?:\n|\Z)", text):
        outer = _OUTER.match(line[0]) is not None and end - start > _SHORT_GROUP
        if line[0][:1] in "{[" or outer or end - start + len(line[0]) > _LONGEST_GROUP:
            yield from _cut_line(text, start, end)
            start = line.start()
        end = line.end()
    yield from _cut_line(text, start, end)


_KEY = re.compile(r'"([^"\n]{1,100})"\s*:')
_BEGINS_ITSELF = re.compile(rf"[{{}}\[\]]|{_KEY.pattern}")


def _find_keys(text: str, blocks: Sequence[Block]) -> Iterator[Mark]:
    """Yield a mark `key` over each block of JSON that goes on with the value of an earlier key."""
    key, at = "", 0
    for block in blocks:
        for known in _KEY.finditer(text, at, block.start):
            key = known[1]
        at = block.start
        if key and not _BEGINS_ITSELF.match(text, at):
            yield Mark(at, block.end, "key", key)


def _cut_line(text: str, start: int, end: int, kind: str = "code") -> Iterator[Block]:
    """text[start:end] as a block, or as several where one line of it is very long."""
    while end - start > _LONGEST_LINE and "\n" not in text[start : start + _LONGEST_LINE].strip():
        piece = text[start : start + _LONGEST_PIECE]
        marks = [mark for mark in _CUTTING_MARKS if mark in piece[_LONGEST_PIECE // 2 :]]
        at = max((piece.rfind(mark) + len(mark) for mark in marks), default=_LONGEST_PIECE)
        yield from _trim_block(text, start, start + at, kind)
        start += at
    yield from _trim_block(text, start, end, kind)


TEXT_READERS: dict[str, Callable[[str], Iterator[Block]]] = {
    "text": _read_paragraphs,
    "rst": _read_rst,
    "csv": _read_records,
    "json": _read_json,
    "log": _read_lines,
    "subtitles": _read_paragraphs,
    "code": _read_code,
}
"""by kind of text, what cuts it into blocks; the text itself stays as it is"""


def read_markdown(text: str, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return Markdown (CommonMark with tables and struck-out text) as a Page, read as HTML.

    Front matter is kept as hidden text, and its title is the page's. Raises Failed: too_large,
    empty_after_extraction.
    """
    _check_markdown(len(text), limits)
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    front, title, hidden, days = _FRONT.match(text), "", "", list[str]()
    if front:
        named = _FRONT_TITLE.search(front[2])
        title, hidden = named[1] if named else "", f"<div hidden>{escape(front[2])}</div>"
        text, days = text[front.end() :], sorted(_FRONT_DAY.findall(front[2]))
    html = _make_markdown_parser().render(text) + hidden
    letter = read_letter(html, url, limits, None)
    page = join_parts([PagePart(letter)], url, fetched, title, limits)
    marks = [Mark(0, len(page.text), "date", day) for day in days[-1:]]
    return msgspec.structs.replace(page, marks=(*marks, *page.marks))


def _check_markdown(size: int, limits: ReadLimits) -> None:
    if size > limits.markdown:
        detail = f"Markdown of more than {limits.markdown:,} characters"
        raise build_read_error(Outcome.TOO_LARGE, detail)


def _make_markdown_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    define = next(one for one in markdown.block.ruler.__rules__ if one.name == "reference").fn

    def define_or_show(state: "StateBlock", line: int, end: int, silent: bool) -> bool:
        # A definition whose name begins so is a footnote, which is shown.
        start = state.bMarks[line] + state.tShift[line]
        return not state.src.startswith("[^", start) and define(state, line, end, silent)

    markdown.block.ruler.at("reference", define_or_show)
    return markdown


_NOT_PRINTED = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[^\n]*\r(?=[^\r\n])")
"""what a terminal takes as commands, and a line that is written over"""


def read_notebook(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a notebook as a Page: text outputs stand behind their cell, pictures are left out.

    Raises Failed: malformed, too_large, empty_after_extraction.
    """
    try:
        notebook: Any = decode_json(data, object)
    except ValueError as error:
        raise build_read_error(Outcome.MALFORMED, f"the notebook is no JSON ({error})") from error
    cells = _find_cells(notebook)
    if cells is None:
        raise build_read_error(Outcome.MALFORMED, "the notebook holds no list of cells")
    prose = (cell.get("source") for cell in cells if cell.get("cell_type") == "markdown")
    _check_markdown(sum(len(_join_text(source)) for source in prose), limits)
    metadata = notebook.get("metadata")
    title = metadata.get("title", "") if isinstance(metadata, dict) else ""
    title = title if isinstance(title, str) else ""
    return join_parts(_read_cells(cells, url, limits), url, fetched, title, limits)


def _find_cells(notebook: Any) -> list[dict[str, Any]] | None:
    """Return the cells; before version 4 of the format, sheets held them."""
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")
    holders = [notebook, *(sheets if isinstance(sheets, list) else [])]
    lists = [holder.get("cells") for holder in holders if isinstance(holder, dict)]
    found = [cells for cells in lists if isinstance(cells, list)]
    return [cell for cells in found for cell in cells if isinstance(cell, dict)] if found else None


def _join_text(written: Any) -> str:
    """Return text that is written whole or as a list of lines."""
    lines = written if isinstance(written, list) else [written]
    return "".join(line for line in lines if isinstance(line, str))


def _read_cells(cells: list[dict[str, Any]], url: str, limits: ReadLimits) -> Iterator[PagePart]:
    markdown = _make_markdown_parser()
    for cell in cells:
        source = _join_text(cell.get("source", cell.get("input")))
        kind = cell.get("cell_type")
        if kind == "markdown":
            html = markdown.render(source)
        elif kind == "heading":
            level = cell.get("level")
            tag = f"h{level}" if level in (1, 2, 3, 4, 5, 6) else "h1"
            html = f"<{tag}>{escape(source)}</{tag}>"
        elif kind == "code":
            html = _write_code(source)
        else:
            html = f"<p>{escape(source)}</p>"
        outputs, folded = cell.get("outputs"), cell.get("metadata")
        folded = folded.get("jupyter") if isinstance(folded, dict) else None
        folded = folded if isinstance(folded, dict) else {}
        pieces = [(html, "source_hidden")]
        for output in outputs if isinstance(outputs, list) else []:
            pieces += [(_write_output(output), "outputs_hidden")] * isinstance(output, dict)
        for html, name in pieces:
            hider = f"<div{' hidden' * (folded.get(name) is True)}>"
            yield PagePart(read_part(f"{hider}{html}</div>", url, limits))


def _write_code(text: str) -> str:
    return f"<pre>\n{escape(text)}</pre>" if text.strip() else ""


def _write_output(output: dict[str, Any]) -> str:
    """Return what a cell printed: HTML as it is, text without a picture as code, an error by its
    name."""
    if output.get("output_type") in ("error", "pyerr"):
        return _write_code(f"{output.get('ename', '')}: {output.get('evalue', '')}")
    data = output.get("data", output)  # before version 4, by short names in the output itself
    if not isinstance(data, dict):
        return ""
    html = _join_text(data.get("text/html", data.get("html")))
    if html.strip():
        return html
    if "text/markdown" in data:
        return _write_code(_join_text(data["text/markdown"]))
    text = _join_text(data.get("text/plain", data.get("text")))
    return _write_code("" if any("image/" in key for key in data) else _NOT_PRINTED.sub("", text))
