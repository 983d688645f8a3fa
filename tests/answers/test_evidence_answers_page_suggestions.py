"""Which passages of one page are suggested, and in which order."""

import itertools
from collections.abc import Sequence

from rookery.answers.evidence_answers import (
    MAX_JUDGED_SECTIONS,
    MAX_READ_CHARACTERS,
    suggest_passages,
)
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.pages.page_reader import read_page
from rookery.records import Page

QUESTION = "Why do crows bring gifts?"


class PlantedJudge:
    """Answers with the log-odds planted for a word, at its place; remembers what it read."""

    def __init__(self, **planted: float) -> None:
        self.planted = planted
        self.read: list[str] = []

    def __call__(
        self, question: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        judged = []
        for passage in passages:
            self.read.append(passage.text)
            answers, place = -9.0, 0
            for word, odds in self.planted.items():
                if word in passage.text:
                    answers, place = odds, passage.text.index(word)
            judged.append(EvidenceJudgement(answers, (place, place + 1), 0.0, 0.0, 0.0, 1.0))
        return judged


def page(*paragraphs: str) -> Page:
    html = "".join(f"<h2>Part {n}</h2><p>{each}</p>" for n, each in enumerate(paragraphs))
    return read_page(html.encode(), "https://crows.example/page", "text/html")


def line(word: str) -> str:
    return f"The {word} is what this paragraph of the page about crows is all about, at length."


def test_the_best_three_come_best_first() -> None:
    judge = PlantedJudge(bead=2.0, clip=-3.0, shell=3.0, nut=0.5)
    found = suggest_passages(QUESTION, page(*map(line, ("clip", "bead", "nut", "shell"))), judge)
    assert [quote.text for quote, _ in found] == [line("shell"), line("bead"), line("nut")]
    # 2 × 3 - log(e³ + e² + e½ + e⁻³) = 2.63, and so on
    assert [round(score, 2) for _, score in found] == [0.93, 0.65, 0.09]


def test_only_the_sections_with_most_words_of_the_question_are_judged() -> None:
    judge = PlantedJudge()
    dull = [f"Line {n} of no interest to anybody, longer than a few words." for n in range(60)]
    telling = [
        f"{n} crows bring gifts to those who feed them, nobody knows why." for n in range(20)
    ]
    suggest_passages(QUESTION, page(*dull, *telling), judge)
    assert len(judge.read) == MAX_JUDGED_SECTIONS
    assert sum("gifts" in text for text in judge.read) == 20


def test_a_long_page_is_read_in_part_and_blocks_are_suggested_once() -> None:
    long = " ".join(f"Sentence {n} says that crows bring gifts to people." for n in range(20_000))
    judge = PlantedJudge(Sentence=3.0)
    for each in (page(long), Page("https://crows.example/plain", "Plain", long, ())):
        found = suggest_passages(QUESTION, each, judge)
        spans = sorted((quote.start, quote.end) for quote, _ in found)
        assert spans
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
        assert spans[-1][1] <= len(each.text)
    assert len(long) > MAX_READ_CHARACTERS


def test_a_page_without_text_gives_none() -> None:
    assert (
        suggest_passages(QUESTION, Page("https://crows.example/", "", "", ()), PlantedJudge()) == []
    )
