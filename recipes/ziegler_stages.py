"""The stages of `recipes.ziegler`: a language model, policies that learn from it, what they say.

Each is done once in a run's folder. It knows nothing of what is found.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from recipes.stages import kept, say
from recipes.ziegler_data import Task
from rookery.judge.lines import read_lines
from rookery.learn.examples import Chosen
from rookery.learn.imitate import ImitateSettings, imitate
from rookery.learn.labels import LabelSettings, Mock, learn_with_labels
from rookery.learn.labels_kept import write_lines
from rookery.learn.reinforce import reinforce
from rookery.learn.scratch import write_blank
from rookery.learn.worlds import worths
from rookery.learn.worlds_speech import speech_of
from rookery.learn.worlds_text import Spoken, answer_of, spoken, text_world
from rookery.measure.battle import Match
from rookery.measure.frontier import Reached
from rookery.measure.interval import Estimate, mean
from rookery.records import Comparison, Completion, Episode, Question, Step

REFERENCE = "reference"
Said = tuple[str, str, str]
"""a prompt, what is said to it, and why that stops"""


class Aim(NamedTuple):
    """Of a policy that knows the hidden reward."""

    kl: float
    """in nats"""
    spread: float
    """the standard deviation of the reward of the reference's answers to one question"""

    @property
    def beta(self) -> float:
        """With this price of a nat, the best policy has about this KL, were rewards normal."""
        return self.spread / math.sqrt(2 * self.kl)


class Seen(NamedTuple):
    """How a policy does beside its reference."""

    rewards: list[float]
    groups: list[str]
    """the questions of the rewards"""
    matches: list[Match]
    reached: Reached
    gain: Estimate
    """of reward"""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large it is. The models that the parts begin as, and their data, are set here."""

    language: ImitateSettings
    """of the language model; it learns from what is not held out of the novels, and abstracts"""
    tuned: ImitateSettings
    """of imitating the answers that were chosen, and the summaries that people wrote"""
    labels: LabelSettings
    """of continuations, online; offline, all labels come first"""
    summaries: LabelSettings
    targets: tuple[float, ...]
    """KL in nats, of policies that know the hidden reward"""
    betas: tuple[float, ...]
    """prices of a nat for which the optimum is computed"""
    model: str = ""
    """the folder of a language model; empty: one is learnt from nothing"""
    vocabulary: int = 2048
    width: int = 128
    layers: int = 2
    context: int = 256
    """tokens that it can read"""
    passage: tuple[int, int] = (10, 32)
    """words of what it learns from, whole sentences"""
    excerpt: tuple[int, int] = (8, 16)
    """words of what is continued"""
    abstract: int = 60
    """words of an abstract that are shown"""
    held: int = 48
    """excerpts that are measured on, and abstracts `each` times as many"""
    each: int = 8
    """continuations of one by each policy"""
    drawn: int = 256
    """by the reference, for the optimum"""
    made_up: bool = False
    """whether data are made of the pages that come with the package"""
    seed: int = 0


class Play:
    """One run in its folder: each stage is done once."""

    def __init__(self, settings: Settings, out: Path) -> None:
        self.settings = settings
        self.out = out

    def language(self, texts: Sequence[str]) -> str:
        """The reference of all tasks."""
        made = self.settings
        if made.model:
            return made.model
        size = (made.vocabulary, made.context, made.width, made.layers, made.seed)
        blank = self.out / "blank"
        kept(self.out / "blank.json", type(None), lambda: write_blank(blank, texts, *size))
        parts = [text.partition(" ") for text in texts]
        said = [(first, f" {rest}", "length") for first, _, rest in parts]
        return self.imitated("language", made.language, str(blank), said)

    def imitated(self, name: str, how: ImitateSettings, model: str, said: Sequence[Said]) -> str:
        """A model that has learnt to say, after each prompt, a text that stops in this way."""
        place = self.out / f"{name}.jsonl"
        episodes = [
            Episode(
                Question(f"{at}", f"{name} {at}"),
                name,
                (Step(prompt, Completion(text, stop=stop)),),
            )
            for at, (prompt, text, stop) in enumerate(said)
        ]
        trained = replace(how.trained, model=model)
        how = replace(
            how,
            trained=trained,
            episodes=(str(place),),
            chat=False,
            chosen=Chosen(answered=False),
            seed=self.settings.seed,
        )

        def make() -> str:
            say(f"{name}: imitating {len(said)} texts")
            write_lines(place, episodes)
            return imitate(how, self.out / name).model

        return kept(self.out / f"{name}.json", str, make)

    def learnt(
        self, name: str, task: Task, model: str, how: LabelSettings, aim: Aim | None = None
    ) -> str:
        """A policy that has learnt from labels, or, with an aim, from the hidden reward itself."""
        seed, begun = self.settings.seed, replace(how.reinforce.policy, model=model)
        policy = replace(how.reinforce, policy=begun, seed=seed)
        trained = replace(how.prefer.trained, model=model)
        prefer = replace(how.prefer, trained=trained, seed=seed)
        speech = speech_of(Path(model), policy.sampling.tokens, chat=False)
        world = text_world(task.asked, task.shown, speech, task.whole)
        place = self.out / name

        def make() -> str:
            say(f"{name}: {policy.steps} batches of {policy.episodes} episodes")
            if aim:
                aimed = replace(policy, target=aim.kl, beta=aim.beta)
                return reinforce(aimed, world(task.worth, 1), place).model
            mock = Mock(lambda question, answer: task.worth([(question, answer)])[0])
            asking = replace(how, reinforce=policy, prefer=prefer)
            return learn_with_labels(asking, world, mock, place).reinforced.model

        return kept(self.out / f"{name}.json", str, make)

    def cloned(self, name: str, task: Task, model: str, labelled: str) -> str:
        """A policy that has learnt to say what was chosen in the labels of another's run."""
        labels = read_lines(self.out / labelled / "labels" / "labels.jsonl", Comparison)
        chosen = [
            (one.question, one.answers[one.weights.index(max(one.weights))]) for one in labels
        ]
        said = [(task.shown(asked), f" {best.text}", "length") for asked, best in chosen]
        return self.imitated(name, self.settings.tuned, model, said)

    def kls(self, name: str) -> list[float]:
        """The KL of each batch of a run, in nats an episode."""
        lines = (self.out / name / "metrics.jsonl").read_text("utf-8").splitlines()
        return [float(json.loads(line)["kl"]) for line in lines]

    def foretold(self, name: str) -> float:
        """How often the last reward model of a run finds the chosen one of four best, of labels
        that it did not learn from."""
        place = max((self.out / name / "labels" / "rewards").glob("*/metrics.jsonl"))
        last = json.loads(place.read_text("utf-8").splitlines()[-1])
        return float(last.get("validation_credit", math.nan))

    def seen(self, task: Task, name: str, model: str, reference: str) -> Seen:
        """How a policy does beside its reference."""
        times = self.settings.each
        groups = [question.id for question in task.held for _ in range(times)]
        ours, theirs = (
            self.said(f"{task.name}-{who}", task, where, reference, times)
            for who, where in ((name, model), (REFERENCE, reference))
        )
        rewards, others = (self.worth(task, said, times) for said in (ours, theirs))
        matches = [
            Match(name, REFERENCE, (one > other) + (one == other) / 2, group)
            for one, other, group in zip(rewards, others, groups, strict=True)
        ]
        gains = [one - other for one, other in zip(rewards, others, strict=True)]
        reached = Reached(fmean(one.kl for one in ours), mean(rewards, groups))
        return Seen(rewards, groups, matches, reached, mean(gains, groups))

    def worth(self, task: Task, said: Sequence[Spoken], times: int) -> list[float]:
        """The hidden reward of what was said; of no answer, what it counts for learning."""
        asked = [question for question in task.held for _ in range(times)]
        found = [answer_of(one, task.whole) for one in said]
        none = self.settings.labels.reinforce.no_answer
        return [
            none if each is None else each
            for each in worths(task.worth, list(zip(asked, found, strict=True)))
        ]

    def said(self, name: str, task: Task, model: str, reference: str, times: int) -> list[Spoken]:
        """What a policy says to each held question, so many times."""
        how = self.settings.summaries if task.whole else self.settings.labels
        prompts = [task.shown(question) for question in task.held for _ in range(times)]
        seed = self.settings.seed + 1 + times

        def make() -> list[Spoken]:
            say(f"{name}: {len(prompts)} texts")
            return spoken(Path(model), prompts, how.reinforce.sampling, reference, seed)

        return kept(self.out / "said" / f"{name}.json", list[Spoken], make)
