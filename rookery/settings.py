"""Settings: how questions are answered and models are asked, and the folders of Rookery's data."""

import math
import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin

import msgspec
from platformdirs import user_cache_path, user_data_path

from rookery.python_objects import PYTHON_PREFIX
from rookery.records import Failure, Record, prepare_type

ARCHIVE = "archive.sqlite"
"""file name of the page archive in the data folder"""
LOCAL, SCRIPT = "path:", "script:"
"""prefixes of model names: a transformers folder on this machine, a file of scripted replies"""
WORDS = "words"
"""value of `Settings.ranker` for ranking by words alone"""


def check_field_types(record: msgspec.Struct) -> None:
    """Raise TypeError, which names the field, where a value is not of its field's type.

    A list takes the place of a tuple. Literals are left to those who know what they mean.
    """
    for field in msgspec.structs.fields(record):
        kind, value = field.type, getattr(record, field.name)
        if get_origin(kind) is Literal:
            continue
        try:
            converted: object = msgspec.convert(value, prepare_type(kind))
        except msgspec.ValidationError as error:
            expected = kind.__name__ if isinstance(kind, type) else kind
            raise TypeError(f"{field.name} must be {expected}, and is {value!r}") from error
        if isinstance(value, list):
            msgspec.structs.force_setattr(record, field.name, converted)


class FileSelection(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which files of folders are read: the user's patterns, written as in a .gitignore and relative
    to each folder named, and whether links out of the folders are followed."""

    # By a factory, so that these are written where they are empty, too, and links that are not
    # followed never: recordings and indexes of older versions are named by this JSON.
    glob: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    """where there are any, only files that match one of them are read"""
    exclude: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    """files and folders that match one of them are not read"""
    follow_links: bool = False
    """whether symbolic links that lead out of the folders are followed"""

    def __post_init__(self) -> None:
        check_field_types(self)


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
        check_field_types(self)
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
            allowed = ", ".join(filter(None, get_args(Precision)))
            raise ValueError(f"dtype must be one of {allowed}, and is {self.dtype!r}")

    @property
    def token_limit(self) -> int:
        """Maximum tokens of one completion: `max_tokens`, or DEFAULT_MAX_TOKENS if that is None."""
        return self.max_tokens or DEFAULT_MAX_TOKENS


_UNSET = CompletionSettings()
COMPLETION_FIELDS = CompletionSettings.__struct_fields__


def override_settings(settings: S, overrides: CompletionSettings) -> S:
    """Return settings with those that are set in `overrides` in place of their own.

    Raises ValueError for what cannot be set for them.
    """
    named = {name: getattr(overrides, name) for name in COMPLETION_FIELDS}
    told = {name: value for name, value in named.items() if value != getattr(_UNSET, name)}
    return msgspec.structs.replace(settings, **told)


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
"""settings of a model that puts an answer into words (`answers.webglm`): the likeliest
words of one line. In its chat template SmolLM2 begins with "The answer to this question is:"
and ends"""


class LocalEndpoint(LocalModelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model on this machine in the place of a server's."""

    model: str
    """path:DIR, or a name that `rookery models add` gave"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.removeprefix(LOCAL):
            raise ValueError("model must not be empty")


class ModelSettings(Record, CompletionSettings, frozen=True):
    """The language model, how its completions are drawn, and the limits on spending.

    What is set of `CompletionSettings` replaces what the endpoints say.
    """

    model: str = ""
    """name on the server; or, without base_url and endpoints, the name of a model that
    `rookery models add` added, path:DIR, python:package.module.policy, or script:FILE"""
    base_url: str = ""
    """address of an OpenAI-compatible server, ending in /v1"""
    endpoints: str = ""
    """TOML file with one table for each role: [browse], [write], [default]"""
    samples: int | None = None
    """answers sampled for each question; None: the method's default"""
    tokens: int | None = None
    """tokens that may be spent in all, prompts included; None: no limit"""
    money: float | None = None
    """money that may be spent in all, in the currency of the endpoints' prices; None: no limit"""
    choose_by: str = ""
    """what chooses among samples: "model", the chat model that wrote them, or "evidence", the
    evidence model; empty: model for a chat model on a server"""
    reward: str = ""
    """what chooses among samples in place of choose_by: python:package.module.function, or the
    folder of a reward model"""
    context_tokens: int | None = None
    """tokens of what a chat model is shown at once, about; None: 8,000"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is not None and self.samples < 1:
            raise ValueError(f"samples must be at least 1, and is {self.samples}")
        if self.context_tokens is not None and self.context_tokens < 500:
            raise ValueError(f"context_tokens must be at least 500, and is {self.context_tokens}")
        if self.choose_by not in ("", "model", "evidence"):
            raise ValueError(f"choose_by must be model or evidence, and is {self.choose_by!r}")
        if self.choose_by and self.reward:
            raise ValueError(
                "choose_by and reward both choose among samples: leave one of them out"
            )
        for name in ("tokens", "money"):
            if (number := getattr(self, name)) is not None and not 0 <= number < math.inf:
                raise ValueError(f"{name} must be a number from 0 on, and is {number}")

    def to_cache_key(self) -> str:
        """Return the settings as JSON, alike for equal settings.

        Completion settings that are not set are left out, so that recordings made before these
        settings existed are still found; as is `worth`, a setting of earlier versions.
        """
        fields, usual = msgspec.structs.asdict(self), msgspec.structs.asdict(ModelSettings())
        del fields["reward"]  # which chooses among what was recorded
        for name in (*COMPLETION_FIELDS, "context_tokens", "choose_by"):
            if fields[name] == usual[name]:
                del fields[name]
        first = {name: fields.pop(name) for name in ("model", "base_url", "endpoints", "samples")}
        return msgspec.json.encode({**first, "worth": 0.0, **fields}).decode()

    def __bool__(self) -> bool:
        """Return True if any field differs from its default."""
        return self != ModelSettings()


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that decides how questions are answered; opens the same session in any process."""

    places: tuple[str, ...] = ()
    """folders, files, WARC files and site addresses to search; none: the web"""
    engine: str = "auto"
    """web search engines: auto, or names that `rookery.library.libraries.make_web_search` takes"""
    offline: bool = False
    """answer from stored pages and recorded model replies only"""
    private: bool = False
    """allow addresses of this machine and of private networks"""
    proxy: bool = False
    """send requests through the proxy that the environment names"""
    decline: float | None = None
    """probability of being right below which an answer is declined; None: the method's default"""
    method: str = "extract"
    """name of the answering method, one of `rookery.answers.methods.METHODS`"""
    models: ModelSettings = ModelSettings()
    ranker: str = ""
    """folder of an evidence model or of a sentence encoder that ranks, or "words" for ranking by
    words alone; empty: the evidence model that comes with Rookery"""
    quotes: int | None = None
    """maximum number of quotes in an answer; None: the method's default"""
    selection: FileSelection = FileSelection()
    """which files of the folders are read"""
    contact: str = ""
    """mail or web address that requests carry for the owners of sites; empty: none"""
    render: bool = False
    """have a local Chromium run the scripts of pages that show no text without them"""
    archive: str = ""
    """PostgreSQL database in which pages, and what models said, are stored, such as
    postgresql://HOST/DATABASE; empty: the file in the data folder"""

    def __post_init__(self) -> None:
        """Check the ranges, and put the defaults themselves in place of their equals.

        msgspec leaves out those alone, and equal settings are to be written alike, in every
        process. Raises ValueError.
        """
        check_field_types(self)
        if self.decline is not None and not 0 <= self.decline <= 1:
            raise ValueError(f"decline must be a probability from 0 to 1, and is {self.decline}")
        if self.quotes is not None and not 1 <= self.quotes <= 20:
            raise ValueError(f"quotes must be from 1 to 20, and is {self.quotes}")
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            if getattr(self, name) == default:
                msgspec.structs.force_setattr(self, name, default)

    def to_cache_key(self) -> str:
        """Return as JSON each setting that a model's answer depends on, except the model itself."""
        names = ("places", "engine", "method", "ranker", "quotes", "selection", "render")
        relevant = Settings(**{name: getattr(self, name) for name in names})
        return msgspec.json.encode(relevant).decode()


_OPTION = re.compile(r"(?<![\w-])(--[a-z-]+|-n)\b(?: ([A-Z]+)\b)?")


def describe_in_python(failure: Failure) -> Failure:
    """Return the failure with settings named in place of options: `Settings(private=True)`.

    Commands of the terminal stay as they are.
    """
    what = _OPTION.sub(_name_setting, failure.what) if failure.what[:2] == "--" else failure.what
    clauses = re.split(r"(?<=[;:] )", failure.detail)
    parts = (each if "rookery " in each else _OPTION.sub(_name_setting, each) for each in clauses)
    return msgspec.structs.replace(failure, what=what, detail="".join(parts))


def _name_setting(option: re.Match[str]) -> str:
    struct, field, is_switch = _list_options().get(option[1], ("", "", False))
    value = str(not option[1].startswith("--no-")) if is_switch else option[2]
    behind = f"({field}={value})" if value else f".{field}"
    return f"{struct}{behind}" if struct else option[0]


@cache
def _list_options() -> dict[str, tuple[str, str, bool]]:
    """Return the struct and the field that each option sets, and whether it is a switch."""
    table = (Path(__file__).parent / "shell" / "settings_options.toml").read_bytes()
    return {
        option: (part.__name__, name, field.type in (bool, bool | None))
        for name, usage in msgspec.toml.decode(table).items()
        for part in (Settings, FileSelection, ModelSettings)
        for field in msgspec.structs.fields(part)
        if field.name == name
        for option in re.findall(r"--?[a-z-]+", usage["usage"].strip().partition("  ")[0])
    }


def get_data_folder() -> Path:
    """Return the path of the user's data folder for Rookery (platformdirs); it is not created.

    It holds the page archive and other data that must be kept.
    """
    return Path(user_data_path("rookery"))


def locate_archive(database: str = "") -> Path | str:
    """Return the page archive's place: `database` if it is an address, else the data folder's file.

    An address holds `://`; anything else, such as the path of a SQLite store, is passed over.
    """
    return database if "://" in database else get_data_folder() / ARCHIVE


def locate_store(place: str = "") -> str:
    """Return the place of the desk's store: `place`, or without one the data folder's file."""
    return place or str(get_data_folder() / "desk.sqlite")


def get_cache_folder() -> Path:
    """Return the user's cache folder for Rookery, which may not exist; its files are made again."""
    return Path(user_cache_path("rookery"))


def is_local_model(settings: ModelSettings) -> bool:
    """Return True if the settings name a model on this machine and not one of a server.

    A script of replies (`script:FILE`) is no model, nor is an own policy or an empty name.
    """
    if settings.model.startswith(LOCAL):
        return True
    is_name = bool(settings.model) and not settings.model.startswith((SCRIPT, PYTHON_PREFIX))
    return is_name and not settings.base_url and not settings.endpoints
