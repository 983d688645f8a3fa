"""The verbatim constraint, against quotes written out by brute force and against llguidance.

The correctness list of verbatim quotes, and where each of its items is held:

 1 brute force at every step             test_every_step_allows_what_brute_force_finds
 2 llguidance's masks                    test_the_masks_are_those_of_llguidance
 3 random answers parse and verify       test_random_answers_parse_and_their_quotes_verify
 4 any words in any tokens               test_any_words_can_be_written_in_any_tokens
 5 first, last, whole, short, repeated   test_constraint_texts
 6 never across two documents            test_constraint_texts
 7 marks and special tokens in a text    test_constraint_texts, and here the special tokens
 8 titles                                test_constraint_texts
 9 characters                            test_constraint_texts
10 tokens across marks                   test_constraint_limits
11 never an empty mask                   test_constraint_limits; lacking bytes: _texts
12 lengths and budgets                   test_constraint_limits
13 the order of fragments, start and end test_constraint_limits
14 forking                               test_forking_is_as_writing_anew
15 many at once                          test_many_states_side_by_side_are_as_one_alone
16 bytes of tokens, padding of logits    test_vocabulary, and the padding here
17 servers: probe, ignored, too long     draft/test_remote, test_lark
18 repair                                test_repair
19 time, as a ratio                      test_it_takes_less_time_than_a_general_engine

`python -m bench constraint` holds 1, 2, 3 and 19 with large vocabularies and many more steps.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
import tokenizers
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from verbatim_cases import (
    CROWS,
    DOCUMENTS,
    END,
    KINDS,
    MARKS,
    SHAPES,
    TINY,
    chosen,
    lines,
    may,
    plain,
    walk,
)
from verbatim_oracle import Oracle, escaped, in_lark, trained

from rookery.pages.text_folding import locate_quote
from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.quotes.verification import verify_quotes
from rookery.quotes.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Page


@pytest.fixture(scope="module")
def vocabularies() -> dict[str, str]:
    return {kind: trained(kind, lines(), 620) for kind in KINDS}


@pytest.fixture(scope="module")
def words(vocabularies: dict[str, str]) -> dict[str, Vocabulary]:
    return {kind: read_vocabulary(made, END) for kind, made in vocabularies.items()}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_allows_what_brute_force_finds(
    kind: str, name: str, words: dict[str, Vocabulary]
) -> None:
    shape, vocabulary, random = SHAPES[name], words[kind], Random(f"{kind} {name}")
    documents = TINY if shape.fragments > 1 else DOCUMENTS
    constraint, oracle = (
        VerbatimConstraint(VerbatimGrammar(vocabulary, shape), documents),
        Oracle(documents, shape),
    )
    for _ in range(3):
        begun = random.choice(["", "%<x>%(", "%<x", r"%<\>%(>%(Crows"])
        said = b"" if shape.form == "quote" else begun.encode()
        state = constraint.start_decoding(said.decode())
        while not state.done and len(said) < 120:
            assert state.find_allowed_ids().tolist() == oracle.allowed(said, vocabulary), said
            token = chosen(state, vocabulary, random)
            state = state.append_token(token)
            said += vocabulary.tokens[token] or b""
        assert not state.done or oracle.judge(said)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_masks_are_those_of_llguidance(kind: str, vocabularies: dict[str, str]) -> None:
    random = Random(kind)
    long = "".join(random.choices("ab]%é", k=700))  # many places for what is short
    vocabulary, documents = read_vocabulary(vocabularies[kind], END), (*DOCUMENTS[:4], ("L", long))
    tokenizer = LLTokenizer(vocabularies[kind], eos_token=vocabulary.end)
    for shape in (SHAPES["claim"], SHAPES["short quotes"]):
        grammar = in_lark(documents, shape)
        constraint = VerbatimConstraint(VerbatimGrammar(vocabulary, shape), documents)
        for title in ("", "", "", "", "L)%[", "L)%["):
            matcher, state = matching(tokenizer, grammar), constraint.start_decoding("%<x>%(")
            for byte in title.encode():
                state = state.append_token(vocabulary.tokens.index(bytes([byte])))
                assert matcher.consume_token(vocabulary.tokens.index(bytes([byte])))
            mask = allocate_token_bitmask(1, vocabulary.width)
            while not state.done:
                fill_next_token_bitmask(matcher, mask)
                bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")
                ids = state.find_allowed_ids().tolist()
                assert not matcher.is_error(), matcher.get_error()
                assert np.flatnonzero(bits).tolist() == ids, state.locate_quotes()
                token = random.choice(ids)
                state = state.append_token(token)
                assert state.done or matcher.consume_token(token)


def matching(tokenizer: LLTokenizer, grammar: str) -> LLMatcher:
    """llguidance's engine at the beginning of what this grammar allows."""
    fuel = 2 * 10**9
    limits = LLParserLimits(initial_lexer_fuel=fuel, step_lexer_fuel=fuel, max_lexer_states=10**7)
    source = LLMatcher.grammar_from_lark(grammar)
    return LLMatcher(tokenizer, source, limits=limits, log_level=0)


def find_whole(page: Page, start: int, end: int) -> str:
    """The words at the first place where they cut no word, else the whole words that hold them."""
    words = page.text[start:end]
    starts = [at for at in range(len(page.text)) if page.text.startswith(words, at)]
    whole = [page.quote_whole_words(at, at + len(words)).text for at in starts]
    folded = locate_quote(page, words)
    return words if words in whole else folded.text if folded else whole[0]


@pytest.mark.parametrize("name", ["claim", "short quotes", "answer"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_answers_parse_and_their_quotes_verify(
    kind: str, name: str, words: dict[str, Vocabulary]
) -> None:
    pages = [
        Page(f"https://{n}.example/", title, text) for n, (title, text) in enumerate(DOCUMENTS)
    ]
    kept = {page.digest: page for page in pages}
    constraint, random = (
        VerbatimConstraint(VerbatimGrammar(words[kind], SHAPES[name]), DOCUMENTS),
        Random(kind),
    )
    for _ in range(25):
        state = constraint.start_decoding(budget=random.randint(60, 120))
        said = walk(state, words[kind], random).decode()
        answer = parse_inline(said, pages)
        verdicts = verify_quotes(answer, lambda quote: kept.get(quote.digest))
        assert answer.claims
        assert name == "answer" or len(answer.quotes) == len(answer.claims) == 1
        assert all(claim.start < claim.end for claim in answer.claims)
        assert all(verdict.verbatim for verdict in verdicts)
        quotes = {(quote.title, quote.text) for quote in answer.quotes}
        assert all(SHAPES[name].shortest <= len(text) for _, text in quotes)
        assert not any("]%" in text for _, text in quotes)
        spans = [span for (span,) in constraint.start_decoding(said).locate_quotes()]
        assert {(pages[n].title, find_whole(pages[n], start, end)) for n, start, end in spans} == (
            quotes
        )


def test_sources_are_what_the_parser_finds() -> None:
    documents = [("A", "To be or not to be or not."), ("B", "Or not to be, to be or not.")]
    pages = [Page(f"https://{title}.example/", title, text) for title, text in documents]
    said = "%<x>%(A)%[be or not]% y %<z>%(B)%[ to be]%%(A)%[or not]%"
    state = VerbatimConstraint(
        VerbatimGrammar(plain(), AnswerShape(form="answer")), documents
    ).start_decoding(said)
    found = [(documents[n][0], start, end) for ((n, start, end),) in state.locate_quotes()]
    assert found == [("A", 3, 12), ("B", 6, 12), ("A", 6, 12)]
    quotes = parse_inline(said, pages).quotes
    assert found == [(quote.title, quote.start, quote.end) for quote in quotes]


@pytest.mark.parametrize("kind", KINDS)
def test_any_words_can_be_written_in_any_tokens(
    kind: str, vocabularies: dict[str, str], words: dict[str, Vocabulary]
) -> None:
    grammar, random = VerbatimGrammar(words[kind], AnswerShape(shortest=1)), Random(kind)
    tokenizer, written = tokenizers.Tokenizer.from_str(vocabularies[kind]), 0
    tokenizer.encode_special_tokens = True  # the one in a document is text
    for title, text in DOCUMENTS[:4]:
        quotes = set(Oracle([], grammar.shape).quotes(text))
        constraint = VerbatimConstraint(grammar, [(title, text)])
        for _ in range(15):
            start, end = sorted(random.sample(range(len(text) + 1), 2))
            said = f"%<A claim.>%({escaped(title)})%[{text[start:end]}]%"
            possible = text[start:end] in quotes
            for ids in (tokenizer.encode(said).ids, cut_at_random(said, words[kind], random)):
                if possible:
                    state = constraint.start_decoding()
                    for token in ids:
                        state = state.append_token(token)
                    assert words[kind].end in state.find_allowed_ids()
                    ((place,),) = state.locate_quotes()
                    assert text[place.start : place.end] == text[start:end]
            assert possible or not may(grammar, [(title, text)], said)
            written += possible
    assert written > 20


def cut_at_random(text: str, vocabulary: Vocabulary, random: Random) -> list[int]:
    ids, rest = [], text.encode()
    by_bytes = {token: n for n, token in enumerate(vocabulary.tokens) if token}
    while rest:
        size = random.choice([size for size in range(1, 30) if rest[:size] in by_bytes])
        ids.append(by_bytes[rest[:size]])
        rest = rest[size:]
    return ids


def test_only_ordinary_bytes_spell_a_special_token(words: dict[str, Vocabulary]) -> None:
    for vocabulary in words.values():
        state = VerbatimConstraint(VerbatimGrammar(vocabulary), [("T", MARKS)]).start_decoding(
            "%<x>%(T)%[gnore "
        )
        assert vocabulary.end not in state.find_allowed_ids()
        for byte in b"<|endoftext|>":
            state = state.append_token(vocabulary.tokens.index(bytes([byte])))
        assert vocabulary.end not in state.find_allowed_ids()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_ends_within_its_budget(kind: str, words: dict[str, Vocabulary]) -> None:
    constraint, random = VerbatimConstraint(VerbatimGrammar(words[kind]), DOCUMENTS), Random(kind)
    for budget in [*range(1, 40)] * 2:
        try:
            state = constraint.start_decoding(budget=budget)
        except ValueError:
            assert budget < 25
            continue
        for _ in range(budget):
            if not state.done:
                state = state.append_token(random.choice(state.find_allowed_ids().tolist()))
        assert state.done


@pytest.mark.parametrize("name", SHAPES)
def test_forking_is_as_writing_anew(name: str) -> None:
    vocabulary, random = plain(b"ow", b"ev", b"[...]"), Random(name)
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary, SHAPES[name]), DOCUMENTS)
    states, said = [constraint.start_decoding(budget=70)], list[int]()
    for _ in range(200):
        if states[-1].done or (said and random.random() < 0.3):
            taken = random.randint(1, len(said))
            del said[-taken:], states[-taken:]
        said.append(random.choice(states[-1].find_allowed_ids().tolist()))
        state = states[-1].append_token(said[-1])
        states.append(state)
        fresh = constraint.start_decoding(budget=70)
        for token in said:
            fresh = fresh.append_token(token)
        assert fresh.find_allowed_ids().tolist() == state.find_allowed_ids().tolist()
        assert (fresh.locate_quotes(), fresh.done) == (state.locate_quotes(), state.done)


def test_many_states_side_by_side_are_as_one_alone(words: dict[str, Vocabulary]) -> None:
    vocabulary = words["gpt2"]
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary), DOCUMENTS)
    alone = [walk(constraint.start_decoding(budget=80), vocabulary, Random(n)) for n in range(8)]
    states, randoms = (
        [constraint.start_decoding(budget=80) for _ in alone],
        [Random(n) for n in range(8)],
    )
    said: list[list[int]] = [[] for _ in alone]
    while not all(state.done for state in states):
        for number, state in enumerate(states):
            if not state.done:
                said[number].append(chosen(state, vocabulary, randoms[number]))
                states[number] = state.append_token(said[number][-1])
    assert [vocabulary.decode(ids) for ids in said] == alone


def test_a_policy_asks_by_the_tokens_so_far() -> None:
    vocabulary, random = plain(), Random(5)
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary), DOCUMENTS)
    allow: Callable[[Sequence[int]], Any] = constraint.make_token_filter(budget=60)
    for _ in range(4):
        state, said = constraint.start_decoding(budget=60), list[int]()
        while not state.done:
            assert allow(said).tolist() == state.find_allowed_ids().tolist()
            said.append(chosen(state, vocabulary, random))
            state = state.append_token(said[-1])
    fresh = constraint.make_token_filter(budget=60)
    assert fresh(said).tolist() == [vocabulary.end]
    with pytest.raises(ValueError, match="may not come next"):
        fresh([vocabulary.end])


def test_wrong_use_is_said_in_words() -> None:
    vocabulary = plain()
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary), [("Crows", CROWS)])
    state = constraint.start_decoding()
    with pytest.raises(ValueError, match=r"token 97 \(b'a'\) may not come next"):
        state.append_token(97)
    with pytest.raises(ValueError, match=r"token 399 \(no token\)"):
        state.append_token(399)
    with pytest.raises(ValueError, match=r"token -1 \(no token\)"):
        state.append_token(-1)
    for said in ("%<>%(", "%<x>%(Jays", "%<\udcff", "%<x>%(Crows)%[zzz"):
        with pytest.raises(ValueError, match="is not the beginning"):
            constraint.start_decoding(said)
    wrong: dict[str, Any] = {"shortest": 0, "free": 3, "fragments": 0, "longest": 4}
    for name, value in (wrong | {"form": "quotes", "join": "x"}).items():
        with pytest.raises(ValueError, match="Shape"):
            AnswerShape(**{name: value})


def test_after_the_end_only_the_end_may_come() -> None:
    vocabulary = plain()
    state = VerbatimConstraint(VerbatimGrammar(vocabulary), [("Crows", CROWS)]).start_decoding(
        "%<x>%(Crows)%[Crows]%", 1
    )
    for _ in range(3):
        assert state.find_allowed_ids().tolist() == [vocabulary.end]
        state = state.append_token(vocabulary.end)
        assert state.done


def test_ids_that_only_pad_the_logits_are_never_allowed() -> None:
    vocabulary = plain()
    state = VerbatimConstraint(VerbatimGrammar(vocabulary), DOCUMENTS).start_decoding("%<x")
    assert vocabulary.width > len(vocabulary.tokens)
    assert state.find_allowed_ids()[-1] < len(vocabulary.tokens)


def test_what_a_policy_asked_is_remembered_in_little_room() -> None:
    letters = [bytes([byte]) for byte in b"abcdefghijklmnop"]
    vocabulary = plain(*(a + b + c for a in letters for b in letters for c in letters))
    grammar, random = VerbatimGrammar(vocabulary, AnswerShape(form="answer", free=16)), Random(2)
    samples = [list[int]() for _ in range(12)]
    allow, written = VerbatimConstraint(grammar, [("T", CROWS)]).make_token_filter(budget=300), 0
    tracemalloc.start()
    for _ in range(300):
        for ids in samples:
            if vocabulary.end not in ids:
                ids.append(int(random.choice(allow(ids))))
                written += 1
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written > 200
    assert kept / written < 3000  # bytes, though what may be written often takes 16,000


def test_it_takes_less_time_than_a_general_engine() -> None:
    random = Random(1)
    stems = ["".join(random.choices("abcdefghiklmnoprstuvwy", k=2 + n % 6)) for n in range(800)]
    text = " ".join(random.choices(stems, k=2500))
    made = trained("gpt2", [*lines(), text], 3000)
    vocabulary, engine = read_vocabulary(made, END), tokenizers.Tokenizer.from_str(made)
    grammar, tokenizer = VerbatimGrammar(vocabulary), LLTokenizer(made, eos_token=vocabulary.end)
    starts = [random.randrange(len(text) - 100) for _ in range(12)]
    said = [engine.encode(f"T)%[{text[start : start + 80]}]%").ids for start in starts]
    mask = allocate_token_bitmask(1, vocabulary.width)

    def run_constraint() -> Iterator[None]:
        constraint = VerbatimConstraint(grammar, [("T", text)])
        yield
        for ids in said:
            state = constraint.start_decoding("%<x>%(")
            for token in ids:
                state.find_allowed_ids()
                state = state.append_token(token)
        yield

    def run_engine() -> Iterator[None]:
        matcher = matching(tokenizer, in_lark([("T", text)], grammar.shape))
        yield
        for ids in said:
            copy = matcher.deep_copy()
            for token in ids:
                fill_next_token_bitmask(copy, mask)
                assert copy.consume_token(token)
        yield

    rounds = [[seconds(run_constraint()), seconds(run_engine())] for _ in range(3)]
    (our_setup, our_steps), (their_setup, their_steps) = np.min(rounds, axis=0)
    assert our_setup < their_setup / 3
    assert our_steps < their_steps


def seconds(parts: Iterator[None]) -> list[float]:
    """CPU time of this thread in each part."""
    taken = [time.thread_time()]
    taken += [time.thread_time() for _ in parts]
    return [after - before for before, after in pairwise(taken)]
