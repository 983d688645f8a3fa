"""TOML files as settings: what is unknown or wrong is named, and nothing is passed over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rookery.errors import Failed
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.typed_files import describe_unknown_key, merge_tables, parse_settings, read_toml_table

FILE = Path("lesson.toml")


def read_error(place: Path) -> str:
    with pytest.raises(Failed) as failed:
        read_toml_table(place)
    assert failed.value.failure.what == str(place)
    assert failed.value.failure.outcome == "bad_config"
    return failed.value.failure.detail


def wrong(table: dict[str, object]) -> str:
    whole = {"trained": {"model": "m"}, "episodes": ["e.jsonl"], **table}
    with pytest.raises(Failed) as failed:
        parse_settings(whole, ImitationSettings, FILE)
    assert (failed.value.failure.what, failed.value.failure.outcome) == (str(FILE), "bad_config")
    return failed.value.failure.detail


def test_tables_are_read_into_the_settings_of_a_trainer(tmp_path: Path) -> None:
    place = tmp_path / "lesson.toml"
    place.write_text(
        'episodes = ["a", "b"]\nrows = 4\n[trained]\nmodel = "tiny"\n'
        "[optimising]\nrate = 1\nbetas = [0.8, 0.9]\nclip = inf\n"
    )
    settings = parse_settings(read_toml_table(place), ImitationSettings, place)
    assert (settings.trained.model, settings.episodes, settings.rows) == ("tiny", ("a", "b"), 4)
    assert (settings.optimising.rate, settings.optimising.betas) == (1.0, (0.8, 0.9))
    assert settings.optimising.clip == float("inf")
    assert settings.epochs == ImitationSettings(settings.trained, ()).epochs


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rowes": 4}, "there is no key `rowes` at the top of the file: did you mean `rows`?"),
        (
            {"optimising": {"rates": 1.0}},
            "there is no key `rates` in [optimising]: did you mean `rate`?",
        ),
        ({"rows": "many"}, "`rows` must be a whole number, and is text"),
        ({"episodes": "one.jsonl"}, "`episodes` must be a list [...], and is text"),
        ({"episodes": [1]}, "`episodes[0]` must be text, and is a whole number"),
        (
            {"optimising": {"schedule": "steep"}},
            '`schedule` in [optimising] is "steep": it must be one of "constant", "cosine"',
        ),
        ({"rate": 1.0}, "`rate` does not belong at the top of the file: write it in [optimising]"),
        ({"optimising": {"epochs": 1}}, "does not belong in [optimising]: write it at the top"),
        ({"Rows": 4}, "did you mean `rows`?"),
        ({"value-clip": 4}, "there is no key `value-clip` at the top of the file: take it out"),
        ({"warmupp": 4}, "did you mean `warmup` in [optimising]?"),
        ({"optimising": {"xyz": 1}}, "in [optimising]: its keys are rate, schedule, warmup, adam"),
        (
            {"trained": {"model": "m", "lora": {"ranks": 1}}},
            "in [trained.lora]: did you mean `rank`",
        ),
        ({"validations": 4}, "did you mean `validation`?"),
        ({"optimising": {"rate": 0.0}}, "rate must be more than 0"),
        ({"rows": 0}, "must be 1 or more"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(table: dict[str, object], words: str) -> None:
    assert words in wrong(table)


class Leaf(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    size: int = msgspec.field(default=1, name="how-large")


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    leaves: list[Leaf] = []
    named: dict[str, Leaf | None] = {}
    extra: dict[str, int] = {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[[leaves]]\n[[leaves]]\nnames = 'a'",
            "`names` in [leaves, number 2]: did you mean `name`?",
        ),
        ("[named.first]\nhow_large = 1", "`how_large` in [named.first]: did you mean `how-large`?"),
        ("name = 'a'", "does not belong at the top of the file: write it in [leaves]"),
        ("[leafs]\nname = 'a'", "no key `leafs` at the top of the file: did you mean `leaves`?"),
        ("[extra]\nany = 1", ""),
        ("outt = 'a'", "did you mean `out`?"),
    ],
)
def test_keys_are_looked_for_in_tables_of_every_kind(text: str, words: str) -> None:
    found = describe_unknown_key(msgspec.toml.decode(text), Tree, also=("out",))
    assert words in found if words else found == ""


def settled(kind: type[msgspec.Struct], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of these settings, with the tables that it stands in."""
    for field in msgspec.structs.fields(kind):
        yield (*place, field.encode_name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from settled(field.type, (*place, field.encode_name))


@pytest.mark.parametrize("kind", [ReinforcementSettings, ImitationSettings, RewardTrainingSettings])
def test_a_slip_in_any_key_is_answered_with_that_key(kind: type[msgspec.Struct]) -> None:
    for *place, key in settled(kind):
        for at in range(1, len(key) - 1):
            slip = key[:at] + key[at + 1 :] + key[at - 1]
            if len(key) < 5 or any(slip == other[-1] for other in settled(kind)):
                continue
            table: dict[str, Any] = {slip: 1}
            for name in reversed(place):
                table = {name: table}
            assert f"did you mean `{key}`?" in describe_unknown_key(table, kind), slip


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Failed, match="the field `trained` is missing"):
        parse_settings({"episodes": []}, ImitationSettings, FILE)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    assert "No such file or directory" in read_error(tmp_path / "none.toml")
    assert "Is a directory" in read_error(tmp_path)


@pytest.mark.parametrize(
    "text", [b"rows 4", b"a = 1\na = 2", b"\xff\xfe", b"a = " + b"[" * 5000, b"a = \x00"]
)
def test_what_is_no_toml_is_a_sentence(tmp_path: Path, text: bytes) -> None:
    place = tmp_path / "lesson.toml"
    place.write_bytes(text)
    assert read_error(place).startswith("it is not valid TOML: ")


def test_a_table_lies_over_another_key_by_key() -> None:
    below = {"rate": 1.0, "deep": {"a": 1, "b": {"c": 2}}, "list": [1, 2]}
    above = {"rate": 2.0, "deep": {"b": {"d": 3}}, "list": [3], "new": True}
    kept = msgspec.json.encode(below)
    assert merge_tables(below, above) == {
        "rate": 2.0,
        "deep": {"a": 1, "b": {"c": 2, "d": 3}},
        "list": [3],
        "new": True,
    }
    assert msgspec.json.encode(below) == kept
    assert merge_tables({"deep": {"a": 1}}, {"deep": 5}) == {"deep": 5}
