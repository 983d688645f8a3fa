"""Plays episodes in verl's worker, and prints the rows that it puts into the TransferQueue.

Usage: engine_verl.py CONFIGURATION < EPISODES
CONFIGURATION is a file as `agent_loop_config_path` names it, with `my_tasks.open_source` as source.
Printed is a JSON list, last, of {"prompts", "said", "rewards"} for each of EPISODES, by rows.
"""

import asyncio
import json
import sys
from functools import cache
from types import ModuleType
from typing import Any

from byte_tokenizer import make_byte_tokenizer
from env_serving import make_source
from omegaconf import OmegaConf
from verl.experimental.agent_loop import agent_loop
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.workers.rollout.replica import TokenOutput

TOKENIZER = make_byte_tokenizer()
PLAYED: list[dict[str, Any]] = []
"""the rows of each episode"""


class ScriptedServer:
    """The model of a worker, which says the commands of one episode."""

    def __init__(self, commands: list[str]) -> None:
        self._commands = iter(commands)

    async def generate(self, request_id: str, **_: Any) -> Any:
        tokens = TOKENIZER.encode(next(self._commands) + TOKENIZER.eos_token)
        return TokenOutput(token_ids=tokens, log_probs=[-0.5] * len(tokens))


def make_worker() -> Any:
    """The worker without its actor, its model and its configuration of training."""
    worker = object.__new__(agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class)
    worker.rollout_config = OmegaConf.create({"prompt_length": 4096, "response_length": 512})
    rollout = {"actor_rollout_ref": {"rollout": worker.rollout_config}, "data": {}}
    worker.config = OmegaConf.create(rollout)
    worker.tokenizer, worker.processor, worker.tools = TOKENIZER, None, []
    worker.hf_model_type = worker.dataset_cls = worker.reward_loop_worker_handles = None
    worker.mm_processor_kwargs, worker.distillation_enabled = {}, False
    return worker


async def play_episodes(worker: Any, episodes: list[dict[str, Any]]) -> None:
    about = {"step": 0, "sample_index": 0, "rollout_n": 0, "validate": False}
    for each in episodes:
        PLAYED.append({"prompts": [], "said": [], "rewards": []})
        worker.llm_client = ScriptedServer(each["commands"])
        await worker._run_agent_loop(
            {},
            about,
            agent_name="rookery",
            trace=False,
            raw_prompt=[],
            uid="episode",
            session_id=0,
            global_steps=0,
            extra_info={"split": each["split"], "index": each["index"]},
        )


async def keep_rows(
    keys: list[str], fields: Any, tags: list[dict[str, Any]], partition_id: str
) -> None:
    """Stand in for the TransferQueue, which would start Ray: note the rows, decoded."""
    for row in range(len(keys)):
        completion = TOKENIZER.decode(fields["responses"][row].tolist(), skip_special_tokens=True)
        assert fields["response_mask"][row].all()
        assert len(fields["rollout_log_probs"][row]) == len(fields["responses"][row])
        PLAYED[-1]["prompts"].append(TOKENIZER.decode(fields["prompts"][row].tolist()))
        PLAYED[-1]["said"].append(completion)
        PLAYED[-1]["rewards"].append(fields["rm_scores"][row].sum().item())


def main(configuration: str) -> None:
    tasks = ModuleType("my_tasks")
    tasks.__dict__["open_source"] = cache(make_source)
    sys.modules["my_tasks"] = tasks
    for loop in OmegaConf.load(configuration):  # as the worker itself reads it
        agent_loop._agent_loop_registry[loop.name] = loop
    agent_loop_tq.tq.async_kv_batch_put = keep_rows
    asyncio.run(play_episodes(make_worker(), json.load(sys.stdin)))
    sys.stdout.write(f"\n{json.dumps(PLAYED)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
