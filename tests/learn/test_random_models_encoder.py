"""The tiny encoder stands for a real one: the exported graph gives torch's vectors, whatever is
encoded beside a text; its seed is all it depends on."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from recipes.random_models import write_tiny_encoder
from recipes.rewards import write_pretrained_encoder
from rookery.evidence.evidence_model import DenseRanker, load_dense_ranker
from rookery.learn.retrieval_training import export_sentence_encoder, load_sentence_encoder

TEXTS = ["What does the owl eat?", "The owl, at night, eats mice.", "Rain falls.", "", "owl 渡鸦"]
QUERY = TEXTS[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    write_tiny_encoder(folder, TEXTS)
    export_sentence_encoder(folder)
    return folder


@pytest.fixture
def ranker(folder: Path) -> DenseRanker:
    return load_dense_ranker(folder)


def test_the_exported_encoder_gives_the_vectors_of_torch(folder: Path, ranker: DenseRanker) -> None:
    texts = [*TEXTS, "mice owl " * 500]  # longer than its 128 places
    with torch.inference_mode():
        vectors_NW = load_sentence_encoder(str(folder))(texts)
    for text, vector_W in zip(texts, vectors_NW, strict=True):
        found_W = ranker._encode_text(text).tolist()
        assert found_W == pytest.approx(vector_W.tolist(), rel=1e-4, abs=1e-6)
    cosines = (vectors_NW @ vectors_NW[0]).tolist()
    found = ranker.compute_similarities(QUERY, texts)
    assert found == pytest.approx(cosines, abs=1e-5)
    assert found[0] == pytest.approx(1, abs=1e-6)
    assert max(found) - min(found) > 0.1


def test_a_vector_is_the_same_alone_and_in_a_batch(folder: Path, ranker: DenseRanker) -> None:
    expected = ranker.compute_similarities(QUERY, TEXTS)
    alone = [load_dense_ranker(folder).compute_similarities(QUERY, [text])[0] for text in TEXTS]
    assert alone == expected
    assert load_dense_ranker(folder).compute_similarities(QUERY, TEXTS[::-1]) == expected[::-1]
    assert ranker.compute_similarities(QUERY, TEXTS * 3) == expected * 3


def test_threads_may_share_a_ranker(folder: Path, ranker: DenseRanker) -> None:
    expected = load_dense_ranker(folder).compute_similarities(QUERY, TEXTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ranker.compute_similarities(QUERY, TEXTS), range(24)))
    assert found == [expected] * 24


def test_no_text_is_refused(ranker: DenseRanker) -> None:
    assert ranker.compute_similarities(QUERY, []) == []
    odd = ["\ud800", "\x00", "\u202e\u0301", "[SEP] [PAD]", "😀" * 999, "𝔠row\ufeff", " \n\t"]
    for query in ("", "\udfff", "owl " * 5000):
        assert all(-1 <= value <= 1 for value in ranker.compute_similarities(query, odd))


def test_the_seed_makes_the_weights(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        write_tiny_encoder(tmp_path / name, TEXTS, seed=seed)
    one, same, other = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other")
    )
    assert one == same != other


def test_a_reward_model_can_begin_as_it(tmp_path: Path) -> None:
    write_tiny_encoder(tmp_path / "tiny", TEXTS)
    write_pretrained_encoder(tmp_path / "warm", str(tmp_path / "tiny"))
    assert (tmp_path / "warm" / "tokenizer.json").exists()
