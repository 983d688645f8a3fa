"""The evidence model: one cross-encoder that says whether a passage answers, supports or refutes.

It starts from a public cross-encoder, learns from public data and from installed documentation,
and is written as the ONNX file that the package ships.
"""

from pathlib import Path

import msgspec

from recipes.evidence_base import convert_cross_encoder, find_public_cross_encoder
from recipes.evidence_calibration import calibrate_model
from recipes.evidence_data import EvidenceDataSettings, make_examples
from recipes.evidence_found import EvidenceMeasures, MeasureSettings, list_findings, measure_model
from recipes.stages import RecipeOutput, load_or_make, main, print_progress
from rookery.cite.evidence_model import CALIBRATION_FILE, MODEL_FILE, load_evidence_model
from rookery.learn.evidence_training import (
    EvidenceExample,
    EvidenceTrainingSettings,
    average_evidence_networks,
    export_evidence_model,
    train_evidence_model,
)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the recipe."""

    data: EvidenceDataSettings = EvidenceDataSettings()
    training: EvidenceTrainingSettings = EvidenceTrainingSettings()
    measuring: MeasureSettings = MeasureSettings()
    calibration_sites: tuple[str, ...] = ()
    """sites of bench/questions whose questions for building the answers are calibrated on"""
    base: str = ""
    """folder of the network to start from; empty: the public cross-encoder"""
    public_share: float = 0.4
    """share of the public model's weights in the mean of the two networks"""
    ranking_data: EvidenceDataSettings | None = None
    """what this mean learns the order of passages from afterwards; None: it is exported"""
    ranking: EvidenceTrainingSettings = EvidenceTrainingSettings(order_weight=1.0)
    seed: int = 0


def train_and_measure(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Convert the public cross-encoder, make the examples, train, export and measure."""
    base = Path(settings.base) if settings.base else out / "base"
    if not (base / "config.json").exists():
        convert_cross_encoder(find_public_cross_encoder(), base)
    if not (out / "base-onnx" / MODEL_FILE).exists():
        export_evidence_model(base, out / "base-onnx")
    examples = load_or_make(
        out / "examples.json",
        list[EvidenceExample],
        lambda: make_examples(settings.data, data),
    )
    print_progress(f"{len(examples)} examples")

    def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
        if step % 10 == 0 or step == steps:
            print_progress(f"step {step} of {steps}: loss {measured['loss']:.3f}")

    trained = train_evidence_model(settings.training, base, examples, out / "run", print_step)
    network, model = out / "mean", out / "model"
    if not (network / "config.json").exists():
        average_evidence_networks(base, Path(trained.model), settings.public_share, network)
    notes = [f"{trained.examples} examples, {trained.steps} steps, last loss {trained.loss:.3f}"]
    if ranking_data := settings.ranking_data:
        examples = load_or_make(
            out / "ranking-examples.json",
            list[EvidenceExample],
            lambda: make_examples(ranking_data, data),
        )
        print_progress(f"{len(examples)} examples of the order of passages")
        ranked = train_evidence_model(
            settings.ranking, network, examples, out / "ranking-run", print_step
        )
        network = Path(ranked.model)
        notes.append(f"then {ranked.examples}, {ranked.steps} steps, last loss {ranked.loss:.3f}")
    if not (model / MODEL_FILE).exists():
        export_evidence_model(network, model)

    if settings.calibration_sites and not (model / CALIBRATION_FILE).exists():
        calibration = calibrate_model(
            load_evidence_model(model), settings.calibration_sites, out / "sites"
        )
        (model / CALIBRATION_FILE).write_text(calibration.to_json() + "\n")

    def measure_folder(name: str, folder: Path) -> EvidenceMeasures:
        return load_or_make(
            out / f"{name}.json",
            EvidenceMeasures,
            lambda: measure_model(
                load_evidence_model(folder), settings.measuring, settings.data, data
            ),
        )

    before, after = measure_folder("base", out / "base-onnx"), measure_folder("trained", model)
    return list_findings(before, after), [], notes


if __name__ == "__main__":
    main("evidence", Settings, train_and_measure)
