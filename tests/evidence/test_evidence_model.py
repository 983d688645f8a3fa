"""The evidence model's pairs and spans, without weights; learn's tests run it with weights."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from rookery.errors import Failed
from rookery.evidence import evidence_model
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    MAX_PAIR_TOKENS,
    MAX_QUERY_TOKENS,
    MAX_SPAN_TOKENS,
    AnswerCalibration,
    EvidencePassage,
    EvidenceTokenizer,
    convert_to_probability,
    find_best_span,
    load_evidence_model,
)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "lives", "here", "the", "rook", "nests", "?"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_pair_is_the_query_and_then_the_heading_and_the_text(folder: Path) -> None:
    passage = EvidencePassage("The rook lives here", "Nests")
    pair = EvidenceTokenizer(folder).encode_pair("Who lives here?", passage)
    assert [WORDS[number] for number in pair.ids] == [
        *("[CLS]", "who", "lives", "here", "?", "[SEP]"),
        *("nests", "the", "rook", "lives", "here", "[SEP]"),
    ]
    assert pair.types == [0] * 6 + [1] * 6
    assert pair.offsets == [(0, 0)] * 7 + [(0, 3), (4, 8), (9, 14), (15, 19)] + [(0, 0)]


def test_lone_surrogates_are_unknown_and_shift_nothing(folder: Path) -> None:
    tokenizer, passage = EvidenceTokenizer(folder), EvidencePassage("rook \udc80 nests", "\ud83d")
    pair = tokenizer.encode_pair("who \ud800", passage)
    assert [passage.text[slice(*span)] for span in pair.offsets if span != (0, 0)] == [
        *("rook", "\udc80", "nests")
    ]
    assert tokenizer.count_tokens(passage.text) == 3


def test_long_texts_are_cut_and_the_separators_stay(folder: Path) -> None:
    passage = EvidencePassage("rook " * 2000, "nests " * 500)
    pair = EvidenceTokenizer(folder).encode_pair("who " * 500, passage)
    assert len(pair.ids) == len(pair.types) == len(pair.offsets) == MAX_PAIR_TOKENS
    assert [n for n, token in enumerate(pair.ids) if WORDS[token] == "[SEP]"] == [
        MAX_QUERY_TOKENS + 1,
        MAX_PAIR_TOKENS - 1,
    ]
    assert all(passage.text[slice(*span)] == "rook" for span in pair.offsets if span != (0, 0))


logits = st.floats(-20, 20, allow_nan=False)


@given(st.lists(st.tuples(logits, logits, st.booleans()), min_size=1, max_size=150))
def test_the_best_span_is_the_one_of_all_spans(tokens: list[tuple[float, float, bool]]) -> None:
    starts = [0.0, *(start for start, _, _ in tokens)]
    ends = [0.0, *(end for _, end, _ in tokens)]
    offsets = [(0, 0), *((n, n + 1) if inside else (0, 0) for n, (*_, inside) in enumerate(tokens))]
    inside = [n for n, (start, end) in enumerate(offsets) if end > start]
    span, margin = find_best_span(starts, ends, offsets)
    if not inside:
        assert (span, margin) == ((0, 0), 0.0)
        return
    every = [
        (starts[i] + ends[j], offsets[i][0], offsets[j][1])
        for at, j in enumerate(inside)
        for i in inside[max(0, at - MAX_SPAN_TOKENS + 1) : at + 1]
    ]
    best = max(total for total, *_ in every)
    assert margin == pytest.approx(best)
    assert any(span == (start, end) and total == best for total, start, end in every)


def test_log_odds_and_probabilities() -> None:
    assert convert_to_probability(0) == 0.5
    assert convert_to_probability(2) == pytest.approx(0.880797)
    assert convert_to_probability(-2) == pytest.approx(0.119203)
    assert convert_to_probability(1e4) == 1
    assert convert_to_probability(-1e4) == 0


def test_a_folder_without_a_model_or_with_a_broken_one_is_refused(folder: Path) -> None:
    with pytest.raises(Failed, match=r"model\.onnx missing") as missing:
        load_evidence_model(folder)
    assert missing.value.failure.outcome == "no_model"
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(Failed, match="cannot be read") as broken:
        load_evidence_model(folder)
    assert broken.value.failure.outcome == "bad_model"


def test_a_calibration_weighs_the_logit_and_the_margin() -> None:
    assert AnswerCalibration().compute_log_odds(2.0, 5.0) == 2.0
    assert AnswerCalibration(0.5, 0.25, -1.0).compute_log_odds(2.0, 4.0) == 1.0


def test_processors_that_saturate_judge_the_same_with_unsigned_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passages = [EvidencePassage("Rooks nest in trees.", "Nests"), EvidencePassage("Owls hunt.")]
    usual = load_evidence_model(BUNDLED_MODEL).judge_passages("Where do rooks nest?", passages)
    monkeypatch.setattr(evidence_model, "_multiplies_exactly", lambda: False)
    exact = load_evidence_model(BUNDLED_MODEL).judge_passages("Where do rooks nest?", passages)
    assert exact == usual
