"""Stages of `recipes.ziegler`, each run once in the run's folder: language model, policies,
samples."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from recipes.policy_samples import sample_completions
from recipes.random_models import write_random_model
from recipes.rewards import MockLabeller
from recipes.stages import load_or_make, print_progress
from recipes.text_environment import (
    PolicyCompletion,
    convert_completion_to_answer,
    make_text_environment,
)
from recipes.ziegler_data import Task
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.online_labelling import (
    OnlineLabellingSettings,
    RequestRound,
    train_with_online_labels,
    write_records,
)
from rookery.learn.pretrained_models import load_policy_tokenizer
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.rollout_environments import compute_answer_rewards
from rookery.learn.training_data import EpisodeFilter
from rookery.measure.intervals import estimate_mean
from rookery.measure.pairwise import PairwiseMatch
from rookery.measure.reward_frontiers import ReachedPoint
from rookery.records import Answer, Comparison, Completion, Episode, Question, Step
from rookery.typed_files import read_json_lines

REFERENCE = "reference"
PromptCompletion = tuple[str, str, str]
"""A prompt, its completion, and the reason why that stops."""


class RewardTarget(NamedTuple):
    """KL target of a policy that learns from the hidden reward itself."""

    kl: float
    """In nats."""
    spread: float
    """Standard deviation of the reward among the reference's answers to one question."""

    @property
    def beta(self) -> float:
        """KL coefficient at which the optimal policy has about this KL, if rewards are normally
        distributed."""
        return self.spread / math.sqrt(2 * self.kl)


class PolicyComparison(NamedTuple):
    """A policy compared with its reference on the held-out questions, by the judge."""

    rewards: list[float]
    reference: list[float]
    """Rewards of the reference."""
    groups: list[str]
    """Question of each reward."""
    matches: list[PairwiseMatch]
    reached: ReachedPoint
    """By the labeller, who did not judge: what was learnt from."""
    judged: ReachedPoint
    whole: list[float]
    """Of each completion, 1 where it is an answer, and not cut off or empty; else 0."""
    reference_whole: list[float]
    reference_hidden: list[float]
    """Of each completion of the reference, the labeller's reward."""
    hidden: list[float]
    """Of each completion of the policy, the same."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the recipe. Models that stages start from, and their data, are set by the recipe."""

    language: ImitationSettings
    """For the language model, trained on the novels (without the held-out parts) and abstracts."""
    tuned: ImitationSettings
    """For imitating the summaries that people wrote."""
    labels: OnlineLabellingSettings
    """For continuations, online; offline, every label comes first."""
    summaries: OnlineLabellingSettings
    targets: tuple[float, ...]
    """KL targets in nats of the policies that know the hidden reward."""
    betas: tuple[float, ...]
    """KL coefficients at which the optimum is computed."""
    model: str = ""
    """Folder of a language model, or "smollm2" for the one that was added to this machine; empty:
    one is trained from random weights."""
    encoder: str = "minilm"
    """Sentence encoder of the judge: a folder, or "minilm" for all-MiniLM-L6-v2."""
    vocabulary: int = 2048
    width: int = 128
    layers: int = 2
    context: int = 256
    """Tokens that it can read."""
    passage: tuple[int, int] = (10, 32)
    """Words of the language model's training texts, in whole sentences."""
    excerpt: tuple[int, int] = (8, 16)
    """Words of a text to continue."""
    full_stop: int = 0
    """Token of a continuation, counted from 1, from which on a full stop ends it; without one it is
    no answer (Ziegler, section 3.1.2: 16, of 24). 0: it ends as it will."""
    abstract: int = 60
    """Maximum words of an abstract in a prompt."""
    demonstrations: int | None = None
    """Summaries of people that are imitated; None: all."""
    held_abstracts: int = 48
    """Abstracts that are measured on."""
    held: int = 48
    """Excerpts that are measured on."""
    each: int = 8
    """Continuations of each prompt by each policy."""
    drawn: int = 256
    """Samples of the reference for the optimum, of each of `drawn_excerpts`."""
    drawn_excerpts: int = 48
    """Excerpts, of those that are measured on, for which the optimum is estimated."""
    made_up: bool = False
    """True: data are made from the packaged pages."""
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of texts for each use;
    the same for all seeds, so that their rows can be paired."""


class StagedRun:
    """One run in its folder; each stage is done once."""

    def __init__(self, settings: Settings, out: Path) -> None:
        self.settings = settings
        self.out = out

    def train_language_model(self, texts: Sequence[str]) -> str:
        """Train the language model, unless the settings name one, and return its folder: the
        reference of every task."""
        settings = self.settings
        if settings.model:
            return settings.model
        size = (
            settings.vocabulary,
            settings.context,
            settings.width,
            settings.layers,
            settings.seed,
        )
        blank = self.out / "blank"
        load_or_make(
            self.out / "blank.json", type(None), lambda: write_random_model(blank, texts, *size)
        )
        parts = [text.partition(" ") for text in texts]
        completions = [(first, f" {rest}", "length") for first, _, rest in parts]
        return self.train_imitation("language", settings.language, str(blank), completions)

    def train_imitation(
        self, name: str, how: ImitationSettings, model: str, completions: Sequence[PromptCompletion]
    ) -> str:
        """Train a model to complete each prompt with the given text and return its folder."""
        place = self.out / f"{name}.jsonl"
        episodes = [
            Episode(
                Question(f"{at}", f"{name} {at}"),
                name,
                (Step(prompt, Completion(text, stop=stop)),),
            )
            for at, (prompt, text, stop) in enumerate(completions)
        ]
        trained = replace(how.trained, model=model)
        how = replace(
            how,
            trained=trained,
            episodes=(str(place),),
            chat=False,
            chosen=EpisodeFilter(answered=False),
            seed=self.settings.seed,
        )

        def make() -> str:
            print_progress(f"{name}: imitating {len(completions)} texts")
            write_records(place, episodes)
            return train_by_imitation(how, self.out / name).model

        return load_or_make(self.out / f"{name}.json", str, make)

    def train_with_labels(
        self,
        name: str,
        task: Task,
        model: str,
        how: OnlineLabellingSettings,
        aim: RewardTarget | None = None,
        shared: str = "",
    ) -> str:
        """Train a policy from labels, or with an aim from the hidden reward itself, and return its
        folder.

        The first labels are about the answers that were drawn for the run `shared`, of the same
        questions and reference.
        """
        seed, begun = self.settings.seed, replace(how.reinforce.policy, model=model)
        policy = replace(how.reinforce, policy=begun, seed=seed)
        trained = replace(how.prefer.trained, model=model)
        prefer = replace(how.prefer, trained=trained, seed=seed)
        speech = load_policy_tokenizer(Path(model), policy.sampling.max_tokens, chat=False)
        ends = task.whole, task.full_stop
        world = make_text_environment(task.asked, task.shown, speech, *ends)
        place = self.out / name

        def make() -> str:
            print_progress(f"{name}: {policy.steps} batches of {policy.episodes} episodes")
            if aim:
                aimed = replace(policy, target=aim.kl, beta=aim.beta)
                return train_by_reinforcement(aimed, world(task.worth, 1), place).model
            if shared:
                self._share_requests(shared, name, how.initial)
            mock = MockLabeller(lambda question, answer: task.worth([(question, answer)])[0])
            asking = replace(how, reinforce=policy, prefer=prefer)
            return train_with_online_labels(asking, world, mock, place).reinforced.model

        return load_or_make(self.out / f"{name}.json", str, make)

    def _share_requests(self, shared: str, name: str, count: int) -> None:
        """Begin a run with the first requests of another, and its samples of the reference.

        All runs would draw the same from the reference, which took a fifth of their time.
        """
        source, folder = (self.out / each / "labels" for each in (shared, name))
        if (folder / "requests.jsonl").exists():
            return
        rounds = list(read_json_lines(source / "requests.jsonl", RequestRound))
        requests = [request for each in rounds for request in each.requests][:count]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "reference.jsonl", folder / "reference.jsonl")
        write_records(folder / "requests.jsonl", [RequestRound(rounds[-1].groups, tuple(requests))])

    def read_kls(self, name: str) -> list[float]:
        """Read the KL of each batch of a run, in nats per episode."""
        lines = (self.out / name / "metrics.jsonl").read_text("utf-8").splitlines()
        return [float(json.loads(line)["kl"]) for line in lines]

    def read_reward_accuracy(self, name: str) -> tuple[float, float]:
        """Read how often the last reward model of a run ranks the chosen answer first, on held-out
        labels, and how often one by lot is first, on all: labels compare four answers, or fewer
        where some have no full stop or do not end."""
        folder = self.out / name / "labels"
        place = max((folder / "rewards").glob("*/metrics.jsonl"))
        last = json.loads(place.read_text("utf-8").splitlines()[-1])
        labels = read_json_lines(folder / "labels.jsonl", Comparison)
        by_lot = fmean(1 / len(label.answers) for label in labels)
        return float(last.get("validation_credit", math.nan)), by_lot

    def compare_with_reference(
        self, task: Task, name: str, model: str, reference: str
    ) -> PolicyComparison:
        """Compare a policy with its reference on the held-out questions."""
        times = self.settings.each
        groups = [question.id for question in task.held for _ in range(times)]
        own_completions, reference_completions = (
            self.sample_completions(f"{task.name}-{who}", task, where, reference, times)
            for who, where in ((name, model), (REFERENCE, reference))
        )
        rewards, others = (
            self.judge_completions(task, completions, times)
            for completions in (own_completions, reference_completions)
        )
        matches = [
            PairwiseMatch(name, REFERENCE, (one > other) + (one == other) / 2, group)
            for one, other, group in zip(rewards, others, groups, strict=True)
        ]
        kl = fmean(one.kl for one in own_completions)
        hidden, others_hidden = (
            self.score_hidden_reward(task, completions, times)
            for completions in (own_completions, reference_completions)
        )
        whole, others_whole = (
            [
                float(convert_completion_to_answer(one, task.whole) is not None)
                for one in completions
            ]
            for completions in (own_completions, reference_completions)
        )
        return PolicyComparison(
            rewards,
            others,
            groups,
            matches,
            ReachedPoint(kl, estimate_mean(hidden, groups)),
            ReachedPoint(kl, estimate_mean(rewards, groups)),
            whole,
            others_whole,
            others_hidden,
            hidden,
        )

    def draw_rewards(
        self, task: Task, reference: str
    ) -> tuple[list[list[float]], list[list[float]]]:
        """Sample the reference for the optimum; return the labeller's rewards, and the judge's, of
        the samples of each excerpt."""
        times = self.settings.drawn
        some = task._replace(held=task.held[: self.settings.drawn_excerpts])
        completions = self.sample_completions("drawn", some, reference, "", times)
        rewards, judged = (
            [each[at : at + times] for at in range(0, len(each), times)]
            for each in (
                self.score_hidden_reward(some, completions, times),
                self.judge_completions(some, completions, times),
            )
        )
        return rewards, judged

    def judge_completions(
        self, task: Task, completions: Sequence[PolicyCompletion], times: int
    ) -> list[float]:
        """Return the reward of each completion by the judge, who reads also what was cut off: what
        full stops are worth is not a part of it."""
        questions = [question for question in task.held for _ in range(times)]
        return list(
            task.judged(
                [(one, Answer(each.text)) for one, each in zip(questions, completions, strict=True)]
            )
        )

    def score_hidden_reward(
        self, task: Task, completions: Sequence[PolicyCompletion], times: int
    ) -> list[float]:
        """Return the hidden reward of each completion; a completion that is no answer gets the
        reward used in training."""
        questions = [question for question in task.held for _ in range(times)]
        answers = [convert_completion_to_answer(one, task.whole) for one in completions]
        none = self.settings.labels.reinforce.no_answer
        return [
            none if each is None else each
            for each in compute_answer_rewards(
                task.worth, list(zip(questions, answers, strict=True))
            )
        ]

    def sample_completions(
        self, name: str, task: Task, model: str, reference: str, times: int
    ) -> list[PolicyCompletion]:
        """Sample `times` completions of a policy for each held-out question."""
        how = self.settings.summaries if task.whole else self.settings.labels
        prompts = [task.shown(question) for question in task.held for _ in range(times)]
        seed = self.settings.seed + 1 + times

        def make() -> list[PolicyCompletion]:
            print_progress(f"{name}: {len(prompts)} texts")
            sampling = how.reinforce.sampling
            return sample_completions(
                Path(model), prompts, sampling, reference, seed, task.full_stop
            )

        return load_or_make(self.out / "said" / f"{name}.json", list[PolicyCompletion], make)
