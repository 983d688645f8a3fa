"""Tell the words of a mail's sender from those of mails that it quotes or forwards."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from rookery.pages.html.page_assembly import TextPositions, build_page
from rookery.pages.page_parts import ReadLimits, parse_part
from rookery.records import Block, Mark, Page

_QUOTING = r"(?:> ?)*"
_ON = r"\b(?:On|Am|Le|El|Il|Op|Den|Em|Dnia)\b"
_WROTE = "wrote|writes|schrieb|schreibt|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisał"
ATTRIBUTION = re.compile(
    rf"(?:{_QUOTING}{_ON}[^\n]{{1,200}}\n)?{_QUOTING}[^\n]{{0,200}}?\b(?:{_WROTE})\b"
    r"[^\n]{0,200}:[ \t]*(?=\n|\Z)"
)
"""the line in which a mail program says whose words follow, which may be broken"""
_ON_A_DAY = re.compile(rf"{_ON}.*\d", re.IGNORECASE)
_FIELD = (
    r"(?:(?P<sent>Sent|Gesendet|Envoyé(?: le)?|Enviado(?: el| em)?|Inviato|Verzonden|Skickat)"
    r"|(?P<subject>Subject|Betreff|Objet|Asunto|Oggetto|Onderwerp|Assunto|Ämne)"
    r"|Date|Datum|Fecha|Data|To|An|À|A|Para|Aan|Cc|Kopie|Reply-To)"
)
FIELD_LINE = re.compile(rf"\W{{0,9}}(?:From|Von|De|Da|Van|Från|{_FIELD})\W{{0,3}}:")
"""a line of the head of a mail that is quoted"""
_HEAD = re.compile(
    rf"(?P<rule>{_QUOTING}(?:[-_]{{5,40}}|-{{2,40}}[^\n]{{1,60}}?-{{2,40}})[ \t]*\n+)?"
    r"[>* ]*(?:From|Von|De|Da|Van|Från)\W{0,3}:[* ]*(?P<who>[^\n]+)"
    rf"(?:\n+[>* ]*{_FIELD}\W{{0,3}}:[^\n]*)+"
)
_DAY = re.compile(r"\n[>* ]*(?:Sent|Gesendet|Envoyé|Enviad|Inviato|Verzonden|Dat|Fecha)[^:]*:")
_ADDRESS = re.compile(r"\s*[<\[(]+(?:mailto:)?[^\s<>]*@[^\s<>]*[>\])]+|^[>*\s]+|[*:\s]+$")
_LONGEST_NAME = 160
_GREETING = re.compile(
    rf"{_QUOTING}(?:[^\n,.!?:;]{{1,50}},|(?:Dear|Hi|Hello|Hey|Hallo|Liebe[rs]?|Sehr geehrte[rs]?)\b"
    r"[^\n,.!?:;]{0,40}[!.]?)"
)
"""the first line of a letter, by which the person who gets it would be taken for who writes"""


class _Part(NamedTuple):
    """A block of a page, or some lines of it."""

    block: Block
    depth: int
    """how often it is quoted"""
    writer: str = ""
    """who wrote what follows, where it says so"""
    end: int = 0
    """where what says so ends"""
    is_head: bool = False
    """it is the head of a mail, and what follows need not be marked as quoted"""
    is_greeting: bool = False
    """it may greet somebody"""


def read_letter(html: str, url: str, limits: ReadLimits, sender: str | None) -> Page:
    """Return HTML as `read_part` does, with the marks of `mark_writers`; raises what that does."""
    tree = parse_part(html, limits)
    positions, elements = TextPositions(tree), zip(tree.tags, tree.starts, tree.stops, strict=True)
    quotations = [
        positions.span_at(~start, stop) for tag, start, stop in elements if tag == "blockquote"
    ]
    return mark_writers(build_page(tree, url, whole=True), sender, quotations)


def mark_writers(
    page: Page, sender: str | None, quotations: Sequence[tuple[int, int]] = ()
) -> Page:
    """Return the page with a mark over what each writer wrote: `sender`, or `quoted` for others.

    Blocks are cut where another writer begins. What says who wrote, and a greeting below it, is not
    searched, as the head of a mail is not. The value over the sender's words has the question that
    they answer, which stands above them. `quotations` are spans of the text. A mail has a
    `sender`, empty where it names none. None: the page is another text, in which only those are
    marked who are named as in a mail.
    """
    starts, ends = sorted(each[0] for each in quotations), sorted(each[1] for each in quotations)
    parts = list[_Part]()
    for block in page.blocks:
        depth = bisect_right(starts, block.start) - bisect_right(ends, block.start)
        parts += _cut_block(page.text, block, depth)
    if sender is None and not any(part.writer for part in parts):
        return page
    blocks, marks = list[Block](), list[Mark]()
    for value, group in groupby(_name_writers(page.text, parts, sender), lambda pair: pair[1]):
        blocks += (run := [block for block, _ in group])
        if value and not run[0].hidden:
            kind = "quoted" if value.startswith("quoted") else "sender"
            marks.append(Mark(run[0].start, run[-1].end, kind, value))
    ordered = sorted((*page.marks, *marks), key=lambda mark: (mark.start, mark.end))
    return msgspec.structs.replace(page, blocks=tuple(blocks), marks=tuple(ordered))


def _cut_block(text: str, block: Block, depth: int) -> Iterator[_Part]:
    """Yield a block in parts: what says who wrote what follows, and lines that are quoted alike."""
    if block.kind in ("code", "cell", "heading", "caption") or block.hidden:
        yield _Part(block, depth)
        return
    part, begun = _Part(block, -1), block.start
    for line in re.compile(r"[^\n]+").finditer(text, block.start, block.end):
        if line.start() < part.end:
            continue
        marked = re.match(_QUOTING, line[0])
        own = _Part(block, depth + (marked[0].count(">") if marked else 0))
        head = _HEAD.match(text, line.start())
        if head and (head["rule"] or head["sent"] or head["subject"]):
            day = _DAY.search(head[0])
            sent = head[0][day.end() :].split("\n")[0] if day else ""
            who = ", ".join(filter(None, (_clean_name(head["who"]), _clean_name(sent))))
            own = own._replace(writer=who, end=head.end(), is_head=True)
        elif attribution := ATTRIBUTION.match(text, line.start(), block.end):
            own = own._replace(writer=_clean_name(attribution[0]), end=attribution.end())
        elif line.start() == block.start and _GREETING.fullmatch(line[0]):
            own = own._replace(end=line.end(), is_greeting=True)
        if own[1:] != part[1:]:
            if line.start() > begun:
                yield _trim_part(part, text, begun, line.start())
            begun = line.start()
        part = own
    yield _trim_part(part, text, begun, block.end)


def _trim_part(part: _Part, text: str, start: int, end: int) -> _Part:
    end = start + len(text[start:end].rstrip())
    return part._replace(block=msgspec.structs.replace(part.block, start=start, end=end))


def _clean_name(written: str) -> str:
    """Return who wrote, and when, on one line, without addresses and marks."""
    line = " ".join(re.sub(r"\n[> ]*", " ", written).split())
    return (_ADDRESS.sub("", line).strip("\"' ") or line)[:_LONGEST_NAME]


def _name_writers(
    text: str, parts: Sequence[_Part], sender: str | None
) -> Iterator[tuple[Block, str]]:
    """Yield the block of each part with who wrote it: the value of its mark, empty for none."""
    writers, value, until, begins, question = {0: sender or ""}, "", 0, False, ""
    for number, part in enumerate(parts):
        if sender is None and part.block.kind == "heading":
            writers = {0: ""}
        is_named = part.is_head or sender is not None or _ON_A_DAY.search(part.writer)
        level = _find_level(parts, number) if part.writer and is_named else None
        if part.block.start >= until and level is not None:
            is_own = sender is None and not level and not writers[0]
            value = part.writer if is_own else f"quoted: {part.writer}"
            writers = {depth: who for depth, who in writers.items() if depth < level}
            writers[level], until, begins = value, max(part.end, part.block.end), True
        if part.block.start < until or (begins and part.is_greeting):
            yield msgspec.structs.replace(part.block, furniture=True), value
            continue
        begins, near = False, writers[max(depth for depth in writers if depth <= part.depth)]
        if part.depth in writers or (sender is None and len(writers) == 1):
            value = "" if part.block.hidden else writers.get(part.depth, "")
        else:
            value = f"quoted by {near}" if near and not near.startswith("quoted") else "quoted"
        if part.depth:
            words = " ".join(text[part.block.start : part.block.end].split())[-_LONGEST_NAME:]
            question = f", answering: {words}" if words.endswith("?") else ""
        yield part.block, value + question if value and value == sender else value


def _find_level(parts: Sequence[_Part], number: int) -> int | None:
    """Return how often what a writer of the past wrote is quoted; None where nothing of it is."""
    part = parts[number]
    rest = (parts[n] for n in range(number + 1, len(parts)))
    following = next((each for each in rest if each.block.start >= part.end), None)
    if following is None or following.depth < part.depth:
        return None
    goes_on = part.is_head or part.depth or _ON_A_DAY.search(part.writer)
    return following.depth if following.depth > part.depth or goes_on else None
