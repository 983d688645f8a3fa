"""A reward model learnt from comparisons: how much better people would find an answer than others.

It knows nothing of policies.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from rookery.learn.agreement import Agreement, Foretold, Judged, agreement, foretold, steepness
from rookery.learn.compared import Item, Items, batches, comparisons, goodness, items, pairs
from rookery.learn.models import Trained, read_model, tokenizer_of
from rookery.learn.optimise import Learner, Optimising, workers
from rookery.learn.preference import preference_loss, rating_loss, spread
from rookery.learn.rows import Ids
from rookery.learn.run import Cord, Run, Told
from rookery.learn.scorer import Scale, outputs, score_rows, showing_of, write_scorer
from rookery.learn.shown import Showing
from rookery.records import Failed, Failure


class PreferSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a reward model is learnt from, and how."""

    trained: Trained
    """the language model or policy that it begins as"""
    comparisons: str
    """a JSONL file of Comparisons"""
    optimising: Optimising = Optimising(rate=1.77e-5)
    """Ziegler, section 2.2"""
    ratings: str = ""
    """a JSONL file of Ratings from 0 to 1, which a second output learns to foretell; empty: none"""
    scales: tuple[str, ...] = ("supported", "plausible")
    """an answer that is good is so on all of these scales of its ratings (GopherCite, section
    2.8)"""
    auxiliary: float = 0.5
    """share of the second output's loss in the whole; GopherCite takes the mean of both"""
    blend: float = 0.0
    """share of the second output's logit in the reward; GopherCite's reward is the first alone"""
    samples: str = ""
    """a JSONL file of the reference policy's Episodes, or of Comparisons of its answers: on these,
    rewards are made to have mean 0 and variance 1 (Ziegler, section 2); empty: on the answers
    learnt from, as WebGLM does (section 3.3)"""
    epochs: int = 1
    """more learn by heart what few people said (Ziegler, section 2.2)"""
    batch: int = 32
    """comparisons in a step, all processes together"""
    piece: int = 8
    """comparisons that go through the model at once: fewer need less memory"""
    validation: float = 0.1
    """share of the questions that are not learnt from: odds are fitted and agreement is measured
    on their comparisons; 0: neither is done"""
    check: int = 0
    """steps from one validation to the next; 0: an epoch"""
    best: Literal["loss", "accuracy"] = "loss"
    """by which the weights are chosen among those that were validated: loss, or accuracy with
    ties as half (WebGPT, appendix E; GopherCite, section 2.8)"""
    patience: int | None = None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    every: int | None = None
    """steps from one checkpoint to the next; None: as `Run.steps` has it"""
    context: int = 0
    """the most tokens of a question, its evidence and an answer; 0: as many as the model takes"""
    given: bool = False
    """whether pages given with a question are shown, as the text to be summarised (Ziegler)"""
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.epochs, self.batch, self.piece, 1 if self.every is None else self.every)
        if min(counts) < 1 or self.check < 0:
            raise ValueError("epochs, batch, piece and every must be 1 or more, check 0 or more")
        if not 0 <= self.validation < 1 or not 0 <= self.auxiliary < 1 or not 0 <= self.blend <= 1:
            raise ValueError("validation and auxiliary are shares below 1, blend one from 0 to 1")
        if self.patience is not None and (self.patience < 1 or not self.validation):
            raise ValueError("patience must be 1 or more, and needs a share for validation")
        if self.ratings and not self.auxiliary:
            raise ValueError("with auxiliary = 0 nothing is learnt from ratings: set it above 0")
        if (self.blend or not self.scales) and not (self.ratings and self.scales):
            raise ValueError("to blend, name ratings and their scales, or let blend be 0")


class Preferred(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of it."""

    model: str
    """the folder of the model: the best of those that were validated, or the last"""
    steps: int
    """that were made"""
    best_step: int
    """after how many steps the weights were those of the model"""
    comparisons: int
    """learnt from"""
    too_long: int
    """comparisons and ratings left out: question and answer alone do not fit"""
    cut: int
    """answers shown without some tokens of their quotes"""
    before: Agreement | None
    """on the validation's comparisons, by the model as it began"""
    after: Agreement | None
    calibrated: Agreement | None
    """after differences of rewards were stretched or shrunk to be log-odds: one number, fitted on
    these comparisons"""
    foretold: Foretold | None
    scale: Scale
    scaled_on: str
    """the file on whose answers rewards have mean 0 and variance 1; that of the comparisons means
    the answers learnt from, since no samples of the reference policy were named"""
    samples: int
    """how many answers these are"""


def prefer(
    settings: PreferSettings, out: Path, told: Told | None = None, cord: Cord = str
) -> Preferred:
    """Learns a reward model and writes it to `out`/model; goes on where an earlier call was broken
    off.

    Raises Failed: not_found, bad_line, no_data, one_sided, too_long, few_questions for the files;
    no_model and bad_model; run_in_use, other_run; stopped and not_a_number, after which the last
    checkpoint is as it was.
    """
    accelerator = workers(settings.trained.dtype)
    with Run(out, settings, accelerator, cord=cord) as run:
        showing, model = _begun(settings)
        data = _data(settings, showing)
        steps = batches(len(data.training), settings.batch, settings.epochs, settings.seed)
        rows = _samples(settings, showing, data)
        learner = Learner(model, settings.optimising, len(steps), accelerator, run.pulled)
        training = Training(settings, learner, showing.pad, data, out / "best.safetensors")
        before = training.judged()
        often = settings.check or len(steps) // settings.epochs
        for number in run.steps(len(steps), training, settings.every, told):
            if training.is_over:
                break
            measured = training.step(number, [data.training[at] for at in steps[number]])
            if (number + 1) % often == 0 or number + 1 == len(steps):
                measured |= training.validate()
            run.note(**measured)
        return _finish(training, showing, before, rows, out / "model")


class Best(NamedTuple):
    """The best validation so far, and how many there were since."""

    step: int = 0
    """after which it was made; 0: there is none"""
    worth: float = -sys.float_info.max
    since: int = 0


class Training:
    """A reward model on its way. `place` is the file of the weights that did best."""

    def __init__(
        self, settings: PreferSettings, learner: Learner, pad: int, data: Items, place: Path
    ) -> None:
        self.settings = settings
        self.data = data
        self.best = Best()
        self.made = 0
        """steps"""
        self._learner = learner
        self._pad = pad
        self._place = place

    @property
    def model(self) -> nn.Module:
        """With the weights that count: their average, where one is made."""
        averages = self._learner.averages
        return self._learner.bare if averages is None else averages.module

    def step(self, number: int, batch: Sequence[Item]) -> dict[str, float]:
        """Learns from a batch; gives its loss before that, the shares of it, and its gradient."""
        accelerator = self._learner.accelerator
        share = self.settings.auxiliary if self.settings.ratings else 0.0
        compared = max(sum(item.compared for item in batch), 1)
        rated = max(sum(item.rated for item in batch), 1)
        losses: list[Tensor] = []

        def loss(piece: Sequence[Item]) -> Tensor:
            preferred, foretold = self._losses(piece)
            losses.append(torch.stack([preferred / compared, foretold / rated]).detach())
            return (1 - share) * preferred / compared + share * foretold / rated

        length = self._learner.step(number, self._pieces(batch), loss)
        whole = accelerator.reduce(torch.stack(losses).sum(0), "sum").tolist()
        self.made = number + 1
        measured = {"loss": whole[0], "gradient": length}
        return measured | ({"rated_loss": whole[1]} if share else {})

    def _pieces(self, batch: Sequence[Item]) -> list[list[Item]]:
        """This process's part of a batch, rows of like length together, in as many pieces as the
        other processes have: what fills up does not count."""
        ordered = sorted(batch, key=lambda item: item.longest)
        processes = self._learner.accelerator.num_processes
        mine = ordered[self._learner.accelerator.process_index :: processes]
        size = self.settings.piece
        count = math.ceil(math.ceil(len(batch) / processes) / size)
        nothing = Item("", ordered[0].rows[:1], (0.0,), (math.nan,))
        return [mine[at * size : (at + 1) * size] or [nothing] for at in range(count)]

    def _losses(self, piece: Sequence[Item]) -> tuple[Tensor, Tensor]:
        """The sums of the losses of both outputs."""
        device = self._learner.accelerator.device
        rows = [row for item in piece for row in item.rows]
        found_NO = outputs(self._learner.model, rows, self._pad, device)
        weights_N = torch.tensor([each for item in piece for each in item.weights], device=device)
        counts = [len(item.rows) for item in piece]
        rewards_BK = spread(found_NO[:, 0], counts, -math.inf)
        preferred = preference_loss(rewards_BK, spread(weights_N, counts, 0.0))
        if not self.settings.ratings:
            return preferred, torch.zeros_like(preferred)
        good_N = torch.tensor([each for item in piece for each in item.good], device=device)
        return preferred, rating_loss(found_NO[:, 1], good_N)

    def validate(self) -> dict[str, float]:
        """Agreement with what is kept for validation; the weights are kept where it is best."""
        judged = self.judged()
        if not judged:
            return {}
        found = agreement(judged)
        worth = -found.loss if self.settings.best == "loss" else found.credit
        if worth > self.best.worth:
            self.best = Best(self.made, worth)
            self._keep()
        else:
            self.best = self.best._replace(since=self.best.since + 1)
        return {"validation_loss": found.loss, "validation_credit": found.credit}

    @property
    def is_over(self) -> bool:
        """Whether nothing better is expected."""
        patience = self.settings.patience
        return patience is not None and self.best.since >= patience

    def _keep(self) -> None:
        """Goes on from an older checkpoint write the same again."""
        model = self.model
        if self.is_main:
            new = self._place.with_suffix(".new")
            weights = model.state_dict().items()
            save_file({name: value.detach().cpu().clone() for name, value in weights}, new)
            new.replace(self._place)
        self._learner.accelerator.wait_for_everyone()

    def to_best(self) -> int:
        """Goes back to the best weights; gives after which step they were so."""
        if self.best.step:
            self.model.load_state_dict(load_file(self._place))
        return self.best.step or self.made

    def judged(self) -> list[Judged]:
        """The comparisons kept for validation, with the rewards of their answers. Raises Failed."""
        kept = [item for item in self.data.validation if item.compared]
        rewards = self.rewards([row for item in kept for row in item.rows])
        if not all(map(math.isfinite, rewards)):
            detail = "its rewards are no numbers: lower the rate, or begin as another model"
            raise Failed(Failure(self.settings.trained.model, "not_a_number", detail))
        each = iter(rewards)
        return [Judged(item.weights, [next(each) for _ in item.rows], item.by) for item in kept]

    def rewards(self, rows: Sequence[Ids]) -> list[float]:
        """Of each row, as they come from the model, the second output blended in."""
        share = self.settings.blend
        return [
            (1 - share) * found[0] + (share * found[1] if share else 0.0)
            for found in self.outputs(rows)
        ]

    def foretold(self) -> Foretold | None:
        """How the second output does on validation answers that were rated; None: on none."""
        rated = [
            (row, good)
            for item in self.data.validation
            for row, good in zip(item.rows, item.good, strict=True)
            if not math.isnan(good)
        ]
        if not rated:
            return None
        found = self.outputs([row for row, _ in rated])
        return foretold([logits[1] for logits in found], [good for _, good in rated])

    def outputs(self, rows: Sequence[Ids]) -> list[list[float]]:
        """What the model gives for each row. The processes share the work."""
        accelerator = self._learner.accelerator
        processes, index = accelerator.num_processes, accelerator.process_index
        size = self.settings.piece * 2
        mine = rows[index::processes]
        found = score_rows(self.model, mine, self._pad, accelerator.device, size).tolist()
        together = gather_object([(index + at * processes, one) for at, one in enumerate(found)])
        return [one for _, one in sorted(together)]

    @property
    def is_main(self) -> bool:
        """Whether this process writes."""
        return bool(self._learner.accelerator.is_main_process)

    def save(self, folder: Path) -> None:
        """Writes all that `load` needs to go on as if nothing had been."""
        self._learner.save(folder)
        if self.is_main:
            (folder / "training.json").write_bytes(msgspec.json.encode((self.made, self.best)))

    def load(self, folder: Path) -> None:
        """Goes on from what `save` wrote."""
        self._learner.load(folder)
        kept = (folder / "training.json").read_bytes()
        self.made, self.best = msgspec.json.decode(kept, type=tuple[int, Best])


def _begun(settings: PreferSettings) -> tuple[Showing, PreTrainedModel]:
    tokenizer, ends, _ = tokenizer_of(Path(settings.trained.model))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = read_model(settings.trained, "row", 2 if settings.ratings else 1)
    return showing_of(model, tokenizer, ends, settings.context, settings.given), model


def _data(settings: PreferSettings, showing: Showing) -> Items:
    compared = comparisons(Path(settings.comparisons))
    good = goodness(Path(settings.ratings), settings.scales) if settings.ratings else {}
    return items(compared, good, showing, settings.validation, settings.seed)


def _samples(settings: PreferSettings, showing: Showing, data: Items) -> list[Ids]:
    """The rows that rewards are scaled on."""
    if not settings.samples:
        return [row for item in data.training if item.compared for row in item.rows]
    shown = [showing.shown(*pair) for pair in pairs(Path(settings.samples))]
    return [np.asarray(each.tokens, np.int32) for each in shown]


def _finish(
    training: Training,
    showing: Showing,
    before: Sequence[Judged],
    rows: Sequence[Ids],
    folder: Path,
) -> Preferred:
    """Makes odds and a scale of what the best weights give, and writes them."""
    settings, data = training.settings, training.data
    kept = training.to_best()
    judged = training.judged()
    steep = steepness(judged) if judged else 1.0
    mean, deviation = _moments(training.rewards(rows), settings)
    scale = Scale(-mean / deviation, steep * deviation, showing.context, showing.given)
    preferred = Preferred(
        model=str(folder),
        steps=training.made,
        best_step=kept,
        comparisons=sum(item.compared for item in data.training),
        too_long=data.too_long,
        cut=data.cut,
        before=agreement(before) if before else None,
        after=agreement(judged) if judged else None,
        calibrated=agreement(judged, steep) if judged else None,
        foretold=training.foretold(),
        scale=scale,
        scaled_on=settings.samples or settings.comparisons,
        samples=len(rows),
    )
    model, blend = training.model, settings.blend
    if training.is_main:
        write_scorer(model, showing.tokenizer, scale, deviation, blend, folder)
    return preferred


def _moments(rewards: Sequence[float], settings: PreferSettings) -> tuple[float, float]:
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if not 0 < deviation < math.inf:
        detail = "all answers have one reward: give more samples, or learn from more comparisons"
        raise Failed(Failure(settings.samples or settings.comparisons, "one_sided", detail))
    return mean, deviation
