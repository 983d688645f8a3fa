"""Figures in files, and the page of all of them: nothing is lost, nothing runs, all is read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from figures import BARS, EVIL, figure, figures, line
from hypothesis import HealthCheck, given, settings
from markdown_it import MarkdownIt
from msgspec.structs import replace
from playwright.sync_api import Browser, Dialog, Page
from selectolax.lexbor import LexborHTMLParser
from windows import AXE, LEVELS

from rookery.errors import Failed
from rookery.measure.figures import (
    Figure,
    FigureLine,
    FigurePicture,
    format_cell,
    format_figure_lines,
    format_figure_markdown,
    read_figures,
    write_figure,
    write_report,
)

ROOT = Path(__file__).parent.parent.parent
LONG = replace(BARS, name="long", title="Long", rows=tuple((f"s{n}", n / 2) for n in range(40)))
HOSTILE = replace(
    figure(FigurePicture("curves", (line(EVIL, 0.1, 0.2),), EVIL, EVIL), "hostile", EVIL),
    says=EVIL,
    head=(EVIL, "share"),
    rows=((EVIL, 1.0), ("| [x](javascript:alert(1))", None)),
    source=EVIL,
)
# The second was stored before verdicts were computed: whatever it said then does not count.
FINDINGS = [
    {"effect": "best of 16 beats one", "paper": "fig. 3", "ours": "0.6 (n=9)", "verdict": "yes"},
    {"effect": EVIL, "paper": "table 1", "ours": "0.5", "holds": True, "why": "too small"},
]
RESULT = {"recipe": "webgpt", "size": "small", "minutes": 12.5, "seeds": [3], "findings": FINDINGS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Figures of one's own, and those of two recipes."""
    write_figure(BARS, tmp_path)
    write_figure(LONG, tmp_path / "webgpt-small" / "figures")
    write_figure(HOSTILE, tmp_path / "webgpt-small" / "figures")
    write_figure(BARS, tmp_path / "ziegler-small" / "figures")
    result = {**RESULT, "notes": ["One rater.", EVIL]}
    (tmp_path / "webgpt-small" / "result.json").write_text(json.dumps(result))
    (tmp_path / "webgpt-small" / "settings.json").write_text("{}")
    return tmp_path


def words(text: str) -> str:
    """What is read: a control character is shown as a sign or not at all."""
    return " ".join(text.replace("\x1b", "").replace("\N{REPLACEMENT CHARACTER}", "").split())


@pytest.mark.slow
@given(figures())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_again(tmp_path: Path, each: Figure) -> None:
    write_figure(each, tmp_path)
    assert list(read_figures(tmp_path).values()) == [each]
    suffixes = sorted(place.suffix for place in tmp_path.iterdir())
    assert suffixes == [".json", ".md", ".png", ".svg"]


def test_points_and_ends_that_are_no_numbers_are_left_out(
    tmp_path: Path,
) -> None:
    nan, inf = float("nan"), float("inf")
    points = ((0.0, 1.0), (1.0, nan), (2.0, 3.0))
    drawn = FigurePicture("curves", (FigureLine("a", points, (0.5, 0.0, -inf), (nan, 1.0, 4.0)),))
    write_figure(replace(figure(drawn), rows=(("a", nan), ("b", inf))), tmp_path)
    [found] = read_figures(tmp_path).values()
    assert found.rows == (("a", None), ("b", None))
    kept = FigureLine("a", ((0.0, 1.0), (2.0, 3.0)), (0.5, None), (None, 4.0))
    assert found.picture.lines == (kept,)


@pytest.mark.parametrize("name", ["../up", "", "A", "a b", "a/b", "é"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="small letters, digits and hyphens"):
        write_figure(replace(BARS, name=name), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_table_in_markdown_has_every_cell_and_nothing_in_it_is_markup() -> None:
    html = MarkdownIt("commonmark").enable("table").render(format_figure_markdown(HOSTILE))
    tree = LexborHTMLParser(html)
    assert not tree.css("script, a, code, em, strong")
    cells = [words(cell.text()) for cell in tree.css("th, td")]
    wanted = [*HOSTILE.head, *(format_cell(cell) for row in HOSTILE.rows for cell in row)]
    assert cells == [words(cell) for cell in wanted]
    assert [image.attributes["src"] for image in tree.css("img")] == ["hostile.svg"]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, ""),
        ("as it is", "as it is"),
        (0.0, "0.000"),
        (0.98765, "0.988"),
        (-0.0123, "-0.012"),
        (3.2e-7, "3.2e-07"),
        (2019, "2019"),
        (12345, "12,345"),
        (1234.5, "1234"),
        (123456.7, "123,457"),
        (2.5e21, "2.5e+21"),
    ],
)
def test_a_cell_is_told_to_a_few_figures(cell: str | float | None, said: str) -> None:
    assert format_cell(cell) == said


def test_a_table_in_a_terminal_sets_numbers_to_the_right() -> None:
    assert list(format_figure_lines(BARS))[-3:] == ["system  share", "ours    0.500", "theirs"]


def test_a_table_that_is_wider_than_the_terminal_is_turned_where_that_fits() -> None:
    heads = ("system", "quality at 100%", "quality at 90%")
    figure = replace(BARS, head=heads, rows=(("ours", 1.0, 0.25), ("theirs", 0.5, None)))
    turned = [
        "system            ours  theirs",
        "quality at 100%  1.000   0.500",
        "quality at 90%   0.250",
    ]
    assert list(format_figure_lines(figure, 30))[3:] == turned
    wide = list(format_figure_lines(figure))
    assert wide[3] == "system  quality at 100%  quality at 90%"
    for columns in (29, len(wide[3])):
        assert list(format_figure_lines(figure, columns)) == wide


def test_without_matplotlib_the_numbers_are_kept_and_it_is_said_what_to_install(
    tmp_path: Path,
) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from pathlib import Path\n"
        "from rookery.measure.figures import Figure\n"
        "from rookery.measure.figures import write_figure\n"
        "from rookery.errors import Failed\n"
        "try: write_figure(Figure.from_json(sys.stdin.read()), Path('.'))\n"
        "except Failed as failed: print(failed.failure.detail)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        input=BARS.to_json(),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert said.stdout == "pictures need matplotlib: pip install 'rookery[measure]'\n"
    assert sorted(place.name for place in tmp_path.iterdir()) == ["a-figure.json", "a-figure.md"]


@pytest.mark.slow
def test_a_figure_that_was_damaged_is_named(folder: Path) -> None:
    (folder / "a-figure.json").write_text('{"name": ')
    with pytest.raises(Failed, match=r"a-figure\.json: bad_figure: .*make it again, or delete it"):
        write_report(folder)


def test_a_folder_without_a_figure_is_no_report(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Failed, match="not_found: no figure is in it"):
            write_report(place)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_page_loads_and_runs_nothing(folder: Path) -> None:
    tree = LexborHTMLParser(write_report(folder).read_text(encoding="utf-8"))
    assert not tree.css("script, link, img, iframe, object, embed, base, form, video, audio")
    for element in tree.css("*"):
        assert not any(name.startswith("on") for name in element.attributes)
        for name in ("href", "xlink:href", "src"):
            assert (element.attributes.get(name) or "#").startswith("#")
    styles = "".join(style.text() for style in tree.css("style"))
    assert "url(" not in styles
    assert "@import" not in styles


@pytest.mark.slow
def test_names_on_the_page_are_one_each_and_links_lead_to_them(folder: Path) -> None:
    tree = LexborHTMLParser(write_report(folder).read_text(encoding="utf-8"))
    names = [element.attributes["id"] for element in tree.css("[id]")]
    assert len(set(names)) == len(names)
    links = [str(link.attributes["href"]) for link in tree.css("nav a")]
    assert len(links) == 5
    assert {link[1:] for link in links} <= set(names)


@pytest.mark.slow
def test_findings_stand_first_and_figures_with_what_they_are_of(folder: Path) -> None:
    tree = LexborHTMLParser(write_report(folder).read_text(encoding="utf-8"))
    heads = [head.text() for head in tree.css("h2")]
    wanted = ["Contents", "Findings: webgpt, small", "Figures", "webgpt-small", "ziegler-small"]
    assert heads == wanted
    assert [mark.text() for mark in tree.css(".yes, .no")] == ["yes", "not judged"]
    assert (
        "1 of 2 effects are seen beyond their intervals. 4 figures." in tree.css("header")[0].text()
    )
    for part in (EVIL, "12.5 minutes; seeds: 3", "too small", "One rater."):
        assert words(part) in words(tree.root.text() if tree.root else "")


@pytest.mark.slow
def test_a_table_is_below_its_picture_and_a_long_one_is_folded(folder: Path) -> None:
    tree = LexborHTMLParser(write_report(folder).read_text(encoding="utf-8"))
    for article in tree.css("article"):
        html = article.html or ""
        assert html.index("<svg") < html.index("<table")
    [folded] = tree.css("details")
    assert len(folded.css("tbody tr")) == 40
    assert folded.css("summary")[0].text() == "Table: 40 rows"


@pytest.mark.slow
def test_the_same_figures_make_the_same_page(folder: Path) -> None:
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first


def _dismissed(dialog: Dialog, messages: list[str]) -> None:
    messages.append(dialog.message)
    dialog.dismiss()


def _looked_at(page: Page, place: Path) -> tuple[list[str], list[str]]:
    """What the page asked for, and what the browser complained of."""
    asked, said = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda line: said.append(line.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: _dismissed(dialog, said))
    page.goto(place.as_uri())
    return asked, said


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_whole_at_any_width(
    browser: Browser, folder: Path, scheme: str
) -> None:
    place = write_report(folder)
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    asked, said = _looked_at(page, place)
    assert (asked, said) == ([place.as_uri()], [])
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = [each.bounding_box() for each in page.locator("svg[role=img]").all()]
        assert all(box and box["width"] > 300 and box["height"] > 50 for box in boxes)
    page.get_by_text("Table: 40 rows").click()
    assert page.get_by_text("s39").is_visible()
    page.evaluate(AXE)
    options = {"runOnly": {"type": "tag", "values": LEVELS}}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
    page.close()
