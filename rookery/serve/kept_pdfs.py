"""The files of PDFs whose text is stored: from the disk where they were read from there, or kept.

Only the text of a page goes to the archive. The file of one that came from the web is kept in the
cache, under the digest of its text, when somebody fetches it again. It knows nothing of drawing.
"""

import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rookery.browse.archive import worded
from rookery.browse.read import sniff
from rookery.browse.readers import FileLimits
from rookery.records import Failed, Failure, Page

FOLDER = "pdfs"


def pdf_of(page: Page, cache: Path) -> bytes:
    """The file that the page was read from. Raises Failed (no_pdf) with the reason for a reader."""
    parts = urlsplit(page.url)
    if parts.scheme == "file":
        place, missing = Path(unquote(parts.path)), "the file is no longer where it was read from"
    else:
        place = _place(page.digest, cache)
        missing = "only its text was kept; ask whether the live page has changed, to fetch the file"
    try:
        with place.open("rb") as file:
            data = file.read(FileLimits().largest + 1)
    except (OSError, ValueError) as error:
        raise _no_pdf(missing) from error
    if len(data) > FileLimits().largest or sniff(data, "", "") != "pdf":
        raise _no_pdf("the file has been replaced by another since it was read")
    return data


def keep_pdf(page: Page, data: bytes, cache: Path) -> None:
    """Keeps the file of a page that came from the web. Raises Failed (disk_full)."""
    place = _place(page.digest, cache)
    with worded(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(place)


def _place(digest: str, cache: Path) -> Path:
    if not digest.isalnum():
        raise _no_pdf("it has no name to be kept under")
    return cache / FOLDER / f"{digest}.pdf"


def _no_pdf(detail: str) -> Failed:
    return Failed(Failure("the PDF", "no_pdf", detail))
