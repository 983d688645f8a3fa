"""Answers whose quotes are verbatim by construction: which tokens may come next, step by step.

GopherCite's constrained sampling (appendix J of arXiv 2203.11147), over bytes: whatever tokens
spell the syntax, a title, and words of the document of that title may be written, however the
document itself would be cut into tokens, and tokens may run across every mark. Knows nothing of
models; probabilities are the caller's.

    grammar = Grammar(read_vocabulary(Path("tokenizer.json"), "</s>"))
    state = Constraint(grammar, [("Crows", "Crows are clever.")]).begin(budget=64)
    while not state.done:
        state.advance(choose(state.allowed()))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rookery.cite.grammar import Grammar
from rookery.cite.matches import Document, index
from rookery.cite.pieces import NEVER
from rookery.cite.threads import Context, Free, Quoted, Thread, after
from rookery.cite.trie import Ints


class Constraint:
    """What may be written from these documents, in the shape of the grammar.

    A document is a title and a text, or what `index` made of them and the caller kept. Several may
    have one title. Documents from which nothing can be quoted are passed over. Raises ValueError
    where nothing is left, or where a document was indexed for another grammar.
    """

    def __init__(self, grammar: Grammar, documents: Sequence[Document | tuple[str, str]]) -> None:
        ready = [
            item if isinstance(item, Document) else index(grammar, *item) for item in documents
        ]
        for number, document in enumerate(ready):
            if document.grammar != grammar.digest:
                raise ValueError(
                    f"document {number} was indexed for another vocabulary or shape: index it again"
                )
        self._context = context = Context(grammar, ready)
        self._threads: list[Thread] = list(context.texts(()))
        if grammar.shape.form != "quote":
            self._threads = [Free(context, grammar.frame.names["start"], ())]
        if not any(thread.need() < NEVER for thread in self._threads):
            raise ValueError(
                f"none of the {len(ready)} documents has {grammar.shape.shortest} characters in a "
                "row that can be quoted under its title: give others, or lower Shape.shortest"
            )

    def begin(self, written: str = "", budget: int | None = None) -> State:
        """The state before the first token.

        `written` is what stands already, in the prompt or before: `%<The sky is blue>%(` leaves
        the evidence to be written. `budget` is how many tokens there are, the end token included.
        Raises ValueError where that cannot be gone on from, or where the budget is too small.
        """
        threads = after(self._threads, written.encode("utf-8", "surrogatepass"))
        need = min((thread.need() for thread in threads), default=NEVER)
        if need >= NEVER:
            raise ValueError(f"{written!r} is not the beginning of what may be written here")
        if budget is not None and budget < need:
            raise ValueError(f"{budget} tokens are too few: from here an answer may take {need}")
        left = NEVER if budget is None else budget
        return State(self._context, [Moment(threads, left, self._context.shape.free)])

    def allow(
        self, written: str = "", budget: int | None = None
    ) -> Callable[[Sequence[int]], Ints]:
        """The same for a Policy: a function from the tokens so far to the ids that may follow.

        It remembers what it was asked, some kilobytes a token, so that each further token costs
        one step. Make another for another question.
        """
        begun: _Asked = self.begin(written, budget), {}

        def allowed(tokens: Sequence[int]) -> Ints:
            state, onward = begun
            for token in tokens:
                if token not in onward:
                    onward[token] = state.then(token), {}
                state, onward = onward[token]
            return state.allowed()

        return allowed


class Moment(NamedTuple):
    """What is known between two tokens."""

    threads: Sequence[Thread]
    left: int
    """tokens, the end token included"""
    free: int
    """tokens that may still go into free text before the next title or the end"""


class State:
    """One answer while it is written. Several states of one constraint do not know each other."""

    def __init__(self, context: Context, moments: list[Moment]) -> None:
        self._context = context
        self._moments = moments
        self._allowed: Ints | None = None

    @property
    def done(self) -> bool:
        """Whether the end token was written. It may be written again, and nothing else may."""
        (first, *_) = self._moments[-1].threads
        return isinstance(first, Free) and first.at == self._context.done

    def allowed(self) -> Ints:
        """The ids that may come next, ascending, never none. Do not write into this array."""
        if self._allowed is None:
            threads, left, free = self._moments[-1]
            union = self._context.grammar.union
            self._allowed = union(*(thread.ids(left, free) for thread in threads))
        return self._allowed

    def bitmask(self, out: Ints) -> None:
        """The same as one bit an id, the lowest bit of `out[0]` first; `out` has as many words of
        32 bits as the vocabulary is wide, or more."""
        width = self._context.grammar.vocabulary.width
        if out.dtype != np.int32 or 32 * len(out) < width:
            raise ValueError(f"a mask of {width} ids takes {-(-width // 32)} words of type int32")
        ids, context = self.allowed(), self._context
        mask = context.masks.get(id(ids))
        if mask is None:
            bits = np.zeros(-(-width // 32) * 32, bool)
            bits[ids] = True
            mask = np.packbits(bits, bitorder="little").view("<i4")
            if id(ids) in context.masks:
                context.masks[id(ids)] = mask
        out[: len(mask)], out[len(mask) :] = mask, 0

    def advance(self, token: int) -> None:
        """Write this token. Raises ValueError where it is not allowed."""
        self._moments += self.then(token)._moments

    def then(self, token: int) -> State:
        """What this becomes when the token is written, as a state that has no former tokens to
        take back. Raises ValueError where it is not allowed."""
        vocabulary, ids = self._context.grammar.vocabulary, self.allowed()
        at = ids.searchsorted(token)
        if at == len(ids) or ids[at] != token:
            known = 0 <= token < len(vocabulary.tokens)
            name = repr(vocabulary.tokens[token]) if known else "no token"
            raise ValueError(f"token {token} ({name}) may not come next: choose one of allowed()")
        threads, left, free = self._moments[-1]
        if token == vocabulary.end:
            threads = [ended for thread in threads for ended in thread.ended()][:1]
        else:
            threads = after(threads, vocabulary.tokens[token] or b"")
            in_free_text = all(isinstance(thread, Free) for thread in threads)
            left, free = left - 1, free - 1 if in_free_text else self._context.shape.free
        self._allowed = None  # seldom asked for again, and often long
        return State(self._context, [Moment(threads, left, free)])

    def rollback(self, tokens: int) -> None:
        """Take back the last tokens."""
        if not 0 <= tokens < len(self._moments):
            raise ValueError(f"{tokens} tokens cannot be taken back of {len(self._moments) - 1}")
        del self._moments[len(self._moments) - tokens :]
        self._allowed = None

    def fork(self) -> State:
        """Another state that goes on from here on its own."""
        return State(self._context, self._moments.copy())

    def sources(self) -> Quoted:
        """Of each quote written so far, the fragments, each where it first stands in its document.

        Of documents with one title, the first that has the words is taken. The last quote may be
        incomplete.
        """
        (first, *_) = self._moments[-1].threads
        return first.written()


_Asked = tuple[State, "dict[int, _Asked]"]
"""a state, and what it became after each token that was asked for"""
