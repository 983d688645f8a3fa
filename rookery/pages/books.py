"""Read EPUB: the chapters of a book in the order of its spine."""

from collections.abc import Iterator
from urllib.parse import quote, unquote, urldefrag

import msgspec

from rookery.errors import Outcome
from rookery.pages.document_archive import DocumentArchive, join_part_name
from rookery.pages.page_parts import NOWHERE, PagePart, join_parts, read_part
from rookery.pages.page_reader import decode_text, rewrite_xhtml
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.records import Link, Page

_CONTAINER = "META-INF/container.xml"
_MOST_CHAPTERS = 5_000


def read_epub(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a book as a Page, with a mark `chapter` over each chapter that has a heading.

    Links between chapters lead to where the chapter begins. Raises Failed: malformed, encrypted
    (a book that only one shop's program opens), too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, url, limits)
    container = archive.parse_part(_CONTAINER)
    rootfile = None if container is None else next(container.iter("?.rootfile"), None)
    name = "" if rootfile is None else join_part_name("", rootfile.get("full-path", ""))
    package = archive.parse_part(name)
    if package is None:
        raise build_read_error(
            url, Outcome.MALFORMED, "the archive holds no list of a book's chapters"
        )
    folder = name.rpartition("/")[0]
    files = {
        item.get("id", ""): join_part_name(folder, item.get("href", ""))
        for item in package.iterfind("opf.manifest/opf.item")
    }
    chapters = [
        files[one.get("idref", "")]
        for one in package.iterfind("opf.spine/opf.itemref")
        if one.get("idref", "") in files
    ]
    if len(chapters) > _MOST_CHAPTERS:
        raise build_read_error(url, Outcome.TOO_LARGE, f"a book of {len(chapters):,} chapters")
    title = " ".join((package.findtext("opf.metadata/dc.title") or "").split())
    _refuse_encrypted(archive, chapters)
    return join_parts(_read_chapters(archive, chapters), url, fetched, title, limits)


def _refuse_encrypted(archive: DocumentArchive, chapters: list[str]) -> None:
    """Raise Failed if a chapter is encrypted; fonts of any book may be."""
    encryption = archive.parse_part("META-INF/encryption.xml")
    for reference in () if encryption is None else encryption.iter("enc.CipherReference"):
        if join_part_name("", reference.get("URI", "")) in chapters:
            detail = "the book is locked to the programs of the shop that sold it"
            raise build_read_error(archive.url, Outcome.ENCRYPTED, detail)


def _read_chapters(archive: DocumentArchive, chapters: list[str]) -> Iterator[PagePart]:
    known = frozenset(chapters)
    for name in dict.fromkeys(chapters):
        content = archive.read_part(name)
        if not content:
            continue
        html = rewrite_xhtml(decode_text(content))
        page = read_part(html, NOWHERE + quote(name), archive.limits)
        links = (_lead_to_chapter(link, archive.url, known) for link in page.links)
        page = msgspec.structs.replace(page, links=tuple(links))
        heading = next((one for one in page.iter_shown() if one.kind == "heading"), None)
        label = "" if heading is None else page.text[heading.start : heading.end]
        # Of a book without a title, the title is its first line and not that of its first part.
        page = msgspec.structs.replace(page, title="")
        yield PagePart(page, "chapter" if label else "", " ".join(label.split()), name)


def _lead_to_chapter(link: Link, url: str, chapters: frozenset[str]) -> Link:
    name = unquote(urldefrag(link.url).url.removeprefix(NOWHERE))
    if link.url.startswith(NOWHERE) and name in chapters:
        return msgspec.structs.replace(link, url=f"{urldefrag(url).url}#{quote(name)}")
    return link
