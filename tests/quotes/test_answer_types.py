"""Questions as the evidence model reads them, and the words of a quote that they ask for."""

import pytest

from rookery.quotes.answer_types import (
    find_answering_column,
    mark_question,
    split_answering_words,
)


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ("where do rooks nest", "where do rooks nest?"),
        ("Where do rooks nest ?", "Where do rooks nest?"),
        ("¿Dónde anidan los grajos", "¿Dónde anidan los grajos?"),
        ("烏はどこに巣を作りますか？", "烏はどこに巣を作りますか?"),
        ("أين تعشش الغربان؟", "أين تعشش الغربان?"),
        ("rook nests", "rook nests?"),
        ("I have a rook. Where does it nest", "I have a rook. Where does it nest?"),
        ("Rooks nest in trees.", "Rooks nest in trees."),
        ("烏は木に巣を作る。", "烏は木に巣を作る。"),
        ("", ""),
        ("???", "???"),
    ],
)
def test_a_question_is_read_with_its_mark(question: str, read: str) -> None:
    assert mark_question(question) == read
    assert mark_question(read) == read


CROWN = "The crown costs £640, of which (410 EUR) are paid under\nreference PH-20931."
REST = "“Half” is due on 3.5.2024; the rest in 2 weeks."
PARTY = (
    "Saturday 19 October, from 15:00\nTomasz brings the grill, Ifeoma Eze organises the raffle\n"
    "Decision: no fireworks this year, because of the bees (see 2.1)."
)
SANDS = (
    "Stay 150 metres from the nature reserve.\nThe upper beach is closed from 1 May to 15 August.\n"
    "Maximum line length is 60 metres."
)
LOFT = "We rent the loft at 7 Harbour Row for two years. The rent is £140 a month."
INSURERS = "The club is insured by Harbour Mutual. Last year it was Skerry & Sons."


@pytest.mark.parametrize(
    ("question", "text", "marked"),
    [
        ("How much is due?", CROWN, ["£640", "410 EUR"]),
        ("How much is due?", REST, ["Half"]),
        ("When does the lease begin?", "The term begins on 1 April 2024.", ["1 April 2024"]),
        ("When was that in April 2024?", "It was in April 2024, on the 3rd.", []),
        ("When was it built?", "(1850–1853), [in May], 1860!", ["1850–1853", "May", "1860"]),
        ("Who brings the grill", PARTY, ["Tomasz"]),
        ("Who organises the raffle?", PARTY, ["Ifeoma Eze"]),
        ("Where does Tomasz live?", "Then Tomasz moved to Lower Hatch.", ["Lower Hatch"]),
        ("Why no fireworks?", PARTY, ["because of the bees (see 2.1"]),
        ("How many are there?", "1, 2, 3, 4, 5", []),
        ("How many seeds?", "Between 2,000 and 3,000 pine seeds, in 1977.", ["2,000", "3,000"]),
        ("How many members?", "In 1988 it had 45 members, since 1990 2,010.", ["45", "2,010"]),
        ("How long is it?", "It is 60 metres long since 2026.", ["60 metres"]),
        ("Do rooks nest in trees?", "Rooks nest in 20 trees.", []),
        ("Are rooks gone when it snows?", "In May 2024 they were. No rook goes in December.", []),
        ("How long may a line be at Gannet Sands?", SANDS, ["60 metres"]),
        ("How far is the nature reserve?", SANDS, ["150 metres"]),
        ("How much is the rent of the net loft?", LOFT, ["£140"]),
        ("How long do we rent the loft?", LOFT, ["7", "two years"]),
        (
            "What does a reel cost?",
            "We have 3 reels. A reel costs 14.50, the bag 2 pounds.",
            ["2 pounds"],
        ),
        ("Who insured the club last year?", "Last year it was Skerry & Sons.", ["Skerry & Sons"]),
        ("Who insures the club?", INSURERS, ["Harbour Mutual"]),
        ("Who holds the record?", "Mo Adeyemi holds the record. The Board knows.", ["Mo Adeyemi"]),
        (
            "When was the club founded?",
            "It met on 3 May 1997. The club was founded in 1999.",
            ["1999"],
        ),
        ("Who flies kites?", "Kite Ann Lee flies kites.", ["Kite Ann Lee"]),
    ],
)
def test_what_a_question_asks_for_is_marked_in_whole_words(
    question: str, text: str, marked: list[str]
) -> None:
    pieces = split_answering_words(text, question)
    assert [piece for piece, answers in pieces if answers] == marked
    assert "".join(piece for piece, _ in pieces) == text


LINES = ("Most kites on one line", "Mo Adeyemi, 64")
KIT = ("3.6 m delta kit", "58.00", "4")


@pytest.mark.parametrize(
    ("names", "cells", "question", "column"),
    [
        (("Record", "Holder"), LINES, "Who holds the record for most kites on one line?", 1),
        ((), LINES, "Who had the most kites on one line?", 1),
        (("name", "price", "stock"), KIT, "What does the 3.6 m delta kit cost?", 1),
        (("name", "price", "stock"), KIT, "How many are in stock of the 3.6 m delta kit?", 2),
        ((), KIT, "How many delta kits of 3.6 m are there?", None),
        ((), KIT, "Is the delta kit there?", None),
        ((), ("Reel", "3", "£14"), "How much is a reel?", 2),
        (("Item", "Colour"), ("Reel", "red"), "What is the colour of the reel?", 1),
        (("Day", "Reels"), ("2026-05-03", "12"), "How many did we sell?", 1),
        (("Day", "Reels"), ("2026-05-03", "12"), "When did we sell reels?", 0),
        (("Who", "Job"), ("Ann Lee", "Treasurer of the Club"), "Who is treasurer?", None),
    ],
)
def test_of_a_row_the_cell_answers_that_the_question_asks_for(
    names: tuple[str, ...], cells: tuple[str, ...], question: str, column: int | None
) -> None:
    assert find_answering_column(names, cells, question) == column
