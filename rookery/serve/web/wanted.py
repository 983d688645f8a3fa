"""What readers and programs ask for, what this server offers, and what comes of it: the records.

It knows nothing of how an answer is made.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from rookery.ask.load import asked
from rookery.cite.verify import Verdict
from rookery.draft.sides import BY as SIDES
from rookery.records import Episode, Failed, Failure, Question, Record
from rookery.serve.models import ModelSettings
from rookery.serve.session import Settings

EXTRACT = "extract"
BY_MODELS = ("webgpt", "gophercite", "webglm")
"""methods that need a model"""
WEB = "web"
"""the name of the place where the web is searched"""
MOST_SAMPLES = 64
Kind = Literal[
    "asked",
    "begun",
    "searching",
    "found",
    "opening",
    "opened",
    "failed",
    "saying",
    "writing",
    "quote",
    "answered",
    "declined",
    "stopped",
]
ENDS = ("answered", "declined", "stopped")
"""kinds of events after which none comes"""


class Wanted(Record, frozen=True):
    """One question, and how it is to be answered."""

    question: str
    method: str = EXTRACT
    model: str = ""
    """a name that the server offers; empty: its first"""
    places: tuple[str, ...] | None = None
    """names that the server offers; None: the usual ones"""
    decline: float | None = None
    """as --decline; rounded to two digits"""
    offline: bool = False
    samples: int | None = None
    domains: tuple[str, ...] = ()
    """hosts that may be looked at, with - before them those that may not; none: all"""


class Event(Record, frozen=True):
    """Something that happened while an answer was made."""

    number: int
    """from 0 on, without a gap"""
    kind: Kind
    data: dict[str, Any]


class Answered(Record, frozen=True):
    """What came of a question, and whether each of its quotes is verified."""

    episode: Episode
    verdicts: tuple[Verdict, ...]


class Offers(Record, frozen=True):
    """What a server lets readers and programs choose among."""

    methods: tuple[str, ...]
    models: dict[str, ModelSettings]
    places: dict[str, str]
    """by the names that are shown; of the web, WEB"""
    usual: tuple[str, ...]
    """names of the places where is looked, where nobody says where"""


def offers(settings: Settings) -> Offers:
    """All that a server with these settings can do."""
    by, models = settings.models, dict[str, ModelSettings]()
    if by:
        models[_called(by)] = by
    methods = (EXTRACT, SIDES, *(BY_MODELS if models else ()))
    names = {_place_name(place): place for place in settings.places} or {WEB: ""}
    return Offers(methods, models, names, tuple(names))


def question_of(wanted: Wanted, identity: str) -> Question:
    """The question itself. Raises Failed (bad_question)."""
    try:
        return asked(wanted.question, identity)
    except ValueError as error:
        detail = str(error).partition(":")[0] + ": ask in one sentence"
        raise Failed(Failure("question", "bad_question", detail)) from error


def settings_for(base: Settings, offered: Offers, wanted: Wanted) -> Settings:
    """The settings with which this is answered. Raises Failed: unknown_method, unknown_model,
    unknown_place, bad_decline, bad_samples."""
    if wanted.method not in offered.methods:
        raise _unknown("method", wanted.method, offered.methods)
    if wanted.model and wanted.model not in offered.models:
        raise _unknown("model", wanted.model, offered.models)
    if wanted.decline is not None and not 0 <= wanted.decline <= 1:
        raise Failed(Failure("decline", "bad_decline", "give a number from 0 to 1"))
    if wanted.samples is not None and not 1 <= wanted.samples <= MOST_SAMPLES:
        raise Failed(Failure("samples", "bad_samples", f"give a number from 1 to {MOST_SAMPLES}"))
    decline = base.decline if wanted.decline is None else round(wanted.decline, 2)
    return msgspec.structs.replace(
        base,
        places=_places(offered, wanted),
        offline=base.offline or wanted.offline,
        decline=decline,
        method=wanted.method,
        models=_model(offered, wanted),
    )


def _model(offered: Offers, wanted: Wanted) -> ModelSettings:
    """The model's settings; none where words alone answer."""
    needed = wanted.method in BY_MODELS or (wanted.method == SIDES and wanted.model)
    if not needed:
        return ModelSettings()
    found = offered.models[wanted.model or next(iter(offered.models))]
    samples = found.samples if wanted.samples is None else wanted.samples
    return msgspec.structs.replace(found, samples=samples)


def _places(offered: Offers, wanted: Wanted) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(offered.usual if wanted.places is None else wanted.places))
    for name in names:
        if name not in offered.places:
            raise _unknown("place", name, offered.places)
    if WEB in names and len(names) > 1 and not offered.places[WEB]:
        detail = "the web is searched by itself: name either the web or other places"
        raise Failed(Failure("the places", "unknown_place", detail))
    return tuple(filter(None, (offered.places[name] for name in names)))


def _unknown(what: str, name: str, known: Any) -> Failed:
    detail = f"there is no {what} of this name here: use one of {', '.join(known) or 'none'}"
    return Failed(Failure(name[:80], f"unknown_{what}", detail))


def _called(models: ModelSettings) -> str:
    """What a model is called before people, without where it is."""
    name = models.model or Path(models.endpoints).stem
    return Path(name.rpartition(":")[2]).stem if name.startswith(("path:", "script:")) else name


def _place_name(place: str) -> str:
    """What a place is called before people: a folder by its own name alone."""
    return place if "://" in place or place.startswith("rookery:") else Path(place).resolve().name
