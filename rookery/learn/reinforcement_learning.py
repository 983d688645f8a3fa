"""Train a policy on rewards: PPO, A2C and RLOO as settings of one loop.

Each step plays a batch of episodes with the current policy, computes the advantage of each token,
and updates the policy on the batch for some epochs. Episodes come from a `RolloutEnvironment`.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file

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
from rookery.learn.shared_layers import StateRecorder
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
    judged: tuple[float, float] | None = None
    """the held-out judge's mean score there of the policy as it began, and of the one that is
    written; None: there is no judge"""


class _PolicyProgress(ValidationProgress):
    judge_scores: list[float] = msgspec.field(default_factory=list)
    """of each question, at the validation where their mean was the highest"""
    judged_reward: float = 0.0
    """that is learnt, at that validation"""
    falls: int = 0
    """validations in a row in which the judge's score had fallen while the reward had risen"""

    def add_judgement(self, reward: float, scores: list[float]) -> bool:
        """Record the judge's scores; return whether they have fallen from their highest mean by
        more than two standard errors of the difference, while the reward rose."""
        if not self.judge_scores or fmean(scores) > fmean(self.judge_scores):
            self.judge_scores, self.judged_reward, self.falls = scores, reward, 0
            return False
        changes = [now - best for now, best in zip(scores, self.judge_scores, strict=True)]
        error = stdev(changes) / math.sqrt(len(changes)) if len(changes) > 4 else math.inf
        fallen = fmean(changes) + 2 * error < 0 and reward > self.judged_reward
        self.falls = self.falls + 1 if fallen else 0
        return fallen

    def find_ending(self, settings: ReinforcementSettings) -> str:
        """Return why training must end; empty: it goes on."""
        if self.falls >= (settings.patience or 3):
            return f"the held-out judge fell {self.falls} checks in a row while the reward rose"
        worse = settings.patience is not None and self.worse >= settings.patience
        return f"no better reward in {settings.patience} validations" if worse else ""


def train_by_reinforcement(
    settings: ReinforcementSettings,
    world: RolloutEnvironment,
    out: Path,
    callback: StepCallback | None = None,
    also: Sequence[CheckpointedState] = (),
    cord: StopCheck = str,
    validation: RolloutEnvironment | None = None,
    judge: RolloutEnvironment | None = None,
) -> ReinforcementResult:
    """Train a policy on the rewards of the environment `world`, and write it to `out`/model.

    With `settings.check`, the policy that is written is the one with the highest reward in the
    environment `validation`, whose questions should be none of those that are learnt from. `judge`
    is the same environment with another reward, which is not learnt: a policy for which this has
    fallen while the reward rose is not written, and several in a row end the training.

    Goes on where a run with these settings in `out` was stopped, to the last bit; wherever the
    servers that sample are now, since what they drew after the last checkpoint is kept in
    `out`/drawn, and in `out`/validated for validations. Ends early where the KL of an episode is
    above `settings.budget`, with the last policy within it. `also` is saved and restored with each
    checkpoint, after the networks: what the world must remember. What is measured at each step is
    told by `PolicyGradientTrainer.train_on_batch`. Before each batch is played and each step of
    the optimiser is made, the file `cord` in `out` and the function `cord` are asked for a reason
    to stop. Raises ValueError for one of `settings.check` and `validation` without the other, or a
    `judge` without them, and Failed: stopped, not_a_number, run_in_use, other_run, nothing_said,
    nothing_to_learn (episodes that are alone in their groups, for `rloo`), unsupported, and as
    `load_trainable_model` and `VllmSampler` do.
    """
    if bool(settings.check) != (validation is not None) or (judge and not validation):
        raise ValueError("settings.check and an environment for validation go together")
    set_threads(settings.sampling)
    accelerator = make_accelerator(settings.policy.dtype)
    tokenizer, ends, pad = load_tokenizer(Path(settings.policy.model))
    served = settings.servers, out / "served", tokenizer, ends, settings.sampling
    server = VllmSampler(*served) if settings.servers else None
    actor = build_policy_networks(settings)
    ended, overrun, within = "", False, out / "within.safetensors"
    anywhere = msgspec.structs.replace(settings, server="")
    with ResumableRun(out, anywhere, accelerator, cord=cord) as run:
        updates = settings.steps * settings.epochs * settings.minibatches
        learner = ModelOptimizer(
            actor, settings.optimising, updates, accelerator, run.find_stop_reason
        )
        pace = settings.episodes / settings.horizon
        controller = KlController(settings.beta, settings.target, pace)
        main, place = accelerator.is_main_process, accelerator.process_index
        choice = SavedRecord(_CHOICE_FILE, _PolicyProgress(), main)
        digest = hashlib.blake2b(msgspec.json.encode(anywhere), digest_size=8).hexdigest()
        train_actions = DrawnActions(out / "drawn", digest, place)
        validated = DrawnActions(out / "validated", digest, place)
        state = CheckpointParts(learner, controller, choice, *also)
        teacher = PolicyGradientTrainer(settings, actor, learner, pad)

        def write_policy(weights: Path | None = None) -> None:
            """Write the policy, with the averages of its weights where they are made, or with those
            that were saved in a file."""

            def write(policy: Any) -> None:
                policy.load_state_dict(load_file(weights) if weights else {}, strict=False)
                save_pretrained_model(policy, tokenizer, out / "model")

            learner.write_model(write, "policy")

        def open_sampler(step: int, averaged: bool) -> AbstractContextManager[PolicySampler]:
            if server is None:
                return _open_sampler(settings, learner, ends, averaged, actor.shared_layers)
            kept = validated if averaged else train_actions
            return _update_servers(server, kept, learner, step, averaged)

        def validate_policy(steps: int) -> dict[str, float]:
            assert validation is not None
            some, progress, fallen = range(settings.validation_episodes), choice.record, False
            with open_sampler(steps, averaged=True) as sampler:
                played = _play_batch(settings, validation, sampler, accelerator, some)
                # The same actions, since they depend on the policy and their seeds alone.
                judged = _play_batch(settings, judge, sampler, accelerator, some) if judge else []
            batch = teacher.prepare_batch(played, steps)
            metrics = {"reward": batch.reward}
            if judge is not None:
                scores = _average_by_question(settings, judged)
                metrics["judge"] = fmean(scores)
                fallen = progress.add_judgement(batch.reward, scores)
            progress.before = progress.before or metrics
            if fallen or (settings.budget is not None and batch.kl > settings.budget):
                progress.worse += 1
            elif progress.add_validation(steps, metrics, "reward"):
                write_policy()
            measured = {**metrics, "kl": batch.kl}.items()
            return {f"validation_{name}": value for name, value in measured}

        for step in run.iterate_steps(
            settings.steps, state, settings.every, callback, _MAX_CHECKPOINT_INTERVAL
        ):
            if ended := choice.record.find_ending(settings):
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
                overrun = bool(step)
                break
            if settings.budget is not None and not settings.check:
                learner.write_model(partial(_save_learnt_weights, within), "policy")
            measured = teacher.train_on_batch(lesson, step, controller.beta)
            controller.update_beta(lesson.kl)
            limits = {"target": settings.target, "budget": settings.budget}
            measured |= {name: limit for name, limit in limits.items() if limit is not None}
            is_last = step + 1 == settings.steps
            if settings.check and (is_last or (step + 1) % settings.check == 0):
                measured |= validate_policy(step + 1)
            run.record_metrics(**measured)
            for one in played[: settings.shown]:
                run.record_sample(step=step, **_decode_trajectory(one, tokenizer))
            if main:
                for store in (train_actions, validated):
                    store.forget_actions(range(run.find_oldest_step()))
        run.ending = ended and f"ended: {ended}"
        accelerator.wait_for_everyone()
        if not settings.check:
            write_policy(within if overrun else None)
        history = load_run_metrics(out)
        best = choice.record if settings.check else ValidationProgress(len(history) - overrun)
        return _make_result(history, out / "model", ended, best)


@contextmanager
def _open_sampler(
    settings: ReinforcementSettings,
    learner: ModelOptimizer,
    ends: frozenset[int],
    averaged: bool,
    shared_layers: Sequence[Sequence[torch.nn.Module]],
) -> Iterator[PolicySampler]:
    """Yield the policy as it is now, in this process; what its lower layers, which learn nothing,
    give while it samples is kept for those who read the actions."""
    with learner.open_whole_model(
        "policy", averaged=averaged, dtype=settings.policy.dtype
    ) as policy:
        recorder = StateRecorder(shared_layers[0][-1]) if shared_layers else None
        sample = make_policy_sampler(policy, ends, settings.sampling, recorder)
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


def _average_by_question(rules: ReinforcementSettings, played: Sequence[Trajectory]) -> list[float]:
    """Return the mean score of each group of whole episodes of all processes, in their order."""
    whole, worth = [one for one in played if not one.extra], (rules.no_answer, rules.bad_syntax)
    ours = [(one.episode, one.group, one.compute_score(*worth)) for one in whole]
    scores = defaultdict[Hashable, list[float]](list)
    for _, group, score in sorted(gather_object(ours), key=lambda each: each[0]):
        scores[group].append(score)
    return list(map(fmean, scores.values()))


def _save_learnt_weights(place: Path, policy: torch.nn.Module) -> None:
    """Write the weights that learn, so that a kill leaves the old file or the new one."""
    learnt = {name: each for name, each in policy.named_parameters() if each.requires_grad}
    new = place.with_suffix(".new")
    save_file({name: each.detach().cpu().clone() for name, each in learnt.items()}, new)
    new.replace(place)


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
    history: list[dict[str, float]], model: Path, ended: str, best: ValidationProgress
) -> ReinforcementResult:
    last = history[-1] if history else {"reward": 0.0, "kl": 0.0}
    faults = tuple(diagnose_training(history))
    judged = (best.before["judge"], best.after["judge"]) if "judge" in best.after else None
    chosen = best.step, best.after.get("reward"), judged
    return ReinforcementResult(
        str(model), len(history), last["reward"], last["kl"], ended, faults, *chosen
    )
