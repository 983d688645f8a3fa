"""What is rendered is parsed back, in both syntaxes, or refused in words."""

from collections.abc import Callable

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given
from hypothesis import strategies as st

from rookery.quotes.citation_syntax import (
    CitationSyntaxError,
    insert_marks,
    order_quotes_by_use,
    parse_inline,
    parse_numbered,
    render_inline,
    render_numbered,
)
from rookery.records import Answer, Claim, Page, is_word_edge

SKY = Page("https://sky.example/", "Sky (blue)", "The sky is blue. Rayleigh scatters. Dusk is red.")
CROW = Page("https://crow.example/", "Crows", "Crows are clever. They use tools, and tools again.")
ODD = Page("https://odd.example/", "a)%[b\\", "x]% y \\]% %<z>%(t)%[q]% 50\\% \\(x\\) [1] end\\")
PAGES = (SKY, CROW, ODD)
BLUE, RAYLEIGH, TOOLS = SKY.quote(0, 16), SKY.quote(17, 35), CROW.quote(18, 32)


def test_numbered_as_the_paper_writes_it() -> None:
    text = "The sky is blue [1][2]. Crows use tools [3]. I think so."
    answer = parse_numbered(text, (BLUE, RAYLEIGH, TOOLS))
    assert answer.text == "The sky is blue. Crows use tools. I think so."
    assert answer.claims == (Claim(0, 15, (0, 1)), Claim(17, 32, (2,)))
    assert render_numbered(answer) == text


def test_inline_as_the_paper_writes_it() -> None:
    text = "%<The sky is blue>%(Sky (blue))%[Rayleigh scatters.]%. So it is."
    answer = parse_inline(text, PAGES)
    assert answer == Answer("The sky is blue. So it is.", (RAYLEIGH,), (Claim(0, 15, (0,)),))
    assert render_inline(answer, PAGES) == text


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("It is blue. [1] It is [2].", ["It is blue.", "It is"]),
        ("Well known. It is blue [1].", ["It is blue"]),
        ("It is e.g. blue [1] and, at dusk, red [2].", ["It is e.g. blue", "and, at dusk, red"]),
        ("He said “No.” It is blue [1] [2].", ["It is blue"]),
        ("List:\n- blue [1]\n- red [2]", ["- blue", "- red"]),
        ("空は青い。鳥は賢い [1]。", ["鳥は賢い"]),
        ("As known, %<it is blue [1].", ["it is blue"]),
    ],
)
def test_a_numbered_claim_begins_at_its_sentence(text: str, claims: list[str]) -> None:
    answer = parse_numbered(text, (BLUE, TOOLS))
    assert [answer.text[claim.start : claim.end] for claim in answer.claims] == claims


def test_several_quotes_for_one_inline_claim() -> None:
    answer = Answer("Blue sky", (BLUE, TOOLS), (Claim(0, 4, (0, 1)), Claim(5, 8, (1,))))
    text = render_inline(answer, PAGES)
    assert text == (
        "%<Blue>%(Sky (blue))%[The sky is blue.]%%(Crows)%[They use tools]%"
        " %<sky>%(Crows)%[They use tools]%"
    )
    assert parse_inline(text, PAGES) == answer


@pytest.mark.parametrize(
    "text",
    [
        "see [1]",
        "\\[1]",
        "a\\\\[2] %< b",
        "\\alpha \\[ x \\] \\%",
        "\\",
        "[1][2]",
        "%(x",
        "\\%(",
        "a%(x",
        "a\\%(x",
        "a\\\\%(x",
        "a\\\\\\%(x",
        "a\\\\\\\\%(x",
        "%",
    ],
)
def test_marks_in_the_text_survive(text: str) -> None:
    for start, end in ((0, len(text)), (0, 1), (len(text) - 1, len(text)), (1, 1)):
        answer = Answer(text, (BLUE,), (Claim(start, end, (0,)),))
        assert parse_numbered(render_numbered(answer), (BLUE,)) == answer
        assert parse_inline(render_inline(answer, PAGES), PAGES) == answer


def test_formulas_stay_as_they_are() -> None:
    text = "So \\(x^2\\) is \\[ y \\] by 50\\% \\alpha"
    answer = Answer(text, (BLUE,), (Claim(0, len(text), (0,)),))
    assert render_numbered(answer) == text + " [1]"
    assert text in render_inline(answer, PAGES)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Blue [3].", r"cites \[3\], but there are 2"),
        ("Blue [0].", r"cites \[0\]"),
        ("Blue [1][99999999999999999999].", r"but there are 2 quotes"),
        ("%<Blue.", "opened and not cited"),
        ("%<Blue %<sky [1]", "inside another"),
    ],
)
def test_numbers_that_point_at_nothing_are_refused(text: str, why: str) -> None:
    with pytest.raises(CitationSyntaxError, match=why):
        parse_numbered(text, (BLUE, TOOLS))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("%<Blue>%(Moon)%[The sky]%", "“Moon”, which is none of the 3 pages"),
        ("%<Blue>%(Crows)%[The sky is blue.]%", "not on “Crows”"),
        ("%<Blue>%(Crows)%[They do not use tools]%", "not on “Crows”"),
        ("%<Blue>%(Crows)%[]%", "not on “Crows”"),
        ("%<Blue> and so on", "no evidence"),
        ("%<Blue>%(Crows", "not closed"),
        ("%<Blue>%(Crows)%[They use", "not closed"),
    ],
)
def test_evidence_that_is_not_there_is_refused(text: str, why: str) -> None:
    with pytest.raises(CitationSyntaxError, match=why):
        parse_inline(text, PAGES)


def test_words_are_found_as_written_where_they_hold_a_mark_that_was_not_escaped() -> None:
    page = Page("https://e.org/tex", "TeX", "Write a \\]% b and then go on.")
    answer = parse_inline("%<So>%(TeX)%[a \\]% b]%", [page])
    assert [quote.text for quote in answer.quotes] == ["a \\]% b"]


def test_white_space_at_the_head_of_a_page_belongs_to_the_words() -> None:
    page = Page("https://e.org/list", "List", "  indented words and more")
    answer = parse_inline("%<So>%(List)%[  indented words]%", [page])
    assert [(quote.start, quote.text) for quote in answer.quotes] == [(0, "  indented words")]


def test_words_of_a_model_are_found_once_folded() -> None:
    answer = parse_inline("%<Yes>%(CROWS)%[they  use tools]%", PAGES)
    assert answer.quotes == (TOOLS,)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ((Claim(0, 4, ()),), "claim 1 cites no quote"),
        ((Claim(0, 4, (0,)), Claim(3, 8, (1,))), "claim 2 overlaps"),
        ((Claim(5, 8, (0,)), Claim(0, 4, (1,))), "claim 2 overlaps"),
    ],
)
def test_claims_that_cannot_be_written_are_refused(claims: tuple[Claim, ...], why: str) -> None:
    answer = Answer("Blue sky", (BLUE, TOOLS), claims)
    with pytest.raises(CitationSyntaxError, match=why):
        render_numbered(answer)
    with pytest.raises(CitationSyntaxError, match=why):
        render_inline(answer, PAGES)


def test_quotes_out_of_order_are_refused_until_put_in_order() -> None:
    answer = Answer("Blue sky", (BLUE, RAYLEIGH, TOOLS), (Claim(0, 4, (2, 0)),))
    with pytest.raises(CitationSyntaxError, match="call order_quotes_by_use"):
        render_inline(answer, PAGES)
    ordered = order_quotes_by_use(answer)
    assert ordered == Answer("Blue sky", (TOOLS, BLUE), (Claim(0, 4, (0, 1)),))
    assert parse_inline(render_inline(ordered, PAGES), PAGES) == ordered


def test_a_quote_that_would_be_found_elsewhere_is_refused() -> None:
    second = CROW.text.rindex("tools")
    answer = Answer("x", (CROW.quote(second, second + 5),), (Claim(0, 1, (0,)),))
    with pytest.raises(CitationSyntaxError, match="until they stand once"):
        render_inline(answer, PAGES)
    twin = Page("https://twin.example/", CROW.title, CROW.text)
    first = Answer("x", (twin.quote(0, 5),), (Claim(0, 1, (0,)),))
    with pytest.raises(CitationSyntaxError, match=r"crow\.example"):
        render_inline(first, (CROW, twin))


def test_marks_for_a_reader_change_nothing_in_the_text() -> None:
    claims = (Claim(4, 8, (1,)), Claim(0, 8, (0, 1)), Claim(0, 4, (0,)))
    answer = Answer("[1] \\ %<x", (BLUE, TOOLS), claims)
    assert insert_marks(answer, lambda claim: f"({len(claim.quotes)})") == "[1] (1)\\ %<(1)(2)x"


MARKS = ["[1]", "[", "1]", "]", "%", "<", ">", "(", ")", "%<", ">%(", ")%[", "]%", "%("]
OTHERS = ["\\", "\\\\", " ", "\n", ". ", "! B", "。", "a", "Sky", "é", "[10]", " [2]", "”"]
pieces = st.sampled_from([*MARKS, *OTHERS])
texts = st.lists(pieces, max_size=12).map("".join)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Any text, claims that begin and end anywhere but lie apart, quotes of the three pages."""
    text = draw(texts)
    quotes = []
    for page in draw(st.lists(st.sampled_from(PAGES), min_size=1, max_size=4)):
        start = draw(st.integers(0, len(page.text) - 1))
        quotes.append(page.quote_whole_words(start, draw(st.integers(start + 1, len(page.text)))))
    bounds = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    numbers = st.lists(st.integers(0, len(quotes) - 1), min_size=1, max_size=3)
    claims = [
        Claim(start, end, tuple(draw(numbers)))
        for start, end in zip(bounds[::2], bounds[1::2], strict=False)
    ]
    return Answer(text, tuple(quotes), tuple(claims))


@given(answers())
def test_numbered_comes_back(answer: Answer) -> None:
    assert parse_numbered(render_numbered(answer), answer.quotes) == answer


def find_first(text: str, words: str) -> int:
    """Where the words first stand without cutting another."""
    return next(
        at
        for at in range(len(text))
        if text.startswith(words, at)
        and is_word_edge(text, at)
        and is_word_edge(text, at + len(words))
    )


@given(answers())
def test_inline_comes_back_or_a_quote_stands_elsewhere_first(answer: Answer) -> None:
    answer = order_quotes_by_use(answer)
    texts = {page.url: page.text for page in PAGES}
    if all(find_first(texts[quote.url], quote.text) == quote.start for quote in answer.quotes):
        assert parse_inline(render_inline(answer, PAGES), PAGES) == answer
    else:
        with pytest.raises(CitationSyntaxError, match="until they stand once"):
            render_inline(answer, PAGES)


@given(texts)
def test_any_text_is_parsed_or_refused_in_words(text: str) -> None:
    parses: list[Callable[[], Answer]] = [
        lambda: parse_numbered(text, (BLUE, TOOLS)),
        lambda: parse_inline(text, PAGES),
    ]
    for parse in parses:
        try:
            answer = parse()
        except CitationSyntaxError:
            continue
        assert len(answer.text) <= len(text)


def test_no_run_of_backslashes_is_slow() -> None:
    def there_and_back(size: int) -> None:
        text = "\\" * size
        answer = Answer(text, (BLUE,), (Claim(0, len(text), (0,)),))
        assert parse_numbered(render_numbered(answer), (BLUE,)) == answer
        assert parse_inline(render_inline(answer, PAGES), PAGES) == answer

    assert growth_of(there_and_back, 5_000) < AT_MOST
