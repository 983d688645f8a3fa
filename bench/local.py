"""A local model: 64 samples of one long prompt, and 10,000 answers under the verbatim constraint.

Needs no data: both models have random weights, and the pages are the packaged ones. The samples are
drawn at once and in other ways, each in a process of its own with one thread; time is CPU time,
memory the peak of the process beyond the loaded model. The answers are drawn over four pages at a
time. Then SmolLM2 reads and writes in several precisions, beside llama.cpp (`bench.model_speed`).
Prints tables and writes bench/results/local.json.
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
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from bench import report
from bench.model_speed import measure_speeds
from rookery.learn.local_model import LocalModel
from rookery.learn.pretrained_models import load_model
from rookery.learn.random_models import write_tiny_model
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.quotes.citation_syntax import AnswerShape, CitationSyntaxError, parse_inline
from rookery.quotes.constraint import VerbatimConstraint, VerbatimGrammar
from rookery.quotes.verification import verify_quotes
from rookery.records import Page
from rookery.settings import LocalModelSettings

SCRATCH = report.SCRATCH / "local"
SAMPLES, PROMPT, NEW = report.choose_size((64, 4_000, 64), (2, 100, 4))
"""Number of samples, and tokens of the prompt and of each sample."""
HIDDEN, LAYERS, HEADS = report.choose_size((256, 4, 8), (32, 1, 2))
ANSWERS, EACH, BUDGET = report.choose_size((10_000, 250, 80), (4, 2, 80))
"""Number of answers, answers of one prompt, and maximum tokens of one."""
TARGETS = {"speedup": 5, "parsed": 1.0, "verified": 1.0}


def read_pages() -> list[Page]:
    """Return the packaged pages that are long enough to quote."""
    found = [
        read_page(path.read_bytes(), path.as_uri(), "text/html")
        for path in get_bundled_folder().glob("*.html")
    ]
    return sorted((page for page in found if len(page.text) > 1000), key=lambda page: page.title)


def write_larger(folder: Path) -> None:
    """Write a model with the tokenizer of the tiny one that never ends a completion by itself."""
    write_tiny_model(folder, [page.text for page in read_pages()], vocabulary=4_000)
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


def make_prompt(folder: Path) -> str:
    """Return a text of PROMPT tokens, up to the effect of the cut at its end."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "\n\n".join(page.text for page in read_pages())
    offsets = tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return text[: offsets[PROMPT - 1][1]]


def sample_at_once(folder: Path, text: str) -> Callable[[], int]:
    """Return a function that draws every sample in one call."""
    model = LocalModel(folder, LocalModelSettings(max_tokens=NEW, chat=False))
    return lambda: sum(len(said.tokens) for said in model.complete(text, SAMPLES, seed=0))


def sample_rereading(folder: Path, text: str) -> Callable[[], int]:
    """Return a function that draws samples one by one and reads each prompt anew: a number in front
    of it invalidates the kept prefix."""
    model = LocalModel(folder, LocalModelSettings(max_tokens=NEW, chat=False))
    return lambda: sum(
        len(model.complete(f"{number} {text}", seed=number)[0].tokens) for number in range(SAMPLES)
    )


def sample_with_kept_prompt(folder: Path, text: str) -> Callable[[], int]:
    """Return a function that draws samples one by one with the prompt kept."""
    model = LocalModel(folder, LocalModelSettings(max_tokens=NEW, chat=False))
    return lambda: sum(
        len(model.complete(text, seed=number)[0].tokens) for number in range(SAMPLES)
    )


def sample_by_generate(folder: Path, text: str) -> Callable[[], int]:
    """Return a function that draws samples with transformers' `generate`."""
    tokens = torch.tensor([LocalModel(folder, LocalModelSettings(chat=False)).prompt_tokens(text)])
    model: Any = load_model(folder).model
    settings: Any = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, top_k=0, max_new_tokens=NEW, num_return_sequences=SAMPLES, pad_token_id=2
    )
    return lambda: int(
        model.generate(tokens, generation_config=settings)[:, len(tokens[0]) :].numel()
    )


WAYS = {
    "complete, n=64": sample_at_once,
    "64 calls, each prompt read": sample_rereading,
    "64 calls, prompt kept": sample_with_kept_prompt,
    "generate, 64 sequences": sample_by_generate,
}


def measure_way(way: str, folder: Path, text: str) -> dict[str, float]:
    """Measure CPU time and memory of one way, after a warm-up on a prompt of one character."""
    torch.set_num_threads(1)
    work = WAYS[way](folder, text)
    WAYS["complete, n=64"](folder, "x")()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    tokens = work()
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"cpu_s": seconds, "tokens": tokens, "memory_mib": peak / 1024}


def measure_samples() -> dict[str, dict[str, float]]:
    """Measure every way, each in a process of its own."""
    folder = SCRATCH / "larger"
    write_larger(folder)
    text, rows = make_prompt(folder), dict[str, dict[str, float]]()
    for way in WAYS:
        print(f"{way} ...", flush=True)
        with ProcessPoolExecutor(1, report.fresh_processes("rookery.learn.local_model")) as apart:
            rows[way] = apart.submit(measure_way, way, folder, text).result()
    quickest = rows["complete, n=64"]["cpu_s"]
    for row in rows.values():
        row["times"] = row["cpu_s"] / quickest
    return rows


def draw_answers() -> dict[str, float]:
    """Draw answers of a random model under the constraint and count those that parse and verify."""
    folder = SCRATCH / "tiny"
    found = read_pages()
    write_tiny_model(folder, [page.text for page in found])
    model = LocalModel(folder, LocalModelSettings(max_tokens=BUDGET))
    begun = time.process_time()
    counts = dict.fromkeys(("answers", "parsed", "quotes", "verified", "tokens"), 0.0)
    for number in range(ANSWERS // EACH):
        chosen = random.Random(number).sample(found, 4)
        for name, count in count_answers(model, chosen, number):
            counts[name] += count
        if number % 8 == 7:
            print(f"{counts['answers']:,.0f} answers ...", flush=True)
    return {**counts, "cpu_s": time.process_time() - begun}


def count_answers(model: LocalModel, chosen: list[Page], seed: int) -> Iterator[tuple[str, int]]:
    """Yield counts of the answers to one prompt."""
    grammar = VerbatimGrammar(model.vocabulary, AnswerShape(form="answer", free=16, longest=300))
    allow = VerbatimConstraint(
        grammar, [(page.title, page.text) for page in chosen]
    ).make_token_filter(budget=BUDGET)
    given = {page.digest: page for page in chosen}
    for said in model.complete(f"What do crows do? {seed}", EACH, allow, seed=seed * EACH):
        yield "answers", 1
        yield "tokens", len(said.tokens)
        try:
            answer = parse_inline(said.text, chosen)
        except CitationSyntaxError:
            continue
        yield "parsed", bool(answer.claims)
        yield "quotes", len(answer.quotes)
        verdicts = verify_quotes(answer, lambda quote: given.get(quote.digest))
        yield "verified", sum(verdict.verbatim for verdict in verdicts)


def main() -> None:
    """Run the benchmark."""
    speeds = measure_speeds()
    if speeds is None:
        speeds = (report.read_results("local") or {}).get("model_speeds")
    else:
        report.print_table(["perplexity"], speeds["perplexity"])
        report.print_table(list(next(iter(speeds["speeds"].values()))), speeds["speeds"])
    torch.set_num_threads(1)
    rows = measure_samples()
    print(f"{SAMPLES} samples of {NEW} tokens, a prompt of {PROMPT:,}")
    report.print_table(["cpu_s", "times", "memory_mib", "tokens"], rows)
    speedup = rows["64 calls, each prompt read"]["times"]
    print(f"{speedup:.1f} times as fast as separate calls (target {TARGETS['speedup']})")
    counts = draw_answers()
    report.print_table(list(counts), {"constrained answers": counts})
    parsed = counts["parsed"] / counts["answers"]
    verified = counts["verified"] / counts["quotes"]
    print(f"parsed {parsed:.2%}, quotes verified {verified:.2%}")
    report.write_results(
        "local",
        {
            "model_speeds": speeds,
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
