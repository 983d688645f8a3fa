"""Train the evidence model of `evidence.evidence_model`, and export it as ONNX.

One BERT cross-encoder has three heads. Whether a passage answers a question and where (a span, or
none: SQuAD 2.0) is WebGLM's fine-grained ranking (section 3.1); whether it supports or refutes a
claim is the label of GopherCite's supported-and-plausible head (section 2.1).
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel

from rookery.errors import Failed, Outcome
from rookery.evidence.evidence_model import (
    MODEL_FILE,
    TOKENIZER_FILE,
    EncodedPair,
    EvidencePassage,
    EvidenceTokenizer,
)
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.pretrained_models import (
    choose_precision,
    convert_load_errors,
    freeze_lower_layers,
    require_model_files,
    silence_transformers,
)
from rookery.learn.training_run import ResumableRun, StepCallback, load_run_metrics
from rookery.records import Failure, Record

SUPPORT_LABELS = ("supports", "refutes", "neither")
"""labels of a claim, in the order of the head's outputs"""
_IGNORED = -100
_HEADS_FILE = "heads.pt"


class EvidenceExample(Record, frozen=True):
    """A question or claim, a passage, and what is known of the two."""

    query: str
    passage: str
    heading: str = ""
    """title of the page and headings above the passage"""
    answers: float | None = None
    """probability that the passage answers the question; None: unknown"""
    span: tuple[int, int] | None = None
    """characters of the passage that answer; where `answers` is 0, none do"""
    support: Literal["supports", "refutes", "neither"] | None = None
    """what the passage does with the claim; None: unknown"""


class EvidenceTrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run that trains an evidence model."""

    frozen: float = 0.5
    """share of the layers, from the first on, that learn nothing, and the embeddings with them"""
    optimising: OptimizerSettings = OptimizerSettings(rate=5e-5, warmup=0.1, decay=0.01)
    head_rate: float = 1e-3
    """learning rate of the heads for answers, support and spans at its highest"""
    epochs: int = 1
    batch: int = 32
    """examples in an optimizer step"""
    tokens: int = 4096
    """maximum number of tokens in a micro-batch, padding included"""
    span_weight: float = 0.4
    """weight of the loss of the span, beside 1 for `answers`"""
    support_weight: float = 1.0
    """weight of the loss of the support labels"""
    order_weight: float = 0.0
    """weight of the loss of the order of a question's passages; above 0, the examples of a question
    are learnt from in one batch"""
    seed: int = 0
    every: int | None = None
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch, self.tokens) < 1:
            raise ValueError("epochs, batch and tokens must be 1 or more")
        if not min(self.span_weight, self.support_weight, self.order_weight) >= 0:
            raise ValueError("weights of losses must be 0 or more")


class EvidenceTrainingResult(msgspec.Struct, frozen=True):
    """Result of a run."""

    model: str
    """folder of the trained network, for `EvidenceNetwork.load_folder`"""
    examples: int
    steps: int
    loss: float
    """mean loss of the last tenth of the steps"""


class EvidenceLogits(NamedTuple):
    """Outputs of the network for N pairs of T tokens."""

    answers_N: Tensor
    """log-odds that the passage answers the question"""
    support_N3: Tensor
    """logits of SUPPORT_LABELS"""
    starts_NT: Tensor
    """logits of the first token of the answer; the first token of all stands for none"""
    ends_NT: Tensor
    """logits of its last token"""


class EvidenceNetwork(nn.Module):
    """BERT with a pooler and three linear heads."""

    def __init__(self, bert: Any, folder: Path) -> None:
        super().__init__()
        width = bert.config.hidden_size
        self.bert = bert
        self.answers = nn.Linear(width, 1)
        self.support = nn.Linear(width, len(SUPPORT_LABELS))
        self.span = nn.Linear(width, 2)
        for head in (self.answers, self.support, self.span):
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)
        self._folder = folder

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> EvidenceLogits:
        """Return the outputs for N pairs of T tokens each; padding has the mask 0."""
        output = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )
        span_NT2 = self.span(output.last_hidden_state)
        return EvidenceLogits(
            self.answers(output.pooler_output).squeeze(-1),
            self.support(output.pooler_output),
            span_NT2[..., 0],
            span_NT2[..., 1],
        )

    @classmethod
    def load_folder(cls, folder: Path) -> "EvidenceNetwork":
        """Return the network of a folder with a BERT, and with its heads where it has any.

        Raises Failed: no_model, bad_model.
        """
        require_model_files(folder)
        with convert_load_errors(folder), silence_transformers():
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            if config.model_type != "bert":
                raise ValueError(f"it is a {config.model_type}; the evidence model is a BERT")
            bert = AutoModel.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, local_files_only=True
            )
            network = cls(bert.eval(), folder)
            if (heads := folder / _HEADS_FILE).exists():
                # A cross-encoder for ranking brings only the head for answers.
                network.load_state_dict(torch.load(heads, weights_only=True), strict=False)
        return network

    def save_folder(self, folder: Path) -> None:
        """Write a folder that `load_folder` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        with silence_transformers():
            self.bert.save_pretrained(folder)
        heads = {name: weight for name, weight in self.state_dict().items() if name[:5] != "bert."}
        torch.save(heads, folder / _HEADS_FILE)
        (folder / TOKENIZER_FILE).write_bytes((self._folder / TOKENIZER_FILE).read_bytes())


class _Row(NamedTuple):
    """An example as numbers; _IGNORED and NaN stand for what is unknown."""

    query: str
    pair: EncodedPair
    answers: float
    support: int
    start: int
    end: int


def encode_example(tokenizer: EvidenceTokenizer, example: EvidenceExample) -> _Row:
    """Encode an example; an answer beyond the tokens that the model reads has no known span."""
    pair = tokenizer.encode_pair(example.query, EvidencePassage(example.passage, example.heading))
    start = end = _IGNORED
    if example.span is not None:
        inside = [
            number
            for number, (first, last) in enumerate(pair.offsets)
            if first < example.span[1] and last > example.span[0]
        ]
        if inside and pair.offsets[inside[-1]][1] >= example.span[1]:
            start, end = inside[0], inside[-1]
    elif example.answers == 0:
        start = end = 0
    support = _IGNORED if example.support is None else SUPPORT_LABELS.index(example.support)
    answers = math.nan if example.answers is None else example.answers
    return _Row(example.query, pair, answers, support, start, end)


class _Counts(NamedTuple):
    """Number of examples of a whole batch that each loss is a mean of."""

    answers: int
    support: int
    span: int
    order: int
    """questions of which one passage answers and another does not"""


class _MicroBatch(NamedTuple):
    rows: Sequence[_Row]
    counts: _Counts


def train_evidence_model(
    settings: EvidenceTrainingSettings,
    base: Path,
    examples: Sequence[EvidenceExample],
    out: Path,
    callback: StepCallback | None = None,
) -> EvidenceTrainingResult:
    """Train a copy of the network in `base` and write it to OUT/model.

    It computes in bfloat16 where the processor multiplies that, else in float32. A run that was
    broken off continues from its last checkpoint with the same result. Raises
    Failed: no_model, bad_model, no_data, run_in_use, other_run, stopped, not_a_number.
    """
    if not examples:
        raise Failed(
            Failure("examples", Outcome.NO_DATA, "there are none: name the data to learn from")
        )
    fast = choose_precision("") == "bfloat16"
    accelerator = make_accelerator("bfloat16" if fast else "float32")
    if accelerator.num_processes > 1:
        detail = "the evidence model is trained by one process: start it without a launcher"
        raise Failed(Failure("training", Outcome.UNSUPPORTED, detail))
    steps = settings.epochs * -(-len(examples) // settings.batch)
    with ResumableRun(out, settings, accelerator) as run:
        torch.manual_seed(settings.seed)
        network = EvidenceNetwork.load_folder(base)
        freeze_lower_layers(network.bert, settings.frozen)
        if settings.frozen:
            network.bert.embeddings.requires_grad_(False)
        tokenizer = EvidenceTokenizer(base)
        rates = dict.fromkeys(("answers", "support", "span"), settings.head_rate)
        learner = ModelOptimizer(
            network, settings.optimising, steps, accelerator, run.find_stop_reason, rates
        )
        for step in run.iterate_steps(steps, learner, settings.every, callback):
            rows = [
                encode_example(tokenizer, examples[number])
                for number in _sample_batch(examples, step, settings)
            ]
            losses: list[float] = []

            def compute_loss(piece: _MicroBatch, loss_values: list[float] = losses) -> Tensor:
                loss = _compute_loss(learner.model, piece, settings)
                loss_values.append(loss.item())
                return loss

            learner.step(step, list(_split_batch(rows, settings.tokens)), compute_loss)
            run.record_metrics(loss=sum(losses))
        with learner.open_whole_model() as trained:
            trained.save_folder(out / "model")
        measured = [each["loss"] for each in load_run_metrics(out)]
    last = fmean(measured[-max(steps // 10, 1) :])
    return EvidenceTrainingResult(str(out / "model"), len(examples), steps, last)


def average_evidence_networks(public: Path, trained: Path, share: float, out: Path) -> None:
    """Write the mean of two networks with the same layers, `share` of `public`, to folder `out`.

    Heads that `public` was never taught, those for support and spans, are taken from `trained`. The
    mean of the weights before and after training keeps what was known of other material and nearly
    all that was learnt (Wortsman and others 2022, Robust fine-tuning of zero-shot models, section
    3). Raises Failed: no_model, bad_model.
    """
    network = EvidenceNetwork.load_folder(trained)
    before, after = EvidenceNetwork.load_folder(public).state_dict(), network.state_dict()
    network.load_state_dict(
        {
            name: weight
            if name.startswith(("support.", "span."))
            else share * before[name] + (1 - share) * weight
            for name, weight in after.items()
        }
    )
    network.save_folder(out)


def _sample_batch(
    examples: Sequence[EvidenceExample], step: int, settings: EvidenceTrainingSettings
) -> list[int]:
    """Return the examples of a step; in an epoch each is in one batch."""
    epoch, at = divmod(step, -(-len(examples) // settings.batch))
    order = list(range(len(examples)))
    Random(f"{settings.seed} {epoch}").shuffle(order)
    if settings.order_weight:
        first: dict[str, int] = {}
        for place, number in enumerate(order):
            first.setdefault(examples[number].query, place)
        order.sort(key=lambda number: first[examples[number].query])
    return order[at * settings.batch : (at + 1) * settings.batch]


def _split_batch(rows: Sequence[_Row], tokens: int) -> Iterator[_MicroBatch]:
    """Split a batch into micro-batches of similar length; those of a question stay together."""
    groups = _group_by_query(rows)
    counts = _Counts(
        sum(not math.isnan(row.answers) for row in rows),
        sum(row.support != _IGNORED for row in rows),
        sum(row.start != _IGNORED for row in rows),
        sum(any(answers) and not all(answers) for answers in map(_list_answering, groups)),
    )
    piece: list[_Row] = []
    for group in sorted(groups, key=_measure_longest):
        if piece and (len(piece) + len(group)) * _measure_longest(group) > tokens:
            yield _MicroBatch(piece, counts)
            piece = []
        piece.extend(group)
    yield _MicroBatch(piece, counts)


def _group_by_query(rows: Sequence[_Row]) -> list[list[_Row]]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(row.query, []).append(row)
    return list(groups.values())


def _measure_longest(rows: Sequence[_Row]) -> int:
    return max(len(row.pair.ids) for row in rows)


def _list_answering(rows: Sequence[_Row]) -> list[bool]:
    """Return for each row of which it is known whether its passage answers."""
    return [row.answers > 0.5 for row in rows if not math.isnan(row.answers)]


def collate_pairs(
    pairs: Sequence[EncodedPair], device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Return the network's inputs for N pairs, padded to the longest: each is N × T."""
    longest = max(len(pair.ids) for pair in pairs)

    def pad_rows(rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)

    return {
        "input_ids": pad_rows([pair.ids for pair in pairs]),
        "attention_mask": pad_rows([[1] * len(pair.ids) for pair in pairs]),
        "token_type_ids": pad_rows([pair.types for pair in pairs]),
    }


def _compute_loss(model: Any, piece: _MicroBatch, settings: EvidenceTrainingSettings) -> Tensor:
    """Return the micro-batch's part of the batch's loss: sums divided by the batch's counts."""
    rows, counts = piece
    device = next(model.parameters()).device
    inputs = collate_pairs([row.pair for row in rows], device)
    logits = EvidenceLogits(*(each.float() for each in model(**inputs)))
    answers_N = torch.tensor([row.answers for row in rows], device=device)
    known_N = ~answers_N.isnan()
    loss = functional.binary_cross_entropy_with_logits(
        logits.answers_N[known_N], answers_N[known_N], reduction="sum"
    ) / max(counts.answers, 1)
    labels_N = torch.tensor([row.support for row in rows], device=device)
    loss = loss + settings.support_weight / max(counts.support, 1) * functional.cross_entropy(
        logits.support_N3, labels_N, ignore_index=_IGNORED, reduction="sum"
    )
    if settings.order_weight:
        loss = loss + settings.order_weight / max(counts.order, 1) * _compute_order_loss(
            rows, logits.answers_N
        )
    # No answer stands in a question, a separator or padding.
    outside = [
        [end <= start for start, end in row.pair.offsets]
        + [True] * (inputs["input_ids"].shape[1] - len(row.pair.ids))
        for row in rows
    ]
    outside_NT = torch.tensor(outside, device=device)
    outside_NT[:, 0] = False
    for logits_NT, targets in (
        (logits.starts_NT, [row.start for row in rows]),
        (logits.ends_NT, [row.end for row in rows]),
    ):
        span_loss = functional.cross_entropy(
            logits_NT.masked_fill(outside_NT, -1e4),
            torch.tensor(targets, device=device),
            ignore_index=_IGNORED,
            reduction="sum",
        )
        loss = loss + settings.span_weight / 2 / max(counts.span, 1) * span_loss
    return loss


def _compute_order_loss(rows: Sequence[_Row], answers_N: Tensor) -> Tensor:
    """Return the sum over questions of the negative log of the share of what answers.

    The share is that of a softmax over the log-odds of the question's passages (Cao and others
    2007, Learning to rank, section 4, with the top one).
    """
    numbers: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if not math.isnan(row.answers):
            numbers.setdefault(row.query, []).append(number)
    loss = answers_N.new_zeros(())
    for group in numbers.values():
        right = [number for number in group if rows[number].answers > 0.5]
        if 0 < len(right) < len(group):
            loss = loss + answers_N[group].logsumexp(0) - answers_N[right].logsumexp(0)
    return loss


def export_evidence_model(model: Path, out: Path, quantized: bool = True) -> None:
    """Write the network in folder `model` to folder `out`, as `evidence.evidence_model` reads it.

    `quantized`: weights as 8-bit integers with one scale a column, activations quantised as they
    come; otherwise everything stays float32. Raises Failed: no_model, bad_model.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    network = EvidenceNetwork.load_folder(model)
    out.mkdir(parents=True, exist_ok=True)
    plain = out / f"float32.{MODEL_FILE}"
    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = collate_pairs([EvidenceTokenizer(model).encode_pair("a b", EvidencePassage("c d"))])
    with warnings.catch_warnings(), torch.inference_mode():
        # The exporter by tracing is said to be deprecated; the one by dynamo gave wrong logits.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            tuple(inputs[name] for name in names),
            str(plain),
            input_names=names,
            output_names=["answers", "support", "starts", "ends"],
            dynamic_axes={name: {0: "N", 1: "T"} for name in [*names, "starts", "ends"]}
            | {name: {0: "N"} for name in ("answers", "support")},
            dynamo=False,
        )
    if quantized:
        quantize_dynamic(plain, out / MODEL_FILE, per_channel=True, weight_type=QuantType.QUInt8)
        plain.unlink()
        speed_up_graph(out / MODEL_FILE)
    else:
        plain.rename(out / MODEL_FILE)
    (out / TOKENIZER_FILE).write_bytes((model / TOKENIZER_FILE).read_bytes())


def speed_up_graph(file: Path) -> None:
    """Rewrite a quantised graph so that it takes about half the time, with the same outputs.

    Weights of products become signed: both they and their zero points are 128 less, which changes
    no product, and processors multiply unsigned by signed bytes. The exporter's guards against a
    softmax of nothing are left out: no pair is without tokens.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(file))
    graph = model.graph
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    weights = {name for node in products for name in (node.input[1], node.input[3])}
    for stored in graph.initializer:
        if stored.name in weights and stored.data_type == onnx.TensorProto.UINT8:
            signed = (numpy_helper.to_array(stored) ^ 128).view("int8")  # less 128
            stored.CopyFrom(numpy_helper.from_array(signed, stored.name))
    checks = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "IsNaN"}
    guards = [node for node in graph.node if node.op_type == "Where" and node.input[0] in checks]
    unguarded = {node.output[0]: checks[node.input[0]] for node in guards}
    for node in graph.node:
        node.input[:] = [unguarded.get(name, name) for name in node.input]
    nodes = [node for node in graph.node if node.op_type != "IsNaN" and node not in guards]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, str(file))
