"""Settings of the WebGLM recipe, its data, and the retriever that learns from citations."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import torch
from msgspec.structs import replace

from recipes.stages import load_or_make, print_progress
from recipes.webglm_data import CitedFolder, Data
from recipes.webglm_generator import GeneratorSettings
from rookery.evidence.ranking_metrics import compute_expected_hit
from rookery.learn.retrieval_data import RetrievalSources, RetrievalTriple
from rookery.learn.retrieval_training import (
    RetrievalTrainingResult,
    RetrievalTrainingSettings,
    load_sentence_encoder,
    train_retriever,
)
from rookery.measure.ranking import count_corpus_terms, score_bm25, score_tf_idf
from rookery.records import Record

FIRST_REFERENCES = 5
"""References that WebGLM's generator is shown (section 3.1)."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the recipe."""

    groups: int
    """Groups of folders, each measured on by a retriever that learnt from all others."""
    counts: tuple[int, ...]
    """Numbers of questions that retrievers learn from, the largest last; a group has as many at
    most as the other groups hold."""
    retrieve: RetrievalTrainingSettings
    """Its `sources` are set by the recipe."""
    generate: GeneratorSettings
    folders: str = "recipes/questions/folders"
    """Folders of documents, in the repository; empty: made-up data, SQuAD's too."""
    squad: str = "squad/train.json.xz"
    """Path in the data folder."""
    seed: int = 0
    """Of every model's weights, order and samples, and of what is learnt from."""
    split: int = 0
    """Number of the draw of SQuAD's questions; the same for all seeds, so that rows are paired."""


class RankedQuestion(Record, frozen=True):
    """A question, and how well each method ranks the references of its folder."""

    id: str
    first: dict[str, float]
    """1 if a reference that answers is ranked first, by method; a share for ties."""
    among: dict[str, float]
    """The same for the first FIRST_REFERENCES."""


Scorer = Callable[[str, Sequence[str]], list[float]]
"""Scores references for a question."""


def rank_references(settings: Settings, data: Data, out: Path) -> list[RankedQuestion]:
    """Rank the references of every question by baselines, by the start, and by retrievers that
    learnt from so many questions about other folders."""
    order = Random(f"{settings.seed} folders").sample(data.folders, len(data.folders))
    ranked = []
    for number in range(settings.groups):
        test_folders = order[number :: settings.groups]
        others = [each for each in order if each not in test_folders]
        train_triples = [
            RetrievalTriple(each.text, own, own[each.cited[0]], each.cited)
            for own, questions in ((one.references, one.questions) for one in others)
            for each in questions
        ]
        Random(f"{settings.seed} taught {number}").shuffle(train_triples)
        make = partial(_rank_group, settings, data, test_folders, train_triples, out / f"{number}")
        ranked += load_or_make(out / f"ranked-{number}.json", list[RankedQuestion], make)
    return ranked


def _rank_group(
    settings: Settings,
    data: Data,
    test_folders: Sequence[CitedFolder],
    train_triples: Sequence[RetrievalTriple],
    out: Path,
) -> list[RankedQuestion]:
    """Rank the references of these folders by retrievers that learn from the triples, in this
    order."""
    encoders = {"0": data.encoder}
    for count in settings.counts:
        encoders[f"{count}"] = _distill(
            settings, data.encoder, train_triples[:count], out / f"{count}"
        )
    ranked = list[RankedQuestion]()
    for folder in test_folders:
        terms = count_corpus_terms(folder.references)
        scorers: dict[str, Scorer] = {
            "BM25": partial(score_bm25, among=terms),
            "TF-IDF": partial(score_tf_idf, among=terms),
            "lot": lambda question, texts: [0.0] * len(texts),
            **{name: _score_by_cosines(each, folder) for name, each in encoders.items()},
        }
        for each in folder.questions:
            worths = [float(number in each.cited) for number in range(len(folder.references))]
            rows = {name: score(each.text, folder.references) for name, score in scorers.items()}
            first, among = (
                {name: compute_expected_hit(worths, row, k) or 0.0 for name, row in rows.items()}
                for k in (1, FIRST_REFERENCES)
            )
            ranked.append(RankedQuestion(each.id, first, among))
    return ranked


def _distill(settings: Settings, start: str, triples: Sequence[RetrievalTriple], out: Path) -> str:
    """Train a retriever on citations (section 3.1.2), and return its folder."""
    out.mkdir(parents=True, exist_ok=True)
    place = out / "triples.jsonl"
    place.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in triples))
    sources = RetrievalSources(triples=(str(place),), worth="cited")
    whole = replace(settings.retrieve, model=start, sources=sources, seed=settings.seed)
    result = load_or_make(
        out / "result.json", RetrievalTrainingResult, lambda: train_retriever(whole, out / "run")
    )
    print_progress(f"retriever distilled from {result.questions} questions")
    return result.model


def _score_by_cosines(model: str, folder: CitedFolder) -> Scorer:
    """Return a scorer of one folder's references, whose vectors are computed once."""
    encoder = load_sentence_encoder(model)
    with torch.inference_mode():
        vectors_RW = encoder(folder.references)

    @torch.inference_mode()
    def score(question: str, texts: Sequence[str]) -> list[float]:
        scores: list[float] = (vectors_RW @ encoder([question])[0]).tolist()
        return scores

    return score
