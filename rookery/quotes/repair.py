"""Repair of what models wrote: citation numbers set right, and quotes typed from memory.

Citation numbers are set by the words that a claim shares with each quote (WebGLM, section 3.2.2),
for writers that get the words of their sources right and the numbers wrong. Meaning is not looked
at: a claim that denies its quote shares its words, and keeps it.

A quote typed from memory, by a model whose sampling cannot be constrained to the page, is replaced
by the page's own span. Similarity only proposes a span: a sentence and its negation are 99 % alike,
so `repair_quote` also compares the words that differ.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

import msgspec
from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from rookery.pages.search_terms import QUESTION_WORDS, reads_as_english
from rookery.pages.text_folding import TYPOGRAPHY, FoldedText, fold_text, locate_quote
from rookery.quotes.answer_types import contains_negation
from rookery.quotes.citation_syntax import NUMBER_PATTERN, NUMBERED_MARK_PATTERN, parse_numbered
from rookery.quotes.word_overlap import compute_rouge_n, split_words
from rookery.records import INVISIBLE, Answer, Claim, Page, Quote, Record

NUMBER_OR_ESCAPED_MARK = re.compile(
    rf"(?<!\\)(?:\\\\)*\\(?:{NUMBERED_MARK_PATTERN})|{NUMBER_PATTERN}"
)


class CorrectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of citation correction."""

    threshold: float = 0.57
    """least share of a claim's words that a quote must hold to be cited (WebGLM, section 3.2.3)"""


def correct_citations(
    answer: Answer, settings: CorrectionSettings = CorrectionSettings()
) -> Answer:
    """Return the answer with each claim citing every quote that matches it and no other.

    Text and quotes stay. A claim matches a quote by ROUGE-1 precision, as in WebGLM's section 3.1:
    the F1 that its section 3.2.3 names cannot reach 0.57 where a quote is two and a half times as
    long as the claim. Words such as "the" and "is" are left out of both, as in WebGLM's published
    code. The claim's former citations do not count, and a claim that nothing matches is dropped.
    Correcting an answer again changes nothing.
    """
    sources = [list_content_words(quote.text) for quote in answer.quotes]
    claims = []
    for claim in answer.claims:
        text = answer.text[claim.start : claim.end]
        if numbers := _match_quotes(text, sources, settings.threshold):
            claims.append(msgspec.structs.replace(claim, quotes=numbers))
    return msgspec.structs.replace(answer, claims=tuple(claims))


def parse_and_correct(
    text: str, quotes: Sequence[Quote], settings: CorrectionSettings = CorrectionSettings()
) -> Answer:
    """Parse text with citation numbers and correct them; a number that has no quote does no harm.

    Raises CitationSyntaxError if a claim opened by `%<` is not cited.
    """
    # Only the places of the numbers count, so every number is read as [1].
    marked = NUMBER_OR_ESCAPED_MARK.sub(lambda mark: mark[0] if mark[0][0] == "\\" else "[1]", text)
    read = parse_numbered(marked, [Page("", "", "anything").quote(0, 8)])
    claims = tuple(Claim(claim.start, claim.end, ()) for claim in read.claims)
    return correct_citations(Answer(read.text, tuple(quotes), claims), settings)


def measure_shared_words(claim: str, source: str) -> float:
    """Return the share of a claim's words that stand in a source (ROUGE-1 precision).

    Words such as "the" and "is" are left out of both; 0 where the claim has no others.
    """
    said = list_content_words(claim)
    return compute_rouge_n(said, list_content_words(source)).precision if said else 0.0


def _match_quotes(claim: str, sources: list[list[str]], threshold: float) -> tuple[int, ...]:
    said = list_content_words(claim)
    shares = [compute_rouge_n(said, source).precision for source in sources] if said else []
    return tuple(number for number, share in enumerate(shares) if share >= threshold)


def list_content_words(text: str) -> list[str]:
    """Return the words of a text, in small letters, without such as "the" and "is"."""
    return [word for word in split_words(text) if word not in QUESTION_WORDS]


Span = tuple[int, int]
RepairOutcome = Literal["exact", "folded", "repaired", "rejected"]

WORD = re.compile(r"(?:(?<!\w)[-+<>≤≥±]?[$€£¥]?(?=\d))?\w+(?:[^\w\s]+\w+)*[%‰]?|[<>=≤≥≠±×÷%‰]")
BEFORE = re.compile(r"\S*\w[^\S\n]+\Z")
"""the word before a span, where nothing ends between them"""
AFTER = re.compile(r"\A[^\S\n]+\w\S*")
"""the word after a span, where nothing ends between them"""
NEGATION_WORDS = frozenset(
    "nowhere without hardly scarcely barely seldom rarely unable lack lacks lacked lacking "
    "fail fails failed failing dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt "
    "shouldnt hasnt havent hadnt".split()
)
NEGATING_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "non-")
COUNTING_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion trillion dozen half halves third quarter fifth once twice "
    "thrice single double triple first second fourth sixth seventh eighth ninth tenth".split()
)
SENTENCE_OPENERS = frozenset(
    "The This That These Those There They He She We It Its But And Or If When While As At By For "
    "From In Of On To With".split()
)
"""words whose capital only shows that a sentence begins"""
MISSPELLING_RATIO = 80.0
"""percent of similarity from which two words are likely one word and its misspelling"""
LANGUAGE_CONTEXT = 2000
"""characters to either side of a span by which the page's language is judged"""
NEIGHBOUR_REACH = 30
"""characters beside a span in which the next word is looked for"""
WINDOW_SLACK = 15.0
"""percent by which a window as long as the quote may be less similar than the span found in the
end"""


LEAST_SIMILARITY = 90.0
"""percent of the characters of both texts that stand in both in the same order"""
SHORTEST_REPAIRED, LONGEST_REPAIRED = 20, 5000
"""characters of a quote: shorter ones are similar by chance, for longer ones the search takes too
long"""


class QuoteRepair(Record, frozen=True):
    """Outcome of repairing one typed quote."""

    quote: Quote | None
    """the page's own span; None if the typed quote is rejected"""
    outcome: RepairOutcome
    score: float = 100.0
    """similarity of the page's span to what was typed, in percent; 0 if none is proposed"""
    detail: str = ""
    """reason of a rejection, in one sentence for the reader"""


def repair_quote(page: Page, typed: str, folded: FoldedText | None = None) -> QuoteRepair:
    """Find the quote of the page that was typed: exactly, after folding, or nearly; else reject it.

    Only the page's own span is ever shown, so a repair can mislead in one way: the claim was
    written for what was typed, and the page says something else. Therefore a span that is similar
    enough is rejected all the same unless both have, in the same order and with the same words
    before and after them (other words may be dropped, added or mistyped there),

    - the same negations: "not", "never", "without", "-n't" and the like; nor may a word differ
      by un-, in-, dis- or non- before it or by -less behind it;
    - the same numbers, in digits (with sign, currency and per cent), in words, or a sign like <;
    - the same capitalised words, which may be names ("The" and the like are none).

    A typing error in any of these is rejected with them, and so is a span that stops short of a
    negation, or that begins or ends with another word than the quote. A reversal of another kind
    ("more" for "less") is not noticed. The negations are English, so a page that does not read as
    English gives no repairs. Pass `folded`, the fold of the page's text, to repair many quotes on
    one page. Repaired quotes are not fit to train on.
    """
    folded = folded or fold_text(page.text)
    if exact_span := locate_quote(page, typed, folded=folded):
        return QuoteRepair(exact_span, "exact" if exact_span.text == typed.strip() else "folded")
    plain = fold_text(typed).text.strip()
    if not SHORTEST_REPAIRED <= len(plain) <= LONGEST_REPAIRED:
        bounds = f"{SHORTEST_REPAIRED} to {LONGEST_REPAIRED:,} characters"
        return _reject_quote(f"it is not on the page, and only quotes of {bounds} are repaired")
    span, score = _find_nearest_span(folded.text, plain)
    if score < LEAST_SIMILARITY:
        return _reject_quote(f"nothing on the page is {LEAST_SIMILARITY:g} % alike", score)
    proposed = page.quote_whole_words(*folded.to_source_span(*span))
    low, high = max(0, proposed.start - LANGUAGE_CONTEXT), proposed.end + LANGUAGE_CONTEXT
    if not reads_as_english(page.text[low:high]):
        detail = "the page does not read as English, and no other negations are known"
        return _reject_quote(detail, score)
    if objection := _find_objection(typed, proposed.text) or _check_neighbours(page.text, proposed):
        return _reject_quote(objection, score)
    return QuoteRepair(proposed, "repaired", score)


def _reject_quote(detail: str, score: float = 0.0) -> QuoteRepair:
    return QuoteRepair(None, "rejected", score, detail)


def _find_nearest_span(text: str, typed: str) -> tuple[Span, float]:
    """Return the span of whole words most similar to `typed`, and its similarity in percent."""
    # The window is as long as the typed text, so too short if that dropped words of the page.
    least = LEAST_SIMILARITY - WINDOW_SLACK
    window = fuzz.partial_ratio_alignment(typed, text, score_cutoff=least)
    if window is None:
        return (0, 0), 0.0
    start, end = window.dest_start, window.dest_end
    starts, ends = _list_word_edges(text, start, end, margin=len(typed) // 4)
    start = max(starts, key=lambda at: fuzz.ratio(typed, text[at:end]))
    end = max(ends, key=lambda at: fuzz.ratio(typed, text[start:at]))
    start = max(starts, key=lambda at: fuzz.ratio(typed, text[at:end]))
    return (start, end), fuzz.ratio(typed, text[start:end])


def _list_word_edges(text: str, start: int, end: int, margin: int) -> tuple[list[int], list[int]]:
    """Return the offsets near `start` at which words begin, and those near `end` at which words
    end, each with and without the punctuation that touches them."""
    low = text.rfind(" ", 0, max(0, start - margin)) + 1
    high = end + margin + len(text[end + margin :].partition(" ")[0])
    edges = [
        span
        for pattern in (WORD, re.compile(r"\S+"))
        for span in (word.span() for word in pattern.finditer(text, low, high))
    ]
    starts = sorted({at for at, _ in edges if at <= start + margin})
    return starts, sorted({at for _, at in edges if at >= end - margin})


class _SplitWords(NamedTuple):
    """Text as the words that must not differ, and the lists of other words before, between and
    after."""

    marks: list[str]
    between: list[list[str]]


def _find_objection(typed: str, proposed: str) -> str:
    """Return the reason why the page's text cannot stand for the typed one; empty if it can."""
    page, quote = _split_words(proposed), _split_words(typed)
    for in_page, in_quote in ((page[:1], quote[:1]), (page[-1:], quote[-1:])):
        words, typed_words = _format_words(in_page), _format_words(in_quote)
        edges = ("".join(words).casefold() for words in (in_page, in_quote))
        if fuzz.ratio(*edges) < MISSPELLING_RATIO:
            return f"the page has {words} at an edge, the quote has {typed_words}"
    capitals, others = _count_names(page), _count_names(quote)
    names = set((capitals - others) | (others - capitals))
    page_parts, quote_parts = _split_at_marks(page, names), _split_at_marks(quote, names)
    difference = next(_diff_words(page_parts.marks, quote_parts.marks), None)
    if difference is None:
        return _find_turned_or_moved(page_parts.between, quote_parts.between)
    in_page, in_quote = difference
    kind = next(filter(None, map(_classify_word, (*in_page, *in_quote))), "a name")
    words, typed_words = _format_words(in_page), _format_words(in_quote)
    return f"the page has {words} where the quote has {typed_words}: {kind} may differ"


def _check_neighbours(text: str, quote: Quote) -> str:
    """Return an objection if a word beside the span changes its meaning, such as "not" or
    "million"."""
    before = BEFORE.search(text[max(0, quote.start - NEIGHBOUR_REACH) : quote.start])
    after = AFTER.search(text[quote.end : quote.end + NEIGHBOUR_REACH])
    inside = _split_words(quote.text)
    sides = []
    if before and quote.text[0].isalnum():
        sides.append((_split_words(before[0])[-1:], inside[:1]))
    if after and quote.text[-1].isalnum():
        sides.append((_split_words(after[0])[:1], inside[-1:]))
    for neighbour, edge in sides:
        kinds = [_classify_word(word) for word in (*neighbour, *edge)]
        if kinds[:1] == ["a negation"] or kinds == ["a number", "a number"]:
            words = _format_words(neighbour)
            return f"the quote leaves out {words}, which stands beside it: {kinds[0]}"
    return ""


def _split_words(text: str) -> list[str]:
    visible = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return WORD.findall(visible.translate(TYPOGRAPHY))


def _format_words(words: list[str]) -> str:
    return f"“{' '.join(words)}”" if words else "nothing"


def _count_names(words: list[str]) -> Counter[str]:
    return _count_folded([word for word in words if _classify_word(word) == "a name"])


def _split_at_marks(words: list[str], names: set[str]) -> _SplitWords:
    said = _SplitWords([], [[]])
    for word in words:
        if _classify_word(word) or word.casefold() in names:
            said.marks.append(word)
            said.between.append([])
        else:
            said.between[-1].append(word)
    return said


def _diff_words(one: list[str], other: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the stretches in which two lists of words differ, ignoring case."""
    steps = Indel.opcodes([word.casefold() for word in one], [word.casefold() for word in other])
    alike = [step for step in steps if step.tag == "equal"]
    ends = [(0, 0), *((step.src_end, step.dest_end) for step in alike)]
    starts = [*((step.src_start, step.dest_start) for step in alike), (len(one), len(other))]
    for (left, above), (right, below) in zip(ends, starts, strict=True):
        if left < right or above < below:
            yield one[left:right], other[above:below]


def _find_turned_or_moved(page_parts: list[list[str]], quote_parts: list[list[str]]) -> str:
    """Return an objection if a word is reversed in its place, or stands beyond a word that must not
    differ: there, "are not known to" and "are known not to" have the same words."""
    counts = (map(_count_folded, parts) for parts in (page_parts, quote_parts))
    pairs = list(zip(*counts, strict=True))
    missing = [(at, word) for at, (a, b) in enumerate(pairs) for word in a - b]
    added = [(at, word) for at, (a, b) in enumerate(pairs) for word in b - a]
    for (at, word), (place, other) in product(missing, added):
        if at == place and (_is_opposite(word, other) or _is_opposite(other, word)):
            return f"the page has “{word}” where the quote has “{other}”: a negation may differ"
        if at != place and fuzz.ratio(word, other) >= MISSPELLING_RATIO:
            return f"“{word}” stands on the other side of a negation, number or name"
    return ""


def _count_folded(words: list[str]) -> Counter[str]:
    return Counter(word.casefold() for word in words)


def _classify_word(word: str) -> str:
    """Return "a negation", "a number" or "a name" for a word that similarity does not guard, else
    ""."""
    parts = [part for part in re.split(r"[^\w']+", word.casefold()) if part]
    if contains_negation(word) or not NEGATION_WORDS.isdisjoint(parts):
        return "a negation"
    if not parts or any(letter.isnumeric() for letter in word):
        return "a number"
    if any(part in COUNTING_WORDS or part.removesuffix("s") in COUNTING_WORDS for part in parts):
        return "a number"
    return "" if word == word.lower() or word in SENTENCE_OPENERS else "a name"


def list_guarded_words(text: str) -> list[str]:
    """Return the numbers, names and negations of a sentence: words that must stand in its source.

    They are in order and repeated. Names lose the ending of the genitive and are cut at hyphens;
    the first word is no name, and "one" is no number.
    """
    guarded = []
    for at, word in enumerate(_split_words(text)):
        kind = _classify_word(word)
        # The first word's capital shows that the sentence begins.
        if kind == "a name" and at:
            guarded += re.sub(r"['’]s\Z", "", word).split("-")
        elif kind and kind != "a name" and word.casefold() != "one":
            guarded.append(word)
    return guarded


def _is_opposite(one: str, other: str) -> bool:
    """Return True if `one` is the opposite of `other` by a prefix or suffix: unable and able."""
    if one.endswith("less"):
        return other.removesuffix("ful") == one.removesuffix("less")
    return any(
        one.startswith(prefix)
        and not other.startswith(prefix)
        and fuzz.ratio(one.removeprefix(prefix), other) >= MISSPELLING_RATIO
        for prefix in NEGATING_PREFIXES
    )
