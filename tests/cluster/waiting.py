"""Wait for what a cluster does in its own time."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.cluster.running import PYTHON, RunningCluster

Found = TypeVar("Found")
_POLL = 0.05


def until(look: Callable[[], Found], what: str, timeout: float = 60) -> Found:
    """What look() finds, as soon as that is true."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"not after {timeout} s: {what}"
        time.sleep(_POLL)
    return found


def admin_comment(cluster: RunningCluster, job: int) -> str:
    """AdminComment, which may hold anything, has a line of its own."""
    printed = cluster.check("scontrol", "show", "job", str(job))
    lines = (line.strip().partition("=") for line in printed.splitlines())
    return next((value for key, _, value in lines if key == "AdminComment"), "").strip()


def until_bound(cluster: RunningCluster, node: str, job: int) -> list[dict[str, Any]]:
    """The vGPUs of a job on a node, once it has some and its AdminComment says so."""

    def look() -> list[dict[str, Any]]:
        if "vgpu{" not in admin_comment(cluster, job):
            return []
        return [binding["vgpu"] for binding in cluster.vgpus(node) if binding["job"] == job]

    return until(look, f"job {job} has vGPUs on {node}")


def until_count(cluster: RunningCluster, node: str, count: int) -> list[dict[str, Any]]:
    """All bindings of a node, once there are so many."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = cluster.vgpus(node)
        return len(found) == count

    until(look, f"{node} has {count} bindings")
    return found


_AGENT = """
import socket, sys
path, answer = sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("ready", flush=True)
while True:
    link, _ = server.accept()
    print(link.makefile().readline(), end="", flush=True)
    link.sendall(answer.encode() + b"\\n")
    link.close()
"""


def end(process: subprocess.Popen[str]) -> str:
    """Kill what was started with popen(), with its children. Returns what it had printed."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


@contextmanager
def agent(cluster: RunningCluster, node: str, answer: str) -> Iterator[list[str]]:
    """An agent that gives every step of the node this answer. Afterwards: what it was asked."""
    socket = f"/run/vgpu/{node}/agent.sock"
    questions: list[str] = []
    process = cluster.popen(PYTHON, "-c", _AGENT, socket, answer)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield questions
    finally:
        questions += end(process).splitlines()
        cluster.check("rm", socket)
