"""Quotes, summaries and rankings that are chosen without a model."""

import math
from functools import partial

import pytest

from recipes.baselines import (
    make_lead_answer,
    quote_random_sentence,
    score_by_length,
    score_by_time,
)
from recipes.vote_comparisons import ForumPost, ForumThread
from rookery.errors import Failed
from rookery.measure.ranking import measure_rankings
from rookery.records import Block, Page

BIRDS = (
    "The raven is a large black bird.",
    "Ravens eat carrion, insects and berries.",
    "A jackdaw is small, and its eyes are pale.",
    "Magpies are black and white; magpies build domed nests.",
)
PAGE = Page("file:birds", "Birds", " ".join(BIRDS))


def test_a_random_sentence_is_any_and_the_same_for_the_same_seed() -> None:
    found = [quote_random_sentence(PAGE, seed).text for seed in range(60)]
    assert set(found) == set(BIRDS)
    assert found == [quote_random_sentence(PAGE, seed).text for seed in range(60)]
    assert quote_random_sentence(PAGE, "question 7") == quote_random_sentence(PAGE, "question 7")


def test_lead_three_is_the_first_three_sentences() -> None:
    answer = make_lead_answer(PAGE)
    assert answer.text == " ".join(BIRDS[:3])
    assert answer.quotes == (PAGE.quote(0, len(answer.text)),)
    assert make_lead_answer(PAGE, 9).text == PAGE.text


def test_a_heading_is_no_sentence() -> None:
    text = f"Birds\n\n{BIRDS[0]}"
    page = Page("file:b", "", text, (Block(0, 5, "heading", 1), Block(7, len(text), "paragraph")))
    assert make_lead_answer(page).text == BIRDS[0]


def test_a_page_without_a_sentence_says_so() -> None:
    empty = Page("file:empty", "", " \n ")
    for take in (make_lead_answer, partial(quote_random_sentence, seed=0)):
        with pytest.raises(Failed, match=r"file:empty: no_sentence: .*leave it out"):
            take(empty)


def test_answers_of_a_forum_are_ranked_by_length_and_time() -> None:
    thread = ForumThread(
        "1",
        "Why?",
        (
            ForumPost("Because it is so.", 3, "2014-01-21T12:00:00"),
            ForumPost("No.", 9, "2014-01-21T12:30:00+01:00"),
            ForumPost("Nobody knows when this was said.", 5),
        ),
    )
    assert score_by_length(thread) == [17, 3, 32]
    assert score_by_time(thread)[1] == score_by_time(thread)[0] + 1800  # half an hour earlier
    assert score_by_time(thread)[2] == -math.inf
    found = measure_rankings([[post.votes for post in thread.answers]], [score_by_time(thread)])
    assert found["pairs"].value == pytest.approx(2 / 3)
    assert found["spearman"].value == pytest.approx(0.5)
