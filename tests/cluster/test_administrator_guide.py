"""docs/administrator.md, followed literally: from a Slurm without vGPUs to the first job.

Every ``sh`` block of the guide runs where the line before it says, in order, and must succeed. Only
systemd is not there: a script in its place starts and stops the same daemons. The suite comes from
`make install` here; tests/packaging follows the guide with packages.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.guide import (
    GUIDE,
    INSTALL,
    WHERE,
    assert_first_job,
    blocks,
    follow,
    prepare,
)
from tests.cluster.running import RunningCluster


@pytest.fixture(scope="module")
def bare() -> Iterator[RunningCluster]:
    """A cluster without any configuration of ours; each node has a /run/vgpu of its own."""
    cluster = RunningCluster("--plan", "none")
    prepare(cluster)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def followed(bare: RunningCluster) -> dict[tuple[int, str], str]:
    return follow(bare)


def test_that_every_block_says_where_it_runs() -> None:
    assert len(blocks()) == GUIDE.read_text().count("```sh\n") >= 10
    assert {block.where for block in blocks()} <= {*WHERE, *INSTALL}


def test_that_the_guide_leads_to_the_first_job(followed: dict[tuple[int, str], str]) -> None:
    assert_first_job(followed)


def test_that_init_shows_the_hardware_of_the_node(followed: dict[tuple[int, str], str]) -> None:
    shown = next(text for text in followed.values() if text.startswith("# A first plan"))
    assert "names: n1\n" in shown
    assert "nvlink: {0-1: 12, 2-3: 12}" in shown


def test_that_the_steps_of_the_guide_leave_nothing_to_be_found(
    bare: RunningCluster, followed: dict[tuple[int, str], str]
) -> None:
    check = "vgpu config check /etc/slurm/plan.yaml"
    blocks_with_check = [block for block in blocks() if check in block.commands]
    assert len(blocks_with_check) == 2  # a finding would have ended the block
    assert bare.states() == {"n1": "idle", "n2": "idle"}
    assert "vgpu:a100-2g:16" in followed[blocks_with_check[0].line, "controller"]


def test_that_every_code_of_a_finding_is_explained() -> None:
    folder = Path(__file__).parents[2] / "gres" / "check"
    sources = "".join(path.read_text() for path in folder.glob("*.py"))
    codes = set(re.findall(r'(?:Finding|_stale|_not_running)\(\s*"([a-z-]+)"', sources))
    codes |= set(re.findall(r'lists: .*?"([a-z-]+)",$', sources, re.MULTILINE))
    table = set(re.findall(r"`([a-z-]+)`", GUIDE.read_text().partition("# Later")[2]))
    assert len(codes) > 20
    assert codes <= table
