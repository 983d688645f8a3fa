"""Verdicts on the quotes of saved answers.

A quote of Rookery's own must be the slice of the stored page that it names, read from the address
and under the title that it names (`check`, `verify`). A string that another tool quotes must stand
in the source that it names (`check_claimed`). Neither needs a model or a network. That a quote is
verbatim does not say that it supports what cites it.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from rookery.browse.locate import locate
from rookery.browse.passages import sentences
from rookery.cite.elision import find_gaps, find_objection, find_pieces, is_too_short
from rookery.cite.quotations import Claimed
from rookery.records import Answer, Page, Quote, Record

Outcome = Literal[
    "verified",
    "page_missing",
    "digest_differs",
    "wrong_source",
    "text_differs",
    "out_of_range",
    "too_short",
]
ClaimedOutcome = Literal[
    "verified",
    "elided",
    "not_found",
    "page_missing",
    "too_short",
    "broken_citation",
    "not_quoted",
]

SHOWN = 60
"""characters of a text that a sentence shows"""
TOO_SHORT = "it has fewer than three words, and no number or name"


class Verdict(Record, frozen=True):
    """The result of checking one quote."""

    quote: Quote
    outcome: Outcome
    detail: str = ""
    """one sentence for the reader; empty where the quote is verified without reservation"""

    @property
    def verified(self) -> bool:
        """Tell whether the quote is the slice of the page that it names, and says something."""
        return self.outcome == "verified"

    @property
    def verbatim(self) -> bool:
        """Tell whether it is that slice, be it too short to say anything."""
        return self.outcome in ("verified", "too_short")


class ClaimedVerdict(Record, frozen=True):
    """The result of checking one string that another tool quoted."""

    claimed: Claimed
    outcome: ClaimedOutcome
    """elided: it stands in the source with words left out; not_quoted: a sentence in the tool's own
    words"""
    detail: str = ""
    quotes: tuple[Quote, ...] = ()
    """the pieces of the page that the string consists of"""
    left_out: tuple[str, ...] = ()
    """what the page has between them"""
    accepted: bool = False
    """an elided quotation whose gaps hold nothing that could change its meaning"""

    @property
    def verified(self) -> bool:
        """Tell whether the string stands in its source, without gaps."""
        return self.outcome == "verified"


class TextVerdict(Record, frozen=True):
    """The result of checking a part of an answer's own text against its quotes."""

    text: str
    outcome: Literal["claim_differs", "not_judged"]
    """claim_differs: a method that only quotes never wrote this; not_judged: a model may have"""
    detail: str = ""


def verify(
    answer: Answer,
    pages: Callable[[Quote], Page | None],
    latest: Callable[[str], Page | None] = lambda url: None,
) -> list[Verdict]:
    """A verdict on each quote of the answer, in order.

    `pages(quote)` gives the stored version that comes nearest to what the quote names, as
    `Archive.find_quoted` does, or another version at its address; `latest(url)` the newest one.
    """
    return [check(quote, pages(quote), latest(quote.url)) for quote in answer.quotes]


def check(quote: Quote, page: Page | None, latest: Page | None = None) -> Verdict:
    """A verdict on `quote` as the slice of `page` that it names.

    `latest` is the newest version of the page: where it differs, a verified quote says so.
    """
    if page is None:
        return Verdict(quote, "page_missing", f"no copy of {quote.url} is stored")
    if page.digest != quote.digest:
        return Verdict(quote, "digest_differs", _in_another_version(quote, page))
    if page.url != quote.url:
        detail = f"this text was read from {page.url} and never from {quote.url}"
        return Verdict(quote, "wrong_source", detail)
    if page.title != quote.title:
        detail = f"the title of {page.url} is “{_short(page.title)}”, not “{_short(quote.title)}”"
        return Verdict(quote, "wrong_source", detail)
    if not 0 <= quote.start < quote.end <= len(page.text):
        size = len(page.text)
        detail = f"[{quote.start}:{quote.end}] is outside the page, which has {size} characters"
        return Verdict(quote, "out_of_range", detail)
    if page.text[quote.start : quote.end] != quote.text:
        return Verdict(quote, "text_differs", _other_text(quote, page))
    if is_too_short(page.text, quote.start, quote.end):
        return Verdict(quote, "too_short", TOO_SHORT)
    return Verdict(quote, "verified", _changed_since(quote.text, page, latest))


def find_unjudged_sentences(answer: Answer) -> list[TextVerdict]:
    """The sentences of the answer that are no quote: whether its quotes support them is open.

    What a claim copies from one of its own quotes, white space evened out, needs no judgement.
    """
    rest, done = "", 0
    for claim in answer.claims:
        copied = {" ".join(answer.quotes[number].text.split()) for number in claim.quotes}
        if " ".join(answer.text[claim.start : claim.end].split()) in copied:
            rest += answer.text[done : max(done, claim.start)] + "\n"
            done = max(done, claim.end)
    page = Page("", "", rest + answer.text[done:])
    spans = sentences(page, 0, len(page.text)) if page.text.strip() else []
    said = [page.text[start:end] for start, end in spans]
    detail = "only the quotes of what a model may have written are checked"
    return [TextVerdict(each, "not_judged", detail) for each in said if any(map(str.isalnum, each))]


def check_claimed(
    claimed: Claimed, versions: Iterable[Page], allow_elided: bool = False
) -> ClaimedVerdict:
    """A verdict on a string by the stored versions of the source that it names, newest first.

    The first version in which the whole string stands decides, else the first that holds it with
    gaps. Such an elided quotation is never verified; `allow_elided` accepts those to which
    `find_objection` has none.
    """
    if claimed.problem:
        return ClaimedVerdict(claimed, "broken_citation", claimed.problem)
    if not claimed.quoted:
        detail = "a citation without quoted words: nothing to check"
        return ClaimedVerdict(claimed, "not_quoted", detail)
    if not claimed.url and not claimed.title:
        return ClaimedVerdict(claimed, "page_missing", "no source is named beside it")
    latest: dict[str, Page] = {}
    elided: ClaimedVerdict | None = None
    for page in versions:
        latest.setdefault(page.url, page)
        quotes = find_pieces(page, claimed.text)
        if len(quotes) == 1:
            return _standing(claimed, quotes[0], page, latest[page.url])
        if quotes and elided is None:
            elided = _elided(claimed, quotes, page, allow_elided)
    if not latest:
        return ClaimedVerdict(claimed, "page_missing", "its source is not stored")
    missing = ClaimedVerdict(claimed, "not_found", "these words do not stand in the source")
    return elided or missing


def _standing(claimed: Claimed, quote: Quote, page: Page, latest: Page) -> ClaimedVerdict:
    if is_too_short(page.text, quote.start, quote.end):
        return ClaimedVerdict(claimed, "too_short", TOO_SHORT, (quote,))
    detail = _changed_since(quote.text, page, latest)
    return ClaimedVerdict(claimed, "verified", detail, (quote,))


def _elided(
    claimed: Claimed, quotes: tuple[Quote, ...], page: Page, allow_elided: bool
) -> ClaimedVerdict:
    gaps = find_gaps(page, quotes)
    objection = find_objection(page, quotes) if allow_elided else ""
    detail = "left out: " + ", ".join(f"“{_middle_cut(gap)}”" for gap in gaps)
    if allow_elided:
        detail += f"; not accepted: {objection}" if objection else "; accepted by --allow-elided"
    accepted = allow_elided and not objection
    return ClaimedVerdict(claimed, "elided", detail, quotes, gaps, accepted)


def _changed_since(text: str, page: Page, latest: Page | None) -> str:
    """What a reader should know of a page whose newest version is another one."""
    if latest is None or latest.digest == page.digest:
        return ""
    version = f"the version of {page.fetched[:10]}" if page.fetched else "an earlier version"
    still = "still" if locate(latest, text) else "no longer"
    return f"verified against {version}; the page now differs and {still} has these words"


def _in_another_version(quote: Quote, page: Page) -> str:
    changed = f"the stored copy of {page.url} is another version"
    if page.fetched:
        changed += f" (fetched {page.fetched})"
    return f"{changed}; {_where_it_stands(quote, page)}"


def _other_text(quote: Quote, page: Page) -> str:
    there = _short(page.text[quote.start : quote.end])
    return f"the page has “{there}” at [{quote.start}:{quote.end}]; {_where_it_stands(quote, page)}"


def _where_it_stands(quote: Quote, page: Page) -> str:
    found = locate(page, quote.text, after=quote.start)
    if found is None:
        return f"“{_short(quote.text)}” does not stand in it"
    how = "" if found.text == quote.text else ", but for case, white space or typography,"
    return f"the quoted text stands in it{how} at [{found.start}:{found.end}]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1].rstrip() + "…"


def _middle_cut(text: str) -> str:
    """The text on one line; of a long one, its ends and how much stands between them."""
    line = " ".join(text.split())
    if len(line) <= 10 * SHOWN:
        return line
    return f"{line[: 5 * SHOWN]} ({len(line) - 10 * SHOWN:,} characters) {line[-5 * SHOWN :]}"
