"""The verbatim constraint: tokens that run across marks, lengths, budgets, and joined quotes."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verbatim_cases import CROWS, MARKS, ODD, SHAPES, chosen, may, plain, tokens, walk
from verbatim_oracle import Oracle

from rookery.browser.browser import find_quote
from rookery.pages.text_folding import TextFinder
from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.records import Page, is_word_edge

CROSSING = [
    ("%", b"<C"),
    ("%<A bird", b".>%(Cr"),
    ("%<A bird.>%", b"(Crows)%[Cro"),
    ("%<A bird.>%(Crow", b"s)"),
    ("%<A bird.>%(Crow", b"s)%[are"),
    ("%<A bird.>%(Crows)", b"%[Crows"),
    ("%<A bird.>%(Crows)%", b"[are c"),
    ("%<A bird.>%(Crows)%", b"[Crows]"),
    ("%<A bird.>%(Crows)%[are cleve", b"r.]"),
    ("%<A bird.>%(Crows)%[are cleve", b"r.]%"),
    ("%<A bird.>%(Crows)%[are clever", b".]%"),
    ("", b"%<A>%(Crows)%[are clever.]%"),
]


@pytest.mark.parametrize(("said", "token"), CROSSING)
def test_a_token_may_run_across_a_mark(said: str, token: bytes) -> None:
    strays = [token[:-1] + b"#", b"r.]#", b"x" + token]
    vocabulary = plain(token, token[1:], *strays)
    found = tokens(
        VerbatimConstraint(VerbatimGrammar(vocabulary), [("Crows", CROWS)]).start_decoding(said),
        vocabulary,
    )
    assert token in found
    assert (strays[0] in found) == (said == "%")  # where it goes on within a claim


def test_a_token_may_run_from_one_quote_into_another() -> None:
    fit = {
        b"r.]%%(Crows)%[says",
        b"r.]% %<x",
        b"r.]%%(C",
        b"[...]crow",
        b"r[...]The",
        b"r",
        b"]",
        b"[",
    }
    vocabulary = plain(*fit, b"r.]%%(J", b"r.]#", b"[...]cl", b"r[...]Thy", b"[...]so.")
    grammar = VerbatimGrammar(vocabulary, AnswerShape(form="answer", fragments=2, shortest=2))
    documents = [("Crows", "clever. The crow says so")]
    state = VerbatimConstraint(grammar, documents).start_decoding("%<x>%(Crows)%[cleve")
    assert tokens(state, vocabulary) == fit


@given(
    texts=st.lists(st.text("ab]%[.\\é日 ", max_size=30), min_size=1, max_size=3),
    without=st.text("ab\\é日", max_size=3),
    pairs=st.lists(st.binary(min_size=2, max_size=3), max_size=20),
    shape=st.builds(
        AnswerShape,
        form=st.sampled_from(["claim", "answer", "quote"]),
        shortest=st.integers(1, 6),
        longest=st.integers(6, 20),
        fragments=st.integers(1, 3),
        free=st.integers(16, 30),
    ),
    seed=st.integers(0, 9),
)
def test_there_is_always_a_token_and_the_budget_is_kept(
    texts: list[str], without: str, pairs: list[bytes], shape: AnswerShape, seed: int
) -> None:
    vocabulary = plain(*pairs, without=without)
    grammar, random, budget = (
        VerbatimGrammar(vocabulary, shape),
        Random(seed),
        Random(seed).randint(1, 60),
    )
    try:
        state = VerbatimConstraint(grammar, [("T.", text) for text in texts]).start_decoding(
            budget=budget
        )
    except ValueError:  # nothing to quote, or too few tokens
        return
    said = []
    while not state.done:
        ids = state.find_allowed_ids()
        assert len(ids)
        assert (np.diff(ids) > 0).all()
        said.append(random.choice(ids.tolist()))
        state = state.append_token(said[-1])
    assert len(said) <= budget
    text = vocabulary.decode(said).decode()
    assert shape.form == "quote" or text.count("%<") > 0
    for quote in state.locate_quotes():
        parts = [texts[n][start:end] for n, start, end in quote]
        assert shape.join.join(parts) + ("" if shape.form == "quote" else "]%") in text
        assert all(len(part) >= shape.shortest for part in parts)
        assert sum(map(len, parts)) <= shape.longest
        assert len({n for n, _, _ in quote}) == 1
        assert all(a.end <= b.start for a, b in pairwise(quote))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claim", "short quotes", "quote"])
def test_with_a_budget_all_is_allowed_that_can_still_be_ended(name: str) -> None:
    vocabulary, shape, random = plain(), SHAPES[name], Random(name)
    documents = [("a)%", MARKS[:11]), ("Crows", ODD[-12:]), ("Short", "abcd")]
    constraint, oracle = (
        VerbatimConstraint(VerbatimGrammar(vocabulary, shape), documents),
        Oracle(documents, shape),
    )
    least = oracle.missing(b"") + 1
    with pytest.raises(ValueError, match=f"an answer may take {least}"):
        constraint.start_decoding(budget=least - 1)
    for budget in (least, least + 1, least + 9):
        state, said = constraint.start_decoding(budget=budget), b""
        for left in range(budget, 0, -1):
            assert state.find_allowed_ids().tolist() == oracle.allowed(said, vocabulary, left), (
                said,
                left,
            )
            token = chosen(state, vocabulary, random)
            state = state.append_token(token)
            said += vocabulary.tokens[token] or b""
            if state.done:
                break
        assert state.done


def test_free_text_ends_in_time() -> None:
    vocabulary, random = plain(), Random(1)
    constraint = VerbatimConstraint(
        VerbatimGrammar(vocabulary, AnswerShape(free=16)), [("Crows", CROWS)]
    )
    sizes = {walk(constraint.start_decoding(), vocabulary, random).index(b">%(") for _ in range(40)}
    assert max(sizes) == 13  # 16 with the marks


@pytest.mark.parametrize("shortest", [1, 5, 12])
def test_quotes_keep_their_lengths(shortest: int) -> None:
    grammar = VerbatimGrammar(plain(), AnswerShape(form="quote", shortest=shortest, longest=12))
    for start in range(20):
        for end in range(start + 1, min(start + 16, 30)):
            assert may(grammar, [("", ODD)], ODD[start:end]) == (shortest <= end - start <= 12)


def test_a_token_into_a_mark_keeps_the_length_and_the_budget() -> None:
    vocabulary = plain(b"e]", b"ef]", b"ef]%", b"g]", b"gh]", b"gh]%")
    constraint = VerbatimConstraint(
        VerbatimGrammar(vocabulary, AnswerShape(longest=6)), [("T", "abcdefgh]x]")]
    )
    state = constraint.start_decoding("%<x>%(T)%[abcd")
    assert tokens(state, vocabulary) == {b"e", b"e]", b"ef]", b"ef]%"}
    state = constraint.start_decoding("%<x>%(T)%[bcdef")
    assert tokens(state, vocabulary) == {b"g", b"g]", b"]"}
    vocabulary = plain(b"x]")
    state = VerbatimConstraint(VerbatimGrammar(vocabulary), [("T", "words]x]")]).start_decoding(
        "%<x>%(T)%[words]", 2
    )
    assert tokens(state, vocabulary) == {b"%"}


def test_fragments_keep_the_order_of_their_document() -> None:
    grammar = VerbatimGrammar(plain(), AnswerShape(shortest=3, fragments=3))
    documents = [("T", "one two three [...] %four"), ("T", "five one"), ("U", "six one")]
    good = "one[...]two; two[...]thr; one two[...]three; one[...] two[...] th"
    bad = (
        "two[...]one; one[...]five; one[...]six; one[...]on; one two[...]two; one[...]; [...]two; "
    )
    bad += "three [...] ; one[...]%fo; one[...]two[...]thr[...]fou"
    for quotes, possible in ((good, True), (bad, False)):
        for quote in quotes.split("; "):
            assert may(grammar, documents, f"%<x>%(T)%[{quote}]%") == possible, quote
    state = VerbatimConstraint(grammar, documents).start_decoding(
        "%<x>%(T)%[one[...]three[...]four]%"
    )
    assert state.locate_quotes() == (((0, 0, 3), (0, 8, 13), (0, 21, 25)),)


def test_start_and_end_are_a_span_of_the_page() -> None:
    page = Page("https://t.example/", "T", CROWS * 2)
    shape, random = (
        AnswerShape(form="quote", fragments=2, join="━", shortest=3, longest=30),
        Random(3),
    )
    constraint, joined = (
        VerbatimConstraint(VerbatimGrammar(plain(), shape), [(page.title, page.text)]),
        0,
    )
    for _ in range(60):
        said = walk(constraint.start_decoding(budget=40), plain(), random).decode()
        (places,) = constraint.start_decoding(said).locate_quotes()
        span = find_quote(TextFinder(page.text), said, 0)
        assert span is not None
        words = page.text[span[0] : span[1]].lower()
        first, last = said.split("━")[0].lower().strip(), said.split("━")[-1].lower().strip()
        assert 0 <= words.find(first) <= words.rfind(last)
        assert all(is_word_edge(page.text, at) for at in span)
        joined += len(places) == 2
    assert joined > 10
    assert not may(VerbatimGrammar(plain(), shape), [("T", CROWS)], "Crows━are━clever")


@pytest.mark.parametrize("budgets", [(30, 6), (6, 30)])
def test_what_is_remembered_of_one_answer_does_not_bind_another(budgets: tuple[int, int]) -> None:
    grammar = VerbatimGrammar(plain(), AnswerShape(form="quote"))
    constraint = VerbatimConstraint(grammar, [("\udcff", "abcde"), ("\udcff", "日本語の鴉")])
    for budget in budgets:
        found = tokens(constraint.start_decoding(budget=budget), grammar.vocabulary)
        assert found == ({b"a"} if budget == 6 else {b"a", b"\xe6"})
