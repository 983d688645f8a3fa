"""The commands of the text browser, as typed (WebGPT, table 1). It knows nothing of their effects.

Search <query>                       Scrolled down <1, 2, 3>
Clicked on link <link ID>            Scrolled up <1, 2, 3>
Find in page: <text>                 Top
Quote: <text>                        Back
End: Answer                          End: <Nonsense, Controversial>
"""

import re
from typing import NamedTuple

# A command may hold line breaks (a quote does), but nothing that no keyboard and no page shows.
_UNWRITABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_ARGUMENTS = {
    "Search": re.compile(r"(?s:.+)"),
    "Clicked on link": re.compile(r"0|[1-9][0-9]{0,8}"),
    "Find in page:": re.compile(r"(?s:.+)"),
    "Quote:": re.compile(r"(?s:.+)"),
    "Scrolled down": re.compile(r"[123]"),
    "Scrolled up": re.compile(r"[123]"),
    "Top": re.compile(r""),
    "Back": re.compile(r""),
    "End:": re.compile(r"Answer|Nonsense|Controversial"),
}
_VERB = re.compile("|".join(map(re.escape, _ARGUMENTS)))


class Command(NamedTuple):
    """One valid command."""

    verb: str
    """as in the table, with its colon"""
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.argument}".rstrip()


def parse(said: str) -> Command | None:
    """The command that was typed; None for any other text, which is an invalid action.

    White space at both ends does not count. Upper and lower case, colons and the space before an
    argument must be those of the table.
    """
    said = said.strip()
    verb = _VERB.match(said)
    if verb is None or _UNWRITABLE.search(said):
        return None
    rest = said[verb.end() :]
    argument = rest.strip()
    if rest and not rest[0].isspace():
        return None
    return Command(verb[0], argument) if _ARGUMENTS[verb[0]].fullmatch(argument) else None
