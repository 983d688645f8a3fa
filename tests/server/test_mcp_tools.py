"""The tools of MCP over the bundled pages: the same windows as the text browser's, and limits."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from commands import surroundings
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.browser.browser import browse_library
from rookery.browser.browser_commands import BrowserRules, BrowserTask, parse_command
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.quotes.saved_answers import extract_claimed_quotes
from rookery.quotes.verification import check_claimed_quote
from rookery.records import (
    Answer,
    Block,
    Episode,
    Failure,
    Library,
    Link,
    Page,
    Question,
)
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.mcp.tools import (
    BrowserLimits,
    McpBrowser,
    McpBrowserPool,
    McpLibrary,
    McpTools,
    ToolCaller,
    quote_to_markdown,
)
from rookery.settings import Settings

SMALL = BrowserLimits(window=900, characters=1_500, sessions=3, idle=60.0)
GIFTS = "why do crows bring gifts"


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpLibrary]:
    """The bundled pages."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(tmp_path_factory.mktemp("home")).items():
            patch.setenv(name, value)
        source = McpLibrary(Settings(("rookery:corvids",)))
        yield source
        source.close()


@pytest.fixture
def browser(source: McpLibrary) -> McpBrowser:
    """A browser with small windows."""
    return McpBrowser("b", *source.open_for_browser(), SMALL)


def nobody(request: QuestionRequest) -> AnswerOutcome:
    raise AssertionError("no question is asked here")


ME, OTHER = ToolCaller("me", nobody), ToolCaller("somebody else", nobody)


def call(tools: McpTools, name: str, caller: ToolCaller = ME, **arguments: Any) -> dict[str, Any]:
    """What a tool gives for programs."""
    found: dict[str, Any] = msgspec.to_builtins(tools.call_tool(name, arguments, caller).structured)
    return found


def refused(tools: McpTools, name: str, caller: ToolCaller = ME, **arguments: Any) -> str:
    """The outcome with which a tool fails."""
    with pytest.raises(Failed) as failed:
        tools.call_tool(name, arguments, caller)
    return failed.value.failure.outcome


def test_what_is_remarked_on_an_answer_is_in_its_text(source: McpLibrary) -> None:
    remark = Failure("extract", "citation_noted", "the first two quotes answer differently")
    answer = Answer("Rooks nest in March.", stored_certain=False)
    episode = Episode(Question("1", GIFTS), "extract", answer=answer, failures=(remark,))
    caller = ToolCaller("me", lambda request: AnswerOutcome(episode, ()))
    result = McpTools(source).call_tool("answer", {"question": GIFTS}, caller)
    assert result.text.startswith(
        "A possible answer, to be checked:\n"
        "Note: the first two quotes answer differently\nRooks nest in March."
    )


@pytest.mark.slow
def test_windows_links_finds_and_quotes_are_those_of_the_text_browser(
    source: McpLibrary, browser: McpBrowser
) -> None:
    rules = BrowserRules(window=900, results=20, blocked=(), overlap=0)
    flow = browse_library(BrowserTask(Question("1", ""), rules), source.open_for_browser()[0])
    next(flow)
    for command in (
        f"Search {GIFTS}",
        "Clicked on link 0",
        "Scrolled down 1",
        "Scrolled down 1",
        "Find in page: the",
        "Find in page: the",
        "Quote: A gift needs a giver",
        "Search jays bury acorns",
        "Clicked on link 1",
        "Scrolled down 1",
        "Find in page: jay",
    ):
        theirs = flow.send(command)
        verb, argument = parse_command(command) or ("", "")
        match verb:
            case "Search":
                browser.search(argument)
            case "Clicked on link":
                browser.follow_link(int(argument))
            case "Scrolled down":
                browser.scroll_to(browser.read_window().end, full=False)
            case "Find in page:":
                browser.find(argument)
            case "Quote:":
                assert browser.quote(argument) == theirs.quotes[-1]
        ours = browser.read_window()
        assert (ours.text, ours.start, ours.end) == (theirs.text, theirs.start, theirs.end)
        assert ours.page.url == theirs.url


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_paging_shows_all_of_a_page_once(source: McpLibrary, full: bool) -> None:
    tools = McpTools(source, limits=SMALL)
    session = call(tools, "search", query=GIFTS)["session"]
    window = call(tools, "open", session=session, link=0, full=full)
    shown = [window]
    while (following := window["next_offset"]) is not None:
        window = call(tools, "open", session=session, offset=following)
        assert window["start"] >= following
        shown.append(window)
    assert len(shown) > 3
    page = source.open_archive().find_latest(window["url"])
    assert page is not None
    gaps = [page.text[one["end"] : two["start"]] for one, two in pairwise(shown)]
    blocks = page.iter_shown() if full else page.iter_article()
    visible = [n for block in blocks for n in range(block.start, block.end)]
    covered = {n for window in shown for n in range(window["start"], window["end"])}
    assert not full or not any(gap.strip() for gap in gaps)
    assert set(visible) <= covered


def test_a_window_of_many_links_stays_below_the_limit_and_loses_nothing() -> None:
    words = [f"w{number:04}" for number in range(1_000)]
    text = " ".join(words)
    links = tuple(Link(6 * n, 6 * n + 5, f"https://b{n}.example/") for n in range(1_000))
    page = Page("https://a.example/", "A", text, (Block(0, len(text), "paragraph"),), links)
    browser = McpBrowser("b", Shelf(page), lambda url: None, SMALL)
    browser.open(page.url)
    read, offset, most = "", 0, 0
    while offset < len(text):
        browser.scroll_to(offset, full=False)
        shown = browser.read_window()
        assert offset <= shown.start < shown.end
        read, offset, most = read + shown.text, shown.end, max(most, len(shown.text))
    assert SMALL.characters / 2 < most <= SMALL.characters
    assert re.findall(r"w\d{4}", read) == words


@pytest.mark.slow
def test_fetch_reads_on_where_it_ended(source: McpLibrary) -> None:
    tools = McpTools(source, limits=SMALL)
    result = call(tools, "search", query=GIFTS)["results"][0]
    text, offset = "", 0
    while offset is not None:
        got = call(tools, "fetch", id=result["id"], offset=offset)
        assert len(got["text"]) <= SMALL.characters + 2
        text += got["text"]
        offset = got["metadata"]["next_offset"]
    assert got["url"] == result["url"]
    page = source.open_archive().find_latest(result["url"])
    assert page is not None
    for block in page.iter_article():
        assert "".join(page.text[block.start : block.end].split()) in "".join(text.split())


@settings(max_examples=200, deadline=None)
@given(st.integers(-5, 4_000), st.integers(-5, 4_000))
def test_a_span_is_quoted_verbatim_or_refused(start: int, end: int) -> None:
    text = "".join(f"Word {number} stands here. " for number in range(150))
    page = Page("https://a.example/", "A", text)
    browser = McpBrowser("b", Shelf(page), lambda url: None, BrowserLimits(quoted=500))
    browser.open(page.url)
    stands = 0 <= start < end <= len(text) and bool(text[start:end].strip())
    if stands and end - start <= 500:
        assert browser.quote_span(start, end) == page.quote_whole_words(start, end)
        return
    with pytest.raises(Failed, match="too_long" if stands else "nothing_to_quote"):
        browser.quote_span(start, end)


class Shelf(Library):
    """One page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def search(self, query: str, k: int) -> list[Any]:
        return []

    def fetch(self, url: str) -> Page:
        return self.page


@pytest.mark.slow
def test_a_session_belongs_to_one_who_asks(source: McpLibrary) -> None:
    tools = McpTools(source)
    found = call(tools, "search", query=GIFTS)
    assert refused(tools, "open", OTHER, session=found["session"], link=0) == "no_session"
    assert refused(tools, "fetch", OTHER, id=found["results"][0]["id"]) == "no_session"
    assert call(tools, "open", session=found["session"], link=0)["session"] == found["session"]


@pytest.mark.slow
def test_the_session_idle_longest_makes_room_and_idle_ones_are_closed(source: McpLibrary) -> None:
    clock = Clock()
    browsers = McpBrowserPool(source, SMALL, clock)
    first, second, third = (browsers.open_session("me") for _ in range(3))
    with browsers.use_session(first, "me"):
        pass
    browsers.open_session("me")
    with pytest.raises(Failed, match="to begin a new one"), browsers.use_session(second, "me"):
        pass
    clock.now = 59.0
    with browsers.use_session(third, "me"):
        pass
    clock.now = 61.0
    with pytest.raises(Failed, match="no_session"), browsers.use_session(first, "me"):
        pass
    with browsers.use_session(third, "me"):
        pass


def test_an_id_stays_with_its_page_through_later_searches(source: McpLibrary) -> None:
    tools = McpTools(source)
    first = call(tools, "search", query=GIFTS)
    session = first["session"]
    for query in ("jays", "ravens planning", GIFTS, "magpie mirror"):
        call(tools, "search", query=query, session=session)
    again = call(tools, "search", query=GIFTS, session=session)
    assert [each["id"] for each in again["results"]] == [each["id"] for each in first["results"]]
    for result in first["results"][:4]:
        assert call(tools, "fetch", id=result["id"])["url"] == result["url"]
    assert refused(tools, "fetch", id=f"{session}-999") == "unknown_id"
    assert refused(tools, "fetch", id=f"{session}-x") == "unknown_id"


def test_results_page_on(source: McpLibrary) -> None:
    tools = McpTools(source)
    every = call(tools, "search", query="crows", k=20)
    assert every["next_offset"] is None
    some, offset = [], 0
    while offset is not None:
        part = call(tools, "search", query="crows", k=3, offset=offset, session=every["session"])
        some += part["results"]
        offset = part["next_offset"]
    assert some == list(every["results"])
    assert every["total"] == len(some)


def test_what_was_not_opened_cannot_be_quoted_and_what_is_hidden_neither(
    source: McpLibrary,
) -> None:
    tools = McpTools(source)
    session = call(tools, "search", query=GIFTS)["session"]
    assert refused(tools, "quote", session=session, text="gift") == "not_quotable"
    assert refused(tools, "open", session=session, link=77) == "no_link"
    page = next(page for page in pages(tools, session) if any(b.hidden for b in page.blocks))
    block = next(block for block in page.blocks if block.hidden)
    call(tools, "open", session=session, url=page.url)
    start, end = block.start, block.end
    assert refused(tools, "quote", session=session, start=start, end=end) == "hidden_text"
    assert refused(tools, "open", session=session, offset=10**9) == "past_the_end"
    assert refused(tools, "open", session=session, offset=-1) == "past_the_end"


def pages(tools: McpTools, session: str) -> Iterator[Page]:
    """The pages of some searches."""
    for query in ("crows", "jays", "ravens", "sharing food", "gifts", "rookery notes"):
        for result in call(tools, "search", query=query, k=20, session=session)["results"]:
            page = tools.source.open_archive().find_latest(result["url"])
            assert page is not None
            yield page


def test_only_who_runs_the_server_can_let_a_typed_address_in(source: McpLibrary) -> None:
    typed = McpLibrary(source.settings, any_address=True)
    assert typed.uses_network
    told = {tool["name"]: tool for tool in McpTools(typed).describe_tools()}["open"]
    assert told["annotations"]["openWorldHint"]
    assert "user gave" in told["description"]
    # It is let through to the network, which refuses what is no public address.
    assert refused(McpTools(typed), "open", url="http://127.0.0.1:9/") == "blocked_address"
    assert refused(McpTools(source), "open", url="http://127.0.0.1:9/") == "url_not_shown"
    typed.close()


def test_a_copied_quote_keeps_the_ends_of_blocks() -> None:
    html = b"""<h2>Who pays</h2><table><tr><td>Baker</td><td>nothing at all</td></tr>
    <tr><td>Dyer</td><td>9 crowns</td></tr></table><ol><li>Keep off</li><li>Go home</li></ol>"""
    page = read_page(html, "https://a.example/", "text/html")
    copied = quote_to_markdown(page.quote(0, len(page.text))).encode()
    [claimed] = extract_claimed_quotes(copied, "answer.md")
    assert check_claimed_quote(claimed, [page]).verified


def test_verify_tells_of_each_source_of_gaps_and_of_forged_sources(source: McpLibrary) -> None:
    """For a caller to whom the server's own addresses name pages, as over HTTP."""
    at = "https://here.example/pages/"

    def name_source(url: str, digest: str) -> str:
        return f"{at}{digest}" if digest else url.rpartition("/")[2]

    def meant(address: str) -> str:
        return address.removeprefix(at) if address.startswith(at) else ""

    tools, caller = McpTools(source), ToolCaller("me", nobody, name_source, meant)

    def verified(answer: str | dict[str, Any], **options: Any) -> dict[str, Any]:
        return call(tools, "verify", caller, answer=answer, **options)

    sessions = [call(tools, "search", caller, query=GIFTS)["session"] for _ in range(2)]
    session = sessions[1]
    window, other = (
        call(tools, "open", caller, session=each, link=link) for link, each in enumerate(sessions)
    )
    made = call(tools, "quote", caller, session=session, start=other["start"], end=other["end"])
    quote = made["quote"]
    assert verified(made["markdown"])["failed"] == 0
    answer = {"text": "Some say so. I agree.", "quotes": [quote]}
    found = verified(answer)
    assert [each["outcome"] for each in found["checked"]] == ["verified", *["not_judged"] * 2]
    assert (found["verified"], found["failed"]) == (1, 0)
    for url in (window["url"], "https://gone.example/"):
        forged = verified({**answer, "quotes": [{**quote, "url": url}]})
        assert (forged["checked"][0]["outcome"], forged["failed"]) == ("wrong_source", 1)
        assert "file:///" not in str(forged)
    page, lacking = (source.open_archive().find_page(each["digest"]) for each in (other, window))
    assert page is not None
    assert lacking is not None
    said = [page.text[block.start : block.end] for block in page.iter_article()]
    words = max((each for each in said if each not in lacking.text), key=len).split()
    gap = f"“{' '.join(words[:5])} … {' '.join(words[-5:])}” [it]({other['url']})"
    [elided] = verified(gap)["checked"]
    assert elided["outcome"] == "elided"
    assert elided["left_out"][0].startswith(" ".join(words[5:8]))
    assert verified(gap)["failed"] == 1
    whole = " ".join(words[:9])
    two = f"“{whole}” [a]({other['url']})[b]({window['url']})"
    outcomes = [each["outcome"] for each in verified(two)["checked"]]
    assert (outcomes, verified(two)["failed"]) == (["verified", "not_found"], 1)
