"""A writer: SmolLM2 learns to put quotes into words, by imitation with LoRA and from preferences.

Demonstrations are made by rules from shared data (recipes/writer_data.py). Samples of the model
that imitated them are judged by the evidence model, and the best are imitated with the
demonstrations (recipes/writer_preferences.py). What was learnt is written as an adapter of a few
megabytes. It is measured on questions of other sets, beside the quotes as they are and beside the
same model without it, by a judge of support that nothing here learns from
(recipes/writer_support.py).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from recipes.stages import RecipeOutput, load_or_make, main, print_progress
from recipes.writer_data import (
    WriterDataSettings,
    WritingTask,
    list_demonstrations,
    make_tasks,
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
from recipes.writer_preferences import (
    JudgedTask,
    PreferenceSettings,
    choose_best_samples,
    describe_preferences,
    judge_samples,
)
from recipes.writer_support import (
    SupportExamples,
    SupportJudge,
    SupportJudgeSettings,
    describe_support_judge,
    make_support_examples,
    train_support_judge,
)
from recipes.writer_tiny import TINY_ENCODER, TINY_MODEL, write_tiny_data
from rookery.cite.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.draft.installed_models import WRITING_MODEL, find_model_folder
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.records import Episode
from rookery.serve.settings import get_data_folder


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the recipe."""

    imitation: ImitationSettings
    """Its episodes are set by the recipe; without a model it begins with SmolLM2, which `rookery
    models add smollm2` adds."""
    data: WriterDataSettings = WriterDataSettings()
    preferences: PreferenceSettings = PreferenceSettings()
    support: SupportJudgeSettings = SupportJudgeSettings()
    measuring: MeasureSettings = MeasureSettings()
    made_up: bool = False
    """Make the data up, and begin with random weights where no model is named."""
    seed: int = 0


def train_and_measure(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Make the demonstrations, train the adapter twice, and measure what is written with and
    without."""
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    learner = settings.imitation.trained
    support_settings = settings.support
    if settings.made_up:
        data = write_tiny_data(out / "data")
        learner = msgspec.structs.replace(learner, model=learner.model or str(data / TINY_MODEL))
        support_settings = msgspec.structs.replace(support_settings, base=str(data / TINY_ENCODER))
    base = Path(learner.model or find_model_folder(WRITING_MODEL, get_data_folder()))
    # The evidence model runs on processors: on a GPU, training hides most of its time.
    background = ThreadPoolExecutor(1)
    making = background.submit(
        lambda: load_or_make(
            out / "tasks.json", list[WritingTask], lambda: make_tasks(settings.data, data, judge)
        )
    )
    answering = background.submit(
        answer_from_quotes, settings.measuring, settings.data, data, out / "asked", judge
    )
    pairs = load_or_make(
        out / "support-examples.json",
        SupportExamples,
        lambda: make_support_examples(support_settings.data, data),
    )
    print_progress(f"judge of support: {len(pairs.learnt)} pairs")
    support = SupportJudge(train_support_judge(support_settings, pairs.learnt, out / "support-run"))
    support_notes = load_or_make(
        out / "support.json", list[str], lambda: list(describe_support_judge(support, pairs.held))
    )
    tasks = making.result()
    demonstrations = list_demonstrations(tasks)
    print_progress(f"{len(tasks)} tasks, {len(demonstrations)} with a demonstration")

    def imitate(episodes: Sequence[Episode], name: str) -> ImitationResult:
        place = out / f"{name}-episodes.jsonl"
        place.write_text("".join(each.to_json() + "\n" for each in episodes), encoding="utf-8")
        imitation = msgspec.structs.replace(
            settings.imitation,
            episodes=(str(place),),
            trained=msgspec.structs.replace(learner, model=str(base)),
            chat=False,
            seed=settings.seed,
        )

        def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
            print_progress(f"{name}, step {step} of {steps}: loss {measured['loss']:.3f}")

        return load_or_make(
            out / f"{name}-learnt.json",
            ImitationResult,
            lambda: train_by_imitation(imitation, out / f"{name}-run", print_step),
        )

    imitated = imitate(demonstrations, "imitated")
    judged = load_or_make(
        out / "judged.json",
        list[JudgedTask],
        lambda: judge_samples(
            settings.preferences, tasks, Path(imitated.model), judge, settings.seed
        ),
    )
    chosen = choose_best_samples(settings.preferences, judged)
    preferences = describe_preferences(judged, len(chosen))
    print_progress(preferences)
    # From the model as it was, so that one adapter holds all that was learnt.
    learnt = imitate([*demonstrations, *chosen], "adapter")

    found = answering.result()

    def measure_system(name: str, folder: Path | None) -> WrittenAnswers:
        def measure() -> WrittenAnswers:
            episodes = [each.episode for each in found if each.episode.stop == "end"]
            if name == "sentence":
                episodes = quote_sentences(found, judge)
            elif folder is not None:
                trained = name != "without"
                episodes = write_answers(found, folder, trained, judge, settings.measuring)
            return measure_answers(name, found, episodes, base, support.judge_passages)

        return load_or_make(out / f"{name}.json", WrittenAnswers, measure)

    models = {
        "extract": None,
        "sentence": None,
        "without": base,
        "imitated": Path(imitated.model),
        "adapter": Path(learnt.model),
    }
    systems = {name: measure_system(name, folder) for name, folder in models.items()}
    notes = [_describe_learning(*each) for each in (("imitated", imitated), ("adapter", learnt))]
    notes += [_describe_kinds(tasks), preferences, *support_notes]
    notes.append(describe_rule(demonstrations, settings.seed))
    notes += [*describe_written(systems), *describe_parts(systems)]
    return RecipeOutput(make_effects(), [make_table(systems)], make_figures(systems), notes)


def _describe_learning(name: str, learnt: ImitationResult) -> str:
    return (
        f"{name}: {learnt.rows} answers, {learnt.steps} steps; loss on {learnt.validation_rows} "
        f"others {learnt.before.get('validation_loss', 0):.3f} before, "
        f"{learnt.measured.get('validation_loss', 0):.3f} after"
    )


def _describe_kinds(tasks: Sequence[WritingTask]) -> str:
    kinds = sorted({each.kind for each in tasks})
    counts = (
        f"{kind} {sum(each.kind == kind and bool(each.demonstration) for each in tasks)} of "
        f"{sum(each.kind == kind for each in tasks)}"
        for kind in kinds
    )
    return f"demonstrations, of tasks: {', '.join(counts)}"


if __name__ == "__main__":
    main("writer", Settings, train_and_measure)
