"""Policy-gradient training (PPO, A2C, RLOO): networks, and the update on a batch of episodes."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import fmean, pstdev
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionBatch,
    PredictedTokens,
    compute_action_logprobs,
    compute_action_states,
    compute_action_values,
    compute_entropies,
    compute_in_chunks,
    compute_logits,
    count_vocabulary,
    select_logprobs,
)
from rookery.learn.episodes import Trajectory
from rookery.learn.minibatches import BatchSplitter, MicroBatch, Minibatch, RowLocation
from rookery.learn.optimizer import ModelOptimizer
from rookery.learn.policy_losses import (
    compute_full_kl,
    compute_gae,
    compute_policy_loss,
    compute_rloo_advantages,
    compute_token_rewards,
    compute_value_loss,
    estimate_kl,
    make_length_mask,
    scatter_by_mask,
    whiten_values,
)
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    count_state_width,
    load_trainable_model,
)
from rookery.learn.reinforcement_settings import ReinforcementSettings
from rookery.records import Failure

ValueNetworkKind = Literal["separate", "shared", "none"]


TokenOutput = Literal["logprobs", "entropies", "kl", "reference", "values"]
"""what networks say of each token of the actions, one number each: its log-probability; the entropy
of its distribution, in nats, without gradients; the KL of its distribution from the reference's;
its log-probability by the reference, without gradients; the return before it"""


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

    def forward(
        self, batch: ActionBatch, temperature: float, outputs: Collection[TokenOutput]
    ) -> dict[str, Tensor]:
        """Return for each token of the actions what is wanted, N, by name. Values are left out
        where there is no value network."""
        values_by_name: dict[str, Tensor] = {}
        values = "values" in outputs and self.critic is not None
        distributions = {"logprobs", "entropies", "kl"} & set(outputs)
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
            if "entropies" in outputs:
                compared["entropies"] = compute_entropies(logits_NV.detach())
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


def build_policy_networks(
    policy: TrainedModelSettings,
    value: ValueNetworkKind,
    value_model: str,
    value_width: int,
    reference: str,
    seed: int,
) -> ActorCritic:
    """Load the networks of a run; the initial weights of new layers depend on the seed alone.

    A shared value network has two hidden layers of `value_width` (GopherCite, appendix F.1); all
    values are 0 at first. Raises Failed as `load_trainable_model` does.
    """
    with _seed_torch(seed):
        speaker: Any = load_trainable_model(policy)
        critic: Any = None
        if value == "separate":
            start = msgspec.structs.replace(policy, model=value_model or policy.model)
            critic = load_trainable_model(start, "token")
        elif value == "shared":
            critic = build_value_head(count_state_width(speaker), value_width)
        frozen: Any = None
        if reference or not policy.lora:
            frozen = load_trainable_model(
                TrainedModelSettings(reference or policy.model, dtype=policy.dtype)
            )
            frozen.requires_grad_(False)
    actor = ActorCritic(speaker, critic, value == "shared", frozen)
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


@contextmanager
def _seed_torch(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class EpisodeStatistics(NamedTuple):
    """Reward, KL and length of one episode, known to every process."""

    process: int
    score: float
    answered: bool
    kl: float
    """from the reference, in nats, k1 summed over its tokens"""
    least: float
    """the same by k3, which is never negative"""
    tokens: int
    group: Hashable
    extra: bool


class TokenTensors:
    """Tensors with one value for each token of this process, episode after episode."""

    def __init__(self, sampled_N: Tensor, episodes_EL: Tensor, last_EL: Tensor) -> None:
        self.sampled_N = sampled_N
        """log-probabilities, as the sampler found them"""
        self.reference_N = torch.zeros_like(sampled_N)
        self.old_N = torch.zeros_like(sampled_N)
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

    @property
    def whole(self) -> list[EpisodeStatistics]:
        """Statistics of the main episodes, extra answers left out."""
        return [one for one in self.accounts if not one.extra]

    @property
    def kl(self) -> float:
        """Mean KL of an episode from the reference, in nats, extra answers left out."""
        return fmean(one.kl for one in self.whole)

    @property
    def reward(self) -> float:
        """Mean reward of an episode, without the KL, extra answers left out."""
        return fmean(one.score for one in self.whole)


class MetricAccumulator:
    """Sums and maxima of metrics over the tokens of one or more epochs."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.most: dict[str, Tensor] = {}

    def add(self, **values: Tensor) -> None:
        """Add the sum of each tensor to the sum of its name."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().sum().double()

    def record_maximum(self, **values: Tensor) -> None:
        """Keep the largest absolute value of each tensor so far, by name."""
        for name, value in values.items():
            found = value.detach().abs().max() if value.numel() else value.new_zeros(())
            self.most[name] = torch.maximum(self.most.get(name, found), found)

    def reduce_across_processes(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sums and the maxima, by name, over all processes."""
        ours = (
            {name: float(value) for name, value in self.sums.items()},
            {name: float(value) for name, value in self.most.items()},
        )
        told = gather_object([ours])
        sums = {name: sum(each[name] for each, _ in told) for name in ours[0]}
        return sums, {name: max(each[name] for _, each in told) for name in ours[1]}


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

        Also gathers reward, KL and length of the episodes of all processes. Raises Failed
        (nothing_said) where no episode has an action.
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
        self._score_tokens(begun, tokens)
        accounts = gather_object(self._summarize_episodes(played, tokens))
        return PreparedBatch(portions, begun, tokens, accounts)

    def train_on_batch(self, lesson: PreparedBatch, step: int, beta: float) -> dict[str, float]:
        """Train the networks on a batch for the epochs of the settings, and return the metrics.

        Of whole episodes, in the mean: `reward`, `reward_spread` (standard deviation), `answered`
        (share), `kl` (nats, summed over the episode), `length` (tokens); `episodes` counts the
        extra ones too. Of tokens, as they were drawn: `kl_token` (nats, k3), `entropy` (nats),
        `mismatch` (the farthest that a log-probability is from the sampler's), `ratio` (the
        farthest from 1 before anything was learnt), `explained` (the share of the variance of the
        returns that the values explain). Over all epochs: `policy_loss`, `value_loss`, `clipped`
        and `value_clipped` (shares), `approxkl` (nats from the policy that drew), `gradient` (its
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
                    self._compute_loss,
                    lesson,
                    tally,
                    1 / max(count, 1e-9),
                    epoch,
                    epoch == place == 0,
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
    def _score_tokens(self, minibatches: Sequence[Minibatch], tokens: TokenTensors) -> None:
        """Compute the outputs of reference and value network for each token, and the policy's where
        the training pass would come too late for them."""
        warmth = self._rules.sampling.temperature
        outputs: set[TokenOutput] = {"reference", "values"}
        if len(minibatches) > 1 or self._actor.shared:
            outputs.add("logprobs")
        for piece in (piece for minibatch in minibatches for piece in minibatch.pieces):
            scored = self._learner.model(piece.batch, warmth, outputs)
            tokens.reference_N[piece.tokens_N] = scored["reference"]
            if "logprobs" in outputs:
                tokens.old_N[piece.tokens_N] = scored["logprobs"]
            if "values" in scored:
                tokens.values_N[piece.tokens_N] = scored["values"]

    def _summarize_episodes(
        self, played: Sequence[Trajectory], tokens: TokenTensors
    ) -> list[EpisodeStatistics]:
        pair = tokens.sampled_N, tokens.reference_N
        kl_E = tokens.arrange_by_episode(estimate_kl(*pair)).sum(-1).tolist()
        least_E = tokens.arrange_by_episode(estimate_kl(*pair, "k3")).sum(-1).tolist()
        sizes_E = tokens.episodes_EL.sum(-1).tolist()
        return [
            EpisodeStatistics(
                self._accelerator.process_index,
                one.compute_score(self._rules.no_answer, self._rules.bad_syntax),
                one.is_answered,
                kl,
                least,
                size,
                one.group,
                one.extra,
            )
            for one, kl, least, size in zip(played, kl_E, least_E, sizes_E, strict=True)
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
        epoch: int,
        first: bool,
        piece: MicroBatch,
    ) -> Tensor:
        """Return the part of a micro-batch in the minibatch's loss."""
        rules, tokens, at_N = self._rules, lesson.tokens, piece.tokens_N
        outputs: set[TokenOutput] = {"logprobs", "values"}
        if epoch == 0:
            outputs.add("entropies")
        if rules.kl == "loss":
            outputs.add("kl")
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
        if first:
            tally.record_maximum(ratio=apart_N.expm1())
        if epoch == 0:
            tally.add(read=seen_N, entropy=scored["entropies"])
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
        tally.record_maximum(mismatch=tokens.old_N - tokens.sampled_N)
        missed_N = tokens.returns_N - tokens.values_N
        tally.add(
            returns=tokens.returns_N,
            squares=tokens.returns_N**2,
            missed=missed_N,
            missed_squares=missed_N**2,
        )
        sums, most = tally.reduce_across_processes()
        token_count, read = sums.pop("seen"), sums.pop("read")
        whole = _compute_variance(read, sums.pop("returns"), sums.pop("squares"))
        residual = _compute_variance(read, sums.pop("missed"), sums.pop("missed_squares"))
        entropy = sums.pop("entropy") / read
        means = {name: value / token_count for name, value in sums.items()}
        explained = (
            {"explained": 1 - residual / whole} if "value_loss" in means and whole > 0 else {}
        )
        return {**means, **most, **explained, "entropy": entropy}

    def _sum_across_processes(self, values: Tensor) -> Tensor:
        found: Tensor = self._accelerator.reduce(values, "sum")
        return found


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
        "kl_token": sum(one.least for one in every) / sum(one.tokens for one in every),
        "length": fmean(one.tokens for one in whole),
        "episodes": float(len(every)),
    }


def _compute_variance(count: float, summed: float, squares: float) -> float:
    return max(squares / count - (summed / count) ** 2, 0.0)
