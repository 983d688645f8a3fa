"""Forms filled in: what is read of what was posted, and that it can be shown again."""

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from formed import filled_in, item
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.desk.form_parsing import encode_form, parse_form
from rookery.desk.forms import FORMS, LabellingForm, PostedValues

COMPARE, SUPPORTED = FORMS["compare"], FORMS["supported"]
MISSING = "Not filled in yet"
UNFINISHED = (MISSING, "At least ")
"""beginnings of what is said of a draft: a comment may have too few words so far"""
EVERY = [pytest.param(form, id=name) for name, form in FORMS.items()]


def posted(
    form: LabellingForm, raw: dict[str, str], order: Sequence[int] = (0, 1)
) -> dict[str, Any]:
    """What is read; nothing but what is missing may be wrong with it."""
    found = parse_form(
        form, item(form.name), order, {name: [value] for name, value in raw.items()}, False
    )
    assert all(problem.sentence.startswith(MISSING) for problem in found.problems), found.problems
    return found.filled


def wrong(form: LabellingForm, raw: PostedValues, whole: bool = False) -> dict[str, str]:
    """The sentences on what is wrong, by the names in HTML; not on what is missing."""
    of = item(form.name)
    found = parse_form(form, of, range(len(of.answers)), raw, whole)
    said = {problem.field: problem.sentence for problem in found.problems}
    return {name: said for name, said in said.items() if not said.startswith(MISSING)}


# What is read


def test_answers_are_numbered_as_the_item_has_them() -> None:
    raw = {
        "plausible.0": "yes",
        "plausible.1": "no",
        "supported.0": "unsure",
        "preferred": "0",
        "comment": "",
    }
    assert posted(SUPPORTED, raw, (0, 1)) == {
        "plausible": ["yes", "no"],
        "supported": ["unsure", None],
        "preferred": 0,
    }
    assert posted(SUPPORTED, raw, (1, 0)) == {
        "plausible": ["no", "yes"],
        "supported": [None, "unsure"],
        "preferred": 1,
    }


@pytest.mark.parametrize(("order", "stored"), [((0, 1), -2), ((1, 0), 2)])
def test_much_better_is_said_of_the_answer_shown_first(order: tuple[int, int], stored: int) -> None:
    assert posted(COMPARE, {"overall": "-2"}, order) == {"overall": stored}
    assert posted(COMPARE, {"overall": "0"}, order) == {"overall": 0}


def test_the_best_of_four_is_the_item_s_number_of_it() -> None:
    form = FORMS["best_of_four"]
    assert [posted(form, {"best": str(key)}, (2, 0, 3, 1))["best"] for key in range(4)] == [
        2,
        0,
        3,
        1,
    ]


def test_the_three_ties_are_kept_apart() -> None:
    ties = ("both_good", "both_bad", "cannot_pick")
    assert [posted(SUPPORTED, {"preferred": tie}, (1, 0))["preferred"] for tie in ties] == [*ties]


def test_references_are_rated_by_answer_and_quote() -> None:
    found = posted(COMPARE, {"trust.1.1": "suspicious", "trust.1.0": "neutral"}, (1, 0))
    assert found == {"trust": [["neutral", "suspicious"], []]}
    found = posted(FORMS["criteria"], {"density.0.1": "3", "fluency.0": "2"}, (0,))
    assert found == {"density": [[None, "3"]], "fluency": ["2"]}


def test_a_claim_is_kept_with_what_was_said_of_it() -> None:
    raw = {
        "claims.7.answer": ["1"],
        "claims.7.start": ["19"],
        "claims.7.end": ["34"],
        "claims.7.support": ["weak"],
        "claims.7.relevance": ["core"],
        "claims.7.quotes": ["1", "0"],
        # a sentence of which nothing was said
        "claims.8.answer": ["0"],
        "claims.8.start": ["0"],
        "claims.8.end": ["5"],
        "claims.8.support": [""],
    }
    found = parse_form(COMPARE, item("compare"), (1, 0), raw, False)
    assert found.filled["claims"] == [
        {
            "answer": 0,
            "start": 19,
            "end": 34,
            "support": "weak",
            "relevance": "core",
            "quotes": [0, 1],
        }
    ]


def test_a_claim_may_lack_a_part() -> None:
    raw = {"answer": "1", "start": "0", "end": "6", "support": "none"}
    [claim] = posted(COMPARE, {f"claims.0.{part}": value for part, value in raw.items()})["claims"]
    assert (claim["support"], claim["relevance"], claim["quotes"]) == ("none", None, [])


def test_claims_are_kept_in_the_order_of_the_item_s_answers_and_their_text() -> None:
    spans = [("0", "0", "6"), ("1", "19", "34"), ("1", "0", "18"), ("1", "0", "3")]
    raw = {
        f"claims.{number}.{part}": value
        for number, span in enumerate(spans)
        for part, value in zip(("answer", "start", "end"), span, strict=True)
    }
    raw |= {f"claims.{number}.support": "none" for number in range(4)}
    claims = posted(COMPARE, raw, (1, 0))["claims"]
    found = [(claim["answer"], claim["start"], claim["end"]) for claim in claims]
    assert found == [(0, 0, 3), (0, 0, 18), (0, 19, 34), (1, 0, 6)]


def test_texts_are_kept_with_line_breaks_of_one_kind_and_without_controls() -> None:
    said = "  Good.\r\nBut\x00 long.\rAnd\x1b[0m naïve 👩‍🔬 \ud800 "
    assert posted(COMPARE, {"comment": said})["comment"] == "Good.\nBut long.\nAnd[0m naïve 👩‍🔬"
    assert posted(COMPARE, {"comment": " \r\n\x00"}) == {}


def test_too_long_a_text_is_told_and_not_lost() -> None:
    fits_in, too_long = "é" * 5000, "é" * 5001
    assert posted(COMPARE, {"comment": fits_in}) == {"comment": fits_in}
    found = parse_form(COMPARE, item("compare"), (0, 1), {"comment": [too_long]}, False)
    assert found.filled == {"comment": too_long}
    assert [each.sentence for each in found.problems if each.field == "comment"] == [
        "At most 5,000 characters, and these are 5,001: Comment."
    ]


# What is refused


@pytest.mark.parametrize(
    ("form", "name", "values", "said"),
    [
        ("supported", "plausible.0", ["perhaps"], "Not one of the choices"),
        ("supported", "plausible.0", ["yes", "no"], "Only one can be given"),
        ("supported", "plausible.2", ["yes"], "There is no such part"),
        ("supported", "plausible", ["yes"], "There is no such part"),
        ("supported", "plausible.-1", ["yes"], "There is no such part"),
        ("supported", "preferred", ["2"], "Not one of the choices"),
        ("supported", "preferred", ["-1"], "Not one of the choices"),
        ("supported", "preferred", ["²"], "Not one of the choices"),
        ("supported", "preferred", ["9" * 5000], "Not one of the choices"),
        ("best_of_four", "best", ["4"], "Not one of the choices"),
        ("best_of_four", "best", ["both_bad"], "Not one of the choices"),
        ("compare", "overall", ["3"], "Not one of the choices"),
        ("compare", "overall", ["+1"], "Not one of the choices"),
        ("compare", "trust.0.2", ["neutral"], "There is no such part"),
        ("compare", "trust.1.0", ["neutral"], "There is no such part"),
        ("compare", "claims.0.colour", ["red"], "There is no such part"),
        ("compare", "claims", ["0"], "There is no such part"),
        ("criteria", "fluency.0", ["4"], "Not one of the choices"),
    ],
)
def test_what_is_no_choice_is_refused(form: str, name: str, values: list[str], said: str) -> None:
    found = wrong(FORMS[form], {name: values})
    assert list(found) == [name]
    assert found[name].startswith(said)
    of = item(form)
    assert parse_form(FORMS[form], of, range(len(of.answers)), {name: values}, False).filled == {}


def test_what_belongs_to_no_field_is_read_over() -> None:
    assert wrong(COMPARE, {"token": ["x"], "step": ["7"], "overallx": ["1"]}) == {}


@pytest.mark.parametrize(
    ("part", "values", "where", "said"),
    [
        ("answer", ["2"], "start", "A claim is no part of an answer"),
        ("answer", [], "start", "A claim is no part of an answer"),
        ("start", ["-1"], "start", "A claim is no part of an answer"),
        ("start", ["12"], "start", "A claim is no part of its answer"),
        ("end", ["999"], "start", "A claim is no part of its answer"),
        ("end", ["1", "2"], "start", "A claim is no part of an answer"),
        ("support", ["some"], "support", "Not one of the choices: support of “scatters”"),
        ("support", ["weak", "none"], "support", "Only one can be given: support of “scatters”"),
        ("relevance", ["huge"], "relevance", "Not one of the choices: relevance of “scatters”"),
        ("quotes", ["0", "2"], "quotes", "The answer has no such quote: “scatters”"),
        ("quotes", ["x"], "quotes", "The answer has no such quote: “scatters”"),
    ],
)
def test_a_claim_that_is_none_is_refused(
    part: str, values: list[str], where: str, said: str
) -> None:
    raw = {"answer": ["0"], "start": ["4"], "end": ["12"], "support": ["weak"], part: values}
    posted = {f"claims.3.{name}": value for name, value in raw.items()}
    found = wrong(COMPARE, posted)
    assert list(found) == [f"claims.3.{where}"]
    assert found[f"claims.3.{where}"].startswith(said)


def test_a_blank_is_no_claim_and_the_same_words_are_one() -> None:
    claim = {"answer": ["0"], "start": ["3"], "end": ["4"], "support": ["weak"]}
    assert list(wrong(COMPARE, {f"claims.0.{k}": v for k, v in claim.items()})) == [
        "claims.0.start"
    ]
    claim["end"] = ["12"]
    twice = {f"claims.{n}.{k}": v for n in (0, 5) for k, v in claim.items()}
    assert wrong(COMPARE, twice) == {"claims.5.start": "Marked twice: “ scatters”. Keep one."}


NAMES = [
    *("plausible.0", "preferred", "comment", "overall", "best", "trust.0.1", "thumbs.0"),
    *(f"claims.{n}.{k}" for n in (0, 1) for k in ("answer", "start", "end", "support", "quotes")),
]
VALUES = st.sampled_from(["", "0", "1", "-2", "4", "yes", "weak", "both_bad"]) | st.text(max_size=9)


@pytest.mark.slow
@given(
    name=st.sampled_from(list(FORMS)),
    raw=st.dictionaries(
        st.sampled_from(NAMES) | st.text(max_size=9), st.lists(VALUES, max_size=3), max_size=12
    ),
    whole=st.booleans(),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=150, deadline=None)
def test_nothing_that_is_posted_raises_and_what_is_read_reads_as_itself(
    name: str, raw: dict[str, list[str]], whole: bool, random: Random
) -> None:
    form, of = FORMS[name], item(name)
    order = random.sample(range(len(of.answers)), len(of.answers))
    found = parse_form(form, of, order, raw, whole).filled
    again = parse_form(form, of, order, encode_form(form, of, order, found), whole)
    assert again.filled == found
    assert all(problem.sentence.startswith(UNFINISHED) for problem in again.problems)
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


# What is shown again


@pytest.mark.parametrize("form", EVERY)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_was_filled_in_is_shown_and_read_again_in_every_order(
    form: LabellingForm, data: st.DataObject
) -> None:
    of = item(form.name)
    filled = data.draw(filled_in(form))
    for order in itertools.permutations(range(len(of.answers))):
        found = parse_form(form, of, order, encode_form(form, of, order, filled), whole=False)
        assert found.filled == filled
        assert all(problem.sentence.startswith(UNFINISHED) for problem in found.problems)


def test_a_correction_in_another_order_shows_each_answer_s_own_values() -> None:
    of, filled = item("supported"), {"plausible": ["yes", None], "preferred": 1}
    assert encode_form(SUPPORTED, of, (0, 1), filled) == {
        "plausible.0": ["yes"],
        "preferred": ["1"],
    }
    assert encode_form(SUPPORTED, of, (1, 0), filled) == {
        "plausible.1": ["yes"],
        "preferred": ["0"],
    }
    assert encode_form(COMPARE, item("compare"), (1, 0), {"overall": -1}) == {"overall": ["1"]}


def test_what_a_form_asked_once_and_asks_no_more_is_not_shown() -> None:
    assert encode_form(
        SUPPORTED, item("supported"), (0, 1), {"gone": "x", "plausible": ["yes"]}
    ) == {"plausible.0": ["yes"]}
