"""Addresses as a page writes them to addresses that can be opened. Fetches nothing."""

import re
from urllib.parse import urldefrag, urljoin, urlsplit

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_WHOLE = re.compile(r"https?://[^/?#\s\[\]@\\]+(?:[/?#][^\x00-\x20]*+)?\Z", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://[^/?#\s\[\]@\\]+(?=/)")
# What joining would not change: no second slash, no dots to walk up, nothing after a slash only.
_ROOTED = re.compile(r"/(?!/)(?:(?!/\.)[^\\;?#])*+(?:[?#][^\\]*)?\Z")
# Browsers take these out of an address before they read its scheme.
_IGNORED = re.compile(r"[\t\n\r]")
_UNCLEAN = re.compile(r"[\x00-\x20]")
_EDGES = "".join(map(chr, range(33)))


class Resolver:
    """Resolves the links of one page against its address and its `<base href>`."""

    def __init__(self, url: str, base: str = "") -> None:
        self.page = urldefrag(url).url
        self.schemes = ("http", "https", "file") if url.startswith("file:") else ("http", "https")
        self.known: dict[str, str] = {}
        self.base = url
        self.origin = ""
        if base:
            self.base = self.resolve(base) or url
            self.known.clear()
        whole = _ORIGIN.match(self.base)
        self.origin = whole[0] if whole else ""

    def resolve(self, href: str) -> str:
        """The absolute address, or "" for one that no view may offer (mail, scripts, files)."""
        found = self.known.get(href)
        if found is None:
            found = self.known[href] = self._resolved(href)
        return found

    def _resolved(self, href: str) -> str:
        if _WHOLE.match(href):
            return href
        if _UNCLEAN.search(href):
            href = _IGNORED.sub("", href.strip(_EDGES)).replace(" ", "%20")
            if _WHOLE.match(href):
                return href
        if self.origin and _ROOTED.match(href):
            return self.origin + href
        scheme = _SCHEME.match(href)
        if scheme and scheme[1].lower() not in self.schemes:
            return ""
        try:
            joined = urljoin(self.base, href)
            parts = urlsplit(joined)
        except ValueError:
            return ""
        if parts.scheme not in self.schemes or not (parts.netloc or parts.scheme == "file"):
            return ""
        return joined

    def fragment(self, url: str) -> str:
        """The id that this address names on the page itself, or ""."""
        if "#" not in url:
            return ""
        where, _, name = url.partition("#")
        return name if where == self.page else ""
