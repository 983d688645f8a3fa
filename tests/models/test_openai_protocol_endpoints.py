"""Endpoints by role, from files and by hand; keys from the environment."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rookery.errors import Failed
from rookery.models.openai_protocol import (
    ModelEndpoint,
    read_api_key,
    read_endpoints,
    select_endpoint,
)
from rookery.settings import LocalEndpoint

TOML = """
[write]
model = "big"
base_url = "https://models.example.org/v1"
key_name = "EXAMPLE_KEY"
temperature = 0.7
stop = ["\\n\\n"]
top_p = 0.9
extra = { top_k = 40 }

[default]
model = "small"
base_url = "http://localhost:8000"
chat = false
"""
BIG = ModelEndpoint(
    "big",
    "https://models.example.org/v1",
    key_name="EXAMPLE_KEY",
    temperature=0.7,
    stop=("\n\n",),
    top_p=0.9,
    extra={"top_k": 40},
)
SMALL = ModelEndpoint("small", "http://localhost:8000", chat=False)


def written(folder: Path, text: str, name: str = "models.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_names_an_endpoint_for_each_role(tmp_path: Path) -> None:
    endpoints = read_endpoints(written(tmp_path, TOML))
    assert endpoints == {"write": BIG, "default": SMALL}
    assert select_endpoint("write", endpoints) == BIG
    assert select_endpoint("judge", endpoints) == SMALL
    as_json = {"write": {"model": "m", "base_url": "http://localhost:1/v1"}}
    assert read_endpoints(written(tmp_path, json.dumps(as_json), "models.json")) == {
        "write": ModelEndpoint("m", "http://localhost:1/v1")
    }


LOCAL = """
[write]
model = "smollm2"
temperature = 0.2
top_p = 0.9
max_tokens = 200
stop = ["\\n\\n"]
chat = false
threads = 2
dtype = "bfloat16"
price_out = 0.5

[default]
model = "path:models/large"
"""


def test_a_table_without_an_address_is_about_a_model_on_this_machine(tmp_path: Path) -> None:
    endpoints = read_endpoints(written(tmp_path, LOCAL))
    sampling = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 200, "stop": ("\n\n",)}
    rest = {"chat": False, "threads": 2, "dtype": "bfloat16", "price_out": 0.5}
    expected = msgspec.convert({"model": "smollm2", **sampling, **rest}, LocalEndpoint)
    assert endpoints == {"write": expected, "default": LocalEndpoint(model="path:models/large")}
    renamed = select_endpoint("write", endpoints, model="other")
    assert renamed == msgspec.structs.replace(expected, model="other")
    served = select_endpoint("write", endpoints, "m", "http://localhost:2")
    assert served == ModelEndpoint("m", "http://localhost:2")


def test_what_is_given_by_hand_goes_before_the_file_and_takes_no_other_server_s_key() -> None:
    endpoints = {"write": BIG}
    assert select_endpoint("write", endpoints, model="new").model == "new"
    renamed = select_endpoint("write", endpoints, model="new")
    moved = select_endpoint("write", endpoints, base_url="http://localhost:2")
    assert isinstance(renamed, ModelEndpoint)
    assert isinstance(moved, ModelEndpoint)
    assert renamed.key_name == "EXAMPLE_KEY"
    assert (moved.model, moved.key_name, moved.temperature) == ("big", "OPENAI_API_KEY", 0.7)
    by_hand = select_endpoint("judge", {}, "m", "http://localhost:2")
    assert by_hand == ModelEndpoint("m", "http://localhost:2")


@pytest.mark.parametrize(("model", "base_url"), [("", ""), ("m", ""), ("", "http://localhost:2")])
def test_a_role_without_an_endpoint_says_what_to_give(model: str, base_url: str) -> None:
    with pytest.raises(Failed, match=r"judge: no_model: .*--base-url URL.*\[judge\]"):
        select_endpoint("judge", {"write": BIG}, model, base_url)


def test_a_wrong_address_by_hand_is_a_failure() -> None:
    for endpoints in ({}, {"write": BIG}):
        with pytest.raises(Failed, match="bad_endpoint"):
            select_endpoint("write", endpoints, "m", "localhost:8000")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[write]\nmodel = 'm'\nseed = 1\n", "the field `base_url` is missing"),
        ("[write]\nmodel = 'path:'\n", "[write]: model must not be empty"),
        ("[write]\nmodel = 'path:m'\nthread = 2\n", "did you mean `threads`?"),
        ("[write]\nmodel = 'm'\ndtype = 'int3'\n", "one of"),
        ("[write]\nmodel = 'm'\ntop_p = 2.0\n", "top_p must be a number above 0"),
        ("[write]\nmodel = 'm'\nprice_in = -1.0\n", "prices must be numbers from 0 on"),
        ("[write]\nmodel = 'm'\nbase_url = 'x'\n", "[write]: base_url must be"),
        ("[write]\nmodel = 'm'\nbase_url = 'http://a/v1'\nkind = 'chat'\n", "chat = false"),
        ("[write]\nmodel = 'm'\nbase_url = 'http://a/v1'\nthreads = 2\n", "not for servers"),
        ("[write]\nkey = 'sk-secret'\n", "name the variable in key_name"),
        ("[write]\napi_key = 'sk-secret'\n", "name the variable in key_name"),
        (
            "[wirte]\nmodel = 'm'\n",
            "[wirte]: no model has this role: name the table one of [write]",
        ),
        ("[write]\nbase-url = 'http://a/v1'\n", "`base-url` in [write]: did you mean `base_url`?"),
        ("[write\n", "line 1"),
        ("\0", ""),
    ],
)
def test_a_wrong_file_is_a_sentence_that_shows_no_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Failed) as failed:
        read_endpoints(path)
    assert failed.value.failure.what == str(path)
    assert failed.value.failure.outcome == "bad_endpoint"
    assert said in failed.value.failure.detail
    assert "sk-secret" not in str(failed.value)


def test_a_missing_file_and_one_that_is_no_text_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "bad.json").write_bytes(b'{"write": "\xff"}')
    for name in ("none.toml", "bad.toml", "bad.json", "."):
        with pytest.raises(Failed, match="bad_endpoint"):
            read_endpoints(tmp_path / name)


@pytest.mark.parametrize(
    "settings",
    [
        {"model": ""},
        {"base_url": "ftp://a/v1"},
        {"base_url": "http:///v1"},
        {"base_url": "http://me:secret@a/v1"},
        {"base_url": "http://a/v1?key=secret"},
        {"base_url": "http://a:99999/v1"},
        {"base_url": "http://[::1/v1"},
        {"max_tokens": 0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"top_p": 0.0},
        {"stop": ("",)},
        {"dtype": "float32"},
        {"threads": 2},
        {"extra": {"top_p": 0.5}},
        {"price_in": math.inf},
        {"extra": {"n": 3}},
        {"extra": {"messages": []}},
    ],
)
def test_an_endpoint_with_a_wrong_setting_cannot_be_made(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as error:
        ModelEndpoint(**{"model": "m", "base_url": "http://a/v1", **settings})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://a.org/api/v2", "https://a.org/api/v2"),
    ],
)
def test_an_address_without_a_path_means_v1(base_url: str, address: str) -> None:
    assert ModelEndpoint("m", base_url).address == address


def test_the_key_is_the_one_in_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-usual\n")
    monkeypatch.delenv("EXAMPLE_KEY", raising=False)
    assert read_api_key(SMALL) == "sk-usual"
    with pytest.raises(Failed, match="no_key: set EXAMPLE_KEY"):
        read_api_key(BIG)
    monkeypatch.setenv("EXAMPLE_KEY", "sk-example")
    assert read_api_key(BIG) == "sk-example"
    monkeypatch.setenv("EXAMPLE_KEY", "sk-\u00e9xample")
    with pytest.raises(Failed, match="no_key") as failed:
        read_api_key(BIG)
    assert "xample\u00e9" not in str(failed.value)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert read_api_key(SMALL) == ""
