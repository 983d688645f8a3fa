"""`rookery serve desk`: the desk's pages on this machine, until somebody stops it.

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
from rookery.serve.options import Engine, Places, Private, Proxy

if TYPE_CHECKING:
    from rookery.judge.store import Store
    from rookery.serve.session import Settings

STORE = "desk.sqlite"
"""the store in the data folder, where no other is named"""
GRACE = 10
"""seconds that a page under way may take once the desk is stopped"""

serve = typer.Typer(help="Pages for people.", no_args_is_help=True)


@serve.callback()
def _serve() -> None:
    """Pages for people."""


@serve.command()
def desk(
    store: Annotated[
        str, typer.Option(metavar="PLACE", help="A file, or postgresql://USER@HOST/DATABASE.")
    ] = "",
    places: Places = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8500,
    engine: Engine = "wikipedia",
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Open the desk, where people demonstrate, compare and rate."""
    try:
        import jinja2  # noqa: F401
        import multipart  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        sentence = f"the desk needs {error.name}: pip install 'rookery[serve]'"
        raise ValueError(sentence) from error
    from rookery.serve.session import Settings

    settings = Settings(tuple(places or ()), engine, private=private, proxy=proxy)
    place = store or _default_place()
    listener = _listener(host, port)
    with listener, _opened(place) as kept:
        _welcome(kept, host, listener.getsockname()[1])
        _run(kept, settings, listener)


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
    typer.echo(f"A new store was made: {place}")
    return Store(place)


def _default_place() -> str:
    from rookery.serve.session import data_home

    return str(data_home() / STORE)


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ValueError with a sentence where that is not to be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == EADDRINUSE:
            sentence = f"port {port} is taken, perhaps by another desk: choose one with --port"
        elif error.errno == EACCES:
            sentence = f"port {port} is not yours to open: choose one above 1023 with --port"
        else:
            sentence = f"cannot listen at {host}: name an address of this machine with --host"
        raise ValueError(sentence) from error


def _welcome(store: "Store", host: str, port: int) -> None:
    """Says where the desk is. As long as nobody has ever come in, whoever starts it here may."""
    from rookery.judge.people import audits, invite

    at = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if any(line.action == "enter" for line in audits(store)):
        typer.echo(f"The desk is open: {at}")
        typer.echo("To let somebody in: rookery judge invite NAME")
    elif _loopback(host):
        token = invite(store, _user(), "admin", by=_user())
        typer.echo(f"The desk is open. Come in, once, by this link: {at}/enter/{token}")
    else:
        typer.echo(f"The desk is open: {at}")
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


def _run(store: "Store", settings: "Settings", listener: socket.socket) -> None:
    import uvicorn

    from rookery.serve.web.app import make_app

    config = uvicorn.Config(
        make_app(store, settings),
        log_level="warning",
        access_log=False,  # addresses hold the tokens of invites
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listener])
