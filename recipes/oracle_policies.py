"""Oracle policies: they know the gold answers and act as a person would.

Scripted demonstrators search, read, quote and answer in the text browser.
`list_candidate_actions` lists what they might say, for models that can only choose.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from random import Random
from typing import NamedTuple

import msgspec

from recipes.gold_answers import AnswerLocation, look_up_answer
from rookery.browser.browser import ABBREVIATION_MARK
from rookery.browser.browser_commands import (
    SCREEN_LINK,
    STATE_PATTERN,
    BrowserTask,
    Observation,
    parse_command,
)
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.library.call_recording import CallRecording
from rookery.library.question_files import contains_gold_answer
from rookery.pages.page_text import neutralize_text
from rookery.pages.passages import find_sentences
from rookery.pages.search_terms import (
    QUESTION_WORDS,
    find_language,
    get_keywords,
    get_question_terms,
    split_terms,
)
from rookery.pages.text_folding import fold_text
from rookery.quotes.citation_syntax import render_numbered
from rookery.records import Answer, Claim, Episode, Library, Page, Question, Quote

MAX_REPEATED_SENTENCE = 300
"""maximum characters of a sentence that is repeated whole as an answer"""
_MISTYPED_VERBS = {
    "Search": "search",
    "Clicked on link": "Click",
    "Find in page:": "Find",
    "Quote:": "Quote",
    "Scrolled": "Scroll",
}


class QuoteHabits(msgspec.Struct, frozen=True):
    """Probabilities, from 0 to 1, that a quote is not typed in full as it is on the page."""

    abbreviate: float = 0.4
    """probability of giving the first and the last words only"""
    copy: float = 0.2
    """probability of copying from the screen, with the marks of links"""
    retype: float = 0.1
    """probability of lower case, or of a line break in the middle"""


def strip_site_name(title: str) -> str:
    """Strip a page title from the first separator such as ` | ` or ` - `, or parenthesis, on.

    `Crows | The Bird Page` and `Crows (birds)` become `Crows`.
    """
    return re.split(r"\s[|«·–—-]\s|\s*\(", title)[0].strip() or title


def vary_queries(question: str, title: str, random: Random, poor: bool) -> list[str]:
    """Draw queries for a question, to be tried in order until one finds the page of this title.

    Up to four: the question and its keywords in random wordings and order, the title with a
    keyword, and the title itself. With `poor` a single keyword of the question comes before these.
    """
    words = get_keywords(question) or [question]
    some = [random.choice(words)] if poor else []
    query = random.choice((question, question.rstrip("?").lower()))
    short = random.choice((" ".join(words), " ".join(words).lower()))
    plain = random.sample((query, short), 2)
    wordings = [*some, *plain, f"{title} {random.choice(words)}", title]
    return [wording for wording in wordings if wording]


def list_phrases(question: str) -> list[str]:
    """List the phrases of one to three words of a question that begin and end with a keyword.

    Keywords have three letters or more and are no question words.
    """
    words = re.findall(r"\w+", question)
    matters = [word.lower() not in QUESTION_WORDS and len(word) > 2 for word in words]
    return [
        " ".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, min(start + 3, len(words)) + 1)
        if matters[start] and matters[end - 1]
    ]


def draw_consecutive_words(question: str, random: Random) -> str:
    """Draw up to five consecutive words of a question, at least three if it has them.

    Pages may well not contain them.
    """
    words = question.rstrip("?").split()
    start = random.randint(0, max(0, len(words) - 4))
    return " ".join(words[start : start + random.randint(3, 5)])


def vary_quote(sentence: str, screen: str, habits: QuoteHabits, random: Random) -> str:
    """Return a sentence as a person might type it in a quote command.

    It is abbreviated, copied from the screen with the marks of links, in lower case, broken by a
    line break, or as it is, drawn with the probabilities of `habits`.
    """
    chance = random.random()
    if chance < habits.abbreviate:
        return abbreviate_quote(sentence, screen, random.randint(3, 5)) or sentence
    if chance < habits.abbreviate + habits.copy:
        return copy_from_screen(sentence, screen) or sentence
    if chance < habits.abbreviate + habits.copy + habits.retype:
        words = sentence.split()
        middle = len(words) // 2
        broken = f"{' '.join(words[:middle])}\n{' '.join(words[middle:])}"
        return random.choice((sentence.lower(), broken))
    return sentence


def abbreviate_quote(sentence: str, screen: str, least: int) -> str:
    """Abbreviate a sentence to `start━end`, unambiguous on this screen (WebGPT, appendix A).

    Each part has at least `least` words, and no more than needed. Empty where that saves little.
    """
    words = sentence.split()
    screen_text = " ".join(SCREEN_LINK.sub(r"\2", screen).split())
    for size in range(least, len(words) // 2 - 2):
        start, end = " ".join(words[:size]), " ".join(words[-size:])
        once = sentence.find(end, len(start)) == len(sentence) - len(end)
        if once and screen_text.find(start) == screen_text.find(sentence) >= 0:
            return f"{start}{ABBREVIATION_MARK}{end}"
    return ""


def copy_from_screen(sentence: str, screen: str) -> str:
    """Return the sentence as the screen shows it, with marks of links; empty if it is not shown."""
    unmarked = SCREEN_LINK.sub(_blank_link_marks, screen)
    letters = [at for at, letter in enumerate(unmarked) if letter.isalnum()]
    sentence_letters = "".join(filter(str.isalnum, sentence))
    start = "".join(unmarked[at] for at in letters).find(sentence_letters)
    if start < 0 or not sentence_letters:
        return ""
    low, high = letters[start], letters[start + len(sentence_letters) - 1] + 1
    low -= len(re.split(r"\s", screen[:low])[-1])
    return screen[low : high + len(re.split(r"\s", screen[high:])[0])]


def _blank_link_marks(link: re.Match[str]) -> str:
    """Replace the mark of a link by spaces around its text, keeping the length."""
    return " " * (link.start(2) - link.start()) + link[2] + " " * (link.end() - link.end(2))


def list_phrasings(answer: str, sentence: str, title: str) -> list[list[str]]:
    """List ways to state an answer that a sentence of a page contains; each is a list of sentences.

    With a title, one of them names the page. The page's sentence itself is used if it is short.
    Some ways stand in the list twice, so that they are drawn more often.
    """
    answer = answer.rstrip(".")
    alone, whole = _capitalize_first(f"{answer}."), _capitalize_first(sentence)
    says = "The answer is" if len(answer.split()) <= 6 else "The page says:"
    ways = [[alone], [f"{says} {answer}."]]
    if title:
        ways.append([f"According to “{title}”, {answer}."])
    return ways + (
        [[whole], [whole], [alone, whole]] if len(whole) <= MAX_REPEATED_SENTENCE else []
    )


def mistype_command(command: str) -> str:
    """Misspell a command so that the text browser does not recognise it."""
    verb = next((verb for verb in _MISTYPED_VERBS if command.startswith(verb)), "")
    return _MISTYPED_VERBS.get(verb, "Go") + command.removeprefix(verb)


def _capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


_REFERENCE = re.compile(r"■\[(?P<number>[0-9]+)\] (?P<title>[^\n]*)\n\n(?P<text>[^■]*)(?=■)")
_CLUE = re.compile(r"\d(?:[\d,.]*\d)?|[A-Z]\w+(?: [A-Z]\w+)*")
"""a number or a capitalised name, as short questions ask for"""
_ABBREVIATION_WORDS = (3, 4, 5)
"""minimum words at either end of an abbreviated quote, as demonstrators draw them"""
NO_ANSWER = "I did not find an answer."


def list_candidate_actions(prompt: str) -> list[str]:
    """List the distinct commands, or short answers, that may follow a prompt; at least one.

    They are made from the prompt alone. Queries are words of the question, quotes are sentences on
    the screen, and answers are numbers or names in one of the quotes, which they cite.
    """
    state = STATE_PATTERN.search(prompt)
    found = _list_answers(prompt) if state is None else _list_commands(**state.groupdict())
    return list(dict.fromkeys(found))


def _list_commands(question: str, quotes: str, title: str, text: str) -> list[str]:
    if not title or title.startswith("Search results for: "):
        clicks = [f"Clicked on link {number}" for number, _ in SCREEN_LINK.findall(text)]
        return clicks + [f"Search {query}" for query in _list_queries(question)]
    screen_text = SCREEN_LINK.sub(r"\2", text)
    whole = [words for line in screen_text.splitlines() for words in _split_sentences(line)]
    short = [
        abbreviate_quote(sentence, screen_text, least)
        for sentence in whole
        for least in _ABBREVIATION_WORDS
    ]
    ends = ["End: Answer"] if quotes else []
    return ["Back", *ends, *(f"Quote: {words}" for words in whole + short if words)]


def _split_sentences(line: str) -> list[str]:
    plain = " ".join(line.split())
    found = [plain[start:end] for start, end in find_sentences(Page("", "", plain), 0, len(plain))]
    return [sentence for sentence in found if sentence.count(" ") >= min(_ABBREVIATION_WORDS)]


def _list_queries(question: str) -> list[str]:
    some = " ".join(get_keywords(question)) or question
    return [question, question.rstrip("?").lower(), some, some.lower()]


def _list_answers(prompt: str) -> list[str]:
    return [
        f"{way.rstrip('.')} [{reference['number']}]."
        for reference in _REFERENCE.finditer(prompt)
        for clue in _CLUE.findall(reference["text"])
        for [way] in list_phrasings(clue, "", strip_site_name(reference["title"]))[:3]
        if way
    ] or [NO_ANSWER]


DEMONSTRATOR_NAME = "demonstrator"
HURRY_ACTIONS = 8
"""actions left from which on detours are skipped: search, click, find twice, quote and end
remain"""
MIN_COMMAND_SHARE = 0.8
"""minimum share of valid commands among the steps of a correct demonstration"""
NEAR_CHARACTERS = 300
"""characters before the target within which a found phrase leads to it"""
MIN_EXTRA_QUOTE = 40
"""minimum characters of a sentence that is quoted additionally"""
_WHOLE_SENTENCE = re.compile(r"[^a-z].*[.!?][\"”’)]*", re.DOTALL)

ScriptedActor = Callable[[Observation], str]
"""maps an observation to the next command, at the end to the answer"""
CommandScript = Generator[str, Observation, Observation]
"""yields commands, is sent the observation after each, and returns the last observation"""


class DemonstratorHabits(msgspec.Struct, frozen=True):
    """Probabilities, from 0 to 1, of a demonstrator's deviations from the shortest way."""

    poor_query: float = 0.12
    """probability of searching for a single word first"""
    wrong_result: float = 0.12
    """probability of opening another search result first"""
    detour: float = 0.4
    """probability of reaching the page by a link of another page, if the question names the page"""
    missing_text: float = 0.08
    """probability of finding consecutive words of the question, which may not be on the page"""
    top: float = 0.2
    """probability of going to the top of the page after that"""
    scroll: float = 0.35
    """probability of scrolling before finding words"""
    quotes: QuoteHabits = QuoteHabits()
    """ways to type quotes"""
    extra_quote: float = 0.25
    """probability of quoting one or two other sentences as well"""
    invalid: float = 0.01
    """probability of a misspelt command before each command"""


def generate_demonstrations(
    tasks: Iterable[BrowserTask],
    library: Library,
    seed: int = 0,
    paragraph: Callable[[Question], str] = lambda question: "",
    habits: DemonstratorHabits = DemonstratorHabits(),
    recording: CallRecording | None = None,
) -> Iterator[Episode]:
    """Yield one episode for each task whose gold answer the library has, deterministic by seed.

    The question's `gold` and `source` lead to the answer as in `look_up_answer`; `paragraph` may
    return the text that contains it. Some episodes fail, since a page cannot be reached or is
    censored under the task's rules: keep those for which `is_correct_demonstration` is true. The
    library is shared between threads. Raises Failed where it cannot be searched.
    """
    actors: list[ScriptedActor] = []

    def list_answerable_tasks() -> Iterator[BrowserTask]:
        for task in tasks:
            question = task.question
            if target := look_up_answer(question, library, paragraph(question)):
                random = Random(f"{seed} {len(actors)} {question.id}")
                actors.append(make_demonstrator(question, target, random, habits))
                yield task

    act = make_scripted_policy(actors)
    with closing(
        run_rollouts(
            list_answerable_tasks(), library, act, DEMONSTRATOR_NAME, seed, recording=recording
        )
    ) as episodes:
        for number, episode in enumerate(episodes):
            actors[number] = _say_nothing  # frees the page that the actor holds
            yield episode


def _say_nothing(observation: Observation) -> str:
    return ""


def is_correct_demonstration(episode: Episode) -> bool:
    """Return True if the answer is right and supported, and enough steps were valid commands.

    A claim and a quote that it cites must both contain one gold answer, and at least four steps in
    five must be valid commands.
    """
    command_texts = [step.said.text for step in episode.steps[:-1]]
    commands = [command for command in map(parse_command, command_texts) if command is not None]
    answer = episode.answer
    if answer is None or answer.declined or len(commands) < MIN_COMMAND_SHARE * len(command_texts):
        return False
    return any(
        contains_gold_answer(answer.text[claim.start : claim.end], gold)
        and any(contains_gold_answer(answer.quotes[number].text, gold) for number in claim.quotes)
        for gold in episode.question.gold
        for claim in answer.claims
    )


def make_demonstrator(
    question: Question,
    target: AnswerLocation,
    random: Random,
    habits: DemonstratorHabits = DemonstratorHabits(),
) -> ScriptedActor:
    """Make an actor for one browser session about this question.

    It searches, opens the target's page, finds the target, quotes it and answers from the quote.
    Where it cannot reach the target it ends with the quotes it has, possibly none.
    """
    person = _Demonstrator(question, target, random, habits)
    script = person.script_commands()
    next(script)

    def choose_action(observation: Observation) -> str:
        if observation.answering:
            return person.write_answer(observation.quotes)
        return script.send(observation)

    return choose_action


class _ScreenLink(NamedTuple):
    """A link on the screen."""

    number: str
    words: str
    """text of the link"""
    below: str
    """text between this link and the next"""


class _Demonstrator:
    """A demonstrator in one session; its parts are generators of commands."""

    def __init__(
        self, question: Question, target: AnswerLocation, random: Random, habits: DemonstratorHabits
    ) -> None:
        self.question = question
        self.target = target
        self.random = random
        self.habits = habits
        self.subject = strip_site_name(target.page.title)
        self.sentence = " ".join(target.page.text[target.start : target.end].split())

    def script_commands(self) -> Generator[str, Observation, None]:
        """Yield all commands; is sent the first observation, then the one after each command."""
        seen = yield ""
        seen = yield from self.reach_page(seen)
        if self.is_page_readable(seen):
            seen = yield from self.look_for_target(seen)
            yield from self.quote_target(seen)
        while True:
            yield "End: Answer"

    def say_command(self, observation: Observation, command: str) -> CommandScript:
        """Yield one command, sometimes a misspelt one before it."""
        if self.chooses_to(self.habits.invalid, observation):
            yield mistype_command(command)
        return (yield command)

    def chooses_to(self, share: float, observation: Observation) -> bool:
        """Draw if an optional action of this probability is done; never with few actions left."""
        return self.random.random() < share and observation.left > HURRY_ACTIONS

    def is_page_open(self, observation: Observation) -> bool:
        """Return True if the target's address is open, be it as an error page."""
        return observation.url == self.target.page.url

    def is_page_readable(self, observation: Observation) -> bool:
        """Return True if the target's page is open with the expected text."""
        return self.is_page_open(observation) and observation.digest == self.target.page.digest

    def is_shown(self, observation: Observation) -> bool:
        """Return True if the whole target is on the screen."""
        return self.is_start_shown(observation) and self.target.end <= observation.end

    def is_start_shown(self, observation: Observation) -> bool:
        """Return True if the target's beginning is on the screen."""
        return (
            self.is_page_readable(observation)
            and observation.start <= self.target.start < observation.end
        )

    def reach_page(self, observation: Observation) -> CommandScript:
        """Open the target's page, by a link of the first page or by searching."""
        if observation.url and not self.is_page_open(observation):
            observation = yield from self.follow_title_link(observation)
        for query in self.choose_queries(observation):
            if not self.is_page_open(observation):
                observation = yield from self.say_command(observation, f"Search {query}")
                if query == self.subject or self.chooses_to(self.habits.wrong_result, observation):
                    observation = yield from self.open_wrong_result(observation)
                observation = yield from self.open_result(observation)
        return observation

    def choose_queries(self, observation: Observation) -> list[str]:
        """Draw the queries that are tried until one leads to the page."""
        question, question_terms = self.question.text, set(get_question_terms(self.question.text))
        poor, detour = (
            self.chooses_to(self.habits.poor_query, observation),
            self.chooses_to(self.habits.detour, observation),
        )
        named = get_question_terms(self.subject)
        is_named = 2 * len(question_terms.intersection(named)) >= len(named)
        first = [self.subject] if detour and named and is_named else []
        return first + vary_queries(question, self.subject, self.random, poor)

    def open_result(self, observation: Observation) -> CommandScript:
        """Scroll down the search results and open those with the page's title."""
        tried_urls: set[str] = set()
        while not self.is_page_open(observation):
            fitting = [
                link.number
                for link in self.find_title_links(observation)
                if link.number not in tried_urls
            ]
            if fitting:
                tried_urls.add(fitting[0])
                observation = yield from self.say_command(
                    observation, f"Clicked on link {fitting[0]}"
                )
                if not self.is_page_open(observation):
                    observation = yield "Back"
            elif observation.scrollbar[1] < 100:
                observation = yield from self.say_command(observation, "Scrolled down 1")
            else:
                break
        return observation

    def open_wrong_result(self, observation: Observation) -> CommandScript:
        """Open another result, follow a link from there to the target, or else go back."""
        titled = _fold_title(self.subject)
        leading = self.find_title_links(observation)
        others = [link for link in _parse_links(observation) if link not in leading]
        naming = [link for link in others if titled in _fold_title(link.below)]
        if not others:
            return observation
        number = self.random.choice((naming or others)[:4]).number
        observation = yield from self.say_command(observation, f"Clicked on link {number}")
        if naming:
            if not self.find_title_links(observation):
                observation = yield from self.say_command(
                    observation, f"Find in page: {self.subject}"
                )
        elif self.random.random() < 0.5:
            observation = yield from self.say_command(
                observation, f"Scrolled down {self.random.choice('112')}"
            )
        observation = yield from self.follow_title_link(observation)
        return (
            observation
            if self.is_page_open(observation)
            else (yield from self.say_command(observation, "Back"))
        )

    def follow_title_link(self, observation: Observation) -> CommandScript:
        """Click on the first link with the page's title on the screen, if there is one."""
        for link in self.find_title_links(observation)[:1]:
            observation = yield from self.say_command(observation, f"Clicked on link {link.number}")
        return observation

    def find_title_links(self, observation: Observation) -> list[_ScreenLink]:
        """Return the links with the page's title, or with its beginning where it is truncated."""
        title = _fold_title(self.target.page.title or self.target.page.url)
        return [
            link
            for link in _parse_links(observation)
            if (words := _fold_title(link.words)) == title
            or (words.endswith("…") and title.startswith(words[:-1]))
        ]

    def look_for_target(self, observation: Observation) -> CommandScript:
        """Bring the target onto the screen, by finding words of the question or by scrolling."""
        if self.chooses_to(self.habits.missing_text, observation) and not self.is_shown(
            observation
        ):
            words = draw_consecutive_words(self.question.text, self.random)
            observation = yield from self.say_command(observation, f"Find in page: {words}")
            if self.chooses_to(self.habits.top, observation):
                observation = yield from self.say_command(observation, "Top")
        if self.chooses_to(self.habits.scroll, observation):
            observation = yield from self.scroll_to_target(observation, self.random.randint(1, 4))
        for clue in self.choose_clues(observation):
            for _ in range(2):
                if not self.is_shown(observation):
                    observation = yield from self.say_command(observation, f"Find in page: {clue}")
        if not self.is_shown(observation):
            observation = yield from self.scroll_to_target(
                observation, observation.left - HURRY_ACTIONS
            )
        if not self.is_shown(observation):  # its end is cut off, or there is no time left to scroll
            first = " ".join(self.sentence.split()[:5])
            observation = yield from self.say_command(observation, f"Find in page: {first}")
        return observation

    def scroll_to_target(self, observation: Observation, most: int) -> CommandScript:
        """Scroll by windows towards the target, at most `most` times and sometimes too far."""
        for _ in range(most):
            if self.is_start_shown(observation):
                break
            away = max(self.target.start - observation.end, observation.start - self.target.start)
            windows = away // max(observation.end - observation.start, 1) + self.random.choice(
                (0, 1, 1, 2)
            )
            way = "up" if self.target.start < observation.start else "down"
            observation = yield from self.say_command(
                observation, f"Scrolled {way} {min(max(windows, 1), 3)}"
            )
        return observation

    def choose_clues(self, observation: Observation) -> list[str]:
        """Draw up to two phrases of the question that lead to the target if found at most twice."""
        text = self.target.page.text.lower()
        near = range(self.target.start - NEAR_CHARACTERS, self.target.end)
        leading = []
        for phrase in list_phrases(self.question.text):
            places = list(_find_word_starts(text, phrase.lower()))
            following = [at for at in places if at > observation.start] + places
            if any(at in near for at in following[:2]):
                leading.append(phrase)
        return self.random.sample(leading, min(len(leading), 2))

    def quote_target(self, observation: Observation) -> CommandScript:
        """Quote the target, sometimes with other sentences before or after it."""
        others = (
            self.choose_extra_quotes(observation)
            if self.chooses_to(self.habits.extra_quote, observation)
            else []
        )
        before = self.random.randint(0, len(others))
        for other in others[:before]:
            observation = yield from self.say_command(observation, f"Quote: {other}")
        typed = vary_quote(self.sentence, observation.text, self.habits.quotes, self.random)
        for wording in (typed, self.sentence):
            if not any(map(self.supports_answer, observation.quotes)):
                observation = yield from self.say_command(observation, f"Quote: {wording}")
        for other in others[before:]:
            observation = yield from self.say_command(observation, f"Quote: {other}")
        return observation

    def choose_extra_quotes(self, observation: Observation) -> list[str]:
        """Draw one or two other sentences on the screen that share words with the question."""
        page = self.target.page
        language = find_language(page.text)
        question_terms = set(get_question_terms(self.question.text, language))
        spans = (
            find_sentences(page, observation.start, observation.end)
            if self.is_shown(observation)
            else []
        )
        fitting = [
            text
            for start, end in spans
            if end <= self.target.start or self.target.end <= start
            if _WHOLE_SENTENCE.fullmatch(text := " ".join(page.text[start:end].split()))
            if MIN_EXTRA_QUOTE <= len(text) <= MAX_REPEATED_SENTENCE
            and question_terms & set(split_terms(text, language))
        ]
        return self.random.sample(fitting, min(len(fitting), self.random.choice((1, 1, 2))))

    def supports_answer(self, quote: Quote) -> bool:
        """Return True if a quote contains the answer and overlaps the target or has its text."""
        same = quote.url == self.target.page.url and self.target.start < quote.end
        of_target = same and quote.start < self.target.end
        alike = " ".join(quote.text.split()) == self.sentence
        return (of_target or alike) and contains_gold_answer(quote.text, self.target.answer)

    def write_answer(self, quotes: Sequence[Quote]) -> str:
        """Return the final answer, citing the quote of the target; a fixed text without one."""
        numbers = [number for number, quote in enumerate(quotes) if self.supports_answer(quote)]
        if not numbers:
            return "I did not find an answer."
        answer = " ".join(self.target.answer.split())
        ways = list_phrasings(answer, self.sentence, self.subject)
        cited = [
            _render_cited(way, quotes, numbers[0]) for way in self.random.sample(ways, len(ways))
        ]
        return next((text for text in cited if "%<" not in text), cited[0])


def _render_cited(sentences: Sequence[str], quotes: Sequence[Quote], number: int) -> str:
    """Render sentences as an answer in which each cites this quote.

    The rendering contains `%<` where a part of a sentence looks like a sentence's end.
    """
    text, claims = "", []
    for sentence in sentences:
        start = len(text) + 1 if text else 0
        text = f"{text} {sentence}".strip()
        claims.append(Claim(start, len(text) - text.endswith("."), (number,)))
    return render_numbered(Answer(text, tuple(quotes), tuple(claims)))


def _parse_links(observation: Observation) -> list[_ScreenLink]:
    _, *parts = SCREEN_LINK.split(observation.text)
    return [_ScreenLink(*parts[at : at + 3]) for at in range(0, len(parts), 3)]


def _find_word_starts(text: str, words: str) -> Iterator[int]:
    """Yield the places where these words begin, be it as the beginning of a longer word."""
    at = text.find(words)
    while at >= 0:
        if not text[at - 1 : at].isalnum():
            yield at
        at = text.find(words, at + 1)


def _fold_title(title: str) -> str:
    return " ".join(fold_text(neutralize_text(title)).text.split())
