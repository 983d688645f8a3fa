"""The environment of one step, with texts as its actions (Ziegler)."""

from collections.abc import Callable, Sequence
from random import Random

from rookery.learn.episodes import PolicySampler, RolloutEnvironment, Trajectory
from rookery.learn.online_labelling import EnvironmentFactory
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.learn.rollout_environments import BatchRewardFunction, compute_answer_rewards
from rookery.models.remote_model import AllowedTokens
from rookery.records import Answer, Question, Record

RewardFunction = Callable[[Sequence[int], Sequence[Sequence[int]]], Sequence[float | None]]
"""from the numbers of contexts, and the tokens said there (without an end token at their end where
they were cut off), to a reward each; None: no answer"""


class PromptEnvironment:
    """Environment of one step: a context, an action, a reward (Ziegler, GopherCite, WebGLM).

    Each context comes once before any comes a second time, in an order drawn from the seed, and
    `group` times in a row. `allow` makes for the number of a context a function from the tokens so
    far to those that may follow. Raises ValueError without a context.
    """

    def __init__(
        self,
        contexts: Sequence[Sequence[int]],
        rewards: RewardFunction,
        group: int = 1,
        allow: Callable[[int], AllowedTokens] | None = None,
    ) -> None:
        if not contexts or group < 1:
            raise ValueError("there must be a context, and a group of one at least")
        self._contexts = contexts
        self._rewards = rewards
        self._group = group
        self._allow = allow

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        Each has one prompt and one action.
        """
        chosen = self._choose_contexts(episodes, seed)
        allow = [self._allow(number) for number in chosen] if self._allow else None
        contexts = [self._contexts[number] for number in chosen]
        actions = sample(contexts, [f"{seed} {episode}" for episode in episodes], allow)
        rewards = self._rewards(chosen, [one.row.action for one in actions])
        return [
            Trajectory(episode, [one], reward, episode // self._group)
            for episode, one, reward in zip(episodes, actions, rewards, strict=True)
        ]

    def _choose_contexts(self, episodes: Sequence[int], seed: int) -> list[int]:
        orders: dict[int, list[int]] = {}
        chosen = []
        for episode in episodes:
            turn, place = divmod(episode // self._group, len(self._contexts))
            if turn not in orders:
                orders[turn] = list(range(len(self._contexts)))
                Random(f"{seed} contexts {turn}").shuffle(orders[turn])
            chosen.append(orders[turn][place])
        return chosen


class PolicyCompletion(Record, frozen=True):
    """The completion of a prompt by a policy."""

    text: str
    kl: float = 0.0
    """by how much likelier its tokens are to the policy than to its reference, in nats: the mean
    of many estimates the KL, and a single one may be negative"""


def make_text_environment(
    questions: Sequence[Question], speech: PolicyTokenizer
) -> EnvironmentFactory:
    """Return a factory of environments with one prompt a question, whose completion is its answer.

    The prompt is the question's text. An empty completion is no answer. Raises Failed
    (prompt_too_long).
    """
    contexts = [speech.encode_prompt(question.text) for question in questions]

    def make_environment(scores: BatchRewardFunction, group: int) -> RolloutEnvironment:
        def compute_rewards(
            numbers: Sequence[int], actions: Sequence[Sequence[int]]
        ) -> list[float | None]:
            texts = [decode_completion(action, speech) for action in actions]
            pairs = [
                (questions[number], Answer(text) if text else None)
                for number, text in zip(numbers, texts, strict=True)
            ]
            return compute_answer_rewards(scores, pairs)

        return PromptEnvironment(contexts, compute_rewards, group)

    return make_environment


def decode_completion(action: Sequence[int], speech: PolicyTokenizer) -> str:
    """Return the text of an action's tokens, without white space at its ends."""
    return speech.decode_action(action).strip()
