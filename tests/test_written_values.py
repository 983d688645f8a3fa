"""Dates, numbers and versions in their forms."""

import pytest

from rookery.written_values import find_written_values, list_value_terms, use_forms_of

DAY = ["2026-02-27", "02-27", "2026-02"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("on 27 February 2026.", DAY),
        ("27th of February, 2026", DAY),
        ("Feb. 27, 2026", DAY),
        ("FEBRUARY 27 2026", DAY),
        ("am 27. Februar 2026", DAY),
        ("le 27 février 2026", DAY),
        ("27 de febrero de 2026", DAY),
        ("27.2.2026", DAY),
        ("27.02.26", DAY),
        ("2026-02-27T03:00", DAY),
        ("2026/02/27", DAY),
        ("2/27/2026", DAY),
        ("27/2/2026", DAY),
        ("13 to 27 February 2026", DAY),
        ("2/3/2026", ["2026"]),
        ("bis zum 27.2. zahlen", ["02-27"]),
        ("Feb 27 03:12:44 host", ["02-27"]),
        ("in February 2026", ["2026-02"]),
        ("31 people may 45 pay", []),
        ("2026-13-01", ["2026"]),
        ("1,983.60", ["1983.6"]),
        ("1.983,60 €", ["1983.6"]),
        ("1'983.6", ["1983.6"]),
        ("1\u202f983,60", ["1983.6"]),
        ("1983.60", ["1983.6"]),
        ("900.00 and 90", ["900"]),
        ("1,200,000 or 1200000", ["1200000"]),
        ("0.125", ["0.125"]),
        ("room 1.10, not 1.1", ["1.10", "1.1"]),
        ("kilnlogger (1.5.3-2), v1.5.10", ["1.5.3", "1.5.10"]),
        ("H2O, A4, no. 12", []),
        ("no digit", []),
    ],
)
def test_forms_of_a_value_share_their_terms(text: str, terms: list[str]) -> None:
    assert list_value_terms(text) == terms


def test_values_are_told_with_their_place() -> None:
    text = "Paid 1,200 on 3 May 2026 by 14:00."
    assert [text[each.start : each.end] for each in find_written_values(text)] == [
        "1,200",
        "3 May 2026",
    ]


@pytest.mark.parametrize(
    ("question", "text", "form"),
    [
        ("What broke on 27 February 2026?", "2026-02-27 kiln", "What broke on 2026-02-27?"),
        ("What broke on 8 April?", "== 8.4.2026 ==", "What broke on 8.4.2026?"),
        ("What broke on 8.4.2026?", "8 April: a shelf", "What broke on 8 April?"),
        ("Which costs 3,318.60?", "Repairs 3318.6 in 2026", "Which costs 3318.6?"),
        ("What broke in April 2026?", "8 April 2026", "What broke in April 2026?"),
        ("What broke on 8 April 2026?", "8 April 2025", "What broke on 8 April 2026?"),
        ("What broke on 8 April?", "8 April, 2026-04-08", "What broke on 8 April?"),
        ("What broke?", "2026-04-08", "What broke?"),
    ],
)
def test_a_question_takes_the_forms_of_a_text(question: str, text: str, form: str) -> None:
    assert use_forms_of(question, text) == form
