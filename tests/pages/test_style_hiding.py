"""What style sheets hide: the cascade, media, what only begins unseen, and costly sheets."""

import pytest
from growth import AT_MOST, growth_of

from rookery.pages.html.style_hiding import is_hidden_by_style, matches_screen, parse_styles
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text


def read_visible(html: str) -> str:
    page = read_page(html.encode(), "https://example.org/a", "text/html")
    return join_visible_text(page, full=True)


@pytest.mark.parametrize(
    ("sheet", "markup", "hidden"),
    [
        (".a{display:none}", "<b class=a>", True),
        (".a{display:none}.a{display:inline}", "<b class=a>", False),
        (".a{display:inline}.a{display:none}", "<b class=a>", True),
        ("#i{display:inline}.a{display:none}", "<b id=i class=a>", False),
        ("#i{display:inline}.a{display:none!important}", "<b id=i class=a>", True),
        (".tab{display:none}.tab.on{display:block}", "<b class='tab on'>", False),
        (".tab{display:none}.tab.on{display:block}", "<b class=tab>", True),
        ("p > .a{display:none}", "<b class=a>", True),
        ("div > .a{display:none}", "<b class=a>", False),
        (".js .a{display:none}", "<b class=a>", False),
        (".a:hover{display:none}", "<b class=a>", False),
        (".a{display:none}", "<b class=a style='display:inline'>", False),
        ("@media print{.a{display:none}}", "<b class=a>", False),
        ("@media (max-width:600px){.a{display:none}}", "<b class=a>", False),
        (".a{display:none}@media (min-width:48em){.a{display:inline}}", "<b class=a>", False),
        ("@supports (display:grid){.a{display:none}}", "<b class=a>", True),
        ("@keyframes k{from{opacity:0}}", "<b class=from>", False),
        (".a{opacity:0}", "<b class=a>", True),
        (".a{opacity:0;transition:opacity 1s}", "<b class=a>", False),
        (".fade-in{opacity:0}", "<b class=fade-in>", False),
        (".a{opacity:.5}", "<b class=a>", False),
        (".a{max-height:0;overflow:hidden;display:block}", "<b class=a>", True),
        (".a{max-height:0;overflow:hidden;transition:max-height .3s}", "<b class=a>", False),
        (".a{height:0;overflow:hidden;padding-top:56%}", "<b class=a>", False),
        (".a{position:absolute;left:-9999px}", "<b class=a>", True),
        (".a{position:absolute;left:-20px}", "<b class=a>", False),
        (".a{position:absolute;clip:rect(0,0,0,0)}", "<b class=a>", True),
        (".a{transform:scale(0);float:left}", "<b class=a>", True),
        (".a{font-size:0}", "<b class=a>", True),
        (".a{color:#fff}", "<b class=a>", True),
        ("body{background:#123}.a{color:#fff}", "<b class=a>", False),
        (".a{color:transparent;background-clip:text}", "<b class=a>", False),
        (".md\\:x{display:none}", "<b class=md:x>", True),
        (".a{;;:}}}{display:none", "<b class=a>", False),
        ("/* .a{display:none} */", "<b class=a>", False),
    ],
)
def test_what_a_sheet_hides(sheet: str, markup: str, hidden: bool) -> None:
    text = read_visible(f"<style>{sheet}</style><p>Crows {markup}may</b> learn.")
    assert text == ("Crows learn." if hidden else "Crows may learn.")


@pytest.mark.parametrize(
    "style",
    """color:rgba(0,0,0,0) | color:hsl(0 0% 100%) | color:#fdfdfd | opacity:.01 | font-size:.1px
    | font-size:calc(1px*0) | transform:rotateX(90deg) | transform:translateX(-200vw) | scale:0
    | rotate:x 90deg | position:absolute;top:-99em | position:fixed;left:99999px | zoom:.001
    | filter:opacity(0) | mask:linear-gradient(#0000 0 0) | content-visibility:hidden
    | font-size:clamp(0px,0px,1em) | color:oklch(1 0 0) | color:lab(100 0 0 / .9)
    | display:/*x*/none | transform:rotateX(100grad) | transform:matrix(1,0,0,1,-4000,0)
    | position:fixed;bottom:1500px | position:absolute;inset:-4000px auto auto 0
    | position:absolute;right:2000px
    | text-indent:100%;white-space:pre;overflow:clip | height:0;padding-top:2em;overflow:hidden
    | --x:none;display:var(--x) | clip-path:inset(50%) | clip-path:polygon(0 0,0 0,0 0)
    | display:none;display:foo | display:n\\6f ne | background:#333;color:#333""".split(" | "),
)
def test_ways_to_hide_a_paragraph(style: str) -> None:
    style = " ".join(style.split())
    page = f"<style>.a{{{style}}}</style><h2>Crows learn from each other.</h2><p class=a>May."
    assert read_visible(page) == "Crows learn from each other."


@pytest.mark.parametrize(
    ("sheet", "markup", "hidden"),
    [
        (":is(p,div).q{display:none}", "<p class=q>", True),
        (":is(p,div).q{display:none}", "<p>", False),
        ("@supports (x:y){.q{display:none}}", "<p class=q>", False),
        (".q{dis\\70lay:none}", "<p class=q>", True),
        (".q{display:none!ie}", "<p class=q>", False),
        (".q{margin:0 0 0 -4000px}", "<p class=q>", True),
        (".q{margin:0 -4000px 0 0}", "<p class=q>", False),
        (".q{text-indent:100%;overflow:clip}", "<p class=q>", False),
        (".q{height:0;padding-top:2em;overflow:hidden}", "<div class=q><p>", False),
        (".q{background:#fff}.q p{position:relative;z-index:-1}", "<div class=q><p>", True),
        (".q p{position:relative;z-index:-1}", "<div class=q><p>", False),
        (".q{opacity:0.9;background:#fff}p{position:fixed;z-index:-1}", "<div class=q><p>", False),
        (".q{display:flex}", "<p class=q hidden>", False),
        (".q{color:red}", "<p class=q hidden>", True),
        (".q{transition:all 1s}", "<p class=q style='visibility:hidden'>", True),
        (":is(.o) b{display:none}", "<div class=o><p><b>", True),
        (".o > i b div>u em{display:none}", "<div class=o><i><b><div><u><p><em>", True),
        (".o > i b div>u em{display:none}", "<div class=o><i><b><u><div><p><em>", False),
        (".o i b u s{display:none}", "<i class=o><i><b><u><p><b><u><em>", False),
        (".n &gt; .q{display:none}", "<p class=q>", False),
        (":where(#i).q{display:none}.q{display:block}", "<p class=q id=i>", False),
        (".x{.q &{display:none}}", "<div class=q><p class=x>", True),
        (".x{display:none;&.y{display:block}}", "<p class='x y'>", False),
        (".x{@media screen{display:none}}", "<p class=x>", True),
        ("#\\31 a{display:none}", "<p id=1a>", True),
        ("@media not print{.q{display:none}}", "<p class=q>", True),
        ("@media (400px<=width<600px){.q{display:none}}", "<p class=q>", False),
        ("@supports not (display:grid){.q{display:none}}", "<p class=q>", False),
        ("@layer a{#i{display:none}}.q{display:block}", "<p class=q id=i>", False),
        (".q{display:block!important}", "<p class=q style='display:none'>", False),
        (".z::after{content:'}'}.q{display:none}", "<p class=q>", True),
        (":root{--h:none}.q{display:var(--h)}", "<p class=q>", True),
        (".q{position:absolute}.r{left:-9999px}", "<p class='q r'>", True),
        (".q{color:#fff}.q b{color:#000}", "<p class=q><b class=b>", False),
        (".q{max-height:0;overflow:hidden}", "<b class=q>", False),
    ],
)
def test_selectors_and_conditions_as_a_browser_reads_them(
    sheet: str, markup: str, hidden: bool
) -> None:
    page = f"<style>{sheet}</style><h2>Crows learn from each other.</h2>{markup}May"
    assert ("May" in read_visible(page)) is not hidden


@pytest.mark.parametrize(
    "style",
    """position:absolute;bottom:2000px | position:absolute;right:100vw | position:fixed;top:100vh
    | position:absolute;top:-300px | position:fixed;top:0;transform:translateY(-100%)
    | position:relative;right:4000px | inset-block:-4000px auto;position:absolute
    | margin-inline-start:-4000px | transform:skewX(90deg) | transform:rotate3d(1,0,0,90deg)
    | transform:matrix3d(1,0,0,0,0,1,0,0,0,0,1,0,-4000,0,0,1) | text-indent:-100%
    | transform:rotateY(180deg);backface-visibility:hidden | offset-path:path('M -4000 0 L -4000 1')
    | text-indent:100vw;overflow:hidden;text-wrap:nowrap | clip-path:xywh(0 0 0 0)
    | clip-path:polygon(-9px 0,-9px 9px,-20px 0) | clip-path:inset(999px)
    | opacity:-1 | opacity:min(0,1) | opacity:env(x,0) | filter:blur(40px) | display:table-column
    | height:3px;overflow:hidden | block-size:0;overflow:hidden | contain:strict
    | max-height:0;overflow:auto | -webkit-text-security:disc""".split(" | "),
)
def test_ways_to_place_or_cut_a_paragraph_where_nobody_sees_it(style: str) -> None:
    style = " ".join(style.split())
    for page in (f"<style>.a{{{style}}}</style><p class=a>May.", f'<p style="{style}">May.'):
        assert read_visible(f"<h2>Crows learn.</h2>{page}") == "Crows learn."


@pytest.mark.parametrize(
    "style",
    """position:absolute;bottom:20px | position:absolute;top:-20px | display:table-cell
    | position:fixed;right:0;top:0
    | position:fixed;top:50%;left:50%;transform:translate(-50%,-50%) | position:relative;top:-9px
    | height:0;min-height:3em;overflow:hidden | transform:rotate(90deg) | filter:blur(0)
    | clip-path:inset(0 round 9px) | clip-path:polygon(0 0,100% 0,100% 100%,0 100%)
    | inset-inline:0 auto;position:absolute | contain:content | text-wrap:nowrap
    | position:absolute;top:2000px | height:20px;overflow:hidden | margin-inline:auto""".split(
        " | "
    ),
)
def test_ways_to_place_a_paragraph_where_it_is_seen(style: str) -> None:
    style = " ".join(style.split())
    assert "May" in read_visible(
        f"<style>.a{{{style}}}</style><h2>Crows learn.</h2><p class=a>May."
    )


def test_a_box_that_is_placed_from_another_box_is_shown() -> None:
    sheet = ".a{position:relative}.b{position:absolute;bottom:100%}"
    assert read_visible(f"<style>{sheet}</style><div class=a>Crow<b class=b>tip</b>") == "Crowtip"


@pytest.mark.parametrize(
    "condition",
    """(min-device-width:1px) | (monochrome:0) | (color-gamut:srgb) | (min-color:8)
    | (-webkit-min-device-pixel-ratio:1) | (width > calc(100px + 1em)) | (update:fast)""".split(
        " | "
    ),
)
def test_media_that_every_screen_has(condition: str) -> None:
    assert matches_screen(condition)
    assert not matches_screen(f"not all and {condition}")


@pytest.mark.parametrize("feature", ["opacity:0", "visibility:hidden", "zoom:1", "cursor:pointer"])
def test_properties_that_browsers_know(feature: str) -> None:
    sheet = f"@supports ({feature}){{.a{{display:none}}}}"
    assert read_visible(f"<style>{sheet}</style><p>Crows<b class=a> may</b>.") == "Crows."


@pytest.mark.parametrize(
    "body",
    """display : none ;; Opacity:0 | color:red!important; color:blue | a:b!ie;c | font:0/1 x
    | content:"x"; mask:url(y) | background:url(a/b) #FFF | --a:; overflow: hidden  clip | x:y!
    | width:calc(1px + (2px)) | width:1px/**/ | background:url(data:a;b) | left:5px;left""".split(
        " | "
    ),
)
def test_plain_rules_are_read_as_the_parser_reads_them(body: str) -> None:
    assert parse_styles(body) == parse_styles("/**/" + body)


def test_boxes_in_a_row_of_font_size_0_are_shown() -> None:
    sheet = "<style>.row{font-size:0}.box{font-size:16px}</style>"
    assert read_visible(f"{sheet}<div class=row>x<i class=box>Seen.</i></div>") == "xSeen."
    assert read_visible(f"{sheet}<p>Seen.<div class=row><i>Not seen.</i></div>") == "Seen."


def test_a_page_that_fades_in_is_shown_and_a_hidden_body_too() -> None:
    assert read_visible("<style>main{opacity:0}</style><main><p>All of it.</main>") == "All of it."
    assert read_visible("<style>body{display:none}</style><p>All of it.") == "All of it."


def test_text_for_screen_readers_is_hidden_and_the_bar_of_a_fraction_is_not() -> None:
    link = "<link rel=stylesheet href=a.css>"
    assert read_visible(f"{link}<p>Crows<span class=sr-only> (opens a window)</span>.") == "Crows."
    assert read_visible(f"{link}<p>It ate 1<span class=sr-only>/</span>2.") == "It ate 1/2."


def test_a_deletion_that_never_ends_deletes_nothing() -> None:
    text = read_visible("<p>One.<s><p>Two is much longer.<p>Three.")
    assert text == "One.\n\nTwo is much longer.\n\nThree."


def test_inline_styles_and_media() -> None:
    assert is_hidden_by_style("DISPLAY: none")
    assert not is_hidden_by_style("display:block; opacity:0; transform:translateY(20px)")
    assert matches_screen("print, screen and (min-width: 40em)")
    assert not matches_screen("only print")


@pytest.mark.slow
def test_a_sheet_of_many_rules_takes_linear_time() -> None:
    def read(size: int) -> str:
        rules = "".join(f".c{n} .d{n}{{display:none}}" for n in range(size))
        body = "".join(f"<div class=c{n}><p class=d{n}>x</div>" for n in range(size))
        return read_visible(f"<style>{rules}</style><p>Seen.</p>{body}")

    assert growth_of(read, 1000) < AT_MOST


def test_what_only_screen_readers_pass_over_is_seen_where_no_styles_are_elsewhere() -> None:
    for begin in ("", "<style>p{color:red}</style>"):
        assert read_visible(f"{begin}<p aria-hidden=true>Crows learn.") == "Crows learn."
    for begin in ("<link rel=stylesheet href=a.css>", "<math><mi>x</mi></math>"):
        assert "learn" not in read_visible(f"{begin}<p aria-hidden=true>Crows learn.</p><p>May.")


@pytest.mark.parametrize(
    ("columns", "seen"),
    [
        ("<col><col style='visibility:collapse'>", "Crow 9 Jay 7"),
        ("<colgroup><col><col class=c></colgroup>", "Crow 9 Jay 7"),
        ("<col><col style='display:none'>", "Crow a thief 9 Jay a liar 7"),
        ("<col span=2><col style='visibility:collapse'>", "Crow a thief 9 Jay a liar 7"),
    ],
)
def test_columns_that_are_collapsed_are_hidden(columns: str, seen: str) -> None:
    rows = "".join(
        f"<tr><td>{bird}<td>{name}<td>{years}"
        for bird, name, years in (("Crow", "a thief", 9), ("Jay", "a liar", 7))
    )
    sheet = "<style>.c{visibility:collapse}</style>"
    text = read_visible(f"{sheet}<table>{columns}{rows}</table>")
    assert " ".join(text.replace("|", " ").split()) == seen
