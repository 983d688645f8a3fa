"""Questions as the evidence model reads them, and the words of a quote that they ask for."""

import pytest

from rookery.quotes.answer_types import mark_question, split_answering_words


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


@pytest.mark.parametrize(
    ("question", "text", "marked"),
    [
        ("How much is due?", CROWN, ["£640", "410", "PH-20931"]),
        ("How much is due?", REST, ["Half", "3.5.2024", "2"]),
        ("When does the lease begin?", "The term begins on 1 April 2024.", ["1 April 2024"]),
        ("When was that in April 2024?", "It was in April 2024, on the 3rd.", []),
        ("When was it built?", "(1850–1853), [in May], 1860!", ["1850–1853", "May", "1860"]),
        ("Who brings the grill", PARTY, ["Tomasz"]),
        ("Who organises the raffle?", PARTY, ["Ifeoma Eze"]),
        ("Where does Tomasz live?", "Then Tomasz moved to Lower Hatch.", ["Lower Hatch"]),
        ("Why no fireworks?", PARTY, ["because of the bees (see 2.1"]),
        ("How many are there?", "1, 2, 3, 4, 5", []),
        ("Do rooks nest in trees?", "Rooks nest in 20 trees.", []),
    ],
)
def test_what_a_question_asks_for_is_marked_in_whole_words(
    question: str, text: str, marked: list[str]
) -> None:
    pieces = split_answering_words(text, question)
    assert [piece for piece, answers in pieces if answers] == marked
    assert "".join(piece for piece, _ in pieces) == text
