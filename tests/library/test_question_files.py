"""Questions from people and files: what is refused, and in which words."""

from pathlib import Path

import pytest

from rookery.library.question_files import MOST_QUESTION_CHARACTERS, parse_question, read_questions


def test_a_question_is_one_line() -> None:
    assert parse_question("  Why do\ncrows play? ").text == "Why do crows play?"


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_question_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the question is empty"):
        parse_question(text)


def test_an_enormous_question_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"1,000,000 characters .* ask about that"):
        parse_question("x" * 1_000_000)
    assert parse_question("x" * MOST_QUESTION_CHARACTERS)


def test_questions_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"id":"a","text":"Why?"}\n\n{"id":"b","text":"How?","gold":["so"]}\n')
    assert [(q.id, q.text, q.gold) for q in read_questions(file)] == [
        ("a", "Why?", ()),
        ("b", "How?", ("so",)),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "nonsense",
            r"line 2: not a question \(it is not JSON: .*\); write one question a line, as",
        ),
        ('{"id":"b"}', "the field `text` is missing"),
        ('{"id":"b","text":""}', "the question is empty"),
        ('{"id":"b","text":"?","txt":1}', "the field `txt` is unknown"),
        ('{"id":"a","text":"again?"}', "the id 'a' was used in line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"id":"a","text":"Why?"}\n' + line + "\n")
    with pytest.raises(ValueError, match=said):
        list(read_questions(file))
