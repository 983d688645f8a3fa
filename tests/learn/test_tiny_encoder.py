"""The tiny encoder stands for a real one: both readers take it; its seed is all it depends on."""

from pathlib import Path

import numpy as np
import torch

from rookery.cite import dense
from rookery.learn.encoder import read_encoder
from rookery.learn.tiny_encoder import write_tiny_encoder
from rookery.learn.warm import write_warm

TEXTS = ["What does the owl eat?", "The owl, at night, eats mice.", "Rain falls."]


def test_it_is_read_with_and_without_torch_alike(tmp_path: Path) -> None:
    write_tiny_encoder(tmp_path / "tiny", TEXTS)
    with torch.inference_mode():
        vectors = read_encoder(str(tmp_path / "tiny"))(TEXTS)
    cosines = (vectors[1:] @ vectors[0]).tolist()
    found = dense.load(folder=tmp_path / "tiny")
    assert found is not None
    assert np.allclose(found.similarities(TEXTS[0], TEXTS[1:]), cosines, atol=1e-3)
    assert abs(cosines[0] - cosines[1]) > 3e-3


def test_the_seed_makes_the_weights(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        write_tiny_encoder(tmp_path / name, TEXTS, seed=seed)
    one, same, other = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other")
    )
    assert one == same != other


def test_a_reward_model_can_begin_as_it(tmp_path: Path) -> None:
    write_tiny_encoder(tmp_path / "tiny", TEXTS)
    write_warm(tmp_path / "warm", str(tmp_path / "tiny"))
    assert (tmp_path / "warm" / "tokenizer.json").exists()
