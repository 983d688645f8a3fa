"""Questions about short pages, some of which no library has; and made-up data for the tiny size."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from recipes.fact_comparisons import (
    FactComparison,
    FactSettings,
    make_fact_comparisons,
    read_climate_claims,
)
from recipes.policy_samples import QuotedSample, build_quote_prompt
from rookery.library.question_files import SquadData, contains_gold_answer, is_correct_answer
from rookery.library.search_index import InMemoryLibrary
from rookery.measure.ratings import PLAUSIBLE_SCALE, SUPPORTED_SCALE
from rookery.pages.passages import find_sentences
from rookery.records import (
    Answer,
    Block,
    Claim,
    Comparison,
    Completion,
    Episode,
    Page,
    Question,
    Quote,
    Rating,
    Step,
)

QuestionWithPage = tuple[Question, Page]
"""A question, and the page it was written about."""


class Data(NamedTuple):
    """Questions by the use of their articles."""

    taught: list[QuestionWithPage]
    """Questions to learn from."""
    asked: list[QuestionWithPage]
    """Questions about other articles, which the library has."""
    absent: list[QuestionWithPage]
    """Questions about articles that the library lacks."""
    holdings: InMemoryLibrary
    """The library: pages of the articles of `taught` and `asked`."""
    about: dict[str, list[Question]]
    """All questions about each page of `taught`, by the page's address."""


def split_articles(
    squad: SquadData, articles: Sequence[int], questions: Sequence[int], words: int, seed: int
) -> Data:
    """Sample articles, and questions about them, for `taught`, `asked` and `absent`; `articles` and
    `questions` give the number for each, in that order.

    A page is a paragraph of at least three sentences and at most `words` words, with sentences of
    at most 220 characters.
    """
    pages = dict(_make_pages(squad, words))
    order = Random(f"{seed} articles").sample(range(len(squad.articles)), len(squad.articles))
    parts, first = [], 0
    for count, most in zip(articles, questions, strict=True):
        mine = set(order[first : first + count])
        fit = [
            (question, pages[squad.places[question.id]])
            for question in squad.questions
            if squad.places[question.id][0] in mine
            and squad.places[question.id] in pages
            and any(
                holds_gold_answer(question, quote)
                for quote in list_sentence_quotes(pages[squad.places[question.id]])
            )
        ]
        parts.append(Random(f"{seed} questions {first}").sample(fit, min(most, len(fit))))
        first += count
    article_numbers = set(order[: sum(articles[:2])])
    holdings = InMemoryLibrary(
        page for (article, _), page in pages.items() if article in article_numbers
    )
    taught, test_questions, absent = parts
    about: dict[str, list[Question]] = {page.url: [] for _, page in taught}
    for question in squad.questions:
        page = pages.get(squad.places[question.id])
        if page and page.url in about:
            about[page.url].append(question)
    return Data(taught, test_questions, absent, holdings, about)


def _make_pages(
    squad: SquadData, words: int, longest: int = 220
) -> Iterator[tuple[tuple[int, int], Page]]:
    """Yield the paragraphs that qualify as pages, with their article and paragraph number."""
    for number, article in enumerate(squad.articles):
        for at, text in enumerate(article.paragraphs):
            address = f"squad:{article.name}/{at}"
            page = Page(address, article.title, text, (Block(0, len(text), "paragraph"),))
            spans = find_sentences(page, 0, len(text))
            short = all(end - start <= longest for start, end in spans)
            if len(text.split()) <= words and len(spans) > 2 and short:
                yield (number, at), page


def list_sentence_quotes(page: Page) -> list[Quote]:
    """Return every sentence of a page as a quote."""
    return [
        page.quote_whole_words(start, end) for start, end in find_sentences(page, 0, len(page.text))
    ]


def holds_gold_answer(question: Question, quote: Quote) -> bool:
    """Return True if the quote contains an accepted answer."""
    return any(contains_gold_answer(quote.text, gold) for gold in question.gold)


def make_answer(claim: str, quote: Quote) -> Answer:
    """Make the answer that claims this and cites this quote."""
    return Answer(claim, (quote,), (Claim(0, len(claim), (0,)),))


def make_target(question: Question, quote: Quote) -> Answer:
    """Make the answer that gives the shortest accepted answer and cites this quote."""
    return make_answer(min(question.gold, key=len), quote)


def rate_by_gold(question: Question, answer: Answer) -> list[Rating]:
    """Rate an answer by the known answers: it is plausible if its claim contains one, and supported
    if one of its quotes does."""
    values = {
        SUPPORTED_SCALE: any(holds_gold_answer(question, quote) for quote in answer.quotes),
        PLAUSIBLE_SCALE: any(contains_gold_answer(answer.text, gold) for gold in question.gold),
    }
    return [
        Rating(question, answer, scale, float(value), "known answers")
        for scale, value in values.items()
    ]


def make_targets(questions: Sequence[QuestionWithPage]) -> Iterator[tuple[Episode, list[Rating]]]:
    """Yield an accepted answer with every sentence of each question's page, as an episode with its
    ratings."""
    for question, page in questions:
        prompt = build_quote_prompt(question, page).prompt
        for quote in list_sentence_quotes(page):
            each = make_target(question, quote)
            said = f"%<{each.text}>%({page.title})%[{quote.text}]%"
            step = Step(prompt, Completion(said))
            yield Episode(question, "any sentence", (step,), each), rate_by_gold(question, each)


def make_comparisons(
    world: Data, samples: Sequence[Sequence[QuotedSample]], seed: int
) -> Iterator[FactComparison]:
    """Yield comparisons of a correct and a wrong answer to each question that is learnt from.

    One is of a demonstrated answer and one to another question about the same page; another, for
    the first questions, of two of the policy's `samples`; none where all are alike.
    """
    random = Random(f"{seed} compared")
    for number, (question, page) in enumerate(world.taught):
        targets = {
            other: [
                make_target(other, quote)
                for quote in list_sentence_quotes(page)
                if holds_gold_answer(other, quote)
            ]
            for other in world.about[page.url]
        }
        others = [one for other in targets if other != question for one in targets[other]]
        sampled_answers = (
            [one.answer for one in samples[number] if one.answer] if samples[number:] else []
        )
        for answers in ([*targets[question], *others], sampled_answers):
            random.shuffle(answers)
            correct = [is_correct_answer(question, each) for each in answers]
            if len(set(correct)) == 2:
                at = sorted((correct.index(True), correct.index(False)))
                pair, weights = tuple(answers[n] for n in at), tuple(float(correct[n]) for n in at)
                ratings = [one for answer in pair for one in rate_by_gold(question, answer)]
                comparison = Comparison(question, pair, weights, "known answers")
                yield FactComparison(comparison, tuple(ratings))


def sample_fact_comparisons(path: Path, count: int, seed: int) -> list[FactComparison]:
    """Sample `count` comparisons made from claims about the climate (GopherCite, appendix E.2)."""
    made, _ = make_fact_comparisons(*read_climate_claims(path), FactSettings(seed=seed))
    return Random(f"{seed} facts").sample(made, min(count, len(made)))


def write_tiny_data(folder: Path) -> tuple[Path, Path]:
    """Write made-up towns as a SQuAD file and made-up claims as a Climate-FEVER file, and return
    both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    squad, climate = folder / "squad.json", folder / "climate.jsonl"
    towns = [_make_town(number) for number in range(24)]
    squad.write_text(json.dumps({"data": towns}))
    climate.write_text("\n".join(json.dumps(_make_claim(number)) for number in range(24)))
    return squad, climate


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


def _make_claim(number: int) -> dict[str, Any]:
    town, label = f"Ashby {number}", ("REFUTES", "SUPPORTS")[number % 2]
    shown = {
        "evidence_id": f"{town}:{number}",
        "evidence_label": label,
        "article": town,
        "evidence": f"The winters of {town} are {('colder', 'warmer')[number % 2]} now.",
    }
    said = {"claim_id": f"{number}", "claim": f"{town} gets warmer.", "claim_label": label}
    return said | {"evidences": [shown]}
