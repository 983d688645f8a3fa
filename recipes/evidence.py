"""The evidence model: one cross-encoder that says whether a passage answers, supports or refutes.

It starts from a public cross-encoder, learns from public data and from installed documentation,
and is written as the ONNX file that the package ships.
"""

from functools import partial
from pathlib import Path

import msgspec

from bench.documentation import BUILD_SITES
from recipes.evidence_base import convert_cross_encoder, find_public_cross_encoder
from recipes.evidence_calibration import calibrate_model
from recipes.evidence_data import EvidenceDataSettings, make_examples
from recipes.evidence_found import EvidenceMeasures, MeasureSettings, list_measures, measure_model
from recipes.evidence_questions import read_site_folders
from recipes.evidence_training import (
    EvidenceExample,
    EvidenceTrainingSettings,
    average_evidence_networks,
    export_evidence_model,
    train_evidence_model,
)
from recipes.stages import RecipeOutput, load_or_make, main, print_progress
from rookery.evidence.evidence_model import CALIBRATION_FILE, MODEL_FILE, load_evidence_model


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A training, which starts from the network that the one before it made."""

    data: EvidenceDataSettings = EvidenceDataSettings()
    training: EvidenceTrainingSettings = EvidenceTrainingSettings()
    kept: float = 0.0
    """share of the weights from before the training in the mean that the next stage begins with"""
    with_base: bool = False
    """the mean is with the network that the first stage begins with, and not from before this
    training"""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the recipe."""

    stages: tuple[Stage, ...] = (Stage(kept=0.4),)
    measuring: MeasureSettings = MeasureSettings()
    calibration_sites: tuple[str, ...] = ()
    """sites of bench/questions whose questions for building the answers are calibrated on"""
    base: str = ""
    """folder of the network to start from; empty: the public cross-encoder"""
    seed: int = 0

    def __post_init__(self) -> None:
        if len({(stage.data.articles, stage.data.seed) for stage in self.stages}) != 1:
            raise ValueError(
                "data.articles and data.seed must be the same in all stages, of which there is one "
                "at least: articles that one stage leaves unseen must not be trained on in another"
            )


def train_and_measure(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Convert the public cross-encoder, make the examples, train, export and measure."""
    base = Path(settings.base) if settings.base else out / "base"
    if not (base / "config.json").exists():
        convert_cross_encoder(find_public_cross_encoder(), base)
    if not (out / "base-onnx" / MODEL_FILE).exists():
        export_evidence_model(base, out / "base-onnx")

    def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
        if step % 10 == 0 or step == steps:
            print_progress(f"step {step} of {steps}: loss {measured['loss']:.3f}")

    sites = read_site_folders() | {name: folder for name, (folder, _) in BUILD_SITES.items()}
    network, model, notes = base, out / "model", []
    for number, stage in enumerate(settings.stages, 1):
        folder = out / f"stage-{number}"
        folder.mkdir(exist_ok=True)
        if not (before := folder / "before" / MODEL_FILE).exists():
            export_evidence_model(network, before.parent)
        judge = load_evidence_model(before.parent).judge_passages
        make = partial(make_examples, stage.data, data, sites, judge)
        examples = load_or_make(folder / "examples.json", list[EvidenceExample], make)
        print_progress(f"stage {number}: {len(examples)} examples")
        trained = train_evidence_model(
            stage.training, network, examples, folder / "run", print_step
        )
        if not (folder / "mean" / "config.json").exists():
            learnt = Path(trained.model)
            before = base if stage.with_base else network
            average_evidence_networks(before, learnt, stage.kept, folder / "mean")
        network = folder / "mean"
        notes.append(
            f"stage {number}: {trained.examples} examples, {trained.steps} steps, "
            f"last loss {trained.loss:.3f}"
        )
    if not (model / MODEL_FILE).exists():
        export_evidence_model(network, model)

    if settings.calibration_sites and not (model / CALIBRATION_FILE).exists():
        calibration = calibrate_model(
            load_evidence_model(model), settings.calibration_sites, out / "sites"
        )
        (model / CALIBRATION_FILE).write_text(calibration.to_json() + "\n")

    def measure_folder(name: str, model_folder: Path) -> EvidenceMeasures:
        return load_or_make(
            out / f"{name}.json",
            EvidenceMeasures,
            lambda: measure_model(
                load_evidence_model(model_folder), settings.measuring, settings.stages[0].data, data
            ),
        )

    public, after = measure_folder("base", out / "base-onnx"), measure_folder("trained", model)
    return RecipeOutput((), (), (), [*list_measures(public, after), *notes])


if __name__ == "__main__":
    main("evidence", Settings, train_and_measure)
