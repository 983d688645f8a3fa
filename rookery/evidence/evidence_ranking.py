"""Ranking of passages by the evidence model: WebGLM's fine-grained ranking (section 3.1).

The passages that a search found are judged as they stand, each with its title and headings. Of
questions whose answer is among the three best it finds as many as with whole sections, for half the
time: a prompt shows several passages anyway.
"""

from collections.abc import Sequence
from heapq import nlargest

from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage, convert_to_probability
from rookery.evidence.passage_ranking import RankedPassage, drop_repeated_passages
from rookery.pages.passages import get_headings_above
from rookery.records import Hit, Page

MAX_JUDGED_PASSAGES = 20
"""maximum number of passages that are judged, the best of the search; deeper pools find no more"""
LONG_QUERY_WORDS = 25
"""words beyond which a query is no question as the model has learnt them but a search query or a
post, for which the judge's order alone is worse than the search's"""
FUSION_OFFSET = 60
"""what is added to a rank before its reciprocal is taken (Cormack and others 2009)"""


def rank_by_evidence(
    question: str, found: Sequence[tuple[Page, Hit]], judge: EvidenceJudge
) -> list[RankedPassage]:
    """Rank the passages found, best first, by how well the judge says that they answer.

    The MAX_JUDGED_PASSAGES best of the search are judged; the others are dropped, and so are
    passages that repeat a better one. For a query of more than LONG_QUERY_WORDS words the ranks of
    the search and of the judge are fused (reciprocal rank fusion). A passage's score is the
    probability that it answers. Sentences are not scored.
    """
    pool = nlargest(MAX_JUDGED_PASSAGES, found, key=lambda each: each[1].score)
    judged = judge(question, [_make_evidence_passage(page, hit) for page, hit in pool])
    by_judge = sorted(range(len(pool)), key=lambda number: -judged[number].answers)
    order = by_judge
    if len(question.split()) > LONG_QUERY_WORDS:
        # The pool is in the order of the search, so that a number is a rank.
        fused = {
            number: 1 / (FUSION_OFFSET + 1 + number) + 1 / (FUSION_OFFSET + rank)
            for rank, number in enumerate(by_judge, 1)
        }
        order = sorted(by_judge, key=lambda number: -fused[number])
    return drop_repeated_passages(
        [
            RankedPassage(*pool[number], convert_to_probability(judged[number].answers), ())
            for number in order
        ]
    )


def _make_evidence_passage(page: Page, hit: Hit) -> EvidencePassage:
    heading = f"{page.title} {get_headings_above(page, hit.start)}".strip()
    return EvidencePassage(page.text[hit.start : hit.end], heading)
