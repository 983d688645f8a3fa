"""Mail as a mail program shows it: bodies, attachments, messages in messages, and saved pages."""

from base64 import b64encode

import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.passages import cut_passages
from rookery.records import Page

HEAD = "From: A <a@example.org>\nTo: b@example.org\nSubject: Ferries\nMIME-Version: 1.0\n"
HEAD += "Date: Mon, 02 Mar 2026 09:12:00 +0100\n"


def read(mail: bytes | str, url: str = "file:///a.eml") -> Page:
    return read_page(mail.encode() if isinstance(mail, str) else mail, url)


def view(mail: bytes | str) -> str:
    return join_visible_text(read(mail), full=True)


def write_parts(*parts: str, kind: str = "mixed") -> str:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="b"\n\n{body}--b--\n'


def label(text: bytes, content_type: str) -> bytes:
    return f"{HEAD}Content-Type: {content_type}\n\n".encode() + text


@pytest.mark.parametrize(
    "header",
    [
        'Content-Type: text/plain; name="a.txt"',
        'Content-Type: text/plain\nContent-Disposition: inline; filename="a.txt"',
        'Content-Type: text/html; name="a.html"',
        'Content-Type: text/x-diff\nContent-Disposition: INLINE; filename="a.diff"',
    ],
)
def test_a_body_with_a_name_is_read(header: str) -> None:
    assert "It leaves at six." in view(f"{HEAD}{header}\n\nIt leaves at six.\n")
    more = write_parts("Content-Type: text/plain\n\nHello.", f"{header}\n\nIt leaves at six.")
    assert "It leaves at six." in view(HEAD + more)
    assert "Attachment" not in view(HEAD + more)


def test_what_is_not_read_is_told() -> None:
    attached = 'Content-Type: text/plain\nContent-Disposition: attachment; filename="x.txt"\n\nNo.'
    invited = "Content-Type: text/calendar\n\nBEGIN:VCALENDAR"
    seen = view(HEAD + write_parts("Content-Type: text/plain\n\nYes.", attached, invited))
    assert "Yes." in seen
    assert "No." not in seen
    assert "Attachment: x.txt\nAttachment: text/calendar" in seen


def test_a_message_in_a_message_is_read() -> None:
    third = HEAD.replace("Ferries", "Third") + "\nThe lock is closed."
    inner = write_parts(f"Content-Type: message/rfc822\n\n{third}").replace("--b", "--c")
    second = HEAD.replace("Ferries", "Second") + inner.replace('="b"', '="c"')
    page = read(HEAD + write_parts(f"Content-Type: message/rfc822\n\n{second}"))
    headings = [(page.text[b.start : b.end], b.level) for b in page.blocks if b.kind == "heading"]
    assert headings == [("Ferries", 1), ("Second", 2), ("Third", 3)]
    assert "The lock is closed." in join_visible_text(page)
    packed = b64encode(third.encode()).decode()
    wrapped = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{packed}"
    assert "The lock is closed." in view(HEAD + write_parts(wrapped))


def test_messages_in_messages_without_end_are_told() -> None:
    mail = "Subject: last\n\nThe end."
    for number in range(40):
        mail = f"Subject: {number}\nContent-Type: message/rfc822\n\n{mail}"
    assert "Attachment: message/rfc822" in view(HEAD + mail.partition("\n")[2])


@pytest.mark.parametrize(
    ("name", "codec", "text"),
    [
        ("cp932", "cp932", "茶屋①は朝七時に開きます。"),
        ("CP-932", "cp932", "茶屋は朝七時"),
        ("eucjp", "euc_jp", "茶屋は朝七時に開きます。"),
        ("iso2022jp", "iso2022_jp", "茶屋は朝七時に開きます。"),
        ("iso-2022-jp-1", "iso2022_jp_1", "茶屋は朝七時に開きます。"),
        ("iso-2022-jp-2", "iso2022_jp_2", "茶屋は한국 Straße"),
        ("iso-2022-jp-ms", "iso2022_jp_ext", "茶屋はｱｻ七時"),
        ("cp850", "cp850", "Die Straße ist gesperrt."),
        ("cp-850", "cp850", "Die Straße ist gesperrt."),
        ("IBM850", "cp850", "Die Straße ist gesperrt."),
        ("windows1252", "cp1252", "Die Straße – gesperrt"),
        ("utf-7", "utf-7", "Die Mühle öffnet um acht."),
        ("unicode-1-1-utf-7", "utf-7", "Die Mühle öffnet um acht."),
        ("hz-gb-2312", "hz", "茶馆在河边"),
        ("us-ascii", "utf-8", "Die Straße"),
        ("no such thing", "utf-8", "Die Straße"),
        ("base64", "utf-8", "Die Straße"),
    ],
)
def test_labels_of_encodings_mean_what_mail_programs_mean(name: str, codec: str, text: str) -> None:
    assert text in view(label(text.encode(codec), f"text/plain; charset={name}"))


def test_characters_of_windows_in_iso_2022_jp_are_read() -> None:
    written = b"\x1b$B-!Cc20\x1b(B 7:00"
    assert "①茶屋 7:00" in view(label(written, "text/plain; charset=iso-2022-jp"))
    assert "①茶屋 7:00" in view(label(written, "text/plain"))


def test_flowed_text_is_joined_as_it_says() -> None:
    kind = "text/plain; charset=utf-8; format=Flowed; DelSp=Yes"
    flowed = "茶馆在河边的 \n旧磨坊。\n\nThe mill stands  \nbeside it.\n".encode()
    seen = view(label(flowed, kind))
    assert "茶馆在河边的旧磨坊。" in seen
    assert "The mill stands beside it." in seen
    plain = label(b"It is cold, about \n- 5 degrees.\n", "text/plain; format=flowed")
    assert "about - 5 degrees." in view(plain)


SAVED = """From: <Saved by Blink>
Snapshot-Content-Location: https://example.org/mill.html
Subject: Tide mill
Date: Sat, 28 Nov 2026 08:23:05 GMT
MIME-Version: 1.0
"""
PAGE = """Content-Type: text/html
Content-Location: https://example.org/mill.html

<html><head><title>The mill</title><link rel="stylesheet" href="cid:css-1@mhtml.blink"></head>
<body><nav><a href="/home">Home</a></nav><article><p>The mill <i class="x">never</i> grinds
barley twice a day, because its <a href="pond.html">pond</a> fills with every flood tide.</p>
</article></body></html>"""
SHEET = "Content-Type: text/css\nContent-Location: cid:css-1@mhtml.blink\n\n.x{display:none}"
FRAME = "Content-Type: text/html\nContent-Location: cid:f@mhtml.blink\n\n<p>An advertisement"


@pytest.mark.parametrize(
    ("head", "url"),
    [
        (SAVED, "file:///mill.mhtml"),
        (SAVED, "https://example.org/mill"),
        ("MIME-Version: 1.0\n", "file:///mill.mht"),
        ('From: "Saved by Internet Explorer 11"\nDate: Sat, 28 Nov 2026\n', "file:///a.mht"),
    ],
)
def test_a_saved_page_is_read_as_the_page(head: str, url: str) -> None:
    page = read(head + write_parts(PAGE, SHEET, FRAME, kind="related"), url)
    assert (page.url, page.title) == (url, "The mill")
    seen = join_visible_text(page, full=True)
    assert "The mill grinds barley twice a day" in seen
    assert "never" in page.text
    assert "Saved by" not in page.text
    assert "advertisement" not in page.text
    assert [link.url for link in page.links][-1] == "https://example.org/pond.html"


def test_the_part_that_a_saved_page_starts_with_is_the_page() -> None:
    mail = SAVED + write_parts(FRAME, f"Content-ID: <1>\n{PAGE}", kind='related; start="<1>"')
    assert "The mill" in view(mail)
    assert "advertisement" not in view(mail)


def test_a_letter_stands_under_its_sender_and_day() -> None:
    [passage] = cut_passages(read(f"{HEAD}\nThe ferry is late.\n"))
    assert (passage.context, passage.label) == ("Ferries", "A, 2 March 2026")
