"""Dates, numbers and versions as people write them, each with terms that all its forms share."""

import re
from typing import NamedTuple

_MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "jän feb mrz apr mai jun jul aug sept okt nov dez",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    )
    for number, name in enumerate(names.split(), 1)
}
_MONTH = r"(?P<m>[JFMASONDEjfmasonde][^\W\d_]{2,9}+)\b\.?"
_DATES = [
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.-])(?P<y>\d{4})([-/.])(?P<m>\d\d?)\2(?P<d>\d\d?)(?![\d-])",
        rf"(?<![\w.,])(?P<d>\d\d?)(?:st|nd|rd|th|er|[.º])?(?:\s(?:of|de))?[\s-]+{_MONTH}"
        r"(?:(?:,|\sdel?)?[\s-]+(?P<y>\d{4})\b)?",
        rf"\b{_MONTH}\s+(?P<d>\d\d?)(?:st|nd|rd|th)?\b(?![.:/-]\d)(?:,?\s+(?P<y>\d{{4}})\b)?",
        rf"\b{_MONTH},?\s+(?P<y>\d{{4}})\b",
        r"(?<![\w.,])(?P<d>\d\d?)\.\s?(?P<m>\d\d?)\.(?:\s?(?P<y>\d{4}|\d\d)\b(?!\.\d))?(?!\d)",
        r"(?<![\w/])(?P<a>\d\d?)/(?P<b>\d\d?)/(?P<y>\d{4})(?![\w/])",
    )
]
_NUMBER = re.compile(
    r"(?<![\d.,])(?<![^\W\dvV_])(?:\d+(?:\.\d+){2,}"
    r"|\d{1,3}(?:([.,'’\u00a0\u202f])\d{3}(?:\1\d{3})*)(?:[.,]\d+)?|\d+[.,]\d+|\d{4,})"
    r"(?![.,]?\d|[^\W\d_])"
)


class WrittenValue(NamedTuple):
    """A date, number or version in a text."""

    start: int
    end: int
    terms: tuple[str, ...]
    """of the value itself; of a day with a year then those of the day and of the month"""


def find_written_values(text: str) -> list[WrittenValue]:
    """Return the dates, numbers and versions of a text, in order.

    A number is one with a separator or with four digits or more. Dates whose day and month may be
    either way round, such as 2/3/2026, are none.
    """
    spans = [
        (match.span(), _get_date_terms(**match.groupdict("")))
        for pattern in _DATES
        for match in pattern.finditer(text)
    ]
    spans += ((match.span(), (_normalize_number(match[0]),)) for match in _NUMBER.finditer(text))
    values = list[WrittenValue]()
    for (start, end), terms in sorted(spans, key=lambda each: each[0][0]):
        if terms and (not values or values[-1].end <= start):
            values.append(WrittenValue(start, end, terms))
    return values


def _get_date_terms(
    y: str = "", m: str = "", d: str = "", a: str = "", b: str = ""
) -> tuple[str, ...]:
    if a:
        low, high = sorted((a, b), key=int)
        m, d = (low, high) if int(high) > 12 or low == high else ("0", "0")
    month, day = int(m) if m.isdigit() else _MONTHS.get(m.lower(), 0), int(d or 0)
    if not (1 <= month <= 12 and (not d or 1 <= day <= 31)):
        return ()
    year = f"20{y}" if len(y) == 2 else y
    of_year, of_month = f"{month:02}-{day:02}", f"{year}-{month:02}"
    if not (year and day):
        return (of_year if day else of_month,)
    return f"{year}-{of_year}", of_year, of_month


def _normalize_number(text: str) -> str:
    """Return a number without separators of thousands and without zeros behind its decimals."""
    marks = re.sub(r"\d", "", text)
    if len(marks) > 1 and set(marks) == {"."} and not re.fullmatch(r"\d{1,3}(?:\.\d{3})+", text):
        return text  # a version
    *thousands, last = re.split(r"[^\d]", text)
    grouped = len(last) == 3 and len(set(marks)) == 1 and text[0] != "0"
    if not thousands or grouped:
        return "".join((*thousands, last))
    whole = "".join(thousands)
    decimals = last.rstrip("0") if len(whole) > 1 else last
    return f"{whole}.{decimals}" if decimals else whole


def list_value_terms(text: str) -> list[str]:
    """Return the distinct search terms of the dates, numbers and versions of a text, in order."""
    if not any(map(str.isdigit, text)):
        return []
    return list(dict.fromkeys(term for each in find_written_values(text) for term in each.terms))


def use_forms_of(question: str, text: str) -> str:
    """Return a question with its dates and numbers in the forms in which a text writes them.

    What the text has in the question's form, or not at all, stays.
    """
    values = find_written_values(question)
    forms = find_written_values(text) if values else []
    for value in reversed(values):
        written = question[value.start : value.end]
        alike = [text[form.start : form.end] for form in forms if _is_same(value, form)]
        if alike and written not in text:
            question = question[: value.start] + alike[0] + question[value.end :]
    return question


def _is_same(value: WrittenValue, form: WrittenValue) -> bool:
    """Tell whether two values are the same, or the same day where one of them has no year."""
    return value.terms[0] in form.terms[:2] or form.terms[0] in value.terms[:2]


def format_count(number: int, what: str) -> str:
    """Return a number with the word for what is counted: `1 quote`, `2,000 quotes`."""
    return f"{number:,} {what}{'s' * (number != 1)}"
