"""A Ray cluster of two nodes on this machine, for tests of what runs on several."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with two processors each; its address is `cluster.address`."""
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    memory = 80 * 2**20
    head = {"num_cpus": 2, "object_store_memory": memory, "include_dashboard": False}
    try:
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=2, object_store_memory=memory)
        cluster.wait_for_nodes()
    except Exception as error:
        pytest.skip(f"no Ray cluster starts on this machine: {error}")
    yield cluster
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]
