"""Expected answer type of a question (date, number, name, reason), by English patterns.

A question in another language has no expected type.
"""

import re

from rookery.pages.search_terms import get_question_terms, split_terms
from rookery.written_values import find_written_values

_DATE_ASKED = re.compile(
    r"\bwhen\b|\b(?:what|which)\s+(?:\w+\s+)?(?:year|date|day|month|century|decade)\b", re.I
)
_NUMBER_ASKED = re.compile(
    r"\bhow\s+(?:many|much|long|old|far|tall|large|big|high|fast|often|deep|wide|heavy)\b"
    r"|\bwhat\s+(?:percent|percentage|number|age|amount|population|share)\b",
    re.I,
)
_NAME_ASKED = re.compile(
    r"\b(?:who|whom|whose|where)\b|\b(?:what|which)\s+(?:person|man|woman|king|queen|president|"
    r"author|artist|singer|company|city|country|state|group|organi[sz]ation|team)\b",
    re.I,
)
_REASON_ASKED = re.compile(r"\bwhy\b|\b(?:what|which)\s+(?:\w+\s+)?(?:reason|cause)s?\b", re.I)
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
    if _DATE_ASKED.search(question):
        return "date"
    if _NUMBER_ASKED.search(question):
        return "number"
    if _REASON_ASKED.search(question):
        return "reason"
    return "name" if _NAME_ASKED.search(question) else ""


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
_CLAUSE_END = re.compile(r"[,;:.!?\n]")


def split_answering_words(text: str, question: str) -> list[tuple[str, bool]]:
    """Cut a quote into pieces, and tell of each whether it is what the question asks for.

    Those are its dates, numbers or names, each whole: `£640`, `1 April 2024`; or a reason up to the
    end of its sentence. Of names only those are that stand in a clause with the most words of the
    question. None are where the question expects nothing of that kind, or where so many stand there
    that it is open which is meant.
    """
    kind = detect_answer_type(question)
    spans = _find_answering_words(text, question, kind) if kind else []
    if kind == "name" and spans:
        shared = [_count_shared(text, *span, question) for span in spans]
        spans = [span for span, n in zip(spans, shared, strict=True) if n == max(shared)]
    pieces, last = list[tuple[str, bool]](), 0
    for start, end in spans if len(spans) <= _MOST_MARKED else []:
        pieces += (text[last:start], False), (text[start:end], True)
        last = end
    return [*pieces, (text[last:], False)]


def _find_answering_words(text: str, question: str, kind: str) -> list[tuple[int, int]]:
    """Return the spans of whole words of an answer type that the question has not itself.

    A date or number of several words is one.
    """
    pattern = re.compile(rf"(?:{_REASON.pattern})[^.;\n]*", re.I) if kind == "reason" else None
    spans, joined = list[tuple[int, int]](), text
    for start, end, _ in find_written_values(text):
        joined = joined[:start] + re.sub(r"\s", "_", text[start:end]) + joined[end:]
    words = [word.span(1) for word in _WORD.finditer(joined)]
    for match in (pattern or _PATTERN_BY_TYPE[kind]).finditer(text):
        inside = [each for each in words if each[0] < match.end() and match.start() < each[1]]
        start, end = inside[0][0], inside[-1][1]
        if spans and (start < spans[-1][1] or (kind, text[spans[-1][1] : start]) == ("name", " ")):
            start = spans.pop()[0]
        spans.append((start, end))
    terms = set(re.findall(r"\w+", question.lower()))
    return [each for each in spans if set(re.findall(r"\w+", text[slice(*each)].lower())) - terms]


def _count_shared(text: str, start: int, end: int, question: str) -> int:
    """Count the question's words in the clause that text[start:end] stands in."""
    before, after = _CLAUSE_END.split(text[:start])[-1], _CLAUSE_END.split(text[end:])[0]
    clause = f"{before}{text[start:end]}{after}"
    return len(set(get_question_terms(question)).intersection(split_terms(clause)))


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
