"""Baselines against scikit-learn and the search index, and worked by hand."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from rookery.browse.search_index import InMemoryLibrary
from rookery.browse.search_terms import split_terms
from rookery.cite.passage_ranking import rank_passages
from rookery.judge.vote_comparisons import ForumPost, ForumThread
from rookery.measure.ranking import (
    count_corpus_terms,
    make_gold_answer,
    make_lead_answer,
    measure_rankings,
    quote_closest_sentence,
    quote_first_sentence,
    quote_random_sentence,
    score_bm25,
    score_by_length,
    score_by_position,
    score_by_time,
    score_tf_idf,
)
from rookery.records import Block, Claim, Failed, Hit, Page, Question

BIRDS = (
    "The raven is a large black bird.",
    "Ravens eat carrion, insects and berries.",
    "A jackdaw is small, and its eyes are pale.",
    "Magpies are black and white; magpies build domed nests.",
)
PAGE = Page("file:birds", "Birds", " ".join(BIRDS))
texts = st.lists(st.sampled_from("raven crow jay rook".split()), max_size=6).map(" ".join)


@given(texts.filter(bool), st.lists(texts, min_size=1, max_size=6), st.lists(texts, max_size=6))
def test_tf_idf_is_that_of_scikit_learn(query: str, ranked: list[str], more: list[str]) -> None:
    among = [*ranked, *more]
    if not any(among):
        return
    reference = TfidfVectorizer(analyzer=split_terms).fit(among)
    expected = (reference.transform(ranked) @ reference.transform([query]).T).toarray()[:, 0]
    known = set(reference.get_feature_names_out())
    if (
        set(split_terms(query)) <= known
    ):  # what is in no text it leaves out, and here counts as rare
        assert score_tf_idf(query, ranked, count_corpus_terms(among)) == pytest.approx(
            expected, abs=1e-12, rel=0
        )


def test_the_rarity_of_terms_is_that_of_the_corpus_or_else_of_the_texts() -> None:
    for ranking in (score_tf_idf, score_bm25):
        whole = ranking("black magpies", BIRDS)
        assert ranking("black magpies", BIRDS[2:], count_corpus_terms(BIRDS)) == whole[2:]
        assert ranking("black magpies", BIRDS[2:]) != whole[2:]
        common = count_corpus_terms([*BIRDS, *["black"] * 50])
        assert ranking("black magpies", BIRDS[:1], common)[0] < whole[0]


@pytest.mark.parametrize("query", ["ravens", "black", "magpie", "nothing"])
def test_bm25_is_that_of_the_search_index(query: str) -> None:
    """Which counts neighbouring words too, so that queries of one word are compared."""
    pages = [Page(f"file:{at}", "", text) for at, text in enumerate(BIRDS)]
    hits = {hit.url: hit.score for hit in InMemoryLibrary(pages).search(query, 9)}
    having = sum(1 for text in BIRDS if set(split_terms(query)) & set(split_terms(text)))
    most = 2.2 * math.log(1 + (4 - having + 0.5) / (having + 0.5))
    expected = [hits.get(page.url, 0.0) * most for page in pages]
    assert score_bm25(query, BIRDS) == pytest.approx(expected, abs=1e-6)


def test_bm25_worked_by_hand() -> None:
    # Two texts of 1 and 3 terms, so 2 on average; `crow` is in both, twice in the second.
    found = score_bm25("crow", ["crow", "crow crow jay"])
    rarity = math.log(1 + 0.5 / 2.5)
    first_text = rarity * 2.2 / (1 + 1.2 * (0.25 + 0.75 / 2))
    second = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 1.5))
    assert found == pytest.approx([first_text, second], abs=1e-12)
    assert score_bm25("crow crow", ["crow", "crow crow jay"]) == pytest.approx(
        [2 * each for each in found]
    )
    assert score_bm25("crow", []) == []
    assert score_bm25("crow", [""]) == score_tf_idf("crow", [""]) == [0.0]


def test_rankings_are_similarities_that_rank_passages() -> None:
    known = count_corpus_terms(BIRDS)
    hit = Hit(PAGE.url, PAGE.title, digest=PAGE.digest, start=0, end=len(PAGE.text), score=0.1)
    for similarity in (
        score_tf_idf,
        partial(score_tf_idf, among=known),
        partial(score_bm25, among=known),
    ):
        passage = rank_passages("What do ravens eat?", [(PAGE, hit)], similarity)[0]
        assert max(passage.sentences, key=lambda each: each.score).text == BIRDS[1]


def test_the_first_sentence_is_a_quote_of_the_page() -> None:
    quote = quote_first_sentence(PAGE)
    assert quote == PAGE.quote(0, len(BIRDS[0]))


def test_a_random_sentence_is_any_and_the_same_for_the_same_seed() -> None:
    found = [quote_random_sentence(PAGE, seed).text for seed in range(60)]
    assert set(found) == set(BIRDS)
    assert found == [quote_random_sentence(PAGE, seed).text for seed in range(60)]
    assert quote_random_sentence(PAGE, "question 7") == quote_random_sentence(PAGE, "question 7")


def test_the_closest_sentence_shares_the_rarest_words_of_question_and_answer() -> None:
    assert (
        quote_closest_sentence(PAGE, "What are the eyes of a jackdaw like?", "pale").text
        == BIRDS[2]
    )
    assert quote_closest_sentence(PAGE, "What do they build?", "domed nests").text == BIRDS[3]
    # Of the question alone the first would be closest, and the answer makes it another.
    assert quote_closest_sentence(PAGE, "What is black?", "").text == BIRDS[0]
    assert quote_closest_sentence(PAGE, "What is black?", "magpies").text == BIRDS[3]


def test_of_equally_close_sentences_it_is_the_first() -> None:
    page = Page("file:same", "", "Crows fly. Rooks fly. Crows fly.")
    assert quote_closest_sentence(page, "Do crows fly?", "").start == 0


def test_a_gold_answer_rests_on_its_quote() -> None:
    question = Question("1", "What do ravens eat?", gold=("carrion", "berries"))
    answer = make_gold_answer(question, quote_first_sentence(PAGE))
    assert answer.text == "carrion"
    assert answer.claims == (Claim(0, 7, (0,)),)
    assert answer.quotes == (quote_first_sentence(PAGE),)
    with pytest.raises(Failed, match="no_gold"):
        make_gold_answer(Question("2", "Why?"), quote_first_sentence(PAGE))


def test_lead_three_is_the_first_three_sentences() -> None:
    answer = make_lead_answer(PAGE)
    assert answer.text == " ".join(BIRDS[:3])
    assert answer.quotes == (PAGE.quote(0, len(answer.text)),)
    assert make_lead_answer(PAGE, 9).text == PAGE.text


def test_a_heading_is_no_sentence() -> None:
    text = f"Birds\n\n{BIRDS[0]}"
    page = Page("file:b", "", text, (Block(0, 5, "heading", 1), Block(7, len(text), "paragraph")))
    assert quote_first_sentence(page).text == make_lead_answer(page).text == BIRDS[0]


def test_a_page_without_a_sentence_says_so() -> None:
    empty = Page("file:empty", "", " \n ")
    for take in (quote_first_sentence, make_lead_answer, partial(quote_random_sentence, seed=0)):
        with pytest.raises(Failed, match=r"file:empty: no_sentence: .*leave it out"):
            take(empty)


def test_answers_of_a_forum_are_ranked_by_place_length_and_time() -> None:
    thread = ForumThread(
        "1",
        "Why?",
        (
            ForumPost("Because it is so.", 3, "2014-01-21T12:00:00"),
            ForumPost("No.", 9, "2014-01-21T12:30:00+01:00"),
            ForumPost("Nobody knows when this was said.", 5),
        ),
    )
    assert score_by_position(thread) == [0, -1, -2]
    assert score_by_length(thread) == [17, 3, 32]
    assert score_by_time(thread)[1] == score_by_time(thread)[0] + 1800  # half an hour earlier
    assert score_by_time(thread)[2] == -math.inf
    found = measure_rankings([[post.votes for post in thread.answers]], [score_by_time(thread)])
    assert found["pairs"].value == pytest.approx(2 / 3)
    assert found["spearman"].value == pytest.approx(0.5)
