"""Supervised learning from chosen episodes: training, validation and sample answers."""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from rookery.browser.browser_commands import parse_command
from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionRow,
    can_pack,
    collate_or_pack,
    compute_padding_share,
    predict_actions,
    split_into_micro_batches,
)
from rookery.learn.browser_environment import measure_policy_reward
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
)
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
from rookery.learn.training_run import ResumableRun, StepCallback
from rookery.library.call_recording import CallRecording
from rookery.records import Failure, Rating, prepare_type
from rookery.typed_files import read_json_lines


class GenerationSettings(NamedTuple):
    """Tokenizer, end and pad tokens, context and packing that a model generates with."""

    tokenizer: Any
    ends: frozenset[int]
    pad: int
    context: int
    packing: bool


def make_generation_settings(loaded: LoadedModel, packing: bool) -> GenerationSettings:
    """Return what a loaded model generates with: tokenizer, end and pad tokens, context, packing.

    A tokenizer without a pad token pads with an end token.
    """
    pad = loaded.tokenizer.pad_token_id
    pad = min(loaded.ends) if pad is None else int(pad)
    return GenerationSettings(loaded.tokenizer, loaded.ends, pad, loaded.context, packing)


def sum_across_processes(accelerator: Accelerator, each_N: Tensor) -> list[float]:
    """Return each element of a tensor summed over all processes."""
    found: Any = accelerator.reduce(each_N, "sum")
    return [float(each) for each in found]


@torch.inference_mode()
def measure_validation_loss(
    model: Any,
    validation: Sequence[ImitationExample],
    speech: GenerationSettings,
    size: int,
    accelerator: Accelerator,
) -> dict[str, float]:
    """Return `validation_loss`, `perplexity` and `accuracy` of a model on the target tokens.

    The loss is a mean over tokens, in nats; accuracy is the share of tokens that are the likeliest.
    `size` is how many tokens are computed at once. The work is shared between processes, and each
    returns the same.
    """
    sums_2 = torch.zeros(2, dtype=torch.float64)
    rows = [example.row for example in validation]
    pieces = split_into_micro_batches(rows, size, speech.packing)
    for piece in pieces[accelerator.process_index :: accelerator.num_processes]:
        logprobs_A, hits_A = predict_actions(model, piece, speech.pad, speech.packing)
        sums_2 += torch.stack([-logprobs_A.double().sum(), hits_A.double().sum()]).cpu()
    count = sum(len(row.action) for row in rows)
    nats, hits = sum_across_processes(accelerator, sums_2.to(accelerator.device))
    loss = nats / count
    perplexity = math.exp(min(loss, 700.0))
    return {"validation_loss": loss, "perplexity": perplexity, "accuracy": hits / count}


def generate_answers(
    model: Any, examples: Sequence[ImitationExample], speech: GenerationSettings, tokens: int
) -> list[dict[str, Any]]:
    """Answer each prompt by always the likeliest token, and compare the answer with its target.

    Returns `question`, `wanted` (the target), `said` (the answer, of at most `tokens` tokens) and
    `same` (whether their tokens are equal) for each.
    """
    contexts = [example.row.context for example in examples]
    room = speech.context - max(map(len, contexts), default=0)
    sampling = SamplingSettings(max_tokens=min(tokens, room), temperature=0)
    sampled = sample_actions(model, contexts, range(len(examples)), speech.ends, sampling)
    return [
        {
            "question": example.question,
            "wanted": example.said,
            "said": speech.tokenizer.decode(each.row.action, skip_special_tokens=True),
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
        measured["valid"] = sum(parse_command(each) is not None for each in commands) / len(
            commands
        )
    return measured


ValidationScore = Literal["loss", "accuracy", "valid", "reward"]


class ImitationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run of imitation learning: model, episodes, optimizer and duration."""

    trained: TrainedModelSettings
    episodes: tuple[str, ...]
    """files of Episodes, one JSON line each"""
    recording: str = ""
    """from which prompts that are not stored are built again"""
    ratings: str = ""
    """file of Ratings, one JSON line each, for `chosen.rated`"""
    chosen: EpisodeFilter = EpisodeFilter()
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""
    optimising: OptimizerSettings = OptimizerSettings()
    epochs: int = 2
    """at most (WebGPT stopped after 2 to 5 of at most 12: tables 6 and 8)"""
    rows: int = 128
    """steps of episodes that make one step of the optimiser (GopherCite: 128; WebGPT: 512)"""
    piece: int = 4096
    """tokens that are computed at once; it changes memory and speed, and nothing else"""
    packing: bool = False
    """whether steps stand one behind the other, without padding: quicker with flash attention,
    slower without; else those of similar length stand side by side"""
    seed: int = 0
    validation: float = 0.04
    """share of the questions whose steps are kept for validation (WebGPT, section 3.2: 4 %)"""
    check: int = 0
    """steps from one validation to the next; 0: an epoch"""
    best: ValidationScore = "loss"
    """by which the written model is chosen among those that were validated: the loss a token; the
    share of tokens that are the likeliest; the share of prompts for commands that are answered
    with a command; the mean reward in an environment (WebGPT, appendix E)"""
    validation_episodes: int = 64
    """that are played for the reward, the same ones at each validation"""
    sampling: SamplingSettings = SamplingSettings()
    """of these episodes"""
    no_answer: float = -1.0
    """the reward of one without an answer"""
    patience: int | None = None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    asked: int = 8
    """validation prompts that are answered at each validation, always with the likeliest token"""
    tokens: int = 64
    """of such an answer, at most"""
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
    the best by), no_environment (to measure rewards in), cannot_pack, run_in_use, other_run,
    stopped, not_a_number.
    """
    if (settings.best == "reward") != (environment is not None):
        detail = 'best = "reward" and an environment to earn it in, [world] of a file, go together'
        raise Failed(Failure("validation", Outcome.NO_ENVIRONMENT, detail))
    accelerator = make_accelerator(settings.trained.dtype)
    files = (*settings.episodes, settings.recording, settings.ratings)
    with ResumableRun(out, settings, accelerator, data=files) as run:
        loaded = load_model(Path(settings.trained.model), "cpu")
        data = _load_data(settings, loaded, constrain)
        learner = ModelOptimizer(
            ActorCritic(_load_model(settings)),
            settings.optimising,
            data.steps,
            accelerator,
            run.find_stop_reason,
            dropout_seed=settings.seed if settings.trained.dropout else None,
        )
        speech = make_generation_settings(loaded, settings.packing)
        _require_packing(learner, settings)
        del loaded  # its weights are no longer needed
        state = _ImitationState(learner, settings.patience)
        base = Path(settings.trained.model).name
        for step in run.iterate_steps(data.steps, state, settings.every, callback):
            if state.should_stop:
                break
            if step == 0 and data.validation:
                state.before = _measure_validation(learner, data, speech, settings, environment)[0]
            measured = _train_step(learner, data.select_batch(step), step, speech, settings.piece)
            measured["rate"] = settings.optimising.rate * settings.optimising.compute_rate_share(
                step, data.steps
            )
            if data.is_validation_step(step):
                metrics, samples = _measure_validation(learner, data, speech, settings, environment)
                for each in samples:
                    run.record_sample(step=step + 1, **each)
                if state.record_validation(step + 1, metrics, settings.best):
                    _write_best_model(learner, speech, out, base)
                measured |= metrics
            run.record_metrics(**measured)
        if not data.validation:
            _write_best_model(learner, speech, out, base)
        return _make_result(out, data, state)


def _make_result(out: Path, data: "_ImitationData", state: "_ImitationState") -> ImitationResult:
    steps = state.last or data.steps
    return ImitationResult(
        model=str(out / "model"),
        rows=len(data.training),
        validation_rows=len(data.validation),
        left_out=data.left_out,
        steps=steps,
        stopped=steps < data.steps,
        best_step=state.step,
        before=state.before,
        measured=state.measured,
    )


class _ImitationData:
    """The examples, and which of them each step learns from."""

    def __init__(self, read: ImitationExamples, settings: ImitationSettings) -> None:
        self.left_out = describe_left_out(read.left_out)
        self._settings = settings
        held = choose_validation_questions(read.found, settings.validation, settings.seed)
        self.training = [each for each in read.found if each.question not in held]
        self.validation = [each for each in read.found if each.question in held]
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

    def is_validation_step(self, step: int) -> bool:
        """Return whether there is a validation after this step."""
        often = self._settings.check or self.steps_an_epoch
        return bool(self.validation) and ((step + 1) % often == 0 or step + 1 == self.steps)


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


def _load_model(settings: ImitationSettings) -> nn.Module:
    """Load the model to be trained. New weights (LoRA's matrices) depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return load_trainable_model(settings.trained)


def _require_packing(learner: ModelOptimizer, settings: ImitationSettings) -> None:
    if not settings.packing:
        return
    with learner.open_whole_model("policy") as model:
        if not can_pack(model):
            detail = (
                "this model would mix rows that stand one behind the other: let packing be false"
            )
            raise Failed(Failure(settings.trained.model, Outcome.CANNOT_PACK, detail))


class _ImitationState:
    """The state in a checkpoint: the learner, and the best validation so far."""

    def __init__(self, learner: ModelOptimizer, patience: int | None) -> None:
        self.before: dict[str, float] = {}
        self.measured: dict[str, float] = {}
        self.step = 0
        self.last = 0
        """steps after which there was a validation"""
        self._worse = 0
        self._learner = learner
        self._patience = patience

    @property
    def should_stop(self) -> bool:
        """True if more steps are pointless: no validation got better within the patience."""
        return self._patience is not None and self._worse >= self._patience

    def record_validation(
        self, step: int, measured: dict[str, float], best: ValidationScore
    ) -> bool:
        """Record a validation and return whether it is the best so far."""
        self.last = step
        if self.step and not _compute_worth(measured, best) > _compute_worth(self.measured, best):
            self._worse += 1
            return False
        self.step, self.measured, self._worse = step, measured, 0
        return True

    def save(self, folder: Path) -> None:
        """Write all that `load` needs."""
        self._learner.save(folder)
        if self._learner.accelerator.is_main_process:
            said = (self.step, self.last, self._worse, self.before, self.measured)
            (folder / "best.json").write_bytes(msgspec.json.encode(said))

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        self._learner.load(folder)
        kept = tuple[int, int, int, dict[str, float], dict[str, float]]
        said = msgspec.json.decode((folder / "best.json").read_bytes(), type=prepare_type(kept))
        self.step, self.last, self._worse, self.before, self.measured = said


def _compute_worth(measured: dict[str, float], best: ValidationScore) -> float:
    """Return a number that is higher for a better validation; -inf if it was not measured."""
    worth = -measured["validation_loss"] if best == "loss" else measured[best]
    return -math.inf if math.isnan(worth) else worth


class _WeightedMicroBatch(NamedTuple):
    rows: Sequence[ActionRow]
    weight: float


def _select_for_process(
    pieces: Sequence[Sequence[ActionRow]], accelerator: Accelerator
) -> list[_WeightedMicroBatch]:
    """Return this process's share. Each has as many; where there are too few, one counts
    nothing."""
    processes = accelerator.num_processes
    weighed = [_WeightedMicroBatch(rows, 1.0) for rows in pieces]
    weighed += [_WeightedMicroBatch(pieces[0], 0.0)] * (-len(pieces) % processes)
    return weighed[accelerator.process_index :: processes]


def _train_step(
    learner: ModelOptimizer,
    rows: Sequence[ActionRow],
    step: int,
    speech: GenerationSettings,
    size: int,
) -> dict[str, float]:
    """Take one step. The loss is a mean over the tokens of all targets, in all pieces and
    processes."""
    began = time.perf_counter()
    count = sum(len(row.action) for row in rows)
    losses: list[Tensor] = []

    def compute_micro_batch_loss(piece: _WeightedMicroBatch) -> Tensor:
        batch = collate_or_pack(piece.rows, speech.pad, speech.packing, learner.accelerator.device)
        logprobs_N: Tensor = learner.model(batch, 1.0, {"logprobs"})["logprobs"]
        part = -logprobs_N.sum() * piece.weight / count
        losses.append(part.detach())
        return part

    pieces = split_into_micro_batches(rows, size, speech.packing)
    length = learner.step(
        step, _select_for_process(pieces, learner.accelerator), compute_micro_batch_loss
    )
    [whole] = sum_across_processes(learner.accelerator, torch.stack(losses).sum()[None])
    tokens = count + sum(len(row.context) for row in rows)
    speed = tokens / (time.perf_counter() - began)
    return {
        "loss": whole,
        "gradient": length,
        "padding": compute_padding_share(pieces, speech.packing),
        "tokens_a_second": speed,
    }


def _measure_validation(
    learner: ModelOptimizer,
    data: _ImitationData,
    speech: GenerationSettings,
    settings: ImitationSettings,
    environment: RolloutEnvironment | None,
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the measures of the validation examples, and the answers to some of them."""
    with learner.open_whole_model("policy") as model:
        metrics = measure_validation_loss(
            model, data.validation, speech, settings.piece, learner.accelerator
        )
        samples = generate_answers(model, data.asked, speech, settings.tokens)
        if environment is not None:
            metrics |= measure_policy_reward(
                model,
                speech.ends,
                environment,
                settings.validation_episodes,
                settings.sampling,
                settings.no_answer,
            )
    return metrics | measure_answer_accuracy(samples), samples


def _write_best_model(
    learner: ModelOptimizer, speech: GenerationSettings, out: Path, base: str
) -> None:
    with learner.open_whole_model("policy", everywhere=False) as model:
        if learner.accelerator.is_main_process:
            save_pretrained_model(model, speech.tokenizer, out / "model")
            if is_lora_model(model):
                save_adapter(model, out / "adapter", base)
    learner.accelerator.wait_for_everyone()
