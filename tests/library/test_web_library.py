"""The web as a library: four engines against a loopback server that plays their APIs.

The answers have the shapes of the public documentation: MediaWiki's list=search, SearXNG's
format=json, and Brave's web search.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import Said, Stage, Visit, stage

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import (
    SearchEngine,
    WebLibrary,
    make_brave_engine,
    make_searxng_engine,
    make_wikipedia_engine,
)
from rookery.network.fetcher import Fetcher
from rookery.records import Hit

WIKIPEDIA = {
    "batchcomplete": True,
    "continue": {"sroffset": 2, "continue": "-||"},
    "query": {
        "searchinfo": {"totalhits": 812},
        "search": [
            {
                "ns": 0,
                "title": "Hooded crow",
                "pageid": 178234,
                "size": 29000,
                "wordcount": 3100,
                "snippet": 'The hooded <span class="searchmatch">crow</span> &amp; its kin',
                "timestamp": "2024-05-01T10:00:00Z",
            },
            {"ns": 0, "title": "AC/DC (Crow's é?)", "pageid": 2, "snippet": ""},
        ],
    },
}
SEARXNG = {
    "query": "crows",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://birds.example/crow",
            "title": "Crows",
            "content": "About crows",
            "engine": "duckduckgo",
            "engines": ["duckduckgo", "qwant"],
            "score": 4.0,
            "category": "general",
        },
        {"url": "magnet:?xt=1", "title": "Not a page", "content": ""},
        {"url": "https://birds.example/crow", "title": "Crows again", "content": ""},
        {"url": "http://[broken", "title": "Broken"},
        "not even an object",
        {"url": "https://birds.example/jay", "title": "", "content": None},
    ],
    "answers": [],
    "suggestions": [],
    "unresponsive_engines": [["google", "CAPTCHA"]],
}
BRAVE = {
    "type": "search",
    "query": {"original": "crows", "more_results_available": True},
    "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": False}]},
    "web": {
        "type": "search",
        "results": [
            {
                "type": "search_result",
                "title": "Crows",
                "url": "https://birds.example/crow",
                "description": "All about <strong>crows</strong>",
                "language": "en",
                "profile": {"name": "Birds", "url": "https://birds.example"},
            }
        ],
    },
}
PATHS = {
    "wikipedia": "/w/api.php",
    "searxng": "/search",
    "brave": "/res/v1/web/search",
}
ANSWERS = {"wikipedia": WIKIPEDIA, "searxng": SEARXNG, "brave": BRAVE}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "brave-secret")


@pytest.fixture
def server() -> Iterator[Stage]:
    with stage() as server:
        yield server


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(allow_private=True) as fetcher:
        yield fetcher


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[PageArchive]:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        yield archive


def engine(name: str, base: str) -> SearchEngine:
    return {
        "wikipedia": lambda: make_wikipedia_engine("en", base),
        "searxng": lambda: make_searxng_engine(base),
        "brave": lambda: make_brave_engine(base),
    }[name]()


def says(answer: object, status: int = 200) -> Said:
    return Said(json.dumps(answer), "application/json", status)


def test_wikipedia(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/w/api.php"] = says(WIKIPEDIA)
    hits = engine("wikipedia", server.base).search(fetcher, "hooded crow?", 2)
    assert hits == [
        Hit(f"{server.base}/wiki/Hooded_crow", "Hooded crow", "The hooded crow & its kin"),
        Hit(f"{server.base}/wiki/AC/DC_(Crow%27s_%C3%A9%3F)", "AC/DC (Crow's é?)", ""),
    ]
    (visit,) = server.visits
    assert visit.query["srsearch"] == "hooded crow"
    assert visit.query["srlimit"] == "2"
    assert visit.query["format"] == "json"


def test_wikipedia_is_asked_again_for_any_of_the_words(server: Stage, fetcher: Fetcher) -> None:
    def route(visit: Visit) -> Said:
        return says(WIKIPEDIA if " OR " in visit.query["srsearch"] else EMPTY["wikipedia"])

    server.routes["/w/api.php"] = route
    asked = "Why do crows bring gifts to people?"
    hits = engine("wikipedia", server.base).search(fetcher, asked, 5)
    assert [hit.title for hit in hits] == ["Hooded crow", "AC/DC (Crow's é?)"]
    assert [visit.query["srsearch"] for visit in server.visits] == [
        "crows bring gifts people",
        "crows OR bring OR gifts OR people",
    ]


def test_wikipedia_gets_no_longer_query_than_it_takes(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/w/api.php"] = says(WIKIPEDIA)
    engine("wikipedia", server.base).search(fetcher, "crow " * 1000, 2)
    engine("wikipedia", server.base).search(fetcher, "crow" * 1000, 2)
    words, run = (visit.query["srsearch"] for visit in server.visits)
    assert words == ("crow " * 60).strip()
    assert run == "crow" * 75


def test_languages_are_servers_and_names_of_their_own() -> None:
    assert make_wikipedia_engine("de").name != make_wikipedia_engine("en").name == "wikipedia:en"


def test_searxng(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/search"] = says(SEARXNG)
    assert engine("searxng", server.base + "/").search(fetcher, "crows", 9) == [
        Hit("https://birds.example/crow", "Crows", "About crows"),
        Hit("https://birds.example/jay", "https://birds.example/jay", ""),
    ]
    assert server.visits[0].query == {"q": "crows", "format": "json"}


def test_brave(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/res/v1/web/search"] = says(BRAVE)
    assert engine("brave", server.base).search(fetcher, "crows", 50) == [
        Hit("https://birds.example/crow", "Crows", "All about crows")
    ]
    assert server.visits[0].headers["x-subscription-token"] == "brave-secret"
    assert server.visits[0].query == {"q": "crows", "count": "20"}


@pytest.mark.parametrize("name", PATHS)
def test_no_more_results_than_asked_for(name: str, server: Stage, fetcher: Fetcher) -> None:
    server.routes[PATHS[name]] = says(ANSWERS[name])
    assert len(engine(name, server.base).search(fetcher, "crows", 1)) == 1


EMPTY = {
    "wikipedia": {"batchcomplete": True, "query": {"searchinfo": {}, "search": []}},
    "searxng": {"query": "x", "results": [], "unresponsive_engines": []},
    "brave": {"type": "search", "query": {"original": "x"}},
}


@pytest.mark.parametrize("name", PATHS)
def test_finding_nothing_is_an_empty_list(name: str, server: Stage, fetcher: Fetcher) -> None:
    server.routes[PATHS[name]] = says(EMPTY[name])
    assert engine(name, server.base).search(fetcher, "zzzz", 5) == []


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (Said("<html><h1>Service unavailable</h1>"), "search_failed"),
        (Said("", "application/json"), "search_failed"),
        (Said('{"query": {"search": [', "application/json"), "search_failed"),
        (Said(b"\xff\xfe\x00", "application/json"), "search_failed"),
        (says([]), "search_failed"),
        (says({}), "search_failed"),
        (says({"query": [], "results": {}, "web": [], "items": 3}), "search_failed"),
        (says({"error": {"code": "internal", "message": "oops"}}), "search_failed"),
        (says({"error": {"code": "ratelimited", "info": "Slow down"}}), "search_quota"),
        (Said("<p>Too many requests</p>"), "search_quota"),
        (Said("no", status=500), "search_failed"),
        (Said("no", status=403), "search_failed"),
        (says({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, 429), "search_quota"),
    ],
)
def test_a_search_that_failed_is_never_an_empty_one(
    name: str, said: Said, outcome: str, server: Stage, fetcher: Fetcher
) -> None:
    server.routes[PATHS[name]] = said
    with pytest.raises(Failed) as caught:
        engine(name, server.base).search(fetcher, "crows", 5)
    assert caught.value.failure.outcome == outcome
    assert caught.value.failure.what == "crows"
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_a_failed_search(fetcher: Fetcher) -> None:
    with stage() as gone:
        base = gone.base
    with pytest.raises(Failed) as caught:
        make_wikipedia_engine("en", base).search(fetcher, "crows", 5)
    assert caught.value.failure.outcome == "search_failed"
    assert "refused" in caught.value.failure.detail


def test_refusals_say_what_to_do(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/search"] = Said("no", status=403)
    with pytest.raises(Failed, match=r"search\.formats"):
        make_searxng_engine(server.base).search(fetcher, "crows", 5)
    server.routes["/res/v1/web/search"] = says({"type": "ErrorResponse"}, 422)
    with pytest.raises(Failed, match="BRAVE_API_KEY"):
        make_brave_engine(server.base).search(fetcher, "crows", 5)


def test_engines_that_all_fell_silent_are_a_failure(server: Stage, fetcher: Fetcher) -> None:
    server.routes["/search"] = says({"results": [], "unresponsive_engines": [["a", "CAPTCHA"]]})
    with pytest.raises(Failed, match="CAPTCHA"):
        make_searxng_engine(server.base).search(fetcher, "crows", 5)


def test_a_missing_key_is_said_before_anything_is_sent(
    server: Stage, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BRAVE_API_KEY")
    with pytest.raises(Failed) as caught:
        engine("brave", server.base).search(fetcher, "crows", 5)
    assert caught.value.failure.outcome == "no_key"
    assert "BRAVE_API_KEY" in caught.value.failure.detail
    assert server.visits == []


def test_an_empty_query_is_not_sent(server: Stage, fetcher: Fetcher) -> None:
    with pytest.raises(Failed, match="empty"):
        make_wikipedia_engine("en", server.base).search(fetcher, " \n", 5)
    assert server.visits == []


def little_web(server: Stage) -> None:
    results = [{"url": f"{server.base}{path}", "title": path} for path in ("/crow", "/old")]
    server.routes["/search"] = says({"results": results})
    server.routes["/crow"] = Said(
        '<title>Crow</title><p>The crow keeps seven walnuts. <a href="/jay#top">Jay</a></p>'
    )
    server.routes["/jay"] = Said("<title>Jay</title><p>The jay plants oaks.</p>")
    server.routes["/old"] = Said("", status=302, headers=(("Location", "/new"),))
    server.routes["/new"] = Said("<title>New</title><p>The rook has moved.</p>")


def test_only_what_was_shown_is_opened(
    server: Stage, fetcher: Fetcher, archive: PageArchive
) -> None:
    little_web(server)
    web = WebLibrary(make_searxng_engine(server.base), archive, fetcher)
    for url in (f"{server.base}/crow", f"{server.base}/jay"):
        with pytest.raises(Failed, match="url_not_shown"):
            web.fetch(url)
    assert server.visits == []
    assert [hit.title for hit in web.search("crows", 1)] == ["/crow"]
    with pytest.raises(Failed, match="url_not_shown"):
        web.fetch(f"{server.base}/old")
    assert "walnuts" in web.fetch(f"{server.base}/crow#place").text
    assert "oaks" in web.fetch(f"{server.base}/jay").text
    web.allow_url(f"{server.base}/new#here")
    assert "rook" in web.fetch(f"{server.base}/new").text
    assert web.failures == ()


def test_two_sessions_do_not_share_what_was_shown(
    server: Stage, fetcher: Fetcher, archive: PageArchive
) -> None:
    little_web(server)
    one, other = (WebLibrary(make_searxng_engine(server.base), archive, fetcher) for _ in range(2))
    one.search("crows", 2)
    with pytest.raises(Failed, match="url_not_shown"):
        other.fetch(f"{server.base}/crow")


def test_everything_opened_is_there_again_with_the_network_off(
    server: Stage, fetcher: Fetcher, archive: PageArchive
) -> None:
    little_web(server)
    web = WebLibrary(make_searxng_engine(server.base), archive, fetcher)
    hits = web.search("crows", 1)
    pages = [web.fetch(hits[0].url), web.fetch(f"{server.base}/jay")]
    both = web.search("crows", 2)
    pages.append(web.fetch(f"{server.base}/old"))
    visits = len(server.visits)

    offline = WebLibrary(make_searxng_engine(server.base), archive, fetcher, offline=True)
    assert offline.search("crows", 1) == hits
    assert offline.search("crows", 2) == both
    asked = (hits[0].url, f"{server.base}/jay", f"{server.base}/old")
    assert [offline.fetch(url) for url in asked] == pages
    for call in (lambda: offline.search("jays", 1), lambda: offline.fetch(f"{server.base}/no")):
        offline.allow_url(f"{server.base}/no")
        with pytest.raises(Failed) as caught:
            call()
        assert caught.value.failure.outcome == "not_in_archive"
        assert "without --offline" in caught.value.failure.detail
    assert len(server.visits) == visits


def test_a_page_that_fails_is_recorded(
    server: Stage, fetcher: Fetcher, archive: PageArchive
) -> None:
    little_web(server)
    del server.routes["/crow"]
    web = WebLibrary(make_searxng_engine(server.base), archive, fetcher)
    web.search("crows", 2)
    with pytest.raises(Failed, match="http_404"):
        web.fetch(f"{server.base}/crow")
    assert [failure.outcome for failure in web.failures] == ["http_404"]
