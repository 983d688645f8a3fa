"""What a session shows before each command, as a record and as text (WebGPT, figure 1(b)).

It knows nothing of how a page became text, nor of what a command does.
"""

from collections.abc import Iterable

from rookery.browse.view import neutral
from rookery.records import Quote, Record


class Observation(Record, frozen=True):
    """The state of one session. `prompt` is all of it that a model is given."""

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
    """what the last command could not do and why, in a sentence for people; no model is given it"""
    answering: bool = False
    """what is said next is the answer, not a command"""


def summary(question: str, quoted: str, acted: str, title: str, scrollbar: tuple[int, int]) -> str:
    """The head of a prompt: all that stands before the text of the window. `quoted` and `acted`
    are whole lines."""
    return (
        f"♦Question\n{question}\n♦Quotes\n{quoted}♦Past actions\n{acted}"
        f"♦Title\n{title}\n♦Scrollbar: {scrollbar[0]} - {scrollbar[1]}\n♦Text\n"
    )


def next_action(left: int) -> str:
    """The foot of a prompt; what is said follows it directly."""
    return f"\n♦Actions left: {left}\n♦Next action\n"


def reference(quote: Quote, title: str) -> str:
    """A quote among those collected so far."""
    lines = neutral(quote.text).replace("\n", "\n> ")
    return f"From {title}\n> {lines}\n"


def answer_prompt(question: str, references: Iterable[tuple[str, Quote]]) -> str:
    """What the answering phase begins with: the question, then each quote below its title.

    `<question>■[1] <title> (<domain>)<double new line><extract>■` (WebGPT, appendix A).
    """
    cited = (
        f"[{number}] {title}\n\n{neutral(quote.text)}■"
        for number, (title, quote) in enumerate(references, 1)
    )
    return f"{question}■{''.join(cited)}"
