"""Examples of written questions: where their quote stands, and what is beside it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from bench.documentation import read_folder_questions
from recipes.evidence_data import read_site
from recipes.evidence_questions import (
    WRITTEN,
    cut_run,
    cut_section,
    list_folder_examples,
    list_judged_examples,
    list_text_blocks,
    list_written_examples,
    read_site_folders,
    read_written_questions,
)
from recipes.page_spans import find_spans, name_span
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.pages.page_reader import read_page

OWLS = """<title>Owls</title><h1>Owls</h1><h2>Food</h2>
<p>Owls of the hill eat mice and
beetles at night.</p><p>They hear them from far away, with ears at two
heights of the head.</p>"""
WRENS = """<title>Wrens</title><h1>Wrens</h1><p>Wrens eat flies, and never mice, at night or by
day.</p>"""
QUOTE = "Owls of the hill eat mice and beetles at night."


def write_site(folder: Path, *lines: dict[str, Any]) -> tuple[dict[str, Path], Path]:
    """Write two pages, and lines about them; returns the folder by name, and that of the lines."""
    (folder / "site").mkdir()
    (folder / "site" / "owls.html").write_text(OWLS)
    (folder / "site" / "wrens.html").write_text(WRENS)
    write_lines(folder / "birds.jsonl", *lines)
    return {"birds": folder / "site"}, folder


def write_lines(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_line(kind: str, text: str, quote: str = QUOTE, page: str = "owls.html") -> dict[str, Any]:
    return {"kind": kind, "text": text, "page": page, **name_span(quote)._asdict()}


def test_a_question_is_answered_by_its_quote_and_not_by_another_page(tmp_path: Path) -> None:
    folders, written = write_site(
        tmp_path,
        make_line("fact", "what do owls eat at night"),
        make_line("near miss", "what do owls eat by day"),
        make_line("refutes", "Owls eat no mice."),
    )
    sites = {"birds": read_site(folders["birds"].resolve())}
    made = list(list_written_examples(sites, folders, 0, written=written))
    by_query = {query: [e for e in made if e.query == query] for query in (e.query for e in made)}
    own, wide, beside, other = by_query["what do owls eat at night"]
    assert (beside.answers, beside.passage[:15]) == (0.0, "They hear them ")
    for each in (own, wide):
        assert each.answers == 1.0
        assert each.span is not None
        assert " ".join(each.passage[slice(*each.span)].split()) == QUOTE
        assert each.heading == "Owls Owls > Food"
    assert (other.answers, other.span, other.heading) == (0.0, None, "Wrens Wrens")
    near = by_query["what do owls eat by day"]
    assert [each.answers for each in near] == [0.0, 0.0]
    assert all(each.span is None for each in near)
    [claim] = by_query["Owls eat no mice."]
    assert (claim.support, claim.answers) == ("refutes", None)
    assert made == list(list_written_examples(sites, folders, 0, written=written))
    fewer = list(list_written_examples(sites, folders, 0, written=written, windows=1))
    first = [each for each in fewer if each.query == "what do owls eat at night"]
    assert [each.answers for each in first] == [1.0, 0.0, 0.0]
    assert first[0].passage in (own.passage, wide.passage)


def test_what_was_judged_not_to_answer_is_a_negative_and_what_is_doubtful_is_none(
    tmp_path: Path,
) -> None:
    folders, written = write_site(
        tmp_path,
        make_line("near miss", "what do owls eat by day"),
        make_line("near miss", "when do owls hunt mice"),
    )
    (tmp_path / "found").mkdir()
    write_lines(
        tmp_path / "found" / "birds.jsonl",
        make_line("rejected", "what do owls eat by day", "Wrens", "wrens.html"),
        make_line("doubtful", "when do owls hunt mice", "Wrens", "wrens.html"),
    )
    sites = {"birds": read_site(folders["birds"].resolve())}
    made = list(list_written_examples(sites, folders, 0, ["birds"], written))
    assert [(each.query, each.heading, each.answers) for each in made] == [
        ("what do owls eat by day", "Owls Owls > Food", 0.0),
        ("what do owls eat by day", "Wrens Wrens", 0.0),
        ("when do owls hunt mice", "Owls Owls > Food", 0.0),
    ]


def test_what_was_judged_is_learnt_from_as_it_was_judged_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    ears = "They hear them from far away, with ears at two heights of the head."
    folders, judged = write_site(
        tmp_path,
        make_line("fact", "what do owls eat"),
        make_line("partly", "what do owls hear in spring", ears),
        *(make_line("rejected", "when do owls sleep", QUOTE[:n]) for n in (4, 7, 11)),
        make_line("rejected", "what do wrens eat", "Wrens eat flies", "gone.html"),
    )
    made = list(list_judged_examples(folders, 0, judged))
    assert [(each.query, each.answers) for each in made] == [
        ("what do owls eat", 1.0),
        ("what do owls eat", 1.0),
        ("what do owls eat", 0.0),
        ("what do owls hear in spring", 0.5),
        ("what do owls hear in spring", 0.5),
        *[("when do owls sleep", 0.0)] * 3,
    ]
    assert {each.heading for each in made} == {"Owls Food"}  # as answers are judged
    section, run, other, half, half_run, *rejected = made
    assert other.passage == ears  # the sentence beside the run
    spans = [e.passage[slice(*e.span)] for e in (section, run, half, half_run) if e.span]
    assert [" ".join(span.split()) for span in spans] == [QUOTE, QUOTE, ears, ears]
    assert {(each.passage, each.span) for each in rejected} == {(section.passage, None)}
    assert made == list(list_judged_examples(folders, 0, judged))


LIST = "# Prices\n\n| Flour | Pounds |\n|---|---|\n| Rye, 5 kg | 9.80 |\n| Spelt, 5 kg | 10.80 |\n"
HOURS = "# Hours\n\nThe mill sells flour on Sundays. Dogs stay outside. It is shut in March.\n"


def test_of_a_folder_what_does_not_answer_is_what_the_judge_likes_best(tmp_path: Path) -> None:
    (tmp_path / "mill").mkdir()
    (tmp_path / "mill" / "list.md").write_text(LIST)
    (tmp_path / "mill" / "hours.md").write_text(HOURS)
    price = {"id": "1", "kind": "table", "text": "What does the spelt flour cost?"}
    hours = {"id": "2", "kind": "fact", "text": "When is flour sold?"}
    write_lines(
        tmp_path / "questions_mill.jsonl",
        price | {"accepted": ["list.md"], "facts": ["10\\.80"], "wrong": "in March"},
        hours | {"accepted": ["hours.md"], "facts": ["on Sundays"]},
        {"id": "3", "kind": "near miss", "text": "What does barley flour cost?"},
    )

    def judge(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        rated = [1.0 if "Rye" in each.text else 0.0 for each in passages]
        return [EvidenceJudgement(each, (0, 0), 0, 0, 0, 1) for each in rated]

    made = list(list_folder_examples(["mill"], 0, judge, tmp_path))
    rye, spelt = "Flour Rye, 5 kg, Pounds 9.80", "Flour Spelt, 5 kg, Pounds 10.80"
    text, first = HOURS.partition("\n\n")[2].strip(), "The mill sells flour on Sundays."
    assert [(each.passage, each.answers, each.span) for each in made] == [
        (spelt, 1.0, (0, len(spelt))),
        (rye, 0.0, None),  # what says "in March" is out of date, and no example
        (text, 1.0, (0, len(first))),
        (first, 1.0, (0, len(first))),
        (rye, 0.0, None),
        (spelt, 0.0, None),
        *((each, 0.0, None) for each in (rye, spelt, text)),  # nothing answers a near miss
    ]


def test_a_quote_that_is_not_on_its_page_is_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, written = write_site(
        tmp_path,
        make_line("fact", "a"),
        make_line("fact", "b", "Owls eat crows."),
        make_line("fact", "c", page="gone.html"),
    )
    sites = {"birds": read_site(folders["birds"].resolve())}
    made = list(list_written_examples(sites, folders, 0, written=written))
    assert {each.query for each in made} == {"a"}
    assert "birds: 2 of 3 quotes are not on the installed pages" in capsys.readouterr().err


def test_windows_hold_the_quote_whatever_the_neighbours() -> None:
    page = read_page(OWLS.encode(), "https://birds.example/owls", "text/html")
    [place] = find_spans(page.text, [name_span(QUOTE)])
    assert place is not None
    section = cut_section(page, place)
    assert section.text[slice(*section.span)] == page.text[slice(*place)]
    texts = set()
    for seed in range(20):
        run = cut_run(page, place, list_text_blocks(page), Random(seed))
        assert run.text[slice(*run.span)] == page.text[slice(*place)]
        texts.add(run.text)
    assert len(texts) == 2  # alone, and with the paragraph after it


def test_every_written_line_can_be_read_and_every_site_is_listed() -> None:
    files = sorted(WRITTEN.glob("*.jsonl"))
    listed = re.findall(r"^\| (\S+) \| \S+ \| (/\S+)", (WRITTEN / "README.md").read_text(), re.M)
    assert [name for name, _ in listed] == [path.stem for path in files]
    assert {name: Path(folder) for name, folder in listed} == read_site_folders()
    for path in (*files, *WRITTEN.glob("found/*.jsonl"), *WRITTEN.glob("judged/*.jsonl")):
        lines = read_written_questions(path)
        assert len({(line.text, line.page, line.words, line.digest) for line in lines}) == len(
            lines
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bakery", "clinic", "rowing", "school"])
def test_facts_of_folders_stand_in_the_accepted_documents_alone(name: str) -> None:
    folder = WRITTEN / "folders" / name
    files = [file for file in folder.rglob("*") if file.is_file()]
    texts = {
        file.relative_to(folder).as_posix(): read_page(file.read_bytes(), file.as_uri()).text
        for file in files
    }
    for each in read_folder_questions({name: (folder, "")}):
        anywhere = msgspec.structs.replace(each, accepted=tuple(texts))
        right = {file for file, text in texts.items() if anywhere.is_right(file, text)}
        assert right == set(each.accepted), each.id
