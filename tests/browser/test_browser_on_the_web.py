"""The text browser over real sockets: a server's pages, a PDF, changes, redirects and refusals."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pdf_files import write_pdf
from stage import Said, Stage, stage

from rookery.browser.browser import BrowseResult, browse_library
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.library.call_recording import CallRecording, RecordingLibrary, ReplayLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import WebLibrary, make_searxng_engine
from rookery.network.fetcher import Fetcher
from rookery.quotes.verification import check_quote
from rookery.records import Library, Question


@pytest.fixture
def site() -> Iterator[Stage]:
    with stage() as web_stage:
        visits = iter(range(1, 100))
        web_stage.routes["/robots.txt"] = Said("", "text/plain")
        web_stage.routes["/search"] = lambda visit: Said(
            f'{{"results": [{{"url": "{web_stage.base}/page", "title": "Crows",'
            ' "content": "of crows"},'
            f' {{"url": "https://www.reddit.com/r/crows", "title": "Copied"}}]}}',
            "application/json",
        )
        web_stage.routes["/page"] = Said(
            "<title>Crows</title><p><a href='/gone'>gone</a> <a href='/paper.pdf'>paper</a>"
            " <a href='/news'>news</a> <a href='/moved'>moved</a> <a href='/film'>film</a></p>"
        )
        web_stage.routes["/paper.pdf"] = Said(
            write_pdf([["Crows count to four."], ["Some count further."]], "Counting"),
            "application/pdf",
        )
        web_stage.routes["/news"] = lambda visit: Said(
            f"<p>Edition {next(visits)} of the news.</p>"
        )
        web_stage.routes["/moved"] = Said("", status=301, headers=(("Location", "/page"),))
        web_stage.routes["/film"] = Said(b"\0" * 99, "video/mp4")
        yield web_stage


COMMANDS = (
    "Search crows", "Quote: of crows", "Clicked on link 0", "Clicked on link 1",
    "Quote: some COUNT further.", "Back", "Clicked on link 0", "Back", "Clicked on link 2",
    "Quote: edition 1", "Back", "Clicked on link 2", "Quote: edition 2", "Back",
    "Clicked on link 3", "Clicked on link 4", "End: Answer",
    "They count [1]; the news changes [2][3].",
)  # fmt: skip


def run(library: Library) -> tuple[list[Observation], BrowseResult]:
    flow = browse_library(BrowserTask(Question("1", "Can crows count?")), library)
    shown = [next(flow)]
    for command in COMMANDS:
        try:
            shown.append(flow.send(command))
        except StopIteration as ended:
            return shown, ended.value
    raise AssertionError("the session goes on")


def test_a_session_on_the_web_and_its_replay_with_the_server_gone(
    tmp_path: Path, site: Stage
) -> None:
    with (
        PageArchive(tmp_path / "archive.sqlite") as archive,
        CallRecording(tmp_path / "recording.sqlite") as recording,
        Fetcher(allow_private=True) as fetcher,
    ):
        recording.begin_session("one", b"{}")
        web = WebLibrary(make_searxng_engine(site.base), archive, fetcher)
        shown, browsed = run(RecordingLibrary(recording, web, "one"))
    visited = len(site.visits)

    assert shown[1].text == "【0†Crows†127.0.0.1】\nof crows"
    assert "only a page that was opened" in shown[2].note
    assert shown[4].title == "Counting (127.0.0.1)"
    assert shown[4].text == "Crows count to four.\n\nSome count further."
    assert "404" in shown[7].text
    assert shown[15].title == "Crows (127.0.0.1)"
    assert "(unsupported_type)" in shown[16].text
    assert [quote.text for quote in browsed.quotes] == [
        "Some count further.", "Edition 1", "Edition 2",
    ]  # fmt: skip
    assert [failure.outcome for failure in browsed.failures] == ["http_404", "unsupported_type"]

    with CallRecording(tmp_path / "recording.sqlite") as recording:
        assert run(ReplayLibrary(recording, "one")) == (shown, browsed)
        pages = {(page.url, page.digest): page for page in recording.archive.iter_pages()}
        for quote in browsed.quotes:
            assert check_quote(quote, pages[quote.url, quote.digest]).verified
    assert len(site.visits) == visited
