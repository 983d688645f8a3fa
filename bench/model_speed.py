"""SmolLM2 on this processor: reading and writing in several precisions, beside llama.cpp.

Reading is a prompt in chunks, writing one sequence and 16 that share a prompt, as `LocalModel` does
both. All ways take turns, with one thread and with two; speeds are tokens for each second of CPU
time and thread, and how many times that is of float32 in the same turn; both are medians of the
turns, so that other work on the machine distorts them little.
Perplexity is that of the beginning of a packaged page. llama.cpp reads the same weights as they are
stored (Q4_1); its package is built for any x86-64 processor: make .venv/llama/ready.
"""

import json
import math
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch

from bench import report
from rookery.learn.decoding import PrefixBranches, enable_prefix_sharing, prefill_prompt
from rookery.learn.model_import import PACKAGED_MODELS, write_packaged_model
from rookery.learn.pretrained_models import load_model
from rookery.learn.random_models import write_tiny_model
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page

PAGE = "gifts-from-crows.html"
PACKAGE = PACKAGED_MODELS["smollm2"]
LLAMA_CPP = report.ROOT / ".venv" / "llama" / "bin" / "python"
LLAMA_CPP_PROGRAM = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_gpu_layers, settings.warmup = sys.argv[1], 0, False
settings.n_ctx, settings.n_parallel = 16 * 512, 16
for threads in (settings.cpuparams, settings.cpuparams_batch):
    threads.n_threads, threads.poll = int(sys.argv[2]), 0
server = xllamacpp.Server(settings)
fixed = {"temperature": 0, "ignore_eos": True, "cache_prompt": False}
for line in sys.stdin:
    prompt, new, rows = json.loads(line)
    asked = {"prompt": prompt, "n_predict": new, **fixed}
    begun = time.process_time()
    with ThreadPoolExecutor(rows) as pool:
        list(pool.map(lambda _: server.handle_completions(asked), range(rows)))
    print(json.dumps(time.process_time() - begun), flush=True)
os._exit(0)
"""
PROMPT, ALONE, TOGETHER = report.choose_size((256, 16, 8), (40, 2, 2))
"""tokens of the prompt that is read, of a sequence that is written alone, of each of ROWS"""
SHORT, ROWS = 16, 16
"""tokens of the prompt behind which is written; sequences that are written together"""
TURNS, THREADS = report.choose_size((3, (1, 2)), (1, (1,)))
SPEEDS = ("read", "alone", "together")
Turns = dict[tuple[int, str], list[dict[str, float]]]
"""by threads and way, the speeds of each turn"""
Cost = Callable[[], dict[str, float]]
"""returns tokens a second of one turn: read, alone, together"""


def quantize_linear_layers(model: Any, dtype: torch.dtype) -> Any:
    """Return a copy whose linear layers keep weights of this type (torch's dynamic quantisation).

    float16: fbgemm converts them while it multiplies. qint8: activations are rounded, too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to move it to another package
        quantize: Any = torch.ao.quantization.quantize_dynamic
        return quantize(model, {torch.nn.Linear}, dtype=dtype)


PRECISIONS: dict[str, Callable[[Path], Any]] = {
    "float32": lambda folder: load_model(folder, "cpu", "float32").model,
    "bfloat16": lambda folder: load_model(folder, "cpu", "bfloat16").model,
    "float16 weights": lambda folder: quantize_linear_layers(
        load_model(folder, "cpu", "float32").model, torch.float16
    ),
    "int8": lambda folder: quantize_linear_layers(
        load_model(folder, "cpu", "float32").model, torch.qint8
    ),
}


def find_gguf_file() -> Path | None:
    """Return the file of SmolLM2's package; None where it is not installed."""
    try:
        return Path(str(distribution(PACKAGE.distribution).locate_file(PACKAGE.module))) / (
            PACKAGE.file
        )
    except PackageNotFoundError:
        return None


def write_model() -> Path | None:
    """Write the model into a folder, or a tiny one in a small round; None without the package."""
    text = read_page_text()
    folder = report.SCRATCH / ("tiny" if report.SMALL else "smollm2")
    if folder.exists():
        return folder
    if report.SMALL:
        write_tiny_model(folder, [text], 600)
        return folder
    if find_gguf_file() is None:
        return None
    folder.mkdir(parents=True)
    write_packaged_model(PACKAGE, folder)
    return folder


def read_page_text() -> str:
    """Return the text of the packaged page."""
    data = (get_bundled_folder() / PAGE).read_bytes()
    return read_page(data, "https://example.org/", "text/html").text


@torch.inference_mode()
def compute_perplexity(model: Any, tokens: list[int]) -> float:
    """Return e to the mean loss of each token after the first, in nats."""
    logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, :-1].float()
    return math.exp(torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:])))


def measure_turn(model: Any, tokens: list[int]) -> dict[str, float]:
    """Return the tokens that a model reads and writes for each second of CPU time."""
    begun = time.process_time()
    prefill_prompt(model, tokens[:PROMPT])
    speeds = {"read": PROMPT / (time.process_time() - begun)}
    prefix = prefill_prompt(model, tokens[:SHORT])
    for name, rows, new in (("alone", 1, ALONE), ("together", ROWS, TOGETHER)):
        branches = PrefixBranches(model, prefix, rows)
        branches.step(tokens[:1] * rows)
        begun = time.process_time()
        for _ in range(new):
            branches.step(tokens[:1] * rows)
        speeds[name] = rows * new / (time.process_time() - begun)
    return speeds


@contextmanager
def open_llama_cpp(file: Path, threads: int, tokens: list[int]) -> Iterator[Cost]:
    """Start llama.cpp with so many threads; yield what measures one turn of it."""
    command = [str(LLAMA_CPP), "-c", LLAMA_CPP_PROGRAM, str(file), str(threads)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        lines, answers = process.stdin, process.stdout
        assert lines is not None
        assert answers is not None

        def measure_seconds(prompt: int, new: int, rows: int) -> float:
            lines.write(json.dumps([tokens[:prompt], new, rows]) + "\n")
            return float(json.loads(answers.readline()))

        def measure() -> dict[str, float]:
            speeds = {"read": PROMPT / measure_seconds(PROMPT, 1, 1)}
            for name, rows, new in (("alone", 1, ALONE), ("together", ROWS, TOGETHER)):
                before = measure_seconds(SHORT, 1, rows)
                took = measure_seconds(SHORT, 1 + new, rows) - before
                speeds[name] = rows * new / took
            return speeds

        yield measure


def measure_speeds() -> dict[str, Any] | None:
    """Return perplexities and speeds of all ways; None without the model's package."""
    folder, file = write_model(), find_gguf_file()
    if folder is None:
        print(f"speeds: {PACKAGE.distribution} is not installed: make .venv/bench")
        return None
    models = {name: make(folder) for name, make in PRECISIONS.items()}
    tokenizer = load_model(folder, "cpu").tokenizer
    tokens = list(tokenizer(read_page_text())["input_ids"])[: 2 * PROMPT]
    perplexities = dict[str, float]()
    for name, model in models.items():
        perplexities[name] = compute_perplexity(model, tokens)
        enable_prefix_sharing(model)
    turns: Turns = {}
    for turn in range(TURNS):
        for threads in THREADS:
            torch.set_num_threads(threads)
            with ExitStack() as opened:
                ways: dict[str, Cost] = {
                    name: lambda model=model: measure_turn(model, tokens)  # type: ignore[misc]
                    for name, model in models.items()
                }
                if LLAMA_CPP.exists() and file and not report.SMALL:
                    ways["llama.cpp, Q4_1"] = opened.enter_context(
                        open_llama_cpp(file, threads, tokens)
                    )
                for name, measure in ways.items():
                    found = {key: value * threads for key, value in measure().items()}
                    turns.setdefault((threads, name), []).append(found)
                    print(f"turn {turn + 1}, {name}, {threads} threads: {found}", flush=True)
    return {
        "perplexity": {name: {"perplexity": each} for name, each in perplexities.items()},
        "speeds": summarize_turns(turns),
        "turns": TURNS,
        "prompt": PROMPT,
        "tokens": len(tokens),
        "date": datetime.now(UTC).date().isoformat(),
        "processor": torch.cpu.get_capabilities()["cpu_name"],
        "amx": torch.cpu.get_capabilities()["amx_bf16"],
    }


def summarize_turns(turns: Turns) -> dict[str, dict[str, float]]:
    """Return medians of speeds, and of their ratios to float32's in the same turn, by threads and
    way."""
    rows = dict[str, dict[str, float]]()
    for (threads, way), found in turns.items():
        usual = turns[threads, "float32"]
        rows[f"{way}, {threads} thread{'s' * (threads > 1)}"] = {
            name: statistics.median(each[name] for each in found) for name in SPEEDS
        } | {
            f"{name}_times": statistics.median(
                each[name] / beside[name] for each, beside in zip(found, usual, strict=True)
            )
            for name in SPEEDS
        }
    return rows
