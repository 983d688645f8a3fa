"""Scripted demonstrators: right answers by way of what was shown, in many ways, always again."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.gold_answers import AnswerLocation, locate_answer, look_up_answer
from recipes.oracle_policies import (
    DemonstratorHabits,
    QuoteHabits,
    abbreviate_quote,
    copy_from_screen,
    generate_demonstrations,
    is_correct_demonstration,
    make_demonstrator,
    mistype_command,
    strip_site_name,
    vary_quote,
)
from recipes.squad_site import render_pages
from rookery.browser.browser import browse_library, find_quote
from rookery.browser.browser_commands import BrowserRules, BrowserTask, parse_command
from rookery.browser.page_view import OpenedPage
from rookery.browser.rollout import replay_episode
from rookery.errors import Failed
from rookery.library.call_recording import CallRecording
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import (
    SquadArticle,
    bundled_questions,
    contains_gold_answer,
)
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.pages.search_terms import split_terms
from rookery.quotes.citation_syntax import parse_numbered
from rookery.records import (
    Answer,
    Claim,
    Completion,
    Episode,
    Failure,
    Hit,
    Library,
    Page,
    Question,
    Step,
)

ASKED = bundled_questions()
FREE = BrowserRules(overlap=0)
PLAIN = DemonstratorHabits(0, 0, 0, 0, 0, 0, QuoteHabits(0, 0, 0), 0, 0)
"""the shortest way"""


def filler(about: str, paragraphs: int) -> list[str]:
    return [
        " ".join(f"The {about} of parish {n}.{m} is older than its church." for m in range(14))
        for n in range(paragraphs)
    ]


NESTS = (
    "The steward of Sir Henry Dale counted 412 nests in the elms of Hollin Wood in spring 1907, "
    "and wrote to the Rook Society that no other wood in the county had as many."
)
AGAIN = "In spring 1951 the elms of Hollin Wood still had 412 birds."
SICK = "Of all woods, Hollin Wood lost the most elms to the sickness."
ARTICLES = [
    SquadArticle(
        "Hollin_Wood.html",
        "Hollin Wood",
        (*filler("elm", 9), f"Much was written. {NESTS} {AGAIN}", *filler("oak", 9)),
    ),
    SquadArticle("Elm.html", "Elm sickness", (SICK, *filler("sickness", 3))),
    SquadArticle("Rook_Society.html", "Rook Society", tuple(filler("society", 3))),
    SquadArticle("Dale.html", "Sir Henry Dale", ("Sir Henry Dale never saw Hollin Wood again.",)),
]
NEST_COUNT = Question(
    "n", "How many nests did the steward count in Hollin Wood?", (), ("412",), "Hollin_Wood.html"
)


def web(articles: Sequence[SquadArticle] = ARTICLES) -> InMemoryLibrary:
    site = zip(articles, render_pages(articles), strict=True)
    return InMemoryLibrary(
        read_page(page.encode(), f"https://web.test/{a.name}") for a, page in site
    )


WEB = web()


def played(
    habits: DemonstratorHabits = PLAIN,
    rules: BrowserRules = FREE,
    seed: int = 0,
    question: Question = NEST_COUNT,
) -> Episode:
    [episode] = generate_demonstrations(
        [BrowserTask(question, rules)], WEB, seed, lambda _: NESTS, habits
    )
    return episode


def list_completions(episode: Episode) -> list[str]:
    return [step.said.text for step in episode.steps]


def screen(prompt: str) -> str:
    return prompt.partition("♦Text\n")[2].rpartition("\n♦Actions left")[0]


@pytest.fixture(scope="module")
def corvids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderLibrary]:
    place = tmp_path_factory.mktemp("corvids")
    with (
        PageArchive(place / "archive.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, place) as folder,
    ):
        yield folder


def corvid_tasks() -> list[BrowserTask]:
    rows = map(json.loads, ASKED.read_text(encoding="utf-8").splitlines())
    return [
        BrowserTask(
            Question(row["id"], row["text"], gold=tuple(row["gold"]), source=row["source"]), FREE
        )
        for row in rows
    ]


@pytest.mark.slow
def test_every_answer_of_the_bundled_site_is_demonstrated(corvids: FolderLibrary) -> None:
    for seed in range(4):
        episodes = list(generate_demonstrations(corvid_tasks(), corvids, seed))
        assert [e.question.id for e in episodes] == [f"c{n:02}" for n in range(1, 26)]
        assert [e.question.id for e in episodes if not is_correct_demonstration(e)] == []
        assert {e.stop for e in episodes} == {"end"}


def list_known_terms(question: Question, page: Page, prompt: str) -> set[str]:
    """What somebody may type who has read the question, this screen, and the page's title."""
    return set(split_terms(f"{question.text} {page.title} {screen(prompt)}"))


@pytest.mark.slow
def test_nothing_is_typed_that_was_not_shown(corvids: FolderLibrary) -> None:
    seeds = range(12)
    episodes = [e for seed in seeds for e in generate_demonstrations(corvid_tasks(), corvids, seed)]
    episodes += [played(DemonstratorHabits(), seed=seed) for seed in seeds]
    for episode in episodes:
        assert episode.answer is not None
        [library] = [WEB if episode.question == NEST_COUNT else corvids]
        page = library.fetch(episode.answer.quotes[0].url)
        for step in episode.steps[:-1]:
            if command := parse_command(step.said.text):
                if command.verb == "Clicked on link":
                    assert f"【{command.argument}†" in screen(step.prompt)
                if command.verb in ("Search", "Find in page:", "Quote:"):
                    typed = set(split_terms(command.argument.split("【")[0]))
                    assert typed <= list_known_terms(episode.question, page, step.prompt), (
                        step.said.text
                    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "import sys, hashlib; sys.path[:0] = sys.argv[1:]\n"
        "from test_oracle_policies_demonstrating import DemonstratorHabits, played\n"
        "lines = [played(DemonstratorHabits(), seed=seed).to_json() for seed in range(9)]\n"
        "print(hashlib.sha256('\\n'.join(lines).encode()).hexdigest())"
    )
    root = Path(__file__).parent.parent.parent
    places = [str(root), str(Path(__file__).parent)]
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, *places],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(digests) == 1
    assert (
        len({tuple(list_completions(played(DemonstratorHabits(), seed=seed))) for seed in range(9)})
        > 6
    )


def test_the_shortest_way_is_searched_clicked_found_and_quoted() -> None:
    search, click, find, quote, end, answer = list_completions(played())
    assert set(split_terms(search)) <= {"search", *split_terms(NEST_COUNT.text)}
    assert click == "Clicked on link 0"
    assert parse_command(find) is not None
    assert find.removeprefix("Find in page: ") in NEST_COUNT.text
    assert quote == f"Quote: {NESTS}"
    assert end == "End: Answer"
    assert "412" in answer
    assert "[1]" in answer


@pytest.mark.parametrize(
    ("habits", "shown_by"),
    [
        ({"poor_query": 1}, r"\ASearch \S+\n"),
        ({"wrong_result": 1}, r"\ASearch .*\nClicked on link [1-9]\n(Find .*\n)?(Clicked|Back)"),
        ({"detour": 1}, r"\ASearch Hollin Wood\n(Clicked on link \d+\n(Find .*\n)?){2}"),
        ({"missing_text": 1, "top": 1}, r"\nFind in page: (\S+ ){2}.*\nTop\n"),
        ({"scroll": 1}, r"\nScrolled down [123]\n"),
        ({"quotes": QuoteHabits(1, 0, 0)}, r"\nQuote: The steward of[^━]*━[^━]*as many\.\n"),
        (
            {"quotes": QuoteHabits(0, 1, 0)},
            r"\nQuote: The steward of 【\d+†Sir Henry Dale】 counted",
        ),
        ({"quotes": QuoteHabits(0, 0, 1)}, r"\nQuote: (the steward of|The steward of.*\n.*many\.)"),
        ({"extra_quote": 1}, r"\nQuote: .*\nQuote: "),
    ],
)
def test_each_habit_shows_and_still_leads_to_the_answer(
    habits: dict[str, float | QuoteHabits], shown_by: str
) -> None:
    for seed in range(5):
        episode = played(msgspec.structs.replace(PLAIN, **habits), seed=seed)
        assert re.search(shown_by, "\n".join(list_completions(episode))), list_completions(episode)
        assert is_correct_demonstration(episode)
        assert episode.answer is not None
        cited = {episode.answer.quotes[n].text for c in episode.answer.claims for n in c.quotes}
        assert cited == {NESTS}


def test_who_mistypes_everything_gets_there_and_is_no_example() -> None:
    episode = played(msgspec.structs.replace(PLAIN, invalid=1))
    commands = list_completions(episode)[:-1]
    assert [parse_command(command) is None for command in commands] == [True, False] * 4 + [False]
    assert episode.answer is not None
    assert not is_correct_demonstration(episode)


@pytest.mark.parametrize(
    "command",
    [
        "Search x",
        "Clicked on link 1",
        "Scrolled up 1",
        "Find in page: x",
        "Quote: x",
        "Back",
        "Top",
    ],
)
def test_no_slip_is_a_command(command: str) -> None:
    assert parse_command(command) is not None
    assert parse_command(mistype_command(command)) is None


def test_a_session_that_begins_near_the_page_needs_no_search() -> None:
    for start in ("Elm", "Hollin_Wood"):
        task = BrowserTask(NEST_COUNT, FREE, f"https://web.test/{start}.html")
        [episode] = generate_demonstrations([task], WEB, 0, habits=PLAIN)
        assert is_correct_demonstration(episode)
        assert [c for c in list_completions(episode) if c.startswith("Search")] == []


@pytest.mark.parametrize("actions", range(1, 13))
def test_few_actions_are_used_as_well_as_can_be(actions: int) -> None:
    rules = msgspec.structs.replace(FREE, actions=actions)
    dawdling = DemonstratorHabits(1, 0, 1, 1, 1, 1, QuoteHabits(), 1, 1)
    for seed in range(3):
        episode = played(dawdling, rules, seed)
        assert episode.failures == ()
        assert len(episode.steps) <= actions + 1
        assert (episode.answer is not None) or actions < 6


class Hiding(Library):
    """Shows everything at the first search, and then no longer the page that is wanted."""

    def __init__(self) -> None:
        self.shelf = web([article for article in ARTICLES if article.title != "Elm sickness"])
        self.searched = False

    def search(self, query: str, k: int) -> Sequence[Hit]:
        hits = [
            hit for hit in self.shelf.search(query, k) if not self.searched or "Rook" in hit.url
        ]
        self.searched = True
        return hits

    def fetch(self, url: str) -> Page:
        return self.shelf.fetch(url)


def test_a_page_that_nothing_leads_to_is_given_up() -> None:
    for seed in range(3):
        [episode] = generate_demonstrations(
            [BrowserTask(NEST_COUNT, FREE)], Hiding(), seed, habits=DemonstratorHabits()
        )
        assert episode.stop == "no_quotes"
        assert 4 <= len(episode.steps) < 25
        assert not is_correct_demonstration(episode)


def test_a_page_that_is_censored_is_given_up_at_once() -> None:
    question = msgspec.structs.replace(NEST_COUNT, gold=(NESTS,))
    [episode] = generate_demonstrations([BrowserTask(question)], WEB, 0, habits=PLAIN)
    assert [failure.outcome for failure in episode.failures] == ["censored"]
    assert episode.stop == "no_quotes"
    assert len(episode.steps) == 3


def test_questions_without_an_answer_in_the_library_have_no_demonstration() -> None:
    change = msgspec.structs.replace
    questions = [
        change(NEST_COUNT, gold=()),
        change(NEST_COUNT, source=""),
        change(NEST_COUNT, source="Elm.html"),
        change(NEST_COUNT, source="Wood.html"),
        change(NEST_COUNT, source="nowhere.html"),
        change(NEST_COUNT, gold=("41",)),
    ]
    assert (
        list(generate_demonstrations([BrowserTask(question) for question in questions], WEB)) == []
    )


class Broken(Hiding):
    """Finds every page and opens none."""

    def fetch(self, url: str) -> Page:
        raise Failed(Failure(url, "http_404", "gone"))


def test_a_page_that_cannot_be_opened_costs_its_own_demonstration_only() -> None:
    assert look_up_answer(NEST_COUNT, Broken()) is None


def test_a_demonstration_can_be_recorded_and_replayed(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "r.sqlite") as recording:
        tasks = [BrowserTask(NEST_COUNT, FREE)] * 3
        for episode in generate_demonstrations(
            tasks, WEB, 7, habits=DemonstratorHabits(), recording=recording
        ):
            bare = [Step("", step.said) for step in episode.steps]
            without = msgspec.structs.replace(episode, steps=tuple(bare))
            assert replay_episode(without, recording) == episode


def test_an_actor_can_be_driven_by_hand() -> None:
    found = look_up_answer(NEST_COUNT, WEB)
    assert found is not None
    act = make_demonstrator(NEST_COUNT, found, Random(1), PLAIN)
    session = browse_library(BrowserTask(NEST_COUNT, FREE), WEB)
    shown = next(session)
    while not shown.answering:
        shown = session.send(act(shown))
    assert [quote.text for quote in shown.quotes] == [NESTS]
    assert "412" in act(shown)


def test_the_paragraph_says_which_of_two_answers_is_meant() -> None:
    page = WEB.fetch("https://web.test/Hollin_Wood.html")
    paragraph = ARTICLES[0].paragraphs[9]
    by_words = locate_answer(msgspec.structs.replace(NEST_COUNT, text="Birds in 1951?"), page)
    assert by_words is not None
    assert page.text[by_words.start : by_words.end] == AGAIN
    within = locate_answer(NEST_COUNT, page, paragraph)
    assert within is not None
    assert page.text[within.start : within.end] == NESTS
    assert locate_answer(NEST_COUNT, page, ARTICLES[0].paragraphs[0]) is None


def test_an_answer_across_sentences_takes_both() -> None:
    page = read_page(
        b"<title>T</title><main><p>First one. Ends here. Begins there.</p></main>", "x"
    )
    question = Question("q", "?", gold=("here. Begins",))
    found = locate_answer(question, page)
    assert found is not None
    assert page.text[found.start : found.end] == "Ends here. Begins there."


@pytest.mark.parametrize(
    ("text", "gold", "held"),
    [
        ("in 1990", "9", False),
        ("on April 9, at noon", "April 9.", True),
        ("the  “Old\nCrow”", 'the "old crow"', True),
        ("café", "CAFÉ", True),
        ("anything", "...", False),
        ("anything", "", False),
    ],
)
def test_an_answer_is_held_as_whole_words(text: str, gold: str, held: bool) -> None:
    assert contains_gold_answer(text, gold) is held


QUOTES = tuple(
    read_page(f"<main><p>{text}</p></main>".encode(), "https://web.test/q").quote(0, len(text))
    for text in ("There are 412 nests in it.", "There are many elms there.")
)


def answering(answer: Answer | None, *commands: str) -> Episode:
    steps = tuple(Step("", Completion(each)) for each in (*commands, "the answer"))
    return Episode(NEST_COUNT, "x", steps, answer)


@pytest.mark.parametrize(
    ("text", "cited", "correct"),
    [("412.", 0, True), ("412.", 1, False), ("Many.", 0, False), ("4127.", 0, False)],
)
def test_a_correct_answer_and_its_quote_both_hold_the_gold(
    text: str, cited: int, correct: bool
) -> None:
    answer = Answer(text, QUOTES, (Claim(0, len(text) - 1, (cited,)),))
    assert is_correct_demonstration(answering(answer, "Top", "End: Answer")) is correct
    assert not is_correct_demonstration(answering(msgspec.structs.replace(answer, declined=True)))
    assert not is_correct_demonstration(answering(None, "End: Answer"))


def test_no_answer_needs_the_mark_that_opens_a_claim() -> None:
    text = "It was seen by Mr. Dale. Jr. Dale counted 412 nests in it."
    page = read_page(f"<title>T</title><main><p>{text}</p></main>".encode(), "https://web.test/x")
    found = AnswerLocation(page, 0, len(text), "412")
    for seed in range(20):
        act = make_demonstrator(NEST_COUNT, found, Random(seed))
        shown = next(browse_library(BrowserTask(NEST_COUNT), InMemoryLibrary([page])))
        quotes = (page.quote(0, len(text)),)
        answer = act(msgspec.structs.replace(shown, quotes=quotes, answering=True))
        assert "%<" not in answer
        assert is_correct_demonstration(answering(parse_numbered(answer, quotes)))


def test_one_slip_in_five_commands_is_forgiven() -> None:
    answer = Answer("412.", QUOTES, (Claim(0, 3, (0,)),))
    assert is_correct_demonstration(answering(answer, "top", *["Top"] * 4))
    assert not is_correct_demonstration(answering(answer, "top", *["Top"] * 3))


WORDS = st.lists(st.sampled_from("the crow saw a wood of elms and rooks".split()), min_size=1)


@pytest.mark.slow
@settings(max_examples=100)
@given(WORDS, WORDS, WORDS, st.sampled_from(["{}", "<a href='/x'>{}</a>", "<b>{}</b>"]), st.data())
def test_every_wording_of_a_quote_names_the_sentence(
    before: list[str], middle: list[str], after: list[str], markup: str, data: st.DataObject
) -> None:
    parts = [" ".join(words) for words in (before, middle, after)]
    body = f"<p>{parts[0]}.</p><p>He said {markup.format(parts[1])} {parts[2]} twice.</p>"
    page = read_page(f"<title>T</title><main>{body}</main>".encode(), "https://web.test/x")
    sentence = f"He said {parts[1]} {parts[2]} twice."
    opened = OpenedPage(page, FREE)
    shown = opened.article.window_at(0).text
    random = Random(data.draw(st.integers(0, 9)))
    habits = QuoteHabits(*data.draw(st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)])))
    span = find_quote(opened.finder, vary_quote(sentence, shown, habits, random), 0)
    assert span is not None
    assert page.text[slice(*span)] == sentence


def test_an_abbreviation_is_as_long_as_it_takes_to_be_clear() -> None:
    said = "The crow that was black and shy sat and ate and sat and ate and flew away and ate"
    assert abbreviate_quote(said, said, 3) == "The crow that━away and ate"
    assert (
        abbreviate_quote(said, f"The crow that came. {said}", 3)
        == "The crow that was━flew away and ate"
    )
    again = "The crow that sat high up and flew away by night sat low and flew away"
    assert abbreviate_quote(again, again, 3) == "The crow that sat━low and flew away"
    assert abbreviate_quote("Too short for that.", "Too short for that.", 3) == ""


def test_what_is_copied_keeps_the_marks_of_the_screen() -> None:
    shown = "Before. The 【7†old †】 crow【8†s†b.org】 fly. After"
    assert copy_from_screen("The crows fly.", "The 【7†crow】s fly. Now") == "The 【7†crow】s fly."
    assert copy_from_screen("Crows fly.", "So. 【7†Crows†b.org】 【8†fly†b.org】. Now").startswith(
        "【7†Crows"
    )
    assert copy_from_screen("Rooks fly.", shown) == ""


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Crows | The Bird Page", "Crows"),
        ("Jean-Luc – a life", "Jean-Luc"),
        ("Queen (band)", "Queen"),
        ("(untitled)", "(untitled)"),
        ("", ""),
    ],
)
def test_the_subject_of_a_title_leaves_the_site_out(title: str, expected: str) -> None:
    assert strip_site_name(title) == expected


def test_a_question_of_signs_and_a_page_without_a_title_do_no_harm() -> None:
    page = read_page(b"<main><p>It is 412.</p></main>", "https://web.test/none")
    question = Question("q", "???", gold=("412",), source="none")
    [episode] = generate_demonstrations(
        [BrowserTask(question, FREE)], InMemoryLibrary([page]), habits=DemonstratorHabits()
    )
    assert episode.stop in ("end", "no_quotes")
