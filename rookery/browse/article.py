"""Which part of a page is its article: Readability's rules over a flat tree.

The rules are those that Mozilla documents for its reader view (drop unlikely elements, score
paragraphs by commas and length, hand scores to ancestors, discount links, join siblings, clean,
try again with laxer rules). Knows the tree and its text; nothing of markup or of views.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import sub

import msgspec

from rookery.browse.clean import BLOCKS, HEADINGS, Cleaning, clear
from rookery.browse.tree import Tree

Span = tuple[int, int]


class ArticleRules(msgspec.Struct, frozen=True):
    """Thresholds, in characters of text unless said otherwise."""

    shortest_paragraph: int = 25
    enough: int = 500
    """an article shorter than this makes the laxer rules be tried"""
    least: int = 140
    """and one shorter than this is none: the whole page is shown without its furniture"""
    candidates: int = 5
    cleaned: int = 100_000
    """elements: beyond them nothing is cleaned, to bound the time"""


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
_COMMA = re.compile(",")
_OTHER_COMMAS = "،﹐︐︑⹁⸴⸲，"
_SENTENCE_END = re.compile(r"\.(?: |$)")

_SCORED = frozenset("section h2 h3 h4 h5 h6 p td pre".split())
_BASE = {"div": 5.0, "pre": 3.0, "td": 3.0, "blockquote": 3.0}
_BASE |= dict.fromkeys("address ol ul dl dd dt li form".split(), -3.0)
_BASE |= dict.fromkeys((*HEADINGS, "th"), -5.0)
_TITLES = frozenset(("h1", "h2"))
_FURNITURE = frozenset("nav footer aside form".split())
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
    r"colophon|copyright|foot|footer|ftr|menu|nav|navbar|navigation|share|sharing|sharedaddy|social|"
    r"related|recommend\w*)(?:$|[ _-])"
)


def article_of(tree: Tree, rules: ArticleRules = ArticleRules()) -> bytearray:
    """One byte for each piece of the tree's text: 1 where it belongs to the article view."""
    best: tuple[int, bytearray] = (0, bytearray(len(tree.pieces)))
    choice = Choice(tree, rules)
    for strip, weigh, clean in ((1, 1, 1), (0, 1, 1), (0, 0, 1), (0, 0, 0)):
        kept = choice.attempt(bool(strip), bool(weigh), bool(clean))
        best = max(best, (_size(tree, kept), kept), key=lambda found: found[0])
        if best[0] >= rules.enough:
            break
    return best[1] if best[0] >= rules.least else _without_furniture(tree)


def furniture_of(tree: Tree, kept: bytearray) -> bytearray:
    """One byte for each element of the tree: 1 where its markup says that it is furniture.

    `kept` is what `article_of` gave. An element that holds any of the article is none, but for
    adverts and cookie banners that were taken for a part of it.
    """
    furniture = bytearray(len(tree.tags))
    article = [start for start, is_kept in zip(tree.pieces, kept, strict=True) if is_kept]
    known: dict[str, int] = {}
    number, size = 0, len(tree.tags)
    while number < size:
        classes, written = tree.classes[number], tree.attributes[number]
        likely = known.get(classes)
        if likely is None:
            likely = known[classes] = _is_named_furniture(classes)
        if not likely and (
            tree.tags[number] in _NEVER_PROSE
            or (' role="' in written and _FURNITURE_ROLE.search(written))
        ):
            likely = 1
        start, stop, end = tree.starts[number], tree.stops[number], tree.ends[number]
        within = likely and bisect_left(article, stop) - bisect_left(article, start)
        if likely and (not within or (likely == 2 and 2 * within < len(article))):
            furniture[number:end] = b"\1" * (end - number)
            number = end
        else:
            number += 1
    return furniture


def _is_named_furniture(classes: str) -> int:
    """0 no, 1 yes by its class, 2 an advert or a cookie banner."""
    if "comment" in classes or not _FURNITURE_CLASS.search(classes):
        return 0
    return 1 + bool(_NOTICE_CLASS.search(classes))


def _size(tree: Tree, kept: bytearray) -> int:
    stops = tree.pieces[1:]
    stops.append(len(tree.text))
    return sum(compress(map(sub, stops, tree.pieces), kept))


def _without_furniture(tree: Tree) -> bytearray:
    keep = bytearray(b"\1") * len(tree.tags)
    for number, tag in enumerate(tree.tags):
        if tag in _FURNITURE:
            clear(keep, number, tree.ends[number])
    kept = bytearray(map(keep.__getitem__, tree.owners))
    return kept if any(kept) else bytearray(b"\1") * len(kept)


def _places_of_commas(text: str) -> list[int]:
    for other in _OTHER_COMMAS:
        if other in text:
            text = text.replace(other, ",")
    return [found.start() for found in _COMMA.finditer(text)]


def _has(words: Iterable[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 a generator would take twice the time of the whole attempt
        if word in text:
            return True
    return False


class Choice:
    """What every attempt at one page shares, and the state of the attempt under way."""

    def __init__(self, tree: Tree, rules: ArticleRules) -> None:
        self.tree = tree
        self.rules = rules
        self.unlikely: dict[str, bool] = {"": False}
        self.weights: dict[str, int] = {"": 0}
        self.bylines: dict[str, bool] = {"": False}
        self.protected = self.inside(frozenset(("table", "code")))
        self.runs_of: dict[int, list[int]] = {}
        for number, run in enumerate(tree.runs):
            self.runs_of.setdefault(run.box, []).append(number)
        # Spans nest, and a page chooses how deeply: nothing may count the same text twice.
        self.comma_places = _places_of_commas(tree.text)
        self.weigh = True

    def inside(self, tags: frozenset[str]) -> bytearray:
        """1 for each element that one of these tags encloses."""
        within = bytearray(len(self.tree.tags))
        for number, tag in enumerate(self.tree.tags):
            if tag in tags:
                size = self.tree.ends[number] - number - 1
                if not within[number]:
                    within[number + 1 : number + 1 + size] = b"\1" * size
        return within

    def attempt(self, strip: bool, weigh: bool, clean: bool) -> bytearray:
        self.weigh = weigh
        self.survivors(strip)
        self.measure()
        scores = self.score()
        roots, runs = self.choose(scores)
        keep = bytearray(len(self.tree.tags))
        for root in roots:
            keep[root : self.tree.ends[root]] = self.alive[root : self.tree.ends[root]]
        if sum(keep) <= self.rules.cleaned:
            Cleaning(self, keep, roots).run(clean)
        kept = bytearray(map(keep.__getitem__, self.tree.owners))
        for number in runs:
            first, stop = self.pieces_of(number)
            kept[first:stop] = b"\1" * (stop - first)
        return kept

    def pieces_of(self, run: int) -> Span:
        runs = self.tree.runs
        stop = runs[run + 1].first if run + 1 < len(runs) else len(self.tree.pieces)
        return runs[run].first, stop

    def span_of_run(self, run: int) -> Span:
        runs = self.tree.runs
        stop = runs[run + 1].start if run + 1 < len(runs) else len(self.tree.text)
        return runs[run].start, stop

    def commas(self, start: int, stop: int) -> int:
        """How many commas of any script stand in this span of the text."""
        return bisect_left(self.comma_places, stop) - bisect_left(self.comma_places, start)

    def weight(self, number: int) -> int:
        """Readability's class weight: 25 for a good word, less 25 for a bad one."""
        if not self.weigh:
            return 0
        classes = self.tree.classes[number]
        known = self.weights.get(classes)
        if known is None:
            bad = _has(_NEGATIVE, classes) or _HID.search(classes) is not None
            known = self.weights[classes] = 25 * _has(_POSITIVE, classes) - 25 * bad
        return known

    def survivors(self, strip: bool) -> None:
        """Leaves out bylines, the repeated title and, if asked, what is unlikely."""
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
        classes = self.tree.classes[number]
        known = self.unlikely.get(classes)
        if known is None:
            known = _has(_UNLIKELY, classes) and not _has(_LIKELY, classes)
            self.unlikely[classes] = known
        if known and tag not in ("a", "body", "html") and not self.protected[number]:
            return True
        return ' role="' in written and _ROLE.search(written) is not None

    def is_byline(self, number: int, written: str) -> bool:
        classes = self.tree.classes[number]
        known = self.bylines.get(classes)
        if known is None:
            known = self.bylines[classes] = _has(_BYLINE, classes)
        if known or ("author" in written and _AUTHORED.search(written)):
            return 0 < self.tree.stops[number] - self.tree.starts[number] < 100
        return False

    def repeats_title(self, number: int) -> bool:
        words = re.findall(r"\w+", self.tree.title.lower())
        text = self.tree.text[self.tree.starts[number] : self.tree.stops[number]][:2000]
        heading = re.findall(r"\w+", text.lower())
        if not words or not heading or len(heading) > 100:
            return False
        extra = [word for word in heading if word not in words]
        return 1 - len(" ".join(extra)) / len(" ".join(heading)) > 0.75

    def measure(self) -> None:
        """Sums of what is alive, from the leaves up: characters, links, blocks within."""
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
            if blocks[number] or tags[number] in BLOCKS:
                blocks[above] = 1
        for box, runs in self.runs_of.items():
            if any(tree.runs[run].after_breaks for run in runs):
                blocks[box] = 1

    def density(self, number: int) -> float:
        return self.links[number] / self.chars[number] if self.chars[number] else 0.0

    def is_wrapper(self, number: int) -> bool:
        """A div round one paragraph is that paragraph."""
        return (
            self.children[number] == 1
            and self.tree.tags[number] == "div"
            and self.tree.tags[self.only[number]] == "p"
            and self.tree.own[number] == 0
            and self.density(number) < 0.25
        )

    def is_paragraph(self, number: int) -> bool:
        """Also a div without a block in it."""
        tag = self.tree.tags[number]
        return tag == "p" or (tag == "div" and not self.blocks[number])

    def score(self) -> dict[int, float]:
        """The scores of the ancestors of all paragraphs, less the share of their links."""
        tree = self.tree
        tags, parents = tree.tags, tree.parents
        scores: dict[int, float] = {}
        for number in self.order:
            tag = tags[number]
            is_scored = tag in _SCORED or (tag == "div" and not self.blocks[number])
            if is_scored and self.chars[number] >= self.rules.shortest_paragraph:
                self.hand_up(scores, parents[number], tree.starts[number], tree.stops[number])
        for box, runs in self.runs_of.items():
            if self.alive[box] and self.blocks[box]:
                for run in runs:
                    if tags[box] == "div" or tree.runs[run].after_breaks:
                        self.hand_up(scores, box, *self.span_of_run(run))
        return {number: score * (1 - self.density(number)) for number, score in scores.items()}

    def hand_up(self, scores: dict[int, float], number: int, start: int, stop: int) -> None:
        """Gives the score of one paragraph to its parent, half to the next, and so on."""
        size = stop - start
        if size < self.rules.shortest_paragraph:
            return
        points = 2 + self.commas(start, stop) + min(size // 100, 3)
        level = 0
        while level < 5 and number > 1:
            if self.is_wrapper(number):
                number = self.tree.parents[number]
                continue
            if number not in scores:
                scores[number] = _BASE.get(self.tree.tags[number], 0.0) + self.weight(number)
            scores[number] += points / (level * 3 if level > 1 else level + 1)
            number = self.tree.parents[number]
            level += 1

    def choose(self, scores: dict[int, float]) -> tuple[list[int], list[int]]:
        """The elements, and the runs of text beside them, that make up the article."""
        ranked = sorted(scores, key=lambda number: -scores[number])[: self.rules.candidates]
        ranked = [number for number in ranked if self.alive[number]]
        if not ranked or self.tree.tags[ranked[0]] == "body":
            return [0], []
        top = self.common(ranked, scores)
        top = self.better_ancestor(top, scores)
        top = self.out_of_only_children(top)
        return self.with_siblings(top, scores)

    def ancestors(self, number: int) -> Iterator[int]:
        """Up to, and without, the body."""
        number = self.tree.parents[number]
        while number > 0 and self.tree.tags[number] not in ("body", "html"):
            yield number
            number = self.tree.parents[number]

    def common(self, ranked: list[int], scores: dict[int, float]) -> int:
        """An ancestor that three more candidates of nearly the same score share."""
        top = ranked[0]
        rivals = [
            set(self.ancestors(number))
            for number in ranked[1:]
            if scores[top] > 0 and scores[number] / scores[top] >= 0.75
        ]
        if len(rivals) >= 3:
            for above in self.ancestors(top):
                if sum(above in rival for rival in rivals) >= 3:
                    return above
        return top

    def better_ancestor(self, top: int, scores: dict[int, float]) -> int:
        if top not in scores:
            scores[top] = _BASE.get(self.tree.tags[top], 0.0) + self.weight(top)
        last = scores[top]
        for above in self.ancestors(top):
            if above not in scores:
                continue
            if scores[above] < scores[top] / 3:
                break
            if scores[above] > last:
                return above
            last = scores[above]
        return top

    def out_of_only_children(self, top: int) -> int:
        for above in self.ancestors(top):
            if self.children[above] != 1:
                break
            top = above
        return top

    def with_siblings(self, top: int, scores: dict[int, float]) -> tuple[list[int], list[int]]:
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
        return roots, [run for run in self.loose_runs(above) if self.run_reads_on(run)]

    def loose_runs(self, box: int) -> list[int]:
        return self.runs_of.get(box, []) if self.tree.tags[box] == "div" else []

    def reads_on(self, number: int) -> bool:
        """A paragraph beside the article that reads like part of it."""
        if not self.is_paragraph(number) and not self.is_wrapper(number):
            return False
        text = self.tree.text[self.tree.starts[number] : self.tree.stops[number]].strip()
        return _reads_on(text, self.density(number))

    def run_reads_on(self, run: int) -> bool:
        first, stop = self.pieces_of(run)
        if any(self.tree.linked[owner] for owner in self.tree.owners[first:stop]):
            return False
        start, stop = self.span_of_run(run)
        return _reads_on(self.tree.text[start:stop].strip(), 0.0)


def _reads_on(text: str, density: float) -> bool:
    if len(text) > 80:
        return density < 0.25
    return len(text) > 0 and density == 0 and _SENTENCE_END.search(text) is not None
