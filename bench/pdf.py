"""Reading PDFs: text by programs on this machine, in five layouts and three fonts, word by word.

Each PDF has paragraphs drawn by a seed from the packaged pages. Counted is how many of their
sentences are read whole, each word as it was set, one after the other in order. The reader was
built on one half of the documents; the others are set aside. Writes bench/results/pdf.json.

    python -m bench.pdf [--built] [--keep FOLDER]
"""

import argparse
import html
import json
import random
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.small import find_long_sentences
from rookery.errors import Failed
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text

LAYOUTS = {"ragged": 1, "justified": 1, "two columns": 2, "three columns": 3, "tables": 1}
"""Columns of each layout; tables stand between paragraphs of prose."""
FONTS = {"Liberation Serif": "T", "Liberation Sans": "H", "DejaVu Serif": "C"}
"""Fonts, and the family that groff sets instead."""
BUILT_SEEDS, ASIDE_SEEDS = range(1), report.choose_size(range(3, 4), range(1))
"""of documents that the reader was built on, and of others, drawn anew after each change of it"""
PARAGRAPHS = report.choose_size(8, 3)
PROGRAMS = {"chromium": "chromium", "soffice": "soffice", "groff": "groff", "pandoc": "pandoc"}
_LONG_WORD = re.compile(r"[a-z]{8,}")

Paragraphs = Sequence[str]
Rows = Sequence[Sequence[str]]


def draw_text(seed: str, sentences: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return paragraphs of three to five sentences, and the rows of a table of names and counts."""
    chance = random.Random(seed)
    chosen = chance.sample(sentences, min(len(sentences), 4 * PARAGRAPHS))
    paragraphs = [" ".join(chosen[n : n + chance.randint(3, 4)]) for n in range(0, len(chosen), 4)]
    words = sorted({word for each in chosen for word in _LONG_WORD.findall(each)})
    rows = [[chance.choice(words), chance.choice(words), str(chance.randint(2, 9999))]
            for _ in range(6)]  # fmt: skip
    return paragraphs, rows


def write_html(layout: str, font: str, text: Paragraphs, rows: Rows) -> str:
    """Return the HTML of a document for chromium; long words may be divided after four letters."""
    columns, ragged = LAYOUTS[layout], layout == "ragged"
    parts = [html.escape(each, quote=False) for each in text]
    if not ragged:
        parts = [_LONG_WORD.sub(lambda m: m[0][:4] + "&shy;" + m[0][4:], each) for each in parts]
    table = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    middle = f"<table>{table}</table>" if layout == "tables" else ""
    half = len(parts) // 2
    body = "<p>".join(["", *parts[:half]]) + middle + "<p>".join(["", *parts[half:]])
    return (
        f"<!doctype html><meta charset=utf-8><title>Birds</title><style>body{{font:11pt '{font}';"
        f"text-align:{'left' if ragged else 'justify'};columns:{columns};column-gap:18pt}}"
        f"td{{padding:1pt 12pt}}</style>{body}"
    )


def write_flat_odt(layout: str, font: str, text: Paragraphs, rows: Rows) -> str:
    """Return a flat OpenDocument text for LibreOffice, which divides words itself."""
    columns, align = LAYOUTS[layout], "start" if layout == "ragged" else "justify"
    parts = [f'<text:p text:style-name="P">{html.escape(each)}</text:p>' for each in text]
    cell = '<table:table-cell><text:p text:style-name="C">{}</text:p></table:table-cell>'
    table = "".join(
        f"<table:table-row>{''.join(cell.format(html.escape(each)) for each in row)}"
        "</table:table-row>"
        for row in rows
    )
    if layout == "tables":
        column = '<table:table-column table:number-columns-repeated="3"/>'
        parts.insert(len(parts) // 2, f'<table:table table:name="T">{column}{table}</table:table>')
    names = ("office", "text", "table", "style")
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names
    )
    return (
        f'<?xml version="1.0"?><office:document{spaces} '
        'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" '
        'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" '
        'office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.text">'
        f'<office:font-face-decls><style:font-face style:name="F" svg:font-family="{font}"/>'
        "</office:font-face-decls><office:automatic-styles>"
        '<style:style style:name="P" style:family="paragraph"><style:paragraph-properties '
        f'fo:text-align="{align}" fo:margin-bottom="6pt"/><style:text-properties '
        'style:font-name="F" fo:font-size="11pt" fo:language="en" fo:country="US" '
        f'fo:hyphenate="{"false" if layout == "ragged" else "true"}" '
        'fo:hyphenation-remain-char-count="3" fo:hyphenation-push-char-count="3"/></style:style>'
        '<style:style style:name="C" style:family="paragraph"><style:text-properties '
        'style:font-name="F" fo:font-size="11pt"/></style:style>'
        '<style:style style:name="S" style:family="section"><style:section-properties>'
        f'<style:columns fo:column-count="{columns}" fo:column-gap="18pt"/>'
        "</style:section-properties></style:style></office:automatic-styles><office:body>"
        f'<office:text><text:section text:style-name="S" text:name="S">{"".join(parts)}'
        "</text:section></office:text></office:body></office:document>"
    )


def write_roff(layout: str, font: str, text: Paragraphs, rows: Rows) -> str:
    """Return a document for groff's macros `ms` and its table program."""
    lines = [f".fam {FONTS[font]}", ".nr PS 11", ".nr VS 13"]
    if LAYOUTS[layout] > 1:
        lines.append({2: ".2C", 3: ".MC 145p 18p"}[LAYOUTS[layout]])
    if layout == "ragged":
        lines += [".ds ragged", ".nh"]
    for number, paragraph in enumerate(text):
        if layout == "tables" and number == len(text) // 2:
            lines += [".TS", "l l r.", *("\t".join(row) for row in rows), ".TE"]
        lines += [".LP", *([".na"] if layout == "ragged" else [])]
        lines.append("\\&" + paragraph.replace("\\", "\\e"))
    return "\n".join(lines) + "\n"


def write_markdown(layout: str, font: str, text: Paragraphs, rows: Rows) -> str:
    """Return Markdown for pandoc, which sets it by groff: its layouts are those of its options."""
    del font
    parts = [re.sub(r"([\\`*_{}\[\]<>#$^~|@'\"])", r"\\\1", each) for each in text]
    if layout == "tables":
        table = ["| a | b | count |", "|---|---|--:|", *(f"| {' | '.join(row)} |" for row in rows)]
        parts.insert(len(parts) // 2, "\n".join(table))
    return "\n\n".join(parts) + "\n"


def make_pdfs(program: str, layout: str, documents: Sequence[tuple[str, str, Path]]) -> None:
    """Have a program set documents, of which the font, the source and the path of the PDF are
    given."""
    for font, source, path in documents:
        if program == "chromium":
            page = path.with_suffix(".html")
            page.write_text(source, encoding="utf-8")
            _run("chromium", "--headless", "--no-sandbox", "--disable-gpu",
                 "--no-pdf-header-footer", f"--print-to-pdf={path}", page.as_uri())  # fmt: skip
        elif program == "soffice":
            path.with_suffix(".fodt").write_text(source, encoding="utf-8")
        elif program == "groff":
            told = ("groff", "-k", "-t", "-ms", "-Tpdf", "-P-pa4")
            path.write_bytes(_run(*told, source=source))
        else:
            command = ["pandoc", "-f", "markdown-smart", "-t", "ms", "-s", "-V", "pointsize=11p",
                       "-V", f"fontfamily={FONTS[font]}"]  # fmt: skip
            roff = _run(*command, source=source).decode()
            columns = {2: ".2C\n", 3: ".MC 145p 18p\n"}.get(LAYOUTS[layout], "")
            head = columns + (".na\n.nh\n" if layout == "ragged" else "")
            first = re.search(r"^\.(?:LP|PP)$", roff, re.MULTILINE)
            at = first.start() if first else 0
            roff = roff[:at] + head + roff[at:]
            path.write_bytes(_run("groff", "-k", "-t", "-ms", "-Tpdf", "-P-pa4", source=roff))
    if program == "soffice":
        sources = [str(path.with_suffix(".fodt")) for _, _, path in documents]
        folder = str(documents[0][2].parent)
        profile = f"-env:UserInstallation=file://{folder}/profile"
        _run("soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", folder, *sources)


def _run(*command: str, source: str = "") -> bytes:
    made = subprocess.run(
        command, input=source.encode(), capture_output=True, check=True, timeout=300
    )
    return made.stdout


def count_whole(read: str, paragraphs: Paragraphs) -> tuple[int, list[str]]:
    """Return how many sentences there are, and those that are not whole and in order in `read`."""
    text, at, count, lost = " ".join(_fold(read).split()), 0, 0, []
    for paragraph in paragraphs:
        for sentence in find_long_sentences(paragraph):
            count += 1
            words = _fold(sentence)
            found = text.find(words, at)
            if found < 0:
                lost.append(sentence)
            else:
                at = found + len(words)
    return count, lost


def _fold(text: str) -> str:
    """Quotes and dashes as typed: programs set their own."""
    for signs, plain in (("‘’`´", "'"), ("“”", '"'), ("–—−‐", "-")):
        text = re.sub(f"[{signs}]", plain, text)
    return " ".join(text.split())


def measure(folder: Path, seeds: Sequence[int], shown: int = 0) -> dict[str, dict[str, list[int]]]:
    """Return, by program and layout, the numbers of sentences and of those that are lost."""
    pages = [
        read_page(path.read_bytes(), path.as_uri(), "text/html")
        for path in sorted(get_bundled_folder().glob("*.html"))
    ]
    sentences = sorted({
        one for page in pages for block in page.iter_article() if block.kind == "paragraph"
        for one in find_long_sentences(page.text[block.start : block.end])
        if re.fullmatch(r"[A-Z][a-zA-Z0-9 ,;:'’().–-]+\.", one) and len(one) < 300
    })  # fmt: skip
    writers = {"chromium": write_html, "soffice": write_flat_odt, "groff": write_roff,
               "pandoc": write_markdown}  # fmt: skip
    counts: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for program, layout in ((p, one) for p in writers for one in LAYOUTS):
        if not shutil.which(PROGRAMS[program]) or not shutil.which("groff"):
            continue
        documents, texts = [], []
        for seed in seeds:
            for font in FONTS:
                text, rows = draw_text(f"{program} {layout} {font} {seed}", sentences)
                name = f"{program}-{layout}-{font}-{seed}".replace(" ", "_").lower()
                source = writers[program](layout, font, text, rows)
                documents.append((font, source, folder / f"{name}.pdf"))
                texts.append(text)
        if not all(path.exists() for *_, path in documents):
            make_pdfs(program, layout, documents)
        row = counts[program].setdefault(layout, [0, 0])
        for (_, _, path), text in zip(documents, texts, strict=True):
            try:
                read = join_visible_text(read_page(path.read_bytes(), path.as_uri()))
            except Failed as error:
                print(path.name, error)
                read = ""
            count, lost = count_whole(read, text)
            row[0] += count
            row[1] += len(lost)
            for sentence in lost[:shown]:
                print(f"{path.name}: {sentence}")
    return counts


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.pdf", description=__doc__)
    parser.add_argument("--built", action="store_true", help="only these, print what is lost")
    parser.add_argument("--keep", type=Path, help="folder of the PDFs, which are made once")
    options = parser.parse_args()
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if len(missing) == len(PROGRAMS):
        report.skip_bench(f"{', '.join(missing)}: not on this machine")
    with tempfile.TemporaryDirectory(prefix="rookery-pdf") as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        built = measure(folder, BUILT_SEEDS, 3 if options.built else 0)
        if options.built:
            print(json.dumps(built, indent=1))
            return
        aside = measure(folder, ASIDE_SEEDS)
    report.write_results("pdf", {"built": built, "aside": aside, "missing": missing})


if __name__ == "__main__":
    main()
