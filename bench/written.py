"""Answers in a small model's words on SQuAD: do they hold the accepted answer, are they supported.

Reads ../shared/data/squad and the language model that `rookery models add smollm2` added. All
articles stand in one library. The questions are of articles that the evidence model was not trained
on, and of that half of them that the prompt was not built on. What `extract` declines is not
written, so that all rows are of the questions that it answers. An answer holds the accepted one if
it contains it as whole words. "The sentence shown" is the simplest script: the sentences that the
prompt shows, as they stand. Support by the evidence model is a judgement by what chose the
sentences; shared words (at least .57 of the sentence's, as in WebGLM) are another. Seconds are of
one core. Prints tables and writes bench/results/written.json; the answers are in
bench/scratch/written.jsonl, to be read.

    python -m bench.written [--model NAME] [--questions N] [--processes N]
"""

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from bench.report import (
    SCRATCH,
    SMALL,
    choose_size,
    fresh_processes,
    print_table,
    require_data,
    require_peers,
    skip_bench,
    write_results,
)
from bench.squad import ARCHIVE, CACHE, DATA, Squad, SquadQuestion
from recipes.evidence_data import EvidenceDataSettings, split_articles
from rookery.answers.evidence_answers import EvidenceSettings, answer_by_evidence
from rookery.answers.webglm import WEBGLM_METHOD, put_into_words
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import judge_claim_support, locate_answers
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidencePassage,
    load_evidence_model,
)
from rookery.library.question_files import contains_gold_answer, read_squad
from rookery.measure.intervals import Estimate, estimate_share
from rookery.models.installed_models import WRITING_MODEL, find_model_folder
from rookery.quotes.repair import CorrectionSettings, measure_shared_words
from rookery.records import Episode, Policy, Question
from rookery.settings import WRITING_SETTINGS, get_data_folder

SEED = 2
"""of the questions; answers to those of seeds 0 and 1 were read while the method was made"""
TRAINED = EvidenceDataSettings()
"""of which the share and the seed of the articles that the recipe trains on are taken"""


SETTINGS = EvidenceSettings(decline=choose_size(EvidenceSettings().decline, 0.0))


class WrittenOutcome(NamedTuple):
    """One question that `extract` answers, and the answer in a model's words."""

    found: Episode
    written: Episode
    shown: str
    """the sentences that the model was shown"""
    find_seconds: float
    write_seconds: float

    @property
    def is_written(self) -> bool:
        """True if the answer is in the model's words, and no fallback."""
        return self.written.by == WEBGLM_METHOD


def choose_questions(squad: Squad, count: int) -> list[SquadQuestion]:
    """Choose questions of articles on which neither the evidence model nor the prompt was built."""
    trained = split_articles(read_squad(DATA), TRAINED.articles, TRAINED.seed)
    unseen = sorted(each.name for each in squad.articles if each.name not in trained)
    kept = set(unseen[1::2])
    own = [each for each in squad.questions if squad.articles[each.article].name in kept]
    return Random(f"{SEED} written").sample(own, min(count, len(own)))


class _WorkerState:
    """Library and models that a worker process keeps open."""

    def __init__(self, model: str) -> None:
        self.library = Squad().open_library(ARCHIVE, CACHE)
        self.judge = load_evidence_model(BUNDLED_MODEL).judge_passages
        self.model = open_writer(model)


_load_worker_state = cache(_WorkerState)


def write_one(name: str, asked: SquadQuestion) -> WrittenOutcome | None:
    """Answer one question by `extract` and in words; None where `extract` is not certain."""
    state = _load_worker_state(name)
    library, judge, model = state.library, state.judge, state.model
    question = Question(asked.text, asked.text, gold=asked.answers)
    begun = time.process_time()
    found = answer_by_evidence(question, library, judge, SETTINGS)
    between = time.process_time()
    if found.answer is None or found.answer.declined or found.answer.stored_certain is False:
        return None
    written = put_into_words(found, model, judge)
    ended = time.process_time()
    shown = locate_answers(asked.text, found.answer.quotes[:1], judge)[0].text
    return WrittenOutcome(found, written, shown, between - begun, ended - between)


def holds_answer(text: str, question: Question) -> bool:
    """Return True if a text contains an accepted answer as whole words."""
    return any(contains_gold_answer(text, gold) for gold in question.gold)


def describe_texts(texts: Sequence[tuple[str, Question]]) -> dict[str, float | None]:
    """Return how many texts hold the accepted answer, with the interval, and their length."""
    held = [holds_answer(*each) for each in texts]
    return {
        "questions": len(texts),
        **_to_columns("holds the answer", estimate_share(sum(held), len(held))),
        "words": fmean(len(text.split()) for text, _ in texts),
    }


def _to_columns(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, "low": estimate.low, "high": estimate.high}


def list_rows(outcomes: Sequence[WrittenOutcome]) -> dict[str, dict[str, float | None]]:
    """Return the table of answers: all that were answered, and those in the model's words."""
    rows: dict[str, dict[str, float | None]] = {}
    for part, some in (
        ("all", outcomes),
        ("in words", [each for each in outcomes if each.is_written]),
    ):
        answers = [(each, each.found.answer, each.written.answer) for each in some]
        texts: dict[str, list[tuple[str, Question]]] = {
            "written": [],
            "extract, first quote": [],
            "extract, all quotes": [],
            "the sentence shown": [],
        }
        for each, found, written in answers:
            assert found is not None
            assert written is not None
            asked = each.found.question
            texts["written"].append((written.text, asked))
            texts["extract, first quote"].append((found.quotes[0].text, asked))
            texts["extract, all quotes"].append((found.text, asked))
            texts["the sentence shown"].append((each.shown, asked))
        rows |= {f"{part}: {name}": describe_texts(those) for name, those in texts.items() if those}
    return rows


def count_sentences(
    outcomes: Sequence[WrittenOutcome], judge: EvidenceJudge
) -> dict[str, dict[str, float | None]]:
    """Return the shares of sentences that are supported, and of those that were taken out."""
    by_model, by_words, verbatim = list[bool](), list[bool](), list[bool]()
    for each in outcomes:
        if not each.is_written or each.written.answer is None:
            continue
        answer = each.written.answer
        for claim in answer.claims:
            said = answer.text[claim.start : claim.end]
            quotes = [answer.quotes[number] for number in claim.quotes]
            passages = [EvidencePassage(quote.text, quote.title) for quote in quotes]
            by_model.append(judge_claim_support(said, passages, judge).outcome == "supports")
            shared = max(measure_shared_words(said, quote.text) for quote in quotes)
            by_words.append(shared >= CorrectionSettings().threshold)
            verbatim.append(any(said.rstrip(".") in quote.text for quote in quotes))
    removed = sum(each.written.count_failures().get(Outcome.UNSUPPORTED, 0) for each in outcomes)
    kept = len(by_model)
    fallbacks = sum(not each.is_written for each in outcomes)
    shares = {
        "kept: supported by the evidence model, which chose them": (sum(by_model), kept),
        "kept: .57 of the words in a quote": (sum(by_words), kept),
        "kept: word for word in a quote": (sum(verbatim), kept),
        "written: taken out as unsupported": (removed, kept + removed),
        "answers: quoted, since nothing was left": (fallbacks, len(outcomes)),
    }
    return {
        name: {"of": of, **_to_columns("share", estimate_share(some, of))}
        for name, (some, of) in shares.items()
        if of
    }


def open_writer(name: str) -> Policy:
    """Return the model that writes, on one thread; in a small round a random one."""
    from rookery.learn.local_model import LocalModel

    if SMALL:
        from rookery.learn.random_models import write_tiny_model

        folder = SCRATCH / "writer"
        write_tiny_model(folder, [DATA.name], 300)
    else:
        try:
            folder = find_model_folder(name, get_data_folder())
        except Failed:
            skip_bench(f"there is no model {name}: rookery models add {name}")
    settings = msgspec.structs.replace(WRITING_SETTINGS, threads=1, dtype="float32")
    return LocalModel(folder, settings)


def save_answers(outcomes: Sequence[WrittenOutcome], place: Path) -> None:
    """Write what was asked, shown, said and answered, a JSON line each."""
    lines = []
    for each in outcomes:
        answer = each.written.answer
        row: dict[str, Any] = {
            "question": each.found.question.text,
            "accepted": each.found.question.gold,
            "shown": each.shown,
            "said": each.written.steps[-1].said.text,
            "by": each.written.by,
            "answer": answer.text if answer else "",
            "failures": [f"{one.outcome}: {one.detail}" for one in each.written.failures],
        }
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    place.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    require_peers("torch", "transformers")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=WRITING_MODEL, help="of rookery models list")
    parser.add_argument("--questions", type=int, default=choose_size(40, 4))
    parser.add_argument("--processes", type=int, default=choose_size(2, 1))
    options = parser.parse_args()
    state = _load_worker_state(options.model)  # which makes model and index, or skips
    questions = choose_questions(Squad(), options.questions)
    outcomes: list[WrittenOutcome] = []
    with ProcessPoolExecutor(options.processes, fresh_processes("torch")) as pool:
        for number, outcome in enumerate(pool.map(partial(write_one, options.model), questions), 1):
            if outcome is not None:
                outcomes.append(outcome)
                save_answers(outcomes, SCRATCH / "written.jsonl")
            print(f"{number} of {len(questions)}, {len(outcomes)} answered", flush=True)
    state.library.close()
    judge = state.judge
    if not outcomes:
        skip_bench("extract answers none of these questions")
    rows, sentences = list_rows(outcomes), count_sentences(outcomes, judge)
    print_table(list(next(iter(rows.values()))), rows)
    print_table(list(next(iter(sentences.values()))), sentences)
    seconds = {
        "finding": fmean(each.find_seconds for each in outcomes),
        "writing and checking": fmean(each.write_seconds for each in outcomes),
    }
    print(", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()))
    write_results(
        "written",
        {
            "model": options.model,
            "asked": len(questions),
            "rows": rows,
            "sentences": sentences,
            "seconds": seconds,
        },
    )


if __name__ == "__main__":
    main()
