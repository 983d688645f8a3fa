"""Shards on a Ray cluster of two nodes: built there, searched there, and one of them killed."""

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from test_sharded_library import QUESTIONS, list_places, write_documents

from rookery.errors import Failed
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.sharded_library import ShardedLibrary, build_sharded_index
from rookery.records import Failure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),  # one cluster at a time
    pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed"),
]


def test_a_cluster_builds_and_searches_and_loses_a_machine(tmp_path: Path, cluster: Any) -> None:
    documents, shards = write_documents(tmp_path / "documents"), tmp_path / "shards"
    told: list[tuple[int, int, int]] = []
    note = build_sharded_index(
        [documents], 4, shards, 1, ray=cluster.address, progress=lambda *seen: told.append(seen)
    )
    assert sorted(told) == [(n, each.pages, each.pages) for n, each in enumerate(note.shards)]
    with (
        PageArchive(tmp_path / "archive.sqlite") as archive,
        FolderLibrary(documents, archive, tmp_path / "cache") as one,
    ):
        library = ShardedLibrary(shards, archive, seconds=120)
        for question in QUESTIONS:
            expected = [*one.search(question, 20)]
            assert list_places(library.search(question, 20)) == list_places(expected)
        hits = library.search("raven", 200)
        assert library.fetch(hits[0].url).text
        with pytest.raises(Failed, match="no file of this library"):
            library.fetch("file:///nothing.txt")
        [second] = [node for node in cluster.list_all_nodes() if not node.head]
        cluster.remove_node(second, allow_graceful=False)
        left = library.search("raven", 200)
        for _ in range(600):  # until the processes of the machine have died
            if len(library.failures) == 2:  # each machine holds two of four
                break
            time.sleep(0.1)
            left = library.search("raven", 200)
        assert 0 < len(left) < len(hits)
        lost = library.failures
        assert len(lost) == 2
        missing = sum(note.shards[n].passages for n in range(4) if is_named(n, lost))
        assert len(hits) - len(left) <= missing
        library.close()


def is_named(number: int, failures: Sequence[Failure]) -> bool:
    return any(each.detail.startswith(f"shard {number + 1} of 4 ") for each in failures)


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "documents", 3)
    with pytest.raises(Failed, match="no Ray cluster answers there: ray start --head"):
        build_sharded_index([documents], 2, tmp_path / "shards", 1, ray="127.0.0.1:9")
