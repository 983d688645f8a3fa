"""Prompts of chat models as one text: a system message, tools, the form of the reply, and turns.

A prompt is one text wherever it goes, so that it is recorded, replayed, shown and trained on like
any other. Its sections begin with lines of their own, which a page cannot forge, since the marker ♦
is replaced in what pages say:

♦System, ♦Tools (JSON), ♦Reply form (a JSON schema), then ♦User and ♦Assistant by turns
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rookery.pages.page_text import neutralize_text

_SECTION = re.compile(r"(?:\A|\n)♦(System|Tools|Reply form|User|Assistant)\n")


def render_chat_prompt(
    system: str,
    turns: Sequence[str],
    tools: Sequence[dict[str, Any]] = (),
    reply_form: dict[str, Any] | None = None,
) -> str:
    """Render a prompt: `turns` are what the user, the assistant, the user ... said, in this order.

    `tools` are functions with a name, a description and a JSON schema of their parameters, and
    `reply_form` is the JSON schema of the reply; a server that takes neither is not sent them.
    """
    parts = [f"♦System\n{system}"]
    if tools:
        parts.append(f"♦Tools\n{msgspec.json.encode(tools).decode()}")
    if reply_form is not None:
        parts.append(f"♦Reply form\n{msgspec.json.encode(reply_form).decode()}")
    for number, turn in enumerate(turns):
        text = _SECTION.sub(lambda forged: neutralize_text(forged[0]), turn)
        parts.append(f"♦{'Assistant' if number % 2 else 'User'}\n{text}")
    return "\n".join(parts)


def build_message_fields(prompt: str) -> dict[str, Any]:
    """Return the fields `messages`, `tools` and `response_format` of a request for a prompt.

    A text that `render_chat_prompt` did not make is one message of the user.
    """
    if not prompt.startswith("♦System\n"):
        return {"messages": [{"role": "user", "content": prompt}]}
    pieces = _SECTION.split(prompt)[1:]
    messages, fields = list[dict[str, str]](), dict[str, Any]()
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        if name == "Tools":
            functions = msgspec.json.decode(text)
            fields["tools"] = [{"type": "function", "function": each} for each in functions]
        elif name == "Reply form":
            named = {"name": "reply", "schema": msgspec.json.decode(text), "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        else:
            messages.append({"role": name.lower(), "content": text})
    return {"messages": messages} | fields


def make_reply_form(**fields: str) -> dict[str, Any]:
    """Make the JSON schema of an object that has these fields, each of a JSON type, and no other.

    It is as strict as servers require it to be.
    """
    types = {name: {"type": kind} for name, kind in fields.items()}
    form = {"type": "object", "properties": types, "required": [*fields]}
    return {**form, "additionalProperties": False}


def read_json_objects(reply: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a reply, in their order, whatever stands around and between them.

    The objects within an object are parts of it, and those of a list stand for themselves.
    """
    decoder, objects, at = json.JSONDecoder(strict=False), list[dict[str, Any]](), 0
    while (at := reply.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(reply, at)
            objects.append(value)
        except (ValueError, RecursionError):
            at += 1
    return objects
