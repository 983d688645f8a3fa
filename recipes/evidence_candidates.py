"""Passages that the evidence model judged for the questions about sites for building, to be judged
again by somebody who reads them, and the files that the model is trained on made of what they say.

    python -m recipes.evidence_candidates CANDIDATES
    python -m recipes.evidence_candidates CANDIDATES --labels LABELS

The first line draws passages and writes them for reading; the second reads the labels and writes
recipes/questions/judged (recipes/questions/README.md has the formats and the guideline).
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from bench.documentation import BUILD_SITES, UNANSWERABLE
from recipes.evidence_calibration import open_sites
from recipes.evidence_questions import WRITTEN, WrittenQuestion
from recipes.page_spans import find_spans, name_span
from recipes.stages import print_progress
from rookery.answers.evidence_answers import PageSection, judge_sections, list_sections
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Failed
from rookery.evidence.evidence_model import BUNDLED_MODEL, EvidenceModel, load_evidence_model
from rookery.pages.page_reader import read_page
from rookery.records import Failure
from rookery.typed_files import read_json_lines

STRATA = {"best": 450, "matching": 200, "lower": 150, "near miss": 170, "foreign": 30}
"""number of candidates: the best of a question; others that match the pattern of the fact; others
of its first eight; the best of a question that nothing answers, those that the model likes most"""
_LOWEST = 8
_FEWEST_WORDS = 14
"""words that name a passage which does not answer"""


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a page that was judged for a question."""

    id: str
    site: str
    question: str
    kind: str
    page: str
    heading: str
    text: str


class CandidateLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody who read a candidate says of it."""

    id: str
    label: Literal["answers", "partly", "no"]
    quote: str = ""
    """words of the candidate's text that answer"""


class JudgedCandidate(NamedTuple):
    """A candidate, with its stratum among STRATA ("" for none) and log-odds by the model."""

    stratum: str
    log_odds: float
    candidate: Candidate


def judge_candidates(
    model: EvidenceModel, names: Sequence[str], scratch: Path
) -> Iterator[JudgedCandidate]:
    """Yield the sections that are found for the questions about these sites, judged by a model.

    `scratch` holds indexes. Raises Failed (no_data) if a site is not installed.
    """
    for folder, library, questions in open_sites(names, scratch):
        base = folder.resolve().as_uri() + "/"
        for each in questions:
            gathered = gather_passages(each.text, library, RetrievalLimits(passages=24))
            sections = judge_sections(each.text, gathered, model.judge_passages)
            for rank, section in enumerate(sections):
                text = section.page.text[section.start : section.end]
                plain = " ".join(text.split())
                matches = any(re.search(fact, plain, re.IGNORECASE) for fact in each.facts)
                stratum = "matching" if matches else "lower" if rank < _LOWEST else ""
                if rank == 0 or each.kind in UNANSWERABLE:
                    stratum = "" if rank else each.kind if each.kind in UNANSWERABLE else "best"
                page = unquote(section.page.url.removeprefix(base))
                about = (f"{each.id}.{rank}", each.site or "", each.text, each.kind, page)
                candidate = Candidate(*about, section.heading, text)
                if page.endswith(("htm", "html")):  # and no source of a page
                    yield JudgedCandidate(stratum, section.log_odds, candidate)
        print_progress(f"{len(questions)} questions about {folder} judged")


def draw_candidates(judged: Sequence[JudgedCandidate], seed: int) -> list[Candidate]:
    """Draw as many as STRATA says by lot, or all of a stratum that has fewer, in a mixed order."""
    random = Random(f"{seed} candidates")
    mixed = random.sample(judged, len(judged))
    mixed.sort(key=lambda each: -each.log_odds if each.stratum in UNANSWERABLE else 0)
    candidates = list[Candidate]()
    for stratum, count in STRATA.items():
        candidates += [each.candidate for each in mixed if each.stratum == stratum][:count]
    return random.sample(candidates, len(candidates))


def write_judged_files(
    candidates: Iterable[Candidate], labels: Iterable[CandidateLabel], folder: Path
) -> None:
    """Write the file of each site.

    Raises Failed (bad_line), which names every label that cannot be used; then nothing is written.
    """
    by_id = {each.id: each for each in candidates}
    lines, wrong = dict[Path, dict[bytes, None]](), []
    for label in labels:
        try:
            line = msgspec.json.encode(_convert_label(by_id[label.id], label)) + b"\n"
            lines.setdefault(folder / f"{by_id[label.id].site}.jsonl", {})[line] = None
        except (KeyError, OSError, ValueError) as error:
            wrong.append(f"{label.id}: {error}")
    if wrong:
        raise Failed(Failure("labels", "bad_line", "; ".join(wrong)))
    folder.mkdir(exist_ok=True)
    for place, of_site in lines.items():
        place.write_bytes(b"".join(of_site))


def _convert_label(candidate: Candidate, label: CandidateLabel) -> WrittenQuestion:
    """Return the line of a label. Raises OSError or ValueError, which say what is wrong."""
    words = candidate.text.split()
    sections = _read_sections(BUILD_SITES[candidate.site][0] / candidate.page)
    section = next((each for each in sections if each.text.split() == words), None)
    if section is None:
        raise ValueError("its text is not on the installed page: draw candidates again")
    kind, first, stop = "rejected", 0, _FEWEST_WORDS
    if label.label != "no":
        [place] = find_spans(section.text, [name_span(label.quote)])
        if place is None:
            raise ValueError(f"{label.quote!r} is not in its text: copy words from there")
        first, stop = (len(section.text[:end].split()) for end in place)
        is_other = candidate.kind in (*UNANSWERABLE, "several pages")
        kind = "partly" if label.label == "partly" else "fact" if is_other else candidate.kind
    while True:
        name = name_span(" ".join(words[first:stop]))
        [place] = find_spans(section.page.text, [name])
        is_inside = place is not None and section.start < place[1] and place[0] < section.end
        if is_inside or (first == 0 and stop >= len(words)):
            about = {"kind": kind, "text": candidate.question, "page": candidate.page}
            return msgspec.convert(about | name._asdict(), WrittenQuestion)
        first, stop = max(0, first - 1), stop + 1  # the same words stand further up the page


@cache
def _read_sections(file: Path) -> list[PageSection]:
    return list_sections(read_page(file.read_bytes(), file.resolve().as_uri(), "text/html"))


def main() -> None:
    """Draw candidates, or convert the labels of those that were drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("candidates", type=Path, help="file of the candidates, JSON lines")
    parser.add_argument("--labels", type=Path, help="file of what was said of them, JSON lines")
    options = parser.parse_args()
    try:
        if options.labels:
            candidates = read_json_lines(options.candidates, Candidate)
            labels = read_json_lines(options.labels, CandidateLabel)
            write_judged_files(candidates, labels, WRITTEN / "judged")
            return
        model, scratch = load_evidence_model(BUNDLED_MODEL), Path("runs/evidence-candidates")
        selected = draw_candidates([*judge_candidates(model, [*BUILD_SITES], scratch)], 0)
    except Failed as failed:
        sys.exit(f"{failed.failure.what}: {failed.failure.detail}")
    options.candidates.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in selected))


if __name__ == "__main__":
    main()
