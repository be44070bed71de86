"""What a sandbox looks like from inside: overlays, private folders, the checkout."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.sandbox import kernel
from tests.sandbox.paths import OVERLAYS, REPOSITORY, SOURCE, STAGE, VENV, VENV_INSIDE

_TEMPORARY = {"/tmp": 0o1777, "/var": 0o755, "/home": 0o755}
_VAR = ("cache", "lib", "log", "spool", "mail", "opt")


def stage() -> None:
    """Make the mounts private, and in a new /run the folders of the overlays' upper layers."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.tmpfs("/run")
    with kernel.umask(0):
        STAGE.mkdir(0o700)
        for name in OVERLAYS:
            (STAGE / name).mkdir(0o755)
            (STAGE / f"{name}.work").mkdir(0o700)
        Path("/run/lock").mkdir(0o1777)


def lay() -> None:
    """Lay overlays and private folders over the machine's; the checkout stays where it is."""
    for name in OVERLAYS:
        layers = f"lowerdir=/{name},upperdir={STAGE / name},workdir={STAGE / name}.work"
        kernel.mount("overlay", f"/{name}", "overlay", options=layers)
    # A folder that is going to be covered is held open, and bound in its old place afterwards.
    with _held(sorted({Path.cwd(), REPOSITORY, VENV})) as held:
        for name, mode in _TEMPORARY.items():
            kernel.tmpfs(name, mode)
        with kernel.umask(0):
            for name in _VAR:
                Path("/var", name).mkdir(0o755)
            Path("/var/tmp").mkdir(0o1777)
            Path("/var/run").symlink_to("/run")
            Path("/var/lock").symlink_to("/run/lock")
        with kernel.umask(0o022):
            for path, fd in held.items():
                if _covered(path) and not path.exists():
                    path.mkdir(parents=True)
                    kernel.bind(f"/proc/self/fd/{fd}", path)
            for inside, outside in ((SOURCE, REPOSITORY), (VENV_INSIDE, VENV)):
                inside.mkdir(parents=True)
                kernel.bind(f"/proc/self/fd/{held[outside]}", inside, read_only=True)
        os.chdir(Path.cwd())


def _covered(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in (*_TEMPORARY, "/run", "/dev"))


@contextmanager
def _held(paths: list[Path]) -> Iterator[dict[Path, int]]:
    fds = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in paths}
    try:
        yield fds
    finally:
        for fd in fds.values():
            os.close(fd)


def mount_proc() -> None:
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def name_host(name: str, address: str) -> None:
    kernel.sethostname(name)
    Path("/etc/hostname").write_text(f"{name}\n")
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{address} {name}\n")
