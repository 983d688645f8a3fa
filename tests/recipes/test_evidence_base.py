"""The evidence model that is shipped, converted back into a network."""

from pathlib import Path

import pytest
import torch

from recipes.evidence_base import convert_cross_encoder
from recipes.evidence_training import EvidenceNetwork, collate_pairs
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidencePassage,
    EvidenceTokenizer,
    load_evidence_model,
)


@pytest.mark.slow
def test_an_exported_model_is_converted_back_with_all_its_heads(tmp_path: Path) -> None:
    convert_cross_encoder(BUNDLED_MODEL, tmp_path)
    network = EvidenceNetwork.load_folder(tmp_path)
    claim, passage = "Rooks nest in trees.", EvidencePassage("Rooks nest in tall trees.", "Rooks")
    pair = EvidenceTokenizer(BUNDLED_MODEL).encode_pair(claim, passage)
    with torch.inference_mode():
        support = network(**collate_pairs([pair])).support_N3[0].softmax(-1).tolist()
    [judged] = load_evidence_model(BUNDLED_MODEL).judge_passages(claim, [passage])
    # Activations are quantised in the graph alone.
    found = [judged.supports, judged.refutes, judged.neither]
    assert support == pytest.approx(found, abs=0.1)
    assert judged.supports > 0.5
