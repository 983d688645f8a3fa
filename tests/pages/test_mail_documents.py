"""Mail as a mail program shows it: bodies, attachments, messages in messages, and saved pages."""

from base64 import b64encode
from itertools import pairwise

import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.pages.passages import cut_passages
from rookery.quotes.quote_links import describe_location
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


TOM = "quoted: On 3 May 2026 at 09:12, Tom Reed wrote"
EVE = "quoted: On 1 May 2026, Eve Holt wrote"
ANNE = "Anne Loy, 4 May 2026"
SAYS = "On 3 May 2026 at 09:12, Tom Reed <tom@example.org> wrote:\n"
OUTLOOK = """From: Tom Reed <tom@example.org>
Sent: Sunday, 3 May 2026 09:12
To: Anne Loy <anne@example.org>
Subject: Swarm
"""
REED = "quoted: Tom Reed, Sunday, 3 May 2026 09:12"
ANSWER = f"{ANNE}, answering: And the queen?"
INLINE = [(TOM, "hive"), (ANNE, "Not so."), (TOM, "queen"), (ANSWER, "oak")]
QUOTING: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "top-posted": (
        f"Mine is in the oak.\n\n{SAYS}> Dear Anne,\n>\n> my swarm is in the hive.\n>\n> Yours\n",
        [(ANNE, "Mine is in the oak."), (TOM, "my swarm is in the hive."), (TOM, "Yours")],
    ),
    "bottom-posted, with a broken line above": (
        "On Sunday, 3 May 2026 at 09:12, Tom Reed <tom@example.org>\nwrote:\n> My swarm\n\nMy oak.",
        [("quoted: On Sunday, 3 May 2026 at 09:12, Tom Reed wrote", "My swarm"), (ANNE, "My oak.")],
    ),
    "inline": (
        f"Hello Tom,\n\n{SAYS}> It is in the hive.\nNot so.\n> And the queen?\nIn the oak.\n",
        INLINE,
    ),
    "nested, answered between": (
        f"Oak.\n\n{SAYS}> No.\n> On 1 May 2026, Eve Holt wrote:\n>> Is it in the barn?\n"
        "> In the hive.\n",
        [(ANNE, "Oak."), (TOM, "No."), (EVE, "Is it in the barn?"), (TOM, "In the hive.")],
    ),
    "nested, with a line above that is quoted as often as what it says": (
        f"Oak.\n\n{SAYS}> Hive.\n> > On 1 May 2026, Eve Holt wrote:\n> > Is it in the barn?\n",
        [(ANNE, "Oak."), (TOM, "Hive."), (EVE, "Is it in the barn?")],
    ),
    "German": (
        "Im Baum.\n\nAm 3. Mai 2026 um 09:12 schrieb Tom Reed:\n> Im Stock.\n",
        [(ANNE, "Im Baum."), ("quoted: Am 3. Mai 2026 um 09:12 schrieb Tom Reed", "Im Stock.")],
    ),
    "Outlook": (
        f"In the oak.\n\n-----Original Message-----\n{OUTLOOK}\nIn the hive.\n\nAnd fed.\n",
        [(ANNE, "In the oak."), (REED, "In the hive."), (REED, "And fed.")],
    ),
    "Outlook in German, without a rule": (
        "Im Baum.\n\nVon: Tom Reed\nGesendet: Sonntag, 3. Mai 2026\nAn: Anne\n\nIm Stock.\n",
        [(ANNE, "Im Baum."), ("quoted: Tom Reed, Sonntag, 3. Mai 2026", "Im Stock.")],
    ),
    "Outlook, whose text is quoted": (
        f"Oak.\n\n{OUTLOOK}\n> In the hive.\n\nYours\n",
        [(ANNE, "Oak."), (REED, "In the hive."), (ANNE, "Yours")],
    ),
    "forwarded": (
        "For you.\n\n---------- Forwarded message ---------\nFrom: Tom Reed <tom@example.org>\n"
        "Date: Sun, 3 May 2026\nSubject: Swarm\n\nIn the hive.\n\n> In the barn?\n",
        [
            (ANNE, "For you."),
            ("quoted: Tom Reed, Sun, 3 May 2026", "In the hive."),
            ("quoted", "In the barn?"),
        ],
    ),
    "without a word of whom": (
        "> In the hive?\n\nIn the oak.\n",
        [
            (f"quoted by {ANNE}", "In the hive?"),
            (f"{ANNE}, answering: In the hive?", "In the oak."),
        ],
    ),
    "a sentence and no quotation": (
        "My sister wrote:\n\nIt rains.\n\nFrom: the hive\nTo: the oak\n",
        [(ANNE, "It rains."), (ANNE, "From: the hive"), (ANNE, "To: the oak")],
    ),
}


def write_reply(body: str, kind: str = "plain") -> bytes:
    head = "From: Anne Loy <anne@example.org>\nSubject: Re: Swarm\nIn-Reply-To: <1@example.org>\n"
    head += f"Date: Mon, 04 May 2026 10:00:00 +0000\nContent-Type: text/{kind}; charset=utf-8\n\n"
    return (head + body).encode()


def check_writers(page: Page, writers: list[tuple[str, str]]) -> None:
    """Each text stands in a passage of its writer alone, and a quote of it has its words."""
    cut = cut_passages(page)
    for writer, text in writers:
        start = page.text.index(text)
        quote = page.quote(start, start + len(text))
        assert (quote.text, page.text[quote.start : quote.end]) == (text, text)
        [passage] = (each for each in cut if each.start <= start < each.end)
        assert passage.label == writer, text
        others = {other for who, other in writers if who != writer}
        assert not any(other in page.text[passage.start : passage.end] for other in others)
        place = describe_location(page, start)
        assert place.endswith(f", {writer}") == writer.startswith("quoted"), place


@pytest.mark.parametrize("layout", QUOTING)
def test_what_a_reply_quotes_stands_under_who_wrote_it(layout: str) -> None:
    body, writers = QUOTING[layout]
    page = read(write_reply(body))
    check_writers(page, writers)
    searched = [page.text[each.start : each.end] for each in cut_passages(page)]
    unsearched = ("wrote:", "schrieb", "Dear Anne,", "Sent:", "Gesendet:", "Subject:")
    assert not any(
        each in text for each in unsearched[layout.startswith("a sentence") :] for text in searched
    )
    gaps = pairwise(page.blocks)
    assert all(not page.text[one.end : after.start].strip() for one, after in gaps)
    mailbox = b"From anne@example.org Mon May  4 10:00:00 2026\n" + write_reply(body)
    twice = read_page(mailbox + b"\n" + mailbox, "file:///swarm.mbox")
    marks = [(mark.kind, mark.value) for mark in page.marks]
    assert [(mark.kind, mark.value) for mark in twice.marks if mark.kind != "message"] == 2 * marks


@pytest.mark.parametrize(
    "quoting",
    [
        '<div class="gmail_quote"><div class="gmail_attr">On 3 May 2026 at 09:12, Tom Reed &lt;<a '
        'href="mailto:tom@example.org">tom@example.org</a>&gt; wrote:<br></div><blockquote>{}'
        "</blockquote></div>",
        "Yours, Anne<br>On 3 May 2026 at 09:12, Tom Reed wrote:<br><blockquote type=cite>{}"
        "</blockquote>",
        "On 3 May 2026 at 09:12, Tom Reed wrote:<br>&gt; In the hive.<br>&gt; Fed.<br>",
    ],
)
def test_what_a_reply_in_html_quotes_stands_under_who_wrote_it(quoting: str) -> None:
    written = quoting.format("<p>In the hive.</p><ul><li>Fed.</ul>")
    page = read(write_reply(f"<p>In the oak.</p>{written}<p>See you.</p>", "html"))
    check_writers(
        page, [(ANNE, "In the oak."), (TOM, "In the hive."), (TOM, "Fed."), (ANNE, "See you.")]
    )


def test_the_head_of_a_mail_that_outlook_quotes_in_html_is_read() -> None:
    lines = "".join(
        f"<b>{name}:</b>{text}<br>"
        for name, _, text in (line.partition(":") for line in OUTLOOK.splitlines())
    ).replace("<tom@example.org>", "&lt;tom@example.org&gt;")
    for head in (
        f"<div><p>{lines}</p></div>",
        lines.replace("<b>", "<div><b>").replace("<br>", "</div>"),
    ):
        page = read(write_reply(f"<p>In the oak.</p>{head}<p>In the hive.</p>", "html"))
        check_writers(page, [(ANNE, "In the oak."), (REED, "In the hive.")])


@pytest.mark.parametrize("ending", ["txt", "md"])
def test_a_mail_kept_as_text_says_who_wrote_what(ending: str) -> None:
    url, says = f"file:///a.{ending}", SAYS.replace(" <tom@example.org>", "")
    inline = (
        f"Hello Tom,\n\n{says}> It is in the hive.\n\nNot so.\n\n> And the queen?\n\nIn the oak.\n"
    )
    check_writers(read(inline, url), [(who * (who == TOM), text) for who, text in INLINE])
    assert read("As Darwin wrote:\n\n> It is grand.\n\nIt is.\n", url).marks == ()


def test_the_first_head_in_a_text_is_of_who_wrote_it() -> None:
    second = f"-----Original Message-----\n{OUTLOOK.replace('Tom Reed', 'Eve')}\nWhere?\n"
    mine, eves = REED.removeprefix("quoted: "), REED.replace("Tom Reed", "Eve")
    page = read(f"{OUTLOOK}\nIn the hive.\n\n{second}", "file:///a.txt")
    check_writers(page, [(mine, "In the hive."), (eves, "Where?")])


def test_lines_of_dashes_and_heads_without_end_are_read_in_time() -> None:
    body = "-" * 2000 + "x\n" + "On " * 999 + "\n" + "From: a\nTo: b\n" * 999 + "> " * 999
    assert "From: a" in read(write_reply(body + "\nTom wrote:" * 999)).text
