"""The command `rookery learn example`: write a tiny model, data of the bundled pages, and a
configuration for each kind of training.

All four run in minutes on two cores, and each improves on its held-out data. The data are made by
rules, to show how the parts fit together and not what good answers are: the reward model learns
that a quote should be a whole sentence.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from rookery.browser.browser_commands import SCREEN_LINK, BrowserRules, BrowserTask, Observation
from rookery.browser.rollout import make_scripted_policy, run_rollouts
from rookery.errors import Failed, Outcome
from rookery.learn.random_models import write_tiny_model
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import (
    bundled_questions,
    contains_gold_answer,
    is_correct_answer,
    read_questions,
)
from rookery.pages.passages import find_sentences
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Episode,
    Failure,
    Page,
    Question,
    Quote,
    Record,
)

EXAMPLE_CONFIGS = Path(__file__).parent / "learn_examples"
"""folder of the configurations, whose names are in the order in which to run them"""
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
        raise Failed(Failure(str(folder), Outcome.NOT_EMPTY, "name a folder that is new or empty"))
    folder.mkdir(parents=True, exist_ok=True)
    questions = list(read_questions(bundled_questions()))
    with (
        PageArchive(folder / "archive.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, folder / "index") as pages,
    ):
        # They are kept in the order in which processes have read them, which is never the same.
        kept_pages = sorted(archive.iter_pages(), key=lambda page: page.url)
        read = [page for page in kept_pages if page.title]
        episodes = list(_demonstrate_questions(questions, read, pages))
    _write_records(folder / "episodes.jsonl", episodes)
    _write_records(folder / "questions.jsonl", questions)
    _write_records(folder / "comparisons.jsonl", _compare_answers(read))
    _write_records(folder / "triples.jsonl", _build_triples(questions, read))
    texts = [step.prompt + step.said.text for episode in episodes for step in episode.steps]
    write_tiny_model(folder / "tiny", texts, VOCABULARY, CONTEXT)
    return [_write_config(folder, file) for file in sorted(EXAMPLE_CONFIGS.glob("*.toml"))]


def _write_records(path: Path, records: Iterable[Record]) -> None:
    path.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")


def _write_config(folder: Path, config: Path) -> Path:
    """Copy a configuration to the folder, which stands in it as HERE."""
    path, text = folder / config.name, config.read_text(encoding="utf-8")
    here = msgspec.json.encode(str(folder.resolve())).decode()[1:-1]
    path.write_text(text.replace("HERE", here), encoding="utf-8")
    return path


def _demonstrate_questions(
    questions: Sequence[Question], read: Sequence[Page], library: FolderLibrary
) -> Iterator[Episode]:
    """Yield correct episodes of a script that knows the answers, each question in several ways."""
    for seed in range(DEMONSTRATION_SEEDS):
        tasks, actors = [], []
        for question in questions:
            named = question.gold and question.source
            for page in (page for page in read if named and question.source in page.url):
                actors.append(_make_actor(question, page, Random(f"{seed} {question.id}")))
                tasks.append(BrowserTask(question, EXAMPLE_RULES))
        act = make_scripted_policy(actors)
        for episode in run_rollouts(tasks, library, act, "demonstrator", seed):
            if is_correct_answer(episode.question, episode.answer):
                yield episode


def _make_actor(question: Question, page: Page, random: Random) -> Callable[[Observation], str]:
    """Return what says a command to each observation of one episode, and at the end the answer."""
    script = _script_commands(question, page, random)
    next(script)

    def choose_action(observation: Observation) -> str:
        if not observation.answering:
            return script.send(observation)
        says = random.choice(("", "", "The answer is "))
        return f"{says}{question.gold[0].rstrip('.')} [1]." if observation.quotes else "No answer."

    return choose_action


def _script_commands(
    question: Question, page: Page, random: Random
) -> Generator[str, Observation, None]:
    """Yield commands that quote the sentence with the answer; is sent what each of them shows."""
    title, sentence = " ".join(page.title.split()), _find_answering_sentence(question, page)
    queries = [question.text, question.text.rstrip("?").lower(), title]
    observation = yield ""
    for query in random.sample(queries, len(queries)):
        observation = yield f"Search {query}"
        links = SCREEN_LINK.findall(observation.text)
        fitting = [number for number, words in links if title.startswith(words.rstrip("…"))]
        if fitting:
            observation = yield f"Clicked on link {fitting[0]}"
            break
    if sentence not in " ".join(SCREEN_LINK.sub(r"\2", observation.text).split()):
        yield f"Find in page: {' '.join(sentence.split()[: random.randint(3, 5)])}"
    yield f"Quote: {sentence}"
    while True:
        yield "End: Answer"


def _find_answering_sentence(question: Question, page: Page) -> str:
    """Return the first sentence with the gold answer; the answer itself where none has it."""
    spans = find_sentences(page, 0, len(page.text))
    said = (" ".join(page.text[start:end].split()) for start, end in spans)
    gold = question.gold[0]
    return next((each for each in said if contains_gold_answer(each, gold)), gold)


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
            cut = page.quote_whole_words(start, _find_word_end(page.text, start, end, random))
            answers = [
                _build_answer(claim, page.quote_whole_words(start, end)),
                _build_answer(claim, cut),
            ]
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


def _build_triples(
    questions: Sequence[Question], pages: Sequence[Page]
) -> Iterator[_ReferenceTriple]:
    """Yield each question with the paragraphs of its page, and the sentence that answers it."""
    for question in questions:
        page = next((page for page in pages if question.source in page.url), None)
        if not question.gold or page is None:
            continue
        parts = [page.text[block.start : block.end] for block in page.iter_article()]
        answer = _find_answering_sentence(question, page)
        references = tuple(part for part in parts if len(part) > 40)
        yield _ReferenceTriple(question.text, references, answer)
