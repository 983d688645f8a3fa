"""Labels while a policy learns (Ziegler, section 2.3): people compare what it says now, and the
reward model is learnt again from all that they said.

Nothing goes on until they have said enough. It knows nothing of how people are asked.
"""

import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec
from accelerate import Accelerator
from accelerate.utils import gather_object

from rookery.learn.labels_kept import Asked, Kept, Request, Round, write_lines
from rookery.learn.models import Trained, read_model, tokenizer_of
from rookery.learn.optimise import workers
from rookery.learn.played import Played, Sampler, World
from rookery.learn.prefer import PreferSettings, prefer
from rookery.learn.reinforce import Reinforced, reinforce
from rookery.learn.rules import ReinforceSettings
from rookery.learn.run import Cord, Run, Told, pulled
from rookery.learn.sample import Sampled, sample
from rookery.learn.scorer import Scorer
from rookery.learn.worlds import Scores
from rookery.records import Answer, Comparison, Episode, Failed, Failure, Question, Reward

RECENT = 100
"""labels that say how the policy does now"""

Pair = tuple[Question, Answer]
Make = Callable[[Scores, int], World]
"""from what scores answers, and how many episodes in a row are of one question, to a world. Its
rewards are the scores, and an episode without an answer has none. What it plays as an extra is not
compared"""


class LabelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a policy and its reward model learn from people who compare while it learns."""

    reinforce: ReinforceSettings
    prefer: PreferSettings
    """its model is what every reward model begins as: the reference. Its comparisons and samples
    are those of this run, and must be empty here"""
    initial: int
    """labels before the first episode: N⁰ of Ziegler, section 2.3"""
    labels: int
    """in all; as many as `initial`: none are gathered later"""
    trainings: int = 20
    """of the reward model: one before the first episode, and the others at evenly spaced numbers
    of labels (Ziegler, section 2.3: 19 more)"""
    answers: int = 4
    """to a question, that are compared (Ziegler, section 2)"""
    validation: float = 0.1
    """share of the questions where half of the answers are the reference's, so that labels say how
    often the policy is better; they are learnt from too. Ziegler gives no number"""
    samples: int = 256
    """episodes of the reference, on whose answers rewards have mean 0 and variance 1"""
    group: int = 1
    """episodes of one question in a row"""

    def __post_init__(self) -> None:
        if self.prefer.comparisons or self.prefer.samples:
            raise ValueError("prefer.comparisons and prefer.samples are gathered: leave them empty")
        if not 1 <= self.initial <= self.labels or self.trainings < 1:
            raise ValueError("there must be an initial label and a training, and labels as many")
        if self.answers < 2 or self.samples < 2 or self.group < 1:
            raise ValueError("answers and samples must be 2 or more, group 1 or more")
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
        """Of the whole run."""
        return self.reinforce.steps * self.reinforce.episodes

    def needed(self, episode: int) -> int:
        """Labels there must be before this episode begins: l(n), rounded up."""
        wanted = self.initial + (self.labels - self.initial) * self._share(episode)
        return math.ceil(round(wanted, 9))

    def training(self, episode: int) -> int:
        """Which training the reward of this episode comes from, counted from 0."""
        if self.labels == self.initial:
            return 0
        return min(int(round(self.trainings * self._share(episode), 9)), self.trainings - 1)

    def _share(self, episode: int) -> float:
        """Of the later labels, those wanted before this episode: 1 - (1 - n/N)², many at first and
        ever fewer (Ziegler, section 2.3)."""
        return 1 - (1 - episode / self.episodes) ** 2


class Labeller(Protocol):
    """Whoever compares: people at a desk, or a mock."""

    def compare(self, asked: Sequence[Asked]) -> Iterable[Comparison]:
        """A Comparison of each, in their order, as soon as it is there; takes as long as it takes.

        May raise Failed (stopped), which stops the run as the cord does.
        """
        ...


class Mock:
    """Prefers what a hidden reward finds best. With probability `noise` it picks any answer."""

    def __init__(self, reward: Reward, noise: float = 0.0, seed: int = 0) -> None:
        self._reward = reward
        self._noise = noise
        self._seed = seed

    def compare(self, asked: Sequence[Asked]) -> Iterable[Comparison]:
        """The same for the same number and answers."""
        for one in asked:
            chance = Random(f"{self._seed} label {one.number}")
            rewards = [self._reward(one.question, answer) for answer in one.answers]
            best = rewards.index(max(rewards))
            if chance.random() < self._noise:
                best = chance.randrange(len(rewards))
            weights = tuple(float(at == best) for at in range(len(rewards)))
            yield Comparison(one.question, one.answers, weights, "mock")


class Labelled(msgspec.Struct, frozen=True):
    """What a run has reached."""

    reinforced: Reinforced
    reward: str
    """the folder of the last reward model"""
    labels: int
    better: float | None
    """share of the last validation labels, 100 at most, in which the policy was preferred to its
    reference; None: there are none"""


def learn_with_labels(
    settings: LabelSettings,
    world: Make,
    labeller: Labeller,
    out: Path,
    told: Told | None = None,
    cord: Cord = str,
) -> Labelled:
    """Trains a policy in `out`, and its reward models in `out`/labels, from people's comparisons.

    Goes on where a run was stopped or killed, to the last bit, and asks nobody again what it has
    heard. Whoever writes a reason into the file `cord` in `out`, or lets the function `cord` give
    one, stops all of it: learning of either kind, playing, and asking. Raises Failed: stopped,
    no_answers, and as `prefer` and `reinforce` do.
    """
    accelerator = workers(settings.reinforce.policy.dtype)

    def why() -> str:
        return pulled(out) or cord()

    main = bool(accelerator.is_main_process)
    with Run(out / "labels", settings, accelerator, "requests.jsonl") as run:
        with accelerator.main_process_first():
            kept = Kept(run.folder, main)
        asking = _Asking(settings, world, labeller, kept, out, accelerator, why)
        reached = reinforce(settings.reinforce, asking, out, told, cord=cord)
        recent = kept.wins()[-RECENT:]
        better = sum(recent) / len(recent) if recent else None
        reward = max((run.folder / "rewards").glob("*/model"))
        return Labelled(reached, str(reward), len(kept.labels), better)


class _Asking:
    """A world whose rewards are what people's labels have taught so far.

    Whatever it does before an episode depends on the episode's number, the policy and the labels,
    all of which are the same when a run goes on: it has no state to be kept but what is on disk.
    """

    def __init__(
        self,
        settings: LabelSettings,
        world: Make,
        labeller: Labeller,
        kept: Kept,
        out: Path,
        accelerator: Accelerator,
        cord: Cord,
    ) -> None:
        self._settings = settings
        self._world = world(lambda pairs: self._scores(pairs), settings.group)
        self._drawing = world(self._number, settings.answers)
        self._labeller = labeller
        self._kept = kept
        self._out = out
        self._accelerator = accelerator
        self._cord = cord
        self._drawn: list[Pair] = []
        self._scores: Scores
        self._training: int | None = None

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """The episodes, once there are the labels and the reward that come before them."""
        first = min(gather_object(list(episodes[:1])))  # of the shares of all processes
        needed = self._settings.needed(first)
        self._draw(sample, needed, seed)
        self._ask(needed)
        self._train(self._settings.training(first), needed, seed)
        return self._world.play(sample, episodes, seed)

    def _draw(self, sample: Sampler, needed: int, seed: int) -> None:
        """Requests, until there are so many."""
        while (missing := needed - len(self._kept.requests)) > 0:
            self._stop_if_pulled()
            groups = range(self._kept.groups, self._kept.groups + missing)
            requests = self._requests(sample, groups, seed)
            if not requests:
                detail = (
                    "the policy gives no two answers to a question: imitate first, or let it say "
                    "more tokens"
                )
                raise Failed(Failure("labels", "no_answers", detail))
            self._kept.add_round(Round(groups.stop, tuple(requests)))

    def _requests(self, sample: Sampler, groups: range, seed: int) -> list[Request]:
        """One for each question that got two answers; half of some are the reference's."""
        size, half = self._settings.answers, self._settings.answers // 2
        checked = {group: self._is_checked(group) for group in groups}
        ours = [
            group * size + at
            for group in groups
            for at in range(half if checked[group] else 0, size)
        ]
        theirs = [group * size + at for group in groups if checked[group] for at in range(half)]
        found: dict[int, list[tuple[Pair, bool]]] = defaultdict(list)
        for episode, pair in self._answers(sample, ours, f"{seed} labels"):
            found[episode // size].append((pair, True))
        if theirs:
            for episode, pair in self._answers(self._reference, theirs, f"{seed} labels"):
                found[episode // size].append((pair, False))
        requests: list[Request] = []
        for group, pairs in sorted(found.items()):
            if len(pairs) > 1:
                Random(f"{seed} order {group}").shuffle(pairs)
                requests.append(_request(len(self._kept.requests) + len(requests), pairs))
        return requests

    def _is_checked(self, group: int) -> bool:
        share = self._settings.validation
        return int((group + 1) * share) > int(group * share)

    def _answers(
        self, sample: Sampler, episodes: Sequence[int], seed: str
    ) -> list[tuple[int, Pair]]:
        """What is answered in these episodes, where something is; the processes share the work."""
        share = self._accelerator.num_processes
        mine = episodes[self._accelerator.process_index :: share]
        self._drawn.clear()
        played = self._drawing.play(sample, mine, Random(seed).getrandbits(32))
        found = [
            (one.episode, self._drawn[int(one.reward)])
            for one in played
            if one.reward is not None and not one.extra
        ]
        return sorted(gather_object(found), key=lambda pair: pair[0])

    def _number(self, pairs: Sequence[Pair]) -> list[float]:
        """In place of a reward, the number of each answer among those drawn."""
        first = len(self._drawn)
        self._drawn += pairs
        return [float(number) for number in range(first, len(self._drawn))]

    @cached_property
    def _reference(self) -> Sampler:
        learnt = self._settings.reinforce
        folder = learnt.reference or learnt.policy.model
        _, ends, _ = tokenizer_of(Path(folder))
        model = read_model(Trained(folder, dtype=learnt.policy.dtype))
        model.to(self._accelerator.device)

        def sampler(
            contexts: Sequence[Sequence[int]], seeds: Sequence[str], allow: Any = None
        ) -> list[Sampled]:
            return sample(model, contexts, seeds, ends, learnt.sampling, allow)

        return sampler

    def _ask(self, needed: int) -> None:
        """Waits for labels, until there are so many."""
        known = len(self._kept.labels)
        waiting = self._kept.waiting(needed)
        if waiting and self._accelerator.is_main_process:
            self._stop_if_pulled()
            for _, label in zip(waiting, self._labeller.compare(waiting), strict=True):
                self._kept.add_label(label)
                self._stop_if_pulled()
        heard = gather_object(self._kept.labels[known:])  # by the main process alone
        for label in heard[len(self._kept.labels) - known :]:
            self._kept.add_label(label)

    def _train(self, number: int, labels: int, seed: int) -> None:
        """Learns the reward of this number from so many labels, where that was not done yet."""
        if number == self._training:
            return
        place = self._out / "labels" / "rewards" / f"{number:02}"
        if not (place / "model").exists():
            self._accelerator.wait_for_everyone()  # all have looked
            self._prefer(place, number, labels, seed)
            self._accelerator.wait_for_everyone()  # one has written it
        self._scores = Scorer(place / "model").scores
        self._training = number

    def _prefer(self, place: Path, number: int, labels: int, seed: int) -> None:
        compared, samples = place / "comparisons.jsonl", self._samples(seed)
        if self._accelerator.is_main_process:
            place.mkdir(parents=True, exist_ok=True)
            write_lines(compared, self._kept.labels[:labels])
        self._accelerator.wait_for_everyone()
        settings = msgspec.structs.replace(
            self._settings.prefer,
            comparisons=str(compared),
            samples=str(samples),
            seed=self._settings.prefer.seed + number,
        )
        self._stop_if_pulled()
        prefer(settings, place, cord=self._cord)
        if self._accelerator.is_main_process:
            shutil.rmtree(place / "checkpoints", ignore_errors=True)  # twenty would fill a disk

    def _samples(self, seed: int) -> Path:
        """The file of the reference's answers."""
        place = self._out / "labels" / "reference.jsonl"
        if not place.exists():
            self._accelerator.wait_for_everyone()
            wanted = range(self._settings.samples)
            found = self._answers(self._reference, wanted, f"{seed} samples")
            said = [Episode(asked, "reference", (), answer) for _, (asked, answer) in found]
            if self._accelerator.is_main_process:
                write_lines(place, said)
        return place

    def _stop_if_pulled(self) -> None:
        """Raises Failed (stopped) where somebody pulled the cord."""
        if why := self._cord():
            raise Failed(Failure(str(self._out), "stopped", why))


def _request(number: int, pairs: Sequence[tuple[Pair, bool]]) -> Request:
    questions = [question for (question, _), _ in pairs]
    if any(question != questions[0] for question in questions):
        raise ValueError("a world must ask one question as often in a row as it is told to")
    answers = tuple(answer for (_, answer), _ in pairs)
    return Request(Asked(number, questions[0], answers), tuple(ours for _, ours in pairs))
