"""Questions without their final question mark, and keywords: how the evidence model had best read
them.

Asks the questions that bench/questions keeps for choices about the pages about crows that come with
Rookery and about three folders of documents: as they are, without their mark, and as keywords (what
a search engine would be sent). The evidence model reads what it is given with a mark at its end, or
as it was typed. Prints a table: right first, wrong of certain answers, certain answers to what
nothing answers, words of the first quote in the median, and how often that is the same quote as
for the question with its mark.

    python -m bench.unmarked [--questions 40]
"""

import argparse
from collections.abc import Callable, Sequence
from statistics import fmean, median

from bench.documentation import (
    BUILD_FOLDERS,
    BUILD_SITES,
    UNANSWERABLE,
    AskedQuestion,
    SiteQuestion,
    ask_sites,
    read_folder_questions,
    read_site_questions,
)
from bench.report import print_table
from rookery.answers.evidence_answers import answer_by_evidence
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    load_evidence_model,
)
from rookery.pages.search_terms import get_keywords
from rookery.records import Episode, Library, Question

MARKED = "with its mark"
FOLDERS = ("family", "hosting", "museum")
COLUMNS = ("right first", "wrong of certain", "certain, unanswerable", "words", "same quote")
Method = Callable[[Question, Library], Episode]


def make_method(judge: EvidenceJudge, write: Callable[[str], str], as_typed: bool) -> Method:
    """Return the method that is asked what `write` makes of a question; with `as_typed` its judge
    reads no mark."""

    def judge_as_typed(
        question: str, passages: Sequence[EvidencePassage]
    ) -> Sequence[EvidenceJudgement]:
        return judge(question.removesuffix("?"), passages)

    def answer(question: Question, library: Library) -> Episode:
        written = Question(question.id, write(question.text))
        return answer_by_evidence(written, library, judge_as_typed if as_typed else judge)

    return answer


def _drop_mark(question: str) -> str:
    return question.rstrip("?")


def _join_keywords(question: str) -> str:
    return " ".join(get_keywords(question))


def list_ways(judge: EvidenceJudge) -> dict[str, Method]:
    """Return the ways of asking and reading a question, by name."""
    return {
        MARKED: make_method(judge, str, as_typed=False),
        "no mark, read as typed": make_method(judge, _drop_mark, as_typed=True),
        "no mark": make_method(judge, _drop_mark, as_typed=False),
        "keywords, read as typed": make_method(judge, _join_keywords, as_typed=True),
        "keywords": make_method(judge, _join_keywords, as_typed=False),
    }


def summarize(
    asked: Sequence[AskedQuestion], as_asked: Sequence[AskedQuestion]
) -> dict[str, float]:
    """Return the figures of one way."""
    own = [each for each in asked if each.kind not in UNANSWERABLE]
    others = [each for each in asked if each.kind in UNANSWERABLE]
    same = [a.quotes[:1] == b.quotes[:1] for a, b in zip(asked, as_asked, strict=True)]
    return {
        "right first": fmean(each.first for each in own),
        "wrong of certain": fmean(not each.first for each in own if each.answered),
        "certain, unanswerable": fmean(each.answered for each in others),
        "words": median(len(each.quotes[0][1].split()) for each in asked if each.quotes),
        "same quote": fmean(same),
    }


def main() -> None:
    """Ask every question in each way, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=40, help="of each site, at most")
    most = parser.parse_args().questions
    sites = {"corvids": BUILD_SITES["corvids"], **{name: BUILD_FOLDERS[name] for name in FOLDERS}}
    questions = [
        *read_site_questions("build", ["corvids"]),
        *read_folder_questions({name: sites[name] for name in FOLDERS}),
    ]
    chosen = list[SiteQuestion]()
    for site in sites:
        marked = [
            q for q in questions if q.site == site and q.text.endswith("?") and q.kind != "foreign"
        ]
        chosen += marked[:: max(1, -(-len(marked) // most))]
    asked = ask_sites(chosen, sites, list_ways(load_evidence_model(BUNDLED_MODEL).judge_passages))
    unanswerable = sum(each.kind in UNANSWERABLE for each in chosen)
    print(f"{len(chosen)} questions, of which nothing answers {unanswerable}")
    print_table(COLUMNS, {name: summarize(each, asked[MARKED]) for name, each in asked.items()})


if __name__ == "__main__":
    main()
