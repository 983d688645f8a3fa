"""Extractive answers by the evidence model: sections are judged, and their answering blocks quoted.

A search finds passages. Each is judged within its section (GopherCite conditions on passages with
their context; WebGLM, section 3.1.2, ranks what a coarse search found), and the answer is
declined where no section reaches a probability (GopherCite, section 2.9).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import exp, fsum, log
from typing import NamedTuple

import msgspec

from rookery.answers.extract import render_quotes
from rookery.answers.retrieval import RetrievalLimits, RetrievedPassages, gather_passages
from rookery.errors import Outcome
from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.evidence.passage_ranking import RankedPassage, RankingObserver
from rookery.pages.passages import PassageSizes, cut_passages, find_sentences
from rookery.quotes.verification import is_quote_too_short
from rookery.records import Answer, Block, Episode, Hit, Library, Page, Question, Quote

SECTION_SIZES = PassageSizes(short=700, long=1000)
"""sizes of a section: as much as the model reads at once"""
MOST_BLOCKS = 6
"""maximum number of neighbouring blocks in a quote"""
_SHORT_RUNS, _LONG_RUNS, _SINGLE_BLOCKS = 6, 4, 5
"""runs of blocks that are judged in a section: around its span, and its longest blocks"""
RANK_PRIOR = 0.3
"""weight of the logarithm of a section's rank in the search, which is taken off its log-odds: what
the words of a question find first answers more often than the model's judgement alone says"""
_CLOSE = 0.1
"""probability below which only the best section is shown as close to an answer that is declined"""
_NEARLY_BEST = 0.25
"""log-odds below the best run at which a shorter one is preferred"""
_NEVER_QUOTED = re.compile(
    r"(?:notes and )?references|bibliography|further reading|external links|see also|footnotes"
    r"|(?:table of )?contents|(?:general |subject )?index|list of (?:figures|tables|examples)",
    re.IGNORECASE,
)
"""headings of what lists other texts and answers nothing itself"""
_ANNOUNCED = ("code", "item", "cell", "quotation")
"""kinds of blocks that the block before them may announce"""


class EvidenceSettings(msgspec.Struct, frozen=True):
    """Settings of answers by the evidence model."""

    quotes: int = 3
    """maximum number of quotes in an answer"""
    decline: float = 0.5
    """probability that a section answers, below which an answer is declined"""
    second: float = 0.3
    """the same for each quote after the first; from here on three of ten and more are right"""
    longest: int = 900
    """maximum characters of a quote"""
    calibrate: Callable[[float], float] = float
    """from a probability to the one that is shown, in the same order; limits are of the former"""
    calibrated: bool = False
    """`calibrate` was fitted on the documents that are asked, and answers say so"""
    limits: RetrievalLimits = RetrievalLimits(passages=12)
    """limits of retrieval"""


class JudgedSection(NamedTuple):
    """A section of a page, where the search found something, with its judgement."""

    page: Page
    start: int
    end: int
    judgement: EvidenceJudgement
    score: float
    """score of the search"""
    heading: str = ""
    """title of the page and headings above the section"""
    rank: int = 0
    """rank of its passage in the search, from 0 on"""

    @property
    def log_odds(self) -> float:
        """Log-odds of the model that the section answers, less RANK_PRIOR × ln(rank + 1)."""
        return self.judgement.answers - RANK_PRIOR * log(self.rank + 1)


def estimate_probabilities(judged: Sequence[JudgedSection]) -> list[float]:
    """Return for each of a question's sections the probability that it answers, beside the others.

    Its log-odds are the section's plus the logarithm of its share in a softmax over all of them:
    where others answer nearly as well, the best is less often right.
    """
    if not judged:
        return []
    log_odds = [section.log_odds for section in judged]
    best = max(log_odds)
    whole = best + log(fsum(exp(each - best) for each in log_odds))
    return [convert_to_probability(2 * each - whole) for each in log_odds]


def answer_by_evidence(
    question: Question,
    library: Library,
    judge: EvidenceJudge,
    settings: EvidenceSettings = EvidenceSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Episode:
    """Answer a question with blocks of a library's pages; `observe` gets the ranked sections.

    The episode's stop is "end", "declined" (the answer has the closest quotes) or "no_evidence"
    (no answer: searching or opening failed, and the failures give the reasons).
    """
    gathered = gather_passages(question.text, library, settings.limits)
    judged = judge_sections(question.text, gathered, judge)
    if not gathered.found and gathered.failures:
        return Episode(question, "extract", stop=Outcome.NO_EVIDENCE, failures=gathered.failures)
    probabilities = estimate_probabilities(judged)
    for number, section in enumerate(judged[: settings.quotes]):
        if probabilities[number] >= (settings.second if number else settings.decline):
            judged[number] = narrow_section(question.text, section, judge, settings.longest)
    calibrated = map(settings.calibrate, probabilities)
    observe([describe_section(*each) for each in zip(judged, calibrated, strict=True)])
    answer = compose_evidence_answer(judged, settings)
    if settings.calibrated and answer.score is not None:
        answer = msgspec.structs.replace(answer, calibrated=True)
    stop = "declined" if answer.declined else "end"
    return Episode(question, "extract", answer=answer, stop=stop, failures=gathered.failures)


def judge_sections(
    question: str, gathered: RetrievedPassages, judge: EvidenceJudge
) -> list[JudgedSection]:
    """Judge the sections that the found passages stand in, and return them, best first."""
    # A page is cut once and not for each passage: a huge one takes tens of milliseconds.
    pages = {page.digest: page for page, _ in gathered.found}
    by_digest = {digest: list_sections(page) for digest, page in pages.items()}
    section_hits: dict[tuple[str, int], tuple[PageSection, float, int]] = {}
    for rank, (page, hit) in enumerate(gathered.found):
        for section in by_digest[page.digest]:
            if section.start < hit.end and hit.start < section.end:
                section_hits.setdefault((page.digest, section.start), (section, hit.score, rank))
    passages = [EvidencePassage(each.text, each.heading) for each, *_ in section_hits.values()]
    judged_sections = [
        JudgedSection(each.page, each.start, each.end, judgement, score, each.heading, rank)
        for (each, score, rank), judgement in zip(
            section_hits.values(), judge(question, passages), strict=True
        )
    ]
    return sorted(judged_sections, key=lambda section: -section.log_odds)


class PageSection(NamedTuple):
    """A part of a page that may answer, below its headings."""

    page: Page
    start: int
    end: int
    heading: str
    """title of the page and headings above the section"""

    @property
    def text(self) -> str:
        """Text of the section, without its headings."""
        return self.page.text[self.start : self.end]


def list_sections(page: Page) -> list[PageSection]:
    """Return the sections of a page in order, without those that only list other texts."""
    return [
        PageSection(page, each.start, each.end, f"{page.title} {each.context} {each.label}".strip())
        for each in sorted(cut_passages(page, SECTION_SIZES), key=lambda each: each.start)
        if not _NEVER_QUOTED.fullmatch(each.context.rpartition(" > ")[2].strip("0123456789. "))
    ]


def narrow_section(
    question: str, section: JudgedSection, judge: EvidenceJudge, longest: int
) -> JudgedSection:
    """Judge runs of a section's blocks, and make the best run the span that answers.

    The span of the whole section misses the block that answers more often than a judgement of each
    run does. Among runs nearly as good as the best, the shortest is taken. Runs have at most
    `longest` characters; a section with fewer than two is returned as it is. The other parts of the
    judgement stay those of the whole section.
    """
    page = section.page
    first, last = (section.start + each for each in section.judgement.span)
    blocks = _list_quotable_blocks(section)
    runs = [
        (blocks[begin].start, blocks[end].end)
        for begin in range(len(blocks))
        for end in range(begin, min(begin + MOST_BLOCKS, len(blocks)))
        if blocks[end].end - blocks[begin].start <= longest
    ]
    if len(runs) < 2:
        return section
    around = sorted(
        (run for run in runs if run[0] < last and first < run[1]), key=lambda run: run[1] - run[0]
    )
    single = sorted((block.start - block.end, block.start, block.end) for block in blocks)
    singles = [(start, end) for _, start, end in single[:_SINGLE_BLOCKS] if (start, end) in runs]
    tested = [*dict.fromkeys((*around[:_SHORT_RUNS], *around[-_LONG_RUNS:], *singles))]
    passages = [EvidencePassage(page.text[slice(*run)], section.heading) for run in tested]
    judged = judge(question, passages)
    limit = max(each.answers for each in judged) - _NEARLY_BEST
    good = [run for run, each in zip(tested, judged, strict=True) if each.answers >= limit]
    start, end = min(good, key=lambda run: run[1] - run[0])
    span = max(0, start - section.start), end - section.start
    return section._replace(judgement=section.judgement._replace(span=span))


def describe_section(section: JudgedSection, probability: float) -> RankedPassage:
    """Return a section as a passage that was ranked by this probability."""
    page = section.page
    hit = Hit(page.url, page.title, "", page.digest, section.start, section.end, section.score)
    return RankedPassage(page, hit, probability, ())


def compose_evidence_answer(
    judged: Sequence[JudgedSection], settings: EvidenceSettings = EvidenceSettings()
) -> Answer:
    """Quote the blocks that answer best, and what another page adds; decline below the limit.

    `judged` are the sections of one question, best first. The answer's score is the calibrated
    probability of its first quote; without any quote it declines and has no score.
    """
    quotes: list[tuple[Quote, float]] = []
    probabilities = estimate_probabilities(judged)
    for section, probability in zip(judged, probabilities, strict=True):
        limit = settings.second if quotes else 0.0
        if len(quotes) == settings.quotes or probability < limit:
            break
        quote = choose_quote(section, settings.longest)
        if quote is None or any(_repeats_quote(quote, other) for other, _ in quotes):
            continue
        quotes.append((quote, probability))
        if quotes[0][1] < settings.decline:
            break
    if not quotes:
        return Answer("No passage was found.", declined=True)
    best = quotes[0][1]
    if best < settings.decline:
        close = [
            section
            for section, probability in zip(judged, probabilities, strict=True)
            if probability >= _CLOSE or section is judged[0]
        ]
        closest = [choose_quote(section, settings.longest) for section in close]
        closest_quotes = tuple(quote for quote in closest if quote is not None)[: settings.quotes]
        closest_quotes = closest_quotes or tuple(quote for quote, _ in quotes)
        limit = settings.calibrate(settings.decline)
        text = f"No passage reached {limit:.3g}; the closest are below."
        return Answer(text, closest_quotes, declined=True, score=settings.calibrate(best))
    return render_quotes([quote for quote, _ in quotes], settings.calibrate(best))


def _repeats_quote(quote: Quote, other: Quote) -> bool:
    """Return True if most of a quote's words stand in the other, or the two overlap."""
    if quote.digest == other.digest and quote.start < other.end and other.start < quote.end:
        return True
    ours, theirs = set(quote.text.lower().split()), set(other.text.lower().split())
    return len(ours & theirs) >= 0.6 * min(len(ours), len(theirs))


def choose_quote(section: JudgedSection, longest: int) -> Quote | None:
    """Quote the blocks of a section that hold the answer; None if they say too little.

    The block of the model's span is taken, with those that it announces or that are announced
    with it: code, steps and rows belong to the sentence before them. A block that is too long is
    cut to the sentences around the span.
    """
    page = section.page
    first, last = (section.start + each for each in section.judgement.span)
    blocks = _list_quotable_blocks(section)
    starts = [block.start for block in blocks]
    begin = max(0, bisect_right(starts, first) - 1)
    end = max(begin, bisect_left(starts, max(last, first + 1)) - 1)
    begin, end = _add_announced(page, blocks, begin, end, longest)
    start, stop = blocks[begin].start, blocks[end].end
    if stop - start > longest:
        start, stop = _cut_to_sentences(page, start, stop, (first, last), longest)
    if is_quote_too_short(page.text, start, stop):
        return None
    return page.quote_whole_words(start, stop)


def _list_quotable_blocks(section: JudgedSection) -> list[Block]:
    """Return the blocks of a section without headings and captions, each row of a table as one."""
    start, end, unquoted = section.start, section.end, ("heading", "caption")
    blocks = [
        block
        for block in section.page.iter_shown()
        if block.start < end and start < block.end and not block.furniture
        if block.kind not in unquoted
    ]
    rows = list[Block]()
    for block in blocks:
        before = rows[-1] if rows else block
        between = section.page.text[before.end : block.start]
        if before.kind == block.kind == "cell" and "\t" in between:
            rows[-1] = msgspec.structs.replace(before, end=block.end)
        else:
            rows.append(block)
    return rows or [Block(section.start, section.end, "paragraph")]


def _add_announced(
    page: Page, blocks: Sequence[Block], begin: int, end: int, longest: int
) -> tuple[int, int]:
    """Add the blocks that belong to blocks[begin : end + 1]."""

    def fits_quote(first: int, last: int) -> bool:
        size = blocks[last].end - blocks[first].start
        return last - first < MOST_BLOCKS and size <= longest

    def announces_next(number: int) -> bool:
        return page.text[blocks[number].start : blocks[number].end].rstrip().endswith(":")

    # Back to the sentence that announces a list, code or a row.
    first = begin
    while first > 0 and blocks[first].kind in _ANNOUNCED:
        first -= 1
    if first < begin and fits_quote(first, end):
        begin = first
    elif begin > 0 and blocks[begin].kind in _ANNOUNCED and fits_quote(begin - 1, end):
        begin -= 1
    # On to what the last block announces, and to the end of a list or of code.
    kind = blocks[end].kind
    while end + 1 < len(blocks) and fits_quote(begin, end + 1):
        following = blocks[end + 1].kind
        if not (announces_next(end) or (following == kind and kind in _ANNOUNCED)):
            break
        end, kind = end + 1, following
    return begin, end


def _cut_to_sentences(
    page: Page, start: int, end: int, span: tuple[int, int], longest: int
) -> tuple[int, int]:
    """Cut text[start:end] to whole sentences around a span, as many as fit."""
    sentences = find_sentences(page, start, end) or [(start, end)]
    inside = [n for n, (low, high) in enumerate(sentences) if low < span[1] and span[0] < high]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)
    while True:
        grown = False
        for low, high in ((first, last + 1), (first - 1, last)):
            exists = low >= 0 and high < len(sentences)
            if exists and sentences[high][1] - sentences[low][0] <= longest:
                first, last, grown = low, high, True
        if not grown:
            break
    low, high = sentences[first][0], sentences[last][1]
    return low, min(high, low + longest)
