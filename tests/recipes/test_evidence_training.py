"""The evidence model learns a toy language, and is exported as it was trained."""

from pathlib import Path
from random import Random

import msgspec
import numpy as np
import onnx
import pytest
import torch

import rookery
from recipes import evidence_training
from recipes.evidence_training import (
    EvidenceExample,
    EvidenceNetwork,
    EvidenceTrainingSettings,
    average_evidence_networks,
    collate_pairs,
    encode_example,
    export_evidence_model,
    train_evidence_model,
)
from recipes.random_models import write_tiny_encoder
from rookery.answers.extract import find_altered_extract
from rookery.errors import Failed
from rookery.evidence.evidence_model import (
    MODEL_FILE,
    EvidencePassage,
    EvidenceTokenizer,
    load_evidence_model,
)
from rookery.learn.optimizer import OptimizerSettings

BIRDS = ("owl", "finch", "heron", "swift", "wren", "crane")
FOODS = ("mice", "seeds", "frogs", "flies")
SETTINGS = EvidenceTrainingSettings(
    frozen=0.0,
    optimising=OptimizerSettings(rate=1e-3, warmup=0.1),
    head_rate=1e-3,
    epochs=40,
    batch=32,
)


def make_example(number: int) -> EvidenceExample:
    """A bird's food: the passage answers for its own bird, and supports its own food."""
    random = Random(number)
    subject, other = random.sample(BIRDS, 2)
    food, wrong = random.sample(FOODS, 2)
    if number % 2:
        bird = subject if number % 4 == 1 else other
        passage = f"in spring the {bird} eats {food}"
        at = passage.index(food)
        span = (at, at + len(food)) if bird == subject else None
        answers = float(bird == subject)
        return EvidenceExample(f"what eats the {subject}?", passage, "birds", answers, span)
    passage = f"in spring the {subject} eats {food}"
    claim = f"the {subject} eats {food if number % 4 == 0 else wrong}"
    return EvidenceExample(
        claim, passage, "birds", support="supports" if number % 4 == 0 else "refutes"
    )


EXAMPLES = [make_example(number) for number in range(960)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence") / "base"
    texts = [f"{each.query} {each.passage} {each.heading}" for each in EXAMPLES]
    write_tiny_encoder(folder, texts, width=64)
    return folder


@pytest.fixture(scope="module")
def trained(base: Path) -> Path:
    out = base.parent / "trained"
    return Path(train_evidence_model(SETTINGS, base, EXAMPLES, out).model)


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    out = trained.parent / "onnx"
    export_evidence_model(trained, out)
    return out


@pytest.mark.slow
def test_it_learns_what_answers_where_and_what_supports(exported: Path) -> None:
    model = load_evidence_model(exported)
    unseen = [make_example(number) for number in range(2000, 2080)]
    right = []
    for each in unseen:
        [judged] = model.judge_passages(each.query, [EvidencePassage(each.passage, each.heading)])
        if each.answers is None:
            right.append((judged.supports > judged.refutes) == (each.support == "supports"))
        else:
            right.append((judged.answers > 0) == bool(each.answers))
            right.append((judged.margin > 0) == bool(each.answers))
            if each.answers:
                right.append(judged.span == each.span)
        assert judged.supports + judged.refutes + judged.neither == pytest.approx(1, abs=1e-5)
    assert np.mean(right) > 0.9


@pytest.mark.slow
def test_the_exported_graph_computes_what_torch_computes(trained: Path) -> None:
    plain = trained.parent / "float32"
    export_evidence_model(trained, plain, quantized=False)
    network, tokenizer = EvidenceNetwork.load_folder(trained), EvidenceTokenizer(trained)
    model = load_evidence_model(plain)
    for each in EXAMPLES[:12]:
        passage = EvidencePassage(each.passage, each.heading)
        with torch.inference_mode():
            found = network(**collate_pairs([tokenizer.encode_pair(each.query, passage)]))
        [judged] = model.judge_passages(each.query, [passage])
        assert judged.answers == pytest.approx(found.answers_N.item(), rel=1e-3, abs=1e-3)
        support = found.support_N3[0].softmax(-1).tolist()
        assert [judged.supports, judged.refutes, judged.neither] == pytest.approx(support, abs=1e-3)


@pytest.mark.slow
def test_signed_weights_without_guards_compute_the_same(
    trained: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = trained.parent / "unsigned"
    monkeypatch.setattr(evidence_training, "speed_up_graph", lambda file: None)
    export_evidence_model(trained, before)
    passages = [EvidencePassage(each.passage, each.heading) for each in EXAMPLES[:9]]
    signed, unsigned = load_evidence_model(exported), load_evidence_model(before)
    for each in EXAMPLES[:9]:
        found = signed.judge_passages(each.query, passages)
        assert found == unsigned.judge_passages(each.query, passages)
    graph, old = (onnx.load(str(each / MODEL_FILE)).graph for each in (exported, before))
    types = {stored.name: stored.data_type for stored in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    assert {types[node.input[1]] for node in products} == {onnx.TensorProto.INT8}
    assert "IsNaN" in {node.op_type for node in old.node}
    assert "IsNaN" not in {node.op_type for node in graph.node}


@pytest.mark.slow
def test_a_judgement_is_the_same_alone_and_beside_others(exported: Path) -> None:
    model = load_evidence_model(exported)
    passages = [EvidencePassage(each.passage * (1 + n % 3)) for n, each in enumerate(EXAMPLES[:9])]
    together = model.judge_passages("what eats the owl", passages)
    alone = [model.judge_passages("what eats the owl", [each])[0] for each in passages]
    assert (
        together
        == alone
        == load_evidence_model(exported).judge_passages("what eats the owl", passages)
    )


class Interrupted(Exception):
    """Raised in the middle of a run."""


@pytest.mark.slow
def test_a_run_that_was_broken_off_ends_as_if_it_was_not(base: Path, tmp_path: Path) -> None:
    short = msgspec.structs.replace(SETTINGS, epochs=1, every=4)

    def stop(step: int, steps: int, measured: dict[str, float]) -> None:
        if step == 6:
            raise Interrupted

    whole = train_evidence_model(short, base, EXAMPLES[:320], tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_evidence_model(short, base, EXAMPLES[:320], tmp_path / "parts", stop)
    parts = train_evidence_model(short, base, EXAMPLES[:320], tmp_path / "parts")
    assert parts.loss == whole.loss
    ours, theirs = (EvidenceNetwork.load_folder(Path(each.model)) for each in (whole, parts))
    for name, weight in ours.state_dict().items():
        assert torch.equal(weight, theirs.state_dict()[name]), name


@pytest.mark.slow
def test_micro_batches_change_nothing_but_the_last_digits(base: Path, tmp_path: Path) -> None:
    short = msgspec.structs.replace(SETTINGS, epochs=1)
    pieces = msgspec.structs.replace(short, tokens=40)
    found = [
        train_evidence_model(each, base, EXAMPLES[:32], tmp_path / str(each.tokens)).loss
        for each in (short, pieces)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_order_is_learnt_where_one_passage_answers_and_another_does_not(
    base: Path, tmp_path: Path
) -> None:
    """The loss of an untrained network, by hand: with all log-odds equal, the share of what answers
    is that of its number."""
    network = EvidenceNetwork.load_folder(base)
    torch.nn.init.zeros_(network.answers.weight)
    network.save_folder(start := tmp_path / "start")
    owl, wren = "what eats the owl", "what eats the wren"
    examples = [
        EvidenceExample(owl, "in spring the owl eats mice", answers=1.0),
        EvidenceExample(owl, "in spring the wren eats mice", answers=0.0),
        EvidenceExample(owl, "in spring the crane eats frogs", answers=0.0),
        EvidenceExample(wren, "in spring the wren eats seeds", answers=1.0),
        EvidenceExample(wren, "in spring the wren eats flies", answers=1.0),
        EvidenceExample(wren, "in spring the owl eats mice", answers=0.0),
        EvidenceExample(wren, "in spring the heron eats frogs", support="neither"),
        EvidenceExample("what eats the heron", "in spring the owl eats mice", answers=0.0),
    ]
    settings = msgspec.structs.replace(SETTINGS, epochs=1, span_weight=0.0, support_weight=0.0)

    def measure_loss(weight: float, tokens: int) -> float:
        asked = msgspec.structs.replace(settings, order_weight=weight, tokens=tokens)
        return train_evidence_model(asked, start, examples, tmp_path / f"{weight}{tokens}").loss

    whole = (np.log(3) + np.log(3 / 2)) / 2
    for tokens in (1, 60, 4096):
        assert measure_loss(2.0, tokens) - measure_loss(0.0, tokens) == pytest.approx(2 * whole)


def test_spans_are_found_among_the_tokens(base: Path) -> None:
    tokenizer = EvidenceTokenizer(base)
    example = EvidenceExample("what eats the owl?", "the owl eats mice", "", 1.0, (13, 17))
    row = encode_example(tokenizer, example)
    assert row.start == row.end == row.pair.offsets.index((13, 17))
    nothing = encode_example(tokenizer, EvidenceExample("owl", "the owl", answers=0.0))
    assert (nothing.start, nothing.end) == (0, 0)
    unknown = encode_example(tokenizer, EvidenceExample("owl", "the owl", support="neither"))
    assert unknown.start == unknown.end == -100
    assert np.isnan(unknown.answers)
    assert unknown.support == 2
    beyond = EvidenceExample("owl", "the " * 400 + "mice", "", 1.0, (1600, 1604))
    assert encode_example(tokenizer, beyond).start == -100


def test_no_data_and_another_kind_of_model_are_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="there are none"):
        train_evidence_model(SETTINGS, base, [], tmp_path)
    with pytest.raises(Failed, match="no such folder"):
        EvidenceNetwork.load_folder(tmp_path / "missing")
    with pytest.raises(ValueError, match="1 or more"):
        EvidenceTrainingSettings(batch=0)


@pytest.mark.slow
def test_a_question_is_answered_by_the_model_of_a_folder(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    documents = tmp_path / "birds"
    documents.mkdir()
    for bird, food in zip(BIRDS[:4], FOODS, strict=True):
        page = f"<title>birds</title><p>in spring the {bird} eats {food}</p>"
        (documents / f"{bird}.html").write_text(page)
    given = rookery.Settings(ranker=str(exported), decline=0.0, quotes=1)
    answer = rookery.ask("what eats the owl", str(documents), settings=given)
    assert answer.text == "in spring the owl eats mice"
    assert all(rookery.verify(answer))
    assert find_altered_extract(answer) == []
    other = rookery.ask("what eats the wren", str(documents), settings=given)
    assert answer.score is not None
    assert other.score is not None
    assert answer.score > other.score
    between = round((answer.score + other.score) / 2, 6)
    settings = rookery.Settings(ranker=str(exported), decline=between)
    assert not rookery.ask("what eats the owl", str(documents), settings=settings).declined
    declined = rookery.ask("what eats the wren", str(documents), settings=settings)
    assert declined.declined
    assert declined.text == f"No passage reached {between:.3g}; the closest are below."
    assert find_altered_extract(declined) == []


def test_the_mean_of_two_networks_is_that_of_their_weights(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("public", "trained")]
    for seed, folder in enumerate(folders):
        write_tiny_encoder(folder / "encoder", ["the owl eats mice"], width=64, seed=seed)
        torch.manual_seed(seed)
        EvidenceNetwork.load_folder(folder / "encoder").save_folder(folder)
    average_evidence_networks(folders[0], folders[1], 0.25, tmp_path / "mean")
    public, trained, mean = (
        EvidenceNetwork.load_folder(folder).state_dict() for folder in (*folders, tmp_path / "mean")
    )
    for name in ("bert.encoder.layer.0.output.dense.weight", "answers.weight"):
        assert not torch.equal(public[name], trained[name])
        torch.testing.assert_close(mean[name], 0.25 * public[name] + 0.75 * trained[name])
    for name in ("support.weight", "span.weight", "span.bias"):
        assert torch.equal(mean[name], trained[name])
