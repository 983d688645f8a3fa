"""A tokenizer that needs no files, for models that say what a script says."""

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils


def make_byte_tokenizer() -> Any:
    """A tokenizer of bytes with the chat template of a model that calls tools."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    bytewise = Tokenizer(models.BPE({letter: n for n, letter in enumerate(sorted(letters))}, []))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytewise.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bytewise,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=chat_template_utils.qwen3_chat_template,
    )
