"""Memory and shapes of the paper configurations, against arithmetic by hand."""

import tomllib

import msgspec
import pytest
import torch
from torch import nn

from recipes.memory import (
    RECIPES,
    SIZES,
    StageMemory,
    build_meta_model,
    count_optimizer_values,
    count_saved_bytes,
    format_table,
    list_stages,
    load_architectures,
    measure_stage,
)
from rookery.learn.optimizer import OptimizerSettings, make_optimizer
from rookery.learn.pretrained_models import TrainedModelSettings


def measure(recipe: str, number: int) -> StageMemory:
    return measure_stage(list_stages(recipe)[number])


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_model_of_a_paper_configuration_has_a_shape(recipe: str) -> None:
    named = [stage.model for stage in list_stages(recipe)]
    assert set(named) <= load_architectures().keys()
    text = (SIZES / f"{recipe}.paper.toml").read_text("utf-8")
    trainings = str(tomllib.loads(text)).count("'optimising'")
    assert len(named) >= trainings


@pytest.mark.slow
def test_gpt2_large_is_as_a_hand_computes() -> None:
    """Ziegler's supervised baseline: in float32, with Adam, and all that is learnt."""
    found = measure("ziegler", 0)
    width, layers = 1280, 36
    words, places = 50257 * width, 1024 * width
    attention = 3 * width * width + 3 * width + width * width + width
    block = 8 * width * width + 5 * width
    parameters = words + places + layers * (attention + block + 4 * width) + 2 * width
    assert parameters == 774_030_080
    assert (found.parameters, found.learning) == (parameters, parameters)
    assert (found.weights, found.gradients) == (4 * parameters, 4 * parameters)
    assert (found.optimizer, found.copies, found.reference) == (8 * parameters, 0, 0)
    assert found.outputs == (("logits", (4, 1023, 50257)),)
    positions = 4 * 1024 * width * 4  # bytes of a state
    logits = 4 * 1023 * 50257 * 4
    # In states, a layer keeps inputs and outputs of its norms (4), queries, keys and values (3),
    # what attention gives (1), the product of four widths, three steps of its activation and the
    # outcome (20), and two masks of dropout (2). Beside the layers: the logits, and little.
    states = (found.activations - logits) / (layers * positions)
    assert states == pytest.approx(30, abs=0.15)
    assert found.whole == 16 * parameters + found.activations
    assert found.split(8) == 2 * parameters + 4 * parameters + found.activations


@pytest.mark.slow
def test_gophercite_s_policy_learns_two_layers_in_five_with_adafactor() -> None:
    found = measure("gophercite", 2)
    width, hidden = 16384, 2048
    head = (width + 1) * hidden + (hidden + 1) * hidden + hidden + 1
    layer = 12 * width * width + 13 * width
    whole = 32000 * width + 80 * layer + 2 * width
    learning = 32 * layer + 2 * width + head
    assert (found.parameters, found.learning) == (whole, learning)
    # Rows and columns of four matrices, and vectors as they are; then the head's three.
    sums = 32 * ((4 + 2 + 5 + 5) * width + 13 * width) + 2 * width
    sums += width + hidden + 2 * hidden + hidden + 1 + 2 * hidden + 1
    assert found.optimizer == 4 * sums
    assert found.copies == 2 * learning
    assert found.weights == 4 * (whole + head)
    assert found.reference == 4 * (32 * layer + 2 * width)  # above what the two have in common
    rows = found.stage.rows
    assert found.outputs == (("logits", (rows, 256, 32000)), ("values", (rows, 256)))


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


def test_what_a_pass_keeps_is_counted_once_and_without_the_weights() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        inputs = torch.zeros(5, 4)
    assert count_saved_bytes([model], lambda: (model(inputs).sum(),)) == 5 * 4 * 4 + 5 * 8 * 4


def test_a_meta_model_has_no_weights_and_the_layers_that_learn() -> None:
    half = TrainedModelSettings("contriever", frozen=0.5)
    model = build_meta_model("contriever", half, "row", layers=4)
    assert all(each.is_meta for each in model.parameters())
    learning = {name.split(".")[3] for name, each in model.named_parameters() if
                ".layer." in name and each.requires_grad}  # fmt: skip
    assert learning == {"2", "3"}


def test_gophercite_imitates_with_frozen_embeddings_and_no_frozen_layer() -> None:
    stage = list_stages("gophercite")[0]
    model = build_meta_model(stage.model, stage.trained, "language", layers=2)
    frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
    assert frozen == ["gpt_neox.embed_in.weight"]


@pytest.mark.slow
def test_the_table_has_a_line_for_each_training_and_one_for_its_shapes() -> None:
    stage = list_stages("webglm")[0]
    found = measure_stage(stage)
    lines = list(format_table([found], 4))
    assert len(lines) == 4
    assert lines[1].startswith("webglm retrieve")
    assert f"{found.parameters:,}" in lines[1]
    assert lines[3].endswith("of contriever → states 24 × 256 × 768")
