"""The extractive answer: the best sentences of what was gathered, each resting on its own quote.

No model, no key, no network of its own. It declines where no sentence stands out.
"""

import math
from bisect import bisect
from collections.abc import Sequence

import msgspec

from rookery.browse.words import question_terms, terms
from rookery.cite.cues import denies, expected, held, is_yes_or_no
from rookery.cite.elision import is_too_short
from rookery.cite.rank import Observer, RankWeights, Sentence, Similarity, best_sentences, rank
from rookery.cite.verify import TextVerdict
from rookery.draft.gather import Gathered, GatherLimits, gather
from rookery.records import Answer, Claim, Episode, Library, Page, Question, Quote

NOTHING_FOUND = "Nothing that was read answers this."

LEADERS = 12
"""the best sentences, which are compared for what other pages say too"""
SETTLED_BY_TWO = ("date", "number", "name")
"""what is asked for, where two pages that say the same are all the answer there is"""
AGREE = 0.5
"""share of what two pages' sentences add that they have in common when they say the same"""


class ExtractSettings(msgspec.Struct, frozen=True):
    """How the extractive answer chooses, and when it declines."""

    quotes: int = 3
    """at most, in one answer"""
    decline: float = 0.2
    """an answer less likely than this to be right is declined"""
    overlap: float = 0.6
    """two sentences that share this much of their words say the same"""
    fall: float = 0.55
    """a sentence that scores less than this share of the best one is not shown"""
    support: float = 0.15
    """what it is worth that other pages say the same"""
    agreement: float = 0.5
    """what it is worth that other pages say yes, or no, too where that is the question"""
    elsewhere: float = 0.05
    """what it is worth that a quote comes from a page not yet quoted"""
    longest: int = 600
    """characters of a quote"""
    limits: GatherLimits = GatherLimits()
    weights: RankWeights = RankWeights()


class Confidence(msgspec.Struct, frozen=True):
    """How likely the first quote is to hold the answer: a logistic curve over two signs.

    Fitted by bench/answers.py --fit on 1,000 questions, asked with and without their article.
    """

    passage: float = 1.87
    margin: float = 6.81
    offset: float = -3.84

    def of(self, evidence: "Evidence") -> float:
        """The probability."""
        signs = self.passage * evidence.passage + self.margin * evidence.margin
        return 1 / (1 + math.exp(-signs - self.offset))


WITH_SIMILARITY = Confidence(1.59, 5.21, -3.75)
"""where a model adds to the scores of sentences, so that they stand further apart"""


class Evidence(msgspec.Struct, frozen=True):
    """The sentences that an answer is made of, and the signs of how good they are."""

    groups: tuple[tuple[Sentence, ...], ...]
    """best first, each with those of other pages that say the same"""
    passage: float
    """the score of the passage that the first sentence lies in"""
    margin: float
    """how far the first sentence stands above the mean of the next OTHERS"""


OTHERS = 9


def extract(
    question: Question,
    library: Library,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: Observer = lambda ranked: None,
) -> Episode:
    """Answer from a library with its own sentences; `observe` is told the ranked passages.

    The episode's stop is "end", "declined" (the best rejected quotes are in the answer) or
    "no_evidence" (answer None: searching or opening failed, and the failures say why).
    """
    gathered = gather(question.text, library, settings.limits)
    answer = answer_from(question.text, gathered, similarity, settings, observe)
    if not gathered.found and gathered.failures:
        return Episode(question, "extract", stop="no_evidence", failures=gathered.failures)
    stop = "declined" if answer.declined else "end"
    return Episode(question, "extract", answer=answer, stop=stop, failures=gathered.failures)


def answer_from(
    question: str,
    gathered: Gathered,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: Observer = lambda ranked: None,
) -> Answer:
    """The answer that these passages give, or a declined one with the best rejected quotes."""
    evidence = weigh(question, gathered, similarity, settings, observe)
    if evidence is None:
        return Answer(NOTHING_FOUND, declined=True)
    likely = (WITH_SIMILARITY if similarity else Confidence()).of(evidence)
    groups = [[_quote(sentence, settings.longest) for sentence in g] for g in evidence.groups]
    if likely < settings.decline:
        quotes = tuple(quote for group in groups for quote in group)
        return Answer(NOTHING_FOUND, quotes, declined=True, score=likely)
    return _written(groups, likely)


def find_altered_extract(answer: Answer) -> list[TextVerdict]:
    """What of a saved answer's text `answer_from` did not write from its quotes and claims.

    It writes the first quote of each claim, white space evened out, with a space between, and a
    declined answer says NOTHING_FOUND: all else was changed afterwards.
    """
    if answer.declined:
        if answer.text == NOTHING_FOUND and not answer.claims:
            return []
        detail = f"a declined answer says “{NOTHING_FOUND}” and claims nothing"
        return [TextVerdict(answer.text, "claim_differs", detail)]
    altered, done = [], 0
    for number, claim in enumerate(answer.claims, 1):
        said = answer.text[claim.start : claim.end]
        first = answer.quotes[claim.quotes[0]].text if claim.quotes else ""
        if said != " ".join(first.split()) or not said:
            why = f"claim {number} says this, and its quote “{first}”"
            altered.append(TextVerdict(said, "claim_differs", why))
        between = answer.text[done : max(done, claim.start)]
        if between != " " * (number > 1):
            why = f"claim {number} does not follow the one before it after a space"
            altered.append(TextVerdict(between, "claim_differs", why))
        done = max(done, claim.end)
    if done < len(answer.text) or not answer.claims:
        why = "no claim of the answer holds this" if answer.text[done:] else "it claims nothing"
        altered.append(TextVerdict(answer.text[done:], "claim_differs", why))
    return altered


def weigh(
    question: str,
    gathered: Gathered,
    similarity: Similarity | None = None,
    settings: ExtractSettings = ExtractSettings(),
    observe: Observer = lambda ranked: None,
) -> Evidence | None:
    """The best sentences of these passages; None where there is no sentence at all."""
    ranked = rank(question, gathered.found, similarity, settings.weights)
    observe(ranked)
    every = _with_support(question, best_sentences(ranked), settings)
    meaning = [each for each in every if _says_something(each, settings.longest)]
    if not meaning:
        return None
    groups = tuple(map(tuple, _choose(question, meaning, settings)))
    first = groups[0][0]
    passage = next(
        passage.hit.score
        for passage in ranked
        if passage.page is first.page and passage.hit.start <= first.start < passage.hit.end
    )
    others = sum(sentence.score for sentence in every[1 : 1 + OTHERS]) / OTHERS
    return Evidence(groups, passage, every[0].score - others)


def _with_support(
    question: str, every: list[Sentence], settings: ExtractSettings
) -> list[Sentence]:
    """Best first again, after each has gained from other pages that say what it adds."""
    leaders = every[:LEADERS]
    added = [_added(question, sentence.text) for sentence in leaders]
    weight = settings.agreement if is_yes_or_no(question) else settings.support
    gained = []
    for sentence, words in zip(leaders, added, strict=True):
        others: dict[str, set[str]] = {}
        for other, theirs in zip(leaders, added, strict=True):
            # By digest: a copy of the text at another address supports nothing.
            if other.page.digest != sentence.page.digest:
                others.setdefault(other.page.digest, set()).update(theirs)
        votes = sum(word in theirs for theirs in others.values() for word in words)
        share = votes / max(1, len(words) * len(others))
        gained.append(msgspec.structs.replace(sentence, score=sentence.score + weight * share))
    return sorted(gained, key=lambda s: -s.score) + every[LEADERS:]


def _added(question: str, sentence: str) -> set[str]:
    """What a sentence adds that another page may say too: its numbers where a number is asked
    for, yes or no where that is the question, otherwise its words."""
    if is_yes_or_no(question):
        return {"no" if denies(sentence) else "yes"}
    if (kind := expected(question)) in SETTLED_BY_TWO:
        return held(sentence, kind, question)
    return set(question_terms(sentence)).difference(question_terms(question))


def _choose(
    question: str, every: Sequence[Sentence], settings: ExtractSettings
) -> list[list[Sentence]]:
    """The best sentences, each with those of other pages that say the same.

    Where two pages agree on the date, number or name that is asked for, nothing more is said:
    pages that give another one are outvoted.
    """
    kind = expected(question)
    chosen: list[list[Sentence]] = []
    least = settings.fall * max(0.0, every[0].score)
    left = [every[0], *(s for s in every[1:] if s.score >= least)]
    while left and sum(map(len, chosen)) < settings.quotes:
        read = {group[0].page.digest for group in chosen}
        best = max(left, key=lambda s: s.score + settings.elsewhere * (s.page.digest not in read))
        same = [s for s in left if s is not best and _repeats(s, best, settings.overlap)]
        seconds = [s for s in same if _supports(question, s, best)][:1]
        room = settings.quotes - sum(map(len, chosen)) - 1
        chosen.append([best, *seconds[:room]])
        taken = _quote(best, settings.longest)
        left = [s for s in left if s not in same and not _overlaps(s, best.page, taken)]
        if kind in SETTLED_BY_TWO and len(chosen[0]) > 1:
            break
    return chosen


def _overlaps(sentence: Sentence, page: Page, quote: Quote) -> bool:
    return (
        sentence.page.digest == page.digest
        and sentence.start < quote.end
        and quote.start < sentence.end
    )


def _repeats(sentence: Sentence, other: Sentence, overlap: float) -> bool:
    ours, theirs = set(terms(sentence.text)), set(terms(other.text))
    return len(ours & theirs) >= overlap * min(len(ours), len(theirs))


def _supports(question: str, sentence: Sentence, other: Sentence) -> bool:
    """Whether another page's sentence gives the same date, number, ... as this one or, where none
    is asked for, adds much the same to the question."""
    if sentence.page.digest == other.page.digest:
        return False
    if (kind := expected(question)) in SETTLED_BY_TWO:
        return not held(sentence.text, kind, question).isdisjoint(held(other.text, kind, question))
    asked = set(question_terms(question))
    ours, theirs = (set(question_terms(s.text)) - asked for s in (sentence, other))
    return bool(ours) and len(ours & theirs) >= AGREE * len(ours | theirs)


def _says_something(sentence: Sentence, longest: int) -> bool:
    """Tell whether its quote would be long enough to be verified."""
    quote = _quote(sentence, longest)
    return not is_too_short(sentence.page.text, quote.start, quote.end)


def _quote(sentence: Sentence, longest: int) -> Quote:
    """The sentence as a quote, with what it announces; one that is too long is cut after a word."""
    end = sentence.end
    if sentence.text.endswith(":"):
        end = _announced(sentence.page, end, sentence.start + longest)
    if end - sentence.start > longest:
        cut = sentence.page.text.rfind(" ", sentence.start, sentence.start + longest)
        end = cut if cut > sentence.start else sentence.start + longest
    return sentence.page.quote(sentence.start, end)


def _announced(page: Page, at: int, limit: int) -> int:
    """Where that ends which a colon at text[at - 1] announces: code, items, rows or one block."""
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


def _written(groups: Sequence[Sequence[Quote]], score: float) -> Answer:
    """The first quote of each group, white space evened out: a claim that rests on its group."""
    text = ""
    quotes: list[Quote] = []
    claims = []
    for group in groups:
        start = len(text) + bool(text)
        text += " " * bool(text) + " ".join(group[0].text.split())
        claims.append(Claim(start, len(text), tuple(range(len(quotes), len(quotes) + len(group)))))
        quotes += group
    return Answer(text, tuple(quotes), tuple(claims), score=score)
