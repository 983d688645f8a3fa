"""The board and the cord in a real browser: every screen at three widths, in light and dark."""

from collections.abc import Iterator
from io import BytesIO
from typing import Literal

import pytest
from boards import hire, pay, train, work
from PIL import Image, ImageStat
from playwright.sync_api import Page, expect
from visits import item
from windows import Seen, Site, flaws

from rookery.desk import snapshots, stop_switch
from rookery.desk.snapshots import SnapshotSelection

SCREENS = (
    "/board",
    "/board/quality?batch=ravens",
    "/board/returned",
    "/board/excluded",
    "/board/snapshots",
    "/board/projects",
    "/board/projects/corvids",
    "/board/pay?project=corvids",
    "/board/people",
    "/board/guides",
    "/board/guides/supported",
    "/board/book",
    "/board/person/ada",
    "/disagreements",
    "/cord",
    "/cord/runs/jays-run",
    "/cord/1/release",
)
LOOKS: dict[int, Literal["light", "dark"]] = {360: "light", 768: "dark", 1280: "light"}


@pytest.fixture(scope="module")
def busy(site: Site) -> Site:
    """With work done, and runs that learn."""
    hire(site.opened)
    work(site.opened)
    train(site.opened)
    pay(site.opened)
    site.opened.lay(
        item("thumbs"),
        item("compare"),
        batch="thumbs up or down, of the last week of all and the first",
    )
    snapshots.freeze_snapshot(site.opened.store, "first", SnapshotSelection(), "lea")
    return site


@pytest.fixture(scope="module")
def open_window(busy: Site) -> Iterator[Seen]:
    with busy.window("lea", "researcher") as window:
        yield window


@pytest.mark.slow
@pytest.mark.parametrize("address", SCREENS)
def test_axe_finds_nothing_and_no_screen_is_wider_than_the_window(
    open_window: Seen, address: str
) -> None:
    page = open_window.page
    for width, scheme in LOOKS.items():
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.goto(address)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide), width
        assert not page.evaluate(wide.replace("Element", "Element.querySelector('.head nav')"))
        assert flaws(page) == [], width
    assert open_window.said == []


def _get_brightness_at_the_right(page: Page) -> float:
    """Brightness of the right edge of the first table, from 0 to 255."""
    picture = Image.open(BytesIO(page.locator(".scroll").first.screenshot())).convert("L")
    width, height = picture.size
    return ImageStat.Stat(picture.crop((width - 6, 20, width - 2, height - 20))).mean[0]


@pytest.mark.slow
def test_a_table_that_goes_on_to_the_right_has_a_shadow_there(open_window: Seen) -> None:
    page = open_window.page
    page.set_viewport_size({"width": 360, "height": 800})
    schemes: dict[Literal["light", "dark"], int] = {"light": 20, "dark": 8}
    for scheme, least in schemes.items():
        page.emulate_media(color_scheme=scheme)
        page.goto("/board/quality?batch=ravens")
        shaded = _get_brightness_at_the_right(page)
        page.locator(".scroll").first.evaluate("table => table.scrollLeft = table.scrollWidth")
        assert _get_brightness_at_the_right(page) - shaded > least, scheme


def test_a_labeller_stops_a_run_by_the_keyboard_alone(busy: Site) -> None:
    with busy.window("bob") as (page, said):
        page.goto("/desk")
        stop = page.get_by_role("link", name="Stop training")
        stop.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/cord")
        page.get_by_label("Why?").focus()
        page.keyboard.type("It swears")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The run makes no further step")).to_be_visible()
        assert said == []
    pull = stop_switch.find_active_stop(busy.opened.store, "crows-run")
    assert pull is not None
    assert (pull.person, pull.reason) == ("bob", "It swears")


def test_a_snapshot_comes_as_a_file(open_window: Seen) -> None:
    open_window.page.goto("/board/snapshots")
    with open_window.page.expect_download() as download:
        open_window.page.get_by_role("button", name="Download first").click()
    assert download.value.suggested_filename == "first.zip"


@pytest.mark.slow
@pytest.mark.parametrize(
    "address", ["/desk", "/board", "/board/quality?batch=ravens", "/board/pay"]
)
def test_a_narrow_window_holds_the_pages_in_german(busy: Site, address: str) -> None:
    with busy.window("lea", "researcher") as seen:
        seen.page.context.add_cookies([{"name": "language", "value": "de", "url": busy.address}])
        seen.page.set_viewport_size({"width": 360, "height": 800})
        seen.page.goto(address)
        expect(seen.page.locator("html")).to_have_attribute("lang", "de")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not seen.page.evaluate(wide)
        assert flaws(seen.page) == []
        seen.page.get_by_role("button", name="English").click()
        expect(seen.page.locator("html")).to_have_attribute("lang", "en")
        assert seen.page.url.endswith(address)
        assert seen.said == []
