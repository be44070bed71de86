"""Other Debians to work in: made once with mmdebstrap, entered in copies that are gone afterwards.

>>> from tests import roots
>>> with roots.entered("trixie", ["gcc"]) as copy:
...     subprocess.run([*copy.enter, "gcc", "--version"])
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = REPOSITORY / "build" / "roots"
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive")  # fmt: skip

# $1: the root; then for each bind SRC DST rbind|ro. By pivot_root, since a step's namespace needs a
# mount at "/", which a chroot does not have.
_ENTER = """\
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
shift
mount --rbind /dev dev
mount --rbind /proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 none run
while [ $# -gt 0 ]; do
    mkdir -p ".$2"
    mount --rbind "$1" ".$2"
    if [ "$3" = ro ]; then mount -o remount,bind,ro ".$2"; fi
    shift 3
done
pivot_root . mnt
umount --lazy /mnt
cd /
echo ready
exec cat
"""


class RootError(Exception):
    """One sentence: the root cannot be made or entered."""


@dataclass(frozen=True)
class Bind:
    source: Path
    target: Path
    read_only: bool = False


@dataclass(frozen=True)
class Copy:
    """A root of one's own."""

    path: Path  # from outside, without what is mounted inside
    enter: Sequence[str]  # the command that runs another one inside, as root


def root(suite: str, packages: Sequence[str]) -> Path:
    """The root of this suite with these packages, made where there is none. Not to be changed."""
    key = hashlib.sha256(",".join(sorted(packages)).encode()).hexdigest()[:12]
    found = ROOTS / f"{suite}-{key}"
    if found.exists():
        return found
    ROOTS.mkdir(parents=True, exist_ok=True)
    _run(REPOSITORY / "packaging" / "apt.sh", "mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="new-", dir=ROOTS) as folder:
        new = Path(folder) / "root"
        include = [f"--include={','.join(packages)}"] if packages else []
        _run("mmdebstrap", "--variant=minbase", *include, suite, new)
        if not found.exists():  # somebody else was quicker
            new.rename(found)
    return found


@contextmanager
def entered(
    suite: str, packages: Sequence[str], binds: Sequence[Bind] = (), *, network: bool = False
) -> Iterator[Copy]:
    """A copy of the root in a mount namespace of its own, until the block ends."""
    original = root(suite, packages)
    with tempfile.TemporaryDirectory(prefix="copy-", dir=ROOTS) as folder:
        copy = Path(folder) / "root"
        _run("cp", "-a", "--reflink=auto", original, copy)
        if network:
            shutil.copyfile("/etc/resolv.conf", copy / "etc" / "resolv.conf")
        process = _enter(copy, binds, network)
        namespaces = f"--target={process.pid}", "--mount", "--net"
        try:
            yield Copy(copy, ["nsenter", *namespaces, "env", "-i", *ENVIRONMENT])
        finally:
            process.communicate()


def _enter(copy: Path, binds: Sequence[Bind], network: bool) -> subprocess.Popen[bytes]:
    words = [
        str(word)
        for bind in binds
        for word in (bind.source, bind.target, "ro" if bind.read_only else "rbind")
    ]
    unshare = ["unshare", "--mount", *([] if network else ["--net"])]
    process = subprocess.Popen(
        [*unshare, "sh", "-c", _ENTER, "sh", str(copy), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        raise RootError(f"{copy} cannot be entered: {process.communicate()[1].decode().strip()}")
    return process


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if line.startswith("E:")] or lines[-1:]
        raise RootError(f"{command[0]} failed: {' '.join(errors)}")
