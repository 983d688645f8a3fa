"""The verbatim constraint, against quotes written out by brute force and against llguidance."""

import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from verbatim_oracle import Oracle, escaped, in_lark, trained

from rookery.browse.find import Finder
from rookery.browse.quoting import find_quote
from rookery.cite.constraint import Constraint, State
from rookery.cite.grammar import Grammar, Shape
from rookery.cite.matches import Document, index
from rookery.cite.syntax import parse_inline
from rookery.cite.verify import verify
from rookery.cite.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Page

END = "<|endoftext|>"
KINDS = ["gpt2", "llama3", "greedy", "sentencepiece"]
Documents = Sequence[tuple[str, str]]

CROWS = "Crows are clever. The crow]% says “krähe”, [...] 100 % sure.\r\n"
ODD = "naïve 👩‍👩‍👧 e\u0301 é\u00a0x\u200b العربية 日本\u2028\x00\ufeff \\"
MARKS = r"C:\dir\]% %<z>%(t)%[q]% ::= %ignore <|endoftext|> end\\"
RUN = "aaaaaaaaaaa []]% aa"
DOCUMENTS = (
    ("Crows", CROWS),
    ("Crows (birds)", ODD),
    ("a)%[b\\", MARKS),
    ("Crows", RUN),
    ("Void", ""),
    ("Short", "abcd"),
)
TINY = (*((title, text[:13]) for title, text in DOCUMENTS), ("J", "ab[...]cd%e━f"))
SHAPES = {
    "claim": Shape(),
    "short quotes": Shape(shortest=1, longest=12),
    "answer": Shape(form="answer", shortest=3, longest=40),
    "quote": Shape(form="quote"),
    "joined claim": Shape(shortest=2, longest=7, fragments=2),
    "joined answer": Shape(form="answer", shortest=2, longest=7, fragments=3),
    "start and end": Shape(form="quote", shortest=2, longest=8, fragments=2, join="━"),
}


def lines() -> list[str]:
    """What the vocabularies are made from: much of it inline answers, so that tokens run across
    marks."""
    made = ["[The [Crows (Crows", "foo]%bar [x]% ]] .[", "foo[...]bar", "a━b ━c"]
    for title, text in DOCUMENTS * 3:
        made += [text, f"%<{text[:9]}.>%({title})%[{text[3:17]}.]%", f"{title} said.", text[2:]]
    return made


@pytest.fixture(scope="module")
def vocabularies() -> dict[str, str]:
    return {kind: trained(kind, lines(), 620) for kind in KINDS}


@pytest.fixture(scope="module")
def words(vocabularies: dict[str, str]) -> dict[str, Vocabulary]:
    return {kind: read_vocabulary(made, END) for kind, made in vocabularies.items()}


def plain(*tokens: bytes, without: str = "") -> Vocabulary:
    """All bytes but some, these tokens, and an end."""
    lacking = without.encode()
    single = [bytes([byte]) for byte in range(256) if byte not in lacking]
    return Vocabulary((*single, *tokens, None), len(single) + len(tokens), 400)


def chosen(state: State, vocabulary: Vocabulary, random: Random) -> int:
    """A random token, more often than not one that comes to an end some time."""
    ids: list[int] = state.allowed().tolist()
    if vocabulary.end in ids and random.random() < 0.3:
        return vocabulary.end
    marks = [n for n in ids if set(vocabulary.tokens[n] or b"") & set(b">%()[]\\<")]
    return random.choice(marks if marks and random.random() < 0.3 else ids)


def walk(state: State, vocabulary: Vocabulary, random: Random) -> bytes:
    """One answer, written at random."""
    said = []
    while not state.done:
        said.append(chosen(state, vocabulary, random))
        state.advance(said[-1])
    return vocabulary.spelt(said)


def bits(state: State, vocabulary: Vocabulary) -> list[int]:
    out = np.full(-(-vocabulary.width // 32), -1, np.int32)
    state.bitmask(out)
    return [int(n) for n in np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little"))]


def tokens(state: State, vocabulary: Vocabulary) -> set[bytes]:
    """What may come next, in bytes."""
    return {vocabulary.tokens[n] or END.encode() for n in state.allowed().tolist()}


def may(grammar: Grammar, documents: Documents, said: str) -> bool:
    """Whether this may be written and be whole."""
    try:
        state = Constraint(grammar, documents).begin(said)
    except ValueError:
        return False
    return grammar.vocabulary.end in state.allowed()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_allows_what_brute_force_finds(
    kind: str, name: str, words: dict[str, Vocabulary]
) -> None:
    shape, vocabulary, random = SHAPES[name], words[kind], Random(f"{kind} {name}")
    documents = TINY if shape.fragments > 1 else DOCUMENTS
    constraint, oracle = Constraint(Grammar(vocabulary, shape), documents), Oracle(documents, shape)
    for _ in range(3):
        begun = random.choice(["", "%<x>%(", "%<x", r"%<\>%(>%(Crows"])
        said = b"" if shape.form == "quote" else begun.encode()
        state = constraint.begin(said.decode())
        while not state.done and len(said) < 120:
            assert state.allowed().tolist() == oracle.allowed(said, vocabulary), said
            assert bits(state, vocabulary) == state.allowed().tolist()
            token = chosen(state, vocabulary, random)
            state.advance(token)
            said += vocabulary.tokens[token] or b""
        assert not state.done or oracle.judge(said)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_masks_are_those_of_llguidance(kind: str, vocabularies: dict[str, str]) -> None:
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    theirs = pytest.importorskip("llguidance.numpy")
    vocabulary, documents = read_vocabulary(vocabularies[kind], END), DOCUMENTS[:4]
    tokenizer = llguidance.LLTokenizer(vocabularies[kind], eos_token=vocabulary.end)
    random = Random(kind)
    for shape in (SHAPES["claim"], SHAPES["short quotes"]):
        grammar = llguidance.LLMatcher.grammar_from_lark(in_lark(documents, shape))
        constraint = Constraint(Grammar(vocabulary, shape), documents)
        for _ in range(4):
            matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
            state = constraint.begin("%<x>%(")
            mask = theirs.allocate_token_bitmask(1, vocabulary.width)
            while not state.done:
                theirs.fill_next_token_bitmask(matcher, mask)
                ours = np.zeros_like(mask[0])
                state.bitmask(ours)
                assert (ours == mask[0]).all(), state.sources()
                token = random.choice(state.allowed().tolist())
                state.advance(token)
                assert state.done or matcher.consume_token(token)


@pytest.mark.parametrize("name", ["claim", "short quotes", "answer"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_answers_parse_and_their_quotes_verify(
    kind: str, name: str, words: dict[str, Vocabulary]
) -> None:
    pages = [
        Page(f"https://{n}.example/", title, text) for n, (title, text) in enumerate(DOCUMENTS)
    ]
    kept = {page.digest: page for page in pages}
    constraint, random = Constraint(Grammar(words[kind], SHAPES[name]), DOCUMENTS), Random(kind)
    for _ in range(25):
        state = constraint.begin(budget=random.randint(60, 120))
        answer = parse_inline(walk(state, words[kind], random).decode(), pages)
        verdicts = verify(answer, lambda digest, _: kept.get(digest))
        assert answer.claims
        assert all(claim.start < claim.end for claim in answer.claims)
        assert all(verdict.verified for verdict in verdicts)
        quotes = {(quote.title, quote.text) for quote in answer.quotes}
        assert all(SHAPES[name].shortest <= len(text) for _, text in quotes)
        assert {
            (DOCUMENTS[n][0], DOCUMENTS[n][1][start:end]) for ((n, start, end),) in state.sources()
        } == quotes


def test_sources_are_what_the_parser_finds() -> None:
    documents = [("A", "To be or not to be or not."), ("B", "Or not to be, to be or not.")]
    pages = [Page(f"https://{title}.example/", title, text) for title, text in documents]
    said = "%<x>%(A)%[be or not]% y %<z>%(B)%[ to be]%%(A)%[or not]%"
    state = Constraint(Grammar(plain(), Shape(form="answer")), documents).begin(said)
    found = [(documents[n][0], start, end) for ((n, start, end),) in state.sources()]
    assert found == [("A", 3, 12), ("B", 6, 12), ("A", 6, 12)]
    quotes = parse_inline(said, pages).quotes
    assert found == [(quote.title, quote.start, quote.end) for quote in quotes]


@pytest.mark.parametrize("kind", KINDS)
def test_any_words_can_be_written_in_any_tokens(
    kind: str, vocabularies: dict[str, str], words: dict[str, Vocabulary]
) -> None:
    grammar, random = Grammar(words[kind], Shape(shortest=1)), Random(kind)
    tokenizer, written = tokenizers.Tokenizer.from_str(vocabularies[kind]), 0
    tokenizer.encode_special_tokens = True  # the one in a document is text
    for title, text in DOCUMENTS[:4]:
        quotes = set(Oracle([], grammar.shape).quotes(text))
        constraint = Constraint(grammar, [(title, text)])
        for _ in range(15):
            start, end = sorted(random.sample(range(len(text) + 1), 2))
            said = f"%<A claim.>%({escaped(title)})%[{text[start:end]}]%"
            possible = text[start:end] in quotes
            for ids in (tokenizer.encode(said).ids, cut_at_random(said, words[kind], random)):
                if possible:
                    state = constraint.begin()
                    for token in ids:
                        state.advance(token)
                    assert words[kind].end in state.allowed()
                    ((place,),) = state.sources()
                    assert text[place.start : place.end] == text[start:end]
            assert possible or not may(grammar, [(title, text)], said)
            written += possible
    assert written > 20


def cut_at_random(said: str, vocabulary: Vocabulary, random: Random) -> list[int]:
    ids, rest = [], said.encode()
    by_bytes = {token: n for n, token in enumerate(vocabulary.tokens) if token}
    while rest:
        size = random.choice([size for size in range(1, 30) if rest[:size] in by_bytes])
        ids.append(by_bytes[rest[:size]])
        rest = rest[size:]
    return ids


def test_a_quote_may_begin_and_end_anywhere_in_its_document() -> None:
    grammar, text = Grammar(plain()), "naïve crows 日"
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            said = f"%<x>%(Crows)%[{text[start:end]}]%"
            assert may(grammar, [("Crows", text)], said) == (end - start >= 5)


def test_documents_that_cannot_be_quoted_are_passed_over() -> None:
    documents = [("Void", ""), ("Short", "abcd"), ("Long", "abcde"), ("Long", "abcde"), ("V", "\\")]
    state = Constraint(Grammar(plain()), documents).begin("%<x>%(")
    assert tokens(state, plain()) == {b"L"}
    whole = Constraint(Grammar(plain()), documents).begin("%<x>%(Long)%[abcde]%")
    assert whole.sources() == (((2, 0, 5),),)
    with pytest.raises(ValueError, match="none of the 2 documents has 5 characters"):
        Constraint(Grammar(plain()), documents[:2]).begin()
    with pytest.raises(ValueError, match="none of the 0 documents"):
        Constraint(Grammar(plain()), []).begin()


def test_a_run_of_one_letter_is_its_first_occurrence() -> None:
    constraint = Constraint(Grammar(plain(b"aa", b"aaa")), [("R", "b" + "a" * 50)])
    state = constraint.begin("%<x>%(R)%[" + "a" * 49)
    assert state.sources() == (((0, 1, 50),),)
    assert tokens(state, plain(b"aa", b"aaa")) == {b"a", b"]"}


@pytest.mark.parametrize("titles", [("A", "A"), ("A", "B")])
@pytest.mark.parametrize("form", ["claim", "quote"])
def test_no_quote_runs_from_one_document_into_the_next(form: Any, titles: tuple[str, str]) -> None:
    documents = list(zip(titles, ["The crows are", " clever birds"], strict=True))
    grammar = Grammar(plain(b"e c", b"are clever"), Shape(form=form))
    lead, close = ("%<x>%(A)%[", "]%") if form == "claim" else ("", "")
    assert may(grammar, documents, f"{lead}crows are{close}")
    assert may(grammar, documents, f"{lead} clever{close}") == (form == "quote" or titles[1] == "A")
    assert not may(grammar, documents, f"{lead}are clever{close}")
    assert not may(grammar, documents, f"{lead}are c{close}")


@pytest.mark.parametrize(
    "words", "] ; )%[ ; >%( ; %< ; [...] ; ::= ; %ignore ; <|endoftext|>".split(" ; ")
)
def test_marks_within_a_text_are_text(words: str) -> None:
    grammar, documents = Grammar(plain()), [("T", f"before {words} after")]
    for quote in (f"before {words}", f"{words} after", f"before {words} after"):
        said = f"%<x>%(T)%[{quote}]%"
        assert may(grammar, documents, said)
        page = Page("https://t.example/", *documents[0])
        assert parse_inline(said, [page]).quotes[0].text == quote


def test_a_quote_does_not_hold_its_own_end() -> None:
    grammar, documents = Grammar(plain()), [("T", "before]%after, C:\\dir\\]%x and end\\\\")]
    for quote in ("before", "before]", "%after", "efore]", "C:\\di", "%x and end"):
        assert may(grammar, documents, f"%<x>%(T)%[{quote}]%")
    for quote in ("before]%", "before]%after", "C:\\dir\\", "x and end\\", "x and end\\\\"):
        assert not may(grammar, documents, f"%<x>%(T)%[{quote}]%")
    constraint = Constraint(Grammar(plain(b"dir\\", b"end\\")), documents)
    state = constraint.begin("%<x>%(T)%[x and ")
    assert tokens(state, plain(b"dir\\", b"end\\")) == {b"e", b"]"}


def test_only_ordinary_bytes_spell_a_special_token(words: dict[str, Vocabulary]) -> None:
    for vocabulary in words.values():
        state = Constraint(Grammar(vocabulary), [("T", MARKS)]).begin("%<x>%(T)%[gnore ")
        assert vocabulary.end not in state.allowed()
        for byte in b"<|endoftext|>":
            state.advance(vocabulary.tokens.index(bytes([byte])))
        assert vocabulary.end not in state.allowed()


def test_a_title_leads_to_its_own_document_only() -> None:
    names = ["Crows", "Crows (birds)", "Crows)", "a)%[b", "a)%[", "%[", "\\", "a\\)%[b", "", ")%"]
    documents = [(name, f"words of number {n}.") for n, name in enumerate(names)]
    grammar = Grammar(plain(b"s)%[wor", b"s)", b" (b", b"\\\\"))
    for n, name in enumerate(names):
        for other in range(len(names)):
            said = f"%<x>%({escaped(name)})%[number {other}]%"
            assert may(grammar, documents, said) == (n == other)
    assert not may(grammar, documents, "%<x>%(Crow)%[number 0]%")


def test_documents_of_one_title_are_all_quoted_under_it() -> None:
    documents = [("Crows", "They are clever."), ("Jays", "They hide nuts."), ("Crows", "They fly.")]
    constraint = Constraint(Grammar(plain()), documents)
    state = constraint.begin("%<x>%(Crows)%[They ")
    assert tokens(state, plain()) == {b"a", b"f", b"]"}
    assert constraint.begin("%<x>%(Crows)%[ fly.").sources() == (((2, 4, 9),),)
    assert state.sources() == (((0, 0, 5),),)


STRANGE = (
    *(
        "👩\u200d👩\u200d👧 family",
        "e\u0301 and \u00e9",
        "no\u00a0break\u200b",
        "\u202bالعربية\u202c",
    ),
    *("日本語の鴉", "line\r\nline\ttab", "nul\x00nul", "a\u2028b\u2029c", "\ufeffmark of order"),
)


@pytest.mark.parametrize("text", STRANGE)
def test_a_character_is_never_cut(text: str) -> None:
    vocabulary = plain(
        "é".encode()[:1] + b"x", "👩".encode()[:3], "日".encode()[1:], "本語".encode()[:4]
    )
    constraint = Constraint(Grammar(vocabulary, Shape(shortest=1)), [("T", text)])
    state, data = constraint.begin("%<x>%(T)%["), text.encode()
    for size in range(1, len(data) + 1):
        state.advance(vocabulary.tokens.index(data[size - 1 : size]))
        whole = data[:size].decode(errors="ignore").encode() == data[:size]
        assert (b"]" in tokens(state, vocabulary)) == whole
    assert tokens(state, vocabulary) == {b"]"}
    assert state.sources() == (((0, 0, len(text)),),)


def test_half_of_a_surrogate_pair_is_not_quoted() -> None:
    grammar, documents = Grammar(plain()), [("T", "before\ud83dafter\udcff."), ("\udcfe", "words")]
    assert may(grammar, documents, "%<x>%(T)%[before]%")
    assert may(grammar, documents, "%<x>%(T)%[after]%")
    state = Constraint(grammar, documents).begin("%<x>%(T)%[after")
    assert tokens(state, plain()) == {b"]"}
    assert state.sources() == (((0, 7, 12),),)
    assert tokens(Constraint(grammar, documents).begin("%<x>%("), plain()) == {b"T"}


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
    found = tokens(Constraint(Grammar(vocabulary), [("Crows", CROWS)]).begin(said), vocabulary)
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
    grammar = Grammar(vocabulary, Shape(form="answer", fragments=2, shortest=2))
    documents = [("Crows", "clever. The crow says so")]
    state = Constraint(grammar, documents).begin("%<x>%(Crows)%[cleve")
    assert tokens(state, vocabulary) == fit


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text("ab]%[.\\é日 ", max_size=30), min_size=1, max_size=3),
    without=st.text("ab\\é日", max_size=3),
    pairs=st.lists(st.binary(min_size=2, max_size=3), max_size=20),
    shape=st.builds(
        Shape,
        form=st.sampled_from(["claim", "answer", "quote"]),
        shortest=st.integers(1, 6),
        longest=st.integers(6, 20),
        fragments=st.integers(1, 3),
        free=st.integers(16, 30),
    ),
    seed=st.integers(0, 9),
)
def test_there_is_always_a_token_and_the_budget_is_kept(
    texts: list[str], without: str, pairs: list[bytes], shape: Shape, seed: int
) -> None:
    vocabulary = plain(*pairs, without=without)
    grammar, random, budget = Grammar(vocabulary, shape), Random(seed), Random(seed).randint(1, 60)
    try:
        state = Constraint(grammar, [("T.", text) for text in texts]).begin(budget=budget)
    except ValueError:  # nothing to quote, or too few tokens
        return
    said = []
    while not state.done:
        ids = state.allowed()
        assert len(ids)
        assert (np.diff(ids) > 0).all()
        said.append(random.choice(ids.tolist()))
        state.advance(said[-1])
    assert len(said) <= budget
    text = vocabulary.spelt(said).decode()
    assert shape.form == "quote" or text.count("%<") > 0
    for quote in state.sources():
        parts = [texts[n][start:end] for n, start, end in quote]
        assert shape.join.join(parts) + ("" if shape.form == "quote" else "]%") in text
        assert all(len(part) >= shape.shortest for part in parts)
        assert sum(map(len, parts)) <= shape.longest
        assert len({n for n, _, _ in quote}) == 1
        assert all(a.end <= b.start for a, b in pairwise(quote))


@pytest.mark.parametrize("name", ["claim", "short quotes", "quote"])
def test_with_a_budget_all_is_allowed_that_can_still_be_ended(name: str) -> None:
    vocabulary, shape, random = plain(), SHAPES[name], Random(name)
    documents = [("a)%", MARKS[:11]), ("Crows", ODD[-12:]), ("Short", "abcd")]
    constraint, oracle = Constraint(Grammar(vocabulary, shape), documents), Oracle(documents, shape)
    least = oracle.missing(b"") + 1
    with pytest.raises(ValueError, match=f"an answer may take {least}"):
        constraint.begin(budget=least - 1)
    for budget in (least, least + 1, least + 9):
        state, said = constraint.begin(budget=budget), b""
        for left in range(budget, 0, -1):
            assert state.allowed().tolist() == oracle.allowed(said, vocabulary, left), (said, left)
            token = chosen(state, vocabulary, random)
            state.advance(token)
            said += vocabulary.tokens[token] or b""
            if state.done:
                break
        assert state.done


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_ends_within_its_budget(kind: str, words: dict[str, Vocabulary]) -> None:
    constraint, random = Constraint(Grammar(words[kind]), DOCUMENTS), Random(kind)
    for budget in [*range(1, 40)] * 2:
        try:
            state = constraint.begin(budget=budget)
        except ValueError:
            assert budget < 25
            continue
        for _ in range(budget):
            if not state.done:
                state.advance(random.choice(state.allowed().tolist()))
        assert state.done


def test_free_text_ends_in_time() -> None:
    vocabulary, random = plain(), Random(1)
    constraint = Constraint(Grammar(vocabulary, Shape(free=16)), [("Crows", CROWS)])
    sizes = {walk(constraint.begin(), vocabulary, random).index(b">%(") for _ in range(40)}
    assert max(sizes) == 13  # 16 with the marks


@pytest.mark.parametrize("shortest", [1, 5, 12])
def test_quotes_keep_their_lengths(shortest: int) -> None:
    grammar = Grammar(plain(), Shape(form="quote", shortest=shortest, longest=12))
    for start in range(20):
        for end in range(start + 1, min(start + 16, 30)):
            assert may(grammar, [("", ODD)], ODD[start:end]) == (shortest <= end - start <= 12)


def test_a_token_into_a_mark_keeps_the_length_and_the_budget() -> None:
    vocabulary = plain(b"e]", b"ef]", b"ef]%", b"g]", b"gh]", b"gh]%")
    constraint = Constraint(Grammar(vocabulary, Shape(longest=6)), [("T", "abcdefgh]x]")])
    state = constraint.begin("%<x>%(T)%[abcd")
    assert tokens(state, vocabulary) == {b"e", b"e]", b"ef]", b"ef]%"}
    state = constraint.begin("%<x>%(T)%[bcdef")
    assert tokens(state, vocabulary) == {b"g", b"g]", b"]"}
    vocabulary = plain(b"x]")
    state = Constraint(Grammar(vocabulary), [("T", "words]x]")]).begin("%<x>%(T)%[words]", 2)
    assert tokens(state, vocabulary) == {b"%"}


def test_documents_that_say_the_same_do_not_multiply() -> None:
    constraint = Constraint(Grammar(plain(), Shape(form="answer")), [("Crows", CROWS)] * 3)
    state = constraint.begin("%<x>" + "%(Crows)%[Crows]%" * 6)
    assert state.sources() == (((0, 0, 5),),) * 6
    assert len(state._moments[-1].threads) == 1


def test_what_cannot_be_spelt_byte_by_byte_is_not_quoted() -> None:
    vocabulary = plain("é".encode(), "naïve".encode(), without="é日")
    documents = [("T", "naïve crows, 日 and jays: évier"), ("日", "crows and jays")]
    constraint = Constraint(Grammar(vocabulary), documents)
    assert tokens(constraint.begin("%<x>%("), vocabulary) == {b"T"}
    for said in ("ve crow", " and ", "jays:"):
        constraint.begin(f"%<x>%(T)%[{said}")
    for said in ("na", "日", "vier", "s: "):
        with pytest.raises(ValueError, match="is not the beginning"):
            constraint.begin(f"%<x>%(T)%[{said}")
    single = [bytes([byte]) for byte in range(128)]
    vocabulary = Vocabulary((*single, b"\xc3", "é".encode(), None), 130, 131)
    state = Constraint(Grammar(vocabulary), documents).begin("%<x")
    assert tokens(state, vocabulary) == {*single, "é".encode()}


def test_a_vocabulary_that_cannot_spell_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no tokens that spell '%'"):
        Grammar(plain(without="%"))
    with pytest.raises(ValueError, match="no tokens that spell '━'"):
        Grammar(plain(without="━"), Shape(form="quote", fragments=2, join="━"))
    assert may(Grammar(plain(without="%"), Shape(form="quote")), [("T", "5 % of")], "5 %") is False
    assert may(Grammar(plain(without="%"), Shape(form="quote")), [("T", "5 % of it")], " of it")


def test_fragments_keep_the_order_of_their_document() -> None:
    grammar = Grammar(plain(), Shape(shortest=3, fragments=3))
    documents = [("T", "one two three [...] %four"), ("T", "five one"), ("U", "six one")]
    good = "one[...]two; two[...]thr; one two[...]three; one[...] two[...] th"
    bad = (
        "two[...]one; one[...]five; one[...]six; one[...]on; one two[...]two; one[...]; [...]two; "
    )
    bad += "three [...] ; one[...]%fo; one[...]two[...]thr[...]fou"
    for quotes, possible in ((good, True), (bad, False)):
        for quote in quotes.split("; "):
            assert may(grammar, documents, f"%<x>%(T)%[{quote}]%") == possible, quote
    state = Constraint(grammar, documents).begin("%<x>%(T)%[one[...]three[...]four]%")
    assert state.sources() == (((0, 0, 3), (0, 8, 13), (0, 21, 25)),)


def test_start_and_end_are_a_span_of_the_page() -> None:
    page = Page("https://t.example/", "T", CROWS * 2)
    shape, random = Shape(form="quote", fragments=2, join="━", shortest=3, longest=30), Random(3)
    constraint, joined = Constraint(Grammar(plain(), shape), [(page.title, page.text)]), 0
    for _ in range(60):
        state = constraint.begin(budget=40)
        said = walk(state, plain(), random).decode()
        (places,) = state.sources()
        span = find_quote(Finder(page.text), said, 0)
        assert span is not None
        words = page.text[span[0] : span[1]].lower()
        assert words.startswith(said.split("━")[0].lower().strip())
        assert words.endswith(said.split("━")[-1].lower().strip())
        joined += len(places) == 2
    assert joined > 10
    assert not may(Grammar(plain(), shape), [("T", CROWS)], "Crows━are━clever")


@pytest.mark.parametrize("name", SHAPES)
def test_taking_back_and_forking_are_as_writing_anew(name: str) -> None:
    vocabulary, random = plain(b"ow", b"ev", b"[...]"), Random(name)
    constraint = Constraint(Grammar(vocabulary, SHAPES[name]), DOCUMENTS)
    state, said = constraint.begin(budget=70), list[int]()
    for _ in range(200):
        if state.done or (said and random.random() < 0.3):
            taken = random.randint(1, len(said))
            state.rollback(taken)
            del said[-taken:]
        if random.random() < 0.2:
            old, state = state, state.fork()
            old.advance(random.choice(old.allowed().tolist()))
        said.append(random.choice(state.allowed().tolist()))
        state.advance(said[-1])
        fresh = constraint.begin(budget=70)
        for token in said:
            fresh.advance(token)
        assert fresh.allowed().tolist() == state.allowed().tolist()
        assert (fresh.sources(), fresh.done) == (state.sources(), state.done)


def test_many_states_side_by_side_are_as_one_alone(words: dict[str, Vocabulary]) -> None:
    vocabulary = words["gpt2"]
    constraint = Constraint(Grammar(vocabulary), DOCUMENTS)
    alone = [walk(constraint.begin(budget=80), vocabulary, Random(n)) for n in range(8)]
    states, randoms = [constraint.begin(budget=80) for _ in alone], [Random(n) for n in range(8)]
    said: list[list[int]] = [[] for _ in alone]
    while not all(state.done for state in states):
        for state, random, ids in zip(states, randoms, said, strict=True):
            if not state.done:
                ids.append(chosen(state, vocabulary, random))
                state.advance(ids[-1])
    assert [vocabulary.spelt(ids) for ids in said] == alone


def test_a_policy_asks_by_the_tokens_so_far() -> None:
    vocabulary, random = plain(), Random(5)
    constraint = Constraint(Grammar(vocabulary), DOCUMENTS)
    allow: Callable[[Sequence[int]], Any] = constraint.allow(budget=60)
    for _ in range(4):
        state, said = constraint.begin(budget=60), list[int]()
        while not state.done:
            assert allow(said).tolist() == state.allowed().tolist()
            said.append(chosen(state, vocabulary, random))
            state.advance(said[-1])
    fresh = constraint.allow(budget=60)
    assert fresh(said).tolist() == [vocabulary.end]
    with pytest.raises(ValueError, match="may not come next"):
        fresh([vocabulary.end])


def test_a_document_is_kept_for_other_questions() -> None:
    grammar, shape = Grammar(plain()), Shape(shortest=4)
    document = pickle.loads(pickle.dumps(index(grammar, "Crows", CROWS)))
    assert isinstance(document, Document)
    again = Grammar(plain())
    state = Constraint(again, [("Jays", "Jays hide nuts."), document]).begin("%<x>%(Crows)%[are c")
    assert state.sources() == (((1, 6, 11),),)
    for other in (Grammar(plain(b"ab")), Grammar(plain(), shape)):
        with pytest.raises(ValueError, match="document 0 was indexed for another"):
            Constraint(other, [document])


def test_wrong_use_is_said_in_words() -> None:
    vocabulary = plain()
    constraint = Constraint(Grammar(vocabulary), [("Crows", CROWS)])
    state = constraint.begin()
    with pytest.raises(ValueError, match=r"token 97 \(b'a'\) may not come next"):
        state.advance(97)
    with pytest.raises(ValueError, match=r"token 399 \(no token\)"):
        state.advance(399)
    with pytest.raises(ValueError, match=r"token -1 \(no token\)"):
        state.advance(-1)
    with pytest.raises(ValueError, match="1 tokens cannot be taken back of 0"):
        state.rollback(1)
    with pytest.raises(ValueError, match="a mask of 400 ids takes 13 words"):
        state.bitmask(np.zeros(12, np.int32))
    for said in ("%<>%(", "%<x>%(Jays", "%<\udcff", "%<x>%(Crows)%[zzz"):
        with pytest.raises(ValueError, match="is not the beginning"):
            constraint.begin(said)
    wrong: dict[str, Any] = {"shortest": 0, "free": 3, "fragments": 0, "longest": 4}
    for name, value in (wrong | {"form": "quotes", "join": "x"}).items():
        with pytest.raises(ValueError, match="Shape"):
            Shape(**{name: value})


def test_after_the_end_only_the_end_may_come() -> None:
    vocabulary = plain()
    state = Constraint(Grammar(vocabulary), [("Crows", CROWS)]).begin("%<x>%(Crows)%[Crows]%", 1)
    for _ in range(3):
        assert state.allowed().tolist() == [vocabulary.end]
        state.advance(vocabulary.end)
        assert state.done
