"""A policy learns from rewards: PPO, A2C and RLOO as settings of one loop.

Each step plays a batch of episodes with the policy as it is, says what each token was worth beyond
what was expected, and follows that for some epochs. It knows nothing of what episodes are about:
that is a `World`'s.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from accelerate import Accelerator

from rookery.learn.actor import Made, Value, make
from rookery.learn.controller import Controller
from rookery.learn.diagnose import diagnose
from rookery.learn.lesson import Teacher
from rookery.learn.models import tokenizer_of, write_model
from rookery.learn.optimise import Learner, workers
from rookery.learn.played import Played, Sampler, World, chunked
from rookery.learn.rules import ReinforceSettings, a2c, ppo, rloo, webgpt
from rookery.learn.run import Cord, Run, Saved, Told
from rookery.learn.sample import Sampled, sample
from rookery.learn.served import Served
from rookery.learn.split import is_split
from rookery.records import Failed, Failure

_OFTEN = 10
"""steps, at most, from one checkpoint to the next: batches of episodes take long"""
__all__ = ["ReinforceSettings", "Reinforced", "a2c", "ppo", "reinforce", "rloo", "webgpt"]


class Reinforced(msgspec.Struct, frozen=True):
    """What a run has reached."""

    model: str
    """the folder of the policy"""
    steps: int
    reward: float
    """mean of the last batch"""
    kl: float
    """from the reference, of an episode of the last batch, in nats"""
    ended: str
    """why before its last step; empty: it was not"""
    faults: tuple[str, ...]
    """what the metrics say is wrong (`diagnose`)"""


def reinforce(
    settings: ReinforceSettings,
    world: World,
    out: Path,
    told: Told | None = None,
    also: Sequence[Saved] = (),
    cord: Cord = str,
) -> Reinforced:
    """Trains the policy in this world; writes it to `out`/model.

    Goes on where a run with these settings in `out` was stopped, to the last bit; with a server
    that samples, from the same weights, and wherever the server is now. `also` is saved
    and restored with each checkpoint, after the networks: what the world must remember. What is
    measured at each step is told by `Teacher.learn`. Before each batch is played and each step of
    the optimiser is made, the run's file of that name and `cord` are asked. Raises Failed: stopped,
    not_a_number, run_in_use, other_run, nothing_said, nothing_to_learn (episodes that are alone
    in their groups, for `rloo`), and as `read_model` and `Served` do.
    """
    accelerator = workers(settings.policy.dtype)
    tokenizer, ends, pad = tokenizer_of(Path(settings.policy.model))
    server: Served | None = None
    if settings.server:
        server = Served(settings.server, out / "served", tokenizer, ends, settings.sampling)
    value: Value = "none" if settings.advantage == "rloo" else settings.value
    made = make(
        settings.policy,
        value,
        settings.value_model,
        settings.value_width,
        settings.reference,
        settings.seed,
    )
    if made.trunk is not None and is_split(accelerator):
        detail = "layers that networks share cannot be split by FSDP: let policy.frozen be 0"
        raise Failed(Failure(settings.policy.model, "unsupported", detail))
    ended = ""
    anywhere = msgspec.structs.replace(settings, server="")
    with Run(out, anywhere, accelerator, cord=cord) as run:
        updates = settings.steps * settings.epochs * settings.minibatches
        learner = Learner(made.actor, settings.optimising, updates, accelerator, run.pulled)
        if made.reference is not None:
            made.reference.to(accelerator.device)
        made = made._replace(actor=learner.bare)
        controller = Controller(settings.beta, settings.target, settings.gain)
        state = _State(learner, controller, *also)
        teacher = Teacher(settings, made, learner, pad)
        for step in run.steps(settings.steps, state, settings.every, told, _OFTEN):
            made = made._replace(actor=learner.bare)
            sampler = _sampler(settings, made, ends, accelerator, server, step)
            played = _play(settings, world, sampler, accelerator, step)
            lesson = teacher.read(played, step)
            if settings.budget is not None and lesson.kl > settings.budget:
                ended = f"the KL of an episode, {lesson.kl:.3g} nats, is above {settings.budget:g}"
                break
            measured = teacher.learn(lesson, step, controller.beta)
            controller.follow(lesson.kl)
            run.note(**measured)
            for one in played[: settings.shown]:
                run.sample(step=step, **_words(one, tokenizer))
        accelerator.wait_for_everyone()
        model: Any = learner.bare if learner.averages is None else learner.averages.module
        if accelerator.is_main_process:
            write_model(model.policy, tokenizer, out / "model")
        return _reached(run.metrics(), out / "model", ended)


class _State:
    """All that a checkpoint has."""

    def __init__(self, *parts: Saved) -> None:
        self._parts = parts

    def save(self, folder: Path) -> None:
        for part in self._parts:
            part.save(folder)

    def load(self, folder: Path) -> None:
        for part in self._parts:
            part.load(folder)


def _sampler(
    settings: ReinforceSettings,
    made: Made,
    ends: frozenset[int],
    accelerator: Accelerator,
    server: Served | None,
    step: int,
) -> Sampler:
    """The policy as it is now, here or in a server."""
    if server is not None:
        if accelerator.is_main_process:
            server.tell(made.actor.policy, step)
        accelerator.wait_for_everyone()
        return partial(server.sample, step)

    def sampler(
        contexts: Sequence[Sequence[int]], seeds: Sequence[str], allow: Any = None
    ) -> list[Sampled]:
        with accelerator.autocast():
            return sample(made.actor.policy, contexts, seeds, ends, settings.sampling, allow)

    return sampler


def _play(
    settings: ReinforceSettings,
    world: World,
    sampler: Sampler,
    accelerator: Accelerator,
    step: int,
) -> list[Played]:
    """This process's share of the batch."""
    first = step * settings.episodes
    batch = range(first, first + settings.episodes)
    mine = batch[accelerator.process_index :: accelerator.num_processes]
    played = world.play(sampler, mine, settings.seed)
    for one in played:
        if one.reward is not None and not torch.isfinite(torch.tensor(one.reward)):
            detail = f"its reward is {one.reward}: give a number, or None where there is no answer"
            raise Failed(Failure(f"episode {one.episode}", "not_a_number", detail))
    return [one._replace(rows=chunked(one.rows, settings.chunk)) for one in played]


def _words(played: Played, tokenizer: Any) -> dict[str, Any]:
    said = [
        {
            "context": tokenizer.decode(one.row.context),
            "action": tokenizer.decode(one.row.action),
        }
        for one in played.rows
    ]
    return {"episode": played.episode, "reward": played.reward, "rows": said}


def _reached(history: list[dict[str, float]], model: Path, ended: str) -> Reinforced:
    last = history[-1] if history else {"reward": 0.0, "kl": 0.0}
    faults = tuple(diagnose(history))
    return Reinforced(str(model), len(history), last["reward"], last["kl"], ended, faults)
