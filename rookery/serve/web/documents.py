"""Uploaded documents: upload, read at once, list, search with the rest, replace, remove, undo.

They are files in one folder of the data directory, which everybody who may ask on this server can
search. Who added a document may replace and remove it, and so may reviewers; what was replaced or
removed is kept beside until somebody deletes it for good. A file that cannot be read is not kept,
and the page says why. Uploads are taken only from
this very machine, unless the server was told otherwise (`app.state.uploads`).
"""

import ipaddress
import re
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.browse.file_selection import name_unread_type
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.page_archive import PageArchive, translate_storage_errors
from rookery.judge import accounts
from rookery.judge.accounts import has_role
from rookery.records import Failed, Failure, Page
from rookery.serve.api.answer_workers import AnswerService, get_answer_service
from rookery.serve.file_reading import read_document_files
from rookery.serve.settings import Settings, get_cache_folder, get_data_folder, locate_archive
from rookery.serve.web.endpoints import (
    get_app_context,
    get_form_fields,
    get_last_value,
    get_signed_in_person,
    redirect_after_post,
    render_problem_page,
    require_role,
)
from rookery.serve.web.endpoints import get_session_token as session_token
from rookery.serve.web.rendering import NavigationLink, render_page
from rookery.serve.web.stored_pages import replace_unseen_characters

DOCUMENTS_PLACE = "documents"
"""Name of the folder, and of the place to search that people choose in the form."""
READABLE_TYPES = "HTML, PDF, Office documents, e-books, mail, Markdown and any text are read"
"""File types that can be read, in words."""
_REMOVED_FOLDER = "documents.removed"
"""Folder of the data directory with what was replaced or removed, the last file of each name."""
_OWNERS_FILE = "documents.owners.json"
"""File in the data directory with who added each document, by file name."""
_REMOVED_OWNER = "removed/"
"""Before the file name of one that was replaced or removed, in the file of owners."""
_FAILURES_FILE = "documents.failed.json"
"""File in the data directory with the reasons why the last uploads were refused."""
_MAX_NAME_BYTES = 120
"""Maximum length of a file name, in UTF-8 bytes."""
_UNNAMED = "document"
"""Stem of a file whose name has nothing else that may stay."""
_UNSAFE_CHARACTERS = re.compile(r"[^\w .,()&+'-]")
_WHITESPACE = re.compile(r"\s+")


class UploadLimits(msgspec.Struct, frozen=True):
    """Limits on uploaded documents."""

    file: int = 20_000_000
    """Maximum size of one file in bytes."""
    at_once: int = 20
    """Maximum number of files in one upload."""
    files: int = 1000
    """Maximum number of files that are kept."""
    bytes: int = 2_000_000_000
    """Maximum size of all files that are kept, in bytes."""


class UploadedFile(NamedTuple):
    """An uploaded file as the browser sent it."""

    name: str
    data: bytes
    """Contents; empty if the file is larger than the limit."""
    size: int
    """Size in bytes as it was sent."""


class DocumentRow(NamedTuple):
    """A kept file as a row of the page."""

    name: str
    size: int
    """Size in bytes."""
    title: str
    characters: int
    """Length of its text; 0 if it could not be read."""
    address: str
    """Path of its stored page; empty if it could not be read."""
    trouble: str
    """Reason why it could not be read; empty if it was."""
    owner: str = ""
    """Name of the person who added it; empty if nobody noted it."""


def build_document_routes() -> list[Route]:
    """Return the routes for listing, uploading and removing documents."""
    documents = DocumentPages()
    return [
        Route("/documents", require_role("reader")(documents.show_documents)),
        Route("/documents", documents.post_files, methods=["POST"]),
        *(
            Route(f"/documents/{what}", require_role("reader")(handle), methods=["POST"])
            for what, handle in (
                ("remove", documents.post_removal),
                ("restore", documents.post_restoring),
                ("delete", documents.post_deletion),
            )
        ),
    ]


def list_document_links() -> list[NavigationLink]:
    """Return the link to the documents in the head of each page."""
    return [NavigationLink("/documents", "Documents", "reader")]


def get_documents_folder() -> Path:
    """Return the folder in which uploaded documents are kept."""
    return get_data_folder() / DOCUMENTS_PLACE


def register_documents(answering: AnswerService) -> None:
    """Offer the documents folder as a place to search, reopened; withdraw it if it is empty."""
    if _list_files():
        answering.add_place(DOCUMENTS_PLACE, str(get_documents_folder()))
    elif DOCUMENTS_PLACE in answering.capabilities.places:
        answering.remove_place(DOCUMENTS_PLACE)


class DocumentPages:
    """The pages of uploaded documents, as one process serves them."""

    def __init__(self, uploads: UploadLimits = UploadLimits()) -> None:
        self.uploads = uploads
        self._lock = threading.Lock()
        """Held while the folder changes, so that one request changes it at a time."""

    def show_documents(self, request: Request) -> Response:
        """Show the kept documents, and why the last refused files were refused."""
        settings = get_app_context(request).settings
        found, answering = _list_documents(settings), get_answer_service(request)
        if bool(found) != (
            DOCUMENTS_PLACE in answering.capabilities.places
        ):  # another process changed it
            register_documents(answering)
        return render_page(
            request,
            "documents.html",
            found=found,
            failed=_load_failures(),
            may=may_upload(request),
            may_change=_list_changeable(request, [one.name for one in found]),
            removed=_list_changeable(
                request, [file.name for file in _list_removed()], _REMOVED_OWNER
            ),
            last=request.query_params.get("removed", ""),
            others=[name for name in answering.capabilities.places if name != DOCUMENTS_PLACE],
            read=READABLE_TYPES,
            uploads=self.uploads,
            name=DOCUMENTS_PLACE,
        )

    async def post_files(self, request: Request) -> Response:
        """Keep the uploaded files that can be read, and save why the others were refused.

        People who may not upload are refused before any file is read into memory.
        """
        # Checked before the files are read into memory.
        if await run_in_threadpool(_is_reader, request) and may_upload(request):
            try:
                request.state.dropped = await self._read_uploads(request)
            except HTTPException:
                request.state.person = None
                most = f"Send at most {self.uploads.at_once} files at once, as this page does."
                return render_problem_page(request, 400, most)
            return await require_role("reader")(self._store_files)(request)
        request.state.person = None
        return render_problem_page(request, 403, "Documents cannot be uploaded here.")

    def post_removal(self, request: Request) -> Response:
        """Remove a document from the folder and the index, and keep it beside."""
        return self._change_document(request, _list_files(), _set_aside, "?removed={}")

    def post_restoring(self, request: Request) -> Response:
        """Put back a document that was replaced or removed; what has its place now is kept."""
        return self._change_document(request, _list_removed(), _put_back, "")

    def post_deletion(self, request: Request) -> Response:
        """Delete for good a document that was replaced or removed."""
        return self._change_document(request, _list_removed(), Path.unlink, "")

    def _change_document(
        self, request: Request, files: list[Path], change: Callable[[Path], None], then: str
    ) -> Response:
        """Change the one of these files that is named, if the person may, and the index."""
        name = get_last_value(get_form_fields(request), "name")
        with self._lock_folder():
            # Compared with what is there, so that no path comes from outside.
            file = next((file for file in files if file.name == name), None)
            if file is None or not file.is_file():
                return render_problem_page(request, 404, "There is no such document.")
            prefix = _REMOVED_OWNER if file.parent.name == _REMOVED_FOLDER else ""
            if not _list_changeable(request, [name], prefix):
                who = _load_owners().get(prefix + name) or "somebody else"
                why = f"This document is {who}'s: only they or a reviewer can change it."
                return render_problem_page(request, 403, why)
            change(file)
            _update_index(get_app_context(request).settings)
        register_documents(get_answer_service(request))
        return redirect_after_post(f"/documents{then.format(quote(name))}")

    def _store_files(self, request: Request) -> Response:
        """Store the files that can be read, and save why the others were refused."""
        dropped: list[UploadedFile] = request.state.dropped
        person, failed = get_signed_in_person(request), list[Failure]()
        with self._lock_folder():
            for each in dropped:
                try:
                    name = make_safe_file_name(each.name)
                    may = not request.state.replaces or _list_changeable(request, [name])
                    self._store_file(each, person.name, bool(request.state.replaces and may))
                except Failed as trouble:
                    if trouble.failure.outcome in ("disk_full", "archive_busy"):
                        raise
                    name = replace_unseen_characters(each.name.strip() or "a file without a name")[
                        :_MAX_NAME_BYTES
                    ]
                    failed.append(msgspec.structs.replace(trouble.failure, what=name))
            _save_failures(failed)
            _update_index(get_app_context(request).settings)
        register_documents(get_answer_service(request))
        return redirect_after_post("/documents#failed" if failed else "/documents")

    def _store_file(self, dropped: UploadedFile, owner: str, replaces: bool) -> None:
        """Store one file if it can be read and there is room. Raises Failed.

        Another file of its name is kept beside if it `replaces` it, and else stays.
        """
        if dropped.size > self.uploads.file:
            largest = self.uploads.file // 1_000_000
            raise Failed(Failure("", "too_large", f"it has more than {largest} MB"))
        name = make_safe_file_name(dropped.name)
        if what := name_unread_type(name):
            raise Failed(Failure("", "not_opened", f"{what}: {READABLE_TYPES}"))
        here = get_documents_folder() / name
        if here.is_file() and not replaces and here.read_bytes() != dropped.data:
            who = f", {former}'s" if (former := _load_owners().get(name)) else ""
            detail = (
                f"a document of this name is here already{who}: give yours another name, or choose "
                "to replace documents that you may change"
            )
            raise Failed(Failure("", "name_taken", detail))
        others = [file for file in _list_files() if file.name != name]
        size = dropped.size + sum(file.stat().st_size for file in others)
        if len(others) >= self.uploads.files or size > self.uploads.bytes:
            detail = "there is no more room for documents: remove some first"
            raise Failed(Failure("", "too_many", detail))
        with tempfile.TemporaryDirectory(dir=get_documents_folder().parent) as aside:
            place = Path(aside) / name
            place.write_bytes(dropped.data)
            [got] = read_document_files([place])
            if isinstance(got, Failure):
                raise Failed(_explain_failure(got))
            if here.is_file() and here.read_bytes() != dropped.data:
                _set_aside(here)
            if not here.is_file():
                place.replace(here)
                _save_owner(name, owner)

    async def _read_uploads(self, request: Request) -> list[UploadedFile]:
        """Read the files of the form. Raises HTTPException if there are too many."""
        form = await request.form(max_files=self.uploads.at_once, max_fields=10)
        request.state.replaces = form.get("replace") == "yes"
        found = []
        for value in form.getlist("files"):
            if isinstance(value, UploadFile) and (value.filename or value.size):
                size = value.size or 0
                data = await value.read() if size <= self.uploads.file else b""
                found.append(UploadedFile(value.filename or "", data, size))
        return found

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        with self._lock, translate_storage_errors(get_documents_folder()):
            get_documents_folder().mkdir(parents=True, exist_ok=True)
            yield


def make_safe_file_name(name: str) -> str:
    """Return a file name without folders, invisible or special characters and leading dots.

    It has at most 120 UTF-8 bytes. The stem is shortened before the extension.
    """
    plain = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    plain = _WHITESPACE.sub(" ", _UNSAFE_CHARACTERS.sub("_", plain))
    stem, dot, extension = plain.rpartition(".")
    stem, ending = (stem, f".{extension}") if dot else (extension, "")
    ending = _truncate_to_bytes(ending, _MAX_NAME_BYTES - len(_UNNAMED))
    room = _MAX_NAME_BYTES - len(ending.encode())
    return (_truncate_to_bytes(stem.strip(" ._"), room).strip(" ._") or _UNNAMED) + ending


def _truncate_to_bytes(text: str, size: int) -> str:
    """Return the longest beginning of a text that has at most `size` UTF-8 bytes."""
    return text.encode()[:size].decode(errors="ignore")  # file systems count bytes


def may_upload(request: Request) -> bool:
    """Return whether this request may upload documents.

    `app.state.uploads` says so; where that is not set, both the client and the host asked for must
    be this very machine.
    """
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
    person = accounts.find_session_person(get_app_context(request).store, session_token(request))
    return person is not None and has_role(person, "reader")


def _list_files() -> list[Path]:
    if not get_documents_folder().is_dir():
        return []
    return sorted(
        file
        for file in get_documents_folder().iterdir()
        if not file.name.startswith(".") and file.is_file()
    )


def _list_removed() -> list[Path]:
    folder = get_data_folder() / _REMOVED_FOLDER
    return sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []


def _set_aside(file: Path) -> None:
    """Move a document to the removed ones, in place of an earlier one of its name."""
    folder = get_data_folder() / _REMOVED_FOLDER
    folder.mkdir(exist_ok=True)
    file.replace(folder / file.name)
    _save_owner(_REMOVED_OWNER + file.name, _load_owners().get(file.name, ""))


def _put_back(file: Path) -> None:
    """Move a removed document back, and set aside what has its place now."""
    here = get_documents_folder() / file.name
    aside = file.with_name(f".{file.name}")
    file.replace(aside)
    owner = _load_owners().get(_REMOVED_OWNER + file.name, "")
    if here.is_file():
        _set_aside(here)
    aside.replace(here)
    _save_owner(file.name, owner)


def _list_changeable(request: Request, names: Iterable[str], prefix: str = "") -> list[str]:
    """Return those of the documents that the person may replace and remove: their own, or all.

    `prefix` is `_REMOVED_OWNER` for those that were removed, whose name another may have taken.
    """
    person, owners = get_signed_in_person(request), _load_owners()
    every = has_role(person, "reviewer")
    return [name for name in names if every or owners.get(prefix + name) == person.name]


def _load_owners() -> dict[str, str]:
    try:
        return msgspec.json.decode(
            (get_data_folder() / _OWNERS_FILE).read_bytes(), type=dict[str, str]
        )
    except (OSError, msgspec.MsgspecError):  # nobody is known to own what is there
        return {}


def _save_owner(name: str, owner: str) -> None:
    _write_json(_OWNERS_FILE, {**_load_owners(), name: owner})


def _update_index(settings: Settings) -> None:
    """Bring the search index up to date with the folder. Raises Failed if the disk or the archive
    fails."""
    if _list_files():
        with PageArchive(locate_archive(settings.archive)) as archive:
            _open_folder(archive).close()


def _open_folder(archive: PageArchive) -> FolderLibrary:
    return FolderLibrary(get_documents_folder(), archive, get_cache_folder())


def _list_documents(settings: Settings) -> list[DocumentRow]:
    """Return a row for each kept file."""
    files = _list_files()
    if not files:
        return []
    try:
        archived = PageArchive(locate_archive(settings.archive))
        with archived as archive, _open_folder(archive) as library:
            owners = _load_owners()
            return [
                _describe_document(file, library)._replace(owner=owners.get(file.name, ""))
                for file in files
            ]
    except Failed as failed:
        if failed.failure.outcome != "empty_library":
            raise
        return [_describe_unreadable(file, "it can no longer be read") for file in files]


def _describe_document(file: Path, library: FolderLibrary) -> DocumentRow:
    try:
        read: Page = library.fetch(file.resolve().as_uri())
    except Failed as failed:
        return _describe_unreadable(file, failed.failure.detail or failed.failure.outcome)
    title = replace_unseen_characters(" ".join(read.title.split())[:200])
    size = file.stat().st_size
    return DocumentRow(file.name, size, title, len(read.text), f"/pages/{read.digest}", "")


def _describe_unreadable(file: Path, why: str) -> DocumentRow:
    return DocumentRow(file.name, file.stat().st_size, "", 0, "", why)


def _explain_failure(failure: Failure) -> Failure:
    if failure.outcome not in ("unsupported_type", "binary"):
        return failure
    return msgspec.structs.replace(failure, detail=f"{failure.detail}: {READABLE_TYPES}")


def _save_failures(failed: list[Failure]) -> None:
    """Save why files were refused; the next upload overwrites it."""
    _write_json(_FAILURES_FILE, failed)


def _write_json(name: str, value: object) -> None:
    """Write a file of the data directory, whole or not at all."""
    place = get_data_folder() / name
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
        file.write(msgspec.json.encode(value))
    Path(file.name).replace(place)


def _load_failures() -> list[Failure]:
    try:
        return msgspec.json.decode(
            (get_data_folder() / _FAILURES_FILE).read_bytes(), type=list[Failure]
        )
    except (OSError, msgspec.MsgspecError):
        return []
