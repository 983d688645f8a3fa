"""Encode prompts as tokens of a local model, and decode its actions as text."""

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, PreTrainedTokenizerBase

from rookery.cite.vocabulary import Vocabulary, read_vocabulary
from rookery.draft.rollout import replace_surrogates
from rookery.learn.pretrained_models import load_tokenizer, locate_model
from rookery.records import Failed, Failure

_PLACEHOLDER = "\ue000"


def tokenize_prompt(
    tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool | None = None
) -> list[int]:
    """Return the token ids of a prompt, as a user's message in the chat template or as it is.

    With `chat` None, the template is used where there is one. What a prompt spells out that looks
    like a special token (`<|end|>` on a page) is text, and steers no model. Raises ValueError where
    there is no template, or no token.
    """
    prompt = replace_surrogates(prompt)
    if chat is None:
        chat = tokenizer.chat_template is not None
    if not chat:
        tokens = _tokenize_text(
            tokenizer, prompt, add_special_tokens=True, split_special_tokens=True
        )
    elif any(mark in prompt for mark in _list_special_tokens(tokenizer)):
        before, _, after = _render_chat(tokenizer, _PLACEHOLDER).partition(_PLACEHOLDER)
        said = _tokenize_text(tokenizer, prompt, split_special_tokens=True)
        tokens = [*_tokenize_text(tokenizer, before), *said, *_tokenize_text(tokenizer, after)]
    else:
        tokens = _tokenize_text(tokenizer, _render_chat(tokenizer, prompt))
    if not tokens:
        raise ValueError("the prompt has no tokens: ask for something")
    return tokens


def _list_special_tokens(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]


def _render_chat(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    said = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return str(text)


def _tokenize_text(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    add_special_tokens: bool = False,
    split_special_tokens: bool = False,
) -> list[int]:
    options: dict[str, Any] = {"verbose": False, "return_attention_mask": False}
    encoded = tokenizer(
        text,
        add_special_tokens=add_special_tokens,
        split_special_tokens=split_special_tokens,
        **options,
    )
    return list(encoded["input_ids"])


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
        found = tokenize_prompt(self.tokenizer, prompt, self.chat)
        if len(found) > self.max_prompt_tokens:
            detail = (
                f"it has {len(found)} tokens, and {self.max_prompt_tokens} leave room for "
                "an action: show less "
                "of a page, let actions be shorter, or use a model with a longer context"
            )
            raise Failed(Failure("a prompt", "prompt_too_long", detail))
        return found

    def decode_action(self, action: Sequence[int]) -> str:
        """Return the text of these tokens up to the first end token, as `LocalModel` gives it:
        bytes that are not UTF-8 are U+FFFD, and an incomplete character at the end is left out."""
        known = self.vocabulary.tokens
        end = next((at for at, token in enumerate(action) if token in self.ends), len(action))
        said = b"".join(known[token] or b"" for token in action[:end] if token < len(known))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(said)


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
        raise Failed(Failure(str(folder), "bad_model", str(error))) from error
    config = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    room = getattr(config, "max_position_embeddings", tokenizer.model_max_length) - tokens
    if room < 1:
        detail = f"actions of {tokens} tokens leave no room for a prompt: let them be shorter"
        raise Failed(Failure(str(folder), "prompt_too_long", detail))
    return PolicyTokenizer(tokenizer, vocabulary, ends, tokens, room, chat)
