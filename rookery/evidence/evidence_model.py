"""Evidence model: a cross-encoder that reads a question or claim together with a passage.

It says whether the passage answers the question, where the answer stands in it, and whether it
supports or refutes the claim: WebGLM's fine-grained ranking (section 3.1) and GopherCite's
supported-and-plausible judgement (section 2.1) in one. It runs on onnxruntime, without torch,
and so does the dense ranker: sentence-embedding similarity by an encoder that
`learn.retrieval_training` trained on a user's own data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
R = TypeVar("R")
BUNDLED_MODEL = Path(__file__).with_name("evidence_weights")
"""folder of the evidence model that comes with Rookery"""
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
CALIBRATION_FILE = "calibration.json"

MAX_QUERY_TOKENS = 64
"""tokens of a question or claim that are read"""
MAX_PAIR_TOKENS = 256
"""tokens of a question and a passage together; the passage is cut after them"""
MAX_SPAN_TOKENS = 64
"""maximum length of the span that answers, in tokens"""
_MAX_CHARACTERS = 16 * MAX_PAIR_TOKENS  # so that a book is not tokenised for its first page
_MAX_THREADS = 4


class EvidencePassage(NamedTuple):
    """A passage as the model reads it."""

    text: str
    heading: str = ""
    """title of the page and headings above the passage"""


class EvidenceJudgement(NamedTuple):
    """Judgement of one passage for a question or claim."""

    answers: float
    """log-odds that the passage answers the question, by which passages are ranked"""
    span: tuple[int, int]
    """characters of the passage's text that answer best, whatever `answers` says"""
    margin: float
    """log-odds of that span over there being none"""
    supports: float
    """probability that the passage supports the claim; with the next two, they sum to 1"""
    refutes: float
    """probability that it refutes the claim"""
    neither: float
    """probability that it does neither"""


EvidenceJudge = Callable[[str, Sequence[EvidencePassage]], Sequence[EvidenceJudgement]]
"""(question or claim, passages) -> the judgement of each"""


class AnswerCalibration(Record, frozen=True):
    """Logistic that turns the outputs of the network into the log-odds that a passage answers.

    Fitted on questions that the network was not trained on (Platt 1999).
    """

    answers: float = 1.0
    """weight of the logit of `answers`"""
    margin: float = 0.0
    """weight of the margin of the best span"""
    bias: float = 0.0

    def compute_log_odds(self, answers: float, margin: float) -> float:
        """Return the log-odds that a passage with these outputs answers."""
        return self.answers * answers + self.margin * margin + self.bias


class EncodedPair(NamedTuple):
    """Token ids of a question or claim and a passage, as BERT reads a pair of texts."""

    ids: list[int]
    types: list[int]
    """0 for tokens of the question, 1 for tokens of the passage"""
    offsets: list[tuple[int, int]]
    """characters of the passage's text that a token stands for; (0, 0) for all other tokens"""


class EvidenceTokenizer:
    """Encodes pairs of texts with the tokenizer of a model folder."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._first = self._tokenizer.token_to_id("[CLS]")
        self._separator = self._tokenizer.token_to_id("[SEP]")
        if self._first is None or self._separator is None:
            raise ValueError("its tokenizer has no [CLS] or no [SEP]")

    def encode_pair(self, query: str, passage: EvidencePassage) -> EncodedPair:
        """Encode a question or claim with a passage, cut: [CLS] query [SEP] heading text [SEP]."""
        asked = self._encode_text(query).ids[:MAX_QUERY_TOKENS]
        heading = self._encode_text(passage.heading).ids[:MAX_QUERY_TOKENS]
        read = self._encode_text(passage.text)
        room = MAX_PAIR_TOKENS - len(asked) - len(heading) - 3
        ids = [self._first, *asked, self._separator, *heading, *read.ids[:room], self._separator]
        types = [0] * (len(asked) + 2) + [1] * (len(ids) - len(asked) - 2)
        before = [(0, 0)] * (len(asked) + len(heading) + 2)
        return EncodedPair(ids, types, [*before, *read.offsets[:room], (0, 0)])

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text of any length, [CLS] and [SEP] not counted."""
        return len(self._tokenizer.encode(_replace_surrogates(text), add_special_tokens=False).ids)

    def _encode_text(self, text: str) -> Any:
        cut = _replace_surrogates(text[:_MAX_CHARACTERS])
        return self._tokenizer.encode(cut, add_special_tokens=False)


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which tokenizers do not take, by as many other characters."""
    return text.encode("utf-8", "replace").decode()


def find_best_span(
    starts: Sequence[float], ends: Sequence[float], offsets: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], float]:
    """Return the best span of characters and its log-odds over the span of [CLS] (no answer).

    `starts` and `ends` are the logits of each token; the best span is the one with the largest sum
    among those of at most MAX_SPAN_TOKENS tokens of the passage's text. It is (0, 0) for a passage
    without tokens.
    """
    inside = [number for number, (start, end) in enumerate(offsets) if end > start]
    if not inside:
        return (0, 0), -(starts[0] + ends[0])
    best, place = -float("inf"), (inside[0], inside[0])
    for at, last in enumerate(inside):
        first = max(inside[max(0, at - MAX_SPAN_TOKENS + 1) : at + 1], key=starts.__getitem__)
        if (total := starts[first] + ends[last]) > best:
            best, place = total, (first, last)
    return (offsets[place[0]][0], offsets[place[1]][1]), best - starts[0] - ends[0]


class EvidenceModel:
    """The model of a folder with model.onnx (int8 or float32) and tokenizer.json.

    Where the folder has a calibration.json, `EvidenceJudgement.answers` is calibrated by it.

    Threads may share one. A judgement is the same, bit for bit, whatever is judged beside it:
    activations are quantised by their range, so each pair goes through the graph by itself, on one
    thread of onnxruntime's, and pairs share the processors instead.
    """

    def __init__(self, folder: Path) -> None:
        self._tokenizer = EvidenceTokenizer(folder)
        self._session = open_onnx_session(folder / MODEL_FILE)
        file, self._calibration = folder / CALIBRATION_FILE, AnswerCalibration()
        if file.exists():
            self._calibration = AnswerCalibration.from_json(file.read_bytes())

    def judge_passages(
        self, query: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        """Judge each passage for a question or claim; the judgements are in the same order.

        Only the first MAX_QUERY_TOKENS tokens of the query and of a heading are read, and of the
        text those that leave no more than MAX_PAIR_TOKENS in all.
        """
        # Equal passages are judged once: copies and overlapping windows are common.
        return _map_distinct(lambda passage: self._judge_passage(query, passage), passages)

    def _judge_passage(self, query: str, passage: EvidencePassage) -> EvidenceJudgement:
        import numpy as np

        pair = self._tokenizer.encode_pair(query, passage)
        ids = np.array([pair.ids], np.int64)
        types = np.array([pair.types], np.int64)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
        outputs = ["answers", "support", "starts", "ends"]
        answers, support, starts, ends = self._session.run(outputs, fed)
        span, margin = find_best_span(starts[0].tolist(), ends[0].tolist(), pair.offsets)
        weights = np.exp(support[0] - support[0].max())
        supports, refutes, neither = (weights / weights.sum()).tolist()
        log_odds = self._calibration.compute_log_odds(float(answers[0]), margin)
        return EvidenceJudgement(log_odds, span, margin, supports, refutes, neither)


def _map_distinct(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return what a function gives for each item, computed side by side, once for equal ones."""
    distinct = list(dict.fromkeys(items))
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        by_item = dict(zip(distinct, pool.map(function, distinct), strict=True))
    return [by_item[item] for item in items]


def open_onnx_session(file: Path) -> Any:
    """Return an onnxruntime session of a graph, which runs on the thread that calls it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not _multiplies_exactly():
        options.add_session_config_entry("session.x64quantprecision", "1")  # unsigned weights
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


# MatMulInteger of a matrix of uint8 and one of int8, both of any shape.
_PRODUCT_GRAPH = (
    b'\x08\x05:>\n\x18\n\x01a\n\x01b\x12\x01c"\rMatMulInteger\x12\x01gZ\t\n\x01a\x12\x04\n\x02\x08\x02'
    b"Z\t\n\x01b\x12\x04\n\x02\x08\x03b\t\n\x01c\x12\x04\n\x02\x08\x06B\x04\n\x00\x10\n"
)


@cache
def _multiplies_exactly() -> bool:
    """Tell whether products of uint8 and int8 are exact: without VNNI, x86 saturates at 16 bits."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(_PRODUCT_GRAPH, providers=["CPUExecutionProvider"])
    large = {"a": np.full((2, 4), 255, np.uint8), "b": np.full((4, 1), 127, np.int8)}
    return bool((session.run(None, large)[0] == 4 * 255 * 127).all())


def convert_to_probability(logit: float) -> float:
    """Return the probability of these log-odds."""
    return 1 / (1 + exp(-logit)) if logit >= 0 else exp(logit) / (1 + exp(logit))


def is_evidence_model(folder: Path) -> bool:
    """Return True if a folder has the graph of an evidence model, which is not read."""
    return (folder / MODEL_FILE).is_file()


def load_evidence_model(folder: Path) -> EvidenceModel:
    """Return the evidence model of a folder. Raises Failed: no_model, bad_model."""
    if missing := [name for name in (MODEL_FILE, TOKENIZER_FILE) if not (folder / name).is_file()]:
        listed = " and ".join(missing)
        detail = f"it holds no evidence model ({listed} missing): name another folder"
        raise Failed(Failure(str(folder), Outcome.NO_MODEL, detail))
    return _load_model(EvidenceModel, folder, "evidence model", "export it anew")


def _load_model(load: Callable[[Path], T], folder: Path, what: str, advice: str) -> T:
    """Return what `load` makes of a folder. Raises Failed (bad_model)."""
    try:
        return load(folder)
    except Exception as error:  # a broken file can raise nearly anything
        words = " ".join(str(error).split())[:300]
        detail = f"its {what} cannot be read ({type(error).__name__}: {words}): {advice}"
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, detail)) from error


ENCODER_FILE = "encoder.onnx"
QUESTION_FOLDER = "questions"
"""folder of the encoder of questions in that of the encoder of texts, where there are two"""
MAX_ENCODER_TOKENS = 256
"""tokens of a text that are read, the two round it included"""
_MOST_ENCODED = 64 * MAX_ENCODER_TOKENS  # characters, so that a book is not tokenised whole
_KEPT_VECTORS = 20_000  # about 30 MB at 384 numbers each


class DenseRanker:
    """The encoder of a folder with encoder.onnx and tokenizer.json, and the one of questions in its
    folder `questions`, where they have their own (WebGLM, section 3.1.2).

    A text's vector is the same, bit for bit, whatever is encoded beside it: each text goes through
    the graph by itself, on one thread of onnxruntime's, and texts share the processors instead.
    Threads may share one ranker.
    """

    def __init__(self, folder: Path) -> None:
        own = folder / QUESTION_FOLDER
        self._encode_text = _make_encoder(folder)
        self._encode_question = _make_encoder(own) if own.is_dir() else self._encode_text
        self.compute_similarities("", [""])  # a broken graph fails here and not at a question

    def compute_similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the cosine, -1 to 1, of each text to the query.

        Only the first 256 tokens of each count.
        """
        import numpy as np

        if not texts:
            return []
        vectors = np.stack(_map_distinct(self._encode_text, [*map(cut_encoder_text, texts)]))
        question_vector = self._encode_question(cut_encoder_text(query))
        # A matrix product may add up in another order for another number of rows; this does not.
        cosines = (vectors * question_vector).sum(axis=1).clip(-1, 1)
        return [float(cosine) for cosine in cosines]


def _make_encoder(folder: Path) -> Callable[[str], npt.NDArray[np.float32]]:
    """Return the function from a text to its vector; the same sentences are found for question
    after question, and it keeps their vectors."""
    import numpy as np
    from tokenizers import Tokenizer

    # Its limit on length stands in the file of the tokenizer.
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    session = open_onnx_session(folder / ENCODER_FILE)

    @lru_cache(_KEPT_VECTORS)
    def encode_text(text: str) -> npt.NDArray[np.float32]:
        # Not encode_batch: its threads make a later fork of this process warn.
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        vector: npt.NDArray[np.float32] = session.run(["vector"], {"input_ids": ids})[0][0]
        return vector

    return encode_text


def cut_encoder_text(text: str) -> str:
    """Return the text as the tokenizer takes it: cut to a bounded length, no lone surrogates."""
    return _replace_surrogates(text[:_MOST_ENCODED])


def is_dense_ranker(folder: Path) -> bool:
    """Return True if a folder has the graph of an exported encoder, which is not read."""
    return (folder / ENCODER_FILE).is_file()


def load_dense_ranker(folder: Path) -> DenseRanker:
    """Return the dense ranker of a folder that `rookery learn retrieve` wrote.

    Raises Failed: no_encoder where it holds none, bad_model where it cannot be read.
    """
    if not is_dense_ranker(folder):
        detail = (
            f"it holds no encoder ({ENCODER_FILE} is missing): name the folder model that rookery "
            "learn retrieve wrote, or train again where an earlier version wrote it"
        )
        raise Failed(Failure(str(folder), Outcome.NO_ENCODER, detail))
    return _load_model(DenseRanker, folder, "encoder", "train it again")
