"""Nodes of a cluster: mount namespaces with a /dev and simulated GPUs of their own."""

import os
import socket
from pathlib import Path

from tests.cluster.mini.paths import GPUSIM_NODES, RUN
from tests.sandbox import devices, gpus, kernel, processes
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import GPUSIM


def make(node: str, machine: gpus.Machine, port: int) -> None:
    """Make the node. Its namespace stays under RUN/NODE/ns: `nsenter --mount=... COMMAND` works."""
    folder = RUN / node
    folder.mkdir(parents=True)
    (folder / "port").write_text(f"{port}\n")
    gpus.plug_in(machine, GPUSIM_NODES / node)
    (folder / "ns").touch()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = processes.fork(lambda: _inside(node, machine, ours, theirs))
        theirs.close()
        if ours.recv(1):
            kernel.mount(f"/proc/{child}/ns/mnt", folder / "ns", flags=kernel.MS_BIND)
    if processes.wait_plainly(child) != 0:
        raise SandboxError(f"node {node} cannot be set up")


def _inside(node: str, machine: gpus.Machine, parent: socket.socket, me: socket.socket) -> int:
    parent.close()
    kernel.unshare(kernel.CLONE_NEWNS)
    devices.mount_node_dev(machine.minors)
    kernel.bind(GPUSIM_NODES / node, GPUSIM)
    me.send(b"!")
    me.recv(1)  # until the namespace has a name
    return 0


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
