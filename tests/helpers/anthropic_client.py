"""The official client of Anthropic, asking a server: `anthropic_client.py URL KEY`.

Run by a Python that has the package `anthropic` and nothing of ours. It reads the arguments of
calls from standard input, one JSON object a line, and prints what each came to, whole and streamed,
or the error, as one JSON object a line.
"""

import json
import sys
from importlib import import_module
from typing import Any

Json = dict[str, Any]


def dumped(message: Any) -> Json:
    """What came, as it stands on the wire."""
    plain: Json = message.model_dump(mode="json")
    return plain


def main(address: str, key: str) -> None:
    """Each call, printed."""
    anthropic = import_module("anthropic")
    client = anthropic.Anthropic(base_url=address, api_key=key, max_retries=0)
    for line in sys.stdin:
        request = {"model": "rookery-extract", "max_tokens": 1024, **json.loads(line)}
        reply: Json = {"models": [model.id for model in client.models.list()]}
        try:
            asked = {name: request[name] for name in ("model", "messages")}
            reply["count"] = dumped(client.messages.count_tokens(**asked))
            reply["whole"] = dumped(client.messages.create(**request))
            with client.messages.stream(**request) as stream:
                reply["events"] = [dumped(event) for event in stream]
                reply["streamed"] = dumped(stream.get_final_message())
        except anthropic.APIStatusError as error:
            reply["error"] = {"kind": type(error).__name__, "body": error.body}
        print(json.dumps(reply))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
