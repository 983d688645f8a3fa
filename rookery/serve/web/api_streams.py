"""Bodies of answers: JSON at once, or server-sent events one by one.

It knows nothing of what they say.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

Frames = AsyncGenerator[tuple[str, Any], None]
"""the name of each event, empty for none, and what it says: a record, or a line as it is"""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""so that no proxy holds events back"""


def json(body: Any, status: int = 200) -> Response:
    """A record as a body."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def stream(frames: Frames) -> Response:
    """Events as they come. A reader who goes away closes `frames`."""
    return StreamingResponse(_lines(frames), headers=HEADERS, media_type="text/event-stream")


async def _lines(frames: Frames) -> AsyncIterator[bytes]:
    try:
        async for name, said in frames:
            head = f"event: {name}\n".encode() if name else b""
            body = said.encode() if isinstance(said, str) else msgspec.json.encode(said)
            yield b"%sdata: %s\n\n" % (head, body)
    finally:
        await frames.aclose()
