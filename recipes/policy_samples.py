"""Samples of saved policies: answers in the text browser, answers with quotes, and completions."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from recipes.text_environment import PolicyCompletion, decode_completion
from rookery.answers.gophercite import measure_shown_text, refuse_hidden_quotes
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
    EnvironmentPrompt,
    PromptFunction,
    SingleStepEnvironment,
    assign_questions,
)
from rookery.learn.training_data import PromptConstraint
from rookery.pages.page_text import neutralize_line
from rookery.quotes.citation_syntax import AnswerShape, parse_inline
from rookery.quotes.constraint import VerbatimGrammar
from rookery.records import Answer, Library, Page, Question, Record


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


class QuotedSample(Record, frozen=True):
    """One sampled answer with its quotes."""

    answer: Answer | None
    """None: what was said is none"""
    logprob: float
    """of all that was said, in nats, under the constraint"""


def build_quote_prompt(question: Question, page: Page) -> EnvironmentPrompt:
    """Return the prompt that shows one whole page, with the parser of answers to it.

    It is GopherCite's (table 12); quotes are of that page.
    """
    title, text = page.title, page.text[: measure_shown_text(page)]

    def parse_answer(completion: str) -> Answer:
        answer = parse_inline(completion, [page])
        refuse_hidden_quotes(answer, page)
        return answer

    source = f"Page: {neutralize_line(title)}\n{neutralize_line(text)}"
    prompt = f"{source}\nQuestion: {question.text}\nAnswer: "
    return EnvironmentPrompt(prompt, parse_answer, (title, text))


def make_search_prompts(library: Library, pages: int) -> PromptFunction:
    """Return a function that searches for a question and builds a prompt for each page found.

    It takes at most `pages` pages, those found first.
    """

    def list_search_prompts(question: Question) -> list[EnvironmentPrompt]:
        hits = library.search(question.text, 10 * pages)
        urls = list(dict.fromkeys(hit.url for hit in hits))[:pages]
        return [build_quote_prompt(question, library.fetch(url)) for url in urls]

    return list_search_prompts


def sample_quoted_answers(
    policy: Path,
    questions: Sequence[Question],
    show: PromptFunction,
    n: int,
    sampling: SamplingSettings,
    shape: AnswerShape,
    seed: int,
) -> list[list[QuotedSample]]:
    """Draw n answers of a saved policy to each question, with quotes constrained to the page shown.

    The pages of a question take turns; a question without a page has no answers. Raises Failed:
    no_model, bad_model, prompt_too_long, not_a_number.
    """
    loaded = load_sampled_model(policy, sampling)
    room = loaded.context - sampling.max_tokens
    speech = PolicyTokenizer(
        loaded.tokenizer, loaded.vocabulary, loaded.ends, sampling.max_tokens, room, chat=False
    )
    sample = make_policy_sampler(loaded.model, loaded.ends, sampling)
    answers: list[Answer] = []

    def collect_answers(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        answers.extend(answer for _, answer in pairs)
        return [0.0] * len(pairs)

    world = SingleStepEnvironment(
        questions, show, collect_answers, speech, VerbatimGrammar(loaded.vocabulary, shape)
    )
    episodes = range(n * len(questions))
    samples_by_question: list[list[QuotedSample]] = [[] for _ in questions]
    played, each = world.play_episodes(sample, episodes, seed), iter(answers)
    for one, (number, _) in zip(
        played, assign_questions(len(questions), 1, episodes, seed), strict=True
    ):
        for row in one.rows:
            answer = None if one.reward is None else next(each)
            readable = None if one.malformed else answer
            samples_by_question[number].append(QuotedSample(readable, math.fsum(row.logprobs)))
    return samples_by_question


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
