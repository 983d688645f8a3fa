"""Commands and questions as people type them: completed, mended, or only the number of a link.

It knows nothing of what a command does.
"""

import re

import msgspec

from rookery.ask.load import asked
from rookery.browse.commands import parse
from rookery.records import Question, digest_of

SEARCH = "Search "
FIND = "Find in page: "
VERBS = (
    SEARCH, "Clicked on link ", FIND, "Quote: ", "Scrolled down ", "Scrolled up ", "Top", "Back",
    "End: Answer", "End: Nonsense", "End: Controversial",
)  # fmt: skip
"""how each command of WebGPT's table 1 begins"""
NUMBER = re.compile(r"[0-9]{1,9}")


def command_of(line: str) -> str | None:
    """The command that a line means: a number clicks on a link, upper and lower case are mended.

    None where it means none.
    """
    line = line.strip()
    if NUMBER.fullmatch(line):
        return f"Clicked on link {int(line)}"
    tries = [line]
    for verb in VERBS:
        word = verb.strip().rstrip(":")
        rest = line[len(word) :]
        if line[: len(word)].casefold() == word.casefold() and rest[:1] in ("", " ", ":"):
            tries.append(verb + rest.lstrip(" :"))
    return next((str(command) for command in map(parse, tries) if command), None)


def completions(line: str) -> list[str]:
    """The commands that begin like this line."""
    return [verb for verb in VERBS if verb.casefold().startswith(line.casefold())]


def edited(line: str) -> str:
    """The same line, where a command was typed in full behind the shortcut that had begun it.

    `s` makes `Search `, so that `search crows` comes as `Search earch crows`.
    """
    for verb in (SEARCH, FIND):
        begun = verb + verb[1:].rstrip(": ")
        if line.startswith(begun) and line[len(begun) :][:1] in (" ", ":"):
            return verb + line[len(begun) :].lstrip(" :")
    return line


def question_of(text: str) -> Question:
    """The question that was typed, named by its words. Raises ValueError where it is none."""
    question = asked(text)
    return msgspec.structs.replace(question, id=digest_of(question.text)[:12])
