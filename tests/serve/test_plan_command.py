"""`rookery learn plan`: the memory of a training that a file describes, and what to change."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from transformers import LlamaConfig

FILES = {
    "imitate": 'episodes = ["none"]\nout = "run"\n[trained]\nmodel = "MODEL"\n',
    "prefer": 'comparisons = "none"\n[trained]\nmodel = "MODEL"\n',
    "reinforce": (
        '[world]\nkind = "quotes"\nquestions = "none"\nreward = "none"\n'
        '[settings]\nsteps = 1\n[settings.policy]\nmodel = "MODEL"\n'
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration and nothing else."""
    folder = tmp_path_factory.mktemp("model")
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
    LlamaConfig(vocab_size=300, max_position_embeddings=256, **sizes, **heads).save_pretrained(
        folder
    )
    return folder


def write(place: Path, text: str, model: Path) -> Path:
    place.write_text(text.replace("MODEL", str(model)), encoding="utf-8")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_it_tells_the_kind_and_what_is_held(
    run: Run, model: Path, tmp_path: Path, kind: str
) -> None:
    file = write(tmp_path / "file.toml", FILES[kind], model)
    command = ("learn", "plan", "--config", file, "--gpus", 4, "--memory", 80)
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    first, _, _, head, *_, last = out.splitlines()
    assert first.startswith(f"{kind}: ")
    assert head.split() == ["GB", "on", "each", "GPU", "whole", "FSDP,", "4"]
    assert last.startswith("it fits: ")
    plan = json.loads(run(*command, "--json").out)
    assert (plan["kind"], plan["fits"]) == (kind, True)
    parts = plan["whole"]["parts"]
    assert plan["whole"]["step"] == sum(parts.values()) - parts["cache"] - parts["sampling"]
    assert plan["split"]["parts"]["optimizer"] == pytest.approx(parts["optimizer"] / 4, abs=1)
    # A reference is as large as the policy.
    assert plan["split"]["parts"]["whole_copy"] == (parts["reference"] or parts["weights"])
    assert bool(parts["reference"]) == bool(parts["reward"]) == (kind == "reinforce")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more", "advice"),
    [
        ("imitate", "piece = 8192\n", "let piece be smaller"),
        ("imitate", "piece = 1\nasked = 0\n", "recompute = true"),
        ("prefer", "piece = 1\n", "recompute = true"),
        ("reinforce", "", "let piece be smaller"),
    ],
)
def test_what_does_not_fit_has_a_setting_that_makes_it_smaller(
    run: Run, model: Path, tmp_path: Path, kind: str, more: str, advice: str
) -> None:
    file = write(tmp_path / "file.toml", more + FILES[kind], model)
    code, out, _ = run("learn", "plan", "--config", file, "--memory", "0.001")
    assert code == 0
    last = out.splitlines()[-1]
    assert last.startswith("it does not fit: ")
    assert advice in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("epochs = 1\n", (), "--kind imitate, prefer, reinforce"),
        (FILES["imitate"], ("--kind", "retrieve"), "retrieve is no kind"),
        (FILES["imitate"].replace("MODEL", "/no/folder"), (), "there is no such folder"),
        (FILES["imitate"].replace("MODEL", "EMPTY"), (), "no config.json"),
        (FILES["imitate"].replace("MODEL", "ODD"), (), "it cannot be loaded"),
        (FILES["imitate"].replace("MODEL", "HEADLESS"), (), "it cannot be loaded"),
        ("piec = 1\n" + FILES["imitate"], (), "did you mean `piece`?"),
        (FILES["imitate"], ("--gpus", "0"), "--gpus"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    run: Run, model: Path, tmp_path: Path, text: str, options: tuple[str, ...], sentence: str
) -> None:
    for name, kind in {"ODD": "no-such-kind", "HEADLESS": "clip_text_model"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": kind}))
        text = text.replace(name, str(tmp_path / name))
    (tmp_path / "EMPTY").mkdir()
    file = write(tmp_path / "file.toml", text.replace("EMPTY", str(tmp_path / "EMPTY")), model)
    code, out, err = run("learn", "plan", "--config", file, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
