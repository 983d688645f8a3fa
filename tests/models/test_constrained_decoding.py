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

from rookery.library.libraries import get_bundled_folder
from rookery.models.constrained_decoding import (
    CHARACTERS_PER_TITLE,
    CHARACTERS_PER_TOKEN,
    MAX_CHARACTERS,
    UNFORCED,
    build_lark_grammar,
)
from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.quotes.verification import verify_quotes
from rookery.quotes.vocabulary import read_vocabulary
from rookery.records import Page

END = "<|endoftext|>"
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
    "claim": AnswerShape(free=FAR),
    "short quotes": AnswerShape(shortest=1, longest=12, free=FAR),
    "quote": AnswerShape(form="quote"),
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

    def takes(self, matcher: Any, text: str) -> bool:
        """Writes this, byte by byte, if it may be written."""
        ids = [self.vocabulary.tokens.index(bytes([byte])) for byte in text.encode()]
        taken: int = matcher.try_consume_tokens(ids)
        return taken == len(ids)

    def may(self, matcher: Any, text: str) -> bool:
        """Whether this may be written from the beginning, and be whole."""
        assert matcher.reset()
        return self.takes(matcher, text) and bool(matcher.is_accepting())

    def write(self, matcher: Any, random: Random) -> str:
        """One answer, written at random."""
        said: list[int] = []
        while not matcher.is_stopped():
            said.append(self.chosen(self.allowed(matcher), random))
            assert matcher.consume_token(said[-1])
        return self.vocabulary.decode(said).decode()

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


def differences(
    model: Model, grammar: str, constraint: VerbatimConstraint, random: Random
) -> list[bytes]:
    """After what a walk at random finds another mask in the grammar than in the constraint."""
    matcher, state, text, different = (
        model.matcher(UNFORCED + grammar),
        constraint.start_decoding(),
        b"",
        [],
    )
    while not state.done:
        ids = state.find_allowed_ids().tolist()
        if model.allowed(matcher) != ids:
            different.append(text)
        token = model.chosen(ids, random)
        state = state.append_token(token)
        text += model.vocabulary.tokens[token] or b""
        if not matcher.consume_token(token):
            return [*different, text]
    return different


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["gpt2", "greedy"])
def test_at_each_step_the_grammar_allows_what_the_constraint_allows(
    kind: str, name: str, models: dict[str, Model]
) -> None:
    model, shape, random = models[kind], SHAPES[name], Random(f"{kind} {name}")
    constraint = VerbatimConstraint(VerbatimGrammar(model.vocabulary, shape), DOCUMENTS)
    for _ in range(40):
        assert differences(model, build_lark_grammar(DOCUMENTS, shape), constraint, random) == []


@pytest.mark.slow
@settings(max_examples=50)
@given(
    documents=st.lists(
        st.tuples(st.text(")%[\\a", max_size=4), st.text("ab]%[.\\é日\ud83d ", max_size=25)),
        min_size=1,
        max_size=4,
    ),
    shape=st.builds(
        AnswerShape,
        form=st.sampled_from(["claim", "quote"]),
        shortest=st.integers(1, 6),
        longest=st.integers(6, 20),
        free=st.just(FAR),
    ),
    seed=st.integers(0, 9),
)
def test_of_any_documents_the_grammar_allows_what_the_constraint_allows(
    models: dict[str, Model], documents: Documents, shape: AnswerShape, seed: int
) -> None:
    model = models["gpt2"]
    try:
        constraint = VerbatimConstraint(VerbatimGrammar(model.vocabulary, shape), documents)
    except ValueError as nothing:
        with pytest.raises(ValueError, match=re.escape(str(nothing))):
            build_lark_grammar(documents, shape)
        return
    for number in range(2):
        random = Random(10 * seed + number)
        assert differences(model, build_lark_grammar(documents, shape), constraint, random) == []


def test_a_claim_is_any_text_up_to_its_mark(model: Model) -> None:
    documents = [("T", "words")]
    oracle, matcher = Oracle(documents, AnswerShape()), model.matcher(build_lark_grammar(documents))
    for size in range(5):
        for letters in product("a>%(\\", repeat=size):
            said = f"%<{''.join(letters)}>%(T)%[words]%"
            assert model.may(matcher, said) == oracle.judge(said.encode())[1], said


@pytest.mark.parametrize("kind", ["gpt2", "greedy"])
def test_whatever_it_allows_parses_and_its_quotes_verify(
    kind: str, models: dict[str, Model]
) -> None:
    model, random, kept = models[kind], Random(kind), {page.digest: page for page in PAGES}
    begun, titles = model.matcher(build_lark_grammar(DOCUMENTS)), set()
    for _ in range(120):
        answer = parse_inline(model.write(begun.deep_copy(), random), PAGES)
        ((quote,), (claim,)) = answer.quotes, answer.claims
        (verdict,) = verify_quotes(answer, lambda quote: kept.get(quote.digest))
        assert verdict.verbatim
        assert len(quote.text) >= 5
        assert claim.start < claim.end
        titles.add(quote.title)
    assert titles == {title for title, _ in DOCUMENTS[:5]}


def test_a_claim_ends_when_it_is_long(model: Model) -> None:
    matcher = model.matcher(UNFORCED + build_lark_grammar(DOCUMENTS, AnswerShape(free=16)))
    longest = CHARACTERS_PER_TOKEN * 16 - len("%<>%(")
    assert model.takes(matcher, "%<" + "é" * (longest - 1))
    assert len(model.allowed(matcher)) > 50
    assert model.takes(matcher, "é")
    tokens = [model.vocabulary.tokens[n] or b"" for n in model.allowed(matcher)]
    assert tokens
    assert all(token.startswith(b">") for token in tokens)


def test_a_quote_begins_and_ends_anywhere_in_its_document(model: Model) -> None:
    text = "naïve foo] 日 ]]%"
    matcher = model.matcher(build_lark_grammar([("T", text)]))
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            possible = end - start >= 5 and "]%" not in text[start:end]
            assert model.may(matcher, f"%<x>%(T)%[{text[start:end]}]%") == possible


def test_a_title_leads_to_its_own_document_only(model: Model) -> None:
    names = ["Crows", "Crows (birds)", "Crows)", "a)%[b", "a)%[", "%[", "\\", "", ")%", '"\n\x00']
    documents = [(name, f"words of number {n}.") for n, name in enumerate(names)]
    matcher = model.matcher(build_lark_grammar(documents))
    for n, name in enumerate(names):
        for other in range(len(names)):
            said = f"%<x>%({escaped(name)})%[number {other}]%"
            assert model.may(matcher, said) == (n == other)


def test_no_quote_runs_from_one_document_into_the_next(model: Model) -> None:
    documents = [("A", "The crows are"), ("A", " clever birds"), ("B", " clever jays")]
    matcher = model.matcher(build_lark_grammar(documents))
    assert model.may(matcher, "%<x>%(A)%[crows are]%")
    assert model.may(matcher, "%<x>%(A)%[ clever birds]%")
    for words in ("are clever", " clever jays"):
        assert not model.may(matcher, f"%<x>%(A)%[{words}]%")


def test_servers_know_it_for_this_dialect() -> None:
    grammar = build_lark_grammar(DOCUMENTS)
    assert "::=" not in grammar  # vLLM's mark of the other
    assert grammar.isascii()
    assert len(re.findall(r"(?m)^\w+: ", grammar)) == len(grammar.split("\n"))
    made = llguidance.LLMatcher.grammar_from_lark(grammar)
    assert llguidance.grammar_from("ebnf", grammar) == made  # as SGLang reads it


def planted(grammar: str, old: str, new: str) -> str:
    assert old in grammar
    return grammar.replace(old, new)


def test_a_quote_that_is_not_one_terminal_with_its_end_is_seen(model: Model) -> None:
    documents, shape = [("T", "foo] and foo, foo")], AnswerShape(shortest=1, free=FAR)
    grammar = build_lark_grammar(documents, shape)
    greedy = planted(planted(grammar, " QUOTE0", " quote0"), "\nQUOTE0", "\nquote0")
    assert model.may(model.matcher(grammar), "%<x>%(T)%[foo]%")
    assert not model.may(model.matcher(greedy), "%<x>%(T)%[foo]%")
    constraint = VerbatimConstraint(VerbatimGrammar(model.vocabulary, shape), documents)
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
    frame, words = build_lark_grammar([("T", text)]).split("WORDS0:")
    faulty, whole = f"{frame}WORDS0:{planted(words, old, new)}", f"%<x>%(T)%[{said}]%"
    assert not model.may(model.matcher(build_lark_grammar([("T", text)])), whole)
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
    text = get_bundled_folder().joinpath("american-crow.html").read_text(encoding="utf-8")
    if kind != "prose":
        text = "".join(Random(1).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=MAX_CHARACTERS))
    size = MAX_CHARACTERS // titles - CHARACTERS_PER_TITLE - len("10")
    documents = [(f"{10 + n}", text[n * size : (n + 1) * size]) for n in range(titles)]
    vocabulary = sequences(text[:MAX_CHARACTERS], 6)
    made = llguidance.LLMatcher.grammar_from_lark(build_lark_grammar(documents))
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
    build_lark_grammar([("T", "a" * (MAX_CHARACTERS - CHARACTERS_PER_TITLE - 1))])
    for documents in (
        [("T", "a" * (MAX_CHARACTERS - CHARACTERS_PER_TITLE))],
        [(f"{n}", "a" * 50) for n in range(13)],
    ):
        with pytest.raises(ValueError, match="give fewer pages, or shorter parts of them"):
            build_lark_grammar(documents)
    build_lark_grammar([("T", "a" * (MAX_CHARACTERS - CHARACTERS_PER_TITLE - 1))] * 2)
    build_lark_grammar([("T", "a" * 50)] * 100)


def test_documents_that_cannot_be_quoted_are_passed_over(model: Model) -> None:
    documents = [
        ("Void", ""),
        ("Short", "abcd"),
        ("V", "words\\"[:4] + "\\" * 9),
        ("\ud83d", "words"),
    ]
    grammar = build_lark_grammar([*documents, ("Long", "abcde")])
    assert grammar == build_lark_grammar([("Long", "abcde")])
    with pytest.raises(ValueError, match="none of the 4 documents has 5 characters in a row"):
        build_lark_grammar(documents)
    with pytest.raises(ValueError, match="none of the 0 documents"):
        build_lark_grammar([])


@pytest.mark.parametrize("shape", [AnswerShape(form="answer"), AnswerShape(fragments=2)])
def test_shapes_that_no_grammar_holds_are_refused(shape: AnswerShape) -> None:
    with pytest.raises(ValueError, match="one claim or one quote, in one fragment"):
        build_lark_grammar(DOCUMENTS, shape)
