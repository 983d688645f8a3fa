"""Support of claims by evidence: how well the evidence model tells evidence that supports a claim
from recipes.measures import estimate_auroc
from evidence that refutes it, and from any that does not support it.

Reads ../shared/data/support, those collections that the model was not trained on. Partial support
is left out. Prints a table and writes bench/results/support.json. Beside the model stand the share
of the claim's words that the evidence holds, and the judgement by 57 % of them that `measure
citations --ranker words` uses; chance is .5. Without a model these alone are measured. --pairs
takes some pairs of each collection, and writes nothing.

    python -m bench support [--ranker DIR] [--pairs N]
"""

import argparse
import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.report import DATA, print_table, require_data, write_results
from recipes.measures import estimate_auroc
from rookery.evidence.claim_support import judge_claim_support
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.measure.citations import compute_word_share, entails_by_words

SUPPORT = DATA / "support"
COLLECTIONS = {
    "fever_symmetric_dev": ("supports", "refutes"),
    "scifact_pairs": ("supports", "refutes"),
    "covidfact": ("supports", "refutes"),
    "rte": ("supports", "not_supports"),
    "wice_dev": ("supported", "not_supported"),
}
"""labels of each collection that are told apart"""


class LabelledPair(NamedTuple):
    """A claim with evidence; `good` if it supports the claim."""

    claim: str
    evidence: EvidencePassage
    good: bool


ScoringFunction = Callable[[LabelledPair], float]


def read_pairs(path: Path, labels: Sequence[str], most: int | None) -> list[LabelledPair]:
    """Read the pairs of a collection with these labels; `most` of them at random, None: all."""
    rows = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    found = [
        LabelledPair(
            each["claim"], EvidencePassage(" ".join(each["evidence"])), each["label"] == labels[0]
        )
        for each in rows
        if each["label"] in labels
    ]
    return found if most is None else Random(0).sample(found, min(most, len(found)))


def make_judges(judge: EvidenceJudge | None, refuting: bool) -> dict[str, ScoringFunction]:
    """Make the functions that score a pair: by words and, if there is one, by the model.

    The model's score is support less refutation where the two are told apart, else support.
    """

    def score_by_model(pair: LabelledPair) -> float:
        assert judge is not None
        found = judge_claim_support(pair.claim, [pair.evidence], judge)
        return found.supports - refuting * found.refutes

    judges: dict[str, ScoringFunction] = {
        "share of words": lambda pair: compute_word_share([pair.evidence], pair.claim),
        "judge by words": lambda pair: entails_by_words([pair.evidence], pair.claim),
    }
    return {**judges, "evidence model": score_by_model} if judge else judges


def measure_collection(
    pairs: Sequence[LabelledPair], judges: Mapping[str, ScoringFunction]
) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield each judge's AUROC with its 95 % interval, and the numbers of pairs."""
    for name, score in judges.items():
        by_label: dict[bool, list[float]] = {True: [], False: []}
        for pair in pairs:
            by_label[pair.good].append(score(pair))
        found = estimate_auroc(by_label[True], by_label[False])
        counts = {"supports": len(by_label[True]), "others": len(by_label[False])}
        yield name, {"AUROC": found.value, "low": found.low, "high": found.high, **counts}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ranker", type=Path, default=BUNDLED_MODEL, help="folder of an evidence model"
    )
    parser.add_argument("--pairs", type=int, help="pairs of each collection; writes nothing")
    options = parser.parse_args()
    paths = {name: SUPPORT / f"{name}.jsonl.xz" for name in COLLECTIONS}
    for path in paths.values():
        require_data(path)
    judge = None
    if is_evidence_model(options.ranker):
        judge = load_evidence_model(options.ranker).judge_passages
    else:
        print(f"{options.ranker} holds no evidence model: the floors alone are measured")
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for name, labels in COLLECTIONS.items():
        pairs = read_pairs(paths[name], labels, options.pairs)
        judges = make_judges(judge, "refutes" in labels)
        found[name] = dict(measure_collection(pairs, judges))
        print(f"\n{name}: {labels[0]} against {labels[1]}")
        print_table(["AUROC", "low", "high", "supports", "others"], found[name])
    if options.pairs is None:
        write_results("support", {"labels": COLLECTIONS, "collections": found})


if __name__ == "__main__":
    main()
