"""The HTML reader: verbatim text, blocks, links, marks, hidden text, hostile pages."""

import re

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import Failed
from rookery.pages.html.html_parser import (
    MAX_TAG_DEPTH,
    TAGS_WITHOUT_SCAN,
    drop_excess_attributes,
    simplify_markup,
)
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text, neutralize_text
from rookery.pages.passages import find_sentences
from rookery.records import Link, Page

URL = "https://example.org/dir/page.html"


def page(html: str | bytes, url: str = URL, content_type: str = "text/html") -> Page:
    data = html if isinstance(html, bytes) else html.encode()
    return read_page(data, url, content_type)


def texts(page: Page, kind: str = "") -> list[str]:
    return [page.text[b.start : b.end] for b in page.iter_shown() if kind in ("", b.kind)]


def linked(page: Page) -> list[tuple[str, str]]:
    return [(page.text[link.start : link.end], link.url) for link in page.links]


def outcome(data: bytes, url: str = URL, content_type: str = "text/html") -> str:
    with pytest.raises(Failed) as caught:
        read_page(data, url, content_type)
    return caught.value.failure.outcome


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Web<b>GPT</b>", "WebGPT"),
        ("<p>a<!-- -->b", "ab"),
        ("<p>caf<em>é</em>", "café"),
        ("<p><i>e</i>mail", "email"),
        ("<p>a\n  b\t<b> c</b>", "a b c"),
        ("<p>a <b>b</b> c", "a b c"),
        ("<p>a<b> </b>b", "a b"),
        ("<p>a\xa0\xa0b\u3000c", "a\xa0\xa0b\u3000c"),
        ("<p>\u200bso\u00adft 😀𝐀 【0†x】 ◼", "\u200bso\u00adft 😀𝐀 【0†x】 ◼"),
        ("<p>1. x_y *z* &lt;b&gt; &amp;amp; &quot;", '1. x_y *z* <b> &amp; "'),
        ("<p>H<sub>2</sub>O", "H_2O"),
        ("<p>a<br>b <br/> c", "a\nb\nc"),
        ("<p>a<br><br>b", "a\n\nb"),
        ("<p>a<wbr>b", "ab"),
        ("<div>a<p>b</p>c</div>", "a\n\nb\n\nc"),
        ("<p>a<svg><title>no</title><path/></svg>b", "ab"),
        ("<p>a<svg><title>no</title><text>yes</text></svg>b", "a\n\nyes\n\nb"),
        ("<p>a<script>no()</script>b<style>p{}</style>c", "abc"),
        ("<p>unclosed <b>bold <p>next", "unclosed bold\n\nnext"),
        ("<xmp>a <b>b</b></xmp>", "a <b>b</b>"),
        ('<p title="a<b>c > d">x', "x"),
        ("<p a<b='1'>x<b<c>y</b<c>z", "xyz"),
        ("<p>a<!-- <b>no</b> <!-- no -->b<!-->c<!--[if !IE]><!-->d", "abcd"),
        ("<p-->a</p--><div b-->c</div>", "a\n\nc"),
    ],
)
def test_text_is_what_the_nodes_say(html: str, text: str) -> None:
    assert page(html).text == text


def test_pre_keeps_indentation_and_blank_lines() -> None:
    found = page("<p>x</p><pre>\ndef f():\n    return <b>1</b>\n\n  # end\n</pre><p>y</p>")
    assert "def f():\n    return 1\n\n  # end" in found.text
    assert texts(found, "code") == ["def f():", "    return 1", "  # end"]
    assert join_visible_text(found) == "x\n\ndef f():\n    return 1\n\n  # end\n\ny"


PREFORMATTED = """<pre>
ROOKS

   The rook is a bird that lives in large colonies, and it
   eats grain and worms.  In winter it roosts with
   jackdaws.

colour    the colour of the bird in its first year
size      the size of the bird. Small ones are given

def find(rooks, colour):
    return [rook for rook in rooks if rook.colour == colour]

Installing the rook needs the package that is named here.
Removing the rook needs the package that is named there.
</pre>"""


def test_prose_in_pre_is_one_paragraph_with_its_sentences() -> None:
    found = page(PREFORMATTED)
    [prose] = texts(found, "paragraph")
    assert prose.startswith("The rook is a bird that lives in large colonies, and it\n   eats")
    assert prose.endswith("jackdaws.")
    assert [line.split()[0] for line in texts(found, "code")] == [
        *("ROOKS", "colour", "size", "def", "return", "Installing", "Removing")
    ]
    sentences = [found.text[slice(*each)] for each in find_sentences(found, 0, len(found.text))]
    assert "In winter it roosts with\n   jackdaws." in sentences
    assert "In winter it roosts with\n   jackdaws.\n\ncolour" in join_visible_text(found)


def test_blocks_have_kinds_and_levels() -> None:
    html = """<h1>Top</h1><h3>Sub</h3><p>Para</p><blockquote><p>Said</p></blockquote>
    <figure><img src=a alt="A crow"><figcaption>Cap</figcaption></figure>
    <ul><li>one<ol><li><p>two</p></ol><li>three</ul><dl><dt>t<dd>d</dl>"""
    found = [(b.kind, b.level) for b in page(html).iter_shown()]
    assert found == [
        ("heading", 1), ("heading", 3), ("paragraph", 0), ("quotation", 0), ("caption", 0),
        ("item", 1), ("item", 2), ("item", 1), ("item", 1), ("item", 1),
    ]  # fmt: skip


def test_rows_and_cells() -> None:
    html = "<p>x<table><tr><th>A<th>B<tr><td><p>1</p><td>2 3<tr><td><td>5</table><p>y"
    found = page(html)
    assert found.text == "x\n\nA\tB\n1\t2 3\n\t5\n\ny"
    assert texts(found, "cell") == ["A", "B", "1", "2 3", "5"]
    assert join_visible_text(found, full=True) == "x\n\nA | B\n1 | 2 3\n| 5\n\ny"


def test_nested_lists_stay_together() -> None:
    found = page("<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul><p>e</p>")
    assert join_visible_text(found, full=True) == "a\nb\nc\nd\n\ne"


def test_links_are_absolute_and_safe() -> None:
    html = """<base href="/other/"><p><a href="a.html?x=1&amp;y=2">one</a>
    <a href=" JavaScript:x()">js</a> <a href="java&#10;script:x()">js2</a>
    <a href="tel:1">t</a> <a href="data:text/html,x">d</a> <a href="ftp://x/">f</a>
    <a href="file:///etc/passwd">l</a> <a href="//cdn.example.com/b">two</a>
    <a href="http://[bad">bad</a> <a href=HTTPS://Example.org/Q>three</a> <a>none</a>
    <a href="../up/./x"><b>fo</b>ur</a> <a href="/r/../s">five</a> <a href="/plain">six</a>"""
    assert linked(page(html)) == [
        ("one", "https://example.org/other/a.html?x=1&y=2"),
        ("two", "https://cdn.example.com/b"),
        ("three", "HTTPS://Example.org/Q"),
        ("four", "https://example.org/up/x"),
        ("five", "https://example.org/s"),
        ("six", "https://example.org/plain"),
    ]


def test_file_links_only_from_files() -> None:
    html = '<p><a href="b.html">b</a> <a href="https://x.org/">x</a>'
    assert linked(page(html, "file:///home/a/a.html")) == [
        ("b", "file:///home/a/b.html"),
        ("x", "https://x.org/"),
    ]


def test_links_span_their_text_only() -> None:
    found = page("<p>see <a href=x> the page </a>now<p><a href=y>\n<em>next</em></a>")
    assert [text for text, _ in linked(found)] == ["the page", "next"]


def test_anchors_of_the_page_that_links_name() -> None:
    html = """<p><a href="#n1">1</a><h2 id=n1>Note</h2><p id=unused>x<p><a name="é"></a>y
    <a href="#%C3%A9">"""
    found = page(html)
    anchors = [
        (m.value, found.text[m.start : m.start + 4]) for m in found.marks if m.kind == "anchor"
    ]
    assert anchors == [("n1", "Note"), ("é", "y")]
    assert found.links[0] == Link(0, 1, f"{URL}#n1")


def test_images_are_marks_and_never_text() -> None:
    found = page('<p>a <img alt="A  &quot;crow&quot;" src=x> b<p><a href=/big><img src=y></a>c')
    assert found.text == "a b\n\nc"
    assert [(m.start, m.end, m.value) for m in found.marks] == [(1, 1, 'A "crow"'), (5, 5, "")]
    assert linked(found) == [("", "https://example.org/big")]


def test_links_and_anchors_stand_beside_what_is_written_for_structure() -> None:
    html = """<ol start=4><li id=n><a href="#n">four</a> x<sup>n+1</sup> <a href=/y>y</a></ol>
    <p>Said<sup><a href="#n">2</a></sup> <q><a href=/z>so</a></q>"""
    found = page(html)
    assert found.text == "4. four x^(n+1) y\n\nSaid[2] “so”"
    assert [text for text, _ in linked(found)] == ["four", "y", "2", "so"]
    assert [(m.start, m.value) for m in found.marks] == [(3, "n")]


def test_ruby_leaves_its_base_text_whole() -> None:
    found = page("<p>a<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>b")
    assert found.text == "a漢字b"
    marks = [(found.text[m.start : m.end], m.kind, m.value) for m in found.marks]
    assert marks == [("漢", "ruby", "かん"), ("字", "ruby", "じ")]


@pytest.mark.parametrize(
    "hiding",
    [
        "<span hidden>secret</span>",
        '<link rel=stylesheet href=a.css><span aria-hidden="true">secret</span>',
        '<span style="color:red; DISPLAY : none">secret</span>',
        '<span style="visibility:hidden">secret</span>',
        '<span class="x gone">secret</span>',
        '<span id="veil">secret</span>',
        "<noscript>secret</noscript>",
        "<template>secret</template>",
    ],
)
def test_hidden_text_is_kept_and_never_shown(hiding: str) -> None:
    style = "<style>.gone, #veil{display:none} @media print{.shown{display:none}}</style>"
    found = page(f'{style}<p class=shown>Be{hiding}fore <a href="/x">after</a></p>')
    assert found.text.startswith("Before after")
    hidden = [found.text[b.start : b.end] for b in found.blocks if b.hidden]
    assert hidden == ["secret"]
    assert "secret" not in join_visible_text(found) + join_visible_text(found, full=True)


def test_later_rules_that_show_a_class_win() -> None:
    found = page("<style>.a{display:none}.a{display:block}</style><p class=a>seen")
    assert join_visible_text(found, full=True) == "seen"


GENERATING = """.no::before{content:"not "} .day:after{content:" a day"}
.b::before{content:"\\201c"} .tag::before{content:"New";margin:2px} a:hover::after{content:"x"}
@media print{.print::before{content:"never "}} @media screen{.at::before{content:"at "}}
.n::before{content:counter(x) ". of"} .off::before{content:"gone"} .off::before{content:none}
.turn{unicode-bidi:bidi-override;direction:rtl}"""


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>It is <i class=no>dry</i>.", "It is not dry."),
        ("<p>4 l<i class=day></i>.", "4 l a day."),
        ("<p class=b>said", "said"),
        ("<p class=tag>Shoes", "New Shoes"),
        ("<p class=n>one <a>two</a> <b class=off>three</b>", "one two three"),
        ("<p class=print>locked <b class=at>noon</b>", "locked at noon"),
        ("<p>a <b class=turn>321</b> b", "a \u202e321\u202c b"),
        ("<p>a <bdo dir=rtl>321</bdo> b", "a \u202e321\u202c b"),
        ("<p>a <b style='unicode-bidi:bidi-override'>321</b> b", "a \u202d321\u202c b"),
        ("<p>a <span dir=rtl>20 – 25</span> b", "a \u206720 – 25\u2069 b"),
        ("<p dir=rtl>20 – 25 <span dir=rtl>ab שבת</span>", "20 – 25 ab שבת"),
    ],
)
def test_what_styles_add_and_turn_round_is_text(html: str, text: str) -> None:
    page = read_page(
        f"<style>{GENERATING}</style>{html}".encode(), "https://a.example/", "text/html"
    )
    assert page.text == text


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("<select>", "red"),
        ("<select size=1>", "red"),
        ("<select multiple>", "red blue green"),
        ("<select size=3>", "red blue green"),
    ],
)
def test_a_closed_list_shows_what_is_chosen(tag: str, shown: str) -> None:
    options = "<option>red<option>blue<option>green</select>"
    for chosen in ("red", "blue"):
        html = f"<p>Colour: {tag}{options.replace(f'>{chosen}', f' selected>{chosen}')}"
        page = read_page(html.encode(), "https://a.example/", "text/html")
        visible = " ".join(page.text[each.start : each.end] for each in page.iter_shown())
        assert visible == f"Colour: {shown.replace('red', chosen) if ' ' not in shown else shown}"


ROOT = "<div><template shadowrootmode=open>{}</template>{}</div>"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (ROOT.format("<p>In.", "Out."), "In."),
        (ROOT.format("<p>In.<p><slot></slot>", "Out."), "In.\n\nOut."),
        (ROOT.format("It is <slot></slot> dry", "not"), "It is not dry"),
        (ROOT.format("In <slot name=a></slot>", "<i slot=a>a</i><i slot=b>b</i>c"), "In a"),
        (ROOT.format("<slot>Own.</slot>", ""), "Own."),
        (ROOT.format("<slot>Own.</slot>", "Out."), "Out."),
        (ROOT.format("<p hidden><slot></slot></p>In.", "Out."), "In."),
        (ROOT.format("<style>.x{display:none}</style><p class=x>No.<p>In.", ""), "In."),
        (ROOT.format("<style>:host{display:none}</style>In.", ""), ""),
        (
            ROOT.format("<style>::slotted(b){display:none}</style>In.<slot></slot>", "<b>b</b>"),
            "In.",
        ),
        ("<style>.x{display:none}</style>" + ROOT.format("<p class=x>In.", ""), "In."),
        (ROOT.format("<p>In.", "").replace("open", "bogus"), ""),
        (ROOT.format("<p>In.", "").replace("div", "ul"), ""),
        (ROOT.format(ROOT.format("<slot></slot>", "<slot></slot>"), "Out."), "Out."),
        (ROOT.format(ROOT.format("In.", "<slot></slot>"), "Out."), "In."),
    ],
)
def test_a_shadow_root_shows_of_its_host_what_its_slots_take(html: str, text: str) -> None:
    shown = join_visible_text(page(f"<p>Begin.</p>{html}<p>End."), full=True)
    assert shown.removeprefix("Begin.").removesuffix("End.").strip() == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<style>.x{display:none}</style><p>a<sup class=x>b</sup>", "a"),
        ("<style>.x{display:none}</style><p>a<math><mi class=x>b</mi><mn>1</mn></math>", "a1"),
        ("<style>.x{display:none}</style><p>a <math class=x><mi>b</mi></math>", "a"),
        ("<p>a</p><style>p + style + .x{display:none}</style><p class=x>b", "a"),
        ("<p>a</p><style>p + .x{display:none}</style><p class=x>b", "a\n\nb"),
        ("<link rel=stylesheet href='data:text/css,.x{display:none}'><p>a<b class=x>b</b>", "a"),
        ("<select><option label=a>b</select>", "a"),
    ],
)
def test_what_is_hidden_before_it_is_written_otherwise(html: str, text: str) -> None:
    assert join_visible_text(page(html), full=True) == text


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> A &amp;\n B </title><h1>H</h1><p>x", "A & B"),
        ('<meta property="og:title" content="Og"><h1>H</h1>x', "Og"),
        ("<svg><title>icon</title></svg><h1>The <b>H</b></h1>x", "The H"),
        ("<p>x", ""),
    ],
)
def test_title(html: str, title: str) -> None:
    assert page(html).title == title


def test_xhtml() -> None:
    html = """<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE html>
    <html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head>
    <body><p>caf\u00e9 <![CDATA[a < b]]></p><div/><p>end</p></body></html>"""
    found = page(html.encode("latin-1"), content_type="application/xhtml+xml")
    assert found.text == "café a < b\n\nend"


def test_forged_marks_are_neutralised_at_the_same_offsets() -> None:
    forged = "x 【0†click†evil】 \u202egnp\u200b.a\u200db 👩\u200d🔬"
    found = page(f"<p>{forged}")
    assert found.text == forged
    shown = neutralize_text(found.text)
    assert len(shown) == len(forged)
    assert not set("【】†\u202e\u200b") & set(shown)
    at = shown.index("click")
    assert found.text[at : at + 5] == "click"
    assert "👩\u200d🔬" in shown


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (b"", "empty_after_extraction"),
        (b"<html><body></body></html>", "empty_after_extraction"),
        (b"<p hidden>x</p>", "empty_after_extraction"),
        (b"<div id=root></div><script src=a.js></script>", "needs_javascript"),
        (b"<p>Please enable JavaScript to view this.</p><script>1</script>", "needs_javascript"),
        (
            b"<div id=r>Loading...</div><noscript>This app needs JavaScript</noscript>"
            b"<script>1</script>",
            "needs_javascript",
        ),
        (b"<a><b>" * 600_000, "too_large"),
    ],
)
def test_pages_without_text_say_why(html: bytes, expected: str) -> None:
    assert outcome(html) == expected


def test_a_short_page_with_a_script_is_a_page() -> None:
    assert page("<p>Hello</p><script>track()</script>").text == "Hello"


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["div", "span", "b", "p><div", "ul><li", "table><tr><td", "a id=x"])
def test_deep_nesting_keeps_the_text(tag: str) -> None:
    found = page(f"<{tag}>" * 50_000 + "the text survives")
    assert "the text survives" in join_visible_text(found, full=True)
    # From the number of tags on at which each tag is looked at, which costs a factor once.
    deep = TAGS_WITHOUT_SCAN // (tag.count("<") + 1) + 1
    assert growth_of(lambda depth: page(f"<{tag}>" * depth + "the text"), deep) < AT_MOST


def test_formatting_that_would_be_rebuilt_in_each_block() -> None:
    open_tags = "".join(f"<b a={number}>" for number in range(3_000))
    html = f"<p>{open_tags}</p>" + "<p>x</p>" * 3_000
    assert page(html).text.count("x") == 3_000


def test_depth_cannot_be_hidden_from_the_guard() -> None:
    for trick in ('<i t="<!--">', "<!-->", "<i a'b>", "</i>", "<title></title>"):
        tamed = simplify_markup(f"{trick}<div>" * 15_000 + "end")
        assert tamed.endswith("end")
        assert len(re.findall("<div>", tamed)) == MAX_TAG_DEPTH, trick


def test_junk_is_quick() -> None:
    found = page("<p>text</p>" + "<" * 1_000_000)
    assert growth_of(lambda size: page("<p>text</p>" + "<" * size), 10_000) < AT_MOST
    assert found.text.count("<") == 1_000_000


def test_nul_and_surrogates() -> None:
    assert "b" in page(b"<p>a\x00b &#xD800; &#0; \xed\xa0\x80</p>").text


PIECES = st.sampled_from(
    ["<p>", "</p>", "<b>", "</b>", "<div class=x>", "</div>", "<br>", "<pre>", "</pre>", "<ul><li>",
     "<table><tr><td>", "</table>", "<a href=/x>", "</a>", "<a href=#i>", "<i id=i>",
     "<span hidden>", "<ol><li>", "<tr>", "<td rowspan=3 colspan=2>", "<th>", "<math>", "<mfrac>",
     "<msup>", "<mi>", "</math>", "<q>", "</q>", "<sub>", "<s>", "</s>", "<dialog>", "<svg><text>",
     '<span style="font-size:0">', "<iframe src=/f></iframe>", "<frame src=/g>",
     "</span>", "<sup>", "</sup>", "<img alt=y>", "<ruby>", "<rt>", "</ruby>", "<svg>", "</svg>",
     "<template>", "</template>", "<select><option>", "<!--", "-->", "<xmp>", "&amp;", " ", "\n",
     "word", "two words", "é", "\xa0", "<", ">", '"', "\x00"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40))
def test_any_tags_make_a_page_that_keeps_its_laws(pieces: list[str]) -> None:
    found = page("<p>begin</p>" + "".join(pieces))
    position = 0
    for block in found.blocks:
        assert position <= block.start < block.end <= len(found.text)
        assert not found.text[position : block.start].strip(" \t\n")
        position = block.end
    assert not found.text[position:].strip(" \t\n")
    spans = [(link.start, link.end) for link in found.links]
    for start, end in spans + [(mark.start, mark.end) for mark in found.marks]:
        assert 0 <= start <= end <= len(found.text)
    assert join_visible_text(found, full=True).startswith("begin")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60))
def test_escaped_text_comes_back_unchanged(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    found = page(f"<p>begin[<b>{escaped}</b>]end")
    assert found.text == re.sub("[ ]+", " ", f"begin[{text}]end")


@pytest.mark.parametrize("tag", ["meter", "progress", "canvas"])
def test_words_for_programs_that_do_not_know_an_element_are_hidden(tag: str) -> None:
    found = page(f"<p>seen <{tag}>never seen</{tag}> too")
    at = found.text.index("never")
    assert [each.hidden for each in found.blocks if each.start <= at < each.end] == [True]


MANY = " ".join(f"a{number}" for number in range(600))
FIRST = " ".join(f"a{number}" for number in range(512))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (f"<p {MANY}>x", f"<p {FIRST}>x"),
        (f"x</p {MANY}>", f"x</p {FIRST}>"),
        (f"<textarea {MANY}>x</textarea>", f"<textarea {FIRST}>x</textarea>"),
        (f"<!-- <p {MANY}> <b> -->x", f"<!-- <p {MANY}> <b> -->x"),
        (f"<textarea><p {MANY}></textarea>", f"<textarea><p {MANY}></textarea>"),
        (f"<p {MANY.replace(' ', '/')}>x", f"<p {FIRST.replace(' ', '/')}>x"),
        (f"<p {FIRST}>x", f"<p {FIRST}>x"),
        (f"x < {MANY}", f"x < {MANY}"),
    ],
)
def test_of_the_attributes_of_a_tag_512_are_kept(written: str, kept: str) -> None:
    assert drop_excess_attributes(written) == kept


@pytest.mark.parametrize("quote", ['"', "'"])
def test_signs_in_values_do_not_hide_a_crowded_tag(quote: str) -> None:
    written = [f"a{number} = {quote}>{quote}" for number in range(600)]
    assert drop_excess_attributes(f"<p {' '.join(written)}>x") == f"<p {' '.join(written[:512])}>x"


def test_attributes_of_one_tag_take_linear_time() -> None:
    def read(size: int) -> Page:
        return page(f"<p {' '.join(f'a{number}' for number in range(size))}>text")

    assert read(60_000).text == "text"
    assert growth_of(read, 5_000) < AT_MOST


def test_a_tag_named_like_a_comment_hides_nothing() -> None:
    assert page("<a<!--><a ><n>‹!").text == "‹!"
    text = "<p>one<a<!-- x>two</a<!-- x> three<!-- not > this --><b>four</b>"
    assert page(text).text == "onetwo threefour"


@pytest.mark.parametrize(
    ("html", "blocks", "view"),
    [
        ("<p>a<p>&nbsp;<p>\u3000<b>\u200b</b>\u2060<p>b", ["a", "b"], "a\n\nb"),
        (
            "<table><tr><td>a<td>b<tr><td>&nbsp;<td>\u2003<tr><td>c<td>&nbsp;<td>d</table>",
            ["a", "b", "c", "d"],
            "a | b\nc | | d",
        ),
        ("<p>a<br>&nbsp;<br>b", ["a", "b"], "a\n\nb"),
        ("<p>a<br>&nbsp;<b>b</b>", ["a\nb"], "a\nb"),
        ("<ol><li>a<li>&nbsp;<li>b</ol>", ["1. a", "3. b"], "1. a\n3. b"),
        ("<pre>a\n&nbsp;\nb</pre>", ["a", "b"], "a\n\xa0\nb"),
        ("<p>10&nbsp;<b>km</b>&nbsp;<i>far</i>", ["10\xa0km\xa0far"], "10\xa0km\xa0far"),
    ],
)
def test_spaces_that_show_nothing_begin_no_block(html: str, blocks: list[str], view: str) -> None:
    found = page(f"<meta charset=utf-8>{html}")
    assert texts(found) == blocks
    assert join_visible_text(found, full=True) == view
