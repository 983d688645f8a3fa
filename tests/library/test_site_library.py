"""A site as a library: what a crawl reaches, what bounds it, and what is used again."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from damaging import damage_columns
from stage import Said, Stage, stage

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive
from rookery.library.site_library import SiteLibrary, SiteLimits, make_site_scope
from rookery.network import fetcher as fetching
from rookery.network.fetcher import Fetcher


class Web:
    """A loopback site, and a way to open it as a new process would."""

    def __init__(self, server: Stage, archive: PageArchive, fetcher: Fetcher, root: Path) -> None:
        self.server = server
        self.archive = archive
        self.fetcher = fetcher
        self.cache = root / "cache"

    def page(self, path: str, text: str, *links: str) -> None:
        anchors = " ".join(f'<a href="{link}">more of this</a>' for link in links)
        body = f"<title>{path}</title><main><p>{text}</p><p>See {anchors} there.</p></main>"
        self.server.routes[path] = Said(body)

    def open(
        self, path: str = "/birds/", limits: SiteLimits = SiteLimits(), offline: bool = False
    ) -> SiteLibrary:
        url = self.server.base + path
        return SiteLibrary(url, self.archive, self.fetcher, self.cache, limits, offline=offline)

    def url(self, path: str) -> str:
        return self.server.base + path


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with (
        stage() as server,
        Fetcher(allow_private=True) as fetcher,
        PageArchive(tmp_path / "archive.sqlite") as archive,
    ):
        web = Web(server, archive, fetcher, tmp_path)
        web.page("/birds/", "Birds of the town.", "crow.html", "jay.html#top", "/fish/", "x.png")
        web.page("/birds/crow.html", "The crow keeps seven walnuts.", "jay.html", "deep/a.html")
        web.page("/birds/jay.html", "The jay plants oaks.", "./", "http://127.0.0.2/birds/")
        web.page("/birds/deep/a.html", "The rook digs deep.", "../../fish/", "gone.html")
        web.page("/fish/", "The pike waits.")
        yield web


def test_the_crawl_reaches_what_lies_below_and_nothing_else(web: Web) -> None:
    site = web.open()
    assert sorted(set(web.server.paths()) - {"/sitemap.xml"}) == [
        "/birds/",
        "/birds/crow.html",
        "/birds/deep/a.html",
        "/birds/deep/gone.html",
        "/birds/jay.html",
    ]
    assert [(failure.what, failure.outcome) for failure in site.failures] == [
        (web.url("/birds/deep/gone.html"), "http_404")
    ]
    (hit,) = site.search("walnuts", 5)
    assert hit.url == web.url("/birds/crow.html")
    page = site.fetch(hit.url)
    assert "seven walnuts" in page.text[hit.start : hit.end]
    assert page.digest == hit.digest
    assert web.archive.find_page(hit.digest, hit.url) == page
    assert site.search("pike", 5) == []


def make_sitemap(*urls: str, index: bool = False) -> Said:
    kind, each = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    places = "".join(f"<{each}><loc>{url}</loc></{each}>" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Said(f"<?xml version='1.0'?><{kind} xmlns='{space}'>{places}</{kind}>", "text/xml")


@pytest.mark.slow
def test_pages_that_only_a_sitemap_lists_are_found(web: Web) -> None:
    web.page("/birds/alone.html", "The hoopoe stands alone.")
    web.page("/birds/named.html", "The roller is named in robots.txt.")
    web.server.routes["/sitemap.xml"] = make_sitemap(
        web.url("/birds/alone.html"), web.url("/fish/"), "https://other.example/birds/"
    )
    assert len(web.open().search("hoopoe", 5)) == 1
    assert "/fish/" not in web.server.paths()

    robots = f"User-agent: *\nDisallow: /none\nSitemap: {web.url('/maps.xml')}\n"
    web.server.routes["/robots.txt"] = Said(robots, "text/plain")
    web.server.routes["/maps.xml"] = make_sitemap(web.url("/more/1.xml"), index=True)
    web.server.routes["/more/1.xml"] = make_sitemap(web.url("/birds/named.html"))
    with Fetcher(allow_private=True) as fetcher:
        cache = web.cache.parent / "other"
        site = SiteLibrary(web.url("/birds/"), web.archive, fetcher, cache)
    assert len(site.search("roller", 5)) == 1
    assert site.search("hoopoe", 5) == []


def test_pages_that_only_a_feed_lists_are_found(web: Web) -> None:
    web.page("/birds/", "Birds of the town.", "news.rss")
    web.page("/birds/new.html", "The wryneck is new.")
    items = f"<item><title>New</title><link>{web.url('/birds/new.html')}</link></item>"
    feed = f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>"
    web.server.routes["/birds/news.rss"] = Said(feed, "application/rss+xml")
    site = web.open()
    assert len(site.search("wryneck", 5)) == 1
    assert site.failures == ()


def test_sitemaps_without_end_are_left(web: Web) -> None:
    def lead_on(number: int) -> Said:
        return make_sitemap(*(web.url(f"/m{10 * number + n}.xml") for n in range(10)), index=True)

    web.server.routes["/sitemap.xml"] = lead_on(1)
    for number in range(200):
        web.server.routes[f"/m{number}.xml"] = lead_on(number)
    web.open()
    assert sum(path.endswith(".xml") for path in web.server.paths()) == 5


def test_a_later_run_within_a_day_asks_nothing(web: Web) -> None:
    first = web.open().search("oaks", 5)
    visits = len(web.server.visits)
    again = web.open()
    assert again.search("oaks", 5) == first
    assert again.fetch(first[0].url).text
    assert [failure.outcome for failure in again.failures] == ["http_404"]
    assert len(web.server.visits) == visits


def test_an_old_crawl_is_made_again_and_its_index_goes(web: Web) -> None:
    web.open()
    web.page("/birds/", "The magpie has come.", "deep/a.html")
    site = web.open(limits=SiteLimits(fresh_seconds=0))
    assert len(site.search("magpie", 5)) == 1
    assert site.search("oaks", 5) == []
    (place,) = (web.cache / "sites").iterdir()
    assert len(list(place.glob("index-*"))) == 1


def test_a_site_that_is_down_is_answered_from_the_older_crawl(web: Web) -> None:
    web.open()
    web.server.routes.clear()
    site = web.open(limits=SiteLimits(fresh_seconds=0))
    assert len(site.search("oaks", 5)) == 1
    assert [failure.outcome for failure in site.failures] == ["http_404", "http_404"]


def test_pages_of_a_site_that_is_busy_are_asked_for_again(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "BUSY_PAUSES", ())
    page = web.server.routes["/birds/jay.html"]
    web.server.routes["/birds/jay.html"] = Said("", status=429, headers=(("Retry-After", "1"),))

    def recover(count: int, total: int, what: str) -> None:
        if "busy" in what:
            web.server.routes["/birds/jay.html"] = page

    url = web.url("/birds/")
    site = SiteLibrary(url, web.archive, web.fetcher, web.cache, progress=recover)
    assert [failure.outcome for failure in site.failures] == ["http_404"]
    assert len(site.search("oaks", 5)) == 1


def test_a_site_that_was_never_there_says_why(web: Web) -> None:
    with pytest.raises(Failed, match="http_404"):
        web.open("/nowhere/")
    with pytest.raises(Failed, match="invalid_url"):
        SiteLibrary("ftp://e.org/", web.archive, web.fetcher, web.cache)
    web.page("/nowhere/", "Here it is.")
    assert len(web.open("/nowhere/").search("here it is", 5)) == 1


def test_the_crawl_is_breadth_first_and_bounded(web: Web) -> None:
    for number in range(30):
        links = (f"{2 * number + 1}", f"{2 * number + 2}")
        web.page(f"/tree/{number}", f"Branch number{number} of the tree.", *links)
    web.page("/tree/", "The root of the tree.", "0")
    site = web.open("/tree/", SiteLimits(pages=8))
    assert {hit.url for hit in site.search("tree", 50)} == {
        web.url(f"/tree/{name}") for name in ("", *range(7))
    }


def test_a_trap_without_end_is_left(web: Web) -> None:
    for number in range(200):
        next_page = f'<p>Always the same words. <a href="{number + 1}">Next</a></p>'
        web.server.routes[f"/trap/{number}"] = Said(next_page)
    web.page("/trap/", "The way in.", "0")
    site = web.open("/trap/", SiteLimits(pages=10))
    assert sum(path.startswith("/trap/") for path in web.server.paths()) <= 20
    assert len(site.search("always the same words", 50)) == 1


@pytest.mark.slow
def test_a_slow_site_gives_what_has_come(web: Web) -> None:
    late = threading.Event()

    def slow(visit: object) -> Said:
        late.wait(60)
        return Said("<p>Too late.</p>")

    web.page("/slow/", "The way in is quick.", "late")
    web.server.routes["/slow/late"] = slow
    site = web.open("/slow/", SiteLimits(seconds=10))
    assert not late.is_set()
    late.set()
    assert len(site.search("quick", 5)) == 1
    assert [failure.outcome for failure in site.failures] == ["timed_out"]


def test_robots_are_obeyed(web: Web) -> None:
    web.server.routes["/robots.txt"] = Said("User-agent: *\nDisallow: /birds/deep/\n", "text/plain")
    site = web.open()
    assert "/birds/deep/a.html" not in web.server.paths()
    assert [failure.outcome for failure in site.failures] == ["robots"]


def test_redirects_stay_inside_and_the_start_may_move(web: Web) -> None:
    def moved(path: str) -> Said:
        return Said("", status=302, headers=(("Location", path),))

    web.server.routes["/"] = moved("/birds/")
    web.server.routes["/birds/out.html"] = moved("/fish/")
    web.server.routes["/birds/in.html"] = moved("/birds/crow.html")
    web.page("/birds/", "Birds of the town.", "out.html", "in.html")
    site = web.open("/")
    outcomes = {failure.what: failure.outcome for failure in site.failures}
    assert outcomes.pop(web.url("/birds/out.html")) == "outside_site"
    assert site.search("pike", 5) == []
    assert site.fetch(web.url("/birds/in.html")).url == web.url("/birds/crow.html")
    assert [hit.url for hit in site.search("walnuts", 5)] == [web.url("/birds/crow.html")]


def test_pages_not_crawled_are_opened_only_where_shown_and_inside(web: Web) -> None:
    site = web.open(limits=SiteLimits(pages=1))
    with pytest.raises(Failed, match="url_not_shown"):
        site.fetch(web.url("/birds/crow.html"))
    site.fetch(web.url("/birds/"))
    page = site.fetch(web.url("/birds/crow.html#walnuts"))
    assert "walnuts" in page.text
    assert web.archive.find_latest(page.url) == page
    with pytest.raises(Failed, match="url_not_shown"):
        site.fetch(web.url("/fish/"))


def test_a_site_that_is_down_is_answered_from_a_crawl_of_another_version(web: Web) -> None:
    before = web.open().search("walnuts oaks", 9)
    (place,) = (web.cache / "sites").iterdir()
    state = place / "crawl.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "format": "1.5"}))
    web.server.routes.clear()
    site = web.open()
    assert site.search("walnuts oaks", 9) == before
    assert "http_404" in [failure.outcome for failure in site.failures]
    assert len(list(place.glob("index-*"))) == 1


def test_offline_uses_a_crawl_of_any_age_and_never_the_network(web: Web) -> None:
    with pytest.raises(Failed, match="not_in_archive"):
        web.open(offline=True)
    web.open()
    visits = len(web.server.visits)
    site = web.open(limits=SiteLimits(fresh_seconds=0), offline=True)
    (hit,) = site.search("walnuts", 5)
    page = site.fetch(hit.url)
    assert "walnuts" in page.text
    site.fetch(web.url("/birds/deep/a.html"))
    with pytest.raises(Failed, match="not_in_archive"):
        site.fetch(web.url("/birds/deep/gone.html"))
    assert len(web.server.visits) == visits


@pytest.mark.parametrize("harm", ["format", "index", "columns"])
def test_offline_a_crawl_is_indexed_again_from_the_archive(web: Web, harm: str) -> None:
    before = web.open().search("walnuts oaks", 9)
    visits = len(web.server.visits)
    (place,) = (web.cache / "sites").iterdir()
    state = place / "crawl.json"
    if harm == "format":
        crawl = json.loads(state.read_text())
        state.write_text(json.dumps({**crawl, "format": "0"}))
    elif harm == "columns":
        damage_columns(next(place.glob("index-*")))
    else:
        next(place.glob("index-*/meta.json")).write_text("{")
    assert web.open(offline=True).search("walnuts oaks", 9) == before
    assert len(web.server.visits) == visits
    assert web.open(offline=True).search("walnuts oaks", 9) == before, "and kept"


@pytest.mark.parametrize("harm", ["state", "index"])
def test_a_damaged_crawl_is_made_again(web: Web, harm: str) -> None:
    web.open()
    (place,) = (web.cache / "sites").iterdir()
    if harm == "state":
        (place / "crawl.json").write_text('{"format": "1')
    else:
        next(place.glob("index-*/meta.json")).write_text("{")
    assert len(web.open().search("oaks", 5)) == 1


@pytest.mark.parametrize(
    ("start", "inside", "outside"),
    [
        ("https://e.org", ["https://e.org", "https://E.org:443/a"], ["http://e.org/"]),
        ("https://e.org/a", ["https://e.org/a", "https://e.org/a/b"], ["https://e.org/ab"]),
        ("https://e.org/a/i.html", ["https://e.org/a/b"], ["https://e.org/b"]),
        ("https://e.org/a/", ["https://e.org/a?x=/"], ["https://e.org/a/../b", "https://[e"]),
        ("http://e.org:8/a/", ["http://e.org:8/a/"], ["http://e.org/a/", "http://x@f.org:8/a/"]),
        ("http://e.org/a/", ["http://e.org/a/..b"], ["http://e.org/a/%2E%2e/b", "mailto:a@e.org"]),
    ],
)
def test_what_lies_below_an_address(start: str, inside: list[str], outside: list[str]) -> None:
    scope = make_site_scope(start)
    assert [url for url in inside if not scope.contains_url(url)] == []
    assert [url for url in outside if scope.contains_url(url)] == []
