"""Put the suite and the simulated driver into a sandbox, where an installation would put them."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import BUILD, LIBDIR, PYTHON_INSIDE, REPOSITORY, SOURCE

DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


def install(root: Path) -> None:
    """`make install` into root: the overlays' upper layers, before they are mounted."""
    command = ["make", "--silent", "-C", str(REPOSITORY), "install"]
    variables = [
        f"DESTDIR={root}",
        "PREFIX=/usr",
        "SYSCONFDIR=/etc",
        f"LIBDIR={LIBDIR}",
        f"PYTHON={PYTHON_INSIDE}",
        "ALL=",  # install what is built, build nothing
    ]
    # A make that runs us, as `make test` does, is not to pass its own variables on.
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(command + variables, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(f"the suite is not built: run `make` first\n{done.stderr.strip()}")


def install_driver(root: Path) -> None:
    libdir = Path(f"{root}{LIBDIR}")
    libdir.mkdir(parents=True, exist_ok=True)
    for name in DRIVER:
        source = BUILD / "gpusim" / name
        if not source.exists():
            raise SandboxError(f"{source} is not there: run `make` first")
        shutil.copyfile(source, libdir / name)
        (libdir / name).chmod(0o755)


def link_runners(root: Path) -> None:
    """Put the runners on everybody's PATH: `gpusim stat`, `minicluster ctl` are of use inside."""
    folder = root / "usr" / "local" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for runner in ("gpusim/gpusim", "cluster/minicluster"):
        (folder / Path(runner).name).symlink_to(SOURCE / "tests" / runner)
