"""A policy learns from rewards: PPO, A2C and RLOO as settings of one loop.

Each step plays a batch of episodes with the policy as it is, says what each token was worth beyond
what was expected, and follows that for some epochs. It knows nothing of what episodes are about:
that is a `World`'s.
"""

from collections.abc import Sequence
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
from rookery.learn.played import Played, World, chunked
from rookery.learn.rules import ReinforceSettings, a2c, ppo, rloo, webgpt
from rookery.learn.run import Run, Saved, Told
from rookery.learn.sample import Sampled, sample
from rookery.records import Failed, Failure

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
) -> Reinforced:
    """Trains the policy in this world; writes it to `out`/model.

    Goes on where a run with these settings in `out` was stopped, to the last bit. `also` is saved
    and restored with each checkpoint, after the networks: what the world must remember. What is
    measured at each step is told by `Teacher.learn`. The cord of the run is looked
    at before each batch is played and before each step of the optimiser. Raises Failed: stopped,
    not_a_number, run_in_use, other_run, nothing_said, and as `read_model` does.
    """
    accelerator = workers(settings.policy.dtype)
    tokenizer, ends, pad = tokenizer_of(Path(settings.policy.model))
    value: Value = "none" if settings.advantage == "rloo" else settings.value
    made = make(
        settings.policy,
        value,
        settings.value_model,
        settings.value_width,
        settings.reference,
        settings.seed,
    )
    ended = ""
    with Run(out, settings, accelerator) as run:
        updates = settings.steps * settings.epochs * settings.minibatches
        learner = Learner(made.actor, settings.optimising, updates, accelerator, run.pulled)
        if made.reference is not None:
            made.reference.to(accelerator.device)
        controller = Controller(settings.beta, settings.target, settings.gain)
        state = _State(learner, controller, *also)
        teacher = Teacher(settings, made, learner, pad)
        for step in run.steps(settings.steps, state, settings.every, told):
            played = _play(settings, world, made, ends, accelerator, step)
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


def _play(
    settings: ReinforceSettings,
    world: World,
    made: Made,
    ends: frozenset[int],
    accelerator: Accelerator,
    step: int,
) -> list[Played]:
    """This process's share of the batch."""

    def sampler(
        contexts: Sequence[Sequence[int]], seeds: Sequence[str], allow: Any = None
    ) -> list[Sampled]:
        with accelerator.autocast():
            return sample(made.actor.policy, contexts, seeds, ends, settings.sampling, allow)

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
