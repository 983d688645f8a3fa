"""Claims about the climate as facts: what supports and refutes them are slices of pages."""

import json
import lzma
from pathlib import Path

import pytest

from recipes.fact_comparisons import make_fact_comparisons, read_climate_claims
from rookery.errors import Failed


def line(number: int, label: str, *facts: tuple[str, int, str, str]) -> str:
    evidences = [
        {"evidence_id": f"{page}:{at}", "evidence_label": of, "article": page, "evidence": words}
        for page, at, of, words in facts
    ]
    claim = {"claim_id": str(number), "claim": f"Claim {number}.", "claim_label": label}
    return json.dumps(claim | {"evidences": evidences, "unknown": None})


LINES = [
    line(
        1,
        "SUPPORTS",
        ("Sea: level", 9, "SUPPORTS", "It rises."),
        ("Sea: level", 2, "NOT_ENOUGH_INFO", "It is wet. "),
        ("Ice", 4, "SUPPORTS", "Ice melts."),
    ),
    line(2, "REFUTES", ("Ice", 4, "REFUTES", "Ice melts."), ("Ice", 1, "SUPPORTS", "It is cold.")),
    line(3, "NOT_ENOUGH_INFO", ("Bear", 1, "NOT_ENOUGH_INFO", "Bears are white.")),
    line(4, "DISPUTED", ("Bear", 2, "SUPPORTS", "Bears swim.")),
]


@pytest.fixture(params=["jsonl", "jsonl.xz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = tmp_path / f"claims.{request.param}"
    data = "\n".join(LINES).encode()
    place.write_bytes(lzma.compress(data) if place.suffix == ".xz" else data)
    return place


def test_each_sentence_that_says_what_the_label_says_is_evidence_enough(path: Path) -> None:
    facts, _ = read_climate_claims(path)
    assert [(fact.id, fact.text, fact.is_true) for fact in facts] == [
        ("1", "Claim 1", True),
        ("2", "Claim 2", False),
    ]
    assert facts[0].evidence == ((("Sea: level", 9),), (("Ice", 4),))
    assert facts[1].evidence == ((("Ice", 4),),)


def test_a_page_has_its_sentences_in_order_each_once(path: Path) -> None:
    _, wiki = read_climate_claims(path)
    assert {name: each.page.text for name, each in wiki.items()} == {
        "Sea: level": "It is wet. It rises.",
        "Ice": "It is cold. Ice melts.",
        "Bear": "Bears are white. Bears swim.",
    }
    assert wiki["Sea: level"].quote_sentence(9).text == "It rises."
    assert wiki["Ice"].quote_sentence(4).text == "Ice melts."


def test_comparisons_are_made_of_them(path: Path) -> None:
    made, left_out = make_fact_comparisons(*read_climate_claims(path))
    assert len(made) == 8
    assert not left_out
    told = {
        each.comparison.by: each.comparison for each in made if "2/" in each.ratings[0].question.id
    }
    better = told["facts/A2"].answers[told["facts/A2"].weights.index(1.0)]
    assert better.text in ("No.", "This is not correct.", "It is not true.")
    assert better.quotes[0].text == "Ice melts."


@pytest.mark.parametrize("data", [b'{"claim": 1}', LINES[0].replace(":9", ":x").encode()])
def test_what_is_no_such_file_is_named(tmp_path: Path, data: bytes) -> None:
    place = tmp_path / "claims.jsonl"
    place.write_bytes(data)
    with pytest.raises(Failed, match="bad_line"):
        read_climate_claims(place)
    with pytest.raises(Failed, match="not_found"):
        read_climate_claims(tmp_path / "none.jsonl")


def test_a_packed_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    place = tmp_path / "claims.jsonl.xz"
    place.write_bytes(lzma.compress("\n".join(LINES).encode())[:-20])
    with pytest.raises(Failed, match="bad_line"):
        read_climate_claims(place)
