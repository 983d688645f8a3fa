"""Plays episodes through another engine, in that engine's environment, and prints what it saw.

Usage: engine_clients.py openenv|verifiers|verl ADDRESS < EPISODES
EPISODES is a JSON list of {"split", "index", "question", "commands"}; printed is a JSON list, last,
of {"prompts", "reward"}, the prompts as the policy was given them.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Episodes = list[dict[str, Any]]


def play_openenv(address: str, episodes: Episodes) -> Iterator[dict[str, Any]]:
    """Through openenv's own client, over the WebSocket."""
    from openenv import GenericEnvClient

    with GenericEnvClient(base_url=address) as client:
        for each in episodes:
            result, prompts = client.reset(split=each["split"], index=each["index"]), []
            for command in each["commands"]:
                prompts.append(result.observation["prompt"])
                result = client.step({"command": command})
            assert result.done
            yield {"prompts": prompts, "reward": result.reward}


def validate_openenv(address: str) -> Iterator[dict[str, Any]]:
    """The report of openenv's own validator of running servers."""
    from openenv.cli._validation import validate_running_environment

    yield validate_running_environment(address)


@contextmanager
def serve_scripted_model(
    episodes: Episodes, prompts_by_question: dict[str, list[str]]
) -> Iterator[str]:
    """The address of a chat model that says an episode's next command, and notes its prompts."""
    commands = {each["question"]: each["commands"] for each in episodes}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told = [_read_text(each) for each in body["messages"] if each["role"] == "user"]
            prompts = [json.loads(each)["observation"]["prompt"] for each in told]
            question = prompts[0].split("\n")[1]
            prompts_by_question[question] = prompts
            said = commands[question][len(prompts) - 1]
            self.answer(said, bool(body.get("stream")))

        def answer(self, reply: str, stream: bool) -> None:
            head = {"id": "1", "created": 0, "model": "scripted"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            message = {"role": "assistant", "content": reply}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            kind, data = "application/json", json.dumps(whole)
            if stream:
                head["object"] = "chat.completion.chunk"
                begun = {"index": 0, "delta": message, "finish_reason": None}
                ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
                parts: list[dict[str, Any]] = [
                    {**head, "choices": [begun]},
                    {**head, "choices": [ended]},
                    {**head, "choices": [], "usage": usage},
                ]
                lines = [*map(json.dumps, parts), "[DONE]"]
                kind, data = "text/event-stream", "".join(f"data: {one}\n\n" for one in lines)
            sent = data.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


def _read_text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def play_verifiers(address: str, episodes: Episodes) -> Iterator[dict[str, Any]]:
    """Through verifiers' stock taskset `openenv`, with its harness that only chats."""
    import verifiers.v1 as vf
    from verifiers.v1.clients import EvalClientConfig, ModelContext
    from verifiers.v1.env import RunSlot
    from verifiers.v1.harnesses.null import NullHarnessConfig
    from verifiers.v1.runtimes import SubprocessConfig
    from verifiers.v1.tasksets.openenv import OpenEnvConfig, OpenEnvEnvConfig
    from verifiers.v1.utils.loaders import load_environment

    os.environ["SCRIPTED_KEY"] = "none"
    # Its programs are started with uv, which is beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    resets = [{"split": each["split"], "index": each["index"]} for each in episodes]
    environment = load_environment(
        OpenEnvEnvConfig(
            player=vf.AgentConfig(harness=NullHarnessConfig(id="null"), runtime=SubprocessConfig()),
            taskset=OpenEnvConfig(id="openenv", base_url=address, resets=resets),
        )
    )
    prompts_by_question: dict[str, list[str]] = {}

    async def note_nothing(episode: Any) -> None:
        pass

    async def run_slots(model: str) -> list[Any]:
        client = EvalClientConfig(base_url=model, api_key_var="SCRIPTED_KEY")
        context = ModelContext(client=client, model="scripted")
        async with environment.serving():
            slots = [RunSlot(task) for task in environment.taskset]
            return [await environment.run_slot(one, context, None, note_nothing) for one in slots]

    with serve_scripted_model(episodes, prompts_by_question) as model:
        played = asyncio.run(run_slots(model))
    for each, episode in zip(episodes, played, strict=True):
        (trace,) = episode.traces
        yield {"prompts": prompts_by_question.get(each["question"]), "reward": trace.reward}


PLAYERS = {
    "openenv": play_openenv,
    "validate": lambda address, _: validate_openenv(address),
    "verifiers": play_verifiers,
}


def main(arguments: Sequence[str]) -> None:
    name, address = arguments
    found = list(PLAYERS[name](address, json.load(sys.stdin)))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
