"""The table of static vectors: what it is trained on, and that training brings answers nearer."""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recipes.evidence_vectors import (
    PIECES,
    ExampleSite,
    Settings,
    VectorExample,
    list_examples,
    make_table,
    train_table,
    write_table,
)
from recipes.page_spans import name_span
from recipes.tiny_data import write_tiny_data
from rookery.errors import Failed
from rookery.library.passage_vectors import TABLE_FOLDER, WIDTH, split_pieces

OWL = "Owls of the hill eat mice and beetles at night."
WREN = "Wrens eat flies, and never mice, at night or by day."
CRANE = "Cranes winter in the south, where the marshes do not freeze."


def make_line(kind: str, text: str, quote: str, page: str) -> str:
    line: dict[str, Any] = {"kind": kind, "text": text, "page": page}
    return json.dumps(line | name_span(quote)._asdict()) + "\n"


def test_wrong_passages_are_the_near_misses_and_what_the_search_finds(tmp_path: Path) -> None:
    copies = [(f"owls{number}", OWL) for number in range(9)]
    for name, text in (("owls", OWL), ("wrens", WREN), ("cranes", CRANE), *copies):
        (tmp_path / f"{name}.html").write_text(
            f"<title>{name[:4]}</title><h2>Food of birds on hills</h2><p>{text}</p>"
        )
    asked = "what do owls eat at night"
    (tmp_path / "birds.jsonl").write_text(
        make_line("fact", asked, OWL, "owls.html")
        + make_line("near miss", asked, CRANE, "cranes.html")
        + make_line("fact", "a heading is in no passage", "Food of birds on hills", "owls.html")
        + make_line("refutes", "Owls eat no mice.", OWL, "owls.html")
        + make_line("doubtful", "who eats flies", WREN, "wrens.html")
    )
    site = list_examples("birds", tmp_path, tmp_path)
    [example] = site.examples
    assert example.question == asked
    assert [OWL in text for text in example.right] == [True]
    assert [[quote in text for quote in (CRANE, WREN)] for text in example.wrong] == [
        [True, False],
        [False, True],
    ]
    rarity = np.array(site.rarity)
    assert rarity[split_pieces("owls")[0]] > rarity[split_pieces("eat")[0]] > 0


@pytest.mark.slow
def test_training_brings_what_answers_nearer_than_what_does_not(tmp_path: Path) -> None:
    squad, _, _ = write_tiny_data(tmp_path / "made")
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "train.json.xz").write_bytes(lzma.compress(squad.read_bytes()))
    asked = VectorExample("who hunts rodents in darkness", (OWL,), (WREN, CRANE))
    vectors = np.random.default_rng(0).normal(size=(PIECES, WIDTH)).astype(np.float32)
    settings = Settings(passes=4, batches=1, rate=0.02)
    site = ExampleSite([1.0] * PIECES, [asked])
    trained, loss = train_table(settings, vectors, [site], tmp_path)
    assert np.isfinite(loss)

    def compare(table: Any, text: str) -> float:
        one, other = (table[split_pieces(each)].sum(axis=0) for each in (asked.question, text))
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    margin = compare(trained, OWL) - max(compare(trained, WREN), compare(trained, CRANE))
    assert margin > 0.2
    write_table(trained, tmp_path / "table")
    whole, scales = (np.load(tmp_path / "table" / f"{n}.npy") for n in ("vectors", "scales"))
    assert whole * scales[:, None].astype(float) == pytest.approx(trained, abs=0.02)
    shipped = np.load(TABLE_FOLDER / "vectors.npy")
    assert (whole.shape, whole.dtype) == (shipped.shape, shipped.dtype)


def test_a_site_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        make_table(Settings(sites=("no-such-site",)), tmp_path, tmp_path)
    assert "no-such-site" in str(caught.value)
    assert "recipes/questions/README.md" in str(caught.value)
