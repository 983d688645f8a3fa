"""Check the quotes and claims of saved answers, from Rookery or another tool.

For `rookery cite verify`, with `--support` for the claims, and for MCP's tool `verify`.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote as percent_encode
from urllib.parse import unquote, urldefrag, urlsplit, urlunsplit

import msgspec

from rookery.answers.answer_session import EvidenceSources
from rookery.answers.both_sides import SIDES_METHOD, find_altered_sides
from rookery.answers.extract import find_altered_extract
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import (
    MAX_WINDOW_CHARACTERS,
    ClaimVerdict,
    cut_windows,
    judge_claim_support,
    repeats_passage,
)
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.library.libraries import is_url, resolve_place_path
from rookery.measure.citations import compute_word_share, list_statements
from rookery.pages.file_selection import leads_out, name_unread_type
from rookery.quotes.answer_text import ClaimedQuote
from rookery.quotes.saved_answers import (
    SavedAnswer,
    SourcePages,
    extract_claimed_quotes,
    parse_saved_answers,
)
from rookery.quotes.verification import (
    UNCHECKED_OUTCOMES,
    AnyVerdict,
    ClaimedVerdict,
    Verdict,
    check_claimed_quote,
    check_typed_quotes,
    find_unjudged_sentences,
    verify_quotes,
)
from rookery.records import Failure, Page, Quote
from rookery.settings import WORDS, Settings
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_NO_EVIDENCE, EXIT_UNVERIFIED
from rookery.shell.file_reading import list_document_files, read_document_file, read_document_files
from rookery.shell.terminal_output import (
    StreamConsole,
    show_claim_verdict,
    show_failures,
    show_verdict,
    to_terminal_json,
)
from rookery.typed_files import open_named_file
from rookery.written_values import format_count

MAX_SAVED_BYTES = 100_000_000
"""bytes of a file of saved answers"""

_PERCENT = re.compile(r"(?:%(?!2f|25|3f|23)[0-9a-f]{2}|[^%])+", re.IGNORECASE)
"""parts of a path in which percent-encoding means nothing"""


def check_saved_answers(data: bytes, name: str, pages: SourcePages) -> list[AnyVerdict]:
    """Check the quotes of saved answers, of Rookery or another tool; return verdicts in order.

    Answers of Rookery also get verdicts on text: that a method altered, or that a model wrote and
    nothing judges. The list is empty where nothing is quoted. Raises ValueError for data of no
    known form.
    """
    saved_answers = parse_saved_answers(data, name)
    if saved_answers is not None:
        numbered = enumerate(saved_answers, 1)
        return [each for number, saved in numbered for each in check_own(saved, pages, number)]
    claimed = extract_claimed_quotes(data, name)
    return _note_other_sources([_check_other(each, pages) for each in claimed])


def _check_other(claimed: ClaimedQuote, pages: SourcePages) -> ClaimedVerdict:
    verdict = check_claimed_quote(claimed, pages.find_named(claimed))
    if verdict.outcome == "page_missing" and (claimed.url or claimed.title):
        return msgspec.structs.replace(verdict, detail=pages.explain_missing(claimed))
    return verdict


def check_own(saved: SavedAnswer, pages: SourcePages, number: int) -> Iterator[AnyVerdict]:
    """Yield verdicts on the quotes of an answer of Rookery, and then on its text.

    `number` is that of the answer in its file, from 1.
    """
    if saved.answer is None:
        return
    yield from verify_quotes(saved.answer, pages.find_version, pages.find_latest)
    if saved.method == "extract":
        yield from find_altered_extract(saved.answer)
    elif saved.method == SIDES_METHOD:
        yield from find_altered_sides(saved.answer)
    else:
        yield from find_unjudged_sentences(saved.answer)
        yield from check_typed_quotes(saved.answer, pages.find_version, f"answer {number}")


def _note_other_sources(verdicts: Sequence[ClaimedVerdict]) -> list[AnyVerdict]:
    """Note, for a string that one of its sources lacks, whether another has it."""
    standing = {each.claimed.where for each in verdicts if each.verified}
    also = "; they stand in another source that is cited with it"
    return [
        msgspec.structs.replace(each, detail=each.detail + also)
        if each.outcome == "not_found" and each.claimed.where in standing
        else each
        for each in verdicts
    ]


def count_failed_quotes(verdicts: Sequence[AnyVerdict]) -> int:
    """Count the quotes and texts that failed; what was not judged or checked does not count.

    A string that is cited with several sources fails if it fails in one of them. Each place where
    it stands is counted for itself.
    """
    together: dict[object, list[bool]] = {}
    for number, each in enumerate(verdicts):
        if each.outcome not in UNCHECKED_OUTCOMES:
            claimed = each.claimed if isinstance(each, ClaimedVerdict) else None
            place = claimed.where if claimed and claimed.quoted else number
            together.setdefault(place, []).append(each.outcome == "verified")
    return sum(not all(outcomes) for outcomes in together.values())


def summarize_verdicts(verdicts: Sequence[AnyVerdict]) -> str:
    """Return one line: how many quotes are verified or elided, and what was not judged."""
    outcomes: Counter[str] = Counter(each.outcome for each in verdicts)
    quotes = len(verdicts) - sum(outcomes[each] for each in (*UNCHECKED_OUTCOMES, "claim_differs"))
    parts = [f"{outcomes['verified']} of {format_count(quotes, 'quote')} verified"]
    if not quotes and not outcomes["claim_differs"]:
        parts = ["nothing was checked: no words are quoted beside a source"]
    if outcomes["elided"]:
        parts.append(f"{outcomes['elided']} elided, which is never verified")
    if outcomes["claim_differs"]:
        parts.append("the answer's text is not what its method writes")
    if unjudged := outcomes["not_judged"]:
        were = "was" if unjudged == 1 else "were"
        sentence = f"{format_count(unjudged, 'sentence')} written by a model {were} not judged"
        parts.append(f"{sentence}: only their quotes are checked")
    if cited := outcomes["not_quoted"]:
        parts.append(f"{format_count(cited, 'citation')} without quoted words not judged")
    if unchecked := outcomes["not_checked"]:
        were = "was" if unchecked == 1 else "were"
        parts.append(f"{format_count(unchecked, 'quotation')} {were} not checked")
    return "; ".join(parts)


def list_equal_addresses(url: str) -> list[str]:
    """Return the ways to write an address that name the same page, the address itself first.

    They differ in the case of scheme and host, in percent-encoding, in the name of a folder's index
    page, and in `utm_` fields, which say where a link stood. A fragment is left out. An address
    that is not on the web has no other way; what is no address gives an empty list.
    """
    try:
        whole = urldefrag(url).url
        parts = urlsplit(whole)
    except ValueError:  # no address
        return []
    if not is_url(url):
        return [whole]
    decoded = _PERCENT.sub(lambda part: unquote(part[0]), parts.path)
    plain = _PERCENT.sub(lambda part: percent_encode(part[0], "/:@!$&'()*+,;="), decoded)
    lowered = re.sub("%..", lambda code: code[0].lower(), plain)
    folders = [re.sub(r"/(?:index\.html?)?\Z", "", path) for path in (plain, decoded, lowered)]
    paths = [folder + end for folder in folders for end in ("", "/", "/index.html", "/index.htm")]
    scheme, host = parts.scheme.lower(), parts.netloc.lower()
    fields = parts.query.split("&")
    query = "&".join(field for field in fields if not field.lower().startswith("utm_"))
    addresses = [
        urlunsplit((scheme, host, path, named, ""))
        for named in (parts.query, query)
        for path in (plain, decoded, *paths)
    ]
    return list(dict.fromkeys([whole, *addresses]))


class DocumentLookup:
    """The pages of a folder of documents, by address, digest and title."""

    def __init__(self, place: Path | None) -> None:
        read = list(read_document_files(list_document_files(place))) if place else []
        self.folder = place.parent if place and place.is_file() else place
        self.unread = [got for got in read if isinstance(got, Failure)]
        pages = [got for got in read if isinstance(got, Page)]
        self._pages = sorted(pages, key=lambda page: page.url)
        self._by_url = {page.url: page for page in self._pages}

    def find_exact(self, url: str) -> Page | None:
        """Return the page of the file at exactly this address; None if there is none."""
        return self._by_url.get(url)

    def find_by_digest(self, digest: str) -> Page | None:
        """Return a page whose text has this digest; None if there is none."""
        return next((page for page in self._pages if page.digest == digest), None)

    def find_by_title(self, title: str) -> list[Page]:
        """Return the pages with this title or in a file of this name."""
        return [
            page
            for page in self._pages
            if title in (page.title, unquote(page.url.rpartition("/")[2]))
        ]


def choose_exit_code(verdicts: Sequence[AnyVerdict], judged: bool = False) -> int:
    """Return the exit code of checked answers; `judged` says that a claim was judged.

    EXIT_UNVERIFIED where a quote failed, else EXIT_ANSWERED where one is verified or a claim was
    judged, else EXIT_NO_EVIDENCE.
    """
    if count_failed_quotes(verdicts):
        return EXIT_UNVERIFIED
    verified = any(each.outcome == "verified" for each in verdicts)
    return EXIT_ANSWERED if verified or judged else EXIT_NO_EVIDENCE


def _leaves_by_link(folder: Path, path: Path) -> bool:
    """Return whether a path that is named below a folder leads out of it by links."""
    place = folder / path
    named_below = "\0" not in str(path) and Path(os.path.normpath(place)).is_relative_to(folder)
    return named_below and leads_out(bytes(place), [bytes(folder)])


def _is_copy_served_here(quote: Quote) -> bool:
    """Return whether the address is that of the stored copy at a Rookery server on this machine,
    which names a version by its digest and no other source."""
    address = urlsplit(quote.url)
    on_this_machine = address.hostname in ("localhost", "127.0.0.1", "::1")
    return on_this_machine and address.path == f"/pages/{quote.digest}"


class CheckedSources:
    """The pages of given documents, of the archive, and, where asked for, as they are now."""

    def __init__(
        self, documents: DocumentLookup, sources: EvidenceSources, fetch: bool, folder: Path
    ) -> None:
        self._given = documents
        self._sources = sources
        self._fetch = fetch
        self._folder = folder
        self._folders = [each.resolve() for each in (folder, documents.folder) if each]
        self._fetched: dict[str, Page | Failure] = {}

    @property
    def unread(self) -> list[Failure]:
        """Failures of the sources that were to be opened as they are now."""
        return [got for got in self._fetched.values() if isinstance(got, Failure)]

    def find_version(self, quote: Quote) -> Page | None:
        """Return the version nearest to what a quote names, else another at its address, else None.

        A version with the quote's digest is preferred: archived, the document at the address or,
        with fetching, the address as it is now, which is opened once.
        """
        now = self._open_page(quote.url)
        archived = self._sources.archive.find_quoted(quote)
        same = archived is not None and archived.url in list_equal_addresses(quote.url)
        if archived is not None and (same or _is_copy_served_here(quote)):
            return msgspec.structs.replace(archived, url=quote.url)
        versions = list(filter(None, [now, self._given.find_exact(quote.url)]))
        for page in versions:
            if page.digest == quote.digest:
                return msgspec.structs.replace(page, url=quote.url)
        elsewhere = archived or self._given.find_by_digest(quote.digest)
        return (
            elsewhere or next(iter(versions), None) or self._sources.archive.find_latest(quote.url)
        )

    def find_latest(self, url: str) -> Page | None:
        """Return the newest version at an address; None if there is none.

        That is the page as it is now if it is fetched, else the file of the documents, else the
        archived version that was stored last.
        """
        here = self._open_page(url) or self._given.find_exact(url)
        return here or self._sources.archive.find_latest(url)

    def find_named(self, claimed: ClaimedQuote) -> Iterator[Page]:
        """Yield the versions of the source that another tool names, newest first.

        A source without an address is looked for by title among the documents alone. With fetching,
        an address is opened as it is now, once.
        """
        if not claimed.url:
            yield from self._given.find_by_title(claimed.title)
            return
        addresses = self._list_addresses(claimed.url)
        if now := next(filter(None, map(self._open_page, addresses[:1])), None):
            yield now
        for address in addresses:
            yield from filter(None, [self._given.find_exact(address)])
            yield from self._sources.archive.find_versions(address)

    def explain_missing(self, claimed: ClaimedQuote) -> str:
        """Return a sentence on why there is no version of the source, and what to do."""
        for address in self._list_addresses(claimed.url):
            if isinstance(failure := self._fetched.get(address), Failure):
                return f"{failure.outcome}: {failure.detail}"
        path = Path(unquote(urldefrag(claimed.url).url))
        if not is_url(claimed.url) and any(_leaves_by_link(each, path) for each in self._folders):
            return (
                "a link there leads out of the folder and is not followed: put a copy in its place"
            )
        if (what := name_unread_type(path.name)).startswith("a document"):
            return f"the source is {what}: save it as DOCX, XLSX, PPTX or PDF, and name that file"
        return "the source is not stored: name a folder with --pages, or open it with --fetch"

    def _list_addresses(self, url: str) -> list[str]:
        """Return the addresses that a source may be stored under, the likeliest first.

        A path is read from the answer's folder and from that of the documents, and from no other:
        links there that lead out of them are not followed. A web address is also that of the
        document at its host and path: `www.example.org/a.html`.
        """
        if is_url(url):
            equal = list_equal_addresses(url)
            return [*equal, *filter(None, map(self._name_copy, equal))]
        named = urldefrag(url).url
        local = named.lower().startswith("file:")
        path = resolve_place_path(named) if local else Path(unquote(named))
        if "\0" in str(path):
            return []
        if local:
            return [(self._folder / path).resolve().as_uri()]
        folders = [each for each in self._folders if not _leaves_by_link(each, path)]
        return [(each / path).resolve().as_uri() for each in folders]

    def _name_copy(self, url: str) -> str:
        """Return the address of the file at a web address's host and path below the documents.

        It is empty where there is no such place.
        """
        parts, folder = urlsplit(url), self._given.folder
        if folder is None or parts.query or "\0" in (path := unquote(parts.path)):
            return ""
        host = (folder / parts.netloc).resolve()
        copy = host.joinpath(path.lstrip("/")).resolve()
        return copy.as_uri() if host.parent == folder.resolve() and host in copy.parents else ""

    def _open_page(self, url: str) -> Page | None:
        """Return the page as it is now, opened once; None unless asked for, or where it fails."""
        if not self._fetch:
            return None
        if url not in self._fetched:
            try:
                fetch = self._sources.fetch_page if is_url(url) else self._read_file
                self._fetched[url] = fetch(url)
            except Failed as failed:
                self._fetched[url] = failed.failure
        now = self._fetched[url]
        return now if isinstance(now, Page) else None

    def _read_file(self, url: str) -> Page:
        """Return the page of a file below the answer's folder or the documents'.

        An answer of a stranger names no other file. Raises Failed where it lies elsewhere, or
        cannot be read.
        """
        path = resolve_place_path(url)
        if leads_out(bytes(path), [bytes(each) for each in self._folders]):
            detail = "it is not below the answer or --pages: name its folder with --pages"
            raise Failed(Failure(url, Outcome.UNREADABLE, detail))
        return read_document_file(path)


def run_verify_command(
    file: Path, pages: Path | None, fetch: bool, json: bool, settings: Settings, support: bool
) -> int:
    """Check the quotes of a file of saved answers, print each verdict and return the exit code.

    `pages` is a folder of documents to check against, besides the archive; `fetch` opens every
    source as it is now; `support` also judges the claims, by the evidence model of the settings'
    ranker, which never fails a quote. The summary goes to standard error. Raises ValueError for a
    file that holds no answers of a known form or is too large, OSError for one that cannot be read,
    and Failed: no_model, bad_model.
    """
    data = read_saved_file(file)
    documents = DocumentLookup(pages)
    out, err = StreamConsole(), StreamConsole(stderr=True)
    show_failures(err, documents.unread)
    with EvidenceSources(settings) as opened:
        sources = CheckedSources(documents, opened, fetch, file.absolute().parent)
        verdicts = check_saved_answers(data, file.name, sources)
        claims: list[ClaimVerdict] = []
        summary = [summarize_verdicts(verdicts)]
        if support:
            judge = make_claim_judge(settings.ranker)
            claims = judge_saved_claims(data, file.name, verdicts, sources, judge)
            unjudged = ("not_quoted", "not_judged")
            verdicts = [each for each in verdicts if each.outcome not in unjudged]
            summary = [
                *([summarize_verdicts(verdicts)] if verdicts else []),
                summarize_claims(claims),
            ]
        show_failures(err, sources.unread)
    if not (fetch or pages) and any(isinstance(each, Verdict) for each in verdicts):
        summary[0] += "; checked against the stored pages, not the sources as they are now"
    for unchecked in verdicts:
        if unchecked.outcome == "not_checked":
            show_verdict(err, unchecked)
    for each in (*verdicts, *claims):
        if json:
            sys.stdout.write(to_terminal_json(each) + "\n")
        elif not isinstance(each, ClaimVerdict):
            if each.outcome != "not_checked":
                show_verdict(out, each)
        elif not each.supported:
            show_claim_verdict(out, each)
    for line in summary:
        err.print_note(line)
    return choose_exit_code(verdicts, any(each.support for each in claims))


def read_saved_file(file: Path) -> bytes:
    """Return the contents of a file of saved answers; `-` is standard input.

    Raises ValueError where it has more than MAX_SAVED_BYTES, and OSError where it cannot be read.
    """
    with open_named_file(file) as saved:
        data = saved.read(MAX_SAVED_BYTES + 1)
    if len(data) > MAX_SAVED_BYTES:
        raise ValueError(f"{file} has more than {MAX_SAVED_BYTES:,} bytes: split it")
    return data


MAX_PAGE_WINDOWS = 8
"""windows of a page that are judged for a sentence that cites it without quoting it: those that
share the most words with the sentence"""
QUOTING_METHODS = ("extract", SIDES_METHOD)
"""methods whose text beside their claims is fixed words, which say nothing"""


def make_claim_judge(ranker: str) -> EvidenceJudge:
    """Return the judge of claims of the evidence model in a folder; empty: of the bundled one.

    The model is loaded when the first claim is judged, since claims that are quotes need none. The
    judge then raises Failed: no_model, bad_model.
    """

    @cache
    def load_judge() -> EvidenceJudge:
        if ranker == WORDS:
            detail = (
                "shared words do not tell support from refutation: name the folder of an evidence "
                "model with --ranker"
            )
            raise Failed(Failure(ranker, Outcome.NO_MODEL, detail))
        if not ranker and not is_evidence_model(BUNDLED_MODEL):
            detail = "no evidence model comes with this installation: name one with --ranker DIR"
            raise Failed(Failure("support", Outcome.NO_MODEL, detail))
        return load_evidence_model(Path(ranker or BUNDLED_MODEL)).judge_passages

    return lambda claim, passages: load_judge()(claim, passages)


def judge_saved_claims(
    data: bytes, name: str, verdicts: Sequence[AnyVerdict], pages: SourcePages, judge: EvidenceJudge
) -> list[ClaimVerdict]:
    """Judge the claims of saved answers by what they cite; `verdicts` is what the quotes got.

    A quote that failed supports nothing. Of other tools' answers, the sentences that cite a source
    without quoting it are judged by the parts of the stored source that share most words with them.
    Raises ValueError as `check_saved_answers` does, and what the judge raises.
    """
    saved_answers = parse_saved_answers(data, name)
    if saved_answers is not None:
        failed = {
            EvidencePassage(each.quote.text, each.quote.title)
            for each in verdicts
            if isinstance(each, Verdict) and not each.verified
        }
        return [verdict for saved in saved_answers for verdict in _judge_ours(saved, failed, judge)]
    claimed: dict[tuple[str, str], list[ClaimedVerdict]] = {}
    for each in verdicts:
        if isinstance(each, ClaimedVerdict) and each.outcome in ("verified", "not_quoted"):
            claimed.setdefault((each.claimed.where, each.claimed.text), []).append(each)
    return [_judge_other(text, cited, pages, judge) for (_, text), cited in claimed.items()]


def _judge_ours(
    saved: SavedAnswer, failed: set[EvidencePassage], judge: EvidenceJudge
) -> Iterable[ClaimVerdict]:
    for claim, cited in list_statements(saved.answer) if saved.answer else ():
        verified = [each for each in cited if each not in failed]
        if cited and not verified:
            yield ClaimVerdict(claim, "unverified", detail="none of its quotes is verified")
        elif cited:
            yield _judge_by(claim, verified, judge)
        elif saved.method not in QUOTING_METHODS and any(map(str.isalnum, claim)):
            yield ClaimVerdict(claim, "uncited", detail="it cites nothing")


def _judge_other(
    claim: str, cited: Sequence[ClaimedVerdict], pages: SourcePages, judge: EvidenceJudge
) -> ClaimVerdict:
    if any(each.verified for each in cited):
        return _judge_by(claim, [EvidencePassage(claim)], judge)
    sources = [next(iter(pages.find_named(each.claimed)), None) for each in cited]
    read = [part for page in sources if page for part in _find_nearest_parts(claim, page)]
    if not read:
        return ClaimVerdict(claim, "unverified", detail=pages.explain_missing(cited[0].claimed))
    return _judge_by(claim, read, judge)


def _find_nearest_parts(claim: str, page: Page) -> list[EvidencePassage]:
    windows = cut_windows(page.text, MAX_WINDOW_CHARACTERS)
    parts = [EvidencePassage(window, page.title) for window in windows]
    return sorted(parts, key=lambda part: -compute_word_share([part], claim))[:MAX_PAGE_WINDOWS]


def _judge_by(
    claim: str, passages: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimVerdict:
    found = judge_claim_support(claim, passages, judge)
    if repeats_passage(claim, passages):
        return ClaimVerdict(claim, "quoted", found, "it is one of its quotes")
    return ClaimVerdict(claim, found.outcome, found)


def summarize_claims(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return one line: how many claims are supported, and how many have each other outcome.

    Claims that are quotes word for word count as supported and are named, too.
    """
    counts: Counter[str] = Counter(each.outcome for each in verdicts)
    if not verdicts:
        return "no claim to judge"
    parts = [f"{sum(each.supported for each in verdicts)} of {len(verdicts)} claims supported"]
    for outcome, wording in (
        ("quoted", "quoted word for word, which needs no model"),
        ("refutes", "refuted"),
        ("neither", "neither supported nor refuted"),
        ("uncited", "without a citation"),
        ("unverified", "without a verified source"),
    ):
        if counts[outcome]:
            parts.append(f"{counts[outcome]} {wording}")
    return "; ".join(parts)
