"""Languages of the pages: gettext catalogs, and the language of the request that is answered.

English texts stand in templates, scripts and modules and are the keys of the catalogs
(`locale/LANGUAGE/LC_MESSAGES/rookery.po`). Modules import `translate_text as _`, templates and
scripts know `_`. The language is held in a context variable, which the threads and tasks of a
request inherit, so that one set of templates serves all languages.
"""

import gettext
import re
import struct
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LANGUAGES = {"en": "English", "de": "Deutsch"}
"""code of each language of the pages, and its name in itself. The first is the default"""
DEFAULT_LANGUAGE = next(iter(LANGUAGES))
LANGUAGE_COOKIE = "language"
"""name of the cookie that keeps the code of the language that somebody chose"""
LOCALE_FOLDER = Path(__file__).parent / "locale"
MAX_HEADER_CHARACTERS = 1000
"""characters of Accept-Language that are read; browsers send fewer than 100"""
NUMBER_MARKS = {"de": str.maketrans(",.", ".,")}
"""for each language but the default, its marks in place of the comma and point of English"""
DAY_FORMS = {"de": r"\3.\2.\1"}
"""for each language but the default, a day such as 2026-11-21, of which 1 is the year"""
ELSEWHERE = "elsewhere"
"""context in the catalogs of what modules outside of the pages say, and pages translate as they
show it; `%(name)s` stand where values are filled in. Values of names that begin with `what` are
translated themselves"""
MAX_BORROWED_CHARACTERS = 2000
"""longer texts are no sentence of a module, and are shown as they are"""
NUMBER_NAMES = frozenset("count good most numbers size start end status".split())
"""names of placeholders that stand for numbers alone"""
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+")
_DAY = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b", re.ASCII)
_ACCEPTED = re.compile(r"([a-z]{1,8}|\*)(?:-[a-z0-9-]{1,30})?(?:;q=([01](?:\.[0-9]{0,3})?))?")
_current: ContextVar[str] = ContextVar("language", default=DEFAULT_LANGUAGE)


@cache
def load_catalog(language: str) -> gettext.NullTranslations:
    """Return the catalog of a language; of the default one, a catalog that changes nothing."""
    if language == DEFAULT_LANGUAGE:
        return gettext.NullTranslations()
    return gettext.translation("rookery", LOCALE_FOLDER, [language])


def get_language() -> str:
    """Return the code of the language of the request that is answered."""
    return _current.get()


def translate_text(message: str, **values: object) -> str:
    """Return a text in the language of the request; with values, `%(name)s` are filled in.

    A text that the catalog lacks stays English.
    """
    text = load_catalog(get_language()).gettext(message) if message else ""
    return text % values if values else text


def translate_plural(one: str, many: str, count: int, **values: object) -> str:
    """Return the text for this count in the language of the request.

    With values, `%(name)s` are filled in, and `%(num)s` with the count.
    """
    text = load_catalog(get_language()).ngettext(one, many, count)
    return text % {"num": count, **values} if values else text


def translate_borrowed_text(text: str) -> str:
    """Return what another module says in the language of the request; as it is if unknown."""
    language = get_language()
    if language == DEFAULT_LANGUAGE or not text or len(text) > MAX_BORROWED_CHARACTERS:
        return text
    catalog = load_catalog(language)
    exact = catalog.pgettext(ELSEWHERE, text)
    exact = catalog.gettext(text) if exact == text else exact
    if exact != text:
        return exact
    for sentence, pattern in _compile_sentences(language):
        if match := pattern.fullmatch(text):
            values = {
                name: translate_borrowed_text(value)
                if name.startswith("what")
                else localize_value(value)
                for name, value in match.groupdict().items()
            }
            return catalog.pgettext(ELSEWHERE, sentence) % values
    return text


@cache
def _compile_sentences(language: str) -> list[tuple[str, re.Pattern[str]]]:
    """Return each borrowed sentence with a placeholder, and a pattern of it; longest text first."""
    # The module gettext lists no texts of a catalog: the table of them in its file is read.
    file = (LOCALE_FOLDER / language / "LC_MESSAGES/rookery.mo").read_bytes()
    count, table = struct.unpack_from("<II", file, 8)
    places = (struct.unpack_from("<II", file, table + 8 * number) for number in range(count))
    texts = (file[start : start + length].decode() for length, start in places)
    marked = [text.partition("\4")[2] for text in texts if text.startswith(f"{ELSEWHERE}\4")]
    filled = [sentence for sentence in marked if "%(" in sentence]
    filled.sort(key=lambda sentence: len(_PLACEHOLDER.sub("", sentence)), reverse=True)
    return [(sentence, _make_pattern(sentence)) for sentence in filled]


def _make_pattern(sentence: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(sentence)
    for at in range(0, len(parts), 2):
        parts[at] = re.escape(parts[at].replace("%%", "%"))
    for at in range(1, len(parts), 2):
        pattern = r"\d[\d,. ]*?" if parts[at] in NUMBER_NAMES else ".*?"
        parts[at] = f"(?P<{parts[at]}>{pattern})"
    return re.compile("".join(parts), re.DOTALL)


def mark_text(message: str) -> str:
    """Return a text as it is; it goes into the catalogs, and is translated where it is shown."""
    return message


def format_number(value: float, spec: str = ",") -> str:
    """Return a number in the language of the request, by a format specification of Python.

    `,` groups digits; `.2f`, `+.2f` and `.0%` do as in Python. Negative ones have a minus sign.
    """
    text = format(value, spec).replace("-", "\N{MINUS SIGN}")
    if get_language() == DEFAULT_LANGUAGE:
        return text
    # DIN 5008: a no-break space before the percent sign
    return text.translate(NUMBER_MARKS[get_language()]).replace("%", "\N{NO-BREAK SPACE}%")


def localize_value(text: str) -> str:
    """Return a value of a sentence in the language of the request.

    A number with English marks, such as "1,234.5", and days such as 2026-11-21 are written as that
    language writes them; all else is as it is.
    """
    if get_language() == DEFAULT_LANGUAGE:
        return text
    if _NUMBER.fullmatch(text):
        return text.translate(NUMBER_MARKS[get_language()])
    return _DAY.sub(DAY_FORMS[get_language()], text)


def choose_language(preferred: str, accepted: str) -> str:
    """Return the code of the language for a visitor.

    It is that of the cookie, else the one that Accept-Language (RFC 9110, 12.5.4) prefers, else the
    default. What is not understood is passed over.
    """
    if preferred in LANGUAGES:
        return preferred
    best, most = DEFAULT_LANGUAGE, 0.0
    for part in accepted[:MAX_HEADER_CHARACTERS].lower().replace(" ", "").split(","):
        match = _ACCEPTED.fullmatch(part)
        if match is None:
            continue
        language = DEFAULT_LANGUAGE if match[1] == "*" else match[1]
        weight = float(match[2] or 1)
        if language in LANGUAGES and weight > most:
            best, most = language, weight
    return best


class LanguageMiddleware:
    """ASGI middleware that sets the language of each request, and says it of each HTML page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request in the language of its cookie or of its Accept-Language header."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        accepted = request.headers.get("accept-language", "")
        language = choose_language(request.cookies.get(LANGUAGE_COOKIE, ""), accepted)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers["Content-Language"] = language
                    headers.add_vary_header("Accept-Language")
                    headers.add_vary_header("Cookie")
            await send(message)

        before = _current.set(language)
        try:
            await self.app(scope, receive, send_with_headers)
        finally:
            _current.reset(before)
