"""The constraint as a grammar: what llguidance makes of it, beside the engine and the parser."""

import re
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import llguidance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from verbatim_oracle import Oracle, escaped, trained

from rookery.browse.places import bundled
from rookery.cite.constraint import Constraint
from rookery.cite.grammar import Grammar
from rookery.cite.lark import EACH, LETTERS, MOST, lark
from rookery.cite.shape import Shape
from rookery.cite.syntax import parse_inline
from rookery.cite.verify import verify
from rookery.cite.vocabulary import read_vocabulary
from rookery.records import Page

END = "<|endoftext|>"
NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""llguidance takes a forced text in its canonical tokens only; with this, in any"""
Documents = Sequence[tuple[str, str]]

DOCUMENTS = (
    ("Crows", "Crows are clever. The crow]% says “krähe”, foo] and foo, 100 % sure.\r\n"),
    ("Crows (birds)", "naïve 👩‍👩‍👧 e\u0301 é\u00a0x\u200b العربية 日本語\u2028\x00\ufeff \\"),
    ("Crows", "Crows are birds. aaaaaaaaaaa []]% aa"),
    ("a)%[b\\ ::= 👩‍👩‍👧\n", r"C:\dir\]% %<z>%(t)%[q]% ::= %ignore <|endoftext|> // # end\\"),
    ("Half", "before\ud83dafter"),
    ("Void", ""),
    ("Short", "abcd"),
    ("\udc00", "words under no title"),
)
PAGES = [Page(f"https://{n}.example/", title, text) for n, (title, text) in enumerate(DOCUMENTS)]
FAR = 10_000
"""tokens of free text, which the grammar counts in characters: no walk comes so far"""
SHAPES = {
    "claim": Shape(free=FAR),
    "short quotes": Shape(shortest=1, longest=12, free=FAR),
    "quote": Shape(form="quote"),
}


@pytest.fixture(scope="module")
def trained_on() -> dict[str, str]:
    """Vocabularies whose tokens run across marks, or do not."""
    lines = ["[The [Crows (Crows", "foo]%bar [x]% ]] .[", ">%( %< )%[", END]
    for title, text in DOCUMENTS * 3:
        clean = re.sub("[\ud800-\udfff]", "", f"%<{text[:9]}.>%({title})%[{text[3:17]}.]%")
        lines += [clean, re.sub("[\ud800-\udfff]", "", text)]
    return {kind: trained(kind, lines, 600) for kind in ("gpt2", "greedy")}


def allowed(matcher: Any, width: int) -> list[int]:
    """The ids that may come next, of so many."""
    mask = allocate_token_bitmask(1, width)
    fill_next_token_bitmask(matcher, mask)
    assert not matcher.is_error(), matcher.get_error()
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return [int(number) for number in np.flatnonzero(bits)]


class Model:
    """Writes at random what llguidance allows, under the limits that servers leave to it."""

    def __init__(self, tokenizer: str) -> None:
        self.vocabulary = read_vocabulary(tokenizer, END)
        self._tokenizer = llguidance.LLTokenizer(tokenizer, eos_token=self.vocabulary.end)

    def matcher(self, grammar: str) -> Any:
        made = llguidance.LLMatcher.grammar_from_lark(grammar)
        matcher = llguidance.LLMatcher(self._tokenizer, made, log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def allowed(self, matcher: Any) -> list[int]:
        return allowed(matcher, self.vocabulary.width)

    def takes(self, matcher: Any, said: str) -> bool:
        """Writes this, byte by byte, if it may be written."""
        ids = [self.vocabulary.tokens.index(bytes([byte])) for byte in said.encode()]
        taken: int = matcher.try_consume_tokens(ids)
        return taken == len(ids)

    def may(self, matcher: Any, said: str) -> bool:
        """Whether this may be written from the beginning, and be whole."""
        assert matcher.reset()
        return self.takes(matcher, said) and bool(matcher.is_accepting())

    def write(self, matcher: Any, random: Random) -> str:
        """One answer, written at random."""
        said: list[int] = []
        while not matcher.is_stopped():
            said.append(self.chosen(self.allowed(matcher), random))
            assert matcher.consume_token(said[-1])
        return self.vocabulary.spelt(said).decode()

    def chosen(self, ids: Sequence[int], random: Random) -> int:
        """A random token, more often than not one that comes to an end some time."""
        tokens = self.vocabulary.tokens
        marks = [n for n in ids if set(tokens[n] or b"") & set(b">%()[]\\<")]
        return random.choice(marks if marks and random.random() < 0.4 else ids)


@pytest.fixture(scope="module")
def models(trained_on: dict[str, str]) -> dict[str, Model]:
    return {kind: Model(made) for kind, made in trained_on.items()}


@pytest.fixture
def model(models: dict[str, Model]) -> Model:
    return models["gpt2"]


def differences(model: Model, grammar: str, constraint: Constraint, random: Random) -> list[bytes]:
    """After what a walk at random finds another mask in the grammar than in the constraint."""
    matcher, state, said, found = model.matcher(NO_FORCING + grammar), constraint.begin(), b"", []
    while not state.done:
        ids = state.allowed().tolist()
        if model.allowed(matcher) != ids:
            found.append(said)
        token = model.chosen(ids, random)
        state.advance(token)
        said += model.vocabulary.tokens[token] or b""
        if not matcher.consume_token(token):
            return [*found, said]
    return found


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["gpt2", "greedy"])
def test_at_each_step_the_grammar_allows_what_the_constraint_allows(
    kind: str, name: str, models: dict[str, Model]
) -> None:
    model, shape, random = models[kind], SHAPES[name], Random(f"{kind} {name}")
    constraint = Constraint(Grammar(model.vocabulary, shape), DOCUMENTS)
    for _ in range(40):
        assert differences(model, lark(DOCUMENTS, shape), constraint, random) == []


@settings(max_examples=50, deadline=None)
@given(
    documents=st.lists(
        st.tuples(st.text(")%[\\a", max_size=4), st.text("ab]%[.\\é日\ud83d ", max_size=25)),
        min_size=1,
        max_size=4,
    ),
    shape=st.builds(
        Shape,
        form=st.sampled_from(["claim", "quote"]),
        shortest=st.integers(1, 6),
        longest=st.integers(6, 20),
        free=st.just(FAR),
    ),
    seed=st.integers(0, 9),
)
def test_of_any_documents_the_grammar_allows_what_the_constraint_allows(
    models: dict[str, Model], documents: Documents, shape: Shape, seed: int
) -> None:
    model = models["gpt2"]
    try:
        constraint = Constraint(Grammar(model.vocabulary, shape), documents)
    except ValueError as nothing:
        with pytest.raises(ValueError, match=re.escape(str(nothing))):
            lark(documents, shape)
        return
    for number in range(2):
        random = Random(10 * seed + number)
        assert differences(model, lark(documents, shape), constraint, random) == []


def test_a_claim_is_any_text_up_to_its_mark(model: Model) -> None:
    documents = [("T", "words")]
    oracle, matcher = Oracle(documents, Shape()), model.matcher(lark(documents))
    for size in range(5):
        for letters in product("a>%(\\", repeat=size):
            said = f"%<{''.join(letters)}>%(T)%[words]%"
            assert model.may(matcher, said) == oracle.judge(said.encode())[1], said


@pytest.mark.parametrize("kind", ["gpt2", "greedy"])
def test_whatever_it_allows_parses_and_its_quotes_verify(
    kind: str, models: dict[str, Model]
) -> None:
    model, random, kept = models[kind], Random(kind), {page.digest: page for page in PAGES}
    begun, titles = model.matcher(lark(DOCUMENTS)), set()
    for _ in range(120):
        answer = parse_inline(model.write(begun.deep_copy(), random), PAGES)
        ((quote,), (claim,)) = answer.quotes, answer.claims
        (verdict,) = verify(answer, lambda quote: kept.get(quote.digest))
        assert verdict.verbatim
        assert len(quote.text) >= 5
        assert claim.start < claim.end
        titles.add(quote.title)
    assert titles == {title for title, _ in DOCUMENTS[:5]}


def test_a_claim_ends_when_it_is_long(model: Model) -> None:
    matcher = model.matcher(NO_FORCING + lark(DOCUMENTS, Shape(free=16)))
    longest = LETTERS * 16 - len("%<>%(")
    assert model.takes(matcher, "%<" + "é" * (longest - 1))
    assert len(model.allowed(matcher)) > 50
    assert model.takes(matcher, "é")
    tokens = [model.vocabulary.tokens[n] or b"" for n in model.allowed(matcher)]
    assert tokens
    assert all(token.startswith(b">") for token in tokens)


def test_a_quote_begins_and_ends_anywhere_in_its_document(model: Model) -> None:
    text = "naïve foo] 日 ]]%"
    matcher = model.matcher(lark([("T", text)]))
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            possible = end - start >= 5 and "]%" not in text[start:end]
            assert model.may(matcher, f"%<x>%(T)%[{text[start:end]}]%") == possible


def test_a_title_leads_to_its_own_document_only(model: Model) -> None:
    names = ["Crows", "Crows (birds)", "Crows)", "a)%[b", "a)%[", "%[", "\\", "", ")%", '"\n\x00']
    documents = [(name, f"words of number {n}.") for n, name in enumerate(names)]
    matcher = model.matcher(lark(documents))
    for n, name in enumerate(names):
        for other in range(len(names)):
            said = f"%<x>%({escaped(name)})%[number {other}]%"
            assert model.may(matcher, said) == (n == other)


def test_no_quote_runs_from_one_document_into_the_next(model: Model) -> None:
    documents = [("A", "The crows are"), ("A", " clever birds"), ("B", " clever jays")]
    matcher = model.matcher(lark(documents))
    assert model.may(matcher, "%<x>%(A)%[crows are]%")
    assert model.may(matcher, "%<x>%(A)%[ clever birds]%")
    for words in ("are clever", " clever jays"):
        assert not model.may(matcher, f"%<x>%(A)%[{words}]%")


def test_servers_know_it_for_this_dialect() -> None:
    grammar = lark(DOCUMENTS)
    assert "::=" not in grammar  # vLLM's mark of the other
    assert grammar.isascii()
    assert len(re.findall(r"(?m)^\w+: ", grammar)) == len(grammar.split("\n"))
    made = llguidance.LLMatcher.grammar_from_lark(grammar)
    assert llguidance.grammar_from("ebnf", grammar) == made  # as SGLang reads it


def planted(grammar: str, old: str, new: str) -> str:
    assert old in grammar
    return grammar.replace(old, new)


def test_a_quote_that_is_not_one_terminal_with_its_end_is_seen(model: Model) -> None:
    documents, shape = [("T", "foo] and foo, foo")], Shape(shortest=1, free=FAR)
    grammar = lark(documents, shape)
    greedy = planted(planted(grammar, " QUOTE0", " quote0"), "\nQUOTE0", "\nquote0")
    assert model.may(model.matcher(grammar), "%<x>%(T)%[foo]%")
    assert not model.may(model.matcher(greedy), "%<x>%(T)%[foo]%")
    constraint = Constraint(Grammar(model.vocabulary, shape), documents)
    assert any(differences(model, greedy, constraint, Random(n)) for n in range(20))


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        ("before]%after", '"before]"', '"before]%after"', "before]%after"),
        ("C:\\dir\\", r"[^\\]", ".", "C:\\dir\\"),
        ("crows", "{4,", "{0,", "cr"),
        ("crows", "(TEXT0_0) & ", "", "ravens"),
    ],
)
def test_a_fault_in_the_words_is_seen(
    text: str, old: str, new: str, said: str, model: Model
) -> None:
    frame, words = lark([("T", text)]).split("WORDS0:")
    faulty, whole = f"{frame}WORDS0:{planted(words, old, new)}", f"%<x>%(T)%[{said}]%"
    assert not model.may(model.matcher(lark([("T", text)])), whole)
    assert model.may(model.matcher(faulty), whole)


# What servers take


class EverySequence(NamedTuple):
    """A tokenizer with more tokens than any: all short sequences of bytes that a text has."""

    tokens: list[bytes]
    eos_token_id: int = 256
    bos_token_id: None = None
    special_token_ids: tuple[int, ...] = (256,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


def sequences(text: str, longest: int) -> EverySequence:
    data = text.encode()
    found = {data[at : at + n] for n in range(2, longest + 1) for at in range(len(data) - n + 1)}
    return EverySequence([*(bytes([byte]) for byte in range(256)), b"<end>", *sorted(found)])


@pytest.mark.parametrize("titles", [1, 4, 13])
@pytest.mark.parametrize("kind", ["prose", "letters by chance"])
def test_documents_that_are_not_too_long_are_taken_whatever_the_tokens(
    kind: str, titles: int
) -> None:
    text = bundled().joinpath("american-crow.html").read_text(encoding="utf-8")
    if kind != "prose":
        text = "".join(Random(1).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=MOST))
    size = MOST // titles - EACH - len("10")
    documents = [(f"{10 + n}", text[n * size : (n + 1) * size]) for n in range(titles)]
    vocabulary = sequences(text[:MOST], 6)
    made = llguidance.LLMatcher.grammar_from_lark(lark(documents))
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
    matcher = llguidance.LLMatcher(tokenizer, made, log_level=0)
    said, random = f"%<x>%({documents[-1][0]})%[".encode(), Random(2)
    for written in range(200):
        ids = allowed(matcher, len(vocabulary.tokens))
        if matcher.is_stopped():
            break
        matcher.consume_token(said[written] if written < len(said) else random.choice(ids))
        if written == len(said):
            assert len(ids) > 0.8 * len(sequences(documents[-1][1], 6).tokens) - 256
    assert matcher.stop_reason() == "NoExtension"


def test_longer_documents_are_refused_with_advice() -> None:
    lark([("T", "a" * (MOST - EACH - 1))])
    for documents in ([("T", "a" * (MOST - EACH))], [(f"{n}", "a" * 50) for n in range(13)]):
        with pytest.raises(ValueError, match="give fewer pages, or shorter parts of them"):
            lark(documents)
    lark([("T", "a" * (MOST - EACH - 1))] * 2)
    lark([("T", "a" * 50)] * 100)


def test_documents_that_cannot_be_quoted_are_passed_over(model: Model) -> None:
    documents = [
        ("Void", ""),
        ("Short", "abcd"),
        ("V", "words\\"[:4] + "\\" * 9),
        ("\ud83d", "words"),
    ]
    grammar = lark([*documents, ("Long", "abcde")])
    assert grammar == lark([("Long", "abcde")])
    with pytest.raises(ValueError, match="none of the 4 documents has 5 characters in a row"):
        lark(documents)
    with pytest.raises(ValueError, match="none of the 0 documents"):
        lark([])


@pytest.mark.parametrize("shape", [Shape(form="answer"), Shape(fragments=2)])
def test_shapes_that_no_grammar_holds_are_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match="one claim or one quote, in one fragment"):
        lark(DOCUMENTS, shape)
