"""A cgroup of a sandbox's own, in which it may make others, and which is gone when the sandbox is.

Namespaces end with their last process, cgroups do not. So a process outside watches the runner and
removes them, also after the runner was killed.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox import kernel, processes
from tests.sandbox.errors import SandboxError

_ROOT = Path("/sys/fs/cgroup")
_LEAF = "init"  # version 2 allows processes in leaves only
_REMOVAL = 10.0  # seconds that the kernel may take to get processes out


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy and this process' place in it."""

    mount: Path
    options: str  # for mount: the controllers, or name=NAME; empty for version 2
    place: Path

    @property
    def name(self) -> str:
        return self.mount.name


@dataclass(frozen=True)
class Cgroups:
    """The same name in every hierarchy of version 1, or once below the root of version 2."""

    hierarchies: tuple[Hierarchy, ...]
    name: str
    unified: bool

    def folders(self) -> list[Path]:
        if self.unified:
            return [_ROOT / self.name]
        return [hierarchy.place / self.name for hierarchy in self.hierarchies]

    def make(self) -> None:
        for folder in self.folders():
            folder.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):  # of version 1 has to be told
                if not self.unified and (folder / file).exists():
                    (folder / file).write_text((folder.parent / file).read_text())

    def enter(self) -> None:
        """Move this process in, and let the hierarchies look as if there were nothing else."""
        for folder in self.folders():
            (folder / "cgroup.procs").write_text("0")
        kernel.unshare(kernel.CLONE_NEWCGROUP)
        if self.unified:
            kernel.unmount(_ROOT)  # the same file system twice in one place is refused
            kernel.mount("cgroup2", _ROOT, "cgroup2")
            (_ROOT / _LEAF).mkdir()
            (_ROOT / _LEAF / "cgroup.procs").write_text("0")
            controllers = (_ROOT / "cgroup.controllers").read_text().split()
            (_ROOT / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))
            return
        kernel.tmpfs(_ROOT)
        for hierarchy in self.hierarchies:
            hierarchy.mount.mkdir()
            kernel.mount("cgroup", hierarchy.mount, "cgroup", options=hierarchy.options)

    def remove(self) -> None:
        """Remove them with everything below, as soon as no process is left."""
        deadline = time.monotonic() + _REMOVAL
        while any(map(_remains, self.folders())) and time.monotonic() < deadline:
            time.sleep(0.01)


def find() -> Cgroups:
    """The cgroups that a sandbox started by this process would have; nothing is made yet."""
    unified = (_ROOT / "cgroup.controllers").exists()
    hierarchies = () if unified else tuple(_hierarchies())
    if not unified and not hierarchies:
        raise SandboxError(
            "--cgroup: no cgroup hierarchy with controllers is mounted on this machine"
        )
    return Cgroups(hierarchies, f"slurm-vgpu-{os.getpid()}", unified)


def watched(cgroups: Cgroups) -> tuple[int, int]:
    """Start the process that removes the cgroups when the returned descriptor is closed, as it is
    when this process dies. Returns the descriptor and the watcher's pid."""
    read, write = os.pipe()

    def watch() -> int:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):  # whoever reads our output must not wait for the watcher
            os.dup2(null, target)
        os.close(write)
        os.read(read, 1)
        cgroups.remove()
        return 0

    watcher = processes.fork(watch)
    os.close(read)
    return write, watcher


def _hierarchies() -> Iterator[Hierarchy]:
    """Those of version 1, as /proc/self/mountinfo and /proc/self/cgroup tell them."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        own[controllers] = place
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, mount, *_ = before.split()
        fstype, _, options = after.split(" ", 2)
        if fstype == "cgroup" and Path(mount).parent == _ROOT:
            mounted = set(options.split(","))
            controllers = next(key for key in own if key and mounted.issuperset(key.split(",")))
            below = os.path.relpath(own[controllers], root)
            yield Hierarchy(Path(mount), _mount_options(controllers), Path(mount, below))


def _mount_options(controllers: str) -> str:
    return f"none,{controllers}" if controllers.startswith("name=") else controllers


def _remains(folder: Path) -> bool:
    """Remove the folder and those below it. Is any of them still there?"""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            Path(path).rmdir()
        except OSError:  # processes are still leaving
            return True
    return False
