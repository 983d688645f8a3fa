"""Several search engines as one, against a loopback server that plays their answers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from stage import Said, Stage, stage
from test_web_library import BRAVE, SEARXNG, WIKIPEDIA, says

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import (
    MergedSearch,
    SearchEngine,
    WebLibrary,
    canonicalize_address,
    make_auto_search,
    make_brave_engine,
    make_duckduckgo_engine,
    make_searxng_engine,
    make_web_search,
    make_wikipedia_engine,
    merge_hits,
)
from rookery.network.fetcher import USER_AGENT, Fetcher, build_user_agent, parse_product_token
from rookery.network.http_response import parse_retry_after
from rookery.records import Hit

RESULT = """
<div class="result results_links results_links_deep web-result {kind}">
  <div class="links_main links_deep result__body">
    <h2 class="result__title"><a rel="nofollow" class="result__a" href="{href}">{title}</a></h2>
    <div class="result__extras"><a class="result__url" href="{href}"> birds.example </a></div>
    <a class="result__snippet" href="{href}">{snippet}</a>
  </div>
</div>"""
RESULTS = "<html><body><div id='links' class='results'>{}</div></body></html>"
CROWS = RESULTS.format(
    RESULT.format(
        kind="result--ad",
        href="//duckduckgo.com/y.js?ad_domain=nuts.example&amp;u3=x",
        title="Buy nuts",
        snippet="Nuts!",
    )
    + RESULT.format(
        kind="",
        href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fbirds.example%2Fcrow%3Fa%3D1%26b%3D%25C3%25A9&amp;rut=5f",
        title="Crows &amp; <b>jays</b>",
        snippet="All about <b>crows</b>: if a &lt; b",
    )
    + RESULT.format(kind="", href="https://birds.example/jay", title="Jays", snippet="")
    + RESULT.format(
        kind="",
        href="//duckduckgo.com/l/?uddg=javascript%3Aalert(1)",
        title="No page",
        snippet="",
    )
)
NOTHING = RESULTS.format(
    "<div class='result results_links result--no-result'><div class='no-results'>No results.</div>"
)
CHALLENGE = (
    "<form id='challenge-form' action='//duckduckgo.com/anomaly.js?sv=html' method='POST'>"
    "<div class='anomaly-modal__title'>Unfortunately, bots use DuckDuckGo too.</div></form>"
)


@pytest.fixture
def server() -> Iterator[Stage]:
    with stage() as server:
        yield server


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(allow_private=True) as fetcher:
        yield fetcher


def test_duckduckgo(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/html/"] = Said(CROWS)
    assert make_duckduckgo_engine(server.base).search(fetcher, "crows & jays", 5) == [
        Hit("https://birds.example/crow?a=1&b=%C3%A9", "Crows & jays", "All about crows: if a < b"),
        Hit("https://birds.example/jay", "Jays", ""),
    ]
    assert server.visits[0].query == {"q": "crows & jays"}
    assert len(make_duckduckgo_engine(server.base).search(fetcher, "crows", 1)) == 1


def test_duckduckgo_that_finds_nothing(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/html/"] = Said(NOTHING)
    assert make_duckduckgo_engine(server.base).search(fetcher, "zzzz", 5) == []


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (Said(CHALLENGE, status=202), "search_blocked"),
        (Said(CHALLENGE), "search_blocked"),
        (Said("", status=202), "search_blocked"),
        (Said("no", status=403), "search_blocked"),
        (Said("slow down", status=429), "search_quota"),
        (Said("oops", status=500), "search_failed"),
        (Said("<h1>A new design</h1>"), "search_failed"),
        (Said(b"\xff\xfe\0<a>", "application/octet-stream"), "search_failed"),
    ],
)
def test_duckduckgo_that_refuses_is_never_an_empty_list(
    said: Said, outcome: str, server: Stage, fetcher: Fetcher
) -> None:
    server.routes["/html/"] = said
    with pytest.raises(Failed) as caught:
        make_duckduckgo_engine(server.base).search(fetcher, "crows", 5)
    assert (caught.value.failure.what, caught.value.failure.outcome) == ("crows", outcome)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://www.birds.example/crow/", "http://birds.example/crow"),
        ("https://birds.example", "https://birds.example/"),
        ("https://birds.example/a?utm_source=x&id=7&gclid=1#top", "http://birds.example:80/a?id=7"),
        ("https://BIRDS.example/a?b", "https://birds.example/a?b="),
    ],
)
def test_addresses_of_one_page_are_alike(one: str, other: str) -> None:
    assert canonicalize_address(one) == canonicalize_address(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://birds.example/Crow", "https://birds.example/crow"),
        ("https://birds.example/a?id=7", "https://birds.example/a?id=8"),
        ("https://birds.example:8443/a", "https://birds.example/a"),
        ("https://de.birds.example/a", "https://birds.example/a"),
        ("http://[broken", "http://[torn"),
    ],
)
def test_addresses_of_two_pages_are_not(one: str, other: str) -> None:
    assert canonicalize_address(one) != canonicalize_address(other)


def hits(*names: str) -> list[Hit]:
    return [Hit(f"https://{name}.example/", name) for name in names]


def test_results_are_merged_by_reciprocal_rank() -> None:
    # b: 1/62 + 1/61, c: 1/63 + 1/62, a: 1/61, d: 1/63
    assert merge_hits([hits("a", "b", "c"), hits("b", "c", "d")]) == hits("b", "c", "a", "d")
    # One engine cannot vote for a page twice.
    twice = [Hit("http://www.a.example", "twice"), *hits("b", "a")]
    merged = merge_hits([twice, hits("b")])
    assert [hit.title for hit in merged] == ["b", "twice"]
    assert merge_hits([]) == []


def test_retry_after_is_seconds_or_a_date() -> None:
    assert parse_retry_after("the server answered 429 (after: 7)") == 7.0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = parse_retry_after(f"wait (http_429: the server answered 429 (after: {later}))")
    assert seconds is not None
    assert 60 < seconds <= 100
    assert parse_retry_after("(after: Sun, 06 Nov 1994 08:49:37 GMT)") == 0.0
    for nothing in ("the server answered 429", "(after: soon)", "(after: -3)"):
        assert parse_retry_after(nothing) is None


class Clock:
    """A clock that goes on where somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)


def merged(clock: Clock, *tiers: list[SearchEngine]) -> MergedSearch:
    return MergedSearch("auto", tiers, clock.wait, lambda: clock.now)


def test_a_short_retry_after_is_waited_for(server: Stage, fetcher: Fetcher) -> None:
    said = iter([Said("", status=503, headers=(("Retry-After", "2"),)), says(SEARXNG)])
    server.routes["/search"] = lambda visit: next(said)
    clock = Clock()
    engines = [make_searxng_engine(server.base)], [make_duckduckgo_engine(server.base)]
    results = merged(clock, *engines).search_web(fetcher, "crows", 5)
    assert (clock.waits, results.failures) == ([2.0], ())
    assert results.hits[0].title == "Crows"
    assert server.paths() == ["/search", "/search"]


def test_an_engine_that_limits_is_passed_over_until_its_time_is_up(
    server: Stage, fetcher: Fetcher
) -> None:
    server.routes["/search"] = Said("", status=429, headers=(("Retry-After", "60"),))
    server.routes["/html/"] = Said(CROWS)
    clock = Clock()
    search = merged(
        clock, [make_searxng_engine(server.base)], [make_duckduckgo_engine(server.base)]
    )
    first = search.search_web(fetcher, "crows", 5)
    assert [hit.title for hit in first.hits] == ["Crows & jays", "Jays"]
    (failure,) = first.failures
    assert failure.outcome == "search_quota"
    assert f"searxng:{server.base} was passed over" in failure.detail
    assert clock.waits == []

    again = search.search_web(fetcher, "jays", 5)
    assert "left alone for 60 s" in again.failures[0].detail
    assert server.paths() == ["/search", "/html/", "/html/"]
    clock.now = 61.0
    server.routes["/search"] = says(SEARXNG)
    assert search.search_web(fetcher, "rooks", 5).failures == ()


def test_an_engine_that_blocks_is_left_alone_though_it_names_no_time(
    server: Stage, fetcher: Fetcher
) -> None:
    server.routes["/html/"] = Said(CHALLENGE, status=202)
    server.routes["/w/api.php"] = says(WIKIPEDIA)
    clock = Clock()
    search = merged(
        clock, [make_duckduckgo_engine(server.base)], [make_wikipedia_engine("en", server.base)]
    )
    for _ in range(2):
        results = search.search_web(fetcher, "hooded crow", 2)
        assert results.hits[0].title == "Hooded crow"
        assert "duckduckgo" in results.failures[0].detail
    assert server.paths().count("/html/") == 1
    clock.now = 299.0
    search.search_web(fetcher, "hooded crow", 2)
    assert server.paths().count("/html/") == 1
    clock.now = 301.0
    search.search_web(fetcher, "hooded crow", 2)
    assert server.paths().count("/html/") == 2


def test_engines_of_a_tier_are_merged_and_the_next_is_not_asked(
    server: Stage, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "brave-secret")
    server.routes["/search"] = says(SEARXNG)
    server.routes["/res/v1/web/search"] = says(BRAVE)
    engines = [make_searxng_engine(server.base), make_brave_engine(server.base)]
    search = merged(Clock(), engines, [make_duckduckgo_engine(server.base)])
    found = search.search_web(fetcher, "crows", 5).hits
    assert [hit.url for hit in found] == ["https://birds.example/crow", "https://birds.example/jay"]
    assert sorted(server.paths()) == ["/res/v1/web/search", "/search"]


def test_a_tier_that_finds_nothing_leaves_it_to_the_next(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/html/"] = Said(NOTHING)
    engines = [[make_duckduckgo_engine(server.base)], [make_wikipedia_engine("en", server.base)]]
    server.routes["/w/api.php"] = says(WIKIPEDIA)
    assert merged(Clock(), *engines).search_web(fetcher, "hooded crow", 2).hits
    server.routes["/w/api.php"] = Said("no", status=500)
    results = merged(Clock(), *engines).search_web(fetcher, "hooded crow", 2)
    assert results.hits == []  # one engine did answer
    assert [failure.outcome for failure in results.failures] == ["search_failed"]


def test_all_engines_that_fail_are_named(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/html/"] = Said(CHALLENGE, status=202)
    server.routes["/w/api.php"] = Said("no", status=500)
    engines = [[make_duckduckgo_engine(server.base)], [make_wikipedia_engine("en", server.base)]]
    with pytest.raises(Failed) as caught:
        merged(Clock(), *engines).search_web(fetcher, "crows", 2)
    assert caught.value.failure.outcome == "search_failed"
    assert "duckduckgo was passed over" in caught.value.failure.detail
    assert "HTTP 500" in caught.value.failure.detail


def test_auto_takes_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)

    def tiers(name: str = "auto") -> list[list[str]]:
        search = make_web_search(name)
        assert isinstance(search, MergedSearch)
        assert search.name == "auto"  # so that what was found replays whatever is configured
        return [[engine.name for engine in tier] for tier in search.tiers]

    keyless = [["duckduckgo"], ["wikipedia:en"]]
    assert tiers() == keyless
    monkeypatch.setenv("BRAVE_API_KEY", " ")
    assert tiers() == keyless
    monkeypatch.setenv("BRAVE_API_KEY", "key")
    assert tiers() == [["brave"], *keyless]
    named = tiers("searxng:https://search.example/,auto")
    assert named == [["searxng:https://search.example", "brave"], *keyless]


def test_engines_joined_by_commas_are_merged() -> None:
    search = make_web_search("duckduckgo, wikipedia:de")
    assert isinstance(search, MergedSearch)
    assert [engine.name for engine in search.tiers[0]] == ["duckduckgo", "wikipedia:de"]
    with pytest.raises(Failed, match="unknown_engine"):
        make_web_search("duckduckgo,altavista")


def test_what_was_found_replays_offline_without_the_engines(
    server: Stage, fetcher: Fetcher, tmp_path: Path
) -> None:
    server.routes["/html/"] = Said(CHALLENGE, status=202)
    server.routes["/search"] = says({"results": [{"url": f"{server.base}/crow", "title": "Crow"}]})
    server.routes["/crow"] = Said("<title>Crow</title><p>The crow keeps seven walnuts.</p>")
    search = merged(
        Clock(), [make_duckduckgo_engine(server.base)], [make_searxng_engine(server.base)]
    )
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        web = WebLibrary(search, archive, fetcher)
        found = web.search("crows", 3)
        page = web.fetch(found[0].url)
        assert [failure.outcome for failure in web.failures] == ["search_blocked"]
        visits = len(server.visits)
        offline = WebLibrary(make_auto_search(), archive, fetcher, offline=True)
        assert offline.search("crows", 3) == found
        assert offline.fetch(found[0].url) == page
        assert len(server.visits) == visits


def test_requests_carry_the_contact_address(server: Stage) -> None:
    server.routes["/html/"] = Said(CROWS)
    agent = build_user_agent("https://birds.example/bot")
    with Fetcher(allow_private=True, user_agent=agent) as fetcher:
        make_duckduckgo_engine(server.base).search(fetcher, "crows", 1)
    sent = server.visits[0].headers["user-agent"]
    assert sent.startswith("rookery/")
    assert sent.endswith("; contact: https://birds.example/bot)")
    assert parse_product_token(sent) == "rookery"
    assert build_user_agent("") == USER_AGENT


@pytest.mark.parametrize("contact", ["me", "a@b.c\r\nX: y", "a@b.c) evil", "ä@b.c", "a@b.c d@e.f"])
def test_what_is_no_contact_address_is_refused(contact: str) -> None:
    with pytest.raises(Failed, match="bad_contact"):
        build_user_agent(contact)
