"""Runs and their steps: resumed to the last bit, hand-worked rates, and batches cut in any way."""

import io
import json
import math
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter

from rookery.errors import Failed
from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings
from rookery.learn.training_run import ResumableRun, load_run_metrics

STEPS, EVERY = 7, 2
TF = OptimizerSettings(0.1, "cosine", 0.3, adam="tf", epsilon=1e-3, average=0.9)
TORCH = OptimizerSettings(0.1, "linear", decay=0.01)


class Settings(msgspec.Struct, frozen=True):
    """Of the runs here."""

    optimising: OptimizerSettings = TF
    seed: int = 0


def data(step: int) -> tuple[Tensor, Tensor]:
    """Eight rows, by the number of the step alone."""
    chance = torch.Generator().manual_seed(step)
    return torch.randn(8, 3, generator=chance), torch.randn(8, 1, generator=chance)


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def learner(
    settings: OptimizerSettings, model: nn.Module | None = None, steps: int = STEPS
) -> ModelOptimizer:
    return ModelOptimizer(model or network(), settings, steps, Accelerator(cpu=True))


def squares(learner: ModelOptimizer, step: int, sizes: Sequence[int] = (8,)) -> float:
    """One step of least squares, its batch cut into pieces of these sizes."""
    inputs, targets = data(step)
    parts = torch.split(inputs, list(sizes)), torch.split(targets, list(sizes))
    pieces = list(zip(*parts, strict=True))

    def loss(piece: tuple[Tensor, Tensor]) -> Tensor:
        found: Tensor = (learner.model(piece[0]) - piece[1]).square().sum() / 8
        return found

    return learner.step(step, pieces, loss)


def train(folder: Path, stop: int = STEPS, settings: Settings = Settings()) -> ModelOptimizer:
    """Goes on in the folder until just before this step's line is written, as a kill would."""
    with ResumableRun(folder, settings) as run:
        taught = learner(settings.optimising)
        for step in run.iterate_steps(STEPS, taught, EVERY):
            length = squares(taught, step)
            run.record_sample(step=step, sample="words" * step)
            if step == stop:
                break
            run.record_metrics(gradient=length)
    return taught


def weights(taught: ModelOptimizer) -> list[Tensor]:
    found: list[Tensor] = []
    for averaged in (False, True):
        with taught.open_whole_model(averaged=averaged) as model:
            found += [value.clone() for value in model.state_dict().values()]
    return found


def lines(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "metrics.jsonl").read_bytes(), (folder / "samples.jsonl").read_bytes()


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def same(one: ModelOptimizer, others: ModelOptimizer) -> bool:
    return all(map(torch.equal, weights(one), weights(others)))


# Resume


@pytest.mark.parametrize("settings", [TF, TORCH])
@pytest.mark.parametrize("stops", [(0,), (1, 3), (4, 4, 6)])
def test_a_run_that_was_broken_off_goes_on_to_the_last_bit(
    tmp_path: Path, stops: tuple[int, ...], settings: OptimizerSettings
) -> None:
    whole = train(tmp_path / "whole", settings=Settings(settings))
    for stop in stops:
        train(tmp_path / "broken", stop, Settings(settings))
    resumed = train(tmp_path / "broken", settings=Settings(settings))
    assert same(resumed, whole)
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")
    begun = network().state_dict().values()
    assert not any(map(torch.equal, weights(whole), begun))


def test_a_run_that_is_done_learns_nothing_more(tmp_path: Path) -> None:
    whole = train(tmp_path)
    before = lines(tmp_path)
    assert same(train(tmp_path), whole)
    assert lines(tmp_path) == before


class Counted:
    """Remembers each checkpoint by the last step before it."""

    def __init__(self) -> None:
        self.now, self.seen = 0, list[int]()

    def save(self, folder: Path) -> None:
        self.seen.append(self.now + 1)

    def load(self, folder: Path) -> None:
        pass


@pytest.mark.parametrize(
    ("count", "every", "most", "expected"),
    [
        (5, None, 100, [1, 2, 3, 4, 5]),
        (38, None, 100, [3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 38]),
        (45, None, 3, list(range(3, 46, 3))),
        (38, 30, 3, [30, 38]),
        (5, 100, 100, [5]),
    ],
)
def test_a_short_run_is_kept_too_unless_it_is_said_how_often(
    tmp_path: Path, count: int, every: int | None, most: int, expected: list[int]
) -> None:
    counted = Counted()
    with ResumableRun(tmp_path, Settings()) as run:
        for step in run.iterate_steps(count, counted, every, most=most):
            counted.now = step
            run.record_metrics()
    assert counted.seen == expected


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    train(tmp_path, 5)
    assert checkpoints(tmp_path) == ["00000002", "00000004"]
    train(tmp_path)
    assert checkpoints(tmp_path) == ["00000006", "00000007"]


@pytest.mark.parametrize("damage", ["cut", "changed", "lost", "empty", "added"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    tmp_path: Path, damage: str
) -> None:
    whole = train(tmp_path / "whole")
    train(tmp_path / "broken", 5)
    newest = tmp_path / "broken" / "checkpoints" / "00000004"
    file = newest / ("whole.json" if damage == "empty" else "state/__0_0.distcp")
    held = file.read_bytes()
    if damage == "cut":
        file.write_bytes(held[:-9])
    elif damage == "changed":
        file.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    elif damage == "lost":
        file.unlink()
    elif damage == "empty":
        file.write_bytes(b"")
    else:
        (newest / "other").touch()
    with ResumableRun(tmp_path / "broken", Settings()) as run:
        assert next(run.iterate_steps(STEPS, learner(TF), EVERY)) == 2
    assert same(train(tmp_path / "broken"), whole)
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")


def test_a_checkpoint_of_an_earlier_version_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "optimizer.bin").touch()
    with pytest.raises(Failed, match=r"other_run: .*begin again, in another folder"):
        learner(TF).load(tmp_path)


def test_all_checkpoints_damaged_is_a_run_from_its_beginning(tmp_path: Path) -> None:
    train(tmp_path / "broken", 5)
    for file in (tmp_path / "broken" / "checkpoints").glob("*/whole.json"):
        file.write_bytes(file.read_bytes()[:10])
    whole = train(tmp_path / "whole")
    assert same(train(tmp_path / "broken"), whole)
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")


def test_lines_after_the_checkpoint_are_cut_back_even_half_a_line(tmp_path: Path) -> None:
    train(tmp_path, 5)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 5, "grad')
    train(tmp_path)
    with ResumableRun(tmp_path, Settings()) as run:
        assert [line["step"] for line in load_run_metrics(run.folder)] == list(range(STEPS))
    said = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in said] == list(range(STEPS))


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl"])
@pytest.mark.parametrize("end", [b"", b"\0" * 700])
def test_a_line_that_lost_its_end_with_the_power_is_forgotten_and_told(
    tmp_path: Path, name: str, end: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    whole = train(tmp_path / "whole")
    train(tmp_path / "torn", 5)
    place = tmp_path / "torn" / name
    before = place.read_bytes().splitlines(keepends=True)[:4]  # what the checkpoint has seen
    place.write_bytes(b"".join(before)[:-6] + end)
    assert same(train(tmp_path / "torn"), whole)
    warned = [each.getMessage() for each in caplog.records if each.name == "rookery.learn"]
    assert warned == [f"{place}: its last line had lost its end and is forgotten"]
    steps = [json.loads(line)["step"] for line in place.read_bytes().splitlines()]
    assert steps == [0, 1, 2, 4, 5, 6]
    caplog.clear()
    assert same(train(tmp_path / "torn"), whole)
    assert "rookery.learn" not in {each.name for each in caplog.records}


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl"])
def test_a_damaged_line_is_named_and_the_run_goes_on_without_it(tmp_path: Path, name: str) -> None:
    whole = train(tmp_path / "whole")
    train(tmp_path / "damaged", 5)
    place = tmp_path / "damaged" / name
    lines = place.read_bytes().splitlines(keepends=True)
    lines[1] = b"\0" + lines[1][1:]
    place.write_bytes(b"".join(lines))
    with pytest.raises(Failed) as caught:
        train(tmp_path / "damaged")
    assert caught.value.failure.what == f"{place}, line 2"
    assert caught.value.failure.outcome == "bad_line"
    assert "take the line out and run the same command again" in caught.value.failure.detail
    del lines[1]
    place.write_bytes(b"".join(lines))
    assert same(train(tmp_path / "damaged"), whole)
    steps = [json.loads(line)["step"] for line in place.read_bytes().splitlines()]
    assert steps == [0, 2, 3, 4, 5, 6]


def test_a_disk_that_fills_while_saving_leaves_the_checkpoints_there_were(tmp_path: Path) -> None:
    class Full:
        """Writes a part, and finds no room for the rest."""

        def save(self, folder: Path) -> None:
            (folder / "model.safetensors").write_bytes(b"half")
            raise OSError(28, "No space left on device")

        def load(self, folder: Path) -> None: ...

    whole = train(tmp_path / "whole")
    train(tmp_path / "full", 5)
    kept = checkpoints(tmp_path / "full")
    with (
        ResumableRun(tmp_path / "full", Settings()) as run,
        pytest.raises(Failed, match=r"No space left on device.*make room"),
    ):
        list(run.iterate_steps(STEPS, Full(), 1))
    assert [name for name in checkpoints(tmp_path / "full") if name.isdigit()] == kept
    assert same(train(tmp_path / "full"), whole)
    assert lines(tmp_path / "full") == lines(tmp_path / "whole")


@pytest.mark.parametrize("part", ["write_data", "read_data"])
def test_ctrl_c_in_a_checkpoint_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    whole = train(tmp_path / "whole")
    train(tmp_path / "run", 3)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        storage = FileSystemWriter if part == "write_data" else FileSystemReader
        patch.setattr(storage, part, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run")
    assert same(train(tmp_path / "run"), whole)


def test_ctrl_c_in_the_middle_of_a_file_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first tensor is written: torch closes its file, and complains that it is not
    whole."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "run", 3)
    left = 0

    class Stream(io.FileIO):
        def write(self, data: Any) -> int:
            nonlocal left
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
            return super().write(data)

    def create(_: object, path: Path, mode: str) -> Stream:
        return Stream(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "create_stream", create)
        for write in range(1, 30, 4):
            left = write
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path / "run", 4)
    assert same(train(tmp_path / "run"), whole)


# What stops a run


def test_the_cord_stops_a_run_before_its_next_step(tmp_path: Path) -> None:
    made = []
    with ResumableRun(tmp_path, Settings()) as run:
        steps = run.iterate_steps(STEPS, learner(TF), EVERY)
        made += [next(steps), next(steps), next(steps)]
        (tmp_path / "cord").write_text("  It learns to shout.\n")
        with pytest.raises(Failed) as failed:
            next(steps)
    assert failed.value.failure.outcome == "stopped"
    assert failed.value.failure.detail == "It learns to shout."
    assert made == [0, 1, 2]
    (tmp_path / "cord").write_text("")
    with ResumableRun(tmp_path, Settings()) as run:
        assert run.find_stop_reason() == "the cord was pulled"
        (tmp_path / "cord").unlink()
        assert run.find_stop_reason() == ""


def test_the_cord_is_looked_at_before_each_step_of_the_optimiser() -> None:
    reasons = iter(["", "It learns to shout."])
    taught = ModelOptimizer(
        network(), TORCH, STEPS, Accelerator(cpu=True), lambda: next(reasons, "none")
    )
    begun = [weight.clone() for weight in weights(taught)]
    with pytest.raises(Failed, match="It learns to shout"):
        squares(taught, 0)
    assert all(map(torch.equal, weights(taught), begun))


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with ResumableRun(tmp_path, Settings()):
        with pytest.raises(Failed) as failed:
            ResumableRun(tmp_path, Settings())
        assert failed.value.failure.outcome == "run_in_use"
    with ResumableRun(tmp_path, Settings()) as run:
        assert load_run_metrics(run.folder) == []


def test_a_folder_keeps_to_the_configuration_it_was_begun_with(tmp_path: Path) -> None:
    train(tmp_path, 3)
    before = lines(tmp_path)
    with pytest.raises(Failed) as failed:
        ResumableRun(tmp_path, Settings(seed=1))
    assert failed.value.failure.outcome == "other_run"
    assert lines(tmp_path) == before
    assert same(train(tmp_path), train(tmp_path / "whole"))  # the folder is free again


def test_a_folder_keeps_to_the_data_it_was_begun_with(tmp_path: Path) -> None:
    data, folder = tmp_path / "pairs.jsonl", tmp_path / "run"
    data.write_text("one\n")
    with ResumableRun(folder, Settings(), data=[str(data), ""]):
        pass
    data.write_text("one\ntwo\n")
    with ResumableRun(folder, Settings(), data=[str(data)]):
        (folder / "checkpoints").mkdir()  # until there is one, nothing was learnt
    data.write_text("one\n")
    with pytest.raises(Failed, match=r"other_run: .*pairs.jsonl has changed since this run"):
        ResumableRun(folder, Settings(), data=[str(data)])
    data.write_text("one\ntwo\n")
    with ResumableRun(folder, Settings(), data=[str(data)]):
        pass


def test_before_the_first_checkpoint_a_configuration_may_be_corrected(tmp_path: Path) -> None:
    train(tmp_path, 1, Settings(seed=1))
    train(tmp_path)
    assert json.loads((tmp_path / "config.json").read_bytes())["seed"] == 0


def test_a_folder_is_free_again_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(OSError):
        ResumableRun(tmp_path, Settings())
    (tmp_path / "config.json").rmdir()
    train(tmp_path)


def test_a_gradient_that_is_no_number_changes_nothing() -> None:
    taught = learner(TF)
    squares(taught, 0)
    before = [weight.clone() for weight in weights(taught)]
    for bad in (math.nan, math.inf):
        with pytest.raises(Failed) as failed:
            taught.step(1, [bad], lambda value: taught.model(data(1)[0]).sum() * value)
        assert failed.value.failure.outcome == "not_a_number"
        assert all(map(torch.equal, weights(taught), before))
    fresh = learner(TF)
    for step in (0, 1):
        squares(fresh, step)
    squares(taught, 1)
    assert same(taught, fresh)  # nothing of the bad gradients was left


def test_what_is_no_number_is_null_in_the_metrics(tmp_path: Path) -> None:
    with ResumableRun(tmp_path, Settings()) as run:
        for _ in run.iterate_steps(1, learner(TF), EVERY):
            run.record_metrics(loss=math.nan, reward=-math.inf, kl=0.5)
    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line) == {"step": 0, "loss": None, "reward": None, "kl": 0.5}


def test_nothing_to_learn_is_said() -> None:
    with pytest.raises(Failed, match="freeze fewer layers"):
        learner(TF, network().requires_grad_(False))


# Rates and steps, worked by hand


@pytest.mark.parametrize(
    ("schedule", "warmup", "shares"),
    [
        ("constant", 0.0, [1, 1, 1, 1]),
        ("linear", 0.0, [1, 0.75, 0.5, 0.25]),
        ("cosine", 0.0, [1, 0.5 + 2**0.5 / 4, 0.5, 0.5 - 2**0.5 / 4]),
        ("constant", 0.5, [1 / 3, 2 / 3, 1, 1]),
        ("linear", 0.5, [1 / 3, 2 / 3, 1, 0.5]),
        ("cosine", 0.25, [0.5, 1, 0.75, 0.25]),
        ("linear", 1.0, [0.2, 0.4, 0.6, 0.8]),
    ],
)
def test_shares_of_the_highest_rate(schedule: str, warmup: float, shares: list[float]) -> None:
    settings = msgspec.convert({"schedule": schedule, "warmup": warmup}, OptimizerSettings)
    assert [settings.compute_rate_share(step, 4) for step in range(4)] == pytest.approx(
        shares, abs=1e-12
    )


def test_each_step_follows_its_share_of_the_rate() -> None:
    weight = nn.Linear(1, 1, bias=False)
    nn.init.constant_(weight.weight, 1.0)
    settings = OptimizerSettings(0.1, "linear", epsilon=0.0, betas=(0.0, 0.0), clip=None)
    taught = learner(settings, weight, steps=4)
    found = []
    for step in range(4):  # without memory, Adam follows the sign of the gradient
        taught.step(step, [2.0], lambda slope: weight.weight.sum() * slope)
        found.append(weight.weight.item())
    assert found == pytest.approx([0.9, 0.825, 0.775, 0.75], abs=1e-6)


def test_a_part_with_a_rate_of_its_own_follows_the_same_schedule() -> None:
    """Adam's first steps with a gradient that stays the same are of its rate's length."""
    body, head = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    model = nn.ModuleDict({"body": body, "head": head})
    settings = OptimizerSettings(rate=1e-3, clip=None)
    taught = ModelOptimizer(model, settings, 4, Accelerator(cpu=True), rates={"head": 1e-2})
    parts = [body.weight, head.weight]

    def add_weights(_: None) -> Tensor:
        return body.weight.sum() + head.weight.sum()

    for step, share in enumerate((1.0, 0.75, 0.5)):
        before = [weight.item() for weight in parts]
        taught.step(step, [None], add_weights)
        moved = [old - weight.item() for old, weight in zip(before, parts, strict=True)]
        assert moved == pytest.approx([1e-3 * share, 1e-2 * share], rel=1e-3)


def test_two_steps_of_adam_as_tensorflow_has_it() -> None:
    """Means 0.2 and 0.08, squares 0.04 and 0.0496; the rates are 0.1·√0.01/0.1 = 0.1, and
    0.1·√0.0199/0.19 = 0.0742460; epsilon, 1, is added to the roots 0.2 and 0.2227106."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    settings = OptimizerSettings(
        0.1, "constant", adam="tf", betas=(0.9, 0.99), epsilon=1.0, clip=None
    )
    taught = ModelOptimizer(model, settings, 2, Accelerator(cpu=True))
    found = []
    for step, gradient in enumerate((2.0, -1.0)):
        taught.step(step, [gradient], lambda given: given * model.weight.sum())
        found.append(model.weight.item())
    assert found[0] == pytest.approx(1 - 0.1 * 0.2 / 1.2, abs=1e-7)
    assert found[1] == pytest.approx(1 - 0.1 * 0.2 / 1.2 - 0.0742460 * 0.08 / 1.2227106, abs=1e-7)


def test_the_average_keeps_its_share_of_the_past() -> None:
    taught = learner(TF)
    found: list[Tensor] = []
    for step in range(3):
        squares(taught, step)
        weight = taught.model.state_dict()["0.weight"]
        found.append(weight if not found else 0.9 * found[-1] + 0.1 * weight)
        found[-1] = found[-1].clone()
    with taught.open_whole_model() as averaged:
        weight = averaged.state_dict()["0.weight"]
        assert torch.allclose(weight, found[-1], atol=1e-7, rtol=0)
    assert not torch.allclose(taught.model.state_dict()["0.weight"], found[-1], atol=1e-7, rtol=0)


@pytest.mark.parametrize("sizes", [(3, 5), (1,) * 8, (7, 1)])
@pytest.mark.parametrize("settings", [TF, TORCH])
def test_pieces_of_a_batch_are_the_batch(
    settings: OptimizerSettings, sizes: tuple[int, ...]
) -> None:
    whole, cut = learner(settings), learner(settings)
    for step in range(3):
        lengths = squares(whole, step), squares(cut, step, sizes)
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-5)
    for one, other in zip(weights(whole), weights(cut), strict=True):
        assert torch.allclose(one, other, atol=1e-6, rtol=0)
