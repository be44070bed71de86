"""Put the suite and the simulated driver into a sandbox, where an installation would put them."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import BUILD, LIBDIR, PYTHON_INSIDE, REPOSITORY, SOURCE

DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


def install(root: Path) -> None:
    """`make install` into root: the overlays' upper layers, before they are mounted."""
    command = ["make", "--silent", "--keep-going", "-C", str(REPOSITORY), "install"]
    variables = [
        f"DESTDIR={root}",
        "PREFIX=/usr",
        "SYSCONFDIR=/etc",
        f"LIBDIR={LIBDIR}",
        f"PYTHON={PYTHON_INSIDE}",
        "ALL=",  # install what is built, build nothing
    ]
    done = subprocess.run(command + variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"sandbox: the suite is not complete:\n{done.stderr}", file=sys.stderr)


def install_driver(root: Path) -> None:
    libdir = Path(f"{root}{LIBDIR}")
    libdir.mkdir(parents=True, exist_ok=True)
    for name in DRIVER:
        source = BUILD / "gpusim" / name
        if not source.exists():
            continue
            raise SandboxError(f"the simulated driver {source} is not built: run `make` first")
        shutil.copyfile(source, libdir / name)
        (libdir / name).chmod(0o755)


def link_runners(root: Path) -> None:
    """Put the runners on everybody's PATH: `gpusim stat`, `minicluster ctl` are of use inside."""
    folder = root / "usr" / "local" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for runner in ("gpusim/gpusim", "cluster/minicluster"):
        (folder / Path(runner).name).symlink_to(SOURCE / "tests" / runner)
