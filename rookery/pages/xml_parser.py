"""Parse XML that may be hostile: no entities of its own, nothing loaded, bounded in size and depth.

Names are written with the prefixes below whatever prefixes a document uses.
"""

import re
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder

from rookery.errors import Outcome
from rookery.pages.text_documents import ReadLimits, build_read_error

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
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_OOXML = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_PREFIXES = {
    **{f"{_OASIS}:{name}:1.0": name for name in "office text table presentation".split()},
    f"{_OASIS}:drawing:1.0": "draw",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.w3.org/1999/xlink": "xlink",
    f"{_OOXML}/presentationml/2006/main": "p",
    f"{_STRICT}/presentationml/main": "p",
    f"{_OOXML}/drawingml/2006/main": "a",
    f"{_STRICT}/drawingml/main": "a",
    f"{_OOXML}/officeDocument/2006/relationships": "r",
    f"{_STRICT}/officeDocument/relationships": "r",
    f"{_OOXML}/spreadsheetml/2006/main": "x",
    f"{_STRICT}/spreadsheetml/main": "x",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
    "http://www.w3.org/2005/Atom": "atom",
    "http://purl.org/rss/1.0/": "rss",
    "http://purl.org/rss/1.0/modules/content/": "content",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/1999/xhtml": "xhtml",
    "http://www.sitemaps.org/schemas/sitemap/0.9": "sitemap",
    "http://www.w3.org/XML/1998/namespace": "xml",
}


def parse_xml(data: bytes, url: str, limits: ReadLimits) -> Element:
    """Return the root element. Names in unknown namespaces begin with `?.`, of none have no prefix.

    Raises Failed: malformed (also for XML that declares entities), too_large.
    """
    from xml.parsers import expat

    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    depth = elements = 0
    namespaces = dict[str, str]()

    def shorten_name(name: str) -> str:
        space, border, local = name.rpartition("\n")
        return f"{_PREFIXES.get(space, '?')}.{local}" if border else name

    def get_name(name: str) -> str:
        short = namespaces.get(name)
        if short is None:
            short = namespaces[name] = shorten_name(name)
        return short

    def open_element(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth += 1
        elements += 1
        if depth > _MOST_DEPTH:
            raise build_read_error(
                url, Outcome.MALFORMED, "the document's XML is nested too deeply"
            )
        if elements > limits.tags:
            raise build_read_error(
                url, Outcome.TOO_LARGE, f"more than {limits.tags:,} elements of XML"
            )
        builder.start(get_name(name), {get_name(key): value for key, value in attributes.items()})

    def close_element(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(get_name(name))

    def refuse_entity(*declaration: Any) -> None:
        raise build_read_error(url, Outcome.MALFORMED, "the document's XML declares entities")

    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(data, True)
    # The last two: an encoding that Python does not know, and one that it cannot give to Expat.
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise build_read_error(
            url, Outcome.MALFORMED, f"the document's XML is damaged ({error})"
        ) from error
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
    return _CDATA.sub(lambda section: section[1].replace("&", "&amp;").replace("<", "&lt;"), xhtml)


def escape_markup(text: str) -> str:
    """Return text as markup that shows it."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
