"""Messages of the OpenEnv protocol: what clients send, what they are sent, and the errors."""

import json
from typing import Any

import msgspec

from rookery.records import Answer, Failure, Quote, prepare_type

INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
SESSION_ERROR = "SESSION_ERROR"
HTTP_STATUSES = {
    VALIDATION_ERROR: 422,
    EXECUTION_ERROR: 409,
    CAPACITY_REACHED: 503,
    SESSION_ERROR: 404,
}
"""HTTP statuses of the protocol's error codes"""


class EnvError(Exception):
    """A request that is answered with an error: one of the protocol's codes, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def to_json(self) -> bytes:
        """Return the error as a message of the protocol."""
        return msgspec.json.encode(
            {"type": "error", "data": {"message": self.message, "code": self.code}}
        )


class EnvResetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The task of an episode: at an index of a split, or of an id; without either, one is drawn."""

    split: str = ""
    """name of the split; empty: the first one"""
    index: int | None = None
    """position of the task in the split, from 0"""
    task: str = ""
    """id of a question of the split"""
    seed: int | None = None
    """determines which task is drawn"""
    episode_id: str | None = None
    """a name for the episode; without it, one is made"""


class EnvAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command of the text browser, or the answer where one is asked for."""

    command: str | int | float | bool
    """a text; clients that read a model's text as JSON send `1987` as a number"""
    metadata: dict[str, Any] = {}
    """has no effect"""

    @property
    def text(self) -> str:
        """The command as the model wrote it."""
        if isinstance(self.command, str):
            return self.command
        return msgspec.json.encode(self.command).decode()


class EnvObservation(msgspec.Struct, frozen=True):
    """The prompt, which is all that a model is given before a command."""

    prompt: str
    """the prompt as WebGPT writes it (figure 1(b)); empty at the end of the episode"""


class EnvStepMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """About a step, for the trainer; a model is given none of it."""

    episode_id: str
    """name of the episode"""
    split: str
    """name of the split"""
    index: int
    """position of the task in the split, from 0"""
    task: str
    """id of the question"""
    step: int
    """commands so far"""
    answering: bool = False
    """the next text is the answer and no command"""
    actions_left: int = 0
    """commands that are left"""
    note: str = ""
    """what the last command could not do, in a sentence for people"""
    session: str = ""
    """name of the episode in the server's recording"""
    stop: str = ""
    """at the end: end, max_actions, max_quotes, no_quotes, nonsense, controversial, bad_syntax,
    browser_failed, or timed_out in a recording"""
    answer: Answer | None = None
    """the answer with its quotes, at the end"""
    quotes: tuple[Quote, ...] = ()
    """the quotes that were collected, at the end"""
    failures: tuple[Failure, ...] = ()
    """at the end: what could not be searched or opened"""


class EnvStepResult(msgspec.Struct, frozen=True):
    """The state after a reset or a step."""

    observation: EnvObservation
    reward: float | None
    """reward of the step: null after a reset, 0 for every step but the last"""
    done: bool
    """True at the end of the episode"""
    metadata: EnvStepMetadata


class EnvState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a session."""

    episode_id: str | None
    """name of the episode; null before the first"""
    step_count: int
    """commands so far"""
    split: str = ""
    """name of the split"""
    index: int | None = None
    """position of the task in the split, from 0"""
    task: str = ""
    """id of the question"""
    done: bool = False
    """True at the end of the episode"""


class EnvResetMessage(msgspec.Struct, frozen=True, tag_field="type", tag="reset"):
    data: EnvResetArguments = EnvResetArguments()


class EnvStepMessage(msgspec.Struct, frozen=True, tag_field="type", tag="step"):
    data: EnvAction


class EnvStateMessage(msgspec.Struct, frozen=True, tag_field="type", tag="state"):
    pass


class EnvCloseMessage(msgspec.Struct, frozen=True, tag_field="type", tag="close"):
    pass


class EnvObservationReply(msgspec.Struct, frozen=True, tag_field="type", tag="observation"):
    data: EnvStepResult


class EnvStateReply(msgspec.Struct, frozen=True, tag_field="type", tag="state"):
    data: EnvState


EnvMessage = EnvResetMessage | EnvStepMessage | EnvStateMessage | EnvCloseMessage
_decoder = msgspec.json.Decoder(prepare_type(EnvMessage))


def parse_env_message(text: str) -> EnvMessage:
    """Parse a WebSocket message. Raises EnvError: INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR."""
    try:
        return _decode_message(text)
    except msgspec.ValidationError as error:
        said = str(error)
        if "$.type" in said or "`type`" in said:
            known = "reset, step, state or close"
            raise EnvError(
                UNKNOWN_TYPE, f'give the message one "type" of {known}: {said}'
            ) from error
        raise EnvError(VALIDATION_ERROR, f"the message does not fit: {said}") from error
    except (ValueError, RecursionError) as error:
        raise EnvError(INVALID_JSON, f"the message is not JSON: {error}") from error


def _decode_message(text: str) -> EnvMessage:
    try:
        message: EnvMessage = _decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # perhaps a lone surrogate, which Python's own clients can send
        message = msgspec.convert(json.loads(text), prepare_type(EnvMessage))
    return message


def build_env_schemas() -> dict[str, Any]:
    """Return the JSON schemas of the action, the observation and the state, as /schema has them."""
    kinds = (EnvAction, EnvObservation, EnvState)
    _, schemas = msgspec.json.schema_components(kinds)
    action = schemas[EnvAction.__name__]
    action["properties"]["command"] = {
        "type": "string",
        "description": "one command of the text browser, or the answer where one is asked for",
    }
    return {
        "action": action,
        "observation": schemas[EnvObservation.__name__],
        "state": schemas[EnvState.__name__],
    }
