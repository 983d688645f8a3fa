"""Memory and shapes of the paper configurations, against arithmetic by hand."""

import tomllib

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from recipes.memory import RECIPES, SIZES, format_table, list_stages, load_architectures
from recipes.memory_plan import TrainingMemory, build_fake_model, measure_training_memory
from rookery.learn.action_batches import LOGITS_AT_ONCE


def measure(recipe: str, number: int) -> TrainingMemory:
    return measure_training_memory(list_stages(recipe)[number].shape)


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
    held = found.process
    assert (held.weights, held.gradients) == (4 * parameters, 4 * parameters)
    assert (held.optimizer, held.copies, held.reference) == (8 * parameters, 0, 0)
    assert found.outputs == (("logprobs", (4 * 1023,)),)
    positions = 4 * 1024 * width * 4  # bytes of a state
    logits = LOGITS_AT_ONCE // 50257 * 50257 * 4
    # Logits of a third of the tokens, log-probabilities, and the gradient of these.
    assert held.logits == 3 * logits
    # In states, a layer keeps inputs and outputs of its norms (4), queries, keys and values (3),
    # what attention gives (1), the product of four widths, three steps of its activation and the
    # outcome (20), two masks of dropout (2), and the mask of attention (0.8). Beside the layers
    # there is the gradient of the head, added up over the parts of the tokens (0.3), and little.
    states = held.activations / (layers * positions)
    assert states == pytest.approx(31.2, abs=0.15)
    assert held.sum_parts("step") == 16 * parameters + held.activations + held.logits
    step = found.shard_weights(8).sum_parts("step")
    assert step - found.gathered == 2 * parameters + held.activations + 3 * logits


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
    held, rows = found.process, found.shape.rows
    assert held.optimizer == 4 * sums
    assert held.weights == 4 * (whole + head)
    assert held.reference == 4 * whole  # a copy of its own
    names = [name for name, _ in found.outputs]
    assert names == ["logprobs", "kl", "values"]
    assert {size for _, size in found.outputs} == {(rows * 256,)}


def test_gophercite_imitates_with_frozen_embeddings_and_no_frozen_layer() -> None:
    shape = list_stages("gophercite")[0].shape
    shape.model.num_hidden_layers = 2
    with FakeTensorMode():
        model = build_fake_model(shape.model, shape.trained, "language")
        frozen = [name for name, each in model.named_parameters() if not each.requires_grad]
    assert frozen == ["gpt_neox.embed_in.weight"]


@pytest.mark.slow
def test_the_table_has_a_line_for_each_training_and_one_for_its_shapes() -> None:
    stage = list_stages("webglm")[0]
    found = measure_training_memory(stage.shape)
    lines = list(format_table([(stage, found)], 4))
    assert len(lines) == 4
    assert lines[1].startswith("webglm retrieve")
    assert f"{found.parameters:,}" in lines[1]
    assert lines[3].endswith("of contriever → states 24 × 256 × 768")
