"""Find what styles hide: rules of the page's own style sheets, inline styles, closed elements.

A cascade without layout, for a screen of 1,280 by 720 pixels: scripts and style sheets elsewhere
are not known. The HTML parser's engine matches selectors, tinycss2 reads values. What is hidden
only until it fades or slides in counts as shown, since a reader will see it.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import tinycss2
from tinycss2.color4 import parse_color

from rookery.typed_files import read_text_table

SHEET_LIMIT = 1_000_000
"""characters of style sheets that are read"""
_MAX_LOOKUPS = 1_000
_MAX_VISITS = 6_000_000
"""selectors looked up on one page, and tags visited by all of them"""
_AT_ONCE = 2
"""combinators that the engine matches in time: each more takes it the page's depth times as long"""
_MAX_SELECTOR = 2_000
"""characters of a selector, nested rules written out"""
_NODES_OF_A_LOOKUP = 200
"""elements matches, for each so many of which one lookup less is left"""
_FAR = 900
_FAR_AHEAD = 5_000
_FAR_FIXED = 1_300
"""pixels from which on something is off the screen: to the left or above, to the right or below,
and what does not scroll"""
_MOST_TEXT = 0.4
"""share of the page's text that is shown although it begins transparent: a page that fades in"""
_SCREEN, _TILTING = (1280, 720), ("rotatex", "rotatey", "skew", "skewx", "skewy")
_TINY = 4
"""pixels of height or width in which no text is seen"""
_FAINT = 0.05
"""opacity, and difference of two colours' channels, that nobody sees"""

# Each alternative begins with a plain letter, which makes the search several times as fast.
_MAY_HIDE = re.compile(
    r"display\s*:\s*(?:none|var|env|table-col)|visibility\s*:\s*(?:hidden|collapse|var|env)|blur|skew"
    r"|opacity\s*[:(]\s*(?:\+?0?(?:\.?0|\s*[;!)\"}]|$)|[0-5](?:\.\d*)?%|-|[a-z]|\d[\d.]*e-)|offset"
    r"|font(?:-size)?\s*:\s*(?:[01]?\.\d|[01](?![\d.])|calc|var|m[ai]|clamp|\d[\d.]*e-)|-\d{3,}"
    r"|-\d\d+(?:r?em|v[wh])|-\d\.?\d*e\d|calc\(|\\|clip\s*:|clip-path\s*:|tent-visibility|mask"
    r"|(?:height|width|-size)\s*:\s*(?:[0-4]?\.\d|[0-4](?![\d.])|m[ai]|clamp)|scale|rotate|matrix"
    r"|translate|text-indent\s*:\s*[1-9]\d\d|\d{4}px|zoom\s*:|contain\s*:|text-security|text-fill-color"
    r"|line-through|z-index\s*:\s*(?:-|var)|(?:left|right|top|bottom|inset)\s*:[^;]*(?:-\d|\d\d\d)"
)
_TEXT_COLOR = re.compile(r"(?<![\w-])color\s*:([^;}!]*)")
_GROUND = re.compile(r"background(?:-color)?\s*:\s*([^;}\"'!]+)")
_SKIPPED = r"""/\*.*?(?:\*/|\Z)|/|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|\\.?"""
_CSS_PART = re.compile(
    rf"((?:[^{{}}\"'/\\(]++|\([^\"'(){{}}]*+\)|\(|{_SKIPPED})*+)([{{}}]|\Z)", re.DOTALL
)
_SIMPLE_STRING = r"""'[^'\\;{}()!/]*+'|"[^"\\;{}()!/]*+\""""
_PLAIN_BODY = re.compile(
    rf"""(?:[^"'\\(){{}}\[\]/@]++|/(?!\*)|{_SIMPLE_STRING}"""
    rf"""|\((?:[^"'\\(){{}}\[\]@;/]++|/(?!\*)|{_SIMPLE_STRING})*+\))*+"""
)
_NESTED = re.compile(r"(?:[(\[{][^()\[\]{}]*){40}")
_VARIABLE = re.compile(r"(?:var|env)\(\s*([\w-]+)\s*(?:,([^()]*))?\)")
_NAME = re.compile(r"[.#]((?:\\.|[\w-])+)")
_CLASSES = [
    re.compile(rf"""{name}=["']?((?<=")[^"]*|(?<=')[^']*|[^\s>]*)""") for name in ("class", "id")
]
_NO_SELECTOR = re.compile(r"/\*.*?\*/|<!--|-->|\ufeff", re.DOTALL)
_UNUSUAL_SELECTOR = re.compile(r"""[(\\"'/]|\[[^\]]*[.,#:]""")
_CLASS_SIGN = re.compile(r"[.:\[]")
_TAG = re.compile(r"(?:^|[\s>+~])[a-z]", re.I)
_LAST_TAG = re.compile(r"^[a-z][\w-]*")
_COMBINATOR = re.compile(r"\s*[\s>+~]\s*")
_BETWEEN = re.compile(r"(?<![\s>+~])\s+(?![\s>+~])(?![^\[(]*[\])])")
_FUNCTION = re.compile(r":(?:not|is|where|has)\(.*\)")
_TO_BE_SHOWN = re.compile(
    r"fade|reveal|anim|aos|lazy|wow|appear|scroll|load|slide|no-?js|transition|js-", re.I
)
_INLINE_STYLE = re.compile(r"""style=(?:"([^"]*)"|'([^']*)')""")
READ_ALOUD = (
    ".sr-only, .visually-hidden, .visuallyhidden, .screen-reader-text, .screen-reader-only,"
    " .visually-hidden-focusable, .element-invisible, .a11y-hidden"
)
"""classes of text for screen readers, known by name where their style sheet is elsewhere"""
_INLINE_TAGS = frozenset(
    "a abbr b big cite code del dfn em font i ins kbd q s small span strong sub sup tt u".split()
)
"""which have neither height nor transform unless a style makes them boxes"""

_PROPERTIES = read_text_table(Path(__file__).with_name("hiding_properties.txt"))
"""the properties that decide each way of hiding"""
_SHORTHANDS = {
    name: tuple(properties.split())
    for name, properties in read_text_table(Path(__file__).with_name("shorthands.txt")).items()
}
"""properties, of those that may hide, that a shorthand sets"""
_EDGES = ("top", "right", "bottom", "left")
_MOVING = tuple("transition animation will-change".split())
_ELSEWHERE = {"position": "absolute", "overflow-x": "hidden", "white-space": "pre"}
"""what another rule may give to an element, so that a rule hides it"""
_LAYERS = ("opacity", "transform", "filter")
_LATER = frozenset(("opacity", "visibility"))
"""ways of hiding that scripts often lift once the page is loaded"""

Styles = dict[str, tuple[str, bool]]
"""of each property the value, in lower case, and whether it is important"""
Channels = tuple[float, float, float, float]
"""red, green, blue and alpha, from 0 to 1"""


class Selector(NamedTuple):
    """One selector of a rule, which may be looked up."""

    text: str
    parts: list[str]
    """cut where another element may stand between, unless the engine is to match it at once"""
    specificity: tuple[int, int, int]
    """numbers of its ids, classes and tags"""
    names: frozenset[str]
    """classes and ids that a page has if it matches there"""
    last: frozenset[str]
    """those of the elements themselves, and their tag"""


class StyleRule(NamedTuple):
    """A rule that applies to the screen, nested selectors written out."""

    selectors: str
    body: str
    layered: bool


def hide_unseen_elements(parser: Any, html: str, sheets: list[str]) -> None:
    """Give the attribute `hidden` to the elements of a parsed page that its styles hide.

    `html` is the page's source, `sheets` the text of its style sheets for the screen. Inline
    styles that hide by themselves are left to `is_hidden_by_style`.
    """
    _StyleCascade(parser, html, sheets).hide_elements()


@lru_cache(4096)
def is_hidden_by_style(style: str, tag: str = "div") -> bool:
    """Tell whether an inline style hides its element whatever stands around it."""
    if not _MAY_HIDE.search(_write_plainly(style)):
        return False
    styles = {name: value for name, (value, _) in parse_styles(style).items()}
    left = {"font-size", "color", "behind"} | ({"box"} if "padding" in style else set())
    return bool(find_hiding(styles, tag, inline=True) - left)


def _write_plainly(body: str) -> str:
    """Return a rule's declarations in lower case and without comments."""
    return (_NO_SELECTOR.sub(" ", body) if "/*" in body else body).lower()


@lru_cache(8192)
def parse_styles(body: str) -> Styles:
    """Return the declarations of a rule by property, shorthands written out."""
    styles: Styles = {}
    for name, value, important in _list_declarations(body):
        name = re.sub("-webkit-(?!text)", "", name)
        if name == "font":
            parts = tinycss2.parse_component_value_list(value)
            sizes = [each for each in parts if each.type in ("dimension", "percentage")]
            sizes += [each for each in parts if each.type == "number"]
            value = sizes[0].serialize() if sizes else "16px"
        for each in _SHORTHANDS.get(name, (name,)):
            # What browsers do not know does not take the place of what they do.
            valid = "var(" in value or each != "display" or _DISPLAYS.match(value)
            if valid and styles.get(each, ("", False))[1] <= important:
                part, edge = value, each.rpartition("-")[2]
                if edge in _EDGES and name in _SHORTHANDS:
                    end = edge in _EDGES[1:3] if "-" in name else _EDGES.index(edge)
                    part = _list_edges(value)[end]
                styles[each] = (part, important)
    return styles


def _list_edges(value: str) -> list[str]:
    """Return the values at top, right, bottom and left."""
    sides = value.split()
    if "(" in value:
        parts = tinycss2.parse_component_value_list(value)
        sides = [part.serialize() for part in parts if part.type != "whitespace"]
    return (sides + sides[-2:] * 2)[:4] if len(sides) > 1 else [value] * 4


def _list_declarations(body: str) -> Iterator[tuple[str, str, bool]]:
    """Yield name, value and whether it is important, of each declaration of a rule.

    Most rules hold neither strings nor escapes, and tinycss2 takes 30 times as long for them.
    """
    if _PLAIN_BODY.fullmatch(body):
        for text in body.lower().split(";"):
            name, _, value = text.partition(":")
            value, mark, important = value.partition("!")
            name, value = name.strip(), " ".join(value.split())
            if (value or name[:2] == "--") and (not mark or important.strip() == "important"):
                yield name, value, bool(mark)
    elif not _NESTED.search(body):
        for part in tinycss2.parse_blocks_contents(body):
            if part.type == "declaration":
                words = [each for each in part.value if each.type != "comment"]
                value = " ".join(tinycss2.serialize(words).lower().split())
                if (value or part.lower_name[:2] == "--") and "!" not in part.value:
                    yield part.lower_name, value, part.important


_DISPLAYS = re.compile("none|in|block|flex|grid|table|flow|list|contents|ruby|math|-|un|re")


_XYZ_TO_RGB = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.204, 1.057))
_WHITES = dict.fromkeys(("lab", "lch"), (0.9857, 1, 1.3196, 1))
_WHITES |= dict.fromkeys(("oklab", "oklch"), (1, 1, 1, 1))
"""by which the lights of a colour are scaled to the white of sRGB"""


@lru_cache(4096)
def read_color(value: str) -> Channels | None:
    """Return a colour; None for what is none, or none that is known without what stands around."""
    try:
        color: Any = parse_color(value)
        if color.space in _WHITES:  # perceptual spaces, by way of CIE XYZ
            xyz = color.to("xyz-d65" if color.space[:2] == "ok" else "xyz-d50")
            lights = [part * white for part, white in zip(xyz, _WHITES[color.space], strict=False)]
            red, green, blue = (sum(map(operator.mul, row, lights)) for row in _XYZ_TO_RGB)
            return (_encode(red), _encode(green), _encode(blue), color.alpha)
        return (*color.to("srgb").coordinates, color.alpha)
    except (AttributeError, NotImplementedError, TypeError):  # a keyword, or an unknown space
        return None


def _encode(light: float) -> float:
    """Return a channel of sRGB as it is written."""
    light = min(max(light, 0.0), 1.0)
    return 12.92 * light if light <= 0.0031308 else float(1.055 * light ** (1 / 2.4) - 0.055)


def _find_color(value: str) -> Channels | None:
    """Return the first colour in the value of a background."""
    parts = tinycss2.parse_component_value_list(value)
    return next((color for part in parts if (color := read_color(part.serialize()))), None)


def _find_text_color(styles: dict[str, str]) -> Channels | None:
    return read_color(styles.get("-webkit-text-fill-color") or styles.get("color", ""))


def _look_alike(one: Channels, other: Channels) -> bool:
    return max(abs(a - b) for a, b in zip(one[:3], other[:3], strict=True)) <= _FAINT


_SUPPORTED = (
    "--|align|anim|appear|aspect|back|block|border|bottom|clip|color|column|contain|content|display"
    "|fl|font|gap|grid|height|hyphens|inset|isol|justify|left|line|margin|mask|max|min|mix|object"
    "|overf|overs|padding|place|position|right|scroll|shape|text|top|touch-a|trans|user|width|will"
    "|accent|caret|cursor|filter|letter|opacity|outline|table|visib|word|writing|z-|zoom"
)
_UNITS = {"px": 1, "em": 16, "rem": 16, "ex": 8, "ch": 8, "pt": 4 / 3, "vh": 7.2, "vw": 12.8,
          "cm": 37.8, "mm": 3.78, "in": 96, "vmin": 7.2, "vmax": 12.8, "deg": 1, "grad": 0.9,
          "rad": 180 / math.pi, "turn": 360, "dppx": 1}  # fmt: skip
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_OPERATORS |= {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPERATORS |= {"=": operator.eq, ":": operator.eq}
_LIMITS: dict[str, Any] = {"min": min, "max": max, "calc": operator.itemgetter(0),
                           "clamp": lambda numbers: max(numbers[0], min(numbers[1:]))}  # fmt: skip


@lru_cache(4096)
def measure_value(value: str, length: bool = True, whole: float = 16) -> float | None:
    """Return a value in pixels or degrees, roughly, with `whole` for 100 %; None where it is not
    one number. A `length` has a unit unless it is 0."""
    parts = tinycss2.parse_component_value_list(value)
    number = len(parts) == 1 and parts[0].type == "number" and parts[0].value != 0
    return None if length and number else _compute_value(parts, whole)


def _compute_value(parts: Sequence[Any], whole: float = 100) -> float | None:
    """Return the value of a sum of products, as in calc()."""
    parts = [part for part in parts if part.type not in ("whitespace", "comment")][:200]
    for signs in ("+-", "*/"):
        for place in range(len(parts) - 1, 0, -1):
            if parts[place].type == "literal" and parts[place].value in signs:
                sides = (parts[:place], parts[place + 1 :])
                one, other = (_compute_value(each, whole) for each in sides)
                if one is None or other is None or (parts[place] == "/" and not other):
                    return None
                return float(_OPERATORS[parts[place].value](one, other))
    part = parts[0] if len(parts) == 1 else None
    if part is None or part.type in ("number", "percentage"):
        return part and float(part.value * (1 if part.type == "number" else whole / 100))
    if part.type == "dimension" and part.lower_unit in _UNITS:
        return float(part.value * _UNITS[part.lower_unit])
    if part.type == "() block":
        return _compute_value(part.content, whole)
    if part.type == "function" and part.lower_name in _LIMITS:
        numbers = [_compute_value(each, whole) for each in _split_parts(part.arguments)]
        if None not in numbers and numbers:
            return float(_LIMITS[part.lower_name](numbers))
    return None


def _split_parts(parts: Iterable[Any]) -> list[list[Any]]:
    """Cut a list of values at its commas."""
    return [list(each) for comma, each in groupby(parts, lambda part: part == ",") if not comma]


def find_hiding(styles: dict[str, str], tag: str = "div", inline: bool = False) -> frozenset[str]:
    """Return the ways in which computed styles hide an element; empty if they do not.

    The ways are display, visibility, opacity, font-size, place, box, struck (through) and behind
    what stands around.
    `inline` declarations of visibility are not lifted by a transition.
    """
    get = styles.get
    still = not _is_moving(styles)
    boxed = tag not in _INLINE_TAGS or get("position") in ("absolute", "fixed") or "float" in styles
    boxed = boxed or get("display", "inline") not in ("inline", "none")
    opacity = measure_value(get("opacity", ""), False, 1) if "transform" not in styles else None
    clear = [
        opacity,
        *(
            10 - max(each) if name == "blur" else min(each)
            for name, each in _list_functions(get("filter", ""), 1)
            if each and name in ("blur", "opacity")
        ),
    ]
    size, zoom = measure_value(get("font-size", "")), measure_value(get("zoom", ""), False, 1)
    hiding = {
        "display": re.match("none|table-col", get("display", "")) or get("-webkit-text-security",
        "none") != "none" or (boxed and get("content-visibility") == "hidden"),
        "visibility": get("visibility") in ("hidden", "collapse") and (inline or still),
        "opacity": still and any(each is not None and each <= _FAINT for each in clear),
        "font-size": size is not None and 0 <= size <= 1,
        "place": (boxed and still and _is_moved_away(styles)) or 0 < (zoom or 1) <= _FAINT
        or _is_far(styles) or _is_clipped(styles),
        "struck": re.match("(?!.*transp).*through", get("text-decoration-line", "")),
        "box": boxed and still and _is_empty_box(get),
        "behind": get("z-index", "")[:1] == "-" and get("position", "static") != "static",
    }  # fmt: skip
    return frozenset(way for way, hides in hiding.items() if hides)


def _is_moving(styles: dict[str, str]) -> bool:
    return any(name.startswith(_MOVING) and value != "none" for name, value in styles.items())


@lru_cache(4096)
def _list_functions(value: str, whole: float = 100) -> list[tuple[str, list[float]]]:
    """Return the functions in a value with their numbers, `whole` for 100 %; no number is NaN."""
    parts = tinycss2.parse_component_value_list(value) if "(" in value else ()
    return [
        (part.lower_name, [math.nan if number is None else number
         for each in _split_parts(part.arguments) for number in [_compute_value(each, whole)]])
        for part in parts if part.type == "function"
    ]  # fmt: skip


def _is_far(styles: dict[str, str]) -> bool:
    """Tell whether an element is placed off the screen, or its text is indented beyond it."""
    position = styles.get("position")
    back = position == "relative"
    ahead = _FAR if back else _FAR_FIXED if position == "fixed" else _FAR_AHEAD
    names = ["text-indent", "margin-left", "margin-top"]
    names += _EDGES if position in ("absolute", "fixed", "relative") else []
    lengths = {
        name: measure_value(styles[name], whole=_SCREEN[0] * (name == "text-indent")) or 0
        for name in names
        if name in styles
    }
    far = any(each <= -_FAR for each in lengths.values())
    far |= any(lengths.get(name, 0) >= ahead for name in (_EDGES[1:3] if back else _EDGES))
    far |= lengths.get("right", 0) >= _FAR_FIXED
    beyond = styles.get("overflow-x") in ("hidden", "clip")
    beyond &= styles.get("white-space") in ("nowrap", "pre")
    return far or (beyond and lengths.get("text-indent", 0) >= _SCREEN[0])


def _is_outside(styles: dict[str, str], letters: int) -> bool:
    """Tell whether an element that is placed from the edges of the screen ends before it, or stands
    still behind it. Its size is reckoned from its letters, which are no larger than 12 by 40."""
    sizes = (min(letters * 12, _SCREEN[0]), 40 + letters * 12 // _SCREEN[0] * 40)
    for axis, (screen, own) in enumerate(zip(_SCREEN, sizes, strict=True)):
        moves = () if _is_moving(styles) else _list_moves(styles, own)
        shift = sum(
            [*numbers, 0, 0][axis * (name[-1] != "y")]
            for name, numbers in moves
            if name in ("translate", "translate3d", f"translate{'xy'[axis]}")
        )
        sides = (styles.get(edge, "") for edge in (_EDGES[3 - 3 * axis], _EDGES[1 + axis]))
        begin, end = (measure_value(side, whole=screen) for side in sides)
        if begin is None:
            begin = (shift < 0) * screen if end is None else screen - own - end
        if begin + shift + own <= 0 or (styles["position"] == "fixed" and begin + shift >= screen):
            return True
    return False


def _list_moves(styles: dict[str, str], own: float) -> list[tuple[str, list[float]]]:
    """Return the functions that move, turn and scale an element, `own` for 100 %."""
    moves = styles.get("transform", "")
    for name in ("scale", "rotate", "translate"):
        axis, _, turn = styles.get(name, "").partition(" ")
        if axis:
            numbers = f"{axis}({turn})" if axis in ("x", "y") else f"({axis},{turn or 1})"
            moves += name + numbers
    return _list_functions(moves, own)


def _is_moved_away(styles: dict[str, str]) -> bool:
    """Tell whether transforms move an element off the screen, or leave nothing of it."""
    back = styles.get("backface-visibility") == "hidden"
    for name, numbers in _list_moves(styles, 200):
        turned = math.cos(math.radians(sum(numbers[-1:])))
        edge = name in _TILTING or (name == "rotate3d" and numbers[2:3] == [0])
        edge &= (turned if back else abs(turned)) < 0.01
        first = numbers[{"matrix": 4, "matrix3d": 12}.get(name, 0) :][:2]
        far = any(number <= -_FAR or number >= _FAR_AHEAD for number in first)
        far &= name[:9] in ("translate", "matrix", "matrix3d")
        flat = name.startswith("scale") and any(abs(each) <= 0.01 for each in first)
        flat |= name[:6] == "matrix" and numbers[:2] == [0, 0]
        if edge or far or flat:
            return True
    return re.search(r"-\d{4}", styles.get("offset-path", "")) is not None


def _is_clipped(styles: dict[str, str]) -> bool:
    """Tell whether an element is clipped or masked to nothing, as text for screen readers is."""
    if styles.keys().isdisjoint(("clip", "clip-path", "mask-image")):
        return False
    placed = styles.get("position") in ("absolute", "fixed")
    shape = f"{styles.get('clip', '') if placed else ''} {styles.get('clip-path', '')}"
    masks = tinycss2.parse_component_value_list(styles.get("mask-image", ""))
    shapes = tinycss2.parse_component_value_list(shape)
    for part in (part for part in shapes if part.type == "function"):
        values = [each for each in part.arguments if each.type != "whitespace" and each != ","]
        sides = [number for each in values if (number := _compute_value([each])) is not None]
        if part.name in ("rect", "inset") and 0 < len(sides) == len(values):
            edges = (sides + sides[-2:] + sides[-2:])[:4] if len(sides) > 1 else sides * 4
            height, width = edges[2] - edges[0], edges[1] - edges[3]
            most = 100 if "%" in shape else _FAR
            cut = edges[0] + edges[2] >= 100 or edges[1] + edges[3] >= most
            if min(height, width) <= 1 if part.name == "rect" else cut:
                return True
        if part.name in ("circle", "ellipse", "xywh") and values:
            return 0 in (sides[2:4] if part.name == "xywh" else sides[: len(part.name) - 5])
        lines = (sides[::2], sides[1::2] or [0]) if part.name == "polygon" and sides else ()
        if any(max(line) - min(line) <= 1 or max(line) <= 0 for line in lines):
            return True
    values = [each for part in masks if part.type == "function" for each in part.arguments]
    colors = [color for each in values if (color := read_color(each.serialize()))]
    return bool(colors) and all(color[3] <= _FAINT for color in colors)


def _is_empty_box(get: Any) -> bool:
    """Tell whether an element has no height or no width and cuts off what goes beyond."""
    values = [get(name) or "" for name in ("height", "max-height", "width", "max-width")]
    small = any(size is not None and size <= _TINY for size in map(measure_value, values))
    small |= re.search("size|strict", get("contain") or "") is not None and not values[0]
    ways = f"{get('overflow-x')}{get('overflow-y')}{get('contain')}"
    cut = re.search("hid|clip|auto|scr|strict", ways)
    frame = (get("padding-bottom") or "0", get("min-height") or "0")
    return small and cut is not None and all(re.match("0|auto", each) for each in frame)


class _StyleCascade:
    """The rules of a page's style sheets, and the elements that they hide and show."""

    def __init__(self, parser: Any, html: str, sheets: list[str]) -> None:
        self.parser = parser
        self.html = html
        self.rules = [rule for sheet in sheets for rule in split_sheet(sheet, self.may_apply)]
        self.lookups = min(_MAX_LOOKUPS, _MAX_VISITS // (html.count("<") + 1))
        self.linked = re.search(r"<link\b[^>]*\bstylesheet", html, re.I) is not None
        self.known: dict[str, list[Any]] = {}
        self.suspected: dict[str, frozenset[str]] = {}
        self.inline = {one or other for one, other in _INLINE_STYLE.findall(html)}
        self.changing: dict[str, list[StyleRule]] = {}
        self.colors: dict[str, bool] = {}
        self.found_grounds: dict[int, Channels | None] = {}
        self.declared: dict[int, dict[str, str]] = {}
        """of each element that may be hidden, and of those around it, values by property"""

    def hide_elements(self) -> None:
        """Find the hidden elements and mark them."""
        nodes: dict[int, Any] = {}
        deciding = set[str]()
        for rule in self.rules:
            ways = self.suspect_ways(rule.body)
            for selector in _list_selectors(rule.selectors) if ways else ():
                matches = self.select_elements(selector)
                nodes |= {node.mem_id: node for node in matches}
                deciding.update(*(_PROPERTIES[way].split() for way in ways if matches))
        suspected = any(map(self.suspect_ways, self.inline))
        for node in self.parser.css("[style]") if suspected else ():
            if ways := self.suspect_ways(node.attributes.get("style") or ""):
                nodes[node.mem_id] = node
                deciding.update(*(_PROPERTIES[way].split() for way in ways))
        for node in self.parser.css("[hidden]:not([hidden=until-found])"):
            nodes[node.mem_id] = node
            deciding.add("display")
        if nodes:
            self.declare_values(nodes, deciding)
        for node in nodes.values():
            styles = self.compute_styles(node)
            ways = find_hiding(styles, node.tag)
            ways |= {"place"} if self.is_outside(node, styles) else set()
            if "hidden" in node.attributes and styles.get("display", "none") != "none":
                del node.attrs["hidden"]  # any rule goes before what browsers do with it
            inline = node.attributes.get("style") or ""
            own = parse_styles(inline) if not ways and is_hidden_by_style(inline, node.tag) else {}
            if any(styles.get(name) != value for name, (value, _) in own.items()):
                node.attrs["style"] = ""  # a rule that is important shows it again
            if self.is_colourless(node, styles) and not self.changes_inside(node, "color|backgr"):
                ways |= {"color"}
            if not styles.get("padding-top", "0").startswith("0") and len(node.css("*")) > 1:
                ways -= {"box"}  # a frame that keeps its proportions, with a box placed in it
            ways -= set() if "behind" in ways and self.is_covered(node) else {"behind"}
            self.hide_element(node, ways)
        for node in self.parser.css(READ_ALOUD) if self.linked else ():
            self.hide_element(node, frozenset(("place",)))
        # Styles elsewhere may hide it, and a formula may stand beside it as MathML.
        alone = not self.linked and self.parser.css_first("math") is None
        for node in self.parser.css("[aria-hidden=true]") if alone else ():
            del node.attrs["aria-hidden"]

    def suspect_ways(self, body: str) -> frozenset[str]:
        """Return the ways in which a rule may hide, whatever other rules add to it."""
        if body not in self.suspected:
            self.suspected[body] = self.list_ways(body)
        return self.suspected[body]

    def list_ways(self, body: str) -> frozenset[str]:
        """Find the ways in which a rule may hide."""
        lower = _write_plainly(body)
        colors = {value.strip() for value in _TEXT_COLOR.findall(lower)}
        unseen = any("var(" in value or self.is_like_ground(value) for value in colors)
        if not _MAY_HIDE.search(lower):
            return frozenset(("color",)) if unseen else frozenset()
        own = {name: value for name, (value, _) in parse_styles(body).items()}
        styles = {name: self.fill_variables(value, own) for name, value in own.items()}
        ways = find_hiding(_ELSEWHERE | styles)
        ways |= {"place"} if _is_outside(_ELSEWHERE | styles, 1) else set()
        unseen |= self.is_like_ground(styles.get("-webkit-text-fill-color", ""))
        return ways | {"color"} if unseen else ways

    def is_like_ground(self, value: str) -> bool:
        """Tell whether a colour is clear, or nearly that of a ground that the page names."""
        if value not in self.colors:
            color = read_color(value)
            near = color is not None and any(_look_alike(color, each) for each in self.grounds)
            self.colors[value] = near or (color is not None and color[3] <= _FAINT)
        return self.colors[value]

    @cached_property
    def grounds(self) -> list[Channels]:
        """Colours of the grounds that the page names, and white."""
        bodies = "}".join([*self.inline, *(rule.body for rule in self.rules)])
        named = {value.strip() for value in _GROUND.findall(bodies.lower())}
        named |= {node.attributes.get("bgcolor") or "" for node in self.parser.css("[bgcolor]")}
        matches = {color for value in named if (color := _find_color(value))}
        return [(1.0, 1.0, 1.0, 1.0), *matches]

    @cached_property
    def variables(self) -> dict[str, str]:
        """Custom properties by name; those of the whole page go before others."""
        rules = [rule for rule in self.rules if "--" in rule.body]
        rules.sort(key=lambda rule: re.search(r":root|html|body|\*", rule.selectors) is not None)
        styles = [parse_styles(rule.body).items() for rule in rules]
        return {name: value for each in styles for name, (value, _) in each if name[:2] == "--"}

    def fill_variables(self, value: str, own: dict[str, str]) -> str:
        """Write the values of custom properties into a value."""
        known = self.variables | own if "v(" in value or "var(" in value else own
        for _ in range(4 if known is not own else 0):
            value = _VARIABLE.sub(lambda use: known.get(use[1], use[2] or ""), value)
        return value[:1_000].strip()

    def may_apply(self, selectors: str) -> bool:
        """Tell whether the page has the classes and ids of one of these selectors."""
        names = map(_NAME.findall, selectors.split(","))
        unusual = _UNUSUAL_SELECTOR.search(selectors) is not None
        return unusual or any(map(self.page_names.issuperset, names))

    def select_elements(self, selector: Selector, aims: Any = None) -> list[Any]:
        """Return the elements that a selector matches, only those of `aims` where it is given; none
        if the selector is dynamic, costly or wrong."""
        if not self.page_names >= selector.names:
            return []
        *around, last = selector.parts
        nodes = self.look_up(last)
        nodes = nodes if aims is None else [node for node in nodes if node.mem_id in aims]
        if not around or not nodes:
            return nodes
        outer = [{node.mem_id for node in self.look_up(part)} for part in around]
        return [node for node in nodes if _is_inside(node, selector.parts, outer)]

    def look_up(self, selector: str) -> list[Any]:
        """Return what the engine finds, as long as there are lookups left."""
        if selector not in self.known and self.lookups > 0:
            with suppress(Exception):
                self.known[selector] = self.parser.css(selector)
            self.lookups -= 1 + len(self.known.get(selector, ())) // _NODES_OF_A_LOOKUP
        return self.known.get(selector, [])

    @cached_property
    def page_names(self) -> frozenset[str]:
        """Classes and ids of the page."""
        named = (name for pattern in _CLASSES for name in pattern.findall(self.html))
        return frozenset(" ".join(named).split())

    def declare_values(self, nodes: dict[int, Any], deciding: set[str]) -> None:
        """Collect what rules and inline styles say of these elements and of those around them."""
        aims = dict(nodes)
        for node in nodes.values() if {"background-color", "position"} & deciding else ():
            while (node := node.parent) is not None and node.mem_id not in aims:
                aims[node.mem_id] = node
        names = {word for node in aims.values() for name in ("class", "id")
                 for word in (node.attributes.get(name) or "").split()}  # fmt: skip
        names |= {node.tag for node in aims.values()}
        short = {name for name, long in _SHORTHANDS.items() if not deciding.isdisjoint(long)}
        words = deciding | short | {"--", "\\", *_MOVING}
        # ranked: important, not in a layer, specificity, order
        matches: list[tuple[Any, Any, str, str]] = []
        for order, rule in enumerate(self.rules):
            if not any(map(rule.body.lower().__contains__, words)):
                continue
            for selector in _list_selectors(rule.selectors):
                among = names >= selector.last and self.select_elements(selector, aims)
                for name, (value, important) in parse_styles(rule.body if among else "").items():
                    fading = name in _LATER and _TO_BE_SHOWN.search(selector.text)
                    if fading and find_hiding({name: value}):
                        continue
                    if name in deciding or name.startswith(("--", *_MOVING)):
                        layer = rule.layered == important
                        rank = (important, layer, selector.specificity, order)
                        matches += [(rank, node, name, value) for node in among or ()]
        for node in aims.values():
            styles = parse_styles(node.attributes.get("style") or "").items()
            matches += [((important, True, (1_000_000, 0, 0), 0), node, name, value)
                      for name, (value, important) in styles]  # fmt: skip
        for _, node, name, value in sorted(matches, key=operator.itemgetter(0)):
            self.declared.setdefault(node.mem_id, {})[name] = value

    def compute_styles(self, node: Any) -> dict[str, str]:
        """Return the values that hold for an element."""
        own = self.declared.get(node.mem_id, {})
        return {name: self.fill_variables(value, own) for name, value in own.items()}

    def is_outside(self, node: Any, styles: dict[str, str]) -> bool:
        """Tell whether an element is placed from the edges of the screen, and off it."""
        placed = styles.get("position", "")
        above = node.parent if placed == "absolute" and not self.linked else None
        while above is not None and above.tag not in ("body", "html"):
            values = map(self.compute_styles(above).get, ("position", *_LAYERS))
            if not {None, "static", "none"}.issuperset(values):
                return False
            above = above.parent
        return (placed == "fixed" or above is not None) and _is_outside(styles, len(node.text()))

    def is_colourless(self, node: Any, styles: dict[str, str]) -> bool:
        """Tell whether text has no colour, or nearly that of the ground on which it stands."""
        color = _find_text_color(styles)
        if not color or _is_moving(styles) or styles.get("text-shadow", "none") != "none":
            return False
        if color[3] <= _FAINT:
            return "text" not in styles.get("background-clip", "")
        ground = self.find_ground(node)
        return ground is not None and _look_alike(color, ground)

    def find_ground(self, node: Any) -> Channels | None:
        """Return the colour behind an element's text; None where it is not known."""
        inner: list[int] = []
        ground = None if self.linked else (1.0, 1.0, 1.0, 1.0)
        while node is not None and node.tag != "-document":
            if node.mem_id in self.found_grounds:
                ground = self.found_grounds[node.mem_id]
                break
            inner.append(node.mem_id)
            styles = self.compute_styles(node)
            color = styles.get("background-color") or node.attributes.get("bgcolor")
            color = _find_color(color) if color else None
            image = node.attributes.get("background") or styles.get("background-image", "")
            pictured = re.search("url|gradient|image-|/", image) is not None
            placed = styles.get("position", "") in ("absolute", "fixed", "sticky")
            if pictured or placed or (color and color[3] > _FAINT):
                ground = color if color and color[3] > 1 - _FAINT and not pictured else None
                break
            node = node.parent
        self.found_grounds |= dict.fromkeys(inner, ground)
        return ground

    def is_covered(self, node: Any) -> bool:
        """Tell whether an element behind what stands around it is covered by the ground of that."""
        while (node := node.parent) is not None and node.tag not in ("body", "html"):
            styles = self.compute_styles(node)
            color = _find_color(styles.get("background-color", ""))
            layer = styles.get("position", "static") != "static" and "z-index" in styles
            if layer or any(styles.get(name, "none") != "none" for name in _LAYERS):
                return False
            if color and color[3] > 1 - _FAINT:
                return True
        return False

    def hide_element(self, node: Any, ways: frozenset[str]) -> None:
        """Mark an element as hidden, unless its children lift what hides it."""
        if not ways or node.tag in ("html", "body", "head"):
            return
        hidden = bool(ways - _LATER - {"font-size"})
        hidden |= "font-size" in ways and not self.changes_inside(node, "font")
        if not hidden and ways & _LATER:  # what holds most of the page only begins unseen
            hidden = len(node.text()) <= _MOST_TEXT * len(self.parser.body.text())
        if hidden and not (ways == {"place"} and _stands_for_layout(node)):
            node.attrs["hidden"] = ""
            if node.tag == "col" and self.compute_styles(node).get("visibility") == "collapse":
                self.hide_column(node)

    def hide_column(self, column: Any) -> None:
        """Mark the cells of a collapsed column as hidden, in a table without merged cells."""
        self.lookups, table = self.lookups - 3, column.parent
        while table is not None and table.tag != "table":
            table = table.parent
        if table is None or self.lookups < 0 or table.css_first("[span], [colspan], [rowspan]"):
            return
        number = [each.mem_id for each in table.css("col")].index(column.mem_id) + 1
        for cell in table.css(f"tr > :nth-child({number})"):
            cell.attrs["hidden"] = ""

    def changes_inside(self, node: Any, words: str) -> bool:
        """Tell whether elements in one may have a size or colour of their own: text is often set to
        size 0 to close the gaps between the boxes of a row."""
        inner = node.css("[class], [id], [style], a[href]")
        inside = {each.mem_id: each for each in inner if each.mem_id != node.mem_id}
        pattern = re.compile(rf"(?<![\w-])(?:{words})[\w-]*\s*:")
        if words not in self.changing:
            self.changing[words] = [rule for rule in self.rules if pattern.search(rule.body)]
        return bool(inside) and (self.linked or any(
            pattern.search(each.attributes.get("style") or "")
            or (each.tag == "a" and "color" in words)
            for each in inside.values()
        ) or any(
            each.mem_id in inside
            for rule in self.changing[words]
            for selector in _list_selectors(rule.selectors)
            for each in self.select_elements(selector)
        ))  # fmt: skip


def _is_inside(node: Any, parts: Sequence[str], outer: list[set[int]]) -> bool:
    """Tell whether an element that the last part matches stands in what the others match."""
    for part, matches in zip(reversed(parts), reversed(outer), strict=False):
        for _ in range(part.count(">") + 1):
            node = node and node.parent
        while node is not None and node.mem_id not in matches:
            node = node.parent
    return node is not None


def _stands_for_layout(node: Any) -> bool:
    """Tell whether text for screen readers is a sign that others see as layout: the bar of a
    fraction, the plus of a mixed number."""
    text = node.text().strip()
    return len(text) == 1 and not text.isalnum()


def split_selectors(selectors: str) -> list[str]:
    """Return the selectors of a list, which commas in brackets do not part."""
    groups = _split_parts(tinycss2.parse_component_value_list(selectors, skip_comments=True))
    return [tinycss2.serialize(group).strip() for group in groups]


@lru_cache(8192)
def _list_selectors(selectors: str) -> list[Selector]:
    """Return the selectors of a list that are not too costly.

    `:is()` that begins a compound is written out: the engine looks no further than the nearest
    element around for what it names.
    """
    if not _UNUSUAL_SELECTOR.search(selectors):
        matches = [
            (each.strip(), (each.count("#"), len(_CLASS_SIGN.findall(each)), len(tags)))
            for each in selectors.split(",")[:_MAX_LOOKUPS]
            for tags in [_TAG.findall(each)]
        ]
    else:
        groups = _split_parts(tinycss2.parse_component_value_list(selectors, skip_comments=True))
        matches = [
            (each.strip(), _measure_specificity(group))
            for group in groups[:_MAX_LOOKUPS]
            for each in islice(_write_out(group), _MAX_LOOKUPS)
        ][:_MAX_LOOKUPS]
    listed = []
    for text, specificity in matches:
        plain = _FUNCTION.sub("", text) if "(" in text else text
        signs = _COMBINATOR.findall(plain)
        if "::" in plain or text.count("~") > 1 or ("\\" in text and len(signs) > _AT_ONCE):
            continue
        names = frozenset(() if "\\" in plain or "[" in plain else _NAME.findall(plain))
        end = _COMBINATOR.split(plain)[-1]
        last = _NAME.findall(end) + _LAST_TAG.findall(end.lower()) if names else []
        parts = _BETWEEN.split(text) if len(signs) > _AT_ONCE else [text]
        listed.append(Selector(text, parts, specificity, names, frozenset(last)))
    return listed


def _write_out(parts: list[Any]) -> Iterator[str]:
    """Yield a selector without its first `:is()` or `:where()`, once for each that it lists."""
    for place, part in enumerate(parts):
        before = parts[place - 2] if place > 1 else None
        begins = before is None or before.type == "whitespace" or before in (">", "+", "~")
        if begins and place and part.type == "function" and part.lower_name in ("is", "where"):
            for choice in _split_parts(part.arguments):
                inner = tinycss2.parse_component_value_list(tinycss2.serialize(choice).strip())
                yield from _write_out([*parts[: place - 1], *inner, *parts[place + 1 :]])
            return
    yield tinycss2.serialize(parts)[:_MAX_SELECTOR]


def _measure_specificity(parts: Sequence[Any]) -> tuple[int, int, int]:
    """Count the ids, the classes and the tags of a selector, as Selectors 4 does."""
    ids = classes = tags = 0
    for before, part in zip((None, *parts), parts, strict=False):
        ids += part.type == "hash"
        classes += part.type == "[] block" or (part.type == "ident" and before in (".", ":"))
        tags += part.type == "ident" and before not in (".", ":")
        if part.type == "function" and part.lower_name in ("is", "not", "has"):
            inner = max(map(_measure_specificity, _split_parts(part.arguments)), default=(0, 0, 0))
            ids, classes, tags = ids + inner[0], classes + inner[1], tags + inner[2]
        else:
            classes += part.type == "function" and part.lower_name != "where"
    return ids, classes, tags


def split_sheet(sheet: str, may_apply: Callable[[str], object]) -> list[StyleRule]:
    """Return the rules that apply to a screen and for whose selectors `may_apply` is true.

    Only blocks are told apart here, since few rules need to be parsed. No more is read than the
    first SHEET_LIMIT characters.
    """
    rules: list[tuple[str | None, list[str], bool]] = []
    opened: list[tuple[str | None, list[str], bool]] = []
    for part in _CSS_PART.finditer(sheet[:SHEET_LIMIT]):
        text, sign = part.groups()
        outer, pieces, layered = opened[-1] if opened else ("", [], False)
        if sign == "{":
            prelude = (_NO_SELECTOR.sub(" ", text) if _NO_SELECTOR.search(text) else text).strip()
            if opened or prelude[:1] == "@":
                before, _, prelude = prelude.rpartition(";")
                pieces.append(before + ";")
                prelude = prelude.lstrip()
            prelude = "" if "(" in prelude and _NESTED.search(prelude) else prelude
            inner = outer
            if prelude[:1] != "@":
                inner = _nest_selectors(outer, prelude) if outer else prelude
                applies = outer is not None and ";" not in inner and may_apply(inner)
                inner = inner if applies else None
            elif not _applies_to_screen(prelude.lower()):
                inner = None
            layered |= prelude[:6].lower() == "@layer"
            opened.append((inner, [], layered))
            rules.append(opened[-1])
        else:
            pieces.append(text + ";")
            del opened[-1:]
    return [
        StyleRule(selectors, "".join(pieces), layered)
        for selectors, pieces, layered in rules
        if selectors and pieces and len(selectors) <= _MAX_SELECTOR
    ]  # fmt: skip


def _nest_selectors(outer: str, selectors: str) -> str:
    """Return the selectors of a rule that stands in another."""
    around = f":is({outer})"
    groups = _split_parts(tinycss2.parse_component_value_list(selectors[:_MAX_SELECTOR]))
    each = (tinycss2.serialize(group).strip() for group in groups)
    written = (one.replace("&", around) if "&" in one else f"{around} {one}" for one in each)
    return ",".join(written)[: _MAX_SELECTOR + 1]


def _applies_to_screen(prelude: str) -> bool:
    """Tell whether the rules in an at-rule apply."""
    if prelude.startswith("@media"):
        return matches_screen(prelude[len("@media") :])
    parts = tinycss2.parse_component_value_list(prelude)
    met = prelude.startswith("@supports") and _is_condition_met(parts[1:], _is_supported)
    return met or prelude.startswith("@layer")


def _is_supported(feature: list[Any]) -> bool:
    """Tell whether browsers know a property: in conditions stand only ones that some do not."""
    return re.match(_SUPPORTED, feature[0].serialize().removeprefix("-webkit-")) is not None


@lru_cache(1024)
def matches_screen(queries: str) -> bool:
    """Tell whether media queries, such as an empty list, hold for 1,280 by 720 pixels."""
    queries = "not all" if _NESTED.search(queries) else queries.lower()
    groups = _split_parts(tinycss2.parse_component_value_list(queries, skip_comments=True))
    return not queries.strip() or any(_is_condition_met(each, _matches_feature) for each in groups)


def _is_condition_met(parts: list[Any], test: Any) -> bool:
    """Tell whether a condition with `not`, `and` and `or` holds."""
    parts = [part for part in parts if part.type != "whitespace"][:200]
    words = [part.lower_value if part.type == "ident" else "" for part in parts]
    if words[:1] in (["not"], ["only"]):
        return _is_condition_met(parts[1:], test) == (words[0] == "only")
    for word, join in (("or", any), ("and", all)):
        if word in words:
            at = words.index(word)
            return join(_is_condition_met(each, test) for each in (parts[:at], parts[at + 1 :]))
    if not parts or parts[0].type != "() block":
        return not parts or words[0] in ("all", "screen") or parts[0].type == "function"
    inner = [part for part in parts[0].content if part.type != "whitespace"]
    grouped = inner and (inner[0].type == "() block" or inner[0].serialize().lower() == "not")
    return _is_condition_met(inner, test) if grouped else bool(inner) and bool(test(inner))


_FEATURES = {"width": 1280, "height": 720, "aspect-ratio": 16 / 9, "resolution": 1, "color": 8}
_FEATURES |= {"device-width": 1280, "device-pixel-ratio": 1, "grid": 0, "monochrome": 0}
_TRUE_FEATURES = frozenset(
    "width height color hover hover:hover any-hover:hover pointer pointer:fine any-pointer:fine"
    " orientation:landscape prefers-color-scheme prefers-color-scheme:light scripting update"
    " scripting:enabled prefers-reduced-motion:no-preference forced-colors:none update:fast"
    " prefers-contrast:no-preference prefers-reduced-transparency:no-preference aspect-ratio"
    " color-gamut color-gamut:srgb dynamic-range:standard overflow-block:scroll resolution"
    " overflow-inline:scroll overflow-block overflow-inline display-mode:browser".split()
)


def _matches_feature(parts: list[Any]) -> bool:
    """Tell whether a media feature holds: `min-width: 40em`, `400px <= width < 50em`, `hover`."""
    text = re.sub(r"\s*([<>=:/])\s*", r"\1", tinycss2.serialize(parts)).removeprefix("-webkit-")
    if bound := re.fullmatch(r"(min|max)-([a-z-]+):(.+)", text):
        text = f"{bound[2]}{'>=' if bound[1] == 'min' else '<='}{bound[3]}"
    sides = re.split(r"([<>]=?|[=:])", text)
    values = [_FEATURES.get(each, measure_value(each, False)) for each in sides[::2]]
    pairs = zip(values, sides[1::2], values[1:], strict=False)
    met = [None not in (a, b) and _OPERATORS[sign](a, b) for a, sign, b in pairs]
    return text in _TRUE_FEATURES or (all(met) and met != [])
