"""`rookery measure` over files as Rookery writes them: figures worked out by hand, and mistakes."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import ROOT, Run

from recipes.random_models import write_tiny_encoder
from rookery.answers.answer_results import AskResult
from rookery.cli import measure_figures
from rookery.cli.measure_command import MEASURE_COMMANDS
from rookery.cli.measure_figures import read_best_of_n_curves
from rookery.learn.retrieval_training import export_sentence_encoder
from rookery.measure.figures import Figure
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Episode,
    Page,
    Question,
    Rating,
    Record,
)

CROWS = Page("https://birds.example/", "Crows", "Crows hide acorns in autumn. Jays do so, too.")
ASKED = [Question(f"q{n}", f"What is hidden, {n}?", (CROWS,), ("acorns",)) for n in range(4)]


def answer(text: str, score: float | None = None) -> Answer:
    """An answer that cites the first sentence of the page."""
    return Answer(text, (CROWS.quote(0, 28),), (Claim(0, len(text), (0,)),), score=score)


OURS = [answer(f"Crows hide acorns {n}.", 0.9 - n / 10) for n in range(4)]
THEIRS = [answer(f"Nobody knows {n}.", 0.1 + n / 10) for n in range(3)]
THEIRS.append(answer("acorns", 0.8))


def write(place: Path, *lines: Record | dict[str, Any]) -> Path:
    """A file of JSON lines."""
    told = [line.to_json() if isinstance(line, Record) else json.dumps(line) for line in lines]
    place.write_text("".join(line + "\n" for line in told), encoding="utf-8")
    return place


def answered(place: Path, answers: Sequence[Answer | None]) -> Path:
    """What `rookery ask --batch` writes."""
    both = zip(ASKED, answers, strict=True)
    counts = {"quotes": 1, "verified": 1}
    return write(place, *(AskResult(asked, said, "end", "extract", counts) for asked, said in both))


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the answers of two systems, and what people say of them."""
    monkeypatch.chdir(tmp_path)
    answered(tmp_path / "ours.jsonl", OURS)
    answered(tmp_path / "theirs.jsonl", THEIRS)
    weights = [(1.0, 0.0), (1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    pairs = zip(ASKED, OURS, THEIRS, weights, strict=True)
    compared = [Comparison(asked, (a, b), each, "ann") for asked, a, b, each in pairs]
    write(tmp_path / "comparisons.jsonl", *compared)
    return tmp_path


WHOSE = ("--systems", "ours.jsonl", "--systems", "theirs.jsonl")


def rows(run: Run, *arguments: str | Path) -> list[list[Any]]:
    """The rows of a figure, as a program reads them."""
    code, out, err = run("measure", *arguments, "--json")
    assert (code, err) == (0, "")
    return [list(row) for row in Figure.from_json(out).rows]


def read_error(run: Run, *arguments: str | Path) -> str:
    """The sentence of a command that cannot be done."""
    code, out, err = run("measure", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("rookery: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# Who wins


def test_a_battle_is_won_by_who_wrote_the_preferred_answers(run: Run, working_folder: Path) -> None:
    [[one, other, rate, low, high, count], back] = rows(run, "battle", "comparisons.jsonl", *WHOSE)
    assert (one, other, rate, count) == ("ours", "theirs", 2.5 / 4, 4)
    assert (low, high) == (None, None)  # four questions are too few
    assert back[:3] == ["theirs", "ours", 1.5 / 4]
    against = rows(run, "battle", "comparisons.jsonl", *WHOSE, "--of", "theirs")
    assert [row[:2] for row in against] == [["ours", 1.5 / 4]]


def test_a_system_is_called_as_its_file_says_or_as_it_is_told(
    run: Run, working_folder: Path
) -> None:
    both = zip(ASKED, THEIRS, strict=True)
    write(
        working_folder / "told.jsonl",
        *(Episode(asked, "webgpt", answer=said) for asked, said in both),
    )
    found = rows(
        run, "battle", "comparisons.jsonl", "--systems", "A=ours.jsonl", "--systems", "told.jsonl"
    )
    assert {row[0] for row in found} == {"A", "webgpt"}


def test_an_answer_that_two_gave_is_the_others_where_one_is_beside_it(
    run: Run, working_folder: Path
) -> None:
    same = Answer("The same.")
    for name in ("ours", "theirs"):
        answered(working_folder / f"{name}.jsonl", [same, same, None, None])
    both = (same, same)
    write(working_folder / "comparisons.jsonl", Comparison(ASKED[0], both, (0.5, 0.5), "ann"))
    assert [row[:3] for row in rows(run, "battle", "comparisons.jsonl", *WHOSE)] == [
        ["ours", "theirs", 0.5],
        ["theirs", "ours", 0.5],
    ]


def test_of_several_raters_the_majority_may_count(run: Run, working_folder: Path) -> None:
    said = [(1.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    pair = (OURS[0], THEIRS[0])
    compared = [Comparison(ASKED[0], pair, each, str(at)) for at, each in enumerate(said)]
    write(working_folder / "comparisons.jsonl", *compared)
    assert rows(run, "battle", "comparisons.jsonl", *WHOSE)[0][2] == pytest.approx(2 / 3)
    assert rows(run, "battle", "comparisons.jsonl", *WHOSE, "--majority")[0][2] == 1


def test_the_best_of_two_is_the_mean_over_pairs(run: Run, working_folder: Path) -> None:
    """Of rewards 1, 2, 3 the best of two is the third twice and the second once."""
    write(
        working_folder / "drawn.jsonl", {"rewards": [1, 2, 3], "validations": [0, 3, 6], "id": "q"}
    )
    found = rows(run, "best-of", "policy=drawn.jsonl")
    assert [(row[0], row[1], row[3]) for row in found] == [
        ("policy", 1, 3.0),
        ("policy", 2, 5.0),
        ("policy", 3, 6.0),
    ]


def test_answers_to_a_question_are_drawn_together_and_scored_by_two_models(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [(asked, text) for asked in ASKED[:2] for text in ("a", "ccc", "bb")]
    write(
        working_folder / "said.jsonl", *(Episode(q, "us", answer=Answer(text)) for q, text in said)
    )

    def size(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [float(len(answer.text)) for _, answer in pairs]

    def worth(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        return [
            10.0 * value + int(asked.id[1])
            for value, (asked, _) in zip(size(pairs), pairs, strict=True)
        ]

    models = {"size": size, "worth": worth}
    monkeypatch.setattr(
        "rookery.learn.reward_model.RewardModel",
        lambda folder: SimpleNamespace(score_answers=models[folder.name]),
    )
    for name in models:
        Path(name).mkdir()
    found = read_best_of_n_curves(["said.jsonl"], Path("size"), Path("worth"), 1)["us"]
    means = {n: each.value for n, each in found.items()}
    assert means == pytest.approx({1: 20.5, 2: (30 + 30 + 20) / 3 + 0.5, 3: 30.5})


def test_a_frontier_has_ten_points_a_run_and_the_optimum(run: Run, working_folder: Path) -> None:
    steps = [{"step": n, "reward": n / 10, "kl": n / 5, "loss": None} for n in range(40)]
    (working_folder / "run").mkdir()
    write(working_folder / "run" / "metrics.jsonl", *steps)
    found = rows(run, "frontier", "run")
    assert [row[0] for row in found] == ["run"] * 10
    assert found[0][1:3] == pytest.approx([0.3, 0.15])
    assert {tuple(row[3:]) for row in found} == {(None, None)}  # four batches each, or one
    write(working_folder / "run" / "metrics.jsonl", *(each | {"kl": 1.0} for each in steps[:3]))
    assert [row[3:] for row in rows(run, "frontier", "run")] == [[None, None]] * 3
    steps = [{"step": n, "reward": n % 5, "kl": n / 5, "loss": None} for n in range(50)]
    write(working_folder / "run" / "metrics.jsonl", *steps)
    for _, _, reward, low, high in rows(run, "frontier", "run"):
        assert low < reward < high
    write(
        working_folder / "drawn.jsonl", *({"rewards": [n % 7 for n in range(50)]} for _ in range(3))
    )
    most = rows(run, "frontier", "run", "--samples", "drawn.jsonl")
    assert {row[0] for row in most} == {"run", "optimum", "best of n"}


# What people say of answers


def test_coverage_declines_those_of_low_score_first(run: Run, working_folder: Path) -> None:
    [ours, theirs] = rows(run, "coverage", "ours.jsonl", "theirs.jsonl")
    assert (ours[0], ours[1], ours[5]) == ("ours", 4, 1.0)
    assert (theirs[0], theirs[5], theirs[9]) == ("theirs", 0.25, 0.5)  # the best is good


def test_ratings_are_of_whoever_wrote_the_answer_or_its_quote(
    run: Run, working_folder: Path
) -> None:
    quoted = Answer(CROWS.quote(0, 28).text)
    votes = [(OURS[0], "supported", 1.0), (OURS[1], "supported", 0.0), (quoted, "relevancy", 1.0)]
    made = [
        Rating(ASKED[at % 2], said, scale, value, by)
        for at, (said, scale, value) in enumerate(votes)
        for by in ("ann", "bob")
    ]
    write(working_folder / "ratings.jsonl", *made)
    shares = rows(run, "supported", "ratings.jsonl", "--systems", "ours.jsonl")
    assert [row[:3] for row in shares] == [["ours", "supported", 0.5]]
    references = rows(run, "criteria", "ratings.jsonl", *WHOSE)  # both quote the same sentence
    assert [row[:3] for row in references] == [["ours", "relevancy", 1], ["theirs", "relevancy", 1]]
    named = rows(run, "criteria", "people=ratings.jsonl")
    assert [row[:3] for row in named] == [["people", "relevancy", 1.0]]


def test_a_rated_answer_is_not_also_of_whoever_quotes_its_words(
    run: Run, working_folder: Path
) -> None:
    quoted = Answer(CROWS.quote(0, 28).text)
    answered(working_folder / "ours.jsonl", [quoted, None, None, None])
    write(working_folder / "ratings.jsonl", Rating(ASKED[0], quoted, "supported", 1.0, "ann"))
    assert [row[0] for row in rows(run, "supported", "ratings.jsonl", *WHOSE)] == ["ours"]


def test_truths_are_told_by_most_raters(run: Run, working_folder: Path) -> None:
    made = [
        Rating(ASKED[0], OURS[0], scale, value, by)
        for scale, values in (("truthful", (1, 1, 0)), ("informative", (0, 0, 1)))
        for by, value in zip("abc", values, strict=True)
    ]
    write(working_folder / "ratings.jsonl", *made)
    found = rows(run, "truthful", "ratings.jsonl", "--systems", "ours.jsonl")
    assert [row[1:3] for row in found] == [
        ["truthful", 1.0],
        ["informative", 0.0],
        ["truthful and informative", 0.0],
    ]


# What answers say


def test_exact_match_is_with_the_gold_answers(run: Run, working_folder: Path) -> None:
    found = {(row[0], row[1]): row[2] for row in rows(run, "exact", "ours.jsonl", "theirs.jsonl")}
    assert (found["ours", "exact match"], found["ours", "held"]) == (0.0, 1.0)
    assert (found["theirs", "exact match"], found["theirs", "F1"]) == (0.25, 0.25)


def test_what_is_declined_or_missing_says_nothing(run: Run, working_folder: Path) -> None:
    declined = Answer("acorns", declined=True)
    answered(working_folder / "few.jsonl", [Answer("acorns"), declined, None, Answer("bones")])
    assert rows(run, "exact", "few.jsonl")[0][1:3] == ["exact match", 0.25]


def test_citations_are_counted_by_the_words_of_their_quotes(run: Run, working_folder: Path) -> None:
    found = {
        (row[0], row[1]): row[2]
        for row in rows(run, "citations", "ours.jsonl", "theirs.jsonl", "--ranker", "words")
    }
    assert found["ours", "recall"] == 1
    assert found["theirs", "recall"] == 0.25


@pytest.mark.slow
def test_several_processes_count_what_one_counts(run: Run, working_folder: Path) -> None:
    command = ("measure", "citations", "ours.jsonl", "theirs.jsonl", "--ranker", "words", "--json")
    whole = run(*command)
    assert whole.code == 0
    assert run(*command, "--workers", 2) == whole


def test_rankings_compare_words_and_encoders(run: Run, working_folder: Path) -> None:
    said = ("Rooks fly.", "Crows hide acorns in autumn.", "It rained.")
    ask = "What do crows hide in autumn?"
    triple = {"question": ask, "references": said, "answer": "Acorns, in autumn."}
    write(working_folder / "triples.jsonl", triple)
    write_tiny_encoder(working_folder / "encoder", [*said, ask])
    export_sentence_encoder(working_folder / "encoder")
    found = {
        (row[0], row[1]): row[2]
        for row in rows(run, "ranking", "--triples", "triples.jsonl", "--ranker", "tiny=encoder")
    }
    assert found["hit 1", "BM25"] == found["hit 1", "TF-IDF"] == 1
    assert 0 <= found["NDCG", "tiny"] <= 1


# Shown, written, reported


def test_a_figure_is_a_table_for_people_and_files_for_the_report(
    run: Run, working_folder: Path
) -> None:
    code, out, err = run("measure", "battle", "comparisons.jsonl", *WHOSE, "--out", "figures")
    assert code == 0
    lines = out.splitlines()
    assert lines[3].split() == ["system", "against", "win", "rate", "low", "high", "matches"]
    assert lines[4].split()[:3] == ["ours", "theirs", "0.625"]
    assert err == "written: figures/win-rates.json, .md, .svg, .png\n"
    run("measure", "exact", "ours.jsonl", "--out", "figures/more")
    code, out, err = run("measure", "report", "figures")
    assert (code, out, err) == (0, "figures/report.html\n", "")
    page = Path("figures/report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == page.count("<article") == 2


def test_what_a_system_is_called_commands_no_terminal(run: Run, working_folder: Path) -> None:
    code, out, _ = run("measure", "exact", "\x1b[31mred=ours.jsonl")
    assert code == 0
    assert "\x1b" not in out
    assert "\x1b" not in run("measure", "exact", "\x1b[31mred=ours.jsonl", "--json").out


def test_every_command_has_a_function_that_takes_what_it_declares() -> None:
    for name, (_, inputs) in MEASURE_COMMANDS.items():
        function = getattr(measure_figures, f"run_measure_{name.replace('-', '_')}")
        assert list(inspect.signature(function).parameters) == [each.name for each in inputs]


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("exact nowhere.jsonl", "nowhere.jsonl: it cannot be read"),
        ("exact empty.jsonl", "empty.jsonl: there is no line in it"),
        ("exact broken.jsonl", "broken.jsonl, line 2: no AnswerAttempt ("),
        ("exact ours.jsonl again/ours.jsonl", "two files are called ours: say which is which"),
        ("exact ungolden.jsonl", "ungolden: no question of it has a `gold` answer"),
        ("battle ours.jsonl --systems ours.jsonl", "ours.jsonl, line 1: no Comparison ("),
        ("battle comparisons.jsonl", "--systems: name the files of the answers"),
        (
            "battle comparisons.jsonl --systems theirs.jsonl",
            'no file of --systems has the answer "Crows hide acorns 0."',
        ),
        ("battle comparisons.jsonl --systems a=ours.jsonl --systems a=theirs.jsonl", "of two"),
        (f"battle comparisons.jsonl {' '.join(WHOSE)} --of us", "use one of ours, theirs"),
        ("best-of ours.jsonl", "ours.jsonl, line 1: no RewardLine ("),
        ("best-of ours.jsonl --reward here", "name both: --reward chooses"),
        ("best-of silent.jsonl --reward a --validation b", "silent: it answers no question"),
        ("best-of bare.jsonl", "bare: a line of it has no validations"),
        ("coverage unscored.jsonl", "unscored: no answer of it has a score and a label"),
        ("supported thumbs.jsonl", "thumbs: nobody rated it on the scales that are wanted"),
        ("frontier nowhere", "nowhere: it cannot be read"),
        ("ranking", "name what is ranked: a file with --triples"),
        ("ranking --triples triples.jsonl --ranker nowhere", "nowhere"),
        ("report nowhere", "nowhere: no figure is in it"),
    ],
)
def test_a_mistake_is_one_sentence(
    run: Run, working_folder: Path, arguments: str, sentence: str
) -> None:
    (working_folder / "again").mkdir()
    answered(working_folder / "again" / "ours.jsonl", OURS)
    write(working_folder / "empty.jsonl")
    lines = (working_folder / "ours.jsonl").read_text().splitlines()
    (working_folder / "broken.jsonl").write_text(f"{lines[0]}\n{lines[1][:50]}\n")
    bare = [Episode(Question("q", "Why?"), "ungolden", answer=Answer("So."))]
    write(working_folder / "ungolden.jsonl", *bare)
    write(working_folder / "unscored.jsonl", Episode(ASKED[0], "unscored", answer=Answer("acorns")))
    write(working_folder / "silent.jsonl", Episode(ASKED[0], "silent"))
    write(working_folder / "bare.jsonl", {"rewards": [1, 2]})
    write(working_folder / "drawn.jsonl", {"rewards": [1, 2], "validations": [1, 2]})
    write(working_folder / "thumbs.jsonl", Rating(ASKED[0], OURS[0], "thumbs", 1.0, "ann"))
    triple = {"question": "Why?", "references": ["So it is.", "No."], "answer": "So."}
    write(working_folder / "triples.jsonl", triple)
    assert sentence in read_error(run, *arguments.split())


def test_without_numpy_it_is_said_what_to_install(working_folder: Path) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; sys.argv = ['rookery', 'measure', 'exact',"
        "'ours.jsonl']; from rookery.__main__ import main; main()"
    )
    there = {**os.environ, "PYTHONPATH": ROOT}
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=there
    )
    assert said.returncode == 2
    assert said.stderr == "rookery: this needs numpy: pip install 'rookery[measure]'\n"
