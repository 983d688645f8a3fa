"""Settings of models: which endpoint they mean, and what is sent or set for it."""

import json
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands import NOWHERE, Run
from models import Asking, chat, reply, serving, write_choices

from rookery.answers.model_pool import ModelPool
from rookery.errors import Failed
from rookery.models.openai_protocol import ModelEndpoint
from rookery.settings import (
    COMPLETION_FIELDS,
    CompletionSettings,
    LocalEndpoint,
    LocalModelSettings,
    ModelSettings,
    Settings,
    override_settings,
)
from rookery.shell.command_options import SETTINGS_OPTIONS

ROLES = ("write", "browse")
URL = "http://localhost:8000/v1"
SAMPLING = ModelSettings(temperature=0.3, top_p=0.9, max_tokens=50, stop=("x",), chat=False)


def endpoint(folder: Path, settings: ModelSettings, role: str = "write") -> object:
    with ModelPool(settings, folder / "a.sqlite") as pool:
        return pool.get_endpoint(role)


def test_sampling_is_set_alike_for_servers_and_for_this_machine(tmp_path: Path) -> None:
    served = msgspec.structs.replace(SAMPLING, model="m", base_url=URL)
    local = msgspec.structs.replace(SAMPLING, model="path:m", threads=2, dtype="bfloat16")
    alike = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 50, "stop": ("x",), "chat": False}
    assert endpoint(tmp_path, served) == msgspec.convert(
        {
            "model": "m",
            "base_url": URL,
            "logprobs": True,
            **alike,
        },
        ModelEndpoint,
    )
    rest = {"threads": 2, "dtype": "bfloat16"}
    expected = msgspec.convert({"model": "path:m", **alike, **rest}, LocalEndpoint)
    assert endpoint(tmp_path, local) == expected


def test_what_is_given_replaces_what_a_file_says_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(
        f'[write]\nmodel = "m"\nbase_url = "{URL}"\ntemperature = 0.7\nmax_tokens = 9\n'
        'extra = { top_k = 5 }\n[browse]\nmodel = "path:m"\nthreads = 3\n'
    )
    settings = ModelSettings(endpoints=str(tmp_path / "e.toml"), max_tokens=4, top_p=0.5)
    written = endpoint(tmp_path, settings)
    assert isinstance(written, ModelEndpoint)
    assert (written.temperature, written.max_tokens, written.chat) == (0.7, 4, None)
    assert (written.extra, written.top_p) == ({"top_k": 5}, 0.5)
    browsed = endpoint(tmp_path, settings, "browse")
    assert browsed == LocalEndpoint(model="path:m", threads=3, max_tokens=4, top_p=0.5)


@pytest.mark.parametrize("given", [{"threads": 2}, {"dtype": "bfloat16"}])
def test_what_is_not_for_servers_is_a_sentence(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(Failed, match=r"bad_endpoint.*not for servers"):
        endpoint(tmp_path, ModelSettings("m", URL, **given))


@pytest.mark.parametrize("kind", [ModelSettings, LocalModelSettings, CompletionSettings])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dtype": "int3"}, "dtype must be one of float32, bfloat16"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"stop": ("",)}, "empty string"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"threads": 0}, "threads"),
    ],
)
def test_a_wrong_setting_is_a_sentence(
    kind: type[CompletionSettings], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        kind(**given)


def test_each_setting_has_an_option() -> None:
    assert set(COMPLETION_FIELDS) <= set(SETTINGS_OPTIONS)


def test_equal_settings_are_written_alike_wherever_they_come_from() -> None:
    """Batches of one process and of several have the same bytes, and find the same replies."""
    made = Settings(("docs",), decline=0.5, quotes=2)
    typed = Settings(
        ("docs",), "".join(["au", "to"]), decline=0.5, quotes=2, models=ModelSettings()
    )
    written = msgspec.json.encode(made)
    others = (typed, pickle.loads(pickle.dumps(made)), msgspec.json.decode(written, type=Settings))
    for other in others:
        assert other == made
        assert msgspec.json.encode(other) == written
        assert other.to_cache_key() == made.to_cache_key()
    assert b"auto" not in written


def test_recordings_made_before_there_were_sampling_settings_are_found() -> None:
    before = (
        '{"model":"m","base_url":"http://a/v1","endpoints":"","samples":4,"worth":0.0,'
        '"tokens":null,"money":1.5}'
    )
    settings = ModelSettings("m", "http://a/v1", samples=4, money=1.5)
    assert settings.to_cache_key() == before
    keys = {
        msgspec.structs.replace(settings, **{name: value}).to_cache_key()
        for name, value in msgspec.structs.asdict(SAMPLING).items()
        if value != getattr(ModelSettings(), name)
    }
    assert len(keys) == 5
    assert before not in keys


@pytest.mark.parametrize(("slots", "expected"), [(1, 1), (3, 3), (99, 16), (None, 16)])
def test_a_batch_answers_as_many_questions_at_once_as_the_server_has_slots(
    tmp_path: Path, slots: int | None, expected: int
) -> None:
    shown = {} if slots is None else {"/props": reply(json.dumps({"total_slots": slots}).encode())}
    with serving(write_choices(chat("x")), files=shown) as server:
        settings = ModelSettings("m", server.base_url)
        with ModelPool(settings, tmp_path / "a.sqlite") as pool:
            assert pool.max_concurrent == expected
    with ModelPool(ModelSettings("path:m"), tmp_path / "b.sqlite") as pool:
        assert pool.max_concurrent == 1  # and nothing is loaded for it


def test_two_roles_on_one_server_share_its_slots(tmp_path: Path) -> None:
    shown = {"/props": reply(json.dumps({"total_slots": 1}).encode())}
    both, lock, met = threading.Barrier(2, timeout=120.0), threading.Lock(), threading.Event()

    def answer_alone(asking: Asking) -> bytes:
        if not lock.acquire(blocking=False):
            met.set()
            return write_choices(chat("too many"))
        met.wait(0.1)  # what came beside it would be here by now, and would set it
        lock.release()
        return write_choices(chat("one"))

    with serving(answer_alone, files=shown) as server:
        tables = (f'[{role}]\nmodel = "{role}"\nbase_url = "{server.base_url}"\n' for role in ROLES)
        (tmp_path / "e.toml").write_text("".join(tables))
        settings = ModelSettings(endpoints=str(tmp_path / "e.toml"))
        with ModelPool(settings, tmp_path / "a.sqlite") as pool, ThreadPoolExecutor(2) as threads:
            models = [pool.open_model(role) for role in ROLES]
            asked = [threads.submit(lambda m: (both.wait(), m.complete("x")), m) for m in models]
            assert [each.result(120)[1][0].text for each in asked] == ["one", "one"]
    assert not met.is_set()


OPTIONS = (
    "--temperature 0.2 --top-p 0.9 --max-tokens 7 --stop a --stop b --no-chat --threads 2 "
    "--dtype bfloat16"
).split()
GIVEN = CompletionSettings(
    temperature=0.2,
    top_p=0.9,
    max_tokens=7,
    stop=("a", "b"),
    chat=False,
    threads=2,
    dtype="bfloat16",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of the package multipart
def test_servers_take_the_options_of_completions(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ModelSettings] = []
    monkeypatch.setattr(
        "rookery.server.mcp.protocol.serve_stdio",
        lambda settings, *_: opened.append(settings.models),
    )
    monkeypatch.setattr(
        "rookery.server.app.run_server",
        lambda place, settings, *_: opened.append(settings.models),
    )
    by_model = ("--model", "path:m", *OPTIONS)
    assert run("serve", "mcp", "--method", "webglm", *by_model).code == 0
    assert run("serve", "--port", "0", "--store", home / "desk.sqlite", *by_model).code == 0
    assert opened == [override_settings(ModelSettings("path:m"), GIVEN)] * 2
    assert opened[0].threads == 2
    wrong = run("serve", "mcp", "--method", "webglm", "--model", "path:m", "--top-p", "0")
    assert (wrong.code, "--top-p must be a number above 0" in wrong.err) == (2, True)


@pytest.mark.slow
def test_a_server_is_sent_the_options_of_completions(run: Run) -> None:
    sent = OPTIONS[: OPTIONS.index("--threads")]
    with serving(write_choices(chat("ready"))) as server:
        run("doctor", "--model", "m", "--base-url", server.base_url, "--engine", NOWHERE, *sent)
    fields = server.asked[-1].fields
    assert {name: fields[name] for name in ("temperature", "top_p", "max_tokens", "stop")} == {
        "temperature": 0.2,
        "top_p": 0.9,
        "max_tokens": 7,
        "stop": ["a", "b"],
    }
    assert "prompt" in fields
    assert "messages" not in fields
