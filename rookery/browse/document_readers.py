"""Readers of documents by kind, imported when the first document is read: they cost time."""

from collections.abc import Callable

from rookery.browse.books import read_epub
from rookery.browse.documents import ReadLimits
from rookery.browse.external_programs import read_manual, read_picture
from rookery.browse.feeds import read_feed
from rookery.browse.mail_documents import read_mail, read_mailbox
from rookery.browse.notebooks import read_notebook
from rookery.browse.office_documents import read_docx, read_open_document, read_pptx
from rookery.browse.spreadsheets import read_xlsx
from rookery.records import Page

READER_OF_DOCUMENT: dict[str, Callable[[bytes, str, str, ReadLimits], Page]] = {
    "docx": read_docx,
    "pptx": read_pptx,
    "xlsx": read_xlsx,
    "open_document": read_open_document,
    "epub": read_epub,
    "mail": read_mail,
    "mailbox": read_mailbox,
    "notebook": read_notebook,
    "feed": read_feed,
    "man": read_manual,
    "picture": read_picture,
}
"""By kind as `detect_type` names it; each takes the bytes, their address, when they were read, and
the limits."""
