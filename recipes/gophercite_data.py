"""Questions about short pages, some of which no library has; and made-up data for the tiny size."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rookery.ask.question_files import SquadData
from rookery.browse.passages import find_sentences
from rookery.browse.search_index import InMemoryLibrary
from rookery.draft.gold_answers import contains_gold_answer
from rookery.judge.fact_comparisons import (
    FactComparison,
    FactSettings,
    make_fact_comparisons,
    read_climate_claims,
)
from rookery.learn.single_step_environments import QuotedSample, build_quote_prompt
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

CLAIM_TEXT = "The page says so."
"""Claim of every answer: a model too small to word a claim learns only to find what supports it."""
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


def split_articles(
    squad: SquadData, articles: Sequence[int], questions: Sequence[int], seed: int
) -> Data:
    """Sample articles, and questions about them, for `taught`, `asked` and `absent`; `articles` and
    `questions` give the number for each, in that order.

    A page is a paragraph of at least three sentences and at most 90 words, with sentences of at
    most 220 characters.
    """
    pages = dict(_make_pages(squad))
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
    there = set(order[: sum(articles[:2])])
    holdings = InMemoryLibrary(page for (article, _), page in pages.items() if article in there)
    taught, asked, absent = parts
    return Data(taught, asked, absent, holdings)


def _make_pages(
    squad: SquadData, words: int = 90, longest: int = 220
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
    return [page.quote(start, end) for start, end in find_sentences(page, 0, len(page.text))]


def holds_gold_answer(question: Question, quote: Quote) -> bool:
    """Return True if the quote contains an accepted answer."""
    return any(contains_gold_answer(quote.text, gold) for gold in question.gold)


def make_answer(quote: Quote) -> Answer:
    """Make the answer whose claim says nothing by itself and cites this quote."""
    return Answer(CLAIM_TEXT, (quote,), (Claim(0, len(CLAIM_TEXT), (0,)),))


def rate_by_gold(question: Question, given: Answer, good: bool) -> list[Rating]:
    """Rate an answer as supported and plausible from the known answers: since its claim says
    nothing by itself, both hold if its quote is good."""
    return [
        Rating(question, given, scale, float(good), "known answers")
        for scale in ("supported", "plausible")
    ]


def make_targets(asked: Sequence[QuestionWithPage]) -> Iterator[tuple[Episode, list[Rating]]]:
    """Yield every sentence of each question's page as an episode with its ratings."""
    for question, page in asked:
        prompt = build_quote_prompt(question, page).prompt
        for each in map(make_answer, list_sentence_quotes(page)):
            said = f"%<{CLAIM_TEXT}>%({page.title})%[{each.quotes[0].text}]%"
            step = Step(prompt, Completion(said))
            good = holds_gold_answer(question, each.quotes[0])
            yield (
                Episode(question, "any sentence", (step,), each),
                rate_by_gold(question, each, good),
            )


def make_comparisons(
    asked: Sequence[QuestionWithPage], samples: Sequence[Sequence[QuotedSample]], seed: int
) -> Iterator[FactComparison]:
    """Yield, for each question, a comparison of a good and a bad answer, drawn from the policy's
    samples and the page's sentences; none where all are alike."""
    random = Random(f"{seed} compared")
    for (question, page), found in zip(asked, samples, strict=True):
        answers = [make_answer(quote) for quote in list_sentence_quotes(page)]
        answers += [one.answer for one in found if one.answer]
        random.shuffle(answers)
        good = [holds_gold_answer(question, each.quotes[0]) for each in answers]
        if len(set(good)) == 2:
            at = sorted((good.index(True), good.index(False)))
            pair, weights = tuple(answers[n] for n in at), tuple(float(good[n]) for n in at)
            ratings = [one for n in at for one in rate_by_gold(question, answers[n], good[n])]
            yield FactComparison(
                Comparison(question, pair, weights, "known answers"), tuple(ratings)
            )


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
    asked = {
        f"When was the mill of {town} built?": f"{1700 + 7 * number}",
        f"Where does the mill of {town} stand?": f"the {river}",
        f"Who keeps the mill of {town}?": keeper,
    }
    qas = [
        {"id": f"{number} {gold}", "question": question, "answers": [{"text": gold}]}
        for question, gold in asked.items()
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
