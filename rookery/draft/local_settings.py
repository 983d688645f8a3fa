"""Settings of a language model on this machine, as options and as a table of an endpoints file."""

import math
from typing import Literal

import msgspec

LOCAL_MODEL_PREFIX = "path:"
"""prefix of the name of a model that is a local folder"""


class LocalModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sampling settings, device, data type and prices of a local model."""

    max_tokens: int = 1024
    """of one completion; fewer where the model's context leaves no room for them"""
    temperature: float = 1.0
    """0: always the likeliest token. WebGPT writes at 0.8 (appendix E)"""
    top_p: float = 1.0
    """below 1, only the likeliest tokens are drawn, as few as have this probability"""
    stop: tuple[str, ...] = ()
    """strings before which a completion ends"""
    chat: bool | None = None
    """whether the prompt is a user's message in the chat template; None: where there is one"""
    device: str = ""
    """as torch names it; empty: cuda where there is one, else cpu"""
    dtype: Literal["", "float32", "bfloat16", "float16"] = ""
    """of the weights while they are used; empty: as they are stored"""
    threads: int = 0
    """threads of the processor, for all models of the process; 0: as torch chooses"""
    price_in: float = 0.0
    """price of a million prompt tokens, in any currency"""
    price_out: float = 0.0
    """price of a million completion tokens, in the same currency"""

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError("LocalModelSettings.max_tokens must be at least 1")
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1:
            raise ValueError("LocalModelSettings: temperature must be from 0 on, top_p from 0 to 1")
        if "" in self.stop:
            raise ValueError("LocalModelSettings.stop must not hold an empty string")
        if self.threads < 0:
            raise ValueError("LocalModelSettings.threads must be at least 0")
        if not (0 <= self.price_in < math.inf and 0 <= self.price_out < math.inf):
            raise ValueError("LocalModelSettings: prices must be numbers from 0 on")


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
