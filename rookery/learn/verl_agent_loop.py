"""The text browser as an agent loop of verl.

Each turn is a training row of its own: WebGPT's prompt shows the whole state anew, so an episode of
n turns gives n outputs, and the reward of the last counts for all. That needs verl's newest worker
(`AgentLoopWorkerTQ`), which takes a list of outputs.

verl registers the loop by the file that `actor_rollout_ref.rollout.agent.agent_loop_config_path`
names. Its decorator `register` would replace that entry, and with it the source:

    - name: rookery
      _target_: rookery.learn.verl_agent_loop.VerlBrowserLoop
      source: {_target_: my_tasks.open_source}
"""

from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from rookery.browser.browser import BrowserRequest, answer_request
from rookery.browser.episode_source import EpisodeSource, SourceEpisode


class VerlBrowserLoop(AgentLoopBase):  # type: ignore[misc]
    """An episode of a source for each sample, whose `extra_info` names its split and index.

    verl makes one loop a sample, so the configuration names a function as `source` that returns the
    same object each time. Prompts are tokenised as they are or, with `chat`, as the one message of
    a user in the model's chat template. A prompt of more than `rollout.prompt_length` tokens ends
    the episode, whose reward is then 0.
    """

    def __init__(
        self, *args: Any, source: EpisodeSource, chat: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._source = source
        self._chat = chat

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """Play the episode of a sample; return one output a turn, each with the reward.

        Raises ValueError where the sample names no task of the source, and where its first prompt
        is too long.
        """
        extra_info = kwargs.get("extra_info") or {}
        if "index" not in extra_info:
            raise ValueError('a sample needs extra_info = {"split": ..., "index": ...}')
        selected = self._source.select_task(extra_info.get("split") or "", int(extra_info["index"]))
        episode, request_id = self._source.create_episode(selected), uuid4().hex
        await self._answer_requests(episode, episode.browser.begin_browsing())
        rows: list[AgentLoopOutput] = []
        while episode.browser.observation is not None:
            prompt_ids, longest = self._encode_prompt(episode.browser.prompt), self._longest_prompt
            if len(prompt_ids) > longest:
                if not rows:
                    sizes = f"{len(prompt_ids):,} tokens, and rollout.prompt_length is {longest:,}"
                    raise ValueError(f"the first prompt has {sizes}")
                break
            row, text = await self._sample_turn(request_id, prompt_ids, sampling_params)
            rows.append(row)
            await self._answer_requests(episode, episode.browser.accept_text(text))
        return self._reward_rows(rows, episode)

    @property
    def _longest_prompt(self) -> int:
        return int(self.rollout_config.prompt_length)

    def _encode_prompt(self, prompt: str) -> list[int]:
        if not self._chat:
            return list(self.tokenizer.encode(prompt))
        messages = [{"role": "user", "content": prompt}]
        return list(self.continuous_token_builder.build_initial_tokens(messages))

    async def _sample_turn(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> tuple[AgentLoopOutput, str]:
        """Return the row of one turn, and what was said in it."""
        output = await self.server_manager.generate(
            request_id=request_id, prompt_ids=prompt_ids, sampling_params=sampling_params
        )
        most = self.rollout_config.response_length
        tokens = list(output.token_ids)[:most]
        row = AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=tokens,
            response_mask=[1] * len(tokens),
            response_logprobs=output.log_probs and list(output.log_probs)[:most],
            num_turns=2,
            metrics=AgentLoopMetrics(),
            extra_fields=dict(output.extra_fields),
        )
        return row, str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    async def _answer_requests(
        self, episode: SourceEpisode, request: BrowserRequest | None
    ) -> None:
        """Answer an episode's requests, in another thread where that may take long."""
        while request is not None:
            if self._source.answers_at_once:
                reply = answer_request(episode.library, request)
            else:
                reply = await self.loop.run_in_executor(
                    None, answer_request, episode.library, request
                )
            request = episode.browser.accept_reply(reply)

    def _reward_rows(
        self, rows: list[AgentLoopOutput], episode: SourceEpisode
    ) -> list[AgentLoopOutput]:
        ended = episode.browser.result
        reward = self._source.compute_reward(ended) if ended else 0.0
        for row in rows:
            row.reward_score = reward
            row.extra_fields["reward_extra_info"] = {
                "answered": float(bool(ended and ended.answer))
            }
        return rows
