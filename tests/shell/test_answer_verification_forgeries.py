"""300 answers of another writer, over 33 pages in ten languages, set aside before they were tried.

Each forged one quotes what a reader of the rendered page would not find there, or not so; each
honest one is right. They were tried once after version 0.3's checks were built, and are tests
since: the lists below say what is wrong still, and a mend takes names out of them.
"""

import json
from pathlib import Path

import pytest
from commands import surroundings

from rookery.answers.answer_session import EvidenceSources
from rookery.settings import Settings
from rookery.shell.answer_verification import (
    CheckedSources,
    DocumentLookup,
    check_saved_answers,
    count_failed_quotes,
)

PLACE = Path(__file__).parent.parent / "stored" / "citations"
VERIFIED_FORGERIES = {
    "bidi-03": "<bdo> turns the letters round",
    "page-rendering-01": "a word of ::before is not read",
    "page-rendering-02": "<bdo> turns the letters round",
    "page-rendering-03": "of a closed list to choose from every item is read",
    "joined-02": "two paragraphs read as one",
    "joined-03": "two items of a list read as one",
    "table-01": "two rows of a table read as one",
    "table-02": "two rows of a table read as one",
    "case-01": "mW and MW",
    "case-02": "Co and CO",
    "case-03": "Floh and floh",
    "diacritics-02": "Maße and Masse",
    "quotation-marks-04": "full-width quotation marks are not known",
    "quotation-marks-06": "quotation marks of TeX are not known",
    "word-cut-09": "a word divided at the end of a line is two",
    "word-cut-languages-04": "a script without spaces",
    "word-cut-languages-06": "a script without spaces",
    "answer-rendering-04": "another number of a list",
    "wrong-source-05": "a second source beside a true one",
}
REFUSED_HONEST = {
    "footnote-04": "a note's mark behind a number may be an exponent",
    "footnote-06": "a note's mark and emphasis in a Markdown page",
    "line-breaks-03": "a word divided at the end of a line is two",
    "table-01": "two words are no quotation",
    "elision-01": "words left out are never verified",
    "punctuation-inside-01": "a comma in the marks for the page's full stop",
    "address-01": "a page stored in folders of its host and path",
}


def is_accepted(answer: str, sources: CheckedSources) -> bool:
    """Whether `cite verify` would exit with 0: something is verified, and nothing failed."""
    verdicts = check_saved_answers(answer.encode(), "answer.md", sources)
    verified = any(each.outcome == "verified" for each in verdicts)
    return verified and not count_failed_quotes(verdicts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected", "wrong"),
    [("forged", False, VERIFIED_FORGERIES), ("honest", True, REFUSED_HONEST)],
)
def test_each_answer_is_judged_as_its_reader_would(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    expected: bool,
    wrong: dict[str, str],
) -> None:
    for variable, value in surroundings(tmp_path).items():
        monkeypatch.setenv(variable, value)
    rows = [json.loads(line) for line in (PLACE / f"{name}.jsonl").read_text("utf-8").splitlines()]
    pages = DocumentLookup(PLACE / "pages")
    with EvidenceSources(Settings()) as opened:
        sources = CheckedSources(pages, opened, False, tmp_path)
        judged = {row["name"]: is_accepted(row["answer"], sources) for row in rows}
    assert len(judged) == (100 if expected else 200)
    assert {each for each, accepted in judged.items() if accepted != expected} == wrong.keys()
