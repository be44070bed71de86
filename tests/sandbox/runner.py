"""The life of a sandbox: a runner outside, an init inside, and the body that it was made for."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox import cgroups, devices, filesystem, gpus, kernel, processes, suite, users
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import STAGE, STEP_DIR

HOSTNAME = "slurm-vgpu"
ADDRESS = "192.0.2.1"  # set aside for documentation, so never anybody's
_NAMESPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
_PATIENCE = 2.0  # seconds for the command to go when it is asked to
NEEDS = (
    "needs root and the right to mount, to make a machine of its own: start it with sudo, "
    "or in a container that has CAP_SYS_ADMIN"
)


@dataclass(frozen=True)
class Sandbox:
    """A machine with simulated GPUs that exists while one function runs in it."""

    runner: str  # name of the program, for errors
    machine: gpus.Machine
    installed: bool = False  # the suite is on the machine already
    with_cgroups: bool = False  # a cgroup of its own, in which it may make others

    def run(self, body: Callable[[], int]) -> int:
        """Run body, as root and in a process of its own, inside. Returns its exit code.

        Whatever was started inside is killed when body ends or this process dies.
        """
        if os.geteuid() != 0:
            raise SandboxError(NEEDS)
        processes.hold_signals()
        if not self.with_cgroups:
            return self._run(body, None)
        own = cgroups.find()
        remove, watcher = cgroups.watched(own)
        try:
            own.make()
            return self._run(body, own)
        finally:
            os.close(remove)
            processes.wait_plainly(watcher)

    def _run(self, body: Callable[[], int], own: cgroups.Cgroups | None) -> int:
        try:
            kernel.unshare(_NAMESPACES)
        except PermissionError:
            raise SandboxError(NEEDS) from None
        alive, runner = os.pipe()
        init = processes.fork(lambda: self._init(alive, runner, body, own))
        os.close(alive)
        os.write(runner, b"!")
        return processes.wait(init, patience=_PATIENCE)

    def _init(
        self, alive: int, runner: int, body: Callable[[], int], own: cgroups.Cgroups | None
    ) -> int:
        """Process 1: the kernel kills all others when it ends, and it ends with the runner."""
        kernel.die_with_parent()
        os.close(runner)
        if not os.read(alive, 1):  # the runner died before it could be noticed
            return 1
        os.close(alive)
        processes.hold_signals()
        return self._guarded(lambda: self._live(body, own))

    def _live(self, body: Callable[[], int], own: cgroups.Cgroups | None) -> int:
        if own:
            own.enter()
        with kernel.umask(0o022):  # of the caller's own only the command is to know
            self._set_up()
        pid = processes.fork(lambda: self._guarded(body))
        return processes.stopped_early() or processes.wait(pid, reap_orphans=True)

    def _guarded(self, body: Callable[[], int]) -> int:
        """An error of the set-up is a sentence and exit code 2, wherever it happens."""
        try:
            return body()
        except SandboxError as error:
            reason = str(error)
        except OSError as error:
            reason = f"the machine cannot be set up: {error}"
        if code := processes.stopped_early():  # nothing is wrong: somebody has pressed Ctrl-C
            return code
        print(f"{self.runner}: {reason}", file=sys.stderr)
        return 2

    def _set_up(self) -> None:
        filesystem.stage()
        if not self.installed:
            suite.install(STAGE)
        suite.install_driver(STAGE)
        suite.link_runners(STAGE)
        filesystem.lay()
        users.add_users(Path("/etc"), Path("/home"))
        filesystem.name_host(HOSTNAME, ADDRESS)
        devices.mount_dev(self.machine.minors)
        gpus.plug_in(self.machine)
        STEP_DIR.mkdir()
        filesystem.mount_proc()
        kernel.loopback_up(ADDRESS)
