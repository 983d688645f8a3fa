"""Memory of a training, computed from its settings and the shapes of its models, without weights.

The models are built of fake tensors, which have shapes and no data (`torch._subclasses`). One
micro-batch goes through the functions that train, forwards and backwards, and what they allocate is
counted as it comes and goes. Kernels are those of torch on a CPU; those of a GPU keep as much for
the backward pass.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple
from weakref import finalize

import msgspec
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rookery.errors import Failed
from rookery.learn.action_batches import ActionBatch
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import (
    ActorCritic,
    ReinforcementSettings,
    TokenOutput,
    build_value_head,
)
from rookery.learn.pretrained_models import (
    HEAD_CLASSES,
    ModelHead,
    TrainedModelSettings,
    convert_load_errors,
    count_state_width,
    get_layers,
    prepare_trainable_model,
    silence_transformers,
)
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.records import Failure

FLOAT_BYTES = 4
"""bytes of a weight as it is kept, of its gradient, and of a value of the optimizer"""


class TrainingShape(NamedTuple):
    """The models of a training, how they learn, and the size of its largest micro-batch."""

    model: Any
    """transformers' configuration of the model that is trained"""
    trained: TrainedModelSettings
    optimising: OptimizerSettings
    rows: int
    """of a micro-batch"""
    tokens: int
    """of each row, at most"""
    fewest_rows: int = 1
    """that a micro-batch may have: the answers of a comparison go through the model together"""
    targets: int = 0
    """tokens of a row that are predicted; 0: a head gives numbers for each row"""
    outputs: int = 1
    """numbers that this head gives; 0: there is no head, and the hidden states are what is used"""
    sampled_rows: int = 0
    """rows that are sampled at once between steps; 0: nothing is sampled here"""
    sampled_tokens: int = 0
    """of each of them, at most, behind its prompt"""
    reinforce: ReinforcementSettings | None = None
    """of reinforcement learning; None: there is neither a reference nor a value network"""


class ProcessMemory(msgspec.Struct, frozen=True):
    """Bytes that one process of a training holds, by what they are for."""

    weights: int
    """of policy or model, and value network, in float32: all, or this process's part"""
    whole_copy: int
    """of the policy or model, in the type that is computed in, where weights are split: it is
    gathered while it samples or is validated"""
    gradients: int
    optimizer: int
    """its state"""
    average: int
    """of the weights that learn"""
    reference: int
    gathered: int
    """layers that are whole while they are computed, where weights are split"""
    copies: int
    """of weights in bfloat16, at the moment of a step when most is in use; and so for these two:"""
    activations: int
    """kept for the backward pass of a micro-batch, and passing values"""
    logits: int
    """and log-probabilities: one value for each token of the vocabulary, and their gradients"""
    cache: int
    """keys and values of the rows that are sampled at once"""
    sampling: int
    """passing values while they are"""

    def sum_parts(self, phase: "Phase") -> int:
        """Return the bytes that are held at once in a step of the optimizer, or in sampling."""
        parts = msgspec.structs.asdict(self).items()
        return sum(size for name, size in parts if name not in ABSENT_PARTS[phase])

    @property
    def peak(self) -> int:
        """Bytes that are held in the phase in which most is held."""
        return max(map(self.sum_parts, PHASES))


Phase = Literal["step", "sampling"]
PHASES: tuple[Phase, ...] = ("step", "sampling")
ABSENT_PARTS: Mapping[Phase, frozenset[str]] = {
    "step": frozenset({"cache", "sampling", "whole_copy"}),
    "sampling": frozenset({"gradients", "gathered", "copies", "activations", "logits"}),
}


class TrainingMemory(NamedTuple):
    """Memory of a training in one process, and what there is to know to share it among several."""

    shape: TrainingShape
    parameters: int
    """of the model that is trained"""
    learning: int
    """of these and the value network, those that learn"""
    process: ProcessMemory
    """of a process that is alone"""
    gathered: int
    """bytes of the weights and gradients that FSDP has whole at once"""
    whole_copy: int
    """bytes of the copy that FSDP gathers to sample or to validate; 0: neither is done here"""
    whole_optimizer: int
    """bytes of the optimizer's state that FSDP leaves whole in each process"""
    sampling_copies: int
    """bytes of weights in bfloat16 among what passes while it samples"""
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    """names and shapes of what the forward pass of a micro-batch gives"""

    def shard_weights(self, processes: int) -> ProcessMemory:
        """Return the memory of each of several processes under FSDP.

        It splits weights, the reference's too, gradients, the optimizer's state and the average,
        and gathers the layers that are computed.
        """
        alone = self.process
        optimizer = (alone.optimizer - self.whole_optimizer) / processes + self.whole_optimizer
        return msgspec.structs.replace(
            alone,
            weights=math.ceil(alone.weights / processes),
            reference=math.ceil(alone.reference / processes),
            gradients=math.ceil(alone.gradients / processes),
            optimizer=math.ceil(optimizer),
            average=math.ceil(alone.average / processes),
            whole_copy=self.whole_copy,
            gathered=self.gathered,
            copies=0,
            # The whole copy is in bfloat16 itself.
            sampling=alone.sampling - self.sampling_copies,
        )


def count_context_tokens(config: Any) -> int:
    """Return how many tokens a model reads at most. Raises Failed (bad_model) if it does not
    say."""
    most = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(most, int):
        detail = "its config.json does not say how many tokens it reads: pass tokens"
        raise Failed(Failure(config.model_type, "bad_model", detail))
    return most


def shape_imitation(
    settings: ImitationSettings, model: Any, tokens: int = 0, targets: int = 0
) -> TrainingShape:
    """Return the shape of imitation learning of a model with this configuration.

    `tokens` is the length of the longest prompt with its target, `targets` that of the longest
    target; 0: as many as there may be.
    """
    longest = tokens or count_context_tokens(model)
    played = settings.best == "reward"
    limit = settings.sampling.token_limit if played else settings.tokens
    rows = min(settings.sampling.rows, settings.validation_episodes) if played else settings.asked
    return TrainingShape(
        model,
        settings.trained,
        settings.optimising,
        max(min(settings.piece // longest, settings.rows), 1),
        longest,
        targets=min(targets or longest, longest - 1),
        sampled_rows=rows if settings.validation else 0,
        sampled_tokens=min(limit, longest - 1),
    )


def shape_preference(
    settings: RewardTrainingSettings, model: Any, tokens: int = 0, answers: int = 2
) -> TrainingShape:
    """Return the shape of training a reward model, from comparisons of so many answers each.

    `tokens` is the length of the longest question with an answer; 0: as many as the settings allow.
    """
    longest = tokens or settings.context or count_context_tokens(model)
    return TrainingShape(
        model,
        settings.trained,
        settings.optimising,
        min(settings.piece, settings.batch) * answers,
        longest,
        answers,
        outputs=2 if settings.ratings else 1,
    )


def shape_reinforcement(
    settings: ReinforcementSettings, model: Any, tokens: int = 0, steps: int = 0
) -> TrainingShape:
    """Return the shape of reinforcement learning of a policy with this configuration.

    `tokens` is the length of the longest context with its action; 0: as many as the policy reads.
    `steps` is the number of rows that an episode has; 0: any, so that micro-batches are full.
    """
    longest = tokens or count_context_tokens(model)
    minibatch = math.ceil(settings.episodes * steps / settings.minibatches) or settings.piece
    # Micro-batches of a minibatch are of equal size, so that the last is not nearly empty.
    rows = math.ceil(minibatch / math.ceil(minibatch / settings.piece))
    limit = min(settings.sampling.token_limit, longest - 1)
    return TrainingShape(
        model,
        settings.policy,
        settings.optimising,
        rows,
        longest,
        targets=min(limit, settings.chunk or limit),
        sampled_rows=0 if settings.servers else min(settings.sampling.rows, settings.episodes),
        sampled_tokens=limit,
        reinforce=settings,
    )


def measure_training_memory(shape: TrainingShape) -> TrainingMemory:
    """Compute what one process holds of a training, and the shapes of a forward pass.

    Takes a second for each few dozen layers. Raises Failed: bad_model where there is no
    architecture of this kind with such a head, no_peft, no_targets, no_dropout.
    """
    with FakeTensorMode():
        networks: Any = _build_networks(shape)
        gathered = _measure_gathered_layers(networks, shape.trained.dtype)
        weights = _list_own_weights(networks)
        learning = [each for each in weights if each.requires_grad]
        learnt = FLOAT_BYTES * _count_values(learning)
        own_bytes, reference = _sum_own_and_reference_bytes(networks)
        step, outputs = _simulate_step(shape, networks)
        caching, sampling, cast = (
            _simulate_sampling(shape, networks) if shape.sampled_rows else (0, 0, 0)
        )
        alone = ProcessMemory(
            weights=own_bytes,
            whole_copy=0,
            gradients=learnt,
            optimizer=FLOAT_BYTES * count_optimizer_values(learning, shape.optimising),
            average=learnt if shape.optimising.average else 0,
            reference=reference,
            gathered=0,
            copies=step["copies"],
            activations=step["activations"],
            logits=step["logits"],
            cache=caching,
            sampling=sampling,
        )
        policy = networks.policy if isinstance(networks, ActorCritic) else networks
        return TrainingMemory(
            shape,
            _count_values(policy.parameters()),
            _count_values(learning),
            alone,
            gathered,
            _measure_whole_copy(shape, policy),
            FLOAT_BYTES * count_whole_optimizer_values(learning, shape.optimising),
            cast if _samples_in_bfloat16(shape) else 0,
            outputs,
        )


def _list_own_weights(networks: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the networks, without those that the reference has alone."""
    named = networks.named_parameters()  # what networks share comes under its first name
    return [weight for name, weight in named if not name.startswith("reference.")]


def _sum_own_and_reference_bytes(networks: nn.Module) -> tuple[int, int]:
    """Return the bytes of the weights of the networks, and of those that the reference has
    alone."""
    own = _sum_storage_bytes(_list_own_weights(networks))
    return own, _sum_storage_bytes(networks.parameters()) - own


def _measure_whole_copy(shape: TrainingShape, model: nn.Module) -> int:
    """Return the bytes of the copy that FSDP gathers; with a server that samples, none is here."""
    if shape.reinforce is not None and not shape.sampled_rows:
        return 0
    width = 2 if _samples_in_bfloat16(shape) else FLOAT_BYTES
    return _count_values(model.parameters()) * width


def _samples_in_bfloat16(shape: TrainingShape) -> bool:
    """Return whether the whole copy that FSDP gathers is in bfloat16."""
    return shape.reinforce is not None and shape.trained.dtype == "bfloat16"


def count_optimizer_values(weights: Sequence[Tensor], settings: OptimizerSettings) -> int:
    """Return how many numbers an optimizer keeps of these weights.

    Adam keeps two of each weight; Adafactor a sum of each row and column of a matrix, and one of
    each weight of a vector.
    """
    if settings.method == "adam":
        return 2 * _count_values(weights)
    return sum(
        each.numel() // each.shape[-1] + each.numel() // each.shape[-2]
        if each.dim() > 1
        else each.numel()
        for each in weights
    )


def count_whole_optimizer_values(weights: Sequence[Tensor], settings: OptimizerSettings) -> int:
    """Return how many of these numbers each process has whole where weights are split by rows:
    Adafactor's sums of the columns of matrices."""
    if settings.method == "adam":
        return 0
    return sum(each.shape[-1] for each in weights if each.dim() == 2)


def _build_networks(shape: TrainingShape) -> Any:
    """Build the networks of a training of fake tensors, or its model in their place."""
    trained, how = shape.trained, shape.reinforce
    head: ModelHead = "language" if shape.targets else "row"
    model: Any = build_fake_model(shape.model, trained, head, shape.outputs)
    if how is None:
        model.train(trained.recompute or bool(trained.dropout))
        return ActorCritic(model) if shape.targets else model
    critic: Any = None
    reference: Any = None
    if how.advantage == "gae" and how.value == "separate":
        critic = build_fake_model(shape.model, trained, "token")
    elif how.advantage == "gae":
        critic = build_value_head(count_state_width(model), how.value_width)
    if not trained.lora:
        plain = TrainedModelSettings("", dtype=trained.dtype)
        reference = build_fake_model(shape.model, plain, "language")
        reference.requires_grad_(False)
    shared = how.value == "shared" and how.advantage == "gae"
    actor = ActorCritic(model, critic, shared, reference)
    actor.train(trained.recompute)
    if reference is not None:
        reference.eval()
    return actor


def build_fake_model(
    config: Any, trained: TrainedModelSettings, head: ModelHead, outputs: int = 1
) -> PreTrainedModel:
    """Build a model of fake tensors, prepared for training as a loaded one is.

    Must be called in a FakeTensorMode. Raises Failed as `prepare_trainable_model` does, and
    bad_model where transformers have no such model.
    """
    config = type(config)(**config.to_dict())
    if head != "language":
        config.num_labels, config.get_text_config().pad_token_id = max(outputs, 1), 0
    with convert_load_errors(Path(trained.model or config.model_type)), silence_transformers():
        with unset_fake_temporarily(), torch.device("meta"):
            model: PreTrainedModel = HEAD_CLASSES[head].from_config(config, dtype=torch.float32)
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(_PLANNED_ATTENTION)
    with unset_fake_temporarily(), torch.device("meta"):
        prepared = prepare_trainable_model(model, trained)
    _put_on_processor(prepared)
    return prepared


def _put_on_processor(model: nn.Module) -> None:
    """Put fake tensors of the CPU in place of a model's weights and buffers on the meta device.

    Kernels and types are chosen by the device. peft can add LoRA to meta tensors alone.
    """
    copies: dict[int, Tensor] = {}
    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for table in tables:
            for name, each in table.items():
                if each is not None and id(each) not in copies:
                    empty = torch.empty(each.shape, dtype=each.dtype)
                    weight = isinstance(each, nn.Parameter)
                    copies[id(each)] = nn.Parameter(empty, each.requires_grad) if weight else empty
                table[name] = None if each is None else copies[id(each)]


_PLANNED_ATTENTION = "rookery_planned"


def _attend_as_planned(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Attend as transformers do where they see the values of a mask: one row without padding needs
    none. Nothing is dropped out: a GPU's kernel keeps nothing for it, a CPU's keeps all pairs."""
    alone = query.shape[0] == 1 and query.shape[2] == key.shape[2]
    if alone and getattr(module, "sliding_window", None) is None:
        mask = None
    return sdpa_attention_forward(module, query, key, value, mask, **more | {"dropout": 0.0})


AttentionInterface.register(_PLANNED_ATTENTION, _attend_as_planned)
AttentionMaskInterface.register(_PLANNED_ATTENTION, sdpa_mask)


class _StorageCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that operations make, as they come and go, and keeps the counts
    by kind of the moment when they were the most.

    `known` are tensors whose storages do not count: the weights and their gradients.
    """

    def __init__(self, known_tensors: Iterable[Tensor], vocabulary: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._known = {_identify_storage(each) for each in known_tensors}
        self._counted: set[int] = set()
        self._vocabulary = vocabulary

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in tree_iter(found):
            if isinstance(each, Tensor) and _identify_storage(each) not in self._known:
                self._count(each, self._choose_kind(func, args, each))
        return found

    def _choose_kind(self, func: Any, args: tuple[Any, ...], tensor: Tensor) -> str:
        if func is torch.ops.aten._to_copy.default and _identify_storage(args[0]) in self._known:
            return "copies"
        wide = tensor.dim() > 1 and tensor.shape[-1] == self._vocabulary
        return "logits" if wide else "activations"

    def _count(self, tensor: Tensor, kind: str) -> None:
        storage, number = tensor.untyped_storage(), _identify_storage(tensor)
        if number in self._counted:
            return
        self._counted.add(number)
        self.live[kind] += storage.nbytes()
        finalize(storage, self._forget_storage, number, kind, storage.nbytes())
        if self.live.total() > self.most.total():
            self.most = self.live.copy()

    def _forget_storage(self, number: int, kind: str, size: int) -> None:
        self._counted.remove(number)
        self.live[kind] -= size


def _identify_storage(value: Tensor) -> int:
    """Fake tensors have no addresses, and their storages are objects."""
    return int(value.untyped_storage()._cdata)


def _sum_storage_bytes(weights: Iterable[Tensor]) -> int:
    """Return the bytes of weights, each counted once."""
    return sum(
        {_identify_storage(each): each.untyped_storage().nbytes() for each in weights}.values()
    )


def _count_values(weights: Iterable[Tensor]) -> int:
    return sum(each.numel() for each in weights)


@contextmanager
def _compute_in(dtype: str) -> Iterator[None]:
    """Compute in this type within a `with` block, as accelerate does."""
    with torch.autocast("cpu", torch.bfloat16) if dtype == "bfloat16" else nullcontext():
        yield


Outputs = list[tuple[str, tuple[int, ...]]]


def _simulate_step(
    shape: TrainingShape, networks: Any
) -> tuple[Counter[str], tuple[tuple[str, tuple[int, ...]], ...]]:
    """Take a micro-batch that is not the first of its step through the networks and back.

    Returns the bytes by kind at the peak, and the shapes of the outputs.
    """
    weights = list(networks.parameters())
    for each in weights:
        each.grad = torch.empty_like(each) if each.requires_grad else None
    gradients = [each.grad for each in weights if each.grad is not None]
    vocabulary = shape.model.get_text_config().vocab_size
    with _StorageCounter([*weights, *gradients], vocabulary) as counter:
        batch = _make_batch(shape.rows, shape.tokens, shape.targets)
        counter.most.clear()
        loss, outputs = _compute_loss(shape, networks, batch)
        loss.backward()  # type: ignore[no-untyped-call]
    return counter.most, tuple(outputs)


def _make_batch(rows: int, tokens: int, targets: int) -> ActionBatch:
    tokens_BT = torch.zeros((rows, tokens), dtype=torch.long)
    positions_BT = torch.arange(tokens).repeat(rows, 1)
    seen_BT = torch.ones_like(tokens_BT, dtype=torch.bool)
    places_BT = torch.arange(rows * tokens).view(rows, tokens)
    places_N = places_BT[:, tokens - targets - 1 : -1].flatten()
    actions_N = torch.zeros_like(places_N)
    return ActionBatch(tokens_BT, positions_BT, seen_BT, places_N, actions_N, None)


def _compute_loss(
    shape: TrainingShape, networks: Any, batch: ActionBatch
) -> tuple[Tensor, Outputs]:
    """Run a forward pass with the functions that train; return a loss, and the outputs' shapes."""
    how, dtype = shape.reinforce, shape.trained.dtype
    if not shape.targets:
        with _compute_in(dtype):
            model: Any = networks if shape.outputs else networks.base_model
            output = model(
                input_ids=batch.tokens_BT,
                attention_mask=batch.attention_mask_BT.long(),
                **({"use_cache": False} if shape.outputs else {}),
            )
        scored = output.logits if shape.outputs else output[0]
        name = "rewards" if shape.outputs else "states"
        return scored.float().sum(), [(name, tuple(scored.shape))]
    output_names: set[TokenOutput] = {"logprobs"}
    if how is not None:
        output_names.add("values")
        if how.kl == "loss":
            output_names.add("kl")
    with _compute_in(dtype):
        temperature = 1.0 if how is None else how.sampling.temperature
        scored = networks(batch, temperature, output_names)
    outputs: Outputs = [(name, tuple(value.shape)) for name, value in scored.items()]
    learnt = [value.sum() for value in scored.values() if value.requires_grad]
    return torch.stack(learnt).sum(), outputs


@torch.no_grad()
def _simulate_sampling(shape: TrainingShape, networks: Any) -> tuple[int, int, int]:
    """Read prompts and sample the last token behind them.

    Returns the bytes of all keys and values then, of what passes beside them at the most, and of
    copies of weights among this.
    """
    model: Any = networks.policy
    model.eval()
    weights, text = list(networks.parameters()), shape.model.get_text_config()
    prompt = shape.tokens - shape.sampled_tokens
    cache = DynamicCache()
    with _StorageCounter(weights, text.vocab_size) as counter, _compute_in(shape.trained.dtype):
        _read_tokens(model, shape.sampled_rows, prompt, 0, cache)
        read = counter.most.copy()
        layers: list[Any] = cache.layers
        for layer in layers:
            layer.keys, layer.values = (
                each.new_empty(*each.shape[:2], shape.tokens - 2, each.shape[-1])
                for each in (layer.keys, layer.values)
            )
        counter.most.clear()
        _read_tokens(model, shape.sampled_rows, 1, shape.tokens - 2, cache)
    size = _sum_storage_bytes(each for layer in layers for each in (layer.keys, layer.values))
    most = max(read, counter.most, key=Counter.total)
    return size, most.total() - size, most["copies"]


def _read_tokens(model: Any, rows: int, tokens: int, position: int, cache: DynamicCache) -> None:
    tokens_BT = torch.zeros((rows, tokens), dtype=torch.long)
    model(
        input_ids=tokens_BT,
        attention_mask=torch.ones((rows, position + tokens), dtype=torch.long),
        position_ids=torch.arange(position, position + tokens).expand(rows, tokens),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    )


def _measure_gathered_layers(model: nn.Module, dtype: str) -> int:
    """Return the bytes that FSDP has whole at once: what belongs to no layer, the layer that is
    computed and the next, in the type that is computed in, and gradients of all but the next."""
    networks = list(model.children()) if isinstance(model, ActorCritic) else [model]
    layers = [
        layer
        for network in networks
        if isinstance(network, PreTrainedModel) or hasattr(network, "get_base_model")
        for layer in get_layers(network)
    ]
    inside = {id(each) for layer in layers for each in layer.parameters()}
    outside = [each for each in model.parameters() if id(each) not in inside]
    largest = max(layers, key=lambda layer: _count_values(layer.parameters()))
    gathered = [*outside, *largest.parameters()]
    values = _count_values([*gathered, *largest.parameters()])
    values += _count_values(each for each in gathered if each.requires_grad)
    return values * (2 if dtype == "bfloat16" else FLOAT_BYTES)
