"""Files of each kind that Rookery reads, and mutants of them for fuzzing.

Mutants are made from files that real programs wrote (tests/pages/files, the bundled pages) and a
few that are made here. The same kind and number always give the same mutant.
"""

import io
import json
import random
import re
import zipfile
import zlib
from collections.abc import Sequence

from bench import report
from rookery.library.libraries import get_bundled_folder
from rookery.pages.reader_processes import PageJob

WORDS = "crow raven rook jay magpie tool nest food cache twig".split()
FILES = report.ROOT / "tests" / "pages" / "files"
_FILE_KINDS = {
    "docx": ("year.docx",),
    "pptx": ("talk.pptx",),
    "xlsx": ("counts.xlsx",),
    "odt": ("year.odt",),
    "ods": ("counts.ods",),
    "odp": ("talk.odp",),
    "epub": ("year.epub", "office.epub"),
    "pdf": ("ferry.pdf", "survey.pdf"),
    "eml": ("mail.eml",),
    "mbox": ("list.mbox",),
    "ipynb": ("talk.ipynb",),
    "rss": ("feed.rss",),
    "atom": ("feed.atom",),
    "man": ("rook.1", "rook.1.gz"),
}
"""Files of real programs, by kind"""
_SVG = """<!doctype html><title>Rooks</title><h1>Rooks</h1><p>A figure follows.</p>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><title>Nests</title><desc>Counts</desc>
<defs><text id="a">unused</text></defs><g transform="scale(2)"><rect width="9" height="9"/>
<text x="1" y="9" font-size="4">March<tspan dy="5">12 nests</tspan></text>
<text display="none">hidden</text><use href="#a"/></g>
<foreignObject width="9" height="9"><p>Inside</p></foreignObject></svg>
<math><mfrac><mn>1</mn><msqrt><mi>x</mi></msqrt></mfrac></math><p>The end, said the rook.</p>
"""
_CODE = '''#!/usr/bin/env python3
"""Counts nests."""
import sys

def count(lines: list[str]) -> int:
    # A nest is a line that names one.
    return sum("nest" in line for line in lines)

if __name__ == "__main__":
    print(count(sys.stdin.readlines()))
'''
_LOG = "".join(
    f"2026-03-0{n} 12:00:{n:02} INFO {word}: counted {n * 7} nests\n"
    for n, word in enumerate(WORDS)
)


def make_pdf(content: bytes, filters: bytes = b"") -> bytes:
    """Return a PDF of one page with this content stream, encoded as `filters` say."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter[%s]>>stream\n%s\nendstream" % (len(content), filters, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    out, places = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return out + head + table + trailer % (len(objects) + 1, len(out))


def make_docx(body: str) -> bytes:
    """Return a Word document with this XML as its body."""
    schemas = "http://schemas.openxmlformats.org"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{schemas}/package/2006/content-types"><Default '
        f'Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
        f'ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{schemas}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{schemas}/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{schemas}/wordprocessingml/2006/main">'
        f"<w:body>{body}</w:body></w:document>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # which has no time of its own
    return packed.getvalue()


MARKDOWN = """---
title: Crows
---
# Crows\n\nA *crow* makes **tools** of [twigs](twigs.md "Twigs") and `wire`.\n
1. first\n2. second\n   - inner\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n
```python\nprint("crow")\n```\n\n<div hidden>raw &amp; hidden</div>\n\n![picture](a.png)\n
"""
RST = """Crows\n=====\n\nA crow makes *tools*.\n\n.. note:: Ravens\n   too.\n\n::\n\n    literal\n
Rooks\n-----\n\n.. code-block:: python\n   :linenos:\n\n   print("rook")\n
+---+---+\n| a | b |\n+---+---+\n
"""


def make_seeds() -> dict[str, list[PageJob]]:
    """Return the files of each kind that mutants are made of."""
    table = "name,size,food\n" + "".join(
        f'{word},{n},"a, ""b""\nc"\n' for n, word in enumerate(WORDS)
    )
    data = json.dumps([{"name": word, "sizes": [1, 2.5, None, {"a": "é"}]} for word in WORDS])
    shown = " T* ".join(f"({word} makes tools) Tj" for word in WORDS)
    stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
    runs = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{word}</w:t></w:r></w:p>'
        f"<w:tbl><w:tr><w:tc><w:p><w:r><w:t>{word}</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        for word in WORDS
    )
    made = {
        "pdf": [make_pdf(stream), make_pdf(zlib.compress(stream), b"/FlateDecode")],
        "docx": [make_docx(runs)],
        "md": [MARKDOWN.encode() * 3],
        "csv": [table.encode()],
        "json": [data.encode(), "\n".join(data.split("}, ")).encode()],
        "rst": [RST.encode() * 3],
        "txt": [(get_bundled_folder() / "crow-checklist.txt").read_bytes()],
        "log": [_LOG.encode()],
        "py": [_CODE.encode()],
    }
    jobs = {
        kind: [PageJob(file, f"https://a.org/a.{kind}") for file in files]
        for kind, files in made.items()
    }
    for kind, names in _FILE_KINDS.items():
        # Programs read files of this machine only, and a man page is read by one.
        place = "file:///a/" if kind == "man" else "https://a.org/"
        jobs.setdefault(kind, []).extend(
            PageJob((FILES / name).read_bytes(), place + name) for name in names
        )
    pages = [path.read_bytes() for path in sorted(get_bundled_folder().glob("*.html"))[:10]]
    return {
        "html": [PageJob(page, "https://a.org/a", "text/html") for page in pages],
        "svg": [PageJob(_SVG.encode(), "https://a.org/a", "text/html")],
    } | jobs


TOKENS = (
    b"<", b">", b"<!--", b"-->", b'"', b"'", b"=", b"/", b"&", b"&#xD800;", b"\0", b"\xff\xfe",
    b"<table>", b"</p>", b"<svg>", b"<textarea ", b"<template>", b"<select>", b"[", b"](", b"`",
    b"|", b"*", b"_", b"\n\n", b"\r", b"{", b"}", b"\\", b"obj", b"<<", b">>", b"stream",
    b"/Kids", b" 0 R", b"9999999999", b"-1", b"<w:p>", b"<w:tbl>", b"w:val", b"::", b"===",
)  # fmt: skip


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return `data` after one to eight changes: bytes set, pieces removed, repeated or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) + 1)
        size = chance.choice((1, 2, 8, 64, 512))
        piece = bytes(changed[at : at + size])
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = piece * chance.choice((1, 2, 20, 200))
            case 3:
                to = chance.randrange(len(changed) + 1)
                changed[to:to] = piece
            case _:
                changed[at:at] = chance.choice(TOKENS) * chance.choice((1, 1, 1, 3, 300))
    return bytes(changed)


_VALUE = re.compile(rb'"[^"<>\n]{0,200}"|(?<=>)[^<>]+(?=<)|(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])')
_LEAF = re.compile(rb"<([\w:-]+)\b[^<>]*(?:/>|>[^<>]*</\1>)")
_STRINGS = (b"", b" ", b"-1", b"1e999", b"99999999999999999999", b"../a", b"#", b"\xc3\xa9" * 300)
_NUMBERS = (b"-1", b"0", b"65536", b"2147483648", b"1e999", b"0.000001", b"99999999999999999999")
_BARE = (b"null", b"true", b"[]", b"{}", b"[[[[1]]]]")
"""what stands for a string or number of JSON"""


def mutate_values(data: bytes, chance: random.Random) -> bytes:
    """Return `data` with values changed and elements removed or repeated, so that what reads the
    syntax accepts it more often than after `mutate_bytes`."""
    for _ in range(chance.randint(1, 4)):
        leaves = chance.random() < 0.4
        found = list((_LEAF if leaves else _VALUE).finditer(data))
        if not found:
            return mutate_bytes(data, chance)
        one = chance.choice(found)
        old = one[0]
        if leaves:
            new = old * chance.choice((0, 0, 2, 20, 200))
        elif old.startswith(b'"'):
            other = chance.choice((*_STRINGS, chance.choice(found)[0].strip(b'"')))
            new = b'"%b"' % other if chance.random() < 0.8 else chance.choice(_BARE)
        elif old[-1:].isdigit():
            new = chance.choice((*_NUMBERS, chance.choice(found)[0]))
        else:
            new = chance.choice((*_STRINGS, chance.choice(found)[0]))
        data = data[: one.start()] + new + data[one.end() :]
    return data


def mutate_file(data: bytes, chance: random.Random) -> bytes:
    """Return `data` after changes of bytes, or of values and elements."""
    return (mutate_values if chance.random() < 0.5 else mutate_bytes)(data, chance)


def make_mutant(kind: str, number: int, seeds: Sequence[PageJob]) -> PageJob:
    """Return a mutated file, the same for the same kind and number."""
    chance = random.Random(f"{kind} {number}")
    seed = chance.choice(seeds)
    if seed.data.startswith(b"PK") and chance.random() < 0.9:
        data = mutate_archive(seed.data, chance)
    else:
        data = mutate_file(seed.data, chance)
    return PageJob(data, seed.url, seed.content_type)


def mutate_archive(data: bytes, chance: random.Random) -> bytes:
    """Return a document with one of its parts mutated, in a whole archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(packed, "w") as archive:
        chosen = chance.choice(whole.namelist())
        for name in whole.namelist():
            part = whole.read(name)
            archive.writestr(
                zipfile.ZipInfo(name), mutate_file(part, chance) if name == chosen else part
            )
    return packed.getvalue()
