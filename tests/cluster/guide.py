"""docs/administrator.md as something that can be followed: its blocks of commands, in order."""

import re
from dataclasses import dataclass
from pathlib import Path

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
# Done before there is a cluster: by tests/packaging with packages, elsewhere from source.
INSTALL = ("With packages, on every node", "With packages, on the controller")
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
        where = match[1].rpartition(". ")[2]
        found.append(Block(text.count("\n", 0, match.start(2)) + 1, where, match[2]))
    return found


def prepare(cluster: RunningCluster) -> None:
    """Give a cluster without any configuration of ours a systemctl, and each node a /run/vgpu."""
    cluster.path("/usr/local/bin/systemctl").write_text(SYSTEMCTL)
    cluster.check("chmod", "755", "/usr/local/bin/systemctl")
    for node in NODES:
        cluster.check("mkdir", "-p", f"/run/nodes/{node}", "/run/vgpu")
        cluster.check("mount", "--bind", f"/run/nodes/{node}", "/run/vgpu", node=node)


def follow(cluster: RunningCluster) -> dict[tuple[int, str], str]:
    """Do what comes after installation. Returns (line of the guide, host) -> what it printed."""
    return {
        (block.line, host): _do(cluster, block, host)
        for block in blocks()
        if block.where not in INSTALL
        for host in WHERE[block.where]
    }


def _do(cluster: RunningCluster, block: Block, host: str) -> str:
    if host == "user":
        return cluster.check("bash", "-e", "-c", f"cd; {block.commands}", user="alice")
    script = f"hostname {host}; {block.commands}"
    node = host if host in NODES else None
    return cluster.check(
        "unshare", "--uts", "bash", "-e", "-c", script, node=node, env={"HOST": host}
    )


def assert_first_job(printed: dict[tuple[int, str], str]) -> None:
    """The guide ends with a job that has a vGPU, and one that has two."""
    lines = printed[max(printed)].splitlines()
    assert re.fullmatch(r"\d+", lines[0])  # the slot of the first job
    assert re.fullmatch(r"GPU-\S+", lines[1])
    assert re.fullmatch(r"two vGPUs: GPU-[^,]+,GPU-[^,]+", lines[-1])
