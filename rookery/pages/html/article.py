"""Choose the blocks of a page that are its article, and mark those that are furniture.

Readability's choice is compared with wider ones; captions, bios, teasers and trailers go.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator
from itertools import accumulate, pairwise
from operator import gt, mul, sub

import msgspec

from rookery.pages.html.html_tree import HtmlTree
from rookery.pages.html.readability import (
    EMBEDDED_CLASS,
    HEADING_TAGS,
    NEVER_KEPT,
    ArticleRules,
    choose_by_readability,
    clear_range,
    count_kept_characters,
)

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
        return trim_article(
            tree, drop_comments(tree, rules, blocks, comments, in_article), trimmings
        )

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
    for is_container in (_is_article_element, _is_main_element):
        in_article = _restrict_to_longest(tree, whole, is_container)
        if count_prose(blocks, in_article) >= enough:
            return in_article
    return whole


def find_comments(tree: HtmlTree) -> bytearray:
    """Return a flag for each piece of the tree's text: 1 where a class says that it is a comment of
    a reader."""
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
    elements = [
        number
        for number, (classes, tag) in enumerate(zip(tree.classes, tree.tags, strict=True))
        if classes in named or tag in tags
    ]
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
    """Take out of an article the comments of its readers, unless they are what the page is for.

    They are where little prose is left without them, as in a forum, the posts of which often have
    the classes of comments.
    """
    if not any(comments):
        return in_article
    rest = bytearray(map(gt, in_article, comments))
    prose, all_prose = count_prose(blocks, rest), count_prose(blocks, in_article)
    enough = prose >= rules.enough or (prose >= rules.least and prose > 0.3 * all_prose)
    return rest if enough else in_article


def name_trimmings(tree: HtmlTree) -> list[tuple[int, int]]:
    """Return the elements that their tag or class names as no part of an article; beside each 1, or
    2 for an advert or a cookie banner."""
    named = {
        classes: kind for classes in set(tree.classes) if (kind := _is_named_trimming(classes))
    }
    return [
        (number, named.get(tree.classes[number], 1))
        for number in _find_elements(tree, named, _CODE | {"figcaption"})
        if (tree.tags[number] == "figcaption" or tree.classes[number] in named)
        and tree.tags[number] not in _NEVER_TRIMMED
    ]


def trim_article(
    tree: HtmlTree, in_article: bytearray, trimmings: list[tuple[int, int]]
) -> bytearray:
    """Take out of an article what its markup names as no part of it, such as captions and bios.

    An element that holds a fifth of the article's characters stays, and a cookie banner or advert
    that holds nine tenths of the page's. Where more than half of the article would go, its markup
    means something else by these names, and all but notices stays.
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
        if (
            10 * (stop - start) < 9 * len(tree.text)
            if named == 2
            else 5 * (sums[last] - sums[first]) < sums[-1]
        ):
            dropped[number:end] = bytes((named,)) * (end - number)
            position = end
    outside = bytes(map(dropped.__getitem__, tree.owners))
    trimmed = bytearray(map(gt, in_article, outside))
    rest = bytearray(
        is_kept and named != 2 for is_kept, named in zip(in_article, outside, strict=True)
    )
    enough = 2 * count_kept_characters(tree, trimmed) >= count_kept_characters(tree, rest)
    return trimmed if enough else rest


def _is_named_trimming(classes: str) -> int:
    """0 no, 1 yes by its class, 2 an advert or a cookie banner."""
    if _NOTICE_CLASS.search(classes):
        return 2
    return _TRIMMED_CLASS.search(classes) is not None and not EMBEDDED_CLASS.search(classes)


def measure_blocks(tree: HtmlTree, rules: ArticleRules = ArticleRules()) -> list[TextBlock]:
    """Return the blocks of the page's text."""
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
            if body in texts_before:
                prose = False
            texts_before.add(body)
        blocks.append(
            TextBlock(first, stop, size, prose, links > 0.9 * chars, tree.tags[run.box], trailer)
        )
    return blocks


def drop_trailers(blocks: list[TextBlock], in_article: bytearray) -> None:
    """Drop from an article with prose the blocks that point elsewhere.

    Those are trailers, link-only blocks that are no paragraph, item or heading, and all link-only
    blocks behind its last prose.
    """
    last = max(
        (block.first for block in blocks if block.prose and in_article[block.first]), default=-1
    )
    if last < 0:
        return
    for block in blocks:
        if block.trailer or (block.links_only and (block.first > last or block.box in _BOXES)):
            in_article[block.first : block.stop] = bytes(block.stop - block.first)


def count_prose(blocks: list[TextBlock], in_article: bytearray) -> int:
    """Return the characters of the blocks of prose that are kept."""
    return sum(block.size for block in blocks if block.prose and in_article[block.first])


def _is_article_element(tag: str, written: str) -> bool:
    return tag == "article" or ' itemprop="articlebody"' in written.lower()


def _is_main_element(tag: str, written: str) -> bool:
    return tag == "main" or ' role="main"' in written.lower()


def _restrict_to_longest(
    tree: HtmlTree, in_article: bytearray, is_container: Callable[[str, str], bool]
) -> bytearray:
    """Return the flags that lie in the longest element of a kind, none if there is none."""
    numbers = [
        number
        for number, (tag, written) in enumerate(zip(tree.tags, tree.attributes, strict=True))
        if is_container(tag, written)
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
    named = {
        classes: kind for classes in set(tree.classes) if (kind := _is_named_furniture(classes))
    }
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
