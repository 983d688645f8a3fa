"""Documents fetched from the web: the file at an address, its name, and why there is none.

Fetching obeys the network rules of every other fetch of the server
(`rookery.network.access_rules`): each address on the way, of redirects too, is resolved
and checked where the connection is made.
"""

import codecs
import hashlib
import re
from urllib.parse import unquote, urlsplit

from rookery.answers.answer_session import EvidenceSources
from rookery.errors import Failed, Outcome
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import FetchResponse
from rookery.pages.file_selection import DOCUMENT_READERS, READER_OF_ENDING
from rookery.pages.page_reader import detect_type
from rookery.pages.text_encoding import decode_text
from rookery.records import Failure
from rookery.settings import Settings
from rookery.shell.languages import mark_text

MAX_ADDRESS_CHARACTERS = 2000
"""maximum length of an address"""
ACCEPTED_TYPES = "text/html, application/xhtml+xml, */*;q=0.8"
"""Accept header of a request"""
OUTCOME_SENTENCES = {
    Outcome.INVALID_URL: mark_text(
        "this is no address: copy the whole of it, as in https://example.org/guide"
    ),
    Outcome.UNSUPPORTED_SCHEME: mark_text(
        "only addresses that begin with https:// or http:// are read"
    ),
    Outcome.BLOCKED_ADDRESS: mark_text(
        "it leads to a private network, and only public pages are fetched: upload it as a file"
    ),
    Outcome.UNRESOLVED: mark_text("there is no site of this name: check the address"),
    Outcome.REFUSED: mark_text("no connection could be made: try again later"),
    Outcome.TLS_FAILED: mark_text("the site's certificate is not in order: try again later"),
    Outcome.TIMED_OUT: mark_text("the site was too slow: try again later, or upload it as a file"),
    Outcome.ROBOTS: mark_text(
        "the site does not let programs read this page: save it in your browser and upload it"
    ),
    Outcome.TOO_MANY_REDIRECTS: mark_text("the site sends on without an end: check the address"),
    Outcome.TOO_LARGE: mark_text("it is larger than what is fetched: upload a shorter file"),
    Outcome.TRUNCATED: mark_text("the site broke off: try again later"),
    Outcome.MALFORMED: mark_text("what the site sent is damaged: try again later"),
    Outcome.UNSUPPORTED_TYPE: mark_text(
        "what stands there holds no text, such as a picture or a film"
    ),
    "http_401": mark_text("the site wants a login: save it in your browser and upload it"),
    "http_403": mark_text(
        "the site does not let programs read this page: save it in your browser and upload it"
    ),
    "http_404": mark_text("there is no such page on the site: check the address"),
    "http_410": mark_text("the page is gone for good"),
    "http_429": mark_text("the site wants to be asked more slowly: try again later"),
    "http_5": mark_text("the site has a failure of its own: try again later"),
    "http_": mark_text("the site does not give this page out: save it and upload it"),
}
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

    With `distinct` a part of the address's digest is added: no other address has that name.
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
