"""Policy stages of the WebGPT recipe, each run once: demonstrate, imitate, ask."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace
from torch import nn

from recipes.policy_samples import sample_browser_answers
from recipes.random_models import write_random_model
from recipes.stages import load_or_make, print_progress
from recipes.webgpt_data import Settings, choose_constraint, make_demonstrations
from rookery.learn.imitation_learning import ImitationResult, train_by_imitation
from rookery.learn.pretrained_models import (
    get_layers,
    load_model,
    load_model_with_head,
    load_policy_tokenizer,
    load_tokenizer,
)
from rookery.records import Answer, Episode, Library, Question, Record

Samples = list[list[Answer | None]]
"""Answers by question; None: a sample that is no answer."""


def load_demonstrations(
    settings: Settings, questions: Sequence[Question], library: Library, out: Path
) -> list[Episode]:
    """Return the demonstrations of these questions, made once."""
    place = out / "demonstrations.json"
    return load_or_make(
        place, list[Episode], lambda: list(make_demonstrations(settings, questions, library))
    )


def clone_behaviour(
    settings: Settings, size: tuple[int, int], demonstrations: Sequence[Episode], out: Path
) -> Path:
    """Train a policy of this width and number of layers by behaviour cloning (section 3.2) and
    return its folder."""
    start = Path(settings.imitate.trained.model or out / "blank")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(str(out / "demonstrations.jsonl"),),
        chat=False,
        seed=settings.seed,
    )

    def learn() -> ImitationResult:
        if not settings.imitate.trained.model:
            texts = [step.prompt + step.said.text for each in demonstrations for step in each.steps]
            write_random_model(
                start, texts, settings.vocabulary, settings.context, *size, settings.seed
            )
        write_records(out / "demonstrations.jsonl", demonstrations)
        speech = load_policy_tokenizer(start, settings.reinforce.sampling.max_tokens, chat=False)
        make = choose_constraint(settings)
        return train_by_imitation(whole, out / "run", constrain=make(speech) if make else None)

    result = load_or_make(out / "imitated.json", ImitationResult, learn)
    print_progress(f"{len(demonstrations)} demonstrations cloned, {size}: {result.measured}")
    return Path(result.model)


def count_policy_operations(policy: Path, demonstrations: Sequence[Episode]) -> float:
    """Count the floating point operations of a policy in one episode: two for each weight of its
    layers and each token that it reads or writes, with as many tokens as in a demonstration."""
    loaded = load_model(policy)
    texts = [f"{step.prompt}{step.said.text}" for each in demonstrations for step in each.steps]
    tokens = sum(map(len, loaded.tokenizer(texts)["input_ids"])) / len(demonstrations)
    return 2.0 * _count_layer_weights(loaded.model) * tokens


def count_reward_operations(
    reward: Path, context: int, questions: Sequence[Question], samples: Samples
) -> float:
    """Count the floating point operations of a reward model that judges one answer."""
    tokenizer, _, _ = load_tokenizer(reward)
    model, _ = load_model_with_head(reward, "row", "float32")
    pairs = zip(questions, samples, strict=True)
    texts = [
        " ".join([question.text, answer.text, *(quote.text for quote in answer.quotes)])
        for question, some in pairs
        for answer in some
        if answer is not None
    ]
    sizes = [min(len(each), context) for each in tokenizer(texts)["input_ids"]] if texts else [0]
    return 2.0 * _count_layer_weights(model) * fmean(sizes)


def _count_layer_weights(model: nn.Module) -> int:
    return sum(each.numel() for each in get_layers(model).parameters())


def sample_answers(
    settings: Settings,
    questions: Sequence[Question],
    library: Library,
    policy: Path,
    n: int,
    seed: int,
    place: Path,
) -> Samples:
    """Sample n answers of a policy to each question, and keep them in `place`."""
    sampling, browsing = settings.reinforce.sampling, settings.browsing
    parts = policy, questions, library, n, sampling, browsing, choose_constraint(settings), seed
    return load_or_make(place, Samples, lambda: sample_browser_answers(*parts))


def write_records(place: Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
