"""What a batch is worth token by token, by hand: whitening, shares of losses, minibatches."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from enumerable import write_listed
from torch import Tensor, nn

from rookery.learn.action_batches import ActionRow, BatchSplitter, RowLocation, collate_rows
from rookery.learn.decoding import SampledAction
from rookery.learn.episodes import Trajectory
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.policy_gradient import (
    MetricAccumulator,
    PolicyGradientTrainer,
    PreparedBatch,
    ReinforcementSettings,
    build_policy_networks,
)
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reward_training import RewardTrainer, RewardTrainingSettings
from rookery.learn.training_data import ComparisonItem, ComparisonSplit

ROOT14 = math.sqrt(14)
SAID = [([1, 2], [3, 4], 2.0), ([5], [0], -1.0)]
"""two episodes of one row: what was shown, what was said, and what it was worth"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_listed(tmp_path_factory.mktemp("listed") / "model", 0)


def judged(model: str, **changes: Any) -> tuple[PolicyGradientTrainer, PreparedBatch]:
    """The two episodes, judged by a policy that is still its reference, with a value network that
    still says 0: the reward of a token is 0, and that of the last one the score."""
    rules = ReinforcementSettings(
        policy=TrainedModelSettings(model), steps=1, episodes=2, minibatches=1, **changes
    )
    actor = build_policy_networks(ReinforcementSettings(policy=rules.policy, steps=1))
    learner = ModelOptimizer(actor, OptimizerSettings(clip=None), 1, Accelerator(cpu=True))
    teacher = PolicyGradientTrainer(rules, actor, learner, 0)
    batch = collate_rows([ActionRow(prompt, completion) for prompt, completion, _ in SAID], 0)
    with torch.no_grad():
        said_N = actor(batch, 1.0, {"logprobs"})["logprobs"]
    logprobs = said_N.split([len(completion) for _, completion, _ in SAID])
    played = [
        Trajectory(
            n,
            [SampledAction(ActionRow(prompt, completion), logprobs[n].tolist(), True)],
            worth,
            n,
        )
        for n, (prompt, completion, worth) in enumerate(SAID)
    ]
    lesson = teacher.prepare_batch(played, 0)
    assert not lesson.tokens.values_N.any()
    assert lesson.kl == pytest.approx(0, abs=1e-6)
    teacher._compute_advantages(lesson, 0.1)
    return teacher, lesson


def whitened_by_hand(values: list[float]) -> list[float]:
    """(x - mean) / sqrt(variance + 1e-8), with the biased variance, as in the `whiten` of the code
    that came with Ziegler, and of TRL's PPO."""
    every = np.array(values, dtype=np.float64)
    return list((every - every.mean()) / np.sqrt(every.var() + 1e-8))


@pytest.mark.parametrize(
    ("rewards", "advantages", "expected"),
    [
        (False, False, [1.0, 2.0, -1.0]),
        (False, True, [1 / ROOT14, 4 / ROOT14, -5 / ROOT14]),
        (True, False, [1.5 / ROOT14 + 1 / 2, 5 / ROOT14 + 1 / 3, -4 / ROOT14 + 1 / 3]),
        (True, True, None),
    ],
)
def test_rewards_and_advantages_are_whitened_where_the_settings_say_so(
    model: str, rewards: bool, advantages: bool, expected: list[float] | None
) -> None:
    """λ 0.5. The first episode has two tokens and the score 2: rewards 0, 2 and advantages 1, 2.
    The second has one, and -1.

    Of advantages 1, 2, -1 the mean is 2/3 and the variance 14/9: (1/3, 4/3, -5/3) / (√14 / 3).
    Of rewards 0, 2, -1 the mean is 1/3 and the variance 14/9; with their mean kept they become
    -1/√14 + 1/3, 5/√14 + 1/3, -4/√14 + 1/3, and the first advantage is the first of these and half
    of the second. With both, these advantages are whitened again.
    """
    changes = {"whiten_rewards": rewards, "whiten_advantages": advantages, "trace": 0.5}
    _, lesson = judged(model, **changes)
    whole = [1.5 / ROOT14 + 1 / 2, 5 / ROOT14 + 1 / 3, -4 / ROOT14 + 1 / 3]
    expected = expected or whitened_by_hand(whole)
    assert lesson.tokens.advantages_N.tolist() == pytest.approx(expected, abs=1e-5)
    returns = whole if rewards else [1.0, 2.0, -1.0]
    assert lesson.tokens.returns_N.tolist() == pytest.approx(returns, abs=1e-5)


def test_returns_are_advantages_and_values(model: str) -> None:
    """λ 0.5, rewards 0, 2 and -1, values 0.5, 1 and -0.5. Last of the first: 2 - 1 = 1. First:
    0 + 1 - 0.5 = 0.5, and half of 1 more: 1. The second episode: -1 + 0.5 = -0.5."""
    changes = {"whiten_rewards": False, "whiten_advantages": False, "trace": 0.5}
    teacher, lesson = judged(model, **changes)
    lesson.tokens.values_N = torch.tensor([0.5, 1.0, -0.5])
    teacher._compute_advantages(lesson, 0.1)
    assert lesson.tokens.advantages_N.tolist() == pytest.approx([1.0, 1.0, -0.5], abs=1e-5)
    assert lesson.tokens.returns_N.tolist() == pytest.approx([1.5, 2.0, -1.0], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_the_loss_has_its_shares(model: str, alpha: float) -> None:
    """Advantages 1, 2, -1 at a ratio of 1: the policy's loss is -2 of 3 tokens. Values of 0 against
    returns 1, 2, -1: half of 1 + 4 + 1 is 3 of 3 tokens, and the weight of it 0.25: 0.75. The KL
    from the reference, which the policy still is, is 0. So (1 - alpha) · (-2 + 0.75) / 3."""
    changes: dict[str, Any] = {"whiten_rewards": False, "whiten_advantages": False, "trace": 0.5}
    changes |= {"kl": "loss", "alpha": alpha, "value_weight": 0.25, "epochs": 1}
    teacher, lesson = judged(model, **changes)
    [minibatch] = lesson.begun
    [piece] = minibatch.pieces
    loss = teacher._compute_loss(lesson, MetricAccumulator(), 1 / minibatch.tokens, True, piece)
    assert loss.item() == pytest.approx((1 - alpha) * (-2 + 0.75) / 3, abs=1e-5)
    found = teacher.train_on_batch(lesson, 0, 0.1)
    assert found["policy_loss"] == pytest.approx(-2 / 3, abs=1e-5)
    assert found["value_loss"] == pytest.approx(1.0, abs=1e-5)


def test_the_entropy_is_that_of_the_tokens_that_were_drawn(model: str) -> None:
    """Drawn with log-probabilities -0.5, -1.5 and -0.7: 2.7 nats in 3 tokens, whatever the policy
    says of them when it reads them again, which is its mismatch."""
    teacher, _ = judged(model)
    drawn = [[-0.5, -1.5], [-0.7]]
    played = [
        Trajectory(n, [SampledAction(ActionRow(prompt, said), drawn[n], True)], worth, n)
        for n, (prompt, said, worth) in enumerate(SAID)
    ]
    lesson = teacher.prepare_batch(played, 0)
    assert lesson.tokens.old_N.tolist() == pytest.approx([-0.5, -1.5, -0.7])
    found = teacher.train_on_batch(lesson, 0, 0.1)
    assert found["entropy"] == pytest.approx(0.9)
    assert found["mismatch"] > 0.1


class Table(nn.Module):
    """A reward model whose outputs for a row are those that stand beside its last token."""

    def __init__(self, outputs: list[list[float]]) -> None:
        super().__init__()
        self.outputs_VO = nn.Parameter(torch.tensor(outputs))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool) -> Any:
        last_N = attention_mask.sum(-1) - 1
        return SimpleNamespace(logits=self.outputs_VO[input_ids.gather(1, last_N[:, None])[:, 0]])


@pytest.mark.parametrize("auxiliary", [0.2, 0.5, 0.9])
def test_the_second_output_has_its_share_of_the_loss(auxiliary: float, tmp_path: Path) -> None:
    """Answers with the rewards 1 and 0, of which the first is preferred: the loss is ln(1 + 1/e),
    its gradient -0.26894 and 0.26894. Ratings of two answers are foretold by 2 (good) and 0.5 (not
    good): losses ln(1 + e^-2) and ln(1 + e^0.5), gradients -0.11920 / 2 and 0.62246 / 2. The second
    output has the share `auxiliary`, and the first the rest."""
    table = Table([[1.0, 2.0], [0.0, -7.0], [9.0, 0.5]])
    settings = RewardTrainingSettings(
        TrainedModelSettings("none"),
        "none",
        OptimizerSettings(clip=None),
        ratings="ratings",
        auxiliary=auxiliary,
    )
    ids = [np.array([number], np.int32) for number in range(3)]
    nan = math.nan
    batch = [
        ComparisonItem("a", (ids[0], ids[1]), (1.0, 0.0), (1.0, nan)),
        ComparisonItem("b", (ids[2],), (0.0,), (0.0,)),
    ]
    gradients: list[Tensor] = []
    watched: Any = table.outputs_VO
    watched.register_post_accumulate_grad_hook(lambda found: gradients.append(found.grad.clone()))
    learner = ModelOptimizer(table, settings.optimising, 1, Accelerator(cpu=True))
    training = RewardTrainer(
        settings, learner, 0, ComparisonSplit(batch, [], 0, 0), tmp_path / "best"
    )
    measured = training.train_step(0, batch)
    rest = 1 - auxiliary
    expected = [
        [-0.26894 * rest, -0.11920 / 2 * auxiliary],
        [0.26894 * rest, 0.0],
        [0.0, 0.62246 / 2 * auxiliary],
    ]
    torch.testing.assert_close(gradients[-1], torch.tensor(expected), atol=1e-5, rtol=0)
    assert measured["loss"] == pytest.approx(0.31326, abs=1e-5)
    assert measured["rated_loss"] == pytest.approx((0.12693 + 0.97408) / 2, abs=1e-5)


def rows(*sizes: tuple[int, int]) -> list[ActionRow]:
    """Rows of contexts and actions of so many tokens; each token is the row's number."""
    return [ActionRow([n] * before, [n] * after) for n, (before, after) in enumerate(sizes, 1)]


def test_rows_are_dealt_into_minibatches_and_pieces_by_hand() -> None:
    """Five rows, two minibatches: of 3 and of 2, each row once; of at most two rows a piece, those
    of like length together; their tokens at their places among all."""
    made = rows((4, 2), (1, 1), (3, 5), (2, 1), (1, 2))
    order = [RowLocation(0, number, len(row.action)) for number, row in enumerate(made)]
    starts = [0, 2, 3, 8, 9, 11]
    portions = BatchSplitter(made, order, 0, 2, 0)
    dealt = portions.split_into_minibatches(2, "seed")
    assert [len(minibatch.pieces) for minibatch in dealt] == [2, 1]
    assert [minibatch.share for minibatch in dealt] == [0.6, 0.4]
    seen = [number for minibatch in dealt for piece in minibatch.pieces for number in piece.rows]
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert sum(minibatch.tokens for minibatch in dealt) == 11
    for minibatch in dealt:
        lengths = [len(made[n].context) for piece in minibatch.pieces for n in piece.rows]
        assert lengths == sorted(lengths)
        assert minibatch.tokens == sum(len(piece.tokens_N) for piece in minibatch.pieces)
        for piece in minibatch.pieces:
            assert len(piece.rows) <= 2
            places = [at for n in piece.rows for at in range(starts[n], starts[n + 1])]
            assert piece.tokens_N.tolist() == places
            said = piece.batch.actions_N.tolist()
            assert said == [n + 1 for n in piece.rows for _ in made[n].action]
    again = [
        [piece.rows for piece in each.pieces] for each in portions.split_into_minibatches(2, "seed")
    ]
    assert again == [[piece.rows for piece in each.pieces] for each in dealt]
    others = [portions.split_into_minibatches(2, f"seed {n}")[0].pieces[0].rows for n in range(20)]
    assert len({tuple(each) for each in others}) > 1
    [whole] = portions.split_into_minibatches(1, "seed")
    assert [piece.rows for piece in whole.pieces] == [[1], [4, 3], [2, 0]]
    assert (whole.tokens, whole.share) == (11, 1.0)


def test_processes_agree_on_minibatches_without_asking() -> None:
    """Of five rows, process 0 has three and process 1 two; in every minibatch both have as many
    pieces, and what fills up says nothing."""
    made = [rows((1, 1), (2, 3), (3, 1)), rows((4, 2), (5, 1))]
    order = [
        RowLocation(process, number, len(row.action))
        for process, some in enumerate(made)
        for number, row in enumerate(some)
    ]
    shares = [
        BatchSplitter(some, order, n, 1, 0).split_into_minibatches(2, "x")
        for n, some in enumerate(made)
    ]
    for ours, theirs in zip(*shares, strict=True):
        assert (ours.tokens, ours.share) == (theirs.tokens, theirs.share)
        assert len(ours.pieces) == len(theirs.pieces)
        said = [sum(len(piece.batch.actions_N) for piece in each.pieces) for each in (ours, theirs)]
        assert sum(said) == ours.tokens
        for piece in (*ours.pieces, *theirs.pieces):
            assert bool(piece.rows) == bool(len(piece.batch.actions_N)) == bool(len(piece.tokens_N))
    for process, some in enumerate(made):
        seen = [n for each in shares[process] for piece in each.pieces for n in piece.rows]
        assert sorted(seen) == list(range(len(some)))
