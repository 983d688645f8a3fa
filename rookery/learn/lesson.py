"""One batch of episodes: read, judged token by token, and learnt from.

Old log-probabilities are those of the forward pass that learns, before anything is learnt, so that
the ratio is 1 in the first epoch; the sampler's are what the KL is measured with, and `mismatch`
says how far the two lie apart. It knows nothing of worlds and of checkpoints.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import NamedTuple

import torch
from accelerate.utils import gather_object
from torch import Tensor

from rookery.learn.actor import Made, reference_logits
from rookery.learn.advantage import (
    gae,
    kl_estimates,
    leave_one_out,
    lines,
    spread,
    token_rewards,
    whitened,
)
from rookery.learn.optimise import Learner
from rookery.learn.played import Played
from rookery.learn.portions import Minibatch, Piece, Place, Portions
from rookery.learn.rows import action_values, entropies, logprobs
from rookery.learn.rules import ReinforceSettings
from rookery.learn.surrogate import policy_loss, value_loss, whole_kl
from rookery.learn.trunk import Kept
from rookery.records import Failed, Failure


class Account(NamedTuple):
    """What every process knows of an episode."""

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


class Tokens:
    """What is known of each token of this process, one behind the other, episode by episode."""

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

    def line(self, values_N: Tensor) -> Tensor:
        """Values episode by episode, E × L."""
        return spread(values_N, self.episodes_EL)


class Lesson(NamedTuple):
    """A batch that has been read."""

    portions: Portions
    begun: Sequence[Minibatch]
    """of the first epoch"""
    tokens: Tokens
    kept: Kept
    """of the frozen layers, which no epoch computes again"""
    accounts: Sequence[Account]
    """of all processes"""

    @property
    def whole(self) -> list[Account]:
        """Of the episodes that are no extras."""
        return [one for one in self.accounts if not one.extra]

    @property
    def kl(self) -> float:
        """Of a whole episode, in nats."""
        return fmean(one.kl for one in self.whole)


class Tally:
    """Sums over the tokens of an epoch or more, and the largest of what was seen."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.most: dict[str, Tensor] = {}

    def add(self, **values: Tensor) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().sum().double()

    def largest(self, **values: Tensor) -> None:
        for name, value in values.items():
            found = value.detach().abs().max() if value.numel() else value.new_zeros(())
            self.most[name] = torch.maximum(self.most.get(name, found), found)

    def reached(self) -> tuple[dict[str, float], dict[str, float]]:
        """In all processes."""
        ours = (
            {name: float(value) for name, value in self.sums.items()},
            {name: float(value) for name, value in self.most.items()},
        )
        told = gather_object([ours])
        sums = {name: sum(each[name] for each, _ in told) for name in ours[0]}
        return sums, {name: max(each[name] for _, each in told) for name in ours[1]}


class Teacher:
    """Reads batches with the networks of a run, and learns from them."""

    def __init__(self, rules: ReinforceSettings, made: Made, learner: Learner, pad: int) -> None:
        self._rules = rules
        self._made = made
        self._learner = learner
        self._accelerator = learner.accelerator
        self._pad = pad

    def read(self, played: Sequence[Played], step: int) -> Lesson:
        """The episodes of this process, with what the networks make of them."""
        device, process = self._accelerator.device, self._accelerator.process_index
        rows = [said.row for one in played for said in one.rows]
        order = _order(played, process)
        if not order:
            detail = "no episode of the batch has an action: look at what the world shows"
            raise Failed(Failure(f"step {step}", "nothing_said", detail))
        portions = Portions(rows, order, process, self._rules.piece, self._pad, device)
        begun = portions.minibatches(self._rules.minibatches, self._shuffle(step, 0))
        tokens, kept = _tokens(played, device), Kept(self._made.trunk)
        self._score(begun, tokens, kept)
        accounts = gather_object(self._accounts(played, tokens))
        return Lesson(portions, begun, tokens, kept, accounts)

    def learn(self, lesson: Lesson, step: int, beta: float) -> dict[str, float]:
        """Follows a batch for some epochs; gives what was measured.

        Of whole episodes, in the mean: `reward`, `reward_spread` (standard deviation), `answered`
        (share), `kl` (nats, summed over the episode), `length` (tokens); `episodes` counts the
        extra ones too. Of tokens, as they were drawn: `kl_token` (nats, k3), `entropy` (nats),
        `mismatch` (the farthest that a log-probability is from the sampler's), `ratio` (the
        farthest from 1 before anything was learnt), `explained` (the share of the variance of the
        returns that the values explain). Over all epochs: `policy_loss`, `value_loss`, `clipped`
        and `value_clipped` (shares), `approxkl` (nats from the policy that drew), `gradient` (its
        length); and `beta`.
        """
        rules, tally = self._rules, Tally()
        self._judge(lesson, beta)
        number = step * rules.epochs * rules.minibatches
        lengths = []
        for epoch in range(rules.epochs):
            again = epoch > 0 and rules.minibatches > 1
            for place, minibatch in enumerate(
                lesson.portions.minibatches(rules.minibatches, self._shuffle(step, epoch))
                if again
                else lesson.begun
            ):
                count = float(minibatch.tokens)
                if rules.advantage == "rloo":
                    count = len(lesson.accounts) * minibatch.share
                loss = partial(
                    self._loss,
                    lesson,
                    tally,
                    1 / max(count, 1e-9),
                    epoch,
                    epoch == place == 0,
                )
                lengths.append(self._learner.step(number, minibatch.pieces, loss))
                number += 1
        return {
            **_outcome(lesson),
            **self._measured(lesson, tally),
            "beta": beta,
            "gradient": fmean(lengths),
        }

    def _shuffle(self, step: int, epoch: int) -> str:
        return f"{self._rules.seed} minibatches {step} {epoch}"

    @torch.no_grad()
    def _score(self, minibatches: Sequence[Minibatch], tokens: Tokens, kept: Kept) -> None:
        """What the reference and the value network say; and the policy, where the pass that learns
        comes too late to ask it."""
        actor, warmth = self._made.actor, self._rules.sampling.temperature
        ahead = len(minibatches) > 1 or actor.shared
        for piece in (piece for minibatch in minibatches for piece in minibatch.pieces):
            batch, at_N, said_BA = piece.batch, piece.tokens_N, piece.batch.said_BA
            with self._accelerator.autocast(), kept.under(piece):
                found_BA = logprobs(reference_logits(self._made, batch, warmth), batch)
                tokens.reference_N[at_N] = found_BA[said_BA]
                values_BA = None
                if ahead:
                    logits_BAV, values_BA = actor(batch, warmth)
                    tokens.old_N[at_N] = logprobs(logits_BAV, batch)[said_BA]
                elif actor.critic is not None:
                    values_BA = action_values(actor.critic, batch)
            if values_BA is not None:
                tokens.values_N[at_N] = values_BA[said_BA]

    def _accounts(self, played: Sequence[Played], tokens: Tokens) -> list[Account]:
        pair = tokens.sampled_N, tokens.reference_N
        kl_E = tokens.line(kl_estimates(*pair)).sum(-1).tolist()
        least_E = tokens.line(kl_estimates(*pair, "k3")).sum(-1).tolist()
        sizes_E = tokens.episodes_EL.sum(-1).tolist()
        return [
            Account(
                self._accelerator.process_index,
                self._rules.no_answer if one.reward is None else one.reward,
                one.reward is not None,
                kl,
                least,
                size,
                one.group,
                one.extra,
            )
            for one, kl, least, size in zip(played, kl_E, least_E, sizes_E, strict=True)
        ]

    def _judge(self, lesson: Lesson, beta: float) -> None:
        """Says of each token what it was worth."""
        rules, tokens = self._rules, lesson.tokens
        charge = beta if rules.kl == "reward" else 0.0
        if rules.advantage == "rloo":
            scores_E = self._left_out(lesson, charge)
            tokens.advantages_N = scores_E[:, None].expand_as(tokens.episodes_EL)[
                tokens.episodes_EL
            ]
        else:
            self._estimate(lesson, charge)
        if rules.whiten_advantages:
            every = torch.ones_like(tokens.advantages_N, dtype=torch.bool)
            tokens.advantages_N = whitened(tokens.advantages_N, every, total=self._total)

    def _left_out(self, lesson: Lesson, charge: float) -> Tensor:
        scores = [one.score - charge * one.kl for one in lesson.accounts]
        groups = [one.group for one in lesson.accounts]
        if len(set(groups)) == len(groups):
            detail = (
                "each episode is alone in its group, so that all its leave-one-out advantages are "
                "0: let the world play each prompt 2 times or more in a row (its `group`)"
            )
            raise Failed(Failure("advantage = rloo", "nothing_to_learn", detail))
        found = leave_one_out(scores, groups)
        mine = self._accelerator.process_index
        ours = [
            each for each, one in zip(found, lesson.accounts, strict=True) if one.process == mine
        ]
        return torch.tensor(ours, device=self._accelerator.device)

    def _estimate(self, lesson: Lesson, charge: float) -> None:
        rules, tokens = self._rules, lesson.tokens
        there_EL, mine = tokens.episodes_EL, self._accelerator.process_index
        scores_E = torch.tensor([one.score for one in lesson.accounts if one.process == mine])
        rewards_EL = token_rewards(
            tokens.line(tokens.sampled_N),
            tokens.line(tokens.reference_N),
            there_EL,
            scores_E.to(there_EL.device),
            charge,
        )
        if rules.whiten_rewards:
            rewards_EL = whitened(rewards_EL, there_EL, shift=False, total=self._total)
        values_EL = tokens.line(tokens.values_N)
        last_EL = tokens.last_EL if rules.count == "action" else None
        found_EL = gae(rewards_EL, values_EL, there_EL, rules.gamma, rules.trace, last_EL)
        tokens.advantages_N = found_EL[there_EL]
        tokens.returns_N = tokens.advantages_N + tokens.values_N

    def _loss(
        self, lesson: Lesson, tally: Tally, scale: float, epoch: int, first: bool, piece: Piece
    ) -> Tensor:
        """Of a piece: its part of the minibatch's."""
        rules, batch, at_N = self._rules, piece.batch, piece.tokens_N
        tokens, said_BA, warmth = lesson.tokens, batch.said_BA, rules.sampling.temperature
        with lesson.kept.under(piece):
            logits_BAV, values_BA = self._learner.model(batch, warmth)
        new_BA = logprobs(logits_BAV, batch)
        if first:  # nothing has been learnt from this batch yet
            tokens.old_N[at_N] = new_BA.detach()[said_BA]
        old_BA = spread(tokens.old_N[at_N], said_BA)
        advantages_BA = spread(tokens.advantages_N[at_N], said_BA)
        losses_BA, clipped_BA = policy_loss(new_BA, old_BA, advantages_BA, rules.clip)
        loss = losses_BA.sum()
        apart_BA = (new_BA - old_BA).detach()
        tally.add(seen=said_BA, policy_loss=losses_BA, clipped=clipped_BA, approxkl=apart_BA**2 / 2)
        if first:
            tally.largest(ratio=apart_BA.expm1())
        if epoch == 0:
            tally.add(read=said_BA, entropy=entropies(logits_BAV.detach(), batch))
        if values_BA is not None:
            fits_BA, held_BA = value_loss(
                values_BA,
                spread(tokens.values_N[at_N], said_BA),
                spread(tokens.returns_N[at_N], said_BA),
                rules.value_clip,
            )
            fits_BA = fits_BA.masked_fill(~said_BA, 0.0)
            loss = loss + rules.value_weight * fits_BA.sum()
            tally.add(value_loss=fits_BA, value_clipped=held_BA & said_BA)
        if rules.kl == "loss":
            with self._accelerator.autocast(), lesson.kept.under(piece):
                reference_BAV = reference_logits(self._made, batch, warmth)
            kl_BA = whole_kl(logits_BAV, reference_BAV).masked_fill(~said_BA, 0.0)
            loss = (1 - rules.alpha) * loss + rules.alpha * kl_BA.sum()
        return loss * scale

    def _measured(self, lesson: Lesson, tally: Tally) -> dict[str, float]:
        tokens = lesson.tokens
        tally.largest(mismatch=tokens.old_N - tokens.sampled_N)
        missed_N = tokens.returns_N - tokens.values_N
        tally.add(
            returns=tokens.returns_N,
            squares=tokens.returns_N**2,
            missed=missed_N,
            missed_squares=missed_N**2,
        )
        sums, most = tally.reached()
        seen, read = sums.pop("seen"), sums.pop("read")
        whole = _variance(read, sums.pop("returns"), sums.pop("squares"))
        left = _variance(read, sums.pop("missed"), sums.pop("missed_squares"))
        entropy = sums.pop("entropy") / read
        means = {name: value / seen for name, value in sums.items()}
        explained = {"explained": 1 - left / whole} if "value_loss" in means and whole > 0 else {}
        return {**means, **most, **explained, "entropy": entropy}

    def _total(self, values: Tensor) -> Tensor:
        found: Tensor = self._accelerator.reduce(values, "sum")
        return found


def _order(played: Sequence[Played], process: int) -> list[Place]:
    """The places of all rows of all processes, in the order of their episodes."""
    ours, number = [], 0
    for one in played:
        for said in one.rows:
            ours.append((one.episode, Place(process, number, len(said.row.action))))
            number += 1
    told: list[tuple[int, Place]] = gather_object(ours)
    return [place for _, place in sorted(told, key=lambda pair: pair[0])]


def _tokens(played: Sequence[Played], device: torch.device) -> Tokens:
    sampled = [value for one in played for said in one.rows for value in said.logprobs]
    sizes = [[len(said.row.action) for said in one.rows] for one in played]
    episodes_EL = lines([sum(each) for each in sizes])
    last_EL = torch.zeros_like(episodes_EL)
    for number, each in enumerate(sizes):
        last_EL[number, torch.tensor(each, dtype=torch.long).cumsum(0) - 1] = True
    return Tokens(torch.tensor(sampled, device=device), episodes_EL.to(device), last_EL.to(device))


def _outcome(lesson: Lesson) -> dict[str, float]:
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


def _variance(count: float, summed: float, squares: float) -> float:
    return max(squares / count - (summed / count) ** 2, 0.0)
