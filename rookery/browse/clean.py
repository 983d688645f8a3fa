"""What Readability takes out of a chosen article: what does not read like one.

Knows the choice that it cleans; nothing of how it was made.
"""

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rookery.browse.article import Choice

_SHARED = re.compile(r"(?:\b|_)(?:share|sharedaddy)(?:\b|_)")
BLOCKS = frozenset("blockquote dl div img ol p pre table ul".split())
_TEXTISH = BLOCKS | {"span", "li", "td"}
HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_NEVER = frozenset("nav embed footer link aside input textarea select button".split())
_DATA = frozenset("caption col colgroup tfoot thead th".split())


def clear(keep: bytearray, start: int, stop: int) -> None:
    if keep[start]:
        keep[start:stop] = bytes(stop - start)


class Cleaning:
    """Takes out of a chosen article what does not read like one."""

    def __init__(self, choice: "Choice", keep: bytearray, roots: list[int]) -> None:
        self.choice = choice
        self.tree = choice.tree
        self.keep = keep
        self.roots = roots
        self.order = [number for number in choice.order if keep[number]]
        self.chars = choice.chars
        self.links = choice.links
        self.count()

    def count(self) -> None:
        """How much of each kind is in each element, from the leaves up."""
        tree, size = self.tree, len(self.tree.tags)
        names = "p img li input embed heading listed textish".split()
        self.counts = {name: [0] * size for name in names}
        p, img, li, inputs, embed, heading, listed, textish = self.counts.values()
        every = tuple(self.counts.values())
        for number in reversed(self.order):
            above, tag = tree.parents[number], tree.tags[number]
            chars = self.chars[number]
            if self.choice.blocks[number] and tag == "div":
                p[number] += len(self.choice.runs_of.get(number, ()))
                if tree.own[number]:
                    textish[number] += tree.own[number]
            for counted in every:
                if counted[number]:
                    counted[above] += counted[number]
            if self.choice.is_paragraph(number):
                p[above] += 1
            elif tag == "img":
                img[above] += 1
            elif tag == "li":
                li[above] += 1
            elif tag == "input":
                inputs[above] += 1
            elif tag in ("embed", "object", "iframe"):
                embed[above] += 1
            elif tag in HEADINGS:
                heading[above] += chars
            elif tag in ("ul", "ol"):
                listed[above] += chars
            if tag in _TEXTISH:
                textish[above] += chars

    def run(self, conditionally: bool) -> None:
        tree = self.tree
        self.data = frozenset(
            number for number in self.order if tree.tags[number] == "table" and self.is_data(number)
        )
        self.tables = sorted(self.data)
        self.in_data = bytearray(len(tree.tags))
        for number in self.data:
            size = tree.ends[number] - number - 1
            self.in_data[number + 1 : tree.ends[number]] = b"\1" * size
        if conditionally:
            self.conditionally(frozenset(("form", "fieldset")))
        for number in reversed(self.order):
            if self.keep[number] and self.never(number):
                self.drop(number)
        if conditionally:
            for tag in ("table", "ul", "div"):
                self.conditionally(frozenset((tag,)))

    def never(self, number: int) -> bool:
        tree = self.tree
        tag, classes = tree.tags[number], tree.classes[number]
        if tag in _NEVER:
            return True
        if tag in ("h1", "h2"):
            return self.choice.weight(number) < 0
        return (
            "share" in classes
            and number not in self.roots
            and self.chars[number] < self.choice.rules.enough
            and _SHARED.search(classes) is not None
        )

    def conditionally(self, tags: frozenset[str]) -> None:
        for number in reversed(self.order):
            tag = self.tree.tags[number]
            if tag in tags and self.keep[number] and self.is_furniture(number, tag):
                self.drop(number)

    def drop(self, number: int) -> None:
        """Takes an element out, and what it counted for out of all around it."""
        parents = self.tree.parents
        lost = [(counted, counted[number]) for counted in self.counts.values() if counted[number]]
        chars, links = self.chars[number], self.links[number]
        tag = self.tree.tags[number]
        above = parents[number]
        own = {"li": "li", "img": "img", "input": "input", "ul": "listed", "ol": "listed"}.get(tag)
        while above > 0 and self.keep[above]:
            for counted, amount in lost:
                counted[above] -= amount
            if own:
                self.counts[own][above] -= chars if own == "listed" else 1
            if tag in _TEXTISH:
                self.counts["textish"][above] -= chars
            if tag in HEADINGS:
                self.counts["heading"][above] -= chars
            self.chars[above] -= chars
            self.links[above] -= links
            above = parents[above]
        clear(self.keep, number, self.tree.ends[number])

    def is_furniture(self, number: int, tag: str) -> bool:
        """Readability's shadiness test: too many links, pictures, items or fields."""
        tree, choice = self.tree, self.choice
        if tag == "div" and (not choice.blocks[number] or choice.is_wrapper(number)):
            return False
        if number in self.data or self.in_data[number] or self.holds_data(number):
            return False
        weight = choice.weight(number)
        if weight < 0:
            return True
        if choice.commas(tree.starts[number], tree.stops[number]) >= 10:
            return False
        chars = self.chars[number]
        is_list = tag in ("ul", "ol") or (chars > 0 and self.counts["listed"][number] / chars > 0.9)
        return self.is_shady(number, weight, chars, is_list) and not (
            is_list and self.is_gallery(number)
        )

    def is_shady(self, number: int, weight: int, chars: int, is_list: bool) -> bool:
        count = {name: counted[number] for name, counted in self.counts.items()}
        figure = self.in_figure(number)
        density = self.links[number] / chars if chars else 0.0
        heading = count["heading"] / chars if chars else 0.0
        images, paragraphs = count["img"], count["p"]
        return (
            (not figure and images > 1 and paragraphs / images < 0.5)
            or (not is_list and count["li"] - 100 > paragraphs)
            or count["input"] > paragraphs // 3
            or (
                not is_list
                and not figure
                and heading < 0.9
                and chars < 25
                and (images == 0 or images > 2)
                and density > 0
            )
            or (not is_list and weight < 25 and density > 0.2)
            or (weight >= 25 and density > 0.5)
            or (images == 0 and count["textish"] == 0)
        )

    def is_gallery(self, number: int) -> bool:
        """A list with a picture an item and nothing nested is content after all."""
        tree = self.tree
        child = number + 1
        while child < tree.ends[number]:
            if self.choice.children[child] > 1:
                return False
            child = tree.ends[child]
        return self.counts["img"][number] == self.counts["li"][number] > 0

    def in_figure(self, number: int) -> bool:
        for _ in range(4):
            number = self.tree.parents[number]
            if self.tree.tags[number] == "figure":
                return True
        return False

    def holds_data(self, number: int) -> bool:
        following = bisect_right(self.tables, number)
        return following < len(self.tables) and self.tables[following] < self.tree.ends[number]

    def is_data(self, number: int) -> bool:
        """A table of data and not of layout, by its markup and then its size."""
        tree = self.tree
        written = tree.attributes[number].lower()
        if 'role="presentation"' in written or 'datatable="0"' in written:
            return False
        inside = tree.tags[number + 1 : tree.ends[number]]
        if ' summary="' in written or not _DATA.isdisjoint(inside):
            return True
        rows, cells = inside.count("tr"), inside.count("td")
        if "table" in inside or rows <= 1 or cells <= rows:
            return False
        return rows >= 10 or cells > 4 * rows or cells > 10
