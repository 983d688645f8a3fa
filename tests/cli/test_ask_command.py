"""The command line as a stranger meets it: what it prints where, and its exit codes."""

import json
import os
from pathlib import Path

import pytest
from commands import CORVIDS, ESCAPE, GIFTS, NOWHERE, Run, article
from stage import Stage

import rookery
from rookery.answers.answer_results import AskResult
from rookery.records import Episode

LIVES = "How long do crows live?"


# Answers, and what goes where


@pytest.mark.slow
def test_an_answer_stands_on_standard_output_and_the_counts_on_standard_error(run: Run) -> None:
    code, out, err = run("ask", GIFTS, *CORVIDS)
    assert code == 0
    assert out.splitlines()[0].startswith("Crows most likely bring gifts to people")
    assert "[1]" in out.split("\n\n")[0]
    assert "\n[1] Why crows bring gifts" in out
    assert "gifts-from-crows.html#:~:text=" in out
    assert " · verified\n" in out
    assert ESCAPE not in out + err
    assert "1 of 1 quote verified · score high" in err
    assert "quotes verified" not in out


@pytest.mark.slow
def test_json_is_one_object_that_is_the_record(run: Run) -> None:
    code, out, err = run("ask", GIFTS, *CORVIDS, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    answered = AskResult.from_json(out)
    assert answered.to_json() + "\n" == out
    assert answered.question.text == GIFTS
    assert (answered.stop, answered.method) == ("end", "extract")
    assert answered.answer is not None
    assert answered.counts == {
        "quotes": len(answered.answer.quotes),
        "verified": len(answered.answer.quotes),
    }
    assert set(json.loads(out)) == {
        *("question", "answer", "stop", "method", "counts", "made_with")
    }


def test_a_question_from_standard_input_is_answered_alike(run: Run) -> None:
    typed = run("ask", "-", *CORVIDS, "--json", typed=f"{GIFTS}\n")
    assert typed == run("ask", GIFTS, *CORVIDS, "--json")


@pytest.mark.slow
def test_bytes_that_are_no_text_are_no_traceback(run: Run) -> None:
    result = run("ask", os.fsdecode(b"Why do crows bring gifts \xff\xfe?"), *CORVIDS, "--json")
    assert result.code in (0, 3)
    assert AskResult.from_json(result.out).question.text == "Why do crows bring gifts ???"


@pytest.mark.slow
def test_where_nothing_was_found_the_closest_quote_has_no_number(run: Run) -> None:
    code, out, err = run("ask", "Who won the 1998 world cup?", *CORVIDS)
    assert code == 3
    assert out.startswith("Nothing that was found answers this; the closest is below.\n\n")
    assert "\n  – “" in out
    assert "[1]" not in out
    assert err.strip().startswith("declined · ")


@pytest.mark.slow
def test_decline_moves_the_threshold(run: Run) -> None:
    assert run("ask", "Who won the 1998 world cup?", *CORVIDS, "--decline", "0").code == 0
    assert run("ask", GIFTS, *CORVIDS, "--decline", "1").code == 3


def test_trace_appends_episodes_that_round_trip(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    run("ask", GIFTS, *CORVIDS, "--trace", trace)
    said = AskResult.from_json(run("ask", GIFTS, *CORVIDS, "--trace", trace, "--json").out)
    lines = trace.read_text("utf-8").splitlines()
    assert len(lines) == 2
    for line in lines:
        episode = Episode.from_json(line)
        assert episode.to_json() == line
        assert episode.answer == said.answer


# How many quotes, and why these


@pytest.mark.slow
def test_quotes_are_at_most_as_many_as_are_asked_for(run: Run) -> None:
    counted = []
    for most in (1, 2, 3, 6):
        answered = AskResult.from_json(run("ask", LIVES, *CORVIDS, "-q", str(most), "--json").out)
        assert answered.answer is not None
        counted.append(len(answered.answer.quotes))
        assert len(answered.answer.quotes) <= most
    assert counted[:2] == [1, 2]
    assert run("ask", LIVES, *CORVIDS, "--quotes", "3").out == run("ask", LIVES, *CORVIDS).out


def test_passages_say_what_was_searched_found_and_chosen(run: Run) -> None:
    asked = ("ask", GIFTS, *CORVIDS, "--ranker", "words")
    plain, shown = run(*asked), run(*asked, "--passages")
    assert shown.out.startswith(plain.out)
    answered = AskResult.from_json(run(*asked, "--passages", "--json").out)
    report, answer = answered.passages, answered.answer
    assert report is not None
    assert answer is not None
    assert report.libraries == ("rookery:corvids",)
    assert [(search.query, search.found) for search in report.searches] == [(GIFTS, 20)]
    assert [each.rank for each in report.found] == list(range(1, len(report.found) + 1))
    scores = [each.score for each in report.found]
    assert scores == sorted(scores, reverse=True)
    for number, quote in enumerate(answer.quotes, 1):
        [holding] = [each for each in report.found if number in each.quotes]
        assert (holding.url, holding.digest) == (quote.url, quote.digest)
        assert holding.start < quote.end
        assert quote.start < holding.end
    assert (report.score, report.threshold) == (answer.score, 0.2)
    assert report.reason.startswith(f"answered: score {answer.score:.4g} reaches 0.2")
    lines = shown.out.splitlines()
    assert "Searched rookery:corvids:" in lines
    assert f"  “{GIFTS}”: 20 results" in lines
    assert lines[-1] == f"A{report.reason[1:]}"
    for each in report.found:
        [at] = [n for n, line in enumerate(lines) if line.startswith(f"{each.rank:>4}  ")]
        assert f"{each.score:.2f}" in lines[at]
        assert " ".join(each.title.split()) in lines[at]
        assert " ".join(each.text.split()) == lines[at + 1].strip()


@pytest.mark.slow
def test_passages_say_why_it_declined(run: Run) -> None:
    asked = ("ask", "Who won the 1998 world cup?", *CORVIDS, "--passages")
    answered = AskResult.from_json(run(*asked, "--json", "--decline", "0.4").out)
    report = answered.passages
    assert report is not None
    assert answered.answer is not None
    assert answered.answer.declined
    assert report.found
    assert report.reason.startswith(f"declined: score {answered.answer.score:.4g} is below 0.4")
    unknown = run("ask", "Xyzzy?", *CORVIDS, "--passages")
    assert unknown.code == 3
    assert "“Xyzzy?”: 0 results" in unknown.out
    assert "Declined: no passage was found" in unknown.out


def test_passages_say_what_could_not_be_searched(run: Run) -> None:
    asked = ("ask", "Do jays play?", "--engine", NOWHERE, "--allow-private", "--passages")
    result = run(*asked)
    assert result.code == 4
    assert f"Searched the web, by {NOWHERE}:" in result.out
    assert "“Do jays play?”: search_failed" in result.out
    report = AskResult.from_json(run(*asked, "--json").out).passages
    assert report is not None
    assert (report.found, report.reason) == ((), "no evidence")


# The network


def test_no_evidence_says_why_and_exits_with_4(run: Run) -> None:
    code, out, err = run("ask", "Do jays play?", "--engine", NOWHERE, "--allow-private")
    assert (code, out) == (4, "")
    assert "no evidence · not read: 1 search failed" in err
    assert "refused" in err
    assert err.splitlines()[-1] == "To ask your own documents: rookery ask ... --in DIR"
    answered = AskResult.from_json(run("ask", "Do jays play?", "--engine", NOWHERE, "--json").out)
    assert (answered.answer, answered.stop) == (None, "no_evidence")
    assert answered.counts == {"quotes": 0, "verified": 0, "search_failed": 1}


@pytest.mark.slow
def test_a_site_on_this_machine_is_refused_unless_allowed(run: Run, web: Stage) -> None:
    site = ("--in", f"{web.base}/birds/")
    code, out, err = run("ask", "What do jays bury?", *site)
    assert (code, out, web.visits) == (4, "", [])
    assert "1 blocked address" in err
    assert "--allow-private" in err
    allowed = run("ask", "What do jays bury?", *site, "--allow-private")
    assert allowed.code == 0
    assert "Jays bury acorns in September." in allowed.out


@pytest.mark.slow
def test_offline_repeats_an_answer_byte_for_byte(run: Run, web: Stage) -> None:
    engine = ("--engine", f"searxng:{web.base}", "--allow-private")
    asked = [
        ("ask", "What do jays bury?", "--in", f"{web.base}/birds/", "--allow-private", "--json"),
        ("ask", "What do jays bury in September?", *engine, "--json"),
    ]
    first = [run(*question) for question in asked]
    assert [result.code for result in first] == [0, 0]
    web.routes.clear()
    before = len(web.visits)
    assert [run(*question, "--offline") for question in asked] == first
    assert len(web.visits) == before


def test_offline_repeats_an_answer_although_a_page_was_missing(run: Run, web: Stage) -> None:
    web.routes.pop("/birds/crows.html")
    asked = ("ask", "When do jays bury?", "--engine", f"searxng:{web.base}", "--allow-private")
    first = AskResult.from_json(run(*asked, "--json").out)
    assert first.counts["http_404"] == 1
    again = AskResult.from_json(run(*asked, "--json", "--offline").out)
    assert (again.answer, again.stop) == (first.answer, "end")


def test_offline_says_what_was_never_opened(run: Run) -> None:
    code, _, err = run("ask", "Was this ever asked?", "--offline")
    assert code == 4
    assert "ask it once without --offline" in err


# Wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask",), "give one question"),
        (("ask", "  "), "the question is empty"),
        (("ask", "x" * 20_000), "20,000 characters"),
        (("ask", "Why?", "--batch", "q.jsonl", "--out", "a.jsonl"), "give one question"),
        (("ask", "--batch", "q.jsonl"), "with --out FILE"),
        (("ask", "--batch", "no.jsonl", "--out", "a.jsonl"), "no.jsonl: No such file"),
        (("ask", "--batch", "q", "--out", "a", "--trace", "t"), "for one question"),
        (("ask", "Why?", "--workers", "2"), "--force, --workers and --ray go with --batch"),
        (
            ("ask", "Why?", "--method", "webgpt"),
            "goes with --model and --base-url",
        ),
        (("ask", "Why?", "--method", "guess"), "use one of extract, webgpt"),
        (("ask", "Why?", "--model", "m"), "for one on a server, say where: --base-url URL"),
        (("ask", "Why?", "--model", "path:m"), "a model has nothing to do in --method extract"),
        (("ask", "Why?", "--in", "no/such/folder"), "no/such/folder: there is no such file"),
        (("ask", "Why?", "--in", ""), "name a folder, a file or an address"),
        (("ask", "Why?", "--engine", "altavista"), "use auto"),
        (("ask", "Why?", "--decline", "2"), "--decline"),
        (("ask", "Why?", "--depth", "2"), "--depth"),
        (("browse",), "FILE_OR_URL"),
        (("browse", "no.html"), "no.html: there is no such file or folder: check the path"),
        (("browse", "."), ".: this is a folder: name a file in it"),
        (("browse", "a.html", "--plain", "--full"), "choose one"),
        (("cite", "verify", "/dev/zero"), "a pipe, a device or a socket: name a file"),
        (("cite", "verify", "no.json"), "no.json: No such file"),
        (("cite", "verify", __file__, "--pages", "no/such"), "no/such"),
    ],
)
def test_wrong_use_is_a_sentence_and_exit_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_without_readable_files_is_no_evidence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    code, out, err = run("ask", "Why?", "--in", tmp_path)
    assert (code, out) == (4, "")
    assert "empty_library" not in err
    assert "photo.png: a picture); HTML, PDF, Office documents, e-books, mail," in err
    answered = AskResult.from_json(run("ask", "Why?", "--in", tmp_path, "--json").out)
    [failure] = answered.failures
    assert failure.outcome == "empty_library"
    assert "photo.png: a picture" in failure.detail


@pytest.mark.slow
def test_a_skipped_file_is_counted_with_the_answer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jays.html").write_text(article("Jays", "Jays bury acorns in September."))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnonsense")
    code, _, err = run("ask", "What do jays bury?", "--in", tmp_path)
    assert code == 0
    assert "not read: broken.pdf" in err
    assert "broken.pdf: it is damaged or no PDF: open it in a reader of PDFs and save it" in err
    answered = AskResult.from_json(run("ask", "What do jays bury?", "--in", tmp_path, "--json").out)
    assert (
        sum(answered.counts.values())
        == 2 * len(answered.answer.quotes if answered.answer else ()) + 1
    )


def test_version(run: Run) -> None:
    assert run("--version").out.strip() == rookery.__version__
