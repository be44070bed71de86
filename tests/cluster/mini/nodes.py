"""Nodes of a cluster: mount namespaces with a /dev and simulated GPUs of their own."""

import os
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.mini.paths import GPUSIM_NODES, RUN
from tests.sandbox import devices, gpus, kernel, processes
from tests.sandbox.paths import GPUSIM


def make(node: str, machine: gpus.Machine, port: int, extra: Iterable[Path] = ()) -> None:
    """Make the node. `nsenter --mount=RUN/NODE/ns COMMAND` runs something there."""
    folder = RUN / node
    folder.mkdir(parents=True)
    (folder / "port").write_text(f"{port}\n")
    gpus.plug_in(machine, GPUSIM_NODES / node)
    # A process keeps the namespace: recent kernels refuse, now and then, to bind its file.
    keeper = processes.detach(
        lambda: _furnish(machine, GPUSIM_NODES / node, extra),
        lambda: processes.execute(("sleep", "infinity"), os.environ),
    )
    (folder / "ns").symlink_to(f"/proc/{keeper}/ns/mnt")


def _furnish(machine: gpus.Machine, state: Path, extra: Iterable[Path]) -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    devices.mount_node_dev(machine.minors)
    for path in extra:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o666)
    kernel.bind(state, GPUSIM)


def enter(node: str) -> None:
    """Move this process into the node."""
    fd = os.open(RUN / node / "ns", os.O_RDONLY)
    kernel.setns(fd, kernel.CLONE_NEWNS)
    os.close(fd)


def port(node: str) -> int:
    return int((RUN / node / "port").read_text())


def names() -> list[str]:
    """The nodes that exist, in the order of their making."""
    return [path.parent.name for path in sorted(Path(RUN).glob("*/ns"))]
