"""How fast are the trainers beside TRL's, and where does the time of a step go?

Needs no data: a tiny and a small Llama with random weights learn from slices of the pages that come
with the package. Ours and theirs each run in a process of their own with one thread, get the same
batches and settings, and take turns of a few steps; the first turn of each warms it up and does not
count. Ratios are of CPU time, turn by turn; "but garbage" is what a ratio would be had TRL not
asked Python to collect its garbage, as its PPO does twice a step. TRL 1.16 comes with the dev
extra; PPO is in its wheels 1.10 to 1.12 alone, and is left out until one is where it is looked for:

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
from rookery.browse.places import bundled
from rookery.browse.read import read
from rookery.learn import actor
from rookery.learn import reinforce as reinforcing
from rookery.learn.compared import Item, Items
from rookery.learn.lesson import Teacher
from rookery.learn.models import Trained, model_of, read_model, tokenizer_of, write_model
from rookery.learn.optimise import Learner, Optimising
from rookery.learn.played import Prompts
from rookery.learn.prefer import PreferSettings, Training
from rookery.learn.reinforce import ppo, reinforce, rloo
from rookery.learn.rows import Batch, Row, action_logits, collate, inputs, logprobs
from rookery.learn.run import Run
from rookery.learn.sample import Sampling
from rookery.learn.scorer import score_rows, showing_of
from rookery.learn.tiny import write_tiny

SCRATCH = report.SCRATCH / "learning"
OLDER = report.SCRATCH / "trl-1.12"
RATE, BETA = 1e-5, 0.05
PAIRS, PIECE, SHORTEST, LONGEST = 16, 4, 16, 96
"""comparisons in a step, those that are read at once "in pieces", and the tokens of an answer"""
PROMPT, NEW, GROUP = 32, 16, 4
"""tokens of a prompt, tokens said at most, and episodes of one prompt in RLOO"""
BEFORE, ROWS = 112, 16
"""tokens of a context, and rows, where logits and frozen layers are tried"""
FROZEN = 2 / 3
"""of the layers, from the first on, and the embeddings, where something is frozen: as one does with
a policy that begins as a good model, and the same on both sides"""
TARGETS = {"reward model": 1.3, "RLOO": 1.3, "PPO": 2.5}


class Size(NamedTuple):
    """One of the models, and how much is done with it in a turn."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    episodes: int
    steps: Mapping[str, int]
    """in a turn of each trainer"""


SIZES = report.sized(
    {
        "tiny": Size(450, 64, 128, 2, 16, {"reward model": 20, "RLOO": 16, "PPO": 6, "step": 25}),
        "10M": Size(4_000, 320, 896, 6, 8, {"reward model": 1, "RLOO": 3, "PPO": 1, "step": 2}),
    },
    {"tiny": Size(450, 16, 32, 2, 4, {"reward model": 1, "RLOO": 1, "PPO": 1, "step": 1})},
)


class Work(NamedTuple):
    """What a process is to do: everything about it but who does it."""

    trainer: str
    folder: Path
    episodes: int
    steps: int
    each: int
    """steps in a turn"""
    frozen: float
    """share of the layers of policy and value network"""
    prompts: Sequence[str]
    pairs: Sequence[tuple[list[int], list[int]]]


# What is learnt, and from what


def write_models(size: Size, folder: Path, texts: Sequence[str]) -> None:
    """A language model of this size, and a reward model beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    write_tiny(folder, texts, vocabulary=size.vocabulary, context=512)
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
    tokenizer, *_ = tokenizer_of(folder)
    write_model(read_model(Trained(str(folder)), "row"), tokenizer, folder / "reward")


def data(folder: Path, texts: Sequence[str]) -> tuple[list[str], list[tuple[list[int], list[int]]]]:
    """Prompts that all have as many tokens, and pairs of answers of many lengths."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ids = [token for text in texts for token in tokenizer(text, verbose=False)["input_ids"][1:]]
    random, prompts = Random(0), list[str]()

    def some(count: int) -> list[int]:
        start = random.randrange(len(ids) - count)
        return ids[start : start + count]

    while len(prompts) < 64:
        text = tokenizer.decode(some(PROMPT - 1))
        if len(tokenizer(text)["input_ids"]) == PROMPT:
            prompts.append(text)
    lengths = [[random.randint(SHORTEST, LONGEST) for _ in range(2)] for _ in range(PAIRS * 64)]
    return prompts, [(some(one), some(two)) for one, two in lengths]


def worth(said: Sequence[int]) -> float:
    """What RLOO is rewarded for."""
    return sum(token % 2 for token in said) / len(said)


# Turns


class Turns:
    """Lets a trainer go on for some steps whenever it is asked to, and tells what they took."""

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
        self._before = _peak()

    def step(self, *_: Any) -> None:
        """Is called after every step."""
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
            self._pipe.send((cpu, wall, _peak() - self._before, dict(self._shares)))
        if not self._pipe.recv():
            raise SystemExit
        self._begun = time.process_time(), time.perf_counter()


def _peak() -> float:
    """The most memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Turn(NamedTuple):
    """What one turn took."""

    cpu: float
    wall: float
    memory: float
    """so far, beyond what it had before the models were read, in MiB"""
    shares: Mapping[str, float]


Side = Callable[[Connection, Work], None]


def alternated(sides: Mapping[str, Side], work: Work, rounds: int) -> dict[str, list[Turn]]:
    """The turns of each. Raises EOFError where one ends before its time."""
    fresh: Any = report.fresh_processes(
        "bench.learning_trl", "rookery.learn.prefer", "rookery.learn.reinforce"
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


def ours(pipe: Connection, work: Work, piece: int = PAIRS, shared: bool = True) -> None:
    """One of our trainers, as it comes; comparisons are read so many at once.

    `shared` False: what is frozen is computed in every pass, by each of the networks.
    """
    torch.set_num_threads(1)
    shares: dict[str, float] = {}
    timed = _Shares(shares)
    if not shared:
        timed.replace(actor, "trunk_of", "sharing", lambda *_: None)
    turns = Turns(pipe, work.each, shares, timed.unused)
    with tempfile.TemporaryDirectory() as out:
        if work.trainer == "reward model":
            _prefer(work, Path(out), turns, piece)
        else:
            _reinforce(work, Path(out), turns, timed)


def _prefer(work: Work, out: Path, turns: Turns, piece: int) -> None:
    """The loop of `prefer` on rows that are ready."""
    start = Trained(str(work.folder / "reward"))
    settings = PreferSettings(start, "", Optimising(RATE), batch=PAIRS, piece=piece)
    model = read_model(settings.trained, "row")
    tokenizer, ends, _ = tokenizer_of(work.folder)
    showing = showing_of(model, tokenizer, ends, 0, False)
    items = [
        Item(str(n), (np.array(one, np.int32), np.array(two, np.int32)), (1.0, 0.0), (nan, nan))
        for n, (one, two) in enumerate(work.pairs)
    ]
    with Run(out, settings) as run:
        learner = Learner(model, settings.optimising, work.steps, pulled=run.pulled)
        training = Training(settings, learner, showing.pad, Items(items, [], 0, 0), out / "best")
        for number in run.steps(work.steps, training, work.steps + 1, turns.step):
            at = number * PAIRS % len(items)
            run.note(**training.step(number, items[at : at + PAIRS]))


def _reinforce(work: Work, out: Path, turns: Turns, timed: "_Shares") -> None:
    """`reinforce`, with what each of its parts takes."""
    timed.replace(reinforcing, "sample", "sampling")
    timed.replace(Teacher, "read", "scoring")
    timed.replace(Teacher, "learn", "learning")
    rate = Optimising(RATE, clip=None if work.trainer == "PPO" else 1.0)
    by_ppo = work.trainer == "PPO"
    settings = (ppo if by_ppo else rloo)(
        policy=Trained(str(work.folder), work.frozen),
        steps=work.steps,
        optimising=rate,
        sampling=Sampling(tokens=NEW),
        episodes=work.episodes,
        beta=BETA,
        every=work.steps + 1,
        shown=0,
        value_model=str(work.folder / "reward") if by_ppo else "",
    )
    tokenizer, *_ = tokenizer_of(work.folder)
    contexts = [tokenizer(prompt)["input_ids"] for prompt in work.prompts]
    group = 1 if by_ppo else GROUP
    scored = timed("scoring", _scored(work, contexts))
    rewards = scored if by_ppo else lambda _, said: [worth(one) for one in said]
    world: Any = Prompts(contexts, rewards, group)
    world.play = timed("environment", world.play)
    reinforce(settings, world, out / "run", turns.step)


def _scored(work: Work, contexts: Sequence[list[int]]) -> Callable[..., list[float]]:
    """Rewards by the reward model."""
    model, _ = model_of(work.folder / "reward", "row")
    _, _, pad = tokenizer_of(work.folder)
    model.config.pad_token_id = pad

    def scored(numbers: Sequence[int], said: Sequence[Sequence[int]]) -> list[float]:
        whole = [
            np.array([*contexts[number], *action], np.int32)
            for number, action in zip(numbers, said, strict=True)
        ]
        return score_rows(model, whole, pad, torch.device("cpu"), len(whole))[:, 0].tolist()

    return scored


class _Shares:
    """CPU seconds of functions by label, without those of the functions within them."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._open: list[str] = []
        self._since = 0.0
        self.unused: set[str] = set()
        """replaced names that were not called yet"""

    def __call__(self, label: str, work: Callable[..., Any], name: str = "") -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            self.unused.discard(name)
            with self._within(label):
                return work(*args, **more)

        return timed

    def replace(
        self, owner: Any, name: str, label: str, work: Callable[..., Any] | None = None
    ) -> None:
        """Time what `owner` has under this name, or call `work` in its stead. Raises AttributeError
        where it has nothing."""
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


def theirs(pipe: Connection, work: Work) -> None:
    """One of TRL's."""
    torch.set_num_threads(1)
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (its trainers print what they log)
    warnings.simplefilter("ignore")
    for quiet in ("set_verbosity_error", "disable_progress_bar"):
        getattr(transformers.utils.logging, quiet)()
    if work.trainer == "PPO":
        sys.path.insert(0, str(OLDER))
    peer = import_module("bench.learning_trl")
    trl = import_module("trl.experimental.ppo" if work.trainer == "PPO" else "trl")
    for name in ("RewardTrainer", "RLOOTrainer", "PPOTrainer"):
        getattr(trl, name, None)  # its modules are read when they are asked for
    shares: dict[str, float] = {}
    gc.collect = _Shares(shares)("garbage", gc.collect)
    turns = Turns(pipe, work.each, shares)
    batch = PAIRS if work.trainer == "reward model" else work.episodes
    settings = {"learning_rate": RATE, "per_device_train_batch_size": batch}
    if work.trainer == "reward model":
        peer.prefer(trl, work.folder / "reward", work.pairs, work.steps, settings, turns.step)
    elif work.trainer == "RLOO":
        settings |= {"num_generations": GROUP, "max_completion_length": NEW, "beta": BETA}
        peer.rloo(trl, work.folder, work.prompts, worth, work.steps, settings, turns.step)
    else:
        settings |= {"response_length": NEW, "kl_coef": BETA, "whiten_rewards": True}
        peer.ppo(trl, work.folder, work.prompts, work.steps, work.frozen, settings, turns.step)


# Ways of one training step


def full_logits(model: Any, batch: Batch) -> Tensor:
    """The same as `action_logits`, out of logits for every position."""
    said = batch.actions_BA.shape[1]
    logits: Tensor = model(**inputs(batch)).logits[:, -said - 1 : -1].float()
    return logits


WAYS: dict[str, tuple[Callable[[Any, Batch], Tensor], float]] = {
    "as it is": (action_logits, 0.0),
    "logits of all positions": (full_logits, 0.0),
    "lower two thirds frozen": (action_logits, FROZEN),
}


def step(way: str, pipe: Connection, work: Work) -> None:
    """Steps that make actions likelier."""
    torch.set_num_threads(1)
    turns = Turns(pipe, work.each, {})
    logits, frozen = WAYS[way]
    learner = Learner(read_model(Trained(str(work.folder), frozen)), Optimising(RATE), work.steps)
    ids, size = [token for pair in work.pairs for one in pair for token in one], BEFORE + NEW
    said = [ids[at * size : (at + 1) * size] for at in range(ROWS)]
    batch = collate([Row(one[:BEFORE], one[BEFORE:]) for one in said], 0)

    def loss(batch: Batch) -> Tensor:
        return -logprobs(logits(learner.model, batch), batch).mean()

    for number in range(work.steps):
        learner.step(number, [batch], loss)
        turns.step()


# Figures


def compared(
    found: Mapping[str, Sequence[Turn]], name: str, each: int, tokens: float
) -> dict[str, Any]:
    """Steps and tokens a second of both, and how many times as fast ours are, turn by turn."""
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


def ways(found: Mapping[str, Sequence[Turn]], each: int) -> dict[str, dict[str, float]]:
    """Of each way of a step: its time, that of the first being 1, and its memory."""
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


def trainers() -> list[str]:
    """Those that can be compared here."""
    if find_spec("trl") is None:
        report.skip("TRL is not installed: pip install trl==1.16.0")
    if (OLDER / "trl" / "experimental" / "ppo").exists():
        return list(TARGETS)
    print("PPO is left out: see the head of bench/learning.py for how to get TRL 1.12")
    return [name for name in TARGETS if name != "PPO"]


class Measured(NamedTuple):
    """Of one model."""

    runs: dict[str, dict[str, Any]]
    """trainers beside TRL's"""
    trunk: dict[str, dict[str, float]]
    """PPO with frozen layers that are computed once, or in every pass"""
    steps: dict[str, dict[str, float]]
    """ways of a step of a policy"""
    weights: int


def measured(size: str, texts: Sequence[str], names: Sequence[str], rounds: int) -> Measured:
    """One model."""
    made, folder = SIZES[size], SCRATCH / size
    write_models(made, folder, texts)
    weights = sum(each.numel() for each in read_model(Trained(str(folder))).parameters())
    prompts, pairs = data(folder, texts)

    def turns(name: str, sides: Mapping[str, Side], frozen: float = 0.0) -> dict[str, list[Turn]]:
        print(f"{name}, {size} ...", flush=True)
        each = made.steps[name]
        steps = each * (rounds + 2)
        work = Work(name, folder, made.episodes, steps, each, frozen, prompts, pairs)
        return alternated(sides, work, rounds)

    found = _beside(made, pairs, names, turns)
    beside = {"theirs": theirs} if "PPO" in names else {}
    seen = turns("PPO", {"ours": ours, "apart": partial(ours, shared=False), **beside}, FROZEN)
    if beside:
        tokens = made.episodes * (PROMPT + NEW)
        found["PPO frozen"] = compared(seen, "ours", made.steps["PPO"], tokens)
    both = {"in every pass": seen["apart"], "computed once": seen["ours"]}
    trunk = ways(both, made.steps["PPO"])
    for row, held in zip(trunk.values(), held_weights(folder), strict=True):
        row["weights_mib"] = held
    steps = ways(turns("step", {way: partial(step, way) for way in WAYS}), made.steps["step"])
    return Measured(found, trunk, steps, weights)


def held_weights(folder: Path) -> tuple[float, float]:
    """MiB of the weights of policy, value network and reference with frozen layers: were they all
    apart, and as they are.

    The peaks of whole processes do not show them, since weights that nobody changes are pages of
    the file that they were read from.
    """
    made = actor.make(Trained(str(folder), FROZEN), "separate", str(folder / "reward"), 0, "", 0)
    networks = (made.actor.policy, made.actor.critic, made.reference)
    every = [weight for network in networks for weight in network.parameters()]
    apart, shared = (
        sum(weight.nbytes for weight in some) / 2**20
        for some in (every, {id(weight): weight for weight in every}.values())
    )
    return apart, shared


def _beside(
    made: Size,
    pairs: Sequence[tuple[list[int], list[int]]],
    names: Sequence[str],
    turns: Callable[[str, Mapping[str, Side]], dict[str, list[Turn]]],
) -> dict[str, dict[str, Any]]:
    found = {}
    answers = PAIRS * sum(len(one) + len(two) for one, two in pairs) / len(pairs)
    for name in names:
        preferring = name == "reward model"
        pieces = {"in pieces": partial(ours, piece=PIECE)} if preferring else {}
        seen = turns(name, {"ours": ours, **pieces, "theirs": theirs})
        tokens = answers if preferring else made.episodes * (PROMPT + NEW)
        for side in ("ours", *pieces):
            label = name if side == "ours" else f"{name} {side}"
            found[label] = compared(seen, side, made.steps[name], tokens)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=report.sized(5, 1))
    rounds = parser.parse_args().rounds
    quiet = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "TRL_EXPERIMENTAL_SILENCE")
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", *quiet), "1")
    names = trainers()
    texts = [
        read(path.read_bytes(), path.as_uri(), "text/html").text
        for path in sorted(bundled().glob("*.html"))
    ]
    found = {size: measured(size, texts, names, rounds) for size in SIZES}
    tables: dict[str, dict[str, Any]] = {
        name: {
            f"{row}, {size}": value
            for size, one in found.items()
            for row, value in getattr(one, name).items()
        }
        for name in ("runs", "trunk", "steps")
    }
    show(**tables)
    weights = {size: one.weights for size, one in found.items()}
    report.write("learning", {"rounds": rounds, "weights": weights, **tables, "targets": TARGETS})


def show(runs: Mapping[str, Any], trunk: Mapping[str, Any], steps: Mapping[str, Any]) -> None:
    """What was measured, as tables."""
    print("steps and tokens a second of CPU time, ours beside theirs; memory beyond the imports")
    some = next(iter(runs.values()))
    report.show([name for name, value in some.items() if isinstance(value, float)], runs)
    print("how many times as fast, turn by turn")
    for name, row in runs.items():
        print(f"{name}: {' '.join(f'{ratio:.2f}' for ratio in row['ratios'])}")
    shares = {name: row["shares"] for name, row in runs.items() if row["shares"]}
    if shares:
        print("shares of a step of ours")
        report.show(list(next(iter(shares.values()))), shares)
    for title, seen in (("frozen layers of PPO", trunk), ("a training step of a policy", steps)):
        if seen:
            print(title)
            report.show(list(next(iter(seen.values()))), seen)


if __name__ == "__main__":
    main()
