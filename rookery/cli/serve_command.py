"""The command `rookery serve`: pages to ask and to judge, the desk alone, or MCP.

Heavy imports are made when the command runs.
"""

import os
import shlex
import socket
from errno import EACCES, EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rookery.errors import Failed, Outcome
from rookery.settings import COMPLETION_FIELDS, Settings, locate_store
from rookery.shell.command_line import CommandGroup, get_user_name, translate_failures
from rookery.shell.command_options import (
    ENDPOINT_OPTIONS,
    NETWORK_OPTIONS,
    PLACE_OPTIONS,
    SOURCE_OPTIONS,
    add_settings_options,
    make_option,
    require_known_method,
)

if TYPE_CHECKING:
    from rookery.desk.store import Store
    from rookery.server.app import ServerOptions


SERVER_OPTIONS = (
    *ENDPOINT_OPTIONS, "samples", "choose_by", "decline", "engine", "ranker", "offline",
    *NETWORK_OPTIONS, *COMPLETION_FIELDS,
)  # fmt: skip
"""options of what answers for others: the pages, the API and MCP"""
StoreOption = Annotated[
    str,
    make_option(
        "--store PLACE  Where questions, answers and the desk are kept: a file, or "
        "postgresql://USER@HOST/DATABASE, which then has the pages too, so that servers on "
        "several machines can share it. Without it, a file in your data folder."
    ),
]
AddressOption = Annotated[str, make_option("--address URL  How people reach it: links begin so.")]
HostOption = Annotated[str, typer.Option(metavar="HOST", help="The address to listen at.")]
PortOption = Annotated[
    int, typer.Option(metavar="NUMBER", min=0, max=65535, help="The port; 0 takes any free one.")
]

AnyAddress = Annotated[
    bool,
    make_option(
        "--any-address  Also open addresses that no search and no page showed, such as those "
        "that you type to the model; a page that it reads may then talk it into opening any."
    ),
]


serve_group = CommandGroup()


@serve_group.callback(invoke_without_command=True)
@add_settings_options("places", "follow_links", *SERVER_OPTIONS)
def run_serve(
    context: typer.Context,
    store: StoreOption = "",
    settings: Settings = Settings(),
    host: HostOption = "127.0.0.1",
    port: PortOption = 8500,
    workers: Annotated[int, typer.Option(min=1)] = 1,
    at_once: Annotated[int, typer.Option(min=1)] = 4,
    behind_proxy: bool = False,
    log: bool = False,
    address: AddressOption = "",
) -> None:
    """Serve web pages to ask and to judge, and the HTTP API; or a command below.

    The pages are for people on this machine until --host says otherwise. Ctrl-C ends it.

    --workers NUMBER  Processes that answer.
    --at-once NUMBER  Questions that each process answers at the same time.
    --behind-proxy  Trust X-Forwarded headers, because only a proxy reaches it.
    --log  Log each request as a line of JSON on standard error, and print no link to enter, which a
        journal would keep.
    """
    if context.invoked_subcommand:
        return
    _require_installed()
    from rookery.server.app import ServerOptions

    _check_models(settings)
    how = ServerOptions(True, workers, at_once, behind_proxy, log, address)
    _open_at(settings, store, host, port, "Rookery", how)


@serve_group.command("mcp")
@add_settings_options(*PLACE_OPTIONS, "method", *SERVER_OPTIONS, method="")
def serve_mcp(settings: Settings = Settings(), any_address: AnyAddress = False) -> None:
    """Give a model tools to search, read, quote, answer and verify (MCP over standard input)."""
    from rookery.server.mcp.protocol import serve_stdio

    settings = require_known_method(settings)
    _check_models(settings)
    serve_stdio(settings, any_address)


def _check_models(settings: Settings) -> None:
    """Tell what leaves this machine, and where to. Raises Failed for a model that is misnamed."""
    if settings.models:
        from rookery.answers.answer_session import AnswerSession
        from rookery.shell.terminal_output import StreamConsole, warn_of_recipients

        with AnswerSession(settings) as session:
            remote = session.open_models().list_remote_models("write")
        warn_of_recipients(StreamConsole(stderr=True), [] if settings.offline else remote)


@serve_group.command("desk")
@add_settings_options("places", "follow_links", "engine", *NETWORK_OPTIONS)
def run_serve_desk(
    store: StoreOption = "",
    settings: Settings = Settings(),
    host: HostOption = "127.0.0.1",
    port: PortOption = 8500,
    address: AddressOption = "",
) -> None:
    """Serve the desk alone, where people demonstrate, compare and rate."""
    _require_installed()
    from rookery.server.app import ServerOptions

    _open_at(settings, store, host, port, "The desk", ServerOptions(reading=False, address=address))


@serve_group.command("env")
@add_settings_options("places", "follow_links", *SOURCE_OPTIONS, *NETWORK_OPTIONS)
def run_serve_env(
    questions: list[str] | None = None,
    settings: Settings = Settings(),
    frozen: str = "",
    record: str = "",
    reward: str = "accepted",
    actions: Annotated[int, typer.Option(min=1)] = 100,
    sessions: Annotated[int, typer.Option(min=1)] = 1024,
    idle: Annotated[float, typer.Option(min=1)] = 3600.0,
    workers: Annotated[int, typer.Option(min=1)] = 1,
    store: StoreOption = "",
    host: HostOption = "127.0.0.1",
    port: PortOption = 8500,
) -> None:
    """Serve the text browser as an environment for trainers (OpenEnv over HTTP and WebSocket).

    [QUESTIONS ...]  Files of questions, as for rookery ask --batch; each is a split with the name
        of its file. Without one, the questions about rookery:corvids.
    --frozen FILE  Browse a recording in place of --in: what was searched and opened when it was
        made, without the network.
    --record FILE  Record what is searched and opened, for --frozen.
    --reward KIND  What the last step earns. accepted: 1 where the answer, and a quote that it
        cites, contain an accepted answer. evidence: 0 to 1, how far the evidence model finds that
        its quotes support the answer, and answer the question. Or a reward of your own,
        python:package.module.function, or the folder of a reward model.
    --actions NUMBER  Commands of an episode, at most.
    --sessions NUMBER  Sessions at once, in each process.
    --idle NUMBER  Seconds without a message after which a session is closed.
    --workers NUMBER  Processes that serve.
    """
    with translate_failures("serve", "the environment"):
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    from rookery.browser.browser_commands import BrowserRules
    from rookery.server.environment import EnvLimits, EnvSettings, open_environment, run_env_server

    settings = msgspec.structs.replace(settings, archive=store if "://" in store else "")
    how = EnvSettings(
        tuple(questions or ()),
        settings,
        frozen,
        record,
        reward,
        BrowserRules(actions=actions),
        EnvLimits(sessions, idle),
    )
    place = locate_store(store)
    opened = open_environment(how)
    try:
        with _open_listener(host, port) as listener:
            _open_or_create_store(place).close()
            for name, tasks in opened.source.splits.items():
                typer.echo(f"{name}: {len(tasks):,} tasks")
            if opened.left_out:
                typer.echo(f"left out: {opened.left_out:,} questions without an accepted answer")
            address = _format_address(host, listener.getsockname()[1])
            typer.echo(f"The environment is open: {address}. Ctrl-C closes it.")
            run_env_server(place, how, opened, listener, workers)
    finally:
        opened.close()


@serve_group.command("key")
def run_serve_key(
    name: str,
    per_minute: Annotated[int, typer.Option(min=1)] = 600,
    budget: Annotated[float | None, typer.Option(min=0)] = None,
    revoke: bool = False,
    store: StoreOption = "",
) -> None:
    """Make a key for the HTTP API and print it, once; an older one of the same name ends.

    NAME  Whose key it is: that of a program or a person.
    --per-minute NUMBER  Requests that it may send a minute.
    --budget NUMBER  Answers that it may ask for in all; without it, any number.
    --revoke  End the key of this name, and make none.
    """
    _require_installed()
    from rookery.server.api.endpoints import create_api_key, revoke_api_key

    with _open_or_create_store(locate_store(store)) as opened_store:
        try:
            if revoke:
                revoke_api_key(opened_store, name)
                typer.echo(f"The key of {name} is revoked.", err=True)
                return
            typer.echo(create_api_key(opened_store, name, per_minute, budget))
        except Failed as failed:
            if failed.failure.outcome not in (Outcome.BAD_NAME, Outcome.NO_KEY_NAMED):
                raise
            raise ValueError(f"{name}: {failed.failure.detail}") from failed
    typer.echo("It is not shown again. Send it as: Authorization: Bearer KEY", err=True)


def _require_installed() -> None:
    """Raise CommandError where what the pages need is not installed."""
    with translate_failures("serve", "the desk"):
        import jinja2  # noqa: F401
        import multipart  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401


def _open_at(
    settings: "Settings", store: str, host: str, port: int, what: str, how: "ServerOptions"
) -> None:
    """Serve the pages until somebody stops it."""
    from rookery.library.folder_library import resolve_roots
    from rookery.pages.file_selection import list_folders
    from rookery.server.app import run_server
    from rookery.shell.security import is_loopback

    if how.address and not how.address.startswith(("http://", "https://")):
        raise ValueError(f"--address {how.address}: say it in full, as https://rookery.example")
    # No addresses, python:MODULE or rookery:corvids.
    paths = [Path(each).expanduser() for each in settings.places if ":" not in each]
    for root in resolve_roots(paths):
        if not any(each.files for each in list_folders([root], settings.selection, [])):
            detail = "nothing in this folder can be read: put PDF, Office, HTML or text files there"
            typer.echo(f"{os.fsdecode(root)}: {detail}", err=True)
    settings = msgspec.structs.replace(settings, archive=store if "://" in store else "")
    place = locate_store(store)
    with _open_listener(host, port) as listener:
        with _open_or_create_store(place) as opened_store:
            # Where it is a service, what is printed here is kept in a journal.
            local = is_loopback(host) and not (how.log or how.behind_proxy)
            at = how.address or _format_address(host, listener.getsockname()[1])
            _print_welcome(opened_store, at.rstrip("/"), what, local)
            option = f" --store {shlex.quote(store)}" if store else ""
            advice = "For another person; with --role admin also for you, in another browser: "
            typer.echo(f"{advice}rookery judge invite NAME{option}")
            typer.echo("Ctrl-C closes it.")
        run_server(place, settings, listener, how)


def _open_or_create_store(place: str) -> "Store":
    """Return the store, made where there is none."""
    from rookery.desk.store import Store, initialize_store

    try:
        return Store(place)
    except Failed as failed:
        if failed.failure.outcome != Outcome.NO_STORE or "://" in place:
            raise
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    initialize_store(place)
    typer.echo(f"A new store was made: {place}", err=True)
    return Store(place)


def _open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises ValueError with a sentence if there is none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
        # What is accepted inherits it; without it an answer waits 40 ms for the client's kernel.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        sentences = {
            EADDRINUSE: f"port {port} is taken, perhaps by another desk: choose one with --port",
            EACCES: f"port {port} is not yours to open: choose one above 1023 with --port",
        }
        otherwise = f"cannot listen at {host}: name an address of this machine with --host"
        raise ValueError(sentences.get(error.errno or 0, otherwise)) from error


def _print_welcome(store: "Store", at: str, what: str, local: bool) -> None:
    """Say at which address it is, and as long as nobody has ever come in, let whoever starts it in
    if they are `local`."""
    from rookery.desk.accounts import create_invite, list_audit_entries, write_audit_entry

    entered = any(line.action == "enter" for line in list_audit_entries(store))
    with store.begin_write() as connection:  # rookery judge invite makes links of it
        write_audit_entry(connection, get_user_name("admin"), "serve", at, store.clock())
    if local and not entered:
        name = get_user_name("admin")
        token = create_invite(store, name, "admin", by=name)
        typer.echo(f"{what} is open. Come in, once, by this link: {at}/enter/{token}")
    else:
        typer.echo(f"{what} is open: {at}")


def _format_address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
