"""The generator of the WebGLM recipe (section 3.2): a language model answers without knowing the
accepted answers, its citations are corrected, the answers filtered, and it learns from what is
left."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
from msgspec.structs import replace

from recipes.findings import Effect, ScoreTable
from recipes.line_completions import StoredPolicy, complete_lines
from recipes.measures import score_system_citations
from recipes.oracle_policies import contains_any_answer, parse_webglm_prompt
from recipes.stages import load_or_make, print_progress
from recipes.webglm_bootstrapping import BootstrapSettings, filter_bootstrapped_episode
from recipes.webglm_data import Bootstrapper
from rookery.answers.webglm import WebglmSettings
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage
from rookery.learn.decoding import SamplingSettings
from rookery.learn.imitation_learning import ImitationResult, ImitationSettings, train_by_imitation
from rookery.learn.random_models import write_tiny_model
from rookery.library.question_files import is_correct_answer
from rookery.measure.citations import (
    list_statements,
    make_citations_figure,
    make_support_entailment,
    score_answer_citations,
)
from rookery.measure.figures import Figure
from rookery.measure.ranking import count_corpus_terms, score_tf_idf
from rookery.models.remote_model import AllowedTokens
from rookery.pages.passages import find_sentences
from rookery.quotes.repair import measure_shared_words
from rookery.records import Answer, Completion, Episode, Page, Question

START, GENERATOR = "as it came", "trained"
RANDOM_REFERENCE, FIRST_REFERENCE = "reference by lot", "first reference"
TF_IDF_REFERENCE, JUDGED_REFERENCE = "TF-IDF's reference", "evidence model's reference"
TOLD_REFERENCE = "reference told the answer"


class GeneratorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the generator."""

    imitate: ImitationSettings
    """Its episodes are set by the recipe; a model that is not named is random."""
    questions: tuple[int, int]
    """Numbers of questions that are bootstrapped and learnt from, and measured on, at most."""
    webglm: WebglmSettings = WebglmSettings()
    filters: BootstrapSettings = BootstrapSettings()
    tokens: int = 64
    """Of an answer, at most."""
    temperature: float = 0.7
    """Of the answers that are bootstrapped. Those that are measured take the likeliest tokens."""
    rows: int = 32
    """Answers that are written together."""


class GeneratedAnswers(msgspec.Struct, frozen=True):
    """Answers of the generator, and of the model that it began from, to the same questions."""

    taught: list[Episode]
    """Bootstrapped episodes, filtered; those without an answer were rejected."""
    asked: dict[str, list[Episode]]
    """Episodes of each system, not filtered."""
    shown: list[list[str]]
    """The references of each question that is measured on."""
    learnt: ImitationResult


def train_generator(
    settings: GeneratorSettings,
    policy: Bootstrapper,
    parts: tuple[Sequence[Episode], Sequence[Episode]],
    out: Path,
    seed: int,
    split: int,
) -> GeneratedAnswers:
    """Bootstrap, correct, filter and imitate; answer the questions of the second part before and
    after.

    `parts` are other episodes about the questions to learn from, and to measure on, of which only
    the questions are used.
    """
    taught, test_questions = (
        _sample_episodes(each, count, split)
        for each, count in zip(parts, settings.questions, strict=True)
    )
    start = Path(settings.imitate.trained.model or out / "blank-generator")
    if not settings.imitate.trained.model and not start.exists():
        texts = [each.steps[-1].prompt for each in (*taught, *test_questions)]
        write_tiny_model(start, texts, vocabulary=600, context=1024, seed=seed)

    least = settings.webglm.correct.threshold

    prompts = {
        each.question.id: find_prompt(policy, each.question, settings.webglm)
        for each in (*taught, *test_questions)
    }

    def write(
        name: str, model: Path, episodes: Sequence[Episode], temperature: float
    ) -> list[Episode]:
        def make() -> list[Completion]:
            print_progress(f"{name}: {len(episodes)} answers")
            sampling = SamplingSettings(
                max_tokens=settings.tokens, temperature=temperature, rows=settings.rows
            )
            return complete_lines(
                model, [prompts[each.question.id] for each in episodes], sampling, seed
            )

        completions = load_or_make(out / "generated" / f"{name}.json", list[Completion], make)
        stored = {
            prompt: replace(one, text=cite_by_words(one.text, list_references(prompt), least))
            for prompt, one in zip(
                (prompts[each.question.id] for each in episodes), completions, strict=True
            )
        }
        writer = StoredPolicy(stored)
        return [policy.answer(each.question, writer, settings.webglm) for each in episodes]

    bootstrapped = write("bootstrapped", start, taught, settings.temperature)
    filtered = [filter_bootstrapped_episode(each, settings.filters) for each in bootstrapped]
    place = out / "generated" / "taught.jsonl"
    place.write_text("".join(each.to_json() + "\n" for each in filtered), "utf-8")
    whole = replace(
        settings.imitate,
        trained=replace(settings.imitate.trained, model=str(start)),
        episodes=(str(place),),
        chat=False,
        seed=seed,
    )
    learnt = load_or_make(
        out / "generator.json",
        ImitationResult,
        lambda: train_by_imitation(whole, out / "generator"),
    )
    print_progress(f"generator: learnt from {learnt.rows} answers, best after {learnt.best_step}")
    models = {START: start, GENERATOR: Path(learnt.model)}
    answered = {
        name: write(name.replace(" ", "-"), model, test_questions, 0.0)
        for name, model in models.items()
    }
    references = [list_references(prompts[each.question.id]) for each in test_questions]
    return GeneratedAnswers(filtered, answered, references, learnt)


def find_prompt(policy: Bootstrapper, question: Question, settings: WebglmSettings) -> str:
    """Return the prompt that a model is shown for a question."""
    queries: list[str] = []

    class Listener:
        name = "listener"

        def complete(
            self, prompt: str, n: int = 1, allow: AllowedTokens = None
        ) -> list[Completion]:
            queries.append(prompt)
            return [Completion("")] * n

    policy.answer(question, Listener(), settings)
    [prompt] = queries
    return prompt


def list_references(prompt: str) -> list[str]:
    """Return the references of a WebGLM prompt."""
    return parse_webglm_prompt(prompt)[1]


def cite_by_words(text: str, references: Sequence[str], least: float) -> str:
    """Give each sentence without a citation number that of the reference that holds most of its
    words, if that is the share `least` or more of them."""
    cited_text = ""
    for start, end in find_sentences(Page("", "", text), 0, len(text)):
        sentence = text[start:end].strip()
        shares = [measure_shared_words(sentence, each) for each in references]
        if not re.search(r"\[[0-9]+\]", sentence) and shares and max(shares) >= least:
            words, stop = sentence.rstrip("."), "." * sentence.endswith(".")
            sentence = f"{words} [{shares.index(max(shares)) + 1}]{stop}"
        cited_text += f" {sentence}"
    return cited_text.strip()


def _sample_episodes(episodes: Sequence[Episode], most: int, split: int) -> list[Episode]:
    some = [each for each in episodes if each.steps]
    return Random(f"{split} generator").sample(some, min(most, len(some)))


def make_generator_tables(
    generated: GeneratedAnswers, judge: EvidenceJudge
) -> Iterator[ScoreTable]:
    """Yield the share of right answers, and of right ones that what they cite supports.

    A reference that stands as the answer is right where it holds an accepted answer, and supports
    itself.
    """
    questions = [each.question for each in generated.asked[START]]
    floors = _score_references(questions, generated.shown, judge)
    right = {
        system: tuple(float(is_correct_answer(each.question, each.answer)) for each in episodes)
        for system, episodes in generated.asked.items()
    }
    ids = tuple(each.id for each in questions)
    says = "share of questions whose answer, and a quote of it, hold an accepted answer"
    yield ScoreTable("generated", says, ids, right | floors)
    entails = make_support_entailment(judge)

    def is_upheld(answer: Answer | None) -> bool:
        scores = answer and score_answer_citations(answer, entails)
        return bool(scores and scores.recall == 1)

    upheld = {
        system: tuple(
            score * is_upheld(each.answer)
            for score, each in zip(right[system], episodes, strict=True)
        )
        for system, episodes in generated.asked.items()
    }
    says = "the same, and each of its sentences is supported by what it cites (evidence model)"
    yield ScoreTable("generated and upheld", says, ids, upheld | floors)


def _score_references(
    questions: Sequence[Question],
    references_by_question: Sequence[Sequence[str]],
    judge: EvidenceJudge,
) -> dict[str, tuple[float, ...]]:
    among = count_corpus_terms(
        [text for references in references_by_question for text in references]
    )
    score_lists: dict[str, list[float]] = {}
    for question, references in zip(questions, references_by_question, strict=True):
        hits = [float(contains_any_answer(text, question.gold)) for text in references]
        judged = judge(question.text, [EvidencePassage(text, "") for text in references])
        ranked = {
            TF_IDF_REFERENCE: score_tf_idf(question.text, references, among),
            JUDGED_REFERENCE: [each.answers for each in judged],
            TOLD_REFERENCE: hits,
        }
        scores = {RANDOM_REFERENCE: fmean(hits), FIRST_REFERENCE: hits[0]}
        scores |= {name: hits[row.index(max(row))] for name, row in ranked.items()}
        for name, score in scores.items():
            score_lists.setdefault(name, []).append(score)
    return {name: tuple(row) for name, row in score_lists.items()}


def list_generator_effects() -> Iterator[Effect]:
    """Yield what the paper claims of a generator that learns from its own filtered answers."""
    for effect, table in (
        ("trained on its own answers, corrected and filtered, the model is right more often",
         "generated"),
        ("and right with each sentence supported by what it cites", "generated and upheld"),
    ):  # fmt: skip
        yield Effect(
            effect=effect,
            paper="not compared with the model that bootstraps; people find WebGLM-10B nearly as "
            "correct as WebGPT-175B (2.81 of 3, section 5.1)",
            table=table,
            learnt=GENERATOR,
            reference=START,
            floors=(RANDOM_REFERENCE,),
            facts=(FIRST_REFERENCE, TF_IDF_REFERENCE, JUDGED_REFERENCE, TOLD_REFERENCE),
            chosen="nothing on these questions",
        )


def make_generator_figure(generated: GeneratedAnswers, judge: EvidenceJudge) -> Figure:
    """Make the figure of citation recall and precision, by the evidence model."""
    entails = make_support_entailment(judge)
    answers = {
        system: [each.answer for each in episodes if each.answer and list_statements(each.answer)]
        for system, episodes in generated.asked.items()
    }
    return make_citations_figure(
        {system: score_system_citations(some, entails) for system, some in answers.items() if some},
        "Citations of the answers that cite anything, judged by the evidence model, which has "
        "not chosen what was learnt from.",
        "generator-citations",
        "Citation recall and precision of the generator",
    )


def list_generator_notes(generated: GeneratedAnswers) -> Iterator[str]:
    """Yield what became of the bootstrapped answers, and of those that were measured."""
    stops = Counter(each.stop for each in generated.taught)
    ended = stops.pop("end", 0)
    rest = [f"{stop.replace('_', ' ')} {n}" for stop, n in stops.most_common()]
    yield (
        f"Of {len(generated.taught)} answers that the generator's start wrote without knowing the "
        f"accepted ones, {', '.join([f'{ended} survive the filters', *rest])}."
    )
    none = {
        system: sum(each.answer is None for each in episodes)
        for system, episodes in generated.asked.items()
    }
    yield "Answers without a citation that fits, which count as wrong: " + ", ".join(
        f"{system} {n} of {len(generated.shown)}" for system, n in none.items()
    )
