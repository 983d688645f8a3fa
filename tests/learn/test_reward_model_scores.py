"""A reward model as a Reward: the same alone and beside others, wherever it was learnt."""

import json
import math
import shutil
from pathlib import Path
from random import Random

import pytest
import torch
from comparing import BAD, GOOD, answer, pair, question, write_lines, write_small
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from rookery.answers.best_of_n import choose_best_answer
from rookery.errors import Failed
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    load_tokenizer,
    load_trainable_model,
    save_pretrained_model,
)
from rookery.learn.reward_model import REWARD_CONFIG_KEY, RewardModel
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.records import Answer, Question, Reward

ASKED = [(question(n), answer(bool(n % 2), Random(n))) for n in range(30)]


@pytest.fixture(scope="module")
def preferred(tmp_path_factory: pytest.TempPathFactory) -> RewardTrainingResult:
    folder = tmp_path_factory.mktemp("scorer")
    file = write_lines(folder / "pairs", map(pair, range(150)))
    lm = TrainedModelSettings(str(write_small(folder / "lm")))
    chosen = RewardTrainingSettings(lm, str(file), OptimizerSettings(rate=1e-3), batch=16)
    return train_reward_model(chosen, folder / "out")


@pytest.fixture(scope="module")
def scorer(preferred: RewardTrainingResult) -> RewardModel:
    return RewardModel(Path(preferred.model), device="cpu")


@pytest.fixture
def copied(preferred: RewardTrainingResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(preferred.model, tmp_path / "model"))


def why(folder: Path) -> tuple[str, str]:
    with pytest.raises(Failed) as failed:
        RewardModel(folder, device="cpu").score_answers(ASKED)
    return failed.value.failure.outcome, failed.value.failure.detail


def test_it_chooses_the_best_of_several_answers(scorer: RewardModel) -> None:
    reward: Reward = scorer
    answers = [Answer(f"nest {BAD}"), Answer(f"nest {GOOD}"), Answer(f"{BAD} nest")]
    choice = choose_best_answer(Question("1", "What about the nest, 1?"), answers, reward)
    assert choice.number == 1
    assert choice.scores[1] > 0 > max(choice.scores[0], choice.scores[2])


def test_a_reward_is_the_same_alone_and_beside_longer_ones(
    scorer: RewardModel, preferred: RewardTrainingResult
) -> None:
    alone = [scorer(*each) for each in ASKED]
    assert scorer.score_answers(ASKED) == pytest.approx(alone, abs=1e-5)
    assert len(set(alone)) > 20
    one_by_one = RewardModel(Path(preferred.model), device="cpu", rows=1)
    assert one_by_one.score_answers(ASKED) == pytest.approx(alone, abs=1e-6)
    assert scorer.score_answers([]) == []


def test_transformers_read_the_reward_where_we_do_whatever_side_is_padded(
    scorer: RewardModel, preferred: RewardTrainingResult
) -> None:
    model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
        preferred.model, local_files_only=True
    )
    pad = int(model.config.pad_token_id)
    for asked, said in ASKED[:5]:
        tokens = scorer._input_encoder.encode_answer(asked, said).tokens
        assert tokens[-1] != pad
        for before, after in ((0, 0), (0, 7), (7, 0), (3, 4)):
            ids = torch.tensor([[*[pad] * before, *tokens, *[pad] * after]])
            seen = torch.tensor([[*[0] * before, *[1] * len(tokens), *[0] * after]])
            with torch.inference_mode():
                found = model(input_ids=ids, attention_mask=seen).logits[0, 0].item()
            assert found + scorer.scale.bias == pytest.approx(scorer(asked, said), abs=1e-5)


def test_an_answer_that_does_not_fit_has_no_score_and_is_never_chosen(scorer: RewardModel) -> None:
    endless = Answer("crow " * 500)
    found = scorer.score_answers([(question(1), endless), ASKED[0], (question(2), endless)])
    assert math.isnan(found[0])
    assert math.isnan(found[2])
    assert found[1] == pytest.approx(scorer(*ASKED[0]), abs=1e-5)
    assert choose_best_answer(question(1), [endless, Answer(BAD)], scorer).number == 1


def test_a_reward_model_that_was_learnt_elsewhere_scores_as_it_is(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "lm")
    torch.manual_seed(1)
    model = load_trainable_model(TrainedModelSettings(str(folder)), "row")
    save_pretrained_model(model, load_tokenizer(folder)[0], tmp_path / "rm")
    scorer = RewardModel(tmp_path / "rm", device="cpu")
    assert (scorer.scale.bias, scorer.scale.odds) == (0.0, 1.0)
    tokens = torch.tensor([scorer._input_encoder.encode_answer(*ASKED[0]).tokens])
    with torch.inference_mode():
        assert scorer(*ASKED[0]) == pytest.approx(model(input_ids=tokens).logits.item(), abs=1e-6)

    save_pretrained_model(
        load_trainable_model(TrainedModelSettings(str(folder)), "row", 3),
        load_tokenizer(folder)[0],
        tmp_path / "3",
    )
    assert why(tmp_path / "3")[0] == "bad_model"
    assert "3 outputs" in why(tmp_path / "3")[1]


def test_a_folder_that_holds_no_reward_model_is_refused_in_words(
    copied: Path, tmp_path: Path
) -> None:
    assert why(tmp_path / "nowhere")[0] == "no_model"
    outcome, detail = why(write_small(tmp_path / "lm"))
    assert outcome == "bad_model"
    assert "rookery learn prefer" in detail

    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, REWARD_CONFIG_KEY: {"bias": "much"}}))
    assert why(copied)[0] == "bad_model"
    assert REWARD_CONFIG_KEY in why(copied)[1]
    (copied / "config.json").write_text("{")
    assert why(copied)[0] == "bad_model"
    (copied / "tokenizer.json").unlink()
    assert why(copied)[0] == "no_model"


@pytest.mark.parametrize("harm", ["cut short", "not a number", "a weight lost"])
def test_weights_that_were_harmed_are_refused(harm: str, copied: Path) -> None:
    file = copied / "model.safetensors"
    weights = load_file(file)
    if harm == "cut short":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        if harm == "not a number":
            weights["model.norm.weight"][0] = math.nan
        else:
            del weights["model.layers.1.mlp.up_proj.weight"]
        save_file(weights, file, {"format": "pt"})
    assert why(copied)[0] == "bad_model"
