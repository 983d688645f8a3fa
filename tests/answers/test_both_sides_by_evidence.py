"""Both sides by the evidence model. The judge looks for words, so that each case can be worked out
by hand."""

from collections.abc import Sequence

import pytest

from rookery.answers.both_sides import (
    JUDGED_BY_EVIDENCE,
    SidesSettings,
    answer_both_sides,
    find_altered_sides,
)
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.evidence.passage_ranking import RankedPassage
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Completion, Episode, Page, Question

ASKED = Question("1", "Do crows hold grudges?")


def page(name: str, *paragraphs: str) -> Page:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    html = f"<title>About crows</title><main>{body}</main>"
    return read_page(html.encode(), f"https://{name}.org/x", "text/html")


FOR = page(
    "for",
    "Many people keep notes of crows. Crows never forget whoever trapped them, even after years.",
    "Whoever traps a crow is scolded for years. It was raining when that was seen by them.",
)
AGAINST = page("against", "A crow that was trapped feeds from the same hand within one day.")
NEITHER = page("neither", "The crows of this town hold no meetings on a Sunday, grudges or not.")
CROWS = InMemoryLibrary([FOR, AGAINST, NEITHER])


class WordJudge:
    """Judges by words: the first of these words in a passage says what it does with the claim."""

    def __init__(self, **words: tuple[float, float]) -> None:
        self.words = words
        self.asked: list[str] = []

    def __call__(self, claim: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        self.asked.append(claim)
        sides = [
            next((each for word, each in self.words.items() if word in passage.text), (0.0, 0.0))
            for passage in passages
        ]
        return [
            EvidenceJudgement(0.0, (0, 1), 0.0, supports, refutes, 1 - supports - refutes)
            for supports, refutes in sides
        ]


KNOWS = WordJudge(forget=(0.9, 0.05), scolded=(0.7, 0.1), feeds=(0.2, 0.6))


def sure(episode: Episode) -> Answer:
    assert episode.answer is not None
    return episode.answer


def parts(answer: Answer) -> tuple[list[str], list[str]]:
    """What is said under For: and under Against:."""
    middle = answer.text.index("\nAgainst:\n")
    said = [(claim.start, answer.text[claim.start : claim.end]) for claim in answer.claims]
    return [text for at, text in said if at < middle], [text for at, text in said if at > middle]


def test_each_side_has_the_sentences_that_take_it_in_other_words_than_the_claim() -> None:
    ranked: list[RankedPassage] = []
    episode = answer_both_sides(ASKED, CROWS, judge=KNOWS, observe=ranked.extend)
    answer = sure(episode)
    assert (episode.by, episode.stop, episode.steps) == ("sides", "end", ())
    assert parts(answer) == (
        ["Crows never forget whoever trapped them, even after years."],
        ["A crow that was trapped feeds from the same hand within one day."],
    )
    assert answer.text.startswith("Claim: yes to “Do crows hold grudges?”\n\nFor:\n")
    assert answer.text.endswith(JUDGED_BY_EVIDENCE)
    assert find_altered_sides(answer) == []
    pages = {each.digest: each for each in (FOR, AGAINST, NEITHER)}
    assert all(v.verified for v in verify_quotes(answer, lambda quote: pages.get(quote.digest)))
    assert [each.score for each in ranked] == pytest.approx([0.95, 0.8, 0.0])


def test_a_yes_or_no_question_is_judged_as_it_is_and_a_statement_as_a_question() -> None:
    judge = WordJudge()
    answer_both_sides(ASKED, CROWS, judge=judge)
    assert set(judge.asked) == {"Do crows hold grudges?"}
    judge = WordJudge()
    answer_both_sides(Question("1", "Crows hold grudges."), CROWS, judge=judge)
    assert set(judge.asked) == {"Crows hold grudges?"}


@pytest.mark.parametrize(
    "question",
    [
        "Do crows or ravens come first?",
        "Why do crows hold grudges?",
        "Who wrote Hamlet?",
        "Is it safe?",
        "?!",
        "",
        "Do crows hold grudges " * 100,
    ],
)
def test_a_question_that_assumes_no_claim_says_what_to_do(question: str) -> None:
    judge = WordJudge()
    episode = answer_both_sides(Question("1", question), CROWS, judge=judge)
    assert (episode.stop, judge.asked) == ("no_claim", [])
    assert "state one" in episode.failures[0].detail


def test_where_nothing_is_sure_the_nearest_is_declined() -> None:
    unsure = WordJudge(forget=(0.49, 0.3), feeds=(0.2, 0.4))
    episode = answer_both_sides(ASKED, CROWS, judge=unsure)
    answer = sure(episode)
    assert (episode.stop, answer.declined, answer.claims) == ("declined", True, ())
    assert answer.quotes[0].digest == FOR.digest
    assert find_altered_sides(answer) == []
    lower = SidesSettings(least=0.4)
    assert parts(sure(answer_both_sides(ASKED, CROWS, judge=unsure, settings=lower)))[1]


def test_a_section_whose_sentences_take_no_side_alone_is_quoted_by_its_blocks() -> None:
    class Whole(WordJudge):
        """Judges as its words, but takes no side on anything as short as a sentence."""

        def __call__(
            self, claim: str, passages: Sequence[EvidencePassage]
        ) -> list[EvidenceJudgement]:
            judged = super().__call__(claim, passages)
            none = EvidenceJudgement(0.0, (0, 1), 0.0, 0.0, 0.0, 1.0)
            return [
                each if len(passage.text) > 70 else none
                for each, passage in zip(judged, passages, strict=True)
            ]

    answer = sure(answer_both_sides(ASKED, CROWS, judge=Whole(forget=(0.9, 0.0))))
    assert parts(answer)[0] == [FOR.text[FOR.text.index("Many") : FOR.text.index("years.") + 6]]
    silent = sure(answer_both_sides(ASKED, CROWS, judge=Whole(Sunday=(0.0, 0.0))))
    assert silent.declined


def test_at_most_three_of_a_side_other_pages_first_and_none_twice() -> None:
    long = " ".join(["They were seen on many days of that long and rainy year by us."] * 12)
    same = page("a", f"Crows never forget faces. {long}", f"{long} Crows never forget masks.")
    others = [page(f"b{n}", f"Crow {n} was the one that did not forget a hat.") for n in range(3)]
    copy = page("copied", "Somebody wrote this down too. Crows never  FORGET faces.")
    judge = WordJudge(forget=(0.8, 0.1), FORGET=(0.7, 0.1))
    shelf = InMemoryLibrary([same, copy, others[0]])
    pro, contra = parts(sure(answer_both_sides(ASKED, shelf, judge=judge)))
    assert contra == []
    first = {text.casefold() for text in pro[:2]}
    assert "crow 0 was the one that did not forget a hat." in first
    of_one_page = {"crows never forget faces.", "crows never forget masks."}
    assert {text.casefold() for text in pro} - of_one_page < first
    assert {text.casefold() for text in pro} > of_one_page
    shelf = InMemoryLibrary([same, copy, *others])
    answer = sure(answer_both_sides(ASKED, shelf, judge=judge))
    assert len({quote.digest for quote in answer.quotes}) == len(answer.quotes) == 3


def test_a_language_model_that_is_named_judges_instead() -> None:
    class Says:
        name = "reader"

        def complete(self, prompt: str, n: int = 1, allow: object = None) -> list[Completion]:
            return [Completion("neither")]

    judge = WordJudge(forget=(0.9, 0.0))
    episode = answer_both_sides(ASKED, CROWS, policy=Says(), judge=judge)
    assert (episode.stop, judge.asked) == ("declined", [])
