"""Baselines against scikit-learn and the search index, and worked by hand."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from rookery.evidence.passage_ranking import rank_passages
from rookery.library.search_index import InMemoryLibrary
from rookery.measure.ranking import count_corpus_terms, score_bm25, score_tf_idf
from rookery.pages.search_terms import split_terms
from rookery.records import Hit, Page

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
