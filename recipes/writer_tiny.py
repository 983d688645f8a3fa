"""Made-up data of the writer's tiny size: articles, questions and pairs about six towns."""

import json
import lzma
from pathlib import Path
from typing import Any

from rookery.learn.random_models import write_tiny_encoder, write_tiny_model

TOWNS = ("Arden", "Belmont", "Corvale", "Dunmore", "Elstow", "Farley")
BUILT = (1801, 1822, 1843, 1864, 1885, 1906)
TINY_MODEL = "model"
TINY_ENCODER = "encoder"


def write_tiny_data(folder: Path) -> Path:
    """Write a data folder, a model of random weights and an encoder below it; return the folder."""
    if (folder / TINY_ENCODER / "tokenizer.json").exists():
        return folder
    articles = []
    for town, year in zip(TOWNS, BUILT, strict=True):
        first = f"The bridge of {town} was built in {year}. It is made of stone."
        second = f"The mayor of {town} opened the new harbour. Ships from the north use it."
        asked = {
            first: (f"When was the bridge of {town} built?", str(year)),
            second: ("Who opened the new harbour?", f"The mayor of {town}"),
        }
        paragraphs = [_make_paragraph(town, context, *each) for context, each in asked.items()]
        articles.append({"title": town, "paragraphs": paragraphs})
    query = (
        "Passage: Ships use the harbour every day.\nQuestion: do ships use the harbour every day"
    )
    _write_lines(folder / "squad" / "train.json.xz", [{"data": articles}])
    line = {"query": query, "choices": ["no", "yes"], "gold": 1}
    _write_lines(folder / "boolq" / "boolq.jsonl.xz", [line])
    pairs = [
        {"claim": f"The bridge of {town} is new.", "evidence": [f"{town} has a bridge."]}
        for town in TOWNS
    ]
    for name, labels in (
        ("rte", ("supports", "not_supports")),
        ("covidfact", ("supports", "refutes")),
        ("wice_dev", ("supported", "partially_supported")),
        ("fever_symmetric_dev", ("supports", "refutes")),
        ("scifact_pairs", ("supports", "refutes")),
    ):
        lines = [each | {"label": labels[number % 2]} for number, each in enumerate(pairs)]
        _write_lines(folder / "support" / f"{name}.jsonl.xz", lines)
    shown = {"evidence": "The winters are warmer.", "article": "A", "evidence_label": "SUPPORTS"}
    climate = {"claim": "It gets warmer.", "evidences": [shown]}
    _write_lines(folder / "climate_fever" / "climate-fever.jsonl.xz", [climate])
    abstract = {
        "source": ["Towns have bridges.", "We count them."],
        "target": ["We count bridges."],
    }
    _write_lines(folder / "scitldr" / "train.jsonl.xz", [abstract])
    (folder / "questions").mkdir()
    (folder / "questions" / "NQ-open.efficientqa.dev.1.1.jsonl").write_text(
        '{"question": "when was the bridge of belmont built", "answer": ["1822"]}\n'
        '{"question": "who painted the ceiling of the chapel", "answer": ["nobody"]}\n'
    )
    trivia = {"context": "Question: Who opened the harbour of Farley?\nAnswer:"}
    (folder / "questions" / "triviaqa_300.jsonl").write_text(
        json.dumps(trivia | {"answer": "Mayor", "aliases": ["The mayor"]}) + "\n"
    )
    write_tiny_model(
        folder / TINY_MODEL, ["The bridge was built in 1822 by the mayor of the town."]
    )
    write_tiny_encoder(
        folder / TINY_ENCODER, [f"The bridge of {town}." for town in TOWNS], places=512
    )
    return folder


def _make_paragraph(town: str, context: str, question: str, gold: str) -> dict[str, Any]:
    answer = {"text": gold, "answer_start": context.find(gold)}
    return {
        "context": context,
        "qas": [{"id": f"{town} {question}", "question": question, "answers": [answer]}],
    }


def _write_lines(place: Path, lines: list[dict[str, Any]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(line) for line in lines)
    place.write_bytes(lzma.compress(text.encode()))
