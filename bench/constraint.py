"""The verbatim constraint beside llguidance: set-up, time per step, exactness, sampled answers.

Reads ../shared/data/squad and prose; needs numpy, tokenizers and llguidance. Vocabularies are
trained once, into bench/scratch. Prints tables and writes bench/results/constraint.json. Time is
CPU time of the calling thread; the two engines take turns at every step. llguidance is asked for
the tokens after `>%(`, with one terminal per document and without forcing: then it allows the same
tokens.
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
from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import (
    DecodingState,
    IndexedDocument,
    VerbatimConstraint,
    VerbatimGrammar,
    index_document,
)
from rookery.quotes.verification import check_quote
from rookery.quotes.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Page

SCRATCH = report.SCRATCH / "constraint"
END = "<|endoftext|>"
LEAD = "%<x>%("
TITLE = "The crows (and jays)"
SIZES = report.choose_size(
    {"1k": 1_000, "4k": 4_000, "16k": 16_000, "64k": 64_000}, {"1k": 100, "64k": 400}
)
"""Tokens of the documents."""
VOCABULARIES = report.choose_size(
    {"32k": (32_768, "gpt2"), "50k": (50_257, "gpt2"), "150k": (151_000, "llama3")},
    {"32k": (600, "gpt2"), "150k": (700, "llama3")},
)
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QUOTES = report.choose_size(40, 2)
"""Quotes written in each document with each vocabulary, twice."""
ROUNDS = report.choose_size(3, 1)
"""Rounds, each from a fresh start; the fastest counts at each step, since others use the
machine."""
BRUTE_STEPS = report.choose_size(4_000, 50)
"""Steps compared with brute force for each vocabulary."""
SAMPLES = report.choose_size(5_000, 25)
"""Answers of each form."""
BOUNDLESS = AnswerShape(longest=10**6)
TARGETS = {"median_ms": 0.15, "p99_ms": 0.5, "p99_64k_ms": 1.2, "setup_ratio": 1 / 3}

Seconds = npt.NDArray[np.float64]


def read_texts() -> list[str]:
    """Return paragraphs of the encyclopaedia, then of novels."""
    found = [paragraph["context"] for a in read_articles() for paragraph in a["paragraphs"]]
    for path in sorted((report.DATA / "prose").glob("*.xz")):
        found += lzma.decompress(path.read_bytes()).decode().split("\n\n")
    return found


def read_articles() -> list[Any]:
    """Return the articles of SQuAD."""
    data = (report.DATA / "squad" / "train.json.xz").read_bytes()
    found: list[Any] = json.loads(lzma.decompress(data))["data"]
    return found


def train_tokenizer(name: str, lines: Sequence[str]) -> Path:
    """Train a vocabulary once and return the path of its tokenizer.json."""
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


def time_call(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of this thread that a call takes, and its result."""
    begun = time.thread_time()
    result = work()
    return time.thread_time() - begun, result


def time_quickest(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the fastest of several timed calls, with its result."""
    return min([time_call(work) for _ in range(ROUNDS)], key=lambda found: found[0])


class LlguidanceEngine:
    """Ask llguidance for the same tokens."""

    def __init__(self, tokenizer: Path, end: int) -> None:
        import llguidance

        self._engine = llguidance
        self.tokenizer = llguidance.LLTokenizer(str(tokenizer), eos_token=end)

    def make_matcher(self, text: str, shape: AnswerShape) -> Any:
        """Return a matcher ready for the first mask, with only the rules that this text needs."""
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


def time_steps(
    document: IndexedDocument,
    grammar: VerbatimGrammar,
    matcher: Any,
    written: Sequence[Sequence[int]],
) -> tuple[Seconds, int]:
    """Time mask and advance at each step of these answers, ours and theirs, at first and at second
    writing (array 2 × 2 × steps); also count the masks that differ."""
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    constraint, random, differing = VerbatimConstraint(grammar, [document]), Random(1), 0
    mask = allocate_token_bitmask(1, grammar.vocabulary.width)
    mine = np.zeros_like(mask[0])
    taken: tuple[list[float], list[float]] = ([], [])
    for ids in (*written, *written):
        states, copy = [constraint.start_decoding(LEAD)], matcher.deep_copy()
        for token in ids:

            def ours(states: list[DecodingState] = states, token: int = token) -> None:
                write_bitmask(states[0], mine)
                states[0] = states[0].append_token(token)

            def theirs(copy: Any = copy, token: int = token) -> None:
                fill_next_token_bitmask(copy, mask)
                copy.consume_token(token)

            for work, kept in random.sample(((ours, taken[0]), (theirs, taken[1])), 2):
                kept.append(time_call(work)[0])
            differing += not np.array_equal(mine, mask[0])
        if copy.is_error():
            raise RuntimeError(copy.get_error())
    return np.array(taken).reshape(2, 2, -1), differing


def write_bitmask(state: DecodingState, out: npt.NDArray[np.int32]) -> None:
    """Write the allowed ids as bits, id 0 being the lowest bit of `out[0]`."""
    bits = np.zeros(32 * len(out), bool)
    bits[state.find_allowed_ids()] = True
    out[:] = np.packbits(bits, bitorder="little").view("<i4")


def summarize_times(taken: Seconds) -> dict[str, float]:
    """Return median, 99th percentile and maximum in milliseconds."""
    median, p99, most = 1e3 * np.quantile(taken, (0.5, 0.99, 1))
    return {"median_ms": float(median), "p99_ms": float(p99), "max_ms": float(most)}


def draw_quotes(text: str, random: Random) -> list[str]:
    """Draw spans of 20 to 300 characters without white space around them."""
    found: list[str] = []
    while len(found) < QUOTES:
        start = random.randrange(max(1, len(text) - 300))
        quote = text[start : start + random.randint(20, 300)].strip()
        if len(quote) >= 20 and "]%" not in quote:
            found.append(quote)
    return found


def time_whole_answers(
    document: IndexedDocument, grammar: VerbatimGrammar, tokenizer: Tokenizer, said: Sequence[str]
) -> list[float]:
    """Time each step of whole answers, claims included."""
    constraint, taken = VerbatimConstraint(grammar, [document]), list[float]()
    mask = np.zeros(-(-grammar.vocabulary.width // 32), np.int32)
    for quote in said:
        states = [constraint.start_decoding()]
        answer = f"%<Birds of this kind are known to be clever.>%({TITLE})%[{quote}]%"
        for token in (*tokenizer.encode(answer).ids, grammar.vocabulary.end):

            def step(states: list[DecodingState] = states, token: int = token) -> None:
                write_bitmask(states[0], mask)
                states[0] = states[0].append_token(token)

            taken.append(time_call(step)[0])
    return taken


def compare_engines(
    name: str, lines: Sequence[str], corpus: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the figures of one vocabulary, then of it with documents of every size."""
    path = train_tokenizer(name, lines)
    reading, words = time_quickest(lambda: read_vocabulary(path, END))
    making, grammar = time_quickest(lambda: VerbatimGrammar(words, BOUNDLESS))
    preparing, peer = time_quickest(lambda: LlguidanceEngine(path, words.end))
    yield name, {"vocabulary_s": reading + making, "theirs_vocabulary_s": preparing}
    tokenizer, random = Tokenizer.from_file(str(path)), Random(name)
    sizes = [end for _, end in tokenizer.encode(corpus).offsets]
    for size, tokens in SIZES.items():
        text = corpus[: sizes[tokens]]
        document = index_document(grammar, TITLE, text)
        indexing, _ = time_quickest(partial(VerbatimConstraint, grammar, [(TITLE, text)]))
        said = draw_quotes(text, random)
        evidence = [tokenizer.encode(f"{TITLE})%[{quote}]%").ids for quote in said]
        rounds, building = list[tuple[Seconds, int]](), list[float]()
        for _ in range(ROUNDS):
            built, matcher = time_call(partial(peer.make_matcher, text, grammar.shape))
            rounds.append(time_steps(document, grammar, matcher, evidence))
            building.append(built)
        (ours, again), (theirs, theirs_again) = np.min([taken for taken, _ in rounds], axis=0)
        whole = [time_whole_answers(document, grammar, tokenizer, said) for _ in range(ROUNDS)]
        yield (
            f"{name}, {size}",
            {
                "setup_ms": 1e3 * indexing,
                "theirs_setup_ms": 1e3 * min(building),
                "ours": summarize_times(ours),
                "ours_again": summarize_times(again),
                "theirs": summarize_times(theirs),
                "theirs_again": summarize_times(theirs_again),
                "whole": summarize_times(np.min(whole, axis=0)),
                "steps": sum(taken[0].size for taken, _ in rounds),
                "differing": sum(differing for _, differing in rounds),
                "bytes_each": count_bytes(document) / len(text.encode()),
            },
        )


def count_bytes(value: Any) -> int:
    """Count the bytes of the arrays in a document."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(count_bytes, value)) if isinstance(value, tuple) else 0


def make_brute_force(
    text: str, words: Vocabulary, shape: AnswerShape
) -> Callable[[bytes], list[int]]:
    """Return a function that lists the tokens allowed after `>%(` and these bytes, by searching the
    text for every token.

    For texts without `]%` and backslashes.
    """
    data, head = text.encode(), f"{TITLE})%[".encode()
    parts = {
        n: t
        for n, t in enumerate(words.tokens)
        if t and (t in data or set(t) & set(b"[]") or t in head)
    }
    far = {end for end in range(len(data) + 1) if end == len(data) or data[end] & 0xC0 != 0x80}

    def is_in_text(said: bytes, whole: bool) -> bool:
        """Return True if the text contains these bytes where a quote may stand: complete (`whole`),
        or with room to reach the shortest length."""
        at = data.find(said)
        while at >= 0:
            end = at + len(said)
            long = len(data[at:end].decode(errors="ignore")) >= shape.shortest
            room = len(data[at:].decode(errors="ignore")) >= shape.shortest
            if at in far and (long and end in far if whole else room):
                return True
            at = data.find(said, at + 1)
        return False

    def is_legal(said: bytes) -> bool:
        """Return True if these bytes are the beginning of some allowed evidence."""
        if len(said) <= len(head):
            return head.startswith(said)
        quote = said[len(head) :]
        ended = [quote[: -len(end)] for end in (b"]", b"]%") if quote.endswith(end)]
        return said.startswith(head) and (
            is_in_text(quote, whole=False) or any(is_in_text(q, whole=True) for q in ended if q)
        )

    def list_allowed(said: bytes) -> list[int]:
        """List the ids allowed next."""
        if said.endswith(b"]%") and is_legal(said) and is_in_text(said[len(head) : -2], whole=True):
            return [words.end]
        return [number for number, token in parts.items() if is_legal(said + token)]

    return list_allowed


def compare_with_brute_force(words: Vocabulary, lines: Sequence[str], name: str) -> tuple[int, int]:
    """Compare random evidence from short texts with brute force; return the steps, and how many
    differ."""
    grammar, random = VerbatimGrammar(words), Random(name)
    short = [t for t in lines if 200 < len(t) < 400 and "]%" not in t and "\\" not in t]
    steps = differing = 0
    while steps < BRUTE_STEPS:
        text = random.choice(short)
        allowed, constraint = (
            make_brute_force(text, words, grammar.shape),
            VerbatimConstraint(grammar, [(TITLE, text)]),
        )
        for _ in range(10):
            state, said = constraint.start_decoding(LEAD), b""
            while not state.done:
                ids = state.find_allowed_ids().tolist()
                differing += ids != allowed(said)
                token = random.choice(ids)
                said += words.tokens[token] or b""
                state = state.append_token(token)
                steps += 1
    return steps, differing


def sample_answers(words: Vocabulary, form: Any, pages: Sequence[Page]) -> dict[str, int]:
    """Draw answers token by token, uniformly from those allowed, and count those that parse and the
    quotes that verify."""
    grammar, random = VerbatimGrammar(words, AnswerShape(form=form, free=24)), Random(form)
    counts = dict.fromkeys(("answers", "parsed", "quotes", "verified", "tokens"), 0)
    documents = [index_document(grammar, page.title, page.text) for page in pages]
    while counts["answers"] < SAMPLES:
        chosen = random.sample(range(len(pages)), 4)
        constraint = VerbatimConstraint(grammar, [documents[n] for n in chosen])
        given = {pages[n].digest: pages[n] for n in chosen}
        for _ in range(25):
            state, said = constraint.start_decoding(budget=200), list[int]()
            while not state.done:
                said.append(int(random.choice(state.find_allowed_ids())))
                state = state.append_token(said[-1])
            counts["answers"] += 1
            counts["tokens"] += len(said)
            written = [pages[chosen[n]].text[s:e] for ((n, s, e),) in state.locate_quotes()]
            counts["quotes"] += len(written)
            try:
                answer = parse_inline(words.decode(said).decode(), list(given.values()))
            except ValueError:
                continue
            counts["parsed"] += bool(answer.claims)
            found = {q.text for q in answer.quotes if check_quote(q, given[q.digest]).verified}
            counts["verified"] += sum(quote in found for quote in written)
    return counts


def main() -> None:
    """Run the benchmark."""
    for name in ("squad", "prose"):
        report.require_data(report.DATA / name)
    report.require_peers("llguidance")
    lines = read_texts()
    corpus = "\n\n".join(lines[:2000]).replace("\\", "")
    rows: dict[str, dict[str, Any]] = {}
    for name in VOCABULARIES:
        rows |= compare_engines(name, lines, corpus)
    print_tables(rows)
    vocabularies = {
        name: read_vocabulary(train_tokenizer(name, lines), END) for name in VOCABULARIES
    }
    brute = {
        name: compare_with_brute_force(words, lines, name) for name, words in vocabularies.items()
    }
    steps, wrong = (sum(column) for column in zip(*brute.values(), strict=True))
    print(f"steps that differ from brute force: {wrong} of {steps:,}")
    pages = read_pages()
    samples = {
        form: sample_answers(vocabularies["32k"], form, pages) for form in ("claim", "answer")
    }
    print("answers drawn evenly from what is allowed, and their quotes")
    report.print_table(list(samples["claim"]), samples)
    report.write_results(
        "constraint",
        {
            "rows": rows,
            "targets": TARGETS,
            "brute_steps": steps,
            "brute_differing": wrong,
            "samples": samples,
        },
    )


def read_pages() -> list[Page]:
    """Return the first paragraph of each article as a page under the article's title."""
    return [
        Page(
            f"https://squad.example/{number}",
            article["title"].replace("_", " "),
            article["paragraphs"][0]["context"],
        )
        for number, article in enumerate(read_articles())
    ]


def print_tables(rows: dict[str, dict[str, Any]]) -> None:
    """Print the measurements as tables."""
    print(
        "set-up: a vocabulary in seconds, a document in milliseconds, bytes kept for each of text"
    )
    columns = ["vocabulary_s", "theirs_vocabulary_s", "setup_ms", "theirs_setup_ms", "bytes_each"]
    report.print_table(columns, rows)
    cells = {name: row for name, row in rows.items() if "ours" in row}
    for figure in ("median_ms", "p99_ms", "max_ms"):
        print(f"{figure} of mask and advance")
        kinds = ["ours", "theirs", "ours_again", "theirs_again", "whole"]
        table = {name: {kind: row[kind][figure] for kind in kinds} for name, row in cells.items()}
        report.print_table(kinds, table)
    steps, wrong = (sum(row[key] for row in cells.values()) for key in ("steps", "differing"))
    print(f"masks that differ from llguidance's: {wrong} of {steps:,}")


if __name__ == "__main__":
    main()
