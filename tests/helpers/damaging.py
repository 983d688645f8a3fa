"""Damage to the files of a search index."""

from pathlib import Path


def damage_columns(index: Path) -> None:
    """Change bytes of an index so that tantivy does not raise ValueError when it opens it: it
    panics."""
    for path in index.glob("*.fast"):
        data = path.read_bytes()
        end = data.index(b'{"version"') - 12
        path.unlink()  # what is open has the file mapped, and ends where it is cut
        path.write_bytes(data[: end - 8] + b"\xff" * 8 + data[end:])
