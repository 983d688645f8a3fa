"""Examples from questions and claims that were written by hand over documentation sites.

recipes/questions has a file for each site, and recipes/questions/found one of what a search found
for its questions, as somebody who read it judged. The sites are packages of Debian: lines name the
quotes (page_spans.py), which are read from the installed pages. A question comes with the quote
that answers it, or, as a near miss, with one that seems to (SQuAD 2.0 has such questions); a claim
with what it is judged by. What a search finds besides is a hard negative only where it was judged
not to answer: a part of it does (Qu and others 2021, RocketQA, section 3.2, drop such passages by a
model). recipes/questions/judged has what the answers about the sites of bench/questions were chosen
of, as it was judged.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import msgspec

from bench.documentation import SiteQuestion, locate_page, read_folder_questions
from recipes.evidence_training import EvidenceExample
from recipes.page_spans import SpanName, find_spans
from recipes.stages import print_progress
from rookery.answers.evidence_answers import (
    SECTION_SIZES,
    PageSection,
    find_sections,
    list_sections,
)
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import SearchIndex
from rookery.pages.page_reader import read_page
from rookery.pages.passages import cut_passages, find_sentences, get_headings_above
from rookery.records import Library, Page, prepare_type
from rookery.written_values import use_forms_of

WRITTEN = Path(__file__).with_name("questions")
MOST_BLOCKS = 6
"""maximum number of neighbouring blocks or sentences in an example"""
_SEARCH_DEPTH = 8
"""passages of a search among which one that nobody judged is drawn as a negative, or two where
none was judged"""
_MOST_BESIDE = 4
"""sections beside what answers a question about a folder"""
_MOST_REJECTED = 2
"""passages that were judged not to answer, for each question"""
_SHORTEST_BESIDE = 60  # characters
CLAIM_KINDS = ("supports", "refutes", "neither")


class WrittenQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question or claim, with a quote.

    Of what a search found for a question, "rejected" does not answer it, "partly" answers a half of
    it, of "doubtful" nobody could tell, and what answers has a kind as other questions have.
    """

    kind: Literal[
        "fact",
        "how-to",
        "why",
        "comparison",
        "yes/no",
        "near miss",
        "rejected",
        "partly",
        "doubtful",
        "supports",
        "refutes",
        "neither",
    ]
    text: str
    page: str
    """page of the quote, relative to the site's folder"""
    words: int
    """number of words of the quote, which is a part of the page's text"""
    digest: str
    """digest of the quote's letters and digits (page_spans.py)"""


class _Window(NamedTuple):
    """Part of a page around a quote, and where the quote stands in it."""

    text: str
    heading: str
    span: tuple[int, int]


def read_written_questions(path: Path) -> list[WrittenQuestion]:
    """Read the questions and claims about a site."""
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=prepare_type(WrittenQuestion)) for line in lines]


def read_site_folders() -> dict[str, Path]:
    """Return the folders of the sites, by the names of their files in recipes/questions."""
    table = tomllib.loads((WRITTEN / "sites.toml").read_text(encoding="utf-8"))
    return {name: Path(folder) for name, folder in table.items()}


def list_written_examples(
    sites: Mapping[str, Sequence[Page]],
    folders: Mapping[str, Path],
    seed: int,
    found_pages: Collection[str] = (),
    written: Path = WRITTEN,
    windows: int = 2,
) -> Iterator[EvidenceExample]:
    """Yield the examples of the questions and claims about these sites.

    `sites` has the pages of each, `folders` its folder, by the name of its file in `written`; of
    the sites in `found_pages`, what a search found is read too. Each quote that answers stands in
    its section and in a run of its blocks (in one of the two by lot if `windows` is 1), beside a
    run without it; a near miss in one of the two; and every question beside what was rejected, and
    one more passage that a search finds, or `windows` of them where nothing was rejected.
    A quote that is not on its page is left out, and counted on standard error.
    """
    for name, pages in sites.items():
        by_url = {page.url: page for page in pages}
        index = SearchIndex()
        for page in pages:
            index.add(page)
        index.commit()
        files = [f"{name}.jsonl", *([f"found/{name}.jsonl"] if name in found_pages else [])]
        lines = [each for file in files for each in read_written_questions(written / file)]
        by_text: dict[str, list[_PlacedQuestion]] = {}
        urls = {each.page: (folders[name] / each.page).resolve().as_uri() for each in lines}
        pages_by_path = {path: by_url[url] for path, url in urls.items() if url in by_url}
        for each in find_quotes(name, lines, pages_by_path):
            by_text.setdefault(each.question.text, []).append(each)
        for text, of_text in by_text.items():
            random = Random(f"{seed} {name} {text}")
            yield from _list_examples_of_text(of_text, random, windows)
            if any(each.question.kind not in CLAIM_KINDS for each in of_text):
                hits = [(by_url[hit.url], hit) for hit in index.search(text, _SEARCH_DEPTH)]
                unknown = [
                    (page, (hit.start, hit.end))
                    for page, hit in hits
                    if not any(each.overlaps(page, hit.start, hit.end) for each in of_text)
                ]
                judged = any(each.question.kind == "rejected" for each in of_text)
                window_count = 1 if judged else windows
                for page, span in random.sample(unknown, min(window_count, len(unknown))):
                    window = cut_section(page, span)
                    yield EvidenceExample(text, window.text, window.heading, 0.0)


def list_judged_examples(
    folders: Mapping[str, Path], seed: int, judged: Path = WRITTEN / "judged"
) -> Iterator[EvidenceExample]:
    """Yield the examples of the passages that were judged for questions about these sites.

    `folders` has the folder of each, by the name of its file in `judged`. What answers or half
    answers (0.5) stands in its section and in a run of its sentences, as a quote is chosen among,
    and what answers beside a run without it. Beside what somebody read, in `judged`, what the
    patterns of facts say of other passages is taken, from the folder `matched`.
    """
    for name, folder in folders.items():
        read = (judged / f"{name}.jsonl", judged.with_name("matched") / f"{name}.jsonl")
        lines = [each for file in read if file.is_file() for each in read_written_questions(file)]
        files = {each.page: (folder / each.page).resolve() for each in lines}
        pages = {
            path: read_page(file.read_bytes(), file.as_uri(), "text/html")
            for path, file in files.items()
            if file.is_file()
        }
        for each, page, place, section in find_quotes(name, lines, pages):
            random = Random(f"{seed} {name} {each.text} {each.digest}")
            sentences = find_sentences(page, *section)
            headings = {each.start: each.heading for each in list_sections(page)}
            heading = headings.get(section[0], page.title)  # as the section is judged
            answers = {"rejected": 0.0, "partly": 0.5}.get(each.kind, 1.0)
            windows = [cut_section(page, place)]
            if answers:
                windows.append(cut_run(page, place, sentences, random))
            for window in windows:
                span = window.span if answers else None
                yield EvidenceExample(each.text, window.text, heading, answers, span)
            if answers == 1 and (other_run := cut_other_run(page, place, sentences, random)):
                yield EvidenceExample(each.text, other_run.text, heading, 0.0)


def list_folder_examples(
    names: Collection[str], seed: int, judge: EvidenceJudge, folders: Path = WRITTEN / "folders"
) -> Iterator[EvidenceExample]:
    """Yield the examples of the questions about these folders of invented documents.

    What matches a fact on an accepted page answers, in its section or row and in a run of its
    sentences. Of what a search finds besides the sections that `judge` likes best do not (hard
    negatives: Xiong and others 2021, ANCE, section 3), unless they say what a newer document
    replaces. Nothing answers a near miss.
    """
    for name in names:
        folder = folders / name
        questions = read_folder_questions({name: (folder, "")})
        with TemporaryDirectory() as scratch:
            archive = PageArchive(Path(scratch) / "pages.sqlite")
            library = FolderLibrary(folder, archive, Path(scratch) / "index")
            for each in questions:
                random = Random(f"{seed} {name} {each.id}")
                yield from _list_examples_of_folder(each, folder, library, judge, random)
            library.close()
        print_progress(f"{name}: {len(questions)} questions about a folder")


def _list_examples_of_folder(
    question: SiteQuestion, folder: Path, library: Library, judge: EvidenceJudge, random: Random
) -> Iterator[EvidenceExample]:
    gathered = gather_passages(question.text, library, RetrievalLimits(passages=12))
    sections = [each for each, *_ in find_sections(question.text, gathered)]
    pages = [library.fetch((folder / each).resolve().as_uri()) for each in question.accepted]
    sections += [each for page in pages for each in list_sections(page) if each not in sections]
    negatives = list[EvidenceExample]()
    for section in sections:
        page, text = section.page, section.words or section.text
        location = locate_page(page.url, folder)
        query = use_forms_of(question.text, f"{text} {section.heading}")
        under = f"{section.heading.removeprefix(page.title)} {section.text}"  # a version, say
        if question.is_right(location, under):
            yield from _list_right_examples(question, location, section, query, random)
        elif not question.is_outdated(location, section.text):
            negatives.append(EvidenceExample(query, text, section.heading, 0.0))
    passages = [EvidencePassage(each.passage, each.heading) for each in negatives]
    scored = zip(judge(question.text, passages), negatives, strict=True)
    hardest = sorted(scored, key=lambda pair: -pair[0].answers)
    yield from (each for _, each in hardest[:_MOST_BESIDE])


def _list_right_examples(
    question: SiteQuestion, location: str, section: PageSection, query: str, random: Random
) -> Iterator[EvidenceExample]:
    if section.words:
        span = 0, len(section.words)
        yield EvidenceExample(query, section.words, section.heading, 1.0, span)
        return
    page = section.page
    sentences = find_sentences(page, section.start, section.end)
    right = [each for each in sentences if question.is_right(location, page.text[slice(*each)])]
    start, end = right[0] if right else (section.start, section.end)
    span = start - section.start, end - section.start
    yield EvidenceExample(query, section.text, section.heading, 1.0, span)
    if len(sentences) > 2 and right:
        run = cut_run(page, right[0], sentences, random)
        yield EvidenceExample(query, run.text, section.heading, 1.0, run.span)
        if other_run := cut_other_run(page, right[0], sentences, random):
            yield EvidenceExample(query, other_run.text, section.heading, 0.0)


class _PlacedQuestion(NamedTuple):
    """A question or claim, and where its quote stands."""

    question: WrittenQuestion
    page: Page
    place: tuple[int, int]
    section: tuple[int, int]

    def overlaps(self, page: Page, start: int, end: int) -> bool:
        """Return True if a part of a page stands in the section of the quote."""
        return page.url == self.page.url and start < self.section[1] and self.section[0] < end


def find_quotes(
    site: str, lines: Sequence[WrittenQuestion], pages: Mapping[str, Page]
) -> list[_PlacedQuestion]:
    """Find the quotes of these questions and claims about a site, and print how many are not found.

    `pages` are those of the site that could be read, by their paths relative to its folder.
    """
    quote_places: dict[WrittenQuestion, _PlacedQuestion] = {}
    for path, page in pages.items():
        page_questions = [each for each in lines if each.page == path]
        places = find_spans(
            page.text, [SpanName(each.words, each.digest) for each in page_questions]
        )
        for each, place in zip(page_questions, places, strict=True):
            if place is not None:
                quote_places[each] = _PlacedQuestion(each, page, place, find_section(page, place))
    placed = [quote_places[each] for each in lines if each in quote_places]
    if missing := len(lines) - len(placed):
        print_progress(
            f"{site}: {missing} of {len(lines)} quotes are not on the installed pages and left out"
        )
    return placed


def _list_examples_of_text(
    placed: Sequence[_PlacedQuestion], random: Random, windows: int
) -> Iterator[EvidenceExample]:
    rejected = [each for each in placed if each.question.kind == "rejected"]
    random.shuffle(rejected)
    kept_ids = {id(each) for each in rejected[:_MOST_REJECTED]}
    for each in placed:
        kind, text, page, place = each.question.kind, each.question.text, each.page, each.place
        if kind == "doubtful" or (kind == "rejected" and id(each) not in kept_ids):
            continue
        blocks = list_text_blocks(page)
        section, run = cut_section(page, place), cut_run(page, place, blocks, random)
        if kind == "supports" or kind == "refutes" or kind == "neither":
            window = random.choice([section, run])
            yield EvidenceExample(text, window.text, window.heading, support=kind)
        elif kind == "rejected":
            yield EvidenceExample(text, section.text, section.heading, 0.0)
        elif kind == "near miss":
            window = random.choice([section, run])
            yield EvidenceExample(text, window.text, window.heading, 0.0)
        else:
            for window in (section, run) if windows > 1 else random.sample((section, run), 1):
                yield EvidenceExample(text, window.text, window.heading, 1.0, window.span)
            if other_run := cut_other_run(page, place, blocks, random):
                yield EvidenceExample(text, other_run.text, other_run.heading, 0.0)


def find_section(page: Page, place: tuple[int, int]) -> tuple[int, int]:
    """Return the section that holds most of a place, as `extract` cuts it for the model."""

    def measure_overlap(section: tuple[int, int]) -> int:
        return min(section[1], place[1]) - max(section[0], place[0])

    cut = [(each.start, each.end) for each in cut_passages(page, SECTION_SIZES)]
    return max(cut, key=measure_overlap, default=place)


def cut_section(page: Page, place: tuple[int, int]) -> _Window:
    """Cut the section that holds most of a place."""
    start, end = find_section(page, place)
    heading = f"{page.title} {get_headings_above(page, start + 1)}".strip()
    inside = max(place[0], start) - start, min(place[1], end) - start
    return _Window(page.text[start:end], heading, inside)


def cut_run(
    page: Page, place: tuple[int, int], units: Sequence[tuple[int, int]], random: Random
) -> _Window:
    """Cut the blocks or sentences that hold a place, and by chance a neighbour, as a quote is
    judged again."""
    inside = [n for n, (low, high) in enumerate(units) if low < place[1] and place[0] < high]
    heading = cut_section(page, place).heading
    if not inside or len(inside) > MOST_BLOCKS:
        return _Window(page.text[slice(*place)], heading, (0, place[1] - place[0]))
    first = max(0, inside[0] - random.randrange(2))
    last = min(len(units) - 1, inside[-1] + random.randrange(2))
    start, end = min(units[first][0], place[0]), max(units[last][1], place[1])
    return _Window(page.text[start:end], heading, (place[0] - start, place[1] - start))


def cut_other_run(
    page: Page, place: tuple[int, int], units: Sequence[tuple[int, int]], random: Random
) -> _Window | None:
    """Cut a run of units of the same section without the place; None if there is none."""
    start, end = find_section(page, place)
    heading = cut_section(page, place).heading
    around = [unit for unit in units if start <= unit[0] < end]
    sides = (
        [unit for unit in around if unit[1] <= place[0]],
        [unit for unit in around if unit[0] >= place[1]],
    )
    side = max(sides, key=lambda units: sum(high - low for low, high in units))
    size = random.randint(1, MOST_BLOCKS)
    run = side[-size:] if side is sides[0] else side[:size]
    if not run or run[-1][1] - run[0][0] < _SHORTEST_BESIDE:
        return None
    return _Window(page.text[run[0][0] : run[-1][1]], heading, (0, 0))


def list_text_blocks(page: Page) -> list[tuple[int, int]]:
    """Return the spans of a page's blocks that are shown, without headings."""
    return [
        (block.start, block.end)
        for block in page.blocks
        if block.kind != "heading" and not block.hidden
    ]
