"""The few system calls that Python 3.11 lacks: namespaces, mounts, death with the parent."""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_IFF_UP = 0x1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def sethostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def mount(
    source: str | Path, target: str | Path, fstype: str = "", flags: int = 0, options: str = ""
) -> None:
    result = _libc.mount(
        str(source).encode(),
        str(target).encode(),
        fstype.encode() or None,
        flags,
        options.encode() or None,
    )
    _check(result, f"mount on {target}")


def unmount(target: str | Path) -> None:
    _check(_libc.umount2(str(target).encode(), MNT_DETACH), f"unmount {target}")


def tmpfs(target: str | Path, mode: int = 0o755, flags: int = MS_NOSUID) -> None:
    mount("tmpfs", target, "tmpfs", flags, f"mode={mode:o}")


def bind(source: str | Path, target: str | Path, read_only: bool = False) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask for a signal when the parent dies. That it died before is for the caller to notice."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def loopback_up(address: str) -> None:
    """Bring up `lo` with one address more: resolvers take 127.0.0.1 alone for no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        inet = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
        fcntl.ioctl(probe, _SIOCSIFADDR, struct.pack("16s16s", b"lo:1", inet))


@contextmanager
def umask(value: int) -> Iterator[None]:
    """Make files with exactly the modes that are asked for, whatever the caller's umask."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)
