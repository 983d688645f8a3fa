"""Markup that would make an HTML parser slow or greedy, made harmless before it is parsed.

Looking for an open element costs a parser its depth, and formatting elements that stay open are
built again in every block: nested deeply enough, both are quadratic. Knows nothing of articles.
"""

import re

DEPTH = 512
TAGS_WITHOUT_SCAN = 20_000
REBUILT = 2_000_000
HARMLESS = 1_400
"""tags that cannot hurt, whatever they are, even if each were written twice"""

_FORMATTING = frozenset(
    "b big code em font i nobr s small strike strong tt u".split(),
)
# Elements whose end tag may be left out close each other: they cannot nest by themselves.
_UNNESTED = frozenset(
    "area base basefont bgsound body br col colgroup dd dt embed frame head hr html img input"
    " keygen li link meta optgroup option p param rp rt rb rtc source tbody td tfoot th thead tr"
    " track wbr".split()
)
_RAW = "script|style|textarea|title|iframe|noembed|noframes|xmp"
_ATTRIBUTED = re.compile(r"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\s", re.I)
_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(?P<raw>{_RAW})(?=[\s/>]).*?(?:</(?P=raw)(?=[\s/>])|\Z)"
    r"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)"
    r"""(?:[\s/]++|=?[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+))?+)*+[^>]*+>?""",
    re.IGNORECASE | re.DOTALL,
)


def tags_in(html: str) -> int:
    """How many tags the page has at most: each needs a `<` and a letter or a slash after it."""
    return len(re.findall(r"<[a-zA-Z/]", html))


def tame(html: str) -> str:
    """`html` itself where it cannot hurt, otherwise the same text with fewer tags around it."""
    starts = html.count("<")
    if starts <= TAGS_WITHOUT_SCAN and (
        starts * starts <= 4 * REBUILT or starts * len(_ATTRIBUTED.findall(html)) <= REBUILT
    ):
        return html
    if not re.search(r"<[a-zA-Z/]", html):
        return html
    return _flattened(html)


def _flattened(html: str) -> str:
    """Without tags nested deeper than DEPTH; without formatting where it could be rebuilt."""
    attributed = len(_ATTRIBUTED.findall(html))
    formatting = _FORMATTING if html.count("<") * attributed > REBUILT else frozenset[str]()
    open_tags: dict[str, int] = {}
    dropped: dict[str, int] = {}
    depth = 0
    kept: list[str] = []
    position = 0
    for tag in _TAG.finditer(html):
        name = (tag["name"] or "").lower()
        if not name or (name in _UNNESTED and depth < DEPTH):
            continue
        if name in formatting:
            drop = True
        elif tag["end"]:
            drop = dropped.get(name, 0) > 0
            if drop:
                dropped[name] -= 1
            elif open_tags.get(name, 0) > 0:
                open_tags[name] -= 1
                depth -= 1
        else:
            drop = depth >= DEPTH and name not in ("a", "br", "img")
            if not drop:
                open_tags[name] = open_tags.get(name, 0) + 1
                depth += name not in _UNNESTED
            elif name not in _UNNESTED:
                dropped[name] = dropped.get(name, 0) + 1
        if drop:
            kept += (html[position : tag.start()], "" if name in formatting else "<br>")
            position = tag.end()
    kept.append(html[position:])
    return "".join(kept)
