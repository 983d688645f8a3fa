"""An adapter's files hold what LoRA changed, and merging them gives the model that learnt."""

import json
import warnings
from pathlib import Path

import msgspec
import pytest
import torch

from rookery.errors import Failed
from rookery.learn.pretrained_models import (
    ADAPTER_CONFIG_FILE,
    LoraSettings,
    TrainedModelSettings,
    load_model,
    load_trainable_model,
    save_adapter,
)
from rookery.learn.random_models import write_tiny_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_tiny_model(folder, ["the owl eats mice"], vocabulary=300)
    return folder


def make_learnt_model(base: Path, seed: int = 0) -> torch.nn.Module:
    """Return the model with LoRA whose matrices are drawn by lot, as if it had learnt."""
    lora = LoraSettings(rank=3, alpha=6, targets=("q_proj", "down_proj"))
    learnt = load_trainable_model(TrainedModelSettings(str(base), frozen=0.5, lora=lora))
    torch.manual_seed(seed)
    for weight in learnt.parameters():
        if weight.requires_grad:
            weight.data.normal_(std=0.1)
    return learnt


def test_its_files_say_what_it_belongs_to_and_nothing_of_this_machine(
    base: Path, tmp_path: Path
) -> None:
    save_adapter(make_learnt_model(base), tmp_path, "tiny")
    said = json.loads((tmp_path / ADAPTER_CONFIG_FILE).read_bytes())
    assert (said["base_model_name_or_path"], said["r"], said["lora_alpha"]) == ("tiny", 3, 6)
    assert str(base) not in (tmp_path / ADAPTER_CONFIG_FILE).read_text()


def test_peft_reads_the_files(base: Path, tmp_path: Path) -> None:

    from peft import PeftModel

    learnt = make_learnt_model(base)
    save_adapter(learnt, tmp_path, "tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        read = PeftModel.from_pretrained(load_model(base, "cpu").model, tmp_path)
    tokens = torch.arange(20)[None]
    with torch.inference_mode():
        wanted, found = (model(input_ids=tokens).logits for model in (learnt, read))
    torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "trained",
    [
        TrainedModelSettings("", frozen=1.0, lora=LoraSettings()),
        TrainedModelSettings("", lora=LoraSettings(targets=("query",))),
    ],
)
def test_lora_that_finds_nothing_to_change_is_refused(
    base: Path, trained: TrainedModelSettings
) -> None:
    with pytest.raises(Failed, match="name others, or freeze fewer layers"):
        load_trainable_model(msgspec.structs.replace(trained, model=str(base)))
