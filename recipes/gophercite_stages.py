"""Stages of the GopherCite recipe, each run once: imitate, prefer, reinforce, ask."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from recipes.gophercite_data import (
    Data,
    QuestionWithPage,
    make_comparisons,
    make_targets,
    sample_fact_comparisons,
)
from recipes.policy_samples import (
    QuotedSample,
    build_quote_prompt,
    make_search_prompts,
    sample_quoted_answers,
)
from recipes.rewards import cache_scores, write_pretrained_encoder
from recipes.stages import load_or_make, print_progress
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import load_policy_tokenizer
from rookery.learn.random_models import write_tiny_model
from rookery.learn.reinforcement_learning import ReinforcementResult, train_by_reinforcement
from rookery.learn.retrieval_training import MINILM_MODEL
from rookery.learn.reward_model import RewardModel
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.learn.rollout_environments import SingleStepEnvironment, constrain_to_document
from rookery.learn.training_data import EpisodeFilter
from rookery.measure.ratings import PLAUSIBLE_SCALE, SUPPORTED_SCALE
from rookery.models.remote_model import AllowedTokens
from rookery.quotes.citation_syntax import AnswerShape
from rookery.quotes.constraint import VerbatimGrammar
from rookery.records import Record


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the recipe."""

    articles: tuple[int, int, int]
    """Numbers of articles: to learn from, to ask about, and left out of the library."""
    questions: tuple[int, int, int]
    """Maximum numbers of questions about each of these."""
    compared: int
    """Questions whose answers are compared."""
    facts: int
    """Comparisons made from fact checking."""
    imitate: ImitationSettings
    prefer: RewardTrainingSettings
    reinforce: ReinforcementSettings
    """Defaults come from `rules.A2C`."""
    samples: int
    """N of best-of-N."""
    words: int = 90
    """Maximum words of a page."""
    pages: int = 1
    """K pages for each question, used in turn."""
    squad: str = "squad/train.json.xz"
    """Path in the data folder; empty: made-up data."""
    climate: str = "climate_fever/climate-fever.jsonl.xz"
    vocabulary: int = 3000
    """Tokens of the tiny model that is made where `imitate` names none."""
    shape: AnswerShape = AnswerShape()
    """Limits of a quote's length, and the text before it."""
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of articles and questions;
    the same for all seeds, so that their rows can be paired."""


def train_imitation(settings: Settings, world: Data, out: Path) -> Path:
    """Train the first policy to quote the sentences rated good (section 2.7) and return its
    folder."""
    start = Path(settings.imitate.trained.model or out / "tiny")
    if not (settings.imitate.trained.model or start.exists()):
        texts = [part for question, page in world.taught for part in (question.text, page.text)]
        write_tiny_model(start, texts, settings.vocabulary, 1024, settings.seed)
    targets = list(make_targets(world.taught))
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(_write_records(out / "episodes.jsonl", (each for each, _ in targets)),),
        ratings=_write_records(out / "ratings.jsonl", (one for _, some in targets for one in some)),
        chosen=EpisodeFilter(rated=(SUPPORTED_SCALE, PLAUSIBLE_SCALE)),
        seed=settings.seed,
    )
    prompts = [build_quote_prompt(question, page) for question, page in world.taught]
    documents = {each.prompt: each.quoted_document for each in prompts}

    def learn() -> ImitationResult:
        size = settings.reinforce.sampling.max_tokens
        speech = load_policy_tokenizer(start, size, chat=False)
        grammar = VerbatimGrammar(speech.vocabulary, settings.shape)

        def constrain(prompt: str) -> AllowedTokens:
            document = documents[prompt]
            return constrain_to_document(grammar, document, size) if document else None

        return train_by_imitation(whole, out / "sft", constrain=constrain)

    result = load_or_make(out / "imitated.json", ImitationResult, learn)
    print_progress(
        f"imitated {result.rows} answers that were rated good; left out: {result.left_out}"
    )
    return Path(result.model)


def sample_answers(
    settings: Settings,
    world: Data,
    policy: Path,
    about: Sequence[QuestionWithPage],
    n: int,
    place: Path,
) -> list[list[QuotedSample]]:
    """Sample `n` answers of a policy to each question, on the pages that a search finds, and keep
    them in `place`."""
    show, shape = make_search_prompts(world.holdings, settings.pages), settings.shape
    questions, sampling = [question for question, _ in about], settings.reinforce.sampling
    return load_or_make(
        place,
        list[list[QuotedSample]],
        lambda: sample_quoted_answers(policy, questions, show, n, sampling, shape, settings.seed),
    )


def train_reward(settings: Settings, world: Data, climate: Path, out: Path, sft: Path) -> Path:
    """Train the reward model on comparisons of samples and on fact checking (section 2.8, appendix
    E.2) and return its folder."""
    some = world.taught[: settings.compared]
    samples = sample_answers(settings, world, sft, some, 4, out / "compared.json")
    comparisons = [
        *make_comparisons(world, samples, settings.seed),
        *sample_fact_comparisons(climate, settings.facts, settings.seed),
    ]
    start = Path(settings.prefer.trained.model or sft)
    if settings.prefer.trained.model == MINILM_MODEL and not (start := out / MINILM_MODEL).exists():
        write_pretrained_encoder(start)
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=_write_records(
            out / "comparisons.jsonl", (each.comparison for each in comparisons)
        ),
        ratings=_write_records(
            out / "judged.jsonl", (one for each in comparisons for one in each.ratings)
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


def train_reinforcement(
    settings: Settings, world: Data, out: Path, sft: Path, reward: Path
) -> Path:
    """Train the policy by A2C on pages that a search finds (section 2.8) and return its folder."""
    reinforce_settings = settings.reinforce
    whole = replace(
        reinforce_settings,
        policy=replace(reinforce_settings.policy, model=str(sft)),
        seed=settings.seed,
    )

    def learn() -> ReinforcementResult:
        speech = load_policy_tokenizer(sft, whole.sampling.max_tokens, chat=False)
        grammar = VerbatimGrammar(speech.vocabulary, settings.shape)
        questions = [question for question, _ in world.taught]
        show, scores = (
            make_search_prompts(world.holdings, settings.pages),
            cache_scores(RewardModel(reward).score_answers),
        )
        return train_by_reinforcement(
            whole, SingleStepEnvironment(questions, show, scores, speech, grammar), out / "rl"
        )

    result = load_or_make(out / "reinforced.json", ReinforcementResult, learn)
    print_progress(
        f"A2C ends with the reward {result.reward:.2f}, {result.kl:.2f} nats away {result.faults}"
    )
    return Path(result.model)


def _write_records(place: Path, records: Iterable[Record]) -> str:
    """Write records as JSON lines and return the path."""
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    return str(place)
