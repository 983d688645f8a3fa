"""Policy stages of the WebGPT recipe, each run once: demonstrate, imitate, ask."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from recipes.stages import load_or_make, print_progress
from recipes.webgpt_data import Settings, make_demonstrations
from rookery.draft.oracle_policies import list_candidate_actions
from rookery.learn.candidate_actions import sample_browser_answers
from rookery.learn.imitation_learning import ImitationResult, train_by_imitation
from rookery.learn.pretrained_models import get_layers, load_model
from rookery.learn.random_models import write_random_model
from rookery.records import Answer, Episode, Library, Question, Record

Samples = list[list[Answer | None]]
"""Answers by question; None: a sample that is no answer."""


def load_demonstrations(
    settings: Settings, asked: Sequence[Question], library: Library, out: Path
) -> list[Episode]:
    """Return the demonstrations of these questions, made once."""
    place = out / "demonstrations.json"
    return load_or_make(
        place, list[Episode], lambda: list(make_demonstrations(settings, asked, library))
    )


def clone_behaviour(
    settings: Settings, size: tuple[int, int], made: Sequence[Episode], out: Path
) -> Path:
    """Train a policy of this width and number of layers by behaviour cloning (section 3.2) and
    return its folder."""
    start = Path(settings.imitate.trained.model or out / "blank")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(str(out / "demonstrations.jsonl"),),
        chat=False,
    )

    def learn() -> ImitationResult:
        if not settings.imitate.trained.model:
            texts = [step.prompt + step.said.text for each in made for step in each.steps]
            write_random_model(
                start, texts, settings.vocabulary, settings.context, *size, settings.seed
            )
        write_records(out / "demonstrations.jsonl", made)
        return train_by_imitation(whole, out / "run")

    done = load_or_make(out / "imitated.json", ImitationResult, learn)
    print_progress(f"{len(made)} demonstrations cloned, {size}: {done.measured}")
    return Path(done.model)


def count_layer_weights(policy: Path) -> int:
    """Count the weights of a policy's layers, the cost of one token."""
    return sum(each.numel() for each in get_layers(load_model(policy).model).parameters())


def sample_answers(
    settings: Settings,
    asked: Sequence[Question],
    library: Library,
    policy: Path,
    n: int,
    seed: int,
    place: Path,
) -> Samples:
    """Sample n answers of a policy to each question, and keep them in `place`."""
    held = list_candidate_actions if settings.held else None
    parts = policy, asked, library, n, settings.reinforce.sampling, settings.browsing, held, seed
    return load_or_make(place, Samples, lambda: sample_browser_answers(*parts))


def write_records(place: Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
