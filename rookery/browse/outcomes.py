"""Why something could not be fetched: the closed list, and the error that carries one of it.

It knows neither URLs nor sockets. What a page reader says of a page's content is the reader's.
"""

OUTCOMES = {
    "invalid_url": "the address cannot be read, is too long, or holds a user name or password",
    "unsupported_scheme": "the address is neither http nor https",
    "blocked_address": "the host, or one of its addresses, is not on the public internet",
    "unresolved": "the host has no address",
    "refused": "no connection could be made",
    "tls_failed": "the server's certificate or its TLS is not in order",
    "timed_out": "the time for this page, or for all pages together, was up",
    "robots": "the site's robots.txt forbids this address, or could not be had",
    "too_many_redirects": "the server redirects in a circle or too often",
    "too_large": "the body, after decompression, or the headers pass the limit",
    "truncated": "the server ended the connection before its answer was complete",
    "malformed": "the answer breaks the rules of HTTP or of its own compression",
    "unsupported_type": "the server declares something that holds no text, such as a video",
}
"""What each outcome means. Besides these: `http_<status>` for an answer that is not a page
(http_404, http_503, ...), and the outcomes of `rookery.browse.read.read`."""


class FetchError(Exception):
    """One hop failed: `outcome` is a key of OUTCOMES or `http_<status>`, `detail` a sentence."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail
