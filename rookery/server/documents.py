"""Documents that people add: uploaded files and pages of the web, and the versions of each.

The current version of each document is a file of the documents folder, under its name; the others
are in a folder beside, by number, until somebody deletes them for good. A change is written to the
file of records first and then made with the files, and `settle_document` makes it again where it
was broken off: a server that is killed loses nothing.

A page that somebody adds by its address is fetched first, and then read as a file is. Fetching
obeys the network rules of every other fetch of the server (`rookery.network.access_rules`): each
address on the way, of redirects too, is resolved and checked where the connection is made.

Each upload is a folder of the data directory with the file and its record, which is there whole or
not at all. A thread reads them one by one, and a server that starts goes on with what one left
behind. One that ended a server repeatedly while it was read is given up.
"""

import codecs
import hashlib
import logging
import re
import secrets
import shutil
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.answers.answer_session import EvidenceSources
from rookery.desk.accounts import Person, has_role
from rookery.errors import Failed, Outcome
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import BUNDLED_PLACE
from rookery.library.page_archive import PageArchive, translate_storage_errors, write_whole_file
from rookery.library.search_index import hold_lock
from rookery.library.stored_indexes import erase_pages
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import FetchResponse
from rookery.pages.file_selection import DOCUMENT_READERS, READER_OF_ENDING, name_unread_type
from rookery.pages.page_reader import detect_type
from rookery.pages.text_encoding import decode_text
from rookery.records import Failure, Page, decode_json
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.answer_sessions import (
    DOCUMENTS_PLACE,
    PlaceFile,
    ServerCapabilities,
    list_place_files,
)
from rookery.settings import Settings, get_cache_folder, get_data_folder, locate_archive
from rookery.shell.file_reading import read_document_files
from rookery.shell.languages import mark_text
from rookery.shell.rendering import replace_unseen_characters
from rookery.typed_files import read_text_table

LISTING_SECONDS = 10.0
"""seconds for which the list of a place's files is kept"""
_VERSIONS_FOLDER = "documents.versions"
"""folder of the data directory with the versions that are not current"""
_RECORDS_FILE = "documents.versions.json"
"""file of the data directory with the record of each document, by file name"""
_LOCK_FILE = "documents.lock"
_LOCK = threading.Lock()
"""held with the lock file: that keeps out other processes, and this the other threads"""


class DocumentText(msgspec.Struct, frozen=True):
    """The page that was read from a file, in short: a list of documents opens no page."""

    digest: str
    title: str
    characters: int
    unread: tuple[str, ...] = ()
    """kinds of what it holds and is not searched, as `list_unread_kinds` gives them"""


class DocumentVersion(msgspec.Struct, frozen=True):
    """One version of a document."""

    number: int
    """from 1"""
    owner: str = ""
    """name of the person who added it; empty if nobody noted it"""
    added: float = 0.0
    """time at which it was added, seconds since 1970"""
    size: int = 0
    """size of the file in bytes"""
    text: DocumentText | None = None
    """None if nobody noted it"""
    address: str = ""
    """web address from which it was fetched; empty for a file that was uploaded"""


class DocumentRecord(msgspec.Struct, frozen=True):
    """The versions of one document."""

    versions: tuple[DocumentVersion, ...]
    """by number"""
    current: int
    """number of the version that is searched; 0: the document is removed"""

    def find_version(self, number: int) -> DocumentVersion | None:
        """Return the version with this number; None if there is none."""
        return next((each for each in self.versions if each.number == number), None)

    @property
    def shown(self) -> DocumentVersion | None:
        """The version that is searched; None if the document is removed."""
        return self.find_version(self.current)


DocumentRecords = dict[str, DocumentRecord]
"""by file name"""


def get_documents_folder() -> Path:
    """Return the folder in which uploaded documents are kept."""
    return get_data_folder() / DOCUMENTS_PLACE


class SearchedPlace(NamedTuple):
    """A place that is searched, as pages name it."""

    name: str
    files: tuple[PlaceFile, ...]
    """its files by name; none where they are not known, as of the web"""
    newest: float
    """time of the last change of any; 0 where that says nothing"""


def list_searched_places(offered: ServerCapabilities) -> list[SearchedPlace]:
    """List the places that a server searches, with the files of those on this machine."""
    places, records = [], DocumentRecords()
    with suppress(Failed):  # damaged, which the page of documents says
        records = load_document_records()
    for name, place in offered.places.items():
        if name == DOCUMENTS_PLACE:
            files = tuple(
                each._replace(title=record.shown.text.title)
                for each in list_place_files(place)
                if (record := records.get(each.name)) and record.shown and record.shown.text
            )
        else:
            files = _recall_place_files(place, int(time.monotonic() / LISTING_SECONDS))
        newest = max((each.changed for each in files), default=0.0)
        # The bundled pages are as old as the installation.
        places.append(SearchedPlace(name, files, 0.0 if place == BUNDLED_PLACE else newest))
    return places


@lru_cache(maxsize=64)
def _recall_place_files(place: str, _period: int) -> tuple[PlaceFile, ...]:
    return list_place_files(place)


@contextmanager
def lock_documents() -> Iterator[None]:
    """Keep other threads and processes from changing documents; the folder is made if needed.

    Waits while another has the lock. A thread that has it must not take it again. Raises Failed if
    the disk fails, also for errors of files within the block.
    """
    with _LOCK, translate_storage_errors(get_documents_folder()):
        get_documents_folder().mkdir(parents=True, exist_ok=True)
        with hold_lock(get_data_folder() / _LOCK_FILE, lambda: None):
            yield


def load_document_records() -> DocumentRecords:
    """Return the record of each document; a file that nobody noted is a first version.

    Raises Failed (damaged_records) where the records cannot be read: nothing may be written over
    what they say of versions that are kept.
    """
    path, records = get_data_folder() / _RECORDS_FILE, DocumentRecords()
    try:
        records = decode_json(path.read_bytes(), DocumentRecords)
    except FileNotFoundError:  # nothing was noted yet
        pass
    except (OSError, ValueError) as error:
        detail = mark_text(
            "the records of documents cannot be read: whoever keeps this server should put their "
            "file back from a copy, or move it away"
        )
        raise Failed(Failure(str(path), Outcome.DAMAGED_RECORDS, detail)) from error
    for file in list_current_files():
        if file.name not in records:
            about = file.stat()
            first = DocumentVersion(1, added=about.st_mtime, size=about.st_size)
            records[file.name] = DocumentRecord((first,), 1)
    return dict(sorted(records.items()))


def stamp_documents() -> int:
    """Return a number that changes whenever a document does, also in another process."""
    try:
        return (get_data_folder() / _RECORDS_FILE).stat().st_mtime_ns
    except OSError:  # nothing was changed yet
        return 0


def list_current_files() -> list[Path]:
    """Return the files of the current versions by name; none if there is no folder yet."""
    folder = get_documents_folder()
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.iterdir() if not f.name.startswith(".") and f.is_file())


def may_change_version(version: DocumentVersion, person: Person) -> bool:
    """Return whether a person may replace or remove a version: who added it, or a reviewer."""
    return has_role(person, "reviewer") or version.owner == person.name


def add_document_version(
    name: str, file: Path, owner: str, added: float, text: DocumentText, address: str = ""
) -> DocumentVersion:
    """Make a file the current version of the document of this name, and return the version.

    The file is moved. `address` is where on the web it was fetched. Hold `lock_documents`.
    """
    records = load_document_records()
    former = records.get(name, DocumentRecord((), 0))
    number = max((each.number for each in former.versions), default=0) + 1
    while _get_version_path(name, number).exists():  # its record is gone, and it is kept
        number += 1
    version = DocumentVersion(number, owner, added, file.stat().st_size, text, address)
    aside = _get_version_path(name, number)
    aside.parent.mkdir(parents=True, exist_ok=True)
    file.replace(aside)
    _save_record(name, DocumentRecord((*former.versions, version), number))
    return version


def switch_document_version(name: str, number: int) -> None:
    """Make another version of a document the current one; 0 removes the document.

    Its file moves into the folder, and that of the former one out of it; the index does not change
    (`DocumentReader.update_index`). Name and number must be on record. Hold `lock_documents`.
    """
    record = load_document_records()[name]
    _save_record(name, msgspec.structs.replace(record, current=number))


def delete_document_version(name: str, number: int) -> None:
    """Delete a version for good, with its file. Hold `lock_documents`.

    It must not be the current one, which is not checked. A document without versions is forgotten.
    """
    record = load_document_records()[name]
    left = tuple(each for each in record.versions if each.number != number)
    _save_record(name, msgspec.structs.replace(record, versions=left))
    _get_version_path(name, number).unlink(missing_ok=True)


def settle_document(name: str, record: DocumentRecord) -> None:
    """Move the files of a document to where its record says they are. Hold `lock_documents`."""
    path = get_documents_folder() / name
    ready = _get_version_path(name, record.current)
    if record.current and not ready.is_file():
        return
    if path.is_file():
        # The version whose file is not in its place is the one that was current.
        former = [
            each.number
            for each in record.versions
            if each.number != record.current and not _get_version_path(name, each.number).is_file()
        ]
        if former:
            aside = _get_version_path(name, former[-1])
            aside.parent.mkdir(parents=True, exist_ok=True)
            path.replace(aside)
    if record.current:
        ready.replace(path)


def find_version_file(url: str, digest: str) -> Path | None:
    """Return the file of a document's version that is not current, by its page's URL and digest.

    None if there is none. Raises Failed (damaged_records).
    """
    name = Path(unquote(urlsplit(url).path)).name
    files = (_get_version_path(name, each.number) for each in _find_versions(url, digest))
    return next((file for file in files if file.is_file()), None)


def find_version_address(url: str, digest: str) -> str:
    """Return the web address from which a document was fetched, by its page's URL and digest.

    Empty if it was none, or was not fetched.
    """
    try:
        found = _find_versions(url, digest)
    except Failed:  # damaged records, which the page of documents says
        return ""
    return next((each.address for each in found if each.address), "")


def _find_versions(url: str, digest: str) -> list[DocumentVersion]:
    """Return the versions of a document that have this text, by its page's URL."""
    path = Path(unquote(urlsplit(url).path))
    if urlsplit(url).scheme != "file" or path.parent != get_documents_folder().resolve():
        return []
    record = load_document_records().get(path.name)
    versions = record.versions if record else ()
    return [each for each in versions if each.text and each.text.digest == digest]


def _save_record(name: str, record: DocumentRecord) -> None:
    records = {**load_document_records(), name: record}
    if not record.versions:
        del records[name]
    write_whole_file(get_data_folder() / _RECORDS_FILE, [msgspec.json.encode(records)])
    settle_document(name, record)


def _get_version_path(name: str, number: int) -> Path:
    return get_data_folder() / _VERSIONS_FOLDER / str(number) / name


MAX_ADDRESS_CHARACTERS = 2000
"""maximum length of an address"""
ACCEPTED_TYPES = "text/html, application/xhtml+xml, */*;q=0.8"
"""Accept header of a request"""
OUTCOME_SENTENCES = read_text_table(Path(__file__).with_name("fetch_outcomes.txt"))
"""for each outcome of a fetch, or its beginning, what a reader is told"""


def normalize_address(address: str) -> str:
    """Return an address that somebody typed in its normal form; without a scheme it is https.

    Raises Failed with a sentence for readers.
    """
    typed = address.strip()
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)", typed):
        typed = f"https://{typed}"
    try:
        return normalize_url(typed, MAX_ADDRESS_CHARACTERS).url
    except FetchError as error:
        raise Failed(Failure(typed, error.outcome, word_outcome(error.outcome))) from error


def fetch_address(address: str, settings: Settings) -> FetchResponse:
    """Return what is at an address, as far as robots.txt permits it.

    Raises Failed with a sentence for readers.
    """
    try:
        with EvidenceSources(settings) as sources:
            fetcher = sources.open_fetcher()
            return fetcher.fetch_resource(address, ACCEPTED_TYPES, True, within_origin=False)
    except Failed as failed:
        outcome = failed.failure.outcome
        raise Failed(Failure(address, outcome, word_outcome(outcome))) from failed


def word_outcome(outcome: str) -> str:
    """Return what readers are told of a fetch with this outcome; others are as they are."""
    found = (text for begin, text in OUTCOME_SENTENCES.items() if outcome.startswith(begin))
    return next(found, outcome)


def name_fetched_file(address: str, got: FetchResponse, distinct: bool) -> str:
    """Return the name of a fetched file: host and path, and an ending that says what it is.

    With `distinct` a part of the address's digest is added: no other address has that name. It may
    be long and have characters that no file should: pass it to `make_safe_file_name`.
    """
    parts = urlsplit(address)
    stem = f"{parts.netloc}{unquote(parts.path)}".rstrip("/").replace("/", " ")
    kind = detect_type(got.data, got.url, got.content_type)
    ending = stem.rpartition(".")[2].lower() if parts.path.strip("/") else ""
    if kind and READER_OF_ENDING.get(ending) == kind:
        stem = stem[: -len(ending) - 1]
    else:
        # Code that a page shows has no ending of its own; it is text all the same.
        of_kind = (each for each, reader in READER_OF_ENDING.items() if reader == kind)
        ending = "txt" if kind == "code" else next(of_kind, ending)
    if distinct:
        stem = f"{stem[:60]} {hashlib.sha256(address.encode()).hexdigest()[:8]}"
    return f"{stem}.{ending}" if ending else stem


def write_encoding(got: FetchResponse) -> bytes:
    """Return the bytes of a response, which keep the encoding that only its header says.

    Text of a named encoding becomes UTF-8 with a byte order mark; all else stays as it is.
    """
    kind = detect_type(got.data, got.url, got.content_type)
    is_text = kind in READER_OF_ENDING.values() and kind not in DOCUMENT_READERS
    if not is_text or "charset" not in got.content_type.lower():
        return got.data
    return codecs.BOM_UTF8 + decode_text(got.data, got.content_type, kind == "html").encode(
        errors="replace"
    )


READABLE_TYPES = mark_text(
    "HTML, PDF, Office documents, e-books, mail, Markdown and any text are read"
)
"""file types that can be read, in words"""
TOO_MANY_WAIT = mark_text("too many files wait to be read: upload it again in a while")
"""reason why an upload is not taken"""
MAX_TRIES = 3
"""times that reading a file may end the server before it is given up"""
CLOSING_SECONDS = 5.0
"""seconds that a file which is being read may take once the server ends"""
_UPLOADS_FOLDER = "documents.uploads"
"""folder of the data directory with a folder for each upload"""
_RECORD = ".upload.json"
"""file of an upload's folder with its record; no document's name begins with a dot"""
_MAX_NAME_BYTES = 120
"""maximum length of a file name, in UTF-8 bytes"""
_UNNAMED = "document"
"""stem of a file whose name has nothing else that may stay"""
_UNSAFE_CHARACTERS = re.compile(r"[^\w .,()&+'-]")
_WHITESPACE = re.compile(r"\s+")
_LOG = logging.getLogger("rookery.documents")


class UploadLimits(msgspec.Struct, frozen=True):
    """Limits on uploaded documents."""

    file: int = 20_000_000
    """maximum size of one file in bytes"""
    at_once: int = 20
    """maximum number of files in one upload"""
    files: int = 1000
    """maximum number of files that are kept"""
    bytes: int = 2_000_000_000
    """maximum size of all files that are kept, in bytes"""
    waiting: int = 200
    """maximum number of files that wait to be read"""


class UploadedFile(NamedTuple):
    """An uploaded file as the browser sent it."""

    name: str
    data: bytes
    """contents; empty if the file is larger than the limit"""
    size: int
    """size in bytes as it was sent"""


UploadState = Literal["waiting", "reading", "asks", "read", "failed"]


class DocumentUpload(msgspec.Struct, frozen=True):
    """An uploaded file, or a page of the web, on its way to the documents."""

    id: str
    name: str
    """safe name under which it is kept; empty for a page that is not fetched yet"""
    shown: str
    """name as it was sent, or the address, to be shown"""
    owner: str
    """name of the person who uploaded it"""
    reviewer: bool
    """True: they may replace the documents of others"""
    made: float
    """time at which it came, or was fetched, seconds since 1970"""
    size: int
    """size of the file in bytes"""
    state: UploadState = "waiting"
    """"asks": it would be a new version, which its owner has to confirm"""
    detail: str = ""
    """reason why it was not kept, or what else is to be said of it"""
    tries: int = 0
    """times that reading it was begun"""
    text: DocumentText | None = None
    """None until it was read"""
    replaces: bool = False
    """True: its owner confirmed that it becomes a new version"""
    address: str = ""
    """web address from which it is fetched; empty for an uploaded file"""

    @property
    def going(self) -> bool:
        """True while it waits to be read, or is read."""
        return self.state in ("waiting", "reading")

    @property
    def unfetched(self) -> bool:
        """True for a page of the web that is still to be fetched."""
        return bool(self.address) and not self.name


class DocumentReader:
    """Reads uploaded files in a thread that runs while there are some; one for each process."""

    def __init__(
        self, settings: Settings, answering: AnswerService, limits: UploadLimits = UploadLimits()
    ) -> None:
        self.limits = limits
        self._settings = settings
        self._answering = answering
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._stamp = stamp_documents()
        answering.notice_changes = self.notice_changes

    def accept_files(self, files: Sequence[UploadedFile], person: Person) -> list[DocumentUpload]:
        """Store uploaded files and begin to read them. Raises Failed if the disk is full.

        A file that is refused (too large, of a type that is not read, too many waiting) is in the
        list with the state "failed" and the reason. What the person's earlier uploads came to is
        forgotten, unless it asks for something.
        """
        room = self._count_room(person)
        uploads = []
        with translate_storage_errors(get_documents_folder()):
            for number, file in enumerate(files):
                uploads.append(self._store_file(file, person, number, number < room))
        self.start()
        return uploads

    def accept_address(self, address: str, person: Person) -> DocumentUpload:
        """Note the address of a page, and begin to fetch and read it.

        One that is refused (no address, too many waiting) has the state "failed" and the reason.
        Earlier uploads are forgotten as by `accept_files`. Raises Failed if the disk is full.
        """
        room, detail = self._count_room(person), ""
        try:
            address = normalize_address(address)
        except Failed as failed:
            detail = failed.failure.detail
        upload = _make_upload(
            *(person, 0, "", address.strip() or mark_text("no address"), 0),
            *(detail or ("" if room else TOO_MANY_WAIT), "" if detail else address),
        )
        with translate_storage_errors(get_documents_folder()):
            _store_upload(upload, b"")
        self.start()
        return upload

    def start(self) -> None:
        """Begin to read what waits, if there is anything."""
        with self._lock:
            if self._thread or self._closing.is_set() or not _find_next():
                return
            self._thread = threading.Thread(target=self._run, name="documents", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Begin no other file, and wait a little for the one that is being read."""
        self._closing.set()
        thread = self._thread
        if thread:
            thread.join(CLOSING_SECONDS)

    def confirm_upload(self, upload: DocumentUpload) -> None:
        """Make an upload that asks a new version of its document."""
        _save_upload(msgspec.structs.replace(upload, state="waiting", replaces=True, tries=0))
        self.start()

    def update_index(self) -> None:
        """Bring the search index up to date with the folder, and have questions search it.

        Hold `lock_documents`. Raises Failed if the disk or the archive fails.
        """
        if list_current_files():
            with PageArchive(locate_archive(self._settings.archive)) as archive:
                open_documents_library(archive).close()
        self._stamp = stamp_documents()
        register_documents(self._answering)

    def erase_version(self, name: str, number: int) -> None:
        """Delete a version for good, with its text wherever it is stored and no other has it.

        It must not be the current one. Hold `lock_documents`; the index is to be updated. Raises
        Failed if the disk or the archive fails.
        """
        record, place = load_document_records()[name], get_documents_folder().resolve() / name
        others = [each for each in record.versions if each.number != number]
        keep = {each.text.digest for each in others if each.text}
        with PageArchive(locate_archive(self._settings.archive)) as archive:
            erase_pages(archive, get_cache_folder(), place.as_uri(), keep)
        delete_document_version(name, number)

    def notice_changes(self) -> None:
        """Have questions search the documents as they are now, where another process changed them.

        Also begins to read what a process left that has ended.
        """
        self.start()
        stamp = stamp_documents()
        if stamp != self._stamp:
            self._stamp = stamp
            register_documents(self._answering)

    def _count_room(self, person: Person) -> int:
        """Forget what a person's earlier uploads came to; return how many more may wait."""
        for earlier in list_uploads(person.name):
            if earlier.state in ("read", "failed"):
                drop_upload(earlier)
        return max(0, self.limits.waiting - sum(each.going for each in list_uploads()))

    def _store_file(
        self, file: UploadedFile, person: Person, number: int, room: bool
    ) -> DocumentUpload:
        name = make_safe_file_name(file.name)
        detail = ""
        if not room:
            detail = TOO_MANY_WAIT
        elif file.size > self.limits.file:
            detail = f"it has more than {self.limits.file // 1_000_000} MB"
        elif what := name_unread_type(name):
            detail = f"{what}: {READABLE_TYPES}"
        title = file.name.strip() or mark_text("a file without a name")
        upload = _make_upload(person, number, name, title, file.size, detail)
        _store_upload(upload, file.data)
        return upload

    def _run(self) -> None:
        try:
            # Another process that reads has the lock, and takes what comes meanwhile, too.
            with hold_lock(get_data_folder() / f"{_UPLOADS_FOLDER}.lock", lambda: None):
                while upload := self._take_next():
                    self._read_upload(upload)
        except Failed as failed:  # the disk or the archive: it is tried again when somebody looks
            _LOG.error("%s", failed)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _take_next(self) -> DocumentUpload | None:
        """Return the next upload; None ends the thread, which is said before another may start."""
        with self._lock:
            found = None if self._closing.is_set() else _find_next()
            if found is None:
                self._thread = None
            return found

    def _read_upload(self, upload: DocumentUpload) -> None:
        """Read one file and make it a document, or note why not."""
        upload = msgspec.structs.replace(upload, state="reading", tries=upload.tries + 1)
        try:
            if upload.tries > MAX_TRIES:
                detail = mark_text(
                    "reading it was broken off again and again: try it in another format"
                )
                raise Failed(Failure("", Outcome.GIVEN_UP, detail))
            _save_upload(upload)
            if upload.unfetched:
                upload = self._fetch_file(upload)
            file = _get_upload_folder(upload) / upload.name
            if not file.is_file():
                detail = mark_text("its upload was broken off: upload it again")
                raise Failed(Failure("", Outcome.BROKEN_OFF, detail))
            if upload.text is None:
                upload = msgspec.structs.replace(upload, text=_read_text(file))
            with lock_documents():
                state = self._keep_file(upload, file)
                detail = ""
                if state == "read" and file.is_file():  # else it was moved
                    detail = mark_text("it is here already, unchanged")
                _save_upload(msgspec.structs.replace(upload, state=state, detail=detail))
        except Failed as failed:
            detail = failed.failure.detail or failed.failure.outcome
            if failed.failure.outcome in (Outcome.DISK_FULL, Outcome.ARCHIVE_BUSY):
                retried = msgspec.structs.replace(upload, state="waiting", tries=0, detail=detail)
                _save_upload(retried)
                raise
            _fail_upload(upload, detail)
        except Exception:
            _LOG.exception("%s could not be read", upload.id)
            _fail_upload(
                upload, mark_text("something went wrong here, not with it: upload it again")
            )

    def _fetch_file(self, upload: DocumentUpload) -> DocumentUpload:
        """Fetch a page of the web as the file of its upload. Raises Failed as `fetch_address`."""
        got = fetch_address(upload.address, self._settings)
        if len(got.data) > self.limits.file:
            raise Failed(Failure(upload.address, Outcome.TOO_LARGE, word_outcome("too_large")))
        name = make_safe_file_name(name_fetched_file(upload.address, got, distinct=False))
        record = load_document_records().get(name)
        if record and any(each.address != upload.address for each in record.versions):
            name = make_safe_file_name(name_fetched_file(upload.address, got, distinct=True))
        data = write_encoding(got)
        folder = _get_upload_folder(upload)
        if folder.is_dir():  # else it was deleted meanwhile
            (folder / name).write_bytes(data)
        now = time.time()
        upload = msgspec.structs.replace(upload, name=name, size=len(data), made=now)
        _save_upload(upload)
        return upload

    def _keep_file(self, upload: DocumentUpload, file: Path) -> UploadState:
        """Make the file a document and search it, or ask whether it is a new version.

        Raises Failed: name_taken, too_many.
        """
        record = load_document_records().get(upload.name)
        current = record.shown if record else None
        if current:
            if (get_documents_folder() / upload.name).read_bytes() == file.read_bytes():
                return "read"
            # Sites send other bytes each time, as for their statistics: the text is what counts.
            if upload.address and current.text and current.text == upload.text:
                return "read"
            if not (upload.reviewer or current.owner == upload.owner):
                if upload.address:
                    detail = mark_text(
                        "it is here already as a document of somebody else: only they or a "
                        "reviewer can fetch it again"
                    )
                    raise Failed(Failure("", Outcome.NAME_TAKEN, detail))
                who = f", {current.owner}'s" if current.owner else ""
                detail = f"a document of this name is here already{who}: give yours another name"
                raise Failed(Failure("", Outcome.NAME_TAKEN, detail))
            if not upload.replaces:
                return "asks"
        others = [each for each in list_current_files() if each.name != upload.name]
        size = upload.size + sum(each.stat().st_size for each in others)
        if len(others) >= self.limits.files or size > self.limits.bytes:
            detail = mark_text("there is no more room for documents: remove some first")
            raise Failed(Failure("", Outcome.TOO_MANY, detail))
        assert upload.text is not None
        add_document_version(
            upload.name, file, upload.owner, upload.made, upload.text, upload.address
        )
        self.update_index()
        return "read"


def list_uploads(owner: str = "") -> list[DocumentUpload]:
    """Return the uploads of a person, of everybody if nobody is named, in the order they came."""
    folder = get_data_folder() / _UPLOADS_FOLDER
    uploads = []
    for each in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            data = (each / _RECORD).read_bytes()
            upload = decode_json(data, DocumentUpload)
        except (OSError, ValueError):  # it is being stored, or was deleted just now
            continue
        if not each.name.startswith(".") and owner in ("", upload.owner):
            uploads.append(upload)
    return uploads


def drop_upload(upload: DocumentUpload) -> None:
    """Delete an upload with its file."""
    shutil.rmtree(_get_upload_folder(upload), ignore_errors=True)


def register_documents(answering: AnswerService) -> None:
    """Offer the documents folder as a place to search, reopened; withdraw it if it is empty."""
    if list_current_files():
        answering.add_place(DOCUMENTS_PLACE, str(get_documents_folder()))
    elif DOCUMENTS_PLACE in answering.capabilities.places:
        answering.remove_place(DOCUMENTS_PLACE)


def recover_documents() -> None:
    """Finish changes of documents that a server which was killed left half done."""
    if get_documents_folder().is_dir():
        with lock_documents():
            for name, record in load_document_records().items():
                settle_document(name, record)


def open_documents_library(archive: PageArchive) -> FolderLibrary:
    """Return the library of the documents folder; opening it reads what is new.

    The caller closes it. Raises Failed (empty_library) if there is no document.
    """
    return FolderLibrary(get_documents_folder(), archive, get_cache_folder())


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


def _find_next() -> DocumentUpload | None:
    """Return the first upload that waits; files before pages that a slow site may keep back."""
    going = (each for each in list_uploads() if each.going)
    return min(going, key=lambda each: each.unfetched, default=None)


def summarize_page(page: Page) -> DocumentText:
    """Return what a list of documents shows of a page."""
    title = replace_unseen_characters(" ".join(page.title.split())[:200])
    return DocumentText(page.digest, title, len(page.text), list_unread_kinds(page))


_OFFICE_FILE = re.compile(r"\.(?:docx|xlsx|pptx|od[tsp]|pdf)", re.IGNORECASE)


def list_unread_kinds(page: Page) -> tuple[str, ...]:
    """Return what a document holds and is not searched, a word for each kind."""
    notes = " ".join(page.text[each.start : each.end] for each in page.blocks if each.furniture)
    marks = {(each.kind, each.start == each.end) for each in page.marks}
    kinds = {
        mark_text("formulas without a stored value"): "no stored value" in notes,
        mark_text("embedded parts"): "embedded part is not read" in notes,
        mark_text("pictures"): ("image", True) in marks,
        mark_text("pages without text"): ("page", True) in marks,
        mark_text("hidden or struck-out text"): any(each.hidden for each in page.blocks),
    }
    # Pages of the web hide menus and ornaments, of which nobody wants to know.
    is_office_file = _OFFICE_FILE.fullmatch(Path(urlsplit(page.url).path).suffix)
    return tuple(kind for kind, is_there in kinds.items() if is_there and is_office_file)


@lru_cache(maxsize=16)
def find_unread_kinds(
    archive_place: str | Path, files: tuple[Path, ...], _minute: int
) -> dict[Path, tuple[str, ...]]:
    """Return the same by file, of the pages that were last read from those that were read."""
    with PageArchive(archive_place) as archive:
        offices = (file for file in files if _OFFICE_FILE.fullmatch(file.suffix))
        pages = ((file, archive.find_latest(file.as_uri())) for file in offices)
        return {file: list_unread_kinds(page) for file, page in pages if page}


def _read_text(file: Path) -> DocumentText:
    """Return the page of a file in short. Raises Failed, with what can be read if this cannot."""
    [got] = read_document_files([file])
    if isinstance(got, Page):
        return summarize_page(got)
    if got.outcome in (Outcome.UNSUPPORTED_TYPE, Outcome.BINARY):
        got = msgspec.structs.replace(got, detail=f"{got.detail}: {READABLE_TYPES}")
    raise Failed(got)


def _make_upload(
    person: Person, number: int, name: str, title: str, size: int, detail: str, address: str = ""
) -> DocumentUpload:
    """Return the record of an upload, which has failed if there is a reason in `detail`."""
    # Time and number first, so that the ids are in the order in which the files came.
    identity = f"{time.time_ns():020}-{number:03}-{secrets.token_hex(4)}"
    clean = replace_unseen_characters(title)[:_MAX_NAME_BYTES]
    return DocumentUpload(
        *(identity, name, clean, person.name, has_role(person, "reviewer"), time.time(), size),
        state="failed" if detail else "waiting",
        detail=detail,
        address=address,
    )


def _store_upload(upload: DocumentUpload, data: bytes) -> None:
    """Write the folder of an upload: its record, and its file unless it has failed already."""
    folder = _get_upload_folder(upload)
    part = folder.with_name(f".{folder.name}")
    part.mkdir(parents=True)
    if upload.name and upload.state != "failed":
        (part / upload.name).write_bytes(data)
    (part / _RECORD).write_bytes(msgspec.json.encode(upload))
    part.replace(folder)


def _get_upload_folder(upload: DocumentUpload) -> Path:
    return get_data_folder() / _UPLOADS_FOLDER / upload.id


def _fail_upload(upload: DocumentUpload, detail: str) -> None:
    _save_upload(msgspec.structs.replace(upload, state="failed", detail=detail))
    if upload.name:
        (_get_upload_folder(upload) / upload.name).unlink(missing_ok=True)


def _save_upload(upload: DocumentUpload) -> None:
    folder = _get_upload_folder(upload)
    if folder.is_dir():  # else it was deleted meanwhile
        write_whole_file(folder / _RECORD, [msgspec.json.encode(upload)])
