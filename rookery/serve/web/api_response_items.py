"""What a response of OpenAI's API consists of, as far as it is written here: the records.

Of `output`, a web_search_call is a search, a page that was opened or a text that was looked for in
it; a message holds the answer or the refusal. It knows nothing of how they come about.
"""

from typing import Any, Literal

from msgspec import Struct

from rookery.serve.web.api_ask import About
from rookery.serve.web.api_cited import Look

Status = Literal["in_progress", "searching", "completed", "failed"]


class Filters(Struct):
    """Where a search may look."""

    allowed_domains: list[str] | None = None
    """names of hosts; those below them are allowed too"""


class WebSearchTool(Struct):
    """A tool that a request offers. Only web_search says anything here."""

    type: str
    filters: Filters | None = None
    external_web_access: bool | None = None
    """false: nothing is fetched now; what was kept answers"""


class SearchSource(Struct, tag="url"):
    """A page that a search found."""

    url: str


class Search(Struct, tag="search"):
    """A search."""

    query: str
    queries: list[str]
    sources: list[SearchSource]


class OpenPage(Struct, tag="open_page"):
    """A page opened."""

    url: str


class FindInPage(Struct, tag="find_in_page"):
    """A text looked for in the page that is open."""

    pattern: str
    url: str


class WebSearchCall(Struct, tag="web_search_call"):
    """One thing done on the way to an answer."""

    id: str
    action: Search | OpenPage | FindInPage
    status: Status


class UrlCitation(Struct, tag="url_citation"):
    """text[start_index:end_index] is the mark that cites this page."""

    start_index: int
    end_index: int
    """exclusive"""
    title: str
    url: str
    cited_text: str
    """the quote, word for word"""


class OutputText(Struct, tag="output_text"):
    """The answer."""

    text: str
    annotations: list[UrlCitation]
    logprobs: list[Any]


class RefusalPart(Struct, tag="refusal"):
    """Why there is no answer."""

    refusal: str


class Message(Struct, tag="message"):
    """What is said."""

    id: str
    status: Literal["in_progress", "completed"]
    content: list[OutputText | RefusalPart]
    role: Literal["assistant"] = "assistant"


Item = WebSearchCall | Message


class ResponseFailure(Struct):
    """Why a response that had begun came to nothing."""

    code: str
    message: str


class Given(Struct, frozen=True):
    """What of a request stands in its response again, and how the text is marked."""

    id: str
    created_at: int
    model: str
    tools: tuple[WebSearchTool, ...]
    instructions: str | None
    metadata: dict[str, str]
    store: bool
    look: Look


class Response(Struct):
    """A response."""

    id: str
    created_at: int
    """seconds since 1970"""
    status: Literal["in_progress", "completed", "failed"]
    model: str
    output: list[Item]
    tools: tuple[WebSearchTool, ...]
    instructions: str | None
    metadata: dict[str, str]
    store: bool
    rookery: About | None
    error: ResponseFailure | None = None
    incomplete_details: None = None
    object: Literal["response"] = "response"
    parallel_tool_calls: bool = False
    tool_choice: Literal["auto"] = "auto"
    temperature: None = None
    top_p: None = None
    previous_response_id: None = None
    usage: None = None
