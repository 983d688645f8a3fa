"""Mistakes of a researcher with files and models of a training: one sentence each, which helps."""

import json
from pathlib import Path

import pytest
from commands import Run

from rookery.cli.learn_command import MEMORY_ADVICE, run_learn
from rookery.errors import Failed
from rookery.learn.random_models import write_tiny_model

IMITATE = """
out = "HERE/run"
episodes = ["HERE/rows.jsonl"]
[trained]
model = "HERE/tiny"
"""
PREFER = IMITATE.replace('episodes = ["HERE/rows.jsonl"]', 'comparisons = "HERE/pairs.jsonl"')
MISTAKES = {
    "a file of another training": (
        "prefer",
        IMITATE,
        "settings.toml: its `episodes` is for rookery learn imitate: run that, or name another",
    ),
    "a key of another table": (
        "imitate",
        IMITATE.replace("[trained]", "rate = 1e-3\n[trained]"),
        "settings.toml: `rate` does not belong at the top of the file: write it in [optimising]",
    ),
    "the name of a model on a hub": (
        "imitate",
        IMITATE.replace("HERE/tiny", "Qwen/Qwen3-0.6B"),
        "added first, by rookery models add Qwen/Qwen3-0.6B, and then named Qwen3-0.6B",
    ),
    "a chat template that is missing": (
        "imitate",
        IMITATE.replace("[trained]", "chat = true\n[trained]"),
        "tiny: it has no chat template: leave `chat` out, or set it to false",
    ),
    "rows without a prompt": (
        "prefer",
        PREFER.replace("pairs", "no-prompts"),
        "no-prompts.jsonl: row 1 has no prompt: add `prompt`",
    ),
    "a folder that is no dataset": (
        "prefer",
        PREFER.replace("pairs.jsonl", "empty"),
        "empty: no Arrow, Parquet or JSON lines file is in it: name a folder that save_to_disk",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data")
    write_tiny_model(place / "tiny", ["Why? So."] * 9, vocabulary=300)
    (place / "tiny" / "chat_template.jinja").unlink()
    (place / "empty").mkdir()
    rows = [{"prompt": f"Why {number}?", "completion": "So."} for number in range(4)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "no-prompts.jsonl").write_text('{"chosen": "So.", "rejected": "No."}\n')
    pairs = [{"prompt": f"Why {n}?", "chosen": "So.", "rejected": "No."} for n in range(12)]
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    return place


def write_settings(text: str, place: Path, folder: Path) -> Path:
    config = folder / "settings.toml"
    config.write_text(text.replace("HERE/run", str(folder / "run")).replace("HERE", str(place)))
    return config


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_sentence_that_helps(
    run: Run, place: Path, tmp_path: Path, mistake: str
) -> None:
    what, text, sentence = MISTAKES[mistake]
    config = write_settings(text, place, tmp_path)
    code, out, err = run("learn", what, "--config", config)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("rookery: ")
    assert sentence in last


@pytest.mark.slow
def test_rows_of_trl_are_learnt_from_and_a_rate_that_learns_nothing_is_told(
    run: Run, place: Path, tmp_path: Path
) -> None:
    shared = "validation = 0.25\n[trained]"
    text = PREFER.replace("[trained]", shared) + "[optimising]\nrate = 1e-12\n"
    code, out, err = run("learn", "prefer", "--config", write_settings(text, place, tmp_path))
    assert code == 0
    taken = f"taken: rows (prompt, chosen, rejected) of {place / 'pairs.jsonl'}; they are texts"
    assert taken in err
    assert out.startswith("learnt from 9 comparisons")
    assert "it learnt next to nothing: raise `rate` in [optimising], or `epochs`" in out


@pytest.mark.slow
def test_memory_that_runs_out_names_the_setting(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test may take all memory of a machine: what torch says of it is raised in its place."""

    def run_out(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 B")

    monkeypatch.setattr("rookery.cli.learn_command.train_reward_model", run_out)
    config = write_settings(PREFER, place, tmp_path)
    with pytest.raises(Failed) as raised:
        run_learn("prefer", config, None, False)
    assert (raised.value.failure.what, raised.value.failure.detail) == (str(config), MEMORY_ADVICE)
