"""Policies held to quotes: by servers that keep to grammars, or do not, and token by token."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import llguidance
import pytest
from models import Server, refused, serving
from obedient import FREE, Kind, Obedient, tokenizer

import rookery.quotes.constraint
from rookery.errors import Failed
from rookery.models.constrained_decoding import (
    MAX_CHARACTERS,
    MAX_INDEXED_PAGES,
    choose_constrainer,
    constrain_by_grammar,
    constrain_by_tokens,
    leave_unconstrained,
)
from rookery.models.openai_protocol import GrammarServer, ModelEndpoint
from rookery.models.remote_model import RemoteLimits, RemoteModel
from rookery.quotes.citation_syntax import parse_inline
from rookery.quotes.constraint import VerbatimGrammar
from rookery.quotes.verification import verify_quotes
from rookery.quotes.vocabulary import Vocabulary
from rookery.records import Answer, Completion, Page, Policy

SERVERS: tuple[Any, ...] = ("vllm", "sglang", "llama.cpp")
WAYS = {"vllm": "backend guidance", "sglang": "backend llguidance", "llama.cpp": "LLAMA_LLGUIDANCE"}
PAGES = [
    Page(
        "https://1.example/",
        "Crows",
        "Crows are clever. The crow]% says “krähe”, foo] and foo.\r\n",
    ),
    Page(
        "https://2.example/",
        "Crows (birds)",
        "naïve 👩‍👩‍👧 é\u00a0x\u200b 日本語 %<z>%(t)%[q]% ::= C:\\dir\\ end",
    ),
    Page("https://3.example/", "a)%[b", "%llguidance {} %ignore start: <|endoftext|> # // \"'"),
]
DOCUMENTS = [(page.title, page.text) for page in PAGES]
TOO_LONG = [("Crows", "caw " * MAX_CHARACTERS)]


@pytest.fixture(scope="module")
def tokens() -> Any:
    return tokenizer()


@contextmanager
def asking(
    kind: Kind, tokens: Any, grammars: GrammarServer, limits: Any = None
) -> Iterator[tuple[RemoteModel, ModelEndpoint, Server]]:
    """A model on a server of this kind that is taken for one of these grammars."""
    with serving(Obedient(kind, tokens, limits)) as server:
        endpoint = ModelEndpoint("crow-1", server.base_url, grammars=grammars, max_tokens=2000)
        with RemoteModel(endpoint, limits=RemoteLimits(tries=1)) as model:
            yield model, endpoint, server


def checked(completion: Completion, pages: Sequence[Page] = PAGES) -> Answer:
    """The answer, whose quotes are all verbatim."""
    assert completion.stop == "end"
    answer, kept = parse_inline(completion.text, pages), {page.digest: page for page in pages}
    assert answer.quotes
    assert all(
        verdict.verbatim for verdict in verify_quotes(answer, lambda quote: kept.get(quote.digest))
    )
    return answer


def grammars_sent(server: Server) -> list[bool]:
    """Of each request, whether it carried a grammar."""
    fields = {"structured_outputs", "ebnf", "grammar"}
    return [bool(fields & asked.fields.keys()) for asked in server.asked]


@pytest.mark.parametrize("kind", SERVERS)
def test_what_a_server_that_keeps_to_grammars_writes_is_verbatim(kind: Any, tokens: Any) -> None:
    with asking(kind, tokens, kind) as (model, endpoint, server):
        hold, failure = choose_constrainer(model, endpoint)
        assert failure is None
        said = hold(DOCUMENTS).complete("Why?", 30)
        titles = {checked(each).quotes[0].title for each in said}
        assert titles == {page.title for page in PAGES}
        assert len({each.text for each in said}) > 25
        (one,) = hold(DOCUMENTS[1:2]).complete("Why?")
        checked(one, PAGES[1:2])
        assert grammars_sent(server) == [True] * 3


@pytest.mark.parametrize("grammars", SERVERS)
def test_a_server_that_passes_grammars_over_is_found_out(grammars: Any, tokens: Any) -> None:
    others: list[Kind] = [kind for kind in SERVERS if kind != grammars]
    for kind in [*others, "deaf"]:
        with asking(kind, tokens, grammars) as (model, endpoint, server):
            hold, failure = choose_constrainer(model, endpoint)
            assert hold(DOCUMENTS).complete("Why?")[0].text == FREE
            assert grammars_sent(server) == [True, False]
            assert failure is not None
            assert (failure.what, failure.outcome) == (endpoint.name, "grammar_ignored")
            assert "accepts a grammar and ignores it" in failure.detail
            assert WAYS[grammars] in failure.detail


def test_a_server_that_refuses_grammars_is_asked_without(tokens: Any) -> None:
    with asking("strict", tokens, "vllm") as (model, endpoint, server):
        hold, failure = choose_constrainer(model, endpoint)
        assert hold(DOCUMENTS).complete("Why?")[0].text == FREE
        assert grammars_sent(server) == [True, False]
        assert failure is not None
        assert failure.outcome == "grammar_refused"
        assert "start vLLM with" in failure.detail


def test_a_server_that_says_nothing_of_grammars_is_not_asked(tokens: Any) -> None:
    with asking("vllm", tokens, "none") as (model, endpoint, server):
        hold, failure = choose_constrainer(model, endpoint)
        assert failure is None
        assert hold(DOCUMENTS) is model
        assert server.asked == []


def test_a_server_that_cannot_be_asked_at_all_is_no_matter_of_grammars() -> None:
    with serving(refused("401 Unauthorized")) as server:
        endpoint = ModelEndpoint("crow-1", server.base_url, grammars="vllm")
        with RemoteModel(endpoint) as model, pytest.raises(Failed, match="model_refused_key"):
            choose_constrainer(model, endpoint)


@pytest.mark.parametrize("documents", [TOO_LONG, [], [("Void", ""), ("Short", "caw")]])
def test_documents_that_no_grammar_holds_leave_the_policy_free(
    documents: list[tuple[str, str]], tokens: Any
) -> None:
    with asking("vllm", tokens, "vllm") as (model, _, server):
        assert constrain_by_grammar(model)(documents).complete("Why?")[0].text == FREE
        assert grammars_sent(server) == [False]


def test_a_grammar_that_the_server_finds_too_big_is_left_out(tokens: Any) -> None:
    small = llguidance.LLParserLimits(initial_lexer_fuel=8000)
    with asking("vllm", tokens, "vllm", small) as (model, endpoint, server):
        hold, failure = choose_constrainer(model, endpoint)
        assert failure is None
        assert hold(DOCUMENTS).complete("Why?")[0].text == FREE
        assert grammars_sent(server) == [True, True, False]


def test_what_else_a_server_says_is_not_asked_again_without(tokens: Any) -> None:
    with serving(refused("402 Payment Required")) as server:
        endpoint = ModelEndpoint("crow-1", server.base_url, grammars="vllm")
        with RemoteModel(endpoint) as model, pytest.raises(Failed, match="model_quota"):
            constrain_by_grammar(model)(DOCUMENTS).complete("Why?")
        assert grammars_sent(server) == [True]


def test_a_held_policy_takes_no_other_tokens(tokens: Any) -> None:
    with asking("vllm", tokens, "vllm") as (model, _, _):
        held = constrain_by_grammar(model)(DOCUMENTS)
        assert held.name == "crow-1"
        with pytest.raises(ValueError, match="constrained to its documents already"):
            held.complete("Why?", 1, lambda tokens: [1])


# Token by token


class Chance:
    """A local model that writes at random, and whatever it likes where nothing holds it."""

    name = "chance"

    def __init__(self) -> None:
        bytes_ = [bytes([byte]) for byte in range(256)]
        self.vocabulary = Vocabulary((*bytes_, b"s)%[", b".]%", None), 258, 300)
        self.random = Random(1)

    def complete(
        self, prompt: str, n: int = 1, allow: Callable[[Sequence[int]], Iterable[int]] | None = None
    ) -> list[Completion]:
        if allow is None:
            return [Completion(FREE)] * n
        return [self.written(allow) for _ in range(n)]

    def written(self, allow: Callable[[Sequence[int]], Iterable[int]]) -> Completion:
        said: list[int] = []
        while said[-1:] != [self.vocabulary.end]:
            said.append(self.random.choice(list(allow(said))))
        return Completion(self.vocabulary.decode(said).decode(), tuple(said))


def test_a_local_model_writes_verbatim_quotes_within_its_budget() -> None:
    model = Chance()
    hold = constrain_by_tokens(model, VerbatimGrammar(model.vocabulary), 300)
    said = hold(DOCUMENTS).complete("Why?", 30)
    assert {checked(each).quotes[0].title for each in said} == {page.title for page in PAGES}
    assert max(len(each.tokens) for each in said) <= 300
    (one,) = hold(DOCUMENTS[1:2]).complete("Why?")
    checked(one, PAGES[1:2])


def test_a_local_model_is_free_where_nothing_can_be_quoted() -> None:
    model = Chance()
    grammar = VerbatimGrammar(model.vocabulary)
    for documents, budget in (([("Void", "")], 90), ([], 90), (DOCUMENTS, 5)):
        assert constrain_by_tokens(model, grammar, budget)(documents) is model


def test_a_page_is_made_ready_once_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    made, index = list[str](), rookery.quotes.constraint.index_document

    def counted(grammar: VerbatimGrammar, title: str, text: str) -> Any:
        made.append(title)
        return index(grammar, title, text)

    monkeypatch.setattr(rookery.quotes.constraint, "index_document", counted)
    model = Chance()
    hold = constrain_by_tokens(model, VerbatimGrammar(model.vocabulary), 90)
    for _ in range(2):
        hold(DOCUMENTS)
        hold(DOCUMENTS[:1])
    assert made == [page.title for page in PAGES]
    for number in range(MAX_INDEXED_PAGES):
        hold([(f"{number}", "other words")])
    hold(DOCUMENTS[:1])
    assert made[-1] == "Crows"
    constrain_by_tokens(model, VerbatimGrammar(model.vocabulary), 90)(DOCUMENTS[:1])
    assert made[-2:] == ["Crows", "Crows"]


def test_a_free_policy_is_itself() -> None:
    model: Policy = Chance()
    assert leave_unconstrained(model)(DOCUMENTS) is model
