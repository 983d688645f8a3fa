"""Questions as the evidence model reads them."""

import pytest

from rookery.quotes.answer_types import mark_question


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
