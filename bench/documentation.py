"""Answers from documentation sites: how often the first quote holds what a question asks for, how
often one of three does, how many answers are wrong, and what is answered although nothing is said.

Reads bench/questions and the sites, which are Debian packages (see bench/questions/README.md), and
the pages about crows that come with Rookery. Prints a table and writes
bench/results/documentation.json. The questions of `build` may be used for choices; those of `test`
are asked once a release, when all is chosen: --test asks them, over five sites and three folders
of documents, and writes test/documentation.json and, with the outcome of every question about the
sites by `extract`, test/documentation.jsonl. All answers with their quotes go to --answers.

A quote is right if it stands on an accepted page and matches a pattern of the question. Answers
are certain ones or possible ones. The floor is the best passage by BM25, which never declines;
"never declining" quotes what the evidence model puts first, whatever its probability. --beside
counts what another version answered to the same questions: lines as those of --answers.

    python -m bench.documentation [--ranker DIR] [--test --answers FILE [--beside NAME=FILE]]
    python -m bench.documentation --draw 20 > docs/answers.md
    python -m bench.documentation --lot 60 --answers FILE > SHEET
    python -m bench.documentation --graded SHEET --answers FILE

SHEET has answers of `extract` to the test by lot, whose `grade` and `helps` a reader fills in.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, partial
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Literal, TypeVar
from urllib.parse import unquote

import msgspec

from bench.report import (
    RESULTS,
    ROOT,
    SCRATCH,
    choose_size,
    print_table,
    read_results,
    skip_bench,
    write_results,
)
from recipes.measures import estimate_auroc
from rookery.answers.evidence_answers import EvidenceSettings, answer_by_evidence
from rookery.answers.retrieval import RetrievalLimits
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudgement,
    EvidencePassage,
    load_evidence_model,
)
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import FUSED_DEPTH
from rookery.measure.intervals import compute_exact_interval
from rookery.records import Answer, Episode, Library, Question
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
    "lilypond-doc-html": (DOCUMENTS / "lilypond/html/Documentation/learning", "*.html"),
    "homebank-data": (DOCUMENTS / "homebank-data" / "help", "*.html"),
    # Files of r-base-core: r-doc-html has links to them, which lead out of its folder.
    "r-doc-html": (Path("/usr/share/R/doc/manual"), "*.html"),
    "cyrus-doc": (DOCUMENTS / "cyrus-doc" / "html", "*.html"),
    "debian-kernel-handbook": (
        DOCUMENTS / "debian-kernel-handbook" / "kernel-handbook.html",
        "*.html",
    ),
    "httrack-doc": (Path("/usr/share/httrack/html"), "*.html"),
    "zoneminder-doc": (DOCUMENTS / "zoneminder-doc" / "html", "*.html"),
    "rrdtool": (DOCUMENTS / "rrdtool" / "html", "*.html"),
    "user-mode-linux-doc": (DOCUMENTS / "user-mode-linux-doc" / "html", "*.html"),
    "openafs-doc": (DOCUMENTS / "openafs-doc" / "html", "*.html"),
}
TEST_SITES = {
    "keepass2-doc": (DOCUMENTS / "keepass2" / "Chm" / "help", "*.html"),
    "bochs-doc": (DOCUMENTS / "bochs", "*.html"),
    "lp-solve-doc": (DOCUMENTS / "lp-solve-doc", "*.htm"),
    "gtkmm-documentation": (DOCUMENTS / "gtkmm-documentation" / "tutorial" / "html", "*.html"),
    "lirc-doc": (DOCUMENTS / "lirc" / "lirc.org", "*.html"),
}
"""folder of each site, and the glob of its English pages"""
BUILD_FOLDERS = {
    name: (QUESTIONS / "folders" / name, "")
    for name in ("association", "company", "research", "hosting", "museum", "family")
}
"""the same for the folders of documents, all files of which are read"""
TEST_FOLDERS = {
    name: (QUESTIONS / "folders" / name, "") for name in ("dentallab", "ferry", "subtitles")
}
"""the same for the test"""
UNANSWERABLE = ("near miss", "foreign")
BINS = 10
"""bins of the calibration error"""
EXTRACT = f"extract, {EvidenceSettings().limits.passages} passages"
"""the method that is the default"""
UNDECLINED = "never declining"

Method = Callable[[Question, Library], Episode]
Sites = Mapping[str, tuple[Path, str]]
T = TypeVar("T")


class SiteQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a site or a folder of documents."""

    id: str
    kind: str
    """fact, how-to, why, comparison, yes/no, several pages; near miss and foreign: nothing
    answers"""
    text: str
    site: str | None = None
    """none for foreign questions, which are asked of every site in turn"""
    accepted: tuple[str, ...] = ()
    """pages that answer, relative to the site's folder"""
    facts: tuple[str, ...] = ()
    """patterns, one of which a right quote matches"""
    wrong: str | tuple[str, ...] | None = None
    """patterns of what another document has replaced or contradicts"""
    note: str | None = None

    def is_right(self, page: str, text: str) -> bool:
        """Return True if a quote of this page, relative to the folder, answers this question."""
        return page in self.accepted and _matches(self.facts, text)

    def is_outdated(self, page: str, text: str) -> bool:
        """Return True if a quote says what is not or no longer true, and nothing that is."""
        wrong = (self.wrong,) if isinstance(self.wrong, str) else self.wrong or ()
        return _matches(wrong, text) and not _matches(self.facts, text)


def _matches(patterns: Sequence[str], text: str) -> bool:
    return any(re.search(each, " ".join(text.split()), re.I) for each in patterns)


class AskedQuestion(msgspec.Struct, frozen=True):
    """Outcome of one question."""

    site: str
    id: str
    answered: bool
    """an answer was given, as a certain one"""
    possible: bool = False
    """an answer was given, as a possible one"""
    score: float = 0.0
    quotes: tuple[tuple[str, str], ...] = ()
    """page, relative to the site's folder, and text of the first three quotes"""
    milliseconds: float = 0.0
    """of the CPU; 0 for the first question of a site, with which its pages are indexed"""
    kind: str = ""
    question: str = ""
    first: bool = False
    """the first quote is right"""
    three: bool = False
    """one of the first three is"""
    outdated: bool = False
    """the first says what is not or no longer true"""
    ending: str = ""
    """of the first accepted page"""
    system: str = ""

    @property
    def is_shown(self) -> bool:
        """Return True if an answer was given."""
        return self.answered or self.possible


def read_site_questions(part: str, sites: Sequence[str]) -> list[SiteQuestion]:
    """Read the questions of a part, "build" or "test", each with its site."""
    files = [QUESTIONS / f"{part}_{name}.jsonl" for name in (*sites, "foreign")]
    found = [each for file in files for each in _read_lines(file, SiteQuestion)]
    return [
        msgspec.structs.replace(each, site=each.site or sites[number % len(sites)])
        for number, each in enumerate(found)
    ]


def read_folder_questions(folders: Sites) -> list[SiteQuestion]:
    """Read the questions about folders of documents, from questions_NAME.jsonl beside each."""
    return [
        msgspec.structs.replace(each, site=name)
        for name, (folder, _) in folders.items()
        for each in _read_lines(folder.parent / f"questions_{name}.jsonl", SiteQuestion)
    ]


def _read_lines(file: Path, kind: type[T]) -> list[T]:
    if not file.exists():
        skip_bench(f"{file} is absent")
    return [msgspec.json.decode(line, type=kind) for line in file.read_bytes().splitlines()]


def answer_by_bm25(question: Question, library: Library) -> Episode:
    """Quote the three best passages by words, as they are."""
    hits = sorted(library.search(question.text, FUSED_DEPTH), key=lambda hit: -hit.score)[:3]
    quotes = tuple(library.fetch(hit.url).quote_whole_words(hit.start, hit.end) for hit in hits)
    score = hits[0].score if hits else 0.0
    return Episode(question, "bm25", answer=Answer("", quotes, declined=not quotes, score=score))


def list_methods(ranker: Path) -> Mapping[str, Method]:
    """Return what is compared, by name."""
    judge = load_evidence_model(ranker).judge_passages
    once = cache(judge)

    def judge_once(question: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        """Judge for the default, and again for UNDECLINED, whose time does not count."""
        return once(question, tuple(passages))

    settings = {
        f"extract, {count} passages": EvidenceSettings(limits=RetrievalLimits(passages=count))
        for count in sorted({12, 24, EvidenceSettings().limits.passages})
    }
    settings[UNDECLINED] = EvidenceSettings(decline=0, certain=1, second_possible=0)
    return {"BM25's best passage": answer_by_bm25} | {
        name: partial(
            answer_by_evidence,
            judge=judge_once if name in (EXTRACT, UNDECLINED) else judge,
            settings=each,
        )
        for name, each in settings.items()
    }


def locate_page(url: str, folder: Path) -> str:
    """Return the path of a page of a folder, relative to it."""
    return unquote(url.partition("#")[0].removeprefix(folder.resolve().as_uri() + "/"))


def judge_answer(question: SiteQuestion, asked: AskedQuestion) -> AskedQuestion:
    """Return an outcome with what its quotes are worth."""
    right = [question.is_right(*quote) for quote in asked.quotes]
    return msgspec.structs.replace(
        asked,
        kind=question.kind,
        question=question.text,
        first=any(right[:1]),
        three=any(right),
        outdated=any(question.is_outdated(*quote) for quote in asked.quotes[:1]),
        ending="".join(Path(each).suffix for each in question.accepted[:1]),
    )


def ask_site(
    questions: Sequence[SiteQuestion], folder: Path, library: Library, method: Method
) -> Iterator[AskedQuestion]:
    """Ask the questions about one site."""
    for number, each in enumerate(questions):
        begun = time.process_time()
        answer = method(Question(each.id, each.text), library).answer or Answer("", declined=True)
        spent = time.process_time() - begun
        shown = () if answer.declined else answer.quotes[:3]
        asked = AskedQuestion(
            each.site or "",
            each.id,
            answered=not answer.declined and answer.stored_certain is not False,
            possible=not answer.declined and answer.stored_certain is False,
            score=answer.score or 0.0,
            quotes=tuple((locate_page(quote.url, folder), quote.text) for quote in shown),
            milliseconds=1000 * spent if number else 0.0,
        )
        yield judge_answer(each, asked)


def ask_sites(
    questions: Sequence[SiteQuestion], sites: Sites, methods: Mapping[str, Method]
) -> dict[str, list[AskedQuestion]]:
    """Ask the questions about each site by every method."""
    asked: dict[str, list[AskedQuestion]] = {name: [] for name in methods}
    for site, (folder, glob) in sites.items():
        here = [each for each in questions if each.site == site][: choose_size(None, 8)]
        archive = PageArchive(SCRATCH / "documentation.sqlite")
        selection = FileSelection(glob=(glob,) if glob else ())
        library = FolderLibrary(folder, archive, SCRATCH / "documentation", selection=selection)
        for name, method in methods.items():
            for each in ask_site(here, folder, library, method):
                asked[name].append(msgspec.structs.replace(each, system=name))
        library.close()
    return asked


def read_answers(name: str, file: Path, questions: Sequence[SiteQuestion]) -> list[AskedQuestion]:
    """Read what another version answered to these questions. Raises KeyError if it lacks one."""
    answers = {(each.site, each.id): each for each in _read_lines(file, AskedQuestion)}
    own = [judge_answer(each, answers[each.site or "", each.id]) for each in questions]
    return [msgspec.structs.replace(each, system=name) for each in own]


def summarize(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    """Return the figures of one method: shares, words, and milliseconds of the CPU."""
    own = [each for each in asked if each.kind not in UNANSWERABLE]
    certain = [each for each in own if each.answered]
    found = dict[str, float]()
    for name, values in (
        ("right first", [each.first for each in own]),
        ("right in three", [each.three for each in own]),
        ("answered", [each.answered for each in own]),
        ("possible", [each.possible for each in own]),
        ("wrong of answered", [not each.first for each in certain]),
    ):
        found[name] = _share(values)
        if values:
            low, high = compute_exact_interval(sum(values), len(values))
            found[f"± {name}"] = (high - low) / 2
    for kind in UNANSWERABLE:
        those = [each for each in asked if each.kind == kind]
        found[f"{kind} answered"] = _share([each.answered for each in those])
        found[f"{kind} possible"] = _share([each.possible for each in those])
    found["AUROC"] = _compute_area(
        [each.score for each in certain if each.first],
        [each.score for each in certain if not each.first],
    )
    # Declined answers have a score too, that of the closest passage.
    found["answerable or near miss, AUROC"] = _compute_area(
        [each.score for each in own], [each.score for each in asked if each.kind == "near miss"]
    )
    found["calibration error"] = _measure_calibration(
        [(each.score, each.first) for each in own if each.is_shown]
    )
    return found | _measure_size(asked)


def summarize_folders(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    """Return the counts of one method in folders of documents."""
    own = [each for each in asked if each.kind not in UNANSWERABLE]
    wrong = [each for each in own if each.is_shown and not each.first]
    others = [each for each in asked if each.kind in UNANSWERABLE]
    return {
        "right first": sum(each.first for each in own),
        "right in three": sum(each.three for each in own),
        "answered": sum(each.answered for each in own),
        "possible": sum(each.possible for each in own),
        "wrong": len(wrong),
        "wrong and certain": sum(each.answered for each in wrong),
        "replaced or contradicted": sum(each.outdated for each in wrong),
        "unanswerable answered": sum(each.answered for each in others),
        "unanswerable possible": sum(each.possible for each in others),
    } | _measure_size(asked)


def _measure_size(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    words = [len(each.quotes[0][1].split()) for each in asked if each.quotes]
    spent = [each.milliseconds for each in asked if each.milliseconds]
    found: dict[str, float] = {"words": round(median(words or [0]))}
    if spent:
        found["CPU ms"] = round(fmean(spent))
    return found


def count_endings(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    """Count the questions that are right first by the ending of the first page that answers."""
    own = [each for each in asked if each.kind not in UNANSWERABLE]
    sizes = Counter(each.ending for each in own)
    right = Counter(each.ending for each in own if each.first)
    return {f"{ending}, of {sizes[ending]}": right[ending] for ending in sorted(sizes)}


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
    given = [each for each in asked if each.is_shown]
    declined = [each for each in asked if not each.is_shown]
    drawn = random.sample(given, min(count, len(given)))
    drawn += random.sample(declined, min(count - len(drawn), len(declined)))
    lines = [
        "# Twenty answers\n",
        f"This page shows {len(drawn)} of Rookery's answers, right and wrong, as chosen by lot. "
        f"`extract` was asked {len(asked)} questions about the bundled pages ({day}) and declined "
        f"{len(declined)}; answered questions come first. `python -m bench.documentation --draw "
        "20` asks again over `rookery:corvids`. Rookery was tuned on these questions, too; "
        "docs/figures.md says how often answers are right about sites that it was not tuned on. A "
        "quote is right if it stands on an accepted page and holds the pattern of the fact. The "
        "pages do not answer questions of the kind near miss.\n",
    ]
    for each in drawn:
        lines.append(f"## {each.question}\n")
        lines.append(f"{each.kind[0].upper()}{each.kind[1:]}. **{_describe_outcome(each)}**\n")
        for number, (page, text) in enumerate(each.quotes, 1):
            quoted = "\n".join(f"    {line}" for line in text.splitlines())
            lines.append(f"{number}. `{page}`\n\n{quoted}\n")
    return "\n".join(lines)


def _describe_outcome(asked: AskedQuestion) -> str:
    if not asked.is_shown:
        right = asked.kind in UNANSWERABLE
        return f"Declined, {'as it should be' if right else 'though it is said there'}."
    score = f"(score {asked.score:.2f}{', a possible answer' if asked.possible else ''})"
    if asked.kind in UNANSWERABLE:
        return f"Wrong {score}: it is not said there."
    return f"{'Right' if asked.first else 'Right in three' if asked.three else 'Wrong'} {score}."


class GradedAnswer(msgspec.Struct, frozen=True):
    """An answer that a reader grades by the guideline of bench/questions/README.md."""

    site: str
    id: str
    question: str
    quotes: tuple[tuple[str, str], ...]
    grade: Literal["", "right", "partly", "wrong"] = ""
    """of the first quote"""
    helps: tuple[bool, ...] = ()
    """whether each further quote does"""


def draw_lot(answers: Sequence[AskedQuestion], count: int) -> list[GradedAnswer]:
    """Draw so many given answers of the default method, without what patterns say of them."""
    given = [each for each in answers if each.system == EXTRACT and each.is_shown]
    drawn = Random("sixty").sample(given, min(count, len(given)))
    return [GradedAnswer(each.site, each.id, each.question, each.quotes) for each in drawn]


def count_grades(
    graded: Sequence[GradedAnswer], answers: Sequence[AskedQuestion]
) -> dict[str, dict[str, int]]:
    """Count the answers of each grade, how many of them are right by pattern, and further quotes.

    Raises ValueError where something is not graded.
    """
    right = {(each.site, each.id): each.first for each in answers if each.system == EXTRACT}
    found = {name: {"answers": 0, "right by pattern": 0} for name in ("right", "partly", "wrong")}
    for each in graded:
        if not each.grade or len(each.helps) != len(each.quotes) - 1:
            raise ValueError(f"{each.id} lacks a grade, or a help for each further quote")
        found[each.grade]["answers"] += 1
        found[each.grade]["right by pattern"] += right[each.site, each.id]
    helps = [value for each in graded for value in each.helps]
    return {**found, "further quotes": {"answers": len(helps), "that help": sum(helps)}}


def measure_test(options: argparse.Namespace, methods: Mapping[str, Method]) -> None:
    """Ask the test questions, and write what came of them."""
    skip_missing(TEST_SITES | TEST_FOLDERS)
    parts = {
        "sites": (read_site_questions("test", [*TEST_SITES]), TEST_SITES),
        "folders": (read_folder_questions(TEST_FOLDERS), TEST_FOLDERS),
    }
    others = {
        part: {name: read_answers(name, Path(file), questions) for name, file in options.beside}
        for part, (questions, _) in parts.items()
    }
    asked = {part: ask_sites(*both, methods) | others[part] for part, both in parts.items()}
    every = [each for part in asked.values() for row in part.values() for each in row]
    options.answers.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in every))
    rows = summarize_all(asked["sites"], summarize)
    folders = summarize_all(asked["folders"], summarize_folders)
    endings = {name: count_endings(outcomes) for name, outcomes in asked["folders"].items()}
    for table in (rows, folders, endings):
        print_table(list(next(iter(table.values()))), table)
    counts, own = (count_questions(questions) for questions, _ in parts.values())
    results = {"part": "test", "counts": counts, "systems": rows}
    results["folders"] = {"counts": own, "systems": folders, "endings": endings}
    write_results("test/documentation", results)
    # Quotes are other people's texts.
    columns = ("site", "id", "kind", "question", "answered", "possible", "first", "three", "score")
    lines = ({name: getattr(each, name) for name in columns} for each in asked["sites"][EXTRACT])
    plain = b"".join(msgspec.json.encode(each) + b"\n" for each in lines)
    (RESULTS / "test" / "documentation.jsonl").write_bytes(plain)


def summarize_all(
    asked: Mapping[str, Sequence[AskedQuestion]],
    summarize_one: Callable[[Sequence[AskedQuestion]], dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Return the figures of every method, by name; of UNDECLINED only what it puts first."""
    rows = {name: summarize_one(outcomes) for name, outcomes in asked.items()}
    undeclined = rows[UNDECLINED].items()
    first = {name: value for name, value in undeclined if "right" in name or name == "words"}
    return rows | {UNDECLINED: first}


def count_questions(questions: Sequence[SiteQuestion]) -> dict[str, int]:
    """Count questions with an answer and without."""
    kinds = Counter(each.kind for each in questions)
    own = len(questions) - kinds["near miss"] - kinds["foreign"]
    return {"questions": own, "near misses": kinds["near miss"], "foreign": kinds["foreign"]}


def skip_missing(sites: Sites) -> None:
    """Skip the benchmark if the folder of a site is not there."""
    if missing := [name for name, (folder, _) in sites.items() if not folder.is_dir()]:
        skip_bench(f"not installed (apt install) or not in bench/questions: {' '.join(missing)}")


def main() -> None:
    """Ask all questions of a part by every method, or draw or count answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ranker", type=Path, default=BUNDLED_MODEL, help="folder of an evidence model"
    )
    parser.add_argument("--test", action="store_true", help="ask the test questions, once")
    parser.add_argument(
        "--answers", type=Path, metavar="FILE", help="all answers to the test, not to be published"
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=FILE",
        type=lambda value: value.split("=", 1),
        help="answers of another version, counted as well",
    )
    parser.add_argument(
        "--draw", type=int, metavar="N", help="print N answers about the bundled pages as Markdown"
    )
    parser.add_argument("--lot", type=int, metavar="N", help="print N of --answers to be graded")
    parser.add_argument("--graded", type=Path, metavar="SHEET", help="count the grades")
    options = parser.parse_args()
    if (options.test or options.lot or options.graded) and not options.answers:
        parser.error("--answers FILE is needed, outside the repository")
    if options.lot or options.graded:
        answers = _read_lines(options.answers, AskedQuestion)
        if options.lot:
            print(
                *(msgspec.json.encode(each).decode() for each in draw_lot(answers, options.lot)),
                sep="\n",
            )
            return
        graded = count_grades(_read_lines(options.graded, GradedAnswer), answers)
        print_table(["answers", "right by pattern", "that help"], graded)
        found = read_results("test/documentation") or {}
        write_results("test/documentation", found | {"graded": graded})
        return
    methods = list_methods(options.ranker)
    if options.test:
        measure_test(options, methods)
        return
    sites = choose_size(BUILD_SITES, {"corvids": BUILD_SITES["corvids"]})
    if options.draw:
        sites, methods = {"corvids": BUILD_SITES["corvids"]}, {EXTRACT: methods[EXTRACT]}
    skip_missing(sites)
    questions = read_site_questions("build", [*sites])
    if options.draw:
        own = [each for each in questions if each.kind != "foreign"]
        [answers] = ask_sites(own, sites, methods).values()
        print(render_answers(answers, options.draw, date.today().isoformat()))
        return
    rows = summarize_all(ask_sites(questions, sites, methods), summarize)
    print_table(list(next(iter(rows.values()))), rows)
    results = {"part": "build", "counts": count_questions(questions), "systems": rows}
    write_results("documentation", results)


if __name__ == "__main__":
    main()
