"""The verbatim constraint beside llguidance: set-up, time of a step, exactness, sampled answers.

Reads ../shared/data/squad and prose; needs numpy, tokenizers and llguidance. Vocabularies are made
once, into bench/scratch. Prints tables and writes bench/results/constraint.json. Time is CPU time
of the calling thread; the two engines take turns at every step. llguidance is asked what follows
`>%(`, and is given one terminal a document, without forcing: then it allows the same tokens.
"""

import json
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from bench import report
from rookery.cite.constraint import Constraint, State
from rookery.cite.grammar import Grammar
from rookery.cite.matches import Document, index
from rookery.cite.shape import Shape
from rookery.cite.syntax import parse_inline
from rookery.cite.verify import check
from rookery.cite.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Page

SCRATCH = report.SCRATCH / "constraint"
END = "<|endoftext|>"
LEAD = "%<x>%("
TITLE = "The crows (and jays)"
SIZES = report.sized(
    {"1k": 1_000, "4k": 4_000, "16k": 16_000, "64k": 64_000}, {"1k": 100, "64k": 400}
)
"""documents by their tokens"""
VOCABULARIES = report.sized(
    {"32k": (32_768, "gpt2"), "50k": (50_257, "gpt2"), "150k": (151_000, "llama3")},
    {"32k": (600, "gpt2"), "150k": (700, "llama3")},
)
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QUOTES = report.sized(40, 2)
"""written in each document with each vocabulary, twice"""
ROUNDS = report.sized(3, 1)
"""of which the quickest counts at each step, for others use the machine; each begins anew"""
BRUTE_STEPS = report.sized(4_000, 50)
"""with each vocabulary"""
SAMPLES = report.sized(5_000, 25)
"""answers of each form"""
BOUNDLESS = Shape(longest=10**6)
TARGETS = {"median_ms": 0.15, "p99_ms": 0.5, "p99_64k_ms": 1.2, "setup_ratio": 1 / 3}

Seconds = npt.NDArray[np.float64]


def texts() -> list[str]:
    """Paragraphs of encyclopaedia, then of novels."""
    found = [paragraph["context"] for a in articles() for paragraph in a["paragraphs"]]
    for path in sorted((report.DATA / "prose").glob("*.xz")):
        found += lzma.decompress(path.read_bytes()).decode().split("\n\n")
    return found


def articles() -> list[Any]:
    """Of SQuAD."""
    data = (report.DATA / "squad" / "train.json.xz").read_bytes()
    found: list[Any] = json.loads(lzma.decompress(data))["data"]
    return found


def made(name: str, lines: Sequence[str]) -> Path:
    """The tokenizer.json of one of the vocabularies."""
    path, (size, kind) = SCRATCH / f"{name}.json", VOCABULARIES[name]
    if path.exists():
        return path
    SCRATCH.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
    steps = [split, level] if kind == "llama3" else [level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(path))
    return path


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of this thread, and what the work gave."""
    begun = time.thread_time()
    result = work()
    return time.thread_time() - begun, result


def quickest(work: Callable[[], Any]) -> tuple[float, Any]:
    """The same, of the quickest of a few rounds."""
    return min([seconds(work) for _ in range(ROUNDS)], key=lambda found: found[0])


class Peer:
    """llguidance, asked for the same."""

    def __init__(self, tokenizer: Path, end: int) -> None:
        import llguidance

        self._engine = llguidance
        self.tokenizer = llguidance.LLTokenizer(str(tokenizer), eos_token=end)

    def matcher(self, text: str, shape: Shape) -> Any:
        """Ready for the first mask. Only what this text needs is asked of it."""
        apart = r" & ~/(?s:.*)\]%(?s:.*)/" if "]%" in text else ""
        grammar = "\n".join(
            (
                '%llguidance {"no_forcing": true}',
                "start: E",
                f'E: {json.dumps(TITLE + ")%[")} X "]%"',
                f"X: Q & /(?s:.{{{shape.shortest},}})/{apart}",
                f"Q: %regex {json.dumps({'substring_chars': text})}",
            )
        )
        matcher = self._engine.LLMatcher(
            self.tokenizer,
            self._engine.LLMatcher.grammar_from_lark(grammar),
            limits=self._engine.LLParserLimits(
                initial_lexer_fuel=2_000_000_000,
                step_lexer_fuel=2_000_000_000,
                max_lexer_states=10**7,
            ),
            log_level=0,
        )
        if matcher.is_error():
            raise RuntimeError(matcher.get_error())
        return matcher


def step_times(
    document: Document, grammar: Grammar, matcher: Any, written: Sequence[Sequence[int]]
) -> tuple[Seconds, int]:
    """The time of mask and advance in each step of these answers, ours and theirs, when they are
    written first and when they are written again: 2 × 2 × steps; and how many masks differ."""
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    constraint, random, differing = Constraint(grammar, [document]), Random(1), 0
    mask = allocate_token_bitmask(1, grammar.vocabulary.width)
    mine = np.zeros_like(mask[0])
    taken: tuple[list[float], list[float]] = ([], [])
    for ids in (*written, *written):
        state, copy = constraint.begin(LEAD), matcher.deep_copy()
        for token in ids:

            def ours(state: State = state, token: int = token) -> None:
                state.bitmask(mine)
                state.advance(token)

            def theirs(copy: Any = copy, token: int = token) -> None:
                fill_next_token_bitmask(copy, mask)
                copy.consume_token(token)

            for work, kept in random.sample(((ours, taken[0]), (theirs, taken[1])), 2):
                kept.append(seconds(work)[0])
            differing += not np.array_equal(mine, mask[0])
        if copy.is_error():
            raise RuntimeError(copy.get_error())
    return np.array(taken).reshape(2, 2, -1), differing


def summary(taken: Seconds) -> dict[str, float]:
    """In milliseconds."""
    median, p99, most = 1e3 * np.quantile(taken, (0.5, 0.99, 1))
    return {"median_ms": float(median), "p99_ms": float(p99), "max_ms": float(most)}


def quotes(text: str, random: Random) -> list[str]:
    """Spans of 20 to 300 characters, without white space round them."""
    found: list[str] = []
    while len(found) < QUOTES:
        start = random.randrange(max(1, len(text) - 300))
        quote = text[start : start + random.randint(20, 300)].strip()
        if len(quote) >= 20 and "]%" not in quote:
            found.append(quote)
    return found


def whole_answers(
    document: Document, grammar: Grammar, tokenizer: Tokenizer, said: Sequence[str]
) -> list[float]:
    """The seconds of each step of whole answers, their claims included."""
    constraint, taken = Constraint(grammar, [document]), list[float]()
    mask = np.zeros(-(-grammar.vocabulary.width // 32), np.int32)
    for quote in said:
        state = constraint.begin()
        answer = f"%<Birds of this kind are known to be clever.>%({TITLE})%[{quote}]%"
        for token in (*tokenizer.encode(answer).ids, grammar.vocabulary.end):

            def step(state: State = state, token: int = token) -> None:
                state.bitmask(mask)
                state.advance(token)

            taken.append(seconds(step)[0])
    return taken


def compare(name: str, lines: Sequence[str], corpus: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of one vocabulary with documents of every size."""
    path = made(name, lines)
    reading, words = quickest(lambda: read_vocabulary(path, END))
    making, grammar = quickest(lambda: Grammar(words, BOUNDLESS))
    preparing, peer = quickest(lambda: Peer(path, words.end))
    yield name, {"vocabulary_s": reading + making, "theirs_vocabulary_s": preparing}
    tokenizer, random = Tokenizer.from_file(str(path)), Random(name)
    sizes = [end for _, end in tokenizer.encode(corpus).offsets]
    for size, tokens in SIZES.items():
        text = corpus[: sizes[tokens]]
        document = index(grammar, TITLE, text)
        indexing, _ = quickest(partial(Constraint, grammar, [(TITLE, text)]))
        said = quotes(text, random)
        evidence = [tokenizer.encode(f"{TITLE})%[{quote}]%").ids for quote in said]
        rounds, building = list[tuple[Seconds, int]](), list[float]()
        for _ in range(ROUNDS):
            built, matcher = seconds(partial(peer.matcher, text, grammar.shape))
            rounds.append(step_times(document, grammar, matcher, evidence))
            building.append(built)
        (ours, again), (theirs, theirs_again) = np.min([taken for taken, _ in rounds], axis=0)
        whole = [whole_answers(document, grammar, tokenizer, said) for _ in range(ROUNDS)]
        yield (
            f"{name}, {size}",
            {
                "setup_ms": 1e3 * indexing,
                "theirs_setup_ms": 1e3 * min(building),
                "ours": summary(ours),
                "ours_again": summary(again),
                "theirs": summary(theirs),
                "theirs_again": summary(theirs_again),
                "whole": summary(np.min(whole, axis=0)),
                "steps": sum(taken[0].size for taken, _ in rounds),
                "differing": sum(differing for _, differing in rounds),
                "bytes_each": stored(document) / len(text.encode()),
            },
        )


def stored(value: Any) -> int:
    """Bytes of the arrays in a document."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(stored, value)) if isinstance(value, tuple) else 0


def by_force(text: str, words: Vocabulary, shape: Shape) -> Callable[[bytes], list[int]]:
    """What may follow `>%(` and these bytes, found by looking for every token in the text.

    For a text without `]%` and backslashes.
    """
    data, head = text.encode(), f"{TITLE})%[".encode()
    parts = {
        n: t
        for n, t in enumerate(words.tokens)
        if t and (t in data or set(t) & set(b"[]") or t in head)
    }
    far = {end for end in range(len(data) + 1) if end == len(data) or data[end] & 0xC0 != 0x80}

    def begun(said: bytes, whole: bool) -> bool:
        at = data.find(said)
        while at >= 0:
            end = at + len(said)
            long = len(data[at:end].decode(errors="ignore")) >= shape.shortest
            room = len(data[at:].decode(errors="ignore")) >= shape.shortest
            if at in far and (long and end in far if whole else room):
                return True
            at = data.find(said, at + 1)
        return False

    def legal(said: bytes) -> bool:
        if len(said) <= len(head):
            return head.startswith(said)
        quote = said[len(head) :]
        ended = [quote[: -len(end)] for end in (b"]", b"]%") if quote.endswith(end)]
        return said.startswith(head) and (
            begun(quote, whole=False) or any(begun(q, whole=True) for q in ended if q)
        )

    def allowed(said: bytes) -> list[int]:
        if said.endswith(b"]%") and legal(said) and begun(said[len(head) : -2], whole=True):
            return [words.end]
        return [number for number, token in parts.items() if legal(said + token)]

    return allowed


def forced(words: Vocabulary, lines: Sequence[str], name: str) -> tuple[int, int]:
    """Steps of random evidence from short texts, and how many differ from brute force."""
    grammar, random = Grammar(words), Random(name)
    short = [t for t in lines if 200 < len(t) < 400 and "]%" not in t and "\\" not in t]
    steps = differing = 0
    while steps < BRUTE_STEPS:
        text = random.choice(short)
        allowed, constraint = (
            by_force(text, words, grammar.shape),
            Constraint(grammar, [(TITLE, text)]),
        )
        for _ in range(10):
            state, said = constraint.begin(LEAD), b""
            while not state.done:
                ids = state.allowed().tolist()
                differing += ids != allowed(said)
                token = random.choice(ids)
                said += words.tokens[token] or b""
                state.advance(token)
                steps += 1
    return steps, differing


def sampled(words: Vocabulary, form: Any, pages: Sequence[Page]) -> dict[str, int]:
    """What became of answers whose every token was drawn evenly from those allowed."""
    grammar, random = Grammar(words, Shape(form=form, free=24)), Random(form)
    counts = dict.fromkeys(("answers", "parsed", "quotes", "verified", "tokens"), 0)
    documents = [index(grammar, page.title, page.text) for page in pages]
    while counts["answers"] < SAMPLES:
        chosen = random.sample(range(len(pages)), 4)
        constraint = Constraint(grammar, [documents[n] for n in chosen])
        given = {pages[n].digest: pages[n] for n in chosen}
        for _ in range(25):
            state, said = constraint.begin(budget=200), list[int]()
            while not state.done:
                said.append(int(random.choice(state.allowed())))
                state.advance(said[-1])
            counts["answers"] += 1
            counts["tokens"] += len(said)
            written = [pages[chosen[n]].text[s:e] for ((n, s, e),) in state.sources()]
            counts["quotes"] += len(written)
            try:
                answer = parse_inline(words.spelt(said).decode(), list(given.values()))
            except ValueError:
                continue
            counts["parsed"] += bool(answer.claims)
            found = {q.text for q in answer.quotes if check(q, given[q.digest]).verified}
            counts["verified"] += sum(quote in found for quote in written)
    return counts


def main() -> None:
    for name in ("squad", "prose"):
        report.require(report.DATA / name)
    report.require_peers("llguidance")
    lines = texts()
    corpus = "\n\n".join(lines[:2000]).replace("\\", "")
    rows: dict[str, dict[str, Any]] = {}
    for name in VOCABULARIES:
        rows |= compare(name, lines, corpus)
    show(rows)
    vocabularies = {name: read_vocabulary(made(name, lines), END) for name in VOCABULARIES}
    brute = {name: forced(words, lines, name) for name, words in vocabularies.items()}
    steps, wrong = (sum(column) for column in zip(*brute.values(), strict=True))
    print(f"steps that differ from brute force: {wrong} of {steps:,}")
    pages = paragraphs()
    samples = {form: sampled(vocabularies["32k"], form, pages) for form in ("claim", "answer")}
    print("answers drawn evenly from what is allowed, and their quotes")
    report.show(list(samples["claim"]), samples)
    report.write(
        "constraint",
        {
            "rows": rows,
            "targets": TARGETS,
            "brute_steps": steps,
            "brute_differing": wrong,
            "samples": samples,
        },
    )


def paragraphs() -> list[Page]:
    """One paragraph of each article, under the article's title."""
    return [
        Page(
            f"https://squad.example/{number}",
            article["title"].replace("_", " "),
            article["paragraphs"][0]["context"],
        )
        for number, article in enumerate(articles())
    ]


def show(rows: dict[str, dict[str, Any]]) -> None:
    """What was measured, as tables."""
    print(
        "set-up: a vocabulary in seconds, a document in milliseconds, bytes kept for each of text"
    )
    columns = ["vocabulary_s", "theirs_vocabulary_s", "setup_ms", "theirs_setup_ms", "bytes_each"]
    report.show(columns, rows)
    cells = {name: row for name, row in rows.items() if "ours" in row}
    for figure in ("median_ms", "p99_ms", "max_ms"):
        print(f"{figure} of mask and advance")
        kinds = ["ours", "theirs", "ours_again", "theirs_again", "whole"]
        table = {name: {kind: row[kind][figure] for kind in kinds} for name, row in cells.items()}
        report.show(kinds, table)
    steps, wrong = (sum(row[key] for row in cells.values()) for key in ("steps", "differing"))
    print(f"masks that differ from llguidance's: {wrong} of {steps:,}")


if __name__ == "__main__":
    main()
