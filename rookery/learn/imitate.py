"""Imitation: a model learns to say what was said in chosen episodes, when shown what was shown.

Behaviour cloning (WebGPT, section 3.2) and supervised fine-tuning (GopherCite, section 2.7). It
knows nothing of rewards.
"""

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

from rookery.browse.commands import parse
from rookery.browse.recording import Recording
from rookery.judge.lines import read_lines
from rookery.learn.examples import (
    Chosen,
    Example,
    Examples,
    Judged,
    examples,
    held_out,
    read_episodes,
    worded,
)
from rookery.learn.loading import Loaded, load
from rookery.learn.models import Trained, read_model, write_model
from rookery.learn.optimise import Learner, Optimising, workers
from rookery.learn.packed import can_pack, cut, padding, predicted
from rookery.learn.rows import Row
from rookery.learn.run import Run, Told
from rookery.learn.validated import Speech, agreement, answers, speech_of, summed, validated
from rookery.records import Failed, Failure, Rating

Score = Literal["loss", "accuracy", "valid"]


class ImitateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is imitated, by which model, for how long."""

    trained: Trained
    episodes: tuple[str, ...]
    """files of Episodes, one JSON line each"""
    recording: str = ""
    """from which prompts that are not stored are built again"""
    ratings: str = ""
    """file of Ratings, one JSON line each, for `chosen.rated`"""
    chosen: Chosen = Chosen()
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""
    optimising: Optimising = Optimising()
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
    best: Score = "loss"
    """by which the written model is chosen among those that were validated: the loss a token; the
    share of tokens that are the likeliest; the share of prompts for commands that are answered
    with a command"""
    patience: int | None = None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    asked: int = 8
    """validation prompts that are answered at each validation, always with the likeliest token"""
    tokens: int = 64
    """of such an answer, at most"""
    every: int | None = None
    """steps from one checkpoint to the next; None: as `Run.steps` has it"""

    def __post_init__(self) -> None:
        counts = (self.epochs, self.rows, self.piece, self.tokens)
        if min(*counts, 1 if self.every is None else self.every) < 1:
            raise ValueError("epochs, rows, piece, every and tokens must be 1 or more")
        if not 0 <= self.validation < 1 or self.check < 0 or self.asked < 0:
            raise ValueError("validation is a share from 0 to 1; check and asked are 0 or more")
        if self.patience is not None and (self.patience < 1 or not self.validation):
            raise ValueError("patience must be 1 or more, and needs a share for validation")
        if self.best == "valid" and not self.asked:
            raise ValueError('best = "valid" needs prompts to answer: let asked be 1 or more')


class Imitated(msgspec.Struct, frozen=True):
    """What came of it."""

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


def imitate(settings: ImitateSettings, out: Path, told: Told | None = None) -> Imitated:
    """Trains a model and writes it to `out`/model; goes on where an earlier call was broken off.

    The loss is that of the targets alone, a mean over the tokens of a whole step. What the model
    answers at validations is kept in `out`/samples.jsonl. Raises Failed: no_model, bad_model,
    not_found, bad_line, no_prompts, nothing_chosen, one_question, no_commands, cannot_pack,
    run_in_use, other_run, stopped, not_a_number.
    """
    accelerator = workers(settings.trained.dtype)
    with Run(out, settings, accelerator) as run:
        loaded = load(Path(settings.trained.model), "cpu")
        data = _read(settings, loaded)
        learner = Learner(
            _model(settings), settings.optimising, data.steps, accelerator, run.pulled
        )
        speech = speech_of(loaded, settings.packing)
        _require_packing(learner, settings)
        del loaded  # its weights are no longer needed
        state = _State(learner, settings.patience)
        for step in run.steps(data.steps, state, settings.every, told):
            if state.is_over:
                break
            if step == 0 and data.validation:
                state.before = _measured(learner, data, speech, settings)[0]
            measured = _learn(learner, data.batch(step), step, speech, settings.piece)
            measured["rate"] = settings.optimising.rate * settings.optimising.share(
                step, data.steps
            )
            if data.is_checked(step):
                found = _validate(learner, data, speech, settings, run, step + 1)
                if state.is_better(step + 1, found, settings.best):
                    _write(learner, speech, out)
                measured |= found
            run.note(**measured)
        if not data.validation:
            _write(learner, speech, out)
        return _imitated(out, data, state)


def _imitated(out: Path, data: "_Data", state: "_State") -> Imitated:
    steps = state.last or data.steps
    return Imitated(
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


class _Data:
    """The examples, and which of them each step learns from."""

    def __init__(self, read: Examples, settings: ImitateSettings) -> None:
        self.left_out = worded(read.left_out)
        self._settings = settings
        held = held_out(read.found, settings.validation, settings.seed)
        self.training = [each for each in read.found if each.question not in held]
        self.validation = [each for each in read.found if each.question in held]
        self.steps_an_epoch = math.ceil(len(self.training) / settings.rows)
        self.steps = settings.epochs * self.steps_an_epoch
        self.asked = _asked(self.validation, settings)
        self._epoch, self._order = -1, list(range(len(self.training)))

    def batch(self, step: int) -> list[Row]:
        """In every epoch, each row once, in an order of its own."""
        epoch, at = divmod(step, self.steps_an_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(len(self.training)))
            Random(f"{self._settings.seed} order {epoch}").shuffle(self._order)
        first = at * self._settings.rows
        return [self.training[n].row for n in self._order[first : first + self._settings.rows]]

    def is_checked(self, step: int) -> bool:
        """Whether there is a validation after this step."""
        often = self._settings.check or self.steps_an_epoch
        return bool(self.validation) and ((step + 1) % often == 0 or step + 1 == self.steps)


def _read(settings: ImitateSettings, loaded: Loaded) -> _Data:
    with ExitStack() as stack:
        recording = None
        if settings.recording:
            if not Path(settings.recording).exists():
                detail = "there is no such recording: check the path"
                raise Failed(Failure(settings.recording, "not_found", detail))
            recording = stack.enter_context(Recording(Path(settings.recording)))
        ratings = read_lines(Path(settings.ratings), Rating) if settings.ratings else ()
        episodes = read_episodes([Path(each) for each in settings.episodes], recording)
        read = examples(episodes, loaded, settings.chosen, Judged(ratings), settings.chat)
    if not read.found:
        why = worded(read.left_out) or "the files hold no episode"
        detail = f"no step is left to learn from ({why}): name other files, or choose less strictly"
        raise Failed(Failure(", ".join(settings.episodes), "nothing_chosen", detail))
    return _Data(read, settings)


def _asked(validation: Sequence[Example], settings: ImitateSettings) -> list[Example]:
    size = min(settings.asked, len(validation))
    asked = Random(f"{settings.seed} asked").sample(validation, size)
    if settings.best == "valid" and not any(parse(example.said) for example in asked):
        detail = (
            "no prompt that is answered asks for a command: choose by loss, or let asked be more"
        )
        raise Failed(Failure("validation", "no_commands", detail))
    return asked


def _model(settings: ImitateSettings) -> nn.Module:
    """What is new in it (LoRA's matrices) depends on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return read_model(settings.trained)


def _require_packing(learner: Learner, settings: ImitateSettings) -> None:
    if settings.packing and not can_pack(learner.bare):
        detail = "this model would mix rows that stand one behind the other: let packing be false"
        raise Failed(Failure(settings.trained.model, "cannot_pack", detail))


class _State:
    """All that a checkpoint keeps: the learner, and which validation was the best so far."""

    def __init__(self, learner: Learner, patience: int | None) -> None:
        self.before: dict[str, float] = {}
        self.measured: dict[str, float] = {}
        self.step = 0
        self.last = 0
        """steps after which there was a validation"""
        self._worse = 0
        self._learner = learner
        self._patience = patience

    @property
    def is_over(self) -> bool:
        """Whether nothing better is expected."""
        return self._patience is not None and self._worse >= self._patience

    def is_better(self, step: int, measured: dict[str, float], best: Score) -> bool:
        """Whether this validation is the best so far, which it is from now on."""
        self.last = step
        if self.step and not _worth(measured, best) > _worth(self.measured, best):
            self._worse += 1
            return False
        self.step, self.measured, self._worse = step, measured, 0
        return True

    def save(self, folder: Path) -> None:
        """Writes all that `load` needs."""
        self._learner.save(folder)
        if self._learner.accelerator.is_main_process:
            said = (self.step, self.last, self._worse, self.before, self.measured)
            (folder / "best.json").write_bytes(msgspec.json.encode(said))

    def load(self, folder: Path) -> None:
        """Goes on from what `save` wrote."""
        self._learner.load(folder)
        kept = tuple[int, int, int, dict[str, float], dict[str, float]]
        said = msgspec.json.decode((folder / "best.json").read_bytes(), type=kept)
        self.step, self.last, self._worse, self.before, self.measured = said


def _worth(measured: dict[str, float], best: Score) -> float:
    """More is better; what is no number is worth nothing."""
    worth = -measured["validation_loss"] if best == "loss" else measured[best]
    return -math.inf if math.isnan(worth) else worth


class _Piece(NamedTuple):
    rows: Sequence[Row]
    weight: float


def _mine(pieces: Sequence[Sequence[Row]], accelerator: Accelerator) -> list[_Piece]:
    """This process's share. Each has as many; where there are too few, one counts nothing."""
    processes = accelerator.num_processes
    weighed = [_Piece(rows, 1.0) for rows in pieces]
    weighed += [_Piece(pieces[0], 0.0)] * (-len(pieces) % processes)
    return weighed[accelerator.process_index :: processes]


def _learn(
    learner: Learner, rows: Sequence[Row], step: int, speech: Speech, size: int
) -> dict[str, float]:
    """One step. The loss is a mean over all its targets' tokens, in whatever piece or process."""
    began = time.perf_counter()
    count = sum(len(row.action) for row in rows)
    losses: list[Tensor] = []

    def loss(piece: _Piece) -> Tensor:
        logprobs_A, _ = predicted(learner.model, piece.rows, speech.pad, speech.packing)
        part = -logprobs_A.sum() * piece.weight / count
        losses.append(part.detach())
        return part

    pieces = cut(rows, size, speech.packing)
    length = learner.step(step, _mine(pieces, learner.accelerator), loss)
    [whole] = summed(learner.accelerator, torch.stack(losses).sum()[None])
    tokens = count + sum(len(row.context) for row in rows)
    speed = tokens / (time.perf_counter() - began)
    return {
        "loss": whole,
        "gradient": length,
        "padding": padding(pieces, speech.packing),
        "tokens_a_second": speed,
    }


def _best_model(learner: Learner) -> Any:
    """The model that is validated and written: the average of the weights, where one is made."""
    return learner.bare if learner.averages is None else learner.averages.module


def _validate(
    learner: Learner, data: _Data, speech: Speech, settings: ImitateSettings, run: Run, step: int
) -> dict[str, float]:
    measured, said = _measured(learner, data, speech, settings)
    for each in said:
        run.sample(step=step, **each)
    return measured


def _measured(
    learner: Learner, data: _Data, speech: Speech, settings: ImitateSettings
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Of the validation's examples; and what is answered to some."""
    model = _best_model(learner)
    found = validated(model, data.validation, speech, settings.piece, learner.accelerator)
    said = answers(model, data.asked, speech, settings.tokens)
    return found | agreement(said), said


def _write(learner: Learner, speech: Speech, out: Path) -> None:
    model = _best_model(learner)
    if learner.accelerator.is_main_process:
        write_model(model, speech.tokenizer, out / "model")
    learner.accelerator.wait_for_everyone()
