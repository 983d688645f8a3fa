"""The choice of the article, on pages written for the purpose."""

from itertools import product
from pathlib import Path

import pytest
from growth import AT_MOST, growth_of

import rookery
from rookery.browse.html_parser import read_html
from rookery.browse.page_reader import read_page
from rookery.browse.page_text import join_visible_text
from rookery.records import Page

PROSE = [
    f"Paragraph {number} tells how crows, ravens and jays remember faces, places, and gifts, and"
    " how long, as far as anyone has measured, such a memory lasts in each of them."
    for number in range(8)
]
BODY = "".join(f"<p>{text}</p>" for text in PROSE)
MENU = "".join(f'<li><a href="/{n}">Section {n} of the site</a></li>' for n in range(12))


def page(html: str) -> Page:
    return read_page(html.encode(), "https://example.org/a", "text/html")


@pytest.mark.parametrize(
    "furniture",
    [
        f"<nav><ul>{MENU}</ul></nav>",
        f"<div class=menu><ul>{MENU}</ul></div>",
        "<div class=sidebar><p>Subscribe to our letter, it is free, and read by many.</p></div>",
        "<div id=comments><p>First! I like crows, ravens, and everything with wings.</p></div>",
        "<footer>Copyright, all rights reserved, imprint, terms, and so on.</footer>",
        "<aside><p>An advert, for shoes, hats, and gloves, that nobody asked for.</p></aside>",
        "<div role=navigation>Home, news, sport, weather, travel and more</div>",
        "<form><p>Your name, please</p><input name=q><button>Send</button></form>",
        "<div class=share-bar>Share this with friends</div>",
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_furniture_is_left_out_and_still_in_the_full_view(furniture: str, inside: bool) -> None:
    html = f"<div class=post>{BODY}{furniture if inside else ''}</div>"
    found = page(f"<body>{'' if inside else furniture}<div>{html}</div></body>")
    assert join_visible_text(found) == "\n\n".join(PROSE)
    assert len(join_visible_text(found, full=True)) > len(join_visible_text(found)) + 10


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<div>", "</div>"),
        ("<article>", "</article>"),
        ("<main><section>", "</section></main>"),
        ("<table><tr><td>", "</td></tr></table>"),
        ("<div><div><div class=x>", "</div></div></div>"),
        ('<div class="sidebar-less main-column">', "</div>"),
    ],
)
def test_the_article_is_found_in_any_container(before: str, after: str) -> None:
    found = page(f"<body><div><ul>{MENU}</ul></div>{before}{BODY}{after}</body>")
    assert join_visible_text(found) == "\n\n".join(PROSE)


@pytest.mark.parametrize("joint", ["<br><br>", "</div><div>", "</div><div class=x>", "</p><p>"])
def test_paragraphs_need_not_be_p(joint: str) -> None:
    kind = "p" if "p>" in joint else "div"
    body = f"<div><{kind}>{joint.join(PROSE)}</{kind}></div>"
    found = page(f"<body><div><ul>{MENU}</ul></div>{body}</body>")
    assert join_visible_text(found) == "\n\n".join(PROSE)


def test_what_belongs_to_an_article_stays() -> None:
    kept = (
        "<h2>On memory</h2><ul><li>one, short<li>two, short</ul>"
        "<blockquote>They never forget.</blockquote>"
        "<table><thead><tr><th>Bird<th>Years</thead><tr><td>Crow<td>17</table>"
        "<pre>crow = 1</pre><figure><img src=c><figcaption>A crow.</figcaption></figure>"
    )
    found = join_visible_text(
        page(f"<div><ul>{MENU}</ul></div><div class=story>{BODY}{kept}{BODY}</div>")
    )
    for text in ("On memory", "one, short", "They never", "Bird | Years", "crow = 1", "A crow."):
        assert text in found, text
    assert "Section" not in found


def test_title_and_byline_are_not_repeated() -> None:
    head = "<title>How crows remember – The Site</title>"
    top = "<h1>How crows remember</h1><p class=byline>By A. Writer</p>"
    found = page(f"{head}<div>{top}{BODY}</div>")
    assert join_visible_text(found) == "\n\n".join(PROSE)
    assert "How crows remember\n\nBy A. Writer" in join_visible_text(found, full=True)


def test_a_sibling_paragraph_is_joined() -> None:
    lead = (
        "<p>A lead that stands before the story, long enough to be read as a part of it, it is.</p>"
    )
    found = page(f"<body><div><ul>{MENU}</ul></div><div>{lead}<div class=text>{BODY}</div></div>")
    assert join_visible_text(found).startswith("A lead that stands")


def test_an_unlikely_name_round_the_whole_article_is_forgiven() -> None:
    found = page(f"<body><div class=sponsor-popup>{BODY}</div></body>")
    assert join_visible_text(found) == "\n\n".join(PROSE)


def test_without_an_article_all_but_the_furniture_is_shown() -> None:
    found = page("<nav>Home</nav><div>Opening hours</div><div>9 to 5</div><footer>Imprint</footer>")
    assert join_visible_text(found) == "Opening hours\n\n9 to 5"
    assert join_visible_text(found, full=True) == "Home\n\nOpening hours\n\n9 to 5\n\nImprint"


def test_quotes_are_valid_from_both_views() -> None:
    found = page(f"<div><ul>{MENU}</ul></div><div>{BODY}</div>")
    article = {(block.start, block.end) for block in found.iter_article()}
    full = {(block.start, block.end) for block in found.iter_shown()}
    assert article < full
    assert [found.quote(*span).text for span in sorted(article)] == PROSE


def test_article_flags_divide_a_block_without_losing_text() -> None:
    html = (
        f"<div>{BODY}<p>Tail of it, with more<span class=share>Share!</span> of it, here.</p></div>"
    )
    found = page(html)
    assert "Share" not in join_visible_text(found)
    assert "Tail of it, with moreShare! of it, here." in join_visible_text(found, full=True)


def test_the_tree_is_consistent() -> None:
    tree = read_html(f"<div class=a><p id=b>x <a href=y>y</a></p><br>z</div><table><tr><td>{BODY}")
    size = len(tree.tags)
    for number in range(1, size):
        assert tree.parents[number] < number < tree.ends[number] <= size
        assert tree.ends[number] <= tree.ends[tree.parents[number]]
        assert 0 <= tree.starts[number] <= tree.stops[number] <= len(tree.text)
    assert sum(tree.own) == sum(len(text) for text in PROSE) + 3


def test_time_grows_with_the_page_and_not_with_its_square() -> None:
    text = "<div class=c>some, text, here, that is long enough"
    assert growth_of(lambda copies: page(text * copies), 1_000) < AT_MOST


def test_every_combination_of_wrappers_keeps_all_prose() -> None:
    for outer, inner in product(("div", "section", "main"), ("div", "article", "section")):
        found = page(f"<{outer}><{inner}>{BODY}</{inner}></{outer}>")
        assert join_visible_text(found) == "\n\n".join(PROSE), (outer, inner)


@pytest.mark.parametrize(
    ("markup", "is_furniture"),
    [
        ("<footer>{}</footer>", True),
        ("<div class='site-footer'>{}</div>", True),
        ("<div id=ftr>{}</div>", True),
        ("<aside class='sponsor'><p>{}</p></aside>", True),
        ("<div class='ad'><p>{}</p></div>", True),
        ("<div class='cookie-consent'><p>{}</p></div>", True),
        ("<div role='contentinfo'><p>{}</p></div>", True),
        ("<ol class='commentlist'><li><p>{}</p></li></ol>", False),
        ("<div class='social-comments'><p>{}</p></div>", False),
        ("<aside class='footnotes'><p>{}</p></aside>", False),
        ("<div class='shadow readable'><p>{}</p></div>", False),
    ],
)
def test_markup_tells_furniture_from_what_else_is_outside_the_article(
    markup: str, is_furniture: bool
) -> None:
    words = "Forty of them stood around a dead bird"
    found = page(f"<body><div><div>{BODY}</div></div>{markup.format(words)}</body>")
    (block,) = [each for each in found.blocks if found.text[each.start : each.end] == words]
    assert block.furniture is is_furniture
    assert all(not each.furniture for each in found.iter_article())


def test_an_element_that_holds_the_article_is_no_furniture() -> None:
    for markup in ("<div class='ads menu'>{}</div>", "<div role=dialog>{}</div>"):
        found = page(f"<body>{markup.format(f'<div class=post>{BODY}</div>')}</body>")
        assert not any(each.furniture for each in found.blocks)


def test_a_part_of_the_article_about_cookies_is_no_furniture() -> None:
    for markup in ("<h2 id=cookies>Cookies</h2>", "<section id=cookies><h2>Cookies</h2></section>"):
        found = page(f"<body><div class=post>{BODY}{markup}<p>{PROSE[0]}</p></div></body>")
        assert any(each.kind == "heading" for each in found.iter_article())
        assert not any(each.furniture for each in found.blocks), markup


def test_a_cookie_banner_that_was_taken_for_the_article_is_furniture() -> None:
    """As on the home page of the bundled magazine, all of which is its article."""
    path = Path(rookery.__file__).parent / "browse" / "corvids" / "index.html"
    found = read_page(path.read_bytes(), "https://example.org/", "text/html")
    furniture = [
        found.text[each.start : each.end] for each in found.iter_article() if each.furniture
    ]
    notice = "We use cookies to remember that you have seen this notice about cookies."
    assert furniture == [notice, "Cookie policy"]
