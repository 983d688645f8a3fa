"""From a span of a page that somebody pointed at to the command that quotes this very span.

Nobody sends words: they are cut from the page here, and the command is what a model would say. It
knows nothing of sessions and of browsers.
"""

from bisect import bisect_right
from collections.abc import Iterator

from rookery.browse.commands import parse
from rookery.browse.find import Finder, Span
from rookery.browse.fold import fold
from rookery.browse.quoting import ABBREVIATION, WindowText, find_quote
from rookery.browse.window import Part, Window
from rookery.records import Page
from rookery.serve.desk import IN_PARTS
from rookery.serve.marking import ENDS, SHORT

NO_WORDS = "there are no words in what you marked"
NOT_HERE = "this is not in the window any more: mark it again"
SAME_WORDS = (
    "the same words stand further up in this window, and a quote takes those: mark a little more, "
    "until no other place reads the same, or scroll until the other place is out of sight"
)
UNWRITABLE = "this holds characters that cannot be typed: mark what stands on either side of them"


class NotNamed(ValueError):
    """No command quotes it, and why."""


def trimmed(page: Page, window: Window, start: int, end: int) -> Span:
    """text[start:end] without white and unseen characters at its ends, no character cut from its
    marks. Raises NotNamed where nothing is left, or where it is not in the window."""
    if not window.start <= start <= end <= window.end:
        raise NotNamed(NOT_HERE)
    folded = fold(page.text[window.start : window.end])
    _, _, starts, ends = folded.changes
    low, high = start - window.start, end - window.start
    cut = bisect_right(starts, low) - 1
    if cut >= 0 and low < ends[cut]:
        low = starts[cut]
    first, last = folded.position(low), folded.position(high)
    words = folded.text[first:last]
    first += len(words) - len(words.lstrip())
    last -= len(words) - len(words.rstrip())
    if first >= last:
        raise NotNamed(NO_WORDS)
    low, high = folded.source(first, last)
    return window.start + low, window.start + high


def command_for(page: Page, finder: Finder, window: Window, parts: list[Part], span: Span) -> str:
    """The command that quotes exactly this trimmed span. Raises NotNamed where none does."""
    start, end = span
    covered = [part for part in parts if part.start < part.end]
    if "".join(page.text[start:end].split()) != "".join(
        "".join(page.text[max(part.start, start) : min(part.end, end)].split())
        for part in covered
        if part.start < end and start < part.end
    ):
        raise NotNamed(IN_PARTS)
    shown, copied = _shown(parts, start, end), WindowText(page, parts)
    for words in _ways(shown, page.text[start:end]):
        command = f"Quote: {words}"
        said = parse(command)
        if said and find_quote(finder, said.argument, window.start, copied) == span:
            return str(said)
    raise NotNamed(SAME_WORDS if parse(f"Quote: {shown}") else UNWRITABLE)


def _shown(parts: list[Part], start: int, end: int) -> str:
    """What the window shows of a span, without the marks of links, images and scripts."""
    words: list[str] = []
    for part in parts:
        low, high = max(part.start, start), min(part.end, end)
        if low < high:
            words.append(part.text[low - part.start : high - part.start])
        elif part.start == part.end and start < part.start < end and _is_gap(part):
            words.append(part.text if part.text.isspace() else " ")
    return "".join(words)


def _is_gap(part: Part) -> bool:
    return part.text.isspace() or part.text == " | "


def _ways(shown: str, exact: str) -> Iterator[str]:
    """What can be said for it, the one to be tried first before the others."""
    if len(shown) > SHORT:
        yield from _abbreviated(shown)
    yield shown
    yield exact


def _abbreviated(words: str) -> Iterator[str]:
    """Its beginning and its end, in whole words where it has words of that length."""
    for least in (ENDS, 2 * ENDS):
        front = words.find(" ", least)
        back = words.rfind(" ", 0, len(words) - least) + 1
        if 0 < front < back:
            yield f"{words[:front]}{ABBREVIATION}{words[back:]}"
