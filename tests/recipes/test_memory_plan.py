"""The planned memory of a training beside the bytes of tensors that live while it trains."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from weakref import finalize

import msgspec
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from transformers import AutoConfig, BloomConfig, LlamaConfig, LlamaForCausalLM

from recipes.memory_plan import (
    FLOAT_BYTES,
    ProcessMemory,
    build_fake_model,
    count_context_tokens,
    count_optimizer_values,
    measure_training_memory,
    shape_imitation,
    shape_reinforcement,
)
from recipes.text_environment import PromptEnvironment
from rookery.errors import Failed
from rookery.learn import action_batches
from rookery.learn.decoding import SamplingSettings
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.optimizer import OptimizerSettings, make_optimizer
from rookery.learn.policy_gradient import make_ppo_settings, make_rloo_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.library.libraries import get_bundled_folder

CONTEXT = 1024


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages of tensors that operations read or make, until they are freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self.kept: list[int] = []
        """after each step"""
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in tree_iter((args, kwargs, found)):
            if isinstance(each, Tensor):
                self._count(each.untyped_storage())
        self.most = max(self.most, self.now)
        return found

    def _count(self, storage: Any) -> None:
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self.now += storage.nbytes()
            finalize(storage, self._forget, storage._cdata, storage.nbytes())

    def _forget(self, number: int, size: int) -> None:
        self._seen.remove(number)
        self.now -= size

    def tell(self, *_: object) -> None:
        self.kept.append(self.now)


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """It computes in one type for the whole process."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of three million weights, in eight files, since a file is in memory whole."""
    folder = tmp_path_factory.mktemp("model")
    texts = [
        path.read_text("utf-8", "replace") for path in sorted(get_bundled_folder().glob("*.html"))
    ]
    write_tiny_model(folder, texts, 600, CONTEXT)
    small = json.loads((folder / "config.json").read_text())
    wide = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 5}
    (folder / "model.safetensors").unlink()
    LlamaForCausalLM(LlamaConfig(**small | wide)).save_pretrained(folder, max_shard_size="1MB")
    return folder


WIDE = 20_000


def write_wide(model: Path, folder: Path) -> Path:
    """A model of two narrow layers and many ids, most of which have no token."""
    shutil.copytree(model, folder)
    small = json.loads((folder / "config.json").read_text())
    narrow = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    sizes = small | narrow | {"vocab_size": WIDE, "tie_word_embeddings": True, "head_dim": 8}
    LlamaForCausalLM(LlamaConfig(**sizes)).save_pretrained(folder)
    return folder


def compare(measured: ProcessMemory, live: LiveBytes) -> None:
    static = measured.weights + measured.optimizer + measured.average + measured.reference
    assert live.kept[-1] == pytest.approx(static, rel=0.1)
    assert live.most == pytest.approx(measured.peak, rel=0.1)


TRAINED: dict[str, dict[str, Any]] = {
    "all": {},
    "frozen": {"frozen": 0.6},
    "recompute": {"recompute": True},
}


def test_a_step_of_few_rows_has_no_more_at_once(model: Path) -> None:
    settings = ImitationSettings(
        TrainedModelSettings(str(model)), ("episodes",), rows=4, piece=4096
    )
    config = AutoConfig.from_pretrained(model)
    shapes = [shape_imitation(settings, config, tokens, 8) for tokens in (64, 2048)]
    assert [shape.rows for shape in shapes] == [4, 2]


PROMPT, SAID = 160, 12


def world() -> PromptEnvironment:
    """Prompts of nearly the same length, so that there is padding, as there is in most batches."""
    chance = Random(0)
    prompts = [[chance.randrange(3, 300) for _ in range(PROMPT - n % 2)] for n in range(12)]

    def reward(_: Sequence[int], completions: Sequence[Sequence[int]]) -> list[float]:
        return [float(tokens[0]) for tokens in completions]

    return PromptEnvironment(prompts, reward, group=2)


@pytest.mark.slow
def test_logits_of_some_tokens_at_a_time(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a vocabulary that is most of the memory, an eighth of the tokens at once."""
    wide, at_once = write_wide(model, tmp_path / "wide"), SAID * 4 // 8
    monkeypatch.setattr(action_batches, "LOGITS_AT_ONCE", at_once * WIDE)
    settings = make_ppo_settings(
        policy=TrainedModelSettings(str(wide)),
        sampling=SamplingSettings(max_tokens=SAID, rows=2),
        steps=2,
        episodes=12,
        epochs=1,
        piece=4,
        kl="loss",
        advantage="rloo",
    )
    shape = shape_reinforcement(settings, AutoConfig.from_pretrained(wide), PROMPT + SAID)
    found = measure_training_memory(shape).process
    assert found.logits < 8 * at_once * WIDE * FLOAT_BYTES
    with LiveBytes() as live:
        train_by_reinforcement(settings, world(), tmp_path / "run", live.tell)
    compare(found, live)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("all", {}),
        ("all", {"minibatches": 2}),  # of six rows, in two micro-batches of three and not of four
        ("all", {"advantage": "rloo", "kl": "loss", "piece": 1, "rows": 12}),
        ("frozen", {}),
        ("recompute", {"value": "shared"}),
    ],
)
def test_reinforcement(how: str, more: dict[str, Any], model: Path, tmp_path: Path) -> None:
    rows = more.pop("rows", 2)
    usual = {"steps": 2, "episodes": 12, "epochs": 1, "minibatches": 1, "piece": 4}
    settings = make_ppo_settings(
        policy=TrainedModelSettings(str(model), **TRAINED[how]),
        sampling=SamplingSettings(max_tokens=SAID, rows=rows),
        **usual | more,
    )
    shape = shape_reinforcement(settings, AutoConfig.from_pretrained(model), PROMPT + SAID, 1)
    with LiveBytes() as live:
        train_by_reinforcement(settings, world(), tmp_path / "run", live.tell)
    compare(measure_training_memory(shape).process, live)


@pytest.mark.parametrize("method", ["adam", "adafactor"])
def test_an_optimizer_keeps_as_much_as_is_counted(method: str) -> None:
    model = nn.Sequential(nn.Linear(7, 5), nn.Embedding(11, 3), nn.LayerNorm(4))
    settings = msgspec.convert({"method": method}, OptimizerSettings)
    weights = list(model.parameters())
    optimizer = make_optimizer({1e-3: weights}, settings)
    for each in weights:
        each.grad = torch.ones_like(each)
    optimizer.step()
    kept = [
        value.numel()
        for state in optimizer.state.values()
        for name, value in state.items()
        if name != "step"
    ]
    assert sum(kept) == count_optimizer_values(weights, settings)


def test_a_fake_model_has_no_data_and_the_layers_that_learn() -> None:
    half = TrainedModelSettings("none", frozen=0.5)
    with FakeTensorMode():
        model = build_fake_model(small_config(num_hidden_layers=4), half, "row")
        assert all(isinstance(each, FakeTensor) for each in model.parameters())
        named = model.named_parameters()
        learning = {name for name, each in named if ".layers." in name and each.requires_grad}
    assert {name.split(".")[2] for name in learning} == {"2", "3"}


def small_config(**changed: Any) -> LlamaConfig:
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "max_position_embeddings": 64, "vocab_size": 100}
    return LlamaConfig(**sizes | heads | changed)


def test_shared_among_processes() -> None:
    settings = make_ppo_settings(policy=TrainedModelSettings("none"), steps=1, piece=2)
    found = measure_training_memory(shape_reinforcement(settings, small_config(), 32))
    alone, split = found.process, found.shard_weights(2)
    assert (split.weights, split.reference) == (alone.weights / 2, alone.reference / 2)
    assert split.optimizer == alone.optimizer / 2
    assert split.gathered > 0
    assert split.whole_copy == alone.reference  # the policy alone, and while it samples


def test_each_process_has_adafactor_s_sums_of_columns() -> None:
    """Rows and vectors are split over two; columns are not. A layer of the small model has four
    matrices of 32 x 32, two of 64 x 32, one of 32 x 64, and two vectors of 32."""
    adafactor = OptimizerSettings(method="adafactor")
    policy = TrainedModelSettings("none")
    settings = make_rloo_settings(policy=policy, steps=1, episodes=2, piece=1, optimising=adafactor)
    found = measure_training_memory(shape_reinforcement(settings, small_config(), 32))
    rows, columns = 4 * 32 + 2 * 64 + 32, 4 * 32 + 2 * 32 + 64
    rows, columns = 2 * rows + 2 * 100, 2 * columns + 2 * 32  # embedding and head
    vectors = 2 * 2 * 32 + 32
    assert found.process.optimizer == 4 * (rows + columns + vectors)
    assert found.shard_weights(2).optimizer == 4 * (columns + (rows + vectors) / 2)


def test_without_a_context_the_tokens_must_be_named() -> None:
    assert count_context_tokens(small_config()) == 64
    with pytest.raises(Failed, match="pass tokens"):
        count_context_tokens(BloomConfig())
