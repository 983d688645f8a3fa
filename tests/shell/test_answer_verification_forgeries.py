"""300 answers of another writer, over 33 pages in ten languages, set aside before they were tried,
and 222 of further kinds.

Each forged one quotes what a reader of the rendered page would not find there, or not so; each
honest one is right. They were tried once after version 0.3's checks were built, and are tests
since. No forged one passes any more; the list below says which honest ones are refused.
"""

import json
from pathlib import Path
from typing import Any

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
REFUSED_HONEST = {
    "table-01": "two words are no quotation",
    "elision-01": "words left out are never verified",
}


def is_accepted(answer: str | dict[str, Any], sources: CheckedSources) -> bool:
    """Whether `cite verify` would exit with 0: something is verified, and nothing failed."""
    data, name = (
        (answer, "answer.md") if isinstance(answer, str) else (json.dumps(answer), "a.json")
    )
    verdicts = check_saved_answers(data.encode(), name, sources)
    verified = any(each.outcome == "verified" for each in verdicts)
    return verified and not count_failed_quotes(verdicts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "wrong"),
    [
        ("forged", 200, {}),
        ("honest", 100, REFUSED_HONEST),
        ("further/forged", 144, {}),
        ("further/honest", 78, {}),
    ],
)
def test_each_answer_is_judged_as_its_reader_would(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    number: int,
    wrong: dict[str, str],
) -> None:
    for variable, value in surroundings(tmp_path).items():
        monkeypatch.setenv(variable, value)
    rows = [json.loads(line) for line in (PLACE / f"{name}.jsonl").read_text("utf-8").splitlines()]
    pages, expected = DocumentLookup((PLACE / name).parent / "pages"), name.endswith("honest")
    with EvidenceSources(Settings()) as opened:
        sources = CheckedSources(pages, opened, False, tmp_path)
        judged = {row["name"]: is_accepted(row["answer"], sources) for row in rows}
    assert len(judged) == number
    assert {each for each, accepted in judged.items() if accepted != expected} == wrong.keys()
