"""Supervised learning from chosen episodes: training, validation and sample answers."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import torch
from accelerate import Accelerator
from torch import Tensor

from rookery.browser.browser_commands import parse_command
from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionRow,
    collate_rows,
    compute_padding_share,
    predict_actions,
    split_into_micro_batches,
)
from rookery.learn.decoding import SamplingSettings, sample_actions
from rookery.learn.episodes import RolloutEnvironment
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.policy_gradient import ActorCritic
from rookery.learn.pretrained_models import (
    LoadedModel,
    TrainedModelSettings,
    is_lora_model,
    load_model,
    load_trainable_model,
    save_adapter,
    save_pretrained_model,
    seed_torch,
)
from rookery.learn.rollout_environments import average_trial, try_policy
from rookery.learn.training_data import (
    AnswerRatings,
    EpisodeFilter,
    ImitationExample,
    ImitationExamples,
    PromptConstraint,
    build_imitation_examples,
    choose_validation_questions,
    describe_left_out,
    read_episodes,
)
from rookery.learn.training_run import (
    ResumableRun,
    SavedRecord,
    StepCallback,
    TrainingSchedule,
    ValidationProgress,
    train_with_validations,
)
from rookery.library.call_recording import CallRecording
from rookery.records import Failure, Rating
from rookery.typed_files import read_json_lines


@torch.inference_mode()
def measure_validation_loss(
    loaded: LoadedModel, pieces: Sequence[Sequence[ActionRow]], accelerator: Accelerator
) -> dict[str, float]:
    """Return `validation_loss`, `perplexity` and `accuracy` of a model on the target tokens.

    The loss is a mean over tokens, in nats; accuracy is the share of tokens that are the likeliest.
    The micro-batches, of which there must be one, are shared between processes: all must call this,
    and each returns the same. The model stays in its mode: set it to evaluation where it has
    dropout.
    """
    sums_2 = torch.zeros(2, dtype=torch.float64)
    for piece in pieces[accelerator.process_index :: accelerator.num_processes]:
        logprobs_A, hits_A = predict_actions(loaded.model, piece, loaded.pad)
        sums_2 += torch.stack([-logprobs_A.double().sum(), hits_A.double().sum()]).cpu()
    count = sum(len(row.action) for piece in pieces for row in piece)
    nats, hits = accelerator.reduce(sums_2.to(accelerator.device), "sum").tolist()
    loss = nats / count
    perplexity = math.exp(min(loss, 700.0))
    return {"validation_loss": loss, "perplexity": perplexity, "accuracy": hits / count}


def generate_answers(
    loaded: LoadedModel, examples: Sequence[ImitationExample], tokens: int
) -> list[dict[str, Any]]:
    """Answer each prompt by always the likeliest token, and compare the answer with its target.

    Returns `question`, `wanted` (the target), `said` (the answer, of at most `tokens` tokens, and
    fewer where the longest prompt leaves less room) and `same` (whether their tokens are equal) for
    each.
    """
    contexts = [example.row.context for example in examples]
    room = loaded.context - max(map(len, contexts), default=0)
    sampling = SamplingSettings(max_tokens=min(tokens, room), temperature=0)
    sampled = sample_actions(loaded.model, contexts, range(len(examples)), loaded.ends, sampling)
    return [
        {
            "question": example.question,
            "wanted": example.said,
            "said": loaded.tokenizer.decode(list(each.row.action), skip_special_tokens=True),
            "same": list(each.row.action) == list(example.row.action),
        }
        for example, each in zip(examples, sampled, strict=True)
    ]


def measure_answer_accuracy(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the shares `same`, answers equal to their targets, and `valid`, commands well formed.

    `samples` is from `generate_answers`. `valid` is measured where the target is a browser command:
    the share of answers that are any such command. Empty without answers.
    """
    if not samples:
        return {}
    measured = {"same": sum(each["same"] for each in samples) / len(samples)}
    commands = [each["said"] for each in samples if parse_command(each["wanted"])]
    if commands:
        valid = [each for each in commands if parse_command(each) is not None]
        measured["valid"] = len(valid) / len(commands)
    return measured


ValidationScore = Literal["loss", "accuracy", "valid", "reward"]


class ImitationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run of imitation learning: model, episodes, optimizer and duration."""

    trained: TrainedModelSettings
    episodes: tuple[str, ...]
    """files of Episodes, one JSON line each"""
    recording: str = ""
    """file of a recording, from which prompts that are not stored are built again"""
    ratings: str = ""
    """file of Ratings, one JSON line each, for `chosen.rated`"""
    chosen: EpisodeFilter = EpisodeFilter()
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""
    optimising: OptimizerSettings = OptimizerSettings()
    epochs: int = 2
    """passes over the episodes, at most (WebGPT stopped after 2 to 5 of at most 12: tables 6 and
    8)"""
    rows: int = 128
    """steps of episodes that make one step of the optimiser (GopherCite: 128; WebGPT: 512)"""
    piece: int = 4096
    """tokens that are computed at once; it changes memory and speed, and nothing else"""
    seed: int = 0
    """seed of everything that is drawn: the same one gives the same run"""
    validation: float = 0.04
    """share of the questions whose steps are kept for validation (WebGPT, section 3.2: 4 %)"""
    check: int = 0
    """steps from one validation to the next; 0: an epoch"""
    best: ValidationScore = "loss"
    """by which the written model is chosen among those that were validated: the loss a token; the
    share of tokens that are the likeliest; the share of prompts for commands that are answered
    with a command; the mean reward in an environment (WebGPT, appendix E)"""
    validation_episodes: int = 64
    """episodes that are played for the reward, the same ones at each validation"""
    sampling: SamplingSettings = SamplingSettings()
    """how the actions of these episodes are drawn"""
    no_answer: float = -1.0
    """the reward of an episode without an answer"""
    patience: int | None = None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    asked: int = 8
    """validation prompts that are answered at each validation, always with the likeliest token"""
    tokens: int = 64
    """tokens of such an answer, at most"""
    every: int | None = None
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""

    def __post_init__(self) -> None:
        counts = (self.epochs, self.rows, self.piece, self.tokens, self.validation_episodes)
        if min(*counts, 1 if self.every is None else self.every) < 1:
            raise ValueError(
                "epochs, rows, piece, every, tokens and validation_episodes must be 1 or more"
            )
        if not 0 <= self.validation < 1 or self.check < 0 or self.asked < 0:
            raise ValueError("validation is a share from 0 to 1; check and asked are 0 or more")
        if self.patience is not None and (self.patience < 1 or not self.validation):
            raise ValueError("patience must be 1 or more, and needs a share for validation")
        if self.best == "valid" and not self.asked:
            raise ValueError('best = "valid" needs prompts to answer: let asked be 1 or more')
        if self.best == "reward" and not self.validation:
            raise ValueError('best = "reward" is measured at validations: set a share for them')


class ImitationResult(msgspec.Struct, frozen=True):
    """The result of a run: the model, what it learnt from, and the validation before and after."""

    model: str
    """the folder of the model: the best of those that were validated, or the last"""
    rows: int
    """steps of episodes that were learnt from"""
    validation_rows: int
    left_out: str
    """what was not learnt from, and why; empty: nothing"""
    steps: int
    """of the optimiser"""
    stopped: bool
    """whether it ended early, for want of anything better"""
    best_step: int
    """after how many steps the model was written; 0: it was not validated"""
    before: dict[str, float]
    """the same of the model as it began"""
    measured: dict[str, float]
    """at that validation"""


def train_by_imitation(
    settings: ImitationSettings,
    out: Path,
    callback: StepCallback | None = None,
    environment: RolloutEnvironment | None = None,
    constrain: PromptConstraint | None = None,
) -> ImitationResult:
    """Train a model on episodes and write it to `out`/model; continue a run that was broken off.

    Writes the model that was best at validation, or the last without a validation; with LoRA its
    changes to the weights are also written alone, to `out`/adapter. Where `settings.best` says so
    it is the best by its reward in the `environment`, whose questions should be none of those that
    are imitated. The loss is that of the targets alone, a mean over the tokens of a whole step;
    with `constrain` their probabilities are those of the constraint that will sample, so that
    nothing is learnt from tokens that it leaves no choice of.
    What the model answers at validations is kept in `out`/samples.jsonl. Raises Failed: no_model,
    bad_model, not_found, bad_line, no_prompts (neither stored nor recorded), nothing_chosen (no
    step is left to learn from), one_question (validation needs two), no_commands (none to choose
    the best by), no_environment (to measure rewards in), run_in_use, other_run, unwritable,
    stopped, not_a_number, and what `load_trainable_model` and `ModelOptimizer` raise.
    """
    if (settings.best == "reward") != (environment is not None):
        detail = 'best = "reward" and an environment to earn it in, [world] of a file, go together'
        raise Failed(Failure("validation", Outcome.NO_ENVIRONMENT, detail))
    accelerator = make_accelerator(settings.trained.dtype)
    files = (*settings.episodes, settings.recording, settings.ratings)
    with ResumableRun(out, settings, accelerator, data=files) as run:
        loaded = load_model(Path(settings.trained.model), "cpu")
        data = _load_data(settings, loaded, constrain)
        with seed_torch(settings.seed):  # for LoRA's new weights
            model = load_trainable_model(settings.trained)
        learner = ModelOptimizer(
            ActorCritic(model),
            settings.optimising,
            data.steps,
            accelerator,
            run.find_stop_reason,
            dropout_seed=settings.seed if settings.trained.dropout else None,
        )
        loaded = loaded._replace(model=model)  # the weights as they were are no longer needed
        training = _ImitationTraining(settings, run, learner, data, loaded, environment)
        training.run_steps(callback)
        if not data.validation:
            training.write_model()
        return training.make_result()


class _ImitationData:
    """The examples, and which of them each step learns from."""

    def __init__(self, read: ImitationExamples, settings: ImitationSettings) -> None:
        self.left_out = describe_left_out(read.left_out)
        self._settings = settings
        questions = {each.question for each in read.found}
        held_out = choose_validation_questions(questions, settings.validation, settings.seed)
        self.training = [each for each in read.found if each.question not in held_out]
        self.validation = [each for each in read.found if each.question in held_out]
        self.steps_an_epoch = math.ceil(len(self.training) / settings.rows)
        self.steps = settings.epochs * self.steps_an_epoch
        self.asked = _choose_prompts(self.validation, settings)
        self._epoch, self._order = -1, list(range(len(self.training)))

    def select_batch(self, step: int) -> list[ActionRow]:
        """Return the rows of one step: in every epoch each row once, in a new order."""
        epoch, at = divmod(step, self.steps_an_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(len(self.training)))
            Random(f"{self._settings.seed} order {epoch}").shuffle(self._order)
        first = at * self._settings.rows
        return [self.training[n].row for n in self._order[first : first + self._settings.rows]]


def _load_data(
    settings: ImitationSettings, loaded: LoadedModel, constrain: PromptConstraint | None
) -> _ImitationData:
    with ExitStack() as stack:
        recording = None
        if settings.recording:
            if not Path(settings.recording).exists():
                detail = "there is no such recording: check the path"
                raise Failed(Failure(settings.recording, Outcome.NOT_FOUND, detail))
            recording = stack.enter_context(CallRecording(Path(settings.recording)))
        ratings = read_json_lines(Path(settings.ratings), Rating) if settings.ratings else ()
        episodes = read_episodes([Path(each) for each in settings.episodes], recording)
        read = build_imitation_examples(
            episodes, loaded, settings.chosen, AnswerRatings(ratings), settings.chat, constrain
        )
    if not read.found:
        why = describe_left_out(read.left_out) or "the files hold no episode"
        detail = f"no step is left to learn from ({why}): name other files, or choose less strictly"
        raise Failed(Failure(", ".join(settings.episodes), Outcome.NOTHING_CHOSEN, detail))
    return _ImitationData(read, settings)


def _choose_prompts(
    validation: Sequence[ImitationExample], settings: ImitationSettings
) -> list[ImitationExample]:
    size = min(settings.asked, len(validation))
    prompts = Random(f"{settings.seed} asked").sample(validation, size)
    if settings.best == "valid" and not any(parse_command(example.said) for example in prompts):
        detail = (
            "no prompt that is answered asks for a command: choose by loss, or let asked be more"
        )
        raise Failed(Failure("validation", Outcome.NO_COMMANDS, detail))
    return prompts


@dataclass(eq=False)
class _ImitationTraining:
    """A model in training, its validations, and the writing of the best."""

    settings: ImitationSettings
    run: ResumableRun
    learner: ModelOptimizer
    data: _ImitationData
    loaded: LoadedModel
    environment: RolloutEnvironment | None

    def __post_init__(self) -> None:
        main = self.learner.accelerator.is_main_process
        self._progress = SavedRecord("best.json", ValidationProgress(), main)

    def run_steps(self, callback: StepCallback | None) -> None:
        """Make the steps that are still to be made."""
        settings, data = self.settings, self.data
        check = settings.check or data.steps_an_epoch
        best = {"loss": "validation_loss"}.get(settings.best, settings.best)
        train_with_validations(
            self.run,
            TrainingSchedule(data.steps, check, settings.patience, settings.every, best),
            self.learner,
            self._progress,
            self._train_step,
            self._measure_validation if data.validation else None,
            self.write_model,
            callback,
        )

    def _train_step(self, step: int) -> dict[str, float]:
        """Take one step. The loss is a mean over the tokens of all targets, in all pieces and
        processes."""
        if step == 0 and self.data.validation:
            self._progress.record.before = self._measure_validation()[0]
        began = time.perf_counter()
        rows, learner, settings = self.data.select_batch(step), self.learner, self.settings
        count = sum(len(row.action) for row in rows)

        def compute_micro_batch_loss(piece: Sequence[ActionRow]) -> Tensor:
            batch = collate_rows(piece, self.loaded.pad, learner.accelerator.device)
            logprobs_N: Tensor = learner.model(batch, 1.0, {"logprobs"})["logprobs"]
            return -logprobs_N.sum() / count

        pieces = split_into_micro_batches(rows, settings.piece)
        metrics = learner.step_in_shares(step, pieces, compute_micro_batch_loss)
        tokens = count + sum(len(row.context) for row in rows)
        optimising = settings.optimising
        return metrics | {
            "padding": compute_padding_share(pieces),
            "tokens_a_second": tokens / (time.perf_counter() - began),
            "rate": optimising.rate * optimising.compute_rate_share(step, self.data.steps),
        }

    def _measure_validation(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Return the measures of the validation examples, and the answers to some of them."""
        settings, data = self.settings, self.data
        with self.learner.open_whole_model("policy") as model:
            loaded = self.loaded._replace(model=model)
            rows = [example.row for example in data.validation]
            pieces = split_into_micro_batches(rows, settings.piece)
            metrics = measure_validation_loss(loaded, pieces, self.learner.accelerator)
            samples = generate_answers(loaded, data.asked, settings.tokens)
            if self.environment is not None:
                trial = try_policy(
                    model,
                    loaded.ends,
                    self.environment,
                    settings.validation_episodes,
                    settings.sampling,
                    settings.no_answer,
                )
                metrics |= average_trial(trial)
        return metrics | measure_answer_accuracy(samples), samples

    def write_model(self) -> None:
        """Write the model, and what LoRA changed of it, to the folder of the run."""
        self.learner.write_model(self._write_policy, "policy")

    def _write_policy(self, model: Any) -> None:
        save_pretrained_model(model, self.loaded.tokenizer, self.run.folder / "model")
        if is_lora_model(model):
            base = Path(self.settings.trained.model).name
            save_adapter(model, self.run.folder / "adapter", base)

    def make_result(self) -> ImitationResult:
        """Return the result of the run after its last step."""
        data, progress = self.data, self._progress.record
        steps = progress.last or data.steps
        return ImitationResult(
            model=str(self.run.folder / "model"),
            rows=len(data.training),
            validation_rows=len(data.validation),
            left_out=data.left_out,
            steps=steps,
            stopped=steps < data.steps,
            best_step=progress.step,
            before=progress.before,
            measured=progress.after,
        )
