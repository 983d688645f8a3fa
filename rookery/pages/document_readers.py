"""Readers of documents by kind, imported when the first document is read: they cost time."""

from collections.abc import Callable

from rookery.pages.books import read_epub
from rookery.pages.external_programs import read_manual, read_picture
from rookery.pages.feeds import read_feed
from rookery.pages.mail_documents import read_mail, read_mailbox
from rookery.pages.notebooks import read_notebook
from rookery.pages.office_documents import read_docx, read_open_document, read_pptx
from rookery.pages.spreadsheets import read_xlsx
from rookery.pages.text_documents import ReadLimits
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
