"""Texts of a world as the tokens of a model, and what the model says as text.

Tokens that were drawn are decoded and never cut anew. It knows nothing of models and rewards.
"""

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig, PreTrainedTokenizerBase

from rookery.cite.vocabulary import Vocabulary, read_vocabulary
from rookery.learn.models import tokenizer_of
from rookery.learn.prompt import prompt_tokens
from rookery.records import Failed, Failure


class Speech(NamedTuple):
    """How a world and a policy understand each other."""

    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    ends: frozenset[int]
    tokens: int
    """of an action, at most"""
    room: int
    """the most tokens of a prompt, so that an action fits behind it"""
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""

    def context(self, prompt: str) -> list[int]:
        """What the policy is given for a prompt. Raises Failed (prompt_too_long)."""
        found = prompt_tokens(self.tokenizer, prompt, self.chat)
        if len(found) > self.room:
            detail = (
                f"it has {len(found)} tokens, and {self.room} leave room for an action: show less "
                "of a page, let actions be shorter, or use a model with a longer context"
            )
            raise Failed(Failure("a prompt", "prompt_too_long", detail))
        return found

    def text(self, action: Sequence[int]) -> str:
        """What these tokens say, up to the first that ends, as `Local` gives it: bytes that are no
        UTF-8 are U+FFFD, and a character that is incomplete at the end is left out."""
        known = self.vocabulary.tokens
        end = next((at for at, token in enumerate(action) if token in self.ends), len(action))
        said = b"".join(known[token] or b"" for token in action[:end] if token < len(known))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(said)


def speech_of(folder: Path, tokens: int, chat: bool | None = None) -> Speech:
    """The speech of the policy in this folder, whose actions have so many tokens at most.

    Raises Failed: no_model, bad_model, and prompt_too_long where there is no room for a prompt.
    """
    tokenizer, ends, _ = tokenizer_of(folder)
    end = tokenizer.eos_token_id
    usual = int(end) if end in ends else min(ends)
    try:
        vocabulary = read_vocabulary(folder / "tokenizer.json", usual)
    except ValueError as error:
        raise Failed(Failure(str(folder), "bad_model", str(error))) from error
    config = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    room = getattr(config, "max_position_embeddings", tokenizer.model_max_length) - tokens
    if room < 1:
        detail = f"actions of {tokens} tokens leave no room for a prompt: let them be shorter"
        raise Failed(Failure(str(folder), "prompt_too_long", detail))
    return Speech(tokenizer, vocabulary, ends, tokens, room, chat)
