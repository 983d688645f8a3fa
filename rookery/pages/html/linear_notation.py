"""Write as characters what markup says by position: formulas, powers, fractions, quotations.

Also what styles add before and after elements, and the order that elements force on their letters.

The changes are made in the parsed page before its text is read, so that text, links and marks
share one set of offsets. The forms are those of the manual, "How structure stands in a page's
text": `x^2`, `H_2O`, `(a+b)/2`, `√(x+1)`, a footnote's number as `[1]`.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import tinycss2

from rookery.pages.html.html_tree import collapse_spaces
from rookery.pages.html.style_hiding import split_selectors, split_sheet

_TURNED = "bdo[dir], [style*=-override], [dir=rtl]"
"""elements that may show their letters in another order"""
_TEX_SCRIPTS = 'script[type^="math/tex"], script[type^="math/asciimath"]'
_MATH_CONTAINER = frozenset(("katex", "katex-display", "mwe-math-element", "mathjax", "math"))
_MAX_FORMULA_DEPTH = 60
"""elements; what is nested deeper is written as it stands, which bounds the recursion"""
_LONGEST_TERM = 100
"""characters of a raised text, and of what may stand in a fraction without parentheses"""
_MOST_RAISED = 300_000
"""characters in raised and lowered text of a page, those of nested ones counted for each"""
_NUMBER = r"\d+(?:[.,]\d+)*"
_SCRIPT = r"[\^_](?:[+−-]?\d+|\w|\([^()]*\))"
_EXPONENT = re.compile(rf"[+−-]?{_NUMBER}[+−-]?|[+−-]?\w|[^\w\s]|\([^()]*\)")
_SUBSCRIPT = re.compile(rf"{_NUMBER}|\w+|[^\w\s]|\([^()]*\)")
_FACTOR = re.compile(rf"[√∂∇Δ]?(?>{_NUMBER}|\w)(?:{_SCRIPT})*+|\([^()]*\)")
_BASE = re.compile(rf"[^\W\d_]+|\W|{_FACTOR.pattern}|[(\[{{|].*[)\]}}|]")
_PRODUCT = re.compile(rf"(?:[√∂∇Δ]?(?>{_NUMBER}|\w)(?:{_SCRIPT})*+)++|\([^()]*\)")
_SILENT_OPERATORS = str.maketrans("", "", "\u2061\u2062\u2063\u2064\u200b")
_SCRIPTED = re.compile(r"[\^_][\w+−-]+$")
_FRACTION = re.compile(r"(?:[^\s/()]+|\([^()]*\))/(?:[^\s/()]+|\([^()]*\))")
_FENCED_TWICE = re.compile(r"\(\(([^()]* choose [^()]*)\)\)")
_ACCENTS = {
    **dict.fromkeys("¯‾―ˉ_\u0304\u0305", ("\u0304", "overline")),
    **dict.fromkeys("^ˆ\u0302", ("\u0302", "hat")), "¨": ("\u0308", "ddot"),
    **dict.fromkeys("~˜\u0303", ("\u0303", "tilde")), **dict.fromkeys("→⃗", ("\u20d7", "vec")),
    **dict.fromkeys("˙.\u0307", ("\u0307", "dot")),
}  # fmt: skip
_PRIMES = frozenset("′″‴'*†°")


def write_notation(parser: Any) -> None:
    """Replace formulas, raised and lowered text and `<q>` of a parsed page by their linear form."""
    if parser.css_first(f"math, {_TEX_SCRIPTS}") is not None:
        _write_formulas(parser)
    characters = 0
    for node in parser.css("sup:not([hidden]), sub:not([hidden])"):
        if characters < _MOST_RAISED:
            characters += _write_script(node)
    for node in parser.css("q"):
        _write_quotation_marks(node)
    turned = {node.mem_id: node for node in parser.css(_TURNED)}
    for node in turned.values():
        attributes = node.attributes
        right = "rtl" in f"{attributes.get('dir')} {attributes.get('style')}".lower()
        if node.tag == "bdo" or attributes.get("dir") is None:
            _write_around(node, "\u202e" if right else "\u202d", "\u202c")
        elif node.tag in _INLINE and not any(
            unicodedata.bidirectional(letter) in ("R", "AL") for letter in node.text()
        ):
            _write_around(node, "\u2067", "\u2069")


def _write_around(node: Any, before: str, after: str) -> None:
    if node.child is None:
        node.insert_child(before)
    else:
        node.child.insert_before(before)
    node.insert_child(after)


# What styles add.

_MOST_GENERATED = 2_000
"""elements of a page that get text"""
_SIDE = re.compile(":(before|after)")
_PSEUDO = re.compile(r"(.*?)::?(before|after)", re.DOTALL)
_DYNAMIC = re.compile(r":(?!not|is|where|has|first|last|nth|only|empty|root)")
_TURNING = re.compile(r"unicode-bidi\s*:\s*(?:bidi|isolate)-override", re.IGNORECASE)
_ICON = re.compile(r"content\s*:\s*([\"'])\\[ef][0-9a-f]{3}\1", re.IGNORECASE)
_APART = re.compile("position|float|margin|padding")
"""properties that set generated text apart from the words beside it"""


def write_generated_text(parser: Any, sheets: Iterable[str]) -> None:
    """Write the words that the style sheets of a parsed page put before and after elements.

    Where they turn the letters of an element round, controls of text direction do so. Of two rules
    for one element the later counts. Signs without a letter or digit, counters and the values of
    attributes are left out.
    """
    rules = []
    for sheet in sheets:
        turns = "override" in sheet
        if not turns and "content" not in sheet:
            continue
        for rule in split_sheet(sheet, bool if turns else _SIDE.search):
            turning = turns and _TURNING.search(rule.body)
            text = _read_content(rule.body) if "content" in rule.body else None
            if turning or text is not None:
                for selector in split_selectors(rule.selectors):
                    match = _PSEUDO.fullmatch(selector)
                    if match and text is not None and not _DYNAMIC.search(match[1]):
                        rules.append((match[1], match[2], text))
                    elif turning and not _DYNAMIC.search(selector):
                        control = "\u202e" if "rtl" in rule.body else "\u202d"
                        rules += [(selector, "before", control), (selector, "after", "\u202c")]
    generated: dict[tuple[int, str], tuple[Any, str]] = {}
    for selector, side, text in rules if any(text for *_, text in rules) else ():
        try:
            nodes = parser.css(selector or "*")
        except Exception:
            continue
        for node in nodes[: _MOST_GENERATED - len(generated)]:
            if node.tag not in ("html", "head", "body", "img", "input", "br", "hr", "select"):
                generated[node.mem_id, side] = node, text
    for (_, side), (node, text) in generated.items():
        if text:
            _write_around(node, *((text, "") if side == "before" else ("", text)))


@lru_cache(4096)
def _read_content(body: str) -> str | None:
    """Return the words that declarations generate; empty where there are none, None where they
    declare no content."""
    if _ICON.search(body):
        return ""
    declared = {
        part.lower_name: [each for each in part.value if each.type not in ("whitespace", "comment")]
        for part in tinycss2.parse_blocks_contents(body)
        if part.type == "declaration"
    }
    if "content" not in declared:
        return None
    display = tinycss2.serialize(declared.get("display", [])).lower()
    if display == "none" or any(each.type != "string" for each in declared["content"]):
        return ""
    text = "".join(each.value for each in declared["content"])
    if not any(map(str.isalnum, text)):
        return ""
    apart = (display and not display.startswith("inline")) or any(map(_APART.match, declared))
    return f" {text} " if apart else text


# Formulas.


def _write_formulas(parser: Any) -> None:
    """Replace each formula by its linear form, and whatever else stands for it by nothing.

    KaTeX, MathJax and MediaWiki write a formula twice, as MathML and as pictures or positioned
    letters: the MathML is read.
    """
    for script in parser.css(_TEX_SCRIPTS):
        before = script.prev
        if before is None or "mathjax" not in _get_classes(before):
            script.replace_with(script.text())
        else:
            script.decompose()
    for preview in reversed(parser.css(".MathJax_Preview")):
        preview.decompose()
    for math in reversed(parser.css("math")):
        container, text = _find_container(math), linearize_formula(math)
        if container.parent is None or "hidden" in container.attributes:
            continue
        if container.tag != "math" and container.text()[-1:].isspace():
            text += " "  # in a page that was printed prettily, the space outside is moved in
        if text[:1].isdigit() and _get_text_before(container)[-1:].isdigit():
            text = f" {text}"  # a mixed number
        container.replace_with(text)


def _find_container(math: Any) -> Any:
    """Return the outermost element that holds one formula and nothing else."""
    container = above = math
    for _ in range(8):
        above = above.parent
        if above is None or above.tag in ("body", "p", "div", "td", "li"):
            break
        classes = _get_classes(above)
        if above.tag == "mjx-container" or not _MATH_CONTAINER.isdisjoint(classes.split()):
            container = above
    return container


def _get_classes(node: Any) -> str:
    return (node.attributes.get("class") or "").lower() if node.is_element_node else ""


def linearize_formula(math: Any) -> str:
    """Return the linear form of a `<math>` element, or its TeX where it holds no presentation."""
    text = collapse_spaces(_linearize_children(math, 0))
    if text:
        return _FENCED_TWICE.sub(r"(\1)", text)
    tex = math.css_first('annotation[encoding="application/x-tex"]')
    return collapse_spaces(tex.text() if tex else math.attributes.get("alttext") or "")


def _linearize_children(node: Any, depth: int) -> str:
    return _join_terms(_linearize_node(child, depth) for child in node.iter())


def _join_terms(terms: Iterable[str]) -> str:
    """Join the terms of a row; a space stands where two would read as one number or one word."""
    row = before = ""
    for term in terms:
        if row and term:
            if _FRACTION.fullmatch(before) and (term[0].isalnum() or term[0] in "(√"):
                row = f"{row[: -len(before)]}({before})"
            elif row[-1].isalpha() and _FRACTION.fullmatch(term):
                term = f"({term})"
            numbers = row[-1].isdigit() and term[0].isdigit()
            words = row[-1].isalnum() and _is_word(term[:2])
            ended = _is_word(before[-2:]) or _SCRIPTED.search(before)
            words = words or (ended is not None and bool(ended) and term[0].isalnum())
            if numbers or words or (row[-1] in ",;" and term[0] not in " ,;"):
                row += " "
        row += term
        before = term or before
    return row


def _is_word(letters: str) -> bool:
    return len(letters) > 1 and letters.isalpha()


def _linearize_node(node: Any, depth: int) -> str:
    """Return the linear form of one node of a formula."""
    if not node.is_element_node:
        return collapse_spaces(node.text_content or "") if node.is_text_node else ""
    tag = "none" if "hidden" in node.attributes else node.tag
    if tag in ("mi", "mn", "ms", "mtext", "mo") or depth > _MAX_FORMULA_DEPTH:
        text = node.text().translate(_SILENT_OPERATORS)
        return re.sub(r"\s+", " ", text) if tag == "mtext" else collapse_spaces(text)
    if tag in ("annotation", "annotation-xml", "mphantom", "none", "mprescripts"):
        return ""
    if tag == "mspace":
        return " "
    parts = [child for child in node.iter() if child.tag not in ("annotation", "annotation-xml")]
    if tag in ("semantics", "maction"):
        return _linearize_node(parts[0], depth + 1) if parts else ""
    if tag in _LAYOUTS and parts:
        return _LAYOUTS[tag](node, [_linearize_node(part, depth + 1) for part in parts])
    if tag == "mtable":
        aligned = (node.attributes.get("columnalign") or "").startswith("right")
        cells = ([_linearize_children(cell, depth + 1) for cell in row.iter()] for row in parts)
        rows = "; ".join(("" if aligned else ", ").join(row) for row in cells)
        return rows if aligned else f"[{rows}]"
    if tag == "mmultiscripts" and parts:
        return _linearize_multiscripts(parts, depth + 1)
    return _linearize_children(node, depth + 1)


def _linearize_fraction(node: Any, parts: list[str]) -> str:
    above, below = (*parts, "")[:2]
    if (node.attributes.get("linethickness") or "")[:1] == "0":
        return f"({above} choose {below})"
    return f"{_group_term(above, _PRODUCT)}/{_group_term(below, _FACTOR)}"


def _linearize_root(node: Any, parts: list[str]) -> str:
    if node.tag == "msqrt":
        return "√" + _group_term(_join_terms(parts), _FACTOR)
    base, index = (*parts, "")[:2]
    sign = {"": "√", "2": "√", "3": "∛", "4": "∜"}.get(index, f"√[{index}]")
    return sign + _group_term(base, _FACTOR)


def _linearize_scripts(node: Any, parts: list[str]) -> str:
    base, first, second = (*parts, "", "")[:3]
    base = _group_term(base, _BASE)
    if node.tag == "mover" and first in _ACCENTS:
        accent, name = _ACCENTS[first]
        bare = parts[0]
        return "".join(letter + accent for letter in bare) if bare.isalnum() else f"{name}({bare})"
    if node.tag in ("msup", "mover"):
        return base + _format_script("^", first)
    return base + _format_script("_", first) + _format_script("^", second)


def _linearize_multiscripts(parts: list[Any], depth: int) -> str:
    """Return a base with scripts on both sides: pairs of a lowered and a raised one."""
    names = [part.tag for part in parts]
    cut = names.index("mprescripts") if "mprescripts" in names else len(parts)
    terms = [_linearize_node(part, depth) for part in parts]
    return _format_pairs(terms[cut + 1 :]) + terms[0] + _format_pairs(terms[1:cut])


def _format_pairs(scripts: list[str]) -> str:
    pairs = zip(scripts[::2], [*scripts[1::2], ""], strict=False)
    return "".join(_format_script("_", low) + _format_script("^", high) for low, high in pairs)


def _linearize_fenced(node: Any, parts: list[str]) -> str:
    opening, closing = (node.attributes.get(name) for name in ("open", "close"))
    separator = node.attributes.get("separators")
    joint = ", " if separator in (None, ",") else (separator or "")[:1]
    opening = "(" if opening is None else opening
    return opening + joint.join(parts) + (")" if closing is None else closing)


_LAYOUTS = {"mfrac": _linearize_fraction, "mfenced": _linearize_fenced}
_LAYOUTS |= dict.fromkeys(("msqrt", "mroot"), _linearize_root)
_LAYOUTS |= dict.fromkeys("msup msub msubsup mover munder munderover".split(), _linearize_scripts)


def _group_term(text: str, single: re.Pattern[str]) -> str:
    """Return a text in parentheses unless it reads as one already."""
    short = len(text) <= _LONGEST_TERM
    return text if not text or (short and single.fullmatch(text)) else f"({text})"


def _format_script(sign: str, text: str) -> str:
    """Return a raised (`^`) or lowered (`_`) text behind its base."""
    text = text.strip()
    if not text or (sign == "^" and _PRIMES.issuperset(text)):
        return text
    if sign == "^" and text == "∘":
        return "°"
    return sign + _group_term(text, _EXPONENT if sign == "^" else _SUBSCRIPT)


# Raised and lowered text of HTML.

_ORDINAL_ENDING = re.compile(r"(?:st|nd|rd|th|d|e|er|re|ère|ème|eme|o|a|os|as|do|to|mo|ers|es)\.?")
_ROMAN = re.compile(r"(?:^|\W)[IVXLCDM]+$")
_ABBREVIATIONS = re.compile(r"(?:^|\W)(?:M(?:mes?|lles?|gr|rs?|c|s)|[Nn]os?|Drs?|Sts?|Ste|Cie)\.?")
_MARKS_ALONE = re.compile(r"(?:[^\w+−∓±⁺⁻-]|_)+|TM|SM|®|\((?:R|TM|SM|c)\)|[Oo]")
_PHRASE = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}")
_NOTE = re.compile(r"\d{1,3}[a-z]?(?:\s?[,–-]\s?\d{1,3}[a-z]?)*")
_BEHIND_SENTENCE = '.,;:!?"”’»'
_NOTED_WORD = re.compile(
    r"[^\W\d_]{4,}$(?<!met(?:re|er)s)(?<!met(?:re|er))(?<!feet)(?<!inch)(?<!inches)(?<!mile)"
    r"(?<!miles)(?<!yards)(?<!yard)(?<!second)(?<!seconds)(?<!sinh)(?<!cosh)(?<!tanh)"
)
_ELEMENT = re.compile(r"[A-Z][a-z]?(?![a-z])")
_REFERENCE_ROLES = ("doc-noteref", "doc-biblioref")


def _write_script(node: Any) -> int:
    """Write a `<sup>` or `<sub>` in its linear form, in place or around what it holds.

    Returns how many characters it holds.
    """
    written = node.text()
    text = collapse_spaces(written)
    if not text or node.parent is None:
        return 1
    before, behind = _get_text_before(node), _get_text_behind(node)
    around = _choose_signs(node, text, before, behind)
    if all(child.is_text_node for child in node.iter(include_text=True)) and not node.id:
        node.replace_with(around[0] + (text if around[0] else written) + around[1])
        return len(written)
    if around[0]:
        node.insert_before(around[0])
    if around[1]:
        node.insert_after(around[1])
    return len(written)


def _choose_signs(node: Any, text: str, before: str, behind: str) -> tuple[str, str]:
    """Return what stands before and behind a raised or lowered text."""
    if len(text) > _LONGEST_TERM:
        return "", ""
    last = before[-1:]
    if node.tag == "sub":
        if before.strip() in ("/", "⁄") and text.isdigit():
            return "", ""  # the lower half of a fraction
        if _PHRASE.search(text) or not last or last.isspace() or text[0] in "[":
            return "", ""
        glued = text[-1].isalpha() and len(text) > 1 and behind[:1].isalpha()
        single = _SUBSCRIPT.fullmatch(text) and not glued
        return ("_", "") if single else ("_(", ")")
    if behind[:1] in ("/", "⁄") and text.isdigit():
        return (" ", "") if last.isdigit() else ("", "")  # the upper half of a fraction
    if _is_reference(node, text):
        return ("[", "]") if text[0].isalnum() else ("", "")
    return _choose_signs_of_raised(text, before, behind)


def _choose_signs_of_raised(text: str, before: str, behind: str) -> tuple[str, str]:
    """Return what stands around raised text that is no link."""
    last = before[-1:]
    if text[0] in "[:" or _PHRASE.search(text) or _MARKS_ALONE.fullmatch(text):
        return "", ""
    if _ABBREVIATIONS.fullmatch(before[-1:] + text) or (
        _ORDINAL_ENDING.fullmatch(text) and (last.isdigit() or _ROMAN.search(before))
    ):
        return "", ""
    if not last or last.isspace():
        if _ELEMENT.match(behind) and text.isdigit():
            return "^", ""  # an isotope
        return ("[", "]") if text.isdigit() else ("", "")
    if _NOTE.fullmatch(text) and (last in _BEHIND_SENTENCE or _NOTED_WORD.search(before)):
        return "[", "]"
    return ("^", "") if _EXPONENT.fullmatch(text) else ("^(", ")")


def _is_reference(node: Any, text: str) -> bool:
    """Tell whether raised text leads elsewhere as a whole, as the number of a note does."""
    if (node.attributes.get("role") or "") in _REFERENCE_ROLES:
        return True
    link = node.css_first("a[href]")
    if link is not None:
        return len(collapse_spaces(link.text())) * 2 >= len(text) or "," in text
    above = node.parent
    return above.tag == "a" and collapse_spaces(above.text()) == text


def _get_text_before(node: Any) -> str:
    """Return the end of the text before a node in its paragraph, looking out of inline elements."""
    for _ in range(4):
        before = node.prev
        if before is not None:
            text = before.text_content if before.is_text_node else _get_inline_text(before)
            return (text or "")[-40:]
        node = node.parent
        if node is None or node.tag not in _INLINE:
            break
    return ""


def _get_text_behind(node: Any) -> str:
    behind = node.next
    if behind is None:
        return ""
    text = behind.text_content if behind.is_text_node else _get_inline_text(behind)
    return (text or "")[:4]


_INLINE = frozenset("a b i em strong span font u var cite small sup sub code abbr mark q".split())


def _get_inline_text(node: Any) -> str:
    return node.text() if node.is_element_node and node.tag in _INLINE else ""


# Quotations.

_QUOTATION_MARKS = (("“", "”"), ("‘", "’"))
_OPENING_MARKS = frozenset("\"'“”‘’„‚«‹「『")


def _write_quotation_marks(node: Any) -> None:
    """Write the marks of a `<q>`, by turns double and single; none where the text has its own."""
    text = node.text().strip()
    if not text or text[0] in _OPENING_MARKS:
        return
    depth, above = 0, node.parent
    for _ in range(_MAX_FORMULA_DEPTH):
        if above is None or above.tag == "body":
            break
        depth += above.tag == "q"
        above = above.parent
    opening, closing = _QUOTATION_MARKS[depth % 2]
    node.insert_before(opening)
    node.insert_after(closing)
