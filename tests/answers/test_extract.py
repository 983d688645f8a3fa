"""The answer by words: the best passages of the search, and when it declines."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.extract import (
    NOTHING_FOUND,
    NOTHING_REACHED,
    ExtractSettings,
    answer_by_extraction,
    find_altered_extract,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.errors import Failed
from rookery.evidence.passage_ranking import RankedPassage
from rookery.library.search_index import SearchIndex
from rookery.records import Answer, Block, Claim, Failure, Hit, Library, Page, Question


def page(url: str, text: str, title: str = "") -> Page:
    return Page(url, title, text, (Block(0, len(text), "paragraph"),))


class Shelf(Library):
    """A library of pages in memory: `placed` says which passage a hit means, as a folder does."""

    def __init__(self, *pages: Page, placed: bool = True) -> None:
        self.pages = {p.url: p for p in pages}
        self.placed = placed
        self.index = SearchIndex()
        for p in pages:
            self.index.add(p)
        self.index.commit()

    def search(self, query: str, k: int) -> list[Hit]:
        hits = self.index.search(query, k)
        return hits if self.placed else [Hit(hit.url, hit.title, hit.snippet) for hit in hits]

    def fetch(self, url: str) -> Page:
        if url not in self.pages:
            raise Failed(Failure(url, "http_404", "not on the shelf"))
        return self.pages[url]


LIFESPANS = (
    page("a", "American crows live seven to eight years in the wild on average.", "Lifespan"),
    page("b", "In the wild, most American crows live for seven to eight years.", "Crow facts"),
    page("c", "A wild American crow that lives a hundred years is nothing unusual.", "Forum"),
    page("d", "Ravens steal food from wolves. Wolves do not mind.", "Ravens"),
    page("e", "Nutcrackers hide tens of thousands of seeds each autumn.", "Nutcrackers"),
)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("asked", ["How long do American crows live?", "Do ravens steal food?"])
def test_copies_of_a_text_support_nothing(asked: str, placed: bool) -> None:
    """A forum that is mirrored ten times says it once."""
    mirrors = [page(f"mirror{n}", p.text, p.title) for n in range(10) for p in LIFESPANS[2:4]]
    alone = answer_by_extraction(Question("1", asked), Shelf(*LIFESPANS, placed=placed)).answer
    mirrored = answer_by_extraction(
        Question("1", asked), Shelf(*LIFESPANS, *mirrors, placed=placed)
    )
    assert alone is not None
    assert mirrored.answer is not None
    assert mirrored.answer.text == alone.text
    digests = [quote.digest for quote in mirrored.answer.quotes]
    addresses = {quote.url for quote in mirrored.answer.quotes}
    assert len(addresses) == len(set(digests))
    gathered = gather_passages(asked, Shelf(*LIFESPANS, *mirrors, placed=placed))
    assert len({p.url for p, _ in gathered.found}) == len({p.digest for p, _ in gathered.found})


@pytest.mark.parametrize("placed", [True, False])
def test_an_answer_rests_on_slices_of_its_pages(placed: bool) -> None:
    shelf = Shelf(*LIFESPANS, placed=placed)
    episode = answer_by_extraction(Question("1", "What do ravens steal from wolves?"), shelf)
    assert episode.stop == "end"
    assert episode.answer is not None
    assert episode.answer.quotes[0].text == "Ravens steal food from wolves. Wolves do not mind."
    for quote in episode.answer.quotes:
        assert quote == shelf.fetch(quote.url).quote(quote.start, quote.end)
    for claim in episode.answer.claims:
        first = episode.answer.quotes[claim.quotes[0]]
        assert episode.answer.text[claim.start : claim.end] == first.text


def test_the_best_passages_of_the_search_are_quoted_as_they_stand() -> None:
    shelf = Shelf(*LIFESPANS)
    question = "How long do American crows live in the wild?"
    ranked: list[RankedPassage] = []
    settings = ExtractSettings(quotes=2)
    answer = answer_by_extraction(
        Question("1", question), shelf, None, settings, ranked.extend
    ).answer
    assert answer is not None
    hits = sorted(shelf.search(question, 2), key=lambda hit: -hit.score)
    assert [(quote.url, quote.start, quote.end) for quote in answer.quotes] == [
        (hit.url, hit.start, hit.end) for hit in hits
    ]
    assert answer.text == "\n\n".join(quote.text for quote in answer.quotes)
    assert answer.score == hits[0].score
    assert len(ranked) >= 2


def test_a_similarity_orders_the_passages() -> None:
    def prefer_forum(question: str, texts: Sequence[str]) -> list[float]:
        return [float("hundred" in text) for text in texts]

    asked = Question("1", "How long do American crows live in the wild?")
    answer = answer_by_extraction(asked, Shelf(*LIFESPANS), prefer_forum).answer
    assert answer is not None
    assert answer.quotes[0].url == "c"


def test_a_question_that_nothing_answers_is_declined_with_the_nearest_quotes() -> None:
    episode = answer_by_extraction(
        Question("1", "Which wolves wrote the tax law of Peru?"), Shelf(*LIFESPANS)
    )
    assert episode.stop == "declined"
    assert episode.answer is not None
    assert episode.answer.declined
    assert episode.answer.quotes
    assert episode.answer.claims == ()


def test_nothing_found_is_declined_and_a_failed_search_is_not_an_answer() -> None:
    class Broken(Shelf):
        def search(self, query: str, k: int) -> list[Hit]:
            raise Failed(Failure(query, "search_failed", "the engine is down"))

    nothing = answer_by_extraction(Question("1", "Zyzzyva?"), Shelf(*LIFESPANS))
    assert (nothing.stop, nothing.answer and nothing.answer.quotes) == ("declined", ())
    broken = answer_by_extraction(Question("1", "Do crows play?"), Broken(*LIFESPANS))
    assert (broken.stop, broken.answer, broken.count_failures()) == (
        "no_evidence",
        None,
        {"search_failed": 1},
    )


def test_pages_that_cannot_be_opened_are_counted_and_the_rest_is_used() -> None:
    shelf = Shelf(*LIFESPANS, placed=False)
    del shelf.pages["a"]
    gathered = gather_passages("How long do American crows live?", shelf)
    assert [failure.outcome for failure in gathered.failures] == ["http_404"]
    assert {hit.url for _, hit in gathered.found} >= {"b", "c"}
    shelf.pages.clear()
    assert (
        answer_by_extraction(Question("1", "How long do American crows live?"), shelf).stop
        == "no_evidence"
    )


def test_a_page_that_changed_since_it_was_indexed_is_read_anew() -> None:
    shelf = Shelf(page("a", "Crows live long. Nobody knows why they do."), *LIFESPANS[3:])
    shelf.pages["a"] = page("a", "New edition. Crows live for about eight years. That is all.")
    found = gather_passages("How long do crows live?", shelf).found
    assert all(page.text[hit.start : hit.end] and hit.digest == page.digest for page, hit in found)
    assert any("eight years" in page.text[hit.start : hit.end] for page, hit in found)


def test_the_question_is_cut_to_its_limit_before_it_is_searched() -> None:
    class Recording(Shelf):
        def search(self, query: str, k: int) -> list[Hit]:
            self.asked = query
            return []

    shelf = Recording()
    gather_passages("crow " * 1000, shelf, RetrievalLimits(question=50))
    assert shelf.asked == "crow " * 10


def test_a_threshold_of_one_declines_and_of_zero_answers() -> None:
    shelf, question = Shelf(*LIFESPANS), Question("1", "What do ravens steal?")
    assert (
        answer_by_extraction(question, shelf, settings=ExtractSettings(decline=1.0)).stop
        == "declined"
    )
    assert (
        answer_by_extraction(question, shelf, settings=ExtractSettings(decline=0.0)).stop == "end"
    )


@given(st.text(min_size=1, max_size=60), st.lists(st.text(min_size=1, max_size=200), max_size=5))
def test_whatever_the_pages_say_quotes_are_slices(question: str, texts: list[str]) -> None:
    shelf = Shelf(*(page(str(n), text) for n, text in enumerate(texts)))
    answer = answer_by_extraction(Question("1", question), shelf).answer
    assert answer is not None
    for quote in answer.quotes:
        assert quote == shelf.fetch(quote.url).quote(quote.start, quote.end)


def test_what_was_changed_in_a_saved_answer_is_found() -> None:
    answer = answer_by_extraction(
        Question("1", "How long do American crows live?"), Shelf(*LIFESPANS)
    ).answer
    assert answer is not None
    first = answer.claims[0]
    assert find_altered_extract(answer) == []
    before = "Nothing that was read answers this."  # as version 0.1 wrote it
    for text in (NOTHING_FOUND, NOTHING_REACHED.format(0.2), before):
        assert find_altered_extract(Answer(text, answer.quotes, declined=True)) == []

    def find_altered(**fields: object) -> list[str]:
        changed = msgspec.structs.replace(answer, **fields)
        return [each.text for each in find_altered_extract(changed)]

    text = answer.text
    said = text[first.start : first.end]
    assert find_altered(text="never" + text[5:]) == ["never" + said[5:]]
    assert find_altered(text=f"{text} Not.") == [" Not."]
    assert find_altered(text=f"{text}?") == ["?"]
    longer = f"very {said}"  # which pushes the full stop out of the claim
    assert said.endswith(".")
    assert find_altered(text=longer[: len(said)] + ".", claims=(first,)) == [longer[: len(said)]]
    assert find_altered(text=longer, claims=(first,)) == [longer[: len(said)], longer[len(said) :]]
    assert find_altered(text=f"No. {text}", claims=()) == [f"No. {text}"]
    assert find_altered(claims=()) == [text]
    assert find_altered(text="", claims=()) == [""]
    assert find_altered(declined=True) == [text]
    assert find_altered(text=NOTHING_FOUND, claims=()) == [NOTHING_FOUND]
    assert find_altered(claims=(Claim(first.start, first.end, ()), *answer.claims[1:])) == [said]
    assert find_altered(claims=(Claim(2, first.end, first.quotes), *answer.claims[1:])) == [
        said[2:],
        said[:2],
    ]
    assert find_altered(claims=(*answer.claims, answer.claims[-1]))


def test_what_is_too_short_to_be_verified_is_never_quoted() -> None:
    shelf = Shelf(
        page("a", "Crows fly."),
        page("b", "Crows fly by day and sleep at night."),
    )
    answer = answer_by_extraction(
        Question("1", "Do crows fly?"), shelf, settings=ExtractSettings(decline=0)
    ).answer
    assert answer is not None
    assert {quote.text for quote in answer.quotes} == {"Crows fly by day and sleep at night."}
    alone = answer_by_extraction(Question("1", "Do crows fly?"), Shelf(page("a", "Crows fly.")))
    assert alone.answer == Answer(NOTHING_FOUND, declined=True)
