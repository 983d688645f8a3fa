"""What WebGLM's recipe is about: questions with the lines of their article, and forum threads.

It knows nothing of how models learn.
"""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rookery.ask.squad import Article, Squad
from rookery.browse.passages import sentences
from rookery.browse.shelf import Shelf
from rookery.cite.overlap import words
from rookery.draft.adopt import Adopter, Faults, read_prompt
from rookery.draft.webglm import WebglmSettings, webglm
from rookery.judge.thumbs import Thread
from rookery.learn.tiny_encoder import write_tiny_encoder
from rookery.records import Answer, Claim, Episode, Page, Question, Quote, digest_of

NOWHERE = Page("", "", "nothing")
"""what a number that no reference has is taken to cite"""


def apart(
    squad: Squad, articles: Sequence[int], questions: Sequence[int], seed: int
) -> list[list[Question]]:
    """Questions of as many articles as is said for each part, as many of each article; no article
    is in two parts."""
    by: dict[str, list[Question]] = {}
    for question in squad.questions:
        by.setdefault(question.source, []).append(question)
    names = Random(f"{seed} articles").sample(sorted(by), sum(articles))
    rest = iter(names)
    return [
        [question for name in islice(rest, count) for question in _some(by[name], each, seed)]
        for count, each in zip(articles, questions, strict=True)
    ]


def _some(questions: Sequence[Question], most: int, seed: int) -> list[Question]:
    name = questions[0].source
    return Random(f"{seed} {name}").sample(questions, min(most, len(questions)))


class Bootstrapper:
    """Answers questions from the lines of their article, as WebGLM divides pages by line breaks:
    here a line is a sentence."""

    def __init__(self, squad: Squad, faults: Faults, settings: WebglmSettings, seed: int) -> None:
        self._articles = {article.name: article for article in squad.articles}
        self._settings = settings
        self._shelf = ("", Shelf([]))
        accepted = {question.text: question.gold for question in squad.questions}
        memory = [line for article in squad.articles[::20] for line in lines(article)]
        self.policy = Adopter(accepted, memory, faults, seed)

    def __call__(self, question: Question) -> Episode:
        """What the policy says, its citations corrected and nothing filtered."""
        return webglm(
            question, self._library(question.source), self.policy, settings=self._settings
        )

    def _library(self, name: str) -> Shelf:
        """Of one article at a time: questions of an article follow one another."""
        if self._shelf[0] != name:
            pages = [
                Page(f"{name}/{number}", "", line, digest=digest_of(line))
                for number, line in enumerate(lines(self._articles[name]))
            ]
            self._shelf = name, Shelf(pages)
        return self._shelf[1]

    def as_written(self, episode: Episode) -> Answer:
        """The answer with the numbers that the policy gave."""
        said = self.policy.statements(episode.steps[-1].prompt)
        quotes = [*map(_quoted, self._references(episode)), _quoted(NOWHERE.text)]
        text, claims = "", []
        for each in said:
            number = min(each.cited, len(quotes) - 1)
            claims.append(Claim(len(text), len(text) + len(each.text), (number,)))
            text += f"{each.text}. "
        return Answer(text, tuple(quotes), tuple(claims))

    def entails(self, episodes: Sequence[Episode]) -> Callable[[str, str], float]:
        """Whether a statement was made from what it cites, which the policy knows: no words are
        compared, as filters and correction do."""
        made = {
            (_key(each.text), _key(self._references(episode)[each.source]))
            for episode in episodes
            if episode.steps
            for each in self.policy.statements(episode.steps[-1].prompt)
            if each.source is not None
        }
        return lambda premise, claim: float(
            any((_key(claim), _key(line)) in made for line in premise.splitlines())
        )

    def _references(self, episode: Episode) -> list[str]:
        return read_prompt(episode.steps[-1].prompt)[1]


def lines(article: Article) -> list[str]:
    """The sentences of an article."""
    found = []
    for paragraph in article.paragraphs:
        page = Page("", "", paragraph)
        spans = sentences(page, 0, len(paragraph))
        found += [" ".join(paragraph[start:end].split()) for start, end in spans]
    return found


def _quoted(text: str) -> Quote:
    return Page("", "", text or " ").quote(0, len(text or " "))


def _key(text: str) -> str:
    return " ".join(words(text))


class Data(NamedTuple):
    """Questions and threads by what they are for."""

    squad: Squad
    taught: list[Question]
    """learnt from"""
    asked: list[Question]
    """measured on, and so are their articles"""
    known: list[Thread]
    """learnt from"""
    held: list[Thread]
    """measured on"""
    encoder: str
    """which the retriever begins as"""


def write_little(folder: Path, seed: int = 0) -> tuple[Path, Path, Path]:
    """A made-up SQuAD file, forum and encoder: which line answers hangs on one word, and people
    like what says why."""
    chance = Random(f"{seed} little")
    folder.mkdir(parents=True, exist_ok=True)
    articles = [_made_up(number, chance) for number in range(30)]
    squad, forum = folder / "squad.json", folder / "forum.jsonl"
    squad.write_text(json.dumps({"data": articles}))
    asked = [_thread(number, chance) for number in range(40)]
    forum.write_text("".join(json.dumps(each) + "\n" for each in asked))
    texts = [p["context"] for each in articles for p in each["paragraphs"]]
    texts += [q["question"] for each in articles for p in each["paragraphs"] for q in p["qas"]]
    texts += [f"{each['title']} {post['body_html']}" for each in asked for post in each["answers"]]
    write_tiny_encoder(folder / "encoder", [*texts, "Question: Answer:"], seed=seed)
    return squad, forum, folder / "encoder"


BIRDS = ("owl", "finch", "heron", "swift", "wren", "crane")
FOODS = ("mice", "seeds", "frogs", "flies", "worms", "fish", "beetles", "berries")


def _made_up(number: int, chance: Random) -> dict[str, Any]:
    paragraphs = []
    for bird in chance.sample(BIRDS, 4):
        eaten, seen, fled = chance.sample(FOODS, 3)
        lines = [
            f"The {bird} of the hill eats {eaten} in spring",
            f"The {bird} of the hill is seen beside {seen} in spring",
            f"The {bird} of the hill flees from {fled} in spring",
        ]
        chance.shuffle(lines)
        asked = {
            "id": f"{number}-{bird}",
            "question": f"What food does the {bird} of the hill like in spring, number {number}?",
            "answers": [{"text": eaten}],
        }
        paragraphs.append({"context": ". ".join(lines) + ".", "qas": [asked]})
    return {"title": f"Hill {number}", "paragraphs": paragraphs}


def _thread(number: int, chance: Random) -> dict[str, Any]:
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
