"""What happens while an answer is made, in words for its reader.

Of a file only its name is said, never where it lies. It knows nothing of how pages look.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from rookery.records import Record, digest_of
from rookery.serve.terminal import clean
from rookery.serve.web.rendering import host
from rookery.serve.web.wanted import ENDS, Event

SHOWN = 160
"""characters of a quote on its line"""


class Line(Record, frozen=True):
    """One thing that happened; a later one of the same key takes its place."""

    number: int
    kind: str
    key: str
    text: str
    more: str = ""


def line(event: Event) -> Line:
    """What an event says."""
    data = event.data
    text, more = _worded(event.kind, data)
    about = data.get("query") or data.get("url") or data.get("what") or str(event.number)
    key = "end" if event.kind in ENDS else digest_of(str(about))[:12]
    return Line(event.number, event.kind, key, clean(text), clean(more))


def lines(events: Sequence[Event]) -> list[Line]:
    """What is to be seen of these events: since the work was begun last, each thing as it stands
    now. What is written is not among them."""
    seen: dict[str, Line] = {}
    for event in events:
        if event.kind == "begun":
            seen.clear()
        if event.kind not in ("asked", "begun", "writing", *ENDS):
            said = line(event)
            seen[said.key] = said
    return list(seen.values())


def written(events: Sequence[Event]) -> str:
    """As far as the text has come that a model writes."""
    texts = [event.data["text"] for event in events if event.kind == "writing"]
    return clean(texts[-1]) if texts else ""


def named(url: str) -> str:
    """What a page is called by its address: its host, or the name of its file; a model by its name,
    without where it is served."""
    if " at http" in url:
        return url.partition(" at http")[0]
    parts = urlsplit(url)
    return host(url) or unquote(parts.path).rpartition("/")[2] or url


def _worded(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    if kind == "searching":
        return f"Searching “{data['query']}”", ""
    if kind == "found":
        count = len(data["hits"])
        return f"Searched “{data['query']}”", f"{count} page{'s' * (count != 1)} found"
    if kind == "opening":
        return f"Opening {named(data['url'])}", ""
    if kind == "opened":
        return f"Read “{data['title'] or 'a page without a title'}”", _size(data)
    if kind == "failed":
        return f"Not read: {named(data['what'])}", data.get("detail") or data["outcome"]
    if kind == "saying":
        return data["command"], "in the text browser"
    if kind == "quote":
        text = " ".join(data["quote"]["text"].split())
        cut = text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + "…"
        return f"“{cut}”", data["quote"]["title"]
    if kind == "stopped":
        return "Stopped", data.get("detail", "")
    return {"asked": "Waiting for its turn", "begun": "Begun"}.get(kind, ""), ""


def _size(data: dict[str, Any]) -> str:
    return f"{named(data['url'])}, {data['chars']:,} characters"
