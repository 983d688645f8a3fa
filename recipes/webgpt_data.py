"""Settings of the WebGPT recipe, its questions and pages, and the check of answers."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from recipes.gold_answers import build_small_web
from recipes.gophercite_data import write_tiny_data
from recipes.oracle_policies import (
    DemonstratorHabits,
    QuoteHabits,
    generate_demonstrations,
    is_correct_demonstration,
    list_candidate_actions,
)
from recipes.squad_site import write_site
from rookery.browser.browser_commands import BrowserTask
from rookery.learn.action_constraints import (
    KEPT_PROMPTS,
    allow_commands,
    list_next_tokens,
    tokenize_actions,
)
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.learn.rollout_environments import BrowserEnvironmentSettings
from rookery.learn.training_data import PromptConstraint
from rookery.library.question_files import read_squad
from rookery.models.remote_model import AllowedTokens
from rookery.records import Episode, Library, Question

HABITS = DemonstratorHabits(quotes=QuoteHabits(copy=0.0, retype=0.0))
"""Demonstrators type quotes in full or abbreviated, as models are offered them."""
_YEAR = re.compile(r"[0-9]{4}")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the recipe. Models that are not named start from random weights, or from the
    policy."""

    asked: tuple[int, int, int, int, int]
    """Numbers of questions: demonstrated; compared for the reward model; compared for the
    validation reward model; for reinforcement; for the figures. The sets are disjoint (WebGPT,
    section 3.2)."""
    rounds: int
    """Demonstrations of each question."""
    compared: int
    """Samples for each question, each compared with the others and with a demonstrator's answer."""
    samples: int
    """N of best-of-N."""
    imitate: ImitationSettings
    prefer: RewardTrainingSettings
    reinforce: ReinforcementSettings
    """Defaults come from `rules.WEBGPT`."""
    browsing: BrowserEnvironmentSettings
    squad: str = "squad/train.json.xz"
    """Path in the data folder; empty: made-up data."""
    words: tuple[int, int] = (20, 70)
    """Minimum and maximum words of a page."""
    actions: Literal["offered", "commands", "free"] = "offered"
    """What a policy may say: one of the commands and short answers that are offered; commands under
    the browser's grammar, and any answer; or anything."""
    sizes: tuple[tuple[int, int], ...] = ((64, 2), (32, 1))
    """Width and layers of the policy, then of other clones for the compute figure."""
    vocabulary: int = 3000
    context: int = 1024
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of the questions for each use;
    the same for all seeds, so that their rows can be paired."""


def choose_constraint(settings: Settings) -> Callable[[PolicyTokenizer], PromptConstraint] | None:
    """Return what makes the constraint that policies are held to; None: there is none."""
    if settings.actions == "offered":
        return partial(allow_candidates, offered=list_candidate_actions)
    return allow_commands if settings.actions == "commands" else None


def prepare_site(settings: Settings, data: Path, out: Path) -> tuple[Path, list[list[Question]]]:
    """Write the folder of pages and return it with the questions for each use. Every question asks
    for a year. Raises ValueError if there are too few questions."""
    squad = data / settings.squad if settings.squad else write_tiny_data(out / "little")
    articles, questions = build_small_web(read_squad(squad), is_year_question, *settings.words)
    write_site(articles, out / "site")
    Random(f"{settings.split} questions").shuffle(questions)
    ends = [sum(settings.asked[:at]) for at in range(len(settings.asked) + 1)]
    if len(questions) < ends[-1]:
        raise ValueError(f"there are {len(questions)} questions: let `asked` sum to no more")
    return out / "site", [questions[low:high] for low, high in pairwise(ends)]


def is_year_question(question: Question) -> bool:
    """Return True if every accepted answer is a year of four digits."""
    return bool(question.gold) and all(map(_YEAR.fullmatch, question.gold))


def make_demonstrations(
    settings: Settings, questions: Sequence[Question], library: Library
) -> Iterator[Episode]:
    """Yield the correct demonstrations whose every command models may say, as far as is known: with
    offered commands, one of these."""
    tasks = [BrowserTask(question, settings.browsing.rules) for question in questions]
    for number in range(settings.rounds):
        for each in generate_demonstrations(tasks, library, settings.seed + number, habits=HABITS):
            pairs = ((step.prompt, step.said.text) for step in each.steps)
            offered = settings.actions != "offered" or all(
                text in list_candidate_actions(prompt) for prompt, text in pairs
            )
            if is_correct_demonstration(each) and offered:
                yield each


def allow_candidates(
    speech: PolicyTokenizer, offered: Callable[[str], Sequence[str]]
) -> PromptConstraint:
    """Return a constraint to the actions that are offered to each prompt.

    Those with more tokens than an action may have are offered only where all have.
    """

    @lru_cache(KEPT_PROMPTS)
    def constrain_action(prompt: str) -> AllowedTokens:
        rows = tokenize_actions(speech, offered(prompt))
        fitting = [row for row in rows if len(row) <= speech.max_action_tokens] or rows
        return lambda said: list_next_tokens(fitting, said)

    return constrain_action
