"""`rookery index`: what is listed, refreshed, removed and pruned, and what is left alone."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path

import msgspec
import pytest
from commands import CORVIDS, GIFTS, ROOT, Run
from stage import Said, Stage

from rookery.answers.answer_results import AskResult
from rookery.cli.index_command import ShardsReport
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import INDEX_NOTE_FILE, hold_lock
from rookery.records import Page
from rookery.settings import ARCHIVE, get_cache_folder, get_data_folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "jays.txt").write_text("Jays bury acorns in the moss.")
    (folder / "copy.md").write_text("# Ravens\n\nRavens croak at noon.")
    (folder / "noise.txt").write_bytes(bytes(range(256)) * 4)
    (folder / "photo.png").write_bytes(b"\x89PNG")
    return folder


def listed(run: Run) -> tuple[list[dict[str, object]], dict[str, dict[str, object]]]:
    code, out, err = run("index", "list", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    return said["indexes"], {Path(store["path"]).name: store for store in said["stores"]}


def unused_for(days: float, index: object) -> None:
    """Makes an index look as if it had been used last so many days ago."""
    [note] = get_cache_folder().glob(f"*/{index}/{INDEX_NOTE_FILE}")
    then = time.time() - days * 86_400
    os.utime(note, (then, then))


def test_lock_files_are_not_listed(run: Run) -> None:
    get_data_folder().mkdir(parents=True, exist_ok=True)
    for name in ("documents.lock", "documents.uploads.lock", "desk.sqlite"):
        (get_data_folder() / name).touch()
    assert {"desk.sqlite"} <= listed(run)[1].keys() <= {"desk.sqlite", "archive.sqlite"}
    assert ".lock" not in run("index", "list").out


@pytest.mark.slow
def test_what_was_left_out_is_told_with_an_answer_and_in_json(run: Run, docs: Path) -> None:
    (docs / "same.txt").write_text("Jays bury acorns in the moss.")
    code, out, err = run("ask", "What do jays bury?", "--in", docs)
    assert code == 0
    assert (
        "left out: 1 of types that are not read (photo.png); 1 binary, not text (noise.txt); "
        in err
    )
    assert "1 copies of others (same.txt)" in err
    assert out.startswith("Jays bury acorns in the moss.[1]\n\n[1] jays.txt · at the top")
    assert "[2]" not in out, "a copy supports nothing"
    said = json.loads(run("ask", "What do jays bury?", "--in", docs, "--json").out)
    assert said["counts"] == {"quotes": 1, "verified": 1}
    assert said["skipped"] == [
        {"reason": "unsupported_type", "count": 1, "examples": [str(docs / "photo.png")]},
        {"reason": "binary", "count": 1, "examples": [str(docs / "noise.txt")]},
        {"reason": "copy", "count": 1, "examples": [str(docs / "same.txt")]},
    ]


@pytest.mark.slow
def test_patterns_choose_and_two_settings_do_not_mix(run: Run, docs: Path) -> None:
    asked = ("ask", "What do jays bury?", "--in", docs, "--json")
    assert run(*asked, "--glob", "*.md").code == 3
    assert run(*asked).code == 0
    assert run(*asked, "--exclude", "jays.*").code == 3
    assert run(*asked).code == 0
    indexes, _ = listed(run)
    assert [(i["glob"], i["exclude"], i["pages"]) for i in indexes] == [
        ([], [], 2),
        ([], ["jays.*"], 1),
        (["*.md"], [], 1),
    ]
    assert "goes" not in run(*asked, "--glob", "*.nothing").err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--glob", "!", "--in", "."), "write it as in a .gitignore"),
        (("--glob", "*.md"), "name one with --in"),
        (("--exclude", "x", "--in", "https://example.invalid/"), "name one with --in"),
    ],
)
def test_mistaken_patterns_are_sentences(
    run: Run,
    options: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("ask", "Why?", *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_list_tells_what_each_index_is_of_and_every_store(run: Run, docs: Path) -> None:
    assert "nothing is stored" in run("index", "list").out
    run("ask", "What do jays bury?", "--in", docs)
    (get_cache_folder() / "mystery").write_bytes(bytes(1234))
    [index], stores = listed(run)
    assert (index["kind"], index["places"], index["missing"]) == ("folder", [str(docs)], [])
    assert (index["pages"], index["passages"], index["failed"]) == (2, 2, [])
    skipped = index["skipped"]
    assert isinstance(skipped, list)
    assert [(Path(one["what"]).name, one["outcome"], one["detail"]) for one in skipped] == [
        ("noise.txt", "binary", "its bytes are not text"),
        ("photo.png", "unsupported_type", "a picture"),
    ]
    size = sum(path.stat().st_size for path in (get_cache_folder() / "folders").rglob("*.*"))
    assert 0 < size <= int(str(index["bytes"]))
    assert (stores[ARCHIVE]["pages"], stores[ARCHIVE]["versions"]) == (2, 2)
    assert stores["mystery"]["bytes"] == 1234
    assert {"folders", ARCHIVE} <= set(stores)
    out = run("index", "list").out
    assert f"folder  {docs}" in out
    assert "2 pages · 2 passages · " in out
    assert "1 binary, not text (noise.txt)" in out
    assert (
        f"left out: {docs}/noise.txt: binary, its bytes are not text"
        in run("index", "list", "--skipped").out
    )
    (docs / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    run("ask", "What do jays bury?", "--in", docs)
    assert f"{docs}/bad.pdf: malformed, " in run("index", "list", "--skipped").out


@pytest.mark.slow
def test_refresh_reads_what_changed_with_the_patterns_of_each_index(run: Run, docs: Path) -> None:
    run("ask", "What do jays bury?", "--in", docs, "--glob", "*.txt")
    (docs / "new.txt").write_text("Rooks nest in elms.")
    (docs / "new.md").write_text("# Rooks\n\nNot for this index.")
    for file in docs.iterdir():  # what changed just now may change again, and is read twice
        os.utime(file, (0, 0))
    run("index", "refresh", docs)
    (docs / "new.txt").write_text("Rooks nest in old elms.")
    os.utime(docs / "new.txt", (1, 1))
    code, out, _ = run("index", "refresh", docs)
    assert (code, out) == (0, f"{docs}: 2 pages · 1 read now · 4 left out\n")
    other = docs.parent / "other.txt"
    other.write_text("Choughs whistle.")
    told = json.loads(run("index", "refresh", other, docs, "--json").out)["refreshed"]
    assert [(one["place"], one["pages"], one["read"], one["problem"]) for one in told] == [
        (str(other), 1, 1, ""),
        (str(docs), 2, 0, ""),
    ]
    code, out, _ = run("index", "refresh", docs / "nowhere", docs)
    assert code == 2
    assert "not refreshed: there is no such file or folder" in out
    assert f"{docs}: 2 pages" in out


@pytest.mark.slow
def test_refresh_crawls_a_site_again_and_keeps_it_where_it_is_gone(run: Run, web: Stage) -> None:
    site = f"{web.base}/birds/"
    run("ask", "What do jays bury?", "--in", site, "--allow-private")
    web.visits.clear()
    run("ask", "What do jays bury?", "--in", site, "--allow-private")
    assert web.visits == []
    code, out, _ = run("index", "refresh", site, "--allow-private")
    assert (code, out) == (0, f"{site}: 2 pages · 2 read now\n")
    assert "/birds/jays.html" in {visit.path for visit in web.visits}
    web.routes.clear()
    web.routes["/birds/"] = Said("gone", status=500)
    code, out, _ = run("index", "refresh", site, "--allow-private")
    assert code == 4
    assert f"{site}: not refreshed: " in out
    [index], _ = listed(run)
    assert (index["kind"], index["places"], index["pages"]) == ("site", [site], 2)


@pytest.mark.slow
def test_remove_takes_the_index_and_leaves_the_quotes(run: Run, docs: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(run("ask", "What do jays bury?", "--in", docs, "--json").out)
    assert run("index", "remove", docs, "--dry-run").out.startswith("would remove the index of")
    assert len(listed(run)[0]) == 1
    code, out, _ = run("index", "remove", docs)
    assert code == 0
    assert out.startswith(f"removed the index of {docs}\nfreed ")
    assert listed(run)[0] == []
    assert run("cite", "verify", answer).code == 0
    code, out, err = run("index", "remove", docs)
    assert (code, out) == (2, "")
    assert "there is no index of this place" in err
    assert run("ask", "What do jays bury?", "--in", docs).code == 0
    [index], _ = listed(run)
    assert run("index", "remove", str(index["id"])[:8], "--json").code == 0
    assert listed(run)[0] == []


@pytest.mark.slow
def test_a_file_that_was_deleted_is_erased_and_what_quotes_it_is_named(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    (docs / "rare.md").write_text("# Rare\n\nQuibblesnorts hatch in the belfry.")
    answer = run("ask", "Where do quibblesnorts hatch?", "--in", docs, "--json").out
    (get_data_folder() / "saved.json").write_text(answer)
    assert "delete it first" in run("index", "remove", docs / "rare.md", "--erase").err
    (docs / "rare.md").unlink()
    would = run("index", "remove", docs / "rare.md", "--erase", "--dry-run").out
    assert would.startswith(f"would remove the index of {docs}\nwould remove 1 page version from")
    code, out, err = run("index", "remove", docs / "rare.md", "--erase")
    assert (code, err) == (0, "")
    assert "still named in saved.json" in out
    assert out.startswith(f"removed the index of {docs}\nremoved 1 page version from")
    (get_data_folder() / "saved.json").unlink()
    stored = [*get_data_folder().rglob("*"), *get_cache_folder().rglob("*")]
    assert [file for file in stored if file.is_file() and b"uibblesnort" in file.read_bytes()] == []
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        assert all("uibblesnort" not in page.text for page in archive.iter_pages())
    assert "nothing of it is stored" in run("index", "remove", docs / "rare.md", "--erase").err
    assert run("ask", "What do jays bury?", "--in", docs).code == 0


HOLD = """
import sys, time
from pathlib import Path
from rookery.library.search_index import hold_lock

with hold_lock(Path(sys.argv[1]) / "lock", lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_an_index_that_is_being_written_is_left_alone(run: Run, docs: Path) -> None:
    run("ask", "What do jays bury?", "--in", docs)
    [directory] = (get_cache_folder() / "folders").iterdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ROOT},
    ) as writer:
        assert writer.stdout
        assert writer.stdin
        assert writer.stdout.readline() == b"held\n"
        code, out, _ = run("index", "remove", docs)
        assert code == 4
        assert (
            out
            == f"left alone: another process is writing the index of {docs}\nnothing to remove\n"
        )
        writer.stdin.close()
    assert len(listed(run)[0]) == 1
    assert run("index", "remove", docs).code == 0


@pytest.mark.parametrize("harm", ["busy", "manifest.sqlite", "crawl.json", "x/contents.json"])
def test_no_page_is_pruned_while_an_index_cannot_say_which_it_needs(
    run: Run, docs: Path, harm: str
) -> None:
    run("ask", "What do jays bury?", "--in", docs)
    [directory] = (get_cache_folder() / "folders").iterdir()
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        pages = [*archive.iter_pages()]
        archive.store_pages(msgspec.structs.replace(page, fetched="2020") for page in pages)
    prune = ("index", "prune", "--archive", "--older-than", "30d")
    with hold_lock(directory / "lock", lambda: None) if harm == "busy" else nullcontext():
        if harm != "busy":
            for file in directory.glob("manifest.sqlite*"):
                file.unlink()
            (directory / harm).parent.mkdir(exist_ok=True)
            (directory / harm).write_text("{" * 9000)
        code, _, err = run(*prune)
    assert code != 0
    assert "Traceback" not in err
    said = {"busy": "another process is writing", "manifest.sqlite": "it is damaged: move it away"}
    assert said.get(harm, "remove the index with rookery index remove") in err
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        assert [*archive.iter_pages()] != []
    assert run("index", "list").code == run("index", "remove", docs).code == 0
    assert "removed" in run(*prune).out


@pytest.mark.slow
def test_prune_takes_what_is_gone_and_by_age_what_is_not_used(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    moved, old = tmp_path / "moved", tmp_path / "old"
    for place in (moved, old):
        shutil.copytree(docs, place)
    for place in (docs, moved, old):
        run("index", "refresh", place)
    moved.rename(tmp_path / "elsewhere")
    unused_for(100, next(i["id"] for i in listed(run)[0] if i["places"] == [str(old)]))
    assert "NO LONGER THERE" in run("index", "list").out
    out = run("index", "prune", "--older-than", "90d", "--dry-run", "--json").out
    said = json.loads(out)
    assert (said["removed"], said["dry_run"]) == ([str(moved), str(old)], True)
    assert len(listed(run)[0]) == 3
    assert run("index", "prune", "--older-than", "15w").out.startswith(
        "removed the index of " + str(moved)
    )
    assert [i["places"] for i in listed(run)[0]] == [[str(docs)], [str(old)]]
    assert run("index", "prune", "--older-than", "14w").out.count("removed") == 1
    assert run("index", "prune", "--older-than", "1h").out == "nothing to remove\n"
    for wrong in ("90", "soon", "3m", "-1d"):
        code, _, err = run("index", "prune", f"--older-than={wrong}")
        assert code == 2
        assert "such as 12h or 90d" in err
    assert run("index", "prune", "--archive").code == 2


def test_prune_archive_keeps_what_anything_names(run: Run, docs: Path, tmp_path: Path) -> None:
    run("index", "refresh", docs)
    home = get_data_folder()
    pages = {
        name: Page(f"https://e.org/{name}", name, f"The text of {name}.", fetched=when)
        for name, when in {
            "kept-answer": "2020-01-01T00:00:00+00:00",
            "desk": "2020-01-01T00:00:00+00:00",
            "demonstration": "2020-01-01T00:00:00+00:00",
            "nothing": "2020-01-01T00:00:00+00:00",
            "unknown": "",
            "young": "2999-01-01T00:00:00+00:00",
        }.items()
    }
    with PageArchive(home / ARCHIVE) as archive:
        archive.store_pages(pages.values())
        [jays] = [page for page in archive.iter_pages() if page.title.startswith("Jays")]
        archive.store_page(
            Page("https://e.org/jays", "", jays.text, fetched="2020-01-01T00:00:00+00:00")
        )
    saved = tmp_path / "answers.jsonl"
    saved.write_text(f'{{"digest":"{pages["kept-answer"].digest}"}}\n')
    (home / "demonstrations.jsonl").write_text(pages["demonstration"].digest)
    with closing(sqlite3.connect(home / "desk.sqlite")) as desk:
        desk.execute("create table answers (body text)")
        quote = json.dumps({"digest": pages["desk"].digest})
        desk.execute("insert into answers values (?)", ("x" * 5000 + quote,))
        desk.commit()
    prune = ("index", "prune", "--archive", "--older-than", "30d", "--keep", saved)
    assert "would remove 1 page version " in run(*prune, "--dry-run").out
    assert "removed 1 page version from the archive" in run(*prune).out
    with PageArchive(home / ARCHIVE) as archive:
        left = {page.title for page in archive.iter_pages()}
        assert archive.find_page(pages["nothing"].digest) is None
    assert left >= {*pages} - {"nothing"}
    assert "" in left, "an index finds its text"
    assert run(*prune).out == "nothing to remove\n"
    assert run("index", "prune", "--archive", "--older-than", "1d", "--keep", "nowhere").code == 2


REMOVE = """
import os, shutil, sys
from pathlib import Path
from rookery.library.stored_indexes import remove_stored_index

steps = int(sys.argv[2])
def counted(real):
    def step(*arguments, **named):
        global steps
        if not steps:
            os.kill(os.getpid(), 9)
        steps -= 1
        return real(*arguments, **named)
    return step

os.unlink, os.rmdir, os.rename = counted(os.unlink), counted(os.rmdir), counted(os.rename)
remove_stored_index(Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_removal_that_is_killed_at_any_step_loses_nothing(docs: Path, tmp_path: Path) -> None:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        for steps in range(40):
            cache = tmp_path / f"cache{steps}"
            FolderLibrary(docs, archive, cache).close()
            [directory] = (cache / "folders").iterdir()
            done = subprocess.run(
                [sys.executable, "-c", REMOVE, directory, str(steps)],
                env={**os.environ, "PYTHONPATH": ROOT},
            )
            with FolderLibrary(docs, archive, cache) as folder:
                [hit] = folder.search("acorns", 5)
                assert "acorns" in folder.fetch(hit.url).text
            if done.returncode == 0:
                break
        assert steps > 4
        assert done.returncode == 0


@pytest.mark.slow
def test_shards_are_built_asked_and_one_that_is_missing_is_named(
    run: Run, docs: Path, tmp_path: Path
) -> None:
    shards = tmp_path / "shards"
    # By words: calibrating for the evidence model takes half a minute.
    build = ("index", "build", docs, "--shards", 3, "--out", shards, "--ranker", "words")
    code, out, _ = run(*build, "--json")
    report = ShardsReport.from_json(out)
    assert (code, report.shards, report.directory) == (0, 3, str(shards))
    assert report.passages > 0
    code, whole, _ = run("ask", GIFTS, "--in", "rookery:corvids", "--json")
    crows = ("index", "build", CORVIDS[1], "--shards", 4, "--out", tmp_path / "crows")
    assert run(*crows, "--ranker", "words").code == 0
    code, out, _ = run("ask", GIFTS, "--in", tmp_path / "crows", "--json")
    assert code == 0
    expected, found = AskResult.from_json(whole).answer, AskResult.from_json(out).answer
    assert expected
    assert found
    assert found.text == expected.text
    assert found.quotes == expected.quotes
    theirs, ours = json.loads(run("index", "list", "--json").out)["shards"]
    assert (theirs["directory"], ours["directory"]) == (str(tmp_path / "crows"), str(shards))
    assert (ours["shards"], ours["places"], ours["complete"]) == (3, [str(docs)], True)
    assert (ours["passages"], ours["pages"]) == (report.passages, report.pages)
    assert ours["bytes"] == sum(each.stat().st_size for each in shards.rglob("*") if each.is_file())
    shown = run("index", "list").out
    assert f"shards  {shards}: {docs}\n        3 shards · {report.pages} pages · " in shown
    assert "1 binary, not text (noise.txt)" in shown
    assert "delete the folder" in run("index", "remove", shards).err
    for number in (0, 1):
        shutil.rmtree(tmp_path / "crows" / f"shard-000{number}" / "index")
    _, out, err = run("ask", GIFTS, "--in", tmp_path / "crows", "--json")
    named = [each.detail for each in AskResult.from_json(out).failures]
    assert [each.partition(" is missing")[0] for each in named] == ["shard 1 of 4", "shard 2 of 4"]
    assert AskResult.from_json(out).counts["shard_failed"] == 2
    _, _, err = run("ask", GIFTS, "--in", tmp_path / "crows")
    assert "2 shards of the library missing" in err
    assert "run rookery index build again" in err
    shutil.rmtree(tmp_path / "crows")
    assert [
        each["directory"] for each in json.loads(run("index", "list", "--json").out)["shards"]
    ] == [str(shards)]
    for wrong, said in (
        ((*build[:4], 5, *build[5:]), "it holds 3 shards"),
        (("index", "build", tmp_path / "no", "--out", shards), "no such file or folder"),
        (("index", "build", "https://a.example/", "--out", shards), "not of https://a.example/"),
        (("index", "refresh", shards), "brought up to date by rookery index build"),
        ((*build, "--ray", "127.0.0.1:9"), "no Ray cluster answers there"),
    ):
        code, out, err = run(*wrong)
        assert code != 0
        assert said in out + err
        assert "Traceback" not in err
