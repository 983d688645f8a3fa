"""Tasks for a small model that puts quotes into words, with demonstrations made by rules.

A task shows up to three quotes beside a question. Its demonstration is the question turned into a
statement with the accepted answer, or one or two sentences of the quote that answer by the evidence
model, shortened. The evidence model must find it supported, and it must say more than the question.
A task whose demonstration fails keeps its prompt: samples for preferences are drawn for it.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import msgspec

from recipes.evidence_data import read_json_lines_xz, split_articles, split_sentences
from recipes.evidence_questions import read_installed_quotes, read_site_folders
from recipes.writer_statements import is_sound, shorten_sentence, state_answer
from rookery.ask.question_files import SquadArticle, SquadData, read_squad
from rookery.browse.page_reader import read_page
from rookery.browse.page_text import neutralize_text
from rookery.browse.passages import find_sentences
from rookery.browse.search_terms import get_question_terms, split_terms
from rookery.cite.answer_types import is_yes_no_question
from rookery.cite.claim_support import judge_claim_support
from rookery.cite.evidence_model import EvidenceJudge, EvidenceJudgement, EvidencePassage
from rookery.cite.sentence_support import AnswerSource, has_new_words, locate_answers
from rookery.cite.word_overlap import compute_rouge_n, split_words
from rookery.draft.stance import extract_claim
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
"""characters of a quote in a task: what is longer costs time and teaches the same"""
MOST_SHOWN = 360
"""characters of a quote that the prompt shows: the sentences around the answer"""
REFERENCES = 3
"""quotes that the prompt shows, at most"""
_NAMED = re.compile(r"(?:.* )?(?:who|whose|when|where|how many|how much|year)\b", re.I)
"""questions for a name, a number, a time or a place, which a whole sentence answers clumsily"""
_FORM = re.compile(r"\b(how many|how much|why|how|when|where|whom?|whose|which|what)\b", re.I)
_PROMPT = """Answer the question from the texts alone, in one or two full sentences.

{texts}
Question: {question}
Short answer: {answer}
Full answer:"""
_SECOND_SENTENCE = 0.5
"""log-odds by which two sentences must answer better than the best one alone"""
_KNOWN_TO_ANSWER = -2.0
"""least log-odds by the evidence model of a sentence of a quote that is known to answer: what a
sentence needs beside it, the quote gives"""
T = TypeVar("T")


class WriterDataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of demonstrations of each kind; forms of question come in turn within a kind."""

    articles: float = 0.5
    """share of SQuAD's articles that is used: with the same seed, those of the evidence model"""
    statements: int = 1200
    """questions of SQuAD, turned into statements"""
    sentences: int = 900
    """other questions of SQuAD, those with "why" and "how" among them, answered by sentences"""
    written: int = 1500
    """questions about installed documentation in recipes/questions, answered by sentences"""
    yes_no: int = 400
    """questions of BoolQ, answered by yes or no and the sentence that says so"""
    threads: int = 200
    """titles of forum threads, answered by sentences of the best answer"""
    prompts: float = 0.5
    """tasks without a demonstration that are kept, as a share of those with one"""
    support: float = 0.7
    """least probability, by the evidence model, that the quote supports the demonstration"""
    threads_of_judge: int = 0
    """tasks that are made at once; 0: as many as there are processors"""
    seed: int = 0


class WritingTask(msgspec.Struct, frozen=True):
    """A question, the quotes that its prompt shows, and an answer in words that rests on them."""

    kind: str
    """statement, sentence, documentation, yes/no or thread"""
    question: str
    sources: tuple[AnswerSource, ...]
    """best first by the evidence model; their texts are what the prompt shows"""
    demonstration: str = ""
    """empty where the rules made none"""
    gold: str = ""
    """accepted answer, where one is known"""


def make_tasks(settings: WriterDataSettings, data: Path, judge: EvidenceJudge) -> list[WritingTask]:
    """Return tasks of all kinds, in an order by lot.

    The same settings, data and judge give the same. Raises FileNotFoundError without the data.
    """
    judge = cache_judgements(judge)
    squad = read_squad(data / "squad" / "train.json.xz")
    seen = split_articles(squad, settings.articles, settings.seed)
    source = _SquadTasks(squad, seen, settings, judge)
    asked = [each for each in squad.questions if each.source in seen and each.gold]
    random = Random(f"{settings.seed} tasks")
    random.shuffle(asked)
    explained = [each for each in reversed(asked) if not _NAMED.match(each.text)]
    lines = _read_written_questions() if settings.written else []
    random.shuffle(lines)
    yes_no = read_json_lines_xz(data / "boolq" / "boolq.jsonl.xz")
    random.shuffle(yes_no)
    threads = _read_threads(data / "stackexchange") if settings.threads else []
    random.shuffle(threads)
    with ThreadPoolExecutor(settings.threads_of_judge or os.cpu_count() or 1) as pool:

        def take(
            every: Iterable[T], count: int, make: Callable[[T], WritingTask | None]
        ) -> Iterator[WritingTask]:
            spare, left = round(settings.prompts * count), iter(every)
            while count > 0 and (some := list(islice(left, 32))):
                for task in pool.map(make, some):
                    if task is None:
                        continue
                    if task.demonstration and count > 0:
                        count -= 1
                        yield task
                    elif not task.demonstration and spare > 0:
                        spare -= 1
                        yield task

        by_form = partial(_take_in_turn, name=lambda each: _find_form(each.text))
        parts = [
            take(by_form(asked), settings.statements, source.state_question),
            take(by_form(explained), settings.sentences, source.quote_sentences),
            take(
                _take_in_turn(lines, lambda each: each.kind),
                settings.written,
                partial(_quote_documentation, _index_sites(lines), settings, judge),
            ),
            take(
                yes_no, settings.yes_no, partial(_answer_yes_or_no, source.words, settings, judge)
            ),
            take(threads, settings.threads, partial(_answer_thread, settings, judge)),
        ]
        found = [each for part in parts for each in part]
    # A task with a demonstration counts before one without.
    found.sort(key=lambda each: bool(each.demonstration))
    unique = list({each.question.lower(): each for each in found}.values())
    random.shuffle(unique)
    return unique


def cache_judgements(judge: EvidenceJudge) -> EvidenceJudge:
    """Return the judge with a memory: making a task asks for some judgements several times."""
    known: dict[tuple[str, EvidencePassage], EvidenceJudgement] = {}

    def judge_passages(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        new = [each for each in passages if (query, each) not in known]
        for each, judged in zip(new, judge(query, new) if new else (), strict=True):
            known[query, each] = judged
        return [known[query, each] for each in passages]

    return judge_passages


def _find_form(question: str) -> str:
    found = _FORM.search(question)
    return found[1].lower() if found else ""


def _take_in_turn(every: Sequence[T], name: Callable[[T], str]) -> list[T]:
    """Return the same in an order in which the names alternate while each has any left."""
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for each in every:
        groups[name(each)].append(each)
    return [each for turn in zip_longest(*groups.values()) for each in turn if each is not None]


def show_sources(
    question: str, quotes: Sequence[Quote], judge: EvidenceJudge
) -> tuple[AnswerSource, ...]:
    """Return for each quote the sentences around its answer, of MOST_SHOWN characters at most."""
    found = locate_answers(question, quotes[:REFERENCES], judge)
    return tuple(each._replace(text=_widen_source(each)) for each in found)


def _widen_source(source: AnswerSource) -> str:
    text = source.quote.text
    low = text.find(source.text)
    high = low + len(source.text)
    spans = find_sentences(Page("", "", text), 0, len(text))
    before = [start for start, _ in spans if start < low]
    after = [end for _, end in spans if end > high]
    while before or after:
        # What follows explains more often than what goes before.
        if after and after[0] - low <= MOST_SHOWN:
            high = after.pop(0)
        elif before and high - before[-1] <= MOST_SHOWN:
            low = before.pop()
        else:
            break
    return text[low:high]


def render_trained_prompt(question: str, sources: Sequence[AnswerSource]) -> str:
    """Render the prompt of a model that was trained on it: no example, up to three texts."""
    texts = "\n".join(
        f"Text {number}: {_to_one_line(each.text)}" for number, each in enumerate(sources, 1)
    )
    return _PROMPT.format(
        texts=texts, question=_to_one_line(question), answer=_to_one_line(sources[0].answer)
    )


def _to_one_line(text: str) -> str:
    return " ".join(neutralize_text(text).split())


def make_episode(task: WritingTask, said: str, by: str) -> Episode:
    """Return a task with what is said to its prompt as an episode that can be imitated."""
    quotes = tuple(each.quote for each in task.sources)
    answer = Answer(said, quotes, (Claim(0, len(said), tuple(range(len(quotes)))),))
    step = Step(render_trained_prompt(task.question, task.sources), Completion(f" {said}"))
    return Episode(Question("", task.question), by, (step,), answer)


def list_demonstrations(tasks: Sequence[WritingTask]) -> list[Episode]:
    """Return the demonstrations of the tasks that have one, as episodes."""
    return [make_episode(each, each.demonstration, "rules") for each in tasks if each.demonstration]


def _finish_task(
    kind: str,
    question: str,
    quotes: Sequence[Quote],
    said: str | None,
    gold: str,
    settings: WriterDataSettings,
    judge: EvidenceJudge,
) -> WritingTask:
    """Put the quotes in the order of the evidence model, and keep what is said if it will do.

    The first quote is the one that what is said was taken from. A demonstration of which more than
    a tenth of the words stand neither in what is shown nor in the question teaches to invent, and
    one that says no more than the question teaches to repeat it.
    """
    read = [EvidencePassage(each.text, each.title) for each in quotes]
    judged = judge(question, read)
    order = sorted(range(len(quotes)), key=lambda number: -judged[number].answers)
    sources = show_sources(question, [quotes[number] for number in order], judge)
    if said:
        known = " ".join([question, "yes no", *(each.text for each in sources)])
        fits = compute_rouge_n(split_words(said), split_words(known)).precision >= 0.9
        tells = has_new_words(said, question) or is_yes_no_question(question)
        supported = judge_claim_support(said, read[:1], judge).supports >= settings.support
        if not (fits and tells and supported):
            said = None
    return WritingTask(kind, question, sources, said or "", gold)


class _Place(NamedTuple):
    """An answer in an article: the page, the span of its sentence, and of a few around it."""

    page: Page
    sentence: tuple[int, int]
    window: tuple[int, int]
    before: str
    """text of the sentence in front of the answer"""


class _Sentence(NamedTuple):
    """Span of a sentence of an article, and its terms."""

    span: tuple[int, int]
    terms: frozenset[str]


class _SquadTasks:
    """Makes tasks of SQuAD's questions; tasks may be made in threads."""

    def __init__(
        self,
        squad: SquadData,
        seen: frozenset[str],
        settings: WriterDataSettings,
        judge: EvidenceJudge,
    ) -> None:
        self._articles = {each.name: each for each in squad.articles if each.name in seen}
        self._places = squad.places
        self._settings, self._judge = settings, judge
        self._sentences: dict[str, list[_Sentence]] = {}
        self.words = {
            word.strip(".,;:()\"'")
            for article in self._articles.values()
            for paragraph in article.paragraphs
            for word in paragraph.split()
        }
        """of all articles, as they are written"""
        self._known = {word.lower() for word in self.words}

    def state_question(self, question: Question) -> WritingTask | None:
        """Turn a question into a statement; None where no rule fits."""
        place = self._find_place(question)
        said = place and state_answer(question.text, question.gold[0], place.before, self._known)
        return self._make_task("statement", question, place, said) if place and said else None

    def quote_sentences(self, question: Question) -> WritingTask | None:
        """Answer a question that no rule states by sentences of its quote."""
        place = self._find_place(question)
        if place is None or state_answer(
            question.text, question.gold[0], place.before, self._known
        ):
            return None
        text, gold = place.page.text[slice(*place.window)], question.gold[0]
        said = choose_sentences(
            question.text, text, place.page.title, self._judge, _KNOWN_TO_ANSWER, gold
        )
        return self._make_task("sentence", question, place, said)

    def _find_place(self, question: Question) -> _Place | None:
        random = Random(f"{self._settings.seed} {question.id}")
        article = self._articles[question.source]
        number = self._places[question.id][1]
        place = find_place(article, number, question.gold[0], question.text, random)
        return place if place and place.window[1] - place.window[0] <= LONGEST_QUOTE else None

    def _make_task(
        self, kind: str, question: Question, place: _Place, said: str | None
    ) -> WritingTask:
        random = Random(f"{self._settings.seed} {question.id} near")
        gold = question.gold[0]
        near = [
            place.page.quote(*span)
            for span in self._find_near(question, place, random)
            if span[1] - span[0] <= LONGEST_QUOTE
        ]
        quotes = [place.page.quote(*place.window), *near]
        return _finish_task(kind, question.text, quotes, said, gold, self._settings, self._judge)

    def _find_near(
        self, question: Question, place: _Place, random: Random
    ) -> list[tuple[int, int]]:
        """Return none to two other places of the article with most of the question's words."""
        asked, gold = set(get_question_terms(question.text)), question.gold[0].lower()
        others = [
            each
            for each in self._split_article(question.source, place.page)
            if (each.span[1] <= place.window[0] or each.span[0] >= place.window[1])
            and gold not in place.page.text[slice(*each.span)].lower()
        ]
        nearest = sorted(others, key=lambda each: -len(asked & each.terms))
        windows = [
            _widen(place.page, each.span, random) for each in nearest[: random.choice([0, 1, 2, 2])]
        ]
        kept: list[tuple[int, int]] = [place.window]
        for low, high in windows:
            if all(high <= start or low >= end for start, end in kept):
                kept.append((low, high))
        return kept[1:]

    def _split_article(self, name: str, page: Page) -> list[_Sentence]:
        if name not in self._sentences:
            found, at = [], 0
            for paragraph in page.text.split("\n\n"):
                for start, end in split_sentences(paragraph):
                    terms = frozenset(split_terms(paragraph[start:end]))
                    found.append(_Sentence((at + start, at + end), terms))
                at += len(paragraph) + 2
            self._sentences[name] = found
        return self._sentences[name]


def find_place(
    article: SquadArticle, number: int, gold: str, question: str, random: Random
) -> _Place | None:
    """Find the sentence of a paragraph with the answer that shares most words with the question."""
    page = Page(article.name, article.title, "\n\n".join(article.paragraphs))
    asked = set(get_question_terms(question))
    best: tuple[int, int, int] | None = None
    at = sum(len(each) + 2 for each in article.paragraphs[:number])
    paragraph = article.paragraphs[number]
    for start, end in split_sentences(paragraph):
        if gold in paragraph[start:end]:
            shared = len(asked & set(split_terms(paragraph[max(0, start - 200) : end])))
            if best is None or shared > best[0]:
                best = shared, at + start, at + end
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


def choose_sentences(
    question: str, text: str, heading: str, judge: EvidenceJudge, least: float, gold: str = ""
) -> str | None:
    """Return the sentence of a text that answers best, shortened, or two neighbours that answer
    better; None where none that can stand alone answers with log-odds of `least`.

    With `gold` one of them must hold it.
    """
    sentences = [text[start:end] for start, end in split_sentences(text)]
    short = [shorten_sentence(each, gold if gold in each else "") for each in sentences]
    options = [each for each in short if each is not None and gold in each]
    single = len(options)
    for first, (head, follows) in enumerate(zip(short, sentences[1:], strict=False)):
        tail = short[first + 1] or " ".join(follows.split())
        if head is not None and gold in f"{head} {tail}" and is_sound(tail):
            options.append(f"{head} {tail}")
    if not options:
        return None
    judged = judge(question, [EvidencePassage(each, heading) for each in options])
    worth = [
        each.answers - _SECOND_SENTENCE * (number >= single) for number, each in enumerate(judged)
    ]
    best = max(range(len(options)), key=worth.__getitem__)
    return options[best] if judged[best].answers > least else None


class _WrittenQuestion(NamedTuple):
    """A question that was written over documentation, with its quote."""

    kind: str
    text: str
    page: str
    quote: str
    site: str


def _read_written_questions() -> list[_WrittenQuestion]:
    """Read the questions and claims about the documentation that is installed."""
    return [
        _WrittenQuestion(
            each.question.kind, each.question.text, each.question.page, each.text, site
        )
        for site, each in read_installed_quotes(read_site_folders())
    ]


_ANSWERED = ("fact", "how-to", "why", "comparison", "yes/no")


def _index_sites(
    lines: Sequence[_WrittenQuestion],
) -> dict[str, list[tuple[_WrittenQuestion, frozenset[str]]]]:
    """Return the quotes of each site that a prompt may show, with their terms."""
    sites = defaultdict(list)
    for each in lines:
        if 60 <= len(each.quote) <= LONGEST_QUOTE:
            sites[each.site].append((each, frozenset(split_terms(each.quote))))
    return sites


def _quote_documentation(
    sites: dict[str, list[tuple[_WrittenQuestion, frozenset[str]]]],
    settings: WriterDataSettings,
    judge: EvidenceJudge,
    asked: _WrittenQuestion,
) -> WritingTask | None:
    """Answer a question about documentation by sentences of its quote."""
    text = " ".join(asked.quote.split())
    if asked.kind not in _ANSWERED or not 60 <= len(text) <= LONGEST_QUOTE:
        return None
    question = f"{asked.text[0].upper()}{asked.text[1:]}"
    random, terms = Random(f"{settings.seed} {asked.text}"), set(get_question_terms(question))
    others = sorted(
        (
            each
            for each in sites[asked.site]
            if each[0].quote[:40] not in asked.quote and asked.quote[:40] not in each[0].quote
        ),
        key=lambda each: -len(terms & each[1]),
    )
    near = {" ".join(each.quote.split()): each.page for each, _ in others[:4]}
    texts = [(text, asked.page), *list(near.items())[: random.choice([0, 1, 2, 2])]]
    quotes = [Page(page, asked.site, shown).quote(0, len(shown)) for shown, page in texts]
    said = choose_sentences(question, text, asked.site, judge, _KNOWN_TO_ANSWER)
    return _finish_task("documentation", question, quotes, said, "", settings, judge)


def _answer_yes_or_no(
    words: set[str], settings: WriterDataSettings, judge: EvidenceJudge, line: dict[str, object]
) -> WritingTask | None:
    """Answer a yes-or-no question by the sentence of its passage that takes the right side most."""
    choices, gold = line["choices"], line["gold"]
    assert isinstance(choices, list)
    assert isinstance(gold, int)
    passage, _, asked = str(line["query"]).removeprefix("Passage: ").rpartition("\nQuestion: ")
    asked, yes = asked.strip().rstrip("?"), choices[gold] == "yes"
    question = f"{asked[0].upper()}{asked[1:]}?"
    try:
        claim = extract_claim(question)
    except Failed:
        return None
    text = " ".join(passage.split())
    page, random = Page("boolq", "", text), Random(f"{settings.seed} {asked}")
    sentences = split_sentences(text)
    judged = judge(claim, [EvidencePassage(text[start:end]) for start, end in sentences])
    sides = [each.supports if yes else each.refutes for each in judged]
    best = max(range(len(sides)), key=sides.__getitem__)
    window = _widen(page, sentences[best], random)
    if sides[best] < settings.support or window[1] - window[0] > LONGEST_QUOTE:
        return None
    quotes = [page.quote(*window)]
    apart = [(low, high) for low, high in sentences if high <= window[0] or low >= window[1]]
    if apart and random.random() < 0.5:
        quotes.append(page.quote(*random.choice(apart)))
    short = shorten_sentence(text[slice(*sentences[best])], "")
    if short is not None:
        if short.split()[0].lower().strip(",") in words:  # no name: it occurs without a capital
            short = short[0].lower() + short[1:]
        short = f"{'Yes' if yes else 'No'}, {short}"
    return _finish_task("yes/no", question, quotes, short, "", settings, judge)


class _Thread(NamedTuple):
    """Title of a forum thread, and its answers as text, the best first."""

    title: str
    answers: list[str]


def _read_threads(folder: Path) -> list[_Thread]:
    threads = []
    for path in sorted(folder.glob("*.jsonl.xz")):
        for each in read_json_lines_xz(path):
            answers = sorted(each["answers"], key=lambda answer: -answer["score"])
            if answers and answers[0]["score"] > 2 and each["title"].endswith("?"):
                threads.append(_Thread(each["title"], [one["body_html"] for one in answers[:3]]))
    return threads


def _answer_thread(
    settings: WriterDataSettings, judge: EvidenceJudge, thread: _Thread
) -> WritingTask | None:
    """Answer a title by sentences of the beginning of the best answer."""
    pages = [
        read_page(html.encode(), f"https://forum.example/{number}", "text/html")
        for number, html in enumerate(thread.answers)
    ]
    quotes = []
    for page in pages:
        spans = [span for span in split_sentences(page.text) if span[1] <= LONGEST_QUOTE]
        if spans:
            quotes.append(page.quote(spans[0][0], spans[-1][1]))
    if not quotes:
        return None
    said = choose_sentences(thread.title, " ".join(quotes[0].text.split()), "", judge, 0.0)
    return _finish_task("thread", thread.title, quotes, said, "", settings, judge)
