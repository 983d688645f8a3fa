"""Whether an item can be judged with the form that it names."""

from typing import Any

import msgspec
import pytest
from formed import ANSWERS, QUESTION, item

from rookery.desk.forms import FORMS, GoldLabels, LabellingForm, LabellingItem
from rookery.desk.item_import import find_item_problems
from rookery.records import Answer

EVERY = [pytest.param(form, id=name) for name, form in FORMS.items()]


@pytest.mark.parametrize("form", EVERY)
def test_items_that_fit_have_no_problems(form: LabellingForm) -> None:
    assert find_item_problems(item(form.name)) == []


def changed(name: str, **fields: Any) -> LabellingItem:
    return msgspec.structs.replace(item(name), **fields)


DECLINED = msgspec.structs.replace(ANSWERS[0], declined=True)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (changed("compare", form="compere"), 'there is no form "compere": use one of demonstrate,'),
        (changed("compare", question=msgspec.structs.replace(QUESTION, text=" ")), "its question"),
        (
            changed("compare", answers=ANSWERS[:1], writers=()),
            "compare takes 2 answers, and it has 1",
        ),
        (changed("compare", writers=("a",)), "it has 1 writers of 2 answers"),
        (changed("compare", answers=(ANSWERS[0], Answer("\n"))), "answer 2 is empty"),
        (changed("supported", answers=(DECLINED, ANSWERS[1])), "answer 1 was declined"),
        (
            changed("truthful", question=msgspec.structs.replace(QUESTION, gold=())),
            "truthful shows trusted answers",
        ),
        (changed("thumbs", gold=GoldLabels({})), "its gold expects nothing"),
        (item("supported", overall=1), 'its gold expects "overall", which is no choice'),
        (item("compare", comment="x"), 'its gold expects "comment", which is no choice'),
        (item("compare", claims=[]), 'its gold expects "claims", which is no choice'),
        (item("compare", overall=3), 'its gold expects "overall" to be 3: it is a number from -2'),
        (item("compare", overall=True), 'its gold expects "overall" to be True'),
        (item("compare", overall="-1"), "its gold expects \"overall\" to be '-1'"),
        (
            item("supported", preferred=2),
            'its gold expects "preferred" to be 2: it is a number from 0 to 1, or "both_good"',
        ),
        (
            item("supported", plausible="yes"),
            'its gold expects "plausible" to be \'yes\': it is one of "yes", "no", "unsure", '
            "in a list by answer",
        ),
        (item("supported", plausible=["yes"]), 'its gold expects "plausible" to be'),
        (item("supported", plausible=["yes", "maybe"]), 'its gold expects "plausible" to be'),
        (item("criteria", density=[["3", 2]]), 'its gold expects "density" to be'),
    ],
)
def test_an_item_that_does_not_fit_is_told_why(of: LabellingItem, said: str) -> None:
    [problem] = find_item_problems(of)
    assert problem.startswith(said)


def test_gold_that_leaves_a_part_open_fits() -> None:
    assert find_item_problems(item("supported", plausible=[None, "no"], preferred=0)) == []
    assert find_item_problems(item("criteria", density=[[None, "3"]], fluency=["1"])) == []
    assert find_item_problems(item("best_of_four", best=3)) == []
    assert find_item_problems(item("compare", overall=-2)) == []


def test_a_declined_answer_may_be_held_against_the_truth() -> None:
    assert find_item_problems(changed("truthful", answers=(DECLINED,))) == []
