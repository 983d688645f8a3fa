"""Text of every kind: told from binary data, decoded, and cut into blocks as it is written."""

import gzip
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.passages import cut_passages, find_sentences, get_headings_above
from rookery.pages.text_encoding import decode_text, is_text
from rookery.records import Page

JAPANESE = "カラスは人の顔を覚えることができる。仮面をかぶった人を何年も覚えていた。"
CHINESE = "乌鸦能够记住人的面孔。研究人员戴着面具进行实验，几年之后乌鸦仍然认得他们。"
TAIWANESE = "烏鴉能夠記住人的面孔。研究人員戴著面具進行實驗，幾年之後烏鴉仍然認得他們。"
KOREAN = "까마귀는 사람의 얼굴을 기억할 수 있다. 연구자들은 가면을 쓰고 실험을 했다."
RUSSIAN = "Вороны запоминают лица людей и передают это знание птенцам. " * 3
GREEK = "Τα κοράκια θυμούνται τα πρόσωπα των ανθρώπων και μεταδίδουν αυτή τη γνώση. "
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. " * 3
GERMAN = "Füße und Äpfel: schöne Größe, über den Wolken läuft die Krähe."
FRENCH = "L’été dernier, où étaient les élèves ? À l’école — déjà !"
ARABIC = "تتذكر الغربان وجوه البشر وتنقل هذه المعرفة إلى صغارها."

REAL = [
    (JAPANESE, "shift_jis euc_jp utf-8 utf-16-le utf-16-be"),
    (CHINESE, "gb18030 utf-8 utf-16-le utf-16-be"),
    (TAIWANESE, "big5 utf-16-le"),
    (KOREAN, "euc_kr utf-16-le utf-16-be"),
    (RUSSIAN, "windows-1251 koi8-r cp866 utf-8 utf-16 utf-16-le utf-16-be"),
    (GREEK, "iso8859-7 utf-8 utf-16-le utf-16-be"),
    (CZECH, "windows-1250 utf-8-sig utf-16-be"),
    (GERMAN, "latin-1 utf-8 utf-16-le utf-16-be"),
    (FRENCH, "windows-1252 utf-16-le"),
    (ARABIC, "windows-1256 utf-16-le utf-16-be"),
    ("The quick brown fox.\n", "ascii utf-16 utf-16-le utf-16-be"),
    ("Hi", "ascii utf-16-le utf-16-be"),
]


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, name) for text, names in REAL for name in names.split()]
)
def test_real_text_is_text_and_is_read_as_it_was_written(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    assert is_text(data)
    assert decode_text(data) == text
    assert read_page(data, "file:///a.txt").text == text


def test_an_empty_last_cell_leaves_nothing_on_the_next_row() -> None:
    page = read_page(b"bird,seeds,stock\nrook,20,\ncrow,30,4\njay,,5\n", "file:///a.csv")
    shown = join_visible_text(page).splitlines()
    assert shown == ["bird\tseeds\tstock", "rook\t20", "crow\t30\t4", "jay\t\t5"]


@given(st.integers(min_value=64, max_value=5000), st.integers(min_value=0))
@example(65_536, 1)
@example(200_001, 2)
def test_random_bytes_are_never_text(size: int, seed: int) -> None:
    data = random.Random(seed).randbytes(size)
    assert not is_text(data)
    for name in ("a.txt", "a.md", "a.html", "a.csv", "a.rst", "a"):
        with pytest.raises(Failed) as caught:
            read_page(data, f"file:///{name}", "text/html" if name == "a.html" else "")
        assert caught.value.failure.outcome in ("binary", "unsupported_type", "malformed")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "most"), [(1, 0.5), (4, 0.12), (8, 0.01), (16, 0.004), (32, 0.0)])
def test_very_few_random_bytes_pass_as_seldom_as_is_said(size: int, most: float) -> None:
    draw = random.Random(size).randbytes
    passed = sum(is_text(draw(size)) for _ in range(2000))
    assert passed <= most * 2000


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"hello, hello, hello" * 20),
        b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(300),
        b"some words\0and a NUL, as in a tape archive" + bytes(500) + b"more words" * 50,
        b"\xff\xfe" + random.Random(2).randbytes(4000),
        bytes(1000),
        b"".join(n.to_bytes(2, "little") for n in range(0, 9000, 7)),
        bytes(range(1, 32)) * 40,
    ],
    ids=["gzip", "picture", "NULs", "mark and noise", "zeros", "numbers", "controls"],
)
def test_what_is_no_text_is_refused_in_words_whatever_its_name(data: bytes) -> None:
    for name in ("a.txt", "README", "a.md"):
        with pytest.raises(Failed) as caught:
            read_page(data, f"file:///{name}")
        assert caught.value.failure.outcome in ("binary", "unsupported_type")
        assert caught.value.failure.detail in (
            "its bytes are not text",
            "a picture, an archive or a document of a type that is not read",
            "a picture; text is read in .png, .jpg and .tif files where tesseract is installed",
        )


@pytest.mark.parametrize(
    "data",
    [
        RUSSIAN.encode() + b"\xff\xfe" + RUSSIAN.encode(),
        b"\x1b[31mERROR\x1b[0m disk full\n" * 5,
        b"SQLite is a library that keeps tables in one file.\n",
        b"N\x08NA\x08AM\x08ME\x08E\n    crow - caw\n" * 10,
        b"page one\fpage two\x1a",
    ],
    ids=["bad bytes", "colours", "SQLite", "overstrikes", "form feed"],
)
def test_text_with_oddities_is_text(data: bytes) -> None:
    assert is_text(data)
    assert read_page(data, "file:///notes").text


def blocks(page: Page, kind: str = "") -> list[str]:
    return [page.text[b.start : b.end] for b in page.iter_article() if kind in ("", b.kind)]


def quotable(page: Page) -> list[str]:
    return [page.text[start:end] for start, end in find_sentences(page, 0, len(page.text))]


def file(name: str, text: str) -> Page:
    page = read_page(text.encode(), f"file:///{name}")
    kept = name.endswith(".csv") or page.text == text.replace("\r\n", "\n")
    assert kept, "the text is kept as it is"
    last = 0
    for block in page.blocks:
        assert page.text[last : block.start].strip() == "", "between blocks is white space"
        last = block.end
    assert page.text[last:].strip() == ""
    return page


def test_a_row_of_a_table_is_one_passage_under_the_names_of_its_columns() -> None:
    page = file(
        "my%20staff.csv",
        'name,since,remark\r\n"Brandt, O.",1987,"keeps the key\r\nof the ""old"" tower"\r\n'
        "Koch,1990,\r\n",
    )
    assert page.title == "my staff.csv"
    assert blocks(page, "heading") == ["name\tsince\tremark"]
    rows = ['Brandt, O.\t1987\tkeeps the key of the "old" tower', "Koch\t1990"]
    assert blocks(page, "cell") == quotable(page) == rows
    assert get_headings_above(page, page.text.index("Koch")) == "name\tsince\tremark"


@pytest.mark.parametrize(
    ("name", "text", "heading"),
    [
        ("a.tsv", "land\tstadt\nFrance\tParis\n", ["land\tstadt"]),
        ("a.csv", "land;2019;2020\nFrance;1;2\n", ["land\t2019\t2020"]),
        ("a.csv", "1,2\n3,4\n", []),
        ("a.csv", "Paris,2.1,1\nRome,2.8,2\n", []),
        ("a.csv", "a,,b\n1,2,3\n", []),
        ("a.csv", "only,names\n", []),
    ],
)
def test_a_first_row_is_a_heading_where_it_names_columns(
    name: str, text: str, heading: list[str]
) -> None:
    assert blocks(file(name, text), "heading") == heading


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("A;1,5\n", ["A\t1,5"]),
        ("Depths\nA;1,5\nB;2,5\n", ["Depths", "A\t1,5", "B\t2,5"]),
        ('a,b\n"x; y",1\n"z; w",2\n', ["a\tb", "x; y\t1", "z; w\t2"]),
        ('a,1\n"She said ""yes""",2\n', ["a\t1", 'She said "yes"\t2']),
        ("a\tb\n1,5\t2\n", ["a\tb", "1,5\t2"]),
        ("a line\nanother one\n", ["a line", "another one"]),
    ],
)
def test_cells_of_csv_are_read_as_a_table_shows_them(text: str, rows: list[str]) -> None:
    page = file("a.csv", text)
    assert [page.text[one.start : one.end] for one in page.blocks] == rows


def test_a_quotation_mark_that_is_never_closed_swallows_no_rows() -> None:
    rows = ["n,text", '1,"never closed', *(f"{n},row" for n in range(2, 400))]
    page = file("a.csv", "\n".join(rows))
    assert quotable(page)[-1] == "399\trow"


def test_a_line_of_a_log_is_one_quote() -> None:
    lines = [f"2026-03-0{n} 10:00:00 INFO run {n}. Done. Next" for n in range(1, 8)]
    for name in ("server.log", "messages"):
        assert quotable(file(name, "\n".join(lines))) == lines


def test_a_comment_is_read_in_sentences_and_code_in_lines() -> None:
    page = file(
        "retry.py",
        "import time\n\n\ndef fetch(url):\n    # It waits 37 seconds because the gateway bans\n"
        "    # those who come back sooner. Then it goes on.\n    time.sleep(37)\n    return url\n",
    )
    assert page.title == "retry.py"
    assert quotable(page) == [
        "import time",
        "def fetch(url):",
        "# It waits 37 seconds because the gateway bans\n    # those who come back sooner.",
        "Then it goes on.",
        "time.sleep(37)",
        "return url",
    ]


def test_lines_of_data_stay_lines_and_very_long_ones_are_cut() -> None:
    page = file("a.jsonl", '{"id": 1, "who": "Ada"}\n{"id": 2, "who": "Bo"}\n')
    assert blocks(page, "code") == ['{"id": 1, "who": "Ada"}', '{"id": 2, "who": "Bo"}']
    long = "[" + ",".join(f'{{"id":{n},"who":"person {n}"}}' for n in range(500)) + "]"
    assert max(map(len, blocks(file("a.json", long)))) <= 1000
    assert any('"person 77"' in text and len(text) < 500 for text in blocks(file("b.json", long)))
    pretty = '{\n  "server": {\n    "port": 8443\n  },\n  "name": "crow"\n}\n'
    assert '"port": 8443' in quotable(file("c.json", pretty))


def test_a_minified_program_is_not_read() -> None:
    with pytest.raises(Failed, match="minified"):
        read_page(b"var a=1;" * 1000, "file:///app.js")
    assert read_page(b"// Adds one.\nvar a = 1;\n" * 300, "file:///app.js").text


def test_restructured_text_keeps_its_headings_code_and_words() -> None:
    page = file(
        "guide.rst",
        "=====\nGuide\n=====\n\n.. contents::\n   :depth: 2\n\n.. _start:\n\nStart\n*****\n\n"
        "Turn the screw::\n\n    kestrel --turn\n\n    kestrel --more\n\nAfter that it flies.\n\n"
        ".. note::\n   Never in rain.\n\n.. code-block:: sh\n\n   ls\n\n.. a comment\n",
    )
    assert page.title == "Guide"
    headings = [(b.level, page.text[b.start : b.end]) for b in page.blocks if b.kind == "heading"]
    assert headings == [(1, "Guide"), (2, "Start")]
    assert blocks(page, "code") == ["kestrel --turn", "kestrel --more", "ls"]
    assert blocks(page, "paragraph") == [
        "Turn the screw::",
        "After that it flies.",
        "Never in rain.",
    ]


@given(st.text(max_size=300), st.sampled_from("csv tsv json jsonl log py rst txt unknown".split()))
def test_any_text_keeps_every_character_in_its_blocks(text: str, ending: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    try:
        page = read_page(data, f"file:///a.{ending}")
    except Failed:
        return
    inside = "".join(page.text[block.start : block.end] for block in page.blocks)
    assert "".join(inside.split()) == "".join(page.text.split())
    assert all(page.text[p.start : p.end].strip() for p in cut_passages(page))


def test_lines_above_the_names_of_columns_are_no_names() -> None:
    for text in (
        "sep=;\nwell;depth\nMill;38\nRow;51\n",
        "Wells,\n,\nwell,depth\nMill,38\nRow,51\n",
    ):
        page = read_page(text.encode(), "file:///wells.csv")
        names = [page.text[one.start : one.end] for one in page.blocks if one.kind == "heading"]
        assert names == ["well\tdepth"]
