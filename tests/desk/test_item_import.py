"""Files of questions and items: what is read, and what is said of a wrong line."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.desk.forms import GoldLabels, LabellingItem
from rookery.desk.item_import import read_items
from rookery.errors import Failed
from rookery.records import Answer, Question


def written(path: Path, *rows: Any) -> Path:
    """A line each: a text as it is, anything else as JSON."""
    said = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(said) + "\n", encoding="utf-8")
    return path


def wrong(path: Path | list[Path], form: str, prelude: bool = False) -> tuple[str, str, str]:
    with pytest.raises(Failed) as failed:
        read_items(path if isinstance(path, list) else [path], form, prelude)
    found = failed.value.failure
    assert found.what.startswith(str(path if isinstance(path, Path) else path[0].parent))
    return Path(found.what).name, found.outcome, found.detail


def saved(question: str, text: str | None, **more: Any) -> dict[str, Any]:
    answer = None if text is None else {"text": text, **more}
    asked = {"id": question, "text": f"Why {question}?"}
    return {"question": asked, "answer": answer, "stop": "end", "method": "webgpt", "counts": {}}


# Questions


def test_csv_has_questions_with_any_number_of_gold_answers(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(
        b"\xef\xbb\xbfId, Text,gold,gold2,source\r\n"
        b'7,"Why, oh why,\r\ndo crows?",So.,,book\r\n'
        b"\r\n"
        b',Who?,A.,"B, ""C"".",\r\n'
    )
    first, second = read_items([path], "demonstrate").items
    assert first.question == Question("7", "Why, oh why,\r\ndo crows?", (), ("So.",), "book")
    assert second.question.gold == ("A.", 'B, "C".')
    assert len(second.question.id) == 12
    assert second == LabellingItem("demonstrate", second.question)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1)))
def test_whatever_csv_quotes_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    asked = [text.strip() for text in texts if text.strip()]
    path = tmp_path_factory.mktemp("csv") / "q.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "id"], *([text, at] for at, text in enumerate(asked))])
    if asked:
        found = read_items([path], "demonstrate").items
        assert [item.question.text for item in found] == asked
    else:
        assert wrong(path, "demonstrate")[1] == "bad_line"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("question\nWhy?\n", 1, "found is: question"),
        ("text,text\nWhy?,b\n", 1, "each once"),
        ("id,text,answer\n1,a,b\n", 1, "found is: id, text, answer"),
        ("", 1, "found is: nothing"),
        ("id,text\n1,Why?\n2\n", 3, "expected are 2 cells, and there are 1"),
        ("id,text\n1,Why?\n2,\n", 3, "the question is empty"),
        ("id,text\n1,Why?\n1,Who?\n", 3, "the id '1' was used in"),
        ('id,text\n1,"Why?\n\nWho?', 2, "this is no CSV"),
        ("id,text\n1,Why\udcff?\n", 2, "this is no CSV in UTF-8"),
        ("id,text\n1," + "a" * 20_000 + "\n", 2, "20,000 characters"),
    ],
    ids=range(10),
)
def test_a_wrong_csv_is_told_by_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    what, outcome, detail = wrong(path, "demonstrate")
    assert (what, outcome) == (f"q.csv, line {line}", "bad_line")
    assert said in detail


def test_questions_and_items_are_lines_of_json(tmp_path: Path) -> None:
    question = Question("1", "Why?", gold=("So.",))
    item = LabellingItem("demonstrate", Question("2", "Who?"), start="https://birds.example/")
    path = written(tmp_path / "q.jsonl", question.to_json(), "", item.to_json())
    assert read_items([path], "demonstrate").items == [LabellingItem("demonstrate", question), item]


# Answers


def test_answers_are_records_or_plain_texts(tmp_path: Path) -> None:
    gold = {"expected": {"overall": 1}, "justification": "The second says why."}
    path = written(
        tmp_path / "c.jsonl",
        {"question": "Why?", "answers": ["So.", {"text": "Therefore."}], "writers": ["a", "b"]},
        {"question": {"id": "2", "text": "Who?"}, "answers": ["A.", "B."], "gold": gold},
    )
    first, second = read_items([path], "compare").items
    assert first.answers == (Answer("So."), Answer("Therefore."))
    assert (first.writers, first.gold) == (("a", "b"), None)
    assert second.gold == GoldLabels({"overall": 1}, "The second says why.")
    assert wrong(path, "compare", prelude=True)[0] == "c.jsonl, line 1"


@pytest.mark.parametrize(
    ("row", "form", "said"),
    [
        ("not JSON", "demonstrate", "expected is a question"),
        ('{"id": "1"}', "demonstrate", "expected is a question"),
        ('{"text": "Why?"}', "demonstrate", "the field `id` is missing"),
        ('{"id": "1", "text": "Why?", "gould": []}', "demonstrate", "gould"),
        ("[" * 5000, "demonstrate", "expected is a question"),
        ({"question": "Why?", "answers": ["a"]}, "compare", "takes 2 answers"),
        ({"question": "Why?", "answers": ["a", " "]}, "compare", "answer 2 is empty"),
        (
            {"question": "Why?", "answers": ["a", "b"], "answer": 1},
            "compare",
            "`answer` is unknown",
        ),
        ({"id": "1", "text": "Why?"}, "compare", "takes 2 answers"),
        ({"question": "Why?", "answers": ["a", "b"]}, "demonstrate", "takes 0 answers"),
        ({"question": "Why?", "answers": ["a"]}, "truthful", "trusted answers"),
        (
            {"question": "Why?", "answers": ["a", "b"], "gold": {"expected": {"best": 1}}},
            "compare",
            "best",
        ),
        ({"form": "thumbs", "question": {"id": "1", "text": "?"}}, "compare", "the form thumbs"),
    ],
    ids=range(13),
)
def test_a_wrong_line_is_told(tmp_path: Path, row: Any, form: str, said: str) -> None:
    good: dict[str, Any] = {"question": {"id": "0", "text": "Good?", "gold": ["So."]}}
    answers = {"compare": ["a", "b"], "truthful": ["a"]}.get(form)
    first = good | {"answers": answers} if answers else good["question"]
    what, outcome, detail = wrong(written(tmp_path / "x.jsonl", first, "", row), form)
    assert (what, outcome) == ("x.jsonl, line 3", "bad_line")
    assert said in detail


def test_saved_answers_to_one_question_are_compared(tmp_path: Path) -> None:
    old = written(tmp_path / "old.jsonl", *(saved(each, f"old {each}") for each in "abc"))
    new = written(
        tmp_path / "new.jsonl", saved("c", "new c"), saved("a", "new a"), saved("b", "new b")
    )
    found = read_items([old, new], "compare")
    assert [item.question.id for item in found.items] == ["a", "b", "c"]
    assert [each.text for each in found.items[2].answers] == ["old c", "new c"]
    assert found.items[0].writers == ("old", "new")
    assert found.left_out == {}


def test_questions_that_cannot_be_compared_are_left_out_and_counted(tmp_path: Path) -> None:
    old = written(
        tmp_path / "old.jsonl",
        saved("a", "same"),
        saved("b", None),
        saved("c", "old"),
        saved("d", "old", declined=True),
        saved("e", "old"),
    )
    new = written(
        tmp_path / "new.jsonl",
        saved("a", "same"),
        saved("b", "new"),
        saved("d", "new"),
        saved("e", "new"),
        saved("f", "new"),
    )
    found = read_items([old, new], "compare")
    assert [item.question.id for item in found.items] == ["e"]
    assert found.left_out == {
        "questions with the same answer in every file": 1,
        "questions without an answer, or with a declined one": 2,
        "questions that are not in every file": 2,
    }


def test_one_file_of_saved_answers_is_for_forms_of_one_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", saved("a", "so"), saved("b", None))
    found = read_items([path], "thumbs")
    assert [(item.answers, item.writers) for item in found.items] == [((Answer("so"),), ("a",))]
    assert wrong(path, "compare")[2].startswith("the form compare takes 2 files")


def test_saved_answers_are_no_attention_checks(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", saved("a", "so"))
    what, outcome, detail = wrong(path, "thumbs", prelude=True)
    assert (what, outcome) == ("a.jsonl, line 1", "bad_line")
    assert "gold" in detail
    other = written(tmp_path / "b.jsonl", saved("a", "no"))
    assert wrong([path, other], "compare", prelude=True)[:2] == ("a.jsonl, line 1", "bad_line")


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    paths = []
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        paths.append(written(tmp_path / folder / "a.jsonl", saved("q", folder)))
    [item] = read_items(paths, "compare").items
    assert item.writers == tuple(map(str, paths))


def test_files_that_do_not_go_together_are_told(tmp_path: Path) -> None:
    first = written(tmp_path / "1.jsonl", saved("a", "so"), saved("b", "so"))
    other = written(tmp_path / "2.jsonl", saved("b", "no"), {"id": "a", "text": "Why a?"})
    assert wrong([first, other], "compare")[0] == "2.jsonl, line 2"
    twice = written(tmp_path / "3.jsonl", saved("a", "no"), saved("a", "yes"))
    what, _, detail = wrong([first, twice], "compare")
    assert what == "3.jsonl, line 2"
    assert "3.jsonl, line 1" in detail
    nothing = written(tmp_path / "4.jsonl", saved("z", "so"))
    assert "not in every file: 3" in wrong([first, nothing], "compare")[2]


def test_no_file_and_no_form_are_told(tmp_path: Path) -> None:
    assert wrong(tmp_path / "none.jsonl", "compare")[1] == "not_found"
    assert wrong(tmp_path / "none.csv", "demonstrate")[1] == "not_found"
    with pytest.raises(Failed) as failed:
        read_items([written(tmp_path / "q.jsonl", {})], "comparison")
    assert failed.value.failure.outcome == "no_form"
    assert "best_of_four" in failed.value.failure.detail
