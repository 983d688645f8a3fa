"""A response while it comes about: what happened becomes its items, and the events that tell them.

Nothing is told that could be taken back: the text comes once its quotes are checked. What is
answered at once is made in the same way, and its events dropped. It knows nothing of requests.
"""

import re
import secrets
from collections.abc import Iterator
from typing import Any, Literal

from rookery.browse.commands import parse
from rookery.serve.web.api_ask import About, Addresses, Heard, about, declining
from rookery.serve.web.api_cited import Cited, cited
from rookery.serve.web.api_door import Call
from rookery.serve.web.api_errors import Refused
from rookery.serve.web.api_response_items import (
    FindInPage,
    Given,
    Item,
    Message,
    OpenPage,
    OutputText,
    RefusalPart,
    Response,
    ResponseFailure,
    Search,
    SearchSource,
    UrlCitation,
    WebSearchCall,
)
from rookery.serve.web.wanted import Answered

Told = dict[str, Any]
PIECE = re.compile(r"\S+\s*|\s+")
PIECES = 8
"""words in one event"""


class Writing:
    """One response, added to as things happen."""

    def __init__(self, call: Call, given: Given, passed: tuple[str, ...]) -> None:
        self.given = given
        self._call = call
        self._passed = passed
        self._addresses = Addresses(call)
        self._output: list[Item] = []
        self._under_way: dict[tuple[str, str], int] = {}
        self._at = ""
        self._about: About | None = None
        self._number = -1

    def begun(self) -> Iterator[Told]:
        """That it is under way."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self.response("in_progress"))

    def told(self, each: Heard | Answered) -> Iterator[Told]:
        """What happened, as items and the events that tell them."""
        return self._answered(each) if isinstance(each, Answered) else self._heard(each)

    def _heard(self, each: Heard) -> Iterator[Told]:
        """The items of something that happened, and their events."""
        data = each.data
        if each.kind == "searching":
            search = Search(data["query"], [data["query"]], [])
            yield from self._begin("search", data["query"], search)
        elif each.kind == "found":
            urls = [SearchSource(self._addresses.named(hit["url"])) for hit in data["hits"]]
            yield from self._end("search", data["query"], "completed", urls)
        elif each.kind == "opening":
            page = OpenPage(self._addresses.named(data["url"]))
            yield from self._begin("page", data["url"], page)
        elif each.kind == "opened":
            self._at = self._addresses.named(data["url"])
            yield from self._end("page", data["url"], "completed")
        elif each.kind == "failed":
            kind = "page" if ("page", data["what"]) in self._under_way else "search"
            yield from self._end(kind, data["what"], "failed")
        elif each.kind == "saying":
            yield from self._said(data["command"])

    def _answered(self, answered: Answered) -> Iterator[Told]:
        """The message, and its events."""
        passed = tuple(
            f"tools[{n}]"
            for n, tool in enumerate(self.given.tools)
            if not tool.type.startswith("web_search")
        )
        self._about = about(self._call, answered, self._passed + passed)
        for kind, what in list(self._under_way):  # what was opened and never came
            yield from self._end(kind, what, "failed")
        refusal, answer = declining(answered.episode), answered.episode.answer
        message = Message(f"msg_{secrets.token_hex(16)}", "in_progress", [])
        index = len(self._output)
        self._output.append(message)
        yield self._event("response.output_item.added", output_index=index, item=message)
        at = {"item_id": message.id, "output_index": index, "content_index": 0}
        if refusal or answer is None:
            part: OutputText | RefusalPart = RefusalPart(refusal)
            yield from self._refusal(refusal, at)
        else:
            text = cited(answer, self._about.sources, self.given.look)
            part = OutputText(text.text, annotations(text), [])
            yield from self._text(text, at)
        yield self._event("response.content_part.done", **at, part=part)
        message.content, message.status = [part], "completed"
        yield self._event("response.output_item.done", output_index=index, item=message)

    def ended(self) -> Told:
        """That it is complete."""
        return self._event("response.completed", response=self.response("completed"))

    def failed(self, refused: Refused) -> Told:
        """That it came to nothing."""
        response = self.response("failed")
        response.error = ResponseFailure(refused.detail.code or "server_error", str(refused))
        return self._event("response.failed", response=response)

    def response(self, status: Literal["in_progress", "completed", "failed"]) -> Response:
        """The response as it stands."""
        given = self.given
        tools = tuple(tool for tool in given.tools if tool.type.startswith("web_search"))
        return Response(
            given.id,
            given.created_at,
            status,
            given.model,
            list(self._output),
            tools,
            given.instructions,
            given.metadata,
            given.store,
            self._about,
        )

    def _begin(
        self, kind: str, what: str, action: Search | OpenPage | FindInPage
    ) -> Iterator[Told]:
        index, item = (
            len(self._output),
            WebSearchCall(f"ws_{secrets.token_hex(16)}", action, "in_progress"),
        )
        self._output.append(item)
        self._under_way[kind, what] = index
        yield self._event("response.output_item.added", output_index=index, item=item)
        for state in ("in_progress", "searching"):
            name = f"response.web_search_call.{state}"
            yield self._event(name, output_index=index, item_id=item.id)

    def _end(
        self,
        kind: str,
        what: str,
        status: Literal["completed", "failed"],
        found: list[SearchSource] | None = None,
    ) -> Iterator[Told]:
        index = self._under_way.pop((kind, what), -1)
        item = self._output[index] if index >= 0 else None
        if not isinstance(item, WebSearchCall):
            return
        item.status = status
        if found and isinstance(item.action, Search):
            item.action.sources = found
        if status == "completed":
            name = "response.web_search_call.completed"
            yield self._event(name, output_index=index, item_id=item.id)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _said(self, said: str) -> Iterator[Told]:
        """What a model types into the text browser; all else is told by the library."""
        command = parse(said)
        if command and command.verb == "Find in page:":
            yield from self._begin("find", command.argument, FindInPage(command.argument, self._at))
            yield from self._end("find", command.argument, "completed")

    def _text(self, text: Cited, at: Told) -> Iterator[Told]:
        empty = OutputText("", [], [])
        yield self._event("response.content_part.added", **at, part=empty)
        marks, done, told = annotations(text), 0, 0
        for piece in pieces(text.text):
            delta: Told = {**at, "delta": piece, "logprobs": []}
            yield self._event("response.output_text.delta", **delta)
            done += len(piece)
            while told < len(marks) and marks[told].end_index <= done:
                mark: Told = {**at, "annotation_index": told, "annotation": marks[told]}
                yield self._event("response.output_text.annotation.added", **mark)
                told += 1
        yield self._event("response.output_text.done", **at, text=text.text, logprobs=[])

    def _refusal(self, refusal: str, at: Told) -> Iterator[Told]:
        yield self._event("response.content_part.added", **at, part=RefusalPart(""))
        for piece in pieces(refusal):
            yield self._event("response.refusal.delta", **at, delta=piece)
        yield self._event("response.refusal.done", **at, refusal=refusal)

    def _event(self, kind: str, **more: Any) -> Told:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **more}


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of a few words, which are the text when put together."""
    words = PIECE.findall(text)
    for at in range(0, len(words), PIECES):
        yield "".join(words[at : at + PIECES])


def annotations(text: Cited) -> list[UrlCitation]:
    """One for each mark."""
    return [
        UrlCitation(mark.start, mark.end, mark.source.title, mark.source.url, mark.source.quote)
        for mark in text.marks
    ]
