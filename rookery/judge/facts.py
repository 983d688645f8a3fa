"""Comparisons made from fact-checking data, with nobody asked (GopherCite, appendix E.2).

Claims and pages are files in FEVER's format. What is true is what its labels say; it knows nothing
of how good a comparison is to learn from.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from random import Random
from string import Template
from typing import Literal, NamedTuple
from urllib.parse import quote as quoted

import msgspec

from rookery.judge.lines import read_lines
from rookery.records import (
    Answer,
    Block,
    Claim,
    Comparison,
    Failed,
    Failure,
    Page,
    Policy,
    Question,
    Quote,
    Rating,
)

Kind = Literal["A", "B", "A2", "B2"]
BY = "facts"
WIKI = "https://en.wikipedia.org/wiki/"
_ASKED = (
    "{}?",
    "Is it true that {}?",
    "Is it correct to say that {}?",
    "{}. Do you agree?",
)
_YES = ("Yes.", "This is correct.", "It is true.")
_NO = ("No.", "This is not correct.", "It is not true.")
_MARKS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
    "``": '"',
    "''": '"',
}
"""FEVER's pages were cut into words by a tool that writes these marks so"""
_TRIES = 100
"""to draw a sentence of a page that is no evidence"""
Place = tuple[str, int]
"""a page's id, and the number of a sentence there"""


class Fact(msgspec.Struct, frozen=True):
    """A claim, and whether the evidence supports or refutes it."""

    id: str
    text: str
    """without a full stop"""
    is_true: bool
    evidence: tuple[tuple[Place, ...], ...]
    """each is evidence enough"""


class Wiki(msgspec.Struct, frozen=True):
    """A page, and where its sentences stand: by their numbers, text[start:end]."""

    page: Page
    sentences: dict[int, tuple[int, int]]

    def quote(self, number: int) -> Quote:
        """This sentence, verbatim."""
        return self.page.quote(*self.sentences[number])


class Made(NamedTuple):
    """One comparison, and what is known of its answers one by one."""

    comparison: Comparison
    ratings: tuple[Rating, ...]
    """the better answer is supported and plausible, the other not supported"""


class FactSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is made of each claim."""

    kinds: tuple[Kind, ...] = ("A", "B", "A2", "B2")
    seed: int = 0
    """of wordings, of quotes that support nothing, and of the order of the answers"""


class _Claimed(msgspec.Struct):
    id: int | str
    claim: str
    label: str = ""
    evidence: list[list[tuple[object, object, str | None, int | None]]] = []


class _Wikipedia(msgspec.Struct):
    id: str
    lines: str = ""


def read_facts(path: Path) -> tuple[list[Fact], Counter[str]]:
    """The claims that evidence supports or refutes; and how many others there are, by the reason.

    Raises Failed: not_found, bad_line.
    """
    found: list[Fact] = []
    left_out: Counter[str] = Counter()
    for each in read_lines(path, _Claimed):
        groups = [
            tuple(
                (_id(title), number) for *_, title, number in group if title and number is not None
            )
            for group in each.evidence
        ]
        evidence = tuple(dict.fromkeys(group for group in groups if group))
        if each.label not in ("SUPPORTS", "REFUTES") or not evidence:
            left_out["claims without evidence for or against them"] += 1
            continue
        text = _plain(each.claim).strip().removesuffix(".")
        found.append(Fact(str(each.id), text, each.label == "SUPPORTS", evidence))
    return found, left_out


def read_wiki(paths: Iterable[Path], facts: Iterable[Fact]) -> dict[str, Wiki]:
    """The pages that are evidence for or against these claims, by their ids.

    All others of the dump's five million are read over. Raises Failed: not_found, bad_line.
    """
    wanted = {page for fact in facts for group in fact.evidence for page, _ in group}
    return {
        name: _wiki(name, each.lines)
        for path in paths
        for each in read_lines(path, _Wikipedia)
        if (name := _id(each.id)) in wanted
    }


def _id(name: str) -> str:
    """FEVER's claims and pages compose accents differently."""
    return unicodedata.normalize("NFC", name)


def _plain(text: str) -> str:
    for mark, written in _MARKS.items():
        text = text.replace(mark, written)
    return text


def _wiki(name: str, lines: str) -> Wiki:
    text = ""
    sentences: dict[int, tuple[int, int]] = {}
    for line in lines.split("\n"):
        number, *rest = line.split("\t")
        words = _plain(rest[0]).strip() if rest else ""
        if number.isdecimal() and words:
            start = len(text) + 1 if text else 0
            text = f"{text} {words}" if text else words
            sentences[int(number)] = (start, len(text))
    title = _plain(name.replace("_", " "))
    url = WIKI + quoted(_plain(name), safe="(),:")
    blocks = (Block(0, len(text), "paragraph"),) if text else ()
    return Wiki(Page(url, title, text, blocks), sentences)


Asking = Callable[[Fact, str], str]
"""a question that a claim about the page of this title answers; empty: none"""


def about(fact: Fact, title: str) -> str:
    """A question that any claim about a page answers."""
    return f"What can be said about {title}?"


def asking(policy: Policy) -> Asking:
    """Questions written by a policy that is shown examples (GopherCite, appendix E.2).

    Raises Failed where the policy does.
    """
    text = files("rookery.judge").joinpath("prompts", "claim_question.txt").read_text("utf-8")

    def ask(fact: Fact, title: str) -> str:
        prompt = Template(text.rstrip("\n")).substitute(claim=f"{fact.text}.")
        said = policy.complete(prompt)[0].text.strip().partition("\n")[0].strip()
        return said if said.endswith("?") else ""

    return ask


def comparisons(
    facts: Sequence[Fact],
    wiki: dict[str, Wiki],
    settings: FactSettings = FactSettings(),
    ask: Asking = about,
) -> tuple[list[Made], Counter[str]]:
    """Comparisons of these kinds of each claim; and how many were not made, by the reason.

    A: a question that is answered with yes or no. Both cite the evidence. B: a question that the
    claim answers, beside its denial. Both cite the evidence. A2 and B2: the true one of these
    answers with the evidence, beside the same words with as many sentences from other pages. What
    refutes a claim supports its denial, so that in B2 too the true answer of a refuted claim is its
    denial. The same under the same seed, whatever the other claims are but for the pages that they
    bring. Raises Failed (no_other_page), and what `ask` raises.
    """
    made: list[Made] = []
    left_out: Counter[str] = Counter()
    names = sorted(name for name, each in wiki.items() if each.sentences)
    for fact in facts:
        places = _places(fact, wiki)
        if not places:
            left_out["claims whose evidence is on no page that was read"] += 1
            continue
        for kind in settings.kinds:
            random = Random(f"{settings.seed} {kind} {fact.id}")
            question = _question(fact, kind, wiki[places[0][0]].page.title, ask, random)
            if question is None:
                left_out["claims for which no question was written"] += 1
                continue
            made.append(_made(fact, kind, question, _quotes(places, wiki), random, names, wiki))
    return made, left_out


def _places(fact: Fact, wiki: dict[str, Wiki]) -> tuple[Place, ...]:
    """The shortest evidence of which every sentence is there; the first of equals."""
    whole = [
        group
        for group in fact.evidence
        if all(name in wiki and number in wiki[name].sentences for name, number in group)
    ]
    return min(whole, key=len, default=())


def _quotes(places: Sequence[Place], wiki: dict[str, Wiki]) -> tuple[Quote, ...]:
    return tuple(wiki[name].quote(number) for name, number in dict.fromkeys(places))


def _question(fact: Fact, kind: Kind, title: str, ask: Asking, random: Random) -> Question | None:
    in_words = random.choice(_ASKED).format(fact.text) if kind[0] == "A" else ask(fact, title)
    return Question(f"{fact.id}/{kind}", in_words, source=BY) if in_words else None


def _made(
    fact: Fact,
    kind: Kind,
    question: Question,
    quotes: tuple[Quote, ...],
    random: Random,
    names: Sequence[str],
    wiki: dict[str, Wiki],
) -> Made:
    if kind[0] == "A":
        said = [random.choice(_YES), random.choice(_NO)]
    else:
        said = [f"{fact.text}.", f"It is not true that {fact.text}."]
    true, false = said if fact.is_true else said[::-1]
    better = _answer(true, quotes)
    if kind in ("A", "B"):
        worse = _answer(false, quotes)
    else:
        worse = _answer(true, _unrelated(quotes, random, names, wiki))
    by = f"{BY}/{kind}"
    ratings = (
        Rating(question, better, "supported", 1.0, by),
        Rating(question, better, "plausible", 1.0, by),
        Rating(question, worse, "supported", 0.0, by),
    )
    if random.random() < 0.5:  # the better one must not always be the first
        return Made(Comparison(question, (better, worse), (1.0, 0.0), by), ratings)
    return Made(Comparison(question, (worse, better), (0.0, 1.0), by), ratings)


def _answer(text: str, quotes: tuple[Quote, ...]) -> Answer:
    return Answer(text, quotes, (Claim(0, len(text), tuple(range(len(quotes)))),))


def _unrelated(
    quotes: Sequence[Quote], random: Random, names: Sequence[str], wiki: dict[str, Wiki]
) -> tuple[Quote, ...]:
    """As many sentences from pages that the evidence is not from."""
    related = {quote.digest for quote in quotes}
    drawn: dict[Quote, None] = {}
    for _ in range(_TRIES * len(quotes)):
        page = wiki[random.choice(names)]
        if page.page.digest not in related:
            drawn[page.quote(random.choice(tuple(page.sentences)))] = None
        if len(drawn) == len(quotes):
            return tuple(drawn)
    detail = "there are too few other pages to take sentences from: give more claims and pages"
    raise Failed(Failure(quotes[0].title, "no_other_page", detail))
