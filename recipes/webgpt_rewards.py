"""Reward stages of the WebGPT recipe, each run once: prefer, reinforce."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from recipes.rewards import cache_scores, write_pretrained_encoder
from recipes.stages import load_or_make, print_progress
from recipes.webgpt_data import Settings, choose_constraint
from recipes.webgpt_stages import load_demonstrations, sample_answers, write_records
from rookery.learn.action_constraints import ConstrainedEnvironment
from rookery.learn.episodes import RolloutEnvironment
from rookery.learn.pretrained_models import load_policy_tokenizer
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import RewardTrainingResult, train_reward_model
from rookery.learn.rollout_environments import BrowserEnvironment
from rookery.library.question_files import is_correct_answer
from rookery.records import Answer, Comparison, Library, Question


def train_reward(
    settings: Settings,
    questions: Sequence[Question],
    library: Library,
    policy: Path,
    out: Path,
    seed: int,
) -> RewardTrainingResult:
    """Train a reward model on comparisons of samples and of a demonstrator's answers."""
    place = out / "compared.json"
    samples = sample_answers(settings, questions, library, policy, settings.compared, seed, place)
    demonstrations = load_demonstrations(settings, questions, library, out)
    answers_by_question = {episode.question.id: episode.answer for episode in demonstrations}
    pairs = zip(questions, samples, strict=True)
    comparisons = [
        each
        for one, some in pairs
        for each in make_comparisons(one, [*some, answers_by_question.get(one.id)])
    ]
    named = settings.prefer.trained.model
    start = out / MINILM_MODEL if named == MINILM_MODEL else Path(named or policy)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=str(out / "comparisons.jsonl"),
        seed=seed,
    )

    def learn() -> RewardTrainingResult:
        if named == MINILM_MODEL:
            write_pretrained_encoder(start)
        write_records(out / "comparisons.jsonl", comparisons)
        return train_reward_model(whole, out / "run")

    result = load_or_make(out / "preferred.json", RewardTrainingResult, learn)
    agreed = result.after.credit if result.after else 0.5
    print_progress(
        f"a reward learnt from {result.comparisons} comparisons foretells {agreed:.1%} of others"
    )
    return result


def make_comparisons(question: Question, answers: Sequence[Answer | None]) -> Iterator[Comparison]:
    """Yield a comparison of every two different answers: the correct one is preferred, otherwise
    they tie."""
    different = list(dict.fromkeys(answer for answer in answers if answer is not None))
    for pair in combinations(different, 2):
        good = [is_correct_answer(question, answer) for answer in pair]
        first = 0.5 + (good[0] - good[1]) / 2
        yield Comparison(question, pair, (first, 1 - first), "the known answers")


def train_ppo(
    settings: Settings,
    questions: Sequence[Question],
    library: Library,
    policy: Path,
    reward: RewardTrainingResult,
    out: Path,
) -> ReinforcementResult:
    """Train the policy by PPO, with extra answers after each browsing (section 3.2, appendix E).

    With `reinforce.check`, the last `reinforce.validation_episodes` of the questions are not learnt
    from, and the policy with the highest reward on them is taken.
    """
    reinforce_settings = settings.reinforce
    training_count = len(questions) - (
        reinforce_settings.validation_episodes if reinforce_settings.check else 0
    )
    if training_count < 1:
        raise ValueError("reinforce.validation_episodes leaves no question to learn from: lower it")
    whole = replace(
        reinforce_settings,
        policy=replace(reinforce_settings.policy, model=str(policy)),
        seed=settings.seed,
    )

    def learn() -> ReinforcementResult:
        speech = load_policy_tokenizer(policy, whole.sampling.max_tokens, chat=False)
        scores = cache_scores(RewardModel(Path(reward.model)).score_answers)

        def make_environment(some: Sequence[Question]) -> RolloutEnvironment:
            world = BrowserEnvironment(some, library, scores, speech, settings.browsing)
            make = choose_constraint(settings)
            return ConstrainedEnvironment(world, speech, make(speech)) if make else world

        validation = (
            make_environment(questions[training_count:]) if reinforce_settings.check else None
        )
        return train_by_reinforcement(
            whole, make_environment(questions[:training_count]), out / "ppo", validation=validation
        )

    result = load_or_make(out / "reinforced.json", ReinforcementResult, learn)
    print_progress(
        f"PPO ends with the reward {result.reward:.2f}, {result.kl:.2f} nats away {result.faults}; "
        f"the policy after batch {result.best_step} is taken"
    )
    return result
