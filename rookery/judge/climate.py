"""Claims about the climate, with sentences of Wikipedia for and against them (Climate-FEVER), as
facts that `judge.facts` makes comparisons from.

It knows nothing of comparisons. A sentence that no claim was shown beside is on no page here.
"""

import lzma
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote as quoted

import msgspec

from rookery.judge.facts import WIKI, Fact, Wiki
from rookery.records import Block, Failed, Failure, Page


class _Evidence(msgspec.Struct):
    evidence_id: str
    evidence_label: str
    article: str
    evidence: str

    @property
    def place(self) -> tuple[str, int]:
        return self.article, int(self.evidence_id.rpartition(":")[2])


class _Claimed(msgspec.Struct):
    claim_id: str
    claim: str
    claim_label: str
    evidences: list[_Evidence]


def read_climate(path: Path) -> tuple[list[Fact], dict[str, Wiki]]:
    """The claims that are supported or refuted, each with the sentences that say so one by one, and
    the pages that these and the other sentences shown are from; `.xz` is unpacked.

    Raises Failed: not_found, bad_line.
    """
    claimed = _lines(path)
    facts = []
    for each in claimed:
        evidence = tuple((e.place,) for e in each.evidences if e.evidence_label == each.claim_label)
        if each.claim_label in ("SUPPORTS", "REFUTES") and evidence:
            text = each.claim.strip().removesuffix(".")
            facts.append(Fact(each.claim_id, text, each.claim_label == "SUPPORTS", evidence))
    shown: dict[str, dict[int, str]] = defaultdict(dict)
    for one in (one for each in claimed for one in each.evidences):
        article, number = one.place
        shown[article][number] = one.evidence.strip()
    return facts, {title: _wiki(title, sentences) for title, sentences in shown.items()}


def _lines(path: Path) -> list[_Claimed]:
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            found = msgspec.json.Decoder(_Claimed).decode_lines(file.read())
        for each in found:
            for one in each.evidences:
                _ = one.place
    except FileNotFoundError as error:
        raise Failed(Failure(str(path), "not_found", "check the path")) from error
    except (msgspec.MsgspecError, ValueError, lzma.LZMAError, EOFError) as error:
        detail = f"it is no file of Climate-FEVER: fetch it again ({error})"
        raise Failed(Failure(str(path), "bad_line", detail)) from error
    return found


def _wiki(title: str, sentences: dict[int, str]) -> Wiki:
    text, places = "", {}
    for number, words in sorted(sentences.items()):
        if words:
            text = f"{text} {words}" if text else words
            places[number] = (len(text) - len(words), len(text))
    blocks = (Block(0, len(text), "paragraph"),) if text else ()
    return Wiki(Page(WIKI + quoted(title.replace(" ", "_")), title, text, blocks), places)
