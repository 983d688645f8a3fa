"""Which tokens may come next, found without any of the engine: all quotes are written out.

Slow, for documents of a few lines. It also trains the vocabularies that the tests are made with.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.vocabulary import Vocabulary

OPENS = re.compile(rb"(?<!\\)(?:\\\\)*%<")
CITES = re.compile(rb"(?<!\\)(?:\\\\)*>%\(")
NEVER = 1 << 30
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Oracle:
    """Reads a text by the rules of the syntax, as plainly as they can be written."""

    def __init__(self, documents: Sequence[tuple[str, str]], shape: AnswerShape) -> None:
        self.shape = shape
        self.whole_ends: set[bytes] = set()
        for title, text in documents:
            for quote in self.quotes(text):
                if shape.form == "quote":
                    self.whole_ends.add(quote.encode())
                else:
                    self.whole_ends.add(f"{escaped(title)})%[{quote}]%".encode())
        self.begun_ends = {end[:size] for end in self.whole_ends for size in range(len(end) + 1)}

    def quotes(self, text: str) -> Iterator[str]:
        """Every quote that a text has, joined ones too."""
        shape = self.shape
        reserved = [] if shape.form == "quote" else ["]%"]
        reserved += [shape.join] if shape.fragments > 1 else []
        cuts = [f.end() - 1 for mark in reserved for f in re.finditer(re.escape(mark), text)]
        fragments = [
            (start, end)
            for start in range(len(text))
            for end in range(start + shape.shortest, len(text) + 1)
            if not any(start < cut < end for cut in cuts)
            and "━" not in (text[start:end] if "━" in reserved else "")
            and not (shape.form != "quote" and text[end - 1] == "\\")
            and not (len(reserved) == 2 and text[start] == "%")
            and not re.search("[\ud800-\udfff]", text[start:end])
        ]
        rows = [[fragment] for fragment in fragments]
        while rows:
            rows = [row for row in rows if sum(e - s for s, e in row) <= shape.longest]
            yield from (shape.join.join(text[s:e] for s, e in row) for row in rows)
            rows = [
                [*row, (start, end)]
                for row in rows
                if len(row) < shape.fragments
                for start, end in fragments
                if start >= row[-1][1]
            ]

    def judge(self, text: bytes) -> tuple[bool, bool]:
        """Whether this is the beginning of something allowed, and whether it is whole."""
        if self.shape.form == "quote":
            return text in self.begun_ends, text in self.whole_ends
        if self.shape.form == "answer":
            return self.outside(text, False)
        if text.startswith(b"%<"):
            return self.claim(text[2:])
        return b"%<".startswith(text), False

    def outside(self, text: bytes, quoted: bool) -> tuple[bool, bool]:
        if quoted and text.startswith(b"%("):
            return self.evidence(text[2:])
        found = OPENS.search(text)
        if found:
            before = text[: found.end() - 2]
            return self.claim(text[found.end() :]) if utf8(before)[1] else (False, False)
        begun, whole = utf8(text)
        return begun, whole and quoted

    def claim(self, text: bytes) -> tuple[bool, bool]:
        found = CITES.search(text)
        if found:
            claim = text[: found.end() - 3]
            return (
                self.evidence(text[found.end() :]) if claim and utf8(claim)[1] else (False, False)
            )
        return utf8(text)[0], False

    def evidence(self, text: bytes) -> tuple[bool, bool]:
        if text in self.begun_ends and text not in self.whole_ends:
            return True, False
        for size in range(len(text) + 1):
            if text[:size] in self.whole_ends:
                rest = text[size:]
                return self.outside(rest, True) if self.shape.form == "answer" else (not rest,) * 2
        return False, False

    def missing(self, text: bytes) -> int:
        """How many bytes a text of the form `claim` or `quote` lacks until it is whole."""
        if self.shape.form == "quote":
            return self.to_end(text)
        lead = b"%<x>%("
        costs = [
            len(middle) + len(lead[at:]) + self.to_end(b"")
            for middle in (b"", b"x", *(byte * n for byte in (b"\x80", b"\xbf") for n in (1, 2, 3)))
            for at in range(len(lead))
            if self.begins_evidence(text + middle + lead[at:])
        ]
        cited = CITES.search(text)
        evidence = self.to_end(text[cited.end() :]) if cited else NEVER
        return min([*costs, evidence])

    def begins_evidence(self, text: bytes) -> bool:
        found = CITES.search(text)
        return found is not None and found.end() == len(text) and self.judge(text)[0]

    def to_end(self, begun: bytes) -> int:
        ends = (len(end) for end in self.whole_ends if end.startswith(begun))
        return min(ends, default=NEVER) - len(begun)

    def allowed(self, text: bytes, vocabulary: Vocabulary, budget: int = NEVER) -> list[int]:
        """The ids that may follow, ascending, if each byte takes one of the tokens that are left
        (or if any number is)."""
        ids = [
            number
            for number, token in enumerate(vocabulary.tokens)
            if token is not None
            and self.judge(text + token)[0]
            and (budget == NEVER or self.missing(text + token) + 1 < budget)
        ]
        return sorted([*ids, vocabulary.end]) if self.judge(text)[1] else ids


def escaped(title: str) -> str:
    """A title as it is written before `)%[`, letter by letter."""
    out, slashes = "", 0
    for at, letter in enumerate(title):
        if title.startswith(")%[", at):
            out += "\\" * slashes + "\\"
        out += letter
        slashes = slashes + 1 if letter == "\\" else 0
    return out + "\\" * slashes


def utf8(data: bytes) -> tuple[bool, bool]:
    """Whether this is the beginning of a text, and whether its last character is whole."""
    for rest in (b"", *(byte * size for size in (1, 2, 3) for byte in (b"\x80", b"\xbf"))):
        try:
            (data + rest).decode()
        except UnicodeDecodeError:
            continue
        return True, not rest
    return False, False


def trained(kind: str, lines: Sequence[str], size: int) -> str:
    """The tokenizer.json of a vocabulary made from these lines.

    gpt2 and llama3 cut words as these models do; greedy cuts nothing, so that its tokens run
    across every mark; sentencepiece writes blanks as ▁ and other bytes as <0x0A>.
    """
    if kind == "sentencepiece":
        return _sentencepiece(lines, size)
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
    cut = [split, level] if kind == "llama3" else [level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cut)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    saved: str = tokenizer.to_str()
    return saved


def _sentencepiece(lines: Sequence[str], size: int) -> str:
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    special = ["<unk>", "<|endoftext|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    saved: dict[str, Any] = json.loads(tokenizer.to_str())
    # As in Llama 2: the bytes are ordinary tokens, and only the others are added ones.
    saved["added_tokens"] = saved["added_tokens"][:2]
    return json.dumps(saved)


def in_lark(documents: Sequence[tuple[str, str]], shape: AnswerShape) -> str:
    """What follows `>%(` in the form `claim`, as a grammar for llguidance.

    Each piece of evidence is one terminal: where the end of the quote is a terminal of its own, a
    text with `foo]` in it does not let `foo` be closed.
    """
    numbers = range(len(documents))
    rules = ['%llguidance {"no_forcing": true}', f"start: {' | '.join(f'E{n}' for n in numbers)}"]
    length = f"{{{shape.shortest},{shape.longest}}}"
    for n, (title, text) in enumerate(documents):
        rules += [
            f'E{n}: {json.dumps(escaped(title) + ")%[")} X{n} "]%"',
            rf"X{n}: Q{n} & /(?s:.{length})/ & ~/(?s:.*)\]%(?s:.*)/ & ~/(?s:.*)\\/",
            f"Q{n}: %regex {json.dumps({'substring_chars': text})}",
        ]
    return "\n".join(rules)
