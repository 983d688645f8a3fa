"""Quotes for the GopherCite recipe's questions without a policy that learnt, on the page that the
policies read: by lot, by scripts, and by the evidence model."""

from collections.abc import Sequence
from functools import partial
from random import Random
from statistics import fmean

from recipes.gophercite_data import Data, QuestionWithPage, holds_gold_answer, list_sentence_quotes
from rookery.evidence.evidence_model import BUNDLED_MODEL, EvidencePassage, load_evidence_model
from rookery.measure.ranking import count_corpus_terms, score_tf_idf
from rookery.records import Page, Question, Quote, Record

WINDOWS = (48, 100)
"""Characters of windows by lot: 48 is what cloned policies quote on average."""
WINDOWS_DRAWN = 50
"""Windows of each length on each page."""
BY_LOT = (*(f"window of {size} characters" for size in WINDOWS), "random sentence")
FIRST, TF_IDF, EVIDENCE = "first sentence", "TF-IDF sentence", "evidence model's sentence"
TOLD = "best sentence, told the answer"


class FloorScores(Record, frozen=True):
    """Share of each floor's quotes that hold an accepted answer, by question; a question for which
    no page is found has none."""

    by: dict[str, list[float]]


def find_page(world: Data, question: Question, pages: int) -> Page | None:
    """Return the first page that a search finds, which the policies read; None: nothing is
    found."""
    hits = world.holdings.search(question.text, 10 * pages)
    return world.holdings.fetch(hits[0].url) if hits else None


def score_floors(world: Data, pages: int) -> FloorScores:
    """Quote from the page found for each question that the library can answer, in every way."""
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    by: dict[str, list[float]] = {}
    for question, _ in world.asked:
        page = find_page(world, question, pages)
        sentences = list_sentence_quotes(page) if page else []
        quotes_by_floor: dict[str, list[Quote]] = {
            name: [] for name in (*BY_LOT, FIRST, TF_IDF, EVIDENCE, TOLD)
        }
        if page and sentences:
            for name, size in zip(BY_LOT, WINDOWS, strict=False):
                quotes_by_floor[name] = draw_windows(page, size, question.id)
            alike = score_tf_idf(question.text, [each.text for each in sentences])
            read = [EvidencePassage(each.text, page.title) for each in sentences]
            answers = [each.answers for each in judge(question.text, read)]
            quotes_by_floor |= {
                BY_LOT[-1]: sentences,
                FIRST: sentences[:1],
                TF_IDF: [sentences[alike.index(max(alike))]],
                EVIDENCE: [sentences[answers.index(max(answers))]],
                TOLD: [max(sentences, key=partial(holds_gold_answer, question))],
            }
        for name, quotes in quotes_by_floor.items():
            good = [float(holds_gold_answer(question, quote)) for quote in quotes]
            by.setdefault(name, []).append(fmean(good) if good else 0.0)
    return FloorScores(by)


def draw_windows(page: Page, size: int, seed: str) -> list[Quote]:
    """Return WINDOWS_DRAWN windows of so many characters, in whole words, each start as likely."""
    size = min(size, len(page.text))
    chance = Random(f"{seed} windows {size}")
    starts = [chance.randint(0, len(page.text) - size) for _ in range(WINDOWS_DRAWN)]
    return [page.quote_whole_words(start, start + size) for start in starts]


class QuoteScores(Record, frozen=True):
    """Scores of one quote of each question, by which its answer might be declined; for no quote the
    lowest."""

    words: list[float]
    """TF-IDF cosine of question and quote, rarity counted over these quotes."""
    evidence: list[float]
    """Log-odds, by the evidence model, that the quote answers."""


def score_quotes(
    questions: Sequence[QuestionWithPage], quotes: Sequence[Quote | None]
) -> QuoteScores:
    """Score one quote of each question without anything that was learnt in the run."""
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    evidence = [
        judge(question.text, [EvidencePassage(quote.text, quote.title)])[0].answers
        if quote
        else None
        for (question, _), quote in zip(questions, quotes, strict=True)
    ]
    lowest = min((each for each in evidence if each is not None), default=0.0) - 1
    texts = [quote.text if quote else "" for quote in quotes]
    among = count_corpus_terms(texts)
    words = [
        score_tf_idf(question.text, [text], among)[0]
        for (question, _), text in zip(questions, texts, strict=True)
    ]
    return QuoteScores(words, [lowest if each is None else each for each in evidence])
