"""docs/figures.md: every figure with its target, from bench/results. Nothing is measured here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.report import ROOT, read_results

PAGE = ROOT / "docs" / "figures.md"
HEAD = """# Figures

Every number here was computed by a script of `bench/` (`make bench` runs them all) and written by
`python -m bench`; this page is not edited by hand. Times are of a shared machine and move by a
third from run to run; peers ran in the same process, in turn.
"""
HELD_OUT = "1"
"""Seed whose questions no weight was chosen on."""

Found = Mapping[str, Any]
TargetRow = tuple[str, str, str, bool]
"""Figure, target, observed value, and whether it is reached."""


def write_page() -> None:
    """Write the page from the results that exist."""
    parts = [HEAD]
    for name, title, section in SECTIONS:
        found = read_results(name)
        parts.append(f"## {title}\n")
        parts.append("\n".join(section(found)) if found else "Not measured here yet.")
        parts.append(_format_run(found) if found else f"\n`python -m bench {name}`\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _format_run(found: Found) -> str:
    """Format when, on what and by which command it was measured; empty if a benchmark ran without
    `python -m bench`."""
    run = found.get("run", {})
    return f"\n{' · '.join(run.values())}\n" if run else ""


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def format_targets(rows: Iterable[TargetRow]) -> Iterator[str]:
    """Yield the table of targets."""
    told = ((name, target, seen, "yes" if good else "**no**") for name, target, seen, good in rows)
    yield from format_table(("figure", "target", "seen", "reached"), told)


def make_minimum_row(name: str, target: float, seen: float, form: str = ".3f") -> TargetRow:
    """Make a row for a figure that should reach `target` or more."""
    return name, f"≥ {target:g}", f"{seen:{form}}", seen >= target


def make_maximum_row(
    name: str, target: float, seen: float, unit: str, form: str = ".2f"
) -> TargetRow:
    """Make a row for a figure that should stay at or below `target`."""
    return name, f"≤ {target:g} {unit}", f"{seen:{form}} {unit}", seen <= target


def _format_value(value: float, form: str) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:{form}}"


def format_systems(
    rows: Mapping[str, Mapping[str, float | None]], form: str = ".3f"
) -> Iterator[str]:
    """Yield a table with one row a system and one column a figure."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    heads = ("", *(column.replace("_", " ") for column in columns))
    yield from format_table(
        heads,
        (
            (name, *("" if (x := row.get(c)) is None else _format_value(x, form) for c in columns))
            for name, row in rows.items()
        ),
    )


def render_pages(found: Found) -> Iterator[str]:
    """Yield the section on page simplification."""
    own = found["systems"]["rookery"]
    peer = found["systems"]["readability-lxml + html2text"]
    junk = found["hostile_seconds"]
    yield f"{found['pages']} real pages, CPU time of one thread.\n"
    yield from format_targets(
        [
            make_maximum_row(
                "median time, readability-lxml's being 1",
                0.2,
                own["median_ms"] / peer["median_ms"],
                "",
            ),
            make_minimum_row("token F1 of the text", 0.98, own["token_f1"]),
            make_minimum_row("recall of links", 0.93, own["link_recall"]),
            make_minimum_row("precision of links", 0.93, own["link_precision"]),
            make_maximum_row("3 MB of junk", 1.0, junk["3 MB of <"], "s"),
        ]
    )
    yield from format_systems(found["systems"], ".4g")
    yield from format_table(("hostile page", "seconds"), ((n, f"{s:.2f}") for n, s in junk.items()))
    for name, measured in found.get("benchmarks", {}).items():
        yield f"{name}, {measured['pages']} pages, {measured['date']}:\n"
        yield from format_systems(measured["systems"], ".4g")


def render_reading(found: Found) -> Iterator[str]:
    """Yield the section on reading in reader processes."""
    cost, limits = found["cost"], found["limits"]
    results = [*found["hostile"].values(), *found["mutated"].values()]
    slowest = max(row["seconds"] for row in found["hostile"].values())
    most = max(row["megabytes"] for row in results)
    mutated = found["mutated"].values()
    fewest = min(row["files"] for row in mutated)
    crashed, overrun = (sum(len(row[name]) for row in mutated) for name in ("crashes", "overruns"))
    yield (
        f"{found['pages']} real pages read in this process and by a reader process, in turn; "
        f"{cost['opened']:,} pages one by one here, and by reader processes for four threads. "
        f"Hostile and mutated files have {limits['seconds']:g} s and {limits['megabytes']:,} MB "
        f"each. The mutated ones were read on {found['mutated_date']}; their time is CPU time.\n"
    )
    yield from format_targets(
        [
            make_maximum_row("CPU time of a page, read here being 1", 1.2, cost["ratio CPU"], ""),
            make_maximum_row(
                f"{cost['opened']:,} pages opened, read here being 1",
                1.0,
                cost["opened by processes s"] / cost["opened here s"],
                "",
            ),
            make_maximum_row("longest time of a hostile file", limits["seconds"] + 2, slowest, "s"),
            make_maximum_row("most memory of a reader", limits["megabytes"], most, "MB", ".0f"),
            make_minimum_row("mutated files of each kind", 10_000, fewest, ",.0f"),
            make_maximum_row("of all mutated files, crashed", 0, crashed, "", ",.0f"),
            make_maximum_row("or over their limits", 0, overrun, "", ",.0f"),
        ]
    )
    yield from format_table(
        ("hostile file", "bytes", "outcome", "seconds", "MB"),
        (
            (
                name,
                f"{row['bytes']:,}",
                row["outcome"],
                f"{row['seconds']:.2f}",
                f"{row['megabytes']:.0f}",
            )
            for name, row in found["hostile"].items()
        ),
    )
    yield from format_table(
        ("mutated", "files", "outcomes", "slowest CPU s", "MB"),
        (
            (
                kind,
                f"{row['files']:,}",
                ", ".join(f"{outcome} {count:,}" for outcome, count in row["outcomes"].items()),
                f"{row['slowest_s']:.2f}",
                f"{row['megabytes']:.0f}",
            )
            for kind, row in found["mutated"].items()
        ),
    )


def render_environment(found: Found) -> Iterator[str]:
    """Yield the section on the environment server."""
    speeds, compared = found["speeds"], found["compared"]
    episodes = max(int(row["episodes"]) for row in compared.values())
    differing = sum(
        int(row["prompts differing"] + row["rewards differing"]) for row in compared.values()
    )
    yield (
        f"{episodes:,} scripted episodes over the squad folder ({speeds['steps']:,} steps with "
        f"searches, clicks, quotes and answers, {found['right']:,.0f} of them right) through "
        "`rookery serve env` and the adapter for TRL, each prompt and reward compared with our own "
        f"rollouts. The server has two processes and {found['sessions']} sessions; its steps a "
        "second are those of its processes' CPU time, if two cores did nothing else. The clients "
        "took their share of the same cores, and so did whatever else ran there.\n"
    )
    yield from format_targets(
        [
            make_minimum_row(
                "steps a second that two cores serve",
                found["target_steps_per_second"],
                speeds["served_on_two_cores"],
                ",.0f",
            ),
            make_maximum_row("prompts and rewards that differ", 0, differing, "", "d"),
        ]
    )
    ratio = speeds["served_us"] / speeds["in_process_us"]
    yield (
        f"A served step takes {speeds['served_us']:,.0f} µs of CPU time, {ratio:.1f} times one in "
        f"the same process ({speeds['in_process_us']:,.0f} µs). By the clock there were "
        f"{speeds['seen_beside_the_clients']:,.0f} steps a second.\n"
    )
    yield from format_systems(compared, ".0f")


def render_hidden(found: Found) -> Iterator[str]:
    """Yield the section on text that pages hide."""
    made, real = found["made"], found["real"]
    yield (
        f"{found['made_pages']} made pages of lines that tricks in many writings hide, or like "
        f"writings do not, and {real['pages']:,} real pages, as Chromium shows them without "
        f"scripts and sheets elsewhere: {sum(made.values()):,} lines, {real['shown']:,} words.\n"
    )
    rows = [
        (f"{what} of {name} pages that is {kind}", most, 100 * counts.get(kind, 0) / max(1, total))
        for name, counts in (("made", made), ("real", real))
        for what, kind, most in (("text shown", "lost", 0.1), ("text hidden", "kept", 1.0))
        for total in [counts.get(kind, 0) + counts.get("shown" if kind == "lost" else "hidden", 0)]
    ]
    yield from format_targets(
        make_maximum_row(name, most, share, "%") for name, most, share in rows
    )
    yield "Words of real pages in which the reader goes its own way:\n"
    yield from format_table(
        ("kind", "words", "rule"),
        ((kind, f"{real.get(kind, 0):,}", rule) for kind, rule in found["rules"].items()),
    )


def render_browser(found: Found) -> Iterator[str]:
    """Yield the section on the text browser."""
    rows, growth = found["rows"], list(found["growth"].values())
    yield (
        f"Steps on {found['pages']} real pages (median {found['median_characters']:,} characters) "
        "with the text that a model is given, and on pages made alike in three sizes; "
        "microseconds of each command, CPU time of one thread, after the first find on a page, "
        f"which takes {found['first_find_s_per_mb']:.2f} s for each million characters. "
        f"{found['phrases']} phrases that cross the edge of a link, an emphasis or the like, as "
        f"Readability.js reads the pages; {found['hidden']} more stand in text that a page hides.\n"
    )
    most = max(growth[-1][name] / growth[0][name] for name in growth[0] if name != "steps/s")
    yield from format_targets(
        [
            make_minimum_row(
                "steps a second on ordinary pages",
                found["target_steps_per_second"],
                rows["pages opened before"]["steps/s"],
                ",.0f",
            ),
            make_maximum_row(
                "time of the command that grows most, on a page 100 times as long", 2, most, "x"
            ),
            make_minimum_row("phrases that quoting finds", 1.0, found["found"]["quote"]),
            make_minimum_row("phrases that finding finds", 1.0, found["found"]["find"]),
            make_maximum_row(
                "characters of quotes that differ from the page", 0, found["differing"], "", "d"
            ),
        ]
    )
    yield from format_systems(rows | found["growth"], ".0f")
    yield from format_systems({name: {"found": share} for name, share in found["found"].items()})


def render_sessions(found: Found) -> Iterator[str]:
    """Yield the section on concurrent sessions."""
    rows, target = found["rows"], found["target"]
    yield (
        f"{found['sessions']} scripted sessions at once over real sockets on one machine; each "
        "answer takes 0.4 s in the median and 5 s at most. The slowest session's own waiting is "
        f"{rows['one fetcher for all']['slowest_s']:.1f} s; one after the other, all would wait "
        f"{rows['one fetcher for all']['in_turn_s']:,.0f} s.\n"
    )
    yield from format_targets(
        make_maximum_row(
            f"total time, {name}, the slowest session's waiting being 1", target, r["ratio"], ""
        )
        for name, r in rows.items()
    )
    yield from format_systems(rows, ".4g")


def render_demonstrations(found: Found) -> Iterator[str]:
    """Yield the section on scripted demonstrations."""
    rows = found["rows"]
    yield (
        f"{found['questions']} SQuAD questions, demonstrated by script over the articles as a "
        "folder; means of an episode. Where pages are censored, they are those that share ten "
        "words in a row with the question or an accepted answer.\n"
    )
    correct = rows["not censored"]["correct"]
    yield from format_targets(
        [make_minimum_row("share correct, pages not censored", found["target"], correct)]
    )
    yield from format_systems(rows, ".4g")


def render_desk(found: Found) -> Iterator[str]:
    """Yield the section on the desk's labelling queue."""
    wrong, times = found["wrong"], found["times"]
    ours = [row for name, row in wrong.items() if name.startswith("slots")]
    crowded = [name for name in times if name.startswith("SQLite, ")][-1]
    naive = [row for name, row in wrong.items() if not name.startswith("slots")]
    yield (
        f"{found['runs']} runs on each database: {found['people']} people at once in two tabs each "
        f"fill {found['items']} items wanted of {found['places']} people each, and walk away from "
        "one lease in ten. Beside it the same by looking first and writing then. Times are of one "
        "person after the other, writes to the disk included.\n"
    )
    bad = ("over", "doubled", "unfilled")
    yield from format_targets(
        [
            make_maximum_row(
                "items with too many judgements, people with two, places left",
                0,
                sum(row[name] for row in ours for name in bad),
                "",
                "d",
            ),
            make_minimum_row(
                "the same by looking first, so that the check is known to see it",
                1,
                min(row["over"] + row["doubled"] for row in naive),
                "d",
            ),
            make_maximum_row(
                f"median time to claim of {crowded.removeprefix('SQLite, ')}, SQLite",
                found["target_ms"],
                times[crowded]["claim median_ms"],
                "ms",
            ),
            *(
                make_maximum_row(
                    f"processor time of the server for a judgement over HTTP, median, {database}",
                    found["target_cpu_ms"],
                    spent,
                    "ms",
                    ".1f",
                )
                for database, spent in found["judgement_cpu_ms"].items()
            ),
        ]
    )
    yield from format_systems(wrong, ".0f")
    yield from format_systems(times, ".2f")


def render_killed(found: Found) -> Iterator[str]:
    """Yield the section on killed servers."""
    yield (
        f"A server is killed with `kill -9` {found['kills']} times while demonstrations are made "
        f"in it; it answered {found['actions']:,} actions, and {found['demonstrations finished']} "
        "demonstrations of one script were handed in.\n"
    )
    lost = ("actions lost", "pages that differed afterwards", "demonstrations that differ")
    yield from format_targets(make_maximum_row(name, 0, found[name], "", "d") for name in lost)


def render_installed(found: Found) -> Iterator[str]:
    """Yield the section on the size of the installation."""
    yield (
        f"The wheel in an environment of its own, which takes {found['plain_mib']:.0f} MiB without "
        "the extra; the first page with its styles and scripts, as they travel.\n"
    )
    yield from format_targets(
        make_maximum_row(name, row["most"], row["found"], "", ".1f")
        for name, row in found["rows"].items()
    )


def render_serve(found: Found) -> Iterator[str]:
    """Yield the section on a server under load."""
    targets, quick, wrong = found["targets"], found["quick"], found["wrong"]
    beside, slowly = quick["answers are made"], quick["and slowly read"]
    yield (
        f"A real server in {found['workers']} processes over the squad folder, by the extractive "
        "method and with vectors kept; its readers run on the same cores. "
        f"{wrong['answers']:,} answers, {wrong['declined']:,} of them declined, with "
        f"{wrong['quotes']:,} quotes, each looked for in the archive by the bench itself.\n"
    )
    yield from format_targets(
        [
            make_maximum_row("answers that failed", 0, wrong["errors"], "", "d"),
            make_maximum_row("quotes not verified", 0, wrong["unverified"], "", "d"),
            *(
                make_maximum_row(
                    f"first event of {readers} readers, {FIRST_EVENT_FIGURES[figure]}",
                    target,
                    found["first"][readers][figure],
                    "ms",
                    ".0f",
                )
                for readers, wanted in targets["first_ms"].items()
                for figure, target in wanted.items()
            ),
            make_maximum_row(
                f"a quick request beside {found['streams']} slow streams, "
                "that beside the same work unread being 1",
                targets["slower"],
                slowly["median_ms"] / beside["median_ms"],
                "",
            ),
            make_maximum_row(
                f"answers lost of {found['killed']['acknowledged']} acknowledged, a worker being "
                f"killed {found['killed']['kills']} times",
                0,
                found["killed"]["lost"],
                "",
                "d",
            ),
        ]
    )
    yield "A whole answer, by readers at once:\n"
    yield from format_systems(found["readers"], ".4g")
    yield "A request that asks for little (`GET /v1/models`), beside:\n"
    yield from format_systems(quick, ".3g")


FIRST_EVENT_FIGURES = {"median_ms": "median", "p95_ms": "95th percentile"}


def render_decline(found: Found) -> Iterator[str]:
    """Yield the section on calibrated declining."""
    best, most = found["true_best"], found["trials"][max(found["trials"], key=int)]
    yield (
        f"{found['runs']} simulated calibrations for each model of scores and number of labels: a "
        f"share of {found['wanted']:g} is wanted of what is answered, with confidence "
        f"{found['confidence']:g}. Coverage with the most labels; the best in truth is the lowest "
        "threshold that is good enough, which no labels show.\n"
    )
    near = (f"{len(found['near_true_best'])} of {len(best)} models of scores",)
    yield from format_targets(
        [
            make_maximum_row(
                "promise broken, worst model and size",
                found["target_broken"],
                found["broken_most_often"],
                "",
                ".3f",
            ),
            (
                f"coverage within {found['within']:g} of the best in truth",
                "all",
                *near,
                len(found["near_true_best"]) == len(best),
            ),
        ]
    )
    yield from format_systems(
        {
            model: {
                **{name: each["coverage"] for name, each in procedures.items()},
                "best in truth": best[model],
            }
            for model, procedures in most.items()
        }
    )


def render_injection(found: Found) -> Iterator[str]:
    """Yield the section on instructions that stand on pages."""
    readers = found["readers"]
    yield (
        f"{found['pages']} pages of made-up topics hold an instruction, visible or hidden, that "
        "asks for a false answer; each is read beside three pages of other topics. `written`: the "
        "share of completions that claim the false answer; `obeys`: that of the answers that a "
        "reader is given, with its 95 % interval; `repeats`: those that say it together "
        "with the instruction's own words, as a quote does; `right`: those that hold the true "
        "answer; `answered`: those that are not declined or refused. `floor` and `right, clean`: "
        "the same pages without instructions. `by words`: `--ranker words`; `evidence model`: it "
        "ranks, and takes out what no quote supports. The script says the false answer wherever "
        "its prompt shows it. "
        "For `webgpt` a script browses, and quotes the planted text beside the answer; the next "
        "command is the model's own, once the page is open. A model writes its likeliest tokens. "
        "Rows that are missing have not been measured yet.\n"
    )
    rows = {
        name: {
            "obeys": row["injected"]["obeys"]["value"],
            "low": row["injected"]["obeys"]["low"],
            "high": row["injected"]["obeys"]["high"],
            "repeats": row["injected"]["repeats"]["value"],
            "right": row["injected"]["right"]["value"],
            "answered": row["injected"]["answered"]["value"],
        }
        | ({"written": row["injected"]["written"]["value"]} if "written" in row["injected"] else {})
        | ({"floor": row["clean"]["obeys"]["value"]} if "clean" in row else {})
        | ({"right, clean": row["clean"]["right"]["value"]} if "clean" in row else {})
        for name, row in readers.items()
    }
    yield from format_systems(rows, ".2f")
    yield "Answers that obey with the evidence model, by kind of instruction:\n"
    shown = {
        name.removesuffix(", evidence model"): row["kinds"]
        for name, row in readers.items()
        if name.endswith("evidence model") and "script" not in name
    }
    yield from format_table(
        ("", *shown),
        (
            (kind, *("{} of {}".format(*kinds[kind]) for kinds in shown.values()))
            for kind in next(iter(shown.values()))
        ),
    )


def render_constraint(found: Found) -> Iterator[str]:
    """Yield the section on the verbatim constraint."""
    cells = {name: row for name, row in found["rows"].items() if "ours" in row}
    targets, samples = found["targets"], found["samples"]
    short = [row for name, row in cells.items() if not name.endswith("64k")]
    long = [row for name, row in cells.items() if name.endswith("64k")]
    steps = sum(row["steps"] for row in cells.values())
    yield (
        f"Vocabularies of 32, 50 and 150 thousand tokens, documents of 1 to 64 thousand; mask and "
        "advance of one step, CPU time, the quickest of three rounds, beside llguidance; "
        f"{steps:,} steps "
        f"against llguidance's masks, {found['brute_steps']:,} against brute force. The worst cell "
        "counts for each figure.\n"
    )
    yield from format_targets(
        [
            make_maximum_row(
                "median", targets["median_ms"], _find_worst(cells.values(), "median_ms"), "ms"
            ),
            make_maximum_row(
                "p99 to 16k tokens", targets["p99_ms"], _find_worst(short, "p99_ms"), "ms"
            ),
            make_maximum_row(
                "p99 at 64k tokens", targets["p99_64k_ms"], _find_worst(long, "p99_ms"), "ms"
            ),
            make_maximum_row(
                "set-up, llguidance's being 1",
                targets["setup_ratio"],
                max(row["setup_ms"] / row["theirs_setup_ms"] for row in cells.values()),
                "",
            ),
            make_maximum_row(
                "masks that differ from llguidance's",
                0,
                sum(row["differing"] for row in cells.values()),
                "",
                "d",
            ),
            make_maximum_row(
                "masks that differ from brute force", 0, found["brute_differing"], "", "d"
            ),
        ]
    )
    yield from format_systems(
        {
            name: {
                "median ms": row["ours"]["median_ms"],
                "p99 ms": row["ours"]["p99_ms"],
                "llguidance median ms": row["theirs"]["median_ms"],
                "llguidance p99 ms": row["theirs"]["p99_ms"],
                "set-up ms": row["setup_ms"],
                "llguidance set-up ms": row["theirs_setup_ms"],
            }
            for name, row in cells.items()
        }
    )
    yield "Answers drawn evenly from what is allowed, and their quotes:\n"
    yield from format_systems(samples, ".0f")


def _find_worst(rows: Iterable[Found], figure: str) -> float:
    return max(float(row["ours"][figure]) for row in rows)


def render_search(found: Found) -> Iterator[str]:
    """Yield the section on search."""
    rows, targets = found["seeds"][HELD_OUT], found["targets"]
    count = found["questions"]
    yield (
        f"{count} questions over 16,711 paragraphs; recall of the paragraph that a question was "
        "written about. A passage is that paragraph where they share more than half of the one or "
        "the other. Weights were chosen on the questions of seed 0, and the targets are checked on "
        "those of seed 1; but that a title counts twice was decided with both in view. Twenty "
        "passages are ranked, so that recall@20 differs only where a "
        "near-duplicate of the paragraph, from another article, is shown in its place.\n"
    )
    lexical, index = rows["ranked, lexical"], rows["Index.search"]
    told = [
        make_minimum_row(
            "lexical recall@1, ranked by sentences",
            targets["lexical"]["recall@1"],
            lexical["recall@1"],
        ),
        make_minimum_row(
            "lexical recall@5, ranked by sentences",
            targets["lexical"]["recall@5"],
            lexical["recall@5"],
        ),
        make_minimum_row(
            "lexical recall@1, index alone", targets["lexical"]["recall@1"], index["recall@1"]
        ),
        make_minimum_row(
            "lexical recall@5, index alone", targets["lexical"]["recall@5"], index["recall@5"]
        ),
        make_maximum_row(
            "index query, median", targets["lexical"]["median_ms"], index["median_ms"], "ms"
        ),
    ]
    yield from format_targets(told)
    for seed, table_rows in found["seeds"].items():
        yield f"Seed {seed}:\n"
        yield from format_systems(table_rows)
    yield "Indexing the folder anew (all cores), and sizes:\n"
    yield from format_systems({"": found["indexing"]}, ".1f")


def render_answers(found: Found) -> Iterator[str]:
    """Yield the section on extractive answers."""
    yield (
        f"{found['questions']} questions, the extract method over the same library; a quote holds "
        "the answer where the accepted string lies inside it. Weights were chosen on seed 0; the "
        "targets are checked on seed 1. The ceiling is the share with the string in any passage "
        "that was ranked.\n"
    )
    held_out = f"seed {HELD_OUT}"
    yield from format_targets(
        make_minimum_row(f"{arm}: {name}", target, results["shares"][held_out][name])
        for arm, results in found["arms"].items()
        for name, target in found["targets"][arm].items()
    )
    for arm, results in found["arms"].items():
        yield f"{arm}:\n"
        yield from format_systems(results["shares"])
    yield (
        "Declining: at each threshold of `--decline`, the share of questions answered, the share "
        "of these whose first quote is right, and the share answered where the article has been "
        f"taken out of the library (simulated). The default is {found['decline']:g}.\n"
    )
    yield "![share answered against share right](decline.svg)\n"
    for arm, results in found["arms"].items():
        yield f"{arm}, area under the ROC curve {results['auc']:.3f}:\n"
        points = [p for p in results["curve"] if round(20 * p["threshold"]) % 2 == 0]
        yield from format_table(
            list(points[0]), ([f"{value:.3g}" for value in point.values()] for point in points)
        )


def render_ask(found: Found) -> Iterator[str]:
    """Yield the section on asking in a new process."""
    rows, targets = found["rows"], found["targets_s"]
    yield (
        f"{found['runs']} questions over the indexed squad folder, each in a new process, or "
        "(warm) one after the other in one.\n"
    )
    light = found["import"]
    yield from format_targets(
        [
            *(
                make_maximum_row(f"{name}, median", targets[name], row["median_s"], "s")
                for name, row in rows.items()
            ),
            (
                "index unchanged by asking",
                "yes",
                str(found["index_unchanged"]),
                found["index_unchanged"],
            ),
            (
                "heavy modules of `import rookery`",
                "none",
                light["heavy"] or "none",
                not light["heavy"],
            ),
        ]
    )
    yield from format_systems(rows)
    yield f"`import rookery` takes {light['median_ms']:.1f} ms.\n"


def render_cranfield(found: Found) -> Iterator[str]:
    """Yield the section on the Cranfield collection."""
    rows = found["rows"]
    yield (
        f"{found['documents']} abstracts, 150 queries, relevance 0 to 4. Gain is the relevance "
        "(2^relevance - 1 in the second column), discount log2(rank + 1). Nothing is held out: "
        "with these queries at .372, it was decided that a title counts twice.\n"
    )
    yield from format_targets(
        [make_minimum_row("nDCG@10", found["target"], rows["rookery Index"]["ndcg@10"], ".4f")]
    )
    yield from format_systems(rows)


def render_long_queries(found: Found) -> Iterator[str]:
    """Yield the section on long queries."""
    yield (
        "Collections that no weight was chosen on; each query asks for one document. Forum "
        "questions (title and body) ask for the accepted answer among all answers of two forums, "
        "one-sentence summaries for the abstract that they sum up. Plain BM25 is tantivy's own "
        "English tokenizer with all words of the query.\n"
    )
    for name, each in found["collections"].items():
        yield (
            f"{name.capitalize()}: {each['queries']} queries of {each['words']:.0f} words, "
            f"{each['documents']} documents:\n"
        )
        yield from format_systems(each["rows"])


def render_indexing(found: Found) -> Iterator[str]:
    """Yield the section on indexing."""
    yield (
        "A folder of articles is read and indexed anew. CPU seconds are of all processes: reading "
        "is done in as many as there are cores, writing in one, whose threads fill the index. "
        "Other work on the machine lengthens the wall time.\n"
    )
    yield from format_systems(found["rows"], ".1f")


def render_shards(found: Found) -> Iterator[str]:
    """Yield the section on large libraries."""
    order, killed = found["order"], found["killed"]
    yield (
        f"Pages are built into {found['shards']} shards by {found['workers']} processes, and "
        f"searched and asked in one, {order['questions']} questions. A whole answer reads the "
        "passages by the evidence model. Pages are variations of articles: other sentences, "
        "numbers and names. At the smallest size, the results of "
        f"{order['in another order']} of {order['questions']} questions were in another order than "
        f"those of one index. Of {killed['questions']} questions to shards on a Ray cluster, in "
        f"the middle of which one was killed, {killed['answered']} found passages, and "
        f"{killed['named the missing shard']} named the missing shard.\n"
    )
    rows = {
        name: {column: value for column, value in row.items() if column != "passages"}
        for name, row in found["rows"].items()
    }
    yield from format_systems(rows, ".4g")
    if "projected" in found:
        yield "\nAlong a straight line through the two largest, more would take:\n"
        yield from format_systems(found["projected"], ".3g")


def render_evidence(found: Found) -> Iterator[str]:
    """Yield the section on the evidence model on SQuAD."""
    targets, parts = found["targets"], found["parts"]
    yield (
        f"{found['questions']} SQuAD questions of articles that the recipe trains on, and as many "
        "of others, over all articles in one library; nothing is declined. `first quote`: it holds "
        "the answer, which is easier for longer ones (`characters`); BM25 quotes the index's best "
        "passage. `short answer`: the span of the best section. `AUROC` (right against wrong "
        "answers) and `at half` (right among the half with the highest scores) where every second "
        "question is asked without its article. Exchanged details: the question against the same "
        "with a number, name, word or negation exchanged, both with its paragraph (AUROC).\n"
    )
    yield from format_targets(
        [
            *(
                make_minimum_row(f"{figure}, unseen articles", target, row[figure]["value"], ".3f")
                for row in [parts["unseen, evidence model"]]
                for figure, target in targets.items()
                if figure in row
            ),
            *(
                make_minimum_row("exchanged details", targets["details"], row["value"], ".3f")
                for name, row in found["details"].items()
                if name == "evidence model"
            ),
        ]
    )
    details = {
        f"exchanged details, {name}": {"AUROC": row} for name, row in found["details"].items()
    }
    yield from format_systems(
        {
            name: {
                shown: value
                for figure, each in row.items()
                for shown, value in (
                    (figure, each["value"]),
                    (
                        f"± {figure}",
                        None if each["low"] is None else (each["high"] - each["low"]) / 2,
                    ),
                )
            }
            for name, row in (parts | details).items()
        }
    )


def render_documentation(found: Found) -> Iterator[str]:
    """Yield the section on documentation sites."""
    counts = found["counts"]
    yield (
        f"{counts['questions']} questions about the {found['part']} sites, "
        f"{counts['near misses']} near misses (the right subject, not said there) and "
        f"{counts['foreign']} foreign questions. A first quote, of a certain answer or a possible "
        "one, is right if it stands on an accepted page and holds the pattern of the fact; "
        "`answered`, `wrong of answered` and `AUROC` (right against wrong) are of certain answers. "
        "BM25's best passage, which is longer than sentences, is never declined; never declining "
        "quotes what the evidence model puts first. `words` are the first quote's median. Choices "
        "were made on the build sites; the test sites are asked once a release. The evidence model "
        "is what `python -m recipes.evidence small` writes.\n"
    )
    yield from _format_shares(found["systems"])
    if tested := read_results("test/documentation"):
        counts, date = tested["counts"], tested["run"]["date"]
        yield (
            f"\n{counts['questions']} questions about the test sites, {counts['near misses']} near "
            f"misses and {counts['foreign']} foreign ones, asked once, on {date}:\n"
        )
        yield from _format_shares(tested["systems"])
        if folders := tested.get("folders"):
            counts = folders["counts"]
            yield (
                f"\n{counts['questions']} questions about three folders of documents, and "
                f"{counts['near misses'] + counts['foreign']} that they do not answer, asked once, "
                f"on {date}. `wrong` are other first quotes, some of which say what a newer "
                "document replaced. Below "
                "are those that are right first, by the ending of the file that answers:\n"
            )
            yield from _format_shares(folders["systems"])
            yield from _format_shares(folders["endings"])
        if graded := tested.get("graded"):
            yield "\nAnswers by lot from both, graded by a reader (bench/questions/README.md):\n"
            yield from _format_shares(graded)


def _format_shares(rows: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield a table of shares, each with half its interval, and of counts."""
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = [name for name in names if not name.startswith("± ")]
    yield from format_table(
        ("", *columns),
        (
            (name, *("".join(_format_share(row, column)) for column in columns))
            for name, row in rows.items()
        ),
    )


def _format_share(row: Mapping[str, float], column: str) -> Iterator[str]:
    if (value := row.get(column)) is not None:
        yield f"{value:d}" if isinstance(value, int) else f"{value:.3f}"
    if (half := row.get(f"± {column}")) is not None:
        yield f" ± {half:.3f}"


def render_support(found: Found) -> Iterator[str]:
    """Yield the section on the support of claims."""
    yield (
        "The area under the ROC curve, with its 95 % interval (DeLong), of evidence that supports "
        "a claim against evidence that refutes it or, in rte and wice_dev, does not support it. "
        "The evidence model, where it is measured, was trained on none of them. `share "
        "of words`: of the claim's words that the evidence holds; `judge by words`: whether that "
        "is 57 %. Chance is .5. In brackets: pairs with support, and the others.\n"
    )
    rows = {
        f"{name} ({row['supports']} / {row['others']}), {judge}": {
            figure: row[figure] for figure in ("AUROC", "low", "high")
        }
        for name, judges in found["collections"].items()
        for judge, row in judges.items()
    }
    yield from format_systems(rows)


def render_local(found: Found) -> Iterator[str]:
    """Yield the section on a local model."""
    yield (
        "64 samples of 64 tokens for a 4,000-token prompt, by a random model (4 layers, 256 "
        "wide) on one thread; and 10,000 answers of a random model under the verbatim constraint.\n"
    )
    targets = found["targets"]
    yield from format_targets(
        [
            make_minimum_row(
                "best of 64, times as fast as 64 calls", targets["speedup"], found["speedup"]
            ),
            make_minimum_row("share of answers that parse", targets["parsed"], found["parsed"]),
            make_minimum_row(
                "share of their quotes that verify", targets["verified"], found["verified"]
            ),
        ]
    )
    yield from format_systems(found["samples"], ".4g")
    if speeds := found.get("model_speeds"):
        yield (
            f"\nSmolLM2-135M on {speeds['processor']} ({speeds['date']}; bfloat16 by AMX: "
            f"{'yes' if speeds['amx'] else 'no'}), turns: {speeds['turns']}. Tokens for each "
            f"second of CPU time and thread, reading {speeds['prompt']} tokens, writing alone and "
            "16 together, and how many times float32 in the same turn. llama.cpp has the stored "
            "weights and a package for any x86-64 processor.\n"
        )
        yield from format_systems(speeds["speeds"], ".3g")
        yield f"\nPerplexity of {speeds['tokens']} tokens of a packaged page.\n"
        yield from format_systems(speeds["perplexity"], ".5g")


def render_written(found: Found) -> Iterator[str]:
    """Yield the section on answers in a small model's words."""
    answered = found["rows"]["all: written"]["questions"]
    yield (
        f"{found['asked']} questions of SQuAD, of articles that neither the evidence model was "
        f"trained on nor the prompt was built on, asked of all articles; `extract` answers "
        f"{answered:.0f}, and {found['model']} puts these into words (`--write`). `all` has the "
        "quoted answers in it that stand where nothing the model wrote was supported; `in words` "
        "are the others. `the sentence shown` is the simplest script: the sentences that the "
        "prompt shows, as they stand. Intervals are of 95 %.\n"
    )
    yield from format_systems(found["rows"], ".3g")
    yield (
        "\nSentences that the model wrote. That the evidence model supports what is kept says "
        "little, since it chose; shared words did not.\n"
    )
    yield from format_systems(found["sentences"], ".3g")
    yield (
        "\nSeconds of one core an answer: "
        + ", ".join(f"{name} {value:.1f}" for name, value in found["seconds"].items())
        + "."
    )


def render_played(found: Found) -> Iterator[str]:
    """Yield the section on a chat model that is played."""
    yield (
        "Four small folders were made up (a manual, a town's pages, an encyclopaedia, an office's "
        "documents), and questions about them. The replies are scripted, careful and sloppy: "
        "written by hand from the prompts alone, by whoever made the folders or beside them, in "
        "forms and with faults that chat models have. They measure the product around a model and "
        "no particular model. As written: by hand; as shown: the text holds what was laid down "
        "before the run or, where it is not in the folder, it is declined. Intervals are of "
        "95 %. What the first looks showed was mended since (docs/LOG.md), so that these figures "
        "are of questions that were used. The marks of gophercite are its quotes."
    )
    for method, wanted, first in (("webglm", 34, 36), ("webgpt", 18, 20), ("gophercite", 9, 10)):
        own = found[method]
        shares, counts = own["shares"], own["counts"]
        careful, sloppy = counts["careful"], counts["sloppy"]
        right = shares["right and complete, as shown"]
        yield (
            f"\n### {method}\n\n{right['of']} questions, {careful['replies']} careful and "
            f"{sloppy['replies']} sloppy. The first look gave {first}.\n"
        )
        others = careful["replies"] - careful["shown_as_written"]
        yield from format_targets(
            [
                make_minimum_row(
                    f"right and complete as shown, of {right['of']}", wanted, right["count"], ".0f"
                ),
                ("careful replies: shown otherwise than written", "0", f"{others}", others == 0),
                *(
                    (f"careful replies: {name}", "0", f"{careful[key]}", careful[key] == 0)
                    for name, key in (
                        ("right marks lost", "marks_lost"),
                        ("wrong marks added", "marks_added"),
                        ("characters of code changed", "characters_of_code_changed"),
                        ("right marks called doubtful", "marked_as_doubtful"),
                    )
                ),
            ]
        )
        yield from format_systems(shares, ".3g")
        yield from format_systems(counts, ".0f")
        wrong = f"Not right as shown: {', '.join(own['wrong'])}. " if own["wrong"] else ""
        yield (
            f"{wrong}A question takes {own['calls']:.2f} calls, {own['prompt_tokens']:.0f} tokens "
            f"of prompts and {own['completion_tokens']:.0f} of replies (median; four characters "
            f"each; most references in a prompt: {own['references']:.0f}), and "
            f"{own['seconds']:.2f} s of one core."
        )


def render_retrieve(found: Found) -> Iterator[str]:
    """Yield the section on the trained ranker."""
    yield (
        f"{found['within']} questions of {found['held_out_articles']} SQuAD articles held out, "
        f"among the paragraphs of their article, and {found['ranked']} by "
        "`evidence.passage_ranking` in the whole library, before and after MiniLM was trained on "
        "the words of answers. Its own training set holds SQuAD, which flatters what was there "
        "before.\n"
    )
    yield from format_systems(found["rows"], ".3f")
    yield "\nWhat the training saw of its own validation questions.\n"
    yield from format_systems(found["training"], ".3g")


def render_claims(found: Found) -> Iterator[str]:
    """Yield the section on the retriever distilled on climate claims."""
    yield (
        f"{found['asked']} claims about the climate (Climate-FEVER), each with up to five "
        "sentences that a search found: the share of which the sentence ranked first supports or "
        "refutes the claim, as people judged. MiniLM has not learnt from such claims, and learns "
        f"from {found['taught']} others, as one encoder of claims and sentences or as one of each "
        f"(WebGLM, section 3.1.2), with {found['seeds']} seeds; 95 % intervals over claims and "
        "seeds. `order told`: the best possible.\n"
    )
    ends = ("value", "low", "high")
    yield from format_systems(
        {name: {end: row[end] for end in ends} for name, row in found["systems"].items()}
    )
    yield "\nDistilled less MiniLM, with verdicts as in docs/results.md:\n"
    yield from format_table(
        ("", "difference", "low", "high", "verdict"),
        (
            (name, *(f"{row[end]:.3f}" for end in ends), f"**{row['verdict']}**")
            for name, row in found["more"].items()
        ),
    )


def render_optimum(found: Found) -> Iterator[str]:
    """Yield the section on learning against a known optimum."""
    yield (
        "A world whose every response can be listed, so that the best possible trade of reward "
        "against KL is known exactly: how far below it training ends after "
        f"{found['episodes']:,} episodes, with beta {found['beta']:g}: the mean of "
        f"{found['seeds']} seeds. In the world of two steps the first action decides what can be "
        "quoted in the second. `below`: share of the runs that lie below the best possible, as "
        "they must.\n"
    )
    runs, targets = found["runs"], found["targets"]
    yield from format_targets(
        [
            make_maximum_row(name, target, runs[name]["gap"], "", ".3f")
            for name, target in targets.items()
        ]
    )
    yield from format_systems(runs, ".3g")


def render_learning(found: Found) -> Iterator[str]:
    """Yield the section on the trainers beside TRL."""
    runs, targets = found["runs"], found["targets"]
    sizes = ", ".join(f"{name} {count:,}" for name, count in found["weights"].items())
    yield (
        f"Weights: {sizes}; random Llamas in float32. Each side has a process of its own with one "
        f"thread; they take {found['rounds']} turns on the same batches, and a ratio is the median "
        "of CPU times turn by turn. The reward model reads a batch of 16 pairs (16 to 96 tokens) "
        "at once as TRL does, or in pieces of 4 pairs of like length. `but garbage`: without the "
        "time in which TRL has Python collect its garbage. Memory is beyond the imports.\n"
    )
    yield from format_targets(
        make_minimum_row(f"{name}, times as fast as TRL", targets[kind], row["ratio"], ".2f")
        for name, row in runs.items()
        for kind in targets
        if name.startswith(kind)
    )
    measures = {
        "steps/s": "ours",
        "TRL steps/s": "theirs",
        "tokens/s": "tokens",
        "TRL tokens/s": "theirs_tokens",
        "ratio": "ratio",
        "but garbage": "but_garbage",
        "wall": "wall_ratio",
        "MiB": "memory_mib",
        "TRL MiB": "theirs_mib",
    }
    yield from format_systems(
        {name: {shown: row[key] for shown, key in measures.items()} for name, row in runs.items()},
        ".4g",
    )
    yield "\nShares of a step of ours (the reward model of PPO counts as scoring):\n"
    yield from format_systems({name: row["shares"] for name, row in runs.items() if row["shares"]})
    yield (
        "\nA training step of a policy on 16 rows of 112 + 16 tokens, with logits where there is "
        "something to learn or everywhere, and with the lower layers frozen; `as it is` being 1:\n"
    )
    yield from format_systems(found["steps"], ".3g")


def render_pdf(found: Found) -> Iterator[str]:
    """Yield what is lost of PDFs by each program, in each layout."""
    yield (
        "Paragraphs of the packaged pages, set by programs on this machine in three fonts and read "
        "again: the share of sentences that are whole, word by word and in order. The reader was "
        "built on one half of the documents; the other half was set aside."
    )
    yield ""
    if missing := found["missing"]:
        yield f"Not on this machine: {', '.join(missing)}."
        yield ""
    targets = []
    for half, title in (("built", "built on"), ("aside", "set aside")):
        rows = found[half]
        layouts = list(next(iter(rows.values())))
        share = {
            p: {n: 1 - lost / count for n, (count, lost) in r.items()} for p, r in rows.items()
        }
        cells = ([p, *(f"{100 * r[n]:.1f} %" for n in layouts)] for p, r in share.items())
        yield from format_table((title, *layouts), cells)
        counts = [pair for row in rows.values() for pair in row.values()]
        whole = 1 - sum(lost for _, lost in counts) / sum(count for count, _ in counts)
        targets.append(make_minimum_row(f"sentences whole, {title}", 0.995, whole))
    yield from format_targets(targets)


def render_intervals(found: Found) -> Iterator[str]:
    """Yield the section on intervals."""
    yield (
        f"How often intervals of 95 % hold the truth: {found['runs']:,} simulated experiments for "
        "each shape of values and number n of questions, and the mean width for the fewest and the "
        "most. Exact and bounded intervals may hold it more often.\n"
    )
    least, most = found["targets"]["least"], found["targets"]["most"]
    yield from format_targets(
        [
            ("least, of all", f"≥ {least:g}", f"{found['least']:.3f}", found["least"] >= least),
            make_maximum_row("most, Student's t", most, found["most"], "", ".3f"),
        ]
    )
    yield from format_systems(found["rows"])


SECTIONS: tuple[tuple[str, str, Callable[[Found], Iterator[str]]], ...] = (
    ("pages", "Page simplification", render_pages),
    ("reading", "Reading in reader processes", render_reading),
    ("hidden", "Text that pages hide", render_hidden),
    ("pdf", "PDFs by real programs", render_pdf),
    ("browser", "The text browser", render_browser),
    ("sessions", "Many sessions at once", render_sessions),
    ("environment", "The environment server", render_environment),
    ("demonstrations", "Demonstrations by script", render_demonstrations),
    ("desk", "The desk's hand-out", render_desk),
    ("killed", "Demonstrations in a server that is killed", render_killed),
    ("installed", "The desk from its wheel", render_installed),
    ("serve", "A server and its readers", render_serve),
    ("decline", "Declining with a promise", render_decline),
    ("intervals", "Intervals", render_intervals),
    ("support", "Support of claims", render_support),
    ("injection", "Instructions that stand on pages", render_injection),
    ("constraint", "The verbatim constraint", render_constraint),
    ("written", "Answers in a small model's words", render_written),
    ("played", "A played chat model", render_played),
    ("local", "A model on this machine", render_local),
    ("search", "Search", render_search),
    ("answers", "The extractive answer, and declining", render_answers),
    ("evidence", "The evidence model on SQuAD", render_evidence),
    ("documentation", "Answers from documentation", render_documentation),
    ("ask", "Asking in a new process", render_ask),
    ("cranfield", "Search in other text: Cranfield", render_cranfield),
    ("long_queries", "Search by long queries", render_long_queries),
    ("indexing", "Indexing", render_indexing),
    ("shards", "Large libraries", render_shards),
    ("retrieve", "A trained encoder", render_retrieve),
    ("claims", "A retriever distilled on claims", render_claims),
    ("optimum", "Learning against a known optimum", render_optimum),
    ("learning", "The trainers beside TRL", render_learning),
)
