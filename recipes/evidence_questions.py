"""Examples from questions and claims that were written by hand over documentation sites.

recipes/questions has a file for each site. A question comes with the quote that answers it, or, as
a near miss, with one that seems to (SQuAD 2.0 has such questions); a claim with its evidence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import msgspec

from rookery.browse.passages import cut_passages
from rookery.browse.search_index import SearchIndex
from rookery.draft.evidence_answers import MOST_BLOCKS, SECTION_SIZES
from rookery.learn.evidence_training import EvidenceExample
from rookery.records import Failed, Failure, Page

WRITTEN = Path(__file__).with_name("questions")
_SEARCH_DEPTH = 8
"""passages of a search among which those that do not answer are drawn"""


class WrittenQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question or claim, with a quote."""

    kind: Literal[
        "fact",
        "how-to",
        "why",
        "comparison",
        "yes/no",
        "near miss",
        "supports",
        "refutes",
        "neither",
    ]
    text: str
    page: str
    """page of the quote, relative to the site's folder"""
    quote: str
    """part of the page's text, but for white space"""


class _Window(NamedTuple):
    """Part of a page around a quote, and where the quote stands in it."""

    text: str
    heading: str
    span: tuple[int, int]


def read_written_questions(path: Path) -> list[WrittenQuestion]:
    """Read the questions and claims about a site."""
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=WrittenQuestion) for line in lines]


def list_written_examples(
    sites: Mapping[str, Sequence[Page]],
    folders: Mapping[str, Path],
    seed: int,
    written: Path = WRITTEN,
) -> Iterator[EvidenceExample]:
    """Yield the examples of the questions and claims about these sites.

    `sites` has the pages of each, `folders` its folder, by the name of its file in `written`. Each
    quote stands once in its section and once in a run of its blocks. A question is not answered by
    what a search for it finds elsewhere. Raises Failed (no_quote) where a quote is not on its page.
    """
    for name, pages in sites.items():
        by_url = {page.url: page for page in pages}
        index = SearchIndex()
        for page in pages:
            index.add(page)
        index.commit()
        for number, each in enumerate(read_written_questions(written / f"{name}.jsonl")):
            random = Random(f"{seed} {name} {number}")
            shown = by_url.get((folders[name] / each.page).resolve().as_uri())
            place = find_quote_place(shown, each.quote) if shown else None
            if shown is None or place is None:
                detail = f"{name}.jsonl, line {number + 1}: its quote is not on the page: mend it"
                raise Failed(Failure(each.page, "no_quote", detail))
            windows = [cut_section(shown, place), cut_block_run(shown, place, random)]
            if each.kind in ("supports", "refutes", "neither"):
                window = random.choice(windows)
                yield EvidenceExample(each.text, window.text, window.heading, support=each.kind)
                continue
            answered = each.kind != "near miss"
            for window in windows:
                yield EvidenceExample(
                    each.text,
                    window.text,
                    window.heading,
                    float(answered),
                    window.span if answered else None,
                )
            others = [
                (by_url[hit.url], (hit.start, hit.end))
                for hit in index.search(each.text, _SEARCH_DEPTH)
                if hit.url != shown.url
            ]
            for other, span in random.sample(others, min(2, len(others))):
                window = cut_section(other, span)
                yield EvidenceExample(each.text, window.text, window.heading, 0.0)


def find_quote_place(page: Page, quote: str) -> tuple[int, int] | None:
    """Return where a quote stands on a page, whatever its white space; None if it does not."""
    found = re.search(r"\s+".join(map(re.escape, quote.split())), page.text)
    return found.span() if found else None


def cut_section(page: Page, place: tuple[int, int]) -> _Window:
    """Cut the section that holds most of a place, as `extract` cuts it for the model."""

    def measure_overlap(section: tuple[int, int]) -> int:
        return min(section[1], place[1]) - max(section[0], place[0])

    cut = {(each.start, each.end): each.context for each in cut_passages(page, SECTION_SIZES)}
    start, end = max(cut, key=measure_overlap, default=place)
    heading = f"{page.title} {cut.get((start, end), '')}".strip()
    inside = max(place[0], start) - start, min(place[1], end) - start
    return _Window(page.text[start:end], heading, inside)


def cut_block_run(page: Page, place: tuple[int, int], random: Random) -> _Window:
    """Cut the blocks that hold a place, and by chance a neighbour, as a quote is judged again."""
    blocks = [block for block in page.blocks if block.kind != "heading" and not block.hidden]
    inside = [
        number
        for number, block in enumerate(blocks)
        if block.start < place[1] and place[0] < block.end
    ]
    heading = cut_section(page, place).heading
    if not inside or len(inside) > MOST_BLOCKS:
        return _Window(page.text[slice(*place)], heading, (0, place[1] - place[0]))
    first = max(0, inside[0] - random.randrange(2))
    last = min(len(blocks) - 1, inside[-1] + random.randrange(2))
    start, end = min(blocks[first].start, place[0]), max(blocks[last].end, place[1])
    return _Window(page.text[start:end], heading, (place[0] - start, place[1] - start))
