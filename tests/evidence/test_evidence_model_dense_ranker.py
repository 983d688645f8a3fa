"""The dense ranker's folder and texts, without weights; learn's tests run it with weights."""

import subprocess
import sys
from pathlib import Path

import pytest

from rookery.errors import Failed
from rookery.evidence.evidence_model import cut_encoder_text, is_dense_ranker, load_dense_ranker


def test_a_folder_without_an_encoder_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()  # what earlier versions wrote
    for folder in (tmp_path, tmp_path / "none"):
        assert not is_dense_ranker(folder)
        with pytest.raises(Failed, match="rookery learn retrieve") as caught:
            load_dense_ranker(folder)
        assert caught.value.failure.outcome == "no_encoder"
        assert caught.value.failure.what == str(folder)


@pytest.mark.parametrize("tokenizer", ["", "{}"])
def test_a_broken_encoder_says_what_to_do(tmp_path: Path, tokenizer: str) -> None:
    (tmp_path / "encoder.onnx").write_bytes(b"no graph")
    if tokenizer:
        (tmp_path / "tokenizer.json").write_text(tokenizer)
    with pytest.raises(Failed, match="train it again") as caught:
        load_dense_ranker(tmp_path)
    assert caught.value.failure.outcome == "bad_model"


def test_texts_are_cut_and_have_no_lone_surrogates() -> None:
    assert cut_encoder_text("crow \ud800") == "crow ?"
    assert len(cut_encoder_text("jay " * 10_000_000)) < 20_000


def test_importing_loads_no_runtime() -> None:
    script = (
        "import sys; from rookery.evidence import evidence_model\n"
        "assert not {'numpy', 'tokenizers', 'onnxruntime', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
