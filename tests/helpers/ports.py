"""Ports of this machine for servers of tests."""

import secrets
import socket
from contextlib import suppress


def find_free_port() -> int:
    """Return a port on which nobody listens, and which no connection gets by itself.

    The system gives outgoing connections ports from 32768 on (Linux): one of those may be taken
    before the server of a test has it, and who calls it while nobody is there may be put through to
    themselves. Libraries that seed `random` would have two workers choose the same port.
    """
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
