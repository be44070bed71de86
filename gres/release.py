"""Which release of Slurm the files are for."""

import re
import shutil
import subprocess

from pysched import paths

_PROGRAMS = ("slurmctld", "slurmd")
_FOLDERS = f"{paths.SLURM_PREFIX}/sbin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_RELEASE = re.compile(r"(2[0-9])\.(0[1-9]|1[0-2])(?:\.[0-9]+)?")


def parse(text: str) -> str:
    """``24.11.5`` or ``24.11`` -> ``24.11``; ValueError with one sentence otherwise."""
    match = _RELEASE.fullmatch(text)
    if match is None:
        raise ValueError(f'expected a release of Slurm such as 22.05 or 24.11, found "{text}"')
    return f"{match[1]}.{match[2]}"


def installed() -> str | None:
    """The release installed on this machine, such as 22.05."""
    version = installed_version()
    return parse(version) if version else None


def installed_version() -> str | None:
    """The version installed on this machine, such as 22.05.8."""
    for program in _PROGRAMS:
        path = shutil.which(program, path=_FOLDERS)
        if path is None:
            continue
        done = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=10, check=False)
        match = _RELEASE.search(done.stdout)
        if match:
            return match[0]
    return None
