"""TRL's trainers on the work of bench/learning.py, in float32 and without extras that ours lack.

Each runs in a process of its own. None of them recomputes activations, evaluates, saves or reports;
`told` is called after every step.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainerCallback,
)

PLAIN: dict[str, Any] = {
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "report_to": [],
    "disable_tqdm": True,
    "save_strategy": "no",
    "logging_strategy": "no",
    "dataloader_pin_memory": False,
}


class AfterSteps(TrainerCallback):
    """Callback that calls `told` after every step."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Report a finished step."""
        self._told()


def prefer(
    trl: Any,
    folder: Path,
    pairs: Sequence[tuple[list[int], list[int]]],
    steps: int,
    settings: dict[str, Any],
    told: Callable[[], None],
) -> None:
    """Run RewardTrainer on these pairs (chosen, rejected), in their order."""
    rows = Dataset.from_list([{"chosen_ids": one, "rejected_ids": two} for one, two in pairs])
    in_order = {"_get_train_sampler": lambda *_: torch.utils.data.SequentialSampler(rows)}
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    args = trl.RewardConfig(
        output_dir=str(folder / "trl"),
        max_steps=steps,
        max_length=None,
        pad_to_multiple_of=None,
        **settings,
        **PLAIN,
    )
    trainer = type("InOrder", (trl.RewardTrainer,), in_order)(
        model=model,
        args=args,
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[AfterSteps(told)],
    )
    trainer.train()


def rloo(
    trl: Any,
    folder: Path,
    prompts: Sequence[str],
    reward: Callable[[Sequence[int]], float],
    steps: int,
    settings: dict[str, Any],
    told: Callable[[], None],
) -> None:
    """Run RLOOTrainer."""

    def rewards(completion_ids: list[list[int]], **_: Any) -> list[float]:
        """Return the reward of each completion."""
        return [reward(said) for said in completion_ids]

    args = trl.RLOOConfig(
        output_dir=str(folder / "trl"),
        max_steps=steps,
        temperature=1.0,
        pad_to_multiple_of=None,
        **settings,
        **PLAIN,
    )
    trainer = trl.RLOOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=rewards,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": list(prompts)}),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        callbacks=[AfterSteps(told)],
    )
    trainer.train()


def ppo(
    experimental: Any,
    folder: Path,
    prompts: Sequence[str],
    steps: int,
    settings: dict[str, Any],
    told: Callable[[], None],
) -> None:
    """Run PPOTrainer of TRL's wheels 1.10 to 1.12. Reward model and initial value network are
    `folder`/reward."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    size = settings["per_device_train_batch_size"]
    args = experimental.PPOConfig(
        output_dir=str(folder / "trl"),
        total_episodes=steps * size,
        temperature=1.0,
        stop_token="eos",
        num_sample_generations=0,
        **settings,
        **PLAIN,
    )
    policy, reference = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for _ in range(2)
    )
    reward, value = (
        AutoModelForSequenceClassification.from_pretrained(folder / "reward", num_labels=1)
        for _ in range(2)
    )
    rows = Dataset.from_list([{"input_ids": tokenizer(prompt)["input_ids"]} for prompt in prompts])
    trainer = experimental.PPOTrainer(
        args=args,
        processing_class=tokenizer,
        model=policy,
        ref_model=reference,
        reward_model=reward,
        train_dataset=rows,
        eval_dataset=rows.select(range(size)),
        value_model=value,
        callbacks=[AfterSteps(told)],
    )
    trainer.train()
