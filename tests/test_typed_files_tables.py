"""Tables of the package that are written as lines of text."""

from pathlib import Path

import pytest

from rookery.errors import Outcome
from rookery.pages.file_selection import READER_OF_ENDING, TYPES_NOT_OPENED
from rookery.typed_files import read_text_table

ROOT = Path(__file__).parent.parent / "rookery"
TABLES = (
    *("cli/stored_files.txt", "pages/file_types.txt", "pages/types_not_opened.txt"),
    *("pages/skip_reasons.txt", "shell/missing_answers.txt", "server/api/outcome_errors.txt"),
    *("pages/xml_namespaces.txt", "pages/function_words.txt", "pages/html/shorthands.txt"),
)


def test_a_line_that_begins_with_a_blank_continues_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a: b = c = d\n    e f\ng = h\n", "utf-8")
    assert read_text_table(tmp_path / "t.txt") == {"a: b": "c = d e f", "g": "h"}


@pytest.mark.parametrize("table", TABLES)
def test_each_name_stands_once(table: str) -> None:
    lines = (ROOT / table).read_text("utf-8").splitlines()
    assert len(read_text_table(ROOT / table)) == sum(not line.startswith(" ") for line in lines)


def test_what_is_worded_is_an_outcome() -> None:
    worded = {name for table in TABLES[3:6] for name in read_text_table(ROOT / table)}
    assert len(worded) > 30
    assert worded - set(Outcome) == {"other"}


def test_an_ending_is_read_or_left_out() -> None:
    assert not READER_OF_ENDING.keys() & TYPES_NOT_OPENED.keys()
