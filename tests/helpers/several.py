"""Runs a script in two processes."""

import os
import runpy
import subprocess
import sys
import tempfile
from multiprocessing.connection import wait
from pathlib import Path

import torch
from forked import PROCESSES
from ports import find_free_port

ROOT = str(Path(__file__).parents[2])
LONGEST = 300.0
"""seconds after which something hangs"""


def in_two_processes(script: Path, *arguments: str) -> None:
    """Waits until both have ended. Raises AssertionError with what they said where one failed."""
    codes, log = run_in_two(script, *arguments)
    assert codes == [0, 0], log[-3000:]


def run_in_two(script: Path, *arguments: str) -> tuple[list[int | None], str]:
    """Waits until both have ended, or one has failed and the other was stopped: with the variables
    that torchrun sets, but without the seconds in which three processes load torch.

    Returns the exit codes and what was written to standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        log, port = Path(folder) / "log", find_free_port()
        processes = [
            PROCESSES.Process(
                target=run_rank, args=(rank, port, log, script, arguments), daemon=True
            )
            for rank in range(2)
        ]
        for process in processes:
            process.start()
        going = list(processes)
        while going:
            ended = wait([process.sentinel for process in going], LONGEST)
            going = [process for process in going if process.sentinel not in ended]
            if not ended or any(process.exitcode for process in processes):
                for process in going:
                    process.kill()
        for process in processes:
            process.join()
        return [process.exitcode for process in processes], log.read_text() if log.exists() else ""


def run_rank(rank: int, port: int, log: Path, script: Path, arguments: tuple[str, ...]) -> None:
    with log.open("a") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


def run_by_torchrun(script: Path, *arguments: str) -> None:
    """Waits until both have ended. Raises AssertionError with what they said where one failed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--master_addr", "127.0.0.1", "--master_port", str(find_free_port())]
    ran = subprocess.run(
        [*command, str(script), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
