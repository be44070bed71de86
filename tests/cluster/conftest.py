"""Clusters for tests: one for each configuration, started at its first use, shared by all tests."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.running import RunningCluster

Clusters = Callable[..., RunningCluster]


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """clusters(*options of `minicluster run`): that cluster, started if nobody has used it yet."""
    running: dict[tuple[str, ...], RunningCluster] = {}

    def get(*options: str) -> RunningCluster:
        if options not in running:
            running[options] = RunningCluster(*options)
        return running[options]

    yield get
    for cluster in running.values():
        cluster.close()


@pytest.fixture
def cluster(clusters: Clusters) -> Iterator[RunningCluster]:
    """Two nodes with four A100 each, all carved into vGPUs of 4 GiB; idle before and after."""
    cluster = clusters()
    yield cluster
    cluster.settle()
