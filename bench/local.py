"""A model of this machine: 64 samples of one long prompt, and 10,000 answers under the constraint.

Needs no data: both models have random weights, and the pages are those that come with the package.
The samples are drawn at once and in other ways, each in a process of its own with one thread; time
is CPU time, memory what the process needed at most beyond the loaded model. The answers are drawn
over four pages at a time. Prints tables and writes bench/results/local.json.
"""

import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from bench import report
from rookery.browse.places import bundled
from rookery.browse.read import read
from rookery.cite.constraint import Constraint
from rookery.cite.grammar import Grammar
from rookery.cite.shape import Shape
from rookery.cite.syntax import BadSyntax, parse_inline
from rookery.cite.verify import verify
from rookery.learn.loading import load
from rookery.learn.local import Local, LocalSettings
from rookery.learn.tiny import write_tiny
from rookery.records import Page

SCRATCH = report.SCRATCH / "local"
SAMPLES, PROMPT, NEW = report.sized((64, 4_000, 64), (2, 100, 4))
"""how many, and the tokens of the prompt and of each"""
HIDDEN, LAYERS, HEADS = report.sized((256, 4, 8), (32, 1, 2))
ANSWERS, EACH, BUDGET = report.sized((10_000, 250, 80), (4, 2, 80))
"""answers, answers of one prompt, and the tokens of one at most"""
TARGETS = {"speedup": 5, "parsed": 1.0, "verified": 1.0}


def pages() -> list[Page]:
    """The bundled pages that are long enough to quote."""
    found = [
        read(path.read_bytes(), path.as_uri(), "text/html") for path in bundled().glob("*.html")
    ]
    return sorted((page for page in found if len(page.text) > 1000), key=lambda page: page.title)


def write_larger(folder: Path) -> None:
    """A model with the tokenizer of the tiny one, which never ends what it says."""
    write_tiny(folder, [page.text for page in pages()], vocabulary=4_000)
    config = LlamaConfig.from_pretrained(folder)
    for name, value in {
        "hidden_size": HIDDEN,
        "head_dim": HIDDEN // HEADS,
        "intermediate_size": 3 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
    }.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[config.eos_token_id] = 0
        model.lm_head.weight *= 4
    config.save_pretrained(folder)
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})


def prompt(folder: Path) -> str:
    """A text of as many tokens, but for the cut at its end."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "\n\n".join(page.text for page in pages())
    offsets = tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return text[: offsets[PROMPT - 1][1]]


def at_once(folder: Path, text: str) -> Callable[[], int]:
    model = Local(folder, LocalSettings(max_tokens=NEW, chat=False))
    return lambda: sum(len(said.tokens) for said in model.complete(text, SAMPLES, seed=0))


def read_again(folder: Path, text: str) -> Callable[[], int]:
    """A word in front of each prompt leaves nothing of the one before."""
    model = Local(folder, LocalSettings(max_tokens=NEW, chat=False))
    return lambda: sum(
        len(model.complete(f"{number} {text}", seed=number)[0].tokens) for number in range(SAMPLES)
    )


def read_once(folder: Path, text: str) -> Callable[[], int]:
    model = Local(folder, LocalSettings(max_tokens=NEW, chat=False))
    return lambda: sum(
        len(model.complete(text, seed=number)[0].tokens) for number in range(SAMPLES)
    )


def generated(folder: Path, text: str) -> Callable[[], int]:
    tokens = torch.tensor([Local(folder, LocalSettings(chat=False)).prompt_tokens(text)])
    model: Any = load(folder).model
    settings: Any = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, top_k=0, max_new_tokens=NEW, num_return_sequences=SAMPLES, pad_token_id=2
    )
    return lambda: int(
        model.generate(tokens, generation_config=settings)[:, len(tokens[0]) :].numel()
    )


WAYS = {
    "complete, n=64": at_once,
    "64 calls, each prompt read": read_again,
    "64 calls, prompt kept": read_once,
    "generate, 64 sequences": generated,
}


def measured(way: str, folder: Path, text: str) -> dict[str, float]:
    """The CPU time and the memory of one way, after a warm-up without a prompt."""
    torch.set_num_threads(1)
    work = WAYS[way](folder, text)
    WAYS["complete, n=64"](folder, "x")()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    tokens = work()
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"cpu_s": seconds, "tokens": tokens, "memory_mib": peak / 1024}


def samples() -> dict[str, dict[str, float]]:
    folder = SCRATCH / "larger"
    write_larger(folder)
    text, rows = prompt(folder), dict[str, dict[str, float]]()
    for way in WAYS:
        print(f"{way} ...", flush=True)
        with ProcessPoolExecutor(1, report.fresh_processes("rookery.learn.local")) as apart:
            rows[way] = apart.submit(measured, way, folder, text).result()
    quickest = rows["complete, n=64"]["cpu_s"]
    for row in rows.values():
        row["times"] = row["cpu_s"] / quickest
    return rows


def answers() -> dict[str, float]:
    """What became of answers that a random model drew under the constraint."""
    folder = SCRATCH / "tiny"
    found = pages()
    write_tiny(folder, [page.text for page in found])
    model = Local(folder, LocalSettings(max_tokens=BUDGET))
    begun = time.process_time()
    counts = dict.fromkeys(("answers", "parsed", "quotes", "verified", "tokens"), 0.0)
    for number in range(ANSWERS // EACH):
        chosen = random.Random(number).sample(found, 4)
        for name, count in drawn(model, chosen, number):
            counts[name] += count
        if number % 8 == 7:
            print(f"{counts['answers']:,.0f} answers ...", flush=True)
    return {**counts, "cpu_s": time.process_time() - begun}


def drawn(model: Local, chosen: list[Page], seed: int) -> Iterator[tuple[str, int]]:
    """Of one prompt."""
    grammar = Grammar(model.vocabulary, Shape(form="answer", free=16, longest=300))
    allow = Constraint(grammar, [(page.title, page.text) for page in chosen]).allow(budget=BUDGET)
    given = {page.digest: page for page in chosen}
    for said in model.complete(f"What do crows do? {seed}", EACH, allow, seed=seed * EACH):
        yield "answers", 1
        yield "tokens", len(said.tokens)
        try:
            answer = parse_inline(said.text, chosen)
        except BadSyntax:
            continue
        yield "parsed", bool(answer.claims)
        yield "quotes", len(answer.quotes)
        verdicts = verify(answer, lambda quote: given.get(quote.digest))
        yield "verified", sum(verdict.verbatim for verdict in verdicts)


def main() -> None:
    rows = samples()
    print(f"{SAMPLES} samples of {NEW} tokens, a prompt of {PROMPT:,}")
    report.show(["cpu_s", "times", "memory_mib", "tokens"], rows)
    speedup = rows["64 calls, each prompt read"]["times"]
    print(f"{speedup:.1f} times as fast as separate calls (target {TARGETS['speedup']})")
    counts = answers()
    report.show(list(counts), {"constrained answers": counts})
    parsed = counts["parsed"] / counts["answers"]
    verified = counts["verified"] / counts["quotes"]
    print(f"parsed {parsed:.2%}, quotes verified {verified:.2%}")
    report.write(
        "local",
        {
            "samples": rows,
            "speedup": speedup,
            "answers": counts,
            "parsed": parsed,
            "verified": verified,
            "targets": TARGETS,
        },
    )


if __name__ == "__main__":
    main()
