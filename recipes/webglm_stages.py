"""The stages of the WebGLM recipe, each made once: bootstrap, distil, prefer.

It knows nothing of what is found.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from recipes.stages import kept, say
from recipes.webglm_data import Bootstrapper, Data, apart, write_little
from rookery.ask.squad import read_squad
from rookery.draft.adopt import Faults
from rookery.draft.batch import answer_all
from rookery.draft.bootstrap import BootstrapSettings, bootstrapped
from rookery.draft.webglm import WebglmSettings
from rookery.judge.forum import read_forum
from rookery.judge.lines import read_lines
from rookery.judge.thumbs import Bias, ThumbsSettings, thumbs_up
from rookery.learn.prefer import Preferred, PreferSettings, prefer
from rookery.learn.referred import Sources
from rookery.learn.retrieve import Retrieved, RetrieveSettings, retrieve
from rookery.learn.warm import write_warm
from rookery.records import Answer, Comparison, Episode, Question, Record


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How large everything is."""

    articles: tuple[int, int]
    """whose questions are learnt from; whose are measured on"""
    questions: tuple[int, int]
    """of each of these articles, at most"""
    retrieve: RetrieveSettings
    """its sources are set here"""
    prefer: PreferSettings
    """its comparisons are set here; it begins as the encoder that `retrieve` begins as, where it
    names no model"""
    bootstrap: BootstrapSettings = BootstrapSettings()
    faults: Faults = Faults()
    webglm: WebglmSettings = WebglmSettings()
    thumbs: ThumbsSettings = ThumbsSettings()
    """pairs that are learnt from"""
    held: float = 0.4
    """share of the threads that are measured on"""
    longest: int = 400
    """characters of a post that are read"""
    n: int = 3
    """answers of a thread of which the best is chosen; it has so many or more"""
    squad: str = "squad/train.json.xz"
    """in the folder of the data; empty: all data are made up"""
    forums: tuple[str, ...] = (
        "stackexchange/beer.jsonl.xz",
        "stackexchange/matheducators.jsonl.xz",
    )
    seed: int = 0


def read_data(settings: Settings, data: Path, little: Path) -> Data:
    """All that the settings name; where they name none, all is made up in the folder `little`."""
    squad, forums = data / settings.squad, [data / place for place in settings.forums]
    encoder = settings.retrieve.model
    if not settings.squad:
        squad, *forums, made = write_little(little, settings.seed)
        encoder = str(made)
    read = read_squad(squad)
    taught, asked = apart(read, settings.articles, settings.questions, settings.seed)
    threads = [thread for place in forums for thread in read_forum(place)]
    Random(f"{settings.seed} threads").shuffle(threads)
    held = round(settings.held * len(threads))
    return Data(read, taught, asked, threads[held:], threads[:held], encoder)


class Bootstrapped(msgspec.Struct, frozen=True):
    """Answers to the questions of one part."""

    written: list[Episode]
    """with their citations corrected"""
    filtered: list[Episode]
    """the same, without an answer where a filter set it aside"""
    place: str
    """the file of the latter"""


def bootstrapped_in(
    settings: Settings, policy: Bootstrapper, questions: Sequence[Question], place: Path
) -> Bootstrapped:
    """Answers all questions (section 3.2); what an earlier run kept is not said again."""
    said = place.with_suffix(".written.jsonl")
    answer_all(questions, said, lambda: lambda question: policy(question).to_json(), 1)
    written = list(read_lines(said, Episode))
    filtered = [bootstrapped(each, settings.bootstrap) for each in written]
    say(f"{sum(each.stop == 'end' for each in filtered)} of {len(questions)} answers survive")
    return Bootstrapped(written, filtered, _lines(place, filtered))


def distilled(settings: Settings, world: Data, taught: Bootstrapped, out: Path) -> Retrieved:
    """A retriever learnt from what the answers that survive were written from (section 3.1.2)."""
    whole = replace(
        settings.retrieve, model=world.encoder, sources=Sources(episodes=(taught.place,))
    )
    done = kept(out / "retrieved.json", Retrieved, lambda: retrieve(whole, out / "retriever"))
    say(f"distilled from {done.questions} questions, best after step {done.best_step}")
    return done


def preferred(settings: Settings, world: Data, out: Path) -> tuple[Preferred, Bias]:
    """A scorer learnt from votes (section 3.3); and what else foretells them in its pairs."""
    start = Path(settings.prefer.trained.model or out / "start")
    if not start.exists():
        write_warm(start, world.encoder)
    made = thumbs_up(world.known, settings.thumbs)
    pairs = [_cut(each, settings.longest) for each in made.comparisons]
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=_lines(out / "pairs.jsonl", pairs),
        samples=_lines(out / "samples.jsonl", pairs[:100]),
    )
    done = kept(out / "preferred.json", Preferred, lambda: prefer(whole, out / "scorer"))
    say(f"learnt from {done.comparisons} pairs, best after step {done.best_step}")
    return done, made.after


def _cut(compared: Comparison, longest: int) -> Comparison:
    answers = tuple(Answer(answer.text[:longest]) for answer in compared.answers)
    return replace(compared, answers=answers)


def _lines(place: Path, records: Sequence[Record]) -> str:
    place.write_text("".join(each.to_json() + "\n" for each in records))
    return str(place)
