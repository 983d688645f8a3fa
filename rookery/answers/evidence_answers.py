"""Extractive answers by the evidence model: sections are judged, and their answering blocks quoted.

A search finds passages. Each is judged within its section (GopherCite conditions on passages with
their context; WebGLM, section 3.1.2, ranks what a coarse search found), and the answer is
declined where no section reaches a probability (GopherCite, section 2.9).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import exp, fsum, log
from pathlib import Path
from typing import NamedTuple

import msgspec

from rookery.answers.extract import NOTHING_ANSWERS, NOTHING_FOUND, render_quotes
from rookery.answers.retrieval import (
    RetrievalLimits,
    RetrievedPassages,
    find_newer,
    gather_passages,
)
from rookery.errors import Outcome
from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.evidence.passage_ranking import RankedPassage, RankingObserver
from rookery.pages.passages import (
    PassageSizes,
    cut_passages,
    find_sentences,
    get_headings_above,
    list_table_rows,
)
from rookery.pages.search_terms import ENGLISH, find_language, reads_as_english, split_terms
from rookery.quotes.answer_types import mark_question
from rookery.quotes.differing_answers import differ_in_answer, tells_change
from rookery.quotes.verification import is_quote_too_short
from rookery.records import Answer, Block, Episode, Failure, Hit, Library, Page, Question, Quote
from rookery.written_values import find_written_values, use_forms_of

SECTION_SIZES = PassageSizes(short=700, long=1000)
"""sizes of a section: as much as the model reads at once"""
MOST_UNITS = 6
"""maximum number of neighbouring sentences, rows and the like that are judged together"""
_SHORT_BLOCK, _LONGEST_WIDENED = 60, 80
"""words of a block that is quoted whole, and of a quote with what it leans on or announces"""
RANK_PRIOR = 0.3
"""weight of the logarithm of a section's rank in the search, which is taken off its log-odds: what
the words of a question find first answers more often than the model's judgement alone says"""
NEWER_FIRST = "the first two quotes answer differently; the newer one comes first"
SOURCES_DIFFER = "the first two quotes answer differently"
READ_BY_WORDS = "chosen by its words and numbers: the evidence model reads English only"
CHANGED_SINCE = "the first quote is newer than the second and speaks of a change"
_RIVAL_MARGIN = 2.0
"""log-odds that a newer section which speaks of a change may lack to the best"""
_AROUND = 60
"""characters on both sides of a span where that is looked for"""
_CLOSE = 0.1
"""probability below which only the best section is shown as close to an answer that is declined"""
_NUMBER = re.compile(r"\W*\w{1,3}[.)]")
"""of a list, which belongs to the sentence behind it"""
_NEVER_QUOTED = re.compile(
    r"(?:notes and )?references|bibliography|further reading|external links|see also|footnotes"
    r"|(?:table of )?contents|(?:general |subject )?index|list of (?:figures|tables|examples)",
    re.IGNORECASE,
)
"""headings of what lists other texts and answers nothing itself"""
_VERSION = re.compile(
    r"(?:^|(?<= > ))\[?v?\d+(?:\.\d+){1,3}[\w.+~-]*\]?"
    r"(?=\W{1,3}(?:\d{4}|\w+ \d)|(?<=\d\.\d\.\d)(?: > |$))"
)
"""heading of a changelog: the model does not know that it is a version"""
_DAY = re.compile(r"(?:\d{4}-)?\d\d-\d\d$")
_LATEST, _FARTHEST = 20, 600
"""offset in a heading up to which its day begins, and distance up to which one is looked for"""
_SUM_ASKED = re.compile(
    r"\b(?:how much|total|altogether|in all|all told|in the end|sum|c[ao]me to|amount|cost|bill"
    r"|invoice|pay|paid|owed?|due|transfer|price)\b",
    re.IGNORECASE,
)
_SUM_ROW = re.compile(
    r"\W*(?:(?:grand |invoice )?total|sum|amount (?:due|payable)|balance due|(?:due|left) to pay"
    r"|gesamt|summe|rechnungsbetrag|insgesamt|somme|montant total)\b",
    re.IGNORECASE,
)
"""of a table: what it says has no word of the question about the whole"""
_MOST_SUMS = 4
"""last rows of sums of a page that are judged: each takes as long as a passage"""
_LEANS = re.compile(
    r"(?:it|its|this|these|they|that|those|such|he|she|his|her|their|then|there|however|but|also|"
    r"otherwise|instead|in (?:this|that|these|such) cases?)\b",
    re.IGNORECASE,
)
"""beginning of a sentence that is not understood without the one before it"""
_EXCEPTS = re.compile(
    r"(?:however|but|except|unless|otherwise|only|exceptions?|this (?:does|is) (?:not|only))\b",
    re.IGNORECASE,
)
"""beginning of a sentence that takes something back of the one before it"""


_ASKING = frozenset(Path(__file__).with_name("asking_words.txt").read_text("utf-8").split())
"""words by which other languages ask, or that are in most of their texts"""
_LEAST_SIMILARITY, _LARGEST_MARGIN = 0.35, 0.5
"""cosine of a further quote to the question, and log-odds that it may lack to the best: of what is
likely beside a certain answer, .79 of these hold a fact of the question, and .53 of all"""
_LEAST_SHARED, _POSSIBLE = 0.3, 0.2
"""share of the words of a question in another language that make a section a possible answer, and
the probability that it then has, which the model does not tell"""


class EvidenceSettings(msgspec.Struct, frozen=True):
    """Settings of answers by the evidence model."""

    quotes: int = 3
    """maximum number of quotes in an answer"""
    certain: float = 0.75
    """probability that a section answers, below which an answer is a possible one"""
    decline: float = 0.1
    """the same, below which nothing was found"""
    second: float = 0.45
    """the same for each further quote of an answer that is certain"""
    second_possible: float = 0.2
    """the same for each further quote of a possible answer"""
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
    similarity: float | None = None
    """cosine of the vectors of its passage and the question; None without vectors"""

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
    narrow: Callable[[JudgedSection], JudgedSection]
    narrow = partial(narrow_section, question.text, judge=judge, longest=settings.longest)
    if is_foreign := bool(judged) and not _reads_question(question.text, gathered.found[0][0]):
        judged = judge_by_words(question.text, judged, settings)
        narrow = partial(_narrow_by_words, question.text)
    probabilities = estimate_probabilities(judged)
    calibrated = map(settings.calibrate, probabilities)
    observe([describe_section(*each) for each in zip(judged, calibrated, strict=True)])
    leading, remarks = find_rival(question.text, judged, settings)
    answer = compose_evidence_answer(judged, settings, leading, narrow)
    if is_foreign and not answer.declined and settings.decline < settings.certain:
        answer = msgspec.structs.replace(answer, stored_certain=False)
        remarks.append(READ_BY_WORDS)
    if settings.calibrated and answer.score is not None:
        answer = msgspec.structs.replace(answer, calibrated=True)
    stop = "declined" if answer.declined else "end"
    noted = (Failure("extract", Outcome.CITATION_NOTED, each) for each in remarks)
    failures = (*gathered.failures, *noted)
    return Episode(question, "extract", answer=answer, stop=stop, failures=failures)


def find_rival(
    question: str, judged: Sequence[JudgedSection], settings: EvidenceSettings
) -> tuple[tuple[int, ...], list[str]]:
    """Find a document that answers in another way than the best section does, and is likely to.

    A newer one that is nearly as likely and speaks of a change takes its place, whatever it
    answers. Returns the numbers of the sections that are to be quoted first, the newer one before
    the other where their dates are known, and what is to be said of them.
    """
    probabilities = estimate_probabilities(judged)
    first = choose_quote(judged[0], settings.longest) if judged else None
    if first is None or settings.quotes < 2 or probabilities[0] < settings.decline:
        return (0,), []
    for number, section in list(enumerate(judged))[1:]:
        is_near = section.log_odds >= judged[0].log_odds - _RIVAL_MARGIN
        is_likely = number < settings.quotes and probabilities[number] >= settings.decline
        if not (is_near or is_likely):
            continue
        newer = find_newer((judged[0].page, judged[0].start), (section.page, section.start))
        if newer and is_near and tells_change(_read_around(section), _read_around(judged[0])):
            return (number, 0), [CHANGED_SINCE]
        quote = choose_quote(section, settings.longest) if is_likely else None
        if quote is None or (quote.url == first.url and newer is None):
            continue  # else two messages of a mailbox
        if differ_in_answer(
            question, (first.text, judged[0].heading), (quote.text, section.heading)
        ):
            if newer is None:
                return (0, number), [SOURCES_DIFFER]
            return ((number, 0) if newer else (0, number)), [NEWER_FIRST]
    return (0,), []


def _read_around(section: JudgedSection) -> str:
    """Return the span of a section that answers, with a little on both sides."""
    low, high = section.judgement.span
    return section.page.text[section.start : section.end][max(0, low - _AROUND) : high + _AROUND]


def judge_sections(
    question: str, gathered: RetrievedPassages, judge: EvidenceJudge
) -> list[JudgedSection]:
    """Judge the sections that the found passages stand in, and return them, best first."""
    sections = find_sections(question, gathered)
    passages = [EvidencePassage(each.words or each.text, each.heading) for each, *_ in sections]
    judged_sections = [
        JudgedSection(*each[:3], judgement, hit.score, each.heading, rank, hit.similarity)
        for (each, hit, rank), judgement in zip(
            sections, _judge_passages(question, passages, judge), strict=True
        )
    ]
    pairs = zip((part for part, *_ in sections), judged_sections, strict=True)
    best = dict[tuple[str, int], JudgedSection]()
    for part, judged in sorted(pairs, key=lambda pair: -pair[1].log_odds):
        best.setdefault((part.page.digest, part.parent), judged)
    return [*best.values()]


def find_sections(
    question: str, gathered: RetrievedPassages
) -> list[tuple["PageSection", Hit, int]]:
    """Return the sections that the found passages stand in, with the first of these and its rank.

    They come in the order of the search; ranks begin with 0. Of a question about an amount the sums
    of the pages' tables follow, the last few of a page, with the first passage of the page.
    """
    # A page is cut once and not for each passage: a huge one takes tens of milliseconds.
    pages = {page.digest: page for page, _ in gathered.found}
    by_digest = {digest: list_sections(page) for digest, page in pages.items()}
    section_hits: dict[tuple[str, int], tuple[PageSection, Hit, int]] = {}
    first_hits: dict[str, tuple[Hit, int]] = {}
    for rank, (page, hit) in enumerate(gathered.found):
        first_hits.setdefault(page.digest, (hit, rank))
        for section in by_digest[page.digest]:
            if section.start < hit.end and hit.start < section.end:
                section_hits.setdefault((page.digest, section.start), (section, hit, rank))
    for digest, first in first_hits.items() if _SUM_ASKED.search(question) else ():
        rows = [each for each in by_digest[digest] if each.words and _SUM_ROW.match(each.text)]
        for section in rows[-_MOST_SUMS:]:
            section_hits.setdefault((digest, section.start), (section, *first))
    return [*section_hits.values()]


def _judge_passages(
    question: str, passages: Sequence[EvidencePassage], judge: EvidenceJudge
) -> list[EvidenceJudgement]:
    """Judge each passage for the question with its dates and numbers as the passage writes them.

    The model does not know that 27 February 2026 is 2026-02-27.
    """
    marked = mark_question(question)
    questions = [use_forms_of(marked, f"{each.text} {each.heading}") for each in passages]
    judgements = dict[int, EvidenceJudgement]()
    for form in dict.fromkeys(questions):
        alike = [number for number, each in enumerate(questions) if each == form]
        judgements.update(zip(alike, judge(form, [passages[n] for n in alike]), strict=True))
    return [judgements[number] for number in range(len(passages))]


class PageSection(NamedTuple):
    """A part of a page that may answer, below its headings."""

    page: Page
    start: int
    end: int
    heading: str
    """title of the page and headings above the section"""
    parent: int
    """start of the rows of a table, or of a mail with what it quotes, of which the best answers for
    all; else its own start"""
    words: str = ""
    """a row of a table as the judge reads it"""

    @property
    def text(self) -> str:
        """Text of the section, without its headings."""
        return self.page.text[self.start : self.end]


def list_sections(page: Page) -> list[PageSection]:
    """Return the sections of a page in order, without those that only list other texts.

    A row of a table is one by itself, and so is a line of a log.
    """
    rows, sections, parent, last = list_table_rows(page), list[PageSection](), 0, ("", "")
    for each in sorted(cut_passages(page, SECTION_SIZES), key=lambda each: each.start):
        # Where the writers of a mail change, a question that is quoted is no rival of its answer.
        is_quoting = any(label.startswith("quoted") for label in (each.label, last[1]))
        is_reply = is_quoting and each.context == last[0]
        last = each.context, each.label
        if not (is_reply and each.end - parent <= SECTION_SIZES.long):
            parent = each.start
        if _NEVER_QUOTED.fullmatch(each.context.rpartition(" > ")[2].strip("0123456789. ")):
            continue
        start, context = each.start, _VERSION.sub(r"Version \g<0>", each.context)
        above = f"{page.title} {context}"
        inside = [row for row in rows if each.start <= row.start < each.end]
        for low, high, words, group in (*inside, (each.end, each.end, "", "")):
            if page.text[start:low].strip():
                heading = f"{above} {each.label}".strip()
                whole = parent if start == each.start else start
                sections.append(PageSection(page, start, low, heading, whole))
            if words:
                place = low, high, f"{above} {group}".strip(), inside[0].start
                sections.append(PageSection(page, *place, words))
            start = high
    return sections


def narrow_section(
    question: str, section: JudgedSection, judge: EvidenceJudge, longest: int
) -> JudgedSection:
    """Judge runs of a section's sentences, and make the best run the span that answers.

    The span of the whole section misses the sentence that answers more often than a judgement of
    each run does; what reaches over both, unless it is long or a row of a table, misses it least.
    Runs of up to MOST_UNITS sentences, rows of a table or pieces of code are judged that hold a
    part of the span and at most one more on each side, and whole blocks. They have at most
    `longest` characters, and go on in another block only from item to item, behind a colon, and
    where both are single sentences. A section with fewer than two is returned as it is. The other
    parts of the judgement stay those of the whole section.
    """
    first, last = (section.start + each for each in section.judgement.span)
    units = _list_units(section)
    spanned = [n for n, unit in enumerate(units) if unit.start < last and first < unit.end] or [0]
    low, high = spanned[0], spanned[-1]
    runs = [
        (units[begin].start, units[end].end)
        for begin in range(len(units))
        for end in range(begin, min(begin + MOST_UNITS, len(units)))
        if units[end].end - units[begin].start <= longest
        and all(
            not _is_apart(section.page, *pair) or _are_lines(section.page, *pair)
            for pair in pairwise(units[begin : end + 1])
        )
        if _is_block(units, begin, end) or (low - 1 <= begin <= high and low <= end <= high + 1)
    ]
    if len(runs) < 2:
        return section
    passages = [EvidencePassage(section.page.text[slice(*run)], section.heading) for run in runs]
    judged = _judge_passages(question, passages, judge)
    scored = [
        (each.answers, start - end, start) for each, (start, end) in zip(judged, runs, strict=True)
    ]
    _, length, start = max(scored)  # of equals the shortest
    span = max(0, start - section.start), start - length - section.start
    stop = section.judgement.span[1]
    whole = min(span[0], section.judgement.span[0]), max(span[1], stop)
    is_row = any(unit.block.kind == "cell" for unit in units if unit.start == start)
    words = section.page.text[section.start + whole[0] : section.start + whole[1]].split()
    if stop and not is_row and len(words) <= _LONGEST_WIDENED:
        span = whole  # the run leads to the answer more often than the span misses it
    return section._replace(judgement=section.judgement._replace(span=span))


def _reads_question(question: str, page: Page) -> bool:
    """Return False if the model, which knows English, does not read a question about this page."""
    letters = [letter for letter in question if letter.isalpha()]
    if 2 * sum(letter < "\u0250" for letter in letters) < len(letters):
        return False
    return find_language(page.text) == ENGLISH or reads_as_english(question)


def judge_by_words(
    question: str, judged: Sequence[JudgedSection], settings: EvidenceSettings
) -> list[JudgedSection]:
    """Have the words of a question decide whether a section is a possible answer or none.

    Where the model's best section has too few of them, the search's first takes its place.
    """
    best, first = judged[0], min(judged, key=lambda section: section.rank)
    chosen = [
        section
        for section in (best, first)
        if _share_words(question, section.page.text[section.start : section.end], section)
        >= _LEAST_SHARED
    ]
    if chosen and chosen[0] is best and estimate_probabilities(judged)[0] >= settings.decline:
        return list(judged)
    odds = log(_POSSIBLE / (1 - _POSSIBLE))
    others = [section for section in judged if section not in chosen[:1]]
    return [
        section._replace(judgement=section.judgement._replace(answers=answers), rank=0)
        for section, answers in (
            *((section, odds) for section in chosen[:1]),
            *((section, min(-9.0, section.judgement.answers)) for section in others),
        )
    ]


def _narrow_by_words(question: str, section: JudgedSection) -> JudgedSection:
    """Make the sentence with the most words of the question the span that answers."""
    units = _list_units(section)
    text = section.page.text
    unit = max(units, key=lambda unit: _share_words(question, text[unit.start : unit.end], section))
    span = max(0, unit.start - section.start), unit.end - section.start
    return section._replace(judgement=section.judgement._replace(span=span))


def _share_words(question: str, text: str, section: JudgedSection) -> float:
    """Return the share of a question's words, without those that only ask, that a text has."""
    language = find_language(section.page.text)
    words = re.findall(r"\w+", question.lower())
    long = [each for each in words if len(each) > 3 or each > "\u0250" or each.isdecimal()]
    terms = set(split_terms(" ".join(each for each in long if each not in _ASKING), language))
    return len(terms.intersection(split_terms(text, language))) / max(1, len(terms))


class _Unit(NamedTuple):
    """A sentence, a row of a table or a piece of code, with its block."""

    start: int
    end: int
    block: Block


def _is_apart(page: Page, unit: _Unit, after: _Unit) -> bool:
    """Return True if two neighbouring units are in blocks of prose that do not belong together."""
    same = unit.block.kind == after.block.kind != "paragraph"
    return unit.block != after.block and not same and page.text[unit.end - 1] != ":"


def _are_lines(page: Page, *units: _Unit) -> bool:
    """Return True if units are paragraphs of a single sentence each."""
    return all(
        (unit.start, unit.end, "paragraph") == (unit.block.start, unit.block.end, unit.block.kind)
        and page.text[unit.end - 1] in ".!?"
        for unit in units
    )


def _list_units(section: JudgedSection) -> list[_Unit]:
    """Return what the quotable blocks of a section consist of, in order."""
    page, units = section.page, list[_Unit]()
    for block in _list_quotable_blocks(section):
        spans = [(block.start, block.end)]
        if block.kind not in ("cell", "code"):
            start, end = max(block.start, section.start), min(block.end, section.end)
            spans = find_sentences(page, start, end) or [(start, end)]
        for start, end in spans:
            if units and units[-1].block == block and _NUMBER.fullmatch(page.text, *units[-1][:2]):
                start = units.pop().start
            units.append(_Unit(start, end, block))
    return units


def _is_block(units: Sequence[_Unit], begin: int, end: int) -> bool:
    """Return True if units[begin : end + 1] are one whole block."""
    before, after = units[max(0, begin - 1)], units[min(len(units) - 1, end + 1)]
    alone = (begin == 0 or before.block != units[begin].block) and (
        end == len(units) - 1 or after.block != units[end].block
    )
    return alone and units[begin].block == units[end].block


def describe_section(section: JudgedSection, probability: float) -> RankedPassage:
    """Return a section as a passage that was ranked by this probability."""
    page = section.page
    hit = Hit(page.url, page.title, "", page.digest, section.start, section.end, section.score)
    return RankedPassage(page, hit, probability, ())


def compose_evidence_answer(
    judged: Sequence[JudgedSection],
    settings: EvidenceSettings = EvidenceSettings(),
    leading: Sequence[int] = (0,),
    narrow: Callable[[JudgedSection], JudgedSection] = lambda section: section,
) -> Answer:
    """Quote the blocks that answer best, and what another page adds; decline below the limit.

    `judged` are the sections of one question, best first; those with the numbers `leading` are
    quoted first, in this order, all as `narrow` returns them. The answer's score, and whether it is
    certain, are by the section that is quoted first, which the best may stand behind as the older;
    without any quote it declines and has no score.
    """
    quotes: list[tuple[Quote, float]] = []
    probabilities = estimate_probabilities(judged)
    is_certain = bool(judged) and probabilities[leading[0]] >= settings.certain
    limit = settings.second if is_certain else max(settings.second_possible, settings.decline)
    order = list(dict.fromkeys([*leading, *range(len(judged))]))[: len(judged)]
    for number in order:
        is_further = bool(quotes) and number not in leading
        if len(quotes) == settings.quotes or (is_further and probabilities[number] < limit):
            break
        if is_further and is_certain and not _answers_as_well(judged[number], judged[0]):
            continue
        section = judged[number]
        if is_further or probabilities[0] >= settings.decline:
            section = narrow(section)
        quote = choose_quote(section, settings.longest)
        if quote is None or (is_further and any(_repeats_quote(quote, each) for each, _ in quotes)):
            continue
        quotes.append((quote, probabilities[number]))
        if probabilities[0] < settings.decline:
            break
    if not quotes:
        return Answer(NOTHING_FOUND, declined=True)
    first, best = quotes[0][1], max(probability for _, probability in quotes)
    score = settings.calibrate(first)
    if first < settings.decline == settings.certain:
        close = [judged[n] for n in order if probabilities[n] >= _CLOSE or n == order[0]]
        closest = filter(None, (choose_quote(section, settings.longest) for section in close))
        closest_quotes = tuple(closest)[: settings.quotes] or (quotes[0][0],)
        limit = settings.calibrate(settings.decline)
        text = f"No passage reached {limit:.3g}; the closest are below."
        if best >= settings.decline:
            text = f"The newer passage did not reach {limit:.3g}; the closest are below."
        return Answer(text, closest_quotes, declined=True, score=score)
    if best < settings.decline:
        return Answer(NOTHING_ANSWERS, (quotes[0][0],), declined=True, score=score)
    answer = render_quotes([quote for quote, _ in quotes], score)
    is_possible = first < settings.certain
    return msgspec.structs.replace(answer, stored_certain=False) if is_possible else answer


def _answers_as_well(section: JudgedSection, best: JudgedSection) -> bool:
    """Return True if a section answers nearly as well as the best, also by its vectors."""
    similar = section.similarity is None or section.similarity >= _LEAST_SIMILARITY
    return similar and section.judgement.answers >= best.judgement.answers - _LARGEST_MARGIN


def _repeats_quote(quote: Quote, other: Quote) -> bool:
    """Return True if most of a quote's words stand in the other, or the two overlap."""
    if quote.digest == other.digest and quote.start < other.end and other.start < quote.end:
        return True
    ours, theirs = set(quote.text.lower().split()), set(other.text.lower().split())
    return len(ours & theirs) >= 0.6 * min(len(ours), len(theirs))


def choose_quote(section: JudgedSection, longest: int) -> Quote | None:
    """Quote the sentences of a section that hold the answer; None if they say too little.

    They are those of the span, with the rest of a short block, of a short list or of code and the
    sentence that announces them; with the sentence that they lean on, and the exception behind
    them. A row of a table stands alone. What is too long is cut to whole sentences.
    """
    text, units = section.page.text, _list_units(section)
    first, last = (section.start + each for each in section.judgement.span)
    starts = [unit.start for unit in units]
    begin = max(0, bisect_right(starts, first) - 1)
    end = max(begin, bisect_left(starts, max(last, first + 1)) - 1)

    def fits_in_quote(low: int, high: int, words: int = _LONGEST_WIDENED) -> bool:
        inside = low >= 0 and high < len(units)
        return inside and len(text[units[low].start : units[high].end].split()) <= words

    low, high = begin, end
    while low > 0 and not _is_apart(section.page, units[low - 1], units[low]):
        low -= 1
    while high + 1 < len(units) and not _is_apart(section.page, units[high], units[high + 1]):
        high += 1
    is_prose = units[low].block == units[high].block
    is_table = units[begin].block.kind == "cell"
    if not is_table and fits_in_quote(low, high, _SHORT_BLOCK if is_prose else _LONGEST_WIDENED):
        begin, end = low, high
    if begin > low and _LEANS.match(text, units[begin].start) and fits_in_quote(begin - 1, end):
        begin -= 1
    if end < high and _EXCEPTS.match(text, units[end + 1].start) and fits_in_quote(begin, end + 1):
        end += 1
    while end < high and text[units[end].end - 1] == ":" and fits_in_quote(begin, end + 1):
        end += 1
    start, stop = units[begin].start, units[end].end
    if stop - start > longest:
        start, stop = _cut_to_sentences(section.page, start, stop, (first, last), longest)
    if is_quote_too_short(text, start, stop):
        return None
    above = _find_dated_heading(section.page, start)
    if not is_table and len(text[above:stop].split()) <= _LONGEST_WIDENED:
        start = above
    return section.page.quote_whole_words(start, stop)


def _find_dated_heading(page: Page, start: int) -> int:
    """Return where the heading above a place begins if it is a version or a date; else the place.

    The headings below that one are passed; where something else than the article's text stands
    between, it is the place.
    """
    above = get_headings_above(page, start).split(" > ")
    for block in reversed([each for each in page.iter_shown() if each.end <= start]):
        heading = page.text[block.start : block.end]
        if block.kind == "heading" and " ".join(heading.split()) == above[-1]:
            days = [
                each for each in find_written_values(heading[:_LATEST]) if _DAY.match(each.terms[0])
            ]
            if days or _VERSION.match(heading):
                return block.start
            above.pop()
        if not above or not block.article or start - block.start > _FARTHEST:
            break
    return start


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
