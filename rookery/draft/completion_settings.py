"""Settings of how a language model completes a prompt, on a server or on this machine."""

import math
from typing import Literal, TypeVar, get_args

import msgspec

LOCAL_MODEL_PREFIX = "path:"
"""prefix of the name of a model that is a local folder"""
Precision = Literal["", "float32", "bfloat16", "float16"]
"""numbers that a model computes in; empty: what is fastest on its device"""
DEFAULT_MAX_TOKENS = 1024
S = TypeVar("S", bound="CompletionSettings")


class CompletionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of completions: one table for options, endpoints, sampling in training and Python.

    What is not set is left to the model's place: a server's own defaults, or those named below.
    """

    max_tokens: int | None = None
    """tokens of one completion, reasoning included; None: 1,024, and fewer where the model's
    context leaves no room for them"""
    temperature: float | None = None
    """0: always the likeliest token; None: the server's own, 1 on this machine. WebGPT writes at
    0.8 (appendix E)"""
    top_p: float | None = None
    """below 1, only the likeliest tokens are drawn, as few as have this probability"""
    stop: tuple[str, ...] = ()
    """strings before which a completion ends"""
    chat: bool | None = None
    """the prompt is a user's message in the model's chat template, or is continued as it is; None:
    the former, on this machine only where there is a template"""
    threads: int | None = None
    """threads of the processor on this machine, for the whole process; None: as torch chooses"""
    dtype: Precision = ""
    """precision of a model on this machine"""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "threads"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= (self.temperature or 0) < math.inf:
            raise ValueError("temperature must be a number from 0 on")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError("top_p must be a number above 0, and 1 at most")
        if "" in self.stop:
            raise ValueError("stop must not hold an empty string")
        if self.dtype not in get_args(Precision):
            known = ", ".join(filter(None, get_args(Precision)))
            raise ValueError(f"dtype must be one of {known}, and is {self.dtype!r}")

    @property
    def token_limit(self) -> int:
        """Maximum tokens of one completion."""
        return self.max_tokens or DEFAULT_MAX_TOKENS


_UNSET = CompletionSettings()
COMPLETION_FIELDS = CompletionSettings.__struct_fields__


def override_settings(found: S, given: CompletionSettings) -> S:
    """Return settings with those that are set in `given` in place of their own.

    Raises ValueError for what cannot be set for them.
    """
    named = {name: getattr(given, name) for name in COMPLETION_FIELDS}
    told = {name: value for name, value in named.items() if value != getattr(_UNSET, name)}
    return msgspec.structs.replace(found, **told)


class LocalModelSettings(CompletionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Completion settings, device and prices of a model on this machine."""

    device: str = ""
    """as torch names it; empty: cuda where there is one, else cpu"""
    price_in: float = 0.0
    """price of a million prompt tokens, in any currency"""
    price_out: float = 0.0
    """price of a million completion tokens, in the same currency"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.price_in < math.inf and 0 <= self.price_out < math.inf):
            raise ValueError("prices must be numbers from 0 on")


WRITING_SETTINGS = LocalModelSettings(temperature=0, max_tokens=120, stop=("\n",), chat=False)
"""settings of a model that puts an answer into words (`draft.written_answers`): the likeliest words
of one line. In its chat template SmolLM2 begins with "The answer to this question is:" and ends"""


class LocalEndpoint(LocalModelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model on this machine in the place of a server's."""

    model: str
    """path:DIR, or a name that `rookery models add` gave"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.removeprefix(LOCAL_MODEL_PREFIX):
            raise ValueError("model must not be empty")
