"""Answers from documentation sites: how often the first quote holds what a question asks for, how
often one of three does, how many answers are wrong, and what is answered although nothing is said.

Reads bench/questions and the sites, which are Debian packages (see bench/questions/README.md), and
the pages about crows that come with Rookery. Prints a table and writes
bench/results/documentation.json. The questions of `build` may be used for choices; those of `test`
are asked once a release, when all is chosen: --test asks them, and writes test/documentation.json
and, with the outcome of every question by `extract`, test/documentation.jsonl.

A quote is right if it stands on an accepted page and matches a pattern of the question. The
floor is the best paragraph by BM25, which never declines.

    python -m bench.documentation [--ranker DIR] [--test]
    python -m bench.documentation --draw 20 > docs/answers.md
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bench.report import RESULTS, ROOT, SCRATCH, choose_size, print_table, skip_bench, write_results
from recipes.measures import estimate_auroc
from rookery.answers.evidence_answers import answer_by_evidence
from rookery.answers.extract import answer_by_extraction
from rookery.evidence.evidence_model import BUNDLED_MODEL, is_evidence_model, load_evidence_model
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import FUSED_DEPTH
from rookery.measure.intervals import estimate_share
from rookery.records import Answer, Episode, Library, Question, Quote
from rookery.settings import FileSelection

QUESTIONS = ROOT / "bench" / "questions"
DOCUMENTS = Path("/usr/share/doc")
BUILD_SITES = {
    "corvids": (get_bundled_folder(), "*.*htm*"),
    "debian-history": (DOCUMENTS / "debian-history" / "docs", "*.en.html"),
    "git-doc": (DOCUMENTS / "git-doc", "*.html"),
    "postgresql-doc-15": (DOCUMENTS / "postgresql-doc-15" / "html", "*.html"),
    "apache2-doc": (DOCUMENTS / "apache2-doc" / "manual" / "en", "*.html"),
    "debian-policy": (DOCUMENTS / "debian-policy", "*.html"),
    "python-django-doc": (DOCUMENTS / "python-django-doc" / "html", "*.html"),
    "gimp-help-en": (Path("/usr/share/gimp/2.0/help/en"), "*.html"),
    "installation-guide-amd64": (DOCUMENTS / "installation-guide-amd64" / "en", "*.html"),
    "gnucash-docs": (DOCUMENTS / "gnucash-docs" / "gnucash-guide-en", "*.html"),
    "borgbackup-doc": (DOCUMENTS / "borgbackup" / "html", "*.html"),
    "anarchism": (DOCUMENTS / "anarchism" / "html", "*.html"),
    "exim4-doc-html": (DOCUMENTS / "exim4-doc-html" / "spec_html", "*.html"),
    "hugin-data": (Path("/usr/share/hugin/xrc/data/help_en_EN"), "*.html"),
    "tuxpaint-data": (DOCUMENTS / "tuxpaint-data" / "en", "*.html"),
    "solfege-doc": (DOCUMENTS / "solfege" / "help" / "C", "*.html"),
    "wireshark-doc": (DOCUMENTS / "wireshark" / "wsug_html_chunked", "*.html"),
    "maxima-doc": (DOCUMENTS / "maxima-doc" / "html", "maxima_[0-9]*.html"),
    "varnish-doc": (DOCUMENTS / "varnish" / "html", "*.html"),
}
TEST_SITES = {
    "lilypond-doc-html": (DOCUMENTS / "lilypond/html/Documentation/learning", "*.html"),
    "homebank-data": (DOCUMENTS / "homebank-data" / "help", "*.html"),
    "r-doc-html": (DOCUMENTS / "r-doc-html" / "manual", "*.html"),
    "cyrus-doc": (DOCUMENTS / "cyrus-doc" / "html", "*.html"),
    "debian-kernel-handbook": (
        DOCUMENTS / "debian-kernel-handbook" / "kernel-handbook.html",
        "*.html",
    ),
}
"""folder of each site, and the glob of its English pages"""
UNANSWERABLE = ("near miss", "foreign")
BINS = 10
"""bins of the calibration error"""

Method = Callable[[Question, Library], Episode]


class SiteQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a site."""

    id: str
    kind: str
    """fact, how-to, why, comparison, yes/no, several pages; near miss and foreign: nothing
    answers"""
    text: str
    site: str = ""
    """empty for foreign questions, which are asked of every site in turn"""
    accepted: tuple[str, ...] = ()
    """pages that answer, relative to the site's folder"""
    facts: tuple[str, ...] = ()
    """patterns, one of which a right quote matches"""

    def is_right(self, quote: Quote, folder: Path) -> bool:
        """Return True if a quote answers this question."""
        pages = {(folder.resolve() / name).as_uri() for name in self.accepted}
        text = " ".join(quote.text.split())
        return quote.url in pages and any(re.search(each, text, re.I) for each in self.facts)


class AskedQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """Outcome of one question."""

    site: str
    id: str
    kind: str
    question: str
    answered: bool
    first: bool
    """the first quote is right"""
    three: bool
    """one of the first three is"""
    score: float
    quotes: tuple[tuple[str, str], ...] = ()
    """page, relative to the site's folder, and text of the first three quotes"""


def read_site_questions(part: str, sites: Sequence[str]) -> list[SiteQuestion]:
    """Read the questions of a part, "build" or "test", each with its site."""
    found = [
        msgspec.json.decode(line, type=SiteQuestion)
        for name in (*sites, "foreign")
        for line in (QUESTIONS / f"{part}_{name}.jsonl").read_bytes().splitlines()
    ]
    return [
        msgspec.structs.replace(each, site=each.site or sites[number % len(sites)])
        for number, each in enumerate(found)
    ]


def answer_by_bm25(question: Question, library: Library) -> Episode:
    """Quote the three best passages by words, as they are."""
    hits = sorted(library.search(question.text, FUSED_DEPTH), key=lambda hit: -hit.score)[:3]
    quotes = tuple(library.fetch(hit.url).quote_whole_words(hit.start, hit.end) for hit in hits)
    score = hits[0].score if hits else 0.0
    return Episode(question, "bm25", answer=Answer("", quotes, declined=not quotes, score=score))


def ask_site(
    questions: Sequence[SiteQuestion], folder: Path, library: Library, method: Method
) -> Iterator[AskedQuestion]:
    """Ask the questions about one site."""
    for each in questions:
        answer = method(Question(each.id, each.text), library).answer
        answered = answer is not None and not answer.declined
        quotes = answer.quotes[:3] if answer and answered else ()
        right = [each.is_right(quote, folder) for quote in quotes]
        score = (answer.score or 0.0) if answer else 0.0
        start = folder.resolve().as_uri() + "/"
        shown = tuple((quote.url.removeprefix(start), quote.text) for quote in quotes)
        yield AskedQuestion(
            each.site,
            each.id,
            each.kind,
            each.text,
            answered,
            any(right[:1]),
            any(right),
            score,
            shown,
        )


def ask_sites(
    questions: Sequence[SiteQuestion],
    sites: Mapping[str, tuple[Path, str]],
    methods: Mapping[str, Method],
) -> dict[str, list[AskedQuestion]]:
    """Ask the questions about each site by every method."""
    asked: dict[str, list[AskedQuestion]] = {name: [] for name in methods}
    for site, (folder, glob) in sites.items():
        here = [each for each in questions if each.site == site][: choose_size(None, 8)]
        archive = PageArchive(SCRATCH / "documentation.sqlite")
        selection = FileSelection(glob=(glob,))
        library = FolderLibrary(folder, archive, SCRATCH / "documentation", selection=selection)
        for name, method in methods.items():
            asked[name] += ask_site(here, folder, library, method)
        library.close()
    return asked


def summarize(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    """Return the figures of one method."""
    own = [each for each in asked if each.kind not in UNANSWERABLE]
    given = [each for each in own if each.answered]
    found = {}
    for name, values in (
        ("right first", [each.first for each in own]),
        ("right in three", [each.three for each in own]),
        ("answered", [each.answered for each in own]),
        ("wrong of answered", [not each.first for each in given]),
    ):
        found[name] = _share(values)
        if values:
            share = estimate_share(sum(values), len(values))
            found[f"± {name}"] = (share.high - share.low) / 2
    for kind in UNANSWERABLE:
        found[f"{kind} answered"] = _share([e.answered for e in asked if e.kind == kind])
    found["AUROC"] = _compute_area(
        [each.score for each in given if each.first],
        [each.score for each in given if not each.first],
    )
    # Declined answers have a score too, that of the closest passage.
    found["answerable or near miss, AUROC"] = _compute_area(
        [each.score for each in own], [each.score for each in asked if each.kind == "near miss"]
    )
    found["calibration error"] = _measure_calibration([(e.score, e.first) for e in given])
    return found


def _compute_area(good: Sequence[float], bad: Sequence[float]) -> float:
    return estimate_auroc(good, bad).value if good and bad else 0.0


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(len(values), 1)


def _measure_calibration(pairs: Sequence[tuple[float, bool]]) -> float:
    """Mean distance of score and share of right answers, over bins of equal width."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, right in pairs:
        bins.setdefault(min(int(score * BINS), BINS - 1), []).append((score, right))
    apart = [abs(sum(score - right for score, right in each)) for each in bins.values()]
    return sum(apart) / max(len(pairs), 1)


def render_answers(asked: Sequence[AskedQuestion], count: int, day: str) -> str:
    """Render so many questions with their answers as a Markdown page, declined ones last."""
    random = Random("twenty")
    given = [each for each in asked if each.answered]
    declined = [each for each in asked if not each.answered]
    drawn = random.sample(given, min(count, len(given)))
    drawn += random.sample(declined, min(count - len(drawn), len(declined)))
    lines = [
        "# Twenty answers\n",
        f"`extract` was asked {len(asked)} questions about the bundled pages ({day}), of which it "
        f"declined {len(declined)}. These are {len(drawn)} by lot, right and wrong ones, those "
        "answered first: `python -m bench.documentation --draw 20` asks again over "
        "`rookery:corvids`; choices were made by these questions, too, and docs/figures.md has how "
        "often answers about sites are right that nothing was chosen on. A quote is right if it "
        "stands on an accepted page and holds the pattern of the fact; near misses have no answer "
        "there.\n",
    ]
    for each in drawn:
        lines.append(f"## {each.question}\n")
        lines.append(f"{each.kind[0].upper()}{each.kind[1:]}. **{_describe_outcome(each)}**\n")
        for number, (page, text) in enumerate(each.quotes, 1):
            quoted = "\n".join(f"    {line}" for line in text.splitlines())
            lines.append(f"{number}. `{page}`\n\n{quoted}\n")
    return "\n".join(lines)


def _describe_outcome(asked: AskedQuestion) -> str:
    if not asked.answered:
        right = asked.kind in UNANSWERABLE
        return f"Declined, {'as it should be' if right else 'though it is said there'}."
    if asked.kind in UNANSWERABLE:
        return f"Wrong: answered (score {asked.score:.2f}), though it is not said there."
    if asked.first:
        return f"Right (score {asked.score:.2f})."
    return f"{'Right in three' if asked.three else 'Wrong'} (score {asked.score:.2f})."


def main() -> None:
    """Ask all questions of a part by every method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ranker", type=Path, default=BUNDLED_MODEL, help="folder of an evidence model"
    )
    parser.add_argument("--test", action="store_true", help="ask the test questions, once")
    parser.add_argument(
        "--draw", type=int, metavar="N", help="print N answers about the bundled pages as Markdown"
    )
    options = parser.parse_args()
    methods: dict[str, Method] = {"BM25, best paragraphs": answer_by_bm25}
    methods["extract, by words"] = answer_by_extraction
    if is_evidence_model(options.ranker):
        judge = load_evidence_model(options.ranker).judge_passages
        methods["extract, by the evidence model"] = lambda question, library: answer_by_evidence(
            question, library, judge
        )
    if options.draw:
        *_, last = methods.items()
        bundled = {"corvids": BUILD_SITES["corvids"]}
        own = [each for each in read_site_questions("build", [*bundled]) if each.kind != "foreign"]
        [answers] = ask_sites(own, bundled, dict([last])).values()
        print(render_answers(answers, options.draw, date.today().isoformat()))
        return
    part, every = ("test", TEST_SITES) if options.test else ("build", BUILD_SITES)
    sites = choose_size(every, {"corvids": BUILD_SITES["corvids"]})
    if missing := [name for name, (folder, _) in sites.items() if not folder.is_dir()]:
        skip_bench(f"not installed: apt install {' '.join(missing)}")
    questions = read_site_questions(part, [*sites])
    asked = ask_sites(questions, sites, methods)
    rows: dict[str, Any] = {name: summarize(outcomes) for name, outcomes in asked.items()}
    counts = {
        "questions": sum(each.kind not in UNANSWERABLE for each in questions),
        "near misses": sum(each.kind == "near miss" for each in questions),
        "foreign": sum(each.kind == "foreign" for each in questions),
    }
    print_table(list(next(iter(rows.values()))), rows)
    name = "test/documentation" if options.test else "documentation"
    write_results(name, {"part": part, "counts": counts, "systems": rows})
    if options.test:
        # Quotes are other people's texts.
        plain = (msgspec.structs.replace(each, quotes=()) for each in [*asked.values()][-1])
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in plain)
        (RESULTS / f"{name}.jsonl").write_bytes(lines)


if __name__ == "__main__":
    main()
