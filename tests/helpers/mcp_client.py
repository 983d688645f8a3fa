"""The official client of MCP, of either major version, in the full conversation with a server.

Run by a Python that has the package `mcp` and nothing of ours: `mcp_client.py MODE URL` or
`mcp_client.py MODE COMMAND ...`, MODE being 1 for version 1.x, and `auto` or `legacy` for 2.x.
It prints what every call came to, as one JSON object.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

Json = dict[str, Any]
Call = Callable[..., Awaitable[Json]]


async def conversation(call: Call) -> Json:
    """Two sessions side by side: search, open, find, quote; then answer, verify, fetch."""
    reply: Json = {}
    reply["search"] = await call("search", query="why do crows bring gifts", k=3)
    reply["search again"] = await call("search", query="jays bury acorns", k=3)
    one = reply["search"]["structuredContent"]["session"]
    other = reply["search again"]["structuredContent"]["session"]
    reply["open"] = await call("open", session=one, link=0)
    reply["open again"] = await call("open", session=other, link=0)
    reply["find"] = await call("find", session=one, text="A gift needs a giver")
    reply["quote"] = await call("quote", session=one, text="A gift needs a giver")
    window = reply["open again"]["structuredContent"]
    span = {"start": window["start"], "end": window["start"] + 40}
    reply["quote again"] = await call("quote", session=other, **span)
    reply["answer"] = await call("answer", question="Why do crows bring gifts to people?")
    answered = reply["answer"]["structuredContent"]["answer"]
    reply["verify"] = await call("verify", answer=json.dumps(answered))
    reply["verify markdown"] = await call(
        "verify", answer=reply["quote"]["structuredContent"]["markdown"]
    )
    result = reply["search"]["structuredContent"]["results"][0]
    reply["fetch"] = await call("fetch", id=result["id"])
    reply["wrong"] = await call("open", session=one, link=9999)
    return reply


async def by_session(streams: tuple[Any, ...]) -> Json:
    """Version 1.x, over whatever carries it."""
    async with import_module("mcp").ClientSession(*streams[:2]) as session:
        agreed = await session.initialize()
        listed = await session.list_tools()
        await session.send_ping()

        async def call(name: str, **arguments: Any) -> Json:
            return dumped(await session.call_tool(name, arguments))

        reply = await conversation(call)
        return {**reply, "version": agreed.protocolVersion, "tools": dumped(listed)["tools"]}


async def by_client(server: Any, mode: str) -> Json:
    """Version 2.x."""
    async with import_module("mcp").Client(server, mode=mode) as client:
        listed = await client.list_tools()

        async def call(name: str, **arguments: Any) -> Json:
            return dumped(await client.call_tool(name, arguments))

        reply = await conversation(call)
        version = client.session.protocol_version
        return {**reply, "version": version, "tools": dumped(listed)["tools"]}


def dumped(result: Any) -> Json:
    """What came, as it stands on the wire."""
    plain: Json = result.model_dump(by_alias=True, mode="json")
    return plain


async def main(mode: str, where: list[str]) -> None:
    """The conversation, printed."""
    mcp = import_module("mcp")
    server: Any = where[0]
    if not where[0].startswith("http"):
        server = mcp.StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ))
    if mode != "1":
        print(json.dumps(await by_client(server, mode)))  # noqa: T201
        return
    async with AsyncExitStack() as stack:
        if isinstance(server, str):
            carried = import_module("mcp.client.streamable_http").streamable_http_client(server)
        else:
            carried = import_module("mcp.client.stdio").stdio_client(server)
        streams = await stack.enter_async_context(carried)
        print(json.dumps(await by_session(streams)))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
