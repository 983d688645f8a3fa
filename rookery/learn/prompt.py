"""A prompt as the tokens that a model of this machine is given. It knows nothing of models."""

from typing import Any

from transformers import PreTrainedTokenizerBase

from rookery.draft.rollout import writable

_HOLE = "\ue000"


def prompt_tokens(
    tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool | None = None
) -> list[int]:
    """The prompt as a user's message in the tokenizer's chat template, or as it is.

    With `chat` None, the template is used where there is one. What a prompt spells out that looks
    like a special token (`<|end|>` on a page) is text, and steers no model. Raises ValueError where
    there is no template, or no token.
    """
    prompt = writable(prompt)
    if chat is None:
        chat = tokenizer.chat_template is not None
    if not chat:
        tokens = _tokens(tokenizer, prompt, add_special_tokens=True, split_special_tokens=True)
    elif any(mark in prompt for mark in _marks(tokenizer)):
        before, _, after = _rendered(tokenizer, _HOLE).partition(_HOLE)
        said = _tokens(tokenizer, prompt, split_special_tokens=True)
        tokens = [*_tokens(tokenizer, before), *said, *_tokens(tokenizer, after)]
    else:
        tokens = _tokens(tokenizer, _rendered(tokenizer, prompt))
    if not tokens:
        raise ValueError("the prompt has no tokens: ask for something")
    return tokens


def _marks(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]


def _rendered(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    said = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return str(text)


def _tokens(
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
