"""The text of a page as it is shown. Offsets stay the same: characters are replaced one by one."""

import re

from rookery.records import Block, Page

_MARKERS = "【】†♦■"
_MARKER_TRANSLATION = str.maketrans(_MARKERS, "〖〗‡◆▪")
# Zero-width, bidirectional and tag characters, fillers, halves of characters: a reader
# does not see them, a program does. Joiners are kept where a script or an emoji may need them.
_HIDING = (
    "\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
_UNSEEN = re.compile(f"[{_HIDING}]|(?<=[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?=[\x00-\x7f])")
_SUSPECT = re.compile(f"[{_MARKERS}{_HIDING}\u200c\u200d]")  # several times as fast as replacing


def neutralize_text(text: str) -> str:
    """Replace markers that a page forges, and unseen characters, one by one.

    Each character is replaced by exactly one (【】†♦■ by 〖〗‡◆▪, what is unseen by ·), so that any
    offset into the result is the same offset into the page (WebGPT, appendix A).
    """
    if text.isascii() or not _SUSPECT.search(text):
        return text
    return _UNSEEN.sub("·", text.translate(_MARKER_TRANSLATION))


def neutralize_line(text: str) -> str:
    """Neutralize a text and put it on one line; white space is evened out, so that offsets change.

    The methods' prompts begin their parts (`Page:`, `Reference [1]:`, `Question:`) on lines of
    their own, so that a page that is shown on one line forges none of them.
    """
    return " ".join(neutralize_text(text).split())


def join_visible_text(page: Page, full: bool = False) -> str:
    """Return the text of the article view, or of the full view: unchanged slices of the page.

    Paragraphs stand apart by a blank line, items and lines of code by a line break, the cells of
    a row by " | ", of which there is one for each cell left empty before another.
    """
    pieces: list[str] = []
    before: Block | None = None
    for block in page.iter_shown() if full else page.iter_article():
        if before is not None:
            pieces.append(join_separator(page.text[before.end : block.start], before, block))
        pieces.append(page.text[block.start : block.end])
        before = block
    return "".join(pieces)


def join_separator(gap: str, before: Block, block: Block) -> str:
    """Return the text that separates two blocks that are shown one after the other.

    `gap` is the page's text between them. Where it holds more than white space, something is left
    out.
    """
    if gap.isspace() or not gap:
        if before.kind == block.kind == "code":
            return gap
        lines = "\n\n" if gap.count("\n") > 1 else "" if "\t" in gap and "\n" not in gap else gap
        if "\t" not in gap or (lines and block.kind != "cell"):
            return lines.replace("\t", "")
        return (
            lines.replace("\t", "") + " " * (not lines) + "| " * gap.rpartition("\n")[2].count("\t")
        )
    # Something between them is left out of this view.
    if "\n" not in gap:
        return " | " if "\t" in gap else " "
    return "\n" if before.kind == block.kind and block.kind in ("item", "cell") else "\n\n"
