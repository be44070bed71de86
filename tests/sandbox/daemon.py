"""A daemon in a sandbox: start it and wait until it serves, stop it, kill it."""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.sandbox import processes
from tests.sandbox.errors import SandboxError

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_START = 20.0  # seconds until a daemon serves
_STOP = 20.0
_POLL = 0.02
_TAIL = 15  # lines of a log that go with an error


@dataclass(frozen=True)
class Daemon:
    """What to run and how to see that it serves. Its process id and log are files in folder."""

    name: str
    folder: Path
    command: tuple[str, ...]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=lambda: ENV)
    user: str | None = None
    own_log: bool = False  # writes NAME.log itself, so that what it prints goes to NAME.out
    enter: Callable[[], None] | None = None  # where it runs, if not here

    def __str__(self) -> str:
        return f"{self.name} of {self.folder.name}"

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
            raise SandboxError(f"{self} is running already")
        pid = processes.detach(
            self._prepare, lambda: processes.execute(self.command, self.env, self.user)
        )
        self.pid_file.write_text(f"{pid}\n")
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + _START
        while not self.ready():
            if not self.runs():
                raise SandboxError(f"{self} ended at once{self.tail()}")
            if time.monotonic() > deadline:
                raise SandboxError(f"{self} does not serve{self.tail()}")
            time.sleep(_POLL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal and wait until the process is gone."""
        handle = self._handle()
        if handle is None:
            raise SandboxError(f"{self} is not running")
        signal.pidfd_send_signal(handle, number)
        gone, _, _ = select.select([handle], [], [], _STOP)
        os.close(handle)
        if not gone:
            raise SandboxError(f"{self} does not end{self.tail()}")

    def restart(self) -> None:
        self.stop()
        self.start()

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
        if self.enter:
            self.enter()


def connects(path: Path, kind: socket.SocketKind) -> bool:
    """Does somebody listen at this UNIX socket?"""
    with socket.socket(socket.AF_UNIX, kind) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
