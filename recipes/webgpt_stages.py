"""Stages of the WebGPT recipe, each run once: imitate, sample, prefer, reinforce."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from zlib import crc32

from msgspec.structs import replace

from recipes.random_models import write_random_model
from recipes.rewards import write_pretrained_encoder
from recipes.stages import load_or_make, print_progress
from recipes.webgpt_data import AnswerSample, Samples, Settings, is_right, list_quote_prompts
from rookery.learn.action_constraints import ConstrainedEnvironment, allow_commands
from rookery.learn.decoding import load_sampled_model
from rookery.learn.episodes import RolloutEnvironment, make_policy_sampler
from rookery.learn.imitation_learning import ImitationResult, train_by_imitation
from rookery.learn.online_labelling import write_records
from rookery.learn.pretrained_models import PolicyTokenizer, load_policy_tokenizer
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.learn.reward_training import RewardTrainingResult, train_reward_model
from rookery.learn.rollout_environments import (
    BatchRewardFunction,
    BrowserEnvironment,
    SingleStepEnvironment,
    assign_questions,
)
from rookery.records import Answer, Comparison, Episode, Library, Question

RANDOM_MODEL = 2000, 1024, 32, 1
"""Vocabulary, context, width and layers of a policy that is not named."""
PAIRS, BLOCK = 6, 25  # comparisons of a question at most; questions sampled at a time
EnvironmentBuilder = Callable[
    [Sequence[Question], BatchRewardFunction, PolicyTokenizer, int], RolloutEnvironment
]
"""From questions, rewards, the policy's tokens and the episodes of a question in a row."""


def clone_behaviour(
    settings: Settings, before: Sequence[Path], demonstrations: Sequence[Episode], out: Path
) -> Path:
    """Train the last policy of `before` further by behaviour cloning (section 3.2), or the model of
    the settings without one, and return its folder."""
    named = settings.imitate.trained.model
    begun = before[-1] if before else Path(named or out / "blank")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(begun)),
        episodes=(str(out / "demonstrations.jsonl"),),
        chat=False,
        seed=settings.seed,
    )

    def learn() -> ImitationResult:
        if not named and not before:
            texts = [step.prompt + step.said.text for each in demonstrations for step in each.steps]
            write_random_model(begun, texts, *RANDOM_MODEL, settings.seed)
        out.mkdir(parents=True, exist_ok=True)
        write_records(Path(whole.episodes[0]), demonstrations)
        speech = load_policy_tokenizer(begun, settings.reinforce.sampling.max_tokens, chat=False)
        return train_by_imitation(whole, out / "run", constrain=allow_commands(speech))

    result = load_or_make(out / "imitated.json", ImitationResult, learn)
    print_progress(f"{len(demonstrations)} more demonstrations imitated: {result.left_out}")
    return Path(result.model)


def browse_with(settings: Settings, library: Library) -> EnvironmentBuilder:
    """Return a builder of environments that browse: commands are held to the browser's grammar."""
    rules = settings.browsing
    return lambda questions, scores, speech, group: ConstrainedEnvironment(
        BrowserEnvironment(questions, library, scores, speech, replace(rules, group=group)),
        speech,
        allow_commands(speech),
    )


def answer_with_quotes(library: Library) -> EnvironmentBuilder:
    """Return a builder of environments of one step, an answer from the right quote."""
    return lambda questions, scores, speech, group: SingleStepEnvironment(
        questions, partial(list_quote_prompts, library), scores, speech, group=group
    )


def sample_answers(
    settings: Settings,
    name: str,
    questions: Sequence[Question],
    build: EnvironmentBuilder,
    policy: Path,
    n: int,
    out: Path,
    greedy: bool = False,
) -> Samples:
    """Sample n answers of a policy to each question, and keep them in `out` under a name, from
    which the seed is made too: those to a few questions at a time, so that a stop costs little."""
    plain = settings.reinforce.sampling
    sampling = replace(plain, temperature=0.0) if greedy else plain

    def play(at: int) -> Samples:
        block = questions[at : at + BLOCK]
        print_progress(f"{name}: {n} samples to each of {len(block)} questions, from {at} on")
        loaded = load_sampled_model(policy, sampling)
        speech = load_policy_tokenizer(policy, sampling.max_tokens, chat=False)
        episodes, seed = range(n * len(block)), crc32(f"{settings.seed} {name} {at}".encode())
        answers: list[Answer] = []

        def collect_answers(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
            answers.extend(answer for _, answer in pairs)
            return [0.0] * len(pairs)

        sample = make_policy_sampler(loaded.model, loaded.ends, sampling)
        played = build(block, collect_answers, speech, n).play_episodes(sample, episodes, seed)
        each = iter(answers)
        samples: Samples = [[] for _ in block]
        turns = assign_questions(len(block), n, episodes, seed)
        for one, (number, _) in zip(played, turns, strict=True):
            answer = None if one.reward is None else next(each)
            logprob = math.fsum(value for row in one.rows for value in row.logprobs)
            samples[number].append(AnswerSample(None if one.malformed else answer, logprob))
        return samples

    place = out / f"samples-{name.replace(' ', '-')}"
    starts = range(0, len(questions), BLOCK)
    blocks = (load_or_make(place / f"{at}.json", Samples, partial(play, at)) for at in starts)
    return [samples for block in blocks for samples in block]


def train_reward(
    settings: Settings,
    questions: Sequence[Question],
    answers: Sequence[Sequence[Answer | None]],
    out: Path,
) -> RewardTrainingResult:
    """Train a reward model on comparisons of right answers to each question with wrong ones."""
    named, pairs = settings.prefer.trained.model, zip(questions, answers, strict=True)
    start = out / MINILM_MODEL if named == MINILM_MODEL else Path(named)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=str(out / "comparisons.jsonl"),
        seed=settings.seed,
    )

    def learn() -> RewardTrainingResult:
        if named == MINILM_MODEL:
            write_pretrained_encoder(start)
        comparisons = [each for pair in pairs for each in make_comparisons(*pair)]
        out.mkdir(parents=True, exist_ok=True)
        write_records(Path(whole.comparisons), comparisons)
        return train_reward_model(whole, out / "run")

    return load_or_make(out / "preferred.json", RewardTrainingResult, learn)


def make_comparisons(question: Question, answers: Iterable[Answer | None]) -> list[Comparison]:
    """Return comparisons of right answers with wrong ones, each pair once and not too many."""
    different = [answer for answer in dict.fromkeys(answers) if answer is not None]
    right = [answer for answer in different if is_right(question, answer)]
    wrong = [answer for answer in different if answer not in right]
    pairs = list(product(right, wrong))
    chosen = Random(question.id).sample(pairs, min(len(pairs), PAIRS))
    return [Comparison(question, pair, (1.0, 0.0), "known answers") for pair in chosen]


def reinforce_answers(
    settings: Settings, questions: Sequence[Question], library: Library, policy: Path, out: Path
) -> ReinforcementResult:
    """Train a policy on how often it answers right from quotes that are given."""
    trained = replace(settings.reinforce.policy, model=str(policy))
    whole = replace(settings.reinforce, policy=trained, seed=settings.seed)

    def reward_answers(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [float(is_right(*pair)) for pair in pairs]

    def learn() -> ReinforcementResult:
        speech = load_policy_tokenizer(policy, whole.sampling.max_tokens, chat=False)
        build = answer_with_quotes(library)
        world = build(questions, reward_answers, speech, settings.browsing.group)
        return train_by_reinforcement(whole, world, out / "reinforced")

    return load_or_make(out / "reinforced.json", ReinforcementResult, learn)
