"""Parse XML that may be hostile, and read RSS and Atom feeds, and sitemaps, as pages with links.

A document has no entities of its own, nothing is loaded, and size and depth are bounded. Names are
written with the prefixes below whatever prefixes a document uses.
"""

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from xml.etree.ElementTree import Element, TreeBuilder

from rookery.errors import Outcome
from rookery.pages.html.html_parser import read_html
from rookery.pages.page_parts import (
    PagePart,
    ReadLimits,
    build_read_error,
    check_size,
    join_parts,
    read_labels,
    read_part,
)
from rookery.records import Page
from rookery.typed_files import read_text_table

_DTD = re.compile(
    r"<!DOCTYPE\b[^\[<>]*\[(?P<subset>[^\]]*(?:\](?!\s*>)[^\]]*)*)\]\s*>", re.IGNORECASE
)
_ENTITY = re.compile(r"""<!ENTITY\s+([\w.:-]+)\s+(?:"([^"&<%]{0,100})"|'([^'&<%]{0,100})')\s*>""")
_LONGEST_DTD = 100_000
_REFERENCE = re.compile(r"&([\w.:-]+);")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_SELF_CLOSED = re.compile(
    r"<(script|style|title|textarea|iframe|a|div|span|p|td|th|i|b|em|strong|ul|li)"
    r"((?:\s[^<>]*)?)/>",
    re.IGNORECASE,
)
_MOST_DEPTH = 200
_PREFIXES = {
    namespace: prefix
    for prefix, namespaces in read_text_table(
        Path(__file__).with_name("xml_namespaces.txt")
    ).items()
    for namespace in namespaces.split()
}
"""the prefix of each namespace that is known"""


def parse_xml(data: bytes, limits: ReadLimits) -> Element:
    """Parse XML and return its root element, with names as `prefix.name` by the prefixes used here.

    Names in unknown namespaces begin with `?.`; names in no namespace have no prefix. Raises
    Failed: malformed (also for XML that declares entities or is nested deeper than 200 elements),
    too_large.
    """
    from xml.parsers import expat

    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    depth = elements = 0

    @cache
    def get_name(name: str) -> str:
        space, border, local = name.rpartition("\n")
        return f"{_PREFIXES.get(space, '?')}.{local}" if border else name

    def open_element(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > _MOST_DEPTH:
            raise build_read_error(Outcome.MALFORMED, "the document's XML is nested too deeply")
        check_size(elements, limits.tags, "elements of XML")
        builder.start(get_name(name), {get_name(key): value for key, value in attributes.items()})

    def close_element(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(get_name(name))

    def refuse_entity(*declaration: Any) -> None:
        raise build_read_error(Outcome.MALFORMED, "the document's XML declares entities")

    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(data, True)
    # The last two: an encoding that Python does not know, and one that it cannot give to Expat.
    except (expat.ExpatError, LookupError, ValueError) as error:
        detail = f"the document's XML is damaged ({error})"
        raise build_read_error(Outcome.MALFORMED, detail) from error
    return builder.close()


def rewrite_xhtml(xhtml: str) -> str:
    """Rewrite XML that HTML would misread: `<script/>` would swallow the rest of the page.

    The document type goes, since HTML ends it at its first entity; short entities that it defines
    are put in.
    """
    if declared := _DTD.search(xhtml[:_LONGEST_DTD]):
        named = {name: one or other for name, one, other in _ENTITY.findall(declared["subset"])}
        xhtml = xhtml[: declared.start()] + xhtml[declared.end() :]
        if named:
            xhtml = _REFERENCE.sub(lambda match: named.get(match[1], match[0]), xhtml)
    xhtml = _SELF_CLOSED.sub(r"<\1\2></\1>", xhtml)
    return _CDATA.sub(lambda section: escape(section[1], quote=False), xhtml)


_MOST_ENTRIES = 50_000


def read_feed(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a feed as a Page: each entry a heading that is a link, its date, and its text.

    A sitemap is a list of links. Raises Failed: malformed, too_large, empty_after_extraction.
    """
    root = parse_xml(data, limits)
    if root.tag in ("sitemap.urlset", "sitemap.sitemapindex"):
        places = [(place.text or "").strip() for place in root.iter("sitemap.loc")]
        links = (f'<li><a href="{escape(place)}">{escape(place)}</a>' for place in places)
        html = f"<ul>{''.join(links)}</ul>"
        return join_parts([PagePart(read_part(html, url, limits))], url, fetched, "", limits)
    entries = list(_iter_entries(root))
    if len(entries) > _MOST_ENTRIES:
        raise build_read_error(Outcome.TOO_LARGE, f"a feed of {len(entries):,} entries")
    head = next((one for one in root if one.tag in ("channel", "rss.channel")), root)
    title = _read_plain(head, "title")
    parts = (part for entry in entries for part in _read_entry(entry, _get_base(root, url), limits))
    return join_parts((*_read_head(head, title, url, limits), *parts), url, fetched, title, limits)


def _iter_entries(root: Element) -> Iterator[Element]:
    for tag in ("item", "rss.item", "atom.entry"):
        yield from root.iter(tag)


def _find(element: Element, *names: str) -> Element | None:
    """Return the first child that has one of these names, in RSS 2, RSS 1 or Atom."""
    for name in names:
        for tag in (name, f"rss.{name}", f"atom.{name}") if "." not in name else (name,):
            if (found := element.find(tag)) is not None:
                return found
    return None


def _read_plain(element: Element, *names: str) -> str:
    found = _find(element, *names)
    if found is None:
        return ""
    return " ".join(read_html(_write_text(found)).text.split())


def _write_text(element: Element) -> str:
    """Return the content of an element as HTML: RSS says HTML, Atom says which of three."""
    kind = element.get("type", "text" if element.tag.startswith("atom.") else "html")
    if kind == "xhtml":
        return "".join(map(write_xhtml, element))
    text = "".join(element.itertext())
    return escape(text) if kind in ("text", "text/plain") else text


def write_xhtml(element: Element) -> str:
    """Return an element of XHTML or MathML as HTML."""
    name = element.tag.rpartition(".")[2]
    own = ((key, value) for key, value in element.items() if "." not in key)
    attributes = "".join(f' {key}="{escape(value)}"' for key, value in own)
    children = (write_xhtml(child) + escape(child.tail or "") for child in element)
    return f"<{name}{attributes}>{escape(element.text or '')}{''.join(children)}</{name}>"


def _read_head(head: Element, title: str, url: str, limits: ReadLimits) -> Iterator[PagePart]:
    about = _find(head, "description", "subtitle")
    text = "" if about is None else f"<div>{_write_text(about)}</div>"
    yield PagePart(read_part(f"<h1>{escape(title)}</h1>{text}", url, limits))


def _read_entry(entry: Element, url: str, limits: ReadLimits) -> Iterator[PagePart]:
    link = _find_link(entry)
    base = _get_base(entry, url)
    title = escape(_read_plain(entry, "title") or link)
    heading = f'<h2><a href="{escape(link)}">{title}</a></h2>' if link else f"<h2>{title}</h2>"
    yield PagePart(read_part(heading, base, limits))
    dated = _read_plain(entry, "pubDate", "dc.date", "published", "updated")
    yield PagePart(read_labels([dated] if dated else []))
    text = _find(entry, "content.encoded", "content", "description", "summary")
    # What an entry of RSS links to is relative to its own page.
    around = base if entry.tag.startswith("atom.") else _join_web_address(base, link)
    yield PagePart(read_part("" if text is None else _write_text(text), around, limits))


def _get_base(element: Element, url: str) -> str:
    return _join_web_address(url, element.get("xml.base", ""))


def _join_web_address(url: str, link: str) -> str:
    """Return where a link leads, or `url` where that is not the web: a feed may name files."""
    joined = urljoin(url, link)
    return joined if joined.startswith(("http://", "https://")) else url


def _find_link(entry: Element) -> str:
    """Return where an entry leads: in Atom an attribute of the alternate link, in RSS a text."""
    for link in entry.iterfind("atom.link"):
        if link.get("rel", "alternate") == "alternate":
            return link.get("href", "").strip()
    link_element = _find(entry, "link")
    if link_element is not None and (link_element.text or "").strip():
        return (link_element.text or "").strip()
    guid = entry.find("guid")
    is_link = guid is not None and guid.get("isPermaLink", "true") == "true"
    return (guid.text or "").strip() if guid is not None and is_link else ""
