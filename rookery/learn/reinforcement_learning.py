"""Train a policy on rewards: PPO, A2C and RLOO as settings of one loop.

Each step plays a batch of episodes with the current policy, computes the advantage of each token,
and updates the policy on the batch for some epochs. Episodes come from a `RolloutEnvironment`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from accelerate import Accelerator

from rookery.errors import Failed, Outcome
from rookery.learn.decoding import set_threads
from rookery.learn.episodes import (
    PolicySampler,
    RolloutEnvironment,
    Trajectory,
    make_policy_sampler,
    split_long_actions,
)
from rookery.learn.optimizer import ModelOptimizer, make_accelerator
from rookery.learn.policy_gradient import (
    KlController,
    PolicyGradientTrainer,
    ReinforcementSettings,
    build_policy_networks,
)
from rookery.learn.pretrained_models import load_tokenizer, save_pretrained_model
from rookery.learn.training_run import (
    CheckpointedState,
    CheckpointParts,
    ResumableRun,
    SavedRecord,
    StepCallback,
    StopCheck,
    ValidationProgress,
    diagnose_training,
    load_run_metrics,
)
from rookery.learn.vllm_sampler import DrawnActions, VllmSampler
from rookery.records import Failure

_MAX_CHECKPOINT_INTERVAL = 10
"""steps, at most, from one checkpoint to the next: batches of episodes take long"""
_CHOICE_FILE = "choice.json"


class ReinforcementResult(msgspec.Struct, frozen=True):
    """The result of a run: model, steps, reward, KL, and likely faults."""

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
    """what the metrics say is wrong (`diagnose_training`)"""
    best_step: int = 0
    """after how many steps the policy was the one that is written: the last, or the best of those
    that were validated; 0: as it began"""
    validated: float | None = None
    """its mean reward on the questions that were held out, by which it was chosen: more than it is
    worth elsewhere; None: it is the last"""


def train_by_reinforcement(
    settings: ReinforcementSettings,
    world: RolloutEnvironment,
    out: Path,
    callback: StepCallback | None = None,
    also: Sequence[CheckpointedState] = (),
    cord: StopCheck = str,
    validation: RolloutEnvironment | None = None,
) -> ReinforcementResult:
    """Train a policy on the rewards of the environment `world`, and write it to `out`/model.

    With `settings.check`, the policy that is written is the one with the highest reward in the
    environment `validation`, whose questions should be none of those that are learnt from.

    Goes on where a run with these settings in `out` was stopped, to the last bit; wherever the
    servers that sample are now, since what they drew after the last checkpoint is kept in
    `out`/drawn, and in `out`/validated for validations. Ends early where the KL of
    an episode is above `settings.budget`. `also` is saved and restored with each checkpoint, after
    the networks: what the world must remember. What is measured at each step is told by
    `PolicyGradientTrainer.train_on_batch`. Before each batch is played and each step of the
    optimiser is made, the file `cord` in `out` and the function `cord` are asked for a reason to
    stop. Raises ValueError for one of `settings.check` and `validation` without the other, and
    Failed: stopped, not_a_number, run_in_use, other_run, nothing_said,
    nothing_to_learn (episodes that are alone in their groups, for `rloo`), unsupported, and as
    `load_trainable_model` and `VllmSampler` do.
    """
    if bool(settings.check) != (validation is not None):
        raise ValueError("settings.check and an environment for validation go together")
    set_threads(settings.sampling)
    accelerator = make_accelerator(settings.policy.dtype)
    tokenizer, ends, pad = load_tokenizer(Path(settings.policy.model))
    server: VllmSampler | None = None
    if settings.servers:
        server = VllmSampler(
            settings.servers,
            out / "served",
            tokenizer,
            ends,
            settings.sampling,
        )
    actor = build_policy_networks(settings)
    ended = ""
    anywhere = msgspec.structs.replace(settings, server="")
    with ResumableRun(out, anywhere, accelerator, cord=cord) as run:
        updates = settings.steps * settings.epochs * settings.minibatches
        learner = ModelOptimizer(
            actor, settings.optimising, updates, accelerator, run.find_stop_reason
        )
        gain = settings.episodes / settings.horizon
        controller = KlController(settings.beta, settings.target, gain)
        main = accelerator.is_main_process
        choice = SavedRecord(_CHOICE_FILE, ValidationProgress(), main)
        digest = hashlib.blake2b(msgspec.json.encode(anywhere), digest_size=8).hexdigest()
        place = accelerator.process_index
        train_actions = DrawnActions(out / "drawn", digest, place)
        validated = DrawnActions(out / "validated", digest, place)
        state = CheckpointParts(learner, controller, choice, *also)
        teacher = PolicyGradientTrainer(settings, actor, learner, pad)

        def write_policy() -> None:
            """Write the policy, with the averages of its weights where they are made."""
            learner.write_model(
                lambda policy: save_pretrained_model(policy, tokenizer, out / "model"), "policy"
            )

        def open_sampler(step: int, averaged: bool) -> AbstractContextManager[PolicySampler]:
            if server is None:
                return _open_sampler(settings, learner, ends, averaged)
            kept = validated if averaged else train_actions
            return _update_servers(server, kept, learner, step, averaged)

        def validate_policy(steps: int) -> dict[str, float]:
            assert validation is not None
            some = range(settings.validation_episodes)
            with open_sampler(steps, averaged=True) as sampler:
                played = _play_batch(settings, validation, sampler, accelerator, some)
            batch = teacher.prepare_batch(played, steps)
            if settings.budget is not None and batch.kl > settings.budget:
                choice.record.worse += 1
            elif choice.record.add_validation(steps, {"reward": batch.reward}, "reward"):
                write_policy()
            return {"validation_reward": batch.reward, "validation_kl": batch.kl}

        for step in run.iterate_steps(
            settings.steps, state, settings.every, callback, _MAX_CHECKPOINT_INTERVAL
        ):
            if settings.patience is not None and choice.record.worse >= settings.patience:
                ended = f"no better reward in {settings.patience} validations"
                break
            if settings.check and step == 0:
                validate_policy(0)
            first = step * settings.episodes
            batch = range(first, first + settings.episodes)
            with open_sampler(step, averaged=False) as sampler:
                played = _play_batch(settings, world, sampler, accelerator, batch)
            lesson = teacher.prepare_batch(played, step)
            if settings.budget is not None and lesson.kl > settings.budget:
                ended = f"the KL of an episode, {lesson.kl:.3g} nats, is above {settings.budget:g}"
                break
            measured = teacher.train_on_batch(lesson, step, controller.beta)
            controller.update_beta(lesson.kl)
            measured |= {} if settings.target is None else {"target": settings.target}
            steps_done = step + 1
            if settings.check and (
                steps_done % settings.check == 0 or steps_done == settings.steps
            ):
                measured |= validate_policy(steps_done)
            run.record_metrics(**measured)
            for one in played[: settings.shown]:
                run.record_sample(step=step, **_decode_trajectory(one, tokenizer))
            if main:
                for store in (train_actions, validated):
                    store.forget_actions(range(run.find_oldest_step()))
        run.ending = ended and f"ended: {ended}"
        accelerator.wait_for_everyone()
        if not settings.check:
            write_policy()
        best = choice.record if settings.check else None
        return _make_result(load_run_metrics(out), out / "model", ended, best)


@contextmanager
def _open_sampler(
    settings: ReinforcementSettings, learner: ModelOptimizer, ends: frozenset[int], averaged: bool
) -> Iterator[PolicySampler]:
    """Yield the policy as it is now, in this process."""
    with learner.open_whole_model(
        "policy", averaged=averaged, dtype=settings.policy.dtype
    ) as policy:
        sample = make_policy_sampler(policy, ends, settings.sampling)
        yield learner.accelerator.autocast()(sample)


@contextmanager
def _update_servers(
    server: VllmSampler,
    train_actions: DrawnActions,
    learner: ModelOptimizer,
    step: int,
    averaged: bool,
) -> Iterator[PolicySampler]:
    """Yield the policy as it is now, in servers."""
    with learner.open_whole_model("policy", averaged=averaged, everywhere=False) as policy:
        if learner.accelerator.is_main_process:
            server.update_weights(policy, step)
    learner.accelerator.wait_for_everyone()
    yield train_actions.remember_actions(partial(server.sample, step), step)


def _play_batch(
    settings: ReinforcementSettings,
    world: RolloutEnvironment,
    sampler: PolicySampler,
    accelerator: Accelerator,
    batch: range,
) -> list[Trajectory]:
    """Return this process's share of the episodes with these numbers."""
    mine = batch[accelerator.process_index :: accelerator.num_processes]
    played = world.play_episodes(sampler, mine, settings.seed)
    for one in played:
        if one.reward is not None and not torch.isfinite(torch.tensor(one.reward)):
            detail = f"its reward is {one.reward}: give a number, or None where there is no answer"
            raise Failed(Failure(f"episode {one.episode}", Outcome.NOT_A_NUMBER, detail))
    return [one._replace(rows=split_long_actions(one.rows, settings.chunk)) for one in played]


def _decode_trajectory(played: Trajectory, tokenizer: Any) -> dict[str, Any]:
    said = [
        {
            "context": tokenizer.decode(one.row.context),
            "action": tokenizer.decode(one.row.action),
        }
        for one in played.rows
    ]
    return {"episode": played.episode, "reward": played.reward, "rows": said}


def _make_result(
    history: list[dict[str, float]], model: Path, ended: str, best: ValidationProgress | None
) -> ReinforcementResult:
    last = history[-1] if history else {"reward": 0.0, "kl": 0.0}
    faults = tuple(diagnose_training(history))
    chosen = (len(history), None) if best is None else (best.step, best.after.get("reward"))
    return ReinforcementResult(
        str(model), len(history), last["reward"], last["kl"], ended, faults, *chosen
    )
