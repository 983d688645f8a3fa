"""What kind of words would answer a question: a date, a number, a name, a reason. English only.

It knows nothing of pages; a question in another language expects nothing in particular.
"""

import re

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
_HELD = {"date": _DATE, "number": _NUMBER, "reason": _REASON, "name": _NAME}
_YES_OR_NO = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.I
)
_DENIAL = re.compile(r"\b(?:not|no|never|cannot|none|nobody|nothing|neither|nor)\b|n[’']t\b", re.I)


def expected(question: str) -> str:
    """What an answer should hold: a "date", "number", "name", "reason" or "" (anything may do)."""
    if _DATE_ASKED.search(question):
        return "date"
    if _NUMBER_ASKED.search(question):
        return "number"
    if _REASON_ASKED.search(question):
        return "reason"
    return "name" if _NAME_ASKED.search(question) else ""


def held(sentence: str, kind: str, question: str) -> set[str]:
    """The dates, numbers, reasons or names (none that the question gives) of a sentence."""
    if not kind:
        return set()
    found = {match.group().lower() for match in _HELD[kind].finditer(sentence)}
    return {name for name in found if name not in question.lower()} if kind == "name" else found


def is_yes_or_no(question: str) -> bool:
    """Whether yes or no would answer it."""
    return _YES_OR_NO.match(question) is not None


def denies(sentence: str) -> bool:
    """Whether the sentence says that something is not so."""
    return _DENIAL.search(sentence) is not None
