"""What reading one page may cost, and how a page that costs more, or cannot be read, is refused."""

import msgspec

from rookery.records import Failed, Failure


class ReadLimits(msgspec.Struct, frozen=True):
    """Together they keep one page under 1 GB of memory."""

    bytes: int = 20_000_000
    tags: int = 1_000_000
    characters: int = 10_000_000
    """of text, from any format"""
    markdown: int = 2_000_000
    """characters"""
    docx_xml: int = 20_000_000
    """bytes, decompressed"""
    pdf_pages: int = 3_000
    seconds: float = 60.0
    """for the pages of a PDF"""


def failed(url: str, outcome: str, detail: str) -> Failed:
    """The error to raise for a page that cannot be read."""
    return Failed(Failure(url, outcome, detail))
