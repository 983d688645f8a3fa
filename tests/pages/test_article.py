"""The choice of the article, on pages written for the purpose."""

from itertools import product
from pathlib import Path

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given, settings
from hypothesis import strategies as st

import rookery
from rookery.pages.html.html_parser import read_html
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
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
        "<pre>crow = 1</pre><figure><table><tr><td>Wing span<td>98 cm</table></figure>"
    )
    found = join_visible_text(
        page(f"<div><ul>{MENU}</ul></div><div class=story>{BODY}{kept}{BODY}</div>")
    )
    for text in ("On memory", "one, short", "They never", "Bird | Years", "crow = 1", "98 cm"):
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


@pytest.mark.slow
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


def test_a_cookie_banner_is_no_article_even_where_a_page_has_little_else() -> None:
    """As on the home page of the bundled magazine, all of which is its article."""
    path = Path(rookery.__file__).parent / "library" / "corvids" / "index.html"
    found = read_page(path.read_bytes(), "https://example.org/", "text/html")
    notice = "We use cookies to remember that you have seen this notice about cookies."
    (block,) = [each for each in found.blocks if found.text[each.start : each.end] == notice]
    assert block.furniture
    assert not block.article


def test_a_short_post_wins_over_a_long_cookie_banner() -> None:
    post = "I fed the crows today, and one of them brought me a button in return for it."
    banner = "<div class='cookie-notice'>" + "<p>We value, and store, what you do here.</p>" * 9
    found = page(f"<body>{banner}</div><div class=entry><p>{post}</p></div></body>")
    assert join_visible_text(found) == post


@pytest.mark.parametrize(
    "extra",
    [
        "<figure><img src=c><figcaption>A crow on a wall.</figcaption></figure>",
        "<div class='author-bio'><p>A. Writer keeps hens, bees, and a diary.</p></div>",
        "<p>Read more: <a href=/b>What jays do with acorns in winter</a></p>",
        "<div><a href=/c>Ravens of the Tower</a></div>",
        "<div class='newsletter-box'><p>Our letter, every week, in your box.</p></div>",
        "<p>© 2024 The Corvid Weekly</p>",
    ],
)
def test_what_stands_in_an_article_and_is_no_part_of_it_is_left_out(extra: str) -> None:
    found = page(f"<body><div class=post>{BODY}{extra}<p>And so it ends, with gifts.</p></div>")
    assert join_visible_text(found) == "\n\n".join([*PROSE, "And so it ends, with gifts."])


def test_a_caption_is_left_out_of_the_article_and_can_still_be_found() -> None:
    found = page(f"<div>{BODY}<figure><figcaption>A crow on a wall.</figcaption></figure></div>")
    (block,) = [each for each in found.blocks if each.kind == "caption"]
    assert (block.article, block.furniture) == (False, False)


def test_embedded_posts_stay() -> None:
    post = "They brought me a blue bead, and I do not know why, but I kept it."
    for classes in ("social-media-embed", "twitter-tweet", "related embed"):
        quoted = f"<blockquote class='{classes}'><p>{post}</p></blockquote>"
        found = page(f"<body><div class=post>{BODY}{quoted}{BODY.replace('Para', 'Apara')}</div>")
        assert post in join_visible_text(found), classes


def test_the_longer_part_of_an_article_in_parts_is_not_lost() -> None:
    """Readability takes one part where the others lie in containers of their own."""
    parts = "".join(
        f"<section><div><div><div><div>{BODY.replace('Paragraph', name)}</div></div></div></div>"
        "</section>"
        for name in ("First", "Second", "Third")
    )
    shown = join_visible_text(page(f"<body><nav>{MENU}</nav><main>{parts}</main></body>"))
    assert all(f"{name} 7 tells" in shown for name in ("First", "Second", "Third"))
    assert "Section" not in shown


def test_a_list_of_links_that_is_all_of_a_page_stays() -> None:
    found = page(f"<body><nav><a href=/>Home</a></nav><div><ul>{MENU}</ul></div></body>")
    assert "Section 11 of the site" in join_visible_text(found)


def test_bylines_are_furniture() -> None:
    found = page(f"<div class=post><p class=byline>By A. Writer · 18 March 2023</p>{BODY}</div>")
    assert found.blocks[0].furniture
    assert not found.blocks[0].article


def test_a_paragraph_that_is_said_twice_stays() -> None:
    """Settings of a manual have the same sentences below different headings."""
    note = "<p>It takes effect when the daemon is started again, and is off by default.</p>"
    found = page(f"<body><main>{BODY}<h3>Alpha</h3>{note}<h3>Beta</h3>{note}</main></body>")
    assert join_visible_text(found).count("It takes effect when the daemon") == 2


def test_markup_that_names_most_of_the_article_is_not_believed() -> None:
    gallery = "".join(
        f"<section class=gallery><p>{text} {text}</p></section>" for text in PROSE * 3
    )
    found = page(f"<body><div class=post>{gallery}</div></body>")
    assert join_visible_text(found).count(PROSE[0]) == 6


def test_comments_in_highlighted_code_stay() -> None:
    """Prism and highlight.js name the colour of a comment by a class that menus have, too."""
    for name in ("token comment", "hljs-comment", "comments"):
        code = f"<pre><span class='{name}'># never as root</span>\nfeed --all</pre>"
        for markup in (
            code,
            code.replace("<pre>", "<pre><code>").replace("</pre>", "</code></pre>"),
        ):
            found = page(f"<body><div class=post>{BODY}{markup}</div></body>")
            assert "# never as root" in join_visible_text(found)


def test_terms_and_headings_stay_whatever_their_classes_say() -> None:
    terms = "".join(
        f"<dt class='subheaders'>{term}</dt><dd class=remark><p>{text}</p></dd>"
        for term, text in zip(("Latency", "Traffic", "Errors"), PROSE, strict=False)
    )
    markup = f"<h2 class=subheaders>Four signals</h2><dl>{terms}</dl>"
    shown = join_visible_text(page(f"<body><div class=post>{BODY}{markup}</div></body>"))
    for words in ("Four signals", "Latency", "Traffic", "Errors"):
        assert words in shown


CHINESE = (
    "乌鸦会记住人的面孔，也会把这种记忆传给后代，研究者在西雅图做了十几年的实验。",
    "它们在冬天把坚果藏在地里,几个月之后还能找到其中的大部分,这让研究者十分惊讶。",
    "新喀里多尼亚的乌鸦会把树枝弯成钩子,从树洞里取出虫子来吃,年幼的乌鸦要学一年。",
)
CHINESE_COMMENTS = (
    "写得真好,我家门口也有几只乌鸦,每天早上都来要吃的,孩子们很喜欢它们。",
    "不同意楼上的说法,喜鹊比乌鸦聪明多了,它们还会认镜子里的自己呢。",
    "请问在哪里可以看到这些实验的视频?我想给学生们看看,谢谢作者的分享。",
)
KOREAN = (
    "까마귀는 사람의 얼굴을 기억하고, 그 기억을 새끼에게 물려준다.",
    "겨울에는 견과를 땅에 숨기고, 몇 달 뒤에도 대부분을 다시 찾아낸다.",
    "뉴칼레도니아의 까마귀는 나뭇가지를 구부려 갈고리를 만들어 쓴다.",
)
KOREAN_COMMENTS = (
    "잘 읽었습니다. 우리 집 앞에도 매일 아침 까마귀 몇 마리가 찾아와요.",
    "저는 까치가 더 똑똑하다고 생각해요. 거울 속의 자기 모습도 알아보니까요.",
)
COMMENTS = (
    "I have fed a pair of them for years, and one of them left me a key, and a button, last May.",
    "Magpies are cleverer than that, since they know themselves in a mirror, as a paper has shown.",
)


@pytest.mark.parametrize(
    ("texts", "comments"),
    [(CHINESE, CHINESE_COMMENTS), (KOREAN, KOREAN_COMMENTS), (PROSE[:3], COMMENTS)],
)
@pytest.mark.parametrize("name", ["comment-list", "commentlist", "comment_item", "pinglun"])
@pytest.mark.parametrize("inside", [False, True])
def test_comments_are_left_out_in_any_script(
    texts: tuple[str, ...], comments: tuple[str, ...], name: str, inside: bool
) -> None:
    body = "".join(f"<p>{text}</p>" for text in texts)
    said = "".join(f"<div class={name}><p>{text}</p></div>" for text in comments)
    post = (
        f"<article>{body}{said}</article>" if inside else f"<div class=post>{body}</div><p>{said}"
    )
    found = page(f"<meta charset=utf-8><nav><a href=/>Home</a></nav><div class=main>{post}</div>")
    assert join_visible_text(found) == "\n\n".join(texts)
    assert comments[0] in join_visible_text(found, full=True)


def test_the_posts_of_a_forum_stay_although_they_are_called_comments() -> None:
    posts = "".join(f"<div class=comment-body><p>{text}</p></div>" for text in PROSE)
    found = page(f"<body><h1>What do crows like?</h1><p>I wonder.</p><div>{posts}</div></body>")
    assert all(text in join_visible_text(found) for text in PROSE)


def test_a_short_chinese_article_beside_a_menu_is_chosen() -> None:
    menu = "".join(f"<li><a href=/{n}>第{n}类的新闻和图片</a></li>" for n in range(9))
    body = "".join(f"<p>{text}</p>" for text in CHINESE)
    found = page(f"<meta charset=utf-8><div><ul>{menu}</ul></div><div>{body}</div>")
    assert join_visible_text(found) == "\n\n".join(CHINESE)


NAMES = "footer banner promo related comments share ad-slot cookie-notice sidebar menu post x"
wrappers = st.lists(
    st.tuples(
        st.sampled_from("div section form nav aside footer article dialog li".split()),
        st.sampled_from(NAMES.split()),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(wrappers, min_size=1, max_size=4))
def test_a_page_with_paragraphs_never_keeps_none_of_them(
    sections: list[list[tuple[str, str]]],
) -> None:
    html = "<body><h1>Crows</h1><p>A page.</p>"
    texts = list[str]()
    for number, around in enumerate(sections):
        mine = [f"{number}. {text}" for text in PROSE[: 6 // len(sections) + 1]]
        texts += mine
        opened = "".join(f"<{tag} open class='{name}'>" for tag, name in around)
        closed = "".join(f"</{tag}>" for tag, _ in reversed(around))
        html += opened + "".join(f"<p>{text}</p>" for text in mine) + closed
    shown = join_visible_text(page(html))
    assert any(text in shown for text in texts)
