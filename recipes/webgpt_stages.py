"""The stages of the WebGPT recipe that are about policies, each made once: teach, imitate, ask.

It knows nothing of what is found.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from recipes.stages import kept, say
from recipes.webgpt_data import Settings, shown
from rookery.draft.offered import offered
from rookery.learn.imitate import Imitated, imitate
from rookery.learn.loading import load
from rookery.learn.models import layers_of
from rookery.learn.offers import browsed
from rookery.learn.scratch import write_blank
from rookery.records import Answer, Episode, Library, Question, Record

Samples = list[list[Answer | None]]
"""of each question"""


def taught(
    settings: Settings, asked: Sequence[Question], library: Library, out: Path
) -> list[Episode]:
    """Demonstrations."""
    place = out / "demonstrations.json"
    return kept(place, list[Episode], lambda: list(shown(settings, asked, library)))


def imitated(settings: Settings, size: tuple[int, int], made: Sequence[Episode], out: Path) -> Path:
    """Behaviour cloning (section 3.2) of a policy of this width and so many layers."""
    start = Path(settings.imitate.trained.model or out / "blank")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(str(out / "demonstrations.jsonl"),),
        chat=False,
    )

    def learn() -> Imitated:
        if not settings.imitate.trained.model:
            texts = [step.prompt + step.said.text for each in made for step in each.steps]
            write_blank(start, texts, settings.vocabulary, settings.context, *size, settings.seed)
        written(out / "demonstrations.jsonl", made)
        return imitate(whole, out / "run")

    done = kept(out / "imitated.json", Imitated, learn)
    say(f"{len(made)} demonstrations cloned, {size}: {done.measured}")
    return Path(done.model)


def weights(policy: Path) -> int:
    """How many weights its layers have: what one token costs."""
    return sum(each.numel() for each in layers_of(load(policy).model).parameters())


def answered(
    settings: Settings,
    asked: Sequence[Question],
    library: Library,
    policy: Path,
    n: int,
    seed: int,
    place: Path,
) -> Samples:
    """n answers of a policy to each question."""
    plain = replace(settings.browsing, extra_answers=0)
    held = offered if settings.held else None
    parts = policy, asked, library, n, settings.reinforce.sampling, plain, held, seed
    return kept(place, Samples, lambda: browsed(*parts))


def written(place: Path, records: Iterable[Record]) -> None:
    """Writes a line of JSON each."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
