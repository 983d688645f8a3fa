"""Samples of saved policies: answers in the text browser, and completions."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from recipes.text_environment import PolicyCompletion, decode_completion
from rookery.learn.action_batches import collate_rows, compute_action_logprobs
from rookery.learn.action_constraints import ConstrainedEnvironment
from rookery.learn.decoding import (
    SampledAction,
    SamplingSettings,
    load_sampled_model,
    sample_actions,
)
from rookery.learn.episodes import RolloutEnvironment, make_policy_sampler
from rookery.learn.pretrained_models import PolicyTokenizer, load_model, load_policy_tokenizer
from rookery.learn.rollout_environments import (
    BrowserEnvironment,
    BrowserEnvironmentSettings,
    assign_questions,
)
from rookery.learn.training_data import PromptConstraint
from rookery.records import Answer, Library, Question


def sample_browser_answers(
    policy: Path,
    questions: Sequence[Question],
    library: Library,
    n: int,
    sampling: SamplingSettings,
    browsing: BrowserEnvironmentSettings,
    make_constraint: Callable[[PolicyTokenizer], PromptConstraint] | None,
    seed: int,
) -> list[list[Answer | None]]:
    """Return n answers by a saved browsing policy to each question; None where an episode had none.

    `make_constraint` returns what its actions are held to; None: any action. Extra answers are not
    drawn, whatever `browsing` says of them. Raises Failed: no_model, bad_model, prompt_too_long,
    not_a_number.
    """
    loaded = load_sampled_model(policy, sampling)
    speech = load_policy_tokenizer(policy, sampling.max_tokens, chat=False)
    sample = make_policy_sampler(loaded.model, loaded.ends, sampling)
    answers: list[Answer] = []

    def collect_answers(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        answers.extend(answer for _, answer in pairs)
        return [0.0] * len(pairs)

    plain = msgspec.structs.replace(browsing, extra_answers=0)
    world: RolloutEnvironment = BrowserEnvironment(
        questions, library, collect_answers, speech, plain
    )
    if make_constraint is not None:
        world = ConstrainedEnvironment(world, speech, make_constraint(speech))
    episodes, numbers = _choose_episodes(len(questions), n, browsing.group, seed)
    answers_by_question: list[list[Answer | None]] = [[] for _ in questions]
    each = iter(answers)
    for one, number in zip(world.play_episodes(sample, episodes, seed), numbers, strict=True):
        answers_by_question[number].append(None if one.reward is None else next(each))
    return answers_by_question


def _choose_episodes(count: int, n: int, group: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the first episodes in which each of `count` questions is asked n times, and the number
    of the question of each. Groups are whole but for the last of each question."""
    rounds = range(math.ceil(n / group) * group * count)
    turns = assign_questions(count, group, rounds, seed)
    times, episodes, numbers = Counter[int](), [], []
    for episode, (number, _) in zip(rounds, turns, strict=True):
        times[number] += 1
        if times[number] <= n:
            episodes.append(episode)
            numbers.append(number)
    return episodes, numbers


def sample_completions(
    folder: Path,
    prompts: Sequence[str],
    sampling: SamplingSettings,
    reference: str = "",
    seed: int = 0,
) -> list[PolicyCompletion]:
    """Sample a completion of each prompt from a saved policy, without a chat template.

    With the folder of a `reference`, each has an estimate of its KL from it, else 0. Raises Failed:
    no_model, bad_model, prompt_too_long, not_a_number.
    """
    loaded = load_sampled_model(folder, sampling)
    speech = load_policy_tokenizer(folder, sampling.max_tokens, chat=False)
    contexts = [speech.encode_prompt(prompt) for prompt in prompts]
    seeds = [f"{seed} {number}" for number in range(len(prompts))]
    actions = sample_actions(loaded.model, contexts, seeds, loaded.ends, sampling)
    apart = (
        _estimate_kl(load_model(Path(reference), dtype=sampling.dtype).model, actions, sampling)
        if reference
        else [0.0] * len(actions)
    )
    return [
        PolicyCompletion(decode_completion(one.row.action, speech), kl)
        for one, kl in zip(actions, apart, strict=True)
    ]


@torch.inference_mode()
def _estimate_kl(
    reference: torch.nn.Module, actions: Sequence[SampledAction], sampling: SamplingSettings
) -> list[float]:
    differences, device = [], next(reference.parameters()).device
    for start in range(0, len(actions), sampling.rows):
        piece = actions[start : start + sampling.rows]
        batch = collate_rows([one.row for one in piece], 0, device)
        theirs_N = compute_action_logprobs(reference, batch, sampling.temperature)
        parts = torch.split(theirs_N, [len(one.row.action) for one in piece])
        differences += [
            sum(one.logprobs) - float(other_N.sum())
            for one, other_N in zip(piece, parts, strict=True)
        ]
    return differences
