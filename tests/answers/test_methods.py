"""Answers by a policy that says what is written here: three methods, and what cannot be shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from rookery.answers.best_of_n import BestOfNSettings
from rookery.answers.gophercite import GopherCiteSettings, answer_with_gophercite, truncate_page
from rookery.answers.webglm import answer_with_webglm
from rookery.answers.webgpt import (
    HOPELESS_STEPS,
    STUCK_REPEATS,
    answer_with_webgpt,
    extract_command,
)
from rookery.browser.browser_commands import BrowserRules
from rookery.errors import Failed
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Completion, Episode, Failure, Hit, Library, Page, Question

GIFTS = "Crows bring gifts because they have learned that a particular person feeds them."
FACES = "In 2006 researchers in Seattle trapped seven crows while wearing a caveman mask."
PAGES = [
    read_page(
        f"<title>{title}</title><p>{words}</p>".encode(), f"https://a.org/{number}", "text/html"
    )
    for number, (title, words) in enumerate(
        [
            ("Gifts of crows", f"{GIFTS} Nobody has tested it."),
            ("Masks and crows", f"{FACES} The crows scolded the mask for years."),
            ("Nests", "A crow builds its nest of twigs and lines it with moss."),
        ]
    )
]
WEB = InMemoryLibrary(PAGES)
WHY = Question("1", "Why do crows bring gifts to people?")


@dataclass
class Says:
    """A policy that says these things in turn, and remembers what it was asked."""

    words: Sequence[str]
    logprobs: Sequence[float] = ()
    name: str = "script"
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.said = 0

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
    ) -> list[Completion]:
        self.asked.append(prompt)
        at, self.said = self.said, self.said + n
        return [
            Completion(text, logprobs=tuple(self.logprobs[number : number + 1]))
            for number, text in enumerate(self.words[at : at + n], at)
        ]


class Unreachable:
    name = "unreachable"

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
    ) -> list[Completion]:
        raise Failed(Failure("m", "model_unreachable", "start the server, or name another"))


class Nowhere(Library):
    """A library whose search fails."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        raise Failed(Failure(query, "search_quota", "wait"))

    def fetch(self, url: str) -> Page:
        raise Failed(Failure(url, "http_404", "gone"))


def verified(episode: Episode) -> Answer:
    """The answer, each of whose quotes is a slice of a page."""
    assert episode.answer is not None, episode.failures
    pages = {page.digest: page for page in PAGES}
    assert all(
        v.verified for v in verify_quotes(episode.answer, lambda quote: pages.get(quote.digest))
    )
    return episode.answer


class TestWebglm:
    def test_the_prompt_has_the_question_after_the_references(self) -> None:
        """WebGLM, appendix C."""
        policy = Says(["They learned that a particular person feeds them [1]."])
        answer_with_webglm(WHY, WEB, policy)
        asked = policy.asked[0]
        assert asked.endswith(f"Question: {WHY.text}\nAnswer:")
        assert asked.index(f"Reference [1]: {GIFTS}") < asked.index(f"Question: {WHY.text}")

    def test_a_wrong_number_is_set_right_by_the_words(self) -> None:
        """WebGLM, section 3.2.2."""
        said = "They have learned that a particular person feeds them [2]."
        answer = verified(answer_with_webglm(WHY, WEB, Says([said])))
        assert answer.text == "They have learned that a particular person feeds them."
        assert [quote.url for quote in answer.quotes] == ["https://a.org/0"]
        assert [claim.quotes for claim in answer.claims] == [(0,)]

    @pytest.mark.parametrize(
        "said",
        [
            "", " \n", "[1][2][3]", "Because they like you.", "They like shiny things [1].",
            "x" * 30_000, "[9]" * 1000, "%<They learned", "a \\[1]",
        ],
    )  # fmt: skip
    def test_what_cites_nothing_is_no_answer(self, said: str) -> None:
        episode = answer_with_webglm(WHY, WEB, Says([said]))
        assert episode.answer is None
        assert episode.stop == "bad_syntax"
        assert episode.failures[-1].outcome == "bad_syntax"
        assert episode.failures[-1].detail

    def test_the_likelier_of_two_answers_is_chosen_and_the_reward_overrules(self) -> None:
        first = "They have learned that a particular person feeds them [1]."
        second = "Nobody has tested it [1]."
        two = BestOfNSettings(samples=2)
        said = Says([first, second], [-2.0, -0.1])
        assert (
            verified(answer_with_webglm(WHY, WEB, said, choosing=two)).text
            == "Nobody has tested it."
        )

        def longest(question: Question, answer: Answer) -> float:
            return len(answer.text) / 100

        said = Says([first, second], [-2.0, -0.1])
        by_length = BestOfNSettings(samples=2, reward=longest)
        answer = verified(answer_with_webglm(WHY, WEB, said, choosing=by_length))
        assert answer.text.startswith("They have learned")
        said = Says([first, second])
        by_length = BestOfNSettings(samples=2, reward=longest, decline=0.9)
        episode = answer_with_webglm(WHY, WEB, said, choosing=by_length)
        assert episode.stop == "declined"
        assert episode.answer is not None
        assert episode.answer.declined

    def test_without_evidence_no_policy_is_asked(self) -> None:
        policy = Says(["Anything [1]."])
        episode = answer_with_webglm(WHY, Nowhere(), policy)
        assert (episode.stop, policy.asked) == ("no_evidence", [])
        assert episode.count_failures() == {"search_quota": 1}

    def test_a_policy_that_cannot_be_asked_says_why(self) -> None:
        episode = answer_with_webglm(WHY, WEB, Unreachable())
        assert (episode.stop, episode.count_failures()) == (
            "policy_failed",
            {"model_unreachable": 1},
        )


class TestChoosing:
    """What every method does with its samples."""

    GOOD = "They have learned that a particular person feeds them [1]."

    def test_what_was_said_before_a_failure_is_chosen_from(self) -> None:
        class Breaking(Says):
            def complete(
                self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
            ) -> list[Completion]:
                if self.asked:
                    raise Failed(Failure("m", "model_broke_off", "ask again"))
                return super().complete(prompt, n)

        quoting = f"%<They learned it.>%(Gifts of crows)%[{GIFTS}]%"
        episode = answer_with_gophercite(WHY, WEB, Breaking([quoting] * 8))
        assert verified(episode).text == "They learned it."
        assert episode.count_failures() == {"model_broke_off": 1}


class TestGopherCite:
    SETTINGS = GopherCiteSettings(pages=2)
    THREE = BestOfNSettings(samples=3)

    def test_pages_take_turns_one_in_each_prompt(self) -> None:
        """GopherCite, section 2.3."""
        policy = Says([f"%<They learned it.>%(Gifts of crows)%[{GIFTS}]%"] * 3)
        answer = verified(
            answer_with_gophercite(WHY, WEB, policy, choosing=self.THREE, settings=self.SETTINGS)
        )
        assert [prompt.count("\nPage: ") for prompt in policy.asked] == [3, 3]
        assert all(prompt.endswith(f"Question: {WHY.text}\nAnswer:") for prompt in policy.asked)
        assert answer.text == "They learned it."
        assert answer.quotes[0].text == GIFTS

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ("They learned it.", "no sentence of it cites anything"),
            ("%<They learned it.>%(Nests)%[A crow builds its nest]%", "none of the 1 pages"),
            ("%<It.>%(Gifts of crows)%[Crows are fond of people.]%", "not on"),
            (f"%<It.>%(Gifts of crows)%[{GIFTS}", "not closed"),
            ("%<It.", "no evidence"),
            (f"%<%<It.>%(Gifts of crows)%[{GIFTS}]%", ""),
            (f"%<>%(Gifts of crows)%[{GIFTS}]%", "says nothing"),
            ("%<They never learned it.>%(Gifts of crows)%[Nobody has not tested it.]%", "not on"),
        ],
    )
    def test_bad_syntax_is_a_worded_reason(self, said: str, why: str) -> None:
        """GopherCite, appendix F.1."""
        settings = GopherCiteSettings(pages=1)
        episode = answer_with_gophercite(
            WHY, WEB, Says([said]), choosing=BestOfNSettings(), settings=settings
        )
        if not why:
            assert episode.answer is None or verified(episode)
            return
        assert (episode.answer, episode.stop) == (None, "bad_syntax")
        assert why in episode.failures[-1].detail

    def test_a_quote_with_a_typing_error_becomes_the_pages_own_words_and_is_marked(self) -> None:
        typed = GIFTS.replace("particular", "particlar")
        said = Says([f"%<They learned it.>%(Gifts of crows)%[{typed}]%"] * 3)
        episode = answer_with_gophercite(
            WHY, WEB, said, choosing=self.THREE, settings=self.SETTINGS
        )
        assert verified(episode).quotes[0].text == GIFTS
        assert episode.count_failures()["repaired"] == 1

    def test_a_quote_becomes_the_sentences_that_it_stands_in(self) -> None:
        said = Says(["%<They do.>%(Gifts of crows)%[a particular person feeds them. Nobody has]%"])
        settings = GopherCiteSettings(pages=1)
        answer = verified(
            answer_with_gophercite(WHY, WEB, said, choosing=BestOfNSettings(), settings=settings)
        )
        assert answer.quotes[0].text == f"{GIFTS} Nobody has tested it."

    def test_a_sample_whose_quote_does_not_answer_is_no_answer(self) -> None:
        def judge(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
            assert query in (WHY.text, "It.")
            odds = [1.0 if "feeds" in each.text else -1.0 for each in passages]
            return [EvidenceJudgement(each, (0, 1), 0.0, 1.0, 0.0, 0.0) for each in odds]

        settings = GopherCiteSettings(pages=1)
        samples = [
            f"%<It.>%(Gifts of crows)%[{quote}]%"
            for quote in ("Nobody has tested", "person feeds them.")
        ]
        for said, text in ((samples, GIFTS), (samples[:1], "")):
            choosing = BestOfNSettings(samples=len(said))
            episode = answer_with_gophercite(
                WHY, WEB, Says(said), choosing=choosing, settings=settings, judge=judge
            )
            quotes = episode.answer.quotes if episode.answer else ()
            assert [quote.text for quote in quotes] == [text] * bool(text)
            assert "does not answer the question" in episode.failures[-1].detail

    def test_what_its_quote_does_not_support_is_no_answer_and_what_cites_nothing_is_left_out(
        self,
    ) -> None:
        def judge(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
            holds = float("never" not in query)
            return [EvidenceJudgement(4.0, (0, 1), 0.0, holds, 0.0, 1 - holds) for _ in passages]

        settings = GopherCiteSettings(pages=1)
        for claim, text in (("They know who feeds them.",) * 2, ("They never learned it.", "")):
            said = f"Say so! %<{claim}>%(Gifts of crows)%[{GIFTS}]% Visit us."
            episode = answer_with_gophercite(
                WHY, WEB, Says([said]), choosing=BestOfNSettings(), settings=settings, judge=judge
            )
            assert (episode.answer.text if episode.answer else "") == text
        assert "is not supported" in episode.failures[-1].detail

    def test_what_is_shown_begins_with_a_sentence_and_holds_what_was_found(self) -> None:
        """GopherCite, appendices A and D."""
        words = " ".join(f"Sentence {n} says one thing and nothing more." for n in range(400))
        page = read_page(f"<p>{words}</p>".encode(), "https://a.org/long", "text/html")
        found = page.text.index("Sentence 200 ")
        start, end = truncate_page(page, found, GopherCiteSettings(budget=2000))
        assert page.text[start:end].startswith("Sentence 1")
        assert found - 500 <= start <= found
        assert 1900 < end - start <= 2000
        assert page.text[start:end].endswith("nothing more.")
        assert truncate_page(page, found, GopherCiteSettings(budget=10**6)) == (0, len(page.text))


class TestWebgpt:
    def test_it_searches_opens_quotes_and_answers(self) -> None:
        commands = ["Search gifts", "Clicked on link 0", f"Quote: {GIFTS}", "End: Answer"]
        policy = Says([*commands, "They have learned who feeds them [1]."])
        episode = answer_with_webgpt(WHY, WEB, policy)
        assert verified(episode).quotes[0].text == GIFTS
        assert [step.said.text for step in episode.steps[:-1]] == commands
        assert [step.prompt for step in episode.steps] == policy.asked
        assert "Past actions\nSearch gifts" in policy.asked[1]
        assert policy.asked[-1].startswith("Answer the question from the quotes")

    def test_the_best_of_several_answers_is_chosen(self) -> None:
        """WebGPT, section 3.2."""
        commands = ["Search gifts", "Clicked on link 0", f"Quote: {GIFTS}", "End: Answer"]
        answers = ["They do [7].", "Because they learned it [1].", "No idea [1]."]
        policy = Says([*commands, *answers], [0, 0, 0, 0, -0.1, -0.5, -0.9])
        episode = answer_with_webgpt(WHY, WEB, policy, choosing=BestOfNSettings(samples=3))
        assert verified(episode).text == "Because they learned it."
        assert "cites [7]" in episode.failures[-1].detail

    def test_without_a_quote_no_answer_is_asked_for(self) -> None:
        episode = answer_with_webgpt(WHY, WEB, Says(["Search gifts", "End: Answer"]))
        assert (episode.stop, episode.answer, len(episode.steps)) == ("no_quotes", None, 2)

    def test_an_endless_loop_of_one_command_is_broken_off(self) -> None:
        episode = answer_with_webgpt(WHY, WEB, Says(["Clicked on link 7"] * 100))
        assert (episode.stop, len(episode.steps)) == ("stuck", STUCK_REPEATS + 1)
        assert episode.failures[-1].outcome == "stuck"

    def test_nonsense_without_end_is_broken_off(self) -> None:
        episode = answer_with_webgpt(WHY, WEB, Says([f"blah {number}" for number in range(100)]))
        assert (episode.stop, len(episode.steps)) == ("stuck", HOPELESS_STEPS)

    def test_actions_run_out(self) -> None:
        rules = BrowserRules(actions=3)
        episode = answer_with_webgpt(WHY, WEB, Says(["Search gifts"] * 9), rules=rules)
        assert (episode.stop, len(episode.steps)) == ("max_actions", 3)

    @pytest.mark.parametrize(
        ("said", "meant"),
        [
            ("Search crows\n", "Search crows"),
            ("I will look first.\n\nSearch crows", "Search crows"),
            ("```\nTop\n```", "Top"),
            ("`Back`", "Back"),
            ("Quote: one\n\ntwo", "Quote: one\n\ntwo"),
            ("I do not know", "I do not know"),
        ],
    )
    def test_a_command_is_found_in_what_is_said(self, said: str, meant: str) -> None:
        assert extract_command(said) == meant

    def test_half_a_character_is_stored_whole(self) -> None:
        episode = answer_with_webgpt(WHY, WEB, Says(["Search gif\ud800ts", "End: Nonsense"]))
        assert Episode.from_json(episode.to_json()) == episode

    def test_a_policy_that_fails_half_way_keeps_its_steps(self) -> None:
        class Falls(Says):
            def complete(
                self, prompt: str, n: int = 1, allow: Callable[..., object] | None = None
            ) -> list[Completion]:
                if self.asked:
                    return Unreachable().complete(prompt)
                return super().complete(prompt, n)

        episode = answer_with_webgpt(WHY, WEB, Falls(["Search gifts"]))
        assert (episode.stop, len(episode.steps)) == ("policy_failed", 1)
