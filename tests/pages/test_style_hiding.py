"""What style sheets hide: the cascade, media, what only begins unseen, and costly sheets."""

import pytest
from growth import AT_MOST, growth_of

from rookery.pages.html.style_hiding import is_hidden_by_style, matches_screen
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
        ("@supports (x:y){.a{display:none}}", "<b class=a>", True),
        ("@keyframes k{from{opacity:0}}", "<b class=from>", False),
        (".a{opacity:0}", "<b class=a>", True),
        (".a{opacity:0;transition:opacity 1s}", "<b class=a>", False),
        (".fade-in{opacity:0}", "<b class=fade-in>", False),
        (".a{opacity:.5}", "<b class=a>", False),
        (".a{max-height:0;overflow:hidden}", "<b class=a>", True),
        (".a{max-height:0;overflow:hidden;transition:max-height .3s}", "<b class=a>", False),
        (".a{height:0;overflow:hidden;padding-top:56%}", "<b class=a>", False),
        (".a{position:absolute;left:-9999px}", "<b class=a>", True),
        (".a{position:absolute;left:-20px}", "<b class=a>", False),
        (".a{position:absolute;clip:rect(0,0,0,0)}", "<b class=a>", True),
        (".a{transform:scale(0)}", "<b class=a>", True),
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
