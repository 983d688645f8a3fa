"""A sentence encoder as the beginning of a reward model: it learns, and padding changes nothing."""

from pathlib import Path
from random import Random

import pytest
from asking import FILLERS, write_bert
from comparing import write_lines

from recipes.rewards import score_with_both_outputs, write_pretrained_encoder
from rookery.errors import Failed
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import TrainedModelSettings, load_tokenizer
from rookery.learn.reward_model import RewardInputEncoder, RewardModel
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.records import Answer, Comparison, Page, Question, Rating

CONTEXT = 40
ASKED = Question("q", "asks1")


def answer(good: bool, chance: Random) -> Answer:
    words = [*chance.sample(FILLERS, chance.randint(2, 6)), "left1" if good else "left2"]
    chance.shuffle(words)
    text = " ".join(words)
    return Answer("says1", (Page("https://a.example/", "filler1", text).quote(0, len(text)),))


def compared(number: int) -> Comparison:
    chance = Random(number)
    first = chance.random() < 0.5
    pair = (answer(first, chance), answer(not first, chance))
    asked = Question(str(number), f"asks1 {number}")
    return Comparison(asked, pair, (float(first), float(not first)), "ada")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warm")
    write_pretrained_encoder(folder / "warm", str(write_bert(folder / "bert", places=CONTEXT)))
    return folder / "warm"


@pytest.fixture(scope="module")
def learnt(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> RewardTrainingResult:
    folder = tmp_path_factory.mktemp("learnt")
    comparisons = [compared(number) for number in range(160)]
    ratings = [
        Rating(each.question, one, scale, weight, "ada")
        for each in comparisons
        for one, weight in zip(each.answers, each.weights, strict=True)
        for scale in ("supported", "plausible")
    ]
    settings = RewardTrainingSettings(
        TrainedModelSettings(str(warm)),
        str(write_lines(folder / "c.jsonl", comparisons)),
        OptimizerSettings(rate=3e-3),
        ratings=str(write_lines(folder / "r.jsonl", ratings)),
        epochs=2,
        batch=16,
        validation=0.2,
    )
    return train_reward_model(settings, folder / "out")


def test_both_outputs_learn(learnt: RewardTrainingResult) -> None:
    assert learnt.before
    assert learnt.after
    assert learnt.foretold
    assert learnt.before.credit < 0.8
    assert learnt.after.credit > 0.95
    assert learnt.foretold.accuracy > 0.9


def test_the_reward_is_read_at_the_token_that_begins_what_is_shown(warm: Path) -> None:
    tokenizer, ends, pad = load_tokenizer(warm)
    assert ends == {tokenizer.sep_token_id}
    assert pad == tokenizer.pad_token_id
    shown = RewardInputEncoder(tokenizer, min(ends), pad, CONTEXT).encode_answer(
        ASKED, answer(True, Random(0))
    )
    words = tokenizer.convert_ids_to_tokens(shown.tokens)
    assert words[0] == "[CLS]"
    assert [at for at, word in enumerate(words) if word == "[SEP]"][-1] == len(words) - 1
    assert words.count("[SEP]") == 3
    assert words.count("[CLS]") == 1


@pytest.mark.slow
def test_an_answer_scores_the_same_alone_and_beside_longer_ones(
    learnt: RewardTrainingResult,
) -> None:
    pairs = [(ASKED, answer(bool(n % 2), Random(n))) for n in range(12)]
    scorer = RewardModel(Path(learnt.model), device="cpu")
    together = scorer.score_answers(pairs)
    assert [scorer(*pair) for pair in pairs] == pytest.approx(together, abs=1e-5)
    assert max(together) - min(together) > 1


def test_the_first_output_is_the_reward_and_the_second_says_what_is_good(
    learnt: RewardTrainingResult,
) -> None:
    pairs = [(ASKED, answer(bool(n % 2), Random(n))) for n in range(40)]
    scorer = RewardModel(Path(learnt.model), device="cpu")
    found = score_with_both_outputs(Path(learnt.model), pairs, CONTEXT)
    shifted = [reward + scorer.scale.bias for reward, _ in found]
    assert shifted == pytest.approx(scorer.score_answers(pairs), abs=1e-5)
    right = [(good > 0) == bool(n % 2) for n, (_, good) in enumerate(found)]
    assert sum(right) >= 36


def test_a_folder_without_an_encoder_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no_model"):
        write_pretrained_encoder(tmp_path / "warm", str(tmp_path / "nothing"))
