"""Read RSS and Atom feeds, and sitemaps, as pages with links to what they list."""

from collections.abc import Iterator
from html import escape
from urllib.parse import urljoin
from xml.etree.ElementTree import Element

from rookery.errors import Outcome
from rookery.pages.html.html_parser import read_html
from rookery.pages.page_parts import PagePart, join_parts, read_labels, read_part
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.pages.xml_parser import parse_xml
from rookery.records import Page

_MOST_ENTRIES = 50_000


def read_feed(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a feed as a Page: each entry a heading that is a link, its date, and its text.

    A sitemap is a list of links. Raises Failed: malformed, too_large, empty_after_extraction.
    """
    root = parse_xml(data, url, limits)
    if root.tag in ("sitemap.urlset", "sitemap.sitemapindex"):
        places = [(place.text or "").strip() for place in root.iter("sitemap.loc")]
        links = (f'<li><a href="{escape(place)}">{escape(place)}</a>' for place in places)
        html = f"<ul>{''.join(links)}</ul>"
        return join_parts([PagePart(read_part(html, url, limits))], url, fetched, "", limits)
    entries = list(_iter_entries(root))
    if len(entries) > _MOST_ENTRIES:
        raise build_read_error(url, Outcome.TOO_LARGE, f"a feed of {len(entries):,} entries")
    head = next((one for one in root if one.tag in ("channel", "rss.channel")), root)
    title = _read_plain(head, "title")
    base = _get_base(root, url)
    parts = (part for entry in entries for part in _read_entry(entry, base, limits))
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
        return "".join(map(_write_xhtml, element))
    text = "".join(element.itertext())
    return escape(text) if kind in ("text", "text/plain") else text


def _write_xhtml(element: Element) -> str:
    name = element.tag.rpartition(".")[2]
    attributes = "".join(
        f' {key}="{escape(value)}"' for key, value in element.items() if "." not in key
    )
    inner = escape(element.text or "") + "".join(
        _write_xhtml(child) + escape(child.tail or "") for child in element
    )
    return f"<{name}{attributes}>{inner}</{name}>"


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
