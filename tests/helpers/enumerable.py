"""Worlds so small that everything that can be said in them can be listed.

So the expected reward of a policy, its KL from the reference, and what the best policy reaches are
sums, and not estimates. In `Rule` a policy says up to four of ten tokens; in `Browsing` it first
opens one of a question's pages and then quotes from what that page shows.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import torch
from kept import checkpoint_weights
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from recipes.text_environment import PromptEnvironment
from rookery.learn.decoding import SamplingSettings
from rookery.learn.episodes import PolicySampler, Trajectory
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_a2c_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement

END, IDS = 0, 10
SAID = range(1, IDS)
"""the tokens that are no end"""
BETA = 0.2
ENDS = frozenset({END})


def write_listed(folder: Path, seed: int, width: int = 32) -> str:
    """A random Llama over ten ids, with a tokenizer of ten words."""
    words = {"end": END, **{f"w{number}": number for number in SAID}}
    word_level = Tokenizer(models.WordLevel(words, "w1"))
    word_level.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=word_level, eos_token="end"
    )
    config = LlamaConfig(
        vocab_size=IDS,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.1,
        eos_token_id=END,
        bos_token_id=None,
        pad_token_id=END,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class Reached(NamedTuple):
    """What a policy is worth, exactly."""

    reward: float
    kl: float

    def worth(self, beta: float = BETA) -> float:
        return self.reward - beta * self.kl


class Listing:
    """What can be said in each of some contexts, with its reward: P contexts, N things to say."""

    def __init__(
        self, rewards_PN: Tensor, logprobs: Callable[[Any], Tensor], reference: Any
    ) -> None:
        self._rewards_PN = rewards_PN.double()
        self._logprobs = logprobs
        self.reference_PN = self.logprobs(reference)

    @torch.inference_mode()
    def logprobs(self, model: Any) -> Tensor:
        """Of all that can be said, P × N; they sum to 1."""
        found_PN = self._logprobs(model.eval()).double()
        total_P = found_PN.exp().sum(-1)
        assert (total_P - 1).abs().max() < 1e-5
        return found_PN

    def reached(self, model: Any) -> Reached:
        found_PN = self.logprobs(model)
        chances_PN = found_PN.exp()
        # What cannot be said has log-probability -inf in both.
        apart_PN = (found_PN - self.reference_PN).nan_to_num(0.0)
        reward = (chances_PN * self._rewards_PN).sum(-1).mean()
        return Reached(float(reward), float((chances_PN * apart_PN).sum(-1).mean()))

    def best(self, beta: float = BETA) -> float:
        """The highest worth of any policy: β log Σ ρ exp(r / β)."""
        found_P = (self.reference_PN + self._rewards_PN / beta).logsumexp(-1)
        return float(beta * found_P.mean())

    def gap(self, model: Any) -> float:
        return self.best() - self.reached(model).worth()

    def below_the_frontier(self, reached: Reached) -> bool:
        """No policy has more reward at its KL: it lies below every tangent of the best curve."""
        betas = [0.02 * 1.3**number for number in range(30)]
        return all(reached.worth(beta) <= self.best(beta) + 1e-6 for beta in betas)


class Watch:
    """Looks at the policy of every checkpoint; `also` of `reinforce`."""

    def __init__(self, listing: Listing, model: str) -> None:
        self._listing = listing
        self._policy = AutoModelForCausalLM.from_pretrained(model)
        self.seen = [listing.reached(self._policy)]

    def save(self, folder: Path) -> None:
        kept = checkpoint_weights(folder).items()
        ours = {name[7:]: value for name, value in kept if name.startswith("policy.")}
        self._policy.load_state_dict(ours)
        self.seen.append(self._listing.reached(self._policy))

    def load(self, folder: Path) -> None:
        raise NotImplementedError("what was seen is not kept")


class Trial(NamedTuple):
    """How near a run came to the best policy there is."""

    start: float
    gap: float
    below: bool
    """whether all that was seen lies below the best curve"""
    faults: tuple[str, ...]


Recipe = Callable[..., ReinforcementSettings]
"""such as `ppo`: from what is given to settings"""
EPISODES = 12_800


def trial(
    recipe: Recipe, world: "Rule | Browsing", seed: int, out: Path, episodes: int = EPISODES
) -> Trial:
    """Trains a random model of this seed in this world with so many episodes.

    What learns from a batch once has twice the batches.
    """
    model = write_listed(out / "begun", seed)
    listing = world.listing(AutoModelForCausalLM.from_pretrained(model))
    watch = Watch(listing, model)
    settings = recipe(
        policy=TrainedModelSettings(model),
        steps=episodes // 128,
        episodes=128,
        piece=512,
        optimising=OptimizerSettings(rate=2e-3),
        sampling=SamplingSettings(max_tokens=4, rows=512),
        value_width=64,
        beta=BETA,
        seed=seed,
        every=20,
        shown=0,
    )
    if settings.epochs == 1:
        settings = msgspec.structs.replace(settings, steps=episodes // 64, episodes=64)
    played = world.world(8 if settings.advantage == "rloo" else 1)
    reached = train_by_reinforcement(settings, played, out / "run", also=[watch])
    return Trial(
        listing.best() - watch.seen[0].worth(),
        listing.gap(AutoModelForCausalLM.from_pretrained(reached.model)),
        all(listing.below_the_frontier(step) for step in watch.seen),
        reached.faults,
    )


def a2c_like_ppo(**changes: Any) -> ReinforcementSettings:
    """A2C with the KL in the reward: in the loss it is not differentiated for where tokens lead, so
    that what it reaches is something else than J."""
    return make_a2c_settings(kl="reward", **changes)


class Rule:
    """Eight prompts of three tokens. What is said is worth more the more of the prompt it has.

    With `ordered` only a token that stands where it stands in the prompt counts, which is harder:
    one that was missed for long is hardly tried again.
    """

    def __init__(self, seed: int, ordered: bool = False) -> None:
        chance = Random(seed)
        self.ordered = ordered
        every = list(permutations(SAID, 3))
        self.prompts = chance.sample(every, 8)
        self.said = list(_all_said())

    def reward(self, prompt: Sequence[int], completion: Sequence[int]) -> float:
        if self.ordered:
            copied = sum(token == there for token, there in zip(completion, prompt, strict=False))
            return 1.3 * copied + 0.3 * (completion[-1] == END)
        return 1.1 * sum(token in prompt for token in completion) + 0.5 * (completion[-1] == END)

    def rewards(
        self, prompts: Sequence[int], completions: Sequence[Sequence[int]]
    ) -> list[float | None]:
        pairs = zip(prompts, completions, strict=True)
        return [self.reward(self.prompts[number], tokens) for number, tokens in pairs]

    def world(self, group: int = 1) -> PromptEnvironment:
        return PromptEnvironment(self.prompts, self.rewards, group)

    def listing(self, reference: Any) -> Listing:
        rewards = [[self.reward(prompt, said) for said in self.said] for prompt in self.prompts]
        return Listing(torch.tensor(rewards), self._logprobs, reference)

    def _logprobs(self, model: Any) -> Tensor:
        """One pass over all prefixes of three tokens, which begin with all shorter ones."""
        size, starts = len(SAID), list(product(SAID, repeat=3))
        rows = [[*prompt, *start] for prompt in self.prompts for start in starts]
        logits = model(input_ids=torch.tensor(rows)).logits[:, 2:].log_softmax(-1)
        tree = logits.view(len(self.prompts), size, size, size, 4, IDS)
        sums = tree[:, 0, 0, 0, 0]
        columns = [sums[:, :1]]
        for depth in range(1, 4):
            column = tree[(slice(None), *[slice(None)] * depth, *[0] * (3 - depth), depth)]
            sums = sums[..., 1:, None] + column
            columns.append(sums[..., 0].flatten(1))
        columns.append(sums[..., 1:].flatten(1))
        return torch.cat(columns, 1)


def _all_said() -> Iterable[tuple[int, ...]]:
    """In the order of `_logprobs`: those that end, by length, then those that are cut off."""
    for length in range(4):
        for words in product(SAID, repeat=length):
            yield (*words, END)
    yield from product(SAID, repeat=4)


class Browsing:
    """Eight questions of two tokens, four pages each: what is opened decides what can be quoted.

    The first action opens a page. The second is drawn from the tokens of that page alone, in any
    order, none of them twice. It is worth more the more of the question's words are quoted.
    """

    pages = 4

    def __init__(self, seed: int) -> None:
        chance = Random(f"browsing {seed}")
        self.questions = chance.sample(list(permutations(SAID, 2)), 8)
        self.shown = {
            (number, page): tuple(chance.sample(SAID, 3))
            for number in range(8)
            for page in range(1, self.pages + 1)
        }
        self.wanted = [chance.sample(SAID, 4) for _ in self.questions]
        self.said = [
            (page, chosen)
            for page in range(1, self.pages + 1)
            for length in range(1, 4)
            for chosen in permutations(range(3), length)
        ]

    def reward(self, question: int, quoted: Sequence[int]) -> float:
        good = sum(token in self.wanted[question] for token in quoted)
        return 1.2 * good - 0.6 * (len(quoted) - good)

    def first(self, question: int) -> list[int]:
        return [*self.questions[question], 9, 9]

    def second(self, question: int, page: int) -> list[int]:
        return [*self.questions[question], *self.shown[question, page]]

    def opens(self, tokens: Sequence[int]) -> list[int]:
        return [END] if tokens else list(range(1, self.pages + 1))

    def quotes(self, question: int, page: int) -> Callable[[Sequence[int]], list[int]]:
        return lambda tokens: [
            *([END] if tokens else []),
            *sorted(set(self.shown[question, page]) - set(tokens)),
        ]

    def world(self, group: int = 1) -> "Browsing":
        """Itself: eight episodes in a row are of one question."""
        return self

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """All that wait are drawn for together: first the pages, then the quotes."""
        questions = [episode // 8 % 8 for episode in episodes]
        opened = sample(
            [self.first(question) for question in questions],
            [f"{seed} {episode} open" for episode in episodes],
            [self.opens for _ in episodes],
        )
        contexts = [
            (question, one.row.action[0]) for question, one in zip(questions, opened, strict=True)
        ]
        quoted = sample(
            [self.second(*pair) for pair in contexts],
            [f"{seed} {episode} quote" for episode in episodes],
            [self.quotes(*pair) for pair in contexts],
        )
        return [
            Trajectory(
                episode,
                [first, second],
                self.reward(question, [token for token in second.row.action if token != END]),
                episode // 8,
            )
            for episode, question, first, second in zip(
                episodes, questions, opened, quoted, strict=True
            )
        ]

    def listing(self, reference: Any) -> Listing:
        rewards = [
            [
                self.reward(question, [self.shown[question, page][at] for at in chosen])
                for page, chosen in self.said
            ]
            for question in range(8)
        ]
        return Listing(torch.tensor(rewards), self._logprobs, reference)

    def _logprobs(self, model: Any) -> Tensor:
        return torch.stack([self._of(model, question) for question in range(8)])

    def _of(self, model: Any, question: int) -> Tensor:
        first = model(input_ids=torch.tensor([self.first(question)])).logits[0, -1]
        pages = first[1 : self.pages + 1].log_softmax(-1)
        rows = [
            [*self.second(question, page), *(self.shown[question, page][at] for at in chosen)]
            for page, chosen in self.said
        ]
        padded = torch.tensor([row + [END] * (8 - len(row)) for row in rows])
        logits = model(input_ids=padded).logits
        logprobs = []
        for number, (page, _) in enumerate(self.said):
            allow, total = self.quotes(question, page), pages[page - 1]
            actions = [*rows[number][5:], END]
            for at, token in enumerate(actions):
                ids = allow(actions[:at])
                line = logits[number, 4 + at][ids].log_softmax(-1)
                total = total + line[ids.index(token)]
            logprobs.append(total)
        return torch.stack(logprobs)
