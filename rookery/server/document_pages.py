"""Pages of documents: upload, add by address, progress, list with versions, remove, undo.

Everybody who may ask on this server can search them. Who added a document may replace and remove
it, and so may reviewers. Files are taken at once and read in the background (`documents`); a file
of a name that is there becomes a new version once that is confirmed, and every earlier one can be
put back until it is deleted for good. A file that cannot be read is not kept, and the page says
why. A page of the web is added by its address, unless the server is offline: it is fetched in the
background, and fetched again as another version. Uploads are taken only from this very machine,
unless the server was told otherwise (`app.state.uploads`).
"""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rookery.desk import accounts
from rookery.desk.accounts import Person, has_role
from rookery.desk.page_endpoints import (
    PageHandler,
    get_app_context,
    get_person_name,
    get_posted_value,
    get_session_token,
    get_signed_in_person,
    get_store,
    is_on_this_machine,
    redirect_after_post,
    render_page,
    render_problem_page,
    require_role,
)
from rookery.errors import Failed, Outcome
from rookery.library.libraries import list_skipped
from rookery.library.page_archive import PageArchive
from rookery.server import documents
from rookery.server.api.answer_queue import get_answer_service, list_quoting_answers
from rookery.server.api.answer_sessions import DOCUMENTS_PLACE, QuestionRequest, find_place_file
from rookery.settings import Settings, locate_archive
from rookery.shell.file_reading import read_document_file
from rookery.shell.languages import mark_text, translate_borrowed_text
from rookery.shell.languages import translate_text as _

NO_FETCHING = mark_text("Pages of the web cannot be added here: this server does not fetch them.")
"""sentence for a request that may not add a page by its address"""

NEWS_SECONDS = 600.0
"""seconds for which the page says what became of a file that was read"""


class VersionRow(NamedTuple):
    """A version of a document as the page shows it."""

    version: documents.DocumentVersion
    address: str
    """path of its stored page; empty if there is none"""
    may_change: bool
    """True: the person may put it back or delete it"""


class DocumentRow(NamedTuple):
    """A document as a row of the page."""

    name: str
    shown: documents.DocumentVersion | None
    """the version that is searched; None if the document is removed"""
    text: documents.DocumentText | None
    """None if it could not be read"""
    trouble: str
    """reason why it could not be read; empty if it was"""
    may_change: bool
    """True: the person may replace and remove it"""
    others: list[VersionRow]
    """its other versions, newest first"""


def show_documents(request: Request) -> Response:
    """Show the documents with their versions, and what becomes of the person's uploads."""
    person, answering = get_signed_in_person(request), get_answer_service(request)
    reader = _get_reader(request)
    reader.notice_changes()
    uploads, recent = documents.list_uploads(person.name), time.time() - NEWS_SECONDS
    rows = _list_documents(get_app_context(request).settings, person)
    current_rows = [row for row in rows if row.shown]
    if bool(current_rows) != (DOCUMENTS_PLACE in answering.capabilities.places):
        # Somebody has put files into the folder, or taken them away.
        documents.register_documents(answering)
    going = sum(each.going for each in uploads)
    current = {row.name: row.shown for row in rows}
    return render_page(
        request,
        "documents.html",
        found=current_rows,
        removed=[row for row in rows if not row.shown and row.others],
        uploads=[each for each in uploads if going or each.state != "read" or each.made > recent],
        going=going,
        done=sum(each.state in ("read", "failed", "asks") for each in uploads),
        versions={each.id: current.get(each.name) for each in uploads},
        may=may_upload(request),
        may_fetch=_may_fetch(request),
        quoting=list_quoting_answers(get_store(request), request.query_params.get("erased", "")),
        last=request.query_params.get("removed", ""),
        last_version=request.query_params.get("version", ""),
        **_list_started(request),
        read=_(documents.READABLE_TYPES),
        limits=reader.limits,
        name=DOCUMENTS_PLACE,
    )


def _list_started(request: Request) -> dict[str, Any]:
    """Return the places that the server was started on, and what of their files is not searched."""
    places = documents.list_searched_places(get_answer_service(request).capabilities)
    started = [place for place in places if place.name != DOCUMENTS_PLACE]
    files = tuple(file.path for place in started for file in place.files[:1000])
    archive_place = locate_archive(get_app_context(request).settings.archive)
    unread = documents.find_unread_kinds(archive_place, files, int(time.monotonic() / 60))
    return {"started": started, "unread": unread}


def open_document(request: Request) -> Response:
    """Read a file of a place that the server was started on, and show its page."""
    name = request.query_params.get("name", "")
    path = find_place_file(get_answer_service(request).capabilities, name)
    if not path:
        return render_problem_page(request, 404, "There is no such document.")
    try:
        page = read_document_file(Path(path))
    except Failed as failed:
        reason = translate_borrowed_text(failed.failure.detail or failed.failure.outcome)
        sentence = _("%(name)s cannot be read: %(reason)s.", name=name, reason=reason)
        return render_problem_page(request, 409, sentence)
    with PageArchive(locate_archive(get_app_context(request).settings.archive)) as archive:
        archive.store_page(page)
    return RedirectResponse(f"/pages/{page.digest}", 303)


def show_unread(request: Request) -> Response:
    """Show what of the documents could not be read or is left out, with the reasons."""
    try:
        with get_answer_service(request).open_library(QuestionRequest("")) as library:
            failures = [*library.failures, *list_skipped(library)]
    except Failed as failed:
        failures = [failed.failure]
    reasons = (each.detail or each.outcome for each in failures)
    # Where files lie on this machine is nobody's business.
    rows = [
        (Path(each.what).name, re.sub(r"(?<!\S)/\S*/", "", reason))
        for each, reason in zip(failures, reasons, strict=True)
    ]
    versions = [record.shown for record in documents.load_document_records().values()]
    texts = [version.text for version in versions if version and version.text]
    return render_page(request, "unread.html", rows=rows, uploaded=texts, **_list_started(request))


async def post_files(request: Request) -> Response:
    """Take the uploaded files, which are then read in the background.

    People who may not upload are refused before any file is read into memory.
    """
    if await run_in_threadpool(_is_reader, request) and may_upload(request):
        most = _get_reader(request).limits.at_once
        try:
            request.state.dropped = await _read_uploads(request)
        except HTTPException:
            request.state.person = None
            sentence = _("Send at most %(count)s files at once, as this page does.", count=most)
            return render_problem_page(request, 400, sentence)
        return await require_role("reader")(_accept_files)(request)
    request.state.person = None
    return render_problem_page(request, 403, "Documents cannot be uploaded here.")


def _accept_files(request: Request) -> Response:
    _get_reader(request).accept_files(request.state.dropped, get_signed_in_person(request))
    return redirect_after_post("/documents#uploads")


def post_address(request: Request) -> Response:
    """Take the address of a page, which is then fetched and read in the background."""
    if not _may_fetch(request):
        return render_problem_page(request, 403, NO_FETCHING)
    address = get_posted_value(request, "address")
    _get_reader(request).accept_address(address, get_signed_in_person(request))
    return redirect_after_post("/documents#uploads")


def post_fetching(request: Request) -> Response:
    """Fetch a document of the web again; where it has changed, its owner is asked first."""
    if not _may_fetch(request):
        return render_problem_page(request, 403, NO_FETCHING)
    name, person = get_posted_value(request, "name"), get_signed_in_person(request)
    record = documents.load_document_records().get(name)
    version = record.shown if record else None
    if version is None or not version.address:
        return render_problem_page(request, 404, "There is no such document.")
    if not documents.may_change_version(version, person):
        return _refuse_change(request, version)
    _get_reader(request).accept_address(version.address, person)
    return redirect_after_post("/documents#uploads")


def post_removal(request: Request) -> Response:
    """Remove a document from the folder and the index, and keep its file beside."""
    return _change_document(
        request,
        lambda record: record.current,
        lambda name, number: documents.switch_document_version(name, 0),
        "?removed={}&version={}",
    )


def post_restoring(request: Request) -> Response:
    """Make an earlier version the current one; the one that was current is kept beside."""
    return _change_document(request, _get_posted_number(request), documents.switch_document_version)


def post_version_deletion(request: Request) -> Response:
    """Delete for good a version that is not current."""
    return _change_document(
        request, _get_posted_number(request), _get_reader(request).erase_version, "?erased={2}"
    )


def _get_posted_number(request: Request) -> Callable[[documents.DocumentRecord], int]:
    """Return a function that gives the number of the version of the form; 0 for the current one."""
    said = get_posted_value(request, "version")
    number = int(said) if said.isascii() and said.isdigit() and len(said) < 9 else 0
    return lambda record: 0 if number == record.current else number


def _change_document(
    request: Request,
    choose: Callable[[documents.DocumentRecord], int],
    change: Callable[[str, int], None],
    then: str = "",
) -> Response:
    """Change the version that is chosen of the document that the form names, and the index.

    The person must be allowed to change that version and the current one.
    """
    name, person = get_posted_value(request, "name"), get_signed_in_person(request)
    with documents.lock_documents():
        # Looked up among what is there, so that no path comes from outside.
        record = documents.load_document_records().get(name)
        version = record.find_version(choose(record)) if record else None
        if record is None or version is None:
            return render_problem_page(request, 404, "There is no such document.")
        keeps_current = change == _get_reader(request).erase_version
        concerned = [version] if keeps_current or not record.shown else [version, record.shown]
        for each in concerned:
            if not documents.may_change_version(each, person):
                return _refuse_change(request, each)
        change(name, version.number)
        _get_reader(request).update_index()
    digest = version.text.digest if version.text else ""
    return redirect_after_post(f"/documents{then.format(quote(name), version.number, digest)}")


def _refuse_change(request: Request, version: documents.DocumentVersion) -> Response:
    who = version.owner or _("somebody else")
    why = _("This document is %(name)s's: only they or a reviewer can change it.", name=who)
    return render_problem_page(request, 403, why)


def post_confirmation(request: Request) -> Response:
    """Make an upload of the person's own, which asks, a new version of its document."""
    return _change_upload(request, _get_reader(request).confirm_upload, ("asks",))


def post_dismissal(request: Request) -> Response:
    """Delete an upload of the person's own that asks, was not kept, or has something to say."""
    return _change_upload(request, documents.drop_upload, ("asks", "failed", "read"))


def _change_upload(
    request: Request, change: Callable[[documents.DocumentUpload], None], states: tuple[str, ...]
) -> Response:
    wanted = get_posted_value(request, "id")
    uploads = documents.list_uploads(get_person_name(request))
    upload = next((each for each in uploads if each.id == wanted and each.state in states), None)
    if upload is None:
        return render_problem_page(request, 404, "There is no such upload.")
    change(upload)
    return redirect_after_post("/documents#uploads")


async def _read_uploads(request: Request) -> list[documents.UploadedFile]:
    """Read the files of the form. Raises HTTPException if there are too many."""
    limits = _get_reader(request).limits
    form = await request.form(max_files=limits.at_once, max_fields=10)
    uploads = []
    for value in form.getlist("files"):
        if isinstance(value, UploadFile) and (value.filename or value.size):
            size = value.size or 0
            data = await value.read() if size <= limits.file else b""
            uploads.append(documents.UploadedFile(value.filename or "", data, size))
    return uploads


def may_upload(request: Request) -> bool:
    """Return whether this request may upload documents.

    `app.state.uploads` says so; where that is not set, both the client and the host asked for must
    be this very machine.
    """
    setting: bool | None = getattr(request.app.state, "uploads", None)
    if setting is not None:
        return setting
    return is_on_this_machine(request)


def _may_fetch(request: Request) -> bool:
    """Return whether this request may add pages of the web."""
    return may_upload(request) and not get_app_context(request).settings.offline


def _is_reader(request: Request) -> bool:
    token = get_session_token(request)
    person = accounts.find_session_person(get_store(request), token)
    return person is not None and has_role(person, "reader")


def _get_reader(request: Request) -> documents.DocumentReader:
    reader: documents.DocumentReader = request.app.state.documents
    return reader


def _list_documents(settings: Settings, person: Person) -> list[DocumentRow]:
    """Return a row for each document, removed ones too.

    One that is being read for the first time has none before its page is stored.
    """
    records = documents.load_document_records()
    unnoted = [name for name, each in records.items() if each.shown and not each.shown.text]
    busy = {each.name for each in documents.list_uploads() if each.going}
    texts: dict[str, documents.DocumentText | Failed] = {}
    if unnoted or busy & records.keys():
        with PageArchive(locate_archive(settings.archive)) as archive:
            texts = _read_unnoted(unnoted, archive)
            for name in busy & records.keys():
                text = records[name].versions[-1].text
                if len(records[name].versions) == 1 and text and not archive.find_page(text.digest):
                    del records[name]
    return [
        _describe_document(name, record, texts.get(name), person)
        for name, record in records.items()
    ]


def _read_unnoted(
    names: list[str], archive: PageArchive
) -> dict[str, documents.DocumentText | Failed]:
    """Return the page in short of each file that nobody noted, or why there is none."""
    if not names:
        return {}
    texts: dict[str, documents.DocumentText | Failed] = {}
    folder = documents.get_documents_folder().resolve()
    try:
        with documents.open_documents_library(archive) as library:
            for name in names:
                try:
                    texts[name] = documents.summarize_page(library.fetch((folder / name).as_uri()))
                except Failed as failed:
                    texts[name] = failed
    except Failed as failed:
        if failed.failure.outcome != Outcome.EMPTY_LIBRARY:
            raise
    return texts


def _describe_document(
    name: str,
    record: documents.DocumentRecord,
    unnoted: documents.DocumentText | Failed | None,
    person: Person,
) -> DocumentRow:
    version = record.shown
    others = [
        VersionRow(each, f"/pages/{each.text.digest}" if each.text else "", may)
        for each in reversed(record.versions)
        if each.number != record.current
        and ((may := documents.may_change_version(each, person)) or version is not None)
    ]
    text, problem = version.text if version else None, ""
    if isinstance(unnoted, documents.DocumentText):
        text = unnoted
    elif unnoted:
        problem = unnoted.failure.detail or unnoted.failure.outcome
    elif text is None:
        problem = mark_text("it can no longer be read")
    may_change = version is not None and documents.may_change_version(version, person)
    return DocumentRow(name, version, text, problem, may_change, others)


DOCUMENT_PAGES: Mapping[str, PageHandler] = {
    "/documents": show_documents,
    "/documents/open": open_document,
    "/documents/unread": show_unread,
    "POST /documents/remove": post_removal,
    "POST /documents/restore": post_restoring,
    "POST /documents/delete": post_version_deletion,
    "POST /documents/confirm": post_confirmation,
    "POST /documents/dismiss": post_dismissal,
    "POST /documents/address": post_address,
    "POST /documents/fetch": post_fetching,
}
"""pages of documents for readers, but for `post_files`"""
