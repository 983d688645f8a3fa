"""Labels while a policy learns (Ziegler, section 2.3): people compare its answers, and the reward
model is trained again. Requests and labels are on disk before they are used."""

import math
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec
from accelerate import Accelerator
from accelerate.utils import gather_object

from rookery.errors import Failed, Outcome
from rookery.learn.episodes import (
    PolicySampler,
    RolloutEnvironment,
    Trajectory,
    make_policy_sampler,
)
from rookery.learn.optimizer import make_accelerator
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import (
    TrainedModelSettings,
    load_tokenizer,
    load_trainable_model,
)
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.learn.training_run import (
    ResumableRun,
    StepCallback,
    StopCheck,
    cut_partial_line,
    read_stop_reason,
)
from rookery.library.page_archive import write_whole_file
from rookery.records import Answer, Comparison, Episode, Failure, Question, Record
from rookery.typed_files import read_json_lines


class ComparisonQuestion(Record, frozen=True):
    """One question to people: which of these answers is the best."""

    number: int
    """in the run. A labeller who keeps what was said to it can give that again, should a run be
    killed between hearing a label and keeping it"""
    question: Question
    answers: tuple[Answer, ...]
    """two or more, in no order that says whose they are"""


class ComparisonRequest(Record, frozen=True):
    """A question to people, with the fields that are not shown to them."""

    asked: ComparisonQuestion
    learnt: tuple[bool, ...]
    """of each answer, whether the policy gave it, and not its reference"""


class RequestRound(Record, frozen=True):
    """Requests that were sampled together; all of them are stored or none."""

    groups: int
    """of answers that were drawn so far, those of earlier rounds among them; some were no use"""
    requests: tuple[ComparisonRequest, ...]


class LabelStore:
    """Requests and labels in the files of a folder; the label of a request has its number.

    A line that a kill has cut is taken away. With `writes` False another process writes, and what
    is added is only remembered. Raises Failed (bad_line), and OSError where nothing can be written.
    """

    def __init__(self, folder: Path, writes: bool = True) -> None:
        self._rounds_file = folder / "requests.jsonl"
        self._labels_file = folder / "labels.jsonl"
        self._writes = writes
        for place in (self._rounds_file, self._labels_file) if writes else ():
            place.touch()
            cut_partial_line(place)
        rounds = list(read_json_lines(self._rounds_file, RequestRound))
        self.groups = rounds[-1].groups if rounds else 0
        self.requests = [request for each in rounds for request in each.requests]
        self.labels = list(read_json_lines(self._labels_file, Comparison))

    def add_round(self, new_round: RequestRound) -> None:
        """Append a round of requests to the file, before anybody is asked, and remember them."""
        self._append_record(self._rounds_file, new_round)
        self.groups = new_round.groups
        self.requests += new_round.requests

    def add_label(self, label: Comparison) -> None:
        """Append the label of the first request that has none; it is on disk on return.

        Raises ValueError for the label of another request, and IndexError where all have one.
        """
        question = self.requests[len(self.labels)].asked
        if (label.question, label.answers) != (question.question, question.answers):
            raise ValueError(
                f"this is no label of request {question.number}: give them in their order"
            )
        self._append_record(self._labels_file, label)
        self.labels.append(label)

    def list_unlabelled(self, count: int) -> list[ComparisonQuestion]:
        """Return the questions without a label among the first `count` requests."""
        return [request.asked for request in self.requests[len(self.labels) : count]]

    def compute_policy_wins(self) -> list[float]:
        """Return the sum of the policy's weights in each validation label, in order.

        Validation labels compare as many answers of the policy as of its reference.
        """
        return [
            sum(weight for weight, ours in zip(label.weights, request.learnt, strict=True) if ours)
            for label, request in zip(self.labels, self.requests, strict=False)
            if 2 * sum(request.learnt) == len(request.learnt)
        ]

    def _append_record(self, place: Path, record: Record) -> None:
        if self._writes:
            with place.open("ab") as lines:
                lines.write(record.to_json().encode() + b"\n")
                lines.flush()
                os.fsync(lines.fileno())


def write_records(place: Path, records: Sequence[Record]) -> None:
    """Write records as JSON lines to a file, in place of what is there, atomically."""
    write_whole_file(place, (record.to_json().encode() + b"\n" for record in records))


RECENT_LABELS = 100
"""labels that say how the policy does now"""
MAX_USELESS_GROUPS = 32
"""questions in a row without two answers, after which a policy is taken to give none. Where one
request is missing, one question is drawn, and with full stops one of four is of no use"""

QuestionAnswer = tuple[Question, Answer]
EnvironmentFactory = Callable[[BatchRewardFunction, int], RolloutEnvironment]
"""from what scores answers, and how many episodes in a row are of one question, to a world. Its
rewards are the scores, and an episode without an answer has none. What it plays as an extra is not
compared"""


class OnlineLabellingSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Settings of a policy and a reward model that learn from people's comparisons during
    training."""

    reinforce: ReinforcementSettings
    prefer: RewardTrainingSettings
    """settings of the reward model: its model is what every reward model begins as: the reference.
    Its comparisons and samples are those of this run, and must be empty here"""
    initial: int
    """labels before the first episode: N⁰ of Ziegler, section 2.3"""
    labels: int
    """labels in all; as many as `initial`: none are gathered later"""
    trainings: int = 20
    """trainings of the reward model: one before the first episode, and the others at evenly spaced
    numbers of labels (Ziegler, section 2.3: 19 more)"""
    answers: int = 4
    """answers to a question, that are compared (Ziegler, section 2)"""
    validation: float = 0.1
    """share of the questions where half of the answers are the reference's, so that labels say how
    often the policy is better; they are learnt from too. Ziegler gives no number"""
    outstanding: int = 0
    """requests beyond those whose labels are waited for, that are drawn and shown to the labeller
    ahead, so that people always have some (Ziegler, section 2.3: 1000). The policy that gave the
    answers is so much older when their labels come"""
    samples: int = 256
    """episodes of the reference, on whose answers rewards have mean 0 and variance 1"""
    group: int = 1
    """episodes of one question in a row"""

    def __post_init__(self) -> None:
        if self.prefer.comparisons or self.prefer.samples:
            raise ValueError("prefer.comparisons and prefer.samples are gathered: leave them empty")
        if not 1 <= self.initial <= self.labels or self.trainings < 1:
            raise ValueError("there must be an initial label and a training, and labels as many")
        if self.answers < 2 or self.samples < 2 or self.group < 1 or self.outstanding < 0:
            raise ValueError(
                "answers and samples must be 2 or more, group 1 or more, outstanding 0 or more"
            )
        if self.reinforce.advantage == "rloo" and self.group < 2:
            raise ValueError(
                'advantage = "rloo" compares the episodes of a question: group must be 2 or more'
            )
        if not 0 <= self.validation <= 1 or (self.validation and self.answers % 2):
            raise ValueError(
                "validation is a share from 0 to 1, and takes an even number of answers"
            )

    @property
    def episodes(self) -> int:
        """Number of episodes of the whole run."""
        return self.reinforce.steps * self.reinforce.episodes

    def count_needed_labels(self, episode: int) -> int:
        """Return the number of labels needed before this episode begins: l(n), rounded up."""
        wanted = self.initial + (self.labels - self.initial) * self._compute_label_share(episode)
        return math.ceil(round(wanted, 9))

    def choose_reward_training(self, episode: int) -> int:
        """Return the number, from 0, of the reward model training that this episode relies on."""
        if self.labels == self.initial:
            return 0
        return min(
            int(round(self.trainings * self._compute_label_share(episode), 9)), self.trainings - 1
        )

    def _compute_label_share(self, episode: int) -> float:
        """Return the share of the later labels that is wanted before this episode: 1 - (1 - n/N)²,
        many at first and ever fewer (Ziegler, section 2.3)."""
        return 1 - (1 - episode / self.episodes) ** 2


class PreferenceLabeller(Protocol):
    """Source of comparisons: people at a labelling desk, or a mock."""

    def compare_answers(self, questions: Sequence[ComparisonQuestion]) -> Iterable[Comparison]:
        """Yield one Comparison for each question, in their order, as soon as it is there.

        May wait as long as it takes. A run takes as many labels as it needs and leaves the rest,
        whose questions are asked again later. May raise Failed (stopped), which stops the run as
        the cord does.
        """
        ...


class OnlineLabellingResult(msgspec.Struct, frozen=True):
    """The result of a run: policy, reward model, labels, and the share that prefers the policy."""

    reinforced: ReinforcementResult
    reward: str
    """the folder of the last reward model"""
    labels: int
    better: float | None
    """share of the last validation labels, 100 at most, in which the policy was preferred to its
    reference; None: there are none"""


def train_with_online_labels(
    settings: OnlineLabellingSettings,
    world: EnvironmentFactory,
    labeller: PreferenceLabeller,
    out: Path,
    callback: StepCallback | None = None,
    cord: StopCheck = str,
) -> OnlineLabellingResult:
    """Train a policy in `out`, and its reward models in `out`/labels, from people's comparisons.

    `world` makes the environment, and `labeller` compares the answers. Goes on where a run was
    stopped or killed, to the last bit, and asks nobody again what it has heard. Whoever writes a
    reason into the file `cord` in `out`, or lets the function `cord` give one, stops all of it:
    learning of either kind, playing, and asking. Raises Failed: stopped, no_answers (the policy
    gives no two answers to a question), and what `train_reward_model` and `train_by_reinforcement`
    raise.
    """
    accelerator = make_accelerator(settings.reinforce.policy.dtype)

    def find_stop_reason() -> str:
        return read_stop_reason(out) or cord()

    main = bool(accelerator.is_main_process)
    with ResumableRun(out / "labels", settings, accelerator, "requests.jsonl") as run:
        with accelerator.main_process_first():
            label_store = LabelStore(run.folder, main)
        asking = _LabelledEnvironment(
            settings, world, labeller, label_store, out, accelerator, find_stop_reason
        )
        reached = train_by_reinforcement(settings.reinforce, asking, out, callback, cord=cord)
        recent = label_store.compute_policy_wins()[-RECENT_LABELS:]
        better = sum(recent) / len(recent) if recent else None
        reward = max((run.folder / "rewards").glob("*/model"))
        return OnlineLabellingResult(reached, str(reward), len(label_store.labels), better)


@dataclass(eq=False)
class _LabelledEnvironment:
    """A world whose rewards are what people's labels have taught so far.

    Whatever it does before an episode depends on the episode's number, the policy and the labels,
    all of which are the same when a run goes on: it has no state to be kept but what is on disk.
    """

    settings: OnlineLabellingSettings
    world: EnvironmentFactory
    labeller: PreferenceLabeller
    label_store: LabelStore
    out: Path
    accelerator: Accelerator
    cord: StopCheck

    def __post_init__(self) -> None:
        self._environment = self.world(lambda pairs: self._scores(pairs), self.settings.group)
        self._sampling_environment = self.world(self._number_answers, self.settings.answers)
        self._drawn_answers: list[QuestionAnswer] = []
        self._scores: BatchRewardFunction
        self._training: int | None = None

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Return the episodes, once there are the labels and the reward that come before them."""
        first = min(gather_object(list(episodes[:1])))  # of the shares of all processes
        needed = self.settings.count_needed_labels(first)
        ahead = min(needed + self.settings.outstanding, self.settings.labels)
        self._draw_requests(sample, ahead, seed)
        self._gather_labels(needed)
        self._train_reward_model(self.settings.choose_reward_training(first), needed, seed)
        return self._environment.play_episodes(sample, episodes, seed)

    def _draw_requests(self, sample: PolicySampler, needed: int, seed: int) -> None:
        """Requests, until there are so many."""
        useless = 0
        while (missing := needed - len(self.label_store.requests)) > 0:
            self._raise_if_stopped()
            groups = range(self.label_store.groups, self.label_store.groups + missing)
            requests = self._make_requests(sample, groups, seed)
            useless = 0 if requests else useless + len(groups)
            if useless >= MAX_USELESS_GROUPS:
                detail = (
                    "the policy gives no two answers to a question: imitate first, or let it say "
                    "more tokens"
                )
                raise Failed(Failure("labels", Outcome.NO_ANSWERS, detail))
            self.label_store.add_round(RequestRound(groups.stop, tuple(requests)))

    def _make_requests(
        self, sample: PolicySampler, groups: range, seed: int
    ) -> list[ComparisonRequest]:
        """One for each question that got two answers; half of some are the reference's."""
        size, half = self.settings.answers, self.settings.answers // 2
        checked = {group: self._is_validation_group(group) for group in groups}
        policy_episodes = [
            group * size + at
            for group in groups
            for at in range(half if checked[group] else 0, size)
        ]
        reference_episodes = [
            group * size + at for group in groups if checked[group] for at in range(half)
        ]
        answers_by_group: dict[int, list[tuple[QuestionAnswer, bool]]] = defaultdict(list)
        for episodes, by_policy in ((policy_episodes, True), (reference_episodes, False)):
            if episodes:
                sampler = sample if by_policy else self._reference_sampler
                for episode, pair in self._sample_answers(sampler, episodes, f"{seed} labels"):
                    answers_by_group[episode // size].append((pair, by_policy))
        requests: list[ComparisonRequest] = []
        for group, pairs in sorted(answers_by_group.items()):
            if len(pairs) > 1:
                Random(f"{seed} order {group}").shuffle(pairs)
                requests.append(
                    _make_request(len(self.label_store.requests) + len(requests), pairs)
                )
        return requests

    def _is_validation_group(self, group: int) -> bool:
        share = self.settings.validation
        return int((group + 1) * share) > int(group * share)

    def _sample_answers(
        self, sample: PolicySampler, episodes: Sequence[int], seed: str
    ) -> list[tuple[int, QuestionAnswer]]:
        """Return the answers of these episodes that have one; the processes share the work."""
        share = self.accelerator.num_processes
        mine = episodes[self.accelerator.process_index :: share]
        self._drawn_answers.clear()
        played = self._sampling_environment.play_episodes(
            sample, mine, Random(seed).getrandbits(32)
        )
        answers = [
            (one.episode, self._drawn_answers[int(one.reward)])
            for one in played
            if one.reward is not None and one.is_answered and not one.extra
        ]
        return sorted(gather_object(answers), key=lambda pair: pair[0])

    def _number_answers(self, pairs: Sequence[QuestionAnswer]) -> list[float]:
        """In place of a reward, the number of each answer among those drawn."""
        first = len(self._drawn_answers)
        self._drawn_answers += pairs
        return [float(number) for number in range(first, len(self._drawn_answers))]

    @cached_property
    def _reference_sampler(self) -> PolicySampler:
        learnt = self.settings.reinforce
        folder = learnt.reference or learnt.policy.model
        _, ends, _ = load_tokenizer(Path(folder))
        model = load_trainable_model(TrainedModelSettings(folder, dtype=learnt.policy.dtype))
        model.to(self.accelerator.device)

        return make_policy_sampler(model, ends, learnt.sampling)

    def _gather_labels(self, needed: int) -> None:
        """Show the labeller all requests without a label; wait until there are so many labels."""
        label_count = len(self.label_store.labels)
        if label_count < needed and self.accelerator.is_main_process:
            self._raise_if_stopped()
            questions = self.label_store.list_unlabelled(len(self.label_store.requests))
            for label in self.labeller.compare_answers(questions):
                self.label_store.add_label(label)
                self._raise_if_stopped()
                if len(self.label_store.labels) == needed:
                    break
            else:
                raise ValueError("a labeller gives a label for each question that it is asked")
        # By the main process alone.
        new_labels = gather_object(self.label_store.labels[label_count:])
        for label in new_labels[len(self.label_store.labels) - label_count :]:
            self.label_store.add_label(label)

    def _train_reward_model(self, number: int, labels: int, seed: int) -> None:
        """Learn the reward of this number from so many labels, where that was not done yet."""
        if number == self._training:
            return
        place = self.out / "labels" / "rewards" / f"{number:02}"
        if not (place / "model").exists():
            self.accelerator.wait_for_everyone()  # all have looked
            self._run_reward_training(place, number, labels, seed)
            self.accelerator.wait_for_everyone()  # one has written it
        self._scores = RewardModel(place / "model").score_answers
        self._training = number

    def _run_reward_training(self, place: Path, number: int, labels: int, seed: int) -> None:
        compared, samples = place / "comparisons.jsonl", self._write_reference_samples(seed)
        if self.accelerator.is_main_process:
            place.mkdir(parents=True, exist_ok=True)
            write_records(compared, self.label_store.labels[:labels])
        self.accelerator.wait_for_everyone()
        settings = msgspec.structs.replace(
            self.settings.prefer,
            comparisons=str(compared),
            samples=str(samples),
            seed=self.settings.prefer.seed + number,
        )
        self._raise_if_stopped()
        train_reward_model(settings, place, cord=self.cord)
        if self.accelerator.is_main_process:
            shutil.rmtree(place / "checkpoints", ignore_errors=True)  # twenty would fill a disk

    def _write_reference_samples(self, seed: int) -> Path:
        """Return the file of the reference's answers."""
        place = self.out / "labels" / "reference.jsonl"
        if not place.exists():
            self.accelerator.wait_for_everyone()
            numbers = range(self.settings.samples)
            answers = self._sample_answers(self._reference_sampler, numbers, f"{seed} samples")
            episodes = [Episode(pair[0], "reference", (), pair[1]) for _, pair in answers]
            if self.accelerator.is_main_process:
                write_records(place, episodes)
        return place

    def _raise_if_stopped(self) -> None:
        """Raise Failed (stopped) where somebody pulled the cord."""
        if why := self.cord():
            raise Failed(Failure(str(self.out), Outcome.STOPPED, why))


def _make_request(number: int, pairs: Sequence[tuple[QuestionAnswer, bool]]) -> ComparisonRequest:
    questions = [question for (question, _), _ in pairs]
    if any(question != questions[0] for question in questions):
        raise ValueError("a world must ask one question as often in a row as it is told to")
    answers = tuple(answer for (_, answer), _ in pairs)
    return ComparisonRequest(
        ComparisonQuestion(number, questions[0], answers), tuple(ours for _, ours in pairs)
    )
