"""Each way in which a saved quote can be wrong gets its own outcome."""

from pathlib import Path

import msgspec
import pytest

from rookery.pages.page_reader import read_page
from rookery.quotes.answer_text import ClaimedQuote
from rookery.quotes.verification import (
    Verdict,
    check_claimed_quote,
    check_quote,
    check_typed_quotes,
    verify_quotes,
)
from rookery.records import Answer, Block, Claim, Page, Quote

URL = "https://crows.example/memory"
PAGE = Page(URL, "Memory", "Crows remember faces.\n\nThey “never” forget a grudge.")
QUOTE = PAGE.quote(23, 44)


def changed(quote: Quote, **fields: object) -> Quote:
    return msgspec.structs.replace(quote, **fields)


LONG_PAGE = Page(
    URL, "Tins", f"{'On and on it goes all the way ' * 4}and a little further with a blue tin."
)
LONG_QUOTE = changed(
    LONG_PAGE.quote(0, len(LONG_PAGE.text)), text=LONG_PAGE.text.replace("blue", "red")
)


def test_a_slice_is_verified_without_reservation() -> None:
    assert check_quote(QUOTE, PAGE) == Verdict(QUOTE, "verified")
    assert check_quote(QUOTE, PAGE).verified


@pytest.mark.parametrize(
    ("quote", "page", "outcome", "detail"),
    [
        (QUOTE, None, "page_missing", f"no copy of {URL}"),
        (changed(QUOTE, text="They always forget"), PAGE, "text_differs", "does not stand in it"),
        (changed(QUOTE, text="They “never” forget an"), PAGE, "text_differs", "the page has"),
        (
            LONG_QUOTE,
            LONG_PAGE,
            "text_differs",
            "“…y and a little further with a blue tin.”, and the",
        ),
        (
            LONG_QUOTE,
            LONG_PAGE,
            "text_differs",
            "quote “…y and a little further with a red tin.”; the",
        ),
        (changed(QUOTE, start=24, end=45), PAGE, "text_differs", "stands in it at [23:44]"),
        (changed(QUOTE, end=900), PAGE, "out_of_range", "has 52 characters"),
        (changed(QUOTE, start=-1, end=22), PAGE, "out_of_range", "[-1:22]"),
        (changed(QUOTE, start=44), PAGE, "out_of_range", "[44:44]"),
        (changed(QUOTE, start=50, end=40), PAGE, "out_of_range", "[50:40]"),
    ],
)
def test_each_fault_has_its_outcome(
    quote: Quote, page: Page | None, outcome: str, detail: str
) -> None:
    verdict = check_quote(quote, page)
    assert verdict.outcome == outcome
    assert not verdict.verified
    assert detail in verdict.detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("New. They “never” forget a grudge.", "stands in it at [5:26]"),
        ('New. THEY "never" forget a  grudge.', "but for case, white space or typography, at [5:"),
        ("New. They “always” forget a grudge.", "does not stand in it"),
    ],
)
def test_of_another_version_it_is_said_whether_the_text_stands_there(
    text: str, detail: str
) -> None:
    newer = Page(URL, "Memory", text, fetched="2025-01-01T00:00:00Z")
    verdict = check_quote(QUOTE, newer)
    assert verdict.outcome == "digest_differs"
    assert detail in verdict.detail
    assert "fetched 2025-01-01" in verdict.detail
    assert "or is now read otherwise: ask again to quote it anew" in verdict.detail


def test_the_same_text_at_another_address_or_under_another_title_is_another_source() -> None:
    copy = msgspec.structs.replace(PAGE, url="https://mirror.example/")
    assert check_quote(QUOTE, copy) == Verdict(
        QUOTE,
        "wrong_source",
        f"this text was read from https://mirror.example/ and never from {URL}",
    )
    titled = msgspec.structs.replace(PAGE, title="Forgetting")
    verdict = check_quote(QUOTE, titled)
    assert verdict.outcome == "wrong_source"
    assert "“Forgetting”, not “Memory”" in verdict.detail


@pytest.mark.parametrize(
    ("text", "still"), [("They “never” forget a grudge. New.", "still"), ("New.", "no longer")]
)
def test_a_page_that_has_changed_since_is_said(text: str, still: str) -> None:
    page = msgspec.structs.replace(PAGE, fetched="2025-01-31T09:00:00Z")
    verdict = check_quote(QUOTE, page, Page(URL, "Memory", text))
    assert verdict.verified
    assert verdict.detail == (
        f"verified against the version of 2025-01-31; the page now differs and {still} has "
        "these words"
    )
    assert check_quote(QUOTE, page, page).detail == ""


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        (
            "New. They “never” forget a grudge.",
            "verified",
            "this page is now read otherwise, with these words",
        ),
        ("New.", "read_otherwise", "this page is now read otherwise: ask again to quote it anew"),
    ],
)
def test_another_reading_of_the_same_answer_is_no_change_of_the_page(
    text: str, outcome: str, detail: str
) -> None:
    page = msgspec.structs.replace(PAGE, fetched="2025-01-31T09:00:00Z")
    latest = Page(URL, "Memory", text, fetched=page.fetched)
    verdict = check_quote(QUOTE, page, latest)
    assert (verdict.outcome, verdict.verbatim) == (outcome, True)
    assert verdict.detail.endswith(detail)
    other = check_claimed_quote(ClaimedQuote(QUOTE.text, URL), [latest, page])
    assert (other.outcome, other.verified) == (outcome, outcome == "verified")


@pytest.mark.parametrize(
    ("read", "outcome"), [("2999-01-01T00:00:00Z", "read_otherwise"), ("2001-01-01", "verified")]
)
def test_a_file_that_is_older_than_its_reading_has_not_changed_since(
    tmp_path: Path, read: str, outcome: str
) -> None:
    file = tmp_path / "a file.txt"
    file.write_text(PAGE.text, encoding="utf-8")
    page = msgspec.structs.replace(PAGE, url=file.as_uri(), fetched=read)
    verdict = check_quote(changed(QUOTE, url=page.url), page, Page(page.url, "Memory", "New."))
    assert verdict.outcome == outcome
    assert ("the page now differs" in verdict.detail) == verdict.verified


SHORT = Page(
    URL, "Memory", "The jay hid 17 nuts. Ask Corvus why. Not so, says Darwin. 鴉は人の顔を覚える。"
)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("The", "too_short"),
        ("jay hid", "too_short"),
        ("The jay h", "cut_word"),
        ("Ask Cor", "cut_word"),
        ("Not", "too_short"),
        ("Not so", "too_short"),
        ("人の顔", "too_short"),
        ("17", "verified"),
        ("7 nuts.", "cut_word"),
        ("Ask Corvus", "verified"),
        ("says Darwin", "verified"),
        ("The jay hid", "verified"),
        ("鴉は人の顔を", "verified"),
    ],
)
def test_a_quote_that_says_nothing_is_too_short(text: str, outcome: str) -> None:
    start = SHORT.text.index(text)
    place = (SHORT.url, SHORT.title, SHORT.digest, start, start + len(text))
    assert check_quote(Quote(*place, text), SHORT).outcome == outcome


def test_every_quote_of_an_answer_is_looked_up() -> None:
    other = changed(QUOTE, digest="0" * 32, url="https://gone.example/")
    asked = []

    def pages(quote: Quote) -> Page | None:
        asked.append(quote)
        return PAGE if quote.digest == PAGE.digest else None

    verdicts = verify_quotes(Answer("", (QUOTE, other, QUOTE)), pages)
    assert [verdict.outcome for verdict in verdicts] == ["verified", "page_missing", "verified"]
    assert asked == [QUOTE, other, QUOTE]


def test_a_verdict_survives_json_and_knows_its_outcomes() -> None:
    verdict = check_quote(QUOTE, None)
    assert Verdict.from_json(verdict.to_json()) == verdict
    with pytest.raises(ValueError):
        Verdict.from_json(verdict.to_json().replace("page_missing", "fine"))


@pytest.mark.parametrize("at", range(0, 21, 3))
def test_no_changed_character_passes(at: int) -> None:
    text = QUOTE.text[:at] + "#" + QUOTE.text[at + 1 :]
    assert check_quote(changed(QUOTE, text=text), PAGE).outcome == "text_differs"


LEAFLET = Page(
    URL,
    "Memory",
    "This is unsafe for children under twelve. Take 15 mg of it.\n\nIt is safe for all.",
    (Block(0, 59, "paragraph"), Block(61, 80, "paragraph", hidden=True)),
)


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        ("safe for children under twelve.", "cut_word", "the page has “unsafe for children"),
        ("5 mg of it.", "cut_word", "the page has “15 mg of it.”"),
        ("This is unsafe for child", "cut_word", "the page has “This is unsafe for children”"),
        ("It is safe for all.", "hidden_text", "a reader of the page does not see these words"),
        ("unsafe for children", "verified", ""),
        ("15 mg of it", "verified", ""),
    ],
)
def test_only_whole_words_that_the_reader_sees_are_verified(
    text: str, outcome: str, detail: str
) -> None:
    start = LEAFLET.text.index(text)
    stored = Quote(URL, "Memory", LEAFLET.digest, start, start + len(text), text)
    claimed = check_claimed_quote(ClaimedQuote(text, URL), [LEAFLET])
    for verdict in (check_quote(stored, LEAFLET), claimed):
        assert verdict.outcome == outcome
        assert detail in verdict.detail


def test_words_that_controls_show_in_another_order_are_not_verified() -> None:
    page = Page(URL, "Memory", "The crows hid \u202e21\u202c nuts in the old wall.")
    quote = page.quote(0, len(page.text))
    assert check_quote(quote, page).verified  # the page shows them in this order itself
    typed = ClaimedQuote("The crows hid 21 nuts in the old wall", URL)
    assert check_claimed_quote(typed, [page]).outcome == "bidi_controls"
    turned = Page(URL, "Memory", "See:\n\n\u202esllaw dlo ni stun edih yehT\u202c")
    within = ClaimedQuote("sllaw dlo ni stun edih yehT", URL)
    assert check_claimed_quote(within, [turned]).outcome == "bidi_controls"
    plain = Page(URL, "Memory", "The crows hid 12 nuts in the old wall.")
    for text in (quote.text, "The crows hid \u20672\u20661\u2069\u2069 nuts"):
        assert check_claimed_quote(ClaimedQuote(text, URL), [plain]).outcome == "bidi_controls"


TARIFF = read_page(
    b"""<title>Tariff</title><h2>Who may enter</h2>
    <p>Members with a badge, the Polish guide says.</p>
    <p>It draws 3 mW of power.</p><ul><li>no smoking</li><li>fire doors open</li></ul>
    <table><tr><td>Baker</td><td>nothing</td></tr><tr><td>Dyer</td><td>9 crowns</td></tr></table>
    <p>THE OWNER IS NOT LIABLE.</p>
    <p>A tower&mdash;old and tall&mdash;stands 5" from here, and 4 her-<br>ons nest.</p>
    <p>it is closed</p><p>in winter</p>""",
    URL,
    "text/html",
)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("members with a badge", "verified"),
        ("With a badge, the Polish guide says", "verified"),
        ("polish guide says it", "not_found"),
        ("with a badge, the polish guide says", "not_found"),
        ("[m]embers with a badge,", "verified"),
        ("Members with a badge. The Polish", "not_found"),
        ("It draws 3 MW of power", "not_found"),
        ("MW of power", "not_found"),
        ("The owner is not liable.", "verified"),
        ("The owner is liable.", "not_found"),
        ("Who may enter Members with a badge", "not_found"),
        ("Who may enter\nMembers with a badge", "verified"),
        ("guide says. It draws 3 mW", "verified"),
        ("no smoking fire doors open", "not_found"),
        ("no smoking\nfire doors open", "verified"),
        ("Baker nothing", "not_found"),
        ("Dyer | 9 crowns", "verified"),
        ("Dyer 9 crowns", "not_found"),
        ("nothing | Dyer | 9 crowns", "not_found"),
        ("it is closed in winter", "verified"),
        ("A tower – old and tall – stands", "verified"),
        ("A tower-old and tall-stands", "not_found"),
        ("stands 5' from here", "not_found"),
        ("and 4 herons nest", "verified"),
        ("and 4 her", "cut_word"),
        ("ons nest", "cut_word"),
        ('stands 5" [sic] from here...', "verified"),
        ("it is *** closed in winter", "not_found"),
    ],
)
def test_a_typed_quotation_reads_as_the_page_does(text: str, outcome: str) -> None:
    verdict = check_claimed_quote(ClaimedQuote(text, URL), [TARIFF])
    assert verdict.outcome == outcome, verdict
    assert bool(verdict) == (outcome == "verified")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('He said "yes" to it', "verified"),
        ("Mill, upper | 38", "verified"),
        ("Mill, upper 38", "not_found"),
        ("well\ndepth\nbore", "verified"),
        ("well depth bore", "not_found"),
        ("38 | 51 cm", "verified"),
        ("38,51 cm", "not_found"),
        ("51 cm", "verified"),
    ],
)
def test_cells_of_a_csv_file_are_no_sentence(text: str, outcome: str) -> None:
    table = b'well,depth,bore,said\n"Mill, upper",38,51 cm,"He said ""yes"" to it"\n'
    page = read_page(table, "file:///wells.csv")
    assert check_claimed_quote(ClaimedQuote(text, page.url), [page]).outcome == outcome


def test_what_reads_in_another_way_is_shown() -> None:
    verdict = check_claimed_quote(ClaimedQuote("it draws 3 MW of power", URL), [TARIFF])
    assert verdict.detail.startswith("the source has “It draws 3 mW of power”: capitals count")


def test_quotations_that_a_model_types_are_checked_by_the_pages_it_quotes() -> None:
    other = Page("https://b.example/", "B", "He said “crows can sing well” to her. It was in May.")
    quotes = PAGE.quote(0, len(PAGE.text)), other.quote(0, 37)
    pages = {PAGE.digest: PAGE, other.digest: other}

    def check(text: str, *claims: Claim) -> list[tuple[str, str]]:
        answer = Answer(text, quotes, claims)
        found = check_typed_quotes(answer, lambda quote: pages[quote.digest])
        return [(each.outcome, each.claimed.where) for each in found]

    said = "So “They ‘never’ forget a grudge”, and ‘It was in May’."
    assert check(said) == [
        ("verified", "the answer, character 3"),
        ("verified", "the answer, character 39"),
    ]
    assert check(said, Claim(0, len(said), (0, 1))) == check(said)
    assert [each for each, _ in check(said, Claim(0, len(said), (0,)))] == ["verified", "not_found"]
    assert check("Some call it “a grudge”.") == []
    assert check("As `“crows can never sing”` says.") == [
        ("not_checked", "the answer, character 3")
    ]
    copied = quotes[1].text
    assert check(copied, Claim(0, len(copied), (1,))) == []
    assert [each for each, _ in check(f"{copied} “Crows can never sing.”")] == [
        "verified",
        "not_found",
    ]
