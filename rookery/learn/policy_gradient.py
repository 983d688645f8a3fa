"""Policy-gradient training (PPO, A2C, RLOO): settings, losses, advantages, networks, the control of
the KL, and the update on a batch of episodes.

`PPO_DEFAULTS`, `WEBGPT_PPO_DEFAULTS`, `A2C_DEFAULTS` and `RLOO_DEFAULTS` are the papers' values of
the settings, under what a user sets: `make_ppo_settings` and its siblings apply them to keyword
arguments, `typed_files.merge_tables` to the tables of a TOML file.

Losses and advantages have one value for each token of the actions, row by row.
"""

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionBatch,
    BatchSplitter,
    MicroBatch,
    Minibatch,
    PredictedTokens,
    RowLocation,
    compute_action_logprobs,
    compute_action_states,
    compute_action_values,
    compute_in_chunks,
    compute_logits,
    count_vocabulary,
    select_logprobs,
)
from rookery.learn.decoding import SamplingSettings
from rookery.learn.episodes import Trajectory
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    count_state_width,
    get_layers,
    load_trainable_model,
    seed_torch,
)
from rookery.learn.shared_layers import MOST_KEPT_BYTES, LowerStates, list_frozen_layers
from rookery.records import Failure


class ReinforcementSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of reinforcement learning. Defaults are Ziegler's (section 2.2, and the code
    released with it), but for batches, updates and the pace of beta, which are for runs of tens of
    batches and not of thousands.

    The whitening of rewards and the clip of values are that code's, too: a batch's rewards are
    divided by their standard deviation over all tokens, and `value_clip` holds a value within 0.2
    of what it was before the batch. Where only the last of n tokens is scored, returns are then
    near √n, 5 for 24 tokens, so that values need 25 batches to reach them, and until then explain
    little. There a run has thousands of batches; in one of tens leave rewards as they are
    (`whiten_rewards`) and set a high `value_clip`, or take RLOO. That code whitens in each
    minibatch, of which it has one; here it is done in the batch, so that `minibatches` do not
    change what an episode is worth."""

    policy: TrainedModelSettings
    steps: int
    """batches of episodes"""
    reference: str = ""
    """the folder of the model that the KL is measured from; empty: the policy's"""
    optimising: OptimizerSettings = OptimizerSettings(rate=1.41e-5, adam="tf", epsilon=1e-5)
    """optimizer, whose steps are `epochs` times `minibatches` for each batch of episodes"""
    sampling: SamplingSettings = SamplingSettings()
    """how actions are drawn; the temperature divides the logits of the policy and of the reference
    everywhere"""
    server: str | tuple[str, ...] = ""
    """the address of a vLLM that samples, such as http://127.0.0.1:8000, or a list of several (see
    `learn.vllm_sampler`); empty: this process does"""
    episodes: int = 64
    """episodes in a batch"""
    epochs: int = 3
    """how often a batch is learnt from (Ziegler: 4)"""
    minibatches: int = 2
    """steps of the optimiser in an epoch, each of as many rows (Ziegler: 1)"""
    piece: int = 64
    """rows that the model is given at once; more take more memory and change nothing"""
    chunk: int | None = None
    """tokens of an action, at most: longer ones become several (WebGPT, appendix E: 64)"""
    clip: float | None = 0.2
    """how far the ratio of probabilities may gain from 1; None: any way"""
    value: Literal["separate", "shared"] = "separate"
    """the value network: a model of its own, or a head on the policy (GopherCite, appendix F.1)"""
    value_model: str = ""
    """the folder that a separate one begins as, such as a reward model; empty: the policy's"""
    value_width: int = 2048
    """width of the two hidden layers of a shared value network"""
    value_clip: float | None = 0.2
    """how far a value may gain from what it was before the batch; None: any way"""
    value_weight: float = 0.1
    """weight of the value network's loss beside the policy's"""
    advantage: Literal["gae", "rloo"] = "gae"
    """gae: by a value network (generalised advantage estimation); rloo: without one, against the
    others of an episode's group"""
    gamma: float = 1.0
    """discount of later rewards, for each unit of `count`; 1: none"""
    trace: float = msgspec.field(default=0.95, name="lambda")
    """lambda of generalised advantage estimation: 1 trusts rewards alone, 0 the values"""
    count: Literal["token", "action"] = "token"
    """what gamma and lambda count (WebGPT, appendix E: actions)"""
    whiten_rewards: bool = True
    """whether rewards get variance 1 over a batch, the KL among them; the value network then has
    one scale to learn"""
    whiten_advantages: bool = True
    """whether advantages get mean 0 and variance 1 over a batch"""
    kl: Literal["reward", "loss"] = "reward"
    """where the KL counts: in each token's reward, times beta; or in the loss"""
    alpha: float = 0.1
    """with kl = "loss", the share of the KL in it (GopherCite, section 2.8)"""
    beta: float = 0.1
    """weight of the KL in the reward, at first"""
    target: float | None = None
    """the KL of an episode, in nats, that beta is changed for; None: beta stays"""
    horizon: float = 64.0
    """episodes in which beta follows a KL that is off its target by a fifth or more by as much: in
    a batch by at most a fifth of `episodes` / `horizon`, the K_β of Ziegler (section 2.2: 0.1; the
    code: 512 / 10,000). Theirs is for thousands of batches; this one for tens"""
    budget: float | None = None
    """the KL of an episode, in nats, above which training ends (WebGPT, appendix E), and the last
    policy within it is written. None by default: a KL adds up over the tokens of an episode, so
    that no number fits both a word and a page; 10 is far for a sentence or two"""
    check: int = 0
    """batches from one validation to the next; 0: none. Each plays questions that were held out,
    and the policy with the highest mean reward there, of those within the budget, is written
    (WebGPT, appendix E); without validations it is the last"""
    validation_episodes: int = 64
    """episodes of a validation: the same ones, drawn from the same seeds, each time"""
    patience: int | None = None
    """validations in a row without a better one, after which training ends; None: it does not, but
    after three in which a held-out judge's score had fallen while the reward rose"""
    no_answer: float = -1.0
    """the reward of an episode without an answer"""
    bad_syntax: float | None = None
    """what is subtracted from the reward of a text that breaks the syntax of answers, which is
    scored as it stands (GopherCite, appendix F.1: 2); None: such a text has the reward
    `no_answer`"""
    seed: int = 0
    """seed of everything that is drawn: the same one gives the same run"""
    every: int | None = None
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""
    shown: int = 2
    """episodes of a batch whose words are kept"""

    def __post_init__(self) -> None:
        if fault := next(self._find_faults(), ""):
            raise ValueError(fault)

    def _find_faults(self) -> Iterator[str]:
        """Sentences about what cannot be meant, or with which nothing could be learnt."""
        counts = (self.steps, self.episodes, self.epochs, self.minibatches, self.piece)
        more = (self.value_width, 1 if self.every is None else self.every, self.chunk or 1)
        often = (self.validation_episodes, 1 if self.patience is None else self.patience)
        if min(*counts, *more, *often) < 1 or self.chunk == 0 or min(self.shown, self.check) < 0:
            yield (
                "steps, episodes, epochs, minibatches, piece, chunk, every, value_width, "
                "validation_episodes and patience must be 1 or more, shown and check 0 or more"
            )
        if self.patience is not None and not self.check:
            yield "patience counts validations: set check to 1 or more, or leave patience out"
        if self.minibatches > self.episodes:
            yield (
                f"minibatches ({self.minibatches}) must not be more than episodes "
                f"({self.episodes}): set fewer minibatches or more episodes"
            )
        if self.sampling.temperature <= 0:
            yield "sampling.temperature must be more than 0, or nothing is tried out"
        if self.sampling.dtype:
            yield "what is trained is what samples: set policy.dtype and not sampling.dtype"
        if self.servers and self.sampling.top_p is not None:
            yield "a server does not say which tokens top_p left: leave it or server out"
        penalty = 0.0 if self.bad_syntax is None else self.bad_syntax
        numbers = (self.value_weight, self.beta, penalty, self.no_answer)
        if not all(map(math.isfinite, numbers)) or min(numbers[:3]) < 0:
            yield (
                "value_weight, beta and bad_syntax must be numbers from 0 on, no_answer a number"
            )
        if not (0 <= self.gamma <= 1 and 0 <= self.trace <= 1):
            yield "gamma and lambda must be from 0 to 1"
        for name in ("clip", "value_clip", "budget", "horizon"):
            if (limit := getattr(self, name)) is not None and not limit > 0:
                yield f"{name} must be more than 0, or nothing is learnt"
        if not 0 <= self.alpha <= 1:
            yield "alpha must be a share from 0 to 1"
        if self.policy.dropout:
            yield (
                "policy.dropout must be 0: with dropout a policy is not as likely to say what it "
                "said, before anything is learnt (Ziegler, section 2.2, trains without)"
            )
        yield from self._find_combination_faults()
        if not all(map(_is_address, self.servers)):
            yield "server must be an address such as http://127.0.0.1:8000, or a list of them"
        if len(set(self.servers)) < len(self.servers):
            yield "server names an address twice: name each once"

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses of the servers that sample; empty: none does."""
        if isinstance(self.server, str):
            return (self.server,) if self.server else ()
        return self.server

    def _find_combination_faults(self) -> Iterator[str]:
        """Yield sentences about settings that do not go together."""
        if self.kl == "loss" and self.alpha == 1:
            yield "with alpha = 1 the KL is the whole loss and no reward counts: set it below 1"
        if self.target is not None and self.target <= 0:
            yield "target is a KL of more than 0 nats; leave it out for a fixed beta"
        if self.target is not None and not (self.beta > 0 and self.episodes < 5 * self.horizon):
            yield "for a target, beta must be more than 0 and horizon more than a fifth of episodes"
        if self.advantage == "rloo":
            if self.episodes < 2:
                yield 'advantage = "rloo" compares episodes: set episodes to 2 or more'
            if self.value_model:
                yield 'advantage = "rloo" has no value network: leave value_model out'
            return
        if self.value_weight == 0:
            yield (
                "with value_weight = 0 the value network learns nothing: set it above 0, or "
                'advantage = "rloo" to do without one'
            )
        if self.value == "shared" and self.value_model:
            yield 'value = "shared" is a head on the policy: leave value_model out, or "separate"'


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    return bool(known and text.isascii())


PPO_DEFAULTS: Mapping[str, Any] = {}
"""Ziegler, section 2.2, for runs of tens of batches: the defaults of `ReinforcementSettings`"""
WEBGPT_PPO_DEFAULTS: Mapping[str, Any] = {
    "episodes": 512, "epochs": 1, "minibatches": 128, "chunk": 64, "count": "action",
    "whiten_rewards": False, "beta": 0.02,
}  # fmt: skip
"""WebGPT, appendix E: PPO of one epoch, with time counted in actions of 64 tokens"""
A2C_DEFAULTS: Mapping[str, Any] = {
    "epochs": 1, "minibatches": 1, "clip": None, "value": "shared", "value_clip": None,
    "trace": 1.0, "whiten_rewards": False, "whiten_advantages": False, "kl": "loss",
    "no_answer": -2.0, "bad_syntax": 2.0,
}  # fmt: skip
"""GopherCite, section 2.8 and appendix F: one epoch, nothing clipped, the value network a head that
predicts the final reward, the KL in the loss, 2 off the reward for bad syntax"""
RLOO_DEFAULTS: Mapping[str, Any] = {
    "epochs": 1, "minibatches": 1, "clip": None, "advantage": "rloo", "whiten_advantages": False,
}  # fmt: skip
"""leave-one-out advantages in place of a value network (Ahmadian and others, 2024)"""
make_ppo_settings = partial(ReinforcementSettings, **PPO_DEFAULTS)
"""returns settings with Ziegler's PPO as the defaults; given values take precedence"""
make_webgpt_settings = partial(ReinforcementSettings, **WEBGPT_PPO_DEFAULTS)
"""returns settings with WebGPT's PPO as the defaults; given values take precedence"""
make_a2c_settings = partial(ReinforcementSettings, **A2C_DEFAULTS)
"""returns settings with GopherCite's A2C as the defaults; given values take precedence"""
make_rloo_settings = partial(ReinforcementSettings, **RLOO_DEFAULTS)
"""returns settings with RLOO's advantages as the defaults; given values take precedence"""


def compute_policy_loss(
    new_N: Tensor, old_N: Tensor, advantages_N: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Return PPO's loss of each token from log-probabilities, and whether the token was clipped.

    The loss is minus the ratio new / old times the advantage, with no gain from a ratio that lies
    farther than `clip` from 1; None: never clipped. At a ratio of 1 its gradient is that of A2C.
    """
    ratio_N = (new_N - old_N).exp()
    plain_N = -advantages_N * ratio_N
    if clip is None:
        return plain_N, torch.zeros_like(plain_N, dtype=torch.bool)
    clipped_N = -advantages_N * ratio_N.clamp(1 - clip, 1 + clip)
    return torch.maximum(plain_N, clipped_N), clipped_N > plain_N


def compute_value_loss(
    values_N: Tensor, old_N: Tensor, returns_N: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Return half the squared error of each value against its return, and whether it was clipped.

    With `clip`, what brings a value farther than that from what it was is no gain, as in the code
    of Ziegler and others (2019).
    """
    plain_N = (values_N - returns_N) ** 2 / 2
    if clip is None:
        return plain_N, torch.zeros_like(plain_N, dtype=torch.bool)
    near_N = old_N + (values_N - old_N).clamp(-clip, clip)
    clipped_N = (near_N - returns_N) ** 2 / 2
    return torch.maximum(plain_N, clipped_N), clipped_N > plain_N


def compute_full_kl(logits_NV: Tensor, reference_NV: Tensor) -> Tensor:
    """Return for each token the KL of its whole distribution from the reference's, over all ids.

    It is differentiated for the tokens themselves, and not for where they lead (GopherCite, section
    2.8). Ids that are not allowed are allowed in neither.
    """
    ours_NV = logits_NV.log_softmax(-1)
    theirs_NV = reference_NV.log_softmax(-1)
    # -inf less -inf is no number, and its gradient neither.
    apart_NV = (ours_NV - theirs_NV).masked_fill(ours_NV.isneginf(), 0.0)
    return (ours_NV.exp() * apart_NV).sum(-1)


CrossProcessSum = Callable[[Tensor], Tensor]
"""the sum of a tensor over all processes"""


def scatter_by_mask(values_N: Tensor, mask: Tensor) -> Tensor:
    """Return a tensor of the mask's shape with the values where it is set, row by row, else 0."""
    put = values_N.new_zeros(mask.shape)
    put[mask] = values_N
    return put


def make_length_mask(sizes: Sequence[int]) -> Tensor:
    """Return a mask of the tokens of episodes with these lengths, E × L."""
    sizes_E = torch.tensor(sizes, dtype=torch.long)
    return torch.arange(max(sizes, default=0))[None] < sizes_E[:, None]


def compute_token_rewards(
    logprobs_EL: Tensor, reference_EL: Tensor, said_EL: Tensor, scores_E: Tensor, beta: float
) -> Tensor:
    """Return the reward of each token: -β (log π - log ρ), plus the score at the last token.

    The log-probabilities are those at which it was drawn; nothing is differentiated (Ziegler,
    equation 2, token by token).
    """
    rewards_EL = (-beta * (logprobs_EL - reference_EL)).masked_fill(~said_EL, 0.0)
    sizes_E = said_EL.sum(-1)
    some_E = sizes_E > 0
    rewards_EL[some_E, sizes_E[some_E] - 1] += scores_E[some_E]
    return rewards_EL.detach()


def compute_gae(
    rewards_EL: Tensor,
    values_EL: Tensor,
    said_EL: Tensor,
    gamma: float = 1.0,
    trace: float = 0.95,
    last_EL: Tensor | None = None,
) -> Tensor:
    """Return the generalised advantage estimate of each token, across all rows of an episode.

    `gamma` discounts and `trace` is λ. They count tokens; or, where `last_EL` says which tokens are
    the last of an action, they count actions: within one nothing is discounted or bootstrapped
    (WebGPT, appendix E). Added to the values they are the returns that values are fitted to.
    """
    values_EL = values_EL.masked_fill(~said_EL, 0.0)
    counted_EL = torch.ones_like(said_EL) if last_EL is None else last_EL
    gammas_EL = torch.ones_like(rewards_EL).masked_fill(counted_EL, gamma)
    traces_EL = torch.ones_like(rewards_EL).masked_fill(counted_EL, trace)
    after_EL = torch.nn.functional.pad(values_EL[:, 1:], (0, 1))
    steps_EL = rewards_EL.masked_fill(~said_EL, 0.0) + gammas_EL * after_EL - values_EL
    found_EL = torch.zeros_like(rewards_EL)
    ahead_E = rewards_EL.new_zeros(len(rewards_EL))
    for at in reversed(range(rewards_EL.shape[1])):
        ahead_E = steps_EL[:, at] + gammas_EL[:, at] * traces_EL[:, at] * ahead_E
        found_EL[:, at] = ahead_E
    return found_EL


def whiten_values(
    values: Tensor, mask: Tensor, shift: bool = True, total: CrossProcessSum = Tensor.clone
) -> Tensor:
    """Return the values with variance 1 (the biased one) where `mask` is true, over all processes.

    Their mean becomes 0, or stays as it was without `shift`, as rewards are whitened in the code of
    Ziegler and others (2019). 0 where the mask is not set.
    """
    masked = values[mask].double()
    count, summed = total(torch.stack([masked.new_tensor(masked.numel()), masked.sum()]))
    mean = summed / count.clamp(min=1)
    variance = total(((masked - mean) ** 2).sum()) / count.clamp(min=1)
    white: Tensor = (values - mean) * (variance + 1e-8).rsqrt()
    white = white if shift else white + mean
    return white.to(values.dtype).masked_fill(~mask, 0.0)


def compute_rloo_advantages(scores: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """Return each score less the mean of the others of its group (RLOO); 0 if it has no others."""
    sums: dict[Hashable, float] = {}
    counts: dict[Hashable, int] = {}
    for score, group in zip(scores, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + score
        counts[group] = counts.get(group, 0) + 1
    return [
        score - (sums[group] - score) / (counts[group] - 1) if counts[group] > 1 else 0.0
        for score, group in zip(scores, groups, strict=True)
    ]


_MAX_RELATIVE_ERROR = 0.2
_CONTROLLER_FILE = "controller.json"


class KlController:
    """The coefficient β of the KL, and how it follows what was measured.

    With a target it is the log-space proportional controller of Ziegler (section 2.2): after each
    batch β grows by the share `gain` · e, where e is how far the KL of an episode lies above the
    target, as a share of it, and never more than 0.2 either way. `gain` is K_β: the paper's is 0.1,
    and in the code that came with it the episodes of a batch over a horizon, 512 / 10,000.
    """

    def __init__(self, beta: float, target: float | None = None, gain: float = 0.1) -> None:
        self.beta = beta
        self._target = target
        self._gain = gain

    def update_beta(self, kl: float) -> None:
        """Raise β after a batch whose KL is above the target, lower it after one below.

        `kl` is the mean of an episode, in nats. Without a target β stays.
        """
        if self._target is not None:
            off = min(
                max((kl - self._target) / self._target, -_MAX_RELATIVE_ERROR), _MAX_RELATIVE_ERROR
            )
            self.beta *= 1 + self._gain * off

    def save(self, folder: Path) -> None:
        """Write the state to a folder: β without rounding."""
        (folder / _CONTROLLER_FILE).write_text(json.dumps({"beta": self.beta}), "utf-8")

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote to a folder."""
        self.beta = float(json.loads((folder / _CONTROLLER_FILE).read_text("utf-8"))["beta"])


TokenOutput = Literal["logprobs", "kl", "reference", "values"]
"""what networks say of each token of the actions, one number each: its log-probability; the KL of
its distribution from the reference's; its log-probability by the reference, without gradients; the
return before it"""


class ActorCritic(nn.Module):
    """Causal language model with a value network that predicts the return before each token, and a
    reference that its distributions are compared with.

    The value network is a model of its own, or a small head on the policy's last hidden states, or
    there is none. The reference is a model of its own, in which nothing learns; without one it is
    the policy without what LoRA added.
    """

    def __init__(
        self,
        policy: nn.Module,
        critic: nn.Module | None = None,
        shared: bool = False,
        reference: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.policy: Any = policy
        self.critic: Any = critic
        self.shared = shared
        self.reference: Any = reference
        self.shared_layers: list[list[nn.Module]] = []
        """of each network that has the policy's frozen lower layers, these layers"""

    def forward(
        self, batch: ActionBatch, temperature: float, outputs: Collection[TokenOutput]
    ) -> dict[str, Tensor]:
        """Return for each token of the actions what is wanted, N, by name. Values are left out
        where there is no value network."""
        values_by_name: dict[str, Tensor] = {}
        values = "values" in outputs and self.critic is not None
        distributions = {"logprobs", "kl"} & set(outputs)
        if distributions or (values and self.shared):
            states_ND = compute_action_states(self.policy, batch)
            if distributions:
                values_by_name |= self._compare_distributions(
                    batch, states_ND, temperature, outputs
                )
            if values and self.shared:
                # Without autocast, split weights are in bfloat16 as the states are.
                dtype = next(self.critic.parameters()).dtype
                values_by_name["values"] = self.critic(states_ND.to(dtype))[..., 0].float()
        if values and not self.shared:
            values_by_name["values"] = compute_action_values(self.critic, batch)
        if "reference" in outputs:
            with self._use_reference() as reference:
                values_by_name["reference"] = compute_action_logprobs(reference, batch, temperature)
        return values_by_name

    def _compare_distributions(
        self,
        batch: ActionBatch,
        states_ND: Tensor,
        temperature: float,
        outputs: Collection[TokenOutput],
    ) -> dict[str, Tensor]:
        others_ND = None
        if "kl" in outputs:
            with self._use_reference() as reference:
                others_ND = compute_action_states(reference, batch)

        def compare_tokens(tokens: PredictedTokens) -> dict[str, Tensor]:
            allowed = tokens.allowed
            logits_NV = compute_logits(self.policy, tokens.states_ND, allowed, temperature)
            compared = {"logprobs": select_logprobs(logits_NV, tokens.actions_N)}
            if tokens.others_ND is not None:
                with self._use_reference() as reference:
                    others_NV = compute_logits(reference, tokens.others_ND, allowed, temperature)
                compared["kl"] = compute_full_kl(logits_NV, others_NV)
            return compared

        tokens = PredictedTokens(states_ND, batch.actions_N, batch.allowed, others_ND)
        return compute_in_chunks(compare_tokens, tokens, count_vocabulary(self.policy))

    @contextmanager
    def _use_reference(self) -> Iterator[Any]:
        """Yield the reference, which has no gradients within the `with` block."""
        switched = nullcontext() if self.reference is not None else self.policy.disable_adapter()
        with torch.no_grad(), switched:
            yield self.policy if self.reference is None else self.reference


def build_policy_networks(settings: ReinforcementSettings) -> ActorCritic:
    """Load the networks of a run; the initial weights of new layers depend on the seed alone.

    A shared value network has two hidden layers (GopherCite, appendix F.1); all values are 0 at
    first. Raises Failed as `load_trainable_model` does.
    """
    policy = settings.policy
    value = "none" if settings.advantage == "rloo" else settings.value
    with seed_torch(settings.seed):
        speaker: Any = load_trainable_model(policy)
        critic: Any = None
        if value == "separate":
            start = msgspec.structs.replace(policy, model=settings.value_model or policy.model)
            critic = load_trainable_model(start, "token")
        elif value == "shared":
            critic = build_value_head(count_state_width(speaker), settings.value_width)
        frozen: Any = None
        if settings.reference or not policy.lora:
            folder = settings.reference or policy.model
            frozen = load_trainable_model(TrainedModelSettings(folder, dtype=policy.dtype))
            frozen.requires_grad_(False)
    actor = ActorCritic(speaker, critic, value == "shared", frozen)
    if not settings.optimising.sharded:
        valued = [(critic, settings.value_model)] if value == "separate" else []
        count = len(list_frozen_layers(speaker))
        actor.shared_layers = [
            list(get_layers(network)[:count])
            for network, folder in [(speaker, ""), (frozen, settings.reference), *valued]
            if count and network is not None and folder in ("", policy.model)
        ]
    # Nothing is dropped out either way; transformers recompute in training mode alone.
    actor.train(policy.recompute)
    if frozen is not None:
        frozen.eval()
    return actor


def build_value_head(width: int, hidden: int) -> nn.Sequential:
    """Return a value network of two hidden layers on states of this width, which gives 0 at first
    (GopherCite, appendix F.1)."""
    last = nn.Linear(hidden, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), last
    )


class EpisodeStatistics(NamedTuple):
    """Reward, KL and length of one episode, known to every process."""

    process: int
    score: float
    answered: bool
    kl: float
    """from the reference, in nats: log π/ρ summed over its tokens, which has the right mean and any
    sign"""
    tokens: int
    group: Hashable
    extra: bool


class TokenTensors:
    """Tensors with one value for each token of this process, episode after episode."""

    def __init__(self, sampled_N: Tensor, episodes_EL: Tensor, last_EL: Tensor) -> None:
        self.sampled_N = sampled_N
        """log-probabilities, as the sampler found them"""
        self.reference_N = torch.zeros_like(sampled_N)
        self.old_N = sampled_N.clone()
        """those that the ratio is taken from: the sampler's, or where the trainer reads the policy
        before anything is learnt, its own"""
        self.values_N = torch.zeros_like(sampled_N)
        self.advantages_N = torch.zeros_like(sampled_N)
        self.returns_N = torch.zeros_like(sampled_N)
        self.episodes_EL = episodes_EL
        """where there is a token"""
        self.last_EL = last_EL
        """which is the last of an action"""

    def arrange_by_episode(self, values_N: Tensor) -> Tensor:
        """Return values of all tokens as E × L: one row for each episode."""
        return scatter_by_mask(values_N, self.episodes_EL)


class PreparedBatch(NamedTuple):
    """Batch of episodes with the logits, values and KL that the networks gave before the update."""

    portions: BatchSplitter
    begun: Sequence[Minibatch]
    """of the first epoch"""
    tokens: TokenTensors
    accounts: Sequence[EpisodeStatistics]
    """of all processes"""
    lower: Mapping[int, Tensor]
    """of each row of this process, by its number, the states above the shared layers, T × D"""

    @property
    def whole(self) -> list[EpisodeStatistics]:
        """Statistics of the main episodes, extra answers left out."""
        return [one for one in self.accounts if not one.extra]

    @property
    def kl(self) -> float:
        """Mean KL of an episode from the reference, in nats, extra answers left out.

        That of an episode is summed over its tokens.
        """
        return fmean(one.kl for one in self.whole)

    @property
    def reward(self) -> float:
        """Mean reward of an episode, without the KL, extra answers left out."""
        return fmean(one.score for one in self.whole)


class MetricAccumulator:
    """Sums of metrics over the tokens of one or more epochs."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    def add(self, **values: Tensor) -> None:
        """Add the sum of each tensor to the sum of its name."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().sum().double()

    def reduce_across_processes(self) -> dict[str, float]:
        """Return the sums by name over all processes, which must all call it."""
        ours = {name: float(value) for name, value in self.sums.items()}
        told = gather_object([ours])
        return {name: sum(each[name] for each in told) for name in ours}


class PolicyGradientTrainer:
    """Trains the networks of a run on batches of episodes."""

    def __init__(
        self, rules: ReinforcementSettings, actor: ActorCritic, learner: ModelOptimizer, pad: int
    ) -> None:
        self._rules = rules
        self._actor = actor
        self._learner = learner
        self._accelerator = learner.accelerator
        self._pad = pad

    def prepare_batch(self, played: Sequence[Trajectory], step: int) -> PreparedBatch:
        """Compute log-probabilities, values and KL of this process's episodes before the update.

        Also gathers reward, KL and length of the episodes of all processes: all must call it, also
        one without an episode. Raises Failed (nothing_said) where no episode has an action.
        """
        device, process = self._accelerator.device, self._accelerator.process_index
        rows = [sampled.row for one in played for sampled in one.rows]
        order = _gather_row_locations(played, process)
        if not order:
            detail = "no episode of the batch has an action: look at what the world shows"
            raise Failed(Failure(f"step {step}", Outcome.NOTHING_SAID, detail))
        portions = BatchSplitter(rows, order, process, self._rules.piece, self._pad, device)
        begun = portions.split_into_minibatches(
            self._rules.minibatches, self._make_shuffle_seed(step, 0)
        )
        tokens = _make_token_tensors(played, device)
        lower = self._score_tokens(begun, tokens, _list_recorded_states(played))
        accounts = gather_object(self._summarize_episodes(played, tokens))
        return PreparedBatch(portions, begun, tokens, accounts, lower)

    def train_on_batch(self, lesson: PreparedBatch, step: int, beta: float) -> dict[str, float]:
        """Train the networks on a batch for the epochs of the settings, and return the metrics.

        Of whole episodes, in the mean: `reward`, `reward_spread` (standard deviation), `answered`
        (share), `kl` (nats, summed over the episode), `length` (tokens); `episodes` counts the
        extra ones too. Of tokens, as they were drawn: `entropy` (nats, the mean of minus the
        log-probabilities that were drawn, as in Ziegler's code), `mismatch` (the farthest that a
        log-probability is from the sampler's, where the policy was read before anything was learnt:
        in the first minibatch, or in all), `explained` (the share of the variance of the returns
        that the values explain). Over all epochs: `policy_loss`, `value_loss`, `clipped` and
        `value_clipped` (shares), `approxkl` (nats from the policy that drew), `gradient` (its
        length); and `beta`. Raises Failed: stopped, not_a_number, and nothing_to_learn where RLOO
        finds every episode alone in its group.
        """
        rules, tally = self._rules, MetricAccumulator()
        self._compute_advantages(lesson, beta)
        number = step * rules.epochs * rules.minibatches
        lengths = []
        for epoch in range(rules.epochs):
            again = epoch > 0 and rules.minibatches > 1
            for place, minibatch in enumerate(
                lesson.portions.split_into_minibatches(
                    rules.minibatches, self._make_shuffle_seed(step, epoch)
                )
                if again
                else lesson.begun
            ):
                count = float(minibatch.tokens)
                if rules.advantage == "rloo":
                    count = len(lesson.accounts) * minibatch.share
                loss = partial(
                    self._compute_loss, lesson, tally, 1 / max(count, 1e-9), epoch == place == 0
                )
                lengths.append(self._learner.step(number, minibatch.pieces, loss))
                number += 1
        return {
            **_compute_episode_metrics(lesson),
            **self._compute_metrics(lesson, tally),
            "beta": beta,
            "gradient": fmean(lengths),
        }

    def _make_shuffle_seed(self, step: int, epoch: int) -> str:
        return f"{self._rules.seed} minibatches {step} {epoch}"

    @torch.no_grad()
    def _score_tokens(
        self, minibatches: Sequence[Minibatch], tokens: TokenTensors, recorded: dict[int, Tensor]
    ) -> dict[int, Tensor]:
        """Compute the outputs of reference and value network for each token; return the states of
        each row above the shared layers, of which the sampler may have recorded some.

        The policy's log-probabilities are the sampler's, and those of the first training pass. Only
        where its states are computed for a shared value network anyway, or where a server drew with
        an arithmetic of its own and some minibatches are read too late, are they computed here.
        """
        warmth = self._rules.sampling.temperature
        outputs: set[TokenOutput] = {"reference", "values"}
        if self._actor.shared or (len(minibatches) > 1 and self._rules.servers):
            outputs.add("logprobs")
        lower_states = dict(recorded)
        for piece in (piece for minibatch in minibatches for piece in minibatch.pieces):
            shared = _collect_lower_states(recorded, piece)
            with shared.share_layers(self._actor.shared_layers) as lower:
                scored = self._learner.model(piece.batch, warmth, outputs)
            kept_bytes = sum(each.nbytes for each in lower_states.values())
            if lower.states_BTD is not None and kept_bytes < MOST_KEPT_BYTES:
                mask_BT = piece.batch.attention_mask_BT
                rows = torch.split(lower.states_BTD[mask_BT], mask_BT.sum(-1).tolist())
                lower_states |= zip(piece.rows, rows, strict=False)
            tokens.reference_N[piece.tokens_N] = scored["reference"]
            if "logprobs" in outputs:
                tokens.old_N[piece.tokens_N] = scored["logprobs"]
            if "values" in scored:
                tokens.values_N[piece.tokens_N] = scored["values"]
        return lower_states

    def _summarize_episodes(
        self, played: Sequence[Trajectory], tokens: TokenTensors
    ) -> list[EpisodeStatistics]:
        ratios_N = tokens.sampled_N - tokens.reference_N
        kl_E = tokens.arrange_by_episode(ratios_N).sum(-1).tolist()
        sizes_E = tokens.episodes_EL.sum(-1).tolist()
        return [
            EpisodeStatistics(
                self._accelerator.process_index,
                one.compute_score(self._rules.no_answer, self._rules.bad_syntax),
                one.is_answered,
                kl,
                size,
                one.group,
                one.extra,
            )
            for one, kl, size in zip(played, kl_E, sizes_E, strict=True)
        ]

    def _compute_advantages(self, lesson: PreparedBatch, beta: float) -> None:
        """Say of each token what it was worth."""
        rules, tokens = self._rules, lesson.tokens
        charge = beta if rules.kl == "reward" else 0.0
        if rules.advantage == "rloo":
            scores_E = self._compute_rloo_scores(lesson, charge)
            tokens.advantages_N = scores_E[:, None].expand_as(tokens.episodes_EL)[
                tokens.episodes_EL
            ]
        else:
            self._estimate_advantages(lesson, charge)
        if rules.whiten_advantages:
            every = torch.ones_like(tokens.advantages_N, dtype=torch.bool)
            tokens.advantages_N = whiten_values(
                tokens.advantages_N, every, total=self._sum_across_processes
            )

    def _compute_rloo_scores(self, lesson: PreparedBatch, charge: float) -> Tensor:
        scores = [one.score - charge * one.kl for one in lesson.accounts]
        groups = [one.group for one in lesson.accounts]
        if len(set(groups)) == len(groups):
            detail = (
                "each episode is alone in its group, so that all its leave-one-out advantages are "
                "0: let the world play each prompt 2 times or more in a row (its `group`)"
            )
            raise Failed(Failure("advantage = rloo", Outcome.NOTHING_TO_LEARN, detail))
        advantages = compute_rloo_advantages(scores, groups)
        mine = self._accelerator.process_index
        own_advantages = [
            each
            for each, one in zip(advantages, lesson.accounts, strict=True)
            if one.process == mine
        ]
        return torch.tensor(own_advantages, device=self._accelerator.device)

    def _estimate_advantages(self, lesson: PreparedBatch, charge: float) -> None:
        rules, tokens = self._rules, lesson.tokens
        there_EL, mine = tokens.episodes_EL, self._accelerator.process_index
        scores_E = torch.tensor([one.score for one in lesson.accounts if one.process == mine])
        rewards_EL = compute_token_rewards(
            tokens.arrange_by_episode(tokens.sampled_N),
            tokens.arrange_by_episode(tokens.reference_N),
            there_EL,
            scores_E.to(there_EL.device),
            charge,
        )
        if rules.whiten_rewards:
            rewards_EL = whiten_values(
                rewards_EL, there_EL, shift=False, total=self._sum_across_processes
            )
        values_EL = tokens.arrange_by_episode(tokens.values_N)
        last_EL = tokens.last_EL if rules.count == "action" else None
        found_EL = compute_gae(rewards_EL, values_EL, there_EL, rules.gamma, rules.trace, last_EL)
        tokens.advantages_N = found_EL[there_EL]
        tokens.returns_N = tokens.advantages_N + tokens.values_N

    def _compute_loss(
        self,
        lesson: PreparedBatch,
        tally: MetricAccumulator,
        scale: float,
        first: bool,
        piece: MicroBatch,
    ) -> Tensor:
        """Return the part of a micro-batch in the minibatch's loss."""
        rules, tokens, at_N = self._rules, lesson.tokens, piece.tokens_N
        outputs: set[TokenOutput] = {"logprobs", "values"}
        if rules.kl == "loss":
            outputs.add("kl")
        with _collect_lower_states(lesson.lower, piece).share_layers(self._actor.shared_layers):
            scored = self._learner.model(piece.batch, rules.sampling.temperature, outputs)
        new_N = scored["logprobs"]
        if first:  # nothing has been learnt from this batch yet
            tokens.old_N[at_N] = new_N.detach()
        old_N, seen_N = tokens.old_N[at_N], torch.ones_like(new_N)
        losses_N, clipped_N = compute_policy_loss(
            new_N, old_N, tokens.advantages_N[at_N], rules.clip
        )
        loss = losses_N.sum()
        apart_N = (new_N - old_N).detach()
        tally.add(seen=seen_N, policy_loss=losses_N, clipped=clipped_N, approxkl=apart_N**2 / 2)
        if "values" in scored:
            fits_N, held_N = compute_value_loss(
                scored["values"], tokens.values_N[at_N], tokens.returns_N[at_N], rules.value_clip
            )
            loss = loss + rules.value_weight * fits_N.sum()
            tally.add(value_loss=fits_N, value_clipped=held_N)
        if "kl" in scored:
            loss = (1 - rules.alpha) * loss + rules.alpha * scored["kl"].sum()
        return loss * scale

    def _compute_metrics(self, lesson: PreparedBatch, tally: MetricAccumulator) -> dict[str, float]:
        tokens = lesson.tokens
        apart = (tokens.old_N - tokens.sampled_N).abs().tolist()
        mismatch = max(gather_object([max(apart, default=0.0)]))
        missed_N = tokens.returns_N - tokens.values_N
        tally.add(
            returns=tokens.returns_N,
            squares=tokens.returns_N**2,
            missed=missed_N,
            missed_squares=missed_N**2,
            read=torch.ones_like(missed_N),
            entropy=-tokens.sampled_N,
        )
        sums = tally.reduce_across_processes()
        token_count, read = sums.pop("seen"), sums.pop("read")
        whole = _compute_variance(read, sums.pop("returns"), sums.pop("squares"))
        residual = _compute_variance(read, sums.pop("missed"), sums.pop("missed_squares"))
        entropy = sums.pop("entropy") / read
        means = {name: value / token_count for name, value in sums.items()}
        explained = (
            {"explained": 1 - residual / whole} if "value_loss" in means and whole > 0 else {}
        )
        return {**means, **explained, "entropy": entropy, "mismatch": mismatch}

    def _sum_across_processes(self, values: Tensor) -> Tensor:
        found: Tensor = self._accelerator.reduce(values, "sum")
        return found


def _list_recorded_states(played: Sequence[Trajectory]) -> dict[int, Tensor]:
    """Return the states of each row that were recorded while it was sampled. What a row's last
    token has there is not known, and predicts nothing."""
    rows = (said for one in played for said in one.rows)
    return {
        number: nn.functional.pad(said.lower_TD, (0, 0, 0, 1))
        for number, said in enumerate(rows)
        if said.lower_TD is not None
    }


def _collect_lower_states(lower: Mapping[int, Tensor], piece: MicroBatch) -> LowerStates:
    """Return the states of a micro-batch's rows above the shared layers, where they are kept."""
    if not piece.rows or not lower.keys() >= set(piece.rows):
        return LowerStates()
    states_MD = torch.cat([lower[row] for row in piece.rows])
    mask_BT = piece.batch.attention_mask_BT
    states_BTD = states_MD.new_zeros((*mask_BT.shape, states_MD.shape[-1]))
    states_BTD[mask_BT] = states_MD
    return LowerStates(states_BTD)


def _gather_row_locations(played: Sequence[Trajectory], process: int) -> list[RowLocation]:
    """Return the places of all rows of all processes, in the order of their episodes."""
    ours, number = [], 0
    for one in played:
        for said in one.rows:
            ours.append((one.episode, RowLocation(process, number, len(said.row.action))))
            number += 1
    told: list[tuple[int, RowLocation]] = gather_object(ours)
    return [place for _, place in sorted(told, key=lambda pair: pair[0])]


def _make_token_tensors(played: Sequence[Trajectory], device: torch.device) -> TokenTensors:
    sampled = [value for one in played for said in one.rows for value in said.logprobs]
    sizes = [[len(said.row.action) for said in one.rows] for one in played]
    episodes_EL = make_length_mask([sum(each) for each in sizes])
    last_EL = torch.zeros_like(episodes_EL)
    for number, each in enumerate(sizes):
        last_EL[number, torch.tensor(each, dtype=torch.long).cumsum(0) - 1] = True
    return TokenTensors(
        torch.tensor(sampled, device=device), episodes_EL.to(device), last_EL.to(device)
    )


def _compute_episode_metrics(lesson: PreparedBatch) -> dict[str, float]:
    whole, every = lesson.whole, lesson.accounts
    scores = [one.score for one in whole]
    return {
        "reward": fmean(scores),
        "reward_spread": pstdev(scores),
        "answered": fmean(one.answered for one in whole),
        "kl": lesson.kl,
        "length": fmean(one.tokens for one in whole),
        "episodes": float(len(every)),
    }


def _compute_variance(count: float, summed: float, squares: float) -> float:
    return max(squares / count - (summed / count) ** 2, 0.0)
