"""Documents of one's own: dropped in, read at once, searched with the rest, removed again.

They lie in one folder of the data directory and are there for all who may ask here. What cannot be
read is not kept, and why is said. Only a desk on this very machine takes documents, or one that was
told to (`app.state.uploads`). It knows nothing of how an answer is made.
"""

import ipaddress
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.browse.archive import Archive, worded
from rookery.browse.folder import Folder
from rookery.browse.selection import type_not_read
from rookery.judge import people
from rookery.judge.people import allowed
from rookery.records import Failed, Failure, Page
from rookery.serve.files import read_files
from rookery.serve.session import ARCHIVE, cache_home, data_home
from rookery.serve.web.answering import Answering, answering_of
from rookery.serve.web.app import desk_of, needs, one, person_of, problem, see_other, sent
from rookery.serve.web.app import session_of as session_token
from rookery.serve.web.page_text import visible
from rookery.serve.web.rendering import Link, page

NAME = "documents"
"""of the folder, and of the place when somebody chooses where to look"""
READ = "HTML, PDF, DOCX, Markdown and any kind of text are read"
_NOTES = "documents.failed.json"
_LONGEST = 120
_PLAIN = re.compile(r"[^\w .,()&+'-]")
_SPACE = re.compile(r"\s+")


class Uploads(msgspec.Struct, frozen=True):
    """How much is taken."""

    file: int = 20_000_000
    """bytes of one file"""
    at_once: int = 20
    """files"""
    files: int = 1000
    """that are kept"""
    bytes: int = 2_000_000_000
    """of all that are kept"""


class Dropped(NamedTuple):
    """A file as it came."""

    name: str
    data: bytes
    """empty where it is too large"""
    size: int


class Document(NamedTuple):
    """A file that is kept."""

    name: str
    size: int
    title: str
    characters: int
    address: str
    """of its stored page; empty: it could not be read"""
    trouble: str


def routes() -> list[Route]:
    """What is there, dropping in, removing."""
    documents = Documents()
    return [
        Route("/documents", needs("reader")(documents.look)),
        Route("/documents", documents.drop, methods=["POST"]),
        Route("/documents/remove", needs("reviewer")(documents.remove), methods=["POST"]),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/documents", "Documents", "reader")]


def folder() -> Path:
    """Where they lie."""
    return data_home() / NAME


def offer(answering: Answering) -> None:
    """Has them searched, as they are now; nothing, where there are none."""
    if _files():
        answering.offer(NAME, str(folder()))
    elif NAME in answering.offers.places:
        left = {name: at for name, at in answering.offers.places.items() if name != NAME}
        answering.offers = msgspec.structs.replace(answering.offers, places=left)


class Documents:
    """The documents of one desk, as this process serves them."""

    def __init__(self, uploads: Uploads = Uploads()) -> None:
        self.uploads = uploads
        self._turn = threading.Lock()
        """one at a time changes what is there"""

    def look(self, request: Request) -> Response:
        """All that are kept, and what was not."""
        found, answering = _documents(), answering_of(request)
        if bool(found) != (NAME in answering.offers.places):  # another process changed it
            offer(answering)
        return page(
            request,
            "documents.html",
            found=found,
            failed=_failed(),
            may=may_upload(request),
            may_remove=allowed(person_of(request), "reviewer"),
            read=READ,
            uploads=self.uploads,
            name=NAME,
        )

    async def drop(self, request: Request) -> Response:
        """Takes files in."""
        # Who is not let in does not get to fill the memory.
        if await run_in_threadpool(_is_reader, request) and may_upload(request):
            try:
                request.state.dropped = await self._dropped(request)
            except HTTPException:
                request.state.person = None
                most = f"Send at most {self.uploads.at_once} files at once, as this page does."
                return problem(request, 400, most)
            return await needs("reader")(self._take)(request)
        request.state.person = None
        return problem(request, 403, "Documents cannot be dropped in here.")

    def remove(self, request: Request) -> Response:
        """Takes one out."""
        name = one(sent(request), "name")
        with self._changing():
            if name not in [file.name for file in _files()]:  # so that no path comes from outside
                return problem(request, 404, "There is no such document.")
            (folder() / name).unlink(missing_ok=True)
            _index()
        offer(answering_of(request))
        return see_other("/documents")

    def _take(self, request: Request) -> Response:
        dropped: list[Dropped] = request.state.dropped
        failed: list[Failure] = []
        with self._changing():
            for each in dropped:
                try:
                    self._keep(each)
                except Failed as trouble:
                    if trouble.failure.outcome in ("disk_full", "archive_busy"):
                        raise
                    name = visible(each.name.strip() or "a file without a name")[:_LONGEST]
                    failed.append(msgspec.structs.replace(trouble.failure, what=name))
            _note(failed)
            _index()
        offer(answering_of(request))
        return see_other("/documents#failed" if failed else "/documents")

    def _keep(self, dropped: Dropped) -> None:
        """Puts a file where it belongs, if it can be read. Raises Failed."""
        if dropped.size > self.uploads.file:
            largest = self.uploads.file // 1_000_000
            raise Failed(Failure("", "too_large", f"it has more than {largest} MB"))
        name = safe_name(dropped.name)
        if what := type_not_read(name):
            raise Failed(Failure("", "not_opened", f"{what}: {READ}"))
        kept = _files()
        full = len(kept) >= self.uploads.files
        if full or sum(file.stat().st_size for file in kept) > self.uploads.bytes:
            detail = "there is no more room for documents: remove some first"
            raise Failed(Failure("", "too_many", detail))
        with tempfile.TemporaryDirectory(dir=folder().parent) as aside:
            place = Path(aside) / name
            place.write_bytes(dropped.data)
            [got] = read_files([place])
            if isinstance(got, Failure):
                raise Failed(_as_told(got))
            place.replace(folder() / name)

    async def _dropped(self, request: Request) -> list[Dropped]:
        """The files that were sent. Raises HTTPException where there are too many."""
        form = await request.form(max_files=self.uploads.at_once, max_fields=10)
        found = []
        for value in form.getlist("files"):
            if isinstance(value, UploadFile) and (value.filename or value.size):
                size = value.size or 0
                data = await value.read() if size <= self.uploads.file else b""
                found.append(Dropped(value.filename or "", data, size))
        return found

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._turn, worded(folder()):
            folder().mkdir(parents=True, exist_ok=True)
            yield


def safe_name(name: str) -> str:
    """A file's name that is one everywhere: no folders, nothing unseen, nothing hidden."""
    plain = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    plain = _SPACE.sub(" ", _PLAIN.sub("_", plain))
    stem, dot, extension = plain.rpartition(".")
    stem, extension = (stem if dot else extension).strip(" ._"), extension if dot else ""
    room = _LONGEST - len(extension)
    while len(stem.encode()) > room:  # file systems count bytes
        stem = stem[:-1]
    return f"{stem.strip(' ._') or 'document'}{dot}{extension}"


def may_upload(request: Request) -> bool:
    """Whether this desk takes documents."""
    said: bool | None = getattr(request.app.state, "uploads", None)
    if said is not None:
        return said
    there = request.client.host if request.client else ""
    return _is_loopback(there) and _is_loopback(request.url.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_reader(request: Request) -> bool:
    person = people.who(desk_of(request).store, session_token(request))
    return person is not None and allowed(person, "reader")


def _files() -> list[Path]:
    if not folder().is_dir():
        return []
    return sorted(
        file for file in folder().iterdir() if not file.name.startswith(".") and file.is_file()
    )


def _index() -> None:
    """Makes the index true to the folder. Raises Failed where the disk or the archive does."""
    if _files():
        with Archive(data_home() / ARCHIVE) as archive:
            _opened(archive).close()


def _opened(archive: Archive) -> Folder:
    return Folder(folder(), archive, cache_home())


def _documents() -> list[Document]:
    """Each file with what is known of it."""
    files = _files()
    if not files:
        return []
    try:
        with Archive(data_home() / ARCHIVE) as archive, _opened(archive) as library:
            return [_document(file, library) for file in files]
    except Failed as failed:
        if failed.failure.outcome != "empty_library":
            raise
        return [_unread(file, "it cannot be read any longer") for file in files]


def _document(file: Path, library: Folder) -> Document:
    try:
        read: Page = library.fetch(file.resolve().as_uri())
    except Failed as failed:
        return _unread(file, failed.failure.detail or failed.failure.outcome)
    title = visible(" ".join(read.title.split())[:200])
    size = file.stat().st_size
    return Document(file.name, size, title, len(read.text), f"/pages/{read.digest}", "")


def _unread(file: Path, why: str) -> Document:
    return Document(file.name, file.stat().st_size, "", 0, "", why)


def _as_told(failure: Failure) -> Failure:
    if failure.outcome not in ("unsupported_type", "binary"):
        return failure
    return msgspec.structs.replace(failure, detail=f"{failure.detail}: {READ}")


def _note(failed: list[Failure]) -> None:
    """Keeps why files were refused, until others are dropped in."""
    place = data_home() / _NOTES
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
        file.write(msgspec.json.encode(failed))
    Path(file.name).replace(place)


def _failed() -> list[Failure]:
    try:
        return msgspec.json.decode((data_home() / _NOTES).read_bytes(), type=list[Failure])
    except (OSError, msgspec.MsgspecError):
        return []
