"""The verbatim constraint: documents, titles, characters and vocabularies of every kind."""

import pickle
from random import Random
from typing import Any

import pytest
from verbatim_cases import CROWS, END, may, plain, tokens
from verbatim_oracle import escaped

from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import (
    IndexedDocument,
    VerbatimConstraint,
    VerbatimGrammar,
    index_document,
)
from rookery.quotes.vocabulary import Vocabulary
from rookery.records import Page


def test_a_quote_may_begin_and_end_anywhere_in_its_document() -> None:
    grammar, text = VerbatimGrammar(plain()), "naïve crows 日"
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            said = f"%<x>%(Crows)%[{text[start:end]}]%"
            assert may(grammar, [("Crows", text)], said) == (end - start >= 5)


def test_documents_that_cannot_be_quoted_are_passed_over() -> None:
    documents = [("Void", ""), ("Short", "abcd"), ("Long", "abcde"), ("Long", "abcde"), ("V", "\\")]
    state = VerbatimConstraint(VerbatimGrammar(plain()), documents).start_decoding("%<x>%(")
    assert tokens(state, plain()) == {b"L"}
    whole = VerbatimConstraint(VerbatimGrammar(plain()), documents).start_decoding(
        "%<x>%(Long)%[abcde]%"
    )
    assert whole.locate_quotes() == (((2, 0, 5),),)
    with pytest.raises(ValueError, match="none of the 2 documents has 5 characters"):
        VerbatimConstraint(VerbatimGrammar(plain()), documents[:2]).start_decoding()
    with pytest.raises(ValueError, match="none of the 0 documents"):
        VerbatimConstraint(VerbatimGrammar(plain()), []).start_decoding()


def test_a_run_of_one_letter_is_its_first_occurrence() -> None:
    constraint = VerbatimConstraint(VerbatimGrammar(plain(b"aa", b"aaa")), [("R", "b" + "a" * 50)])
    state = constraint.start_decoding("%<x>%(R)%[" + "a" * 49)
    assert state.locate_quotes() == (((0, 1, 50),),)
    assert tokens(state, plain(b"aa", b"aaa")) == {b"a", b"]"}


@pytest.mark.parametrize("titles", [("A", "A"), ("A", "B")])
@pytest.mark.parametrize("form", ["claim", "quote"])
def test_no_quote_runs_from_one_document_into_the_next(form: Any, titles: tuple[str, str]) -> None:
    documents = list(zip(titles, ["The crows are", " clever birds"], strict=True))
    grammar = VerbatimGrammar(plain(b"e c", b"are clever"), AnswerShape(form=form))
    lead, close = ("%<x>%(A)%[", "]%") if form == "claim" else ("", "")
    assert may(grammar, documents, f"{lead}crows are{close}")
    assert may(grammar, documents, f"{lead} clever{close}") == (form == "quote" or titles[1] == "A")
    assert not may(grammar, documents, f"{lead}are clever{close}")
    assert not may(grammar, documents, f"{lead}are c{close}")


@pytest.mark.parametrize(
    "words", "] ; )%[ ; >%( ; %< ; [...] ; ::= ; %ignore ; <|endoftext|>".split(" ; ")
)
def test_marks_within_a_text_are_text(words: str) -> None:
    grammar, documents = VerbatimGrammar(plain()), [("T", f"before {words} after")]
    for quote in (f"before {words}", f"{words} after", f"before {words} after"):
        said = f"%<x>%(T)%[{quote}]%"
        assert may(grammar, documents, said)
        page = Page("https://t.example/", *documents[0])
        assert parse_inline(said, [page]).quotes[0].text == quote


def test_a_quote_does_not_hold_its_own_end() -> None:
    grammar, documents = (
        VerbatimGrammar(plain()),
        [("T", "before]%after, C:\\dir\\]%x and end\\\\")],
    )
    for quote in ("before", "before]", "%after", "efore]", "C:\\di", "%x and end"):
        assert may(grammar, documents, f"%<x>%(T)%[{quote}]%")
    for quote in ("before]%", "before]%after", "C:\\dir\\", "x and end\\", "x and end\\\\"):
        assert not may(grammar, documents, f"%<x>%(T)%[{quote}]%")
    constraint = VerbatimConstraint(VerbatimGrammar(plain(b"dir\\", b"end\\")), documents)
    state = constraint.start_decoding("%<x>%(T)%[x and ")
    assert tokens(state, plain(b"dir\\", b"end\\")) == {b"e", b"]"}


def test_a_title_leads_to_its_own_document_only() -> None:
    names = ["Crows", "Crows (birds)", "Crows)", "a)%[b", "a)%[", "%[", "\\", "a\\)%[b", "", ")%"]
    documents = [(name, f"words of number {n}.") for n, name in enumerate(names)]
    grammar = VerbatimGrammar(plain(b"s)%[wor", b"s)", b" (b", b"\\\\"))
    for n, name in enumerate(names):
        for other in range(len(names)):
            said = f"%<x>%({escaped(name)})%[number {other}]%"
            assert may(grammar, documents, said) == (n == other)
    assert not may(grammar, documents, "%<x>%(Crow)%[number 0]%")


def test_documents_of_one_title_are_all_quoted_under_it() -> None:
    documents = [("Crows", "They are clever."), ("Jays", "They hide nuts."), ("Crows", "They fly.")]
    constraint = VerbatimConstraint(VerbatimGrammar(plain()), documents)
    state = constraint.start_decoding("%<x>%(Crows)%[They ")
    assert tokens(state, plain()) == {b"a", b"f", b"]"}
    assert constraint.start_decoding("%<x>%(Crows)%[ fly.").locate_quotes() == (((2, 4, 9),),)
    assert state.locate_quotes() == (((0, 0, 5),),)


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
    constraint = VerbatimConstraint(
        VerbatimGrammar(vocabulary, AnswerShape(shortest=1)), [("T", text)]
    )
    state, data = constraint.start_decoding("%<x>%(T)%["), text.encode()
    for size in range(1, len(data) + 1):
        state = state.append_token(vocabulary.tokens.index(data[size - 1 : size]))
        whole = data[:size].decode(errors="ignore").encode() == data[:size]
        assert (b"]" in tokens(state, vocabulary)) == whole
    assert tokens(state, vocabulary) == {b"]"}
    assert state.locate_quotes() == (((0, 0, len(text)),),)


def test_half_of_a_surrogate_pair_is_not_quoted() -> None:
    grammar, documents = (
        VerbatimGrammar(plain()),
        [("T", "before\ud83dafter\udcff."), ("\udcfe", "words")],
    )
    assert may(grammar, documents, "%<x>%(T)%[before]%")
    assert may(grammar, documents, "%<x>%(T)%[after]%")
    state = VerbatimConstraint(grammar, documents).start_decoding("%<x>%(T)%[after")
    assert tokens(state, plain()) == {b"]"}
    assert state.locate_quotes() == (((0, 7, 12),),)
    assert tokens(VerbatimConstraint(grammar, documents).start_decoding("%<x>%("), plain()) == {
        b"T"
    }


def test_what_cannot_be_spelt_byte_by_byte_is_not_quoted() -> None:
    vocabulary = plain("é".encode(), "naïve".encode(), without="é日")
    documents = [("T", "naïve crows, 日 and jays: évier"), ("日", "crows and jays")]
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary), documents)
    assert tokens(constraint.start_decoding("%<x>%("), vocabulary) == {b"T"}
    for said in ("ve crow", " and ", "jays:"):
        constraint.start_decoding(f"%<x>%(T)%[{said}")
    for said in ("na", "日", "vier", "s: "):
        with pytest.raises(ValueError, match="is not the beginning"):
            constraint.start_decoding(f"%<x>%(T)%[{said}")
    single = [bytes([byte]) for byte in range(128)]
    vocabulary = Vocabulary((*single, b"\xc3", "é".encode(), None), 130, 131)
    state = VerbatimConstraint(VerbatimGrammar(vocabulary), documents).start_decoding("%<x")
    assert tokens(state, vocabulary) == {*single, "é".encode()}


def test_a_vocabulary_that_cannot_spell_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no tokens that spell '%'"):
        VerbatimGrammar(plain(without="%"))
    with pytest.raises(ValueError, match="no tokens that spell '━'"):
        VerbatimGrammar(plain(without="━"), AnswerShape(form="quote", fragments=2, join="━"))
    assert (
        may(
            VerbatimGrammar(plain(without="%"), AnswerShape(form="quote")), [("T", "5 % of")], "5 %"
        )
        is False
    )
    assert may(
        VerbatimGrammar(plain(without="%"), AnswerShape(form="quote")),
        [("T", "5 % of it")],
        " of it",
    )


def test_a_document_is_kept_for_other_questions() -> None:
    grammar, shape = VerbatimGrammar(plain()), AnswerShape(shortest=4)
    document = pickle.loads(pickle.dumps(index_document(grammar, "Crows", CROWS)))
    assert isinstance(document, IndexedDocument)
    again = VerbatimGrammar(plain())
    state = VerbatimConstraint(again, [("Jays", "Jays hide nuts."), document]).start_decoding(
        "%<x>%(Crows)%[are c"
    )
    assert state.locate_quotes() == (((1, 6, 11),),)
    for other in (VerbatimGrammar(plain(b"ab")), VerbatimGrammar(plain(), shape)):
        with pytest.raises(ValueError, match="document 0 was indexed for another"):
            VerbatimConstraint(other, [document])


def test_documents_that_say_the_same_do_not_multiply() -> None:
    constraint = VerbatimConstraint(
        VerbatimGrammar(plain(), AnswerShape(form="answer")), [("Crows", CROWS)] * 3
    )
    state = constraint.start_decoding("%<x>" + "%(Crows)%[Crows]%" * 6)
    assert state.locate_quotes() == (((0, 0, 5),),) * 6
    assert len(state._threads) == 1


def test_a_letter_is_written_as_the_document_writes_it() -> None:
    grammar, apart, in_one = VerbatimGrammar(plain()), "cafe\u0301 noir", "caf\u00e9 noir"
    for text, other in ((apart, in_one), (in_one, apart)):
        assert may(grammar, [("T", text)], f"%<x>%(T)%[{text}]%")
        assert not may(grammar, [("T", text)], f"%<x>%(T)%[{other}]%")


def test_a_document_of_control_characters_is_quoted_as_any_other() -> None:
    grammar, text = VerbatimGrammar(plain()), "\x00\x01\x02\x07\x1b\x7f\x80"
    state = VerbatimConstraint(grammar, [(text, text)]).start_decoding(f"%<x>%({text})%[{text}]%")
    assert state.locate_quotes() == (((0, 0, 7),),)
    assert grammar.vocabulary.end in state.find_allowed_ids()


def test_a_title_may_be_empty_and_one_that_cannot_be_spelt_names_nothing() -> None:
    grammar = VerbatimGrammar(plain(without="é"))
    assert may(grammar, [("", "some words")], "%<x>%()%[words]%")
    state = VerbatimConstraint(grammar, [("é", "some words"), ("", "others")]).start_decoding(
        "%<x>%("
    )
    assert tokens(state, grammar.vocabulary) == {b")"}
    with pytest.raises(ValueError, match=r"can be quoted under its title: give others"):
        VerbatimConstraint(grammar, [("é", "some words")])


def test_in_a_long_text_all_is_allowed_that_stands_there() -> None:
    text = "xx" + "".join(Random(2).choices("ab é.", k=900))
    data, accent = text.encode(), "é".encode()
    vocabulary = plain(
        b"ab", b"a ", b" a", b". .", b"bab", accent + b"a", accent[1:] + b" ", b"b" + accent[:1]
    )
    shape = AnswerShape(form="quote", shortest=1, fragments=2, join="━")
    constraint = VerbatimConstraint(VerbatimGrammar(vocabulary, shape), [("", text)])
    known = [token for token in vocabulary.tokens if token]
    fresh = [token for token in known if token[0] & 0xC0 != 0x80]
    assert tokens(constraint.start_decoding(), vocabulary) == {t for t in fresh if t in data}
    for said in ("a", "b", "é", "ab", " a", "a.b"):
        words, end = said.encode(), data.index(said.encode()) + len(said.encode())
        assert data.count(words) > 5
        more = {token for token in known if words + token in data}
        state = constraint.start_decoding(said)
        assert tokens(state, vocabulary) == more | {END.encode(), "━".encode()[:1]}
        state = constraint.start_decoding(f"{said}━")
        assert tokens(state, vocabulary) == {token for token in fresh if token in data[end:]}


def test_one_place_of_many_is_enough_that_is_near_an_end() -> None:
    grammar, text = VerbatimGrammar(plain()), "abcdefg " * 120 + "abcd" + "\\" * 6 + "g"
    constraint, said = VerbatimConstraint(grammar, [("T", text)]), "%<x>%(T)%[a"
    for budget in (7, 8, 500):  # from the last of them it takes 13
        assert tokens(constraint.start_decoding(said, budget), grammar.vocabulary) == {b"b"}
    with pytest.raises(ValueError, match="6 tokens are too few: from here an answer may take 7"):
        constraint.start_decoding(said, 6)
