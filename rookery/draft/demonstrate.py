"""Scripted demonstrators: they browse as a person might, towards an answer that they know.

What they do is decided by what they are shown, a random number generator and that one secret. They
ask no library and need no model, so that a policy can be taught the text browser from nothing.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from random import Random
from typing import NamedTuple

import msgspec

from rookery.browse.commands import parse
from rookery.browse.fold import fold
from rookery.browse.observation import Observation
from rookery.browse.passages import sentences
from rookery.browse.recording import Recording
from rookery.browse.rules import Task
from rookery.browse.view import neutral
from rookery.browse.words import question_terms, terms
from rookery.cite.syntax import render_numbered
from rookery.draft.rollout import rollouts, scripted
from rookery.draft.target import Target, holds, looked_up
from rookery.draft.wording import (
    LINK,
    LONG,
    QuoteHabits,
    in_a_row,
    mistyped,
    phrases,
    phrasings,
    queries,
    quoted,
    subject,
)
from rookery.records import Answer, Claim, Episode, Library, Question, Quote

BY = "demonstrator"
HURRY = 8
"""actions; with fewer left, the shortest way is taken: search, click, find twice, quote, end"""
COMMANDS = 0.8
"""of the steps of a correct demonstration are commands, at least"""
NEAR = 300
"""characters between what was found and what is then read"""
SHORT = 40
"""characters of a sentence that nobody would quote besides"""
_WHOLE = re.compile(r"[^a-z].*[.!?][\"”’)]*", re.DOTALL)

Actor = Callable[[Observation], str]
"""is shown a state and says one command, in the end the answer"""
Script = Generator[str, Observation, Observation]
"""says commands, is sent what each led to, and returns the last"""


class Habits(msgspec.Struct, frozen=True):
    """How often, from 0 to 1, a demonstrator does what is not the shortest way."""

    poor_query: float = 0.12
    """searches for too little first"""
    wrong_result: float = 0.12
    """opens another result first"""
    detour: float = 0.4
    """where the question names the page: goes there by a link of another page"""
    missing_text: float = 0.08
    """looks for words of the question in a row, which may not be on the page"""
    top: float = 0.2
    """of those: then goes to the top of the page"""
    scroll: float = 0.35
    """scrolls before it looks for words"""
    quotes: QuoteHabits = QuoteHabits()
    extra_quote: float = 0.25
    """quotes one or two other sentences as well"""
    invalid: float = 0.01
    """says something that is no command before one that is"""


def demonstrations(
    tasks: Iterable[Task],
    library: Library,
    seed: int = 0,
    paragraph: Callable[[Question], str] = lambda question: "",
    habits: Habits = Habits(),
    recording: Recording | None = None,
) -> Iterator[Episode]:
    """One episode of each task whose answer the library has; the same under the same seed.

    A question's `gold` says what its answer is, its `source` names the page (`looked_up` says
    how), and `paragraph` may say where on the page. Keep the episodes that `is_correct` holds for:
    some pages cannot be reached, and some are censored under the task's rules. The library is
    shared between threads. Raises Failed where it cannot be searched.
    """
    actors: list[Actor] = []

    def known() -> Iterator[Task]:
        for task in tasks:
            question = task.question
            if target := looked_up(question, library, paragraph(question)):
                random = Random(f"{seed} {len(actors)} {question.id}")
                actors.append(demonstrator(question, target, random, habits))
                yield task

    act = scripted(actors)
    with closing(rollouts(known(), library, act, BY, seed, recording=recording)) as episodes:
        for number, episode in enumerate(episodes):
            actors[number] = _silent  # its page need not be kept
            yield episode


def _silent(observation: Observation) -> str:
    return ""


def is_correct(episode: Episode) -> bool:
    """Whether a claim of the answer and a quote that it cites both hold one accepted answer, and
    at least four steps in five were commands."""
    said = [step.said.text for step in episode.steps[:-1]]
    commands = [command for command in map(parse, said) if command is not None]
    answer = episode.answer
    if answer is None or answer.declined or len(commands) < COMMANDS * len(said):
        return False
    return any(
        holds(answer.text[claim.start : claim.end], gold)
        and any(holds(answer.quotes[number].text, gold) for number in claim.quotes)
        for gold in episode.question.gold
        for claim in answer.claims
    )


def demonstrator(
    question: Question, target: Target, random: Random, habits: Habits = Habits()
) -> Actor:
    """An actor for one session about this question.

    It searches, opens the target's page, looks for the place, quotes it and answers from the
    quote. Where it cannot get there it ends with what it has quoted, which may be nothing.
    """
    person = _Demonstrator(question, target, random, habits)
    script = person.commands()
    next(script)

    def act(observation: Observation) -> str:
        if observation.answering:
            return person.answer(observation.quotes)
        return script.send(observation)

    return act


class _Link(NamedTuple):
    """A link on the screen."""

    number: str
    words: str
    below: str
    """what is shown between this link and the next"""


class _Demonstrator:
    """One demonstrator in one session: each part of the work is a script of commands."""

    def __init__(self, question: Question, target: Target, random: Random, habits: Habits) -> None:
        self.question = question
        self.target = target
        self.random = random
        self.habits = habits
        self.subject = subject(target.page.title)
        self.sentence = " ".join(target.page.text[target.start : target.end].split())

    def commands(self) -> Generator[str, Observation, None]:
        """All of them; is sent the first state, then what each command led to."""
        seen = yield ""
        seen = yield from self.reach(seen)
        if self.can_read(seen):
            seen = yield from self.look(seen)
            yield from self.quote(seen)
        while True:
            yield "End: Answer"

    def say(self, seen: Observation, command: str) -> Script:
        """One command, now and then after something that is none."""
        if self.does(self.habits.invalid, seen):
            yield mistyped(command)
        return (yield command)

    def does(self, share: float, seen: Observation) -> bool:
        """Whether something unnecessary is done now."""
        return self.random.random() < share and seen.left > HURRY

    def is_there(self, seen: Observation) -> bool:
        """Whether the page is open, or what is shown in its place where it cannot be had."""
        return seen.url == self.target.page.url

    def can_read(self, seen: Observation) -> bool:
        """Whether the page itself is open."""
        return self.is_there(seen) and seen.digest == self.target.page.digest

    def is_shown(self, seen: Observation) -> bool:
        """Whether all of the target can be read."""
        return self.begins(seen) and self.target.end <= seen.end

    def begins(self, seen: Observation) -> bool:
        """Whether the target's first words can be read."""
        return self.can_read(seen) and seen.start <= self.target.start < seen.end

    def reach(self, seen: Observation) -> Script:
        """Comes to the page: from where the session begins, or by searching."""
        if seen.url and not self.is_there(seen):
            seen = yield from self.follow(seen)
        for query in self.queries(seen):
            if not self.is_there(seen):
                seen = yield from self.say(seen, f"Search {query}")
                if query == self.subject or self.does(self.habits.wrong_result, seen):
                    seen = yield from self.stray(seen)
                seen = yield from self.choose(seen)
        return seen

    def queries(self, seen: Observation) -> list[str]:
        """What is searched for, until it leads to the page."""
        question, asked = self.question.text, set(question_terms(self.question.text))
        poor, detour = self.does(self.habits.poor_query, seen), self.does(self.habits.detour, seen)
        named = question_terms(self.subject)
        is_named = 2 * len(asked.intersection(named)) >= len(named)
        first = [self.subject] if detour and named and is_named else []
        return first + queries(question, self.subject, self.random, poor)

    def choose(self, seen: Observation) -> Script:
        """Reads down the results for the page's title and opens what bears it."""
        tried: set[str] = set()
        while not self.is_there(seen):
            fitting = [link.number for link in self.leading(seen) if link.number not in tried]
            if fitting:
                tried.add(fitting[0])
                seen = yield from self.say(seen, f"Clicked on link {fitting[0]}")
                if not self.is_there(seen):
                    seen = yield "Back"
            elif seen.scrollbar[1] < 100:
                seen = yield from self.say(seen, "Scrolled down 1")
            else:
                break
        return seen

    def stray(self, seen: Observation) -> Script:
        """Opens another result, looks round or for a link that leads on, and else goes back."""
        titled = _folded(self.subject)
        leading = self.leading(seen)
        others = [link for link in _links(seen) if link not in leading]
        naming = [link for link in others if titled in _folded(link.below)]
        if not others:
            return seen
        number = self.random.choice((naming or others)[:4]).number
        seen = yield from self.say(seen, f"Clicked on link {number}")
        if naming:
            if not self.leading(seen):
                seen = yield from self.say(seen, f"Find in page: {self.subject}")
        elif self.random.random() < 0.5:
            seen = yield from self.say(seen, f"Scrolled down {self.random.choice('112')}")
        seen = yield from self.follow(seen)
        return seen if self.is_there(seen) else (yield from self.say(seen, "Back"))

    def follow(self, seen: Observation) -> Script:
        """Clicks on the first link with the page's title that is shown, if there is one."""
        for link in self.leading(seen)[:1]:
            seen = yield from self.say(seen, f"Clicked on link {link.number}")
        return seen

    def leading(self, seen: Observation) -> list[_Link]:
        """The links that bear the page's title, or the beginning of it where it is cut."""
        title = _folded(self.target.page.title or self.target.page.url)
        return [
            link
            for link in _links(seen)
            if (words := _folded(link.words)) == title
            or (words.endswith("…") and title.startswith(words[:-1]))
        ]

    def look(self, seen: Observation) -> Script:
        """Brings the target on the screen, by words of the question or by scrolling."""
        if self.does(self.habits.missing_text, seen) and not self.is_shown(seen):
            words = in_a_row(self.question.text, self.random)
            seen = yield from self.say(seen, f"Find in page: {words}")
            if self.does(self.habits.top, seen):
                seen = yield from self.say(seen, "Top")
        if self.does(self.habits.scroll, seen):
            seen = yield from self.scroll(seen, self.random.randint(1, 4))
        for clue in self.clues(seen):
            for _ in range(2):
                if not self.is_shown(seen):
                    seen = yield from self.say(seen, f"Find in page: {clue}")
        if not self.is_shown(seen):
            seen = yield from self.scroll(seen, seen.left - HURRY)
        if not self.is_shown(seen):  # its end is cut off, or there is no time left to scroll
            first = " ".join(self.sentence.split()[:5])
            seen = yield from self.say(seen, f"Find in page: {first}")
        return seen

    def scroll(self, seen: Observation, most: int) -> Script:
        """Moves by windows towards the target, now and then too far."""
        for _ in range(most):
            if self.begins(seen):
                break
            away = max(self.target.start - seen.end, seen.start - self.target.start)
            windows = away // max(seen.end - seen.start, 1) + self.random.choice((0, 1, 1, 2))
            way = "up" if self.target.start < seen.start else "down"
            seen = yield from self.say(seen, f"Scrolled {way} {min(max(windows, 1), 3)}")
        return seen

    def clues(self, seen: Observation) -> list[str]:
        """Up to two of those words of the question that soon lead to the target."""
        text = self.target.page.text.lower()
        near = range(self.target.start - NEAR, self.target.end)
        leading = []
        for phrase in phrases(self.question.text):
            places = list(_places(text, phrase.lower()))
            following = [at for at in places if at > seen.start] + places
            if any(at in near for at in following[:2]):
                leading.append(phrase)
        return self.random.sample(leading, min(len(leading), 2))

    def quote(self, seen: Observation) -> Script:
        """Quotes the target, now and then with others before or after it."""
        others = self.others(seen) if self.does(self.habits.extra_quote, seen) else []
        before = self.random.randint(0, len(others))
        for other in others[:before]:
            seen = yield from self.say(seen, f"Quote: {other}")
        typed = quoted(self.sentence, seen.text, self.habits.quotes, self.random)
        for wording in (typed, self.sentence):
            if not any(map(self.supports, seen.quotes)):
                seen = yield from self.say(seen, f"Quote: {wording}")
        for other in others[before:]:
            seen = yield from self.say(seen, f"Quote: {other}")
        return seen

    def others(self, seen: Observation) -> list[str]:
        """One or two other sentences on the screen that have to do with the question."""
        page, asked = self.target.page, set(question_terms(self.question.text))
        spans = sentences(page, seen.start, seen.end) if self.is_shown(seen) else []
        fitting = [
            text
            for start, end in spans
            if end <= self.target.start or self.target.end <= start
            if _WHOLE.fullmatch(text := " ".join(page.text[start:end].split()))
            if SHORT <= len(text) <= LONG and asked & set(terms(text))
        ]
        return self.random.sample(fitting, min(len(fitting), self.random.choice((1, 1, 2))))

    def supports(self, quote: Quote) -> bool:
        """Whether a quote holds the answer and is of the target, or reads like it."""
        same = quote.url == self.target.page.url and self.target.start < quote.end
        of_target = same and quote.start < self.target.end
        alike = " ".join(quote.text.split()) == self.sentence
        return (of_target or alike) and holds(quote.text, self.target.answer)

    def answer(self, quotes: Sequence[Quote]) -> str:
        """What is said in the end, from the quote of the target."""
        numbers = [number for number, quote in enumerate(quotes) if self.supports(quote)]
        if not numbers:
            return "I did not find an answer."
        answer = " ".join(self.target.answer.split())
        ways = phrasings(answer, self.sentence, self.subject)
        cited = [_cited(way, quotes, numbers[0]) for way in self.random.sample(ways, len(ways))]
        return next((text for text in cited if "%<" not in text), cited[0])


def _cited(sentences: Sequence[str], quotes: Sequence[Quote], number: int) -> str:
    """These sentences as an answer in which each cites this quote.

    `%<` stands in it where something within one looks like the end of a sentence.
    """
    text, claims = "", []
    for sentence in sentences:
        start = len(text) + 1 if text else 0
        text = f"{text} {sentence}".strip()
        claims.append(Claim(start, len(text) - text.endswith("."), (number,)))
    return render_numbered(Answer(text, tuple(quotes), tuple(claims)))


def _links(seen: Observation) -> list[_Link]:
    _, *parts = LINK.split(seen.text)
    return [_Link(*parts[at : at + 3]) for at in range(0, len(parts), 3)]


def _places(text: str, words: str) -> Iterator[int]:
    """Where these words stand, or begin a longer word."""
    at = text.find(words)
    while at >= 0:
        if not text[at - 1 : at].isalnum():
            yield at
        at = text.find(words, at + 1)


def _folded(title: str) -> str:
    return " ".join(fold(neutral(title)).text.split())
