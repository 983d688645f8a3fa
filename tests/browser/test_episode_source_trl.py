"""The adapter for TRL, in a real GRPOTrainer whose model says what a script says."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from byte_tokenizer import make_byte_tokenizer
from env_serving import RIGHT, SCRIPTS, TRAIN, make_source, roll_out

from rookery.browser.episode_source import TrlBrowserEnvironment
from rookery.records import Question

PLAYED = ("right", "cites what is not quoted", "nothing quoted")


def test_an_episode_is_that_of_a_rollout() -> None:
    environment = TrlBrowserEnvironment(make_source())
    for index, name in enumerate(PLAYED):
        commands, reward, _ = SCRIPTS[name]
        prompts = [environment.reset(split="train", index=index, prompt="not read")]
        assert environment.get_reward() == 0.0
        prompts += [environment.type_command(command) for command in commands]
        rolled = roll_out(commands, TRAIN[index])
        assert prompts == [*(step.prompt for step in rolled.steps), ""]
        assert environment.get_reward() == (reward if index == 0 else 0.0)
        with pytest.raises(ValueError, match="the episode has ended"):
            environment.type_command("Top")


def test_what_cannot_be_done_is_a_sentence() -> None:
    environment = TrlBrowserEnvironment(make_source())
    with pytest.raises(ValueError, match="no episode was begun"):
        environment.type_command("Top")
    with pytest.raises(ValueError, match="has no task 9: give one from 0 to 2"):
        environment.reset(split="train", index=9)
    assert environment.get_reward() == 0.0


def make_scripted_model(tokenizer: Any, scripts: dict[str, tuple[str, ...]], prompts: Any) -> Any:
    """A tiny model that calls the tool with the next command for the question that it is asked.

    `prompts` is given the prompts of the browser, as the model is given them, by question.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    class ScriptedModel(GPT2LMHeadModel):  # type: ignore[no-untyped-call]
        def generate(self, input_ids: Any, **_: Any) -> Any:
            said = [
                tokenizer.encode(self.continue_text(tokenizer.decode(ids))) for ids in input_ids
            ]
            longest = max(map(len, said))
            padded = [ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids in said]
            return torch.cat([input_ids, torch.tensor(padded)], 1)

        def continue_text(self, text: str) -> str:
            (first,) = re.findall(r"<\|im_start\|>user\n(♦.*?)<\|im_end\|>", text, re.DOTALL)
            later = re.findall(r"<tool_response>\n(.*?)\n</tool_response>", text, re.DOTALL)
            question = first.split("\n")[1]
            prompts[question] = [first, *later]
            if len(later) == len(scripts[question]):
                return "I have answered.<|im_end|>"
            call = {"name": "type_command", "arguments": {"command": scripts[question][len(later)]}}
            return f"<tool_call>\n{json.dumps(call)}\n</tool_call><|im_end|>"

    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=16_384, n_embd=8, n_layer=1, n_head=1
    )
    return ScriptedModel(config)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_grpo_plays_the_episodes_of_rollouts(tmp_path: Path) -> None:
    from datasets import Dataset  # type: ignore[import-untyped]
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    asked: list[Question] = [TRAIN[0], TRAIN[2]]
    scripts = {asked[0].text: RIGHT, asked[1].text: tuple(SCRIPTS["not cited"][0])}
    rows = [
        {"prompt": [{"role": "user", "content": ""}], "split": "train", "index": index}
        for index in (0, 2)
    ]
    seen: dict[str, list[str]] = {}
    tokenizer = make_byte_tokenizer()
    trainer = GRPOTrainer(
        make_scripted_model(tokenizer, scripts, seen),
        environment_factory=partial(TrlBrowserEnvironment, make_source()),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        args=GRPOConfig(
            str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=12_000,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        ),
    )
    trainer.train()
    for question in asked:
        rolled = roll_out(scripts[question.text], question)
        assert seen[question.text] == [*(step.prompt for step in rolled.steps), ""]
    played: Any = trainer.environments
    rewards = sorted(environment.get_reward() for environment in played)
    assert rewards == [0.0, 0.0, 1.0, 1.0]
    assert trainer.state.log_history[0]["reward"] == pytest.approx(0.5)
