"""Plays episodes in verl's worker, into a TransferQueue, and prints the rows that are in it.

Usage: engine_verl.py CONFIGURATION < EPISODES
CONFIGURATION is a file as `agent_loop_config_path` names it, with `my_tasks.open_source` as source.
Printed is a JSON list, last, of {"prompts", "said", "rewards"} for each of EPISODES, by rows.
"""

import asyncio
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "web"))

import ray
import transfer_queue
from byte_tokenizer import make_byte_tokenizer
from env_serving import make_source
from omegaconf import OmegaConf
from verl.experimental.agent_loop import agent_loop
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.workers.rollout.replica import TokenOutput

TOKENIZER = make_byte_tokenizer()


class ScriptedServer:
    """The model of a worker, which says the commands of one episode."""

    def __init__(self, commands: list[str]) -> None:
        self._commands = iter(commands)

    async def generate(self, request_id: str, **_: Any) -> Any:
        tokens = TOKENIZER.encode(next(self._commands) + TOKENIZER.eos_token)
        return TokenOutput(token_ids=tokens, log_probs=[-0.5] * len(tokens))


def make_worker() -> Any:
    """The worker without its actor, its model and its configuration of training."""
    worker = object.__new__(AgentLoopWorkerTQ.__ray_metadata__.modified_class)
    worker.rollout_config = OmegaConf.create({"prompt_length": 4096, "response_length": 512})
    rollout = {"actor_rollout_ref": {"rollout": worker.rollout_config}, "data": {}}
    worker.config = OmegaConf.create(rollout)
    worker.tokenizer, worker.processor, worker.tools = TOKENIZER, None, []
    worker.hf_model_type = worker.dataset_cls = worker.reward_loop_worker_handles = None
    worker.mm_processor_kwargs, worker.distillation_enabled = {}, False
    return worker


async def play_episodes(worker: Any, episodes: list[dict[str, Any]]) -> None:
    about = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
    for number, each in enumerate(episodes):
        worker.llm_client = ScriptedServer(each["commands"])
        await worker._run_agent_loop(
            {},
            about,
            agent_name="rookery",
            trace=False,
            raw_prompt=[],
            uid=f"episode{number}",
            session_id=0,
            global_steps=0,
            extra_info={"split": each["split"], "index": each["index"]},
        )


def read_rows(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"prompts": [], "said": [], "rewards": []} for _ in range(count)]
    keys = list(transfer_queue.kv_list(partition_id="train")["train"])
    rows = transfer_queue.kv_batch_get(keys=keys, partition_id="train")
    order = sorted(range(len(keys)), key=lambda row: int(keys[row].rpartition("_")[2]))
    for row in order:
        episode = found[int(keys[row].partition("_")[0].removeprefix("episode"))]
        episode["prompts"].append(TOKENIZER.decode(rows["prompts"][row].tolist()))
        said = TOKENIZER.decode(rows["responses"][row].tolist(), skip_special_tokens=True)
        episode["said"].append(said)
        episode["rewards"].append(rows["rm_scores"][row].sum().item())
        assert rows["response_mask"][row].all()
        assert len(rows["rollout_log_probs"][row]) == len(rows["responses"][row])
    return found


def main(configuration: str) -> None:
    tasks = ModuleType("my_tasks")
    tasks.__dict__["open_source"] = cache(make_source)
    sys.modules["my_tasks"] = tasks
    for loop in OmegaConf.load(configuration):  # as the worker itself reads it
        agent_loop._agent_loop_registry[loop.name] = loop
    # The queue's actors wait for processors that they hardly use.
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False, configure_logging=False)
    transfer_queue.init()
    episodes = json.load(sys.stdin)
    asyncio.run(play_episodes(make_worker(), episodes))
    sys.stdout.write(f"\n{json.dumps(read_rows(len(episodes)))}\n")
    sys.stdout.flush()
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
