"""docs/administrator.md, followed literally: from a Slurm without vGPUs to the first job.

Every ``sh`` block of the guide runs where the line before it says, in order, and must succeed. Only
systemd is not there: a script in its place starts and stops the same daemons.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.running import RunningCluster

GUIDE = Path(__file__).parents[2] / "docs" / "administrator.md"
NODES = ("n1", "n2")
WHERE = {
    "On the controller": ("controller",),
    "On node n1": ("n1",),
    "On every node": NODES,
    "On every host": ("controller", *NODES),
    "As a user": ("user",),
}
SYSTEMCTL = """\
#!/bin/sh
# systemctl ACTION [--now] UNIT, on the host $HOST.
# Slurm's daemons know the machine by its real name.
action=$1; shift; test "$1" = --now && shift
case $action:$1 in
enable:vgpud) setsid vgpud >/run/vgpu/log 2>&1 </dev/null & ;;
*) nsenter --target 1 --uts minicluster ctl "$HOST" "$action" "$1" ;;
esac
"""


@dataclass(frozen=True)
class Block:
    line: int
    where: str
    commands: str


def blocks() -> list[Block]:
    found: list[Block] = []
    text = GUIDE.read_text()
    for match in re.finditer(r"^([^\n]+):\n\n```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        found.append(Block(text.count("\n", 0, match.start(2)) + 1, match[1], match[2]))
    return found


@pytest.fixture(scope="module")
def bare() -> Iterator[RunningCluster]:
    """A cluster without any configuration of ours; each node has a /run/vgpu of its own."""
    cluster = RunningCluster("--plan", "none")
    cluster.path("/usr/local/bin/systemctl").write_text(SYSTEMCTL)
    cluster.check("chmod", "755", "/usr/local/bin/systemctl")
    for node in NODES:
        cluster.check("mkdir", "-p", f"/run/nodes/{node}", "/run/vgpu")
        cluster.check("mount", "--bind", f"/run/nodes/{node}", "/run/vgpu", node=node)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def followed(bare: RunningCluster) -> dict[tuple[int, str], str]:
    """What each block printed on each host: (line of the guide, host) -> text."""
    printed: dict[tuple[int, str], str] = {}
    for block in blocks():
        for host in WHERE[block.where]:
            printed[block.line, host] = follow(bare, block, host)
    return printed


def follow(cluster: RunningCluster, block: Block, host: str) -> str:
    if host == "user":
        return cluster.check("bash", "-e", "-c", f"cd; {block.commands}", user="alice")
    script = f"hostname {host}; {block.commands}"
    node = host if host in NODES else None
    return cluster.check(
        "unshare", "--uts", "bash", "-e", "-c", script, node=node, env={"HOST": host}
    )


def test_that_every_block_says_where_it_runs() -> None:
    assert len(blocks()) == GUIDE.read_text().count("```sh\n") >= 10
    assert {block.where for block in blocks()} <= set(WHERE)


def test_that_the_guide_leads_to_the_first_job(followed: dict[tuple[int, str], str]) -> None:
    last = max(followed)
    lines = followed[last].splitlines()
    assert re.fullmatch(r"\d+", lines[0])  # the slot of the first job
    assert re.fullmatch(r"GPU-\S+", lines[1])
    assert re.fullmatch(r"two vGPUs: GPU-[^,]+,GPU-[^,]+", lines[-1])


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
