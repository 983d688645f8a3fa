"""Passages of one page that most likely answer a question, by the evidence model.

They help a person who demonstrates to find the place to read; the person decides what to quote.
"""

from collections.abc import Sequence
from heapq import nlargest

import msgspec

from rookery.answers.evidence_answers import (
    EvidenceSettings,
    PageSection,
    choose_quote,
    estimate_probabilities,
    judge_listed_sections,
    list_sections,
    narrow_section,
)
from rookery.evidence.calibration import MIDDLE_SCORE
from rookery.evidence.evidence_model import EvidenceJudge
from rookery.pages.search_terms import ENGLISH, find_language, get_question_terms, split_terms
from rookery.records import Block, Page, Quote

MAX_SUGGESTIONS = 3
"""maximum number of passages that are suggested"""
MAX_JUDGED_SECTIONS = 24
"""maximum number of sections of a page that the model judges: about two seconds on two cores"""
MAX_READ_CHARACTERS = 500_000
"""characters of a page from which sections are taken; a book goes on behind them"""


def suggest_passages(question: str, page: Page, judge: EvidenceJudge) -> list[tuple[Quote, float]]:
    """Return the passages of a page that most likely answer, best first, at most MAX_SUGGESTIONS.

    Each comes with the probability that its section answers, beside the others. Only the
    MAX_JUDGED_SECTIONS sections that hold the most of the question's words are judged.
    """
    longest = EvidenceSettings().longest
    sections = _choose_sections(question, list_sections(_shorten_page(page)))
    judged = [each._replace(page=page) for each in judge_listed_sections(question, sections, judge)]
    suggestions: list[tuple[Quote, float]] = []
    for section, probability in zip(judged, estimate_probabilities(judged), strict=True):
        if probability >= MIDDLE_SCORE:
            section = narrow_section(question, section, judge, longest)
        quote = choose_quote(section, longest)
        # A long block is cut into sections, and may be chosen for each of them.
        if quote and not any(quote.start < x.end and x.start < quote.end for x, _ in suggestions):
            suggestions.append((quote, probability))
        if len(suggestions) == MAX_SUGGESTIONS:
            break
    return suggestions


def _choose_sections(question: str, sections: Sequence[PageSection]) -> list[PageSection]:
    """Return the sections that hold the most of the question's words."""
    language = find_language(sections[0].page.text) if sections else ENGLISH
    wanted = set(get_question_terms(question, language))
    return nlargest(
        MAX_JUDGED_SECTIONS,
        sections,
        key=lambda each: len(wanted & set(split_terms(each.text, language))),
    )


def _shorten_page(page: Page) -> Page:
    """Return the page with the blocks of its first MAX_READ_CHARACTERS characters alone."""
    if page.blocks:
        blocks = tuple(block for block in page.blocks if block.start < MAX_READ_CHARACTERS)
    else:
        blocks = (Block(0, min(len(page.text), MAX_READ_CHARACTERS), "paragraph"),)
    return msgspec.structs.replace(page, blocks=blocks)
