"""Stages of the WebGLM recipe, each run once: bootstrap, distil, prefer."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from recipes.oracle_policies import OracleErrorRates
from recipes.rewards import write_pretrained_encoder
from recipes.stages import load_or_make, print_progress
from recipes.vote_comparisons import (
    PairBias,
    ThumbsSettings,
    make_vote_comparisons,
    read_forum_threads,
)
from recipes.webglm_bootstrapping import BootstrapSettings, filter_bootstrapped_episode
from recipes.webglm_data import (
    Bootstrapper,
    Data,
    make_tiny_summaries,
    read_summaries,
    split_questions,
    write_tiny_data,
)
from recipes.webglm_generator import GeneratorSettings
from rookery.answers.answer_results import answer_all
from rookery.answers.webglm import WebglmSettings
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.learn.random_models import write_tiny_model
from rookery.learn.retrieval_data import RetrievalSources
from rookery.learn.retrieval_training import (
    RetrievalTrainingResult,
    RetrievalTrainingSettings,
    train_retriever,
)
from rookery.learn.reward_training import (
    RewardTrainingResult,
    RewardTrainingSettings,
    train_reward_model,
)
from rookery.learn.training_data import EpisodeFilter
from rookery.library.question_files import read_squad
from rookery.records import Answer, Comparison, Completion, Episode, Question, Record, Step
from rookery.typed_files import read_json_lines


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the recipe."""

    articles: tuple[int, int]
    """Numbers of articles whose questions are learnt from, and measured on."""
    questions: tuple[int, int]
    """Maximum questions of each of these articles."""
    retrieve: RetrievalTrainingSettings
    """Its `sources` are set by the recipe."""
    prefer: RewardTrainingSettings
    """Its comparisons are set by the recipe; if it names no model, it starts from the one that
    `summaries` trains, or else from the encoder of `retrieve`."""
    generate: GeneratorSettings | None = None
    """None: no generator is trained."""
    summaries: ImitationSettings | None = None
    """Supervised training on summaries, from whose model the scorer starts (section 3.3); None:
    there is none. Its episodes are set by the recipe; a model that is not named is random."""
    bootstrap: BootstrapSettings = BootstrapSettings()
    faults: OracleErrorRates = OracleErrorRates()
    webglm: WebglmSettings = WebglmSettings()
    thumbs: ThumbsSettings = ThumbsSettings()
    """Rules for the pairs to learn from."""
    held: float = 0.4
    """Share of threads that are measured on."""
    longest: int = 400
    """Characters of a post that are read."""
    n: int = 3
    """N of best-of-N; threads with fewer answers are left out of it."""
    squad: str = "squad/train.json.xz"
    """Path in the data folder; empty: made-up data."""
    forums: tuple[str, ...] = (
        "stackexchange/beer.jsonl.xz",
        "stackexchange/matheducators.jsonl.xz",
    )
    summarized: str = "scitldr/train.jsonl.xz"
    """Path in the data folder of the texts with summaries."""
    seed: int = 0
    """Of every model's weights, order and samples."""
    split: int = 0
    """Number of the draw of articles, questions and threads;
    the same for all seeds, so that their rows can be paired."""


def read_data(settings: Settings, data: Path, little: Path) -> Data:
    """Read the data that the settings name; if they name none, make them up in the folder
    `little`."""
    squad, forums = data / settings.squad, [data / place for place in settings.forums]
    encoder = settings.retrieve.model
    if not settings.squad:
        squad, *forums, tiny_summaries = write_tiny_data(little, settings.split)
        encoder = str(tiny_summaries)
    read = read_squad(squad)
    taught, test_questions = split_questions(
        read, settings.articles, settings.questions, settings.split
    )
    threads = [thread for place in forums for thread in read_forum_threads(place)]
    Random(f"{settings.split} threads").shuffle(threads)
    held_count = round(settings.held * len(threads))
    parts = read, taught, test_questions, threads[held_count:], threads[:held_count], encoder
    if settings.summaries is None:
        return Data(*parts)
    if not settings.squad:
        return Data(*parts, make_tiny_summaries(read))
    return Data(*parts, read_summaries(data / settings.summarized))


class BootstrappedPart(msgspec.Struct, frozen=True):
    """Answers to the questions of one part."""

    written: list[Episode]
    """Episodes with corrected citations."""
    filtered: list[Episode]
    """The same, without an answer where a filter rejected it."""
    place: str
    """File of `filtered`."""


def bootstrap_answers(
    settings: Settings, policy: Bootstrapper, questions: Sequence[Question], place: Path
) -> BootstrappedPart:
    """Answer every question and filter the answers (section 3.2); answers of an earlier run are
    reused."""
    written_file = place.with_suffix(".written.jsonl")
    answer_all(questions, written_file, lambda: lambda question: policy(question).to_json(), 1)
    written = list(read_json_lines(written_file, Episode))
    filtered = [filter_bootstrapped_episode(each, settings.bootstrap) for each in written]
    print_progress(
        f"{sum(each.stop == 'end' for each in filtered)} of {len(questions)} answers survive"
    )
    return BootstrappedPart(written, filtered, _write_records(place, filtered))


def distill_retriever(
    settings: Settings, world: Data, taught: BootstrappedPart, out: Path
) -> RetrievalTrainingResult:
    """Train a retriever on the references that the surviving answers cite (section 3.1.2)."""
    whole = replace(
        settings.retrieve,
        model=world.encoder,
        sources=RetrievalSources(episodes=(taught.place,)),
        seed=settings.seed,
    )
    result = load_or_make(
        out / "retrieved.json",
        RetrievalTrainingResult,
        lambda: train_retriever(whole, out / "retriever"),
    )
    print_progress(
        f"distilled from {result.questions} questions, best after step {result.best_step}"
    )
    return result


def train_on_summaries(settings: Settings, world: Data, out: Path) -> str:
    """Train a language model to sum up (section 3.3: on TL;DR) and return its folder."""
    how = settings.summaries
    assert how is not None
    pairs = [(text[: settings.longest], short) for text, short in world.summaries]
    start = Path(how.trained.model or out / "blank")
    if not start.exists() and not how.trained.model:
        texts = [part for pair in pairs for part in pair]
        write_tiny_model(start, texts, vocabulary=600, context=512, seed=settings.seed)
    episodes = [
        Episode(
            Question(f"{at}", text),
            "summaries",
            (Step(f"{text}\n\nTL;DR:", Completion(f" {short}")),),
        )
        for at, (text, short) in enumerate(pairs)
    ]
    whole = replace(
        how,
        trained=replace(how.trained, model=str(start)),
        episodes=(_write_records(out / "summaries.jsonl", episodes),),
        chosen=EpisodeFilter(answered=False),
        chat=False,
    )
    result = load_or_make(
        out / "summarized.json",
        ImitationResult,
        lambda: train_by_imitation(whole, out / "summarizer"),
    )
    print_progress(f"learnt to sum up from {result.rows} texts, best after step {result.best_step}")
    return result.model


def train_scorer(
    settings: Settings, world: Data, out: Path
) -> tuple[RewardTrainingResult, PairBias]:
    """Train a scorer on votes (section 3.3); also return the bias of its pairs."""
    start = Path(settings.prefer.trained.model or out / "start")
    if settings.summaries is not None and not settings.prefer.trained.model:
        start = Path(train_on_summaries(settings, world, out))
    if not start.exists():
        write_pretrained_encoder(start, world.encoder)
    comparisons = make_vote_comparisons(world.known, settings.thumbs)
    pairs = [_cut_answers(each, settings.longest) for each in comparisons.comparisons]
    whole = replace(
        settings.prefer,
        trained=replace(settings.prefer.trained, model=str(start)),
        comparisons=_write_records(out / "pairs.jsonl", pairs),
        samples=_write_records(out / "samples.jsonl", pairs[:100]),
        seed=settings.seed,
    )
    result = load_or_make(
        out / "preferred.json",
        RewardTrainingResult,
        lambda: train_reward_model(whole, out / "scorer"),
    )
    print_progress(f"learnt from {result.comparisons} pairs, best after step {result.best_step}")
    return result, comparisons.after


def _cut_answers(compared: Comparison, longest: int) -> Comparison:
    answers = tuple(Answer(answer.text[:longest]) for answer in compared.answers)
    return replace(compared, answers=answers)


def _write_records(place: Path, records: Sequence[Record]) -> str:
    """Write records as JSON lines and return the path."""
    place.write_text("".join(each.to_json() + "\n" for each in records))
    return str(place)
