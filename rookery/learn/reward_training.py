"""Train a reward model on comparisons, and measure how well rewards agree with people: loss,
accuracy, calibration, by rater."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import PreTrainedModel

from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import TokenIds
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    load_tokenizer,
    load_trainable_model,
    seed_torch,
)
from rookery.learn.reward_model import (
    RewardInputEncoder,
    RewardScale,
    compute_reward_outputs,
    make_input_encoder,
    save_reward_model,
    score_rows,
)
from rookery.learn.training_data import (
    ComparisonItem,
    ComparisonSplit,
    build_comparison_items,
    load_answer_pairs,
    load_comparisons,
    load_good_answers,
    make_epoch_batches,
)
from rookery.learn.training_run import (
    ResumableRun,
    SavedRecord,
    StepCallback,
    StopCheck,
    TrainingSchedule,
    ValidationProgress,
    train_with_validations,
)
from rookery.records import Failure

CALIBRATION_BINS = 10
MAX_REWARD_SCALE = 64.0
"""rewards are never stretched or shrunk by more to make odds of them"""


class ScoredComparison(NamedTuple):
    """A comparison with the rewards of its answers."""

    weights: Sequence[float]
    rewards: Sequence[float]
    by: str

    @property
    def is_tied(self) -> bool:
        """True if several answers have the highest weight."""
        return sum(weight == max(self.weights) for weight in self.weights) > 1

    def compute_probabilities(self, scale: float) -> list[float]:
        """Return each answer's predicted probability to be preferred: softmax(scale · rewards)."""
        highest = max(self.rewards)
        odds = [math.exp(scale * (reward - highest)) for reward in self.rewards]
        return [each / sum(odds) for each in odds]

    def compute_loss(self, scale: float) -> float:
        """Return the cross-entropy of the weights with softmax(scale · rewards), in nats."""
        highest = max(self.rewards)
        total = math.log(sum(math.exp(scale * (reward - highest)) for reward in self.rewards))
        pairs = zip(self.weights, self.rewards, strict=True)
        return sum(weight * (total - scale * (reward - highest)) for weight, reward in pairs)

    def compute_credit(self) -> float:
        """Return the weight of the answer with the highest reward.

        Of several with the highest reward, it is the mean weight. A tie of two gives a half.
        """
        best = self._list_best_weights()
        return sum(best) / len(best)

    def compute_accuracy(self) -> float:
        """Return 1 if the answer with the highest reward has the highest weight, else 0.

        Of several with the highest reward, it is the share that has the highest weight.
        """
        best = self._list_best_weights()
        return sum(weight == max(self.weights) for weight in best) / len(best)

    def _list_best_weights(self) -> list[float]:
        """Return the weights of the answers with the highest reward."""
        pairs = zip(self.weights, self.rewards, strict=True)
        return [weight for weight, reward in pairs if reward == max(self.rewards)]


class CalibrationBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Comparisons for which the model predicted about the same probability."""

    comparisons: int
    chance: float
    """the mean of what it gave the answers that it rewarded most"""
    credit: float
    """how often people preferred these, a tie being half of it"""


class RaterAgreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Agreement of rewards with the comparisons of one person or one model."""

    by: str
    comparisons: int
    accuracy: float | None
    """of the rewards, ties left out; None: there are only ties"""
    credit: float
    """the same, a tie being half of it"""
    first: float | None
    """how often the answer that was shown first was preferred, ties left out: near 0 or 1, the
    order may have been all that was judged"""


class PreferenceAgreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Agreement of rewards with comparisons that they were not learnt from."""

    comparisons: int
    ties: int
    loss: float
    """cross-entropy in nats; log 2 = 0.693 for pairs is knowing nothing"""
    accuracy: float | None
    """how often the highest reward is that of the answer preferred, ties left out"""
    credit: float
    """the same, a tie being half of it"""
    error: float
    """expected calibration error: by how much the chance of the answer rewarded most misses how
    often it was preferred, over 10 bins by that chance"""
    bins: tuple[CalibrationBin, ...]
    """from the least certain to the most"""
    raters: tuple[RaterAgreement, ...]
    """from the one who judged most to the one who judged least"""


class RatingPredictionMetrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics of how well the second output predicts whether raters find an answer good."""

    answers: int
    loss: float
    """binary cross-entropy in nats; log 2 = 0.693 is knowing nothing"""
    accuracy: float
    area: float | None
    """under the ROC curve (GopherCite, appendix E): how often a good answer has a higher logit than
    one that is not; None: all are alike"""


def measure_rating_prediction(
    logits: Sequence[float], good: Sequence[float]
) -> RatingPredictionMetrics:
    """Measure how well logits predict good answers: 1 in `good`, 0 for the others.

    There must be one answer at least.
    """
    pairs = list(zip(logits, good, strict=True))
    yes = [logit for logit, value in pairs if value]
    no = [logit for logit, value in pairs if not value]
    wins = sum((one > other) + (one == other) / 2 for one in yes for other in no)
    losses = [np.logaddexp(0, -logit if value else logit).item() for logit, value in pairs]
    return RatingPredictionMetrics(
        len(pairs),
        fmean(losses),
        fmean([float((logit > 0) == bool(value)) for logit, value in pairs]),
        wins / (len(yes) * len(no)) if yes and no else None,
    )


def measure_preference_agreement(
    judged: Sequence[ScoredComparison], scale: float = 1.0
) -> PreferenceAgreement:
    """Measure how well rewards agree with comparisons: loss, accuracy, calibration, by rater.

    Differences of rewards times `scale` are log-odds. Raises ValueError where there is nothing to
    measure, or a reward is no finite number.
    """
    if not judged:
        raise ValueError("there are no comparisons")
    if not all(math.isfinite(reward) for each in judged for reward in each.rewards):
        raise ValueError("a reward is no finite number")
    bins = _bin_by_probability(judged, scale)
    error = sum(each.comparisons * abs(each.chance - each.credit) for each in bins)
    return PreferenceAgreement(
        comparisons=len(judged),
        ties=sum(each.is_tied for each in judged),
        loss=fmean([each.compute_loss(scale) for each in judged]),
        accuracy=_average_clear(judged, ScoredComparison.compute_accuracy),
        credit=fmean([each.compute_credit() for each in judged]),
        error=error / len(judged),
        bins=bins,
        raters=_measure_raters(judged),
    )


def fit_inverse_temperature(judged: Sequence[ScoredComparison]) -> float:
    """Return the factor, from 1/64 to 64, that makes differences of rewards log-odds.

    It is the one with the least loss on these comparisons, of which there must be one (the inverse
    of a softmax's temperature). Each answer of a comparison is taken as preferred once more than it
    was, as Platt (1999) has it: ten comparisons that are all predicted do not make certain of the
    eleventh.
    """
    softer = [each._replace(weights=_smooth_labels(each.weights, len(judged))) for each in judged]
    low, high = -math.log(MAX_REWARD_SCALE), math.log(MAX_REWARD_SCALE)
    for _ in range(50):
        middle = (low + high) / 2
        if _compute_loss_slope(softer, math.exp(middle)) > 0:
            high = middle
        else:
            low = middle
    return math.exp((low + high) / 2)


def _smooth_labels(weights: Sequence[float], count: int) -> list[float]:
    return [(weight * count + 1) / (count + len(weights)) for weight in weights]


def _compute_loss_slope(judged: Sequence[ScoredComparison], scale: float) -> float:
    """Return the derivative of the loss, which is convex in the scale."""
    return sum(
        (chance - weight) * reward
        for each in judged
        for chance, weight, reward in zip(
            each.compute_probabilities(scale), each.weights, each.rewards, strict=True
        )
    )


def _bin_by_probability(
    judged: Sequence[ScoredComparison], scale: float
) -> tuple[CalibrationBin, ...]:
    bins: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in judged:
        chance = max(each.compute_probabilities(scale))
        place = min(int(chance * CALIBRATION_BINS), CALIBRATION_BINS - 1)
        bins[place].append((chance, each.compute_credit()))
    return tuple(
        CalibrationBin(len(inside), *map(fmean, zip(*inside, strict=True)))
        for _, inside in sorted(bins.items())
    )


def _measure_raters(judged: Sequence[ScoredComparison]) -> tuple[RaterAgreement, ...]:
    by: dict[str, list[ScoredComparison]] = defaultdict(list)
    for each in judged:
        by[each.by].append(each)
    raters = [
        RaterAgreement(
            name,
            len(rated),
            _average_clear(rated, ScoredComparison.compute_accuracy),
            fmean([each.compute_credit() for each in rated]),
            _average_clear(rated, lambda each: float(each.weights[0] == max(each.weights))),
        )
        for name, rated in sorted(by.items())
    ]
    return tuple(sorted(raters, key=lambda rater: -rater.comparisons))


def _average_clear(
    judged: Sequence[ScoredComparison], measure: Callable[[ScoredComparison], float]
) -> float | None:
    """Return the mean of a measure over the comparisons without a tie; None without any."""
    clear = [measure(each) for each in judged if not each.is_tied]
    return fmean(clear) if clear else None


def compute_preference_loss(rewards_BK: Tensor, weights_BK: Tensor) -> Tensor:
    """Return the cross-entropy of weights with softmax(rewards), summed over comparisons, in nats.

    Best of four is Ziegler's loss (section 2); of two it is Bradley and Terry's, and (0.5, 0.5) a
    tie as WebGPT has it (section 3.2). Where a comparison has fewer answers than others, give
    rewards of -inf.
    """
    logprobs_BK = rewards_BK.log_softmax(-1).masked_fill(rewards_BK.isneginf(), 0.0)
    return -(weights_BK * logprobs_BK).sum()


def compute_rating_loss(logits_N: Tensor, good_N: Tensor) -> Tensor:
    """Return the binary cross-entropy of logits with labels 1 (good) or 0, summed, in nats.

    NaN labels do not count (GopherCite, section 2.8).
    """
    losses_N = binary_cross_entropy_with_logits(logits_N, good_N.nan_to_num(), reduction="none")
    return losses_N.masked_fill(good_N.isnan(), 0.0).sum()


def pad_to_comparisons(values_N: Tensor, counts: Sequence[int], nothing: float) -> Tensor:
    """Arrange a flat tensor as comparisons × answers, `counts[i]` values in row i, padded.

    The padding has the value `nothing`.
    """
    most = max(counts)
    places = [row * most + at for row, count in enumerate(counts) for at in range(count)]
    empty = torch.full((len(counts) * most,), nothing, device=values_N.device)
    index = torch.tensor(places, device=values_N.device)
    return empty.index_copy(0, index, values_N).view(len(counts), most)


class RewardTrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run that trains a reward model: data, model, optimizer and duration."""

    trained: TrainedModelSettings
    """the language model or policy that it begins as"""
    comparisons: str
    """a JSONL file of Comparisons"""
    optimising: OptimizerSettings = OptimizerSettings(rate=1.77e-5)
    """optimizer and learning rate, whose default is that of Ziegler, section 2.2"""
    ratings: str = ""
    """a JSONL file of Ratings from 0 to 1, which a second output learns to predict; empty: none"""
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
    """passes over the comparisons; more learn by heart what few people said (Ziegler, section
    2.2)"""
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
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""
    context: int = 0
    """the most tokens of a question, its evidence and an answer; 0: as many as the model takes"""
    given: bool = False
    """whether pages given with a question are shown, as the text to be summarised (Ziegler)"""
    seed: int = 0
    """seed of everything that is drawn: the same one gives the same run"""

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


class RewardTrainingResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a run: the model, its data, and the agreement before and after."""

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
    before: PreferenceAgreement | None
    """on the validation's comparisons, by the model as it began"""
    after: PreferenceAgreement | None
    gains: list[float]
    """accuracy after less before, of each of them without a tie"""
    calibrated: PreferenceAgreement | None
    """after differences of rewards were stretched or shrunk to be log-odds: one number, fitted on
    these comparisons"""
    foretold: RatingPredictionMetrics | None
    scale: RewardScale
    scaled_on: str
    """the file on whose answers rewards have mean 0 and variance 1; that of the comparisons means
    the answers learnt from, since no samples of the reference policy were named"""
    samples: int
    """how many answers these are"""


def train_reward_model(
    settings: RewardTrainingSettings,
    out: Path,
    callback: StepCallback | None = None,
    cord: StopCheck = str,
) -> RewardTrainingResult:
    """Train a reward model and write it to `out`/model; continue a run that was broken off.

    Writes the weights that were best at validation, or the last without a validation. Raises
    Failed: not_found, bad_line, no_data (a file holds nothing to use), one_sided (comparisons are
    all ties, or ratings or rewards all alike), too_long (no comparison, or not every sample, fits
    into the context), few_questions (none would be left for training); no_model, bad_model,
    no_peft, no_targets, no_dropout; run_in_use, other_run, unwritable; stopped and not_a_number,
    after which the last checkpoint is as it was.
    """
    accelerator = make_accelerator(settings.trained.dtype)
    files = (settings.comparisons, settings.ratings, settings.samples)
    with ResumableRun(out, settings, accelerator, cord=cord, data=files) as run:
        showing, model = _load_model(settings)
        data = _load_comparison_data(settings, showing)
        steps = make_epoch_batches(
            len(data.training), settings.batch, settings.epochs, settings.seed
        )
        rows = _load_scaling_rows(settings, showing, data)
        learner = ModelOptimizer(
            model,
            settings.optimising,
            len(steps),
            accelerator,
            run.find_stop_reason,
            dropout_seed=settings.seed if settings.trained.dropout else None,
        )
        training = RewardTrainer(settings, learner, showing.pad, data, out / "best.safetensors")
        before = training.score_validation()
        check = settings.check or len(steps) // settings.epochs
        best = {"loss": "validation_loss", "accuracy": "validation_credit"}[settings.best]

        def train_step(step: int) -> dict[str, float]:
            return training.train_step(step, [data.training[at] for at in steps[step]])

        train_with_validations(
            run,
            TrainingSchedule(len(steps), check, settings.patience, settings.every, best),
            learner,
            training.progress,
            train_step,
            training.measure_validation if before else None,
            lambda: learner.write_model(training.save_best_weights),
            callback,
        )
        return _finish_training(training, showing, before, rows, out / "model")


class _RewardProgress(ValidationProgress, array_like=True):
    completed_steps: int = 0


@dataclass(eq=False)
class RewardTrainer:
    """A reward model in training; `place` is the file of the best weights so far."""

    settings: RewardTrainingSettings
    learner: ModelOptimizer
    pad: int
    data: ComparisonSplit
    place: Path

    def __post_init__(self) -> None:
        main = self.learner.accelerator.is_main_process
        self.progress = SavedRecord("training.json", _RewardProgress(), main)

    def train_step(self, number: int, batch: Sequence[ComparisonItem]) -> dict[str, float]:
        """Train on one batch; return its `loss` on comparisons and the norm of the `gradient`.

        The batch is the whole one, the same in all processes, of which each computes a part. The
        loss is that before the step. With ratings there is `rated_loss` too, that of the second
        output. Raises Failed as `ModelOptimizer.step` does.
        """
        share = self.settings.auxiliary if self.settings.ratings else 0.0
        compared = max(sum(item.is_comparison for item in batch), 1)
        rated = max(sum(item.rated_count for item in batch), 1)
        losses: list[Tensor] = []

        def compute_micro_batch_loss(piece: Sequence[ComparisonItem]) -> Tensor:
            preferred, foretold = self._compute_losses(piece)
            losses.append(torch.stack([preferred / compared, foretold / rated]).detach())
            return (1 - share) * preferred / compared + share * foretold / rated

        length = self.learner.step(number, self._split_for_process(batch), compute_micro_batch_loss)
        whole = self.learner.sum_losses(losses)
        self.progress.record.completed_steps = number + 1
        metrics = {"loss": whole[0], "gradient": length}
        return metrics | ({"rated_loss": whole[1]} if share else {})

    def _split_for_process(self, batch: Sequence[ComparisonItem]) -> list[list[ComparisonItem]]:
        """Return this process's part of a batch, rows of like length together, in as many pieces as
        the other processes have: what fills up does not count."""
        ordered = sorted(batch, key=lambda item: item.longest_length)
        processes = self.learner.accelerator.num_processes
        mine = ordered[self.learner.accelerator.process_index :: processes]
        size = self.settings.piece
        count = math.ceil(math.ceil(len(batch) / processes) / size)
        nothing = ComparisonItem("", ordered[0].rows[:1], (0.0,), (math.nan,))
        return [mine[at * size : (at + 1) * size] or [nothing] for at in range(count)]

    def _compute_losses(self, piece: Sequence[ComparisonItem]) -> tuple[Tensor, Tensor]:
        """Return the sums of the losses of both outputs."""
        device = self.learner.accelerator.device
        rows = [row for item in piece for row in item.rows]
        found_NO = compute_reward_outputs(self.learner.model, rows, self.pad, device)
        weights_N = torch.tensor([each for item in piece for each in item.weights], device=device)
        counts = [len(item.rows) for item in piece]
        rewards_BK = pad_to_comparisons(found_NO[:, 0], counts, -math.inf)
        preferred = compute_preference_loss(rewards_BK, pad_to_comparisons(weights_N, counts, 0.0))
        if not self.settings.ratings:
            return preferred, torch.zeros_like(preferred)
        good_N = torch.tensor([each for item in piece for each in item.good], device=device)
        return preferred, compute_rating_loss(found_NO[:, 1], good_N)

    def measure_validation(self) -> tuple[dict[str, float], tuple[()]]:
        """Return `validation_loss` and `validation_credit` of the validation comparisons, of which
        there must be some, and no samples."""
        agreement = measure_preference_agreement(self.score_validation())
        return {"validation_loss": agreement.loss, "validation_credit": agreement.credit}, ()

    def save_best_weights(self, model: nn.Module) -> None:
        """Write the weights; go on from an older checkpoint write the same again."""
        new = self.place.with_suffix(".new")
        weights = model.state_dict().items()
        save_file({name: value.detach().cpu().clone() for name, value in weights}, new)
        new.replace(self.place)

    def restore_best_weights(self) -> int:
        """Restore the weights that were best at validation; return the step that they are of.

        Without a validation the weights stay, and the step is the last that was made.
        """
        progress = self.progress.record
        if progress.step:
            self.learner.restore_weights(load_file(self.place))
        return progress.step or progress.completed_steps

    def score_validation(self) -> list[ScoredComparison]:
        """Return the validation comparisons with the current rewards of their answers.

        Raises Failed (not_a_number).
        """
        comparisons = [item for item in self.data.validation if item.is_comparison]
        rewards = self.compute_rewards([row for item in comparisons for row in item.rows])
        if not all(map(math.isfinite, rewards)):
            detail = "its rewards are no numbers: lower the rate, or begin as another model"
            raise Failed(Failure(self.settings.trained.model, Outcome.NOT_A_NUMBER, detail))
        each = iter(rewards)
        return [
            ScoredComparison(item.weights, [next(each) for _ in item.rows], item.by)
            for item in comparisons
        ]

    def compute_rewards(self, rows: Sequence[TokenIds]) -> list[float]:
        """Return the current reward of each row, not yet scaled, the second output blended in."""
        share = self.settings.blend
        return [
            (1 - share) * found[0] + (share * found[1] if share else 0.0)
            for found in self.compute_outputs(rows)
        ]

    def measure_rating_prediction(self) -> RatingPredictionMetrics | None:
        """Measure the second output on rated validation answers; None if there are none."""
        rated = [
            (row, good)
            for item in self.data.validation
            for row, good in zip(item.rows, item.good, strict=True)
            if not math.isnan(good)
        ]
        if not rated:
            return None
        outputs = self.compute_outputs([row for row, _ in rated])
        return measure_rating_prediction(
            [logits[1] for logits in outputs], [good for _, good in rated]
        )

    def compute_outputs(self, rows: Sequence[TokenIds]) -> list[list[float]]:
        """Return the model's outputs for each row, in order, computed by all processes together."""
        accelerator = self.learner.accelerator
        processes, index = accelerator.num_processes, accelerator.process_index
        size = self.settings.piece * 2
        mine = rows[index::processes]
        with self.learner.open_whole_model() as model:
            found = score_rows(model, mine, self.pad, accelerator.device, size).tolist()
        together = gather_object([(index + at * processes, one) for at, one in enumerate(found)])
        return [one for _, one in sorted(together)]


def _load_model(settings: RewardTrainingSettings) -> tuple[RewardInputEncoder, PreTrainedModel]:
    tokenizer, ends, _ = load_tokenizer(Path(settings.trained.model))
    with seed_torch(settings.seed):
        model = load_trainable_model(settings.trained, "row", 2 if settings.ratings else 1)
    return make_input_encoder(model, tokenizer, ends, settings.context, settings.given), model


def _load_comparison_data(
    settings: RewardTrainingSettings, showing: RewardInputEncoder
) -> ComparisonSplit:
    compared = load_comparisons(Path(settings.comparisons))
    good = load_good_answers(Path(settings.ratings), settings.scales) if settings.ratings else {}
    return build_comparison_items(compared, good, showing, settings.validation, settings.seed)


def _load_scaling_rows(
    settings: RewardTrainingSettings, showing: RewardInputEncoder, data: ComparisonSplit
) -> list[TokenIds]:
    """Return the rows that rewards are scaled on."""
    if not settings.samples:
        return [row for item in data.training if item.is_comparison for row in item.rows]
    shown = [showing.encode_answer(*pair) for pair in load_answer_pairs(Path(settings.samples))]
    return [np.asarray(each.tokens, np.int32) for each in shown]


def _finish_training(
    training: RewardTrainer,
    showing: RewardInputEncoder,
    before: Sequence[ScoredComparison],
    rows: Sequence[TokenIds],
    folder: Path,
) -> RewardTrainingResult:
    """Make odds and a scale of what the best weights give, and write them."""
    settings, data = training.settings, training.data
    best_step = training.restore_best_weights()
    judged = training.score_validation()
    clear = [pair for pair in zip(judged, before, strict=True) if not pair[0].is_tied]
    steep = fit_inverse_temperature(judged) if judged else 1.0
    mean, deviation = _compute_moments(training.compute_rewards(rows), settings)
    scale = RewardScale(-mean / deviation, steep * deviation, showing.context, showing.given)
    preferred = RewardTrainingResult(
        model=str(folder),
        steps=training.progress.record.completed_steps,
        best_step=best_step,
        comparisons=sum(item.is_comparison for item in data.training),
        too_long=data.too_long,
        cut=data.cut,
        before=measure_preference_agreement(before) if before else None,
        after=measure_preference_agreement(judged) if judged else None,
        gains=[now.compute_accuracy() - then.compute_accuracy() for now, then in clear],
        calibrated=measure_preference_agreement(judged, steep) if judged else None,
        foretold=training.measure_rating_prediction(),
        scale=scale,
        scaled_on=settings.samples or settings.comparisons,
        samples=len(rows),
    )
    training.learner.write_model(
        lambda model: save_reward_model(
            model, showing.tokenizer, scale, deviation, settings.blend, folder
        )
    )
    return preferred


def _compute_moments(
    rewards: Sequence[float], settings: RewardTrainingSettings
) -> tuple[float, float]:
    mean = math.fsum(rewards) / len(rewards)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if not 0 < deviation < math.inf:
        detail = "all answers have one reward: give more samples, or learn from more comparisons"
        raise Failed(Failure(settings.samples or settings.comparisons, Outcome.ONE_SIDED, detail))
    return mean, deviation
