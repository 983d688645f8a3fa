"""`rookery serve mcp`: the tools for a program that starts this one and talks to it.

What is heavy is imported when the command runs.
"""

from typing import Annotated

import typer

from rookery.serve import options
from rookery.serve.options import (
    BaseUrl,
    Decline,
    Endpoints,
    Engine,
    Method,
    Model,
    Offline,
    Places,
    Private,
    Proxy,
    Ranker,
    Samples,
)

AnyAddress = Annotated[
    bool,
    typer.Option(
        "--any-address",
        help="Also open addresses that no search and no page showed, such as those that you type "
        "to the model; a page that it reads may then talk it into opening any.",
    ),
]


def mcp(
    places: Places = None,
    globs: options.Globs = None,
    excludes: options.Excludes = None,
    method: Method = "extract",
    model: Model = "",
    base_url: BaseUrl = "",
    endpoints: Endpoints = "",
    samples: Samples = None,
    decline: Decline = None,
    engine: Engine = "wikipedia",
    ranker: Ranker = "",
    offline: Offline = False,
    any_address: AnyAddress = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Give a model tools to search, read, quote, answer and verify (MCP over standard input)."""
    from rookery.browse.selection import Selection
    from rookery.serve.mcp_stdio import serve_stdio
    from rookery.serve.models import ModelSettings
    from rookery.serve.session import Settings
    from rookery.serve.web.wanted import BY_MODELS, EXTRACT

    models = ModelSettings(model, base_url, endpoints, samples)
    if method not in (EXTRACT, *BY_MODELS):
        sentence = f"there is no method {method!r}: use one of {EXTRACT}, {', '.join(BY_MODELS)}"
        raise ValueError(sentence)
    if (method in BY_MODELS) != bool(models):
        sentence = "goes with --model and --base-url, or --endpoints"
        raise ValueError(f"--method {' or '.join(BY_MODELS)} {sentence}")
    everywhere = tuple(places or ())
    selection = Selection(tuple(globs or ()), tuple(excludes or ()))
    settings = Settings(
        everywhere,
        engine,
        offline,
        private,
        proxy,
        decline,
        method,
        models,
        ranker,
        selection=selection,
    )
    serve_stdio(settings, any_address)
