"""Quotes typed from memory: what is near enough, and what no likeness may carry through."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.pages.text_folding import fold_text
from rookery.quotes import repair
from rookery.quotes.repair import LEAST_SIMILARITY, repair_quote
from rookery.records import Page

TEXT = (
    "Crows are not known to forget a face. In 2012 John Marzluff showed that the birds can recall "
    "the mask of a trapper for at least five years. It is unlikely that a raven, which is about "
    "63.5 cm long, would be able to hide 3,000 seeds without help. The grip costs £5 or 7%, and "
    "those who were careful have never lost any food to the jays of the wood. "
    "Yet a person who is very careful and quiet may never see them, and in all the old towers of "
    "it there were some 40 thousand."
)
PAGE = Page("https://crows.example/", "Crows", TEXT)


@pytest.mark.parametrize(
    ("typed", "outcome", "text"),
    [
        ("can recall the mask of a trapper", "exact", "can recall the mask of a trapper"),
        ("  a raven, which is about ", "exact", "a raven, which is about"),
        ("CROWS are  not known", "folded", "Crows are not known"),
        (
            "the birds can recal the msk of a traper for at laest",
            "repaired",
            "the birds can recall the mask of a trapper for at least",
        ),
        (
            "in 2012 john marzluff showed that the brids",
            "repaired",
            "In 2012 John Marzluff showed that the birds",
        ),
        (
            "recall the mask of trapper for least five years.",
            "repaired",
            "recall the mask of a trapper for at least five years.",
        ),
        (
            "“the birds can still recall the mask of a trapper for at least…”",
            "repaired",
            "the birds can recall the mask of a trapper for at least",
        ),
    ],
)
def test_the_pages_own_span_is_proposed(typed: str, outcome: str, text: str) -> None:
    found = repair_quote(PAGE, typed)
    assert found.outcome == outcome
    assert found.quote is not None
    assert found.quote.text == text
    assert (found.score == 100) == (outcome != "repaired")
    assert found.score >= 90
    assert found.quote == PAGE.quote(found.quote.start, found.quote.end)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        (
            "Crows are known to forget a face.",
            "the page has “not” where the quote has nothing: a negation",
        ),
        (
            "Crows are now known to forget a face.",
            "the page has “not” where the quote has nothing: a negation",
        ),
        ("Crows are known not to forget a face.", "a negation"),
        ("the birds can not recall the mask of a trapper", "a negation"),
        ("the birds can't recall the mask of a trapper", "a negation"),
        ("the birds cant recall the mask of a trapper", "a negation"),
        ("never the birds can recall the mask of a trapper", "at an edge, the quote has “never”"),
        ("of a trapper for at least. It is unlikely that a raven", "a number"),
        ("known, to forget a face. In 2012 John Marzluff", "leaves out “not”, which stands beside"),
        ("a person, who is very careful and quiet, may.", "leaves out “never”"),
        ("and in all the old towers of it there were some 40.", "leaves out “thousand”"),
        ("It is likely that a raven, which is about 63.5 cm long", "a negation"),
        ("It is unlikeli that a raven, which is abuot 63.5 cm", ""),
        ("would be unable to hide 3,000 seeds without help.", "a negation"),
        ("would be unnable to hide 3,000 seeds without help.", "a negation"),
        ("be able to hide 3,000 seeds with help. The grip", "a negation"),
        ("those who were careless have never lost any food", "a negation"),
        ("those who were careful have ever lost any food", "a negation"),
        (
            "In 2021 John Marzluff showed that the birds can recall",
            "the page has “2012” where the quote has “2021”: a number",
        ),
        ("which is about 635 cm long, would be able to hide", "a number"),
        ("which is about 63.5cm long, would be able to hide", "a number"),
        ("which is about -63.5 cm long, would be able to hide", "a number"),
        ("which is about < 63.5 cm long, would be able to hide", "a number"),
        ("would be able to hide 3.000 seeds without help.", "a number"),
        ("would be able to hide seeds without help. The grip", "a number"),
        ("The grip costs $5 or 7%, and those who were careful", "a number"),
        ("The grip costs £5 or 7‰, and those who were careful", "a number"),
        ("of a trapper for at least four years. It is unlikely", "a number"),
        ("of a trapper for at least years. It is unlikely that", "a number"),
        ("In 2012 John Marzlufe showed that the birds can recall", "a name"),
        ("In 2012 Joan Marzluff showed that the birds can recall", "a name"),
        ("In 2012 Marzluff showed that the birds can recall the", "a name"),
        ("In 2012 Marzluff John showed that the birds can recall", "a name"),
        ("Cows are not known to forget a face. In 2012 John", "a name"),
        ("the Birds of Ulster can recall the mask of a trapper", "a name"),
    ],
)
def test_what_turns_the_meaning_is_refused(
    typed: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is the control: two slips that turn nothing."""
    monkeypatch.setattr(repair, "LEAST_SIMILARITY", 80)
    found = repair_quote(PAGE, typed)
    assert found.score >= 80
    assert (found.quote is None) == bool(reason)
    assert reason in found.detail


def test_a_negation_of_the_next_sentence_is_not_left_out() -> None:
    page = Page(
        "https://crows.example/", "", "Is it so? Never. The birds remember it. Nobody saw them."
    )
    assert repair_quote(page, "The brids remember it.").outcome == "repaired"


def test_a_dropped_article_at_the_start_of_a_sentence_is_no_name() -> None:
    found = repair_quote(PAGE, "3,000 seeds without help. grip costs £5 or 7%")
    assert found.outcome == "repaired"


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "only quotes of 20 to 5,000 characters"),
        ("Crowz forget", "only quotes of 20 to 5,000 characters"),
        ("crows " * 1000, "only quotes of 20 to 5,000 characters"),
        ("a mask of the birds that the trapper showed", "nothing on the page is 90 % alike"),
        (f"{TEXT} and then a lot that nobody said " * 3, "nothing on the page is 90 % alike"),
    ],
)
def test_what_is_too_short_too_long_or_too_far_is_rejected(typed: str, reason: str) -> None:
    found = repair_quote(PAGE, typed)
    assert (found.quote, found.outcome) == (None, "rejected")
    assert reason in found.detail


@pytest.mark.parametrize(
    "text",
    [
        "Krähen vergessen ein Gesicht nicht, und die Raben in der Stadt so wenig wie im Wald.",
        "La corneille n'oublie pas un visage, et le geai non plus ; on me dit que cela dure.",
        "El cuervo no olvida una cara, a veces me parece que nos mira como si supiera algo.",
        "Вороны не забывают лица людей, которые их ловили, и рассказывают о них другим.",
        "カラスは自分を捕まえた人の顔を忘れないし、仲間にもそのことを教えると言われている。",
    ],
)
def test_where_negations_are_not_known_nothing_is_repaired(text: str) -> None:
    page = Page("https://elsewhere.example/", "", text)
    assert repair_quote(page, text.upper()).outcome in ("exact", "folded")
    typed = text[:17] + text[18:]
    assert "does not read as English" in repair_quote(page, typed).detail


@given(st.text(st.sampled_from("ab no5É.'-\u00ad\u0301½ "), max_size=90), st.text(max_size=60))
def test_any_text_gives_a_slice_or_a_reason(text: str, typed: str) -> None:
    page = Page("https://odd.example/", "", text)
    for said in (typed, text[3:40] + "x" + text[41:]):
        found = repair_quote(page, said)
        assert (found.quote is None) == (found.outcome == "rejected") == bool(found.detail)
        if found.quote:
            assert found.quote == page.quote(found.quote.start, found.quote.end)


# From here on, quotes of about 200 characters from 29 pages on crows, changed in known ways.

Change = Callable[[Random, str], str]
QUOTES = 150


@cache
def pages() -> tuple[Page, Page]:
    """Two long pages, each made of other pages."""
    texts = []
    for path in sorted(get_bundled_folder().rglob("*.html")):
        page = read_page(path.read_bytes(), "https://crows.example/", "text/html; charset=utf-8")
        texts.append("\n".join(page.text[block.start : block.end] for block in page.iter_article()))
    halves = "\n".join(texts[::2])[:16_000], "\n".join(texts[1::2])[:16_000]
    return Page("https://one.example/", "", halves[0]), Page("https://two.example/", "", halves[1])


def typos(random: Random, text: str) -> str:
    """2.5 % of the letters replaced, left out, followed by another or turned round."""
    letters = list(text)
    for at in random.sample(range(1, len(letters)), len(letters) // 40):
        stray = random.choice("abcdefghijklmnopqrstuvwxyz")
        before = letters[at - 1]
        changes = ((before, stray), (before, ""), (before, letters[at] + stray))
        letters[at - 1], letters[at] = random.choice([*changes, (letters[at], before)])
    return "".join(letters)


def typography(random: Random, text: str) -> str:
    return text.replace("'", "’").replace("-", "–").replace(" ", "\u00a0 ", 3).upper()


def dropped(random: Random, text: str) -> str:
    return " ".join(word for word in text.split() if random.random() > 1 / 12)


def replaced(random: Random, text: str) -> str:
    others = pages()[1].text.split()
    return " ".join(
        random.choice(others) if random.random() < 1 / 6 else word for word in text.split()
    )


def shuffled(random: Random, text: str) -> str:
    return " ".join(random.sample(text.split(), len(text.split())))


def quotes(page: Page, random: Random) -> Iterator[tuple[int, int]]:
    for _ in range(QUOTES):
        start = page.text.rfind(" ", 0, random.randrange(len(page.text) - 300)) + 1
        yield start, page.text.index(" ", start + 200)


def rates(change: Change, source: int = 0) -> tuple[float, float, float]:
    """The shares that are alike enough and that are accepted, and how well the spans of the
    accepted ones lie on what was meant (intersection over union)."""
    random, folded = Random(4), fold_text(pages()[0].text)
    near, overlaps = 0, []
    for start, end in quotes(pages()[source], random):
        typed = change(random, pages()[source].text[start:end])
        mended = repair_quote(pages()[0], typed, folded=folded)
        near += mended.score >= LEAST_SIMILARITY
        if mended.quote:
            overlap = min(end, mended.quote.end) - max(start, mended.quote.start)
            either = max(end, mended.quote.end) - min(start, mended.quote.start)
            overlaps.append(overlap / either)
    fit = sum(overlaps) / len(overlaps) if overlaps else 1.0
    return near / QUOTES, len(overlaps) / QUOTES, fit


@pytest.mark.parametrize(
    ("change", "near", "accepted", "fit"),
    [
        (lambda random, text: text, 1.0, 1.0, 1.0),
        (typography, 1.0, 1.0, 1.0),
        (typos, 0.89, 0.25, 0.97),
        (dropped, 0.74, 0.55, 0.96),
    ],
)
def test_honest_slips_are_near_enough_and_many_are_accepted(
    change: Change, near: float, accepted: float, fit: float
) -> None:
    """What is near and not accepted touches a number, a name or a negation."""
    seen = rates(change)
    assert seen[0] >= near
    assert seen[1] >= accepted
    assert seen[2] >= fit


@pytest.mark.parametrize(
    ("change", "source", "most"),
    [(replaced, 0, 0.23), (shuffled, 0, 0.0), (lambda random, text: text, 1, 0.0)],
)
def test_what_was_made_up_is_seldom_accepted(change: Change, source: int, most: float) -> None:
    assert rates(change, source)[1] <= most


def changed_meanings(text: str) -> Iterator[tuple[str, str]]:
    """Sentences of the text, each with one change that turns what it says."""
    for sentence in re.findall(r"[A-Z][^.!?\n]{40,}[.!?]", text):
        for verb in re.finditer(r"\b(?:is|are|was|were|can|will|has|have|do|does)\b", sentence):
            yield sentence, f"{sentence[: verb.end()]} not{sentence[verb.end() :]}"
        for digit in re.finditer(r"\d", sentence):
            other = str((int(digit[0]) + 1) % 10)
            yield sentence, sentence[: digit.start()] + other + sentence[digit.end() :]
        for name in re.finditer(r"(?<=\w )(?!The\b)[A-Z][a-z]{2,}(?= \w)", sentence):
            yield sentence, sentence[: name.start()] + "Quillon" + sentence[name.end() :]
            yield sentence, sentence[: name.start()] + sentence[name.end() + 1 :]


@pytest.mark.parametrize("back", [False, True])
def test_no_sentence_passes_for_one_with_another_meaning(back: bool) -> None:
    """Typed with the change where the page is without it, and without where the page has it."""
    tried = near = 0
    for pair in changed_meanings(pages()[0].text):
        there, typed = reversed(pair) if back else pair
        context = pages()[1].text[:2000]
        found = repair_quote(
            Page("https://one.example/", "", f"{context} {there} {context}"), typed
        )
        tried += 1
        near += found.score >= 90
        if found.outcome == "folded":
            assert (
                fold_text(typed).text in fold_text(there).text
            )  # "an crow" is a slice of "American crow"
        elif found.outcome == "exact":
            assert typed in there
        else:
            assert found.quote is None, (there, typed)
    assert near >= 0.8 * tried >= 100
