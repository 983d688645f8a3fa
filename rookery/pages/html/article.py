"""Choose the blocks of a page that are its article, and mark those that are furniture.

An article is first chosen and cleaned by the rules of Mozilla's Readability, on a flat tree. Its
choice is compared with wider ones; captions, bios, teasers and trailers go.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import accumulate, compress, pairwise
from operator import gt, mul, sub

import msgspec

from rookery.pages.html.html_tree import HtmlTree

_SHARED = re.compile(r"(?:\b|_)(?:share|sharedaddy)(?:\b|_)")
BLOCK_TAGS = frozenset("blockquote dl div img ol p pre table ul".split())
_TEXTISH = BLOCK_TAGS | {"span", "li", "td"}
HEADING_TAGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_COUNTED_AS = dict.fromkeys(HEADING_TAGS, "heading") | {"ul": "listed", "ol": "listed"}
_COUNTED_AS |= {"img": "img", "li": "li", "input": "input"}
_MEASURED = frozenset(("heading", "listed"))
"""what is counted in characters"""
NEVER_KEPT = frozenset("nav embed footer link aside input textarea select button".split())
_DATA = frozenset("caption col colgroup tfoot thead th".split())
_NEVER_UNLIKELY = frozenset("a body html dt dd".split()) | HEADING_TAGS


def clear_range(keep: bytearray, start: int, stop: int) -> None:
    """Set the flags keep[start:stop] to 0, unless the first of them is 0 already."""
    if keep[start]:
        keep[start:stop] = bytes(stop - start)


class ArticleCleaning:
    """Removes from a chosen article the elements that Readability removes, such as galleries and
    lists of links."""

    def __init__(self, choice: "ArticleChoice", keep: bytearray, roots: list[int]) -> None:
        self.choice = choice
        self.tree = choice.tree
        self.keep = keep
        self.roots = roots
        self.order = [number for number in choice.order if keep[number]]
        self.chars = choice.chars
        self.links = choice.links
        self.count_contents()

    def count_contents(self) -> None:
        """Fill `counts`: how many elements, or characters, of each kind lie inside each element."""
        tree, size = self.tree, len(self.tree.tags)
        names = "p img li input heading listed textish".split()
        self.counts = {name: [0] * size for name in names}
        p, textish, every = self.counts["p"], self.counts["textish"], tuple(self.counts.values())
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
            elif name := _COUNTED_AS.get(tag):
                self.counts[name][above] += chars if name in _MEASURED else 1
            if tag in _TEXTISH:
                textish[above] += chars

    def clean_article(self, conditionally: bool) -> None:
        """Remove from the chosen article what Readability removes, such as menus and share boxes.

        Forms, fieldsets, tables, `ul` lists and divs that look like furniture are removed only with
        `conditionally`.
        """
        tree = self.tree
        tables = (number for number in self.order if tree.tags[number] == "table")
        self.tables = sorted(filter(self.is_data, tables))
        self.data = frozenset(self.tables)
        self.in_data = bytearray(len(tree.tags))
        for number in self.data:
            size = tree.ends[number] - number - 1
            self.in_data[number + 1 : tree.ends[number]] = b"\1" * size
        if conditionally:
            self.clean_conditionally(frozenset(("form", "fieldset")))
        for number in reversed(self.order):
            if self.keep[number] and self.is_never_kept(number):
                self.drop_element(number)
        if conditionally:
            for tag in ("table", "ul", "div"):
                self.clean_conditionally(frozenset((tag,)))

    def is_never_kept(self, number: int) -> bool:
        """Return whether an element is removed whatever it holds.

        So are menus and fields by their tag, headings with a negative class weight, and short share
        boxes.
        """
        tree = self.tree
        tag, classes = tree.tags[number], tree.classes[number]
        if tag in NEVER_KEPT:
            return True
        if tag in ("h1", "h2"):
            return self.choice.class_weight(number) < 0
        return (
            "share" in classes
            and number not in self.roots
            and self.chars[number] < self.choice.rules.enough
            and _SHARED.search(classes) is not None
        )

    def clean_conditionally(self, tags: frozenset[str]) -> None:
        """Remove the elements with one of these tags that look like furniture (`is_furniture`)."""
        for number in reversed(self.order):
            tag = self.tree.tags[number]
            if tag in tags and self.keep[number] and self.is_furniture(number, tag):
                self.drop_element(number)

    def drop_element(self, number: int) -> None:
        """Drop an element with all inside from the article and from the counts of its ancestors."""
        tag, chars, links = self.tree.tags[number], self.chars[number], self.links[number]
        lost = {name: counted[number] for name, counted in self.counts.items()}
        if own := _COUNTED_AS.get(tag):
            lost[own] += chars if own in _MEASURED else 1
        lost["textish"] += chars if tag in _TEXTISH else 0
        above = self.tree.parents[number]
        while above > 0 and self.keep[above]:
            for name, amount in lost.items():
                self.counts[name][above] -= amount
            self.chars[above] -= chars
            self.links[above] -= links
            above = self.tree.parents[above]
        clear_range(self.keep, number, self.tree.ends[number])

    def is_furniture(self, number: int, tag: str) -> bool:
        """Return whether Readability would remove an element of this tag, such as a list of links.

        Never removed are divs that stand for a paragraph, and data tables with all inside and
        around them. Else an element of negative class weight always is, and one with fewer than 10
        commas if it has too many images, items, fields or links for its text, except a list that is
        a gallery.
        """
        tree, choice = self.tree, self.choice
        if tag == "div" and (not choice.blocks[number] or choice.is_wrapper(number)):
            return False
        if number in self.data or self.in_data[number] or self.has_data_table(number):
            return False
        weight = choice.class_weight(number)
        if weight < 0:
            return True
        if choice.count_commas(tree.starts[number], tree.stops[number]) >= 10:
            return False
        chars = self.chars[number]
        is_list = tag in ("ul", "ol") or (chars > 0 and self.counts["listed"][number] / chars > 0.9)
        gallery = is_list and self.is_gallery(number)
        return not gallery and self.is_shady(number, weight, chars, is_list)

    def is_shady(self, number: int, weight: int, chars: int, is_list: bool) -> bool:
        """Return whether an element has too many images, items, fields or links for its text.

        `weight` is its class weight, `chars` its characters; lists (`is_list`) are judged less
        strictly.
        """
        count = {name: counted[number] for name, counted in self.counts.items()}
        figure = self.is_in_figure(number)
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
                and chars < self.choice.rules.shortest_paragraph
                and (images == 0 or images > 2)
                and density > 0
            )
            or (not is_list and weight < 25 and density > 0.2)
            or (weight >= 25 and density > 0.5)
            or (images == 0 and count["textish"] == 0)
        )

    def is_gallery(self, number: int) -> bool:
        """Return whether a list has as many images as items, and no item with two elements in it.

        Such a list is content, although it looks like furniture.
        """
        tree = self.tree
        child = number + 1
        while child < tree.ends[number]:
            if self.choice.children[child] > 1:
                return False
            child = tree.ends[child]
        return self.counts["img"][number] == self.counts["li"][number] > 0

    def is_in_figure(self, number: int) -> bool:
        """Return whether one of the four nearest elements around this one is a figure."""
        for _ in range(4):
            number = self.tree.parents[number]
            if self.tree.tags[number] == "figure":
                return True
        return False

    def has_data_table(self, number: int) -> bool:
        """Return whether an element contains a table of data."""
        following = bisect_right(self.tables, number)
        return following < len(self.tables) and self.tables[following] < self.tree.ends[number]

    def is_data(self, number: int) -> bool:
        """Return whether a table holds data and is not there for the layout.

        Its markup decides, else its size.
        """
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


_DENSE_SCRIPT = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_DENSE_SHARE = 0.3
"""of the page's characters; the rest may be spaces, digits and addresses"""
_DENSITY = 0.4


class ArticleRules(msgspec.Struct, frozen=True):
    """Thresholds for choosing the article of a page, in characters of text unless said
    otherwise."""

    shortest_paragraph: int = 25
    shortest_prose: int = 60
    """a shorter block is no prose"""
    sure_paragraph: int = 80
    """a longer one beside the article belongs to it even with a few links"""
    point: int = 100
    """that give a paragraph one point, up to three"""
    enough: int = 500
    """an article shorter than this makes the laxer rules be tried"""
    least: int = 140
    """and one shorter than this is none on a page without prose, which is shown whole"""
    enough_text: float = 0.2
    """share of the text that a choice without any prose must hold"""
    enough_prose: float = 0.7
    """share of the page's prose that a narrower choice must hold"""
    candidates: int = 5
    cleaned: int = 100_000
    """elements: beyond them nothing is cleaned, to bound the time"""

    def fit_script(self, text: str) -> "ArticleRules":
        """Return the rules for a page with this text, with lower thresholds for dense scripts.

        Where Chinese, Japanese or Korean is written, two characters say what five say in an
        alphabet.
        """
        if text.isascii():
            return self
        sample = text[::8]  # an eighth tells the share, and takes an eighth of the time
        if sum(map(len, _DENSE_SCRIPT.findall(sample))) < _DENSE_SHARE * len(sample):
            return self
        names = "shortest_paragraph shortest_prose sure_paragraph point least".split()
        scaled = {name: round(_DENSITY * getattr(self, name)) for name in names}
        return msgspec.structs.replace(self, **scaled)


_UNLIKELY = (
    "-ad- ad-break agegate ai2html banner breadcrumbs combx comment community cover-wrap disqus"
    " extra footer gdpr header legends menu pager pagination popup related remark replies rss"
    " shoutbox sidebar skyscraper social sponsor supplemental yom-remote"
).split()
_LIKELY = "and article body column content main mathjax shadow".split()
_POSITIVE = (
    "article blog body content entry h-entry hentry main page pagination post story text"
).split()
_NEGATIVE = (
    "-ad- banner combx comment com- contact footer gdpr hidden masthead media meta outbrain promo"
    " related scroll share shopping shoutbox sidebar skyscraper sponsor tags widget"
).split()
_HID = re.compile(r"(?:^| )hid(?:$| )")
_BYLINE = "byline author dateline writtenby".split()
_ROLE = re.compile(
    r' role="(?:menu|menubar|complementary|navigation|alert|alertdialog|dialog)"', re.IGNORECASE
)
_AUTHORED = re.compile(r' (?:rel="author"|itemprop="[^"]*author)')
_OTHER_COMMAS = "،﹐︐︑⹁⸴⸲，"
_SENTENCE_END = re.compile(r"\.(?: |$)|[。！？]")

_SCORED = frozenset("section h2 h3 h4 h5 h6 p td pre".split())
_BASE = {"div": 5.0, "pre": 3.0, "td": 3.0, "blockquote": 3.0}
_BASE |= dict.fromkeys("address ol ul dl dd dt li form".split(), -3.0)
_BASE |= dict.fromkeys((*HEADING_TAGS, "th"), -5.0)
_TITLES = frozenset(("h1", "h2"))
EMBEDDED_CLASS = re.compile(
    r"(?:^|[ _-])(?:embed\w*|tweet|twitter-tweet|instagram-media)(?:$|[ _-])"
)


def choose_by_readability(tree: HtmlTree, rules: ArticleRules) -> bytearray:
    """Choose the article by Readability's rules, then by laxer ones; return a flag for each piece.

    Laxer rules are tried until the article has `rules.enough` characters; the longest is returned.
    """
    longest, best = 0, bytearray(len(tree.pieces))
    choice = ArticleChoice(tree, rules)
    for strip, weigh, clean in ((1, 1, 1), (0, 1, 1), (0, 0, 1), (0, 0, 0)):
        chosen = choice.choose_once(bool(strip), bool(weigh), bool(clean))
        if (size := count_kept_characters(tree, chosen)) > longest:
            longest, best = size, chosen
        if longest >= rules.enough:
            break
    return best


def count_kept_characters(tree: HtmlTree, chosen: bytearray) -> int:
    """Return the number of characters of the pieces that are flagged."""
    stops = tree.pieces[1:]
    stops.append(len(tree.text))
    return sum(compress(map(sub, stops, tree.pieces), chosen))


def _contains_any(words: Iterable[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 a generator would take twice the time of the whole attempt
        if word in text:
            return True
    return False


class ArticleChoice:
    """State of one attempt to choose the article of a page, and tables that all attempts share."""

    def __init__(self, tree: HtmlTree, rules: ArticleRules) -> None:
        self.tree = tree
        self.rules = rules
        self.unlikely: dict[str, bool] = {"": False}
        self.weights: dict[str, int] = {"": 0}
        self.bylines: dict[str, bool] = {"": False}
        self.protected = self.mark_inside(frozenset(("table", "code", "pre")))
        self.firsts = [*(run.first for run in tree.runs), len(tree.pieces)]
        self.starts = [*(run.start for run in tree.runs), len(tree.text)]
        self.runs_of: dict[int, list[int]] = {}
        for number, run in enumerate(tree.runs):
            self.runs_of.setdefault(run.box, []).append(number)
        # Spans nest, and a page chooses how deeply: nothing may count the same text twice.
        comma = "," if tree.text.isascii() else f"[,{_OTHER_COMMAS}]"
        self.comma_places = [match.start() for match in re.finditer(comma, tree.text)]
        self.weigh = True

    def mark_inside(self, tags: frozenset[str]) -> bytearray:
        """Return a flag for each element: 1 inside an element with one of these tags."""
        within = bytearray(len(self.tree.tags))
        for number, tag in enumerate(self.tree.tags):
            if tag in tags and not within[number]:
                size = self.tree.ends[number] - number - 1
                within[number + 1 : number + 1 + size] = b"\1" * size
        return within

    def choose_once(self, strip: bool, weigh: bool, clean: bool) -> bytearray:
        """Try once to choose the article; return a flag for each piece of text: 1 in the article.

        `strip` leaves out elements that are unlikely by class or role, `weigh` lets classes count
        in the scores, and `clean` removes lists, divs and tables that look like furniture.
        """
        self.weigh = weigh
        self.remove_unlikely(strip)
        self.measure_elements()
        scores = self.score_candidates()
        roots, runs = self.choose_elements(scores)
        keep = bytearray(len(self.tree.tags))
        for root in roots:
            keep[root : self.tree.ends[root]] = self.alive[root : self.tree.ends[root]]
        if sum(keep) <= self.rules.cleaned:
            ArticleCleaning(self, keep, roots).clean_article(clean)
        chosen = bytearray(map(keep.__getitem__, self.tree.owners))
        for number in runs:
            first, stop = self.firsts[number : number + 2]
            chosen[first:stop] = b"\1" * (stop - first)
        return chosen

    def count_commas(self, start: int, stop: int) -> int:
        """Return the number of commas of any script in a span of the text."""
        return bisect_left(self.comma_places, stop) - bisect_left(self.comma_places, start)

    def class_weight(self, number: int) -> int:
        """Return Readability's class weight: 25 for a good word in class or id, -25 for a bad one.

        Both together give 0, and so does every element while `weigh` is off.
        """
        if not self.weigh:
            return 0
        classes = self.tree.classes[number]
        weight = self.weights.get(classes)
        if weight is None:
            bad = _contains_any(_NEGATIVE, classes) or _HID.search(classes) is not None
            bad = bad and not EMBEDDED_CLASS.search(classes)
            weight = self.weights[classes] = 25 * _contains_any(_POSITIVE, classes) - 25 * bad
        return weight

    def remove_unlikely(self, strip: bool) -> None:
        """Leave out bylines, the repeated title and, with `strip`, unlikely elements.

        Sets `alive` (a flag for each element) and `order` (the numbers of those that remain).
        """
        tree = self.tree
        tags, ends, attributes = tree.tags, tree.ends, tree.attributes
        alive = self.alive = bytearray(len(tags))
        order = self.order = list[int]()
        byline = tree.author
        titled = False
        number, size = 0, len(tags)
        while number < size:
            tag, written = tags[number], attributes[number]
            if strip and written and self.is_unlikely(number, tag, written):
                number = ends[number]
            elif not titled and tag in _TITLES and self.repeats_title(number):
                titled = True
                number = ends[number]
            elif not byline and written and self.is_byline(number, written):
                byline = True
                number = ends[number]
            else:
                alive[number] = 1
                order.append(number)
                number += 1

    def is_unlikely(self, number: int, tag: str, written: str) -> bool:
        """Return whether an element is unlikely to be of the article, by its class or role.

        `written` holds its attributes. Inside tables and code its class does not count, nor that of
        a heading, a term or its definition: they stand or fall with what is around them.
        """
        classes = self.tree.classes[number]
        unlikely = self.unlikely.get(classes)
        if unlikely is None:
            unlikely = _contains_any(_UNLIKELY, classes) and not _contains_any(_LIKELY, classes)
            unlikely = unlikely and not EMBEDDED_CLASS.search(classes)
            self.unlikely[classes] = unlikely
        if unlikely and tag not in _NEVER_UNLIKELY and not self.protected[number]:
            return True
        return ' role="' in written and _ROLE.search(written) is not None

    def is_byline(self, number: int, written: str) -> bool:
        """Return whether an element names the author in fewer than 100 characters."""
        classes = self.tree.classes[number]
        known = self.bylines.get(classes)
        if known is None:
            known = self.bylines[classes] = _contains_any(_BYLINE, classes)
        if known or ("author" in written and _AUTHORED.search(written)):
            return 0 < self.tree.stops[number] - self.tree.starts[number] < 100
        return False

    def repeats_title(self, number: int) -> bool:
        """Return whether more than three quarters of a heading's words are in the page's title.

        Words are weighed by their characters.
        """
        words = re.findall(r"[^\W_]+", self.tree.title.lower())
        text = self.tree.text[self.tree.starts[number] : self.tree.stops[number]][:2000]
        heading = re.findall(r"[^\W_]+", text.lower())
        if not words or not heading or len(heading) > 100:
            return False
        extra = [word for word in heading if word not in words]
        return 1 - len(" ".join(extra)) / len(" ".join(heading)) > 0.75

    def measure_elements(self) -> None:
        """Sum the characters, links, blocks and children inside each remaining element."""
        tree, order = self.tree, self.order
        tags, parents = tree.tags, tree.parents
        chars = self.chars = tree.own.copy()
        links = self.links = tree.linked.copy()
        blocks = self.blocks = bytearray(len(tags))
        children = self.children = [0] * len(tags)
        only = self.only = [0] * len(tags)
        for number in reversed(order):
            above = parents[number]
            if number == 0:
                break
            chars[above] += chars[number]
            links[above] += links[number]
            children[above] += 1
            only[above] = number
            if blocks[number] or tags[number] in BLOCK_TAGS:
                blocks[above] = 1
        for box, runs in self.runs_of.items():
            if any(tree.runs[run].after_breaks for run in runs):
                blocks[box] = 1

    def link_density(self, number: int) -> float:
        """Return the share of an element's characters that are links."""
        return self.links[number] / self.chars[number] if self.chars[number] else 0.0

    def is_wrapper(self, number: int) -> bool:
        """Return whether an element is a div around a single paragraph with few links.

        It counts as that paragraph.
        """
        return (
            self.children[number] == 1
            and self.tree.tags[number] == "div"
            and self.tree.tags[self.only[number]] == "p"
            and self.tree.own[number] == 0
            and self.link_density(number) < 0.25
        )

    def is_paragraph(self, number: int) -> bool:
        """Return whether an element is a paragraph, or a div without a block inside."""
        tag = self.tree.tags[number]
        return tag == "p" or (tag == "div" and not self.blocks[number])

    def score_candidates(self) -> dict[int, float]:
        """Return the score of each ancestor of a paragraph, times 1 less the share of its links."""
        tree = self.tree
        tags, parents = tree.tags, tree.parents
        scores: dict[int, float] = {}
        for number in self.order:
            tag = tags[number]
            is_scored = tag in _SCORED or (tag == "div" and not self.blocks[number])
            if is_scored and self.chars[number] >= self.rules.shortest_paragraph:
                span = tree.starts[number], tree.stops[number]
                self.propagate_score(scores, parents[number], *span)
        for box, runs in self.runs_of.items():
            if self.alive[box] and self.blocks[box]:
                for run in runs:
                    if tags[box] == "div" or tree.runs[run].after_breaks:
                        self.propagate_score(scores, box, *self.starts[run : run + 2])
        return {number: score * (1 - self.link_density(number)) for number, score in scores.items()}

    def propagate_score(self, scores: dict[int, float], number: int, start: int, stop: int) -> None:
        """Add the points of the paragraph text[start:stop] to five elements, from `number` upwards.

        It has 2 points, 1 for each comma and 1 for each 100 characters, of these at most 3; a very
        short one has none. The first element gets them whole, the others a half, a sixth, a ninth
        and a twelfth. Wrappers are passed over, and an element without a score begins with that of
        its tag and class.
        """
        size = stop - start
        if size < self.rules.shortest_paragraph:
            return
        points = 2 + self.count_commas(start, stop) + min(size // self.rules.point, 3)
        level = 0
        while level < 5 and number > 1:
            if self.is_wrapper(number):
                number = self.tree.parents[number]
                continue
            if number not in scores:
                scores[number] = _BASE.get(self.tree.tags[number], 0.0) + self.class_weight(number)
            scores[number] += points / (level * 3 if level > 1 else level + 1)
            number = self.tree.parents[number]
            level += 1

    def choose_elements(self, scores: dict[int, float]) -> tuple[list[int], list[int]]:
        """Return the elements, and the runs of text beside them, that make up the article.

        These are the candidate with the best score, or an ancestor that fits better, and siblings
        that belong to it; the whole page where there is no candidate or the best is the body.
        """
        ranked = sorted(scores, key=lambda number: -scores[number])[: self.rules.candidates]
        ranked = [number for number in ranked if self.alive[number]]
        if not ranked or self.tree.tags[ranked[0]] == "body":
            return [0], []
        top = self.find_common_ancestor(ranked, scores)
        top = self.find_better_ancestor(top, scores)
        top = self.unwrap_only_children(top)
        return self.add_siblings(top, scores)

    def iter_ancestors(self, number: int) -> Iterator[int]:
        """Yield the elements around this one, up to but without the body."""
        number = self.tree.parents[number]
        while number > 0 and self.tree.tags[number] not in ("body", "html"):
            yield number
            number = self.tree.parents[number]

    def find_common_ancestor(self, ranked: list[int], scores: dict[int, float]) -> int:
        """Return the nearest ancestor of the best candidate that holds three others; else the best.

        Only candidates with three quarters of its score or more count.
        """
        top = ranked[0]
        near = (n for n in ranked[1:] if scores[top] > 0 and scores[n] / scores[top] >= 0.75)
        rivals = [set(self.iter_ancestors(number)) for number in near]
        if len(rivals) >= 3:
            for above in self.iter_ancestors(top):
                if sum(above in rival for rival in rivals) >= 3:
                    return above
        return top

    def find_better_ancestor(self, top: int, scores: dict[int, float]) -> int:
        """Return the nearest ancestor that scores more than the one below it, else the candidate.

        The search ends at an ancestor with less than a third of the candidate's score.
        """
        if top not in scores:
            scores[top] = _BASE.get(self.tree.tags[top], 0.0) + self.class_weight(top)
        last = scores[top]
        for above in self.iter_ancestors(top):
            if above not in scores:
                continue
            if scores[above] < scores[top] / 3:
                break
            if scores[above] > last:
                return above
            last = scores[above]
        return top

    def unwrap_only_children(self, top: int) -> int:
        """Return the outermost ancestor that holds no other element, else the candidate itself."""
        for above in self.iter_ancestors(top):
            if self.children[above] != 1:
                break
            top = above
        return top

    def add_siblings(self, top: int, scores: dict[int, float]) -> tuple[list[int], list[int]]:
        """Return the candidate with siblings, and runs of text beside it, that belong to it.

        Siblings belong to it by a good score or, like runs, by reading like a part of the article.
        """
        tree = self.tree
        best = scores.get(top, 0.0)
        threshold = max(10.0, best * 0.2)
        above = tree.parents[top]
        roots: list[int] = []
        number = above + 1
        while number < tree.ends[above]:
            if self.alive[number]:
                same = tree.classes[number] == tree.classes[top] != ""
                score = scores.get(number, float("-inf")) + (best * 0.2 if same else 0.0)
                if number == top or score >= threshold or self.reads_on(number):
                    roots.append(number)
            number = tree.ends[number]
        return roots, [run for run in self.find_loose_runs(above) if self.run_reads_on(run)]

    def find_loose_runs(self, box: int) -> list[int]:
        """Return the runs of text directly inside a div; none for another element."""
        return self.runs_of.get(box, []) if self.tree.tags[box] == "div" else []

    def reads_on(self, number: int) -> bool:
        """Return whether an element beside the article is a paragraph that reads like a part of it.

        It does if it is long with few links, or short without any and holds the end of a sentence.
        """
        if not self.is_paragraph(number) and not self.is_wrapper(number):
            return False
        text = self.tree.text[self.tree.starts[number] : self.tree.stops[number]].strip()
        return self.continues_article(text, self.link_density(number))

    def run_reads_on(self, run: int) -> bool:
        """Return whether a run of text beside the article reads like a part of it.

        It does if it has no links and is long or holds the end of a sentence.
        """
        first, stop = self.firsts[run : run + 2]
        if any(self.tree.linked[owner] for owner in self.tree.owners[first:stop]):
            return False
        start, stop = self.starts[run : run + 2]
        return self.continues_article(self.tree.text[start:stop].strip(), 0.0)

    def continues_article(self, text: str, density: float) -> bool:
        """Return whether a text with this share of links reads like a part of the article."""
        if len(text) > self.rules.sure_paragraph:
            return density < 0.25
        return len(text) > 0 and density == 0 and _SENTENCE_END.search(text) is not None


_NEVER_PROSE = frozenset("nav footer form dialog menu".split())
"""elements of furniture; an aside may hold footnotes"""
_FURNITURE_ROLE = re.compile(
    r' role="(?:navigation|contentinfo|banner|search|menu|menubar|alert|alertdialog|dialog)"',
    re.IGNORECASE,
)
_NOTICE_CLASS = re.compile(
    r"(?:^|[ _-])(?:cookies?[_-]?(?:banner|bar|consent|law|notice|popup)|gdpr|adsense|"
    r"advertisements?|consent[_-](?:banner|bar|notice|popup)|"
    r"ad[_-](?:banner|container|slot|unit))(?:$|[ _-])"
)
_FURNITURE_CLASS = re.compile(
    _NOTICE_CLASS.pattern + r"|(?:^|[ _-])(?:ads?|advert\w*|sponsor\w*|cookies?|consent|promo\w*|"
    r"outbrain|taboola|banner|popup|newsletter|subscri\w*|breadcrumbs?|pagination|pager|masthead|"
    r"colophon|copyright|foot|footer|ftr|menu|nav|navbar|navigation|share|sharing|sharedaddy|"
    r"social|related|recommend\w*|bylines?)(?:$|[ _-])"
)
_NEVER_COMMENT = frozenset("body html main a".split()) | HEADING_TAGS
_NEVER_TRIMMED = frozenset("body html article main a".split()) | HEADING_TAGS
_TRIMMED_CLASS = re.compile(
    r"(?:^|[ _-])(?:authors?|bio|biography|bylines?|vcard|contributors?|newsletters?|subscri\w*|"
    r"signup|cta|disclaimers?|copyright|captions?|credits?|tags|taglist|dateline|timestamp|"
    r"related\w*|recommend\w*|readmore|read-more|promo\w*|sponsor\w*|share|sharing|sharedaddy|"
    r"social|follow|gallery|carousel|slideshow|breadcrumbs?|pagination|pager|comments?|buttons?|"
    r"btn|ads?|advert\w*|sr-only|screen-reader-text|visually-hidden)(?:$|[ _-])"
    r"|(?:^| )sidebar(?:$| )"
)
_COMMENT_CLASS = re.compile(
    r"(?:^|(?=[ _-])(?<!\bhas)(?<!\bno)(?<!\bwith)[ _-])(?:"
    r"comments?(?:lists?|box|area|wrap|items?|section)?"
    r"(?![_-](?:open|closed|enabled|disabled|count|link))|repl(?:y|ies)|respond|disqus\w*|pinglun|"
    r"liuyan|huifu)(?:$|[ _-])"
)
"""of readers' comments, on Chinese pages also in Pinyin"""
_CODE = frozenset(("pre", "code"))
_BOXES = frozenset("div section article main".split())
_TRAILER = re.compile(
    r"\W*(?:read (?:more|also|next)|also read|related|see also|more (?:from|on|about|stories)|"
    r"recommended|you (?:may|might) also like|don.t miss|watch|listen|click here|sign up|subscribe|"
    r"follow (?:us|me|him|her|the)|share (?:this|on)|continue reading|get the)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\W*(?:(?:last )?(?:updated|published|posted)\b.*\d{4}|©|copyright\b|all rights reserved|"
    r"subscribe\b|sign up\b|share this\b|advertisement\b|\d+ min(?:ute)?s? read|"
    r"(?:photo|image|picture)s? ?(?:by|credits?|courtesy|source|:)\b)",
    re.IGNORECASE,
)
_PROSE_END = re.compile(r"[.!?…:;\"”»)](?:\s|$)|[。！？]")
_DENSE_PROSE_SIZE = 20
"""fewest characters of a block of prose in a script that writes words in few"""
_DENSE = re.compile(r"[。！？]")


class TextBlock(msgspec.Struct, gc=False):
    """Features of one block of the page's text that tell prose from teasers."""

    first: int
    """its first piece"""
    stop: int
    """one past its last piece"""
    size: int
    """characters"""
    prose: bool
    """a sentence's end, few links and enough characters, and no repetition of an earlier block"""
    links_only: bool
    box: str
    """tag of the innermost block-level element"""
    trailer: bool
    """it points elsewhere, as "Read more: …" does"""


def choose_article(tree: HtmlTree, rules: ArticleRules = ArticleRules()) -> bytearray:
    """Return a flag for each piece of the tree's text: 1 where it belongs to the article.

    Readability's choice is compared with wider ones: the longest `article`, the longest `main` and
    the whole page, all without furniture and comments. The narrowest that has `rules.enough_prose`
    of the whole page's prose is taken. A page with text always keeps some.
    """
    rules = rules.fit_script(tree.text)
    blocks = measure_blocks(tree, rules)
    for article in _iter_articles(tree, rules, blocks):
        in_article = article.copy()
        drop_trailers(blocks, in_article)
        for candidate in (in_article, article):
            if _holds_enough(tree, rules, blocks, candidate):
                return candidate
    return bytearray(b"\1") * len(tree.pieces)


def _iter_articles(
    tree: HtmlTree, rules: ArticleRules, blocks: list[TextBlock]
) -> Iterator[bytearray]:
    """Yield the article, then wider choices for where it turns out to hold next to nothing."""
    comments, trimmings = find_comments(tree), name_trimmings(tree)

    def clean_choice(in_article: bytearray) -> bytearray:
        posted = drop_comments(tree, rules, blocks, comments, in_article)
        return trim_article(tree, posted, trimmings)

    chosen = choose_by_readability(tree, rules)
    article = clean_choice(chosen)
    enough = rules.enough_prose * sum(block.size for block in blocks if block.prose)
    long = count_kept_characters(tree, article) >= rules.least
    if long and count_prose(blocks, article) >= enough > 0:
        yield article  # no wider choice can have so much more prose that it would be taken
    whole = _choose_without_furniture(tree, blocks)
    if not count_prose(blocks, chosen) and not count_prose(blocks, whole):
        whole = _choose_without_furniture(tree, blocks, most=0.5)
    whole = clean_choice(whole)
    yield _choose_narrowest(tree, rules, blocks, article, whole)
    yield whole
    yield trim_article(tree, bytearray(b"\1") * len(tree.pieces), trimmings)


def _holds_enough(
    tree: HtmlTree, rules: ArticleRules, blocks: list[TextBlock], in_article: bytearray
) -> bool:
    """Tell whether an article is more than what is left where all prose was taken for furniture."""
    if count_prose(blocks, in_article):
        return True
    prose = sum(block.size for block in blocks if block.prose)
    size = count_kept_characters(tree, in_article)
    return size > 0 and (prose < rules.enough or size >= rules.enough_text * len(tree.text))


def _choose_narrowest(
    tree: HtmlTree,
    rules: ArticleRules,
    blocks: list[TextBlock],
    chosen: bytearray,
    whole: bytearray,
) -> bytearray:
    enough = rules.enough_prose * count_prose(blocks, whole)
    if enough == 0:
        size = count_kept_characters(tree, chosen)
        share = 0.0 if count_prose(blocks, chosen) else rules.enough_text
        least = max(rules.least, share * count_kept_characters(tree, whole))
        return chosen if size >= least else whole
    if count_prose(blocks, chosen) >= enough:
        return chosen
    for tag, sign in (("article", ' itemprop="articlebody"'), ("main", ' role="main"')):
        in_article = _restrict_to_longest(tree, whole, tag, sign)
        if count_prose(blocks, in_article) >= enough:
            return in_article
    return whole


def find_comments(tree: HtmlTree) -> bytearray:
    """Return a flag for each piece of the tree's text: 1 in a reader's comment, by its class."""
    named = set(filter(_COMMENT_CLASS.search, set(tree.classes)))
    inside = bytearray(len(tree.tags))
    for number in _find_elements(tree, named, _CODE):
        # Inside code a class such as "comment" is the name of a colour.
        if tree.tags[number] not in _CODE and tree.tags[number] not in _NEVER_COMMENT:
            size = tree.ends[number] - number
            inside[number : number + size] = b"\1" * size
    return bytearray(map(inside.__getitem__, tree.owners))


def _find_elements(tree: HtmlTree, named: Container[str], tags: frozenset[str]) -> Iterator[int]:
    """Yield the elements of these classes or tags, in order, but none inside a `pre` or `code`."""
    # Most elements are neither, and this passes over them ten times as fast as a loop would.
    pairs = enumerate(zip(tree.classes, tree.tags, strict=True))
    elements = [number for number, (classes, tag) in pairs if classes in named or tag in tags]
    end = 0
    for number in elements:
        if number >= end:
            yield number
            end = tree.ends[number] if tree.tags[number] in _CODE else end


def drop_comments(
    tree: HtmlTree,
    rules: ArticleRules,
    blocks: list[TextBlock],
    comments: bytearray,
    in_article: bytearray,
) -> bytearray:
    """Return an article without the comments of its readers, unless they are what the page is for.

    They are where little prose is left without them, as in a forum, the posts of which often have
    the classes of comments. `in_article` itself stays as it is.
    """
    if not any(comments):
        return in_article
    rest = bytearray(map(gt, in_article, comments))
    prose, all_prose = count_prose(blocks, rest), count_prose(blocks, in_article)
    enough = prose >= rules.enough or (prose >= rules.least and prose > 0.3 * all_prose)
    return rest if enough else in_article


def name_trimmings(tree: HtmlTree) -> list[tuple[int, int]]:
    """Return the elements that their tag or class names as no part of an article, in order.

    Beside each stands 1, or 2 for an advert or a cookie banner.
    """
    named = _name_classes(tree, _is_named_trimming)
    return [
        (number, named.get(tree.classes[number], 1))
        for number in _find_elements(tree, named, _CODE | {"figcaption"})
        if (tree.tags[number] == "figcaption" or tree.classes[number] in named)
        and tree.tags[number] not in _NEVER_TRIMMED
    ]


def _name_classes(tree: HtmlTree, name: Callable[[str], int]) -> dict[str, int]:
    return {classes: kind for classes in set(tree.classes) if (kind := name(classes))}


def trim_article(
    tree: HtmlTree, in_article: bytearray, trimmings: list[tuple[int, int]]
) -> bytearray:
    """Return an article without what its markup names as no part of it, such as captions and bios.

    An element that holds a fifth of the article's characters stays, and a cookie banner or advert
    that holds nine tenths of the page's. Where more than half of the article would go, its markup
    means something else by these names, and all but notices stays. `in_article` itself stays as it
    is.
    """
    if not trimmings:
        return in_article
    stops = [*tree.pieces[1:], len(tree.text)]
    sums = [0, *accumulate(map(mul, in_article, map(sub, stops, tree.pieces)))]
    dropped = bytearray(len(tree.tags))
    position = 0
    for number, named in trimmings:
        if number < position:
            continue
        start, stop, end = tree.starts[number], tree.stops[number], tree.ends[number]
        first, last = bisect_left(tree.pieces, start), bisect_left(tree.pieces, stop)
        size, most = 5 * (sums[last] - sums[first]), sums[-1]
        if named == 2:
            size, most = 10 * (stop - start), 9 * len(tree.text)
        if size < most:
            dropped[number:end] = bytes((named,)) * (end - number)
            position = end
    outside = bytes(map(dropped.__getitem__, tree.owners))
    trimmed = bytearray(map(gt, in_article, outside))
    pairs = zip(in_article, outside, strict=True)
    rest = bytearray(is_kept and named != 2 for is_kept, named in pairs)
    enough = 2 * count_kept_characters(tree, trimmed) >= count_kept_characters(tree, rest)
    return trimmed if enough else rest


def _is_named_trimming(classes: str) -> int:
    """0 no, 1 yes by its class, 2 an advert or a cookie banner."""
    if _NOTICE_CLASS.search(classes):
        return 2
    return _TRIMMED_CLASS.search(classes) is not None and not EMBEDDED_CLASS.search(classes)


def measure_blocks(tree: HtmlTree, rules: ArticleRules = ArticleRules()) -> list[TextBlock]:
    """Return the blocks of the page's text with their features, in order, one for each of its runs.

    Of prose that stands on the page several times, only the first is marked as prose.
    """
    blocks: list[TextBlock] = []
    texts_before: set[str] = set()
    text, owners, own, linked = tree.text, tree.owners, tree.own, tree.linked
    bounds = [(run.first, run.start) for run in tree.runs] + [(len(tree.pieces), len(text))]
    for run, ((first, start), (stop, end)) in zip(tree.runs, pairwise(bounds), strict=True):
        size = end - start
        if stop - first == 1:
            chars, links = own[owners[first]], linked[owners[first]]
        else:
            inside = set(owners[first:stop])
            chars = sum(own[owner] for owner in inside)
            links = sum(linked[owner] for owner in inside)
        body = text[start:end] if size >= _DENSE_PROSE_SIZE else ""
        long = size >= rules.shortest_prose or _DENSE.search(body) is not None
        prose = long and links < 0.4 * chars and _PROSE_END.search(body) is not None
        trailer = (links > 0.3 * chars and _TRAILER.match(text, start, end) is not None) or (
            size < 80 and _LABEL.match(text, start, end) is not None
        )
        if prose:
            prose = body not in texts_before
            texts_before.add(body)
        blocks.append(
            TextBlock(first, stop, size, prose, links > 0.9 * chars, tree.tags[run.box], trailer)
        )
    return blocks


def drop_trailers(blocks: list[TextBlock], in_article: bytearray) -> None:
    """Clear the flags of the blocks that point elsewhere, in place, in an article with prose.

    Those are trailers, link-only blocks that are no paragraph, item or heading, and all link-only
    blocks behind its last prose.
    """
    prose = [block.first for block in blocks if block.prose and in_article[block.first]]
    if not prose:
        return
    last = prose[-1]
    for block in blocks:
        if block.trailer or (block.links_only and (block.first > last or block.box in _BOXES)):
            in_article[block.first : block.stop] = bytes(block.stop - block.first)


def count_prose(blocks: list[TextBlock], in_article: bytearray) -> int:
    """Return the number of characters of the blocks of prose that are kept."""
    return sum(block.size for block in blocks if block.prose and in_article[block.first])


def _restrict_to_longest(tree: HtmlTree, in_article: bytearray, name: str, sign: str) -> bytearray:
    """Return the flags that lie in the longest element of this tag or with this attribute, none if
    there is none."""
    numbers = [
        number
        for number, (tag, written) in enumerate(zip(tree.tags, tree.attributes, strict=True))
        if tag == name or sign in written.lower()
    ]
    longest = max(numbers, key=lambda number: tree.stops[number] - tree.starts[number], default=0)
    first = bisect_left(tree.pieces, tree.starts[longest])
    stop = bisect_left(tree.pieces, tree.stops[longest]) if longest else first
    return bytearray(first) + in_article[first:stop] + bytearray(len(in_article) - stop)


def find_furniture(tree: HtmlTree, in_article: bytearray) -> bytearray:
    """Return a flag for each element: 1 where its tag, role or class says that it is furniture.

    Furniture is navigation, adverts, cookie banners and the like, with all inside. `in_article` is
    what `choose_article` gave. An element that holds any of the article is none, except an advert
    or cookie banner that holds less than half of it.
    """
    furniture = bytearray(len(tree.tags))
    article = [start for start, is_kept in zip(tree.pieces, in_article, strict=True) if is_kept]
    position = 0
    for number, likely in _name_furniture(tree, _NEVER_PROSE):
        start, stop, end = tree.starts[number], tree.stops[number], tree.ends[number]
        within = bisect_left(article, stop) - bisect_left(article, start)
        if number >= position and (not within or (likely == 2 and 2 * within < len(article))):
            furniture[number:end] = b"\1" * (end - number)
            position = end
    return furniture


def _name_furniture(tree: HtmlTree, tags: frozenset[str]) -> list[tuple[int, int]]:
    """Return the elements that their tag, role or class names as furniture; beside each 1, or 2 for
    an advert or a cookie banner."""
    named = _name_classes(tree, _is_named_furniture)
    columns = zip(tree.classes, tree.tags, tree.attributes, strict=True)
    return [
        (number, named.get(classes, 1))
        for number, (classes, tag, written) in enumerate(columns)
        if classes in named
        or tag in tags
        or (' role="' in written and _FURNITURE_ROLE.search(written))
    ]


def _is_named_furniture(classes: str) -> int:
    """0 no, 1 yes by its class, 2 an advert or a cookie banner."""
    if "comment" in classes or not _FURNITURE_CLASS.search(classes):
        return 0
    if EMBEDDED_CLASS.search(classes):
        return 0
    return 1 + bool(_NOTICE_CLASS.search(classes))


def _choose_without_furniture(
    tree: HtmlTree, blocks: list[TextBlock], most: float = 1.0
) -> bytearray:
    """Flag all but the furniture; what holds more than this share of the page's prose is none, such
    as a form around the whole page."""
    keep = bytearray(b"\1") * len(tree.tags)
    prose = [block for block in blocks if block.prose]
    starts = [tree.pieces[block.first] for block in prose]
    sums = [0, *accumulate(block.size for block in prose)]
    for number, _ in _name_furniture(tree, _NEVER_PROSE | NEVER_KEPT):
        first, stop = (bisect_left(starts, at[number]) for at in (tree.starts, tree.stops))
        if sums[stop] - sums[first] <= most * sums[-1]:
            clear_range(keep, number, tree.ends[number])
    return bytearray(map(keep.__getitem__, tree.owners))
