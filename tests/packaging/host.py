"""A clean Debian with Slurm, to install packages on; gone when the test is over."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import roots
from tests.packaging.making import ROOT

# A host of a cluster before slurm-vgpu: Slurm, and what every Debian host has.
PACKAGES = ("slurmd", "slurmctld", "slurm-client", "munge", "systemd", "netbase", "apt-utils")
# Nobody is asked anything, and what is only recommended would take minutes.
APT_CONF = 'APT::Get::Assume-Yes "1";\nAPT::Install-Recommends "0";\n'
PYTHONS = {"bookworm": "python3.11", "trixie": "python3.13"}


@dataclass(frozen=True)
class Host:
    """Commands run in it as root, with the network of this machine."""

    copy: roots.Copy

    def run(self, script: str, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.copy.enter, "bash", "-e", "-c", f"cd {cwd}\n{script}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def check(self, script: str, cwd: str = "/") -> str:
        done = self.run(script, cwd)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def path(self, inside: str) -> Path:
        return self.copy.path / inside.lstrip("/")

    def files(self) -> dict[str, str]:
        """Path -> kind and mode, owner, target of a link: of all that is on its disk."""
        return {
            str(path)[len(str(self.copy.path)) :]: _described(path)
            for folder, folders, files in os.walk(self.copy.path)
            for path in (Path(folder, name) for name in (*folders, *files))
        }


def _described(path: Path) -> str:
    status = path.lstat()
    target = path.readlink() if path.is_symlink() else ""
    return f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {target}"


@contextmanager
def clean_host(suite: str) -> Iterator[Host]:
    """The checkout is there, too, for the runners of tests."""
    with tempfile.TemporaryDirectory(prefix="venv-") as folder:
        venv = _venv(Path(folder), PYTHONS[suite])
        binds = (roots.Bind(ROOT, ROOT), roots.Bind(venv, ROOT / "build" / "venv"))
        with roots.entered(suite, PACKAGES, binds, network=True) as copy:
            host = Host(copy)
            host.path("/etc/apt/apt.conf.d/99test").write_text(APT_CONF)
            yield host


def _venv(folder: Path, python: str) -> Path:
    """As much of a virtual environment as the runners need: one module."""
    site = folder / "lib" / python / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to("/usr/bin/python3")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    shutil.copy(ROOT / "build" / "bundled" / "hostlist.py", site)
    folder.chmod(0o755)
    return folder
