"""Compare what two quotes answer to one question: dates, times, amounts, holders, yes and no."""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from rookery.pages.search_terms import QUESTION_WORDS, get_question_terms, split_terms
from rookery.quotes.answer_types import contains_negation, detect_answer_type, is_yes_no_question

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DATE = re.compile(
    r"\b(\d{4})-(0[1-9]|1[0-2])(?:-(\d\d))?\b"
    rf"|\b(\d\d?)(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? (\d{{4}}))?\b"
    rf"|\b{_MONTH} (\d\d?)(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?"
    r"|\b(1[5-9]\d\d|20\d\d)\b",
    re.I,
)
_TIME = re.compile(r"\b(\d\d?)[:.](\d\d)\b(?! ?[%€$\d])|\b(\d\d?) ?([ap])\.?m\b", re.I)
_TIME_ASKED = re.compile(r"\b(?:time|deadline|due)\b", re.I)
_DIGITS = "one two three four five six seven eight nine ten eleven twelve".split()
_AMOUNT = re.compile(
    rf"([€$£]|\b(?:EUR|USD|GBP|CHF)\b|) ?\b(\d+(?:[,']\d{{3}})*(?:\.\d+)?|{'|'.join(_DIGITS)})\b"
    r"(?![-/:]\d)[ -]?(?:for (?:the )?)?([€$£%]|[^\W\d_]+(?:/[^\W\d_]+)?)?",
    re.I,
)
_UNITS = {"eur": "euro", "€": "euro", "$": "dollar", "usd": "dollar", "percent": "%"}
_DAYS = {"minut": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30.4, "year": 365}
_BOUND = re.compile(
    r"\b(?:(at most|maximum|no more than|up to|not exceed)|(at least|minimum|no less than)"
    r"|(default))\b",
    re.I,
)
_CHANGES = (
    r"no longer|any ?more|now|from \w+ on|moved|postponed|extended|changed|raised|rises"
    r"|increased|lowered|reduced|instead|corrected|replaced|elected|appointed"
)
_CHANGED = re.compile(rf"\b(?:{_CHANGES})\b", re.I)
_MAY_BE_CHANGED = re.compile(
    rf"\b(?:{_CHANGES}|from (?:now|\d+ \w+)(?: \d{{4}})? on|as (?:from|of)"
    r"|with effect|takes? effect|effective|put off|brought forward|changes?(?! (?:each|every))"
    r"|go(?:es)? (?:up|down)|went (?:up|down)|increase|falls|correction|replaces?|amend(?:ed|ment)?"
    r"|variation|becomes?|was wrong|called off|cancelled|withdrawn|revised|reverses?|supersedes?"
    r"|in place of|in future|after all|previous(?:ly)?|until now|so far|earlier|last time)\b",
    re.I,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|when|while|until|except|only|without|that (?:is|are|ha[sd])|which|who)\b", re.I
)
_EVERY = re.compile(r"\b(?:every|each|all|any)\b", re.I)
_HOLDER = re.compile(
    r"\bwho(?:(?: is|[’']s) (?:the|our|your)| (?:chairs|leads|heads|runs|manages|keeps))\b", re.I
)
_NAME = re.compile(r"(?<!^)\b[A-Z][\w’'-]+")
_BEFORE = re.compile(r"(?:\b(?:the|an?|our|your|its|this)\s+|^)([\w-]+)\s+([\w-]+)", re.I)
_BEHIND = re.compile(r"([\w-]+) (of|for) (?:the |an? |our |your |its )?([^\W\d][\w-]+)", re.I)
_NUMBERED = re.compile(r"([\w-]+) (?:no\.? ?)?(\d{1,3}|[A-Z])\b")
_PERIOD = re.compile(rf"\b(?:in|during|of|for) (?:{_MONTH} ?(?:\d{{4}})?|(\d{{4}}))\b", re.I)
_SENTENCE = re.compile(r"(?<=[^\d][.!?])\s+|\n+")
_LEAST_TERMS = 3
"""terms of a question that names what it is about; where it has fewer, pages may be about others"""
_LEAST_SHARED = 0.2
"""share of the words of the shorter of two texts that speak of the same matter"""

Value = tuple[float | None, ...]


def differ_in_answer(question: str, first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Tell whether two quotes, each with its headings, answer an English question in two ways.

    Their sentences must speak of all that the question asks about, and of nothing more special: no
    other year, course or bound. What is not understood does not differ.
    """
    terms = set(get_question_terms(question))
    sentences = [_choose_sentence(terms, *each) for each in (first, second)]
    if not all(sentences) or not _are_about_the_same(terms, sentences, (first[1], second[1])):
        return False
    changed = any(map(_CHANGED.search, sentences))
    kind = detect_answer_type(question)
    if is_yes_no_question(question):
        denied = {contains_negation(each) for each in sentences}
        return len(denied) == 2 and (changed or not any(map(_CONDITION.search, sentences)))
    if kind == "name":
        names = [set(_NAME.findall(each)) - set(_NAME.findall(question)) for each in sentences]
        return bool(_HOLDER.search(question)) and all(names) and not names[0] & names[1]
    if kind == "date" or _TIME_ASKED.search(question):
        values = [{*_list_times(each), *_list_amounts(each, "duration")} for each in sentences]
    else:
        values = [{*_list_amounts(each)} for each in sentences]
    units = set.intersection(*({unit for unit, _ in each} for each in values))
    for unit in units & terms or units:
        one, other = ([value for name, value in each if name == unit] for each in values)
        alike = [_are_alike(*pair) for pair in product(one, other)]
        differs = not any(alike) or (changed and len(one) != len(other))
        if differs and (unit or len(one) + len(other) == 2):
            return True
    return False


def tells_change(text: str, before: str) -> bool:
    """Tell whether an English text seems to say that what another speaks of has changed."""
    now, then = (
        {each for each in split_terms(part) if not each.isdigit() and len(each) > 2}
        - QUESTION_WORDS
        for part in (text, before)
    )
    is_about = len(now & then) >= _LEAST_SHARED * min(len(now), len(then))
    return is_about and _MAY_BE_CHANGED.search(text) is not None


def _choose_sentence(terms: set[str], quote: str, heading: str) -> str:
    """Return what of a quote speaks most of what is asked; empty if much of that is missing."""
    parts = [each for each in _SENTENCE.split(quote) if each and not each.endswith("?")]
    counts = [len(terms.intersection(split_terms(each))) for each in parts]
    missing = terms.difference(split_terms(f"{heading} {quote}"))
    if 4 * len(missing) > len(terms) or not parts or 2 * max(counts) < len(terms):
        return ""
    return " ".join(part for part, n in zip(parts, counts, strict=True) if n == max(counts))


def _are_about_the_same(terms: set[str], sentences: list[str], headings: tuple[str, str]) -> bool:
    """Return False if one sentence speaks of another case, as far as its words tell."""
    titles = [set(split_terms(each)) - terms - QUESTION_WORDS - {"re"} for each in headings]
    vague = len(terms) < _LEAST_TERMS and not any(map(_CHANGED.search, sentences))
    if vague and titles[0] != titles[1] and not titles[0] & titles[1]:
        return False
    (kind, *limits), (other_kind, *others) = (
        _list_limits(terms, *each) for each in zip(sentences, headings, strict=True)
    )
    if kind != other_kind and not any(map(_EVERY.search, sentences)):
        return False
    return not any(a and b and not a & b for a, b in zip(limits, others, strict=True))


def _list_limits(terms: set[str], sentence: str, heading: str) -> Iterator[set[str]]:
    """Yield what a sentence is limited to: kinds (the `great` hall), cases, bounds, periods."""

    def choose_words(pairs: Iterable[tuple[str, str]]) -> set[str]:
        return {
            word.lower()
            for word, term in pairs
            if terms.intersection(split_terms(term)) and not terms.intersection(split_terms(word))
            if word.lower() not in QUESTION_WORDS and word.lower() not in _DIGITS
        }

    behind = _BEHIND.findall(sentence)
    yield choose_words(
        [*_BEFORE.findall(sentence), *((w, t) for t, sign, w in behind if sign == "for")]
    )
    yield choose_words((word, term) for term, sign, word in behind if sign == "of")
    yield {word.lower() for _, sign, word in behind if sign == "for"}
    yield choose_words((number, term) for term, number in _NUMBERED.findall(heading))
    yield {str(each.lastindex) for each in _BOUND.finditer(sentence)}
    yield {each[0].lower() for each in _PERIOD.finditer(sentence)}


def list_dates(text: str) -> Iterator[tuple[int | None, int | None, int | None]]:
    """Yield year, month and day of each date in an English text; None for what it leaves out."""
    for each in _DATE.finditer(text):
        y1, m1, d1, d2, m2, y2, m3, d3, y3, y4 = each.groups()
        year, day, month = y1 or y2 or y3 or y4, d1 or d2 or d3, m2 or m3
        number = int(m1) if m1 else _MONTHS.index(month[:3].lower()) + 1 if month else None
        yield int(year) if year else None, number, int(day) if day else None


def _list_times(sentence: str) -> Iterator[tuple[str, Value]]:
    yield from (("date", each) for each in list_dates(sentence))
    for each in _TIME.finditer(sentence):
        hour, minute, clock, half = each.groups()
        late = 12 * (half is not None and half.lower() == "p")
        yield "time", (int(hour or clock) + late, int(minute or 0))


def _list_amounts(sentence: str, only: str | None = None) -> Iterator[tuple[str, Value]]:
    text = re.sub(r"\b\d\d?:\d\d\b", "", _DATE.sub("", sentence)).lower()
    for before, digits, after in _AMOUNT.findall(text):
        number = float(
            _DIGITS.index(digits) + 1 if digits in _DIGITS else re.sub("[,']", "", digits)
        )
        unit = before or ("" if after in QUESTION_WORDS else after)
        unit = _UNITS.get(unit, (split_terms(unit) or [unit])[0])
        if unit in _DAYS:
            unit, number = "duration", number * _DAYS[unit]
        if only in (None, unit):
            yield unit, (number,)


def _are_alike(one: Value, other: Value) -> bool:
    pairs = [(x, y) for x, y in zip(one, other, strict=True) if x is not None and y is not None]
    return all(abs(x - y) <= 0.02 * max(x, y) for x, y in pairs)
