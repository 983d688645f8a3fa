"""Files of questions, and ends that come too soon: Ctrl-C, kills, full disks, closed pipes."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import CORVIDS, GIFTS, ROOT, Run, article, batch_file, started
from models import Asking, serving

from rookery.answers.answer_results import AskResult, lock_output
from rookery.library.libraries import get_bundled_folder

BATCH = "ask", "--batch"

# Batches


@pytest.mark.slow
def test_a_killed_batch_goes_on_to_the_same_bytes(home: Path, run: Run, tmp_path: Path) -> None:
    asked = batch_file(tmp_path, 18)
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    slow = (*CORVIDS, "--workers", "1")
    with started(home, "ask", "--batch", asked, "--out", killed, *slow) as batch:
        while not killed.exists() or killed.read_bytes().count(b"\n") < 3:
            assert batch.poll() is None, batch.communicate()
            time.sleep(0.005)
        batch.kill()
    assert 3 <= killed.read_bytes().count(b"\n") < 18
    code, out, err = run("ask", "--batch", asked, "--out", killed, *CORVIDS)
    assert (code, out) == (0, "")
    assert "18 questions: " in err
    assert "were there already" in err
    assert run("ask", "--batch", asked, "--out", whole, *CORVIDS).code == 0
    assert killed.read_bytes() == whole.read_bytes()
    answers = [AskResult.from_json(line) for line in whole.read_bytes().splitlines()]
    wanted = [json.loads(line)["id"] for line in asked.read_text().splitlines()]
    assert [answered.question.id for answered in answers] == wanted
    assert run("cite", "verify", whole).code == 0


@pytest.mark.slow
def test_a_batch_of_one_from_standard_input_is_what_ask_prints(run: Run, tmp_path: Path) -> None:
    asked, out = json.dumps({"id": "1", "text": GIFTS}), tmp_path / "out.jsonl"
    assert run("ask", "--batch", "-", "--out", out, *CORVIDS, typed=asked).code == 0
    assert out.read_text("utf-8") == run("ask", GIFTS, *CORVIDS, "--json").out


@pytest.mark.slow
def test_every_process_gives_the_same_bytes(home: Path) -> None:
    """Words in a set stand in another order in every process; sums of floats must not show it."""
    asked = ("ask", "Why do crows gather round a dead crow?", *CORVIDS, "--json")
    seeds = [{"PYTHONHASHSEED": str(seed)} for seed in (0, 1, 2, 3)]
    commands = [started(home, *asked, more=seed) for seed in seeds]
    ended = [command.communicate() for command in commands]
    assert [error for _, error in ended] == [b""] * 4
    assert len({out for out, _ in ended}) == 1


def test_a_bad_line_is_named_before_anything_is_answered(run: Run, tmp_path: Path) -> None:
    asked = batch_file(tmp_path, 2)
    asked.write_text(asked.read_text() + '{"id": "9"}\n')
    code, _, err = run("ask", "--batch", asked, "--out", tmp_path / "out.jsonl", *CORVIDS)
    assert code == 2
    assert "questions.jsonl, line 3: not a question" in err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_that_another_batch_writes_is_refused_and_unchanged(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    asked, out = docs.parent / "q.jsonl", tmp_path / "out.jsonl"
    out.write_bytes(b'{"question":')  # half a line, which the other is writing
    batch = (*BATCH, asked, "--out", out, "--in", docs)
    with lock_output(out):
        for more in ((), ("--force",)):
            code, said, err = run(*batch, *more)
            assert (code, said) == (2, "")
            assert f"{out}: another batch writes it" in err
            assert "wait until it has finished, or name another --out" in err
            assert out.read_bytes() == b'{"question":'
    assert run(*batch).code == 0
    assert out.read_bytes().count(b"\n") == 1


def test_a_batch_that_fails_before_its_first_answer_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt), lock_output(out):
        raise KeyboardInterrupt
    assert not out.exists()
    out.write_bytes(b'{"question":')
    with pytest.raises(KeyboardInterrupt), lock_output(out):
        raise KeyboardInterrupt
    assert out.read_bytes() == b'{"question":'


@pytest.mark.slow
def test_two_batches_at_once_write_each_line_once(home: Path, run: Run, tmp_path: Path) -> None:
    asked, out = batch_file(tmp_path, 18), tmp_path / "out.jsonl"
    batch = (*BATCH, asked, "--out", out, *CORVIDS)
    commands = [started(home, *batch, "--workers", "2") for _ in range(2)]
    said = [command.communicate()[1] for command in commands]
    codes = [command.returncode for command in commands]
    refused = sum(b"another batch writes it" in err for err in said)
    assert (codes.count(0), codes.count(2)) == (2 - refused, refused)
    ids = [json.loads(line)["question"]["id"] for line in out.read_bytes().splitlines()]
    assert ids == [json.loads(line)["id"] for line in asked.read_text().splitlines()]


@pytest.mark.slow
def test_a_file_of_other_answers_is_left_alone(run: Run, tmp_path: Path) -> None:
    asked, out = batch_file(tmp_path, 1), tmp_path / "out.jsonl"
    other = run("ask", "Can jays plan?", *CORVIDS, "--json").out.replace('"id":"1"', '"id":"c01"')
    out.write_text(other, "utf-8")  # the same id, but another question
    code, _, err = run("ask", "--batch", asked, "--out", out, *CORVIDS)
    assert code == 2
    assert "line 1 does not answer the question of that line as it is now" in err
    assert "--force" in err
    assert out.read_text("utf-8") == other


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_a_sentence(home: Path, run: Run, tmp_path: Path) -> None:
    asked = batch_file(tmp_path, 1)
    code, _, err = run("ask", "--batch", asked, "--out", "/dev/full", *CORVIDS)
    assert code == 2
    assert "/dev/full: No space left on device: make room and run the same command" in err
    with Path("/dev/full").open("wb") as full:
        command = started(home, "browse", get_bundled_folder() / "faces.html", out=full.fileno())
        assert b"No space left on device" in command.communicate()[1]
    assert command.returncode == 2


# What a file of answers was made with


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "jays.html").write_text(article("Jays", "Jays bury acorns in September."))
    (tmp_path / "q.jsonl").write_text('{"id": "1", "text": "What do jays bury?"}\n')
    return tmp_path / "docs"


@pytest.mark.slow
def test_other_settings_are_refused_and_named(run: Run, docs: Path) -> None:
    asked, out = docs.parent / "q.jsonl", docs.parent / "a.jsonl"
    batch = (*BATCH, asked, "--out", out)
    assert run(*batch, "--in", docs).code == 0
    before = out.read_bytes()
    other = docs.parent / "other"
    other.mkdir()
    (other / "crows.html").write_text(article("Crows", "Crows bury nuts."))
    (docs.parent / "said.jsonl").write_text('"Jays bury acorns [1]."')
    script = f"script:{docs.parent / 'said.jsonl'}"
    refused = {
        ("--in", other): f"--in {docs}, now {other}",
        ("--in", docs, "--in", other): f"--in {docs}, now {docs} {other}",
        (): f"--in {docs}, now not given",
        ("--engine", "brave"): "now not given; --engine auto, now brave",
        ("--in", docs, "--decline", "0.3"): "--decline not given, now 0.3",
        ("--in", docs, "-q", "2"): "--quotes not given, now 2",
        ("--in", docs, "--both-sides"): "--method extract, now --both-sides",
        ("--in", docs, "--allow-private"): "--allow-private off, now on",
        ("--in", docs, "--method", "webglm", "--model", script): "--method extract, now webglm",
        ("--in", docs, "--offline"): "--offline off, now on",
    }
    for settings, said in refused.items():
        code, _, err = run(*batch, *settings)
        assert (code, said in err) == (2, True), (settings, err)
        assert "name another --out, or answer all again with --force" in err
        assert out.read_bytes() == before
    same = run(*batch, "--in", docs.parent / "other" / ".." / "docs", "--engine", "brave")
    assert (same.code, "1 were there already" in same.err) == (0, True)  # the same folder
    assert "changed" not in same.err
    assert run(*batch, "--in", other, "--force").code == 0
    [line] = out.read_bytes().splitlines()
    made_with = AskResult.from_json(line).made_with
    assert made_with is not None
    assert made_with.settings.places == (str(other),)
    assert b"Crows bury nuts." in line


@pytest.mark.slow
def test_a_model_s_settings_are_told_apart_and_its_caps_are_not(run: Run, docs: Path) -> None:
    asked, out, said = (docs.parent / name for name in ("q.jsonl", "a.jsonl", "said.jsonl"))
    said.write_text('"They bury acorns in September [1]."\n' * 4)
    by_model = ("--in", docs, "--method", "webglm", "--model", f"script:{said}")
    batch = (*BATCH, asked, "--out", out, *by_model)
    assert run(*batch, "--cap-tokens", "100000").code == 0
    assert "1 were there already" in run(*batch, "--cap-tokens", "200000").err
    assert "-n not given, now 2" in run(*batch, "-n", "2").err
    said.write_text('"Acorns are what they bury [1]."\n' * 4)
    changed = run(*batch)
    assert (changed.code, "--model script:" in changed.err) == (2, True)  # another content


@pytest.mark.slow
def test_a_file_that_is_moved_still_knows(run: Run, docs: Path) -> None:
    asked, out, moved = docs.parent / "q.jsonl", docs.parent / "a.jsonl", docs.parent / "m.jsonl"
    assert run(*BATCH, asked, "--out", out, "--in", docs).code == 0
    out.rename(moved)
    code, _, err = run(*BATCH, asked, "--out", moved, "--in", docs, "--decline", "0.5")
    assert (code, "--decline not given, now 0.5" in err) == (2, True)


@pytest.mark.slow
def test_changed_documents_are_noted_and_asked_anew_by_force(run: Run, docs: Path) -> None:
    asked, out = docs.parent / "q.jsonl", docs.parent / "a.jsonl"
    batch = (*BATCH, asked, "--out", out, "--in", docs)
    run(*batch)
    (docs / "jays.html").write_text(article("Jays", "Jays bury coins in September."))
    before = out.read_bytes()
    code, _, err = run(*batch)
    assert (code, out.read_bytes()) == (0, before)
    assert "1 of the answers that are there already were made before the documents changed" in err
    assert "--force answers all again" in err
    assert run(*batch, "--force").code == 0
    assert b"Jays bury coins" in out.read_bytes()
    assert "changed" not in run(*batch).err


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"text": "What do jays hide?"},
        {"gold": ["acorns"]},
        {"pages": [{"url": "x:", "title": "", "text": "Jays."}]},
        {"source": "new"},
    ],
)
def test_a_question_that_changed_is_not_taken_as_answered(
    run: Run, docs: Path, change: dict[str, object]
) -> None:
    asked, out = docs.parent / "q.jsonl", docs.parent / "a.jsonl"
    batch = (*BATCH, asked, "--out", out, "--in", docs)
    run(*batch)
    before = out.read_bytes()
    asked.write_text(json.dumps({"id": "1", "text": "What do jays bury?", **change}) + "\n")
    code, _, err = run(*batch)
    assert (code, "line 1 does not answer the question" in err) == (2, True)
    assert out.read_bytes() == before
    assert run(*batch, "--force").code == 0
    question = json.loads(out.read_text())["question"]
    assert question["text"] == change.get("text", "What do jays bury?")


@pytest.mark.slow
def test_answers_of_version_0_1_go_on_and_say_what_is_not_known(run: Run, docs: Path) -> None:
    asked, out = docs.parent / "q.jsonl", docs.parent / "a.jsonl"
    batch = (*BATCH, asked, "--out", out, "--in", docs)
    run(*batch)
    old = json.loads(out.read_text())
    del old["made_with"]
    out.write_text(json.dumps(old, separators=(",", ":")) + "\n")
    asked.write_text(asked.read_text() + '{"id": "2", "text": "When do jays bury acorns?"}\n')
    code, _, err = run(*batch)
    assert (code, out.read_bytes().count(b"\n")) == (0, 2)
    assert "1 of the answers that are there already do not say what they were made with" in err
    code, _, err = run(*batch, "--both-sides")
    assert (code, "--method extract, now --both-sides" in err) == (2, True)
    assert run("cite", "verify", out).code == 0
    assert run("measure", "citations", out).code == 0


@pytest.mark.slow
def test_an_interrupted_force_leaves_new_answers_only(home: Path, run: Run, tmp_path: Path) -> None:
    asked, out = batch_file(tmp_path, 12), tmp_path / "out.jsonl"
    batch = (*BATCH, asked, "--out", out, *CORVIDS)
    assert run(*batch).code == 0
    fresh = ("--decline", "0.3")
    with started(home, *batch, *fresh, "--force", "--workers", "1") as forced:
        while True:
            written = out.read_bytes()
            if b'"decline":0.3' in written and written.count(b"\n") >= 3:
                break
            assert forced.poll() is None, forced.communicate()
        os.killpg(forced.pid, signal.SIGINT)
        err = forced.communicate(timeout=120)[1]
    told = b"leave --force out" in err, b"the same command goes on" in err
    assert (forced.returncode, *told) == (130, True, False)
    lines = out.read_bytes().splitlines(keepends=True)
    answers = [AskResult.from_json(line) for line in lines if line.endswith(b"\n")]
    assert 3 <= len(answers) < 12
    declines = {each.made_with and each.made_with.settings.decline for each in answers}
    assert declines == {0.3}
    assert "--decline 0.3, now not given" in run(*batch).err  # not taken for the old answers
    assert run(*batch, *fresh).code == 0
    assert run(*BATCH, asked, "--out", tmp_path / "whole.jsonl", *CORVIDS, *fresh).code == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_force_overwrites_nothing_but_answers(run: Run, docs: Path) -> None:
    asked, notes = docs.parent / "q.jsonl", docs.parent / "notes.txt"
    for text in ("my notes\n", "my notes without an end", '{"id": "1"}\n'):
        notes.write_text(text)
        for more in ((), ("--force",)):
            code, _, err = run(*BATCH, asked, "--out", notes, "--in", docs, *more)
            assert (code, "notes.txt, line 1" in err) == (2, True)
            assert notes.read_text() == text


@pytest.mark.slow
def test_standard_output_is_written_to_and_never_read(home: Path, run: Run, docs: Path) -> None:
    asked, out = docs.parent / "q.jsonl", docs.parent / "a.jsonl"
    batch = (*BATCH, asked, "--in", docs)
    assert run(*batch, "--out", out).code == 0
    code, said, err = run(*batch, "--out", "-")
    assert (code, said) == (0, out.read_text())
    assert err == "1 question: 1 answered\n"
    assert not Path("-").exists()
    for name in ("-", "/dev/stdout"):  # a file that the shell has opened, with answers in it
        with out.open("ab") as more, started(home, *batch, "--out", name, out=more.fileno()) as ask:
            assert b"there already" not in ask.communicate()[1]
        assert ask.returncode == 0
    assert out.read_text() == 3 * said


# Ends that come too soon


@pytest.mark.slow
def test_ctrl_c_while_indexing_is_a_sentence_and_the_next_run_goes_on(
    home: Path, run: Run, tmp_path: Path
) -> None:
    page = article("Page", "The rain in this place is steady. " * 400)
    for number in range(300):
        (tmp_path / f"{number}.html").write_text(page)
    (tmp_path / "jays.html").write_text(article("Jays", "Jays bury acorns in September."))
    place = tmp_path / "home"
    with started(place, "ask", "What do jays bury?", "--in", tmp_path) as indexing:
        while not list(place.glob("cache/rookery/folders/*/manifest.sqlite")):
            assert indexing.poll() is None, indexing.communicate()
            time.sleep(0.005)
        os.killpg(indexing.pid, signal.SIGINT)
        out, err = indexing.communicate(timeout=120)
    assert (indexing.returncode, out) == (130, b"")
    assert err.decode().startswith("rookery: stopped; what was finished is kept")
    assert err.count(b"\n") == 1
    with started(place, "ask", "What do jays bury?", "--in", tmp_path) as again:
        assert b"Jays bury acorns in September." in again.communicate(timeout=120)[0]
    assert again.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_batch_stops_its_workers_silently(
    home: Path, tmp_path: Path, number: int, code: int
) -> None:
    asked, out = batch_file(tmp_path, 30), tmp_path / "out.jsonl"
    with started(home, "ask", "--batch", asked, "--out", out, *CORVIDS) as batch:
        while not out.exists() or b"\n" not in out.read_bytes():
            assert batch.poll() is None, batch.communicate()
            time.sleep(0.005)
        os.killpg(batch.pid, number)
        err = batch.communicate(timeout=120)[1]
    assert batch.returncode == code
    assert err.count(b"\n") == 1, err.decode()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of children")
@pytest.mark.parametrize("what", ["batch", "shards"])
def test_what_is_stopped_while_its_workers_start_is_silent(
    home: Path, tmp_path: Path, what: str
) -> None:
    commands: dict[str, tuple[str | Path, ...]] = {
        "batch": ("ask", "--batch", batch_file(tmp_path, 30), "--out", tmp_path / "out", *CORVIDS),
        "shards": ("index", "build", CORVIDS[1], "--shards", "4", "--out", tmp_path / "shards"),
    }
    for late in (0.0, 0.05, 0.2):
        with started(home, *commands[what], "--workers", "3") as work:
            lists = Path(f"/proc/{work.pid}/task/{work.pid}/children")
            while not lists.read_text().split():
                assert work.poll() is None, work.communicate()
                time.sleep(0.001)
            time.sleep(late)  # some start, and some load modules meanwhile
            os.killpg(work.pid, signal.SIGINT)
            err = work.communicate(timeout=120)[1]
        assert (work.returncode, err.count(b"\n")) == (130, 1), err.decode()


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(home: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A jay is a bird that likes acorns.\n\n" * 20_000)
    with started(home, "browse", tmp_path / "long.txt") as command:
        assert command.stdout is not None
        assert command.stdout.read(6) == b"A jay "
        command.stdout.close()
        assert command.wait(120) == 0
        assert command.stderr is not None
        assert command.stderr.read() == b""


def test_the_wheel_holds_the_bundled_pages_the_catalogs_and_the_marker_of_types() -> None:
    building = pytest.importorskip("hatchling.builders.wheel")
    files = building.WheelBuilder(ROOT).recurse_included_files()
    held = {file.distribution_path for file in files}
    pages = {path for path in get_bundled_folder().rglob("*") if path.is_file()}
    others = {"rookery/py.typed", "rookery/shell/locale/de/LC_MESSAGES/rookery.mo"}
    assert {str(path.relative_to(ROOT)) for path in pages} | others <= held
    assert not any(name.startswith(("tests", "bench", "docs")) for name in held)


@pytest.mark.slow
def test_ctrl_c_ends_a_batch_in_which_every_model_hangs(home: Path, tmp_path: Path) -> None:
    def hang(asking: Asking) -> None:
        asking.server.closing.wait(60)

    files = ("--batch", batch_file(tmp_path, 20), "--out", tmp_path / "a.jsonl")
    with serving(hang) as server:
        by_model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        asking = started(home, "ask", *files, *CORVIDS, *by_model)
        until = time.monotonic() + 120
        while len(server.asked) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(asking.pid, signal.SIGINT)
        _, said = asking.communicate(timeout=120)
    assert (asking.returncode, len(server.asked) > 1) == (130, True)
    assert b"the same command goes on from there" in said


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_the_command_answers_on_a_cluster(run: Run, tmp_path: Path, cluster: Any) -> None:
    asked = tmp_path / "questions.jsonl"
    texts = ["Why do crows bring gifts to people?", "Can ravens plan for the future?", "Who?"]
    asked.write_text(
        "".join(f'{{"id": "{n}", "text": "{each}"}}\n' for n, each in enumerate(texts))
    )
    batch = ("ask", "--batch", asked, "--in", "rookery:corvids", "--out")
    assert run(*batch, tmp_path / "one.jsonl").code == 0
    code, _, err = run(*batch, tmp_path / "many.jsonl", "--ray", cluster.address, "--workers", 2)
    assert code == 0, err
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
