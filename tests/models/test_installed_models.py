"""Models that were added to this machine: whole or not at all, listed, found, removed."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.errors import Failed
from rookery.models.installed_models import (
    MODELS_FOLDER,
    RECORD_FILE,
    UNKNOWN_LICENCE,
    InstalledModel,
    ModelSource,
    digest_weights,
    find_model_folder,
    install_model,
    list_installed_models,
    list_unfinished_models,
    read_installed_model,
    read_stated_licence,
    remove_installed_model,
    require_disk_room,
)

SOURCE = ModelSource("package birds 1.0", "Apache-2.0", chat=True)


def write_weights(folder: Path) -> ModelSource:
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    return SOURCE


def test_an_added_model_is_found_listed_and_removed(tmp_path: Path) -> None:
    made = install_model("small.1", tmp_path, write_weights)
    folder = find_model_folder("small.1", tmp_path)
    assert folder == tmp_path / MODELS_FOLDER / "small.1"
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors",
        "config.json",
        RECORD_FILE,
    }
    assert made == read_installed_model("small.1", tmp_path)
    assert (made.origin, made.licence, made.chat) == SOURCE
    assert made.digest == hashlib.sha256(b"weights").hexdigest()
    assert made.bytes == len(b"weights{}")
    other = install_model("a", tmp_path, write_weights)
    assert list_installed_models(tmp_path) == [other, made]
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert remove_installed_model("small.1", tmp_path) == size > made.bytes
    assert list_installed_models(tmp_path) == [other]
    assert not folder.exists()
    assert [path.name for path in (tmp_path / MODELS_FOLDER).iterdir()] == ["a"]


def test_several_files_of_weights_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"2")
    (tmp_path / "a.safetensors").write_bytes(b"1")
    lines = f"{hashlib.sha256(b'1').hexdigest()}  a.safetensors\n"
    lines += f"{hashlib.sha256(b'2').hexdigest()}  b.safetensors\n"
    assert digest_weights(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, SystemExit])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def stop(folder: Path) -> ModelSource:
        write_weights(folder)
        assert list_installed_models(tmp_path) == []
        raise error

    with pytest.raises(error):
        install_model("small", tmp_path, stop)
    assert [*(tmp_path / MODELS_FOLDER).iterdir()] == []
    with pytest.raises(Failed, match="no_model"):
        find_model_folder("small", tmp_path)


def test_what_a_killed_process_leaves_is_no_model_and_goes_with_the_next(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, signal
from rookery.models.installed_models import install_model
def write(folder):
    (folder / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
install_model("small", pathlib.Path({str(tmp_path)!r}), write)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert [path.name for path in (tmp_path / MODELS_FOLDER).iterdir()] == [".small.adding"]
    assert list_installed_models(tmp_path) == []
    assert list_unfinished_models(tmp_path) == ["small"]
    install_model("small", tmp_path, write_weights)
    assert [path.name for path in (tmp_path / MODELS_FOLDER).iterdir()] == ["small"]
    assert list_unfinished_models(tmp_path) == []


@pytest.mark.parametrize("left", [".small.adding", ".small.removed"])
@pytest.mark.parametrize("whole", [False, True])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, left: str, whole: bool) -> None:
    size = 0
    if whole:
        install_model("small", tmp_path, write_weights)
        files = (tmp_path / MODELS_FOLDER / "small").iterdir()
        size = sum(file.stat().st_size for file in files)
    folder = tmp_path / MODELS_FOLDER / left
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"half")
    assert remove_installed_model("small", tmp_path) == size + 4
    assert [*(tmp_path / MODELS_FOLDER).iterdir()] == []
    with pytest.raises(Failed, match="no_model"):
        remove_installed_model("small", tmp_path)


def test_an_unknown_model_says_where_to_look_and_nothing_of_servers(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="rookery models list") as failed:
        remove_installed_model("small", tmp_path)
    assert "--base-url" not in str(failed.value)


def test_a_full_disk_is_a_sentence_about_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"x" * 10_000)
    code = f"""
import resource, pathlib, signal
from rookery.models.installed_models import copy_model_files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
folder = pathlib.Path({str(tmp_path)!r})
copy_model_files([folder / "weights"], folder / "to")
"""
    (tmp_path / "to").mkdir()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    words = ran.stderr.splitlines()[-1]
    assert f"{tmp_path / 'to' / 'weights'}: unwritable: it cannot be written" in words
    assert "make room" in words


def test_a_name_is_given_once(tmp_path: Path) -> None:
    first = install_model("small", tmp_path, write_weights)
    with pytest.raises(Failed, match="name_taken"):
        install_model("small", tmp_path, write_weights)
    assert read_installed_model("small", tmp_path) == first


@pytest.mark.parametrize("name", ["", ".", "..", "../small", "a/b", ".small", "a b", "x" * 81])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    install_model("small", tmp_path, write_weights)
    with pytest.raises(Failed, match="bad_name"):
        install_model(name, tmp_path, write_weights)
    with pytest.raises(Failed, match="bad_name"):
        remove_installed_model(name, tmp_path)
    with pytest.raises(Failed, match="no_model"):
        find_model_folder(name, tmp_path)
    assert len(list_installed_models(tmp_path)) == 1


def test_only_what_was_added_is_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    install_model("mine", elsewhere, write_weights)
    models = tmp_path / MODELS_FOLDER
    (models / "theirs").mkdir(parents=True)
    (models / "theirs" / "model.safetensors").write_bytes(b"x")
    (models / "linked").symlink_to(elsewhere / MODELS_FOLDER / "mine")
    for name, outcome in (("theirs", "not_added"), ("linked", "not_added"), ("no", "no_model")):
        with pytest.raises(Failed, match=outcome):
            remove_installed_model(name, tmp_path)
    assert (models / "theirs" / "model.safetensors").exists()
    assert len(list_installed_models(elsewhere)) == 1


def test_a_damaged_record_is_a_sentence(tmp_path: Path) -> None:
    install_model("small", tmp_path, write_weights)
    record = find_model_folder("small", tmp_path) / RECORD_FILE
    for text in ("{", "{}", json.dumps({"name": 1})):
        record.write_text(text)
        with pytest.raises(Failed, match=r"bad_model: .*remove small, and add it again"):
            read_installed_model("small", tmp_path)
    assert remove_installed_model("small", tmp_path) > 0


def test_a_record_survives_a_round_trip(tmp_path: Path) -> None:
    made = install_model("small", tmp_path, write_weights)
    assert InstalledModel.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n", "apache-2.0"),
        ('---\nlicense: "mit"\n---\n', "mit"),
        ("---\nlicense: other\nlicense_name: x\n---\n", "other"),
        ("# A model\n\nlicense: mit\n", UNKNOWN_LICENCE),
        ("---\nlanguage: en\n---\nlicense: mit\n", UNKNOWN_LICENCE),
        ("", UNKNOWN_LICENCE),
    ],
)
def test_the_licence_is_what_the_model_card_states(tmp_path: Path, card: str, licence: str) -> None:
    assert read_stated_licence(tmp_path) == UNKNOWN_LICENCE
    (tmp_path / "README.md").write_text(card)
    assert read_stated_licence(tmp_path) == licence


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    require_disk_room(tmp_path / "models", 1000)
    with pytest.raises(Failed, match=r"unwritable: .*make room"):
        require_disk_room(tmp_path, shutil.disk_usage(tmp_path).total + 1)
