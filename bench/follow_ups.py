"""Follow-up questions: how often the right page is found for them, as they are asked and with what
they need of the questions before; how often something is added to a question that stands alone; and
how often a third question of a conversation is answered rightly, and with what answers an earlier.

Reads bench/questions/follow_ups.jsonl: short conversations over the pages about crows that come
with Rookery and over the manual pages of Git (Debian package git-man); and
bench/questions/conversations: three questions each about those crows and about a folder. The half
`build` may be used for choices; the half `test` was set aside before any was made. Questions that
stand alone are those of the conversations, and those of bench/questions about documentation, each
asked after the one before it in its file. Prints two tables.

    python -m bench.follow_ups [--test]
"""

import argparse
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import msgspec

from bench.documentation import QUESTIONS
from bench.report import SCRATCH, print_table, skip_bench
from rookery.answers.evidence_answers import answer_by_evidence
from rookery.answers.follow_ups import join_questions
from rookery.evidence.evidence_model import BUNDLED_MODEL, EvidenceJudge, load_evidence_model
from rookery.evidence.passage_ranking import RankedPassage
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.records import Library, Question
from rookery.settings import FileSelection

SITES = {
    "corvids": (get_bundled_folder(), "*.*htm*"),
    "git-man": (Path("/usr/share/man/man1"), "git-*"),
}
"""folder of each site, and the glob of its pages"""
WAYS = ("as asked", "rewritten")


class ConversationTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a conversation."""

    text: str
    leans: bool
    """it cannot be understood without the question before"""
    accepted: tuple[str, ...]
    """pages that answer it, by the beginning of their file names"""


class TalkTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a conversation of three, and a pattern that a right quote matches."""

    text: str
    fact: str


class Talk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Three questions in a row about a place."""

    id: str
    place: str
    """corvids, or a folder in bench/questions/conversations"""
    part: str
    """build or test"""
    kind: str
    """what the third question needs of those before"""
    turns: tuple[TalkTurn, ...]


class Conversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A short conversation about a site."""

    id: str
    site: str
    part: str
    """build or test"""
    turns: tuple[ConversationTurn, ...]


def read_conversations(part: str) -> list[Conversation]:
    """Read the conversations of a part."""
    lines = (QUESTIONS / "follow_ups.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Conversation) for line in lines]
    return [each for each in found if each.part == part]


def rewrite_turns(talk: Conversation) -> list[dict[str, str]]:
    """Return what is searched for each question after the first, by each way."""
    texts = [turn.text for turn in talk.turns]
    talks = [texts[:end] for end in range(2, len(texts) + 1)]
    return [dict(zip(WAYS, (each[-1], join_questions(each)), strict=True)) for each in talks]


def rank_pages(question: str, library: Library, judge: EvidenceJudge) -> tuple[list[str], bool]:
    """Return the names of the files that a question finds, best first; and if it is answered."""
    heard = list[RankedPassage]()
    episode = answer_by_evidence(Question("", question), library, judge, observe=heard.extend)
    names = dict.fromkeys(ranked.page.url.rpartition("/")[2] for ranked in heard)
    return list(names), episode.stop == "end"


def count_changed(part: str) -> tuple[int, int]:
    """Count questions about documentation to which something is added, and all of them."""
    changed = asked = 0
    for file in sorted(QUESTIONS.glob(f"{part}_*.jsonl")):
        before = ""
        for line in file.read_bytes().splitlines():
            text = msgspec.json.decode(line)["text"]
            changed += bool(before) and join_questions([before, text]) != text
            asked, before = asked + 1, text
    return changed, asked


def join_all(questions: Sequence[str]) -> str:
    """Return a question with all those before it that it leans on, as version 0.2 searched it."""
    joined = ""
    for question in questions:
        leans = joined and join_questions([joined, question]) != question
        joined = f"{question} {joined}" if leans else question
    return joined


def compare_talks(part: str, judge: EvidenceJudge) -> dict[str, dict[str, float]]:
    """Count the right answers to second and third questions, and those to earlier ones, by way."""
    lines = (QUESTIONS / "conversations" / "questions.jsonl").read_bytes().splitlines()
    talks = [talk for line in lines if (talk := msgspec.json.decode(line, type=Talk)).part == part]
    ways = {"alone": lambda texts: texts[-1], "all before": join_all, "rewritten": join_questions}
    rows = {f"{n} questions, {way}": dict[str, float]() for n in ("two", "three") for way in ways}
    archive = PageArchive(SCRATCH / "documentation.sqlite")
    for place in dict.fromkeys(talk.place for talk in talks):
        folder = QUESTIONS / "conversations" / place
        folder = folder if folder.is_dir() else get_bundled_folder()
        library = FolderLibrary(folder, archive, SCRATCH / "conversations")
        for talk, number in product((each for each in talks if each.place == place), (1, 2)):
            for way, join in ways.items():
                question = join([turn.text for turn in talk.turns[: number + 1]])
                answer = answer_by_evidence(Question("", question), library, judge).answer
                quotes = () if answer is None or answer.declined else answer.quotes[:1]
                quoted = " ".join("".join(quote.text for quote in quotes).split())
                *earlier, right = (
                    re.search(turn.fact, quoted, re.IGNORECASE) is not None
                    for turn in talk.turns[: number + 1]
                )
                row = rows[f"{('two', 'three')[number - 1]} questions, {way}"]
                for name, value in (
                    ("questions", True),
                    ("right first", right),
                    ("an earlier one", not right and any(earlier)),
                    ("no answer", not quotes),
                ):
                    row[name] = row.get(name, 0) + value
        library.close()
    return rows


def main() -> None:
    """Ask every question after the first of each conversation, in each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--test", action="store_true", help="ask the half that was set aside")
    part = "test" if parser.parse_args().test else "build"
    if not (SITES["git-man"][0] / "git-notes.1.gz").exists():
        skip_bench("not installed: apt install git-man")
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    rows = {f"{site}, {way}": dict[str, float]() for site in SITES for way in WAYS}
    alone = kept = 0
    for site, (folder, glob) in SITES.items():
        archive = PageArchive(SCRATCH / "documentation.sqlite")
        selection = FileSelection(glob=(glob,))
        library = FolderLibrary(folder, archive, SCRATCH / "follow_ups", selection=selection)
        for talk in [each for each in read_conversations(part) if each.site == site]:
            for turn, searched in zip(talk.turns[1:], rewrite_turns(talk), strict=True):
                if not turn.leans:
                    alone, kept = alone + 1, kept + (searched[WAYS[1]] == turn.text)
                    continue
                for way in WAYS:
                    pages, answered = rank_pages(searched[way], library, judge)
                    row = rows[f"{site}, {way}"]
                    right = [page.startswith(turn.accepted) for page in pages]
                    for name, value in (
                        ("questions", True),
                        ("first", any(right[:1])),
                        ("in three", any(right[:3])),
                        ("answered", answered),
                        ("and right", answered and any(right[:1])),
                    ):
                        row[name] = row.get(name, 0) + value
                print(*searched.values(), sep=" -> ")
        library.close()
    print_table(("questions", "first", "in three", "answered", "and right"), rows)
    print(f"of {alone} that stand alone {kept} are kept; ", end="")
    changed, asked = count_changed(part)
    print(f"of {asked} about documentation {changed} are searched with more")
    print_table(
        ("questions", "right first", "an earlier one", "no answer"), compare_talks(part, judge)
    )


if __name__ == "__main__":
    main()
