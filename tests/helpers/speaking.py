"""Servers that a policy in training speaks through: vLLM as a process, and a stand-in.

The stand-in answers the same routes as vLLM does, in the same words, with `learn.sample` for an
engine; any of its answers can be another one.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import llguidance
import numpy as np
from enumerable import write_listed
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from ports import find_free_port
from small import logprobs
from transformers import AutoModelForCausalLM, AutoTokenizer

from rookery.learn.decoding import SamplingSettings, sample_actions
from rookery.learn.pretrained_models import LOADING_LOCK

LENGTH = 512
PATIENCE = 240.0
"""seconds that vLLM may take to start, on a machine that is busy with other tests"""


def write_policy(folder: Path, seed: int) -> str:
    """The model of `write_listed` as vLLM computes it without a GPU: heads 32 wide. It has room for
    prompts that vLLM keeps, and its own ideas of sampling, which must not count."""
    write_listed(folder, seed, width=64)
    change_json(folder / "config.json", max_position_embeddings=LENGTH)
    change_json(folder / "generation_config.json", temperature=0.2, top_k=2, do_sample=True)
    return str(folder)


def change_json(place: Path, **fields: Any) -> None:
    """Set fields of a JSON file."""
    place.write_text(json.dumps(json.loads(place.read_text()) | fields))


def vllm() -> Path | None:
    """The Python that has vLLM: it lives in an environment of its own, as it wants another
    transformers than we do."""
    beside = Path(__file__).parents[2] / ".venv" / "vllm" / "bin" / "python"
    if beside.exists():
        return beside
    found = shutil.which("vllm")
    return Path(found).parent / "python" if found else None


@contextmanager
def speaking(python: Path, model: str, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """vLLM while the block runs: its address, and the process."""
    port = find_free_port()
    address = f"http://127.0.0.1:{port}"
    command = f"-m vllm.entrypoints.launchers.api_server.entry --model {model} --port {port}"
    options = (
        "--host 127.0.0.1 --dtype float32 --logprobs-mode processed_logprobs --enforce-eager "
        "--no-enable-chunked-prefill"  # in 0.32, chunks and seeds do not go together without a GPU
    )
    surroundings = {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # or the first request waits for a C++ compiler
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(python), *command.split(), *options.split()],
            env={**os.environ, **surroundings},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + PATIENCE
        while not _healthy(address):
            assert process.poll() is None, f"it ended: {log.read_text()[-4000:]}"
            assert time.monotonic() < until, f"it does not start: {log.read_text()[-4000:]}"
            time.sleep(0.1)
        yield address, process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and its workers at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=1):
            return True
    except OSError:
        return False


Answer = Callable[[dict[str, Any]], tuple[int, Any]]
"""from the fields of a request to a status, and what is said as JSON (or bytes, as they are)"""


class StandIn:
    """Answers as vLLM does, but for what `otherwise` has for a route (without its query).

    Grammars are llguidance's, as with vLLM."""

    def __init__(self, model: str) -> None:
        self.otherwise: dict[str, Answer] = {}
        self.asked: list[str] = []
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._version = "default"
        self._folder = model
        self._load(model)

    def answer(self, route: str, fields: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(route)
        if route in self.otherwise:
            return self.otherwise[route](fields)
        return 200, {
            "/tokenize": self._tokens,
            "/collective_rpc": self._reload,
            "/reset_prefix_cache": lambda fields: {"success": True},
            "/update_weight_version": self._name,
            "/weight_info": lambda fields: {"weight_version": self._version},
            "/v1/completions": self.say,
        }[route](fields)

    def _load(self, folder: str) -> None:
        with LOADING_LOCK:  # several stand-ins load at once, in threads of this process
            self._model = AutoModelForCausalLM.from_pretrained(folder)

    def _tokens(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": self._tokenizer(fields["prompt"], add_special_tokens=False).input_ids}

    def _reload(self, fields: dict[str, Any]) -> dict[str, Any]:
        self._load(fields["kwargs"]["weights_path"])
        return {"results": [None]}

    def _name(self, fields: dict[str, Any]) -> dict[str, Any]:
        self._version = fields["new_version"]
        return {"success": True}

    def say(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = SamplingSettings(fields["max_tokens"], fields["temperature"])
        ends = frozenset(fields["stop_token_ids"])
        constraint = (
            self._hold(fields["structured_outputs"]) if "structured_outputs" in fields else None
        )
        (action,) = sample_actions(
            self._model, [fields["prompt"]], [fields["seed"]], ends, settings, [constraint]
        )
        choice = {
            "prompt_token_ids": fields["prompt"],
            "token_ids": action.row.action,
            "logprobs": {"token_logprobs": action.logprobs},
        }
        return {"choices": [choice]}

    @cached_property
    def _llguidance_tokenizer(self) -> Any:
        return llguidance.LLTokenizer(
            self._tokenizer.backend_tokenizer.to_str(), eos_token=self._tokenizer.eos_token_id
        )

    def _hold(self, request: dict[str, str]) -> Callable[[Sequence[int]], Any]:
        whole = self._llguidance_tokenizer
        grammar = llguidance.grammar_from("grammar", request["grammar"])
        matcher = llguidance.LLMatcher(whole, grammar)
        mask = allocate_token_bitmask(1, whole.vocab_size)

        def allow(tokens: Sequence[int]) -> Any:
            assert matcher.consume_tokens(list(tokens[-1:])), matcher.get_error()
            fill_next_token_bitmask(matcher, mask)
            return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))

        return allow

    def score_action(self, context: Sequence[int], action: Sequence[int]) -> list[float]:
        """The log-probabilities of an action at temperature 1."""
        return logprobs(self._model, context, action)


@contextmanager
def standing_in(model: str) -> Iterator[tuple[str, StandIn]]:
    """The stand-in while the block runs, and its address."""
    one = StandIn(model)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer goes out whole

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            fields = json.loads(self.rfile.read(size) or b"{}")
            status, said = one.answer(self.path.split("?")[0], fields)
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", one
        finally:
            server.shutdown()
            thread.join()
