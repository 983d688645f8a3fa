"""Connect to a Ray cluster, which places shards and workers on several machines."""

import logging
import socket
from typing import Any

from rookery.errors import Failed, Outcome
from rookery.records import Failure

CONNECTION_SECONDS = 10.0


def connect_to_ray(address: str) -> Any:
    """Connect this process to a cluster, once, and return the module ray.

    `address` is "auto", HOST:PORT, ray://HOST:PORT, or "local" for a cluster that ends with this
    process. Raises Failed: not_installed, no_cluster.
    """
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        detail = "ray is not installed: pip install 'rookery[ray]'"
        raise Failed(Failure(address, Outcome.NOT_INSTALLED, detail)) from error
    if not ray.is_initialized():
        try:
            host, _, port = address.removeprefix("ray://").rpartition(":")
            if port.isdigit():  # where nothing listens, ray tries for minutes
                socket.create_connection((host, int(port)), CONNECTION_SECONDS).close()
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            words = " ".join(str(error).split())[:200]
            detail = (
                "no Ray cluster answers there: ray start --head begins one; where one asks for a "
                f"token (~/.ray/auth_token), set RAY_AUTH_MODE=token ({words})"
            )
            raise Failed(Failure(address, Outcome.NO_CLUSTER, detail)) from error
    return ray
