"""Imitation: it learns what was said and nothing else, however the work is cut or shared."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from accelerate import Accelerator
from demonstrated import demonstrated, write_episodes, write_reader
from double import double_precision, write_double
from safetensors.torch import load_file
from several import in_two_processes
from transformers import AutoModelForCausalLM

from rookery.errors import Failed
from rookery.learn.action_batches import split_into_micro_batches
from rookery.learn.imitation_learning import (
    ImitationResult,
    ImitationSettings,
    generate_answers,
    measure_answer_accuracy,
    measure_validation_loss,
    train_by_imitation,
)
from rookery.learn.local_model import LocalModel
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import (
    LoadedModel,
    LoraSettings,
    TrainedModelSettings,
    load_model,
)
from rookery.learn.training_data import ImitationExample, build_imitation_examples
from rookery.records import Episode
from rookery.settings import LocalModelSettings

Measured = dict[str, float]


class Place:
    """Demonstrations in a file, and a model that has not read them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.episodes = list(demonstrated(root))
        self.file = write_episodes(root / "episodes.jsonl", self.episodes)
        self.model = write_reader(root / "model", self.episodes)

    def few(self, name: str, steps: int) -> Path:
        """A file of so many steps, of the first episodes."""
        kept: list[Episode] = []
        for episode in self.episodes:
            room = steps - sum(len(each.steps) for each in kept)
            kept.append(msgspec.structs.replace(episode, steps=episode.steps[:room]))
            if room <= len(episode.steps):
                break
        return write_episodes(self.root / name, kept)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("imitate"))


def settings(place: Place, file: Path | None = None, **how: Any) -> ImitationSettings:
    usual: dict[str, Any] = {
        "optimising": OptimizerSettings(rate=5e-3, warmup=0.1),
        "rows": 12,
        "piece": 2048,
        "epochs": 1,
        "validation": 0.2,
        "tokens": 20,
        "asked": 0,
    }
    return ImitationSettings(
        TrainedModelSettings(str(place.model)), (str(file or place.file),), **usual | how
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def apart(one: Path, other: Path) -> float:
    ours, theirs = weights(one), weights(other)
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def list_validation_examples(
    place: Place, reached: ImitationResult, out: Path
) -> list[ImitationExample]:
    """The validation examples, known by what was said of them."""
    held_out = {line["question"] for line in lines(out / "samples.jsonl")}
    loaded = load_model(place.model, "cpu")
    scores = [
        each
        for each in build_imitation_examples(place.episodes, loaded).found
        if each.question in held_out
    ]
    assert len(scores) == reached.validation_rows
    return scores


@pytest.mark.slow
def test_it_learns_to_browse_as_it_was_shown(place: Place, tmp_path: Path) -> None:
    out, told = tmp_path / "out", []
    reached = train_by_imitation(
        settings(place, epochs=4, asked=100),
        out,
        lambda step, steps, measured: told.append((step, steps)),
    )
    validation = list_validation_examples(place, reached, out)
    begun, learnt = load_model(place.model, "cpu"), load_model(out / "model", "cpu")
    pieces = split_into_micro_batches([each.row for each in validation], 4096)

    def measured(model: LoadedModel) -> Measured:
        found = measure_validation_loss(model, pieces, Accelerator(cpu=True))
        return found | measure_answer_accuracy(generate_answers(model, validation, 20))

    before, after = measured(begun), measured(learnt)
    assert before["validation_loss"] - after["validation_loss"] > 1.5
    assert before["valid"] == 0
    assert after["valid"] > 0.9
    assert after["accuracy"] > before["accuracy"] + 0.15
    # What was measured on the way is measured again on the written model.
    assert after == pytest.approx(reached.measured, abs=1e-5)
    assert told == [(step + 1, reached.steps) for step in range(reached.steps)]
    total = sum(len(episode.steps) for episode in place.episodes)
    assert reached.rows + reached.validation_rows == total
    questions = {each.question for each in validation}
    assert len(questions) == round(0.2 * len({e.question.text for e in place.episodes}))


@pytest.mark.slow
def test_ten_steps_learnt_by_heart_are_said_again(place: Place, tmp_path: Path) -> None:
    file = place.few("ten.jsonl", 10)
    optimising = OptimizerSettings(rate=1e-2)
    by_heart = settings(place, file, rows=10, epochs=30, validation=0, optimising=optimising)
    reached = train_by_imitation(by_heart, tmp_path / "out")
    assert (reached.rows, reached.steps, reached.measured) == (10, 30, {})
    learnt = LocalModel(Path(reached.model), LocalModelSettings(max_tokens=60, temperature=0))
    steps = [step for line in lines(file) for step in Episode.from_json(json.dumps(line)).steps]
    for step in steps:
        [said] = learnt.complete(step.prompt)
        assert (said.text, said.stop) == (step.said.text, "end")


@pytest.mark.slow
def test_the_loss_is_that_of_transformers_with_prompts_masked(place: Place, tmp_path: Path) -> None:
    file = place.few("twelve.jsonl", 12)
    train_by_imitation(settings(place, file, rows=12, validation=0, piece=700), tmp_path / "out")
    [line] = lines(tmp_path / "out" / "metrics.jsonl")
    model: Any = AutoModelForCausalLM.from_pretrained(place.model, local_files_only=True)
    loaded = load_model(place.model, "cpu")
    read = [Episode.from_json(json.dumps(each)) for each in lines(file)]

    def mean_loss(masked: bool) -> float:
        nats, count = 0.0, 0
        for each in build_imitation_examples(read, loaded).found:
            tokens = torch.tensor([[*each.row.context, *each.row.action]])
            labels = tokens.clone()
            if masked:
                labels[:, : len(each.row.context)] = -100
            labelled = int((labels[:, 1:] != -100).sum())
            with torch.inference_mode():
                nats += float(model(input_ids=tokens, labels=labels).loss) * labelled
            count += labelled
        return nats / count

    assert line["loss"] == pytest.approx(mean_loss(masked=True), abs=1e-4)
    assert abs(line["loss"] - mean_loss(masked=False)) > 0.01  # the planted fault


TWO = """
import sys
from pathlib import Path
import msgspec
sys.path.insert(0, sys.argv[3])
from double import double_precision
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
with double_precision():
    train_by_imitation(msgspec.json.decode(sys.argv[1], type=ImitationSettings), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_pieces_and_processes_change_nothing(place: Place, tmp_path: Path) -> None:
    # The last batch of an epoch is smaller than the others.
    file = place.few("nineteen.jsonl", 19)
    whole = settings(place, file, piece=100_000, rows=9, epochs=2, check=2)
    doubled = TrainedModelSettings(write_double(str(place.model), tmp_path / "model"))
    whole = msgspec.structs.replace(whole, trained=doubled)
    ways = {"whole": whole, "pieces": msgspec.structs.replace(whole, piece=300)}
    with double_precision():
        for name, way in ways.items():
            train_by_imitation(way, tmp_path / name)
    (tmp_path / "two.py").write_text(TWO)
    as_json = msgspec.json.encode(ways["pieces"]).decode()
    in_two_processes(
        tmp_path / "two.py",
        as_json,
        str(tmp_path / "two"),
        str(Path(__file__).parent.parent / "helpers"),
    )
    metrics = {name: lines(tmp_path / name / "metrics.jsonl") for name in (*ways, "two")}
    for name in ("pieces", "two"):
        assert apart(tmp_path / name, tmp_path / "whole") < 1e-10
        assert len(metrics[name]) == len(metrics["whole"]) > 2
        for line, expected in zip(metrics[name], metrics["whole"], strict=True):
            assert line.keys() == expected.keys()
            for key in {"loss", "validation_loss", "gradient"} & line.keys():
                assert line[key] == pytest.approx(expected[key], abs=1e-10, rel=1e-10)


def killed_in(step: int, way: ImitationSettings, out: Path) -> None:
    """Trains in another process, which kills itself once this step is made."""

    def kill(epoch: int, steps: int, measured: Measured) -> None:
        if epoch == step:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            train_by_imitation(way, out, kill)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_run_goes_on_to_the_same_bytes(place: Place, tmp_path: Path) -> None:
    optimising = OptimizerSettings(rate=2e-2, warmup=0.1, schedule="cosine", average=0.5)
    way = settings(
        place,
        place.few("thirty.jsonl", 30),
        epochs=12,
        check=1,
        every=2,
        patience=3,
        asked=2,
        optimising=optimising,
    )
    whole = train_by_imitation(way, tmp_path / "whole")
    assert whole.stopped
    assert whole.best_step == whole.steps - 3
    out = tmp_path / "killed"
    for step in (3, whole.best_step, whole.steps - 1):
        killed_in(step, way, out)
    again = train_by_imitation(way, out)
    assert msgspec.structs.replace(again, model=whole.model) == whole
    assert weights(out).keys() == weights(tmp_path / "whole").keys()
    assert apart(out, tmp_path / "whole") == 0
    timed = "tokens_a_second"
    ours, theirs = (lines(each / "metrics.jsonl") for each in (out, tmp_path / "whole"))
    assert [line | {timed: 0} for line in ours] == [line | {timed: 0} for line in theirs]
    assert lines(out / "samples.jsonl") == lines(tmp_path / "whole" / "samples.jsonl")
    # Once more when it is finished: nothing is learnt twice.
    assert train_by_imitation(way, out) == again


@pytest.mark.slow
def test_the_best_model_is_written_and_not_the_last(place: Place, tmp_path: Path) -> None:
    harsh = OptimizerSettings(rate=3e-2, schedule="constant")
    way = settings(place, place.few("thirty.jsonl", 30), epochs=4, check=1, optimising=harsh)
    reached = train_by_imitation(way, tmp_path / "out")
    losses = [line["validation_loss"] for line in lines(tmp_path / "out" / "metrics.jsonl")]
    assert not reached.stopped
    assert losses.index(min(losses)) + 1 == reached.best_step < len(losses)
    assert reached.measured["validation_loss"] == min(losses)
    by_accuracy = train_by_imitation(
        msgspec.structs.replace(way, best="accuracy"), tmp_path / "accuracy"
    )
    hits = [line["accuracy"] for line in lines(tmp_path / "accuracy" / "metrics.jsonl")]
    assert hits.index(max(hits)) + 1 == by_accuracy.best_step


def test_the_written_model_is_the_average_where_one_is_made(place: Place, tmp_path: Path) -> None:
    file = place.few("ten.jsonl", 10)
    plain = OptimizerSettings(rate=5e-3, schedule="constant")
    averaged = msgspec.structs.replace(plain, average=0.75)
    outs = [tmp_path / name for name in ("one", "two", "averaged")]
    for out, epochs, optimising in zip(outs, (1, 2, 2), (plain, plain, averaged), strict=True):
        way = settings(place, file, rows=10, validation=0, epochs=epochs, optimising=optimising)
        train_by_imitation(way, out)
    one, two, mean = (weights(out) for out in outs)
    for name, found in mean.items():
        torch.testing.assert_close(found, 0.75 * one[name] + 0.25 * two[name], atol=1e-6, rtol=0)


def test_lora_is_written_into_plain_weights(place: Place, tmp_path: Path) -> None:
    file = place.few("ten.jsonl", 10)
    way = settings(place, file, rows=10, validation=0, epochs=2)
    trained = TrainedModelSettings(str(place.model), lora=LoraSettings(rank=2))
    for out in ("one", "two"):
        train_by_imitation(msgspec.structs.replace(way, trained=trained), tmp_path / out)
    assert apart(tmp_path / "one", tmp_path / "two") == 0
    before = load_file(place.model / "model.safetensors")
    changed = {n for n, w in weights(tmp_path / "one").items() if not torch.equal(w, before[n])}
    assert changed == {n for n in before if n.endswith(("q_proj.weight", "v_proj.weight"))}


def test_a_tokenizer_without_a_pad_token_will_do(place: Place, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    bare = tmp_path / "bare"
    bare.mkdir()
    for file in place.model.iterdir():
        (bare / file.name).write_bytes(file.read_bytes())
    tokenizer = AutoTokenizer.from_pretrained(bare, local_files_only=True)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(bare)
    assert load_model(bare, "cpu").tokenizer.pad_token is None
    way = settings(place, place.few("ten.jsonl", 10), validation=0)
    train_by_imitation(way, tmp_path / "padded")
    train_by_imitation(
        msgspec.structs.replace(way, trained=TrainedModelSettings(str(bare))), tmp_path / "unpadded"
    )
    assert apart(tmp_path / "padded", tmp_path / "unpadded") == 0


@pytest.mark.parametrize(
    ("content", "how", "said"),
    [
        ("", {}, r"nothing_chosen: no step is left to learn from \(the files hold no episode\)"),
        (None, {"chosen": {"by": ["nobody"]}}, r"nothing_chosen: .* \(25 episodes by others\)"),
        ("{", {}, r"line 1: bad_line: no JSON object \(.*\): write it again"),
        (None, {"recording": "nowhere"}, "nowhere: not_found: there is no such recording"),
        (None, {"ratings": "nowhere"}, "nowhere: not_found: it cannot be read"),
    ],
)
def test_what_cannot_be_learnt_from_is_said(
    place: Place, tmp_path: Path, content: str | None, how: dict[str, Any], said: str
) -> None:
    file = place.file
    if content is not None:
        file = tmp_path / "episodes.jsonl"
        file.write_text(content)
    plain = msgspec.to_builtins(settings(place, file)) | how
    with pytest.raises(Failed, match=said):
        train_by_imitation(msgspec.convert(plain, ImitationSettings), tmp_path / "out")


def test_answers_alone_cannot_be_chosen_by_their_commands(place: Place, tmp_path: Path) -> None:
    answers = [msgspec.structs.replace(each, steps=each.steps[-1:]) for each in place.episodes]
    way = settings(place, write_episodes(tmp_path / "answers", answers), best="valid", asked=9)
    with pytest.raises(Failed, match=r"no_commands: .* choose by loss"):
        train_by_imitation(way, tmp_path / "out")


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": 0}, {"validation": 1.0}, {"patience": 0}, {"patience": 1, "validation": 0}],
)
def test_settings_that_mean_nothing_are_refused(place: Place, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|is a share"):
        settings(place, **wrong)


def test_the_cord_stops_it_and_it_goes_on_later(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out"
    way = settings(place, place.few("thirty.jsonl", 30), epochs=2, every=1)

    def pull(step: int, steps: int, measured: Measured) -> None:
        if step == 2:
            (out / "cord").write_text("it says the same again and again")

    with pytest.raises(Failed, match="stopped: it says the same again and again"):
        train_by_imitation(way, out, pull)
    (out / "cord").unlink()
    reached = train_by_imitation(way, out)
    assert [line["step"] for line in lines(out / "metrics.jsonl")] == list(range(reached.steps))
