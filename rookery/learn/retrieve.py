"""Retrieval: an encoder learns to tell how much of the answer a reference will hold.

WebGLM's distilled retriever (section 3.1.2): the inner product of a question and a reference
foretells the reference's worth. It knows nothing of searching.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from accelerate import Accelerator
from torch import Tensor

from rookery.cite import ordered
from rookery.learn.encoder import MINILM, Encoder, read_encoder
from rookery.learn.models import freeze
from rookery.learn.optimise import Learner, Optimising, workers
from rookery.learn.referred import (
    Dealt,
    Drawing,
    Lesson,
    Sources,
    Weighed,
    drawn,
    held_out,
    read_weighed,
)
from rookery.learn.run import Run, Told
from rookery.records import Failed, Failure

MATCHED = 64
"""questions by which the range of inner products is matched to that of worths"""
SHOWN = 4
"""validation questions whose first reference is kept for people to look at"""
SHOWN_CHARACTERS = 300
_LEAST = 1e-6
"""spread; rounding makes as much"""


class RetrieveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is learnt from, by which encoder, for how long."""

    sources: Sources
    model: str = MINILM
    """a folder with a BERT encoder; "minilm" is all-MiniLM-L6-v2 of the `dense` extra"""
    frozen: float = 0.0
    """share of the layers, from the first on, that learn nothing, and the words' embeddings with
    them"""
    optimising: Optimising = Optimising(rate=2e-5, warmup=0.1)
    product: Literal["matched", "plain"] = "matched"
    """what foretells a worth: the inner product, stretched and shifted once and for all so that its
    mean and spread at the start are those of the worths, which leaves likenesses the range that
    the weights of `cite.rank` were chosen for; or as it is (WebGLM, section 3.1.2)"""
    epochs: int = 1
    drawing: Drawing = Drawing()
    piece: int = 4
    """questions that are computed at once; it changes memory and speed, and nothing else"""
    seed: int = 0
    validation: float = 0.1
    """share of the questions that are kept for validation"""
    ranked: int = 32
    """references of a validation question, at most, that are put into order"""
    check: int = 0
    """steps from one validation to the next; 0: an epoch"""
    best: Literal["mse", "spearman", "accuracy", "ndcg", "recall_1", "recall_5"] = "mse"
    """by which the written model is chosen among those that were validated, the start being one"""
    patience: int | None = None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    every: int | None = None
    """steps from one checkpoint to the next; None: as `Run.steps` has it"""

    def __post_init__(self) -> None:
        if min(self.epochs, self.piece, 1 if self.every is None else self.every) < 1:
            raise ValueError("epochs, piece and every must be 1 or more")
        if not 0 <= self.validation < 1 or self.check < 0 or self.ranked < 2:
            raise ValueError("validation is a share, check is 0 or more, ranked is 2 or more")
        if self.patience is not None and (self.patience < 1 or not self.validation):
            raise ValueError("patience must be 1 or more, and needs a share for validation")


class Retrieved(msgspec.Struct, frozen=True):
    """What came of it."""

    model: str
    """the folder of the encoder, for `cite.dense.load`: the best of those that were validated, or
    the last"""
    questions: int
    """that were learnt from"""
    validation_questions: int
    left_out: str
    """what was not learnt from, and why; empty: nothing"""
    steps: int
    """of the optimiser"""
    stopped: bool
    """whether it ended early, for want of anything better"""
    best_step: int
    """after how many steps the model was written; 0: nothing was better than the start"""
    scale: float
    """a worth is foretold as scale · cosine + shift"""
    shift: float
    before: dict[str, float]
    """measured on the validation questions: `mse`, and what `ordered.measured` gives"""
    after: dict[str, float]


def retrieve(settings: RetrieveSettings, out: Path, told: Told | None = None) -> Retrieved:
    """Trains an encoder and writes it to `out`/model; goes on where an earlier call was broken off.

    The loss is the mean of squared errors. One encoder is there for questions and for references,
    as `cite.dense` has it; WebGLM trains two. Raises Failed: no_model, bad_model, not_found,
    bad_line, bad_squad, nothing_chosen, nothing_to_learn, one_question, run_in_use, other_run,
    stopped, not_a_number.
    """
    accelerator = workers()
    with Run(out, settings, accelerator) as run:
        encoder = _encoder(settings)
        data = _Data(*read_weighed(settings.sources, settings.seed), settings)
        learner = Learner(encoder, settings.optimising, data.steps, accelerator, run.pulled)
        state = _State(learner)
        for step in run.steps(data.steps, state, settings.every, told):
            if step == 0:
                _begin(state, data, settings, out)
            if state.is_over(settings.patience):
                break
            measured = _learn(state, data.dealt.lessons(step), step, settings)
            if data.is_checked(step):
                measured |= _check(state, data, step + 1, settings, out, run)
            run.note(**measured)
        if not data.validation:
            _write(learner, out)
        return _retrieved(out, data, state)


def _encoder(settings: RetrieveSettings) -> Encoder:
    encoder = read_encoder(settings.model)
    freeze(encoder.bert, settings.frozen)
    *_, last = encoder.bert.parameters()
    if not last.requires_grad:
        # `cite.dense` knows by the last layer whether vectors that it kept are of the same model.
        detail = "the last layer has to learn: let frozen be less"
        raise Failed(Failure(f"frozen = {settings.frozen:g}", "nothing_to_learn", detail))
    return encoder


def _retrieved(out: Path, data: "_Data", state: "_State") -> Retrieved:
    steps = state.last or data.steps
    return Retrieved(
        model=str(out / "model"),
        questions=data.questions,
        validation_questions=len(data.validation),
        left_out=data.left_out,
        steps=steps,
        stopped=steps < data.steps,
        best_step=state.step if data.validation else steps,
        scale=state.scale,
        shift=state.shift,
        before=state.before,
        after=state.after,
    )


class _Data:
    """What is learnt from, what is validated on, and when."""

    def __init__(self, found: Sequence[Weighed], left_out: str, settings: RetrieveSettings) -> None:
        self.left_out = left_out
        self._check = settings.check
        held = held_out(found, settings.validation, settings.seed)
        training = [each for each in found if each.question not in held]
        self.questions = len(training)
        self.dealt = Dealt(training, settings.drawing, settings.seed)
        self.steps = settings.epochs * self.dealt.steps_an_epoch
        self.validation = [
            drawn(each, settings.ranked, "any", f"{settings.seed} validation")
            for each in found
            if each.question in held
        ]

    def is_checked(self, step: int) -> bool:
        """Whether there is a validation after this step."""
        often = self._check or self.dealt.steps_an_epoch
        return bool(self.validation) and ((step + 1) % often == 0 or step + 1 == self.steps)


class _State:
    """All that a checkpoint keeps: the learner, how a worth is foretold, and the best so far."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.scale, self.shift = 1.0, 0.0
        self.step = self.last = self.worse = 0
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}

    def is_over(self, patience: int | None) -> bool:
        """Whether nothing better is expected."""
        return patience is not None and self.worse >= patience

    def is_better(self, step: int, found: dict[str, float], best: str) -> bool:
        """Whether this validation is the best so far, which it is from now on."""
        self.last = step
        if not _worth(found, best) > _worth(self.after, best):  # nor where it is no number
            self.worse += 1
            return False
        self.step, self.worse, self.after = step, 0, found
        return True

    def save(self, folder: Path) -> None:
        """Writes all that `load` needs."""
        self.learner.save(folder)
        if self.learner.accelerator.is_main_process:
            kept = {name: value for name, value in vars(self).items() if name != "learner"}
            (folder / "retrieve.json").write_bytes(msgspec.json.encode(kept))

    def load(self, folder: Path) -> None:
        """Goes on from what `save` wrote."""
        self.learner.load(folder)
        vars(self).update(msgspec.json.decode((folder / "retrieve.json").read_bytes()))


def _worth(measured: dict[str, float], best: str) -> float:
    """More is better; what cannot be said of any question is the worst."""
    return -measured["mse"] if best == "mse" else measured.get(best, -math.inf)


def _begin(state: _State, data: _Data, settings: RetrieveSettings, out: Path) -> None:
    """Says how a worth is foretold; measures the start, and writes it: it may be the best."""
    if settings.product == "matched":
        steps = min(data.dealt.steps_an_epoch, -(-MATCHED // settings.drawing.questions))
        lessons = [lesson for step in range(steps) for lesson in data.dealt.lessons(step)]
        state.scale, state.shift = _matched(lessons, _cosines(state.learner, lessons))
    if data.validation:
        state.before, _ = _validate(state, data)
        state.after = state.before
        _write(state.learner, out)


def _matched(lessons: Sequence[Lesson], cosines: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Scale and shift that give cosines the mean and the spread of worths, where both have one."""
    worths = [worth for lesson in lessons for worth in lesson.worths]
    found = [cosine for each in cosines for cosine in each]
    spread, wanted = pstdev(found), pstdev(worths)
    scale = wanted / spread if min(spread, wanted) > _LEAST else 1.0
    return scale, fmean(worths) - scale * fmean(found)


def _check(
    state: _State, data: _Data, step: int, settings: RetrieveSettings, out: Path, run: Run
) -> dict[str, float]:
    """What is measured on the validation questions; the model is written where it is the best."""
    found, said = _validate(state, data)
    for each in said:
        run.sample(step=step, **each)
    if state.is_better(step, found, settings.best):
        _write(state.learner, out)
    return {f"validation_{name}": value for name, value in found.items()}


def _validate(state: _State, data: _Data) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Of all validation questions, and of some the reference that comes first."""
    lessons = data.validation
    cosines = _cosines(state.learner, lessons)
    worths = [lesson.worths for lesson in lessons]
    missed = [
        (state.scale * cosine + state.shift - worth) ** 2
        for pair in zip(cosines, worths, strict=True)
        for cosine, worth in zip(*pair, strict=True)
    ]
    said = [_first(*pair) for pair in zip(lessons[:SHOWN], cosines, strict=False)]
    return {"mse": fmean(missed), **ordered.measured(worths, cosines)}, said


def _first(lesson: Lesson, cosines: Sequence[float]) -> dict[str, Any]:
    number = max(range(len(cosines)), key=cosines.__getitem__)
    return {
        "question": lesson.question,
        "first": lesson.references[number][:SHOWN_CHARACTERS],
        "worth": lesson.worths[number],
        "most": max(lesson.worths),
    }


@torch.inference_mode()
def _cosines(learner: Learner, lessons: Sequence[Lesson]) -> list[list[float]]:
    """Of each question with each of its references, by the model that would be written."""
    sizes = [len(lesson.references) for lesson in lessons]
    products_P = _products(_best_model(learner), lessons)
    if not products_P.isfinite().all():
        detail = "its inner products are no numbers: lower the rate, or begin as another encoder"
        raise Failed(Failure("encoder", "not_a_number", detail))
    return [part.tolist() for part in torch.split(products_P, sizes)]


def _best_model(learner: Learner) -> Any:
    """The average of the weights, where one is made."""
    return learner.bare if learner.averages is None else learner.averages.module


def _write(learner: Learner, out: Path) -> None:
    model = _best_model(learner)
    if learner.accelerator.is_main_process:
        model.write(out / "model")
    learner.accelerator.wait_for_everyone()


class _Piece(NamedTuple):
    lessons: Sequence[Lesson]
    weight: float


def _mine(pieces: Sequence[Sequence[Lesson]], accelerator: Accelerator) -> list[_Piece]:
    """This process's share. Each has as many; where there are too few, one counts nothing."""
    short = -len(pieces) % accelerator.num_processes
    weighed = [*(_Piece(each, 1.0) for each in pieces), *[_Piece(pieces[0], 0.0)] * short]
    return weighed[accelerator.process_index :: accelerator.num_processes]


def _cut(lessons: Sequence[Lesson], size: int) -> list[Sequence[Lesson]]:
    return [lessons[at : at + size] for at in range(0, len(lessons), size)]


def _products(model: Any, lessons: Sequence[Lesson]) -> Tensor:
    """The cosine of each question with each of its references, one after the other."""
    numbers: dict[str, int] = {}
    pairs = [
        (numbers.setdefault(lesson.question, len(numbers)), numbers.setdefault(text, len(numbers)))
        for lesson in lessons
        for text in lesson.references
    ]
    vectors_NW = model(list(numbers))
    pairs_P2 = torch.tensor(pairs, device=vectors_NW.device)
    products_P: Tensor = (vectors_NW[pairs_P2[:, 0]] * vectors_NW[pairs_P2[:, 1]]).sum(-1)
    return products_P


def _learn(
    state: _State, lessons: Sequence[Lesson], step: int, settings: RetrieveSettings
) -> dict[str, float]:
    """One step. The loss is a mean over all its references, in whatever piece or process."""
    began, learner = time.perf_counter(), state.learner
    count = sum(len(lesson.references) for lesson in lessons)
    losses: list[Tensor] = []

    def loss(piece: _Piece) -> Tensor:
        products_P = _products(learner.model, piece.lessons)
        worths = [worth for lesson in piece.lessons for worth in lesson.worths]
        missed_P = state.scale * products_P + state.shift - products_P.new_tensor(worths)
        part = missed_P.square().sum() * piece.weight / count
        losses.append(part.detach())
        return part

    pieces = _mine(_cut(lessons, settings.piece), learner.accelerator)
    length = learner.step(step, pieces, loss)
    whole: Any = learner.accelerator.reduce(torch.stack(losses).sum(), "sum")
    speed = count / (time.perf_counter() - began)
    return {"loss": float(whole), "gradient": length, "references_a_second": speed}
