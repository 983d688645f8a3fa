"""Data of the WebGLM recipe: questions with the sentences of their article, and forum threads."""

import json
import lzma
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from recipes.oracle_policies import OracleErrorRates, OracleWriter, parse_webglm_prompt
from recipes.random_models import write_tiny_encoder
from recipes.vote_comparisons import ForumThread
from rookery.answers.webglm import WebglmSettings, answer_with_webglm
from rookery.library.question_files import SquadArticle, SquadData
from rookery.library.search_index import InMemoryLibrary
from rookery.measure.citations import EntailmentFunction
from rookery.pages.passages import find_sentences
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Claim, Episode, Page, Policy, Question, Quote, digest_of

MISSING_REFERENCE = Page("", "", "nothing")
"""Stands for the reference of a citation number that does not exist."""


def split_questions(
    squad: SquadData, articles: Sequence[int], questions: Sequence[int], seed: int
) -> list[list[Question]]:
    """Sample questions for each part: `articles[i]` articles and at most `questions[i]` questions
    of each; no article is in two parts."""
    by: dict[str, list[Question]] = {}
    for question in squad.questions:
        by.setdefault(question.source, []).append(question)
    names = Random(f"{seed} articles").sample(sorted(by), sum(articles))
    rest = iter(names)
    return [
        [
            question
            for name in islice(rest, count)
            for question in _sample_questions(by[name], each, seed)
        ]
        for count, each in zip(articles, questions, strict=True)
    ]


def _sample_questions(questions: Sequence[Question], most: int, seed: int) -> list[Question]:
    name = questions[0].source
    return Random(f"{seed} {name}").sample(questions, min(most, len(questions)))


class Bootstrapper:
    """Answer questions from the sentences of their article by an oracle policy; a sentence takes
    the place of WebGLM's line."""

    def __init__(
        self, squad: SquadData, faults: OracleErrorRates, settings: WebglmSettings, seed: int
    ) -> None:
        self._articles = {article.name: article for article in squad.articles}
        self._settings = settings
        self._shelf = ("", InMemoryLibrary([]))
        accepted = {question.text: question.gold for question in squad.questions}
        memory = [line for article in squad.articles[::20] for line in split_article_lines(article)]
        self.policy = OracleWriter(accepted, memory, faults, seed)

    def __call__(self, question: Question) -> Episode:
        """Answer a question; citations are corrected, nothing is filtered."""
        return self.answer(question, self.policy, self._settings)

    def answer(self, question: Question, policy: Policy, settings: WebglmSettings) -> Episode:
        """Answer a question by any policy, from the same references."""
        library = self._open_article(question.source)
        return answer_with_webglm(question, library, policy, settings=settings)

    def _open_article(self, name: str) -> InMemoryLibrary:
        """Return the library of one article, kept until another is asked for: questions about an
        article follow one another."""
        if self._shelf[0] != name:
            pages = [
                Page(f"{name}/{number}", "", line, digest=digest_of(line))
                for number, line in enumerate(split_article_lines(self._articles[name]))
            ]
            self._shelf = name, InMemoryLibrary(pages)
        return self._shelf[1]

    def rebuild_written_answer(self, episode: Episode) -> Answer:
        """Return the answer with the citation numbers that the policy wrote, before correction."""
        statements = self.policy.generate_statements(episode.steps[-1].prompt)
        quotes = [
            *map(_make_quote, self._read_references(episode)),
            _make_quote(MISSING_REFERENCE.text),
        ]
        text, claims = "", []
        for each in statements:
            number = min(each.cited, len(quotes) - 1)
            claims.append(Claim(len(text), len(text) + len(each.text), (number,)))
            text += f"{each.text}. "
        return Answer(text, tuple(quotes), tuple(claims))

    def make_entailment(self, episodes: Sequence[Episode]) -> EntailmentFunction:
        """Return a function (premises, claim) that gives 1.0 if the policy made the claim from a
        line of a premise, else 0.0. It compares no words, as filters and correction do, and so
        can judge them."""
        entailment = {
            (
                _normalize_words(each.text),
                _normalize_words(self._read_references(episode)[each.source]),
            )
            for episode in episodes
            if episode.steps
            for each in self.policy.generate_statements(episode.steps[-1].prompt)
            if each.source is not None
        }
        return lambda premises, claim: float(
            any(
                (_normalize_words(claim), _normalize_words(line)) in entailment
                for premise in premises
                for line in premise.text.splitlines()
            )
        )

    def _read_references(self, episode: Episode) -> list[str]:
        return parse_webglm_prompt(episode.steps[-1].prompt)[1]


def split_article_lines(article: SquadArticle) -> list[str]:
    """Split an article into its sentences."""
    found = []
    for paragraph in article.paragraphs:
        page = Page("", "", paragraph)
        spans = find_sentences(page, 0, len(paragraph))
        found += [" ".join(paragraph[start:end].split()) for start, end in spans]
    return found


def _make_quote(text: str) -> Quote:
    return Page("", "", text or " ").quote(0, len(text or " "))


def _normalize_words(text: str) -> str:
    return " ".join(split_words(text))


class Data(NamedTuple):
    """Questions and threads by use."""

    squad: SquadData
    taught: list[Question]
    """Questions to learn from."""
    asked: list[Question]
    """Questions to measure on, of other articles."""
    known: list[ForumThread]
    """Threads to learn from."""
    held: list[ForumThread]
    """Threads to measure on."""
    encoder: str
    """Model that the retriever starts from."""
    summaries: Sequence[tuple[str, str]] = ()
    """Texts with their summaries."""


_SUMMARY_KEYS = (("post", "summary"), ("content", "summary"), ("source", "target"))
"""Keys of a text and its summary in TL;DR as Stiennon and others filtered it, in TL;DR as it was
collected, and in SciTLDR, whose values are lists: sentences, and summaries."""


def read_summaries(place: Path) -> list[tuple[str, str]]:
    """Read texts and their summaries from a JSONL file of TL;DR or SciTLDR, packed with xz or not.

    Of several summaries the first is taken. Raises ValueError naming a line of no such form.
    """
    packed = place.read_bytes()
    data = lzma.decompress(packed) if place.suffix == ".xz" else packed
    return [
        _parse_summary(line, f"{place}, line {number}")
        for number, line in enumerate(data.splitlines(), 1)
        if line.strip()
    ]


def _parse_summary(line: bytes, where: str) -> tuple[str, str]:
    row = json.loads(line)
    for text, summary in _SUMMARY_KEYS:
        if text in row and summary in row:
            whole, short = row[text], row[summary]
            whole = whole if isinstance(whole, str) else " ".join(whole)
            return whole.strip(), (short if isinstance(short, str) else short[0]).strip()
    raise ValueError(
        f"{where}: no text with its summary: a line has post and summary, content and summary, or "
        "source and target"
    )


def make_tiny_summaries(squad: SquadData) -> list[tuple[str, str]]:
    """Return made-up paragraphs, each with its first sentence as the summary."""
    paragraphs = [text for article in squad.articles for text in article.paragraphs]
    return [(text, text.partition(".")[0]) for text in paragraphs]


def write_tiny_data(folder: Path, seed: int = 0) -> tuple[Path, Path, Path]:
    """Write a made-up SQuAD file, forum and encoder, and return their paths. One word decides which
    line answers a question, and posts that give a reason get more votes."""
    chance = Random(f"{seed} little")
    folder.mkdir(parents=True, exist_ok=True)
    articles = [_make_article(number, chance) for number in range(30)]
    squad, forum = folder / "squad.json", folder / "forum.jsonl"
    squad.write_text(json.dumps({"data": articles}))
    threads = [_make_thread(number, chance) for number in range(40)]
    forum.write_text("".join(json.dumps(each) + "\n" for each in threads))
    texts = [p["context"] for each in articles for p in each["paragraphs"]]
    texts += [q["question"] for each in articles for p in each["paragraphs"] for q in p["qas"]]
    texts += [
        f"{each['title']} {post['body_html']}" for each in threads for post in each["answers"]
    ]
    write_tiny_encoder(folder / "encoder", [*texts, "Question: Answer:"], seed=seed)
    return squad, forum, folder / "encoder"


BIRDS = ("owl", "finch", "heron", "swift", "wren", "crane")
FOODS = ("mice", "seeds", "frogs", "flies", "worms", "fish", "beetles", "berries")


def _make_article(number: int, chance: Random) -> dict[str, Any]:
    paragraphs = []
    for bird in chance.sample(BIRDS, 4):
        eaten, watched, fled = chance.sample(FOODS, 3)
        lines = [
            f"The {bird} of the hill eats {eaten} in spring",
            f"The {bird} of the hill is seen beside {watched} in spring",
            f"The {bird} of the hill flees from {fled} in spring",
        ]
        chance.shuffle(lines)
        questions = {
            "id": f"{number}-{bird}",
            "question": f"What food does the {bird} of the hill like in spring, number {number}?",
            "answers": [{"text": eaten}],
        }
        paragraphs.append({"context": ". ".join(lines) + ".", "qas": [questions]})
    return {"title": f"Hill {number}", "paragraphs": paragraphs}


def _make_thread(number: int, chance: Random) -> dict[str, Any]:
    posts = []
    for at in range(5):
        why = chance.random() < 0.5
        text = f"It {'is so because' if why else 'may be'} {chance.choice(FOODS)} feed the "
        text += " ".join(chance.choices(BIRDS, k=chance.randint(2, 6)))
        votes = 5 * why + chance.randint(0, 3)
        posts.append(
            {"body_html": f"<p>{text}</p>", "score": votes, "created": f"2014-01-0{at + 1}"}
        )
    title = f"Why does thing {number} feed the {chance.choice(BIRDS)}?"
    return {"site": "made-up", "id": str(number), "title": title, "answers": posts}
