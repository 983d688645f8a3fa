"""The stages of the GopherCite recipe, each made once: imitate, prefer, reinforce, ask.

It knows nothing of what is found.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from recipes.gophercite_data import Asked, Data, checked, compared, targets
from recipes.stages import kept, say
from rookery.cite.grammar import Grammar
from rookery.cite.shape import Shape
from rookery.judge.meaning import PLAUSIBLE, SUPPORTED
from rookery.learn.encoder import MINILM
from rookery.learn.examples import Chosen
from rookery.learn.imitate import Imitated, ImitateSettings, imitate
from rookery.learn.prefer import Preferred, PreferSettings, prefer
from rookery.learn.quoted import Drawn, best_found, drawn, once
from rookery.learn.reinforce import Reinforced, ReinforceSettings, reinforce
from rookery.learn.scorer import Scorer
from rookery.learn.tiny import write_tiny
from rookery.learn.warm import write_warm
from rookery.learn.worlds_pages import OneStep
from rookery.learn.worlds_speech import speech_of
from rookery.records import Record


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How large everything is."""

    articles: tuple[int, int, int]
    """learnt from; asked about; left out of the library"""
    questions: tuple[int, int, int]
    """about these, at most"""
    compared: int
    """questions of which answers are compared"""
    facts: int
    """comparisons made from fact checking"""
    imitate: ImitateSettings
    prefer: PreferSettings
    reinforce: ReinforceSettings
    """what a file does not say is as in `rules.A2C`"""
    samples: int
    """N, of which the reward model chooses one"""
    pages: int = 1
    """K, which take turns"""
    squad: str = "squad/train.json.xz"
    """in the folder of the data; empty: a little web is made"""
    climate: str = "climate_fever/climate-fever.jsonl.xz"
    vocabulary: int = 3000
    """of the tiny model that stands in where `imitate` names none"""
    shape: Shape = Shape()
    """how long a quote may be, and what stands before it"""
    seed: int = 0


def imitated(settings: Settings, world: Data, out: Path) -> Path:
    """Learns to quote what was rated good among all sentences of a page (section 2.7)."""
    start = Path(settings.imitate.trained.model or out / "tiny")
    if not (settings.imitate.trained.model or start.exists()):
        texts = [part for question, page in world.taught for part in (question.text, page.text)]
        write_tiny(start, texts, settings.vocabulary, 1024, settings.seed)
    made = list(targets(world.taught))
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(_written(out / "episodes.jsonl", (each for each, _ in made)),),
        ratings=_written(out / "ratings.jsonl", (one for _, some in made for one in some)),
        chosen=Chosen(rated=(SUPPORTED, PLAUSIBLE)),
    )
    done = kept(out / "imitated.json", Imitated, lambda: imitate(whole, out / "sft"))
    say(f"imitated {done.rows} answers that were rated good; left out: {done.left_out}")
    return Path(done.model)


def asked(
    settings: Settings, world: Data, policy: Path, about: Sequence[Asked], n: int, place: Path
) -> list[list[Drawn]]:
    show, shape = best_found(world.holdings, settings.pages), settings.shape
    questions, sampling = [question for question, _ in about], settings.reinforce.sampling
    return kept(
        place,
        list[list[Drawn]],
        lambda: drawn(policy, questions, show, n, sampling, shape, settings.seed),
    )


def preferred(settings: Settings, world: Data, climate: Path, out: Path, sft: Path) -> Path:
    """Learns from comparisons of samples, and from facts (section 2.8, appendix E.2)."""
    some = world.taught[: settings.compared]
    samples = asked(settings, world, sft, some, 4, out / "compared.json")
    made = [
        *compared(some, samples, settings.seed),
        *checked(climate, settings.facts, settings.seed),
    ]
    start = Path(settings.prefer.trained.model or sft)
    if settings.prefer.trained.model == MINILM and not (start := out / MINILM).exists():
        write_warm(start)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=_written(out / "comparisons.jsonl", (each.comparison for each in made)),
        ratings=_written(out / "judged.jsonl", (one for each in made for one in each.ratings)),
    )
    done = kept(out / "preferred.json", Preferred, lambda: prefer(whole, out / "reward"))
    say(f"of held-out comparisons {done.after.credit if done.after else 0:.1%} are foretold")
    return Path(done.model)


def reinforced(settings: Settings, world: Data, out: Path, sft: Path, reward: Path) -> Path:
    """Learns from the reward of what it says of pages that a search finds (section 2.8)."""
    given = settings.reinforce
    whole = replace(given, policy=replace(given.policy, model=str(sft)))

    def learn() -> Reinforced:
        speech = speech_of(sft, whole.sampling.tokens, chat=False)
        grammar = Grammar(speech.vocabulary, settings.shape)
        questions = [question for question, _ in world.taught]
        show, scores = best_found(world.holdings, settings.pages), once(Scorer(reward).scores)
        return reinforce(whole, OneStep(questions, show, scores, speech, grammar), out / "rl")

    done = kept(out / "reinforced.json", Reinforced, learn)
    say(f"A2C ends with the reward {done.reward:.2f}, {done.kl:.2f} nats away {done.faults}")
    return Path(done.model)


def _written(place: Path, records: Iterable[Record]) -> str:
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    return str(place)
