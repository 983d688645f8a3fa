"""Data of the WebGLM recipe: folders of documents with the passages that answer questions about
them, and questions with short pages."""

from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.documentation import locate_page, read_folder_questions
from recipes.pointed_claims import list_sentence_quotes
from rookery.answers.evidence_answers import list_sections
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import SquadData, contains_gold_answer
from rookery.records import Page, Question, Record

PagedQuestion = tuple[Question, Page]
"""A question, and the page that answers it."""
PAGE_WORDS = 70
"""Words of a page at most; its sentences are the references of its question."""
MIN_SENTENCES = 3


class CitedQuestion(Record, frozen=True):
    """A question about a folder of documents."""

    id: str
    text: str
    cited: tuple[int, ...]
    """Numbers of the references that answer it."""


class CitedFolder(Record, frozen=True):
    """A folder of documents, cut into references, and the questions that they answer."""

    name: str
    references: tuple[str, ...]
    """Its sections, each with the headings above it."""
    questions: tuple[CitedQuestion, ...]


class Data(NamedTuple):
    """Everything that is learnt from or measured on."""

    folders: list[CitedFolder]
    encoder: str
    """Model that the retriever starts from."""
    taught: list[PagedQuestion]
    """Questions that the generator answers and learns from."""
    held: list[PagedQuestion]
    """Questions about other articles, to measure it on."""


def read_cited_folder(folder: Path) -> CitedFolder:
    """Read a folder of documents, and the questions in questions_NAME.jsonl beside it that a
    section answers: it is a section of an accepted page and matches a fact."""
    with TemporaryDirectory() as scratch:
        archive = PageArchive(Path(scratch) / "pages.sqlite")
        library = FolderLibrary(folder, archive, Path(scratch) / "index")
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        pages = [library.fetch(each.resolve().as_uri()) for each in files]
        library.close()
    sections = [
        (locate_page(page.url, folder), each) for page in pages for each in list_sections(page)
    ]
    questions = []
    for question in read_folder_questions({folder.name: (folder, "")}):
        cited = tuple(
            number
            for number, (place, each) in enumerate(sections)
            if question.is_right(place, f"{each.heading.removeprefix(each.page.title)} {each.text}")
        )
        if cited:
            questions.append(CitedQuestion(question.id, question.text, cited))
    references = (f"{each.heading}: {each.words or each.text}" for _, each in sections)
    joined = tuple(" ".join(each.split()) for each in references)
    return CitedFolder(folder.name, joined, tuple(questions))


def sample_paged_questions(
    squad: SquadData, counts: tuple[int, int], seed: int | str
) -> tuple[list[PagedQuestion], list[PagedQuestion]]:
    """Sample questions to learn from and to measure on, which no article has in common.

    A page is a paragraph of MIN_SENTENCES at least and PAGE_WORDS at most, one of whose sentences
    holds an accepted answer. Two thirds of the articles are learnt from.
    """
    articles = list(range(len(squad.articles)))
    Random(f"{seed} articles").shuffle(articles)
    edge = 2 * len(articles) // 3
    questions = list(squad.questions)
    Random(f"{seed} questions").shuffle(questions)

    def sample_part(part: set[int], count: int) -> list[PagedQuestion]:
        about = (each for each in questions if squad.places[each.id][0] in part)
        pages = ((each, _find_page(squad, each)) for each in about)
        return list(islice(((each, page) for each, page in pages if page), count))

    return sample_part({*articles[:edge]}, counts[0]), sample_part({*articles[edge:]}, counts[1])


def _find_page(squad: SquadData, question: Question) -> Page | None:
    """Return the paragraph of a question as a page, if it qualifies."""
    number, paragraph = squad.places[question.id]
    article = squad.articles[number]
    text = article.paragraphs[paragraph]
    if len(text.split()) > PAGE_WORDS:
        return None
    page = Page(f"squad:{article.name}/{paragraph}", article.title, text)
    quotes = list_sentence_quotes(page)
    holds = any(contains_gold_answer(each.text, gold) for each in quotes for gold in question.gold)
    return page if len(quotes) >= MIN_SENTENCES and holds else None
