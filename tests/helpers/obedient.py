"""A model's server on loopback that keeps to grammars with llguidance, or fails to in known ways.

No vLLM, SGLang or llama.cpp is run: the fields are read as theirs are said to be, and what stands
in them goes to the library that they use, under the limits that they leave to it.
"""

from random import Random
from typing import Any, Literal

import llguidance
import numpy as np
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from models import Asking, chat, refused, usage, write_choices
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rookery.library.libraries import get_bundled_folder

END = "<|endoftext|>"
FREE = "I know this by heart."
"""what it says when nothing holds it"""
Kind = Literal["vllm", "sglang", "llama.cpp", "deaf", "strict"]
"""whose fields it reads; deaf: nobody's; strict: it refuses a request with any of them"""


class Obedient:
    """Writes at random what the grammar of a request allows, the same for the same seed."""

    def __init__(self, kind: Kind, tokenizer: Any, limits: Any = None) -> None:
        self.kind = kind
        self._tokenizer = tokenizer
        self._limits = limits

    def __call__(self, asking: Asking) -> bytes:
        fields = asking.fields
        if self.kind == "strict" and {"structured_outputs", "ebnf", "grammar"} & fields.keys():
            return refused("400 Bad Request", "extra fields not permitted")
        grammar = self._grammar(fields)
        if grammar is None:
            return write_choices(*[chat(FREE)] * fields.get("n", 1))
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)
        if matcher.is_error():
            return refused("400 Bad Request", matcher.get_error())
        random = Random(fields.get("seed"))
        most = fields["max_tokens"]
        choices = [
            self._write(matcher.deep_copy(), random, most) for _ in range(fields.get("n", 1))
        ]
        return write_choices(*choices, usage=usage(1, 1))

    def _grammar(self, fields: dict[str, Any]) -> str | None:
        """As this server hands it to llguidance; None where it finds none."""
        if self.kind == "vllm" and "structured_outputs" in fields:
            return llguidance.grammar_from("grammar", fields["structured_outputs"]["grammar"])
        if self.kind == "sglang" and "ebnf" in fields:
            return llguidance.grammar_from("ebnf", fields["ebnf"])
        if self.kind == "llama.cpp" and fields.get("grammar", "").startswith("%llguidance"):
            return llguidance.LLMatcher.grammar_from_lark(fields["grammar"])
        return None

    def _write(self, matcher: Any, random: Random, most: int) -> dict[str, Any]:
        mask = allocate_token_bitmask(1, self._tokenizer.vocab_size)
        tokens: list[int] = []
        while len(tokens) < most:
            fill_next_token_bitmask(matcher, mask)
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            token = int(random.choice(np.flatnonzero(bits)))
            if token == self._tokenizer.eos_token:
                return chat(self._tokenizer.decode_str(tokens))
            assert matcher.consume_token(token), matcher.get_error()
            tokens.append(token)
        return chat(self._tokenizer.decode_str(tokens), "length")


def tokenizer() -> Any:
    """A vocabulary made from the bundled pages."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    built.train([str(page) for page in sorted(get_bundled_folder().glob("*raven*.html"))], trainer)
    return llguidance.LLTokenizer(built.to_str(), eos_token=built.token_to_id(END))
