"""Daemons of a cluster: start one and wait until it serves, stop it, kill it.

Each leaves its process id and log in /run/minicluster/HOST; HOST is a node or `controller`.
"""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.mini import nodes
from tests.cluster.mini.paths import CONTROLLER, RUN, SLURM_CONF, VGPU_CONF, runtime_dir
from tests.sandbox import processes
from tests.sandbox.errors import SandboxError

_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": str(SLURM_CONF)}
_START = 20.0  # seconds until a daemon serves
_STOP = 20.0
_POLL = 0.02
_TAIL = 15  # lines of a log that go with an error


@dataclass(frozen=True)
class Daemon:
    name: str
    host: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    user: str | None = None
    own_log: bool = False  # writes NAME.log itself, so that what it prints goes to NAME.out

    @property
    def folder(self) -> Path:
        return RUN / self.host

    @property
    def pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def output(self) -> Path:
        return self.folder / f"{self.name}.out" if self.own_log else self.log

    def start(self, wait: bool = True) -> None:
        if self.runs():
            raise SandboxError(f"{self.name} on {self.host} is running already")
        pid = processes.detach(
            self._prepare, lambda: processes.execute(self.command, _ENV, self.user)
        )
        self.pid_file.write_text(f"{pid}\n")
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _START
        while not self.ready():
            if not self.runs():
                raise SandboxError(f"{self.name} on {self.host} ended at once{self.tail()}")
            if time.monotonic() > deadline:
                raise SandboxError(f"{self.name} on {self.host} does not serve{self.tail()}")
            time.sleep(_POLL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal and wait until the process is gone."""
        handle = self._handle()
        if handle is None:
            raise SandboxError(f"{self.name} on {self.host} is not running")
        signal.pidfd_send_signal(handle, number)
        gone, _, _ = select.select([handle], [], [], _STOP)
        os.close(handle)
        if not gone:
            raise SandboxError(f"{self.name} on {self.host} does not end{self.tail()}")

    def runs(self) -> bool:
        handle = self._handle()
        if handle is not None:
            os.close(handle)
        return handle is not None

    def _handle(self) -> int | None:
        """A pidfd of the running process, or None."""
        try:
            handle = os.pidfd_open(int(self.pid_file.read_text()))
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        if select.select([handle], [], [], 0)[0]:
            os.close(handle)
            return None
        return handle

    def tail(self) -> str:
        """The end of the log, to be put behind an error."""
        for path in (self.log, self.output):
            lines = path.read_text(errors="replace").splitlines()[-_TAIL:] if path.exists() else []
            if lines:
                return f"; the end of {path}:\n" + "\n".join(f"  {line}" for line in lines)
        return f"; {self.log} is empty"

    def _prepare(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for target, source in ((0, null), (1, output), (2, output)):
            os.dup2(source, target)
        os.umask(0o022)
        os.chdir("/")
        if self.host != CONTROLLER:
            nodes.enter(self.host)


# --- which daemons there are ----------------------------------------------------------------------


def _munged(_host: str) -> Daemon:
    socket_path = "/run/munge/munge.socket.2"
    return Daemon(
        "munged",
        CONTROLLER,
        ("munged", "--foreground", f"--socket={socket_path}"),
        ready=lambda: _connects(socket_path, socket.SOCK_STREAM),
        user="munge",
    )


def _slurmctld(_host: str) -> Daemon:
    return Daemon(
        "slurmctld", CONTROLLER, ("slurmctld", "-D"), ready=_controller_serves, own_log=True
    )


def _slurmd(node: str) -> Daemon:
    return Daemon(
        "slurmd", node, ("slurmd", "-D", "-N", node), ready=lambda: node_serves(node), own_log=True
    )


def _vgpud(node: str) -> Daemon:
    folder = runtime_dir(node)
    return Daemon(
        "vgpud",
        node,
        ("vgpud", "--node", node, "--conf", str(VGPU_CONF), "--runtime-dir", str(folder)),
        ready=lambda: _connects(str(folder / "vgpud.sock"), socket.SOCK_SEQPACKET),
    )


_OF_CONTROLLER: Mapping[str, Callable[[str], Daemon]] = {"munged": _munged, "slurmctld": _slurmctld}
_OF_NODE: Mapping[str, Callable[[str], Daemon]] = {"vgpud": _vgpud, "slurmd": _slurmd}


def find(host: str, name: str) -> Daemon:
    known = _OF_CONTROLLER if host == CONTROLLER else _OF_NODE
    if not (RUN / host).is_dir():
        raise SandboxError(
            f"there is no node {host}; there are {', '.join(sorted(path.name for path in RUN.iterdir()))}"
        )
    if name not in known:
        raise SandboxError(f"there is no daemon {name} on {host}; there are {', '.join(known)}")
    return known[name](host)


# --- are they there? ------------------------------------------------------------------------------


def _connects(path: str, kind: int) -> bool:
    with socket.socket(socket.AF_UNIX, kind) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


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
