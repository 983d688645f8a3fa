"""What a person may type for the same purpose: queries, words to find, quotes, answers, slips.

It knows the words and the screen that they are read from, and nothing of pages and sessions.
"""

import re
from random import Random

import msgspec

from rookery.browse.quoting import ABBREVIATION
from rookery.browse.words import QUESTION_WORDS, keywords

LINK = re.compile(r"【([0-9]+)†([^†】]*)(?:†[^†】]*)?】")
"""a link on the screen: its number, its words"""
LONG = 300
"""characters of a sentence that nobody would repeat as an answer"""
_MISTYPED = {
    "Search": "search",
    "Clicked on link": "Click",
    "Find in page:": "Find",
    "Quote:": "Quote",
    "Scrolled": "Scroll",
}


class QuoteHabits(msgspec.Struct, frozen=True):
    """How often, from 0 to 1, a quote is not typed in full as it stands."""

    abbreviate: float = 0.4
    """the first and the last words only"""
    copy: float = 0.2
    """what the screen shows, marks of links and all"""
    retype: float = 0.1
    """in lower case, or with a line break"""


def subject(title: str) -> str:
    """What a title says before it names the site: `Crows` of `Crows | The Bird Page`."""
    return re.split(r"\s[|«·–—-]\s|\s*\(", title)[0].strip() or title


def queries(question: str, title: str, random: Random, poor: bool) -> list[str]:
    """What to search for, one after the other until it leads to the page of this title.

    `poor`: one word of the question before anything else.
    """
    words = keywords(question) or [question]
    some = [random.choice(words)] if poor else []
    asked = random.choice((question, question.rstrip("?").lower()))
    short = random.choice((" ".join(words), " ".join(words).lower()))
    plain = random.sample((asked, short), 2)
    wordings = [*some, *plain, f"{title} {random.choice(words)}", title]
    return [wording for wording in wordings if wording]


def phrases(question: str) -> list[str]:
    """Rows of one to three words of a question that begin and end with one that matters."""
    words = re.findall(r"\w+", question)
    matters = [word.lower() not in QUESTION_WORDS and len(word) > 2 for word in words]
    return [
        " ".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, min(start + 3, len(words)) + 1)
        if matters[start] and matters[end - 1]
    ]


def in_a_row(question: str, random: Random) -> str:
    """Three to five of a question's words, which may well stand nowhere else like this."""
    words = question.rstrip("?").split()
    start = random.randint(0, max(0, len(words) - 4))
    return " ".join(words[start : start + random.randint(3, 5)])


def quoted(sentence: str, screen: str, habits: QuoteHabits, random: Random) -> str:
    """The sentence as it may be typed after `Quote:`, read from this screen."""
    drawn = random.random()
    if drawn < habits.abbreviate:
        return abbreviated(sentence, screen, random.randint(3, 5)) or sentence
    if drawn < habits.abbreviate + habits.copy:
        return copied(sentence, screen) or sentence
    if drawn < habits.abbreviate + habits.copy + habits.retype:
        words = sentence.split()
        middle = len(words) // 2
        broken = f"{' '.join(words[:middle])}\n{' '.join(words[middle:])}"
        return random.choice((sentence.lower(), broken))
    return sentence


def abbreviated(sentence: str, screen: str, least: int) -> str:
    """`start━end` with as few words, but `least` each, as name the sentence and nothing else on
    the screen (WebGPT, appendix A); nothing where that saves little."""
    words = sentence.split()
    shown = " ".join(LINK.sub(r"\2", screen).split())
    for size in range(least, len(words) // 2 - 2):
        start, end = " ".join(words[:size]), " ".join(words[-size:])
        once = sentence.find(end, len(start)) == len(sentence) - len(end)
        if once and shown.find(start) == shown.find(sentence) >= 0:
            return f"{start}{ABBREVIATION}{end}"
    return ""


def copied(sentence: str, screen: str) -> str:
    """The sentence as the screen shows it, with its links; nothing where it does not."""
    unmarked = LINK.sub(_without_mark, screen)
    letters = [at for at, letter in enumerate(unmarked) if letter.isalnum()]
    wanted = "".join(filter(str.isalnum, sentence))
    start = "".join(unmarked[at] for at in letters).find(wanted)
    if start < 0 or not wanted:
        return ""
    low, high = letters[start], letters[start + len(wanted) - 1] + 1
    low -= len(re.split(r"\s", screen[:low])[-1])
    return screen[low : high + len(re.split(r"\s", screen[high:])[0])]


def _without_mark(link: re.Match[str]) -> str:
    """As long as the link, and only its words are left."""
    return " " * (link.start(2) - link.start()) + link[2] + " " * (link.end() - link.end(2))


def phrasings(answer: str, sentence: str, title: str) -> list[list[str]]:
    """Ways to put an answer that a sentence of a page says, each in sentences of its own."""
    answer = answer.rstrip(".")
    alone, whole = _capital(f"{answer}."), _capital(sentence)
    says = "The answer is" if len(answer.split()) <= 6 else "The page says:"
    ways = [[alone], [f"{says} {answer}."]]
    if title:
        ways.append([f"According to “{title}”, {answer}."])
    return ways + ([[whole], [whole], [alone, whole]] if len(whole) <= LONG else [])


def mistyped(command: str) -> str:
    """What was meant as this command, but is none."""
    verb = next((verb for verb in _MISTYPED if command.startswith(verb)), "")
    return _MISTYPED.get(verb, "Go") + command.removeprefix(verb)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
