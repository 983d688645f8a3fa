"""Questions about short pages, some of which no library has; and a little web to try it on.

It knows nothing of how models learn.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rookery.ask.squad import Squad
from rookery.browse.passages import sentences
from rookery.browse.shelf import Shelf
from rookery.draft.target import holds
from rookery.judge.climate import read_climate
from rookery.judge.facts import FactSettings, Made, comparisons
from rookery.learn.quoted import Drawn, shown
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

SAID = "The page says so."
"""every claim: a model that is too small to word one learns to find what supports it"""
Asked = tuple[Question, Page]
"""a question, and the page that it was written about"""


class Data(NamedTuple):
    """Questions by what is known of their articles."""

    taught: list[Asked]
    """learnt from"""
    asked: list[Asked]
    """of other articles, which the library has"""
    absent: list[Asked]
    """of articles that it lacks"""
    holdings: Shelf


def divided(squad: Squad, articles: Sequence[int], questions: Sequence[int], seed: int) -> Data:
    """Articles and questions drawn for each part, as many as is said in the order of the parts.

    Pages are paragraphs of three sentences or more, none of them long.
    """
    pages = dict(_pages(squad))
    order = Random(f"{seed} articles").sample(range(len(squad.articles)), len(squad.articles))
    parts, first = [], 0
    for count, most in zip(articles, questions, strict=True):
        mine = set(order[first : first + count])
        fit = [
            (question, pages[squad.places[question.id]])
            for question in squad.questions
            if squad.places[question.id][0] in mine
            and squad.places[question.id] in pages
            and any(is_good(question, quote) for quote in quotes(pages[squad.places[question.id]]))
        ]
        parts.append(Random(f"{seed} questions {first}").sample(fit, min(most, len(fit))))
        first += count
    there = set(order[: sum(articles[:2])])
    holdings = Shelf(page for (article, _), page in pages.items() if article in there)
    taught, asked, absent = parts
    return Data(taught, asked, absent, holdings)


def _pages(
    squad: Squad, words: int = 90, longest: int = 220
) -> Iterator[tuple[tuple[int, int], Page]]:
    for number, article in enumerate(squad.articles):
        for at, text in enumerate(article.paragraphs):
            address = f"squad:{article.name}/{at}"
            page = Page(address, article.title, text, (Block(0, len(text), "paragraph"),))
            spans = sentences(page, 0, len(text))
            short = all(end - start <= longest for start, end in spans)
            if len(text.split()) <= words and len(spans) > 2 and short:
                yield (number, at), page


def quotes(page: Page) -> list[Quote]:
    """Each sentence of a page."""
    return [page.quote(start, end) for start, end in sentences(page, 0, len(page.text))]


def is_good(question: Question, quote: Quote) -> bool:
    """Whether it holds an accepted answer."""
    return any(holds(quote.text, gold) for gold in question.gold)


def answer(quote: Quote) -> Answer:
    """The claim that says nothing of its own, on this quote."""
    return Answer(SAID, (quote,), (Claim(0, len(SAID), (0,)),))


def rated(question: Question, given: Answer, good: bool) -> list[Rating]:
    """What the known answers say: where the claim says nothing of its own, it is a plausible reply
    just where what it points at is one."""
    return [
        Rating(question, given, scale, float(good), "known answers")
        for scale in ("supported", "plausible")
    ]


def targets(asked: Sequence[Asked]) -> Iterator[tuple[Episode, list[Rating]]]:
    """Every sentence of its page as an answer to each question, with what it was rated."""
    for question, page in asked:
        prompt = shown(question, page).prompt
        for each in map(answer, quotes(page)):
            said = f"%<{SAID}>%({page.title})%[{each.quotes[0].text}]%"
            step = Step(prompt, Completion(said))
            good = is_good(question, each.quotes[0])
            yield Episode(question, "any sentence", (step,), each), rated(question, each, good)


def compared(
    asked: Sequence[Asked], samples: Sequence[Sequence[Drawn]], seed: int
) -> Iterator[Made]:
    """Of each question a good answer beside another, drawn from a policy's samples and the page's
    sentences; none where all are alike."""
    random = Random(f"{seed} compared")
    for (question, page), found in zip(asked, samples, strict=True):
        answers = [answer(quote) for quote in quotes(page)]
        answers += [one.answer for one in found if one.answer]
        random.shuffle(answers)
        good = [is_good(question, each.quotes[0]) for each in answers]
        if len(set(good)) == 2:
            at = sorted((good.index(True), good.index(False)))
            pair, weights = tuple(answers[n] for n in at), tuple(float(good[n]) for n in at)
            ratings = [one for n in at for one in rated(question, answers[n], good[n])]
            yield Made(Comparison(question, pair, weights, "known answers"), tuple(ratings))


def checked(path: Path, count: int, seed: int) -> list[Made]:
    """So many comparisons made from claims about the climate (GopherCite, appendix E.2)."""
    made, _ = comparisons(*read_climate(path), FactSettings(seed=seed))
    return Random(f"{seed} facts").sample(made, min(count, len(made)))


def write_little(folder: Path) -> tuple[Path, Path]:
    """A few towns as a SQuAD file, and a few claims as Climate-FEVER has them."""
    folder.mkdir(parents=True, exist_ok=True)
    squad, climate = folder / "squad.json", folder / "climate.jsonl"
    towns = [_town(number) for number in range(24)]
    squad.write_text(json.dumps({"data": towns}))
    climate.write_text("\n".join(json.dumps(_claim(number)) for number in range(24)))
    return squad, climate


def _town(number: int) -> dict[str, Any]:
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


def _claim(number: int) -> dict[str, Any]:
    town, label = f"Ashby {number}", ("REFUTES", "SUPPORTS")[number % 2]
    shown = {
        "evidence_id": f"{town}:{number}",
        "evidence_label": label,
        "article": town,
        "evidence": f"The winters of {town} are {('colder', 'warmer')[number % 2]} now.",
    }
    said = {"claim_id": f"{number}", "claim": f"{town} gets warmer.", "claim_label": label}
    return said | {"evidences": [shown]}
