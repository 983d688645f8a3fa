"""Which encoding a page is in."""

import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.text_encoding import decode_text

CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. " * 5
RUSSIAN = "Вороны запоминают лица людей и передают это знание птенцам. " * 3


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        ("é".encode("utf-8-sig"), "text/html; charset=latin-1", "é"),
        (b"\xff\xfeh\x00i\x00", "", "hi"),
        (b"\xfe\xff\x00h\x00i", "text/html; charset=utf-8", "hi"),
        (b"\xe9", "text/html; charset=ISO-8859-1", "é"),
        (b"\x93x\x94", 'text/html; charset="latin1"', "“x”"),
        (b'<meta charset="windows-1251">\xe0', "text/html; charset=utf-8", None),
        (b'<meta charset="windows-1251">\xe0', "text/html", '<meta charset="windows-1251">а'),
        (b"<meta charset=utf-16>\xc3\xa9", "", "<meta charset=utf-16>é"),
        (b"<meta charset=nonsense>\xc3\xa9", "", "<meta charset=nonsense>é"),
        (b"<?xml version='1.0' encoding='latin1'?>\xe9", "", None),
        (b"<meta charset=US-ASCII>\xc3\xa9", "", "<meta charset=US-ASCII>é"),
        (b"na\xefve", "text/plain; charset=us-ascii", "naïve"),
    ],
)
def test_declared(data: bytes, content_type: str, text: str | None) -> None:
    found = decode_text(data, content_type)
    if text is None:
        assert found[-1] in ("\ufffd", "é")
    else:
        assert found == text


def test_declarations_count_in_the_first_kilobyte_and_in_markup_only() -> None:
    late = b" " * 1100 + b"<meta charset=windows-1251>\xc3\xa9"
    assert decode_text(late).endswith("é")
    assert decode_text(b"<meta charset=windows-1251>\xc3\xa9", markup=False).endswith("é")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café “x” and this naïve façade", "windows-1252"),
        ("Füße und Äpfel: schöne Größe", "latin-1"),
        (RUSSIAN, "windows-1251"),
        (CZECH, "windows-1250"),
        (RUSSIAN, "utf-8"),
    ],
)
def test_undeclared(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding)) == text


def test_one_damaged_byte_does_not_change_the_encoding() -> None:
    assert decode_text(RUSSIAN.encode() + b"\xff" + "é".encode()) == RUSSIAN + "\ufffd" + "é"


def test_latin_1_page_through_the_reader() -> None:
    html = "<html><head><meta http-equiv=Content-Type content='text/html; charset=iso-8859-1'>"
    data = (html + "<p>Rabenvögel füttern").encode("latin-1")
    assert read_page(data, "http://x.org/").text == "Rabenvögel füttern"
