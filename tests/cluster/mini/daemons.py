"""Daemons of a cluster; process ids and logs are in RUN/HOST, a node's or the controller's."""

import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.mini import nodes
from tests.cluster.mini.paths import CONTROLLER, RUN, SELECT_SOCKET, SLURM_CONF, runtime_dir
from tests.sandbox import vgpus
from tests.sandbox.daemon import ENV, Daemon, connects
from tests.sandbox.errors import SandboxError

_ENV = {**ENV, "SLURM_CONF": str(SLURM_CONF)}


def _munged(host: str) -> Daemon:
    path = Path("/run/munge/munge.socket.2")
    return Daemon(
        "munged",
        RUN / host,
        ("munged", "--foreground", f"--socket={path}"),
        ready=lambda: connects(path, socket.SOCK_STREAM),
        user="munge",
    )


def _slurmctld(host: str) -> Daemon:
    return Daemon(
        "slurmctld", RUN / host, ("slurmctld", "-D"), _controller_serves, env=_ENV, own_log=True
    )


def _slurmd(node: str) -> Daemon:
    return Daemon(
        "slurmd",
        RUN / node,
        ("slurmd", "-D", "-N", node),
        ready=lambda: node_serves(node),
        env=_ENV,
        own_log=True,
        enter=lambda: nodes.enter(node),
    )


def _vgpud(node: str) -> Daemon:
    return vgpus.vgpud(node, RUN / node, runtime_dir(node), enter=lambda: nodes.enter(node))


_EAGER = ("--interval=5", "--report-interval=5")


def _agent(node: str) -> Daemon:
    folder = runtime_dir(node)
    return Daemon(
        "agent",
        RUN / node,
        # As in its unit: who asks it waits for a tenth of a second only.
        ("nice", "-n-5", "vgpu-agent", f"--node={node}", f"--runtime-dir={folder}", *_EAGER),
        ready=lambda: connects(folder / "agent.sock", socket.SOCK_STREAM),
        env=_ENV,
        enter=lambda: nodes.enter(node),
    )


def _select(host: str) -> Daemon:
    return Daemon(
        "select",
        RUN / host,
        ("vgpu-select", f"--socket={SELECT_SOCKET}", "--interval=0.5"),
        ready=lambda: connects(SELECT_SOCKET, socket.SOCK_STREAM),
        env=_ENV,
        user="slurm",
    )


_OF_CONTROLLER: Mapping[str, Callable[[str], Daemon]] = {
    "munged": _munged,
    "slurmctld": _slurmctld,
    "select": _select,
}
_OF_NODE: Mapping[str, Callable[[str], Daemon]] = {
    "vgpud": _vgpud,
    "slurmd": _slurmd,
    "agent": _agent,
}


def find(host: str, name: str) -> Daemon:
    known = _OF_CONTROLLER if host == CONTROLLER else _OF_NODE
    if not (RUN / host).is_dir():
        raise SandboxError(
            f"there is no node {host}; there are {', '.join([CONTROLLER, *nodes.names()])}"
        )
    if name not in known:
        raise SandboxError(f"there is no daemon {name} on {host}; there are {', '.join(known)}")
    return known[name](host)


# --- are they there? ------------------------------------------------------------------------------


def _controller_serves() -> bool:
    """Does slurmctld answer, and has it heard of the nodes again whose slurmd is running?"""
    done = subprocess.run(
        ["scontrol", "ping"], env=_ENV, capture_output=True, text=True, check=False
    )
    waiting = (
        node for node in nodes.names() if node_state(node) == "unknown" and _slurmd(node).runs()
    )
    return "is UP" in done.stdout and not any(waiting)


def node_state(node: str) -> str:
    """State of the node as slurmctld has it, e.g. idle, down*, drained; empty: no answer."""
    command = ["sinfo", "-h", "-N", "-n", node, "-o", "%T"]
    done = subprocess.run(command, env=_ENV, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0]


def node_serves(node: str) -> bool:
    """Does slurmd listen, and has slurmctld taken the node in?"""
    return _listens(nodes.port(node)) and node_state(node) in (
        "idle",
        "mixed",
        "allocated",
        "completing",
    )


def _listens(port: int) -> bool:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[1].endswith(f":{port:04X}") and words[3] == "0A":
            return True
    return False
