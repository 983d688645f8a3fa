"""The evidence recipe: its examples are what they are labelled, and it runs end to end on made-up
data, from a quantised graph to another."""

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recipes.evidence import Settings, train_and_measure
from recipes.evidence_base import convert_cross_encoder, find_public_cross_encoder
from recipes.evidence_data import (
    EvidenceDataSettings,
    exchange_detail,
    make_examples,
    split_sentences,
)
from recipes.evidence_training import EvidenceNetwork, collate_pairs
from recipes.stages import run_recipe
from recipes.tiny_data import write_tiny_data
from rookery.errors import Failed
from rookery.evidence.evidence_model import (
    EvidenceJudgement,
    EvidencePassage,
    EvidenceTokenizer,
    load_evidence_model,
)

CLAIMS = (
    "the owl eats mice",
    "the wren eats flies",
    "the crane eats frogs",
    "the finch eats seeds",
)


def write_data(folder: Path) -> Path:
    """Write the files of the data folder with made-up questions, claims and threads."""
    squad, *_ = write_tiny_data(folder / "made")
    pairs = [
        {
            "claim": claim,
            "evidence": [claim if label == "supports" else other],
            "label": label,
        }
        for claim, other in zip(CLAIMS * 6, CLAIMS[1:] * 8, strict=False)
        for label in ("supports", "refutes")
    ]
    threads = [
        {
            "site": "made-up",
            "id": f"{number}",
            "title": f"Why does thing {number} feed the owl?",
            "answers": [
                {"body_html": f"<p>It is so because {food} feed the wren</p>", "score": score}
                for score, food in enumerate(("mice", "seeds", "flies"), 1)
            ],
        }
        for number in range(40)
    ]
    questions = [
        {
            "query": f"Passage: {claim}.\nQuestion: does {claim}?",
            "choices": ["no", "yes"],
            "gold": 1,
        }
        for claim in CLAIMS
    ]
    for name, lines in (
        ("support/conjnli", pairs),
        ("support/fever_symmetric_dev", pairs),
        ("support/scifact_pairs", pairs),
        ("stackexchange/birds", threads),
        ("boolq/boolq", questions),
    ):
        place = folder / f"{name}.jsonl.xz"
        place.parent.mkdir(parents=True, exist_ok=True)
        with lzma.open(place, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    (folder / "squad").mkdir()
    with lzma.open(folder / "squad" / "train.json.xz", "wt") as file:
        file.write(squad.read_text())
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def small(data: Path) -> EvidenceDataSettings:
    return EvidenceDataSettings(
        questions=20,
        threads=5,
        pairs={"conjnli": 12},
        yes_no=4,
        claims=10,
    )


def judge_nothing(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
    raise AssertionError("only folders are judged")


def test_examples_are_what_their_labels_say(data: Path) -> None:
    examples = make_examples(small(data), data, {}, judge_nothing)
    assert examples == make_examples(small(data), data, {}, judge_nothing)
    with_span = [each for each in examples if each.span]
    assert len(with_span) >= 15
    for each in with_span:
        assert each.answers == 1
        assert each.passage[slice(*each.span or ())].strip()
    assert {each.support for each in examples} >= {"supports", "refutes", None}
    # A question and a passage have one label.
    labels: dict[tuple[str, str], set[float]] = {}
    for each in examples:
        if each.answers is not None:
            labels.setdefault((each.query, each.passage), set()).add(each.answers)
    assert all(len(each) == 1 for each in labels.values())


def test_judged_sites_that_are_unknown_or_not_installed_are_named(
    data: Path, tmp_path: Path
) -> None:
    settings = EvidenceDataSettings(judged=("wrens", "owls"), written=("crows",))
    sites = {"crows": tmp_path, "owls": tmp_path / "gone"}
    with pytest.raises(Failed, match="has this name") as unknown:
        make_examples(settings, data, sites, judge_nothing)
    assert unknown.value.failure.what == "wrens"
    with pytest.raises(Failed, match="not installed") as missing:
        make_examples(settings, data, sites | {"wrens": tmp_path}, judge_nothing)
    assert missing.value.failure.what == str(tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("When did 12 rooks nest in 1987?", "number"),
        ("What is the largest nest?", "smallest"),
        ("Where did the keeper of London live?", "Oslo"),
        ("What is it that rooks do?", "not"),
    ],
)
def test_exchanged_details(text: str, kinds: str) -> None:
    changed = {exchange_detail(text, ["Oslo"], Random(seed)) for seed in range(30)}
    assert None not in changed
    assert text not in changed
    assert kinds == "number" or all(kinds in str(each) for each in changed)


def test_nothing_to_exchange() -> None:
    assert exchange_detail("Why so?", [], Random(0)) is None


@given(st.lists(st.sampled_from(["Rooks nest.", "Do they? ", "In March, mostly. "]), min_size=1))
def test_sentences_are_slices_in_order(parts: list[str]) -> None:
    text = " ".join(parts)
    spans = split_sentences(text)
    assert all(text[start:end].strip() == text[start:end] for start, end in spans)
    assert [end for _, end in spans] == sorted(end for _, end in spans)
    assert "".join(text[slice(*span)] for span in spans).replace(" ", "") == text.replace(" ", "")


@pytest.mark.slow
def test_the_public_cross_encoder_is_converted(tmp_path: Path) -> None:
    try:
        public = find_public_cross_encoder()
    except Failed as failed:
        pytest.skip(failed.failure.detail)
    convert_cross_encoder(public, tmp_path)
    network, tokenizer = EvidenceNetwork.load_folder(tmp_path), EvidenceTokenizer(tmp_path)
    session = onnxruntime.InferenceSession(str(public / "model.onnx"))
    for text in ("Rooks nest in the crowns of tall trees.", "The bus leaves at nine."):
        pair = tokenizer.encode_pair("Where do rooks nest?", EvidencePassage(text))
        inputs = collate_pairs([pair])
        with torch.inference_mode():
            ours = network(**inputs).answers_N.item()
        [theirs] = session.run(None, {name: each.numpy() for name, each in inputs.items()})
        # Its activations are rounded to 8 bits, ours are not.
        assert ours == pytest.approx(theirs.item(), abs=0.7)


@pytest.mark.slow
def test_the_recipe_runs_and_goes_on_where_it_was_stopped(data: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    EvidenceNetwork.load_folder(data / "made" / "encoder").save_folder(base)
    config = tmp_path / "evidence.toml"
    config.write_text(
        f'base = "{base}"\n[[stages]]\nkept = 0.4\n[stages.data]\nquestions = 12\nthreads = 3\n'
        "yes_no = 2\nclaims = 4\npairs.conjnli = 8\n[stages.training]\nbatch = 8\n"
        "[[stages]]\nkept = 1.0\nwith_base = true\n[stages.data]\nquestions = 6\nthreads = 0\n"
        "yes_no = 0\nclaims = 0\npairs = {}\n[stages.training]\nbatch = 8\norder_weight = 1.0\n"
        "[measuring]\nquestions = 4\nclaims = 6\n"
    )
    out = tmp_path / "out"
    result = run_recipe("evidence", Settings, train_and_measure, config, data, out)
    assert not result.findings  # the benches judge the model
    measures = [each for each in result.notes if "n=" in each]
    assert len(measures) == 5
    assert all("before training" in each for each in measures[:2])
    public, start, ranked = (
        EvidenceNetwork.load_folder(folder).answers.weight
        for folder in (base, out / "stage-1/mean", out / "stage-2/mean")
    )
    assert not start.equal(ranked)
    assert ranked.equal(public)  # kept = 1
    model = load_evidence_model(out / "model")
    before = (out / "model" / "model.onnx").read_bytes()
    (out / "trained.json").unlink()
    again = run_recipe("evidence", Settings, train_and_measure, config, data, out)
    assert again.notes == result.notes
    assert (out / "model" / "model.onnx").read_bytes() == before
    [judged] = model.judge_passages("what eats the owl", [EvidencePassage("the owl eats mice")])
    assert np.isfinite([judged.answers, judged.margin]).all()
