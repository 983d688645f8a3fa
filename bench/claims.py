"""The distilled retriever on material that MiniLM has not learnt from: claims about the climate.

Reads ../shared/data/climate_fever; needs the `learn` extra and the weights of all-MiniLM-L6-v2.
Prints tables and writes bench/results/claims.json. Each claim has up to five sentences that a
search found in Wikipedia, of which people said whether they support it, refute it, or do neither.
MiniLM learns from the claims of one half, once as one encoder of claims and sentences and once as
two (WebGLM, section 3.1.2), and is asked about the other half: does the sentence that it ranks
first bear on the claim? Claims whose sentences are all of one kind are left out. Settings were
chosen on validation claims of the half that is learnt from.

    python -m bench.claims
"""

import json
import lzma
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
import torch

from bench import report
from bench.report import choose_size, print_table, require_data, skip_bench, write_results
from recipes.findings import Effect, Finding, ScoreTable, make_finding
from rookery.errors import Failed
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidencePassage,
    load_dense_ranker,
    load_evidence_model,
)
from rookery.evidence.ranking_metrics import compute_expected_hit
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.retrieval_data import (
    ReferenceSamplingSettings,
    RetrievalSources,
    RetrievalTriple,
)
from rookery.learn.retrieval_training import (
    MINILM_MODEL,
    RetrievalTrainingResult,
    RetrievalTrainingSettings,
    export_sentence_encoder,
    load_sentence_encoder,
    train_retriever,
)
from rookery.measure.ranking import count_corpus_terms, score_bm25, score_tf_idf

DATA = report.DATA / "climate_fever" / "climate-fever.jsonl.xz"
SEEDS = choose_size((0, 1, 2), (0,))
EPOCHS = choose_size(6, 1)
ENCODERS: Mapping[str, Literal["one", "two"]] = {"one encoder": "one", "two encoders": "two"}
START, LOT, TOLD = "MiniLM", "order by lot", "order told"
EVIDENCE = "evidence model"
SCRIPTS = ("BM25", "TF-IDF")
MOST_CLAIMS = choose_size(10_000, 24)
REFERENCES = 5
"""most sentences of a claim"""

Score = Callable[[str, Sequence[str]], Sequence[float]]
"""Function from a claim and sentences to a number for each, higher where it bears on the claim."""


def read_claims() -> list[RetrievalTriple]:
    """Read the claims of which some sentences bear on them, and others do not."""
    found = []
    for line in lzma.decompress(DATA.read_bytes()).splitlines():
        row = json.loads(line)
        shown = {
            f"{each['article']}: {each['evidence'].strip(chr(34))}": each["evidence_label"]
            for each in row["evidences"][:REFERENCES]
        }
        cited = [n for n, label in enumerate(shown.values()) if label != "NOT_ENOUGH_INFO"]
        if 0 < len(cited) < len(shown):
            found.append(RetrievalTriple(row["claim"], (*shown,), row["claim"], tuple(cited)))
    return found


def split_claims(claims: Sequence[RetrievalTriple]) -> tuple[list[RetrievalTriple], ...]:
    """Return the claims to learn from and those to measure on."""
    mixed = Random("claims").sample(claims, min(len(claims), MOST_CLAIMS))
    return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]


def make_settings(
    place: Path, encoders: Literal["one", "two"], seed: int
) -> RetrievalTrainingSettings:
    """Return the settings of a training on the claims in a file."""
    return RetrievalTrainingSettings(
        RetrievalSources(triples=(str(place),), worth="cited"),
        encoders=encoders,
        frozen=0.5,
        optimising=OptimizerSettings(rate=2e-4, warmup=0.1),
        drawing=ReferenceSamplingSettings(questions=choose_size(16, 2), references=REFERENCES),
        epochs=EPOCHS,
        seed=seed,
        validation=0.2,
        best="accuracy",
    )


def train_encoders(
    taught: Sequence[RetrievalTriple], folder: Path
) -> dict[tuple[str, int], RetrievalTrainingResult]:
    """Train each form with each seed."""
    place = folder / "taught.jsonl"
    place.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in taught))
    found = {}
    for name, encoders in ENCODERS.items():
        for seed in SEEDS:
            settings = make_settings(place, encoders, seed)
            found[name, seed] = train_retriever(settings, folder / f"{encoders}-{seed}")
            print(f"{name}, seed {seed}: learnt", file=sys.stderr, flush=True)
    return found


def make_evidence_scorer() -> Score:
    """Return the evidence model's probability that a sentence supports or refutes a claim."""
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages

    def score_by_evidence(claim: str, sentences: Sequence[str]) -> list[float]:
        titled = (each.partition(": ") for each in sentences)
        passages = [EvidencePassage(sentence, title) for title, _, sentence in titled]
        return [found.supports + found.refutes for found in judge(claim, passages)]

    return score_by_evidence


def measure_top_hits(asked: Sequence[RetrievalTriple], score: Score) -> tuple[float, ...]:
    """Return for each claim how often what is ranked first bears on it: 1 or 0, or the share of
    those that tie."""
    hits = []
    for each in asked:
        worths = [float(number in (each.cited or ())) for number in range(len(each.references))]
        hits.append(compute_expected_hit(worths, score(each.question, each.references), 1) or 0.0)
    return tuple(hits)


def measure_systems(
    asked: Sequence[RetrievalTriple],
    start: Path,
    trained: Mapping[tuple[str, int], RetrievalTrainingResult],
) -> list[ScoreTable]:
    """Return the hits of every system, a table for each seed."""
    every = dict.fromkeys(text for each in asked for text in each.references)
    terms = count_corpus_terms([*every])
    cited = {each.question: each.cited or () for each in asked}
    systems: dict[str, Score] = {
        LOT: lambda claim, sentences: [0.0] * len(sentences),
        "BM25": partial(score_bm25, among=terms),
        "TF-IDF": partial(score_tf_idf, among=terms),
        START: load_dense_ranker(start).compute_similarities,
        EVIDENCE: make_evidence_scorer(),
        TOLD: lambda claim, texts: [float(n in cited[claim]) for n in range(len(texts))],
    }
    fixed = {name: measure_top_hits(asked, score) for name, score in systems.items()}
    tables = []
    for seed in SEEDS:
        learnt = {}
        for name in ENCODERS:
            ranker = load_dense_ranker(Path(trained[name, seed].model))
            learnt[name] = measure_top_hits(asked, ranker.compute_similarities)
        says = "share of claims of which the sentence ranked first bears on them"
        questions = tuple(each.question for each in asked)
        tables.append(ScoreTable("claims", says, questions, fixed | learnt))
    return tables


def list_findings(tables: Sequence[ScoreTable]) -> list[Finding]:
    """Judge each form against its start, chance and the scripts."""
    return [
        make_finding(
            Effect(
                effect=f"{name}: distilled, it ranks evidence first more often than its start",
                paper="accuracy 69.36 against 18.54 before (table 7; from Contriever)",
                table="claims",
                learnt=name,
                reference=START,
                floors=(LOT, *SCRIPTS),
                facts=(*SCRIPTS, EVIDENCE, TOLD),
                chosen="settings on validation claims of the half that is learnt from",
            ),
            tables,
        )
        for name in ENCODERS
    ]


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    try:
        encoder = load_sentence_encoder(MINILM_MODEL)
    except Failed as failed:
        skip_bench(str(failed))
    torch.set_num_threads(1)
    taught, asked = split_claims(read_claims())
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "start"
        encoder.write_folder(start)
        export_sentence_encoder(start)
        trained = train_encoders(taught, Path(folder))
        findings = list_findings(measure_systems(asked, start, trained))
    for finding in findings:
        print(finding.effect, finding.verdict, finding.ours, sep=" | ")
    shown = {
        each.system: each.score
        for finding in findings
        for each in (finding.reference, finding.learnt, *finding.facts)
    }
    rows = {name: msgspec.to_builtins(score) for name, score in shown.items()}
    print_table(["value", "low", "high"], rows)
    more = {
        finding.learnt.system: {**msgspec.to_builtins(finding.more), "verdict": finding.verdict}
        for finding in findings
    }
    counts = {"taught": len(taught), "asked": len(asked), "seeds": len(SEEDS)}
    write_results("claims", {**counts, "systems": rows, "more": more})


if __name__ == "__main__":
    main()
