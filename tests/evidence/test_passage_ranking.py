"""Ranking: the sentence that answers is first, and the same thing is shown once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.evidence.passage_ranking import (
    RankedPassage,
    RankWeights,
    rank_passages,
    sort_sentences,
)
from rookery.library.search_index import SearchIndex
from rookery.quotes.answer_types import (
    contains_negation,
    detect_answer_type,
    extract_answer_terms,
    is_yes_no_question,
)
from rookery.records import Block, Hit, Link, Page


def page(url: str, text: str, title: str = "") -> Page:
    return Page(url, title, text, (Block(0, len(text), "paragraph"),))


def search_pages(question: str, *pages: Page) -> list[tuple[Page, Hit]]:
    index = SearchIndex()
    for each in pages:
        index.add(each)
    index.commit()
    by_url = {each.url: each for each in pages}
    return [(by_url[hit.url], hit) for hit in index.search(question, 20)]


JAYS = page(
    "jays",
    "Jays are birds of oak woods. In autumn a jay hides about 5,000 acorns. Many are never eaten.",
    "The jay",
)
CROWS = page(
    "crows", "Crows hide food too. They watch who is looking. A jay may steal it.", "Crows"
)


def ranked(question: str, *pages: Page) -> list[RankedPassage]:
    return rank_passages(question, search_pages(question, *pages))


def test_the_sentence_that_answers_is_first() -> None:
    best = sort_sentences(ranked("How many acorns does a jay hide in autumn?", JAYS, CROWS))[0]
    assert best.text == "In autumn a jay hides about 5,000 acorns."
    assert best.page is JAYS


def test_words_of_the_title_count_for_every_sentence() -> None:
    """ "Many are never eaten" does not say jay; the title of its page does."""
    other = page("other", "Acorns are hidden. Acorns are never eaten raw.", "Cooking")
    best = sort_sentences(ranked("Are jay acorns eaten?", JAYS, other))
    assert best[0].page is JAYS


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When was the Tower built?", "date"),
        ("In which year did Betty bend the wire?", "date"),
        ("How long do crows live?", "number"),
        ("Who wore the mask?", "name"),
        ("Where do ravens nest?", "name"),
        ("Why do crows bring gifts?", "reason"),
        ("Do crows bring gifts?", ""),
        ("Wie alt werden Krähen?", ""),
    ],
)
def test_what_a_question_expects(question: str, kind: str) -> None:
    assert detect_answer_type(question) == kind


@pytest.mark.parametrize(
    ("sentence", "kind", "words"),
    [
        ("It was built in 1078.", "date", {"1078"}),
        ("It is 30 cm wide.", "date", set()),
        ("They live seven years.", "number", {"seven"}),
        ("They live long.", "number", set()),
        ("The mask was worn by Marzluff.", "name", {"marzluff"}),
        ("The mask was worn by Betty.", "name", set()),
        ("They learn because it pays.", "reason", {"because"}),
        ("They learn.", "reason", set()),
        ("Masks were worn.", "", set()),
    ],
)
def test_what_a_sentence_holds(sentence: str, kind: str, words: set[str]) -> None:
    assert extract_answer_terms(sentence, kind, "Who was Betty?") == words


def test_yes_and_no() -> None:
    assert is_yes_no_question("Can crows recognise faces?")
    assert not is_yes_no_question("How can crows recognise faces?")
    assert contains_negation("Crows can’t.")
    assert contains_negation("No crow can.")
    assert not contains_negation("Crows can, notably at night.")


def test_what_only_repeats_the_question_or_is_a_link_is_no_answer() -> None:
    text = "How are acorns hidden?\n\nThe acorns\n\nAcorns are hidden in moss."
    blocks = (Block(0, 22, "item"), Block(24, 34, "item"), Block(36, 62, "item"))
    asked = Page("u", "", text, blocks, (Link(0, 22, "https://a.example/"),))
    best = sort_sentences(ranked("How are the acorns hidden?", asked))
    assert [sentence.text for sentence in best] == ["Acorns are hidden in moss."]
    plain = page("u", "Crows bring gifts.")
    assert sort_sentences(ranked("Do crows bring gifts?", plain))
    assert not sort_sentences(ranked("Why do crows bring gifts?", plain))


def test_near_duplicates_are_shown_once_and_the_better_one_stays() -> None:
    text = "In autumn a jay hides about 5,000 acorns in the ground of the oak wood it lives in."
    copy = page("copy", text + " Sponsored.")
    assert [p.page.url for p in ranked("How many acorns?", page("first", text), copy)] == ["first"]
    assert len(ranked("How many acorns?", page("first", text), JAYS)) == 2


def list_shown(*texts: str) -> list[str]:
    """Which of these passages are shown, the first being the best."""
    pages = [page(str(number), text) for number, text in enumerate(texts)]
    hits = [
        (each, Hit(each.url, "", "", each.digest, 0, len(each.text), 10.0 ** (7 - number)))
        for number, each in enumerate(pages)
    ]
    return [passage.page.text for passage in rank_passages("zebras", hits)]


def test_a_short_passage_hides_no_other() -> None:
    long = "Crows live for seven years or more, and some have reached nineteen in the wild."
    assert list_shown("Crows", long, "Jays") == ["Crows", long, "Jays"]
    assert list_shown("Seven years.", long) == ["Seven years.", long]
    assert list_shown(long, "Seven years.", "Years seven.", "seven YEARS") == [long, "Years seven."]
    assert list_shown("Crows live for seven years", long) == ["Crows live for seven years", long]
    assert list_shown("乌鸦很聪明。", "喜鹊会认人。") == ["乌鸦很聪明。", "喜鹊会认人。"]


_FEW_WORDS = st.lists(st.sampled_from("crow Crow jay nut egg".split()), min_size=1, max_size=9)


@given(st.lists(_FEW_WORDS.map(" ".join), max_size=6))
def test_what_is_shown_agrees_with_counting_by_hand(texts: list[str]) -> None:
    """An oracle that compares all places of all passages, one by one."""

    def repeats(text: str, better: str) -> bool:
        ours, theirs = text.lower().split(), better.lower().split()
        size = min(3, len(ours))
        places = [ours[at : at + size] for at in range(len(ours) - size + 1)]
        different = [run for n, run in enumerate(places) if run not in places[:n]]
        there = [theirs[at : at + size] for at in range(len(theirs))]
        return 5 * sum(run in there for run in different) >= 4 * len(different)

    shown: list[str] = []
    for text in texts:
        if not any(repeats(text, better) for better in shown):
            shown.append(text)
    assert list_shown(*texts) == shown


def test_a_likeness_that_is_passed_in_decides() -> None:
    asked = search_pages("jay", JAYS, CROWS)
    wanted = "A jay may steal it."
    best = sort_sentences(
        rank_passages("jay", asked, lambda q, texts: [float(t == wanted) for t in texts])
    )
    assert best[0].text == wanted


def test_a_model_is_asked_for_the_best_sentences_and_the_rest_count_as_the_least_alike() -> None:
    question = "How many acorns does a jay hide in autumn?"
    asked = search_pages(question, JAYS, CROWS)
    texts: list[str] = []

    def likeness(_: str, compared: Sequence[str]) -> list[float]:
        texts.extend(compared)
        return [0.75, 0.25]

    plain = {s.text: s.score for s in sort_sentences(rank_passages(question, asked))}
    every = sort_sentences(
        rank_passages(question, asked, likeness, RankWeights(similarity=1, compared=2))
    )
    assert texts == list(plain)[:2]
    for sentence in every:
        added = 0.75 if sentence.text == texts[0] else 0.25
        assert sentence.score == pytest.approx(plain[sentence.text] + added)


def test_offsets_point_into_the_page() -> None:
    for passage in ranked("jay acorns", JAYS, CROWS):
        for sentence in passage.sentences:
            assert passage.hit.start <= sentence.start < sentence.end <= passage.hit.end
            assert sentence.text == passage.page.text[sentence.start : sentence.end]


@given(st.text(max_size=80), st.lists(st.text(min_size=1, max_size=120), max_size=4))
def test_any_text_can_be_ranked_in_order(question: str, texts: list[str]) -> None:
    pages = [page(str(n), text) for n, text in enumerate(texts)]
    hits = [(p, Hit(p.url, "", digest=p.digest, start=0, end=len(p.text))) for p in pages]
    scores = [passage.score for passage in rank_passages(question, hits)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) <= len(texts)


GERMAN = page(
    "de",
    "Die Elster ist in der Stadt zu Hause und nicht scheu. Die Krähen bauen ihre Nester auf hohen"
    " Bäumen. Das Nest der Taube, die im Hof wohnt, ist klein.",
)
FRENCH = page(
    "fr",
    "La pie est un oiseau des villes et des parcs. Les corbeaux trouvent des animaux morts sur la"
    " route. Un animal est dans la cour, et le chien dort.",
)
RUSSIAN = page(
    "ru",
    "Сорока живёт в городе и не боится людей. Вороны хранят орехи под корнями деревьев."
    " На столе лежал орех, и на него никто не смотрел.",
)


@pytest.mark.parametrize(
    ("question", "text", "first"),
    [
        # Krähe and Nest are krah and nest in German as Krähen and Nester are; as English words
        # only the pigeon's Nest is the Nest that is asked for.
        (
            "Welcher Baum hat ein Nest einer Krähe?",
            GERMAN,
            "Die Krähen bauen ihre Nester auf hohen Bäumen.",
        ),
        # corbeaux and animaux are corbeau and animal in French, and words of their own in English.
        (
            "Quel animal est trouvé par le corbeau ?",
            FRENCH,
            "Les corbeaux trouvent des animaux morts sur la route.",
        ),
        ("Где ворона хранит орех?", RUSSIAN, "Вороны хранят орехи под корнями деревьев."),
    ],
)
def test_words_are_stemmed_in_the_language_of_the_page(
    question: str, text: Page, first: str
) -> None:
    hit = Hit(text.url, "", end=len(text.text), score=1.0)
    (passage,) = rank_passages(question, [(text, hit)])
    assert sort_sentences([passage])[0].text == first


def test_pages_in_several_languages_are_ranked_together() -> None:
    """Of each, the words are its own; the English page answers an English question as it would
    alone."""
    question = "How many acorns does a jay hide in autumn?"
    hits = [
        (each, Hit(each.url, "", end=len(each.text), score=1.0)) for each in (GERMAN, JAYS, FRENCH)
    ]
    best = sort_sentences(rank_passages(question, hits))[0]
    assert (best.page, best.text) == (JAYS, "In autumn a jay hides about 5,000 acorns.")
