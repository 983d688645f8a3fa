"""Demonstrations for a small model that puts quotes into words, made by rules from shared data.

Each shows the prompt of `rookery ask --write`, with a quote that answers, and a sentence that
rests on it. The sentence is the question turned into a statement with the accepted
answer, or the quote's own sentence, shortened. The evidence model must find it supported.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from recipes.evidence_data import read_json_lines_xz, split_articles, split_sentences
from recipes.stages import ROOT
from recipes.writer_statements import shorten_sentence, state_answer
from rookery.ask.question_files import SquadArticle, read_squad
from rookery.browse.search_terms import get_question_terms, split_terms
from rookery.cite.claim_support import judge_claim_support
from rookery.cite.evidence_model import EvidenceJudge, EvidencePassage
from rookery.cite.sentence_support import AnswerSource, locate_answers
from rookery.cite.word_overlap import compute_rouge_n, split_words
from rookery.draft.stance import extract_claim
from rookery.draft.written_answers import render_writing_prompt
from rookery.records import (
    Answer,
    Claim,
    Completion,
    Episode,
    Failed,
    Page,
    Question,
    Quote,
    Step,
)

LONGEST_QUOTE = 420
"""characters of a quote in a demonstration: what is longer costs time and teaches the same"""
_NAMED = re.compile(r"(?:.* )?(?:who|whose|when|where|how many|how much|year)\b", re.I)
"""questions for a name, a number, a time or a place, which a whole sentence answers clumsily"""
MOST_OF_ARTICLE = 8
"""demonstrations from one article"""


class WriterDataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of demonstrations of each kind."""

    articles: float = 0.5
    """share of SQuAD's articles that is used: with the same seed, those of the evidence model"""
    statements: int = 400
    """questions of SQuAD, turned into statements"""
    sentences: int = 50
    """other questions of SQuAD, answered by the quote's sentence"""
    written: int = 40
    """questions of recipes/questions, answered by the quote's sentence"""
    yes_no: int = 8
    """questions of BoolQ, answered by yes or no and the sentence that says so"""
    support: float = 0.7
    """least probability, by the evidence model, that the quote supports the sentence"""
    seed: int = 0


class Demonstration(NamedTuple):
    """A question, a quote, and the sentence that answers from it."""

    question: str
    quote: Quote
    sentence: str


def make_demonstrations(
    settings: WriterDataSettings, data: Path, judge: EvidenceJudge
) -> list[Demonstration]:
    """Return demonstrations of all kinds, in an order by lot.

    The same settings, data and judge give the same. Raises FileNotFoundError without the data.
    """
    squad = read_squad(data / "squad" / "train.json.xz")
    seen = split_articles(squad, settings.articles, settings.seed)
    articles = {each.name: each for each in squad.articles if each.name in seen}
    words = {
        word.strip(".,;:()\"'")
        for article in articles.values()
        for paragraph in article.paragraphs
        for word in paragraph.split()
    }
    known = {word.lower() for word in words}
    random = Random(f"{settings.seed} demonstrations")
    asked = [each for each in squad.questions if each.source in seen and each.gold]
    random.shuffle(asked)
    parts = [
        islice(_state_questions(asked, articles, known, settings, judge), settings.statements),
        islice(
            _quote_sentences(reversed(asked), articles, known, settings, judge), settings.sentences
        ),
        islice(_quote_documentation(settings, judge), settings.written),
        islice(
            _answer_yes_or_no(data / "boolq" / "boolq.jsonl.xz", words, settings, judge),
            settings.yes_no,
        ),
    ]
    found = [each for part in parts for each in part]
    unique = list({each.question.lower(): each for each in found}.values())
    random.shuffle(unique)
    return unique


def render_trained_prompt(question: str, sources: Sequence[AnswerSource]) -> str:
    """Render the prompt of a model that was trained on it: that of any model, without its example.

    The example is half of the prompt's tokens, and so half of the time of training and of reading.
    """
    told, _, rest = render_writing_prompt(question, sources).partition("\n\n")
    _, _, asked = rest.partition("\n\n")
    return f"{told}\n\n{asked}"


def make_episodes(shown: Sequence[Demonstration], judge: EvidenceJudge) -> list[Episode]:
    """Return demonstrations as episodes, with the prompts that `rookery ask --write` gives.

    What the prompt shows of the quotes is chosen by the evidence model. A sentence of which more
    than a tenth of the words stand neither there nor in the question is left out.
    """
    episodes = []
    for each in shown:
        [source] = locate_answers(each.question, [each.quote], judge)
        read = f"{each.question} yes no {source.text}"
        if compute_rouge_n(split_words(each.sentence), split_words(read)).precision < 0.9:
            continue
        answer = Answer(each.sentence, (each.quote,), (Claim(0, len(each.sentence), (0,)),))
        step = Step(render_trained_prompt(each.question, [source]), Completion(f" {each.sentence}"))
        episodes.append(Episode(Question("", each.question), "rules", (step,), answer))
    return episodes


class _Place(NamedTuple):
    """An answer in an article: the page, the span of its sentence, and of a few around it."""

    page: Page
    sentence: tuple[int, int]
    window: tuple[int, int]
    before: str
    """text of the sentence in front of the answer"""


def _make_page(article: SquadArticle) -> Page:
    return Page(article.name, article.title, "\n\n".join(article.paragraphs))


def _find_place(article: SquadArticle, gold: str, question: str, random: Random) -> _Place | None:
    """Find the sentence with the answer that shares most words with the question."""
    page, asked = _make_page(article), set(get_question_terms(question))
    best: tuple[int, int, int] | None = None
    at = 0
    for paragraph in article.paragraphs:
        if gold in paragraph:
            for start, end in split_sentences(paragraph):
                if gold in paragraph[start:end]:
                    around = set(split_terms(paragraph[max(0, start - 200) : end]))
                    shared = len(asked & around)
                    if best is None or shared > best[0]:
                        best = shared, at + start, at + end
        at += len(paragraph) + 2
    if best is None or best[0] * 2 < len(asked):
        return None
    window = _widen(page, best[1:], random)
    before = page.text[best[1] : page.text.index(gold, best[1])]
    return _Place(page, best[1:], window, before)


def _widen(page: Page, span: tuple[int, int], random: Random) -> tuple[int, int]:
    """Add none to three neighbouring sentences of the paragraph, by lot."""
    low = page.text.rfind("\n\n", 0, span[0]) + 2 if "\n\n" in page.text[: span[0]] else 0
    high = page.text.find("\n\n", span[1])
    paragraph = page.text[low : high if high >= 0 else len(page.text)]
    sentences = [(low + start, low + end) for start, end in split_sentences(paragraph)]
    inside = [n for n, (start, end) in enumerate(sentences) if start < span[1] and span[0] < end]
    first, last = inside[0], inside[-1]
    for _ in range(random.randrange(4)):
        grown = (max(first - 1, 0), last) if random.random() < 0.5 else (first, last + 1)
        if grown[1] == len(sentences):
            continue
        if sentences[grown[1]][1] - sentences[grown[0]][0] <= LONGEST_QUOTE:
            first, last = grown
    return sentences[first][0], sentences[last][1]


def _is_supported(sentence: str, quote: Quote, least: float, judge: EvidenceJudge) -> bool:
    passage = EvidencePassage(quote.text, quote.title)
    return judge_claim_support(sentence, [passage], judge).supports >= least


Writer = Callable[[Question, _Place], str | None]
"""makes the sentence that answers a question at a place"""


def _demonstrate(
    asked: Iterator[Question] | Sequence[Question],
    articles: dict[str, SquadArticle],
    settings: WriterDataSettings,
    judge: EvidenceJudge,
    write: Writer,
    name: str,
) -> Iterator[Demonstration]:
    random, counts = Random(f"{settings.seed} {name}"), Counter[str]()
    for question in asked:
        if counts[question.source] == MOST_OF_ARTICLE:
            continue
        place = _find_place(articles[question.source], question.gold[0], question.text, random)
        if place is None or place.window[1] - place.window[0] > LONGEST_QUOTE:
            continue
        sentence = write(question, place)
        quote = place.page.quote(*place.window)
        if sentence is None or not _is_supported(sentence, quote, settings.support, judge):
            continue
        counts[question.source] += 1
        yield Demonstration(question.text, quote, sentence)


def _state_questions(
    asked: Sequence[Question],
    articles: dict[str, SquadArticle],
    known: Container[str],
    settings: WriterDataSettings,
    judge: EvidenceJudge,
) -> Iterator[Demonstration]:
    def write(question: Question, place: _Place) -> str | None:
        return state_answer(question.text, question.gold[0], place.before, known)

    return _demonstrate(asked, articles, settings, judge, write, "statements")


def _quote_sentences(
    asked: Iterator[Question],
    articles: dict[str, SquadArticle],
    known: Container[str],
    settings: WriterDataSettings,
    judge: EvidenceJudge,
) -> Iterator[Demonstration]:
    """Answer the questions that no rule states, and whose sentence answers alone."""

    def write(question: Question, place: _Place) -> str | None:
        if _NAMED.match(question.text) or state_answer(
            question.text, question.gold[0], place.before, known
        ):
            return None
        short = shorten_sentence(place.page.text[slice(*place.sentence)], question.gold[0])
        return short if short and _answers(question.text, short, judge) else None

    return _demonstrate(asked, articles, settings, judge, write, "sentences")


def _answers(question: str, sentence: str, judge: EvidenceJudge) -> bool:
    return judge(question, [EvidencePassage(sentence)])[0].answers > 0


class _WrittenQuestion(msgspec.Struct):
    kind: str
    text: str
    page: str
    quote: str


def _quote_documentation(
    settings: WriterDataSettings, judge: EvidenceJudge
) -> Iterator[Demonstration]:
    """Answer questions about documentation by the sentence of their quote that answers best."""
    random = Random(f"{settings.seed} written")
    lines = [
        (file.stem, msgspec.json.decode(line, type=_WrittenQuestion))
        for file in sorted((ROOT / "recipes" / "questions").glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
        if b'"near miss"' not in line and b'"quote"' in line
    ]
    random.shuffle(lines)
    for site, each in lines:
        text = " ".join(each.quote.split())
        sentences = [text[start:end] for start, end in split_sentences(text)]
        if not (60 <= len(text) <= LONGEST_QUOTE and each.text.endswith("?")):
            continue
        judged = judge(each.text, [EvidencePassage(sentence) for sentence in sentences])
        best = max(range(len(sentences)), key=lambda number: judged[number].answers)
        short = shorten_sentence(sentences[best], "")
        if short is None or not _answers(each.text, short, judge):
            continue
        quote = Page(each.page, site, text).quote(0, len(text))
        if not _is_supported(short, quote, settings.support, judge):
            continue
        yield Demonstration(each.text, quote, short)


def _answer_yes_or_no(
    file: Path, words: Container[str], settings: WriterDataSettings, judge: EvidenceJudge
) -> Iterator[Demonstration]:
    """Answer a yes-or-no question by the sentence of its passage that takes the right side most."""
    random = Random(f"{settings.seed} yes and no")
    lines = read_json_lines_xz(file)
    random.shuffle(lines)
    for line in lines:
        passage, _, asked = line["query"].removeprefix("Passage: ").rpartition("\nQuestion: ")
        asked, yes = asked.strip().rstrip("?"), line["choices"][line["gold"]] == "yes"
        try:
            claim = extract_claim(f"{asked}?")
        except Failed:
            continue
        text = " ".join(passage.split())
        page = Page("boolq", "", text)
        sentences = split_sentences(text)
        judged = judge(claim, [EvidencePassage(text[start:end]) for start, end in sentences])
        sides = [each.supports if yes else each.refutes for each in judged]
        best = max(range(len(sides)), key=sides.__getitem__)
        short = shorten_sentence(text[slice(*sentences[best])], "")
        if sides[best] < settings.support or short is None:
            continue
        start, end = _widen(page, sentences[best], random)
        if end - start > LONGEST_QUOTE:
            continue
        if short.split()[0].lower().strip(",") in words:  # no name: it occurs without a capital
            short = short[0].lower() + short[1:]
        said = f"{'Yes' if yes else 'No'}, {short}"
        yield Demonstration(f"{asked[0].upper()}{asked[1:]}?", page.quote(start, end), said)
