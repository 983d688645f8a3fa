"""How a policy is held to quotes that stand word for word in the documents of its prompt.

It knows neither where documents come from nor what is made of an answer. Whoever reads the answer
checks its quotes all the same: a server may say that it keeps to a grammar, and not do so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from rookery.cite.lark import lark
from rookery.cite.shape import Shape
from rookery.draft.endpoint import Endpoint
from rookery.draft.remote import Allow, Model, probe_grammar
from rookery.records import Completion, Failed, Failure, Policy

if TYPE_CHECKING:
    from rookery.cite.grammar import Grammar

INDEXED = 64
"""pages that are kept ready for quoting; each takes about 45 bytes for a byte of its text"""

QUOTING = Shape(shortest=30)
"""for a model on this machine: a quote of about three words or more. As a grammar it would end some
texts in the middle of a quote: servers do not see that too few characters are left."""

Hold = Callable[[Sequence[tuple[str, str]]], Policy]
"""From the documents (title, text) of a prompt to a policy that can only write claims with quotes
of them; or, where nothing holds it to these, to the policy as it is."""


def free(policy: Policy) -> Hold:
    """The policy as it is, whatever the documents."""
    return lambda documents: policy


def by_grammar(model: Model, shape: Shape = Shape()) -> Hold:
    """Held by the server, which is sent a grammar of what may be written.

    Not held are documents that are too long for that or that nothing can be quoted from, and what
    the server refuses, which is asked for again without a grammar.
    """

    def hold(documents: Sequence[tuple[str, str]]) -> Policy:
        try:
            grammar = lark(documents, shape)
        except ValueError:
            return model

        def complete(prompt: str, n: int) -> Sequence[Completion]:
            try:
                return model.complete(prompt, n, grammar=grammar)
            except Failed as failed:
                if failed.failure.outcome != "model_refused":
                    raise
                return model.complete(prompt, n)

        return _Held(model.name, complete)

    return hold


def by_tokens(policy: Policy, grammar: Grammar, budget: int) -> Hold:
    """Held token by token, for a policy whose ids are those of the grammar's vocabulary.

    `budget` is how many tokens an answer has, its end included; one is ended in time. Not held are
    documents that nothing can be quoted from within it. Pages are made ready for quoting once.
    """
    from rookery.cite.constraint import Constraint
    from rookery.cite.matches import index

    ready = lru_cache(INDEXED)(partial(index, grammar))

    def hold(documents: Sequence[tuple[str, str]]) -> Policy:
        try:
            constraint = Constraint(grammar, [ready(*document) for document in documents])
            constraint.begin(budget=budget)
        except ValueError:
            return policy
        return _Held(
            policy.name,
            lambda prompt, n: policy.complete(prompt, n, constraint.allow(budget=budget)),
        )

    return hold


class Holding(NamedTuple):
    """How a model is held, and why it is not held better."""

    hold: Hold
    failure: Failure | None = None
    """grammar_ignored or grammar_refused, where the endpoint says that it takes grammars"""


def hold_for(model: Model, endpoint: Endpoint, shape: Shape = Shape()) -> Holding:
    """How the model of this endpoint can be held: by a grammar, if its server keeps to one.

    The server is asked once, here. Raises Failed where it cannot be asked at all.
    """
    if endpoint.grammars == "none":
        return Holding(free(model))
    kept = probe_grammar(model)
    if kept == "obeyed":
        return Holding(by_grammar(model, shape))
    detail = f"{_KEPT[kept]}, so that quotes are checked and not held: {_ADVICE[endpoint.grammars]}"
    return Holding(free(model), Failure(endpoint.name, f"grammar_{kept}", detail))


_KEPT = {
    "ignored": "the server takes a grammar and does not keep to it",
    "refused": "the server refuses a grammar",
}
_ADVICE = {
    "vllm": "start vLLM with --structured-outputs-config.backend guidance",
    "sglang": "start SGLang with --grammar-backend llguidance",
    "llama.cpp": "use a llama.cpp that was built with LLAMA_LLGUIDANCE=ON",
}


class _Held:
    """A policy under a condition that each of its completions keeps."""

    def __init__(self, name: str, complete: Callable[[str, int], Sequence[Completion]]) -> None:
        self.name = name
        self._complete = complete

    def complete(self, prompt: str, n: int = 1, allow: Allow = None) -> Sequence[Completion]:
        """n completions of one prompt. Raises ValueError for `allow`: it is held already."""
        if allow is not None:
            raise ValueError("this policy is held to its documents already: give it no tokens")
        return self._complete(prompt, n)
