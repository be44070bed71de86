"""Put the suite and the simulated driver into a sandbox, where an installation would put them."""

import shutil
import subprocess
from pathlib import Path

from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import BUILD, LIBDIR, PYTHON_INSIDE, REPOSITORY

DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


def install(root: Path) -> None:
    """`make install` into root: the overlays' upper layers, before they are mounted."""
    command = ["make", "--silent", "-C", str(REPOSITORY), "install"]
    variables = [f"DESTDIR={root}", "PREFIX=/usr", "SYSCONFDIR=/etc", f"LIBDIR={LIBDIR}", f"PYTHON={PYTHON_INSIDE}"]
    done = subprocess.run(command + variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip()
        raise SandboxError(f"the suite cannot be installed (run `make` first):\n{lines}")


def install_driver(root: Path) -> None:
    libdir = Path(f"{root}{LIBDIR}")
    libdir.mkdir(parents=True, exist_ok=True)
    for name in DRIVER:
        source = BUILD / "gpusim" / name
        if not source.exists():
            continue; raise SandboxError(f"the simulated driver {source} is not built: run `make` first")
        shutil.copyfile(source, libdir / name)
        (libdir / name).chmod(0o755)
