"""A reward model: its loss by hand and by TRL, what it learns, and that nothing shifts it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import fmean, pvariance
from typing import Any

import msgspec
import pytest
import torch
from comparing import BAD, GOOD, answer, four, pair, question, rating, write_lines, write_small
from safetensors.torch import load_file, save_file
from several import in_two_processes
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rookery.errors import Failed
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import (
    LoraSettings,
    TrainedModelSettings,
    find_head,
    load_trainable_model,
)
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    _load_comparison_data,
    _load_model,
    compute_preference_loss,
    compute_rating_loss,
    pad_to_comparisons,
    train_reward_model,
)
from rookery.learn.training_data import make_epoch_batches
from rookery.records import Answer, Comparison, Episode, Page


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, and files of comparisons."""
    folder = tmp_path_factory.mktemp("world")
    write_small(folder / "lm")
    write_lines(folder / "pairs", map(pair, range(200)))
    write_lines(folder / "mixed", [pair(n) if n % 2 else four(n) for n in range(300)])
    write_lines(folder / "noisy", [pair(n, noise=0.3) for n in range(200)])
    return folder


def settings(world: Path, file: str = "pairs", **changed: Any) -> RewardTrainingSettings:
    made = RewardTrainingSettings(
        trained=TrainedModelSettings(str(world / "lm")),
        comparisons=str(world / file),
        optimising=OptimizerSettings(rate=1e-3),
        batch=16,
        piece=16,
    )
    return msgspec.structs.replace(made, **changed)


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_bytes().splitlines()]


def outcome(run: Callable[[], object]) -> str:
    with pytest.raises(Failed) as failed:
        run()
    return failed.value.failure.outcome


# The loss


@pytest.mark.parametrize(
    ("rewards", "weights", "loss"),
    [
        ([1.0, 0.0], [1.0, 0.0], math.log(1 + math.exp(-1))),
        ([1.0, 0.0], [0.5, 0.5], 0.813261687518),  # half of 0.313262 and half of 1.313262
        ([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0], 0.440189698561),
        ([5.0, 5.0, 5.0, 5.0], [1.0, 0.0, 0.0, 0.0], math.log(4)),
        ([2.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], math.log(math.exp(2) + 2) - 2 / 3),
        ([1.0, 0.0, -math.inf], [1.0, 0.0, 0.0], math.log(1 + math.exp(-1))),
        ([-math.inf, 7.0, -math.inf], [0.0, 1.0, 0.0], 0.0),
    ],
)
def test_the_loss_is_what_a_hand_computes(
    rewards: list[float], weights: list[float], loss: float
) -> None:
    rewards_BK = torch.tensor([rewards], dtype=torch.float64, requires_grad=True)
    found = compute_preference_loss(rewards_BK, torch.tensor([weights], dtype=torch.float64))
    assert found.item() == pytest.approx(loss, abs=1e-10)
    found.backward()  # type: ignore[no-untyped-call]
    wanted_BK = rewards_BK.detach().softmax(-1) - torch.tensor([weights])
    assert rewards_BK.grad is not None
    assert torch.allclose(rewards_BK.grad, wanted_BK.to(torch.float64), atol=1e-7)


def test_comparisons_of_two_and_of_four_are_one_batch() -> None:
    both = compute_preference_loss(
        torch.tensor([[1.0, 0.0, -math.inf, -math.inf], [0.0, 1.0, 2.0, 3.0]]),
        torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
    )
    assert float(both) == pytest.approx(0.313262 + 0.440190, abs=1e-5)


def test_only_answers_that_were_rated_count_in_the_loss_of_ratings() -> None:
    logits_N = torch.tensor([2.0, -1.0, 50.0], requires_grad=True)
    found = compute_rating_loss(logits_N, torch.tensor([1.0, 0.0, math.nan]))
    assert found.item() == pytest.approx(math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1)))
    found.backward()  # type: ignore[no-untyped-call]
    assert logits_N.grad is not None
    assert logits_N.grad[2] == 0


def test_answers_are_spread_over_their_comparisons() -> None:
    found = pad_to_comparisons(torch.tensor([1.0, 2.0, 3.0, 4.0]), [1, 3], -math.inf)
    assert found.tolist() == [[1.0, -math.inf, -math.inf], [2.0, 3.0, 4.0]]
    last_BK = pad_to_comparisons(torch.tensor([1.0, 2.0, 3.0, 4.0]), [3, 1], -1.0)
    assert last_BK.tolist() == [[1.0, 2.0, 3.0], [4.0, -1.0, -1.0]]


@pytest.mark.slow
def test_fifty_steps_are_those_of_trl(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
    from datasets import Dataset  # type: ignore[import-untyped]
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    clear = [each for n in range(600) if (each := pair(n, 0.3)).weights[0] != 0.5][:400]
    file = write_lines(tmp_path / "clear", clear)
    chosen = settings(world, str(file), batch=8, validation=0.0)
    train_reward_model(chosen, tmp_path / "out")
    ours = metrics(tmp_path / "out")

    showing, model = _load_model(chosen)
    data = _load_comparison_data(chosen, showing)
    rows = [
        {
            "chosen_ids": item.rows[item.weights.index(1.0)].tolist(),
            "rejected_ids": item.rows[item.weights.index(0.0)].tolist(),
        }
        for step in make_epoch_batches(400, 8, 1, 0)
        for item in (data.training[at] for at in step)
    ]

    class InOrder(RewardTrainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(Dataset.from_list(rows))

    trainer = InOrder(
        model=model,
        args=RewardConfig(
            output_dir=str(tmp_path / "trl"),
            per_device_train_batch_size=8,
            num_train_epochs=1,
            learning_rate=1e-3,
            lr_scheduler_type="linear",
            bf16=False,
            activation_checkpointing=False,
            max_length=None,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=showing.tokenizer,
    )
    trainer.train()
    theirs = [line for line in trainer.state.log_history if "grad_norm" in line]
    assert len(theirs) == len(ours) == 50
    assert theirs[0]["loss"] > 0.1 < theirs[-1]["loss"]  # there is something to compare
    for one, other in zip(theirs, ours, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["grad_norm"] == pytest.approx(other["gradient"], abs=1e-4)


# What it learns


@pytest.mark.slow
def test_from_pairs_ties_and_best_of_four_it_learns_what_makes_an_answer_better(
    world: Path, tmp_path: Path
) -> None:
    done = train_reward_model(settings(world, "mixed", validation=0.2), tmp_path)
    assert done.before is not None
    assert done.after is not None
    assert done.before.accuracy is not None
    assert done.after.accuracy is not None
    assert done.before.accuracy < 0.75
    assert done.after.accuracy > 0.95
    assert done.after.comparisons == 60
    assert 0 < done.after.ties < 60
    assert done.comparisons == 240
    assert {rater.by for rater in done.after.raters} == {"ada", "bob", "eve"}
    scorer = RewardModel(Path(done.model), device="cpu")
    strange = question(7777)
    assert scorer(strange, Answer(f"wing {GOOD} sky")) > scorer(strange, Answer(f"wing {BAD} sky"))


@pytest.mark.slow
def test_differences_of_rewards_are_log_odds_and_calibrating_makes_them_truer(
    world: Path, tmp_path: Path
) -> None:
    chosen = settings(
        world, "noisy", validation=0.5, epochs=4, optimising=OptimizerSettings(rate=3e-3)
    )
    done = train_reward_model(chosen, tmp_path)
    assert done.calibrated is not None
    assert done.after is not None
    assert done.calibrated.loss < done.after.loss
    scorer = RewardModel(Path(done.model), device="cpu")
    first, second = pair(3).answers
    one, other = scorer.score_answers([(question(3), first), (question(3), second)])
    odds = done.scale.odds * (one - other)
    # Three of ten were preferred wrongly: no more can be known than log-odds of log(7 / 3) = 0.85.
    assert 0.2 < abs(odds) < 3


@pytest.mark.slow
def test_rewards_have_mean_0_and_variance_1_on_the_reference_policys_samples(
    world: Path, tmp_path: Path
) -> None:
    samples = [(question(n), answer(n % 5 == 0, Random(n))) for n in range(500, 550)]
    episodes = [Episode(asked, "rho", answer=said) for asked, said in samples]
    episodes.append(Episode(question(1), "rho", stop="bad_syntax"))
    file = write_lines(tmp_path / "rho", episodes)
    done = train_reward_model(settings(world, samples=str(file)), tmp_path / "out")
    assert (done.samples, done.scaled_on) == (50, str(file))
    rewards = RewardModel(Path(done.model), device="cpu").score_answers(samples)
    assert fmean(rewards) == pytest.approx(0, abs=1e-5)
    assert pvariance(rewards) == pytest.approx(1, abs=1e-5)

    other = train_reward_model(settings(world), tmp_path / "other")
    learnt = list(map(pair, range(200)))
    assert other.scaled_on == str(world / "pairs")
    assert other.samples == 2 * other.comparisons == 360
    elsewhere = RewardModel(Path(other.model), device="cpu").score_answers(samples)
    assert abs(fmean(elsewhere)) > 0.01
    of_all = [(each.question, said) for each in learnt for said in each.answers]
    assert abs(fmean(RewardModel(Path(other.model), device="cpu").score_answers(of_all))) < 0.2


def test_the_scale_outlives_whoever_reads_the_model_and_writes_it_again(
    world: Path, tmp_path: Path
) -> None:
    done = train_reward_model(settings(world), tmp_path / "out")
    asked = [(question(n), answer(bool(n % 2), Random(n))) for n in range(20)]
    rewards = RewardModel(Path(done.model), device="cpu").score_answers(asked)
    model = AutoModelForSequenceClassification.from_pretrained(done.model, local_files_only=True)
    model.save_pretrained(tmp_path / "again")
    AutoTokenizer.from_pretrained(done.model, local_files_only=True).save_pretrained(
        tmp_path / "again"
    )
    again = RewardModel(tmp_path / "again", device="cpu")
    assert again.scale == done.scale
    assert again.score_answers(asked) == rewards


@pytest.mark.slow
def test_a_second_output_foretells_ratings_and_may_be_blended_in(
    world: Path, tmp_path: Path
) -> None:
    ratings = [
        rating(number, good, scale)
        for number in range(150)
        for scale in ("supported", "plausible")
        for good in [number % 2 == 0]
    ]
    ratings += [rating(n, True, "supported") for n in range(400, 420)]  # on one scale of two
    file = write_lines(tmp_path / "ratings", ratings)
    chosen = settings(world, ratings=str(file), validation=0.2, epochs=2)
    plain, blended = (
        train_reward_model(msgspec.structs.replace(chosen, blend=blend), tmp_path / f"{blend}")
        for blend in (0.0, 0.5)
    )
    assert plain.foretold is not None
    assert plain.foretold.accuracy > 0.9
    assert plain.foretold.area is not None
    assert plain.foretold.area > 0.95
    assert 15 < plain.foretold.answers < 45
    assert plain.after is not None
    assert blended.after is not None
    assert plain.after.loss != blended.after.loss

    scorer = RewardModel(Path(blended.model), device="cpu")
    asked = [
        (each.question, said) for n in range(200) for each in [pair(n)] for said in each.answers
    ]
    rewards = scorer.score_answers(asked)
    assert abs(fmean(rewards)) < 0.1
    assert pvariance(rewards) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_best_weights_are_kept_and_nothing_better_ends_it(world: Path, tmp_path: Path) -> None:
    chosen = settings(
        world,
        "noisy",
        epochs=10,
        validation=0.4,
        check=3,
        patience=4,
        optimising=OptimizerSettings(rate=1e-2, schedule="constant"),
    )
    done = train_reward_model(chosen, tmp_path)
    lines = metrics(tmp_path)
    losses = {
        line["step"] + 1: line["validation_loss"] for line in lines if "validation_loss" in line
    }
    assert done.steps == len(lines) == done.best_step + 3 * 4 < 80
    assert done.after is not None
    assert done.after.loss == pytest.approx(min(losses.values()), abs=1e-6)
    assert losses[done.best_step] == min(losses.values())
    assert train_reward_model(chosen, tmp_path) == done  # which was over


@pytest.mark.slow
def test_frozen_layers_stay_and_lora_is_put_into_the_weights(world: Path, tmp_path: Path) -> None:
    before = load_file(world / "lm" / "model.safetensors")
    half = TrainedModelSettings(str(world / "lm"), frozen=0.5)
    low = TrainedModelSettings(str(world / "lm"), lora=LoraSettings())
    for name, trained in (("frozen", half), ("lora", low)):
        done = train_reward_model(settings(world, trained=trained), tmp_path / name)
        after = load_file(Path(done.model) / "model.safetensors")
        changed = {
            key
            for key, value in after.items()
            if not torch.equal(value, before.get(key, value[:0]))
        }
        assert "score.weight" in changed
        assert "model.layers.1.self_attn.q_proj.weight" in changed
        assert ("model.layers.0.self_attn.q_proj.weight" in changed) == (name == "lora")
        assert ("model.layers.1.mlp.up_proj.weight" in changed) == (name == "frozen")
        assert "model.embed_tokens.weight" not in changed


def test_a_new_head_is_small_and_follows_the_seed(world: Path, tmp_path: Path) -> None:
    heads = [find_head(_load_model(settings(world, seed=seed))[1]).weight for seed in (0, 0, 1)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    wide = find_head(
        load_trainable_model(TrainedModelSettings(str(world / "lm")), "row", 400)
    ).weight
    assert wide.std().item() == pytest.approx(65**-0.5, rel=0.03)


# That nothing shifts it


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_bit_by_bit(world: Path, tmp_path: Path) -> None:
    chosen = settings(
        world,
        "mixed",
        every=3,
        check=4,
        optimising=OptimizerSettings(rate=1e-3, average=0.9),
    )
    whole = train_reward_model(chosen, tmp_path / "whole")
    broken = tmp_path / "broken"

    def pull(step: int, *_: object) -> None:
        if step == 8:
            (broken / "cord").write_text("enough for now")

    assert outcome(lambda: train_reward_model(chosen, broken, pull)) == "stopped"
    assert len(metrics(broken)) == 8
    (broken / "cord").unlink()
    again = train_reward_model(chosen, broken)
    for file in ("model/model.safetensors", "model/config.json", "metrics.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (broken / file).read_bytes(), file
    assert msgspec.structs.replace(again, model="") == msgspec.structs.replace(whole, model="")


def close(one: RewardTrainingResult, other: RewardTrainingResult, limit: float) -> None:
    """Both models reward alike, and their runs were alike."""
    rows = [metrics(Path(each.model).parent) for each in (one, other)]
    assert len(rows[0]) == len(rows[1]) > 5
    for first, second in zip(*rows, strict=True):
        assert first == pytest.approx(second, abs=limit, rel=limit)
    pairs = [(question(n), answer(bool(n % 2), Random(n))) for n in range(10)]
    scores = [
        RewardModel(Path(each.model), device="cpu").score_answers(pairs) for each in (one, other)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=10 * limit)


@pytest.mark.slow
def test_a_batch_in_pieces_is_a_batch(world: Path, tmp_path: Path) -> None:
    whole, parts = (
        train_reward_model(
            settings(
                world, "mixed", piece=piece, optimising=OptimizerSettings(rate=1e-4, epsilon=1e-5)
            ),
            tmp_path / f"{piece}",
        )
        for piece in (16, 3)
    )
    close(whole, parts, 1e-6)


@pytest.mark.slow
def test_recomputing_saves_memory_and_changes_nothing(world: Path, tmp_path: Path) -> None:
    again = TrainedModelSettings(str(world / "lm"), recompute=True)
    model = load_trainable_model(again, "row")
    assert model.training  # or nothing would be recomputed
    close(
        train_reward_model(settings(world), tmp_path / "1"),
        train_reward_model(settings(world, trained=again), tmp_path / "2"),
        1e-6,
    )


@pytest.mark.slow
def test_two_processes_are_one(world: Path, tmp_path: Path) -> None:
    ratings = [rating(n, n % 2 == 0, "good") for n in range(80)]
    chosen = settings(
        world,
        "mixed",
        ratings=str(write_lines(tmp_path / "ratings", ratings)),
        scales=("good",),
        batch=9,  # five for one process in two pieces, and four in one for the other
        piece=4,
        validation=0.5,
        optimising=OptimizerSettings(rate=1e-4, epsilon=1e-5),
    )
    (tmp_path / "settings.json").write_bytes(msgspec.json.encode(chosen))
    code = (
        "import msgspec, sys; from pathlib import Path\n"
        "from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model\n"
        "here = Path(sys.argv[1])\n"
        "read = (here / 'settings.json').read_bytes()\n"
        "train_reward_model(msgspec.json.decode(read, type=RewardTrainingSettings), here / 'two')\n"
    )
    (tmp_path / "two.py").write_text(code)
    in_two_processes(tmp_path / "two.py", str(tmp_path))
    one = train_reward_model(chosen, tmp_path / "one")
    close(one, msgspec.structs.replace(one, model=str(tmp_path / "two" / "model")), 1e-5)


@pytest.mark.slow
def test_a_tokenizer_without_a_pad_token_pads_with_what_ends_no_row(
    world: Path, tmp_path: Path
) -> None:
    folder = write_small(tmp_path / "lm")
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        about = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({k: v for k, v in about.items() if "pad" not in k}))
    same = settings(world, trained=TrainedModelSettings(str(folder)))
    done = train_reward_model(same, tmp_path / "out")
    usual = train_reward_model(settings(world), tmp_path / "usual")
    config = json.loads((Path(done.model) / "config.json").read_text())
    assert config["pad_token_id"] != config["eos_token_id"]
    # What pads is not looked at, so that it cannot matter what it is.
    for one, other in zip(metrics(tmp_path / "out"), metrics(tmp_path / "usual"), strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert usual.comparisons == done.comparisons


# Bad input


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("", "no_data"),
        ("\n\n", "no_data"),
        ("{}", "bad_line"),
        (pair(2).to_json() + "\nnonsense", "bad_line"),
        (
            pair(2).to_json().replace("1.0", "0.9"),
            "bad_line",
        ),
        (Comparison(question(1), (Answer("a"),), (1.0,), "ada").to_json(), "bad_line"),
        (
            Comparison(question(1), (Answer("a"), Answer("b")), (1.5, -0.5), "ada").to_json(),
            "bad_line",
        ),
        (pair(5).to_json() + "\n" + pair(9).to_json(), "one_sided"),
        (Comparison(question(1), (Answer("a"),) * 3, (1 / 3,) * 3, "ada").to_json(), "one_sided"),
        (pair(2).to_json(), "few_questions"),
        (
            Comparison(
                question(1), (Answer("crow " * 999), Answer("b")), (1.0, 0.0), "ada"
            ).to_json(),
            "too_long",
        ),
    ],
)
def test_a_file_that_teaches_nothing_is_refused_in_words(
    lines: str, wanted: str, world: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad").write_text(lines)
    with pytest.raises(Failed) as failed:
        train_reward_model(settings(world, str(tmp_path / "bad")), tmp_path / "out")
    assert failed.value.failure.outcome == wanted
    assert len(failed.value.failure.detail) > 30


def test_a_missing_file_and_a_missing_model_are_said(world: Path, tmp_path: Path) -> None:
    assert (
        outcome(lambda: train_reward_model(settings(world, "nowhere"), tmp_path / "1"))
        == "not_found"
    )
    nothing = TrainedModelSettings(str(tmp_path / "nothing"))
    assert (
        outcome(lambda: train_reward_model(settings(world, trained=nothing), tmp_path / "2"))
        == "no_model"
    )


@pytest.mark.parametrize("value", [2.0, 1.0])
def test_ratings_that_teach_nothing_are_refused(value: float, world: Path, tmp_path: Path) -> None:
    ratings = [msgspec.structs.replace(rating(n, True, "supported"), value=value) for n in range(9)]
    file = str(write_lines(tmp_path / "ratings", ratings))
    chosen = settings(world, ratings=file, scales=("supported",))
    wanted = "bad_line" if value == 2 else "one_sided"
    assert outcome(lambda: train_reward_model(chosen, tmp_path / "out")) == wanted
    other = settings(world, ratings=file, scales=("fluency",))
    if value == 1:
        assert outcome(lambda: train_reward_model(other, tmp_path / "out2")) == "no_data"


def test_a_tie_of_three_counts_and_an_endless_answer_is_left_out_and_counted(
    world: Path, tmp_path: Path
) -> None:
    page = Page("https://crow.example", "Crows", "crow magpie raven nest seed " * 60)
    quoted = Answer("crow [1]", (page.quote_whole_words(0, 1500),))
    more = [
        Comparison(question(900), (Answer("a"), Answer("b"), Answer("c")), (1 / 3,) * 3, "ada"),
        Comparison(question(901), (Answer("crow " * 500), Answer("b")), (1.0, 0.0), "ada"),
        Comparison(question(902), (quoted, Answer("b")), (1.0, 0.0), "ada"),
    ]
    file = write_lines(tmp_path / "more", [*map(pair, range(60)), *more])
    done = train_reward_model(settings(world, str(file), validation=0.0), tmp_path / "out")
    assert (done.comparisons, done.too_long, done.cut) == (62, 1, 1)
    assert done.before is done.after is done.calibrated is None


def test_what_is_no_number_stops_it_and_the_last_checkpoint_stays(
    world: Path, tmp_path: Path
) -> None:
    folder = write_small(tmp_path / "lm")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][3] = math.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    broken = settings(world, trained=TrainedModelSettings(str(folder)))
    assert outcome(lambda: train_reward_model(broken, tmp_path / "1")) == "not_a_number"

    wild = settings(
        world, every=1, validation=0.0, optimising=OptimizerSettings(rate=1e20, clip=None)
    )
    assert outcome(lambda: train_reward_model(wild, tmp_path / "2")) == "not_a_number"
    assert list((tmp_path / "2" / "checkpoints").glob("0*"))
    assert not (tmp_path / "2" / "model").exists()


def test_settings_that_contradict_themselves_are_refused(world: Path) -> None:
    for changed in (
        {"epochs": 0},
        {"validation": 1.0},
        {"patience": 2, "validation": 0.0},
        {"blend": 0.5},
        {"auxiliary": 1.0},
        {"auxiliary": 0.0, "ratings": "ratings.jsonl"},
    ):
        with pytest.raises(ValueError):
            settings(world, **changed)
