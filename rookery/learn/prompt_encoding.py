"""Encode prompts as tokens of a local model, and decode its actions as text."""

import codecs
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, PreTrainedTokenizerBase

from rookery.browser.browser_episode import replace_surrogates
from rookery.errors import Failed, Outcome
from rookery.learn.pretrained_models import load_tokenizer, locate_model
from rookery.quotes.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Failure

_PLACEHOLDER = "\ue000"
_BLANKS = " \t\n\r\u2581"
"""white space, as tokenizers spell it: tokens that were added for runs of it are text"""


def tokenize_prompt(
    tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool | None = None
) -> list[int]:
    """Return the token ids of a prompt, as a user's message in the chat template or as it is.

    With `chat` None, the template is used where there is one. What a prompt spells out that looks
    like a token added to the tokenizer (`<|end|>` or `<tool_call>` on a page) is text, and steers
    no model. Raises ValueError where there is no template, or no token.
    """
    prompt = replace_surrogates(prompt)
    if chat is None:
        chat = tokenizer.chat_template is not None
    if chat:
        tokens = _encode(tokenizer, _render_chat(tokenizer, prompt))["input_ids"]
        parts = _render_chat(tokenizer, _PLACEHOLDER).partition(_PLACEHOLDER)
        before, _, after = (_encode(tokenizer, part)["input_ids"] for part in parts)
    else:
        options = {"add_special_tokens": True, "split_special_tokens": True}
        tokens = _encode(tokenizer, prompt, **options)["input_ids"]
        empty = _encode(tokenizer, "", add_special_tokens=True)["input_ids"]
        begun = int(empty[:1] == [tokenizer.bos_token_id])
        before, after = empty[:begun], empty[begun:]
    reserved = _list_reserved_tokens(tokenizer)
    if sum(token in reserved for token in tokens) > sum(
        token in reserved for token in (*before, *after)
    ):
        tokens = [*before, *_tokenize_plainly(tokenizer, prompt, reserved), *after]
    if not tokens:
        raise ValueError("the prompt has no tokens: ask for something")
    return list(tokens)


def _list_reserved_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of the tokens that were added to the tokenizer, white space left out.

    Those that it does not call special steer a model as well, such as `<tool_call>` and `<think>`.
    """
    added = tokenizer.added_tokens_decoder.items()
    return frozenset(token for token, each in added if each.content.strip(_BLANKS))


def _render_chat(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    said = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return str(text)


def _tokenize_plainly(
    tokenizer: PreTrainedTokenizerBase, text: str, reserved: frozenset[int]
) -> list[int]:
    """Return the tokens of a text, none of them reserved: one that would be is cut in two.

    A reserved token of one character cannot be cut, and is left out.
    """
    encoded = _encode(tokenizer, text, split_special_tokens=True, return_offsets_mapping=True)
    tokens, spans = encoded["input_ids"], encoded["offset_mapping"]
    reserved_spans = [span for token, span in zip(tokens, spans, strict=True) if token in reserved]
    cuts = [start + 1 for start, end in reserved_spans if end - start > 1]
    if not cuts:
        return [token for token in tokens if token not in reserved]
    pieces = (text[start:end] for start, end in pairwise((0, *cuts, len(text))))
    return [each for piece in pieces for each in _tokenize_plainly(tokenizer, piece, reserved)]


def _encode(tokenizer: PreTrainedTokenizerBase, text: str, **options: bool) -> Any:
    plain = {"add_special_tokens": False, "verbose": False, "return_attention_mask": False}
    return tokenizer(text, **(plain | options))


class PolicyTokenizer(NamedTuple):
    """The tokenizer and limits by which texts of an environment become tokens of a policy."""

    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    ends: frozenset[int]
    max_action_tokens: int
    """of an action, at most"""
    max_prompt_tokens: int
    """the most tokens of a prompt, so that an action fits behind it"""
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""

    def encode_prompt(self, prompt: str) -> list[int]:
        """Return the token ids that the policy is given for a prompt.

        Raises Failed (prompt_too_long) where an action would not fit behind them.
        """
        tokens = tokenize_prompt(self.tokenizer, prompt, self.chat)
        if len(tokens) > self.max_prompt_tokens:
            detail = (
                f"it has {len(tokens)} tokens, and {self.max_prompt_tokens} leave room for "
                "an action: show less "
                "of a page, let actions be shorter, or use a model with a longer context"
            )
            raise Failed(Failure("a prompt", Outcome.PROMPT_TOO_LONG, detail))
        return tokens

    def decode_action(self, action: Sequence[int]) -> str:
        """Return the text of these tokens up to the first end token, as `LocalModel` gives it:
        bytes that are not UTF-8 are U+FFFD, and an incomplete character at the end is left out."""
        end = next((at for at, token in enumerate(action) if token in self.ends), len(action))
        return self.decode_prompt(action[:end])

    def decode_prompt(self, context: Sequence[int]) -> str:
        """Return the text of these tokens as `decode_action` does, past end tokens too, which chat
        templates hold."""
        known = self.vocabulary.tokens
        shown = b"".join(known[token] or b"" for token in context if token < len(known))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(shown)


def load_policy_tokenizer(folder: Path, tokens: int, chat: bool | None = None) -> PolicyTokenizer:
    """Load the tokenizer of the policy in a folder, for actions of at most `tokens` tokens.

    Raises Failed: no_model, bad_model, and prompt_too_long where there is no room for a prompt.
    """
    folder = locate_model(folder)
    tokenizer, ends, _ = load_tokenizer(folder)
    end = tokenizer.eos_token_id
    usual = int(end) if end in ends else min(ends)
    try:
        vocabulary = read_vocabulary(folder / "tokenizer.json", usual)
    except ValueError as error:
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, str(error))) from error
    config = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    room = getattr(config, "max_position_embeddings", tokenizer.model_max_length) - tokens
    if room < 1:
        detail = f"actions of {tokens} tokens leave no room for a prompt: let them be shorter"
        raise Failed(Failure(str(folder), Outcome.PROMPT_TOO_LONG, detail))
    return PolicyTokenizer(tokenizer, vocabulary, ends, tokens, room, chat)
