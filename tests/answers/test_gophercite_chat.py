"""Claims and quotes of a chat model: windows of pages, asked at the same time, and its replies."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rookery.answers.best_of_n import BestOfNSettings, parse_draft
from rookery.answers.chat_answers import ChatSettings
from rookery.answers.gophercite import (
    NOT_ON_PAGE,
    GopherCiteSettings,
    answer_with_gophercite,
    parse_quote_reply,
)
from rookery.errors import Failed
from rookery.library.call_recording import POLICY_CALLS, CallRecording
from rookery.library.search_index import InMemoryLibrary
from rookery.models.chat_prompts import build_message_fields
from rookery.models.recorded_policies import RecordingPolicy, ReplayPolicy
from rookery.pages.page_reader import read_page
from rookery.quotes.repair import repair_quote
from rookery.quotes.verification import verify_quotes
from rookery.records import Completion, Episode, Failure, Page, Policy, Question, Quote

WHEN = Question("q", "When do rooks build their nests of sticks?")
FILLER = " ".join(f"Word{number} is of no use to anybody who asks." for number in range(80))


def page(name: str, *sections: tuple[str, str]) -> Page:
    text = "".join(f"<h2>{head}</h2><p>{body}</p>" for head, body in sections)
    body = f"<title>{name}</title><main>{text}</main>".encode()
    return read_page(body, f"https://{name.lower()}.org/", "text/html")


ROOKS = page(
    "Rooks",
    ("Nests", "Rooks build nests of sticks in March."),
    ("Nothing", FILLER),
    ("Sticks", "They take the sticks of their nests from neighbours. Each nest has 200 sticks."),
)
JAYS = page("Jays", ("Nests", "Jays build nests of twigs and sticks in April."))
LIBRARY = InMemoryLibrary([ROOKS, JAYS])
MARCH = json.dumps({"claim": "In March.", "quote": "Rooks build nests of sticks in March."})
NONE = json.dumps({"claim": "", "quote": ""})


class Reader:
    """A policy that writes a search, and says of each page, which its prompt names, these things
    in turn."""

    name = "reader"

    def __init__(self, **replies: str | Sequence[str]) -> None:
        self.replies = {n: [r] if isinstance(r, str) else list(r) for n, r in replies.items()}
        self.asked: list[str] = []

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
    ) -> list[Completion]:
        if "You write searches" in prompt:
            return [Completion("sticks of jays") for _ in range(n)]
        self.asked.append(prompt)
        (name,) = [name for name in self.replies if f"]: {name}" in prompt]
        said = self.replies[name]
        return [Completion(said.pop(0) if len(said) > 1 else said[0]) for _ in range(n)]


def ask(policy: Policy, samples: int = 2) -> Episode:
    settings = GopherCiteSettings(window=ChatSettings(context_tokens=4000))
    choosing = BestOfNSettings(samples=samples)
    return answer_with_gophercite(WHEN, LIBRARY, policy, choosing=choosing, settings=settings)


def test_a_window_has_the_sections_of_all_passages_found_in_the_pages_order() -> None:
    reader = Reader(Rooks=MARCH, Jays=NONE)
    episode = ask(reader)
    prompt = next(each for each in reader.asked if "Rooks" in each)
    first, second = (prompt.index(words) for words in ("sticks in March", "200 sticks"))
    assert first < second
    fields = build_message_fields(prompt)
    assert [message["role"] for message in fields["messages"]] == ["system", "user"]
    assert fields["response_format"]["json_schema"]["schema"]["required"] == ["claim", "quote"]
    answer = episode.answer
    assert answer is not None
    assert (answer.text, answer.quotes[0].text) == (
        "In March.",
        "Rooks build nests of sticks in March.",
    )
    assert answer.claims[0].quotes == (0,)


def test_the_models_own_searches_find_what_the_question_does_not() -> None:
    asked = Question("q", "Where do they dwell?")
    reader = Reader(Rooks=NONE, Jays=MARCH.replace("Rooks", "Jays"))
    commands = list[str]()
    episode = answer_with_gophercite(
        asked,
        LIBRARY,
        reader,
        settings=GopherCiteSettings(window=ChatSettings()),
        on_command=commands.append,
    )
    assert commands == ["Search Where do they dwell?", "Search sticks of jays"]
    assert any("]: Jays" in prompt for prompt in reader.asked)
    assert "You write searches" in episode.steps[0].prompt


def test_pages_are_asked_about_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)

    class Together(Reader):
        def complete(
            self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
        ) -> list[Completion]:
            if "♦Reference" in prompt:
                both.wait()  # is broken where one waits for the other
            return super().complete(prompt, n)

    assert ask(Together(Rooks=MARCH, Jays=NONE)).stop == "end"


def test_several_threads_are_recorded_and_replayed_alike(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "calls", POLICY_CALLS) as calls:
        calls.begin_session("s")
        replies = Reader(Rooks=["nonsense", MARCH], Jays=[NONE, MARCH, NONE])
        live = ask(RecordingPolicy(calls, replies, "s"), samples=4)
        for _ in range(3):
            assert ask(ReplayPolicy(calls, "s"), samples=4) == live


def test_where_no_page_answers_the_answer_is_declined() -> None:
    episode = ask(Reader(Rooks=NONE, Jays="None of this page answers the question."))
    answer = episode.answer
    assert answer is not None
    assert (episode.stop, answer.declined) == ("declined", True)
    assert answer.text == (
        "The model says that no page that it was shown answers this. Pages shown: 2.\n\n"
        f"Searched for: {WHEN.text}; sticks of jays"
    )
    pages = {each.digest: each for each in (ROOKS, JAYS)}
    assert answer.quotes
    assert all(each.verified for each in verify_quotes(answer, lambda q: pages[q.digest]))


def test_a_quote_of_other_words_is_asked_for_once_more() -> None:
    invented = json.dumps({"claim": "In May.", "quote": "Rooks are said to nest late in May."})
    reader = Reader(Rooks=[invented, MARCH], Jays=NONE)
    episode = ask(reader)
    assert episode.answer is not None
    assert episode.answer.text == "In March."
    again = build_message_fields(next(each for each in reader.asked if invented in each))
    assert [message["role"] for message in again["messages"]][2:] == ["assistant", "user"]
    fault = "quotes words that are not on “Rooks”: 'Rooks are said to nest late in May.'"
    assert fault in again["messages"][3]["content"]
    never = ask(Reader(Rooks=invented, Jays=NONE))
    assert (never.answer, never.stop) == (None, "bad_syntax")


def test_a_row_of_a_table_may_be_quoted_with_bars_between_its_cells() -> None:
    table = b"<title>Glass</title><table><tr><th>glass<th>frost</tr><tr><td>soda glass<td>no</tr>"
    glass = read_page(table, "https://glass.org/", "text/html")

    def quote(words: str) -> Episode:
        reader = Reader(Glass=json.dumps({"claim": "No.", "quote": words}))
        window = GopherCiteSettings(window=ChatSettings())
        asked = Question("q", "Does soda glass bear frost?")
        return answer_with_gophercite(asked, InMemoryLibrary([glass]), reader, settings=window)

    answer = quote("| soda glass | no |").answer
    assert answer is not None
    assert [each.text for each in answer.quotes] == ["soda glass\tno"]
    assert quote("| soda glass | yes |").answer is None


def test_a_page_that_cannot_be_asked_about_costs_no_other() -> None:
    class Breaking(Reader):
        def complete(
            self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
        ) -> list[Completion]:
            if "♦Reference" in prompt and ("Jays" in prompt or not self.replies["Rooks"][0]):
                raise Failed(Failure("m", "model_broke_off", "ask again"))
            return super().complete(prompt, n)

    episode = ask(Breaking(Rooks=MARCH, Jays=""))
    assert (episode.stop, episode.count_failures()) == ("end", {"model_broke_off": 1})
    assert ask(Breaking(Rooks="", Jays="")).stop == "policy_failed"


UNCITED = "no sentence of it cites anything"
QUOTE = "Rooks build nests of sticks in March."


@pytest.mark.parametrize(
    "said",
    [
        f"```json\n{MARCH}\n```",
        f"Sure! Here is it:\n\n{MARCH}\n\nI hope this helps!",
        f"[{MARCH}]",
        json.dumps({"quote": f"“{QUOTE}”", "title": "Rooks", "claim": "In March [1]."}, indent=1),
        '{"claim": "In March.", "quote": "Rooks build\nnests of sticks in March."}',
        f"%<In March.>%(Rooks)%[{QUOTE}]%",
        f'{{"thought": "{{"}} {MARCH}',
    ],
)
def test_replies_are_read_whatever_stands_around_them(said: str) -> None:
    answer = parse_quote_reply(said, ROOKS, lambda page, words: repair_quote(page, words).quote)
    assert (answer.text, [quote.text for quote in answer.quotes]) == ("In March.", [QUOTE])


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("none", NOT_ON_PAGE),
        ("**None.**", NOT_ON_PAGE),
        ("null", NOT_ON_PAGE),
        ('{"claim": null, "quote": null}', NOT_ON_PAGE),
        ('{"claim": "The page does not say when.", "quote": ""}', NOT_ON_PAGE),
        ("The page does not mention it.", NOT_ON_PAGE),
        ("In March.", UNCITED),
        ('{"claim": "In March.", "quote": ""}', "quotes words that are not on “Rooks”"),
        ('{"claim": "In March.", "quote": "In May"', UNCITED),
        pytest.param('{"claim":' * 2000, UNCITED, id="deep"),
    ],
)
def test_what_is_no_claim_with_a_quote_says_why(said: str, fault: str) -> None:
    def find(page: Page, words: str) -> Quote | None:
        return repair_quote(page, words).quote

    answer, reason, _ = parse_draft(said, lambda text: parse_quote_reply(text, ROOKS, find))
    assert answer is None
    assert reason.startswith(fault)
