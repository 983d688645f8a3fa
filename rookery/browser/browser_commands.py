"""Commands of the text browser (WebGPT, table 1), and the state shown before each, as a record and
as a prompt (figure 1(b)).

Search <query>                       Scrolled down <1, 2, 3>
Clicked on link <link ID>            Scrolled up <1, 2, 3>
Find in page: <text>                 Top
Quote: <text>                        Back
End: Answer                          End: <Nonsense, Controversial>
"""

import re
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import msgspec

from rookery.pages.page_text import neutralize_text
from rookery.records import Question, Quote, Record

# A command may hold line breaks (a quote does), but nothing that no keyboard and no page shows.
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_ARGUMENTS = {
    **dict.fromkeys(("Search", "Find in page:", "Quote:"), re.compile(r"(?s:.+)")),
    **dict.fromkeys(("Scrolled down", "Scrolled up"), re.compile(r"[123]")),
    **dict.fromkeys(("Top", "Back"), re.compile(r"")),
    "Clicked on link": re.compile(r"0|[1-9][0-9]{0,8}"),
    "End:": re.compile(r"Answer|Nonsense|Controversial"),
}
_VERB = re.compile("|".join(map(re.escape, _ARGUMENTS)))


class BrowserCommand(NamedTuple):
    """One valid command."""

    verb: str
    """as in the table, with its colon"""
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.argument}".rstrip()


def parse_command(text: str) -> BrowserCommand | None:
    """Return the command that was typed; None for any other text, which is an invalid action.

    White space at both ends does not count. Verbs, with their upper and lower case and colons, and
    arguments must be those of WebGPT's table 1, such as `Search <query>`, `Scrolled down 2` or
    `End: Answer`, with white space between the two.
    """
    text = text.strip()
    verb = _VERB.match(text)
    if verb is None or _CONTROL_CHARACTERS.search(text):
        return None
    rest = text[verb.end() :]
    argument = rest.strip()
    if rest and not rest[0].isspace():
        return None
    return BrowserCommand(verb[0], argument) if _ARGUMENTS[verb[0]].fullmatch(argument) else None


TRAINING_ACTIONS = (20, 100)
"""the least and most actions that an episode of training is given (WebGPT, section 3.2)"""


class BrowserRules(Record, frozen=True):
    """Limits and prohibitions. Where WebGPT gives a value, it is the default."""

    actions: int = 100
    """commands, valid or not (WebGPT, section 3.2)"""
    quoted: int = 6000
    """characters of all quotes together; the paper has such a limit and does not print it"""
    quotes: int = 0
    """quotes of an episode, at most, after which the answer is asked for; 0: any number"""
    window: int = 2000
    """characters of a page that are shown at once, markers of links not counted"""
    results: int = 10
    """results of a search that are shown"""
    blocked: tuple[str, ...] = ("reddit.com", "quora.com")
    """domains that neither searches nor pages lead to (WebGPT, appendix A)"""
    overlap: int = 10
    """words in a row that a page may not share with the question or a reference answer; 0: any
    number (WebGPT, appendix A)"""
    title: int = 200
    """characters of a title, of a link's text in past actions, and of a query there"""
    before: int | msgspec.UnsetType = msgspec.UNSET
    """characters of a page that are shown before the passage of a search result, at which that then
    opens, and before what was found, whose places are listed; unset: results open at the top"""

    def __post_init__(self) -> None:
        least = {"quotes": 0, "overlap": 0, "window": 100, "before": 0}
        for name in self.__struct_fields__:
            if name != "blocked" and (getattr(self, name) or 0) < (value := least.get(name, 1)):
                raise ValueError(f"BrowserRules.{name} must be at least {value}")


class BrowserTask(Record, frozen=True):
    """A question and the rules that determine what a session shows, given its library and
    commands."""

    question: Question
    rules: BrowserRules = BrowserRules()
    start: str = ""
    """the address of a page to begin with, which the user names; none: begin with a search"""


def draw_action_limit(rules: BrowserRules, random: Random) -> BrowserRules:
    """Return these rules with a limit on actions drawn at random from 20 to 100.

    So WebGPT did for each episode of training (section 3.2).
    """
    return msgspec.structs.replace(rules, actions=random.randint(*TRAINING_ACTIONS))


def make_chat_rules(rules: BrowserRules, context_tokens: int) -> BrowserRules:
    """Return these rules for a chat model: a view, and the quotes, take a third of its context.

    It has 60 commands, a result opens at its passage, and a page may repeat the question.
    """
    size = max(context_tokens * 4 // 3, 2000)  # of four characters a token
    return BrowserRules(60, size, rules.quotes, size, overlap=0, before=size // 10)


class Observation(Record, frozen=True):
    """State of one browsing session; `prompt` is all of it that a model is given."""

    prompt: str
    question: str
    quotes: tuple[Quote, ...]
    past: tuple[str, ...]
    """the actions so far that did something, as the prompt shows them"""
    title: str
    scrollbar: tuple[int, int]
    """where the window begins and ends, in percent of the page"""
    text: str
    """of the window, links as 【id†words†domain】"""
    left: int
    """actions"""
    url: str = ""
    """of the page; empty for search results and before the first page"""
    digest: str = ""
    """of the page; the window shows what lies in [start:end] of its text"""
    start: int = 0
    end: int = 0
    note: str = ""
    """what the last command could not do and why, in a sentence that `prompt` leaves out"""
    effect: str = ""
    """what the last command quoted or where it found its text, which `prompt` leaves out, too"""
    answering: bool = False
    """what is said next is the answer, not a command"""


def format_prompt_head(
    question: str, quoted: str, acted: str, title: str, scrollbar: tuple[int, int]
) -> str:
    """Return the part of a browsing prompt that stands before the shown text of the page.

    `quoted` and `acted` list the quotes and the past actions, each line ended. `scrollbar` is where
    the shown text begins and ends, in percent of the page.
    """
    return (
        f"♦Question\n{question}\n♦Quotes\n{quoted}♦Past actions\n{acted}"
        f"♦Title\n{title}\n♦Scrollbar: {scrollbar[0]} - {scrollbar[1]}\n♦Text\n"
    )


def format_prompt_foot(actions_left: int) -> str:
    """Return the end of a browsing prompt: the actions left, and the heading `Next action`.

    What the model writes directly behind it is its command.
    """
    return f"\n♦Actions left: {actions_left}\n♦Next action\n"


STATE_PATTERN = re.compile(
    r"♦Question\n(?P<question>.*)\n♦Quotes\n(?P<quotes>.*)♦Past actions\n.*♦Title\n"
    r"(?P<title>.*)\n♦Scrollbar: [0-9]+ - [0-9]+\n♦Text\n(?P<text>.*)\n♦Actions left: ",
    re.DOTALL,
)
"""a browsing prompt, with its question, quotes, title and shown text as groups"""
SCREEN_LINK = re.compile(r"【([0-9]+)†([^†】]*)(?:†[^†】]*)?】")
"""pattern of a link on the screen; groups: its number, its text"""


class Screen(NamedTuple):
    """Part of the page that a prompt shows."""

    text: str
    """as it is read, without the marks of links"""
    links: tuple[int, ...]
    """numbers of the links, in their order"""


def read_screen(prompt: str) -> Screen | None:
    """Read the screen out of a prompt that asks for a command; None: it asks for an answer."""
    state = STATE_PATTERN.search(prompt)
    if state is None:
        return None
    found = SCREEN_LINK.findall(state["text"])
    return Screen(SCREEN_LINK.sub(r"\2", state["text"]), tuple(int(number) for number, _ in found))


def format_reference(quote: Quote, title: str) -> str:
    """Return a quote as prompts list it: `From <title>`, then its text, each line after `> `."""
    lines = "\n> ".join(neutralize_text(quote.text).splitlines())
    return f"From {title}\n> {lines}\n"


def format_answer_prompt(question: str, references: Iterable[tuple[str, Quote]]) -> str:
    """Return the prompt of the answering phase: the question, then each quote below its title.

    `references` are titles with their domains, each with a quote; they are numbered from 1:
    `<question>■[1] <title> (<domain>)<double new line><extract>■` (WebGPT, appendix A).
    """
    cited = (
        f"[{number}] {title}\n\n{neutralize_text(quote.text)}■"
        for number, (title, quote) in enumerate(references, 1)
    )
    return f"{question}■{''.join(cited)}"
