"""Dense ranker: sentence-embedding similarity by an encoder that was trained on your own data.

`learn.retrieval_training` trains it and exports it; it runs on onnxruntime, without torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.errors import Failed, Outcome
from rookery.evidence.evidence_model import TOKENIZER_FILE, open_onnx_session
from rookery.records import Failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ENCODER_FILE = "encoder.onnx"
QUESTION_FOLDER = "questions"
"""folder of the encoder of questions in that of the encoder of texts, where there are two"""
MAX_ENCODER_TOKENS = 256
"""tokens of a text that are read, the two round it included"""
_MAX_CHARACTERS = 64 * MAX_ENCODER_TOKENS  # so that a book is not tokenised for its first page
_KEPT_VECTORS = 20_000  # about 30 MB at 384 numbers each
_MAX_THREADS = 4


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
        self._threads = min(_MAX_THREADS, os.cpu_count() or 1)

    def compute_similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the cosine, -1 to 1, of each text to the query.

        Only the first 256 tokens of each count.
        """
        import numpy as np

        if not texts:
            return []
        with ThreadPoolExecutor(self._threads) as pool:
            vectors = pool.map(self._encode_text, map(clean_encoder_text, dict.fromkeys(texts)))
            by_text = dict(zip(dict.fromkeys(texts), vectors, strict=True))
        question_vector = self._encode_question(clean_encoder_text(query))
        # A matrix product may add up in another order for another number of rows; this does not.
        cosines = (
            (np.stack([by_text[text] for text in texts]) * question_vector).sum(axis=1).clip(-1, 1)
        )
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


def clean_encoder_text(text: str) -> str:
    """Return the text as the tokenizer takes it: cut to a bounded length, no lone surrogates."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()


def is_dense_ranker(folder: Path) -> bool:
    """Return True if a folder holds an exported encoder."""
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
    try:
        ranker = DenseRanker(folder)
        ranker.compute_similarities("", [""])
    except Exception as error:  # a broken folder can raise nearly anything
        words = " ".join(str(error).split())[:300]
        detail = f"its encoder cannot be read ({type(error).__name__}: {words}): train it again"
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, detail)) from error
    return ranker
