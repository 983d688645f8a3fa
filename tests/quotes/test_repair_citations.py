"""Citations after correction: each points at a quote that has the claim's words, or is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.pages.search_terms import QUESTION_WORDS
from rookery.quotes.citation_syntax import CitationSyntaxError, parse_numbered, render_numbered
from rookery.quotes.repair import CorrectionSettings, correct_citations, parse_and_correct
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Claim, Page, Quote


def quoted(text: str) -> Quote:
    return Page(f"https://crows.example/{len(text)}", "Crows", text).quote(0, len(text))


MASKS = quoted(
    "Researchers wore masks while they trapped crows, and the crows scolded those masks for years; "
    "young birds that were never trapped learnt from their parents which masks to scold."
)
NUTS = quoted("In Japan carrion crows drop walnuts onto roads, so that cars crack the hard shells.")
ACORNS = quoted("A jay hides thousands of acorns each autumn and finds most of them in winter.")
QUOTES = (MASKS, NUTS, ACORNS)


def cited(text: str) -> list[tuple[int, ...]]:
    """The numbers of each claim, counted from 1 as they are written."""
    answer = parse_and_correct(text, QUOTES)
    return [tuple(number + 1 for number in claim.quotes) for claim in answer.claims]


def test_a_wrong_number_becomes_the_right_one() -> None:
    assert cited("Crows drop walnuts onto roads [1]. Jays hide acorns each autumn [2].") == [
        (2,),
        (3,),
    ]


def test_a_number_of_nothing_becomes_the_right_one() -> None:
    assert cited("Crows scolded the masks for years [7][0][123456789012345].") == [(1,)]


def test_what_no_quote_says_is_no_longer_a_claim() -> None:
    text = "Ravens can talk [1]. Crows scolded the masks [1]."
    answer = parse_and_correct(text, QUOTES)
    assert answer.text == "Ravens can talk. Crows scolded the masks."
    assert answer.claims == (Claim(17, 40, (0,)),)


def test_every_quote_that_matches_is_cited() -> None:
    twice = (NUTS, MASKS, quoted("Cars crack the walnuts that crows drop on roads."))
    answer = parse_and_correct("Crows drop walnuts onto roads [2].", twice)
    assert [claim.quotes for claim in answer.claims] == [(0, 2)]


def test_a_short_claim_matches_a_long_quote() -> None:
    """Its F1 is 0.29, which is why precision decides."""
    assert cited("Crows scolded the masks [2].") == [(1,)]


@pytest.mark.parametrize(
    ("threshold", "claims"), [(2 / 3 + 1e-9, 0), (2 / 3, 1), (0.5, 1), (0.0, 1)]
)
def test_the_threshold_is_reached_from_above(threshold: float, claims: int) -> None:
    """Crows and walnuts of crows, eat and walnuts stand in the quote."""
    answer = Answer("The crows eat walnuts", (NUTS,), (Claim(0, 21, ()),))
    assert len(correct_citations(answer, CorrectionSettings(threshold)).claims) == claims


def test_words_that_all_texts_have_are_no_match() -> None:
    answer = Answer("It is of the", QUOTES, (Claim(0, 12, (0,)),))
    assert correct_citations(answer).claims == ()


def test_escaped_numbers_stay_text() -> None:
    text = r"Crows drop walnuts onto roads, as \[9] and \%< show \\[9]."
    answer = parse_and_correct(text, QUOTES)
    assert answer.text == r"Crows drop walnuts onto roads, as [9] and %< show \."
    assert [claim.quotes for claim in answer.claims] == [(1,)]


def test_without_quotes_nothing_is_cited() -> None:
    assert parse_and_correct("Crows scold [1]. They fly [2][3].", ()) == Answer(
        "Crows scold. They fly."
    )


def test_a_claim_that_is_never_cited_is_refused() -> None:
    with pytest.raises(CitationSyntaxError, match="not cited"):
        parse_and_correct("%<Crows scold.", QUOTES)


SAID = st.lists(
    st.sampled_from("the crows of masks drop walnuts acorns in Japan [1] [2] [9] . fly".split()),
    max_size=25,
).map(" ".join)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    text = draw(SAID)
    edges = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=8)))
    some = st.lists(st.integers(0, 2), max_size=3, unique=True).map(tuple)
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return Answer(text, QUOTES, tuple(Claim(start, end, draw(some)) for start, end in pairs))


@given(answers(), st.floats(0, 1))
def test_correcting_changes_citations_only_and_once(answer: Answer, threshold: float) -> None:
    corrected = correct_citations(answer, CorrectionSettings(threshold))
    assert (corrected.text, corrected.quotes) == (answer.text, answer.quotes)
    assert correct_citations(corrected, CorrectionSettings(threshold)) == corrected
    spans = [(claim.start, claim.end) for claim in answer.claims]
    for claim in corrected.claims:
        assert claim.quotes
        spans.remove((claim.start, claim.end))


@given(answers(), st.floats(0.01, 1))
def test_a_claim_cites_what_holds_enough_of_its_words(answer: Answer, threshold: float) -> None:
    kept = {
        (claim.start, claim.end): claim.quotes
        for claim in correct_citations(answer, CorrectionSettings(threshold)).claims
    }
    for claim in answer.claims:
        said = [
            w for w in split_words(answer.text[claim.start : claim.end]) if w not in QUESTION_WORDS
        ]
        for number, quote in enumerate(QUOTES):
            left, held = split_words(quote.text), 0
            for word in said:
                if word in left:
                    left.remove(word)
                    held += 1
            matches = bool(said) and held / len(said) >= threshold
            assert (number in kept.get((claim.start, claim.end), ())) == matches


@given(SAID, st.integers(0, 99), st.integers(0, 99))
def test_numbers_mark_claims_and_choose_nothing(text: str, one: int, other: int) -> None:
    read = parse_and_correct(text, QUOTES)
    swapped = text.replace("[1]", f"[{one}]").replace("[2]", f"[{other}]")
    assert parse_and_correct(swapped, QUOTES) == read
    assert read.text == parse_numbered(text, [MASKS] * 9).text
    assert parse_and_correct(render_numbered(read), QUOTES) == read
