"""`rookery judge` as somebody uses it who runs a desk."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from socket import create_server
from typing import Any

import msgspec
import pytest
from commands import CORVIDS, Run, batch_file
from own_forms import TONE
from stores import Server, postgres

from rookery.desk import accounts, labelling_queue
from rookery.desk.forms import FORMS, Judgement
from rookery.desk.rater_quality import QualityReport, exclude_judgements
from rookery.desk.snapshots import Snapshot
from rookery.desk.store import Store, find_pages_by_digest
from rookery.library.page_archive import PageArchive
from rookery.records import Answer, Comparison, Question
from rookery.typed_files import read_json_lines

__all__ = ["postgres"]


@pytest.fixture
def place(empty_store: Path, tmp_path: Path) -> Path:
    """A new store."""
    (tmp_path / "desk").mkdir()
    return Path(shutil.copy(empty_store, tmp_path / "desk" / "store.sqlite"))


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pairs(path: Path, count: int) -> Path:
    texts = ({"question": f"Why {n}?", "answers": [f"a{n}", f"b{n}"]} for n in range(count))
    return written(path, *texts)


def judged(place: Path, by: dict[str, list[int]], seconds: float = 100.0) -> None:
    """What each person says of all items that are there, in order, through the desk's own doors."""
    now = [1.7e9]
    with Store(str(place), lambda: now[0]) as store:
        for person, points in by.items():
            accounts.add_person(store, person, "researcher" if person == "Rita" else "labeller")
            for point in points:
                lease = labelling_queue.claim_item(store, person)
                assert lease is not None
                now[0] += seconds
                order = labelling_queue.shuffle_answers(lease.item_id, person, 2)
                version = FORMS["compare_short"].digest
                judgement = Judgement(
                    "",
                    "",
                    "",
                    "done",
                    {"overall": point},
                    version,
                    1,
                    order,
                    False,
                    lease.began,
                    now[0],
                )
                labelling_queue.submit_judgement(store, lease.token, person, judgement)


def read_error(run: Run, *arguments: str | Path) -> str:
    """The sentence of a command that cannot be done."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("rookery: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# The store, and the way in


def test_a_store_is_made_and_made_again_without_loss(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "new" / "store.sqlite"
    first = run("judge", "init", "--store", place)
    assert first.out == f"store: {place}\n"
    assert "rookery judge invite" in first.err
    run("judge", "invite", "Ada", "--store", place)
    assert run("judge", "init", "--store", place).code == 0
    with Store(str(place)) as store:
        assert [each.name for each in accounts.list_people(store)] == ["Ada"]


def test_without_a_place_the_store_is_among_the_users_data(run: Run, home: Path) -> None:
    assert "rookery judge init" in read_error(run, "judge", "stats")
    assert run("judge", "init").out == f"store: {home / 'data' / 'rookery' / 'desk.sqlite'}\n"
    assert run("judge", "stats").out == "all batches: 0 items, 0 judgements that count\n"


def test_an_invite_is_a_link_that_lets_in_once(run: Run, place: Path) -> None:
    code, out, err = run(
        "judge", "invite", "Ada", "--role", "reviewer", "--address", "https://desk.example/",
        "--store", place,
    )  # fmt: skip
    assert code == 0
    found = re.fullmatch(r"https://desk\.example/enter/([\w-]{40,})\n", out)
    assert found is not None
    assert err == "lets Ada in as reviewer, once, within 7 days\n"
    with Store(str(place)) as store:
        session = accounts.redeem_invite(store, found[1])
        person = accounts.find_session_person(store, session)
        assert person is not None
        assert (person.name, person.role) == ("Ada", "reviewer")
        assert accounts.verify_audit_chain(store)


def test_an_invite_without_a_role_says_which_it_is_and_takes_none_away(
    run: Run, place: Path
) -> None:
    for name, role in (("Ben", "labeller"), ("Ada", "admin")):
        if role == "admin":
            run("judge", "invite", name, "--role", role, "--store", place)
        said = run("judge", "invite", name, "--store", place).err
        assert f"lets {name} in as {role}, once" in said
        assert "for another role: --role reader" in said
    with Store(str(place)) as store:
        assert [each.role for each in accounts.list_people(store)] == ["admin", "labeller"]


def test_an_invite_to_where_nothing_listens_says_so(run: Run, place: Path) -> None:
    with create_server(("127.0.0.1", 0)) as listener, Store(str(place)) as store:
        port = listener.getsockname()[1]
        with store.begin_write() as connection:
            at = f"http://127.0.0.1:{port}"
            accounts.write_audit_entry(connection, "ada", "serve", at, store.clock())
        there = run("judge", "invite", "Ada", "--store", place)
    gone = run("judge", "invite", "Ada", "--store", place)
    assert there.out.startswith(f"{at}/enter/")
    assert gone.out.startswith(f"{at}/enter/")
    remedy = f"nothing listens there now: rookery serve --port {port} opens it"
    assert (remedy in there.err, remedy in gone.err) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["invite", "Ada", "--role", "boss"], "use one of reader, labeller, reviewer,"),
        (["invite", " Ada"], "without space around it"),
        (["stats", "--batch", "none"], "there is no such batch"),
        (["export", "out", "--batch", "none"], "there are no items in these batches"),
        (["import", "q.csv"], "--form and --batch"),
        (["import", "q.csv", "--form", "compare", "--batch", "b"], "check the path"),
        (["import", "q.csv", "--form", "contrast", "--batch", "b"], "use one of demonstrate"),
        (["import", "."], "this is no exported snapshot"),
    ],
    ids=range(8),
)
def test_every_mistake_is_a_sentence(
    run: Run, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in read_error(run, "judge", *arguments, "--store", place)


def test_stores_that_are_none_are_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is no database. " * 100)
    for place in (tmp_path / "text", tmp_path, tmp_path / "none", "postgresql://127.0.0.1:9/x"):
        read_error(run, "judge", "stats", "--store", place)
    read_error(run, "judge", "init", "--store", tmp_path / "text" / "below")


# What is to be judged


def test_questions_come_from_csv_and_twice_is_once(run: Run, place: Path, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("id,text,gold\n1,Why?,So.\n2,Who?,\n", encoding="utf-8")
    command = ("judge", "import", path, "--form", "demonstrate", "--batch", "first")
    where = ("--raters", 3, "--priority", 5, "--store", place)
    assert run(*command, *where).out == "batch first: 2 new items, each for 3; 0 known\n"
    assert run(*command, *where).out == "batch first: 0 new items, each for 3; 2 known\n"
    with sqlite3.connect(place) as kept:
        assert (
            kept.execute("select wanted, priority, prelude from items").fetchall()
            == [(3, 5, 0)] * 2
        )
    kept.close()


def test_nothing_is_half_imported(run: Run, place: Path, tmp_path: Path) -> None:
    path = pairs(tmp_path / "c.jsonl", 1500)
    with path.open("a") as lines:
        lines.write('{"question": "Why?", "answers": ["only one"]}\n')
    command = ("judge", "import", path, "--form", "compare", "--batch", "first", "--store", place)
    assert f"{path}, line 1501: compare takes 2 answers" in read_error(run, *command)
    assert run("judge", "stats", "--store", place).out.startswith("all batches: 0 items")


def test_an_attention_check_is_put_before_everybody(run: Run, place: Path, tmp_path: Path) -> None:
    gold = {"expected": {"overall": 1}, "justification": "B says why."}
    path = written(tmp_path / "p.jsonl", {"question": "Why?", "answers": ["a", "b"], "gold": gold})
    command = ("judge", "import", path, "--form", "compare_short", "--batch", "first", "--prelude")
    assert run(*command, "--store", place).out.startswith("batch first: 1 new items, each for 500")


@pytest.mark.slow
def test_saved_answers_are_compared_and_their_pages_can_be_looked_at(
    run: Run, place: Path, home: Path, tmp_path: Path
) -> None:
    """What `rookery ask --batch` wrote, and the same as another method might have written it."""
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    assert run("ask", "--batch", batch_file(tmp_path, 1), "--out", old, *CORVIDS).code == 0
    [answered] = [json.loads(line) for line in old.read_text("utf-8").splitlines()]
    alike = answered | {"question": answered["question"] | {"id": "alike"}}
    longer = answered | {"answer": answered["answer"] | {"text": "In short: nobody knows."}}
    longer["answer"]["claims"] = []
    written(old, answered, alike)
    written(new, alike, longer)
    command = ("judge", "import", old, new, "--form", "compare", "--batch", "methods")
    code, out, err = run(*command, "--store", place)
    assert (code, out) == (0, "batch methods: 1 new items, each for 1; 0 known\n")
    assert err == "left out: 1 questions with the same answer in every file\n"
    digests = {quote["digest"] for quote in answered["answer"]["quotes"]}
    with Store(str(place)) as store:
        assert digests
        assert all(find_pages_by_digest(store, digest) for digest in digests)


def test_pages_that_a_server_kept_in_a_file_are_copied_into_postgresql(
    run: Run, home: Path, place: Path, tmp_path: Path, postgres: Server
) -> None:
    assert run("ask", "Why do crows bring gifts to people?", *CORVIDS).code == 0
    archive, there = home / "data" / "rookery" / "archive.sqlite", postgres.database()
    done = run("judge", "init", "--store", there, "--pages", archive)
    assert (done.code, done.out) == (0, f"store: {there}\n")
    with PageArchive(archive) as theirs, PageArchive(there) as copied:
        pages = list(theirs.iter_pages())
        assert pages
        assert list(copied.iter_pages()) == pages
    assert f"copied: {len(pages)} versions of pages" in done.err
    assert "--store postgresql://" in read_error(run, "judge", "init", "--pages", archive)
    assert "archive.sqlite" in read_error(
        run, "judge", "init", "--store", there, "--pages", tmp_path / "x"
    )


# What came of it


def test_one_judgement_is_counted_as_one(run: Run, place: Path, tmp_path: Path) -> None:
    path = pairs(tmp_path / "c.jsonl", 1)
    command = ("judge", "import", path, "--form", "compare_short", "--batch", "first")
    run(*command, "--raters", "3", "--store", place)
    judged(place, {"Ada": [1]})
    out = run("judge", "stats", "--store", place).out
    assert out == "all batches: 1 item, 1 judgement that counts\n"


def test_stats_show_the_board(run: Run, place: Path, tmp_path: Path) -> None:
    path = pairs(tmp_path / "c.jsonl", 4)
    command = ("judge", "import", path, "--form", "compare_short", "--batch", "first")
    run(*command, "--raters", "3", "--store", place)
    judged(place, {"Ada": [1, 1, -1, 0], "Rita": [1, -1, -1, 0]})
    with Store(str(place)) as store:
        exclude_judgements(store, "person", "Rita", "\x1b[31ma try", "Ada", batch="first")
    code, out, err = run("judge", "stats", "--store", place)
    assert (code, err) == (0, "")
    assert out.startswith("all batches: 4 items, 4 judgements that count\nleft out: 4 ")
    board = QualityReport.from_json(
        run("judge", "stats", "--json", "--batch", "first", "--store", place).out
    )
    assert (board.batch, board.items, board.judgements) == ("first", 4, 4)
    ada = board.people[0]
    assert (ada.name, ada.done, ada.seconds) == ("Ada", 4, 100.0)
    assert [each.judgements for each in board.exclusions] == [4]
    assert "\x1b" not in run("judge", "stats", "--json", "--store", place).out


@pytest.mark.slow
def test_stats_have_the_agreement_of_judges_for_programs(
    run: Run, place: Path, tmp_path: Path
) -> None:
    path = pairs(tmp_path / "c.jsonl", 4)
    command = ("judge", "import", path, "--form", "compare_short", "--batch", "first")
    run(*command, "--raters", "3", "--store", place)
    judged(place, {"Ada": [1, 1, -1, 0], "Rita": [1, -1, -1, 0], "Ben": [2, 2, -2, -1]})
    found = QualityReport.from_json(run("judge", "stats", "--json", "--store", place).out)
    # Rita with Ada: 3 of 4; with Ben: 2 and a half of 4.
    assert [rate.credit.value for rate in found.rates][1] == 5.5 / 8
    [pair] = [each for each in found.pairs if (each.one, each.other) == ("Ada", "Ben")]
    assert (pair.credit.value, pair.credit.items) == (0.875, 4)
    [alpha] = [each for each in found.alphas if each.field == "overall"]
    assert (alpha.form, alpha.level, alpha.judgements) == ("compare_short", "ordinal", 12)
    assert alpha.alpha.low is None  # of four items nothing is told


def test_an_export_is_read_by_those_who_learn_and_comes_back(
    run: Run, place: Path, tmp_path: Path
) -> None:
    path = pairs(tmp_path / "c.jsonl", 3)
    command = ("judge", "import", path, "--form", "compare_short", "--batch", "first")
    run(*command, "--store", place)
    judged(place, {"Ada": [1, -2, 0]})
    out = tmp_path / "out"
    code, said, err = run("judge", "export", out, "--name", "march", "--store", place)
    assert (code, err) == (0, "")
    assert f"{out / 'comparisons.jsonl'}: 3 lines\n" in said
    snapshot = Snapshot.from_json((out / "manifest.json").read_bytes())
    assert said.splitlines()[-1] == f"snapshot march: {snapshot.digest}"
    weights = [each.weights for each in read_json_lines(out / "comparisons.jsonl", Comparison)]
    assert weights == [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)]
    before = {file.name: file.read_bytes() for file in out.iterdir()}

    again = run(
        "judge", "export", tmp_path / "2", "--name", "march", "--batch", "x", "--store", place
    )
    assert again.code == 0
    assert "--batch and --form change nothing" in again.err
    assert "choose another --name" in again.err
    assert {file.name: file.read_bytes() for file in (tmp_path / "2").iterdir()} == before

    assert run("judge", "export", out, "--store", place).code == 0
    dated = run("judge", "export", out, "--store", place)
    assert re.search(r"^snapshot out \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: ", dated.out, re.M)
    assert run("judge", "export", out, "--name", "march", "--store", place).code == 0

    there = tmp_path / "there.sqlite"
    run("judge", "init", "--store", there)
    came = run("judge", "import", out, "--store", there)
    assert came.out == "snapshot march: 3 items and 3 judgements that were not there\n"
    assert run("judge", "export", tmp_path / "3", "--name", "march", "--store", there).code == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "3").iterdir()} == before


@pytest.mark.slow
def test_an_export_to_a_full_disk_is_a_sentence(run: Run, place: Path, tmp_path: Path) -> None:
    run("judge", "import", pairs(tmp_path / "c.jsonl", 300), "--form", "compare", "--batch", "b",
        "--store", place)  # fmt: skip
    small = f"ulimit -f 4; exec rookery judge export {tmp_path / 'out'} --store {place}"
    command = small.replace("exec rookery", f"exec {sys.executable} -m rookery")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "make room" in done.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert run("judge", "export", tmp_path / "out", "--store", place).code == 0


def test_an_export_becomes_rows_of_other_libraries(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "comparisons.jsonl", tmp_path / "rows.jsonl"
    answers = (Answer("They like us."), Answer("No."))
    source.write_text(Comparison(Question("1", "Why?"), answers, (1.0, 0.0), "ada").to_json())
    done = run("judge", "convert", source, out)
    assert (done.code, done.out) == (0, f"{out}: 1 lines\n")
    assert msgspec.json.decode(out.read_bytes())["chosen"] == "They like us."
    wrong = run("judge", "convert", tmp_path / "none.jsonl", out)
    assert wrong.code == 2
    assert "none.jsonl: it cannot be read" in wrong.err


# Own forms


def test_a_form_is_checked_added_and_shown(run: Run, place: Path, tmp_path: Path) -> None:
    path = tmp_path / "tone.toml"
    path.write_text(TONE, encoding="utf-8")
    code, out, err = run("judge", "form", "check", path)
    assert (code, err) == (0, "")
    assert out == f"{path}: form tone, 2 steps, 6 questions, 2 answers: nothing is wrong\n"
    assert "tone" not in run("judge", "form", "list", "--store", place).out
    assert run("judge", "form", "add", path, "--store", place).out.endswith(": version 1\n")
    path.write_text(TONE.replace("Is it friendly?", "Is it kind?"), encoding="utf-8")
    assert run("judge", "form", "add", path, "--store", place).out.endswith(": version 2\n")
    assert re.search(
        r"^tone +2 +3 +2 +Tone", run("judge", "form", "list", "--store", place).out, re.MULTILINE
    )
    shown = ("judge", "form", "show", "tone", "--store", place)
    assert run(*shown).out == path.read_text(encoding="utf-8")
    assert "name one of demonstrate" in read_error(
        run, "judge", "form", "show", "x", "--store", place
    )


def test_the_first_problem_of_every_file_is_a_line(run: Run, place: Path, tmp_path: Path) -> None:
    good, bad, taken = (tmp_path / f"{name}.toml" for name in ("good", "bad", "taken"))
    good.write_text(TONE, encoding="utf-8")
    bad.write_text(TONE.replace("minutes = 3", "minutes = 0").replace('"sure", "c', '"c'), "utf-8")
    taken.write_text(run("judge", "form", "show", "thumbs").out, encoding="utf-8")
    code, out, err = run("judge", "form", "check", good, bad, taken)
    assert code == 2
    assert out.startswith(f"{good}: ")
    assert [line.partition(":")[0] for line in err.splitlines()] == [str(bad), str(taken)]
    assert "give yours another name" in read_error(
        run, "judge", "form", "add", taken, "--store", place
    )
    assert '"minutes" is 0' in read_error(run, "judge", "form", "add", bad, "--store", place)
    assert "check the path" in read_error(run, "judge", "form", "check", tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes("# é".encode("latin-1"))
    assert "UTF-8" in read_error(run, "judge", "form", "check", tmp_path / "latin.toml")


def test_a_batch_is_made_from_a_form_s_file_or_not_at_all(
    run: Run, place: Path, tmp_path: Path
) -> None:
    form, items = tmp_path / "tone.toml", pairs(tmp_path / "c.jsonl", 2)
    form.write_text(TONE.replace("minutes = 3", ""), encoding="utf-8")
    command = ("judge", "import", items, "--form", form, "--batch", "first", "--store", place)
    assert "the field `minutes` is missing" in read_error(run, *command)
    form.write_text(TONE, encoding="utf-8")
    three = written(tmp_path / "three.jsonl", {"question": "Why?", "answers": ["a", "b", "c"]})
    assert "takes 2 answers" in read_error(run, "judge", "import", three, *command[3:])
    assert "no such project" in read_error(run, *command, "--project", "nope")
    assert "tone" not in run("judge", "form", "list", "--store", place).out
    assert run(*command).out == "batch first: 2 new items, each for 1; 0 known\n"
    again = ("judge", "import", items, "--form", "tone", "--batch", "first", "--store", place)
    assert run(*again).out == "batch first: 0 new items, each for 1; 2 known\n"
    out = tmp_path / "out"
    code, said, _ = run("judge", "export", out, "--csv", "--store", place)
    assert code == 0
    assert f"{out / 'forms.jsonl'}: 1 lines\n" in said
    assert (out / "values.csv").read_text("utf-8").startswith("batch,item,question_id,")
