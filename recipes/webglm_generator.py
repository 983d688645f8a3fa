"""The generator of the WebGLM recipe: a language model points at a reference, writes a claim from
it, and learns from those of its own claims that filters leave (section 3.2)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from recipes.pointed_claims import (
    ClaimSample,
    QuotedQuestion,
    choose_quote,
    list_sentence_quotes,
    point_at_quotes,
    sample_claims,
)
from recipes.stages import load_or_make, print_progress
from recipes.webglm_data import Data, PagedQuestion
from rookery.learn.decoding import SamplingSettings
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.learn.pretrained_models import load_model
from rookery.learn.random_models import write_tiny_model
from rookery.quotes.repair import list_content_words, measure_shared_words
from rookery.records import Answer, Episode, Page, Question

FEW_SHOT, TRAINED = "as it came, few-shot", "trained on its own claims"
LOT_REFERENCE, FIRST_REFERENCE = "reference by lot, same writer", "first reference, same writer"
SURVIVES = "survives"
EXAMPLES = tuple(
    (Question(claim, question), Page("", title, line).quote(0, len(line)), claim)
    for title, line, question, claim in (
        (
            "Harrow Viaduct",
            "The viaduct was opened in 1862 after nine years of work.",
            "When did the Harrow Viaduct open?",
            "1862",
        ),
        (
            "Ada Brennan",
            "Her second novel is set among the lighthouse keepers of Kestrel Bay.",
            "Who is Ada Brennan's second novel about?",
            "the lighthouse keepers of Kestrel Bay",
        ),
    )
)
"""Invented questions, references and claims of the few-shot prompt."""


class ClaimFilters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of bootstrapped claims; none knows the accepted answers."""

    overlap: float = 0.57
    """Least share of a claim's words in the reference that it cites (section 3.2.3)."""
    words: int = 8
    """Most words of a claim: more is a sentence that was copied."""


class GeneratorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the generator."""

    imitate: ImitationSettings
    """Its episodes are set by the recipe; a model that is not named is random."""
    questions: tuple[int, int]
    """Numbers of questions to learn from, and to measure on."""
    filters: ClaimFilters = ClaimFilters()
    sampling: SamplingSettings = SamplingSettings(max_tokens=16, temperature=0)
    """Of all claims."""


class GeneratedClaims(NamedTuple):
    """Claims to the questions that are measured on, and what was learnt from."""

    fates: Counter[str]
    """Bootstrapped claims, by the filter that rejected them."""
    pointed: list[QuotedQuestion]
    """The reference that was pointed at, for each question."""
    answers: dict[str, list[Answer | None]]
    """By system."""


def load_start(settings: GeneratorSettings, data: Data, out: Path, seed: int) -> Path:
    """Return the folder of the untrained model; one that is not named is random."""
    start = Path(settings.imitate.trained.model or out / "blank")
    if not settings.imitate.trained.model and not start.exists():
        texts = [text for each, page in data.taught for text in (each.text, page.text)]
        write_tiny_model(start, texts, vocabulary=600, context=1024, seed=seed)
    return start


def point_at_references(
    model: Path, pairs: Sequence[PagedQuestion], place: Path
) -> list[QuotedQuestion]:
    """Return each question with the sentence of its page after which it is likeliest."""
    scores = load_or_make(
        place, list[list[float]], lambda: point_at_quotes(load_model(model), pairs)
    )
    print_progress(f"{place.stem}: {len(pairs)} questions")
    return [
        (question, choose_quote(page, each))
        for (question, page), each in zip(pairs, scores, strict=True)
    ]


def write_claims(
    settings: GeneratorSettings,
    policy: Path,
    pointed: Sequence[QuotedQuestion],
    place: Path,
    seed: int,
    few_shot: bool = False,
) -> list[Answer | None]:
    """Write a claim for each question from its reference."""
    examples = EXAMPLES if few_shot else ()
    claims = load_or_make(
        place,
        list[list[ClaimSample]],
        lambda: sample_claims(policy, pointed, 1, settings.sampling, seed, examples),
    )
    print_progress(f"{place.stem}: {len(claims)} claims")
    return [sample.answer for (sample,) in claims]


def imitate_claims(
    settings: GeneratorSettings, start: Path, episodes: Sequence[Episode], out: Path, seed: int
) -> Path:
    """Train the model on claims, and return its folder."""
    place = out / "demonstrations.jsonl"
    place.write_text("".join(each.to_json() + "\n" for each in episodes), "utf-8")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(str(place),),
        chat=False,
        seed=seed,
    )
    learnt = load_or_make(
        out / "imitated.json", ImitationResult, lambda: train_by_imitation(whole, out / "learner")
    )
    print_progress(f"generator: learnt from {learnt.rows} claims")
    return Path(learnt.model)


def filter_claim(
    question: Question, answer: Answer | None, page: Page, filters: ClaimFilters
) -> str:
    """Return SURVIVES, or why nothing must be learnt from a claim.

    As in WebGLM (sections 3.2.2 and 3.2.3), a claim is corrected to cite the references that hold
    most of its words, and rejected where that is not what it cited, or little of it is there.
    """
    if answer is None or not list_content_words(answer.text):
        return "says nothing"
    if len(answer.text.split()) > filters.words:
        return "copies too much"
    if not {*list_content_words(answer.text)} - {*list_content_words(question.text)}:
        return "repeats the question"
    cited = measure_shared_words(answer.text, answer.quotes[0].text)
    if cited < filters.overlap:
        return "hallucination"
    references = list_sentence_quotes(page)
    if any(measure_shared_words(answer.text, each.text) > cited for each in references):
        return "wrong citation"
    return SURVIVES


def choose_random_reference(question: Question, page: Page, seed: int) -> QuotedQuestion:
    """Return the question with a sentence of its page by lot."""
    return question, Random(f"{seed} lot {question.id}").choice(list_sentence_quotes(page))


def choose_first_reference(question: Question, page: Page) -> QuotedQuestion:
    """Return the question with the first sentence of its page."""
    return question, list_sentence_quotes(page)[0]
