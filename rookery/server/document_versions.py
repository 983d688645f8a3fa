"""Versions of uploaded documents: which is current, whose each is, and the files of the others.

The current version of each document is a file of the documents folder, under its name; the others
are in a folder beside, by number, until somebody deletes them for good. A change is written to the
file of records first and then made with the files, and `settle_document` makes it again where it
was broken off: a server that is killed loses nothing.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.desk.accounts import Person, has_role
from rookery.desk.snapshots import write_whole_file
from rookery.errors import Failed, Outcome
from rookery.library.page_archive import translate_storage_errors
from rookery.library.search_index import hold_lock
from rookery.records import Failure, prepare_type
from rookery.server.api.answer_sessions import DOCUMENTS_PLACE
from rookery.settings import get_data_folder
from rookery.shell.languages import mark_text

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


@contextmanager
def lock_documents() -> Iterator[None]:
    """Keep other threads and processes from changing documents; the folder is made if needed."""
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
        records = msgspec.json.decode(path.read_bytes(), type=prepare_type(DocumentRecords))
    except FileNotFoundError:  # nothing was noted yet
        pass
    except (OSError, msgspec.MsgspecError) as error:
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
    """Return the files of the current versions."""
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

    Hold `lock_documents`.
    """
    record = load_document_records()[name]
    _save_record(name, msgspec.structs.replace(record, current=number))


def delete_document_version(name: str, number: int) -> None:
    """Delete a version for good that is not current. Hold `lock_documents`."""
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

    None if there is none.
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
    write_whole_file(get_data_folder() / _RECORDS_FILE, [msgspec.json.encode(records).decode()])
    settle_document(name, record)


def _get_version_path(name: str, number: int) -> Path:
    return get_data_folder() / _VERSIONS_FOLDER / str(number) / name
