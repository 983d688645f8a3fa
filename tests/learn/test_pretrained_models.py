"""Folders that hold no model, or a broken one: each is told in a sentence."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small import TEXTS
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel, PreTrainedModel

from rookery.errors import Failed
from rookery.learn.action_batches import ActionRow, predict_actions
from rookery.learn.local_model import LocalModel
from rookery.learn.model_import import copy_saved_model
from rookery.learn.pretrained_models import (
    ModelHead,
    TrainedModelSettings,
    choose_precision,
    load_model,
    load_policy_tokenizer,
    load_trainable_model,
    locate_model,
    replace_folder,
)
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reward_model import compute_reward_outputs
from rookery.models.installed_models import install_model
from rookery.records import Failure
from rookery.settings import LocalModelSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_model(tmp_path / "model", TEXTS, vocabulary=300)
    return tmp_path / "model"


def failure(work: Callable[[], object]) -> Failure:
    with pytest.raises(Failed) as caught:
        work()
    assert caught.value.failure.detail
    return caught.value.failure


def get_word_gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    (gradients,) = torch.autograd.grad(loss, [model.get_input_embeddings().weight])
    return gradients


@pytest.mark.parametrize("head", ["language", "row"])
def test_a_token_that_pads_and_ends_learns_and_padding_does_not(
    folder: Path, head: ModelHead
) -> None:
    config = json.loads((folder / "config.json").read_text())
    end = config["pad_token_id"] = config["eos_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    model: Any = load_trainable_model(TrainedModelSettings(str(folder)), head)
    model.get_input_embeddings().weight.data[end] += 0.5  # a loader may have set it to 0

    def compute_loss(rows: list[list[int]]) -> torch.Tensor:
        if head == "language":
            actions = [ActionRow(row[:-2], row[-2:]) for row in rows]
            return -predict_actions(model, actions, end)[0].sum()
        encoded = [np.asarray(row) for row in rows]
        return compute_reward_outputs(model, encoded, end, torch.device("cpu")).sum()

    ended, other, short = [5, 6, end, 7, 8, 9, end], [5, 6, 7, 8, 9, 10, 11], [5, 6, 7]
    assert get_word_gradients(model, compute_loss([ended]))[end].abs().max() > 1e-4
    padded = get_word_gradients(model, compute_loss([other, short]))
    assert not padded[end].any()
    alone = sum(get_word_gradients(model, compute_loss([row])) for row in (other, short))
    torch.testing.assert_close(padded, alone)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_a_folder_lacks_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    found = failure(lambda: load_model(folder))
    assert (found.what, found.outcome) == (str(folder), "no_model")
    assert name.removeprefix("model") in found.detail


def test_a_folder_that_is_none_is_not_looked_for_elsewhere(tmp_path: Path) -> None:
    assert failure(lambda: load_model(tmp_path / "gpt2")).outcome == "no_model"
    (tmp_path / "file").write_text("x")
    assert failure(lambda: load_model(tmp_path / "file")).outcome == "no_model"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def blacken(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def forget(path: Path) -> None:
    weights = load_file(path)
    del weights["lm_head.weight"]
    save_file(weights, path, {"format": "pt"})


def shrink(path: Path) -> None:
    weights = load_file(path)
    weights["lm_head.weight"] = weights["lm_head.weight"][:7].clone()
    save_file(weights, path, {"format": "pt"})


def misname(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "crow"}))


def without_end(path: Path) -> None:
    fields = json.loads(path.read_text())
    del fields["eos_token"]
    path.write_text(json.dumps(fields))
    for name in ("generation_config.json", "config.json"):
        settings = json.loads((path.parent / name).read_text())
        del settings["eos_token_id"]
        (path.parent / name).write_text(json.dumps(settings | {"eos_token_id": None}))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("model.safetensors", cut),
        ("model.safetensors", blacken),
        ("model.safetensors", forget),
        ("model.safetensors", shrink),
        ("config.json", cut),
        ("config.json", misname),
        ("config.json", blacken),
        ("tokenizer.json", cut),
        ("tokenizer_config.json", cut),
        ("tokenizer_config.json", without_end),
    ],
)
def test_a_broken_file_is_a_bad_model(
    folder: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    spoil(folder / name)
    found = failure(lambda: load_model(folder))
    assert (found.what, found.outcome) == (str(folder), "bad_model")


def test_a_model_that_keeps_no_keys_is_refused(folder: Path) -> None:
    config = OpenAIGPTConfig(vocab_size=300, n_embd=16, n_layer=1, n_head=2)
    OpenAIGPTLMHeadModel(config).save_pretrained(folder)
    assert "keeps no keys" in failure(lambda: load_model(folder)).detail


def test_weights_that_are_no_numbers_are_noticed_when_it_speaks(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][3] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = LocalModel(folder)
    assert failure(lambda: model.complete("Crows?")).outcome == "bad_model"
    assert failure(lambda: model.complete("Crows?", allow=lambda _: [5, 6])).outcome == "bad_model"


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    for device in ("cuda:77", "crow"):
        found = failure(partial(LocalModel, folder, LocalModelSettings(device=device)))
        assert (found.what, found.outcome) == (device, "no_device")


def test_a_chat_needs_a_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    assert LocalModel(folder).prompt_tokens("Crows?")[0] == 0
    found = failure(lambda: LocalModel(folder, LocalModelSettings(chat=True)))
    assert "no chat template" in found.detail


def test_weights_are_used_in_the_type_that_was_asked_for(folder: Path) -> None:
    assert load_model(folder).model.dtype == torch.float32
    assert load_model(folder, dtype="bfloat16").model.dtype == torch.bfloat16
    rounded = LocalModel(folder, LocalModelSettings(dtype="bfloat16", max_tokens=1))
    exact = LocalModel(folder, LocalModelSettings(dtype="float32", max_tokens=1))
    [said], [expected] = rounded.complete("Crows?", seed=0), exact.complete("Crows?", seed=0)
    assert said.tokens == expected.tokens
    assert said.logprobs == pytest.approx(expected.logprobs, abs=0.05)
    assert said.logprobs != expected.logprobs


@pytest.mark.parametrize(
    ("able", "expected"),
    [
        ({"amx_bf16": True, "avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": False, "avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"amx_bf16": False, "avx512_bf16": False, "avx512_f": True}, "float32"),
        ({"avx2": True}, "float32"),
        ({}, "float32"),
    ],
)
def test_the_fastest_precision_depends_on_the_processor(
    monkeypatch: pytest.MonkeyPatch, able: dict[str, bool], expected: str
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: able)
    assert choose_precision("cpu") == expected
    assert choose_precision("meta") == ""


def test_a_model_is_named_by_its_folder_or_by_the_name_it_was_added_under(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    made = install_model("small", home / "rookery", lambda to: copy_saved_model(folder, to))
    added = home / "rookery" / "models" / "small"
    assert made.name == "small"
    assert locate_model(Path("small")) == added
    assert locate_model(folder) == folder
    assert load_policy_tokenizer(Path("small"), 4).vocabulary.tokens
    assert load_trainable_model(TrainedModelSettings("small")).name_or_path == str(added)
    shutil.copytree(folder, tmp_path / "small")
    assert locate_model(Path("small")) == Path("small")  # a folder goes before a name
    for unknown in ("large", "models/small"):
        with pytest.raises(Failed, match=r"no_model: .*rookery models (list|add)"):
            locate_model(Path(unknown))


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_torch_the_room_says_what_to_install(missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from rookery.errors import Failed
try:
    import rookery.learn.local_model
except Failed as failed:
    print(failed.failure.outcome, failed.failure.detail)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"no_torch {missing}")
    assert "pip install torch 'rookery[write]'" in done.stdout


def test_threads_that_load_at_once_leave_the_library_as_it_was(folder: Path) -> None:
    """transformers takes `tie_weights` away while it loads, and gives back what it found then."""
    before = PreTrainedModel.tie_weights
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(load_model, [folder] * 24))
    assert PreTrainedModel.tie_weights is before


def test_a_folder_is_replaced_and_a_kill_loses_neither(tmp_path: Path) -> None:
    folder, new = tmp_path / "model", tmp_path / ".model.new"
    for text in ("first", "second"):
        new.mkdir()
        (new / "weights").write_text(text)
        replace_folder(folder, new)
        assert (folder / "weights").read_text() == text
        assert [each.name for each in tmp_path.iterdir()] == ["model"]
    with pytest.raises(FileNotFoundError):  # as if it were killed between the two renames
        replace_folder(folder, new)
    assert (tmp_path / ".model.old" / "weights").read_text() == "second"
