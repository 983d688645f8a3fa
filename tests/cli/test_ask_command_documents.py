"""Files of fifteen kinds, written by pandoc, LibreOffice, groff and Python at test time, are asked
about through `rookery ask --in`: each answer quotes the sentence of its file."""

import gzip
import json
import mailbox
import shutil
import subprocess
import zipfile
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import Run

from rookery.answers.answer_results import AskResult

PROGRAMS = ("pandoc", "soffice", "gropdf", "mandoc", "tesseract")
PLACES = (
    "Alder Fen", "Brook Farm", "Cold Quay", "Dunmore", "Elm Reach", "Fallow Hill", "Gorse Head",
    "Hazel Mere", "Iron Weir", "Juniper Bank", "Kettle Moor", "Long Spit", "Marl Pit",
    "Nettle Isle", "Oxbow", "Pear Tree Lock", "Quarry Side", "Rush Pool", "Salt Marsh",
    "Thorn Ridge", "Upper Dale", "Vetch Field", "Willow Carr", "Yarrow Down", "Ash Holm",
    "Birch Heath", "Chalk Cliff", "Dry Beck", "East Sands", "Foxglove Lane", "Grey Crag",
    "Holly Bush", "Inner Sound", "Jetty Point", "King's Wood", "Larch Knoll", "Mill Tarn",
    "North Bight", "Otter Ford", "Peat Bog", "Reed Hythe", "Stone Row", "Tide Gate",
    "Violet Glen", "Wren Copse", "Lower Stell", "Beacon Fell", "Plum Yard", "Seven Springs",
)  # fmt: skip
BIRDS = ("lapwings", "herons", "dunlins", "curlews", "wigeons", "siskins", "fieldfares")

DRAFT = """
# Weather

The spring was wet and the summer long, as the older people had foretold.

# Counting

It blew hard from the west. {} Nobody went out afterwards.

- Boats were taken in.
- Lamps were lit.
"""


class Asked(NamedTuple):
    """A question about one file, and what its answer must quote."""

    file: str
    question: str
    sentence: str


class Writer:
    """Writes files with one fact each into `folder`, and keeps the question about each."""

    def __init__(self, folder: Path, drafts: Path) -> None:
        self.folder = folder
        self.drafts = drafts
        self.asked: list[Asked] = []
        self.numbers = count()

    def take_fact(self, file: str, row: bool = False) -> tuple[str, str, int, str]:
        """Return a place, a bird, a number and a sentence that no other file has."""
        number = next(self.numbers)
        place, bird, birds = PLACES[number], BIRDS[number % len(BIRDS)], 203 + 17 * number
        sentence = f"The warden of {place} counted {birds} {bird} on the evening before the storm."
        question = f"How many {bird} did the warden of {place} count?"
        self.asked.append(Asked(file, question, f"{birds}" if row else sentence))
        return place, bird, birds, sentence

    def write_draft(self, file: str) -> Path:
        """Write the Markdown from which another program makes `file`."""
        place, _, _, sentence = self.take_fact(file)
        draft = self.drafts / f"{Path(file).stem}.md"
        draft.write_text(
            f"---\ntitle: The year at {place}\n---\n\n{DRAFT.format(sentence)}", "utf-8"
        )
        return draft

    def convert(self, file: str, to: str) -> None:
        """Make `file` by pandoc, in the format `to`."""
        draft = self.write_draft(file)
        command = ["pandoc", "--standalone", str(draft), "-t", to, "-o", str(self.folder / file)]
        subprocess.run(command, check=True)

    def convert_by_office(self, kind: str, sources: list[Path]) -> None:
        """Make files of a kind by LibreOffice."""
        profile = f"-env:UserInstallation={(self.drafts / 'profile').as_uri()}"
        command = ["soffice", profile, "--headless", "--convert-to", kind, "--outdir"]
        subprocess.run([*command, self.folder, *sources], check=True, capture_output=True)

    def write_table(self, file: str) -> Path:
        place, bird, birds, _ = self.take_fact(file, row=True)
        draft = self.drafts / f"{Path(file).stem}.csv"
        names, other = "place,bird counted by the warden,number,day", "Nowhere,geese,12,2024-02-01"
        draft.write_text(f"{names}\n{other}\n{place},{bird},{birds},2024-02-11\n")
        return draft

    def write_mail(self, file: str) -> EmailMessage:
        place, _, _, sentence = self.take_fact(file)
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "a@b.example", "c@d.example", f"News of {place}"
        mail["Date"] = "Mon, 05 May 2025 09:12:00 +0200"
        half = len(sentence) // 2
        cut = sentence.index(" ", half)
        mail.set_content(f"Dear all,\n\n{sentence[:cut]}\n{sentence[cut + 1 :]}\n\n> Is it so?\n")
        return mail


def write_feeds(writer: Writer) -> None:
    _, _, _, sentence = writer.take_fact("news.rss")
    (writer.folder / "news.rss").write_text(
        "<rss version='2.0'><channel><title>News</title><item><title>Storm</title>"
        f"<link>https://a.example/1</link><description>&lt;p&gt;{sentence}&lt;/p&gt;</description>"
        "</item></channel></rss>"
    )
    _, _, _, sentence = writer.take_fact("news.atom")
    (writer.folder / "news.atom").write_text(
        "<feed xmlns='http://www.w3.org/2005/Atom'><title>News</title><entry><title>Storm</title>"
        f"<link href='https://a.example/2'/><content>{sentence}</content></entry></feed>"
    )


def write_scans(writer: Writer) -> None:
    """Print pages by groff, draw them, and keep the drawing only."""
    pdfium = pytest.importorskip("pypdfium2")
    pytest.importorskip("PIL")
    for file in ("scan.png", "scan.pdf", "scan.tif"):
        _, _, _, sentence = writer.take_fact(file)
        page = f".PP\nThe weather was bad that week.\n{sentence}\nNobody went out afterwards.\n"
        printed = subprocess.run(
            ["groff", "-ms", "-Tpdf"],
            input=page.encode(), check=True, capture_output=True,
        ).stdout  # fmt: skip
        image = pdfium.PdfDocument(printed)[0].render(scale=200 / 72, grayscale=True).to_pil()
        image.save(writer.folder / file)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (tmp_path / "documents").mkdir()
    (tmp_path / "drafts").mkdir()
    return Writer(tmp_path / "documents", tmp_path / "drafts")


def write_texts(writer: Writer) -> None:
    """Write all kinds but spreadsheets."""
    for kind, to in (
        ("epub", "epub3"), ("epub", "epub2"), ("odt", "odt"), ("docx", "docx"), ("pptx", "pptx"),
        ("ipynb", "ipynb"), ("1", "man"), ("epub", "epub3"), ("odt", "odt"), ("docx", "docx"),
        ("pptx", "pptx"), ("ipynb", "ipynb"), ("1", "man"), ("epub", "epub2"), ("odt", "odt"),
        ("docx", "docx"), ("pptx", "pptx"), ("ipynb", "ipynb"),
    ):  # fmt: skip
        writer.convert(f"pandoc{len(writer.asked)}.{kind}", to)
    for kind, by in (("docx", "odt"), ("odt", "docx"), ("epub", "odt"), ("odp", "pptx")):
        sources = []
        for number in range(3):
            source = writer.drafts / f"office-{kind}{number}.{by}"
            draft = writer.write_draft(f"office-{kind}{number}.{kind}")
            subprocess.run(["pandoc", draft, "-s", "-o", source], check=True)
            sources.append(source)
        writer.convert_by_office(kind, sources)
    draft = writer.write_draft("packed.1.gz")
    manual = subprocess.run(["pandoc", "-s", "-t", "man", draft], check=True, capture_output=True)
    (writer.folder / "packed.1.gz").write_bytes(gzip.compress(manual.stdout))
    for file in ("one.eml", "two.eml"):
        (writer.folder / file).write_bytes(bytes(writer.write_mail(file)))
    box = mailbox.mbox(writer.folder / "list.mbox")
    for _ in range(3):
        box.add(mailbox.mboxMessage(writer.write_mail("list.mbox")))
    box.close()
    write_feeds(writer)
    write_scans(writer)


def find_wrong(run: Run, writer: Writer, tmp_path: Path) -> list[tuple[Asked, list[str]]]:
    """Ask about every file, and return what is not answered by a quote of its sentence."""
    questions, out = tmp_path / "asked.jsonl", tmp_path / "out.jsonl"
    numbered = enumerate(writer.asked)
    lines = (json.dumps({"id": str(number), "text": one.question}) for number, one in numbered)
    questions.write_text("\n".join(lines))
    # The pattern for everything asks for the text of pictures too.
    code, _, err = run(
        "ask", "--batch", questions, "--out", out, "--in", writer.folder, "--glob", "*"
    )
    assert code == 0, err
    assert run("cite", "verify", out).code == 0
    answers = [AskResult.from_json(line) for line in out.read_bytes().splitlines()]
    return [
        (one, [quote.text for quote in answered.answer.quotes] if answered.answer else [])
        for one, answered in zip(writer.asked, answers, strict=True)
        if not answered.answer
        or not any(
            one.sentence in quote.text and quote.url.endswith(f"/{one.file}")
            for quote in answered.answer.quotes
        )
    ]


@pytest.mark.slow
@pytest.mark.program
def test_documents_are_quoted(run: Run, writer: Writer, tmp_path: Path) -> None:
    write_texts(writer)
    assert find_wrong(run, writer, tmp_path) == []
    assert len({one.file for one in writer.asked}) >= 38


@pytest.mark.slow
@pytest.mark.program
def test_spreadsheets_are_quoted(run: Run, writer: Writer, tmp_path: Path) -> None:
    for kind in ("xlsx", "ods"):
        tables = [writer.write_table(f"table-{kind}{number}.{kind}") for number in range(4)]
        writer.convert_by_office(kind, tables)
    assert find_wrong(run, writer, tmp_path) == []


@pytest.mark.slow
def test_a_formula_without_a_value_is_said_with_the_answer(run: Run, tmp_path: Path) -> None:
    names = "office", "table", "text"
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(f'xmlns:{name}="{oasis}:{name}:1.0"' for name in names)
    rows = "".join(
        f"<table:table-row><table:table-cell><text:p>{name}</text:p></table:table-cell>"
        f"<table:table-cell {value}</table:table-cell></table:table-row>"
        for name, value in [
            ("Item", "><text:p>Amount</text:p>"),
            ("Flour", "><text:p>120</text:p>"),
            ("Total", 'table:formula="of:=SUM([.B2:.B4])">'),
        ]
    )
    content = (
        f"<office:document-content {spaces}><office:body><office:spreadsheet>"
        f'<table:table table:name="Costs">{rows}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    (tmp_path / "costs").mkdir()
    with zipfile.ZipFile(tmp_path / "costs" / "costs.ods", "w") as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr("content.xml", content)
    asking = ("--in", tmp_path / "costs")
    code, out, err = run("ask", "What is the total amount?", *asking)
    assert (code, "=SUM([.B2:.B4]) [no stored value]" in out) == (0, True), err
    assert "\nNote: the file has no value for this formula: save it in a spreadsheet" in out
    out = run("ask", "What is the amount of flour?", *asking).out
    assert ("120" in out, "Note:" in out) == (True, False)
