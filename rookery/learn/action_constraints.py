"""Constraints on the actions of a policy in the text browser: the grammar of its commands, or a
list of actions that are offered; and the environment that holds a policy to them.

The rows hold the tokens that were allowed, so that training sees the same choice.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

import llguidance
import llguidance.hf
import numpy as np

from rookery.browser.browser_commands import read_screen
from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import TokenIds
from rookery.learn.decoding import SampledAction
from rookery.learn.episodes import PolicySampler, RolloutEnvironment, ServerConstraint, Trajectory
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.learn.training_data import PromptConstraint
from rookery.models.constrained_decoding import UNFORCED, build_command_grammar
from rookery.models.remote_model import AllowedTokens
from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.records import Failure

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
"""bytes that no token of a line of free text has"""
QUOTE_SHAPE = AnswerShape(form="quote", shortest=8, fragments=2, join="━")
"""words of the screen, or the first and the last of them with a mark between (WebGPT, appendix
A)"""
_SERVED_QUOTE_SHAPE = AnswerShape(form="quote", shortest=8)  # a grammar holds no two in their order
KEPT_PROMPTS = 1024
"""prompts whose constraints are kept, since several samples may answer one"""
_WORDLESS_COMMANDS = (
    "Top",
    "Back",
    *(f"Scrolled {way} {count}" for way in ("down", "up") for count in (1, 2, 3)),
    *(f"End: {why}" for why in ("Answer", "Nonsense", "Controversial")),
)
_WORDY_COMMANDS = ("Search", "Find in page:")


class ConstrainedEnvironment:
    """Environment in which a policy's actions are held to a constraint.

    `speech` is that of the world. The constraint is given prompts with the text of a chat template
    around them, where there is one.
    """

    def __init__(
        self, world: RolloutEnvironment, speech: PolicyTokenizer, constrain: PromptConstraint
    ) -> None:
        self._world = world
        self._speech = speech
        self._constrain = constrain

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes in the wrapped environment, each action held to the constraint.

        Returns them with their rewards, each followed by its extra answers. A constraint of the
        wrapped environment has no effect: this one takes its place.
        """

        def sample_constrained(
            contexts: Sequence[Sequence[int]],
            seeds: Sequence[str],
            allow: Sequence[AllowedTokens] | None = None,
        ) -> list[SampledAction]:
            prompts = map(self._speech.decode_prompt, contexts)
            return sample(contexts, seeds, [self._constrain(prompt) for prompt in prompts])

        return self._world.play_episodes(sample_constrained, episodes, seed)


def allow_commands(speech: PolicyTokenizer, shape: AnswerShape = QUOTE_SHAPE) -> PromptConstraint:
    """Return a constraint to the commands of the browser (WebGPT, table 1).

    Links are clicked that the screen shows, words are quoted that it shows, and queries are free
    text on one line. Prompts that ask for an answer in place of a command are not constrained.
    """
    grammar = VerbatimGrammar(speech.vocabulary, shape)
    quote, *wordy = tokenize_actions(speech, ["Quote:", *_WORDY_COMMANDS], end=False)
    first, wordy_tokens, further = _list_line_tokens(speech)
    ends = np.asarray(sorted(speech.ends), np.int32)

    def continue_line(prefix: Sequence[int]) -> TokenIds:
        """Return the tokens that may follow these in free text behind a verb."""
        if not prefix:
            return first
        if not speech.vocabulary.decode(prefix).strip():
            return wordy_tokens
        return ends if len(prefix) >= room - 1 else further

    room = speech.max_action_tokens - max(map(len, wordy))

    @lru_cache(KEPT_PROMPTS)
    def constrain_action(prompt: str) -> AllowedTokens:
        screen = read_screen(prompt)
        if screen is None:
            return None
        links = (f"Clicked on link {number}" for number in screen.links)
        rows = [*tokenize_actions(speech, [*_WORDLESS_COMMANDS, *links]), *wordy]
        words = _quote_words(grammar, screen.text, speech.max_action_tokens - len(quote))
        begun = np.intersect1d(np.asarray(words([])), first) if words else first[:0]
        if len(begun):
            rows.append(quote)

        def continue_command(prefix: Sequence[int]) -> Iterable[int]:
            if words is not None and _starts_with(prefix, quote):
                return words(prefix[len(quote) :]) if len(prefix) > len(quote) else begun
            verb = next((each for each in wordy if _starts_with(prefix, each)), None)
            if verb is not None:
                return continue_line(prefix[len(verb) :])
            return list_next_tokens(rows, prefix)

        return continue_command

    return constrain_action


def constrain_commands_on_server(speech: PolicyTokenizer) -> PromptConstraint:
    """Return a constraint to the commands of the browser as servers keep to it by a grammar.

    It differs from `allow_commands` as a grammar must: commands may be written in any tokens,
    quotes are words in a row, and a command that does not end in time is cut. The ids that may
    follow are those of llguidance, which vLLM uses too. The constraint itself raises Failed
    (too_long) for a prompt whose screen servers would not take.
    """
    whole: Any = speech.tokenizer
    tokenizer = llguidance.hf.from_tokenizer(whole, eos_token=speech.vocabulary.end)
    shared: dict[bytes, TokenIds] = {}

    @lru_cache(KEPT_PROMPTS)
    def constrain_action(prompt: str) -> AllowedTokens:
        screen = read_screen(prompt)
        if screen is None:
            return None
        commands = [*_WORDLESS_COMMANDS, *map("Clicked on link {}".format, screen.links)]
        try:
            rules = build_command_grammar(
                commands, _WORDY_COMMANDS, "Quote:", screen.text, _SERVED_QUOTE_SHAPE
            )
        except ValueError as error:
            detail = f"{error}; or leave `server` empty, so that this process samples"
            raise Failed(Failure("a screen of the browser", Outcome.TOO_LONG, detail)) from error
        grammar = UNFORCED + rules
        return ServerConstraint(_GrammarTokens(tokenizer, grammar, shared), grammar)

    return constrain_action


class _GrammarTokens:
    """The ids that may follow tokens of a grammar. `shared` keeps each set of ids once, since those
    of free text are most of the vocabulary."""

    def __init__(
        self, tokenizer: llguidance.LLTokenizer, grammar: str, shared: dict[bytes, TokenIds]
    ) -> None:
        self._matcher = llguidance.LLMatcher(tokenizer, grammar)
        self._lock = Lock()  # several samples answer one prompt, in threads
        self._shared = shared

    def __call__(self, prefix: Sequence[int]) -> TokenIds:
        """Return the ids that may follow these tokens, in order; none where they break the grammar
        or end."""
        with self._lock:
            self._matcher.reset()
            if self._matcher.try_consume_tokens(list(prefix)) < len(prefix):
                return np.zeros(0, np.int32)
            mask: bytes = self._matcher.compute_bitmask()
        if mask not in self._shared:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
            self._shared[mask] = np.flatnonzero(bits).astype(np.int32)
        return self._shared[mask]


def _quote_words(grammar: VerbatimGrammar, text: str, budget: int) -> AllowedTokens:
    """Return the tokens that quote this text, a space before it; None where nothing can be."""
    try:
        constraint = VerbatimConstraint(grammar, [("", f" {' '.join(text.split())}")])
        return constraint.make_token_filter(budget=budget)
    except ValueError:
        return None


def _starts_with(tokens: Sequence[int], start: Sequence[int]) -> bool:
    return len(tokens) >= len(start) and list(tokens[: len(start)]) == list(start)


def list_next_tokens(rows: Sequence[Sequence[int]], prefix: Sequence[int]) -> list[int]:
    """Return the distinct tokens that follow `prefix` in the rows that begin with it, ascending."""
    size = len(prefix)
    return sorted({row[size] for row in rows if len(row) > size and _starts_with(row, prefix)})


def tokenize_actions(
    speech: PolicyTokenizer, texts: Sequence[str], end: bool = True
) -> list[list[int]]:
    """Return texts as tokens, with `end` an end token last."""
    encoded = speech.tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True)
    return [[*row, *[speech.vocabulary.end] * end] for row in encoded["input_ids"]]


def _list_line_tokens(speech: PolicyTokenizer) -> tuple[TokenIds, TokenIds, TokenIds]:
    """Return the tokens that begin with a space, as what stands behind a verb does; those that are
    not blank; and all that may stand on a line, the end tokens among them."""
    known = enumerate(speech.vocabulary.tokens)
    line = {number: token for number, token in known if token and not _CONTROL.search(token)}
    first = np.asarray([number for number, token in line.items() if token[:1] == b" "], np.int32)
    wordy = np.asarray([number for number, token in line.items() if token.strip()], np.int32)
    return first, wordy, np.asarray(sorted({*line, *speech.ends}), np.int32)
