"""What TRL's RLOO trainer makes of a batch that it draws itself: its advantages and its gradient.

A process of its own, since TRL warns, and reads the environment when it is imported.

    python rloo_trl.py MODEL OUT
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parent))

from enumerable import BETA, Rule


def main(folder: str, out: Path) -> None:
    rule, words = Rule(0), [" ".join(f"w{n}" for n in prompt) for prompt in Rule(0).prompts]

    def worth(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        pairs = zip(prompts, completion_ids, strict=True)
        return [rule.reward(rule.prompts[words.index(prompt)], said) for prompt, said in pairs]

    trl: Any = import_module("trl")
    datasets: Any = import_module("datasets")
    trainer = trl.RLOOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder),
        reward_funcs=worth,
        args=trl.RLOOConfig(
            output_dir=str(out.parent / "trl"),
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=4,
            beta=BETA,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_dict({"prompt": words}),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
    )
    torch.manual_seed(1)
    for weight in trainer.model.parameters():  # so that it is not its reference
        weight.data += 0.05 * torch.randn_like(weight)
    policy = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.model.train()
    batch = trainer._generate_and_score_completions(
        [{"prompt": word} for word in words[:4] for _ in range(4)]
    )
    trainer._compute_loss(trainer.model, batch).backward()
    sizes = batch["completion_mask"].sum(-1).tolist()
    results = {
        "policy": policy,
        "contexts": batch["prompt_ids"].tolist(),
        "actions": [
            row[:size] for row, size in zip(batch["completion_ids"].tolist(), sizes, strict=True)
        ],
        "advantages": batch["advantages"],
        "gradients": {name: each.grad for name, each in trainer.model.named_parameters()},
    }
    torch.save(results, out)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
