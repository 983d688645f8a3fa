"""HTML to one canonical text: its blocks, links and marks, and a flat tree to choose from.

The parser's tree is written out as regular markup and cut into tags again, because a walk over
the parser's own nodes costs several times as much. Knows nothing of bytes, and nothing of what
an article is.
"""

import re
from typing import Any

from rookery.browse.tree import Tree
from rookery.browse.walk import Walk

# What the parser itself takes out costs nothing afterwards.
_STRIPPED = ["script", "style", "iframe", "noembed", "noframes", "svg", "link"]
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_RAW = re.compile(r"<(xmp|plaintext)\b[^>]*>(.*?)(?:</\1>|\Z)", re.DOTALL)
_TAG = re.compile(r"<[^>]*+>")

_NESTED_RULES = re.compile(r"@[^{};]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_NAME = re.compile(r"[.#][a-zA-Z_-][\w-]*")
_NONE = re.compile(r"display\s*:\s*none")
_STYLE_LIMIT = 200_000


def read_html(html: str) -> Tree:
    """The tree and the text of a page. Never raises for what the page says, however broken."""
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    parser = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS.value)
    unseen = _hidden_by_rules(parser) if "<style" in html else frozenset[str]()
    parser.strip_tags(_STRIPPED, recursive=True)
    markup = parser.html or ""
    if parser.css("xmp, plaintext"):
        markup = _RAW.sub(lambda raw: f"<pre>{_escaped(raw[2])}</pre>", markup)
    tree = Walk(unseen).follow(_pieces(markup))
    tree.scripts = "<script" in html
    return tree


def _pieces(markup: str) -> list[str]:
    """The markup without comments, cut before each tag: `name attributes>text that follows`."""
    if "<!--" in markup:
        markup = _COMMENT.sub("", markup)
    pieces = markup.split("<")
    if markup.count(">") != len(pieces) - 1:
        # The parser escapes both, but in the names of broken tags and attributes.
        pieces = _TAG.sub(lambda tag: f"<{_escaped(tag[0][1:-1])}>", markup).split("<")
    return pieces[1:]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _hidden_by_rules(parser: Any) -> frozenset[str]:
    """Classes (`name`) and ids (`#name`) that the page's own style sheets never show."""
    none: set[str] = set()
    shown: set[str] = set()
    rest = _STYLE_LIMIT
    for style in parser.css("style"):
        sheet = style.text()[:rest]
        rest -= len(sheet)
        if "media" in style.attributes or not _NONE.search(sheet):
            continue
        for rule in _NESTED_RULES.sub("", sheet).split("}"):
            if "display" in rule:
                before, _, body = rule.rpartition("{")
                names = before.rpartition("{")[2].split(",")
                (none if _NONE.search(body) else shown).update(map(str.strip, names))
    return frozenset(
        name.lower().removeprefix(".") for name in none - shown if _NAME.fullmatch(name)
    )
