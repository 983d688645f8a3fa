"""What a program asks for, as the conventions of chats have it: a model, messages, options.

It knows nothing of how it is answered.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from rookery.draft.sides import BY as SIDES
from rookery.serve.web.answering import answering_of
from rookery.serve.web.api_cited import Look
from rookery.serve.web.api_door import Call
from rookery.serve.web.api_errors import Refused, no_model
from rookery.serve.web.wanted import BY_MODELS, EXTRACT, MOST_SAMPLES, Offers, Wanted

NAMED = "rookery-"
TEXTS = ("text", "input_text", "output_text")
"""kinds of the parts of a message that are read"""
Sure = Annotated[float, Meta(ge=0, le=1)]
Samples = Annotated[int, Meta(ge=1, le=MOST_SAMPLES)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What only this server knows: the field "rookery" of a request."""

    places: tuple[str, ...] | None = None
    """names of places to look in; null: all that the server offers"""
    decline: Sure | None = None
    """from 0 to 1: how sure an answer must be"""
    samples: Samples | None = None
    """answers that a model writes to choose among"""
    links: bool | None = None
    """write [[1]](url) in the text in place of [1]"""
    footer: bool = False
    """end the text with a list of its sources"""

    def look(self, links: bool) -> Look:
        """How the text is marked; `links` where nothing is said."""
        return Look(links if self.links is None else self.links, self.footer)


class Part(msgspec.Struct):
    """A part of a message. Only text is read."""

    type: str
    text: str | None = None


class Turn(msgspec.Struct):
    """A message of a conversation, or something else that is left out."""

    role: str | None = None
    content: str | list[Part] | None = None


QUESTION = Meta(min_length=1, max_length=2_000, pattern=r"\S")
_ASKS = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"const": "user"},
        "content": {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 2_000, "pattern": r"\S"},
                {
                    "type": "array",
                    "contains": {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {
                            "type": {"enum": list(TEXTS)},
                            "text": {"type": "string", "pattern": r"\S"},
                        },
                    },
                },
            ]
        },
    },
}
Turns = Annotated[list[Turn], Meta(min_length=1, extra_json_schema={"contains": _ASKS})]
"""of which one asks something"""


def models(offered: Offers) -> list[str]:
    """What a program may name as its model: a method, with the model that it needs."""
    by = [f"{NAMED}{method}/{model}" for method in BY_MODELS for model in offered.models]
    both = [f"{NAMED}{SIDES}/{model}" for model in offered.models]
    return [f"{NAMED}{EXTRACT}", f"{NAMED}{SIDES}", *both, *by]


def wanted_by(call: Call, question: str, model: str, options: Options) -> Wanted:
    """What is wanted of this server. Raises Refused (404)."""
    offered = answering_of(call.request).offers
    if model not in models(offered):
        raise no_model(model)
    method, _, name = model.removeprefix(NAMED).partition("/")
    return Wanted(question, method, name, options.places, options.decline, samples=options.samples)


def last_asked(turns: Sequence[Turn], field: str) -> tuple[str, tuple[str, ...]]:
    """The last thing that a user said, and what of the field is left out. Raises Refused (400)."""
    at = [n for n, turn in enumerate(turns) if turn.role == "user" and turn.content]
    if not at:
        sentence = f"{field}: none is of a user with text in it, so nothing is asked."
        raise Refused(400, sentence, "no_question", field)
    passed = [f"{field}[{n}]" for n in range(len(turns)) if n != at[-1]]
    content = turns[at[-1]].content
    if isinstance(content, str):
        return content, tuple(passed)
    parts = content or []
    passed += [
        f"{field}[{at[-1]}].content[{n}]" for n, p in enumerate(parts) if p.type not in TEXTS
    ]
    return "\n".join(part.text or "" for part in parts if part.type in TEXTS), tuple(passed)
