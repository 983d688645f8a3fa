"""Send a policy's weights to vLLM servers that do not see the trainer's files.

The trainer serves the folder over HTTP while the servers load it. vLLM has no request that takes
weights from an address, so that its workers need `WeightDownload`, which a server gets by
`--worker-extension-cls rookery.learn.weight_transfer.WeightDownload`. Everything here runs without
torch: a server's environment needs the base installation of Rookery.
"""

import shutil
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hmac import compare_digest
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

_DOWNLOAD_TIMEOUT = 60.0
"""seconds without a byte, after which a download has failed"""


@contextmanager
def serve_folder(folder: Path, host: str) -> Iterator[str]:
    """Serve the files of a folder over HTTP while the block runs, and yield their address.

    `host` is the name or IP address at which others reach this machine, with or without a port;
    without one, a free port is taken. It listens at all addresses of this machine, without
    encryption. The address holds a random token, and nothing is answered without it. Raises OSError
    where the port is taken.
    """
    token = token_urlsafe()
    parts = urlsplit(f"//{host}")
    serve = partial(_FolderHandler, token, directory=str(folder))
    with ThreadingHTTPServer(("", parts.port or 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            name = host if parts.port else f"{host}:{server.server_address[1]}"
            yield f"http://{name}/{token}"
        finally:
            server.shutdown()
            thread.join()


class _FolderHandler(SimpleHTTPRequestHandler):
    """Answers requests for files of a folder that begin with the token, and 404 to all others."""

    def __init__(self, token: str, *arguments: Any, directory: str) -> None:
        self._token = token
        super().__init__(*arguments, directory=directory)

    def translate_path(self, path: str) -> str:
        """Return the path of the requested file, or one that does not exist."""
        token, _, name = path.removeprefix("/").partition("/")
        known = compare_digest(token.encode(), self._token.encode())
        return super().translate_path(f"/{name}") if known else f"{self.directory}/{self._token}"

    def list_directory(self, path: Any) -> None:
        """Answer 404: folders are not listed."""
        self.send_error(404)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the addresses hold the token."""


class WeightDownload:
    """A worker extension of vLLM (0.32 or later) that loads weights from an address.

    vLLM adds its methods to those of each worker, and `/collective_rpc` calls them.
    """

    def download_weights(self, address: str, files: Sequence[str]) -> None:
        """Load the weights in these files of `serve_folder`'s address.

        One worker of each machine downloads them, into a temporary folder that is deleted again.
        """
        from vllm.distributed import get_world_group  # type: ignore[import-not-found]

        workers, fault = get_world_group(), None
        folder = Path(tempfile.gettempdir(), workers.broadcast_object(f"weights-{token_urlsafe()}"))
        first = workers.local_rank == 0
        try:
            if first:
                try:
                    _download_files(address, files, folder)
                except OSError as error:
                    fault = error
            workers.barrier()  # also after a failure, or the others would wait for ever
            if fault:
                raise fault
            self.reload_weights(weights_path=str(folder))  # type: ignore[attr-defined]
            workers.barrier()
        finally:
            if first:
                shutil.rmtree(folder, ignore_errors=True)


def _download_files(address: str, files: Sequence[str], folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name in files:
        with (
            urllib.request.urlopen(f"{address}/{name}", timeout=_DOWNLOAD_TIMEOUT) as found,
            (folder / name).open("wb") as file,
        ):
            shutil.copyfileobj(found, file, 1 << 20)
