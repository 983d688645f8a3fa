"""Settings of an answering session, and the folders in which Rookery keeps its data."""

from pathlib import Path

import msgspec
from platformdirs import user_cache_path, user_data_path

from rookery.browse.file_selection import FileSelection
from rookery.draft.completion_settings import COMPLETION_FIELDS, CompletionSettings
from rookery.errors import Failed
from rookery.records import Failure, Record

ARCHIVE = "archive.sqlite"
"""file name of the page archive in the data folder"""
LOCAL, SCRIPT = "path:", "script:"
"""prefixes of model names: a transformers folder on this machine, a file of scripted replies"""
WORDS = "words"
"""value of `Settings.ranker` for ranking by words alone"""


class ModelSettings(Record, CompletionSettings, frozen=True):
    """The language model, how its completions are drawn, and the limits on spending.

    What is set of `CompletionSettings` replaces what the endpoints say.
    """

    model: str = ""
    """name on the server; or, without base_url and endpoints, the name of a model that
    `rookery models add` added, path:DIR, or script:FILE"""
    base_url: str = ""
    """address of an OpenAI-compatible server, ending in /v1"""
    endpoints: str = ""
    """TOML file with one table for each role: [browse], [write], [default]"""
    samples: int | None = None
    """answers sampled for each question; None: the method's default"""
    worth: float = 0.0
    """least expected gain in score for which one more sample is drawn; 0 draws all of them"""
    tokens: int | None = None
    """tokens that may be spent in all, prompts included; None: no limit"""
    money: float | None = None
    """money that may be spent in all, in the currency of the endpoints' prices; None: no limit"""

    def to_cache_key(self) -> str:
        """Serialise the settings; those of sampling only where they are given, so that what was
        recorded before there were any is found."""
        fields, usual = msgspec.structs.asdict(self), msgspec.structs.asdict(ModelSettings())
        for name in COMPLETION_FIELDS:
            if fields[name] == usual[name]:
                del fields[name]
        return msgspec.json.encode(fields).decode()

    def __bool__(self) -> bool:
        """Return True if any field differs from its default."""
        return self != ModelSettings()


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that decides how questions are answered; opens the same session in any process."""

    places: tuple[str, ...] = ()
    """folders, files, WARC files and site addresses to search; none: the web"""
    engine: str = "auto"
    """web search engines: auto, or names that `rookery.browse.libraries.make_web_search` takes"""
    offline: bool = False
    """answer from stored pages and recorded model replies only"""
    private: bool = False
    """allow addresses of this machine and of private networks"""
    proxy: bool = False
    """send requests through the proxy that the environment names"""
    decline: float | None = None
    """probability of being right below which an answer is declined; None: the method's default"""
    method: str = "extract"
    """name of the answering method, one of `rookery.serve.methods.METHODS`"""
    models: ModelSettings = ModelSettings()
    ranker: str = ""
    """folder of an evidence model or of a sentence encoder that ranks, or "words" for ranking by
    words alone; empty: the evidence model that comes with Rookery"""
    quotes: int | None = None
    """maximum number of quotes in an answer; None: the method's default"""
    selection: FileSelection = FileSelection()
    """globs that choose which files of the folders are read"""
    contact: str = ""
    """mail or web address that requests carry for the owners of sites; empty: none"""
    render: bool = False
    """have a local Chromium run the scripts of pages that show no text without them"""
    archive: str = ""
    """PostgreSQL database in which pages, and what models said, are stored, such as
    postgresql://HOST/DATABASE; empty: the file in the data folder"""

    def __post_init__(self) -> None:
        """Put the defaults themselves in place of their equals: msgspec leaves out those alone, and
        equal settings are to be written alike, in every process."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            if getattr(self, name) == default:
                msgspec.structs.force_setattr(self, name, default)

    def to_cache_key(self) -> str:
        """Serialise every setting that a model's answer depends on, except the model itself."""
        relevant = Settings(
            self.places,
            self.engine,
            method=self.method,
            ranker=self.ranker,
            quotes=self.quotes,
            selection=self.selection,
            render=self.render,
        )
        return msgspec.json.encode(relevant).decode()


def get_data_folder() -> Path:
    """Return the path of the user's data folder for Rookery (platformdirs); it is not created.

    It holds the page archive and other data that must be kept.
    """
    return Path(user_data_path("rookery"))


def locate_archive(database: str = "") -> Path | str:
    """Return the place of the page archive: a PostgreSQL database where one is named, else the file
    in the data folder. A file, such as a SQLite store, is none."""
    return database if "://" in database else get_data_folder() / ARCHIVE


def get_cache_folder() -> Path:
    """Return the folder of indexes, which are rebuilt when they are deleted."""
    return Path(user_cache_path("rookery"))


def is_local_model(settings: ModelSettings) -> bool:
    """Return True if the settings name a model on this machine and not one of a server."""
    if settings.model.startswith(LOCAL):
        return True
    is_name = bool(settings.model) and not settings.model.startswith(SCRIPT)
    return is_name and not settings.base_url and not settings.endpoints


def locate_local_model(model: str) -> Path:
    """Return the folder of a model on this machine: path:DIR, or the name of one that was added.

    The folder of path:DIR need not exist. Raises Failed (no_model).
    """
    if model.startswith(LOCAL):
        return Path(model.removeprefix(LOCAL))
    from rookery.draft.installed_models import find_model_folder

    try:
        return find_model_folder(model, get_data_folder())
    except Failed as failed:
        detail = f"{failed.failure.detail}; for one on a server, say where: --base-url URL"
        raise Failed(Failure(model, failed.failure.outcome, detail)) from failed
