"""Four times 300 answers of other writers, over 33, 58, 71 and 62 documents in many languages, set
aside before they were tried, 222 of further kinds, and 311 more over four small documents: answers
in HTML and other JSON, ranges and notes as sources, marks of many kinds.
Each forged one quotes what a reader of the rendered page would not find there, or not so; each
honest one is right. Each set was tried once after what was then built, and is a test since. The
lists below say which forged ones pass and which honest ones are refused.
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
SECOND_FORGED = {"answer-markdown-07": "noscript is shown by some readers"}
THIRD_FORGED = {
    "html-css-quotes": "quotation marks that a style sheet puts",
    "html-before-attr": "a word that a style sheet takes from an attribute",
    "tex": "a quotation as a command of TeX",
}
THIRD_HONEST = {
    "lenticular-colon": "a mark of a file search without its annotation",
    "footnote-text": "words before the name of a file",
    "per-the-file": "a name of a file in the sentence",
    "heading-quote": "a quotation as a heading, its source below",
    "gpt-sup": "a raised number without a list of sources",
}
FOURTH_FORGED = {"pdf-glyphs-differ-01": "a font that tells another letter than it draws"}
FOURTH_HONEST = {
    "markup-that-is-shown-06": "words that a style sheet shows in capitals",
    "office-11": "RTF is not read",
    "office-12": "RTF is not read",
}


def is_accepted(answer: str | dict[str, Any], name: str, sources: CheckedSources) -> bool:
    """Whether `cite verify` would exit with 0: something is verified, and nothing failed."""
    data, name = (answer, name) if isinstance(answer, str) else (json.dumps(answer), "a.json")
    try:
        verdicts = check_saved_answers(data.encode(), name, sources)
    except ValueError:
        return False
    verified = any(each.outcome == "verified" for each in verdicts)
    return verified and not count_failed_quotes(verdicts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "wrong"),
    [
        ("forged", 200, {}),
        ("honest", 100, REFUSED_HONEST),
        ("second/forged", 200, SECOND_FORGED),
        ("second/honest", 100, {}),
        ("third/forged", 218, THIRD_FORGED),
        ("third/honest", 93, THIRD_HONEST),
        ("fourth/forged", 200, FOURTH_FORGED),
        ("fourth/honest", 100, FOURTH_HONEST),
        ("fifth/forged", 200, {}),
        ("fifth/honest", 100, {}),
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
        judged = {
            row["name"]: is_accepted(row["answer"], row.get("file", "answer.md"), sources)
            for row in rows
        }
    assert len(judged) == number
    assert {each for each, accepted in judged.items() if accepted != expected} == wrong.keys()
