"""A host started by its own systemd: process 1 of namespaces of its own, with the address 192.0.2.1
and no network."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# What the machine has is out of systemd's reach: /sys and the kernel's settings cannot be written.
_BOOT = """\
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 none run
mount -t tmpfs -o mode=755 none dev
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
touch dev/console
ln -s /proc/self/fd dev/fd
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ip link set lo up
ip address add 192.0.2.1/32 dev lo
pivot_root . mnt
umount --lazy /mnt
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    /lib/systemd/systemd --show-status=0 --log-target=journal
"""


@dataclass(frozen=True)
class Booted:
    init: int

    def run(self, script: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self.init}", "--mount", "--pid", "--net", "--uts", "--ipc",
                 "--cgroup"]  # fmt: skip
        change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        env = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        return subprocess.run(
            [*enter, *change, *env, "bash", "-e", "-c", script],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def check(self, script: str, user: str = "root") -> str:
        done = self.run(script, user)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def eventually(self, script: str, seconds: float = 60) -> str:
        """Until it succeeds. Returns what it then printed."""
        deadline = time.monotonic() + seconds
        while (done := self.run(script)).returncode != 0:
            assert time.monotonic() < deadline, f"{script}\n{done.stdout}{done.stderr}"
            time.sleep(0.2)
        return done.stdout


@contextmanager
def booted(root: Path) -> Iterator[Booted]:
    group = _cgroups() / f"vgpu-boot-{os.getpid()}"
    group.mkdir()
    try:
        process = subprocess.Popen(
            ["sh", "-c", f'echo $$ >"{group}/cgroup.procs"; exec "$@"', "sh",
             "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net",
             "--cgroup", "sh", "-c", _BOOT, "sh", root],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            host = Booted(_child(process))
            host.eventually("systemctl is-system-running --wait | grep -E 'running|degraded'")
            yield host
        finally:
            process.kill()
            process.communicate()
    finally:
        _remove(group)


def _child(process: "subprocess.Popen[str]") -> int:
    """systemd, as it is known here."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                return int(child)
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"systemd does not start: {process.communicate()[0]}")


def _cgroups() -> Path:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target)
    raise AssertionError("systemd needs version 2 of control groups, and none is mounted")


def _remove(group: Path) -> None:
    """When the last process is gone, which process 1 has taken along."""
    deadline = time.monotonic() + 30
    while (group / "cgroup.events").exists() and "populated 1" in (
        group / "cgroup.events"
    ).read_text():
        assert time.monotonic() < deadline, f"{group} does not become empty"
        time.sleep(0.05)
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()
