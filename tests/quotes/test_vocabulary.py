"""The bytes of every token, against the tokenizers library's own decoding."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from verbatim_oracle import trained

from rookery.quotes.vocabulary import Vocabulary, read_vocabulary

TEXT = ["Crows are clever, naïve crows; “krähe” 日本 👩‍👩‍👧 <|endoftext|>\r\n\t x\u00a0y"] * 3
END = "<|endoftext|>"
KINDS = ["gpt2", "llama3", "greedy", "sentencepiece"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer_json(request: pytest.FixtureRequest) -> str:
    return trained(request.param, TEXT, 560)


def test_a_text_is_the_bytes_of_its_tokens(tokenizer_json: str) -> None:
    tokenizer, words = (
        tokenizers.Tokenizer.from_str(tokenizer_json),
        read_vocabulary(tokenizer_json, END),
    )
    for text in (*TEXT, "unseen: żółw 鴉\x00\x7f", "  two blanks"):
        for piece in text.split(END):
            assert words.decode(tokenizer.encode(piece).ids).decode() == piece


def test_each_token_is_what_the_tokenizer_decodes_it_to(tokenizer_json: str) -> None:
    tokenizer, words = (
        tokenizers.Tokenizer.from_str(tokenizer_json),
        read_vocabulary(tokenizer_json, END),
    )
    whole = 0
    for number, token in enumerate(words.tokens):
        decoded = tokenizer.decode([number], skip_special_tokens=False)
        if token is not None and "\ufffd" not in decoded:
            assert token.decode() == decoded
            whole += 1
    assert whole > len(words.tokens) / 2
    assert {bytes([byte]) for byte in range(256)} <= set(words.tokens)


def test_special_and_added_tokens_are_no_text(tokenizer_json: str) -> None:
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.add_tokens(["crows crows"])
    tokenizer.add_special_tokens(["<pad>"])
    words = read_vocabulary(tokenizer.to_str(), END, width=1000)
    for name in (END, "crows crows", "<pad>"):
        number = tokenizer.token_to_id(name)
        assert number is not None
        assert words.tokens[number] is None
    assert words.end == tokenizer.token_to_id(END)
    assert (len(words.tokens), words.width) == (tokenizer.get_vocab_size(), 1000)


def test_a_path_is_read_as_its_content(tokenizer_json: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json, encoding="utf-8")
    assert read_vocabulary(path, END) == read_vocabulary(tokenizer_json, END)


def test_a_unigram_vocabulary_is_a_list_with_an_unknown_token() -> None:
    model = {"type": "Unigram", "unk_id": 0, "byte_fallback": True}
    pieces = [["<unk>", 0.0], ["▁crow", -1.0], ["<0x0A>", -2.0], ["</s>", 0.0], ["<0xyz>", -3.0]]
    decoder = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    added = [{"id": 3, "content": "</s>", "special": True}]
    file = {"model": {**model, "vocab": pieces}, "decoder": decoder, "added_tokens": added}
    words = read_vocabulary(json.dumps(file), "</s>")
    assert words.tokens == (None, b" crow", b"\n", None, b"<0xyz>")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decoder": {"type": "WordPiece", "prefix": "##"}}, "byte by byte"),
        ({"decoder": None}, "byte by byte"),
        ({"model": {}}, "not a tokenizer.json"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(change: dict[str, Any], said: str) -> None:
    file = json.loads(trained("gpt2", TEXT, 300)) | change
    with pytest.raises(ValueError, match=said):
        read_vocabulary(json.dumps(file), END)


def test_an_end_that_is_not_there_and_logits_that_are_too_few_are_refused() -> None:
    made = trained("gpt2", TEXT, 300)
    with pytest.raises(ValueError, match="no token '</s>'"):
        read_vocabulary(made, "</s>")
    with pytest.raises(ValueError, match="299 logits"):
        read_vocabulary(made, END, width=299)
    with pytest.raises(ValueError, match="not a tokenizer"):
        read_vocabulary(Path("nowhere.json"), END)
    with pytest.raises(ValueError, match="cannot end with token 9"):
        Vocabulary((b"a", None), 9, 9)
    with pytest.raises(ValueError, match="is text"):
        Vocabulary((b"a", b"b"), 1, 2)
