"""Sentences for and against a claim, by words and by the evidence model: precision and recall.

Reads ../shared/data/boolq (yes-or-no questions about a passage: for a passage whose answer is yes,
a sentence for the claim is right) and ../shared/data/climate_fever (claims, each with five
sentences that people called supporting, refuting or neither). Prints tables and writes
bench/results/sides.json. Recall is that of sentences for climate_fever; for boolq, the share of
passages of which some sentence is on the right side. "denies" is the rule that any sentence with
all but one of the claim's words takes a side, and that a negation anywhere in it turns it. The
evidence model judges the sentences of climate_fever alone, since it learnt from BoolQ; a side is
taken from a probability of .5 on.

    python -m bench sides
"""

import json
import lzma
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.report import DATA, print_table, require_data, write_results
from rookery.browse.passages import find_sentences
from rookery.browse.search_terms import get_question_terms, split_terms
from rookery.cite.answer_types import contains_negation
from rookery.cite.claim_support import SUPPORT_THRESHOLD
from rookery.cite.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.draft.stance import SentenceContext, Stance, detect_stance, extract_claim
from rookery.records import Failed, Page

BOOLQ = DATA / "boolq" / "boolq.jsonl.xz"
CLIMATE = DATA / "climate_fever" / "climate-fever.jsonl.xz"
LABELS: dict[str, Stance] = {"SUPPORTS": "for", "REFUTES": "against", "NOT_ENOUGH_INFO": "neither"}
Judge = Callable[[str, SentenceContext], Stance]


class Case(NamedTuple):
    """A claim, sentences that a judge may put on a side, and the right side."""

    claim: str
    readings: list[SentenceContext]
    right: Stance


def read_boolq() -> tuple[list[Case], int]:
    """Read one case per passage, and count the questions without a claim."""
    cases, unclaimed = [], 0
    for line in lzma.decompress(BOOLQ.read_bytes()).splitlines():
        each = json.loads(line)
        passage, _, question = each["query"].removeprefix("Passage: ").rpartition("\nQuestion: ")
        try:
            claim = extract_claim(question)
        except Failed:
            unclaimed += 1
            continue
        right: Stance = "for" if each["choices"][each["gold"]] == "yes" else "against"
        cases.append(Case(claim, list(_list_readings(passage)), right))
    return cases, unclaimed


def _list_readings(passage: str) -> Iterator[SentenceContext]:
    said = [passage[a:b] for a, b in find_sentences(Page("", "", passage), 0, len(passage))]
    padded = ["", *said, ""]
    for at, sentence in enumerate(said):
        yield SentenceContext(sentence, padded[at], padded[at + 2])


def read_climate() -> list[Case]:
    """Read one case per claim and sentence."""
    cases = []
    for line in lzma.decompress(CLIMATE.read_bytes()).splitlines():
        each = json.loads(line)
        claim = each["claim"].rstrip(" .")
        for shown in each["evidences"]:
            reading = SentenceContext(shown["evidence"].strip('"'), above=shown["article"])
            cases.append(Case(claim, [reading], LABELS[shown["evidence_label"]]))
    return cases


def judge_by_negation(claim: str, reading: SentenceContext) -> Stance:
    """Judge by shared words, and by a negation anywhere in the sentence."""
    wanted = set(get_question_terms(claim))
    if len(wanted - set(split_terms(reading.sentence))) > 1:
        return "neither"
    return "against" if contains_negation(reading.sentence) != contains_negation(claim) else "for"


def make_evidence_judge(judge: EvidenceJudge) -> Judge:
    """Make the judge that takes the side which the evidence model gives one half or more."""

    def judge_sentence(claim: str, reading: SentenceContext) -> Stance:
        [found] = judge(claim, [EvidencePassage(reading.sentence, reading.above)])
        if found.supports >= SUPPORT_THRESHOLD:
            return "for"
        return "against" if found.refutes >= SUPPORT_THRESHOLD else "neither"

    return judge_sentence


def measure_judge(cases: list[Case], judge: Judge) -> dict[str, float]:
    """Compute precision and recall of each side."""
    said: dict[Stance, int] = {"for": 0, "against": 0}
    right, reached, wanted = dict(said), dict(said), dict(said)
    for case in cases:
        found = [judge(case.claim, reading) for reading in case.readings]
        for side in said:
            said[side] += found.count(side)
            right[side] += found.count(side) * (side == case.right)
            wanted[side] += side == case.right
            reached[side] += side == case.right and side in found
    return {
        **{f"{side} said": said[side] for side in said},
        **{f"{side} precision": right[side] / max(1, said[side]) for side in said},
        **{f"{side} recall": reached[side] / max(1, wanted[side]) for side in said},
    }


def main() -> None:
    """Run the benchmark."""
    require_data(BOOLQ)
    require_data(CLIMATE)
    asked, unclaimed = read_boolq()
    judges: dict[str, Judge] = {"words": detect_stance, "denies": judge_by_negation}
    sets = {"boolq": asked, "climate_fever": read_climate()}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, cases in sets.items():
        print(f"\n{name}: {len(cases)} cases")
        if name == "climate_fever" and is_evidence_model(BUNDLED_MODEL):
            model = load_evidence_model(BUNDLED_MODEL)
            judges["evidence model"] = make_evidence_judge(model.judge_passages)
        found[name] = {judge: measure_judge(cases, judges[judge]) for judge in judges}
        for side in ("for", "against"):
            rows = {
                judge: {
                    figure.removeprefix(f"{side} "): value
                    for figure, value in row.items()
                    if figure.startswith(side)
                }
                for judge, row in found[name].items()
            }
            print(side)
            print_table(["said", "precision", "recall"], rows)
    print(f"\nboolq: {unclaimed} questions assume no claim, or more than one")
    yes = sum(case.right == "for" for case in asked) / len(asked)
    write_results("sides", {"sets": found, "boolq_without_claim": unclaimed, "boolq_yes": yes})


if __name__ == "__main__":
    main()
