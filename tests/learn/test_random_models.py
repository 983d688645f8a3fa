"""The tiny model: the same under a seed, and a model like any other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import TEXTS
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rookery.learn.random_models import write_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny")
    write_tiny_model(made, TEXTS, vocabulary=400)
    return made


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return found


def test_a_seed_gives_the_same_files_and_another_seed_other_weights(
    folder: Path, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    write_tiny_model(tmp_path / "same", TEXTS, vocabulary=400)
    write_tiny_model(tmp_path / "other", TEXTS, vocabulary=400, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)

    def files(where: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in where.iterdir()}

    assert files(tmp_path / "same") == files(folder)
    other, ours = files(tmp_path / "other"), files(folder)
    assert [name for name in ours if other[name] != ours[name]] == ["model.safetensors"]


@given(st.text())
def test_any_text_comes_back_from_its_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert tokenizer.decode(ids) == text


def test_it_is_loaded_and_asked_as_transformers_does(
    folder: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    assert (len(tokenizer), model.config.vocab_size) == (400, 400)
    assert (model.config.max_position_embeddings, tokenizer.model_max_length) == (8192, 8192)
    said = [{"role": "user", "content": "Are crows clever?"}]
    prompt: Any = tokenizer.apply_chat_template(
        said, add_generation_prompt=True, return_tensors="pt"
    )
    assert tokenizer.decode(prompt["input_ids"][0]) == (
        "<|begin|>user:\nAre crows clever?<|end|>\nassistant:\n"
    )
    torch.manual_seed(0)
    first = model.generate(**prompt, max_new_tokens=20)
    assert model.generation_config.do_sample
    assert not torch.equal(first, model.generate(**prompt, max_new_tokens=20))
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_a_vocabulary_without_room_for_all_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 259"):
        write_tiny_model(tmp_path, TEXTS, vocabulary=258)
    write_tiny_model(tmp_path, [], vocabulary=259)
    assert AutoTokenizer.from_pretrained(tmp_path).decode([3]) != ""
