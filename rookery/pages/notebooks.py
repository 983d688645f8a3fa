"""Read Jupyter notebooks: prose as Markdown, code and what it printed as code."""

import re
from collections.abc import Iterator
from html import escape
from typing import Any

import msgspec

from rookery.errors import Outcome
from rookery.pages.page_parts import PagePart, join_parts, read_part
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.records import Page

_TERMINAL_COLOR = re.compile("\x1b\\[[0-9;]*[A-Za-z]")


def read_notebook(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a notebook as a Page: text outputs stand behind their cell, pictures are left out.

    Raises Failed: malformed, too_large, empty_after_extraction.
    """
    try:
        notebook = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise build_read_error(
            url, Outcome.MALFORMED, f"the notebook is no JSON ({error})"
        ) from error
    cells = _find_cells(notebook)
    if cells is None:
        raise build_read_error(url, Outcome.MALFORMED, "the notebook holds no list of cells")
    prose = sum(len(_join_text(cell.get("source"))) for cell in cells if _is_markdown(cell))
    if prose > limits.markdown:
        raise build_read_error(
            url, Outcome.TOO_LARGE, f"Markdown of more than {limits.markdown:,} characters"
        )
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


def _is_markdown(cell: dict[str, Any]) -> bool:
    return cell.get("cell_type") == "markdown"


def _join_text(written: Any) -> str:
    """Return text that is written whole or as a list of lines."""
    lines = written if isinstance(written, list) else [written]
    return "".join(line for line in lines if isinstance(line, str))


def _read_cells(cells: list[dict[str, Any]], url: str, limits: ReadLimits) -> Iterator[PagePart]:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark").enable("table")
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
        yield PagePart(read_part(html, url, limits))
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                yield PagePart(read_part(_write_output(output), url, limits))


def _write_code(text: str) -> str:
    return f"<pre>\n{escape(text)}</pre>" if text.strip() else ""


def _write_output(output: dict[str, Any]) -> str:
    """Return what a cell printed: a table as a table, other text as code, an error by its name."""
    if output.get("output_type") in ("error", "pyerr"):
        return _write_code(f"{output.get('ename', '')}: {output.get('evalue', '')}")
    data = output.get("data", output)  # before version 4, by short names in the output itself
    if not isinstance(data, dict):
        return ""
    html = _join_text(data.get("text/html", data.get("html")))
    if "<table" in html:
        return html
    if "text/markdown" in data:
        return _write_code(_join_text(data["text/markdown"]))
    return _write_code(
        _TERMINAL_COLOR.sub("", _join_text(data.get("text/plain", data.get("text"))))
    )
