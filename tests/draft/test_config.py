"""TOML files as settings: what is unknown or wrong is named, and nothing is passed over."""

from pathlib import Path

import msgspec
import pytest

from rookery.draft.config import over, read_table, settings_of
from rookery.learn.imitate import ImitateSettings
from rookery.records import Failed

FILE = Path("lesson.toml")


def told(place: Path) -> str:
    with pytest.raises(Failed) as failed:
        read_table(place)
    assert failed.value.failure.what == str(place)
    assert failed.value.failure.outcome == "bad_config"
    return failed.value.failure.detail


def wrong(table: dict[str, object]) -> str:
    whole = {"trained": {"model": "m"}, "episodes": ["e.jsonl"], **table}
    with pytest.raises(Failed) as failed:
        settings_of(whole, ImitateSettings, FILE)
    assert (failed.value.failure.what, failed.value.failure.outcome) == (str(FILE), "bad_config")
    return failed.value.failure.detail


def test_tables_are_read_into_the_settings_of_a_trainer(tmp_path: Path) -> None:
    place = tmp_path / "lesson.toml"
    place.write_text(
        'episodes = ["a", "b"]\nrows = 4\n[trained]\nmodel = "tiny"\n'
        "[optimising]\nrate = 1\nbetas = [0.8, 0.9]\nclip = inf\n"
    )
    settings = settings_of(read_table(place), ImitateSettings, place)
    assert (settings.trained.model, settings.episodes, settings.rows) == ("tiny", ("a", "b"), 4)
    assert (settings.optimising.rate, settings.optimising.betas) == (1.0, (0.8, 0.9))
    assert settings.optimising.clip == float("inf")
    assert settings.epochs == ImitateSettings(settings.trained, ()).epochs


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rowes": 4}, "unknown field `rowes`"),
        ({"optimising": {"rates": 1.0}}, "unknown field `rates` - at `$.optimising`"),
        ({"rows": "many"}, "Expected `int`, got `str` - at `$.rows`"),
        ({"episodes": "one.jsonl"}, "Expected `array`, got `str` - at `$.episodes`"),
        ({"episodes": [1]}, "Expected `str`, got `int` - at `$.episodes[0]`"),
        ({"optimising": {"schedule": "steep"}}, "Invalid enum value 'steep'"),
        ({"optimising": {"rate": 0.0}}, "rate must be more than 0"),
        ({"rows": 0}, "must be 1 or more"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(table: dict[str, object], words: str) -> None:
    assert words in wrong(table)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Failed, match="missing required field `trained`"):
        settings_of({"episodes": []}, ImitateSettings, FILE)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    assert "No such file or directory" in told(tmp_path / "none.toml")
    assert "Is a directory" in told(tmp_path)


@pytest.mark.parametrize(
    "text", [b"rows 4", b"a = 1\na = 2", b"\xff\xfe", b"a = " + b"[" * 5000, b"a = \x00"]
)
def test_what_is_no_toml_is_a_sentence(tmp_path: Path, text: bytes) -> None:
    place = tmp_path / "lesson.toml"
    place.write_bytes(text)
    assert told(place).startswith("it is no TOML: ")


def test_a_table_lies_over_another_key_by_key() -> None:
    below = {"rate": 1.0, "deep": {"a": 1, "b": {"c": 2}}, "list": [1, 2]}
    above = {"rate": 2.0, "deep": {"b": {"d": 3}}, "list": [3], "new": True}
    kept = msgspec.json.encode(below)
    assert over(below, above) == {
        "rate": 2.0,
        "deep": {"a": 1, "b": {"c": 2, "d": 3}},
        "list": [3],
        "new": True,
    }
    assert msgspec.json.encode(below) == kept
    assert over({"deep": {"a": 1}}, {"deep": 5}) == {"deep": 5}
