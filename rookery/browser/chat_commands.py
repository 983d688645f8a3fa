"""Commands of the text browser as chat models give them, and the turn that shows them a state.

A reply may think aloud, call several tools, write the papers' commands, or nearly write them. It is
read as the papers' commands, one text each: so records, replays and what is trained on are the same
whoever browses.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from rookery.browser.browser import ABBREVIATION_MARK
from rookery.browser.browser_commands import SCREEN_LINK, Observation, parse_command
from rookery.browser.page_view import truncate_line
from rookery.pages.page_text import neutralize_text

_LEAD = (
    r"[ >*_`#•–-]*+(?:\d{1,2}[.)][ *_`]++)?+(?:(?:action|command|then|next|now)[*_ ]*+:[ *_`]*+)?+"
)
"""may stand before a command: marks of lists, of bold text and of code, `Action:`, `Then:`"""
_ROWS = files("rookery.browser").joinpath("chat_commands.txt").read_text(encoding="utf-8")
_FORMS = {
    name: (command, re.compile(f"(?i){_LEAD}(?:{written})[*_`.! ]*"))
    for name, command, written in (row.split("\t") for row in _ROWS.splitlines() if row[0] != "#")
}
"""by the names of tools: the papers' commands, and patterns of what is written in their place"""
_CALL = re.compile(rf'(?im)^{_LEAD}(?:(?P<name>{"|".join(_FORMS)}) *(?=\{{)|(?=\{{\s*"name"))')
_WRAPPING = r"\A\s*(?:```\w*\n|[\"“”„«'`])?\s*|(?<!\s)\s*+(?:```|[\"“”»'`]\.?|\*\*+)?\s*\Z"
"""a fence, quotation marks, or stars of bold text at the ends of an argument"""
_ELLIPSIS = r"(?:\.\.\.|…|\[(?:\.\.\.|…)\])"


def read_chat_commands(reply: str, screen: str) -> list[str]:
    """Read a chat model's reply as commands, in their order; `screen` is the text it saw.

    Calls of tools count alone where one does more than finish, else the lines that are commands or
    nearly so. The text around them is not read. A call that cannot be read, and a reply without any
    command, is given as a text that is no command.
    """
    calls = list(_read_calls(reply, screen))
    if not {*calls} - {"End: Answer"}:
        calls = list(_read_written(reply, screen)) or calls
    return calls or [f"(none) {truncate_line(reply, 200)}"]


def _read_calls(reply: str, screen: str) -> Iterator[str]:
    at = 0
    while call := _CALL.search(reply, at):
        name, at = call["name"], call.end()
        try:
            fields, at = json.JSONDecoder(strict=False).raw_decode(reply, at)
            if not name:
                name, fields = fields["name"], fields.get("arguments") or fields["parameters"]
            command = _write_command(name.lower(), fields, screen)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            command, at = "", max(at, call.end() + 1)
        yield command or f"(none) {reply[call.start() :][:200].splitlines()[0].strip(' *_`')}"


def _write_command(name: str, fields: Mapping[str, object], screen: str) -> str:
    """Write a call as the papers' command; empty, or a LookupError, where that cannot be done."""
    values = [re.sub(_WRAPPING, "", str(v)) for v in fields.values() if v not in (None, "")]
    if name == "scroll":
        values = [str(fields.get("direction") or "down"), min(str(fields.get("times") or 1), "3")]
    elif name == "quote" and (numbers := re.findall(r"\d+", str(fields.get("lines") or ""))):
        values = ["\n".join(screen.splitlines()[max(int(numbers[0]), 1) - 1 : int(numbers[-1])])]
    elif name == "quote":
        text = ABBREVIATION_MARK.join(values)
        text = re.sub(rf"(?m)^\d{{1,3}}\| ?|\A{_ELLIPSIS}|{_ELLIPSIS}\Z", "", text)
        values = [re.sub(rf"\s+{_ELLIPSIS}\s+", ABBREVIATION_MARK, text, count=1)]
    text = _FORMS[name][0].format(*values).strip()
    return text if parse_command(text) else ""


def _read_written(reply: str, screen: str) -> Iterator[str]:
    folded = "\n".join(map(_fold, (screen, SCREEN_LINK.sub(r"\2", screen))))
    calls: list[tuple[str, dict[str, str]]] = []
    quoted: dict[str, str] | None = None
    for line in reply.replace("\t", " ").splitlines():
        # A line within a quote may read like a command; below an empty line stands free text.
        last = quoted["text"].rpartition("\n")[2] if quoted else ""
        inside = last and _fold(f"{last} {line}") in folded
        near = ((name, not inside and form.fullmatch(line)) for name, (_, form) in _FORMS.items())
        name, match = next((each for each in near if each[1]), ("", None))
        if match:
            calls.append((name, match.groupdict()))
            quoted = calls[-1][1] if name == "quote" else None
        elif quoted and (last or not quoted["text"].strip() or _fold(line) in folded):
            quoted["text"] += f"\n{line.rstrip()}"
        else:
            quoted = None
    return filter(None, (_write_command(name, fields, screen) for name, fields in calls))


def _fold(text: str) -> str:
    return " ".join(text.split()).strip("\"“”„«»'`")


def render_browsing_turn(observation: Observation, results: Sequence[str]) -> str:
    """Return a state as a chat model is shown it: its lines numbered, and the `results` told.

    These say what the commands of the last reply did or why they failed.
    """
    head, _, foot = observation.prompt.rpartition(f"♦Text\n{observation.text}\n")
    lines = observation.text.splitlines()
    if observation.url:
        lines = [f"{number}| {line}" if line else "" for number, line in enumerate(lines, 1)]
    report = ["♦Last reply", *(f"- {neutralize_text(each)}" for each in results)] if results else []
    return "\n".join([f"{head}♦Text", *lines, *report, foot]).rstrip()
