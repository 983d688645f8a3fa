"""Constrained decoding of verbatim quotes, by a server's grammar or by this process's own tokens.

The quotes of an answer are verified all the same: a server may accept a grammar and ignore it.

The grammar is the verbatim constraint in llguidance's dialect of Lark, which vLLM, SGLang and
llama.cpp pass on to it. A terminal takes all that it can, so only the last terminal may continue
where it may end: with `]%` as a terminal of its own, a quote could not be closed after `foo` in a
text that has `foo]`. Titles and quotes are separate terminals all the same, because llguidance
computes the first bytes of a large terminal when it reads the grammar and has too little fuel for
that in a single step. Nothing is excluded by `~`, which costs more than all the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from rookery.errors import Failed, Outcome
from rookery.models.openai_protocol import ModelEndpoint
from rookery.models.remote_model import AllowedTokens, LanguageModel, probe_grammar
from rookery.quotes.citation_syntax import AnswerShape, render_inline
from rookery.records import Answer, Claim, Completion, Failure, Page, Policy

if TYPE_CHECKING:
    from rookery.quotes.constraint import VerbatimGrammar


MAX_INDEXED_PAGES = 64
"""pages whose index for quoting is kept; an index takes about 45 bytes per byte of text"""

LOCAL_QUOTE_SHAPE = AnswerShape(shortest=30)
"""for a model in this process: quotes have 30 characters, about three words, or more. Servers get
no such minimum: a grammar cannot see that too few characters are left, and would break off
quotes"""

PolicyConstrainer = Callable[[Sequence[tuple[str, str]]], Policy]
"""from the documents (title, text) of a prompt to a policy that can only write claims with quotes
of them; to the unconstrained policy where these documents cannot constrain it"""


def leave_unconstrained(policy: Policy) -> PolicyConstrainer:
    """Make a constrainer that returns the policy unconstrained for any documents."""
    return lambda documents: policy


def constrain_by_grammar(
    model: LanguageModel, shape: AnswerShape = AnswerShape()
) -> PolicyConstrainer:
    """Make a constrainer that sends the server a grammar of the claims and quotes allowed.

    The policy stays unconstrained where the documents are too long for a grammar or hold nothing to
    quote. A request that the server refuses with a grammar is sent again without it.
    """

    def constrain_policy(documents: Sequence[tuple[str, str]]) -> Policy:
        try:
            grammar = build_lark_grammar(documents, shape)
        except ValueError:
            return model

        def complete(prompt: str, n: int) -> Sequence[Completion]:
            try:
                return model.complete(prompt, n, grammar=grammar)
            except Failed as failed:
                if failed.failure.outcome != Outcome.MODEL_REFUSED:
                    raise
                return model.complete(prompt, n)

        return ConstrainedPolicy(model.name, complete)

    return constrain_policy


def constrain_by_tokens(policy: Policy, grammar: VerbatimGrammar, budget: int) -> PolicyConstrainer:
    """Make a constrainer that restricts each next token; the policy has the grammar's vocabulary.

    `budget` is the maximum number of tokens of an answer, its end included; answers are closed in
    time. The policy stays unconstrained where no quote of the documents fits into the budget. The
    indices of the last 64 pages are kept.
    """
    from rookery.quotes.constraint import VerbatimConstraint, index_document

    ready = lru_cache(MAX_INDEXED_PAGES)(partial(index_document, grammar))

    def constrain_policy(documents: Sequence[tuple[str, str]]) -> Policy:
        try:
            constraint = VerbatimConstraint(grammar, [ready(*document) for document in documents])
            constraint.start_decoding(budget=budget)
        except ValueError:
            return policy

        def complete(prompt: str, n: int) -> Sequence[Completion]:
            return policy.complete(prompt, n, constraint.make_token_filter(budget=budget))

        return ConstrainedPolicy(policy.name, complete)

    return constrain_policy


class ConstrainerChoice(NamedTuple):
    """The constrainer chosen for a model, and why it constrains nothing."""

    constrain: PolicyConstrainer
    failure: Failure | None = None
    """grammar_ignored or grammar_refused where the endpoint names a server with grammars; else
    None"""


def choose_constrainer(
    model: LanguageModel, endpoint: ModelEndpoint, shape: AnswerShape = AnswerShape()
) -> ConstrainerChoice:
    """Choose a constrainer for an endpoint's model: by a grammar, if its server obeys one.

    Sends one request to find out, if the endpoint names a server with grammars. Otherwise the model
    stays unconstrained; where the server ignores or refuses the grammar, the choice has a failure
    that says so. Raises Failed where that request fails for another reason.
    """
    if endpoint.grammars == "none":
        return ConstrainerChoice(leave_unconstrained(model))
    constrainer = probe_grammar(model)
    if constrainer == "obeyed":
        return ConstrainerChoice(constrain_by_grammar(model, shape))
    problem, advice = _PROBE_PROBLEMS[constrainer], _SERVER_ADVICE[endpoint.grammars]
    detail = f"{problem}; quotes are only checked afterwards: {advice}"
    failure = Failure(endpoint.name, f"grammar_{constrainer}", detail)
    return ConstrainerChoice(leave_unconstrained(model), failure)


_PROBE_PROBLEMS = {
    "ignored": "the server accepts a grammar and ignores it",
    "refused": "the server refuses a grammar",
}
_SERVER_ADVICE = {
    "vllm": "start vLLM with --structured-outputs-config.backend guidance",
    "sglang": "start SGLang with --grammar-backend llguidance",
    "llama.cpp": "use a llama.cpp that was built with LLAMA_LLGUIDANCE=ON",
}


class ConstrainedPolicy:
    """A policy whose completions are constrained to quotes of given documents."""

    def __init__(self, name: str, complete: Callable[[str, int], Sequence[Completion]]) -> None:
        self.name = name
        self._complete = complete

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None
    ) -> Sequence[Completion]:
        """Return n constrained completions. Raises ValueError for `allow`, a second constraint."""
        if allow is not None:
            raise ValueError("this policy is constrained to its documents already: leave out allow")
        return self._complete(prompt, n)


MAX_CHARACTERS = 8_000
"""most characters of titles and texts, each title counting CHARACTERS_PER_TITLE more.

llguidance limits work, not characters, and servers leave its limits as they are. With 128,000
tokens, 67,000 characters of English pass in one text, and 18,000 random letters; in four texts,
3,600 and 2,700 each. If every sequence of six bytes is a token as well, 16,000 of English pass, and
1,400 in each of four. This stays below all of these, since a server beyond its limits may end each
answer before its first word
"""
CHARACTERS_PER_TITLE = 600
"""characters that each title counts for, besides its own"""
UNFORCED = '%llguidance {"no_forcing": true}\n'
"""before a grammar: what must follow may be written in any tokens, not in the canonical ones alone,
as `VerbatimConstraint` has it"""
CHARACTERS_PER_TOKEN = 4
"""characters assumed for a token of free text, since a server's own tokens are not known"""

# A claim is written in units such that neither one nor two in a row contain the mark that ends it.
# As in `rookery.quotes.constraint`, a backslash escapes the character after it.
_ARROWS = r"(?:>|%>)*"
_AFTER_ARROWS = r"(?:[^\\>%]|\\.|%(?:[^\\>(]|\\.))"
_UNIT = rf"(?:[^\\>]|\\.|>{_ARROWS}{_AFTER_ARROWS})"
_ENDS = rf"{_ARROWS}%\("


def build_lark_grammar(
    documents: Sequence[tuple[str, str]], shape: AnswerShape = AnswerShape()
) -> str:
    """Build the grammar of what may be written from these documents, (title, text) each.

    It allows what `VerbatimConstraint` allows for the same shape, except that a claim has at most
    CHARACTERS_PER_TOKEN * `shape.free` characters (a run of `>` counts as one, and so does an
    escape), and that no budget is kept: an answer cut off by the server's max_tokens is bad syntax,
    never a wrong quote. Raises ValueError if nothing can be quoted, if the documents exceed
    MAX_CHARACTERS, and for shapes of several claims or fragments.
    """
    if shape.form == "answer" or shape.fragments > 1:
        raise ValueError(
            "a grammar holds one claim or one quote, in one fragment: use "
            "AnswerShape(form='claim') or AnswerShape(form='quote'), with fragments=1"
        )
    quotable = _collect_quotable(documents, shape)
    if not quotable:
        raise ValueError(
            f"none of the {len(documents)} documents has {shape.shortest} characters in a row that "
            "can be quoted under its title: give others, or lower AnswerShape.shortest"
        )
    _check_size(quotable)
    return "\n".join(_write_rules(quotable, shape))


def build_command_grammar(
    commands: Sequence[str], typed: Sequence[str], quote: str, text: str, shape: AnswerShape
) -> str:
    """Build the grammar of one of these commands, or of a verb and what stands behind it.

    Behind the verbs `typed` there may be up to `shape.longest` characters on one line, not all of
    them blank, and behind `quote` words of the text, from any of its words on; a space comes
    before either. No budget is kept, as in `build_lark_grammar`. `shape` is that of a quote in one
    fragment. Raises ValueError if the text exceeds MAX_CHARACTERS.
    """
    quotable = _collect_quotable([("", f" {' '.join(text.split())}")], shape)
    _check_size(quotable)
    rules = [f"start: COMMAND | TYPED{' | QUOTED' * bool(quotable)}"]
    rules.append(f"COMMAND: {_format_choice(commands)}")
    line = rf"/ [^\x00-\x1f\x7f]{{1,{shape.longest}}}/ & /(?s:.*\S.*)/"
    rules += [f"TYPED: ({_format_choice(typed)}) LINE", f"LINE: {line}"]
    if quotable:
        _, *words = _write_rules(quotable, shape)
        rules += [f"QUOTED: {_format_literal(quote)} BEGUN", "BEGUN: WORDS0 & /(?s: .*)/", *words]
    return "\n".join(rules)


def _check_size(quotable: Mapping[str, Sequence[str]]) -> None:
    """Raise ValueError for more text than all servers accept."""
    size = sum(
        CHARACTERS_PER_TITLE + len(title) + sum(map(len, texts))
        for title, texts in quotable.items()
    )
    if size > MAX_CHARACTERS:
        raise ValueError(
            f"a grammar of {size:,} characters ({CHARACTERS_PER_TITLE} for each title counted in) "
            f"is more than the {MAX_CHARACTERS:,} that all servers accept: give fewer pages, or "
            "shorter parts of them"
        )


def _collect_quotable(
    documents: Sequence[tuple[str, str]], shape: AnswerShape
) -> dict[str, list[str]]:
    """Return the texts that can be quoted under each title, cut at places that no quote may
    contain."""
    cut = r"[\ud800-\udfff]" if shape.form == "quote" else r"[\ud800-\udfff]|(?<=\])(?=%)"
    quotable: dict[str, list[str]] = {}
    for title, text in dict.fromkeys(documents):
        if shape.form == "quote":
            title = ""
        pieces = [piece for piece in re.split(cut, text) if _is_quotable(piece, shape)]
        if pieces and not re.search("[\ud800-\udfff]", title):
            quotable.setdefault(title, []).extend(pieces)
    return quotable


def _is_quotable(text: str, shape: AnswerShape) -> bool:
    """Return True if a quote may end in the text; a backslash would escape the end of the quote."""
    ends = text[shape.shortest - 1 :]
    return bool(ends if shape.form == "quote" else ends.strip("\\"))


def _write_rules(quotable: Mapping[str, Sequence[str]], shape: AnswerShape) -> Iterator[str]:
    if shape.form == "quote":
        yield "start: WORDS0"
    else:
        yield f"start: CLAIM ({' | '.join(f'TITLE{n} QUOTE{n}' for n in range(len(quotable)))})"
        longest = CHARACTERS_PER_TOKEN * shape.free - len("%<>%(")
        yield rf"CLAIM: /(?s:%<(?:{_UNIT}{{1,{longest}}}>{_ENDS}|>(?:>|%>){_ENDS}))/"
    for n, (title, texts) in enumerate(quotable.items()):
        if shape.form != "quote":
            yield f"TITLE{n}: {_format_literal(_escape_title(title))}"
            yield f'QUOTE{n}: WORDS{n} "]%"'
        any_of = " | ".join(f"TEXT{n}_{m}" for m in range(len(texts)))
        yield f"WORDS{n}: ({any_of}) & {_format_length(shape)}"
        for m, text in enumerate(texts):
            yield f'TEXT{n}_{m}: %regex {{"substring_chars": {_format_literal(text)}}}'


def _format_choice(texts: Sequence[str]) -> str:
    """Return a pattern of any of the texts."""
    return " | ".join(map(_format_literal, texts))


def _format_length(shape: AnswerShape) -> str:
    """Return a pattern of any words that are long enough and not too long."""
    if shape.form == "quote":
        return f"/(?s:.{{{shape.shortest},{shape.longest}}})/"
    return rf"/(?s:.{{{shape.shortest - 1},{shape.longest - 1}}}[^\\])/"


def _escape_title(title: str) -> str:
    """Return the title as it is written between `%(` and the quote."""
    page = Page("", title, "x")
    answer = Answer("x", (page.quote(0, 1),), (Claim(0, 1, (0,)),))
    return render_inline(answer, [page]).removeprefix("%<x>%(").removesuffix("x]%")


def _format_literal(text: str) -> str:
    """Return the text as a literal. vLLM takes any grammar with `::=` in it for another dialect."""
    return json.dumps(text).replace("::=", r":\u003a=")
