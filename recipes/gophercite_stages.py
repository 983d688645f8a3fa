"""Stages of the GopherCite recipe, each run once: imitate, point, sample, prefer, reinforce."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from recipes.baselines import choose_lexical_quote
from recipes.gold_answers import rate_by_gold
from recipes.gophercite_data import (
    Data,
    QuestionWithPage,
    demonstrate_claim,
    make_comparisons,
)
from recipes.pointed_claims import (
    ClaimSample,
    QuotedQuestion,
    make_claim_environment,
    make_claim_episode,
    make_pointer_episode,
    point_at_quotes,
    sample_claims,
)
from recipes.rewards import cache_scores, write_pretrained_encoder
from recipes.stages import load_or_make, print_progress, write_records
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import load_model, load_policy_tokenizer
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.learn.rollout_environments import BatchRewardFunction
from rookery.library.question_files import is_correct_answer
from rookery.records import Answer, Episode, Question

EXAMPLES = 3
"""Demonstrations in a few-shot prompt."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the recipe."""

    articles: tuple[int, int, int]
    """Numbers of articles: to learn from, to ask about, and left out of the library."""
    questions: tuple[int, int, int]
    """Maximum numbers of questions about each of these."""
    demonstrations: int
    """Questions that are imitated: the first of those to learn from."""
    compared: int
    """Questions after them whose answers are compared; the rest is for reinforcement."""
    imitate: ImitationSettings
    """Of the claims, and of the pointer."""
    prefer: RewardTrainingSettings
    reinforce: ReinforcementSettings
    """Defaults come from `A2C_DEFAULTS`."""
    samples: int
    """N of best-of-N."""
    group: int = 4
    """Episodes of one question in a batch of reinforcement."""
    words: int = 90
    """Maximum words of a page."""
    squad: str = "squad/train.json.xz"
    """Path in the data folder; empty: made-up data."""
    vocabulary: int = 3000
    """Tokens of the tiny model that is made where `imitate` names none."""
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of articles and questions; the same for all seeds, so that their rows can
    be paired."""


def find_start(settings: Settings, world: Data, out: Path) -> Path:
    """Return the model that imitation begins as; a tiny one is made where none is named."""
    if settings.imitate.trained.model:
        return Path(settings.imitate.trained.model)
    if not (out / "start").exists():
        texts = [part for question, page in world.taught for part in (question.text, page.text)]
        write_tiny_model(out / "start", texts, settings.vocabulary, 1024, settings.seed)
    return out / "start"


def train_imitation(settings: Settings, world: Data, start: Path, out: Path) -> dict[str, Path]:
    """Train the pointer on pairs of a sentence and its question, and the claims' first policy
    (section 2.7), on demonstrations; return their folders by name."""
    demonstrated = [demonstrate_claim(*each) for each in world.taught[: settings.demonstrations]]
    episodes_by_name = {
        "pointer": [make_pointer_episode(question, quote) for question, quote, _ in demonstrated],
        "claims": [make_claim_episode(*each) for each in demonstrated],
    }
    return {
        name: _imitate(settings, start, episodes, out / name)
        for name, episodes in episodes_by_name.items()
    }


def _imitate(settings: Settings, start: Path, episodes: Sequence[Episode], out: Path) -> Path:
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(write_records(out.with_suffix(".jsonl"), episodes),),
        seed=settings.seed,
    )
    result = load_or_make(
        out.with_suffix(".json"), ImitationResult, lambda: train_by_imitation(whole, out)
    )
    print_progress(f"{out.name}: imitated {result.rows} demonstrations {result.left_out}")
    return Path(result.model)


def point(model: Path, pages: Sequence[QuestionWithPage], place: Path) -> list[list[float]]:
    """Score each sentence of each question's page by a model, and keep the scores in `place`."""
    return load_or_make(place, list[list[float]], lambda: point_at_quotes(load_model(model), pages))


def sample(
    settings: Settings,
    policy: Path,
    quoted: Sequence[QuotedQuestion],
    n: int,
    place: Path,
    examples: Sequence[QuestionWithPage] = (),
) -> list[list[ClaimSample]]:
    """Sample `n` claims of a policy for each question and quote, and keep them in `place`; one
    alone is of the likeliest tokens."""
    sampling = settings.reinforce.sampling
    if n == 1:
        sampling = replace(sampling, temperature=0)
    shots = [demonstrate_claim(*each) for each in examples]
    return load_or_make(
        place,
        list[list[ClaimSample]],
        lambda: sample_claims(policy, quoted, n, sampling, settings.seed, shots),
    )


def train_reward(settings: Settings, world: Data, out: Path, clone: Path) -> Path:
    """Train the reward model on comparisons that known answers decide (section 2.8), and return its
    folder."""
    first = settings.demonstrations
    compared = world.taught[first : first + settings.compared]
    quoted = [(question, choose_lexical_quote(question, page)) for question, page in compared]
    samples = sample(settings, clone, quoted, settings.samples, out / "compared.json")
    comparisons = list(make_comparisons(compared, samples, settings.seed))
    answers = dict.fromkeys((each.question, one) for each in comparisons for one in each.answers)
    start = Path(settings.prefer.trained.model or clone)
    if settings.prefer.trained.model == MINILM_MODEL and not (start := out / MINILM_MODEL).exists():
        write_pretrained_encoder(start)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=write_records(out / "comparisons.jsonl", comparisons),
        ratings=write_records(
            out / "ratings.jsonl", (one for each in answers for one in rate_by_gold(*each))
        ),
        seed=settings.seed,
    )
    result = load_or_make(
        out / "preferred.json",
        RewardTrainingResult,
        lambda: train_reward_model(whole, out / "reward"),
    )
    print_progress(
        f"of held-out comparisons {result.after.credit if result.after else 0:.1%} are foretold"
    )
    return Path(result.model)


def score_by_gold(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
    """Return the known reward: 1 where claim and quote hold the same accepted answer, else 0."""
    return [float(is_correct_answer(*pair)) for pair in pairs]


def train_reinforcement(
    settings: Settings, world: Data, out: Path, clone: Path, scores: BatchRewardFunction
) -> Path:
    """Train the claims' policy on a reward (section 2.8), from quotes that hold the answer, and
    return its folder."""
    whole = replace(
        settings.reinforce,
        policy=replace(settings.reinforce.policy, model=str(clone)),
        seed=settings.seed,
    )

    def learn() -> ReinforcementResult:
        speech = load_policy_tokenizer(clone, whole.sampling.max_tokens, chat=False)
        rest = world.taught[settings.demonstrations + settings.compared :]
        quoted = [demonstrate_claim(*each)[:2] for each in rest]
        environment = make_claim_environment(quoted, cache_scores(scores), speech, settings.group)
        return train_by_reinforcement(whole, environment, out)

    result = load_or_make(out.with_suffix(".json"), ReinforcementResult, learn)
    print_progress(
        f"{out.name} ends with the reward {result.reward:.2f}, {result.kl:.2f} nats away "
        f"{result.faults}"
    )
    return Path(result.model)
