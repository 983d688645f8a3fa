"""Folding against a slow oracle that follows the definition character by character."""

import unicodedata

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given
from hypothesis import strategies as st

from rookery.pages.text_folding import (
    MARKS_IN_A_CLUSTER,
    RAISED,
    TYPOGRAPHY,
    FoldedText,
    fold_text,
)
from rookery.records import INVISIBLE

NASTY = (
    "aAbBeExX  \t\n\r\x1c1½²⁻⁵—–-‐−…'’‘\"“”«»ﬁﬃßẞİıſŉǆΣσςΐ"
    "\u00a0\u00ad\u200b\u200d\u2009\u2028\u3000\ufeff\ufe0f\u034f"
    "\u0301\u0300\u0308\u0316\u0327\u0345\u20dd\u0338\u093f\u09be\u3099"
    "\u1100\u1161\u11a8가각한ㄱㅏﾡￂＡｂ１＂ｶﾞ゛¨´΅\ufdfa¸"
    "क़षि😀👩👍🏽𝐀Ⅷ㎏⑴ⅻ\ud7b0\u1160"
)
texts = st.text(st.sampled_from(NASTY), max_size=40) | st.text(max_size=20)


def is_mark(letter: str) -> bool:
    first = unicodedata.normalize("NFKD", letter)[0]
    hangul = 0x1160 <= ord(first) <= 0x11FF or 0xD7B0 <= ord(first) <= 0xD7FF
    return unicodedata.category(first).startswith("M") or hangul


def normal(text: str) -> str:
    compatible = nfkc(text)
    new_digits = any(map(str.isdecimal, compatible)) and not any(map(str.isdecimal, text))
    changed = " " in compatible or new_digits
    return unicodedata.normalize("NFC", text) if changed else compatible


def nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def clusters(text: str) -> list[tuple[str, int, int]]:
    """The visible characters, grouped: each group with the span that it came from."""
    groups: list[tuple[str, int, int]] = []
    for at, letter in enumerate(text):
        if INVISIBLE.match(letter):
            continue
        group, start, _ = groups[-1] if groups else (" ", 0, 0)
        if letter.isspace():
            if groups and group == " ":
                groups[-1] = (" ", start, at + 1)
            else:
                groups.append((" ", at, at + 1))
        elif (letter in RAISED and group[0] in RAISED and groups[-1][2] == at) or (
            group != " "
            and group[0] not in RAISED
            and is_mark(letter)
            and len(group) <= MARKS_IN_A_CLUSTER
        ):
            groups[-1] = (group + letter, start, at + 1)
        else:
            groups.append((letter, at, at + 1))
    return groups


def slowly(text: str) -> list[tuple[str, int, int]]:
    """Each folded character with the span of the original that it came from."""
    folded = []
    for group, start, end in clusters(text):
        if group[0] in RAISED:
            folded += [(letter, start, end) for letter in f"^{nfkc(group).replace('−', '-')}"]
            continue
        plain = normal(group.translate(TYPOGRAPHY)).casefold()
        plain = " " if group == " " else normal(plain).translate(TYPOGRAPHY)
        folded += [(letter, start, end) for letter in plain]
    return folded


@given(texts)
def test_the_fast_fold_is_the_slow_one(text: str) -> None:
    expected = slowly(text)
    folded = fold_text(text)
    assert folded.text == "".join(letter for letter, _, _ in expected)
    for index, (_, start, end) in enumerate(expected):
        assert folded.to_source_span(index, index + 1) == (start, end)


@given(texts, st.data())
def test_spans_lead_back_to_whole_characters(text: str, data: st.DataObject) -> None:
    expected = slowly(text)
    folded = fold_text(text)
    start = data.draw(st.integers(0, len(expected)))
    end = data.draw(st.integers(start, len(expected)))
    if start < end:
        assert folded.to_source_span(start, end) == (expected[start][1], expected[end - 1][2])
    else:
        low, high = folded.to_source_span(start, end)
        assert low == high
    cut = any(
        0 < at < len(expected) and expected[at - 1][1:] == expected[at][1:] for at in (start, end)
    )
    assert folded.is_whole(start, end) is not cut


@given(texts, st.data())
def test_what_a_whole_span_came_from_folds_to_it(text: str, data: st.DataObject) -> None:
    folded = fold_text(text)
    start = data.draw(st.integers(0, len(folded.text)))
    end = data.draw(st.integers(start, len(folded.text)))
    low, high = folded.to_source_span(start, end)
    if start < end and folded.is_whole(start, end):
        assert fold_text(text[low:high]).text == folded.text[start:end]


@given(texts, st.integers(0, 45))
def test_a_position_is_the_first_folded_character_from_there_on(text: str, offset: int) -> None:
    offset = min(offset, len(text))
    expected = slowly(text)
    later = [index for index, (_, start, _) in enumerate(expected) if start >= offset]
    assert fold_text(text).from_source_offset(offset) == (later[0] if later else len(expected))


@given(texts)
def test_folding_twice_is_folding_once(text: str) -> None:
    once = fold_text(text).text
    assert fold_text(once).text == once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It’s “so” – really…", 'IT\'S "SO" - REALLY...'),
        ("ﬁnd\u00a0the  e\u0301tude", "find the étude"),
        ("exam\u00adple\u200bs", "examples"),
        ("Straße", "STRASSE"),
        ("\u1112\u1161\u11ab", "한"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("ｶﾞ", "ガ"),
        ("❤\ufe0f", "❤"),
        ("a\n\n\tb", "a b"),
        ("10² and 10⁻⁵", "10^2 and 10^-5"),
        ("km², ㎢ and ㎨", "km^2, km^2 and m∕s^2"),
        ("H₂O, CO₂ and x₁₂", "H_2O, CO_2 and x_12"),
        ("2ᵏ, xₙ and 1ˢᵗ", "2^k, x_n and 1st"),
    ],
)
def test_typography_folds_away(one: str, other: str) -> None:
    assert fold_text(one).text == fold_text(other).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("é", "e"),
        ("is", "is not"),
        ("ab", "a b"),
        ("10²", "102"),
        ("10⁻⁵", "10-5"),
        ("①5", "15"),
        ("1½", "11⁄2"),
        ("½", "1⁄2"),
        ("x₂", "x2"),
        ("⒈5", "1.5"),
        ("⑴", "(1)"),
        ("㏠5", "1日5"),
    ],
)
def test_words_do_not(one: str, other: str) -> None:
    assert fold_text(one).text != fold_text(other).text


def test_case_can_be_kept() -> None:
    for text in ("3 mW", "CO₂", "Maße", "ﬁt “Co”"):
        assert fold_text(text, keep_case=True).text.casefold() == fold_text(text).text
    kept = [fold_text(text, keep_case=True).text for text in ("Maße", "Masse", "mW", "MW", "ＭＷ")]
    assert kept == ["Maße", "Masse", "mW", "MW", "MW"]


def test_sources_by_hand() -> None:
    folded = fold_text("Eﬃ\u00adcient  \u200b x")
    assert folded.text == "efficient x"
    assert folded.to_source_span(0, 9) == (0, 8)
    assert folded.to_source_span(2, 3) == (1, 2)
    assert not folded.is_whole(0, 3)
    assert folded.to_source_span(4, 5) == (3, 4)
    assert folded.to_source_span(9, 10) == (8, 12)
    assert folded.to_source_span(11, 11) == (13, 13)


def test_a_span_outside_is_refused() -> None:
    for start, end in ((-1, 1), (0, 4), (2, 1)):
        with pytest.raises(ValueError, match="outside"):
            fold_text("abc").to_source_span(start, end)


def test_an_empty_text() -> None:
    assert fold_text("") == FoldedText("", 0, fold_text("").changes)
    assert fold_text("\u00ad").text == ""


@pytest.mark.parametrize(
    ("first", "again", "last"),
    [
        ("", "The crow – “clever”, they say – re\u00admembers  faces.\n", ""),
        ("", "यह एक परीक्षण वाक्य है। ", ""),
        ("a", "\u0316\u0301", ""),
        ("", " \u00ad", ""),
        ("a", "\u00ad", "\u0301"),
    ],
    ids=["english", "hindi", "marks", "spaces", "hyphens"],
)
def test_time_grows_with_a_text_and_not_with_its_square(first: str, again: str, last: str) -> None:
    assert growth_of(lambda size: fold_text(first + again * size + last), 1_000) < AT_MOST
