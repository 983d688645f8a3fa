"""`rookery learn reinforce`: the world that a TOML file names, tried before and after, and the desk
where people compare meanwhile and may stop it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from rookery.ask.load import questions
from rookery.draft.config import over, settings_of
from rookery.draft.gophercite import GopherCiteSettings
from rookery.draft.webglm import WebglmSettings
from rookery.learn.labels import Labelled, LabelSettings, Make, learn_with_labels
from rookery.learn.models import Trained
from rookery.learn.played import World
from rookery.learn.reinforce import Reinforced, reinforce
from rookery.learn.rules import ReinforceSettings, a2c, ppo, rloo, webgpt
from rookery.learn.run import Cord, Told
from rookery.learn.scorer import Scorer
from rookery.learn.tried import tried
from rookery.learn.worlds import BrowserWorld, Browsing, Scores
from rookery.learn.worlds_pages import quote_world, reference_world
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Failed, Failure, Library, Question
from rookery.serve.session import Session, Settings

if TYPE_CHECKING:
    from rookery.learn.desk import Desk

MOST = 4
"""answers that people compare at once"""
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
    reward: str = ""
    """the folder of a reward model; empty: it is learnt from labels"""
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
        if self.browser.group not in (1, self.group):
            raise ValueError("`group` does not belong in [world.browser]: write it in [world]")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file for `rookery learn reinforce`, but for where the run is kept."""

    paper: Literal["ppo", "webgpt", "a2c", "rloo"] = "ppo"
    """whose settings count where the file says nothing"""
    world: WorldSettings
    settings: ReinforceSettings
    """what the file does not say is as in the paper"""
    labels: dict[str, Any] | None = None
    """LabelSettings but for `reinforce` and `group`; None: there is a reward model"""
    desk: dict[str, Any] | None = None
    """DeskSettings; None: those that they begin with"""

    def __post_init__(self) -> None:
        if bool(self.world.reward) == (self.labels is not None):
            raise ValueError(
                "give either world.reward, a reward model, or [labels], from which "
                "one is learnt meanwhile"
            )
        if self.settings.advantage == "rloo" and self.world.group < 2:
            raise ValueError(
                'advantage = "rloo" (paper = "rloo") compares the episodes of a question with one '
                "another: set group = 4, or any number from 2 on, in [world]"
            )
        if self.settings.server and self.world.kind == "quotes":
            raise ValueError(
                "leave settings.server empty in a world of quotes: a server cannot be held to a "
                "page token by token"
            )


class Tried(msgspec.Struct, frozen=True):
    """What came of it, and what the policy earned in a trial before and after."""

    reinforced: Reinforced
    asked: str
    """in that trial"""
    before: dict[str, float]
    """`reward`, the mean of its episodes, and the share that was `answered`"""
    after: dict[str, float]
    labelled: Labelled | None = None
    """what came of asking people; None: there was a reward model, which says what was earned"""


class _Worlds(NamedTuple):
    """Where it learns, and where it is tried, by what scores answers and the size of a group."""

    kept: Make
    trial: Make
    asked: str
    """in the trial"""


def reinforced(
    table: dict[str, Any], path: Path, out: Path, told: Told, desk: str = "", main: bool = True
) -> Tried:
    """Trains as the table of the file `path` says, at the desk of the store `desk`, or at none.

    Raises Failed: bad_config, stopped where the cord was pulled, and as it goes.
    """
    config = settings_of(_over_the_papers(table), Config, path, also=("out",))
    labels = _labels(config, path)
    named = config.world
    with (
        _at(config, desk, path, out, told, main) as there,
        Session(Settings(named.places, named.engine)) as session,
    ):
        worlds = _worlds(config, session.open_library())
        tell = there.told(told) if there else told
        if labels and there:
            return _by_labels(config, labels, worlds, there, out, tell)
        return _by_reward(config, worlds, out, tell, there.pulled if there else str)


def _by_reward(config: Config, worlds: _Worlds, out: Path, told: Told, cord: Cord) -> Tried:
    settings, scores = config.settings, Scorer(Path(config.world.reward)).scores
    before = _earned(config, worlds, settings.policy.model, scores)
    world = worlds.kept(scores, config.world.group)
    found = reinforce(settings, world, out, told, cord=cord)
    return Tried(found, worlds.asked, before, _earned(config, worlds, found.model, scores))


def _by_labels(
    config: Config, labels: LabelSettings, worlds: _Worlds, desk: "Desk", out: Path, told: Told
) -> Tried:
    """The last of its reward models says what was earned, before as after."""
    found = learn_with_labels(labels, worlds.kept, desk, out, told, desk.pulled)
    scores, learnt = Scorer(Path(found.reward)).scores, found.reinforced
    before, after = (
        _earned(config, worlds, model, scores)
        for model in (config.settings.policy.model, learnt.model)
    )
    return Tried(learnt, worlds.asked, before, after, found)


def _earned(config: Config, worlds: _Worlds, policy: str, scores: Scores) -> dict[str, float]:
    settings, named = config.settings, config.world
    world = worlds.trial(scores, named.group)
    return tried(Path(policy), world, named.tried, settings.sampling, settings.no_answer)


def _labels(config: Config, path: Path) -> LabelSettings | None:
    """What the file says of labels, and what it says elsewhere that goes with them."""
    if config.labels is None:
        return None
    for name, place in {"reinforce": "[settings]", "group": "[world]"}.items():
        if name in config.labels:
            detail = f"`{name}` does not belong in [labels]: write it in {place}"
            raise Failed(Failure(str(path), "bad_config", detail))
    said = over({"prefer": {"comparisons": ""}}, config.labels)
    said |= {"reinforce": msgspec.to_builtins(config.settings), "group": config.world.group}
    labels = settings_of(said, LabelSettings, path, ("labels",))
    if labels.answers > MOST:
        detail = f"people compare 2, 3 or {MOST} answers at a desk, and labels.answers is more"
        raise Failed(Failure(str(path), "bad_config", detail))
    return labels


@contextmanager
def _at(
    config: Config, store: str, path: Path, out: Path, told: Told, main: bool
) -> Iterator["Desk | None"]:
    """The desk, as long as the run goes on."""
    if not store:
        if config.labels is not None or config.desk is not None:
            detail = "[labels] and [desk] are for a run at a desk: name its store, --desk STORE"
            raise Failed(Failure(str(path), "bad_config", detail))
        yield None
        return
    try:
        from rookery.judge.store import Store
        from rookery.learn.desk import Desk, DeskSettings
    except ModuleNotFoundError as error:
        detail = f"a desk needs {error.name}: pip install 'rookery[serve]'"
        raise Failed(Failure("--desk", "no_desk", detail)) from error

    def waits(count: int) -> None:
        told(desk.step, config.settings.steps, {"waiting": float(count)})

    settings = settings_of(config.desk or {}, DeskSettings, path, ("desk",))
    with Store(store) as opened, Desk(opened, out, settings, main, waits) as desk:
        yield desk


def _worlds(config: Config, library: Library) -> _Worlds:
    named, settings = config.world, config.settings
    speech = speech_of(Path(settings.policy.model), settings.sampling.tokens)
    asked = list(questions(Path(named.questions)))
    kept, held = _split(asked, named.held_out, settings.seed)

    def make(some: list[Question]) -> Make:
        return lambda scores, group: _world(named, some, library, scores, group, speech)

    held_out = f"{len(held)} questions that were held out"
    learnt = f"the {len(kept)} questions that it learnt from"
    return _Worlds(make(kept), make(held or kept), held_out if held else learnt)


def _split(asked: list[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Those that are trained on, and those that are not: none, or at least one of each."""
    size = min(max(round(share * len(asked)), 1), len(asked) - 1) if share and asked else 0
    held = set(Random(f"{seed} held out").sample(range(len(asked)), size))
    return (
        [one for number, one in enumerate(asked) if number not in held],
        [one for number, one in enumerate(asked) if number in held],
    )


def _over_the_papers(table: dict[str, Any]) -> dict[str, Any]:
    """What the file says, and what the paper's settings say where it does not. A paper that does
    not exist is left for `settings_of` to name."""
    recipe = PAPERS.get(str(table.get("paper", "ppo")), ppo)
    below = msgspec.to_builtins(recipe(policy=Trained(""), steps=1))
    del below["policy"], below["steps"]
    said = table.get("settings")
    return table | {"settings": over(below, said)} if isinstance(said, dict) else table


def _world(
    settings: WorldSettings,
    asked: list[Question],
    library: Library,
    scores: Scores,
    group: int,
    speech: Speech,
) -> World:
    if settings.kind == "browser":
        browsing = msgspec.structs.replace(settings.browser, group=group)
        return BrowserWorld(asked, library, scores, speech, browsing)
    if settings.kind == "quotes":
        return quote_world(asked, library, scores, speech, settings.quotes, group=group)
    return reference_world(asked, library, scores, speech, settings.references, group=group)
