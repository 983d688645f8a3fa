"""Questions about short pages, of which a library has some; and made-up data for the tiny size."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from recipes.gold_answers import holds_gold_answer
from recipes.pointed_claims import ClaimSample, list_sentence_quotes, make_claim_answer
from rookery.library.question_files import SquadData, is_correct_answer
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.passages import find_sentences
from rookery.records import Block, Comparison, Page, Question, Quote

QuestionWithPage = tuple[Question, Page]
"""A question, and the page it was written about, or that a search found for it."""


class Data(NamedTuple):
    """Questions by the use of their articles."""

    taught: list[QuestionWithPage]
    """Questions to learn from."""
    held: list[QuestionWithPage]
    """Questions about other articles, which the library has."""
    absent: list[QuestionWithPage]
    """Questions about articles that the library lacks."""
    holdings: InMemoryLibrary
    """The library: pages of the articles of `taught` and `held`."""

    def find_page(self, question: Question) -> Page:
        """Return the first page that a search finds; where it finds none, any page."""
        hits = self.holdings.search(question.text, 10)
        return self.holdings.fetch(hits[0].url) if hits else self.taught[0][1]


def split_articles(
    squad: SquadData, articles: Sequence[int], questions: Sequence[int], words: int, seed: int
) -> Data:
    """Sample articles, and questions about them, for `taught`, `held` and `absent`; `articles` and
    `questions` give the number for each, in that order.

    A page is a paragraph of at least three sentences and at most `words` words, with sentences of
    at most 220 characters; one of its sentences holds an accepted answer.
    """
    pages = dict(_make_pages(squad, words))
    order = Random(f"{seed} articles").sample(range(len(squad.articles)), len(squad.articles))
    parts, first = [], 0
    for count, most in zip(articles, questions, strict=True):
        mine = set(order[first : first + count])
        about = [
            (question, pages[place])
            for question in squad.questions
            if (place := squad.places[question.id])[0] in mine and place in pages
        ]
        Random(f"{seed} questions {first}").shuffle(about)
        fit = (pair for pair in about if any(_list_gold_quotes(*pair)))
        parts.append(list(islice(fit, most)))
        first += count
    in_library = set(order[: sum(articles[:2])])
    library = InMemoryLibrary(page for (at, _), page in pages.items() if at in in_library)
    return Data(parts[0], parts[1], parts[2], library)


def _make_pages(
    squad: SquadData, words: int, longest: int = 220
) -> Iterator[tuple[tuple[int, int], Page]]:
    """Yield the paragraphs that qualify as pages, with their article and paragraph number."""
    for number, article in enumerate(squad.articles):
        for at, text in enumerate(article.paragraphs):
            if len(text.split()) > words:
                continue
            address = f"squad:{article.name}/{at}"
            page = Page(address, article.title, text, (Block(0, len(text), "paragraph"),))
            spans = find_sentences(page, 0, len(text))
            if len(spans) > 2 and all(end - start <= longest for start, end in spans):
                yield (number, at), page


def _list_gold_quotes(question: Question, page: Page) -> Iterator[Quote]:
    return (quote for quote in list_sentence_quotes(page) if holds_gold_answer(question, quote))


def demonstrate_claim(question: Question, page: Page) -> tuple[Question, Quote, str]:
    """Return the question, the first sentence with an accepted answer, and the shortest of
    these."""
    return question, next(_list_gold_quotes(question, page)), min(question.gold, key=len)


def make_comparisons(
    compared: Sequence[QuestionWithPage], samples: Sequence[Sequence[ClaimSample]], seed: int
) -> Iterator[Comparison]:
    """Yield comparisons of a right and a wrong answer to each question, two of each kind at most.

    They are of samples; of the demonstrated answer and a sample; and of the demonstrated answer
    and its claim with another sentence of the page.
    """
    random = Random(f"{seed} compared")
    for (question, page), row in zip(compared, samples, strict=True):
        _, quote, claim = demonstrate_claim(question, page)
        demonstrated = make_claim_answer(claim, quote)
        sampled = list(dict.fromkeys(one.answer for one in row if one.answer))
        right = [each for each in sampled if is_correct_answer(question, each)]
        wrong = [each for each in sampled if not is_correct_answer(question, each)]
        astray = [
            make_claim_answer(claim, other)
            for other in list_sentence_quotes(page)
            if not holds_gold_answer(question, other)
        ]
        for better, worse in ((right, wrong), ([demonstrated], wrong), ([demonstrated], astray)):
            pairs = list(product(better, worse))
            for pair in random.sample(pairs, min(2, len(pairs))):
                weights = (1.0, 0.0)
                if random.random() < 0.5:  # so that the place does not tell which is right
                    pair, weights = pair[::-1], weights[::-1]
                yield Comparison(question, pair, weights, "known answers")


def write_tiny_data(folder: Path) -> Path:
    """Write made-up towns as a SQuAD file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    squad = folder / "squad.json"
    squad.write_text(json.dumps({"data": [_make_town(number) for number in range(24)]}))
    return squad


def _make_town(number: int) -> dict[str, Any]:
    town, river, keeper = f"Ashby {number}", ("Lune", "Tarn")[number % 2], f"Ann {number}"
    text = f"{town} has a mill. It was built in {1700 + 7 * number}. It stands on the {river}."
    questions = {
        f"When was the mill of {town} built?": f"{1700 + 7 * number}",
        f"Where does the mill of {town} stand?": f"the {river}",
        f"Who keeps the mill of {town}?": keeper,
    }
    qas = [
        {"id": f"{number} {gold}", "question": question, "answers": [{"text": gold}]}
        for question, gold in questions.items()
    ]
    paragraph = {"context": f"{text} Its keeper is {keeper}.", "qas": qas}
    return {"title": town, "paragraphs": [paragraph]}
