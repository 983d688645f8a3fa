"""How often a sentence that is shown for a claim, or against it, is so, judged by words alone.

Reads ../shared/data/boolq (yes-or-no questions about a passage: a sentence of a passage whose
answer is yes, and that is for the claim, is right) and ../shared/data/climate_fever (claims, each
with five sentences that people called supporting, refuting or neither). Prints tables and writes
bench/results/sides.json. Recall is that of sentences for climate_fever; for boolq, the share of the
passages of which any sentence is on the right side. "denies" is the rule that any sentence with all
but one of the claim's words takes a side, and that a negation anywhere in it turns it.

    python -m bench sides
"""

import json
import lzma
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.report import DATA, require, show, write
from rookery.browse.passages import sentences
from rookery.browse.words import question_terms, terms
from rookery.cite.cues import denies
from rookery.draft.sides_claim import claim_of
from rookery.draft.stance import Reading, Stance, stance_by_words
from rookery.records import Failed, Page

BOOLQ = DATA / "boolq" / "boolq.jsonl.xz"
CLIMATE = DATA / "climate_fever" / "climate-fever.jsonl.xz"
LABELS: dict[str, Stance] = {"SUPPORTS": "for", "REFUTES": "against", "NOT_ENOUGH_INFO": "neither"}
Judge = Callable[[str, Reading], Stance]


class Case(NamedTuple):
    """A claim, sentences that a judge may put on a side, and the side that is right."""

    claim: str
    readings: list[Reading]
    right: Stance


def boolq() -> tuple[list[Case], int]:
    """One case a passage, and how many questions have no claim."""
    cases, unclaimed = [], 0
    for line in lzma.decompress(BOOLQ.read_bytes()).splitlines():
        each = json.loads(line)
        passage, _, question = each["query"].removeprefix("Passage: ").rpartition("\nQuestion: ")
        try:
            claim = claim_of(question)
        except Failed:
            unclaimed += 1
            continue
        right: Stance = "for" if each["choices"][each["gold"]] == "yes" else "against"
        cases.append(Case(claim, list(_readings(passage)), right))
    return cases, unclaimed


def _readings(passage: str) -> Iterator[Reading]:
    said = [passage[a:b] for a, b in sentences(Page("", "", passage), 0, len(passage))]
    padded = ["", *said, ""]
    for at, sentence in enumerate(said):
        yield Reading(sentence, padded[at], padded[at + 2])


def climate() -> list[Case]:
    """One case a claim and sentence."""
    cases = []
    for line in lzma.decompress(CLIMATE.read_bytes()).splitlines():
        each = json.loads(line)
        claim = each["claim"].rstrip(" .")
        for shown in each["evidences"]:
            reading = Reading(shown["evidence"].strip('"'), above=shown["article"])
            cases.append(Case(claim, [reading], LABELS[shown["evidence_label"]]))
    return cases


def by_a_negation_anywhere(claim: str, reading: Reading) -> Stance:
    wanted = set(question_terms(claim))
    if len(wanted - set(terms(reading.sentence))) > 1:
        return "neither"
    return "against" if denies(reading.sentence) != denies(claim) else "for"


def figures(cases: list[Case], judge: Judge) -> dict[str, float]:
    """Precision and recall of each side."""
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
    require(BOOLQ)
    require(CLIMATE)
    asked, unclaimed = boolq()
    judges: dict[str, Judge] = {"words": stance_by_words, "denies": by_a_negation_anywhere}
    sets = {"boolq": asked, "climate_fever": climate()}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, cases in sets.items():
        print(f"\n{name}: {len(cases)} cases")
        found[name] = {judge: figures(cases, judges[judge]) for judge in judges}
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
            show(["said", "precision", "recall"], rows)
    print(f"\nboolq: {unclaimed} questions assume no claim, or more than one")
    yes = sum(case.right == "for" for case in asked) / len(asked)
    write("sides", {"sets": found, "boolq_without_claim": unclaimed, "boolq_yes": yes})


if __name__ == "__main__":
    main()
