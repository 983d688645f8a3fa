"""Text of strangers made harmless where it is shown: in terminals, Markdown and addresses."""

import re
from urllib.parse import quote

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What turns the direction of a line, or is there and cannot be seen. Joiners stay: Persian and
# emoji need them.
_INVISIBLE = re.compile(
    "[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_\[\]<>&#|~^$])")
_MARKDOWN_LINE_START = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))", re.MULTILINE)
_UNSAFE = re.compile(
    r"[\x00-\x20\x7f-\xa0\\{}<>\"^`|\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def sanitize_text(text: str) -> str:
    """Return the text without what could harm a terminal.

    Control characters become U+FFFD, except tab and line feed; direction marks and other invisible
    characters are removed.
    """
    return _INVISIBLE.sub("", replace_control_characters(text))


def replace_control_characters(text: str) -> str:
    """Replace each control character by U+FFFD, so that offsets still hold.

    Tab and line feed stay.
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_json_controls(line: str) -> str:
    """Escape the control characters in JSON that JSON itself leaves: they could command a
    terminal."""
    return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", line)


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown reads these very characters, but for white space."""
    shown = text.replace("\0", "\ufffd").replace("\r", "\n")
    return _MARKDOWN_LINE_START.sub(_escape_line_start, _MARKDOWN_CHARACTERS.sub(r"\\\1", shown))


def _escape_line_start(match: re.Match[str]) -> str:
    space = match[1].replace(" ", "").replace("\t", "")  # which would make it code
    return f"{space}{match[2]}\\" if match[2].isdigit() else f"{space}\\{match[2]}"


def percent_encode_url(url: str) -> str:
    """Return an address without what would end it where it is written."""
    return _UNSAFE.sub(lambda unsafe: quote(unsafe[0], errors="replace"), url)
