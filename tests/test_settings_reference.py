"""The page of the settings files has each key that the commands read, with a description."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from rookery.cli.learn_command import EnvironmentSettings, ReinforceFile
from rookery.desk.forms import FieldChoice, _FormTable, _StepTable
from rookery.desk.human_feedback import HumanFeedbackSettings
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.online_labelling import OnlineLabellingSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_webgpt_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.retrieval_training import RetrievalTrainingSettings
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.models.openai_protocol import ModelEndpoint
from rookery.settings import LocalEndpoint

DOCS = Path(__file__).parent.parent / "docs"
STRUCTS: list[Any] = [
    ImitationSettings,
    RewardTrainingSettings,
    ReinforceFile,
    RetrievalTrainingSettings,
    EnvironmentSettings,
    OnlineLabellingSettings,
    HumanFeedbackSettings,
    ModelEndpoint,
    LocalEndpoint,
]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes the page, which is in no package."""
    path = DOCS / "settings_reference.py"
    spec = importlib.util.spec_from_file_location("settings_reference", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def list_structs(node: inspect.Type) -> Iterator[type]:
    """Yield each struct of a type, as msgspec reads it."""
    for kind in node.types if isinstance(node, inspect.UnionType) else (node,):
        if isinstance(kind, inspect.StructType):
            yield kind.cls
            for field in kind.fields:
                yield from list_structs(field.type)


def test_each_key_of_each_table_is_on_the_page(reference: ModuleType) -> None:
    page = reference.write_page()
    sections = dict(part.split("\n", 1) for part in page.split("\n### ")[1:])
    structs = {each for kind in STRUCTS for each in list_structs(inspect.type_info(kind))}
    assert {each.__name__ for each in structs} == set(sections)
    for struct in structs:
        keys = {field.encode_name for field in msgspec.structs.fields(struct)}
        if struct is OnlineLabellingSettings:
            keys -= {"reinforce", "group"}  # refused there: they are written elsewhere
        rows = [line.split(" | ") for line in sections[struct.__name__].splitlines()]
        cells = {row[0].strip("| `"): row[-1].strip("| ") for row in rows if row[0][:3] == "| `"}
        assert set(cells) == keys, struct
        assert [name for name, said in cells.items() if len(said.split()) < 2] == [], struct


def test_types_and_defaults_are_those_of_the_structs(reference: ModuleType) -> None:
    keys = {key.name: key for key in reference.read_keys("ReinforcementSettings")}
    assert (keys["steps"].type, keys["steps"].default) == ("whole number", "")
    assert (keys["lambda"].type, keys["lambda"].default) == ("number", "0.95")
    assert keys["advantage"].type == '`"gae"` or `"rloo"`'
    assert keys["whiten_rewards"].default == "true"
    assert (keys["clip"].type, keys["value_model"].default) == ("number", '""')
    assert 'adam = "tf"' in keys["optimising"].default
    sampling = {key.name: key.default for key in reference.read_keys("SamplingSettings")}
    assert (sampling["max_tokens"], sampling["top_p"]) == ("64", "none")  # own, and inherited


def test_each_number_and_text_is_the_default(reference: ModuleType) -> None:
    for struct in (each for kind in STRUCTS for each in list_structs(inspect.type_info(kind))):
        written = {key.name: key.default for key in reference.read_keys(struct.__name__)}
        for field in msgspec.structs.fields(struct):
            if isinstance(field.default, int | float) and not isinstance(field.default, bool):
                assert float(written[field.encode_name]) == field.default
            if field.required:
                assert written[field.encode_name] == ""


def test_what_a_paper_changes_is_shown(reference: ModuleType) -> None:
    webgpt = make_webgpt_settings(policy=TrainedModelSettings(""), steps=1)
    usual = ReinforcementSettings(policy=TrainedModelSettings(""), steps=1)
    assert (webgpt.beta, usual.beta) == (0.02, 0.1)
    assert "\n| `beta` | 0.1 | 0.02 | 0.1 | 0.1 |\n" in reference.write_page()


def test_the_page_on_forms_has_each_key_of_a_form() -> None:
    page = (DOCS / "howto" / "forms.md").read_text(encoding="utf-8")
    for kind in (_FormTable, _StepTable, FieldChoice):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        assert [name for name in names if f"`{name}`" not in page and f"{name}, " not in page] == []
