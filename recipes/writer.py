"""A writer: SmolLM2 learns to put quotes into words, by imitation with LoRA.

Demonstrations are made by rules from shared data (recipes/writer_data.py). What was learnt is
written as an adapter of a few megabytes, and measured on questions of other sets, beside the quotes
as they are and beside the same prompt without it.
"""

from pathlib import Path

import msgspec

from recipes.stages import RecipeOutput, load_or_make, main, print_progress
from recipes.writer_data import (
    WriterDataSettings,
    make_demonstrations,
    make_episodes,
)
from recipes.writer_found import (
    MeasureSettings,
    WrittenAnswers,
    answer_from_quotes,
    describe_parts,
    describe_rule,
    describe_written,
    make_effects,
    make_figures,
    make_table,
    measure_answers,
    quote_sentences,
    write_answers,
)
from rookery.cite.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.draft.installed_models import WRITING_MODEL, find_model_folder
from rookery.judge.json_lines import read_json_lines
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.records import Episode
from rookery.serve.settings import get_data_folder


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the recipe."""

    imitation: ImitationSettings
    """Its episodes are set by the recipe; without a model it begins with SmolLM2, which `rookery
    models add smollm2` adds."""
    data: WriterDataSettings = WriterDataSettings()
    measuring: MeasureSettings = MeasureSettings()
    seed: int = 0


def train_and_measure(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Make the demonstrations, train the adapter, and measure what is written with and without."""
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    episodes = out / "episodes.jsonl"
    if not episodes.exists():
        shown = make_demonstrations(settings.data, data, judge)
        print_progress(f"{len(shown)} demonstrations")
        lines = [each.to_json() + "\n" for each in make_episodes(shown, judge)]
        episodes.write_text("".join(lines), encoding="utf-8")
    learner = settings.imitation.trained
    base = Path(learner.model or find_model_folder(WRITING_MODEL, get_data_folder()))
    imitation = msgspec.structs.replace(
        settings.imitation,
        episodes=(str(episodes),),
        trained=msgspec.structs.replace(learner, model=str(base)),
        chat=False,
    )

    def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
        print_progress(f"step {step} of {steps}: loss {measured['loss']:.3f}")

    learnt = load_or_make(
        out / "learnt.json",
        ImitationResult,
        lambda: train_by_imitation(imitation, out / "run", print_step),
    )
    found = answer_from_quotes(settings.measuring, data, out / "asked", judge)

    def measure_system(name: str, folder: Path | None) -> WrittenAnswers:
        def measure() -> WrittenAnswers:
            episodes = [each.episode for each in found if each.episode.stop == "end"]
            if name == "sentence":
                episodes = quote_sentences(found, judge)
            elif folder is not None:
                trained = name == "adapter"
                episodes = write_answers(found, folder, trained, judge, settings.measuring)
            return measure_answers(name, found, episodes, base)

        return load_or_make(out / f"{name}.json", WrittenAnswers, measure)

    models = {"extract": None, "sentence": None, "without": base, "adapter": Path(learnt.model)}
    systems = {name: measure_system(name, folder) for name, folder in models.items()}
    notes = [
        f"{learnt.rows} demonstrations, {learnt.steps} steps; loss on {learnt.validation_rows} "
        f"others {learnt.before.get('validation_loss', 0):.3f} before, "
        f"{learnt.measured.get('validation_loss', 0):.3f} after"
    ]
    notes.append(describe_rule(list(read_json_lines(episodes, Episode)), settings.seed))
    notes += [*describe_written(systems), *describe_parts(systems)]
    return RecipeOutput(make_effects(), [make_table(systems)], make_figures(systems), notes)


if __name__ == "__main__":
    main("writer", Settings, train_and_measure)
