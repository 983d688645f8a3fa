"""The figure of rankings: references put in order without learning and by learnt encoders.

It knows nothing of terminals, nor of where figures are written.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rookery.cite.dense import load
from rookery.learn.referred import Sources, read_weighed
from rookery.measure.baselines import bm25, tf_idf
from rookery.measure.figure import Figure
from rookery.measure.ranking import ranked, ranking_figure
from rookery.records import Failed, Failure
from rookery.serve.measuring_files import named

Similarity = Callable[[str, Sequence[str]], Sequence[float]]


def rankings(sources: Sources, rankers: Sequence[str]) -> Figure:
    """How well BM25, TF-IDF and these encoders rank what holds the answer.

    Raises Failed as `read_weighed` does, and no_sources, no_encoder.
    """
    if not (sources.episodes or sources.triples or sources.squad):
        detail = "name what is ranked: a file with --triples, --episodes or --squad"
        raise Failed(Failure("ranking", "no_sources", detail))
    read, left_out = read_weighed(sources)
    methods: dict[str, Similarity] = {"BM25": bm25, "TF-IDF": tf_idf}
    methods |= {name or folder.name: _encoder(folder) for name, folder in map(named, rankers)}
    worths = [each.worths for each in read]
    found = {
        name: ranked(worths, [score(each.question, each.references) for each in read])
        for name, score in methods.items()
    }
    says = f"{len(read)} questions; a reference is worth the share of the answer's words it holds."
    return ranking_figure(found, f"{says} Left out: {left_out}." if left_out else says)


def _encoder(folder: Path) -> Similarity:
    dense = load(folder=folder)
    if dense is None:
        detail = "no encoder is in it: name the folder model that rookery learn retrieve wrote"
        raise Failed(Failure(str(folder), "no_encoder", detail))
    return dense.similarities
