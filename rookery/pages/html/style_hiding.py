"""Find what styles hide: rules of the page's own style sheets, inline styles, closed elements.

A cascade without layout: media queries are answered for a screen 1,280 pixels wide, scripts and
style sheets elsewhere are not known. What is hidden only until it fades or slides in counts as
shown, since a reader will see it.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

SCREEN_WIDTH = 1280
"""pixels, for media queries"""
_SHEET_LIMIT = 200_000
"""characters of style sheets that are read"""
_MAX_LOOKUPS = 250
_MAX_VISITS = 6_000_000
"""selectors looked up on one page, and tags visited by all of them"""
_MAX_COMBINATORS = 3
_NODES_OF_A_LOOKUP = 200
"""elements found, for each so many of which one lookup less is left"""
_FEW = 6
"""selectors that are looked up at once; for more it pays to list the page's classes first"""
_FAR = -900
"""pixels from which on something is placed off the screen"""
_MOST_TEXT = 0.4
"""share of the page's text that is shown although it begins transparent: a page that fades in"""

# Each alternative begins with a plain letter, which makes the search several times as fast.
_MAY_HIDE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0?\.?0*%?\s*(?:[;!\"]|$)"
    r"|font(?:-size)?\s*:\s*[01](?:\.\d+)?(?![\d.])|-(?:\d{3,}|\d\d+r?em)|clip\s*:|clip-path\s*:"
    r"|height\s*:\s*[01](?:px)?\s*(?:[;!\"]|$)|width\s*:\s*[01](?:px)?\s*(?:[;!\"]|$)"
    r"|scale[xy3d]*\(\s*0|text-indent\s*:\s*1\d\d%|text-decoration(?:-line)?\s*:[^;]*line-through"
)
_HIDING_WORDS = (
    "none", "hidden", "collapse", "opacity", "font", "clip", "scale", "indent", "-9", "-1", "ght:0",
    "ght: 0", "dth:0", "dth: 0", "ght:1", "ght: 1", "dth:1", "dth: 1", "-2", "-3", "-5", "color",
    "through",
)  # fmt: skip
"""of which each rule that may hide has one: quicker to look for than a pattern"""
_COLOURLESS = re.compile(r"(?<![\w-])color\s*:\s*(?:white|#fff|#fefefe|transparent)")
_COLOUR = re.compile(r"(?<![\w-])color\s*:\s*([^;!]+)")
_WHITE = frozenset("white #fff #ffffff #fefefe rgb(255,255,255) #ffff #ffffffff".split())
_CLEAR = frozenset("transparent #0000 #00000000 rgba(0,0,0,0) rgba(255,255,255,0)".split())
_EMPTY_PATH = re.compile(r"circle\(\s*0(?:px|%)?[^\d.].*|circle\(0\)|polygon\([0\s,px%]*\)")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_CSS_PART = re.compile(
    r"[^{};]*+;|(?P<selector>[^{}]*+)\{(?P<body>[^{}]*+)\}|(?P<outer>[^{}]*+)\{|(?P<end>\})|[^{}]++"
)
_QUERY_WIDTH = re.compile(r"(min|max)-width\s*:\s*([\d.]+)(px|r?em)")
_LENGTH = re.compile(r"([+-]?\d*\.?\d+)(px|r?em|pt|vw|vh|%|)")
_NAME = re.compile(r"[.#]((?:\\.|[\w-])+)")
_CLASSES = re.compile(r"""class=["']?([^"'>]*)""")
_IDENTITY = re.compile(r"""id=["']?([^"'\s>]*)""")
_SIMPLE = re.compile(r"[.#]([\w-]+)")
_COMBINATOR = re.compile(r"\s*[\s>+~]\s*")
_TAG_NAME = re.compile(r"[a-zA-Z][\w-]*")
_NEGATION = re.compile(r":not\([^()]*\)")
_DYNAMIC = re.compile(
    r"::|:(?:hover|focus|active|target|checked|visited|link|before|after|first-l|placeholder|open)"
)
_TO_BE_SHOWN = re.compile(
    r"fade|reveal|anim|aos|lazy|wow|appear|scroll|load|slide|no-?js|transition|js-", re.I
)
_GROUND = re.compile(
    r"background(?:-color|-image)?\s*[:=]\s*[\"']?(?!\s*(?:white|#fff\b|#ffffff|none|transparent))"
    r"|bgcolor\s*=\s*[\"']?(?!white|#fff\b|#ffffff)",
    re.I,
)
_INLINE_STYLE = re.compile(r"""style=(?:"([^"]*)"|'([^']*)')""")
_READ_ALOUD = (
    ".sr-only, .visually-hidden, .visuallyhidden, .screen-reader-text, .screen-reader-only,"
    " .visually-hidden-focusable, .element-invisible, .a11y-hidden"
)
"""classes of text for screen readers, known by name where their style sheet is elsewhere"""

_PROPERTIES = {
    "display": frozenset(("display",)),
    "visibility": frozenset(("visibility",)),
    "opacity": frozenset(("opacity",)),
    "font-size": frozenset(("font-size", "font")),
    "place": frozenset(
        "position left top right bottom inset margin margin-left margin-top text-indent transform"
        " clip clip-path".split()
    ),
    "box": frozenset("height max-height width max-width overflow overflow-x overflow-y".split()),
    "color": frozenset("color background background-color".split()),
    "struck": frozenset(("text-decoration", "text-decoration-line")),
}
"""the properties that decide each way of hiding"""
_MOVING = tuple("transition animation will-change".split())
_MOVING += tuple(f"-webkit-{name}" for name in _MOVING)
_LATER = frozenset(("opacity", "visibility"))
"""ways of hiding that scripts often lift once the page is loaded"""


Strength = tuple[bool, int, int, int, int]
"""important, specificity, order"""


def hide_unseen_elements(parser: Any, html: str, sheets: list[str]) -> None:
    """Give the attribute `hidden` to the elements of a parsed page that its styles hide.

    `html` is the page's source, `sheets` the text of its style sheets for the screen. Inline
    styles that hide by themselves are left to `is_hidden_by_style`.
    """
    _StyleCascade(parser, html, sheets).hide_elements()


def is_hidden_by_style(style: str) -> bool:
    """Tell whether an inline style hides its element whatever stands around it."""
    style = style.lower()
    if not _may_hide(style):
        return False
    return bool(find_hiding(_parse_styles(style), inline=True) - {"font-size", "color"})


def _may_hide(body: str) -> bool:
    if not any(map(body.__contains__, _HIDING_WORDS)):
        return False
    if _MAY_HIDE.search(body):
        return True
    if "color" in body and _COLOURLESS.search(body):
        return True
    colour = _COLOUR.search(body) if "background" in body else None
    return colour is not None and body.count(colour[1].strip()) > 1


def _parse_styles(body: str) -> dict[str, str]:
    """Return the declarations of a rule by property, in lower case."""
    styles: dict[str, str] = {}
    for declaration in body.lower().split(";"):
        name, colon, value = declaration.partition(":")
        if colon:
            styles[name.strip()] = value.strip()
    return styles


def find_hiding(styles: dict[str, str], inline: bool = False) -> frozenset[str]:
    """Return the ways in which declarations hide an element; empty if they do not.

    The ways are display, visibility, opacity, font-size, place, box, color and struck (through).
    `inline` declarations of visibility are not lifted by a transition.
    """
    get = {name: _drop_importance(value) for name, value in styles.items()}.get
    hiding = set[str]()
    moving = any(name.startswith(_MOVING) and value != "none" for name, value in styles.items())
    if get("display") == "none":
        hiding.add("display")
    if get("visibility") in ("hidden", "collapse") and (inline or not moving):
        hiding.add("visibility")
    if "opacity" in styles and not moving and "transform" not in styles:
        opacity = _LENGTH.fullmatch(get("opacity") or "")
        if opacity and float(opacity[1]) <= 0.01:
            hiding.add("opacity")
    if "font" in styles or "font-size" in styles:
        font = (get("font") or "").split("/")[0].rpartition(" ")[2]
        size = _measure_length(get("font-size") or font)
        if size is not None and 0 <= size <= 1:
            hiding.add("font-size")
    # Few rules place, clip or move anything, and the three questions take most of the time.
    placed = not _PROPERTIES["place"].isdisjoint(styles) or "-webkit-clip-path" in styles
    shrunk = placed and not moving and _is_shrunk(get("transform") or "")
    if shrunk or (placed and (_is_far(get) or _is_clipped(get))):
        hiding.add("place")
    if not moving and _is_empty_box(get):
        hiding.add("box")
    if "color" in styles and _is_colourless(get) and not moving:
        hiding.add("color")
    lines = get("text-decoration-line") or get("text-decoration") or ""
    if "line-through" in lines and "transparent" not in lines:
        hiding.add("struck")
    return frozenset(hiding)


def _drop_importance(value: str) -> str:
    return value.partition("!")[0].strip()


def _measure_length(value: str) -> float | None:
    """Return a length in pixels, roughly; None where it is none."""
    length = _LENGTH.fullmatch(value)
    if length is None or (not length[2] and float(length[1])):
        return None
    return float(length[1]) * {"em": 16, "rem": 16, "vw": 12.8, "vh": 8, "%": 16}.get(length[2], 1)


def _is_far(get: Any) -> bool:
    """Tell whether an element is placed off the screen, or its text is indented beyond it."""
    places = ["text-indent", "margin-left", "margin-top"]
    if get("position") in ("absolute", "fixed"):
        places += ["left", "top", "right", "bottom"]
    for name in places:
        length = _measure_length(get(name) or "")
        if length is not None and length <= _FAR and "%" not in get(name):
            return True
    moved = re.search(r"translate[xy3d]*\(\s*(-\d+)px", get("transform") or "")
    if moved and int(moved[1]) <= _FAR:
        return True
    indented = re.fullmatch(r"(\d+)%", get("text-indent") or "")
    return indented is not None and int(indented[1]) >= 100 and get("overflow") == "hidden"


def _is_clipped(get: Any) -> bool:
    """Tell whether an element is clipped to nothing, as text for screen readers is."""
    clip = re.fullmatch(r"rect\(([^()]*)\)", get("clip") or "")
    if clip and get("position") in ("absolute", "fixed"):
        edges = [_measure_length(edge) for edge in re.split(r"[\s,]+", clip[1].strip())]
        if all(edge is not None and edge <= 1 for edge in edges):
            return True
    path = get("clip-path") or get("-webkit-clip-path") or ""
    inset = re.fullmatch(r"inset\(\s*(\d+)%[^,]*\)", path)
    return (inset is not None and int(inset[1]) >= 50) or _EMPTY_PATH.fullmatch(path) is not None


def _is_shrunk(transform: str) -> bool:
    return re.search(r"scale[xy3d]*\(\s*0(?:\.0+)?\s*[,)]", transform) is not None


def _is_empty_box(get: Any) -> bool:
    """Tell whether an element has no height or no width and cuts off what goes beyond."""
    if not {"hidden", "clip"} & {get("overflow"), get("overflow-x"), get("overflow-y")}:
        return False
    paddings = (get(name) or "0" for name in ("padding", "padding-top", "padding-bottom"))
    values = (get(name) or "" for name in ("height", "max-height", "width", "max-width"))
    sizes = map(_measure_length, values)
    return all(value.startswith("0") for value in paddings) and any(
        size is not None and size <= 1 for size in sizes
    )


def _is_colourless(get: Any) -> bool:
    """Tell whether text has no colour, or exactly the colour of its own background."""
    color = re.sub(r"\s+", "", get("color") or "")
    if not color or get("text-shadow") or "-webkit-text-fill-color" in (get("color") or ""):
        return False
    if color in _CLEAR:
        return "text" not in (get("background-clip") or get("-webkit-background-clip") or "")
    ground = re.sub(r"\s+", "", get("background-color") or get("background") or "")
    return color == ground or (color in _WHITE and ground in _WHITE)


class _StyleCascade:
    """The rules of a page's style sheets, and the elements that they hide and show."""

    def __init__(self, parser: Any, html: str, sheets: list[str]) -> None:
        self.parser = parser
        self.html = html
        self.rules = [rule for sheet in sheets for rule in _parse_sheet(sheet)]
        self.names: frozenset[str] | None = None
        self.judged: dict[str, tuple[dict[str, str], frozenset[str]]] = {}
        self.tried = 0
        self.lookups = min(_MAX_LOOKUPS, _MAX_VISITS // (html.count("<") + 1))
        self.linked = re.search(r"<link\b[^>]*\bstylesheet", html, re.I) is not None

    def hide_elements(self) -> None:
        """Find the hidden elements and mark them."""
        strengths_by_node: dict[int, tuple[Any, dict[str, Strength]]] = {}
        for order, (selectors, body) in enumerate(self.rules):
            styles, ways = self.judge_rule(body)
            if not ways:
                continue
            for selector in map(str.strip, selectors.split(",")):
                fading = _TO_BE_SHOWN.search(selector) is not None
                for node in self.select_elements(selector):
                    _, strengths = strengths_by_node.setdefault(node.mem_id, (node, {}))
                    for way in ways - _LATER if fading else ways:
                        strength = _get_strength(selector, styles, way, order)
                        strengths[way] = max(strengths.get(way, strength), strength)
        if strengths_by_node:
            self.keep_shown(strengths_by_node)
        for node, ways_known in list(strengths_by_node.values()):
            self.hide_element(node, frozenset(ways_known))
        self.hide_by_inline_styles()
        if self.linked:
            for node in self.parser.css(_READ_ALOUD):
                self.hide_element(node, frozenset(("place",)))

    def judge_rule(self, body: str) -> tuple[dict[str, str], frozenset[str]]:
        """Return the declarations of a rule and the ways in which they hide; neither where it hides
        nothing. Sheets write the same few declarations again and again."""
        known = self.judged.get(body)
        if known is None:
            styles = _parse_styles(body) if _may_hide(body) else {}
            ways = self.find_ways(styles) if styles else frozenset[str]()
            known = self.judged[body] = (styles, ways) if ways else ({}, ways)
        return known

    def find_ways(self, styles: dict[str, str]) -> frozenset[str]:
        """Return the ways in which the declarations hide, white text on a white page included."""
        ways = find_hiding(styles)
        color = re.sub(r"\s+", "", _drop_importance(styles.get("color", "")))
        return ways | {"color"} if color in _WHITE and self.is_white else ways

    @cached_property
    def is_white(self) -> bool:
        """Tell whether no style on the page gives anything another ground than white."""
        return not self.linked and not _GROUND.search(self.html)

    def select_elements(self, selector: str) -> list[Any]:
        """Return the elements that a selector matches; none if it is dynamic, costly or wrong."""
        if self.lookups <= 0 or not self.may_match(selector):
            return []
        self.lookups -= 1
        try:
            nodes: list[Any] = self.parser.css(selector)
        except Exception:
            return []
        self.lookups -= len(nodes) // _NODES_OF_A_LOOKUP
        return nodes

    def may_match(self, selector: str) -> bool:
        """Tell whether a selector is static, cheap, and of classes and ids that the page has."""
        if self.names is None and self.tried < _FEW and _SIMPLE.fullmatch(selector):
            self.tried += 1
            return True
        if simple := _SIMPLE.fullmatch(selector):
            return simple[1] in self.get_names()
        if not selector or _DYNAMIC.search(selector):
            return False
        names = map(_unescape_name, _NAME.findall(_NEGATION.sub("", selector)))
        simple_enough = len(_COMBINATOR.findall(selector)) <= _MAX_COMBINATORS
        return self.get_names().issuperset(names) and simple_enough

    def get_names(self) -> frozenset[str]:
        """Return all classes and ids of the page."""
        if self.names is None:
            names = set(_IDENTITY.findall(self.html))
            for value in set(_CLASSES.findall(self.html)):
                names.update(value.split())
            self.names = frozenset(names)
        return self.names

    def keep_shown(self, strengths_by_node: dict[int, tuple[Any, dict[str, Strength]]]) -> None:
        """Take back what stronger rules or inline styles show."""
        ways = {way for _, strengths in strengths_by_node.values() for way in strengths}
        deciding = frozenset[str]().union(*(_PROPERTIES[way] for way in ways))
        names = {name for node, _ in strengths_by_node.values() for name in _list_names(node)}
        for order, (selectors, body) in enumerate(self.rules):
            if not any(map(body.__contains__, deciding)):
                continue
            aimed = [one for one in map(str.strip, selectors.split(",")) if _aims_at(one, names)]
            styles = _parse_styles(body) if aimed else {}
            showing = {way for way in ways if not _PROPERTIES[way].isdisjoint(styles)}
            showing -= self.judge_rule(body)[1] if showing else frozenset()
            for selector in aimed if showing else ():
                for node in self.select_elements(selector):
                    strengths = strengths_by_node.get(node.mem_id, (None, {}))[1]
                    for way in showing & strengths.keys():
                        if strengths[way] < _get_strength(selector, styles, way, order):
                            del strengths[way]
        for node, strengths in strengths_by_node.values():
            styles = _parse_styles(node.attributes.get("style") or "")
            for way in [way for way in strengths if not _PROPERTIES[way].isdisjoint(styles)]:
                if way not in find_hiding(styles, inline=True) and not strengths[way][0]:
                    del strengths[way]

    def hide_element(self, node: Any, ways: frozenset[str]) -> None:
        """Mark an element as hidden, unless its children lift what hides it."""
        if node.tag in ("html", "body", "head"):
            return
        hidden = (
            bool(ways - _LATER - {"font-size"})
            or ("font-size" in ways and not self.resizes_children(node))
            or (bool(ways & _LATER) and not self.is_most_of_page(node))
        )
        if hidden and not (ways == {"place"} and _stands_for_layout(node)):
            node.attrs["hidden"] = ""

    def resizes_children(self, node: Any) -> bool:
        """Tell whether elements in one of font size 0 may have a size of their own: text is often
        set to 0 to close the gaps between the boxes of a row."""
        inner = node.css("[class], [id], [style]")
        others = [each for each in inner if each.mem_id != node.mem_id]
        if self.linked or not others:
            return bool(others)
        if any("font" in (each.attributes.get("style") or "") for each in others):
            return True
        inside = {each.mem_id for each in others}
        return any(
            each.mem_id in inside
            for selectors, body in self.rules
            if re.search(r"font(?:-size)?\s*:", body)
            for selector in map(str.strip, selectors.split(","))
            for each in self.select_elements(selector)
        )

    def is_most_of_page(self, node: Any) -> bool:
        """Tell whether an element holds much of the page's text: then it only begins unseen."""
        body = self.parser.body
        return body is not None and len(node.text()) > _MOST_TEXT * len(body.text())

    def hide_by_inline_styles(self) -> None:
        """Mark what inline styles hide only together with what stands around or in them."""
        hiding: dict[str, frozenset[str]] = {}
        for style in {one or other for one, other in _INLINE_STYLE.findall(self.html)}:
            if _may_hide(style.lower()):
                ways = self.find_ways(_parse_styles(style)) & {"font-size", "color"}
                if ways:
                    hiding[style] = ways
        for node in self.parser.css("[style]") if hiding else ():
            if inline_hiding := hiding.get(node.attributes.get("style") or ""):
                self.hide_element(node, inline_hiding)


def _stands_for_layout(node: Any) -> bool:
    """Tell whether text for screen readers is a sign that others see as layout: the bar of a
    fraction, the plus of a mixed number."""
    text = node.text().strip()
    return len(text) == 1 and not text.isalnum()


def _list_names(node: Any) -> list[str]:
    """Return the tag, the classes and the id by which selectors name an element."""
    attributes = node.attributes
    classes = (attributes.get("class") or "").split()
    return [node.tag, *classes, attributes.get("id") or node.tag]


def _aims_at(selector: str, names: set[str]) -> bool:
    """Tell whether the last part of a selector names one of these tags, classes or ids."""
    last = selector[max(map(selector.rfind, " >+~")) + 1 :]
    wanted = _NAME.findall(_NEGATION.sub("", last) if ":" in last else last)
    if wanted:
        return all(_unescape_name(name) in names for name in wanted)
    tag = _TAG_NAME.match(last)
    return tag is None or tag[0].lower() in names


def _unescape_name(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name) if "\\" in name else name


def _get_strength(selector: str, styles: dict[str, str], way: str, order: int) -> Strength:
    """Return the weight of a rule in the cascade: important, then specificity, then order."""
    values = (styles.get(name, "") for name in _PROPERTIES[way])
    important = any("!important" in value.replace(" ", "") for value in values)
    plain = re.sub(r"\[[^\]]*\]", ".a", selector)
    ids, classes = plain.count("#"), plain.count(".") + len(re.findall(r"(?<!:):(?!not)", plain))
    tags = len(re.findall(r"(?:^|[\s>+~(])[a-zA-Z]", plain))
    return important, ids, classes, tags, order


def _parse_sheet(sheet: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of the rules that apply to a screen."""
    applied = [True]
    for part in _CSS_PART.finditer(_COMMENT.sub(" ", sheet[:_SHEET_LIMIT])):
        if part["selector"] is not None:
            if applied[-1] and "@" not in part["selector"]:
                yield part["selector"], part["body"].lower()
        elif part["outer"] is not None:
            applied.append(applied[-1] and _applies_to_screen(part["outer"].strip().lower()))
        elif part["end"] and len(applied) > 1:
            applied.pop()


def _applies_to_screen(prelude: str) -> bool:
    """Tell whether the rules in an at-rule apply; those in a rule (nesting) are not read."""
    if prelude.startswith("@media"):
        return matches_screen(prelude[len("@media") :])
    return prelude.startswith(("@layer", "@supports")) and " not" not in prelude


def matches_screen(queries: str) -> bool:
    """Tell whether a list of media queries, such as an empty one, holds for 1,280 pixels' width."""
    return any(map(_matches_query, queries.lower().split(",")))


def _matches_query(query: str) -> bool:
    if re.match(r"\s*(?:only\s+)?(?:print|speech|tty|not)\b", query):
        return False
    for feature in re.findall(r"\(([^()]*)\)", query):
        width = _QUERY_WIDTH.search(feature)
        if width is None:
            return False
        pixels = float(width[2]) * (1 if width[3] == "px" else 16)
        if (pixels > SCREEN_WIDTH) if width[1] == "min" else (pixels < SCREEN_WIDTH):
            return False
    return True
