"""PDFs by real programs: paragraphs, headings, tables and notes, and no running heads in them."""

import io
import itertools
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.records import Page

FILES = Path(__file__).parent / "files"


def read(name: str) -> Page:
    return read_page((FILES / name).read_bytes(), f"http://x.org/{name}")


@pytest.fixture(scope="module")
def ferry() -> Page:
    """Written by groff: two columns, heads on left and right pages, a note, three pages."""
    return read("ferry.pdf")


@pytest.fixture(scope="module")
def survey() -> Page:
    """Written by LibreOffice: a head, a foot, a table, a list, two pages."""
    return read("survey.pdf")


def blocks_of(page: Page, kind: str) -> list[str]:
    return [page.text[b.start : b.end] for b in page.blocks if b.kind == kind and b.article]


def block_with(page: Page, words: str) -> str:
    """The one block that holds the words, whole."""
    at = page.text.index(words)
    assert page.text.count(words) == 1
    (found,) = [b for b in page.blocks if b.start <= at and at + len(words) <= b.end]
    return page.text[found.start : found.end]


TURNS = {90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}
"""How the content of a page is turned that /Rotate sets upright again."""


def turn_pages(source: bytes, turn: int, visible: bool) -> bytes:
    """A document whose pages lie turned in the file, and set upright if `visible`."""
    buffer = io.BytesIO()
    with pdfium.PdfDocument(source) as document:
        for page in document:
            width, height = page.get_size()
            a, b, c, d = TURNS[turn]
            e = {90: height, 180: width, 270: 0}[turn]
            f = {90: 0, 180: height, 270: width}[turn]
            matrix = pdfium_c.FS_MATRIX(a, b, c, d, e, f)
            sides = (width, height) if turn == 180 else (height, width)
            page.set_mediabox(0, 0, *sides)
            page.set_cropbox(0, 0, *sides)
            assert pdfium_c.FPDFPage_TransFormWithClip(page, matrix, None)
            page.set_rotation(turn if visible else 0)
            page.close()
        document.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("shown", [True, False], ids=["upright", "on its side"])
@pytest.mark.parametrize("turn", [90, 180, 270])
@pytest.mark.parametrize("name", ["ferry.pdf", "survey.pdf"])
def test_a_page_that_lies_turned_in_the_file_is_read_upright(
    name: str, turn: int, shown: bool
) -> None:
    page = read(name)
    turned = read_page(turn_pages((FILES / name).read_bytes(), turn, shown), page.url)
    assert turned.text == page.text
    assert [block.kind for block in turned.blocks] == [block.kind for block in page.blocks]


def test_running_heads_and_page_numbers_are_furniture(ferry: Page, survey: Page) -> None:
    for page, lines in (
        (ferry, ["Report of the harbour office", "1", "2", "Ferries of the inner sound",
                 "Report of the harbour office", "3"]),
        (survey, ["Survey of hedges, draft", "Page 1", "Survey of hedges, draft", "Page 2"]),
    ):  # fmt: skip
        furniture = [b for b in page.blocks if b.furniture]
        assert [page.text[b.start : b.end] for b in furniture] == lines
        assert not any(b.article for b in furniture)
    assert "Report of the harbour office" not in join_visible_text(ferry)
    assert "Report of the harbour office" in join_visible_text(ferry, full=True)


def test_a_sentence_that_crosses_a_page_is_one_slice_and_the_marks_meet_in_it(ferry: Page) -> None:
    sentence = (
        "The engineers have inspected both boats and recommend the smaller one, because her hull "
        "is sound and because the larger would not pass the narrow entrance of the northern "
        "harbour at low water."
    )
    assert block_with(ferry, sentence).startswith("It has been proposed that a fourth vessel")
    first, second, third = (mark for mark in ferry.marks if mark.kind == "page")
    paragraph = ferry.text.index("It has been proposed")
    assert paragraph < first.end == second.start < paragraph + 600
    assert "Ferries of the inner sound" in ferry.text[second.start : second.end]
    assert third.end == len(ferry.text)


def test_columns_are_read_one_after_the_other_and_notes_stand_apart(ferry: Page) -> None:
    sentence = (
        "The Gannet carries vehicles and livestock, and in summer also the travelling theatre"
    )
    assert block_with(ferry, sentence).startswith("Three vessels are in service.")
    note = "* Eleven letters, of which four concerned the price of coffee."
    assert block_with(ferry, note) == note


def test_words_divided_at_the_end_of_a_line_are_joined(ferry: Page) -> None:
    assert "travelling theatre with its scenery" in ferry.text
    assert "forty-one years of service" in ferry.text
    assert "the well-known custom" in ferry.text
    assert not set("\x02\ufffe\xad") & set(ferry.text)


def test_rows_of_a_table_have_cells(survey: Page) -> None:
    rows = (
        "Lane\tLength\tPlants found\n"
        "Mill Lane\t420 m\thawthorn, hazel, dog rose and a single wild pear\n"
    )
    assert rows in survey.text
    assert "Old Road\t75 m\telder and field maple" in survey.text
    assert "Mill Lane | 420 m | hawthorn" in join_visible_text(survey)
    assert blocks_of(survey, "cell")[:4] == ["Lane", "Length", "Plants found", "Mill Lane"]


def test_headings_have_levels_and_items_are_items(ferry: Page, survey: Page) -> None:
    assert blocks_of(ferry, "heading") == [
        "Crossings and weather", "The fleet", "Staff", "Harbours"
    ]  # fmt: skip
    levels = [(survey.text[b.start : b.end], b.level) for b in survey.blocks if b.kind == "heading"]
    assert levels == [("Survey of hedges", 1), ("Method", 2)]
    assert [item[:8] for item in blocks_of(survey, "item")] == ["1. Begin", "2. Count"]
    assert blocks_of(survey, "item")[1].endswith("lean over it from the field behind.")


def test_blocks_stand_in_order_and_white_space_between_them(ferry: Page, survey: Page) -> None:
    for page in (ferry, survey):
        at = 0
        for block in page.blocks:
            assert block.start >= at
            assert not page.text[at : block.start].strip()
            at = block.end
        assert at == len(page.text)
        marks = [mark for mark in page.marks if mark.kind == "page"]
        assert marks == sorted(marks, key=lambda mark: mark.start)
        for before, mark in itertools.pairwise(marks):
            assert before.end <= mark.start
        # Every letter belongs to the text of a page.
        covered = "".join(page.text[mark.start : mark.end] for mark in marks)
        assert covered.split() == page.text.split()
