"""A private /dev: the usual nodes, and the device files of the simulated GPUs."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tests.sandbox import kernel

DEV = Path("/dev")
_NODES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def mount_dev(minors: Iterable[int]) -> None:
    """Lay a new /dev with terminals and shared memory of its own over the present one."""
    kernel.tmpfs(DEV)
    _fill(minors)
    kernel.mount(
        "devpts", DEV / "pts", "devpts", options="newinstance,ptmxmode=0666,mode=620,gid=5"
    )
    kernel.tmpfs(DEV / "shm", 0o1777)


def mount_node_dev(minors: Iterable[int]) -> None:
    """The same for a cluster's node, whose terminals and shared memory are the sandbox's."""
    shared = {name: os.open(DEV / name, os.O_PATH) for name in ("pts", "shm")}
    kernel.tmpfs(DEV)
    _fill(minors)
    for name, fd in shared.items():
        kernel.bind(f"/proc/self/fd/{fd}", DEV / name)
        os.close(fd)


def _fill(minors: Iterable[int]) -> None:
    with kernel.umask(0):
        for name, number in _NODES.items():
            os.mknod(DEV / name, 0o666 | stat.S_IFCHR, os.makedev(*number))
        for name, target in _LINKS.items():
            (DEV / name).symlink_to(target)
        for name in ("pts", "shm"):
            (DEV / name).mkdir(0o755)
        # Plain files: what matters is who can open them, and without a driver a device cannot be.
        for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)):
            (DEV / name).touch(0o666)
