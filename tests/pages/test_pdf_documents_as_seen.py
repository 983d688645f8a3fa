"""PDFs are read as their reader sees them: fields, notes, stamps, unseen text, stretched lines."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from pdf_files import write_pdf

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.pdf_rendering import DrawJob, draw_pdf_page
from rookery.records import Page

SHADING = (
    "<< /PatternType 2 /Shading << /ShadingType 2 /ColorSpace /DeviceGray /Coords [0 0 612 0] "
    "/Function << /FunctionType 2 /Domain [0 1] /C0 [0] /C1 [0.4] /N 1 >> >> >>"
)
RESOURCES = (
    "/Font << /F1 5 0 R >> /XObject << /I 6 0 R /M 7 0 R >> /Pattern << /P " + SHADING + " >> "
    "/Properties << /One 7 0 R /Two 8 0 R >>"
)


def write_page(
    content: str, annotations: tuple[str, ...] = (), form: bool = False, packed: bool = False,
    catalog: str = "",
) -> bytes:  # fmt: skip
    """A PDF of one page with this content; annotations, or a form /M, are objects 7 and more."""
    stream = content.encode("cp1252")
    stream = zlib.compress(stream) if packed else stream
    filters = b"/Filter /FlateDecode" if packed else b""
    numbers = " ".join(f"{7 + n} 0 R" for n in range(len(annotations)))
    fields = f"/AcroForm << /Fields [{numbers}] >>" if form else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {fields} {catalog} >>".encode(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Annots [{numbers}]"
        f" /Resources << {RESOURCES} >> >>".encode(),
        b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(stream), filters, stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding "
        b"<< /BaseEncoding /WinAnsiEncoding /Differences [156 /uni2010] >> >>",
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace "
        b"/DeviceGray /Length 1 >>\nstream\n\x99\nendstream",
        *(each.encode() for each in annotations),
    ]
    out, places = b"%PDF-1.5\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return out + head + table + end % (len(objects) + 1, len(out))


def read(data: bytes) -> Page:
    return read_page(data, "http://x.org/a.pdf")


def show(x: float, y: float, text: str, before: str = "", size: float = 12) -> str:
    return f"q {before} BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET Q\n"


FIELD = "<< /Type /Annot /Subtype /Widget /Rect [{}] /T ({}) {} >>"
FORM = (
    FIELD.format("180 695 300 715", "a", "/FT /Tx /V (Ottilie Farnham)"),
    FIELD.format("72 660 84 672", "b", "/FT /Btn /V /Yes /AS /Yes /AP << /N << /Yes 4 0 R >> >>"),
    FIELD.format("72 640 84 652", "c", "/FT /Btn /V /Off /AS /Off"),
    FIELD.format("180 615 300 635", "d", "/FT /Ch /Ff 131072 /Opt [[(l) (lugger)]] /V (l)"),
    FIELD.format("180 595 300 615", "e", "/FT /Tx /Ff 8192 /V (secret)"),
    FIELD.format("180 575 300 595", "f", "/FT /Tx /F 2 /V (withdrawn)"),
)
LABELS = (
    show(72, 740, "Register of the lamps of the pier.")
    + show(72, 700, "Name of the keeper:")
    + show(90, 662, "northern pier")
    + show(90, 642, "southern pier")
    + show(72, 620, "Kind of boat:")
    + show(72, 600, "Password:")
)


def test_fields_of_a_form_stand_behind_their_labels() -> None:
    data = write_page(LABELS, FORM, form=True)
    page = read(data)
    lines = join_visible_text(page).split("\n\n")
    assert "Name of the keeper: Ottilie Farnham" in lines
    assert "☒ northern pier" in lines
    assert "☐ southern pier" in lines
    assert "Kind of boat: lugger" in lines
    assert "secret" not in page.text
    assert "withdrawn" in page.text
    assert "withdrawn" not in "".join(lines)
    (mark,) = [mark for mark in page.marks if mark.kind == "page"]
    at = page.text.index("Ottilie")
    job = DrawJob(data, 1, page.text[mark.start : mark.end], (at, at + 7))
    assert len(draw_pdf_page(job).boxes) == 1


def test_text_of_annotations_is_read() -> None:
    added = (
        "<< /Type /Annot /Subtype /FreeText /Rect [180 695 300 715] /Contents (Gull of Tarbert) >>",
        "<< /Type /Annot /Subtype /Text /Rect [400 695 420 715] /Contents (Approved.) >>",
    )
    text = join_visible_text(read(write_page(show(72, 700, "Name of the boat:"), added)))
    assert text.split("\n\n") == ["Name of the boat: Gull of Tarbert", "Approved."]


@pytest.mark.parametrize(
    "unseen",
    [
        show(72, 680, "The award is void.", "3 Tr"),
        show(72, 680, "The award is void.", "1 g"),
        show(72, 680, "The award is void.", "0 0 9 9 re W n"),
        show(72, 680, "The award is void.", "0 0 1 rg 60 670 300 30 re f"),
        show(72, 680, "The award is void.") + "0 g 60 670 300 30 re f\n",
        show(72, 680, "The award is void.") + "q 300 0 0 30 60 670 cm /I Do Q\n",
        show(72, 680, "The award is void.", size=0.4),
        show(72, 980, "The award is void."),
    ],
    ids=["mode 3", "white", "clipped", "own colour", "rectangle", "picture", "tiny", "outside"],
)
def test_unseen_text_is_kept_and_not_shown(unseen: str) -> None:
    data = write_page(show(72, 720, "The award is 485 crowns.") + unseen + show(72, 600, "Paid."))
    page = read(data)
    assert join_visible_text(page).split() == "The award is 485 crowns. Paid.".split()
    assert page.text.endswith("The award is void.")
    assert page.blocks[-1].hidden
    (mark,) = [mark for mark in page.marks if mark.kind == "page"]
    assert draw_pdf_page(DrawJob(data, 1, page.text[mark.start : mark.end], (0, 3))).boxes


def test_layers_that_are_off_are_not_shown() -> None:
    layers = tuple(f"<< /Type /OCG /Name ({name}) >>" for name in ("Deutsch", "English"))
    order = "/OCProperties << /OCGs [7 0 R 8 0 R] /D << /OFF [{} 0 R] >> >>"
    content = show(72, 720, "Nur zum Lesen.") + "".join(
        f"/OC /{name} BDC {show(72, 700, text)} EMC "
        for name, text in (("One", "Nicht berühren."), ("Two", "Please touch it."))
    )
    for off, seen in ((7, "Please touch it."), (8, "Nicht berühren.")):
        page = read(write_page(content, layers, catalog=order.format(off)))
        assert join_visible_text(page).split() == f"Nur zum Lesen. {seen}".split()
        assert page.blocks[-1].hidden


def test_words_that_stand_for_others_are_not_read() -> None:
    span = "/Span << /ActualText ({}) >> BDC {} EMC "
    content = span.format("Lit on holidays only.", show(72, 700, "The stove is lit in May."))
    content += span.format("finch", show(72, 660, "f inch"))
    text = join_visible_text(read(write_page(content)))
    assert text == "The stove is lit in May. finch"


@pytest.mark.parametrize("layer", ["3 Tr", "1 g"])
def test_the_text_layer_of_a_scan_is_seen(layer: str) -> None:
    scan = "q 612 0 0 792 0 0 cm /I Do Q\n"
    layer = show(72, 720, "The lamp is lit.", layer)
    assert join_visible_text(read(write_page(scan + layer))) == "The lamp is lit."
    assert join_visible_text(read(write_page(layer + scan))) == "The lamp is lit."


@pytest.mark.parametrize("ground", ["0 0 1 rg", "/Pattern cs /P scn"], ids=["blue", "shading"])
def test_white_text_on_a_dark_ground_is_seen(ground: str) -> None:
    ground = f"q {ground} 60 670 300 30 re f Q\n"
    assert join_visible_text(read(write_page(ground + show(72, 680, "Prices", "1 g")))) == "Prices"


def test_text_is_clipped_where_its_form_is_drawn() -> None:
    inner = show(0, 5, "The lamp is lit. Void.", "0 0 80 20 re W n")
    form = (
        "<< /Type /XObject /Subtype /Form /BBox [0 0 400 400] /Resources << /Font << /F1 5 0 R >> "
        f">> /Length {len(inner)} >>\nstream\n{inner}\nendstream"
    )
    page = read(write_page("q 1 0 0 1 72 600 cm /M Do Q\n", (form,)))
    assert join_visible_text(page) == "The lamp is lit."


@pytest.mark.parametrize("packed", [False, True])
def test_a_gap_between_spaced_letters_is_a_space(packed: bool) -> None:
    content = show(72, 700, "It was counted by tw").replace(
        " Tj", " Tj 2.9 Tc 106 0 Td (op) Tj 0 Tc 16.3 0 Td (eople who did not know it.) Tj"
    )
    read_text = join_visible_text(read(write_page(content, packed=packed)))
    assert read_text == "It was counted by two people who did not know it."


PROSE = [
    "The keeper counted two hundred and twelve lamps along",
    "the northern pier before the storm closed the harbour",
    "for nine days, and then he wrote the number down in a",
    "book that the harbour office keeps to this very day,",
    "although nobody has read it.",
]


def test_numbers_of_lines_are_no_part_of_the_sentences() -> None:
    lines = (
        show(50, 700 - 14 * n, str(n + 1), size=8) + show(90, 700 - 14 * n, line)
        for n, line in enumerate(PROSE)
    )
    assert " ".join(PROSE) in join_visible_text(read(write_page("".join(lines))))


def test_numbers_of_chapters_are_read_with_their_titles() -> None:
    """They count on in the margin, but not the lines."""
    lines = [
        show(50, 700 - 42 * n, str(n + 1)) + "".join(
            show(90, 700 - 42 * n - 14 * m, f"{each} to be read in this part of the book")
            for m, each in enumerate(("Lamps", "Names", "Dates"))
        )
        for n in range(6)
    ]  # fmt: skip
    page = read(write_page("".join(lines)))
    assert not any(block.furniture for block in page.blocks)


def test_the_number_of_the_second_page_is_no_part_of_its_text() -> None:
    first = write_pdf([["The keeper of the lamp counted"], ["- 2 -", "the boats of the town."]])
    text = join_visible_text(read(first))
    assert text == "The keeper of the lamp counted the boats of the town."


def write_lines(lines: Sequence[str]) -> bytes:
    return write_page("".join(show(72, 740 - 14 * n, line) for n, line in enumerate(lines)))


def test_the_hyphen_of_a_word_stays_where_the_program_divides_none() -> None:
    often = [f"line {n} of the harbour says what the others say" for n in range(38)]
    page = read(write_lines([*often, "and the lamp has a pearl-", "coloured glass."]))
    assert "a pearl-coloured glass." in join_visible_text(page)
    divided = [line for n in range(8) for line in (*often[:3], f"and {n} of the har-", "bour say")]
    page = read(write_lines([*divided, "and the lamp has a pearl-", "coloured glass."]))
    assert "a pearlcoloured glass." in join_visible_text(page)


@pytest.mark.parametrize(
    "stamp",
    [
        "q 0 0 1 rg BT /F1 48 Tf 0.7 0.7 -0.7 0.7 150 600 Tm (DRAFT) Tj ET Q\n",
        show(150, 670, "DRAFT", size=48),
        show(260, 644, "DRAFT", size=48),
    ],
    ids=["aslant", "upright", "behind the last line"],
)
def test_a_stamp_stands_apart_from_the_sentences_that_it_crosses(stamp: str) -> None:
    lines = "".join(show(90, 700 - 14 * n, line) for n, line in enumerate(PROSE))
    page = read(write_page(lines + stamp))
    assert join_visible_text(page) == " ".join(PROSE)
    (last,) = [block for block in page.blocks if block.furniture]
    assert page.text[last.start : last.end] == "DRAFT"


WIDTHS = dict(zip("abcdefghijklmnoprstuvwy", (
    556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 333, 500, 278,
    556, 500, 722, 500,
), strict=True)) | {" ": 278, ".": 278}  # fmt: skip
"""of the letters of Helvetica, in thousandths of its size"""


def stretch(y: float, line: str, right: float = 216) -> str:
    """A line whose spaces are as wide as it takes to reach from 72 to the right."""
    words = line.split()
    widths = [12 * sum(WIDTHS[letter] for letter in word) / 1000 for word in words]
    gap = (right - 72 - sum(widths)) / (len(words) - 1)
    lefts = (72 + sum(widths[:n]) + n * gap for n in range(len(words)))
    return "".join(show(x, y, word) for x, word in zip(lefts, words, strict=True))


def test_gaps_of_stretched_lines_are_no_columns() -> None:
    lines = [
        "and then the harbour men",
        "represented the",
        "whole town with",
        "lamps and boats on rope",
    ]
    text = join_visible_text(
        read(write_page("".join(stretch(700 - 14 * n, line) for n, line in enumerate(lines))))
    )
    assert text == " ".join(lines)


def test_a_word_of_which_the_pieces_overlap_is_whole() -> None:
    """groff sets the letters of a pair closer, and PDFium begins a line with the second."""
    page = read((Path(__file__).parent / "files" / "columns.pdf").read_bytes())
    text = join_visible_text(page)
    for words in (
        "or well over a hundred",
        "I have fed the same",
        "took it for a woodpecker. Clean",
    ):
        assert words in text


@pytest.mark.parametrize("hyphen", ["\xad", "œ"], ids=["soft", "U+2010"])
def test_a_hyphen_of_unicode_divides_a_word_at_the_end_of_a_line(hyphen: str) -> None:
    page = write_page(show(72, 700, f"The har{hyphen}") + show(72, 686, "bour office is closed."))
    assert join_visible_text(read(page)) == "The harbour office is closed."
