"""Extractive answers: the best sentences of the retrieved passages, each with its own quote.

No language model is used. The answer is declined where no sentence scores well above the others.
"""

import math
import re
from bisect import bisect
from collections.abc import Sequence

import msgspec

from rookery.answers.retrieval import RetrievalLimits, RetrievedPassages, gather_passages
from rookery.errors import Outcome
from rookery.evidence.passage_ranking import (
    RankingObserver,
    RankWeights,
    ScoredSentence,
    Similarity,
    rank_passages,
    sort_sentences,
)
from rookery.pages.search_terms import find_language, get_question_terms, split_terms
from rookery.quotes.answer_types import (
    contains_negation,
    detect_answer_type,
    extract_answer_terms,
    is_yes_no_question,
)
from rookery.quotes.verification import TextVerdict, is_quote_too_short
from rookery.records import Answer, Claim, Episode, Library, Page, Question, Quote, find_last_edge

NOTHING_FOUND = "No passage was found."
NOTHING_REACHED = "No passage reached {:g}; the closest are below."
_DECLINED = re.compile(
    r"No passage (was found|reached [\d.e-]+; the closest are below)\."
    r"|Nothing that was read answers this\."  # written before version 0.2
)

COMPARED_SENTENCES = 12
"""number of the best sentences that are compared with those of other pages"""
MIN_SCORE_SHARE = 0.55
"""share of the best sentence's score below which a sentence is not shown"""
SETTLED_BY_TWO = ("date", "number", "name")
"""answer types for which two pages that agree make a complete answer"""
MIN_AGREEMENT = 0.5
"""minimum share of their added words (Jaccard) that agreeing sentences of two pages have in
common"""


class ExtractSettings(msgspec.Struct, frozen=True):
    """Settings of the extractive answer: choice of sentences, and declining."""

    quotes: int = 3
    """maximum number of quotes in an answer"""
    decline: float = 0.2
    """probability of being right below which an answer is declined"""
    overlap: float = 0.6
    """share of common words from which two sentences are repetitions of each other"""
    support: float = 0.15
    """weight in a sentence's score of other pages that say the same"""
    agreement: float = 0.5
    """the same weight for yes-or-no questions, where other pages agree on yes or no"""
    elsewhere: float = 0.05
    """bonus for a quote from a page that is not quoted yet"""
    longest: int = 600
    """maximum characters of a quote"""
    limits: RetrievalLimits = RetrievalLimits()
    """limits of retrieval"""
    weights: RankWeights = RankWeights()
    """weights of the ranking of passages and sentences"""


class ConfidenceModel(msgspec.Struct, frozen=True):
    """Logistic regression of the probability that the first quote contains the answer.

    Fitted by bench/answers.py --fit on 1,000 questions, asked with and without their article.
    """

    passage: float = 1.87
    """weight of the passage's score"""
    margin: float = 6.81
    """weight of the first sentence's margin over the next ones"""
    offset: float = -3.84
    """intercept"""

    def estimate_probability(self, evidence: "ExtractEvidence") -> float:
        """Return the probability for this evidence, from 0 to 1."""
        signs = self.passage * evidence.passage + self.margin * evidence.margin
        return 1 / (1 + math.exp(-signs - self.offset))


CONFIDENCE_WITH_SIMILARITY = ConfidenceModel(1.59, 5.21, -3.75)
"""coefficients for scores with a similarity model, which are further apart"""


class ExtractEvidence(msgspec.Struct, frozen=True):
    """The sentences of an answer, and the features of their quality."""

    groups: tuple[tuple[ScoredSentence, ...], ...]
    """sentences by descending score, each followed by one of another page that supports it"""
    passage: float
    """score of the passage that contains the first sentence"""
    margin: float
    """score of the best sentence minus the mean score of the next MARGIN_SENTENCES"""


MARGIN_SENTENCES = 9
"""number of sentences that the best one is compared with"""


def answer_by_extraction(
    question: Question,
    library: Library,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Episode:
    """Answer a question with sentences of a library's pages; `observe` gets the ranked passages.

    The episode's stop is "end", "declined" (the answer has the best rejected quotes) or
    "no_evidence" (no answer: searching or opening failed, and the failures give the reasons).
    """
    gathered = gather_passages(question.text, library, settings.limits)
    answer = compose_extract_answer(question.text, gathered, similarity, settings, observe)
    if not gathered.found and gathered.failures:
        return Episode(question, "extract", stop=Outcome.NO_EVIDENCE, failures=gathered.failures)
    stop = "declined" if answer.declined else "end"
    return Episode(question, "extract", answer=answer, stop=stop, failures=gathered.failures)


def compose_extract_answer(
    question: str,
    gathered: RetrievedPassages,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> Answer:
    """Compose an answer of the best sentences of these passages.

    It is declined, with the best rejected quotes, where its probability of being right is too low.
    """
    evidence = weigh_evidence(question, gathered, similarity, settings, observe)
    if evidence is None:
        return Answer(NOTHING_FOUND, declined=True)
    confidence = CONFIDENCE_WITH_SIMILARITY if similarity else ConfidenceModel()
    likely, longest = confidence.estimate_probability(evidence), settings.longest
    groups = [[_quote_sentence(each, longest) for each in group] for group in evidence.groups]
    if likely < settings.decline:
        quotes = tuple(quote for group in groups for quote in group)
        text = NOTHING_REACHED.format(settings.decline)
        return Answer(text, quotes, declined=True, score=likely)
    return _render_groups(groups, likely)


def find_altered_extract(answer: Answer) -> list[TextVerdict]:
    """List the parts of a saved answer's text that `compose_extract_answer` did not write.

    It writes the first quote of each claim with white space normalized, separated by spaces, and
    one sentence for a declined answer: anything else was changed afterwards. Answers by the
    evidence model keep the lines of their quotes, and an empty line between them.
    """
    if answer.declined:
        if _DECLINED.fullmatch(answer.text) and not answer.claims:
            return []
        detail = "a declined answer says that no passage reached the threshold, and claims nothing"
        return [TextVerdict(answer.text, "claim_differs", detail)]
    altered, position = [], 0
    for number, claim in enumerate(answer.claims, 1):
        claim_text = answer.text[claim.start : claim.end]
        first = answer.quotes[claim.quotes[0]].text if claim.quotes else ""
        if claim_text not in (first, " ".join(first.split())) or not claim_text:
            why = f"claim {number} says this, and its quote “{first}”"
            altered.append(TextVerdict(claim_text, "claim_differs", why))
        between = answer.text[position : max(position, claim.start)]
        if between not in ((" ", "\n\n") if number > 1 else ("",)):
            why = f"claim {number} does not follow the one before it after a space"
            altered.append(TextVerdict(between, "claim_differs", why))
        position = max(position, claim.end)
    if position < len(answer.text) or not answer.claims:
        why = "no claim of the answer holds this" if answer.text[position:] else "it claims nothing"
        altered.append(TextVerdict(answer.text[position:], "claim_differs", why))
    return altered


def weigh_evidence(
    question: str,
    gathered: RetrievedPassages,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: RankingObserver = lambda ranked: None,
) -> ExtractEvidence | None:
    """Rank the passages and choose the best sentences as evidence; None where there is none."""
    ranked = rank_passages(question, gathered.found, similarity, settings.weights)
    observe(ranked)
    every = _add_support(question, sort_sentences(ranked), settings)
    meaning = [each for each in every if _is_quotable(each, settings.longest)]
    if not meaning:
        return None
    groups = tuple(map(tuple, _choose_groups(question, meaning, settings)))
    first = groups[0][0]
    passage = next(
        passage.hit.score
        for passage in ranked
        if passage.page is first.page and passage.hit.start <= first.start < passage.hit.end
    )
    others = sum(sentence.score for sentence in every[1 : 1 + MARGIN_SENTENCES]) / MARGIN_SENTENCES
    return ExtractEvidence(groups, passage, every[0].score - others)


def _add_support(
    question: str, every: list[ScoredSentence], settings: ExtractSettings
) -> list[ScoredSentence]:
    """Raise the score of each leading sentence by the support of other pages, and sort again."""
    leaders = every[:COMPARED_SENTENCES]
    added = [_added_content(question, sentence) for sentence in leaders]
    weight = settings.agreement if is_yes_no_question(question) else settings.support
    gained = []
    for sentence, words in zip(leaders, added, strict=True):
        others: dict[str, set[str]] = {}
        for other, other_words in zip(leaders, added, strict=True):
            # By digest: a copy of the text at another address supports nothing.
            if other.page.digest != sentence.page.digest:
                others.setdefault(other.page.digest, set()).update(other_words)
        votes = sum(word in other_words for other_words in others.values() for word in words)
        share = votes / max(1, len(words) * len(others))
        gained.append(msgspec.structs.replace(sentence, score=sentence.score + weight * share))
    return sorted(gained, key=lambda s: -s.score) + every[COMPARED_SENTENCES:]


def _added_content(question: str, sentence: ScoredSentence) -> set[str]:
    """Return the content of a sentence that another page may confirm.

    It is yes or no for a yes-or-no question, the numbers, dates or names where one is asked for,
    else the words that are not in the question.
    """
    if is_yes_no_question(question):
        return {"no" if contains_negation(sentence.text) else "yes"}
    if (kind := detect_answer_type(question)) in SETTLED_BY_TWO:
        return extract_answer_terms(sentence.text, kind, question)
    return _list_added_words(question, sentence)


def _list_added_words(question: str, sentence: ScoredSentence) -> set[str]:
    """Return the words of a sentence that are not in the question, stemmed as its page's."""
    language = find_language(sentence.page.text)
    said = get_question_terms(sentence.text, language)
    return set(said).difference(get_question_terms(question, language))


def _choose_groups(
    question: str, every: Sequence[ScoredSentence], settings: ExtractSettings
) -> list[list[ScoredSentence]]:
    """Choose sentences by score, each followed by one of another page that supports it.

    Where two pages agree on the date, number or name that is asked for, no more are chosen: a page
    that gives another one is outvoted.
    """
    kind = detect_answer_type(question)
    chosen: list[list[ScoredSentence]] = []
    least = MIN_SCORE_SHARE * max(0.0, every[0].score)
    rest = [every[0], *(s for s in every[1:] if s.score >= least)]
    while rest and sum(map(len, chosen)) < settings.quotes:
        read = {group[0].page.digest for group in chosen}
        best = max(rest, key=lambda s: s.score + settings.elsewhere * (s.page.digest not in read))
        same = [s for s in rest if s is not best and _repeats_sentence(s, best, settings.overlap)]
        seconds = [s for s in same if _supports_sentence(question, s, best)][:1]
        room = settings.quotes - sum(map(len, chosen)) - 1
        chosen.append([best, *seconds[:room]])
        quoted = _quote_sentence(best, settings.longest)
        rest = [s for s in rest if s not in same and not _overlaps_quote(s, quoted)]
        if kind in SETTLED_BY_TWO and len(chosen[0]) > 1:
            break
    return chosen


def _overlaps_quote(sentence: ScoredSentence, quote: Quote) -> bool:
    same_page = sentence.page.digest == quote.digest
    return same_page and sentence.start < quote.end and quote.start < sentence.end


def _repeats_sentence(sentence: ScoredSentence, other: ScoredSentence, overlap: float) -> bool:
    ours, theirs = (
        set(split_terms(each.text, find_language(each.page.text))) for each in (sentence, other)
    )
    return len(ours & theirs) >= overlap * min(len(ours), len(theirs))


def _supports_sentence(question: str, sentence: ScoredSentence, other: ScoredSentence) -> bool:
    """Return True if a sentence of another page gives the same answer as this one.

    It is the same date, number or name where one is asked for, else much the same added words.
    """
    if sentence.page.digest == other.page.digest:
        return False
    if (kind := detect_answer_type(question)) in SETTLED_BY_TWO:
        terms = extract_answer_terms(sentence.text, kind, question)
        return not terms.isdisjoint(extract_answer_terms(other.text, kind, question))
    words, others = (_list_added_words(question, each) for each in (sentence, other))
    return bool(words) and len(words & others) >= MIN_AGREEMENT * len(words | others)


def _is_quotable(sentence: ScoredSentence, longest: int) -> bool:
    """Return True if a quote of this sentence is long enough to be verified."""
    quote = _quote_sentence(sentence, longest)
    return not is_quote_too_short(sentence.page.text, quote.start, quote.end)


def _quote_sentence(sentence: ScoredSentence, longest: int) -> Quote:
    """Quote a sentence, with what its final colon announces, cut after a word if it is too long."""
    end = sentence.end
    if sentence.text.endswith(":"):
        end = _end_of_announced(sentence.page, end, sentence.start + longest)
    if end - sentence.start > longest:
        end = find_last_edge(sentence.page.text, sentence.start, sentence.start + longest)
    return sentence.page.quote_whole_words(sentence.start, end)


def _end_of_announced(page: Page, at: int, limit: int) -> int:
    """Return the end of the code, list, table or block that a colon at text[at - 1] announces."""
    first = bisect(page.blocks, at - 1, key=lambda block: block.start)
    kinds = {block.kind for block in page.blocks[first : first + 1]}
    for block in page.blocks[first:]:
        same = block.kind in kinds and page.text[at : block.start].isspace()
        if not same or block.hidden or block.kind == "heading" or block.end > limit:
            break
        at = block.end
        if block.kind == "paragraph":
            break
    return at


def _render_groups(groups: Sequence[Sequence[Quote]], score: float) -> Answer:
    """Render the first quote of each group, white space normalized, as a claim citing its group."""
    text = ""
    quotes: list[Quote] = []
    claims = []
    for group in groups:
        start = len(text) + bool(text)
        text += " " * bool(text) + " ".join(group[0].text.split())
        claims.append(Claim(start, len(text), tuple(range(len(quotes), len(quotes) + len(group)))))
        quotes += group
    return Answer(text, tuple(quotes), tuple(claims), score=score)
