"""Writes figures into a folder, and the folder as one page that stands by itself."""

from pathlib import Path

from rookery.measure.figure import Figure


def write_figure(figure: Figure, folder: Path) -> None:
    """Writes NAME.json (the record), NAME.md (the table) and NAME.svg (the picture)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{figure.name}.json").write_text(figure.to_json() + "\n")
