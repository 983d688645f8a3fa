"""Expected answer type of a question (date, number, name, reason), by English patterns.

A question in another language has no expected type.
"""

import re
from collections.abc import Sequence

from rookery.pages.search_terms import QUESTION_WORDS, get_question_terms, split_terms
from rookery.written_values import find_written_values

_ASKED = {
    "date": r"\bwhen\b|\b(?:what|which)\s+(?:\w+\s+)?(?:year|date|day|month|century|decade)\b",
    "number": r"\bhow\s+(?:many|much|long|old|far|tall|large|big|high|fast|often|deep|wide|heavy)\b"
    r"|\bwhat\s+(?:percent|percentage|number|age|amount|population|share)\b",
    "reason": r"\bwhy\b|\b(?:what|which)\s+(?:\w+\s+)?(?:reason|cause)s?\b",
    "name": r"\b(?:who|whom|whose|where)\b|\b(?:what|which)\s+(?:person|man|woman|king|queen|"
    r"president|author|artist|singer|company|city|country|state|group|organi[sz]ation|team)\b",
}
"""patterns of questions by the type of their answer, the first that fits"""
_DATE = re.compile(
    r"\b(?:1\d{3}|20\d{2})\b|\b\d{1,4} (?:BCE?|AD|CE)\b|\b\d{1,2}(?:st|nd|rd|th) century\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November"
    r"|December)\b"
)
_NUMBER = re.compile(
    r"\d[\d.,]*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty"
    r"|fifty|hundred|thousand|million|billion|half|dozen|once|twice)\b",
    re.I,
)
_REASON = re.compile(
    r"\b(?:because|since|so that|in order to|due to|owing to|thanks to|caused? by|as a result"
    r"|reasons?|therefore|for fear)\b",
    re.I,
)
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w’'-]+")
_PATTERN_BY_TYPE = {"date": _DATE, "number": _NUMBER, "reason": _REASON, "name": _NAME}
_YES_OR_NO = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.I
)
_DENIAL = re.compile(r"\b(?:not|no|never|cannot|none|nobody|nothing|neither|nor)\b|n[’']t\b", re.I)


def detect_answer_type(question: str) -> str:
    """Return the answer type that a question expects: "date", "number", "reason", "name" or ""."""
    return next((kind for kind, asked in _ASKED.items() if re.search(asked, question, re.I)), "")


def extract_answer_terms(sentence: str, kind: str, question: str) -> set[str]:
    """Return the terms of the answer type `kind` in a sentence, in lower case.

    They are its dates, numbers, names, or words such as "because" (reason). Names that the question
    has too are left out. An empty `kind` gives an empty set.
    """
    if not kind:
        return set()
    found = {match.group().lower() for match in _PATTERN_BY_TYPE[kind].finditer(sentence)}
    return {name for name in found if name not in question.lower()} if kind == "name" else found


_MOST_MARKED = 4
_WORD = re.compile(r"([^\s(\[{<«‹“„‘\"'*]\S*?)[)\]}>»›“”’\"'*.,;:!?…]*(?!\S)")
"""what stands between white space, and in group 1 without the punctuation around it"""
_SENTENCE_END = re.compile(r"[.;!?](?=\s)|\n")
_CLAUSE_END = re.compile(r"[,;:.!?\n]")
_UNIT = re.compile(r"[ \xa0](%|[A-Z]{3}|[a-z]+)(?![\w-])(?: (?!long|wide|high|deep|old)(\w+))?")
_YEAR = re.compile(r"\b(?:in|since|until|from|before|after) ((?:1\d|20)\d\d)\b(?![,.]\d)", re.I)
_PRICE_ASKED = re.compile(
    r"\bhow much\b|\bwhat\b.* (?:cost|price|fee|rent|fare|wage|pay|charge)s?\b", re.I
)
_PRICE = re.compile(
    r"[$£€¥]|\b(?:EUR|USD|GBP|CHF|(?:euro|pound|dollar|cent|price|cost|fee|rent|amount|charge)s?)\b",
    re.I,
)
"""what shows that a number, or one below such a name of a column, is a sum of money"""
_REASON_SAID = re.compile(rf"(?:{_REASON.pattern})[^.;\n]*", re.I)
_NAME_BEGUN = re.compile(
    rf"{_NAME.pattern}|\b(?!(?i:{'|'.join(sorted(QUESTION_WORDS))})\b)[A-Z][\w’'-]+(?= [A-Z])"
)
"""a name; one begins a sentence where another capital follows, as in Mo Adeyemi"""


def split_answering_words(text: str, question: str) -> list[tuple[str, bool]]:
    """Cut a quote into pieces, and tell of each whether it is what the question asks for.

    Those are its dates, numbers or names, each whole: `£640`, `1 April 2024`; or a reason up to the
    end of its sentence. Only those are that stand in a sentence, or names in a clause, with the
    most words of the question. None are where the question expects nothing of that kind, or where
    so many stand there that it is open which is meant.
    """
    kind = _choose_marked_type(question)
    spans = _find_answering_words(text, question, kind) if kind else []
    shared = [_count_shared(text, *span, question, kind) for span in spans]
    spans = [span for span, n in zip(spans, shared, strict=True) if n == max(shared)]
    pieces, last = list[tuple[str, bool]](), 0
    for start, end in spans if len(spans) <= _MOST_MARKED else []:
        pieces += (text[last:start], False), (text[start:end], True)
        last = end
    return [*pieces, (text[last:], False)]


def find_answering_column(names: Sequence[str], cells: Sequence[str], question: str) -> int | None:
    """Return the number of the cell of a row that answers a question, None if that is open.

    It has other words than the question, and a value of the type that is expected. Where several
    have, it is the one whose column is named as a price is or by most words of the question.
    """
    terms, kind = set(get_question_terms(question)), _choose_marked_type(question)
    question_terms, is_price = set(split_terms(question)), _PRICE_ASKED.search(question) is not None
    scores = {
        at: (is_price and bool(_PRICE.search(f"{name} {cell}")), len(terms & {*split_terms(name)}))
        for at, (name, cell) in enumerate(zip(names or [""] * len(cells), cells, strict=True))
        if {*get_question_terms(cell)} - question_terms
        and (not kind or _find_answering_words(f"x {cell}", question, kind))
    }
    best = max(scores.values(), default=(False, 0))
    chosen = [at for at, score in scores.items() if score == best and (kind or any(best))]
    return chosen[0] if len(chosen) == 1 else None


def _choose_marked_type(question: str) -> str:
    priced = "number" if _PRICE_ASKED.search(question) else ""
    return "" if is_yes_no_question(question) else detect_answer_type(question) or priced


def _find_answering_words(text: str, question: str, kind: str) -> list[tuple[int, int]]:
    """Return the spans of whole words of an answer type that the question has not itself.

    A date or number of several words is one, with its unit. Dates are no numbers, and those of a
    price are sums of money where there are such.
    """
    patterns = _PATTERN_BY_TYPE | {"reason": _REASON_SAID, "name": _NAME_BEGUN}
    spans, joined, dates = list[tuple[int, int]](), text, set[int]()
    for start, end, terms in find_written_values(text):
        joined = joined[:start] + re.sub(r"\s", "_", text[start:end]) + joined[end:]
        dates.update(range(start, end) if "-" in terms[0] else ())
    for year in _YEAR.finditer(text):
        dates.update(range(*year.span(1)))
    words = [word.span(1) for word in _WORD.finditer(joined)]
    question_terms = set(split_terms(question))
    for match in patterns[kind].finditer(text):
        if kind == "number" and match.start() in dates:
            continue
        inside = [each for each in words if each[0] < match.end() and match.start() < each[1]]
        start, end = inside[0][0], inside[-1][1]
        is_counted = kind == "number" and text[start].isalpha() == match[0].isalpha()
        unit = _UNIT.match(text, end) if is_counted else None
        # "33,000 pine seeds" has no unit where the question has "seeds".
        if unit and not question_terms & {*split_terms(unit[1]), *split_terms(unit[2] or "")}:
            end = unit.end(1) if unit[1] not in QUESTION_WORDS else end
        between = text[spans[-1][1] : start] if spans else ""
        if spans and (start < spans[-1][1] or (kind == "name" and between in (" ", " & "))):
            start = spans.pop()[0]
        spans.append((start, end))
    spans = [each for each in spans if {*split_terms(text[slice(*each)])} - question_terms]
    if _PRICE_ASKED.search(question):
        spans = [each for each in spans if _PRICE.search(text[slice(*each)])] or spans
    return spans


def _count_shared(text: str, start: int, end: int, question: str, kind: str) -> int:
    """Count the question's words in the clause or sentence that text[start:end] stands in."""
    border = _CLAUSE_END if kind == "name" else _SENTENCE_END
    said = border.split(text[:start])[-1] + text[start:end] + border.split(text[end:])[0]
    return len(set(get_question_terms(question)).intersection(split_terms(said)))


def is_yes_no_question(question: str) -> bool:
    """Return True if the question begins as yes-or-no questions do."""
    return _YES_OR_NO.match(question) is not None


def mark_question(question: str) -> str:
    """Return a question as the evidence model has learnt to read it: with a mark at its end.

    People leave it out as they type, and have other marks in other languages. A question that ends
    as other sentences do stays as it is.
    """
    text = question.rstrip("?？؟ \t\n")
    return question if text.endswith(tuple(".!…。！")) or not text else f"{text}?"


def contains_negation(sentence: str) -> bool:
    """Return True if an English sentence contains a negation such as "not", "never" or "isn't"."""
    return _DENIAL.search(sentence) is not None
