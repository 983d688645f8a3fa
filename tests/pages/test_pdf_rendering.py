"""On the picture of a PDF's page the quote's words are marked, and no others."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pypdfium2
import pytest
from shelves import REPORT, come_in, keep, marked, own_home, read_from, spans
from visits import Opened, Visit
from windows import CHROMIUM

from rookery.errors import Failed
from rookery.library.libraries import get_bundled_folder
from rookery.pages.pdf_rendering import (
    DrawnPage,
    PdfPage,
    PdfRenderer,
    draw_pdf_page,
    list_pdf_pages,
    make_box_job,
)
from rookery.records import Block, Mark, Page

PICTURES = 500
"""cases on each PDF"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache of the test's own."""
    yield from own_home(tmp_path, monkeypatch)


@pytest.fixture
def reader(opened: Opened) -> Visit:
    """Somebody who may only read."""
    return come_in(opened)


class Letter(NamedTuple):
    """A letter on a page of a PDF, and where its middle is."""

    letter: str
    x: float
    y: float


def letters_of(pdf: Path) -> list[tuple[float, list[Letter]]]:
    """The width of each page and its letters, found without the code under test."""
    document, pages = pypdfium2.PdfDocument(pdf), []
    for page in document:
        width, height = page.get_size()
        text, letters = page.get_textpage(), []
        for at in range(text.count_chars()):
            letter = text.get_text_range(at, 1).strip("\ufffe\x02 \r\n")
            x0, bottom, right, top = text.get_charbox(at)
            if letter:
                letters.append(Letter(letter, (x0 + right) / 2, height - (bottom + top) / 2))
        pages.append((width, letters))
    document.close()
    return pages


def words_under(width: float, letters: list[Letter], page: DrawnPage) -> str:
    """The letters whose middle lies in one of the boxes."""
    scale = page.width / width
    return "".join(
        one.letter
        for one in letters
        if any(
            box.x <= one.x * scale <= box.x + box.width
            and box.y <= one.y * scale <= box.y + box.height
            for box in page.boxes
        )
    )


def letters(text: str) -> str:
    # A hyphen at the end of a line is no letter to PDFium.
    return "".join(text.split()).replace("-", "")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of the bundled web as Chromium prints them."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    place = tmp_path_factory.mktemp("printed") / "crow.pdf"
    source = (get_bundled_folder() / "american-crow.html").as_uri()
    command = [CHROMIUM, "--headless", "--no-sandbox", f"--print-to-pdf={place}", source]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("source", ["bundled", "printed"])
def test_what_is_marked_on_the_picture_are_the_quotes_words_in_random_cases(
    source: str, request: pytest.FixtureRequest
) -> None:
    file = REPORT if source == "bundled" else request.getfixturevalue("printed")
    page, chance, data = read_from(file), Random(3), file.read_bytes()
    there, done = letters_of(file), 0
    while done < PICTURES:
        for start, end in spans(page, chance, 1):
            for sheet in list_pdf_pages(page):
                low, high = max(start, sheet.start), min(end, sheet.end)
                if low >= high:
                    continue
                found = draw_pdf_page(make_box_job(data, page, sheet, (start, end)))
                assert found.located
                said = words_under(*there[sheet.number - 1], found)
                # The file has the foot of a page elsewhere than the text.
                assert Counter(letters(said)) == Counter(letters(page.text[low:high])), (start, end)
                done += 1


TALL = 841.8900146484375
"""points of the report's pages"""


def put(one: Letter, turned: int) -> Letter:
    """Where a letter is once the page is cut to (20, 10, 580, 820) and turned to the right."""
    if turned == 90:
        return Letter(one.letter, TALL - one.y - 10, one.x - 20)
    if turned == 180:
        return Letter(one.letter, 580 - one.x, TALL - one.y - 10)
    return Letter(one.letter, one.x - 20, one.y - (TALL - 820))


@pytest.mark.slow
@pytest.mark.parametrize("turned", [0, 90, 180])
def test_the_words_are_marked_on_a_page_that_is_turned_and_cut(home: Path, turned: int) -> None:
    document = pypdfium2.PdfDocument(REPORT)
    for sheet in document:
        sheet.set_rotation(turned)
        sheet.set_cropbox(20, 10, 580, 820)
    file = home / "turned.pdf"
    document.save(file)
    page, chance, data = read_from(file), Random(5), file.read_bytes()
    there = [[put(one, turned) for one in each] for _, each in letters_of(REPORT)]
    width = 810.0 if turned == 90 else 560.0
    for start, end in spans(page, chance, 20):
        for sheet in list_pdf_pages(page):
            low, high = max(start, sheet.start), min(end, sheet.end)
            if low < high:
                found = draw_pdf_page(make_box_job(data, page, sheet, (start, end)))
                assert found.located
                said = words_under(width, there[sheet.number - 1], found)
                assert Counter(letters(said)) == Counter(letters(page.text[low:high]))


@pytest.mark.slow
def test_a_drawing_process_finds_what_is_found_here() -> None:
    page, data = read_from(REPORT), REPORT.read_bytes()
    for sheet in list_pdf_pages(page):
        span = (sheet.start + 40, sheet.start + 700)
        assert PdfRenderer().find_boxes(data, page, sheet, span) == draw_pdf_page(
            make_box_job(data, page, sheet, span)
        )


@pytest.mark.slow
def test_a_pdf_page_is_shown_as_a_picture_with_its_words_marked(reader: Visit) -> None:
    page = read_from(REPORT)
    keep(page)
    at = page.text.index("Eurasian jays carried")
    seen = reader.get(f"/pages/{page.digest}?start={at}&end={at + 40}")
    assert marked(seen.html) == page.text[at : at + 40]
    assert seen.page.css("svg rect.quoted")
    assert not seen.page.css("main [style]")
    image = reader.client.get(seen.first("svg image").attributes["href"] or "")
    assert image.headers["content-type"] == "image/png"
    assert image.content[:8] == b"\x89PNG\r\n\x1a\n"
    assert reader.get(f"/pages/{page.digest}/images/9").status == 404


@pytest.mark.slow
def test_a_picture_of_other_words_is_not_shown(reader: Visit, home: Path) -> None:
    file = home / "report.pdf"
    shutil.copyfile(REPORT, file)
    page = read_from(file)
    changed = page.text.replace("Eurasian jays carried", "Eurasian rooks carried")
    shift = len(changed) - len(page.text)
    first = page.marks[0]
    other = Page(
        page.url,
        page.title,
        changed,
        (Block(0, len(changed), "paragraph"),),
        marks=(Mark(first.start, first.end + shift, "page", "1"),),
    )
    keep(other)
    at = changed.index("Eurasian rooks")
    reader.get(f"/pages/{other.digest}?start={at}&end={at + 14}")
    assert marked(reader.html) == "Eurasian rooks"
    assert not reader.page.css("svg rect.quoted")
    assert "its letters are not those" in reader.text
    assert reader.get(f"/pages/{other.digest}/images/1").status == 404


def test_where_the_file_is_gone_the_text_is_shown_and_the_reason_said(
    reader: Visit, home: Path
) -> None:
    file = home / "gone.pdf"
    shutil.copyfile(REPORT, file)
    page = read_from(file)
    keep(page)
    file.write_bytes(b"no longer a PDF")
    reader.get(f"/pages/{page.digest}?start=0&end=20")
    assert "replaced by another" in reader.text
    file.unlink()
    reader.get(f"/pages/{page.digest}?start=0&end=20")
    assert "no longer where it was read" in reader.text
    assert marked(reader.html) == page.text[:20]
    assert reader.get(f"/pages/{page.digest}/images/1").status == 404


def test_a_pdf_that_breaks_its_reader_costs_its_picture_alone() -> None:
    page = read_from(REPORT)
    with pytest.raises(Failed) as caught:
        PdfRenderer().draw_picture(b"%PDF-1.7 and then nothing", page, list_pdf_pages(page)[0])
    assert caught.value.failure.outcome == "not_drawn"
    with pytest.raises(Failed):
        PdfRenderer().find_boxes(REPORT.read_bytes(), page, PdfPage(99, 0, 5), (0, 5))
