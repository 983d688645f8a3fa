"""Runs a script in two processes, as torchrun starts them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])


def in_two_processes(script: Path, *said: str) -> None:
    """Waits until both have ended. Raises AssertionError with what they said where one failed."""
    ran = run_in_two(script, *said)
    assert ran.returncode == 0, ran.stderr[-3000:]


def run_in_two(script: Path, *said: str) -> subprocess.CompletedProcess[str]:
    """Waits until both have ended, or one has failed and the other was stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--master_addr", "127.0.0.1", "--master_port", str(port), str(script), *said]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ROOT}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
