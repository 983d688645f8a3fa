"""What a demonstrator might say to a prompt of the text browser: for models that are too small to
write a command, and choose among these.

It reads the prompt alone, so that it offers no more than a model is shown. It knows nothing of
which answer is right.
"""

import re

from rookery.browse.passages import sentences
from rookery.browse.words import keywords
from rookery.draft.wording import LINK, abbreviated, phrasings, subject
from rookery.records import Page

_STATE = re.compile(
    r"♦Question\n(?P<question>.*)\n♦Quotes\n(?P<quotes>.*)♦Past actions\n.*♦Title\n"
    r"(?P<title>.*)\n♦Scrollbar: [0-9]+ - [0-9]+\n♦Text\n(?P<text>.*)\n♦Actions left: ",
    re.DOTALL,
)
_REFERENCE = re.compile(r"■\[(?P<number>[0-9]+)\] (?P<title>[^\n]*)\n\n(?P<text>[^■]*)(?=■)")
_CLUE = re.compile(r"\d(?:[\d,.]*\d)?|[A-Z]\w+(?: [A-Z]\w+)*")
"""a number, or a name: what short questions ask for"""
_LEAST = (3, 4, 5)
"""words at either end of an abbreviated quote, as demonstrators choose"""
NOTHING = "I did not find an answer."


def offered(prompt: str) -> list[str]:
    """Every command, or short answer, that may be said to a prompt; one at least, and none twice.

    Queries are the words of the question; a quote is a sentence on the screen; an answer is a
    number or a name in one of the quotes, which it cites.
    """
    state = _STATE.search(prompt)
    found = _answers(prompt) if state is None else _commands(**state.groupdict())
    return list(dict.fromkeys(found))


def _commands(question: str, quotes: str, title: str, text: str) -> list[str]:
    if not title or title.startswith("Search results for: "):
        clicks = [f"Clicked on link {number}" for number, _ in LINK.findall(text)]
        return clicks + [f"Search {query}" for query in _queries(question)]
    shown = LINK.sub(r"\2", text)
    whole = [words for line in shown.splitlines() for words in _sentences(line)]
    short = [abbreviated(sentence, shown, least) for sentence in whole for least in _LEAST]
    ends = ["End: Answer"] if quotes else []
    return ["Back", *ends, *(f"Quote: {words}" for words in whole + short if words)]


def _sentences(line: str) -> list[str]:
    plain = " ".join(line.split())
    found = [plain[start:end] for start, end in sentences(Page("", "", plain), 0, len(plain))]
    return [sentence for sentence in found if sentence.count(" ") >= min(_LEAST)]


def _queries(question: str) -> list[str]:
    some = " ".join(keywords(question)) or question
    return [question, question.rstrip("?").lower(), some, some.lower()]


def _answers(prompt: str) -> list[str]:
    return [
        f"{way.rstrip('.')} [{reference['number']}]."
        for reference in _REFERENCE.finditer(prompt)
        for clue in _CLUE.findall(reference["text"])
        for [way] in phrasings(clue, "", subject(reference["title"]))[:3]
        if way
    ] or [NOTHING]
