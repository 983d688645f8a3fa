"""Speed of the trainers beside TRL's, and where the time of a step goes.

Needs no data: a tiny and a small Llama with random weights learn from slices of the packaged pages.
Ours and theirs each run in a process of their own with one thread, get the same batches and
settings, and take turns of a few steps; the first turn of each is a warm-up. Ratios are of CPU
time, turn by turn; "but garbage" is the ratio without the garbage collections that TRL's PPO
requests twice a step. TRL 1.16 comes with the dev extra; PPO is only in its wheels 1.10 to 1.12,
and is left out until one is found here:

    pip install --target bench/scratch/trl-1.12 --no-deps trl==1.12.0

    python -m bench.learning [--rounds N]

Prints tables and writes bench/results/learning.json.
"""

import argparse
import gc
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import nan
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from bench import report
from recipes.text_environment import PromptEnvironment
from rookery.learn import episodes
from rookery.learn.action_batches import (
    ActionBatch,
    ActionRow,
    collate_rows,
    compute_action_logprobs,
    make_model_inputs,
    select_logprobs,
)
from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.policy_gradient import (
    PolicyGradientTrainer,
    make_ppo_settings,
    make_rloo_settings,
)
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    load_model_with_head,
    load_tokenizer,
    load_trainable_model,
    save_pretrained_model,
)
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reward_model import make_input_encoder, score_rows
from rookery.learn.reward_training import RewardTrainer, RewardTrainingSettings
from rookery.learn.training_data import ComparisonItem, ComparisonSplit
from rookery.learn.training_run import CheckpointParts, ResumableRun
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page

SCRATCH = report.SCRATCH / "learning"
TRL_PPO = report.SCRATCH / "trl-1.12"
RATE, BETA = 1e-5, 0.05
PAIRS, PIECE, SHORTEST, LONGEST = 16, 4, 16, 96
"""Comparisons in a step; those read at once "in pieces"; minimum and maximum tokens of an
answer."""
PROMPT, NEW, GROUP = 32, 16, 4
"""Tokens of a prompt; maximum new tokens; episodes of one prompt in RLOO."""
BEFORE, ROWS = 112, 16
"""Tokens of a context, and rows, for the trials of logits and frozen layers."""
FROZEN = 2 / 3
"""Share of layers, from the first on (with the embeddings), frozen where something is frozen."""
TARGETS = {"reward model": 1.3, "RLOO": 1.3, "PPO": 2.5}


class Size(NamedTuple):
    """A model's size, and the work of one turn with it."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    episodes: int
    steps: Mapping[str, int]
    """Steps in a turn of each trainer."""


SIZES = report.choose_size(
    {
        "tiny": Size(450, 64, 128, 2, 16, {"reward model": 20, "RLOO": 16, "PPO": 6, "step": 25}),
        "10M": Size(4_000, 320, 896, 6, 8, {"reward model": 1, "RLOO": 3, "PPO": 1, "step": 2}),
    },
    {"tiny": Size(450, 16, 32, 2, 4, {"reward model": 1, "RLOO": 1, "PPO": 1, "step": 1})},
)


class Work(NamedTuple):
    """Work of one process."""

    trainer: str
    folder: Path
    episodes: int
    steps: int
    each: int
    """Steps in a turn."""
    prompts: Sequence[str]
    pairs: Sequence[tuple[list[int], list[int]]]


# Models and data


def write_models(size: Size, folder: Path, texts: Sequence[str]) -> None:
    """Write a language model of this size, and a reward model in its subfolder `reward`."""
    shutil.rmtree(folder, ignore_errors=True)
    write_tiny_model(folder, texts, vocabulary=size.vocabulary, context=512)
    config = LlamaConfig.from_pretrained(folder)
    for name, value in {
        "hidden_size": size.hidden,
        "head_dim": size.hidden // 4,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "initializer_range": 0.02,
    }.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    config.save_pretrained(folder)
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})
    tokenizer, *_ = load_tokenizer(folder)
    save_pretrained_model(
        load_trainable_model(TrainedModelSettings(str(folder)), "row"), tokenizer, folder / "reward"
    )


def make_data(
    folder: Path, texts: Sequence[str]
) -> tuple[list[str], list[tuple[list[int], list[int]]]]:
    """Make prompts of equal token length, and pairs of answers of various lengths."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ids = [token for text in texts for token in tokenizer(text, verbose=False)["input_ids"][1:]]
    random, prompts = Random(0), list[str]()

    def some(count: int) -> list[int]:
        """Return `count` successive tokens from a random place."""
        start = random.randrange(len(ids) - count)
        return ids[start : start + count]

    while len(prompts) < 64:
        text = tokenizer.decode(some(PROMPT - 1))
        if len(tokenizer(text)["input_ids"]) == PROMPT:
            prompts.append(text)
    lengths = [[random.randint(SHORTEST, LONGEST) for _ in range(2)] for _ in range(PAIRS * 64)]
    return prompts, [(some(one), some(two)) for one, two in lengths]


def score_completion(said: Sequence[int]) -> float:
    """Reward of RLOO: the share of odd token ids."""
    return sum(token % 2 for token in said) / len(said)


# Turns


class Turns:
    """Lets a trainer run a number of steps on request, and reports their cost."""

    def __init__(
        self,
        pipe: Connection,
        each: int,
        shares: dict[str, float],
        unused: Collection[str] = (),
    ) -> None:
        self._pipe = pipe
        self._each = each
        self._shares = shares
        self._unused = unused
        self._made = 0
        self._begun: tuple[float, float] | None = None
        self._before = _measure_peak()

    def step(self, *_: Any) -> None:
        """Count a finished step; at the end of a turn report its cost and wait for the next
        request. Raises SystemExit when no more turns are wanted."""
        self._made += 1
        if self._made % self._each:
            return
        if self._begun is None:
            if self._unused:
                raise RuntimeError(f"nothing called {', '.join(self._unused)}: change this bench")
            self._shares.clear()  # of the warm-up
            self._pipe.send(None)
        else:
            cpu, wall = time.process_time() - self._begun[0], time.perf_counter() - self._begun[1]
            self._pipe.send((cpu, wall, _measure_peak() - self._before, dict(self._shares)))
        if not self._pipe.recv():
            raise SystemExit
        self._begun = time.process_time(), time.perf_counter()


def _measure_peak() -> float:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Turn(NamedTuple):
    """Cost of one turn."""

    cpu: float
    wall: float
    memory: float
    """Peak so far in MiB, beyond that before the models were loaded."""
    shares: Mapping[str, float]


Side = Callable[[Connection, Work], None]


def alternate_turns(sides: Mapping[str, Side], work: Work, rounds: int) -> dict[str, list[Turn]]:
    """Run the sides in turn and return their turns. Raises EOFError if one ends early."""
    fresh: Any = report.fresh_processes(
        "bench.learning_trl",
        "rookery.learn.reward_training",
        "rookery.learn.reinforcement_learning",
    )
    pipes, found = {}, {name: list[Turn]() for name in sides}
    processes = []
    for name, side in sides.items():
        pipes[name], other = fresh.Pipe()
        processes.append(fresh.Process(target=side, args=(other, work), daemon=True))
        processes[-1].start()
        other.close()
    for pipe in pipes.values():
        pipe.recv()
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            found[name].append(Turn(*pipe.recv()))
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(False)
        process.join()
    return found


# Ours


def run_ours(pipe: Connection, work: Work, piece: int = PAIRS) -> None:
    """Run one of our trainers; `piece` comparisons are read at once."""
    torch.set_num_threads(1)
    shares: dict[str, float] = {}
    timed = _TimeShares(shares)
    turns = Turns(pipe, work.each, shares, timed.unused)
    with tempfile.TemporaryDirectory() as out:
        if work.trainer == "reward model":
            _run_reward_training(work, Path(out), turns, piece)
        else:
            _run_reinforcement(work, Path(out), turns, timed)


def _run_reward_training(work: Work, out: Path, turns: Turns, piece: int) -> None:
    """Run the loop of `prefer` on prepared rows."""
    start = TrainedModelSettings(str(work.folder / "reward"))
    settings = RewardTrainingSettings(start, "", OptimizerSettings(RATE), batch=PAIRS, piece=piece)
    model = load_trainable_model(settings.trained, "row")
    tokenizer, ends, _ = load_tokenizer(work.folder)
    showing = make_input_encoder(model, tokenizer, ends, 0, False)
    items = [
        ComparisonItem(
            str(n), (np.array(one, np.int32), np.array(two, np.int32)), (1.0, 0.0), (nan, nan)
        )
        for n, (one, two) in enumerate(work.pairs)
    ]
    with ResumableRun(out, settings) as run:
        learner = ModelOptimizer(
            model, settings.optimising, work.steps, pulled=run.find_stop_reason
        )
        training = RewardTrainer(
            settings, learner, showing.pad, ComparisonSplit(items, [], 0, 0), out / "best"
        )
        state = CheckpointParts(learner, training.progress)
        for number in run.iterate_steps(work.steps, state, work.steps + 1, turns.step):
            at = number * PAIRS % len(items)
            run.record_metrics(**training.train_step(number, items[at : at + PAIRS]))


def _run_reinforcement(work: Work, out: Path, turns: Turns, timed: "_TimeShares") -> None:
    """Run `reinforce` and time its parts."""
    timed.replace(episodes, "sample_actions", "sampling")
    timed.replace(PolicyGradientTrainer, "prepare_batch", "scoring")
    timed.replace(PolicyGradientTrainer, "train_on_batch", "learning")
    rate = OptimizerSettings(RATE, clip=None if work.trainer == "PPO" else 1.0)
    by_ppo = work.trainer == "PPO"
    settings = (make_ppo_settings if by_ppo else make_rloo_settings)(
        policy=TrainedModelSettings(str(work.folder)),
        steps=work.steps,
        optimising=rate,
        sampling=SamplingSettings(max_tokens=NEW),
        episodes=work.episodes,
        beta=BETA,
        every=work.steps + 1,
        shown=0,
        value_model=str(work.folder / "reward") if by_ppo else "",
    )
    tokenizer, *_ = load_tokenizer(work.folder)
    contexts = [tokenizer(prompt)["input_ids"] for prompt in work.prompts]
    group = 1 if by_ppo else GROUP
    scored = timed("scoring", _make_reward(work, contexts))
    rewards = scored if by_ppo else lambda _, said: [score_completion(one) for one in said]
    world: Any = PromptEnvironment(contexts, rewards, group)
    world.play_episodes = timed("environment", world.play_episodes)
    train_by_reinforcement(settings, world, out / "run", turns.step)


def _make_reward(work: Work, contexts: Sequence[list[int]]) -> Callable[..., list[float]]:
    """Return a function that scores with the reward model."""
    model, _ = load_model_with_head(work.folder / "reward", "row")
    _, _, pad = load_tokenizer(work.folder)
    model.config.pad_token_id = pad

    def scored(numbers: Sequence[int], said: Sequence[Sequence[int]]) -> list[float]:
        whole = [
            np.array([*contexts[number], *action], np.int32)
            for number, action in zip(numbers, said, strict=True)
        ]
        return score_rows(model, whole, pad, torch.device("cpu"), len(whole))[:, 0].tolist()

    return scored


class _TimeShares:
    """CPU seconds of functions by label, excluding timed functions inside them."""

    def __init__(self, seconds: dict[str, float]) -> None:
        """Add the seconds to `seconds`."""
        self._seconds = seconds
        self._open: list[str] = []
        self._since = 0.0
        self.unused: set[str] = set()
        """Replaced names that have not been called yet."""

    def __call__(self, label: str, work: Callable[..., Any], name: str = "") -> Callable[..., Any]:
        """Return `work` wrapped so that its time is counted under the label."""

        def timed(*args: Any, **more: Any) -> Any:
            self.unused.discard(name)
            with self._within(label):
                return work(*args, **more)

        return timed

    def replace(
        self, owner: Any, name: str, label: str, work: Callable[..., Any] | None = None
    ) -> None:
        """Time the attribute of this name, or call `work` in its place. Raises AttributeError if
        `owner` has none."""
        found = getattr(owner, name)
        self.unused.add(name)
        setattr(owner, name, self(label, work or found, name))

    @contextmanager
    def _within(self, label: str) -> Iterator[None]:
        self._turn_to()
        self._open.append(label)
        yield
        self._turn_to()
        self._open.pop()

    def _turn_to(self) -> None:
        now = time.process_time()
        if self._open:
            label = self._open[-1]
            self._seconds[label] = self._seconds.get(label, 0.0) + now - self._since
        self._since = now


# Theirs


def run_theirs(pipe: Connection, work: Work) -> None:
    """Run one of TRL's trainers."""
    torch.set_num_threads(1)
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (its trainers print what they log)
    warnings.simplefilter("ignore")
    for quiet in ("set_verbosity_error", "disable_progress_bar"):
        getattr(transformers.utils.logging, quiet)()
    if work.trainer == "PPO":
        sys.path.insert(0, str(TRL_PPO))
    peer = import_module("bench.learning_trl")
    trl = import_module("trl.experimental.ppo" if work.trainer == "PPO" else "trl")
    for name in ("RewardTrainer", "RLOOTrainer", "PPOTrainer"):
        getattr(trl, name, None)  # TRL imports its modules lazily
    shares: dict[str, float] = {}
    gc.collect = _TimeShares(shares)("garbage", gc.collect)
    turns = Turns(pipe, work.each, shares)
    batch = PAIRS if work.trainer == "reward model" else work.episodes
    settings = {"learning_rate": RATE, "per_device_train_batch_size": batch}
    if work.trainer == "reward model":
        peer.prefer(trl, work.folder / "reward", work.pairs, work.steps, settings, turns.step)
    elif work.trainer == "RLOO":
        settings |= {"num_generations": GROUP, "max_completion_length": NEW, "beta": BETA}
        peer.rloo(
            trl, work.folder, work.prompts, score_completion, work.steps, settings, turns.step
        )
    else:
        settings |= {"response_length": NEW, "kl_coef": BETA, "whiten_rewards": True}
        peer.ppo(trl, work.folder, work.prompts, work.steps, settings, turns.step)


# Ways of one training step


def compute_logprobs_everywhere(model: Any, batch: ActionBatch) -> Tensor:
    """Compute the same as `compute_action_logprobs` from logits at every position."""
    logits: Tensor = model(**make_model_inputs(batch)).logits.float()
    return select_logprobs(logits.flatten(0, 1)[batch.places_N], batch.actions_N)


WAYS: dict[str, tuple[Callable[[Any, ActionBatch], Tensor], float]] = {
    "as it is": (compute_action_logprobs, 0.0),
    "logits of all positions": (compute_logprobs_everywhere, 0.0),
    "lower two thirds frozen": (compute_action_logprobs, FROZEN),
}


def run_steps(way: str, pipe: Connection, work: Work) -> None:
    """Run training steps that make actions likelier, with or without the savings of `way`."""
    torch.set_num_threads(1)
    turns = Turns(pipe, work.each, {})
    compute, frozen = WAYS[way]
    learner = ModelOptimizer(
        load_trainable_model(TrainedModelSettings(str(work.folder), frozen)),
        OptimizerSettings(RATE),
        work.steps,
    )
    ids, size = [token for pair in work.pairs for one in pair for token in one], BEFORE + NEW
    said = [ids[at * size : (at + 1) * size] for at in range(ROWS)]
    batch = collate_rows([ActionRow(one[:BEFORE], one[BEFORE:]) for one in said], 0)

    def loss(batch: ActionBatch) -> Tensor:
        """Return the mean negative log-probability of the actions."""
        return -compute(learner.model, batch).mean()

    for number in range(work.steps):
        learner.step(number, [batch], loss)
        turns.step()


# Figures


def compare_turns(
    found: Mapping[str, Sequence[Turn]], name: str, each: int, tokens: float
) -> dict[str, Any]:
    """Return steps and tokens per second of both, and the speed ratio turn by turn."""
    mine, their = found[name], found["theirs"]
    ratios = [two.cpu / one.cpu for one, two in zip(mine, their, strict=True)]
    walls = [two.wall / one.wall for one, two in zip(mine, their, strict=True)]
    spent = sum(turn.cpu for turn in mine)
    shares = {label: seconds / spent for label, seconds in mine[-1].shares.items()}
    speed, peer = (each / statistics.median(turn.cpu for turn in side) for side in (mine, their))
    garbage = their[-1].shares.get("garbage", 0.0) / sum(turn.cpu for turn in their)
    return {
        "ours": speed,
        "theirs": peer,
        "ratio": statistics.median(ratios),
        "but_garbage": statistics.median(ratios) * (1 - garbage),
        "wall_ratio": statistics.median(walls),
        "tokens": speed * tokens,
        "theirs_tokens": peer * tokens,
        "memory_mib": mine[-1].memory,
        "theirs_mib": their[-1].memory,
        "ratios": ratios,
        "shares": shares | ({"rest": 1 - sum(shares.values())} if shares else {}),
    }


def compare_ways(found: Mapping[str, Sequence[Turn]], each: int) -> dict[str, dict[str, float]]:
    """Return time and memory of each way of a step, absolute and relative to the first."""
    plain = next(iter(found.values()))
    return {
        way: {
            "ms": 1e3 * statistics.median(turn.cpu for turn in turns) / each,
            "times": statistics.median(
                turn.cpu / one.cpu for turn, one in zip(turns, plain, strict=True)
            ),
            "memory_mib": turns[-1].memory,
            "memory_times": turns[-1].memory / plain[-1].memory,
        }
        for way, turns in found.items()
    }


def list_trainers() -> list[str]:
    """Return the trainers that can be compared here."""
    if find_spec("trl") is None:
        report.skip_bench("TRL is not installed: pip install trl==1.16.0")
    if (TRL_PPO / "trl" / "experimental" / "ppo").exists():
        return list(TARGETS)
    print("PPO is left out: see the head of bench/learning.py for how to get TRL 1.12")
    return [name for name in TARGETS if name != "PPO"]


class Measured(NamedTuple):
    """Figures of one model."""

    runs: dict[str, dict[str, Any]]
    """Trainers beside TRL's."""
    steps: dict[str, dict[str, float]]
    """Ways of one policy step."""
    weights: int


def measure_model(size: str, texts: Sequence[str], names: Sequence[str], rounds: int) -> Measured:
    """Measure one model."""
    made, folder = SIZES[size], SCRATCH / size
    write_models(made, folder, texts)
    weights = sum(
        each.numel()
        for each in load_trainable_model(TrainedModelSettings(str(folder))).parameters()
    )
    prompts, pairs = make_data(folder, texts)

    def turns(name: str, sides: Mapping[str, Side]) -> dict[str, list[Turn]]:
        print(f"{name}, {size} ...", flush=True)
        each = made.steps[name]
        steps = each * (rounds + 2)
        work = Work(name, folder, made.episodes, steps, each, prompts, pairs)
        return alternate_turns(sides, work, rounds)

    found = _compare_trainers(made, pairs, names, turns)
    steps = compare_ways(
        turns("step", {way: partial(run_steps, way) for way in WAYS}), made.steps["step"]
    )
    return Measured(found, steps, weights)


def _compare_trainers(
    made: Size,
    pairs: Sequence[tuple[list[int], list[int]]],
    names: Sequence[str],
    turns: Callable[[str, Mapping[str, Side]], dict[str, list[Turn]]],
) -> dict[str, dict[str, Any]]:
    found = {}
    answers = PAIRS * sum(len(one) + len(two) for one, two in pairs) / len(pairs)
    for name in names:
        preferring = name == "reward model"
        pieces = {"in pieces": partial(run_ours, piece=PIECE)} if preferring else {}
        seen = turns(name, {"ours": run_ours, **pieces, "theirs": run_theirs})
        tokens = answers if preferring else made.episodes * (PROMPT + NEW)
        for side in ("ours", *pieces):
            label = name if side == "ours" else f"{name} {side}"
            found[label] = compare_turns(seen, side, made.steps[name], tokens)
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=report.choose_size(5, 1))
    rounds = parser.parse_args().rounds
    quiet = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "TRL_EXPERIMENTAL_SILENCE")
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", *quiet), "1")
    names = list_trainers()
    texts = [
        read_page(path.read_bytes(), path.as_uri(), "text/html").text
        for path in sorted(get_bundled_folder().glob("*.html"))
    ]
    found = {size: measure_model(size, texts, names, rounds) for size in SIZES}
    tables: dict[str, dict[str, Any]] = {
        name: {
            f"{row}, {size}": value
            for size, one in found.items()
            for row, value in getattr(one, name).items()
        }
        for name in ("runs", "steps")
    }
    print_tables(**tables)
    weights = {size: one.weights for size, one in found.items()}
    report.write_results(
        "learning", {"rounds": rounds, "weights": weights, **tables, "targets": TARGETS}
    )


def print_tables(runs: Mapping[str, Any], steps: Mapping[str, Any]) -> None:
    """Print the measurements as tables."""
    print("steps and tokens a second of CPU time, ours beside theirs; memory beyond the imports")
    some = next(iter(runs.values()))
    report.print_table([name for name, value in some.items() if isinstance(value, float)], runs)
    print("how many times as fast, turn by turn")
    for name, row in runs.items():
        print(f"{name}: {' '.join(f'{ratio:.2f}' for ratio in row['ratios'])}")
    shares = {name: row["shares"] for name, row in runs.items() if row["shares"]}
    if shares:
        print("shares of a step of ours")
        report.print_table(list(next(iter(shares.values()))), shares)
    print("a training step of a policy")
    report.print_table(list(next(iter(steps.values()))), steps)


if __name__ == "__main__":
    main()
