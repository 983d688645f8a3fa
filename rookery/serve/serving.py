"""`rookery serve`: pages on which questions are asked and answers read, and the desk, on this
machine, until somebody stops it; `rookery serve desk`: the desk alone.

What is heavy is imported when the command runs. It knows nothing of what the pages say.
"""

import getpass
import ipaddress
import socket
from errno import EACCES, EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.records import Failed
from rookery.serve.command_line import CommandGroup
from rookery.serve.mcp_command import mcp
from rookery.serve.options import (
    BaseUrl,
    Decline,
    Endpoints,
    Engine,
    Model,
    Offline,
    Places,
    Private,
    Proxy,
    Ranker,
    Samples,
)

if TYPE_CHECKING:
    from rookery.judge.store import Store
    from rookery.serve.running import Running
    from rookery.serve.session import Settings

STORE = "desk.sqlite"
"""the store in the data folder, where no other is named"""

Kept = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE",
        help="Where questions, answers and the desk are kept: a file, or "
        "postgresql://USER@HOST/DATABASE. Without it, a file in your data folder.",
    ),
]
Host = Annotated[str, typer.Option(metavar="HOST", help="The address to listen at.")]
Port = Annotated[
    int, typer.Option(metavar="NUMBER", min=0, max=65535, help="The port; 0 takes any free one.")
]

serve = CommandGroup()


@serve.callback(invoke_without_command=True)
def everything(
    context: typer.Context,
    store: Kept = "",
    places: Places = None,
    model: Model = "",
    base_url: BaseUrl = "",
    endpoints: Endpoints = "",
    samples: Samples = None,
    decline: Decline = None,
    host: Host = "127.0.0.1",
    port: Port = 8500,
    engine: Engine = "wikipedia",
    ranker: Ranker = "",
    offline: Offline = False,
    private: Private = False,
    proxy: Proxy = False,
    workers: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Processes that answer.")
    ] = 1,
    at_once: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", min=1, help="Questions that each process answers at the same time."
        ),
    ] = 4,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy", help="Trust X-Forwarded headers, because only a proxy reaches it."
        ),
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Log each request as a line of JSON on standard error.")
    ] = False,
    team: Annotated[
        bool,
        typer.Option(
            "--team", help="Run as a service on PostgreSQL: with --log, and no link to enter."
        ),
    ] = False,
) -> None:
    """Serve web pages to ask and to judge, and the HTTP API; or a command below.

    The pages are for people on this machine until --host says otherwise. Ctrl-C ends it.
    """
    if context.invoked_subcommand:
        return
    if team and "://" not in store:
        raise ValueError("--team keeps its work in PostgreSQL: --store postgresql://HOST/DATABASE")
    _complete()
    from rookery.serve.models import ModelSettings
    from rookery.serve.running import Running
    from rookery.serve.session import Session, Settings

    models = ModelSettings(model, base_url, endpoints, samples)
    everywhere = tuple(places or ())
    settings = Settings(
        everywhere, engine, offline, private, proxy, decline, "extract", models, ranker
    )
    if models:
        with Session(settings) as session:  # a model that is misnamed is told now
            session.models().endpoint("write")
    how = Running(True, workers, at_once, behind_proxy, log or team)
    _open_at(settings, store, host, port, "Rookery", how)


serve.command()(mcp)


@serve.command()
def desk(
    store: Kept = "",
    places: Places = None,
    host: Host = "127.0.0.1",
    port: Port = 8500,
    engine: Engine = "wikipedia",
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Serve the desk alone, where people demonstrate, compare and rate."""
    _complete()
    from rookery.serve.running import Running
    from rookery.serve.session import Settings

    settings = Settings(tuple(places or ()), engine, private=private, proxy=proxy)
    _open_at(settings, store, host, port, "The desk", Running(reading=False))


@serve.command()
def key(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Whose key it is: that of a program or a person."),
    ],
    per_minute: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Requests that it may send a minute.")
    ] = 600,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            min=0,
            help="Answers that it may ask for in all; without it, any number.",
        ),
    ] = None,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="End the key of this name, and make none.")
    ] = False,
    store: Kept = "",
) -> None:
    """Make a key for the HTTP API and print it, once; an older one of the same name ends."""
    _complete()
    from rookery.serve.web import api_keys

    with _opened(store or _default_place()) as kept:
        try:
            if revoke:
                api_keys.revoke(kept, name)
                typer.echo(f"The key of {name} is revoked.", err=True)
                return
            typer.echo(api_keys.make(kept, name, per_minute, budget))
        except Failed as failed:
            if failed.failure.outcome not in ("bad_name", "no_key_named"):
                raise
            raise ValueError(f"{name}: {failed.failure.detail}") from failed
    typer.echo("It is not shown again. Send it as: Authorization: Bearer KEY", err=True)


def _complete() -> None:
    """Raises ValueError where what the pages need is not installed."""
    try:
        import jinja2  # noqa: F401
        import multipart  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        sentence = f"the desk needs {error.name}: pip install 'rookery[serve]'"
        raise ValueError(sentence) from error


def _open_at(
    settings: "Settings", store: str, host: str, port: int, what: str, how: "Running"
) -> None:
    """Serves the pages until somebody stops it."""
    from rookery.serve.running import run

    place = store or _default_place()
    with _listener(host, port) as listener:
        with _opened(place) as kept:
            # Where it is a service, what is printed here is kept in a journal.
            here = _loopback(host) and not (how.log or how.behind_proxy)
            _welcome(kept, host, listener.getsockname()[1], what, here)
        run(place, settings, listener, how)


def _opened(place: str) -> "Store":
    """The store, made where there is none."""
    from rookery.judge.store import Store, init

    try:
        return Store(place)
    except Failed as failed:
        if failed.failure.outcome != "no_store" or "://" in place:
            raise
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    init(place)
    typer.echo(f"A new store was made: {place}", err=True)
    return Store(place)


def _default_place() -> str:
    from rookery.serve.session import data_home

    return str(data_home() / STORE)


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ValueError with a sentence where that is not to be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
        # What is accepted inherits it; without it an answer waits 40 ms for the client's kernel.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        if error.errno == EADDRINUSE:
            sentence = f"port {port} is taken, perhaps by another desk: choose one with --port"
        elif error.errno == EACCES:
            sentence = f"port {port} is not yours to open: choose one above 1023 with --port"
        else:
            sentence = f"cannot listen at {host}: name an address of this machine with --host"
        raise ValueError(sentence) from error


def _welcome(store: "Store", host: str, port: int, what: str, here: bool) -> None:
    """Says where it is. As long as nobody has ever come in, whoever starts it `here` may."""
    from rookery.judge.people import audits, invite

    at = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if any(line.action == "enter" for line in audits(store)):
        typer.echo(f"{what} is open: {at}")
        typer.echo("To let somebody in: rookery judge invite NAME")
    elif here:
        token = invite(store, _user(), "admin", by=_user())
        typer.echo(f"{what} is open. Come in, once, by this link: {at}/enter/{token}")
    else:
        typer.echo(f"{what} is open: {at}")
        typer.echo("Nobody can come in yet: rookery judge invite NAME --role admin")
    typer.echo("Ctrl-C closes it.")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "admin"
