"""Write a small random language model with a tokenizer of its own, for `rookery learn example`."""

from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from rookery.learn.pretrained_models import seed_torch

BEGIN_TOKEN, END_TOKEN, PAD_TOKEN = "<|begin|>", "<|end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ message['role'] }}:\n{{ message['content'] }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:\n{% endif %}"
)


def write_tiny_model(
    folder: Path, texts: Sequence[str], vocabulary: int = 1000, context: int = 8192, seed: int = 0
) -> None:
    """Write a causal language model into a folder, as `from_pretrained` reads it.

    It is a Llama of 2 layers, 64 wide, with random weights that depend on the seed alone. Its
    byte-level BPE tokenizer has all 256 bytes, a chat template, and up to `vocabulary` tokens
    learnt from the texts. `context` is how many tokens a prompt and what follows may have. What
    lies in the folder under the same names is replaced. Raises ValueError for a vocabulary that
    has no room for the bytes and the three special tokens.
    """
    if vocabulary < 259:
        raise ValueError("a vocabulary must have at least 259 tokens: 256 bytes and 3 special ones")
    tokenizer = _train_tokenizer(texts, vocabulary, context)
    model = _make_llama(tokenizer, context, seed)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})


def _train_tokenizer(
    texts: Sequence[str], vocabulary: int, context: int
) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BEGIN_TOKEN, END_TOKEN, PAD_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    begin = (BEGIN_TOKEN, tokenizer.token_to_id(BEGIN_TOKEN))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN_TOKEN} $A", pair=f"{BEGIN_TOKEN} $A $B", special_tokens=[begin]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BEGIN_TOKEN,
        eos_token=END_TOKEN,
        pad_token=PAD_TOKEN,
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )


def _make_llama(tokenizer: PreTrainedTokenizerBase, context: int, seed: int) -> LlamaForCausalLM:
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.1,  # so that its tokens are not all equally likely
        dtype="float32",
        architectures=["LlamaForCausalLM"],
        **special,
    )
    with seed_torch(seed):
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, **special
    )
    return model
