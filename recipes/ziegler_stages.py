"""Stages of `recipes.ziegler`, each run once: reference, reward models, policies, samples."""

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
from msgspec.structs import replace

from recipes.policy_samples import sample_completions
from recipes.random_models import write_random_model
from recipes.rewards import MockLabeller, write_pretrained_encoder
from recipes.stages import load_or_make, print_progress
from recipes.text_environment import PolicyCompletion, decode_completion, make_text_environment
from recipes.ziegler_data import Novels
from rookery.learn.episodes import RolloutEnvironment
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.online_labelling import (
    ComparisonQuestion,
    ComparisonRequest,
    OnlineLabellingSettings,
    RequestRound,
    train_with_online_labels,
    write_records,
)
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    choose_precision,
    load_policy_tokenizer,
)
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.learn.training_data import EpisodeFilter
from rookery.records import Answer, Comparison, Completion, Episode, Question, Step

TINY_MODEL = {"vocabulary": 400, "context": 128, "width": 16, "layers": 1}
STORED_TEXTS = 512
QuestionSamples = list[list[PolicyCompletion]]
"""Continuations of each question."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the recipe. Models that stages start from, and their data, are set by the recipe."""

    tuned: ImitationSettings
    """For the reference, which imitates passages of the novels."""
    reward: RewardTrainingSettings
    """For reward models that begin as MiniLM."""
    last_token: RewardTrainingSettings
    """For the paper's own reward models, which begin as the reference."""
    policy: ReinforcementSettings
    """For every policy, but for its KL target."""
    labels: tuple[tuple[int, int], ...]
    """Numbers of labels that a reward model learns from, and the passes over them."""
    last_token_labels: int
    """The number that the paper's own learns from, once."""
    learnt: tuple[int, ...]
    """Numbers of labels whose reward models a policy learns from."""
    online: tuple[int, int]
    """Labels before the first episode, and in all, where they are collected meanwhile."""
    targets: tuple[float, ...]
    """KL targets of the policies that know the hidden reward, in nats; others have the last."""
    model: str = ""
    """Folder or name of a language model; empty: random weights, and data made from the packaged
    pages."""
    passages: int
    """Passages of novels that the reference imitates."""
    passage: tuple[int, int] = (16, 40)
    excerpt: tuple[int, int] = (5, 12)
    """Words of such a passage, and of a beginning to continue, in whole sentences."""
    labelled: int
    """Beginnings, each with four continuations by the reference, that labels are about."""
    held: int
    """Beginnings that are measured on."""
    each: int
    drawn: int
    """Continuations of each by each policy, and by the reference for the best of n."""
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of texts, the same for all seeds: their rows are paired."""


class StagedRun:
    """One run in its folder; each stage is done once."""

    def __init__(self, settings: Settings, out: Path, novels: Novels, encoder: str) -> None:
        self.settings, self.out, self.novels = settings, out, novels
        self.held = novels.measured[: settings.held]
        slow = choose_precision("") == "float32"  # "" on a GPU
        self._dtype: Literal["float32", "bfloat16"] = "float32" if slow else "bfloat16"
        self.reference = load_or_make(out / "reference.json", str, self._tune_to_novels)
        limit = settings.policy.sampling.token_limit
        self._speech = load_policy_tokenizer(Path(self.reference), limit, chat=False)
        start, how = out / "encoder", settings.reward
        write = partial(write_pretrained_encoder, start, encoder)
        load_or_make(out / "encoder.json", type(None), write)
        trained = replace(how.trained, model=str(start))
        self._reward = replace(how, trained=trained)

    def _tune_to_novels(self) -> str:
        """Train the language model on passages and return the folder of everybody's reference."""
        settings, place = self.settings, self.out / "passages.jsonl"
        passages = self.novels.passages[: settings.passages]
        model = settings.model or str(self.out / "blank")
        print_progress(f"reference: imitating {len(passages)} passages")
        if not settings.model:
            write_random_model(Path(model), passages, **TINY_MODEL, seed=settings.seed)
        write_records(place, [_make_passage_episode(*each) for each in enumerate(passages)])
        how = replace(
            settings.tuned,
            trained=self._begin_as(settings.tuned.trained, model),
            episodes=(str(place),),
            chat=False,
            chosen=EpisodeFilter(answered=False),
            seed=settings.seed,
        )
        return train_by_imitation(how, self.out / "reference").model

    def sample_texts(
        self, name: str, model: str, questions: Sequence[Question], times: int
    ) -> QuestionSamples:
        """Sample continuations, each with its KL from the reference, STORED_TEXTS to a file."""
        size = max(1, STORED_TEXTS // times)
        if len(questions) > size:
            starts = range(0, len(questions), size)
            parts = {f"{name} {at}": questions[at : at + size] for at in starts}
            return [one for at in parts for one in self.sample_texts(at, model, parts[at], times)]
        prompts = [question.text for question in questions for _ in range(times)]
        sampling = replace(self.settings.policy.sampling, dtype=self._dtype)
        reference = "" if model == self.reference else self.reference
        seed = Random(f"{self.settings.seed} {name}").getrandbits(32)

        def make() -> QuestionSamples:
            print_progress(f"{name}: {len(prompts)} texts")
            texts = sample_completions(Path(model), prompts, sampling, reference, seed)
            return [texts[at : at + times] for at in range(0, len(texts), times)]

        return load_or_make(self.out / "samples" / f"{name}.json", QuestionSamples, make)

    def score_samples(
        self, name: str, scores: BatchRewardFunction, samples: QuestionSamples
    ) -> list[list[float]]:
        """Score each held-out question's samples and store the scores; empty texts are read too."""
        pairs = [
            (question, Answer(each.text))
            for question, texts in zip(self.held, samples, strict=True)
            for each in texts
        ]

        def make() -> list[list[float]]:
            each = iter(scores(pairs))
            return [[next(each) for _ in texts] for texts in samples]

        return load_or_make(self.out / "scores" / f"{name}.json", list[list[float]], make)

    def train_reward(
        self, name: str, labels: Sequence[Comparison], passes: int, last_token: bool = False
    ) -> BatchRewardFunction:
        """Train a reward model that begins as the sentence encoder, or as the reference, and return
        its rewards, of variance 1 on the texts that it learnt from."""
        how, folder = self._reward, self.out / "rewards" / name
        if last_token:
            how = self.settings.last_token
            how = replace(how, trained=self._begin_as(how.trained, self.reference))
        data, seed = str(folder / "labels.jsonl"), self.settings.seed
        how = replace(how, comparisons=data, epochs=passes, seed=seed)

        def make() -> str:
            print_progress(f"a reward from {name}")
            folder.mkdir(parents=True, exist_ok=True)
            write_records(folder / "labels.jsonl", labels)
            return train_reward_model(how, folder).model

        place = Path(load_or_make(self.out / "rewards" / f"{name}.json", str, make))
        return lambda pairs: RewardModel(place).score_answers(pairs)

    def train_policy(
        self, name: str, scores: BatchRewardFunction, target: float, spread: float
    ) -> str:
        """Train a policy on a reward of this standard deviation among a question's answers, and
        return its folder."""
        how = self._aim_policy(target, spread)

        def make() -> str:
            print_progress(f"{name}: {how.steps} batches of {how.episodes} episodes")
            return train_by_reinforcement(how, self._environment(scores, 1), self.out / name).model

        return load_or_make(self.out / f"{name}.json", str, make)

    def train_policy_online(
        self, name: str, compared: Sequence[ComparisonQuestion], labeller: MockLabeller, passes: int
    ) -> str:
        """Train a policy whose labels are collected meanwhile, but for the first, which are about
        what was compared before, and return its folder."""
        initial, total = self.settings.online
        how = OnlineLabellingSettings(
            reinforce=self._aim_policy(self.settings.targets[-1], 1.0),
            prefer=replace(self._reward, epochs=passes, seed=self.settings.seed),
            initial=initial,
            labels=total,
            trainings=2,
            answers=2,
            validation=0.0,
            samples=len(self.held),
        )
        folder = self.out / name / "labels"
        first = tuple(ComparisonRequest(each, (True, True)) for each in compared[:initial])

        def make() -> str:
            print_progress(f"{name}: {how.episodes} episodes")
            if not (folder / "requests.jsonl").exists():
                folder.mkdir(parents=True, exist_ok=True)
                write_records(folder / "requests.jsonl", [RequestRound(initial, first)])
            result = train_with_online_labels(how, self._environment, labeller, self.out / name)
            return result.reinforced.model

        return load_or_make(self.out / f"{name}.json", str, make)

    def read_batches(self, name: str) -> list[list[str]]:
        """Read the texts of each batch of a policy's training, but for empty ones."""
        batches: list[list[str]] = [[] for _ in range(self.settings.policy.steps)]
        for line in (self.out / name / "samples.jsonl").read_text("utf-8").splitlines():
            sample = json.loads(line)
            [row] = sample["rows"]  # with its end token
            tokens = self._speech.tokenizer(row["action"])["input_ids"]
            batches[sample["step"]] += filter(None, [decode_completion(tokens, self._speech)])
        return [texts for texts in batches if texts]

    def _aim_policy(self, target: float, spread: float) -> ReinforcementSettings:
        """Return a policy's settings; at the first KL coefficient the optimum has the target's KL
        where rewards are normally distributed, and a policy that is farther than a quarter beyond
        the target is not written: in few batches the controller cannot bring one back."""
        how = self.settings.policy
        return replace(
            how,
            policy=self._begin_as(how.policy, self.reference),
            target=target,
            budget=1.25 * target,
            beta=spread / math.sqrt(2 * target),
            shown=how.episodes,
            seed=self.settings.seed,
        )

    def _environment(self, scores: BatchRewardFunction, group: int) -> RolloutEnvironment:
        return make_text_environment(self.novels.training, self._speech)(scores, group)

    def _begin_as(self, trained: TrainedModelSettings, model: str) -> TrainedModelSettings:
        return replace(trained, model=model, dtype=self._dtype)


def _make_passage_episode(number: int, passage: str) -> Episode:
    """Return an episode whose prompt is a passage's first word, and the rest what follows it."""
    first, _, rest = passage.partition(" ")
    step = Step(first, Completion(f" {rest}", stop="length"))
    return Episode(Question(f"{number}", f"passage {number}"), "novels", (step,))
