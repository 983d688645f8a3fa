"""`rookery learn reinforce`: the world that a TOML file names, tried before and after."""

from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from rookery.ask.load import questions
from rookery.draft.gophercite import GopherCiteSettings
from rookery.draft.webglm import WebglmSettings
from rookery.learn.config import over, settings_of
from rookery.learn.models import Trained
from rookery.learn.played import World
from rookery.learn.reinforce import Reinforced, reinforce
from rookery.learn.rules import ReinforceSettings, a2c, ppo, rloo, webgpt
from rookery.learn.run import Told
from rookery.learn.scorer import Scorer
from rookery.learn.tried import tried
from rookery.learn.worlds import BrowserWorld, Browsing
from rookery.learn.worlds_pages import quote_world, reference_world
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Library, Question
from rookery.serve.session import Session, Settings

PAPERS = {"ppo": ppo, "webgpt": webgpt, "a2c": a2c, "rloo": rloo}


class WorldSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, what it is answered from, and what an answer is worth."""

    kind: Literal["browser", "quotes", "references"]
    """the text browser (WebGPT), one page a prompt (GopherCite), or five passages (WebGLM)"""
    questions: str
    """a JSONL file of Questions"""
    places: tuple[str, ...] = msgspec.field(default=(), name="in")
    """as `--in` of `rookery ask` names them; none: the web"""
    engine: str = "wikipedia"
    reward: str
    """the folder of a reward model"""
    group: int = 1
    """episodes of one question in a row; 2 or more for rloo"""
    held_out: float = 0.1
    """share of the questions on which the policy is tried before and after, and not trained"""
    tried: int = 64
    """episodes of such a trial"""
    browser: Browsing = Browsing()
    quotes: GopherCiteSettings = GopherCiteSettings()
    references: WebglmSettings = WebglmSettings()

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1 or min(self.group, self.tried) < 1:
            raise ValueError("held_out is a share below 1; group and tried are 1 or more")


class Paper(msgspec.Struct, frozen=True):
    """The part of such a file that is read first."""

    paper: Literal["ppo", "webgpt", "a2c", "rloo"] = "ppo"
    """whose settings count where the file says nothing"""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file for `rookery learn reinforce`, but for the paper and where the run is kept."""

    world: WorldSettings
    settings: ReinforceSettings
    """what the file does not say is as in the paper"""


class Tried(msgspec.Struct, frozen=True):
    """What came of it, and what the policy earned in a trial before and after."""

    reinforced: Reinforced
    asked: str
    """in that trial"""
    before: dict[str, float]
    """`reward`, the mean of its episodes, and the share that was `answered`"""
    after: dict[str, float]


def reinforced(table: dict[str, Any], path: Path, out: Path, told: Told) -> Tried:
    """Trains as the table of the file `path` says. Raises Failed (bad_config) and as it goes."""
    config = settings_of(_over_the_papers(table, path), Config, path)
    named, settings, said = config.world, config.settings, config.settings.policy.model
    speech = speech_of(Path(said), settings.sampling.tokens)
    kept, held = _split(list(questions(Path(named.questions))), named.held_out, settings.seed)
    scorer = Scorer(Path(named.reward))
    with Session(Settings(named.places, named.engine)) as session:
        library = session.open_library()
        world = _world(named, kept, library, scorer, speech)
        trial = _world(named, held, library, scorer, speech) if held else world

        def earned(folder: str) -> dict[str, float]:
            count, no_answer = named.tried, settings.no_answer
            return tried(Path(folder), trial, count, settings.sampling, no_answer)

        before = earned(said)
        found = reinforce(settings, world, out, told)
        held_out = f"{len(held)} questions that were held out"
        asked = held_out if held else f"the {len(kept)} questions that it learnt from"
        return Tried(found, asked, before, earned(found.model))


def _split(asked: list[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Those that are trained on, and those that are not: none, or at least one of each."""
    size = min(max(round(share * len(asked)), 1), len(asked) - 1) if share and asked else 0
    held = set(Random(f"{seed} held out").sample(range(len(asked)), size))
    return (
        [one for number, one in enumerate(asked) if number not in held],
        [one for number, one in enumerate(asked) if number in held],
    )


def _over_the_papers(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """What the file says, and what the paper's settings say where it does not."""
    recipe = PAPERS[settings_of(table, Paper, path).paper]
    below = msgspec.to_builtins(recipe(ReinforceSettings(policy=Trained(""), steps=1)))
    del below["policy"], below["steps"]
    rest = {name: value for name, value in table.items() if name != "paper"}
    return rest | {"settings": over(below, rest["settings"])} if "settings" in rest else rest


def _world(
    settings: WorldSettings,
    asked: list[Question],
    library: Library,
    scorer: Scorer,
    speech: Speech,
) -> World:
    if settings.kind == "browser":
        browsing = msgspec.structs.replace(settings.browser, group=settings.group)
        return BrowserWorld(asked, library, scorer.scores, speech, browsing)
    if settings.kind == "quotes":
        quoting, group = settings.quotes, settings.group
        return quote_world(asked, library, scorer.scores, speech, quoting, group=group)
    shown, group = settings.references, settings.group
    return reference_world(asked, library, scorer.scores, speech, shown, group=group)
